local ffi = require("ffi")
local c = require("spec.support.cdef")("region/region.h")
local grid = require("spec.region.grid")

local function region(boxes, n)
  local r = ffi.gc(ffi.new("cel_region"), c.cel_region_release)
  if boxes then c.cel_region_assign(r, boxes, n) end
  return r
end

local function is(set, r, what)
  assert.equal(grid.canonical(set), grid.list(r.at, r.n), what)
  c.cel_region_check(r)
end

-- A random region and its shadow.
local function make(random, dims)
  local n = random:int(0, random:chance(50) and 2 or 7)
  local boxes = random:boxes(n, dims)
  return region(boxes, n), grid.set(boxes, n), boxes, n
end

local ops = {
  { "unite", function(p, q) return p or q end },
  { "intersect", function(p, q) return p and q end },
  { "subtract", function(p, q) return p and not q end },
}

local function apply(f, a, b)
  local out = {}
  for p in pairs(a) do if f(true, b[p]) then out[p] = true end end
  for p in pairs(b) do if f(a[p], true) then out[p] = true end end
  return out
end

describe("cel_region_assign", function()
  it("gives up where that is more boxes than it may be, and then has none", function()
    local random, given_up = grid.random(5), 0
    for case = 1, 300 do
      local whole, _, boxes, n = make(random, case % 4)
      for most = 1, 6 do
        local r = region()
        local fits = c.cel_region_assign_most(r, boxes, n, most)
        assert.equal(whole.n <= most, fits)
        assert.equal(fits and whole.n or 0, r.n)
        assert.is_true(not fits or c.cel_region_equal(whole, r))
        given_up = given_up + (fits and 0 or 1)
      end
    end
    assert.is_true(given_up > 100)
  end)

  it("gives the canonical form of any boxes, in any order", function()
    local random = grid.random(1)
    for case = 1, 600 do
      local r, set, boxes, n = make(random, case % 4)
      is(set, r, grid.list(boxes, n))
      for i = n - 1, 1, -1 do
        local k = random:int(0, i)
        local kept = ffi.new("cel_box", boxes[i])
        boxes[i] = boxes[k]
        boxes[k] = kept
      end
      local again = region()
      for i = 0, n - 1 do c.cel_region_add(again, boxes[i]) end
      assert.is_true(c.cel_region_equal(r, again))
      is(set, again)
    end
  end)

  it("handles more boxes than fit on the stack", function()
    local random = grid.random(2)
    for case = 1, 20 do
      local boxes = random:boxes(90, 3)
      for i = 0, 89 do -- points, mostly: many small boxes in the result
        for d = 0, 2 do
          boxes[i].min[d] = random:int(grid.LOW, grid.HIGH - 1)
          boxes[i].max[d] = boxes[i].min[d] + 1
        end
      end
      local n = case * 4 + 9
      is(grid.set(boxes, n), region(boxes, n))
    end
  end)
end)

describe("cel_region", function()
  for _, op in ipairs(ops) do
    it("does " .. op[1] .. " as on points, in place or not", function()
      local random = grid.random(3)
      for case = 1, 700 do
        local dims = case % 4
        local a, sa = make(random, dims)
        local b, sb = make(random, dims)
        local want = apply(op[2], sa, sb)
        local f, out = c["cel_region_" .. op[1]], make(random, dims)
        f(out, a, b)
        is(want, out)
        is(sa, a)
        is(sb, b)
        c.cel_region_copy(out, a)
        f(out, out, b)
        is(want, out)
        c.cel_region_copy(out, b)
        f(out, a, out)
        is(want, out)
        f(a, a, a)
        is(apply(op[2], sa, sa), a)
      end
    end)
  end

  it("adds, clips and removes boxes in place", function()
    local random = grid.random(4)
    for case = 1, 150 do
      local dims = case % 4
      local r, set = make(random, dims)
      for _ = 1, 12 do
        local box = random:box(dims)
        local kind = random:int(1, 5)
        local points = grid.fill({}, box)
        if kind <= 2 then
          c.cel_region_add(r, box)
          grid.fill(set, box)
        elseif kind == 3 then
          c.cel_region_clip(r, box)
          set = apply(ops[2][2], set, points)
        else
          c.cel_region_remove(r, box)
          grid.fill(set, box, false)
        end
        is(set, r, kind .. grid.text(box))
      end
    end
  end)

  it("adds and removes boxes of its own list", function()
    local random = grid.random(5)
    for case = 1, 200 do
      local r, set = make(random, case % 4)
      if r.n > 0 then
        local i = random:int(0, r.n - 1)
        c.cel_region_add(r, r.at[i])
        is(set, r)
        grid.fill(set, r.at[i], false)
        c.cel_region_remove(r, r.at[i])
        is(set, r)
      end
    end
  end)

  it("answers questions as on points", function()
    local random = grid.random(6)
    for case = 1, 600 do
      local dims = case % 4
      local r, set = make(random, dims)
      local box = random:box(dims)
      local points = grid.fill({}, box)
      local common = grid.count(apply(ops[2][2], set, points))
      assert.equal(common == grid.count(points), c.cel_region_covers_box(r, box))
      assert.equal(common > 0, c.cel_region_meets_box(r, box))
      assert.equal(grid.count(set), tonumber(c.cel_region_volume(r)))
      local hull = c.cel_region_hull(r)
      for i = 0, r.n - 1 do
        for d = 0, 2 do
          assert.is_true(hull.min[d] <= r.at[i].min[d] and r.at[i].max[d] <= hull.max[d])
        end
      end
      for d = 0, 2 do
        local tight = r.n == 0
        for i = 0, r.n - 1 do tight = tight or r.at[i].max[d] == hull.max[d] end
        assert.is_true(tight)
      end
      local other, points_of_other = make(random, dims)
      assert.equal(grid.same(set, points_of_other), c.cel_region_equal(r, other))
    end
  end)

  it("holds unbounded boxes", function()
    local far = 2LL ^ 62
    local r = region()
    c.cel_region_add(r, grid.box(-far, 0, 0, far, 1, 1))
    c.cel_region_remove(r, grid.box(0, 0, 0, 1, 1, 1))
    assert.equal(2, r.n)
    assert.is_false(c.cel_region_covers_box(r, grid.box(-5, 0, 0, 5, 1, 1)))
    assert.is_true(c.cel_region_covers_box(r, grid.box(-far, 0, 0, 0, 1, 1)))
  end)

  it("is empty when zero, and keeps its room when cleared", function()
    local r = region()
    assert.equal(0, tonumber(c.cel_region_volume(r)))
    assert.is_true(c.cel_region_covers_box(r, grid.box(3, 0, 0, 3, 1, 1)))
    c.cel_region_add(r, grid.box(0, 0, 0, 1, 1, 1))
    local room = r.at
    c.cel_region_clear(r)
    assert.equal(0, r.n)
    c.cel_region_add(r, grid.box(2, 0, 0, 4, 1, 1))
    assert.equal(room, r.at)
  end)
end)
