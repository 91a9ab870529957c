-- What bad input gets: one message that names the place, a non-zero exit, and
-- no rank left behind; the same on one rank and on three.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local folder = scratch.path(".errors")

-- What each script begins with; its own text starts at line 10.
local prelude = [[
local celer = require "celer"
local q = celer.queue()
local n = 64
local a = celer.buffer("float", { n }, { name = "a" })
local o = celer.buffer("float", { n }, { name = "o" })
local k = celer.kernel [=[
  kernel void set(item<1> it, out<float, 1> a, float v) { a(it[0]) = v; }
  kernel void copy(item<1> it, out<float, 1> o, in<float, 1> a) { o(it[0]) = a(it[0]); }
]=]
]]

-- Which rank a script runs on: nothing that a program should ask.
local rank = [[
local ffi = require "ffi"
ffi.cdef "char *getenv(const char *);"
local p = ffi.C.getenv("OMPI_COMM_WORLD_RANK")
local rank = p ~= nil and tonumber(ffi.string(p)) or 0
]]

local set = "q:submit(function(cg) cg:parallel_for({ n }, k.set, cg:discard_write(a), 1) end)\n"

-- Calls submit with a kernel that writes `a` by the mapper given.
local function by_mapper(mapper)
  return "q:submit(function(cg)\n  local w = cg:discard_write(a, " .. mapper
    .. ")\n  cg:parallel_for({ n }, k.set, w, 1)\nend)\nq:drain()"
end

-- Writes 4 PiB, in rows of 4 GiB.
-- 4 GiB for each of 2 ^ 20 items: more than addresses can tell.
local large = "local big = celer.buffer('float', { 2 ^ 20, 2 ^ 20, 2 ^ 10 }, { name = 'big' })\n"
  .. "local s = celer.kernel [[ kernel void s(item<1> i, out<float, 3> b) {} ]]\n"
  .. "q:submit(function(cg)\n  local w = cg:discard_write(big, function(chunk)\n"
  .. "    return celer.box({ chunk.min[0], 0, 0 }, { chunk.max[0], 2 ^ 20, 2 ^ 10 })\n"
  .. "  end)\n  cg:parallel_for({ 2 ^ 20 }, s, w)\nend)\nq:drain()"

