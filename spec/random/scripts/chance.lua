--- chance.lua -- numbers by chance for the programs in Lua, the same on all ranks.
local M = {}

local state

--- From now on they are those of a seed.
function M.begin(seed) state = seed * 2654435761 % 2 ^ 31 end

--- A whole number from 0 to n - 1.
function M.random(n)
  state = (state * 1103515245 + 12345) % 2 ^ 31
  return math.floor(state / 2 ^ 31 * n)
end

function M.between(lo, hi) return lo + M.random(hi - lo + 1) end
function M.chance(percent) return M.random(100) < percent end
function M.one_of(list) return list[M.between(1, #list)] end

return M
