local ffi = require("ffi")
local celer = require("spec.support.celer")
local child = require("spec.support.child")
local scratch = require("spec.support.scratch")
local cdef = require("spec.support.cdef")
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local preload = require("spec.support.preload")
local script = require("spec.support.script")
local c = cdef("device/topology.h")

local function find(rank, ranks)
  local t = ffi.new("cel_topology")
  assert.equal(0, tonumber(c.cel_topology_find(rank or 0, ranks or 1, t)))
  local list = {}
  for i = 0, t.cores - 1 do list[i + 1] = t.core[i] end
  return t, list
end

-- Two sockets of so many cores, and a GPU near each, as hwloc describes machines.
local function two_sockets(cores, buses)
  local lines = {}
  local function add(...) lines[#lines + 1] = string.format(...) end
  local function open(kind, number, cpus, nodes, more)
    add('<object type="%s" os_index="%d" cpuset="0x%x" complete_cpuset="0x%x" nodeset="0x%x" '
      .. 'complete_nodeset="0x%x" %s>', kind, number, cpus, cpus, nodes, nodes, more or "")
  end
  local all = 2 ^ (2 * cores) - 1
  add('<topology version="2.0">')
  open("Machine", 0, all, 3, ('allowed_cpuset="0x%x" allowed_nodeset="0x3"'):format(all))
  for s = 0, 1 do
    local own = (2 ^ cores - 1) * 2 ^ (s * cores)
    open("Package", s, own, 2 ^ s)
    open("NUMANode", s, own, 2 ^ s, 'local_memory="4096"')
    add("</object>")
    for core = s * cores, (s + 1) * cores - 1 do
      open("Core", core, 2 ^ core, 2 ^ s)
      open("PU", core, 2 ^ core, 2 ^ s)
      add("</object></object>")
    end
    local bus = buses[s + 1]
    add('<object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[%s-%s]">', bus, bus)
    add('<object type="PCIDev" pci_busid="0000:%s:00.0" pci_type="0302 [10de:2335] [10de:18be] '
      .. 'a1" pci_link_speed="0"/>', bus)
    add("</object></object>")
  end
  add("</object></topology>")
  local path = scratch.path(".xml")
  scratch.write(path, table.concat(lines, "\n"))
  return path
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
    if whole.restricted then return pending("this process is bound") end
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

  -- Of each rank: how many cores, whether it keeps to them, how many ranks have those that
  -- it may be on, and the processing units of its own.
  for machine, want in pairs({
    ["core:4 pu:2(indexes=0,4,1,5,2,6,3,7)"] = {
      "4 - 1 0,1,2,3,4,5,6,7",
      "2 keeps 1 0,1,4,5; 2 keeps 1 2,3,6,7",
      "1 keeps 1 0,4; 1 keeps 1 1,5; 2 keeps 1 2,3,6,7",
      "1 keeps 1 0,4; 1 keeps 1 1,5; 1 keeps 1 2,6; 1 keeps 1 3,7",
      "1 - 5 0,4; 1 - 5 0,4; 1 - 5 1,5; 1 - 5 2,6; 1 - 5 3,7",
      [8] = ("1 keeps 2 0,4; "):rep(2) .. ("1 keeps 2 1,5; "):rep(2)
        .. ("1 keeps 2 2,6; "):rep(2) .. "1 keeps 2 3,7; 1 keeps 2 3,7",
    },
    ["pu:3"] = { "3 - 1 0,1,2", "1 keeps 1 0; 2 keeps 1 1,2",
      "1 keeps 1 0; 1 keeps 1 1; 1 keeps 1 2" },
  }) do
    it("gives whole cores, with all their hyperthreads, of " .. machine, function()
      local text = [[
        local ffi = require("ffi")
        local c = require("spec.support.cdef")("device/topology.h")
        for ranks = 1, 8 do
          local parts = {}
          for rank = 0, ranks - 1 do
            local t, units = ffi.new("cel_topology"), {}
            assert(c.cel_topology_find(rank, ranks, t) == 0)
            for i = 0, 63 do
              if bit.band(tonumber(t.pu[0] / 2ULL ^ i), 1) == 1 then units[#units + 1] = i end
            end
            parts[#parts + 1] = ("%d %s %d %s"):format(t.cores, t.keeps and "keeps" or "-",
              t.sharers, table.concat(units, ","))
          end
          print(table.concat(parts, "; "))
        end]]
      local r = child(text, { HWLOC_SYNTHETIC = machine })
      local ranks = 0
      for line in r.stdout:gmatch("[^\n]+") do
        ranks = ranks + 1
        assert.equal(want[ranks] or line, line)
      end
      assert.equal(8, ranks, r.stderr)
    end)
  end

  it("respects a binding, whatever the number of ranks", function()
    local _, all = find()
    local text = ([[
      local ffi = require("ffi")
      local c = require("spec.support.cdef")("device/topology.h")
      for ranks = 1, 3 do
        local t = ffi.new("cel_topology")
        assert(c.cel_topology_find(ranks - 1, ranks, t) == 0)
        io.write(t.cores, " ", t.core[0], " ", tostring(t.restricted), "; ")
      end
    ]])
    local last = all[#all]
    local r = child.exec({ "taskset", "-c", tostring(last), "luajit", "-e", text })
    local want = ("1 %d %s; "):format(last, tostring(#all > 1))
    assert.equal(want:rep(3), r.stdout, r.stderr)
  end)

  -- What a run's threads may use, each thread's list of cores as the system has
  -- it; the script's own thread first.
  local function threads_of(prefix)
    local path = scratch.path()
    scratch.write(path, [[
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
    local argv = prefix
    for _, word in ipairs { celer.command(), "run", "--backend", "cpu", path } do
      argv[#argv + 1] = word
    end
    local r = celer.exec(argv)
    os.remove(path)
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

  it("knows, and keeps to, cores of a host that counts more than 1,024", function()
    local env = preload("many_cpus")
    env.LD_PRELOAD = (os.getenv("CELER_PRELOAD") or "") .. " " .. env.LD_PRELOAD
    env.HWLOC_SYNTHETIC, env.HWLOC_THISSYSTEM = "pu:2048", 1
    local r = child([[
      local ffi = require("ffi")
      local c = require("spec.support.cdef")("device/topology.h")
      ffi.cdef "int cel_park_cores(void);"
      local FIRST = 1500
      local function allowed()
        local list = io.open("/proc/thread-self/status"):read("*a"):match("allowed_list:%s*(%S+)")
        return list, tonumber(list:match("^%d+")), tonumber(list:match("%d+$"))
      end
      local all, first, last = allowed()
      local t, before = ffi.new("cel_topology"), c.cel_topology_identity()
      assert(c.cel_topology_find(0, 1, t) == 0)
      print(t.host_cores, t.restricted, t.core[0] - FIRST == first,
        t.core[t.cores - 1] - FIRST == last)
      print(t.cores == c.cel_park_cores())
      c.cel_topology_pin(t, t.cores - 1)
      print(allowed() == tostring(last), c.cel_topology_identity() ~= before or first == last)
      c.cel_topology_pin(t, -1)
      print(allowed() == all, c.cel_topology_identity() == before)
      assert(c.cel_topology_find(t.cores - 1, t.cores, t) == 0)
      t.keeps = true -- though it be the only one
      c.cel_topology_keep(t)
      print(allowed() == tostring(last), c.cel_park_cores())]], env)
    assert.equal("2048 true true true; true; true true; true true; true 1; ",
      (r.stdout:gsub("\t", " "):gsub("\n", "; ")), r.stderr)
  end)

  it("knows the cores that a GPU is near, and takes all where none of them is ours", function()
    local path = two_sockets(2, { "10", "90" })
    local text = [[
      local ffi = require("ffi")
      local c = require("spec.support.cdef")("device/topology.h")
      local function near(bus, ...)
        local t, out = ffi.new("cel_topology"), ffi.new("cel_topology")
        for i, core in ipairs { ... } do t.core[i - 1] = core end
        t.cores = select("#", ...)
        c.cel_topology_near(t, bus, out)
        local list = {}
        for i = 0, out.cores - 1 do list[i + 1] = out.core[i] end
        return table.concat(list, " ")
      end
      print(near("0000:10:00.0", 0, 1, 2, 3))
      print(near("0000:90:00.0", 0, 1, 2, 3))
      print(near("0000:90:00.0", 1, 2))
      print(near("0000:90:00.0", 0, 1))
      print(near("0000:20:00.0", 0, 1, 2, 3))]]
    local r = child(text, { HWLOC_XMLFILE = path })
    os.remove(path)
    assert.equal("0 1\n2 3\n2\n0 1\n0 1 2 3\n", r.stdout, r.stderr)
  end)

  it("has the thread of each GPU pinned near it", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    local _, all = find()
    if #all < 2 or all[1] ~= 0 or all[2] ~= 1 then return pending("needs cores 0 and 1") end
    local path = two_sockets(1, { "10", "11" })
    -- They have launched something before they are looked at.
    local r = script.run([[
      local v = celer.buffer("int", 512)
      local k = celer.kernel "kernel void k(item<1> it, out<int, 1> v) { v(it[0]) = 1; }"
      q:submit(function(cg) cg:parallel_for(512, k, cg:discard_write(v)) end)
      q:submit(function(cg)
        cg:host_task(celer.once, function()
          local pipe = io.popen("for t in /proc/$PPID/task/*; do cat $t/comm $t/status; done")
          local name
          for line in pipe:lines() do
            name = line:match("^celer gpu %d$") or name
            local cores = name and line:match("^Cpus_allowed_list:%s*(.*)")
            if cores then print(name, cores) name = nil end
          end
        end, cg:read(v, celer.all))
      end)
      q:wait()]], { devices = 2 }, { before = { "--backend", "cuda", "--devices", 2 },
      env = fake.env({ FAKE_GPUS = 2, HWLOC_XMLFILE = path }) })
    os.remove(path)
    assert.equal("celer gpu 0\t0; celer gpu 1\t1", table.concat(script.lines(r.stdout), "; "),
      r.stderr)
  end)

  it("describes the machine", function()
    local text = ffi.new("char[200]")
    c.cel_topology_describe(text, 200)
    assert.matches("%d+ cores?$", ffi.string(text))
  end)
end)
