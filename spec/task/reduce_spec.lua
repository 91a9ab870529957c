-- Reductions in the task graph: rows of partial results, and what combines them.
local program = require("spec.task.program")
local ffi = require("ffi")
jit.off(true, true)

describe("a reduction", function()
  local p, sum, b
  local function open(config)
    config.step, config.breadth = 1000, 1000
    p = program.new(config)
    sum, b = p:reducer(), p:buffer({ 4, 3 }, { init = true })
  end
  before_each(function() open({ ranks = 3, reducing = 2 }) end)
  after_each(function() p:close() end)

  local function reduce(onto, range, more)
    local spec = more or {}
    spec.range = range or { 100 }
    spec[#spec + 1] = { b, onto and "read_write" or "discard_write", reducer = sum }
    return p:submit(spec)
  end
  local function read() return assert(p:submit({ range = { 8 }, { b, "read", p.all(2) } })) end
  local function combining()
    local list = {}
    for _, t in ipairs(p.tasks) do
      if t.name == "combine" then list[#list + 1] = t end
    end
    return list
  end

  it("is never combined when nobody asks", function()
    for _ = 1, 3 do assert(reduce()) end
    p:epoch()
    assert.same({}, combining())
  end)

  it("is combined once, between those that reduce and those that read", function()
    local t = assert(reduce())
    local first = read()
    local second = read()
    local list = combining()
    assert.equal(1, #list)
    assert.equal("true", p:depends(list[1].id, t))
    assert.equal("true", p:depends(first, list[1].id))
    assert.is_true(p:reaches(second, list[1].id))
    assert.is_false(p:reaches(second, first))
  end)

  it("is combined on rank 0, with nothing cut, over all elements", function()
    assert(reduce())
    local id
    p.on_task = function(task)
      if task.accesses ~= 2 then return end
      id = tonumber(task.id)
      assert.equal("combine", ffi.string(task.name))
      assert.equal(tonumber(ffi.cast("cel_placement", "CEL_PLACE_ONCE")),
        tonumber(task.placement))
      assert.equal(12, tonumber(task.range.max[0]))
      for d = 0, 2 do assert.is_false(task.permitted.cut[d]) end
      assert.equal(p.made[1].id, task.access[0].buffer.id)
      assert.equal(b.id, task.access[1].buffer.id)
      assert.is_true(task.work == sum.combine)
    end
    read()
    assert.is_not_nil(id)
  end)

  -- Where what was just reduced is combined: "once", on rank 0, or on "all".
  local function where()
    local list = combining()
    return list[#list].placement
  end

  it("is combined by every rank where all of them read the same of it", function()
    p:close()
    open({ ranks = 3, reducing = 2, collectives = true })
    assert(reduce())
    read()
    assert.equal("all", where())
    assert(reduce(true))
    read()
    assert.equal("all", where())
    assert(reduce())
    assert(p:submit({ range = { 3 }, kind = "host", placement = "each",
      { b, "read", { { { 1, 2 }, p.whole(1) } } } }))
    assert.equal("all", where())
    assert.equal(3, #combining())
  end)

  it("of whole numbers is combined by every rank from its own rows, if all read it", function()
    p:close()
    open({ ranks = 3, reducing = 2, collectives = true })
    sum = p:reducer(0, { "SUM", "i" })
    local task
    p.on_task = function(t)
      if t.accesses ~= 2 then return end
      task = { rows = tonumber(t.access[0].rows), by = t.access[1].by }
      task.op, task.class = tonumber(task.by.op), tonumber(task.by.class_)
    end
    local function combined(rows, class, spec)
      assert(p:submit(spec or { range = { 8 }, { b, "read", p.all(2) } }))
      assert.equal(rows, task.rows)
      assert.equal(class, task.class)
    end
    assert(reduce())
    combined(2, ("i"):byte())
    assert.equal(0, task.op)
    assert.equal("all", where())
    assert(reduce(false, { 2 })) -- the third rank's rows hold the identity
    combined(2, ("i"):byte())
    assert.equal(3 * 2, tonumber(p.made[2].extent.max[0]))
    assert(reduce(true)) -- only one may begin with what the buffer holds
    combined(0, 0)
    assert.equal("all", where())
    assert.equal(0, reduce(false, { 0 }))
    combined(0, 0)
    assert.equal("all", where())
    assert(reduce())
    combined(0, 0, { range = { 2 }, { b, "read", p.all(2) } })
    assert.equal("once", where())
  end)

  it("comes together between GPUs by what their library has", function()
    p:close()
    open({ ranks = 3, reducing = 2, collectives = true,
      all_reduces = "CEL_ALL_REDUCES_ON_GPUS" })
    local rows
    p.on_task = function(t)
      if t.accesses == 2 then rows = tonumber(t.access[0].rows) end
    end
    local function own(...)
      sum, rows = p:reducer(0, { ... }), nil
      assert(reduce())
      read()
      assert.equal("all", where())
      return rows > 0
    end
    for _, op in ipairs { "SUM", "MIN", "MAX" } do
      assert.is_true(own(op, "i"))
      assert.is_true(own(op, "u", 4))
      assert.is_false(own(op, "i", 2))
      assert.is_false(own(op, "f"))
    end
    assert.is_true(own("OR", "b", 1))
    assert.is_true(own("AND", "b", 1))
    assert.is_false(own("OR", "u")) -- all have all rows then
    assert.is_false(own("PROD", "i"))
  end)

  it("is combined on rank 0 where one reads it, or each a part, or nobody yet", function()
    p:close()
    open({ ranks = 3, reducing = 2, collectives = true })
    local function once(spec)
      assert(reduce())
      assert(p:submit(spec))
      assert.equal("once", where())
    end
    once({ range = { 2 }, { b, "read", p.all(2) } })
    once({ range = { 100 }, cut = { false }, { b, "read", p.all(2) } })
    once({ range = { 1 }, kind = "host", placement = "once", { b, "read", p.all(2) } })
    once({ range = { 4, 3 }, { b, "read", p.same(2) } })
    once({ range = { 8 }, { b, "read", p.all(2) }, weights = { ranks = { 1, 0, 1 } } })
    once({ range = { 8 }, { b, "read_write", reducer = sum } })
    sum = p:reducer(0, { "CUSTOM", "f" }) -- other code for other processors
    once({ range = { 8 }, { b, "read", p.all(2) } })
    sum, b = p:reducer(), p:buffer({ 2 ^ 16 }) -- rows of 3 MiB
    once({ range = { 8 }, { b, "read", p.all(1) } })
  end)

  it("is combined on rank 0 without collectives", function()
    assert(reduce())
    read()
    assert.equal("once", where())
  end)

  it("is forgotten where all of it is overwritten, and only there", function()
    assert(reduce())
    assert(p:submit({ range = { 4, 3 }, { b, "discard_write", p.same(2) } }))
    read()
    assert.equal(0, #combining())
    assert(reduce())
    assert(p:submit({ range = { 2, 3 }, { b, "discard_write", p.same(2) } }))
    assert.equal(1, #combining())
    assert(reduce())
    assert(reduce())
    assert.equal(1, #combining())
  end)

  it("that goes on from another's result has that one combined first", function()
    assert(reduce())
    local onto = assert(reduce(true))
    assert.equal(1, #combining())
    assert.is_true(combining()[1].raw.work == sum.combine)
    local reader = read()
    local list = combining()
    assert.equal(2, #list)
    assert.is_true(list[2].raw.work == sum.combine_onto)
    assert.is_true(p:reaches(list[2].id, list[1].id))
    assert.is_true(p:reaches(list[2].id, onto))
    assert.is_true(p:reaches(reader, list[2].id))
  end)

  it("has rows for each device of each rank that has a chunk, kept for what is cut alike",
    function()
      for _ = 1, 5 do assert(reduce()) end
      assert.equal(1, #p.made)
      assert.equal(3 * 2, tonumber(p.made[1].extent.max[0]))
      assert.equal(12, tonumber(p.made[1].extent.max[1]))
      assert(reduce(false, { 2 }))
      assert.equal(2 * 2, tonumber(p.made[2].extent.max[0]))
      assert(reduce(false, { 100 }, { oversubscribe = 4 }))
      assert.equal(3 * 2 * 4, tonumber(p.made[3].extent.max[0]))
      assert(reduce(false, { 100 }, { granularity = { 10 } }))
      assert.equal(4, #p.made)
      assert.same({}, p.dropped)
      assert(reduce())
      assert(reduce(false, { 50 })) -- the one used longest ago makes room
      assert.equal(5, #p.made)
      assert.same({ tonumber(p.made[2].id) }, p.dropped)
    end)

  it("begins with the identity, of its own for each", function()
    assert(reduce())
    local least = p:reducer(math.huge)
    assert(p:submit({ range = { 100 }, { b, "discard_write", reducer = least } }))
    assert.equal(2, #p.made)
    for i, value in ipairs({ 0, math.huge }) do
      local out = ffi.new("double[5]")
      local init = p.made[i].init
      assert.equal(0, tonumber(init.fill(init, program.box_of({ 5 }), out)))
      for k = 0, 4 do assert.equal(value, out[k]) end
    end
  end)

  it("of other elements than the buffer's has rows of these, and settles them", function()
    for _, ranks in ipairs({ 3, 1 }) do
      p:close()
      open({ ranks = ranks, reducing = 1, in_place = true, collectives = true })
      local wide = p:reducer(0, nil, 24)
      sum, wide.extent = wide, b.extent
      assert(reduce())
      local onto = assert(reduce(true))
      assert.equal(1, #combining())
      assert.is_true(combining()[1].raw.work == wide.settle)
      assert.is_true(p:reaches(read(), onto))
      assert.is_true(combining()[2].raw.work == wide.settle_onto)
      assert.equal(ranks == 1 and "once" or "all", where())
      assert.equal(1, #p.made)
      assert.equal(24, tonumber(p.made[1].element_size))
      sum = p:reducer() -- of the buffer's own elements: one rank needs no rows
      sum.extent = b.extent
      assert(reduce())
      read()
      assert.equal(ranks == 1 and 1 or 2, #p.made)
    end
  end)

  it("of no items comes to the identity, unless it goes on", function()
    assert.equal(0, reduce(true, { 0 }))
    read()
    assert.equal(0, #combining())
    assert.equal(0, reduce(false, { 0 }))
    assert.equal(0, #combining())
    assert.equal(1, tonumber(p.made[1].extent.max[0]))
    assert.equal(0, reduce(true, { 0 }))
    read()
    assert.equal(1, #combining())
    assert.equal(0, reduce(false, { 0 }))
    assert(reduce())
    read()
    assert.equal(2, #combining())
    assert.equal(2, #p.made)
  end)

  it("goes with its buffer", function()
    assert(reduce())
    assert(reduce(false, { 50 }))
    p:free(b)
    table.sort(p.dropped)
    assert.same({ tonumber(p.made[1].id), tonumber(p.made[2].id) }, p.dropped)
    p:epoch()
    assert.same({}, combining())
  end)

  it("is refused in host tasks, beside other accesses, and for large buffers", function()
    local function refused(words, spec)
      spec.range, spec.line = spec.range or { 10 }, 77
      local id, text, code, line = p:submit(spec)
      assert.is_nil(id)
      assert.truthy(text:find(words, 1, true), text)
      assert.equal("ARGUMENT", code)
      assert.equal(77, line)
    end
    local into = { b, "discard_write", reducer = sum }
    refused("buffer 'b0' is reduced into; only kernels reduce", { kind = "host", into })
    refused("buffer 'b0' is reduced into twice", { into, { b, "read_write", reducer = sum } })
    refused("buffer 'b0' is reduced into and accessed as well; make that two tasks",
      { { b, "read", p.all(2) }, into })
    local large = p:buffer({ 2 ^ 23 + 1 }, { name = "large" })
    refused("buffer 'large' is too large to reduce into",
      { { large, "discard_write", reducer = sum } })
    refused("is too large to reduce into",
      { range = { 0 }, { large, "discard_write", reducer = sum } })
    assert(p:submit({ range = { 10 },
      { p:buffer({ 2 ^ 23 }), "discard_write", reducer = sum } }))
    refused("is too large to reduce into",
      { { p:buffer({ 2 ^ 22 }), "discard_write", reducer = p:reducer(0, nil, 32) } })
  end)
end)
