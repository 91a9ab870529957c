-- Side effects among a rank's instructions.
local ffi = require("ffi")
local machine = require("spec.instr.machine")
local program = require("spec.task.program")

describe("side effects among instructions", function()
  local m = machine.each()
  before_each(function() m:open() end)

  local function task(...)
    local effects, list = {}, { ... }
    for i = 1, #list, 2 do effects[#effects + 1] = { list[i], list[i + 1] } end
    local t = m:submit({ range = { 4 }, kind = "host", effects = effects })
    return m:of("host", t)[1]
  end

  it("order host instructions as they order tasks", function()
    local o = m:object()
    local s, e, r, last = task(o, "sequential"), task(o, "exclusive"), task(o, "relaxed"),
      task(o, "sequential")
    for _, i in ipairs({ e, r }) do
      assert.equal("true", i.deps[s.id])
      assert.equal("true", last.deps[i.id])
    end
    assert.is_true(m:concurrent(e, r)) -- the executor keeps these apart
    assert.is_true(m:concurrent(last, task(m:object(), "sequential")))
  end)

  it("go beside what buffers ask for", function()
    local o, b = m:object(), m:buffer({ 4 }, { init = true })
    local writes = m:submit({ range = { 4 }, { b, "read_write", program.same(1) } })
    local first = task(o, "sequential")
    local both = m:of("host", m:submit({ range = { 4 }, kind = "host",
      effects = { { o, "relaxed" } }, { b, "read", program.same(1) } }))[1]
    assert.is_true(m:reaches(both, m:of("kernel", writes)[1]))
    assert.is_true(m:reaches(both, first))
    assert.is_true(m:concurrent(first, m:of("kernel", writes)[1]))
  end)

  it("send tokens after what they stand for, and let others wait for them", function()
    local o = m:object({ scope = "cluster" })
    local s, r = task(o, "sequential"), task(o, "relaxed")
    m:token("push", o, "relaxed")
    m:token("push", o, "sequential")
    local early, late = m:of("send")[1], m:of("send")[2]
    assert.is_true(m:reaches(early, s) and not m:reaches(early, r))
    assert.is_true(m:reaches(late, s) and m:reaches(late, r))
    m:token("await_push", o, "sequential")
    local await = m:of("receive")[1]
    assert.is_false(m:reaches(await, s) or m:reaches(await, r))
    local after, other = task(o, "relaxed"), task(m:object(), "relaxed")
    assert.is_true(m:reaches(after, await))
    assert.is_false(m:reaches(other, await))
    local last = task(o, "sequential")
    for _, i in ipairs({ s, r, await, after }) do assert.is_true(m:reaches(last, i)) end
    assert.equal(0, #m:of("alloc"))
  end)

  it("run what an object's end takes after all that touched it, if it takes anything",
    function()
      local o, silent = m:object(), m:object()
      o.release = ffi.new("cel_work")
      local a, b = task(o, "relaxed", silent, "relaxed"), task(o, "relaxed")
      m:end_object(o)
      m:end_object(silent)
      assert.equal(1, #m:of("release"))
      local release = m:of("release")[1]
      assert.is_true(m:reaches(release, a) and m:reaches(release, b))
      m:epoch()
      assert.is_true(m:reaches(m:of("epoch")[2], release))
    end)
end)
