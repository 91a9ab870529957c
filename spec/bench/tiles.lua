-- Kernels of tiles beside the same by groups with barriers, in turns, in one run.
--   celer run [--backend cuda] spec/bench/tiles.lua [rounds]
-- `ratio`: the time by barriers over that by tiles, the median of the rounds. Target: at
-- least 0.98 on a GPU; on the processor barriers take many times longer, and results are
-- compared, bit by bit. The last line is JSON.
local celer = require "celer"
local gpu = require("celer.core").devices() == "cuda"
local rounds = tonumber(arg[1]) or (gpu and 15 or 3)

local q = celer.queue()

local k = celer.kernel [[
  #define T 16
  kernel void matmul_tiles(tile<T, T> t, in<float, 2> a, in<float, 2> b, out<float, 2> c,
                           local<float, T * T> ta, local<float, T * T> tb, int n) {
    auto sum = t.per_item<float>(0);
    for (int k = 0; k < n; k += T) {
      t.each([&](item<2> it) {
        const int i = it[0], j = it[1], y = it.local(0), x = it.local(1);
        ta[y * T + x] = a(i, k + x);
        tb[y * T + x] = b(k + y, j);
      });
      t.each([&](item<2> it) {
        const int y = it.local(0), x = it.local(1);
        for (int l = 0; l < T; ++l) sum[it] += ta[y * T + l] * tb[l * T + x];
      });
    }
    t.each([&](item<2> it) { c(it[0], it[1]) = sum[it]; });
  }
  kernel void matmul_barriers(group<2> g, in<float, 2> a, in<float, 2> b, out<float, 2> c,
                              local<float, T * T> ta, local<float, T * T> tb, int n) {
    const int i = g.global(0), j = g.global(1), y = g.local(0), x = g.local(1);
    float sum = 0;
    for (int k = 0; k < n; k += T) {
      ta[y * T + x] = a(i, k + x);
      tb[y * T + x] = b(k + y, j);
      g.barrier();
      for (int l = 0; l < T; ++l) sum += ta[y * T + l] * tb[l * T + x];
      g.barrier();
    }
    c(i, j) = sum;
  }

  #define B 256
  __device__ inline void pull(float4 o, float4 me, float3 &a) {
    const float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z;
    const float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-4f), f = o.w * r * r * r;
    a.x += f * dx;
    a.y += f * dy;
    a.z += f * dz;
  }
  kernel void nbody_tiles(tile<B> t, in<float4, 1> p, out<float3, 1> v,
                          local<float4, B> near, int n) {
    auto sum = t.per_item<float3>({0, 0, 0});
    for (int k = 0; k < n; k += B) {
      t.each([&](item<1> it) { near[it.local(0)] = p(k + it.local(0)); });
      t.each([&](item<1> it) {
        const float4 me = p(it[0]);
        float3 a = sum[it];
        for (int j = 0; j < B; ++j) pull(near[j], me, a);
        sum[it] = a;
      });
    }
    t.each([&](item<1> it) { v(it[0]) = sum[it]; });
  }
  kernel void nbody_barriers(group<1> g, in<float4, 1> p, out<float3, 1> v,
                             local<float4, B> near, int n) {
    const float4 me = p(g.global(0));
    float3 a = {0, 0, 0};
    for (int k = 0; k < n; k += B) {
      near[g.local(0)] = p(k + g.local(0));
      g.barrier();
      for (int j = 0; j < B; ++j) pull(near[j], me, a);
      g.barrier();
    }
    v(g.global(0)) = a;
  }

  #define H 8
  #define W 32
  // Neighbours by shared memory, with the edge of the tile, in rounds.
  kernel void smooth_tiles(tile<H, W> t, in<float, 2> u, out<float, 2> v,
                           local<float, H * W> s, int rounds) {
    auto x = t.per_item<float>();
    t.each([&](item<2> it) { x[it] = u(it[0], it[1]); });
    for (int r = 0; r < rounds; ++r) {
      t.each([&](item<2> it) { s[it.local(0) * W + it.local(1)] = x[it]; });
      t.each([&](item<2> it) {
        const int i = it.local(0), j = it.local(1);
        x[it] = x[it] / 2 + (s[max(i - 1, 0) * W + j] + s[min(i + 1, H - 1) * W + j]
          + s[i * W + max(j - 1, 0)] + s[i * W + min(j + 1, W - 1)]) / 8;
      });
    }
    t.each([&](item<2> it) { v(it[0], it[1]) = x[it]; });
  }
  kernel void smooth_barriers(group<2> g, in<float, 2> u, out<float, 2> v,
                              local<float, H * W> s, int rounds) {
    const int i = g.local(0), j = g.local(1);
    float x = u(g.global(0), g.global(1));
    for (int r = 0; r < rounds; ++r) {
      s[i * W + j] = x;
      g.barrier();
      x = x / 2 + (s[max(i - 1, 0) * W + j] + s[min(i + 1, H - 1) * W + j]
        + s[i * W + max(j - 1, 0)] + s[i * W + min(j + 1, W - 1)]) / 8;
      g.barrier();
    }
    v(g.global(0), g.global(1)) = x;
  }

  kernel void sum_tiles(tile<B> t, in<float, 1> u, reducer<double> total, local<float, B> s) {
    t.each([&](item<1> it) { s[it.local(0)] = u(it[0]); });
    for (int half = B / 2; half > 0; half /= 2)
      t.each([&](item<1> it) {
        if (it.local(0) < half) s[it.local(0)] += s[it.local(0) + half];
      });
    t.each([&](item<1> it) { if (it.local(0) == 0) total += s[0]; });
  }
  kernel void sum_barriers(group<1> g, in<float, 1> u, reducer<double> total,
                           local<float, B> s) {
    const int l = g.local(0);
    s[l] = u(g.global(0));
    g.barrier();
    for (int half = B / 2; half > 0; half /= 2) {
      if (l < half) s[l] += s[l + half];
      g.barrier();
    }
    if (l == 0) total += s[0];
  }
  kernel void fill(item<1> it, out<float, 1> u) { u(it[0]) = it[0] % 11 / 11.0f; }
  kernel void fill2(item<2> it, out<float, 2> u, int seed) {
    u(it[0], it[1]) = (it[0] * 7 + it[1] * 3 + seed) % 11 / 11.0f;
  }
  kernel void place(item<1> it, out<float4, 1> p) {
    const int i = it[0];
    p(i) = make_float4(i % 101 / 101.f, i % 103 / 103.f, i % 107 / 107.f, 1.f / it.range(0));
  }
]]

