--- packed.lua -- a view's elements in memory row by row without gaps, for what
--- reads or writes bytes in a row: files.
local ffi = require "ffi"
local view = require "celer.data.view"

local M = {}

function M.is_view(value) return getmetatable(value) == view.View end

-- Address of the first element; how many elements there are in each dimension and
-- how far apart, the slowest first.
local function shape(v)
  view.touch(v)
  local size = { v.h0 - v.l0, v.h1 - v.l1, v.h2 - v.l2 }
  local stride = { v.s0, v.s1, 1 }
  return v.data + (v.l0 * v.s0 + v.l1 * v.s1 + v.l2), size, stride
end

-- Whether they lie without gaps already.
local function is_dense(size, stride)
  local step = 1
  for d = 3, 1, -1 do
    if size[d] > 1 and stride[d] ~= step then return false end
    step = step * size[d]
  end
  return true
end

--- Memory that holds the elements: the view's own where that has no gaps. Good as
--- long as the view and the third result are.
---@param v celer.view
---@return ffi.cdata* pointer, integer bytes, string? kept
function M.of(v)
  local p, size, stride = shape(v)
  local bytes = size[1] * size[2] * size[3] * v.type.size
  if bytes == 0 or is_dense(size, stride) then return p, bytes end
  local text = v:string()
  return ffi.cast("const char *", text), bytes, text
end

--- Memory to be filled with the elements, and what to call afterwards.
---@param v celer.view
---@return ffi.cdata* pointer, integer bytes, function done
function M.into(v)
  local p, size, stride = shape(v)
  local bytes = size[1] * size[2] * size[3] * v.type.size
  if bytes == 0 or is_dense(size, stride) then return p, bytes, function() end end
  local memory, row = ffi.new("char[?]", bytes), size[3] * v.type.size
  return memory, bytes, function()
    local from = memory + 0
    for i = 0, size[1] - 1 do
      for j = 0, size[2] - 1 do
        ffi.copy(p + i * stride[1] + j * stride[2], from, row)
        from = from + row
      end
    end
  end
end

return M
