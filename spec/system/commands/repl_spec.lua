-- The interactive session, on a terminal and through a pipe.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local terminal = require("spec.support.terminal")

local state

before_each(function()
  state = scratch.path()
end)
after_each(function() os.execute("rm -rf '" .. state .. "'") end)

local UP = "\27[A"

-- A session at its first prompt.
local function open(options)
  options = options or {}
  options.env = options.env or {}
  options.env.XDG_STATE_HOME = state
  local t = terminal.open(options.args or {}, options)
  t:wait "1> "
  return t
end

describe("a session", function()
  it("begins with what it runs on, and with how to get help and to leave", function()
    local t = open()
    assert.matches("celer %S+  1 rank, %d+ devices? %(%a+, .*\nhelp%(%) .*Ctrl%-D leaves", t.all)
    assert.is_nil(t.all:find("? cores", 1, true), t.all)
    assert.equal(0, t:close())
  end)
end)

describe("lines", function()
  it("are values to see or statements, and may be several", function()
    local t = open()
    assert.equal("3\ttwo\tnil", t:enter("1 + 2, 'two', nil", 2))
    assert.equal("", t:enter("x = 7", 3))
    assert.equal("", t:enter("function f()", 4, true))
    assert.equal("", t:enter("  return x", 5, true))
    assert.equal("", t:enter("end", 6))
    assert.equal("7", t:enter("f()", 7))
    assert.equal("7\t8", t:enter("return f(), 8", 8))
    assert.equal("49", t:enter("= x * -- so much", 9, true) .. t:enter("  x", 10))
    assert.equal("5", t:enter("tonumber(arg[1]) or 5 -- as in scripts", 11))
    assert.equal(0, t:close())
  end)

  it("go on in the next where an expression is not complete", function()
    local t = open()
    assert.equal("", t:enter("1 + 2 *", 2, true))
    assert.equal("7", t:enter("3", 3))
    assert.equal("", t:enter("'a' ..", 4, true))
    assert.equal("ab", t:enter("'b'", 5))
    assert.equal("", t:enter("#{1, -- so much", 6, true))
    assert.equal("2", t:enter("2}", 7))
    assert.equal("", t:enter("not", 8, true))
    assert.equal("false", t:enter("7", 9))
    assert.equal(0, t:close())
  end)

  it("that are wrong are given up, and the message has what is wrong in them", function()
    local t = open()
    for i, case in ipairs {
      { "1 + 2 * )", "unexpected symbol near ')'" },
      { "1 2", "'<eof>' expected near '2'" },
      { "x + 1 y", "'<eof>' expected near 'y'" },
      { "return 1 2", "'<eof>' expected near '2'" },
      { "x = = 1", "unexpected symbol near '='" },
      { "x y", "'=' expected near 'y'" },
      { "if x the", "'then' expected near 'the'" },
      { "f() end", "'<eof>' expected near 'end'" },
    } do
      assert.equal(("celer: session:%d: %s"):format(i, case[2]), t:enter(case[1], i + 1))
    end
    assert.equal(0, t:close())
  end)

  it("of a script keep their variables", function()
    local t = open()
    t:enter("local a, b = 1, 2", 2)
    t:enter("local function both() return a, b end", 3)
    t:enter("local c", 4)
    assert.equal("1\t2\tnil", t:enter("a, b, c", 5))
    assert.equal("1\t2", t:enter("both()", 6))
    assert.equal(0, t:close())
  end)

  it("that fail are named by their number, and the session goes on", function()
    local t = open()
    assert.equal("celer: session:1: unexpected symbol near ')'", t:enter("x = )", 2))
    assert.equal("celer: session:2: no", t:enter("error 'no'", 3))
    t:enter("function fail()", 4, true)
    t:enter("  local none = nil", 5, true)
    t:enter("  return none.x", 6, true)
    t:enter("end", 7)
    assert.equal("celer: session:5: attempt to index local 'none' (a nil value)",
      t:enter("fail()", 8))
    assert.equal("celer: session:8: celer.buffer: unknown option 'nmae', did you mean name?",
      t:enter("celer.buffer('float', {8}, {nmae = 'v'})", 9))
    assert.equal("celer: session:9: there is no celer.bufer, did you mean buffer?",
      t:enter("celer.bufer", 10))
    assert.equal("celer: session:10: there is no celer.group: it is q:group",
      t:enter("celer.group()", 11))
    assert.equal("celer: session:11: a queue has no 'wiat', did you mean wait?",
      t:enter("celer.queue():wiat()", 12))
    assert.equal("4", t:enter("2 * 2 -- comment", 13))
    assert.equal(0, t:close())
  end)

  it("may hold characters of several bytes", function()
    local t = open()
    assert.equal("äé✓\t7", t:enter("'äé✓', #'äé✓'", 2))
    assert.equal(0, t:close())
  end)
end)

