-- Random functions, as kernels and in the interpreter: a sample of what `check-long` does, and
-- that it can fail.
local celer = require("spec.support.celer")

local function run(...)
  local r = celer.run { "run", "--devices", "2", "--backend", "cpu", "--advice", "off",
    "spec/random/functions/compare.lua", ... }
  assert.equal("", r.stderr)
  local functions, differ, leave = r.stdout:match(
    "(%d+) functions, %d+ refused, (%d+) differ, (%d+) leave their boxes\n$")
  assert(functions, r.stdout)
  return tonumber(functions), tonumber(differ), tonumber(leave), r.stdout
end

describe("random functions", function()
  it("compute as kernels what the interpreter does", function()
    local functions, differ, leave, text = run("1", "60", "60")
    assert.is_true(functions > 50, text)
    assert.equal(0, differ, text)
    assert.equal(0, leave, text)
  end)

  it("differ where the kernel adds 1", function()
    local _, differ = run("2", "10", "10", "spoil")
    assert.is_true(differ > 0)
  end)
end)
