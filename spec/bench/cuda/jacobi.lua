-- Jacobi's iteration in celer: the algorithm of examples/jacobi.lua, a group of
-- a group of 128 items per row.
--   celer run jacobi.lua size iterations
local celer = require "celer"
local measure = require "measure"

local n, steps = tonumber(arg[1]) or 256, tonumber(arg[2]) or 20
local warm = 4

local q = celer.queue()
local A = celer.buffer("double", { n, n }, { name = "A" })
local b = celer.buffer("double", { n }, { name = "b" })
local x = celer.buffer("double", { n }, { name = "x" })
local x_new = celer.buffer("double", { n }, { name = "x_new" })

local groups = [[
  #define THREADS 128
  kernel void sweep(group<2> g, in<double, 2> a, in<double, 1> b, in<double, 1> x,
                    out<double, 1> x_new, local<double, THREADS> sums, int n) {
    const int i = g.global(0), t = g.local(1);
    double sum = 0;
  #pragma unroll 4
    for (int j = t; j < n; j += THREADS)
      if (j != i) sum += a(i, j) * x(j);
    sums[t] = sum;
    g.barrier();
    for (int k = THREADS / 2; k > 0; k /= 2) {
      if (t < k) sums[t] += sums[t + k];
      g.barrier();
    }
    if (t == 0) x_new(i) = (b(i) - sums[0]) / a(i, i);
  }
]]

local k = celer.kernel([[
  kernel void fill(item<2> it, out<double, 2> a) {
    a(it[0], it[1]) = it[0] == it[1] ? 2.0 * it.range(0) : 1.0;
  }
  kernel void start(item<1> it, out<double, 1> b, out<double, 1> x) {
    b(it[0]) = 3.0 * it.range(0) - 1;
    x(it[0]) = 0;
  }
]] .. groups)
local range = celer.nd_range({ n, 128 }, { 1, 128 })

local function rows(chunk) return celer.box({ chunk.min[0], 0 }, { chunk.max[0], n }) end
local function row(chunk) return celer.box({ chunk.min[0] }, { chunk.max[0] }) end

q:submit(function(cg) cg:parallel_for({ n, n }, k.fill, cg:discard_write(A)) end)
q:submit(function(cg)
  cg:parallel_for({ n }, k.start, cg:discard_write(b), cg:discard_write(x))
end)
measure.loop(q, warm, steps, function(from, to)
  for _ = from, to - 1 do
    q:submit(function(cg)
      cg:parallel_for(range, k.sweep, cg:read(A, rows), cg:read(b, row),
        cg:read(x, celer.all), cg:discard_write(x_new, row), n)
    end)
    x, x_new = x_new, x
  end
end)
measure.report(measure.sum(q, x, n))
