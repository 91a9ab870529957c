-- What all GPUs count into an array of so many MiB, added up for all of them; kernels
-- touch next to nothing of it.
--   mpirun -n 8 celer run reduce.lua MiB rounds GPUs
local celer = require "celer"
local measure = require "measure"

local mib, steps = tonumber(arg[1]) or 1, tonumber(arg[2]) or 4
local gpus = tonumber(arg[3]) or 2
local ROWS = 16 -- of each GPU are looked at

local n = mib * 2 ^ 18
local row = math.floor(n / (gpus * ROWS))

local q = celer.queue()
local u = celer.buffer("int", n, { name = "u" })
local seen = celer.buffer("double", gpus, { name = "seen" })

local k = celer.kernel [[
  kernel void count(item<1> it, reducer<int, 1> u, int row, int t) { u(it[0] * row) += t; }

  kernel void look(item<1> it, in<int, 1> u, out<double, 1> seen, int rows, int row) {
    double sum = 0;
    for (int r = 0; r < rows; ++r) sum += u(r * row);
    seen(it[0]) = sum;
  }
]]

measure.loop(q, 10, steps, function(from, to)
  for t = from, to - 1 do
    q:submit(function(cg)
      cg:parallel_for({ gpus * ROWS }, k.count, cg:reduce(u, "sum"), row, t)
    end)
    q:submit(function(cg)
      cg:parallel_for({ gpus }, k.look, cg:read(u, celer.all), cg:discard_write(seen),
        gpus * ROWS, row)
    end)
  end
end)
measure.report(q:wait(seen)[0])
