-- mistakes.lua -- bad inputs and faults, from lists that you can add to.
--
-- A mistake is a script whose marked line ("--@") must be blamed. `calls` are calls
-- with something wrong in place of `$`; `acts` are what goes wrong, and `places` where
-- that happens; `scripts` are whole texts. `M.all()` makes a mistake of every
-- combination, always in the same order.
local M = {}

-- What every script begins with, on its first line.
local PRELUDE = ([[
local celer = require "celer" local ffi = require "ffi" local q = celer.queue() local n = 16
local u = celer.buffer("float", { n }, { name = "u", init = 1 })
local v = celer.buffer("float", { n }, { name = "v" })
local m = celer.buffer("double", { 4, 4 }, { name = "m", init = 2 })
local body = celer.struct("body", "float x; int id;")
local s = celer.buffer(body, { n }, { name = "s", init = { x = 1, id = 2 } })
local o = celer.host_object(function() return {} end, { name = "o" })
local k = celer.kernel "kernel void set(item<1> it, out<float, 1> v, float x) { v(it[0]) = x; }"
local c = celer.kernel [=[
  kernel void copy(item<1> it, in<float, 1> u, out<float, 1> v) { v(it[0]) = u(it[0]); }
]=]
local h = celer.host_object("struct { int64_t hits; double sum[4]; }", { name = "h" })
]]):gsub("\n", " ") .. "\n"

-- ---- calls with a wrong argument -----------------------------------------------

local texts = { "7", "{}", "print", "true" }
local extents = { "'x'", "print", "true", "{ -1 }", "{ 1.5 }", "{ 'a' }", "{ 1, 2, 3, 4 }",
  "{ 0/0 }", "{ 1/0 }", "{ 1e300 }", "{ 4, {} }", "ffi.new('int[2]')" }
local boxes = { "7", "'x'", "print", "{ 1 }", "celer.box({ 0, 0 }, { 1, 1 })",
  "celer.box({ 0 }, { n + 1 })", "celer.box({ -1 }, { 2 })" }
local buffers = { "nil", "7", "'u'", "print", "{}", "q", "k" }