-- name = { script, message by rank 0 (patterns that must all be there), options }
-- `bare`: without the prelude; `env`: variables; `lines`: of the message, 20 at most.
local cases = {
  ["a syntax error"] = {
    bare = true, "local x = = 3\n", { "^celer: [^\n]*case.lua:1: ", "near '='" },
  },
  ["a text that ends early"] = {
    bare = true, "local k = [[\nint x = a[b[0]];\n]]", { "^celer: [^\n]*case.lua:%d: ",
      "the text that %[%[ begins in line 1 ends at the %]%] in line 2; write %[=%[ ... %]=%]" },
  },
  ["a run-time error"] = {
    "local t = nil\nprint(t.x)", { "case.lua:11: attempt to index local 't'" },
  },
  ["an endless recursion"] = {
    "local function f(x) return 1 + f(x) end\nf(1)", { "stack overflow" },
  },
  ["a module that is not there"] = {
    "require 'no_such_module'", { "case.lua:10: module 'no_such_module' not found" },
  },
  ["what celer itself stumbles over"] = {
    "require('celer.words').nearest(nil, { 'x' })",
    { "celer: [^ ]*/case.lua:10: celer/words.lua:%d+: attempt" },
  },
  ["a C function that gives work"] = {
    "q:submit(math.floor)", { "celer: [^ ]*/case.lua:10: bad argument #1" },
  },
  ["a C function as a host task"] = {
    "q:submit(function(cg) cg:host_task(celer.on_master, math.floor) end)\nq:drain()",
    { "celer: [^ ]*/case.lua:10: bad argument #1" },
  },
  ["a C function as a range mapper"] = {
    by_mapper "math.floor", { "case.lua:12: task 'set': the mapper of its discard_write access to "
      .. "buffer 'a': a range mapper must be a function of Lua, such as function%(chunk%) return "
      .. "chunk end; math.floor is a C function\n" },
  },
  ["a C function without a name as a range mapper"] = {
    by_mapper "coroutine.wrap(print)", { "case.lua:1[012]: a range mapper must be a function of "
      .. "Lua, such as function%(chunk%) return chunk end; this one is a C function\n" },
  },
  ["a C function as a rule"] = {
    "celer.rule(math.floor, a)", { "case.lua:10: a range mapper must be a function of Lua" },
  },
  ["a mapper that returns more than Lua can"] = {
    by_mapper "function() return unpack({}, 1, 1e8) end",
    { "case.lua:11: task 'set': [^\n]*: too many results to unpack\n" },
  },
  ["an io.write as initial contents"] = {
    "local b = celer.buffer('float', { 4 }, { init = io.write })\nq:drain(b)",
    { "case.lua:11: the init function of buffer1 at %(0%): a userdata is no float" },
  },
  ["a folder in place of a kernel's file"] = {
    "celer.kernel { file = '/tmp' }", { "case.lua:10: /tmp: Is a directory\n" },
  },
  ["a folder that all ranks open"] = {
    "q:submit(function(cg) cg:host_task(celer.collective(), function(part)\n"
      .. "part.comm:open('/tmp') end) end)\nq:drain()",
    { "case.lua:11: cannot open /tmp: Is a directory" },
  },
  ["a file that all ranks cannot make"] = {
    "q:submit(function(cg) cg:host_task(celer.collective(), function(part)\n"
      .. "part.comm:open('/no/such', 'w') end) end)\nq:drain()",
    { "case.lua:11: cannot open /no/such: no such file or directory" },
  },
  ["what cannot be walked in order"] = {
    "celer.sorted_pairs(nil)", { "case.lua:10: celer.sorted_pairs walks a table, not nil" },
  },
  ["a key without an order"] = {
    "celer.sorted_pairs { [print] = 1 }",
    { "case.lua:10: celer.sorted_pairs: a key is a function; .*numbers, strings and booleans" },
  },
  ["an error without a place"] = { "error('boom', 0)", { "celer: [^ ]*/case.lua:10: boom" } },
  ["an error without a place, with its calls"] = {
    "error('boom', 0)", { "celer: [^ ]*/case.lua:10: boom" }, env = { CELER_LOG = "debug" },
  },
  ["what celer itself stumbles over, with its calls"] = {
    "require('celer.words').nearest(nil, { 'x' })",
    { "celer: [^ ]*/case.lua:10: celer/words.lua:%d+: attempt" },
    env = { CELER_LOG = "debug" },
  },
  ["a range mapper that is called"] = {
    "q:submit(function(cg)\n  cg:read(a, celer.all())\nend)",
    { "case.lua:11: celer.all is a range mapper already: write it without %(%)" },
  },
  ["a misspelt function of celer.io"] = {
    "celer.io.laod('a.npy')", { "case.lua:10: there is no celer.io.laod, did you mean load" },
  },
  ["a host task that is not said where to run"] = {
    "q:submit(function(cg)\n  cg:host_task(function() end)\nend)",
    { "case.lua:11: cg:host_task: the first argument says where it runs, celer.on_master, .*not a "
      .. "function" },
  },
  ["a comparison of a scalar, which Lua cannot carry out"] = {
    "local t = celer.scalar('double', 0)\nwhile t < 1 do t:set(t + 1) end",
    { "case.lua:11: attempt to compare table with number; of a buffer or scalar u, u%(%) is the " },
  },
  ["a sum as of other arrays"] = {
    "local s = a:sum()",
    { "case.lua:10: attempt to call method 'sum' .*a buffer u are combined by t:reduce%(" },
  },
  ["a misspelt method of a queue"] = {
    "q:sumbit(function() end)", { "case.lua:10: ", "a queue has no 'sumbit', did you mean submit" },
  },
  ["a misspelt method of a command group"] = {
    "q:submit(function(cg)\n  local w = cg:raed(a)\nend)",
    { "case.lua:11: ", "a command group has no 'raed', did you mean read" },
  },
  ["a picture of too many points"] = {
    "local b = celer.buffer('char', { 8193, 8193 }, { name = 'b' })\n"
      .. "local z = celer.kernel 'kernel void z(item<2> it, out<char, 2> b) "
      .. "{ b(it[0], it[1]) = 0; }'\n"
      .. "q:submit(function(cg) cg:parallel_for({ 8193, 8193 }, z, cg:discard_write(b)) end)\n"
      .. "celer.png('never.png', q:wait(b))",
    { "case.lua:13: celer.png", "b has 8193 x 8193 points, more than 2%^26" },
  },
  ["a kernel that does not compile"] = {
    "local bad = celer.kernel [[\n  kernel void bad(item<1> it, out<float, 1> a) {\n"
      .. "    a(it[0]) = nonsense;\n  }\n]]\n"
      .. "q:submit(function(cg) cg:parallel_for({ n }, bad, cg:discard_write(a)) end)",
    { "case.lua:12", "nonsense", "does not compile" }, lines = 20,
  },
  ["a combine that does not compile"] = {
    "local s = celer.buffer('float')\n"
      .. "local add = celer.kernel 'kernel void add(item<1> it, reducer<float> s) { s += 1; }'\n"
      .. "q:submit(function(cg)\n  cg:parallel_for({ n }, add,\n"
      .. "    cg:reduce(s, { combine = 'a +', identity = 0 }))\nend)",
    { "case.lua:14: the combine of cg:reduce does not compile", "case.lua:14[:%d]*: error: " },
    lines = 20,
  },
  ["too few kernel arguments"] = {
    "q:submit(function(cg) cg:parallel_for({ n }, k.set, cg:discard_write(a)) end)",
    { "case.lua:10: ", "kernel set", "2 arguments", "got 1" },
  },
  ["a kernel argument of a wrong type"] = {
    "q:submit(function(cg) cg:parallel_for({ n }, k.set, cg:discard_write(a), 'x') end)",
    { "case.lua:10: ", "argument 2 of kernel set", "expected a number", "got a string" },
  },
  ["a kernel argument of wrong dimensions"] = {
    "local b = celer.buffer('float', { n, n }, { name = 'b' })\nq:submit(function(cg)\n"
      .. "  local w = cg:discard_write(b, celer.all)\n  cg:parallel_for({ n }, k.set, w, 1)\nend)",
    { "case.lua:13: ", "kernel set", "b" },
  },
  ["a buffer of another element type"] = {
    "local d = celer.buffer('double', { n }, { name = 'd' })\n"
      .. "q:submit(function(cg) cg:parallel_for({ n }, k.set, cg:discard_write(d), 1) end)",
    { "case.lua:11: ", "out<float, 1>", "d holds double" },
  },
  ["a range of wrong dimensions"] = {
    "q:submit(function(cg)\n  local w = cg:discard_write(a, celer.all)\n"
      .. "  cg:parallel_for({ n, n }, k.set, w, 1)\nend)",
    { "case.lua:12: ", "kernel set", "item<1>", "2 dimensions" },
  },
  ["no buffer at all"] = {
    "q:submit(function(cg) cg:parallel_for({ n }, k.set, cg:discard_write(nil), 1) end)",
    { "case.lua:10: ", "discard_write", "must be a buffer" },
  },
  ["a mapper that leaves the buffer"] = {
    by_mapper("function(c) return celer.box({ c.min[0] + 1 }, { c.max[0] + 1 }) end"),
    { "case.lua:1%d: ", "task 'set'", "buffer 'a'", "leaves the buffer", "clamp it" },
  },
  ["a mapper that overlaps in a write"] = {
    by_mapper("celer.all"),
    { "case.lua:1%d: ", "task 'set'", "buffer 'a'", "both write element" },
  },
  ["a read mapper that depends on the split"] = {
    set .. "q:submit(function(cg)\n  local r = cg:read(a, function(chunk)\n"
      .. "    return celer.box({ 0 }, { chunk.size[0] })\n  end)\n"
      .. "  cg:parallel_for({ n }, k.copy, cg:discard_write(o), r)\nend)",
    { "case.lua:1%d: ", "task 'copy'", "buffer 'a'", "how the range is split" },
  },
  ["a mapper that raises"] = {
    by_mapper("function() error('my mapper') end"),
    { "case.lua:1%d: task 'set': the mapper of its discard_write access to buffer 'a': ",
      "my mapper" },
  },
  ["a mapper that returns no box"] = {
    by_mapper("function() return 3 end"),
    { "case.lua:1%d: ", "task 'set'", "discard_write", "buffer 'a'", "must return a celer.box" },
  },
  ["a mapper that returns a box of fractions"] = {
    by_mapper("function(c) return c:with(0, c.min[0] / 3, c.max[0] / 3) end"),
    { "case.lua:1%d: ", "task 'set'", "discard_write", "buffer 'a'", "whole number" },
  },
  ["a mapper that branches and leaves the buffer"] = {
    by_mapper("function(c) return c.min[0] == 0 and c:with(0, 0, 99) or c end"),
    { "case.lua:1%d: ", "task 'set'", "discard_write", "buffer 'a'", "leaves the buffer",
      "clamp it" },
  },
  ["a host task that raises"] = {
    set .. "q:submit(function(cg)\n  local r = cg:read(a, celer.all)\n"
      .. "  cg:host_task(celer.on_master, function(_, r) error('disk full') end, r)\n"
      .. "end)\nq:drain()",
    { "case.lua:13: .*disk full" },
  },
  ["a host task that raises on all ranks"] = {
    set .. "q:submit(function(cg)\n  local r = cg:read(a)\n"
      .. "  cg:host_task({ n }, function(_, r) error('disk full') end, r)\nend)\nq:drain()",
    { "case.lua:13: .*disk full" },
  },
  ["a host task that captures a file"] = {
    "local f = assert(io.open('/dev/null', 'w'))\n"
      .. "q:submit(function(cg) cg:host_task(celer.on_master, function() f:write('x') end) end)",
    { "case.lua:11: ", "variable 'f'", "cannot be copied" },
  },
  ["an init function that raises"] = {
    "local c = celer.buffer('float', { n }, { init = function() error('bad init') end })\n"
      .. "q:submit(function(cg)\n"
      .. "  cg:parallel_for({ n }, k.copy, cg:discard_write(o), cg:read(c))\nend)\nq:drain()",
    { "case.lua:1%d: .*bad init" },
  },
  ["more memory than there is"] = {
    large, env = { CELER_BACKEND = "cpu" },
    { "case.lua:1%d: ", "buffer .?big", "out of host memory", "4.0 PiB asked for", "available" },
  },
  ["more memory than a device has"] = {
    (large:gsub("{ 2 ^ 20", "{ 2 ^ 10")), env = { CELER_DEVICE_MEMORY = "1G" },
    { "case.lua:1%d: ", "out of memory on device %d: task 's' needs %d%.%d TiB there at once, ",
      "big %(%d%.%d TiB%), and this rank has %d[%d.]* [GM]iB of it", "cannot be cut further" },
  },
  ["more memory than the host has, all of it to be touched"] = {
    "local big = celer.buffer('float', { 2 ^ 40 }, { name = 'big' })\n"
      .. "q:submit(function(cg)\n  local w = cg:discard_write(big)\n"
      .. "  cg:parallel_for({ 2 ^ 40 }, k.set, w, 1)\nend)\nq:drain()",
    -- A device's memory goes on to the host piece by piece, until there is none.
    env = { CELER_BACKEND = "cpu" },
    { "case.lua:13: ", "buffer .?big", "out of host memory", "[14].[03] TiB", "in all" },
  },
  ["a slice along a dimension that is not there"] = {
    "q:submit(function(cg)\n  local r = cg:read(a, celer.slice(1))\n"
      .. "  cg:parallel_for({ n }, k.copy, cg:discard_write(o), r)\nend)",
    { "case.lua:12: ", "celer.slice%(1%)", "no dimension 1" },
  },
  ["an assertion that fails without a place"] = {
    "assert(io.open('/nowhere/at/all'))", { "case.lua:10: /nowhere/at/all: No such file" },
  },
  ["an error that is a table"] = {
    "error({ code = 3 })", { "case.lua:10: the error is a table" },
  },
  ["an assertion in a host task"] = {
    "q:submit(function(cg)\n  cg:host_task(celer.once, function()\n"
      .. "    assert(nil, 'nothing there')\n  end)\nend)\nq:wait()",
    { "case.lua:12: nothing there", "submitted at .*case.lua:11" },
  },
  ["work after the end"] = {
    "q:drain()\n" .. set, { "case.lua:11: ", "q:submit", "drained" },
  },
}

