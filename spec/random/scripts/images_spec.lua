-- Random kernels in Lua that read by indices: a sample of what
-- `celer run spec/random/scripts/images.lua` does, in which each feature occurs.
local celer = require("spec.support.celer")

local features = { "beside", "beyond", "chains", "changed", "columns", "from 1", "given", "guards",
  "how boxes", "how exact", "how hull", "later", "offsets",
  "one less", "pairs", "sentinels", "steps", "tables" }

describe("random programs with images", function()
  for _, shape in ipairs { { 1, 2 }, { 4, 1 } } do
    it(("hold what tables hold on %d ranks with %d devices"):format(unpack(shape)), function()
      local ranks, devices = unpack(shape)
      local r = celer.run({ "run", "--advice", "off", "--devices", celer.devices(devices, ranks),
        "spec/random/scripts/images.lua", tostring(100 * ranks), "20" },
        { ranks = ranks > 1 and ranks or nil, env = celer.sampled })
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.matches("^20 programs with images: ", r.stdout)
      for _, name in ipairs(features) do assert.matches(name .. " [1-9]", r.stdout) end
      if ranks > 1 then assert.matches("exchanges [1-9]", r.stdout) end
    end)
  end
end)
