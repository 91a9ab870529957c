--- types.lua -- element types that Lua's FFI and kernels agree on.
local ffi = require "ffi"
local ctypes = require "celer.data.fields"
local pack = require "celer.data.pack"
local place = require "celer.place"
local reals = require "celer.data.reals"
local each = require("celer.tables").each
local facts = require("celer.core").facts

local M = {}

---@class celer.type
---@field name string   as kernels spell it
---@field class string  as in cel_param: i, u, f, b, or s for a struct
---@field ctype ffi.ctype*
---@field size integer  bytes
---@field low number?   the least and the first too large, of whole numbers
---@field high number?
---@field declaration string?  C++ text, for structs
---@field fields string?  as given, for structs
---@field arithmetic string?  C++ text that gives kernels its operators, see arithmetic.lua
---@field header string?  of the kernel language, which has the struct
---@field identity string?  see M.identity
local Type = {}
Type.__index = Type
Type.__tostring = function(self) return "type " .. self.name end

local known = {}
local structs = {} -- in order of definition

local function add(name, class, spelling)
  local ctype = ffi.typeof(spelling or name)
  local type_ = setmetatable(
    { name = name, class = class, ctype = ctype, size = ffi.sizeof(ctype) }, Type)
  type_.low, type_.high = M.limits(class, type_.size)
  known[name] = type_
end

-- By class, then size, as core_kernel.h has them.
local lows, highs = { i = {}, u = {} }, { i = {}, u = {} }
for what, low in each(facts.low) do
  local class, size = what:match "^(%a)(%d)$"
  lows[class][tonumber(size)], highs[class][tonumber(size)] = low, facts.high[what]
end

--- The least whole number of a class and size, and the first that is too large.
function M.limits(class, size)
  local low = lows[class]
  if low then return low[size], highs[class][size] end
end

for name, class in pairs { bool = "b", char = "i", int8_t = "i", uint8_t = "u",
  int16_t = "i", uint16_t = "u", int32_t = "i", uint32_t = "u", int64_t = "i",
  uint64_t = "u", int = "i", float = "f", double = "f", unsigned = "u",
  ["unsigned int"] = "u" } do
  add(name, class)
end
add("long long", "i", "int64_t")

-- CUDA's vector types, with CUDA's alignment.
for scalar, width in pairs { int = 4, uint = 4, float = 4, double = 8 } do
  local member = scalar == "uint" and "unsigned" or scalar
  for n, members in pairs { [2] = "x, y", [3] = "x, y, z", [4] = "x, y, z, w" } do
    local align = n == 3 and width or math.min(16, n * width)
    ffi.cdef(("typedef struct %s%d { %s %s; } __attribute__((aligned(%d))) %s%d;")
      :format(scalar, n, member, members, align, scalar, n))
    add(scalar .. n, "s")
  end
end

--- The type of that name, or nil.
---@return celer.type?
function M.named(name) return known[name] end

local spellings = { i = "int%d_t", u = "uint%d_t", b = "bool" }

--- The type of numbers of a class and size.
---@return celer.type
function M.number(class, size)
  if class == "f" then return known[size == 4 and "float" or "double"] end
  return known[spellings[class]:format(size * 8)]
end

--- The type of that name, or the type itself.
---@param what string|celer.type
---@param call? string  begins the message
---@return celer.type
function M.find(what, call)
  if M.is_type(what) then return what end
  local found = type(what) == "string" and known[what]
  if found then return found end
  place.fail("%s%s; use a C type such as \"float\" or \"int64_t\", a CUDA vector type such as "
    .. "\"double3\", or celer.struct", call and call .. ": " or "",
    type(what) == "string" and ("unknown element type %q"):format(what)
    or "the element type comes first, not " .. require("celer.words").a(what))
end

function M.is_type(what) return getmetatable(what) == Type end

-- ---- values -----------------------------------------------------------------

