--- progress.lua -- how far a run has come: loops that a script announces, and what
--- is said at the end.
local core = require "celer.core"
local place = require "celer.place"
local words = require "celer.words"

local M = {}

-- ---- loops over a time ----------------------------------------------------------

local AHEAD, DRY = 4, 100 -- steps: that the script is ahead; of a dry run
local known_options = { of = true, from = true, to = true, till = true, ahead = true, dry = true }

---@class celer.time_options
---@field of celer.buffer  the scalar that holds the time
---@field from number?  where the run begins, 0; and
---@field to number  where it ends: for what is said
---@field till number?  where this loop ends: `to`
---@field ahead integer?  how many steps the script submits before it looks, 4
---@field dry integer?  how many steps a dry run has, 100

local function check_number(options, key, default)
  local value = options[key]
  if value == nil then value = default end
  if type(value) ~= "number" or value ~= value or math.abs(value) == math.huge then
    place.fail("celer.progress: '%s' must be a number, not %s", key,
      type(value) == "number" and tostring(value) or words.a(value))
  end
  return value
end

local function check_count(options, key, default)
  local value = check_number(options, key, default)
  if value % 1 ~= 0 or value < 0 or value > 1e6 then
    place.fail("celer.progress: '%s' is a number of steps, from 0, not %g", key, value)
  end
  return value
end

local function check_time(options)
  words.check_options("celer.progress", options, known_options, "{ of = t, to = 1 }")
  local of = options.of
  if not require("celer.data.buffer").is_buffer(of) or of.dims > 0 or of.type.class == "s"
    or of.type.class == "b" then
    place.fail("celer.progress: 'of' must be the scalar that holds the time, not %s", words.a(of))
  end
  local from, to = check_number(options, "from", 0), check_number(options, "to")
  if to <= from then
    place.fail("celer.progress: 'to' is %g, and must be more than 'from', %g", to, from)
  end
  return { of = of, from = from, to = to, till = check_number(options, "till", to),
    ahead = check_count(options, "ahead", AHEAD), dry = check_count(options, "dry", DRY) }
end

-- By the scalar: where a run began that several loops go through, one after the other.
local runs = setmetatable({}, { __mode = "k" })

local function run_of(self)
  local run = runs[self.of]
  if not run or run.from ~= self.from or run.to ~= self.to then
    run = { from = self.from, to = self.to }
    runs[self.of] = run
  end
  return run
end

local function say(self, now)
  local share = math.max(0, math.min(1, (now - self.from) / (self.to - self.from)))
  if share ~= share then return end
  local run = run_of(self)
  if not run.begin then run.begin, run.first = (core.progress_now()), share end
  core.progress_share(share, run.first, run.begin)
end

-- The time as it is before a step, which is not waited for.
local function ask(self, step)
  local snapshot = require "celer.data.snapshot"
  local dry = step > self.dry and self.till or self.from
  local future = snapshot.request { snapshot.capture(self.of, nil, { dry = dry }) }
  future.unadvised = true -- the script waits here lest it run too far ahead
  return future
end

-- Counts steps until the time has come, and sets a flag for each.
local function until_time(self)
  local go = require("celer.data.scalar").new("bool", true, { name = "celer.progress" })
  local futures, step = {}, 0
  return function()
    step = step + 1
    futures[step] = ask(self, step)
    local old = futures[step - self.ahead]
    if old then
      futures[step - self.ahead] = nil
      local now = tonumber((old:get()()))
      say(self, now)
      if now >= self.till then return nil end
    end
    go:set(self.of:lt(self.till))
    return step, go
  end
end

-- ---- loops of so many steps -------------------------------------------------------

--- Counts from 1 to n, for a loop of the driver. The progress line then says how
--- many steps have been executed, and how long the rest will take:
---
---   for step in celer.progress(1000) do ... end
---
--- Of a time that is a scalar, counts until it has come to `till`, or else `to`. The script is
--- `ahead` steps ahead of what it knows of that. `go` is 0 for the steps that are too many: they
--- are submitted by q:when(go, ...).
---
---   for step, go in celer.progress { of = t, to = 10 } do ... end
---
---@param n integer|celer.time_options
---@param ... any  nothing: options are a table
---@return fun(): integer?, celer.buffer?
function M.loop(n, ...)
  if select("#", ...) > 0 then
    place.fail("celer.progress takes how many steps the loop has, and nothing else: it counts "
      .. "from 1")
  end
  if type(n) == "table" and not getmetatable(n) then return until_time(check_time(n)) end
  if type(n) ~= "number" or n % 1 ~= 0 or n < 0 or n > 2 ^ 53 then
    place.fail("celer.progress takes how many steps the loop has, not %s",
      type(n) == "number" and tostring(n) or words.a(n))
  end
  local step = 0
  local begin, first = core.progress_now()
  return function()
    core.progress_step(n, step, begin, first)
    if step >= n then return nil end
    step = step + 1
    return step
  end
end

-- ---- at the end ---------------------------------------------------------------------

local function count(n, one, many)
  return ("%.0f %s"):format(n, n == 1 and one or many)
end

--- Says on rank 0 what was done, where that was asked for.
function M.write_summary()
  local c, rank, ranks = core.counts(), core.rank()
  if not c or rank ~= 0 then return end
  io.stderr:write(("celer: rank 0 of %d: %s, %s in %.2f s, of which the script waited %.2f s; "
    .. "%s with %s, %s with %s, %s\n"):format(ranks,
    count(c.tasks - c.horizons, "task", "tasks"),
    count(c.instructions, "instruction", "instructions"), c.wall, c.waited,
    count(c.messages, "message", "messages"), count(c.bytes_sent, "byte", "bytes"),
    count(c.copies, "copy", "copies"), count(c.bytes_copied, "byte", "bytes"),
    count(c.allocations, "allocation", "allocations")))
end

return M
