-- Bodies that attract each other, all with all: a struct shared by script
-- and kernels, which are written in Lua, and a buffer that every chunk reads whole.
--   celer run nbody.lua [bodies] [steps]
local celer = require "celer"

local n = tonumber(arg[1]) or 256
local steps = tonumber(arg[2]) or 20
local dt = 0.01

local body = celer.struct("body", "double x, y, z, m;")

-- Bodies on a spiral, the same for every run.
local function place(i)
  local angle, radius = i * 2.39996, math.sqrt((i + 0.5) / n)
  return { x = radius * math.cos(angle), y = radius * math.sin(angle),
    z = (i % 7 - 3) / 30, m = 1 / n }
end

local P = celer.buffer(body, { n }, { name = "bodies", init = place })
local V = celer.buffer("double3", { n },
  { name = "velocities", init = function() return { 0, 0, 0 } end })

local accelerate = celer.kernel(function(i, bodies, velocities)
  local me, mine = bodies[i], velocities[i]
  local ax, ay, az = 0, 0, 0
  for j = 0, n - 1 do
    local other = bodies[j]
    local dx, dy, dz = other.x - me.x, other.y - me.y, other.z - me.z
    local d2 = dx * dx + dy * dy + dz * dz + 1e-4
    local f = other.m / (d2 * math.sqrt(d2))
    ax, ay, az = ax + f * dx, ay + f * dy, az + f * dz
  end
  mine.x = mine.x + ax * dt
  mine.y = mine.y + ay * dt
  mine.z = mine.z + az * dt
end, { name = "accelerate" })

local move = celer.kernel(function(i, bodies, velocities)
  local me, mine = bodies[i], velocities[i]
  me.x = me.x + mine.x * dt
  me.y = me.y + mine.y * dt
  me.z = me.z + mine.z * dt
end, { name = "move" })

for _ = 1, steps do
  accelerate(n, P, V)
  move(n, P, V)
end

local bodies, velocities = celer.drain(P, V)
local energy, px, py = 0, 0, 0
for i = 0, n - 1 do
  local b, v = bodies(i), velocities(i)
  energy = energy + 0.5 * b.m * (v.x * v.x + v.y * v.y + v.z * v.z)
  px, py = px + b.m * v.x, py + b.m * v.y
end
print(("%d bodies, %d steps: kinetic energy %.12g"):format(n, steps, energy))
print(("momentum is kept: %s"):format(math.abs(px) + math.abs(py) < 1e-9))
