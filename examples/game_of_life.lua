-- Conway's game of life on a bounded board, printed as text; its kernel is written in Lua.
--   celer run game_of_life.lua [height] [width] [generations]
local celer = require "celer"

local h = tonumber(arg[1]) or 12
local w = tonumber(arg[2]) or 32
local generations = tonumber(arg[3]) or 24

-- A glider in the upper left corner.
local glider = { [0] = { [1] = 1 }, { [2] = 1 }, { [0] = 1, 1, 1 } }
local function first(i, j) return glider[i] and glider[i][j] or 0 end

local board = celer.buffer("uint8_t", { h, w }, { name = "board", init = first })
local next_board = celer.buffer("uint8_t", { h, w }, { name = "next_board" })

local live = celer.kernel(function(y, x, now, after)
  local neighbours = 0
  for dy = -1, 1 do
    for dx = -1, 1 do
      if (dy ~= 0 or dx ~= 0) and y + dy >= 0 and y + dy < h and x + dx >= 0 and x + dx < w then
        neighbours = neighbours + now[y + dy][x + dx]
      end
    end
  end
  after[y][x] = (neighbours == 3 or neighbours == 2 and now[y][x] == 1) and 1 or 0
end, { name = "live" })

for _ = 1, generations do
  live({ h, w }, board, next_board)
  board, next_board = next_board, board
end

local final = celer.drain(board)
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
