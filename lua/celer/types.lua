--- types.lua -- element types that Lua's FFI and kernels agree on.
local ffi = require "ffi"
local place = require "celer.place"

local M = {}

---@class celer.type
---@field name string   as kernels spell it
---@field ctype ffi.ctype*
---@field size integer  bytes
---@field declaration string?  C++ text, for structs
---@field fields string?  as given, for structs
local Type = {}
Type.__index = Type
Type.__tostring = function(self) return "type " .. self.name end

local known = {}
local structs = {} -- in order of definition

local function add(name, spelling)
  local ctype = ffi.typeof(spelling or name)
  known[name] = setmetatable(
    { name = name, ctype = ctype, size = ffi.sizeof(ctype) }, Type)
end

for _, name in ipairs { "bool", "char", "int8_t", "uint8_t", "int16_t",
  "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "int", "float",
  "double" } do
  add(name)
end
add("unsigned", "unsigned int")
add("unsigned int", "unsigned int")
add("long long", "int64_t")

-- CUDA's vector types, with CUDA's alignment.
for scalar, width in pairs { int = 4, float = 4, double = 8 } do
  for n, members in pairs { [2] = "x, y", [3] = "x, y, z", [4] = "x, y, z, w" } do
    local align = n == 3 and width or math.min(16, n * width)
    ffi.cdef(("typedef struct %s%d { %s %s; } __attribute__((aligned(%d))) %s%d;")
      :format(scalar, n, scalar, members, align, scalar, n))
    add(scalar .. n)
  end
end

--- The type of that name, or the type itself.
---@return celer.type
function M.find(what)
  if getmetatable(what) == Type then return what end
  local found = type(what) == "string" and known[what]
  if found then return found end
  place.fail("unknown element type %s; use a C type such as \"float\" or "
    .. "\"int64_t\", a CUDA vector type such as \"double3\", or celer.struct",
    type(what) == "string" and ("%q"):format(what) or "of type " .. type(what))
end

function M.is_type(what) return getmetatable(what) == Type end

--- One struct for Lua's FFI and for kernels.
---@param name string  an identifier that is not taken
---@param fields string  C declarations, "double x, y, z, m;"
---@return celer.type
function M.struct(name, fields)
  if type(name) ~= "string" or not name:match("^[%a_][%w_]*$") then
    place.fail("celer.struct: the name must be an identifier")
  end
  if type(fields) ~= "string" then
    place.fail("celer.struct: the fields must be a string of C declarations")
  end
  local declaration = ("struct %s { %s };"):format(name, fields)
  local old = known[name]
  if old then
    if old.declaration == declaration then return old end
    place.fail("celer.struct: there is a type %s already", name)
  end
  local ok, message = pcall(ffi.cdef,
    ("typedef struct %s %s; %s"):format(name, name, declaration))
  if not ok then place.fail("celer.struct: %s", message) end
  add(name)
  known[name].declaration, known[name].fields = declaration, fields
  structs[#structs + 1] = known[name]
  return known[name]
end

-- Whether `text` uses `word` as a whole word.
local function mentions(text, word)
  return (" " .. text .. " "):find("[^%w_]" .. word .. "[^%w_]") ~= nil
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

return M
