local ffi = require("ffi")
local c = require("spec.support.cdef")("region/split.h")
local grid = require("spec.region.grid")

local function n(x) return tonumber(x) end

local function cuts(random, count, check)
  for _ = 1, count do
    local lo, N = random:int(-20, 20), random:int(0, 60)
    local pieces, g = random:int(1, 20), random:int(1, 9)
    check(c.cel_cut_even(lo, N, pieces, g), lo, N, pieces, g)
  end
end

describe("cel_cut_even", function()
  it("divides into the pieces asked for, or one per unit", function()
    cuts(grid.random(1), 1000, function(cut, lo, N, pieces, g)
      assert.equal(math.max(1, math.min(pieces, math.ceil(N / g))), n(cut.P))
      assert.equal(lo, n(c.cel_cut_at(cut, 0)))
      assert.equal(lo + N, n(c.cel_cut_at(cut, cut.P)))
    end)
  end)

  it("cuts at multiples of the granularity, longer pieces first", function()
    cuts(grid.random(2), 1000, function(cut, lo, N, _, g)
      local previous
      for i = 0, n(cut.P) - 1 do
        local from, to = n(c.cel_cut_at(cut, i)), n(c.cel_cut_at(cut, i + 1))
        assert.is_true(to > from or N == 0)
        assert.equal(0, (from - lo) % g)
        local units = math.ceil((to - from) / g)
        assert.is_true(previous == nil or units == previous or units == previous - 1)
        previous = i == 0 and units or math.min(previous, units)
      end
      local first = math.ceil((n(c.cel_cut_at(cut, 1)) - lo) / g)
      assert.is_true(first - (previous or first) <= 1)
    end)
  end)

  it("is inverted by cel_cut_find", function()
    cuts(grid.random(3), 500, function(cut, lo, N)
      for x = lo, lo + N - 1 do
        local i = c.cel_cut_find(cut, x)
        assert.is_true(c.cel_cut_at(cut, i) <= x and x < c.cel_cut_at(cut, i + 1))
      end
    end)
  end)

  it("works near the ends of the integers", function()
    local N = 2LL ^ 62
    local cut = c.cel_cut_even(0, N, 1000003, 64)
    for _, i in ipairs({ 0, 1, 999999, 1000002 }) do
      local at = c.cel_cut_at(cut, i)
      assert.is_true(at >= 0 and c.cel_cut_at(cut, i + 1) > at)
      assert.equal(i, n(c.cel_cut_find(cut, at)))
      assert.equal(i, n(c.cel_cut_find(cut, c.cel_cut_at(cut, i + 1) - 1)))
    end
  end)
end)

