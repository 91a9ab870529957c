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
  -- Cut along both dimensions.
  local function step(u, v)
    return m:submit({ range = { 32, 32 }, cut = { true, true }, { v, "discard_write", same(2) },
      { u, "read", grown(1, 1), { clamp = true } } })
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

  -- The pieces of a run have an allocation each; together they lack one box.
  it("have their initial contents where each of them lies", function()
    m:open({ devices = { 0 }, interior_bytes = -1 })
    local u = m:buffer({ 8, 16 }, { init = true })
    local t = m:submit({ range = { 8, 16 }, cut = { false, true }, { u, "read_write", same(2) } })
    local kernels, inits = m:of("kernel", t), m:of("init", t)
    assert.same({ 3, 3, 0 }, { #kernels, #inits, #m:of("free") })
    for _, k in ipairs(kernels) do
      local from = 0
      for _, init in ipairs(inits) do
        if init.to.id == k.views[1].at.id and k.deps[init.id] then from = from + init.volume end
      end
      assert.equal(k.views[1].at.reserve, from * 8)
    end
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

  it("lie between the ends of a periodic buffer, too", function()
    local span, whole = program.span, program.whole
    local around = { { span(0, -1, 1), whole(1) }, { span(0, 63, 65), whole(1) },
      { span(0, -65, -63), whole(1) } }
    m:open({ devices = { 1, 2 }, interior_bytes = 128 })
    local u, v = m:buffer({ 64, 8 }), m:buffer({ 64, 8 })
    local function ring(from, to)
      return m:submit({ range = { 64, 8 }, { from, "read", around, { clamp = true } },
        { to, "discard_write", same(2) } })
    end
    m:fill(u, { 64, 8 })
    ring(u, v)
    local t = ring(v, u)
    assert.same({ "1:31", "0:1", "31:32", "33:63", "32:33", "63:64" }, chunks(t))
    local kernels, copies = m:of("kernel", t), m:of("copy", t)
    for i, k in ipairs(kernels) do
      local waits = false
      for _, copy in ipairs(copies) do waits = waits or m:reaches(k, copy) end
      assert.equal(i % 3 ~= 1, waits)
    end
  end)

  it("share a halo, which comes as a box from each neighbour, not from a copy", function()
    for _, bytes in ipairs { 128, 0 } do -- in pieces, and whole
      m:open({ devices = { 1, 2, 3, 4 }, interior_bytes = bytes })
      local u, v = m:buffer({ 32, 32 }), m:buffer({ 32, 32 })
      m:fill(u, { 32, 32 })
      for _ = 1, 2 do
        step(u, v)
        step(v, u)
      end
      local t, list = step(u, v), {}
      local copies = m:of("copy", t)
      for i, copy in ipairs(copies) do
        list[i] = ("%d > %d: %s"):format(copy.from.memory, copy.to.memory,
          copy.box:match("^%S+ %S+"))
        for k = 1, i - 1 do assert.is_false(m:reaches(copy, copies[k])) end
      end
      table.sort(list)
      assert.same({
        "1 > 2: 0:16 15:16", "1 > 3: 15:16 0:16", "1 > 4: 15:16 15:16",
        "2 > 1: 0:16 16:17", "2 > 3: 15:16 16:17", "2 > 4: 15:16 16:32",
        "3 > 1: 16:17 0:16", "3 > 2: 16:17 15:16", "3 > 4: 16:32 15:16",
        "4 > 1: 16:17 16:17", "4 > 2: 16:17 16:32", "4 > 3: 16:32 16:17",
      }, list)
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
