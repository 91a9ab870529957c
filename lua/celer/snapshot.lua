--- snapshot.lua -- data that has left the engine, by value.
local core = require "celer.core"
local place = require "celer.place"
local view = require "celer.view"
local box = require "celer.box"

local M = {}

---@class celer.capture
---@field buffer celer.buffer
---@field box celer.box
local Capture = {}
Capture.__index = Capture

-- Six numbers, min then max, of a part of `buffer`; nil is all of it.
local function part_of(buffer, part)
  local lo, hi = { 0, 0, 0 }, { 1, 1, 1 }
  for d = 1, buffer.dims do hi[d] = buffer.size[d - 1] end
  if part == nil then return lo, hi end
  if not box.is_box(part) then
    place.fail("the part of %s to capture must be a celer.box", buffer.name)
  end
  local min, max = box.bounds(part)
  if #min ~= buffer.dims then
    place.fail("%s has %d dimensions, the box to capture has %d", buffer.name,
      buffer.dims, #min)
  end
  for d = 1, buffer.dims do
    if min[d] < 0 or max[d] > hi[d] then
      place.fail("the box %s leaves the buffer %s", tostring(part), buffer.name)
    end
    lo[d], hi[d] = min[d], max[d]
  end
  return lo, hi
end

--- What q:wait and q:drain take: a buffer, or a box of it.
---@return celer.capture
function M.capture(buffer, part)
  if not require("celer.buffer").is_buffer(buffer) then
    place.fail("celer.capture: the first argument must be a buffer")
  end
  local lo, hi = part_of(buffer, part)
  return setmetatable({ buffer = buffer, lo = lo, hi = hi }, Capture)
end

function M.is_capture(value) return getmetatable(value) == Capture end

---@class celer.future
local Future = {}
Future.__index = Future

--- Asks for a copy of what the capture names, as of now in program order.
---@param capture celer.capture
---@return celer.future
function M.request(capture)
  local lo, hi = capture.lo, capture.hi
  local file, line = place.user()
  local handle = place.check(core.fence(capture.buffer.handle, lo[1], lo[2],
    lo[3], hi[1], hi[2], hi[3], file, line))
  return setmetatable({ handle = handle, capture = capture }, Future)
end

--- Whether get would return at once.
function Future:ready() return core.fence_ready(self.handle) end

--- Waits for the data; the same snapshot each time.
---@return celer.view
function Future:get()
  if self.snapshot then return self.snapshot end
  local capture = self.capture
  local data = place.check(core.fence_get(self.handle))
  local lo, hi = capture.lo, capture.hi
  local six = { lo[1], lo[2], lo[3], hi[1], hi[2], hi[3] }
  self.snapshot = view.new({ name = "snapshot of " .. capture.buffer.name,
    dims = capture.buffer.dims, type = capture.buffer.type,
    anchor = self.handle }, data, six, six)
  return self.snapshot
end

return M
