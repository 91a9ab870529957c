local ffi = require("ffi")
local c = require("spec.support.cdef")("region/track.h")
local grid = require("spec.region.grid")

jit.off(true, true) -- a compiled next() may lose half of a pointer, and then never ends

local TRUE, ANTI, OUTPUT = 0, 1, 2

local deps = ffi.gc(ffi.new("cel_deps"), c.cel_deps_release)

local words = ffi.new("cel_track_words")

local function n(x) return tonumber(x) end

local function create(extent, written_by)
  return ffi.gc(c.cel_track_create(extent, written_by), c.cel_track_destroy)
end

-- deps as a table id -> kind; asserts their order.
local function answer()
  local out = { uninitialised = deps.uninitialised }
  for i = 0, deps.n - 1 do
    assert.is_true(i == 0 or deps.at[i - 1].id < deps.at[i].id)
    out[n(deps.at[i].id)] = n(deps.at[i].kind)
  end
  return out
end

-- The model: writer and set of readers of each point.
local Model = {}
Model.__index = Model

local function model(extent, written_by)
  local points = {}
  grid.each(extent, function(p)
    points[p] = { writer = written_by, readers = {} }
  end)
  return setmetatable({ points = points }, Model)
end

local function add(out, id, kind)
  out[id] = math.min(out[id] or kind, kind)
end

function Model:each(box, fn)
  grid.each(box, function(p) if self.points[p] then fn(self.points[p]) end end)
end

local function ask_writer(point, id, kind, out)
  if point.writer == 0 then
    out.uninitialised = out.uninitialised or kind == TRUE
  elseif point.writer ~= id then
    add(out, point.writer, kind)
  end
end

function Model:read(box, id, out)
  self:each(box, function(point)
    ask_writer(point, id, TRUE, out)
    point.readers[id] = true
  end)
end

function Model:write(box, id, out)
  self:each(box, function(point)
    local others = false
    for reader in pairs(point.readers) do
      if reader ~= id then
        add(out, reader, ANTI)
        others = true
      end
    end
    if not others then ask_writer(point, id, OUTPUT, out) end
    point.writer, point.readers = id, {}
  end)
end

function Model:users(box, out)
  self:each(box, function(point)
    for reader in pairs(point.readers) do add(out, reader, ANTI) end
    ask_writer(point, 0, OUTPUT, out)
  end)
end

function Model:floor(id)
  local function raise(x) return x > 0 and x < id and id or x end
  for _, point in pairs(self.points) do
    local readers, alone = {}, true
    for reader in pairs(point.readers) do
      readers[raise(reader)] = true
      alone = alone and raise(reader) == id
    end
    point.writer = raise(point.writer)
    point.readers = alone and point.writer == id and {} or readers
  end
end

