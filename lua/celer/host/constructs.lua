--- constructs.lua -- whether what a function returns are tables that it writes down.
---
--- `return { x = i, y = 2 }` gives a table whose keys the text says. This reads it off the
--- instructions: each return is of a table that was made in the same stretch of them, which
--- is only entered at its beginning, and in which nothing but its fields is set.
local util = require "jit.util"
local instructions = require "celer.host.instructions"
local each = require("celer.tables").each

local M = {}

local opcode_in, leaves = instructions.opcode_in, instructions.leaves
local RETURN_ONE = opcode_in("local x return x", 1)
local RETURNS = { [opcode_in("return f(1)", 1)] = true, [opcode_in("return ...", 1)] = true,
  [opcode_in("return f(...)", 1)] = true, [opcode_in("local x return x, x", 1)] = true }
local NEW, COPY = instructions.NEW, instructions.COPY

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
  local list = instructions.of(f)
  if not list[1] then return false end
  for pc, one in ipairs(list) do
    if RETURNS[one.op] or one.op == instructions.COMPILED_LOOP then return false end
    if one.op == RETURN_ONE then
      local from = made_at(f, list, pc, is_field)
      if not from or not is_stretch(list, from, pc) then return false end
    end
  end
  return true
end

return M
