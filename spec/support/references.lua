-- references.lua -- what examples come to, by plain Lua that shares nothing with them but random
-- numbers.
local bit = require("bit")
local uniform = require("celer.run.philox").uniform

local M = {}

-- ---- examples/graph.lua -------------------------------------------------------

-- Lists of neighbors, by vertices from 0.
local function kronecker(scale, per_vertex)
  local n, near = 2 ^ scale, {}
  for v = 0, n - 1 do near[v] = {} end
  local function mixed(v)
    for _ = 1, 2 do
      v = (v * 1664525 + 1013904223) % n
      v = bit.bxor(v, math.floor(v / 2 ^ math.ceil(scale / 2))) * 22695477 % n
    end
    return v
  end
  for e = 0, n * per_vertex - 1 do
    local u, v = 0, 0
    for b = 0, scale - 1 do
      local x = uniform(2, e, b)
      local quarter = x < 0.57 and 0 or x < 0.76 and 1 or x < 0.95 and 2 or 3
      u, v = 2 * u + math.floor(quarter / 2), 2 * v + quarter % 2
    end
    u, v = mixed(u), mixed(v)
    if u ~= v then
      table.insert(near[u], v)
      table.insert(near[v], u)
    end
  end
  return near, n
end

--- How many vertices there are in each level, by a queue; the ranks, pushed along edges.
function M.graph(scale, per_vertex)
  local near, n = kronecker(scale, per_vertex)
  local root = 0
  for v = 1, n - 1 do if #near[v] > #near[root] then root = v end end
  local level, queue, counts = { [root] = 0 }, { root }, {}
  local at = 1
  while queue[at] do
    for _, v in ipairs(near[queue[at]]) do
      if not level[v] then
        level[v] = level[queue[at]] + 1
        counts[level[v]] = (counts[level[v]] or 0) + 1
        queue[#queue + 1] = v
      end
    end
    at = at + 1
  end
  local rank = {}
  for v = 0, n - 1 do rank[v] = 1 / n end
  for _ = 1, 20 do
    local to, lost = {}, 0
    for v = 0, n - 1 do
      for _, u in ipairs(near[v]) do to[u] = (to[u] or 0) + rank[v] / #near[v] end
      if #near[v] == 0 then lost = lost + rank[v] end
    end
    for v = 0, n - 1 do rank[v] = 0.15 / n + 0.85 * ((to[v] or 0) + lost / n) end
  end
  return { root = root, counts = counts, reached = #queue, rank = rank }
end

return M
