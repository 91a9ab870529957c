-- Folds on a GPU: spec/device/fold_check.c.
local celer = require("spec.support.celer")
local check = celer.command():gsub("celer$", "fold_check")

describe("a fold on a GPU", function()
  it("has the bits of its steps one after another", function()
    local r = celer.exec({ check, "random", "300", tostring(os.time()) })
    if r.status == 77 then return pending((r.stdout:gsub("\n", ""))) end
    assert.equal("300 folds\n", r.stdout .. r.stderr)
    assert.equal(0, r.status)
  end)
end)
