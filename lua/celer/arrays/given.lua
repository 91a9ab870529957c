--- given.lua -- checks of what patterns over whole buffers are given.
local buffers = require "celer.data.buffer"
local expression = require "celer.arrays.expression"
local place = require "celer.place"
local words = require "celer.words"

local fail = place.fail

local M = {}

--- Raises unless it is a buffer, and gives it.
---@param call string
---@param what string  which argument
---@param value any
---@return celer.buffer
function M.buffer(call, what, value)
  if not buffers.is_buffer(value) then
    fail("%s: %s is a buffer, not %s%s", call, what, words.a(value),
      expression.is_expression(value) and ": celer.array(expression) makes one" or "")
  elseif value.freed then
    fail("%s: the buffer %s was freed", call, value.name)
  end
  return value
end

local operators = { sum = true, prod = true, min = true, max = true, ["and"] = true, ["or"] = true }

--- Raises unless it is the name of an operator.
---@param call string
---@param which string  argument: "second"
---@param operator any
function M.operator(call, which, operator)
  if operators[operator] then return end
  fail("%s: the %s argument is the operator, a word%s", call, which,
    words.advice(operator, operators))
end

return M
