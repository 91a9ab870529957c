--- instructions.lua -- what LuaJIT has compiled a function to, and the room in tables that it
--- makes; for the build, too, so nothing else of celer is needed here.
local bit = require "bit"
local util = require "jit.util"

local M = {}

local band, shift = bit.band, bit.rshift

--- An opcode of a text, counted from its end, as this LuaJIT numbers them: its own list
--- of them would have to be found on disk.
---@param text string
---@param from_end integer
---@return integer
function M.opcode_in(text, from_end)
  local f = loadstring(text)
  return band(util.funcbc(f, util.funcinfo(f).bytecodes - from_end), 0xff)
end

local opcode_in = M.opcode_in
M.NEW, M.COPY = opcode_in("return {}", 2), opcode_in("return { 1 }", 2) -- of tables
local SET_FIELD = opcode_in("local t, x = {} t.x = x", 2)
local SET_NUMBERED = opcode_in("local t, x = {} t[1] = x", 2)
local FOR, LOOP = opcode_in("for i = 1, 2 do end", 3), opcode_in("while x do end", 3)
local CALL_ITERATOR = opcode_in("for x in f do end", 3)
local CALL_NEXT = opcode_in("for x in next do end", 3)

-- LuaJIT rewrites the instructions of loops while they run, on each rank in its own
-- time: those of FOR to LOOP, which has two of them behind it, and the calls of
-- iterators. Their operands follow from those of others. A return becomes the last of
-- these, too, where a function that calls itself is compiled from there.
M.COMPILED_LOOP = LOOP + 2

--- Whether an opcode is one of those.
---@param opcode integer
---@return boolean
function M.is_of_loop(opcode)
  return opcode >= FOR and opcode <= M.COMPILED_LOOP or opcode == CALL_ITERATOR
    or opcode == CALL_NEXT
end

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

--- Those of a function, or of a prototype, from the first one that does something on.
---@param f function
---@return celer.instruction[]
function M.of(f)
  local list = {}
  for pc = 1, (util.funcinfo(f).bytecodes or 0) - 1 do -- none of a C function
    list[pc] = instruction(f, pc)
  end
  return list
end

--- Whether an instruction leaves the table in register `at` as it is, but for known fields.
---@param f function
---@param one celer.instruction
---@param at integer
---@param is_field fun(key: any): any
---@return boolean
function M.leaves(f, one, at, is_field)
  if (one.op == SET_FIELD or one.op == SET_NUMBERED) and one.b == at then
    local key = one.op == SET_NUMBERED and one.d or util.funck(f, -one.d - 1)
    return one.a ~= at and is_field(key)
  end
  return not (M.is_of_loop(one.op) or one.md == FUNC
    or (one.ma == DST or one.ma == VAR) and one.a == at or one.ma == BASE and one.a <= at
    or one.mb == VAR and one.b == at or one.md == VAR and one.d == at
    or one.mb == RANGE and one.b <= at and at <= one.d)
end

local function any() return true end

-- The fields, and elements, that are set in any case in the table that the instruction `from`
-- copies, before anything else has it.
local function set_in(f, list, from)
  local at, skipped_to, out = list[from].a, from, {}
  for pc = from + 1, #list do
    local one = list[pc]
    if not M.leaves(f, one, at, any) or one.jump and one.jump <= from then break end
    skipped_to = math.max(skipped_to, one.jump or 0)
    if one.b == at and skipped_to <= pc then
      if one.op == SET_FIELD then out[#out + 1] = util.funck(f, -one.d - 1) end
      if one.op == SET_NUMBERED then out[#out + 1] = one.d end
    end
  end
  return out
end

-- Calls visit(table, keys) for each table that a function copies, with those of its keys that
-- it then sets, and that have no value in it.
local function each_copied(f, visit)
  local list = M.of(f)
  for from, made in ipairs(list) do
    local copied, lacking = made.op == M.COPY and util.funck(f, -made.d - 1), {}
    for _, key in ipairs(copied and set_in(f, list, from) or {}) do
      if copied[key] == nil then lacking[#lacking + 1] = key end
    end
    if lacking[1] then visit(copied, lacking) end
  end
end

--- Makes room in the tables that a function copies for what it then sets: LuaJIT did when it
--- read the text, and string.dump has lost that. Without it each copy has to grow, and its
--- compiler cannot do without the table.
---@param f function  that was loaded from what string.dump gave
function M.make_room(f)
  each_copied(f, function(copied, keys)
    for _, key in ipairs(keys) do copied[key] = true end -- else, as it grows, it forgets some
    for _, key in ipairs(keys) do copied[key] = nil end
  end)
end

--- Has string.dump write down that room, of a function and of those within it: false stands
--- there, and is overwritten before anything else has the table.
---@param f function  that is not called, but dumped
function M.keep_room(f)
  each_copied(f, function(copied, keys)
    for _, key in ipairs(keys) do copied[key] = false end
  end)
  for i = 1, util.funcinfo(f).gcconsts do
    local constant = util.funck(f, -i)
    if type(constant) == "proto" then M.keep_room(constant) end
  end
end

return M