describe("what was typed", function()
  it("comes back whole, also in the next session", function()
    local t = open()
    t:enter("function f()", 2, true)
    t:enter("  return 42 end", 3)
    t:enter("f()", 4)
    t:type(UP .. UP .. "\r")
    t:wait "\n6> "
    assert.equal(0, t:close())

    t = open()
    t:type(UP .. "\r")
    t:wait "\n3> "
    assert.equal("42", t:enter("f()", 4))
    assert.equal(0, t:close())
  end)

  it("is the user's alone to read", function()
    local t = open()
    t:enter("secret = 1", 2)
    assert.equal(0, t:close())
    local r = celer.exec({ "stat", "-c", "%a", state .. "/celer/history" })
    assert.equal("600\n", r.stdout)
  end)

  it("is said not to be kept where that cannot be", function()
    assert(io.open(state, "w")):close() -- no folder
    local t = open()
    assert.truthy(t.all:find("warning: what you type is not kept in " .. state
      .. "/celer/history: Not a directory", 1, true), t.all)
    t:enter("x = 5", 2)
    t:type(UP .. "\r")
    t:wait "\n3> "
    assert.equal(0, t:close())
  end)
end)

describe("Tab", function()
  local t, number

  -- What Tab adds to `text`, or shows below; the line is given up then.
  local function tab(text, shown)
    t:type(text)
    t:wait(text)
    t:type "\t"
    t:wait(shown)
    t:type "\3"
    t:wait(("^C\r\n%d> "):format(number))
  end

  local function start(...)
    t, number = open(), 1
    for _, line in ipairs { ... } do
      number = number + 1
      t:enter(line, number)
    end
  end

  local function choices(...) return table.concat({ ... }, "  ") .. "\r\n" end

  it("completes names, fields and methods", function()
    start("q = celer.queue()", "u = celer.buffer('float', {3}, {name = 'u', init = {1, 2, 3}})",
      "s = q:wait(u)", "mine = {deeper = {alpha = 1, beta = 2}}")
    tab("celer.nei", "ghborhood")
    tab("x = cele", "r")
    tab("q:su", "bmit(")
    tab("u.si", "ze")
    tab("u:fr", "ee(")
    tab("print(s:po", "inter(")
    tab("celer.io.lo", "ad")
    tab("mine.de", "eper")
    tab("mine.deeper.", choices("alpha", "beta"))
    tab("string.for", "mat")
    tab("whi", "le")
    tab("q:", choices("drain       ", "group       ", "host_task   ", "submit      ", "when")
      .. choices("fence       ", "hint        ", "parallel_for", "wait"))
    tab("u.", choices("dims   ", "extents", "name   ", "shape  ", "size   ", "type"))
    tab("s.", "\n" .. choices("dims ", "max  ", "min  ", "name ", "shape", "size ", "type"))
    assert.equal(0, t:close())
  end)

  it("knows the command group of a function that is being typed", function()
    start("q = celer.queue()")
    t:enter("q:submit(function(g)", 3, true)
    t:type "g:paral\t"
    t:wait "lel_for("
    t:type "\3"
    t:wait "2> "
    assert.equal(0, t:close())
  end)

  it("inserts what all choices begin with, and indents", function()
    start("alpha_one, alpha_two = 1, 2")
    t:type "alp\tone\r"
    t:wait "\n1\r\n3> "
    t:type "\t7\r" -- in the sixth column, after the prompt and two blanks
    assert.truthy(t:wait("7\r\n4> "):find("\27[6G7", 1, true))
    assert.equal(0, t:close())
  end)

  it("runs nothing of the user's, and survives what fails", function()
    start("odd = setmetatable({}, {__index = function() error 'called' end})")
    t:type "odd.x.y\t:a\t.b(\tz = 5\3"
    t:wait "^C\r\n2> "
    assert.is_nil(t.all:find "called%-")
    assert.equal("1", t:enter("1", 3))
    assert.equal(0, t:close())
  end)
end)

