-- Random programs with files, checkpoints and changing weights: a sample of what
-- `celer run --measure spec/random/scripts/files.lua` does, each going on from what the one
-- before kept.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

describe("random programs with files", function()
  it("hold what tables hold, on changing numbers of ranks", function()
    local folder = scratch.folder()
    for i, shape in ipairs { { 3, 1 }, { 1, 2 } } do
      local r = celer.run({ "run", "--measure", "--devices", celer.devices(shape[2], shape[1]),
        "spec/random/scripts/files.lua", folder, tostring(i * 100), "3" },
        { ranks = shape[1] > 1 and shape[1] or nil })
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.equal(("3 programs with files, %s\n"):format(i > 1 and "after a restore"
        or "afresh"), r.stdout)
    end
  end)
end)
