--- measure.lua -- what the scripts of this folder share: how they are measured and what
--- they print, as measure.h has it for the programs with MPI.
---
---   local measure = require "measure"
---   local made = measure("transpose", q, function() ... end)
---
--- A script's arguments are STEPS REPETITIONS WORDS... In each repetition, after a first one
--- that warms up, the script submits so many steps and waits for them. Seconds of a step:
--- the best repetition, which other programs disturb least. `cpu`: processor time of rank
--- 0's process for a step, over all repetitions. The last line is JSON.
local celer = require "celer"
local core = require "celer.core"
local ffi = require "ffi"

ffi.cdef [[
struct prk_time { long seconds, microseconds; };
struct prk_usage { struct prk_time user, system; long others[14]; };
int getrusage(int who, struct prk_usage *out);
]]

local function cpu_seconds()
  local usage, sum = ffi.new "struct prk_usage", 0
  ffi.C.getrusage(0, usage)
  for _, time in ipairs { usage.user, usage.system } do
    sum = sum + tonumber(time.seconds) + tonumber(time.microseconds) * 1e-6
  end
  return sum
end

--- Calls `step` and prints what it took. Gives the number of steps made.
return function(bench, q, step)
  local steps, repetitions = tonumber(arg[1]), tonumber(arg[2])
  local _, ranks = core.rank()
  local best, cpu = math.huge, 0
  for r = 0, repetitions do
    q:wait()
    local start = celer.time()
    if r == 1 then cpu = cpu_seconds() end
    for _ = 1, steps do step() end
    q:wait()
    if r > 0 then best = math.min(best, (celer.time() - start) / steps) end
  end
  cpu = (cpu_seconds() - cpu) / (steps * repetitions)
  print(('{"bench": "%s", "ranks": %d, "seconds": %.9f, "cpu": %.9f}'):format(bench, ranks,
    best, cpu))
  return steps * (repetitions + 1)
end
