--- host_memory.lua -- plain memory that host tasks share: what it consists of,
--- and atomic operations on it.
local ffi = require "ffi"
local fields_of = require("celer.data.fields").of
local place = require "celer.place"
local reals = require "celer.data.reals"
local tables = require "celer.tables"
local types = require "celer.data.types"
local words = require "celer.words"

local fail = place.fail

local M = {}

ffi.cdef(require("celer.core").embedded "engine/embed/atomic.h")
local C = ffi.C

-- ---- layouts ----------------------------------------------------------------

---@class celer.layout
---@field text string  the declaration
---@field ctype ffi.ctype*
---@field class string  as of any struct's celer.type
---@field size integer
---@field fields table<string, {type: celer.type, offset: integer, count: integer?}>  those that
---  atomic operations can be for

-- Reads the fields that are numbers, or arrays of them.
local function read_fields(self, node, from)
  for _, field in ipairs(node.fields) do
    local offset, inner = from + field.offset, field.type
    local number = inner.of or inner
    if not field.name then
      if inner.fields then read_fields(self, inner, offset) end
    elseif number.class and (number.size == 4 or number.size == 8)
      and offset % number.size == 0 then -- where a packed struct's may not be
      self.fields[field.name] = { type = types.number(number.class, number.size),
        offset = offset, count = inner.count }
    end
  end
end

local function ctype_of(text, what)
  local known = types.named(text)
  if known then return known.ctype end
  if text:find("[*&]") then
    fail("%s: a pointer has no meaning in memory that tasks share; the declaration "
      .. "cannot hold one", what)
  end
  local ok, ctype = pcall(ffi.typeof, text)
  if not ok then
    fail("%s: the C declaration is wrong: %s", what,
      (tostring(ctype):gsub("^.-:%d+: ", "")))
  end
  return ctype
end

local layouts = {}

--- What a C declaration of a struct, or the name of one, consists of.
---@param declaration string|celer.type
---@param what string  begins messages
---@return celer.layout
function M.layout(declaration, what)
  local text = types.is_type(declaration) and declaration.name or declaration
  if type(text) ~= "string" then
    fail("%s: the first argument must be a function that makes the object or a C "
      .. "declaration such as \"struct { int64_t n[16]; }\", not %s", what,
      words.a(text))
  end
  if layouts[text] then return layouts[text] end
  local ctype = ctype_of(text, what)
  if not tostring(ctype):find("^ctype<struct [^%[]*>$") then
    fail("%s: the C declaration must be that of a struct such as \"struct { int64_t "
      .. "n[16]; }\", not of %s", what, tostring(ctype))
  end
  local self = { text = text, ctype = ctype, class = "s", size = ffi.sizeof(ctype), fields = {} }
  if not self.size or self.size == 0 then
    fail("%s: the struct must have fields of known size", what)
  end
  local fault = reals.fault(ctype)
  if fault then fail("%s: %s", what, fault) end
  read_fields(self, fields_of(ctype), 0)
  layouts[text] = self
  return self
end

-- ---- in host tasks ----------------------------------------------------------

---@class celer.host_memory
local Memory = { __noun = "host object" }

local shapes = setmetatable({}, { __mode = "k" }) -- layout and name, by object

