--- ranges.lua -- between which bounds a node lies for a chunk of the work.
local affine = require "celer.kernel.from_lua.affine"
local linear = require "celer.kernel.from_lua.linear"
local paths = require "celer.kernel.from_lua.paths"

local M = {}

local constant, atom, add, shift = linear.constant, linear.atom, linear.add, linear.shift

---@class celer.ranges
---@field context celer.bounds_context
---@field names table<celer.node, string>  of captured whole numbers
---@field busy table<celer.node, boolean>
---@field at? celer.block  where the element is of which an index is asked for
---@field beside? boolean  what is asked for stands beside something else that may differ between
---items, in a sum or as an index of the same element

--- What knows nothing yet of captured numbers.
---@return celer.ranges
function M.new(context, names) return { context = context, names = names, busy = {} } end

-- The bound that a form is, if it is made of captured numbers alone.
local function uniform(self, form)
  local out = constant(form.c)
  for node, x in pairs(form.of) do
    if not self.names[node] then return nil end
    out = add(out, atom(self.names[node]), x)
  end
  return out
end

--- The same of a node.
---@return celer.bound?
function M.uniform(self, node) return uniform(self, affine.of(node)) end

local range_of

-- Both bounds of a node, or nil and the node that has none: by what it is.
local by_op = {}

function by_op.coordinate(_, node)
  return atom(("chunk.min[%d]"):format(node.dim)), atom(("chunk.max[%d]"):format(node.dim), -1)
end

function by_op.uniform(self, node)
  if not self.names[node] then return nil, node end
  return atom(self.names[node]), atom(self.names[node])
end

local function of_chunk(bound) return linear.text(bound):find("chunk.", 1, true) ~= nil end

-- From the lower end of the loop to the upper. A loop that does not run has the upper below the
-- lower. Where items differ in both ends, or in one and in what stands beside, the bounds are kept
-- in order all the same: the box of a chunk would have elements that no part of the chunk has.
function by_op.loop(self, node)
  local loop, context = node.loop, self.context
  if loop.step.op ~= "number" then return nil, node end
  local before, from, to = node.block.preds[1], loop.first, loop.last
  if loop.step.k < 0 then from, to = to, from end
  local low, from_high = range_of(self, from, before)
  if not low then return nil, from_high end
  local to_low, high = range_of(self, to, before)
  if not to_low then return nil, high end
  local from_moves, to_moves = of_chunk(low), of_chunk(high)
  if from_moves and to_moves then
    return linear.choose(context, "min", low, to_low),
      linear.choose(context, "max", high, from_high)
  end
  if self.beside and from_moves then return linear.choose(context, "min", low, high), high end
  if self.beside and to_moves then return low, linear.choose(context, "max", high, low) end
  return low, high
end

local LARGE = 2 ^ 53

local choose

-- What bounds an operand of min or max: nil where nothing does, and then why.
local function operand(self, node, block)
  if node.kind ~= "int" and (node.op == "min" or node.op == "max") then
    return choose(self, node, block)
  end
  local low, high = range_of(self, node, block)
  if low then return low, high end
  if node.kind == "int" and node.low >= -LARGE and node.high <= LARGE then
    return constant(node.low), constant(node.high)
  end
  return nil, nil, high
end

-- One of the two bounds is enough to be below the smaller, or above the larger.
function choose(self, node, block)
  local a, b, cause = operand(self, node.args[1], block)
  local c, d, other = operand(self, node.args[2], block)
  if node.args[1].kind ~= "int" and not node.args[1].is_number then -- of a NaN the second
    if node.op == "max" then a = nil else b = nil end
  end
  local function either(x, y, one_will_do)
    if x and y then return linear.choose(self.context, node.op, x, y) end
    return one_will_do and (x or y) or nil
  end
  return either(a, c, node.op == "max"), either(b, d, node.op == "min"), cause or other
end

local function choice(self, node, block)
  local low, high, cause = choose(self, node, block)
  if low and high then return low, high end
  return nil, cause
end
by_op.min, by_op.max = choice, choice

function by_op.floor(self, node, block)
  local by = node.divides and M.uniform(self, node.args[1].args[2])
  if not by then return nil, node end
  local low, high = range_of(self, node.args[1].args[1], block)
  if not low then return nil, high end
  return linear.divide(low, by), linear.divide(high, by)
end

