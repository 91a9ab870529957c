--- balance.lua -- weights from how fast the devices of all ranks have been.
local core = require "celer.core"
local place = require "celer.place"
local weighing = require "celer.submit.weights"
local words = require "celer.words"

local fail = place.fail

local M = {}

-- So that noise changes nothing: what new weights must save of the time that the
-- slowest device takes, and how many seconds some device must have computed. And the
-- weight of the fastest device.
local GAIN, LEAST, MOST = 0.1, 5e-3, 100

--- Those of tasks that ask for none; nil: all alike.
---@type celer.weights?
M.weights = nil

local lists -- what they were made of: by rank, a number for each device
local carried -- what was computed before and is too little to judge by; or nil

-- The items per second of each device, in one list over all ranks; false where it
-- has computed nothing. And whether any has.
local function speeds_of(paces, devices)
  local speeds, known = {}, false
  for k, row in ipairs(paces) do
    for d = 1, devices[k] do
      local items, seconds = row[2 * d - 1], row[2 * d]
      local speed = items > 0 and seconds > 0 and items / seconds
      speeds[#speeds + 1], known = speed, known or speed and true
    end
  end
  return speeds, known
end

-- A device that has computed nothing is taken to be as fast as its weight says.
local function complete(speeds, weights)
  local speed, weight = 0, 0
  for i = 1, #speeds do
    if speeds[i] then speed, weight = speed + speeds[i], weight + weights[i] end
  end
  for i = 1, #speeds do speeds[i] = speeds[i] or weights[i] * speed / weight end
end

-- How many times as long as with the best weights the slowest takes with these.
local function excess(speeds, weights)
  local speed, weight, slowest = 0, 0, 0
  for i = 1, #speeds do
    speed, weight = speed + speeds[i], weight + weights[i]
    slowest = math.max(slowest, weights[i] / speeds[i])
  end
  return slowest * speed / weight
end

--- New weights, or nil where the old ones will do. The same on every rank, from the
--- same numbers.
---@param paces number[][]  by rank: items and seconds of each device
---@param devices integer[]  how many each rank has
---@param weights integer[]  of all of them until now
---@return integer[]?
function M.decide(paces, devices, weights)
  local speeds, known = speeds_of(paces, devices)
  if not known then return nil end
  complete(speeds, weights)
  if excess(speeds, weights) < 1 + GAIN then return nil end
  local fastest, better = 0, {}
  for i = 1, #speeds do fastest = math.max(fastest, speeds[i]) end
  for i = 1, #speeds do
    better[i] = math.max(math.floor(speeds[i] / fastest * MOST + 0.5), 1)
  end
  return better
end

local function flatten(by_rank)
  local all = {}
  for _, list in ipairs(by_rank) do
    for _, w in ipairs(list) do all[#all + 1] = w end
  end
  return all
end

-- Adds what was computed before; nil where all of it is still too little.
local function enough(paces)
  local most = 0
  for k, row in ipairs(paces) do
    for i = 1, 2 * row.devices do
      row[i] = row[i] + (carried and carried[k][i] or 0)
      if i % 2 == 0 then most = math.max(most, row[i]) end
    end
  end
  carried = most < LEAST and paces or nil
  return most >= LEAST
end

-- Puts them in force; all alike are none.
local function adopt(better)
  lists = nil
  for _, list in ipairs(better) do
    for _, w in ipairs(list) do
      if w ~= better[1][1] then lists = better end
    end
  end
  M.weights = lists and weighing.new(lists)
  core.follow(M.weights and M.weights.handle)
end

-- A list of each rank's.
local function divide(all, devices)
  local by_rank, n = {}, 0
  for k, count in ipairs(devices) do
    by_rank[k] = { unpack(all, n + 1, n + count) }
    n = n + count
  end
  return by_rank
end

-- What somebody knows better than the clock.
local function correct(paces, devices, seconds)
  for k, row in ipairs(paces) do
    for d = 1, devices[k] do
      local value = seconds(k - 1, d - 1, row[2 * d - 1], row[2 * d])
      if type(value) ~= "number" or not (value >= 0 and value < math.huge) then
        fail("celer.rebalance: seconds must give a number of at least 0, not %s",
          type(value) == "number" and tostring(value) or words.a(value))
      end
      row[2 * d] = value
    end
  end
end

---@class celer.rebalance_options
---@field seconds? fun(rank: integer, device: integer, items: number, measured: number): number

local known_options = { seconds = true }

local function check(options)
  if options == nil then return end
  words.check_options("celer.rebalance", options, known_options)
  if options.seconds ~= nil and type(options.seconds) ~= "function" then
    fail("celer.rebalance: seconds must be a function (rank, device, items, measured), "
      .. "not %s", words.a(options.seconds))
  end
end

local told = false

-- A dry run measures nothing.
local function tell_dry()
  if told then return end
  told = true
  local file, line = place.user()
  io.stderr:write(("celer: warning: %s:%d: celer.rebalance does nothing in a dry run, "
    .. "which measures nothing: weights stay as they are\n"):format(file or "?", line))
end

-- What all devices have computed since the last time, by rank; and how many each rank
-- has.
local function ask(seconds)
  local file, line = place.user()
  place.check(core.wait(file, line))
  place.check(core.measure())
  local paces, devices = place.check(core.paces(file, line)), {}
  for k, row in ipairs(paces) do devices[k] = row.devices end
  if seconds then correct(paces, devices, seconds) end
  return paces, devices
end

-- The weights until now, of all devices.
local function current(devices)
  if lists then return flatten(lists) end
  local all = {}
  for _, n in ipairs(devices) do
    for _ = 1, n do all[#all + 1] = 1 end
  end
  return all
end

--- Waits until all that was submitted has been executed; then tasks that ask for no
--- weights and are cut in one dimension are divided by how fast the devices of all ranks
--- have computed since the last time, where that saves a tenth of the time at least.
--- `seconds` says how long a device is to be taken to have needed for so many items, on
--- all ranks the same, in place of what was measured. On GPUs kernels are timed from the
--- first call on, which so has nothing to go by, or from the start by `--measure`.
---@param options? celer.rebalance_options
---@return celer.weights? weights  in force from now on; nil: all alike
---@return boolean changed
function M.rebalance(options)
  check(options)
  require("celer.submit.queue").check_outside("celer.rebalance") -- it requires this module
  if core.dry() then
    tell_dry()
    return M.weights, false
  end
  local paces, devices = ask(options and options.seconds)
  local better = enough(paces) and M.decide(paces, devices, current(devices)) or nil
  if better then adopt(divide(better, devices)) end
  return M.weights, better ~= nil
end

return M
