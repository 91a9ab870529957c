-- Random programs of routes and lists: a sample of what
-- `celer run spec/random/scripts/routes.lua` does, in which each of them occurs.
local celer = require("spec.support.celer")

local features = { "256 keys", "Lua", "and", "another size", "appended", "bins",
  "counts asked for", "dimensions 0", "dimensions 1", "dimensions 2", "dimensions 3", "filled",
  "fitted", "full", "grown", "kept", "made in Lua", "max", "min", "moved", "moved by capacity",
  "or", "prod", "skipped", "streams", "sum", "vectors", "widened" }

describe("random programs of routes", function()
  for _, shape in ipairs { { 1, 2 }, { 3, 1 } } do
    it(("hold what tables hold on %d ranks with %d devices"):format(unpack(shape)), function()
      local ranks, devices = unpack(shape)
      local r = celer.run({ "run", "--advice", "off", "--devices", celer.devices(devices, ranks),
        "spec/random/scripts/routes.lua", "300", "40" },
        { ranks = ranks > 1 and ranks or nil, env = celer.sampled })
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.matches("^40 programs of routes: ", r.stdout)
      for _, name in ipairs(features) do assert.matches(name .. " [1-9]", r.stdout) end
    end)
  end

  it("hold what tables hold by the kernels of a GPU", function()
    local r = celer.run({ "run", "--backend", "cpu", "--devices", "1", "--advice", "off",
      "spec/random/scripts/routes.lua", "2000", "3", "8", "gpu" }, { env = celer.sampled })
    assert.equal("", r.stderr)
    assert.matches("^3 programs of routes: .*moved [1-9]", r.stdout)
  end)

  it("make mistakes in a session, which all ranks tell alike", function()
    local r = celer.run({ "run", "-i", "--advice", "off", "spec/random/scripts/routes.lua", "300",
      "30" }, { ranks = 3, stdin = "", env = celer.sampled })
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
    assert.matches("mistakes [1-9]", r.stdout)
    assert.matches("overflows [1-9]", r.stdout)
  end)
end)
