local ffi = require("ffi")
local rules = require("spec.rule.rules")
local c = rules.c

local store = c.cel_rules_create()

local function text(rule, params)
  local buffer = ffi.new("char[1024]")
  local n = c.cel_rule_print(rule, params, buffer, 1024)
  assert.equal(n, #ffi.string(buffer))
  return ffi.string(buffer)
end

local MIN0, MAX0, MIN1, MAX1 = { "min", 0 }, { "max", 0 }, { "min", 1 }, { "max", 1 }

describe("rule store", function()
  it("gives equal programs one rule, however they lie in memory", function()
    local boxes = { { { MIN0, MAX0 }, { 0, { "buffer", 1 } } } }
    local a = rules.rule(store, 2, 2, boxes)
    local desc, words, programs = rules.desc(2, 2, boxes)
    local moved = ffi.new("int64_t[64]", 99)
    ffi.copy(moved + 7, words, desc.code_length * 8)
    for j = 0, 1 do
      for u = 0, 1 do programs[0].start[j][u] = programs[0].start[j][u] + 7 end
    end
    programs[0].start[2][1] = 12345 -- of a dimension that is not there
    desc.code, desc.code_length = moved, desc.code_length + 7
    assert.equal(a, rules.intern(store, desc))
  end)

  it("tells different rules apart, also when there are many", function()
    local seen, ids = {}, {}
    for i = 1, 300 do
      local rule = rules.rule(store, 1, 1, { { { { "+", MIN0, i }, { "+", MAX0, i } } } })
      assert.is_nil(seen[tonumber(rule.id)])
      seen[tonumber(rule.id)], ids[i] = true, rule
    end
    for i = 1, 300 do
      assert.equal(ids[i],
        rules.rule(store, 1, 1, { { { { "+", MIN0, i }, { "+", MAX0, i } } } }))
    end
    local plain = rules.rule(store, 1, 1, { { { MIN0, MAX0 } } })
    local clamped = rules.rule(store, 1, 1, { { { MIN0, MAX0 } } }, { clamp = true })
    assert.are_not.equal(plain, clamped)
  end)

  it("keeps a rule until its last reference is given up", function()
    local own = c.cel_rules_create()
    local function shifted(i)
      return rules.rule(own, 1, 1, { { { { "+", MIN0, i }, { "+", MAX0, i } } } })
    end
    local made = {}
    for i = 1, 200 do made[i] = shifted(i) end
    assert.equal(200, c.cel_rules_count(own))
    assert.equal(made[7], shifted(7))
    c.cel_rule_retain(made[7])
    for i = 1, 200, 2 do c.cel_rule_release(made[i]) end
    assert.equal(101, c.cel_rules_count(own))
    assert.equal(made[7], shifted(7))
    for _ = 1, 3 do c.cel_rule_release(made[7]) end
    assert.equal(100, c.cel_rules_count(own))
    for i = 2, 200, 2 do assert.equal(made[i], shifted(i)) end
    assert.equal(201, tonumber(shifted(7).id)) -- no id comes back
    c.cel_rules_destroy(own)
  end)

  it("gives the same hash in another store", function()
    local other = c.cel_rules_create()
    rules.rule(other, 1, 1, { { { 1, 2 } } })
    local boxes = { { { MIN0, { "+", MAX0, 5 } } } }
    local a, b = rules.rule(store, 1, 1, boxes), rules.rule(other, 1, 1, boxes)
    assert.is_true(a.hash == b.hash)
    assert.are_not.equal(a, b)
    c.cel_rules_destroy(other)
  end)

  it("refuses malformed programs", function()
    local function flaw(change)
      local desc, words, programs = rules.desc(1, 1, { { { MIN0, { "+", MAX0, 1 } } } })
      change(desc, words, programs[0])
      local rule, message = rules.intern(store, desc)
      assert.is_nil(rule)
      return message
    end
    local match = assert.matches
    match("unknown operation", flaw(function(_, w) w[0] = 99 end))
    match("unknown operation", flaw(function(_, w) w[0] = -1 end))
    match("operand out of range", flaw(function(_, w) w[1] = 1 end))
    match("operand out of range", flaw(function(_, w) w[5] = 2LL ^ 53 + 1 end))
    match("without operands", flaw(function(_, _, p) p.start[0][0], p.length[0][0] = 6, 1 end))
    match("cut short", flaw(function(_, _, p) p.length[0][0] = 1 end))
    match("no single value", flaw(function(_, _, p) p.length[0][0] = 4 end))
    match("no single value", flaw(function(_, _, p) p.length[0][0] = 0 end))
    match("outside the code", flaw(function(_, _, p) p.start[0][0] = 100 end))
    match("64 boxes", flaw(function(d) d.boxes = 65 end))
    match("three dimensions", flaw(function(d) d.buffer_dims = 4 end))
    match("32 captured", flaw(function(d) d.params = 33 end))
    local deep = 1
    for _ = 1, 40 do deep = { "+", 1, deep } end
    local _, message = rules.rule(store, 1, 1, { { { 0, deep } } })
    match("too deeply", message)
  end)
end)

describe("printed rules", function()
  it("read as a user would write them", function()
    local function of(lo, hi, options)
      return text(rules.rule(store, 2, 1, { { { lo, hi } } }, options))
    end
    assert.equal("[chunk.min0 - 1, chunk.max0 + 1), clamped to the buffer",
      of({ "-", MIN0, 1 }, { "+", MAX0, 1 }, { clamp = true }))
    assert.equal("[chunk.min0 - 1, chunk.max0 + 2)",
      of({ "+", MIN0, -1 }, { "-", MAX0, -2 }))
    assert.equal("[(chunk.min0 + chunk.min1) * 3, chunk.max0 - (chunk.max1 - 1))",
      of({ "*", { "+", MIN0, MIN1 }, 3 }, { "-", MAX0, { "-", MAX1, 1 } }))
    assert.equal("[max(chunk.min0, 0), min(chunk.max0, buffer.size0))",
      of({ "high", MIN0, 0 }, { "low", MAX0, { "buffer", 0 } }))
    assert.equal("[floor(chunk.min0 / 32), chunk.size1 + chunk.global0)",
      of({ "//", MIN0, 32 }, { "+", { "-", MAX1, MIN1 }, { "-", { "gmax", 0 }, { "gmin", 0 } } }))
    assert.equal("[p0, p0 + 1)",
      of({ "param", 0 }, { "+", { "param", 0 }, 1 }, { params = 1 }))
  end)

  it("keep what binds less tightly together, and constants computed", function()
    local function of(lo, hi, params)
      return text(rules.rule(store, 1, 1, { { { lo, hi } } }, { params = params and 1 }),
        params and ffi.new("int64_t[1]", params))
    end
    local half = { "//", { "+", MIN0, 1 }, 2 }
    assert.equal("[floor((chunk.min0 + 1) / 2), floor(chunk.max0 * 3 / 2) + 1)",
      of(half, { "+", { "//", { "*", MAX0, 3 }, 2 }, 1 }))
    assert.equal("[chunk.min0 + 15, chunk.max0 + 2)",
      of({ "+", MIN0, { "-", 16, 1 } }, { "-", { "+", { "-", MAX0, 1 }, 4 }, 1 }))
    assert.equal("[chunk.min0, chunk.max0 - 3)",
      of({ "*", 1, { "-", { "+", MIN0, 2 }, 2 } }, { "//", { "-", MAX0, 3 }, 1 }))
    local p = { "param", 0 }
    local above = { "//", { "+", { "-", MAX0, 1 }, { "-", p, 1 } }, p }
    assert.equal("[chunk.min0 * 4, floor((chunk.max0 + 2) / 4))", of({ "*", MIN0, p }, above, 4))
    assert.equal("[p0 * 2, floor((chunk.max0 - 1 + p0 - 1) / p0))",
      text(rules.rule(store, 1, 1, { { { { "*", p, 2 }, { "//", { "-", { "+", { "-", MAX0, 1 },
        p }, 1 }, p } } } }, { params = 1 })))
    assert.equal("[-3 * chunk.min0 - (-2 * chunk.max0), -chunk.max0)",
      of({ "-", { "*", -3, MIN0 }, { "*", -2, MAX0 } }, { "*", MAX0, -1 }))
    assert.equal("[chunk.min0 - (chunk.max0 - 4), -(chunk.min0 - chunk.max0) * 2)",
      of({ "+", MIN0, { "*", -1, { "-", MAX0, 4 } } },
        { "*", { "*", { "-", MIN0, MAX0 }, -1 }, 2 }))
    assert.equal("[7, 3 - chunk.max0)",
      of({ "+", { "*", 0, { "+", MIN0, 2 } }, 7 }, { "+", 3, { "*", MAX0, -1 } }))
  end)

  it("read back as Lua, are the same functions", function()
    local pick = rules.random(7)
    local range, extent = rules.box({ 3, -2 }, { 19, 11 }), rules.box({ 0, 0 }, { 30, 20 })
    local compared = 0
    for _ = 1, 2000 do
      local params = { [0] = pick(-5, 9), pick(1, 9) }
      local box = {}
      for j = 1, 2 do
        box[j] = { rules.expression(pick, 2, 2, 2, 4), rules.expression(pick, 2, 2, 2, 4) }
      end
      local rule = assert(rules.rule(store, 2, 2, { box }, { params = 2 }))
      local chunk = rules.box({ pick(3, 10), pick(-2, 3) }, { pick(11, 19), pick(4, 11) })
      local raw = rules.raw(box, 2, rules.env(rules.plain(chunk), rules.plain(range),
        rules.plain(extent), params))
      for _, given in ipairs({ params, false }) do
        local printed = text(rule, given and ffi.new("int64_t[2]", given[0], given[1]) or nil)
        local bounds = printed:match("^%[(.*)%)$"):gsub("%) x %[", ", ")
        local read = assert(loadstring("return " .. bounds))
        local values = { min = math.min, max = math.max, floor = math.floor, chunk = {},
          global = {}, buffer = {}, p0 = params[0], p1 = params[1] }
        for d = 0, 1 do
          local lo, hi = tonumber(chunk.min[d]), tonumber(chunk.max[d])
          local from, to = tonumber(range.min[d]), tonumber(range.max[d])
          values.chunk["min" .. d], values.chunk["max" .. d] = lo, hi
          values.chunk["size" .. d], values.chunk["global" .. d] = hi - lo, to - from
          values.global["min" .. d], values.global["max" .. d] = from, to
          values.buffer["size" .. d] = tonumber(extent.max[d])
        end
        local a, b, e, f = setfenv(read, values)()
        if raw then
          compared = compared + 1
          assert.same({ raw.min[0], raw.max[0], raw.min[1], raw.max[1] }, { a, b, e, f }, printed)
        end
      end
    end
    assert.is_true(compared > 2000)
  end)

  it("show boxes, parameters, and how much room they need", function()
    local rule = rules.rule(store, 1, 2,
      { { { MIN0, MAX0 }, { 0, 4 } }, { { { "param", 0 }, 9 }, { 1, 2 } } }, { params = 1 })
    assert.equal("[chunk.min0, chunk.max0) x [0, 4) and [7, 9) x [1, 2)",
      text(rule, ffi.new("int64_t[1]", 7)))
    local short = ffi.new("char[8]")
    assert.equal(54, c.cel_rule_print(rule, nil, short, 8))
    assert.equal("[chunk.", ffi.string(short))
    assert.equal("nothing", text(rules.rule(store, 1, 1, {})))
    assert.equal("the element", text(rules.rule(store, 1, 0, { {} })))
  end)
end)
