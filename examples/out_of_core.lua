-- More data than the devices hold: layers that are smoothed one after another, each
-- with what lies beside its rows and the layer before it. Layers that no device has
-- room for wait in host memory.
-- The kernels are in C++, as their numbers wrap around.
--   celer run [--device-memory 512M] out_of_core.lua [MiB in all [layers [sweeps]]]
-- The numbers printed do not depend on how much room there was.
local celer = require "celer"

local MiB = tonumber(arg[1]) or 16
local layers = math.max(2, tonumber(arg[2]) or 4) -- none is smoothed with itself
local sweeps = tonumber(arg[3]) or 2
local columns = 1024
local rows = math.floor(MiB * 2 ^ 20 / layers / columns / 4)

local q = celer.queue()
local kernels = celer.kernel [[
  kernel void fill(item<2> it, out<unsigned, 2> u, unsigned seed) {
    u(it[0], it[1]) = (unsigned(it[0]) * 2654435761u + unsigned(it[1])) ^ (seed * 40503u);
  }
  kernel void smooth(item<2> it, inout<unsigned, 2> u, in<unsigned, 2> before, int rows) {
    const int i = it[0], j = it[1];
    const unsigned above = before(i > 0 ? i - 1 : i, j);
    const unsigned below = before(i + 1 < rows ? i + 1 : i, j);
    u(i, j) = u(i, j) * 1664525u + (above ^ below << 1) + 1013904223u;
  }
  kernel void add_up(item<1> it, in<unsigned, 2> u, out<unsigned, 1> sum, int columns) {
    unsigned all = 0;
    for (int j = 0; j < columns; ++j) all = (all ^ u(it[0], j)) * 16777619u;
    sum(it[0]) = all;
  }
]]

local layer = {}
for k = 1, layers do
  layer[k] = celer.buffer("unsigned", { rows, columns }, { name = "layer " .. k })
  q:submit(function(cg)
    cg:parallel_for({ rows, columns }, kernels.fill, cg:discard_write(layer[k]), k)
  end)
end

for _ = 1, sweeps do
  for k = 1, layers do
    q:submit(function(cg)
      cg:parallel_for({ rows, columns }, kernels.smooth, cg:read_write(layer[k]),
        cg:read(layer[k % layers + 1], celer.neighborhood(1, 0)), rows)
    end)
  end
end

for k = 1, layers do
  local sum = celer.buffer("unsigned", { rows }, { name = "sum" })
  q:submit(function(cg)
    cg:parallel_for({ rows }, kernels.add_up,
      cg:read(layer[k], function(chunk)
        return celer.box({ chunk.min[0], 0 }, { chunk.max[0], columns })
      end), cg:discard_write(sum), columns)
  end)
  local s, all = q:wait(sum), 0
  for i = 0, rows - 1 do all = (all * 31 + s(i)) % 2 ^ 32 end
  print(("layer %d: %d rows, %08x"):format(k, rows, all))
end
