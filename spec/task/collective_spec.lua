-- Collective tasks of one group come in submission order, in all three graphs.
local machine = require("spec.instr.machine")
local program = require("spec.task.program")
local ranks = require("spec.command.ranks")

-- A collective task of `group` that touches nothing, or what is given.
local function collective(n, group, ...)
  return { range = { n }, kind = "host", placement = "each", collective = group, ... }
end

describe("collective tasks", function()
  describe("in the task graph", function()
    local p
    before_each(function() p = program.new({ ranks = 4, step = 1000, breadth = 1000 }) end)
    after_each(function() p:close() end)

    it("of one group follow each other, of others and of none they do not", function()
      local a1 = p:submit(collective(4, 1))
      local b1 = p:submit(collective(4, 2))
      local none = p:submit({ range = { 4 }, kind = "host", placement = "each" })
      local a2, b2 = p:submit(collective(4, 1)), p:submit(collective(4, 2))
      assert.equal("true", p:depends(a2, a1))
      assert.equal("true", p:depends(b2, b1))
      for _, pair in ipairs { { b1, a1 }, { a2, b1 }, { b2, a1 }, { b2, a2 } } do
        assert.is_false(p:reaches(pair[1], pair[2]))
      end
      for _, t in ipairs { a2, b2 } do assert.is_false(p:reaches(t, none)) end
      assert.is_false(p:reaches(none, a1) or p:reaches(none, b1))
    end)

    it("follow each other past horizons and epochs, by way of these", function()
      local before = p:submit(collective(4, 7))
      local epoch = p:epoch()
      local after = p:submit(collective(4, 7))
      assert.same({ [epoch] = "true" }, p.tasks[after].deps)
      assert.is_true(p:reaches(after, before))
      p:close()
      p = program.new({ ranks = 4, step = 1, breadth = 1000 })
      before = p:submit(collective(4, 7))
      local b = p:buffer({ 4 }, { init = true })
      for _ = 1, 5 do p:submit({ range = { 4 }, { b, "read_write", program.same(1) } }) end
      local applied = p.horizons[#p.horizons - 1]
      assert.is_true(applied > before)
      after = p:submit(collective(4, 7))
      assert.same({ [applied] = "true" }, p.tasks[after].deps)
      assert.is_true(p:reaches(after, before))
    end)

    it("are known apart by their group in what ranks agree on", function()
      local a, b = p:submit(collective(4, 1)), p:submit(collective(4, 2))
      assert.not_equal(p.tasks[a].hash, p.tasks[b].hash)
    end)

    it("are host tasks of every rank, or refused", function()
      for _, spec in ipairs {
        { range = { 4 }, kind = "kernel", placement = "each", collective = 1 },
        { range = { 4 }, kind = "host", placement = "split", collective = 1 },
        { range = { 4 }, kind = "host", placement = "once", collective = 1 },
      } do
        local id, text, code = p:submit(spec)
        assert.is_nil(id)
        assert.equal("ARGUMENT", code)
        assert.equal("task 't': a collective task is a host task of every rank", text)
      end
    end)
  end)

  it("of one group follow each other among each rank's commands", function()
    local r = ranks.new(3)
    local b = r:buffer({ 3 }, { init = true })
    local a1 = r:submit(collective(3, 1, { b, "read", program.same(1) }))
    local b1 = r:submit(collective(3, 2))
    local a2, b2 = r:submit(collective(3, 1)), r:submit(collective(3, 2))
    for k = 0, 2 do
      local function id(task) return r:of(k, "execute", task)[1].id end
      assert.is_true(r:reaches(k, id(a2), id(a1)))
      assert.is_true(r:reaches(k, id(b2), id(b1)))
      assert.is_false(r:reaches(k, id(b1), id(a1)) or r:reaches(k, id(b2), id(a2)))
    end
  end)

  it("of one group follow each other among a rank's instructions", function()
    local m = machine.new({ devices = { 0 } })
    local b = m:buffer({ 8 }, { init = true })
    local tasks = {
      m:submit(collective(1, 1, { b, "read", program.all(1) })), m:submit(collective(1, 2)),
      m:submit(collective(1, 1)), m:submit(collective(1, 2)),
    }
    m:flush()
    local host = {}
    for i, task in ipairs(tasks) do host[i] = m:of("host", task)[1] end
    assert.is_true(m:reaches(host[3], host[1]) and m:reaches(host[4], host[2]))
    assert.is_true(m:concurrent(host[1], host[2]) and m:concurrent(host[3], host[4]))
    m:close()
  end)
end)
