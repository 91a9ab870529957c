--- fields.lua -- what a C type of the FFI consists of.
local ffi = require "ffi"
local bit = require "bit"

local M = {}

---@class celer.ctype
---@field size integer  bytes
---@field class string?  of a number: i, u, f or b, as in celer.type
---@field of celer.ctype?  of an array's elements
---@field count integer?  of an array
---@field plain boolean?  an array as C has it, neither a complex number nor a vector
---@field fields celer.field[]?  of a struct or union, in order
---@field union boolean?
---@field id integer?  of a struct or union: which one it is

---@class celer.field
---@field name string?  nil: a struct or union whose fields are named as this one's
---@field offset integer  bytes
---@field type celer.ctype

-- Of a C type's `info`, as LuaJIT's lj_ctype.h has them; its `sib` is the first field,
-- and a field's the next one.
local NUM, STRUCT, ARRAY, ENUM, ATTRIBUTE, FIELD, BITFIELD = 0, 1, 3, 5, 8, 9, 10
local BOOL, FLOAT, UNSIGNED, UNION = 0x08000000, 0x04000000, 0x00800000, 0x00800000
local NOT_PLAIN = 0x0c000000 -- of an array: a complex number, or a vector

local function number(info, size)
  local class = bit.band(info, BOOL) ~= 0 and "b" or bit.band(info, FLOAT) ~= 0 and "f"
    or bit.band(info, UNSIGNED) ~= 0 and "u" or "i"
  return { size = size, class = size <= 8 and class or nil }
end

local read

local function struct(info, of)
  local out = { size = of.size, fields = {}, union = bit.band(info, UNION) ~= 0 }
  local id = of.sib
  while id do
    local field = ffi.typeinfo(id)
    local kind = bit.rshift(field.info, 28)
    if kind == FIELD or kind == ATTRIBUTE then
      out.fields[#out.fields + 1] = { name = field.name, offset = field.size,
        type = read(bit.band(field.info, 0xffff)) }
    elseif kind == BITFIELD then -- the bytes that its bits lie in
      local first, bits = bit.band(field.info, 0x7f), bit.band(bit.rshift(field.info, 8), 0x7f)
      out.fields[#out.fields + 1] = { name = field.name, offset = field.size,
        type = { size = math.ceil((first + bits) / 8) } }
    end
    id = field.sib
  end
  return out
end

-- What is neither a number, an array nor a struct, such as a pointer, has a size alone.
function read(id)
  local of = ffi.typeinfo(id)
  local info = of.info
  local kind, inner = bit.rshift(info, 28), bit.band(info, 0xffff)
  if kind == NUM then return number(info, of.size) end
  if kind == STRUCT then
    local out = struct(info, of)
    out.id = id
    return out
  end
  if kind == ATTRIBUTE or kind == ENUM then return read(inner) end
  if kind ~= ARRAY or not of.size then return { size = of.size or 0 } end
  local element = read(inner)
  return { size = of.size, of = element, count = element.size > 0 and of.size / element.size or 0,
    plain = bit.band(info, NOT_PLAIN) == 0 }
end

--- What a C type consists of.
---@param ctype ffi.ctype*
---@return celer.ctype
function M.of(ctype) return read(tonumber(ctype)) end

--- A number of the FFI, such as an int64_t or an enum, as Lua has it; as it is, where Lua has none
--- like it.
---@param x any
---@return any
function M.number(x)
  local n = type(x) == "cdata" and tonumber(x)
  return n and math.abs(n) < 2 ^ 53 and n or x
end

--- The member of a struct, also in structs of it that have no name.
---@param ctype celer.ctype
---@param name string
---@param names? table<string, boolean>  gets those that there are
---@return celer.ctype?
function M.member(ctype, name, names)
  for _, field in ipairs(ctype.fields) do
    if field.name == name then return field.type end
    if field.name and names then names[field.name] = true end
    local inner = not field.name and field.type.fields and M.member(field.type, name, names)
    if inner then return inner end
  end
end

return M
