-- Memory that dies together.
local ffi = require("ffi")
local c = require("spec.support.cdef")("base/arena.h")

describe("an arena", function()
  local arena

  before_each(function()
    arena = ffi.new("cel_arena")
    c.cel_arena_init(arena)
  end)

  after_each(function() c.cel_arena_release(arena) end)

  local piece = ffi.new("char[?]", 2 ^ 20)

  -- An era: many short pieces, and a long one among them.
  local function fill(long, before)
    for i = 1, 100 do
      if i == before then c.cel_arena_copy(arena, piece, long) end
      c.cel_arena_copy(arena, piece, 1000)
    end
    c.cel_arena_clear(arena)
    return tonumber(c.cel_arena_bytes(arena))
  end

  it("keeps its blocks for the next era", function()
    local bytes = fill(50000, 10)
    assert.equal(bytes, fill(50000, 10))
    assert.equal(bytes, fill(50000, 10))
  end)

  it("keeps one long block, though each era's long piece is longer or elsewhere", function()
    local bytes = fill(50000, 10)
    for era = 1, 200 do
      assert.is_true(fill(50000 + 16 * era, 1 + 7 * era % 100) < 2 * bytes)
    end
  end)
end)
