-- What each device gives to each, where collectives are between the devices of
-- all ranks.
local ffi = require("ffi")
local ranks = require("spec.command.ranks")
local program = require("spec.task.program")
local c = require("spec.support.cdef")("command/collective/member.h")
local volume = require("spec.support.points").volume

-- `start`: what else the configuration says.
local function new(n, devices, limits, start)
  limits = limits or {}
  local config = { collectives = true, collective = { devices = devices,
    pairs = limits.pairs ~= false, least = limits.least or 0,
    least_parts = limits.least_parts or 0, most = limits.most or 2 ^ 40,
    packed_most = limits.packed_most or 2 ^ 40 } }
  for name, value in pairs(start or {}) do config[name] = value end
  return ranks.new(n, config)
end

local function exchange(r, k, task)
  local command = r:of(k, "collective", task)[1]
  return command and command.raw.exchange
end

local function text(box) return volume(box) == 0 and "" or ranks.box_text(box, 3) end

local function covers(outer, inner)
  if volume(inner) == 0 then return true end
  for d = 0, 2 do
    if inner.min[d] < outer.min[d] or inner.max[d] > outer.max[d] then return false end
  end
  return true
end

-- Both ends of each pair of devices mean the same; what a device gives it has,
-- and what it gets is all that it gets, once.
local function check(r, devices, task)
  local moved = 0
  for a = 0, r.n - 1 do
    local x, side = exchange(r, a, task), ffi.new("cel_member")
    for da = 0, devices - 1 do
      c.cel_member_side(x, a, da, side)
      local got, awaited = 0, 0
      for m = 0, r.n * devices - 1 do
        local b, db = math.floor(m / devices), m % devices
        local given = c.cel_member_gives(x, da, m)
        assert.equal(text(c.cel_member_gets(exchange(r, b, task), db, a * devices + da)),
          text(given))
        assert.is_true(covers(side.mine, given), text(given))
        got = got + volume(c.cel_member_gets(x, da, m))
      end
      for i = 0, side.gets - 1 do awaited = awaited + volume(side.get[i]) end
      assert.equal(awaited, got)
      moved = moved + got
    end
  end
  return moved
end

local function rows() return { { program.span(0), program.whole(1) } } end
local function columns() return { { program.whole(0), program.span(0) } } end

