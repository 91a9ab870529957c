-- Kernels are compiled while the script goes on: when, how many at once, where a
-- mistake comes up, and what becomes of compilers when the run ends.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local folder

before_each(function()
  folder = scratch.folder()
end)
after_each(function() os.execute("rm -rf '" .. folder .. "'") end)

local function path(name) return folder .. "/" .. name end

-- A compiler that does `before` first, in `folder`; await NAME waits for a file.
local function compiler(before)
  scratch.write(path "cxx", ([[
#!/bin/sh
[ "$1" = --version ] && exec g++ --version
cd '%s'
await() {
  for i in $(seq 1200); do [ -e "$1" ] && return; sleep 0.05; done
  echo "kernel.cpp:1: error: no $1"; exit 1
}
(%s) || exit 1
exec g++ "$@"
]]):format(folder, before))
  assert(os.execute("chmod +x '" .. path "cxx" .. "'") == 0)
end

-- Runs a script with that compiler; options as celer.run takes them, and `before`,
-- words before the command.
local function run(text, options)
  options = options or {}
  scratch.write(path "case.lua", 'local celer = require "celer"; local q = celer.queue()\n'
    .. "local function touch(name) assert(io.open('" .. folder .. "/' .. name, 'w')):close() end\n"
    .. text)
  -- Samples have compilers of their own: sample_spec.lua.
  local env = { CXX = path "cxx", CELER_CACHE = path "cache", CELER_NO_SAMPLE = "1" }
  for name, value in pairs(options.env or {}) do env[name] = value end
  local words = { "run", "--backend", "cpu", path "case.lua" }
  if options.before then
    table.insert(words, 1, celer.command())
    for i, word in ipairs(options.before) do table.insert(words, i, word) end
    return celer.exec(words, { env = env })
  end
  return celer.run(words, { ranks = options.ranks, env = env })
end

local function exists(name) return scratch.look(path(name)) ~= nil end

local function lines_of(name)
  return select(2, (scratch.look(path(name)) or ""):gsub("\n", ""))
end

local A = 'celer.kernel "kernel void a(item<1> it, out<int, 1> o) { o(it[0]) = 1; }"'
local B = 'celer.kernel "kernel void b(item<1> it, out<int, 1> o) { o(it[0]) = 2; }"'
local BAD = '\n\nlocal bad = celer.kernel "kernel void f(item<1> it, out<int, 1> o) { oops; }"\n'

local USE = [[
local o = celer.buffer("int", 4)
q:submit(function(cg) cg:parallel_for(4, k, cg:discard_write(o)) end)
print(q:drain(o)[3])
]]

