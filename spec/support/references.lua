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

-- ---- examples/mesh.lua --------------------------------------------------------

-- Solves K u = f by elimination; K is full, and symmetric.
local function solve(K, f, n)
  for k = 1, n do
    for i = k + 1, n do
      local by = K[i][k] / K[k][k]
      if by ~= 0 then
        for j = k, n do K[i][j] = K[i][j] - by * K[k][j] end
        f[i] = f[i] - by * f[k]
      end
    end
  end
  for k = n, 1, -1 do
    for j = k + 1, n do f[k] = f[k] - K[k][j] * f[j] end
    f[k] = f[k] / K[k][k]
  end
  return f
end

--- The largest error of the finite elements, by a matrix of gradients.
function M.mesh(rings)
  local x, y, first, K, f = {}, {}, {}, {}, {}
  for k = 0, rings do
    first[k] = #x + 1
    for i = 0, math.max(6 * k, 1) - 1 do
      local angle = 2 * math.pi * i / math.max(6 * k, 1)
      x[#x + 1], y[#y + 1] = k / rings * math.cos(angle), k / rings * math.sin(angle)
    end
  end
  local n = first[rings] - 1 -- those on the rim are 0
  for i = 1, n do
    K[i], f[i] = {}, 0
    for j = 1, n do K[i][j] = 0 end
  end
  local function add(...)
    local t, g = { ... }, {}
    local area2 = (x[t[2]] - x[t[1]]) * (y[t[3]] - y[t[1]])
      - (y[t[2]] - y[t[1]]) * (x[t[3]] - x[t[1]])
    for a = 1, 3 do
      local b, c = t[a % 3 + 1], t[(a + 1) % 3 + 1]
      g[a] = { (y[b] - y[c]) / area2, (x[c] - x[b]) / area2 }
    end
    for a = 1, 3 do
      for b = 1, 3 do
        if t[a] <= n and t[b] <= n then
          K[t[a]][t[b]] = K[t[a]][t[b]]
            + (g[a][1] * g[b][1] + g[a][2] * g[b][2]) * area2 / 2
        end
      end
      if t[a] <= n then f[t[a]] = f[t[a]] + 4 * area2 / 6 end
    end
  end
  local function node(k, i) return first[k] + (k == 0 and 0 or i % (6 * k)) end
  for k = 1, rings do
    for i = 0, 6 * k - 1 do
      local s, j = math.floor(i / k), i % k
      add(node(k, i), node(k, i + 1), node(k - 1, s * (k - 1) + j))
      if j < k - 1 then
        add(node(k, i + 1), node(k - 1, s * (k - 1) + j + 1), node(k - 1, s * (k - 1) + j))
      end
    end
  end
  local u, worst = solve(K, f, n), 0
  for i = 1, n do worst = math.max(worst, math.abs(u[i] - (1 - x[i] ^ 2 - y[i] ^ 2))) end
  return worst
end

-- ---- examples/adaptive.lua ------------------------------------------------------

--- How far a grid that is fine everywhere is from the exact solution, as a part of all.
function M.adaptive(side, levels)
  local n = side * 8 * 2 ^ (levels - 1)
  local function wanted(i, j, t)
    local dy, dx = ((i + 0.5) / n - 0.5 * t - 0.4) % 1, ((j + 0.5) / n - t - 0.3) % 1
    if dx > 0.5 then dx = dx - 1 end
    if dy > 0.5 then dy = dy - 1 end
    return math.exp(-(dx ^ 2 + dy ^ 2) / 0.005)
  end
  local u = {}
  for i = 0, n - 1 do
    u[i] = {}
    for j = 0, n - 1 do u[i][j] = wanted(i, j, 0) end
  end
  for _ = 1, n / 2 do
    local new = {}
    for i = 0, n - 1 do
      new[i] = {}
      for j = 0, n - 1 do
        new[i][j] = u[i][j] - 0.5 * (u[i][j] - u[i][(j - 1) % n])
          - 0.25 * (u[i][j] - u[(i - 1) % n][j])
      end
    end
    u = new
  end
  local apart, mass = 0, 0
  for i = 0, n - 1 do
    for j = 0, n - 1 do
      apart, mass = apart + math.abs(u[i][j] - wanted(i, j, 0.25)), mass + u[i][j]
    end
  end
  return apart / mass
end

return M
