-- Range mappers that take one course for all numbers are told from those that may not.
local box = require "celer.box"
local closure = require "celer.mapper.closure"
local mapper = require "celer.mapper.builtin"
local straight = require "celer.mapper.straight"

local function is_straight(f, globals)
  return straight.is_straight(closure.read(f), globals or {})
end

describe("a range mapper", function()
  it("is straight where numbers are computed with, or refused", function()
    local new, floor, max, n, on = box.new, math.floor, mapper.max, 3, true
    local function by(x) return max(x * n, 0) end
    for i, f in ipairs {
      function(c) return c end,
      function(c) return c:grow(n) end,
      function(c) return new({ c.min[0] - n }, { c.max[0] + n }):clamped() end,
      function(c, b) return new({ 0, c.min[0] }, { b.size[0], c.max[0] }), c:with(1, 0, n) end,
      function(c) return new({ floor(c.min[0] / n) }, { floor((c.max[0] - 1) / n) + 1 }) end,
      function(c) return on and c:grow(by(1)) or c end,
      function(c) if n > 2 then return c end return c:grow(n % 2) end, -- a symbol refuses
      function(c) return c, n > 2 and c:grow(1) or c end,
      mapper.neighborhood(1, 2), mapper.all,
    } do
      assert.is_true(is_straight(f), "mapper " .. i)
    end
  end)

  it("is not where a number may be told from a symbol", function()
    local n, rawequal, type, tonumber = 3, rawequal, type, tonumber
    local function by(x) return rawequal(x, 9) and 1 or 2 end
    for i, f in ipairs {
      function(c) return rawequal(n, 9) and c or c:grow(n) end,
      function(c) return type(n) == "number" and c or c:grow(n) end,
      function(c) return c:grow(tonumber(n) or 1) end,
      function(c) return c:grow(({ 1, 2, 3 })[n] or 0) end,
      function(c) return c:grow(({ [n] = 1 })[9] or 0) end,
      function(c) return c:grow(by(n)) end,
      function(c) n = n + 1 return c end,
      function(c, ...) return c:grow(...) end,
      function(c) return (function() return c end)() end,
    } do
      assert.is_false(is_straight(f), "mapper " .. i)
    end
  end)

  it("is not where it reads such a function as a global", function()
    local function f(c) return c:grow(any(3)) end -- luacheck: ignore
    assert.is_true(is_straight(f, { { value = mapper.max } }))
    assert.is_true(is_straight(f, { { value = math.max } }))
    assert.is_false(is_straight(f, { { value = rawequal } }))
  end)
end)
