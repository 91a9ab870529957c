-- The order of many numbers.
local ffi = require("ffi")
local c = require("spec.support.cdef")("base/radix.h")
local random = math.random

-- What comes when, by a comparison and where it was.
local function wanted(list, less)
  local places = {}
  for i = 1, #list do places[i] = i end
  table.sort(places, function(a, b)
    local x, y = list[a], list[b]
    if less(x, y) then return true end
    if less(y, x) then return false end
    return a < b
  end)
  return places
end

local function order_of(list, type_, kind, descending)
  local memory = ffi.new(type_ .. "[?]", #list + 1, list)
  local order = ffi.gc(c.cel_radix_create(memory, ffi.sizeof(type_), kind:byte(), descending,
    #list), c.cel_radix_destroy)
  return order, memory
end

local function places_of(order)
  local out = {}
  for i = 0, tonumber(order.count) - 1 do out[i + 1] = tonumber(order.at[i].place) + 1 end
  return out
end

local function less(a, b) return a < b end
local function more(a, b) return a > b end

describe("an order", function()
  local types = {
    int8_t = { "i", -128, 127 }, uint8_t = { "u", 0, 255 }, int16_t = { "i", -2 ^ 15, 2 ^ 15 - 1 },
    uint16_t = { "u", 0, 2 ^ 16 - 1 }, int32_t = { "i", -2 ^ 31, 2 ^ 31 - 1 },
    uint32_t = { "u", 0, 2 ^ 32 - 1 }, int64_t = { "i", -2 ^ 53, 2 ^ 53 },
    uint64_t = { "u", 0, 2 ^ 53 }, float = { "f", -1000, 1000 }, double = { "f", -1e300, 1e300 },
  }
  for type_, of in pairs(types) do
    it("of " .. type_ .. " keeps what is equal as it was, both ways", function()
      for _, n in ipairs { 0, 1, 2, 300, 5000 } do
        local list = {}
        local narrow = n % 2 == 0 -- many are equal
        for i = 1, n do
          list[i] = math.floor(narrow and random(-3, 3) or of[2] + random() * (of[3] - of[2]))
          if of[1] == "u" then list[i] = math.abs(list[i]) end
        end
        assert.same(wanted(list, less), places_of((order_of(list, type_, of[1], false))))
        assert.same(wanted(list, more), places_of((order_of(list, type_, of[1], true))))
      end
    end)
  end

  it("takes zeros for equal, and NaNs for larger than all else", function()
    local inf, nan = math.huge, 0 / 0
    for _, type_ in ipairs { "float", "double" } do
      local list = { nan, 0, -inf, -0, inf, -nan, 1e-44, -1e-44, 0 }
      assert.same({ 3, 8, 2, 4, 9, 7, 5, 1, 6 }, places_of((order_of(list, type_, "f", false))))
      assert.same({ 1, 6, 5, 7, 2, 4, 9, 8, 3 }, places_of((order_of(list, type_, "f", true))))
    end
  end)

  it("counts what comes before a code, and takes elements of any size", function()
    local order = order_of({ 30, 10, 20, 10 }, "uint8_t", "u", false)
    for code, n in pairs { [0] = 0, [10] = 0, [11] = 2, [20] = 2, [30] = 3, [31] = 4 } do
      assert.equal(n, tonumber(c.cel_radix_below(order, code)))
    end
    local out = ffi.new("char[12]")
    c.cel_radix_take(order, "abcdefghijkl", 3, out)
    assert.equal("defjklghiabc", ffi.string(out, 12))
  end)
end)
