-- Advection on blocks that are refined where something is to be seen.
--
--   celer run adaptive.lua [blocks along a side] [levels] [least change that is refined]
--
-- A square whose sides meet is covered by blocks of 8 x 8 cells, each as wide as its neighbors, or
-- half or twice as wide. A cell pushes what flows out of it to the cells that it flows into,
-- whatever their size and whichever rank has them; so nothing is lost. After some steps the script
-- looks how much changes within each block, and makes blocks anew: four of one, or one of four.
-- What cells hold goes over by the same means.
local celer = require "celer"
local q = celer.queue()

local side, levels = tonumber(arg[1]) or 4, tonumber(arg[2]) or 4
local LEAST = tonumber(arg[3]) or 0.02
local N = 8                       -- cells along a side of a block
local VX, VY = 1, 0.5
local floor = math.floor
local finest = side * N * 2 ^ (levels - 1)
local dt = 0.5 / finest           -- for all levels
local EVERY, STEPS = 4, finest / 2 -- a quarter of the way around

local function wanted(y, x, t)    -- at a time, when nothing wears away
  local dx, dy = (x - VX * t - 0.3) % 1, (y - VY * t - 0.4) % 1
  return math.exp(-((dx > 0.5 and dx - 1 or dx) ^ 2 + (dy > 0.5 and dy - 1 or dy) ^ 2) / 0.005)
end

-- ---- kernels -----------------------------------------------------------------------

-- Of a block: what lies to the east and to the north of it, as two blocks and which way: 0: one
-- like it, 1: two finer ones, 2 and 3: half of a coarser one.
local flow = celer.kernel(function(b, y, x, mass, near, courant, out)
  local m = mass[b][y][x]
  local fx, fy = m * VX * courant[b], m * VY * courant[b]
  out:push(b, y, x, m - fx - fy)
  if x < N - 1 then
    out:push(b, y, x + 1, fx)
  elseif near[b][2] == 0 then
    out:push(near[b][0], y, 0, fx)
  elseif near[b][2] == 1 then
    out:push(near[b][floor(y / 4)], y % 4 * 2, 0, fx / 2)
    out:push(near[b][floor(y / 4)], y % 4 * 2 + 1, 0, fx / 2)
  else
    out:push(near[b][0], (near[b][2] - 2) * 4 + floor(y / 2), 0, fx)
  end
  if y < N - 1 then
    out:push(b, y + 1, x, fy)
  elseif near[b][5] == 0 then
    out:push(near[b][3], 0, x, fy)
  elseif near[b][5] == 1 then
    out:push(near[b][3 + floor(x / 4)], 0, x % 4 * 2, fy / 2)
    out:push(near[b][3 + floor(x / 4)], 0, x % 4 * 2 + 1, fy / 2)
  else
    out:push(near[b][3], 0, (near[b][5] - 2) * 4 + floor(x / 2), fy)
  end
end, { name = "flow" })
-- How much changes from cell to cell of a block.
local look = celer.kernel(function(b, y, x, mass, courant, change)
  local m, east, north = mass[b][y][x], mass[b][y][math.min(x + 1, N - 1)],
    mass[b][math.min(y + 1, N - 1)][x]
  change[b]:max(math.max(math.abs(east - m), math.abs(north - m)) * (courant[b] / dt) ^ 2)
end, { name = "look" })
-- To other blocks: 0: to one like it, 1: to four, 2 to 5: to a quarter of one.
local move = celer.kernel(function(b, y, x, mass, to, out)
  local m, way = mass[b][y][x], to[b][4]
  if way == 0 then
    out:push(to[b][0], y, x, m)
  elseif way == 1 then
    local k = floor(y / 4) * 2 + floor(x / 4)
    out:push(to[b][k], y % 4 * 2, x % 4 * 2, m / 4)
    out:push(to[b][k], y % 4 * 2, x % 4 * 2 + 1, m / 4)
    out:push(to[b][k], y % 4 * 2 + 1, x % 4 * 2, m / 4)
    out:push(to[b][k], y % 4 * 2 + 1, x % 4 * 2 + 1, m / 4)
  else
    local k = way - 2
    out:push(to[b][0], floor(k / 2) * 4 + floor(y / 2), k % 2 * 4 + floor(x / 2), m)
  end
end, { name = "move" })
local compare = celer.kernel(function(b, y, x, mass, place, t, total, wrong)
  local h = place[b][2]
  total:add(mass[b][y][x])
  wrong:add(math.abs(mass[b][y][x]
    - h * h * wanted(place[b][0] + (y + 0.5) * h, place[b][1] + (x + 0.5) * h, t)))
end, { name = "compare" })

-- ---- blocks ------------------------------------------------------------------------

local function across(level) return side * 2 ^ level end
local function key(level, i, j)
  return (level * 4096 + i % across(level)) * 4096 + j % across(level)
end

