-- Random steps that read where branches say: the same on ranks and devices, and folded. And
-- kernels that write in steps.
local celer = require("spec.support.celer")

local function run(program, options, ranks)
  local words = { "run", "--advice", "off", "--no-sample", "--backend", "cpu" }
  for word in options:gmatch "%S+" do words[#words + 1] = word end
  words[#words + 1] = "spec/random/functions/" .. program
  words[#words + 1], words[#words + 2] = "21", "20"
  local r = celer.run(words, { ranks = ranks, timeout = 120 })
  assert.equal("", r.stderr)
  return r.stdout
end

describe("random steps", function()
  it("come to the same however they are divided and folded", function()
    local want = run("steps.lua", "--fold 1")
    assert.equal(20, select(2, want:gsub("\n", "")))
    assert.equal(want, run("steps.lua", "--fold 4 --devices 2"))
    assert.equal(want, run("steps.lua", "--fold 1", 3))
    assert.equal(want, run("steps.lua", "--fold 4", 3))
  end)
end)

describe("random kernels that write elements some steps apart", function()
  it("write these, and leave what lies between", function()
    assert.equal("20\n", run("strides.lua", "--devices 1"))
    assert.equal("20\n", run("strides.lua", "--devices 2", 3))
  end)
end)
