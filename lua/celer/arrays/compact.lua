--- compact.lua -- compact and unique: some of a buffer's elements, one behind the other.
local alone = require "celer.arrays.alone"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local contents = require "celer.data.contents"
local expression = require "celer.arrays.expression"
local given = require "celer.arrays.given"
local kernels = require "celer.kernel.kernel"
local make = require "celer.arrays.make"
local mapper = require "celer.mapper.builtin"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local scans = require "celer.arrays.scan"
local snapshot = require "celer.data.snapshot"
local sort = require "celer.arrays.sort"

local fail = place.fail

local M = {}

local sources = {
  gather = [[
kernel void gather(item<1> it, in<int64_t, 1> upto, in<T, 1> u, out<T, 1> v, int64_t n) {
  const int64_t k = it[0];
  if (k >= upto(n - 1)) return;
  int64_t low = 0, high = n - 1; // the first element with more than k up to it
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (upto(middle) > k) high = middle;
    else low = middle + 1;
  }
  v(k) = u(low);
}
]],
  -- The same by the one GPU that has all: each element goes where it belongs.
  scatter = [[
kernel void scatter(item<1> it, in<int64_t, 1> upto, in<T, 1> u, out<T, 1> v, int64_t n) {
  const int64_t i = it[0], k = upto(i) - 1;
  if (k < n && k >= 0 && (i == 0 || upto(i - 1) == k)) v(k) = u(i);
}
]],
  -- Whether an element differs from the one before it.
  firsts = [[
kernel void firsts(item<1> it, in<T, 1> u, out<int64_t, 1> first) {
  const int64_t i = it[0];
  if (i == 0) { first(i) = 1; return; }
  const T x = u(i), y = u(i - 1);
  first(i) = !(x == y || (x != x && y != y));
}
]],
}

local compiled = { gather = {}, scatter = {}, firsts = {} } -- by type

local function kernel_for(name, type_)
  local of_type = compiled[name]
  of_type[type_] = of_type[type_]
    or kernels.new((sources[name]:gsub("%f[%w]T%f[%W]", type_.name)))
  return of_type[type_]
end

-- Fills `out` with the elements of `from` at which `upto` grows: the number of those up to each.
local function gather(call, out, from, upto)
  if alone.is_alone() and out.size[0] > 0 then
    return alone.run(call, from.size[0], nil, kernel_for("scatter", from.type), function(cg)
      return cg:read(upto, mapper.all), cg:read(from, mapper.all), cg:write(out, mapper.all),
        out.size[0]
    end)
  end
  queues.run(call, function(cg)
    cg:name(call)
    cg:parallel_for(out.extents, kernel_for("gather", from.type), cg:read(upto, mapper.all),
      cg:read(from, mapper.all), cg:write(out), from.size[0])
  end)
end

--- Puts the elements of `from` where a condition holds to the front of `out`, in their order; what
--- lies behind them in `out` stays. Gives their number, as a buffer of one element. Each rank
--- needs all of `from` for that.
---@param condition celer.expression|celer.buffer  of the shape of `from`, such as from:gt(0)
---@param out celer.buffer
---@param from celer.buffer
---@return celer.buffer count
function M.compact(condition, out, from)
  local call = "celer.compact"
  given.buffer(call, "the second argument, which it writes,", out)
  given.buffer(call, "the third argument", from)
  if out == from then
    fail("%s: %s is written, and may not be read: write into another buffer", call, out.name)
  elseif from.dims ~= 1 or out.dims ~= 1 or from.type ~= out.type then
    fail("%s: both buffers have one dimension and the same type; here are %s and %s", call,
      tostring(out), tostring(from))
  end
  local flags = expression.select(condition, 1, 0)
  expression.shape(call, { expression.of(from, call), flags })
  local n, count = from.size[0], make.zeros("int64_t")
  if n == 0 then return count end
  local upto = buffers.new("int64_t", { n })
  upto:set(flags)
  scans.scan("sum", upto, upto)
  count:reduce("sum", upto:part(n - 1, n))
  gather(call, out, from, upto)
  upto:free()
  return count
end

--- The different numbers of a buffer of one dimension, in ascending order, as a new buffer of as
--- many elements. A NaN is larger than all else, and all NaNs are alike, as are 0 and -0. Waits
--- for their number; a dry run takes all elements for different ones.
---@param from celer.buffer
---@return celer.buffer
function M.unique(from)
  local call = "celer.unique"
  sort.check(call, "the argument", from, true)
  local n = from.size[0]
  if n == 0 then return buffers.new(from.type, { 0 }) end
  local sorted, upto = buffers.new(from.type, { n }), buffers.new("int64_t", { n })
  contents.copy(from, sorted)
  sort.sort(sorted)
  queues.run(call, function(cg)
    cg:name(call)
    cg:parallel_for({ n }, kernel_for("firsts", from.type), cg:read(sorted, mapper.neighborhood(1)),
      cg:discard_write(upto))
  end)
  scans.scan("sum", upto, upto)
  local last = snapshot.capture(upto, box.new({ n - 1 }, { n }), { dry = n })
  local out = buffers.new(from.type, { tonumber(queues.new():wait(last)(n - 1)) })
  gather(call, out, sorted, upto)
  upto:free()
  sorted:free()
  return out
end

return M
