-- Accesses that are late: what words say that an earlier task writes.
local ffi = require("ffi")
local machine = require("spec.instr.machine")
local program = require("spec.task.program")
local c = require("spec.support.cdef")("task/late.h")
jit.off(true, true)

local same, all = program.same, program.all
local FAR = 2 ^ 53

-- Words: `before` of no account, then pieces; and who keeps them.
local function late_of(before, ...)
  local pieces = { ... }
  local n = before + 1 + 4 * #pieces
  local words = ffi.new("int64_t[?]", n, -7)
  words[before] = #pieces
  for i, piece in ipairs(pieces) do
    for k = 1, 4 do words[before + 4 * (i - 1) + k] = piece[k] end
  end
  local late = ffi.new("cel_late")
  c.cel_late_init(late, 1000, nil)
  late.word, late.words = words, n
  return late, words
end

local function box(lo, hi, low, high)
  return ffi.new("cel_box", { { lo, low or 0, 0 }, { hi, high or 1, 1 } })
end

describe("what is late", function()
  it("is the rows of the pieces that a chunk meets, within the buffer", function()
    local late, words = late_of(3, { 0, 10, 5, 7 }, { 10, 20, 30, 90 }, { -FAR, FAR, 6, 9 })
    local region = ffi.gc(ffi.new("cel_region"), c.cel_region_release)
    local function rows(lo, hi)
      local out = {}
      c.cel_late_eval(late, 3, box(lo, hi), box(0, 40, 0, 2), region)
      for i = 0, region.n - 1 do
        local at = region.at[i]
        assert.equal(2, tonumber(at.max[1] - at.min[1]))
        out[#out + 1] = ("%d:%d"):format(tonumber(at.min[0]), tonumber(at.max[0]))
      end
      return table.concat(out, " ")
    end
    assert.equal("5:9", rows(0, 10))
    assert.equal("5:9 30:40", rows(9, 11))
    assert.equal("6:9 30:40", rows(10, 11))
    assert.equal("6:9", rows(20, 25))
    -- No more pieces than there are words for, whatever the number says.
    words[3] = 99
    assert.equal("5:9 30:40", rows(0, 20))
    words[3] = -1
    assert.equal("", rows(0, 20))
    c.cel_late_eval(late, 99, box(0, 1), box(0, 40), region)
    assert.equal(0, region.n)
  end)

  it("is known once it is told", function()
    local late, words = late_of(0)
    assert.is_false(c.cel_late_is_known(late))
    c.cel_late_tell(late)
    assert.is_true(c.cel_late_is_known(late))
    local other = late_of(0)
    assert.not_equal(late.number, other.number)
    assert.truthy(words)
  end)
end)

describe("an access that is late", function()
  local m = machine.each()

  it("has devices get what the words say, and tasks depend on all of it", function()
    m:open({ devices = { 1, 2 } })
    local x, y = m:buffer({ 64 }), m:buffer({ 64 })
    m:fill(x, { 64 })
    local late, words = late_of(0, { 0, 32, 40, 42 }, { 32, 64, 3, 4 })
    c.cel_late_tell(late)
    local t = m:submit({ range = { 64 }, { x, "read", all(1), { late = late } },
      { y, "discard_write", same(1) } })
    local found = {}
    for _, copy in ipairs(m:of("copy", t)) do found[#found + 1] = copy.box:match("^%S+") end
    table.sort(found)
    assert.same({ "3:4", "40:42" }, found)
    local kernels = m:of("kernel", t)
    assert.equal("40:42 0:1 0:1", kernels[1].views[1].box)
    assert.equal("3:4 0:1 0:1", kernels[2].views[1].box)
    assert.truthy(words)
  end)
end)