-- { a call, what is wrong in place of its $ }
M.calls = {
  { "celer.buffer($, { 8 })", "nil", "'flaot'", "7", "{}", "print", "''", "'float *'" },
  { "celer.image($)", buffers, "u", "s" },
  { "celer.image(celer.buffer('int', 4), { as = $ })", "7", "'rows'", "{}" },
  { "celer.image(celer.buffer('int', 4), { of = $ })", "7", "'x'", "{}", "celer.slice", "u" },
  { "celer.image(celer.buffer('int', 4), { plus = $ })", "'x'", "0.5", "{}", "{ 1 }", "{ 1, 0 }" },
  { "celer.image(celer.buffer('int', 4), { within = $ })", "7", "{}", "{ 0 }", "{ 0, 'x' }" },
  { "celer.image(celer.buffer('int', 4), { except = $ })", "'x'", "0.5", "{}" },
  { "celer.image(celer.buffer('int', 4), { dry = $ })", "7", "'x'", "u", "celer.slice" },
  { "celer.buffer('float', $)", extents },
  { "celer.buffer('float', { 8 }, $)", "7", "'x'", "print", "{ nmae = 'u' }", "{ 'u' }" },
  { "celer.buffer('float', { 8 }, { name = $ })", texts },
  { "celer.buffer('float', { 4 }, { init = $ })", "'x'", "{ 1, 2 }", "{ 1, 2, 3, 4, 5 }",
    "{ 'a', 'b', 'c', 'd' }", "ffi.new('double[3]')", "coroutine.create(print)", "{ {}, {} }",
    "{ x = 1 }", "u" },
  { "celer.buffer(body, { 4 }, { init = $ })", "7", "'x'", "{ y = 1 }", "{ x = 'a' }" },
  { "celer.struct($, 'float x;')", "7", "nil", "''", "'a b'", "'1a'", "{}" },
  { "celer.struct('thing', $)", "7", "nil", "''", "'float'", "'float x'", "'nonsense y;'", "{}" },
  { "celer.kernel($)", "nil", "7", "{}", "print", "true", "''", "'   '", "'// nothing'",
    "'int f() { return 1; }'", "'kernel void f(item<1> it'", "'kernel void f() {}'",
    "'kernel void f(item<4> it) {}'", "'kernel int f(item<1> it) {}'", "{ file = 'nope.cu' }",
    "{ file = '/tmp' }", "{ file = 7 }", "'kernel void f(item<1> it, in<float> u) {}'",
    "'kernel void f(item<1> it, in<nonsense, 1> u) {}'" },
  { "celer.kernel('kernel void f(item<1> it) {}', $)", "7", "'x'", "print", "{ deifnes = {} }",
    "{ defines = 7 }", "{ defines = { [1] = 2 } }", "{ defines = { N = {} } }",
    "{ options = 7 }", "{ options = { 7 } }", "{ options = { nonsense = {} } }" },
  { "celer.box($, { 4, 4 })", "7", "'x'", "nil", "{ 'a', 0 }", "{ 1.5, 0 }", "{ 0 }",
    "{ 0/0, 0 }", "print" },
  { "celer.box({ 0 }, $)", "'x'", "nil", "{ 'a' }", "{ 1.5 }", "{ 0, 0 }", "{ 0/0 }", "print" },
  { "celer.neighborhood($)", "'x'", "{}", "1.5", "0/0", "print" },
  { "celer.periodic($)", "'x'", "{}", "1.5", "-1", "0/0", "print" },
  { "celer.constant($, 1)", "nil" },
  { "celer.constant(0, $)", "'x'", "{}", "1.5", "-1", "0/0", "print" },
  { "celer.slice($)", "'x'", "{}", "1.5", "-1", "3", "nil", "print" },
  { "celer.transposed($)", "'x'", "{}", "1.5", "-1", "print" },
  { "celer.fixed($)", "7", "'x'", "nil", "{ 1 }", "print" },
  { "celer.rule($, u)", "7", "'x'", "nil", "{}", "u" },
  { "celer.rule(celer.all, $)", buffers },
  { "celer.fill($, 1)", buffers },
  { "celer.fill(u, $)", "'x'", "{}", "print", "nil" },
  { "celer.fill(u, 1, $)", boxes },
  { "celer.fill(s, $)", "7", "'x'", "{ z = 1 }" },
  { "celer.copy($, v)", buffers },
  { "celer.copy(u, $)", "nil", "7", "'u'", "m", "s" },
  { "celer.copy(u, v, { part = $ })", boxes },
  { "celer.copy(u, v, { at = $ })", "7", "'x'", "{ 'a' }", "{ -1 }", "{ n }", "{ 0, 0 }" },
  { "celer.capture($)", "nil", "7", "'u'", "print", "{}" },
  { "celer.capture(u, $)", "7", "'x'", "{ 1 }", "celer.box({ 0, 0 }, { 1, 1 })",
    "celer.box({ 0 }, { n + 1 })" },
  { "celer.capture(u, nil, $)", "7", "'x'", "print", "{ dyr = 1 }" },
  { "q:wait($)", "7", "'u'", "print", "{}", "k" },
  { "q:drain($)", "7", "'u'", "print", "{}", "k" },
  { "q:fence($)", "7", "'u'", "print", "{}", "k" },
  { "q:hint($)", "7", "'x'", "nil", "print", "{ splti = '1d' }", "{ split = '4d' }",
    "{ split = 7 }", "{ weights = 7 }", "{ weights = {} }", "{ weights = { -1 } }",
    "{ oversubscribe = 0 }", "{ oversubscribe = 'x' }" },
  { "q:submit($)", "nil", "7", "'x'", "{}", "k" },
  { "celer.host_object($)", "nil", "7", "{}", "'struct {'", "'nonsense'" },
  { "celer.host_object(function() end, $)", "7", "'x'", "{ nmae = 'o' }", "{ scope = 'x' }",
    "{ destructor = 7 }" },
  { "celer.weights($)", "nil", "7", "'x'", "{ 'a' }", "{ -1 }", "{ 0/0 }" },
  { "celer.rebalance($)", "7", "'x'", "{ secnods = print }", "{ seconds = 7 }" },
  { "celer.random($)", "'x'", "{}", "0", "-1", "1.5", "0/0", "print" },
  { "celer.seed($)", "'x'", "{}", "nil", "print" },
  { "celer.progress($)", "'x'", "{}", "nil", "-1", "1.5", "print" },
  { "celer.nd_range($, { 4 })", "'x'", "{ 7 }", "{ -4 }", "{ 8, 8 }", "nil", "print" },
  { "celer.nd_range({ 8 }, $)", "'x'", "{ 3 }", "{ 0 }", "{ 4, 4 }", "nil", "print" },
  { "celer.collective($)", "7", "{}", "print", "true" },
  { "celer.sorted_pairs($)", "nil", "7", "'x'", "print" },
  { "celer.io.load($)", "nil", "7", "{}", "'nope.npy'", "'nope.h5'", "'x.unknown'", "''",
    "'/tmp'" },
  { "celer.io.save($, u)", "nil", "7", "{}", "'x.unknown'", "'/proc/x.npy'", "''" },
  { "celer.io.save('x.npy', $)", buffers },
  { "celer.png($, q:wait(m))", "nil", "7", "{}", "''", "'/proc/x.png'" },
  { "celer.png('x.png', $)", "nil", "7", "'x'", "q", "q:wait(u)" },
  { "celer.checkpoint($)", "nil", "7", "{}", "print" },
  { "u:fill($)", "'x'", "{}", "print", "nil" },
  { "local _ = q:drain(u)($)", "n", "-1", "0.5", "'x'", "nil", "{}", "0, 0", "0/0" },
  { "local _ = q:drain(m)($)", "0, 4", "-1, 0", "0", "'x', 0", "0, {}", "0, 0, 0" },
  { "local _ = q:wait(u).$", "nmae", "szie" },
  { "local _ = u.$", "nmae", "szie" },
  { "local _ = celer.$", "bufer", "kernle", "foo" },
  { "local _ = q:$()", "sumbit", "wiat", "foo" },
  { "local _ = k.$", "foo", "st" },
  { "require($)", "'no_such_module'", "7", "nil", "{}" },
  { "dofile($)", "'nope.lua'", "{}" },
  -- In a command group.
  { group = true, "cg:read($)", buffers },
  { group = true, "cg:read(u, $)", "7", "'x'", "{}", "u", "print", "celer.all()",
    "function() end", "function() return 7 end", "function(c) return c.mim end",
    "function(c) return celer.box({ 0, 0 }, { 1, 1 }) end",
    "function(c) return celer.box({ c.min[0] }, { c.max[0] + 1 }) end",
    "function(c) error('no') end", "function(c) return celer.box({ c.size[0] }, { n }) end" },
  { group = true, "cg:parallel_for(n, k, cg:discard_write(u, $), 1)", "celer.all", "7",
    "celer.neighborhood(1)", "function(c) return celer.box({ 0 }, { 1 }) end" },
  { group = true, "cg:reduce(u, $)", "7", "nil", "'smu'", "{}", "{ combine = 7 }",
    "{ combine = 'a + b' }", "'prod', { reproducible = true }", "'sum', { reproducible = 7 }",
    "'sum', { reproducable = true }",
    "{ combine = 'a + b', identity = 0 }, { reproducible = true }" },
  { group = true, "cg:route(u, $)", "7", "nil", "'smu'", "{}", "'sum', 7", "'sum', { mots = 2 }",
    "'sum', { most = 0 }", "'sum', { most = 'x' }", "'or'", "'append'", "'append', { offsets = u }",
    "'sum', { include_current = 1 }" },
  { group = true, "cg:route($, 'sum')", buffers },
  { "celer.list($)", "7", "'itn', { bins = 3 }", "'int'", "'int', 7", "'int', { bins = 0 }",
    "'int', { bins = {} }", "'int', { bins = 3, capacity = 0 }", "'int', { bin = 3 }" },
  { group = true, "cg:name($)", "7", "nil", "{}", "print" },
  { group = true, "cg:hint($)", "7", "'x'", "nil", "print", "{ splti = '1d' }",
    "{ split = '4d' }", "{ granularity = 0 }", "{ granularity = 'x' }", "{ weights = 7 }" },
  { group = true, "cg:side_effect($)", buffers },
  { group = true, "cg:side_effect(o, $)", "7", "'x'", "{}" },
  { group = true, "cg:parallel_for($, k, cg:discard_write(v), 1)", extents },
  { group = true, "cg:parallel_for(n, $, cg:discard_write(v), 1)", "nil", "7", "'x'", "print",
    "q" },
  { group = true, "cg:parallel_for(n, k, $)", "cg:discard_write(v)", "1", "1, cg:discard_write(v)",
    "cg:discard_write(v), 'x'", "cg:discard_write(v), {}", "cg:discard_write(v), nil",
    "cg:discard_write(v), 1, 2", "cg:read(v), 1", "cg:discard_write(m), 1", "v, 1", "" },
  { group = true, "cg:host_task($, function() end)", "nil", "7.5", "'x'", "print", "true",
    "celer.collective" },
  { group = true, "cg:host_task(celer.on_master, $)", "nil", "7", "'x'", "{}", "q" },
  { group = true, "cg:host_task(celer.on_master, function() end, $)", "io.tmpfile()", "q",
    "coroutine.create(print)", "u", "setmetatable({}, {})" },
  { group = true, "cg:interop_task($, function() end)", "celer.on_master", "'x'", "print" },
  { group = true, "cg:$(u)", "raed", "wirte", "foo" },
  -- In a host task.
  { task = true, "local _ = w($)", "n", "-1", "0.5", "'x'", "{}", "0, 0", "nil" },
  { task = true, "local _ = w[$]", "n", "-1", "0.5" },
  { task = true, "w:set(0, $)", "'x'", "{}", "nil", "print" },
  { task = true, "w:set($, 1)", "n", "-1", "'x'", "{}" },
  { task = true, "w[0] = $", "'x'", "{}", "nil", "print" },
  { task = true, "local _ = part.$", "mni.x", "foo.x" },
}

