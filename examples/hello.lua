-- The smallest program: a kernel squares numbers, the driver prints them.
-- The kernel is in C++; the first program of README.md has one in Lua.
--   celer run hello.lua [count]
local celer = require "celer"

local n = tonumber(arg[1]) or 10
local q = celer.queue()
local squares = celer.buffer("int", { n }, { name = "squares" })

local square = celer.kernel [[
  kernel void square(item<1> it, out<int, 1> squares) {
    squares(it[0]) = it[0] * it[0];
  }
]]

q:submit(function(cg)
  cg:parallel_for({ n }, square, cg:discard_write(squares))
end)

local result = q:drain(celer.capture(squares))
local words = {}
for i = 0, n - 1 do words[#words + 1] = result(i) end
print("squares: " .. table.concat(words, " "))
