-- When the executor has been out of work for too long, and too often.
local ffi = require("ffi")
local c = require("spec.support.cdef")("runtime/idle.h")

local MS = 1000000

describe("an executor out of work", function()
  local idle, text
  before_each(function() idle, text = ffi.new("cel_idle"), ffi.new("char[256]") end)

  -- So many gaps, each followed by work; how often it was said, and what.
  local function run(gaps, gap_ms, work_ms, now)
    local said = 0
    now = now or MS
    for _ = 1, gaps do
      c.cel__idle_begin(idle, now)
      c.cel__idle_begin(idle, now + gap_ms * MS / 2) -- still the same
      now = now + gap_ms * MS
      if c.cel__idle_end(idle, now, text, 256) then said = said + 1 end
      now = now + work_ms * MS
    end
    return said, ffi.string(text), now
  end

  it("is told of once", function()
    local said, words = run(5000, 3, 1)
    assert.equal(1, said)
    assert.equal("nothing was computed in 75 % of the last 2.7 s, because tasks were carried out "
      .. "faster than the script submits them: give each more to do, or submit fewer", words)
  end)

  it("may be for most of the time if that is short, or for less than half of a long one",
    function()
      assert.equal(0, (run(450, 6, 0.1)))
      idle = ffi.new("cel_idle")
      assert.equal(0, (run(5000, 0.3, 0.1)))
      idle = ffi.new("cel_idle")
      assert.equal(0, (run(20000, 3, 3.1)))
    end)

  it("may be for long, as while kernels compile", function()
    local said, _, now = run(400, 3, 1)
    said, now = said + run(3, 3000, 1, now), now + 9003 * MS
    assert.equal(0, said)
    local words
    said, words = run(5000, 3, 1, now) -- in the rest of the time it is told of
    assert.equal(1, said)
    assert.matches("^nothing was computed in 74 %% of the last 2%.7 s", words)
  end)

  it("may be while main waits", function()
    for i = 1, 5000 do
      c.cel__idle_begin(idle, 4 * i * MS)
      c.cel__idle_forget(idle)
      assert.is_false(c.cel__idle_end(idle, (4 * i + 3) * MS, text, 256))
    end
  end)
end)
