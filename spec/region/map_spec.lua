local ffi = require("ffi")
local c = require("spec.support.cdef")("region/map.h")
local grid = require("spec.region.grid")

local entries = ffi.gc(ffi.new("cel_map_entries"), c.cel_map_entries_release)

local function n(x) return tonumber(x) end

local function create(extent, value)
  return ffi.gc(c.cel_map_create(extent, value), c.cel_map_destroy)
end

-- What a query says, point by point; asserts that it is disjoint, clipped and
-- in order.
local function query(map, box)
  c.cel_map_query(map, box, entries)
  local got = {}
  for i = 0, entries.n - 1 do
    local e = entries.at[i]
    for d = 0, 2 do
      assert.is_true(e.box.min[d] >= box.min[d] and e.box.max[d] <= box.max[d]
        and e.box.min[d] < e.box.max[d])
    end
    grid.each(e.box, function(p)
      assert.is_nil(got[p])
      got[p] = n(e.value)
    end)
    if i > 0 then
      local a, b = entries.at[i - 1].box.min, e.box.min
      assert.is_true(a[0] < b[0] or a[0] == b[0] and (a[1] < b[1]
        or a[1] == b[1] and a[2] < b[2]))
    end
  end
  return got
end

-- No two entries of one value together are a box.
local function merged(map, extent)
  c.cel_map_query(map, extent, entries)
  assert.equal(entries.n, c.cel_map_count(map))
  for i = 0, entries.n - 1 do
    for k = i + 1, entries.n - 1 do
      local a, b = entries.at[i], entries.at[k]
      if a.value == b.value then
        local same, touch = 0, false
        for d = 0, 2 do
          if a.box.min[d] == b.box.min[d] and a.box.max[d] == b.box.max[d] then
            same = same + 1
          else
            touch = a.box.max[d] == b.box.min[d] or b.box.max[d] == a.box.min[d]
          end
        end
        if same == 2 and touch then return false, grid.text(a.box) .. grid.text(b.box) end
      end
    end
  end
  return true
end

-- cel_map_at gives each entry whole, for its first and its last point.
local function finds_entries(map, extent)
  local found, point = ffi.new("cel_map_entry"), ffi.new("int64_t[3]")
  c.cel_map_query(map, extent, entries)
  for i = 0, entries.n - 1 do
    local e = entries.at[i]
    for last = 0, 1 do
      for d = 0, 2 do point[d] = last == 1 and e.box.max[d] - 1 or e.box.min[d] end
      if not c.cel_map_at(map, point, found) or found.value ~= e.value
        or grid.text(found.box) ~= grid.text(e.box) then return false end
    end
  end
  point[0] = extent.max[0]
  return not c.cel_map_at(map, point, found)
end

local function limit(set, box)
  local out = {}
  grid.each(box, function(p) out[p] = set[p] end)
  return out
end

-- cel_map_holds says yes where one entry has all of the box, with its value.
local function holds_rightly(map, box, shadow)
  local value, volume = ffi.new("uint64_t[1]", 99), 0
  grid.each(box, function() volume = volume + 1 end)
  c.cel_map_query(map, box, entries)
  local whole = entries.n == 1 and volume > 0
  if whole then
    for d = 0, 2 do
      whole = whole and entries.at[0].box.min[d] == box.min[d]
        and entries.at[0].box.max[d] == box.max[d]
    end
  end
  if c.cel_map_holds(map, box, value) ~= whole then return false end
  return not whole or n(value[0]) == shadow[grid.point(n(box.min[0]), n(box.min[1]), n(box.min[2]))]
end