local function write(text, name)
  scratch.write(folder .. "/" .. (name or "case.lua"), text)
end

local function run(ranks, options)
  options = options or {}
  local args = options.args or { "run", folder .. "/case.lua" }
  return celer.run(args, { ranks = ranks, env = options.env })
end

-- No process of this script is left (mpirun and celer have ended).
local function nobody_left()
  for _ = 1, 600 do
    local r = celer.exec({ "sh", "-c", "ps -ww -eo args | grep -F '" .. folder
      .. "/case.lua' | grep -v grep" })
    if r.stdout == "" then return "" end
    celer.exec({ "sleep", "0.1" })
  end
  return "still running"
end

local function check_failure(r, patterns, lines)
  for _, pattern in ipairs(patterns) do assert.matches(pattern, r.stderr) end
  local _, messages = r.stderr:gsub("celer: ", "")
  assert.equal(1, messages, r.stderr)
  local _, breaks = r.stderr:gsub("\n", "")
  assert.is_true(breaks <= (lines or 20), r.stderr)
  assert.is_nil(r.stderr:match("mpirun"), r.stderr)
  assert.is_false(r.timed_out)
  assert.not_equal(0, r.status)
  assert.equal("", nobody_left())
end

local function on(ranks)
  return ranks == 1 and "on one rank" or "on three ranks"
