--- extents.lua -- extents as users give them, checked.
local place = require "celer.place"
local words = require "celer.words"

local M = {}

local LIMIT = 2 ^ 53 -- elements; every count up to it is exact in a double

-- Without `for ... in pairs`, which drops an element of an array once in many
-- thousand loops where LuaJIT has given up compiling it (its issue 1510).
local function check_keys(extents, what)
  local n, key = 0, next(extents)
  while key ~= nil do
    if type(key) ~= "number" or key % 1 ~= 0 or key < 1 or key > 3 then
      place.fail("%s must be a table of at most 3 numbers, such as {4, 8}; this "
        .. "one has an entry [%s]", what, tostring(key))
    end
    n, key = math.max(n, key), next(extents, key)
  end
  return n
end

--- How many there are, and a new table of them, indexed from 1.
---@param extents integer|integer[]
---@param what string  begins the message when they are none: "f: the extents"
---@return integer dims, integer[] extents
function M.read(extents, what)
  if type(extents) == "number" then extents = { extents } end
  if type(extents) ~= "table" or getmetatable(extents) then
    place.fail("%s must be a table of at most 3 numbers, such as {4, 8}, not %s",
      what, words.a(extents))
  end
  local dims, out, total = check_keys(extents, what), {}, 1
  for d = 1, dims do
    local n = extents[d]
    if type(n) ~= "number" or n % 1 ~= 0 or n < 0 then
      place.fail("%s must be whole numbers that are not negative; number %d is %s",
        what, d, type(n) == "number" and tostring(n) or words.a(n))
    end
    out[d], total = n + 0, total * math.max(n, 1) -- + 0: no -0
  end
  if total > LIMIT then
    place.fail("%s: %.3g elements are too many; 2^53 are the most", what, total)
  end
  return dims, out
end

return M
