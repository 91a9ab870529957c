-- Numbers are integers where nobody can tell, and floats beside floats.
local types = require "celer.data.types"
local variants = require "celer.kernel.from_lua.variant"

-- The C++ of a function of an item, arrays of these types and numbers.
local function text_of(f, ...)
  local call = { items = 1, least = { 0 }, most = { 100 }, wide = false, key = "", arguments = {} }
  for k, given in ipairs { ... } do
    call.arguments[k] = { number = k, name = debug.getlocal(f, k + 1), what = type(given),
      value = given }
    if type(given) == "string" then
      local argument = call.arguments[k]
      argument.what, argument.type, argument.dims = "array", types.find(given), 1
      argument.extents = { [0] = 100 }
    end
  end
  return variants.translate(f, call, "k").text
end

local function holds(words, f, ...)
  local text = text_of(f, ...)
  assert.truthy(text:find(words, 1, true), text)
end

describe("a number", function()
  it("takes the type of what it meets", function()
    local c = 0.1
    holds("(u(i0) * (float)c)", function(i, u, v) v[i] = u[i] * c end, "float", "float")
    holds("(u(i0) * 0.1f)", function(i, u, v) v[i] = u[i] * 0.1 end, "float", "float")
    holds("(u(i0) * c)", function(i, u, v) v[i] = u[i] * c end, "double", "double")
    holds("(float)((double)u(i0) * w(i0))", function(i, u, w, v) v[i] = u[i] * w[i] end, "float",
      "double", "float")
  end)

  it("is compared exactly", function()
    holds("((double)u(i0) == 0.10000000000000001)", function(i, u, v)
      v[i] = u[i] == 0.1 and 1 or 0
    end, "float", "float")
    holds("(u(i0) == 0.5f)", function(i, u, v) v[i] = u[i] == 0.5 and 1 or 0 end, "float", "float")
  end)

  it("is divided as Lua does", function()
    holds("((double)i0 / 2.0)", function(i, v) v[i] = i / 2 end, "double")
    holds("lua::div_whole<int>(i0, 2)", function(i, u, v) v[i] = u[math.floor(i / 2)] end, "double",
      "double")
    holds("lua::mod_whole<int>((i0 - 1), 7)", function(i, u, v) v[i] = u[(i - 1) % 7] end, "double",
      "double")
    holds("lua::mod<double>", function(i, u, v) v[i] = u[i] % 0.5 end, "double", "double")
  end)

  it("of more than 32 bits is a double where only fractions come of it", function()
    holds("= ((double)u(i0) - (double)w(i0))", function(i, u, w, v)
      local d = u[i] - w[i]
      v[i] = d * d
    end, "int", "int", "double")
    holds("((long long)u(i0) - (long long)w(i0))", function(i, u, w, v)
      local d = u[i] - w[i]
      v[i] = d == 0 and d * d or d * d + 0.5
    end, "int", "int", "double")
    holds("long long x", function(i, u, w, v) -- a counter's part
      local sum = 0
      for j = 0, 9 do sum = (sum + u[j] - w[j]) % 2 ^ 40 end
      v[i] = sum * sum
    end, "int", "int", "double")
  end)

  it("is an integer only where it is exact", function()
    local function generator(i, o)
      local s = i
      for _ = 1, 3 do s = (s * 1103515245 + 12345) % 2 ^ 31 end
      o[i] = math.floor(s)
    end
    holds("double x", generator, "int")
    holds("(long long)w(i0) + (long long)w(i0)", function(i, w, v) v[i] = w[i] + w[i] end, "int",
      "double")
    holds("(lua::minus<double>(i0) * 1.0)", function(i, v) v[i] = (-i) * 1 end, "double")
    holds("u(((-i0) + 100))", function(i, u, v) v[i] = u[-i + 100] end, "double", "double")
  end)

  it("is taken from 0 where the compiler does not see the 0", function()
    holds("lua::sub<double>(0.0, fabs(u(i0)))", function(i, u, v) v[i] = 0 - math.abs(u[i]) end,
      "double", "double")
    holds("lua::add<double>((-fabs(u(i0))), 0.0)", function(i, u, v) v[i] = -math.abs(u[i]) + 0 end,
      "double", "double")
    holds("lua::sub<double>(floor(fabs(0.001)), (double)i0)", function(i, v)
      v[i] = math.floor(math.abs(1e-3)) - i
    end, "double")
    holds("(1.0 - fabs(u(i0)))", function(i, u, v) v[i] = 1 - math.abs(u[i]) end, "double",
      "double")
    holds("(u(i0) - (double)i0)", function(i, u, v) v[i] = u[i] - i end, "double", "double")
  end)

  it("that may be a NaN has no bounds beside another one", function()
    local list, floor, max, min = { 1, 2, 3, 4, 5 }, math.floor, math.max, math.min
    holds(" - (1)]", function(i, u, v)
      v[i] = list[min(max(max(2, floor(u[i])), i % 2 + 1), 5)]
    end, "double", "double")
    assert.error_matches(function()
      text_of(function(i, u, v) v[i] = list[min(max(max(2, floor(u[i])), i % 2), 5)] end,
        "double", "double")
    end, "this index may be another one")
  end)

  it("that a loop counts up to a whole number is an integer", function()
    local most = 100
    local function counts(i, u, v)
      local k = 0
      while k < most and u[k % 9] < 4 do k = k + 1 end
      v[i] = k
    end
    holds("int x", counts, "double", "int")
    holds(" < most)", counts, "double", "int")
    holds("(double)most", function(i, u, v)
      local k = 0
      while k < most and u[i] < k do k = k + 0.5 end
      v[i] = math.floor(k)
    end, "double", "int")
    -- Neither is below it for certain.
    holds("double x", function(i, u, v)
      local k = 0
      while u[i] < 4 do
        if k < most then u[i] = 0 end
        k = k + 1
      end
      v[i] = k
    end, "double", "int")
    holds("double x", function(i, u, v)
      local k = 0
      ::again::
      if k < most then u[i] = 0 end
      k = k + 1
      if u[i] < 4 then goto again end
      v[i] = k
    end, "double", "int")
    most = 100.5
    holds("double most", counts, "double", "int")
  end)

  it("that was captured is whole where it has to be, by its value", function()
    local last, rate = 7, 1
    holds("int last, double rate", function(i, u, v) v[i] = u[math.min(i, last)] * rate end,
      "double", "double")
    last = 7.5
    assert.has_error(function()
      text_of(function(i, u, v) v[i] = u[math.min(i, last)] * rate end, "double", "double")
    end)
  end)
end)
