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

local fill = celer.kernel(function(i, j, a) a[i][j] = 7 * i + j end)
local turn = celer.kernel(function(i, j, from, to) to[i][j] = from[j][i] + i end)
-- What `steps` turns make of the first contents.
local compare = celer.kernel(function(i, j, a, count)
  local odd = steps % 2
  local first = odd == 1 and 7 * j + i or 7 * i + j
  count:add(a[i][j] == first + math.floor(steps / 2) * (i + j) + odd * i and 0 or 1)
end)

fill({ rows, columns }, A)
for _ = 1, steps do
  turn(B.extents, A, B)
  A, B = B, A
end
compare(A.extents, A, celer.sum(wrong))

print(("%d x %d, transposed %d times: %d elements are wrong"):format(rows, columns, steps,
  tonumber(q:drain(wrong)())))
