-- Communicators: of one rank, and between the ranks of one process. Over MPI:
-- spec/system/language/collective_spec.lua.
local ffi = require("ffi")
local c = require("spec.support.cdef")("comm/communicator.h", "comm/simulated/simulated_comm.h",
  "base/status.h")

local function code(status) return ffi.string(c.cel_status_name(status)) end

describe("a communicator", function()
  describe("of one rank", function()
    local comm
    before_each(function()
      local out = ffi.new("cel_comm *[1]")
      assert.equal("OK", code(c.cel_comm_alone(1, out)))
      comm = out[0]
    end)
    after_each(function() c.cel_comm_destroy(comm) end)

    it("gives back what it is given", function()
      local mine, all = ffi.new("double[2]", 3, 4), ffi.new("double[2]")
      assert.equal("OK", code(c.cel_comm_barrier(comm)))
      assert.equal("OK", code(c.cel_comm_broadcast(comm, mine, 16, 0)))
      assert.equal("OK", code(c.cel_comm_gather(comm, mine, 16, all, 0)))
      assert.same({ 3, 4 }, { all[0], all[1] })
      mine[1] = 5
      assert.equal("OK", code(c.cel_comm_reduce(comm, "CEL_COMM_PROD",
        "CEL_COMM_DOUBLE", mine, all, 2, c.CEL_COMM_ALL)))
      assert.same({ 3, 5 }, { all[0], all[1] })
    end)

    it("has nothing before it, and exchanges with itself", function()
      local mine, all = ffi.new("double[2]", 3, 4), ffi.new("double[2]", 7, 8)
      assert.equal("OK", code(c.cel_comm_reduce(comm, "CEL_COMM_SUM", "CEL_COMM_DOUBLE", mine, all,
        2, c.CEL_COMM_BEFORE)))
      assert.same({ 7, 8 }, { all[0], all[1] })
      assert.equal("OK", code(c.cel_comm_reduce(comm, "CEL_COMM_SUM", "CEL_COMM_DOUBLE", mine, all,
        1, c.CEL_COMM_UPTO)))
      assert.same({ 3, 8 }, { all[0], all[1] })
      assert.equal("OK", code(c.cel_comm_all_to_all(comm, mine, 16, all)))
      assert.same({ 3, 4 }, { all[0], all[1] })
      local bytes = ffi.new("uint64_t[1]", 8)
      mine[0] = 5
      assert.equal("OK", code(c.cel_comm_all_to_allv(comm, mine, bytes, all, bytes)))
      assert.same({ 5, 4 }, { all[0], all[1] })
    end)

    local head = ffi.new("cel_comm_head", 9, 8, 2)

    local function send(tag, x)
      return code(c.cel_comm_send(comm, 0, tag, head, ffi.new("double[2]", x, -x)))
    end

    -- Of the oldest with a tag.
    local function receive(tag)
      local got, into = ffi.new("cel_comm_head"), ffi.new("double[2]")
      local status = c.cel_comm_await(comm, 0, tag, got)
      if status ~= 0 then return code(status) end
      assert.same({ 9ULL, 8ULL, 2ULL }, { got.kind, got.size, got.count })
      assert.equal("OK", code(c.cel_comm_take(comm, 0, tag, into)))
      return into[0] + into[1] == 0 and into[0]
    end

    it("has its own letters, tag by tag in their order", function()
      assert.equal("OK", send(0, 1))
      assert.equal("OK", send(3, 2))
      assert.equal("OK", send(0, 3))
      assert.equal(2, receive(3))
      assert.equal(1, receive(0))
      assert.equal("ARGUMENT", receive(3))
      assert.equal(3, receive(0))
      assert.equal("OK", code(c.cel_comm_settle(comm, false)))
      assert.equal("ARGUMENT", send(c.CEL_COMM_TAGS, 1))
    end)

    it("says which letters a task has left, and forgets them", function()
      send(4, 1)
      send(5, 1)
      assert.equal("ARGUMENT", code(c.cel_comm_settle(comm, false)))
      assert.equal("the task has ended without comm:receive(0, 4), which would give what rank 0 "
        .. "has sent", ffi.string(c.cel_error_last().text))
      assert.equal("ARGUMENT", receive(5))
      send(4, 1)
      assert.equal("OK", code(c.cel_comm_settle(comm, true)))
      assert.equal("OK", code(c.cel_comm_settle(comm, false)))
    end)

    it("knows no other", function()
      assert.equal("ARGUMENT", code(c.cel_comm_gather(comm, nil, 0, nil, 1)))
      assert.equal("there is no rank 1, of 1", ffi.string(c.cel_error_last().text))
    end)
  end)

  describe("within a process, without threads", function()
    local world, comms
    before_each(function()
      world, comms = c.cel_simulated_comms_create(2, false), {}
      for k = 0, 1 do comms[k] = c.cel_simulated_comms_join(world, k, 1) end
    end)
    after_each(function()
      for k = 0, 1 do c.cel_comm_destroy(comms[k]) end
      c.cel_simulated_comms_destroy(world)
    end)

    -- What `k` hears of both when it says `mine`; or why not.
    local function say(k, mine)
      local all = ffi.new("int[2]")
      local status = c.cel_comm_gather(comms[k], ffi.new("int[1]", mine), 4, all,
        c.CEL_COMM_ALL)
      if status ~= 0 then return code(status) end
      return { all[0], all[1] }
    end

    it("is to be asked again until the others have come", function()
      assert.equal("AGAIN", say(0, 10))
      comms[0].calls = 0
      assert.equal("AGAIN", say(0, 10))
      assert.same({ 10, 20 }, say(1, 20))
      comms[0].calls = 0
      assert.same({ 10, 20 }, say(0, 10))
    end)

    it("answers what was answered before alike, when a task is run again", function()
      assert.equal("AGAIN", say(0, 10))
      assert.same({ 10, 20 }, say(1, 20))
      assert.equal("AGAIN", say(1, 21))
      for _ = 1, 2 do
        comms[0].calls = 0
        assert.same({ 10, 20 }, say(0, 10))
        assert.same({ 11, 21 }, say(0, 11))
      end
    end)

    it("counts what is sent", function()
      local n, bytes = ffi.new("uint64_t[2]"), ffi.new("uint64_t[2]")
      local give, get = ffi.new("uint64_t[2]", 8, 24), ffi.new("uint64_t[2]", 8, 0)
      c.cel_comm_count(n, bytes)
      say(0, 10)
      c.cel_comm_all_to_allv(comms[0], ffi.new("double[4]"), give, ffi.new("double[1]"), get)
      c.cel_comm_all_to_all(comms[0], ffi.new("double[4]"), 16, ffi.new("double[4]"))
      c.cel_comm_count(n + 1, bytes + 1)
      assert.equal(3, tonumber(n[1] - n[0]))
      assert.equal(4 + 24 + 16, tonumber(bytes[1] - bytes[0]))
    end)

    it("refuses what it cannot do", function()
      assert.equal("COMM", code(c.cel_comm_broadcast(comms[0], nil, 0, 1)))
      assert.equal("COMM", code(c.cel_comm_send(comms[0], 1, 0, ffi.new "cel_comm_head", nil)))
      assert.equal("this communicator cannot do that", ffi.string(c.cel_error_last().text))
    end)

    it("sends of many notices those that are not zeros", function()
      local many, n = c.CEL_COMM_MANY, {}
      local wide = c.cel_simulated_comms_create(many, false)
      local function notify(k, first)
        local comm = c.cel_simulated_comms_join(wide, k, 1)
        local mine, all = ffi.new("int[?]", 2 * many), ffi.new("int[?]", 2 * many, 7)
        mine[2 * first], mine[2 * ((first + 1) % many) + 1] = k + 1, -k - 1
        local was, bytes = ffi.new("uint64_t[1]"), ffi.new("uint64_t[1]")
        c.cel_comm_count(was, bytes)
        local status = code(c.cel_comm_notify(comm, mine, 8, all))
        local now = ffi.new("uint64_t[1]")
        c.cel_comm_count(now, bytes)
        n[k] = tonumber(now[0] - was[0])
        c.cel_comm_destroy(comm)
        return status, all
      end
      for k = 0, many - 2 do assert.equal("AGAIN", (notify(k, (k + 1) % many))) end
      local status, all = notify(many - 1, 5)
      assert.equal("OK", status)
      assert.same({ 2, 2 }, { n[0], n[many - 1] })
      local said = {}
      for i = 0, 2 * many - 1 do
        if all[i] ~= 0 then said[#said + 1] = i .. " " .. all[i] end
      end
      -- The ones before it, whose first or second number is for the last one.
      assert.same({ ("%d %d"):format(2 * (many - 3) + 1, -(many - 2)),
        ("%d %d"):format(2 * (many - 2), many - 1) }, said)
      c.cel_simulated_comms_destroy(wide)
    end)

    it("keeps groups apart", function()
      local other = c.cel_simulated_comms_join(world, 1, 2)
      assert.equal("AGAIN", code(c.cel_comm_barrier(comms[0])))
      assert.equal("AGAIN", code(c.cel_comm_barrier(other)))
      assert.equal("OK", code(c.cel_comm_barrier(comms[1])))
      c.cel_comm_destroy(other)
    end)

    it("lets go of who waits when all ends", function()
      assert.equal("AGAIN", say(0, 10))
      c.cel_simulated_comms_end(world)
      comms[0].calls = 0
      assert.equal("CANCELLED", say(0, 10))
    end)
  end)
end)
