--- reduce.lua -- what it takes from a reduction until all ranks know the result.
---
---   mpirun -n 4 celer run --backend cpu spec/bench/reduce.lua [rounds]
---
--- A kernel of few items reduces, a fence brings the result to all ranks, and so on:
--- of one whole number (an all-reduce), of one floating-point number (an all-gather of
--- partial results), and of 1024 whole numbers. In microseconds per round, medians of
--- batches; with --no-collectives the same by messages through rank 0. On an idle
--- machine with cores for all ranks, else they hold what threads wait for each other.
--- The last line is JSON.
local celer = require "celer"
local core = require "celer.core"

local BATCHES = 10
local rounds = math.ceil((tonumber(arg[1]) or 2000) / BATCHES)
local _, ranks = core.rank()
local q = celer.queue()
local k = celer.kernel [[
  kernel void whole(item<1> it, reducer<int> sum) { sum += it[0]; }
  kernel void real(item<1> it, reducer<double> sum) { sum += it[0]; }
  kernel void bins(item<1> it, reducer<int, 1> sum) { sum(it[0]) += it[0]; }
]]

-- Microseconds of one round, the median of batches; the first one warms up.
local function measure(kernel, buffer)
  local took = {}
  for i = 0, BATCHES do
    local start = celer.time()
    for _ = 1, rounds do
      q:submit(function(cg) cg:parallel_for(64, kernel, cg:reduce(buffer, "sum")) end)
      q:fence(buffer):get()
    end
    took[i] = (celer.time() - start) / rounds * 1e6
  end
  table.sort(took)
  return took[BATCHES / 2]
end

local whole = measure(k.whole, celer.buffer("int", {}, { name = "whole" }))
local real = measure(k.real, celer.buffer("double", {}, { name = "real" }))
local bins = measure(k.bins, celer.buffer("int", { 1024 }, { name = "bins" }))
print(('{"bench": "reduce", "ranks": %d, "whole": %.2f, "real": %.2f, "bins": %.2f}'):format(
  ranks, whole, real, bins))
