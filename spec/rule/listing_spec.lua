local ffi = require("ffi")
local rules = require("spec.rule.rules")
local c = rules.c
require("spec.support.cdef")("rule/listing.h")

local store = c.cel_rules_create()

local function box(lo, hi) return ffi.new("cel_box", { { lo, 0, 0 }, { hi, 1, 1 } }) end

-- A rule of chunks {lo, hi, {lo, hi}, ...}, of which `common` are the same on all
-- ranks; `parts` are the others.
local function list(chunks, common)
  local n, boxes = #chunks, {}
  local start, chunk = ffi.new("int32_t[?]", n + 1), ffi.new("cel_box[?]", n)
  for i, one in ipairs(chunks) do
    chunk[i - 1] = box(one[1], one[2])
    for b = 3, #one do boxes[#boxes + 1] = one[b] end
    start[i] = #boxes
  end
  local flat = ffi.new("cel_box[?]", #boxes + 1)
  for i, one in ipairs(boxes) do flat[i - 1] = box(one[1], one[2]) end
  local out = ffi.new("const cel_rule *[1]")
  local listing = ffi.new("cel_listing", { chunks = n, ranks = common, common = common,
    chunk = chunk, start = start, box = flat })
  c.cel_rules_list(store, 1, 1, listing, out)
  return out[0]
end

local function use_of(rule)
  return ffi.new("cel_rule_use", { rule = rule, range = box(0, 8), extent = box(0, 20) })
end

local chunks = { { 4, 8, { 9, 12 } }, { 0, 4, { 3, 5 }, { 0, 4 } }, { 0, 8, { 0, 5 }, { 9, 12 } } }

describe("a listed rule", function()
  it("gives what was listed, in canonical form, and for nothing else", function()
    local use, out = use_of(list(chunks, 2)), ffi.new("cel_region")
    assert.equal(0, tonumber(c.cel_rule_eval(use, box(0, 4), out)))
    assert.equal(1, out.n)
    assert.same({ 0, 5 }, { tonumber(out.at[0].min[0]), tonumber(out.at[0].max[0]) })
    assert.equal(0, tonumber(c.cel_rule_eval(use, box(0, 8), out)))
    assert.equal(2, out.n)
    assert.not_equal(0, tonumber(c.cel_rule_eval(use, box(0, 2), out)))
    assert.matches("was not evaluated for the chunk %[0, 2%)", ffi.string(c.cel_error_last().text))
    c.cel_region_release(out)
  end)

  it("is one rule where all is equal, and has one hash where ranks' chunks are", function()
    local a = list(chunks, 2)
    local again = list({ chunks[1], { 0, 4, { 0, 3 }, { 3, 5 } }, chunks[3] }, 2)
    local other = list({ chunks[1], chunks[2], { 0, 8, { 0, 20 } } }, 2)
    local apart = list({ chunks[1], { 0, 4, { 0, 6 } }, chunks[3] }, 2)
    assert.equal(a, again)
    assert.not_equal(a, other)
    assert.equal(a.hash, other.hash)
    assert.not_equal(a.hash, apart.hash)
  end)

  it("is refuted by the halves, and never proved", function()
    local kind = ffi.new("cel_split_kind", { { true }, { 1, 1, 1 } })
    local why = ffi.new("cel_counter_example")
    local PROVED, REFUTED, UNKNOWN = 0, 1, 2
    local function verdicts(rule)
      local use = use_of(rule)
      return { tonumber(c.cel_rule_prove_union(use, kind, why)),
        tonumber(c.cel_rule_prove_disjoint(use, kind, why)) }
    end
    assert.same({ UNKNOWN, UNKNOWN }, verdicts(list(chunks, 2)))
    local meets = { { 0, 4, { 0, 5 } }, { 4, 8, { 4, 8 } }, { 0, 8, { 0, 8 } } }
    assert.same({ UNKNOWN, REFUTED }, verdicts(list(meets, 3)))
    assert.equal(4, tonumber(why.point[0]))
    local differs = { { 0, 4, { 0, 4 } }, { 4, 8, { 4, 8 } }, { 0, 8, { 0, 9 } } }
    assert.same({ REFUTED, UNKNOWN }, verdicts(list(differs, 3)))
    assert.equal(8, tonumber(why.point[0]))
    assert.not_equal(PROVED, verdicts(list({ { 0, 8, { 0, 1 } } }, 1))[1])
  end)

  it("ends with its last reference", function()
    local before = c.cel_rules_count(store)
    local rule = list({ { 0, 8, { 7, 8 } } }, 1)
    assert.equal(rule, list({ { 0, 8, { 7, 8 } } }, 1))
    assert.equal(before + 1, c.cel_rules_count(store))
    c.cel_rule_release(rule)
    c.cel_rule_release(rule)
    assert.equal(before, c.cel_rules_count(store))
  end)
end)
