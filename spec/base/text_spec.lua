-- Strings that are put together. Headers hide them from FFI, as they are variadic and
-- take a type that is made by a macro.
local ffi = require("ffi")
local c = require("spec.support.cdef")("base/status.h")

ffi.cdef [[
void cel_text_append(char *text, size_t size, const char *format, ...);
struct a_text { char *at; uint32_t n, cap; };
void cel_text_format(struct a_text *text, const char *format, ...);
void cel_text_add(struct a_text *text, const char *data, size_t size);
void free(void *);
]]

local function int(n) return ffi.cast("int", n) end

describe("cel_text_append", function()
  local function appended(size, ...)
    local room = ffi.new("char[32]", "u")
    ffi.fill(room + size, 32 - size, 0x7f) -- none of our business
    for _, piece in ipairs { ... } do c.cel_text_append(room, size, "%s%d", piece, int(7)) end
    for i = size, 31 do assert.equal(0x7f, room[i]) end
    return ffi.string(room)
  end

  it("appends what fits", function()
    assert.equal("u, v7 and w7", appended(13, ", v", " and w"))
  end)

  it("leaves out what does not", function()
    assert.equal("u, v7 and w", appended(12, ", v", " and w"))
    assert.equal("u, v7 and w", appended(12, ", v", " and w", "x"))
    assert.equal("u", appended(2, "v"))
  end)

  it("leaves a string alone that is longer than its part of the room", function()
    local room = ffi.new("char[32]", "longer")
    c.cel_text_append(room, 3, "%s", "x")
    assert.equal("longer", ffi.string(room))
  end)
end)

describe("cel_text_format", function()
  it("grows with what it is given, short or long", function()
    local text, expected = ffi.new("struct a_text"), {}
    for n = 0, 1400, 35 do
      local piece = ("x"):rep(n) .. "|"
      c.cel_text_format(text, "%s%d", piece, int(n))
      c.cel_text_add(text, ",", 1)
      expected[#expected + 1] = piece .. n .. ","
    end
    assert.equal(table.concat(expected), ffi.string(text.at, text.n))
    assert.equal(0, text.at[text.n])
    c.free(text.at)
  end)
end)
