--- languages.lua -- the same kernels in Lua and in C++, in turns, in one run.
---
---   CELER_CACHE=$(mktemp -d) celer run [--backend cuda] spec/bench/languages.lua [rounds]
---     [name ...]
---
--- `ratio`: the time of the kernel in C++ over that in Lua, the median of the rounds; target:
--- at least 0.97. `compile`: seconds from the kernel's definition to the end of its first
--- task, in C++ and in Lua; with an empty cache, as above. On the processor both must give
--- the same bits. The last line is JSON.
local celer = require "celer"
local gpu = require("celer.core").devices() == "cuda"
local rounds = tonumber(arg[1]) or (gpu and 15 or 7)
local chosen = {}
for i = tonumber(arg[1]) and 2 or 1, #arg do chosen[arg[i]] = true end

local q = celer.queue()

local function sized(processor, cuda) return gpu and cuda or processor end

local function filled(type_, extents, seed)
  local b = celer.buffer(type_, extents, { name = "from" })
  b:set(celer.math.uniform(seed))
  return b
end

local cases = {}

do
  local n = sized(2048, 16384)
  cases[#cases + 1] = { name = "wave", range = { n, n }, times = sized(10, 20),
    buffers = function() return { filled("float", { n, n }, 1), filled("float", { n, n }, 2) } end,
    lua = function(y, x, now, before, c)
      local ys = now[math.min(y + 1, n - 1)][x] + now[math.max(y - 1, 0)][x]
      local xs = now[y][math.min(x + 1, n - 1)] + now[y][math.max(x - 1, 0)]
      before[y][x] = 2 * now[y][x] - before[y][x] + c * (xs + ys - 4 * now[y][x])
    end,
    cpp = [[kernel void wave(item<2> it, in<float, 2> now, inout<float, 2> before, float c) {
      const int y = it[0], x = it[1], n = it.range(0);
      const float ys = now(min(y + 1, n - 1), x) + now(max(y - 1, 0), x);
      const float xs = now(y, min(x + 1, n - 1)) + now(y, max(x - 1, 0));
      before(y, x) = 2 * now(y, x) - before(y, x) + c * (xs + ys - 4 * now(y, x));
    }]],
    accesses = function(cg, b)
      return cg:read(b[1], celer.neighborhood(1, 1, "along_axes")), cg:read_write(b[2]), 0.25
    end,
    values = { 0.25 } }
end

do
  local n = sized(160, 640)
  cases[#cases + 1] = { name = "heat3d", range = { n, n, n }, times = sized(10, 20),
    buffers = function()
      return { filled("float", { n, n, n }, 1), celer.buffer("float", { n, n, n }) }
    end,
    lua = function(z, y, x, u, after)
      local here = u[z][y][x]
      local dz = u[math.min(z + 1, n - 1)][y][x] + u[math.max(z - 1, 0)][y][x]
      local dy = u[z][math.min(y + 1, n - 1)][x] + u[z][math.max(y - 1, 0)][x]
      local dx = u[z][y][math.min(x + 1, n - 1)] + u[z][y][math.max(x - 1, 0)]
      after[z][y][x] = here + 0.125 * (dz + dy + dx - 6 * here)
    end,
    cpp = [[kernel void heat3d(item<3> it, in<float, 3> u, out<float, 3> after) {
      const int z = it[0], y = it[1], x = it[2], n = it.range(0);
      const float here = u(z, y, x);
      const float dz = u(min(z + 1, n - 1), y, x) + u(max(z - 1, 0), y, x);
      const float dy = u(z, min(y + 1, n - 1), x) + u(z, max(y - 1, 0), x);
      const float dx = u(z, y, min(x + 1, n - 1)) + u(z, y, max(x - 1, 0));
      after(z, y, x) = here + 0.125f * (dz + dy + dx - 6 * here);
    }]],
    accesses = function(cg, b)
      return cg:read(b[1], celer.neighborhood(1, 1, 1, "along_axes")), cg:discard_write(b[2])
    end }
end

