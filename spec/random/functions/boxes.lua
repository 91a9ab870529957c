--- boxes.lua -- what a function touches, against what was derived of it.
local arrays = require "arrays"
local box = require "celer.box"
local mappers = require "celer.kernel.from_lua.mappers"

local M = {}

local CHUNKS = 4

local function random_chunk(extents)
  local low, high = {}, {}
  for d, n in ipairs(extents) do
    low[d] = math.random(0, n - 1)
    high[d] = math.random(low[d] + 1, n)
  end
  return box.new(low, high), low, high
end

-- Calls f for each point of a box, with its number in an array of these extents.
local function each(extents, low, high, f)
  local function go(d, k)
    if d > #extents then return f(k) end
    for i = low[d], high[d] - 1 do go(d + 1, k * extents[d] + i) end
  end
  go(1, 0)
end

-- The elements that the items of a chunk touch.
local function touched(by_item, extents, low, high)
  local out = {}
  each(extents, low, high, function(item)
    for k in pairs(by_item[item] or {}) do out[k] = true end
  end)
  return out
end

-- The elements of boxes, which a chunk's mapper gives.
local function covered(list, extents)
  local out = {}
  for _, one in ipairs(list) do
    local low, high = {}, {}
    for d, n in ipairs(extents) do
      low[d], high[d] = math.max(one.min[d - 1], 0), math.min(one.max[d - 1], n)
    end
    each(extents, low, high, function(k) out[k] = true end)
  end
  return out
end

-- An element of a that is not in b.
local function missing(a, b)
  for k in pairs(a) do
    if not b[k] then return k end
  end
end

-- Two parts of a chunk; nil of one that has one item in a dimension that is chosen at random.
local function parts_of(low, high)
  local d = #low > 0 and math.random(#low)
  if not d or high[d] - low[d] < 2 then return nil end
  local before, behind = { unpack(high) }, { unpack(low) }
  before[d] = math.random(low[d] + 1, high[d] - 1)
  behind[d] = before[d]
  return box.new(low, before), box.new(behind, high)
end

local function check_array(case, name, use, map, extents)
  local data = case.wanted
  local items = case.dims > 0 and data.extents or {}
  local shape = { size = { [0] = unpack(extents) } }
  for _ = 1, CHUNKS do
    local chunk, low, high = random_chunk(items)
    local reads = touched(data.reads[name], items, low, high)
    local writes = touched(data.writes[name], items, low, high)
    local derived = covered({ map(chunk, shape) }, extents)
    local function message(what, k)
      return ("chunk %s %s element %d of %s, outside of %s"):format(tostring(chunk), what, k, name,
        case.mapper.text)
    end
    local k = missing(reads, derived)
    if k then return message("reads", k) end
    k = missing(writes, derived)
    if k then return message("writes", k) end
    if next(writes) and use.mode == "read" then return message("writes", next(writes)) end
    k = use.mode == "discard_write" and missing(derived, writes)
    if k then return message("does not write all of what it discards:", k) end
    for _, part in ipairs { parts_of(low, high) } do
      k = missing(covered({ map(part, shape) }, extents), derived)
      if k then return message(("misses what its part %s has:"):format(tostring(part)), k) end
    end
    case.boxes = case.boxes + 1
    for at in pairs(writes) do reads[at] = true end
    if not missing(derived, reads) then case.tight = case.tight + 1 end
  end
end

-- How far e is read from its item.
local function check_reach(case, use)
  for d, far in ipairs(case.wanted.reach) do
    if not use.reach.unknown and far > use.reach[d] then
      return ("e is read %d from its item in dimension %d, and %d are derived"):format(far, d - 1,
        use.reach[d])
    end
  end
end

--- Looks whether what was touched lies in what was derived, for some chunks; counts boxes, and
--- those that hold nothing else.
---@param case random.case
---@param variant celer.lua_variant
---@return string? message
function M.check(case, variant)
  math.randomseed(case.number)
  for _, one in ipairs(arrays.of(case.dims)) do
    local number, name = one.number, one.name
    local use = variant.uses[number]
    local message
    if use and name == "e" and case.dims > 0 then
      message = check_reach(case, use)
    elseif use and use.boxes and not use.fault then
      case.mapper = mappers.of(variant, number)
      message = check_array(case, name, use, mappers.bind(case.mapper, case.call),
        one.extents)
    elseif not use and next(case.wanted.writes[name]) then
      message = name .. " is written, and nothing is derived of it"
    end
    if message then return message end
  end
end

return M
