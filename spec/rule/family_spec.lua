-- Families: a box for each index of a chunk.
local ffi = require("ffi")
local rules = require("spec.rule.rules")
local c = rules.c

local store = c.cel_rules_create()
local why, region = ffi.new("cel_counter_example"), ffi.new("cel_region")
local PROVED, REFUTED = 0, 1
local i0 = { "item", 0 }

local function plus(a, b) return { "+", a, b } end
local function times(a, b) return { "*", a, b } end
local function floor(a, b) return { "//", a, b } end

local function use_of(boxes, range, extent, options)
  local rule, message = rules.rule(store, #range, #extent, boxes, options)
  assert(rule, message)
  return rules.use(rule, rules.box({}, range), rules.box({}, extent))
end

local function eval(use, lo, hi)
  local status = c.cel_rule_eval(use, rules.box({ lo }, { hi }), region)
  if status ~= 0 then return nil, ffi.string(c.cel_error_last().text) end
  return tonumber(region.n)
end

local function text_of(use)
  local text = ffi.new("char[512]")
  c.cel_rule_print(use.rule, use.params, text, 512)
  return ffi.string(text)
end

local function cut(...)
  local kind = ffi.new("cel_split_kind")
  for d = 0, 2 do kind.cut[d], kind.granularity[d] = (select(d + 1, ...)) or false, 1 end
  return kind
end

-- A block of `size` for each index, on the diagonal of a matrix.
local function diagonal(size, n)
  local span = { times(i0, size), plus(times(i0, size), size) }
  return use_of({ { span, span, each = 0 } }, { n }, { n * size, n * size })
end

describe("a box for each index", function()
  it("is one box where all are side by side, however many", function()
    local big = 1000000007
    local rows = use_of({ { { times(i0, 4), plus(times(i0, 4), 4) }, { 0, 9 }, each = 0 } },
      { big }, { 4 * big, 9 })
    assert.equal(1, eval(rows, 5, big))
    assert.same({ 20, 4 * big }, { tonumber(region.at[0].min[0]), tonumber(region.at[0].max[0]) })
    local back = use_of({ { { { "-", big, i0 }, plus({ "-", big, i0 }, 2) }, each = 0 } },
      { big }, { big + 2 })
    assert.equal(1, eval(back, 0, big))
    local halves = use_of({ { { floor(i0, 2), plus(floor(i0, 2), 1) }, each = 0 } },
      { big }, { big })
    assert.equal(1, eval(halves, 7, big))
    assert.same({ 3, 500000004 },
      { tonumber(region.at[0].min[0]), tonumber(region.at[0].max[0]) })
    for _, use in ipairs { rows, back } do
      assert.is_true(c.cel_rule_to_affine(use, 0, ffi.new("cel_affine_box")))
    end
  end)

  it("is as many as the pattern has where they lie apart", function()
    assert.equal(1000, eval(diagonal(3, 1000), 0, 1000))
    assert.equal(10, eval(diagonal(3, 1000), 7, 17))
    assert.is_false(c.cel_rule_to_affine(diagonal(3, 1000), 0, ffi.new("cel_affine_box")))
    -- Rows of blocks: eight rows share one, so there are as many boxes as blocks.
    local block = times(floor(i0, 8), 8)
    local rows = use_of({ { { i0, plus(i0, 1) }, { block, plus(block, 8) }, each = 0 } },
      { 80000 }, { 80000, 80000 })
    assert.equal(10000, eval(rows, 0, 80000))
    assert.equal(2, eval(rows, 4, 12))
  end)

  it("wraps around, and boxes that meet come to what both cover", function()
    local to = { "-", times(i0, 7), times(floor(times(i0, 7), 10), 10) } -- 7 i mod 10
    local ring = use_of({ { { to, plus(to, 1) }, each = 0 } }, { 10 }, { 10 })
    assert.equal(1, eval(ring, 0, 10))
    assert.equal(3, eval(ring, 0, 3))
    local beside = use_of({ { { times(i0, 3), plus(times(i0, 3), 1) }, each = 0 },
      { { plus(times(i0, 3), 1), plus(times(i0, 3), 3) }, each = 0 } }, { 100 }, { 300 })
    assert.equal(1, eval(beside, 0, 100))
    local many = use_of({ { { times(i0, 3), plus(times(i0, 3), 1) }, each = 0 },
      { { plus(times(i0, 3), 1), plus(times(i0, 3), 3) }, each = 0 } }, { 100000 }, { 300000 })
    assert.equal(1, eval(many, 0, 100000)) -- as no layer below sees how many there were
  end)

  it("is the chunk, or one box, where it has that form", function()
    local chunk = use_of({ { { i0, plus(i0, 1) }, { 0, 5 }, each = 0 } }, { 9 }, { 9, 5 })
    local plain = use_of({ { { { "min", 0 }, { "max", 0 } }, { 0, 5 } } }, { 9 }, { 9, 5 })
    assert.equal(plain.rule, chunk.rule)
    assert.is_true(chunk.rule.plain)
    local fixed = use_of({ { { 2, 5 }, each = 0 } }, { 9 }, { 9 })
    assert.equal(use_of({ { { 2, 5 } } }, { 9 }, { 9 }).rule, fixed.rule)
    -- These have not.
    for _, bounds in ipairs { { 0, plus(i0, 1) }, { i0, plus(i0, 2) },
      { i0, plus({ "max", 1 }, 1) } } do
      local use = use_of({ { bounds, each = 0 } }, { 4, 4 }, { 9 })
      assert.is_true(use.rule.families)
      assert.is_false(use.rule.plain)
    end
  end)

  it("is another rule than the box, and than that along another dimension", function()
    local function rule(each)
      local at = each and { "item", each } or 3
      return use_of({ { { times(at, 3), plus(times(at, 3), 1) }, each = each } }, { 4, 4 },
        { 12 }).rule
    end
    assert.are_not.equal(rule(0), rule(1))
    assert.are_not.equal(rule(0), rule(nil))
    assert.are_not.equal(tonumber(rule(0).hash), tonumber(rule(1).hash))
    assert.equal(rule(0), rule(0))
  end)

  it("says what it is", function()
    assert.equal("[i0 * 3, i0 * 3 + 3) x [i0 * 3, i0 * 3 + 3) for each i0 in "
      .. "[chunk.min0, chunk.max0)", text_of(diagonal(3, 9)))
  end)

  it("does not depend on the chunk in its own dimension, and has one", function()
    local function flaw(box, each)
      box.each = each
      return (select(2, rules.rule(store, 1, 1, { box })))
    end
    assert.matches("an operand out of range", flaw({ { i0, { "max", 0 } } }, 0))
    assert.matches("an operand out of range", flaw({ { i0, plus(i0, 1) } }, nil))
    assert.matches("boxes along a dimension that is not there",
      flaw({ { { "item", 1 }, 3 } }, 1))
  end)

  it("leaves the buffer as others do", function()
    local use = use_of({ { { times(i0, 2), plus(times(i0, 2), 1) }, each = 0 } }, { 9 }, { 12 })
    assert.equal(6, eval(use, 0, 6))
    local _, message = eval(use, 2, 8)
    assert.equal("the range mapper gives the box [14, 15) for the chunk [2, 8), which leaves "
      .. "the buffer [0, 12)", message)
    use = use_of({ { { times(i0, 2), plus(times(i0, 2), 1) }, each = 0 } }, { 1000000000 },
      { 12 }, { clamp = true })
    assert.equal(6, eval(use, 0, 1000000000))
  end)

  it("refuses more boxes than layers below bear, and says how many", function()
    assert.equal(65536, eval(diagonal(1, 100000), 0, 65536))
    local _, message = eval(diagonal(1, 100000), 0, 100000)
    assert.equal("the range mapper gives 100000 boxes for the chunk [0, 100000); 65536 are the "
      .. "most: give boxes that lie side by side, or one around several where they are only read",
      message)
    assert.equal(65536, eval(diagonal(1, 100000), 0, 65536)) -- and leaves what it was given
    local use = diagonal(1, 100000)
    assert.are_not.equal(0, tonumber(c.cel_rule_eval(use, rules.box({ 0 }, { 100000 }), region)))
    assert.equal(65536, tonumber(region.n))
    -- Boxes that lie across each other are cut into more than there were.
    local wide = plus(times(i0, 1000), 1)
    _, message = eval(use_of({ { { i0, plus(i0, 900) }, { times(i0, 1000), wide }, each = 0 } },
      { 1000 }, { 2000, 1000000 }), 0, 1000)
    assert.matches("gives more than 65536 boxes for the chunk %[0, 1000%)", message)
    -- Boxes that meet each other, and turn at each index.
    local turns = { "low", times(floor(i0, 2), 2), floor(times(i0, 3), 2) }
    use = use_of({ { { turns, plus(turns, 3) }, each = 0 } }, { 4000000 }, { 8000000 })
    assert.equal(1, eval(use, 0, 1000))
    _, message = eval(use, 0, 4000000)
    assert.matches("turn more than 262144 times along the chunk", message)
  end)
end)

describe("proofs of families", function()
  local function verdicts(use, kind)
    return tonumber(c.cel_rule_prove_disjoint(use, kind, why)),
      tonumber(c.cel_rule_prove_union(use, kind, why))
  end

  it("take no longer for many indices", function()
    assert.same({ PROVED, PROVED }, { verdicts(diagonal(4, 1000000007), cut(true)) })
    local span = { times(i0, 4), plus(times(i0, 4), 5) }
    local overlapping = use_of({ { span, span, each = 0 } }, { 50000 }, { 200001, 200001 })
    assert.same({ REFUTED, PROVED }, { verdicts(overlapping, cut(true)) })
  end)

  it("see another dimension of the chunk beside the index", function()
    local tile = { { times(i0, 2), plus(times(i0, 2), 2) }, { times(i0, 2), plus(times(i0, 2), 2) },
      { { "min", 1 }, { "max", 1 } }, each = 0 }
    local use = use_of({ tile }, { 1000, 1000 }, { 2000, 2000, 1000 })
    assert.same({ PROVED, PROVED }, { verdicts(use, cut(true, true)) })
    local before = { { times(i0, 2), plus(times(i0, 2), 1) }, { 0, { "max", 1 } }, each = 0 }
    use = use_of({ before }, { 1000, 1000 }, { 2000, 1000 })
    assert.same({ REFUTED, PROVED }, { verdicts(use, cut(true, true)) })
    assert.same({ PROVED, PROVED }, { verdicts(use, cut(true)) })
    local lacks = { { times(i0, 2), plus(times(i0, 2), 1) }, { 0, { "min", 1 } }, each = 0 }
    use = use_of({ lacks }, { 10, 10 }, { 20, 10 })
    assert.equal(REFUTED, (select(2, verdicts(use, cut(true, true)))))
  end)

  it("are not taken for stencils, nor for the chunk's", function()
    assert.is_false(c.cel_rule_plainly_disjoint((diagonal(3, 9)), cut(true)))
    assert.equal("general", ({ [0] = "constant", "identity", "permutation", "affine", "general" })
      [tonumber(c.cel_rule_classify((diagonal(3, 9))))])
  end)
end)

describe("the affine form of a family", function()
  it("gives what its boxes come to, for each chunk", function()
    local pick, box, joined = rules.random(19), ffi.new("cel_affine_box"), 0
    for _ = 1, 3000 do
      local a, w = pick(-3, 3), pick(1, 4)
      local lo = plus(times(i0, a), pick(0, 9))
      local boxes = { { { lo, plus(lo, w) }, { pick(0, 2), pick(1, 4) }, each = 0 } }
      local use, anchor = use_of(boxes, { 6 }, { pick(4, 30), 4 }, { clamp = true })
      if c.cel_rule_to_affine(use, 0, box) then
        joined = joined + 1
        for m = 0, 5 do
          for M = m + 1, 6 do
            assert.is_true(eval(use, m, M) <= 1)
            local value = function(f) return tonumber(f.a * (f.of_max and M or m) + f.c) end
            local out = rules.box({}, {})
            for j = 0, 2 do
              out.min[j] = math.max(value(box.lo[j]), tonumber(box.clip.min[j]))
              out.max[j] = math.min(value(box.hi[j]), tonumber(box.clip.max[j]))
            end
            if rules.empty(rules.plain(out)) then
              assert.equal(0, tonumber(region.n))
            else
              assert.same(rules.plain(out), rules.plain(region.at[0]))
            end
          end
        end
      end
      assert(anchor)
    end
    assert.is_true(joined > 1000)
  end)
end)
