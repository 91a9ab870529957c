--- resident.lua -- what memory one of many ranks takes.
---
---   celer run --dry-run 65536 --as-rank 16384 --output all spec/bench/resident.lua [steps]
---
--- A stencil over a million rows, as in spec/bench/memory.lua, with nothing executed: what
--- the process holds of memory after so many steps, with the program, its libraries and
--- Lua, at its most. The last line is JSON.
local celer = require "celer"

local steps = tonumber(arg[1]) or 2000
local n = 1048576

local q = celer.queue()
local u = celer.buffer("float", { n }, { name = "u", init = function(i) return i end })
local v = celer.buffer("float", { n }, { name = "v" })
local smooth = celer.kernel [[
  kernel void smooth(item<1> it, in<float, 1> u, out<float, 1> v) {
    const int i = it[0], n = it.range(0);
    v(i) = (u(max(i - 1, 0)) + u(i) + u(min(i + 1, n - 1))) / 3;
  }
]]

for _ = 1, steps do
  q:submit(function(cg)
    local r = cg:read(u, celer.neighborhood(1))
    cg:parallel_for({ n }, smooth, r, cg:discard_write(v))
  end)
  u, v = v, u
end
q:wait()

local file = assert(io.open("/proc/self/status"))
local kib = tonumber(file:read("*a"):match("VmHWM:%s*(%d+)"))
file:close()
print(('{"bench": "resident", "steps": %d, "kib": %d}'):format(steps, kib))
