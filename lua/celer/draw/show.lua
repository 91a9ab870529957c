--- show.lua -- celer.show: a buffer as a picture in the terminal.
local buffers = require "celer.data.buffer"
local celer = require "celer"
local core = require "celer.core"
local captures = require "celer.data.snapshot"
local default = require "celer.submit.default"
local ffi = require "ffi"
local grid = require "celer.draw.grid"
local image = require "celer.io.image"
local place = require "celer.place"
local terminal = require "celer.draw.terminal"
local view = require "celer.data.view"
local words = require "celer.words"

local M = {}

-- Renamed, so that a script may declare these functions as it likes.
ffi.cdef [[
int celer_isatty(int fd) __asm__("isatty");
int celer_ioctl(int fd, unsigned long request, ...) __asm__("ioctl");
]]
local STDOUT, WINDOW_SIZE = 1, 0x5413
local COLUMNS = 80 -- where there is no terminal that could say
local PIXELS = 320 -- a picture that is smaller is enlarged

local function columns_of_terminal()
  local size = ffi.new("unsigned short[4]")
  local failed = ffi.C.celer_ioctl(STDOUT, ffi.cast("unsigned long", WINDOW_SIZE), size) ~= 0
  return not failed and size[1] > 0 and size[1] or COLUMNS
end

local known = { as = true }
for name in pairs(image.options) do known[name] = true end

-- Which elements there are to show.
local function shape_of(data)
  if getmetatable(data) == view.View then return data end
  if buffers.is_buffer(data) then
    return { min = { [0] = 0, 0, 0 }, max = data.size, size = data.size }
  end
  place.fail("celer.show: the first argument must be a buffer or a snapshot, not %s",
    words.a(data))
end

-- All of a buffer on rank 0, and nothing on others.
local function for_rank_0(buffer)
  local dims, a, b, c = buffer.dims, unpack(buffer.extents)
  return default.wait(captures.capture(buffer, function(rank)
    local here = celer.max(0, 1 - rank)
    if dims == 2 then return celer.box({ 0, 0 }, { a * here, b }) end
    return celer.box({ 0, 0, 0 }, { a * here, b, c })
  end, { dry = 0 })):here()
end

--- How to draw in the terminal; nil on other ranks, and where there is none and nothing is asked
--- for.
---@param call string  begins messages
---@param as? any  the user's
---@return celer.shown_as?
function M.way(call, as)
  if as ~= nil and not terminal.knows(as) then
    place.fail('%s: as must be "kitty", "sixel" or "blocks", not %s', call,
      type(as) == "string" and ("%q"):format(as) or words.a(as))
  end
  if core.rank() ~= 0 or not as and ffi.C.celer_isatty(STDOUT) == 0 then return nil end
  return as or terminal.way(os.getenv)
end

--- Draws pixels where the script writes.
---@param way celer.shown_as
---@param bytes ffi.cdata*  red, green and blue of each pixel
---@param height integer
---@param width integer
function M.write(way, bytes, height, width)
  io.stdout:write(terminal.encode(way, bytes, height, width, columns_of_terminal()))
  io.stdout:flush()
end

---@alias celer.shown_as "kitty"|"sixel"|"blocks"

---@class celer.shown: celer.picture
---@field as celer.shown_as?  how; what the terminal can by default

--- Shows a buffer, as it is after all tasks before, or a snapshot as a picture in the terminal,
--- with the options of celer.png: by kitty's protocol, as sixels, or in coloured half blocks.
--- Where the output is no terminal it shows nothing, unless `as` says how. Rank 0 writes, and it
--- alone gets the elements.
---@param data celer.buffer|celer.view
---@param options? celer.shown
function M.show(data, options)
  options = options == nil and {} or options
  words.check_options("celer.show", options, known)
  local way = M.way("celer.show", options.as)
  local shape = shape_of(data)
  local chosen, fault = image.choose(data.name, data.type, data.dims, shape, options)
  if fault then place.fail("celer.show: %s", fault) end
  local snapshot = shape == data and data or for_rank_0(data)
  if not way then return end
  local drawn = image.with_limits(options, snapshot, chosen and chosen.dim)
  if way ~= "blocks" and not drawn.scale then
    local down, across = grid.shown(chosen and chosen.dim)
    local most = math.max(snapshot.size[down], snapshot.size[across])
    drawn.scale = math.max(1, math.floor(PIXELS / most))
  end
  M.write(way, image.pixels(snapshot, drawn, chosen))
end

return M
