--- indirect.lua -- reads of what an index buffer names: x[col[k]], and val[k] for each k of a row.
---
--- The first index of such a read is an element of another array with a constant added, or a
--- counter that runs from one element of it to another. Reads of an array by one index are a
--- *group*. In the kernel a group is an array of its own, beside what is read of the buffer
--- otherwise, so that celer.image can say what each is.
local affine = require "celer.kernel.from_lua.affine"
local linear = require "celer.kernel.from_lua.linear"
local ranges = require "celer.kernel.from_lua.ranges"

local M = {}

---@class celer.indirect  a group
---@field array celer.lua_array  its own: its `source` is the argument that it is of
---@field by celer.lua_array  the index
---@field kind "elements"|"offsets"|"pairs"
---@field first? integer  of ranges: added to the first row, the last one, and from row to row
---@field last? integer
---@field step? integer
---@field low integer  added to each row: the least and the most
---@field high integer
---@field bounds {least: celer.bound?, most: celer.bound?, except: celer.bound?}  of entries that
--- name a row, or of the counter
---@field box? celer.span[]  the entries
---@field through? celer.indirect  in their place: those that it names
---@field given? boolean  in their place: as the index's access says

---@class celer.indirect_finder
---@field ranges celer.ranges
---@field arguments celer.lua_argument[]
---@field written table<integer, boolean>
---@field known table<string, celer.node>  one load of each element
---@field group_of table<celer.node, celer.indirect|false>
---@field groups celer.indirect[]
---@field by_key table<string, celer.indirect>

local index_types = { i4 = true, u4 = true, i8 = true }

-- ---- what is the same -----------------------------------------------------------------------

local alike

-- One load in the place of all that read the same element, which nobody writes.
local function one_of(self, load)
  if self.written[load.array.number] then return load end
  local key = { load.array.number, load.field }
  for d, at in ipairs(load.index) do key[d + 2] = affine.key(alike(self, affine.of(at))) end
  local text = table.concat(key, ";")
  self.known[text] = self.known[text] or load
  return self.known[text]
end

function alike(self, form)
  local out = { c = form.c, of = {} }
  for _, node in ipairs(affine.nodes(form)) do
    local one = node.op == "load" and one_of(self, node) or node
    out.of[one] = (out.of[one] or 0) + form.of[node]
  end
  return out
end

-- How much more one index is than another; nil where that depends on the item.
local function apart(self, a, b)
  local form = affine.add(alike(self, affine.of(a)), alike(self, affine.of(b)), -1)
  return not next(form.of) and form.c or nil
end

-- The node that a form is, with a constant added.
local function single(form)
  local node, x = next(form.of)
  if node and x == 1 and not next(form.of, node) then return node end
end

-- ---- what an index follows -------------------------------------------------------------------

local function has_load(form)
  for node in pairs(form.of) do
    if node.op == "load" then return true end
  end
  return false
end

local LOOPS = "celer follows a counter from ptr[i] to ptr[i + 1] - 1, and from pairs[i][0] to "
  .. "pairs[i][1] - 1"

-- Which entries of an index a and b are, between which a counter runs.
local function kind_between(self, a, b)
  if a.array.number ~= b.array.number or a.field ~= "" or b.field ~= "" then return nil end
  local dims, by = a.array.dims, apart(self, b.index[1], a.index[1])
  if dims == 1 and by == 1 then return "offsets" end
  if dims == 2 and by == 0 and a.index[2].k == 0 and b.index[2].k == 1 then return "pairs" end
end

-- What the conditions say of a node that an index is made of.
local function said(self, node, load)
  local least, most, except = ranges.said(self.ranges, { c = 0, of = { [node] = 1 } }, load.block,
    function(fact) return alike(self, fact) end)
  return { least = least, most = most, except = node.op == "load" and except or nil }
end

local function is_at_least(self, k, node, block)
  local low = ranges.of(self.ranges, node, block)
  return low and linear.at_most(self.ranges.context, linear.constant(k), low)
end

-- By which a counter goes on; of a number of the script that is positive by 1, so that no row is
-- missed.
local function step_of(self, loop, block)
  if loop.step.op == "number" then return loop.step.k end
  return is_at_least(self, 1, loop.step, block) and 1 or 0
end

-- Where a counter may begin, and its step: what is added to an element and never
-- negative, as a coordinate, only has it leave rows out.
local function begin_of(self, form, step, block)
  local out, later = { c = form.c, of = {} }, false
  for node, x in pairs(form.of) do
    if node.op == "load" then
      out.of[node] = x
    elseif x > 0 and is_at_least(self, 0, node, block) then
      later = true
    else
      return form, step
    end
  end
  return out, later and 1 or step
end

local function follow_counter(self, node, c, load)
  local loop = node.loop
  local step = step_of(self, loop, load.block)
  if step == 0 then return nil end
  local first, last = alike(self, affine.of(loop.first)), alike(self, affine.of(loop.last))
  if step < 0 then first, last = last, first end
  if has_load(first) then first, step = begin_of(self, first, step, load.block) end
  if not has_load(first) and not has_load(last) then return nil end
  local a, b = single(first), single(last)
  local is_pair = a and b and a.op == "load" and b.op == "load"
  local kind = is_pair and kind_between(self, a, b)
  if not kind then return nil, LOOPS end
  return { kind = kind, load = a, other = b, first = first.c, last = last.c, step = step, low = c,
    high = c, bounds = said(self, node, load) }
