-- Ranks that run different programs, in one thing at a time of all that goes into a
-- submission; ranks that were started differently; and ranks that are merely spelt so.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local folder = scratch.path(".divergence")

-- `odd` holds on rank 1 alone; step() submits a host task that reads all of a buffer.
local prelude = [[
local celer = require "celer"
local q = celer.queue()
local odd = os.getenv "OMPI_COMM_WORLD_RANK" == "1"
local n = 12
local a = celer.buffer("int", { n }, { name = "a", init = 0 })
local b = celer.buffer("int", { n }, { name = "b", init = 0 })
local one = celer.box({ 0 }, { 1 })
local k = celer.kernel [=[
  kernel void set(item<1> it, out<int, 1> a, int v) { a(it[0]) = v; }
  kernel void other(item<1> it, out<int, 1> a, int v) { a(it[0]) = v + 1; }
  kernel void sum(item<1> it, in<int, 1> a, reducer<int> s) { s += a(it[0]); }
]=]
local function step(u)
  q:submit(function(cg)
    cg:host_task(celer.on_master, function() end, cg:read(u, celer.all))
  end)
end
local function host(f, ...)
  local given, n = { ... }, select("#", ...)
  q:submit(function(cg) cg:host_task(celer.on_master, f, unpack(given, 1, n)) end)
end
local function set(how, value, map, hints)
  q:submit(function(cg)
    if hints then cg:hint(hints) end
    cg:parallel_for({ n }, k.set, cg[how or "discard_write"](cg, a, map), value or 1)
  end)
end
]]

