-- Random tasks, carried out in random orders, against an interpreter: a sample
-- of what `fuzz_instr CASES FIRST_SEED` does.
local celer = require("spec.support.celer")
local program = celer.command():gsub("celer$", "fuzz_instr")

describe("random tasks", function()
  local file = io.open(program)
  if not file then
    pending("need the program fuzz_instr")
    return
  end
  file:close()

  it("leave in memory what the interpreter says", function()
    local r = celer.exec({ program, "400", "1" })
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
    assert.matches("^400 cases", r.stdout)
  end)
end)