end

-- What the index of a load follows; nil, and why not where it is computed from elements.
local function follow(self, load)
  local at = load.index[1]
  local form = alike(self, affine.of(at))
  local node = single(form)
  if not node then
    return nil, has_load(form) and "celer follows an element of an index with a constant added, as "
      .. "in x[col[k] + 1]" or nil
  elseif node.op == "phi" and node.loop then
    return follow_counter(self, node, form.c, load)
  elseif node.op ~= "load" then
    return nil
  end
  return { kind = "elements", load = node, low = form.c, high = form.c,
    bounds = said(self, node, load) }
end

-- ---- which entries ---------------------------------------------------------------------------

-- Why an array is no index; nil where it is one.
local function fault_of(self, load)
  local array = load.array
  local type_ = array.type
  if load.field ~= "" or not index_types[(type_.class or "") .. type_.size] then
    return ("an index holds int32_t, uint32_t or int64_t, not %s as '%s' does"):format(
      type_.name, array.name)
  elseif self.written[array.number] then
    return ("the kernel writes '%s': an index must not change meanwhile"):format(array.name)
  elseif self.arguments[array.number].edge then
    return ("'%s' is read beyond its edges, and cannot be an index"):format(array.name)
  end
end

local function hull(context, spans)
  local out = spans[1]
  for k = 2, #spans do
    out = { low = linear.choose(context, "min", out.low, spans[k].low),
      high = linear.choose(context, "max", out.high, spans[k].high), core = out.core,
      kind = out.kind }
  end
  return out
end

-- The box of an index's elements that a load takes.
local function box_of(self, load)
  local out = { node = load }
  for d = 1, load.array.dims do
    local spans = ranges.spans(self.ranges, load, d)
    if not spans then return nil end
    out[d] = hull(self.ranges.context, spans)
  end
  return out
end

local group_of

-- Notes in `found` which entries it is by; gives why there are none.
local function find_entries(self, found)
  local load, other = found.load, found.other
  local why = fault_of(self, load)
  if why then return why end
  if self.arguments[load.array.number].map then
    found.given = true
    return nil
  end
  found.through = group_of(self, load) or nil
  if other and (group_of(self, other) or nil) ~= found.through then return LOOPS end
  if found.through then return nil end
  found.box = box_of(self, load)
  if found.box and found.kind == "pairs" then
    found.box[2].high = linear.shift(found.box[2].high, 1)
  end
  if not found.box then
    return ("which elements of '%s' it takes cannot be derived"):format(load.array.name)
  end
end

-- ---- groups ----------------------------------------------------------------------------------

local function key_of(load, found)
  local key = { load.array.number, found.load.array.number, found.kind, found.first or "-",
    found.last or "-", found.step or "-" }
  for _, name in ipairs { "least", "most", "except" } do
    key[#key + 1] = found.bounds[name] and linear.text(found.bounds[name]) or "-"
  end
  key[#key + 1] = found.through and found.through.array.number or found.given and "given" or "box"
  return table.concat(key, ";")
end

local function make_group(self, load, found)
  local group = { by = found.load.array, kind = found.kind, first = found.first, last = found.last,
    step = found.step, low = found.low, high = found.high, bounds = found.bounds, box = found.box,
    through = found.through, given = found.given }
  group.array = setmetatable({ number = #self.arguments + #self.groups + 1,
    source = load.array.number, indirect = group }, { __index = load.array })
  table.insert(self.groups, group)
  return group
end

local function join(self, load, found)
  local key, context = key_of(load, found), self.ranges.context
  local group = self.by_key[key]
  if not group then
    group = make_group(self, load, found)
    self.by_key[key] = group
  end
  group.low, group.high = math.min(group.low, found.low), math.max(group.high, found.high)
  for d, span in ipairs(group.box or {}) do
    group.box[d] = hull(context, { span, found.box[d] })
  end
  return group
end

-- The group of a load, or false.
local function find_group(self, load)
  local array = load.array
  local argument = self.arguments[array.number]
  if array.dims == 0 or argument.map or argument.edge
    or ranges.spans(self.ranges, load, 1) then
    return false
  end
  local found, why = follow(self, load)
  why = found and find_entries(self, found) or why
  if found and not why and self.written[array.number] then
    why = ("the kernel also writes '%s': write to a second buffer"):format(array.name)
  end
  load.why = why
  return found and not why and join(self, load, found) or false
end

function group_of(self, load)
  if self.group_of[load] == nil then
    self.group_of[load] = false -- nothing leads to itself
    self.group_of[load] = find_group(self, load)
  end
  return self.group_of[load]
end

--- Gives reads by an index an array of their own, for each group. Notes in `why` of a load why
--- it is in none, though elements decide where it reads.
---@param graph celer.graph
---@param self celer.ranges
---@param arguments celer.lua_argument[]
---@return celer.indirect[]
function M.split(graph, self, arguments)
  local finder = { ranges = self, arguments = arguments, written = {}, known = {}, group_of = {},
    groups = {}, by_key = {} }
  local loads = {}
  graph:each(function(node)
    if node.op == "load" then loads[#loads + 1] = node end
    if node.op == "store" or node.op == "atomic" then finder.written[node.array.number] = true end
  end)
  for _, load in ipairs(loads) do group_of(finder, load) end
  for _, load in ipairs(loads) do
    local group = finder.group_of[load]
    if group then load.array = group.array end
  end
  return finder.groups
end

return M
