--- skeletons.lua -- map, map_reduce, stencil, scan, compact, histogram, gather, scatter and pipe:
--- patterns over whole buffers.
local ffi = require "ffi"
local buffers = require "celer.data.buffer"
local expression = require "celer.arrays.expression"
local functions = require "celer.kernel.from_lua.function"
local kernels = require "celer.kernel.kernel"
local make = require "celer.arrays.make"
local mapper = require "celer.mapper.builtin"
local box = require "celer.box"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local reduce = require "celer.kernel.reduce"
local words = require "celer.words"

local fail = place.fail

local M = {}

-- Raises unless it is a buffer; `what` is which argument.
local function check_buffer(call, what, value)
  if not buffers.is_buffer(value) then
    fail("%s: %s is a buffer, not %s%s", call, what, words.a(value),
      expression.is_expression(value) and ": celer.array(expression) makes one" or "")
  elseif value.freed then
    fail("%s: the buffer %s was freed", call, value.name)
  end
  return value
end

-- ---- map ----------------------------------------------------------------------------------------

local coordinates = { { "i" }, { "i", "j" }, { "i", "j", "k" } }
local combines = { sum = "add", prod = "mul", min = "min", max = "max", ["and"] = "band",
  ["or"] = "bor" }

-- Buffers among values, each once; and how the kernel writes each value.
local function parameters_of(call, shape, values, found)
  local texts, at = {}, "[" .. table.concat(coordinates[shape.dims], "][") .. "]"
  for k, value in ipairs(values) do
    local is_buffer = type(value) ~= "number" and type(value) ~= "boolean"
    if is_buffer then
      check_buffer(call, "what it reads", value)
      if value.dims > 0 then
        expression.shape(call, { expression.of(shape, call), expression.of(value, call) })
      end
    end
    local number = is_buffer and found[value]
    if not number then
      found[#found + 1] = value
      number = #found
      if is_buffer then found[value] = number end
    end
    texts[k] = (number == 1 and "out" or "p" .. number)
      .. (is_buffer and (value.dims > 0 and at or "()") or "")
  end
  return texts, at
end

local known = setmetatable({}, { __mode = "k" }) -- function -> text -> kernel

-- The kernel of a text that calls f. Its lines are those of f, for messages.
local function kernel_for(f, dims, count, body)
  local parameters = { unpack(coordinates[dims]) }
  parameters[#parameters + 1] = "out"
  for k = 2, count do parameters[#parameters + 1] = "p" .. k end
  local at = debug.getinfo(f, "S")
  local text = ("%slocal f = ... return function(%s) %s end"):format(
    ("\n"):rep(at.linedefined - 1), table.concat(parameters, ", "), body)
  local by_text = known[f] or {}
  known[f] = by_text
  by_text[text] = by_text[text] or functions.new(assert(loadstring(text, at.source))(f),
    { name = "map" })
  return by_text[text]
end

local function check_function(call, f)
  if type(f) ~= "function" then
    fail("%s: the first argument is a function of elements, not %s", call, words.a(f))
  end
end

local function check_dims(call, buffer)
  if buffer.dims == 0 then
    fail("%s: %s has one element: write %s:set(...)", call, buffer.name, buffer.name)
  end
end

--- Sets each element of `out` to f of the elements of others, in one task. f is compiled as a
--- kernel written in Lua. A buffer of one element, and a number, is the same for all; `out` may be
--- among what is read.
---@param f fun(...): number
---@param out celer.buffer
---@param ... celer.buffer|number|boolean  of the same shape
function M.map(f, out, ...)
  local call = "celer.map"
  check_function(call, f)
  check_buffer(call, "the second argument, which it writes,", out)
  check_dims(call, out)
  local found = { out, [out] = 1 }
  local texts, at = parameters_of(call, out, { ... }, found)
  local kernel = kernel_for(f, out.dims, #found, ("out%s = f(%s)"):format(at,
    table.concat(texts, ", ")))
  queues.new():parallel_for(out.extents, kernel, unpack(found, 1, #found))
end

--- Combines f of the elements of buffers into one element, in one task.
---@param f fun(...): number
---@param operator "sum"|"prod"|"min"|"max"|"and"|"or"
---@param out celer.buffer  of one element
---@param first celer.buffer
---@param ... celer.buffer|number|boolean  of the same shape
function M.map_reduce(f, operator, out, first, ...)
  local call = "celer.map_reduce"
  check_function(call, f)
  if not combines[operator] then
    fail("%s: the second argument is the operator, a word%s", call,
      words.advice(operator, combines))
  end
  check_buffer(call, "the third argument, which it writes,", out)
  check_buffer(call, "the first one that it reads", first)
  check_dims(call, first)
  local found = { false }
  local texts = parameters_of(call, first, { first, ... }, found)
  found[1] = functions.reduce(out, operator)
  local kernel = kernel_for(f, first.dims, #found, ("out:%s(f(%s))"):format(combines[operator],
    table.concat(texts, ", ")))
  queues.new():parallel_for(first.extents, kernel, unpack(found, 1, #found))
end

-- ---- stencil ------------------------------------------------------------------------------------

local boundaries = { periodic = mapper.periodic, clamped = mapper.clamped,
  mirrored = mapper.mirrored }

local function check_boundary(call, boundary)
  if type(boundary) == "number" or boundaries[boundary] then return end
  fail("%s: the second argument says what lies beyond the edges, \"periodic\", \"clamped\", "
    .. "\"mirrored\" or a number, not %s", call,
    type(boundary) == "string" and ("%q"):format(boundary) or words.a(boundary))
end

-- A buffer as the kernel gets it, with what lies beyond its edges.
local function with_boundary(boundary, buffer)
  if type(boundary) == "number" then return mapper.constant(buffer, boundary) end
  return boundaries[boundary](buffer)
end

--- Sets each element of `out` to f of its coordinates and of buffers, of which f reads elements
--- around: function(i, j, u) return u[i - 1][j] - u[i][j] end. The boundary says what lies beyond
--- their edges. How far f reads celer finds itself. One task.
---@param f fun(...): number
---@param boundary "periodic"|"clamped"|"mirrored"|number
---@param out celer.buffer
---@param ... celer.buffer|number|boolean  buffers of the same shape
function M.stencil(f, boundary, out, ...)
  local call = "celer.stencil"
  check_function(call, f)
  check_boundary(call, boundary)
  check_buffer(call, "the third argument, which it writes,", out)
  check_dims(call, out)
  local given, found = { ... }, { out, [out] = 1 }
  parameters_of(call, out, given, found)
  local names, at = {}, coordinates[out.dims]
  for k, value in ipairs(given) do
    if value == out then
      fail("%s: %s is written, and may not be read: write into another buffer", call, out.name)
    end
    names[k] = "p" .. k + 1
    given[k] = buffers.is_buffer(value) and value.dims > 0 and with_boundary(boundary, value)
      or value
  end
  local kernel = kernel_for(f, out.dims, #given + 1, ("out[%s] = f(%s%s%s)"):format(
    table.concat(at, "]["), table.concat(at, ", "), #names > 0 and ", " or "",
    table.concat(names, ", ")))
  queues.new():parallel_for(out.extents, kernel, out, unpack(given, 1, #given))
end

-- ---- scan ---------------------------------------------------------------------------------------

local BLOCK = 256 -- elements that one item adds up: fixed, so that results do not depend on ranks

-- C++ of a and b. What is NaN stays so.
local operators = { sum = "a + b", prod = "a * b", ["and"] = "a & b", ["or"] = "a | b",
  min = "b < a || b != b ? b : a", max = "b > a || b != b ? b : a" }

local scans = [[
kernel void scan_sums(item<1> it, in<T, 1> u, out<T, 1> sums, int64_t n) {
  const auto combine = [](const T &a, const T &b) -> T { return (T)(OPERATOR); };
  const int64_t begin = it[0] * BLOCK, end = begin + BLOCK < n ? begin + BLOCK : n;
  T sum = u(begin);
  for (int64_t k = begin + 1; k < end; ++k) sum = combine(sum, u(k));
  sums(it[0]) = sum;
}
kernel void scan(item<1> it, FROM, in<T, 1> sums, int64_t n, int exclusive, T identity) {
  const auto combine = [](const T &a, const T &b) -> T { return (T)(OPERATOR); };
  const int64_t begin = it[0] * BLOCK, end = begin + BLOCK < n ? begin + BLOCK : n;
  bool some = begin > 0;
  T sum = identity;
  if (some) sum = sums(it[0] - 1);
  for (int64_t k = begin; k < end; ++k) {
    const T x = u(k);
    const T next = some ? combine(sum, x) : x;
    v(k) = exclusive ? sum : next;
    sum = next;
    some = true;
  }
}
]]

local compiled = {} -- by type, operator and whether it is in place

local function scan_kernels(type_, text, in_place)
  local key = table.concat({ type_.name, text, tostring(in_place) }, "\0")
  if not compiled[key] then
    local words_of = { T = type_.name, BLOCK = tostring(BLOCK), OPERATOR = text,
      FROM = in_place and "inout<" .. type_.name .. ", 1> v"
        or ("in<%s, 1> u, out<%s, 1> v"):format(type_.name, type_.name) }
    local source = scans:gsub("%f[%w]%u+%f[%W]", words_of)
    if in_place then source = source:gsub("u%(k%);\n    const", "v(k);\n    const") end
    compiled[key] = kernels.new(source)
  end
  return compiled[key]
end

-- The elements of a chunk of blocks.
local function of_blocks(chunk, buffer)
  return box.new({ chunk.min[0] * BLOCK },
    { mapper.min(chunk.max[0] * BLOCK, buffer.size[0]) })
end

-- The sums of the blocks before those of a chunk.
local function before(chunk)
  return box.new({ mapper.max(chunk.min[0] - 1, 0) }, { chunk.max[0] - 1 })
end

-- Scans `from` into `out`, in as many levels as there are.
local function scan(text, out, from, exclusive, identity)
  local n, type_ = from.size[0], from.type
  local blocks = math.ceil(n / BLOCK)
  local list = scan_kernels(type_, text, out == from)
  local sums = buffers.new(type_, { blocks })
  if blocks > 1 then
    queues.run("celer.scan", function(cg)
      cg:parallel_for({ blocks }, list.scan_sums, cg:read(from, of_blocks), cg:discard_write(sums),
        n)
    end)
    scan(text, sums, sums, false, identity)
  end
  queues.run("celer.scan", function(cg)
    local read = cg:read(sums, before)
    if out == from then
      local both = cg:read_write(out, of_blocks)
      return cg:parallel_for({ blocks }, list.scan, both, read, n, exclusive and 1 or 0, identity)
    end
    cg:parallel_for({ blocks }, list.scan, cg:read(from, of_blocks),
      cg:discard_write(out, of_blocks), read, n, exclusive and 1 or 0, identity)
  end)
  sums:free()
end

local scan_options = { exclusive = true }

--- Sets each element of `out` to what the elements up to it come to: sums that run along a buffer
--- of one dimension. `exclusive`: without the element itself. Blocks of 256 elements are added up
--- first, and then their sums; so results are the same to the bit on any number of ranks.
---@param operator "sum"|"prod"|"min"|"max"|"and"|"or"|{combine: string, identity: any}
---@param out celer.buffer  may be the one that is read
---@param from celer.buffer
---@param options? {exclusive: boolean?}
function M.scan(operator, out, from, options)
  local call = "celer.scan"
  if type(operator) ~= "string" and (type(operator) ~= "table" or getmetatable(operator)) then
    fail("%s: the first argument is the operator, a word such as \"sum\" or a table, not %s", call,
      words.a(operator))
  end
  check_buffer(call, "the second argument, which it writes,", out)
  check_buffer(call, "the third argument", from)
  local found = reduce.operator(operator, out, nil, call)
  options = words.check_options(call, options or {}, scan_options, "{ exclusive = true }")
  if from.dims ~= 1 or out.dims ~= 1 or from.size[0] ~= out.size[0] or from.type ~= out.type then
    fail("%s: both buffers have one dimension, the same extent and the same type; here are %s and "
      .. "%s", call, tostring(out), tostring(from))
  end
  if from.size[0] == 0 then return end
  local identity = ffi.new(ffi.typeof("$[1]", from.type.ctype))
  ffi.copy(identity, found.identity, from.type.size)
  scan(found.text or operators[operator], out, from, options.exclusive, identity[0])
end

-- ---- compact ------------------------------------------------------------------------------------

local gathers = {} -- by type

local gather = [[
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
]]

local function gather_for(type_)
  if not gathers[type_] then
    local source = gather:gsub("%f[%w]T%f[%W]", type_.name)
    gathers[type_] = kernels.new(source)
  end
  return gathers[type_]
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
  check_buffer(call, "the second argument, which it writes,", out)
  check_buffer(call, "the third argument", from)
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
  M.scan("sum", upto, upto)
  count:reduce("sum", upto:part(n - 1, n))
  queues.run(call, function(cg)
    cg:name(call)
    cg:parallel_for(out.extents, gather_for(from.type), cg:read(upto, mapper.all),
      cg:read(from, mapper.all), cg:write(out), n)
  end)
  upto:free()
  return count
end

-- ---- histogram, gather, scatter -----------------------------------------------------------------

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
  check_buffer(call, "the first argument, which it writes,", out)
  check_buffer(call, "the second argument", from)
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

-- Raises unless they fit: `list` has an index for each element of `each`, into `whole`.
local function check_indices(call, whole, each, list)
  if not is_whole(list.type) then
    fail("%s: the indices are whole numbers; here is %s", call, tostring(list))
  elseif whole.type ~= each.type or whole.dims ~= 1 or each.dims == 0 then
    fail("%s: the indices lead to a buffer of one dimension, and both have the same type; here are "
      .. "%s and %s", call, tostring(whole), tostring(each))
  end
  local same = each.dims == list.dims
  for d = 0, each.dims - 1 do same = same and each.size[d] == list.size[d] end
  if not same then
    fail("%s: there is an index for each element, but the shapes differ: here are %s and %s", call,
      tostring(each), tostring(list))
  end
end

--- Sets each element of `out` to that of `from` which its index names. Where there is no such
--- element, as for -1, it stays as it is. Each device needs all of `from` for that.
---@param out celer.buffer
---@param from celer.buffer  of one dimension and the same type
---@param index celer.buffer  of whole numbers and the shape of `out`
function M.gather(out, from, index)
  local call = "celer.gather"
  check_buffer(call, "the first argument, which it writes,", out)
  check_buffer(call, "the second argument", from)
  check_buffer(call, "the third argument", index)
  if out == from or out == index then
    fail("%s: %s is written, and may not be read: write into another buffer", call, out.name)
  end
  check_indices(call, from, out, index)
  queues.run(call, function(cg)
    cg:name(call)
    cg:parallel_for(out.extents, indexed_kernel("gather", from.type, index.type, out.dims),
      cg:read(index), cg:read(from, mapper.all), cg:write(out), from.size[0])
  end)
end

--- Puts each element of `from` where its index says in `out`; the last one, where several go to the
--- same place. With an operator they are combined with what is there, of whole numbers. Elements
--- without a place, as for -1, are left out. Each device has a copy of `out`, of 64 MiB at most.
---@param out celer.buffer  of one dimension
---@param from celer.buffer  of one dimension and the same type
---@param index celer.buffer  of whole numbers and the shape of `from`
---@param operator? "sum"|"prod"|"min"|"max"|"and"|"or"
function M.scatter(out, from, index, operator)
  local call = "celer.scatter"
  check_buffer(call, "the first argument, which it writes,", out)
  check_buffer(call, "the second argument", from)
  check_buffer(call, "the third argument", index)
  if out == from or out == index then
    fail("%s: %s is written, and may not be read: write into another buffer", call, out.name)
  end
  check_indices(call, out, from, index)
  if from.dims ~= 1 then fail("%s: %s has more than one dimension", call, from.name) end
  local n = out.size[0]
  if operator ~= nil then
    if not combines[operator] then
      fail("%s: the fourth argument is the operator, a word%s", call,
        words.advice(operator, combines))
    elseif not is_exact(out.type) then
      fail("%s: \"%s\" is for whole numbers of 4 or 8 bytes, whose order does not matter; here is "
        .. "%s", call, operator, tostring(out))
    end
    return queues.run(call, function(cg)
      cg:name(call)
      cg:parallel_for(from.extents, indexed_kernel("scatter", from.type, index.type, 1),
        cg:read(index), cg:read(from), cg:reduce(out, operator, { include_current = true }), n)
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

-- ---- pipe ---------------------------------------------------------------------------------------

--- What functions of whole buffers make of one, one after the other: celer.pipe(u, f, g) is
--- g(f(u)). Expressions that they give stay one: c:set(celer.pipe(u, f, g)) is one task.
---@param value celer.expression|celer.buffer|number
---@param ... fun(value: any): any
---@return any
function M.pipe(value, ...)
  for k = 1, select("#", ...) do
    local f = select(k, ...)
    if type(f) ~= "function" then
      fail("celer.pipe: argument %d is a function of what comes before it, not %s", k + 1,
        words.a(f))
    end
    value = f(value)
  end
  return value
end

return M
