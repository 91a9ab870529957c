-- NaNs are looked at by their bits, and only those that LuaJIT would misread are replaced.
local ffi = require("ffi")
local reals = require("celer.data.reals")
local types = require("celer.data.types")

-- High words of numbers that are kept as they are, and of odd NaNs.
local kept = { 0x00000000, 0x80000000, 0x00000001, 0x3ff80000, 0xbff80000, 0x7fefffff, 0xffefffff,
  0x7ff00000, 0xfff00000, 0x7ff80000, 0xfff80000, 0x7ff00001, 0xfff80001, 0xfff8ffff }
local odd = { 0xffffffff, 0xfffe7fff, 0xfffd8000, 0xfff90000, 0xfff98000, 0x7ff90000, 0x7fffffff,
  0x7ff10000, 0xfff10000, 0x7ff40000, 0xfff7ffff, 0x7ffc1234 }

-- Both as floats, which have three bits less before their fraction.
local function narrow(high) return bit.bor(bit.band(high, 0x80000000),
  bit.band(high, 0x70000000), bit.lshift(bit.band(high, 0x0fffffff), 3)) end

-- What LuaJIT must see in `x`, which may be any value: a number, whose opposite is one, too.
local function is_sound(x)
  return type(x) == "number" and type(-x) == "number" and type(x + 1) == "number"
    and type(-(x + 1)) == "number"
end

describe("celer.reals", function()
  for _, mode in ipairs { "compiled", "interpreted" } do
    it("finds odd NaNs among doubles and floats, " .. mode, function()
      for _, one in ipairs { { "double", function(high) return high end },
        { "float", narrow } } do
        local type_, high_of = types.find(one[1]), one[2]
        local n = 200
        local memory = ffi.new(ffi.typeof("$[?]", type_.ctype), n)
        local words, step = ffi.cast("int32_t *", memory), type_.size / 4
        local test = reals.test(type_)
        local function count(p)
          local found = 0
          for at = 0, n - 1 do
            if test.is_odd(p, at) then found = found + 1 end
          end
          return found
        end
        local function all_sound()
          for at = 0, n - 1 do
            if not is_sound(reals.load(type_, memory, at)) then return false end
          end
          return true
        end
        if mode == "interpreted" then
          jit.off(count, true)
          jit.off(all_sound, true)
        end
        for list, expected in pairs { [kept] = 0, [odd] = n } do
          for _, high in ipairs(list) do
            for at = 0, n - 1 do
              for w = 0, step - 1 do words[step * at + w] = 0 end
              words[step * at + step - 1] = bit.tobit(high_of(high))
            end
            assert.equal(expected, count(ffi.cast(test.bits, memory)), bit.tohex(high))
            assert.is_true(all_sound(), bit.tohex(high))
          end
        end
      end
    end)
  end

  it("keeps the bits of what is not odd", function()
    local type_, memory = types.find "double", ffi.new("double[1]")
    local words = ffi.cast("uint32_t *", memory)
    for _, high in ipairs(kept) do
      for _, low in ipairs { 0, 1, 0xffffffff } do
        words[0], words[1] = low, high
        local back = ffi.new("double[1]", reals.load(type_, memory, 0))
        assert.equal(memory[0] == memory[0], back[0] == back[0])
        assert.equal(high, ffi.cast("uint32_t *", back)[1])
        assert.equal(low, ffi.cast("uint32_t *", back)[0])
      end
    end
  end)

  it("looks at all numbers of a struct, and at those alone", function()
    types.struct("reals_inner", "float x; int id;")
    local type_ = types.struct("reals_outer", [[char c; double a[3][2]; float many[20]; int n;
      reals_inner in[3]; struct { double hidden; }; union { float f; float g; };
      const double fixed; bool flag; unsigned five : 5; uint64_t whole[9];
      struct __attribute__((packed)) { char before; double apart; } packed;]])
    local memory = ffi.new("uint8_t[?]", 3 * type_.size)
    local test = reals.test(type_)
    local found = {}
    for byte = 0, type_.size - 1 do
      ffi.fill(memory, 3 * type_.size)
      -- The upper half of a float's exponent and of what follows it.
      memory[type_.size + byte], memory[type_.size + byte - 1] = 0xff, 0xff
      if test.is_odd(ffi.cast(test.bits, memory), 1) then found[#found + 1] = byte - 7 end
      assert.is_false(test.is_odd(ffi.cast(test.bits, memory), 0))
      assert.is_false(test.is_odd(ffi.cast(test.bits, memory), 2))
    end
    local function at(name) return (ffi.offsetof(type_.ctype, name)) end
    local expected = {}
    local function add(offset, size) expected[#expected + 1] = offset + size - 8 end
    for i = 0, 5 do add(at "a" + 8 * i, 8) end
    for i = 0, 19 do add(at "many" + 4 * i, 4) end
    for i = 0, 2 do add(at "in" + 8 * i, 4) end
    add(at "hidden", 8)
    add(at "f", 4)
    add(at "fixed", 8)
    add(at "packed" + 1, 8)
    assert.same(expected, found)

    ffi.fill(memory, 3 * type_.size, 0xff)
    local copy = reals.load(type_, memory, 2)
    for _, x in ipairs { copy.a[2][1], copy.many[19], copy["in"][2].x, copy.hidden, copy.f, copy.g,
      copy.fixed, copy.packed.apart } do
      assert.is_true(is_sound(x))
    end
    assert.same({ -1, -1, -1, true, 31 }, { copy.c, copy.n, copy["in"][2].id, copy.flag,
      copy.five })
    assert.is_true(copy.whole[8] == -1ULL)
    assert.equal(255, memory[3 * type_.size - 1]) -- as it was
  end)

  it("needs no look at types without floating-point numbers", function()
    assert.is_false(reals.test(types.find "int64_t"))
    assert.is_false(reals.test(types.find "uint4"))
    assert.is_false(reals.test(types.struct("reals_none", "int a; bool b; char text[8];")))
  end)

  it("refuses numbers that share their bytes with others", function()
    local function fault(text) return reals.fault(ffi.typeof("struct { " .. text .. " }")) end
    for _, text in ipairs { "union { int i; float f; };", "union { double d; float f; } u[2];",
      "int a; union { double d; uint64_t bits; } u;",
      "union { struct { double x, y; }; char bytes[16]; };",
      "union { unsigned a : 3; float f; };" } do
      assert.matches("^field '%w+' shares bytes with another kind", fault(text))
    end
    for _, text in ipairs { "union { int i; uint32_t u; char c[4]; }; double d;",
      "union { struct { float x, y, z; }; float v[3]; };",
      "union { double a[4]; struct { double x; } one; };" } do
      assert.is_nil(fault(text))
    end
  end)

  it("tidies what string.buffer has decoded", function()
    local codec = require("string.buffer")
    local text = codec.encode(1.5)
    local nan = text:sub(1, 1) .. ("\255"):rep(7) .. "\127"
    local seen = reals.plain { a = { codec.decode(nan), 2 }, b = "text", [3] = codec.decode(nan) }
    assert.is_true(is_sound(seen.a[1]) and is_sound(seen[3]))
    assert.same({ 2, "text" }, { seen.a[2], seen.b })
  end)
end)
