-- Sums in fixed point against whole numbers of any length.
local ffi = require("ffi")
local k = require("spec.device.compile")
local exact = require("spec.support.exact")
local scratch = require("spec.support.scratch")

-- The processor's, for as many vectors as it may have, and a GPU's.
local ways = {
  { name = "native", flags = "-O3 -march=native -ffp-contract=off -fno-trapping-math" },
  { name = "plain", flags = "-O1 -ffp-contract=off" },
  { name = "gpu", flags = "-O1 -ffp-contract=off", gpu = true },
}

local function build(way)
  local folder = scratch.folder()
  local host = assert(io.open("spec/kernels/fixed_host.cc")):read("*a")
  scratch.write(folder .. "/unit.cpp", table.concat({
    way.gpu and '#include "spec/device/gpu_host.h"' or "", k.header, k.embedded("fixed.cuh"),
    ("#define SPEC_DOUBLE sum_%s_double\n#define SPEC_FLOAT sum_%s_float"):format(way.name,
      way.name), host }, "\n"))
  local command = ("%s -std=c++17 %s -w -I. -fPIC -shared %s/unit.cpp -o %s/unit.so"):format(
    os.getenv("CXX") or "c++", way.flags, folder, folder)
  assert(os.execute(command) == 0, command)
  ffi.cdef(("double sum_%s_double(const double *, long, long, int);\n"
    .. "float sum_%s_float(const float *, long, long, int);"):format(way.name, way.name))
  way.library = ffi.load(folder .. "/unit.so")
end

local function bits(x)
  if x ~= x then return "nan" end
  return ("%a%s"):format(x, x == 0 and 1 / x < 0 and " (minus)" or "")
end