-- By a captured number.
function by_op.mul(self, node, block)
  local of, by = node.args[1], M.uniform(self, node.args[2])
  if not by then of, by = node.args[2], M.uniform(self, node.args[1]) end
  local factor = of == node.args[1] and node.args[2] or node.args[1]
  if not by then return nil, node end
  local low, high = range_of(self, of, block)
  if not low then return nil, high end
  low, high = linear.multiply(low, by), linear.multiply(high, by)
  if factor.low >= 0 then return low, high end
  return linear.choose(self.context, "min", low, high),
    linear.choose(self.context, "max", low, high)
end

function by_op.bits(_, node)
  if node.low < 0 then return nil, node end
  return constant(node.low), constant(node.high)
end

function by_op.mod(self, node)
  local by = node.args[2]
  local bound = M.uniform(self, by)
  if not bound or by.kind ~= "int" or by.low <= 0 then return nil, node end
  return constant(0), shift(bound, -1)
end

function by_op.lookup(_, node) return constant(node.low), constant(node.high) end
by_op.get = by_op.lookup

function by_op.phi(self, node)
  if node.loop then return by_op.loop(self, node) end
  if node.block.header then return nil, node end
  local low, high
  for k, arg in ipairs(node.args) do
    local a, b = range_of(self, arg, node.block.preds[k], node.block)
    if not a then return nil, b end
    low = low and linear.choose(self.context, "min", low, a) or a
    high = high and linear.choose(self.context, "max", high, b) or b
  end
  return low, high
end

-- What the bounds become of what is not `value`, if that is the first or last that it could be.
local function without(self, low, high, value)
  local context = self.context
  if linear.at_most(context, value, low) then
    low = linear.choose(context, "max", low, shift(value, 1))
  end
  if linear.at_most(context, high, value) then
    high = linear.choose(context, "min", high, shift(value, -1))
  end
  return low, high
end

-- Whether a bound depends on how many items a chunk has. That of the whole then says nothing of
-- the parts.
local function grows(bound)
  local text = linear.text(bound)
  for d = 0, 2 do
    if text:find(("chunk.min[%d]"):format(d), 1, true)
      and text:find(("chunk.max[%d]"):format(d), 1, true) then
      return true
    end
  end
  return false
end

-- Which coordinate a form is a multiple of, by how much, and what captured numbers add.
local function multiple_of(self, form)
  local found, rest = nil, { c = form.c, of = {} }
  for part, x in pairs(form.of) do
    if self.names[part] then
      rest.of[part] = x
    elseif found or part.op ~= "coordinate" then
      return nil
    else
      found = part
    end
  end
  if found then return found, form.of[found], uniform(self, rest) end
end

-- A bound and what a condition says. Where the bound would depend on how a range is split, the
-- condition alone.
local function tighter(self, what, bound, said)
  return grows(bound) and said or linear.choose(self.context, what, bound, said)
end

-- Whether a form is a coordinate, with something added, or taken from something.
local function is_coordinate(form)
  local node, x = next(form.of)
  return node and node.op == "coordinate" and math.abs(x) == 1 and not next(form.of, node)
end

-- What a fact says of a form: a bound below, or one above, or with `differs` what it is not. What
-- it says of a multiple of a coordinate, it says of the coordinate.
local function said_by(self, fact, form)
  local below, above = uniform(self, affine.add(form, fact, -1)),
    uniform(self, affine.add(form, fact, 1))
  if below or above then return below, above end
  local node, x, rest = multiple_of(self, fact)
  local own, sign, shifted = multiple_of(self, form)
  if not node or node ~= own or math.abs(sign) ~= 1 then return nil end
  if fact.differs and (next(rest.of) or rest.c % x ~= 0) then return nil end
  sign = x > 0 and -sign or sign
  local value = add(shifted, linear.divide(rest, constant(math.abs(x))), sign)
  if sign < 0 then return value end
  return nil, value
end

