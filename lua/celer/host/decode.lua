--- decode.lua -- string.buffer's decode, which LuaJIT must not compile.
---
--- Compiled code keeps what decode returns where the next call puts its own: where two
--- are decoded before the first is used, that may have become the second (LuaJIT of 2022).
local buffer = require "string.buffer"

--- What string.buffer's encode made a string of.
---@param text string
---@return any
local function decode(text) return (buffer.decode(text)) end
jit.off(decode)

return decode
