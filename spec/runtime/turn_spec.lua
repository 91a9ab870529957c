-- Main, held back by horizons, through turn_check.
local celer = require("spec.support.celer")

describe("a main that waits for its turn", function()
  it("has it when what a horizon waits for is done, whatever follows that in its lane", function()
    local r = celer.exec({ (celer.command():gsub("celer$", "turn_check")) })
    assert.equal("main has its turn\n", r.stdout, r.stderr)
    assert.equal(0, r.status)
  end)
end)
