-- Random programs with mappers of every form, fills, copies and frees: a sample of what
-- `celer run spec/random/scripts/mappers.lua` does, in which each of them occurs.
local celer = require("spec.support.celer")

local features = { "2d", "3d", "clamped", "collective", "constant", "copy", "diagonal", "divided",
  "each index", "even_split", "fill", "free", "gaps", "host task", "kernel", "mirrored", "negative",
  "opaque", "periodic", "scaled", "strips", "transposed" }

local function run(seed, ranks, devices)
  local words = { "run", "--advice", "off", "--devices", celer.devices(devices, ranks),
    "spec/random/scripts/mappers.lua", tostring(seed), "20" }
  return celer.run(words, { ranks = ranks, env = celer.sampled })
end

describe("random programs with mappers", function()
  for _, shape in ipairs { { 1, 3 }, { 4, 2 } } do
    it(("hold what tables hold on %d ranks with %d devices"):format(unpack(shape)), function()
      local r = run(15 * shape[1], shape[1] > 1 and shape[1] or nil, shape[2])
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.matches("^20 programs with mappers: ", r.stdout)
      for _, name in ipairs(features) do assert.matches(name .. " [1-9]", r.stdout) end
    end)
  end
end)
