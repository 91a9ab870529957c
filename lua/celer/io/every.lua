--- every.lua -- checkpoints by the clock.
---
--- All ranks keep at the same call, so they look at rank 0's clock together. To look
--- takes longer than a short step. Between two looks ranks count calls: as many as are
--- made in half of the time that is left, by the pace since the last look, and in LOOK
--- seconds at most. They are at most twice as many as before, since the first steps of a
--- loop are submitted faster than they are executed.
local checkpoint = require "celer.io.checkpoint"
local core = require "celer.core"
local place = require "celer.place"
local clock = require "celer.run.time"
local words = require "celer.words"

local fail = place.fail

local M = {}

local CALL = "celer.checkpoint_every"
local LOOK = 2

local units = { s = 1, min = 60, h = 3600 }
local seconds_of = {} -- by what was given

---@class celer.io.every
---@field due number  rank 0's clock at the next checkpoint
---@field at number  its clock at the last look
---@field calls integer  since then
---@field wait integer  how many there are until the next

---@type table<string, celer.io.every>
local kept = {} -- by folder

local function interval_of(every)
  if every ~= nil and seconds_of[every] then return seconds_of[every] end
  local seconds = every
  if type(every) == "string" then
    local number, unit = every:match "^%s*([%d.]+)%s*(%a+)%s*$"
    seconds = unit and units[unit] and tonumber(number) and tonumber(number) * units[unit]
  end
  if type(seconds) ~= "number" or not (seconds > 0 and seconds < math.huge) then
    fail('%s: the first argument must be a time such as "30 s", "5 min" or "2 h", or a '
      .. "number of seconds, not %s", CALL, type(every) == "string" and ("%q"):format(every)
      or type(every) == "number" and tostring(every) or words.a(every))
  end
  seconds_of[every] = seconds
  return seconds
end

-- Whether a checkpoint is due, and whether one was asked for.
local function look(state, interval)
  local now, asked = clock.look()
  local pace = (now - state.at) / state.calls
  local due = asked or now + pace / 2 >= state.due
  if due then state.due = now + interval end
  local wait = math.floor(math.min((state.due - now) / 2, LOOK) / pace)
  state.wait = math.max(1, math.min(wait, 2 * state.wait))
  state.at, state.calls = now, 0
  return due, asked
end

-- Whoever has started the run, and asks for a checkpoint, goes on from it later.
local function end_early(path)
  if core.rank() == 0 then
    io.stderr:write(("celer: told by SIGUSR1 to end: all is kept in %s\n"):format(path))
  end
  os.exit(core.facts.exit.lost)
end

--- Does what celer.checkpoint does where so much time has passed since it last did, or
--- since the first call for this folder, by the clock of rank 0. For loops: a call that
--- keeps nothing takes some nanoseconds. Does nothing in a dry run, in which no time passes.
--- After SIGUSR1 to rank 0 the next call within some two seconds keeps, whatever the time is;
--- under `celer run --restarts` the run then ends, to go on when it is started again.
---@param every string|number  "30 s", "5 min", "2 h"; or seconds
---@param path string
---@param what table<string|integer, celer.buffer>|fun(): table, any  what is kept; or a
---  function that gives it, and extra, and is called when it is time
---@param extra any  plain values and tables of them
---@return boolean kept  the same on all ranks
function M.checkpoint(every, path, what, extra)
  local interval = interval_of(every)
  local state = kept[path]
  if not state then
    checkpoint.check(CALL, path, type(what) == "function" and {} or what)
    core.catch_keep()
    local now = clock.time()
    state = { due = now + interval, at = now, calls = 0, wait = 1 }
    kept[path] = state
  end
  state.calls = state.calls + 1
  if state.calls < state.wait or core.dry() then return false end
  local due, asked = look(state, interval)
  if not due then return false end
  if type(what) == "function" then what, extra = what() end
  checkpoint.keep(CALL, path, what, extra)
  if asked and os.getenv "CELER_RESTARTED" then end_early(path) end
  return true
end

return M