describe("Ctrl-C", function()
  it("gives up a line, or several", function()
    local t = open()
    t:type "x = = ="
    t:wait "x = = ="
    t:type "\3"
    t:wait "^C\r\n1> "
    t:enter("function f()", 2, true)
    t:type "\3"
    t:wait "^C\r\n1> "
    assert.equal("nil", t:enter("f", 2))
    assert.equal(0, t:close())
  end)

  it("by a signal, too", function()
    local t = open()
    t:type "abc"
    t:wait "abc"
    t:signal(terminal.SIGINT)
    t:wait "^C\r\n1> "
    assert.equal(0, t:close())
  end)

  -- The line says when it runs.
  local function interrupt(t, line, number)
    t:type(line .. "\r")
    t:wait "\nhere"
    t:type "\3"
    return (t:wait(("%d> "):format(number)))
  end

  it("ends a line that runs, whatever it catches", function()
    local t = open()
    assert.truthy(interrupt(t, "print 'here' while true do end", 2)
      :find("celer: session:1: interrupted", 1, true))
    assert.truthy(interrupt(t, "print 'here' while true do pcall(function() while true do "
      .. "end end) end", 3):find("celer: session:2: interrupted", 1, true))
    assert.truthy(interrupt(t, "print 'here' coroutine.wrap(function() while true do end "
      .. "end)()", 4):find("interrupted", 1, true))
    t:type "1"
    assert.is_nil(t:wait("1"):find("4>", 1, true)) -- one prompt is enough
    assert.equal("3", t:enter(" + 2", 5))
    assert.equal(0, t:close())
  end)

  it("ends a wait for tasks, which go on", function()
    local t = open()
    t:enter("q = celer.queue()", 2)
    t:enter("b = celer.buffer('int', {1}, {name = 'b', init = {0}})", 3)
    t:enter("function wait_for(path) repeat local f = io.open(path) until f end", 4)
    t:enter("function slow(path) q:submit(function(cg)", 5, true)
    t:enter("  cg:host_task(celer.on_master, function(_, b)", 6, true)
    t:enter("    print 'here' wait_for(path) b[0] = 9", 7, true)
    t:enter("  end, cg:read_write(b, celer.all))", 8, true)
    t:enter("end) end", 9)
    t:type(("slow '%s.go' print(q:wait(b)[0])\r"):format(state))
    t:wait "\nhere"
    t:type "\3"
    local shown = t:wait "10> "
    assert.truthy(shown:find("celer: session:9: interrupted", 1, true), shown)
    t:enter(("io.open('%s.go', 'w'):close()"):format(state), 11)
    assert.equal("9", t:enter("q:wait(b)[0]", 12))
    assert.equal(0, t:close())
    os.remove(state .. ".go")
  end)

  it("leaves variables as they were, whenever it comes to a submission", function()
    local t = open()
    t:enter("q, b = celer.queue(), celer.buffer('int', { 8 }, { name = 'b' })", 2)
    t:enter("k = celer.kernel [[ kernel void f(item<1> it, out<int, 1> b, int n) { "
      .. "b(it[0]) = n; } ]]", 3)
    t:enter("text = 'local n, m = ... return function(cg) cg:parallel_for({ 8 }, k, "
      .. "cg:discard_write(b, function(c) return c:grow(m - m) end), n) end, function() return "
      .. "type(n) .. type(m) end'", 4)
    -- Other code each time, which is looked into at its fourth submission.
    t:enter("function turn(i) local code = loadstring(text .. '--' .. i) for n = 1, 4 do "
      .. "f, kinds = code(n, 1) q:submit(f) end end", 5)
    t:enter("turn(0)", 6)
    for press = 1, 12 do
      interrupt(t, "print 'here' for i = 1, 1e9 do turn(i) end", 2 * press + 5)
      assert.equal("numbernumber", t:enter("kinds()", 2 * press + 6))
    end
    assert.equal(0, t:close())
  end)

  it("ends a line that waits for a compiler, and the compiler", function()
    local compiler = scratch.path(".sh")
    scratch.write(compiler, [[#!/bin/sh
case "$*" in *--version*) echo slow 1.0; exit 0;; esac
sh -c 'echo $$ > ]] .. compiler .. [[.pid; echo it compiles > /dev/tty; exec sleep 1000'
]])
    os.execute("chmod +x " .. compiler)
    local t = open { env = { CXX = compiler, CELER_CACHE = scratch.path(), CELER_BACKEND = "cpu" } }
    t:type "k = celer.kernel [[ kernel void f(item<1> it) {} ]]\r"
    t:wait "it compiles\r\n"
    t:type "\3"
    t:wait "2> "
    assert.equal("3", t:enter("1 + 2", 3))
    local pid = scratch.read(compiler .. ".pid"):match "%d+"
    assert.is_nil((scratch.look("/proc/" .. pid .. "/cmdline") or ""):match "sleep")
    assert.equal(0, t:close())
  end)

  it("a second time ends the session where the first does not", function()
    local t = open()
    t:enter("ffi = require 'ffi' ffi.cdef 'int pthread_mutex_lock(void *);'", 2)
    t:enter("lock = ffi.new 'char[64]' ffi.C.pthread_mutex_lock(lock)", 3)
    t:type "print 'here' io.flush() ffi.C.pthread_mutex_lock(lock)\r"
    t:wait "\nhere"
    -- Two that come at once may be one; one before the lock ends the line alone.
    repeat t:type "\3ffi.C.pthread_mutex_lock(lock)\r" until not t:take()
    local status = t:status() -- a third may have come while it ended
    assert.is_true(status == 130 or status == -terminal.SIGINT, status)
  end)
