--- assign.lua -- tasks made of expressions: c:set(a + 2 * b), t:reduce("sum", a * b).
---
--- One task each, without temporaries. An element may be read by the item that writes it;
--- what is read elsewhere of the buffer that is written is refused where it may be new already.
local box = require "celer.box"
local compile = require "celer.arrays.compile"
local expression = require "celer.arrays.expression"
local mapper = require "celer.mapper.builtin"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local reduces = require "celer.kernel.reduce"
local types = require "celer.data.types"

local fail, text = place.fail, expression.text

local M = {}

-- ---- range mappers ------------------------------------------------------------------------------

local MOST_BOXES = 12 -- of one access; beyond, the box around them: a function captures 60 numbers

local makers = {} -- by dimensions and count of offsets

-- Makes the function of offsets that gives their mapper.
local function maker(dims, count)
  local parameters, boxes = {}, {}
  for k = 1, count do
    local low, high = {}, {}
    for d = 1, dims do
      local name = ("o%d_%d"):format(k, d)
      parameters[#parameters + 1] = name
      low[d] = ("chunk.min[%d] + %s"):format(d - 1, name)
      high[d] = ("chunk.max[%d] + %s"):format(d - 1, name)
    end
    boxes[k] = ("box({ %s }, { %s })"):format(table.concat(low, ", "), table.concat(high, ", "))
  end
  return assert(loadstring(("local box = ...\nreturn function(%s)\n  return function(chunk)\n"
    .. "    return %s\n  end\nend"):format(table.concat(parameters, ", "),
    table.concat(boxes, ", ")), "=celer/arrays"))(box.new)
end

local maps = setmetatable({}, { __mode = "v" }) -- by what they were made of

-- The mapper that moves chunks by each offset.
local function moved_by(dims, offsets)
  local numbers = { dims }
  for _, offset in ipairs(offsets) do
    for d = 1, dims do numbers[#numbers + 1] = offset[d] end
  end
  local key = table.concat(numbers, " ")
  if not maps[key] then
    local kind = dims .. " " .. #offsets
    makers[kind] = makers[kind] or maker(dims, #offsets)
    maps[key] = makers[kind](unpack(numbers, 2))
  end
  return maps[key]
end

-- The mapper of a chunk, and what lies around it as far as the offsets.
local function around(dims, offsets)
  local least, most = {}, {}
  for d = 1, dims do least[d], most[d] = math.huge, -math.huge end
  for _, offset in ipairs(offsets) do
    for d = 1, dims do
      least[d], most[d] = math.min(least[d], offset[d]), math.max(most[d], offset[d])
    end
  end
  local key = ("around %d %s %s"):format(dims, table.concat(least, " "), table.concat(most, " "))
  if not maps[key] then
    maps[key] = function(chunk)
      local low, high = {}, {}
      for d = 1, dims do
        low[d], high[d] = chunk.min[d - 1] + least[d], chunk.max[d - 1] + most[d]
      end
      return box.new(low, high)
    end
  end
  return maps[key]
end

-- The mapper that reads as far as the offsets, and beyond edges.
local function with_edge(dims, edge, offsets)
  local reach, axes = {}, true
  for d = 1, dims do reach[d] = 0 end
  for _, offset in ipairs(offsets) do
    local led = 0
    for d = 1, dims do
      reach[d] = math.max(reach[d], math.abs(offset[d]))
      led = led + (offset[d] ~= 0 and 1 or 0)
    end
    axes = axes and led < 2
  end
  reach[dims + 1] = axes and "along_axes" or "bounding_box"
  if type(edge) == "string" then return mapper[edge](unpack(reach)) end
  local key = ("constant %.17g %s"):format(edge, table.concat(reach, " "))
  maps[key] = maps[key] or mapper.constant(edge, unpack(reach))
  return maps[key]
end

-- `kept`: mappers of this shape of expression, of which the offsets at edges are part.
local function mapper_of(access, dims, kept, k)
  local offsets = access.offsets
  if access.buffer.dims == 0 then return dims > 0 and mapper.all or nil end
  if type(access.edge) == "string" then
    local key = access.edge .. k
    kept[key] = kept[key] or with_edge(dims, access.edge, offsets)
    return kept[key]
  elseif access.edge then
    return with_edge(dims, access.edge, offsets)
  end
  if #offsets > MOST_BOXES then return around(dims, offsets) end
  for _, offset in ipairs(offsets) do
    for d = 1, dims do
      if offset[d] ~= 0 then return moved_by(dims, offsets) end
    end
  end
end

-- ---- what is read of what is written ------------------------------------------------------------

local none = {}

local function meet(low, offset, extents)
  for d = 1, #extents do
    if math.abs(offset[d]) >= extents[d] then return false end
  end
  return #low > 0
end

local function is_own(offset)
  for d = 1, #offset do
    if offset[d] ~= 0 then return false end
  end
  return true
end

-- Finds the access to what is written, of items' own elements; raises where others are read
-- that the task writes.
local function find_target(use, to, low, extents)
  for _, access in ipairs(use.accesses) do
    if access.buffer == to.buffer then
      local others = false
      for _, offset in ipairs(access.offsets) do others = others or not is_own(offset) end
      for _, offset in ipairs(others and access.offsets or none) do
        if access.edge or meet(low, offset, extents) then
          fail("u:set: %s is written, and %s reads other elements of it, which may be new already; "
            .. "write into another buffer, next:set(...), and go on with that one, or "
            .. "%s:set(celer.array(...))", text(to), text(use.root), text(to))
        end
      end
      access.target = not others
    end
  end
end

-- ---- set ----------------------------------------------------------------------------------------

local rank = { int = 1, weak = 2, float = 3, double = 4 }

local function check_kind(to, value)
  if value.lanes == 1 and to.kind == value.kind and rank[to.kind] then return end
  local call = text(to) .. ":set"
  if to.kind == "bool" then
    if value.kind ~= "bool" then
      fail("%s: it holds bool, and %s are numbers: compare them, as in a:ne(0)", call, text(value))
    end
    return
  end
  if not rank[to.kind] then expression.check_number(call, to) end
  expression.check_number(call, value)
  if to.kind == "int" and value.kind ~= "int" then
    fail("%s: it has whole numbers (%s), and %s may be a fraction: write celer.math.floor(x), or "
      .. "celer.cast(%q, x)", call, to.spelling or to.buffer.type.name, text(value),
      to.spelling or to.buffer.type.name)
  end
  if value.complex and not to.complex then
    fail("%s: it has no complex numbers, and %s are: take celer.math.real(z), imag(z) or abs(z)",
      call, text(value))
  elseif to.complex and value.lanes > 1 and not value.complex then
    fail("%s: it has complex numbers, and %s are vectors", call, text(value))
  end
  if value.lanes > 1 and value.lanes ~= to.lanes then
    fail("%s: its elements have %s, and those of %s have %d", call,
      to.lanes == 1 and "1 component" or to.lanes .. " components", text(value), value.lanes)
  end
end

local function check_shape(to, value)
  local mine, extents = to.extents, value.extents
  if not extents then return end
  if not mine then
    fail("%s:set: it has one element, and %s is [%s]: write %s:reduce(\"sum\", ...)", text(to),
      text(value), table.concat(extents, "]["), to.buffer.name)
  end
  local same = #mine == #extents
  for d = 1, #extents do same = same and mine[d] == extents[d] end
  if not same then expression.shape(text(to) .. ":set", { to, value }) end
end

local numbers = { int = "int", uint = "unsigned", float = "float", double = "double" }

local function make_sink(to, target)
  local type_, dims = to.buffer.type, to.buffer.dims
  local inout = target or to.member
  local spelling = to.spelling or to.complex and to.kind
    or to.lanes > 1 and numbers[type_.name:match "^%l+"] or type_.name
  local at = ({ [0] = "", "it[0]", "it[0], it[1]", "it[0], it[1], it[2]" })[dims]
  return { name = "set", dims = dims, kind = to.kind, spelling = spelling, lanes = to.lanes,
    complex = to.complex,
    key = ("set %s %d %s %s"):format(type_.name, dims, inout and "inout" or "out", to.member or ""),
    parameter = ("%s<%s, %d> to"):format(inout and "inout" or "out", type_.name, dims),
    store = function(values)
      if to.lanes == 1 then
        return ("to(%s)%s = %s;"):format(at, to.member and "." .. to.member or "", values[1])
      end
      local out = {}
      for k, value in ipairs(values) do
        out[k] = ("to(%s).%s = %s;"):format(at, compile.letter(to.complex, k), value)
      end
      return table.concat(out, " ")
    end }
end

local sinks = {} -- by type, then what else they depend on

-- What a task that writes elements does with values.
local function sink_of(to, target)
  local type_ = to.buffer.type
  local known = sinks[type_] or {}
  sinks[type_] = known
  local key = to.buffer.dims .. (target and "+" or "") .. (to.member or "")
  known[key] = known[key] or make_sink(to, target)
  return known[key]
end

local function range_of(to)
  if to.whole ~= false then return to.buffer.extents end
  local high = {}
  for d, n in ipairs(to.extents) do high[d] = to.low[d] + n end
  return box.new(to.low, high)
end

-- Submits a use: `first` gives the access that the kernel writes by.
local function submit(call, use, sink, range, first)
  local found = compile.kernel(use, sink)
  queues.run(call, function(cg)
    local out, n = { first(cg) }, 1
    for k, access in ipairs(use.accesses) do
      if not access.target then
        n = n + 1
        out[n] = cg:read(access.buffer, mapper_of(access, sink.dims, found.maps, k))
      end
    end
    n = compile.values(use, out, n)
    cg:parallel_for(range, found.kernel, unpack(out, 1, n))
  end)
end

--- Sets each element of a buffer, or of a part of one.
---@param to celer.expression
---@param value any
function M.set(to, value)
  local node = expression.of(value, "u:set")
  check_kind(to, node)
  check_shape(to, node)
  if to.buffer.freed then fail("the buffer %s was freed", to.buffer.name) end
  local low = to.low or none
  if not to.low then
    low = {}
    for d = 1, to.buffer.dims do low[d] = 0 end
  end
  local use = compile.use(node, low)
  find_target(use, to, low, to.extents or none)
  local target = to.member
  for _, access in ipairs(use.accesses) do target = target or access.target end
  local mode = target and "read_write" or "discard_write"
  submit("u:set", use, sink_of(to, target), range_of(to), function(cg)
    return cg[mode](cg, to.buffer)
  end)
end

-- ---- reduce -------------------------------------------------------------------------------------

local function check_reduced(to, node)
  local call = text(to) .. ":reduce"
  if to.op ~= "load" or to.extents or to.member or to.lanes > 1 then
    fail("%s: what it reduces into is a buffer of one element, celer.buffer(\"double\")", call)
  elseif not node.extents then
    fail("%s: %s is a scalar: there is nothing to combine", call, text(node))
  elseif node.lanes > 1 then
    fail("%s: %s has %s", call, text(node), node.complex
      and "complex numbers: take celer.math.abs(z), real(z) or imag(z)"
      or "vectors: take their components, a:field \"x\"")
  end
  check_kind(to, node)
end

--- Combines all elements of an expression.
---@param to celer.expression
---@param operator any
---@param value any
---@param options? table
function M.reduce(to, operator, value, options)
  local call = text(to) .. ":reduce"
  reduces.operator(operator, to.buffer, options, call)
  local node = expression.of(value, call)
  check_reduced(to, node)
  local low = {}
  for d = 1, #node.extents do low[d] = 0 end
  local use, type_ = compile.use(node, low), to.buffer.type
  for _, access in ipairs(use.accesses) do
    if access.buffer == to.buffer then
      fail("%s:reduce: %s reads it, too: take another buffer for the result", text(to), text(node))
    end
  end
  local sink = { name = "reduce", key = ("reduce %s %d"):format(type_.name, #low), dims = #low,
    kind = to.kind, spelling = type_.name, lanes = 1,
    parameter = ("reducer<%s> to"):format(type_.name),
    store = function(values) return ("to.combine(%s);"):format(values[1]) end }
  submit("t:reduce", use, sink, node.extents, function(cg)
    return cg:reduce(to.buffer, operator, options)
  end)
end

-- ---- new buffers --------------------------------------------------------------------------------

local natural = { weak = "double", float = "float", double = "double",
  bool = "bool" }

-- The type of whole numbers: that of the buffers, where they share one.
local function whole_type(node)
  local found = node.spelling or node.op == "load" and node.buffer.type.name
  for _, arg in ipairs(found and none or node.args) do
    if arg.kind == "int" and arg.op ~= "number" then
      local one = whole_type(arg)
      if found and found ~= one then return "int64_t" end
      found = one
    end
  end
  return found or "int64_t"
end

--- The element type that holds what an expression gives.
---@param node celer.expression
---@return celer.type
function M.type_of(node)
  if node.op == "load" and not node.member then return node.buffer.type end
  if node.complex then return types.find(node.kind == "float" and "complex64" or "complex128") end
  if node.lanes > 1 then
    return types.find((node.kind == "weak" and "double" or node.kind) .. node.lanes)
  end
  return types.find(node.kind == "int" and whole_type(node) or natural[node.kind])
end

return M
