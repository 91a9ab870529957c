--- exact.lua -- what an image comes to for each chunk, for `celer check`.
---
--- There the task declares these very rows in the place of all that its rank gets, so that
--- what it reads beside them is found like any other mistake. The script waits for the index.
local box = require "celer.box"
local lane = require "celer.host.image"
local opaque = require "celer.mapper.opaque"
local snapshot = require "celer.data.snapshot"

local M = {}

local snapshots = setmetatable({}, { __mode = "k" }) -- by index

-- The index's elements, as of so many changes.
local function elements(index, changes)
  local known = snapshots[index]
  if not known or known.changes ~= changes then
    local future = snapshot.request { snapshot.as_capture(index, "celer.image", 1) }
    future.unadvised = true
    known = { changes = changes, get = future:get() }
    snapshots[index] = known
  end
  return known.get
end

-- Calls f for the coordinates of each entry in a box, cut off at the index: the first one alone
-- of what says ranges.
local function each_entry(image, part, f)
  local index, at = image.index, {}
  local dims = image.kind == "elements" and index.dims or 1
  local function go(d)
    if d == dims then return f(at) end
    local last = math.min(part.max[d], index.size[d]) - (image.kind == "offsets" and 2 or 1)
    for i = math.max(part.min[d], 0), last do
      at[d + 1] = i
      go(d + 1)
    end
  end
  go(0)
end

-- The rows that a chunk names, as a set.
local function rows_of(image, chunk, changes)
  local out, get = {}, elements(image.index, changes(image.index))
  local level = { kind = image.kind, reach = image.reach, extents = image.index.extents }
  local function name(at)
    lane.each_rows(level, get, at, function(first, last)
      for row = first, last do out[row] = true end
    end)
  end
  if not image.through then
    each_entry(image, image.entries(chunk, image.index), name)
    return out
  end
  local inner = rows_of(image.through, chunk, changes)
  for row in pairs(inner) do
    if image.kind ~= "offsets" or inner[row + 1] then name { row } end
  end
  return out
end

local MOST_BOXES = require("celer.core").facts.limit.rule_boxes

-- How far apart sorted rows must be for a box to end between them: the least with which there are
-- few boxes, whichever of the rows are left out. So what a chunk gets has all that its parts get.
-- Rows between those that are joined go unchecked then.
local function gap_between(list, most)
  local function boxes_at_most(gap)
    local n, last = 0, -math.huge
    for _, row in ipairs(list) do
      if row - last > gap then n, last = n + 1, row end
    end
    return n
  end
  local low, high = 1, #list > 1 and list[#list] - list[1] or 1
  while low < high do
    local gap = math.floor((low + high) / 2)
    if boxes_at_most(gap) > most then low = gap + 1 else high = gap end
  end
  return low
end

-- Boxes of the rows that a buffer has.
local function boxes_of(rows, buffer, most)
  local list, boxes = {}, {}
  for row in pairs(rows) do
    if row >= 0 and row < buffer.size[0] then list[#list + 1] = row end
  end
  table.sort(list)
  local all, gap = box.whole(buffer), gap_between(list, most)
  for i, row in ipairs(list) do
    local last = boxes[#boxes]
    if last and row - list[i - 1] <= gap then
      boxes[#boxes] = all:with(0, last.min[0], row + 1)
    else
      boxes[#boxes + 1] = all:with(0, row, row + 1)
    end
  end
  if #boxes == 0 then boxes[1] = all:with(0, 0, 0) end
  return boxes
end

--- The mapper of exactly these rows.
---@param image celer.image
---@param changes fun(buffer: celer.buffer): integer
---@return celer.range_mapper
function M.mapper(image, changes)
  local function map(chunk, buffer)
    return boxes_of(rows_of(image, chunk, changes), buffer, image.boxes or MOST_BOXES)
  end
  opaque.own[map] = true
  return map
end

--- Waits for all indices of an image; a range mapper must not.
---@param image celer.image
---@param changes fun(buffer: celer.buffer): integer
function M.fetch(image, changes)
  elements(image.index, changes(image.index))
  if image.through then M.fetch(image.through, changes) end
end

return M