do
  local n = sized(1536, 8192)
  cases[#cases + 1] = { name = "gray_scott", range = { n, n }, times = sized(10, 20),
    buffers = function()
      local a = celer.buffer("float2", { n, n })
      celer.kernel(function(y, x, to)
        to[y][x].x, to[y][x].y = (y * 7 + x * 3) % 11 / 11, (y * 5 + x) % 13 / 26
      end) ({ n, n }, a)
      return { a, celer.buffer("float2", { n, n }) }
    end,
    lua = function(y, x, a, b, feed, kill)
      local here = a[y][x]
      local up, down = a[math.max(y - 1, 0)][x], a[math.min(y + 1, n - 1)][x]
      local west, east = a[y][math.max(x - 1, 0)], a[y][math.min(x + 1, n - 1)]
      local u, v = here.x, here.y
      local reaction = u * v * v
      local du = up.x + down.x + west.x + east.x - 4 * u
      local dv = up.y + down.y + west.y + east.y - 4 * v
      b[y][x].x = u + 0.16 * du - reaction + feed * (1 - u)
      b[y][x].y = v + 0.08 * dv + reaction - (feed + kill) * v
    end,
    cpp = [[kernel void gray_scott(item<2> it, in<float2, 2> a, out<float2, 2> b, float feed,
                                   float kill) {
      const int y = it[0], x = it[1], n = it.range(0);
      const float2 here = a(y, x), up = a(max(y - 1, 0), x), down = a(min(y + 1, n - 1), x),
                   west = a(y, max(x - 1, 0)), east = a(y, min(x + 1, n - 1));
      const float u = here.x, v = here.y, reaction = u * v * v;
      const float du = up.x + down.x + west.x + east.x - 4 * u;
      const float dv = up.y + down.y + west.y + east.y - 4 * v;
      b(y, x) = make_float2(u + 0.16f * du - reaction + feed * (1 - u),
                            v + 0.08f * dv + reaction - (feed + kill) * v);
    }]],
    accesses = function(cg, b)
      return cg:read(b[1], celer.neighborhood(1, 1, "along_axes")), cg:discard_write(b[2]),
        0.037, 0.06
    end,
    values = { 0.037, 0.06 } }
end

do
  local n = sized(2048, 32768)
  local body = celer.struct("body", "double x, y, z, m;")
  cases[#cases + 1] = { name = "nbody", range = { n }, times = sized(3, 5),
    buffers = function()
      local p = celer.buffer(body, { n })
      celer.kernel(function(i, to)
        to[i].x, to[i].y, to[i].z, to[i].m = i % 101 / 101, i % 103 / 103, i % 107 / 107, 1 / n
      end) (n, p)
      return { p, celer.buffer("double3", { n }) }
    end,
    lua = function(i, bodies, forces)
      local me = bodies[i]
      local ax, ay, az = 0, 0, 0
      for j = 0, n - 1 do
        local other = bodies[j]
        local dx, dy, dz = other.x - me.x, other.y - me.y, other.z - me.z
        local d2 = dx * dx + dy * dy + dz * dz + 1e-4
        local f = other.m / (d2 * math.sqrt(d2))
        ax, ay, az = ax + f * dx, ay + f * dy, az + f * dz
      end
      forces[i].x, forces[i].y, forces[i].z = ax, ay, az
    end,
    cpp = [[kernel void nbody(item<1> it, in<body, 1> p, out<double3, 1> forces) {
      const body me = p(it[0]);
      double ax = 0, ay = 0, az = 0;
      for (int j = 0; j < it.range(0); ++j) {
        const body other = p(j);
        const double dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
        const double d2 = dx * dx + dy * dy + dz * dz + 1e-4;
        const double f = other.m / (d2 * sqrt(d2));
        ax += f * dx;
        ay += f * dy;
        az += f * dz;
      }
      forces(it[0]) = make_double3(ax, ay, az);
    }]],
    accesses = function(cg, b) return cg:read(b[1], celer.all), cg:discard_write(b[2]) end }
end

