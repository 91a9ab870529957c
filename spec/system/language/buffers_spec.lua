-- Buffers as scripts make, fill, name and free them.
local script = require("spec.support.script")

describe("initial contents", function()
  script.everywhere("are the same from every source in 0 to 3 dimensions", [[
local ffi = require "ffi"
local function value(i, j, k) return 100 * (i or 0) + 10 * (j or 0) + (k or 0) + 7 end
local extents = { [0] = {}, { 5 }, { 3, 4 }, { 2, 3, 4 } }
local function compare(what, size, b)
  local s = q:wait(b)
  same(what .. " dims", s.dims, #size)
  for i = 0, (size[1] or 1) - 1 do
    for j = 0, (size[2] or 1) - 1 do
      for k = 0, (size[3] or 1) - 1 do
        local at = { i, j, k }
        same(what .. " element", s(unpack(at, 1, #size)), value(unpack(at, 1, #size)))
      end
    end
  end
end
for dims = 0, 3 do
  local size, flat, nested = extents[dims], {}, {}
  for i = 0, (size[1] or 1) - 1 do
    local plane = {}
    for j = 0, (size[2] or 1) - 1 do
      local row = {}
      for k = 0, (size[3] or 1) - 1 do
        row[k + 1] = value(i, j, k)
        flat[#flat + 1] = row[k + 1]
      end
      plane[j + 1] = dims == 3 and row or row[1]
    end
    nested[i + 1] = dims > 1 and plane or plane[1]
  end
  local function make(init)
    return celer.buffer("double", size, { init = init })
  end
  compare("array", size, make(ffi.new("double[?]", #flat, flat)))
  compare("function", size, make(value))
  if dims == 0 then compare("number", size, make(7)) end
  if dims > 0 then compare("flat", size, make(flat)) end
  if dims > 0 then compare("nested", size, make(nested)) end
end
]])

  script.everywhere("hold each type of element", [[
local ffi = require "ffi"
local point = celer.struct("point", "double x; int n[2]; bool on;")
local b = q:wait(celer.buffer("bool", { 2 }, { init = { true, false } }))
same("true", b[0], true)
same("false", b[1], false)
local i = q:wait(celer.buffer("int64_t", { 2 }, { init = { -2 ^ 40, 9007199254740993LL } }))
same("large", i[0], -1099511627776LL)
same("exact", i[1], 9007199254740993LL)
local u = q:wait(celer.buffer("uint64_t", {}, { init = 18446744073709551615ULL }))
same("unsigned", u(), 18446744073709551615ULL)
local v = q:wait(celer.buffer("float3", { 2 }, { init = { { 1, 2, 3 }, { x = 4 } } }))
same("vector", v[0].z + v[1].x + v[1].y, 7)
local p = q:wait(celer.buffer(point, { 2, 1 },
  { init = function(y, x) return { y + 0.5, { x, y }, y == 1 } end }))
same("struct", p(1, 0).x, 1.5)
same("array in a struct", p(1, 0).n[1], 1)
same("bool in a struct", p(0, 0).on, false)
local flat = q:wait(celer.buffer(point, { 1, 2 }, { init = { { x = 1 }, { x = 2 } } }))
same("flat structs", flat(0, 1).x, 2)
local nested = q:wait(celer.buffer(point, { 1, 2 }, { init = { { { x = 1 }, { x = 3 } } } }))
same("nested structs", nested(0, 1).x, 3)
local one = { x = 0.5, n = { 1, 2 } }
local alike = celer.buffer(point, { 9, 2 }, { init = one })
one.x = 7
same("one struct for all", q:wait(alike)(8, 1).x + q:wait(alike)(8, 1).n[1], 2.5)
]])

  script.everywhere("give structs the same bits in whatever way they are given", [[
local five = celer.struct("five", "double a, b; float c, d; int64_t e;")
local mixed = celer.struct("mixed", "char c; double x; bool on; int n[2];")
local function five_of(i, j) return { a = i, b = -0.0, c = 0.1, d = j, e = 2 ^ 40 + i } end
local ways = {
  function(i, j) return { a = i, b = -0.0, c = 0.1, d = j, e = 2 ^ 40 + i } end,
  function(i, j) return { i, -0.0, 0.1, j, 2 ^ 40 + i } end,
  function(i, j) return (five_of(i, j)) end,
  function(i, j)
    local v = { a = i, b = -0.0, c = 0.1, e = 2 ^ 40 + i }
    if j > 0 then v.d = j end
    return v
  end,
  function(i, j) return five_of(i, j) end,
}
local first
for w, way in ipairs(ways) do
  local bytes = q:wait(celer.buffer(five, { 70, 5 }, { init = way })):string()
  first = first or bytes
  same("way " .. w, bytes, first)
end
local s = q:wait(celer.buffer(five, { 70, 5 }, { init = ways[1] }))
for i = 0, 69 do
  local v = s(i, 4)
  same("a", v.a, i)
  same("b", 1 / v.b, -math.huge)
  same("d", v.d, 4)
  same("e", v.e, 2LL ^ 40 + i)
end
local one = { a = 1, b = 0 / 0, c = 0.1, d = -1 / 0, e = -3 }
local b = celer.buffer(five, { 3, 7, 5 })
b:fill(one)
local filled = q:wait(b):string()
same("each", q:wait(celer.buffer(five, { 3, 7, 5 }, { init = one })):string(), filled)
same("function", q:wait(celer.buffer(five, { 3, 7, 5 }, { init = function()
  return { a = 1, b = 0 / 0, c = 0.1, d = -1 / 0, e = -3 }
end })):string(), filled)
local big = q:wait(celer.buffer("double3", { 30000 }, { init = { x = 1, z = 3 } }))
same("a vector", big[29999].x + 10 * big[29999].y + 100 * big[29999].z, 301)
local m = q:wait(celer.buffer(mixed, { 40 }, { init = function(i)
  return { c = 7, x = i, on = i > 3, n = { i, 2 } }
end }))
same("mixed", m[39].c + m[39].x + m[39].n[0] + m[39].n[1], 87)
same("on", m[4].on, true)
same("off", m[3].on, false)
]])

  it("of structs take no tables where a function writes them down", function()
    local r = script.run([[
local five = celer.struct("five", "double a, b, c, d, e;")
local n = 200000
local b = celer.buffer(five, { n }, { init = function(i)
  local x = i
  if i == 0 then
    collectgarbage()
    collectgarbage("stop")
    x = collectgarbage("count")
  elseif i == n - 1 then
    x = collectgarbage("count")
    collectgarbage("restart")
  end
  return { a = x, b = 2, c = 3, d = 4, e = i }
end })
q:submit(function(cg)
  cg:host_task(celer.once, function(_, b)
    print(b[n - 1].a - b[0].a < 10000, b[n - 1].e)
  end, cg:read(b, celer.all))
end)
]], { devices = 1 })
    assert.same({ "", "true\t199999\n" }, { r.stderr, r.stdout })
  end)

  it("of structs say at which element a function is wrong", function()
    for text, wanted in pairs {
      ["{ x = i, y = i < 500 and 1 or print }"] =
        "field 'y' of a pair is a number, and is given a function",
      ["{ x = i, y = i < 500 and 1 or 'a' }"] =
        "field 'y' of a pair is a number, and is given a string",
      ["i < 500 and { i } or { 1, 2, {}, 4 }"] = "a pair has 3 fields, and is given 4 values",
      ["{ x = i, [i < 500 and 'y' or 'z'] = 1 }"] = "a pair has no field 'z'",
      ["{ x = i, z = i }"] = "a pair has no field 'z'",
      ["i < 500 and { x = i } or 7"] = "a number is no pair",
      ["i < 500 and { i, 1 } or nil"] = "nil is no pair",
      ["{ y = 1, q = { m = 1, [i < 500 and 'm' or 'n'] = 1 } }"] = "a pair has no field 'q.n'",
    } do
      local at = wanted:find "'z'" and text:find "z = i" and 0 or 500
      local r = script.run("local p = celer.struct('pair', 'double x, y; struct { int m; } q;')\n"
        .. "q:wait(celer.buffer(p, { 2000 }, { name = 'b', init = function(i)\n"
        .. "  return " .. text .. "\nend }))", { devices = 1 })
      assert.equal(1, r.status)
      assert.matches(("case.lua:3: the init function of b at (%d): %s"):format(at, wanted),
        r.stderr, 1, true)
    end
  end)

  script.everywhere("are copies of what was given", [[
local ffi = require "ffi"
local t, a, n = { 1, 2 }, ffi.new("int[2]", 3, 4), 5
local sevens, yes = q:wait(celer.buffer("float", { 9, 2 }, { init = 7.5 }),
  celer.buffer("bool", { 9 }, { init = true }))
same("a number", sevens(8, 1), 7.5)
same("a boolean", yes[8], true)
local from_t = celer.buffer("int", 2, { init = t })
local from_a = celer.buffer("int", 2, { init = a })
local from_f = celer.buffer("int", 2, { init = function(i) return n + t[i + 1] end })
t[1], a[0], n = 10, 10, 10
same("table", q:wait(from_t)[0], 1)
same("array", q:wait(from_a)[0], 3)
same("function", q:wait(from_f)[0], 6)
]])

  script.everywhere("are computed only where they are needed", [[
local u = celer.buffer("int", { 30 }, { init = function(i) print(i) return i end })
local v = celer.buffer("int", { 30 })
local unused = celer.buffer("int", { 30 }, { init = function(i) error("not needed") end })
local copy = celer.kernel [=[
  kernel void f(item<1> i, out<int, 1> v, in<int, 1> u) { v(i[0]) = u(i[0]); }
]=]
q:submit(function(cg)
  cg:parallel_for(celer.box({ 6 }, { 24 }), copy, cg:discard_write(v), cg:read(u))
end)
local s = q:drain(celer.capture(v, celer.box({ 6 }, { 24 })))
for i = 6, 23 do same("copied", s[i], i) end
]], function(out, shape)
    local lines, counts = script.lines(out)
    local seen = {}
    for _, line in ipairs(lines) do
      assert.is_nil(seen[line], line .. " is computed twice")
      seen[line] = true
    end
    assert.equal(18, #lines)
    for i = 6, 23 do assert.is_true(seen[tostring(i)]) end
    for rank = 0, (shape.ranks or 1) - 1 do
      assert.equal(18 / (shape.ranks or 1), counts[rank])
    end
  end)

  -- A number that a loop over `pairs` chose, say, and what a function captured.
  it("must be the same on all ranks", function()
    for _, init in ipairs { "rank", "{ 1, rank, 3 }", "function(i) return i + rank end" } do
      local r = script.run(([[
local rank = require("celer.core").rank()
local u = celer.buffer("int", { 3 }, { name = "u", init = %s })
q:submit(function(cg) cg:host_task({ 3 }, function() end, cg:read(u)) end)
]]):format(init), { devices = 1, ranks = 2 })
      assert.equal(1, r.status)
      assert.matches("case%.lua:%d: the ranks run different programs: .*init", r.stderr)
    end
  end)

  script.everywhere("that do not fit are refused at their line", [[
local ffi = require "ffi"
local function int(extents, init) return "int", extents, { name = "u", init = init } end
refused("reserve of u: the part must be a celer.box, not a number", function()
  celer.buffer("int", { 3, 4 }, { name = "u", reserve = 7 })
end)
refused("reserve of u: the part [0, 3) x [2, 5) leaves the buffer u", function()
  celer.buffer("int", { 3, 4 }, { name = "u", reserve = celer.box({ 0, 2 }, { 3, 5 }) })
end)
refused("init has 2 elements, the buffer has 3", function() celer.buffer(int(3, { 1, 2 })) end)
refused("init has an entry [4]", function() celer.buffer(int(3, { 1, 2, 3, 4 })) end)
refused("init has an entry [x]", function() celer.buffer(int(1, { 1, x = 2 })) end)
refused("init[2] has 1 elements", function() celer.buffer(int({ 2, 2 }, { { 1, 2 }, { 3 } })) end)
refused("init[2] is a number, not a table of 2", function()
  celer.buffer(int({ 2, 2 }, { { 1, 2 }, 3 }))
end)
refused("init[2]: a string is no int", function() celer.buffer(int(2, { 1, "x" })) end)
refused("init[1]: 0.5 is no whole number", function() celer.buffer(int(2, { 0.5, 1 })) end)
refused("does not fit", function() celer.buffer(int(1, { 2 ^ 31 })) end)
refused("does not fit", function() celer.buffer("uint8_t", 1, { init = { -1 } }) end)
refused("does not fit", function() celer.buffer("int8_t", {}, { init = 128 }) end)
refused("does not fit", function() celer.buffer("int8_t", { 4 }, { init = 128 }) end)
local deep = celer.struct("deep", "float x; float2 at; struct { float mass; } q;")
refused("a deep has no field 'at.yy', did you mean at.y?", function()
  celer.buffer(deep, 2, { init = { x = 1, at = { x = 1, yy = 2 }, q = { mass = 1 } } })
end)
refused("a deep has no field 'q.mas', did you mean q.mass?", function()
  celer.buffer(deep, 2):fill { x = 1, q = { mas = 2 } }
end)
-- Also where all fields are given, in arrays, and in what is given in order.
refused("a deep has no field 'at.z', did you mean at.x?", function()
  celer.buffer(deep, 2, { init = { x = 1, at = { x = 1, y = 2, z = 3 }, q = { mass = 1 } } })
end)
refused("a deep has no field 'at.z'", function()
  celer.buffer(deep, 2):fill { 1, { x = 1, y = 2, z = 3 }, { mass = 1 } }
end)
local pairs_of = celer.struct("pairs_of", "int2 p[2];")
refused("a pairs_of has no field 'p[2].z'", function()
  celer.buffer(pairs_of, 2, { init = { { p = { { 1, 2 }, { x = 1, y = 2, z = 3 } } }, {} } })
end)
-- What has too many values, other keys, or other kinds of values.
local outer = celer.struct("outer_of_faults",
  "float3 r; struct { float x, y; } q; int2 p[2]; int m[3];")
for fault, value in celer.sorted_pairs {
  ["field 'q' of a outer_of_faults has 2 fields, and is given 3 values"] = { q = { 1, 2, 3 } },
  ["field 'r' of a outer_of_faults has 3 fields, and is given 4 values"] = { r = { 1, 2, 3, 4 } },
  ["a outer_of_faults has 4 fields, and is given 5 values"] = { {}, {}, {}, {}, 5 },
  ["field 'p' of a outer_of_faults has 2 elements, and is given 3 values"] = { p = { {}, {}, {} } },
  ["field 'm' of a outer_of_faults has 3 elements, and is given 4 values"] = { m = { 1, 2, 3, 4 } },
  ["field 'm' of a outer_of_faults is an array of 3, and is given 'x'"] = { m = { x = 1 } },
  ["field 'm' of a outer_of_faults is an array of 3, and is given a number"] = { m = 1 },
  ["field 'q' of a outer_of_faults is a struct, and is given a number"] = { q = 1 },
  ["field 'p[2].y' of a outer_of_faults is a number, and is given a string"] =
    { p = { {}, { 1, "a" } } },
  ["a outer_of_faults has no field [7]; there are m, p, q, r"] = { [7] = 1 },
  ["field 'q' of a outer_of_faults has no field [true]; there are q.x, q.y"] =
    { q = { [true] = 1 } },
  ["a outer_of_faults has no field [1.5]"] = { [1.5] = 1 },
  ["field 'q' of a outer_of_faults is given values in order, and 'y'"] = { q = { 1, y = 2 } },
} do
  refused(fault, function() celer.buffer(outer, 1, { init = { value } }) end)
  refused(fault, function() celer.buffer(outer, 1):fill(value) end)
  local b = celer.buffer(outer, 1)
  local give = celer.kernel [=[
    kernel void give(item<1> it, out<outer_of_faults, 1> o, outer_of_faults v) { o(it[0]) = v; }
  ]=]
  refused("argument 2 of kernel give: " .. fault, function() give(1, b, value) end)
end
refused("a float2 has no field 'z'", function()
  celer.buffer("float2", { 4 }, { init = { z = 1 } })
end)
refused("a boolean is no float2", function() celer.buffer("float2", { 4 }, { init = true }) end)
refused("0.5 is no whole number", function() celer.buffer(int(2, 0.5)) end)
refused("not a string", function() celer.buffer(int(2, "zeros")) end)
refused("init is a", function() celer.buffer(int(2, ffi.new("float[2]"))) end)
refused("init has 3 elements, the buffer has 2", function()
  celer.buffer(int(2, ffi.new("int[3]")))
end)
refused("init is a pointer", function()
  celer.buffer(int(2, ffi.cast("int *", ffi.new("int[2]"))))
end)
refused("no field 'z'", function() celer.buffer("float2", 1, { init = { { z = 1 } } }) end)
local open = assert(io.open("/dev/null"))
refused("variable 'open'", function() celer.buffer(int(2, function() return open:read() end)) end)
]])

  for _, case in ipairs { { "nil", "nil is no int" }, { "'x'", "a string is no int" },
    { "i / 2", "0.5 is no whole number" } } do
    it("from a function that returns " .. case[1] .. " are an error", function()
      for i = 1, 2 do
        local r = script.run("local u = celer.buffer('int', 9, { name = 'u',\n"
          .. "  init = function(i) return " .. case[1] .. " end })\nq:drain(u)",
          script.shapes[i])
        assert.matches("/case.lua:3: the init function of u at %(%d%): ", r.stderr)
        assert.matches(case[2]:match("is .*"), r.stderr, 1, true)
        assert.equal(1, select(2, r.stderr:gsub("celer: ", "")), r.stderr)
        assert.not_equal(0, r.status)
      end
    end)
  end
end)

describe("a buffer", function()
  script.everywhere("says what it is", [[
same("named", tostring(celer.buffer("float", { 4, 8 }, { name = "u" })),
  "buffer u: float[4][8], 128 bytes")
same("0-dimensional", tostring(celer.buffer("double", nil, { name = "s" })),
  "buffer s: double, 8 bytes")
local b = celer.buffer("float3", { 2, 3, 5 })
same("dims", b.dims, 3)
same("size", b.size[0] * 100 + b.size[1] * 10 + b.size[2], 235)
same("bytes", b.bytes, 360)
local sizes, seen = b.size, celer.buffer("int", 3)
q:submit(function(cg)
  cg:host_task(celer.once, function(_, seen)
    for d = 0, 2 do seen[d] = sizes[d] end
  end, cg:discard_write(seen, celer.all))
end)
local s = q:wait(seen)
same("the size in a host task", s[0] * 100 + s[1] * 10 + s[2], 235)
same("unnamed", b.name ~= celer.buffer("int").name, true)
]])

  script.everywhere("is refused when it makes no sense", [[
refused("unknown element type \"flaot\"", function() celer.buffer("flaot", 3) end)
refused("celer.buffer: the element type comes first, not nil",
  function() celer.buffer(nil, 3) end)
refused("celer.zeros: the element type comes first, not a table", function() celer.zeros { 3 } end)
refused('celer.cast: unknown element type "flaot"', function()
  local _ = celer.cast("flaot", 3)
end)
refused("at most 3 numbers", function() celer.buffer("int", { 1, 2, 3, 4 }) end)
refused("not negative", function() celer.buffer("int", { 4, -1 }) end)
refused("whole numbers", function() celer.buffer("int", { 1.5 }) end)
refused("too many", function() celer.buffer("int", { 2 ^ 30, 2 ^ 30 }) end)
refused("unknown option 'nmae', did you mean name?", function()
  celer.buffer("int", 3, { nmae = "u" })
end)
refused("the options must be a table", function() celer.buffer("int", 3, "u") end)
refused("must be a string", function() celer.buffer("int", 3, { name = 3 }) end)
refused("one line of text", function() celer.buffer("int", 3, { name = "a\nb" }) end)
refused("the contents of buffer u are not here", function()
  return celer.buffer("int", {}, { name = "u" })[0], nil
end)
refused("a buffer has no 'nmae', did you mean name?", function()
  print(celer.buffer("int", 3, { name = "u" }).nmae)
end)
refused("a view has no 'sise', did you mean size?", function()
  print(q:wait(celer.buffer("int", 3, { init = function() return 1 end })).sise)
end)
same("a field that is like no other", celer.buffer("int", 3).height, nil)
refused("there is no dimension 2 here: the dimensions are 0 to 1", function()
  local u = celer.buffer("int", { 3, 4 })
  celer.buffer("int", { u.size[1], u.size[2] })
end)
refused("not a table that counts from 0", function()
  celer.buffer("int", celer.buffer("int", 3).size)
end)
refused("a task writes them through an access", function()
  celer.buffer("int", 3, { name = "u" })[0] = 1
end)
refused("a task writes them through an access", function()
  celer.buffer("int", { 3, 2 }, { name = "u" })[0][1] = 1
end)
refused("u(...): coordinate 2 is 2;", function()
  return celer.buffer("int", { 3, 2 }, { name = "u" })[0][2]
end)
do
  local rows = celer.buffer("int", { 3, 2, 2 }, { init = function(i, j, k)
    return i * 10 + j * 5 + k
  end })
  same("an element", rows[2][1][0], 25)
  same("of a row", rows[1][0][1], rows(1, 0, 1))
  same("of one dimension", celer.buffer("double2", 2, { init = { x = 1, y = 3 } })[1].y, 3)
end
refused("u(...): coordinate 1 is 3; it is a whole number from 0 to 2", function()
  celer.buffer("int", 3, { name = "u" })(3)
end)
refused("u(...): the buffer has 2 dimensions, got 1 coordinate", function()
  celer.buffer("int", { 3, 3 }, { name = "u" })(0)
end)
refused("u(...) inside the function of a q:submit", function()
  local u = celer.buffer("int", 3, { name = "u" })
  q:submit(function() u(0) end)
end)
]])

  script.everywhere("gives an element to the script, as of now", [[
local u = celer.buffer("int", { 3, 4 }, { init = function(i, j) return 10 * i + j end })
local one = celer.buffer("double", {}, { init = 0.5 })
local s = celer.buffer("float2", 3, { init = { x = 1, y = 2 } })
same("before", u(2, 3), 23)
u:fill(7)
same("after", u(2, 3), 7)
same("of one", one(), 0.5)
same("a field", s(1).y, 2)
u:free()
refused("was freed", function() u(0, 0) end)
]])

  script.everywhere("has its extents as a list, too", [[
local u = celer.buffer("int", { 4, 7, 2 }, { name = "u", init = 1 })
local one = celer.buffer("int", {}, { name = "one", init = 5 })
same("shape", table.concat(u.shape, " "), "4 7 2")
same("how many", #u.shape + #one.shape, 3)
same("size", tostring(u.size), "(4, 7, 2)")
same("none", tostring(one.size), "()")
same("another of its size", tostring(celer.buffer("float", u.shape).size), "(4, 7, 2)")
local s = q:wait(celer.capture(u, celer.box({ 1, 0, 1 }, { 4, 6, 2 })))
same("shape of a part", table.concat(s.shape, " "), "3 6 1")
same("where it begins", tostring(s.min), "(1, 0, 1)")
q:submit(function(cg)
  local n, size = u.shape[2], u.size
  cg:host_task({ 4 }, function(part, v)
    assert(#v.shape == 3 and v.shape[1] == part.size[0] and v.shape[2] == n)
    assert(tostring(size) == "(4, 7, 2)")
  end, cg:read(u, function(chunk)
    return celer.box({ chunk.min[0], 0, 0 }, { chunk.max[0], 7, 2 })
  end))
end)
q:wait()
]])

  script.everywhere("and what it brings are no tables to walk", [[
local u = celer.buffer("int", { 4 }, { name = "u", init = 1 })
local s, one = q:wait(u, celer.buffer("int", {}, { name = "one", init = 1 }))
local wide = q:wait(celer.buffer("int", { 2, 2 }, { name = "wide", init = 1 }))
for _, walk in ipairs { pairs, ipairs } do
  refused("the contents of buffer u are not here", function() walk(u) end)
  refused("does not find the elements of snapshot of u: v(i) is one, for i from v.min[0] to "
    .. "v.max[0] - 1", function() walk(s) end)
  refused("snapshot of one: it has one element, v()", function() walk(one) end)
  refused("snapshot of wide: v(i, j) is one, for i from", function() walk(wide) end)
  refused("capture of u has no elements", function() walk(celer.capture(u)) end)
  refused("future of u has no elements", function() walk(q:fence(u)) end)
end
q:submit(function(cg)
  local walk, each = pairs, ipairs
  cg:host_task(celer.once, function(_, v)
    for _, f in each { pairs, walk, ipairs, each } do
      local good, message = pcall(f, v)
      assert(not good and tostring(message):find("for i from v.min[0]", 1, true), message)
    end
    local n = 0
    for _, x in walk { a = 1, b = 2 } do n = n + x end
    for i, x in each { 5, 6 } do n = n + i * x end
    assert(n == 20)
  end, cg:read(u, celer.all))
end)
q:wait()
local good, message = pcall(function() for _ in pairs(nil) do return end end)
same("of nothing", good, false)
same("says what", message:match "case.lua:%d+: (.*)",
  "bad argument #1 to 'pairs' (table expected, got nil)")
]])

  script.everywhere("may be empty", [[
local e = celer.buffer("int", { 4, 0 })
same("bytes", e.bytes, 0)
same("bytes of a snapshot", q:wait(e):string(), "")
]])

  script.everywhere("is freed after the tasks that use it", [[
local n = 30
local set = celer.kernel " kernel void f(item<1> i, out<int, 1> u, int v) { u(i[0]) = v; } "
local add = celer.kernel [=[
  kernel void g(item<1> i, inout<int, 1> s, in<int, 1> u) { s(i[0]) += u(i[0]); }
]=]
local s = celer.buffer("int", n, { init = function() return 0 end })
for t = 1, 20 do
  local u = celer.buffer("int", n, { name = "u" })
  q:submit(function(cg) cg:parallel_for(n, set, cg:discard_write(u), t) end)
  q:submit(function(cg) cg:parallel_for(n, add, cg:read_write(s), cg:read(u)) end)
  local last = q:fence(u)
  u:free()
  if t == 20 then
    refused("u was freed", function() q:fence(u) end)
    refused("u was freed", function() celer.capture(u) end)
    refused("u was freed already", function() u:free() end)
    refused("u was freed", function() q:submit(function(cg) cg:read(u) end) end)
    same("a snapshot outlives it", last:get()[29], 20)
  end
end
local view = q:wait(s)
for i = 0, n - 1 do same("sum", view[i], 210) end
refused("buffer:free(...)", function() s.free() end)
]])

  script.everywhere("is freed before too many are that nobody has any more", [[
local n, kept = 3 * 2 ^ 20, setmetatable({}, { __mode = "k" })
local fill = celer.kernel " kernel void f(item<1> i, out<double, 1> u) { u(i[0]) = 1; } "
for _ = 1, 40 do
  local u = celer.buffer("double", n)
  kept[u] = true
  q:submit(function(cg) cg:parallel_for(n, fill, cg:discard_write(u)) end)
end
local count = 0
for _ in pairs(kept) do count = count + 1 end
same("few live", count <= 12, true)
]])
end)
