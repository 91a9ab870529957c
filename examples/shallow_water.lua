-- A dam breaks: the shallow water equations in a square basin with walls, by
-- finite volumes, with a picture of the depth. The kernel is written in Lua.
--   celer run shallow_water.lua [size] [time] [round | straight] [picture]
-- For a straight dam the depth between the two waves is known: Stoker's solution.
local celer = require "celer"

local n = tonumber(arg[1]) or 256
local duration = tonumber(arg[2]) or 0.3
local straight = arg[3] == "straight"
local path = arg[4] or "shallow_water.png"

local gravity, high, low = 1, 2, 1
local steps = math.ceil(duration * n / 0.2)
local ratio = duration * n / steps -- the time step over the size of a cell

-- The depth, and how much flows to the right and down: depth times velocity.
local water = celer.struct("water", "double depth; double x; double y;")

-- The flow between two states whose slowest and fastest waves are known, by
-- Harten, Lax and van Leer.
local function between(slow, fast, flow_a, flow_b, a, b)
  return (fast * flow_a - slow * flow_b + slow * fast * (b - a)) / (fast - slow)
end

-- What crosses the border from a to b: depth, flow p across it, and flow q along it.
local function cross(ha, pa, qa, hb, pb, qb)
  local ua, ub = pa / ha, pb / hb
  local ca, cb = math.sqrt(gravity * ha), math.sqrt(gravity * hb)
  local slow, fast = math.min(ua - ca, ub - cb, 0), math.max(ua + ca, ub + cb, 0)
  return between(slow, fast, pa, pb, ha, hb),
    between(slow, fast, pa * ua + gravity / 2 * ha * ha, pb * ub + gravity / 2 * hb * hb, pa, pb),
    between(slow, fast, qa * ua, qb * ub, qa, qb)
end

local step = celer.kernel(function(y, x, now, after)
  local here = now[y][x]
  local left, right = now[y][math.max(x - 1, 0)], now[y][math.min(x + 1, n - 1)]
  local above, below = now[math.max(y - 1, 0)][x], now[math.min(y + 1, n - 1)][x]

  -- Behind a wall the same water comes the other way.
  local lx, rx = x == 0 and -left.x or left.x, x == n - 1 and -right.x or right.x
  local ay, by = y == 0 and -above.y or above.y, y == n - 1 and -below.y or below.y

  local h1, x1, y1 = cross(left.depth, lx, left.y, here.depth, here.x, here.y)
  local h2, x2, y2 = cross(here.depth, here.x, here.y, right.depth, rx, right.y)
  local h3, y3, x3 = cross(above.depth, ay, above.x, here.depth, here.y, here.x)
  local h4, y4, x4 = cross(here.depth, here.y, here.x, below.depth, by, below.x)

  local new = after[y][x]
  new.depth = here.depth + ratio * (h1 - h2 + h3 - h4)
  new.x = here.x + ratio * (x1 - x2 + x3 - x4)
  new.y = here.y + ratio * (y1 - y2 + y3 - y4)
end, { name = "step" })

local function first(y, x)
  local dy, dx = (y + 0.5) / n - 0.5, (x + 0.5) / n - 0.5
  local inside = dy * dy + dx * dx < 0.04
  if straight then inside = dx < 0 end
  return { depth = inside and high or low, x = 0, y = 0 }
end
local now = celer.buffer(water, { n, n }, { name = "now", init = first })
local after = celer.buffer(water, { n, n }, { name = "after" })

for _ = 1, steps do
  step({ n, n }, now, after)
  now, after = after, now
end

celer.io.save(path, now, { field = "depth", colors = "viridis" })
local final = celer.drain(now)
local volume = 0
for y = 0, n - 1 do
  for x = 0, n - 1 do volume = volume + final(y, x).depth / n ^ 2 end
end
local middle = (n - n % 2) / 2
print(("%d steps on %d x %d: volume %.12g, depth in the middle %.9g"):format(steps, n, n,
  volume, final(middle, middle).depth))
print("picture: " .. path)
