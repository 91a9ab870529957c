-- Side effects among a rank's commands, and the tokens that order ranks.
local ranks = require("spec.command.ranks")

describe("side effects among commands", function()
  -- A host task over n chunks (on at most so many ranks), or of every rank.
  local function task(r, n, ...)
    local effects, list = {}, { ... }
    for i = 1, #list, 2 do effects[#effects + 1] = { list[i], list[i + 1] } end
    return r:submit({ range = { n }, kind = "host", effects = effects })
  end

  local function execute(r, k, t) return r:of(k, "execute", t)[1] end

  -- "from>to" of the tokens of a task, of pushes or of what awaits them.
  local function tokens(r, kind, t)
    local list = {}
    for k = 0, r.n - 1 do
      for _, m in ipairs(r:messages_of(k, kind, t)) do
        assert.is_truthy(m.object)
        assert.equal(0, m.bytes)
        local from, to = k, m.peer
        if kind == "await_push" then from, to = to, from end
        list[#list + 1] = ("%d>%d"):format(from, to)
      end
    end
    table.sort(list)
    return table.concat(list, " ")
  end

  local function exchanged(r, t)
    local sent = tokens(r, "push", t)
    assert.equal(sent, tokens(r, "await_push", t))
    return sent
  end

  it("order each rank's own commands, and no messages travel for a rank's object", function()
    local r = ranks.new(2)
    local o = r:object()
    local a, b, c = task(r, 2, o, "sequential"), task(r, 2, o, "exclusive"),
      task(r, 2, o, "sequential")
    for k = 0, 1 do
      assert.equal("true", execute(r, k, b).deps[execute(r, k, a).id])
      assert.equal("true", execute(r, k, c).deps[execute(r, k, b).id])
      assert.same({}, r:messages(k, "push"))
    end
  end)

  it("pass from rank to rank within a task, and from its last to the next one's first",
    function()
      local r = ranks.new(4)
      local o = r:object({ scope = "cluster" })
      local first = task(r, 3, o, "sequential")
      assert.equal("0>1 1>2", exchanged(r, first))
      -- Exclusive is sequential here.
      local second = task(r, 4, o, "exclusive")
      assert.equal("0>1 1>2 2>0 2>3", exchanged(r, second))
      local third = task(r, 1, o, "sequential")
      assert.equal("3>0", exchanged(r, third))
      assert.equal("", exchanged(r, task(r, 1, o, "sequential")))
    end)

  it("send a token after what it stands for, and let the chunk wait for it", function()
    local r = ranks.new(3)
    local o = r:object({ scope = "cluster" })
    local first, second = task(r, 3, o, "sequential"), task(r, 3, o, "sequential")
    for k = 0, 2 do
      local e = execute(r, k, first)
      for _, push in ipairs(r:of(k, "push", first)) do
        assert.is_true(r:reaches(k, push.id, e.id))
      end
      for _, await in ipairs(r:of(k, "await_push", first)) do
        assert.is_true(r:reaches(k, e.id, await.id))
      end
    end
    local back = r:of(2, "push", second)[1] -- to rank 0, before its own chunk
    assert.is_true(r:reaches(2, back.id, execute(r, 2, first).id))
    assert.is_false(r:reaches(2, back.id, execute(r, 2, second).id))
    local await = r:of(0, "await_push", second)[1]
    assert.is_false(r:reaches(0, await.id, execute(r, 0, first).id)) -- posted early
    assert.is_true(r:reaches(0, execute(r, 0, second).id, await.id))
  end)

  it("tell relaxed ones once, and gather them", function()
    local r = ranks.new(4)
    local o = r:object({ scope = "cluster" })
    assert.equal("", exchanged(r, task(r, 4, o, "relaxed"))) -- nothing before
    task(r, 2, o, "sequential")
    assert.equal("1>0", exchanged(r, task(r, 1, o, "relaxed")))
    assert.equal("1>2", exchanged(r, task(r, 3, o, "relaxed"))) -- 0 and 1 know
    assert.equal("", exchanged(r, task(r, 2, o, "relaxed")))
    assert.equal("1>0 2>0", exchanged(r, task(r, 1, o, "sequential")))
    assert.equal("0>1 0>2 0>3", exchanged(r, task(r, 4, o, "relaxed")))
  end)

  it("let a collective task begin and end as one", function()
    local r = ranks.new(3)
    local o = r:object({ scope = "cluster" })
    local function collective(order)
      return r:submit({ range = { 3 }, kind = "host", placement = "each", collective = 1,
        effects = { { o, order } } })
    end
    assert.equal("", exchanged(r, collective("exclusive")))
    assert.equal("0>1 0>2 1>0 2>0", exchanged(r, collective("sequential")))
    local relaxed = task(r, 2, o, "relaxed")
    assert.equal("0>1 1>0 2>0", exchanged(r, relaxed))
    local t = collective("sequential")
    assert.equal("0>1 0>2 1>0", exchanged(r, t))
    -- Rank 0 lets others begin when it has heard of all, and is through itself.
    for _, push in ipairs(r:of(0, "push", t)) do
      assert.is_true(r:reaches(0, push.id, r:of(0, "await_push", t)[1].id))
      assert.is_true(r:reaches(0, push.id, execute(r, 0, relaxed).id))
      assert.is_false(r:reaches(0, push.id, execute(r, 0, t).id))
    end
    assert.equal("0>1 1>0 2>0", exchanged(r, task(r, 2, o, "sequential")))
  end)

  -- By "task/rank", all parts of tasks that come before, on whatever rank.
  local function parts_before(r)
    local pushes, known = {}, {}
    for k = 0, r.n - 1 do
      for _, push in ipairs(r:of(k, "push")) do
        for _, m in ipairs(push.messages) do
          pushes[("%d>%d %d"):format(k, m.peer, m.sequence)] = push
        end
      end
    end
    local function before(k, command)
      local set = known[command]
      if set then return set end
      set = {}
      known[command] = set
      local function follow(rank, dep)
        for part in pairs(before(rank, dep)) do set[part] = true end
        if dep.kind == "execute" then set[dep.task .. "/" .. rank] = true end
      end
      for id in pairs(command.deps) do follow(k, r.rank[k].commands[id]) end
      for _, m in ipairs(command.kind == "await_push" and command.messages or {}) do
        follow(m.peer, pushes[("%d>%d %d"):format(m.peer, k, m.sequence)])
      end
      return set
    end
    return before
  end

  -- Sequential (or exclusive) ones, with anything; their ranks ascend, but for those of a
  -- collective one, which are at it together.
  local function check_all_pairs(r, tasks)
    local before, parts = parts_before(r), {}
    for i, t in ipairs(tasks) do
      parts[i] = {}
      for k = 0, r.n - 1 do parts[i][k] = execute(r, k, t.id) end
    end
    local function check(i, k, j, l)
      local must = tasks[i].order ~= "relaxed" or tasks[j].order ~= "relaxed"
      if i == j then must = must and not tasks[i].together and k < l end
      local later = parts[j][l]
      if must and parts[i][k] and later and not before(l, later)[tasks[i].id .. "/" .. k] then
        error(("task %d (%s%s) of rank %d does not wait for task %d (%s%s) of rank %d"):format(
          j, tasks[j].together and "collective, " or "", tasks[j].order, l,
          i, tasks[i].together and "collective, " or "", tasks[i].order, k))
      end
    end
    for j = 1, #tasks do
      for i = 1, j do
        for k = 0, r.n - 1 do
          for l = 0, r.n - 1 do check(i, k, j, l) end
        end
      end
    end
  end

  it("order each pair of tasks, from every rank to every other", function()
    math.randomseed(7)
    local orders = { "sequential", "exclusive", "relaxed", "relaxed" }
    for round = 1, 40 do
      local n = 1 + round % 4
      local r = ranks.new(n)
      local o, own = r:object({ scope = "cluster" }), r:object()
      local tasks = {}
      for i = 1, 24 do
        local t = { order = orders[math.random(4)], together = math.random(3) == 1 }
        local spec = { range = { t.together and n or math.random(n) }, kind = "host",
          effects = { { o, t.order }, math.random(2) == 1 and { own, "relaxed" } or nil } }
        if t.together then
          spec.placement, spec.collective = "each", math.random(2)
        elseif math.random(4) == 1 then
          local weights = { hash = i, ranks = {} }
          for k = 1, n do weights.ranks[k] = math.random(0, 2) end
          weights.ranks[math.random(n)] = 1
          spec.range, spec.weights = { 4 * n }, weights
        end
        t.id = r:submit(spec)
        tasks[i] = t
        if math.random(20) == 1 then r:epoch() end
      end
      check_all_pairs(r, tasks)
    end
  end)

  it("let relaxed ones of a rank be concurrent, with what is told in between", function()
    local r = ranks.new(2)
    local o = r:object({ scope = "cluster" })
    task(r, 1, o, "sequential")
    local alone = task(r, 1, o, "relaxed")
    local both = task(r, 2, o, "relaxed")
    local a, b = execute(r, 0, alone), execute(r, 0, both)
    assert.is_false(r:reaches(0, b.id, a.id))
    assert.is_false(r:reaches(0, r:of(0, "push", both)[1].id, a.id))
  end)

  it("number tokens among all messages, the same at both ends", function()
    math.randomseed(4)
    local r = ranks.new(5)
    local objects = { r:object({ scope = "cluster" }), r:object({ scope = "cluster" }),
      r:object() }
    local b = r:buffer({ 5 }, { init = true })
    local program = require("spec.task.program")
    for _ = 1, 200 do
      local effects = {}
      for i = 1, 3 do
        if math.random(2) == 1 then
          effects[#effects + 1] = { objects[i],
            ({ "sequential", "exclusive", "relaxed" })[math.random(3)] }
        end
      end
      r:submit({ range = { math.random(5) }, kind = "host", effects = effects,
        { b, "read", program.all(1) } })
      r:submit({ range = { 5 }, { b, "read_write", program.same(1) } })
    end
    local text = { push = {}, await_push = {} }
    for k = 0, 4 do
      for kind, list in pairs(text) do
        for _, m in ipairs(r:messages_of(k, kind)) do
          local from, to = k, m.peer
          if kind == "await_push" then from, to = to, from end
          list[#list + 1] = ("%d>%d %d: %s o%s"):format(from, to, m.sequence, m.pieces,
            tostring(m.object))
        end
      end
    end
    table.sort(text.push)
    table.sort(text.await_push)
    assert.is_true(#text.push > 1000)
    assert.same(text.push, text.await_push)
  end)

  it("let an object's end come after all of this rank that touched it", function()
    local r = ranks.new(2)
    local o = r:object({ scope = "cluster" })
    local a, b = task(r, 2, o, "relaxed"), task(r, 2, o, "relaxed")
    r:end_object(o)
    for k = 0, 1 do
      local free = r:of(k, "free")[1]
      assert.is_true(r:reaches(k, free.id, execute(r, k, a).id))
      assert.is_true(r:reaches(k, free.id, execute(r, k, b).id))
    end
  end)

  it("hold nothing that grows with steps", function()
    local r = ranks.new(3)
    local o, own = r:object({ scope = "cluster" }), r:object()
    local function steps(n)
      for i = 1, n do
        task(r, 3, o, ({ "sequential", "relaxed", "relaxed" })[i % 3 + 1], own, "exclusive")
        r:retire()
      end
      return select(3, r:counts(1))
    end
    steps(200)
    local before = steps(200)
    assert.equal(before, steps(200))
  end)
end)
