-- Main in the executor's place, through lend_check.
local celer = require("spec.support.celer")

describe("a main that waits", function()
  it("does the executor's work itself, and leaves it to its thread when it goes on", function()
    local r = celer.exec({ (celer.command():gsub("celer$", "lend_check")) })
    assert.equal("all done\n", r.stdout, r.stderr)
    assert.equal(0, r.status)
  end)
end)