-- What one rank does otherwise, by what that is.
local cases = {
  ["an element type"] = "step(celer.buffer(odd and 'int' or 'float', { n }, { init = 0 }))",
  ["the layout of a struct"] = [[
    local s = celer.struct("pair", odd and "float x; int y;" or "int y; float x;")
    step(celer.buffer(s, { n }, { init = function(i) return { x = i, y = i } end }))]],
  ["the layout of a struct inside a struct"] = [[
    local s = celer.struct("pair", odd and "float x; int y;" or "int y; float x;")
    local t = celer.struct("two", "pair one, another;")
    step(celer.buffer(t, { n }, { init = function() return {} end }))]],
  ["an extent"] = "step(celer.buffer('int', { odd and n or n + 1 }, { init = 0 }))",
  ["dimensions"] = "step(celer.buffer('int', odd and { n } or { n, 1 }, { init = 0 }))",
  ["an initial number"] = "step(celer.buffer('int', { n }, { init = odd and 1 or 2 }))",
  ["an initial table"] = "step(celer.buffer('int', { 2 }, { init = { 1, odd and 1 or 2 } }))",
  ["the text of an init function"] = [[
    local f, g = function(i) return i end, function(i) return 2 * i end
    step(celer.buffer("int", { n }, { init = odd and f or g }))]],
  ["what an init function captured"] = [[
    local by = odd and 1 or 2
    step(celer.buffer("int", { n }, { init = function(i) return by * i end }))]],
  ["the buffer"] = "step(odd and a or b)",
  ["a captured number of a mapper"] = [[
    local by = odd and 1 or 2
    q:submit(function(cg)
      local map = function(c) return celer.box({ c.min[0] }, { c.max[0] + by }):clamped() end
      cg:host_task({ n }, function() end, cg:read(a, map))
    end)]],
  ["a mapper"] = [[
    q:submit(function(cg)
      cg:host_task({ n }, function() end, cg:read(a, odd and celer.all or celer.one_to_one))
    end)]],
  ["an opaque mapper"] = [[
    local at = odd and 1 or 2
    q:submit(function(cg)
      cg:host_task({ 1 }, function() end, cg:read(a, function(chunk)
        if chunk.min[0] == 0 then return celer.box({ 0 }, { at }) end
        return one
      end))
    end)]],
  ["an access mode"] = "set(odd and 'write' or 'discard_write')",
  ["a value"] = "set(nil, odd and 1 or 2)",
  ["a kernel of one source"] = [[
    q:submit(function(cg)
      cg:parallel_for({ n }, odd and k.set or k.other, cg:discard_write(a), 1)
    end)]],
  ["the text of a kernel"] = [[
    local k = celer.kernel("kernel void f(item<1> it, out<int, 1> a) { a(it[0]) = "
      .. (odd and 1 or 2) .. "; }")
    q:submit(function(cg) cg:parallel_for({ n }, k, cg:discard_write(a)) end)]],
  ["what a kernel's source defines"] = [[
    local k = celer.kernel("kernel void f(item<1> it, out<int, 1> a) { a(it[0]) = BY; }",
      { defines = { BY = odd and 1 or 2 } })
    q:submit(function(cg) cg:parallel_for({ n }, k, cg:discard_write(a)) end)]],
  ["a range"] = "q:submit(function(cg) cg:host_task({ odd and 3 or 4 }, function() end) end)",
  ["the end of a box"] = [[
    q:submit(function(cg)
      cg:host_task(celer.box({ 1 }, { odd and 3 or 4 }), function() end)
    end)]],
  ["a granularity"] = "set(nil, 1, nil, { granularity = odd and 2 or 3 })",
  ["runs"] = "set(nil, 1, nil, { oversubscribe = odd and 2 or 3 })",
  ["weights"] = "set(nil, 1, nil, { weights = { 1, 1, odd and 1 or 2 } })",
  ["a split"] = [[
    local m = celer.buffer("int", { 4, 4 }, { init = 0 })
    q:submit(function(cg)
      cg:hint { split = odd and "1d" or "2d" }
      cg:host_task({ 4, 4 }, function() end, cg:read(m))
    end)]],
  ["where it runs"] = [[
    q:submit(function(cg) cg:host_task(odd and celer.on_master or { 1 }, function() end) end)]],
  ["the text of a host task"] = [[
    host(odd and function() return 1 end or function() return 2 end)]],
  ["the text of a function inside a host task"] = [[
    host(odd and function() return function() return "x" end end
      or function() return function() return "y" end end)]],
  ["which variable a function inside captures"] = [[
    host(odd and function(x, y) return function() return x end end
      or function(x, y) return function() return y end end)]],
  ["a table in a host task"] = [[
    host(odd and function() return { x = 1, y = 2 } end
      or function() return { x = 1, y = 3 } end)]],
  ["the text of a helper function"] = [[
    local f, g = function(x) return x + 1 end, function(x) return x - 1 end
    local helper = odd and f or g
    host(function() return helper(1) end)]],
  ["a global function"] = [[
    if odd then function help() return 1 end else function help() return 2 end end
    host(function() return help() end)]],
  ["a function of the library"] = [[
    local f = odd and math.min or math.max
    host(function() return f(1, 2) end)]],
  ["a function of celer's"] = [[
    local f = odd and celer.min or celer.max
    host(function() return f(1, 2) end)]],
  ["a captured string"] = "local s = odd and 'x' or 'y' host(function() return s end)",
  ["a captured boolean"] = "local s = odd host(function() return s end)",
  ["a string for a number"] = "local s = odd and '1' or 1 host(function() return s end)",
  ["a captured table"] = "local s = { x = odd and 1 or 2 } host(function() return s.x end)",
  ["a key of a captured table"] = [[
    local s = { [odd and 1 or "1"] = 1 }
    host(function() return s end)]],
  ["one table captured twice"] = [[
    local s, t = { 1 }, { 1 }
    if odd then t = s end
    host(function() return s, t end)]],
  ["a captured box"] = [[
    local s = odd and one or celer.box({ 0 }, { 2 })
    host(function() return s end)]],
  ["a captured struct"] = [[
    local s = require("ffi").new("float2", 1, odd and 1 or 2)
    host(function() return s end)]],
  ["an argument"] = "host(function() end, odd and 1 or 2)",
  ["the order of arguments"] = [[
    q:submit(function(cg)
      local x, y = cg:read(a, celer.all), 1
      if odd then x, y = y, x end
      cg:host_task(celer.on_master, function() end, x, y)
    end)]],
  ["the text of an interop task"] = [[
    q:submit(function(cg)
      cg:interop_task({ n }, odd and function(p, a) return 1 end or function(p, a) return 2 end,
        cg:read(a))
    end)]],
  ["a collective group"] = [[
    q:submit(function(cg)
      cg:host_task(celer.collective(odd and "x" or "y"), function() end)
    end)]],
  ["what makes a host object"] = [[
    local o = celer.host_object(odd and function() return {} end or function() return { 1 } end)
    q:submit(function(cg)
      cg:side_effect(o)
      cg:host_task(celer.on_master, function() end)
    end)]],
  ["what ends a host object"] = [[
    local o = celer.host_object("struct { int x; }", {
      destructor = odd and function() return 1 end or function() return 2 end })
    q:submit(function(cg)
      cg:side_effect(o)
      cg:host_task(celer.on_master, function() end)
    end)]],
  ["the layout of a host object"] = [[
    local o = celer.host_object(odd and "struct { int x, y; }" or "struct { int y, x; }")
    q:submit(function(cg)
      cg:side_effect(o)
      cg:host_task(celer.on_master, function() end)
    end)]],
  ["the scope of a host object"] = [[
    local o = celer.host_object("struct { int x; }", { scope = odd and "rank" or "cluster" })
    q:submit(function(cg)
      cg:side_effect(o)
      cg:host_task(celer.on_master, function() end)
    end)]],
  ["the order of a side effect"] = [[
    local o = celer.host_object("struct { int x; }")
    q:submit(function(cg)
      cg:side_effect(o, odd and "exclusive" or "relaxed")
      cg:host_task(celer.on_master, function() end)
    end)]],
  ["the operator of a reduction"] = [[
    local s = celer.buffer("int", {}, { init = 0 })
    q:submit(function(cg)
      cg:parallel_for({ n }, k.sum, cg:read(a), cg:reduce(s, odd and "sum" or "max"))
    end)]],
  ["an operator of one's own"] = [[
    local s = celer.buffer("int", {}, { init = 0 })
    q:submit(function(cg)
      cg:parallel_for({ n }, k.sum, cg:read(a), cg:reduce(s, { combine = odd and "a | b"
        or "a + b", identity = 0 }))
    end)]],
  ["the identity of such an operator"] = [[
    local s = celer.buffer("int", {}, { init = 0 })
    q:submit(function(cg)
      cg:parallel_for({ n }, k.sum, cg:read(a), cg:reduce(s, { combine = "a + b",
        identity = odd and 0 or 1 }))
    end)]],
  ["what a reduction begins with"] = [[
    local s = celer.buffer("int", {}, { init = 0 })
    q:submit(function(cg)
      cg:parallel_for({ n }, k.sum, cg:read(a), cg:reduce(s, "sum", { include_current = odd }))
    end)]],
  ["what is reduced into"] = [[
    local s, t = celer.buffer("int", {}, { init = 0 }), celer.buffer("int", {}, { init = 0 })
    q:submit(function(cg)
      cg:parallel_for({ n }, k.sum, cg:read(a), cg:reduce(odd and s or t, "sum"))
    end)]],
  ["a captured part of a buffer"] = "q:fence(a, odd and one or celer.box({ 1 }, { 2 }))",
  ["what each rank captures"] = [[
    local by = odd and 1 or 2
    q:fence(celer.capture(a, function(rank)
      return celer.box({ by + rank }, { by + rank + 1 })
    end))]],
  ["what of a host object is captured"] = [[
    local o = celer.host_object("struct { int x; }")
    q:fence(celer.capture(o, odd and function(o) return o.x end
      or function(o) return o.x + 1 end))]],
  ["the file that a buffer is loaded from"] = [[
    step(celer.io.load(odd and "x.npy" or "y.npy"))]],
  ["the part of a file that a buffer is loaded from"] = [[
    step(celer.io.load("x.npy", { box = celer.box({ odd and 0 or 1 }, { odd and 99 or 100 }) }))]],
}