do
  local n, most = sized(256, 4096), 500
  local function iterations(x, y)
    local a, b, i = 0, 0, 0
    while i < most and a * a + b * b < 4 do
      a, b = a * a - b * b + x, 2 * a * b + y
      i = i + 1
    end
    return i
  end
  cases[#cases + 1] = { name = "mandelbrot", range = { n, n }, times = sized(3, 10),
    buffers = function() return { celer.buffer("int", { n, n }) } end,
    lua = function(y, x, steps)
      local scale = 3 / steps.size[0]
      steps[y][x] = iterations(x * scale - 2.25, y * scale - 1.5)
    end,
    cpp = [[kernel void mandelbrot(item<2> it, out<int, 2> steps, int most) {
      const double scale = 3.0 / it.range(0);
      const double x = it[1] * scale - 2.25, y = it[0] * scale - 1.5;
      double a = 0, b = 0;
      int i = 0;
      while (i < most && a * a + b * b < 4) {
        const double c = a * a - b * b + x;
        b = 2 * a * b + y;
        a = c;
        ++i;
      }
      steps(it[0], it[1]) = i;
    }]],
    accesses = function(cg, b) return cg:discard_write(b[1]), most end }
end

do
  local h = sized(512, 4096)
  local w = h
  local omega = 1.7
  local DY, DX = { 0, 0, 0, 1, 1, 1, -1, -1, -1 }, { 0, 1, -1, 0, 1, -1, 0, -1, 1 }
  local W = { 4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 9, 1 / 36, 1 / 36 }
  local function cells(chunk)
    return celer.box({ 0, chunk.min[0], chunk.min[1] }, { 9, chunk.max[0], chunk.max[1] })
  end
  cases[#cases + 1] = { name = "lattice_boltzmann", range = { h, w }, times = sized(5, 20),
    buffers = function()
      return { filled("float", { 9, h, w }, 1), celer.buffer("float", { 9, h, w }) }
    end,
    lua = function(y, x, f, g)
      local here, density, v, u = { 0, 0, 0, 0, 0, 0, 0, 0, 0 }, 0, 0, 0
      for d = 1, 9 do
        here[d] = f[d - 1][math.max(math.min(y - DY[d], h - 1), 0)]
          [math.max(math.min(x - DX[d], w - 1), 0)]
        density = density + here[d]
        v = v + DY[d] * here[d]
        u = u + DX[d] * here[d]
      end
      v, u = v / density, u / density
      for d = 1, 9 do
        local along = 3 * (DY[d] * v + DX[d] * u)
        local goal = W[d] * density * (1 + along + along * along / 2 - 1.5 * (v * v + u * u))
        g[d - 1][y][x] = here[d] + omega * (goal - here[d])
      end
    end,
    cpp = [[kernel void lattice_boltzmann(item<2> it, in<float, 3> f, out<float, 3> g) {
      const int DY[] = {0, 0, 0, 1, 1, 1, -1, -1, -1}, DX[] = {0, 1, -1, 0, 1, -1, 0, -1, 1};
      const float W[] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 9,
                         1.f / 36, 1.f / 36};
      const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
      float here[9], density = 0, v = 0, u = 0;
      #pragma unroll
      for (int d = 0; d < 9; ++d) {
        here[d] = f(d, max(min(y - DY[d], h - 1), 0), max(min(x - DX[d], w - 1), 0));
        density += here[d];
        v += DY[d] * here[d];
        u += DX[d] * here[d];
      }
      v /= density;
      u /= density;
      #pragma unroll
      for (int d = 0; d < 9; ++d) {
        const float along = 3 * (DY[d] * v + DX[d] * u);
        const float goal =
          W[d] * density * (1 + along + along * along / 2 - 1.5f * (v * v + u * u));
        g(d, y, x) = here[d] + 1.7f * (goal - here[d]);
      }
    }]],
    accesses = function(cg, b)
      return cg:read(b[1], function(chunk)
        return cells(chunk):grow(0, 1, 1)
      end), cg:discard_write(b[2], cells)
    end }
end

