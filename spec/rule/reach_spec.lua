-- How far around an item a rule reads.
local ffi = require("ffi")
local rules = require("spec.rule.rules")
local c = require("spec.support.cdef")("rule/reach.h")
local store = c.cel_rules_create()

local function lower(d, by) return { "-", { "min", d }, by } end
local function upper(d, by) return { "+", { "max", d }, by } end

-- {below..., above...} of a rule over [2, 9) x [0, 5) of a buffer of 12 x 7, or nil.
local function reach(boxes, options)
  options = options or {}
  local dims = #boxes[1]
  local rule = assert(rules.rule(store, options.task_dims or dims, dims, boxes,
    { clamp = true, params = options.params and #options.params }))
  local extent = rules.box({}, { 12, 7 })
  local use, anchor = rules.use(rule, options.whole and extent or rules.box({ 2, 0 }, { 9, 5 }),
    extent, options.params)
  local out = ffi.new("cel_reach")
  local is = c.cel_rule_reach(use, out)
  assert(anchor)
  c.cel_rule_release(rule)
  if not is then return nil end
  local found = {}
  for j = 0, dims - 1 do found[#found + 1] = tonumber(out.below[j]) end
  for j = 0, dims - 1 do found[#found + 1] = tonumber(out.above[j]) end
  return found, out.along_axes, { out.wraps[0], out.wraps[1] }
end

describe("cel_rule_reach", function()
  it("knows neighbourhoods, of even and of odd sides", function()
    assert.same({ 1, 2 }, reach({ { { lower(0, 1), upper(0, 2) } } }))
    assert.same({ 0, 3, 0, 1 },
      reach({ { { { "min", 0 }, { "max", 0 } }, { lower(1, 3), upper(1, 1) } } }))
  end)

  it("knows a cross by its rule, however it is written", function()
    local function same(d) return { { "min", d }, { "max", d } } end
    local found, along_axes = reach({
      { { lower(0, 2), upper(0, 2) }, same(1) }, { same(0), { lower(1, 1), upper(1, 1) } } })
    assert.same({ 2, 1, 2, 1 }, found)
    assert.is_true(along_axes)
    found, along_axes = reach({
      { { lower(0, 2), upper(0, 2) }, same(1) }, { { lower(0, 1), { "max", 0 } },
        { lower(1, 1), upper(1, 1) } } })
    assert.same({ 2, 1, 2, 1 }, found)
    assert.is_false(along_axes)
  end)

  it("takes numbers that a mapper captured", function()
    assert.same({ 4, 4 }, reach({ { { { "-", { "min", 0 }, { "param", 0 } },
      { "+", { "param", 0 }, { "max", 0 } } } } }, { params = { 4 } }))
  end)

  it("counts the item itself to what is read", function()
    assert.same({ 0, 5 }, reach({ { { { "+", { "min", 0 }, 4 }, upper(0, 5) } } }))
  end)

  it("does not mind what is held within the range or the buffer", function()
    assert.same({ 1, 1 }, reach({ { { { "high", lower(0, 1), { "gmin", 0 } },
      { "low", { "gmax", 0 }, upper(0, 1) } } } }))
  end)

  it("takes what is held at the range's ends, of one side alone", function()
    -- u[min(i + 1, 8)], u[max(i - 3, 2)], u[min(max(i - 1, 2), 8)] and so on, of [2, 9)
    local function up(by, at)
      return { { "low", { "+", { "min", 0 }, by }, at },
        { "+", { "low", { "+", { "max", 0 }, by - 1 }, at }, 1 } }
    end
    local function down(by, at)
      return { { "high", at, { "-", { "min", 0 }, by } },
        { "+", { "high", at, { "-", { "max", 0 }, by + 1 } }, 1 } }
    end
    assert.same({ 0, 1 }, reach({ { up(1, 8) } }))
    assert.same({ 0, 3 }, reach({ { up(3, 8) } }))
    assert.same({ 0, 1 }, reach({ { up(1, 11) } })) -- beyond the range
    assert.same({ 3, 0 }, reach({ { down(3, 2) } }))
    assert.same({ 3, 0 }, reach({ { down(3, 0) } }))
    assert.same({ 1, 2 }, reach({ { up(2, 8) }, { down(1, 2) } }))
    assert.same({ 1, 1 }, reach({ { { { "low", { "high", 2, lower(0, 1) }, 8 },
      { "high", { "low", upper(0, 1), 9 }, 3 } } } }))
    -- Where it is further to there than to what is read else.
    assert.is_nil(reach({ { up(1, 7) } }))
    assert.is_nil(reach({ { down(3, 4) } }))
  end)

  -- The boxes of celer.periodic in one dimension or, along axes, in two.
  local function turned(d, below, above, by)
    return { { "+", lower(d, below), by }, { "+", upper(d, above), by } }
  end

  it("reads around ends that meet, where the range has all of the buffer", function()
    local line = { { turned(0, 1, 2, -12) }, { turned(0, 1, 2, 0) }, { turned(0, 1, 2, 12) } }
    local found, _, wraps = reach(line, { whole = true })
    assert.same({ 1, 2 }, found)
    assert.same({ true, false }, wraps)
    assert.same({ 13, 14 }, reach(line))
    local same = { { "min", 0 }, { "max", 0 } }
    local cross = { { turned(0, 2, 2, 0), { { "min", 1 }, { "max", 1 } } } }
    for by = -7, 7, 7 do cross[#cross + 1] = { same, turned(1, 1, 1, by) } end
    local along_axes
    found, along_axes, wraps = reach(cross, { whole = true })
    assert.same({ 2, 1, 2, 1 }, found)
    assert.is_true(along_axes)
    assert.same({ false, true }, wraps)
  end)

  it("knows what begins at the other end, as of u[(i + 1) % n]", function()
    local n = { "buffer", 0 }
    local function above(by) -- [0, max(-1, chunk.max - n + by - 1) + 1)
      return { { 0, { "+", { "high", -1, { "+", { "-", { "max", 0 }, n }, by - 1 } }, 1 } } }
    end
    local function below(by) return { { { "+", { "-", { "min", 0 }, by }, n }, n } } end
    local near = { { lower(0, 1), upper(0, 1) } }
    local found, _, wraps = reach({ near, above(2), below(1) }, { whole = true })
    assert.same({ 1, 2 }, found)
    assert.same({ true, false }, wraps)
    assert.same({ 3, 1 }, reach({ near, below(3) }, { whole = true }))
    -- Held where something is left, which all items read then.
    local function last(at) -- [max(0, chunk.min - n + 2), max(at, chunk.max - n + 2))
      return { { { "high", 0, { "+", { "-", { "min", 0 }, n }, 2 } },
        { "high", at, { "+", { "-", { "max", 0 }, n }, 2 } } } }
    end
    local function first(at) -- [min(at, chunk.min + n - 2), min(n, chunk.max + n - 2))
      return { { { "low", at, { "-", { "+", { "min", 0 }, n }, 2 } },
        { "low", n, { "-", { "+", { "max", 0 }, n }, 2 } } } }
    end
    assert.same({ 0, 2 }, reach({ last(0) }, { whole = true }))
    assert.same({ 10, 0 }, reach({ last(1) }, { whole = true }))
    assert.same({ 2, 0 }, reach({ first(12) }, { whole = true }))
    assert.same({ 0, 10 }, reach({ first(11) }, { whole = true }))
    assert.is_nil(reach({ near, above(2) })) -- where the range has other ends
    assert.is_nil(reach({ near, above(7) }, { whole = true })) -- further than halfway round
    assert.is_nil(reach({ near, { { 0, upper(0, 0) } } }, { whole = true })) -- all before it
    assert.is_nil(reach({ near, { { 1, { "-", upper(0, 1), n } } } }, { whole = true }))
    assert.is_nil(reach({ near, { { 0, { "high", 3, { "-", upper(0, 1), n } } } } },
      { whole = true }))
  end)

  it("meets no ends where nothing is read beyond them", function()
    local found, _, wraps = reach({ { turned(0, 0, 0, -12) }, { turned(0, 0, 0, 0) } },
      { whole = true })
    assert.same({ 0, 0 }, found)
    assert.same({ false, false }, wraps)
    -- Further than halfway round: it is nearer the other way.
    assert.same({ 0, 4 }, reach({ { turned(0, 8, -8, 0) }, { turned(0, 0, 4, 0) } },
      { whole = true }))
  end)

  it("refuses what is no neighbourhood", function()
    local refused = {
      { { 0, { "buffer", 0 } } }, -- all
      { { { "*", { "min", 0 }, 2 }, { "*", { "max", 0 }, 2 } } }, -- strided
      { { { "min", 0 }, { "+", { "min", 0 }, 1 } } }, -- its end follows the begin
      { { { "low", { "min", 0 }, 3 }, { "max", 0 } } }, -- held outwards
      { { { "-", 7, { "max", 0 } }, { "-", 7, { "min", 0 } } } }, -- reversed
      { { { "min", 1 }, { "max", 1 } }, { { "min", 0 }, { "max", 0 } } }, -- transposed
    }
    for i, box in ipairs(refused) do assert.is_nil(reach({ box }), i) end
    assert.is_nil(reach({ { { { "min", 0 }, { "max", 0 } } } }, { task_dims = 2 }))
  end)
end)