-- ---- what goes wrong, and where ------------------------------------------------

-- { what, its Lua, words that must be said }; `anywhere`: it tells no line of its own, and
-- another of the script is named; `native`: the process cannot go on.
M.acts = {
  { "error with a text", "error('boom')", "boom" },
  { "error with a number", "error(42)", "42" },
  { "error with a table", "error({ 1 })", anywhere = true },
  { "error with nil", "error()", anywhere = true },
  { "error without a place", "error('boom', 0)", "boom", anywhere = true },
  { "a failed assertion", "assert(false, 'boom')", "boom" },
  { "an index of nil", "local t = nil; t = t.x", "attempt to index" },
  { "a call of nil", "local t = nil; t()", "attempt to call" },
  { "a sum with nil", "local t = nil; t = t + 1", "attempt to perform arithmetic" },
  { "a comparison", "local t = {} < 1", "attempt to compare" },
  { "an endless recursion", "local function f(x) return 1 + f(x) end f(1)", "stack overflow",
    anywhere = true },
  { "a module that is not there", "require 'no_such_module'", "no_such_module" },
  { "an unknown C type", "ffi.new('nonsense')", "nonsense" },
  { "an unknown C function", "ffi.C.no_such_function()", "no_such_function" },
  { "a file that is not there", "assert(io.open('nope.txt'))", "nope.txt" },
  { "a wrong argument", "string.rep('x', {})", "bad argument" },
  { "a write to address 8", "ffi.cast('int *', 8)[0] = 1", "invalid memory access",
    native = true },
  { "abort", "ffi.C.abort()", "abort", native = true },
  { "exit(0)", "ffi.C.exit(0)", "exit", native = true },
}

