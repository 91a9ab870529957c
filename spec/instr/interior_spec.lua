-- What of a chunk can start before its neighbours' data have come.
local ffi = require("ffi")
local machine = require("spec.instr.machine")
local program = require("spec.task.program")
jit.off(true, true)

local same, all, grown = program.same, program.all, program.grown

describe("interiors", function()
  local m = machine.each()

  local function stencil(u, v)
    return m:submit({ range = { 64, 8 }, { u, "read", grown(1, 1), { clamp = true } },
      { v, "discard_write", same(2) } })
  end
  local function chunks(task)
    local out = {}
    for i, k in ipairs(m:of("kernel", task)) do out[i] = k.chunk:match("^%S+") end
    return out
  end

  it("start without what lies around them; boundaries wait and go first", function()
    m:open({ devices = { 1, 2 }, interior_bytes = 128 })
    local u, v = m:buffer({ 64, 8 }), m:buffer({ 64, 8 })
    m:fill(u, { 64, 8 })
    local first, second = stencil(u, v), stencil(v, u)
    assert.same({ "0:31", "31:32", "33:64", "32:33" }, chunks(first))
    assert.same({ "0:31", "31:32", "33:64", "32:33" }, chunks(second))
    local kernels, copies = m:of("kernel", second), m:of("copy", second)
    assert.equal(2, #copies)
    for i, inner in ipairs({ true, false, true, false }) do
      local waits = m:reaches(kernels[i], copies[1]) or m:reaches(kernels[i], copies[2])
      assert.equal(not inner, waits)
      assert.is_true(kernels[inner and i + 1 or i].priority
        > kernels[inner and i or i - 1].priority)
    end
    -- What the other device needs comes of a boundary alone.
    for _, copy in ipairs(copies) do
      for i, k in ipairs(m:of("kernel", first)) do
        if i % 2 == 1 then assert.is_falsy(copy.deps[k.id]) end
      end
    end
  end)

  it("are not made of what is small, lacks nothing or everything, or is not to be cut", function()
    m:open({ devices = { 1, 2 }, interior_bytes = 249 * 16 })
    local u, v = m:buffer({ 64, 8 }), m:buffer({ 64, 8 })
    m:fill(u, { 64, 8 })
    assert.same({ "0:32", "32:64" }, chunks(stencil(u, v)))
    m:open({ devices = { 1, 2 }, interior_bytes = 16 })
    u, v = m:buffer({ 64, 8 }), m:buffer({ 64, 8 })
    m:fill(u, { 64, 8 })
    local every = m:submit({ range = { 64, 8 }, { u, "read", all(2) },
      { v, "discard_write", same(2) } })
    assert.same({ "0:32", "32:64" }, chunks(every))
    assert.same({ "0:32", "32:64" }, chunks(stencil(u, v)))
  end)

  it("do not wait for what a message brings straight into a device", function()
    m:open({ devices = { 1 }, near = { 1 }, interior_bytes = 128 })
    local u, v = m:buffer({ 64, 8 }), m:buffer({ 64, 8 })
    m:fill(u, { 64, 8 })
    m:message("await_push", { u, { 0, 0 }, { 1, 8 } })
    m.chunk = ffi.new("cel_box", { { 1, 0, 0 }, { 64, 8, 1 } })
    local kernels, receive = m:of("kernel", stencil(u, v)), m:of("receive")[1]
    assert.is_true(receive.direct)
    assert.equal("2:64", kernels[1].chunk:match("^%S+"))
    assert.equal("1:2", kernels[2].chunk:match("^%S+"))
    assert.is_false(m:reaches(kernels[1], receive))
    assert.is_true(m:reaches(kernels[2], receive))
  end)

  it("do not wait for it where kernels work in host memory either", function()
    m:open({ devices = { 0 }, interior_bytes = 128 })
    local u, v = m:buffer({ 64, 8 }), m:buffer({ 64, 8 })
    m:fill(u, { 64, 8 })
    m:message("await_push", { u, { 0, 0 }, { 1, 8 } })
    m.chunk = ffi.new("cel_box", { { 1, 0, 0 }, { 64, 8, 1 } })
    local kernels, receive = m:of("kernel", stencil(u, v)), m:of("receive")[1]
    assert.is_false(receive.direct)
    assert.equal("2:64", kernels[1].chunk:match("^%S+"))
    assert.equal("1:2", kernels[2].chunk:match("^%S+"))
    assert.is_false(m:reaches(kernels[1], receive))
    assert.is_true(m:reaches(kernels[2], receive))
  end)

  it("have a rim on all sides where all may be cut", function()
    m:open({ devices = { 1, 2, 3, 4 }, interior_bytes = 128 })
    local u, v = m:buffer({ 32, 32 }), m:buffer({ 32, 32 })
    local function step(from, to)
      return m:submit({ range = { 32, 32 }, cut = { true, true },
        { to, "discard_write", same(2) },
        { from, "read", grown(1, 1), { clamp = true } } })
    end
    m:fill(u, { 32, 32 })
    for _ = 1, 2 do -- memory that grows is copied
      step(u, v)
      step(v, u)
    end
    local t = step(u, v)
    local list = {}
    for i, k in ipairs(m:of("kernel", t)) do list[i] = k.chunk:match("^%S+ %S+") end
    assert.same({ "0:15 0:15", "15:16 0:16", "0:15 15:16",
      "0:15 17:32", "15:16 16:32", "0:15 16:17",
      "17:32 0:15", "16:17 0:16", "17:32 15:16",
      "17:32 17:32", "16:17 16:32", "17:32 16:17" }, list)
    for i, k in ipairs(m:of("kernel", t)) do
      local waits = false
      for _, copy in ipairs(m:of("copy", t)) do waits = waits or m:reaches(k, copy) end
      assert.equal(i % 3 ~= 1, waits)
    end
  end)

  it("keep to the granularity", function()
    m:open({ devices = { 1, 2 }, interior_bytes = 16 })
    local u, v = m:buffer({ 64, 8 }), m:buffer({ 64, 8 })
    m:fill(u, { 64, 8 })
    local t = m:submit({ range = { 64, 8 }, granularity = { 4 },
      { u, "read", grown(1, 1), { clamp = true } }, { v, "discard_write", same(2) } })
    assert.same({ "0:28", "28:32", "36:64", "32:36" }, chunks(t))
  end)
end)
