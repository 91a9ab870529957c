-- Philox4x32-10: the published test vectors, and the numbers made of them.
local philox = require "celer.run.philox"

describe("philox", function()
  it("enciphers as its authors do", function()
    local all = 0xffffffff
    for _, case in ipairs {
      { { 0, 0, 0, 0, 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
      { { all, all, all, all, all, all }, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
      { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0 },
        { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    } do
      assert.same(case[2], { philox.block(unpack(case[1])) })
    end
  end)

  it("gives numbers in [0, 1) that look independent", function()
    local n, sum, squares, product, last = 20000, 0, 0, 0, 0
    for i = 1, n do
      local x = philox.uniform(3, i)
      assert.is_true(x >= 0 and x < 1)
      sum, squares, product = sum + x, squares + x * x, product + x * last
      last = x
    end
    assert.near(1 / 2, sum / n, 0.01)
    assert.near(1 / 3, squares / n, 0.01)
    assert.near(1 / 4, product / n, 0.01)
  end)

  it("depends on each of its arguments", function()
    local seen = {}
    for _, at in ipairs { { 0, 0 }, { 1, 0 }, { 0, 1 }, { 0, 0, 1 }, { 0, 0, 0, 1 },
      { 0, 0, 0, 2 }, { 2 ^ 40, 0 }, { 0, 2 ^ 40 }, { -1, 0 }, { 0, -1 }, { 0, 0, 0, 2 ^ 33 - 1 } }
    do
      local x = philox.uniform(unpack(at))
      assert.is_nil(seen[x])
      seen[x] = true
      assert.equal(x, philox.uniform(unpack(at)))
    end
    assert.equal(philox.uniform(4, 5), philox.uniform(4, 5, 0, 0))
  end)

  it("takes whole numbers", function()
    assert.has_error(function() philox.uniform(0.5, 1) end)
    assert.has_error(function() philox.uniform(1) end)
    assert.has_error(function() philox.uniform(1, 2, "x") end)
  end)
end)
