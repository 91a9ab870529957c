-- What C types consist of, as LuaJIT knows them.
local ffi = require("ffi")
local fields = require("celer.data.fields")

-- A type as text.
local function text(node)
  if node.of then
    return ("%s%s[%d]"):format(text(node.of), node.plain and "" or "*", node.count)
  elseif not node.fields then
    return (node.class or "?") .. node.size
  end
  local out = {}
  for i, field in ipairs(node.fields) do
    out[i] = ("%s %s@%d"):format(text(field.type), field.name or "-", field.offset)
  end
  return ("%s%d(%s)"):format(node.union and "union" or "struct", node.size,
    table.concat(out, ", "))
end

local function of(declaration) return text(fields.of(ffi.typeof(declaration))) end

describe("celer.fields", function()
  it("tells numbers by class and size", function()
    for declaration, wanted in pairs { bool = "b1", char = "i1", uint16_t = "u2", int = "i4",
      unsigned = "u4", int64_t = "i8", uint64_t = "u8", float = "f4", double = "f8",
      ["const double"] = "f8", ["volatile int"] = "i4", ["enum { A, B }"] = "u4",
      ["long double"] = "?16", ["void *"] = "?8" } do
      assert.equal(wanted, of(declaration), declaration)
    end
  end)

  it("tells arrays from what LuaJIT keeps like them", function()
    assert.equal("f4[3]", of "float[3]")
    assert.equal("i4[2][3]", of "int[3][2]")
    assert.equal("f8*[2]", of "complex double")
    assert.equal("f4*[4]", of "float __attribute__((vector_size(16)))")
  end)

  it("tells fields in order, with those of nameless structs apart", function()
    assert.equal("struct24(i1 c@0, f8 d@8, i4[2] n@16)",
      of "struct { char c; double d; int n[2]; }")
    assert.equal("struct9(i1 c@0, f8 d@1)",
      of "struct __attribute__((packed)) { char c; double d; }")
    assert.equal("struct16(i4 a@0, union4(i4 i@0, f4 f@0) -@4, struct8(f8 x@0) in@8)",
      of "struct { int a; union { int i; float f; }; struct { double x; } in; }")
    assert.equal("struct4(?1 a@0, ?2 b@0, b1 c@2)",
      of "struct { int a : 3; int b : 8; bool c; }")
    assert.equal("struct32(f8 x@0)", of "struct __attribute__((aligned(32))) { double x; }")
  end)
end)
