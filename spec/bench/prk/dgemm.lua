--- dgemm.lua -- the matrix product of the Parallel Research Kernels in celer:
---
---   celer run spec/bench/prk/dgemm.lua STEPS REPETITIONS ORDER tiles|barriers
---
--- In each step C += A B, where each element of A and B is the number of its column, as
--- dgemm.c has it with MPI: by tiles that keep blocks of A and B in local memory, or by
--- groups that do the same and whose items wait for each other at barriers. ORDER is a
--- multiple of 16.
local celer = require "celer"
local measure = require "measure"

local n, how = tonumber(arg[3]), arg[4]
local TILE = 16

local kernels = celer.kernel([[
  kernel void begin(item<2> it, out<double, 2> a, out<double, 2> b, out<double, 2> c) {
    a(it[0], it[1]) = b(it[0], it[1]) = it[1];
    c(it[0], it[1]) = 0;
  }
  kernel void add(item<2> it, in<double, 2> c, reducer<double> sum) { sum += c(it[0], it[1]); }
]])

local multiply = celer.kernel(({
  tiles = [[
    kernel void multiply(tile<T, T> t, in<double, 2> a, in<double, 2> b, inout<double, 2> c,
                         local<double, T * T> ta, local<double, T * T> tb, int n) {
      auto sum = t.per_item<double>(0);
      for (int k = 0; k < n; k += T) {
        t.each([&](item<2> it) {
          const int y = it.local(0), x = it.local(1);
          ta[y * T + x] = a(it[0], k + x);
          tb[y * T + x] = b(k + y, it[1]);
        });
        t.each([&](item<2> it) {
          const int y = it.local(0), x = it.local(1);
          for (int l = 0; l < T; ++l) sum[it] += ta[y * T + l] * tb[l * T + x];
        });
      }
      t.each([&](item<2> it) { c(it[0], it[1]) += sum[it]; });
    }
  ]],
  barriers = [[
    kernel void multiply(group<2> g, in<double, 2> a, in<double, 2> b, inout<double, 2> c,
                         local<double, T * T> ta, local<double, T * T> tb, int n) {
      const int i = g.global(0), j = g.global(1), y = g.local(0), x = g.local(1);
      double sum = 0;
      for (int k = 0; k < n; k += T) {
        ta[y * T + x] = a(i, k + x);
        tb[y * T + x] = b(k + y, j);
        g.barrier();
        for (int l = 0; l < T; ++l) sum += ta[y * T + l] * tb[l * T + x];
        g.barrier();
      }
      c(i, j) += sum;
    }
  ]],
})[how], { defines = { T = TILE } })

local q = celer.queue()
local A = celer.buffer("double", { n, n }, { name = "A" })
local B = celer.buffer("double", { n, n }, { name = "B" })
local C = celer.buffer("double", { n, n }, { name = "C" })
local sum = celer.buffer("double", {}, { name = "sum" })

q:submit(function(cg)
  cg:parallel_for({ n, n }, kernels.begin, cg:discard_write(A), cg:discard_write(B),
    cg:discard_write(C))
end)
local steps = measure("dgemm", q, function()
  q:submit(function(cg)
    local range = how == "tiles" and { n, n } or celer.nd_range({ n, n }, { TILE, TILE })
    cg:parallel_for(range, multiply, cg:read(A, celer.slice(1)), cg:read(B, celer.slice(0)),
      cg:read_write(C), n)
  end)
end)
q:submit(function(cg) cg:parallel_for({ n, n }, kernels.add, cg:read(C), cg:reduce(sum, "sum")) end)
local right = steps * 0.25 * n ^ 3 * (n - 1) ^ 2
assert(math.abs(q:drain(sum)() - right) <= 1e-12 * right, "the result is wrong")
