-- HDF5 files that get more: datasets beside others, steps, attributes, single values.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local folder
setup(function()
  folder = scratch.folder()
end)
teardown(function() os.execute("rm -rf " .. folder) end)
after_each(function() os.execute("rm -rf " .. folder .. "/*") end)

local function run(text, ranks, option, value)
  scratch.write(folder .. "/case.lua",
    "local celer = require 'celer'; local q = celer.queue(); " .. text)
  local argv = { "run", "--devices", celer.devices(1, ranks), option or "case.lua", value,
    option and "case.lua" }
  return celer.run(argv, { ranks = ranks, cwd = folder })
end

local function prints(expected, text, ranks)
  local r = run(text, ranks)
  assert.equal("", r.stderr)
  assert.equal(expected, r.stdout)
  assert.equal(0, r.status)
end

-- The run ends with this message alone, and what was in u.h5 is in it.
local function fails(words, text, ranks)
  local before = scratch.read(folder .. "/u.h5")
  local r = run(text, ranks)
  assert.matches("case.lua:" .. words, r.stderr, 1, true)
  assert.equal(1, select(2, r.stderr:gsub("celer: ", "")), r.stderr)
  assert.equal(1, r.status)
  assert.is_true(before == scratch.read(folder .. "/u.h5"), "u.h5 has changed")
  assert.equal("", scratch.output("cd " .. folder .. " && ls -A | grep part; true"))
end

local function dump(...)
  local r = celer.exec({ "h5dump", "-w", "0", ... }, { cwd = folder })
  assert.equal("", r.stderr)
  return r.stdout
end

local u = "local u = celer.buffer('float', { 4, 3 }, { name = 'u', "
  .. "init = function(i, j) return 10 * i + j end })\n"