describe("cel_map", function()
  it("equals a table of points after every update and rewrite", function()
    local random = grid.random(1)
    local double = ffi.cast("uint64_t (*)(uint64_t, void *)", function(v)
      return v / 2
    end)
    for case = 1, 120 do
      local dims = case % 4
      local extent = case % 3 == 0 and random:box(dims) or grid.extent(dims)
      local values = random:int(1, 12)
      local map = create(extent, 1)
      local shadow = grid.fill({}, extent, 1)
      for step = 1, 60 do
        local box = random:box(dims)
        if random:chance(3) then
          jit.off(true, true)
          c.cel_map_rewrite(map, double, nil)
          for p, v in pairs(shadow) do shadow[p] = math.floor(v / 2) end
        elseif random:chance(8) then
          jit.off(true, true)
          c.cel_map_query(map, box, entries)
          local before, visited, seen = {}, {}, {}
          local into, value = visited, random:int(0, values)
          for i = 0, entries.n - 1 do before[i + 1] = n(entries.at[i].value) end
          local see = ffi.cast("void (*)(uint64_t, void *)",
            function(old) into[#into + 1] = n(old) end)
          c.cel_map_visit(map, box, see, nil)
          into = seen
          c.cel_map_replace(map, box, value, see, nil)
          see:free()
          for _, list in ipairs({ before, visited, seen }) do table.sort(list) end
          assert.same(before, seen)
          assert.same(before, visited)
          grid.each(box, function(p) if shadow[p] then shadow[p] = value end end)
        elseif random:chance(3) then
          c.cel_map_change(map, box, double, nil)
          grid.each(box, function(p) shadow[p] = shadow[p] and math.floor(shadow[p] / 2) end)
        else
          local value = random:int(0, values)
          c.cel_map_update(map, box, value)
          grid.each(box, function(p) if shadow[p] then shadow[p] = value end end)
        end
        c.cel_map_check(map)
        assert.is_true(grid.same(shadow, query(map, extent)), "step " .. step)
        local part = random:box(dims)
        assert.is_true(grid.same(limit(shadow, part), query(map, part)))
        assert.is_true(holds_rightly(map, part, shadow))
        assert.is_true(finds_entries(map, extent))
        assert.is_true(merged(map, extent))
      end
    end
    double:free()
  end)

  it("gives the whole entry that holds a point", function()
    local random, entry = grid.random(5), ffi.new("cel_map_entry")
    for case = 1, 30 do
      local extent = case % 6 == 0 and random:box(2) or grid.extent(2)
      local map, shadow = create(extent, 0), grid.fill({}, extent, 0)
      for step = 1, 20 do
        local box = random:box(2)
        c.cel_map_update(map, box, step)
        grid.each(box, function(p) if shadow[p] then shadow[p] = step end end)
      end
      c.cel_map_query(map, extent, entries)
      for x = grid.LOW, grid.HIGH do
        for y = grid.LOW, grid.HIGH - 1 do
          local value = shadow[grid.point(x, y, 0)]
          local found = c.cel_map_at(map, ffi.new("int64_t[3]", { x, y, 0 }), entry)
          assert.equal(x < grid.HIGH and value ~= nil, found)
          if found then
            assert.equal(value, n(entry.value))
            local whole = false
            for i = 0, entries.n - 1 do
              whole = whole or grid.text(entries.at[i].box) == grid.text(entry.box)
            end
            assert.is_true(whole)
          end
        end
      end
    end
  end)

  it("equals a table of points in trees of many leaves", function()
    local side, random = 14, grid.random(4)
    local halve = ffi.cast("uint64_t (*)(uint64_t, void *)", function(v) return v / 2 end)
    local function point(x, y, z) return (x * side + y) * side + z end
    for case = 1, 6 do
      local depth = case % 2 == 0 and 1 or side
      local extent = grid.box(0, 0, 0, side, side, depth)
      local map, shadow = create(extent, 0), ffi.new("uint64_t[?]", side ^ 3)
      for step = 1, 1200 do
        local box = ffi.new("cel_box")
        for d = 0, 2 do
          box.min[d] = random:int(0, n(extent.max[d]) - 1)
          box.max[d] = math.min(n(extent.max[d]),
            n(box.min[d]) + random:int(1, random:chance(10) and side or 2))
        end
        local value = random:int(1, case < 3 and 2 or 40)
        if random:chance(4) then
          c.cel_map_change(map, box, halve, nil)
          value = nil
        else
          c.cel_map_update(map, box, value)
        end
        for x = n(box.min[0]), n(box.max[0]) - 1 do
          for y = n(box.min[1]), n(box.max[1]) - 1 do
            for z = n(box.min[2]), n(box.max[2]) - 1 do
              local p = point(x, y, z)
              shadow[p] = value or shadow[p] / 2
            end
          end
        end
        if step % 20 == 0 then
          c.cel_map_check(map)
          c.cel_map_query(map, extent, entries)
          local volume = 0
          for i = 0, entries.n - 1 do
            local e = entries.at[i]
            for x = n(e.box.min[0]), n(e.box.max[0]) - 1 do
              for y = n(e.box.min[1]), n(e.box.max[1]) - 1 do
                for z = n(e.box.min[2]), n(e.box.max[2]) - 1 do
                  volume = volume + 1
                  if shadow[point(x, y, z)] ~= e.value then
                    error("wrong value in step " .. step)
                  end
                end
              end
            end
          end
          assert.equal(side * side * depth, volume)
        end
      end
    end
    halve:free()
  end)

  it("is one entry again once all of it has one value", function()
    local random = grid.random(2)
    for case = 1, 30 do
      local dims = case % 3 + 1
      local extent = grid.extent(dims)
      local map = create(extent, 0)
      for _ = 1, 40 do c.cel_map_update(map, random:box(dims), random:int(1, 9)) end
      assert.is_true(c.cel_map_count(map) > 1)
      if case % 2 == 0 then
        c.cel_map_update(map, extent, 7)
      else
        for x = grid.LOW, grid.HIGH - 1 do
          local row = grid.extent(dims)
          row.min[0], row.max[0] = x, x + 1
          c.cel_map_update(map, row, 7)
        end
      end
      assert.equal(1, c.cel_map_count(map))
    end
  end)

  it("grows to thousands of tiles and shrinks back", function()
    local side, random = 40, grid.random(3)
    local extent = grid.box(0, 0, 0, side, side, 1)
    local map, order = create(extent, 0), {}
    for i = 0, side * side - 1 do order[i + 1] = i end
    for i = #order, 2, -1 do
      local k = random:int(1, i)
      order[i], order[k] = order[k], order[i]
    end
    local function tile(i)
      local x, y = math.floor(i / side), i % side
      return grid.box(x, y, 0, x + 1, y + 1, 1)
    end
    for _, i in ipairs(order) do c.cel_map_update(map, tile(i), i + 1) end
    c.cel_map_check(map)
    assert.equal(side * side, c.cel_map_count(map))
    c.cel_map_query(map, extent, entries)
    for i = 0, side * side - 1 do assert.equal(i + 1, n(entries.at[i].value)) end
    for k, i in ipairs(order) do
      c.cel_map_update(map, tile(i), 7)
      if k % 400 == 0 or k > 1400 and k < 1500 then c.cel_map_check(map) end
    end
    assert.is_true(c.cel_map_count(map) <= side * side / 10)
    local same = ffi.cast("uint64_t (*)(uint64_t, void *)", function(v)
      return v + 1
    end)
    c.cel_map_rewrite(map, same, nil)
    same:free()
    assert.equal(1, c.cel_map_count(map))
  end)

  it("puts together the pieces that became equal in a rewrite", function()
    local extent = grid.box(0, 0, 0, 32, 32, 1)
    local map = create(extent, 0)
    for x = 0, 31 do
      for y = 0, 31 do
        c.cel_map_update(map, grid.box(x, y, 0, x + 1, y + 1, 1), x * 32 + y)
      end
    end
    local halve = ffi.cast("uint64_t (*)(uint64_t, void *)", function(v)
      return v < 512 + 16 and 1 or v
    end)
    c.cel_map_rewrite(map, halve, nil)
    halve:free()
    c.cel_map_check(map)
    assert.equal(512 - 16 + 2, c.cel_map_count(map))
  end)

  it("keeps a constant number of entries while rows are added", function()
    local map = create(grid.box(0, 0, 0, 5000, 64, 1), 0)
    for t = 0, 4999 do
      c.cel_map_update(map, grid.box(t, 0, 0, t + 1, 32, 1), 1)
      c.cel_map_update(map, grid.box(t, 32, 0, t + 1, 64, 1), 2)
      assert.is_true(c.cel_map_count(map) <= 3)
    end
  end)

  it("is divided alike whatever equal values are called", function()
    local side, random = 8, grid.random(6)
    local extent = grid.box(0, 0, 0, side, side, side)
    local function divided(map)
      c.cel_map_query(map, extent, entries)
      local list = {}
      for i = 0, entries.n - 1 do list[i + 1] = grid.text(entries.at[i].box) end
      return table.concat(list, " ")
    end
    local box = ffi.new("cel_box")
    for case = 1, 60 do
      local one, other = create(extent, 0), create(extent, 8)
      for step = 1, 2000 do
        local value = random:int(0, 8)
        for d = 0, 2 do
          box.min[d] = random:int(0, side - 1)
          local most = random:chance(15) and side or 2
          box.max[d] = math.min(side, n(box.min[d]) + random:int(1, most))
        end
        c.cel_map_update(one, box, value)
        c.cel_map_update(other, box, 8 - value)
        if step % 50 == 0 then
          assert.equal(divided(one), divided(other), "case " .. case .. " step " .. step)
        end
      end
    end
  end)

  it("may have an empty extent", function()
    local map = create(grid.box(4, 0, 0, 4, 1, 1), 5)
    c.cel_map_update(map, grid.extent(3), 1)
    assert.equal(0, c.cel_map_count(map))
    c.cel_map_query(map, grid.extent(3), entries)
    assert.equal(0, entries.n)
    c.cel_map_check(map)
  end)
end)