end

-- Runs `body(ranks)` on one rank, by itself, and on three.
local function both(name, body)
  for _, ranks in ipairs({ 1, 3 }) do
    it(name .. " " .. on(ranks), function() body(ranks > 1 and ranks or nil) end)
  end
end

setup(function() os.execute("mkdir -p '" .. folder .. "'") end)
teardown(function() os.execute("rm -rf '" .. folder .. "'") end)

describe("a script with", function()
  local names = {}
  for name in pairs(cases) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local case = cases[name]
    both(name, function(ranks)
      write(case.bare and case[1] or prelude .. case[1])
      check_failure(run(ranks, { env = case.env }), case[2], case.lines)
    end)
  end
end)

describe("one rank alone", function()
  it("says itself that its script has failed", function()
    write(prelude .. rank .. "if rank == 1 then error('only here') end\nq:drain()")
    check_failure(run(3), { "^celer: rank 1: %S*case.lua:14: only here\n$" })
  end)

  it("is heard while the others wait for it to begin", function()
    write(rank .. "if rank == 1 then error('only here') end\n"
      .. "require('celer').queue():wait()")
    check_failure(run(3), { "^celer: rank 1: %S*case.lua:5: only here\n$" })
  end)

  it("is heard while the others work", function()
    write(prelude .. rank
      .. "for t = 1, 1000 do\n  if t == 500 and rank == 2 then error('here') end\n"
      .. set .. "end\nq:drain()")
    check_failure(run(3), { "^celer: rank 2: %S*case.lua:15: here\n$" })
  end)

  it("says itself that its host task has failed", function()
    write(prelude .. set .. "q:submit(function(cg)\n  local r = cg:read(a)\n"
      .. "  cg:host_task({ n }, function(part, r)\n"
      .. "    if part.rank == 1 then error('disk full') end\n  end, r)\n"
      .. "end)\nq:drain()")
    check_failure(run(3), { "^celer: rank 1: .*case.lua:14: .*disk full" })
  end)

  it("ends the job when it is killed", function()
    write(prelude .. rank
      .. "ffi.cdef 'int raise(int);'\nif rank == 1 then ffi.C.raise(9) end\nq:drain()")
    assert.not_equal(0, run(3).status)
    assert.equal("", nobody_left())
  end)
end)

