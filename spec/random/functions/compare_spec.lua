-- Random functions, as kernels, by the evaluator and in the interpreter: a sample of what
-- `check-long` does, and that faults of the compiler are found.
local celer = require("spec.support.celer")

local function run(...)
  local r = celer.run({ "run", "--devices", "2", "--backend", "cpu", "--advice", "off",
    "--no-sample", "spec/random/functions/compare.lua", ... }, { timeout = 300 })
  assert.equal("", r.stderr)
  local functions, differ, leave = r.stdout:match(
    "(%d+) functions, %d+ refused, (%d+) differ, (%d+) leave their boxes")
  assert(functions, r.stdout)
  return tonumber(functions), tonumber(differ), tonumber(leave), r.stdout
end

describe("random functions", function()
  it("compute as kernels what they do", function()
    local functions, differ, leave, text = run("1", "60", "60")
    assert.is_true(functions > 50, text)
    assert.equal(0, differ, text)
    assert.equal(0, leave, text)
    local bounded, undecided = text:match "(%d+) elements with floats .-, (%d+) are undecided"
    assert.is_true(tonumber(bounded) > tonumber(undecided), text)
  end)

  it("compute what g++ 13 makes of a NaN where it threads jumps", function()
    local functions, differ, leave, text = run("10140982", "1", "1")
    assert.same({ 1, 0, 0 }, { functions, differ, leave }, text)
  end)

  -- A function that shows each fault.
  for _, case in ipairs {
    { "-0 below 0", 9 }, { "a 0 in sight", 3005917 }, { "a box of too few chunks", 25 },
    { "a lost field", 36 }, { "a lost sign", 57 }, { "a lost store", 4 },
    { "a saturated integer", 2 }, { "a thin box", 1 }, { "a turn too few", 19 },
    { "a turn too many", 40 }, { "a wrapped operand", 5121706 }, { "another NaN", 3 },
    { "another wrap", 13 }, { "no -0", 4 }, { "no rounding", 26 }, { "one more", 1 },
    { "quotients of C", 15 }, { "remainders of C", 3 },
  } do
    it("show a compiler's fault: " .. case[1], function()
      local _, differ, leave, text = run(tostring(case[2]), "1", "1", case[1])
      assert.is_true(differ + leave > 0, text)
    end)
  end
end)