describe("cel_track", function()
  it("equals a table of points", function()
    local random = grid.random(1)
    for case = 1, 150 do
      local dims = case % 4
      local extent = case % 5 == 0 and random:box(dims) or grid.extent(dims)
      local first = case % 2
      local track, shadow = create(extent, first), model(extent, first)
      local id, floor = 1, 1
      for _ = 1, 40 do
        id = id + random:int(1, 2)
        c.cel_deps_clear(deps)
        local want = { uninitialised = false }
        local lone = random:chance(25)
        if lone then
          local box = random:box(dims)
          c.cel_track_update(track, box, id, deps)
          shadow:read(box, id, want)
          shadow:write(box, id, want)
        end
        for _ = 1, lone and 0 or random:int(0, 3) do
          local box = random:box(dims)
          c.cel_track_read(track, box, id, deps)
          shadow:read(box, id, want)
        end
        for _ = 1, lone and 0 or random:int(0, 2) do
          local box = random:box(dims)
          c.cel_track_write(track, box, id, deps)
          shadow:write(box, id, want)
        end
        assert.same(want, answer())
        if random:chance(12) then
          floor = random:int(floor, id)
          c.cel_track_floor(track, floor)
          shadow:floor(floor)
        end
        if random:chance(10) then
          c.cel_track_save(track, words)
          track = create(extent, id)
          c.cel_track_load(track, words)
        end
        local box = random:box(dims)
        c.cel_deps_clear(deps)
        c.cel_track_users(track, box, deps)
        want = { uninitialised = false }
        shadow:users(box, want)
        assert.same(want, answer())
      end
    end
  end)

  -- What the dependencies are for: whoever comes after a conflicting access,
  -- is ordered after it, with horizons that come after everything before.
  it("orders all conflicting accesses, with floors and without", function()
    local random = grid.random(2)
    for case = 1, 80 do
      local track = create(grid.extent(1), 0)
      local after = {} -- node -> set of all nodes before it, transitively
      local reads, writes = {}, {} -- per point: nodes
      local horizon
      local function link(id)
        after[id] = {}
        for i = 0, deps.n - 1 do
          local d = n(deps.at[i].id)
          after[id][d] = true
          for e in pairs(after[d]) do after[id][e] = true end
        end
      end
      for id = 1, 50 do
        c.cel_deps_clear(deps)
        if case % 2 == 0 and id % 8 == 0 then -- a horizon; the last one applies
          if horizon then c.cel_track_floor(track, horizon) end
          horizon, after[id] = id, {}
          for e = 1, id - 1 do after[id][e] = true end
        else
          local r, w = random:box(1), random:box(1)
          if random:chance(70) then c.cel_track_read(track, r, id, deps) else r = nil end
          if random:chance(50) then c.cel_track_write(track, w, id, deps) else w = nil end
          link(id)
          if r then
            grid.each(r, function(p)
              for _, e in ipairs(writes[p] or {}) do assert.is_true(after[id][e]) end
            end)
          end
          if w then
            grid.each(w, function(p)
              for _, e in ipairs(writes[p] or {}) do assert.is_true(after[id][e]) end
              for _, e in ipairs(reads[p] or {}) do
                assert.is_true(e == id or after[id][e])
              end
            end)
          end
          local function note(list, box)
            grid.each(box, function(p)
              list[p] = list[p] or {}
              table.insert(list[p], id)
            end)
          end
          if r then note(reads, r) end
          if w then note(writes, w) end
        end
      end
    end
  end)

  it("does not grow along a stencil, for however many steps", function()
    local N, parts = 1024, 4
    local buffers = {}
    for i = 0, 1 do buffers[i] = create(grid.box(0, 0, 0, N, N, 1), 1) end
    local id, most = 1, 0
    for step = 1, 20000 do
      local from, to = buffers[step % 2], buffers[(step + 1) % 2]
      for part = 0, parts - 1 do
        id = id + 1
        local lo, hi = part * N / parts, (part + 1) * N / parts
        c.cel_deps_clear(deps)
        c.cel_track_read(from, grid.box(math.max(lo - 1, 0), 0, 0, math.min(hi + 1, N), N, 1),
          id, deps)
        c.cel_track_write(to, grid.box(lo, 0, 0, hi, N, 1), id, deps)
        assert.is_true(deps.n <= 3)
      end
      if step % 5 == 0 then
        for i = 0, 1 do c.cel_track_floor(buffers[i], id - 8) end
      end
      most = math.max(most, c.cel_track_count(from))
    end
    assert.is_true(most <= 64, most)
  end)

  it("does not grow between floors by writes that end what was read", function()
    local extent = grid.box(0, 0, 0, 64, 1, 1)
    local track, most = create(extent, 1), 0
    for id = 2, 30000 do
      c.cel_deps_clear(deps)
      if id % 3 == 0 then
        c.cel_track_write(track, extent, id, deps)
      else
        c.cel_track_read(track, grid.box(id % 60, 0, 0, id % 60 + 4, 1, 1), id, deps)
      end
      most = math.max(most, c.cel_track_count(track))
    end
    assert.is_true(most <= 100, most)
  end)

  it("holds one entry per reader where many read the same", function()
    local extent = grid.box(0, 0, 0, 64, 1, 1)
    local track = create(extent, 1)
    for id = 2, 1001 do
      c.cel_deps_clear(deps)
      c.cel_track_read(track, extent, id, deps)
      assert.same({ uninitialised = false, [1] = TRUE }, answer())
    end
    assert.is_true(c.cel_track_count(track) <= 1001)
    c.cel_deps_clear(deps)
    c.cel_track_write(track, extent, 1002, deps)
    assert.equal(1000, deps.n)
    c.cel_track_floor(track, 1002)
    assert.equal(1, c.cel_track_count(track))
  end)

  it("names the many that a box came from, in whatever order they wrote", function()
    local random, POINTS = grid.random(9), 100
    local track, id, writer, readers = create(grid.box(0, 0, 0, POINTS, 1, 1), 0), 0, {}, {}
    local function at(point) return grid.box(point, 0, 0, point + 1, 1, 1) end
    for _ = 1, 500 do
      id = id + 1
      local point = random:int(0, POINTS - 1)
      if random:chance(60) then
        c.cel_track_write(track, at(point), id, deps)
        writer[point], readers[point] = id, {}
      elseif readers[point] then
        c.cel_track_read(track, at(point), id, deps)
        table.insert(readers[point], id)
      end
    end
    local want = { uninitialised = false }
    c.cel_deps_clear(deps)
    for other = 3, 500, 7 do -- there already
      c.cel_deps_add(deps, other, OUTPUT)
      want[other] = OUTPUT
    end
    local function expect(point, id_of, kind)
      if point >= 10 and point < 90 then add(want, id_of, kind) end
    end
    for point, id_of in pairs(writer) do
      expect(point, id_of, OUTPUT)
      for _, reader in ipairs(readers[point]) do expect(point, reader, ANTI) end
    end
    c.cel_track_users(track, grid.box(10, 0, 0, 90, 1, 1), deps)
    assert.same(want, answer())
    for point, id_of in pairs(writer) do expect(point, id_of, TRUE) end
    c.cel_track_read(track, grid.box(10, 0, 0, 90, 1, 1), 501, deps)
    want.uninitialised = deps.uninitialised -- a point may have had no writer
    assert.same(want, answer())
    c.cel_deps_clear(deps)
    c.cel_track_write(track, grid.box(0, 0, 0, POINTS, 1, 1), 502, deps)
    assert.equal(ANTI, answer()[501])
  end)

  it("takes no time that grows with the square of how many wrote a box", function()
    local WRITERS = 120000
    local extent = grid.box(0, 0, 0, WRITERS, 1, 1)
    local track = create(extent, 0)
    for id = 1, WRITERS do -- the last points first
      c.cel_track_write(track, grid.box(WRITERS - id, 0, 0, WRITERS - id + 1, 1, 1), id, deps)
    end
    c.cel_deps_clear(deps)
    local began = os.clock()
    c.cel_track_read(track, extent, WRITERS + 1, deps)
    local took = os.clock() - began
    assert.equal(WRITERS, deps.n)
    assert.is_true(took < 3, took) -- s of the processor
  end)

  it("lets a reader go on that has read much when states are moved", function()
    local SIZE, READ, READER = 200, 100, 1000
    local track = create(grid.box(0, 0, 0, SIZE, 1, 1), 0)
    local function at(i) return grid.box(i, 0, 0, i + 1, 1, 1) end
    for i = 0, SIZE - 1 do c.cel_track_write(track, at(i), i + 1, deps) end
    for i = 0, READ - 1 do c.cel_track_read(track, at(i), READER, deps) end
    c.cel_track_floor(track, 1)
    for i = READ, SIZE - 1 do
      c.cel_deps_clear(deps)
      c.cel_track_read(track, at(i), READER, deps)
      assert.same({ uninitialised = false, [i + 1] = TRUE }, answer())
    end
    c.cel_deps_clear(deps)
    c.cel_track_write(track, grid.box(0, 0, 0, SIZE, 1, 1), READER + 1, deps)
    assert.same({ uninitialised = false, [READER] = ANTI }, answer())
  end)

  it("merges what a floor makes equal", function()
    local track = create(grid.box(0, 0, 0, 100, 1, 1), 0)
    for i = 0, 99 do
      c.cel_track_write(track, grid.box(i, 0, 0, i + 1, 1, 1), i + 1, deps)
    end
    assert.equal(100, c.cel_track_count(track))
    c.cel_track_floor(track, 51)
    assert.equal(50, c.cel_track_count(track))
    c.cel_track_floor(track, 200)
    assert.equal(1, c.cel_track_count(track))
  end)
end)

describe("cel_deps", function()
  it("keeps the strongest kind of each id", function()
    local random, want = grid.random(3), { uninitialised = false }
    c.cel_deps_clear(deps)
    for _ = 1, 300 do
      local id, kind = random:int(1, 60), random:int(0, 2)
      c.cel_deps_add(deps, id, kind)
      want[id] = math.min(want[id] or kind, kind)
    end
    assert.same(want, answer())
  end)
end)
