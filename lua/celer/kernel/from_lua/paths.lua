--- paths.lua -- which conditions hold in a block, and what every item comes through.
local affine = require "celer.kernel.from_lua.affine"

local M = {}

local is_number = {}
for op in ("number coordinate uniform add sub mul div mod neg pow min max floor ceil abs"):gmatch
  "%S+" do is_number[op] = true end

-- Whether an item would have to come from a number that is false: behind `or` in
-- i > 0 and i - 1 or 0 it comes from where i > 0 is false.
local function is_barred(pred, block)
  local ends = pred.ends
  return ends.cond and is_number[ends.cond.op] and ends.no == block and ends.yes ~= block
end

-- Preds by which an item first comes to a block.
local function forward(block)
  if block.comes_from then return block.comes_from end
  local out, n = {}, block.header and block.forward or #block.preds
  for k = 1, n do
    if not is_barred(block.preds[k], block) then out[#out + 1] = block.preds[k] end
  end
  block.comes_from = #out > 0 and out or { unpack(block.preds, 1, n) }
  return block.comes_from
end

local dominator

-- The last block that all forward ways to this one have in common.
local function meet(block)
  local at = { unpack(forward(block)) }
  local n = #at
  while true do
    local latest, alike = at[1], true
    for k = 2, n do
      alike = alike and at[k] == at[1]
      if at[k].id > latest.id then latest = at[k] end
    end
    if alike then return latest end
    local up = dominator(latest)
    if not up then return nil end
    for k = 1, n do
      if at[k] == latest then at[k] = up end
    end
  end
end

function dominator(block)
  if block.dominator == nil then
    block.dominator = #forward(block) > 0 and meet(block) or false
  end
  return block.dominator or nil
end

local function position(node)
  for k, other in ipairs(node.block.nodes) do
    if other == node then return k end
  end
end

--- Whether every way to node b comes through node a before.
---@param a celer.node
---@param b celer.node
---@return boolean
function M.precedes(a, b)
  if a.block == b.block then return position(a) < position(b) end
  local at = dominator(b.block)
  while at and at ~= a.block do at = dominator(at) end
  return at == a.block
end

local add_condition

-- Adds the conditions of all branches by which an item comes to a block, from block `top` on.
local function add_branches(out, block, top)
  local at = block
  while at and at ~= top do
    local before = #forward(at) == 1 and forward(at)[1]
    if before and before.ends.cond then
      add_condition(out, before.ends.cond, before.ends.yes == at)
    end
    at = dominator(at)
  end
end

-- The one way by which a boolean that was chosen before can have become so.
local function way_to(phi, yes)
  local found
  for k, arg in ipairs(phi.args) do
    local other = arg.op == "bool" and arg.k ~= yes or arg.op == "nil" and yes
    if not other then
      if found then return nil end
      found = k
    end
  end
  return found
end

-- Adds a condition, and where it is a boolean that was chosen before, as by `local inside = i > 0`,
-- those under which it was.
function add_condition(out, cond, yes)
  out[#out + 1] = { cond = cond, yes = yes }
  while cond.op == "not" do cond, yes = cond.args[1], not yes end
  local chosen = cond.op == "phi" and not cond.block.header and cond.block
  local way = chosen and way_to(cond, yes)
  if not way then return end
  local from = chosen.preds[way]
  add_condition(out, cond.args[way], yes)
  if from.ends.cond then add_condition(out, from.ends.cond, from.ends.yes == chosen) end
  add_branches(out, from, dominator(chosen))
end

-- Conditions that hold in a block: {cond, yes}.
local function conditions(block)
  if not block.conditions then
    block.conditions = {}
    add_branches(block.conditions, block)
  end
  return block.conditions
end

-- Whether a form is a sum of whole numbers. Of one that has left the integers, as an index of 64
-- bits plus 1, a comparison with a number that an item may reach says the same.
local function is_whole(node, form)
  if node.kind == "int" then return true end
  if node.kind ~= "weak" or form.c % 1 ~= 0 then return false end
  for part, x in pairs(form.of) do
    if part.kind ~= "int" or x % 1 ~= 0 then return false end
  end
  return true
end

-- Adds the affine forms that are at least 0 where a condition is so, and those that are not 0,
-- with a mark. Of two numbers it says nothing, but whether an item ever comes there.
local function add_facts(out, node, yes)
  while node.op == "not" do node, yes = node.args[1], not yes end
  local a, b = node.args and node.args[1], node.args and node.args[2]
  if not b then return end
  local x, y = affine.of(a), affine.of(b)
  if not is_whole(a, x) or not is_whole(b, y) then return end
  if not next(affine.add(x, y, -1).of) then return end
  local function at_least(p, q, c)
    local form = affine.add(p, q, -1)
    out[#out + 1] = { c = form.c - c, of = form.of }
  end
  if node.op == "lt" or node.op == "le" then
    local strict = node.op == "lt"
    if yes then at_least(y, x, strict and 1 or 0) else at_least(x, y, strict and 0 or 1) end
  elseif node.op == "eq" and yes then
    at_least(x, y, 0)
    at_least(y, x, 0)
  elseif node.op == "eq" then
    at_least(x, y, 0)
    out[#out].differs = true
  end
end

-- Adds what holds within counted loops: that a counter lies between where it begins and ends.
local function add_loops(out, block)
  local at = block
  while at do
    for _, node in ipairs(at.header and at.phis or {}) do
      local loop = node.kind == "int" and node.loop
      if loop and loop.step.op == "number" and loop.first.kind == "int"
        and loop.last.kind == "int" then
        local up, counter = loop.step.k > 0 and 1 or -1, affine.of(node)
        for end_, sign in pairs { first = up, last = -up } do
          local form = affine.add(counter, affine.of(loop[end_]), -1)
          form = sign > 0 and form or affine.add({ c = 0, of = {} }, form, -1)
          out[#out + 1] = { c = form.c, of = form.of, of_counter = true }
        end
      end
    end
    at = dominator(at)
  end
end

local MOST_FACTS = 12

-- Adds what two facts say together: that i < j and j < 5 make i < 4.
local function add_sums(out)
  local n = #out
  for k = 1, n <= MOST_FACTS and n or 0 do
    for l = 1, k - 1 do
      local a, b = out[k], out[l]
      local meets = false
      for node, x in pairs(a.of) do meets = meets or (b.of[node] or 0) * x < 0 end
      if meets and not (a.differs or b.differs) then
        local sum = affine.add(a, b, 1)
        sum.of_loops = a.of_counter and b.of_counter
        if next(sum.of) then out[#out + 1] = sum end
      end
    end
  end
end

--- Affine forms that are at least 0 in a block, and on the way from it to `to`.
---@param block celer.block
---@param to? celer.block
---@return celer.affine[]  with `differs`: not 0, in place of at least 0; with `of_loops`: where
---loops run at all
function M.facts(block, to)
  local out, on_the_way = {}, {}
  for _, condition in ipairs(conditions(block)) do add_facts(out, condition.cond, condition.yes) end
  if to and block.ends and block.ends.cond then
    add_condition(on_the_way, block.ends.cond, block.ends.yes == to)
  end
  for _, condition in ipairs(on_the_way) do add_facts(out, condition.cond, condition.yes) end
  add_loops(out, block)
  add_sums(out)
  return out
end

-- Whether a counted loop is entered for certain, by this branch in front of it.
local function is_entered(ends)
  local loop = ends.yes.loop
  if ends.cond.op ~= "in_loop" or not loop or ends.cond.args[1].steps then return false end
  local first, last, by = loop.first, loop.last, loop.step
  return by.op == "number" and by.k > 0 and first.kind == "int" and last.kind == "int"
    and first.high <= last.low
end

--- Whether each item comes through one of the blocks.
---@param graph celer.graph
---@param through table<celer.block, boolean>
---@return boolean
function M.certain(graph, through)
  local seen = {}
  local function ends_outside(block)
    if through[block] or seen[block] then return false end
    seen[block] = true
    local ends = block.ends
    if not ends then return true end
    if ends.to then return ends_outside(ends.to) end
    return ends_outside(ends.yes) or not is_entered(ends) and ends_outside(ends.no)
  end
  return not ends_outside(graph.blocks[1])
end

--- Whether every way to block `to` comes through a block.
---@param graph celer.graph
---@param through celer.block
---@param to celer.block
---@return boolean
function M.must_pass(graph, through, to)
  local seen = {}
  local function reaches(block)
    if block == through or seen[block] then return false end
    if block == to then return true end
    seen[block] = true
    local ends = block.ends
    if not ends then return false end
    if ends.to then return reaches(ends.to) end
    return reaches(ends.yes) or not is_entered(ends) and reaches(ends.no)
  end
  return not reaches(graph.blocks[1])
end

-- Whether an edge leads out of the loop of blocks first..last but at its end.
local function leaves(block, first, last)
  local ends = block.ends
  if not ends then return true end
  for _, to in ipairs { ends.to or ends.yes, ends.no } do
    if to.id < first or to.id > last then return block.id ~= last end
  end
  return false
end

--- Whether a loop counts by one, has no other end, and comes to a block in each turn.
---@param graph celer.graph
---@param loop celer.counted_loop
---@param block celer.block
---@return boolean
function M.each_turn(graph, loop, block)
  local header = loop.header
  local by = loop.step
  if by.op ~= "number" or math.abs(by.k) ~= 1 or #header.preds ~= 2 then return false end
  local last = header.preds[2]
  for id = header.id, last.id do
    if leaves(graph.blocks[id], header.id, last.id) then return false end
  end
  local seen = {}
  local function passes_by(at)
    if at == block or seen[at] then return false end
    seen[at] = true
    if at == last then return true end
    local ends = at.ends
    if ends.to then return passes_by(ends.to) end
    return passes_by(ends.yes) or not is_entered(ends) and passes_by(ends.no)
  end
  return not passes_by(header)
end

return M
