local ffi = require("ffi")
local c = require("spec.support.cdef")("region/box.h")
local grid = require("spec.region.grid")

describe("cel_box_subtract", function()
  it("gives disjoint boxes that hold what is in a and not in b", function()
    local random = grid.random(1)
    local out = ffi.new("cel_box[6]")
    for case = 1, 2000 do
      local dims = case % 4
      local a, b = random:box(dims), random:box(dims)
      local want = grid.fill(grid.fill({}, a), b, false)
      local n = c.cel_box_subtract(a, b, out)
      local got, volume = {}, 0
      for i = 0, n - 1 do
        grid.each(out[i], function(p)
          volume = volume + 1
          got[p] = true
        end)
      end
      assert.is_true(grid.same(want, got), grid.text(a) .. grid.text(b))
      assert.equal(grid.count(want), volume)
    end
  end)

  it("may write over its operands", function()
    local out = ffi.new("cel_box[6]")
    out[0] = grid.box(0, 0, 0, 4, 1, 1)
    assert.equal(2, c.cel_box_subtract(out, grid.box(1, 0, 0, 2, 1, 1), out))
    assert.equal("[0,0,0 1,1,1) [2,0,0 4,1,1)", grid.list(out, 2))
  end)
end)
