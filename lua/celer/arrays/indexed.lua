--- indexed.lua -- histogram, gather and scatter: elements and bins by number.
local buffers = require "celer.data.buffer"
local given = require "celer.arrays.given"
local kernels = require "celer.kernel.kernel"
local mapper = require "celer.mapper.builtin"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local words = require "celer.words"

local fail = place.fail

local M = {}

local places = { "it[0]", "it[0], it[1]", "it[0], it[1], it[2]" }

local indexed = {
  -- Bins from `first` on, of `all`.
  histogram = [[
kernel void histogram(item<D> it, in<T, D> u, reducer<H, 1> bins, double low, double high,
                      double scale, int64_t first, int64_t n, int64_t all) {
  const double x = (double)u(AT);
  if (!(x >= low && x <= high)) return;
  int64_t k = (int64_t)((x - low) * scale);
  if (k >= all) k = all - 1;
  k -= first;
  if (k >= 0 && k < n) bins(k) += (H)1;
}
]],
  gather = [[
kernel void gather(item<D> it, in<H, D> index, in<T, 1> u, out<T, D> v, int64_t n) {
  const H k = index(AT);
  if (k >= 0 && (uint64_t)k < (uint64_t)n) v(AT) = u((int64_t)k);
}
]],
  -- Which item comes last to each element.
  last = [[
kernel void last(item<1> it, in<H, 1> index, reducer<int64_t, 1> item, int64_t n) {
  const H k = index(it[0]);
  if (k >= 0 && (uint64_t)k < (uint64_t)n) item((int64_t)k).combine(it[0]);
}
]],
  scatter = [[
kernel void scatter(item<1> it, in<H, 1> index, in<T, 1> u, reducer<T, 1> v, int64_t n) {
  const H k = index(it[0]);
  if (k >= 0 && (uint64_t)k < (uint64_t)n) v((int64_t)k).combine(u(it[0]));
}
]],
  route = [[
kernel void route_to(item<1> it, in<H, 1> index, in<T, 1> u, route<T> v, int64_t n) {
  const H k = index(it[0]);
  if (k >= 0 && (uint64_t)k < (uint64_t)n) v.push((int64_t)k, u(it[0]));
}
]],
}

local indexed_kernels = {} -- by name, types and dimensions

-- T is the type of elements, H that of bins or indices.
local function indexed_kernel(name, type_, other, dims)
  local key = table.concat({ name, type_.name, other.name, dims }, "\0")
  if not indexed_kernels[key] then
    local words_of = { T = type_.name, H = other.name, D = tostring(dims), AT = places[dims] }
    local source = indexed[name]:gsub("%f[%w]%u+%f[%W]", words_of)
    indexed_kernels[key] = kernels.new(source)
  end
  return indexed_kernels[key]
end

local function is_whole(type_) return type_.class == "i" or type_.class == "u" end

local LARGEST = 2 ^ 26 -- bytes that are reduced into: a copy for each device

-- Whether elements of an array are combined alike in any order.
local function is_exact(type_) return is_whole(type_) and type_.size >= 4 end

-- What of a histogram is counted, from low to high, and how many bins one takes.
local function range_of(call, out, from, low, high)
  if low == nil and high == nil then
    if not is_whole(from.type) then
      fail("%s: without a range the elements of %s are the numbers of bins, so they must be whole: "
        .. "give the least and the greatest number", call, from.name)
    end
    return 0, out.size[0] - 1, 1
  end
  for i, bound in ipairs { low or false, high or false } do
    if type(bound) ~= "number" or bound - bound ~= 0 then
      fail("%s: argument %d is the %s number that is counted, not %s", call, i + 2,
        i == 1 and "least" or "greatest", type(bound) == "number" and tostring(bound)
        or words.a(bound or nil))
    end
  end
  if low >= high then fail("%s: the range from %g to %g is empty", call, low, high) end
  return low, high, out.size[0] / (high - low)
end

