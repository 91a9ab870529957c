--- space.lua -- index spaces: what the range that a user gave comes to.
---
--- A loop gives the same range in each step, as a table made anew: what has been
--- checked once is found by its numbers.
local box = require "celer.box"
local extents = require "celer.extents"
local fail = require("celer.place").fail
local range_t = require("celer.structs").range

local M = {}

local MOST = 256

---@class celer.space
---@field dims integer
---@field hi integer[]  the upper corner, from 1
---@field empty boolean
---@field core ffi.cdata*  as the core takes it
---@field box celer.box  the same object for the same bounds, while it is remembered

local known, count = {}, 0 -- first extent -> array of spaces that begin at zero

local function make(dims, lo, hi, empty)
  return { dims = dims, hi = hi, empty = empty,
    core = range_t(dims, lo[1] or 0, lo[2] or 0, lo[3] or 0, hi[1] or 1, hi[2] or 1, hi[3] or 1),
    box = box.make(dims, lo[1], lo[2], lo[3], hi[1], hi[2], hi[3]) }
end

local size = {} -- of the box at hand

-- A box with an offset.
local function of_box(range, what)
  local lo, hi = box.bounds(range)
  local empty = false
  size[1], size[2], size[3] = nil, nil, nil
  for d = 1, #lo do
    size[d] = math.max(hi[d] - lo[d], 0)
    empty = empty or size[d] == 0
    if lo[d] < -2 ^ 53 or hi[d] > 2 ^ 53 then
      fail("%s %s is too large", what, tostring(range))
    end
  end
  extents.read(size, what)
  return make(#lo, lo, hi, empty)
end

local function find(a, b, c)
  local list = known[a]
  for i = 1, list and #list or 0 do
    local space = list[i]
    local hi = space.hi
    if hi[2] == b and hi[3] == c then return space end
  end
end

local function remember(space)
  if count == MOST then known, count = {}, 0 end
  local first = space.hi[1]
  known[first] = known[first] or {}
  table.insert(known[first], space)
  count = count + 1
  return space
end

--- That of a task which has no range, and lies at one place.
M.none = make(0, {}, {}, false)

--- The index space of a range: {n, m}, n, or a box.
---@param range integer[]|integer|celer.box
---@param call string  begins messages
---@return celer.space
function M.of(range, call)
  if box.is_box(range) then return of_box(range, call .. ": the range") end
  local a, b, c = range, nil, nil
  if type(range) == "table" and not getmetatable(range) then
    a, b, c = range[1], range[2], range[3]
    local last = c and 3 or b and 2 or a and 1 or nil
    if next(range, last) ~= nil then a = nil end -- has something else, too
  end
  local space = type(a) == "number" and find(a, b, c)
  if space then return space end
  local dims, hi = extents.read(range, call .. ": the range")
  space = make(dims, { 0, 0, 0 }, hi, dims > 0 and math.min(unpack(hi)) == 0)
  return dims > 0 and remember(space) or space
end

return M
