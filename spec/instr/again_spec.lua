-- Tasks that come again are carried out as they were before.
local machine = require("spec.instr.machine")
local program = require("spec.task.program")
jit.off(true, true)

local same, all, grown = program.same, program.all, program.grown

describe("what comes again", function()
  local m = machine.each()

  -- What the instructions of a task are, with dependencies by their distance.
  local function told(task)
    local out = {}
    for id, r in pairs(m.instrs) do
      if r.task == task and r.kind ~= "horizon" then
        local deps = {}
        for on, kind in pairs(r.deps) do deps[#deps + 1] = ("%d %s"):format(id - on, kind) end
        table.sort(deps)
        local where = r.kind == "copy" and ("%d > %d: %s"):format(r.from.id, r.to.id, r.box)
          or r.chunk
        out[#out + 1] = { id, r.kind, r.device, r.priority, where, deps }
      end
    end
    table.sort(out, function(a, b) return a[1] < b[1] end)
    for _, r in ipairs(out) do r[1] = nil end
    return out
  end

  local u, v
  local function step(mode)
    local t = m:submit({ range = { 32, 32 }, cut = { true, true },
      { v, mode or "discard_write", same(2) }, { u, "read", grown(1, 1), { clamp = true } } })
    u, v = v, u
    return t
  end

  local function open(config)
    config.devices, config.interior_bytes = { 1, 2, 3, 4 }, 128
    m:open(config)
    u, v = m:buffer({ 32, 32 }), m:buffer({ 32, 32 })
    m:fill(u, { 32, 32 })
  end

  it("has the same instructions, whatever came between", function()
    open({})
    local steps = {}
    for i = 1, 24 do
      steps[i] = told(step())
      if i == 12 then -- all of it to the host, where somebody changes a part
        m:submit({ kind = "host", range = { 1 }, { u, "read", all(2) } })
        m:submit({ kind = "host", range = { 1 }, { u, "read_write", all(2) } })
      end
    end
    for _, i in ipairs { 7, 8, 9, 10, 11, 12, 19, 20, 21, 22, 23, 24 } do
      assert.equal(24, #steps[i])
      assert.same(steps[i % 2 == 0 and 8 or 7], steps[i])
    end
    assert.are_not.same(#steps[8], #steps[13])
  end)

  it("differs in what it does as tasks do", function()
    open({})
    for _ = 1, 8 do step() end
    local other = told(step("read_write"))
    for _ = 1, 8 do step() end
    assert.are_not.same(told(step()), other)
  end)

  -- On the first device the hull of what a task reads of u goes beyond what the
  -- loop touches: a larger allocation is made there. All else stays as it was,
  -- since what is read in addition was never written.
  it("is planned anew where allocations have changed", function()
    open({})
    u, v = m:buffer({ 32, 64 }), m:buffer({ 32, 64 })
    m:fill(u, { 32, 32 })
    local steps = {}
    for i = 1, 24 do
      steps[i] = m:submit({ range = { 32, 32 }, cut = { true, true },
        { v, "discard_write", same(2) }, { u, "read", same(2) } })
      u, v = v, u
      if i == 12 then
        m:submit({ range = { 1 }, placement = "once",
          { u, "read", { { { 0, 1 }, { 0, 1 } }, { { 0, 1 }, { 63, 64 } } } } })
      end
    end
    local freed = m:of("free")
    assert.is_true(#freed > 0)
    for _, free in ipairs(freed) do
      for id, r in pairs(m.instrs) do
        local used = r.kind == "copy" and { r.from.id, r.to.id } or {}
        for k, view in ipairs(r.views or {}) do used[k] = view.at.id end
        for _, at in ipairs(used) do assert.is_true(id < free.id or at ~= free.at.id) end
      end
    end
    assert.same(#told(steps[12]), #told(steps[24]))
  end)

  it("comes after horizons as before", function()
    open({ step = 3 })
    for i = 1, 30 do
      local t = step()
      for _, k in ipairs(m:of("kernel", t)) do
        for on in pairs(k.deps) do
          assert.is_true(on >= (m.horizons[#m.horizons - 1] or 1), i)
        end
      end
    end
  end)
end)
