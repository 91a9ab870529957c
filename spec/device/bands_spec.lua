-- Folds in place: spec/device/bands_check.c, and what it takes for one to be a job.
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
