--- scalar.lua -- numbers on the devices.
---
--- A scalar is a buffer without dimensions. Expressions take it, and scalar:set(expression) is a
--- small kernel of the range {}, which every rank computes for itself.
local buffers = require "celer.data.buffer"
local place = require "celer.place"
local types = require "celer.data.types"
local words = require "celer.words"

local fail = place.fail

local M = {}

local known_options = { name = true }

--- Makes a scalar: a buffer without dimensions, with which expressions compute on the devices.
--- The kernels that it is passed to read it as a number; `s()` fetches it, and waits.
---@param element string|celer.type  element type
---@param value? number|boolean  what it holds at first; without it s:set or a task must write it
---@param options? {name: string?}
---@return celer.buffer
function M.new(element, value, options)
  options = words.check_options("celer.scalar", options == nil and {} or options, known_options,
    '{ name = "dt" }')
  local type_ = types.find(element, "celer.scalar")
  if type_.class == "s" then
    fail("celer.scalar: a %s is no number: celer.buffer(%q, {}) makes one of it", type_.name,
      type_.name)
  elseif value ~= nil and type(value) ~= "number" and type(value) ~= "boolean" then
    fail("celer.scalar: the value must be a number or boolean, not %s; s:set(...) takes an "
      .. "expression", words.a(value))
  end
  return buffers.new(type_, {}, { name = options.name, init = value })
end

return M
