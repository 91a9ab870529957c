-- Room: memories with a capacity, and what goes when they are full.
local machine = require("spec.instr.machine")
local program = require("spec.task.program")
jit.off(true, true)

local same, whole = program.same, program.whole
local everything = { { whole(0) } }

describe("room", function()
  local m = machine.each()
  local function open(config)
    config.devices = config.devices or { 1 }
    m:open(config)
  end

  -- A kernel that keeps to one chunk.
  local function touch(b, mode)
    return m:submit({
      range = { 1 }, placement = "once", name = "touch", { b, mode or "read_write", everything },
    })
  end

  local function line(n, name, init)
    return m:buffer({ n }, { name = name, init = init })
  end

  local function boxes(list)
    local text = {}
    for i, r in ipairs(list) do
      text[i] = ("%d: %s %d>%d"):format(r.from.buffer, r.box, r.from.memory, r.to.memory)
    end
    return text
  end

  it("is made by what was not used for longest", function()
    open({ grain = 64, capacity = 1024 })
    local a, b, c = line(64, "a"), line(64, "b"), line(64, "c") -- 512 bytes each
    touch(a, "discard_write")
    touch(b, "discard_write")
    touch(a)
    local t = touch(c, "discard_write")
    assert.same({ ("%d: 0:64 0:1 0:1 1>0"):format(b.id) }, boxes(m:of("copy", t)))
    local gone, comes = m:of("decommit", t)[1], m:of("commit", t)
    assert.same({ b.id, 0, 512 }, { gone.at.buffer, gone.first, gone.last })
    assert.is_true(m:reaches(gone, m:of("copy", t)[1]))
    assert.is_true(m:reaches(comes[#comes], gone))
    -- It comes back when it is needed, and then a has to go.
    local back = touch(b)
    assert.same({
      ("%d: 0:64 0:1 0:1 1>0"):format(a.id), ("%d: 0:64 0:1 0:1 0>1"):format(b.id),
    }, boxes(m:of("copy", back)))
  end)

  it("is made only as far as it is needed, from the end", function()
    open({ grain = 64, capacity = 1024 })
    local a, b = line(128, "a"), line(24, "b")
    touch(a, "discard_write")
    local t = touch(b, "discard_write") -- 192 bytes
    assert.same({ ("%d: 104:128 0:1 0:1 1>0"):format(a.id) }, boxes(m:of("copy", t)))
    assert.equal(832, m:of("decommit", t)[1].first)
  end)

  it("costs no copy where the host has it too", function()
    open({ grain = 64, capacity = 1024 })
    local a, b, c = line(64, "a", true), line(64, "b"), line(64, "c")
    touch(a, "read")
    touch(b, "discard_write")
    local t = touch(c, "discard_write")
    assert.same({ 0, 1 }, { #m:of("copy", t), #m:of("decommit", t) })
    -- What nobody wrote is not copied either.
    open({ grain = 64, capacity = 1024 })
    a, b, c = line(64, "a"), line(64, "b"), line(64, "c")
    touch(a, "discard_write")
    m:submit({ range = { 64 }, kind = "host", { a, "discard_write", same(1) } })
    touch(b, "discard_write")
    t = touch(c, "discard_write")
    assert.same({ 0, 1 }, { #m:of("copy", t), #m:of("decommit", t) })
  end)

  -- What is allocated for the second access takes the place of what the first one
  -- has, and is later spilled with what both used.
  it("is had by both accesses of a task that moves what it uses", function()
    open({ capacity = 400 })
    local b = m:buffer({ 5, 10 }, { name = "b", init = true })
    local function rows(from, to)
      return { min = { from[1], from[2], 0 }, max = { to[1], to[2], 1 } }
    end
    m:submit({ range = rows({ 0, 2 }, { 4, 10 }), { b, "read_write", same(2) } })
    m:submit({ range = rows({ 0, 3 }, { 2, 10 }), { b, "read_write", same(2) },
      { b, "read", { { { 1, 3 }, { 1, 4 } } } } })
    local t = m:submit({ range = rows({ 1, 0 }, { 5, 2 }), { b, "discard_write", same(2) } })
    assert.same({ ("%d: 0:2 3:10 0:1 1>0"):format(b.id) }, boxes(m:of("copy", t)))
  end)

  -- The last box meets neither of the others, but what these need together.
  it("is had by boxes that share an allocation only by way of others", function()
    open({ capacity = 1024 })
    local b = m:buffer({ 8, 5, 4 }, { name = "b", reserve = { 8, 5, 4 } })
    local t = m:submit({
      range = { 1 }, placement = "once",
      { b, "discard_write", { { { 6, 7 }, { 0, 5 }, { 1, 3 } } } },
      { b, "discard_write", { { { 2, 3 }, { 3, 4 }, { 2, 4 } } } },
      { b, "discard_write", { { { 5, 6 }, { 0, 1 }, { 3, 4 } } } },
    })
    assert.is_nil(m.failure)
    for _, view in ipairs(m:of("kernel", t)[1].views) do
      assert.equal("0:8 0:5 1:4", view.at.layout)
    end
  end)

  it("is had again when a buffer has been freed", function()
    open({ grain = 64, capacity = 1024 })
    local a = line(128, "a")
    touch(a, "discard_write")
    m:free(a)
    local b = line(128, "b")
    local t = touch(b, "discard_write")
    assert.same({ 0, 1 }, { #m:of("decommit"), #m:of("free") })
    assert.is_true(m:reaches(m:of("commit", t)[1], m:of("free")[1]))
    assert.same({}, m.warnings)
  end)

  it("of allocations that are whole is had by freeing them", function()
    open({ grain = 64, whole = 1000, capacity = 1024 })
    local a, b = line(100, "a"), line(100, "b")
    touch(a, "discard_write")
    touch(b, "discard_write")
    assert.same({ 0, 0, 1, 1 }, {
      #m:of("commit"), #m:of("decommit"), #m:of("free"), #m:of("copy"),
    })
    assert.equal(a.id, m:of("free")[1].at.buffer)
    assert.is_true(m:reaches(m:of("alloc")[3], m:of("free")[1]))
  end)

  it("that was given away is warned of once", function()
    open({ grain = 64, capacity = 1024 })
    local list = {}
    for i = 1, 4 do list[i] = line(64, "u" .. i) end
    for _ = 1, 2 do
      for _, b in ipairs(list) do touch(b, "write") end
    end
    assert.equal(1, #m.warnings)
    assert.matches("memory of device 0 is full %(1.0 KiB%): 512 bytes of buffer u1 go",
      m.warnings[1])
  end)

  it("for one command that is not there is a failure", function()
    open({ grain = 64, capacity = 1024 })
    local a, b = line(64, "a"), line(100, "b")
    touch(a)
    assert.is_nil(m.failure)
    m:submit({
      range = { 1 }, placement = "once", name = "both", { a, "read", everything },
      { b, "discard_write", everything },
    })
    assert.matches("out of memory on device 0: task 'both' needs 1.3 KiB there at once, "
      .. "a %(512 bytes%), b %(832 bytes%), and this rank has 1.0 KiB of it", m.failure)
  end)

  it("is not taken from what messages of the same task hold", function()
    open({ grain = 64, capacity = 1024, near = { 1 } })
    local a, b, c = line(64, "a"), line(64, "b"), line(64, "c")
    touch(a, "discard_write")
    touch(b, "discard_write")
    m:message("push", { b, { 0 }, { 64 } })
    m:message("await_push", { c, { 0 }, { 64 } })
    assert.is_nil(m.failure)
    assert.equal(a.id, m:of("decommit")[1].at.buffer)
    m:message("await_push", { a, { 0 }, { 64 } })
    assert.matches("a message for task 'touch' needs 512 bytes", m.failure)
  end)

  it("that messages of the same task held is not waited for", function()
    open({ grain = 64, capacity = 1024, near = { 1 } })
    local b = m:buffer({ 8, 16 }, { name = "b" }) -- 64 bytes a column
    touch(line(32, "a"), "discard_write")
    m:submit({
      range = { 1 }, placement = "once", { b, "discard_write", { { whole(0), { 0, 4 } } } },
    })
    m:message("push", { b, { 0, 0 }, { 8, 4 } })
    m:message("await_push", { b, { 0, 2 }, { 8, 12 } })
    assert.is_nil(m.failure)
    local send, receive = m:of("send")[1], m:of("receive")[1]
    assert.is_true(m:reaches(m:of("free")[1], send))
    assert.is_true(m:reaches(receive, m:of("decommit")[1]))
    assert.is_false(m:reaches(receive, send))
    -- Where that leaves too little, it is a failure, and no two ranks that wait.
    m:message("await_push", { b, { 0, 2 }, { 8, 13 } })
    assert.matches("a message for task", m.failure)
  end)

  -- Bytes in memory 1 at once, if every instruction came as early as it may.
  local function most_held()
    local held, most = 0, 0
    for id = 1, #m.instrs do
      local r = m.instrs[id]
      if r.kind == "commit" and r.at.memory == 1 then held = held + r.last - r.first end
      if r.kind == "decommit" then held = held - (r.last - r.first) end
      most = math.max(most, held)
    end
    return most
  end

  it("for a chunk that is too large is had in rounds", function()
    open({ grain = 64, capacity = 1024 })
    local a, b = line(512, "a"), line(512, "b") -- 4 KiB each
    local first = m:submit({ range = { 512 }, { a, "discard_write", same(1) } })
    local t = m:submit({
      range = { 512 }, { a, "read", same(1) }, { b, "discard_write", same(1) },
    })
    assert.is_nil(m.failure)
    local chunks = m:of("kernel", t)
    assert.equal(32, #chunks) -- of 128 bytes twice, a third of what there is
    -- The second goes the other way.
    assert.equal("0:32 0:1 0:1", m:of("kernel", first)[1].chunk)
    assert.equal("496:512 0:1 0:1", chunks[1].chunk)
    assert.is_true(most_held() <= 1024)
    -- What is about to be overwritten is not kept.
    local over = m:submit({ range = { 512 }, { b, "discard_write", same(1) } })
    for _, copy in ipairs(m:of("copy", over)) do
      assert.is_true(copy.id > m:of("kernel", over)[1].id)
    end
  end)

  it("is not had by rounds that a task does not permit", function()
    open({ grain = 64, capacity = 1024 })
    local a = line(512, "a")
    m:submit({
      range = { 512 }, placement = "once", name = "all", { a, "discard_write", same(1) },
    })
    assert.matches("task 'all' needs 4.0 KiB there at once, a %(4.0 KiB%).*be cut further",
      m.failure)
  end)

  it("is said in bytes where there is nearly as much", function()
    open({ grain = 64, capacity = 4032 })
    m:submit({
      range = { 512 }, placement = "once", name = "all",
      { line(512, "a"), "discard_write", same(1) },
    })
    assert.matches("needs 4.0 KiB there at once, a %(4.0 KiB%), and this rank has 3.9 KiB",
      m.failure)
    open({ grain = 64, capacity = 2 ^ 20 })
    m:submit({
      range = { 2 ^ 17 + 1 }, placement = "once", name = "all",
      { line(2 ^ 17 + 1, "a"), "discard_write", same(1) },
    })
    assert.matches("needs 1048640 bytes there at once, a %(1.0 MiB%), and this rank has "
      .. "1048576 bytes", m.failure)
  end)

  it("decides against an allocation around all that is wanted", function()
    for _, lookahead in ipairs({ false, true }) do
      open({ grain = 8, capacity = 600, lookahead = lookahead })
      local b = m:buffer({ 8, 16 }, { name = "b" }) -- 1 KiB
      local function columns(from, to)
        return m:submit({
          range = { 1 }, placement = "once", { b, "read_write", { { whole(0), { from, to } } } },
        })
      end
      for i = 0, 3 do columns(3 * i, 3 * i + 4) end -- neighbours meet
      m:epoch()
      assert.is_nil(m.failure)
      assert.equal(4, #m:of("kernel"))
    end
  end)
end)
