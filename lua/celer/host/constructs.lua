--- constructs.lua -- whether what a function returns are tables that it writes down.
---
--- `return { x = i, y = 2 }` gives a table whose keys the text says. This reads it off the
--- instructions: each return is of a table that was made in the same stretch of them, which
--- is only entered at its beginning, and in which nothing but its fields is set.
local bit = require "bit"
local util = require "jit.util"
local programs = require "celer.host.program"
local each = require("celer.tables").each

local M = {}

local band, shift = bit.band, bit.rshift
local opcode_in = programs.opcode_in
local RETURN_ONE = opcode_in("local x return x", 1)
local RETURNS = { [opcode_in("return f(1)", 1)] = true, [opcode_in("return ...", 1)] = true,
  [opcode_in("return f(...)", 1)] = true, [opcode_in("local x return x, x", 1)] = true }
local NEW, COPY = opcode_in("return {}", 2), opcode_in("return { 1 }", 2)
local SET_FIELD = opcode_in("local t, x = {} t.x = x", 2)
local SET_NUMBERED = opcode_in("local t, x = {} t[1] = x", 2)

-- Of an instruction's operands, as LuaJIT's lj_bc.h has them.
local DST, BASE, VAR, RANGE, FUNC, JUMP = 1, 2, 3, 4, 12, 13

---@class celer.instruction
---@field op integer
---@field a integer
---@field b integer?
---@field d integer
---@field jump integer?  where it may go on
---@field ma integer  what its operands are
---@field mb integer
---@field md integer

local function instruction(f, pc)
  local code, modes = util.funcbc(f, pc)
  local out = { op = band(code, 0xff), a = band(shift(code, 8), 0xff), d = shift(code, 16),
    ma = band(modes, 7), mb = band(shift(modes, 3), 15), md = band(shift(modes, 7), 15) }
  if out.mb ~= 0 then out.b, out.d = shift(out.d, 8), band(out.d, 0xff) end
  if out.md == JUMP then out.jump = pc + out.d - 0x7fff end
  return out
end

local function instructions(f)
  local list = {}
  for pc = 1, (util.funcinfo(f).bytecodes or 0) - 1 do -- none of a C function
    list[pc] = instruction(f, pc)
  end
  return list
end

-- Whether an instruction leaves the table in register `at` as it is, but for known fields.
local function leaves(f, one, at, is_field)
  if (one.op == SET_FIELD or one.op == SET_NUMBERED) and one.b == at then
    local key = one.op == SET_NUMBERED and one.d or util.funck(f, -one.d - 1)
    return one.a ~= at and is_field(key)
  end
  return not (programs.is_of_loop(one.op) or one.md == FUNC
    or (one.ma == DST or one.ma == VAR) and one.a == at or one.ma == BASE and one.a <= at
    or one.mb == VAR and one.b == at or one.md == VAR and one.d == at
    or one.mb == RANGE and one.b <= at and at <= one.d)
end

-- Where the table that the instruction `pc` returns is made; nil for any other value.
local function made_at(f, list, pc, is_field)
  local at = list[pc].a
  for from = pc - 1, 1, -1 do
    local one = list[from]
    if (one.op == NEW or one.op == COPY) and one.a == at then
      for key in each(one.op == COPY and util.funck(f, -one.d - 1) or {}) do
        if not is_field(key) then return nil end
      end
      return from
    end
    if not leaves(f, one, at, is_field) then return nil end
  end
end

-- Whether what is after `from`, up to `to`, is come to through `from` alone.
local function is_stretch(list, from, to)
  for pc, one in ipairs(list) do
    local inside = pc > from and pc <= to
    if one.jump and (one.jump > from and one.jump <= to) ~= inside then return false end
  end
  return true
end

--- Whether all that a function returns are tables that it has made itself, without any key
--- but those that `is_field` takes, and more in order where a call gives the last. It must not
--- have run: LuaJIT rewrites instructions.
---@param f function
---@param is_field fun(key: any): any
---@return boolean
function M.only(f, is_field)
  local list = instructions(f)
  if not list[1] then return false end
  for pc, one in ipairs(list) do
    if RETURNS[one.op] or one.op == programs.COMPILED_LOOP then return false end
    if one.op == RETURN_ONE then
      local from = made_at(f, list, pc, is_field)
      if not from or not is_stretch(list, from, pc) then return false end
    end
  end
  return true
end

local function any() return true end

--- Makes room in the tables that a function copies for the fields that it then sets: LuaJIT
--- did when it read the text, and string.dump has lost that. Without it each copy has to
--- grow, and its compiler cannot do without the table.
---@param f function  that was loaded from what string.dump gave
function M.make_room(f)
  local list = instructions(f)
  for from, made in ipairs(list) do
    local copied, added = made.op == COPY and util.funck(f, -made.d - 1), {}
    for pc = from + 1, copied and #list or from do
      local one = list[pc]
      if not leaves(f, one, made.a, any) then break end
      if one.op == SET_FIELD and one.b == made.a then
        local name = util.funck(f, -one.d - 1)
        if copied[name] == nil then
          copied[name] = true -- a table that grows forgets keys without a value
          added[#added + 1] = name
        end
      end
    end
    for _, name in ipairs(added) do copied[name] = nil end
  end
end

return M
