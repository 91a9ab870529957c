--- ticks.lua -- which numbers stand at an axis.
local M = {}

-- The least of 1, 2 and 5 times a power of ten that is not less.
local function round_step(x)
  local power = 10 ^ math.floor(math.log10(x))
  for _, n in ipairs { 1, 2, 5 } do
    if n * power >= x * (1 - 1e-9) then return n * power end
  end
  return 10 * power
end

---@class celer.draw.tick
---@field at number  from 0, at the beginning, to 1
---@field text string

--- Some `most` numbers between two, in either direction; none where these are not finite, or
--- too near to each other.
---@return celer.draw.tick[]
function M.between(from, to, most)
  local out, low, high = {}, math.min(from, to), math.max(from, to)
  local span = high - low
  if not (span > 0 and span < math.huge) or low + span / most / 10 == low then return out end
  local step = round_step(span / most)
  for i = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) do
    local value = i * step
    out[#out + 1] = { at = (value - from) / (to - from),
      text = i == 0 and "0" or ("%.10g"):format(value) }
  end
  return out
end

--- The same where distances are those of logarithms: powers of ten, if there are two.
---@return celer.draw.tick[]
function M.between_logs(from, to, most)
  local low, high = math.log10(math.min(from, to)), math.log10(math.max(from, to))
  local first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
  local out, step = {}, math.max(1, math.ceil((last - first) / most))
  local a, b = math.log10(from), math.log10(to)
  if last > first then
    for i = first, last, step do
      out[#out + 1] = { at = (i - a) / (b - a), text = ("1e%d"):format(i) }
    end
    return out
  end
  for _, tick in ipairs(M.between(from, to, most)) do
    local value = from + tick.at * (to - from)
    if value > 0 then
      out[#out + 1] = { at = (math.log10(value) - a) / (b - a), text = tick.text }
    end
  end
  return out
end

--- The longest text's letters.
function M.widest(ticks)
  local most = 0
  for _, tick in ipairs(ticks) do most = math.max(most, #tick.text) end
  return most
end

return M
