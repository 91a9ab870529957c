-- Every built-in mapper, and some that users write, in 0 to 3 dimensions, however
-- the range is cut: each item finds what its mapper promises, and nothing is lost.
local script = require("spec.support.script")

-- `all(f)` calls f(dims, extents, hints) for sizes that ranks do not divide; a task
-- of its own first writes what others read, cut in its own way.
local world = [==[
local sizes = { [0] = { {} }, { { 1 }, { 2 }, { 13 } }, { { 1, 7 }, { 7, 1 }, { 11, 6 } },
  { { 2, 3, 4 }, { 5, 1, 3 }, { 3, 5, 2 } } }
local splits = { [0] = { {} }, { {}, { granularity = 3 }, { oversubscribe = 3 } },
  { {}, { split = "2d" }, { split = "2d", granularity = { 2, 3 }, oversubscribe = 2 } },
  { {}, { split = "3d", granularity = { 2, 1, 2 } }, { split = "2d" } } }
local function all(f)
  for dims = 0, 3 do
    for _, e in ipairs(sizes[dims]) do
      local hints = splits[dims]
      for i, hint in ipairs(hints) do f(dims, e, hint, hints[#hints + 1 - i]) end
    end
  end
end
-- Calls f with each point of the box [lo, hi), lists.
local function points(lo, hi, f)
  local n, p = #hi, {}
  local function go(d)
    if d > n then return f(unpack(p)) end
    for i = lo[d], hi[d] - 1 do
      p[d] = i
      go(d + 1)
    end
  end
  go(1)
end
local function value(i, j, k) return (i or 0) * 10000 + (j or 0) * 100 + (k or 0) + 1 end
local function corners(box)
  local lo, hi = {}, {}
  for d = 1, box.dims do lo[d], hi[d] = box.min[d - 1], box.max[d - 1] end
  return lo, hi
end
local function ones(lo, dims, d, low, high)         -- the item at lo, [low, high) in d
  local from, to = {}, {}
  for i = 1, dims do from[i], to[i] = lo[i], lo[i] + 1 end
  if d then from[d], to[d] = low, high end
  return { from, to }
end
local function written(e, hint)
  local a = celer.buffer("double", e, { name = "a" })
  q:submit(function(cg)
    cg:hint(hint)
    cg:host_task(e, function(part, a)
      local lo, hi = corners(part)
      points(lo, hi, function(...)
        local p = { ... }
        p[#p + 1] = value(...)
        a:set(unpack(p))
      end)
    end, cg:discard_write(a))
  end)
  return a
end
]==]

describe("built-in mappers", function()
  for _, shapes in ipairs { script.shapes, script.divided } do
    script.everywhere("read what they promise", world .. [==[
-- name, mapper, and the boxes that item p touches of a buffer of extents e
local function mappers(dims, e)
  local zero, list = {}, {}
  for d = 1, dims do zero[d] = 0 end
  local function add(name, map, of) list[#list + 1] = { name = name, map = map, of = of } end
  add("one_to_one", celer.one_to_one, function(p) return { ones(p, dims) } end)
  add("all", celer.all, function() return { { zero, e } } end)
  if dims == 0 then return list end
  local lo, hi = {}, {}
  for d = 1, dims do lo[d], hi[d] = math.floor(e[d] / 3), math.ceil(e[d] * 2 / 3) end
  add("fixed", celer.fixed(celer.box(lo, hi)), function() return { { lo, hi } } end)
  for d = 1, dims do
    add("slice " .. d - 1, celer.slice(d - 1), function(p) return { ones(p, dims, d, 0, e[d]) } end)
  end
  local around = { unpack({ 1, 2, 1 }, 1, dims) }
  local function cut(lo, hi)
    for d = 1, dims do lo[d], hi[d] = math.max(lo[d], 0), math.min(hi[d], e[d]) end
    return { lo, hi }
  end
  add("neighborhood", celer.neighborhood(unpack(around)), function(p)
    local lo, hi = {}, {}
    for d = 1, dims do lo[d], hi[d] = p[d] - around[d], p[d] + around[d] + 1 end
    return { cut(lo, hi) }
  end)
  local beyond = { periodic = function(i, n) return i % n end,
    clamped = function(i, n) return math.max(0, math.min(i, n - 1)) end,
    mirrored = function(i, n) i = i % (2 * n); return i < n and i or 2 * n - 1 - i end }
  for kind, lead in celer.sorted_pairs(beyond) do
    add(kind, celer[kind](unpack(around)), function(p)
      local out, lo, hi = {}, {}, {}
      for d = 1, dims do lo[d], hi[d] = p[d] - around[d], p[d] + around[d] + 1 end
      points(lo, hi, function(...)
        local at = { ... }
        for d = 1, dims do at[d] = lead(at[d], e[d]) end
        out[#out + 1] = ones(at, dims)
      end)
      return out
    end)
  end
  local axes = { unpack(around) }
  axes[dims + 1] = "along_axes"
  add("along_axes", celer.neighborhood(unpack(axes)), function(p)
    local out = {}
    for d = 1, dims do
      out[d] = cut(unpack(ones(p, dims, d, p[d] - around[d], p[d] + around[d] + 1)))
    end
    return out
  end)
  local function each(f)                             -- [f(min), f(max)) in each dimension
    return function(c, b)
      local lo, hi = {}, {}
      for d = 1, dims do lo[d], hi[d] = f(c.min[d - 1], c.max[d - 1], b.size[d - 1]) end
      return celer.box(lo, hi)
    end
  end
  add("mirrored", each(function(lo, hi, n) return n - hi, n - lo end), function(p)
    local at = {}
    for d = 1, dims do at[d] = e[d] - 1 - p[d] end
    return { ones(at, dims) }
  end)
  local halved = each(function(lo, hi) return celer.floor(lo / 2), celer.ceil(hi / 2) end)
  add("halved", halved, function(p)
    local at = {}
    for d = 1, dims do at[d] = math.floor(p[d] / 2) end
    return { ones(at, dims) }
  end)
  local doubled = each(function(lo, hi) return 2 * lo, 2 * hi end)
  add("doubled", function(c, b) return doubled(c, b):clamped() end, function(p)
    local lo, hi = {}, {}
    for d = 1, dims do lo[d], hi[d] = 2 * p[d], 2 * p[d] + 2 end
    return { cut(lo, hi) }
  end)
  add("before", each(function(_, hi) return 0, hi end), function(p)
    local hi = {}
    for d = 1, dims do hi[d] = p[d] + 1 end
    return { { zero, hi } }
  end)
  return list
end
local function sum(get, boxes)
  local seen, total = {}, 0
  for _, b in ipairs(boxes) do
    points(b[1], b[2], function(...)
      local v = get(...)
      total, seen[v] = total + (seen[v] and 0 or v), true
    end)
  end
  return total
end
all(function(dims, e, hint, other)
  local a, snapshots = written(e, other), {}
  for i, m in ipairs(mappers(dims, e)) do
    local out, of = celer.buffer("double", e, { name = "out" }), m.of
    q:submit(function(cg)
      cg:hint(hint)
      cg:host_task(e, function(part, a, out)
        local lo, hi = corners(part)
        points(lo, hi, function(...)
          local p = { ... }
          p[dims + 1] = sum(function(...) return a(...) end, of(p))
          out:set(unpack(p))
        end)
      end, cg:read(a, m.map), cg:discard_write(out))
    end)
    snapshots[i] = { m, q:fence(out) }
  end
  for _, one in ipairs(snapshots) do
    local m, s = one[1], one[2]:get()
    local zero = {}
    for d = 1, dims do zero[d] = 0 end
    points(zero, e, function(...)
      same(("%s of %s at %s"):format(m.name, table.concat(e, " x "), table.concat({ ... }, ", ")),
        s(...), sum(value, m.of { ... }))
    end)
  end
end)
]==], nil, { shapes = shapes })

    script.everywhere("write what they promise", world .. [==[
local function turn(order, list)
  local out = {}
  for j, d in ipairs(order) do out[j] = list[d] end
  return out
end
local function back(order, list)
  local out = {}
  for j, d in ipairs(order) do out[d] = list[j] end
  return out
end
local orders = { { { 1 } }, { { 2, 1 } }, { { 3, 1, 2 }, { 2, 1, 3 }, { 3, 2, 1 } } }
all(function(dims, e, hint, other)
  for _, order in ipairs(orders[dims] or {}) do
    local names = {}
    for j, d in ipairs(order) do names[j] = d - 1 end
    local a = written(e, other)
    local b = celer.buffer("double", turn(order, e), { name = "b" })
    local c = celer.buffer("double", e, { name = "c" })
    local turned = celer.transposed(unpack(names))
    q:submit(function(cg)
      cg:hint(hint)
      cg:host_task(e, function(part, a, b)
        local lo, hi = corners(part)
        points(lo, hi, function(...)
          local p = turn(order, { ... })
          p[dims + 1] = a(...)
          b:set(unpack(p))
        end)
      end, cg:read(a), cg:discard_write(b, turned))
    end)
    q:submit(function(cg)                              -- and back, mirrored
      cg:hint(other)
      cg:host_task(e, function(part, b, c, e)
        local lo, hi = corners(part)
        points(lo, hi, function(...)
          local p, v = { ... }, b(unpack(turn(order, { ... })))
          for d = 1, dims do p[d] = e[d] - 1 - p[d] end
          p[dims + 1] = v
          c:set(unpack(p))
        end)
      end, cg:read(b, turned), cg:discard_write(c, function(chunk, buffer)
        local lo, hi = {}, {}
        for d = 1, dims do
          lo[d] = buffer.size[d - 1] - chunk.max[d - 1]
          hi[d] = buffer.size[d - 1] - chunk.min[d - 1]
        end
        return celer.box(lo, hi)
      end), e)
    end)
    local s, t = q:wait(b, c)
    local zero = {}
    for d = 1, dims do zero[d] = 0 end
    points(zero, turn(order, e), function(...)
      same("transposed", s(...), value(unpack(back(order, { ... }))))
    end)
    points(zero, e, function(...)
      local p = { ... }
      for d = 1, dims do p[d] = e[d] - 1 - p[d] end
      same("mirrored", t(...), value(unpack(p)))
    end)
  end
end)
]==], nil, { shapes = shapes })
  end

  script.everywhere("are refused where what makes them is given in their place", [==[
local a = celer.buffer("int", { 8 }, { name = "a" })
for name, usage in pairs { fixed = "fixed(box)", slice = "slice(0)",
  neighborhood = "neighborhood(1)", transposed = "transposed(1, 0)", periodic = "periodic(1)",
  clamped = "clamped(1)", mirrored = "mirrored(1)", constant = "constant(0, 1)" } do
  local words = (": celer.%s makes a range mapper: write celer.%s"):format(name, usage)
  refused("cg:read" .. words, function()
    q:submit(function(cg) cg:read(a, celer[name]) end)
  end)
  refused("celer.rule" .. words, function() celer.rule(celer[name], a) end)
end
]==], nil, { shapes = { script.shapes[1] } })

  script.everywhere("divide rows among ranks, whatever there is of them", [==[
local _, ranks = require("celer.core").rank()
for _, rows in ipairs { 0, 1, ranks - 1, ranks, 2 * ranks + 1, 23 } do
  for _, e in ipairs { { rows }, { rows, 3 } } do
    local a = celer.buffer("int", e, { name = "a" })
    q:submit(function(cg)
      cg:host_task(celer.collective(), function(part, a)
        for i = a.min[0], a.max[0] - 1 do
          if #e == 1 then a[i] = i else for j = 0, 2 do a:set(i, j, i) end end
        end
      end, cg:discard_write(a, celer.even_split))
    end)
    local s = q:wait(a)
    for i = 0, rows - 1 do same("row", #e == 1 and s[i] or s(i, 2), i) end
  end
end
]==], nil, { shapes = { script.shapes[1], script.shapes[2], script.divided[3] } })
end)