end)

describe("a mistake", function()
  -- A queue, a buffer u of 1, 2, 3 and a task that writes x, then fails.
  local function start()
    local t = open()
    t:enter("q = celer.queue()", 2)
    t:enter("u = celer.buffer('int', {3}, {name = 'u', init = {1, 2, 3}})", 3)
    t:enter("function bad(x) q:submit(function(cg)", 4, true)
    t:enter("  cg:host_task(celer.on_master, function(_, u)", 5, true)
    t:enter("    u[0] = x", 6, true)
    t:enter("    u[7] = x", 7, true)
    t:enter("  end, cg:read_write(u, celer.all))", 8, true)
    t:enter("end) end", 9)
    return t
  end
  local said = "celer: session:6: u: element (7) is outside [0, 3), which is what this "
    .. "task declared"

  it("in a host task is said at the wait, and what is written stays", function()
    local t = start()
    assert.equal(said .. " (the task was submitted at session:4)",
      t:enter("bad(5) q:wait()", 10))
    assert.equal("buffer u: int[3], 12 bytes\n   5   2   3", t:enter("u", 11))
    assert.equal(0, t:close())
  end)

  it("in many of them is said once", function()
    local t = start()
    assert.equal(said .. "; and 99 more have failed since (the task was submitted at "
      .. "session:4)", t:enter("for i = 1, 100 do bad(i) end q:wait()", 10))
    assert.equal("100", t:enter("q:wait(u)[0]", 11))
    assert.equal(0, t:close())
  end)

  it("in a host task is said with a later line where nothing waits", function()
    local t, number = start(), 10
    t:enter("bad(5)", number)
    while not t.all:find(said, 1, true) do
      number = number + 1
      assert.is_true(number < 10000)
      t:enter("", number)
    end
    assert.matches("   5   2   3$", t:enter("u", number + 1))
    assert.equal(0, t:close())
  end)

  it("in what takes a host object apart leaves the object", function()
    local t = open()
    t:enter("q = celer.queue()", 2)
    t:enter("log = celer.host_object(function() return {n = 7} end, {name = 'log'})", 3)
    t:enter("q:submit(function(cg) local log = cg:side_effect(log)", 4, true)
    t:enter("  cg:host_task(celer.on_master, function() end, log) end)", 5)
    assert.equal("celer: session:5: the capture of host object log: session:5: attempt to "
      .. "index field 'm' (a nil value)",
      t:enter("q:wait(celer.capture(log, function(log) return log.m.n end))", 6))
    assert.equal("7", t:enter("q:wait(celer.capture(log, function(log) return log.n end)):here()",
      7))
    assert.equal(0, t:close())
  end)

  it("in a kernel is said by its line, and the next is compiled", function()
    local t = open()
    t:enter("k = celer.kernel [[", 2, true)
    t:enter("  kernel void f(item<1> it, out<int, 1> u) {", 3, true)
    t:enter("    u(it[0]) = oops;", 4, true)
    t:enter("  }", 5, true)
    assert.matches("^celer: session:3: the kernel does not compile\n.*session:3:.*oops",
      t:enter("]]", 6))
    t:enter("k = celer.kernel [[ kernel void f(item<1> it, out<int, 1> u) { u(it[0]) = 4; } ]]", 7)
    t:enter("u = celer.buffer('int', {2}, {name = 'u'})", 8)
    assert.matches("^celer: session:8: argument 1 of kernel f",
      t:enter("celer.queue():submit(function(cg) cg:parallel_for({2}, k, 3) end)", 9))
    t:enter("celer.queue():submit(function(cg) cg:parallel_for({2}, k, cg:discard_write(u)) end)",
      10)
    assert.equal("buffer u: int[2], 8 bytes\n   4   4", t:enter("u", 11))
    assert.equal(0, t:close())
  end)
end)

