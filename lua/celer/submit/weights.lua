--- weights.lua -- how much each rank, and each of its devices, is to compute.
local core = require "celer.core"
local place = require "celer.place"
local words = require "celer.words"

local fail = place.fail

local M = {}

---@class celer.weights
---@field zeros boolean  whether one is 0
---@field rows boolean  whether they are of rows, as a buffer says
local Weights = { __noun = "weights" }

local function is_weight(w)
  return type(w) == "number" and w >= 0 and w < math.huge
end

local function shown(value)
  return type(value) == "number" and tostring(value) or words.a(value)
end

-- A rank's entry as a list; whether it names devices.
local function entry_of(value, rank)
  if is_weight(value) then return { value }, false end
  if type(value) ~= "table" or getmetatable(value) or #value == 0 then
    fail("celer.weights: rank %d has %s, not a number of at least 0 or a table of "
      .. "one for each of its devices", rank, shown(value))
  end
  local list = {}
  for i = 1, #value do
    if not is_weight(value[i]) then
      fail("celer.weights: device %d of rank %d has %s, not a number of at least 0",
        i - 1, rank, shown(value[i]))
    end
    list[i] = value[i]
  end
  return list, true
end

-- Where some rank's entry names devices. All ranks come here, as they find out
-- together which devices each has.
local function check_devices(lists, by_device)
  local me = core.rank()
  local _, devices = core.devices()
  if by_device[me + 1] and #lists[me + 1] ~= devices then
    fail("celer.weights: %d for the devices of rank %d, which has %d", #lists[me + 1],
      me, devices)
  end
end

-- An entry per rank.
local function entries_of(what)
  local _, ranks = core.rank()
  if type(what) == "function" then
    local out = {}
    for rank = 0, ranks - 1 do out[rank + 1] = what(rank, ranks) end
    return out, ranks
  elseif type(what) ~= "table" or getmetatable(what) then
    fail("celer.weights takes a table of one entry per rank, or a function "
      .. "(rank, ranks) that returns one, not %s", words.a(what))
  elseif #what ~= ranks then
    fail("celer.weights: %d for %s; a function (rank, ranks) serves any number", #what,
      words.count(ranks, "rank"))
  end
  return what, ranks
end

-- What turns all of them into whole numbers below 2^31, the same on all ranks.
local function rounding(lists)
  local whole, most = true, 0
  for _, list in ipairs(lists) do
    for _, w in ipairs(list) do
      whole, most = whole and w % 1 == 0, math.max(most, w)
    end
  end
  if most == 0 then fail("celer.weights: all are 0; somebody has to compute") end
  if whole and most < 2 ^ 31 then return function(w) return w end end
  return function(w)
    return w > 0 and math.max(math.floor(w / most * 2 ^ 30 + 0.5), 1) or 0
  end
end

local function make(sums, devices, text, zeros, rows)
  local handle = core.weights(sums, devices, text)
  return setmetatable({ zeros = zeros, rows = rows, text = text, handle = handle,
    handles = { handle, text = text } }, Weights)
end

local function of_rows(by_rank, by_device, text)
  local mine = by_rank[core.rank() + 1] > 0 and #by_device > 1 and by_device or nil
  return make(by_rank, mine, text, true, true)
end

local from_options = { from = true }

local function of_buffer(what)
  words.check_options("celer.weights", what, from_options)
  return require("celer.submit.cuts").of(what.from, of_rows) -- it requires this module
end

--- Weights for cg:hint and q:hint: ranks compute in proportion to them. An entry
--- may be a table with a weight for each device of the rank; the rank's is their
--- sum then. All ranks must give the same. { from = buffer }, with a number for each row
--- (what has the same coordinate in dimension 0): ranks, and their devices, get rows whose
--- numbers add up to the same; it waits for the buffer, once for each change of it.
---@param what (number|number[])[]|{from: celer.buffer}|fun(rank: integer, ranks: integer): any
---@return celer.weights
function M.new(what)
  if type(what) == "table" and not getmetatable(what) and type(next(what)) == "string" then
    return of_buffer(what)
  end
  local me = core.rank()
  local entries, ranks = entries_of(what)
  local lists, by_device, any = {}, {}, false
  for k = 1, ranks do
    lists[k], by_device[k] = entry_of(entries[k], k - 1)
    any = any or by_device[k]
  end
  if any then check_devices(lists, by_device) end
  local round = rounding(lists)
  local sums, texts, zeros = {}, {}, false
  for k = 1, ranks do
    local list, sum = lists[k], 0
    for i = 1, #list do
      list[i] = round(list[i])
      sum, zeros = sum + list[i], zeros or list[i] == 0
    end
    sums[k], texts[k] = sum, table.concat(list, ",") .. (by_device[k] and "d" or "")
  end
  local devices = by_device[me + 1] and sums[me + 1] > 0 and lists[me + 1] or nil
  local text = table.concat(texts, " ")
  return make(sums, devices, text, zeros, false)
end

function M.is_weights(value) return getmetatable(value) == Weights end

function Weights:__tostring() return "weights " .. self.text end

return M
