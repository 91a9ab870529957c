--- dry_routes.lua -- what routes would send, in dry runs.
---
--- Nobody knows there where items push. A mapper stands in for that: it says to which elements, or
--- bins, those of a chunk push. All push as often as they may, and evenly to what it gives; bins
--- come to hold alike. From that follows what a rank would send and get (engine/comm/route.c): to
--- each rank that has some of the keys these and the values; and where bins lie one behind the
--- other, what goes from the ranks of bins to those of places. Few ranks tell each other beforehand
--- how much is to come, in one call of all; many do so by a message to those that get some.
local asked = require "celer.mapper.asked"
local box = require "celer.box"
local core = require "celer.core"
local families = require "celer.mapper.boxes"
local place = require "celer.place"

local M = {}

local MANY = core.facts.limit.comm_many
local NOTICE, KEY = 48, 8 -- bytes, as engine/comm/route.c has them

---@class celer.routes_traffic  of this rank
---@field sent integer  messages
---@field bytes_sent number
---@field received integer
---@field bytes_received number
---@field collectives integer
---@field peers table<integer, boolean>

local function traffic()
  return { sent = 0, bytes_sent = 0, received = 0, bytes_received = 0, collectives = 0, peers = {} }
end

local function add(sum, way, peer, bytes)
  if bytes == 0 then return end
  sum[way], sum["bytes_" .. way] = sum[way] + 1, sum["bytes_" .. way] + bytes
  sum.peers[peer] = true
end

local function product(list, from, to)
  local n = 1
  for d = from, to do n = n * list[d] end
  return n
end

-- Where the rows of each rank begin: those of rank r are [at(r), at(r + 1)).
local function shares(rows, ranks)
  local least = math.floor(rows / ranks)
  local longer = rows - least * ranks
  return function(r) return least * r + math.min(r, longer) end
end

