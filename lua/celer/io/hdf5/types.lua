--- types.lua -- the types of elements, as HDF5 has them.
local ffi = require "ffi"
local dtype = require "celer.io.dtype"

local M = {}

local INTEGER, FLOAT, STRING, COMPOUND, ENUM, ARRAY = 0, 1, 3, 6, 8, 10

--- How strings are described, which no buffer holds.
M.STRING = "string"

---@class celer.io.kind
---@field class string  as in celer.type
---@field size integer
---@field fields celer.io.field[]?

--- What describes the elements of a type to `make`; nil for a struct whose
--- fields are not plain.
---@param type_ celer.type
---@return celer.io.kind?
function M.kind(type_)
  local fields = type_.class == "s" and dtype.fields(type_) or nil
  if type_.class == "s" and not fields then return nil end
  return { class = type_.class, size = type_.size, fields = fields }
end

local function boolean(H, keep)
  local id, value = keep(H.H5Tenum_create(H.H5T_NATIVE_INT8_g), H.H5Tclose),
    ffi.new("int8_t[1]")
  for i, name in ipairs { "FALSE", "TRUE" } do
    value[0] = i - 1
    H.H5Tenum_insert(id, name, value)
  end
  return id
end

local make_type

local function compound(H, keep, kind)
  local id = keep(H.H5Tcreate(COMPOUND, kind.size), H.H5Tclose)
  for _, field in ipairs(kind.fields) do
    local member = make_type(H, keep, field)
    local n = #field.shape
    if n > 0 then
      member = keep(H.H5Tarray_create2(member, n, ffi.new("uint64_t[?]", n, field.shape)),
        H.H5Tclose)
    end
    H.H5Tinsert(id, field.name, field.offset, member)
  end
  return id
end

--- An id that `keep` closes, or one of the library's own.
---@param kind celer.io.kind
function make_type(H, keep, kind)
  if kind.class == "b" then return boolean(H, keep) end
  if kind.class == "s" then return compound(H, keep, kind) end
  if kind.class == "f" then
    return kind.size == 4 and H.H5T_NATIVE_FLOAT_g or H.H5T_NATIVE_DOUBLE_g
  end
  return H[("H5T_NATIVE_%sINT%d_g"):format(kind.class == "u" and "U" or "", kind.size * 8)]
end

M.make = make_type

-- A number in Python's words.
local function number_text(H, id, letter)
  local size = tonumber(H.H5Tget_size(id))
  local order = size == 1 and "|" or H.H5Tget_order(id) == 0 and "<" or ">"
  return ("'%s%s%d'"):format(order, letter, size)
end

local describe

-- The fields of a compound in Python's words.
local function record_text(H, keep, id)
  local out, at = {}, 0
  local function pad(to)
    if to > at then out[#out + 1] = ("('', '|V%d')"):format(to - at) end
  end
  for i = 0, H.H5Tget_nmembers(id) - 1 do
    local offset = tonumber(H.H5Tget_member_offset(id, i))
    local member = keep(H.H5Tget_member_type(id, i), H.H5Tclose)
    local raw = H.H5Tget_member_name(id, i)
    local text, shape = describe(H, keep, member)
    pad(offset)
    out[#out + 1] = ("('%s', %s%s)"):format(ffi.string(raw), text, shape or "")
    at = offset + tonumber(H.H5Tget_size(member))
    H.H5free_memory(raw)
  end
  pad(tonumber(H.H5Tget_size(id)))
  return "[" .. table.concat(out, ", ") .. "]"
end

local function array_text(H, keep, id)
  local n = H.H5Tget_array_ndims(id)
  local dims, words = ffi.new("uint64_t[?]", n), {}
  H.H5Tget_array_dims2(id, dims)
  for d = 1, n do words[d] = ("%d"):format(tonumber(dims[d - 1])) end
  local text = describe(H, keep, keep(H.H5Tget_super(id), H.H5Tclose))
  return text, (", (%s%s)"):format(table.concat(words, ", "), n == 1 and "," or "")
end

--- A type in Python's words, as dtype.find takes it, and an array's shape.
function describe(H, keep, id)
  local class = H.H5Tget_class(id)
  if class == INTEGER then
    return number_text(H, id, H.H5Tget_sign(id) == 0 and "u" or "i")
  elseif class == FLOAT then return number_text(H, id, "f")
  elseif class == ENUM and H.H5Tget_nmembers(id) == 2 and H.H5Tget_size(id) == 1 then
    return "'|b1'"
  elseif class == STRING then return M.STRING
  elseif class == COMPOUND then return record_text(H, keep, id)
  elseif class == ARRAY then return array_text(H, keep, id) end
  return ("HDF5 type of class %d"):format(class)
end
M.describe = describe

return M
