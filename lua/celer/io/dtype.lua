--- dtype.lua -- element types as NumPy writes them: "'<f4'" or a list of fields.
local ffi = require "ffi"
local types = require "celer.types"

local M = {}

-- Of this machine.
local order = ffi.abi("le") and "<" or ">"
local kinds = { i = "i", u = "u", f = "f", b = "b" }

local function scalar(class, size)
  return ("'%s%s%d'"):format(size == 1 and "|" or order, kinds[class], size)
end

-- ---- fields of structs ------------------------------------------------------

-- The class of a C number type, by what it makes of a value; nil for others.
local function class_of(ctype)
  local ok, value = pcall(ffi.new, ctype, 0.5)
  if not ok or tonumber(value) == nil then return nil end
  if ctype == ffi.typeof("bool") then return "b" end
  if tonumber(value) == 0.5 then return "f" end
  return tonumber(ffi.new(ctype, -1)) < 0 and "i" or "u"
end

---@class celer.io.field
---@field name string
---@field offset integer  bytes
---@field shape integer[]  of an array
---@field class string  as in celer.type
---@field size integer  bytes of one element
---@field fields celer.io.field[]?  of a struct

-- The class, size and fields of a field's C type; or nil.
local function member(spelling)
  local known = types.named((spelling:gsub("^struct ", "")))
  if known then
    local fields = known.class == "s" and M.fields(known) or nil
    if known.class ~= "s" or fields then return known.class, known.size, fields end
    return nil
  end
  local ok, ctype = pcall(ffi.typeof, spelling)
  local class = ok and class_of(ctype)
  if class then return class, ffi.sizeof(ctype) end
end

local vectors = { "x", "x, y", "x, y, z", "x, y, z, w" }

-- The C text of its fields; CUDA's vectors have it here.
local function text_of(type_)
  if type_.fields then return type_.fields end
  local base, n = type_.name:match("^(%a+)([234])$")
  return ("%s %s;"):format(base == "uint" and "unsigned" or base, vectors[tonumber(n)])
end

-- The name and shape of one declarator, "name" or "name[n][m]"; or nil.
local function declarator(text)
  local name, array = text:match("^%s*([%a_][%w_]*)%s*(.-)%s*$")
  if not name or array:gsub("%[%s*%d+%s*%]", ""):find("%S") then return nil end
  local shape = {}
  for n in array:gmatch("%d+") do shape[#shape + 1] = tonumber(n) end
  return name, shape
end

-- Appends the fields of one declaration to `out`; whether all was understood.
local function declaration(text, ctype, out)
  local words, names = text:match("^%s*(.-)%s+([%a_][%w_]*%s*[%[,].*)$")
  if not words then words, names = text:match("^%s*(.-)%s+([%a_][%w_]*)%s*$") end
  local class, size, fields = member((words or ""):gsub("%s+", " "))
  if not class then return false end
  for one in names:gmatch("[^,]+") do
    local name, shape = declarator(one)
    local offset = name and ffi.offsetof(ctype, name)
    if not offset then return false end
    out[#out + 1] = { name = name, offset = offset, shape = shape, class = class,
      size = size, fields = fields }
  end
  return true
end

local function extent(field)
  local n = field.size
  for _, count in ipairs(field.shape) do n = n * count end
  return n
end

--- The fields of a struct in order; nil where some are not plain, such as bit
--- fields and unions.
---@param type_ celer.type
---@return celer.io.field[]?
function M.fields(type_)
  local out, at = {}, 0
  for text in text_of(type_):gsub("/%*.-%*/", " "):gmatch("[^;]+") do
    if text:find("%S") and not declaration(text, type_.ctype, out) then return nil end
  end
  for _, field in ipairs(out) do
    if field.offset < at then return nil end
    at = field.offset + extent(field)
  end
  return out
end

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
