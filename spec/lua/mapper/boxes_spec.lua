-- celer.boxes as mappers are traced, confirmed and asked.
local ffi = require("ffi")
local asked = require("celer.mapper.asked")
local box = require("celer.box")
local describe_rule = require("celer.mapper.describe")
local families = require("celer.mapper.boxes")
local mapper = require("celer.mapper.builtin")
local trace = require("celer.mapper.trace")
local c = require("spec.support.cdef")("rule/rule.h")

package.loaded.celer = package.loaded.celer or setmetatable({ box = box.new },
  { __index = mapper })
local boxes = families.boxes
local range, line = box.new({ 0 }, { 12 }), box.new({ 0 }, { 96 })
local square = box.new({ 0, 0 }, { 96, 96 })
local store, out = c.cel_rules_create(), ffi.new("const cel_rule *[1]")

local function intern(desc)
  local record, code, programs = describe_rule.desc(desc)
  assert(code and programs)
  assert.equal(0, tonumber(c.cel_rules_intern(store, record, out)))
  return out[0]
end

local function text(f, extent, space)
  return describe_rule.rule(c, intern, f, space or range, extent or line):match "^rule: ([^\n]*)"
end

-- What a mapper gives for each chunk, by its rule and asked itself.
local function check_alike(f, extent)
  local region, wanted = ffi.new("cel_region"), ffi.new("cel_region")
  local rule, params = trace.rule(f, range, extent)
  assert.is_false(rule.opaque, rule.reason)
  local use, words = describe_rule.use(intern(rule.desc), params, range, extent)
  for a = 0, 11 do
    for b = a + 1, 12 do
      assert.equal(0, tonumber(c.cel_rule_eval(use,
        ffi.new("cel_box", { { a, 0, 0 }, { b, 1, 1 } }), region)))
      c.cel_region_clear(wanted)
      for _, one in ipairs(asked.evaluate(f, box.new({ a }, { b }), range, extent)) do
        local lo, hi = box.bounds(one)
        c.cel_region_add(wanted,
          ffi.new("cel_box", { { lo[1], lo[2] or 0, 0 }, { hi[1], hi[2] or 1, 1 } }))
      end
      assert.is_true(c.cel_region_equal(wanted, region))
    end
  end
  assert(words)
end

describe("celer.boxes", function()
  it("means in the engine what it means in Lua", function()
    local b = 3
    for _, f in ipairs {
      function(k) return boxes(k, function(i) return box.new({ 5 * i }, { 5 * i + b }) end) end,
      function(k)
        return boxes(k, function(i)
          return box.new({ i * 7 % 12 }, { i * 7 % 12 + 1 }), box.new({ 50 }, { 50 + b })
        end)
      end,
      function(k)
        return boxes(k, function(i) return { box.new({ i }, { i + 2 }):clamped() } end),
          box.new({ k.min[0] }, { k.max[0] }),
          { boxes(k, function(i) return box.new({ 90 - i }, { 91 - i }) end) }
      end,
      function(k, u)
        return boxes(k, function(i)
          return box.new({ math.floor(i / 4) * 4 }, { math.min(i * 9, u.size[0]) }):clamped()
        end)
      end,
    } do
      check_alike(f, line)
    end
    check_alike(function(k)
      return boxes(k, function(i) return box.new({ i * b, i * b }, { i * b + b, i * b + b }) end)
    end, square)
  end)

  it("is compiled once, whatever the numbers and however many indices", function()
    local calls = 0
    local function of(b)
      return function(k)
        return boxes(k, function(i) return box.new({ i * b }, { i * b + 1 }) end)
      end
    end
    local first = trace.rule(of(3), range, line)
    local traces = trace.traces
    local second, params = trace.rule(of(4), range, line)
    assert.equal(first, second)
    assert.same({ 4 }, params)
    assert.equal(traces, trace.traces)
    assert.is_nil(first.volatile)
    local big = box.new({ 0 }, { 1e9 })
    local function counted(i) calls = calls + 1 return box.new({ 2 * i }, { 2 * i + 1 }) end
    assert.is_false(trace.rule(function(k) return boxes(k, function(i)
      return box.new({ 2 * i }, { 2 * i + 1 }) end) end, big, box.new({ 0 }, { 2e9 })).opaque)
    assert.equal(0, calls)
    assert.is_true(trace.rule(function(k) return boxes(k, counted) end, range, line).opaque)
  end)

  it("goes along the dimension that it is given", function()
    local space = box.new({ 0, 0 }, { 4, 6 })
    assert.equal("[chunk.min0, chunk.max0) x [3 * i1, 3 * i1 + 1) for each i1 in "
      .. "[chunk.min1, chunk.max1)", text(function(k)
        return boxes(k, function(j)
          return box.new({ k.min[0], 3 * j }, { k.max[0], 3 * j + 1 })
        end, 1)
      end, square, space))
  end)

  it("is the chunk, or one box, where it comes to that", function()
    assert.equal("[chunk.min0, chunk.max0)", text(function(k)
      return boxes(k, function(i) return box.new({ i }, { i + 1 }) end)
    end))
    assert.equal("[0, buffer.size0)", text(function(k, u)
      return boxes(k, function() return box.new({ 0 }, { u.size[0] }) end)
    end))
  end)

  it("is opaque where the function takes another course for one index", function()
    local function reason(f) return trace.rule(f, range, line).reason end
    local table_ = { [0] = 5, 3, 9, 8, 7, 2, 1, 0, 6, 4, 11, 10 }
    assert.matches("it compares bounds", reason(function(k)
      return boxes(k, function(i) return box.new({ i }, { i == 3 and 9 or i + 1 }) end)
    end))
    assert.matches("it needs numbers", reason(function(k)
      return boxes(k, function(i) return box.new({ table_[i] }, { table_[i] + 1 }) end)
    end))
    assert.matches("depend on the chunk's bounds in dimension 0 too", reason(function(k)
      return boxes(k, function(i) return box.new({ i }, { i + k.size[0] }) end)
    end))
    assert.matches("another course for another chunk", reason(function(k)
      return boxes(k, function(i)
        if type(i) == "number" and i > 5 then return box.new({ 0 }, { 1 }) end
        return box.new({ i }, { i + 1 })
      end)
    end))
    assert.matches("another course for another chunk", reason(function(k)
      return boxes(k, function(i)
        if type(i) == "number" then return box.new({ i }, { i + 1 }), box.new({ 0 }, { 1 }) end
        return box.new({ i }, { i + 1 })
      end)
    end))
    assert.matches("another course for another chunk", reason(function(k)
      if type(k.min[0]) == "number" then return k end
      return boxes(k, function(i) return box.new({ i }, { i + 1 }) end)
    end))
  end)

  it("gives an opaque mapper its boxes, up to 64", function()
    local table_ = { [0] = 5, 3, 9, 8 }
    local function f(k)
      return boxes(k, function(i) return box.new({ table_[i] }, { table_[i] + 1 }) end)
    end
    local got = asked.evaluate(f, box.new({ 1 }, { 4 }), range, line)
    assert.same({ "[3, 4)", "[9, 10)", "[8, 9)" },
      { tostring(got[1]), tostring(got[2]), tostring(got[3]) })
    local many = box.new({ 0 }, { 65 })
    local ok, message = pcall(asked.evaluate, function(k)
      return boxes(k, function(i) return box.new({ i }, { i + 1 }) end)
    end, many, many, line, "why")
    assert.is_false(ok)
    assert.matches("celer.boxes gives 65 boxes here, and 64 are the most of a range mapper that "
      .. "has no closed form %(why%)", message)
  end)
end)
