--- captured.lua -- what a kernel finds in the script: variables, tables, functions.
---
--- Numbers and booleans become parameters, so that a changed one is passed anew and
--- compiles nothing. What else a kernel captures is part of its code: `guards` are looked
--- at before each use.
local bit = require "bit"
local philox = require "celer.run.philox"
local symbol = require "celer.symbol"
local words = require "celer.words"

local M = {}

local LONGEST = 1024 -- numbers of a table that a kernel may look up

---@class celer.lua_capture
---@field uniforms celer.node[]  numbers and booleans
---@field by_id table<any, celer.node>
---@field guards {get: function, value: any, place: celer.lua_place}[]
---@field tables table<table, celer.number_table>
---@field fail fun(message: string, ...)
---@field graph celer.graph

---@class celer.lua_place  where a value is found again
---@field argument? integer  what the submission gives
---@field f? function  that captured it, as its variable `number`
---@field number? integer
---@field table? table  an environment, or what is not looked up anew
---@field parent? celer.lua_place  of the table whose field `key` it is
---@field key? any

---@class celer.number_table
---@field name string
---@field get fun(call: celer.lua_call): table
---@field first integer
---@field values number[]

function M.new(graph, fail)
  return { uniforms = {}, by_id = {}, guards = {}, tables = {}, table_list = {}, fail = fail,
    graph = graph }
end

-- A number or boolean that each submission passes.
local function uniform(self, value, path, get, id, at)
  local node = self.by_id[id]
  if not node then
    node = self.graph:make(type(value) == "number" and "uniform" or "flag",
      { path = path, get = get, place = at })
    self.by_id[id] = node
    table.insert(self.uniforms, node)
  end
  return node
end

--- A struct that the submission gives: its numbers are parameters.
function M.record(self, argument, k)
  return self.graph:make("module", { value = argument.value, path = argument.name,
    get = function(call) return call.arguments[k].value end, id = "argument " .. k,
    place = { argument = k }, argument = k })
end

--- Makes a parameter of what the submission gives.
function M.argument(self, value_type, name, k)
  local node = uniform(self, value_type == "number" and 0 or false, name, nil, "argument " .. k)
  node.argument = k
  return node
end

local passed = { ["a buffer"] = true, ["an access"] = true, ["a reduction"] = true }

local function refuse(self, value, path)
  local noun = words.a(value)
  if passed[noun] then
    self.fail("the kernel captures '%s', %s: make it a parameter, and pass it where the kernel "
      .. "is submitted", path, noun == "a buffer" and "the buffer " .. value.name or noun)
  elseif value == nil then
    self.fail("'%s' is nil where the kernel is submitted", path)
  elseif noun == "a cdata" and tonumber(value) then
    self.fail("'%s' is %s, a number of the FFI: a kernel takes those of Lua, which are exact up to "
      .. "2^53, as tonumber gives them", path, tostring(value))
  end
  self.fail("the kernel captures '%s', %s: it may capture numbers, booleans, functions and "
    .. "tables of these", path, noun == "a table" and "a table with a metatable" or noun)
end

-- math and bit are the language's own; celer has what mappers are made of.
local fixed = { [math] = true, [bit] = true }

local function guard(self, get, value, at)
  table.insert(self.guards, { get = get, value = value, place = at })
end

--- The node of a value of the script. `get` gives it anew, and `id` is what it is known by.
---@param value any
---@param path string  its name, for messages
---@param get fun(call: celer.lua_call): any
---@param id any
---@param at celer.lua_place
---@return celer.node
function M.value(self, value, path, get, id, at)
  local kind = type(value)
  if kind == "number" or kind == "boolean" then return uniform(self, value, path, get, id, at) end
  if kind == "function" then
    guard(self, get, value, at)
    return self.graph:make("function", { value = value, path = path })
  elseif kind == "string" then
    guard(self, get, value, at)
    return self.graph:make("string", { k = value })
  elseif fixed[value] or value == package.loaded.celer then
    guard(self, get, value, at)
  elseif kind ~= "table" or getmetatable(value) then
    refuse(self, value, path)
  end
  return self.graph:make("module", { value = value, path = path, get = get, id = id,
    place = at, argument = at.argument })
end