describe("ranks that diverge", function()
  it("are told both lines", function()
    write(prelude .. rank .. "if rank == 1 then\n" .. set .. "else\n"
      .. set:gsub("1%) end", "2) end") .. "end\nq:drain()")
    check_failure(run(3), { "different programs", "case.lua:15", "case.lua:17" })
  end)

  it("are told when one of them ends before the others", function()
    write(prelude .. rank .. "for _ = 1, 20 + 30 * rank % 60 do\n" .. set .. "end\nq:drain()")
    check_failure(run(3), { "different programs", "case.lua:15", "case.lua:17" })
  end)

  for _, worker in ipairs { 0, 2 } do
    it("are told when rank " .. worker .. " alone has any work", function()
      write(rank .. "local celer = require 'celer'\nif rank == " .. worker .. [[ then
  local a = celer.buffer("int", { 3 })
  celer.queue():submit(function(cg)
    cg:host_task({ 3 }, function() end, cg:discard_write(a))
  end)
end]])
      check_failure(run(3), { "different programs",
        "rank " .. worker .. " submitted a host task .* at %S*case.lua:9" })
    end)
  end

  -- What a rank of them sends has another length than the next one expects.
  local sizes = {
    ["a larger extent"] = { 1000, 1200 },
    ["a smaller extent"] = { 1000, 800 },
    ["an extent that differs by one element"] = { 1000, 1001 },
    ["a larger extent, in long messages"] = { 2 ^ 20, 2 ^ 20 + 2 ^ 16 },
    ["a smaller extent, in long messages"] = { 2 ^ 20, 2 ^ 20 - 2 ^ 16 },
  }
  local gather = "q:submit(function(cg)\n  local r = cg:read(a, celer.all)\n"
    .. "  cg:host_task({ n }, function() end, r)\nend)\n"
  local patterns = { "different programs", "rank [02] submitted a kernel 'set' at %S*case.lua:16",
    "rank 1 submitted a kernel 'set' at %S*case.lua:16" }
  for name, size in pairs(sizes) do
    it("are told when a buffer has " .. name .. " on one of them", function()
      write(prelude .. rank .. ("n = rank == 1 and %d or %d\n"):format(size[2], size[1])
        .. "a = celer.buffer('float', { n }, { name = 'a' })\n" .. set .. gather .. "q:wait()")
      check_failure(run(3), patterns)
    end)
  end

  it("are told when a buffer has larger elements on one of them", function()
    write(prelude .. rank .. "a = celer.buffer(rank == 1 and 'double' or 'float', { n })\n"
      .. "q:submit(function(cg)\n  local w = cg:discard_write(a)\n"
      .. "  cg:host_task({ n }, function() end, w)\nend)\n" .. gather .. "q:wait()")
    check_failure(run(3), { "different programs", "case.lua:17" })
  end)

  it("are told of a host task that only one of them submits", function()
    write(prelude .. rank .. set .. "if rank == 2 then\n" .. gather .. "end\n"
      .. set .. gather .. "q:wait()")
    check_failure(run(3), {
      "rank [01] submitted a kernel 'set' at %S*case.lua:21",
      "rank 2 submitted a host task .* at %S*case.lua:18" })
  end)
end)

