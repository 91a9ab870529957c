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

-- ---- examples/molecules.lua ---------------------------------------------------

-- Forces of all pairs, and the energy of these.
local function forces(x, n, length)
  local f, energy, shift = {}, 0, 4 * (2.5 ^ -12 - 2.5 ^ -6)
  for i = 1, 3 * n do f[i] = 0 end
  for i = 0, n - 1 do
    for j = 0, i - 1 do
      local d, r2 = {}, 0
      for k = 1, 3 do
        d[k] = x[3 * i + k] - x[3 * j + k]
        d[k] = d[k] - length * math.floor(d[k] / length + 0.5)
        r2 = r2 + d[k] ^ 2
      end
      if r2 < 2.5 ^ 2 then
        local r6 = r2 ^ -3
        energy = energy + 4 * (r6 ^ 2 - r6) - shift
        for k = 1, 3 do
          local push = (48 * r6 ^ 2 - 24 * r6) / r2 * d[k]
          f[3 * i + k], f[3 * j + k] = f[3 * i + k] + push, f[3 * j + k] - push
        end
      end
    end
  end
  return f, energy
end

--- The energies of each step, potential and kinetic, for an atom: by velocity Verlet.
function M.molecules(side, steps)
  local n, dt = 4 * side ^ 3, 0.002
  local length = (n / 0.8442) ^ (1 / 3)
  local x, v, out = {}, {}, {}
  local places = { { 0, 0, 0 }, { 0, 0.5, 0.5 }, { 0.5, 0, 0.5 }, { 0.5, 0.5, 0 } }
  for i = 0, n - 1 do
    local cell, place = math.floor(i / 4), places[i % 4 + 1]
    local at = { math.floor(cell / side ^ 2), math.floor(cell / side) % side, cell % side }
    for k = 1, 3 do
      x[3 * i + k] = (at[k] + 0.25 + place[k]) * length / side
      v[3 * i + k] = 4 * (uniform(1, math.floor(i / 2), k - 1) - 0.5) * (i % 2 == 0 and 1 or -1)
    end
  end
  local f, potential = forces(x, n, length)
  for step = 0, steps do
    local kinetic = 0
    for i = 1, 3 * n do kinetic = kinetic + v[i] ^ 2 / 2 end
    out[step] = { potential / n, kinetic / n }
    for i = 1, 3 * n do
      v[i] = v[i] + dt / 2 * f[i]
      x[i] = x[i] + dt * v[i]
    end
    f, potential = forces(x, n, length)
    for i = 1, 3 * n do v[i] = v[i] + dt / 2 * f[i] end
  end
  return out
end

return M
