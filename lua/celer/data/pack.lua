--- pack.lua -- values of Lua as elements, by code that is made for their type.
---
--- What the FFI makes of a table it makes in C, key by key, and its compiler gives up a loop
--- that does so. The code made here gives the same bits for what elements mostly are: tables
--- of the struct's fields by their names, or of all of them in order, with numbers that fit.
--- Everything else it leaves to types.lua and to the FFI, which say what is a mistake.
---
--- A table's other keys have to be looked for, which costs more than all else: it has to exist.
--- Where they cannot be there (constructs.lua), LuaJIT's compiler never makes the table. Of
--- tables in it that is not known.
local ffi = require "ffi"
local fields = require "celer.data.fields"
local sorted_pairs = require("celer.tables").sorted_pairs

local M = {}

-- Elements of arrays, and fields: the code is as long as the struct.
local MOST = 64

-- Lua that ends the function where `x` does not fit a number, and stores it else.
local function number(node, x, to, out)
  local test = ("type(%s) ~= 'number'"):format(x)
  if node.class == "b" then
    test = ("type(%s) ~= 'boolean'"):format(x)
  elseif node.class ~= "f" then
    local bits = 8 * node.size
    local low, high = node.class == "i" and -2 ^ (bits - 1) or 0,
      2 ^ math.min(node.class == "i" and bits - 1 or bits, 63)
    test = ("%s or not (%s >= %.17g and %s < %.17g and %s %% 1 == 0)"):format(test, x, low, x,
      high, x)
  end
  out[#out + 1] = ("if %s then return false end %s = %s"):format(test, to, x)
end

local members

-- The names of a struct's fields; nil where some have none.
local function names_of(node)
  local names = {}
  for _, field in ipairs(node.fields) do
    if not field.name then return nil end
    names[field.name] = true
  end
  return names
end

-- The same of what is `x`, a local, and goes to `to`; false for what stays with the FFI.
local function value(node, x, to, depth, out)
  if node.class then
    number(node, x, to, out)
    return true
  elseif node.of and node.plain and node.count <= MOST then
    local inner = "x" .. depth
    -- The keys of a list come in order, so none is behind the last; a loop over all costs more.
    out[#out + 1] = ("if type(X) ~= 'table' or not (rawget(X, 0) == nil and rawget(X, N) ~= nil "
      .. "and next(X, N) == nil or has_only(none, X, N)) then return false end"):gsub("[XN]",
      { X = x, N = node.count })
    for i = 1, node.count do
      out[#out + 1] = ("do local %s = rawget(%s, %d)"):format(inner, x, i)
      if not value(node.of, inner, ("%s[%d]"):format(to, i - 1), depth + 1, out) then
        return false
      end
      out[#out + 1] = "end"
    end
    return true
  elseif node.fields and not node.union then
    out.names[#out.names + 1] = names_of(node)
    out[#out + 1] = ("if type(%s) ~= 'table' or not has_only(names[%d], %s, 0) then "
      .. "return false end"):format(x, #out.names, x)
    return members(node, x, to, depth, out)
  end
  return false
end

-- The fields of a struct out of the table `x`: by their names, or `ordered`.
function members(node, x, to, depth, out, ordered)
  local inner = "x" .. depth
  for i, field in ipairs(node.fields) do
    if not field.name then return false end
    local place = ("%s[%q]"):format(to, field.name)
    out[#out + 1] = (ordered and "do local %s = rawget(%s, %d)" or "do local %s = rawget(%s, %q)")
      :format(inner, x, ordered and i or field.name)
    if not ordered and field.type.class and depth > 1 then -- it may be misspelt
      out[#out + 1] = ("if %s == nil then return false end"):format(inner)
    elseif not ordered and field.type.class then
      out[#out + 1] = ("if %s == nil then %s = %s end"):format(inner, inner,
        field.type.class == "b" and "false" or "0")
    end
    if not value(field.type, inner, place, depth + 1, out) then return false end
    out[#out + 1] = "end"
  end
  return true
end

-- How many numbers there are, and their bytes.
local function extent(node)
  if node.class then return 1, node.size end
  local n, bytes = 0, 0
  if node.of then
    n, bytes = extent(node.of)
    return n * node.count, bytes * node.count
  end
  for _, field in ipairs(node.fields or {}) do
    local more, size = extent(field.type)
    n, bytes = n + more, bytes + size
  end
  return n, bytes
end

-- Whether a table has no keys but those names, or whole numbers from 1 to `count` alone.
-- `next` and no `for`: see tables.each.
local function has_only(names, t, count)
  local ordered = rawget(t, 1) ~= nil
  local key = next(t)
  while key ~= nil do
    if ordered then
      if type(key) ~= "number" or not (key >= 1 and key <= count and key % 1 == 0) then
        return false
      end
    elseif not names[key] then
      return false
    end
    key = next(t, key)
  end
  return true
end

-- Lua for whether a table that is known to have fields has them in order alone.
local function is_in_order(node, names, v)
  local out = { ("rawget(%s, %d) == nil"):format(v, #node.fields + 1) }
  for name in sorted_pairs(names) do out[#out + 1] = ("rawget(%s, %q) == nil"):format(v, name) end
  return table.concat(out, " and ")
end

local function struct(ctype, node)
  local n, bytes = extent(node)
  if n > MOST then return nil end
  local names = { names_of(node) }
  local by_name, ordered = { names = names }, { names = names }
  if not (members(node, "v", "s", 1, by_name) and members(node, "v", "s", 1, ordered, true)) then
    return nil
  end
  return loadstring(([[
    local ffi, ctype, pointer, names, has_only, none = ...
    local type, rawget, next, fill, istype = type, rawget, next, ffi.fill, ffi.istype
    return function(p, at, v, is_known)
      if type(v) ~= "table" then
        -- A pointer to a struct is one, to istype.
        if not istype(ctype, v) or istype(pointer, v) then return false end
        p[at] = v
        return true
      end
      if rawget(v, 0) ~= nil or not (is_known or has_only(names[1], v, %d)) then return false end
      local s = p[at]
      %s
      if rawget(v, 1) ~= nil then
        if not (%s) then return false end
        %s
        return true
      end
      %s
      return true
    end]]):format(#node.fields, bytes < node.size and ("fill(p + at, %d)"):format(node.size) or "",
    is_in_order(node, names[1], "v"), table.concat(ordered, "\n"),
    table.concat(by_name, "\n")))(ffi, ctype, ffi.typeof("$ *", ctype), names, has_only, {})
end

local function plain(node)
  local out = {}
  number(node, "v", "p[at]", out)
  return loadstring(("return function(p, at, v)\n%s\nreturn true\nend"):format(
    table.concat(out, "\n")))()
end

---@alias celer.pack fun(p: ffi.cdata*, at: integer, v: any, is_known: boolean?): boolean

--- How to set element `at` of `p`, elements of a type, to a value of Lua: it gives false,
--- having set some of it perhaps, where that is left to the FFI. `is_known`: a table is
--- known to have no keys but fields. Nil where all is left to the FFI.
---@param ctype ffi.ctype*
---@return celer.pack?
function M.of(ctype)
  local node = fields.of(ctype)
  if node.class then return plain(node) end
  local pack = node.fields and not node.union and struct(ctype, node)
  -- The FFI initialises constant fields, and sets none.
  local one = pack and ffi.new(ffi.typeof("$[1]", ctype))
  return pack and pcall(pack, one, 0, {}, true) and pack or nil
end

return M
