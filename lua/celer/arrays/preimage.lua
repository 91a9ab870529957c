--- preimage.lua -- celer.preimage: which items name something in a box.
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local compact = require "celer.arrays.compact"
local contents = require "celer.data.contents"
local given = require "celer.arrays.given"
local make = require "celer.arrays.make"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local snapshot = require "celer.data.snapshot"

local fail = place.fail

local M = {}

local index_types = { i4 = true, u4 = true, i8 = true }

--- The items whose element of an index lies in a box: their numbers in ascending order, as a new
--- buffer of int64_t. An image goes from items to what they name, and this the other way. Waits for
--- how many there are; a dry run takes all.
---@param index celer.buffer  of one dimension, of int32_t, uint32_t or int64_t
---@param part celer.box  of one dimension, as celer.box({ first }, { last + 1 })
---@return celer.buffer
function M.new(index, part)
  local call = "celer.preimage"
  given.buffer(call, "the first argument", index)
  if index.dims ~= 1 or not index_types[index.type.class .. index.type.size] then
    fail("%s: an index has one dimension here, of int32_t, uint32_t or int64_t; this is %s", call,
      tostring(index))
  elseif not box.is_box(part) or part.dims ~= 1 then
    fail("%s: the second argument is a box of one dimension, as celer.box({ 10 }, { 20 })", call)
  end
  local n, lo, hi = index.size[0], box.bounds(part)
  local items, found = make.arange("int64_t", n), buffers.new("int64_t", { n })
  local count = compact.compact(index:ge(lo[1]):both(index:lt(hi[1])), found, items)
  local k = tonumber(queues.new():wait(snapshot.capture(count, nil, { dry = n }))())
  local out = buffers.new("int64_t", { k }, { name = "items of " .. index.name })
  if k > 0 then contents.copy(found, out, { part = box.new({ 0 }, { k }) }) end
  for _, buffer in ipairs { items, found, count } do buffer:free() end
  return out
end

return M
