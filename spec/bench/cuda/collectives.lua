-- What all GPUs exchange, of a buffer of so many MiB: `all_gather`: all read what each
-- wrote a part of; `uneven`: the same, of parts that differ by one row; `broadcast`: all
-- read what one wrote; `scatter`: each reads its part of that; `gather`: one reads what
-- each wrote a part of. Kernels touch next to nothing of it.
--   mpirun -n 8 celer run collectives.lua MiB rounds pattern GPUs
local celer = require "celer"
local measure = require "measure"

local mib, steps = tonumber(arg[1]) or 1, tonumber(arg[2]) or 4
local pattern = arg[3] or "all_gather"
local gpus = tonumber(arg[4]) or 2
local ROWS = 16 -- of each GPU

local rows = gpus * ROWS + (pattern == "uneven" and 1 or 0)
local row = math.floor(mib * 2 ^ 16 / rows) -- elements of 16 bytes

local q = celer.queue()
local u = celer.buffer("float4", { rows * row }, { name = "u" })
local seen = celer.buffer("double", { pattern == "gather" and 1 or gpus }, { name = "seen" })

local k = celer.kernel [[
  kernel void clear(item<1> it, out<float4, 1> u) { u(it[0]) = make_float4(0, 0, 0, 0); }

  // Changes one element of its row and has the right to change them all.
  kernel void touch(item<1> it, inout<float4, 1> u, int row, int t) {
    u((int64_t)it[0] * row).x = t;
  }

  // The same, of all rows.
  kernel void touch_all(item<1> it, inout<float4, 1> u, int rows, int row, int t) {
    for (int r = 0; r < rows; ++r) u((int64_t)r * row).x = t;
  }

  // Looks at `n` rows, from that of its number times `step` on.
  kernel void look(item<1> it, in<float4, 1> u, out<double, 1> seen, int n, int step, int row) {
    double sum = 0;
    for (int r = 0; r < n; ++r) sum += u(((int64_t)it[0] * step + r) * row).x;
    seen(it[0]) = sum;
  }
]]

local function own_row(chunk)
  return celer.box({ chunk.min[0] * row }, { chunk.max[0] * row })
end

local function own_part(chunk)
  return celer.box({ chunk.min[0] * ROWS * row }, { chunk.max[0] * ROWS * row })
end

local one = pattern == "broadcast" or pattern == "scatter"

local function write(t)
  q:submit(function(cg)
    if one then
      cg:parallel_for({ 1 }, k.touch_all, cg:read_write(u, celer.all), rows, row, t)
    else
      cg:parallel_for({ rows }, k.touch, cg:read_write(u, own_row), row, t)
    end
  end)
end

local function read()
  local part = pattern == "scatter"
  q:submit(function(cg)
    cg:parallel_for({ pattern == "gather" and 1 or gpus }, k.look,
      cg:read(u, part and own_part or celer.all), cg:discard_write(seen),
      part and ROWS or rows, part and ROWS or 0, row)
  end)
end

q:submit(function(cg) cg:parallel_for({ rows * row }, k.clear, cg:discard_write(u)) end)
measure.loop(q, 10, steps, function(from, to)
  for t = from, to - 1 do
    write(t)
    read()
  end
end)
measure.report(q:wait(seen)[0])
