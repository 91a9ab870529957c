-- Conjugate gradients for any sparse matrix that is symmetric and positive definite, in
-- compressed rows: row i has the columns col[k] and values val[k] for k from ptr[i] to
-- ptr[i + 1] - 1.
--
--   celer run sparse.lua [n | matrix.mtx] [tolerance]
--
-- From a file of the Matrix Market, or made up: a ring of n vertices, each with a chord to a
-- vertex far away, as a graph's Laplacian and a little more on the diagonal. The kernels say
-- nothing of what they read: ranks send each other the elements of p that columns name, and
-- nothing else. Sums are exact but for one rounding, so the steps are the same to the bit on any
-- number of ranks.
local celer = require "celer"
local q = celer.queue()

local tolerance = tonumber(arg[2]) or 1e-10

-- Rows of [column] = value.
local function make_up(n)
  local rows = {}
  for i = 0, n - 1 do rows[i] = {} end
  local function put(i, j, x) rows[i][j] = (rows[i][j] or 0) + x end
  local function edge(i, j)
    put(i, i, 1)
    put(j, j, 1)
    put(i, j, -1)
    put(j, i, -1)
  end
  for i = 0, n - 1 do
    put(i, i, 0.01)
    edge(i, (i + 1) % n)
    if i % 3 == 0 then edge(i, i * 7919 % n) end
  end
  return rows
end

local function compressed(rows, n)
  local m = { rows = n, columns = n, ptr = { 0 }, col = {}, val = {} }
  for i = 0, n - 1 do
    for j, x in celer.sorted_pairs(rows[i]) do
      m.col[#m.col + 1], m.val[#m.val + 1] = j, x
    end
    m.ptr[i + 2] = #m.col
  end
  return m
end

local n = tonumber(arg[1] or 1000)
local matrix = n and compressed(make_up(n), n) or celer.matrix.read(arg[1])
n = matrix.rows
assert(n == matrix.columns, "the matrix has to have as many columns as rows")

local function wanted(i) return 1 + i % 7 end

-- The right side for that solution.
local start = celer.kernel(function(i, ptr, col, val, x, r, p, rr)
  local b = 0
  for k = ptr[i], ptr[i + 1] - 1 do b = b + val[k] * wanted(col[k]) end
  x[i], r[i], p[i] = 0, b, b
  rr:add(b * b)
end, { name = "start" })
-- v = A p, and p . v.
local apply = celer.kernel(function(i, ptr, col, val, p, v, pv)
  local sum = 0
  for k = ptr[i], ptr[i + 1] - 1 do sum = sum + val[k] * p[col[k]] end
  v[i] = sum
  pv:add(p[i] * sum)
end, { name = "apply" })
local advance = celer.kernel(function(i, p, v, rr, pv, x, r, left)
  local a = pv > 0 and rr / pv or 0
  x[i] = x[i] + a * p[i]
  r[i] = r[i] - a * v[i]
  left:add(r[i] * r[i])
end, { name = "advance" })
local turn = celer.kernel(function(i, r, rr, before, p)
  p[i] = r[i] + (before > 0 and rr / before or 0) * p[i]
end, { name = "turn" })
local compare = celer.kernel(function(i, x, worst) worst:max(math.abs(x[i] - wanted(i))) end,
  { name = "compare" })

local entries = #matrix.col
local ptr = celer.buffer("int", n + 1, { name = "ptr", init = matrix.ptr })
local col = celer.buffer("int", entries, { name = "col", init = matrix.col })
local val = celer.buffer("double", entries, { name = "val", init = matrix.val })
local function vector(name) return celer.buffer("double", n, { name = name }) end
local function number(name) return celer.buffer("double", {}, { name = name }) end
local function sum(buffer) return celer.sum(buffer, { reproducible = true }) end
local x, r, p, v = vector "x", vector "r", vector "p", vector "v"
local rr, before, pv, worst = number "rr", number "before", number "pv", number "worst"

start(n, ptr, col, val, x, r, p, sum(rr))
local begin, steps = q:wait(rr)(), 0
local left
repeat
  apply(n, ptr, col, val, p, v, sum(pv))
  rr, before = before, rr
  advance(n, p, v, before, pv, x, r, sum(rr))
  turn(n, r, rr, before, p)
  steps = steps + 1
  left = q:wait(celer.capture(rr, nil, { dry = steps < 60 and 1 or 0 }))()
until left <= tolerance ^ 2 * begin or steps >= 10 * n

compare(n, x, celer.reduce(worst, "max"))
print(("%d rows, %d entries: %d steps, |r|^2 = %.17g, error below %.0e: %s"):format(n, entries,
  steps, left, 1e4 * tolerance, q:drain(worst)() < 1e4 * tolerance))
