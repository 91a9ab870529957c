--- whole.lua -- which captured numbers have to be whole.
---
--- A number that decides where an item goes, or which element it touches, is an integer in
--- the kernel if it is whole when the kernel is submitted. Others are floating point,
--- so that a time step of 1 compiles nothing anew when it becomes 0.5.
local elements = require "celer.kernel.from_lua.elements"

local M = {}

-- Operations whose result is whole because their operands are.
local keeps = { add = true, sub = true, mul = true, min = true, max = true, mod = true, neg = true,
  phi = true, floor = true, ceil = true, div = true, abs = true }

local indices = {} -- arrays of which an element has to be whole, of the graph at hand

local function want(node)
  if node.whole then return end
  node.whole = true
  if node.op == "load" then indices[node.array.number] = true end
  if not keeps[node.op] then return end
  for _, arg in ipairs(node.args) do want(arg) end
end

local sums = { add = true, sub = true, min = true, max = true }

local function is_whole_number(node) return node.op == "number" and node.k % 1 == 0 end

-- Whether a node is a coordinate, a counter or an index that was read, lies beside one, or is a
-- multiple of that. What a loop changes is a counter, too, if it has to be whole.
local function counts_items(node, depth)
  if node.op == "coordinate" or node.loop then return true end
  if node.op == "phi" then return node.whole and node.block.header end
  if node.op == "load" then return indices[node.array.number] end
  if node.op == "mul" and not (is_whole_number(node.args[1]) or is_whole_number(node.args[2]))
    or node.op ~= "mul" and not sums[node.op] or depth > 8 then
    return false
  end
  return counts_items(node.args[1], depth + 1) or counts_items(node.args[2], depth + 1)
end

local look = {}

function look.touch(node)
  for _, at in ipairs(node.index) do want(at) end
end
look.load = look.touch

function look.store(node)
  look.touch(node)
  local element = elements.find(node.array.type, node.field or "")
  if element and element.kind == "int" then want(node.args[1]) end
end
look.reduce = look.store

function look.push(node)
  if not node.fields then return look.store(node) end
  look.touch(node)
  for k, name in ipairs(node.fields) do
    if elements.find(node.array.type, name).kind == "int" then want(node.args[k]) end
  end
end

function look.set_field(node)
  if elements.find(node.array.type, node.field).kind == "int" then want(node.args[1]) end
end

function look.atomic(node)
  look.touch(node)
  local element = elements.find(node.array.type, node.field)
  for _, value in ipairs(element.kind == "int" and node.args or {}) do want(value) end
end

function look.lookup(node) want(node.args[1]) end
look.get, look.set = look.lookup, look.lookup
look.bits = function(node)
  for _, arg in ipairs(node.args) do want(arg) end
end

look.philox = look.bits

function look.mod(node)
  if counts_items(node.args[1], 0) then want(node) end
end

function look.phi(node)
  local loop = node.loop
  if not loop then return end
  want(loop.first)
  want(loop.last)
  want(loop.step)
end

function look.lt(node)
  local a, b = node.args[1], node.args[2]
  if counts_items(a, 0) then want(b) elseif counts_items(b, 0) then want(a) end
end
look.le, look.eq, look.in_loop = look.lt, look.lt, look.lt

-- Whether a node uses another one only to count from it, or up to it.
local function only_counts(node, used, chain)
  return chain[node] or node.op == "in_loop"
    or node.op == "phi" and node.loop and node.loop.first == used
end

-- Elements that loops count between, and that are for nothing else: such as where rows begin. Each
-- is taken to be below 2^52, so that what counts is an integer, also between those of 64 bits.
local function mark_ends(graph)
  local chain = {}
  local function follow(node)
    if node.op ~= "load" and node.op ~= "add" and node.op ~= "sub" then return end
    chain[node] = true
    for _, arg in ipairs(node.op ~= "load" and node.args or {}) do follow(arg) end
  end
  graph:each(function(node)
    if node.op ~= "phi" or not node.loop then return end
    follow(node.loop.first)
    follow(node.loop.last)
  end)
  local changed
  repeat
    changed = false
    graph:each(function(node)
      for _, list in ipairs { node.args or {}, node.index or {} } do
        for _, used in ipairs(list) do
          if chain[used] and (list == node.index or not only_counts(node, used, chain)) then
            chain[used], changed = nil, true
          end
        end
      end
    end)
  until not changed
  for node in pairs(chain) do node.ends = node.op == "load" end
end

--- Marks the nodes that have to be whole.
---@param graph celer.graph
function M.mark(graph)
  mark_ends(graph)
  indices = {}
  for _ = 1, 2 do -- what is compared with an index may come before it is one
    graph:each(function(node)
      local f = look[node.op]
      if f then f(node) end
    end)
  end
end

-- Whether a node is whole though it may be too large to be an integer: of what leads back to
-- itself, by all the rest.
local function is_whole(node, seen)
  if node.kind == "int" or seen[node] then return true end
  if node.op == "floor" or node.op == "ceil" or is_whole_number(node) then return true end
  if node.op == "get" then
    seen[node] = true
    for _, set in ipairs(node.table.sets) do
      if not is_whole(set.args[2], seen) then return false end
    end
    return true
  end
  if not keeps[node.op] or node.op == "div" then return false end
  seen[node] = true
  for _, arg in ipairs(node.args) do
    if not is_whole(arg, seen) then return false end
  end
  return true
end

--- Whether a number has no fraction, however large it is.
---@param node celer.node
---@return boolean
function M.is_whole(node) return is_whole(node, {}) end

return M
