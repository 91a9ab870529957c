--- time.lua -- a clock that says the same on all ranks.
local core = require "celer.core"

local M = {}

local on_lane = core.view ~= nil
local clock -- a buffer: seconds, and 1 where a checkpoint was asked for

-- Rank 0 reads its clock in a task that depends on no other, and all get that.
local function of_all(asks)
  local groups, placement = require "celer.submit.group", require "celer.submit.placement"
  local snapshot = require "celer.data.snapshot"
  clock = clock or require("celer.data.buffer").new("double", { 2 }, { name = "celer.time" })
  local cg = groups.new()
  cg:name "celer.time"
  cg:host_task(placement.on_master, function(_, t)
    local own = require "celer.core"
    t[0], t[1] = own.time(), asks and own.asked_to_keep() and 1 or 0
  end, cg:discard_write(clock, require("celer.mapper.builtin").all))
  groups.close(cg)
  local answer = snapshot.request({ snapshot.capture(clock, nil, { dry = core.time() }) })
  answer.unadvised = true -- there is nothing that could be taken later
  local got = answer:get()
  return got[0], got[1] == 1
end

--- The same, and whether a checkpoint was asked for by SIGUSR1 since the last such look.
---@return number seconds, boolean asked
function M.look()
  if select(2, core.rank()) == 1 then return core.time(), core.asked_to_keep() end
  return of_all(true)
end

--- Seconds since the run began; it only grows. In the script all ranks get the
--- same: rank 0 is asked, which takes a fraction of a millisecond and counts as a
--- submission. In a host task it is that rank's own clock.
---@return number
function M.time()
  local _, ranks = core.rank()
  if on_lane or ranks == 1 then return core.time() end
  return (of_all(false))
end

return M