describe("an HDF5 file", function()
  for _, ranks in ipairs { 1, 2, 3, 7 } do
    it("gets what the run saves later, on " .. ranks .. " rank(s)", function()
      prints("32\t7\t21\n", u .. [[
celer.io.save("u.h5", u, { dataset = "a" })
celer.io.save("./u.h5", 7, { dataset = "deep/b" })
celer.io.save("u.h5", { c = u, d = u })
local a, b, c = q:wait(celer.io.load("u.h5", { dataset = "a" }),
  celer.io.load("u.h5", { dataset = "deep/b" }), celer.io.load("u.h5", { dataset = "c" }))
print(a(3, 2), b(), c(2, 1))]], ranks)
      local text = dump("u.h5")
      for _, words in ipairs { 'DATASET "a"', 'GROUP "deep"', 'DATASET "d"',
        "(3,0): 30, 31, 32" } do
        assert.matches(words, text, 1, true)
      end
      assert.equal("case.lua\nu.h5\n", scratch.output("cd " .. folder .. " && ls -A"))
    end)

    it("has datasets that grow, on " .. ranks .. " rank(s)", function()
      prints("checked\n", [[
local function same(what, a, b) if a ~= b then error(what .. ": " .. tostring(a), 2) end end
local wide = celer.buffer("float", { 5, 2, 1000 }, { init = 0 }) -- 26 of it are a chunk
local none = celer.buffer("int", { 0, 3 })
local flat = celer.buffer("double", { 6 }, { init = function(i) return i end })
local early
for k = 0, 29 do
  if k == 9 then early = celer.io.load("u.h5", { dataset = "wide", step = 4 }) end
  wide:fill(k)
  celer.io.save("u.h5", { wide = wide, none = none, time = k / 2 }, { append = true })
  if k % 10 == 0 then
    celer.io.save("u.h5", flat, { dataset = "g/flat", append = true,
      box = celer.box({ 2 }, { 5 }) })
  end
end
local f = celer.io.open("u.h5").datasets
same("shape", table.concat(f.wide.shape, " "), "30 5 2 1000")
same("shape", table.concat(f.none.shape, " "), "30 0 3")
same("shape", table.concat(f["g/flat"].shape, " "), "3 3")
local function at(k) return celer.io.load("u.h5", { dataset = "wide", step = k }) end
local first, mid, last = at(0), at(26), at(-1)
local part = celer.io.load("u.h5", { dataset = "wide", step = 7,
  box = celer.box({ 3, 0, 10 }, { 5, 2, 20 }) })
local time = celer.io.load("u.h5", { dataset = "time" })
local g = celer.io.load("u.h5", { dataset = "g/flat" })
local a, b, c, p, t, s, e = q:wait(first, mid, last, part, time, g, early)
for i = 0, 4 do
  same("early", e(i, 1, 998), 4)
  same("first", a(i, 1, 999), 0)
  same("mid", b(i, 0, 0), 26)
  same("last", c(i, 1, 500), 29)
end
same("part", p(1, 1, 9), 7)
same("time", t[29], 14.5)
same("box", s(2, 2), 4)
print "checked"]], ranks)
    end)
  end

  it("has steps of which each is cut into pieces", function()
    prints("0\t4\t100\t104\n", [[
local u = celer.buffer("float", { 5, 1048576 }, { init = function(i) return i end })
celer.io.save("u.h5", u, { append = true })
q:submit(function(cg)
  cg:host_task({ 5 }, function(part, u)
    for i = part.min[0], part.max[0] - 1 do u:set(i, 1048575, 100 + i) end
  end, cg:read_write(u, function(c) return celer.box({ c.min[0], 0 }, { c.max[0], 1048576 }) end))
end)
celer.io.save("u.h5", u, { append = true })
local function corner(k, i, j)
  local b = celer.io.load("u.h5", { step = k, box = celer.box({ i, j }, { i + 1, j + 1 }) })
  return q:wait(b)(0, 0)
end
print(corner(0, 0, 1048575), corner(0, 4, 0), corner(1, 0, 1048575), corner(1, 4, 1048575))]], 3)
  end)

  it("has steps that are added without a copy of all, unless others have changed it", function()
    prints("checked\n", [[
local function same(what, a, b) if a ~= b then error(what .. ": " .. tostring(a), 2) end end
local function number_of(name)
  q:wait()
  return io.popen("stat -c %i " .. name):read("*a")
end
local row = celer.buffer("double", { 7 }, { init = 0 })
local k = -1
local function add()
  k = k + 1
  row:fill(k)
  celer.io.save("u.h5", row, { dataset = "row", append = true })
  celer.io.save("u.h5", k, { dataset = "k", append = k })
end
add()
for _ = 1, 4 do
  add()
  local kept = number_of "u.h5.*.part"
  celer.io.save("u.h5", k, { dataset = "again", append = true, replace = k == 1 or nil })
  if k > 1 then same("file", number_of "u.h5", kept) end
end
q:wait()
os.execute "h5repack u.h5 v.h5 && mv v.h5 u.h5"
add()
celer.io.save("u.h5", k, { dataset = "other" })
add()
celer.io.save("u.h5", -1, { dataset = "k", append = 3 })
celer.io.save("u.h5", -2, { dataset = "k", append = true })
celer.io.save("u.h5", row, { dataset = "row", append = true })
local rows, ks = q:wait(celer.io.load("u.h5", { dataset = "row" }),
  celer.io.load("u.h5", { dataset = "k" }))
same("rows", rows.size[0], 8)
for i = 0, 6 do same("row", rows(i, 6), i) end
same("row", rows(7, 0), 6)
same("ks", ks.size[0], 5)
for i = 0, 4 do same("k", ks[i], i < 3 and i or 2 - i) end
print "checked"]], 1)
    assert.equal("case.lua\nu.h5\n", scratch.output("cd " .. folder .. " && ls -A"))
  end)

  it("has steps taken back, as after a checkpoint", function()
    prints("0\t10\t20\t12\t13\n", [[
for k = 0, 4 do celer.io.save("u.h5", 10 * k, { append = true }) end
celer.io.save("u.h5", 12, { append = 3 })
celer.io.save("u.h5", 13, { append = 4 })
local s = q:wait(celer.io.load("u.h5"))
print(s[0], s[1], s[2], s[3], s[4])]], 2)
    fails("1: cannot write u.h5: dataset 'data': it has 5 steps, so none comes after 6",
      [[celer.io.save("u.h5", 1, { append = 6, add = true }) q:wait()]], 2)
  end)

  for _, ranks in ipairs { 1, 3 } do
    it("has attributes and single values, on " .. ranks .. " rank(s)", function()
      prints("checked\n", u .. [[
local function same(what, a, b) if a ~= b then error(what .. ": " .. tostring(a), 2) end end
celer.io.save("u.h5", u, { dataset = "g/u", attributes = { dt = 0.1, unit = "m", on = true,
  off = false, n = 5LL, big = 18446744073709551615ULL, xs = { 1, 2.5 },
  names = { "x", "", "yz" } } })
celer.io.save("u.h5", { x = 3.5, name = "run 7", empty = "", flag = true, n = -12LL })
celer.io.save("u.h5", {}, { attributes = { author = "me" } })
celer.io.save("u.h5", {}, { dataset = "g/u", attributes = { dt = 0.2 } })
local odd = celer.buffer("double", {}, { init = 0 })
q:submit(function(cg)
  cg:host_task(celer.on_master, function(_, v)
    require("ffi").cast("uint32_t *", (v:pointer()))[1] = 0xfffe7fff -- a string to LuaJIT
  end, cg:discard_write(odd, celer.all))
end)
celer.io.save("u.h5", odd, { dataset = "odd" })
local f = celer.io.open("u.h5")
same("author", f.attributes.author, "me")
local g = f.datasets["g/u"]
same("type", g.type, "float")
same("shape", table.concat(g.shape, " "), "4 3")
same("value", g.value, nil)
for name, value in pairs { dt = 0.2, unit = "m", on = true, off = false, n = 5 } do
  same(name, g.attributes[name], value)
end
same("big", g.attributes.big, 18446744073709551615ULL)
same("xs", table.concat(g.attributes.xs, " "), "1 2.5")
same("names", table.concat(g.attributes.names, ","), "x,,yz")
for name, value in pairs { x = 3.5, name = "run 7", empty = "", flag = true, n = -12 } do
  same(name, f.datasets[name].value, value)
end
same("kind", f.datasets.name.type, "string")
local nan = f.datasets.odd.value
same("odd", type(nan) == "number" and nan ~= nan, true)
same("load", q:wait(celer.io.load("u.h5", { dataset = "x" }))(), 3.5)
print "checked"]], ranks)
      local text = dump("u.h5")
      for _, words in ipairs { '(0): "run 7"', '(0): "x", "", "yz"', "(0): 0.2", "(0): TRUE",
        "(0): 18446744073709551615" } do
        assert.matches(words, text, 1, true)
      end
    end)
  end

  it("not of this run is replaced with a word, or kept", function()
    local function says(text, ...)
      local r = run(text, 2)
      local n = select("#", ...)
      assert.equal(n, select(2, r.stderr:gsub("\n", "")), r.stderr)
      for i = 1, n do
        local words = "celer: warning: case.lua:%d: %s is not of this run, and what it holds goes; "
          .. "{replace = true} says that this is meant, and {add = true} keeps it\n"
        assert.matches(words:format(i, (select(i, ...))), r.stderr, 1, true)
      end
      assert.equal(0, r.status)
    end
    says(u:gsub("\n", "") .. 'celer.io.save("u.h5", u) celer.io.save("v.h5", 1)')
    says('for _ = 1, 2 do celer.io.save("u.h5", _, { dataset = "a" .. _ }) end\n'
      .. 'celer.io.save("v.h5", 2)', "u.h5", "v.h5")
    says('celer.io.save("u.h5", 3, { add = true, dataset = "b" })')
    prints("1\t2\t3\tnil\n", [[local f = celer.io.open("u.h5").datasets
print(f.a1.value, f.a2.value, f.b.value, f.data)]])
    says('celer.io.save("u.h5", 4, { replace = true, dataset = "c" })\n'
      .. 'celer.io.save("u.h5", 5, { dataset = "d" })\n'
      .. 'celer.io.save("u.h5", 6, { dataset = "c", replace = true })')
    prints("nil\t6\t5\n", [[local f = celer.io.open("u.h5").datasets
print(f.a1, f.c.value, f.d.value)]])
    says('celer.io.save("new.h5", 1, { add = true })')
    fails("1: cannot write u.h5: it is not of this run: {add = true} goes on in it",
      'celer.io.save("u.h5", 4, { append = true, dataset = "c" }) q:wait()', 2)
  end)

  it("gets anew what the run saves again, and says so where another line has saved it", function()
    prints("", [[for i = 1, 3 do celer.io.save("u.h5", i, { dataset = "a" }) end
celer.io.save("u.h5", 4, { dataset = "b" })]])
    prints("3\t4\n", [[local f = celer.io.open("u.h5").datasets
print(f.a.value, f.b.value)]])
    local r = run('celer.io.save("u.h5", 5, { replace = true })\nfor i = 6, 7 do\n'
      .. 'celer.io.save("u.h5", i) end\nceler.io.save("u.h5", 8, { replace = true })', 2)
    assert.equal("celer: warning: case.lua:3: dataset 'data' of u.h5, which case.lua:1 has saved, "
      .. "goes; {replace = true} says that this is meant\n", r.stderr)
    assert.equal(0, r.status)
    prints("8\n", 'print(celer.io.open("u.h5").datasets.data.value)')
  end)

  for _, ranks in ipairs { 1, 3 } do
    it("stays as it was where nothing can be added, on " .. ranks .. " rank(s)", function()
      prints("", u .. [[
celer.io.save("u.h5", { a = u, n = 1 })
celer.io.save("u.h5", u, { dataset = "grows", append = true })
celer.io.save("u.h5", 1, { dataset = "g/x" })]], ranks)
      local function refused(words, arguments)
        fails("3: cannot write u.h5: " .. words, u .. "\nceler.io.save('u.h5', " .. arguments
          .. ")\nq:wait()", ranks)
      end
      refused("it has a dataset 'a' already; {replace = true} replaces it",
        "u, { dataset = 'a', add = true }")
      refused("dataset 'grows': it holds float, and this is double",
        "celer.buffer('double', { 4, 3 }, { init = 0 }), "
          .. "{ dataset = 'grows', add = true, append = true }")
      refused("dataset 'grows': its steps are 4 x 3, and this one is 3 x 3",
        "u, { dataset = 'grows', add = true, append = true, box = celer.box({ 1, 0 }, { 4, 3 }) }")
      refused("dataset 'grows': its steps are 4 x 3, and this one is one element",
        "celer.buffer('float', {}, { init = 0 }), { dataset = 'grows', add = true, append = true }")
      refused("dataset 'n': it is a single element, which does not grow",
        "2, { dataset = 'n', add = true, append = true }")
      refused("dataset 'a': it was not made to grow: save it with `append`",
        "celer.buffer('float', { 3 }, { init = 0 }), { dataset = 'a', add = true, append = true }")
      refused("'a/b' cannot lie in 'a', which is no group", "2, { dataset = 'a/b', add = true }")
      refused("'g' is a group, which holds x", "2, { dataset = 'g', add = true }")
      refused("it has no dataset 'z'; it holds a, g, grows, n",
        "{}, { dataset = 'z', add = true, attributes = { x = 1 } }")
      scratch.write(folder .. "/u.h5", ("junk"):rep(20))
      refused("it is no HDF5 file", "u, { add = true }")
    end)

    it("stays as it was when a run is killed, on " .. ranks .. " rank(s)", function()
      local many = "celer.io.save('u.h5', { a = u, b = u })\n"
        .. "celer.io.save('u.h5', u, { dataset = 'steps', append = true })"
      prints("", u .. many, ranks)
      for _, how in ipairs { "dataset = 'new'", "dataset = 'steps', append = true" } do
        local before = scratch.read(folder .. "/u.h5")
        local r = run([[
local late = celer.buffer("float", { 4, 3 }, { init = 1 })
celer.io.save("u.h5", 1, { dataset = "first", add = true })
q:wait()
q:submit(function(cg)
  cg:host_task({ 4 }, function(part, late)
    local ffi = require "ffi"
    ffi.cdef "int getpid(void); int kill(int, int);"
    repeat until io.popen("ls"):read("*a"):find("%.part\n") -- the save has begun
    ffi.C.kill(ffi.C.getpid(), 9)
  end, cg:read_write(late, function(c) return celer.box({ c.min[0], 0 }, { c.max[0], 3 }) end))
end)
celer.io.save("u.h5", late, { ]] .. how .. [[ })
q:wait()]], ranks)
        assert.is_true(r.status ~= 0)
        local text = dump("u.h5")
        assert.matches('DATASET "first"', text, 1, true)
        assert.is_nil(text:find('DATASET "new"', 1, true))
        assert.matches("( 1, 4, 3 ) / ( H5S_UNLIMITED, 4, 3 )", text, 1, true)
        scratch.write(folder .. "/u.h5", before)
      end
      prints("", u .. "celer.io.save('u.h5', u, { dataset = 'new', add = true })", ranks)
      assert.equal("case.lua\nu.h5\n", scratch.output("cd " .. folder .. " && ls -A"))
    end)
  end

  -- As a compiler of kernels may be.
  it("is not locked by what was started while it was open", function()
    prints("true\n", [[
local library = require "celer.io.hdf5.library"
local H = library.open()
local file = assert(library.create_file "u.h5")
os.execute "sleep 1 &"
H.H5Fclose(file)
print(assert(library.change_file "u.h5") >= 0)]])
  end)

  it("is not written by a dry run", function()
    local text = u .. 'celer.io.save("u.h5", u, { append = true, attributes = { x = 1 } })\n'
      .. 'celer.io.save("u.h5", "text", { dataset = "t" })\n'
    local r = run(text, nil, "--dry-run", 2)
    assert.is_nil(r.stderr:find("warning"))
    assert.equal("case.lua\n", scratch.output("cd " .. folder .. " && ls -A"))
    prints("", text)
    local before = scratch.read(folder .. "/u.h5")
    r = run(text .. 'celer.io.open("other.h5")', nil, "--dry-run", 2)
    assert.matches("case.lua:4: cannot read other.h5: No such file or directory; a dry run writes "
      .. "no files", r.stderr, 1, true)
    assert.is_nil(r.stderr:find("warning"))
    assert.is_true(before == scratch.read(folder .. "/u.h5"))
  end)

  it("is asked for at the script's line", function()
    prints("checked\n", u .. [[
local function refused(words, f, ...)
  local ok, message = pcall(f, ...)
  if ok or not tostring(message):find("^case.lua:%d+: ") or not message:find(words, 1, true) then
    error(words .. ": " .. tostring(message), 2)
  end
end
local save, load, open = celer.io.save, celer.io.load, celer.io.open
refused("dataset f must be a buffer, a number, a string or a boolean, not a function", save, "u.h5",
  { f = print })
refused("the second argument must be a buffer, a number, a string, a boolean or a table of them, "
  .. "not nil", save, "u.h5")
refused("the second argument is a string, which is no step of a dataset", save, "u.h5", "x",
  { append = true })
refused("the second argument is a string, and box is for a buffer", save, "u.h5", "x",
  celer.box({ 0 }, { 1 }))
refused("the second argument has a zero byte in it", save, "u.h5", "x\0")
refused("the table has no buffer", save, "u.h5", {})
refused("dataset 'a/b' cannot lie in 'a', which is a dataset itself", save, "u.h5",
  { a = 1, ["a/b"] = "x" })
refused("append must be true, or how many steps come before, not -1", save, "u.h5", u,
  { append = -1 })
refused("append must be true, or how many steps come before, not a string", save, "u.h5", u,
  { append = "yes" })
refused("add must be true or false, not a number", save, "u.h5", u, { add = 1 })
refused("append is for HDF5, whose files hold buffers by name", save, "u.npy", u, { append = true })
for words, attributes in pairs {
  ["attributes must be a table such as {dt = 0.1, unit = \"m\"}, not a number"] = 3,
  ["the name of an attribute must be a string, not a number"] = { 3 },
  ["the name of an attribute must be a string, not an empty string"] = { [""] = 3 },
  ["attribute 'f' is a function; an attribute is a number, string or boolean"] = { f = print },
  ["attribute 'u' is a buffer; an attribute"] = { u = u },
  ["attribute 'x' is an empty table, which has no type"] = { x = {} },
  ["attribute 'x' is a table with keys other than 1, 2, 3, ..."] = { x = { a = 1 } },
  ["attribute 'x' has elements of different types"] = { x = { 1, "a" } },
  ["attribute 'x' has an element that is a table"] = { x = { { 1 } } },
  ["attribute 's' has a zero byte in it"] = { s = "a\0b" },
} do
  refused(words, save, "u.h5", u, { attributes = attributes })
end
local long = {}
for i = 1, 5000 do long[i] = i end
refused("attribute 'x' has 5000 elements, and 4000 are the most", save, "u.h5", u,
  { attributes = { x = long } })
refused("this is for HDF5, whose files hold buffers by name; celer.io.load reads one", open,
  "u.npy")
refused("cannot read u.h5: No such file or directory", open, "u.h5")
save("u.h5", { u = u, s = "text", e = celer.buffer("float", { 0 }) })
save("u.h5", u, { dataset = "g", append = true })
refused("cannot read u.h5: dataset 's': it is a string, which celer.io.open reads", load, "u.h5",
  { dataset = "s" })
refused("dataset 'g': it has 1 step, 0 to 0, and no step 1", load, "u.h5",
  { dataset = "g", step = 1 })
refused("dataset 'e': it has no steps yet", load, "u.h5", { dataset = "e", step = -1 })
refused("it has no dataset 'x'; it holds e, g, s, u; say which", load, "u.h5", { dataset = "x" })
refused("step must be a whole number, not 1.5", load, "u.h5", { dataset = "g", step = 1.5 })
refused("step is for HDF5", load, "u.npy", { step = 1 })
save("d.h5", celer.buffer("int", { 1, 2, 3 }, { init = 0 }), { append = true })
refused("it has 4 dimensions; 3 are the most, with `step` one of the first", load, "d.h5")
print "checked"]], 2)
  end)
end)
