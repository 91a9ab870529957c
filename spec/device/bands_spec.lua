-- Folds in place: spec/device/bands_check.c, and what it takes for one to be a job.
local ffi = require("ffi")
local cdef = require("spec.support.cdef")
local celer = require("spec.support.celer")
local check = celer.command():gsub("celer$", "bands_check")

local function run(...)
  return celer.exec({ check, ... })
end

describe("bands", function()
  for _, way in ipairs({ "bands", "jobs", "lanes" }) do
    it(way .. ": random folds have the bits of their steps one after another", function()
      local r = run(way, "1500", tostring(os.time()))
      assert.equal(0, r.status, r.stdout .. r.stderr)
      assert.equal("1500 folds\n", r.stdout)
    end)
  end

  it("give all runs rows where ends meet, also of a rank among others", function()
    local c = cdef("device/bands.h")
    local STEPS, N, RANKS, RUNS = 8, 65536, 16, 32
    local use = ffi.new("cel_fold_view[2][2]")
    for s = 0, 1 do
      use[s][0].array, use[s][0].element_size = s, 4
      use[s][0].below[0], use[s][0].above[0], use[s][0].wraps[0] = 1, 1, true
      use[s][1].array, use[s][1].element_size, use[s][1].writes = 1 - s, 4, true
    end
    local work, bands = ffi.new("cel_work"), ffi.new("cel__bands[1]")
    local call = ffi.new("cel_fold_call[?]", 2 * STEPS)
    local arrays = ffi.new("cel_fold_array[2]")
    for rank = 0, RANKS - 1 do
      local calls = 0
      local function add(s, from, to)
        if from >= to then return end
        call[calls] = { work = work, use = use[s % 2] }
        call[calls].call.views = 2
        call[calls].call.chunk = { { from, 0, 0 }, { to, 4096, 1 } }
        call[calls].call.range = { { 0, 0, 0 }, { N, 4096, 1 } }
        calls = calls + 1
      end
      for s = 0, STEPS - 1 do
        local grows = STEPS - 1 - s
        local from, to = rank * N / RANKS - grows, (rank + 1) * N / RANKS + grows
        add(s, math.max(from, 0), math.min(to, N))
        add(s, from + N, math.min(N, to + N))
        add(s, math.max(from - N, 0), to - N)
      end
      local fold = ffi.new("cel_fold_job[1]",
        { { steps = calls, step = call, arrays = 2, array = arrays } })
      local job = ffi.new("cel_job[1]", { { kind = "CEL_JOB_FOLD", fold = fold } })
      c.cel__bands_plan(job, RUNS, bands)
      local b = bands[0]
      local n = tonumber(b["end"] - b.begin - b.skipped)
      assert.equal(0, b.dim)
      assert.equal(RUNS, b.runs)
      assert.equal(N / RANKS + 2 * (STEPS - 1), n)
      assert.equal(rank == 0 or rank == RANKS - 1, b.ring)
    end
  end)

  it("find a fault in what calls of a lane are said to reach", function()
    local r = run("lanes", "500", "7", "reach")
    assert.equal(3, r.status, r.stdout .. r.stderr)
  end)

  for _, fault in ipairs({ "lag", "lead", "apart", "reach", "order", "drift",
    "ends", "ring" }) do
    it(("find a fault in what keeps steps apart: %s"):format(fault), function()
      local r = run("bands", "500", "7", fault)
      assert.equal(3, r.status, r.stdout .. r.stderr)
      assert.truthy(r.stdout:find("differs: ", 1, true), r.stdout)
    end)
  end
end)
