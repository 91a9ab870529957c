--- mappers.lua -- range mappers and modes of a kernel's buffers, from its footprints.
local linear = require "celer.kernel.from_lua.linear"
local variants = require "celer.kernel.from_lua.variant"
local whole = require "celer.kernel.from_lua.whole"

local M = {}

local function fail(node, message, ...)
  error(("%s:%d: %s"):format(node.file, node.line, message:format(...)), 0)
end

local causes = {
  load = "is computed from an element of a buffer",
  atomic = "is what an atomic operation returns",
  phi = "is changed by a loop whose turns are not counted",
  uniform = "is computed from a number that is not whole",
  lookup = "is computed from a list of fractions",
}

local GATHER = "What is written where elements say is not followed: let each item gather what it "
  .. "needs, as in y[i] = x[from[i]], push to it, as by celer.route(%s, \"sum\"), or reduce into "
  .. "it, as by celer.sum(%s), or "

-- Raises why a footprint has no rule, and what to do.
local function refuse(use)
  local unknown = use.unknown
  local cause = unknown.cause
  local what = causes[cause.op]
    or cause.kind ~= "int" and whole.is_whole(cause) and "may be larger than 2^53"
    or "is no sum of coordinates, counters and captured numbers, or "
    .. "one that no bounds are known of"
  local way = "Keep it between bounds, as by celer.clamp(x, 0, n - 1), or "
  if cause.op == "load" and unknown.node.op == "store" then
    way = GATHER:format(use.array.name, use.array.name)
  end
  fail(unknown.node, "which part of '%s' a chunk touches cannot be derived: index %d %s%s%s. %s"
    .. "give the part where the kernel is submitted: celer.access(buffer, mapper) in the place of "
    .. "the buffer, as in celer.access(buffer, celer.all)", use.array.name, unknown.dim, what,
    cause.line ~= unknown.node.line and (" (line %d)"):format(cause.line) or "",
    unknown.node.why and ", and " .. unknown.node.why or "", way)
end

