-- Patterns over whole buffers: map, map_reduce, stencil, scan, compact, pipe.
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
-- What the blocks come to, in their order.
local sums, wanted = { 0 }, {}
for b = 0, math.ceil(n / 256) - 1 do
  local own
  for i = b * 256, math.min(n, b * 256 + 256) - 1 do
    local x = 1 / (i + 1)
    local so_far = b > 0 and sums[b + 1]
    wanted[i] = (i == b * 256 and (so_far and so_far + x or x)) or wanted[i - 1] + x
    own = own and own + x or x
  end
  sums[b + 2] = b > 0 and sums[b + 1] + own or own
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
]==])
end)
