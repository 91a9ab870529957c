-- Conjugate gradients for any sparse matrix that is symmetric and positive definite, in
-- compressed rows: row i has the columns col[k] and values val[k] for k from ptr[i] to
-- ptr[i + 1] - 1.
--
--   celer run sparse.lua [n | matrix.mtx] [tolerance]
--
-- From a file of the Matrix Market ("coordinate real symmetric" or "general"), or made up: a
-- ring of n vertices, each with a chord to a vertex far away, as a graph's Laplacian and a
-- little more on the diagonal. The kernels say nothing of what they read: ranks send each other
-- the elements of p that columns name, and nothing else. Sums are exact but for one rounding,
-- so the steps are the same to the bit on any number of ranks.
local celer = require "celer"
local q = celer.queue()

local tolerance = tonumber(arg[2]) or 1e-10

-- Calls put(i, j, value) for each entry of the matrix; gives the number of rows.
local function read_file(path, put)
  local n, is_symmetric
  for line in assert(io.open(path)):lines() do
    local i, j, x = line:match "^%s*(%d+)%s+(%d+)%s+(%S+)"
    if line:find "^%%%%" then
      is_symmetric = line:find "symmetric"
    elseif i and not n then
      n = tonumber(i)
    elseif i then
      put(i - 1, j - 1, tonumber(x))
      if is_symmetric and i ~= j then put(j - 1, i - 1, tonumber(x)) end
    end
  end
  return n
end

local function make_up(n, put)
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
  return n
end

-- Rows of [column] = value.
local rows = setmetatable({}, { __index = function(t, i) t[i] = {} return t[i] end })
local function put(i, j, x) rows[i][j] = (rows[i][j] or 0) + x end
local n = tonumber(arg[1] or 1000)
n = n and make_up(n, put) or read_file(arg[1], put)

local first, columns, values = { 0 }, {}, {}
for i = 0, n - 1 do
  local list = {}
  for j in pairs(rows[i]) do list[#list + 1] = j end
  table.sort(list)
  for _, j in ipairs(list) do
    columns[#columns + 1], values[#values + 1] = j, rows[i][j]
  end
  first[i + 2] = #columns
end

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

local ptr = celer.buffer("int", n + 1, { name = "ptr", init = first })
local col = celer.buffer("int", #columns, { name = "col", init = columns })
local val = celer.buffer("double", #columns, { name = "val", init = values })
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
print(("%d rows, %d entries: %d steps, |r|^2 = %.17g, error below %.0e: %s"):format(n, #columns,
  steps, left, 1e4 * tolerance, q:drain(worst)() < 1e4 * tolerance))
