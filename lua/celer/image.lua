--- image.lua -- small two-dimensional data as PNG files.
local ffi = require "ffi"
local core = require "celer.core"
local place = require "celer.place"
local view = require "celer.view"
local words = require "celer.words"

local M = {}

local MOST = 2 ^ 26 -- points

local function level(t) return math.floor(255 * t + 0.5) end

-- Red, green and blue of t in [0, 1]: blue through white to red.
local function diverging(t)
  local fade = level(1 - math.abs(2 * t - 1))
  if t < 0.5 then return fade, fade, 255 end
  return 255, fade, fade
end

local function gray(t) return level(t), level(t), level(t) end

local colors = { diverging = diverging, gray = gray }

local function check(path, data, options)
  if type(path) ~= "string" then
    place.fail("celer.png: the first argument must be a file name, not %s",
      words.a(path))
  elseif getmetatable(data) ~= view.View then
    place.fail("celer.png: the second argument must be a snapshot or what a host "
      .. "task got for an access, not %s", words.a(data))
  elseif data.dims ~= 2 or not ("iuf"):find(data.type.class) then
    place.fail("celer.png: %s must have 2 dimensions and hold numbers", data.name)
  elseif data.size[0] < 1 or data.size[1] < 1 then
    place.fail("celer.png: %s is empty", data.name)
  elseif data.size[0] * data.size[1] > MOST then
    place.fail("celer.png: %s has %d x %d points, more than 2^26; draw a part of it",
      data.name, data.size[0], data.size[1])
  elseif type(options) ~= "table" or not colors[options.colors or "gray"] then
    place.fail("celer.png: colors must be gray or diverging")
  end
  for _, name in ipairs { "min", "max" } do
    if options[name] ~= nil and type(options[name]) ~= "number" then
      place.fail("celer.png: %s must be a number, not %s", name,
        words.a(options[name]))
    end
  end
end

-- Calls f(v) row by row; a number that is none counts as 0.
local function each(data, f)
  local p, stride = data:pointer()
  for y = 0, data.size[0] - 1 do
    for x = 0, data.size[1] - 1 do
      local v = tonumber(p[y * stride + x])
      f(v == v and v or 0)
    end
  end
end

local function span_of(data, options)
  local low, high = math.huge, -math.huge
  each(data, function(v) low, high = math.min(low, v), math.max(high, v) end)
  low, high = options.min or low, options.max or high
  return low, high > low and high - low or 1
end

--- Writes a 2-D view or snapshot as a PNG file. Values from options.min to
--- options.max (the data's own by default) span the colours.
---@param path string
---@param data celer.view
---@param options? {min: number?, max: number?, colors: "gray"|"diverging"|nil}
function M.png(path, data, options)
  options = options == nil and {} or options
  check(path, data, options)
  local color = colors[options.colors or "gray"]
  local low, span = span_of(data, options)
  local bytes, n = ffi.new("uint8_t[?]", 3 * data.size[0] * data.size[1]), 0
  each(data, function(v)
    local t = math.max(0, math.min(1, (v - low) / span))
    bytes[n], bytes[n + 1], bytes[n + 2] = color(t)
    n = n + 3
  end)
  place.check(core.png(path, data.size[1], data.size[0], ffi.string(bytes, n)))
end

return M
