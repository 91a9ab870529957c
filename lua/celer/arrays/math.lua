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

-- Of complex numbers some functions are others.
local function unless_complex(of_complex, make)
  return function(name, call, values)
    local node = values.n == 1 and values[1] ~= nil and expression.of(values[1], call)
    if node and node.complex then return of_complex(name, node) end
    return make(name, call, values)
  end
end

add("pow", 2, function(op, call, values) return numeric(op, call, values, expression.fraction) end)
add("abs", 1, unless_complex(expression.real_of, numeric))
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

-- Adds a function of one complex number; of a real one it is `of_real`.
local function add_complex(name, make, of_real)
  --- That of each complex number.
  ---@param z celer.expression|celer.buffer|number
  ---@return celer.expression
  M[name] = function(z)
    local node = expression.of(z, "celer.math." .. name)
    if node.complex then return make(name, node) end
    return of_real(expression.check_number("celer.math." .. name, node))
  end
end

local function itself(node) return node end
add_complex("real", expression.real_of, itself)
add_complex("imag", expression.real_of, function(node) -- 0, also of what is infinite
  return expression.select(node:eq(node), 0, 0 * node)
end)
add_complex("arg", expression.real_of, function(node)
  return M.atan2(0, node)
end)
add_complex("conj", function(_, node)
  return numeric("conj", "celer.math.conj", { n = 1, node })
end, itself)

--- The complex number of two real ones, for each element.
---@param re celer.expression|celer.buffer|number
---@param im celer.expression|celer.buffer|number
---@return celer.expression
function M.complex(re, im)
  local call = "celer.math.complex"
  return expression.complex(expression.of(re, call), expression.of(im, call))
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
