-- Elements that code of their type's own sets have the bits that the FFI gives them.
local ffi = require("ffi")
local pack = require("celer.data.pack")

local NAN, INFINITY = 0 / 0, math.huge

-- Numbers that types hold, and that they do not.
local numbers = { 0, -0.0, 1, -1, 0.5, -0.5, 1.5, 127, 128, -128, -129, 255, 256, 32767, -32769,
  65535, 2 ^ 31 - 1, 2 ^ 31, -2 ^ 31, 2 ^ 32 - 1, 2 ^ 32, 2 ^ 53, 2 ^ 63, -2 ^ 63, 2 ^ 64, 1e300,
  1e-300, 3.4e38, 1e39, NAN, INFINITY, -INFINITY, 1e-45, 0.1 }
local others = { true, false, "1", {}, { 1 }, { 1, 2 }, { [0] = 1, 2 }, { 1, 2, 3 }, { x = 1 },
  5LL, 7ULL, ffi.new("double[1]"), print }

-- A member's C, and values that it mostly takes.
local colours = ffi.typeof("enum { PACK_A, PACK_B }")
local inner = ffi.typeof("struct { short x; double y; }")
local members = {
  { "double %s" }, { "float %s" }, { "int8_t %s" }, { "uint8_t %s" }, { "int16_t %s" },
  { "uint16_t %s" }, { "int %s" }, { "uint32_t %s" }, { "int64_t %s" }, { "uint64_t %s" },
  { "bool %s", { true, false } }, { "char %s" }, { "$ %s", { 0, 1, 2, "PACK_B" }, colours },
  { "double %s[3]", { { 1, 2, 3 }, { 1, 2 }, { 1 }, { [0] = 1, 2, 3 }, { 1, 2, 3, 4 }, {} } },
  { "$ %s", { { x = 1, y = 2 }, { x = 1 }, { 3, 4 }, { y = NAN }, {}, { x = 1, z = 3 } }, inner },
  { "$ %s[2]", { { { x = 1, y = 2 }, { y = 3 } }, { { x = 1 } }, { {}, {} } }, inner },
  { "char %s[4]", { "abc", { 1, 2, 3, 4 } } },
  { "int %s : 3", { 1, 2, -1 } }, { "const double %s", { 1, 2 } },
  { "struct { int a%s, b%s; }", { 1 } }, { "union { int a%s; float b%s; } %s", { { 1 } } },
}

