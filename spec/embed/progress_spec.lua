-- What the progress line says.
local ffi = require("ffi")
local c = require("spec.support.cdef")("embed/progress.h")

local S = 1000000000

describe("the progress line", function()
  local function text(state, loop)
    state = ffi.new("cel_progress_state", state)
    if loop then state.loop = ffi.new("cel_progress_loop", loop) end
    local out = ffi.new("char[300]")
    c.cel_progress_text(state, out, 300)
    return ffi.string(out)
  end

  it("tells tasks, how fast they are executed, and what was moved", function()
    assert.equal("12 of 40 tasks, 250/s, 1.5 KiB moved",
      text { tasks = 40, done = 12, rate = 250.4, bytes = 1536 })
    assert.equal("0 of 4 tasks, 2.5/s, 0 bytes moved", text { tasks = 4, rate = 2.5 })
    assert.equal("0 of 4 tasks, 0.04/s, 0 bytes moved", text { tasks = 4, rate = 0.04 })
    assert.equal("0 of 4 tasks, 0 bytes moved", text { tasks = 4, rate = -1 })
  end)

  it("tells that the script waits for a compiler", function()
    assert.equal("compiling kernels", text { compiling = true })
    assert.equal("3 of 4 tasks, 0.0/s, 0 bytes moved, compiling kernels",
      text { tasks = 4, done = 3, compiling = true })
  end)

  -- A loop of 100 steps that began with task 10 submitted, at 5 s.
  local function loop_text(step, at_task, done, now)
    return text({ tasks = at_task, done = done, rate = 1, now = now * S },
      { steps = 100, step = step, first_task = 10, at_task = at_task, begin = 5 * S }):match(
      "moved(.*)$")
  end

  it("counts steps of a loop that have been executed, not those submitted", function()
    assert.equal(", step 10 of 100, 1 min 30 s left", loop_text(40, 90, 30, 15))
    assert.equal(", step 40 of 100, 15 s left", loop_text(40, 90, 90, 15))
    assert.equal(", step 40 of 100, 4 h 10 min left", loop_text(40, 90, 95, 10005))
  end)

  it("knows nothing of the time that is left before a step has been executed", function()
    assert.equal(", step 0 of 100", loop_text(0, 10, 10, 6))
    assert.equal(", step 0 of 100", loop_text(40, 90, 7, 15))
  end)

  it("knows of a loop that the script has left until all of it has been executed", function()
    assert.equal(", step 75 of 100, 5 s left", loop_text(100, 90, 70, 20))
    assert.equal("", loop_text(100, 90, 90, 25))
    assert.equal("", loop_text(100, 90, 95, 25))
  end)

  it("takes steps that submit nothing as executed", function()
    assert.equal(", step 50 of 100, 10 s left", loop_text(50, 10, 10, 15))
  end)

  -- A loop over a time, of which 0.2 had passed when it began, at 5 s.
  local function time_text(share, now)
    return text({ tasks = 9, done = 3, rate = 1, now = now * S }, { measured = true, steps = 1000,
      step = share * 1000, first = 200, begin = 5 * S }):match("moved(.*)$")
  end

  it("tells which share of a time has passed, and how long the rest takes", function()
    assert.equal(", 60.0 %, 10 s left", time_text(0.6, 15))
    assert.equal(", 20.0 %", time_text(0.2, 15))
    assert.equal("", time_text(1, 15))
  end)
end)