describe("what ends a script", function()
  it("takes buffers and host objects from a session, which goes on", function()
    local t = open { env = { CELER_CHECK_BOUNDS = "1", CELER_BACKEND = "cpu" } }
    t:enter("q = celer.queue()", 2)
    t:enter("function make() return celer.buffer('int', {8}, {name = 'u', init = function(i) "
      .. "return i end}) end", 3)
    t:enter("u, log = make(), celer.host_object(function() return {} end, {name = 'log'})", 4)
    t:enter("off = celer.kernel 'kernel void off(item<1> it, inout<int, 1> u) "
      .. "{ u(it[0] + 5 * (it[0] == 7)) = 4; }'", 5)
    t:enter("add = celer.kernel 'kernel void add(item<1> it, inout<int, 1> u) "
      .. "{ u(it[0]) += 4; }'", 6)
    t:enter("function go(k) q:submit(function(cg) cg:parallel_for({8}, k, cg:read_write(u)) "
      .. "end) end", 7)
    t:enter("f = q:fence(u)", 8)
    local gone = "\nceler: after that buffers and host objects are gone; variables, functions "
      .. "and kernels are still there"
    for number = 9, 15, 6 do -- also a second time
      assert.matches("^celer: session:6: kernel off: item %(7%) touches element %(12%) of "
        .. "argument 1, inout<int, 1>, whose mapper promises %[%d, 8%) to this chunk; the buffer "
        .. "is u" .. gone .. "$", t:enter("go(off) q:wait()", number))
      assert.equal(("celer: session:%d: the buffer went with the work that failed; make it "
        .. "anew"):format(number), t:enter("q:wait(u)", number + 1))
      assert.matches("what the future is of went with", t:enter("f:get()", number + 2))
      assert.matches("the host object log was freed", t:enter("log:free()", number + 3))
      t:enter("u = make() go(add) go(add)", number + 4)
      assert.equal("buffer u: int[8], 32 bytes\n   8   9  10  11  12  13  14  15",
        t:enter("u", number + 5))
    end
    assert.equal(0, t:close())
  end)
end)

-- What both commands print and end with, without a launcher and under one.
local function everywhere(name, args, stdin, out, err, status)
  for _, ranks in ipairs { 0, 3 } do
    it(("%s, %s"):format(name, ranks == 0 and "alone" or "on three ranks"), function()
      local r = celer.run(args, { stdin = stdin, ranks = ranks > 0 and ranks or nil })
      assert.same({ out, err, status }, { r.stdout, r.stderr, r.status })
    end)
  end
end

describe("celer -e", function()
  everywhere("runs a text, with arguments and celer",
    { "-e", "print(celer.box({1}, {3}), arg[1], ...)", "-x", "y" }, "",
    "[1, 3)\t-x\t-x\ty\n", "", 0)
  everywhere("takes options of run before", { "run", "--log", "error", "-e", "--\nprint(1)" },
    "", "1\n", "", 0)
  everywhere("names the line that fails", { "-e", "local x\nx()" }, "", "",
    "celer: (command line):2: attempt to call local 'x' (a nil value)\n", 1)
  everywhere("gives the script's own status", { "-e", "os.exit(3)" }, "", "", "", 3)
  everywhere("wants a text", { "-e" }, "", "",
    "celer: option '-e' requires an argument; see celer run --help\n", 2)
  everywhere("fails with what it has submitted", { "-e", [[celer.queue():submit(function(cg)
  cg:host_task(celer.on_master, function() error "no" end) end)]] }, "", "",
    "celer: (command line):2: no (the task was submitted at (command line):2)\n", 1)
end)

describe("a script from stdin", function()
  everywhere("is run by -", { "run", "-", "7" }, "#!/usr/bin/celer\nlocal a = ...\nprint(a)",
    "7\n", "", 0)
  everywhere("has lines", { "run", "-" }, "local a\na()", "",
    "celer: stdin:2: attempt to call local 'a' (a nil value)\n", 1)

  it("needs no word where nobody types", function()
    local r = celer.run({}, { stdin = "local a = 3\nprint(a)" })
    assert.same({ "3\n", "", 0 }, { r.stdout, r.stderr, r.status })
    r = celer.run({}, { stdin = "local a = 3\nprint(a" })
    assert.same({ "", 1 }, { r.stdout, r.status })
    assert.matches("^celer: stdin:2: ", r.stderr)
  end)
end)

