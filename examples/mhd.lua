-- Magnetohydrodynamics by finite volumes: the vortex of Orszag and Tang, with a
-- picture of the density, or the shock tube of Brio and Wu. Kernels in Lua.
--   celer run mhd.lua [vortex | tube] [size] [time] [picture]
local celer = require "celer"

-- Nine numbers in each cell: density, momentum, field, energy, and psi, which
-- carries away what the field diverges (Dedner and others).
local density, momentum, field, energy, psi = 0, 1, 4, 7, 8

local function conserved(gamma, rho, v, b, p)
  local square = function(a) return a[1] ^ 2 + a[2] ^ 2 + a[3] ^ 2 end
  return { rho, rho * v[1], rho * v[2], rho * v[3], b[1], b[2], b[3],
    p / (gamma - 1) + rho * square(v) / 2 + square(b) / 2, 0 }
end

local problems = {
  vortex = { gamma = 5 / 3, speed = 3, time = 0.5, height = 192, width = 192,
    edge = function(k, n) return k % n end,
    at = function(gamma, y, x)
      local pi = math.pi
      local s, t, r = math.sin(2 * pi * y), math.sin(2 * pi * x), math.sqrt(4 * pi)
      return conserved(gamma, 25 / (36 * pi), { -s, t, 0 },
        { -s / r, math.sin(4 * pi * x) / r, 0 }, 5 / (12 * pi))
    end },
  tube = { gamma = 2, speed = 5, time = 0.1, height = 1, width = 800,
    edge = function(k, n) return math.max(0, math.min(k, n - 1)) end,
    at = function(gamma, _, x)
      local left = x < 0.5
      return conserved(gamma, left and 1 or 0.125, { 0, 0, 0 },
        { 0.75, left and 1 or -1, 0 }, left and 1 or 0.1)
    end },
}
local name = arg[1] or "vortex"
local problem = problems[name] or error("there is no problem " .. name)
local w = tonumber(arg[2]) or problem.width
local h = problem.height == 1 and 1 or w
local duration = tonumber(arg[3]) or problem.time
local path = arg[4] or "mhd.png"

local gamma, speed, edge = problem.gamma, problem.speed, problem.edge
local steps = math.ceil(duration * w * speed / 0.4)
local ratio = duration * w / steps -- the time step over the size of a cell
local fade = math.exp(-0.1 * speed * ratio)

local function minmod(a, b)
  if a * b <= 0 then return 0 end
  return math.abs(a) < math.abs(b) and a or b
end

-- Of a state: velocity and field along d, total pressure, velocity times field,
-- and the speed of the fastest wave.
local function waves(u, y, x, d)
  local rho = u[y][x][density]
  local vv, bb, vb = 0, 0, 0
  for k = 0, 2 do
    local v, b = u[y][x][momentum + k] / rho, u[y][x][field + k]
    vv, bb, vb = vv + v * v, bb + b * b, vb + v * b
  end
  local v, b = u[y][x][momentum + d] / rho, u[y][x][field + d]
  local p = (gamma - 1) * (u[y][x][energy] - rho * vv / 2 - bb / 2)
  local sum = (gamma * p + bb) / rho
  local fast = (sum + math.sqrt(sum * sum - 4 * gamma * p * b * b / (rho * rho))) / 2
  return v, b, p + bb / 2, vb, math.abs(v) + math.sqrt(fast)
end

-- How much of number k flows along d.
local function flow_of(u, y, x, k, d, v, b, pressure, vb)
  local carried = u[y][x][k] * v
  if k == density then return carried end
  if k < field then
    return carried - b * u[y][x][k + 3] + (k == momentum + d and pressure or 0)
  elseif k < energy then
    return carried - b * u[y][x][k - 3] / u[y][x][density] + (k == field + d and u[y][x][psi] or 0)
  elseif k == energy then
    return carried + pressure * v - b * vb
  end
  return speed * speed * b
end

