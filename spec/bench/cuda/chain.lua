-- A chain of short kernels in celer.
--   celer run chain.lua items launches rounds
local celer = require "celer"
local measure = require "measure"

local n, steps = tonumber(arg[1]) or 1024, tonumber(arg[2]) or 100
local rounds = tonumber(arg[3]) or 10

local q = celer.queue()
local v = celer.buffer("double", { n }, { name = "v", init = function() return 0 end })
local turn = celer.kernel [[
  kernel void turn(item<1> it, inout<double, 1> v, int rounds) {
    const int i = it[0];
    double x = v(i);
    for (int k = 0; k < rounds; ++k) x = fma(x, 0.999, 0.001 * i);
    v(i) = x;
  }
]]
measure.loop(q, 100, steps, function(from, to)
  for _ = from, to - 1 do
    q:submit(function(cg) cg:parallel_for({ n }, turn, cg:read_write(v), rounds) end)
  end
end)
measure.report(measure.sum(q, v, n))
