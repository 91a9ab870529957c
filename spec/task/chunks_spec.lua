local ffi = require("ffi")
local c = require("spec.support.cdef")("task/chunks.h")
local grid = require("spec.region.grid")
local points = require("spec.support.points")

local volume = points.volume

local KERNEL, HOST = 0, 1
local SPLIT, ONCE, EACH = 0, 1, 2

local function key(box)
  local out = {}
  for d = 0, 2 do out[d + 1] = ("%d-%d"):format(tonumber(box.min[d]), tonumber(box.max[d])) end
  return table.concat(out, " ")
end

-- What is found, as {ranks, common, mine, chunk = {boxes}, part = {indices}}.
local function find(group, rank, ranks, devices, tried)
  local room = ffi.new("uint64_t[24]")
  local chunks = ffi.cast("cel_chunks *", room)
  c.cel_chunks_find(group, ffi.new("cel_chunks_of", { rank, ranks, devices, tried or 0 }), chunks)
  local l = c.cel_chunks_list(chunks, nil, nil)
  local out = { ranks = l.ranks, common = l.common, mine = l.mine, chunk = {}, part = {} }
  for i = 0, l.chunks - 1 do out.chunk[i] = ffi.new("cel_box", l.chunk[i]) end
  for i = 0, l.parts - 1 do out.part[i + 1] = l.part[i] end
  out.whole, out.splits = l.whole, {}
  local at = 0
  while at < l.words do
    local split = {}
    for i = 1, l.split[at] do split[i] = l.split[at + i] end
    at = at + 1 + l.split[at]
    out.splits[#out.splits + 1] = split
  end
  c.cel_chunks_release(chunks)
  return out
end

local function random_group(random)
  local group = ffi.new("cel_group")
  group.kind = random:int(0, 1) == 0 and KERNEL or HOST
  group.placement, group.dims = SPLIT, random:int(1, 3)
  group.oversubscribe = random:int(0, 3)
  for d = 0, 2 do
    local lo = d < group.dims and random:int(0, 3) or 0
    group.range.min[d] = lo
    group.range.max[d] = lo + (d < group.dims and random:int(1, 9) or 1)
    group.permitted.cut[d] = d < group.dims and random:int(0, 2) > 0
    group.permitted.granularity[d] = random:int(1, 3)
  end
  return group
end

describe("the chunks of a group", function()
  it("are those of all ranks, then such as all know, then this rank's parts", function()
    local random = grid.random(11)
    for _ = 1, 300 do
      local group, ranks = random_group(random), random:int(1, 5)
      local first, covered
      for rank = 0, ranks - 1 do
        local found = find(group, rank, ranks, random:int(1, 4))
        local seen, common, total = {}, {}, 0
        for i = 0, #found.chunk do
          assert.is_nil(seen[key(found.chunk[i])])
          seen[key(found.chunk[i])] = true
          if i < found.ranks then total = total + volume(found.chunk[i]) end
          if i < found.common then common[i] = key(found.chunk[i]) end
        end
        assert.equal(volume(group.range), total)
        assert.is_true(seen[key(group.range)])
        first, covered = first or common, covered or 0
        assert.same(first, common)
        local parts = 0
        for _, i in ipairs(found.part) do parts = parts + volume(found.chunk[i]) end
        assert.equal(found.mine < 0 and 0 or volume(found.chunk[found.mine]), parts)
        covered = covered + parts
      end
      assert.equal(volume(group.range), covered)
    end
  end)

  it("are besides those of other numbers of ranks, which all know", function()
    local random = grid.random(17)
    local met, tiles = {}, 0
    for _ = 1, 300 do
      local group, ranks = random_group(random), random:int(1, 5)
      local tried, first = 0, nil
      for n = 3, 8 do if random:int(0, 1) == 1 then tried = tried + 2 ^ n end end
      for rank = 0, ranks - 1 do
        local found = find(group, rank, ranks, 2, tried)
        local seen = {}
        for _, split in ipairs(found.splits) do
          local total, keys = 0, {}
          for k, i in ipairs(split) do
            assert.is_true(i < found.common)
            total, keys[k] = total + volume(found.chunk[i]), key(found.chunk[i])
          end
          assert.equal(volume(group.range), total)
          local n = #split
          assert.is_true(n == 2 or bit.band(tried, 2 ^ n) > 0)
          met[n] = (met[n] or 0) + 1
          local rows = {}
          for _, i in ipairs(split) do rows[tonumber(found.chunk[i].min[0])] = true end
          local count = 0
          for _ in pairs(rows) do count = count + 1 end
          if count > 1 and count < n then tiles = tiles + 1 end
          seen[#seen + 1] = table.concat(keys, "; ")
        end
        assert.equal(key(group.range), key(found.chunk[found.whole]))
        first = first or seen
        assert.same(first, seen)
      end
    end
    for n = 2, 8 do assert.is_true(met[n] > 10) end
    assert.is_true(tiles > 10)
  end)

  it("of what one rank does, or each does once, have no halves", function()
    local group = ffi.new("cel_group", { kind = HOST, placement = ONCE, dims = 0 })
    group.range.max[0], group.range.max[1], group.range.max[2] = 1, 1, 1
    local found = find(group, 1, 3, 2)
    assert.same({ 1, 1, -1, 0 }, { found.ranks, found.common, found.mine, #found.part })
    group.placement, group.dims, group.range.max[0] = EACH, 1, 3
    found = find(group, 1, 3, 2)
    assert.same({ 3, 3, 1, { 1 } }, { found.ranks, found.common, found.mine, found.part })
  end)

  it("are none where the range is empty, in whichever dimension", function()
    for d = 0, 2 do
      local group = ffi.new("cel_group", { kind = KERNEL, placement = SPLIT, dims = 3 })
      for e = 0, 2 do
        group.range.max[e], group.permitted.cut[e] = e == d and 0 or 5, true
        group.permitted.granularity[e] = 1
      end
      local found = find(group, 1, 3, 2, 0x1f8)
      assert.same({ 0, 0, -1, -1 }, { found.ranks, #found.chunk, found.mine, found.whole })
    end
  end)
end)
