-- The Mandelbrot set, whose rows cost more or less to compute: a first, coarse
-- picture tells how much, and each rank then gets rows that cost the same.
--   celer run mandelbrot.lua [size] [iterations]
local celer = require "celer"

local n = tonumber(arg[1]) or 512
local most = tonumber(arg[2]) or 500
local coarse = math.min(n, 64)

local q = celer.queue()

local function iterations(x, y)
  local a, b, i = 0, 0, 0
  while i < most and a * a + b * b < 4 do
    a, b = a * a - b * b + x, 2 * a * b + y
    i = i + 1
  end
  return i
end

local draw_item = celer.kernel(function(y, x, steps)
  local scale = 3 / steps.size[0]
  steps[y][x] = iterations(x * scale - 2.25, y * scale - 1.5)
end, { name = "draw" })

local add_rows = celer.kernel(function(y, steps, sums)
  local sum = 0
  for x = 0, steps.size[1] - 1 do sum = sum + steps[y][x] end
  sums[y] = sum
end, { name = "add_rows" })

-- What the rows of a picture of m x m took, as a snapshot.
local function draw(m)
  local steps = celer.buffer("int", { m, m }, { name = "steps" })
  local sums = celer.buffer("int64_t", { m }, { name = "sums" })
  draw_item({ m, m }, steps)
  add_rows(m, steps, sums)
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