-- Where: texts in which ACT stands, on the marked line.
M.places = {
  { "the script", "ACT --@" },
  { "a function of the script", "local function f()\n ACT --@\nend\nf() f()" },
  { "a pcall that passes it on", "local ok, e = pcall(function()\n ACT --@\nend)\nerror(e, 0)",
    native = false },
  { "a coroutine", "coroutine.wrap(function()\n ACT --@\nend)()" },
  { "a command group", "q:submit(function(cg)\n ACT --@\nend)" },
  { "a range mapper", "q:submit(function(cg)\n cg:parallel_for(n, c, cg:read(u, function(c)\n  "
    .. "ACT --@\n return c end), cg:discard_write(v))\nend)" },
  { "an init function", "local b = celer.buffer('float', { n }, { init = function(i)\n ACT --@\n"
    .. "return i end })\nq:drain(b)" },
  { "a host task", "q:submit(function(cg) cg:host_task(celer.on_master, function()\n ACT --@\n"
    .. "end) end)\nq:drain()" },
  { "a divided host task", "q:submit(function(cg) cg:host_task(n, function(part, u)\n ACT --@\n"
    .. "end, cg:read(u)) end)\nq:drain()" },
  { "a collective host task", "q:submit(function(cg) cg:host_task(celer.collective(), function()\n"
    .. " ACT --@\nend) end)\nq:drain()" },
  { "a host object's make", "local x = celer.host_object(function()\n ACT --@\nend)\n"
    .. "q:submit(function(cg) cg:host_task(celer.on_master, function() end, cg:side_effect(x)) "
    .. "end)\nq:drain()" },
  { "a destructor", "local function gone()\n ACT --@\nend\nlocal x = celer.host_object(function()"
    .. "return {} end, { destructor = gone })\nq:submit(function(cg) "
    .. "cg:host_task(celer.on_master, function() end, "
    .. "cg:side_effect(x)) end)\nx:free() q:drain()" },
  { "a capture's function", "q:submit(function(cg) cg:host_task(celer.on_master, function() end, "
    .. "cg:side_effect(o)) end)\nq:drain(celer.capture(o, function()\n ACT --@\nend))" },
  { "one rank's script", "if RANK == RANKS - 1 then\n ACT --@\nend\nq:drain(u)" },
  { "one rank's host task", "q:submit(function(cg) cg:host_task(n, function(part, u)\n"
    .. "if part.rank == part.ranks - 1 then\n ACT --@\nend end, cg:read(u)) end)\nq:drain(u)" },
}

