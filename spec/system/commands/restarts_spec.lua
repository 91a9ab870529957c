-- celer run -n N --restarts M, on one host: what is started again, and what is not.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

-- Keeps all steps; the first start does ACT after ten of them, and nothing is under way then.
local SCRIPT = [==[
local celer = require "celer"
local folder = arg[1]
local kept, extra = celer.restore(folder .. "/kept")
local u = kept and kept.u or celer.buffer("int", { 8 }, { init = 0 })
local first = kept and extra.step + 1 or 1
local add = celer.kernel "kernel void add(item<1> it, inout<int, 1> u) { u(it[0]) += 1; }"
local q = celer.queue()
local function on_rank(rank, act)
  q:submit(function(cg)
    cg:host_task({ celer.ranks() }, function(part) if part.rank == rank then act() end end)
  end)
  q:wait()
end
-- A rank sends a signal to itself, or to the celer that has started all.
local function send(rank, number, up)
  on_rank(rank, function()
    local ffi = require "ffi"
    ffi.cdef "int getpid(void); int kill(int, int); int usleep(unsigned);"
    local function look(pid, file) return io.open("/proc/" .. pid .. file):read "*a" end
    local pid = ffi.C.getpid()
    while up do
      pid = tonumber(look(pid, "/stat"):match "%) %S+ (%d+)")
      if look(pid, "/comm") == "celer\n" then break end
    end
    ffi.C.kill(pid, number)
    if not up then ffi.C.usleep(1e7) end
  end)
end
for t = first, 20 do
  q:submit(function(cg) cg:parallel_for({ 8 }, add, cg:read_write(u)) end)
  KEEP
  if t == 10 then
    q:wait()
    if not kept then ACT end
  end
end
print(first, q:wait(u)[3])
]==]

