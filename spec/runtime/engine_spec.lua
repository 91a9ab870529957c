-- One rank's engine beside another's: fences, epochs, failures, back-pressure.
local ffi = require("ffi")
local cluster = require("spec.runtime.cluster")
local program = require("spec.task.program")
local rules = require("spec.rule.rules")
jit.off(true, true)

local same, all = program.same(1), program.all(1)

describe("an engine", function()
  local c
  local function open(config) c = cluster.new(config or {}) end
  after_each(function() c:close() end)

  -- Writes `by * i` into element i.
  local function fill(buffer, n, by)
    return c:submit({
      range = { n }, { buffer, "discard_write", same }, hash = by,
      fn = function(call)
        for i = tonumber(call.chunk.min[0]), tonumber(call.chunk.max[0]) - 1 do
          cluster.at(call, 0, i)[0] = by * i
        end
      end,
    })
  end

  local function ready(fences)
    return c:run(function()
      for k = 0, c.n - 1 do
        if not cluster.c.cel_fence_ready(fences[k]) then return false end
      end
      return true
    end)
  end

  it("gives every rank a fence's data as it was then, in any order", function()
    cluster.orders({ ranks = 3 }, function(made)
      c = made
      local u = c:buffer({ 9 })
      fill(u, 9, 3)
      local first = c:fence(u, rules.box({ 2 }, { 8 }))
      fill(u, 9, 5)
      local second = c:fence(u, rules.box({ 0 }, { 9 }))
      assert.is_nil(c:get(first, 0, "int64_t *"))
      assert.is_true(ready(second) and ready(first))
      for k = 0, c.n - 1 do
        local data, size = c:get(first, k, "int64_t *")
        assert.equal(6 * 8, size)
        for i = 0, 5 do assert.equal(3 * (i + 2), tonumber(data[i])) end
        data = c:get(second, k, "int64_t *")
        for i = 0, 8 do assert.equal(5 * i, tonumber(data[i])) end
      end
    end)
  end)

  it("gives part of a buffer densely, row by row", function()
    open({ ranks = 2 })
    local u = c:buffer({ 4, 6 })
    c:submit({
      range = { 4, 6 }, { u, "discard_write", program.same(2) },
      fn = function(call)
        local layout, chunk = call.view[0].layout, call.chunk
        local base = ffi.cast("int64_t *", call.view[0].base)
        for i = tonumber(chunk.min[0]), tonumber(chunk.max[0]) - 1 do
          for j = tonumber(chunk.min[1]), tonumber(chunk.max[1]) - 1 do
            local width = layout.max[1] - layout.min[1]
            base[(i - layout.min[0]) * width + j - layout.min[1]] = 10 * i + j
          end
        end
      end,
    })
    local fences = c:fence(u, rules.box({ 1, 2 }, { 4, 4 }))
    assert.is_true(ready(fences))
    local data = c:get(fences, 1, "int64_t *")
    local list = {}
    for i = 0, 5 do list[i + 1] = tonumber(data[i]) end
    assert.same({ 12, 13, 22, 23, 32, 33 }, list)
  end)

  it("has the data of an empty fence at once", function()
    open()
    local fences = c:fence(c:buffer({ 4 }), rules.box({ 2 }, { 2 }))
    local _, size = c:get(fences, 0, "char *")
    assert.equal(0, size)
  end)

  local function wait(epochs)
    return cluster.name(cluster.c.cel_engine_wait(c.rank[0].engine, epochs[0], nil))
  end

  it("reaches an epoch when all before it is done, and not what comes after", function()
    cluster.orders({ ranks = 2 }, function(made)
      c = made
      local done = {}
      local function note(what)
        return { range = { 2 }, hash = what, fn = function(_, rank) done[what .. rank] = true end }
      end
      c:submit(note(1))
      c:submit(note(2))
      local epoch = c:epoch()
      assert.is_false(c:reached(epoch))
      assert.equal("CANCELLED", wait(epoch))
      c:submit(note(3))
      assert.is_true(c:run(function() return c:reached({ [0] = epoch[0] }) end))
      assert.is_true(done["10"] and done["20"])
      assert.is_true(c:run(function() return c:reached(epoch) end))
      assert.is_true(done["11"] and done["21"])
      assert.equal("OK", wait(epoch))
    end)
  end)

  it("reaches an epoch when the other ranks have", function()
    cluster.orders({ ranks = 3 }, function(made)
      c = made
      local done = {}
      c:submit({ range = { 3 }, hash = 1, fn = function(_, rank) done[rank] = true end })
      local epoch = c:epoch()
      for k = 0, 2 do
        assert.is_true(c:run(function() return c:reached({ [k] = epoch[k] }) end))
        assert.same({ true, true, [0] = true }, done)
      end
    end)
  end)

  it("is congested while too many horizons are under way", function()
    open({ step = 1, ahead = 4 })
    local u = c:buffer({ 4 })
    local engine = c.rank[0].engine
    for _ = 1, 2 do fill(u, 4, 1) end
    assert.is_false(cluster.c.cel_engine_congested(engine))
    for _ = 1, 8 do fill(u, 4, 1) end
    assert.is_true(cluster.c.cel_engine_congested(engine))
    c:settle()
    assert.is_false(cluster.c.cel_engine_congested(engine))
  end)

  it("keeps its first failure, tells the others, and runs nothing that depends on it", function()
    cluster.orders({ ranks = 3 }, function(made)
      c = made
      local u, ran = c:buffer({ 6 }), false
      local function write(line, fn)
        return c:submit({
          range = { 6 }, { u, "read_write", all }, placement = "once", line = line, fn = fn,
        })
      end
      fill(u, 6, 1)
      write(5, function() return "disk full" end)
      write(6, function() return "too late" end)
      write(7, function() ran = true end)
      assert.is_true(c:run(function() return c:failed() end))
      c:settle()
      assert.same({ "TASK", "disk full", 5 }, { c:failure(0) })
      for k = 1, 2 do assert.same({ "CANCELLED", "disk full", 5 }, { c:failure(k) }) end
      assert.is_false(ran)
      for k = 0, 2 do assert.not_equal(0, write(8)[k]) end
    end)
  end)

  it("says who holds the memory when there is none left", function()
    c = cluster.new({ ranks = 1, grain = 64 })
    local function write(name, n)
      c:submit({ range = { n }, { c:buffer({ n }, 8, name), "discard_write", same }, line = 9 })
      local e = c:epoch()
      c:run(function() return c:reached(e) or c:failed() end)
    end
    write("small", 8)
    write("large", 1024)
    write("equal", 1024)
    local refuse = ffi.cast("cel_status (*)(cel_backend *, int32_t, void *, uint64_t, uint64_t)",
      function() return cluster.c.cel_fail("CEL_E_MEMORY", "%s", "nothing is free") end)
    c.rank[0].backend.commit = refuse
    write("last", 16)
    assert.same({ "MEMORY",
      "buffer last: nothing is free; it is held by large (8.0 KiB), "
      .. "equal (8.0 KiB), small (64 bytes)", 9 },
      { c:failure(0) })
    c:settle()
    c:close()
    refuse:free()
  end)

  it("keeps a failure of its own when another rank's comes later", function()
    cluster.orders({ ranks = 2 }, function(made)
      c = made
      c:submit({ range = { 2 }, line = 4, fn = function(_, rank) return "on " .. rank end })
      for k = 0, 1 do
        assert.is_true(c:run(function() return c:failure(k) ~= "OK" end, k))
      end
      c:settle()
      assert.same({ "TASK", "on 0", 4 }, { c:failure(0) })
      assert.same({ "TASK", "on 1", 4 }, { c:failure(1) })
    end)
  end)

  it("finishes when all ranks have", function()
    open({ ranks = 2 })
    assert.is_false(c:finish(0))
    c:settle()
    assert.is_false(c:finish(0))
    assert.is_false(c:finish(1))
    c:settle()
    assert.is_true(c:finish(0) and c:finish(1))
  end)
end)
