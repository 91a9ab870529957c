-- Host lanes with threads, through executor_check.
local celer = require("spec.support.celer")

local program = celer.command():gsub("celer$", "executor_check")

describe("host lanes", function()
  it("do each job once, each lane in a state of its own", function()
    local file = io.open(program)
    if not file then
      pending("not built: " .. program)
      return
    end
    file:close()
    local r = celer.exec({ program, "lanes" })
    assert.equal("2000 jobs\n", r.stdout)
    assert.equal(0, r.status)
  end)
end)
