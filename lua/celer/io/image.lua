--- image.lua -- numbers as PNG files.
local ffi = require "ffi"
local core = require "celer.core"
local frame = require "celer.draw.frame"
local grid = require "celer.draw.grid"
local palette = require "celer.io.palette"
local place = require "celer.place"
local posix = require "celer.io.posix"
local view = require "celer.data.view"
local words = require "celer.words"

local M = {}

local MOST = 2 ^ 26 -- points

--- How celer.png and celer.io.save of a picture may be told to draw.
M.options = { min = true, max = true, colors = true, field = true, plane = true, project = true,
  scale = true, title = true, axes = true, colorbar = true, xlim = true, ylim = true,
  xlabel = true, ylabel = true }

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

-- What an option must be.
local kinds = { min = "number", max = "number", title = "string", xlabel = "string",
  ylabel = "string", axes = "boolean", colorbar = "boolean" }

local function limits_fault(name, limits)
  if limits == nil then return end
  local a, b
  if type(limits) == "table" then a, b = limits[1], limits[2] end
  if type(a) ~= "number" or type(b) ~= "number" or a - b == 0 or a - b ~= a - b then
    return ("%s must be two different numbers such as { 0, 1 }"):format(name)
  end
end

--- Why options for drawing so many points are none.
---@param points integer
---@param in_color boolean
function M.options_fault(options, points, in_color)
  local _, fault = palette.find(options.colors)
  if fault then return fault end
  for _, name in ipairs { "min", "max", "title", "xlabel", "ylabel", "axes", "colorbar" } do
    local x, kind = options[name], kinds[name]
    if x ~= nil and type(x) ~= kind then
      return ("%s must be a %s, not %s"):format(name, kind, words.a(x))
    end
  end
  local n = options.scale
  if n ~= nil and (type(n) ~= "number" or n % 1 ~= 0 or n < 1) then
    return ("scale must be a whole number from 1 on, not %s"):format(type(n) == "number"
      and tostring(n) or words.a(n))
  elseif n and points * n * n > MOST then
    return ("a picture %d times as large has more than 2^26 points"):format(n)
  elseif in_color and options.colorbar then
    return "what holds colours itself has no colour bar"
  end
  return limits_fault("xlim", options.xlim) or limits_fault("ylim", options.ylim)
end

--- What is drawn of elements of this type, with all options: nil is all; or nil and why it
--- cannot be.
---@param name string
---@param part {min: table, max: table, size: table}
---@return celer.draw.chosen? chosen, string? fault
function M.choose(name, type_, dims, part, options)
  local chosen, fault = grid.choose(type_, dims, part, options)
  local size = part.size
  if chosen then
    local down, across = grid.shown(chosen.dim)
    fault = M.shape_fault({ class = "f" }, 2, { [0] = size[down], size[across] })
    if not fault and chosen.dim and size[chosen.dim] < 1 then fault = "has no point to draw" end
    size = { [0] = size[down], size[across] }
  elseif not fault then
    fault = M.shape_fault(type_, dims, size)
  end
  if fault then return nil, name .. " " .. fault end
  return chosen, M.options_fault(options, size[0] * size[1], not chosen and dims == 3)
end

--- Options whose axes have their numbers: those of the elements, unless the user gave some.
function M.with_limits(options, part, dim)
  local out = {}
  for name in pairs(M.options) do out[name] = options[name] end
  local down, across = grid.shown(dim)
  out.xlim = out.xlim or { part.min[across], part.max[across] }
  out.ylim = out.ylim or { part.min[down], part.max[down] }
  return out
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
  local chosen, fault = M.choose(data.name, data.type, data.dims, data, options)
  if fault then place.fail("celer.png: %s", fault) end
  return chosen
end

-- The least number, and how far the greatest is from it.
local function span_of(each, in_color, options)
  local low, high = options.min, options.max
  if in_color then
    low, high = low or 0, high or 255
  elseif not low or not high then
    local least, most = math.huge, -math.huge
    each(function(v)
      v = tonumber(v)
      if v - v == 0 then least, most = math.min(least, v), math.max(most, v) end
    end)
    low, high = low or least, high or most
  end
  return low, high > low and high - low or 1
end

-- Calls a function for each number of a picture; its height and width.
local function numbers_of(data, chosen)
  if not chosen then
    return function(f) view.each(data, f) end, data.size[0], data.size[1]
  end
  local values, height, width = grid.values(data, chosen)
  return function(f)
    for i = 0, height * width - 1 do f(values[i]) end
  end, height, width
end

--- What celer.png draws, of options that are known to be right.
---@param data celer.view
---@param options table
---@param chosen celer.draw.chosen?
---@return ffi.cdata* bytes, integer height, integer width  red, green and blue of each pixel
function M.pixels(data, options, chosen)
  local each, height, width = numbers_of(data, chosen)
  local in_color = not chosen and data.dims == 3
  local low, span = span_of(each, in_color, options)
  local shade = palette.shades(assert(palette.find(options.colors)))
  local bytes, n = ffi.new("uint8_t[?]", 3 * width * height), 0
  each(function(v)
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
  if (options.scale or 1) > 1 or frame.is_wanted(options) then
    local canvas = frame.around(bytes, height, width, options, low, low + span, shade)
    return canvas.bytes, canvas.height, canvas.width
  end
  return bytes, height, width
end

--- Writes them as a PNG file.
function M.write(path, data, options, chosen)
  local bytes, height, width = M.pixels(data, options, chosen)
  place.check(posix.make_folders_for(path))
  place.check(core.png(path, width, height, ffi.string(bytes, 3 * width * height)))
end

---@class celer.picture
---@field min number?  the numbers at the ends of the colours; the data's own by default
---@field max number?
---@field colors celer.colors?
---@field field string?  of a struct: "v.x", "v[0]"
---@field plane {dim: integer, at: integer}?  of 3 dimensions: where one has this coordinate
---@field project {dim: integer, by: "max"|"mean"|"sum"}?  of 3 dimensions: all along one
---@field scale integer?  each point is so many pixels wide and high
---@field title string?
---@field axes boolean?
---@field colorbar boolean?
---@field xlim number[]?  the numbers at the ends of the axes; coordinates by default
---@field ylim number[]?
---@field xlabel string?
---@field ylabel string?

--- Writes a view or snapshot of 2 dimensions as a PNG file: numbers from
--- options.min to options.max (the data's own by default) span the colours, and
--- what is none (NaN) is dark gray. Of 3 dimensions, the last is red, green and
--- blue from 0 to 255, or from min to max; or options say what is drawn, by a plane or a
--- projection. Folders that are missing are made.
---@param path string
---@param data celer.view
---@param options? celer.picture
function M.png(path, data, options)
  options = options == nil and {} or options
  local chosen = check(path, data, options)
  M.write(path, data, M.with_limits(options, data, chosen and chosen.dim), chosen)
end

return M