-- Along x, d = 0, or y, d = 1: two kernels, of which cells come before and behind another.
local function along(d, before, behind)
  -- In each cell a straight line: what it has at its lower and its upper border.
  local borders = celer.kernel(function(y, x, u, low, high)
    local y0, x0 = before(y, x)
    local y1, x1 = behind(y, x)
    for k = 0, 8 do
      local here = u[y][x][k]
      local slope = minmod(here - u[y0][x0][k], u[y1][x1][k] - here)
      low[y][x][k] = here - slope / 2
      high[y][x][k] = here + slope / 2
    end
  end, { name = "borders" })

  -- The flow over the lower border of each cell, by Rusanov.
  local cross = celer.kernel(function(y, x, low, high, flow)
    local y0, x0 = before(y, x)
    local v0, b0, p0, vb0, fast0 = waves(high, y0, x0, d)
    local v1, b1, p1, vb1, fast1 = waves(low, y, x, d)
    for k = 0, 8 do
      local fast = math.max(fast0, fast1)
      if k == psi or k == field + d then fast = speed end
      flow[y][x][k] = (flow_of(high, y0, x0, k, d, v0, b0, p0, vb0)
        + flow_of(low, y, x, k, d, v1, b1, p1, vb1)
        - fast * (low[y][x][k] - high[y0][x0][k])) / 2
    end
  end, { name = "cross" })
  return { borders = borders, cross = cross }
end
local directions = {
  along(0, function(y, x) return y, edge(x - 1, w) end,
    function(y, x) return y, edge(x + 1, w) end),
  along(1, function(y, x) return edge(y - 1, h), x end,
    function(y, x) return edge(y + 1, h), x end),
}

-- Mixes the state of before with what the flows make of u.
local advance = celer.kernel(function(y, x, before, u, along_x, along_y, after, part)
  for k = 0, 8 do
    local change = along_x[y][x][k] - along_x[y][edge(x + 1, w)][k]
      + along_y[y][x][k] - along_y[edge(y + 1, h)][x][k]
    local new = (1 - part) * before[y][x][k] + part * (u[y][x][k] + ratio * change)
    after[y][x][k] = k == psi and fade * new or new
  end
end, { name = "advance" })

local function grid(what, init)
  return celer.buffer("double", { h, w, 9 }, { name = what, init = init })
end
local state = grid("state", function(y, x, k)
  return problem.at(gamma, (y + 0.5) / h, (x + 0.5) / w)[k + 1]
end)
local middle, next_state = grid "middle", grid "next_state"
local low, high = grid "low", grid "high"
local flows = { grid "flow along x", grid "flow along y" }

-- What a state becomes in a step; the second stage takes the mean of both.
local function stage(u, after, part)
  for d, kernels in ipairs(directions) do
    kernels.borders({ h, w }, u, low, high)
    kernels.cross({ h, w }, low, high, flows[d])
  end
  advance({ h, w }, state, u, flows[1], flows[2], after, part)
end

for _ = 1, steps do
  stage(state, middle, 1)
  stage(middle, next_state, 0.5)
  state, next_state = next_state, state
end

if name == "vortex" then
  local image = { plane = { dim = 2, at = density }, colors = "inferno" }
  celer.io.save(path, state, image)
end
local final = celer.drain(state)
print(("%s of %d x %d, %d steps"):format(name, h, w, steps))
if name == "tube" then -- one place in each of the states between the waves
  for _, x in ipairs { 0.1, 0.45, 0.51, 0.6, 0.75, 0.95 } do
    local cell = math.floor(x * w)
    print(("x = %.2f: density %.5f, field %.5f"):format(x, final(0, cell, density),
      final(0, cell, field + 1)))
  end
else
  local mass, magnetic = 0, 0
  for y = 0, h - 1 do
    for x = 0, w - 1 do
      mass = mass + final(y, x, density) / (h * w)
      for k = field, field + 2 do magnetic = magnetic + final(y, x, k) ^ 2 / (2 * h * w) end
    end
  end
  print(("mass %.12g, magnetic energy %.9g, picture %s"):format(mass, magnetic, path))
end
