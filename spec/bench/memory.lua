-- Resident memory of a long run: a small stencil, a fresh closure in every step.
--   celer run spec/bench/memory.lua [steps] [warm-up steps]
-- Prints how much the process has grown since the warm-up, in KiB, last.
local celer = require "celer"

local steps = tonumber(arg[1]) or 1000000
local warm = tonumber(arg[2]) or 10000
local n = 64

local q = celer.queue()
local u = celer.buffer("float", { n }, { name = "u", init = function(i) return i end })
local v = celer.buffer("float", { n }, { name = "v" })
local smooth = celer.kernel [[
  kernel void smooth(item<1> it, in<float, 1> u, out<float, 1> v) {
    const int i = it[0], n = it.range(0);
    v(i) = (u(max(i - 1, 0)) + u(i) + u(min(i + 1, n - 1))) / 3;
  }
]]

local function resident()
  local file = assert(io.open("/proc/self/status"))
  local kib = tonumber(file:read("*a"):match("VmRSS:%s*(%d+)"))
  file:close()
  return kib
end

local before
for t = 1, steps do
  q:submit(function(cg)
    local halo = 1
    local r = cg:read(u, function(chunk) return chunk:grow(halo) end)
    cg:parallel_for({ n }, smooth, r, cg:discard_write(v))
  end)
  u, v = v, u
  if t == warm then
    q:wait()
    collectgarbage()
    collectgarbage()
    before = resident()
  end
end
q:wait()
collectgarbage()
collectgarbage()
local grown = resident() - before
print(("grown by %d KiB over %d steps after the first %d"):format(grown,
  steps - warm, warm))
print(('{"bench": "memory", "steps": %d, "grown_kib": %d}'):format(steps, grown))
