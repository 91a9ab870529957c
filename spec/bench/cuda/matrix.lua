-- A matrix of so many MiB that is written by rows and read by columns, one block of rows
-- and one of columns for each GPU. `transpose`: of two dimensions; `blocks`: of three, so
-- that what one GPU gives to another lies side by side. Kernels touch next to nothing.
--   mpirun -n 8 celer run matrix.lua MiB rounds transpose|blocks GPUs
local celer = require "celer"
local measure = require "measure"

local mib, steps = tonumber(arg[1]) or 1, tonumber(arg[2]) or 4
local blocks = arg[3] == "blocks"
local gpus = tonumber(arg[4]) or 2
local ROWS = 16 -- of each GPU are looked at

local unit = gpus * ROWS
local side = math.floor(math.sqrt(mib * 2 ^ 16) / unit) * unit -- elements of 16 bytes
local width = side / gpus
local extent = blocks and { gpus, gpus, width * width } or { side, side }

local q = celer.queue()
local u = celer.buffer("float4", extent, { name = "u" })
local seen = celer.buffer("double", gpus, { name = "seen" })

local k = celer.kernel([[
  #if BLOCKS
  #define ALL it[0], it[1], it[2]
  #define AT(row, column) u(row, column, 0)
  #else
  #define ALL it[0], it[1]
  #define AT(row, column) u((row) * STEP, (column) * WIDTH)
  #endif

  kernel void clear(item<D> it, out<float4, D> u) { u(ALL) = make_float4(0, 0, 0, 0); }

  // Changes one element of each block, and has the right to change all of its row.
  kernel void touch(item<1> it, inout<float4, D> u, int t) {
    for (int e = 0; e < GPUS; ++e) AT(it[0], e).x = t;
  }

  kernel void look(item<1> it, in<float4, D> u, out<double, 1> seen) {
    double sum = 0;
    for (int r = 0; r < LOOKED_AT; ++r) sum += AT(r, it[0]).x;
    seen(it[0]) = sum;
  }
]], { defines = { BLOCKS = blocks and 1 or 0, D = blocks and 3 or 2, GPUS = gpus,
  WIDTH = width, STEP = width / ROWS, LOOKED_AT = blocks and gpus or gpus * ROWS } })

local function rows(chunk)
  if blocks then
    return celer.box({ chunk.min[0], 0, 0 }, { chunk.max[0], gpus, width * width })
  end
  local step = width / ROWS
  return celer.box({ chunk.min[0] * step, 0 }, { chunk.max[0] * step, side })
end

local function columns(chunk)
  if blocks then
    return celer.box({ 0, chunk.min[0], 0 }, { gpus, chunk.max[0], width * width })
  end
  return celer.box({ 0, chunk.min[0] * width }, { side, chunk.max[0] * width })
end

q:submit(function(cg) cg:parallel_for(extent, k.clear, cg:discard_write(u)) end)
measure.loop(q, 10, steps, function(from, to)
  for t = from, to - 1 do
    q:submit(function(cg)
      cg:parallel_for({ blocks and gpus or gpus * ROWS }, k.touch, cg:read_write(u, rows), t)
    end)
    q:submit(function(cg)
      cg:parallel_for({ gpus }, k.look, cg:read(u, columns), cg:discard_write(seen))
    end)
  end
end)
measure.report(q:wait(seen)[0])
