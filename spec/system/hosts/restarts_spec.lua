-- celer run --restarts on several hosts: a sample of spec/long/restarts.lua.
local hosts = require("spec.support.hosts")
local long = require("spec.long.restarts")

describe("celer run --restarts, on several hosts,", function()
  hosts.it("comes to its result though a rank and a host are killed", function()
    local fault, _, restarted = long.one(math.random(1000), 2, { "rank", "host" })
    assert.is_nil(fault, fault)
    assert.same({ rank = 1, host = 1 }, restarted)
  end)

  hosts.it("asks again where no host answers for a while", function()
    local fault, _, restarted = long.one(math.random(1000), 1, { "deaf" })
    assert.is_nil(fault, fault)
    assert.same({ deaf = 1 }, restarted)
  end)
end)
