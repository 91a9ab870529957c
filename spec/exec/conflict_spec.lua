-- Which instructions start together: the search for a large set without
-- conflicts, and what is picked while others run.
local ffi = require("ffi")
local c = require("spec.support.cdef")("exec/conflict.h")

local MOST = 512
local room = ffi.new("cel_conflict_room")

local function has(set, i)
  return bit.band(bit.rshift(ffi.cast("uint32_t *", set.word)[math.floor(i / 32)], i % 32), 1) == 1
end

local function include(set, i)
  local word = ffi.cast("uint32_t *", set.word) + math.floor(i / 32)
  word[0] = bit.bor(word[0], bit.lshift(1, i % 32))
end

-- A graph of n vertices, where each pair are neighbours with that chance.
local function random_graph(n, density)
  local near = ffi.new("cel_conflict_set[?]", math.max(n, 1))
  for i = 0, n - 1 do
    for k = 0, i - 1 do
      if math.random() < density then
        include(near[i], k)
        include(near[k], i)
      end
    end
  end
  return near
end

-- The chosen vertices; that they are apart, and that no other could join.
local function search(near, n, rejected)
  local set = ffi.new("cel_conflict_set")
  local size = c.cel_conflict_search(near, n, rejected, room, set)
  local list = {}
  for i = 0, MOST - 1 do
    if has(set, i) then list[#list + 1] = i end
  end
  assert.equal(size, #list)
  for i = 0, n - 1 do
    local meets = false
    for _, k in ipairs(list) do
      assert.is_true(k < n)
      meets = meets or has(near[i], k)
    end
    assert.equal(not has(set, i), meets)
  end
  return list
end

local function largest(near, n)
  local best = 0
  for mask = 0, 2 ^ n - 1 do
    local members, apart = {}, true
    for i = 0, n - 1 do
      if bit.band(mask, bit.lshift(1, i)) ~= 0 then members[#members + 1] = i end
    end
    for _, i in ipairs(members) do
      for _, k in ipairs(members) do apart = apart and not has(near[i], k) end
    end
    if apart and #members > best then best = #members end
  end
  return best
end

describe("the search for a set without conflicts", function()
  it("finds the largest, given time", function()
    math.randomseed(1)
    for _ = 1, 60 do
      local n = math.random(0, 8)
      local near = random_graph(n, math.random())
      assert.equal(largest(near, n), #search(near, n, 2 ^ 32 - 1))
    end
  end)

  it("finds one to which nothing can be added, whatever the density", function()
    math.randomseed(2)
    for _, density in ipairs({ 0, 0.002, 0.01, 0.1, 0.5, 0.9, 1 }) do
      for _, n in ipairs({ 1, 64, 65, 500, MOST }) do
        search(random_graph(n, density), n, 100)
      end
    end
  end)

  it("takes all where nothing conflicts, and the largest of two sides", function()
    assert.equal(MOST, #search(random_graph(MOST, 0), MOST, 1))
    -- A star: the centre, or all others.
    local near = ffi.new("cel_conflict_set[100]")
    for i = 1, 99 do
      include(near[0], i)
      include(near[i], 0)
    end
    assert.equal(99, #search(near, 100, 1))
  end)

  it("looks further than the first candidate, and no further than it may", function()
    math.randomseed(3)
    local first, later = 0, 0
    for _ = 1, 40 do
      local near = random_graph(60, 0.3)
      local one, many = #search(near, 60, 1), #search(near, 60, 1000)
      assert.is_true(many >= one)
      first, later = first + one, later + many
    end
    assert.is_true(later > first)
  end)
end)

-- ---- picking ---------------------------------------------------------------

local RANK, CLUSTER = ffi.cast("cel_scope", "CEL_SCOPE_RANK"),
  ffi.cast("cel_scope", "CEL_SCOPE_CLUSTER")

describe("conflicts", function()
  local conflicts, anchors, next_id
  before_each(function()
    conflicts = ffi.gc(c.cel_conflicts_create(), c.cel_conflicts_destroy)
    anchors, next_id = {}, 0
  end)

  local function object(id, scope)
    local o = ffi.new("cel_object", { id = id, scope = scope or RANK })
    anchors[#anchors + 1] = o
    return o
  end

  -- A ready instruction with effects {object, order}.
  local function instr(effects)
    local list = ffi.new("cel_effect[?]", math.max(#effects, 1))
    for i, e in ipairs(effects) do
      list[i - 1].object = e[1]
      list[i - 1].order = ffi.cast("cel_order", "CEL_ORDER_" .. e[2]:upper())
    end
    local task = ffi.new("cel_task", { effects = #effects, effect = list })
    next_id = next_id + 1
    local made = ffi.new("cel_instr", { id = next_id, task = task })
    anchors[#anchors + 1] = { list, task, made }
    return made
  end

  local function wait(effects)
    local made = instr(effects)
    assert.is_true(c.cel_conflicts_concern(made.task))
    c.cel_conflicts_wait(conflicts, made)
    return made
  end

  local function pick()
    local n = ffi.new("uint32_t[1]")
    local ids, out = c.cel_conflicts_pick(conflicts, n), {}
    for i = 0, n[0] - 1 do out[i + 1] = tonumber(ids[i]) end
    return out
  end

  it("are no concern of sequential effects, nor of cluster scope", function()
    local o, all = object(0), object(1, CLUSTER)
    assert.is_false(c.cel_conflicts_concern(instr({}).task))
    assert.is_false(c.cel_conflicts_concern(instr({ { o, "sequential" } }).task))
    for _, order in ipairs({ "sequential", "exclusive", "relaxed" }) do
      assert.is_false(c.cel_conflicts_concern(instr({ { all, order } }).task))
    end
    assert.is_true(c.cel_conflicts_concern(
      instr({ { o, "sequential" }, { object(2), "relaxed" } }).task))
  end)

  it("let all relaxed ones run at once, and exclusive ones one by one", function()
    local o = object(0)
    local list = {}
    for i = 1, 5 do list[i] = wait({ { o, "relaxed" } }) end
    assert.same({ 1, 2, 3, 4, 5 }, pick())
    local first, second = wait({ { o, "exclusive" } }), wait({ { o, "exclusive" } })
    assert.same({}, pick())
    for _, i in ipairs(list) do
      assert.same({}, pick())
      c.cel_conflicts_done(conflicts, i)
    end
    assert.same({ 6 }, pick())
    assert.same({}, pick())
    c.cel_conflicts_done(conflicts, first)
    assert.same({ 7 }, pick())
    c.cel_conflicts_done(conflicts, second)
    assert.same({}, pick())
  end)

  it("let the two go first that the one between excludes", function()
    local a, b = object(0), object(1)
    wait({ { a, "exclusive" }, { b, "exclusive" } })
    wait({ { a, "exclusive" } })
    wait({ { b, "exclusive" } })
    assert.same({ 2, 3 }, pick())
  end)

  it("let what is free pass what is not", function()
    local a, b = object(0), object(1)
    local running = wait({ { a, "exclusive" } })
    assert.same({ 1 }, pick())
    wait({ { a, "relaxed" } })
    wait({ { b, "exclusive" } })
    assert.same({ 3 }, pick())
    c.cel_conflicts_done(conflicts, running)
    assert.same({ 2 }, pick())
  end)

  -- As many as after a hundred candidates, and no fewer than the largest first one.
  it("start the largest set that a hundred rejected candidates leave", function()
    math.randomseed(21)
    local first, hundred, more = 0, 0, 0
    for _ = 1, 20 do
      local objects, list = {}, {}
      for i = 1, 40 do objects[i] = object(i) end
      for i = 1, 120 do
        local a = math.random(40)
        list[i] = wait({ { objects[a], "exclusive" },
          { objects[(a + math.random(38)) % 40 + 1], "exclusive" } })
      end
      local near = ffi.new("cel_conflict_set[?]", #list)
      for i, x in ipairs(list) do
        for k, y in ipairs(list) do
          if i ~= k and c.cel_effects_conflict(x.task.effect, 2, y.task.effect, 2) then
            include(near[i - 1], k - 1)
          end
        end
      end
      local picked = pick()
      assert.equal(#search(near, #list, 100), #picked)
      first, hundred = first + #search(near, #list, 1), hundred + #picked
      more = more + #search(near, #list, 1000)
      conflicts = ffi.gc(c.cel_conflicts_create(), c.cel_conflicts_destroy)
    end
    assert.is_true(first < hundred)
    assert.is_true(hundred < more)
  end)

  it("keep apart whatever comes, and let nothing lie that could run", function()
    math.randomseed(11)
    local objects, waiting, running = {}, {}, {}
    for i = 1, 6 do objects[i] = object(i * 3) end
    local function conflict(x, y)
      return c.cel_effects_conflict(x.task.effect, x.task.effects, y.task.effect,
        y.task.effects)
    end
    local function excluded(i)
      for _, other in pairs(running) do
        if conflict(i, other) then return true end
      end
    end
    local all, started, most = {}, 0, 0
    for _ = 1, 500 do
      for _ = 1, math.random(0, 3) do
        local effects, seen = {}, {}
        for _ = 1, math.random(1, 3) do
          local k = math.random(#objects)
          if not seen[k] then
            effects[#effects + 1] = { objects[k],
              ({ "exclusive", "relaxed", "relaxed" })[math.random(3)] }
          end
          seen[k] = true
        end
        local i = wait(effects)
        all[tonumber(i.id)], waiting[tonumber(i.id)] = i, i
      end
      for _, id in ipairs(pick()) do
        assert.is_nil(excluded(all[id]))
        running[id], waiting[id] = all[id], nil
        started = started + 1
      end
      for _, i in pairs(waiting) do assert.is_true(excluded(i)) end
      local n = 0
      for id, i in pairs(running) do
        n = n + 1
        if math.random(3) == 1 then
          c.cel_conflicts_done(conflicts, i)
          running[id] = nil
        end
      end
      most = math.max(most, n)
    end
    assert.is_true(started > 200 and most > 3)
  end)

  it("take the oldest first where more wait than can be looked at", function()
    local o = object(0)
    for _ = 1, 2000 do wait({ { o, "relaxed" } }) end
    local sum = 0
    for _ = 1, 4 do
      local ids = pick()
      sum = sum + #ids
      for _, id in ipairs(ids) do
        local i = anchors[id + 1][3]
        c.cel_conflicts_done(conflicts, i)
      end
    end
    assert.equal(2000, sum)
  end)
end)
