--- snapshot.lua -- data that has left the engine, by value.
local box = require "celer.box"
local buffers = require "celer.buffer"
local core = require "celer.core"
local place = require "celer.place"
local view = require "celer.view"
local words = require "celer.words"

local fail = place.fail

local M = {}

---@class celer.capture
---@field buffer celer.buffer
---@field lo integer[]  three, 0 beyond the buffer's dimensions
---@field hi integer[]  three, 1 beyond them
local Capture = {}
Capture.__index = Capture
Capture.__noun = "capture"

function Capture:__tostring() return "capture of " .. self.buffer.name end

-- Bounds, three of each, of a part of `buffer`; nil is all of it.
local function part_of(buffer, part)
  local lo, hi = { 0, 0, 0 }, { 1, 1, 1 }
  for d = 1, buffer.dims do hi[d] = buffer.size[d - 1] end
  if part == nil then return lo, hi end
  if not box.is_box(part) then
    fail("the part of %s to capture must be a celer.box, not %s", buffer.name,
      words.a(part))
  end
  local min, max = box.bounds(part)
  if #min ~= buffer.dims then
    fail("%s has %d dimensions, the box to capture has %d", buffer.name,
      buffer.dims, #min)
  end
  for d = 1, buffer.dims do
    if min[d] < 0 or max[d] > hi[d] then
      fail("the box %s to capture leaves the buffer %s, which is %s", tostring(part),
        buffer.name, tostring(buffers.whole(buffer)))
    end
    lo[d], hi[d] = min[d], math.max(min[d], max[d])
  end
  return lo, hi
end

--- What q:wait and q:drain take: a buffer, or a box of it.
---@param buffer celer.buffer
---@param part? celer.box
---@return celer.capture
function M.capture(buffer, part)
  buffers.check(buffer, "celer.capture")
  local lo, hi = part_of(buffer, part)
  return setmetatable({ buffer = buffer, lo = lo, hi = hi }, Capture)
end

function M.is_capture(value) return getmetatable(value) == Capture end

--- Raises when the buffer was freed since.
function M.check(capture, call) buffers.check(capture.buffer, call) end

---@class celer.future
local Future = {}
Future.__index = Future
Future.__noun = "future"

function Future:__tostring() return "future of " .. self.capture.buffer.name end

function Future.__capture(_, refuse)
  refuse("a future", "; a task that reads the buffer gets its contents")
end

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
---@return boolean
function Future:ready()
  place.method(self, Future, "future:ready")
  return core.fence_ready(self.handle)
end

--- Waits for the data; the same snapshot each time.
---@return celer.view
function Future:get()
  place.method(self, Future, "future:get")
  if self.snapshot then return self.snapshot end
  local capture = self.capture
  local data = place.check(core.fence_get(self.handle))
  local lo, hi = capture.lo, capture.hi
  local six = { lo[1], lo[2], lo[3], hi[1], hi[2], hi[3] }
  self.snapshot = view.new({ name = "snapshot of " .. capture.buffer.name,
    dims = capture.buffer.dims, type = capture.buffer.type,
    extents = capture.buffer.extents, anchor = self.handle }, data, six, six)
  return self.snapshot
end

return M