-- What the conditions say that hold in the block: which values it is above or below, and then
-- which it is not. Of a multiple of a coordinate: by what they say of that, as parts of a chunk
-- end at such values, and so does the chunk then.
local function narrow(self, form, low, high, block, to)
  local node, x, rest = multiple_of(self, form)
  if node and math.abs(x) > 1 then
    local a, b = by_op.coordinate(self, node)
    a, b = narrow(self, affine.of(node), a, b, block, to)
    if x < 0 then a, b = b, a end
    return tighter(self, "max", low, add(rest, a, x)), tighter(self, "min", high, add(rest, b, x))
  end
  local others = {}
  for _, fact in ipairs(paths.facts(block, to)) do
    local below, above = said_by(self, fact, form)
    if fact.differs then
      others[#others + 1] = below or above
    else
      if below then low = tighter(self, "max", low, below) end
      if above then high = tighter(self, "min", high, above) end
    end
  end
  for _ = 1, math.min(#others, 4) do -- in any order of theirs
    for _, value in ipairs(others) do low, high = without(self, low, high, value) end
  end
  return low, high
end

--- What the conditions alone say of a form in a block: bounds, and what it is not; nil where
--- they say nothing.
---@param self celer.ranges
---@param form celer.affine
---@param block celer.block
---@param alike fun(fact: celer.affine): celer.affine  with nodes as in the form
---@return celer.bound? low, celer.bound? high, celer.bound? except
function M.said(self, form, block, alike)
  local low, high, except
  for _, fact in ipairs(paths.facts(block)) do
    local other = alike(fact)
    local below, above = uniform(self, affine.add(form, other, -1)),
      uniform(self, affine.add(form, other, 1))
    if fact.differs then
      except = except or below or above
    else
      if below then low = low and linear.choose(self.context, "max", low, below) or below end
      if above then high = high and linear.choose(self.context, "min", high, above) or above end
    end
  end
  return low, high, except
end

-- Where one index of an element is narrowed by a condition on a coordinate, others that come from
-- it have to be: in a sum, and what was computed before the condition.
local function narrow_coordinate(self, form, low, high, block, to)
  low, high = narrow(self, form, low, high, block, to)
  if not self.at or self.at == block then return low, high end
  return narrow(self, form, low, high, self.at)
end

local function of_form(self, form, block, to)
  local low, high = constant(form.c), constant(form.c)
  local parts, differing, beside = affine.nodes(form), 0, self.beside
  for _, part in ipairs(parts) do
    if not self.names[part] then differing = differing + 1 end
  end
  self.beside = beside or differing > 1
  for _, part in ipairs(parts) do
    local a, b
    if part.kind == "int" and by_op[part.op] then a, b = by_op[part.op](self, part, block) end
    if not a then
      low, high = nil, b or part
      break
    end
    if part.op == "coordinate" and not is_coordinate(form) then
      a, b = narrow_coordinate(self, affine.of(part), a, b, block, to)
    end
    local x = form.of[part]
    if x < 0 then a, b = b, a end
    low, high = add(low, a, x), add(high, b, x)
  end
  self.beside = beside
  return low, high
end

-- Nodes that lead back to themselves have no bounds.
function range_of(self, node, block, to)
  if node.kind ~= "int" or self.busy[node] then return nil, node end
  self.busy[node] = true
  local form = affine.of(node)
  local low, high = of_form(self, form, block, to)
  self.busy[node] = nil
  if not low then return nil, high end
  return (is_coordinate(form) and narrow_coordinate or narrow)(self, form, low, high, block, to)
end

--- The bounds of a node in a block; nil and the node that has none.
---@param self celer.ranges
---@param node celer.node
---@param block celer.block
---@return celer.bound? low, celer.bound|celer.node high
function M.of(self, node, block) return range_of(self, node, block) end

--- Finds which min and max always choose the same operand, whichever the item: a neighbour's
--- index that is clamped at the edge which it is not at.
---@param self celer.ranges
---@param graph celer.graph
function M.decide_choices(self, graph)
  graph:each(function(node)
    if node.kind ~= "int" or node.op ~= "min" and node.op ~= "max" then return end
    for k = 1, 2 do
      local a, b = node.args[k], node.args[3 - k]
      local low, high = range_of(self, a, node.block)
      local other_low, other_high = range_of(self, b, node.block)
      if low and other_low and (node.op == "min" and linear.at_most(self.context, high, other_low)
        or node.op == "max" and linear.at_most(self.context, other_high, low)) then
        node.chooses = node.chooses or a
      end
    end
  end)
end

-- ---- indices that wrap around -------------------------------------------------------------

local function span(low, high, core, kind)
  return { low = low, high = high, core = core, kind = kind }
end

--- How many elements lie between those of neighbouring items, at most. A box that goes on to
--- the next item's gives for a chunk what it gives for the chunk's parts.
---@param form celer.affine
---@return number
function M.gap(form)
  local n = 0
  for node, x in pairs(form.of) do
    if node.op == "coordinate" then n = n + math.abs(x) - 1 end
    if node.op == "mul" then n = math.huge end -- by what was captured
  end
  return n
end

-- Sets which ends (i + 1) % n wraps at, where it wraps at most once: by what holds where it is
-- computed, as then it is computed so for all that use it.
local function note_wraps(self, node, n, gap)
  local context, at = self.context, self.at
  self.at = nil
  local low, high = range_of(self, node.args[1], node.block)
  self.at = at
  if not low or grows(low) or grows(high) then return false end
  high = shift(high, gap)
  local zero, last = constant(0), shift(n, -1)
  local not_before = linear.at_most(context, zero, low)
  local not_behind = linear.at_most(context, high, last)
  if not (not_before or linear.at_most(context, add(zero, n, -1), low))
    or not (not_behind or linear.at_most(context, high, shift(add(n, n, 1), -1))) then
    return false -- it may wrap more than once
  end
  node.wraps = (not_before and "" or "before") .. (not_behind and "" or "behind")
  return true
end

-- What it is then: inside, and beyond either end.
local function wrapped(self, node)
  local by, context = node.args[2], self.context
  local n = by.kind == "int" and by.low > 0 and M.uniform(self, by)
  local core = affine.of(node.args[1])
  local gap = M.gap(core)
  if not n or gap == math.huge or not note_wraps(self, node, n, gap) then return nil end
  local low, high = range_of(self, node.args[1], node.block)
  if grows(low) or grows(high) then return nil end
  high = shift(high, gap)
  local zero, last = constant(0), shift(n, -1)
  local out = { span(linear.choose(context, "max", low, zero),
    linear.choose(context, "min", high, last), core, "inside") }
  if node.wraps:find "before" then
    out[2] = span(linear.choose(context, "min", add(low, n, 1), n),
      linear.choose(context, "min", add(high, n, 1), last), core, "before")
  end
  if node.wraps:find "behind" then
    out[#out + 1] = span(linear.choose(context, "max", add(low, n, -1), zero),
      linear.choose(context, "max", add(high, n, -1), constant(-1)), core, "behind")
  end
  return out
end

-- An index without the captured numbers that clamp it: what it moves with.
local function core_of(self, node)
  while node.op == "min" or node.op == "max" do
    if M.uniform(self, node.args[2]) then
      node = node.args[1]
    elseif M.uniform(self, node.args[1]) then
      node = node.args[2]
    else
      break
    end
  end
  return affine.of(node)
end

---@class celer.span  of an index
---@field low celer.bound
---@field high celer.bound
---@field core celer.affine  what it moves with
---@field kind string
---@field follows? integer  which coordinate it is a multiple of, with something added
---@field ways? celer.way[]  by which items come to it, beside that to the element

-- Which coordinate a form is a multiple of.
local function followed(self, form)
  local node = multiple_of(self, form)
  return node and node.dim or nil
end

-- ---- an index that a branch chooses ------------------------------------------------------

---@class celer.way  what items come by that have a form: facts hold at the end of a block
---@field form celer.affine
---@field from celer.block
---@field to? celer.block

local MOST_ARMS = 8

-- The part of a form that a branch chooses, but no loop.
local function chosen_part(form)
  for _, part in ipairs(affine.nodes(form)) do
    if part.op == "phi" and part.kind == "int" and not part.block.header then return part end
  end
end

-- Adds the ways by which a form comes to be one without such parts.
local function add_arms(out, form, ways)
  local phi = chosen_part(form)
  if not phi or #out > MOST_ARMS then
    out[#out + 1] = ways
    return out
  end
  for k, arg in ipairs(phi.args) do
    local apart = affine.add(affine.of(arg), affine.of(phi), -1)
    local way = { form = affine.add(form, apart, form.of[phi]), from = phi.block.preds[k],
      to = phi.block }
    add_arms(out, way.form, { way, unpack(ways) })
  end
  return out
end

-- The span of one arm: each way says something of what the index is by then, and at last.
local function span_of_arm(self, ways)
  local last = ways[1]
  local low, high = of_form(self, last.form, last.from, last.to)
  if not low then return nil end
  for _, way in ipairs(ways) do
    low, high = narrow(self, last.form, low, high, way.from, way.to)
    if way ~= last then low, high = narrow(self, way.form, low, high, way.from, way.to) end
  end
  if grows(low) or grows(high) then return nil end
  local out = span(low, high, last.form, "inside")
  out.follows, out.ways = followed(self, last.form), ways
  return out
end

-- A span for each arm; nil where there is one, or one that has no bounds.
local function spans_of_arms(self, node, block)
  local form = affine.of(node)
  local arms = add_arms({}, form, { { form = form, from = block } })
  if #arms == 1 or #arms > MOST_ARMS then return nil end
  local out = {}
  for k, ways in ipairs(arms) do
    out[k] = span_of_arm(self, ways)
    if not out[k] then return nil end
  end
  return out
end

--- A span that follows a coordinate, for items that come by these ways.
---@param self celer.ranges
---@param one celer.span
---@param ways celer.way[]
---@return celer.span
function M.narrowed(self, one, ways)
  local low, high = one.low, one.high
  for _, way in ipairs(ways) do
    low, high = narrow(self, one.core, low, high, way.from, way.to)
  end
  if grows(low) or grows(high) then return one end
  local out = span(low, high, one.core, one.kind)
  out.follows = one.follows
  return out
end

-- ---- chunks that need nothing of an element -----------------------------------------------

---@class celer.need  of a chunk, for that one of its items comes by some ways
---@field dim integer  of the range
---@field late? celer.bound  at most 0 where the chunk does not begin behind all such items
---@field early? celer.bound  and where it does not end before them

-- The bounds of each coordinate alone, on a way: low and high, and what it is not.
local function add_bounds(self, out, way)
  for _, fact in ipairs(paths.facts(way.from, way.to)) do
    local node = multiple_of(self, fact)
    local low, high
    if node and not fact.of_loops then low, high = said_by(self, fact, affine.of(node)) end
    if low or high then
      local one = out[node.dim] or { not_at = {} }
      if fact.differs then
        table.insert(one.not_at, low or high)
      else
        one.low = low and one.low and linear.choose(self.context, "max", one.low, low)
          or low or one.low
        one.high = high and one.high and linear.choose(self.context, "min", one.high, high)
          or high or one.high
      end
      out[node.dim] = one
    end
  end
end

-- Bounds, without an end that is left out.
local function without_ends(self, one)
  for _, value in ipairs(one.not_at) do
    if one.low and linear.at_most(self.context, value, one.low) then
      one.low = linear.choose(self.context, "max", one.low, shift(value, 1))
    end
    if one.high and linear.at_most(self.context, one.high, value) then
      one.high = linear.choose(self.context, "min", one.high, shift(value, -1))
    end
  end
end

--- What a chunk needs for that one of its items comes by these ways, for each coordinate of
--- which they say something.
---@param self celer.ranges
---@param ways celer.way[]
---@return table<integer, celer.need>  by coordinate
function M.needs(self, ways)
  local context, bounds, out = self.context, {}, {}
  for _, way in ipairs(ways) do add_bounds(self, bounds, way) end
  for d, one in pairs(bounds) do
    without_ends(self, one)
    local late = one.high and add(atom(("chunk.min[%d]"):format(d)), one.high, -1)
    local early = one.low and add(one.low, atom(("chunk.max[%d]"):format(d), -1), -1)
    if late and early then
      late = linear.choose(context, "max", late, add(one.low, one.high, -1))
    end
    local function matters(bound)
      return bound and not linear.at_most(context, bound, constant(0)) and bound or nil
    end
    out[d] = { dim = d, late = matters(late), early = matters(early) }
  end
  return out
end

local function spans_of(self, node, block, arms)
  local spans = node.op == "mod" and node.kind == "int" and wrapped(self, node)
    or arms and spans_of_arms(self, node, block)
  if spans then return spans end
  local low, high = range_of(self, node, block)
  if not low then return nil, high end
  if grows(low) or grows(high) then return nil, node end
  local out = span(low, high, core_of(self, node), "inside")
  out.follows = followed(self, affine.of(node))
  return { out }
end

--- Where an index of an element lies: in one of these spans; nil and the node that has no bounds.
---@param self celer.ranges
---@param element celer.node
---@param d integer  which index, from 1
---@param arms? boolean  of what a branch chooses, a span for each arm
---@return celer.span[]? spans, celer.node? cause
function M.spans(self, element, d, arms)
  for other = 1, element.array.dims do
    self.beside = self.beside or other ~= d and not M.uniform(self, element.index[other])
  end
  self.at = element.block
  local spans, cause = spans_of(self, element.index[d], element.block, arms)
  self.beside, self.at = nil, nil
  return spans, cause
end

return M
