-- The task graph: dependencies "as if on one node", horizons, epochs, errors.
local ffi = require("ffi")
local program = require("spec.task.program")
local c = require("spec.rule.rules").c
jit.off(true, true)

local same, all, grown = program.same, program.all, program.grown

describe("the task graph", function()
  local p
  local function open(config) p = program.new(config) end
  before_each(function() open({ step = 1000, breadth = 1000 }) end)
  after_each(function() p:close() end)

  local function touch(buffer, mode, options)
    options = options or {}
    return p:submit({
      range = { 8 }, { buffer, mode, options.boxes or same(1) },
      kind = options.kind,
    })
  end

  it("begins with an epoch, and what depends on nothing depends on it", function()
    assert.equal("epoch", p.tasks[1].kind)
    local t = touch(p:buffer({ 8 }), "discard_write")
    assert.equal(2, t)
    assert.same({ [1] = "order" }, p.tasks[t].deps)
  end)

  it("lets initial contents come from the epoch", function()
    local t = touch(p:buffer({ 8 }, { init = true }), "read")
    assert.equal("true", p:depends(t, 1))
    assert.same({}, p.warnings)
  end)

  -- Of two accesses to the same elements, what the second owes to the first.
  local pairs_of_modes = {
    { "read", "read" },
    { "read", "write", "anti" }, { "read", "discard_write", "anti" },
    { "read", "read_write", "anti" },
    { "write", "read", "true" }, { "write", "write", "true" },
    { "write", "discard_write", "output" }, { "write", "read_write", "true" },
    { "discard_write", "read", "true" }, { "discard_write", "write", "true" },
    { "discard_write", "discard_write", "output" },
    { "discard_write", "read_write", "true" },
    { "read_write", "read", "true" }, { "read_write", "write", "true" },
    { "read_write", "discard_write", "output" },
    { "read_write", "read_write", "true" },
  }
  for _, case in ipairs(pairs_of_modes) do
    it(("knows %s after %s"):format(case[2], case[1]), function()
      local b = p:buffer({ 8 }, { init = true })
      local first, second = touch(b, case[1]), touch(b, case[2])
      assert.equal(case[3], p:depends(second, first))
    end)
  end

  it("keeps disjoint parts apart", function()
    local b = p:buffer({ 8 }, { init = true })
    local left = touch(b, "read_write", { boxes = { { { 0, 4 } } } , kind = "host" })
    assert.is_nil(left) -- all chunks write the same: refused
    left = p:submit({ range = { 1 }, { b, "read_write", { { { 0, 4 } } } } })
    local right = p:submit({ range = { 1 }, { b, "read_write", { { { 4, 8 } } } } })
    local reader = touch(b, "read")
    assert.is_false(p:reaches(right, left))
    assert.equal("true", p:depends(reader, left))
    assert.equal("true", p:depends(reader, right))
  end)

  it("knows all boxes that a mapper gives", function()
    local b = p:buffer({ 8 }, { init = true })
    local left = p:submit({ range = { 1 }, { b, "read_write", { { { 0, 4 } } } } })
    local right = p:submit({ range = { 1 }, { b, "read_write", { { { 4, 8 } } } } })
    local reader = p:submit({ range = { 1 }, { b, "read", { { { 0, 2 } }, { { 6, 8 } } } } })
    assert.equal("true", p:depends(reader, left))
    assert.equal("true", p:depends(reader, right))
  end)

  it("makes a task with no range a no-op", function()
    assert.equal(0, p:submit({ range = { 0 }, { p:buffer({ 8 }), "read", same(1) } }))
    assert.equal(1, #p.tasks)
  end)

  it("lets an epoch come after everything and before everything", function()
    local b, other = p:buffer({ 8 }), p:buffer({ 8 })
    local writes = touch(b, "discard_write")
    local reads = touch(b, "read")
    local loner = touch(other, "discard_write")
    local epoch = p:epoch()
    assert.is_true(p:reaches(epoch, reads) and p:reaches(epoch, loner))
    assert.is_nil(p:depends(epoch, writes)) -- not in the front
    local later = touch(b, "read")
    assert.same({ [epoch] = "true" }, p.tasks[later].deps)
  end)

  it("depends on nothing before the preceding epoch", function()
    local b = p:buffer({ 8 }, { init = true })
    for _ = 1, 20 do
      local epoch = p:epoch()
      for _ = 1, 3 do
        local t = touch(b, ({ "read", "read_write" })[math.random(2)])
        for dep in pairs(p.tasks[t].deps) do assert.is_true(dep >= epoch) end
        assert.is_true(p:reaches(t, epoch))
      end
    end
  end)

  it("lets a buffer's end come after all who used it", function()
    local b = p:buffer({ 8 })
    local writes, reads = touch(b, "discard_write"), touch(b, "read")
    p:free(b)
    local free = p.tasks[#p.tasks]
    assert.equal("free", free.kind)
    assert.is_true(p:reaches(free.id, writes) and p:reaches(free.id, reads))
  end)

  describe("horizons", function()
    it("come when the critical path has grown", function()
      p:close(); open({ step = 4, breadth = 1000 })
      local b = p:buffer({ 8 }, { init = true })
      for _ = 1, 40 do touch(b, "read_write") end
      assert.equal(10, #p:of_kind("horizon"))
    end)

    it("end laps, which steps and tasks end, too", function()
      p:close(); open({ step = 6, breadth = 1000 })
      local b, laps = p:buffer({ 8 }, { init = true }), {}
      for i = 1, 14 do laps[i] = p.tasks[touch(b, "read_write")].lap end
      assert.same({ 1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5 }, laps)
      assert.same({ 3, 5 }, { p:of_kind("horizon")[1].lap, p:of_kind("horizon")[2].lap })
      local first = p.tasks[p:epoch()].lap
      assert.equal(6, first)
      for _ = 1, 64 do touch(p:buffer({ 8 }), "discard_write") end
      assert.equal(6, p.tasks[#p.tasks].lap)
      assert.equal(7, p.tasks[touch(p:buffer({ 8 }), "discard_write")].lap)
      p:free(b)
      assert.equal(7, p.tasks[#p.tasks].lap)
    end)

    -- After so many tasks of a chain horizons came.
    local function horizons_of_chain(more)
      local b, after = p:buffer({ 8 }, { init = true }), {}
      for i = 1, 12 do
        local before = #p:of_kind("horizon")
        local spec = { range = { 8 }, { b, "read_write", same(1) } }
        p:submit(more(spec, i) or spec)
        if #p:of_kind("horizon") > before then after[#after + 1] = i end
      end
      return after
    end

    it("come with the end of a lap where tasks are large", function()
      assert.same({}, horizons_of_chain(function() end))
      local ranks = {}
      for k = 1, 8192 do ranks[k] = 1 end
      p:close(); open({ step = 1000, breadth = 1000, ranks = 8192 })
      assert.same({ 4, 8 }, horizons_of_chain(function(spec, i)
        if i < 6 then spec.weights = { ranks = ranks } end
      end))
    end)

    it("come with the end of a lap where main waits", function()
      local work = ffi.new("cel_work", { references = 1000, brief = true })
      assert.same({ 8 }, horizons_of_chain(function(spec, i)
        if i == 6 then spec.kind, spec.work = "host", work end
      end))
    end)

    it("come when the graph has grown wide", function()
      p:close(); open({ step = 1000, breadth = 5 })
      for _ = 1, 40 do touch(p:buffer({ 8 }), "discard_write") end
      assert.equal(8, #p:of_kind("horizon"))
    end)

    it("are applied when the next is made, and bound all dependencies", function()
      p:close(); open({ step = 2, breadth = 7 })
      local buffers = {}
      for i = 1, 4 do buffers[i] = p:buffer({ 8 }, { init = true }) end
      local modes = { "read", "write", "discard_write", "read_write" }
      math.randomseed(7)
      for _ = 1, 400 do
        touch(buffers[math.random(4)], modes[math.random(4)])
        if math.random(60) == 1 then p:epoch() end
      end
      local floor, last = 1, 1
      for _, t in ipairs(p.tasks) do
        for dep in pairs(t.deps) do assert.is_true(dep >= floor) end
        if t.kind == "horizon" then floor, last = last, t.id end
        if t.kind == "epoch" then floor, last = t.id, t.id end
      end
    end)

    it("synchronise nothing: what comes next depends on what it needs", function()
      p:close(); open({ step = 1 })
      local b = p:buffer({ 8 })
      local before = touch(b, "discard_write")
      assert.equal(1, #p:of_kind("horizon"))
      assert.same({ [before] = "true" }, p.tasks[touch(b, "read_write")].deps)
    end)

    it("come after the whole execution front", function()
      p:close(); open({ step = 3, breadth = 6 })
      local b = p:buffer({ 8 }, { init = true })
      for i = 1, 50 do
        touch(i % 3 == 0 and p:buffer({ 8 }) or b,
          i % 3 == 0 and "discard_write" or "read")
      end
      for _, h in ipairs(p:of_kind("horizon")) do
        for id = 1, h.id - 1 do assert.is_true(p:reaches(h.id, id)) end
      end
    end)
  end)

  it("holds the rules of its tasks until they are retired", function()
    p:close(); open({ step = 1 })
    local b, id = p:buffer({ 100 }, { init = true }), ffi.new("uint64_t[1]")
    for i = 1, 50 do
      local group = p:group({ range = { 100 }, { b, "read_write", same(1) },
        { p:buffer({ 100 }, { init = true }), "read", grown(i), { clamp = true } } })
      assert.equal(0, tonumber(c.cel_task_graph_submit(p.graph, group, id)))
      for k = 0, 1 do c.cel_rule_release(group.access[k].use.rule) end
    end
    assert.equal(51, c.cel_rules_count(p.rules))
    p:retire(p.horizons[#p.horizons])
    assert.is_true(c.cel_rules_count(p.rules) <= 3)
  end)

  it("does not grow over a long run", function()
    p:close(); open()
    local u, v = p:buffer({ 64 }, { init = true }), p:buffer({ 64 })
    local anchors, settled = #p.anchors, nil
    for step = 1, 4000 do
      p:submit({
        range = { 64 }, { u, "read", grown(1), { clamp = true } },
        { v, "discard_write", same(1) },
      })
      u, v = v, u
      if step % 40 == 0 then
        p:retire(p.horizons[#p.horizons - 1])
        p.tasks = {}
        for i = anchors + 1, #p.anchors do p.anchors[i] = nil end
        settled = settled or step == 400 and p:bytes()
        if settled then assert.is_true(p:bytes() <= settled) end
      end
    end
  end)

  describe("agreement", function()
    -- Of a kernel, one that reduces, a host task with an effect and a collective one;
    -- `change` is called for each with its number and what they touch.
    local function program_hash(change)
      local q = program.new({ step = 1000 })
      local b, sum = q:buffer({ 8 }, { init = true }), q:buffer({ 1 })
      local o, by = q:object(), q:reducer()
      local work = ffi.new("cel_work", { references = 1, hash = 1 })
      local shifted = {
        { { "+", { "min", 0 }, { "param", 0 } }, { "+", { "max", 0 }, { "param", 0 } } } }
      for i = 1, 4 do
        local spec = { range = { 4 }, { b, "read_write", { shifted }, { params = { 0 } } },
          weights = { ranks = { 1 } }, name = "n", work = work }
        if i == 2 then
          spec[2] = { sum, "discard_write", reducer = by }
        elseif i == 3 then
          spec.kind, spec.effects = "host", { { o, "exclusive" } }
        elseif i == 4 then
          spec.kind, spec.placement, spec.collective, spec.range = "host", "each", 1, { 1 }
        end
        change(spec, i, b, o, by)
        assert(q:submit(spec))
      end
      local epoch = q.tasks[q:epoch()]
      q:close()
      return epoch.agreement_hash, epoch.agreement_count
    end
    local function nothing() end

    it("is equal for equal programs", function()
      assert.equal(program_hash(nothing), program_hash(nothing))
      assert.equal(6, select(2, program_hash(nothing)))
    end)

    local of_kernels = {
      mode = function(s) s[1][2] = "read" end,
      range = function(s) s.range = { 3 } end,
      mapper = function(s) s[1][3], s[1][4] = same(1), nil end,
      ["number that a mapper captured"] = function(s) s[1][4].params[1] = 1 end,
      kind = function(s) s.kind = "host" end,
      placement = function(s) s.placement = "once" end,
      cut = function(s) s.cut = {} end,
      granularity = function(s) s.granularity = { 2 } end,
      runs = function(s) s.oversubscribe = 2 end,
      weights = function(s) s.weights.hash = 2 end,
      work = function(s) s.work = ffi.new("cel_work", { references = 1, hash = 2 }) end,
      extent = function(_, b) b.extent.max[0] = 9 end,
      ["element type"] = function(_, b) b.type = 7 end,
      ["element size"] = function(_, b) b.element_size = 4 end,
      ["initial contents"] = function(_, b) b.init.hash = 7 end,
      buffer = function(_, b) b.id = 7 end,
    }
    local of_effects = {
      object = function(_, _, o) o.id = 1 end,
      ["maker of an object"] = function(_, _, o) o.hash = 7 end,
      ["scope of an object"] = function(_, _, o) o.scope = "CEL_SCOPE_CLUSTER" end,
      ["order of an effect"] = function(s) s.effects[1][2] = "relaxed" end,
    }
    local of_reductions = {
      operator = function(_, _, _, by) by.by.op = "CEL_OP_MAX" end,
      ["class of an operator"] = function(_, _, _, by) by.by.class_ = ("i"):byte() end,
      ["code that combines"] = function(_, _, _, by)
        ffi.cast("cel_work *", by.combine).hash = 7
      end,
      identity = function(_, _, _, by) ffi.cast("double *", by.identity)[0] = 1 end,
      ["what a reduction begins with"] = function(s) s[2][2] = "read_write" end,
      ["buffer that is reduced into"] = function(s) s[2][1].id = 7 end,
    }
    local of_collectives = { ["collective group"] = function(s) s.collective = 2 end }
    for which, list in ipairs { of_kernels, of_reductions, of_effects, of_collectives } do
      for name, change in pairs(list) do
        it("differs with the " .. name, function()
          assert.not_equal(program_hash(nothing), (program_hash(function(s, i, ...)
            if i == which then change(s, ...) end
          end)))
        end)
      end
    end

    it("does not depend on names", function()
      assert.equal(program_hash(nothing), (program_hash(function(s)
        s.name = "other"
      end)))
    end)
  end)

  describe("errors", function()
    it("refuse a write that overlaps, with a counter-example", function()
      local b = p:buffer({ 9 }, { name = "u" })
      local id, text, code, line = p:submit({
        range = { 8 }, line = 42, name = "blur",
        { b, "discard_write", { { program.span(0, 0, 1) } } },
      })
      assert.is_nil(id)
      assert.equal("OVERLAP", code)
      assert.equal(42, line)
      for _, part in ipairs({ "'blur'", "'u'", "%[", "element %(%d+%)" }) do
        assert.matches(part, text)
      end
      assert.equal(1, #p.tasks)
    end)

    it("refuse writes of one buffer by two accesses that overlap", function()
      local b = p:buffer({ 64 }, { name = "u" })
      local id, text, code, line = p:submit({
        range = { 64 }, line = 43, name = "twice",
        { b, "discard_write", same(1) },
        { b, "discard_write", { { program.span(0, 1) } }, { clamp = true } },
      })
      assert.is_nil(id)
      assert.equal("OVERLAP", code)
      assert.equal(43, line)
      for _, part in ipairs({ "'twice'", "'u'", "1 %(discard_write%)",
        "2 %(discard_write%)", "%[", "element %(%d+%)", "map every chunk" }) do
        assert.matches(part, text)
      end
    end)

    it("let two accesses write one buffer where chunks stay apart", function()
      local b, v = p:buffer({ 64 }, { init = true }), p:buffer({ 64 })
      local half = function(by) return { { program.span(0, by) } } end
      local shifted = { { program.span(0, 1) } }
      for _ = 1, 3 do
        assert.truthy(p:submit({ range = { 32 }, { b, "discard_write", half(0) },
          { b, "write", half(32) } }))
      end
      assert.truthy(p:submit({ range = { 64 }, { b, "read_write", same(1) },
        { b, "discard_write", same(1) } }))
      -- Other buffers, and what is only read, are no writes of it.
      assert.truthy(p:submit({ range = { 63 }, { b, "read_write", same(1) },
        { v, "discard_write", shifted }, { b, "read", shifted } }))
      -- One chunk may overlap itself.
      assert.truthy(p:submit({ range = { 63 }, cut = {},
        { b, "read_write", same(1) }, { b, "read_write", shifted } }))
      assert.is_nil(p:submit({ range = { 63 },
        { b, "read_write", same(1) }, { b, "read_write", shifted } }))
    end)

    it("know the parameters of two accesses that write one buffer", function()
      local b = p:buffer({ 64 })
      local offset = { "param", 0 }
      local by = { { { { "+", { "min", 0 }, offset }, { "+", { "max", 0 }, offset } } } }
      local function try(x, y)
        return p:submit({ range = { 16 },
          { b, "discard_write", by, { params = { x } } },
          { b, "discard_write", by, { params = { y } } } })
      end
      for x = 0, 48, 4 do
        for y = 0, 48, 4 do
          local apart = x == y or math.abs(x - y) >= 16
          for _ = 1, 2 do assert.equal(apart, try(x, y) ~= nil) end
        end
      end
    end)

    it("refuse a read that depends on the split", function()
      local b = p:buffer({ 64 }, { init = true, name = "u" })
      local id, text, code = p:submit({
        range = { 8 },
        { b, "read", { { { 0, { "-", { "max", 0 }, { "min", 0 } } } } } },
      })
      assert.is_nil(id)
      assert.equal("ARGUMENT", code)
      assert.matches("'u'", text)
    end)

    it("refuse a mapper that leaves the buffer, on some rank only", function()
      local b = p:buffer({ 8 }, { init = true, name = "u" })
      local id, text, code = p:submit({
        range = { 8 }, { b, "read", { { program.span(0, 0, 1) } } },
      })
      assert.is_nil(id)
      assert.equal("RANGE", code)
      assert.matches("'u'", text)
      assert.truthy(p:submit({
        range = { 8 }, { b, "read", { { program.span(0, 0, 1) } }, { clamp = true } },
      }))
    end)

    it("look at the finest chunks, not only at the whole range", function()
      local b = p:buffer({ 8 }, { init = true })
      local below = function(n) return { "-", n, { "min", 0 } } end
      local id, _, code = p:submit({
        range = { 8 }, { b, "read", { { { below(2), below(3) } } } },
      })
      assert.is_nil(id)
      assert.equal("RANGE", code)
    end)

    it("find rows written under a 2-D range only where they may be cut", function()
      local b = p:buffer({ 8, 8 })
      local rows = { { program.span(0), program.whole(1) } }
      assert.truthy(p:submit({ range = { 8, 8 }, { b, "discard_write", rows } }))
      assert.is_nil(p:submit({
        range = { 8, 8 }, cut = { true, true }, { b, "discard_write", rows },
      }))
    end)

    it("let one task on one rank of the host write as it likes", function()
      local b = p:buffer({ 8 })
      local spec = {
        range = { 4 }, placement = "once", kind = "host",
        { b, "discard_write", all(1) },
      }
      assert.truthy(p:submit(spec))
      spec.kind = "kernel" -- which its devices would share out
      assert.is_nil(p:submit(spec))
    end)

    describe("on what every rank does once", function()
      local b
      before_each(function()
        p:close(); open({ ranks = 4 })
        b = p:buffer({ 20 }, { name = "u" })
      end)
      local function each(...)
        return p:submit({ range = { 4 }, placement = "each", kind = "host", name = "log",
          line = 44, ... })
      end
      local square = { "*", { "-", { "max", 0 }, { "min", 0 } },
        { "-", { "max", 0 }, { "min", 0 } } }

      it("refuse that two ranks write one element, as for chunks", function()
        for _, boxes in ipairs({ all(1), { { program.span(0, 0, 1) } },
          { { { 3, 4 } } }, { { { { "//", { "min", 0 }, 2 }, 4 } } } }) do
          local id, text, code, line = each({ b, "discard_write", boxes })
          assert.is_nil(id)
          assert.equal("OVERLAP", code)
          assert.equal(44, line)
          for _, part in ipairs({ "'log'", "'u'", "%[%d, %d%)", "element %(%d+%)",
            "map every chunk" }) do
            assert.matches(part, text)
          end
        end
      end)

      it("refuse that by two accesses, too", function()
        local id, text, code = each({ b, "discard_write", same(1) },
          { b, "write", { { program.span(0, 3) } } })
        assert.is_nil(id)
        assert.equal("OVERLAP", code)
        assert.matches("1 %(discard_write%)", text)
        assert.matches("chunks %[0, 1%) and %[3, 4%) both write element %(3%)", text)
      end)

      it("let ranks write apart, however long it takes to see", function()
        for _ = 1, 2 do
          assert.truthy(each({ b, "discard_write", same(1) },
            { b, "write", { { program.span(0, 4) } } }))
          -- Two units would overlap the next, but there are no two.
          assert.truthy(each({ b, "discard_write",
            { { { { "min", 0 }, { "+", { "min", 0 }, square } } } } }))
        end
      end)

      it("tell it apart from the same with chunks", function()
        local square_wide = { { { { "min", 0 }, { "+", { "min", 0 }, square } } } }
        assert.truthy(each({ b, "discard_write", square_wide }))
        local id, _, code = p:submit({ range = { 4 }, { b, "discard_write", square_wide } })
        assert.is_nil(id)
        assert.equal("OVERLAP", code)
      end)
    end)

    it("remember verdicts by parameters too", function()
      local b = p:buffer({ 8, 8 }, { init = true })
      local row = { { { { "param", 0 }, { "+", { "param", 0 }, 1 } } }, }
      row[1] = { row[1][1], program.span(0) }
      for t = 0, 7 do
        assert.truthy(p:submit({
          range = { 8 }, { b, "discard_write", row, { params = { t } } },
        }))
      end
      local id, _, code = p:submit({
        range = { 8 }, { b, "discard_write", row, { params = { 8 } } },
      })
      assert.is_nil(id)
      assert.equal("RANGE", code)
    end)

    it("refuse a range over ranks that is not the ranks", function()
      p:close(); open({ ranks = 4 })
      assert.is_nil(p:submit({ range = { 3 }, placement = "each", kind = "host" }))
      assert.truthy(p:submit({ range = { 4 }, placement = "each", kind = "host" }))
    end)
  end)

  describe("warnings", function()
    it("tell of reads of what nobody wrote, once for each place", function()
      local b = p:buffer({ 8 }, { name = "u" })
      local spec = { range = { 8 }, { b, "read", same(1) }, name = "look" }
      p:submit(spec)
      p:submit(spec)
      assert.equal(1, #p.warnings)
      assert.matches("'look'.*'u'", p.warnings[1])
      spec.line = 2
      p:submit(spec)
      assert.equal(2, #p.warnings)
    end)

    it("are not given for what a write only keeps", function()
      local b = p:buffer({ 8 })
      p:submit({ range = { 4 }, { b, "write", same(1) } })
      assert.same({}, p.warnings)
    end)

    it("know a part that was written", function()
      local b = p:buffer({ 8 })
      p:submit({ range = { 4 }, { b, "discard_write", same(1) } })
      p:submit({ range = { 4 }, { b, "read", same(1) } })
      assert.same({}, p.warnings)
      p:submit({ range = { 5 }, { b, "read", same(1) } })
      assert.equal(1, #p.warnings)
    end)
  end)

  describe("the split", function()
    local function chunks(spec, ranks)
      local id = assert(p:submit(spec))
      local split = program.c.cel_task_split(p.tasks[id].raw, ranks)
      return tonumber(split.n), split
    end

    it("cuts dimension 0 unless told otherwise", function()
      assert.equal(4, (chunks({ range = { 8, 8 } }, 4)))
      assert.equal(3, (chunks({ range = { 3, 8 } }, 4)))
      assert.equal(1, (chunks({ range = { 8 }, placement = "once" }, 4)))
      assert.equal(1, (chunks({ range = { 8 }, cut = {} }, 4)))
    end)

    it("makes tiles as square as can be", function()
      local n, split = chunks({ range = { 64, 64 }, cut = { true, true } }, 16)
      assert.equal(16, n)
      assert.equal(4, tonumber(split.cut[0].P))
      n, split = chunks({ range = { 64, 16 }, cut = { true, true } }, 16)
      assert.equal(16, n)
      assert.equal(8, tonumber(split.cut[0].P))
      n = chunks({ range = { 3, 64 }, cut = { true, true } }, 16)
      assert.equal(16, n)
    end)

    it("is in proportion to weights", function()
      p:close(); open({ ranks = 4, step = 1000, breadth = 1000 })
      local function boundaries(spec)
        local _, split = chunks(spec, 4)
        local list = {}
        for d = 0, 1 do
          local cut = split.cut[d]
          for i = 0, tonumber(cut.P) do
            list[#list + 1] = tonumber(program.c.cel_cut_at(cut, i))
          end
        end
        return list
      end
      assert.same({ 0, 40, 60, 70, 80, 0, 1 },
        boundaries({ range = { 80 }, weights = { ranks = { 4, 2, 1, 1 } } }))
      assert.same({ 0, 0, 30, 30, 80, 0, 1 },
        boundaries({ range = { 80 }, weights = { ranks = { 0, 3, 0, 5 } } }))
      assert.same({ 0, 16, 80, 80, 80, 0, 1 }, boundaries({ range = { 80 },
        granularity = { 16 }, weights = { ranks = { 1, 4, 0, 0 } } }))
      -- In a grid a row or column of ranks weighs what its ranks do together.
      assert.same({ 0, 60, 80, 0, 50, 80 }, boundaries({ range = { 80, 80 },
        cut = { true, true }, weights = { ranks = { 4, 2, 1, 1 } } }))
      -- All alike: as without.
      assert.same({ 0, 1, 2, 3, 0, 1 },
        boundaries({ range = { 3 }, weights = { ranks = { 7, 7, 7, 7 } } }))
      assert.same({ 0, 80, 0, 1 }, boundaries({ range = { 80 }, placement = "once",
        weights = { ranks = { 1, 2, 3, 4 } } }))
    end)

    it("changes what ranks agree on", function()
      local function hash(spec)
        return tostring(p.tasks[p:submit(spec)].raw.hash)
      end
      local plain = hash({ range = { 8 } })
      assert.not_equal(plain, hash({ range = { 8 }, oversubscribe = 2 }))
      assert.not_equal(plain, hash({ range = { 8 }, weights = { ranks = { 1 }, hash = 5 } }))
      assert.equal(plain, hash({ range = { 8 } }))
    end)

    it("covers the range exactly, whatever is asked", function()
      math.randomseed(3)
      local box = ffi.new("cel_box")
      for _ = 1, 300 do
        local r = math.random
        local range = { r(20), r(20), r(20) }
        local n, split = chunks({
          range = range, cut = { r(2) == 1, r(2) == 1, r(2) == 1 },
          granularity = { r(3), r(3), r(3) },
        }, r(40))
        local volume = 0
        for k = 0, n - 1 do
          assert.is_true(program.c.cel_split_chunk(split, k, box))
          local v = 1
          for d = 0, 2 do v = v * tonumber(box.max[d] - box.min[d]) end
          assert.is_true(v > 0)
          volume = volume + v
        end
        assert.equal(range[1] * range[2] * range[3], volume)
      end
    end)
  end)
end)
