-- What the engine folds by itself.
local ffi = require("ffi")
local c = require("spec.support.cdef")("base/operator.h")

local function operator(op, class, size)
  return ffi.new("cel_operator", { "CEL_OP_" .. op, class:byte(), size })
end

-- What `a op b` is, of one number of a type.
local function folded(op, class, size, a, b)
  local array = ffi.typeof(("%sint%d_t[1]"):format(class == "i" and "" or "u", size * 8))
  local into, from = array(a), array(b)
  c.cel_operator_fold(operator(op, class, size), into, from, size)
  return into[0]
end

describe("an operator", function()
  it("folds whole numbers, and sums and products wrap", function()
    assert.equal(-128, folded("SUM", "i", 1, 127, 1))
    assert.equal(4, folded("SUM", "u", 1, 250, 10))
    assert.equal(-2, folded("PROD", "i", 2, 32767, 2))
    assert.equal(1, folded("PROD", "u", 2, 65535, 65535))
    assert.equal(-2 ^ 31, folded("SUM", "i", 4, 2 ^ 31 - 1, 1))
    assert.equal(0, folded("PROD", "u", 4, 2 ^ 31, 2))
    assert.is_true(folded("SUM", "i", 8, 0x7fffffffffffffffLL, 1) == -0x7fffffffffffffffLL - 1)
    assert.is_true(folded("PROD", "u", 8, 0x8000000000000001ULL, 3) == 0x8000000000000003ULL)
  end)

  it("compares numbers with their sign, of all sizes", function()
    for _, size in ipairs { 1, 2, 4, 8 } do
      assert.equal(-3, tonumber(folded("MIN", "i", size, 5, -3)))
      assert.equal(5, tonumber(folded("MAX", "i", size, -3, 5)))
      assert.equal(3, tonumber(folded("MIN", "u", size, 3, 200)))
      assert.equal(200, tonumber(folded("MAX", "u", size, 3, 200)))
      assert.equal(0x14, tonumber(folded("AND", "u", size, 0x34, 0x16)))
      assert.equal(0x36, tonumber(folded("OR", "i", size, 0x34, 0x16)))
    end
    assert.is_true(folded("MAX", "u", 8, 1, 0x8000000000000000ULL) == 0x8000000000000000ULL)
  end)

  it("folds one number after another", function()
    local into, from = ffi.new("int16_t[3]", { 1, 2, 3 }), ffi.new("int16_t[3]", { 10, -20, 30 })
    c.cel_operator_fold(operator("SUM", "i", 2), into, from, 4)
    assert.same({ 11, -18, 3 }, { into[0], into[1], into[2] })
  end)

  it("takes the least and the greatest of floating-point numbers, in any order", function()
    local nan = 0 / 0
    for _, one in ipairs { { "float", 4, "uint32_t" }, { "double", 8, "uint64_t" } } do
      local function fold(op, a, b)
        local array = ffi.typeof(one[1] .. "[1]")
        local into, from = array(a), array(b)
        c.cel_operator_fold(operator(op, "f", one[2]), into, from, one[2])
        return into[0], ffi.cast(one[3] .. " *", into)[0]
      end
      for _, pair in ipairs { { 1, 2 }, { -1, 1 }, { -3, -2 }, { -math.huge, 5 },
        { 5, math.huge } } do
        for _, p in ipairs { pair, { pair[2], pair[1] } } do
          assert.equal(pair[1], (fold("MIN", p[1], p[2])))
          assert.equal(pair[2], (fold("MAX", p[1], p[2])))
        end
      end
      for _, op in ipairs { "MIN", "MAX" } do
        local _, bits = fold(op, nan, 1)
        for _, p in ipairs { { nan, 1 }, { 1, nan }, { nan, -nan }, { -nan, math.huge } } do
          local value, same = fold(op, p[1], p[2])
          assert.is_true(value ~= value)
          assert.equal(bits, same)
        end
        for _, p in ipairs { { 0, -0.0 }, { -0.0, 0 } } do
          assert.equal(op == "MIN" and -math.huge or math.huge, 1 / fold(op, p[1], p[2]))
        end
      end
    end
    assert.is_true(c.cel_operator_folds(operator("MIN", "f", 4)))
    assert.is_true(c.cel_operator_folds(operator("SUM", "i", 4)))
    assert.is_false(c.cel_operator_folds(operator("SUM", "f", 8)))
  end)

  it("is exact where the order does not show", function()
    assert.is_true(c.cel_operator_is_exact(operator("OR", "b", 1)))
    assert.is_false(c.cel_operator_is_exact(operator("SUM", "f", 8)))
    assert.is_false(c.cel_operator_is_exact(operator("MIN", "f", 4)))
    assert.is_true(c.cel_operator_is_known(operator("MIN", "f", 4)))
    assert.is_false(c.cel_operator_is_known(operator("CUSTOM", "i", 4)))
    assert.is_false(c.cel_operator_is_known(operator("SUM", "s", 8)))
    assert.is_false(c.cel_operator_is_known(ffi.new("cel_operator")))
  end)
end)
