--- tables.lua -- walking tables in an order that all ranks share.
local M = {}

local function before(a, b)
  local ta, tb = type(a), type(b)
  if ta ~= tb then return ta < tb end
  if ta == "boolean" then return not a and b end
  return a < b
end

--- Like pairs, in ascending order of keys (numbers, strings and booleans).
--- `pairs` visits string keys in an order that differs between ranks.
function M.sorted_pairs(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys, before)
  local i = 0
  return function()
    i = i + 1
    local key = keys[i]
    if key ~= nil then return key, t[key] end
  end
end

return M
