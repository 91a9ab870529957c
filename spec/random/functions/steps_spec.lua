-- Random steps that read where branches say: the same on ranks and devices, and folded.
local celer = require("spec.support.celer")

describe("random steps", function()
  it("come to the same however they are divided and folded", function()
    local function run(options, ranks)
      local words = { "run", "--advice", "off", "--no-sample", "--backend", "cpu" }
      for word in options:gmatch "%S+" do words[#words + 1] = word end
      for _, word in ipairs { "spec/random/functions/steps.lua", "21", "20" } do
        words[#words + 1] = word
      end
      local r = celer.run(words, { ranks = ranks, timeout = 120 })
      assert.equal("", r.stderr)
      return r.stdout
    end
    local want = run "--fold 1"
    assert.equal(20, select(2, want:gsub("\n", "")))
    assert.equal(want, run("--fold 4 --devices 2"))
    assert.equal(want, run("--fold 1", 3))
    assert.equal(want, run("--fold 4", 3))
  end)
end)
