local ffi = require("ffi")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local cdef = require("spec.support.cdef")
local c = cdef("device/topology.h")

local function find(rank, ranks)
  local t = ffi.new("cel_topology")
  assert.equal(0, tonumber(c.cel_topology_find(rank or 0, ranks or 1, t)))
  local list = {}
  for i = 0, t.cores - 1 do list[i + 1] = t.core[i] end
  return t, list
end

describe("cel_topology_find", function()
  it("gives each core once, and no more than the host has", function()
    local t, list = find()
    local seen = {}
    assert.is_true(t.cores >= 1 and t.cores <= t.host_cores)
    for _, core in ipairs(list) do
      assert.is_nil(seen[core])
      seen[core] = true
    end
  end)

  it("divides an unbound host among its ranks", function()
    local whole, all = find()
    if whole.bound then return pending("this process is bound") end
    for ranks = 1, 2 * #all + 1 do
      local count = {}
      for rank = 0, ranks - 1 do
        local t, list = find(rank, ranks)
        assert.is_true(t.cores >= 1)
        for _, core in ipairs(list) do count[core] = (count[core] or 0) + 1 end
      end
      for _, core in ipairs(all) do
        local n = count[core]
        local each = math.max(1, ranks / #all)
        assert.is_true(n == math.floor(each) or n == math.ceil(each))
      end
    end
  end)

  it("respects a binding, whatever the number of ranks", function()
    local _, all = find()
    local text = ([[
      local ffi = require("ffi")
      local c = require("spec.support.cdef")("device/topology.h")
      for ranks = 1, 3 do
        local t = ffi.new("cel_topology")
        assert(c.cel_topology_find(ranks - 1, ranks, t) == 0)
        io.write(t.cores, " ", t.core[0], " ", tostring(t.bound), "; ")
      end
    ]])
    local last = all[#all]
    local r = celer.exec({ "env", "CELER_BUILD=" .. cdef.build_folder(),
      "LD_PRELOAD=" .. (os.getenv("CELER_PRELOAD") or ""),
      "taskset", "-c", tostring(last), "luajit", "-e", text })
    local want = ("1 %d %s; "):format(last, tostring(#all > 1))
    assert.equal(want:rep(3), r.stdout, r.stderr)
  end)

  -- What a run's threads may use, each thread's list of cores as the system has
  -- it; the script's own thread first.
  local function threads_of(prefix)
    local script = scratch.path()
    local file = assert(io.open(script, "w"))
    file:write([[
      local celer = require "celer"
      local q = celer.queue()
      local v = celer.buffer("int", 512)
      local k = celer.kernel "kernel void k(item<1> it, out<int, 1> v) { v(it[0]) = 1; }"
      for _ = 1, 50 do
        q:submit(function(cg) cg:parallel_for({ 512 }, k, cg:discard_write(v)) end)
      end
      q:submit(function(cg)
        cg:host_task(celer.once, function()
          local pipe = io.popen("cat /proc/$PPID/status /proc/$PPID/task/*/status")
          for line in pipe:lines() do
            local cores = line:match("^Cpus_allowed_list:%s*(.*)")
            if cores then print(cores) end
          end
        end, cg:read(v, celer.all))
      end)]])
    file:close()
    local argv = prefix
    for _, word in ipairs { celer.command(), "run", "--backend", "cpu", script } do
      argv[#argv + 1] = word
    end
    local r = celer.exec(argv)
    os.remove(script)
    assert.equal("", r.stderr)
    local list = {}
    for line in r.stdout:gmatch("[^\n]+") do list[#list + 1] = line end
    return list
  end

  it("has the threads that compute pinned to a core each, and the script's to none", function()
    local t, all = find()
    local seen, list = {}, threads_of {}
    for i, cores in ipairs(list) do
      local one = tonumber(cores)
      if i > 1 and one then seen[one] = true end
    end
    for _, core in ipairs(all) do assert.is_truthy(seen[core], "core " .. core) end
    if t.cores > 1 then assert.is_nil(tonumber(list[1])) end
  end)

  it("has no thread leave what the launcher gave", function()
    local _, all = find()
    for _, cores in ipairs(threads_of { "taskset", "-c", tostring(all[#all]) }) do
      assert.equal(tostring(all[#all]), cores)
    end
  end)

  it("describes the machine", function()
    local text = ffi.new("char[200]")
    c.cel_topology_describe(text, 200)
    assert.matches("%d+ cores?$", ffi.string(text))
  end)
end)