describe("what is no error", function()
  both("an unknown variable is a warning", function(ranks)
    write "print 'done'"
    local r = run(ranks, { env = { CELER_HOME = "/opt/celer", CELER_BACKEN = "cpu" } })
    assert.equal("celer: warning: CELER_BACKEN is no variable of celer's, and ignored, did you "
      .. "mean CELER_BACKEND?\n"
      .. "celer: warning: CELER_HOME is no variable of celer's, and ignored\n", r.stderr)
    assert.same({ "done\n", 0 }, { r.stdout, r.status })
  end)

  both("a neighbourhood at the edge is clamped", function(ranks)
    write(prelude .. set .. "q:submit(function(cg)\n"
      .. "  local r = cg:read(a, celer.neighborhood(1))\n"
      .. "  cg:parallel_for({ n }, k.copy, cg:discard_write(o), r)\nend)\nq:drain()")
    local r = run(ranks)
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
  end)

  both("reading what nobody wrote is a warning", function(ranks)
    write(prelude .. "q:submit(function(cg)\n"
      .. "  cg:parallel_for({ n }, k.copy, cg:discard_write(o), cg:read(a))\nend)\nq:drain()")
    local r = run(ranks)
    assert.matches("^celer: warning: %S*case.lua:11: task 'copy' .*buffer 'a'.*never written"
      .. "[^\n]*\n$", r.stderr)
    assert.equal(0, r.status)
  end)

  -- Not where the result is asked for.
  both("so is reducing onto what nobody wrote, at its own line", function(ranks)
    write([==[
local celer = require "celer"
local q = celer.queue()
local s = celer.buffer("int", {}, { name = "s" })
local k = celer.kernel "kernel void f(item<1> it, reducer<int> s) { s += 1; }"
q:submit(function(cg)
  cg:parallel_for({ 5 }, k, cg:reduce(s, "sum", { include_current = true }))
end)
q:drain(s)]==])
    local r = run(ranks)
    assert.matches("^celer: warning: %S*case.lua:6: cg:reduce begins with what buffer 's' holds "
      .. "%(include_current%), of which some was never written[^\n]*\n$", r.stderr)
    assert.equal(0, r.status)
  end)

  both("a script that ends without draining is drained", function(ranks)
    write(prelude .. set .. "q:submit(function(cg)\n  local r = cg:read(a, celer.all)\n"
      .. "  cg:host_task(celer.on_master, function(_, r) print('last', r(5)) end, r)\nend)")
    local r = run(ranks)
    assert.matches("last\t1\n", r.stdout, 1, true)
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
  end)
end)

