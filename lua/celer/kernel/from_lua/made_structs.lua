--- made_structs.lua -- tables with names that a kernel makes: structs, to be stored or pushed.
---
--- Such a table is a variable of C++, of the type that it is stored or pushed as. A field has
--- what it was given last. That each was given before is certain.
local captured = require "celer.kernel.from_lua.captured"
local elements = require "celer.kernel.from_lua.elements"
local paths = require "celer.kernel.from_lua.paths"
local words = require "celer.words"

local M = {}

---@class celer.made_struct  a node of the op "table" that has `fields`
---@field fields celer.node[]  what gives a field its value: of the op "set_field"
---@field type? celer.type  what it is, or is a part of
---@field path? string  "" or, of a part, its field: "position"

local function field_names(element)
  local out = {}
  for name in pairs(element.fields) do out[#out + 1] = name end
  table.sort(out)
  return out
end

-- The struct that a table stands for.
local function made(lift, table_) return lift.graph:add("made", { struct = table_, args = {} }) end

-- A struct of the script, as a table that the kernel makes.
local function taken(lift, value, element)
  local out = lift.graph:make("table", { sets = {} })
  for _, name in ipairs(field_names(element)) do
    local part = captured.index(lift.captured, value, lift.graph:make("string", { k = name }))
    if element.fields[name].kind == "struct" and part.op == "module" then
      part = taken(lift, part, element.fields[name])
    end
    M.set(lift, out, name, part)
  end
  return out
end

--- What is stored into an element of a buffer, or pushed: a value, or a struct.
---@param lift celer.lift
---@param value celer.node
---@param array table
---@param field string
---@return celer.node
function M.value(lift, value, array, field)
  local element = elements.find(array.type, field)
  if value.op == "module" and element and element.kind == "struct" then
    value = taken(lift, value, element)
  end
  if value.op ~= "table" then return lift:value(value) end
  if element.kind ~= "struct" then
    lift.fail("'%s' takes %s here, and is given a table", array.name,
      element.kind == "bool" and "a boolean" or "a number")
  elseif not value.fields then
    lift.fail("'%s' takes a %s, and is given a table without its fields: write { %s = ... }",
      array.name, element.spelling, field_names(element)[1])
  end
  local node = made(lift, value)
  node.array, node.field = array, field
  return node
end

--- Gives a field its value.
---@param lift celer.lift
---@param table_ celer.node
---@param name string
---@param value celer.node
function M.set(lift, table_, name, value)
  table_.fields = table_.fields or {}
  if value.op == "table" and not value.fields then
    lift.fail("field '%s' is given a table without fields: write { x = ... }, or set the elements "
      .. "of an array one by one, in the buffer's own", name)
  end
  local part = value.op == "table" and made(lift, value)
  table.insert(table_.fields, lift.graph:add("set_field", { struct = table_, name = name,
    args = { part or lift:value(value) }, effect = true }))
end

-- Says of what type a table is, and the tables in it.
local function settle(node, type_, path, fail)
  local table_, element = node.struct, elements.find(type_, path)
  node.array, node.field = { type = type_, name = path ~= "" and path or type_.name }, path
  if table_.type and (table_.type ~= type_ or table_.path ~= path) then
    fail(node, "one table is two structs here: make another one for the second")
  end
  if table_.type then return end
  table_.type, table_.path = type_, path
  for _, set in ipairs(table_.fields) do
    local name = set.name
    local field, found = path == "" and name or path .. "." .. name, element.fields[name]
    if not found then
      fail(set, "a %s has no field '%s'%s", type_.name, field,
        words.advice(name, element.fields, path ~= "" and path .. "." or ""))
    end
    set.array, set.field = { type = type_, name = field }, field
    if set.args[1].op == "made" then
      if found.kind ~= "struct" then
        fail(set, "field '%s' of a %s is %s, and is given a table", field, type_.name,
          found.kind == "array" and "an array, which a kernel cannot make" or "a number")
      end
      settle(set.args[1], type_, field, fail)
    end
  end
end

local function is_set(graph, table_, name, node)
  for _, set in ipairs(table_.fields) do
    if set.name == name and (paths.precedes(set, node) or set.block ~= node.block
      and paths.must_pass(graph, set.block, node.block)) then
      return true
    end
  end
end

--- Finds what structs a graph makes; raises where a field may be without a value.
---@param graph celer.graph
---@param fail fun(node: celer.node, message: string, ...)
---@return celer.made_struct[]
function M.find(graph, fail)
  local list, seen = {}, {}
  graph:each(function(node)
    if node.op == "made" and node.array then settle(node, node.array.type, node.field, fail) end
  end)
  graph:each(function(node)
    local table_ = node.struct
    if not table_ then return end
    if not table_.type then
      fail(node, "a table with names is a struct, which is stored into a buffer or pushed where it "
        .. "stands, or by one local variable: for all else use local variables")
    end
    if not seen[table_] then
      seen[table_], list[#list + 1] = true, table_
    end
    if node.op ~= "made" then return end
    for _, name in ipairs(field_names(elements.find(table_.type, table_.path))) do
      if not is_set(graph, table_, name, node) then
        fail(node, "field '%s' of a %s may be without a value here: give it one in { }",
          table_.path == "" and name or table_.path .. "." .. name, table_.type.name)
      end
    end
  end)
  return list
end

return M
