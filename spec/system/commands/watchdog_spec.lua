-- celer run --watchdog: a rank where nothing moves says what it waits for.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

-- The script finds what the run says on stderr in the file `said`.
local function run(text, options)
  local name, said = scratch.path(".lua"), scratch.path()
  scratch.write(name, 'local celer = require "celer"\nlocal q = celer.queue() local said = arg[1]\n'
    .. text)
  local argv = { "sh", "-c", "exec \"$@\" 2>" .. said, "sh", celer.command(), "run" }
  if options.ranks then
    local launch = { "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", options.ranks }
    for i, word in ipairs(launch) do table.insert(argv, 4 + i, word) end
  end
  for _, word in ipairs(options) do argv[#argv + 1] = word end
  argv[#argv + 1], argv[#argv + 2] = name, said
  local r = celer.exec(argv)
  r.stderr = scratch.read(said)
  return r
end

-- Line 3 on. Rank 1 stops in the middle of its task, until rank 0 has said so.
local stopped = [==[
local u = celer.buffer("int", { 8 }, { name = "u" })
local v = celer.buffer("int", { 8 }, { name = "v" })
local k = celer.kernel [=[
  kernel void fill(item<1> it, out<int, 1> u) { u(it[0]) = it[0]; }
  kernel void turn(item<1> it, in<int, 1> u, out<int, 1> v) { v(it[0]) = u(7 - it[0]); }
]=]
local function halves(chunk)
  return celer.box({ 4 * chunk.min[0] }, { 4 * chunk.max[0] })
end
q:submit(function(cg) cg:parallel_for({ 8 }, k.fill, cg:discard_write(u)) end)
q:submit(function(cg)
  cg:host_task({ 2 }, function(part)
    if part.rank == 0 then return end
    local ffi = require "ffi"
    ffi.cdef "int getpid(void); int kill(int, int);"
    local pid = ffi.C.getpid()
    os.execute(([[while [ -e /proc/$1 ]; do
        grep -q "nothing has moved" $2 && grep -q "^State:.T" /proc/$1/status \
          && touch $2.woken && kill -CONT $1
        sleep 0.1
      done > /dev/null 2>&1 &]]):gsub("$1", pid):gsub("$2", said))
    ffi.C.kill(pid, 19) -- SIGSTOP, which this thread may be the last to notice
    repeat until io.open(said .. ".woken")
  end, cg:read_write(u, halves))
end)
q:submit(function(cg)
  cg:parallel_for({ 8 }, k.turn, cg:read(u, celer.all), cg:discard_write(v))
end)
print(q:drain(v)(1))
]==]

describe("celer run --watchdog", function()
  it("names the buffer and task of what does not come, and from whom, once", function()
    for what, words in pairs {
      ["a message from rank 1, 16 bytes: u %[4, 8%); for task 'turn' %(x.lua:29%)"] =
        { "--no-collectives" },
      -- Two ranks with GPUs message each other.
      ["a collective, all_gather of u %[0, 8%), with all ranks; for task 'turn' %(x.lua:29%)"] =
        { "--backend", "cpu" },
    } do
      local r = run(stopped, { "--watchdog", "1", "--devices", "1", words[1], words[2],
        ranks = 2 })
      assert.equal(0, r.status)
      assert.equal("6\n", r.stdout)
      local text = r.stderr:gsub("[^%s(]+%.lua:", "x.lua:")
      assert.equal(1, select(2, text:gsub("nothing has moved", "")))
      assert.matches("^celer: warning: rank 0: nothing has moved for 1 s %(%-%-watchdog%); "
        .. "it waits for\n", text)
      assert.matches("\n  " .. what .. "\n", text)
    end
  end)

  it("names the task that takes long, on one rank", function()
    local r = run([==[
q:submit(function(cg)
  cg:name "sleeper"
  cg:host_task(celer.once, function()
    os.execute("until grep -q 'nothing has moved' " .. said .. "; do sleep 0.1; done")
  end)
end)
q:wait()
q:submit(function(cg) cg:host_task(celer.once, function() print "done" end) end)
q:drain()
]==], { "--watchdog", "1" })
    assert.equal(0, r.status)
    assert.equal("done\n", r.stdout)
    assert.matches("^celer: warning: nothing has moved for 1 s %(%-%-watchdog%); it waits for\n"
      .. "  host task 'sleeper' %(%S+%.lua:5%): it was begun, or is next in its lane\n"
      .. "%d+ instructions? waits? for these.\n$", r.stderr)
  end)

  -- The executor carries it out itself, and another takes its place meanwhile.
  it("names a kernel that was always short and does not end", function()
    local r = run([==[
local k = celer.kernel [=[
  #include <ctime>
  kernel void step(item<1> it, inout<int, 1> b) {
    b(0) += 1;
    for (auto begin = time(nullptr); b(0) % 200 == 0 && time(nullptr) < begin + 4;) {}
  }
]=]
local b = celer.buffer("int", { 1 }, { init = function() return 0 end })
for _ = 1, 410 do
  q:submit(function(cg) cg:parallel_for({ 1 }, k.step, cg:read_write(b, celer.one_to_one)) end)
end
print(q:drain(b)(0))
]==], { "--watchdog", "1", "--backend", "cpu", "--devices", "1" })
    assert.equal(0, r.status, r.stderr)
    assert.equal("410\n", r.stdout)
    assert.equal(2, select(2, r.stderr:gsub("nothing has moved for 1 s %(%-%-watchdog%); it waits "
      .. "for\n  task 'step' %(%S+%.lua:12%), chunk %[0, 1%), on device 0: it was begun", "")))
  end)

  -- Line 3 on. Who is at an object stays until the run has said what it waits for.
  local objects = [==[
local object = celer.host_object(KIND)
local function task(name, range, f)
  q:submit(function(cg)
    cg:name(name)
    cg:host_task(range, f, cg:side_effect(object, "exclusive"))
  end)
end
task("holder", { 2 }, function(part)
  local _ = part.min[0] == 0 and
    os.execute("until grep -q '" .. said .. "; do sleep 0.1; done")
end)
task("other", celer.on_master, function() end)
object:free()
q:drain()
]==]
  local function say(kind, words, ranks)
    local text = objects:gsub("KIND", kind):gsub("grep %-q '", "%0" .. words .. "' ")
    local r = run(text, { "--watchdog", "1", ranks = ranks })
    assert.equal(0, r.status, r.stderr)
    return (r.stderr:gsub("[^%s(]+%.lua:", "x.lua:"))
  end

  it("names the host object that others are at", function()
    assert.matches("\n  host task 'holder' (x.lua:7), chunk [0, 2): it was begun, or is next in "
      .. "its lane\n  host task 'other' (x.lua:7): others are at host object lock\n",
      say("'struct { int x; }', { name = 'lock' }", "nothing has moved"), 1, true)
  end)

  it("names the rank that a host object of the cluster is at", function()
    assert.matches("rank 1: nothing has moved for 1 s (--watchdog); it waits for\n"
      .. "  rank 0 to be done with host object file; for task 'holder' (x.lua:7)\n",
      say("function() return 1 end, { name = 'file', scope = 'cluster' }", "rank 1: nothing", 2),
      1, true)
  end)

  it("names the host object that does not end", function()
    local made = "function() return 1 end, { name = 'log', destructor = function() "
      .. "os.execute(\"until grep -q 'host object log' \" .. said .. \"; do sleep 0.1; done\") "
      .. "end }"
    local r = run("local o = celer.host_object(" .. made .. ")\nq:submit(function(cg)\n"
      .. "cg:host_task(celer.once, function() end, cg:side_effect(o))\nend)\no:free()\nq:drain()",
      { "--watchdog", "1" })
    assert.equal(0, r.status, r.stderr)
    assert.matches("\n  the end of host object log %(%S+%.lua:3%)\n", r.stderr)
  end)

  it("says nothing of a script that computes by itself, nor when it is off", function()
    local lonely = [==[
q:submit(function(cg) cg:host_task(celer.once, function() end) end)
q:wait()
os.execute("sleep 1.5")
]==]
    assert.equal("", run(lonely, { "--watchdog", "1" }).stderr)
    local busy = lonely:gsub("function%(%) end", [[function() os.execute("sleep 1.4") end]])
    assert.equal("", run(busy, { "--watchdog", "0" }).stderr)
    assert.equal("", run(busy, { "--watchdog", "1", "--log", "error" }).stderr)
  end)

  it("wants a whole number", function()
    local r = run("", { "--watchdog", "soon" })
    assert.equal(2, r.status)
    assert.matches("%-%-watchdog must be a whole number from 0 to 86400, not \"soon\"", r.stderr)
  end)

  it("names a kernel in which a loop never ends, though nothing comes of it", function()
    local r = run([==[
local v = celer.zeros("int", 4)
local k = celer.kernel(function(i, v)
  local k = 0
  while v[i] < 5 do k = (k + 1) % 7 if k == 9 then v[i] = 1 end end
end, { name = "for_ever" })
local ffi = require "ffi"
ffi.cdef "int getpid(void);"
os.execute((([[(until grep -q "nothing has moved" $1; do sleep 0.1; done
  kill -9 $2) > /dev/null 2>&1 &]]):gsub("$1", said):gsub("$2", ffi.C.getpid())))
k(4, v)
q:wait()
print "it ended"]==], { "--watchdog", "1", "--backend", "cpu" })
    assert.equal("", r.stdout)
    assert.matches("task 'for_ever'", r.stderr)
  end)
end)