-- ---- kernels -------------------------------------------------------------------

-- Code of a kernel over v, which it writes, and what must be said; the task's line is
-- marked.
M.kernels = {
  { "*(volatile int *)8 = 1;", "invalid memory access" },
  { "volatile int z = 0; v(it[0]) = 7 / z;", "arithmetic" },
  { "abort();", "abort" },
  { "exit(0);", "exit" },
  { "exit(3);", "exit" },
  { "_exit(0);", "exit" },
  { "throw 7;", "exception" },
  { "free((void *)&v);", "" },
  { "__builtin_trap();", "" },
  { "volatile char big[1 << 26]; big[it[0]] = 1; v(it[0]) = big[0];", "overflowed its stack" },
  { "struct deep { static int down(volatile int *at) { volatile int here[4] = { *at };"
    .. " return *at < 0 ? 0 : down(here) + here[0]; } };"
    .. " volatile int one = 1; v(it[0]) = deep::down(&one);", "overflowed its stack" },
}

-- ---- whole texts ---------------------------------------------------------------

-- Each with its marked line; some words.
M.scripts = {
  { "local x = = 3 --@", "near '='" },
  { "for i = 1, 3 do --@\n", "'end' expected", anywhere = true },
  { "local x = 'open --@", "unfinished string" },
  { "q:submit(function(cg)\nend) --@", "no work", anywhere = true },
  { "q:submit(function(cg) cg:parallel_for(n, k, cg:discard_write(v), 1) --@\n"
    .. "cg:parallel_for(n, k, cg:discard_write(v), 1) end) --@" },
  { "local kept q:submit(function(cg) kept = cg\n"
    .. "cg:parallel_for(n, k, cg:discard_write(v), 1) end)\nkept:name 'late' --@" },
  { "u:free()\nq:drain(u) --@", "freed" },
  { "u:free()\nu:free() --@" },
  { "o:free()\no:free() --@" },
  { "u:free()\nq:submit(function(cg)\n"
    .. "cg:parallel_for(n, c, cg:read(u), cg:discard_write(v)) end) --@", "freed" },
  { "os.exit(3) --@", silent = true },
  { "os.exit(false) --@", silent = true },
  { "if RANK == 0 then q:wait(u) else q:wait(v) end --@", several = true },
  { "q:submit(function(cg) cg:parallel_for(n, k, cg:discard_write(v), RANK) end) --@\nq:drain()",
    several = true },
  { "local w = celer.buffer('float', { 8 + RANK }) --@\nq:drain(w) --@", several = true },
  { "local w = celer.buffer(RANK == 0 and 'float' or 'int', { 8 }, { init = 0 }) --@\n"
    .. "q:drain(w) --@", several = true },
  { "if RANK == 0 then --@\nq:submit(function(cg) cg:host_task(celer.once, function() end) end)\n"
    .. "end q:drain()", several = true, anywhere = true },
}