--- Why a number is no whole number from low up to, and without, high; or nil.
function M.whole_fault(value, name, low, high)
  if value % 1 ~= 0 then return ("%.17g is no whole number"):format(value) end
  if value < low or value >= high then
    return ("%.17g does not fit: %s holds %.17g to %.17g"):format(value, name,
      low, high - 1)
  end
end

local function assign(p, at, value) p[at] = value end

-- What a fault of a value is in: "a body", or "field 'q' of a body".
local function owner(type_, path)
  return (path == "" and "" or ("field '%s' of "):format(path)) .. "a " .. type_.name
end

-- What values in order are given to: as the FFI does, the first of a union, and the fields
-- of what has no name in place of it.
local function in_order(ctype, out)
  for _, field in ipairs(ctype.fields) do
    if field.name then
      out[#out + 1] = field
    elseif field.type.fields then
      in_order(field.type, out)
    end
    if ctype.union and out[1] then break end
  end
  return out
end

-- Where the values in order begin, 0 or 1, and how many there are.
local function sequence(value)
  local first, n = rawget(value, 0) ~= nil and 0 or 1, 0
  while rawget(value, first + n) ~= nil do n = n + 1 end
  return first, n
end

-- A key that is no field. `n`: how many values are in order
local function key_fault(type_, ctype, path, key, n, names)
  local words = require "celer.words"
  local spelt = type(key) == "string" and ("'%s'"):format(key) or ("[%s]"):format(tostring(key))
  if ctype.of then
    return ("%s is an array of %d, and is given %s, which is none of its elements from [1] on")
      :format(owner(type_, path), ctype.count, spelt)
  elseif n > 0 then
    return ("%s is given values in order, and %s: give all in order, or all by their names")
      :format(owner(type_, path), spelt)
  elseif type(key) ~= "string" then
    return ("%s has no field %s%s"):format(owner(type_, path), spelt,
      words.advice(nil, names, path == "" and "" or path .. "."))
  end
  local inside = path == "" and "" or path .. "."
  return ("a %s has no field '%s%s'%s"):format(type_.name, inside, key,
    words.advice(key, names, inside))
end

local in_table

-- What is wrong with the value of a field, or of an element of one; nil for what the FFI
-- takes, as far as that is known. `refused`: it did not take the whole, so it takes no string.
local function in_value(type_, value, ctype, path, refused)
  local kind = type(value)
  local given = ("and is given %s"):format(require("celer.words").a(value))
  if kind == "table" and (ctype.fields or ctype.of) then
    return in_table(type_, value, ctype, path, refused)
  elseif kind == "cdata" or kind == "string" and not refused then
    return nil
  elseif ctype.fields then
    return ("%s is a struct, %s: write { ... }"):format(owner(type_, path), given)
  elseif ctype.of then
    return ("%s is an array of %d, %s: write { ... }"):format(owner(type_, path), ctype.count,
      given)
  elseif ctype.class and kind ~= "number" and kind ~= "boolean" then
    return ("%s is a %s, %s"):format(owner(type_, path),
      ctype.class == "b" and "boolean" or "number", given)
  elseif kind == "number" and (ctype.class == "i" or ctype.class == "u") then
    local number = M.number(ctype.class, ctype.size)
    local fault = M.whole_fault(value, number.name, number.low, number.high)
    return fault and ("%s: %s"):format(owner(type_, path), fault)
  end
end

-- The same of a table. The FFI ignores keys that it does not look up, and does not say where
-- a value is wrong.
function in_table(type_, value, ctype, path, refused)
  local first, n = sequence(value)
  local list, names = ctype.fields and in_order(ctype, {}), {}
  local most = list and #list or ctype.count
  if n > most then
    return ("%s has %s, and is given %d values"):format(owner(type_, path),
      require("celer.words").count(most, list and "field" or "element"), n)
  end
  if list then ctypes.member(ctype, "", names) end
  for key, inside in each(value) do
    local found, name = nil, ("%s[%s]"):format(path, tostring(key))
    if type(key) == "number" and key % 1 == 0 and key >= first and key < first + n then
      local field = list and list[key - first + 1]
      found = list and field.type or ctype.of
      if list then name = (path == "" and "" or path .. ".") .. field.name end
    elseif list and n == 0 and type(key) == "string" then
      found, name = ctypes.member(ctype, key), (path == "" and "" or path .. ".") .. key
    end
    if not found then return key_fault(type_, ctype, path, key, n, names) end
    local fault = in_value(type_, inside, found, name, refused)
    if fault then return fault end
  end
end

--- Which keys a table of a struct's fields may have: their names, or whole numbers.
---@param type_ celer.type
---@return fun(key: any): any
function M.is_field(type_)
  local ctype = ctypes.of(type_.ctype)
  local most = #in_order(ctype, {})
  return function(key)
    if type(key) == "string" then return ctypes.member(ctype, key) end
    return type(key) == "number" and key >= 1 and key <= most and key % 1 == 0
  end
end

-- Any value but a plain number of a type of numbers.
local function store_other(type_, p, at, value)
  if type_.header then -- a complex number, of either type, or a real one
    local re, im = require("celer.data.complex").parts(value)
    if re then value = { re = re, im = im } end
  end
  local ctype = type_.class == "s" and type(value) == "table" and ctypes.of(type_.ctype)
  local fault = ctype and in_table(type_, value, ctype, "")
  if fault then return fault end
  local ok = pcall(assign, p, at, value)
  if ok and type(value) == "cdata" and type_.low and (p[at] ~= value
    or (type_.class == "u" and tostring(value):sub(1, 1) == "-")) then
    return ("%s does not fit: %s holds %.17g to %.17g"):format(tostring(value),
      type_.name, type_.low, type_.high - 1)
  elseif not ok then
    fault = ctype and in_table(type_, value, ctype, "", true)
    return fault or ("%s is no %s"):format(value == nil and "nil" or "a "
      .. (type(value) == "cdata" and tostring(ffi.typeof(value)) or type(value)),
      type_.name)
  end
end

local packs = setmetatable({}, { __mode = "k" })

--- How to set elements of the type without the FFI's help, where that is known.
---@param type_ celer.type
---@return celer.pack|false
function M.pack(type_)
  local found = packs[type_]
  if found == nil then
    found = pack.of(type_.ctype) or false
    packs[type_] = found
  end
  return found
end

--- Sets p[at] to a value of the type; why it cannot be, or nil.
---@param type_ celer.type
---@return string? fault
function M.store(type_, p, at, value)
  if type_.class == "s" then
    local fast = M.pack(type_)
    if fast and fast(p, at, value) then return nil end
    return store_other(type_, p, at, value)
  end
  if type(value) ~= "number" then return store_other(type_, p, at, value) end
  local low = type_.low
  if low and not (value % 1 == 0 and value >= low and value < type_.high) then
    return M.whole_fault(value, type_.name, low, type_.high)
  end
  p[at] = value
end

--- What FFI calls the element type of an array or struct, without `const`.
local function base_name(ctype)
  return (tostring(ctype):match("^ctype<(.-)>$"):gsub("^const ", "")
    :gsub(" %[.*$", ""))
end

--- Whether `value` is cdata of this type, or an array of it.
---@param type_ celer.type
function M.is_made_of(type_, value)
  return base_name(ffi.typeof(value)) == base_name(type_.ctype)
end

-- ---- structs ----------------------------------------------------------------

-- What no C++ struct can be called.
local reserved = {}
for word in ([[alignas alignof and asm auto break case catch class const constexpr
continue decltype default delete do else enum explicit export extern for friend goto
if inline item kernel long mutable namespace new noexcept not operator or private
protected public register return short signed sizeof static struct switch template
this throw try typedef typeid typename union using virtual void volatile while
xor in out inout group local reducer]]):gmatch("%S+") do reserved[word] = true end

local function check_struct(name, fields)
  if type(name) ~= "string" or not name:match("^[%a_][%w_]*$") then
    place.fail("celer.struct: the name must be an identifier, not %s",
      type(name) == "string" and ("%q"):format(name) or "a " .. type(name))
  elseif reserved[name] then
    place.fail("celer.struct: %s is a word of C++; choose another name", name)
  elseif type(fields) ~= "string" then
    place.fail("celer.struct: the fields must be a string of C declarations")
  elseif fields:find("[*&]") then
    place.fail("celer.struct: a pointer has no meaning on another device or "
      .. "rank; struct %s cannot hold one", name)
  end
end

-- Declares it to FFI; the struct first, so that a mistake leaves the name free.
local function declare(name, fields, declaration)
  local ok, ctype = pcall(ffi.typeof, ("struct { %s }"):format(fields))
  local fault = ok and reals.fault(ctype)
  if fault then place.fail("celer.struct %s: %s", name, fault) end
  local message
  ok, message = pcall(ffi.cdef, declaration)
  if ok then
    ok, message = pcall(ffi.cdef, ("typedef struct %s %s;"):format(name, name))
  end
  if not ok then
    place.fail("celer.struct %s: %s", name, (message:gsub("^.-:%d+: ", "")))
  end
  local size = ffi.sizeof(name)
  if not size or size == 0 then
    place.fail("celer.struct %s: it must have fields of known size", name)
  end
end

local function check_options(options)
  for key in each(options or {}) do
    if key ~= "arithmetic" then
      place.fail("celer.struct: there is no option '%s': there is { arithmetic = true }",
        tostring(key))
    end
  end
end

--- One struct for Lua's FFI and for kernels.
---@param name string  an identifier that is not taken
---@param fields string  C declarations, "double x, y, z, m;"
---@param options? {arithmetic: boolean?}  whether C++ kernels have its + - * and /
---@return celer.type
function M.struct(name, fields, options)
  check_struct(name, fields)
  if type(options) ~= "table" and options ~= nil then
    place.fail("celer.struct: the third argument must be a table such as { arithmetic = true }")
  end
  check_options(options)
  local declaration = ("struct %s { %s };"):format(name, fields)
  local old = known[name]
  if old and old.declaration ~= declaration then
    place.fail("celer.struct: there is a type %s already", name)
  elseif not old then
    declare(name, fields, declaration)
    add(name, "s")
    known[name].declaration, known[name].fields = declaration, fields
    structs[#structs + 1] = known[name]
  end
  local type_ = known[name]
  if options and options.arithmetic and not type_.arithmetic then
    type_.arithmetic = require("celer.data.arithmetic").of(type_)
  end
  return type_
end

-- Whether `text` uses `word` as a whole word.
local function mentions(text, word)
  return (" " .. text .. " "):find("[^%w_]" .. word .. "[^%w_]") ~= nil
end

--- What ranks must agree on of a type: how the bits of an element are read. Other
--- names of one type of numbers are the same.
---@param type_ celer.type
---@return string
function M.identity(type_)
  if type_.class ~= "s" then return type_.class .. type_.size end
  if type_.identity then return type_.identity end
  local words = { type_.name }
  for _, struct in ipairs(M.structs_for(type_.declaration or "")) do
    words[#words + 1] = struct.declaration
  end
  type_.identity = table.concat(words, "\0")
  return type_.identity
end

--- Every struct, in order of definition.
---@return celer.type[]
function M.all_structs() return structs end

--- The structs that `text` needs, in order of definition: those it mentions and
--- those that they mention.
---@return celer.type[]
function M.structs_for(text)
  local needed, out = {}, {}
  for i = #structs, 1, -1 do -- a struct can only use earlier ones
    if mentions(text, structs[i].name) then
      needed[i] = true
      text = text .. structs[i].declaration
    end
  end
  for i, type_ in ipairs(structs) do
    if needed[i] then out[#out + 1] = type_ end
  end
  return out
end

-- ---- complex numbers --------------------------------------------------------

for _, name in ipairs { "complex64", "complex128" } do
  M.struct(name, name == "complex64" and "float re, im;" or "double re, im;").header =
    "kernels/complex.cuh"
  require("celer.data.complex").give(name)
end

return M
