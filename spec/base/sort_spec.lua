-- Sorting of runs.
local ffi = require("ffi")
local c = require("spec.support.cdef")("base/sort.h")

ffi.cdef "struct sorted { int64_t key, place; };"

describe("cel_sort", function()
  local compare

  setup(function()
    compare = ffi.cast("int (*)(const void *, const void *)", function(a, b)
      a, b = ffi.cast("struct sorted *", a), ffi.cast("struct sorted *", b)
      return a.key < b.key and -1 or a.key > b.key and 1 or 0
    end)
  end)

  teardown(function() compare:free() end)

  -- What is equal stays in the order in which it came.
  local function sorted(numbers)
    local items, out = ffi.new("struct sorted[?]", #numbers + 1), {}
    for i, n in ipairs(numbers) do items[i - 1] = { n, i } end
    c.cel_sort(items, #numbers, ffi.sizeof("struct sorted"), compare)
    for i = 0, #numbers - 1 do
      out[i + 1] = tonumber(items[i].key)
      assert.is_true(i == 0 or items[i - 1].key < items[i].key or
        items[i - 1].place < items[i].place)
    end
    return out
  end
  jit.off(sorted) -- it calls what calls back

  local function check(numbers)
    local expected = { unpack(numbers) }
    table.sort(expected)
    assert.same(expected, sorted(numbers))
  end

  it("sorts none, one, what is in order and what is in reverse", function()
    for _, numbers in ipairs { {}, { 1 }, { 1, 2 }, { 2, 1 }, { 1, 1 }, { 3, 2, 1 } } do
      check(numbers)
    end
  end)

  it("sorts runs, ascending, descending and rotated, and what has none", function()
    math.randomseed(1)
    for runs = 1, 12 do
      for length = 1, 40 do
        local numbers = {}
        for _ = 1, runs do
          local at, step = math.random(0, 100), math.random(-2, 2)
          for _ = 1, math.random(1, length) do
            numbers[#numbers + 1] = at
            at = at + step
          end
        end
        check(numbers)
      end
    end
  end)
end)
