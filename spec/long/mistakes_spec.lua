-- A sample of the mistakes; `check-long` has all of them.
local run = require("spec.long.run")

local EVERY = 32

describe("a mistake", function()
  for _, one in ipairs(run.chosen({ every = EVERY })) do
    it(("gets one message, with its line: %s, %d ranks"):format(one.mistake.name, one.ranks),
      function()
        local fault, r = run.one(one.mistake, one.ranks)
        assert.is_nil(fault, fault and fault .. "\n" .. r.stderr)
      end)
  end
end)
