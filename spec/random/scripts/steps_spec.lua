-- Random loops of steps, submitted by q:submit, by functions of q:group and by calls of a kernel:
-- a sample of what `celer run spec/random/scripts/steps.lua` does, in which each of them occurs.
local celer = require("spec.support.celer")

local features = { "around", "arguments", "called arguments", "called maker", "captured",
  "captured_counter", "counter", "fields", "flags", "freed", "helper", "hint", "libraries",
  "long way", "maker", "outer", "prepared arguments", "prepared captured", "prepared fields",
  "prepared flags", "prepared libraries", "prepared maker", "prepared outer", "prepared tested",
  "reduced", "reduced again", "special", "state", "sum", "tested" }

describe("random loops of steps", function()
  for _, shape in ipairs { { 1, 2 }, { 3, 1 } } do
    it(("hold what tables hold on %d ranks with %d devices"):format(unpack(shape)), function()
      local ranks, devices = unpack(shape)
      local r = celer.run({ "run", "--advice", "off", "--devices", celer.devices(devices, ranks),
        "spec/random/scripts/steps.lua", "600", "20" },
        { ranks = ranks > 1 and ranks or nil, env = celer.sampled })
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.matches("^20 programs of steps: ", r.stdout)
      for _, name in ipairs(features) do assert.matches(name .. " [1-9]", r.stdout) end
    end)
  end
end)
