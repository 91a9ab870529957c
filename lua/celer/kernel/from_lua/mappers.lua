--- mappers.lua -- range mappers and modes of a kernel's buffers, from its footprints.
local linear = require "celer.kernel.from_lua.linear"
local variants = require "celer.kernel.from_lua.variant"

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

-- Raises why a footprint has no rule, and what to do.
local function refuse(use)
  local unknown = use.unknown
  local cause = unknown.cause
  local what = causes[cause.op] or "is no sum of coordinates, counters and captured numbers, or "
    .. "one that no bounds are known of"
  fail(unknown.node, "which part of '%s' a chunk touches cannot be derived: index %d %s%s. Keep it "
    .. "between bounds, as by celer.clamp(x, 0, n - 1), or give the part where the kernel is "
    .. "submitted: celer.access(buffer, mapper) in the place of the buffer, as "
    .. "in celer.access(buffer, celer.all)", use.array.name, unknown.dim, what,
    cause.line ~= unknown.node.line and (" (line %d)"):format(cause.line) or "")
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

local function make(variant, boxes)
  local rows = {}
  for k, box in ipairs(boxes) do
    local low, high = {}, {}
    for d, span in ipairs(box) do
      low[d], high[d] = linear.text(span.low), linear.text(linear.shift(span.high, 1))
    end
    rows[k] = ("celer.box({ %s }, { %s })"):format(table.concat(low, ", "),
      table.concat(high, ", "))
  end
  local text = table.concat(rows, ",\n    ")
  local nodes, names = mentioned(variant, text)
  local code = ("local %s = ...\nreturn function(chunk, buffer)\n  return %s\nend"):format(
    table.concat(names, ", "), text)
  return { text = text, nodes = nodes, boxes = boxes, values = {},
    make = assert(loadstring(code, "=celer/derived")) }
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
    variant.mappers[number] = make(variant, use.boxes)
  end
  return variant.mappers[number]
end

--- The range mapper for a call: the same function as long as its numbers are the same.
---@param mapper celer.lua_mapper
---@param call celer.lua_call
---@return celer.range_mapper
function M.bind(mapper, call)
  local same = mapper.map ~= nil
  for k, node in ipairs(mapper.nodes) do
    local now = variants.value(node, call)
    same = same and mapper.values[k] == now
    mapper.values[k] = now
  end
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
        .. "keep it inside, as by math.min(i + 1, n - 1), make the range smaller, or say what lies "
        .. "beyond, as by celer.periodic(buffer)", d, name, beyond, buffer.name,
        buffer.size[d] - 1)
    end
  end
end

--- Raises, with the line that reads or writes there, if the kernel leaves a buffer.
---@param mapper celer.lua_mapper
---@param range celer.box
---@param buffer celer.buffer
---@param name string  of the parameter
function M.check_inside(mapper, range, buffer, name)
  if mapper.range == range and mapper.extent == buffer.extents then return end
  for k, box in ipairs { mapper.map(range, buffer) } do
    if not is_empty(box) then check_box(mapper.boxes[k].node, box, buffer, name) end
  end
  mapper.range, mapper.extent = range, buffer.extents
end

return M
