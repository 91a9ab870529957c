-- A glowing knot cools down: the 3-D heat equation by a seven-point stencil. Ranks and
-- devices share the cube in blocks, whose surfaces they exchange; a picture shows it
-- seen through, as bright as the hottest point behind each of its own. Kernels in Lua.
--   celer run heat3d.lua [size] [steps] [picture] [split]
local celer = require "celer"

local n = tonumber(arg[1]) or 128
local steps = tonumber(arg[2]) or 60
local path = arg[3] or "knot.png"
local split = arg[4] or "3d"
local points = 256 -- of the curve

-- 1 within a wire along a curve, 0 around it.
local wire = celer.kernel(function(z, y, x, curve, heat, thick)
  local nearest = math.huge
  for i = 0, points - 1 do
    local dz, dy, dx = z - curve[i].z, y - curve[i].y, x - curve[i].x
    nearest = math.min(nearest, dx * dx + dy * dy + dz * dz)
  end
  heat[z][y][x] = nearest < thick * thick and 1 or 0
end, { name = "wire" })

local spread = celer.kernel(function(z, y, x, u, after)
  local here = u[z][y][x]
  local dz = u[math.min(z + 1, n - 1)][y][x] + u[math.max(z - 1, 0)][y][x]
  local dy = u[z][math.min(y + 1, n - 1)][x] + u[z][math.max(y - 1, 0)][x]
  local dx = u[z][y][math.min(x + 1, n - 1)] + u[z][y][math.max(x - 1, 0)]
  after[z][y][x] = here + 0.125 * (dz + dy + dx - 6 * here)
end, { name = "spread" })

-- What is further away is darker.
local look = celer.kernel(function(y, x, heat, seen)
  local most = 0
  for z = 0, n - 1 do most = math.max(most, heat[z][y][x] * (1.2 - z / n)) end
  seen[y][x] = most
end, { name = "look" })

local q = celer.queue()
local heat = celer.buffer("float", { n, n, n }, { name = "heat" })
local after = celer.buffer("float", { n, n, n }, { name = "after" })
local seen = celer.buffer("float", { n, n }, { name = "seen" })

-- A trefoil knot in the middle of the cube. Depth, z, is dimension 0.
local curve = celer.buffer("float3", { points }, { name = "curve", init = function(i)
  local t = 2 * math.pi * i / points
  return { x = n / 2 + n / 7 * (math.sin(t) + 2 * math.sin(2 * t)),
    y = n / 2 + n / 7 * (math.cos(t) - 2 * math.cos(2 * t)),
    z = n / 2 + n / 7 * math.sin(3 * t) }
end })

q:hint { split = split }
q:parallel_for({ n, n, n }, wire, curve, heat, n / 20)
for _ = 1, steps do
  q:parallel_for({ n, n, n }, spread, heat, after)
  heat, after = after, heat
end
q:hint { split = "2d" }
q:parallel_for({ n, n }, look, heat, seen)
celer.io.save(path, seen, { min = 0, max = 0.7, colors = "inferno" })

local picture, light = q:drain(seen), 0
for y = 0, n - 1 do
  for x = 0, n - 1 do light = light + picture(y, x) end
end
print(("%d steps in %d x %d x %d, light %.9g"):format(steps, n, n, n, light))
print("picture: " .. path)
