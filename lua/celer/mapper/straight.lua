--- straight.lua -- range mappers that take one course for all numbers.
---
--- A trace sees the course of a mapper for symbols, which refuse to be compared or made
--- text of (symbol.lua). Numbers can still take another course: where they look something
--- up in a table, or are given to a function that tells numbers from other values, such
--- as type or rawequal. A mapper is *straight* when its code, and that of what it calls,
--- has no such place: then its rule holds for all numbers that it may capture and under
--- all index spaces, without asking it again.
---
--- Instructions are known by a sample of code that is straight; whatever is not in there is
--- not straight.
local closure = require "celer.mapper.closure"
local code = require "celer.mapper.code"

local M = {}

-- No lookup by anything but constants, no variable arguments, no inner functions, no
-- variables that are assigned to.
local sample = [[
local a, b, f = ...
return function(c) return c end,
  function(c, x) return c, x end,
  function(c) return c:grow(a) end,
  function(c, x) return f({ c.min[0] - a, 0 }, { c.max[0] + 1, x.size[0] }):clamped() end,
  function(c) return f(c, a), f(c:with(0, 1, a)) end,
  function(c) return f({ f(a) }, f(f(c))) end,
  function(c, x)
    local lo, hi = c.min[1], c.max[1]
    lo, hi = lo * 2 + a - x.size[0], (hi + 2) / 2 % a % 3
    lo = 2 + lo - 1 + (5 - lo) + 1 / hi + 7 % hi + 3 * lo - lo ^ 2 + lo * hi / (lo % 2) * -hi
    local k, t = { a, 1, n = lo }, { 1, 2 }
    k[1], t.n = hi, lo
    return f(lo, hi, k[1], k.n, t, nil, true, "x", 70000, g)
  end,
  function(c)
    if b then return c end
    local w = b and c or a
    local v, u = not b, b and c
    if not w then v = a or c end
    return f(v), u
  end,
  function(c)
    local n = 0
    for _ = 1, 3 do n = n + a end
    if a < n or a > n or a <= n or a >= n or a == n or a ~= n or a == 3 or a ~= 3 or b == "x"
      or b ~= "x" or b == nil or b ~= nil or b then
      return f(c, n)
    end
    if a < n and a > n and a <= n and a >= n and a == n and a ~= n and a == 3 and a ~= 3
      and b == "x" and b ~= "x" and b == nil and b ~= nil and b then
      return f(c, n)
    end
    f(c)
    return c
  end
]]

-- What a command group's function does besides (prepared.lua): inner functions, but no
-- globals.
local declaring = [[
local a, f = ...
return function(cg, u, n)
  local x, y
  x, y = cg:read(u, function(c) return c:grow(a) end), cg:write(u, f)
  cg:hint { split = "2d" }
  cg:parallel_for({ a, n }, f, x, y, n)
end, function(cg)
  local k = 1
  do
    local n = k
    cg:read(function(c) return c:grow(n) end)
  end
  local function by() return k end
  cg(by())
end, function(cg, x) cg:read(x) end]]

local each_instruction = code.each_instruction

local function learn(into, ...)
  for i = 1, select("#", ...) do
    each_instruction((select(i, ...)), function(op) into[op] = true; return true end)
  end
  return into
end

local function load_sample(text) return assert(loadstring(text, "=celer/straight"))() end

local known = learn({}, load_sample(sample))
local declares = learn(learn({}, load_sample(sample)), load_sample(declaring))

declares[code.op.GGET] = nil

local function is_known(op) return known[op] end

--- Whether an instruction may occur in a command group's function.
---@param op integer
function M.declares(op) return declares[op] end

-- Of celer, which is made so that symbols take the course of numbers, or of math, of
-- which it refuses what has no rule.
local function is_safe(value)
  if type(value) ~= "table" and type(value) ~= "function" then return true end
  local name = closure.known(value)
  return name ~= nil and (name:find "^celer" or name:find "^math") ~= nil
end

--- Whether the mapper is straight.
---@param read celer.closure
---@param globals {value: any}[]  what it read
---@return boolean
function M.is_straight(read, globals)
  for at = 1, read.count do
    local f = read.functions[at]
    if not debug.getinfo(f, "S").source:find "^=celer/"
      and not each_instruction(f, is_known) then
      return false
    end
  end
  for _, cell in ipairs(read.cells) do
    if not cell.callee and not is_safe(closure.get(read, cell)) then return false end
  end
  for _, g in ipairs(globals) do
    if not is_safe(g.value) then return false end
  end
  return true
end

return M
