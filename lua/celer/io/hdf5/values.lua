--- values.lua -- numbers, strings and booleans beside the buffers of an HDF5 file: the
--- attributes of files and datasets, and strings as datasets.
---
--- They are stored as h5py stores Python's: doubles and whole numbers of 64 bits, UTF-8
--- strings of any length, and booleans as an enumeration.
local ffi = require "ffi"
local library = require "celer.io.hdf5.library"
local reals = require "celer.data.reals"
local tables = require "celer.tables"
local types = require "celer.io.hdf5.types"
local celer_types = require "celer.data.types"
local words = require "celer.words"

local M = {}

local INTEGER, FLOAT, STRING, ENUM = 0, 1, 3, 8 -- H5T_class_t
local SCALAR, UTF8 = 0, 1
local VARIABLE = 0xffffffffffffffffULL -- H5T_VARIABLE
local MOST_BYTES = 64000 -- of an attribute: HDF5 keeps it in the object's header
local WHOLE = 2 ^ 53 -- up to here every whole number is a Lua number

---@alias celer.io.plain number|string|boolean|ffi.cdata*

---@class celer.io.value
---@field kind "f8"|"i8"|"u8"|"b"|"s"
---@field values celer.io.plain[]
---@field list boolean  false: a single one

---@class celer.io.attribute : celer.io.value
---@field name string

-- ---- what a script gives ----------------------------------------------------

local kinds = { number = "f8", string = "s", boolean = "b" }

local function kind_of(value)
  if type(value) == "cdata" then
    return ffi.istype("int64_t", value) and "i8" or ffi.istype("uint64_t", value) and "u8" or nil
  end
  return kinds[type(value)]
end
M.kind_of = kind_of

-- Why the elements of a list cannot be stored together, or nil.
local function list_fault(list)
  local n = 0
  for _ in tables.each(list) do n = n + 1 end
  if n == 0 then return "is an empty table, which has no type" end
  for i = 1, n do
    local value = list[i]
    if value == nil then return "is a table with keys other than 1, 2, 3, ..." end
    if not kind_of(value) then return "has an element that is " .. words.a(value) end
    if kind_of(value) ~= kind_of(list[1]) then return "has elements of different types" end
  end
end

--- A number, string or boolean, or a list of one of them; or nil and why it cannot be
--- stored.
---@return celer.io.value? value, string? fault
function M.new(value)
  local list = type(value) == "table" and not getmetatable(value)
  if not list and not kind_of(value) then return nil, "is " .. words.a(value) end
  local fault = list and list_fault(value)
  if fault then return nil, fault end
  local out = { kind = kind_of(list and value[1] or value), list = list, values = {} }
  for i = 1, list and #value or 1 do
    local one = value
    if list then one = value[i] end
    if out.kind == "s" and one:find("%z") then return nil, "has a zero byte in it" end
    out.values[i] = one
  end
  return out
end

local function name_fault(name)
  if type(name) ~= "string" then return words.a(name) end
  return name == "" and "an empty string" or name:find("%z") and ("%q"):format(name) or nil
end

