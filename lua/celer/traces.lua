--- traces.lua -- throws away what LuaJIT has compiled wrongly, before it runs.
---
--- On x64, LuaJIT before April 2022 (Debian 12's is one) may exchange the two results of a
--- compiled next(), also that of a loop over pairs(), as numbers of 32 bits: the pointer among them
--- loses its upper half, and the process crashes (LuaJIT's issue 829). About one in 400 traces
--- is so that call next() while many tables are in use. Each trace is looked through when it
--- is made. A bad one costs that the function where it starts is interpreted from then on;
--- all others run as they are. A script that attaches a handler of its own to traces, as jit.v
--- does, takes the place of this one.
local util = require "jit.util"

local M = {}

-- The functions of LuaJIT itself that traces call.
local function internal()
  local out, k = {}, 0
  while util.ircalladdr(k) do
    out[util.ircalladdr(k)] = true
    k = k + 1
  end
  return out
end

-- What may stand between such a call and what moves its results: they are saved on the stack.
local saves = { "^H\137D%$.", "^H\137\132%$....", "^\137T%$.", "^\137\148%$...." }
local CALL, EXCHANGE = "()\232", 0x92 -- xchg eax, edx: 48 92 would be that of rax and rdx

--- Whether machine code exchanges the halves of a call's two results.
---@param code string
---@param address number  where it lies
---@param called table<number, boolean>  the functions that count
---@return boolean
function M.is_bad(code, address, called)
  for at in code:gmatch(CALL) do
    local a, b, c, d = code:byte(at + 1, at + 4)
    local offset = d and bit.bor(a, bit.lshift(b, 8), bit.lshift(c, 16), bit.lshift(d, 24))
    if d and called[address + at + 4 + offset] then
      local rest = code:sub(at + 5, at + 20)
      for _, save in ipairs(saves) do rest = rest:gsub(save, "") end
      if rest:byte() == EXCHANGE then return true end
    end
  end
  return false
end

--- Watches this state's traces, where LuaJIT may have the fault.
function M.install()
  if jit.arch ~= "x64" or not jit.version:find "beta" then return end
  local called, start = internal(), nil
  jit.attach(function(event, trace, f)
    if event == "start" then
      start = f
    elseif event == "stop" then
      local code, address = util.tracemc(trace)
      if not M.is_bad(code, address, called) then return end
      jit.flush() -- others may lead to it, and it into others
      jit.off(start)
    end
  end, "trace")
end

return M
