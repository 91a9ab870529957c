-- Which cores the threads of each rank keep to, where the launcher binds none.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local text = [[
local celer = require "celer"
local _, ranks = require("celer.core").rank()
local q = celer.queue()
local function cores()
  return io.open("/proc/thread-self/status"):read("*a"):match "Cpus_allowed_list:%s*(%S+)"
end
q:submit(function(cg)
  cg:host_task({ ranks }, function() print("task", cores()) end)
end)
q:wait()
print("script", cores())
]]

-- "0-2,5" as a set, and how many.
local function set_of(list)
  local set, n = {}, 0
  for first, last in list:gmatch "(%d+)%-?(%d*)" do
    for core = first, last == "" and first or last do
      set[tonumber(core)], n = true, n + 1
    end
  end
  return set, n
end

describe("the cores of a host", function()
  local path = scratch.path(".lua")
  setup(function() scratch.write(path, text) end)
  teardown(function() os.remove(path) end)

  local all, count = set_of(io.open("/proc/self/status"):read("*a")
    :match("Cpus_allowed_list:%s*(%S+)"))

  -- What the threads of each rank say: `parts`, of the tasks; `same`: the script's
  -- threads say so, too.
  local function parts_of(ranks, option)
    local r = celer.run({ "run", "--backend", "cpu", "--devices", 1, "--output", "all",
      option or "--advice=off", path }, { ranks = ranks })
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
    local tasks, scripts = {}, {}
    for line in r.stdout:gmatch "[^\n]+" do
      local who, list = line:match "(%a+)%s+(%S+)$"
      table.insert(who == "task" and tasks or scripts, list)
    end
    table.sort(tasks)
    table.sort(scripts)
    assert.equal(ranks, #tasks)
    assert.same(tasks, scripts)
    return tasks
  end

  for ranks = 2, 4 do
    it(("are divided by %d ranks that have the same"):format(ranks), function()
      local even = count >= ranks or ranks % count == 0
      local times = {}
      for _, list in ipairs(parts_of(ranks)) do
        local set, n = set_of(list)
        local part = even and math.max(1, count / ranks) or count
        assert.is_true(n >= math.floor(part) and n <= math.ceil(part))
        for core in pairs(set) do times[core] = (times[core] or 0) + 1 end
      end
      for core in pairs(all) do
        assert.equal(even and math.max(1, ranks / count) or ranks, times[core])
      end
    end)
  end

  it("are everybody's where ranks are not to keep to any", function()
    for _, list in ipairs(parts_of(2, "--no-bind")) do
      local _, n = set_of(list)
      assert.equal(count, n)
    end
  end)

  -- Threads poll where a rank has many.
  it("count as each rank's part of them where ranks are not to keep to any", function()
    local own = scratch.path(".lua")
    scratch.write(own, ([[
local ffi = require "ffi"
ffi.cdef "int cel_park_share(int processes);"
require("celer").queue():wait()
print(ffi.load "%s/libceler.so".cel_park_share(2))]]):format(celer.folder()))
    local r = celer.exec { "mpirun", "--oversubscribe", "-n", 2, "taskset", "-c", next(all),
      celer.command(), "run", "--no-bind", "--output", "all", own }
    os.remove(own)
    assert.equal("", r.stderr)
    assert.equal("0; 0", (r.stdout:gsub("%[%d%] ", ""):gsub("\n(.)", "; %1"):gsub("\n", "")))
  end)

  it("are said to be for kernels alone where ranks are not to keep to any", function()
    for ranks, want in ipairs { "belong to this rank",
      "are for this rank's kernels; its other threads keep to none %(%-%-no%-bind%)" } do
      local r = celer.run({ "info" }, { ranks = ranks, env = { CELER_NO_BIND = "1" } })
      assert.equal(0, r.status, r.stderr)
      local n, said = r.stdout:match "\ncores +(%d+) of this host's %d+ ([^\n]*)"
      assert.matches("^" .. want, said)
      assert.equal(math.max(1, math.floor(count / ranks)), tonumber(n))
    end
  end)

  it("are those of one rank alone", function()
    local _, n = set_of(parts_of(1)[1])
    assert.equal(count, n)
  end)
end)
