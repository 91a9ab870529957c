local ffi = require("ffi")
local celer = require("spec.support.celer")
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
        assert.is_true(n ~= nil and (ranks > #all or n == 1))
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

  it("describes the machine", function()
    local text = ffi.new("char[200]")
    c.cel_topology_describe(text, 200)
    assert.matches("%d+ cores?$", ffi.string(text))
  end)
end)
