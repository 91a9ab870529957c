--- reduce.lua -- the array reduction of the Parallel Research Kernels in celer:
---
---   celer run spec/bench/prk/reduce.lua STEPS REPETITIONS LENGTH
---
--- Each rank has two vectors. A step adds the second one to the first, then all first ones,
--- element by element, to rank 0's, as reduce.c has it with MPI. Rank 0's first vector is
--- the buffer that is reduced into.
local celer = require "celer"
local measure = require "measure"

local length, ranks = tonumber(arg[3]), celer.ranks()

local kernels = celer.kernel [[
  kernel void add(item<2> it, inout<double, 2> vector, in<double, 2> ones,
                  reducer<double, 1> sum) {
    const int rank = it[0], i = it[1];
    double x = ones(rank, i);
    if (rank > 0) x = vector(rank, i) += x;
    sum(i) += x;
  }
  kernel void compare(item<1> it, in<double, 1> sum, reducer<int64_t> wrong, double right) {
    wrong += sum(it[0]) != right;
  }
]]

local q = celer.queue()
local vector = celer.buffer("double", { ranks, length }, { name = "vector", init = 1 })
local ones = celer.buffer("double", { ranks, length }, { name = "ones", init = 1 })
local sum = celer.buffer("double", { length }, { name = "sum", init = 1 })
local wrong = celer.buffer("int64_t", {}, { name = "wrong" })

local steps = measure("reduce", q, function()
  q:submit(function(cg)
    cg:parallel_for({ ranks, length }, kernels.add, cg:read_write(vector), cg:read(ones),
      cg:reduce(sum, "sum", { include_current = true }))
  end)
end)
-- A step adds 1 to each vector, and to rank 0's what the others have.
local right = 1 + steps + (ranks - 1) * (steps + steps * (steps + 1) / 2)
q:submit(function(cg)
  cg:parallel_for({ length }, kernels.compare, cg:read(sum), cg:reduce(wrong, "sum"), right)
end)
assert(q:drain(wrong)() == 0, "the result is wrong")
