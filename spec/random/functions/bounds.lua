--- bounds.lua -- numbers with a bound on how far the interpreter's may lie from them.
---
--- A kernel rounds what it computes of floats, and the interpreter does not. A number of a kernel
--- that was rounded is `near` the interpreter's: it is x, and the other lies between x - e and
--- x + e. That is found as in a running error analysis: each operation adds what it rounds, by
--- 2^-24 of its result at most, to what the errors of its operands come to. Where the two could go
--- different ways, as by a comparison, the item is undecided.
local M = {}

local abs, huge, max, sqrt = math.abs, math.huge, math.max, math.sqrt
local FLOAT, DOUBLE, TINY = 2 ^ -24, 2 ^ -51, 2 ^ -149

--- What is raised for an item that is undecided.
M.UNDECIDED = setmetatable({}, { __tostring = function() return "the item is undecided" end })

local Near = {}
function Near.__unm(a) return setmetatable({ x = -a.x, e = a.e }, Near) end

--- Whether a number may be another one in the interpreter.
function M.is_near(a) return getmetatable(a) == Near end
local is_near = M.is_near

--- A number and its bound.
function M.parts(a)
  if is_near(a) then return a.x, a.e end
  return a, 0
end
local parts = M.parts

local function near(x, e)
  if e == 0 then return x end
  return setmetatable({ x = x, e = e == e and e or huge }, Near)
end

local function undecided() error(M.UNDECIDED, 0) end

--- Raises for a number of which the least change may count.
function M.exact(a)
  if is_near(a) then undecided() end
  return a
end

-- What the errors of operands come to.
local passes = {
  add = function(_, ea, _, eb) return ea + eb end,
  mul = function(a, ea, b, eb) return abs(a) * eb + abs(b) * ea + ea * eb end,
  div = function(a, ea, b, eb)
    if abs(b) > eb then return (ea + abs(a / b) * eb) / (abs(b) - eb) end
    return huge
  end,
  abs = function(_, ea) return ea end,
  sqrt = function(a, ea)
    if a > ea then return ea / sqrt(a) end
    undecided()
  end,
}
passes.sub = passes.add

--- An operation of doubles, by its name, that also takes numbers that are near.
---@param name string
---@param compute fun(a: number, b?: number): number
function M.of(name, compute)
  local pass = passes[name]
  return function(a, b)
    if not is_near(a) and not is_near(b) then return compute(a, b) end
    local x, ex = parts(a)
    local y, ey = parts(b)
    local result = compute(x, y)
    return near(result, pass(x, ex, y, ey) + DOUBLE * abs(result))
  end
end

--- The same of math.floor and ceil: a number of the interpreter's, too.
function M.of_step(compute)
  return function(a)
    if not is_near(a) then return compute(a) end
    local low = compute(a.x - a.e)
    if low ~= compute(a.x + a.e) then undecided() end
    return low
  end
end

--- And of minimum and maximum, which give b of a NaN.
function M.of_choice(compute)
  return function(a, b)
    if not is_near(a) and not is_near(b) then return compute(a, b) end
    local x, ex = parts(a)
    local y, ey = parts(b)
    if x ~= x or y ~= y then return b end
    if abs(x - y) > ex + ey then return compute(x, y) == x and a or b end
    return near(compute(x, y), max(ex, ey))
  end
end

--- A comparison.
function M.of_comparison(test)
  return function(a, b)
    if not is_near(a) and not is_near(b) then return test(a, b) end
    local x, ex = parts(a)
    local y, ey = parts(b)
    if abs(x - y) > ex + ey then return test(x, y) end
    undecided() -- also of a NaN
  end
end

--- What rounding gives, where only the kernel rounds.
function M.rounded(a, round)
  local x, e = parts(a)
  local r = round(x)
  if r == x or x ~= x then return near(r, e) end
  return near(r, e + abs(r - x))
end

--- And where the interpreter's number is stored as a float, too.
function M.stored(a, round)
  local r = M.rounded(a, round)
  return near(r.x, r.e + FLOAT * (abs(r.x) + r.e) + TINY)
end

return M