-- From what is split to the blocks that are not, in an order that keeps neighbors together.
local function leaves(split)
  local list, number = {}, {}
  local function visit(level, i, j)
    if split[key(level, i, j)] then
      for k = 0, 3 do visit(level + 1, 2 * i + floor(k / 2), 2 * j + k % 2) end
    else
      list[#list + 1] = { level, i, j }
      number[key(level, i, j)] = #list - 1
    end
  end
  for i = 0, side - 1 do for j = 0, side - 1 do visit(0, i, j) end end
  return list, number
end

-- What is to be split, as blocks say: themselves, or their parents as now, or theirs.
local function vote(list, change)
  local split = {}
  local function want(level, i, j)
    while level >= 0 and not split[key(level, i, j)] do
      split[key(level, i, j)] = true
      for _, d in ipairs { { 0, 1 }, { 1, 0 }, { 0, -1 }, { -1, 0 } } do -- as wide, or half
        want(level - 1, floor((i + d[1]) % across(level) / 2),
          floor((j + d[2]) % across(level) / 2))
      end
      level, i, j = level - 1, floor(i / 2), floor(j / 2)
    end
  end
  for b, at in ipairs(list) do
    local c, level = change(b - 1), at[1]
    local up = c >= LEAST and level < levels - 1 and 0 or c >= LEAST / 4 and 1 or 2
    want(level - up, floor(at[2] / 2 ^ up), floor(at[3] / 2 ^ up))
  end
  return split
end

local function beside(number, level, i, j, di, dj)
  i, j = (i + di) % across(level), (j + dj) % across(level)
  local same, coarse = number[key(level, i, j)], number[key(level - 1, floor(i / 2), floor(j / 2))]
  if same then return { same, same, 0 } end
  if coarse then return { coarse, coarse, 2 + (dj == 1 and i or j) % 2 } end
  return { number[key(level + 1, 2 * i, 2 * j)],
    number[key(level + 1, 2 * i + dj, 2 * j + di)], 1 }
end

-- The buffers of blocks.
local function mesh(split)
  local list, number = leaves(split)
  local n, near, place = #list, {}, {}
  for b, at in ipairs(list) do
    local level, i, j = unpack(at)
    local east, north = beside(number, level, i, j, 0, 1), beside(number, level, i, j, 1, 0)
    near[b] = { east[1], east[2], east[3], north[1], north[2], north[3] }
    local h = 1 / (across(level) * N)
    place[b] = { i * N * h, j * N * h, h }
  end
  return { n = n, list = list, number = number,
    near = celer.buffer("int", { n, 6 }, { init = near }),
    place = celer.buffer("double", { n, 3 }, { init = place }),
    courant = celer.buffer("double", n, { init = function(b) return dt / place[b + 1][3] end }),
    mass = celer.buffer("double", { n, N, N }, { init = function(b, y, x)
      local y0, x0, h = unpack(place[b + 1])
      return h * h * wanted(y0 + (y + 0.5) * h, x0 + (x + 0.5) * h, 0)
    end }) }
end

local function changes(now)
  local change = celer.buffer("double", now.n)
  q:parallel_for({ now.n, N, N }, look, now.mass, now.courant, celer.reduce(change, "max"))
  return q:wait(change)
end

-- Where the blocks of one mesh go in another.
local function ways(old, new)
  local to = {}
  for b, at in ipairs(old.list) do
    local level, i, j = unpack(at)
    local same = new.number[key(level, i, j)]
    local parent = new.number[key(level - 1, floor(i / 2), floor(j / 2))]
    local function child(k)
      return new.number[key(level + 1, 2 * i + floor(k / 2), 2 * j + k % 2)]
    end
    to[b] = same and { same, 0, 0, 0, 0 } or parent and { parent, 0, 0, 0, 2 + i % 2 * 2 + j % 2 }
      or { child(0), child(1), child(2), child(3), 1 }
  end
  return celer.buffer("int", { old.n, 5 }, { init = to })
end

-- ---- time steps --------------------------------------------------------------------

local now = mesh {}
for _ = 1, levels do now = mesh(vote(now.list, changes(now))) end
local total, wrong = celer.scalar("double", 0), celer.scalar("double", 0)
local function measure(t)
  q:parallel_for({ now.n, N, N }, compare, now.mass, now.place, t,
    celer.sum(total, { reproducible = true }), celer.sum(wrong, { reproducible = true }))
  local m, w = q:wait(total, wrong)
  return m(), w()
end
local begin, cells, least, most = measure(0), 0, now.n, now.n
for step = 1, STEPS do
  local next = celer.buffer("double", { now.n, N, N })
  q:parallel_for({ now.n, N, N }, flow, now.mass, now.near, now.courant, celer.route(next, "sum"))
  now.mass = next
  cells = cells + now.n * N * N
  if step % EVERY == 0 then
    local new = mesh(vote(now.list, changes(now)))
    q:parallel_for({ now.n, N, N }, move, now.mass, ways(now, new), celer.route(new.mass, "sum"))
    now, least, most = new, math.min(least, new.n), math.max(most, new.n)
  end
end
local mass, apart = measure(STEPS * dt)
print(("%d steps, %d to %d blocks: %.1f %% of the finest cells"):format(STEPS, least, most,
  100 * cells / STEPS / finest ^ 2))
print(("mass %.17g, kept to 1e-12: %s"):format(mass, math.abs(mass / begin - 1) < 1e-12))
print(("apart from the exact solution by %.9e of it"):format(apart / begin))
