--- unroll.lua -- loops with constant bounds, and what is known of their counters.
---
--- A body is written out once for each count where there are few: the counter is a number then,
--- and so is what is computed of it, an element of a captured list, and which way a comparison
--- goes. Such numbers are `counted`. What is left has no loop, which compilers of C++ turn into
--- instructions for several items at once.
local M = {}

local MOST, LARGEST = 16, 2048 -- turns of a loop; instructions of its copies

-- Whether LuaJIT's double is the same whole number as an integer.
local function is_whole(k) return k % 1 == 0 and math.abs(k) < 2 ^ 53 and (k ~= 0 or 1 / k > 0) end

local function is_number(node) return node.op == "number" and is_whole(node.k) end

-- Whether a loop of another kind begins with the body, too: both are one loop then.
local function is_shared(code, first, last)
  for pc = first, last do
    if code[pc].to == first then return true end
  end
  return false
end

--- The counts of a loop that is to be written out; nil for others.
---@param lift celer.lift
---@param i celer.instruction  its FORI
---@param pc integer
---@return integer[]?
function M.counts(lift, i, pc)
  local first, last, step = lift:get(i.a), lift:get(i.a + 1), lift:get(i.a + 2)
  if not (is_number(first) and is_number(last) and is_number(step)) or step.k == 0 then
    return nil
  end
  local turns = math.floor((last.k - first.k) / step.k) + 1
  local size = i.to - 1 - pc
  if turns < 1 or turns > MOST or lift.copies * turns * size > LARGEST
    or is_shared(lift.frame.code, pc + 1, i.to - 2) then
    return nil
  end
  local counts = {}
  for turn = 1, turns do counts[turn] = first.k + (turn - 1) * step.k end
  return counts
end

--- The number that a counter is.
function M.counter(graph, k)
  local node = graph:number(k)
  node.counted = true
  return node
end

local arithmetic = {
  add = function(a, b) return a + b end, sub = function(a, b) return a - b end,
  mul = function(a, b) return a * b end, mod = function(a, b) return a % b end,
}

--- What an operation gives for two whole numbers; nil where it is to be computed.
---@param graph celer.graph
---@return celer.node?
function M.compute(graph, op, a, b)
  if not arithmetic[op] or not is_number(a) or not is_number(b) then return nil end
  local k = arithmetic[op](a.k, b.k)
  if not is_whole(k) then return nil end
  local node = graph:number(k)
  node.counted = a.counted or b.counted
  return node
end

local comparisons = {
  lt = function(a, b) return a < b end, le = function(a, b) return a <= b end,
  eq = function(a, b) return a == b end,
}

--- How a counter compares with a number; nil where the item decides.
---@param graph celer.graph
---@return celer.node?
function M.compare(graph, op, a, b)
  if a.op ~= "number" or b.op ~= "number" or not (a.counted or b.counted) then return nil end
  return graph:make("bool", { k = comparisons[op](a.k, b.k), counted = true })
end

return M
