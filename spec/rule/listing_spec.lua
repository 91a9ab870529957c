local ffi = require("ffi")
local rules = require("spec.rule.rules")
local c = rules.c
require("spec.support.cdef")("rule/listing.h")

local store = c.cel_rules_create()

local function box(lo, hi) return ffi.new("cel_box", { { lo, 0, 0 }, { hi, 1, 1 } }) end

-- A rule of chunks {lo, hi, {lo, hi}, ...}, of which `common` are the same on all
-- ranks; `splits` of chunk `whole`, as of cel_listing.
local function list(chunks, common, splits, whole)
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
    chunk = chunk, start = start, box = flat, whole = whole or -1 })
  local words = ffi.new("int32_t[?]", #(splits or {}) + 1, splits or {})
  listing.words, listing.split = #(splits or {}), words
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

  it("is refuted by splits that it was asked about, and never proved", function()
    local kind = ffi.new("cel_split_kind", { { true }, { 1, 1, 1 } })
    local why = ffi.new("cel_counter_example")
    local REFUTED, UNKNOWN = 1, 2
    local halves = { 2, 0, 1 }
    local function verdicts(all, splits)
      local use = use_of(list(all, #all, splits, splits and 2))
      local union = tonumber(c.cel_rule_prove_union(use, kind, why))
      local at = { tonumber(why.a.min[0]), tonumber(why.b.max[0]), tonumber(why.point[0]) }
      assert.equal(UNKNOWN, tonumber(c.cel_rule_prove_disjoint(use, kind, why)))
      return union, tonumber(c.cel_rule_prove_hull(use, kind, why)), at
    end
    local function expect(union, hull, at, all, splits)
      local one, other, where = verdicts(all, splits)
      assert.same({ union, hull }, { one, other })
      if at then assert.same(at, where) end
    end
    expect(UNKNOWN, UNKNOWN, nil, { { 0, 4, { 0, 4 } }, { 4, 8, { 4, 8 } }, { 0, 8, { 0, 8 } } },
      halves)
    expect(REFUTED, REFUTED, { 0, 8, 8 }, { { 0, 4, { 0, 4 } }, { 4, 8, { 4, 8 } },
      { 0, 8, { 0, 9 } } }, halves)
    expect(REFUTED, UNKNOWN, { 0, 8, 3 }, { { 0, 4, { 0, 3 } }, { 4, 8, { 4, 8 } },
      { 0, 8, { 0, 8 } } }, halves)
    expect(REFUTED, REFUTED, { 4, 8, 8 }, { { 0, 4, { 0, 4 } }, { 4, 8, { 4, 9 } },
      { 0, 8, { 0, 8 } } }, halves)
    -- A part that has nothing may have been cut off.
    expect(REFUTED, UNKNOWN, nil, { { 0, 4, { 0, 4 } }, { 4, 8 }, { 0, 8, { 0, 8 } } }, halves)
    -- In three, and without the splits.
    local thirds = { { 0, 3, { 0, 3 } }, { 3, 6, { 3, 9 } }, { 0, 8, { 0, 8 } },
      { 6, 8, { 6, 8 } }, { 0, 4, { 0, 4 } }, { 4, 8, { 4, 8 } } }
    expect(UNKNOWN, UNKNOWN, nil, thirds, { 2, 4, 5 })
    expect(REFUTED, REFUTED, { 3, 8, 8 }, thirds, { 2, 4, 5, 3, 0, 1, 3 })
    expect(UNKNOWN, UNKNOWN, nil, thirds)
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
