-- COMMITs: memory behind allocations, where it is not there on touch.
local machine = require("spec.instr.machine")
local program = require("spec.task.program")
jit.off(true, true)

local same, span, whole = program.same, program.span, program.whole

describe("commits", function()
  local m = machine.each()

  -- A kernel over rows [lo, hi) of a 2-D buffer.
  local function rows(b, lo, hi, mode)
    return m:submit({ range = { hi - lo }, { b, mode or "write", { { span(0, lo), whole(1) } } } })
  end

  local function ranges(task)
    local list = {}
    for i, commit in ipairs(m:of("commit", task)) do
      list[i] = ("%d:%d"):format(commit.first, commit.last)
    end
    return list
  end

  it("are for all memories where there is a grain", function()
    m:open({ devices = { 1 } })
    rows(m:buffer({ 10, 10 }), 0, 10)
    assert.same({}, ranges())
    m:open({ devices = { 0 }, grain = 64 })
    rows(m:buffer({ 10, 10 }), 0, 10)
    assert.same({ "0:800" }, ranges())
    m:open({ devices = { 1 }, grain = 64 })
    local t = rows(m:buffer({ 10, 10 }, { init = true }), 2, 4)
    local commits = m:of("commit", t)
    assert.same({ "128:320", "128:320" }, ranges(t))
    assert.same({ 1, 0 }, { commits[1].at.memory, commits[2].at.memory })
    -- Initial contents are made where there is memory.
    assert.is_true(m:reaches(m:of("init", t)[1], commits[2]))
  end)

  it("cover the rows touched, out to the grain and to the end of the layout", function()
    m:open({ devices = { 1 }, grain = 64 })
    local b = m:buffer({ 10, 10 }) -- rows of 80 bytes
    assert.same({ "128:320" }, ranges(rows(b, 2, 4)))
    assert.same({ "640:800" }, ranges(rows(b, 8, 10)))
    assert.same({ "0:192" }, ranges(rows(b, 0, 2)))
  end)

  it("come once", function()
    m:open({ devices = { 1 }, grain = 1024 })
    local b = m:buffer({ 100, 16 }) -- 128 bytes, eight rows in a grain
    assert.same({ "0:1024" }, ranges(rows(b, 0, 3)))
    assert.same({}, ranges(rows(b, 2, 8)))
    assert.same({}, ranges(rows(b, 0, 8, "read")))
    assert.same({ "1024:2048" }, ranges(rows(b, 0, 9)))
    assert.same({}, ranges(rows(b, 9, 16)))
  end)

  it("leave out what lies between", function()
    m:open({ devices = { 1 }, grain = 64 })
    local b = m:buffer({ 1000, 8 })
    rows(b, 0, 10)
    rows(b, 900, 910)
    assert.same({ "0:640", "57600:58240" }, ranges())
    -- Also within one access: rows 500 and 700 of each.
    local t = m:submit({
      range = { 1 },
      { b, "read", { { span(0, 500), whole(1) }, { span(0, 700), whole(1) } } },
      { b, "write", { { span(0, 600), whole(1) } } },
    })
    assert.same({ "32000:32064", "38400:38464", "44800:44864" }, ranges(t))
  end)

  it("are shared by the accesses of a task that meet", function()
    m:open({ devices = { 1 }, grain = 64 })
    local b = m:buffer({ 1000, 8 })
    local t = m:submit({
      range = { 10 },
      { b, "write", { { span(0, 100), whole(1) } } },
      { b, "read", { { span(0, 110), whole(1) } } },
      { b, "read", { { span(0, 90), whole(1) } } },
    })
    assert.same({ "5760:7680" }, ranges(t))
  end)

  it("come before what touches the rows, and after the allocation alone", function()
    m:open({ devices = { 1 }, grain = 64 })
    local b = m:buffer({ 1000, 3 }) -- 24 bytes: row 2 lies in two grains
    local first = m:of("kernel", rows(b, 0, 2))[1]
    local second = m:of("kernel", rows(b, 0, 4))[1]
    local commits = m:of("commit")
    assert.same({ "0:64", "0:128" }, ranges())
    assert.is_true(m:reaches(first, commits[1]))
    assert.is_true(m:reaches(second, commits[2]))
    assert.is_true(m:reaches(second, first))
    assert.is_true(m:concurrent(first, commits[2]))
    for _, commit in ipairs(commits) do
      assert.same({ [m:of("alloc")[1].id] = "output" }, commit.deps)
    end
    m:free(b)
    for _, commit in ipairs(commits) do assert.is_true(m:reaches(m:of("free")[1], commit)) end
  end)

  it("come before copies too, also into an allocation that grew", function()
    m:open({ devices = { 1, 2 }, grain = 64 })
    local b = m:buffer({ 100, 8 })
    m:submit({ range = { 100, 2 }, { b, "discard_write", same(2) } })
    m:submit({ range = { 100, 8 }, { b, "read", program.all(2) } })
    for _, copy in ipairs(m:of("copy")) do
      local found = 0
      for _, commit in ipairs(m:of("commit")) do
        if commit.at.id == copy.to.id and m:reaches(copy, commit) then found = found + 1 end
      end
      assert.is_true(found > 0)
    end
    assert.is_true(#m:of("copy") >= 4)
  end)

  -- Step t writes row t.
  local function grow(steps, grain)
    m:open({ devices = { 1 }, grain = grain, step = 4 })
    local b = m:buffer({ steps, 64 }) -- 512 bytes
    for t = 0, steps - 1 do
      m:submit({
        range = { 64 }, { b, "discard_write",
          { { { { "param", 0 }, { "+", { "param", 0 }, 1 } }, span(0) } }, { params = { t } } },
      })
      if t % 16 == 0 then m:retire() end
    end
    return #m:of("commit")
  end

  it("are few for a buffer that grows by a row per step", function()
    assert.equal(1, grow(128, 65536))
    -- At 1, 2, 3, ... grains, then by an eighth: log(4000) / log(9/8) = 70.
    assert.is_true(grow(4000, 512) < 80)
    local commits, most = m:of("commit"), 0
    for i = 2, #commits do
      assert.equal(commits[i - 1].last, commits[i].first)
      most = math.max(most, (commits[i].last - commits[i].first) / commits[i].first)
    end
    assert.is_true(most <= 1)
    assert.equal(4000 * 512, commits[#commits].last)
  end)
end)
