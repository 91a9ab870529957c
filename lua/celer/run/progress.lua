--- progress.lua -- how far a run has come: loops that a script announces, and what
--- is said at the end.
local core = require "celer.core"
local place = require "celer.place"
local words = require "celer.words"

local M = {}

--- Counts from 1 to n, for a loop of the driver. The progress line then says how
--- many steps have been executed, and how long the rest will take:
---
---   for step in celer.progress(1000) do ... end
---
---@param n integer
---@return fun(): integer?
function M.loop(n)
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
