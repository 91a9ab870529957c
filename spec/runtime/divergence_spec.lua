-- Ranks that submit different things are found out, and those that do not are
-- left alone.
local ffi = require("ffi")
local cluster = require("spec.runtime.cluster")
local program = require("spec.task.program")
jit.off(true, true)

local same, all = program.same(1), program.all(1)

describe("the divergence check", function()
  local c
  local function open(config) c = cluster.new(config or {}) end
  after_each(function() c:close() end)

  local function touch(buffer, line, hash, k)
    return c:submit({
      range = { 8 }, { buffer, "discard_write", same }, line = line, hash = hash, name = "t",
    }, k)
  end

  local function gather(buffer, line)
    return c:submit({ range = { 8 }, { buffer, "read", all }, line = line, name = "g" })
  end

  local function assert_verdict(text, line)
    assert.is_true(c:run(function() return c:failed() end))
    for k = 0, c.n - 1 do
      assert.same({ "DIVERGED", "the ranks run different programs: " .. text, line },
        { c:failure(k) })
    end
  end

  it("names the two lines on every rank", function()
    cluster.orders({ ranks = 3 }, function(made, seed)
      c = made
      local u, odd = c:buffer({ 8 }), seed % 3
      touch(u, 2, 7)
      for k = 0, 2 do touch(u, k == odd and 5 or 4, k == odd and 8 or 9, k) end
      touch(u, 6, 7)
      c:epoch(7)
      local low, high = odd == 0 and 5 or 4, odd == 0 and 4 or 5
      assert_verdict(("rank 0 submitted a host task 't' at spec.lua:%d, but rank %d submitted a "
        .. "host task 't' at spec.lua:%d"):format(low, math.max(odd, 1), high), low)
    end)
  end)

  it("says what may differ where the lines are the same", function()
    open()
    local u = c:buffer({ 8 })
    for k = 0, 1 do touch(u, 4, k, k) end
    c:epoch()
    assert_verdict("rank 0 submitted a host task 't' at spec.lua:4, but rank 1 submitted a "
      .. "host task 't' at spec.lua:4, with another range, buffer, type, init, host object, "
      .. "mapper, function, hint or argument", 4)
  end)

  it("says which devices the two ranks have where these differ", function()
    open({ ranks = 3, devices = { 1, 3, 3 } })
    local u = c:buffer({ 8 })
    for k = 0, 2 do touch(u, 4 + k % 2, k % 2, k) end
    c:epoch()
    assert_verdict("rank 0 submitted a host task 't' at spec.lua:4, but rank 1 submitted a "
      .. "host task 't' at spec.lua:5; rank 0 has 1 device (simulated), rank 1 has 3 devices "
      .. "(simulated)", 4)
  end)

  it("finds a rank that ends before the others", function()
    cluster.orders({ ranks = 2 }, function(made, seed)
      c = made
      local u, early = c:buffer({ 8 }), seed % 2
      touch(u, 2)
      c:epoch()
      touch(u, 3, 1, 1 - early)
      c:epoch(4, 1 - early)
      c:finish(early, 5)
      local says = { [early] = "ended at spec.lua:5",
        [1 - early] = "submitted a host task 't' at spec.lua:3" }
      assert_verdict(("rank 0 %s, but rank 1 %s"):format(says[0], says[1]), 3)
    end)
  end)

  it("leaves a rank alone that is merely behind", function()
    cluster.orders({ ranks = 2 }, function(made)
      c = made
      local u = c:buffer({ 8 })
      touch(u, 2)
      touch(u, 3, 1, 0)
      local epoch = c:epoch(4, 0)
      cluster.c.cel_engine_suspect(c.rank[0].engine)
      c:settle()
      touch(u, 3, 1, 1)
      epoch[1] = c:epoch(4, 1)[1]
      assert.is_true(c:run(function() return c:reached(epoch) end))
      c:finish(0)
      assert.is_true(c:run(function() return c:finish(1) and c:finish(0) end))
      for k = 0, 1 do assert.equal("OK", c:failure(k)) end
    end)
  end)

  it("explains a message of a wrong length", function()
    cluster.orders({ ranks = 3 }, function(made, seed)
      c = made
      local u = c:buffer(function(k) return { k == 1 and 8 + seed or 8 } end)
      c:submit({
        range = function(k) return { k == 1 and 8 + seed or 8 } end, line = 2, name = "t",
        { u, "discard_write", same },
      })
      gather(u, 3)
      assert_verdict("rank 0 submitted a host task 't' at spec.lua:2, but rank 1 submitted a "
        .. "host task 't' at spec.lua:2, with another range, buffer, type, init, host object, "
        .. "mapper, function, hint or argument", 2)
    end)
  end)

  -- Two messages of different lengths change places.
  local swap = { ranks = 2, fault = "CEL_FAULT_SWAP", fault_at = 1 }
  local function submit_two()
    for n = 1, 2 do
      local u = c:buffer({ n })
      c:submit({
        range = { 1 }, { u, "discard_write", all }, placement = "once", line = 2 * n, name = "w",
      })
      c:submit({ range = { 2 }, { u, "read", all }, line = 2 * n + 1, name = "r" })
    end
  end

  it("reports a failing message as such where the ranks agree", function()
    cluster.orders(swap, function(made)
      c = made
      submit_two()
      assert.is_true(c:run(function() return c:failed() end))
      local code, text, line = c:failure(1)
      assert.equal("COMM", code)
      assert.matches("rank 1 expected %d+ bytes as message %d from rank 0, which sent %d+", text)
      assert.same({ "CANCELLED", text, line }, { c:failure(0) })
    end)
  end)

  it("does not wait for ranks that cannot be reached", function()
    local broken = ffi.new("cel_error", { code = "CEL_E_COMM", text = "cut off" })
    open(swap)
    submit_two()
    c:settle(0)
    c:settle(1)
    assert.equal("OK", c:failure(1)) -- rank 0 has not looked
    c.rank[1].transport.broken = broken
    c:settle(1)
    local _, text = c:failure(1)
    assert.matches("rank 1 expected", text)
    c:close()

    open()
    c.rank[0].transport.broken = broken
    c:settle(0)
    assert.same({ "COMM", "cut off", 0 }, { c:failure(0) })
  end)
end)
