--- philox.lua -- random numbers that depend on nothing but who asks for them.
---
--- Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), as in
--- kernels/random.cuh: numbers of a kernel, of the script and of host tasks are the same to the
--- last bit.
local bit = require "bit"
local place = require "celer.place"
local words = require "celer.words"

local bxor, rshift = bit.bxor, bit.rshift
local floor = math.floor

local M = {}

local WORD = 2 ^ 32

local function high(x) return tonumber(rshift(x, 32)) end
local function low(x) return tonumber(x % 0x100000000ULL) end
local function mixed(a, b, key) return bxor(a, b, key) % WORD end

--- The four words of a block, enciphered from a counter of four words by a key of two.
---@return number, number, number, number
function M.block(c0, c1, c2, c3, key0, key1)
  for _ = 1, 10 do
    local a, b = 0xd2511f53ULL * c0, 0xcd9e8d57ULL * c2
    c0, c1, c2, c3 = mixed(high(b), c1, key0), low(b), mixed(high(a), c3, key1), low(a)
    key0, key1 = (key0 + 0x9e3779b9) % WORD, (key1 + 0xbb67ae85) % WORD
  end
  return c0, c1, c2, c3
end

local function check(name, x)
  if type(x) ~= "number" or x % 1 ~= 0 or math.abs(x) > 2 ^ 53 then
    place.fail("celer.philox: the %s is a whole number of at most 53 bits, not %s", name,
      type(x) == "number" and tostring(x) or words.a(x))
  end
end

-- Both words of a number of 64 bits; of one below zero as C has them.
local function parts(x) return x % WORD, floor(x / WORD) % WORD end

--- A random number in [0, 1), in steps of 2^-53, which depends on its arguments alone: the seed,
--- the item that asks, the step of its loop, and which number of that step it is. The same in
--- kernels written in Lua, in the script and in host tasks.
---@param seed integer
---@param item integer
---@param step? integer  0
---@param draw? integer  0
---@return number
function M.uniform(seed, item, step, draw)
  step, draw = step or 0, draw or 0
  check("seed", seed)
  check("item", item)
  check("step", step)
  check("draw", draw)
  local key0, key1 = parts(seed)
  local item0, item1 = parts(item)
  local draw0, draw1 = parts(draw)
  local a, b, c, d = M.block(floor(draw0 / 2) + draw1 % 2 * 2 ^ 31, step % WORD, item0, item1, key0,
    key1)
  if draw0 % 2 == 1 then a, b = c, d end
  return (rshift(a, 5) * 2 ^ 26 + rshift(b, 6)) * 2 ^ -53
end

return M
