--- plan.lua -- how a buffer lies in a file, and which rank takes which part.
---
--- A plan cuts a box of a buffer along one dimension into blocks of `step` rows;
--- a rank gets whole blocks. Blocks do not depend on the number of ranks that
--- read them, so their hashes can be compared by any.
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local mapper = require "celer.mapper.builtin"
local words = require "celer.words"

local M = {}

local MOST = 4096 -- blocks

---@class celer.io.plan
---@field header string?  what the file begins with
---@field at integer?  the byte where the data begins
---@field dataset string?  HDF5: its name, which stands for the two above
---@field kind celer.io.kind?  HDF5: the elements
---@field descr string?  HDF5: the same, as in dtype.lua
---@field shape integer[]?  HDF5: the extents
---@field grows true|integer|nil  HDF5: it is a step of the dataset: the next one, or the
---  one after so many
---@field tall integer?  HDF5: rows of the first dimension in a piece of the file
---@field pieces integer?  HDF5
---@field first integer?  HDF5: the first piece's index among those of a save
---@field empty boolean?  HDF5: it has no element
---@field size integer  bytes of an element
---@field dims integer
---@field window integer[]  the box that the file holds: min, then max, of three
---@field along integer  the dimension that is cut, from 1
---@field n integer  its extent in the box
---@field step integer  rows of a block
---@field blocks integer

-- The first dimension with something for each rank, else the longest.
local function cut_along(window, dims, ranks)
  local best = 1
  for d = 1, dims do
    local n = window[d + 3] - window[d]
    if n >= ranks then return d end
    if n > window[best + 3] - window[best] then best = d end
  end
  return best
end

--- Why `part` is no box within the extents, which are those of `what`; or nil.
---@return string?
function M.box_fault(part, extents, what)
  if not box.is_box(part) then
    return ("the box must be a celer.box, not %s"):format(words.a(part))
  elseif part.dims ~= #extents then
    return ("the box has %s, %s has %d"):format(words.count(part.dims, "dimension"), what,
      #extents)
  end
  for d = 0, part.dims - 1 do
    if part.min[d] < 0 or part.max[d] > extents[d + 1] or part.max[d] < part.min[d] then
      return ("the box %s leaves %s, which is %s"):format(tostring(part), what,
        table.concat(extents, " x "))
    end
  end
end

--- The index of a step along the first dimension, from 0; negative ones count from the
--- end. Or nil and why there is none.
---@param shape integer[]
---@param step integer
---@return integer? index, string? fault
function M.index_of(shape, step)
  local n = shape[1]
  if not n then return nil, "it is a single element, and has no steps" end
  local index = step < 0 and step + n or step
  if index >= 0 and index < n then return index end
  return nil, n == 0 and "it has no steps yet"
    or ("it has %s, 0 to %d, and no step %.0f"):format(words.count(n, "step"), n - 1, step)
end

--- Six numbers for a box: [0, 1) where it has no dimension.
function M.window(part)
  local out = { 0, 0, 0, 1, 1, 1 }
  for d = 0, part.dims - 1 do out[d + 1], out[d + 4] = part.min[d], part.max[d] end
  return out
end

--- A plan without its file's part, for a box of a buffer.
---@param buffer celer.buffer
---@param part celer.box
---@param ranks integer
---@return celer.io.plan
function M.new(buffer, part, ranks)
  local window = M.window(part)
  local along = cut_along(window, buffer.dims, ranks)
  local n = window[along + 3] - window[along]
  local step = math.max(1, math.ceil(n / MOST))
  return { size = buffer.type.size, dims = buffer.dims, window = window, along = along,
    n = n, step = step, blocks = math.ceil(n / step) }
end

--- The range mapper for the buffer: rows of the chunk, all else of the box.
---@param plan celer.io.plan
function M.rows(plan)
  if plan.dims == 0 then return mapper.all end
  local dims, a, b, c, d, e, f = plan.dims, unpack(plan.window)
  if plan.along == 1 then
    return function(chunk)
      return box.make(dims, a + chunk.min[0], b, c, a + chunk.max[0], e, f)
    end
  elseif plan.along == 2 then
    return function(chunk)
      return box.make(dims, a, b + chunk.min[0], c, d, b + chunk.max[0], f)
    end
  end
  return function(chunk)
    return box.make(dims, a, b, c + chunk.min[0], d, e, c + chunk.max[0])
  end
end

--- The range mapper for one element per block.
function M.per_block(plan)
  local step = plan.step
  return function(chunk)
    return box.make(1, mapper.floor(chunk.min[0] / step), 0, 0,
      mapper.ceil(chunk.max[0] / step))
  end
end

--- A buffer with an element for each block; the caller frees it.
function M.sums(plan, name)
  return buffers.new("uint64_t", { plan.blocks }, { name = name })
end

return M
