-- Jacobi's iteration for A x = b, A diagonally dominant: every row of the new x
-- reads all of the old one.
--   celer run jacobi.lua [size] [iterations]
local celer = require "celer"

local n = tonumber(arg[1]) or 256
local iterations = tonumber(arg[2]) or 30

-- A has 2n on its diagonal and ones elsewhere; b makes x = (1, 1, ...).
local matrix = celer.buffer("double", { n, n }, { name = "matrix",
  init = function(i, j) return i == j and 2 * n or 1 end })
local right = celer.buffer("double", { n },
  { name = "right", init = function() return 3 * n - 1 end })
local x = celer.buffer("double", { n }, { name = "x", init = function() return 0 end })
local x_new = celer.buffer("double", { n }, { name = "x_new" })

local sweep = celer.kernel(function(i, a, b, old, new)
  local sum = 0
  for j = 0, n - 1 do
    if j ~= i then sum = sum + a[i][j] * old[j] end
  end
  new[i] = (b[i] - sum) / a[i][i]
end, { name = "sweep" })

for _ = 1, iterations do
  sweep(n, matrix, right, x, x_new)
  x, x_new = x_new, x
end

local solution = celer.drain(x)
local worst = 0
for i = 0, n - 1 do worst = math.max(worst, math.abs(solution(i) - 1)) end
print(("after %d iterations on %d unknowns, the largest error is %.3g"):format(
  iterations, n, worst))
