-- Random programs of library tasks: a sample of what
-- `celer run spec/random/scripts/library.lua` does, in which each task occurs.
-- All shapes have the same programs, so that their kernels are compiled once.
local celer = require("spec.support.celer")

local features = { "change", "compact", "gather", "histogram", "preimage", "scan", "scans by sum",
  "scatter", "scatters sum", "scatters without an operator", "sort", "spmv", "top", "unique" }

describe("random programs of library tasks", function()
  for _, shape in ipairs { { 1, 2 }, { 3, 1 } } do
    it(("hold what tables hold on %d ranks with %d devices"):format(unpack(shape)), function()
      local ranks, devices = unpack(shape)
      local r = celer.run({ "run", "--advice", "off", "--devices", celer.devices(devices, ranks),
        "spec/random/scripts/library.lua", "300", "15" },
        { ranks = ranks > 1 and ranks or nil, env = celer.sampled })
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.matches("^15 programs of library tasks: ", r.stdout)
      for _, name in ipairs(features) do assert.matches(name .. " [1-9]", r.stdout) end
    end)
  end

  for _, shape in ipairs { { 1, 3 }, { 3, 1 } } do
    it(("sort and scan as several GPUs do on %d ranks with %d devices"):format(unpack(shape)),
      function()
        local ranks, devices = unpack(shape)
        local r = celer.run({ "run", "--backend", "cpu", "--devices", tostring(devices), "--advice",
          "off", "spec/random/scripts/library.lua", "500", "12", "8", "gpus" },
          { ranks = ranks > 1 and ranks or nil, env = celer.sampled })
        assert.equal("", r.stderr)
        assert.equal(0, r.status)
        for _, name in ipairs { "scan", "sort", "unique" } do
          assert.matches(name .. " [1-9]", r.stdout)
        end
      end)
  end
end)
