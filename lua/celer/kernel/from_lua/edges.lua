--- edges.lua -- how far a kernel reads from its items, in a buffer that is read beyond its edges.
---
--- near<T, D> looks at no index of an item that is farther from the edges than the reach of the
--- access's mapper. So an index that certainly leads farther is refused; where nothing is known
--- of one, the mapper that the user gave is believed, as any other.
local affine = require "celer.kernel.from_lua.affine"
local linear = require "celer.kernel.from_lua.linear"
local mapper = require "celer.mapper.builtin"
local place = require "celer.place"
local ranges = require "celer.kernel.from_lua.ranges"
local words = require "celer.words"

local M = {}

local MOST = 256 -- elements that a reach is looked for

-- How far an index that is the item's coordinate and a constant leads from it; nil for others.
local function offset(index, d)
  local form = affine.of(index)
  local node, factor = next(form.of)
  if node and factor == 1 and not next(form.of, node) and node.op == "coordinate"
    and node.dim == d then
    return form.c
  end
end

-- How far an index leads from the item in dimension d, at most; nil where that is not known.
local function distance(self, index, d, block)
  local c = offset(index, d)
  if c then return math.abs(c) end
  local low, high = ranges.of(self, index, block)
  if not low then return nil end
  local first = linear.atom(("chunk.min[%d]"):format(d))
  local last = linear.atom(("chunk.max[%d]"):format(d), -1)
  for r = 0, MOST do
    if linear.at_most(self.context, linear.shift(first, -r), low)
      and linear.at_most(self.context, high, linear.shift(last, r)) then
      return r
    end
  end
end

---@class celer.lua_reach  of one array
---@field [integer] integer  per dimension
---@field along_axes boolean  no index differs from its item in two dimensions
---@field unknown? {node: celer.node, dim: integer}  what no reach is known of

--- How far a kernel reads from its items in an array.
---@param self celer.ranges
---@param use celer.footprint
---@return celer.lua_reach
function M.reach(self, use)
  local out = { along_axes = true }
  for d = 1, use.array.dims do out[d] = 0 end
  for _, load in ipairs(use.loads) do
    local axes = 0
    for d = 1, use.array.dims do
      local index = load.index[d]
      local r = distance(self, index, d - 1, load.block)
      if not r then
        out.unknown = out.unknown or { node = load, dim = d - 1 }
        return out
      end
      out[d], axes = math.max(out[d], r), axes + (r > 0 and 1 or 0)
    end
    out.along_axes = out.along_axes and axes < 2
  end
  return out
end

local function fail(node, message, ...)
  error(("%s:%d: %s"):format(node.file, node.line, message:format(...)), 0)
end

-- Raises if an index certainly leads farther than an edge's mapper says.
local function check_reach(use, edge)
  for _, load in ipairs(use.loads) do
    local apart
    for d = 1, use.array.dims do
      local c = offset(load.index[d], d - 1)
      if c and math.abs(c) > edge.reach[d] then
        fail(load, "index %d of '%s' leads %d from its item, and celer.%s says %d", d - 1,
          use.array.name, math.abs(c), edge.kind, edge.reach[d])
      elseif c and c ~= 0 and apart and edge.along_axes then
        fail(load, "indices %d and %d of '%s' differ from their item, and celer.%s says "
          .. "\"along_axes\": leave that out", apart, d - 1, use.array.name, edge.kind)
      end
      if c and c ~= 0 then apart = d - 1 end
    end
  end
end

local function derive(use, kind, value)
  local reach = use.reach
  if reach.unknown then
    fail(reach.unknown.node, "how far index %d of '%s' leads from its item cannot be derived: say "
      .. "it behind the buffer, as in celer.%s(%s)", reach.unknown.dim, use.array.name, kind,
      kind == "constant" and "buffer, value, 2" or "buffer, 2")
  end
  local list = { unpack(reach, 1, use.array.dims) }
  if #list > 1 and reach.along_axes then list[#list + 1] = "along_axes" end
  if kind == "constant" then return mapper.constant(value, unpack(list)) end
  return mapper[kind](unpack(list))
end

--- Raises if the items of a range are not those of a buffer that is read beyond its edges.
---@param argument celer.lua_argument
---@param name string  of the kernel
---@param call celer.lua_call
function M.check(argument, name, call)
  if call.items ~= argument.dims then
    place.fail("kernel %s: '%s' is read beyond its edges, and has %s; the range has %d: give it as "
      .. "many", name, argument.name, words.count(argument.dims, "dimension"), call.items)
  end
  for d = 1, call.items do
    if call.least[d] < 0 or call.most[d] > argument.extents[d - 1] then
      place.fail("kernel %s: '%s' is read beyond its edges: the range has to lie in the buffer, "
        .. "whose dimension %d has %.0f elements", name, argument.name, d - 1,
        argument.extents[d - 1])
    end
  end
end

--- The range mapper of an argument with an edge: as it was given, or as far as the kernel
--- reads.
---@param use celer.footprint
---@param argument celer.lua_argument
---@return celer.range_mapper
function M.mapper(use, argument)
  local edge = argument.edge
  if not argument.map then return derive(use, edge.kind, edge.value) end
  check_reach(use, edge)
  return argument.map
end

--- The same as text.
---@param use celer.footprint
---@param argument celer.lua_argument
---@return string
function M.text(use, argument)
  local reach, out = use.reach, {}
  if argument.map or reach.unknown then return "as given" end
  if argument.edge.kind == "constant" then out[1] = tostring(argument.edge.value) end
  for d = 1, use.array.dims do out[#out + 1] = reach[d] end
  if use.array.dims > 1 and reach.along_axes then out[#out + 1] = '"along_axes"' end
  return ("celer.%s(%s)"):format(argument.edge.kind, table.concat(out, ", "))
end

return M
