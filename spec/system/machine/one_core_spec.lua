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
end)
