local ffi = require("ffi")
local c = require("spec.support.cdef")("region/box.h")
local grid = require("spec.region.grid")

describe("cel_box_pieces", function()
  it("cuts a box into parts that fit, of one element at least, in row-major order", function()
    local random = grid.random(2)
    local step = ffi.new("int64_t[3]")
    for case = 1, 500 do
      local box = random:box(case % 4)
      local size, bytes = case % 5 + 1, case % 37
      local want = grid.fill({}, box)
      local got, volume = {}, 0
      local n = grid.count(want) > 0 and tonumber(c.cel_box_pieces(box, size, bytes, step)) or 0
      for i = 0, n - 1 do
        local part = c.cel_box_piece(box, step, i)
        local points = 0
        grid.each(part, function(p)
          points = points + 1
          got[p] = true
        end)
        assert.is_true(points == 1 or points * size <= bytes, grid.text(box))
        volume = volume + points
      end
      assert.is_true(grid.same(want, got), grid.text(box))
      assert.equal(grid.count(want), volume)
      if grid.count(want) * size <= bytes then assert.is_true(n <= 1) end
    end
  end)

  it("takes as many slices of the slowest dimension as fit", function()
    local step = ffi.new("int64_t[3]")
    local box = grid.box(0, 0, 0, 10, 4, 2)
    assert.equal(4, tonumber(c.cel_box_pieces(box, 1, 24, step)))
    local last = ffi.new("cel_box[1]", { c.cel_box_piece(box, step, 3) })
    assert.equal("[9,0,0 10,4,2)", grid.list(last, 1))
    assert.equal(1, tonumber(c.cel_box_pieces(box, 1, -1ULL, step)))
    assert.equal(20, tonumber(c.cel_box_pieces(box, 1, 6, step)))
    last[0] = c.cel_box_piece(box, step, 19)
    assert.equal("[9,3,0 10,4,2)", grid.list(last, 1))
  end)
end)

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
