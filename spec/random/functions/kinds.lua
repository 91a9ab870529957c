--- kinds.lua -- kinds of numbers, and how each is computed with, by the guide's table of numbers.
---
---   W  a whole number, or one of the script: a double that has no type of its own
---   F  a float: operands and results have 24 bits
---   D  a double
---
--- What is computed of two kinds has the one that comes later in this list.
local bounds = require "bounds"
local ffi = require "ffi"

local M = {}

--- Whether numbers say how far the interpreter's may lie from them.
M.bounded = false

local cell = ffi.new "float[1]"

local function to_float(x)
  cell[0] = x
  return cell[0]
end

--- A number with 24 bits.
function M.round(x)
  if M.bounded then return bounds.rounded(x, to_float) end
  return to_float(x)
end
local round = M.round

local rank = { W = 1, F = 2, D = 3 }

--- The kind of what is computed from two; nil where one is no number.
---@return "W"|"F"|"D"|nil
function M.join(a, b)
  if not rank[a] or not rank[b] then return nil end
  return rank[a] > rank[b] and a or b
end

M.is_number = rank

local floor, sqrt = math.floor, math.sqrt

local double = {
  add = function(a, b) return a + b end,
  sub = function(a, b) return a - b end,
  mul = function(a, b) return a * b end,
  div = function(a, b) return a / b end,
  min = function(a, b) if a < b then return a end return b end,
  max = function(a, b) if a > b then return a end return b end,
  neg = function(a) return -a end,
  abs = math.abs, floor = floor, ceil = math.ceil, sqrt = sqrt,
}
for name in ("add sub mul div abs sqrt"):gmatch "%S+" do
  double[name] = bounds.of(name, double[name])
end
for _, name in ipairs { "floor", "ceil" } do double[name] = bounds.of_step(double[name]) end
for _, name in ipairs { "min", "max" } do double[name] = bounds.of_choice(double[name]) end
function double.mod(a, b)
  return double.sub(a, double.mul(double.floor(double.div(a, b)), b))
end

-- As products, so that bits are the same everywhere.
local powers = {
  [0] = function() return 1 end,
  [1] = function(x) return x end,
  [2] = function(x, f) return f.mul(x, x) end,
  [3] = function(x, f) return f.mul(f.mul(x, x), x) end,
  [4] = function(x, f) return f.mul(f.mul(x, x), f.mul(x, x)) end,
  [-1] = function(x, f) return f.div(1, x) end,
  [-2] = function(x, f) return f.div(1, f.mul(x, x)) end,
  [0.5] = function(x, f) return x == -math.huge and math.huge or f.sqrt(f.add(x, 0)) end,
}

local function power(f)
  return function(x, y)
    local how = powers[y] or error("there is no power " .. y)
    return how(x, f)
  end
end
double.pow = power(double)

local float = {}
for name, f in pairs(double) do
  float[name] = function(a, b)
    if b == nil then return round(f(round(a))) end
    return round(f(round(a), round(b)))
  end
end
function float.mod(a, b)
  return float.sub(a, float.mul(double.floor(float.div(a, b)), b))
end
function float.pow(x, y) return round(power(float)(round(x), y)) end

--- How each kind computes: functions by name.
M.compute = { W = double, D = double, F = float }

-- Of 32 and fewer bits, and 64.
local integers = { int = ffi.typeof "int32_t", int64_t = ffi.typeof "int64_t",
  uint8_t = ffi.typeof "uint8_t", int16_t = ffi.typeof "int16_t", uint32_t = ffi.typeof "uint32_t" }

--- A number or boolean as an element of this type has it.
---@param type_ string
function M.stored(type_, x)
  if type_ == "float" then
    return bounds.is_near(x) and bounds.stored(x, to_float) or to_float(x)
  end
  local integer = integers[type_]
  if not integer then return x end
  return tonumber(ffi.cast(integer, ffi.cast("int64_t", x)))
end

--- What is at a path of names in a table: x.z.y for "z.y".
function M.field_of(x, path)
  for name in path:gmatch "[^.]+" do x = x[name] end
  return x
end

--- The kind of what an element of this type holds.
---@param type_ string
function M.of_type(type_)
  if type_ == "float" then return "F" elseif type_ == "double" then return "D" end
  return integers[type_] and "W" or "bool"
end

return M
