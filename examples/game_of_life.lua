-- Conway's game of life on a bounded board, printed as text.
--   celer run game_of_life.lua [height] [width] [generations]
local celer = require "celer"

local h = tonumber(arg[1]) or 12
local w = tonumber(arg[2]) or 32
local generations = tonumber(arg[3]) or 24

local q = celer.queue()

-- A glider in the upper left corner.
local glider = { [0] = { [1] = 1 }, { [2] = 1 }, { [0] = 1, 1, 1 } }
local function first(i, j) return glider[i] and glider[i][j] or 0 end

local board = celer.buffer("uint8_t", { h, w }, { name = "board", init = first })
local next_board = celer.buffer("uint8_t", { h, w }, { name = "next_board" })

local live = celer.kernel [[
  kernel void live(item<2> it, in<uint8_t, 2> board, out<uint8_t, 2> next) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    int neighbours = 0;
    for (int dy = -1; dy <= 1; ++dy)
      for (int dx = -1; dx <= 1; ++dx)
        if ((dy || dx) && y + dy >= 0 && y + dy < h && x + dx >= 0 && x + dx < w)
          neighbours += board(y + dy, x + dx);
    next(y, x) = neighbours == 3 || (neighbours == 2 && board(y, x));
  }
]]

for _ = 1, generations do
  q:submit(function(cg)
    cg:parallel_for({ h, w }, live, cg:read(board, celer.neighborhood(1, 1)),
      cg:discard_write(next_board))
  end)
  board, next_board = next_board, board
end

local final = q:drain(celer.capture(board))
local alive = 0
for y = 0, h - 1 do
  local line = {}
  for x = 0, w - 1 do
    alive = alive + final(y, x)
    line[#line + 1] = final(y, x) == 1 and "#" or "."
  end
  print(table.concat(line))
end
print(("%d cells live after %d generations"):format(alive, generations))
