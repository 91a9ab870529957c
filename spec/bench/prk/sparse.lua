--- sparse.lua -- the product of a sparse matrix and a vector of the Parallel Research
--- Kernels in celer:
---
---   celer run spec/bench/prk/sparse.lua STEPS REPETITIONS LOG RADIUS
---
--- In each step element i of the vector grows by i + 1, and the product of the matrix of
--- sparse.c and the vector, which all ranks read whole, is added to the result.
local celer = require "celer"
local measure = require "measure"

local log, radius = tonumber(arg[3]), tonumber(arg[4])
local side, star = 2 ^ log, 4 * radius + 1
local points = side * side

local kernels = celer.kernel([[
  static int64_t scrambled(int64_t x) {
    int64_t y = 0;
    for (int i = 0; i < BITS; ++i) y |= (x >> i & 1) << (BITS - 1 - i);
    return y;
  }

  kernel void begin(item<1> it, out<double, 2> matrix, out<int64_t, 2> column,
                    out<double, 1> vector, out<double, 1> result) {
    const int row = it[0], i = row % SIDE, j = row / SIDE;
    int64_t sorted[STAR];
    int n = 0;
    auto add = [&](int64_t x, int64_t y) {
      const int64_t c = scrambled((x + SIDE) % SIDE + (y + SIDE) % SIDE * SIDE);
      int k = n++;
      for (; k > 0 && sorted[k - 1] > c; --k) sorted[k] = sorted[k - 1];
      sorted[k] = c;
    };
    add(i, j);
    for (int r = 1; r <= RADIUS; ++r) add(i + r, j), add(i - r, j), add(i, j + r), add(i, j - r);
    for (int k = 0; k < STAR; ++k) {
      column(row, k) = sorted[k];
      matrix(row, k) = 1.0 / double(sorted[k] + 1);
    }
    vector(row) = result(row) = 0;
  }

  kernel void grow(item<1> it, inout<double, 1> vector) { vector(it[0]) += it[0] + 1; }

  kernel void multiply(item<1> it, in<double, 2> matrix, in<int64_t, 2> column,
                       in<double, 1> vector, inout<double, 1> result) {
    const int row = it[0];
    double sum = 0;
    for (int k = 0; k < STAR; ++k) sum += matrix(row, k) * vector(column(row, k));
    result(row) += sum;
  }

  kernel void add(item<1> it, in<double, 1> result, reducer<double> sum) { sum += result(it[0]); }
]], { defines = { BITS = 2 * log, SIDE = side, RADIUS = radius, STAR = star } })

local q = celer.queue()
local matrix = celer.buffer("double", { points, star }, { name = "matrix" })
local column = celer.buffer("int64_t", { points, star }, { name = "column" })
local vector = celer.buffer("double", { points }, { name = "vector" })
local result = celer.buffer("double", { points }, { name = "result" })
local sum = celer.buffer("double", {}, { name = "sum" })

local function rows(chunk)
  return celer.box({ chunk.min[0], 0 }, { chunk.max[0], star })
end

q:submit(function(cg)
  cg:parallel_for({ points }, kernels.begin, cg:discard_write(matrix, rows),
    cg:discard_write(column, rows), cg:discard_write(vector), cg:discard_write(result))
end)
local steps = measure("sparse", q, function()
  q:submit(function(cg) cg:parallel_for({ points }, kernels.grow, cg:read_write(vector)) end)
  q:submit(function(cg)
    cg:parallel_for({ points }, kernels.multiply, cg:read(matrix, rows), cg:read(column, rows),
      cg:read(vector, celer.all), cg:read_write(result))
  end)
end)
q:submit(function(cg)
  cg:parallel_for({ points }, kernels.add, cg:read(result), cg:reduce(sum, "sum"))
end)
local right = 0.5 * points * star * steps * (steps + 1)
assert(math.abs(q:drain(sum)() - right) <= 1e-12 * right, "the result is wrong")