local function known_fields(layout)
  local list = {}
  for name in tables.sorted_pairs(layout.fields) do list[#list + 1] = name end
  return #list == 0 and "it has none" or "it has " .. table.concat(list, ", ")
end

-- Address, type and the arguments after the index of what is meant.
local function locate(self, call, name, ...)
  local shape = shapes[self]
  if not shape then
    fail("call it with a colon: object:%s(...)", call)
  end
  local field = shape.layout.fields[name]
  if not field then
    fail("%s:%s: no field for atomic operations is called '%s'; %s", shape.name, call,
      tostring(name), known_fields(shape.layout))
  end
  local address = shape.data + field.offset
  if not field.count then return address, field.type, ... end
  local i = ...
  if type(i) ~= "number" or i % 1 ~= 0 or i < 0 or i >= field.count then
    fail("%s:%s: element %s is outside %s[%d]", shape.name, call, tostring(i), name,
      field.count)
  end
  if call ~= "load" and select("#", ...) == 1 then
    fail("%s:%s: %s is %s[%d]: first which element, then the number", shape.name, call,
      name, field.type.name, field.count)
  end
  return address + i * field.type.size, field.type, select(2, ...)
end

-- The number as 64 bits; raises unless the field can hold it.
local function whole(self, call, type_, value)
  local scratch = ffi.new(ffi.typeof("$[1]", type_.ctype))
  local fault = types.store(type_, scratch, 0, value)
  if fault then fail("%s:%s: %s", shapes[self].name, call, fault) end
  return ffi.cast("int64_t", scratch[0])
end

-- A plain number wherever that is exact.
local function plain(type_, bits)
  if type_.class == "u" then
    bits = type_.size == 4 and ffi.cast("uint32_t", bits) or ffi.cast("uint64_t", bits)
  end
  local n = tonumber(bits)
  return n < 2 ^ 53 and n > -2 ^ 53 and n or bits
end

local function number(self, call, value)
  if type(value) ~= "number" then
    fail("%s:%s: expected a number, not %s", shapes[self].name, call, words.a(value))
  end
  return value
end

--- The value of a field, or of element `i` of one; atomic, as all below.
---@param ... any  the field, and which element of an array
---@return number|ffi.cdata*
function Memory:load(...)
  local p, type_ = locate(self, "load", ...)
  if type_.class == "f" then return C.cel_atomic_load_real(p, type_.size) end
  return plain(type_, C.cel_atomic_load(p, type_.size))
end

--- Sets it: object:store("n", i, value), or object:store("total", value).
---@param ... any  field, element, value
function Memory:store(...)
  local p, type_, value = locate(self, "store", ...)
  if type_.class == "f" then
    C.cel_atomic_store_real(p, type_.size, number(self, "store", value))
  else
    C.cel_atomic_store(p, type_.size, whole(self, "store", type_, value))
  end
end

local signed = { [4] = types.find("int32_t"), [8] = types.find("int64_t") }

--- Adds to it; gives what it was.
---@param ... any  field, element, value
---@return number|ffi.cdata*
function Memory:add(...)
  local p, type_, value = locate(self, "add", ...)
  if type_.class == "f" then
    return C.cel_atomic_add_real(p, type_.size, number(self, "add", value))
  end
  local less = type(value) == "number" and value < 0 -- from an unsigned one, too
  value = whole(self, "add", less and signed[type_.size] or type_, value)
  return plain(type_, C.cel_atomic_add(p, type_.size, value))
end

--- Sets it; gives what it was.
---@param ... any  field, element, value
---@return number|ffi.cdata*
function Memory:exchange(...)
  local p, type_, value = locate(self, "exchange", ...)
  if type_.class == "f" then
    return C.cel_atomic_exchange_real(p, type_.size, number(self, "exchange", value))
  end
  value = whole(self, "exchange", type_, value)
  return plain(type_, C.cel_atomic_exchange(p, type_.size, value))
end

--- Sets it if it is `expected`; whether it was.
---@param ... any  field, element, what is expected, value
---@return boolean
function Memory:compare(...)
  local p, type_, expected, desired = locate(self, "compare", ...)
  if type_.class == "f" then
    fail("%s:compare is for whole numbers", shapes[self].name)
  end
  return C.cel_atomic_compare(p, type_.size, whole(self, "compare", type_, expected),
    whole(self, "compare", type_, desired))
end

--- An FFI pointer to the struct, good as long as the task runs. As with view:pointer, a
--- NaN that is read by it may be any Lua value.
---@return ffi.cdata*
function Memory:pointer()
  if not shapes[self] then fail("call it with a colon: object:pointer()") end
  return shapes[self].struct
end

-- What is no method is a field of the struct, without atomicity.
function Memory.__index(self, key)
  local method = Memory[key]
  if method then return method end
  local shape = shapes[self]
  if not ffi.offsetof(shape.layout.ctype, key) then
    fail("host object %s has no field '%s'", shape.name, tostring(key))
  end
  local field = shape.layout.fields[key]
  if field and field.type.class == "f" and not field.count then
    return reals.load(field.type, shape.data + field.offset, 0)
  end
  return shape.struct[key]
end

function Memory.__newindex(self, key, value)
  local shape = shapes[self]
  if not ffi.offsetof(shape.layout.ctype, key) then
    fail("host object %s has no field '%s'", shape.name, tostring(key))
  end
  shape.struct[key] = value
end

function Memory.__tostring(self) return "host object " .. shapes[self].name end

--- Plain memory as a host task sees it.
---@param name string
---@param declaration string
---@param address userdata
---@return celer.host_memory
function M.new(name, declaration, address)
  local layout = M.layout(declaration, name)
  local self = setmetatable({}, Memory)
  shapes[self] = { name = name, layout = layout, data = ffi.cast("char *", address),
    struct = ffi.cast(ffi.typeof("$ *", layout.ctype), address) }
  return self
end

return M
