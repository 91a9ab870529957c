-- celer run --lost: the job ends when a rank is heard of no more, and goes on after a pause.
local celer = require("spec.support.celer")
local preload = require("spec.support.preload")
local scratch = require("spec.support.scratch")

-- Rank WHO does something to itself: `act(pid, C)`. Line 2 on.
local SCRIPT = [==[
local celer = require "celer"
local q = celer.queue()
print "begins"
q:submit(function(cg)
  cg:host_task({ 3 }, function(part)
    local ffi = require "ffi"
    ffi.cdef "int getpid(void); int kill(int, int);"
    local pid = ffi.C.getpid()
    if part.rank == WHO then ACT end
  end)
end)
REST
q:wait()
print "done"
]==]

-- Threads go on for a while until all of them are stopped.
local PAUSE = "ffi.cdef 'int poll(void *, size_t, int);' ffi.C.poll(nil, 0, 1000) "
local STOP = "ffi.C.kill(pid, 19) " .. PAUSE
local STOP_ONCE_HEARD = PAUSE .. STOP

-- Until the file `said`, with what the run says on stderr, has `words`; then the process goes on.
local function stop_until(words)
  return ([[os.execute("(until grep -q '%s' " .. arg[1] .. "; do sleep 0.1; done; kill -CONT "
    .. pid .. ") >/dev/null 2>&1 &") ]]):format(words) .. STOP
end

local function run(case)
  local name, said = scratch.path(".lua"), scratch.path()
  scratch.write(name, (SCRIPT:gsub("%u%u%u+", function(word)
    return ({ WHO = tostring(case.who), ACT = case.act, REST = case.rest or "" })[word]
  end)))
  local argv = { "sh", "-c", "exec \"$@\" 2>" .. said, "sh", "mpirun", "--oversubscribe",
    "--allow-run-as-root", "-n", 3, celer.command(), "run", "--backend", "cpu" }
  for _, word in ipairs(case) do argv[#argv + 1] = word end
  argv[#argv + 1], argv[#argv + 2] = name, said
  local env = { LD_PRELOAD = case.preloaded }
  for key, value in pairs(celer.patient) do env[key] = value end
  local r = celer.exec(argv, { env = env, timeout = 100 })
  r.stderr = scratch.read(said)
  return r
end

local function lost(r, rank)
  assert.is_false(r.timed_out)
  assert.equal(75, r.status, r.stderr)
  assert.equal("begins\n", r.stdout)
  local found = r.stderr:match("celer: rank (%d) on host %S+ is lost: rank %d on host %S+ has "
    .. "heard nothing of it for 2 s %(%-%-lost%)%. [^\n]*\n")
  assert.equal(tostring(rank), found, r.stderr)
  assert.equal(1, select(2, r.stderr:gsub("celer: ", "")), r.stderr)
end

describe("celer run --lost", function()
  for rank = 0, 2 do
    it("ends all, and says once which rank is lost: " .. rank, function()
      lost(run({ "--lost", 2, who = rank, act = STOP_ONCE_HEARD }), rank)
    end)
  end

  it("adds no word where a rank hears the launcher before it hears the others", function()
    lost(run({ "--lost", 2, who = 0, act = STOP_ONCE_HEARD, rest = "while true do end",
      preloaded = preload("slow_news").LD_PRELOAD }), 0)
  end)

  it("does so while main computes, and others wait for messages", function()
    lost(run({ "--lost", 2, who = 1, act = STOP_ONCE_HEARD, rest = "while true do end" }), 1)
  end)

  it("goes on when the rank comes back, after a word on who is silent", function()
    local r = run({ "--lost", 60, "--watchdog", 4, who = 1, act = stop_until("has been silent") })
    assert.equal(0, r.status, r.stderr)
    assert.equal("begins\ndone\n", r.stdout)
    assert.matches("celer: warning: rank [02]: nothing has moved for 4 s %(%-%-watchdog%); it "
      .. "waits for\n.-\nrank 1 on host %S+ has been silent for %d s; after 60 s all ranks end "
      .. "%(%-%-lost%)\n", r.stderr)
  end)

  it("misses nobody who computes, compiles or waits", function()
    local r = run({ "--lost", 1, who = 1, act = "os.execute 'sleep 2.5'",
      rest = "local t = os.time() while os.time() < t + 3 do end" })
    assert.same({ 0, "begins\ndone\n", "" }, { r.status, r.stdout, r.stderr })
  end)

  it("leaves it to the launcher when a rank is killed", function()
    local r = run({ "--lost", 60, who = 1, act = "ffi.C.kill(pid, 9)" })
    assert.is_true(r.status ~= 0 and r.status ~= 124, r.status) -- 137 is mpirun's account
    assert.not_matches("is lost", r.stderr)
  end)

  it("is the same on all ranks, and a whole number", function()
    local r = celer.run({ "run", "--lost", "soon", "x.lua" })
    assert.equal(2, r.status)
    assert.matches("%-%-lost must be a whole number from 0 to 86400, not \"soon\"", r.stderr)
    local argv = { "mpirun", "--oversubscribe", "-n", 1, celer.command(), "run", "--lost", 5, "-e",
      "", ":", "-n", 1, celer.command(), "run", "-e", "" }
    r = celer.exec(argv)
    assert.matches("rank 1 was started without %-%-lost, rank 0 with %-%-lost 5: give all ranks "
      .. "the same", r.stderr)
  end)
end)
