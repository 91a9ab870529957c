-- Allocations: growth, lookahead.
local machine = require("spec.instr.machine")
local program = require("spec.task.program")
jit.off(true, true)

local same, span, whole = program.same, program.span, program.whole

-- A 2-D stencil along both axes, swapped buffers.
local function wave_sim(m, n, steps)
  local u, up = m:buffer({ n, n }, { name = "u" }), m:buffer({ n, n }, { name = "up" })
  for _, b in ipairs({ u, up }) do
    m:submit({ range = { n, n }, { b, "discard_write", same(2) } })
  end
  for _ = 1, steps do
    m:submit({
      range = { n, n }, { up, "read_write", same(2) },
      { u, "read", program.cross, { clamp = true } },
    })
    u, up = up, u
  end
end

-- Step t reads rows [0, t) and writes row t.
local function rsim(m, n, steps)
  local rad = m:buffer({ steps, n }, { name = "rad" })
  local row = { { { { "param", 0 }, { "+", { "param", 0 }, 1 } }, span(0) } }
  local rows = { { { 0, { "param", 0 } }, whole(1) } }
  for t = 0, steps - 1 do
    m:submit({
      range = { n }, { rad, "discard_write", row, { params = { t } } },
      { rad, "read", rows, { params = { t } } },
    })
  end
end

