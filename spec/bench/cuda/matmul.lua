-- Tiled matrix product in celer: in steps; with `barriers` by items that wait for each
-- other; with `plain` each item computes its element from a row and a column.
--   celer run matmul.lua size products [barriers | plain]
local celer = require "celer"
local measure = require "measure"

local n, steps = tonumber(arg[1]) or 64, tonumber(arg[2]) or 2
local form = arg[3] or "tiles"
local T = 16

local q = celer.queue()
local A = celer.buffer("float", { n, n }, { name = "A" })
local B = celer.buffer("float", { n, n }, { name = "B" })
local C = celer.buffer("float", { n, n }, { name = "C" })
local sums = celer.buffer("double", { n }, { name = "sums" })

local tiles = [[
  #define T 16
  kernel void mul_tiles(tile<T, T> t, in<float, 2> a, in<float, 2> b, out<float, 2> c,
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
  #pragma unroll
        for (int l = 0; l < T; ++l) sum[it] += ta[y * T + l] * tb[l * T + x];
      });
    }
    t.each([&](item<2> it) { c(it[0], it[1]) = sum[it]; });
  }
  kernel void mul_barriers(group<2> g, in<float, 2> a, in<float, 2> b, out<float, 2> c,
                           local<float, T * T> ta, local<float, T * T> tb, int n) {
    const int i = g.global(0), j = g.global(1), y = g.local(0), x = g.local(1);
    float sum = 0;
    for (int t = 0; t < n; t += T) {
      ta[y * T + x] = a(i, t + x);
      tb[y * T + x] = b(t + y, j);
      g.barrier();
  #pragma unroll
      for (int k = 0; k < T; ++k) sum += ta[y * T + k] * tb[k * T + x];
      g.barrier();
    }
    c(i, j) = sum;
  }
]]

local k = celer.kernel([[
  kernel void fill(item<2> it, out<float, 2> m, int seed) {
    const int i = it[0], j = it[1];
    m(i, j) = (i * 7 + j * 3 + seed) % 11 / 11.0f;
  }
  kernel void element(item<2> it, in<float, 2> a, in<float, 2> b, out<float, 2> c, int n) {
    const int i = it[0], j = it[1];
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a(i, k) * b(k, j);
    c(i, j) = sum;
  }
  kernel void row_sums(item<1> it, in<float, 2> c, out<double, 1> sums, int n) {
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += c(it[0], j);
    sums(it[0]) = sum;
  }
]] .. tiles)
local range = form == "barriers" and celer.nd_range({ n, n }, { T, T }) or { n, n }
local mul = form == "plain" and k.element or k["mul_" .. form]

for seed, m in ipairs { A, B } do
  q:submit(function(cg) cg:parallel_for({ n, n }, k.fill, cg:discard_write(m), seed) end)
end
measure.loop(q, 1, steps, function(from, to)
  for _ = from, to - 1 do
    q:submit(function(cg)
      local a, b = cg:read(A, celer.slice(1)), cg:read(B, celer.slice(0))
      cg:parallel_for(range, mul, a, b, cg:discard_write(C), n)
    end)
  end
end)
q:submit(function(cg)
  local rows = cg:read(C, function(chunk)
    return celer.box({ chunk.min[0], 0 }, { chunk.max[0], n })
  end)
  cg:parallel_for({ n }, k.row_sums, rows, cg:discard_write(sums), n)
end)
measure.report(measure.sum(q, sums, n))
