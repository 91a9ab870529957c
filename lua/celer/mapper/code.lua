--- code.lua -- what a function's instructions say.
---
--- Instructions are known by samples, whatever numbers this LuaJIT gives them.
local util = require "jit.util"

local M = {}

local band, rshift = bit.band, bit.rshift

-- Instruction n of a function, and how it uses its operands.
local function nth(f, n)
  local word, mode = util.funcbc(f, n)
  return band(word, 0xff), mode
end

local t = {}
--- Operations, by the names that they have in LuaJIT.
M.op = {
  GGET = nth(function() return g end, 1), -- luacheck: globals g
  UGET = nth(function() return t end, 1),
  TGETS = nth(function() return t.x end, 2),
  TGETB = nth(function() return t[1] end, 2),
  TSETS = nth(function(a) a.x = 1 end, 2),
  TSETB = nth(function(a) a[1] = 1 end, 2),
  TSETM = nth(function(a) return { a() } end, 4),
  TNEW = nth(function() return {} end, 1),
  TDUP = nth(function() return { 1 } end, 1),
  FNEW = nth(function() return function() end end, 1),
  CALL = nth(function(a) a() end, 2),
  CALLT = nth(function(a) return a() end, 2),
  CALLM = nth(function(a, b) a(b()) end, 4),
  CALLMT = nth(function(a, b) return a(b()) end, 4),
}
local op = M.op
local moving, calling, jumping
M.op.MOV, moving = nth(function(a) local b = a; return b end, 1)
calling = select(2, nth(function(a) a() end, 2))
jumping = select(2, nth(function(a) if a then a() end end, 2))

-- What a mode says: the first operand is written; all from it on may be; the last is a jump.
local WRITES, WRITES_FROM = band(moving, 7), band(calling, 7)
local JUMPS = band(jumping, 15 * 128)
assert(WRITES ~= WRITES_FROM and JUMPS ~= band(moving, 15 * 128))

--- Calls f for each instruction of a function but its header, until that gives false.
---@param code function|userdata  or what jit.util calls a proto
---@param f fun(op: integer, word: integer): boolean?
---@return boolean  whether it gave true for all
function M.each_instruction(code, f)
  for at = 1, math.huge do
    local word = util.funcbc(code, at)
    if not word then return true end
    if not f(band(word, 0xff), word) then return false end
  end
end

---@class celer.instruction
---@field op integer
---@field a integer  and b, c, d: operands; d is b and c in one
---@field writes boolean  whether it writes the register a alone
---@field writes_from boolean  whether it may write that one and all behind it
---@field jump integer?  where to

--- All instructions.
---@param code function|userdata
---@return celer.instruction[]
function M.decode(code)
  local list = {}
  for at = 1, math.huge do
    local word, mode = util.funcbc(code, at)
    if not word then return list end
    local d, first = rshift(word, 16), band(mode, 7)
    list[at] = { op = band(word, 0xff), a = band(rshift(word, 8), 0xff), b = rshift(word, 24),
      c = band(d, 0xff), d = d, writes = first == WRITES, writes_from = first == WRITES_FROM,
      jump = band(mode, 15 * 128) == JUMPS and at + 1 + d - 0x8000 or nil }
  end
end

--- By instruction that is jumped to: the first one from which it is; 0 where one leads back.
---@param list celer.instruction[]
---@return table<integer, integer>
function M.sources(list)
  local out = {}
  for at, one in ipairs(list) do
    local to = one.jump
    if to then out[to] = math.min(out[to] or math.huge, at < to and at or 0) end
  end
  return out
end

--- The name or number by which an instruction looks something up.
function M.key_of(code, one)
  return one.op == op.TGETS and util.funck(code, -one.c - 1) or one.c
end

--- Whether all that becomes of what an instruction got is that the next one looks into it,
--- by a name or a number.
---@param list celer.instruction[]
---@param from table<integer, integer>  its sources
function M.is_looked_into(list, from, at)
  local one, next_one = list[at], list[at + 1]
  return (next_one.op == op.TGETS or next_one.op == op.TGETB) and next_one.b == one.a
    and next_one.a == one.a and not from[at + 1]
end

--- Functions that are written in this one.
---@return userdata[]
function M.inner(code)
  local out = {}
  for k = 1, math.huge do
    local constant = util.funck(code, -k)
    if constant == nil then return out end
    if type(constant) == "proto" then out[#out + 1] = constant end
  end
end

--- The constant that an instruction loads: one of those, or the name of a global.
function M.constant_of(code, one) return util.funck(code, -one.d - 1) end

-- Calls found(value, key, name) for what a function has from outside: `variable` gives the
-- value of one by its number. Without a key it is not just looked into.
local function outside(code, env, variable, found)
  local list = M.decode(code)
  local from = M.sources(list)
  for at, one in ipairs(list) do
    if one.op == op.UGET or one.op == op.GGET then
      local key = M.is_looked_into(list, from, at) and M.key_of(code, list[at + 1]) or nil
      if one.op == op.UGET then
        found(variable(one.d), key)
      else
        local name = M.constant_of(code, one)
        found(rawget(env, name), key, name)
      end
    end
  end
end

-- The same for functions that are written in it, which have its variables by their names.
local function inner_outside(code, env, variables, found)
  for _, proto in ipairs(M.inner(code)) do
    outside(proto, env, function(i) return variables[util.funcuvname(proto, i)] end, found)
    inner_outside(proto, env, variables, found)
  end
end

--- Calls found(value, key, name) for each variable or global that a function gets, and
--- functions that are written in it: with a key where only that field is taken of it, and the
--- name of a global.
---@param f function
---@param found fun(value: any, key: any, name?: string)
function M.each_outside(f, found)
  local variables, env = {}, getfenv(f)
  for i = 1, 255 do
    local name, value = debug.getupvalue(f, i)
    if not name then break end
    variables[name] = value
  end
  outside(f, env, function(i) return (select(2, debug.getupvalue(f, i + 1))) end, found)
  inner_outside(f, env, variables, found)
end

return M
