--- program.lua -- what all closures of one function text have in common: its code, the
--- globals that it reads, and what ranks must agree on of it.
local bit = require "bit"
local util = require "jit.util"
local core = require "celer.core"
local instructions = require "celer.host.instructions"
local tables = require "celer.tables"

local M = {}

local opcode_in, is_of_loop = instructions.opcode_in, instructions.is_of_loop
local GLOBAL_GET = opcode_in("return x", 2)
local JUMP, JUMP_TO_NEXT =
  opcode_in("for x in f do end", 4), opcode_in("for x in next do end", 4)

---@class celer.program
---@field code string  as string.dump has it, which differs between ranks: it holds
---       tables in the order of their hash parts
---@field hash string  of what the code does, the same on all ranks
---@field globals string[]  their names
---@field of_celer boolean

local read

local function constant_words(value, globals)
  local kind = type(value)
  if kind == "proto" then return read(value, globals) end
  if kind == "table" then
    local words = {}
    for k, v in tables.sorted_pairs(value) do
      words[#words + 1] = constant_words(k) .. "=" .. constant_words(v)
    end
    return "{" .. table.concat(words, ",") .. "}"
  elseif kind == "number" then
    return ("n%.17g"):format(value)
  end
  return ("%s%d:%s"):format(kind, #tostring(value), tostring(value))
end

-- What a prototype does and those inside it, in words; adds the names of the globals
-- that they read.
function read(proto, globals)
  local info = util.funcinfo(proto)
  local words = { ("f%d%s"):format(info.params, tostring(info.isvararg)) }
  for i = 0, info.upvalues - 1 do words[#words + 1] = util.funcuvname(proto, i) or "?" end
  for pc = 1, info.bytecodes - 1 do -- what is before the first counts the calls
    local code = util.funcbc(proto, pc)
    local opcode = bit.band(code, 0xff)
    if opcode == GLOBAL_GET then
      globals[util.funck(proto, -bit.rshift(code, 16) - 1)] = true
    end
    if is_of_loop(opcode) then
      words[#words + 1] = "loop"
    else
      words[#words + 1] = opcode == JUMP_TO_NEXT and JUMP or opcode
      words[#words + 1] = bit.rshift(code, 8)
    end
  end
  for i = 0, info.nconsts - 1 do
    words[#words + 1] = constant_words(util.funck(proto, i))
  end
  for i = -1, -info.gcconsts, -1 do
    words[#words + 1] = constant_words(util.funck(proto, i), globals)
  end
  return table.concat(words, " ")
end

local known = setmetatable({}, { __mode = "k" }) -- by prototype

--- What the function's text is; kept for all its closures.
---@param f function  of Lua
---@return celer.program
function M.of(f)
  local info = util.funcinfo(f)
  local found = known[info.proto]
  if found then return found end
  local globals, names = {}, {}
  local hash = core.hash(read(f, globals))
  for name in tables.sorted_pairs(globals) do names[#names + 1] = name end
  found = { code = string.dump(f), hash = hash, globals = names,
    of_celer = info.source:find "^=celer/" ~= nil }
  known[info.proto] = found
  return found
end

return M
