--- skeletons.lua -- map, map_reduce, stencil, scan and pipe: patterns over whole buffers.
local ffi = require "ffi"
local buffers = require "celer.data.buffer"
local expression = require "celer.arrays.expression"
local functions = require "celer.kernel.from_lua.function"
local given = require "celer.arrays.given"
local kernels = require "celer.kernel.kernel"
local mapper = require "celer.mapper.builtin"
local box = require "celer.box"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local reduce = require "celer.kernel.reduce"
local words = require "celer.words"

local fail = place.fail

local M = {}

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
      given.buffer(call, "what it reads", value)
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
  given.buffer(call, "the second argument, which it writes,", out)
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
  given.operator(call, "second", operator)
  given.buffer(call, "the third argument, which it writes,", out)
  given.buffer(call, "the first one that it reads", first)
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
  given.buffer(call, "the third argument, which it writes,", out)
  check_dims(call, out)
  local list, found = { ... }, { out, [out] = 1 }
  parameters_of(call, out, list, found)
  local names, at = {}, coordinates[out.dims]
  for k, value in ipairs(list) do
    if value == out then
      fail("%s: %s is written, and may not be read: write into another buffer", call, out.name)
    end
    names[k] = "p" .. k + 1
    list[k] = buffers.is_buffer(value) and value.dims > 0 and with_boundary(boundary, value)
      or value
  end
  local kernel = kernel_for(f, out.dims, #list + 1, ("out[%s] = f(%s%s%s)"):format(
    table.concat(at, "]["), table.concat(at, ", "), #names > 0 and ", " or "",
    table.concat(names, ", ")))
  queues.new():parallel_for(out.extents, kernel, out, unpack(list, 1, #list))
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
  given.buffer(call, "the second argument, which it writes,", out)
  given.buffer(call, "the third argument", from)
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
