--- local_arrays.lua -- tables that a kernel makes: arrays of numbers of an item's own.
---
--- Such a table is an array of C++ whose size is known, so each index must have bounds; or a
--- variable for each element, if all indices are numbers. An element that was not set would be
--- nil: that it is set before it is read must be certain.
local affine = require "celer.kernel.from_lua.affine"
local made_structs = require "celer.kernel.from_lua.made_structs"
local paths = require "celer.kernel.from_lua.paths"
local util = require "jit.util"

local M = {}

local MOST = 256 -- elements

---@class celer.local_array  a node of the op "table"
---@field sets celer.node[]
---@field kind? string  of its elements, with their bounds low and high: see kinds.lua
---@field first? number  its least index, and how many elements there are
---@field count? number
---@field apart? boolean  each read and each set knows which element, so that each is a variable

-- ---- making, reading and setting ------------------------------------------------------------

local both = "a table of a kernel has elements by whole numbers, as in t[1], or it is a struct and "
  .. "has fields: not both"

--- Sets an element, or a field of a struct.
---@param lift celer.lift
function M.set(lift, array, key, value)
  if value.op == "nil" then
    lift.fail "an element of a kernel's table cannot be nil"
  elseif key.op == "string" then
    if #array.sets > 0 then lift.fail(both) end
    return made_structs.set(lift, array, key.k, value)
  elseif array.fields then
    lift.fail(both)
  end
  table.insert(array.sets, lift.graph:add("set", { table = array, args = { lift:value(key),
    lift:value(value) }, effect = true }))
end

--- Reads one.
---@return celer.node
function M.get(lift, array, key)
  if array.fields then
    lift.fail("a struct that a kernel makes is stored or pushed as a whole%s", key.op == "string"
      and (": to compute with it, use a local variable in the place of '%s'"):format(key.k) or "")
  elseif key.op == "string" then
    lift.fail("a table of a kernel has elements by whole numbers, as in t[1], and no '%s'", key.k)
  end
  return lift.graph:add("get", { table = array, args = { lift:value(key) } })
end

--- A new table; `template` is a slot of the function's constants, of the elements that the
--- function's text gives.
function M.new(lift, template)
  local array = lift.graph:make("table", { sets = {} })
  local list = {}
  for key, value in pairs(template and util.funck(lift.frame.f, -template - 1) or {}) do
    list[#list + 1] = { key = key, value = value }
  end
  table.sort(list, function(a, b) return tostring(a.key) < tostring(b.key) end)
  for _, one in ipairs(list) do
    local node
    if type(one.value) == "boolean" then
      node = lift.graph:make("bool", { k = one.value })
    elseif type(one.value) == "number" then
      node = lift.graph:number(one.value)
    else
      lift.fail "a table of a kernel has numbers or booleans"
    end
    M.set(lift, array, type(one.key) == "string" and lift.graph:make("string", { k = one.key })
      or lift.graph:number(one.key), node)
  end
  return array
end

-- ---- what is set before it is read ------------------------------------------------------------

local function is_bounded(node) return node.kind == "int" and node.high - node.low < MOST end

-- Which elements a set has set for certain before a read: the first and the last.
local function certainly_set(graph, set, get)
  local index = set.args[1]
  if index.low == index.high then
    if paths.precedes(set, get) or set.block ~= get.block
      and paths.must_pass(graph, set.block, get.block) then
      return index.low, index.high
    end
    return
  end
  local form = affine.of(index)
  local counter, factor = next(form.of)
  local loop = counter and not next(form.of, counter) and counter.loop
  if not loop or math.abs(factor) ~= 1 or loop.first.low ~= loop.first.high
    or loop.last.low ~= loop.last.high or not paths.each_turn(graph, loop, set.block)
    or get.block.id <= loop.header.preds[2].id
    or not paths.must_pass(graph, loop.header, get.block) then
    return
  end
  return index.low, index.high
end

-- Whether a read takes what was set at the same index, before.
local function is_own(set, get)
  return affine.key(affine.of(set.args[1])) == affine.key(affine.of(get.args[1]))
    and paths.precedes(set, get)
end

local function is_set(graph, sets, get)
  local certain = {}
  for _, set in ipairs(sets) do
    if is_own(set, get) then return true end
    local low, high = certainly_set(graph, set, get)
    for k = low or 0, high or -1 do certain[k] = true end
  end
  for k = get.args[1].low, get.args[1].high do
    if not certain[k] then return false, k end
  end
  return true
end

-- ---- all of it --------------------------------------------------------------------------------

local function check_index(node, fail)
  local index = node.args[1]
  if not is_bounded(index) then
    fail(node, "a table of a kernel has at most %d elements, and this index is no whole number "
      .. "with such bounds: count by for k = 1, 9 do, or keep it between bounds, as by "
      .. "celer.clamp(math.floor(x), 0, 9)", MOST)
  end
end

-- Whether each of these nodes takes one element, whatever the item.
local function knows_elements(nodes)
  for _, node in ipairs(nodes) do
    if node.args[1].low ~= node.args[1].high then return false end
  end
  return true
end

local plain = { int = true, weak = true, float = true, double = true, bool = true }

local function measure(array, sets, fail)
  local first, last = math.huge, -math.huge
  for _, set in ipairs(sets) do
    check_index(set, fail)
    first, last = math.min(first, set.args[1].low), math.max(last, set.args[1].high)
    if not plain[array.kind] then
      fail(set, "a table of a kernel has numbers, or else booleans")
    end
  end
  array.first, array.count = first, last - first + 1
  if array.count > MOST then fail(sets[1], "a table of a kernel has at most %d elements", MOST) end
end

--- Finds how large the tables of a graph are; raises where an element may be read before it is
--- set.
---@param graph celer.graph
---@param fail fun(node: celer.node, message: string, ...)
---@return celer.local_array[]
function M.check(graph, fail)
  local list, gets = {}, {}
  graph:each(function(node)
    local array = node.table
    if not array then return end
    if not gets[array] then
      gets[array], list[#list + 1] = {}, array
    end
    if node.op == "get" then table.insert(gets[array], node) end
  end)
  for _, array in ipairs(list) do
    for _, get in ipairs(gets[array]) do check_index(get, fail) end
    measure(array, array.sets, fail)
    array.apart = knows_elements(array.sets) and knows_elements(gets[array])
    for _, get in ipairs(gets[array]) do
      local ok, k = is_set(graph, array.sets, get)
      if not ok then
        fail(get, "element [%d] of a table may be read here before it is set: set all of them "
          .. "first, as in { 0, 0, 0 } or by a loop between literals, for k = 1, 9 do: a number "
          .. "that the kernel captures or is given may be another one at the next submission", k)
      end
    end
  end
  return list
end

return M
