-- measure.lua -- what the celer programs share: the clock round a loop, and the
-- line with the result, as common.cuh prints it.
local celer = require "celer"

local M = {}

local begun = celer.time()

--- Runs loop(first, last) for `warm` steps, then for `steps`, which are timed; and that so
--- often.
---@param times? integer  once without
function M.loop(q, warm, steps, loop, times)
  loop(0, warm)
  q:wait()
  M.prepare, M.all = celer.time() - begun, {}
  for i = 1, times or 1 do
    local start = celer.time()
    loop(warm + (i - 1) * steps, warm + i * steps)
    q:wait()
    M.all[i] = celer.time() - start
  end
  M.seconds = M.all[1]
end

--- The sum of a buffer of `n` numbers.
function M.sum(q, b, n)
  local s, total = q:wait(b), 0
  for i = 0, n - 1 do total = total + s[i] end
  return total
end

function M.report(checksum, idle_us)
  local idle = idle_us and (', "idle_us": %.3f'):format(idle_us) or ""
  print(('{"prepare": %.6f, "seconds": %.9f, "all": [%s], "checksum": %.17g%s}'):format(
    M.prepare, M.seconds, table.concat(M.all, ", "), checksum, idle))
end

return M