-- How many keys of a box, from dimension d on, come before a number; keys count row by row.
local function keys_before(lo, hi, size, d, number)
  local inner = product(size, d + 1, #size)
  local at = math.floor(number / inner)
  local n = math.max(math.min(at, hi[d]) - lo[d], 0)
  for k = d + 1, #size do n = n * (hi[k] - lo[k]) end
  if d < #size and at >= lo[d] and at < hi[d] then
    n = n + keys_before(lo, hi, size, d + 1, number - at * inner)
  end
  return n
end

-- ---- what items push to -------------------------------------------------------

-- A box cut off at the extents; nil where nothing is left.
local function cut_off(part, size)
  local lo, hi = box.bounds(part)
  for d = 1, #size do
    lo[d], hi[d] = math.max(lo[d], 0), math.min(hi[d], size[d])
    if lo[d] >= hi[d] then return nil end
  end
  return { lo = lo, hi = hi }
end

-- Boxes of keys for the items [first, last) of dimension 0, counted from the range's first.
local function boxes_of(routed, what, range, first, last)
  local lo, hi, size, out = {}, {}, what.size, {}
  for d = 1, #what.items do lo[d], hi[d] = what.first[d], what.first[d] + what.items[d] end
  if lo[1] then lo[1], hi[1] = lo[1] + first, lo[1] + last end
  local keys = box.make(#size, 0, 0, 0, size[1], size[2] or 1, size[3] or 1)
  for _, part in ipairs(asked.parts(#size, routed.dry(asked.chunk_of(range, lo, hi),
    asked.shape_of(keys)))) do
    if families.is_family(part) then
      place.fail("%s: dry of %s gives celer.boxes; it must give a box, or several", what.call,
        routed.name)
    end
    out[#out + 1] = cut_off(part, size)
  end
  return out
end

-- How many of their keys have these numbers.
local function count_keys(boxes, size, first, last)
  local n = 0
  for _, one in ipairs(boxes) do
    n = n + keys_before(one.lo, one.hi, size, 1, last)
      - keys_before(one.lo, one.hi, size, 1, first)
  end
  return n
end

-- ---- what goes ----------------------------------------------------------------

-- Keys and values, from one rank to another; `n`: how many values the first one pushes.
local function push(sum, way, peer, values, bytes)
  if values == 0 then return end
  if select(2, core.rank()) >= MANY then add(sum, way, peer, NOTICE) end
  add(sum, way, peer, values * KEY)
  add(sum, way, peer, values * bytes)
end

-- What is pushed; gives how many values all ranks push.
local function push_all(sum, routed, what)
  local me, ranks = core.rank()
  local items, size, total = what.items, what.size, 0
  local lo, hi = { 0, 0, 0 }, { 1, 1, 1 }
  for d = 1, #items do lo[d], hi[d] = what.first[d], what.first[d] + items[d] end
  local range = box.make(#items, lo[1], lo[2], lo[3], hi[1], hi[2], hi[3])
  local rows, row = shares(items[1] or 1, ranks), product(items, 2, #items)
  local keys = shares(what.bins and product(size, 1, #size) or size[1], ranks)
  local key_row = what.bins and 1 or product(size, 2, #size)
  local active = routed.active or math.huge
  for r = 0, ranks - 1 do
    local first, last = rows(r), rows(r + 1)
    local values = math.max(math.min(last, active) - first, 0) * row * (routed.each or what.most)
    local boxes = values > 0 and boxes_of(routed, what, range, first, last) or {}
    local all = count_keys(boxes, size, 0, product(size, 1, #size))
    total = total + values
    for k = r == me and 0 or me, all > 0 and (r == me and ranks - 1 or me) or -1 do
      local part = count_keys(boxes, size, keys(k) * key_row, keys(k + 1) * key_row)
      local way, peer = "sent", k
      if r ~= me then way, peer = "received", r end
      if k ~= r then push(sum, way, peer, math.ceil(values * part / all), what.bytes) end
    end
  end
  return total
end

-- Values that ranks share as `has` says, to those that `wants` names.
local function move(sum, bytes, has, wants)
  local me, ranks = core.rank()
  local function overlap(a, i, b, k)
    return math.max(math.min(a(i + 1), b(k + 1)) - math.max(a(i), b(k)), 0)
  end
  for k = 0, ranks - 1 do
    if k ~= me then
      add(sum, "sent", k, bytes * overlap(has, me, wants, k))
      add(sum, "received", k, bytes * overlap(has, k, wants, me))
    end
  end
end

-- What bins held, so many values, comes to the ranks that have them; and what they hold then goes
-- where it lies.
local function move_bins(sum, what, before, after)
  local _, ranks = core.rank()
  local bins = product(what.size, 1, #what.size)
  local of_bins = shares(bins, ranks)
  local function by_bin(n)
    return function(r) return math.floor(n * of_bins(r) / bins + 0.5) end
  end
  local function by_place(n, room)
    local places = shares(room, ranks)
    return function(r) return math.min(places(r), n) end
  end
  move(sum, what.bytes, by_place(before, what.held_room), by_bin(before))
  move(sum, what.bytes, by_bin(after), by_place(after, what.room))
end

-- `before`: how many values bins held that are kept. Gives how many they hold then, too.
local function count(routed, what, before)
  local sum = traffic()
  local after = before + push_all(sum, routed, what)
  sum.collectives = select(2, core.rank()) < MANY and 1 or 0
  if what.bins then
    after = math.min(after, what.room)
    move_bins(sum, what, before, after)
    sum.collectives = sum.collectives + (what.held_room > 0 and 2 or 1)
  end
  return sum, after
end

-- ---- the sum ------------------------------------------------------------------

local all -- of the run; nil: there was none
local known = setmetatable({}, { __mode = "k" }) -- by what tasks are told, the last one
local held = setmetatable({}, { __mode = "k" }) -- by offsets, how many values their bins hold

--- Counts what one exchange of a route that has a stand-in would send.
---@param routed celer.routed
---@param what celer.route_task
function M.note(routed, what)
  local one, before = known[what], 0
  if what.bins and what.held_room > 0 then before = held[routed.offsets] or 0 end
  if not (one and one.dry == routed.dry and one.active == routed.active
    and one.before == before) then
    one = { dry = routed.dry, active = routed.active, before = before }
    one.sum, one.after = count(routed, what, before)
    known[what] = one
  end
  if what.bins then held[routed.offsets] = one.after end
  all = all or traffic()
  for key, n in pairs(one.sum) do
    if key ~= "peers" then all[key] = all[key] + n end
  end
  for peer in pairs(one.sum.peers) do all.peers[peer] = true end
end

--- All that was counted, with the number of peers; nil: nothing was.
---@return table<string, number>?
function M.total()
  if not all then return nil end
  local out, peers = {}, 0
  for key, n in pairs(all) do out[key] = n end
  for _ in pairs(all.peers) do peers = peers + 1 end
  out.peers = peers
  return out
end

return M
