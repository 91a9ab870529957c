-- measure.lua -- what the celer programs share: the clock round a loop, and the
-- line with the result, as common.cuh prints it.
local celer = require "celer"

local M = {}

local begun = celer.time()

--- Runs loop(first, last) for `warm` steps, then for `steps`, which are timed.
function M.loop(q, warm, steps, loop)
  loop(0, warm)
  q:wait()
  local start = celer.time()
  loop(warm, warm + steps)
  q:wait()
  local stop = celer.time()
  M.prepare, M.seconds = start - begun, stop - start
end

--- The sum of a buffer of `n` numbers.
function M.sum(q, b, n)
  local s, total = q:wait(b), 0
  for i = 0, n - 1 do total = total + s[i] end
  return total
end

function M.report(checksum, idle_us)
  local idle = idle_us and (', "idle_us": %.3f'):format(idle_us) or ""
  print(('{"prepare": %.6f, "seconds": %.9f, "checksum": %.17g%s}'):format(
    M.prepare, M.seconds, checksum, idle))
end

return M
