--- transpose.lua -- the transposition of the Parallel Research Kernels in celer:
---
---   celer run spec/bench/prk/transpose.lua STEPS REPETITIONS ORDER [tiles]
---
--- In each step B += A^T, then A += 1, as transpose.c has it with MPI. `tiles`: by a kernel
--- of tiles, which brings one of A into local memory and reads its columns there. ORDER is
--- then a multiple of 16.
local celer = require "celer"
local measure = require "measure"

local n, by_tiles = tonumber(arg[3]), arg[4] == "tiles"
local TILE = 16

local kernels = celer.kernel([[
  kernel void begin(item<2> it, out<double, 2> a, out<double, 2> b) {
    a(it[0], it[1]) = it.linear();
    b(it[0], it[1]) = 0;
  }
  kernel void turn(item<2> it, in<double, 2> a, inout<double, 2> b) {
    const int i = it[0], j = it[1];
    b(i, j) += a(j, i);
  }
  kernel void turn_tile(tile<T, T> t, in<double, 2> a, inout<double, 2> b,
                        local<double, T * T> mine) {
    t.each([&](item<2> it) {
      const int y = it.local(0), x = it.local(1);
      mine[y * T + x] = a(t.number(1) * T + y, t.number(0) * T + x);
    });
    t.each([&](item<2> it) { b(it[0], it[1]) += mine[it.local(1) * T + it.local(0)]; });
  }
  kernel void increment(item<2> it, inout<double, 2> a) { a(it[0], it[1]) += 1; }
  kernel void compare(item<2> it, in<double, 2> b, reducer<int64_t> wrong, double steps) {
    const double first = double(it[1]) * it.range(1) + it[0];
    wrong += b(it[0], it[1]) != steps * first + steps * (steps - 1) / 2;
  }
]], { defines = { T = TILE } })

local q = celer.queue()
local A = celer.buffer("double", { n, n }, { name = "A" })
local B = celer.buffer("double", { n, n }, { name = "B" })
local wrong = celer.buffer("int64_t", {}, { name = "wrong" })

q:submit(function(cg)
  cg:parallel_for({ n, n }, kernels.begin, cg:discard_write(A), cg:discard_write(B))
end)
local steps = measure("transpose", q, function()
  q:submit(function(cg)
    cg:parallel_for({ n, n }, by_tiles and kernels.turn_tile or kernels.turn,
      cg:read(A, celer.transposed(1, 0)), cg:read_write(B))
  end)
  q:submit(function(cg) cg:parallel_for({ n, n }, kernels.increment, cg:read_write(A)) end)
end)
q:submit(function(cg)
  cg:parallel_for({ n, n }, kernels.compare, cg:read(B), cg:reduce(wrong, "sum"), steps)
end)
assert(q:drain(wrong)() == 0, "the result is wrong")
