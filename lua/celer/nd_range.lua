--- nd_range.lua -- an index space in work groups, for kernels of group<D>.
local extents = require "celer.extents"
local place = require "celer.place"
local words = require "celer.words"

local fail = place.fail

local M = {}

local MOST = 1024 -- items of a group, as on a GPU

---@class celer.nd_range
---@field size integer[]
---@field group integer[]
local Range = { __noun = "nd_range" }

function Range:__tostring()
  return ("nd_range {%s} in groups of {%s}"):format(table.concat(self.size, ", "),
    table.concat(self.group, ", "))
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
  local items = 1
  for d = 1, dims do
    if part[d] < 1 then fail("celer.nd_range: a group has at least one item") end
    if whole[d] % part[d] ~= 0 then
      fail("celer.nd_range: %d items of dimension %d are not a multiple of the "
        .. "group's %d; make the range larger and let the kernel skip the rest",
        whole[d], d - 1, part[d])
    end
    items = items * part[d]
  end
  if items > MOST then
    fail("celer.nd_range: a group of %d items; %d are the most", items, MOST)
  end
  return setmetatable({ size = whole, group = part }, Range)
end

function M.is_nd_range(value) return getmetatable(value) == Range end

return M
