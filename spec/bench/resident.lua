--- resident.lua -- what memory one of many ranks takes.
---
---   celer run --dry-run 65536 --as-rank 16384 --output all spec/bench/resident.lua [steps]
---
--- A stencil over a million rows, as in spec/bench/memory.lua, with nothing executed: what
--- the process holds of memory after so many steps, with the program, its libraries and
--- Lua, at its most. The last line is JSON.
local celer = require "celer"

local steps = tonumber(arg[1]) or 2000
local step = require "smooth"(1048576, function() return celer.neighborhood(1) end)

for _ = 1, steps do step() end
celer.queue():wait()

local file = assert(io.open("/proc/self/status"))
local kib = tonumber(file:read("*a"):match("VmHWM:%s*(%d+)"))
file:close()
print(('{"bench": "resident", "steps": %d, "kib": %d}'):format(steps, kib))
