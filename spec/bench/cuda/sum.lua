-- What all elements come to, in celer.
--   celer run sum.lua elements steps [histogram]
local celer = require "celer"
local measure = require "measure"

local n, steps = tonumber(arg[1]) or 2 ^ 24, tonumber(arg[2]) or 100
local counts = arg[3] == "histogram"

local LEVELS = 256
local q = celer.queue()
local v = celer.buffer("float", { n }, { name = "v" })
local level = celer.buffer("uint8_t", { n }, { name = "level" })
local total = celer.buffer("float", {}, { name = "total" })
local bins = celer.buffer("uint32_t", { LEVELS }, { name = "bins" })
local k = celer.kernel [[
  kernel void fill(item<1> it, out<float, 1> v, out<uint8_t, 1> level) {
    v(it[0]) = it[0] % 2;
    level(it[0]) = (unsigned)it[0] * 2654435761u >> 24;
  }
  kernel void sum(item<1> it, in<float, 1> v, reducer<float> total) {
    total += v(it[0]);
  }
  kernel void histogram(item<1> it, in<uint8_t, 1> level, reducer<uint32_t, 1> bins) {
    bins(level(it[0])) += 1;
  }
]]
local function step(cg)
  if counts then cg:parallel_for({ n }, k.histogram, cg:read(level), cg:reduce(bins, "sum"))
  else cg:parallel_for({ n }, k.sum, cg:read(v), cg:reduce(total, "sum")) end
end
q:submit(function(cg)
  cg:parallel_for({ n }, k.fill, cg:discard_write(v), cg:discard_write(level))
end)
measure.loop(q, 10, steps, function(from, to)
  for _ = from, to - 1 do q:submit(step) end
end)
local check = 0
if counts then
  local s = q:wait(bins)
  for i = 0, LEVELS - 1 do check = check + i * s[i] end
else
  check = q:wait(total)()
end
measure.report(check)
