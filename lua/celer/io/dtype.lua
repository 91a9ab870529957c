--- dtype.lua -- element types as NumPy writes them: "'<f4'" or a list of fields.
local ffi = require "ffi"
local fields_of = require("celer.data.fields").of
local types = require "celer.data.types"

local M = {}

-- Of this machine.
local order = ffi.abi("le") and "<" or ">"
local kinds = { i = "i", u = "u", f = "f", b = "b" }

local function scalar(class, size)
  return ("'%s%s%d'"):format(size == 1 and "|" or order, kinds[class], size)
end

-- ---- fields of structs ------------------------------------------------------

---@class celer.io.field
---@field name string
---@field offset integer  bytes
---@field shape integer[]  of an array
---@field class string  as in celer.type
---@field size integer  bytes of one element
---@field fields celer.io.field[]?  of a struct

local function extent(field)
  local n = field.size
  for _, count in ipairs(field.shape) do n = n * count end
  return n
end

-- The fields of a struct as files know them; nil where some are not plain.
local function plain_fields(node)
  local out, at = {}, 0
  for i, field in ipairs(node.fields) do
    local inner, shape = field.type, {}
    while inner.plain do
      shape[#shape + 1], inner = inner.count, inner.of
    end
    local fields = inner.fields and plain_fields(inner)
    if not field.name or field.offset < at or not (inner.class or fields) then return nil end
    out[i] = { name = field.name, offset = field.offset, shape = shape,
      class = inner.class or "s", size = inner.size, fields = fields }
    at = field.offset + extent(out[i])
  end
  return not node.union and out or nil
end

--- The fields of a struct in order; nil where some are not plain, such as bit
--- fields and unions.
---@param type_ celer.type
---@return celer.io.field[]?
function M.fields(type_) return plain_fields(fields_of(type_.ctype)) end

local function pad(out, bytes)
  if bytes > 0 then out[#out + 1] = ("('', '|V%d')"):format(bytes) end
end

--- A list of fields in Python's words.
---@param fields celer.io.field[]
---@param size integer  of the struct
function M.record(fields, size)
  local out, at = {}, 0
  for _, field in ipairs(fields) do
    pad(out, field.offset - at)
    at = field.offset + extent(field)
    local base = field.fields and M.record(field.fields, field.size)
      or scalar(field.class, field.size)
    local shape = table.concat(field.shape, ", ")
    out[#out + 1] = ("('%s', %s%s)"):format(field.name, base, #field.shape == 0 and ""
      or (", (%s%s)"):format(shape, #field.shape == 1 and "," or ""))
  end
  pad(out, size - at)
  return "[" .. table.concat(out, ", ") .. "]"
end

--- The type in Python's words; nil for a struct whose fields are not plain.
---@param type_ celer.type
---@return string?
function M.describe(type_)
  if type_.class ~= "s" then return scalar(type_.class, type_.size) end
  local fields = M.fields(type_)
  return fields and M.record(fields, type_.size)
end

--- Bytes without a meaning, as many as the type has.
function M.opaque(type_) return ("'|V%d'"):format(type_.size) end

-- ---- the other way ----------------------------------------------------------

local default = { b1 = "bool", i1 = "int8_t", i2 = "int16_t", i4 = "int", i8 = "int64_t",
  u1 = "uint8_t", u2 = "uint16_t", u4 = "unsigned", u8 = "uint64_t", f4 = "float",
  f8 = "double", c8 = "float2", c16 = "double2" }
local complex = { float2 = "c8", double2 = "c16" }

-- How to give the type of a record: CUDA's vectors are such, too.
local function type_to_give(descr)
  for _, element in ipairs { "int", "uint", "float", "double" } do
    for n = 2, 4 do
      local name = element .. n
      if M.describe(types.find(name)) == descr then
        return ('{type = "%s"}, or {type = celer.struct(...)}'):format(name)
      end
    end
  end
  return "{type = celer.struct(...)}"
end

--- The element type for what a file holds, in Python's words; `wanted` is the
--- user's, if any. Or nil and why not.
---@param descr string
---@param wanted celer.type?
---@return celer.type? type, string? fault
function M.find(descr, wanted)
  local byte_order, code = descr:match("^'([<>=|])(%a%d+)'$")
  if byte_order and byte_order ~= order and byte_order ~= "|" and byte_order ~= "=" then
    return nil, ("its elements %s are byte-swapped on this machine; save it as "
      .. "'%s%s'"):format(descr, order, code)
  end
  local name = code and default[code]
  if not wanted then
    if name then return types.find(name) end
    return nil, descr:find("^%[")
      and ("its elements are structs, %s; give the type: %s"):format(descr,
        type_to_give(descr))
      or ("no element type is like its %s"):format(descr)
  end
  if descr == M.describe(wanted) or (code and complex[wanted.name] == code)
    or descr == M.opaque(wanted) then
    return wanted
  end
  return nil, ("it holds %s%s, not %s, which is %s"):format(descr,
    name and (" (%s)"):format(name) or "", wanted.name,
    M.describe(wanted) or M.opaque(wanted))
end

return M
