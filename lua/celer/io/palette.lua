--- palette.lua -- the colours of numbers in pictures.
local words = require "celer.words"

local M = {}

-- Evenly spaced from least to greatest, with all shades between. Viridis and
-- inferno are matplotlib's: as light as the number is great, to every eye.
local named = {
  gray = { 0x000000, 0xffffff },
  diverging = { 0x053061, 0x2166ac, 0x4393c3, 0x92c5de, 0xd1e5f0, 0xf7f7f7, 0xfddbc7,
    0xf4a582, 0xd6604d, 0xb2182b, 0x67001f },
  viridis = { 0x440154, 0x482878, 0x3e4989, 0x31688e, 0x26828e, 0x1f9e89, 0x35b779,
    0x6ece58, 0xb5de2b, 0xfde725 },
  inferno = { 0x000004, 0x1b0c41, 0x4a0c6b, 0x781c6d, 0xa52c60, 0xcf4446, 0xed6925,
    0xfb9b06, 0xf7d13d, 0xfcffa4 },
}

-- What is no number.
M.NONE = 0x505050

local function split(color)
  return math.floor(color / 65536), math.floor(color / 256) % 256, color % 256
end

local function is_color(c)
  return type(c) == "number" and c >= 0 and c <= 0xffffff and c % 1 == 0
end

--- A name, or colours 0xRRGGBB from the least number to the greatest.
---@alias celer.colors "gray"|"viridis"|"inferno"|"diverging"|integer[]

--- A list of colours 0xRRGGBB, or why `colors` is none.
---@param colors? celer.colors
---@return integer[]? list, string? message
function M.find(colors)
  if type(colors) ~= "table" then
    local list = named[colors or "gray"]
    if list then return list end
    return nil, type(colors) == "string" and ("unknown colors '%s'%s"):format(colors,
      words.advice(colors, named)) or "colors must be a name or a list, not "
      .. words.a(colors)
  end
  for _, c in ipairs(colors) do
    if not is_color(c) then
      return nil, ("%s in the list of colors is no color; red is 0xff0000")
        :format(type(c) == "number" and tostring(c) or words.a(c))
    end
  end
  if #colors < 2 then return nil, "a list of colors has two or more" end
  return colors
end

--- A function from t in [0, 1], or none, to red, green and blue from 0 to 255.
---@param list integer[]
---@return fun(t: number): integer, integer, integer
function M.shades(list)
  local red, green, blue = {}, {}, {}
  for i, color in ipairs(list) do red[i], green[i], blue[i] = split(color) end
  local last, floor = #list - 1, math.floor
  local function between(c, i, part) return floor(c[i] + part * (c[i + 1] - c[i]) + 0.5) end
  return function(t)
    if t ~= t then return split(M.NONE) end
    local i = math.min(floor(t * last), last - 1)
    local part = t * last - i
    return between(red, i + 1, part), between(green, i + 1, part),
      between(blue, i + 1, part)
  end
end

return M
