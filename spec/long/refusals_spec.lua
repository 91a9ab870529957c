-- A sample of what the system may refuse; `check-long` has all of it.
local refusals = require("spec.long.refusals")

-- Every so many ways, by the number of ranks.
local EVERY = { [1] = 37, [2] = 331 }

describe("what the system refuses", function()
  if os.getenv("CELER_PRELOAD") ~= nil and os.getenv("CELER_PRELOAD") ~= "" then
    pending("is refused by a library that sanitizers do not go with")
    return
  end

  for ranks, every in pairs(EVERY) do
    it(("ends the run with a message, or not at all, %d ranks"):format(ranks), function()
      local told = 0
      for i, refusal in ipairs(refusals.all({ ranks })) do
        if i % every == 0 then
          local fault, outcome, r = refusals.one(refusal)
          assert.is_nil(fault, fault and ("%s: %s\n%s"):format(refusals.describe(refusal), fault,
            r.stderr))
          if outcome == "was told" then told = told + 1 end
        end
      end
      assert.is_true(told > 0)
    end)
  end
end)
