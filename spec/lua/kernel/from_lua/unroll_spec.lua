-- Loops that are written out, and which are not.
local types = require "celer.data.types"
local variants = require "celer.kernel.from_lua.variant"

local double = types.find "double"

-- The C++ of f(i, u, v, ...) for 100 items, with arrays of doubles.
local function text_of(f)
  local call = { items = 1, least = { 0 }, most = { 100 }, wide = false, key = "", arguments = {} }
  for k, name in ipairs { "u", "v" } do
    call.arguments[k] = { what = "array", number = k, name = name, dims = 1, type = double,
      extents = { [0] = 100 } }
  end
  return variants.translate(f, call, "k").text
end

local function count(text, pattern) return select(2, text:gsub(pattern, "")) end

local list, outside, n = { [0] = 4, 5, 6 }, { 1 }, 100

local function much(x)
  for _ = 1, 1 do
    x = math.sin(x) + math.sin(x + 1) + math.sin(x + 2) + math.sin(x + 3) + math.sin(x + 4)
    x = math.sin(x) + math.sin(x + 1) + math.sin(x + 2) + math.sin(x + 3) + math.sin(x + 4)
    x = math.sin(x) + math.sin(x + 1) + math.sin(x + 2) + math.sin(x + 3) + math.sin(x + 4)
    x = math.sin(x) + math.sin(x + 1) + math.sin(x + 2) + math.sin(x + 3) + math.sin(x + 4)
  end
  return x
end

describe("loops of kernels in Lua", function()
  it("with few turns are written out, also one in another", function()
    local text = text_of(function(i, u, v)
      local t, s = {}, 0
      for k = 3, 1, -1 do t[k] = u[i] * k end
      for a = 1, 3 do
        for b = a, 3 do s = s + t[a] * list[b - a] end
      end
      v[i] = s
    end)
    assert.is_nil(text:find("goto", 1, true), text)
    assert.is_nil(text:find("a%d+%[") or text:find("list", 1, true), text)
    assert.equal(3 * 2, count(text, "%* [456]%.0"), text)
  end)

  it("do what the counter says", function()
    local text = text_of(function(i, u, v)
      local s = 0
      for k = 0, 3 do
        if k == 1 then goto continue end
        if k > 2 then break end
        if k % 2 == 0 then s = s + u[i] * list[k] else s = outside[k + 10] end
        ::continue::
      end
      v[i] = s
    end)
    assert.is_nil(text:find("if (", 1, true), text)
    assert.equal(2, count(text, "u%(i0%)"), text)
  end)

  it("stay where they turn often, or are large", function()
    local text = text_of(function(i, u, v)
      local s = 0
      for k = 1, 17 do s = s + u[i] * k end
      v[i] = s
    end)
    assert.is_truthy(text:find("goto", 1, true), text)
    text = text_of(function(i, u, v)
      local s = 0
      for a = 1, 16 do
        for b = 1, 16 do
          for c = 1, 16 do s = s + u[i] * (a + b + c) end
        end
      end
      v[i] = s
    end)
    assert.is_truthy(text:find("goto", 1, true), text)
    assert.is_true(#text < 50000)
  end)

  it("stay where what they call is large", function()
    local text = text_of(function(i, u, v)
      local s = 0
      for a = 1, 16 do
        for _ = 1, 16 do s = much(s + u[i] * a) end
      end
      v[i] = s
    end)
    assert.equal(20, count(text, "sin%("), text)
  end)

  it("compare neighbours with the edge which they may be beyond", function()
    local text = text_of(function(i, u, v)
      local s = 0
      for d = -1, 1 do s = s + u[math.max(0, math.min(i + d, n - 1))] end
      v[i] = s
    end)
    assert.equal(1, count(text, "max%("), text)
    assert.equal(1, count(text, "min%("), text)
  end)
end)
