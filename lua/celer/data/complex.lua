--- complex.lua -- complex numbers in the script and in host tasks.
---
--- They are structs of the FFI with the fields re and im, and with arithmetic. Kernels have that
--- of kernels/complex.cuh.
local ffi = require "ffi"
local place = require "celer.place"
local words = require "celer.words"

local M = {}

local known = {} -- C types
local widest

-- Both parts of a number, real or complex; nothing for what is none.
local function parts(x)
  if type(x) == "number" then return x, 0 end
  for _, ctype in ipairs(type(x) == "cdata" and known or {}) do
    if ffi.istype(ctype, x) then return x.re, x.im end
  end
end

-- A buffer, or an expression over some.
local function is_array(x)
  return type(x) == "table" and (words.a(x) == "a buffer" or words.a(x) == "an expression over "
    .. "buffers")
end

-- Makes an operator of both parts of two numbers; beside whole buffers it is theirs.
local function operator(sign, event, f)
  return function(a, b)
    if is_array(a) or is_array(b) then
      return require("celer.arrays.expression").operators[event](a, b)
    end
    local re, im = parts(a)
    local re2, im2 = parts(b)
    if not re or not re2 then
      place.fail("a %s b: a complex number and %s", sign, words.a(not re and a or b))
    end
    return widest(f(re, im, re2, im2))
  end
end

local methods = {}

--- Its absolute value.
function methods:abs()
  local x, y = math.abs(self.re), math.abs(self.im)
  if x < y then x, y = y, x end
  return (x == 0 or x == math.huge) and x or x * math.sqrt(1 + (y / x) ^ 2)
end

--- Its angle, from -pi to pi.
function methods:arg() return math.atan2(self.im, self.re) end

--- The same with im negated.
function methods:conj() return widest(self.re, -self.im) end

local metatable = {
  __index = methods,
  __add = operator("+", "__add", function(a, b, c, d) return a + c, b + d end),
  __sub = operator("-", "__sub", function(a, b, c, d) return a - c, b - d end),
  __mul = operator("*", "__mul", function(a, b, c, d) return a * c - b * d, a * d + b * c end),
  __div = operator("/", "__div", function(a, b, c, d)
    local n = c * c + d * d
    return (a * c + b * d) / n, (b * c - a * d) / n
  end),
  __unm = function(a) return widest(-a.re, -a.im) end,
  __eq = function(a, b)
    local re, im = parts(a)
    local re2, im2 = parts(b)
    return re ~= nil and re == re2 and im == im2
  end,
  __tostring = function(a)
    local im = ("%.14g"):format(a.im)
    return ("%.14g%s%si"):format(a.re, im:find "^-" and "" or "+", im)
  end,
}

--- Gives a struct of the FFI that was declared, with the fields re and im, its arithmetic.
---@param name string
function M.give(name)
  local ctype = ffi.metatype(name, metatable)
  known[#known + 1], widest = ctype, ctype
end

--- Both parts of a number, real or complex; nil for what is none.
M.parts = parts

--- A complex number of two doubles. It has + - * / and ==, `re` and `im`, and the methods
--- z:abs(), z:arg() and z:conj().
---@param re number
---@param im? number
---@return ffi.cdata*
function M.new(re, im)
  if type(re) ~= "number" or im ~= nil and type(im) ~= "number" then
    place.fail("celer.complex takes the real and the imaginary part, two numbers, not %s",
      words.a(type(re) ~= "number" and re or im))
  end
  return widest(re, im or 0)
end

return M
