-- An executor that waits for long says so, once, and for what.
local ffi = require("ffi")
local cluster = require("spec.runtime.cluster")
local program = require("spec.task.program")
jit.off(true, true)
local c = require("spec.support.cdef")("runtime/watchdog.h", "runtime/engine.h", "base/status.h")

local SECOND = 1000000000
local FOREVER = 4294967295

describe("a watchdog", function()
  local dog, speak
  before_each(function()
    dog = ffi.new("cel_watchdog", { limit_ns = 10 * SECOND })
    speak = ffi.new("bool[1]")
  end)

  local function rest(timeout_us, seconds)
    local us = c.cel__watchdog_rest(dog, timeout_us, seconds * SECOND, speak)
    return us, speak[0]
  end

  it("lets its owner sleep until it is time, and speaks once", function()
    assert.same({ 10e6, false }, { rest(FOREVER, 100) })
    assert.same({ 6e6, false }, { rest(FOREVER, 104) })
    assert.same({ 50, false }, { rest(50, 105) })
    assert.same({ 0, true }, { rest(FOREVER, 110) })
    assert.same({ FOREVER, false }, { rest(FOREVER, 110) })
    assert.same({ 50, false }, { rest(50, 500) })
  end)

  it("begins anew when something has moved", function()
    rest(FOREVER, 100)
    rest(FOREVER, 110)
    c.cel__watchdog_moved(dog)
    assert.same({ 10e6, false }, { rest(FOREVER, 111) })
    c.cel__watchdog_moved(dog)
    assert.same({ 10e6, false }, { rest(FOREVER, 130) })
    assert.same({ 0, true }, { rest(FOREVER, 140) })
  end)

  it("does not count the time in which the process was stopped", function()
    rest(50, 100)
    assert.same({ 50, false }, { rest(50, 1000) })
    assert.same({ 6e6, false }, { rest(FOREVER, 1004) })
  end)

  it("is silent without a limit", function()
    dog.limit_ns = 0
    assert.same({ FOREVER, false }, { rest(FOREVER, 100) })
    assert.same({ FOREVER, false }, { rest(FOREVER, 1e6) })
  end)
end)

describe("what an executor waits for", function()
  local same, all = program.same(1), program.all(1)

  local function told(cl, k)
    local text = ffi.new("char[2048]")
    local waits = cluster.c.cel_engine_tell(cl.rank[k].engine, text, 2048)
    return waits, ffi.string(text)
  end

  -- Every rank writes its part of u; rank 0 reads all of it.
  local function gather(cl)
    local u = cl:buffer({ 8 })
    cl:submit({ range = { 8 }, { u, "discard_write", same }, name = "fill", line = 3 })
    cl:submit({ range = { 1 }, { u, "read", all }, name = "look", line = 5 })
    return cl:epoch(7)
  end

  it("is nothing when all is done", function()
    cluster.orders({ ranks = 2 }, function(cl)
      local e = gather(cl)
      assert.is_true(cl:run(function() return cl:reached(e) end))
      cl:settle()
      for k = 0, 1 do assert.same({ false, "" }, { told(cl, k) }) end
    end)
  end)

  it("is a message that was lost: whose, of what, for which task and line", function()
    cluster.orders({ ranks = 2, fault = "CEL_FAULT_DROP", fault_at = 1 }, function(cl)
      local e = gather(cl)
      assert.is_false(cl:run(function() return cl:reached(e) end))
      local waits, text = told(cl, 0)
      assert.is_true(waits)
      assert.matches("a message from rank 1, 32 bytes: u %[4, 8%); for task 'look' "
        .. "%(spec.lua:5%)\n", text)
      assert.matches("\n%d+ instructions? waits? for these.\n$", text)
    end)
  end)

  it("is the one of a receive's messages that was lost", function()
    local config = { ranks = 4, fault = "CEL_FAULT_DROP", fault_at = 2, together_peers = 1 }
    cluster.orders(config, function(cl)
      local e = gather(cl)
      assert.is_false(cl:run(function() return cl:reached(e) end))
      local waits, text = told(cl, 0)
      assert.is_true(waits)
      assert.matches("a message from rank %d, 16 bytes: u %[%d, %d%); for task 'look' "
        .. "%(spec.lua:5%)\n", text)
    end)
  end)

  it("are several messages of a receive, where more ranks are late", function()
    local cl = cluster.new({ ranks = 4, together_peers = 1 })
    local u = cl:buffer({ 8 })
    cl:submit({ range = { 8 }, { u, "discard_write", same }, name = "fill", line = 3 }, 0)
    cl:submit({ range = { 1 }, { u, "read", all }, name = "look", line = 5 }, 0)
    cl:epoch(7, 0)
    cl:settle()
    local _, text = told(cl, 0)
    assert.matches("a message from rank 3, 16 bytes: u %[6, 8%); and 2 more from other ranks; "
      .. "for task 'look' %(spec.lua:5%)\n", text)
    cl:close()
  end)

  it("is not what has come since it failed", function()
    local late = 0
    cluster.orders({ ranks = 2 }, function(cl)
      local u, v = cl:buffer({ 8 }), cl:buffer({ 8 }, 8, "v")
      cl:submit({ range = { 8 }, { u, "discard_write", same }, name = "fill", line = 3 })
      cl:submit({ range = { 1 }, { u, "read", all }, name = "look", line = 5 })
      cl:submit({ range = { 1 }, { v, "discard_write", same }, name = "fail", line = 9,
        fn = function() return "no" end }, 0)
      cl:run(function() return cl:failure(0) ~= "OK" end)
      local _, before = told(cl, 0)
      cl:settle()
      local _, after = told(cl, 0)
      if before:find("a message from") and not after:find("a message from") then late = late + 1 end
    end)
    assert.is_true(late > 0)
  end)

  it("are other ranks that have not come as far", function()
    local cl = cluster.new({ ranks = 2 })
    cl:epoch(3, 0)
    cl:settle()
    local waits, text = told(cl, 0)
    assert.is_true(waits)
    assert.matches("the other ranks, which have not all come to where this one is", text)
    assert.is_false((told(cl, 1)))
    cl:close()
  end)
end)
