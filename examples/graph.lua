-- Breadth-first search and PageRank on a Kronecker graph, as of the Graph 500 benchmark.
--
--   celer run graph.lua [scale] [edges per vertex] [times]
--
-- 2^scale vertices, which are as many bins of a list: each edge pushes its ends to each other's.
-- In a search level by level a vertex that has not been reached looks whether one of its
-- neighbors was reached last. Ranks send each other what neighbors of their vertices have, and
-- nothing else: celer derives that from `level[near[k]]`.
local celer = require "celer"
local q = celer.queue()

local scale = tonumber(arg[1]) or 12
local n = 2 ^ scale
local edges = n * (tonumber(arg[2]) or 16)
local DAMPING, SWEEPS = 0.85, 20

-- Vertices that have many edges are to lie anywhere: a permutation of the numbers below n.
local half = math.ceil(scale / 2)
local function scatter(v)
  for _ = 1, 2 do
    v = (v * 1664525 + 1013904223) % n
    v = bit.bxor(v, bit.rshift(v, half)) * 22695477 % n
  end
  return v
end

local make = celer.kernel(function(e, near)
  local u, v = 0, 0
  for b = 0, scale - 1 do -- which quarter of the adjacency matrix, then of that, and so on
    local x = celer.philox(2, e, b)
    local low, right = 0, 0
    if x >= 0.76 then low = 1 end
    if x >= 0.95 or x >= 0.57 and x < 0.76 then right = 1 end
    u, v = 2 * u + low, 2 * v + right
  end
  u, v = scatter(u), scatter(v)
  if u ~= v then
    near:push(u, v)
    near:push(v, u)
  end
end, { name = "make" })
local measure = celer.kernel(function(v, ptr, degree) degree[v] = ptr[v + 1] - ptr[v] end)
local search = celer.kernel(function(v, ptr, ends, level, depth, level_next, parent, found)
  local now = level[v]
  if now < 0 then
    for k = ptr[v], ptr[v + 1] - 1 do
      if level[ends[k]] == depth - 1 then
        now, parent[v] = depth, ends[k]
        found:add(1)
        break
      end
    end
  end
  level_next[v] = now
end, { name = "search" })

-- Each vertex divides its rank among its neighbors; that of one without any is for all.
local divide = celer.kernel(function(v, rank, degree, share, lost)
  if degree[v] > 0 then share[v] = rank[v] / degree[v] else share[v] = 0 lost:add(rank[v]) end
end, { name = "divide" })
local collect = celer.kernel(function(v, ptr, ends, share, lost, rank)
  local sum = 0
  for k = ptr[v], ptr[v + 1] - 1 do sum = sum + share[ends[k]] end
  rank[v] = (1 - DAMPING) / n + DAMPING * (sum + lost / n)
end, { name = "collect", contract = false }) -- the same bits on a GPU

-- ---- the graph -------------------------------------------------------------------

local near = celer.list("int", { bins = n, name = "near" })
q:parallel_for(edges, make, celer.route(near, "append", { most = 2 }))
near:fit()
local ptr, ends = near.offsets, near.values
local degree = celer.buffer("int", n, { name = "degree" })
measure(n, ptr, degree)
local times = { { "graph", celer.time() } }

-- ---- a search --------------------------------------------------------------------

local root = tonumber(select(2, celer.top(degree, 1))(0))
local level = celer.buffer("int", n, { init = function(v) return v == root and 0 or -1 end })
local parent = celer.buffer("int", n, { init = function(v) return v == root and v or -1 end })
local level_next, found = celer.like(level), celer.scalar("int64_t", 0)
local depth, reached = 0, 1
repeat
  depth = depth + 1
  q:parallel_for(n, search, ptr, ends, level, depth, level_next, parent, celer.sum(found))
  level, level_next = level_next, level
  local more = tonumber(found())
  reached = reached + more
  if more > 0 then print(("level %d: %d vertices"):format(depth, more)) end
until more == 0
times[2] = { "search", celer.time() }

-- ---- PageRank --------------------------------------------------------------------

local rank, share = celer.full("double", n, 1 / n), celer.buffer("double", n, { name = "share" })
local lost = celer.scalar("double", 0)
for _ = 1, SWEEPS do
  q:parallel_for(n, divide, rank, degree, share, celer.sum(lost, { reproducible = true }))
  q:parallel_for(n, collect, ptr, ends, share, lost, rank)
end
local ranks, places = celer.top(rank, 3)
local most, where = q:wait(ranks, places)
times[3] = { "PageRank", celer.time() }

print(("%d of %d vertices in %d levels from %d"):format(reached, n, depth, root))
for i = 0, 2 do print(("vertex %d has the rank %.17g"):format(tonumber(where(i)), most(i))) end
for i, one in ipairs(arg[3] and times or {}) do
  print(("%s: %.3f s"):format(one[1], one[2] - (i > 1 and times[i - 1][2] or 0)))
end
