local ffi = require("ffi")
local rules = require("spec.rule.rules")
local c = rules.c

local RANGE = tonumber(ffi.cast("cel_status", "CEL_E_RANGE"))
local store = c.cel_rules_create()

local function random_box(pick, dims, most)
  local max = {}
  for d = 1, dims do max[d] = pick(1, most) end
  return rules.box({}, max)
end

local function random_chunk(pick, range, dims)
  local min, max = {}, {}
  for d = 1, dims do
    min[d] = pick(0, tonumber(range.max[d - 1]) - 1)
    max[d] = pick(min[d] + 1, tonumber(range.max[d - 1]))
  end
  return rules.box(min, max)
end

local function random_rule(pick, task_dims, buffer_dims)
  local boxes = {}
  for b = 1, pick(0, 3) do
    local each = task_dims > 0 and pick(1, 3) == 1 and pick(0, task_dims - 1) or nil
    boxes[b] = { each = each }
    for j = 1, buffer_dims do
      local low = rules.of_index(rules.expression(pick, task_dims, buffer_dims, 2, pick(0, 3)),
        each)
      local high = each and pick(0, 1) == 1 and { "+", low, pick(1, 4) }
        or rules.of_index(rules.expression(pick, task_dims, buffer_dims, 2, pick(0, 3)), each)
      boxes[b][j] = { low, high }
    end
  end
  local clamp = pick(0, 1) == 0
  return boxes, clamp, rules.rule(store, task_dims, buffer_dims, boxes,
    { params = 2, clamp = clamp })
end

describe("evaluation", function()
  it("agrees with the Lua evaluator for random programs", function()
    local pick = rules.random(41)
    local region, fine, failed = ffi.new("cel_region"), 0, 0
    for _ = 1, 3000 do
      local task_dims, buffer_dims = pick(0, 3), pick(0, 3)
      local boxes, clamp, rule = random_rule(pick, task_dims, buffer_dims)
      local range = random_box(pick, task_dims, 6)
      local extent = random_box(pick, buffer_dims, 6)
      local params = { [0] = pick(-2, 5), pick(-2, 5) }
      local use, anchor = rules.use(rule, range, extent, { params[0], params[1] })
      local chunk = random_chunk(pick, range, task_dims)
      local env = rules.env(rules.plain(chunk), rules.plain(range), rules.plain(extent), params)
      local expected = rules.points(boxes, buffer_dims, env, rules.plain(extent), clamp)
      local status = c.cel_rule_eval(use, chunk, region)
      if expected then
        fine = fine + 1
        assert.equal(0, tonumber(status))
        assert.same(expected, rules.region_points(region))
        c.cel_region_check(region)
      else
        failed = failed + 1
        assert.equal(RANGE, tonumber(status))
      end
      assert(anchor)
    end
    assert.is_true(fine > 1000 and failed > 200)
  end)

  it("agrees with eval_box, and leaves *out alone on failure", function()
    local rule = rules.rule(store, 1, 1,
      { { { { "min", 0 }, { "+", { "max", 0 }, 2 } } } })
    local use = rules.use(rule, rules.box({}, { 10 }), rules.box({}, { 8 }))
    local out = rules.box({ 7 }, { 9 })
    assert.equal(0, tonumber(c.cel_rule_eval_box(use, 0, rules.box({ 1 }, { 3 }), out)))
    assert.equal(5, tonumber(out.max[0]))
    assert.are_not.equal(0, tonumber(c.cel_rule_eval_box(use, 0, rules.box({ 6 }, { 7 }), out)))
    assert.equal(5, tonumber(out.max[0]))
    assert.equal("the range mapper gives the box [6, 9) for the chunk [6, 7),"
      .. " which leaves the buffer [0, 8)", ffi.string(c.cel_error_last().text))
  end)

  it("stays within 2^53", function()
    local big = 2 ^ 52
    local function status(e)
      local rule = rules.rule(store, 1, 1, { { { 0, e } } }, { clamp = true })
      local use = rules.use(rule, rules.box({}, { 4 }), rules.box({}, { 8 }))
      return tonumber(c.cel_rule_eval(use, rules.box({}, { 4 }), ffi.new("cel_region")))
    end
    assert.equal(0, status({ "+", big, big }))
    assert.equal(RANGE, status({ "+", { "+", big, big }, 1 }))
    assert.equal(RANGE, status({ "*", big, big }))
    assert.equal(RANGE, status({ "*", { "*", big, 2 }, { "*", big, 2 } }))
    assert.equal(RANGE, status({ "//", 4, { "-", { "min", 0 }, 0 } }))
    assert.equal(0, status({ "//", -7, 2 }))
  end)
end)

