-- All threads of a rank on one core: who does whose work, and who is woken, is
-- another there.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local text = [[
local celer = require "celer"
local q = celer.queue()
local log = celer.host_object(function() return {} end, { name = "log" })
local sum = celer.buffer("double", { 64 }, { name = "sum", init = 0 })
local function add(round, i)
  q:submit(function(cg)
    cg:host_task({ 64 }, function(part, s)
      for k = part.min[0], part.max[0] - 1 do s[k] = s[k] + i end
    end, cg:read_write(sum, celer.one_to_one))
  end)
  q:submit(function(cg)
    cg:host_task(celer.on_master, function(_, list)
      list[#list + 1] = round * 100 + i
    end, cg:side_effect(log))
  end)
end
local fences = {}
for round = 1, 20 do
  for i = 1, round % 7 do add(round, i) end
  if round % 3 == 0 then q:wait() end
  if round % 5 == 0 then fences[#fences + 1] = q:fence(sum) end
end
q:submit(function(cg)
  cg:host_task(celer.on_master, function(_, list)
    for i = 2, #list do assert(list[i - 1] < list[i]) end
    print(#list)
  end, cg:side_effect(log))
end)
for i, fence in ipairs(fences) do print(fence:get()[i]) end
q:drain()
]]

-- Main, which has the core, waits for nothing; one burst of tasks after another.
local busy = [[
local celer = require "celer"
local q = celer.queue()
local flag = arg[1]
local function is_there()
  local file = io.open(flag)
  if file then file:close() end
  return file ~= nil
end
for _ = 1, 20 do
  os.remove(flag)
  q:submit(function(cg)
    cg:host_task(celer.on_master, function(_, name) io.open(name, "w"):close() end, flag)
  end)
  local late = os.clock() + 10
  while not is_there() and os.clock() < late do end
  if not is_there() then error("a task has not begun") end
end
q:drain()
print "all begun"
]]

-- Kernels that were short: the first of a chain of each lasts, once. Main leaves the executor
-- to its thread, as there is a timeline.
local lasting = [[
local celer = require "celer"
local q = celer.queue()
local k = celer.kernel [=[
  #include <time.h>
  static CELER_FN void last(double &a, int ms) {
    timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
    a += 1;
  }
  kernel void one(item<1> it, inout<double, 1> a, int ms) { last(a(it[0]), ms); }
  kernel void two(item<1> it, inout<double, 1> a, int ms) { last(a(it[0]), ms); }
  kernel void three(item<1> it, inout<double, 1> a, int ms) { last(a(it[0]), ms); }
]=]
local a = celer.buffer("double", { 1 }, { init = 0 })
local function step(kernel, ms)
  q:submit(function(cg) cg:parallel_for(1, kernel, cg:read_write(a), ms) end)
end
local least = math.huge
for _, kernel in ipairs { k.one, k.two, k.three } do
  for _ = 1, 100 do step(kernel, 0) end
  q:wait()
  for i = 1, 30 do step(kernel, i == 1 and 300 or 0) end
  local begin = celer.time()
  q:wait()
  least = math.min(least, celer.time() - begin)
end
print(least < 1.5 and "went on" or ("went on after %.1f s"):format(least))
]]

describe("on one core", function()
  local found = io.popen("command -v taskset"):read("*l")

  -- A core that this process may run on.
  local function core()
    local list = io.open("/proc/self/status"):read("*a"):match("Cpus_allowed_list:%s*(%d+)")
    return assert(list)
  end

  for ranks = 1, 2 do
    it(("tasks, waits and fences do what they do on many, %d ranks"):format(ranks), function()
      if not found then return pending("no taskset") end
      local name = scratch.path(".lua")
      scratch.write(name, text)
      local argv = { "taskset", "-c", core() }
      if ranks > 1 then
        for _, word in ipairs { "mpirun", "--oversubscribe", "--allow-run-as-root",
          "--bind-to", "none", "-n", ranks } do
          argv[#argv + 1] = word
        end
      end
      for _, word in ipairs { celer.command(), "run", name } do argv[#argv + 1] = word end
      local r = celer.exec(argv)
      local lines = {}
      for line in r.stdout:gmatch("(%d+)\n") do lines[#lines + 1] = line end
      assert.equal("", r.stderr)
      table.sort(lines)
      assert.equal("113 168 35 63 66", table.concat(lines, " "))
      assert.equal(0, r.status)
    end)
  end

  it("a task begins though main goes on", function()
    if not found then return pending("no taskset") end
    local name, flag = scratch.path(".lua"), scratch.path(".flag")
    scratch.write(name, busy)
    local r = celer.exec { "taskset", "-c", core(), celer.command(), "run", name, flag }
    assert.equal("all begun\n", r.stdout, r.stderr)
    assert.equal(0, r.status)
  end)

  it("what is behind a kernel that lasted goes on though another thread executes", function()
    if not found then return pending("no taskset") end
    local name, trace = scratch.path(".lua"), scratch.path(".json")
    scratch.write(name, lasting)
    local r = celer.exec { "taskset", "-c", core(), celer.command(), "run", "--trace", trace, name }
    assert.equal("went on\n", r.stdout, r.stderr)
  end)
end)
