-- Mappers that were met before are recognised, and only those.
local known = require "celer.mapper.known"
local box = require "celer.box"
local mapper = require "celer.mapper.builtin"
local trace = require "celer.mapper.trace"

local range, extent = box.new({ 0 }, { 20 }), box.new({ 0 }, { 20 })

-- What a mapper is kept as.
local function keep(f)
  local rule, params, read, variant = trace.rule(f, range, extent)
  known.keep(f, range, extent, rule, params, read, variant)
  return rule, params
end

describe("a mapper that was met before", function()
  it("is found as a new closure of the same code", function()
    local function make(n) return function(c) return c:grow(n) end end
    local rule, params = keep(make(3))
    local again, now = known.find(make(3), range, extent)
    assert.equal(rule, again)
    assert.same(params, now)
    assert.same({ 3 }, now)
  end)

  it("is found with another number, which is its parameter", function()
    local function make(n) return function(c) return c:grow(n + 0) end end
    local rule = keep(make(3))
    for _, n in ipairs { 4, 4, 3, 7 } do
      local again, params = known.find(make(n), range, extent)
      assert.equal(rule, again)
      assert.same({ n }, params)
    end
    assert.is_nil(known.find(make(0.5), range, extent))
    assert.is_nil(known.find(make "3", range, extent))
  end)

  it("is found where its bounds are long", function()
    local function make(n)
      return function(c)
        local x = c.min[0]
        for _ = 1, 150 do x = mapper.max(mapper.min(x + n, 100), n) end
        return box.new({ x }, { x + 1 }):clamped()
      end
    end
    local rule = keep(make(1))
    assert.is_true(#rule.desc.code > 1000)
    local again, params = known.find(make(2), range, extent)
    assert.equal(rule, again)
    assert.same({ 2 }, params)
  end)

  it("is not found where another number leads to another rule", function()
    local function make(n)
      return function(c) return rawequal(n, 9) and c or c:grow(n) end -- no symbol is 9
    end
    keep(make(3))
    assert.truthy(known.find(make(8), range, extent))
    assert.is_nil(known.find(make(9), range, extent))
    local function switch(n)
      return function(c) if n > 5 then return c end return c:grow(1) end
    end
    keep(switch(3))
    assert.truthy(known.find(switch(3), range, extent))
    assert.is_nil(known.find(switch(6), range, extent))
  end)

  it("is not found for other objects, even if they are equal", function()
    local function make(n) return function(c) return c:grow(n + 1) end end
    keep(make(3))
    assert.is_nil(known.find(make(3), box.new({ 0 }, { 20 }), extent))
    assert.is_nil(known.find(make(3), range, box.new({ 0 }, { 20 })))
  end)

  it("is not found once what it calls captured something else", function()
    local n = 1
    local function by() return n end
    local function f(c) return c:grow(by()) end
    keep(f)
    assert.truthy(known.find(f, range, extent))
    n = 2
    assert.same({ 2 }, select(2, known.find(f, range, extent)))
    function by() return n + 0 end
    assert.is_nil(known.find(f, range, extent))
  end)

  it("is not found once a global changed that it reads", function()
    local f = setfenv(function(c) return c:grow(width) end, { width = 2 }) -- luacheck: ignore
    keep(f)
    assert.truthy(known.find(f, range, extent))
    getfenv(f).width = 3
    assert.is_nil(known.find(f, range, extent))
  end)

  it("is never kept with a box, which may change inside", function()
    local part = box.new({ 1 }, { 2 })
    local function f() return part end
    keep(f)
    assert.is_nil(known.find(f, range, extent))
  end)

  it("is found where it shares a number with what it calls", function()
    local function both(n)
      local function by() return n end
      return function(c) return c:grow(n + by()) end
    end
    local rule = keep(both(2))
    for _, n in ipairs { 2, 5, 3 } do
      local again, params = known.find(both(n), range, extent)
      assert.equal(rule, again)
      assert.same({ n }, params)
    end
  end)

  it("is not found where two such numbers are no longer one", function()
    local function apart(n, m)
      local function by() return m end
      local f = function(c) return c:grow(n + by()) end
      return f, by
    end
    local f, by = apart(2, 7)
    debug.upvaluejoin(by, 1, f, 1) -- both see n
    keep(f)
    assert.truthy(known.find(f, range, extent))
    assert.is_nil(known.find((apart(2, 3)), range, extent))
    assert.same({ 3 }, select(2, known.find((apart(3, 3)), range, extent)))
  end)

  it("is found with helpers made anew", function()
    local function make(n, m)
      local function inner(x) return x + n end
      local function outer(x) return inner(x) * m end
      return function(c) return c:grow(outer(1) + inner(m)) end
    end
    local rule = keep(make(1, 2))
    local again, params = known.find(make(3, 4), range, extent)
    assert.equal(rule, again)
    assert.same({ 3, 4 }, { params[1], params[2] })
    local function other(n, m)
      local function inner(x) return x - n end
      local function outer(x) return inner(x) * m end
      return function(c) return c:grow(outer(1) + inner(m)) end
    end
    assert.is_nil(known.find(other(1, 2), range, extent))
  end)

  it("is not found where one helper is now two", function()
    local function make(k)
      local function helper(n) return function() return n end end
      local a, b = helper(1), helper(k)
      if k == 1 then b = a end
      return function(c) return c:grow(a() + b()) end
    end
    keep(make(1))
    assert.truthy(known.find(make(1), range, extent))
    assert.is_nil(known.find(make(2), range, extent))
  end)

  it("may be one of celer's own", function()
    local rule = keep(mapper.one_to_one)
    assert.equal(rule, (known.find(mapper.one_to_one, range, extent)))
    assert.is_nil(known.find(mapper.all, range, extent))
    keep(mapper.all)
    assert.are_not.equal(rule, (known.find(mapper.all, range, extent)))
  end)
end)