local function filled(kernel, extents, type_, ...)
  local b, more = celer.buffer(type_, extents), { ... }
  q:submit(function(cg) cg:parallel_for(extents, kernel, cg:discard_write(b), unpack(more)) end)
  return b
end

-- Each: range, group, how often, a function that makes the accesses and values of a call.
local cases = {}

do
  local n = gpu and 4096 or 256
  local a, b = filled(k.fill2, { n, n }, "float", 1), filled(k.fill2, { n, n }, "float", 2)
  cases[1] = { "matmul", { n, n }, { 16, 16 }, gpu and 10 or 2, "float", function(cg, out)
    return cg:read(a, celer.slice(1)), cg:read(b, celer.slice(0)), cg:discard_write(out), n
  end }
end
do
  local n = gpu and 131072 or 1024
  local p = filled(k.place, { n }, "float4")
  cases[2] = { "nbody", { n }, { 256 }, gpu and 5 or 2, "float3", function(cg, out)
    return cg:read(p, celer.all), cg:discard_write(out), n
  end }
end
do
  local n = gpu and 8192 or 256
  local u = filled(k.fill2, { n, n }, "float", 3)
  cases[3] = { "smooth", { n, n }, { 8, 32 }, gpu and 20 or 2, "float", function(cg, out)
    return cg:read(u), cg:discard_write(out), 16
  end }
end
do
  local n = gpu and 2 ^ 27 or 2 ^ 16
  local u = filled(k.fill, { n }, "float")
  cases[4] = { "sum", { n }, { 256 }, gpu and 20 or 2, "double", function(cg, out)
    return cg:read(u), cg:reduce(out, "sum")
  end }
end

local function timed(case, kernel, range, out)
  local begin = celer.time()
  for _ = 1, case[4] do
    q:submit(function(cg) cg:parallel_for(range, kernel, case[6](cg, out)) end)
  end
  q:wait()
  return (celer.time() - begin) / case[4] * 1e6
end

local function median(values)
  table.sort(values)
  return values[math.ceil(#values / 2)]
end

local rows = {}
for _, case in ipairs(cases) do
  local name, size, group = case[1], case[2], case[3]
  local out, of = {}, {}
  for i = 1, 2 do out[i] = celer.buffer(case[5], name == "sum" and {} or size) end
  local range = celer.nd_range(size, group)
  local times, others, ratios = {}, {}, {}
  for round = 0, rounds do
    local t = timed(case, k[name .. "_tiles"], size, out[1])
    local b = timed(case, k[name .. "_barriers"], range, out[2])
    if round > 0 then times[round], others[round], ratios[round] = t, b, b / t end
  end
  for i = 1, gpu and 0 or 2 do of[i] = q:wait(out[i]):string() end
  assert(of[1] == of[2], name .. ": the results differ")
  local info = k[name .. "_tiles"]:info()
  local other = k[name .. "_barriers"]:info()
  rows[#rows + 1] = ('{"name": "%s", "tiles_us": %.3f, "barriers_us": %.3f, "ratio": %.4f'
    .. '%s}'):format(name, median(times), median(others), median(ratios), info.registers
    and (', "registers": [%d, %d]'):format(info.registers, other.registers) or "")
  print(("%-8s %12.1f us by tiles %12.1f by barriers, ratio %.3f"):format(name, median(times),
    median(others), median(ratios)))
end
print(('{"bench": "tiles", "backend": "%s", "target": 0.98, "rows": [%s]}'):format(
  gpu and "cuda" or "cpu", table.concat(rows, ", ")))
