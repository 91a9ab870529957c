-- A matrix that is transposed in every step: ranks have rows of it, and read
-- columns.
--   celer run transpose.lua [rows] [columns] [steps]
local celer = require "celer"

local rows, columns = tonumber(arg[1]) or 512, tonumber(arg[2]) or 384
local steps = tonumber(arg[3]) or 10

local q = celer.queue()
local A = celer.buffer("int", { rows, columns }, { name = "A" })
local B = celer.buffer("int", { columns, rows }, { name = "B" })
local wrong = celer.buffer("int64_t", {}, { name = "wrong" })

local kernels = celer.kernel [[
  kernel void fill(item<2> it, out<int, 2> a) { a(it[0], it[1]) = 7 * it[0] + it[1]; }
  kernel void turn(item<2> it, in<int, 2> from, out<int, 2> to) {
    to(it[0], it[1]) = from(it[1], it[0]) + it[0];
  }
  // What `steps` turns make of the first contents.
  kernel void compare(item<2> it, in<int, 2> a, reducer<int64_t> wrong, int steps) {
    const int i = it[0], j = it[1], odd = steps % 2;
    const int first = odd ? 7 * j + i : 7 * i + j;
    wrong += a(i, j) != first + steps / 2 * (i + j) + odd * i;
  }
]]

q:submit(function(cg)
  cg:parallel_for({ rows, columns }, kernels.fill, cg:discard_write(A))
end)
for _ = 1, steps do
  q:submit(function(cg)
    cg:parallel_for(B.extents, kernels.turn, cg:read(A, celer.transposed(1, 0)),
      cg:discard_write(B))
  end)
  A, B = B, A
end
q:submit(function(cg)
  cg:parallel_for(A.extents, kernels.compare, cg:read(A), cg:reduce(wrong, "sum"), steps)
end)

print(("%d x %d, transposed %d times: %d elements are wrong"):format(rows, columns, steps,
  tonumber(q:drain(wrong)())))
