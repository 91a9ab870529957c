--- canvas.lua -- an array of pixels, and what is drawn into it.
local ffi = require "ffi"
local font = require "celer.draw.font"

local M = {}

---@class celer.draw.canvas
---@field width integer
---@field height integer
---@field bytes ffi.cdata*  red, green and blue of each pixel, row by row
local Canvas = {}
Canvas.__index = Canvas

--- A white one.
---@return celer.draw.canvas
function M.new(width, height)
  local n = 3 * width * height
  local bytes = ffi.new("uint8_t[?]", n)
  ffi.fill(bytes, n, 255)
  return setmetatable({ width = width, height = height, bytes = bytes }, Canvas)
end

--- Fills a rectangle, as far as it lies inside.
function Canvas:rect(left, top, width, height, red, green, blue)
  for y = math.max(0, top), math.min(self.height, top + height) - 1 do
    for x = math.max(0, left), math.min(self.width, left + width) - 1 do
      local p = self.bytes + 3 * (y * self.width + x)
      p[0], p[1], p[2] = red, green, blue
    end
  end
end

--- A line of `width` pixels; its ends need be no whole numbers.
function Canvas:line(x0, y0, x1, y1, width, red, green, blue)
  local n = math.max(1, math.ceil(math.max(math.abs(x1 - x0), math.abs(y1 - y0))))
  for i = 0, n do
    self:rect(math.floor(x0 + (x1 - x0) * i / n + 0.5), math.floor(y0 + (y1 - y0) * i / n + 0.5),
      width, width, red, green, blue)
  end
end

--- The outline, one pixel wide, around a rectangle.
function Canvas:frame(left, top, width, height)
  self:rect(left - 1, top - 1, width + 2, 1, 0, 0, 0)
  self:rect(left - 1, top + height, width + 2, 1, 0, 0, 0)
  self:rect(left - 1, top, 1, height, 0, 0, 0)
  self:rect(left + width, top, 1, height, 0, 0, 0)
end

--- Black text, each of whose pixels is `size` x `size`: right of (x, y) and below, or, if
--- `upwards`, from there up.
function Canvas:text(x, y, text, size, upwards)
  font.each(text, function(i, j)
    if upwards then i, j = j, -i - 1 end
    self:rect(x + size * i, y + size * j, size, size, 0, 0, 0)
  end)
end

--- Puts a picture there, each of whose pixels becomes n x n.
function Canvas:image(left, top, bytes, height, width, n)
  local row = ffi.new("uint8_t[?]", 3 * width * n)
  for y = 0, height - 1 do
    for x = 0, width - 1 do
      local p = bytes + 3 * (y * width + x)
      for i = 3 * x * n, 3 * (x * n + n - 1), 3 do
        row[i], row[i + 1], row[i + 2] = p[0], p[1], p[2]
      end
    end
    for i = 0, n - 1 do
      ffi.copy(self.bytes + 3 * ((top + y * n + i) * self.width + left), row, 3 * width * n)
    end
  end
end

return M
