-- The interactive session on several ranks.
local celer = require("spec.support.celer")

local hosts = require("spec.support.hosts")
local scratch = require("spec.support.scratch")
local terminal = require("spec.support.terminal")

-- What a line takes to be wrong on one rank alone: scripts know of no rank.
local RANK = "rank = tonumber(os.getenv 'OMPI_COMM_WORLD_RANK')\n"

local BUFFER = "u = celer.buffer('double', {8}, {name = 'u', init = function(i) return i end})\n"
local CONTENTS = "buffer u: double[8], 64 bytes\n   0   1   2   3   4   5   6   7\n"

-- Runs lines, which come through a pipe.
local function lines(ranks, text, args)
  return celer.run(args or { "repl" }, { ranks = ranks, stdin = text, env = celer.patient })
end

local GONE = "celer: the line ended on some ranks before they had submitted what others had\n"
  .. "celer: after that buffers and host objects are gone; variables, functions and kernels "
  .. "are still there\n"

-- A line in which a rank fails once others have submitted what it has not.
local function uneven(whose, buffer)
  local path = scratch.path()
  return ("if rank == %d then while not io.open %q do end error 'mine' end "
    .. "f = q:fence(%s) io.open(%q, 'w'):close() f:get()"):format(whose, path, buffer, path)
end