local function one_of(list) return list[math.random(#list)] end

-- A struct of some members, their names and kinds.
local function make()
  local text, kinds, types = {}, {}, {}
  for i = 1, math.random(6) do
    local kind = members[math.random(math.random() < 0.7 and 16 or #members)]
    text[i] = kind[1]:gsub("%%s", "m" .. i) .. ";"
    kinds[i] = kind
    types[#types + 1] = kind[3]
  end
  local all = "struct { " .. table.concat(text, " ") .. " }"
  return ffi.typeof(all, unpack(types)), kinds, all
end

local function value_for(kind)
  local draw = math.random()
  if draw < 0.03 then return one_of(others) end
  if kind[2] then return one_of(kind[2]) end
  return draw < 0.6 and math.random(100) or one_of(numbers)
end

-- A table of its fields: by name, in order, or both.
local function value_of(kinds)
  local out, draw = {}, math.random()
  for i, kind in ipairs(kinds) do
    if draw < 0.2 then
      out[i] = value_for(kind)
    elseif draw < 0.25 then
      out[i - 1] = value_for(kind)
    elseif math.random() < 0.95 then
      out["m" .. i] = value_for(kind)
    end
  end
  if draw > 0.95 then out[#kinds + 1] = 1 end
  if draw > 0.98 then out[1] = 2 end
  return out
end

local function assign(p, at, value) p[at] = value end

-- Both ways over old bits; whether the code of the type's own did it.
local function same(ctype, fast, value, is_known, what)
  local size = ffi.sizeof(ctype)
  local array = ffi.typeof("$[3]", ctype)
  local a, b = ffi.new(array), ffi.new(array)
  ffi.fill(a, 3 * size, 0xa5)
  ffi.fill(b, 3 * size, 0xa5)
  if not fast(a, 1, value, is_known) then return false end
  assert.is_true(pcall(assign, b, 1, value), what)
  assert.equal(ffi.string(b, 3 * size), ffi.string(a, 3 * size), what)
  return true
end

describe("celer.pack", function()
  for _, mode in ipairs { "compiled", "interpreted" } do
    it("gives the bits that the FFI gives, or leaves it to that, " .. mode, function()
      if mode == "interpreted" then jit.off() end
      math.randomseed(7)
      local types, done, left = 0, 0, 0
      for _ = 1, 400 do
        local ctype, kinds, text = make()
        local fast = pack.of(ctype)
        types = types + (fast and 1 or 0)
        for _ = 1, fast and 100 or 0 do
          if same(ctype, fast, value_of(kinds), true, text) then done = done + 1
          else left = left + 1 end
        end
      end
      jit.on()
      assert.is_true(types > 100 and done > 2000 and left > 500,
        ("%d types, %d done, %d left"):format(types, done, left))
    end)
  end

  it("does so with plain numbers", function()
    for _, name in ipairs { "double", "float", "int8_t", "uint8_t", "int", "uint32_t", "int64_t",
      "uint64_t", "bool", "uint16_t" } do
      local ctype = ffi.typeof(name)
      local fast, done = pack.of(ctype), 0
      for _, list in ipairs { numbers, others } do
        for _, x in ipairs(list) do
          if same(ctype, fast, x, nil, name .. " " .. tostring(x)) then done = done + 1 end
        end
      end
      assert.is_true(done > 1, name)
    end
  end)

  it("leaves fractions and what does not fit a whole number", function()
    local fast = pack.of(ffi.typeof("uint8_t"))
    local one = ffi.new("uint8_t[1]")
    for _, x in ipairs { 0.5, -1, 256, NAN, INFINITY, true, "1", 5LL } do
      assert.is_false(fast(one, 0, x))
    end
    assert.is_true(fast(one, 0, 255))
    assert.equal(255, one[0])
  end)

  it("does what vectors and structs mostly are, and copies structs", function()
    local vector = ffi.typeof("struct { double x, y, z; }")
    local fast = pack.of(vector)
    assert.is_true(same(vector, fast, { x = 1, y = NAN, z = -0.0 }))
    assert.is_true(same(vector, fast, { y = 1 }))
    assert.is_true(same(vector, fast, {}))
    assert.is_true(same(vector, fast, { 1, 2, 3 }))
    assert.is_true(same(vector, fast, vector(4, 5, 6)))
    assert.is_false(same(vector, fast, ffi.new("double[3]")))
    assert.is_false(same(vector, fast, ffi.new(ffi.typeof("$ *", vector))))
    assert.is_false(same(vector, fast, { 1, 2 }))
  end)

  it("leaves tables with other keys, unless it is told that there are none", function()
    local fast = pack.of(ffi.typeof("struct { double x, y; }"))
    local one = ffi.new("struct { double x, y; }[1]")
    for _, value in ipairs { { x = 1, y = 2, z = 3 }, { 1, 2, z = 3 }, { 1, 2, y = 3 }, { 1, 2, 3 },
      { x = 1, [true] = 2 }, { x = 1, [7] = 3 }, { x = 1, [1.5] = 3 }, { 1, 2, [1.5] = 3 } } do
      assert.is_false(fast(one, 0, value))
    end
    assert.is_false(fast(one, 0, { 1, 2, y = 3 }, true))
    assert.is_false(fast(one, 0, { 1, 2, 3 }, true))
    assert.is_true(fast(one, 0, { x = 1, z = 3 }, true))
    assert.equal(1, one[0].x)
  end)

  it("leaves tables in them with other keys", function()
    local ctype = ffi.typeof("struct { struct { double x, y; } q; int m[2]; }")
    local fast, one = pack.of(ctype), ffi.new(ffi.typeof("$[1]", ctype))
    assert.is_true(fast(one, 0, { q = { x = 1, y = 2 }, m = { 3, 4 } }, true))
    assert.equal(4, one[0].m[1])
    for _, value in ipairs { { q = { x = 1, y = 2, [7] = 1 }, m = { 3, 4 } },
      { q = { x = 1, y = 2 }, m = { 3, 4, x = 1 } }, { q = { x = 1, y = 2 }, m = { 3, 4, 5 } } } do
      assert.is_false(fast(one, 0, value, true))
    end
  end)

  it("leaves what a metatable gives to the FFI, which does not ask it", function()
    local vector = ffi.typeof("struct { double x, y; }")
    local t = setmetatable({ x = 1 }, { __index = { y = 2 } })
    assert.is_true(same(vector, pack.of(vector), t))
  end)
end)
