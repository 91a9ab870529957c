--- terminal.lua -- pictures as what terminals draw: by kitty's protocol, as sixels, or in
--- coloured half blocks.
local ffi = require "ffi"

local M = {}

local encoders = {}

local LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function base64(bytes, first, n)
  local out = {}
  for i = first, first + n - 1, 3 do
    local a, b, c = bytes[i], i + 1 < first + n and bytes[i + 1], i + 2 < first + n and bytes[i + 2]
    local word = a * 65536 + (b or 0) * 256 + (c or 0)
    for k = 18, 0, -6 do
      local letter = bit.band(bit.rshift(word, k), 63) + 1
      out[#out + 1] = (k == 6 and not b or k == 0 and not c) and "="
        or LETTERS:sub(letter, letter)
    end
  end
  return table.concat(out)
end

local PIECE = 3072 -- bytes, of which kitty takes 4,096 letters

function encoders.kitty(bytes, height, width)
  local out, n = {}, 3 * height * width
  for first = 0, n - 1, PIECE do
    local more = first + PIECE < n and 1 or 0
    local head = first == 0 and ("a=T,q=2,f=24,s=%d,v=%d,m=%d"):format(width, height, more)
      or ("m=%d"):format(more)
    local piece = base64(bytes, first, math.min(PIECE, n - first))
    out[#out + 1] = ("\27_G%s;%s\27\\"):format(head, piece)
  end
  return table.concat(out) .. "\n"
end

local STEPS = 6 -- of red, green and blue: 216 colours

local function color_of(bytes, p)
  local function level(x) return math.floor(x * (STEPS - 1) / 255 + 0.5) end
  return (level(bytes[p]) * STEPS + level(bytes[p + 1])) * STEPS + level(bytes[p + 2])
end

-- A sixel is six pixels below each other, of one colour: bit k is the pixel k.
local function sixels_of(bytes, height, width, top)
  local rows, colors = {}, {}
  for x = 0, width - 1 do
    for k = 0, math.min(6, height - top) - 1 do
      local color = color_of(bytes, 3 * ((top + k) * width + x))
      if not rows[color] then
        rows[color] = ffi.new("uint8_t[?]", width)
        colors[#colors + 1] = color
      end
      rows[color][x] = rows[color][x] + 2 ^ k
    end
  end
  table.sort(colors)
  return rows, colors
end

-- Equal sixels are counted.
local function run_lengths(row, width)
  local out, x = {}, 0
  while x < width do
    local n = 1
    while x + n < width and row[x + n] == row[x] do n = n + 1 end
    local letter = string.char(63 + row[x])
    out[#out + 1] = n > 3 and ("!%d%s"):format(n, letter) or letter:rep(n)
    x = x + n
  end
  return table.concat(out)
end

function encoders.sixel(bytes, height, width)
  local out = { ('\27P0;1q"1;1;%d;%d'):format(width, height) }
  for color = 0, STEPS ^ 3 - 1 do
    local function percent(by) return math.floor(color / by) % STEPS * 100 / (STEPS - 1) end
    out[#out + 1] = ("#%d;2;%d;%d;%d"):format(color, percent(STEPS ^ 2), percent(STEPS), percent(1))
  end
  for top = 0, height - 1, 6 do
    local rows, colors = sixels_of(bytes, height, width, top)
    local line = {}
    for _, color in ipairs(colors) do
      line[#line + 1] = ("#%d%s"):format(color, run_lengths(rows[color], width))
    end
    out[#out + 1] = table.concat(line, "$") .. "-"
  end
  return table.concat(out) .. "\27\\\n"
end

-- The mean colour of the pixels that a smaller picture has one of.
local function mean(bytes, width, top, bottom, left, right)
  local red, green, blue = 0, 0, 0
  for y = top, bottom - 1 do
    for x = left, right - 1 do
      local p = 3 * (y * width + x)
      red, green, blue = red + bytes[p], green + bytes[p + 1], blue + bytes[p + 2]
    end
  end
  local n = (bottom - top) * (right - left)
  return ("%d;%d;%d"):format(red / n + 0.5, green / n + 0.5, blue / n + 0.5)
end

-- A letter shows two pixels: one in the colour of its ink, one in that of its paper.
function encoders.blocks(bytes, height, width, columns)
  local by = math.max(1, width / columns)
  local down, across = math.ceil(height / by), math.ceil(width / by)
  local function pixel(y, x)
    local top, left = math.floor(y * by), math.floor(x * by)
    return mean(bytes, width, top, math.min(height, math.max(top + 1, math.floor((y + 1) * by))),
      left, math.min(width, math.max(left + 1, math.floor((x + 1) * by))))
  end
  local out = {}
  for y = 0, down - 1, 2 do
    local ink, paper
    for x = 0, across - 1 do
      local upper, lower = pixel(y, x), y + 1 < down and pixel(y + 1, x) or "none"
      if upper ~= ink then out[#out + 1] = ("\27[38;2;%sm"):format(upper) end
      if lower ~= paper then
        out[#out + 1] = lower == "none" and "\27[49m" or ("\27[48;2;%sm"):format(lower)
      end
      ink, paper = upper, lower
      out[#out + 1] = "▀"
    end
    out[#out + 1] = "\27[0m\n"
  end
  return table.concat(out)
end

--- Whether there is such a way to draw.
function M.knows(way) return encoders[way] ~= nil end

--- Text that draws a picture where it is written.
---@param way "kitty"|"sixel"|"blocks"
---@param bytes ffi.cdata*  red, green and blue of each pixel
---@param height integer
---@param width integer
---@param columns integer  of the terminal
---@return string
function M.encode(way, bytes, height, width, columns)
  return encoders[way](bytes, height, width, columns)
end

--- What a terminal can draw, by the environment that it sets.
---@param variable fun(name: string): string?
---@return "kitty"|"sixel"|"blocks"
function M.way(variable)
  local term, program = variable "TERM" or "", variable "TERM_PROGRAM" or ""
  if variable "TMUX" or term:find("^screen") then return "blocks" end -- it passes on text alone
  if variable "KITTY_WINDOW_ID" or term:find("kitty", 1, true) or program == "ghostty"
    or program == "WezTerm" then
    return "kitty"
  end
  local has_sixels = term:find "^foot" or term:find "^mlterm" or term:find("sixel", 1, true)
  return has_sixels and "sixel" or "blocks"
end

return M
