--- exact.lua -- sums of doubles as whole numbers, without any rounding: what sums are to be.
---
---   local exact = require("spec.support.exact")
---   exact.sign { 1e300, 1, -1e300 } --> 1
local M = {}

local DIGIT = 2 ^ 24
local LEAST = -1074 -- the exponent of the least number
local DIGITS = math.ceil((1024 - LEAST + 64) / 24)

-- Adds a whole number below 2^24, times 2^(24 i + shift).
local function add(digits, i, x, shift)
  local y = x * 2 ^ shift
  local high = math.floor(y / DIGIT)
  digits[i] = digits[i] + (y - high * DIGIT)
  digits[i + 1] = digits[i + 1] + high
end

--- -1, 0 or 1: of the exact sum of finite numbers, of 10^8 at most.
---@param numbers number[]
---@return integer
function M.sign(numbers)
  local digits = {}
  for i = 0, DIGITS do digits[i] = 0 end
  for _, x in ipairs(numbers) do
    local fraction, exponent = math.frexp(x)
    exponent = exponent - 53
    local whole = fraction * 2 ^ 53
    if exponent < LEAST then whole, exponent = x * 2 ^ 1000 * 2 ^ 74, LEAST end
    local at, shift = math.floor((exponent - LEAST) / 24), (exponent - LEAST) % 24
    local size, minus = math.abs(whole), whole < 0 and -1 or 1
    for k = 0, 2 do
      add(digits, at + k, size % DIGIT * minus, shift)
      size = math.floor(size / DIGIT)
    end
  end
  local some = false
  for i = 0, DIGITS - 1 do
    local carry = math.floor(digits[i] / DIGIT)
    some = some or digits[i] - carry * DIGIT ~= 0
    digits[i + 1] = digits[i + 1] + carry
  end
  if digits[DIGITS] ~= 0 then return digits[DIGITS] < 0 and -1 or 1 end
  return some and 1 or 0
end

--- Raises unless `got` is the number that is nearest to the exact sum of finite ones, and
--- the even one of two.
---@param numbers number[]
---@param got number
---@param digits 24|53  of a float or a double
function M.check(numbers, got, digits)
  local largest = digits == 24 and (2 - 2 ^ -23) * 2 ^ 127 or (2 - 2 ^ -52) * 2 ^ 1023
  local least = digits == 24 and -149 or LEAST
  local function wrong(why)
    error(("%a (%.17g) is not the sum of %d numbers: %s"):format(got, got, #numbers, why), 0)
  end
  if got ~= got then wrong "not a number" end
  if math.abs(got) == math.huge then -- at least half a unit over the largest one
    local list, sign = { -largest }, got > 0 and 1 or -1
    for _, x in ipairs(numbers) do list[#list + 1] = sign * x end
    list[#list + 1] = -math.ldexp(1, (digits == 24 and 128 or 1024) - digits - 1)
    return M.sign(list) >= 0 or wrong "it is less"
  end
  -- Half of what lies between `got` and its neighbours, up and down.
  local _, exponent = math.frexp(got)
  local unit = math.ldexp(1, math.max(exponent - digits, least))
  local below = math.abs(got) == math.ldexp(1, exponent - 1) and exponent - digits > least
    and unit / 2 or unit
  local up, down = unit, below
  if got < 0 then up, down = below, unit end
  local even = got / unit % 2 == 0
  local function next_to(step)
    local list = { -got, -got, -step }
    for _, x in ipairs(numbers) do list[#list + 1] = x; list[#list + 1] = x end
    return M.sign(list)
  end
  local above, under = next_to(up), next_to(-down)
  if above > 0 or above == 0 and not even then wrong "it is more" end
  if under < 0 or under == 0 and not even then wrong "it is less" end
  if got == 0 and 1 / got < 0 then wrong "-0" end
end

return M
