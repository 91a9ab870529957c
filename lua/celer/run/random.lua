--- random.lua -- random numbers that are the same on all ranks.
local ffi = require "ffi"
local bit = require "bit"
local place = require "celer.place"

local M = {}

local rshift, bxor = bit.rshift, bit.bxor
local uint64 = ffi.typeof("uint64_t")
local state = uint64(1)

-- splitmix64: 64 bits.
local function draw()
  state = state + 0x9e3779b97f4a7c15ULL
  local z = state
  z = bxor(z, rshift(z, 30)) * 0xbf58476d1ce4e5b9ULL
  z = bxor(z, rshift(z, 27)) * 0x94d049bb133111ebULL
  return bxor(z, rshift(z, 31))
end

local function unit() return tonumber(rshift(draw(), 11)) * 2 ^ -53 end

local function check(name, x)
  if type(x) ~= "number" or x % 1 ~= 0 or math.abs(x) > 2 ^ 53 then
    place.fail("%s takes whole numbers, not %s", name, tostring(x))
  end
end

--- A number: in [0, 1); with n a whole one from 1 to n; with m and n from m to n.
--- Every rank gets the same.
---@param m? integer
---@param n? integer
---@return number
function M.random(m, n)
  if m == nil and n == nil then return unit() end
  if n == nil then m, n = 1, m end
  check("celer.random", m)
  check("celer.random", n)
  if m > n then place.fail("celer.random: there is no number from %d to %d", m, n) end
  return m + math.floor(unit() * (n - m + 1))
end

--- Starts the sequence anew; it starts at celer.seed(1).
---@param n integer
function M.seed(n)
  check("celer.seed", n)
  state = uint64(ffi.cast("int64_t", n))
end

return M
