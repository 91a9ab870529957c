-- Resident memory of a long run: a small stencil, a fresh closure in every step.
--   celer run spec/bench/memory.lua [steps] [warm-up steps]
-- Prints how much the process has grown since the warm-up, in KiB, last.
local celer = require "celer"

local steps = tonumber(arg[1]) or 1000000
local warm = tonumber(arg[2]) or 10000
local q = celer.queue()
local step = require "smooth"(64, function()
  local halo = 1
  return function(chunk) return chunk:grow(halo) end
end)

local function resident()
  local file = assert(io.open("/proc/self/status"))
  local kib = tonumber(file:read("*a"):match("VmRSS:%s*(%d+)"))
  file:close()
  return kib
end

local before
for t = 1, steps do
  step()
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
