-- What ranks find out about each other's clocks, through clocks_check; and what
-- clock is here.
local celer = require("spec.support.celer")
local ffi = require("ffi")
local c = require("spec.support.cdef")("comm/clocks.h")

describe("clocks", function()
  it("of other hosts are known as well as the answer was fast", function()
    local program = celer.command():gsub("celer$", "clocks_check")
    for _ = 1, 20 do
      local r = celer.exec({ program })
      assert.same({ 0, "checked\n", "" }, { r.status, r.stdout, r.stderr })
    end
  end)

  it("of one host are one", function()
    local a, b = ffi.new("cel_clock"), ffi.new("cel_clock")
    c.cel_clock_here(a)
    c.cel_clock_here(b)
    assert.is_true(#ffi.string(a.host) > 30)
    assert.equal(ffi.string(a.host), ffi.string(b.host))
    local before = tonumber(a.now(nil))
    assert.is_true(tonumber(b.now(nil)) - before < 1e9)
  end)
end)
