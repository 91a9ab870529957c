--- make.lua -- new buffers: zeros, ones, full, like, arange, linspace, array.
local buffers = require "celer.data.buffer"
local expression = require "celer.arrays.expression"
local functions = require "celer.arrays.math"
local place = require "celer.place"
local types = require "celer.data.types"
local words = require "celer.words"

local fail = place.fail

local M = {}

local function named(options, init)
  options = options or {}
  return { name = options.name, reserve = options.reserve, init = init }
end

-- Whether it has one number for each element, real or complex.
local function is_number(type_) return type_.class ~= "s" or type_.header ~= nil end

--- A buffer whose elements are 0.
---@param element string|celer.type
---@param extents? integer[]|integer
---@param options? {name: string?}
---@return celer.buffer
function M.zeros(element, extents, options)
  local type_ = types.find(element, "celer.zeros")
  if is_number(type_) then return M.full(type_, extents, type_.class ~= "b" and 0, options) end
  fail("celer.zeros: a struct has no number 0 alone: write celer.full(%q, extents, { x = 0 })",
    type_.name)
end

--- A buffer whose elements are 1.
---@param element string|celer.type
---@param extents? integer[]|integer
---@param options? {name: string?}
---@return celer.buffer
function M.ones(element, extents, options)
  local type_ = types.find(element, "celer.ones")
  if is_number(type_) then return M.full(type_, extents, type_.class == "b" or 1, options) end
  fail("celer.ones: a struct has no number 1 alone: write celer.full(%q, extents, { x = 1 })",
    type_.name)
end

--- A buffer whose elements are all one value.
---@param element string|celer.type
---@param extents? integer[]|integer
---@param value any  a number, a boolean, a struct as a table
---@param options? {name: string?}
---@return celer.buffer
function M.full(element, extents, value, options)
  if value == nil then fail "celer.full takes a type, extents and the value of each element" end
  return buffers.new(types.find(element, "celer.full"), extents, named(options, value))
end

--- A buffer of the same type and shape as another one, without contents.
---@param of celer.buffer|celer.expression
---@param options? celer.buffer_options
---@return celer.buffer
function M.like(of, options)
  local node = expression.of(of, "celer.like")
  if type(of) ~= "table" then
    place.fail("celer.like: a buffer or an expression over buffers is needed, not %s", words.a(of))
  end
  return buffers.new(require("celer.arrays.assign").type_of(node), node.extents or {}, options)
end

local function check_number(call, name, x)
  if type(x) ~= "number" then fail("%s: %s is a number, not %s", call, name, words.a(x)) end
end

--- A buffer of first, first + step, and so on, up to and without `stop`: celer.arange("int", 5)
--- has 0 to 4.
---@param element string|celer.type
---@param first number  without stop: how many, from 0
---@param stop? number
---@param step? number  1
---@return celer.buffer
function M.arange(element, first, stop, step)
  local call = "celer.arange"
  if stop == nil then first, stop = 0, first end
  step = step or 1
  check_number(call, "the first one", first)
  check_number(call, "the end", stop)
  check_number(call, "the step", step)
  if step == 0 then fail "celer.arange: the step must not be 0" end
  local n = math.max(0, math.ceil((stop - first) / step))
  local out = buffers.new(types.find(element, "celer.arange"), { n })
  out:set(functions.index(0) * step + first)
  return out
end

--- A buffer of n numbers from first to last, at equal distances.
---@param element string|celer.type
---@param first number
---@param last number
---@param n integer
---@return celer.buffer
function M.linspace(element, first, last, n)
  local call = "celer.linspace"
  check_number(call, "the first one", first)
  check_number(call, "the last one", last)
  if type(n) ~= "number" or n % 1 ~= 0 or n < 0 then
    fail("celer.linspace: the count is a whole number of at least 0, not %s", tostring(n))
  end
  local out = buffers.new(types.find(element, "celer.linspace"), { n })
  local i = functions.index(0)
  local step = n > 1 and (last - first) / (n - 1) or 0
  -- Both ends are exact.
  out:set(expression.select(i:lt(n - 1), i * step + first, n > 1 and last or first))
  return out
end

-- ---- from tables --------------------------------------------------------------------------------

-- Extents of nested tables.
local function extents_of(value, out)
  while type(value) == "table" do
    out[#out + 1] = #value
    if #out > 3 then fail "celer.array: tables in each other are 1 to 3 deep" end
    value = value[1]
  end
  return out, value
end

--- A new buffer of what an expression gives, or of the numbers of a table, or of tables in it.
--- By default its type is the expression's; of tables double.
---@param from celer.expression|celer.buffer|table
---@param element? string|celer.type
---@param options? {name: string?}
---@return celer.buffer
function M.array(from, element, options)
  if type(from) == "table" and not getmetatable(from) then
    local extents, first = extents_of(from, {})
    if first == nil then fail "celer.array: the table is empty: its extents are not known" end
    return buffers.new(element or type(first) == "boolean" and "bool" or "double", extents,
      named(options, from))
  end
  local node = expression.of(from, "celer.array")
  local out = buffers.new(element or require("celer.arrays.assign").type_of(node),
    node.extents or {}, named(options))
  out:set(node)
  return out
end

return M