-- Captured numbers that a text mentions, in an order that all ranks share.
local function mentioned(variant, text)
  local nodes, names = {}, { "celer" }
  for _, node in ipairs(variant.captured.uniforms) do
    local name = variant.names[node]
    if name and text:find("%f[%w_]" .. name .. "%f[^%w_]") then
      nodes[#nodes + 1], names[#names + 1] = node, name
    end
  end
  return nodes, names
end

---@class celer.lua_mapper
---@field text string  boxes, as Lua
---@field nodes celer.node[]  captured numbers
---@field make function  from celer and their values to a range mapper
---@field boxes celer.span[][]
---@field values any[]  it was made for
---@field map? celer.range_mapper
---@field group? celer.indirect  of reads by an index; `make` gives bounds of entries then
---@field entries? celer.lua_mapper  of the index, for those
---@field is_own? boolean  those of an item are at its own coordinates
---@field inside? celer.lua_mapper  of the elements, which the index decides the rows of

-- With `code`, which mentions numbers.
local function compiled(variant, text, code)
  local nodes, names = mentioned(variant, text)
  code = ("local %s = ...\n%s"):format(table.concat(names, ", "), code)
  return { text = text, nodes = nodes, values = {}, make = assert(loadstring(code,
    "=celer/derived")) }
end

local function box_text(low, high)
  return ("celer.box({ %s }, { %s })"):format(table.concat(low, ", "), table.concat(high, ", "))
end

local function make(variant, boxes)
  local rows = {}
  for k, box in ipairs(boxes) do
    local low, high = {}, {}
    for d, span in ipairs(box) do
      low[d], high[d] = linear.text(span.low), linear.text(linear.shift(span.high, 1))
    end
    rows[k] = box_text(low, high)
  end
  local text = table.concat(rows, ",\n    ")
  local code = ("return function(chunk, buffer)\n  return %s\nend"):format(text)
  local out = compiled(variant, text, code)
  out.boxes = boxes
  return out
end

local function number_text(x) return ("%.17g"):format(x) end

local own = {} -- a box of the item's own coordinates, by dimensions
for dims = 1, 3 do
  local low, high = {}, {}
  for d = 1, dims do
    low[d], high[d] = ("chunk.min[%d]"):format(d - 1), ("chunk.max[%d]"):format(d - 1)
  end
  own[dims] = box_text(low, high)
end

-- How an image of an index is written.
local function image_text(group, self, bounds)
  local options = {}
  if group.kind ~= "elements" then options[1] = 'as = "ranges"' end
  if group.given then
    options[#options + 1] = "of = as given"
  elseif not self.is_own then
    options[#options + 1] = "of = " .. self.entries.text
  end
  local low, high = group.low + (group.first or 0), group.high + (group.last or -1) + 1
  if group.kind == "elements" then high = group.high end
  if low == high and low ~= 0 then options[#options + 1] = "plus = " .. number_text(low) end
  if low ~= high then
    options[#options + 1] = ("plus = { %s, %s }"):format(number_text(low), number_text(high))
  end
  if bounds[1] ~= "nil" or bounds[2] ~= "nil" then
    options[#options + 1] = ("within = { %s, %s }"):format(bounds[1] ~= "nil" and bounds[1]
      or "-math.huge", bounds[2] ~= "nil" and bounds[2] or "math.huge")
  end
  if bounds[3] ~= "nil" then options[#options + 1] = "except = " .. bounds[3] end
  return ("celer.image(%s%s)"):format(group.by.name, #options > 0
    and (", { %s }"):format(table.concat(options, ", ")) or "")
end

local function append_nodes(to, from)
  for _, node in ipairs(from.nodes) do to[#to + 1] = node end
end

-- Of reads by an index.
local function make_image(variant, use)
  local group, bounds = use.array.indirect, {}
  for k, name in ipairs { "least", "most", "except" } do
    bounds[k] = group.bounds[name] and linear.text(group.bounds[name]) or "nil"
  end
  local text = table.concat(bounds, ", ")
  local out = compiled(variant, text, "return " .. text)
  out.group, out.inside = group, make(variant, use.boxes)
  if group.through then out.entries = M.of(variant, group.through.array.number) end
  if group.box then out.entries = make(variant, { group.box }) end
  out.is_own = not group.given and out.entries.text == own[variant.items]
  out.text = image_text(group, out, bounds)
  out.own, out.nodes = out.nodes, {}
  for _, part in ipairs { { nodes = out.own }, out.inside, out.entries } do
    append_nodes(out.nodes, part)
  end
  return out
end

--- The mapper of a buffer that the kernel touches; raises where there is none.
---@param variant celer.lua_variant
---@param number integer  of the argument
---@return celer.lua_mapper
function M.of(variant, number)
  local use = variant.uses[number]
  variant.mappers = variant.mappers or {}
  if not variant.mappers[number] then
    if use.unknown then refuse(use) end
    if use.fault then fail(use.fault.node, "%s", use.fault.message) end
    variant.mappers[number] = use.array.indirect and make_image(variant, use)
      or make(variant, use.boxes)
  end
  return variant.mappers[number]
end

local function values_of(nodes, call, values)
  local same = true
  for k, node in ipairs(nodes) do
    local now = variants.value(node, call)
    same = same and values[k] == now
    values[k] = now
  end
  return same
end

local function bind_image(self, call)
  local group, images = self.group, require "celer.submit.image"
  local argument = call.arguments[group.by.source or group.by.number]
  values_of(self.own, call, self.values)
  local reach = { loop = group.kind ~= "elements", low = group.low, high = group.high,
    first = group.first, last = group.last, step = group.step }
  reach.least, reach.most, reach.except = self.make(require "celer",
    unpack(self.values, 1, #self.own))
  self.map = images.derived(argument.buffer, group.kind, group.given and argument.map
    or M.bind(self.entries, call), group.given, reach, self.is_own)
  return self.map
end

--- The range mapper for a call: the same function as long as its numbers are the same; by an
--- index also its buffer.
---@param mapper celer.lua_mapper
---@param call celer.lua_call
---@return celer.range_mapper
function M.bind(mapper, call)
  if mapper.group then return bind_image(mapper, call) end
  local same = mapper.map ~= nil
  same = values_of(mapper.nodes, call, mapper.values) and same
  if not same then
    mapper.map = mapper.make(require "celer", unpack(mapper.values, 1, #mapper.nodes))
    mapper.range = nil
  end
  return mapper.map
end

local function is_empty(box)
  for d = 0, box.dims - 1 do
    if box.min[d] >= box.max[d] then return true end
  end
  return false
end

-- Raises if a box leaves a buffer.
local function check_box(node, box, buffer, name)
  for d = 0, box.dims - 1 do
    local beyond = box.min[d] < 0 and box.min[d] or box.max[d] > buffer.size[d] and box.max[d] - 1
    if beyond then
      fail(node, "index %d of '%s' is %.0f for an item of the range, and buffer %s has 0 to %.0f; "
        .. "keep it inside, as by %s, make the range smaller, or say what lies beyond, as by "
        .. "celer.periodic(buffer)", d, name, beyond, buffer.name, buffer.size[d] - 1,
        beyond < 0 and "math.max(i - 1, 0)" or "math.min(i + 1, n - 1)")
    end
  end
end

--- Raises, with the line that reads or writes there, if the kernel leaves a buffer.
---@param mapper celer.lua_mapper
---@param range celer.box
---@param buffer celer.buffer
---@param name string  of the parameter
---@param call celer.lua_call
function M.check_inside(mapper, range, buffer, name, call)
  if mapper.group then
    mapper = mapper.inside
    M.bind(mapper, call)
  end
  if mapper.range == range and mapper.extent == buffer.extents then return end
  for k, box in ipairs { mapper.map(range, buffer) } do
    if not is_empty(box) then check_box(mapper.boxes[k].node, box, buffer, name) end
  end
  mapper.range, mapper.extent = range, buffer.extents
end

return M