do
  local n, groups = sized(2 ^ 18, 2 ^ 26), 16
  cases[#cases + 1] = { name = "kmeans", range = { n }, times = sized(5, 20),
    buffers = function()
      local point, middle = celer.buffer("int2", { n }), celer.buffer("int2", { groups })
      local place = celer.kernel(function(i, p)
        p[i].x, p[i].y = i % 60013, i * 7 % 50021
      end)
      place(n, point)
      celer.kernel(function(i, p) p[i].x, p[i].y = i * 3701 % 60000, i * 2903 % 50000 end) (
        groups, middle)
      return { point, middle, celer.buffer("int", { n }) }
    end,
    lua = function(i, points, middle, nearest)
      local p, least, best = points[i], math.huge, 0
      for k = 0, groups - 1 do
        local dx, dy = p.x - middle[k].x, p.y - middle[k].y
        local d = dx * dx + dy * dy
        if d < least then least, best = d, k end
      end
      nearest[i] = best
    end,
    cpp = [[kernel void kmeans(item<1> it, in<int2, 1> points, in<int2, 1> middle,
                               out<int, 1> nearest, int groups) {
      const int2 p = points(it[0]);
      double least = INFINITY;
      int best = 0;
      for (int k = 0; k < groups; ++k) {
        const double dx = double(p.x) - middle(k).x, dy = double(p.y) - middle(k).y;
        const double d = dx * dx + dy * dy;
        if (d < least) {
          least = d;
          best = k;
        }
      }
      nearest(it[0]) = best;
    }]],
    accesses = function(cg, b)
      return cg:read(b[1]), cg:read(b[2], celer.all), cg:discard_write(b[3]), groups
    end }
end

local function median(values)
  table.sort(values)
  return values[math.ceil(#values / 2)]
end

local function seconds_of(times, step)
  local begin = celer.time()
  for _ = 1, times do step() end
  q:wait()
  return celer.time() - begin
end

-- Both steps, what their kernels took to compile, and what gives the steps new buffers and
-- returns the one that they write: the last.
local function steps_of(case)
  local buffers, compile = case.buffers(), {}
  local arguments = { unpack(buffers) }
  for _, value in ipairs(case.values or {}) do arguments[#arguments + 1] = value end
  local function renew()
    for i, b in ipairs(case.buffers()) do buffers[i], arguments[i] = b, b end
    return buffers[#buffers]
  end
  q:wait()
  local begin = celer.time()
  local cpp = celer.kernel(case.cpp)
  local function in_cpp()
    q:submit(function(cg) cg:parallel_for(case.range, cpp, case.accesses(cg, buffers)) end)
  end
  compile[1] = seconds_of(1, in_cpp) + celer.time() - begin
  begin = celer.time()
  local lua = celer.kernel(case.lua, { name = case.name })
  local function in_lua() q:parallel_for(case.range, lua, unpack(arguments)) end
  compile[2] = seconds_of(1, in_lua) + celer.time() - begin
  return in_cpp, in_lua, compile, renew
end

local rows = {}
for _, case in ipairs(cases) do
  if next(chosen) == nil or chosen[case.name] then
    local in_cpp, in_lua, compile, renew = steps_of(case)
    local times = { {}, {}, {} }
    for round = 0, rounds do
      local c, l = seconds_of(case.times, in_cpp), seconds_of(case.times, in_lua)
      if round > 0 then times[1][round], times[2][round], times[3][round] = c, l, c / l end
    end
    local us = 1e6 / case.times
    local c, l, ratio = median(times[1]) * us, median(times[2]) * us, median(times[3])
    if not gpu then
      local of = {}
      for i, step in ipairs { in_cpp, in_lua } do
        local written = renew()
        step()
        of[i] = q:wait(written):string()
      end
      assert(of[1] == of[2], case.name .. ": the results differ")
    end
    rows[#rows + 1] = ('{"name": "%s", "cpp_us": %.1f, "lua_us": %.1f, "ratio": %.4f, '
      .. '"compile_s": [%.3f, %.3f]}'):format(case.name, c, l, ratio, compile[1], compile[2])
    print(("%-18s %10.1f us in C++ %10.1f in Lua, ratio %.3f; compiled in %.2f and %.2f s")
      :format(case.name, c, l, ratio, compile[1], compile[2]))
  end
end
print(('{"bench": "languages", "backend": "%s", "target": 0.97, "rows": [%s]}'):format(
  gpu and "cuda" or "cpu", table.concat(rows, ", ")))
