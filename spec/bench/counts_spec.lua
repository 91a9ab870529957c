-- What graphs and messages cost, where it does not depend on the machine.
local counts = require("spec.bench.counts")

describe("the counts of the benchmarks", function()
  -- A change that is meant to cost more: luajit spec/bench/all.lua --renew
  it("are no more than spec/bench/expected.json says", function()
    assert.same({}, (counts.compare(counts.measure(), counts.expected())))
  end)

  it("would be found to have grown, to be new, or to be missing", function()
    local expected = { a = { sends = 10, held = 1e6 }, gone = { sends = 1 } }
    local more, less = counts.compare({ a = { sends = 11, held = 1.1e6 }, new = { sends = 1 } },
      expected)
    assert.same({ "a: sends 11, expected 10", "new is not expected", "gone is not measured" }, more)
    assert.same({}, less)
    more, less = counts.compare({ a = { sends = 9, held = 1.2e6 }, gone = { sends = 1 } }, expected)
    assert.same({ "a: held 1200000, expected 1000000" }, more)
    assert.same({ "a: sends 9, expected 10" }, less)
  end)
end)
