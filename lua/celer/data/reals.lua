--- reals.lua -- floating-point numbers in memory that Lua has not written.
---
--- LuaJIT keeps what is no number in the bits of NaNs: nil, booleans, and strings and
--- tables at their addresses. What its FFI loads it takes as it is. So a NaN that a
--- kernel, a file or a C library has made may be any of these once it is a value, and
--- `x ~= x` comes too late. Here its bits are looked at before.
---
--- A NaN is *odd* where itself, or what -x or arithmetic makes of it, is such a value: they
--- change its sign, and set its highest bit. LuaJIT's own NaNs, which are the hardware's,
--- have none of the next three bits. An odd one is replaced by one of those.
local ffi = require "ffi"
local band = require("bit").band
local fields = require "celer.data.fields"
local each = require("celer.tables").each

local M = {}

local NAN = 0 / 0

-- The half, or all, of a number that has the exponent: what is left of it without
-- the sign and a NaN's highest bit, and the most that is then no odd NaN.
local rest = { [4] = 0x7fbfffff, [8] = 0x7ff7ffff }
local most = { [4] = 0x7f87ffff, [8] = 0x7ff0ffff }
local quiet = { [4] = 0x7fc00000, [8] = 0x7ff80000 }

-- Elements of arrays that are looked at without a loop, which stands in the way of
-- LuaJIT's compiler.
local FEW = 8

-- ---- types ------------------------------------------------------------------

--- Whether a type has any floating-point numbers.
---@param node celer.ctype
---@return boolean
function M.has_any(node)
  if node.class then return node.class == "f" end
  if node.of then return node.count > 0 and M.has_any(node.of) end
  for _, field in ipairs(node.fields or {}) do
    if M.has_any(field.type) then return true end
  end
  return false
end
local has_any = M.has_any

-- C text of a type of the same size that has whole numbers in their place; field i of
-- a struct is called f<i>.
local function declaration(node)
  if not has_any(node) then return ("struct { char rest[%d]; }"):format(node.size) end
  if node.class then return ("struct { %sint32_t high; }"):format(node.size == 8
    and "int32_t low; " or "") end
  if node.of then
    return ("struct __attribute__((packed)) { %s at[%d]; }"):format(declaration(node.of),
      node.count)
  end
  local out = {}
  for i, field in ipairs(node.fields) do
    -- Each has its place from the beginning, whatever comes before: a union's are alike.
    out[i] = ("struct __attribute__((packed)) { char before%d[%d]; %s f%d; };"):format(i,
      field.offset, declaration(field.type), i)
  end
  return ("union { char all[%d]; %s }"):format(node.size, table.concat(out, " "))
end

-- Lua text that returns true where `e`, an expression, has an odd number.
local function look(node, e, depth, out)
  if not has_any(node) then return out end
  if node.class then
    out[#out + 1] = ("if band(%s.high, %d) > %d then return true end"):format(e,
      rest[node.size], most[node.size])
  elseif node.of and node.count > FEW then
    local i = "i" .. depth
    out[#out + 1] = ("for %s = 0, %d do"):format(i, node.count - 1)
    look(node.of, ("%s.at[%s]"):format(e, i), depth + 1, out)
    out[#out + 1] = "end"
  elseif node.of then
    for i = 0, node.count - 1 do look(node.of, ("%s.at[%d]"):format(e, i), depth, out) end
  else
    for i, field in ipairs(node.fields) do
      look(field.type, ("%s.f%d"):format(e, i), depth, out)
    end
  end
  return out
end

---@class celer.real_test
---@field bits ffi.ctype*  a pointer to elements, as `is_odd` takes it
---@field is_odd fun(p: ffi.cdata*, at: integer): boolean?  whether element `at` has an
---  odd number
---@field node celer.ctype

local function make(type_)
  local node = fields.of(type_.ctype)
  if not has_any(node) then return false end
  local text = table.concat(look(node, "p[at]", 1, {}), "\n")
  return { node = node, bits = ffi.typeof("$ *", ffi.typeof(declaration(node))),
    is_odd = assert(loadstring("local band = ... return function(p, at)\n" .. text
      .. "\nreturn false end"))(band) }
end

-- Notes of each byte what number it belongs to; the field that shares it with another
-- kind of number, or nil.
local function note(node, from, name, of_bytes)
  if node.class == "f" or not (node.of or node.fields) then
    local what = node.class == "f" and ("%d of %d"):format(from, node.size) or "other"
    for at = from, from + node.size - 1 do
      if (of_bytes[at] or what) ~= what then return name end
      of_bytes[at] = what
    end
  end
  for i = 0, (node.count or 0) - 1 do
    local shared = note(node.of, from + i * node.of.size, name, of_bytes)
    if shared then return shared end
  end
  for _, field in ipairs(node.fields or {}) do
    local shared = note(field.type, from + field.offset, field.name or name, of_bytes)
    if shared then return shared end
  end
end

--- Why numbers of a struct cannot be looked at, or nil: a union's bits may be a NaN's in one
--- field and another's number.
---@param ctype ffi.ctype*
---@return string? fault
function M.fault(ctype)
  local shared = note(fields.of(ctype), 0, "?", {})
  if not shared then return nil end
  return ("field '%s' shares bytes with another kind of number: what is no NaN in one field may "
    .. "be one in the other, which LuaJIT takes for a value of its own; keep one of them, and "
    .. "convert in kernels"):format(shared)
end

local tests = setmetatable({}, { __mode = "k" })

--- How to test elements of a type; false where it has no floating-point numbers.
---@param type_ celer.type
---@return celer.real_test|false
function M.test(type_)
  local found = tests[type_]
  if found == nil then
    found = make(type_)
    tests[type_] = found
  end
  return found
end

-- ---- values -----------------------------------------------------------------

-- Replaces the odd ones of what `e` refers to.
local function tidy(node, e)
  if not has_any(node) then return end
  if node.class then
    if band(e.high, rest[node.size]) > most[node.size] then
      e.high = quiet[node.size]
      if node.size == 8 then e.low = 0 end
    end
  elseif node.of then
    for i = 0, node.count - 1 do tidy(node.of, e.at[i]) end
  else
    for i, field in ipairs(node.fields) do tidy(field.type, e["f" .. i]) end
  end
end

--- An element that is_odd has found: NaN, or a copy of the struct without odd ones.
---@param type_ celer.type
---@param p ffi.cdata*  to elements of the type
---@param at integer
function M.tamed(type_, p, at)
  if type_.class ~= "s" then return NAN end
  local test, copy = M.test(type_), ffi.new(ffi.typeof("$[1]", type_.ctype), p[at])
  tidy(test.node, ffi.cast(test.bits, copy)[0])
  return type_.ctype(copy[0])
end

--- What string.buffer has decoded: its NaNs are numbers, and may be odd.
---@generic T
---@param value T
---@return T
function M.plain(value)
  if type(value) == "table" then
    for key, inner in each(value) do value[key] = M.plain(inner) end
  elseif value ~= value then
    return NAN
  end
  return value
end

--- Element `at` of memory of a type; of a struct a copy.
---@param type_ celer.type
---@param p ffi.cdata*  any pointer or array
---@param at integer
function M.load(type_, p, at)
  p = ffi.cast(ffi.typeof("$ *", type_.ctype), p)
  local test = M.test(type_)
  if test and test.is_odd(ffi.cast(test.bits, p), at) then return M.tamed(type_, p, at) end
  if type_.class == "s" then return type_.ctype(p[at]) end
  return p[at]
end

return M
