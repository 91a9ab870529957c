--- skeletons.lua -- map, map_reduce, stencil and pipe: patterns over whole buffers.
local buffers = require "celer.data.buffer"
local expression = require "celer.arrays.expression"
local functions = require "celer.kernel.from_lua.function"
local given = require "celer.arrays.given"
local mapper = require "celer.mapper.builtin"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local words = require "celer.words"

local fail = place.fail

local M = {}

-- ---- map ----------------------------------------------------------------------------------------

local coordinates = { { "i" }, { "i", "j" }, { "i", "j", "k" } }
local combines = { sum = "add", prod = "mul", min = "min", max = "max", ["and"] = "band",
  ["or"] = "bor" }

-- Buffers among values, each once; and how the kernel writes each value.
local function parameters_of(call, shape, values, found)
  local texts, at = {}, "[" .. table.concat(coordinates[shape.dims], "][") .. "]"
  for k, value in ipairs(values) do
    local is_buffer = type(value) ~= "number" and type(value) ~= "boolean"
    if is_buffer then
      given.buffer(call, "what it reads", value)
      if value.dims > 0 then
        expression.shape(call, { expression.of(shape, call), expression.of(value, call) })
      end
    end
    local number = is_buffer and found[value]
    if not number then
      found[#found + 1] = value
      number = #found
      if is_buffer then found[value] = number end
    end
    texts[k] = (number == 1 and "out" or "p" .. number)
      .. (is_buffer and (value.dims > 0 and at or "()") or "")
  end
  return texts, at
end

local known = setmetatable({}, { __mode = "k" }) -- function -> text -> kernel

-- The kernel of a text that calls f. Its lines are those of f, for messages.
local function kernel_for(f, dims, count, body)
  local parameters = { unpack(coordinates[dims]) }
  parameters[#parameters + 1] = "out"
  for k = 2, count do parameters[#parameters + 1] = "p" .. k end
  local at = debug.getinfo(f, "S")
  local text = ("%slocal f = ... return function(%s) %s end"):format(
    ("\n"):rep(at.linedefined - 1), table.concat(parameters, ", "), body)
  local by_text = known[f] or {}
  known[f] = by_text
  by_text[text] = by_text[text] or functions.new(assert(loadstring(text, at.source))(f),
    { name = "map" })
  return by_text[text]
end

local function check_function(call, f)
  if type(f) ~= "function" then
    fail("%s: the first argument is a function of elements, not %s", call, words.a(f))
  end
end

local function check_dims(call, buffer)
  if buffer.dims == 0 then
    fail("%s: %s has one element: write %s:set(...)", call, buffer.name, buffer.name)
  end
end

--- Sets each element of `out` to f of the elements of others, in one task. f is compiled as a
--- kernel written in Lua. A buffer of one element, and a number, is the same for all; `out` may be
--- among what is read.
---@param f fun(...): number
---@param out celer.buffer
---@param ... celer.buffer|number|boolean  of the same shape
function M.map(f, out, ...)
  local call = "celer.map"
  check_function(call, f)
  given.buffer(call, "the second argument, which it writes,", out)
  check_dims(call, out)
  local found = { out, [out] = 1 }
  local texts, at = parameters_of(call, out, { ... }, found)
  local kernel = kernel_for(f, out.dims, #found, ("out%s = f(%s)"):format(at,
    table.concat(texts, ", ")))
  queues.new():parallel_for(out.extents, kernel, unpack(found, 1, #found))
end

--- Combines f of the elements of buffers into one element, in one task.
---@param f fun(...): number
---@param operator "sum"|"prod"|"min"|"max"|"and"|"or"
---@param out celer.buffer  of one element
---@param first celer.buffer
---@param ... celer.buffer|number|boolean  of the same shape
function M.map_reduce(f, operator, out, first, ...)
  local call = "celer.map_reduce"
  check_function(call, f)
  given.operator(call, "second", operator)
  given.buffer(call, "the third argument, which it writes,", out)
  given.buffer(call, "the first one that it reads", first)
  check_dims(call, first)
  local found = { false }
  local texts = parameters_of(call, first, { first, ... }, found)
  found[1] = functions.reduce(out, operator)
  local kernel = kernel_for(f, first.dims, #found, ("out:%s(f(%s))"):format(combines[operator],
    table.concat(texts, ", ")))
  queues.new():parallel_for(first.extents, kernel, unpack(found, 1, #found))
end

-- ---- stencil ------------------------------------------------------------------------------------

local boundaries = { periodic = mapper.periodic, clamped = mapper.clamped,
  mirrored = mapper.mirrored }

local function check_boundary(call, boundary)
  if type(boundary) == "number" or boundaries[boundary] then return end
  fail("%s: the second argument says what lies beyond the edges, \"periodic\", \"clamped\", "
    .. "\"mirrored\" or a number, not %s", call,
    type(boundary) == "string" and ("%q"):format(boundary) or words.a(boundary))
end

-- A buffer as the kernel gets it, with what lies beyond its edges.
local function with_boundary(boundary, buffer)
  if type(boundary) == "number" then return mapper.constant(buffer, boundary) end
  return boundaries[boundary](buffer)
end

--- Sets each element of `out` to f of its coordinates and of buffers, of which f reads elements
--- around: function(i, j, u) return u[i - 1][j] - u[i][j] end. The boundary says what lies beyond
--- their edges. How far f reads celer finds itself. One task.
---@param f fun(...): number
---@param boundary "periodic"|"clamped"|"mirrored"|number
---@param out celer.buffer
---@param ... celer.buffer|number|boolean  buffers of the same shape
function M.stencil(f, boundary, out, ...)
  local call = "celer.stencil"
  check_function(call, f)
  check_boundary(call, boundary)
  given.buffer(call, "the third argument, which it writes,", out)
  check_dims(call, out)
  local list, found = { ... }, { out, [out] = 1 }
  parameters_of(call, out, list, found)
  local names, at = {}, coordinates[out.dims]
  for k, value in ipairs(list) do
    if value == out then
      fail("%s: %s is written, and may not be read: write into another buffer", call, out.name)
    end
    names[k] = "p" .. k + 1
    list[k] = buffers.is_buffer(value) and value.dims > 0 and with_boundary(boundary, value)
      or value
  end
  local kernel = kernel_for(f, out.dims, #list + 1, ("out[%s] = f(%s%s%s)"):format(
    table.concat(at, "]["), table.concat(at, ", "), #names > 0 and ", " or "",
    table.concat(names, ", ")))
  queues.new():parallel_for(out.extents, kernel, out, unpack(list, 1, #list))
end

-- ---- pipe ---------------------------------------------------------------------------------------

--- What functions of whole buffers make of one, one after the other: celer.pipe(u, f, g) is
--- g(f(u)). Expressions that they give stay one: c:set(celer.pipe(u, f, g)) is one task.
---@param value celer.expression|celer.buffer|number
---@param ... fun(value: any): any
---@return any
function M.pipe(value, ...)
  for k = 1, select("#", ...) do
    local f = select(k, ...)
    if type(f) ~= "function" then
      fail("celer.pipe: argument %d is a function of what comes before it, not %s", k + 1,
        words.a(f))
    end
    value = f(value)
  end
  return value
end

return M
