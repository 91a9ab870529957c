--- view.lua -- part of a buffer as Lua sees it: in host tasks and snapshots.
---
--- Coordinates are the buffer's own, 0-based. Reading and writing are checked
--- against the part that was promised; `:pointer()` is not.
local ffi = require "ffi"
local place = require "celer.place"

---@class celer.view
---@field name string  for messages
---@field dims integer
---@field type celer.type
---@field min table<integer, integer>  first coordinates, indexed from 0
---@field max table<integer, integer>  one past the last
local View = {}
local M = { View = View }

local function outside(self, i, j, k)
  local at, box = {}, {}
  for d = 0, self.dims - 1 do
    at[#at + 1] = tostring(({ [0] = i, j, k })[d])
    box[#box + 1] = ("[%d, %d)"):format(self.min[d], self.max[d])
  end
  place.fail("%s: element (%s) is outside %s, which is what this task may touch",
    self.name, table.concat(at, ", "), table.concat(box, " x "))
end

-- Offset of an element from the pointer, after the check.
local function offset(self, i, j, k)
  local min, max = self.min, self.max
  i, j, k = i or min[0], j or min[1], k or min[2]
  if not (i >= min[0] and i < max[0] and j >= min[1] and j < max[1]
    and k >= min[2] and k < max[2]) then
    outside(self, i, j, k)
  end
  return (i - self.low[0]) * self.stride[0] + (j - self.low[1]) * self.stride[1]
    + (k - self.low[2])
end

function View:__call(i, j, k) return self.data[offset(self, i, j, k)] end

--- Writes one element: v:set(i, j, value) in two dimensions.
function View:set(...)
  if not self.writable then
    place.fail("%s is only read by this task; declare it with cg:discard_write, "
      .. "cg:write or cg:read_write", self.name)
  end
  local value = select(self.dims + 1, ...)
  local i, j, k = ...
  if self.dims < 3 then k = nil end
  if self.dims < 2 then j = nil end
  if self.dims < 1 then i = nil end
  self.data[offset(self, i, j, k)] = value
end

--- A pointer to the first element promised, and the strides, in elements, of
--- each dimension.
function View:pointer()
  local at = (self.min[0] - self.low[0]) * self.stride[0]
    + (self.min[1] - self.low[1]) * self.stride[1] + self.min[2] - self.low[2]
  local strides = {}
  for d = 0, self.dims - 1 do strides[d + 1] = self.stride[d] end
  return self.data + at, unpack(strides)
end

--- The elements promised as bytes, row-major without gaps.
function View:string()
  local min, max = self.min, self.max
  local rows, run = {}, (max[2] - min[2]) * self.type.size
  if self.dims == 1 then run = (max[0] - min[0]) * self.type.size end
  if self.dims == 1 then return ffi.string(self.data + offset(self), run) end
  if self.dims == 2 then run = (max[1] - min[1]) * self.type.size end
  for i = min[0], max[0] - 1 do
    for j = min[1], self.dims == 3 and max[1] - 1 or min[1] do
      rows[#rows + 1] = ffi.string(self.data + offset(self, i, j, min[2]), run)
    end
  end
  return table.concat(rows)
end

function View:__index(key)
  if type(key) == "number" then
    if self.dims ~= 1 then
      place.fail("%s has %d dimensions: write %s(i, j) to read, :set(i, j, v) "
        .. "to write", self.name, self.dims, self.name)
    end
    return self.data[offset(self, key)]
  end
  return View[key]
end

function View:__newindex(key, value)
  if type(key) ~= "number" or self.dims ~= 1 then
    place.fail("%s has no field %s to write", self.name, tostring(key))
  end
  self:set(key, value)
end

function View:__len() return self.max[0] - self.min[0] end

function View:__tostring()
  local box = {}
  for d = 0, self.dims - 1 do
    box[#box + 1] = ("[%d, %d)"):format(self.min[d], self.max[d])
  end
  return ("%s: %s %s"):format(self.name, self.type.name,
    self.dims == 0 and tostring(self.data[0]) or table.concat(box, " x "))
end

-- A view must not hold nil fields: __index would look them up as methods.
--- `data` is an address; layout and box are six numbers each, min then max.
---@return celer.view
function M.new(fields, data, layout, box)
  local e1, e2 = layout[5] - layout[2], layout[6] - layout[3]
  fields.data = ffi.cast(ffi.typeof("$ *", fields.type.ctype), data)
  fields.low = { [0] = layout[1], layout[2], layout[3] }
  fields.stride = { [0] = e1 * e2, e2, 1 }
  fields.min = { [0] = box[1], box[2], box[3] }
  fields.max = { [0] = box[4], box[5], box[6] }
  fields.writable = fields.writable or false
  return setmetatable(fields, View)
end

return M
