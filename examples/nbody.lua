-- Bodies that attract each other, all with all: a struct shared by Lua and the
-- kernel, and a buffer that every chunk reads whole.
--   celer run nbody.lua [bodies] [steps]
local celer = require "celer"

local n = tonumber(arg[1]) or 256
local steps = tonumber(arg[2]) or 20
local dt = 0.01

local q = celer.queue()
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

local kernels = celer.kernel [[
  kernel void accelerate(item<1> it, in<body, 1> p, inout<double3, 1> v, double dt,
                         int n) {
    const body me = p(it[0]);
    double ax = 0, ay = 0, az = 0;
    for (int j = 0; j < n; ++j) {
      const body other = p(j);
      const double dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
      const double d2 = dx * dx + dy * dy + dz * dz + 1e-4;
      const double f = other.m / (d2 * sqrt(d2));
      ax += f * dx;
      ay += f * dy;
      az += f * dz;
    }
    double3 mine = v(it[0]);
    mine.x += ax * dt;
    mine.y += ay * dt;
    mine.z += az * dt;
    v(it[0]) = mine;
  }

  kernel void move(item<1> it, inout<body, 1> p, in<double3, 1> v, double dt) {
    body me = p(it[0]);
    const double3 mine = v(it[0]);
    me.x += mine.x * dt;
    me.y += mine.y * dt;
    me.z += mine.z * dt;
    p(it[0]) = me;
  }
]]

for _ = 1, steps do
  q:submit(function(cg)
    local p, v = cg:read(P, celer.all), cg:read_write(V)
    cg:parallel_for({ n }, kernels.accelerate, p, v, dt, n)
  end)
  q:submit(function(cg)
    local p, v = cg:read_write(P), cg:read(V)
    cg:parallel_for({ n }, kernels.move, p, v, dt)
  end)
end

local bodies, velocities = q:drain(celer.capture(P), celer.capture(V))
local energy, px, py = 0, 0, 0
for i = 0, n - 1 do
  local b, v = bodies(i), velocities(i)
  energy = energy + 0.5 * b.m * (v.x * v.x + v.y * v.y + v.z * v.z)
  px, py = px + b.m * v.x, py + b.m * v.y
end
print(("%d bodies, %d steps: kinetic energy %.12g"):format(n, steps, energy))
print(("momentum is kept: %s"):format(math.abs(px) + math.abs(py) < 1e-9))
