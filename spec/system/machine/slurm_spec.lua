-- Under a real Slurm: ranks start by srun, agree with one rank to the bit, and
-- end together.
local celer = require("spec.support.celer")
local fake = require("spec.device.fake_driver")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")
local terminal = require("spec.support.terminal")

local folder = scratch.path(".slurm")
local program = celer.command():gsub("celer$", "mpi_check")
local why = "no Slurm"

local function exists(path)
  local file = io.open(path)
  return file and file:close()
end

local function srun(argv, options)
  local words = { "srun", "--mpi=" .. (options.mpi or "pmix"), "-n", options.ranks, "--overcommit",
    options.gpus }
  for _, word in ipairs(argv) do words[#words + 1] = word end
  local env = { SLURM_CONF = folder .. "/slurm.conf" }
  for name, value in pairs(options.env or {}) do env[name] = value end
  return celer.exec(words, { env = env })
end

-- What a program says, without what Slurm says about how it ended.
local function own_lines(text)
  local lines = {}
  for line in text:gmatch("[^\n]+") do
    if not line:match("^srun: ") and not line:match("^slurmstepd%-") then
      lines[#lines + 1] = line
    end
  end
  return table.concat(lines, "\n")
end

describe("under Slurm", function()
  setup(function()
    local r = celer.exec({ "spec/support/slurm.sh", "up", folder })
    why = r.status ~= 0 and (r.stderr:match("[^\n]+") or "it does not start")
  end)

  teardown(function()
    celer.exec({ "spec/support/slurm.sh", "down", folder })
    os.execute("rm -rf '" .. folder .. "'")
  end)

  -- A test that needs Slurm, and mpi_check unless `other`.
  local function with_slurm(name, body, other)
    it(name, function()
      if why then
        pending("cannot bring Slurm up: " .. why)
      elseif not other and not exists(program) then
        pending("needs the program mpi_check")
      else
        body()
      end
    end)
  end

  with_slurm("ranks know their place", function()
    local r = srun({ program, "where" }, { ranks = 4 })
    assert.equal(0, r.status)
    for rank = 0, 3 do
      assert.matches(("rank %d of 4, %d of 4 here"):format(rank, rank), r.stdout, 1, true)
    end
  end)

  with_slurm("ranks exchange messages", function()
    local r = srun({ program, "exchange" }, { ranks = 4 })
    assert.matches("1 passed, 0 failed", r.stdout, 1, true)
    assert.equal(0, r.status)
  end)

  with_slurm("without PMIx it says how to start instead, once", function()
    local r = srun({ program, "where" }, { ranks = 3, mpi = "none" })
    assert.equal("mpi_check: srun started 3 tasks, but offers MPI no way to join them:"
      .. " start with `srun --mpi=pmix`", own_lines(r.stderr))
    assert.equal(1, r.status)
  end)

  for _, how in ipairs({ "kill", "exit", "abort" }) do
    with_slurm("all ranks end when one of them ends by " .. how, function()
      local r = srun({ program, "die", how }, { ranks = 3 })
      assert.not_equal(0, r.status)
      assert.is_nil(r.stdout:find("still here", 1, true), r.stdout)
      assert.is_false(r.status == 124)
    end)
  end

  with_slurm("an error is printed once", function()
    local r = srun({ program, "report", "all" }, { ranks = 3 })
    assert.equal("sim.lua:12: it went wrong", own_lines(r.stderr))
    assert.equal(1, r.status)
  end)

  -- There the other ranks' output would go to /dev/null.
  with_slurm("a session is rank 0's, with --pty, and shows what all ranks write", function()
    local t = terminal.open({ "--mpi=pmix", "-n", "3", "--overcommit", "--pty", celer.command(),
      "repl" }, { command = "srun", env = { SLURM_CONF = folder .. "/slurm.conf",
      XDG_STATE_HOME = scratch.path() } })
    t:wait "1> "
    assert.matches("3 ranks", t.all)
    assert.equal("3", t:enter("1 + 2", 2))
    t:enter("q = celer.queue()", 3)
    t:type("q:submit(function(cg) cg:host_task(celer.at(2), function() print 'from afar' end) end) "
      .. "q:wait()\r")
    t:wait "[2] from afar"
    t:wait "4> "
    t:type "while true do end\r"
    t:wait "\n"
    t:type "\3"
    assert.matches("celer: [^\n]*interrupted", t:wait "5> ")
    assert.equal("celer: rank 1: session:5: mine",
      t:enter("if os.getenv 'SLURM_PROCID' == '1' then error 'mine' end", 6))
    assert.equal(0, t:close())
  end, true)

  with_slurm("a session that starts srun itself shows its prompts", function()
    local t = terminal.open({ "-Q", "-n", "2", "--overcommit", celer.command(), "repl", "-n", "2" },
      { command = "salloc", env = { SLURM_CONF = folder .. "/slurm.conf",
        XDG_STATE_HOME = scratch.path() } })
    t:wait "1> "
    assert.equal("3", t:enter("1 + 2", 2))
    t:type "while true do end\r"
    t:wait "\n"
    t:type "\3"
    assert.matches("celer: [^\n]*interrupted", t:wait "3> ")
    assert.equal(0, t:close())
  end, true)

  with_slurm("a shell that holds an allocation is no rank", function()
    local r = celer.exec({ "salloc", "-n", "2", "--overcommit", program, "launched" },
      { env = { SLURM_CONF = folder .. "/slurm.conf" } })
    assert.equal("alone\n", r.stdout)
  end)

  -- In an allocation celer starts srun itself. Rank 1 ends the first start.
  local function restarts(act)
    local name = scratch.path(".lua")
    scratch.write(name, ([[
      local celer = require "celer"
      local q = celer.queue()
      local kept = celer.restore(arg[1])
      if not kept then celer.checkpoint(arg[1], {}) end
      q:wait()
      q:submit(function(cg) cg:host_task({ 2 }, function(part)
        if part.rank == 1 and not kept then %s end
      end) end)
      q:wait()
      print(celer.ranks(), kept ~= nil)]]):format(act))
    return celer.exec({ "salloc", "-n", "2", "--overcommit", celer.command(), "run", "--backend",
      "cpu", "--restarts", 1, "--lost", 20, "-n", 2, name, scratch.path() },
      { env = { SLURM_CONF = folder .. "/slurm.conf", SLURM_OVERCOMMIT = "1" } })
  end

  with_slurm("celer starts srun, and again when a task was killed", function()
    local r = restarts [[local ffi = require "ffi"
      ffi.cdef "int kill(int, int); int getpid(void); int usleep(unsigned);"
      ffi.C.kill(ffi.C.getpid(), 9) ffi.C.usleep(1e7)]]
    assert.same({ 0, "2\ttrue\n" }, { r.status, r.stdout }, r.stderr)
    assert.matches("celer: host %S+ lost its task 1; the run goes on from its last checkpoint; no "
      .. "restart is left\n", r.stderr)
  end, true)

  -- What srun has started goes on without it.
  with_slurm("celer ends the ranks whose srun was killed before it starts others", function()
    local own = scratch.folder()
    scratch.write(own .. "/case.lua", [[
      local celer = require "celer"
      local rank, ffi = require("celer.core").rank(), require "ffi"
      ffi.cdef "int kill(int, int); int getpid(void);"
      local kept = celer.restore "kept"
      if not kept then
        celer.checkpoint("kept", {})
        celer.queue():wait()
        local file = io.open("up." .. rank, "w")
        file:write(ffi.C.getpid(), "\n")
        file:close()
        while true do end
      end
      if rank == 0 then
        for k = 0, 1 do
          local pid = tonumber(io.open("up." .. k):read "*l")
          print(ffi.C.kill(pid, 0) == 0 and "goes on" or "has ended")
        end
      end]])
    local r = celer.exec({ "salloc", "-n", "2", "--overcommit", "sh", "-c", ([[
      %s run --backend cpu --restarts 1 --lost 60 -n 2 case.lua & p=$!
      until [ -s up.0 -a -s up.1 ]; do sleep 0.1; done
      kill -9 $(pgrep -P $p -x srun)
      wait $p]]):format(celer.command()) }, { cwd = own, timeout = 100,
      env = { SLURM_CONF = folder .. "/slurm.conf", SLURM_OVERCOMMIT = "1" } })
    assert.same({ 0, "has ended\nhas ended\n" }, { r.status, r.stdout }, r.stderr)
    assert.matches("celer: the launcher was killed; the run goes on from its last checkpoint; no "
      .. "restart is left\n", r.stderr)
  end, true)

  with_slurm("celer starts srun once if the script fails, though Slurm kills the others", function()
    local r = restarts "error 'wrong'"
    assert.is_true(r.status > 0 and r.status ~= 75, r.stderr)
    assert.matches("wrong [^\n]*\nceler: an error would come again: the run is not started again\n",
      r.stderr)
    assert.not_matches("goes on from", r.stderr)
  end, true)

  with_slurm("each rank takes the GPUs that Slurm gives it, and ranks divide what they share",
    function()
      scratch.write(folder .. "/which.lua", [[
        local core, names = require "celer.core", {}
        for i, gpu in ipairs(select(3, core.devices())) do names[i] = core.gpu(gpu).name end
        print(table.concat(names, ", "))]])
      for gpus, want in pairs({
        ["--gpus-per-task=1"] = "Fake 0; Fake 1",
        ["--gpus-per-task=2"] = "Fake 0, Fake 1; Fake 2, Fake 3",
        ["--gres=gpu:4"] = "Fake 0, Fake 1; Fake 2, Fake 3",
      }) do
        local r = srun({ celer.command(), "run", "--output", "all", "--backend", "cuda",
          folder .. "/which.lua" }, { ranks = 2, gpus = gpus,
          env = fake.env({ FAKE_GPUS = 4, FAKE_VISIBLE = 1 }) })
        assert.equal(want, table.concat(script.lines(r.stdout), "; "), gpus .. ": " .. r.stderr)
      end
    end, true)

  with_slurm("a wave looks as it does on one rank, to the bit", function()
    local one, four = folder .. "/one", folder .. "/four"
    local function wave(frames)
      return { celer.command(), "run", "examples/wave_sim.lua", 96, 60, 20, frames }
    end
    local alone = celer.exec(wave(one))
    assert.equal("", alone.stderr)
    assert.equal(0, alone.status)
    local r = srun(wave(four), { ranks = 4 })
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
    assert.equal(alone.stdout:match("[^\n]+"), r.stdout:match("[^\n]+"))
    local frames = celer.exec({ "ls", one }).stdout
    assert.matches("wave_00060.png", frames, 1, true)
    local diff = celer.exec({ "diff", "-r", one, four })
    assert.equal("", diff.stdout .. diff.stderr)
  end, true)
end)