-- A cut by weights, as a table of boundaries.
local function weighted(lo, N, weights, g)
  local sums = ffi.new("int64_t[?]", #weights + 1)
  for i, w in ipairs(weights) do sums[i] = sums[i - 1] + w end
  return c.cel_cut_weighted(lo, N, #weights, sums, g), sums
end

local function random_weights(random)
  local list = {}
  for i = 1, random:int(1, 12) do list[i] = random:chance(20) and 0 or random:int(1, 30) end
  list[1] = math.max(list[1], 1)
  return list
end

describe("cel_cut_weighted", function()
  it("cuts at the multiple of the granularity that is nearest to the weights", function()
    local random, empty = grid.random(5), 0
    for _ = 1, 2000 do
      local lo, N, g = random:int(-20, 20), random:int(0, 90), random:int(1, 9)
      local weights = random_weights(random)
      local cut, sums = weighted(lo, N, weights, g)
      local all, units = n(sums[#weights]), math.ceil(N / g)
      assert.equal(#weights, n(cut.P))
      for i = 0, #weights - 1 do
        local want = math.floor(units * n(sums[i]) / all + 0.5)
        local at, after = n(c.cel_cut_at(cut, i)), n(c.cel_cut_at(cut, i + 1))
        assert.equal(lo + math.min(want * g, N), at)
        assert.is_true(after >= at)
        if after == at then empty = empty + 1 end
        if weights[i + 1] == 0 and i + 1 < #weights then assert.equal(at, after) end
      end
      assert.equal(lo + N, n(c.cel_cut_at(cut, #weights)))
      for x = lo, lo + N - 1 do
        local i = c.cel_cut_find(cut, x)
        assert.is_true(c.cel_cut_at(cut, i) <= x and x < c.cel_cut_at(cut, i + 1))
      end
    end
    assert.is_true(empty > 1000)
  end)

  it("is exact where numbers are large", function()
    local cut = weighted(0, 2LL ^ 53, { 1, 2LL ^ 31 - 1, 2LL ^ 31 }, 1)
    assert.equal(2LL ^ 21, c.cel_cut_at(cut, 1))
    assert.equal(2LL ^ 52, c.cel_cut_at(cut, 2))
  end)

  it("equals another cut iff all boundaries are equal", function()
    local random, equal = grid.random(6), 0
    for _ = 1, 3000 do
      local N = random:int(1, 12)
      local a, keep = weighted(0, N, random_weights(random), random:int(1, 3))
      local b = random:chance(50) and c.cel_cut_even(0, N, random:int(1, 6), 1)
        or c.cel_cut_weighted(0, N, a.P, keep, random:int(1, 3))
      local same = a.P == b.P
      for i = 0, same and n(a.P) or -1 do
        same = same and c.cel_cut_at(a, i) == c.cel_cut_at(b, i)
      end
      assert.equal(same, c.cel_cut_equal(a, b))
      assert.equal(same, c.cel_cut_equal(b, a))
      if same then equal = equal + 1 end
    end
    assert.is_true(equal > 300)
  end)
end)

describe("cel_cut_equal", function()
  it("holds iff all boundaries are equal", function()
    local random, equal = grid.random(4), 0
    for _ = 1, 20000 do
      local N = random:int(0, 12)
      local a = c.cel_cut_even(0, N, random:int(1, 8), random:int(1, 4))
      local b = c.cel_cut_even(0, random:chance(90) and N or N + 1, random:int(1, 8),
        random:int(1, 4))
      local same = a.P == b.P
      for i = 0, n(a.P) do
        same = same and c.cel_cut_at(a, i) == c.cel_cut_at(b, i)
      end
      assert.equal(same, c.cel_cut_equal(a, b))
      if same then equal = equal + 1 end
    end
    assert.is_true(equal > 1000)
  end)
end)

describe("cel_split", function()
  local out = ffi.new("cel_box")

  it("gives non-empty chunks that partition the range", function()
    local random = grid.random(5)
    for case = 1, 1000 do
      local range = random:box(case % 4)
      local pieces, g = random:int(1, 9), random:int(1, 3)
      local split = case % 5 == 0 and c.cel_split_none(range)
        or c.cel_split_1d(range, pieces, g)
      local got, volume = {}, 0
      for k = 0, n(split.n) - 1 do
        assert.is_true(c.cel_split_chunk(split, k, out))
        local points = grid.count(grid.fill({}, out))
        assert.is_true(points > 0)
        volume = volume + points
        grid.fill(got, out)
      end
      local want = grid.fill({}, range)
      assert.is_true(grid.same(want, got))
      assert.equal(grid.count(want), volume)
      if case % 5 == 0 then assert.equal(volume > 0 and 1 or 0, n(split.n)) end
    end
  end)

  it("has no chunk beyond the last and leaves the result alone", function()
    local split = c.cel_split_1d(grid.box(0, 0, 0, 10, 4, 1), 3, 1)
    out.min[0] = 77
    assert.is_false(c.cel_split_chunk(split, 3, out))
    assert.is_false(c.cel_split_chunk(split, -1, out))
    local sums = ffi.new("int64_t[4]", 0, 1, 1, 2)
    split.cut[0] = c.cel_cut_weighted(0, 10, 3, sums, 1)
    assert.is_false(c.cel_split_chunk(split, 1, out)) -- is empty
    assert.equal(77, n(out.min[0]))
  end)

  it("numbers chunks in row-major order", function()
    local split = c.cel_split_1d(grid.box(0, 0, 0, 4, 6, 1), 2, 1)
    split.cut[1] = c.cel_cut_even(0, 6, 3, 1)
    split.stride[0], split.n = 3, 6
    local seen = {}
    for k = 0, 5 do
      assert.is_true(c.cel_split_chunk(split, k, out))
      seen[k + 1] = grid.text(out)
    end
    assert.equal("[0,0,0 2,2,1) [0,2,0 2,4,1) [0,4,0 2,6,1) "
      .. "[2,0,0 4,2,1) [2,2,0 4,4,1) [2,4,0 4,6,1)", table.concat(seen, " "))
  end)
end)
