--- nd_range.lua -- an index space in work groups: for kernels of group<D>, to which it
--- says how large these are, and for those of tile<N, ...>, which say it themselves.
local extents = require "celer.extents"
local place = require "celer.place"
local words = require "celer.words"

local fail = place.fail

local M = {}

local MOST = 1024 -- items of a group, as on a GPU
local MOST_PLANES = 64 -- the same along the first of three dimensions

---@class celer.nd_range
---@field size integer[]
---@field group integer[]
local Range = { __noun = "nd_range" }

function Range:__tostring()
  return ("nd_range {%s} in groups of {%s}"):format(table.concat(self.size, ", "),
    table.concat(self.group, ", "))
end

--- How many items there are in a group.
---@param group integer[]
---@return integer
function M.items(group)
  local n = 1
  for d = 1, #group do n = n * group[d] end
  return n
end

-- Each extent is to be a multiple of the group's, which messages call `what`.
local function check_multiple(size, group, call, what)
  for d = 1, #group do
    if size[d] % group[d] ~= 0 then
      fail("%s: %d items of dimension %d are not a multiple of the %s's %d; make the "
        .. "range larger and let the kernel skip the rest", call, size[d], d - 1, what,
        group[d])
    end
  end
end

--- An index space of `size` items, in groups of `group` items that share local
--- memory and barriers. Each size is a multiple of the group's.
---@param size integer|integer[]
---@param group integer|integer[]
---@return celer.nd_range
function M.new(size, group)
  local dims, whole = extents.read(size, "celer.nd_range: the size")
  local group_dims, part = extents.read(group, "celer.nd_range: the group")
  if dims ~= group_dims or dims == 0 then
    fail("celer.nd_range: the size has %s and the group %d; both have 1 to 3",
      words.count(dims, "dimension"), group_dims)
  end
  for d = 1, dims do
    if part[d] < 1 then fail("celer.nd_range: a group has at least one item") end
  end
  check_multiple(whole, part, "celer.nd_range", "group")
  local items = M.items(part)
  if items > MOST then
    fail("celer.nd_range: a group of %d items; %d are the most", items, MOST)
  elseif dims == 3 and part[1] > MOST_PLANES then
    fail("celer.nd_range: a group of %d items along the first of three dimensions; %d "
      .. "are the most", part[1], MOST_PLANES)
  end
  return setmetatable({ size = whole, group = part }, Range)
end

--- The range of a kernel of tiles, which are its groups.
---@param range integer[]|integer|celer.nd_range
---@param tile integer[]
---@param kernel string  for messages
---@return celer.nd_range
function M.tiled(range, tile, kernel)
  if M.is_nd_range(range) then
    if table.concat(range.group, ", ") == table.concat(tile, ", ") then return range end
    fail("cg:parallel_for: kernel %s takes tiles of its own size, not groups of {%s}; "
      .. "give it the range {%s} alone", kernel, table.concat(range.group, ", "),
      table.concat(range.size, ", "))
  end
  local dims, whole = extents.read(range, "cg:parallel_for: the range")
  if dims ~= #tile then
    fail("cg:parallel_for: kernel %s takes tiles of %s, but the range has %d", kernel,
      words.count(#tile, "dimension"), dims)
  end
  check_multiple(whole, tile, "cg:parallel_for", "tile")
  return setmetatable({ size = whole, group = tile }, Range)
end

function M.is_nd_range(value) return getmetatable(value) == Range end

return M
