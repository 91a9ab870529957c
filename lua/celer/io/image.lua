--- image.lua -- numbers as PNG files.
local ffi = require "ffi"
local core = require "celer.core"
local palette = require "celer.io.palette"
local place = require "celer.place"
local posix = require "celer.io.posix"
local view = require "celer.data.view"
local words = require "celer.words"

local M = {}

local MOST = 2 ^ 26 -- points

--- How celer.png and celer.io.save of a picture may be told to draw.
M.options = { min = true, max = true, colors = true }

--- Why numbers of this type in so many dimensions, of these sizes from [0] on, are
--- no picture.
function M.shape_fault(type_, dims, size)
  if not ("iuf"):find(type_.class) then return "does not hold numbers" end
  if dims ~= 2 and not (dims == 3 and size[2] == 3) then
    return "has neither 2 dimensions, nor 3 with red, green and blue in the last"
  end
  if size[0] < 1 or size[1] < 1 then return "has no point to draw" end
  if size[0] * size[1] > MOST then
    return ("has %d x %d points, more than 2^26; draw a part of it"):format(size[0], size[1])
  end
end

--- Why options for drawing are none.
function M.options_fault(options)
  local _, fault = palette.find(options.colors)
  if fault then return fault end
  for _, name in ipairs { "min", "max" } do
    local x = options[name]
    if x ~= nil and type(x) ~= "number" then
      return ("%s must be a number, not %s"):format(name, words.a(x))
    end
  end
end

local function check(path, data, options)
  if type(path) ~= "string" then
    place.fail("celer.png: the first argument must be a file name, not %s",
      words.a(path))
  elseif getmetatable(data) ~= view.View then
    place.fail("celer.png: the second argument must be a snapshot or what a host "
      .. "task got for an access, not %s", words.a(data))
  end
  words.check_options("celer.png", options, M.options)
  local fault = M.shape_fault(data.type, data.dims, data.size)
  if fault then place.fail("celer.png: %s %s", data.name, fault) end
  fault = M.options_fault(options)
  if fault then place.fail("celer.png: %s", fault) end
end

-- The least number, and how far the greatest is from it.
local function span_of(data, options)
  local low, high = options.min, options.max
  if data.dims == 3 then
    low, high = low or 0, high or 255
  elseif not low or not high then
    local least, most = math.huge, -math.huge
    view.each(data, function(v)
      v = tonumber(v)
      if v - v == 0 then least, most = math.min(least, v), math.max(most, v) end
    end)
    low, high = low or least, high or most
  end
  return low, high > low and high - low or 1
end

--- Writes a view or snapshot of 2 dimensions as a PNG file: numbers from
--- options.min to options.max (the data's own by default) span the colours, and
--- what is none (NaN) is dark gray. Of 3 dimensions, the last is red, green and
--- blue from 0 to 255, or from min to max. Folders that are missing are made.
---@param path string
---@param data celer.view
---@param options? {min: number?, max: number?, colors: celer.colors?}
function M.png(path, data, options)
  options = options == nil and {} or options
  check(path, data, options)
  local low, span = span_of(data, options)
  local shade = palette.shades(assert(palette.find(options.colors)))
  local in_color = data.dims == 3
  local bytes, n = ffi.new("uint8_t[?]", 3 * data.size[0] * data.size[1]), 0
  view.each(data, function(v)
    local t = (tonumber(v) - low) / span
    if t == t then t = math.max(0, math.min(1, t)) end
    if in_color then
      bytes[n] = t == t and math.floor(255 * t + 0.5) or 0
      n = n + 1
    else
      bytes[n], bytes[n + 1], bytes[n + 2] = shade(t)
      n = n + 3
    end
  end)
  place.check(posix.make_folders_for(path))
  place.check(core.png(path, data.size[1], data.size[0], ffi.string(bytes, n)))
end

return M