describe("celer run -i", function()
  -- A file beside nothing else.
  local function script(text)
    local path = scratch.folder() .. "/case.lua"
    scratch.write(path, text)
    return path
  end

  it("begins a session with what the script has left, and its arguments", function()
    local path = script [==[
local celer = require "celer"
local q = celer.queue()
u = celer.buffer("int", { 3 }, { name = "u", init = 1 })
local one = celer.kernel [[ kernel void one(item<1> it, inout<int, 1> u) { u(it[0]) += 1; } ]]
q:submit(function(cg) cg:parallel_for({ 3 }, one, cg:read_write(u)) end)
print("ran", ...)]==]
    local r = celer.run({ "run", "-i", path, "7" }, { stdin = "u\narg[1]\none\n" })
    assert.same({ "ran\t7\nbuffer u: int[3], 12 bytes\n   2   2   2\n7\nnil\n", "", 0 },
      { r.stdout, r.stderr, r.status })
    r = celer.run({ "run", "-i", "-e", "x = 5" }, { stdin = "x\n" })
    assert.same({ "5\n", "", 0 }, { r.stdout, r.stderr, r.status })
  end)

  it("goes on after a script that fails", function()
    local r = celer.run({ "run", "-i", script "x = 5\nerror 'no'" }, { stdin = "x\n" })
    assert.same({ "5\n", 1 }, { r.stdout, r.status })
    assert.matches("^celer: %S*case.lua:2: no\n$", r.stderr)
  end)

  it("has the script's output before the first prompt", function()
    local t = terminal.open({ "run", "-i", script "x = 5 print 'ran'" },
      { env = { XDG_STATE_HOME = state } })
    t:wait "1> "
    assert.matches("^ran\r?\n.*help%(%) .*Ctrl%-D leaves", t.all)
    assert.equal("5", t:enter("x", 2))
    assert.equal(0, t:close())
  end)

  it("is not for dry runs", function()
    local r = celer.run({ "run", "-i", "--dry-run", "4", script "" })
    assert.same({ "celer: a session computes, and a dry run does not: leave out --dry-run, and "
      .. "unset CELER_DRY_RUN\n", 2 }, { r.stderr, r.status })
  end)
end)

describe("dofile in a session", function()
  it("has the lines of what it runs", function()
    local path = scratch.folder() .. "/case.lua"
    scratch.write(path, "local celer = require 'celer'\nlocal k = celer.kernel [[\n"
      .. "kernel void k(item<1> it, inout<int, 1> u) {\n  u(it[0]) += nonsense;\n}\n]]\n")
    local r = celer.run({ "repl" }, { stdin = ("dofile %q\n"):format(path) })
    assert.equal(1, r.status)
    assert.matches("^celer: %S*case.lua:4: the kernel does not compile\n", r.stderr)
    assert.not_matches("kernel made at", r.stderr)
  end)
end)

describe("a session through a pipe", function()
  it("lines are shown without prompts, and the status says whether all went well", function()
    local r = celer.run({ "repl" }, { stdin = "x = 3\nx\n" })
    assert.same({ "3\n", "", 0 }, { r.stdout, r.stderr, r.status })
    r = celer.run({ "repl" }, { stdin = "x = 3\nerror 'no'\nx\n" })
    assert.same({ "3\n", "celer: session:2: no\n", 1 }, { r.stdout, r.stderr, r.status })
    r = celer.run({ "repl" }, { stdin = "f(" })
    assert.same({ "", "celer: session:1: unexpected symbol near '<eof>'\n", 1 },
      { r.stdout, r.stderr, r.status })
  end)

  it("structs are shown with all that they hold", function()
    local r = celer.run({ "repl" }, { stdin = [[
celer.struct("cell", "float q[3]; struct { bool b; int64_t n[10]; } s; struct { float2 v; };")
c = celer.buffer("cell", 1, { init = function() return { q = { 0.1, 2, 3 }, v = { x = 4 } } end })
c
]] })
    assert.equal("", r.stderr)
    assert.truthy(r.stdout:find("[0] {q = {0.1, 2, 3}, s = {b = false, n = "
      .. "{0, 0, 0, 0, 0, 0, 0, 0, 0, ...}}, v = {x = 4, y = 0}}", 1, true), r.stdout)
  end)
end)
