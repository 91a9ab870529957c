--- scan.lua -- what the elements of a buffer up to each one come to.
---
--- Blocks of elements are added up, then their sums are scanned, and then elements within their
--- blocks. Where the order makes no difference, GPUs of one rank have kernels of their own, and one
--- GPU reads and writes each element once: kernels/scan.cuh.
local ffi = require "ffi"
local alone = require "celer.arrays.alone"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local given = require "celer.arrays.given"
local kernels = require "celer.kernel.kernel"
local mapper = require "celer.mapper.builtin"
local nd_range = require "celer.kernel.nd_range"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local reduce = require "celer.kernel.reduce"
local words = require "celer.words"

local fail = place.fail

local M = {}

local call = "celer.scan"
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
    queues.run(call, function(cg)
      cg:parallel_for({ blocks }, list.scan_sums, cg:read(from, of_blocks), cg:discard_write(sums),
        n)
    end)
    scan(text, sums, sums, false, identity)
  end
  queues.run(call, function(cg)
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

-- ---- on GPUs ------------------------------------------------------------------------------------

--- Items of a group, and bytes of elements for each.
M.shape = { threads = 512, bytes = 128 }
local MOST_LAUNCHES = 2 ^ 32 - 1

local function each_of(type_) return 16 % type_.size == 0 and 16 / type_.size or 1 end
local function rows_of(type_)
  return math.max(math.floor(M.shape.bytes / (each_of(type_) * type_.size)), 1)
end
local function tile_of(type_) return M.shape.threads * each_of(type_) * rows_of(type_) end

local chained = [[
struct scan_combine {
  CELER_FN T operator()(const T &a, const T &b) const { return (T)(OPERATOR); }
};
using scanning = celer::scan_tile<T, scan_combine, THREADS, ROWS>;
kernel void scan(group<1> g, in<T, 1> u, out<T, 1> v, inout<uint64_t, 1> state,
                 int64_t tiles, uint32_t launch, int64_t n, int exclusive, T identity,
                 local<T, THREADS / 32 + 1> sums, local<uint32_t, 1> which,
                 local<uint64_t, CELER_WARP_ROOM(THREADS)> warps) {
  scanning{&state(0), tiles, launch}.run(g, &u(0), &v(0), n, exclusive != 0, identity, &sums[0],
    &which[0], &warps[0]);
}
]]
-- Where several share the elements.
local shared = [[
struct scan_combine {
  CELER_FN T operator()(const T &a, const T &b) const { return (T)(OPERATOR); }
};
using scanning = celer::scan_tile<T, scan_combine, THREADS, ROWS>;
kernel void scan_total(group<1> g, in<T, 1> u, out<T, 1> of_tiles, int64_t n,
                       local<T, THREADS / 32 + 1> sums,
                       local<uint64_t, CELER_WARP_ROOM(THREADS)> warps) {
  scanning::total(g, u, of_tiles, n, &sums[0], &warps[0]);
}
kernel void scan_span(group<1> g, in<T, 1> of_tiles, out<T, 1> of_spans, int64_t tiles,
                      local<uint64_t, CELER_WARP_ROOM(THREADS)> warps) {
  scanning::span(g, of_tiles, of_spans, tiles, &warps[0]);
}
kernel void scan_spans(item<1> it, inout<T, 1> of_spans, int64_t count) {
  scanning::spans(of_spans, count);
}
kernel void scan(group<1> g, in<T, 1> u, out<T, 1> v, in<T, 1> of_tiles, in<T, 1> of_spans,
                 int64_t n, int exclusive, T identity, local<T, THREADS / 32 + 1> sums,
                 local<uint64_t, CELER_WARP_ROOM(THREADS)> warps) {
  scanning::finish(g, u, v, of_tiles, of_spans, n, exclusive != 0, identity, &sums[0],
    &warps[0]);
}
]]

local function in_place_of(source)
  return (source:gsub("in<T, 1> u, out<T, 1> v", "inout<T, 1> v"):gsub("&u%(0%)", "&v(0)")
    :gsub("finish%(g, u", "finish(g, v"))
end

local chained_in_place, shared_in_place = in_place_of(chained), in_place_of(shared)

local function kernel_for(source, type_, text)
  local threads, rows = tostring(M.shape.threads), tostring(rows_of(type_))
  return alone.kernel(source, { T = type_.name, OPERATOR = text, THREADS = threads, ROWS = rows },
    table.concat({ type_.name, threads, rows, text }, " "))
end

local function submit(range, kernel, declare)
  queues.run(call, function(cg)
    cg:name(call)
    cg:parallel_for(range, kernel, declare(cg))
  end)
end

local kept = {} -- by words of a cell: what tiles of the last scan told

-- A buffer where tiles tell what they come to, and the number of this launch.
local function state_for(tiles, cell)
  local of = kept[cell]
  if not of or of.tiles ~= tiles or of.launch == MOST_LAUNCHES then
    if of then of.state:free() end
    local size = 1 + (tiles + 2 * math.ceil(tiles / 32)) * cell
    of = { tiles = tiles, state = alone.zeros(call, "uint64_t", size), launch = 0 }
    kept[cell] = of
  end
  of.launch = of.launch + 1
  return of.state, of.launch
end

local function scan_chained(text, out, from, exclusive, identity)
  local n, type_, in_place = from.size[0], from.type, out == from
  local tiles = math.ceil(n / tile_of(type_))
  local state, launch = state_for(tiles, math.ceil(type_.size / 4))
  local kernel = kernel_for(in_place and chained_in_place or chained, type_, text)
  local all, is_exclusive = mapper.all, exclusive and 1 or 0
  alone.run(call, tiles * M.shape.threads, M.shape.threads, kernel, function(cg)
    if in_place then
      return cg:read_write(out, all), cg:read_write(state, all), tiles, launch, n, is_exclusive,
        identity
    end
    return cg:read(from, all), cg:discard_write(out, all), cg:read_write(state, all), tiles, launch,
      n, is_exclusive, identity
  end)
end

-- What spans of tiles come to, and all up to each of them.
local function scan_spans(list, of_tiles, tiles)
  local spans = math.ceil(tiles / 32)
  local of_spans = buffers.new(of_tiles.type, { spans })
  submit(nd_range.new(spans * 32, 32), list.scan_span, function(cg)
    return cg:read(of_tiles, function(chunk, buffer)
      return box.new({ chunk.min[0] }, { mapper.min(chunk.max[0], buffer.size[0]) })
    end), cg:discard_write(of_spans, function(chunk)
      return box.new({ chunk.min[0] / 32 }, { chunk.max[0] / 32 })
    end), tiles
  end)
  submit({ 1 }, list.scan_spans, function(cg) return cg:read_write(of_spans, mapper.all), spans end)
  return of_spans
end

local function scan_shared(text, out, from, exclusive, identity)
  local n, type_, in_place = from.size[0], from.type, out == from
  local tile, threads = tile_of(type_), M.shape.threads
  local tiles = math.ceil(n / tile)
  local list = kernel_for(in_place and shared_in_place or shared, type_, text)
  local function elements(chunk, buffer)
    return box.new({ chunk.min[0] / threads * tile },
      { mapper.min(chunk.max[0] / threads * tile, buffer.size[0]) })
  end
  local function of_groups(chunk)
    return box.new({ chunk.min[0] / threads }, { chunk.max[0] / threads })
  end
  -- From the first tile of its first span on.
  local function of_tiles_before(chunk)
    return box.new({ mapper.floor(chunk.min[0] / (32 * threads)) * 32 }, { chunk.max[0] / threads })
  end
  local function of_spans_before(chunk)
    return box.new({ mapper.max(mapper.floor(chunk.min[0] / (32 * threads)) - 1, 0) },
      { mapper.floor((chunk.max[0] / threads + 31) / 32) })
  end
  local of_tiles = buffers.new(type_, { tiles })
  local range = nd_range.new(tiles * threads, threads)
  submit(range, list.scan_total, function(cg)
    return cg:read(from, elements), cg:discard_write(of_tiles, of_groups), n
  end)
  local of_spans, is_exclusive = scan_spans(list, of_tiles, tiles), exclusive and 1 or 0
  submit(range, list.scan, function(cg)
    local u = not in_place and cg:read(from, elements) or nil
    local v = in_place and cg:read_write(out, elements) or cg:discard_write(out, elements)
    local rest = { cg:read(of_tiles, of_tiles_before), cg:read(of_spans, of_spans_before), n,
      is_exclusive, identity }
    if u then return u, v, unpack(rest) end
    return v, unpack(rest)
  end)
  of_tiles:free()
  of_spans:free()
end

-- ---- for users ----------------------------------------------------------------------------------

-- Whether the result is the same in any order. Else it is to have the same bits on several ranks,
-- of which not all may have GPUs.
local function is_exact(operator, type_)
  if type(operator) ~= "string" then return false end
  return type_.class ~= "f" and type_.class ~= "s" or operator ~= "sum" and operator ~= "prod"
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
  local room = ffi.new(ffi.typeof("$[1]", from.type.ctype))
  ffi.copy(room, found.identity, from.type.size)
  local identity = room[0]
  if from.type.class == "s" then identity = ffi.new(from.type.ctype, identity) end
  local how = scan
  if is_exact(operator, from.type) or alone.always or alone.always_shared then
    how = alone.is_alone() and scan_chained or alone.is_shared() and scan_shared or scan
  end
  how(found.text or operators[operator], out, from, options.exclusive, identity)
end

return M
