--- contents.lua -- what a buffer holds, set and copied by tasks of our own.
---
--- A fill and a copy are ordinary kernels, so they are divided over all devices,
--- come in order with everything else that touches the buffers, and overlap with
--- what does not.
local ffi = require "ffi"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local kernels = require "celer.kernel.kernel"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local types = require "celer.data.types"
local words = require "celer.words"

local fail = place.fail

local M = {}

local items = { [0] = "", "it[0]", "it[0], it[1]", "it[0], it[1], it[2]" }
local moved = { [0] = "", "it[0] + x", "it[0] + x, it[1] + y",
  "it[0] + x, it[1] + y, it[2] + z" }

local known = {} -- type -> by dimensions

-- Both kernels for buffers like this one.
local function kernels_for(buffer)
  local type_, dims = buffer.type, buffer.dims
  local by_dims = known[type_] or {}
  known[type_] = by_dims
  by_dims[dims] = by_dims[dims] or kernels.new(([[
    kernel void fill(item<D> it, out<T, D> to, T value) { to(%s) = value; }
    kernel void copy(item<D> it, in<T, D> from, out<T, D> to, int64_t x, int64_t y, int64_t z) {
      to(%s) = from(%s);
    }
  ]]):gsub("%f[%w]T%f[%W]", type_.name):gsub("%f[%w]D%f[%W]", tostring(dims))
    :format(items[dims], items[dims], moved[dims]))
  return by_dims[dims]
end

-- Raises unless an element can hold the value.
local function check_value(buffer, value)
  if value == nil then
    fail("celer.fill: the second argument must be the value of each element of %s, not nil",
      buffer.name)
  end
  local one = ffi.new(ffi.typeof("$[1]", buffer.type.ctype))
  local fault = types.store(buffer.type, one, 0, value)
  if fault then fail("celer.fill: %s: %s", buffer.name, fault) end
end

--- Sets each element of a buffer, or of a part of it, to a value.
---@param buffer celer.buffer
---@param value any  a number, a boolean, a struct as a table
---@param part? celer.box  default: all of it
function M.fill(buffer, value, part)
  buffers.check(buffer, "celer.fill")
  check_value(buffer, value)
  part = buffers.part(buffer, part, "celer.fill")
  local kernel = kernels_for(buffer).fill
  queues.run("celer.fill", function(cg)
    cg:parallel_for(part, kernel, cg:discard_write(buffer), value)
  end)
end

local options_known = { part = true, at = true }

local function check_pair(from, to)
  buffers.check(from, "celer.copy")
  if not buffers.is_buffer(to) then
    fail("celer.copy: the second argument must be a buffer, not %s", words.a(to))
  elseif to.freed then
    fail("celer.copy: the buffer %s was freed", to.name)
  elseif from.type ~= to.type then
    fail("celer.copy: %s holds %s, %s holds %s", from.name, from.type.name, to.name,
      to.type.name)
  elseif from.dims ~= to.dims then
    fail("celer.copy: %s has %s, %s has %d", from.name,
      words.count(from.dims, "dimension"), to.name, to.dims)
  end
end

-- Where the lower corner of the part goes.
local function corner_of(at, part)
  if at == nil then return (box.bounds(part)) end
  if type(at) == "number" then at = { at } end
  if type(at) ~= "table" or getmetatable(at) or #at ~= part.dims then
    fail("celer.copy: 'at' must be a table of %s, not %s",
      words.count(part.dims, "coordinate"), type(at) == "table" and "one of " .. #at or words.a(at))
  end
  for d = 1, part.dims do
    if type(at[d]) ~= "number" or at[d] % 1 ~= 0 then
      fail("celer.copy: 'at' must be whole numbers; number %d is %s", d, tostring(at[d]))
    end
  end
  return at
end

local function meet(a, b)
  for d = 0, a.dims - 1 do
    if a.max[d] <= b.min[d] or b.max[d] <= a.min[d] then return false end
  end
  return true
end

-- The box of `to` that part of `from` goes to, and how far it is back.
local function target_of(from, part, to, at)
  local lo, hi = box.bounds(part)
  local corner, back = corner_of(at, part), { 0, 0, 0 }
  for d = 1, part.dims do
    back[d] = lo[d] - corner[d]
    hi[d] = hi[d] - back[d]
  end
  local target = box.new({ unpack(corner, 1, part.dims) }, hi)
  buffers.part(to, target, "celer.copy")
  if from == to and meet(part, target) then
    fail("celer.copy: %s and %s are parts of %s that overlap", tostring(part),
      tostring(target), to.name)
  end
  return target, back
end

-- What item reads who stands (x, y, z) before it.
local function behind(dims, x, y, z)
  if dims == 0 or x == 0 and y == 0 and z == 0 then return nil end
  if dims == 1 then
    return function(c) return box.new({ c.min[0] + x }, { c.max[0] + x }) end
  elseif dims == 2 then
    return function(c)
      return box.new({ c.min[0] + x, c.min[1] + y }, { c.max[0] + x, c.max[1] + y })
    end
  end
  return function(c)
    return box.new({ c.min[0] + x, c.min[1] + y, c.min[2] + z },
      { c.max[0] + x, c.max[1] + y, c.max[2] + z })
  end
end

--- Copies a buffer, or a part of it, into another of the same type, or into another
--- part of itself. Options: `part`, a box of `from`, by default all of it; `at`, the
--- coordinates in `to` of its lower corner, by default the same as in `from`.
---@param from celer.buffer
---@param to celer.buffer
---@param options? {part: celer.box?, at: integer[]|integer|nil}
function M.copy(from, to, options)
  check_pair(from, to)
  options = options == nil and {} or options
  words.check_options("celer.copy", options, options_known, "{part = celer.box({0}, {8})}")
  local part = buffers.part(from, options.part, "celer.copy")
  local target, back = target_of(from, part, to, options.at)
  local kernel, dims = kernels_for(from).copy, from.dims
  local x, y, z = back[1], back[2], back[3]
  queues.run("celer.copy", function(cg)
    local r, w = cg:read(from, behind(dims, x, y, z)), cg:discard_write(to)
    cg:parallel_for(target, kernel, r, w, x, y, z)
  end)
end

return M