describe("binding", function()
  local function shadow(bound, chunk)
    local v = bound.of_max and chunk.max or chunk.min
    return tonumber(bound.a * v[bound.dim] + bound.c)
  end

  it("agrees with evaluation wherever a chunk can be evaluated", function()
    local pick = rules.random(7)
    local bound, out, affine = ffi.new("cel_affine_box"), ffi.new("cel_box"), 0
    for _ = 1, 6000 do
      local task_dims, buffer_dims = pick(1, 3), pick(1, 3)
      local boxes, _, rule = random_rule(pick, task_dims, buffer_dims)
      local range = random_box(pick, task_dims, 7)
      local extent = random_box(pick, buffer_dims, 9)
      local use, anchor = rules.use(rule, range, extent, { pick(-2, 5), pick(-2, 5) })
      for b = 0, #boxes - 1 do
        if c.cel_rule_to_affine(use, b, bound) then
          affine = affine + 1
          for _ = 1, 6 do
            local chunk = random_chunk(pick, range, task_dims)
            if c.cel_rule_eval_box(use, b, chunk, out) == 0 then
              local r = rules.box({}, {})
              for j = 0, 2 do
                r.min[j] = math.max(shadow(bound.lo[j], chunk), tonumber(bound.clip.min[j]))
                r.max[j] = math.min(shadow(bound.hi[j], chunk), tonumber(bound.clip.max[j]))
              end
              if rules.empty(rules.plain(r)) then r = ffi.new("cel_box") end
              assert.same(rules.plain(out), rules.plain(r))
            end
          end
        end
      end
      assert(anchor)
    end
    assert.is_true(affine > 1500)
  end)

  local bound = ffi.new("cel_affine_box")
  local function bind(lo, hi, range, extent)
    local rule = rules.rule(store, 2, 1, { { { lo, hi } } })
    local use = rules.use(rule, rules.box({}, range or { 12, 12 }),
      rules.box({}, extent or { 24 }))
    return c.cel_rule_to_affine(use, 0, bound)
  end
  local m, M = { "min", 0 }, { "max", 0 }

  it("sees through sums that cancel, and sizes", function()
    assert.is_true(bind(m, { "+", m, { "-", M, m } }))
    assert.is_true(bound.hi[0].of_max)
    assert.equal(1, tonumber(bound.hi[0].a))
    assert.is_false(bind(m, { "+", m, { "*", 2, { "-", M, m } } }))
    assert.is_false(bind({ "*", m, m }, M))
  end)

  it("turns clamps into the clip", function()
    assert.is_true(bind({ "+", { "high", { "-", m, 2 }, 1 }, 3 }, { "low", M, 9 }))
    assert.equal(1, tonumber(bound.lo[0].c))
    assert.equal(4, tonumber(bound.clip.min[0]))
    assert.equal(9, tonumber(bound.clip.max[0]))
    assert.is_false(bind({ "low", m, 5 }, M))
    assert.is_true(bind({ "low", m, 12 }, M)) -- never takes effect
    assert.is_true(bind({ "low", m, 24 }, { "high", M, 0 }))
    assert.is_true(bind({ "low", m, M }, { "high", m, M }))
    assert.is_true(bound.hi[0].of_max)
  end)

  it("divides exact multiples", function()
    assert.is_true(bind({ "//", { "+", { "*", m, 6 }, 7 }, 3 }, { "//", { "*", M, 6 }, 3 }))
    assert.equal(2, tonumber(bound.lo[0].a))
    assert.equal(2, tonumber(bound.lo[0].c))
    assert.is_false(bind({ "//", m, 2 }, M))
  end)

  it("draws constants into the clip", function()
    assert.is_true(bind(3, { "buffer", 0 }))
    assert.equal(3, tonumber(bound.clip.min[0]))
    assert.equal(0, tonumber(bound.lo[0].a))
    assert.is_true(bind(3, 3))
    assert.equal(0, tonumber(bound.clip.max[0]))
  end)
end)

describe("classification", function()
  local names = { [0] = "constant", "identity", "permutation", "affine", "general" }
  local function class(task_dims, boxes, extent, range)
    local rule = rules.rule(store, task_dims, #boxes[1], boxes)
    local use = rules.use(rule, rules.box({}, range or { 8, 8, 8 }), rules.box({}, extent))
    return names[tonumber(c.cel_rule_classify(use))]
  end
  local function span(d) return { { "min", d }, { "max", d } } end

  it("names the shape", function()
    assert.equal("constant", class(1, { { { 0, { "buffer", 0 } } } }, { 8 }))
    assert.equal("identity", class(2, { { span(0), span(1) } }, { 8, 8 }))
    assert.equal("permutation", class(2, { { span(1), span(0) } }, { 8, 8 }))
    assert.equal("affine", class(2, { { span(1), span(1) } }, { 8, 8 }))
    assert.equal("affine", class(2, { { span(0) } }, { 8 }))
    assert.equal("affine", class(1, { { span(0) }, { span(0) } }, { 8 }))
    assert.equal("affine", class(1, { { { { "high", { "min", 0 }, 2 }, { "max", 0 } } } }, { 8 }))
    -- A clamp that no chunk reaches, or that all do, is none.
    local function rest(most)
      local function at(v) return { "+", { "*", 2, v }, { "low", v, most } } end
      return { { { at({ "min", 0 }), at({ "max", 0 }) } } }
    end
    assert.equal("affine", class(1, rest(0), { 24 }))
    assert.equal("affine", class(1, rest(8), { 24 }))
    assert.equal("general", class(1, rest(3), { 24 }))
    assert.equal("general", class(1, { { { { "//", { "min", 0 }, 2 }, 8 } } }, { 8 }))
  end)
end)