describe("a session on several ranks", function()
  for _, ranks in ipairs { 1, 2, 4 } do
    it("computes on all and prints once, on " .. ranks, function()
      local r = lines(ranks, BUFFER .. "u\nprint(celer.ranks())\n1 + 2\n")
      assert.same({ CONTENTS .. ranks .. "\n3\n", "", 0 }, { r.stdout, r.stderr, r.status })
    end)
  end

  it("requires modules, which rank 0 reads", function()
    local folder = scratch.folder()
    scratch.write(folder .. "/near.lua", "return 'near, ' .. require 'next'")
    scratch.write(folder .. "/next.lua", "return 'next'")
    local r = lines(2, ("package.path = '%s/?.lua;' .. package.path\nprint(require 'near')\n")
      :format(folder))
    assert.same({ "near, next\n", "", 0 }, { r.stdout, r.stderr, r.status })
  end)

  it("goes on after a line that fails on all ranks alike", function()
    local r = lines(2, BUFFER .. "error 'no'\nu\nx = )\nu\n")
    assert.equal("celer: session:2: no\nceler: session:4: unexpected symbol near ')'\n", r.stderr)
    assert.same({ CONTENTS .. CONTENTS, 1 }, { r.stdout, r.status })
  end)

  it("ends a line that fails on one rank on all, and keeps what all have", function()
    local r = lines(4, RANK .. BUFFER
      .. "if rank == 2 then error 'mine' end; while true do end\nu\n")
    assert.equal("celer: rank 2: session:3: mine\n", r.stderr)
    assert.same({ CONTENTS, 1 }, { r.stdout, r.status })
  end)

  it("gives up what some ranks have submitted alone", function()
    local r = lines(4, RANK .. BUFFER
      .. "q = celer.queue()\n" .. uneven(2, "u") .. "\nu\n" .. BUFFER .. "u\n")
    assert.equal("celer: rank 2: session:4: mine\n" .. GONE
      .. "celer: session:5: the buffer went with the work that failed; make it anew\n", r.stderr)
    assert.same({ CONTENTS, 1 }, { r.stdout, r.status })
  end)

  -- Rank 0 waits in a barrier, and nothing takes a call of MPI back.
  it("ends where a rank waits in a collective task for one that failed", function()
    local path = scratch.path()
    local r = lines(2, RANK .. "q = celer.queue() function together(f) q:submit(function(cg) "
      .. "cg:host_task(celer.collective(), f) end) q:wait() end\n"
      .. "together(function(part) part.comm:barrier() end)\n"
      .. ("if rank == 1 then while not io.open %q do end error 'mine' end together(function(part) "
      .. "io.open(%q, 'w'):close() part.comm:barrier() end)\nprint 'alive'\n"):format(path, path))
    assert.equal("celer: rank 1: session:4: mine\n" .. GONE .. "celer: a task has not ended in "
      .. "10 s: it may wait for ranks whose line went another way. The session ends\n", r.stderr)
    assert.same({ "", 1 }, { r.stdout, r.status })
  end)

  -- Halves of 4 MB, for which MPI waits until both ends have said so.
  it("gives up messages that nobody will receive, again and again", function()
    local t = terminal.open({ "repl", "-n", "2" }, { env = { XDG_STATE_HOME = scratch.path() } })
    t:wait "1> "
    t:enter("q = celer.queue() " .. RANK:sub(1, -2), 2)
    t:enter("fill = celer.kernel 'kernel void fill(item<1> it, out<double, 1> u) "
      .. "{ u(it[0]) = it[0]; }'", 3)
    for n = 3, 9, 3 do
      t:enter("big = celer.buffer('double', {1e6})", n + 1)
      t:enter("q:submit(function(cg) cg:parallel_for({1e6}, fill, cg:discard_write(big)) end)",
        n + 2)
      assert.equal(("celer: rank 1: session:%d: mine\n%s"):format(n + 2, GONE:sub(1, -2)),
        t:enter(uneven(1, "big"), n + 3))
    end
    t:enter(BUFFER:sub(1, -2), 13)
    assert.equal(CONTENTS:sub(1, -2), t:enter("u", 14))
    assert.equal(0, t:close())
  end)

  -- Lines of steps, of which some fail on some rank, or on all, somewhere.
  for _, seed in ipairs { 1, 2 } do
    it("computes what it should after whatever failed, by seed " .. seed, function()
      math.randomseed(seed)
      local text = { RANK, "q, n = celer.queue(), 0\n",
        "k = celer.kernel 'kernel void k(item<1> it, out<double, 1> v, in<double, 1> u) "
          .. "{ v(it[0]) = u(63 - it[0]) + 1; }'\n",
        "function make() u, v = celer.buffer('double', {64}, {init = function() return n end}), "
          .. "celer.buffer('double', {64}) end\n", "make()\n",
        "function step() q:submit(function(cg) cg:parallel_for({64}, k, cg:discard_write(v), "
          .. "cg:read(u, celer.all)) end) u, v, n = v, u, n + 1 end\n" }
      for _ = 1, 30 do
        local whose = math.random(0, 4) -- 3: all; 4: none
        local ends = ({ "", "q:wait() ", "q:fence(u):get() " })[math.random(3)]
        text[#text + 1] = ("for i = 1, %d do %sif i == %d and (rank == %d or %d == 3) then "
          .. "error 'mine' end step() end %s\n"):format(math.random(20),
            math.random() < 0.3 and ends or "", math.random(20), whose, whose, ends)
        -- Ranks that ended at different places differ in n, too: they are alike again.
        text[#text + 1] = "if not pcall(function() q:wait() end) then n = 0 make() end\n"
        text[#text + 1] = "n = 0 make() for i = 1, 5 do step() end "
          .. "print(q:wait(celer.capture(u))(7))\n"
      end
      local r = lines(3, table.concat(text))
      assert.equal(("5\n"):rep(30), r.stdout, r.stderr)
      for line in r.stderr:gmatch "[^\n]+" do
        local known = line:find "mine$" or GONE:find(line, 1, true) or line:find "went with"
        assert.is_truthy(known, line)
      end
    end)
  end

  it("says what host tasks fail with, once, and goes on", function()
    local r = lines(2, BUFFER .. "q = celer.queue()\nq:submit(function(cg) "
      .. "cg:host_task(celer.at(1), function() error 'in it' end) end) q:wait()\nu\n")
    assert.equal("celer: rank 1: session:3: in it (the task was submitted at session:3)\n",
      r.stderr)
    assert.same({ CONTENTS, 1 }, { r.stdout, r.status })
  end)

  it("takes lines that go on", function()
    local r = lines(2, "function f(x)\n  return 2 * x\nend\nf(4)\n")
    assert.same({ "8\n", "", 0 }, { r.stdout, r.stderr, r.status })
  end)

  it("ends by exit, and by os.exit with its status", function()
    local r = lines(2, "print 'a'\nexit\nprint 'b'\n")
    assert.same({ "a\n", "", 0 }, { r.stdout, r.stderr, r.status })
    r = lines(2, "os.exit(3)\nprint 'b'\n")
    assert.same({ "", 3 }, { r.stdout, r.status })
    r = lines(2, RANK .. "if rank == 1 then os.exit(0) end; while true do end\nprint 'b'\n")
    assert.same({ "", "", 0 }, { r.stdout, r.stderr, r.status })
  end)

  it("begins with what a script leaves", function()
    local r = lines(2, "x\n", { "run", "-i", "-e", "x = 7; print 'first'" })
    assert.same({ "first\n7\n", "", 0 }, { r.stdout, r.stderr, r.status })
  end)
end)

local state -- where the history is kept

setup(function() state = scratch.path() end)

-- A session at its first prompt.
local function open(ranks, words, options)
  options = options or {}
  options.env = options.env or { XDG_STATE_HOME = state }
  local args = { "repl", "-n", tostring(ranks) }
  for _, word in ipairs(words or {}) do args[#args + 1] = word end
  local t = terminal.open(args, options)
  t:wait "1> "
  return t
end

-- Seconds by the clock of the machine.
local function now()
  local file = assert(io.open("/proc/uptime"))
  local seconds = tonumber(file:read("*l"):match "^%S+")
  file:close()
  return seconds
end

-- What a session must do, whatever it was started by.
local function try(t, ranks)
  assert.matches(("celer %%S+  %d ranks?, "):format(ranks), t.all)
  assert.equal("3\ttwo", t:enter("1 + 2, 'two'", 2))
  assert.equal("", t:enter("function f(x)", 3, true))
  assert.equal("", t:enter("  return 2 * x end", 4))
  assert.equal("celer: session:4: no", t:enter("error 'no'", 5))
  t:type "while true do end\r"
  t:wait "\n"
  local begin = now()
  t:type "\3"
  assert.matches("celer: [^\n]*interrupted", t:wait "6> ")
  local took = now() - begin
  t:enter("q = celer.queue()", 7)
  t:enter("k = celer.kernel 'kernel void k(item<1> it, out<double, 1> v, in<double, 1> u) "
    .. "{ v(it[0]) = u(7 - it[0]) + 1; }'", 8)
  t:enter("function step() q:submit(function(cg) cg:parallel_for({8}, k, cg:discard_write(v), "
    .. "cg:read(u, celer.all)) end) u, v = v, u end", 9)
  t:enter("function make() u, v = celer.buffer('double', {8}, {init = function(i) return i end}), "
    .. "celer.buffer('double', {8}) step() q:wait() end", 10)
  -- Where this machine is so busy that a rank takes half a second to its next submission,
  -- buffers may be lost.
  local n, got = 10, nil
  for _ = 1, 10 do
    t:enter("make()", n + 1)
    t:type "for i = 1, 1e9 do step() end\r"
    t:wait "\n"
    t:type "\3"
    assert.matches("celer: [^\n]*interrupted", t:wait(("%d> "):format(n + 2)))
    got = t:enter("s = q:wait(celer.capture(u))", n + 3)
    n = n + 3
    if got == "" then break end
  end
  assert.equal("", got)
  assert.equal("true\t8", t:enter("math.abs(s(1) - s(0)) == 1, f(4)", n + 1))
  t:type "f(1"
  t:type "\3"
  t:wait "^C"
  t:wait(("%d> "):format(n + 1))
  assert.equal("12", t:enter("f(6)", n + 2))
  assert.equal(0, t:close())
  return took
end

describe("celer repl -n", function()
  for _, ranks in ipairs { 1, 2, 4 } do
    it("is a session on a terminal, with " .. ranks, function()
      local took = try(open(ranks), ranks)
      assert.is_true(took < 20, took) -- half a second, where nothing else runs
    end)
  end

  it("ends by exit, with what was typed in the history", function()
    local t = open(2)
    t:enter("x = 'kept'", 2)
    t:type "exit\r"
    assert.equal(0, t:status())
    t = open(2)
    t:type "\27[A\27[A\r"
    t:wait "2> "
    assert.equal("kept", t:enter("x", 3))
    assert.equal(0, t:close())
  end)

  it("completes names", function()
    local t = open(2)
    t:type "celer.buf\t\r"
    assert.matches("Makes a buffer", t:wait "2> ")
    assert.equal(0, t:close())
  end)

  it("ends when a rank is killed, and leaves the terminal as it was", function()
    local t = open(2)
    t:enter("kill = tonumber(os.getenv 'OMPI_COMM_WORLD_RANK') == 1", 2)
    t:type "if kill then os.execute 'kill -9 $PPID' end\r"
    assert.not_equal(0, t:status())
    assert.matches("rank 1", t.all)
  end)

  it("ends a line by Ctrl-C, however much was typed since", function()
    local t = open(2)
    t:type "while true do end\r"
    t:wait "\n"
    t:type(("x = 'what nobody wants any more'\r"):rep(20000))
    t:type "\3"
    assert.matches("celer: [^\n]*interrupted", t:wait "2> ")
    assert.equal("nil", t:enter("x", 3))
    assert.equal(0, t:close())
  end)

  it("can be left where the launcher hangs", function()
    local t = open(2, {}, { env = { XDG_STATE_HOME = state,
      OMPI_MCA_btl_vader_backing_directory = scratch.folder() } })
    local launcher = scratch.output(("pgrep -P %d"):format(t.pid)):match "%d+"
    os.execute("kill -STOP " .. launcher)
    t:type "\3"
    t:wait "celer: the session does not answer: Ctrl-C again ends it"
    t:type "\3"
    assert.not_equal(0, t:status())
    local left
    for _ = 1, 200 do
      left = scratch.output(("ps -o stat=,pid=,args= -s %s | grep -v ^Z"):format(launcher))
      if left == "" then break end
      celer.exec({ "sleep", "0.05" })
    end
    assert.equal("", left)
  end)

  it("takes lines from a pipe", function()
    local r = celer.run({ "repl", "-n", "2" }, { stdin = "print(celer.ranks())\n" })
    assert.same({ "2\n", "", 0 }, { r.stdout, r.stderr, r.status })
  end)

  it("refuses what it cannot start", function()
    for _, case in ipairs {
      { { "repl", "-n", "0" }, "%-n must be a whole number of ranks from 1 on" },
      { { "repl", "-n", "x" }, "%-n must be a whole number of ranks from 1 on" },
      { { "repl", "-n", "2", "--launcher", "no-such-mpirun" }, "there is no launcher" },
      { { "repl", "-n", "2", "--launcher", "" }, "launcher" },
    } do
      local r = celer.run(case[1])
      assert.matches("^celer: [^\n]*" .. case[2] .. "[^\n]*\n$", r.stderr)
      assert.equal(2, r.status)
    end
    local r = celer.run({ "repl", "-n", "2" }, { ranks = 1 })
    assert.matches("^celer: [^\n]*leave out mpirun\n", r.stderr)
  end)

  it("runs on hosts that the launcher knows", function()
    if hosts.missing() then pending(hosts.missing()) return end
    local command = celer.command()
    local bed = ("%s/spec/support/hosts.sh --share %s --slots 2 2"):format(os.getenv "PWD",
      scratch.folder():match "^(.*)/")
    -- The bed keeps stdin from what it runs.
    local t = terminal.open({ "-c", ("exec %s sh -c 'exec %s repl -n 4 <&1'"):format(bed,
      command) }, { command = "/bin/sh" })
    t:wait "1> "
    try(t, 4)
  end)
end)
