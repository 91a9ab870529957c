local ffi = require("ffi")
local rules = require("spec.rule.rules")
local c = rules.c

local store = c.cel_rules_create()
local why = ffi.new("cel_counter_example")
local PROVED, REFUTED, UNKNOWN = 0, 1, 2

local function kind_of(cuts, granularity)
  local kind = ffi.new("cel_split_kind")
  for d = 0, 2 do
    kind.cut[d] = cuts[d + 1] or false
    kind.granularity[d] = granularity and granularity[d + 1] or 1
  end
  return kind
end

-- Every chunk that a permitted split may hold: intervals per dimension.
local function intervals(range, kind, d)
  local n, out = tonumber(range.max[d]), {}
  if not kind.cut[d] then return { { 0, n } } end
  local g, marks = tonumber(kind.granularity[d]), {}
  for x = 0, n - 1, g do marks[#marks + 1] = x end
  marks[#marks + 1] = n
  for i = 1, #marks do
    for j = i + 1, #marks do out[#out + 1] = { marks[i], marks[j] } end
  end
  return out
end

local function chunks(range, kind)
  local out = {}
  for _, x in ipairs(intervals(range, kind, 0)) do
    for _, y in ipairs(intervals(range, kind, 1)) do
      for _, z in ipairs(intervals(range, kind, 2)) do
        out[#out + 1] = { min = { [0] = x[1], y[1], z[1] }, max = { [0] = x[2], y[2], z[2] } }
      end
    end
  end
  return out
end

local function key(k)
  return table.concat({ k.min[0], k.max[0], k.min[1], k.max[1], k.min[2], k.max[2] }, ",")
end

local function apart(a, b)
  for d = 0, 2 do
    if a.max[d] <= b.min[d] or b.max[d] <= a.min[d] then return true end
  end
  return false
end

-- Whether any image of two disjoint chunks overlaps; nil when none does.
local function brute_overlap(all, images)
  for i = 1, #all do
    for j = i + 1, #all do
      if images[i] and images[j] and apart(all[i], all[j]) then
        for p in pairs(images[i]) do
          if images[j][p] then return true end
        end
      end
    end
  end
  return false
end

local function union_of(a, b)
  local differ
  for d = 0, 2 do
    if a.min[d] ~= b.min[d] or a.max[d] ~= b.max[d] then
      if differ then return nil end
      differ = d
    end
  end
  if not differ or a.max[differ] ~= b.min[differ] then return nil end
  local u = { min = {}, max = {} }
  for d = 0, 2 do u.min[d], u.max[d] = a.min[d], b.max[d] end
  return u
end

local function brute_gap(all, images)
  local at = {}
  for i, k in ipairs(all) do at[key(k)] = i end
  for i = 1, #all do
    for j = 1, #all do
      local u = union_of(all[i], all[j])
      local whole = u and images[at[key(u)]]
      if whole and images[i] and images[j] then
        for p in pairs(whole) do
          if not images[i][p] and not images[j][p] then return true end
        end
        for _, part in ipairs({ images[i], images[j] }) do
          for p in pairs(part) do if not whole[p] then return true end end
        end
      end
    end
  end
  return false
end

local function image(use, chunk)
  local region = ffi.new("cel_region")
  if c.cel_rule_eval(use, chunk, region) ~= 0 then return nil end
  local set = rules.region_points(region)
  c.cel_region_release(region)
  return set
end

-- A counter-example must be one, when evaluated.
local function check_overlap(use)
  local p = ("%d,%d,%d"):format(tonumber(why.point[0]), tonumber(why.point[1]),
    tonumber(why.point[2]))
  assert.is_true(image(use, why.a)[p] and image(use, why.b)[p])
  assert.is_true(apart(rules.plain(why.a), rules.plain(why.b)))
end

local function check_gap(use)
  local p = ("%d,%d,%d"):format(tonumber(why.point[0]), tonumber(why.point[1]),
    tonumber(why.point[2]))
  local u = union_of(rules.plain(why.a), rules.plain(why.b))
  local both = rules.box({ u.min[0], u.min[1], u.min[2] }, { u.max[0], u.max[1], u.max[2] })
  local parts = image(use, why.a)[p] or image(use, why.b)[p] or false
  assert.are_not.equal(parts, image(use, both)[p] or false)
end

-- Whether a chunk always has what its parts have; `why` may name a case where it has not,
-- or has what no box around that has.
local function brute_grows(all, images)
  local at = {}
  for i, k in ipairs(all) do at[key(k)] = i end
  for i = 1, #all do
    for j = 1, #all do
      local u = union_of(all[i], all[j])
      local whole = u and images[at[key(u)]]
      if whole and images[i] and images[j] then
        for _, part in ipairs({ images[i], images[j] }) do
          for p in pairs(part) do if not whole[p] then return false end end
        end
      end
    end
  end
  return true
end

local function coordinates(p)
  local i, j, k = p:match("(%d+),(%d+),(%d+)")
  return { tonumber(i), tonumber(j), tonumber(k) }
end

local function check_hull(use)
  local p = ("%d,%d,%d"):format(tonumber(why.point[0]), tonumber(why.point[1]),
    tonumber(why.point[2]))
  local u = union_of(rules.plain(why.a), rules.plain(why.b))
  local both = rules.box({ u.min[0], u.min[1], u.min[2] }, { u.max[0], u.max[1], u.max[2] })
  local a, b, whole = image(use, why.a), image(use, why.b), image(use, both)
  if a[p] or b[p] then
    assert.is_nil(whole[p])
    return
  end
  assert.is_true(whole[p])
  local at, within = coordinates(p), true
  for d = 1, 3 do
    local lo, hi = math.huge, -math.huge
    for _, part in ipairs({ a, b }) do
      for q in pairs(part) do
        local x = coordinates(q)[d]
        lo, hi = math.min(lo, x), math.max(hi, x)
      end
    end
    within = within and lo <= at[d] and at[d] <= hi
  end
  assert.is_false(within)
end

-- Bounds as mappers have them, near enough to the truth that many are proved.
local function likely_bound(pick, upper, task_dims)
  local d = pick(0, task_dims - 1)
  local v = { upper and "max" or "min", d }
  if pick(1, 12) == 1 then v = { upper and "min" or "max", d } end
  local shape = pick(1, 10)
  if shape <= 4 then return { "+", v, pick(-2, 2) } end
  if shape <= 6 then return { "+", { "*", v, pick(-2, 3) }, pick(-2, 3) } end
  if shape == 7 then return pick(0, 4) end
  if shape == 8 then return { "//", { "+", v, pick(0, 2) }, pick(1, 3) } end
  if shape == 9 then
    local right_way = pick(1, 3) > 1
    return { upper == right_way and "low" or "high",
      { "//", { "+", v, pick(-1, 1) }, pick(1, 2) }, pick(0, 5) }
  end
  return rules.expression(pick, task_dims, 1, 0, 2)
end

local function random_rule(pick, task_dims, buffer_dims)
  local boxes = {}
  for b = 1, pick(1, 2) do
    local each = pick(1, 3) == 1 and pick(0, task_dims - 1) or nil
    boxes[b] = { each = each }
    for j = 1, buffer_dims do
      boxes[b][j] = { likely_bound(pick, false, task_dims), likely_bound(pick, true, task_dims) }
      local d = pick(0, task_dims - 1)
      if pick(1, 3) == 1 then boxes[b][j] = { { "min", d }, { "max", d } } end
      for k = 1, each and 2 or 0 do boxes[b][j][k] = rules.of_index(boxes[b][j][k], each) end
      if each and pick(1, 3) > 1 then boxes[b][j][2] = { "+", boxes[b][j][1], pick(1, 3) } end
    end
  end
  return rules.rule(store, task_dims, buffer_dims, boxes, { clamp = pick(1, 4) > 1 })
end

-- A use of one rule, and of another over the same.
local function random_case(pick)
  local task_dims, buffer_dims = pick(1, 20) % 3 + 1, pick(1, 2)
  local rule = random_rule(pick, task_dims, buffer_dims)
  local most = ({ 9, 4, 2 })[task_dims]
  local size = {}
  for d = 1, task_dims do size[d] = pick(1, most) end
  local range = rules.box({}, size)
  local extent = rules.box({}, { pick(1, 9), buffer_dims > 1 and pick(1, 9) or 1 })
  local kind = kind_of({ pick(1, 8) > 1, task_dims > 1 and pick(0, 1) == 1,
    task_dims > 2 and pick(0, 1) == 1 }, { pick(1, 3), pick(1, 2), 1 })
  return rules.use(rule, range, extent), kind, function()
    return rules.use(random_rule(pick, task_dims, buffer_dims), range, extent)
  end
end

-- Whether a chunk reads what a disjoint one writes.
local function brute_crossing(all, reads, writes)
  for i = 1, #all do
    for j = 1, #all do
      if reads[i] and writes[j] and apart(all[i], all[j]) then
        for p in pairs(reads[i]) do
          if writes[j][p] then return true end
        end
      end
    end
  end
  return false
end

local function images_of(use, all)
  local images = {}
  for i, k in ipairs(all) do
    images[i] = image(use, rules.box({ k.min[0], k.min[1], k.min[2] },
      { k.max[0], k.max[1], k.max[2] })) or false
  end
  return images
end

describe("proofs against brute force over all permitted splits", function()
  it("are never wrong", function()
    local pick = rules.random(tonumber(os.getenv("CELER_SEED")) or 2026)
    local count = { disjoint = { 0, 0, 0 }, union = { 0, 0, 0 } }
    local hulls, grows = { 0, 0, 0 }, 0
    local refutable = { disjoint = 0, union = 0 }
    for _ = 1, tonumber(os.getenv("CELER_CASES")) or 2500 do
      local use, kind = random_case(pick)
      local all = chunks(rules.plain(use.range), kind)
      local images = images_of(use, all)
      local verdict = tonumber(c.cel_rule_prove_disjoint(use, kind, why))
      local truth = brute_overlap(all, images)
      count.disjoint[verdict + 1] = count.disjoint[verdict + 1] + 1
      refutable.disjoint = refutable.disjoint + (truth and 1 or 0)
      if verdict == PROVED then assert.is_false(truth) end
      if verdict == REFUTED then check_overlap(use) end

      verdict = tonumber(c.cel_rule_prove_union(use, kind, why))
      truth = brute_gap(all, images)
      count.union[verdict + 1] = count.union[verdict + 1] + 1
      refutable.union = refutable.union + (truth and 1 or 0)
      if verdict == PROVED then assert.is_false(truth) end
      if verdict == REFUTED then check_gap(use) end

      if verdict == REFUTED then
        local hull = tonumber(c.cel_rule_prove_hull(use, kind, why))
        hulls[hull + 1] = hulls[hull + 1] + 1
        if hull == REFUTED then check_hull(use) end
        if hull == PROVED then assert.is_true(brute_grows(all, images)) end
        if c.cel_rule_grows(use, kind) then
          grows = grows + 1
          assert.is_true(brute_grows(all, images))
        end
      end
    end
    assert.is_true(hulls[PROVED + 1] + hulls[UNKNOWN + 1] > 50 and hulls[REFUTED + 1] > 50)
    assert.is_true(grows > 50)
    if os.getenv("CELER_CASES") then
      print(("\ndisjoint %s of %d; union %s of %d"):format(
        table.concat(count.disjoint, "/"), refutable.disjoint,
        table.concat(count.union, "/"), refutable.union))
    end
    for _, n in pairs(count) do assert.is_true(n[1] > 100 and n[2] > 100) end
  end)
end)

describe("proofs of what chunks read and write", function()
  it("are never wrong", function()
    local pick = rules.random(tonumber(os.getenv("CELER_SEED")) or 77)
    local count = { 0, 0, 0 }
    for _ = 1, tonumber(os.getenv("CELER_CASES")) or 1500 do
      local reads, kind, another = random_case(pick)
      local writes, anchor = another()
      assert(anchor)
      local all = chunks(rules.plain(reads.range), kind)
      local verdict = tonumber(c.cel_rule_prove_uncrossed(reads, writes, kind, why))
      count[verdict + 1] = count[verdict + 1] + 1
      if verdict == PROVED then
        assert.is_false(brute_crossing(all, images_of(reads, all), images_of(writes, all)))
      elseif verdict == REFUTED then
        local p = ("%d,%d,%d"):format(tonumber(why.point[0]), tonumber(why.point[1]),
          tonumber(why.point[2]))
        assert.is_true(image(reads, why.a)[p] and image(writes, why.b)[p])
        assert.is_true(apart(rules.plain(why.a), rules.plain(why.b)))
      end
    end
    assert.is_true(count[PROVED + 1] > 100 and count[REFUTED + 1] > 100)
  end)
end)

describe("what is proved of the usual mappers", function()
  local m0, M0, m1, M1 = { "min", 0 }, { "max", 0 }, { "min", 1 }, { "max", 1 }
  local function verdicts(boxes, range, extent, cuts, granularity, clamp)
    local dims = #boxes[1]
    local rule = rules.rule(store, #range, dims, boxes, { clamp = clamp })
    local use = rules.use(rule, rules.box({}, range), rules.box({}, extent))
    local kind = kind_of(cuts or { true }, granularity)
    local disjoint = tonumber(c.cel_rule_prove_disjoint(use, kind, why))
    local union = tonumber(c.cel_rule_prove_union(use, kind, why))
    return disjoint, union
  end
  local function expect(disjoint, union, ...)
    assert.same({ disjoint, union }, { verdicts(...) })
  end
  local big = 1000000007

  it("one to one, transposed, and rows of a matrix", function()
    expect(PROVED, PROVED, { { { m0, M0 } } }, { big }, { big })
    expect(PROVED, PROVED, { { { m0, M0 }, { m1, M1 } } }, { big, big }, { big, big },
      { true, true }, { 32, 7 })
    expect(PROVED, PROVED, { { { m1, M1 }, { m0, M0 } } }, { big, 40 }, { 40, big },
      { true, true })
    expect(PROVED, PROVED, { { { m0, M0 }, { 0, 50 } } }, { big, 50 }, { big, 50 })
    -- rows stop being disjoint where columns may be cut
    expect(REFUTED, PROVED, { { { m0, M0 }, { 0, 50 } } }, { 99, 50 }, { 99, 50 },
      { true, true })
  end)

  it("neighbourhoods", function()
    local near = { { "-", m0, 1 }, { "+", M0, 1 } }
    expect(REFUTED, PROVED, { { near } }, { big }, { big }, nil, nil, true)
    assert.equal(0, tonumber(why.a.min[0]))
    local beside = { { "-", m1, 1 }, { "+", M1, 1 } }
    expect(REFUTED, PROVED, { { near, { m1, M1 } }, { { m0, M0 }, beside } },
      { 8, 8 }, { 8, 8 }, { true, true }, nil, true)
  end)

  it("diagonals overlap, though every coefficient is there", function()
    local sum = { "+", m0, m1 }
    local disjoint = verdicts({ { { sum, { "+", sum, 1 } }, { sum, { "+", sum, 1 } } } },
      { 6, 6 }, { 20, 20 }, { true, true })
    assert.equal(REFUTED, disjoint)
    disjoint = verdicts({ { { m0, M0 }, { m0, M0 } } }, { big }, { big, big })
    assert.equal(PROVED, disjoint)
  end)

  it("a square on the diagonal is no union of its halves", function()
    expect(PROVED, REFUTED, { { { m0, M0 }, { m0, M0 } } }, { big }, { big, big })
  end)

  it("one item per work group of 32", function()
    local per = { { { { "//", m0, 32 }, { "//", M0, 32 } } } }
    expect(PROVED, PROVED, per, { 32 * 1000 }, { 1000 }, { true }, { 32 })
    expect(PROVED, PROVED, per, { 32 * 1000 }, { 1000 }, { true }, { 64 })
    local disjoint = verdicts(per, { 32 * 1000 }, { 1000 }, { true }, { 1 })
    assert.equal(UNKNOWN, disjoint) -- a chunk of 16 writes nothing, but none overlap
    local up = { { { { "//", m0, 32 }, { "//", { "+", M0, 31 }, 32 } } } }
    expect(PROVED, PROVED, up, { 32 * 1000 - 5 }, { 1000 }, { true }, { 32 })
    disjoint = verdicts(up, { 32 * 1000 }, { 1000 }, { true }, { 16 })
    assert.equal(REFUTED, disjoint)
  end)

  it("strides with gaps", function()
    local gaps = { { { { "*", m0, 2 }, { "-", { "*", M0, 2 }, 1 } } } }
    expect(PROVED, REFUTED, gaps, { big }, { 2 * big })
    local wide = { { { { "*", m0, 2 }, { "+", { "*", M0, 2 }, 1 } } } }
    expect(REFUTED, PROVED, wide, { big }, { 2 * big + 1 })
    local back = { { { { "-", big, M0 }, { "-", big, m0 } } } }
    expect(PROVED, PROVED, back, { big }, { big })
  end)

  it("as many as 64 boxes, and what two of so many come to together", function()
    local halves, shifted = {}, {}
    for i = 0, 63 do
      halves[i + 1] = { { { "+", m0, i * big }, { "+", M0, i * big } } }
      shifted[i + 1] = { { { "+", m0, i }, { "+", M0, i } } }
    end
    expect(PROVED, PROVED, halves, { big }, { 64 * big })
    expect(REFUTED, PROVED, shifted, { big }, { big + 64 })
    halves[65] = halves[64]
    assert.is_nil((rules.rule(store, 1, 1, halves)))
    halves[65] = nil
    local use = rules.use(rules.rule(store, 1, 1, halves), rules.box({}, { 9 }),
      rules.box({}, { 64 * big }))
    assert.equal(UNKNOWN, tonumber(c.cel_rule_prove_pair_disjoint(use, use, kind_of({ true }),
      why)))
  end)

  it("several boxes: each must be apart from each", function()
    local halves = { { { m0, M0 } }, { { { "+", m0, big }, { "+", M0, big } } } }
    expect(PROVED, PROVED, halves, { big }, { 2 * big })
    local shifted = { { { m0, M0 } }, { { { "+", m0, 1 }, { "+", M0, 1 } } } }
    expect(REFUTED, PROVED, shifted, { big }, { 2 * big })
  end)

  it("constants: fine to read, and to write where nothing is cut", function()
    expect(REFUTED, PROVED, { { { 0, 5 } } }, { big }, { 5 })
    expect(PROVED, PROVED, { { { 0, 5 } } }, { big }, { 5 }, { false })
    expect(PROVED, PROVED, { { { 0, 5 } } }, { 7 }, { 5 }, { true }, { 8 })
    expect(PROVED, PROVED, { { { 5, 5 } } }, { big }, { 5 })
  end)

  it("grids of half the size, whose bounds are monotone and not linear", function()
    local function half(a, b, clamp)
      local lo, hi = { "//", { "+", m0, a }, 2 }, { "//", { "+", M0, b }, 2 }
      return select(2, verdicts({ { { lo, hi }, { m1, M1 } } }, { big, 9 }, { big, 9 },
        { true, true }, nil, clamp))
    end
    assert.equal(PROVED, half(0, 1))
    assert.equal(PROVED, half(-1, 4, true))
    assert.equal(PROVED, half(0, 0))
    assert.equal(REFUTED, half(1, 0))
    local held = { { { "high", { "-", { "//", m0, 3 }, 1 }, 0 },
      { "low", { "+", { "//", M0, 3 }, 2 }, { "buffer", 0 } } } }
    assert.equal(PROVED, (select(2, verdicts({ held }, { big }, { big }))))
    local back = { { { "-", big, { "//", { "+", M0, 2 }, 3 } },
      { "-", big, { "//", m0, 3 } } } }
    assert.equal(PROVED, (select(2, verdicts({ back }, { big }, { big }))))
    local square = { { { "//", m0, 2 }, { "//", M0, 2 } }, { { "//", m0, 2 }, { "//", M0, 2 } } }
    assert.equal(REFUTED, (select(2, verdicts({ square }, { big }, { big, big }))))
  end)

  it("shows the split in two", function()
    verdicts({ { { { "-", m0, 1 }, { "+", M0, 1 } }, { { "-", m1, 1 }, { "+", M1, 1 } } } },
      { 4, 4 }, { 4, 4 }, { true }, nil, true)
    verdicts({ { { { "-", m0, 1 }, { "+", M0, 1 } } } }, { 4 }, { 4 }, nil, nil, true)
    c.cel_rule_prove_disjoint((rules.use(
      rules.rule(store, 1, 1, { { { { "-", m0, 1 }, { "+", M0, 1 } } } }, { clamp = true }),
      rules.box({}, { 4 }), rules.box({}, { 4 }))), kind_of({ true }), why)
    assert.same({ 0, 2, 2, 4, 1 }, { tonumber(why.a.min[0]), tonumber(why.a.max[0]),
      tonumber(why.b.min[0]), tonumber(why.b.max[0]), tonumber(why.point[0]) })
  end)
end)
