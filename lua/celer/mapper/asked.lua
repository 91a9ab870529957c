--- asked.lua -- a range mapper asked about a chunk of plain numbers, and what it
--- returns.
local box = require "celer.box"
local closure = require "celer.mapper.closure"
local families = require "celer.mapper.boxes"
local place = require "celer.place"
local symbol = require "celer.symbol"
local words = require "celer.words"

jit.off(true, true) -- see trace.lua

local M = {}

local MOST_BOXES = require("celer.core").facts.limit.rule_boxes

function M.shape_of(extent)
  local size = extent.size
  local n = extent.dims
  return box.shape(n, n > 0 and size[0], n > 1 and size[1], n > 2 and size[2])
end

--- The chunk [lo, hi), arrays from 1, of a range.
function M.chunk_of(range, lo, hi)
  local n, size = range.dims, range.size
  return box.chunk(n, lo[1], lo[2], lo[3], hi[1], hi[2], hi[3], n > 0 and size[0],
    n > 1 and size[1], n > 2 and size[2])
end

local function check_box(value, dims)
  if not box.is_box(value) then
    place.fail("a range mapper must return a celer.box, or several; this one "
      .. "returned %s", type(value) == "nil" and "nothing" or "a " .. type(value))
  elseif value.dims ~= dims then
    place.fail("the range mapper returned a box of %s for a buffer of %d",
      words.count(value.dims, "dimension"), dims)
  end
  return value
end

local function check_count(n)
  if n <= MOST_BOXES then return end
  place.fail("the range mapper returned %d boxes; %d are the most: join those that lie "
    .. "side by side; what is only read may also be promised by a box around several, "
    .. "which moves more and is as right; a box for each index is celer.boxes", n, MOST_BOXES)
end

local function is_list(value)
  return type(value) == "table" and not box.is_box(value) and not families.is_family(value)
    and value[1] ~= nil
end

local function append(out, value, dims)
  out[#out + 1] = families.is_family(value) and value or check_box(value, dims)
end

--- What a mapper returned, one by one: boxes, and what celer.boxes gave; or tables of them.
---@return (celer.box|celer.family)[]
function M.parts(dims, ...)
  local out, given = {}, { ... }
  for k = 1, math.max(#given, 1) do
    local value = given[k]
    for i = 1, is_list(value) and #value or 0 do append(out, value[i], dims) end
    if not is_list(value) then append(out, value, dims) end
  end
  return out
end

--- The same of a symbolic chunk: boxes, and for each 0, or 1 more than the dimension of the
--- chunk along which it is one for each index.
---@return celer.box[] boxes, integer[] each
function M.symbolic_boxes(dims, ...)
  local boxes, each = {}, {}
  for _, part in ipairs(M.parts(dims, ...)) do
    local is_family = families.is_family(part)
    if is_family and not part.symbolic then symbol.refuse "it keeps a chunk" end
    for _, one in ipairs(is_family and part.symbolic or { part }) do
      boxes[#boxes + 1] = check_box(one, dims)
      each[#boxes] = is_family and part.dim + 1 or 0
    end
  end
  check_count(#boxes)
  return boxes, each
end

local kept_bounds = "the range mapper keeps bounds of its chunk from one call to the next; it "
  .. "must be a pure function"

-- Appends the boxes of each index. `reason`: why there is no closed form, which would need
-- none of them here.
local function expand(family, dims, boxes, reason)
  if family.symbolic then place.fail(kept_bounds) end
  for i = family.lo, family.hi - 1 do
    local some = family:at(i)
    local n = #boxes + #some * (family.hi - i)
    if n > MOST_BOXES then
      place.fail("celer.boxes gives %d boxes here, and %d are the most of a range mapper that "
        .. "has no closed form%s", n, MOST_BOXES, reason and (" (%s)"):format(reason) or "")
    end
    for _, one in ipairs(some) do boxes[#boxes + 1] = check_box(one, dims) end
  end
end

local function check_whole(boxes)
  for _, b in ipairs(boxes) do
    for d = 0, b.dims - 1 do
      if symbol.is_symbol(b.min[d]) or symbol.is_symbol(b.max[d]) then
        place.fail(kept_bounds)
      elseif not closure.is_whole(b.min[d]) or not closure.is_whole(b.max[d]) then
        place.fail("the range mapper returned the box %s, whose bounds are not "
          .. "whole numbers; celer.floor(x) rounds", tostring(b))
      end
    end
  end
  return boxes
end

-- What pcall of f gave. A function of Lua's own that f ended with, as in `return
-- unpack(boxes)`, says no line: where f is says enough.
local function results(f, ok, ...)
  if ok then return ... end
  local message = ...
  if type(message) == "string" and not message:find "^[^\n:]+:%d+: " then
    local info = debug.getinfo(f, "S")
    message = ("%s:%d: %s"):format(info.source:match "^[@=](.*)" or info.short_src,
      info.linedefined, message)
  end
  error(message, 0)
end

--- What the mapper returns for a chunk of plain numbers, part by part.
function M.ask(f, chunk, shape, dims) return M.parts(dims, results(f, pcall(f, chunk, shape))) end

--- The mapper's boxes for a chunk of plain numbers, as it returned them.
---@param reason? string  why it has no closed form
function M.call(f, chunk, shape, dims, reason)
  local boxes = {}
  for _, part in ipairs(M.ask(f, chunk, shape, dims)) do
    if families.is_family(part) then
      expand(part, dims, boxes, reason)
    else
      boxes[#boxes + 1] = part
    end
  end
  check_count(#boxes)
  return check_whole(boxes)
end

function M.is_empty(b)
  for d = 0, b.dims - 1 do
    if b.min[d] >= b.max[d] then return true end
  end
  return false
end

local function clip(b, extent, chunk)
  local lo, hi = {}, {}
  for d = 0, b.dims - 1 do
    local leaves = b.min[d] < extent.min[d] or b.max[d] > extent.max[d]
    if leaves and not b.clamp then
      place.fail("the range mapper gives the box %s for the chunk %s, which leaves "
        .. "the buffer %s; clamp it to the buffer or shrink the task's range",
        tostring(b), tostring(chunk), tostring(extent))
    end
    lo[d + 1] = math.max(b.min[d], extent.min[d])
    hi[d + 1] = math.min(b.max[d], extent.max[d])
    if lo[d + 1] >= hi[d + 1] then return nil end
  end
  return box.new(lo, hi)
end

--- Calls a mapper for one chunk: its boxes, cut to the buffer, without empty
--- ones. Raises where one leaves the buffer that may not.
---@param f function
---@param chunk celer.box
---@param range celer.box
---@param extent celer.box
---@param reason? string  why it has no closed form
---@return celer.box[]
function M.evaluate(f, chunk, range, extent, reason)
  local lo, hi = box.bounds(chunk)
  local whole = M.chunk_of(range, lo, hi)
  local out = {}
  for _, b in ipairs(M.call(f, whole, M.shape_of(extent), extent.dims, reason)) do
    out[#out + 1] = not M.is_empty(b) and clip(b, extent, chunk) or nil
  end
  return out
end

return M