-- Runs it with these words of `celer run`.
local function run(act, words, keep)
  local folder = scratch.folder()
  local values = { ACT = act,
    KEEP = keep or 'celer.checkpoint(folder .. "/kept", { u = u }, { step = t })' }
  scratch.write(folder .. "/case.lua", (SCRIPT:gsub("%f[%w]%u%u%u+%f[%W]", values)))
  local argv = { "run", "--backend", "cpu", "--advice", "off" }
  for _, word in ipairs(words) do argv[#argv + 1] = word end
  argv[#argv + 1], argv[#argv + 2] = folder .. "/case.lua", folder
  return celer.run(argv, { timeout = 100 }), folder
end

local function started(r, times)
  assert.equal(times - 1, select(2, r.stderr:gsub("the run goes on from its last", "")), r.stderr)
end

describe("celer run -n", function()
  it("starts as many ranks, which know the script's words and celer's variables", function()
    local r = celer.run({ "run", "-n", 3, "-e",
      "print(celer.ranks(), arg[1], os.getenv 'CELER_ADVICE')", "-n" },
      { env = { CELER_ADVICE = "off" } })
    assert.same({ 0, "3\t-n\toff\n", "" }, { r.status, r.stdout, r.stderr })
  end)

  it("takes the launcher's words", function()
    local r = celer.run({ "run", "--launcher", "mpirun -H 'localhost:2' -n 2", "-e",
      "print(celer.ranks())" })
    assert.same({ 0, "2\n" }, { r.status, r.stdout }, r.stderr)
  end)

  it("ends with the status of the script", function()
    local r = celer.run({ "run", "-n", 2, "-e", "os.exit(7)" })
    assert.equal(7, r.status, r.stderr)
  end)

  it("refuses what cannot be, in one line", function()
    local name = scratch.path(".lua")
    scratch.write(name, "-- makes a checkpoint")
    for _, case in ipairs {
      { "-n must be a whole number of ranks from 1 on, not \"two\"", "-n", "two", name },
      { "--restarts must be a whole number from 0 to 10000, not \"x\"", "--restarts", "x", name },
      { "--restarts: (command line) makes no checkpoint that the run could go on from",
        "--restarts", 2, "-n", 2, "-e", "print(1)" },
      { "there is no launcher nompirun; install one", "-n", 2, "--launcher", "nompirun -x", name },
      { "--launcher must be the name of a launcher, not \"\"", "-n", 2, "--launcher", "", name },
      { "the launcher's hosts: /none: No such file", "-n", 2, "--launcher",
        "mpirun --hostfile /none", name },
      { "--restarts needs --lost of 1 s or more", "--restarts", 1, "--lost", 0, name },
      { "none.lua: No such file or directory", "--restarts", 1, "none.lua" },
      { "--restarts needs a script in a file: stdin can be read but once", "--restarts", 1, "-" },
      { "a session starts no ranks", "-n", 1, "-i", name },
    } do
      local argv = { "run" }
      for i = 2, #case do argv[i] = case[i] end
      local r = celer.run(argv)
      assert.equal(2, r.status, r.stderr)
      assert.equal("celer: " .. case[1], r.stderr:sub(1, 7 + #case[1]))
      assert.equal(1, select(2, r.stderr:gsub("\n", "")))
    end
    local r = celer.run({ "run", "--restarts", 1, name }, { ranks = 2 })
    assert.matches("celer: celer starts the launcher where it is asked for %-%-restarts, and is "
      .. "not started by it", r.stderr)
  end)
end)

describe("celer run --restarts", function()
  for who = 0, 2, 2 do
    it("goes on when a rank is killed: " .. who, function()
      local r = run(("send(%d, 9)"):format(who), { "-n", 3, "--restarts", 2 })
      assert.same({ 0, "11\t20\n" }, { r.status, r.stdout }, r.stderr)
      assert.matches(("celer: rank %d on host %%S+ was killed; the run goes on from its last "
        .. "checkpoint; 1 restart is left\nceler: the run goes on from the checkpoint in "):format(
        who), r.stderr)
      started(r, 2)
    end)
  end

  it("goes on when a rank writes to one that is gone", function()
    local r = run("send(1, 13)", { "-n", 2, "--restarts", 1 })
    assert.same({ 0, "11\t20\n" }, { r.status, r.stdout }, r.stderr)
    assert.matches("celer: rank 1 on host %S+ lost its connection to another; the run goes on from "
      .. "its last checkpoint; no restart is left\n", r.stderr)
  end)

  it("does not go on where nobody reads what it prints", function()
    local r = run("send(0, 13)", { "--restarts", 1 })
    assert.equal(141, r.status, r.stderr)
    started(r, 1)
  end)

  it("goes on when one that falls silent is lost, once the others' time is up", function()
    local r = run("send(1, 19)", { "-n", 2, "--restarts", 1, "--lost", 2 })
    assert.same({ 0, "11\t20\n" }, { r.status, r.stdout }, r.stderr)
    assert.matches("celer: rank 1 on host %S+ was lost; the run goes on from its last checkpoint, "
      .. "in %d s, when ranks that are cut off have ended; no restart is left\n", r.stderr)
  end)

  it("goes on when it is alone and killed", function()
    local r = run("send(0, 9)", { "--restarts", 1 })
    assert.same({ 0, "11\t20\n" }, { r.status, r.stdout }, r.stderr)
    assert.matches("^celer: the run was killed; ", r.stderr)
  end)

  it("gives up when no restart is left", function()
    local r = run("", { "-n", 2, "--restarts", 2 }, "send(1, 9) -- makes no checkpoint")
    assert.same({ 75, "" }, { r.status, r.stdout }, r.stderr)
    assert.matches("was killed, and no restart is left of %-%-restarts 2\n$", r.stderr)
    assert.matches("host %S+ sees no checkpoint in %S+: the run begins anew", r.stderr)
    started(r, 3)
  end)

  for _, how in ipairs { "error 'wrong'", "os.exit(3)", "on_rank(1, function() error 'wrong' end)",
    "send(1, 11)" } do
    it("repeats no error: " .. how, function()
      local r = run(how, { "-n", 2, "--restarts", 5 })
      assert.is_true(r.status > 0 and r.status ~= 75 and r.status ~= 124, r.stderr)
      started(r, 1)
    end)
  end

  it("ends when it is told to, with all ranks", function()
    local r, folder = run("send(0, 15, true) while true do end",
      { "-n", 2, "--restarts", 2 })
    assert.equal(143, r.status, r.stderr)
    started(r, 1)
    -- A rank that was killed is gone when Linux comes to it.
    local left = "grep -ls '" .. folder:gsub(".$", "[%0]") .. "' /proc/[0-9]*/cmdline"
    assert.equal("", scratch.output(("for _ in $(seq 50); do [ \"$(%s)\" ] || break; "
      .. "sleep 0.1; done; %s"):format(left, left)))
  end)

  it("goes on after a checkpoint that SIGUSR1 asked for", function()
    local r = run("send(0, 10, true)", { "-n", 2, "--restarts", 2 }, [[
      repeat
        local now = celer.checkpoint_every("1 h", folder .. "/kept", { u = u }, { step = t })
      until t < 20 or kept or now -- which does not come back
    ]])
    assert.equal(0, r.status, r.stderr)
    assert.is_true(tonumber(r.stdout:match "^(%d+)\t20\n$") > 1, r.stdout) -- when it was heard
    assert.matches("celer: told by SIGUSR1 to end: all is kept in %S+/kept\n.*celer: the run was "
      .. "told to end by SIGUSR1; the run goes on from its last checkpoint; 1 restart is left\n",
      r.stderr)
  end)

  -- Signals come from the start on, to the launcher and to the ranks.
  local EARLY = [[
local celer = require "celer"
local folder = arg[1]
local kept, extra = celer.restore(folder .. "/kept")
local u = kept and kept.u or celer.buffer("int", { 8 }, { init = 0 })
io.open(folder .. "/up." .. require("celer.core").rank(), "w"):close()
if not kept then while not io.open(folder .. "/go") do end end
local n = kept and 20 or math.huge
for t = 1, n do
  celer.checkpoint_every("1 h", folder .. "/kept", { u = u }, { step = t })
end
print('end')
]]

  local BRIEF = EARLY:gsub("math.huge", "20")

  -- Runs a script while a shell sends signals to $p, and then says `go`.
  local function signalled(text, words, sends)
    local folder = scratch.folder()
    scratch.write(folder .. "/case.lua", text)
    local r = celer.exec({ "bash", "-c", ([[
      mkfifo said
      %s run --backend cpu --advice off %s case.lua . & p=$!
      trap 'kill -KILL $p' TERM
      %s
      touch go
      wait $p]]):format(celer.command(), words, sends) }, { cwd = folder, timeout = 60 })
    return r, folder
  end

  for how, words in pairs { ["by a launcher"] = "-n 2 --restarts 2", alone = "--restarts 2" } do
    it("is not ended by SIGUSR1 that comes early, and keeps what it asks for: " .. how, function()
      -- Before the launcher is one.
      local r = signalled(EARLY, words,
        "until grep -q 'SigBlk:.*14203$' /proc/$p/status; do :; done; " -- it takes signals
        .. "for i in 1 2 3 4 5 6 7 8 9; do kill -USR1 $p; done")
      assert.equal(0, r.status, r.stderr)
      assert.equal("end\n", r.stdout)
      assert.matches("told by SIGUSR1 to end: all is kept in", r.stderr)
      started(r, 2)
    end)
  end

  it("asks again where a rank was ended by SIGUSR1 before it could take it", function()
    local folder = scratch.folder()
    scratch.write(folder .. "/case.lua", EARLY)
    scratch.write(folder .. "/starter", ([[#!/bin/sh
      shift 2
      [ -e second ] && exec "$@"
      touch second go
      echo "mpirun noticed that process rank 1 with PID 0 on node h exited on signal 10 (x)." >&2
      kill -USR1 $PPID
      sleep 1
      exit 138]]))
    local r = celer.exec({ "bash", "-c", ("chmod +x starter; exec %s run --backend cpu "
      .. "--advice off -n 1 --launcher ./starter --restarts 2 case.lua ."):format(
      celer.command()) }, { cwd = folder, timeout = 60 })
    assert.same({ 0, "end\n" }, { r.status, r.stdout }, r.stderr)
    assert.matches("rank 1 on host h was ended by SIGUSR1 while it started; .*told by SIGUSR1 to "
      .. "end: all is kept in", r.stderr)
    started(r, 3)
  end)

  it("keeps at the first call what SIGUSR1 asks a rank for before it, and goes on", function()
    local r, folder = signalled(BRIEF, "", "until [ -e up.0 ]; do :; done; kill -USR1 $p")
    assert.same({ 0, "end\n", "" }, { r.status, r.stdout, r.stderr })
    assert.equal("1\n", scratch.output("ls -d '" .. folder .. "/kept' | wc -l"))
  end)

  it("says that SIGUSR1 finds nothing to keep between two runs", function()
    local r = signalled([[
if not io.open "go" and require("celer.core").rank() == 1 then
  local ffi = require "ffi"
  ffi.cdef "int getpid(void); int kill(int, int);"
  ffi.C.kill(ffi.C.getpid(), 19)
end
]] .. BRIEF, "-n 2 --lost 1 --restarts 2 2>said", [[
      while read -r line; do
        echo "$line" >&2
        case $line in *"goes on from its last"*) kill -USR1 $p; touch go;; esac
      done <said]])
    assert.same({ 0, "end\n" }, { r.status, r.stdout }, r.stderr)
    assert.matches("celer: SIGUSR1 has come while nothing runs: what there is is kept\n", r.stderr)
  end)
end)
