--- trips.lua -- how often a counted loop runs, by how much it changes a sum, how far others count.
local M = {}

local floor, max, min = math.floor, math.max, math.min
local DEEPEST, MOST = 30, 200

---@class celer.counted_loop  for k = first, last, step
---@field first celer.node
---@field last celer.node
---@field step celer.node
---@field header celer.block

--- At most how often a loop runs; nil where that is not known.
---@param loop? celer.counted_loop
---@return number?
function M.count(loop)
  if not loop or loop.first.kind ~= "int" or loop.last.kind ~= "int"
    or loop.step.op ~= "number" or loop.step.k == 0 then
    return nil
  end
  local by = loop.step.k
  local span = by > 0 and (loop.last.high - loop.first.low) / by
    or (loop.last.low - loop.first.high) / by
  return max(0, floor(span) + 1)
end

local visits -- of one question

local difference

local function shifted(node, from, of, depth, sign)
  if of.kind ~= "int" then return nil end
  local least, most = difference(node, from, depth + 1)
  if not least then return nil end
  if sign > 0 then return least + of.low, most + of.high end
  return least - of.high, most - of.low
end

local function of_inner_loop(node, from, depth)
  local n = M.count(node.block.loop)
  if not n or node.loop then return nil end
  local least, most = difference(node.args[1], from, depth + 1)
  if not least then return nil end
  local low, high = 0, 0
  for k = 2, #node.args do
    local a, b = difference(node.args[k], node, depth + 1)
    if not a then return nil end
    low, high = min(low, a), max(high, b)
  end
  return least + n * low, most + n * high
end

local function of_choice(node, from, depth)
  local least, most
  for _, arg in ipairs(node.args) do
    local a, b = difference(arg, from, depth + 1)
    if not a then return nil end
    least, most = min(least or a, a), max(most or b, b)
  end
  return least, most
end

-- By what `node` differs from `from`, which it is computed from: least and most.
function difference(node, from, depth)
  if node == from then return 0, 0 end
  visits = visits + 1
  if depth > DEEPEST or visits > MOST then return nil end
  if node.op == "sub" then return shifted(node.args[1], from, node.args[2], depth, -1) end
  if node.op == "add" then
    local least, most = shifted(node.args[1], from, node.args[2], depth, 1)
    if least then return least, most end
    return shifted(node.args[2], from, node.args[1], depth, 1)
  elseif node.op == "phi" and node.block.header then
    return of_inner_loop(node, from, depth)
  elseif node.op == "phi" then
    return of_choice(node, from, depth)
  end
end

--- By what one turn of its loop changes a phi of the loop's header: least and most; nil where
--- that is not known.
---@param node celer.node
---@return number? least, number? most
function M.change(node)
  visits = 0
  local least, most = 0, 0
  for k = 2, #node.args do
    local a, b = difference(node.args[k], node, 0)
    if not a then return nil end
    least, most = min(least, a), max(most, b)
  end
  return least, most
end

-- Whether a loop is left behind `block`: that leads back to its header in no way but from outside.
local function leaves(block, header)
  local seen, list = { [header] = true }, { block }
  while #list > 0 do
    local at = table.remove(list)
    if at and not seen[at] then
      seen[at] = true
      for k = 2, #header.preds do
        if at == header.preds[k] then return false end
      end
      local ends = at.ends or {}
      list[#list + 1] = ends.to or ends.yes
      list[#list + 1] = ends.no
    end
  end
  return true
end

--- At most what a phi of a loop's header becomes that grows while it is below a whole number, as
--- in `while i < n do i = i + 1 end`; nil for others.
---@param node celer.node
---@return number?
function M.highest(node)
  local header = node.block
  local ends, first = header.ends, node.args[1]
  local cond = ends and ends.cond
  if not cond or cond.op ~= "lt" and cond.op ~= "le" or cond.args[1] ~= node
    or cond.args[2].kind ~= "int" or first.kind ~= "int" then
    return nil
  end
  local least, most = M.change(node)
  if not least or least < 0 or not leaves(ends.no, header) then return nil end
  return max(first.high, cond.args[2].high - (cond.op == "lt" and 1 or 0) + most)
end

return M