--- The attributes that a table gives; or nil and why not.
---@param given table<string, any>
---@return celer.io.attribute[]? attributes, string? fault
function M.attributes(given)
  if type(given) ~= "table" or getmetatable(given) then
    return nil, "attributes must be a table such as {dt = 0.1, unit = \"m\"}, not "
      .. words.a(given)
  end
  local out = {}
  for name, value in tables.sorted_pairs(given) do
    local fault = name_fault(name)
    if fault then return nil, "the name of an attribute must be a string, not " .. fault end
    local made
    made, fault = M.new(value)
    if not made then
      return nil, ("attribute '%s' %s; an attribute is a number, string or boolean, or a "
        .. "list of one of these"):format(name, fault)
    elseif #made.values * 16 > MOST_BYTES then
      return nil, ("attribute '%s' has %d elements, and %d are the most; a buffer can be a "
        .. "dataset"):format(name, #made.values, MOST_BYTES / 16)
    end
    made.name = name
    out[#out + 1] = made
  end
  return out
end

-- ---- writing ----------------------------------------------------------------

local function string_type(H, keep)
  local id = keep(H.H5Tcopy(H.H5T_C_S1_g), H.H5Tclose)
  H.H5Tset_size(id, VARIABLE)
  H.H5Tset_cset(id, UTF8)
  return id
end

local ctypes = { f8 = "double[?]", i8 = "int64_t[?]", u8 = "uint64_t[?]", b = "int8_t[?]",
  s = "const char *[?]" }

-- HDF5's type and space of a value, and its elements in memory, which live as long as
-- the value's do.
local function stored(H, keep, value)
  local n = #value.values
  local data = ffi.new(ctypes[value.kind], n)
  for i, one in ipairs(value.values) do
    if value.kind == "b" then one = one and 1 or 0 end
    data[i - 1] = one
  end
  local id = value.kind == "s" and string_type(H, keep)
    or types.make(H, keep, { class = value.kind:sub(1, 1), size = 8 })
  local space = keep(value.list and H.H5Screate_simple(1, ffi.new("uint64_t[1]", n), nil)
    or H.H5Screate(SCALAR), H.H5Sclose)
  return id, space, data
end

--- Sets an attribute of an object; why HDF5 refuses that, or nil.
---@param object ffi.cdata*
---@param attribute celer.io.attribute
function M.set(H, object, attribute)
  return library.scope(function(keep)
    if H.H5Aexists(object, attribute.name) > 0 then H.H5Adelete(object, attribute.name) end
    local type_, space, data = stored(H, keep, attribute)
    local id = keep(H.H5Acreate2(object, attribute.name, type_, space, 0, 0), H.H5Aclose)
    if not id or H.H5Awrite(id, type_, data) < 0 then return library.reason(H) end
  end)
end

--- Makes a dataset of a value; why HDF5 refuses that, or nil.
---@param links ffi.cdata*  how its name is made
---@param value celer.io.value
function M.create(H, keep, file, name, links, value)
  local type_, space, data = stored(H, keep, value)
  local id = keep(H.H5Dcreate2(file, name, type_, space, links, 0, 0), H.H5Dclose)
  if not id or H.H5Dwrite(id, type_, 0, 0, 0, data) < 0 then return library.reason(H) end
end

-- ---- reading ----------------------------------------------------------------

local readers = {}

readers[FLOAT] = function(H, _, _, n, read)
  local data, double = ffi.new("double[?]", n), celer_types.find("double")
  return read(H.H5T_NATIVE_DOUBLE_g, data), function(i) return reals.load(double, data, i) end
end

readers[INTEGER] = function(H, _, type_, n, read)
  local unsigned = H.H5Tget_sign(type_) == 0
  local data = ffi.new(unsigned and "uint64_t[?]" or "int64_t[?]", n)
  local id = unsigned and H.H5T_NATIVE_UINT64_g or H.H5T_NATIVE_INT64_g
  return read(id, data), function(i)
    local number = tonumber(data[i])
    return math.abs(number) < WHOLE and number or data[i]
  end
end

readers[ENUM] = function(H, keep, type_, n, read)
  if types.describe(H, keep, type_) ~= "'|b1'" then return nil end
  local data = ffi.new("int8_t[?]", n)
  return read(type_, data), function(i) return data[i] ~= 0 end
end

-- Each of a fixed length, which zeros fill up.
local function read_fixed(H, type_, n, read)
  local size = tonumber(H.H5Tget_size(type_))
  local data = ffi.new("char[?]", n * size)
  return read(type_, data), function(i)
    return (ffi.string(data + i * size, size):gsub("%z.*$", ""))
  end
end

readers[STRING] = function(H, _, type_, n, read, space)
  if H.H5Tis_variable_str(type_) <= 0 then return read_fixed(H, type_, n, read) end
  local data, out = ffi.new("char *[?]", n), {}
  local ok = read(type_, data)
  for i = 0, ok and n - 1 or -1 do out[i] = data[i] == nil and "" or ffi.string(data[i]) end
  if ok then H.H5Dvlen_reclaim(type_, space, 0, data) end
  return ok, function(i) return out[i] end
end

-- The value of an attribute or a dataset: a list where it has a dimension. Nil: it is
-- none that Lua has, or cannot be read.
local function value_of(H, keep, type_, space, read)
  local n = tonumber(H.H5Sget_simple_extent_npoints(space))
  local reader = readers[H.H5Tget_class(type_)]
  if not reader then return nil end
  local ok, at = reader(H, keep, type_, n, read, space)
  if not ok then return nil end
  local out = {}
  for i = 0, n - 1 do out[i + 1] = at(i) end
  if H.H5Sget_simple_extent_ndims(space) == 0 then return out[1] end
  return out
end

--- The value of a dataset of a single element; nil as above.
---@param id ffi.cdata*
---@return celer.io.plain?
function M.single(H, keep, id)
  local type_, space = keep(H.H5Dget_type(id), H.H5Tclose), keep(H.H5Dget_space(id), H.H5Sclose)
  return value_of(H, keep, type_, space, function(as, data)
    return H.H5Dread(id, as, 0, 0, 0, data) >= 0
  end)
end

-- The name and value of one attribute.
local function attribute_at(H, keep, object, i)
  local id = keep(H.H5Aopen_by_idx(object, ".", 0, 0, i, 0, 0), H.H5Aclose)
  local n = id and tonumber(H.H5Aget_name(id, 0, nil)) or -1
  if n < 0 then return nil end
  local name = ffi.new("char[?]", n + 1)
  H.H5Aget_name(id, n + 1, name)
  local type_, space = keep(H.H5Aget_type(id), H.H5Tclose), keep(H.H5Aget_space(id), H.H5Sclose)
  return ffi.string(name, n), value_of(H, keep, type_, space, function(as, data)
    return H.H5Aread(id, as, data) >= 0
  end)
end

--- The attributes of an object that Lua has values for.
---@return table<string, celer.io.plain|celer.io.plain[]>
function M.all(H, object)
  local out = {}
  for i = 0, H.H5Aget_num_attrs(object) - 1 do
    local name, value = library.scope(function(keep)
      return attribute_at(H, keep, object, i)
    end)
    if name then out[name] = value end
  end
  return out
end

return M
