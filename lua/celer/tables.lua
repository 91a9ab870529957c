--- tables.lua -- walking tables in an order that all ranks share.
local place = require "celer.place"

local M = {}

local ordered = { number = true, string = true, boolean = true } -- types of keys

local function before(a, b)
  local ta, tb = type(a), type(b)
  if ta ~= tb then return ta < tb end
  if ta == "boolean" then return not a and b end
  return a < b
end

--- `pairs`, under a name that LuaJIT does not know: `for ... in pairs` and `in next`
--- it compiles specially, and where it has given that up, while such a loop runs,
--- the loop may end early (its issues 827 and 1510; about once in 50,000 loops).
M.each = pairs
local each = M.each

--- Like pairs, in ascending order of keys (numbers, strings and booleans).
--- `pairs` visits string keys in an order that differs between ranks.
---@generic K, V
---@param t table<K, V>
---@return fun(): K, V
function M.sorted_pairs(t)
  if type(t) ~= "table" then
    place.fail("celer.sorted_pairs walks a table, not %s", t == nil and "nil" or "a " .. type(t))
  end
  local keys = {}
  for k in each(t) do
    if not ordered[type(k)] then
      place.fail("celer.sorted_pairs: a key is a %s; there is an order of numbers, strings and "
        .. "booleans", type(k))
    end
    keys[#keys + 1] = k
  end
  table.sort(keys, before)
  local i = 0
  return function()
    i = i + 1
    local key = keys[i]
    if key ~= nil then return key, t[key] end
  end
end

return M
