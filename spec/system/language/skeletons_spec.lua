-- Patterns over whole buffers: map, map_reduce, stencil, scan, compact, histogram, gather, scatter,
-- pipe.
local script = require("spec.support.script")

describe("a pattern over whole buffers", function()
  script.everywhere("maps functions of elements, and combines what they give", [==[
for _, extents in ipairs { { 1 }, { 13 }, { 5, 6 }, { 3, 4, 2 } } do
  local function init(i, j, k) return (i * 7 + (j or 0) * 3 + (k or 0)) % 11 - 5 end
  local u = celer.buffer("double", extents, { init = init })
  local v, t, scale = celer.like(u), celer.buffer("double"), celer.full("double", nil, 3)
  local offset = 1
  local function f(x, y, s) if x > 0 then return x * y * s + offset end return y end
  local total = 0
  for round = 1, 2 do
    celer.map(f, v, u, 2, scale)
    celer.map(function(x) return x + 1 end, v, v)
    celer.map_reduce(function(x, y) return x * y end, "sum", t, u, v)
    local wanted = 0
    local s = q:wait(v)
    local function each(d, at)
      if d > #extents then
        local x = init(unpack(at))
        local y = (x > 0 and x * 2 * 3 + offset or 2) + 1
        same("map", s(unpack(at)), y)
        wanted = wanted + x * y
        return
      end
      for i = 0, extents[d] - 1 do
        at[d] = i
        each(d + 1, at)
      end
    end
    each(1, {})
    same("map_reduce", t(), wanted)
    offset = offset + 1
  end
  celer.map_reduce(function(x) return x end, "max", t, u)
  same("max", t() <= 5, true)
end
]==])

  script.everywhere("reads elements around each, also beyond edges", [==[
local function back(edge, i, n)
  if edge == "periodic" then return i % n end
  if edge == "clamped" then return math.min(math.max(i, 0), n - 1) end
  if i < 0 then return -1 - i end
  return i >= n and 2 * n - 1 - i or i
end
for _, n in ipairs { 3, 7, 20 } do
  local u = celer.buffer("double", n, { init = function(i) return i * i end })
  local m = celer.buffer("double", { n, 4 }, { init = function(i, j) return 10 * i + j end })
  local v, w, factor = celer.like(u), celer.like(m), celer.full("double", nil, 3)
  for _, edge in ipairs { "periodic", "clamped", "mirrored", 100 } do
    celer.stencil(function(i, u, s, t) return u[i - 1] + s * u[i + 2] + t() * i end, edge, v, u, 10,
      factor)
    celer.stencil(function(i, j, a, b)
      local sum = 0
      for d = -1, 1 do sum = sum + a[i + d][j] end
      return sum - b[i][j + 1]
    end, edge, w, m, m)
    local function of_u(i)
      if edge == 100 and (i < 0 or i >= n) then return 100 end
      return back(edge, i, n) ^ 2
    end
    local function of_m(i, j)
      if edge == 100 and (i < 0 or i >= n or j >= 4) then return 100 end
      return 10 * back(edge, i, n) + back(edge, j, 4)
    end
    local s, t = q:wait(v, w)
    for i = 0, n - 1 do
      same(edge .. " " .. i, s(i), of_u(i - 1) + 10 * of_u(i + 2) + 3 * i)
      for j = 0, 3 do
        same(edge .. " of two dimensions", t(i, j),
          of_m(i - 1, j) + of_m(i, j) + of_m(i + 1, j) - of_m(i, j + 1))
      end
    end
  end
end
]==])

  for _, shapes in ipairs { script.shapes, { script.divided[2] } } do
    script.everywhere("scans and compacts any number of elements", [==[
for _, n in ipairs { 0, 1, 7, 255, 256, 257, 1000, 66000 } do
  local function init(i) return (i * 7) % 11 - 5 end
  local u = celer.buffer("int", n, { init = n > 0 and init or nil })
  local upto, before, most, own = celer.like(u), celer.like(u), celer.like(u), celer.array(u)
  celer.scan("sum", upto, u)
  celer.scan("sum", before, u, { exclusive = true })
  celer.scan("max", most, u)
  celer.scan({ combine = "a + b", identity = 0 }, own, own, { exclusive = true })
  local packed = celer.full("int", n + 3, -99)
  local count = celer.compact(u:gt(2), packed, u)
  local a, b, c, d, p = q:wait(upto, before, most, own, packed)
  local sum, largest, at = 0, -math.huge, 0
  for i = 0, n - 1 do
    same("exclusive " .. i, b(i), sum)
    same("exclusive in place " .. i, d(i), sum)
    sum, largest = sum + init(i), math.max(largest, init(i))
    same("sum " .. i, a(i), sum)
    same("max " .. i, c(i), largest)
    if init(i) > 2 then
      same("packed " .. at, p(at), init(i))
      at = at + 1
    end
  end
  same("count", tonumber(count()), at)
  for i = at, n + 2 do same("behind " .. i, p(i), -99) end
end
]==], nil, { shapes = shapes })
  end

  script.everywhere("scans fractions to the same bits however they are divided", [==[
local n = 5000
local u = celer.buffer("double", n, { init = function(i) return 1 / (i + 1) end })
celer.scan("sum", u, u)
-- A lane has 16 elements side by side, a warp 32 lanes, a tile 8 warps. Lanes are added up by steps
-- of 1, 2, 4, 8 and 16, all else from the left.
local wanted, before, of_tile = {}, nil, nil
local function add(x, y) return x and x + y or y end
for warp = 0, math.ceil(n / 512) - 1 do
  if warp % 8 == 0 then before, of_tile = of_tile, nil end -- of two tiles
  local alone, upto = {}, {}
  for lane = 0, 31 do
    local sum
    for i = 512 * warp + 16 * lane, 512 * warp + 16 * lane + 15 do
      sum = add(sum, 1 / (i + 1))
      alone[i] = sum
    end
    upto[lane] = sum
  end
  for step = 0, 4 do
    for lane = 31, 2 ^ step, -1 do upto[lane] = upto[lane - 2 ^ step] + upto[lane] end
  end
  local left = of_tile and add(before, of_tile) or before
  for i, x in pairs(alone) do
    local lane = math.floor(i % 512 / 16)
    wanted[i] = add(left, add(upto[lane - 1], x))
  end
  of_tile = add(of_tile, upto[31])
end
local s = q:wait(u)
for i = 0, n - 1 do same("element " .. i, s(i), wanted[i]) end
local c = celer.zeros("double", n)
c:set(celer.math.index(0))
local least = celer.array(c)
least:part(700, 701):set(0 / 0)
celer.scan("min", least, least)
s = q:wait(least)
same("before NaN", s(699), 0)
same("from NaN on", s(1500) ~= s(1500), true)
]==])

  local many = { script.shapes[1], script.shapes[3], script.divided[2],
    { name = "on seven ranks", devices = 1, ranks = 7 } }

  script.everywhere("counts how many elements lie in each bin", [==[
for _, extents in ipairs { { 0 }, { 1 }, { 1000 }, { 40, 7 }, { 5, 0 }, { 7, 5, 3 } } do
  local function init(i, j, k) return (i * 37 + (j or 0) * 11 + (k or 0)) % 101 / 4 - 3 end
  local some = true
  for _, n in ipairs(extents) do some = some and n > 0 end
  local u = celer.buffer("double", extents, { init = some and init or nil })
  local whole = celer.buffer("int", extents, { init = some and function(...)
    return math.floor(init(...))
  end or nil })
  for _, bins in ipairs { 1, 3, 16, 1000 } do
    local wide, plain, numbers = {}, {}, bins
    for b = 0, bins - 1 do wide[b], plain[b] = 0, 0 end
    local function each(d, at)
      if d > #extents then
        local x = init(unpack(at))
        if x >= 0 and x <= 16 then
          local b = math.min(math.floor(x * (bins / 16)), bins - 1)
          wide[b] = wide[b] + 1
        end
        local number = math.floor(x)
        if plain[number] then plain[number] = plain[number] + 1 end
        return
      end
      for i = 0, extents[d] - 1 do
        at[d] = i
        each(d + 1, at)
      end
    end
    if some then each(1, {}) end
    local a, b = celer.full("int", bins, 77), celer.full("uint64_t", bins, 77)
    celer.histogram(a, u, 0, 16)
    celer.histogram(b, whole)
    local s, t = q:wait(a, b)
    for i = 0, numbers - 1 do
      same(("%s, bin %d of %d"):format(tostring(u), i, bins), s(i), wide[i])
      same("number " .. i, tonumber(t(i)), plain[i])
    end
  end
end
local odd = celer.buffer("float", 6, { init = { 0 / 0, 1 / 0, -1 / 0, 1, 2, 3 } })
local two = celer.zeros("int", 2)
celer.histogram(two, odd, 1, 3)
same("below the middle", two(0), 1)
same("from the middle to the end", two(1), 2)
]==], nil, { shapes = many })

  -- Of more bins than a task can reduce into.
  it("counts in any number of bins", function()
    local r = script.run([==[
local n = 2 ^ 24 + 5
local h = celer.buffer("int", n, { init = 3 })
celer.histogram(h, celer.buffer("int", 12, { init = { 0, 1, 1, 2 ^ 24 - 1, 2 ^ 24, 2 ^ 24, 2 ^ 24,
  2 ^ 24 + 4, n, -1, 7, n - 1 } }))
for i, count in celer.sorted_pairs { [0] = 1, 2, 0, [7] = 1, [2 ^ 24 - 1] = 1, [2 ^ 24] = 3,
  [2 ^ 24 + 1] = 0, [2 ^ 24 + 4] = 2 } do
  same("bin " .. i, h(i), count)
end
print "checked"]==], { devices = 2 })
    assert.equal("", r.stderr)
    assert.equal("checked\n", r.stdout)
  end)

  script.everywhere("gathers and scatters by indices", [==[
local function index(i, m) return (i * 7 + 3) % (m + 4) - 2 end -- also outside
local function float(x) return tonumber(require("ffi").cast("float", x)) end
for _, case in ipairs { { 0, 5 }, { 1, 1 }, { 13, 8 }, { 300, 20 }, { 20, 300 }, { 5, 0 } } do
  local n, m = unpack(case)
  for _, type_ in ipairs { "int", "uint64_t" } do
    local function at(i)
      local k = index(i, m)
      return type_ == "int" and k or k < 0 and m + 3 or k -- no number below 0
    end
    local list = celer.buffer(type_, n, { init = n > 0 and at or nil })
    -- What a function gives, where there are elements.
    local function new(type_, n, f) return celer.buffer(type_, n, { init = n > 0 and f or nil }) end
    local from = new("double", m, function(i) return i + 0.5 end)
    local out = celer.full("double", n, -1)
    celer.gather(out, from, list)
    local s = q:wait(out)
    for i = 0, n - 1 do
      local k = at(i)
      same("gathered " .. i, s(i), k >= 0 and k < m and k + 0.5 or -1)
    end

    local values = new("double", n, function(i) return 1000 + i end)
    local put = celer.full("double", m, -1)
    celer.scatter(put, values, list)
    local counts, sums = celer.full("int", m, 5), {}
    celer.scatter(counts, celer.full("int", n, 2), list, "sum")
    local parts, ordered = celer.full("float", m, 0.5), {}
    celer.scatter(parts, new("float", n, function(i) return i / 7 end), list, "sum")
    local most = celer.full("int64_t", m, -3)
    celer.scatter(most, new("int64_t", n, function(i) return i % 5 end), list, "max")
    local wanted, largest = {}, {}
    for k = 0, m - 1 do wanted[k], sums[k], largest[k], ordered[k] = -1, 5, -3, 0.5 end
    for i = 0, n - 1 do
      local k = at(i)
      if k >= 0 and k < m then
        wanted[k], sums[k], largest[k] = 1000 + i, sums[k] + 2, math.max(largest[k], i % 5)
        ordered[k] = float(ordered[k] + float(i / 7))
      end
    end
    local p, c, l, o = q:wait(put, counts, most, parts)
    for k = 0, m - 1 do
      same("the last for " .. k, p(k), wanted[k])
      same("sum of " .. k, c(k), sums[k])
      same("most of " .. k, tonumber(l(k)), largest[k])
      same("in order " .. k, o(k), ordered[k])
    end
  end
end
local list = celer.buffer("int16_t", { 6, 4 }, { init = function(i, j) return (5 * i + j) % 9 end })
local from = celer.buffer("float3", 9, { init = function(i) return { x = i, y = -i, z = 1 } end })
local out = celer.buffer("float3", { 6, 4 })
celer.gather(out, from, list)
local s = q:wait(out)
for i = 0, 5 do for j = 0, 3 do same("vector", s(i, j).x - s(i, j).y, 2 * ((5 * i + j) % 9)) end end
]==], nil, { shapes = many })

  script.everywhere("pipes one expression through functions", [==[
local u = celer.array { 1, -2, 3 }
local function double(x) return 2 * x end
local out = celer.array(celer.pipe(u, double, celer.math.abs, function(x) return x + 1 end))
same("piped", q:wait(out)(1), 5)
same("nothing to do", celer.pipe(u), u)
]==])

  script.everywhere("refuses what does not fit, with the line", [==[
local u = celer.buffer("double", 8, { name = "u", init = 0 })
local v = celer.buffer("double", 9, { name = "v", init = 0 })
local t = celer.buffer("double", {}, { name = "t", init = 0 })
refused("the shapes differ: u is [8], and v is [9]", function()
  celer.map(function(x) return x end, u, v)
end)
refused("celer.array(expression) makes one", function()
  celer.map(function(x) return x end, u, u + 1)
end)
refused("the first argument is a function of elements", function() celer.map(u, u, u) end)
refused("t has one element: write t:set", function() celer.map(function(x) return x end, t, t) end)
refused("there are and, max, min, or, prod, sum", function()
  celer.map_reduce(function(x) return x end, "average", t, u)
end)
local like = celer.like(u)
refused([[not "wrap"]], function()
  celer.stencil(function(i, p) return p[i] end, "wrap", like, u)
end)
refused("u is written, and may not be read", function()
  celer.stencil(function(i, p) return p[i - 1] end, "periodic", u, u)
end)
refused("celer.scan: both buffers have one dimension", function() celer.scan("sum", v, u) end)
refused("celer.scan: unknown operator 'add'", function() celer.scan("add", u, u) end)
refused("celer.scan: the first argument is the operator", function() celer.scan(u, u) end)
refused("celer.map_reduce: the second argument is the operator", function()
  celer.map_reduce(function(x) return x end, t, u)
end)
refused("celer.stencil: the second argument says what lies beyond the edges", function()
  celer.stencil(function(i, p) return p[i] end, like, u)
end)
refused("'out' cannot be given what may be nil", function() celer.map(function() end, like, u) end)
refused("unknown option 'inclusive'", function() celer.scan("sum", u, u, { inclusive = true }) end)
refused("celer.compact: u is written, and may not be read", function()
  celer.compact(u:gt(0), u, u)
end)
refused("celer.compact: both buffers have one dimension", function()
  celer.compact(u:gt(0), celer.zeros("float", 8), u)
end)
refused("the condition u is a number", function() celer.compact(u, v, u) end)
refused("the shapes differ", function() celer.compact(v:gt(0), v, u) end)
refused("celer.pipe: argument 2 is a function", function() celer.pipe(u, 2) end)
local bins, list = celer.zeros("int", 4), celer.zeros("int", 8)
local table_ = celer.zeros("double", { 3, 3 })
refused("celer.histogram: the first argument, which it writes, is a buffer, not a number",
  function() celer.histogram(4, u, 0, 1) end)
refused("celer.histogram: the second argument is a buffer, not an expression", function()
  celer.histogram(bins, u + 1, 0, 1)
end)
refused("the bins are another buffer, of one dimension and whole numbers of 4 or 8 bytes",
  function() celer.histogram(v, u, 0, 1) end)
refused("the bins are another buffer", function() celer.histogram(bins, bins) end)
refused("the bins are another buffer", function()
  celer.histogram(celer.zeros("uint8_t", 4), u, 0, 1)
end)
refused("what is counted is a buffer of numbers with dimensions; here is buffer t", function()
  celer.histogram(bins, t, 0, 1)
end)
refused("without a range the elements of u are the numbers of bins, so they must be whole",
  function() celer.histogram(bins, u) end)
refused("argument 4 is the greatest number that is counted, not nil", function()
  celer.histogram(bins, u, 0)
end)
refused("argument 3 is the least number that is counted, not nil", function()
  celer.histogram(bins, u, nil, 1)
end)
refused("argument 4 is the greatest number that is counted, not inf", function()
  celer.histogram(bins, u, 0, math.huge)
end)
refused("celer.histogram: the range from 3 to 3 is empty", function()
  celer.histogram(bins, u, 3, 3)
end)
refused("celer.gather: u is written, and may not be read: write into another buffer", function()
  celer.gather(u, u, list)
end)
refused("celer.gather: the indices are whole numbers; here is buffer v", function()
  celer.gather(u, v, v)
end)
refused("the indices lead to a buffer of one dimension, and both have the same type; here are",
  function() celer.gather(u, table_, list) end)
refused("both have the same type", function() celer.gather(u, bins, list) end)
refused("there is an index for each element, but the shapes differ: here are buffer v", function()
  celer.gather(v, u, list)
end)
refused("celer.gather: the third argument is a buffer, not nil", function() celer.gather(v, u) end)
refused("celer.scatter: u is written, and may not be read", function()
  celer.scatter(u, u, list)
end)
refused("the shapes differ: here are buffer u", function() celer.scatter(v, u, bins) end)
refused("has more than one dimension", function()
  celer.scatter(v, table_, celer.zeros("int", { 3, 3 }))
end)
refused("\"or\" is for whole numbers, bit by bit, and for bool; v holds", function()
  celer.scatter(v, u, list, "or")
end)
refused("celer.scatter: the fourth argument is the operator, a word", function()
  celer.scatter(bins, list, celer.zeros("int", 8), "add")
end)
]==])

  script.everywhere("finds the items that name something in a box", [==[
local n = 5000
local function named(i) return i * 37 % 101 - 1 end
for _, type_ in ipairs { "int", "unsigned", "int64_t" } do
  local index = celer.buffer(type_, n, { name = "index", init = function(i)
    return math.max(named(i), 0) end })
  local items, k = celer.preimage(index, celer.box({ 20 }, { 37 })), 0
  local s = q:wait(items)
  for i = 0, n - 1 do
    if named(i) >= 20 and named(i) < 37 then
      same("item", tonumber(s(k)), i)
      k = k + 1
    end
  end
  same("how many", items.size[0], k)
  same("none", celer.preimage(index, celer.box({ 200 }, { 300 })).size[0], 0)
end
refused("an index has one dimension here", function()
  celer.preimage(celer.zeros("double", 4), celer.box({ 0 }, { 1 })) end)
refused("a box of one dimension", function()
  celer.preimage(celer.zeros("int", 4), celer.box({ 0, 0 }, { 1, 1 })) end)
]==])
end)
