--- sorting.lua -- what celer.sort does on each rank, in a collective host task.
---
--- Each rank sorts its part. Then all find, for the place in the whole order where a rank's part
--- begins, the key that comes there: by halving the keys, four bits at a time, while they count
--- together how many are smaller. Of equal keys those of lower ranks go first. So each rank knows
--- what of its part belongs to which rank, sends it there once, and sorts what has come.
local ffi = require "ffi"
local core = require "celer.core"

ffi.cdef(core.embedded "engine/base/radix.h")

local C = ffi.C

local M = {}

local BITS = 4 -- of a key that are found in one round
local STEPS = 2 ^ BITS - 1

-- The order of `count` numbers.
local function order_of(pointer, type_, descending, count)
  local order = C.cel_radix_create(pointer, type_.size, type_.class:byte(), descending, count)
  if order == nil then
    error({ message = ("celer.sort: there is no memory to sort %.0f elements on one rank, which "
      .. "takes 32 bytes for each"):format(count) }, 0)
  end
  return ffi.gc(order, C.cel_radix_destroy)
end

local function release(order) C.cel_radix_destroy(ffi.gc(order, nil)) end

-- The elements of a list in an order, as memory of their type; and what keeps that.
local function taken(order, pointer, view, count)
  local type_ = view.type
  local block = ffi.new("char[?]", math.max(count * type_.size, 1))
  C.cel_radix_take(order, pointer, type_.size, block)
  return ffi.cast(ffi.typeof("$ *", type_.ctype), block), block
end

-- Where the part of rank k begins, as celer.even_split divides `total` elements.
local function begin_of(k, total, ranks)
  local least = math.floor(total / ranks)
  return least * k + math.min(k, total - least * ranks)
end

local function count_below(order, code) return tonumber(C.cel_radix_below(order, code)) end

-- For each place where a part begins, from that of rank 1 on, the largest code of which no more
-- are smaller than come before the place.
local function find_codes(comm, order, bits, places)
  local n = #places
  local codes = ffi.new("uint64_t[?]", n + 1)
  local counts = ffi.new("uint64_t[?]", n * STEPS)
  for shift = bits - BITS, 0, -BITS do
    local step = 2ULL ^ shift
    for k = 1, n do
      for s = 1, STEPS do
        counts[(k - 1) * STEPS + s - 1] = C.cel_radix_below(order, codes[k] + s * step)
      end
    end
    comm:all_reduce(counts, n * STEPS, "sum")
    for k = 1, n do
      local s = 0
      while s < STEPS and counts[(k - 1) * STEPS + s] <= places[k] do s = s + 1 end
      codes[k] = codes[k] + s * step
    end
  end
  return codes
end

-- How many elements of this rank's order, from its beginning on, come before each place.
local function find_cuts(comm, order, bits, places, count)
  local n = #places
  local codes = find_codes(comm, order, bits, places)
  local below, equal = ffi.new("uint64_t[?]", n), ffi.new("uint64_t[?]", n)
  local most = 2ULL ^ bits - 1 -- 0 - 1 with 64 bits
  local cuts = {}
  for k = 1, n do
    below[k - 1] = C.cel_radix_below(order, codes[k])
    local upto = codes[k] == most and count or count_below(order, codes[k] + 1)
    cuts[k] = count_below(order, codes[k])
    equal[k - 1] = upto - cuts[k]
  end
  local before = ffi.new("uint64_t[?]", n)
  ffi.copy(before, equal, n * 8)
  comm:all_reduce(below, n, "sum")
  comm:scan(before, n, "sum", { exclusive = true })
  for k = 1, n do
    local wanted = places[k] - tonumber(below[k - 1]) - tonumber(before[k - 1])
    cuts[k] = cuts[k] + math.max(0, math.min(wanted, tonumber(equal[k - 1])))
  end
  return cuts
end

-- How many elements go to each rank.
local function counts_of(comm, order, bits, total, count)
  local places, out, from = {}, {}, 0
  for k = 1, comm.ranks - 1 do places[k] = begin_of(k, total, comm.ranks) end
  local cuts = find_cuts(comm, order, bits, places, count)
  for k = 0, comm.ranks - 1 do
    local upto = cuts[k + 1] or count
    out[k] = upto - from
    from = upto
  end
  return out
end

--- Sorts this rank's part of the keys, and of other buffers by them. Views are empty on ranks
--- that have no part.
---@param part table
---@param descending boolean
---@param total integer  elements on all ranks
---@param keys celer.view
---@param ... celer.view
function M.sort(part, descending, total, keys, ...)
  local comm, count, views = part.comm, keys.size[0], { keys, ... }
  local type_ = keys.type
  local order = order_of(keys:pointer(), type_, descending, count)
  local counts = part.ranks > 1 and total > 0
    and counts_of(comm, order, 8 * type_.size, total, count)
  local came = {}
  for i, view in ipairs(views) do
    local sorted, block = taken(order, view:pointer(), view, count)
    came[i] = { counts and comm:all_to_allv(sorted, counts) or sorted, block }
  end
  release(order)
  if counts then order = order_of(came[1][1], type_, descending, count) end
  for i, view in ipairs(views) do
    if counts then
      C.cel_radix_take(order, came[i][1], view.type.size, (view:pointer()))
    else
      ffi.copy(view:pointer(), came[i][1], count * view.type.size)
    end
  end
  if counts then release(order) end
end

return M