describe("a call of celer with", function()
  local calls = {
    ["an unknown option"] = {
      { "run", "--device", "2", "case.lua" },
      { "unknown option.*, did you mean .*'%-%-devices'%?\n" },
    },
    ["no command"] = { { "case.lua" }, { "did you mean celer run case.lua%?\n" } },
    ["an option before the command"] = {
      { "--devices", "2", "run", "case.lua" }, { "behind the command: celer run %-%-devices\n" },
    },
    ["another command's option"] = {
      { "run", "--arch", "cpu", "case.lua" }, { "'%-%-arch'; it goes with celer build\n" },
    },
    ["too many words"] = {
      { "info", "case.lua" }, { "too many arguments; see celer info %-%-help" },
    },
    ["an option's wrong value"] = {
      { "run", "--devices", "nine", "case.lua" }, { "%-%-devices", "nine" },
    },
    ["an unknown command"] = { { "rnu", "case.lua" }, { "'rnu', did you mean 'run'%?\n" } },
    ["no script"] = { { "run" }, { "script" } },
    ["a script without a name"] = {
      { "run", "" }, { "the name of the script is empty; give a file, or %- for stdin\n" },
    },
    ["a script that is not there"] = {
      { "run", "/no/such/script.lua" }, { "/no/such/script.lua" },
    },
    ["a variable's wrong value"] = {
      { "run", "case.lua" }, { "CELER_LOG", "loud" }, env = { CELER_LOG = "loud" },
    },
  }
  it("--help gets lines that fit a terminal", function()
    for _, words in ipairs { {}, { "run" }, { "check" }, { "build" }, { "graph" }, { "info" },
      { "cache" }, { "types" }, { "repl" } } do
      words[#words + 1] = "--help"
      local r = celer.run(words)
      assert.equal(0, r.status)
      assert.matches("^Usage: celer ", r.stdout)
      for line in r.stdout:gmatch "[^\n]+" do assert.is_true(#line <= 80, line) end
    end
  end)

  for name, call in pairs(calls) do
    both(name, function(ranks)
      check_failure(run(ranks, { args = call[1], env = call.env }), call[2], 1)
    end)
  end

  -- A script that compiles, with variables for the ranks alone.
  local function compile(ranks, ...)
    write(prelude .. set .. "q:drain()")
    local argv = { "env", ... }
    for _, word in ipairs { celer.command(), "run", "--backend", "cpu", "--log", "error",
      folder .. "/case.lua" } do
      argv[#argv + 1] = word
    end
    if ranks then
      local words = { "mpirun", "--oversubscribe", "-n", ranks }
      for _, word in ipairs(argv) do words[#words + 1] = word end
      argv = words
    end
    return celer.exec(argv)
  end

  both("no folder for compilers", function(ranks)
    check_failure(compile(ranks, "TMPDIR=/proc/none", "CELER_CACHE=/proc/none"), {
      "case.lua:%d+: a kernel cannot be compiled: compilers need a folder for their files, and "
        .. "none can be made in /proc/none: No such file or directory; set TMPDIR or CELER_CACHE "
        .. "to a folder that can be written to" })
  end)

  both("no compiler on the machine", function(ranks)
    check_failure(compile(ranks, "PATH=/none", "CXX=", "CELER_CACHE=" .. folder .. "/empty"),
      { "case.lua:%d", "no C%+%+ compiler", "install" })
  end)
end)

describe("Ctrl-C", function()
  -- Starts, waits until every rank's script runs, and interrupts.
  local function interrupt(ranks, script)
    write(prelude .. rank .. "io.open('up' .. rank, 'w'):close()\n" .. script)
    local start = celer.command() .. " run case.lua"
    if ranks then start = "mpirun --oversubscribe -n " .. ranks .. " " .. start end
    local shell = "set -m; rm -f up*; " .. start .. " >out 2>err & p=$!\n"
      .. "trap 'kill -KILL -- -$p; exit 1' TERM\n"
      .. "until [ -e up0 ] && [ $(ls up* | wc -l) -eq " .. (ranks or 1) .. " ]; do\n"
      .. "sleep 0.1; done\n"
      .. "kill -INT $p; wait $p 2>/dev/null; status=$?; cat err; exit $status"
    return celer.exec({ "bash", "-c", shell }, { cwd = folder, env = celer.patient })
  end

  local scripts = {
    ["a driver that submits"] = "while true do\n" .. set .. "end",
    ["a driver that computes"] = "while true do end",
    ["a host task"] = "q:submit(function(cg)\n"
      .. "  cg:host_task(celer.on_master, function() while true do end end)\nend)\nq:drain()",
  }
  for name, script in pairs(scripts) do
    both("ends " .. name, function(ranks)
      local r = interrupt(ranks, script)
      -- mpirun kills its ranks a second after it has told them to end, whether they
      -- had that second or not.
      for _ = 1, 2 do
        if ranks and r.stdout == "" then r = interrupt(ranks, script) end
      end
      assert.is_false(r.timed_out)
      assert.not_equal(0, r.status)
      -- mpirun tells its ranks in a way of its own.
      assert.equal(ranks and "celer: told to end, by SIGTERM: Ctrl-C, a time limit, a "
        .. "cancelled job, or another rank that has ended\n" or "celer: interrupted\n", r.stdout)
      assert.equal("", nobody_left())
    end)
  end
end)
