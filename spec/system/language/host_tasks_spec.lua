-- Host tasks: where they run, what they see of buffers, and what they capture.
local script = require("spec.support.script")

describe("a host task", function()
  -- The same function object again and again: what it captured is looked at each
  -- time, and what a call does to its own copies stays there.
  script.everywhere("sees what it captured as it is at each submission", [==[
local out = celer.buffer("double", 1)
local number, text, shared = 1, "a", 1
local list = { 10 }
scale = 2
local function helper(x) return x * scale + shared end
local function zero_is_negative(x) return 1 / x < 0 and 1 or 0 end
local zero, later = 0, nil
local function work(_, w, extra)
  w:set(0, number + #text * 100 + helper(list[1]) * 1000
    + zero_is_negative(zero) * 5e8 + (later and later() or 0) * 1e9 + (unset or 0) * 1e10
    + extra * 1e11)
  number, list[1], scale, unset, shared, later = 77, 77, 77, 77, 77, nil
end
local extra = 0
local function check(what)
  local wanted = number + #text * 100 + (list[1] * scale + shared) * 1000
    + (1 / zero < 0 and 5e8 or 0) + (later and later() or 0) * 1e9 + (unset or 0) * 1e10
    + extra * 1e11
  for i = 1, 3 do
    q:submit(function(cg)
      cg:host_task(celer.once, work, cg:discard_write(out, celer.all), extra)
    end)
    same(what .. " " .. i, q:wait(out)[0], wanted)
  end
end
check "at first"
number = 2 check "a number"
text = "abc" check "a string"
shared = 3 check "a variable of two functions"
list[1] = 11 check "in a table"
scale = 4 check "a global"
unset = 5 check "a new global"
zero = -0 check "the sign of zero"
later = function() return 6 end check "a function"
local inner = 7
later = function() return inner end check "another"
inner = 8 check "what a function captured"
extra = 9 check "an argument"
local old = helper
helper = function(x) return old(x) + 1 end
q:submit(function(cg) cg:host_task(celer.once, work, cg:discard_write(out, celer.all), extra) end)
same("a helper", q:wait(out)[0], number + #text * 100 + (list[1] * scale + shared + 1) * 1000
  + 5e8 + 8e9 + 5e10 + 9e11)
-- Without a table it is remembered.
local function plain(_, w)
  w:set(0, number * scale + helper(1) + zero_is_negative(zero) / 2)
  scale, number, zero = 1000, 1000, 1
end
for i = 1, 15 do
  if i == 4 then number = 20 elseif i == 7 then scale = 3 elseif i == 10 then shared = 1
  elseif i == 13 then zero = 0 end
  q:submit(function(cg) cg:host_task(celer.once, plain, cg:discard_write(out, celer.all)) end)
  same("plain " .. i, q:wait(out)[0], number * scale + helper(1) + zero_is_negative(zero) / 2)
end
local weak = setmetatable({}, { __mode = "v" })
local function several()
  local value = 5
  local function f(_, w) w:set(0, value) end
  weak[1] = f
  for _ = 1, 4 do
    q:submit(function(cg) cg:host_task(celer.once, f, cg:discard_write(out, celer.all)) end)
  end
end
several()
q:wait()
jit.flush() -- what is compiled may hold what it was compiled for
collectgarbage()
collectgarbage()
same("remembered, not held", weak[1], nil)
local other = celer.buffer("float", 3)
q:submit(function(cg) cg:host_task(celer.once, plain, cg:discard_write(other, celer.all)) end)
same("another buffer", q:wait(other)[0], number * scale + helper(1))
]==])

  script.everywhere("runs once, on rank 0, or over a range", [==[
local u = celer.buffer("int", { 6, 4 }, { init = function() return 0 end })
q:submit(function(cg)
  cg:host_task(celer.once, function(part) print("once", part.dims) end)
end)
q:submit(function(cg)
  cg:host_task(celer.on_master, function(part) print("master", part.rank, part.ranks) end)
end)
q:submit(function(cg)
  cg:host_task({ 6, 4 }, function(part, u)
    print("range", part.size[0] * part.size[1], part.global[0], part.global[1])
    for i = part.min[0], part.max[0] - 1 do
      for j = part.min[1], part.max[1] - 1 do u:set(i, j, u(i, j) + 10 * i + j) end
    end
  end, cg:read_write(u))
end)
q:submit(function(cg)
  cg:host_task(celer.box({ 2, 1 }, { 5, 3 }), function(part, u)
    for i = part.min[0], part.max[0] - 1 do
      for j = part.min[1], part.max[1] - 1 do u:set(i, j, -u(i, j)) end
    end
  end, cg:read_write(u))
end)
q:submit(function(cg)
  cg:host_task({ 0 }, function() error("not called") end)
end)
local s = q:wait(u)
for i = 0, 5 do
  for j = 0, 3 do
    local sign = i >= 2 and i < 5 and j >= 1 and j < 3 and -1 or 1
    same("element", s(i, j), sign * (10 * i + j))
  end
end
]==], function(out, shape)
      local ranks = shape.ranks or 1
      local prefix = ranks > 1 and "[0] " or ""
      assert.matches(("%smaster\t0\t%d\n"):format(prefix, ranks), out, 1, true)
      assert.equal(1, select(2, out:gsub("once\t0\n", "")))
      local covered = 0
      for size in out:gmatch("range\t(%d+)\t6\t4\n") do covered = covered + size end
      assert.equal(24, covered)
      if ranks > 1 then
        local lines, counts = script.lines(out)
        assert.is_true(counts[1] >= 1 and counts[2] >= 1)
        assert.equal(#lines, select(2, ("\n" .. out):gsub("\n%[%d%] ", "")))
      end
    end)

  script.everywhere("reads the buffers that it is given in the place of accesses", [==[
local u = celer.buffer("int", { 12, 2 }, {
  name = "u", init = function(i, j) return 10 * i + j end })
local seen, scale = celer.buffer("int", 1), 2
celer.host_task(celer.once, function(_, u, x)
  assert(u.size[0] == 12 and u(11, 1) * scale == 222 and x == "text")
end, u, "text")
q:host_task(celer.at(0), function(_, u)
  assert(u.min[0] == 2 and u.size[0] == 2 and u.size[1] == 1)
end, celer.access(u, celer.fixed(celer.box({ 2, 0 }, { 4, 1 }))))
q:host_task({ 12, 2 }, function(part, u)
  assert(u.min[0] == part.min[0] and u.size[0] == part.size[0])
end, u)
celer.host_task(celer.collective(), function(part, u)
  assert(part.comm:all_reduce(u.size[0], "sum") == 12)
end, celer.access(u, celer.even_split))
q:submit(function(cg)
  cg:host_task(celer.once, function(_, s) s[0] = 3 end, cg:write(seen, celer.all))
end)
celer.host_task(celer.once, function(_, s) assert(s[0] == 3) end, seen)
local function refused(pattern, ...)
  local ok, message = pcall(celer.host_task, ...)
  same("refused", not ok and message:match("^[^:]*:%d+: " .. pattern) ~= nil, true)
end
refused("q:host_task: each rank is called, and nothing says what of u", celer.collective(), print,
  u)
refused("cg:host_task: the second argument must be a function", celer.once, u)
refused("cg:host_task: the first argument says where", print, u)
]==])

  script.everywhere("sees of a buffer what it has declared", [==[
local ffi = require "ffi"
local n = 10
local u = celer.buffer("int", n, { name = "u", init = function(i) return i end })
local w = celer.buffer("int", { 5, 6 }, { name = "w", init = function(i, j) return 10 * i + j end })
local v = celer.buffer("int64_t", { 2, 3, 4 },
  { init = function(i, j, k) return 100 * i + 10 * j + k end })
local z = celer.buffer("double", nil, { init = 0 })
local out = celer.buffer("uint8_t", 3, { name = "out", init = function() return 9 end })
local function block() return celer.box({ 1, 2 }, { 4, 5 }) end
local function few() return celer.box({ 3 }, { 6 }) end
q:submit(function(cg)
  cg:host_task(celer.once, function(_, u, w, v, z, out)
    local function fails(words, f, ...)
      local ok, message = pcall(f, ...)
      same(words, not ok and message:find(words, 1, true) ~= nil or message, true)
    end
    same("index", u[3] + u(5), 8)
    same("bounds", tostring(u.box), "[3, 6)")
    same("min", u.min[0] * 100 + u.max[0] * 10 + u.size[0], 363)
    fails("element (2) is outside [3, 6), which is what this task declared", u, 2)
    fails("element (6) is outside", u, 6)
    fails("has 1 coordinate, not 2", u, 3, 3)
    fails("not a whole number", u, 3.5)
    fails("coordinate 0 is a string", u, "3")
    fails("is only read by this task", u.set, u, 3, 1)
    fails("is only read by this task", function() u[3] = 1 end)
    fails("write v(i, j)", function() return w[2] end)
    same("boxed coordinate", u(4LL), 4)
    local p, row, column = w:pointer()
    for i = 0, 2 do
      for j = 0, 2 do same("by pointer", p[i * row + j * column], w(1 + i, 2 + j)) end
    end
    fails("constant", function() p[0] = 1 end)
    same("string", w:string(), ffi.string(ffi.new("int[9]",
      { 12, 13, 14, 22, 23, 24, 32, 33, 34 }), 36))
    local q3, a, b, c = v:pointer()
    same("strides", a * 10000 + b * 100 + c, 120401)
    same("third", q3[a + 2 * b + 3 * c], 123LL)
    same("64 bits", v(1, 2, 3), 123LL)
    same("row", #v:string(), 24 * 8)
    same("0 dimensions", z(), 0)
    z:set(2.5)
    fails("takes 0 coordinates and a value", z.set, z, 1, 2)
    out[0] = 7
    out:set(1, 255)
    fails("256 does not fit", out.set, out, 2, 256)
    fails("0.5 is no whole number", out.set, out, 2, 0.5)
    fails("a string is no uint8_t", out.set, out, 2, "x")
    local o = out:pointer()
    o[2] = o[0] + 1
  end, cg:read(u, few), cg:read(w, block), cg:read(v, celer.all), cg:write(z, celer.all),
    cg:discard_write(out, celer.all))
end)
local sz, so = q:wait(z, out)
same("written", sz(), 2.5)
same("written", so[0] * 1000000 + so[1] * 1000 + so[2], 7255008)
]==])

  script.everywhere("captures values, functions and modules", [==[
local ffi = require "ffi"
local mine = require "mine"
local pair = celer.struct("pair", "int a; double b;")
local function factorial(n) return n <= 1 and 1 or n * factorial(n - 1) end
local even, odd
function even(n) return n == 0 or odd(n - 1) end
function odd(n) return n ~= 0 and even(n - 1) end
local counter = 0
local function count() counter = counter + 1 return counter end
local function counted() return counter end
local t = { list = { 1, 2, 3 }, [true] = "yes", name = "t" }
t.self = t
local again = t.list
local b = celer.box({ 1, 2 }, { 3, 5 })
local s = ffi.new("pair", 3, 0.5)
local large, none, text = 9007199254740993LL, nil, "a\0b"
scale = 3
function scaled(x) return x * scale end
local floor, join = math.floor, table.concat
local o = celer.buffer("int", 3, { init = function() return 0 end })
local function work(part, o, given, bounds, missing, f)
  same("recursion", factorial(5), 120)
  same("mutual recursion", even(10) and odd(7), true)
  count()
  same("a shared variable", count() + counted(), 4)
  same("table", t.list[3] .. t[true] .. t.name, "3yest")
  same("cycle", rawequal(t.self, t) and rawequal(again, t.list), true)
  same("box", tostring(b) .. b.size[1], "[1, 3) x [2, 5)3")
  same("struct", s.a + s.b, 3.5)
  same("64 bits", large, 9007199254740993LL)
  same("nil", none, nil)
  same("bytes", text, "a\0b")
  same("global", scaled(2), 6)
  same("library", floor(2.5) .. join({ 1, 2 }, "-"), "21-2")
  same("module", mine.twice(4) .. mine.name, "8mine")
  same("a module's function", given.twice(5), 10)
  same("an argument", tostring(bounds), "[0, 2)")
  same("a missing argument", missing, nil)
  same("a function as an argument", f(1), 42)
  mine.name, t.name, scale, leaked = "changed", "changed", 100, true
  for i = part.min[0], part.max[0] - 1 do o:set(i, i + given.value) end
end
for _ = 1, 2 do
  q:submit(function(cg)
    cg:host_task(3, work, cg:discard_write(o), { value = 10, twice = mine.twice },
      celer.box({ 0 }, { 2 }), nil, function(x) return x + 41 end)
  end)
  q:wait()
  package.loaded.mine = mine
  if _ == 1 then mine = { twice = mine.twice, name = "mine" } end
end
local last = q:wait(o)
same("results", last[0] + last[1] + last[2], 33)
same("the driver's own", t.name .. counter .. scale .. tostring(leaked), "t03nil")
]==], nil, { files = { ["mine.lua"] =
    "local M = { name = 'mine' }\nfunction M.twice(x) return 2 * x end\nreturn M\n" } })

  script.everywhere("is refused with the name of what it cannot have", [==[
local u = celer.buffer("int", 3, { name = "u" })
local file, co = assert(io.open("/dev/null")), coroutine.create(print)
local meta, keyed = setmetatable({}, {}), { [{}] = 1 }
local k = celer.kernel " kernel void f(item<1> it, out<int, 1> o) { o(it[0]) = 0; } "
local deep = { inner = { file = file } }
local pointer = require("ffi").new("int *")
shared = file
local function helper() return file:read() end
local function task(f) return function(cg) cg:host_task(celer.once, f) end end
local function try(words, f)
  local ok, message = pcall(q.submit, q, task(f))
  same(words, not ok and message:find(words, 1, true) ~= nil or message, true)
  same("place", ok or message:find("/case.lua:%d+: ") ~= nil, true)
end
try("variable 'file', an open file", function() return file end)
try("variable 'co', a coroutine", function() return co end)
try("variable 'meta', a table with a metatable", function() return meta end)
try("variable 'keyed', a table with a key of type table", function() return keyed end)
try("variable 'u', the buffer 'u'", function() return u end)
try("variable 'k', the kernel 'f'", function() return k end)
try("variable 'q', the queue", function() return q end)
try("variable 'deep'.inner.file, an open file", function() return deep end)
try("variable 'pointer'", function() return pointer end)
try("global 'shared', an open file", function() return shared end)
try("variable 'file'", function() return helper() end)
local function submit(words, f)
  local ok, message = pcall(q.submit, q, f)
  same(words, not ok and message:find(words, 1, true) ~= nil or message, true)
end
submit("variable 'cg', the command group", function(cg) task(function() return cg end)(cg) end)
submit("variable 'a', the access to u", function(cg)
  local a = cg:read(u)
  cg:host_task(3, function() return a[0] end)
end)
submit("argument 2, an open file", function(cg) cg:host_task(celer.once, print, 1, file) end)
submit("must be a function, not nil", function(cg) cg:host_task(celer.once) end)
submit("says where it runs, celer.on_master, celer", function(cg) cg:host_task("master", print) end)
submit("has its work already", function(cg)
  cg:host_task(celer.once, function() end)
  cg:host_task(celer.once, function() end)
end)
]==])

  it("is copied in the same way each time", function()
    local r = script.run([[
local capture, record = require "celer.host.capture", require "celer.io.record"
for i = 1, 200000 do
  capture.encode(record.commit, "it", { n = 2, i, { i, { j = i } } }, {})
end
print "copied"]], script.shapes[1])
    assert.equal("", r.stderr)
    assert.equal("copied\n", r.stdout)
  end)

  script.everywhere("sees where its part lies in memory", [==[
local w = celer.buffer("int", { 6, 7 }, { name = "w", init = function(i, j) return 10 * i + j end })
local v = celer.buffer("double", { 4, 3, 5 },
  { init = function(i, j, k) return 100 * i + 10 * j + k end })
local z = celer.buffer("float", {}, { init = 2 })
local function holds(outer, inner)
  for d = 0, inner.dims - 1 do
    if inner.min[d] < outer.min[d] or inner.max[d] > outer.max[d] then return false end
  end
  return true
end
local whole = q:wait(w)
same("a snapshot's", tostring(whole:window().allocation), "[0, 6) x [0, 7)")
-- The first task makes the allocations of rank 0, the second sees part of them.
q:submit(function(cg)
  cg:host_task(celer.on_master, function() end, cg:read_write(w, celer.all))
end)
q:submit(function(cg)
  local mine = cg:read(v, function(chunk)
    return celer.box({ chunk.min[0], 1, 2 }, { chunk.max[0], 3, 4 })
  end)
  local block = celer.fixed(celer.box({ 1, 2 }, { 4, 5 }))
  cg:host_task({ 4 }, function(part, w, v, z)
    local a, b, c = w:window(), v:window(), z:window()
    same("extent", tostring(a.buffer), "[0, 6) x [0, 7)")
    same("extent", tostring(b.buffer), "[0, 4) x [0, 3) x [0, 5)")
    same("extent", tostring(c.buffer), "[]")
    same("part", tostring(a.part), "[1, 4) x [2, 5)")
    same("part", tostring(b.part), ("[%d, %d) x [1, 3) x [2, 4)"):format(part.min[0], part.max[0]))
    same("in it", holds(a.allocation, a.part) and holds(b.allocation, b.part), true)
    same("in the buffer", holds(a.buffer, a.allocation) and holds(b.buffer, b.allocation), true)
    if part.rank == 0 then same("all", tostring(a.allocation), "[0, 6) x [0, 7)") end
    same("read only", tostring(a.pointer):find("const") ~= nil, true)
    local row, o = a.allocation.size[1], a.allocation.min
    for i = 1, 3 do
      for j = 2, 4 do same("w", a.pointer[(i - o[0]) * row + j - o[1]], w(i, j)) end
    end
    local s = b.allocation.size
    o = b.allocation.min
    for i = part.min[0], part.max[0] - 1 do
      for j = 1, 2 do
        for k = 2, 3 do
          same("v", b.pointer[((i - o[0]) * s[1] + j - o[1]) * s[2] + k - o[2]], v(i, j, k))
        end
      end
    end
    same("z", c.pointer[0], 2)
    local ok, message = pcall(w.window)
    same("colon", ok or message:find("with a colon") == nil, false)
  end, cg:read(w, block), mine, cg:read(z, celer.all))
end)
q:wait()
]==])

  for _, case in ipairs {
    { "celer.buffer('int', 3):free()", "cannot be used in a host task" },
    { "local q = celer.queue() q:submit(print)", "celer.queue(...).submit cannot be used" },
    { "celer.checkpoint('kept', {})", "celer.checkpoint cannot be used in a host task" },
    { "celer.io.save('u.npy', 1)", "celer.io.save cannot be used in a host task" },
    { "return 2 * celer.random()", "celer.random cannot be used in a host task" },
    { "return celer.restore('kept').step + 1", "(...).step cannot be used in a host task" },
    { "return part.comm", "a chunk has no field 'comm': it is there in collective tasks" },
    { "os.exit(3)", "a host task cannot end the program" },
    { "local x = nil; return x.y", "attempt to index local 'x'" },
  } do
    it("fails at its own line by " .. case[1], function()
      for i = 1, 2 do
        local r = script.run("q:submit(function(cg)\n"
          .. "  cg:host_task(celer.once, function(part)\n    " .. case[1]
          .. "\n  end)\nend)\nq:wait()", script.shapes[i])
        assert.matches("/case.lua:4: ", r.stderr, 1, true)
        assert.matches(case[2], r.stderr, 1, true)
        assert.matches("the task was submitted at %S*/case.lua:3%)", r.stderr)
        assert.equal(1, select(2, r.stderr:gsub("celer: ", "")), r.stderr)
        assert.equal(1, r.status)
      end
    end)
  end

  it("fails by its name, if it has one, wherever that is raised", function()
    local name = ("%n"):rep(40)
    local known = "local u, k = celer.buffer('int', 3), celer.kernel 'kernel void f(item<1> it, "
      .. "out<int, 1> u) { u(it[0]) = 1; }' local function go() q:submit(function(cg) "
      .. "cg:parallel_for({ 3 }, k, cg:discard_write(u)) end) end go() go() q:submit(function(cg)"
    for _, rest in ipairs { "q:submit(function(cg) cg:host_task(celer.once, print) end)", "go()",
      "q:drain()" } do
      local r = script.run(known .. "\n  cg:name '" .. name .. "'\n  cg:host_task(celer.once, "
        .. "function()\n    error 'no'\n  end)\nend)\npcall(q.wait, q)\n" .. rest,
        script.shapes[1])
      assert.is_truthy(r.stderr:find("case.lua:5: no (the task '" .. name .. "' was submitted at ",
        1, true), r.stderr)
    end
    for _, case in ipairs {
      { "error 'no'", "^celer: %S*case.lua:5: no %(the task 'the third' was submitted at "
        .. "%S*case.lua:4%)\n$" },
      { "error { message = 'no' }", "^celer: %S*case.lua:4: task 'the third': no\n$" },
    } do
      for _, work in ipairs { "host_task(celer.once", "interop_task({ 1 }" } do
        local r = script.run("q:submit(function(cg)\n  cg:name 'the third'\n  cg:" .. work
          .. ", function()\n    " .. case[1] .. "\n  end)\nend)\nq:wait()", script.shapes[2])
        assert.matches(case[2], r.stderr)
        assert.equal(1, r.status)
      end
    end
  end)
end)
