-- Random kernels in Lua that read by indices: a sample of what
-- `celer run spec/random/scripts/images.lua` does, in which each feature occurs.
-- All shapes have the same programs, so that their kernels are compiled once.
local celer = require("spec.support.celer")

local features = { "beside", "beyond", "chains", "changed", "columns", "from 1", "given", "guards",
  "how boxes", "how exact", "how hull", "later", "offsets",
  "one less", "pairs", "sentinels", "short", "steps", "tables" }

describe("random programs with images", function()
  for _, shape in ipairs { { 1, 2, "64M" }, { 4, 1 }, { 3, 1, "64M" } } do
    it(("hold what tables hold on %d ranks with %d devices"):format(unpack(shape)), function()
      local ranks, devices, memory = unpack(shape)
      local env = { CELER_NO_SAMPLE = celer.sampled.CELER_NO_SAMPLE, CELER_DEVICE_MEMORY = memory }
      local r = celer.run({ "run", "--advice", "off", "--devices", celer.devices(devices, ranks),
        "spec/random/scripts/images.lua", "400", "20" },
        { ranks = ranks > 1 and ranks or nil, env = env })
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.matches("^20 programs with images: ", r.stdout)
      for _, name in ipairs(features) do assert.matches(name .. " [1-9]", r.stdout) end
      if memory then assert.matches("small [1-9]", r.stdout) end
      if ranks > 1 then assert.matches("exchanges [1-9]", r.stdout) end
    end)
  end

  it("hold what tables hold where kernels bring rows", function()
    local r = celer.run({ "run", "--backend", "cpu", "--advice", "off", "--devices", "1",
      "spec/random/scripts/images.lua", "500", "10", "gpu" }, { ranks = 3, env = celer.sampled })
    assert.equal("", r.stderr)
    assert.matches("^10 programs with images: .*exchanges [1-9].*kept [1-9].*rows by kernels [1-9]",
      r.stdout)
  end)
end)