-- Whole keys, their first and last; raises what else the table has.
local function span(self, value, path)
  local first, last = math.huge, -math.huge
  for key, x in pairs(value) do
    if type(key) ~= "number" or key % 1 ~= 0 or type(x) ~= "number" then
      self.fail("'%s' is looked up by a number here, but is no list of numbers: its [%s] is %s%s",
        path, tostring(key), words.a(x), type(x) == "table" and "; make one list of all numbers, "
          .. "as in list[columns * row + column]" or "")
    end
    first, last = math.min(first, key), math.max(last, key)
  end
  if first > last then self.fail("'%s' is looked up here, and is empty", path) end
  if last - first >= LONGEST then
    self.fail("'%s' has more than %d numbers: put them into a buffer, and pass that", path, LONGEST)
  end
  return first, last
end

--- The numbers from first to last of a table, which it must have.
---@return number[]? values
function M.numbers(value, first, last)
  local out = {}
  for k = first, last do
    if type(value) ~= "table" or type(value[k]) ~= "number" then return nil, k end
    out[#out + 1] = value[k]
  end
  return out
end

-- An element of a captured list: by the counter of a loop that is written out, a number.
local function look_up(self, node, key)
  if node.argument then
    self.fail("'%s' is given where the kernel is submitted, and looked up by a number here: "
      .. "capture the list in place of that, or pass a buffer", node.path)
  end
  local known = self.tables[node.value]
  if not known then
    local first, last = span(self, node.value, node.path)
    local values, hole = M.numbers(node.value, first, last)
    if not values then
      self.fail("'%s' is looked up by a number here, and has a hole: its [%d] is nil", node.path,
        hole)
    end
    known = { name = node.path, get = node.get, first = first, values = values }
    self.tables[node.value] = known
    table.insert(self.table_list, known)
  end
  if key.counted then return self.graph:number(known.values[key.k - known.first + 1]) end
  return self.graph:add("lookup", { list = known, args = { key } })
end

--- What celer.select is in a kernel: a function like those of the script.
function M.select(condition, x, y)
  if condition then return x end
  return y
end

local stands_for = { floor = math.floor, ceil = math.ceil, min = math.min, max = math.max,
  clamp = symbol.clamp, select = M.select, philox = philox.uniform }

local function member_of_celer(self, key)
  if stands_for[key] then
    return self.graph:make("function", { value = stands_for[key], path = "celer." .. key })
  end
  local is_random = key == "random" or key == "seed"
  self.fail("celer.%s belongs to the script: a kernel has celer.min, max, clamp, floor, ceil, "
    .. "select and philox, and what is in math and bit%s", tostring(key),
    is_random and "; for random numbers write celer.philox(seed, i, step)" or "")
end

--- table[key], of the script.
---@param node celer.node
---@param key celer.node
---@return celer.node
function M.index(self, node, key)
  local k, value, get = key.k, node.value, node.get
  if key.op ~= "string" and key.op ~= "number"
    or key.counted and type(rawget(value, k)) == "number" then
    return look_up(self, node, key)
  end
  if value == package.loaded.celer then return member_of_celer(self, k) end
  if fixed[value] then
    if value[k] == nil then
      self.fail("there is no %s.%s%s", node.path, tostring(k), stands_for[k]
        and (": write celer.%s"):format(k) or "")
    end
    guard(self, function() return value[k] end, value[k], { table = value, key = k })
    if type(value[k]) == "number" then return self.graph:number(value[k]) end
    return self.graph:make("function", { value = value[k], path = node.path .. "." .. tostring(k) })
  end
  local path = node.path .. (key.op == "string" and "." .. k or ("[%g]"):format(k))
  local function get_member(call)
    local now = get(call)
    if type(now) == "table" then return rawget(now, k) end
  end
  return M.value(self, rawget(value, k), path, get_member,
    ("%s\0%s"):format(tostring(node.id or node.path), path),
    { parent = node.place, key = k, argument = node.argument })
end

--- A variable that a function captured, by its number from 0.
function M.upvalue(self, f, number)
  local name, value = debug.getupvalue(f, number + 1)
  local function get() return (select(2, debug.getupvalue(f, number + 1))) end
  return M.value(self, value, name, get, tostring(debug.upvalueid(f, number + 1)),
    { f = f, number = number + 1 })
end

--- A global.
function M.global(self, f, name)
  local env = getfenv(f)
  return M.value(self, env[name], name, function() return env[name] end, "global " .. name,
    { table = env, key = name })
end

return M
