--- math.lua -- celer.math: functions of whole buffers, element by element.
---
--- Of numbers alone they are those of Lua's math.
local expression = require "celer.arrays.expression"
local place = require "celer.place"

local fail, numeric = place.fail, expression.numeric

---@class celer.math
local M = {}

local function all_numbers(values)
  for k = 1, values.n do
    if type(values[k]) ~= "number" then return false end
  end
  return true
end

-- Adds a function of `count` numbers, which `make` makes a node of.
local function add(name, count, make)
  --- That function of Lua's math, of each element; of numbers alone it is Lua's own.
  ---@param ... celer.expression|celer.buffer|number
  ---@return celer.expression|number
  M[name] = function(...)
    local values = { n = select("#", ...), ... }
    if values.n ~= count then
      fail("celer.math.%s takes %s", name, require("celer.words").count(count, "number"))
    end
    if all_numbers(values) then return math[name](...) end
    return make(name, "celer.math." .. name, values)
  end
end

for _, name in ipairs { "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
  "tanh", "log10", "sqrt", "atan2", "fmod" } do
  add(name, (name == "atan2" or name == "fmod") and 2 or 1, function(_, call, values)
    local node = numeric("call", call, values, expression.fraction)
    node.value, node.called = name, name
    return node
  end)
end

add("pow", 2, function(op, call, values) return numeric(op, call, values, expression.fraction) end)
add("abs", 1, numeric)
local function whole() return "int" end
for _, name in ipairs { "floor", "ceil" } do
  add(name, 1, function(op, call, values) return numeric(op, call, values, whole) end)
end

for _, name in ipairs { "min", "max" } do
  --- The least of its arguments, or the greatest, element by element.
  ---@param ... celer.expression|celer.buffer|number
  ---@return celer.expression|number
  M[name] = function(...)
    local values = { n = select("#", ...), ... }
    if values.n < 1 then fail("celer.math.%s takes one number or more", name) end
    if all_numbers(values) then return math[name](...) end
    local out = values[1]
    for k = 2, values.n do
      out = numeric(name, "celer.math." .. name, { n = 2, out, values[k] })
    end
    return out
  end
end

--- The coordinate of each element, in the buffer that is set: celer.math.index(0) is i.
---@param dim integer  from 0
---@return celer.expression
function M.index(dim)
  if dim ~= 0 and dim ~= 1 and dim ~= 2 then
    fail("celer.math.index takes a dimension, 0, 1 or 2, not %s", tostring(dim))
  end
  local node = expression.make("index", "int", 1)
  node.value, node.detail = dim, tostring(dim)
  return node
end

local function random(name)
  --- A random float for each element, by its number in the range that is set: uniform in [0, 1),
  --- or of mean 0 and variance 1. It depends on seed and step alone, as philox in kernels does.
  ---@param seed integer
  ---@param step? integer
  ---@return celer.expression
  return function(seed, step)
    local given = { seed, step or 0 }
    for k = 1, 2 do
      local x = given[k]
      if type(x) ~= "number" or x % 1 ~= 0 or x < 0 or x > 2 ^ 53 then
        fail("celer.math.%s takes a seed, and a step: whole numbers of at least 0, not %s", name,
          tostring(x))
      end
    end
    local call = "celer.math." .. name
    local node = expression.make("random", "float", 1, nil,
      { expression.of(seed, call), expression.of(step or 0, call) })
    node.value, node.called = name, name
    return node
  end
end

M.uniform, M.normal = random "uniform", random "normal"

return setmetatable(M, { __index = function(_, name)
  fail("there is no celer.math.%s%s", tostring(name), require("celer.words").advice(name, M))
end })
