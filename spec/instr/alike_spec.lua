-- What several devices need alike.
local machine = require("spec.instr.machine")
local program = require("spec.task.program")
local same, whole = program.same, program.all

describe("what several devices need alike", function()
  local m = machine.each()
  local function open(config)
    config.large_bytes = config.large_bytes or 8
    m:open(config)
  end

  -- Bytes that copies of a task take from each memory, and how many copies there are.
  local function traffic(task)
    local from, n = {}, 0
    for _, copy in ipairs(m:of("copy", task)) do
      local volume = 1
      for low, high in copy.box:gmatch("(%-?%d+):(%-?%d+)") do volume = volume * (high - low) end
      from[copy.from.memory] = (from[copy.from.memory] or 0) + volume * 8
      n = n + 1
    end
    return from, n
  end

  local function read_all(b)
    return m:submit({ range = { 4 }, { b, "read", whole(1) } })
  end

  it("leaves one device once, in slices that the others hand on", function()
    open({ devices = { 1, 2, 3, 4 }, large_bytes = 256 })
    local b = m:buffer({ 96 })
    m:submit({ range = { 1 }, { b, "discard_write", whole(1) } })
    local from, n = traffic(read_all(b))
    -- A third to each, in two slices, each of which it hands on to two.
    assert.same({ [1] = 768, [2] = 512, [3] = 512, [4] = 512 }, from)
    assert.equal(18, n)
    open({ devices = { 1, 2, 3, 4 } })
    b = m:buffer({ 96 })
    m:submit({ range = { 1 }, { b, "discard_write", whole(1) } })
    from, n = traffic(read_all(b))
    assert.same({ [1] = 768, [2] = 512, [3] = 512, [4] = 512 }, from)
    assert.equal(36, n) -- four slices at most
  end)

  it("is cut in four at most where messages are of a byte", function()
    open({ devices = { 1, 2, 3, 4 }, large_bytes = 1 })
    local b = m:buffer({ 96 })
    m:submit({ range = { 1 }, { b, "discard_write", whole(1) } })
    local _, n = traffic(read_all(b))
    assert.equal(36, n)
  end)

  it("leaves the host once", function()
    open({ devices = { 1, 2, 3, 4 } })
    local b = m:buffer({ 96 }, { init = true })
    local from = traffic(read_all(b))
    assert.equal(768, from[0])
    assert.same({ 576, 576, 576, 576 }, { from[1], from[2], from[3], from[4] })
  end)

  it("is sent by each device itself where each has a part", function()
    open({ devices = { 1, 2, 3, 4 } })
    local b = m:buffer({ 96 })
    m:submit({ range = { 96 }, { b, "discard_write", same(1) } })
    local from, n = traffic(read_all(b))
    assert.same({ 576, 576, 576, 576 }, from)
    assert.equal(12, n)
  end)

  it("leaves each device in turn, to the one before it first, and comes in turn", function()
    open({ devices = { 1, 2, 3, 4 } })
    local b = m:buffer({ 96 })
    m:submit({ range = { 96 }, { b, "discard_write", same(1) } })
    local read, last, order = read_all(b), { from = {}, to = {} }, { from = {}, to = {} }
    for _, copy in ipairs(m:of("copy", read)) do
      for here, there in pairs { from = "to", to = "from" } do
        local memory = copy[here].memory
        local before = last[here][memory]
        order[here][memory] = (order[here][memory] or "") .. copy[there].memory
        assert.is_true(before == nil or m:reaches(copy, before))
        last[here][memory] = copy
      end
    end
    assert.same({ "432", "143", "214", "321" }, order.from)
    assert.same({ "234", "341", "412", "123" }, order.to)
  end)

  it("comes to few devices in as few turns as these need", function()
    open({ devices = { 1, 2, 3, 4 } })
    local b = m:buffer({ 96 })
    m:submit({ range = { 96 }, { b, "discard_write", same(1) } })
    local last, most = { from = {}, to = {} }, 0
    local read = m:submit({ range = { 2 }, { b, "read", whole(1) } })
    for _, copy in ipairs(m:of("copy", read)) do
      local from, to = copy.from.memory, copy.to.memory
      local turn = 1 + math.max(last.from[from] or 0, last.to[to] or 0)
      last.from[from], last.to[to] = turn, turn
      most = math.max(most, turn)
    end
    assert.equal(3, most)
  end)

  it("goes to each in one copy where it is little, or there are two", function()
    open({ devices = { 1, 2, 3, 4 }, large_bytes = 8192 })
    local b = m:buffer({ 96 })
    m:submit({ range = { 1 }, { b, "discard_write", whole(1) } })
    local _, n = traffic(read_all(b))
    assert.equal(3, n)
    open({ devices = { 1, 2 } })
    local other = m:buffer({ 96 })
    m:submit({ range = { 1 }, { other, "discard_write", whole(1) } })
    _, n = traffic(read_all(other))
    assert.equal(1, n)
  end)
end)