-- ---- all of them ---------------------------------------------------------------

local RANKS = 'local p = os.getenv local RANK, RANKS = tonumber(p "OMPI_COMM_WORLD_RANK" or 0), '
  .. 'tonumber(p "OMPI_COMM_WORLD_SIZE" or 1) '

-- `$` is replaced, and a call stands where it may.
local function text_of(call, wrong)
  local body = call[1]:gsub("%$", function() return wrong end)
  if call.group then
    -- What an access lacks may show where it is used.
    local work = body:find "cg:%l+_" and "" or "cg:parallel_for(n, k, cg:discard_write(v), 1) --@\n"
    return "q:submit(function(cg)\n " .. body .. " --@\n " .. work .. "end)\nq:drain()"
  elseif call.task then
    return "q:submit(function(cg) cg:host_task(celer.on_master, function(part, w)\n " .. body
      .. " --@\nend, cg:read_write(u, celer.all)) end)\nq:drain()"
  end
  return body .. " --@\nq:drain()"
end

---@class spec.mistake
---@field name string
---@field text string
---@field lines table<integer, true>  any of which is to be named
---@field words? string  a pattern of what must be said
---@field several? boolean  it needs several ranks
---@field silent? boolean  there is nothing to say

local function mistake(name, body, words, options)
  local text = RANKS .. PRELUDE .. body .. "\n"
  local lines, line = {}, 0
  for one in text:gmatch("([^\n]*)\n") do
    line = line + 1
    if one:find("--@", 1, true) then lines[line] = true end
  end
  options = options or {}
  return { name = name, text = text, lines = lines, words = words, anywhere = options.anywhere,
    several = options.several, silent = options.silent }
end

--- Every mistake, in an order that stays.
---@return spec.mistake[]
function M.all()
  local list = {}
  local function add(...) list[#list + 1] = mistake(...) end
  for _, call in ipairs(M.calls) do
    for i = 2, #call do
      local values = type(call[i]) == "table" and call[i] or { call[i] }
      for _, wrong in ipairs(values) do
        local name = call[1]:gsub("%$", function() return wrong end)
        add(name, text_of(call, wrong))
      end
    end
  end
  for _, place in ipairs(M.places) do
    for _, act in ipairs(M.acts) do
      if not (act.native and place.native == false) then
        local body = place[2]:gsub("ACT", function() return act[2] end)
        body = 'ffi.cdef "void abort(void); void exit(int);" ' .. body
        add(act[1] .. " in " .. place[1], body, act[3], act)
      end
    end
  end
  for _, kernel in ipairs(M.kernels) do
    add("kernel: " .. kernel[1], ("local f = celer.kernel [==[\n#include <stdlib.h>\n"
      .. "#include <unistd.h>\nkernel void f(item<1> it, inout<float, 1> v) { %s } ]==]\n"
      .. "q:submit(function(cg) cg:parallel_for(n, f, cg:read_write(u)) end) --@\nq:drain()")
      :format(kernel[1]), kernel[2])
  end
  for _, script in ipairs(M.scripts) do
    add(script[1]:gsub("%s*%-%-@", ""):gsub("\n", "; "), script[1], script[2], script)
  end
  return list
end

return M