describe("a kernel is compiled", function()
  for _, ranks in ipairs { 1, 3 } do
    it("while the script goes on, " .. ranks .. " ranks", function()
      compiler "await went_on; echo >>compiled"
      local r = run("local k = " .. A .. "\ntouch 'went_on'\n" .. USE, { ranks = ranks })
      assert.equal("1\n", r.stdout, r.stderr)
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.equal(1, lines_of "compiled")
    end)
  end

  it("with others at once, where there are cores for that", function()
    if tonumber(scratch.output "nproc") < 2 then pending "one core" end
    compiler "if mkdir first; then await second; else : >second; fi"
    local r = run("local k, l = " .. A .. ", " .. B .. "\n" .. USE)
    assert.equal("1\n", r.stdout, r.stderr)
    assert.is_true(exists "second")
  end)

  it("with no others on one core", function()
    compiler "mkdir alone || : >two; sleep 0.2; rmdir alone; echo >>compiled"
    local r = run("local k, l = " .. A .. ", " .. B .. "\n" .. USE,
      { before = { "taskset", "-c", "0" } })
    assert.equal("1\n", r.stdout, r.stderr)
    assert.is_false(exists "two")
    assert.equal(2, lines_of "compiled")
  end)

  it("before the others when it is waited for", function()
    -- One thread begins with the first; the last is asked for then.
    compiler "for unit; do :; done; grep -o 'CELER_ENTRY(k[0-9])' $unit >>order; await went_on"
    local r = run("local list = {}\nfor i = 1, 6 do list[i] = celer.kernel("
      .. "('kernel void k%d(item<1> it, out<int, 1> o) { o(it[0]) = %d; }'):format(i, i)) end\n"
      .. "touch 'went_on'\nlocal k = list[6]\n" .. USE, { before = { "taskset", "-c", "0" } })
    assert.equal("6\n", r.stdout, r.stderr)
    local order = scratch.read(path "order")
    assert.equal(6, lines_of "order")
    assert.is_true(order:find "k6" < order:find "k3", order)
  end)

  it("for other operators alone", function()
    compiler ":"
    scratch.write(path "cxx", scratch.read(path "cxx"):gsub("exec g%+%+ \"%$@\"",
      'echo "$@" >>words\nexec g++ "$@"'))
    local r = run([=[
local k = celer.kernel [[
  kernel void low(item<1> it, reducer<int> r) { r += 7 - (int)it[0]; }
  kernel void high(item<1> it, reducer<int> r) { r += (int)it[0]; }
  kernel void plain(item<1> it, out<int, 1> o) { o(it[0]) = 1; }
]]
local a, b, o = celer.buffer("int"), celer.buffer("int"), celer.buffer("int", 4)
for round = 1, 2 do
  q:submit(function(cg) cg:parallel_for(4, k.low, cg:reduce(a, "min")) end)
  q:submit(function(cg) cg:parallel_for(4, k.high, cg:reduce(b, "max")) end)
  q:submit(function(cg) cg:parallel_for(4, k.plain, cg:discard_write(o)) end)
end
local x, y, z = q:wait(a, b, o)
print(x(), y(), z[0], k.low, k.plain)
]=])
    assert.equal("4\t3\t1\tkernel low(item<1>, reducer<int>)\tkernel plain(item<1>, out<int, 1>)\n",
      r.stdout, r.stderr)
    local words = scratch.read(path "words")
    assert.equal(3, lines_of "words")
    assert.equal(1, select(2, words:gsub("%-DCELER_ONLY=1 ", "")))
    assert.equal(1, select(2, words:gsub("%-DCELER_ONLY=2 ", "")))
  end)
end)

describe("a kernel that does not compile", function()
  before_each(function() compiler ":" end)

  -- What is printed, and the one message, which has the place of the source.
  local function fails(text, printed, ranks, line)
    local r = run(text, { ranks = ranks })
    assert.equal(printed, r.stdout)
    local place = ("celer: %s:%d: "):format(path "case.lua", line or 5)
    assert.matches(place .. "the kernel does not compile\n", r.stderr, 1, true)
    assert.matches("oops", r.stderr)
    assert.equal(1, select(2, r.stderr:gsub("celer: ", "")), r.stderr)
    assert.equal(1, r.status)
  end

  for _, ranks in ipairs { 1, 3 } do
    local with = ", " .. ranks .. " ranks"
    it("is told when it is used first" .. with, function()
      fails(BAD .. [[
print "went on"
local o = celer.buffer("int", 4)
q:submit(function(cg) cg:parallel_for(4, bad, cg:discard_write(o)) end)
print "not reached"]], "went on\n", ranks)
    end)

    it("is told at the next wait" .. with, function()
      fails(BAD .. 'print "went on"\nq:wait()\nprint "not reached"', "went on\n", ranks)
    end)

    it("is told at the end, though nobody uses it" .. with, function()
      fails(BAD .. 'print "went on"\n', "went on\n", ranks)
    end)
  end

  it("is told before the end by os.exit", function()
    fails(BAD .. 'print "went on"\nos.exit(0)\n', "went on\n")
  end)

  it("is told of each time", function()
    fails(BAD .. [[
for i = 1, 2 do print(i, (pcall(tostring, bad))) end
print(pcall(q.wait, q))
local again = celer.kernel "kernel void f(item<1> it, out<int, 1> o) { oops; }"
q:drain()]], "1\tfalse\n2\tfalse\ntrue\n", nil, 8)
  end)

  it("is told at once where somebody would catch it", function()
    local r = run([[
local function make(text) return celer.kernel("kernel void f(item<1> it) {" .. text .. "}") end
print((pcall(make, "oops;")))
local function deep() local k = make "oops;" return k end
print((xpcall(deep, function() return 1 end)))
local ok, k = pcall(make, "")
print(ok, k)
q:drain()]])
    assert.equal("false\nfalse\ntrue\tkernel f(item<1>)\n", r.stdout)
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
  end)

  it("is told at once in a session", function()
    local r = celer.exec({ celer.command(), "repl" }, { stdin = "k = celer.kernel [[ kernel void "
      .. "f(item<1> it) { oops; } ]]\nprint(k)\n", env = { CELER_CACHE = path "cache" } })
    assert.matches("^celer: session:1: the kernel does not compile\n", r.stderr)
    assert.equal("nil\n", r.stdout)
    assert.equal(1, select(2, r.stderr:gsub("celer: ", "")), r.stderr)
  end)
end)

