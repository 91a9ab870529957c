--- extents.lua -- extents as users give them, checked.
local box = require "celer.box"
local place = require "celer.place"

local M = {}

local LIMIT = 2 ^ 53 -- elements; every count up to it is exact in a double

local function check_keys(extents, what)
  local n = 0
  for key in pairs(extents) do
    if type(key) ~= "number" or key % 1 ~= 0 or key < 1 or key > 3 then
      place.fail("%s: the extents must be a table of at most 3 numbers; this one "
        .. "has an entry [%s]", what, tostring(key))
    end
    n = math.max(n, key)
  end
  return n
end

--- How many there are, and a new table of them, indexed from 1.
---@param extents integer|integer[]
---@param what string  begins the message when they are no extents
---@return integer dims, integer[] extents
function M.read(extents, what)
  if type(extents) == "number" then extents = { extents } end
  if type(extents) ~= "table" or getmetatable(extents) then
    place.fail("%s: the extents must be a table of at most 3 numbers, not %s",
      what, box.is_box(extents) and "a box" or "a " .. type(extents))
  end
  local dims, out, total = check_keys(extents, what), {}, 1
  for d = 1, dims do
    local n = extents[d]
    if type(n) ~= "number" or n % 1 ~= 0 or n < 0 then
      place.fail("%s: extent %d must be a whole number that is not negative, "
        .. "not %s", what, d, tostring(n))
    end
    out[d], total = n + 0, total * math.max(n, 1) -- + 0: no -0
  end
  if total > LIMIT then
    place.fail("%s: the extents make %.3g elements; 2^53 are the most", what,
      total)
  end
  return dims, out
end

return M
