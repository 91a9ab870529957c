--- constant.lua -- initial contents that are the same for each element.
local ffi = require "ffi"

local M = {}

-- What is copied at once: it stays in a processor's cache.
local BLOCK = 65536

--- Fills a box, six numbers, at an address with elements of these bytes.
---@param part integer[]
---@param to ffi.cdata*
---@param bytes string
function M.fill(part, to, bytes)
  local all = #bytes
  for d = 1, 3 do all = all * (part[d + 3] - part[d]) end
  if all == 0 then return end
  to = ffi.cast("char *", to)
  ffi.copy(to, bytes, #bytes)
  local done, block = #bytes, #bytes
  while done < all do
    local n = math.min(block, all - done)
    ffi.copy(to + done, to, n)
    done = done + n
    if block < BLOCK then block = done end
  end
end

return M
