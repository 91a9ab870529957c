--- ranks.lua -- how many there are.
local core = require "celer.core"

local M = {}

--- The number of ranks of the job; in a dry run, of those that are imagined.
---@return integer
function M.ranks()
  return (select(2, core.rank()))
end

return M
