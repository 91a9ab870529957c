--- bytecode.lua -- the instructions of a function of Lua.
---
--- LuaJIT numbers its instructions anew in each version. `names` is the order of 2.1; a
--- sample of functions is decoded when the first kernel is, and has to come to what is
--- known of it.
local bit = require "bit"
local ffi = require "ffi"
local util = require "jit.util"

local M = {}

local names = {}
for name in ([[ISLT ISGE ISLE ISGT ISEQV ISNEV ISEQS ISNES ISEQN ISNEN ISEQP ISNEP ISTC ISFC
IST ISF ISTYPE ISNUM MOV NOT UNM LEN ADDVN SUBVN MULVN DIVVN MODVN ADDNV SUBNV MULNV DIVNV
MODNV ADDVV SUBVV MULVV DIVVV MODVV POW CAT KSTR KCDATA KSHORT KNUM KPRI KNIL UGET USETV
USETS USETN USETP UCLO FNEW TNEW TDUP GGET GSET TGETV TGETS TGETB TGETR TSETV TSETS TSETB
TSETM TSETR CALLM CALL CALLMT CALLT ITERC ITERN VARG ISNEXT RETM RET RET0 RET1 FORI JFORI
FORL IFORL JFORL ITERL IITERL JITERL LOOP ILOOP JLOOP JMP]]):gmatch "%u+%d*" do
  names[#names + 1] = name
end

-- What the compiler of traces has made of an instruction, by what it was.
local plain = { JFORI = "FORI", IFORL = "FORL", IITERL = "ITERL", ILOOP = "LOOP" }

--- How far behind a function its first argument lies in the frame of a call.
M.FIRST = ffi.abi "gc64" and 2 or 1

-- Modes of operands, as LuaJIT's lj_bc.h has them.
local DESTINATION, JUMP = 1, 13

---@class celer.instruction
---@field op string
---@field a integer
---@field b? integer
---@field c? integer
---@field d? integer  where there are no b and c
---@field to? integer  where it jumps to
---@field line integer
---@field writes boolean  slot a, and no other

---@class celer.bytecode
---@field [integer] celer.instruction
---@field leads table<integer, boolean>  where a block of instructions begins
---@field back table<integer, integer>  where a loop begins: its last instruction
---@field info table  what jit.util tells of the function

local function instruction(f, pc)
  local word, mode = util.funcbc(f, pc)
  if not word then return nil end
  local op = names[bit.band(word, 0xff) + 1] or "?"
  local d = bit.rshift(word, 16)
  local out = { op = plain[op] or op, a = bit.band(bit.rshift(word, 8), 0xff),
    writes = bit.band(mode, 7) == DESTINATION,
    line = util.funcinfo(f, pc).currentline }
  if bit.band(mode, 0x78) ~= 0 then
    out.b, out.c = bit.rshift(word, 24), bit.band(d, 0xff)
  else
    out.d = d
  end
  if bit.rshift(bit.band(mode, 0x780), 7) == JUMP then out.to = pc + d - 0x7fff end
  return out
end

-- The last instruction of each loop: also of one that another one leads back into.
local function extend(back)
  local changed = true
  while changed do
    changed = false
    for head, last in pairs(back) do
      for inner, other in pairs(back) do
        if inner > head and inner <= last and other > last then
          back[head], last, changed = other, other, true
        end
      end
    end
  end
end

local function find_blocks(code)
  code.leads, code.back = { [1] = true }, {}
  for pc, i in ipairs(code) do
    if i.to and i.op ~= "LOOP" then
      code.leads[i.to], code.leads[pc + 1] = true, true
      if i.to <= pc then code.back[i.to] = math.max(code.back[i.to] or 0, pc) end
    elseif i.op:find "^RET" or i.op:find "^CALLM?T" then
      code.leads[pc + 1] = true
    end
  end
  extend(code.back)
end

local function decode(f)
  jit.flush(f, true) -- what was compiled of it has changed its instructions
  local code = { info = util.funcinfo(f) }
  for pc = 1, math.huge do
    local i = instruction(f, pc)
    if not i then break end
    code[pc] = i
  end
  find_blocks(code)
  return code
end

-- A function, and the instructions that it has in 2.1.
local samples = {
  { "return function(i, n) if i < n and i ~= 2 then n = -i end return n, not i end",
    "ISGE JMP ISEQN JMP UNM MOV NOT RET" },
  { "local a, f = ... return function(t, i) t[i].x, t[1] = f(i ^ 2, a and i), 0.5 end",
    "TGETV UGET KSHORT POW UGET ISF JMP MOV CALL KNUM TSETB TSETS RET0" },
  { [[local a = 1 return function(i)
      for k = 1, i do if k == a then break end end while i > 3 do i = i - 1 / i end
      return a.b(i)
    end]], "KSHORT MOV KSHORT FORI UGET ISNEV JMP JMP FORL KSHORT ISGE JMP LOOP DIVNV SUBVV JMP "
      .. "UGET TGETS MOV CALLT" },
}

local checked

-- Whether this LuaJIT has the instructions that are known here.
local function is_known()
  for _, sample in ipairs(samples) do
    local f = assert(loadstring(sample[1], "=celer/sample"))()
    local ops = {}
    for pc = 1, math.huge do
      local i = instruction(f, pc)
      if not i then break end
      ops[pc] = i.op
    end
    if table.concat(ops, " ") ~= sample[2] then return false end
  end
  return true
end

--- The instructions of a function, which is one of Lua; or nil and why not.
---@param f function
---@return celer.bytecode? code, string? reason
function M.read(f)
  if checked == nil then checked = is_known() end
  if not checked then
    return nil, ("functions cannot be made kernels here: %s numbers its instructions in another "
      .. "way than LuaJIT 2.1; write the kernel in C++"):format(jit.version)
  end
  local code = decode(f)
  if (code[1].line or 0) == 0 then
    return nil, "its lines are not known, as it was stripped; write it in the script"
  end
  return code
end

--- The slots that instructions from..to may assign to.
---@param code celer.bytecode
---@param from integer
---@param to integer
---@return table<integer, boolean>
function M.written(code, from, to)
  local slots = {}
  for pc = from, to do
    local i = code[pc]
    if i.op == "FORI" or i.op == "FORL" then
      slots[i.a], slots[i.a + 3] = true, true
    elseif i.op == "CALL" or i.op == "CALLM" then
      for slot = i.a, i.a + math.max(i.b, i.c + 2) do slots[slot] = true end
    elseif i.op == "KNIL" then
      for slot = i.a, i.d do slots[slot] = true end
    elseif i.writes then
      slots[i.a] = true
    end
  end
  return slots
end

return M
