--- frame.lua -- a picture with what stands around it: title, axes, colour bar.
local canvases = require "celer.draw.canvas"
local font = require "celer.draw.font"
local ticks = require "celer.draw.ticks"

local M = {}

local LETTER, LINE = font.WIDTH + 1, 12 -- of a text of size 1
local BAR = 10

---@class celer.draw.frame
---@field size integer  pixels of a pixel of text
---@field left integer  where the picture begins
---@field top integer
---@field width integer  of the whole
---@field height integer
---@field x celer.draw.tick[]
---@field y celer.draw.tick[]
---@field bar celer.draw.tick[]

-- What is around a picture of this size, and how much room it takes.
local function lay_out(width, height, options, low, high)
  local s = width >= 400 and height >= 300 and 2 or 1
  local f = { size = s, x = {}, y = {}, bar = {}, top = (options.title and LINE + 4 or 4) * s }
  local left, below, right = 4, 4, 4
  if options.axes then
    f.x = ticks.between(options.xlim[1], options.xlim[2], math.max(1, width / (48 * s)))
    f.y = ticks.between(options.ylim[1], options.ylim[2], math.max(1, height / (24 * s)))
    left = LETTER * ticks.widest(f.y) + 8
    below = LINE + 6
    right = 3 * LETTER
  end
  if options.ylabel then left = left + LINE end
  if options.xlabel then below = below + LINE end
  if options.colorbar then
    f.bar = ticks.between(low, high, math.max(1, height / (20 * s)))
    f.bar_at = right
    right = right + BAR + 8 + LETTER * ticks.widest(f.bar)
  end
  f.left, f.height = left * s, f.top + height + below * s
  f.width = math.max(f.left + width + right * s,
    options.title and (LETTER * font.count(options.title) + 8) * s or 0)
  return f
end

local function draw_axes(canvas, f, width, height)
  local s, left, bottom = f.size, f.left, f.top + height
  for _, tick in ipairs(f.x) do
    local x = left + math.floor(tick.at * (width - 1) + 0.5)
    canvas:rect(x, bottom + 1, 1, 3 * s, 0, 0, 0)
    canvas:text(x - math.floor(LETTER * s * #tick.text / 2), bottom + 5 * s, tick.text, s)
  end
  for _, tick in ipairs(f.y) do
    local y = f.top + math.floor(tick.at * (height - 1) + 0.5)
    canvas:rect(left - 1 - 3 * s, y, 3 * s, 1, 0, 0, 0)
    canvas:text(left - (5 + LETTER * #tick.text) * s, y - 3 * s, tick.text, s)
  end
end

-- The colours from the greatest number down, with numbers beside them.
local function draw_bar(canvas, f, width, height, shade)
  local s, left = f.size, f.left + width + f.bar_at * f.size
  for y = 0, height - 1 do
    canvas:rect(left, f.top + y, BAR * s, 1, shade(height > 1 and 1 - y / (height - 1) or 0.5))
  end
  canvas:frame(left, f.top, BAR * s, height)
  for _, tick in ipairs(f.bar) do
    local y = f.top + math.floor((1 - tick.at) * (height - 1) + 0.5)
    canvas:rect(left + BAR * s + 1, y, 2 * s, 1, 0, 0, 0)
    canvas:text(left + (BAR + 5) * s, y - 3 * s, tick.text, s)
  end
end

local function draw_texts(canvas, f, width, height, options)
  local s = f.size
  if options.title then canvas:text(4 * s, 4 * s, options.title, s) end
  if options.xlabel then
    local long = LETTER * s * font.count(options.xlabel)
    canvas:text(math.max(0, f.left + math.floor((width - long) / 2)),
      f.height - (LINE - 2) * s, options.xlabel, s)
  end
  if options.ylabel then
    local long = LETTER * s * font.count(options.ylabel)
    canvas:text(2 * s, math.min(f.height, f.top + math.floor((height + long) / 2)),
      options.ylabel, s, true)
  end
end

--- Whether options ask for anything around a picture.
function M.is_wanted(options)
  return options.title or options.axes or options.colorbar or options.xlabel or options.ylabel
end

--- A canvas with a picture, enlarged `options.scale` times, and what options want around it.
---@param bytes ffi.cdata*  red, green and blue
---@param height integer
---@param width integer
---@param options table  as celer.png's; with axes there are xlim and ylim
---@param low number  the number at the beginning of the colours
---@param high number
---@param shade fun(t: number): integer, integer, integer
---@return celer.draw.canvas
function M.around(bytes, height, width, options, low, high, shade)
  local n = options.scale or 1
  local tall, wide = height * n, width * n
  if not M.is_wanted(options) then
    local canvas = canvases.new(wide, tall)
    canvas:image(0, 0, bytes, height, width, n)
    return canvas
  end
  local f = lay_out(wide, tall, options, low, high)
  local canvas = canvases.new(f.width, f.height)
  canvas:image(f.left, f.top, bytes, height, width, n)
  canvas:frame(f.left, f.top, wide, tall)
  draw_axes(canvas, f, wide, tall)
  if options.colorbar then draw_bar(canvas, f, wide, tall, shade) end
  draw_texts(canvas, f, wide, tall, options)
  return canvas
end

return M
