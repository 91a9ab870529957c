--- svg.lua -- an SVG file, drawn into as into a canvas.
local font = require "celer.draw.font"

local M = {}

---@class celer.draw.svg
local Svg = {}
Svg.__index = Svg

---@return celer.draw.svg
function M.new(width, height)
  local head = ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">'):format(width,
    height)
  return setmetatable({ head, '<rect width="100%" height="100%" fill="#fff"/>' }, Svg)
end

function Svg:line(x0, y0, x1, y1, width, red, green, blue)
  self[#self + 1] = ('<path d="M%.7g %.7gL%.7g %.7g" stroke="#%02x%02x%02x" stroke-width="%d" '
    .. 'stroke-linecap="round"/>'):format(x0, y0, x1, y1, red, green, blue, width)
end

local escapes = { ["<"] = "&lt;", [">"] = "&gt;", ["&"] = "&amp;" }

function Svg:text(x, y, text, size, upwards)
  local turn = upwards and ("rotate(-90)") or "rotate(0)"
  self[#self + 1] = ('<text transform="translate(%d %d) %s" y="%d" font-family="monospace" '
    .. 'font-size="%d" textLength="%d">%s</text>'):format(x, y, turn, font.HEIGHT * size,
    10 * size, (font.WIDTH + 1) * size * font.count(text), (text:gsub("[<>&]", escapes)))
end

--- The file's text.
function Svg:finish() return table.concat(self, "\n") .. "\n</svg>\n" end

return M