describe("a compiler that still runs", function()
  local function gone()
    local pid = scratch.read(path "pid"):match "%d+"
    local ask = "for i in $(seq 600); do kill -0 %s 2>/dev/null || exit 0; sleep 0.05; done; exit 1"
    assert.equal(0, os.execute(ask:format(pid)))
  end

  for _, ranks in ipairs { 1, 3 } do
    it("ends with a run that fails, " .. ranks .. " ranks", function()
      compiler "echo $$ >pid.new; mv pid.new pid; await never"
      local r = run("local k = " .. A .. "\nlocal function begun() return io.open('"
        .. path "pid" .. "') end\nwhile not begun() do end\nerror 'enough'\n", { ranks = ranks })
      assert.matches("case.lua:6: enough\n", r.stderr, 1, true)
      assert.equal(1, select(2, r.stderr:gsub("celer: ", "")), r.stderr)
      assert.equal(1, r.status)
      gone()
      assert.equal(0, #scratch.files(path "cache/scratch", "^%x+$"))
    end)
  end

  for what, text in pairs { ["a run that aborts"] = "abort()", ["a library's exit"] = "exit(0)" } do
    it("ends with " .. what, function()
      compiler "echo $$ >pid.new; mv pid.new pid; await never"
      local r = run("local k = " .. A .. "\nwhile not io.open('" .. path "pid"
        .. "') do end\nlocal ffi = require 'ffi'\nffi.cdef 'void abort(void); void exit(int);'\n"
        .. "ffi.C." .. text .. "\n")
      assert.matches("^celer: [^\n]*" .. text:match "%a+", r.stderr)
      assert.not_equal(0, r.status)
      gone()
    end)
  end

  it("ends with a run that is told to end", function()
    compiler "echo $$ >pid.new; mv pid.new pid; await never"
    scratch.write(path "case.lua", "local celer = require 'celer'; print(" .. A .. ")\n")
    local r = celer.exec({ "sh", "-c", ("%s run --backend cpu %s & until [ -e %s ]; do sleep 0.05; "
      .. "done; kill -TERM $!; wait $!"):format(celer.command(), path "case.lua", path "pid") },
      { env = { CXX = path "cxx", CELER_CACHE = path "cache" } })
    assert.equal("", r.stdout)
    assert.matches("^celer: told to end, by SIGTERM[^\n]*\n$", r.stderr)
    assert.equal(143, r.status)
    gone()
    assert.equal(0, #scratch.files(path "cache/scratch", "^%x+$"))
  end)
end)