-- An NPY file of so many 64-bit zeros.
local function write_npy(name, n)
  local header = ("{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }"):format(n)
  header = header .. (" "):rep(117 - #header) .. "\n"
  scratch.write(folder .. "/" .. name, "\147NUMPY\1\0" .. string.char(#header, 0) .. header
    .. ("\0"):rep(8 * n))
end

local function run(text)
  scratch.write(folder .. "/case.lua", prelude .. text .. "\nq:drain()\n")
  return celer.run({ "run", "case.lua" },
    { ranks = 3, cwd = folder, env = { CELER_ADVICE = "off" } })
end

setup(function()
  os.execute("mkdir -p " .. folder)
  write_npy("x.npy", 100)
  write_npy("y.npy", 100)
end)
teardown(function() os.execute("rm -r " .. folder) end)

describe("ranks that differ are told so when it is in", function()
  for name, text in pairs(cases) do
    it(name, function()
      local r = run(text)
      assert.is_false(r.timed_out)
      assert.not_equal(0, r.status, r.stdout)
      assert.matches("case%.lua:%d+: the ranks run different programs: rank 0 submitted .*, "
        .. "but rank 1 submitted ", r.stderr)
    end)
  end
end)

describe("ranks may differ in", function()
  local function check_alike(text)
    local r = run(text)
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
  end

  it("how far LuaJIT has compiled what they submit", function()
    check_alike [[
      local function f(t, n)
        local sum = 0
        for i = 1, n do sum = sum + i end
        for _, x in ipairs(t) do sum = sum + x end
        for _, x in pairs(t) do sum = sum + x end
        while sum > 1000 do sum = sum - 1000 end
        repeat sum = sum + 1 until sum > 10
        return sum
      end
      if odd then for _ = 1, 500 do f({ 1, 2, x = 3, y = 4 }, 200) end end
      host(function() return f({ 1 }, 1) end)
      for _ = 1, 3 do host(function(_, t, n) return f(t, n) end, { 1 }, 1) end]]
  end)

  it("the order in which they see keys", function()
    check_alike [[
      local t = {}
      for i = 1, 50 do t["key" .. i] = i end
      host(function()
        return t, { alpha = 1, beta = 2, gamma = 3, delta = 4, epsilon = 5, zeta = 6, eta = 7 }
      end)]]
  end)

  it("which of two names they know a function by", function()
    check_alike [[
      local f, g, h = celer.min, unpack, table.unpack or unpack
      host(function() return f, g, h, celer.floor end)]]
  end)

  it("what tasks are called", function()
    check_alike [[
      q:submit(function(cg)
        cg:name(odd and "x" or "y")
        cg:host_task(celer.on_master, function() end)
      end)]]
  end)
end)

describe("ranks that were started differently", function()
  local function start(first, second)
    scratch.write(folder .. "/a.lua", "require('celer').queue():wait()\nprint 'not alone'")
    scratch.write(folder .. "/b.lua", "require('celer').queue():wait()")
    local argv = { "mpirun", "--oversubscribe", "-n", "1", celer.command() }
    for _, word in ipairs(first) do argv[#argv + 1] = word end
    for _, word in ipairs { ":", "-n", "2", celer.command() } do argv[#argv + 1] = word end
    for _, word in ipairs(second) do argv[#argv + 1] = word end
    return celer.exec(argv, { cwd = folder })
  end

  -- The words of rank 0, those of the others, and what one of these says.
  local refused = {
    ["by another script"] = { { "run", "a.lua" }, { "run", "b.lua" },
      "was given b.lua, rank 0 a.lua" },
    ["by a script that is not there"] = { { "run", "a.lua" }, { "run", "nope.lua" },
      "was given nope.lua, rank 0 a.lua" },
    ["by no script"] = { { "run", "a.lua" }, { "run" }, "was given no script, rank 0 a.lua" },
    ["by another text"] = { { "-e", "x = 1" }, { "-e", "x = 2" },
      "was given another text by %-e than rank 0" },
    ["by another command"] = { { "run", "a.lua" }, { "check", "a.lua" },
      "was started as celer check, rank 0 as celer run" },
    ["by a command without a script"] = { { "run", "a.lua" }, { "--version" },
      "was started as celer %-%-version, rank 0 as celer run" },
    ["by an option"] = { { "run", "a.lua" }, { "run", "--horizon-step", "1", "a.lua" },
      "was started with %-%-horizon%-step 1, rank 0 without" },
    ["without an option"] = { { "run", "--check-bounds", "a.lua" }, { "run", "a.lua" },
      "was started without %-%-check%-bounds, rank 0 with %-%-check%-bounds" },
    ["by another value"] = { { "run", "--horizon-step", "2", "a.lua" },
      { "run", "--horizon-step", "1", "a.lua" },
      "was started with %-%-horizon%-step 1, rank 0 with %-%-horizon%-step 2" },
  }
  for name, case in pairs(refused) do
    it(name .. " say so", function()
      local r = start(case[1], case[2])
      assert.is_false(r.timed_out)
      assert.not_equal(0, r.status)
      assert.matches("^celer: rank [12] " .. case[3], r.stderr)
    end)
  end

  it("by a script that rank 0 has not say which", function()
    local r = start({ "run", "nope.lua" }, { "run", "a.lua" })
    assert.not_equal(0, r.status)
    assert.matches("nope%.lua", r.stderr)
    assert.equal("", r.stdout)
  end)

  it("by a variable say so", function()
    local r = celer.exec({ "mpirun", "--oversubscribe", "-n", "1", celer.command(), "run", "a.lua",
      ":", "-n", "1", "-x", "CELER_HORIZON_STEP=1", celer.command(), "run", "a.lua" },
      { cwd = folder })
    assert.not_equal(0, r.status)
    assert.matches("^celer: rank 1 was started with CELER_HORIZON_STEP=1, rank 0 without",
      r.stderr)
  end)

  it("by what concerns each alone go on", function()
    local r = start({ "run", "--devices", celer.devices(2), "--log", "error", "a.lua" },
      { "run", "--no-collectives", "--advice", "off", "a.lua" })
    assert.equal("", r.stderr)
    assert.equal("not alone\n", r.stdout)
  end)

  it("by arguments are told them where they diverge", function()
    scratch.write(folder .. "/case.lua", prelude
      .. "q:submit(function(cg) cg:host_task({ 2 + #arg }, function() end) end)\nq:drain()")
    local r = start({ "run", "case.lua" }, { "run", "case.lua", "one", "two" })
    assert.not_equal(0, r.status)
    assert.matches("rank 0 was given no arguments, rank 1 was given the arguments 'one two'",
      r.stderr, 1, true)
  end)
end)