describe("a sum in fixed point", function()
  setup(function() for _, way in ipairs(ways) do build(way) end end)

  -- What numbers come to by all ways, however they are cut and whichever comes first.
  local function sum(kind, numbers)
    local n = #numbers
    local array = ffi.new(kind .. "[?]", n + 1, numbers)
    local first
    for round = 1, 2 do
      for _, way in ipairs(ways) do
        local add = way.library[("sum_%s_%s"):format(way.name, kind)]
        for _, rows in ipairs { 1, 3, 64 } do
          for one_by_one = 0, 1 do
            local got = add(array, n, rows, one_by_one)
            first = first or got
            assert.equal(bits(first), bits(got), ("%s, %d rows%s%s"):format(way.name, rows,
              one_by_one == 1 and ", one by one" or "", round == 2 and ", turned" or ""))
          end
        end
      end
      for i = n - 1, 1, -1 do -- of the same numbers another order
        local j = math.random(0, i)
        array[i], array[j] = array[j], array[i]
      end
    end
    return first
  end

  local function is_exact(kind, numbers)
    local stored = {} -- as they are once stored
    local one = ffi.new(kind .. "[1]")
    for i, x in ipairs(numbers) do
      one[0] = x
      stored[i] = one[0]
    end
    exact.check(stored, sum(kind, stored), kind == "float" and 24 or 53)
  end

  local function random(spread, centre)
    local x = (math.random() - 0.5) * math.random()
    return math.ldexp(x, (centre or 0) + math.random(-spread, spread))
  end

  for _, kind in ipairs { "double", "float" } do
    local float = kind == "float"
    local least, largest = math.ldexp(1, -1074), (2 - 2 ^ -52) * 2 ^ 1023
    if float then least, largest = math.ldexp(1, -149), (2 - 2 ^ -23) * 2 ^ 127 end

    it(("of %ss is the nearest one to the exact sum"):format(kind), function()
      math.randomseed(7)
      for _, spread in ipairs(float and { 0, 4, 30, 60, 120 } or { 0, 4, 60, 300, 1000 }) do
        for _, n in ipairs { 0, 1, 2, 3, 7, 100, 255, 256, 257, 1500 } do
          local numbers = {}
          for i = 1, n do numbers[i] = random(spread) end
          is_exact(kind, numbers)
        end
      end
    end)

    it(("of %ss that are alike beside a large one is exact, too"):format(kind), function()
      math.randomseed(9)
      for large = 0, 70 do
        local x, numbers = 1 + math.random(), {}
        for i = 1, 255 do numbers[i] = x end
        numbers[256] = math.ldexp(1, large)
        is_exact(kind, numbers)
        numbers[256] = -math.ldexp(2 - math.ldexp(1, float and -23 or -52), large)
        is_exact(kind, numbers)
      end
    end)

    it(("of %ss that cancel is what is left"):format(kind), function()
      math.randomseed(8)
      for _ = 1, 40 do
        local numbers = {}
        for i = 1, math.random(200) do
          numbers[2 * i - 1] = random(float and 100 or 900)
          numbers[2 * i] = -numbers[2 * i - 1]
        end
        assert.equal(bits(0), bits(sum(kind, numbers)))
        numbers[#numbers + 1] = random(float and 20 or 200)
        is_exact(kind, numbers)
        numbers[#numbers + 1] = -least
        is_exact(kind, numbers)
      end
    end)

    it(("of %ss rounds halves to even, whatever lies below"):format(kind), function()
      local unit = float and 2 ^ -23 or 2 ^ -52
      for _, centre in ipairs(float and { 0, 100, -126, -127 } or { 0, 900, -1022, -1023 }) do
        for odd = 0, 3 do
          for _, below in ipairs { 0, least, -least } do
            for sign = -1, 1, 2 do
              local list = { math.ldexp(1 + odd * unit, centre), math.ldexp(unit / 2, centre),
                below }
              for i, x in ipairs(list) do list[i] = sign * x end
              is_exact(kind, list)
            end
          end
        end
      end
      is_exact(kind, { 2, -unit / 2, least })
      is_exact(kind, { 2, -unit / 2, -least })
      is_exact(kind, { 2, -unit / 4 })
      is_exact(kind, { 2, -unit / 4, -least })
    end)

    it(("of %ss has subnormal numbers and does not overflow on the way"):format(kind), function()
      local many = {}
      for i = 1, 600 do many[i] = least * (i % 7 - 2) end
      is_exact(kind, many)
      is_exact(kind, { least })
      is_exact(kind, { -least, -least })
      for i = 1, 600 do many[i] = i <= 300 and largest or -largest end
      assert.equal(bits(0), bits(sum(kind, many)))
      many[601] = -1
      is_exact(kind, many)
      many[1] = 0
      is_exact(kind, many)
      is_exact(kind, { largest, largest })
      is_exact(kind, { largest, least })
      local half = math.ldexp(1, float and 103 or 970)
      is_exact(kind, { largest, half })
      is_exact(kind, { largest, half, -least })
      is_exact(kind, { -largest, -half, least })
      is_exact(kind, { largest, half / 2 })
      assert.equal(math.huge, sum(kind, { largest, half }))
      assert.equal(largest, sum(kind, { largest, half, -least }))
    end)

    it(("of %ss has infinities, NaNs and zeros"):format(kind), function()
      local inf, nan = math.huge, 0 / 0
      local rest = {}
      for i = 1, 300 do rest[i] = i end
      local function with(...)
        local list = { unpack(rest) }
        for _, x in ipairs { ... } do table.insert(list, math.random(#list), x) end
        return sum(kind, list)
      end
      assert.equal(inf, with(inf))
      assert.equal(inf, with(inf, inf, -largest))
      assert.equal(-inf, with(-inf, largest, largest))
      assert.equal("nan", bits(with(inf, -inf)))
      assert.equal("nan", bits(with(nan)))
      assert.equal("nan", bits(with(inf, nan)))
      assert.equal(bits(0), bits(sum(kind, {})))
      assert.equal(bits(0), bits(sum(kind, { -0.0, -0.0 })))
      assert.equal(bits(0), bits(sum(kind, { 1, -1 })))
    end)
  end
end)

describe("exact.check", function()
  local function wrong(numbers, got, digits)
    assert.is_false((pcall(exact.check, numbers, got, digits)))
  end

  it("takes the nearest number alone", function()
    exact.check({ 0.1, 0.2 }, 0.1 + 0.2, 53)
    wrong({ 0.1, 0.2 }, 0.3, 53)
    wrong({ 1 }, 1 + 2 ^ -52, 53)
    wrong({ 1 }, 1 - 2 ^ -53, 53)
    exact.check({ 1, 2 ^ -53 }, 1, 53)
    wrong({ 1, 2 ^ -53 }, 1 + 2 ^ -52, 53)
    exact.check({ 1, 2 ^ -53, 2 ^ -1074 }, 1 + 2 ^ -52, 53)
    wrong({ 1, 2 ^ -53, 2 ^ -1074 }, 1, 53)
    wrong({ 1, -2 ^ -54, -2 ^ -1074 }, 1, 53)
    exact.check({ 1, -2 ^ -54 }, 1, 53)
    exact.check({ 1, 2 ^ -24 }, 1, 24)
    wrong({ 1, 2 ^ -24 }, 1 + 2 ^ -23, 24)
    wrong({ 2 ^ 1023 }, math.huge, 53)
    wrong({ 0 }, -0.0, 53)
    wrong({ 0 }, 0 / 0, 53)
  end)

  it("knows signs", function()
    assert.equal(1, exact.sign { 1e300, 1e-300, -1e300 })
    assert.equal(-1, exact.sign { 1e300, -1e-300, -1e300 })
    assert.equal(-1, exact.sign { -2 ^ -1074 })
    assert.equal(0, exact.sign { 0.1, 0.2, -0.2, -0.1 })
    assert.equal(0, exact.sign {})
  end)
end)
