--- decode.lua -- the instructions of a function, for the reference evaluator.
---
--- It shares nothing with the compiler's own, so that a mistake there shows.
local bit = require "bit"
local util = require "jit.util"

local M = {}

-- As LuaJIT 2.1 numbers them, in groups of their first operands.
local comparisons = "ISLT ISGE ISLE ISGT ISEQV ISNEV ISEQS ISNES ISEQN ISNEN ISEQP ISNEP "
local tests = "ISTC ISFC IST ISF ISTYPE ISNUM MOV NOT UNM LEN "
local arithmetic = "ADDVN SUBVN MULVN DIVVN MODVN ADDNV SUBNV MULNV DIVNV MODNV ADDVV SUBVV MULVV "
  .. "DIVVV MODVV POW CAT "
local constants = "KSTR KCDATA KSHORT KNUM KPRI KNIL "
local captured = "UGET USETV USETS USETN USETP UCLO FNEW "
local tables = "TNEW TDUP GGET GSET TGETV TGETS TGETB TGETR TSETV TSETS TSETB TSETM TSETR "
local calls = "CALLM CALL CALLMT CALLT ITERC ITERN VARG ISNEXT RETM RET RET0 RET1 "
local loops_of = "FORI JFORI FORL IFORL JFORL ITERL IITERL JITERL LOOP ILOOP JLOOP JMP "

local names = {}
for name in (comparisons .. tests .. arithmetic .. constants .. captured .. tables .. calls
  .. loops_of):gmatch "%S+" do
  names[#names + 1] = name
end

local JUMP = 13 -- of lj_bc.h

-- Without what counts how hot a loop is, or was compiled.
local function plain(name)
  local base = name:match "^[IJ](%u+)$"
  return (base == "FORI" or base == "FORL" or base == "LOOP") and base or name
end

local function instruction(f, pc)
  local word, mode = util.funcbc(f, pc)
  if not word then return nil end
  local name = names[bit.band(word, 0xff) + 1] or "?"
  local d = bit.rshift(word, 16)
  return { op = plain(name), a = bit.band(bit.rshift(word, 8), 0xff), d = d,
    b = bit.rshift(word, 24), c = bit.band(d, 0xff),
    assigns = bit.band(mode, 7) == 1,
    to = bit.band(bit.rshift(mode, 7), 15) == JUMP and pc + d - 0x7fff or nil }
end

-- Where loops end, by where they begin: a loop that is left into another one's middle is part
-- of that.
local function loops(code)
  local ends = {}
  for pc, i in ipairs(code) do
    if i.to and i.op ~= "LOOP" and i.to <= pc then ends[i.to] = pc end
  end
  local again = true
  while again do
    again = false
    for pc, i in ipairs(code) do
      for head, last in pairs(ends) do
        if i.to and i.op ~= "LOOP" and i.to > head and i.to <= last and pc > last then
          ends[head], again = pc, true
        end
      end
    end
  end
  return ends
end

-- The slots that each loop assigns to.
local function assigned(code, first, last)
  local slots = {}
  for pc = first, last do
    local i = code[pc]
    local from, to = i.a, i.assigns and i.a or i.a - 1
    if i.op == "KNIL" then to = i.d end
    if i.op == "CALL" or i.op == "CALLM" then to = i.a + math.max(i.b, i.c + 2) end
    if i.op == "FORI" or i.op == "FORL" then to = i.a + 3 end
    for slot = from, to do
      local kept = (i.op == "FORI" or i.op == "FORL") and (slot == i.a + 1 or slot == i.a + 2)
      if not kept then slots[slot] = true end
    end
  end
  return slots
end

---@class celer.decoded
---@field [integer] {op: string, a: integer, b: integer, c: integer, d: integer, to: integer?}
---@field assigned table<integer, table<integer, boolean>>  by where a loop begins: slots
---@field params integer

local known = setmetatable({}, { __mode = "k" })

--- The instructions of a function.
---@param f function
---@return celer.decoded
function M.of(f)
  if known[f] then return known[f] end
  jit.flush(f, true)
  local code = { params = util.funcinfo(f).params, assigned = {} }
  for pc = 1, math.huge do
    code[pc] = instruction(f, pc)
    if not code[pc] then break end
  end
  for head, last in pairs(loops(code)) do code.assigned[head] = assigned(code, head, last) end
  known[f] = code
  return code
end

return M
