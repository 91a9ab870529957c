-- Jacobi's iteration for A x = b, A diagonally dominant: every row of the new x
-- reads all of the old one.
--   celer run jacobi.lua [size] [iterations]
local celer = require "celer"

local n = tonumber(arg[1]) or 256
local iterations = tonumber(arg[2]) or 30

local q = celer.queue()
-- A has 2n on its diagonal and ones elsewhere; b makes x = (1, 1, ...).
local A = celer.buffer("double", { n, n }, { name = "A",
  init = function(i, j) return i == j and 2 * n or 1 end })
local b = celer.buffer("double", { n },
  { name = "b", init = function() return 3 * n - 1 end })
local x = celer.buffer("double", { n }, { name = "x", init = function() return 0 end })
local x_new = celer.buffer("double", { n }, { name = "x_new" })

local sweep = celer.kernel [[
  kernel void sweep(item<1> it, in<double, 2> a, in<double, 1> b, in<double, 1> x,
                    out<double, 1> x_new, int n) {
    const int i = it[0];
    double sum = 0;
    for (int j = 0; j < n; ++j)
      if (j != i) sum += a(i, j) * x(j);
    x_new(i) = (b(i) - sum) / a(i, i);
  }
]]

local function rows(chunk) return celer.box({ chunk.min[0], 0 }, { chunk.max[0], n }) end

for _ = 1, iterations do
  q:submit(function(cg)
    cg:parallel_for({ n }, sweep, cg:read(A, rows), cg:read(b), cg:read(x, celer.all),
      cg:discard_write(x_new), n)
  end)
  x, x_new = x_new, x
end

local solution = q:drain(celer.capture(x))
local worst = 0
for i = 0, n - 1 do worst = math.max(worst, math.abs(solution(i) - 1)) end
print(("after %d iterations on %d unknowns, the largest error is %.3g"):format(
  iterations, n, worst))
