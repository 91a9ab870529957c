-- Which copies bring what an instruction reads to where it reads it.
local machine = require("spec.instr.machine")
local program = require("spec.task.program")
jit.off(true, true)

local same, grown, span = program.same, program.grown, program.span

describe("coherence", function()
  local m = machine.each()

  it("copies nothing where the device shares the host's memory", function()
    m:open({ devices = { 0 } })
    local b = m:buffer({ 8 }, { init = true })
    m:submit({ range = { 8 }, { b, "read_write", same(1) } })
    m:submit({ range = { 8 }, { b, "read", same(1) }, kind = "host" })
    assert.equal(1, #m:of("init"))
    assert.equal(0, #m:of("copy"))
    assert.equal(1, #m:of("alloc"))
  end)

  it("makes initial contents in the host, only what is needed", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 8, 4 }, { init = true })
    assert.equal(0, #m:of("init"))
    local t = m:submit({ range = { 2 }, { b, "read", { { span(0, 3), { 1, 2 } } } } })
    local init, copy, kernel = m:of("init", t), m:of("copy", t), m:of("kernel", t)
    assert.equal("3:5 1:2 0:1", init[1].box)
    assert.equal("3:5 1:2 0:1", copy[1].box)
    assert.same({ 1, 1, 1 }, { #init, #copy, #kernel })
    assert.same({ 0, 1 }, { copy[1].from.memory, copy[1].to.memory })
    assert.equal("true", kernel[1].deps[copy[1].id])
    assert.equal("true", copy[1].deps[init[1].id])
  end)

  it("makes no initial contents for what is written over", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 8 }, { init = true })
    m:fill(b, { 8 })
    m:submit({ range = { 8 }, { b, "read", same(1) }, kind = "host" })
    assert.equal(0, #m:of("init"))
  end)

  it("fetches once, and again after it was written elsewhere", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 8 })
    m:fill(b, { 8 })
    local look = { range = { 8 }, { b, "read", same(1) }, kind = "host" }
    local first, second = m:submit(look), m:submit(look)
    assert.equal(1, #m:of("copy", first))
    assert.equal(0, #m:of("copy", second))
    m:submit({ range = { 4 }, { b, "read_write", same(1) } })
    local third = m:submit(look)
    assert.equal("0:4 0:1 0:1", m:of("copy", third)[1].box)
    assert.equal(1, #m:of("copy", third))
  end)

  it("fetches what a write keeps, and nothing for what it discards", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 8 }, { init = true })
    local keeps = m:submit({ range = { 4 }, { b, "write", same(1) } })
    local discards = m:submit({
      range = { 4 }, { b, "discard_write", { { span(0, 4) } } },
    })
    assert.equal(1, #m:of("copy", keeps))
    assert.equal(0, #m:of("copy", discards))
  end)

  it("copies only the halo between devices, directly", function()
    m:open({ devices = { 1, 2 } })
    local u, v = m:buffer({ 64, 32 }), m:buffer({ 64, 32 })
    m:fill(u, { 64, 32 })
    for _ = 1, 3 do
      local t = m:submit({
        range = { 64, 32 }, { v, "discard_write", same(2) },
        { u, "read", grown(1, 0), { clamp = true } },
      })
      u, v = v, u
      local copies = m:of("copy", t)
      assert.equal(2, #copies)
      assert.same({ "31:32 0:32 0:1", "32:33 0:32 0:1" },
        { copies[2].box, copies[1].box })
      for _, copy in ipairs(copies) do
        assert.equal(3, copy.from.memory + copy.to.memory) -- 1 and 2
      end
    end
    assert.equal(0, #m:of("init"))
  end)

  it("prefers another device to the host", function()
    m:open({ devices = { 1, 2 } })
    local b = m:buffer({ 8 })
    m:submit({ range = { 8 }, cut = {}, { b, "discard_write", same(1) } })
    m:submit({ range = { 8 }, { b, "read", same(1) }, kind = "host" })
    local t = m:submit({ range = { 8 }, { b, "read", same(1) } })
    assert.equal(1, #m:of("copy", t))
    assert.same({ 1, 2 }, { m:of("copy", t)[1].from.memory, m:of("copy", t)[1].to.memory })
  end)

  it("splits a copy where its source changes", function()
    m:open({ devices = { 1, 2 } })
    local b = m:buffer({ 8 })
    m:fill(b, { 8 })
    local t = m:submit({ range = { 8 }, { b, "read", same(1) }, kind = "host" })
    local copies = m:of("copy", t)
    assert.equal(2, #copies)
    assert.is_true(m:concurrent(copies[1], copies[2]))
    local kernels = m:of("kernel")
    for _, copy in ipairs(copies) do
      local writer = copy.from.memory
      assert.is_true(m:reaches(copy, kernels[writer]))
      assert.is_false(m:reaches(copy, kernels[3 - writer]))
    end
  end)

  it("touches nothing for an empty access", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 8 }, { init = true })
    local t = m:submit({ range = { 8 }, { b, "read", { { { 3, 3 } } } } })
    assert.equal(0, #m:of("alloc"))
    assert.is_nil(m:of("kernel", t)[1].views[1].at)
  end)

  it("reads along the axes without the corners", function()
    m:open({ devices = { 1 } })
    local b = m:buffer({ 8, 8 }, { init = true })
    local t = m:submit({
      range = { min = { 2, 2 }, max = { 4, 4 } },
      { b, "read", program.cross, { clamp = true } },
    })
    local cells = 0
    for _, copy in ipairs(m:of("copy", t)) do cells = cells + copy.volume end
    assert.equal(4 + 4 * 2, cells)
    assert.equal("1:5 1:5 0:1", m:of("kernel", t)[1].views[1].box)
  end)
end)
