-- Poisson's equation on a disk, by finite elements on a mesh of triangles.
--
--   celer run mesh.lua [rings of triangles]
--
-- A triangle reads what its corners have, and adds what it comes to for them, by routes: no
-- matrix is made. Corners have numbers without any order, so the ranks that share them out are
-- not those of the triangles. -div grad u = 4 with u = 0 on the rim has the solution 1 - r^2.
-- All sums come in the order of triangles, or are exact: so the bits are those of any number of
-- ranks.
local celer = require "celer"
local q = celer.queue()

local rings = tonumber(arg[1]) or 40
local n, triangles = 1 + 3 * rings * (rings + 1), 6 * rings ^ 2

-- Ring k has 6 k nodes, around number 0 in the middle.
local scatter = n % 7919 > 0 and 7919 or 7907
local function node(k, i)
  return k == 0 and 0 or (1 + 3 * k * (k - 1) + i % (6 * k)) * scatter % n
end
local places, corners = {}, {}
for k = 0, rings do
  for i = 0, math.max(6 * k - 1, 0) do
    local angle = k > 0 and math.pi * i / (3 * k) or 0
    places[node(k, i)] = { k / rings * math.cos(angle), k / rings * math.sin(angle), k < rings }
  end
  for sector = 0, k > 0 and 5 or -1 do
    for j = 0, k - 1 do
      local outer, inner = sector * k + j, sector * (k - 1) + j
      table.insert(corners, { node(k, outer), node(k, outer + 1), node(k - 1, inner) })
      if j < k - 1 then
        table.insert(corners, { node(k, outer + 1), node(k - 1, inner + 1), node(k - 1, inner) })
      end
    end
  end
end

-- Of each triangle: what its corners have to do with each other, by the angles between; and what
-- is to come of the right side.
local measure = celer.kernel(function(t, corner, x, y, weight, load)
  local a, b, c = corner[t][0], corner[t][1], corner[t][2]
  local abx, aby, acx, acy = x[b] - x[a], y[b] - y[a], x[c] - x[a], y[c] - y[a]
  local area2 = abx * acy - aby * acx
  local bcx, bcy = acx - abx, acy - aby
  weight[t][0] = (acx * bcx + acy * bcy) / (2 * area2)
  weight[t][1] = (abx * acx + aby * acy) / (2 * area2)
  weight[t][2] = -(abx * bcx + aby * bcy) / (2 * area2)
  load:push(a, 4 * area2 / 6)
  load:push(b, 4 * area2 / 6)
  load:push(c, 4 * area2 / 6)
end, { name = "measure" })
local apply = celer.kernel(function(t, corner, weight, p, v)
  local a, b, c = corner[t][0], corner[t][1], corner[t][2]
  local ab, bc, ca = weight[t][0] * (p[a] - p[b]), weight[t][1] * (p[b] - p[c]),
    weight[t][2] * (p[c] - p[a])
  v:push(a, ab - ca)
  v:push(b, bc - ab)
  v:push(c, ca - bc)
end, { name = "apply" })

local start = celer.kernel(function(i, inside, load, u, r, p, rr)
  u[i], r[i] = 0, inside[i] and load[i] or 0
  p[i] = r[i]
  rr:add(r[i] * r[i])
end, { name = "start" })
local dot = celer.kernel(function(i, p, v, pv) pv:add(p[i] * v[i]) end, { name = "dot" })
local advance = celer.kernel(function(i, inside, p, v, rr, pv, u, r, left)
  local a = pv > 0 and rr / pv or 0
  if inside[i] then
    u[i] = u[i] + a * p[i]
    r[i] = r[i] - a * v[i]
    left:add(r[i] * r[i])
  end
end, { name = "advance" })
local turn = celer.kernel(function(i, r, rr, before, p)
  p[i] = r[i] + (before > 0 and rr / before or 0) * p[i]
end, { name = "turn" })
local compare = celer.kernel(function(i, x, y, u, worst)
  worst:max(math.abs(u[i] - (1 - x[i] * x[i] - y[i] * y[i])))
end, { name = "compare" })

local function vector(name, d, type_)
  return celer.buffer(type_ or "double", n, { name = name,
    init = d and function(i) return places[i][d] end })
end
local function number(name) return celer.buffer("double", {}, { name = name }) end
local function sum(buffer) return celer.sum(buffer, { reproducible = true }) end
local x, y, inside = vector("x", 1), vector("y", 2), vector("inside", 3, "bool")
local corner = celer.buffer("int", { triangles, 3 }, { name = "corner",
  init = function(t, j) return corners[t + 1][j + 1] end })
local weight = celer.buffer("double", { triangles, 3 }, { name = "weight" })
local load, u, r, p, v = vector "load", vector "u", vector "r", vector "p", vector "v"
local rr, before, pv, worst = number "rr", number "before", number "pv", number "worst"

measure(triangles, corner, x, y, weight, celer.route(load, "sum"))
start(n, inside, load, u, r, p, sum(rr))
local begin, steps = q:wait(rr)(), 0
local left
repeat
  apply(triangles, corner, weight, p, celer.route(v, "sum"))
  dot(n, p, v, sum(pv))
  rr, before = before, rr
  advance(n, inside, p, v, before, pv, u, r, sum(rr))
  turn(n, r, rr, before, p)
  steps = steps + 1
  left = q:wait(celer.capture(rr, nil, { dry = steps < 60 and 1 or 0 }))()
until left <= 1e-20 * begin or steps >= n

compare(n, x, y, u, celer.reduce(worst, "max"))
print(("%d nodes, %d triangles: %d steps, |r|^2 = %.17g, the largest error is %.9e"):format(n,
  triangles, steps, left, q:drain(worst)()))
