-- Random programs of effects, collective groups, reductions, captures and hints: a sample
-- of what `celer run spec/random/scripts/model.lua` does, in which each of them occurs.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local features = { "sequential", "exclusive", "relaxed", "sequential, collective",
  "exclusive, collective", "relaxed, collective", "sequential, cluster", "exclusive, cluster",
  "relaxed, cluster", "collective", "opaque", "even_split", "item reduction",
  "group reduction", "tile reduction", "own elements", "own elements in rows",
  "include_current", "of nothing", "NaN", "step",
  "divided capture", "capture of an object", "capture of memory", "several captures", "fence",
  "wait", "drain", "object freed", "result freed", "at", "where", "place",
  "closures", "shared variable", "variables apart" }

describe("random programs of the model", function()
  for _, shape in ipairs { { 1, 3 }, { 2, 2 }, { 3, 1 }, { 4, 2 } } do
    local ranks, devices = unpack(shape)
    it(("see what plain Lua says on %d ranks with %d devices"):format(ranks, devices), function()
      local r = celer.run({ "run", "--advice", "off", "--devices", celer.devices(devices, ranks),
        "spec/random/scripts/model.lua", scratch.folder(), "100", "40" },
        { ranks = ranks > 1 and ranks or nil, env = celer.sampled })
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      local said = r.stdout:match("^40 programs of the model: (.*)\n$") .. ";"
      for _, name in ipairs(features) do
        assert.is_truthy((" " .. said):find(" " .. name .. " %d+;"), name)
      end
      assert.equal(ranks > 1, said:find("weights", 1, true) ~= nil)
      assert.equal(ranks > 1, said:find("where, not at rank 0", 1, true) ~= nil)
    end)
  end
end)