describe("allocations", function()
  local m = machine.each()

  -- Elements that were moved from one allocation to another of one memory.
  local function moved()
    local cells = 0
    for _, copy in ipairs(m:of("copy")) do
      if copy.from.memory == copy.to.memory then cells = cells + copy.volume end
    end
    return cells
  end

  local function column(b, j)
    return m:submit({ range = { 8 }, { b, "read_write", { { span(0), { j, j + 1 } } } } })
  end

  it("have room for what the buffer reserves, where they meet it", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 8, 50 }, { reserve = { min = { 2, 10, 0 }, max = { 4, 30, 1 } } })
    for j = 12, 29 do column(b, j) end
    assert.equal(1, #m:of("alloc"))
    assert.equal("0:8 10:30 0:1", m:of("alloc")[1].at.layout)
    column(b, 40) -- elsewhere: what is touched
    assert.equal("0:8 40:41 0:1", m:of("alloc")[2].at.layout)
    m:submit({ range = { 8 }, { b, "read_write", { { span(0), { 28, 32 } } } } }) -- and beyond
    assert.equal("0:8 10:32 0:1", m:of("alloc")[3].at.layout)
  end)

  it("cover what is touched, with room along dimension 0", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 100, 50 })
    m:submit({ range = { 4 }, { b, "discard_write", { { span(0, 20), { 10, 12 } } } } })
    local a = m:of("alloc")[1].at
    assert.equal("0:100 10:12 0:1", a.layout)
    assert.equal(100 * 2 * 8, a.reserve)
    m:submit({ range = { 90 }, { b, "discard_write", { { span(0), { 11, 12 } } } } })
    assert.equal(1, #m:of("alloc"))
  end)

  it("of different columns are different", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 8, 8 })
    for j = 0, 7 do column(b, j) end
    assert.same({ 8, 0 }, { #m:of("alloc"), #m:of("free") })
  end)

  it("grow by moving what is still current, no more", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 8, 8 })
    column(b, 2)
    m:submit({ range = { 8 }, kind = "host", { b, "write", { { span(0), { 2, 3 } } } } })
    column(b, 4)
    local t = m:submit({ range = { 8 }, { b, "read", { { span(0), { 2, 5 } } } } })
    -- Column 2 is current in the host alone, column 4 on the device.
    assert.same({ 2, 8 }, { #m:of("free", t), moved() })
    local fetched = 0
    for _, copy in ipairs(m:of("copy", t)) do
      if copy.from.memory == 0 then fetched = fetched + copy.volume end
    end
    assert.equal(8, fetched)
  end)

  it("do not move what is about to be overwritten", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 8, 8 })
    column(b, 2)
    m:submit({ range = { 8, 8 }, { b, "discard_write", same(2) } })
    assert.same({ 0, 1 }, { moved(), #m:of("free") })
    m:open({ devices = { 1 } })
    b = m:buffer({ 8, 8 })
    column(b, 2)
    m:submit({ range = { 8, 8 }, { b, "write", same(2) } })
    assert.equal(8, moved())
  end)

  it("give the old one back after it was read", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 8, 8 })
    local first = column(b, 2)
    m:submit({ range = { 8, 8 }, { b, "write", same(2) } })
    local free = m:of("free")[1]
    assert.is_true(m:reaches(free, m:of("copy")[1]))
    assert.is_true(m:reaches(free, m:of("kernel", first)[1]))
  end)

  -- Turns that make two buffers of 512 bytes each, compute, and free them.
  local function turns(config, n)
    m:open(config)
    for _ = 1, n do
      local a, b = m:buffer({ 64 }), m:buffer({ 64 })
      m:fill(a, { 64 })
      m:submit({ range = { 64 }, { a, "read", same(1) }, { b, "discard_write", same(1) } })
      m:free(a)
      m:free(b)
    end
    m:epoch()
  end

  -- Allocations but those that come after a FREE of as much, each one's own: so
  -- many there are at once at most, in whatever order they are carried out.
  local function apart()
    local frees, n = {}, 0
    for _, free in ipairs(m:of("free")) do frees[free.id] = free.at.reserve end
    for _, alloc in ipairs(m:of("alloc")) do
      local from
      for id in pairs(alloc.deps) do
        if frees[id] == alloc.at.reserve then from = math.min(from or id, id) end
      end
      frees[from or 0] = nil
      n = n + (from and 0 or 1)
    end
    return n
  end

  it("of buffers that end serve others, before many more are made", function()
    local ways = { {}, { step = 4 }, { lookahead = true }, { devices = { 1 }, grain = 64 } }
    for _, how in ipairs(ways) do
      how.freed_bytes = 1024
      turns(how, 20)
      assert.same({ 40, 4 }, { #m:of("alloc"), apart() })
    end
    turns({ freed_bytes = 64 * 1024 }, 20)
    assert.equal(40, apart())
  end)

  for _, devices in ipairs({ { 0 }, { 1 }, { 1, 2 }, { 1, 2, 3, 4 } }) do
    for _, lookahead in ipairs({ false, true }) do
      local how = ("on %d devices%s"):format(#devices, lookahead and ", looking ahead" or "")
      it("never move wave_sim " .. how, function()
        m:open({ devices = devices, lookahead = lookahead, step = 4 })
        wave_sim(m, 64, 30)
        m:epoch()
        assert.same({ 2 * #devices, 0 }, { #m:of("alloc"), moved() })
        assert.equal(0, #m:of("free"))
      end)
    end
    it(("never move rsim on %d devices, looking ahead"):format(#devices), function()
      m:open({ devices = devices, lookahead = true, step = 4 })
      rsim(m, 64, 60)
      m:epoch()
      assert.same({ #devices, 0 }, { #m:of("alloc"), moved() })
    end)
  end

  it("grow once for rsim without looking ahead, before there is much", function()
    m:open({ devices = { 1, 2 }, step = 4 })
    rsim(m, 64, 60)
    m:epoch()
    assert.is_true(#m:of("alloc") <= 4)
    assert.is_true(moved() <= 64)
  end)
end)

describe("the lookahead", function()
  local m = machine.each()
  before_each(function() m:open({ devices = { 1 }, lookahead = true, step = 1 }) end)

  local function touch(b, lo, hi, mode)
    return m:submit({ range = { 8 }, { b, mode or "read_write", { { span(0), { lo, hi } } } } })
  end

  it("allocates once for all that it sees", function()
    local b = m:buffer({ 8, 64 }, { init = true })
    touch(b, 8, 10)
    assert.equal(0, #m:of("kernel"))
    touch(b, 9, 14)
    touch(b, 12, 20)
    touch(b, 40, 44)
    m:flush()
    assert.equal(4, #m:of("kernel"))
    local layouts = {}
    for _, a in ipairs(m:of("alloc")) do
      if a.at.memory == 1 then layouts[#layouts + 1] = a.at.layout end
    end
    assert.same({ "0:8 8:20 0:1", "0:8 40:44 0:1" }, layouts)
    assert.equal(0, #m:of("free"))
  end)

  it("lets through at once what allocates nothing", function()
    local b = m:buffer({ 8, 64 })
    touch(b, 0, 8)
    m:flush()
    local t = touch(b, 2, 4)
    assert.equal(1, #m:of("kernel", t))
  end)

  it("keeps the order of what it holds back", function()
    local b, other = m:buffer({ 8, 64 }), m:buffer({ 8, 64 })
    touch(b, 0, 8)
    m:flush()
    touch(other, 0, 4)
    local t = touch(b, 2, 4) -- allocates nothing, but comes later
    assert.equal(0, #m:of("kernel", t))
    m:epoch()
    assert.equal(1, #m:of("kernel", t))
    assert.equal("epoch", m.instrs[#m.instrs].kind)
  end)

  it("ends when two laps passed without news", function()
    local b = m:buffer({ 8, 64 })
    touch(b, 0, 8)
    touch(b, 0, 16)
    assert.equal(0, #m:of("kernel"))
    touch(b, 0, 16)
    assert.equal(3, #m:of("kernel"))
    assert.equal(1, #m:of("alloc"))
  end)

  it("ends some day, whatever comes", function()
    local b = m:buffer({ 8, 64 })
    for i = 1, 12 do touch(b, 0, i + 1) end
    assert.is_true(#m:of("horizon") >= 4)
  end)

  it("waits for no horizon", function()
    m:open({ devices = { 1 }, lookahead = true, step = 1000 })
    local b = m:buffer({ 8, 64 })
    for i = 1, 8 do touch(b, 0, i < 4 and 8 * i or 32) end
    assert.equal(0, #m:of("kernel"))
    touch(b, 0, 32) -- the third lap
    assert.equal(9, #m:of("kernel"))
    assert.equal(0, #m:of("horizon"))
    m:open({ devices = { 1 }, lookahead = true, step = 1000 })
    b = m:buffer({ 8, 64 })
    for i = 1, 16 do touch(b, 0, i) end
    assert.equal(0, #m:of("kernel"))
    touch(b, 0, 17) -- the fifth, with news in each
    assert.equal(16, #m:of("kernel"))
  end)
end)
