-- What one rank has and others pass on.
local program = require("spec.task.program")
local asked = require("spec.command.exchanges")
local exchanges, new, write, read_all =
  asked.exchanges, asked.new, asked.write, asked.read_all

describe("broadcast trees", function()
  -- Who sends to whom, as "0>1 0>4".
  local function sent(r, task)
    local list = {}
    for k = 0, r.n - 1 do
      for _, m in ipairs(r:messages_of(k, "push", task)) do
        list[#list + 1] = ("%d>%d"):format(k, m.peer)
      end
    end
    return table.concat(list, " ")
  end

  it("leave what few ranks read, or is large, to these to pass on", function()
    local r = new(16, { small_bytes = 64, tree_least = 4 })
    local u = r:buffer({ 16 })
    write(r, u, 16, "once")
    local t = r:submit { range = { 7 }, { u, "read", program.all(1) } }
    assert.equal("0>4 0>1 1>3 1>2 4>6 4>5", sent(r, t))
    assert.same({}, exchanges(r, 1, t))
    assert.equal(0, #r:messages(9, "await_push", t))
    local again = r:submit { range = { 7 }, { u, "read", program.all(1) } }
    assert.equal("", sent(r, again))
    -- What rank 9 alone has of what all have written.
    write(r, u, 16)
    local part = r:submit { range = { 5 }, { u, "read", { { { 9, 10 } } } } }
    assert.equal("0>2 0>1 3>4 9>3 9>0", sent(r, part))
    assert.equal("true", r:of(3, "push", part)[1].deps[r:of(3, "await_push", part)[1].id])
    -- Much that all read: two messages for each rank at most, however many.
    write(r, u, 16, "once")
    local all = read_all(r, u, 16)
    for k = 0, 15 do
      assert.is_true(#r:messages(k, "push", all) <= 2)
      assert.equal(k == 0 and 0 or 1, #r:messages(k, "await_push", all))
    end
    assert.same({}, exchanges(r, 1, all))
  end)

  it("leave few readers to the one that has it", function()
    local r = new(8, { small_bytes = 64 })
    local u = r:buffer({ 16 })
    write(r, u, 16, "once")
    assert.equal("0>1 0>2 0>3 0>4 0>5 0>6 0>7", sent(r, read_all(r, u, 16)))
  end)

  it("pass what is large on from three readers on, where ranks are on several hosts", function()
    local r = new(8, { small_bytes = 64, several_hosts = true })
    local u = r:buffer({ 16 })
    write(r, u, 16, "once")
    assert.equal("0>5 0>1 1>4 1>2 2>3 5>7 5>6", sent(r, read_all(r, u, 16)))
    local few = r:buffer({ 4 })
    write(r, few, 4, "once")
    local t = r:submit { range = { 3 }, { few, "read", program.all(1) } }
    assert.equal("0>1 0>2", sent(r, t))
  end)

  it("leave many small boxes to messages that take all along", function()
    local r = new(4, { small_bytes = 64, tree_least = 2 })
    local u = r:buffer({ 40 })
    for i = 0, 39, 2 do -- every second one by rank 0, in a task of its own
      r:submit { range = { 1 }, { u, "discard_write", { { { i, i + 1 } } } } }
    end
    local t = r:submit { range = { 3 }, { u, "read", program.all(1) } }
    assert.equal("0>1 0>2", sent(r, t))
  end)
end)
