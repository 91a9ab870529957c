--- elements.lua -- what the elements of buffers are to a kernel written in Lua.
local fields = require "celer.data.fields"
local types = require "celer.data.types"

local M = {}

---@class celer.lua_element  an element, or a field of one
---@field kind "int"|"float"|"double"|"bool"|"struct"|"array"|"other"
---@field low? number  of whole numbers: the least and the largest
---@field high? number
---@field spelling string  in C++
---@field size? integer  of a number, in bytes
---@field fields? table<string, celer.lua_element>
---@field id? integer  of a struct: which one it is
---@field of? celer.lua_element  what an array consists of
---@field count? integer  and how many

local real = { [4] = "float", [8] = "double" }

local convert

-- With the fields of nameless structs inside.
local function all_fields(ctype, out)
  for _, field in ipairs(ctype.fields) do
    if field.name then
      out[field.name] = convert(field.type)
    elseif field.type.fields then
      all_fields(field.type, out)
    end
  end
  return out
end

function convert(ctype)
  if ctype.fields then
    return { kind = "struct", spelling = "struct", fields = all_fields(ctype, {}), id = ctype.id }
  elseif ctype.plain then
    return { kind = "array", spelling = "array", of = convert(ctype.of), count = ctype.count }
  elseif ctype.class == "f" then
    return { kind = real[ctype.size], spelling = real[ctype.size], size = ctype.size }
  elseif ctype.class == "b" then
    return { kind = "bool", spelling = "bool" }
  elseif ctype.class and not (ctype.class == "u" and ctype.size == 8) then
    local low, high = types.limits(ctype.class, ctype.size)
    return { kind = "int", low = low, high = high - 1, size = ctype.size,
      spelling = types.number(ctype.class, ctype.size).name }
  end
  return { kind = "other", spelling = "?" }
end

local known = setmetatable({}, { __mode = "k" })

--- What an element of a type is, or its field: "", "x", "position.x", or "q[]" for what the
--- array q consists of; nil where there is no such field.
---@param type_ celer.type
---@param path string
---@return celer.lua_element?
function M.find(type_, path)
  local found = known[type_]
  if not found then
    found = convert(fields.of(type_.ctype))
    found.spelling = type_.name
    known[type_] = found
  end
  for name in path:gsub("%[", ".["):gmatch "[^.]+" do
    if name == "[]" then found = found.of else found = found.fields and found.fields[name] end
    if not found then return nil end
  end
  return found
end

return M