--- Counts the elements of `from` in the bins of `out`, which are of equal width between low and
--- high; those outside are not counted. Without low and high an element is the number of its bin.
---@param out celer.buffer  of one dimension, int, int64_t or the like: a bin for each element
---@param from celer.buffer
---@param low? number
---@param high? number  in the last bin itself
function M.histogram(out, from, low, high)
  local call = "celer.histogram"
  given.buffer(call, "the first argument, which it writes,", out)
  given.buffer(call, "the second argument", from)
  if out.dims ~= 1 or not is_exact(out.type) or out == from then
    fail("%s: the bins are another buffer, of one dimension and whole numbers of 4 or 8 bytes; "
      .. "here is %s", call, tostring(out))
  elseif from.dims == 0 or not is_whole(from.type) and from.type.class ~= "f" then
    fail("%s: what is counted is a buffer of numbers with dimensions; here is %s", call,
      tostring(from))
  end
  local bins = out.size[0]
  local least, greatest, scale = range_of(call, out, from, low, high)
  local kernel = indexed_kernel("histogram", from.type, out.type, from.dims)
  local most = LARGEST / out.type.size
  for first = 0, bins - 1, most do
    local n = math.min(most, bins - first)
    local part = n < bins and buffers.new(out.type, { n }) or out
    queues.run(call, function(cg)
      cg:name(call)
      cg:parallel_for(from.extents, kernel, cg:read(from), cg:reduce(part, "sum"), least, greatest,
        scale, first, n, bins)
    end)
    if part ~= out then
      require("celer.data.contents").copy(part, out, { at = { first } })
      part:free()
    end
  end
end

-- Raises unless the arguments of a call fit: `index` has one for each element of `each`, into
-- `whole`; these are `out` and `from`.
local function check_indices(call, out, from, index, whole, each)
  given.buffer(call, "the first argument, which it writes,", out)
  given.buffer(call, "the second argument", from)
  given.buffer(call, "the third argument", index)
  if out == from or out == index then
    fail("%s: %s is written, and may not be read: write into another buffer", call, out.name)
  elseif not is_whole(index.type) then
    fail("%s: the indices are whole numbers; here is %s", call, tostring(index))
  elseif whole.type ~= each.type or whole.dims ~= 1 or each.dims == 0 then
    fail("%s: the indices lead to a buffer of one dimension, and both have the same type; here are "
      .. "%s and %s", call, tostring(whole), tostring(each))
  end
  local same = each.dims == index.dims
  for d = 0, each.dims - 1 do same = same and each.size[d] == index.size[d] end
  if not same then
    fail("%s: there is an index for each element, but the shapes differ: here are %s and %s", call,
      tostring(each), tostring(index))
  end
end

--- Sets each element of `out` to that of `from` which its index names. Where there is no such
--- element, as for -1, it stays as it is. Each device needs all of `from` for that.
---@param out celer.buffer
---@param from celer.buffer  of one dimension and the same type
---@param index celer.buffer  of whole numbers and the shape of `out`
function M.gather(out, from, index)
  local call = "celer.gather"
  check_indices(call, out, from, index, from, out)
  queues.run(call, function(cg)
    cg:name(call)
    cg:parallel_for(out.extents, indexed_kernel("gather", from.type, index.type, out.dims),
      cg:read(index), cg:read(from, mapper.all), cg:write(out), from.size[0])
  end)
end

--- Puts each element of `from` where its index says in `out`; the last one, where several go to the
--- same place. With an operator they are combined with what is there, in their order where that
--- shows. Elements without a place, as for -1, are left out. Without an operator, or of whole
--- numbers, each device has a copy of `out`.
---@param out celer.buffer  of one dimension
---@param from celer.buffer  of one dimension and the same type
---@param index celer.buffer  of whole numbers and the shape of `from`
---@param operator? "sum"|"prod"|"min"|"max"|"and"|"or"
function M.scatter(out, from, index, operator)
  local call = "celer.scatter"
  check_indices(call, out, from, index, out, from)
  if from.dims ~= 1 then fail("%s: %s has more than one dimension", call, from.name) end
  local n = out.size[0]
  if operator ~= nil then
    given.operator(call, "fourth", operator)
    -- A reduction does not say in which order, and has a copy for each device.
    local way = is_exact(out.type) and out.bytes <= LARGEST and "reduce" or "route"
    return queues.run(call, function(cg)
      cg:name(call)
      cg:parallel_for(from.extents,
        indexed_kernel(way == "route" and way or "scatter", from.type, index.type, 1),
        cg:read(index), cg:read(from), cg[way](cg, out, operator, { include_current = true }), n)
    end)
  end
  local last = buffers.new("int64_t", { n }, { name = "the last items for " .. out.name })
  queues.run(call, function(cg)
    cg:name(call)
    cg:parallel_for(from.extents, indexed_kernel("last", from.type, index.type, 1), cg:read(index),
      cg:reduce(last, "max"), n)
  end)
  M.gather(out, from, last)
  last:free()
end

return M
