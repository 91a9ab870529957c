-- Poisson's equation on a square by multigrid: each V-cycle smooths on the fine
-- grid, corrects by a coarser one, and divides the residual by about five.
--   celer run multigrid.lua [size] [cycles]
local celer = require "celer"

local n = tonumber(arg[1]) or 255
local cycles = tonumber(arg[2]) or 8

-- Each grid has the points inside the square. Point i of a coarse grid lies on
-- point 2 i + 1 of the finer one.
local levels = {}
local points = n
repeat
  local level = { n = points, h = 2 / (points + 1) }
  for _, name in ipairs { "u", "next", "f", "r" } do
    level[name] = celer.buffer("double", { points, points }, { name = name .. points })
  end
  levels[#levels + 1] = level
  points = (points - 1) / 2
until points < 1 or points % 1 ~= 0

-- Beyond the grid lies the border, where u is 0.
local function at(u, y, x)
  local m = u.size[0]
  if y < 0 or x < 0 or y >= m or x >= m then return 0 end
  return u[y][x]
end
local function around(u, y, x)
  return at(u, y - 1, x) + at(u, y + 1, x) + at(u, y, x - 1) + at(u, y, x + 1)
end

local zero = celer.kernel(function(y, x, u) u[y][x] = 0 end, { name = "zero" })

-- Jacobi's step, damped by 4/5: errors that change from point to point vanish.
local smooth = celer.kernel(function(y, x, u, f, next, h)
  next[y][x] = u[y][x] + 0.2 * (around(u, y, x) - 4 * u[y][x] + h * h * f[y][x])
end, { name = "smooth" })

local residual = celer.kernel(function(y, x, u, f, r, h)
  r[y][x] = f[y][x] + (around(u, y, x) - 4 * u[y][x]) / (h * h)
end, { name = "residual" })

local restrict = celer.kernel(function(y, x, r, f)
  local sum = 0
  for dy = -1, 1 do
    for dx = -1, 1 do
      sum = sum + (2 - math.abs(dy)) * (2 - math.abs(dx)) * r[2 * y + 1 + dy][2 * x + 1 + dx]
    end
  end
  f[y][x] = sum / 16
end, { name = "restrict" })

-- Between coarse points the correction is the mean of its neighbours.
local correct = celer.kernel(function(y, x, u, coarse)
  local top, left = math.floor((y - 1) / 2), math.floor((x - 1) / 2)
  local bottom, right = math.floor(y / 2), math.floor(x / 2)
  u[y][x] = u[y][x] + (at(coarse, top, left) + at(coarse, top, right)
    + at(coarse, bottom, left) + at(coarse, bottom, right)) / 4
end, { name = "correct" })

local function relax(level, times)
  for _ = 1, times do
    smooth({ level.n, level.n }, level.u, level.f, level.next, level.h)
    level.u, level.next = level.next, level.u
  end
end

local function cycle(k)
  local fine, coarse = levels[k], levels[k + 1]
  if not coarse then return relax(fine, 8) end
  relax(fine, 2)
  residual({ fine.n, fine.n }, fine.u, fine.f, fine.r, fine.h)
  restrict({ coarse.n, coarse.n }, fine.r, coarse.f)
  zero({ coarse.n, coarse.n }, coarse.u)
  cycle(k + 1)
  correct({ fine.n, fine.n }, fine.u, coarse.u)
  relax(fine, 2)
end

-- The solution is sin(pi x) sin(pi y) on the square from -1 to 1.
local pi = math.pi
local fine = levels[1]
local source = celer.kernel(function(y, x, u, f, h)
  u[y][x] = 0
  f[y][x] = 2 * pi * pi * math.sin(pi * (y * h + h - 1)) * math.sin(pi * (x * h + h - 1))
end, { name = "source" })
source({ n, n }, fine.u, fine.f, fine.h)

local largest = celer.buffer("double")
local measure = celer.kernel(function(y, x, u, f, most, h)
  most:max(math.abs(f[y][x] + (around(u, y, x) - 4 * u[y][x]) / (h * h)))
end, { name = "measure" })
local distance = celer.kernel(function(y, x, u, most, h)
  most:max(math.abs(u[y][x] - math.sin(pi * (y * h + h - 1)) * math.sin(pi * (x * h + h - 1))))
end, { name = "distance" })

local before
for c = 0, cycles do
  if c > 0 then cycle(1) end
  measure({ n, n }, fine.u, fine.f, celer.reduce(largest, "max"), fine.h)
  local now = largest()
  print(("cycle %d: residual %.3e%s"):format(c, now,
    before and (", divided by %.1f"):format(before / now) or ""))
  before = now
end
distance({ n, n }, fine.u, celer.reduce(largest, "max"), fine.h)
print(("%d grids, error %.3e"):format(#levels, largest()))
celer.drain()
