-- N-body in celer.
--   celer run nbody.lua bodies steps [double [times]]
local celer = require "celer"
local measure = require "measure"

local n, steps = tonumber(arg[1]) or 512, tonumber(arg[2]) or 4
local T = arg[3] == "double" and "double" or "float"
local warm, dt = 1, 0.01

local q = celer.queue()
local P = celer.buffer(T .. "4", { n }, { name = "places" })
local V = celer.buffer(T .. "4", { n }, { name = "velocities" })
local energy = celer.buffer("double", { n }, { name = "energy" })

local text = [[
  __device__ inline float inverse_root(float x) { return rsqrtf(x); }
  __device__ inline double inverse_root(double x) { return rsqrt(x); }

  __device__ inline void pull(T4 o, T4 me, T &ax, T &ay, T &az) {
    const T dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
    const T r = inverse_root(dx * dx + dy * dy + dz * dz + T(1e-4));
    const T f = o.w * r * r * r;
    ax += f * dx;
    ay += f * dy;
    az += f * dz;
  }

  kernel void place(item<1> it, out<T4, 1> p, out<T4, 1> v) {
    const int i = it[0], n = it.range(0);
    const double angle = i * 2.39996, radius = sqrt((i + 0.5) / n);
    T4 me = {};
    v(i) = me;
    me.x = T(radius * cos(angle));
    me.y = T(radius * sin(angle));
    me.z = T((i % 7 - 3) / 30.0);
    me.w = T(1.0 / n);
    p(i) = me;
  }

  kernel void move(item<1> it, inout<T4, 1> p, in<T4, 1> v, T dt) {
    const int i = it[0];
    T4 me = p(i);
    const T4 mine = v(i);
    me.x += mine.x * dt;
    me.y += mine.y * dt;
    me.z += mine.z * dt;
    p(i) = me;
  }

  kernel void square(item<1> it, in<T4, 1> v, out<double, 1> e) {
    const T4 m = v(it[0]);
    e(it[0]) = (double)m.x * m.x + (double)m.y * m.y + (double)m.z * m.z;
  }
]]

local tiles = [[
  #define TILE 256
  kernel void accelerate(tile<TILE> t, in<T4, 1> p, inout<T4, 1> v, local<T4, TILE> near,
                         T dt, int n) {
    auto a = t.per_item<T3>({});
    for (int from = 0; from < n; from += TILE) {
      t.each([&](item<1> it) { near[it.local(0)] = p(from + it.local(0)); });
      t.each([&](item<1> it) {
        const T4 me = p(it[0]);
        T3 sum = a[it];
  #pragma unroll 8
        for (int j = 0; j < TILE; ++j) pull(near[j], me, sum.x, sum.y, sum.z);
        a[it] = sum;
      });
    }
    t.each([&](item<1> it) {
      T4 mine = v(it[0]);
      mine.x += a[it].x * dt;
      mine.y += a[it].y * dt;
      mine.z += a[it].z * dt;
      v(it[0]) = mine;
    });
  }
]]

text = text .. tiles
local k = celer.kernel((text:gsub("%f[%w_]T([34])%f[^%w_]", T .. "%1"):gsub(
  "%f[%w_]T%f[^%w_]", T)))

q:submit(function(cg)
  cg:parallel_for({ n }, k.place, cg:discard_write(P), cg:discard_write(V))
end)
measure.loop(q, warm, steps, function(from, to)
  for _ = from, to - 1 do
    q:submit(function(cg)
      local p, v = cg:read(P, celer.all), cg:read_write(V)
      cg:parallel_for({ n }, k.accelerate, p, v, dt, n)
    end)
    q:submit(function(cg)
      local p, v = cg:read_write(P), cg:read(V)
      cg:parallel_for({ n }, k.move, p, v, dt)
    end)
  end
end, tonumber(arg[4]))
q:submit(function(cg)
  cg:parallel_for({ n }, k.square, cg:read(V), cg:discard_write(energy))
end)
measure.report(measure.sum(q, energy, n))
