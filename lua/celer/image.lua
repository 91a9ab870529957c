--- image.lua -- small two-dimensional data as PNG files.
local core = require "celer.core"
local place = require "celer.place"

local M = {}

-- Blue through white to red for t in [-1, 1].
local function diverging(t)
  t = math.max(-1, math.min(1, t))
  local fade = math.floor(255 * (1 - math.abs(t)) + 0.5)
  if t < 0 then return string.char(fade, fade, 255) end
  return string.char(255, fade, fade)
end

local function gray(t)
  t = math.max(0, math.min(1, t))
  local level = math.floor(255 * t + 0.5)
  return string.char(level, level, level)
end

local colors = { diverging = diverging, gray = gray }

--- Writes a 2-D view or snapshot as a PNG file. Values from options.min to
--- options.max (the data's own by default) span the colours.
---@param path string
---@param data celer.view
---@param options? {min: number?, max: number?, colors: "gray"|"diverging"|nil}
function M.png(path, data, options)
  options = options or {}
  local color = colors[options.colors or "gray"]
  if not color then place.fail("celer.png: colors must be gray or diverging") end
  if data.dims ~= 2 then place.fail("celer.png: the data must have 2 dimensions") end
  local p, stride = data:pointer()
  local height, width = data.max[0] - data.min[0], data.max[1] - data.min[1]
  local low, high = options.min or math.huge, options.max or -math.huge
  if not (options.min and options.max) then
    for y = 0, height - 1 do
      for x = 0, width - 1 do
        local v = tonumber(p[y * stride + x])
        if not options.min and v < low then low = v end
        if not options.max and v > high then high = v end
      end
    end
  end
  local from, span = low, high > low and high - low or 1
  if color == diverging then from, span = (low + high) / 2, span / 2 end
  local pixels, n = {}, 0
  for y = 0, height - 1 do
    for x = 0, width - 1 do
      n = n + 1
      pixels[n] = color((tonumber(p[y * stride + x]) - from) / span)
    end
  end
  place.check(core.png(path, width, height, table.concat(pixels)))
end

return M
