-- Side effects in the task graph: dependencies and conflicts of each pair of
-- orders, as Knorr et al., Declarative Data Flow has them.
local program = require("spec.task.program")
local ffi = require("ffi")
jit.off(true, true)

describe("side effects", function()
  local p
  local function open(config) p = program.new(config) end
  before_each(function() open({ step = 1000, breadth = 1000 }) end)
  after_each(function() p:close() end)

  -- A host task with the effects given as object, order, object, order...
  local function task(...)
    local effects, list = {}, { ... }
    for i = 1, #list, 2 do effects[#effects + 1] = { list[i], list[i + 1] } end
    return assert(p:submit({ range = { 8 }, kind = "host", effects = effects }))
  end

  -- What two tasks on one object get, at the scope of a rank and of the cluster.
  local pairs_of_orders = {
    { "sequential", "sequential", "depends", "depends" },
    { "sequential", "exclusive", "depends", "depends" },
    { "sequential", "relaxed", "depends", "depends" },
    { "exclusive", "sequential", "depends", "depends" },
    { "exclusive", "exclusive", "conflicts", "depends" },
    { "exclusive", "relaxed", "conflicts", "depends" },
    { "relaxed", "sequential", "depends", "depends" },
    { "relaxed", "exclusive", "conflicts", "depends" },
    { "relaxed", "relaxed", "nothing", "nothing" },
  }
  for _, case in ipairs(pairs_of_orders) do
    for scope, expected in pairs({ rank = case[3], cluster = case[4] }) do
      it(("give %s for %s after %s at the scope of a %s"):format(expected, case[2],
        case[1], scope), function()
        local o = p:object({ scope = scope })
        local a, b = task(o, case[1]), task(o, case[2])
        assert.equal(expected == "depends" and "true" or nil, p:depends(b, a))
        assert.equal(expected == "conflicts", p:conflicts(a, b))
        assert.equal(expected == "conflicts", p:conflicts(b, a))
        assert.equal(expected == "depends", p:reaches(b, a))
      end)
    end
  end

  it("give nothing between tasks on different objects", function()
    local a, b = task(p:object(), "sequential"), task(p:object(), "sequential")
    assert.is_false(p:reaches(b, a))
    assert.is_false(p:conflicts(a, b))
  end)

  it("make the graph of the paper's figure", function()
    -- 1 sequential, 2 exclusive, 3 and 4 relaxed, 5 exclusive, 6 sequential.
    local h = p:object()
    local t = {}
    for i, order in ipairs({ "sequential", "exclusive", "relaxed", "relaxed",
      "exclusive", "sequential" }) do
      t[i] = task(h, order)
    end
    for i = 2, 5 do
      assert.equal("true", p:depends(t[i], t[1]))
      assert.equal("true", p:depends(t[6], t[i]))
    end
    assert.is_nil(p:depends(t[6], t[1])) -- follows from the others
    assert.is_true(p:conflicts(t[2], t[3]) and p:conflicts(t[2], t[4]))
    assert.is_true(p:conflicts(t[2], t[5]) and p:conflicts(t[4], t[5]))
    assert.is_false(p:conflicts(t[3], t[4]))
  end)

  it("let the strictest of several objects decide", function()
    local a, b = p:object(), p:object()
    local first = task(a, "exclusive", b, "sequential")
    local second = task(b, "relaxed", a, "exclusive")
    assert.equal("true", p:depends(second, first))
    assert.is_false(p:conflicts(first, second)) -- which is first is settled
  end)

  it("conflict no more where buffers order the tasks", function()
    local o, b = p:object(), p:buffer({ 8 }, { init = true })
    local function on(order)
      return assert(p:submit({ range = { 8 }, kind = "host", effects = { { o, order } },
        { b, "read_write", program.same(1) } }))
    end
    local first, second = on("exclusive"), on("exclusive")
    assert.is_true(p:reaches(second, first))
    assert.is_false(p:conflicts(first, second))
    assert.is_true(p:conflicts(first, task(o, "relaxed")))
  end)

  it("become dependencies of and on collective tasks, where they conflict", function()
    local o = p:object()
    local groups = 0
    local function collective(order) -- of a group of its own
      groups = groups + 1
      return assert(p:submit({ range = { 1 }, kind = "host", placement = "each",
        collective = groups, effects = { { o, order } } }))
    end
    local a, b = collective("exclusive"), collective("relaxed")
    local c, alone = collective("relaxed"), task(o, "exclusive")
    local d = collective("exclusive")
    assert.equal("true", p:depends(b, a))
    assert.is_false(p:reaches(c, b))
    for _, before in ipairs { a, b, c } do assert.equal("true", p:depends(alone, before)) end
    assert.equal("true", p:depends(d, alone))
    assert.is_true(p:reaches(d, a) and p:reaches(d, b) and p:reaches(d, c))
    local after = task(o, "relaxed")
    assert.equal("true", p:depends(after, d))
    assert.is_nil(p:depends(after, alone))
    assert.is_true(p:conflicts(task(o, "exclusive"), after))
  end)

  it("never re-order relaxed against sequential, however many lie between", function()
    local o = p:object()
    local relaxed = {}
    for i = 1, 20 do relaxed[i] = task(o, "relaxed") end
    local s = task(o, "sequential")
    for i = 1, 20 do assert.equal("true", p:depends(s, relaxed[i])) end
    for _ = 1, 20 do
      assert.same({ [s] = "true" }, p.tasks[task(o, "relaxed")].deps)
    end
  end)

  it("let an object's end come after all who touched it", function()
    local o = p:object()
    local tasks = { task(o, "relaxed"), task(o, "relaxed"), task(o, "exclusive") }
    p:end_object(o)
    local free = p.tasks[#p.tasks]
    assert.equal("free", free.kind)
    assert.equal(o, ffi.cast("cel_object *", free.raw.ended))
    for _, t in ipairs(tasks) do assert.is_true(p:reaches(free.id, t)) end
  end)

  it("depend on nothing older than the horizon or epoch applied last", function()
    p:close(); open({ step = 3, breadth = 6 })
    local objects = { p:object(), p:object(), p:object({ scope = "cluster" }) }
    local orders = { "sequential", "exclusive", "relaxed", "relaxed" }
    math.randomseed(5)
    local last = {} -- by object: tasks, and the newest sequential one
    for _ = 1, 600 do
      local i, order = math.random(3), orders[math.random(4)]
      local t = task(objects[i], order)
      local strict = order == "sequential" or (i == 3 and order == "exclusive")
      last[i] = last[i] or { others = {} }
      if last[i].s then assert.is_true(p:reaches(t, last[i].s)) end
      if strict then
        for _, other in ipairs(last[i].others) do
          assert.is_true(p:reaches(t, other))
        end
        last[i] = { s = t, others = {} }
      else
        table.insert(last[i].others, t)
      end
      if math.random(40) == 1 then p:epoch() end
    end
    local floor, newest = 1, 1
    for _, t in ipairs(p.tasks) do
      for dep in pairs(t.deps) do assert.is_true(dep >= floor) end
      if t.kind == "horizon" then floor, newest = newest, t.id end
      if t.kind == "epoch" then floor, newest = t.id, t.id end
    end
  end)

  it("do not let memory grow with steps", function()
    p:close(); open({ step = 4, breadth = 64 })
    local o, other = p:object(), p:object()
    local function steps(n)
      for _ = 1, n do
        task(o, "relaxed", other, "sequential")
        p:retire(p.horizons[#p.horizons - 1] or 1)
      end
      return p:bytes()
    end
    local before = steps(500)
    assert.equal(before, steps(500))
  end)

  it("are part of what ranks must agree on", function()
    local function hash(scope, order, made_by)
      local q = program.new({})
      local object = q:object({ scope = scope })
      object.hash = made_by or 0
      local t = q:submit({ range = { 8 }, kind = "host", effects = { { object, order } } })
      local h = q.tasks[t].hash
      q:close()
      return h
    end
    local seen = {}
    for _, scope in ipairs({ "rank", "cluster" }) do
      for _, order in ipairs({ "sequential", "exclusive", "relaxed" }) do
        local h = tostring(hash(scope, order))
        assert.is_nil(seen[h])
        seen[h] = true
        assert.equal(h, tostring(hash(scope, order)))
        assert.not_equal(h, tostring(hash(scope, order, 1)))
      end
    end
  end)

  it("are refused where they cannot be", function()
    local o = p:object()
    local id, message = p:submit({ range = { 8 }, name = "k", file = "a.lua", line = 7,
      effects = { { o, "relaxed" } } })
    assert.is_nil(id)
    assert.equal("task 'k': only a host task has side effects", message)
    id, message = p:submit({ range = { 8 }, name = "h", kind = "host",
      effects = { { o, "relaxed" }, { o, "exclusive" } } })
    assert.is_nil(id)
    assert.equal("task 'h': it has two side effects on one host object", message)
    assert.equal(1, #p.tasks)
  end)
end)