describe("devices that exchange in pairs", function()
  for devices = 1, 3 do
    it(("transpose, %d on each rank"):format(devices), function()
      local r = new(3, devices)
      local u = r:buffer({ 7, 11 })
      r:submit({ range = { 7 }, { u, "discard_write", rows() } })
      local t = r:submit({ range = { 11 }, { u, "read", columns() } })
      local x = exchange(r, 1, t)
      assert.same({ 0, 1 }, { x.give_along, x.get_along })
      -- 3, 2 and 2 rows; 4, 4 and 3 columns.
      assert.equal(77 - 3 * 4 - 2 * 4 - 2 * 3, check(r, devices, t))
    end)
  end

  it("give to each device of a rank that reads all, and to none of one that does not", function()
    local r = new(4, 2)
    local u, v = r:buffer({ 16 }), r:buffer({ 16 })
    r:submit({ range = { 16 }, { u, "discard_write", program.same(1) } })
    local t = r:submit({ range = { 2 }, { u, "read", program.all(1) } })
    assert.is_true(exchange(r, 0, t).to ~= nil)
    assert.equal(2 * 2 * 12, check(r, 2, t))
    r:submit({ range = { 16 }, placement = "once", { v, "discard_write", program.same(1) } })
    t = r:submit({ range = { 3 }, { v, "read", program.all(1) } })
    assert.equal(2 * 2 * 16, check(r, 2, t))
  end)

  it("deal out parts that overlap, from the first device of the root", function()
    local r = new(4, 2)
    local u = r:buffer({ 16 })
    r:submit({ range = { 16 }, placement = "once", { u, "discard_write", program.same(1) } })
    local t = r:submit({ range = { 16 },
      { u, "read", program.grown(1), { clamp = true } } })
    assert.equal(6 + 6 + 5, check(r, 2, t))
    assert.equal("7:10 0:1 0:1", text(c.cel_member_gives(exchange(r, 0, t), 0, 4)))
    assert.equal("", text(c.cel_member_gives(exchange(r, 0, t), 1, 4)))
  end)

  it("add up what each rank has once, and give the least as often as there are devices", function()
    local x = ffi.new("cel_exchange", { pattern = "CEL_PATTERN_ALL_REDUCE", devices = 2,
      box = { { 0, 0, 0 }, { 5, 1, 1 } }, by = { op = "CEL_OP_SUM", class_ = 105, size = 4 } })
    local side, has = ffi.new("cel_member"), {}
    for _, op in ipairs { "CEL_OP_SUM", "CEL_OP_MIN" } do
      x.by.op = op
      for device = 0, 1 do
        c.cel_member_side(x, 1, device, side)
        has[#has + 1] = volume(side.mine)
        assert.equal("0:5 0:1 0:1", text(side.get[0]))
      end
    end
    assert.same({ 5, 0, 5, 5 }, has)
  end)

  it("keep to their groups", function()
    local r = new(4, 2)
    local u = r:buffer({ 8, 8 })
    local cut = { true, true }
    r:submit({ range = { 8, 8 }, cut = cut, { u, "discard_write", program.same(2) } })
    local t = r:submit({ range = { 8, 8 }, cut = cut, { u, "read", rows() } })
    -- Each of four ranks gets the other tile of its row, 4 x 4.
    assert.equal(4 * 16, check(r, 2, t))
  end)

  it("leave to messages what takes too much memory to pack", function()
    local function transposed(most)
      local r = new(3, 1, { packed_most = most })
      local u = r:buffer({ 9, 9 })
      r:submit({ range = { 9 }, { u, "discard_write", rows() } })
      return exchange(r, 0, r:submit({ range = { 9 }, { u, "read", columns() } })) ~= nil
    end
    local size = tonumber(new(1, 1):buffer({ 1 }).element_size)
    assert.is_true(transposed(2 * 27 * size))
    assert.is_false(transposed(2 * 27 * size - 1))
  end)

  it("leave to messages what goes from one to another where not all can", function()
    local r = new(3, 1, { pairs = false })
    local u = r:buffer({ 9, 9 })
    r:submit({ range = { 9 }, { u, "discard_write", rows() } })
    assert.is_nil(exchange(r, 0, r:submit({ range = { 9 }, { u, "read", columns() } })))
    assert.is_nil(exchange(r, 0, r:submit({ range = { 1 }, { u, "read", program.all(2) } })))
    r:submit({ range = { 9 }, { u, "discard_write", rows() } })
    assert.is_not_nil(exchange(r, 0, r:submit({ range = { 9 }, { u, "read", { { program.whole(0),
      program.whole(1) } } } })))
  end)

  it("leave to messages what is small, sooner where each gets a part of its own", function()
    local size = tonumber(new(1, 1):buffer({ 1 }).element_size)
    local r = new(3, 1, { least = 9 * size, least_parts = 81 * size })
    -- Whether n elements are a collective, where ranks write and where they read.
    local function is(n, range, written, reads)
      local u = r:buffer({ n, 9 })
      r:submit({ range = { range }, { u, "discard_write", written } })
      return exchange(r, 0, r:submit({ range = { 9 }, { u, "read", reads } })) ~= nil
    end
    local all = program.all(2)
    assert.is_true(is(9, 9, columns(), all))
    assert.is_true(is(1, 9, columns(), all))
    assert.is_true(is(1, 1, all, all))
    assert.is_true(is(9, 1, all, columns()))
    assert.is_false(is(8, 1, all, columns()))
    assert.is_true(is(9, 9, rows(), columns()))
    r = new(3, 1, { least = 9 * size + 1, least_parts = 81 * size + 1 })
    assert.is_false(is(1, 9, columns(), all))
    assert.is_false(is(9, 1, all, columns()))
    assert.is_false(is(9, 9, rows(), columns()))
  end)

  it("pack nothing where each block lies side by side", function()
    local r = new(3, 1, { packed_most = 0 })
    local u, v = r:buffer({ 3, 3, 5 }), r:buffer({ 9 })
    local function along(d)
      local box = { program.whole(0), program.whole(1), program.whole(2) }
      box[d] = program.span(0)
      return { box }
    end
    r:submit({ range = { 3 }, { u, "discard_write", along(1) } })
    assert.is_not_nil(exchange(r, 0, r:submit({ range = { 3 }, { u, "read", along(2) } })))
    r:submit({ range = { 3 }, { u, "discard_write", along(1) } })
    assert.is_nil(exchange(r, 0, r:submit({ range = { 5 }, { u, "read", along(3) } })))
    r:submit({ range = { 9 }, { v, "discard_write", program.same(1) } })
    assert.is_not_nil(exchange(r, 0, r:submit({ range = { 2 }, { v, "read", program.all(1) } })))
  end)
end)

describe("collectives between devices that start when needed", function()
  local asked, works
  local join = ffi.cast("bool (*)(void *)", function()
    asked = asked + 1
    return works
  end)

  -- After some exchange of halos, an exchange of all with all, twice: how often the ranks
  -- are asked after each step, and where the collectives are: nil by messages.
  local function steps(messages_else)
    asked = 0
    local r = new(3, 2, nil, { join = join, messages_else = messages_else })
    local u, where = r:buffer({ 9 }), {}
    local function step(reads)
      r:submit({ range = { 9 }, { u, "discard_write", program.same(1) } })
      local t = r:submit({ range = { 7 }, { u, "read", reads } })
      local x, sent = exchange(r, 0, t), #r:messages(1, "push", t)
      where[#where + 1] = ("%d %s"):format(asked, x and (x.devices > 0 and "devices" or "hosts")
        or sent > 0 and "messages" or "nothing")
    end
    step({ { program.span(0, 0, 2) } })
    step(program.all(1))
    step(program.all(1))
    return where
  end

  it("are asked for once, by the first", function()
    works = true
    assert.same({ "0 messages", "3 devices", "3 devices" }, steps(false))
  end)

  it("leave all to host memory, or to messages, where they do not start", function()
    works = false
    assert.same({ "0 messages", "3 hosts", "3 hosts" }, steps(false))
    assert.same({ "0 messages", "3 messages", "3 messages" }, steps(true))
  end)

  it("are asked for by an all-reduce, which host memory does else", function()
    for _, start in ipairs({ true, false }) do
      asked, works = 0, start
      local r = new(3, 2, nil, { join = join, messages_else = true })
      local u = r:buffer({ 2 })
      r:submit({ range = { 9 }, { u, "discard_write",
        reducer = r.program:reducer(0, { "MAX", "u" }) } })
      r:submit({ range = { 9 }, { u, "read", program.all(1) } })
      local x = r:of(0, "collective")[1].raw.exchange
      assert.equal(start and 2 or 0, x.devices)
      assert.equal(3, asked)
    end
  end)
end)
