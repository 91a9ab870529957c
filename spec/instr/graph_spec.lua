-- The instruction graph: messages, order, bounds.
local ffi = require("ffi")
local machine = require("spec.instr.machine")
local program = require("spec.task.program")
jit.off(true, true)

local same, all, grown = program.same, program.all, program.grown

describe("the instruction graph", function()
  local m = machine.each()

  it("begins with the epoch, on which depends what depends on nothing", function()
    m:open()
    assert.equal("epoch", m.instrs[1].kind)
    m:fill(m:buffer({ 8 }), { 8 })
    assert.same({ [1] = "order" }, m:of("alloc")[1].deps)
  end)

  describe("order", function()
    it("has all copies of a task before its first launch", function()
      m:open({ devices = { 1, 2, 3, 4 } })
      local u, v = m:buffer({ 64 }), m:buffer({ 64 })
      m:fill(u, { 64 })
      for _ = 1, 4 do
        local t = m:submit({
          range = { 64 }, { u, "read", grown(1), { clamp = true } },
          { v, "discard_write", same(1) },
        })
        u, v = v, u
        local kernels, copies = m:of("kernel", t), m:of("copy", t)
        assert.same({ 4, 6 }, { #kernels, #copies })
        for _, copy in ipairs(copies) do
          assert.is_true(copy.id < kernels[1].id)
        end
      end
    end)

    it("lets devices work at the same time", function()
      m:open({ devices = { 1, 2 } })
      local b = m:buffer({ 8 })
      local kernels = m:of("kernel", m:fill(b, { 8 }))
      assert.equal(2, #kernels)
      assert.same({ "0:4 0:1 0:1", "4:8 0:1 0:1" },
        { kernels[1].chunk, kernels[2].chunk })
      assert.is_true(m:concurrent(kernels[1], kernels[2]))
    end)

    it("cuts over devices at the granularity, or not at all", function()
      m:open({ devices = { 1, 2 } })
      local b = m:buffer({ 10 })
      local t = m:submit({
        range = { 10 }, granularity = { 4 }, { b, "discard_write", same(1) },
      })
      assert.equal("0:8 0:1 0:1", m:of("kernel", t)[1].chunk)
      t = m:submit({ range = { 10 }, cut = {}, { b, "discard_write", same(1) } })
      assert.same({ "0:10 0:1 0:1", 0 },
        { m:of("kernel", t)[1].chunk, m:of("kernel", t)[1].device })
      assert.equal(1, #m:of("kernel", t))
    end)

    it("overwrites only after what is being copied away", function()
      m:open({ devices = { 1 } })
      local b = m:buffer({ 8 })
      m:fill(b, { 8 })
      local look = m:submit({ range = { 8 }, { b, "read", same(1) }, kind = "host" })
      local over = m:of("kernel", m:fill(b, { 8 }))[1]
      assert.is_true(m:reaches(over, m:of("copy", look)[1]))
      assert.is_false(m:reaches(over, m:of("host", look)[1])) -- has a copy
    end)

    it("lets readers be", function()
      m:open({ devices = { 0 } })
      local b = m:buffer({ 8 }, { init = true })
      local look = { range = { 8 }, { b, "read", same(1) } }
      local x, y = m:submit(look), m:submit(look)
      assert.is_true(m:concurrent(m:of("kernel", x)[1], m:of("kernel", y)[1]))
    end)
  end)

  describe("messages", function()
    it("send from the host what a device wrote", function()
      m:open({ devices = { 1 } })
      local b = m:buffer({ 8, 4 })
      local t = m:fill(b, { 8, 4 })
      m:message("push", { b, { 7, 0 }, { 8, 4 } })
      local send, copy = m:of("send")[1], m:of("copy")[1]
      assert.equal("7:8 0:4 0:1", copy.box)
      assert.same({ 1, 32 }, { send.peer, send.bytes })
      assert.equal(0, send.pieces[1].at.memory)
      assert.is_true(m:reaches(send, copy))
      assert.is_true(m:reaches(copy, m:of("kernel", t)[1]))
      assert.is_true(copy.priority > m:of("kernel", t)[1].priority)
      -- The next kernel may begin while the message is under way.
      local over = m:of("kernel", m:fill(b, { 8, 4 }))[1]
      assert.is_true(m:concurrent(over, send))
      assert.is_true(m:reaches(over, copy))
    end)

    it("receive into the host, from where it is copied", function()
      m:open({ devices = { 1 } })
      local b = m:buffer({ 8, 4 }, { init = true })
      m:message("await_push", { b, { 3, 0 }, { 4, 4 } }, { b, { 6, 0 }, { 7, 4 } })
      local receive = m:of("receive")[1]
      assert.equal(2, #receive.pieces)
      local t = m:submit({
        range = { 8, 4 }, { b, "read", same(2) },
      })
      for _, init in ipairs(m:of("init", t)) do
        assert.not_equal("3:4 0:4 0:1", init.box)
      end
      local cells = 0
      for _, init in ipairs(m:of("init", t)) do cells = cells + init.volume end
      assert.equal(6 * 4, cells)
      assert.is_true(m:reaches(m:of("kernel", t)[1], receive))
    end)

    -- Each step reads all rows before it, of which others sent a column each.
    it("of many ranks that bring parts of a box for a task are one receive", function()
      m:open()
      local b = m:buffer({ 8, 40 })
      local function step(row, columns)
        local lists = {}
        for column = 1, columns do
          lists[column] = { { b, { row, column }, { row + 1, column + 1 } } }
        end
        m:many_messages("await_push", lists)
        return m:submit({ range = { 1 },
          { b, "read", { { { 0, row + 1 }, { 1, columns + 1 } } } },
          { b, "discard_write", { { { row + 1, row + 2 }, { 0, 1 } } } } })
      end
      m:submit({ range = { 1 }, { b, "discard_write", { { { 7, 8 }, { 0, 40 } } } } })
      local first = step(0, 39)
      local receives = m:of("receive")
      assert.equal(1, #receives)
      assert.equal(39, receives[1].messages)
      assert.equal("true", m:of("kernel", first)[1].deps[receives[1].id])
      local second = m:of("kernel", step(1, 39))[1]
      local n = 0
      for _ in pairs(second.deps) do n = n + 1 end
      assert.equal(3, n) -- both receives, and the allocation of what it writes
      step(2, 15) -- too few
      assert.equal(2 + 15, #m:of("receive"))
    end)

    it("start one by one what needs them one by one", function()
      m:open({ devices = { 1 } })
      local b = m:buffer({ 64 })
      m:fill(b, { 64 })
      local lists = {}
      for k = 1, 16 do lists[k] = { { b, { 4 * k - 4 }, { 4 * k - 2 } } } end
      m:many_messages("await_push", lists) -- no two of them make a box
      local t = m:submit { range = { 64 }, { b, "read", program.same(1) } }
      assert.equal(16, #m:of("receive"))
      for i, copy in ipairs(m:of("copy", t)) do
        for k, receive in ipairs(m:of("receive")) do
          assert.equal(i == k, m:reaches(copy, receive))
        end
      end
      assert.equal(16, #m:of("copy", t))
    end)

    it("to many ranks leave after one copy of what is little", function()
      m:open({ devices = { 1 } })
      local b = m:buffer({ 64 })
      m:fill(b, { 64 })
      local lists = {}
      for k = 1, 16 do lists[k] = { { b, { 4 * k - 4 }, { 4 * k } } } end
      m:many_messages("push", lists)
      assert.equal(16, #m:of("send"))
      assert.equal(1, #m:of("copy"))
    end)

    it("lets a halo's receive overlap with what does not need it", function()
      m:open({ devices = { 1, 2 } })
      local b = m:buffer({ 8 })
      m:fill(b, { 8 })
      m:message("await_push", { b, { 0 }, { 1 } })
      local t = m:submit({ range = { 8 }, { b, "read", same(1) } })
      local receive, kernels = m:of("receive")[1], m:of("kernel", t)
      assert.is_true(m:reaches(kernels[1], receive))
      assert.is_false(m:reaches(kernels[2], receive))
    end)

    it("go on to the device part by part, as they come", function()
      m:open({ devices = { 1 }, large_bytes = 128 })
      local b = m:buffer({ 8, 4 })
      m:fill(b, { 8, 4 })
      m:message("await_push", { b, { 0, 0 }, { 4, 4 } })
      m:message("await_push", { b, { 4, 0 }, { 8, 4 } })
      local t = m:submit({ range = { 8, 4 }, { b, "read", same(2) } })
      local receive, copy = m:of("receive"), m:of("copy")
      local kernel = m:of("kernel", t)[1]
      assert.equal(2, #copy)
      for i = 1, 2 do
        assert.is_true(m:reaches(copy[i], receive[i]))
        assert.is_false(m:reaches(copy[i], receive[3 - i]))
        assert.is_true(m:reaches(kernel, copy[i]))
      end
    end)

    it("stay in device memory where both ranks reach it", function()
      m:open({ devices = { 1 }, near = { 1, 5 }, direct_bytes = 32 })
      local b = m:buffer({ 8, 4 })
      local t = m:fill(b, { 8, 4 })
      m:message("push", { b, { 7, 0 }, { 8, 4 } })
      m:message("push", { b, { 7, 0 }, { 8, 3 } })
      m:message("push", { b, { 0, 0 }, { 2, 4 } })
      m:message("await_push", { b, { 3, 0 }, { 4, 4 } })
      local send = m:of("send")
      assert.same({ true, false, true }, { send[1].direct, send[2].direct, send[3].direct })
      assert.same({ 0, 0, 1 }, { send[1].nth, send[2].nth, send[3].nth })
      assert.same({ 0, 1, 2 }, { send[1].sequence, send[2].sequence, send[3].sequence })
      assert.equal(1, send[1].pieces[1].at.memory)
      assert.equal(0, send[2].pieces[1].at.memory)
      assert.equal(1, #m:of("copy"))
      assert.is_true(m:reaches(send[1], m:of("kernel", t)[1]))
      assert.equal(1, m:of("receive")[1].pieces[1].at.memory)
    end)

    it("stay there between ranks that are not near, if they are long", function()
      m:open({ devices = { 1 }, near = { 2 }, far_bytes = 64, ranks = 3 })
      local b = m:buffer({ 8, 4 })
      m:fill(b, { 8, 4 })
      m:message("push", { b, { 0, 0 }, { 2, 4 } })
      m:message("push", { b, { 0, 0 }, { 1, 4 } })
      m:many_messages("push", { { { b, { 2, 0 }, { 4, 4 } } }, { { b, { 0, 0 }, { 1, 4 } } } })
      local send = m:of("send")
      local direct, far, nth = {}, {}, {}
      for i, s in ipairs(send) do direct[i], far[i], nth[i] = s.direct, s.far, s.nth end
      assert.same({ true, false, true, true }, direct)
      assert.same({ true, false, true, false }, far)
      assert.same({ 0, 0, 1, 0 }, nth)
      assert.equal(0, send[2].pieces[1].at.memory)
      assert.equal(1, send[3].pieces[1].at.memory)
    end)

    it("go by the host for host tasks, several devices, ranks that are not near", function()
      for _, config in ipairs({
        { devices = { 1, 2 }, near = { 1 } }, { devices = { 0 }, near = { 1 } },
        { devices = { 1 }, near = { 0, 2 } },
        { devices = { 1, 2 }, far_bytes = 1 }, { devices = { 0 }, far_bytes = 1 },
      }) do
        m:open(config)
        m:fill(m:buffer({ 8 }), { 8 })
        m:message("push", { m:buffer({ 8 }), { 0 }, { 8 } })
        assert.is_false(m:of("send")[1].direct)
      end
      m:open({ devices = { 1 }, near = { 1 } })
      m:submit({ kind = "host", range = { 8 }, { m:buffer({ 8 }), "write", same(1) } })
      m:message("push", { m:buffer({ 8 }), { 0 }, { 8 } })
      assert.is_false(m:of("send")[1].direct)
    end)

    it("carry boxes of several buffers", function()
      m:open({ devices = { 1 } })
      local a, b = m:buffer({ 8 }), m:buffer({ 8 }, { size = 4 })
      m:message("await_push", { a, { 0 }, { 2 } }, { b, { 4 }, { 8 } })
      assert.equal(32, m:of("receive")[1].bytes)
      m:message("push", { a, { 0 }, { 2 } }, { b, { 4 }, { 8 } })
      assert.equal(0, #m:of("copy"))
      assert.is_true(m:reaches(m:of("send")[1], m:of("receive")[1]))
    end)
  end)

  it("copies from the device that has the data, to and from the host as well", function()
    m:open({ devices = { 1, 2 } })
    local b = m:buffer({ 8 })
    m:fill(b, { 8 })
    local t = m:submit({ range = { 2 }, { b, "read", all(1) } })
    local copies = m:of("copy", t)
    assert.equal(2, #copies)
    for _, copy in ipairs(copies) do
      assert.equal(copy.from.memory - 1, copy.device)
    end
  end)

  it("serves buffers of no dimensions, on every device", function()
    for _, devices in ipairs({ { 0 }, { 1 }, { 1, 2 } }) do
      m:open({ devices = devices })
      local sum = m:buffer({}, { init = true })
      m:submit({ range = { 1 }, { sum, "read_write", { {} } } })
      local t = m:submit({ range = { 8 }, { sum, "read", { {} } } })
      assert.equal(#devices, #m:of("kernel", t))
      assert.equal(#devices - 1, #m:of("copy", t))
    end
  end)

  it("refuses what two devices both write, proof or no proof", function()
    m:open({ devices = { 1, 2 } })
    local b = m:buffer({ 8 }, { name = "u" })
    local id = m:submit({
      range = { 8 }, placement = "once", kind = "host", line = 7,
      { b, "discard_write", all(1) },
    })
    -- As if the task graph had not been able to decide it.
    local task = ffi.new("cel_task", m.program.tasks[id].raw[0])
    task.kind, task.permitted.cut[0] = ffi.C.CEL_TASK_KERNEL, true
    task.disjoint = false
    local command = m:command("execute", task)
    command.chunk = task.range
    m:add(command)
    assert.matches("'u'", m.failure)
  end)

  it("refuses what two devices both write by different accesses", function()
    m:open({ devices = { 1, 2 } })
    local b, v = m:buffer({ 12 }, { name = "u" }), m:buffer({ 12 }, { name = "v" })
    local function shifted(by) return { { program.span(0, by) } } end
    local function try(...)
      local id = m:submit({ range = { 8 }, placement = "once", kind = "host", ... })
      local task = ffi.new("cel_task", m.program.tasks[id].raw[0])
      task.kind, task.permitted.cut[0] = ffi.C.CEL_TASK_KERNEL, true
      task.disjoint = false
      local command = m:command("execute", task)
      command.chunk, m.failure = task.range, nil
      m:add(command)
      return m.failure
    end
    local text = try({ v, "discard_write", same(1) }, { b, "discard_write", same(1) },
      { b, "discard_write", shifted(4) })
    assert.matches("'u'", text)
    assert.matches("element %(4, 0, 0%)", text)
    -- By one device, or of two buffers, or only read: all fine.
    assert.is_nil(try({ b, "discard_write", same(1) }, { b, "discard_write", same(1) }))
    assert.is_nil(try({ v, "discard_write", same(1) }, { b, "discard_write", shifted(4) }))
    assert.is_nil(try({ b, "read", shifted(4) }, { b, "discard_write", same(1) }))
  end)

  describe("a chunk", function()
    local function chunks(task)
      local list = {}
      for i, r in ipairs(m:of("kernel", task)) do
        list[i] = ("%d %s"):format(r.device, r.chunk)
      end
      return list
    end

    it("is cut over devices in all dimensions that may be", function()
      m:open({ devices = { 1, 2, 3, 4 } })
      local b = m:buffer({ 8, 8 })
      assert.same({ "0 0:4 0:4 0:1", "1 0:4 4:8 0:1", "2 4:8 0:4 0:1", "3 4:8 4:8 0:1" },
        chunks(m:submit({ range = { 8, 8 }, cut = { true, true },
          { b, "discard_write", same(2) } })))
      assert.same({ "0 0:8 0:4 0:1", "1 0:8 4:8 0:1" },
        chunks(m:submit({ range = { 8, 8 }, cut = { false, true },
          granularity = { 1, 4 }, { b, "discard_write", same(2) } })))
    end)

    it("is cut at multiples of the granularity, each device's part by itself", function()
      m:open({ devices = { 1, 2 } })
      local b = m:buffer({ 20 })
      assert.same({ "0 0:4 0:1 0:1", "0 4:8 0:1 0:1", "0 8:12 0:1 0:1",
        "1 12:16 0:1 0:1", "1 16:20 0:1 0:1" },
        chunks(m:submit({ range = { 20 }, oversubscribe = 4, granularity = { 4 },
          { b, "discard_write", same(1) } })))
    end)

    it("is cut by the devices' weights", function()
      m:open({ devices = { 1, 2, 3, 4 } })
      local b = m:buffer({ 20, 20 })
      assert.same({ "0 0:10 0:20 0:1", "2 10:15 0:20 0:1", "3 15:20 0:20 0:1" },
        chunks(m:submit({ range = { 20, 20 }, weights = { devices = { 2, 0, 1, 1 } },
          { b, "discard_write", same(2) } })))
      assert.same({ "0 0:12 0:10 0:1", "1 0:12 10:20 0:1", "2 12:20 0:10 0:1",
        "3 12:20 10:20 0:1" },
        chunks(m:submit({ range = { 20, 20 }, weights = { devices = { 3, 3, 2, 2 } },
          cut = { true, true }, { b, "discard_write", same(2) } })))
    end)

    it("waits, where it is cut into runs, in each for that run's data", function()
      m:open({ devices = { 1 } })
      local b = m:buffer({ 16 })
      m:message("await_push", { b, { 0 }, { 8 } })
      m:message("await_push", { b, { 8 }, { 16 } })
      local t = m:submit({ range = { 16 }, oversubscribe = 2, { b, "read", same(1) } })
      m:message("push", { b, { 0 }, { 8 } })
      local first, second = unpack(m:of("kernel", t))
      local received = m:of("receive")
      assert.is_true(m:reaches(first, received[1]))
      assert.is_false(m:reaches(first, received[2]))
      assert.is_false(m:reaches(second, received[1]))
      assert.is_true(m:concurrent(first, second))
    end)

    it("leaves, where it is cut into runs, what one has done to be sent", function()
      m:open({ devices = { 1 } })
      local b = m:buffer({ 16 })
      local t = m:submit({ range = { 16 }, oversubscribe = 2,
        { b, "discard_write", same(1) } })
      m:message("push", { b, { 0 }, { 8 } })
      local first, second = unpack(m:of("kernel", t))
      assert.is_true(m:reaches(m:of("send")[1], first))
      assert.is_false(m:reaches(m:of("send")[1], second))
    end)

    it("of a host task is cut into runs too, but not what is done once", function()
      m:open({ devices = { 1, 2 } })
      local b = m:buffer({ 6 })
      local function hosts(placement)
        return #m:of("host", m:submit({ range = { 6 }, kind = "host", oversubscribe = 3,
          placement = placement, { b, "discard_write", same(1) } }))
      end
      assert.equal(3, hosts("split"))
      assert.equal(1, hosts("once"))
    end)
  end)

  describe("horizons", function()
    it("bound what an instruction depends on", function()
      m:open({ devices = { 1, 2 }, step = 2 })
      local u, v = m:buffer({ 64 }, { init = true }), m:buffer({ 64 })
      for i = 1, 100 do
        m:submit({
          range = { 64 }, { u, "read", grown(1), { clamp = true } },
          { v, "discard_write", same(1) },
        })
        u, v = v, u
        if i % 30 == 0 then m:epoch() end
      end
      local floor, last = 1, 1
      for _, r in ipairs(m.instrs) do
        for dep in pairs(r.deps) do assert.is_true(dep >= floor and dep < r.id) end
        if r.kind == "horizon" then floor, last = last, r.id end
        if r.kind == "epoch" then floor, last = r.id, r.id end
      end
    end)

    it("synchronise nothing: what comes next depends on what it needs", function()
      m:open({ devices = { 1 }, step = 1 })
      local b = m:buffer({ 8 })
      local before = m:of("kernel", m:fill(b, { 8 }))[1]
      assert.equal(1, #m:of("horizon"))
      local t = m:submit({ range = { 8 }, { b, "read_write", same(1) } })
      assert.same({ [before.id] = "true" }, m:of("kernel", t)[1].deps)
    end)

    it("come after everything before them", function()
      m:open({ devices = { 1, 2 }, step = 2 })
      local u = m:buffer({ 64 }, { init = true })
      for _ = 1, 20 do
        m:submit({ range = { 64 }, { u, "read_write", same(1) } })
        m:fill(m:buffer({ 8 }), { 8 })
      end
      for _, h in ipairs(m:of("horizon")) do
        for id = 1, h.id - 1 do
          assert.is_true(m:reaches(h, m.instrs[id]))
        end
      end
    end)

    it("keep a long run from growing", function()
      m:open({ devices = { 1, 2 }, step = 4, lookahead = true })
      local u, v = m:buffer({ 64, 8 }, { init = true }), m:buffer({ 64, 8 })
      local anchors, settled = #m.program.anchors, nil
      for step = 1, 4000 do
        m:submit({
          range = { 64, 8 }, { u, "read", grown(1, 1), { clamp = true } },
          { v, "discard_write", same(2) },
        })
        u, v = v, u
        if step % 40 == 0 then
          m:retire()
          m.instrs, m.commands, m.program.tasks = {}, {}, {}
          for i = anchors + 1, #m.program.anchors do m.program.anchors[i] = nil end
          settled = settled or step == 400 and m:bytes()
          if settled then assert.is_true(m:bytes() <= settled) end
        end
      end
    end)
  end)

  it("gives memory back after its last user", function()
    m:open({ devices = { 1, 2 } })
    local b = m:buffer({ 8 }, { init = true })
    local reads = m:submit({ range = { 8 }, { b, "read", same(1) } })
    local look = m:submit({ range = { 8 }, { b, "read", all(1) }, kind = "host" })
    m:free(b)
    local frees = m:of("free")
    assert.equal(3, #frees)
    for _, free in ipairs(frees) do
      for _, user in ipairs(m:of("kernel", reads)) do
        if user.views[1].at.id == free.at.id then
          assert.is_true(m:reaches(free, user))
        end
      end
      if free.at.memory == 0 then
        assert.is_true(m:reaches(free, m:of("host", look)[1]))
      end
    end
  end)
end)
