-- The Mandelbrot set, whose rows cost more or less to compute: a first, coarse
-- picture tells how much, and each rank then gets rows that cost the same.
--   celer run mandelbrot.lua [size] [iterations]
local celer = require "celer"

local n = tonumber(arg[1]) or 512
local most = tonumber(arg[2]) or 500
local coarse = math.min(n, 64)

local q = celer.queue()
local kernels = celer.kernel [[
  __device__ int iterations(double x, double y, int most) {
    double a = 0, b = 0;
    int i = 0;
    for (; i < most && a * a + b * b < 4; ++i) {
      const double next = a * a - b * b + x;
      b = 2 * a * b + y;
      a = next;
    }
    return i;
  }
  kernel void draw(item<2> it, out<int, 2> steps, int most) {
    const double scale = 3.0 / it.range(0);
    steps(it[0], it[1]) = iterations(it[1] * scale - 2.25, it[0] * scale - 1.5, most);
  }
  kernel void add_rows(item<1> it, in<int, 2> steps, out<int64_t, 1> sums, int w) {
    int64_t sum = 0;
    for (int x = 0; x < w; ++x) sum += steps(it[0], x);
    sums(it[0]) = sum;
  }
]]

local function rows(chunk, buffer)
  return celer.box({ chunk.min[0], 0 }, { chunk.max[0], buffer.size[1] })
end

-- What the rows of a picture of m x m took, as a snapshot.
local function draw(m)
  local steps = celer.buffer("int", { m, m }, { name = "steps" })
  local sums = celer.buffer("int64_t", { m }, { name = "sums" })
  q:submit(function(cg)
    cg:parallel_for({ m, m }, kernels.draw, cg:discard_write(steps), most)
  end)
  q:submit(function(cg)
    local s = cg:read(steps, rows)
    cg:parallel_for({ m }, kernels.add_rows, s, cg:discard_write(sums), m)
  end)
  return q:wait(celer.capture(sums, nil, { dry = m }))
end

local cost, total = draw(coarse), 0
for y = 0, coarse - 1 do total = total + tonumber(cost[y]) end

-- The row, with its fraction, below which a part of the cost lies.
local function row_at(part)
  local sum = 0
  for y = 0, coarse - 1 do
    local row = tonumber(cost[y])
    if sum + row >= part * total then return y + (part * total - sum) / row end
    sum = sum + row
  end
  return coarse
end

q:hint {
  weights = function(rank, ranks)
    return row_at((rank + 1) / ranks) - row_at(rank / ranks)
  end,
}
local took, sum = draw(n), 0
for y = 0, n - 1 do sum = sum + tonumber(took[y]) end
q:drain()
print(("%d x %d: %d steps in all, %d in the middle row"):format(n, n, sum,
  tonumber(took[n / 2 - n / 2 % 1])))
