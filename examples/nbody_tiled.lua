-- Bodies that attract each other, as in nbody.lua, in tiles: the items of one read
-- as many bodies at a time as they are, once, and share them.
-- The kernels are in C++: only there are tiles.
--   celer run nbody_tiled.lua [bodies] [steps]      bodies: a multiple of 64
local celer = require "celer"

local n = tonumber(arg[1]) or 256
local steps = tonumber(arg[2]) or 20
local tile, dt = 64, 0.01

local q = celer.queue()

-- x, y, z and the mass; bodies on a spiral, the same for every run.
local function place(i)
  local angle, radius = i * 2.39996, math.sqrt((i + 0.5) / n)
  return { radius * math.cos(angle), radius * math.sin(angle), (i % 7 - 3) / 30, 1 / n }
end

local P = celer.buffer("double4", { n }, { name = "bodies", init = place })
local V = celer.buffer("double4", { n },
  { name = "velocities", init = function() return { 0, 0, 0, 0 } end })

local kernels = celer.kernel([[
  kernel void accelerate(tile<TILE> t, in<double4, 1> p, inout<double4, 1> v,
                         local<double4, TILE> near, double dt, int n) {
    auto sum = t.per_item<double3>({0, 0, 0});
    for (int first = 0; first < n; first += TILE) {
      t.each([&](item<1> it) { near[it.local(0)] = p(first + it.local(0)); });
      t.each([&](item<1> it) {
        const double4 me = p(it[0]);
        double3 a = sum[it];
        for (int j = 0; j < TILE; ++j) {
          const double4 other = near[j];
          const double dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
          const double d2 = dx * dx + dy * dy + dz * dz + 1e-4;
          const double f = other.w / (d2 * sqrt(d2));
          a.x += f * dx;
          a.y += f * dy;
          a.z += f * dz;
        }
        sum[it] = a;
      });
    }
    t.each([&](item<1> it) {
      double4 mine = v(it[0]);
      mine.x += sum[it].x * dt;
      mine.y += sum[it].y * dt;
      mine.z += sum[it].z * dt;
      v(it[0]) = mine;
    });
  }

  kernel void move(item<1> it, inout<double4, 1> p, in<double4, 1> v, double dt) {
    double4 me = p(it[0]);
    const double4 mine = v(it[0]);
    me.x += mine.x * dt;
    me.y += mine.y * dt;
    me.z += mine.z * dt;
    p(it[0]) = me;
  }
]], { defines = { TILE = tile } })

for _ = 1, steps do
  q:submit(function(cg)
    local p, v = cg:read(P, celer.all), cg:read_write(V)
    cg:parallel_for(n, kernels.accelerate, p, v, dt, n)
  end)
  q:submit(function(cg)
    local p, v = cg:read_write(P), cg:read(V)
    cg:parallel_for(n, kernels.move, p, v, dt)
  end)
end

local bodies, velocities = q:drain(celer.capture(P), celer.capture(V))
local energy = 0
for i = 0, n - 1 do
  local v = velocities(i)
  energy = energy + 0.5 * bodies(i).w * (v.x * v.x + v.y * v.y + v.z * v.z)
end
print(("%d bodies, %d steps: kinetic energy %.12g"):format(n, steps, energy))
