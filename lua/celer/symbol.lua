--- symbol.lua -- numbers that record what is computed with them.
---
--- While a range mapper is traced, the bounds of its chunk are *symbols*: cdata
--- whose arithmetic builds expressions. What an expression cannot hold (a
--- comparison, a table index) refuses: it raises, and marks the trace so that a
--- mapper which catches the error is found out all the same.
---
--- An expression is a whole number (one of rule.h's operations) or a fraction,
--- a whole number over a whole number, which only floor and ceil bring back.
local ffi = require "ffi"
local facts = require("celer.core").facts
local place = require "celer.place"
local words = require "celer.words"

local M = {}

-- rule.h's cel_rule_op.
local ops = facts.rule
local CONST, PARAM, MIN, MAX = ops.CONST, ops.PARAM, ops.MIN, ops.MAX
local GLOBAL_MIN, GLOBAL_MAX, BUFFER = ops.GLOBAL_MIN, ops.GLOBAL_MAX, ops.BUFFER
local ITEM = ops.ITEM
local ADD, SUB, MUL, FLOORDIV, LOW, HIGH = ops.ADD, ops.SUB, ops.MUL, ops.FLOORDIV, ops.LOW,
  ops.HIGH
local FRACTION = ops.N -- ours: a / b, not yet rounded
local LIMIT = facts.limit.rule_number
local MOST_WORDS, MOST_DEPTH = facts.limit.rule_words, facts.limit.rule_depth

M.variables = { param = PARAM, min = MIN, max = MAX, global_min = GLOBAL_MIN,
  global_max = GLOBAL_MAX, buffer = BUFFER, item = ITEM }

local symbol_t = ffi.typeof("struct { int32_t at, trace; }")
local floor, ceil, abs, min, max = math.floor, math.ceil, math.abs, math.min, math.max

-- The trace under way: expressions by number, and why it was refused.
local op, left, right = {}, {}, {}
local count, trace, refusal = 0, 0, nil
local open = false

local Refusal = { __tostring = function(self) return self.reason end }

--- Gives up the trace: `reason` says what cannot be put in closed form.
function M.refuse(reason)
  refusal = refusal or reason
  error(setmetatable({ reason = reason }, Refusal), 0)
end

function M.begin()
  op, left, right = {}, {}, {}
  count, trace, refusal, open = 0, trace + 1, nil, true
end

--- Ends the trace; the reason of its refusal, if it was.
function M.finish()
  open = false
  return refusal
end

function M.is_symbol(x)
  return type(x) == "cdata" and ffi.istype(symbol_t, x)
end

local is_symbol = M.is_symbol

local function make(o, a, b)
  count = count + 1
  op[count], left[count], right[count] = o, a, b
  return symbol_t(count, trace)
end

--- chunk.min[d] and the like; `what` is a name in M.variables.
function M.variable(what, d) return make(M.variables[what], d) end

-- An operand: a whole number, or the number of an expression as {at}.
local function check(x)
  if type(x) == "number" then
    if x ~= floor(x) or abs(x) > LIMIT then
      M.refuse(("it computes with %g, which is no whole number"):format(x))
    end
  elseif is_symbol(x) then
    if not open or x.trace ~= trace then
      M.refuse("it keeps bounds of its chunk from one call to the next")
    end
  else
    M.refuse(("it computes with its chunk and a %s"):format(type(x)))
  end
  return x
end

local function is_fraction(x) return is_symbol(x) and op[x.at] == FRACTION end

local add, sub, mul

-- Brings both to one denominator when either is a fraction.
local function fractions(a, b)
  if not is_fraction(a) and not is_fraction(b) then return nil end
  if is_fraction(a) and is_fraction(b) then
    local an, ad, bn, bd = left[a.at], right[a.at], left[b.at], right[b.at]
    return mul(an, bd), mul(bn, ad), mul(ad, bd)
  elseif is_fraction(a) then
    return left[a.at], mul(b, right[a.at]), right[a.at]
  end
  return mul(a, right[b.at]), left[b.at], right[b.at]
end

local function both(a, b)
  return type(a) == "number" and type(b) == "number"
end

function add(a, b)
  check(a); check(b)
  local x, y, d = fractions(a, b)
  if d then return make(FRACTION, add(x, y), d) end
  if both(a, b) then return a + b end
  if type(a) == "number" and a == 0 then return b end
  if type(b) == "number" and b == 0 then return a end
  if type(b) == "number" and b < 0 then return make(SUB, a, -b) end
  return make(ADD, a, b)
end

function sub(a, b)
  check(a); check(b)
  local x, y, d = fractions(a, b)
  if d then return make(FRACTION, sub(x, y), d) end
  if both(a, b) then return a - b end
  if type(b) == "number" and b == 0 then return a end
  if type(b) == "number" and b < 0 then return make(ADD, a, -b) end
  return make(SUB, a, b)
end

-- x * 0.25 is x / 4.
local function reciprocal(x)
  if type(x) ~= "number" or x == floor(x) then return nil end
  local r = 1 / x
  return r == floor(r) and abs(r) <= LIMIT and r or nil
end

local function divide(a, b)
  check(a); check(b)
  if type(b) == "number" then
    if b == 0 then M.refuse("it divides by 0") end
    if b == 1 then return a end
    if b < 0 then return divide(mul(a, -1), -b) end
  end
  if is_fraction(b) then
    return divide(mul(a, right[b.at]), left[b.at])
  elseif is_fraction(a) then
    return make(FRACTION, left[a.at], mul(right[a.at], b))
  end
  return make(FRACTION, a, b)
end

function mul(a, b)
  if reciprocal(a) then return divide(b, reciprocal(a)) end
  if reciprocal(b) then return divide(a, reciprocal(b)) end
  check(a); check(b)
  if is_fraction(a) then
    return make(FRACTION, mul(left[a.at], b), right[a.at])
  elseif is_fraction(b) then
    return make(FRACTION, mul(a, left[b.at]), right[b.at])
  end
  if both(a, b) then return a * b end
  if type(a) == "number" and a == 1 then return b end
  if type(b) == "number" and b == 1 then return a end
  return make(MUL, a, b)
end

local function whole(x)
  if is_fraction(x) then
    M.refuse("it uses a quotient that is not rounded: celer.floor(a / b)")
  end
  return check(x)
end

--- The largest whole number not above x; x may be a plain number.
---@param x number
---@return integer
function M.floor(x)
  if not is_symbol(x) then return floor(x) end
  if not is_fraction(check(x)) then return x end
  return make(FLOORDIV, left[x.at], right[x.at])
end

--- The smallest whole number not below x.
---@param x number
---@return integer
function M.ceil(x)
  if not is_symbol(x) then return ceil(x) end
  if not is_fraction(check(x)) then return x end
  local n, d = left[x.at], right[x.at]
  return make(FLOORDIV, add(n, sub(d, 1)), d)
end

local function choose(o, plain, a, b)
  if type(a) == "number" and type(b) == "number" then return plain(a, b) end
  if not is_symbol(a) and not is_symbol(b) then
    if type(a) == "number" then a = b end
    place.fail("celer.min, max and clamp take numbers, not %s", words.a(a))
  end
  return make(o, whole(a), whole(b))
end

--- The smallest of its arguments, plain numbers or not.
---@param a number
---@param b number
---@param ... number
---@return number
function M.min(a, b, ...)
  if type(b) == "nil" then return a end -- a symbol compared would refuse
  local r = choose(LOW, min, a, b)
  if select("#", ...) == 0 then return r end
  return M.min(r, ...)
end

--- Gives x, or the bound beyond which it lies; of a NaN `low`.
---@param x number
---@param low number
---@param high number
---@return number
function M.clamp(x, low, high)
  if type(high) == "nil" then
    place.fail "celer.clamp takes a number, and its bounds: x, low, high"
  end
  return choose(LOW, min, choose(HIGH, max, x, low), high)
end

--- The largest of its arguments.
---@param a number
---@param b number
---@param ... number
---@return number
function M.max(a, b, ...)
  if type(b) == "nil" then return a end -- a symbol compared would refuse
  local r = choose(HIGH, max, a, b)
  if select("#", ...) == 0 then return r end
  return M.max(r, ...)
end

local function modulo(a, b)
  return sub(a, mul(b, M.floor(divide(a, b))))
end

--- |x|.
function M.abs(x)
  if not is_symbol(x) then return abs(x) end
  return M.max(x, mul(x, -1))
end

local function power(a, b)
  if type(b) == "number" and b == 2 then return mul(a, a) end
  M.refuse("it computes a power")
end

local function refuses(reason)
  return function() M.refuse(reason) end
end

ffi.metatype(symbol_t, {
  __add = add, __sub = sub, __mul = mul, __div = divide, __mod = modulo,
  __unm = function(x) return mul(x, -1) end, __pow = power,
  __eq = refuses("it compares bounds of its chunk, or captured numbers"),
  __lt = refuses("it compares bounds of its chunk, or captured numbers"),
  __le = refuses("it compares bounds of its chunk, or captured numbers"),
  __concat = refuses("it makes text of a bound"),
  __tostring = refuses("it makes text of a bound"),
  __len = refuses("it takes the length of a bound"),
  __call = refuses("it calls a bound"),
  __index = refuses("it indexes a bound"),
  __newindex = refuses("it indexes a bound"),
})

-- An operand that is `at` in cdata would fire __eq: emit looks at types only.
local function emit(x, code, depth)
  if #code > MOST_WORDS or depth > MOST_DEPTH then
    M.refuse("its bounds are too long")
  end
  local n = #code
  if type(x) == "number" then
    code[n + 1], code[n + 2] = CONST, x
    return
  end
  local o = op[x.at]
  if o < ADD then
    code[n + 1], code[n + 2] = o, left[x.at]
    return
  end
  emit(left[x.at], code, depth)
  emit(right[x.at], code, depth + 1)
  code[#code + 1] = o
end

--- Whether x, a whole number or symbol, depends on a variable: of a name in M.variables, in
--- dimension d.
function M.depends(x, what, d)
  if type(x) == "number" then return false end
  local o = op[x.at]
  if o < ADD then return o == M.variables[what] and left[x.at] == d end
  return M.depends(left[x.at], what, d) or M.depends(right[x.at], what, d)
end

--- Appends the program of x, a whole number or symbol, to `code`.
function M.emit(x, code) emit(whole(x), code, 1) end

--- math, as a traced mapper sees it.
M.math = setmetatable({ floor = M.floor, ceil = M.ceil, min = M.min, max = M.max,
  abs = M.abs }, { __index = math })

--- What stands for a function of math while tracing; nil for all others.
M.stands_for = { [math.floor] = M.floor, [math.ceil] = M.ceil,
  [math.min] = M.min, [math.max] = M.max, [math.abs] = M.abs }

-- ---- programs, run on plain numbers ----------------------------------------

local binary = {
  [ADD] = function(a, b) return a + b end,
  [SUB] = function(a, b) return a - b end,
  [MUL] = function(a, b) return a * b end,
  [FLOORDIV] = function(a, b) return b >= 1 and floor(a / b) or 0 / 0 end,
  [LOW] = min,
  [HIGH] = max,
}

local LONGEST = 200 -- words of a program that may be one expression of Lua

-- What Lua has a sign for.
local infix = { [ADD] = "+", [SUB] = "-", [MUL] = "*" }

-- The program code[first .. first + length) as an expression of Lua.
local function expression(code, first, length)
  local out, i = {}, first + 1
  while i <= first + length do
    local o = code[i]
    if o >= ADD then
      local b, a = table.remove(out), table.remove(out)
      out[#out + 1] = infix[o] and ("(%s %s %s)"):format(a, infix[o], b)
        or ("op[%d](%s, %s)"):format(o, a, b)
      i = i + 1
    else
      out[#out + 1] = (o == CONST and "(%.17g)" or "env[" .. o .. "][%d]"):format(code[i + 1])
      i = i + 2
    end
  end
  return out[1]
end

local stack = {}

--- The value of code[first .. first + length) (counted from 0); env holds, per
--- operation, the values of its variables, indexed from 0.
function M.run(code, first, length, env)
  local top, i, last = 0, first + 1, first + length
  while i <= last do
    local o = code[i]
    if o >= ADD then
      stack[top - 1] = binary[o](stack[top - 1], stack[top])
      top = top - 1
      i = i + 1
    else
      top = top + 1
      stack[top] = o == CONST and code[i + 1] or env[o][code[i + 1]]
      i = i + 2
    end
  end
  return stack[1]
end

-- What compile gives for programs that are too long for one expression.
local function runs(code, spans, from, n)
  return function(env)
    local values = {}
    for k = 1, n do
      values[k] = M.run(code, spans[from + 2 * k - 2], spans[from + 2 * k - 1], env)
    end
    return unpack(values, 1, n)
  end
end

--- A function of env (see run) that gives the values of several programs, one after
--- the other: for what is run again and again.
---@param code integer[]
---@param spans integer[]  first and length of each
---@param from integer  the first of them in spans
---@param n integer  programs
---@return fun(env: table): ...
function M.compile(code, spans, from, n)
  local list = {}
  for k = 1, n do
    local first, length = spans[from + 2 * k - 2], spans[from + 2 * k - 1]
    if length > LONGEST then return runs(code, spans, from, n) end
    list[k] = expression(code, first, length)
  end
  local text = ("local op = ... return function(env) return %s end"):format(
    table.concat(list, ", "))
  return assert(loadstring(text, "=celer/rule"))(binary)
end

return M
