-- Expressions over whole buffers: what they compute, in how many tasks, and what they refuse.
local celer = require("spec.support.celer")
local cjson = require("cjson")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

-- random_case(extents, depth) gives an expression of buffers, and a function of coordinates that
-- computes the same in Lua: the value, a bound of all that it was made of, and the kind.
local generator = [==[
local ffi = require "ffi"
local m, random = celer.math, celer.random
local cell = ffi.new "float[1]"
local function round(kind, x)
  if kind ~= "float" then return x end
  cell[0] = x
  return cell[0]
end
local rank = { int = 1, weak = 2, float = 3, double = 4 }
local function join(a, b) return rank[a] > rank[b] and a or b end
local probe = celer.kernel("kernel void probe(item<1> it, out<int, 1> v) { v(it[0]) = 0; }")
local on_gpu = probe:info().backend == "cuda" -- which contracts a product and a sum

local function sources(extents)
  local function source(element, kind, f)
    return { kind = kind, f = f, element = element,
      buffer = celer.buffer(element, extents, { init = f }) }
  end
  return {
    source("float", "float", function(i, j, k) return (i * 3 + (j or 0) - (k or 0)) / 8 - 1 end),
    source("double", "double", function(i, j, k) return 1 / (1 + i + 2 * (j or 0) + (k or 0)) end),
    source("int", "int", function(i, j, k) return (i * 7 + (j or 0) * 3 + (k or 0)) % 9 - 4 end),
    source("int8_t", "int", function(i) return i % 5 - 2 end) }
end

local function wrapped(x, n) return x % n end
local function held(x, n) return math.min(math.max(x, 0), n - 1) end

-- An element, moved perhaps.
local function leaf(context)
  local s = context.sources[random(#context.sources)]
  local extents, f = context.extents, s.f
  local by, edge = {}, random() < 0.5 and "periodic" or "clamped"
  for d = 1, #extents do by[d] = random() < 0.4 and random(-2, 2) or 0 end
  local given = { unpack(by) }
  given[#given + 1] = edge
  local back = edge == "periodic" and wrapped or held
  return { e = s.buffer:shift(unpack(given)), kind = s.kind, at = function(...)
    local at = { ... }
    for d, n in ipairs(extents) do at[d] = back(at[d] + by[d], n) end
    local x = round(s.kind, f(unpack(at)))
    return x, math.abs(x)
  end }
end

local function number()
  local x = random() < 0.5 and random(-3, 3) or random(-12, 12) / 8
  return { e = x, kind = x % 1 == 0 and "int" or "weak", number = true,
    at = function() return x, math.abs(x) end }
end

local build

local function binary(op, f, bound, to_kind)
  return function(context, depth)
    local a, b = build(context, depth - 1), build(context, depth - 1)
    if a.number and b.number then a = leaf(context) end
    local kind = join(a.kind, b.kind)
    if to_kind then kind = to_kind(kind) end
    return { e = op(a.e, b.e), kind = kind, at = function(...)
      local x, xm = a.at(...)
      local y, ym = b.at(...)
      return round(kind, f(round(kind, x), round(kind, y))), bound(xm, ym)
    end }
  end
end

local function unary(op, f, of, to_kind)
  return function(context, depth)
    local a = of == leaf and leaf(context) or build(context, depth - 1)
    if a.number then a = leaf(context) end
    local kind = to_kind and to_kind(a.kind) or a.kind
    return { e = op(a.e), kind = kind, at = function(...)
      local x, xm = a.at(...)
      return round(kind, f(x)), xm + 1
    end }
  end
end

local function plus(a, b) return a + b end
local makers = {
  binary(plus, plus, plus),
  binary(function(a, b) return a - b end, function(a, b) return a - b end, plus),
  binary(function(a, b) return a * b end, function(a, b) return a * b end,
    function(a, b) return a * b end),
  binary(m.min, math.min, math.max), binary(m.max, math.max, math.max),
  unary(function(a) return -a end, function(a) return -a end),
  unary(m.abs, math.abs),
  unary(m.floor, math.floor, leaf, function() return "int" end),
  unary(function(a) return a ^ 2 end, function(a) return a * a end, nil,
    function(kind) return kind == "int" and "weak" or kind end),
  unary(function(a) return m.sqrt(m.abs(a)) end, function(a) return math.sqrt(math.abs(a)) end,
    leaf, function(kind) return kind == "int" and "weak" or kind end),
  function(context, depth) -- by what is not 0
    local a, by = build(context, depth - 1), random(2, 5) / 2
    if a.number then a = leaf(context) end
    local kind = a.kind == "int" and "weak" or a.kind
    return { e = a.e / by, kind = kind, at = function(...)
      local x, xm = a.at(...)
      return round(kind, x / by), xm
    end }
  end,
  function(context) -- a remainder has the divisor's sign
    local a, by = leaf(context), random(2, 4) * (random() < 0.5 and -1 or 1)
    return { e = a.e % by, kind = a.kind, at = function(...)
      return round(a.kind, (a.at(...)) % by), 4
    end }
  end,
  function(context, depth)
    local a, b = leaf(context), random() < 0.5 and leaf(context) or number()
    local x, y = build(context, depth - 1), build(context, depth - 1)
    if x.number and y.number then y = leaf(context) end
    local kind, which = join(x.kind, y.kind), random(6)
    local names = { "lt", "le", "gt", "ge", "eq", "ne" }
    local functions = { function(p, q) return p < q end, function(p, q) return p <= q end,
      function(p, q) return p > q end, function(p, q) return p >= q end,
      function(p, q) return p == q end, function(p, q) return p ~= q end }
    local condition = a.e[names[which]](a.e, b.e)
    return { e = celer.select(condition, x.e, y.e), kind = kind, at = function(...)
      local p, q = a.at(...), b.at(...)
      local value, bound = (functions[which](p, q) and x or y).at(...)
      return round(kind, value), bound
    end }
  end,
}

build = function(context, depth)
  if depth == 0 or random() < 0.1 then
    return random() < 0.25 and number() or leaf(context)
  end
  return makers[random(#makers)](context, depth)
end

local function each(extents, f, at)
  at = at or {}
  if #at == #extents then return f(unpack(at)) end
  for i = 0, extents[#at + 1] - 1 do
    local longer = { unpack(at) }
    longer[#longer + 1] = i
    each(extents, f, longer)
  end
end
]==]
describe("an expression over whole buffers", function()
  script.everywhere("computes what Lua does, in any shape", generator .. [==[
celer.seed(7)
for _, extents in ipairs { { 1 }, { 7 }, { 61 }, { 5, 7 }, { 3, 4, 5 } } do
  local context = { extents = extents, sources = sources(extents) }
  for k = 1, 6 do
    local case = build(context, 3)
    if case.number then case = leaf(context) end
    local element = case.kind == "weak" and "double" or case.kind
    local out = celer.buffer(element, extents)
    out:set(case.e)
    local s, text = q:wait(out), tostring(case.e)
    each(extents, function(...)
      local got = s(...)
      local wanted, bound = case.at(...)
      local far = math.abs(got - wanted)
      if far ~= 0 and not (far <= bound * (case.kind == "double" and 1e-12 or 1e-5) and on_gpu) then
        error(("%s at %s: got %.17g, wanted %.17g"):format(text, table.concat({ ... }, ", "),
          got, wanted))
      end
    end)
  end
end
]==])

  script.everywhere("reads and sets parts, fields and scalars", [==[
local m = celer.math
local n = 11
local u = celer.buffer("double", { n }, { name = "u", init = function(i) return i end })
local v = celer.zeros("double", { n })
v:part(1, n - 1):set(u:part(0, n - 2) + u:part(2, n) - 2 * u:part(celer.box({ 1 }, { n - 1 })))
same("inner", q:wait(v)(5), 0)
same("edge", q:wait(v)(0), 0)
v:part(0, 3):set(u:part(8, 11):shift(-1))
same("a part that was shifted", q:wait(v)(2), 9)
u:part(0, 5):set(u:part(6, 11) * 10)                    -- another part of what is written
u:part(3, 7):set(u:part(3, 7) + m.index(0))
local s = q:wait(u)
same("moved within", s(0), 60)
same("own elements", s(4), 104)
same("left alone", s(10), 10)
u:part(4, 4):set(9)                                     -- nothing
same("nothing", q:wait(u)(4), 104)
local w = celer.zeros("int", { 4, 5 })
w:part({ 1, 2 }, { 3, 5 }):part({ 1, 0 }, { 2, 3 }):set(m.index(0) * 10 + m.index(1))
s = q:wait(w)
same("coordinates of the buffer", s(2, 4), 24)
same("and no others", s(1, 4), 0)

local outside = celer.zeros("double", { n })
u:set(m.index(0))
outside:set(u:shift(-2, 7) + u:shift(3, "mirrored"))
s = q:wait(outside)
same("a number outside", s(1), 7 + 4)
same("a mirror", s(10), 8 + 8)
outside:set(u:shift(25, "periodic"))                    -- more than an extent
same("round twice", q:wait(outside)(0), 25 % n)
outside:set(u:shift(25, "clamped"))                     -- the same kernel
same("another edge", q:wait(outside)(0), n - 1)
local square = celer.array { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } }
local around = celer.array(square:shift(1, 0, "periodic") + square:shift(0, 1, "periodic")
  + square:shift(1, 1, "periodic"))
same("corners", q:wait(around)(2, 2), 3 + 7 + 1)

local dt, speed = celer.full("double", {}, 0.5), celer.full("double", nil, 8)
dt:set(dt * 2 / speed)
same("0-dimensional", dt(), 0.125)
u:set(u * dt)
same("a scalar", q:wait(u)(8), 1)
speed:reduce("max", u + 1)
same("reduced", speed(), 1 + 10 / 8)
speed:reduce("sum", u:part(0, 2) * 8, { include_current = true })
same("onto", speed(), 1 + 10 / 8 + 1)

local p = celer.buffer("float2", { 6 }, { init = function(i) return { x = i, y = -i } end })
p:set(p * 2 + celer.math.max(p, 0) - 1)
s = q:wait(p)
same("vectors x", s(3).x, 8)
same("vectors y", s(3).y, -7)
p:field "y":set(p:field "x" + 1)
same("a field", q:wait(p)(3).y, 9)
same("beside it", q:wait(p)(3).x, 8)
local body = celer.struct("body_of_arrays", "struct { double x; } at; int n;")
local bodies = celer.full(body, { 3 }, { n = 2 })
bodies:field "at.x":set(bodies:field "n" / 4)
same("a field in a field", q:wait(bodies)(1).at.x, 0.5)

local flags = celer.array(u:gt(0.5):both(u:lt(1):opposite()))
same("conditions", q:wait(flags)(8), true)
same("conditions", q:wait(flags)(5), false)
same("bool", q:wait(celer.array(celer.select(flags, 1, 0)))(8), 1)
local k = celer.array({ 7, -7, 3 }, "int")
same("cut", q:wait(celer.array(celer.cast("int", k / 2)))(1), -3)
same("floor", q:wait(celer.array(m.floor(k / 2), "int"))(1), -4)
local cube = celer.full("double", { 2, 2, 4 }, 3)
cube:set(cube ^ m.index(2))
same("a power of a coordinate", q:wait(cube)(0, 1, 3), 27)
k:set(k * 2 ^ 31 + 5)
same("wraps around", q:wait(k)(0), -2147483643)
]==])

  script.everywhere("makes buffers", [==[
local function all(what, b, f)
  local s = q:wait(b)
  for i = 0, b.size[0] - 1 do same(what .. " " .. i, s(i), f(i)) end
end
all("zeros", celer.zeros("int", 3), function() return 0 end)
all("ones", celer.ones("bool", { 3 }), function() return true end)
all("full", celer.full("float", { 3 }, 2.5, { name = "two" }), function() return 2.5 end)
all("arange", celer.arange("int", 5), function(i) return i end)
all("arange", celer.arange("double", 1, 2, 0.25), function(i) return 1 + i / 4 end)
all("arange", celer.arange("int", 5, 0, -2), function(i) return 5 - 2 * i end)
same("extent", celer.arange("int", 5, 0, -2).size[0], 3)
same("none", celer.arange("int", 3, 3).size[0], 0)
all("linspace", celer.linspace("double", 1, 2, 5), function(i) return 1 + i / 4 end)
same("one", q:wait(celer.linspace("double", 1, 2, 1))(0), 1)
all("a table", celer.array { 3, 4, 5 }, function(i) return 3 + i end)
same("like", tostring(celer.like(celer.full("float3", { 2, 3 }, { x = 1 }), { name = "l" })),
  "buffer l: float3[2][3], 72 bytes")
local a = celer.arange("int8_t", 4)
same("type", celer.array(a + 1).type.name, "int8_t")
same("type", celer.array(a / 2).type.name, "double")
same("type", celer.array(a * celer.zeros("float", { 4 })).type.name, "float")
same("type", celer.array(a + celer.zeros("int", 4)).type.name, "int64_t")
same("type", celer.array(a:lt(2)).type.name, "bool")
local r = celer.zeros("float", { 7, 9 })
r:set(celer.math.uniform(42, 3))
local k = celer.kernel("kernel void fill(item<2> it, out<float, 2> v) {"
  .. "v(it[0], it[1]) = philox(42, it.linear(), 3).uniform(); }")
local wanted = celer.zeros("float", { 7, 9 })
q:submit(function(cg) cg:parallel_for({ 7, 9 }, k, cg:discard_write(wanted)) end)
local differ = celer.zeros("int")
differ:reduce("sum", celer.select(r:ne(wanted), 1, 0))
same("the same on any number of ranks", differ(), 0)
r:set(celer.math.normal(1))
]==])

  script.everywhere("refuses what it cannot compute, with the line", [==[
local m = celer.math
local a = celer.buffer("float", { 7 }, { name = "a", init = 0 })
local b = celer.buffer("float", { 3 }, { name = "b", init = 0 })
local k = celer.buffer("int", { 7 }, { name = "k", init = 0 })
local f = celer.buffer("bool", { 7 }, { name = "f", init = false })
local v = celer.buffer("float2", { 7 }, { name = "v", init = { x = 1 } })
local w = celer.buffer("float3", { 7 }, { name = "w", init = { x = 1 } })
local big = celer.buffer("uint64_t", { 7 }, { name = "big", init = 0 })
local s = celer.buffer(celer.struct("unlike", "double x; char c[3];"), { 7 }, { name = "s" })
local t = celer.buffer("double", {}, { name = "t", init = 0 })
refused("a + b: the shapes differ: a is [7], and b is [3]", function() return 1, a + b end)
refused("a:set: the shapes differ", function() a:set(b) end)
refused("k:set: it has whole numbers (int), and a * 2 may be a fraction",
  function() k:set(a * 2) end)
refused("k:set: it has whole numbers (int), and 1.5", function() k:set(1.5) end)
refused("and k % k may be a fraction", function() k:set(k % k) end)
refused("celer.select: the condition a is a number", function() return 1, celer.select(a, 1, 2) end)
refused("c:both(): the condition a is a number", function() return 1, a:lt(1):both(a) end)
refused("it holds bool, and a are numbers", function() f:set(a) end)
refused("a + b: f is a condition, and no number: write celer.select(f, 1, 0)",
  function() return 1, a + f end)
local x
local needed = ": a buffer, an expression over buffers or a number is needed, not nil"
refused("a + b" .. needed, function() return 1, a + x end)
refused("a + b" .. needed, function() return 1, x + a end)
refused("a ^ b" .. needed, function() return 1, a ^ x end)
refused("a - b" .. needed, function() return 1, x - (a + 1) end)
refused("celer.math.min" .. needed, function() return 1, celer.math.min(a, x) end)
refused("celer.math.max" .. needed, function() return 1, celer.math.max(x, a) end)
refused("celer.math.max" .. needed, function() return 1, celer.math.max(a, x, 1) end)
refused("celer.math.sqrt" .. needed, function() return 1, celer.math.sqrt(x) end)
refused("celer.math.atan2" .. needed, function() return 1, celer.math.atan2(a, x) end)
refused("celer.math.pow: a buffer", function() return 1, celer.math.pow(a, x) end)
refused("celer.math.uniform takes a seed", function() return 1, celer.math.uniform(x) end)
refused("an expression over buffers has no 'shfit', did you mean shift?", function()
  (a + 1):shfit(1)
end)
refused("an expression over buffers has no 'less'", function() (a + 1):less(1) end)
refused("a buffer has no 'shfit', did you mean shift?", function() a:shfit(1) end)
refused("the expression a + 1 has no elements yet: celer.array(expression)", function()
  return 1, (a + 1)(2)
end)
refused("an expression has no elements yet", function() return 1, (a + 1)[2] end)
local one = celer.buffer("float", {}, { name = "one" })
refused("one:reduce: unknown operator 'summ'", function() one:reduce("summ", a) end)
refused("one:reduce: the operator must be a word such as \"sum\" or a table, not a buffer",
  function() one:reduce(a) end)
refused("one:reduce: unknown option 'include'", function()
  one:reduce("sum", a, { include = true })
end)
refused("one:reduce" .. needed, function() one:reduce("sum") end)
refused("celer.like: a buffer or an expression over buffers is needed, not a number", function()
  celer.like(3)
end)
refused("celer.periodic: what a kernel is given is a buffer, not an expression over buffers",
  function() celer.periodic(a + 1) end)
refused("there is no celer.math.sqr, did you mean sqrt?", function() celer.math.sqr(a) end)
refused("celer.reduce: unknown operator 'summ'", function() celer.reduce(one, "summ") end)
refused("a < b of whole buffers", function() return a < b end)
refused("a * b: s has elements of the struct unlike: take a field, s:field(name)",
  function() return 1, s * 2 end)
refused("unlike has no field 'c' that is a number", function() s:field "c" end)
refused("unlike has no field 'y'", function() s:field "y" end)
refused("the elements of a are no structs", function() a:field "x" end)
refused("big has whole numbers of 64 bits without a sign", function() return 1, big + 1 end)
refused("a + b: vectors of 2 and of 3", function() return 1, v + w end)
refused("a:set: its elements have 1 component, and those of v have 2", function() a:set(v) end)
refused("vectors are not compared", function() v:lt(1) end)
refused("a buffer, an expression over buffers or a number is needed, not a string",
  function() a:set("1") end)
refused("needed, not a table", function() return 1, a + {} end)
refused("a + 1 is computed", function() (a + 1):set(1) end)
refused("say what lies beyond its edges", function() a:set(a:shift(1)) end)
refused([[not "wrap"]], function() a:shift(1, "wrap") end)
refused("takes a whole number for each dimension of a, which has 1 dimension",
  function() a:shift(1, 2, 3) end)
refused("u:part: in dimension 0 the part is from 3 up to 8, and a has 0 up to 7",
  function() a:part(3, 8) end)
refused("u:part takes a celer.box", function() a:part(3) end)
refused("reads other elements of it, which may be new already",
  function() a:set(a:shift(1, "periodic")) end)
refused("reads other elements", function() a:part(0, 4):set(a:part(2, 6)) end)
refused("t:set: it has one element, and a is [7]", function() t:set(a) end)
refused("a:reduce: what it reduces into is a buffer of one element",
  function() a:reduce("sum", a) end)
refused("t:reduce: t * 2 is a scalar", function() t:reduce("sum", t * 2) end)
refused("celer.cast: the type must be one of numbers", function() celer.cast("float2", a) end)
refused("an expression has no elements yet", function() for _ in pairs(a + 1) do break end end)
refused("celer.math.sqrt takes 1 number", function() m.sqrt(a, a) end)
refused("whole numbers of at least 0", function() m.uniform(-1) end)
refused("celer.arange: the step must not be 0", function() celer.arange("int", 1, 2, 0) end)
refused("a struct has no number 0", function() celer.zeros("float2", 2) end)
refused("the table is empty", function() celer.array {} end)
b:free()
refused("the buffer b was freed", function() return 1, b + 1 end)
refused("u:set inside the function of a q:submit", function() q:submit(function() a:set(1) end) end)
]==])

  -- What a dry run says of so many steps.
  local function report(steps)
    local path = scratch.path()
    local r = celer.run({ "-e", [[
      local n = 64
      local u, v = celer.arange("double", n), celer.zeros("double", n)
      for k = 1, ]] .. steps .. [[ do
        v:set(celer.select(u:gt(k), u / k, u:shift(1, "periodic") - u:shift(-1, "periodic")))
        v:part(1, k % 9 + 2):set(u:part(2, k % 9 + 3) * k)
        u, v = v, u
      end]] }, { env = { CELER_DRY_RUN = "2", CELER_REPORT = path } })
    assert.equal(0, r.status, r.stderr)
    local out = cjson.decode(scratch.read(path))
    os.remove(path)
    return out
  end

  it("is one task, and needs no memory besides its buffers", function()
    local few, many = report(10), report(200)
    assert.equal(2 * 190, many.kernels - few.kernels)
    assert.equal(few.allocations, many.allocations)
    assert.same(few.memory, many.memory)
  end)

  it("compiles nothing for other numbers, parts and distances of parts", function()
    local folder = scratch.path()
    local function compiled(steps)
      local r = celer.run({ "-e", [[
        local u, v = celer.zeros("float", 64), celer.zeros("float", 64)
        for k = 1, ]] .. steps .. [[ do
          v:set(u * k + k / 4)
          v:part(0, k):set(u:part(30, 30 + k) * k - u:part(40 - k, 40) ^ 2)
        end]] }, { env = { CELER_CACHE = folder } })
      assert.same({ "", 0 }, { r.stderr, r.status })
      return #scratch.files(folder)
    end
    local few = compiled(1)
    assert.truthy(few > 0)
    assert.equal(few, compiled(20))
    os.execute("rm -rf '" .. folder .. "'")
  end)

  it("is printed as it is written, and says that it is not computed", function()
    local r = celer.run({ "-e", [[
      local a, b = celer.zeros("float", 4, { name = "a" }), celer.zeros("float", 4, { name = "b" })
      print((a + 2 * b) / -(a - (b - 1)) ^ 2)
      print(celer.select(a:lt(b + 1), celer.math.sqrt(a), b:shift(-1, "periodic")))]] })
    assert.equal("expression (a + 2 * b) / -(a - (b - 1)) ^ 2: [4], not computed; "
      .. "c:set(expression) and celer.array(expression) do it\n"
      .. "expression celer.select(a:lt(b + 1), celer.math.sqrt(a), b:shift(-1, \"periodic\")): "
      .. "[4], not computed; c:set(expression) and celer.array(expression) do it\n", r.stdout)
  end)
end)
