-- Which thread may be where: what has said nothing may be anywhere.
local c = require("spec.support.cdef")("base/confined.h")

describe("a thread", function()
  after_each(function() c.cel_thread_act("CEL_THREAD_ANY") end)

  it("may be anywhere until it says what it is", function()
    for _, kind in ipairs { "MAIN", "SCHEDULER", "EXECUTOR", "WORKER" } do
      assert.is_true(c.cel_thread_may(c["CEL_THREAD_" .. kind]))
    end
  end)

  it("may then be where its kind may be, alone or with others", function()
    c.cel_thread_act("CEL_THREAD_EXECUTOR")
    assert.is_true(c.cel_thread_may(c.CEL_THREAD_EXECUTOR))
    assert.is_true(c.cel_thread_may(c.CEL_THREAD_EXECUTOR + c.CEL_THREAD_MAIN))
    assert.is_false(c.cel_thread_may(c.CEL_THREAD_MAIN))
    assert.is_false(c.cel_thread_may(c.CEL_THREAD_MAIN + c.CEL_THREAD_SCHEDULER))
  end)

  it("may act as another for a while", function()
    c.cel_thread_act("CEL_THREAD_MAIN")
    local before = c.cel_thread_act("CEL_THREAD_SCHEDULER")
    assert.is_false(c.cel_thread_may(c.CEL_THREAD_MAIN))
    c.cel_thread_act(before)
    assert.is_true(c.cel_thread_may(c.CEL_THREAD_MAIN))
  end)
end)
