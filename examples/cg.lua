-- Conjugate gradients: solves the five-point equations of an n x n grid, and stops
-- once it has converged.
--
--   celer run cg.lua [n] [tolerance] [reproducible]
--
-- With the last word all sums are exact but for one rounding: the steps are the same to
-- the bit on any number of ranks, as the last residual shows.
--
-- Every step makes two numbers of all elements, by reductions, and needs them in
-- the next kernel. They never leave the devices but for the residual, which the
-- script asks for AHEAD steps before it looks: the devices always have work.
local celer = require "celer"
local q = celer.queue()

local n = tonumber(arg[1]) or 256
local tolerance = tonumber(arg[2]) or 1e-8
local to_the_bit = { reproducible = arg[3] == "reproducible" }
local AHEAD = 4

-- The solution, which is 0 around the grid.
local function wanted(i, j) return (i + 1) * (n - i) * ((j + 1) * (n - j)) end

local start = celer.kernel(function(i, j, x, r, p, rr)
  local b = 2 * ((i + 1) * (n - i) + (j + 1) * (n - j)) -- -laplace of it
  x[i][j], r[i][j], p[i][j] = 0, b, b
  rr:add(b * b)
end, { name = "start" })
-- v = A p, and p . v.
local apply = celer.kernel(function(i, j, p, v, pv)
  local around = (i > 0 and p[i - 1][j] or 0) + (i < n - 1 and p[i + 1][j] or 0)
    + (j > 0 and p[i][j - 1] or 0) + (j < n - 1 and p[i][j + 1] or 0)
  v[i][j] = 4 * p[i][j] - around
  pv:add(p[i][j] * v[i][j])
end, { name = "apply" })
-- One step along p, and what is left.
local advance = celer.kernel(function(i, j, p, v, rr, pv, x, r, left)
  local a = pv > 0 and rr / pv or 0
  x[i][j] = x[i][j] + a * p[i][j]
  r[i][j] = r[i][j] - a * v[i][j]
  left:add(r[i][j] * r[i][j])
end, { name = "advance" })
-- The next direction.
local turn = celer.kernel(function(i, j, r, rr, before, p)
  p[i][j] = r[i][j] + (before > 0 and rr / before or 0) * p[i][j]
end, { name = "turn" })
local compare = celer.kernel(function(i, j, x, worst)
  worst:max(math.abs(x[i][j] - wanted(i, j)))
end, { name = "compare" })

local function grid(name) return celer.buffer("double", { n, n }, { name = name }) end
local function number(name) return celer.buffer("double", {}, { name = name }) end
local x, r, p, v = grid "x", grid "r", grid "p", grid "v"
local rr, before, pv, error_ = number "rr", number "before", number "pv", number "error"
local range = { n, n }

start(range, x, r, p, celer.sum(rr, to_the_bit))
local residuals, steps, first = {}, 0, nil
repeat
  apply(range, p, v, celer.sum(pv, to_the_bit))
  rr, before = before, rr
  advance(range, p, v, before, pv, x, r, celer.sum(rr, to_the_bit))
  turn(range, r, rr, before, p)
  steps = steps + 1
  residuals[steps] = q:fence(rr)
  local seen = steps - AHEAD
  local left = seen > 0 and residuals[seen]:get()()
  first = first or left
  if seen > 0 then residuals[seen] = nil end
until (left and left <= tolerance ^ 2 * first) or steps >= 4 * n

compare(range, x, celer.reduce(error_, "max"))
local worst = q:drain(error_)() / (n + 1) ^ 4 * 16 -- of the largest value
print(("%d x %d: %d steps, relative error below %.0e: %s"):format(n, n, steps,
  100 * tolerance, worst < 100 * tolerance))
if to_the_bit.reproducible then print(("|r|^2 = %.17g"):format(residuals[steps]:get()())) end
