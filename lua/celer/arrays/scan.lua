--- scan.lua -- what the elements of a buffer up to each one come to.
---
--- What tiles of elements come to is found out first, then what all before each of them do, and
--- then elements are scanned within their tiles; one GPU alone reads and writes each element once.
--- The order is the same everywhere, and so are the bits: kernels/scan.cuh.
local ffi = require "ffi"
local alone = require "celer.arrays.alone"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local given = require "celer.arrays.given"
local mapper = require "celer.mapper.builtin"
local nd_range = require "celer.kernel.nd_range"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local reduce = require "celer.kernel.reduce"
local words = require "celer.words"

local fail = place.fail

local M = {}

local call = "celer.scan"
-- C++ of a and b. What is NaN stays so.
local operators = { sum = "a + b", prod = "a * b", ["and"] = "a & b", ["or"] = "a | b",
  min = "b < a || b != b ? b : a", max = "b > a || b != b ? b : a" }

--- Items of a group, and bytes of elements for each: where the order makes no difference, and where
--- it is to be that of the processor.
M.shape = { threads = 512, ordered = 256, bytes = 128 }
local MOST_LAUNCHES = 2 ^ 32 - 1

-- How a type and an operator are scanned.
---@class celer.scan_form
---@field type celer.type
---@field text string
---@field threads integer
---@field rows integer  of a warp
---@field each integer  elements of an item, side by side
---@field tile integer
---@field order "any"|"alone"  the processor's
---@field identity any
---@field kernels table<string, celer.kernel[]>  by source

-- Whether the result is the same in any order.
local function is_exact(operator, type_)
  if type(operator) ~= "string" then return false end
  return type_.class ~= "f" and type_.class ~= "s" or operator ~= "sum" and operator ~= "prod"
end

local function identity_of(found, type_)
  local room = ffi.new(ffi.typeof("$[1]", type_.ctype))
  ffi.copy(room, found.identity, type_.size)
  return type_.class == "s" and ffi.new(type_.ctype, room[0]) or room[0]
end

local function make_form(operator, found, type_, on_gpus)
  local size, bytes = type_.size, M.shape.bytes
  local threads, rows, each = M.shape.ordered, 1, math.max(math.floor(bytes / size), 1)
  local is_any = is_exact(operator, type_)
  if on_gpus and is_any then
    threads, each = M.shape.threads, 16 % size == 0 and 16 / size or 1
    rows = math.max(math.floor(bytes / (each * size)), 1)
  end
  return { type = type_, text = found.text or operators[operator], threads = threads, rows = rows,
    each = each, tile = threads * rows * each, order = is_any and "any" or "alone",
    identity = identity_of(found, type_), kernels = {} }
end

local forms = {} -- of celer's own operators, by what reduce.lua has of one for a type
local shape -- for which they hold

-- Made once for what comes again.
local function form_of(operator, found, type_, on_gpus)
  local now = M.shape
  if not shape or shape.threads ~= now.threads or shape.ordered ~= now.ordered
    or shape.bytes ~= now.bytes or shape.on_gpus ~= on_gpus then
    forms, shape = {}, { threads = now.threads, ordered = now.ordered, bytes = now.bytes,
      on_gpus = on_gpus }
  end
  local form = forms[found]
  if not form then
    form = make_form(operator, found, type_, on_gpus)
    if found.word then forms[found] = form end
  end
  return form
end

local chained = [[
struct scan_combine {
  CELER_FN T operator()(const T &a, const T &b) const { return (T)(OPERATOR); }
};
using scanning = celer::scan_tile<T, scan_combine, THREADS, ROWS, EACH>;
kernel void scan(group<1> g, in<T, 1> u, out<T, 1> v, inout<uint64_t, 1> state,
                 int64_t tiles, uint32_t launch, int64_t n, int exclusive, T identity,
                 local<T, scanning::room> sums, local<uint32_t, 1> which,
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
using scanning = celer::scan_tile<T, scan_combine, THREADS, ROWS, EACH>;
kernel void scan_total(group<1> g, in<T, 1> u, out<T, 1> of_tiles, int64_t n,
                       local<T, scanning::room> sums,
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
                 int64_t n, int exclusive, T identity, local<T, scanning::room> sums,
                 local<uint64_t, CELER_WARP_ROOM(THREADS)> warps) {
  scanning::finish(g, u, v, of_tiles, of_spans, n, exclusive != 0, identity, &sums[0],
    &warps[0]);
}
]]

-- The same by items, on the processor. Accessors that look at what is touched see nothing of
-- pointers.
local apart = [[
#ifdef CELER_CHECK
#define TOUCHED(b, count) for (int64_t k = 0; k < count; ++k) b(begin + k)
#else
#define TOUCHED(b, count)
#endif
struct scan_combine {
  CELER_FN T operator()(const T &a, const T &b) const { return (T)(OPERATOR); }
};
using scanning = celer::scan_tile<T, scan_combine, THREADS, ROWS, EACH>;
kernel void scan_total(item<1> it, in<T, 1> u, out<T, 1> of_tiles, int64_t n) {
  const int64_t at = it[0], begin = at * scanning::tile;
  if (scanning::count_of(at, n) == scanning::tile) {
    TOUCHED(u, scanning::tile);
    of_tiles(at) = scanning::total_ORDER(&u(begin));
  } else {
    of_tiles(at) = u(begin);
  }
}
kernel void scan_span(item<1> it, in<T, 1> of_tiles, out<T, 1> of_spans, int64_t tiles) {
  of_spans(it[0]) = scanning::span_alone(of_tiles, it[0], tiles);
}
kernel void scan_spans(item<1> it, inout<T, 1> of_spans, int64_t count) {
  scanning::spans(of_spans, count);
}
kernel void scan(item<1> it, in<T, 1> u, out<T, 1> v, in<T, 1> of_tiles, in<T, 1> of_spans,
                 int64_t n, int exclusive, T identity) {
  const int64_t at = it[0], begin = at * scanning::tile;
  TOUCHED(u, scanning::count_of(at, n));
  TOUCHED(v, scanning::count_of(at, n));
  T all = identity;
  if (at > 0) all = scanning::before_alone(at, of_tiles, of_spans);
  scanning::finish_ORDER(&u(begin), &v(begin), scanning::count_of(at, n), at > 0, all,
    exclusive != 0, identity);
}
]]

local function in_place_of(source)
  return (source:gsub("in<T, 1> u, out<T, 1> v", "inout<T, 1> v"):gsub("&u%(0%)", "&v(0)")
    :gsub("finish%(g, u", "finish(g, v"):gsub("finish_ORDER%(&u", "finish_ORDER(&v")
    :gsub("TOUCHED%(u, scanning::count_of", "TOUCHED(v, scanning::count_of"))
end

local chained_in_place, shared_in_place = in_place_of(chained), in_place_of(shared)
local apart_in_place = in_place_of(apart)

local function kernel_for(source, form)
  local found = form.kernels[source]
  if found then return found end
  local threads, rows, each = tostring(form.threads), tostring(form.rows), tostring(form.each)
  found = alone.kernel(source, { T = form.type.name, OPERATOR = form.text, THREADS = threads,
    ROWS = rows, EACH = each, ORDER = form.order },
    table.concat({ form.type.name, threads, rows, each, form.order, form.text }, " "))
  form.kernels[source] = found
  return found
end

local function submit(range, kernel, declare)
  queues.run(call, function(cg)
    cg:name(call)
    cg:parallel_for(range, kernel, declare(cg))
  end)
end

local kept = {} -- by words of a cell: what tiles of the last scan told

-- A buffer where tiles tell what they come to, and the number of the last launch.
local function state_for(tiles, cell)
  local of = kept[cell]
  if not of or of.tiles ~= tiles or of.launch == MOST_LAUNCHES then
    if of then of.state:free() end
    local size = 1 + (tiles + 2 * math.ceil(tiles / 32)) * cell
    of = { tiles = tiles, state = alone.zeros(call, "uint64_t", size), launch = 0,
      runs = setmetatable({}, { __mode = "k" }) }
    kept[cell] = of
  end
  return of
end

-- What is kept of scans by a kernel of so many elements.
local function kept_for(state, kernel, n)
  local run = state.runs[kernel]
  if not run or run.n ~= n then
    run = { n = n }
    state.runs[kernel] = run
  end
  return run
end

local in_place_modes, modes = { "read_write", "read_write" },
  { "read", "discard_write", "read_write" }

local function scan_chained(form, out, from, exclusive)
  local n, in_place = from.size[0], out == from
  local tiles = math.ceil(n / form.tile)
  local of = state_for(tiles, math.ceil(form.type.size / 4))
  local kernel = kernel_for(in_place and chained_in_place or chained, form)
  alone.run_again(kept_for(of, kernel, n), call, tiles * form.threads, form.threads, kernel,
    in_place and in_place_modes or modes, in_place and { out, of.state } or { from, out, of.state },
    { tiles, of.launch + 1, n, exclusive and 1 or 0, form.identity })
  of.launch = of.launch + 1 -- not where the user's mistake was raised
end

-- So many groups of so many items; of one item: these alone.
local function range_of(groups, items)
  return items > 1 and nd_range.new(groups * items, items) or { groups }
end

-- What spans of tiles come to, and all up to each of them; of one span nobody asks.
local function scan_spans(list, of_tiles, tiles, items)
  local spans = math.ceil(tiles / 32)
  local of_spans = buffers.new(of_tiles.type, { spans })
  if spans == 1 then return of_spans end
  submit(range_of(spans, items), list.scan_span, function(cg)
    return cg:read(of_tiles, function(chunk, buffer)
      return box.new({ chunk.min[0] / items * 32 },
        { mapper.min(chunk.max[0] / items * 32, buffer.size[0]) })
    end), cg:discard_write(of_spans, function(chunk)
      return box.new({ chunk.min[0] / items }, { chunk.max[0] / items })
    end), tiles
  end)
  submit({ 1 }, list.scan_spans, function(cg) return cg:read_write(of_spans, mapper.all), spans end)
  return of_spans
end

-- In several tasks: by groups of items, or by an item for each tile.
local function scan_shared(form, out, from, exclusive, by_groups)
  local n, in_place, tile = from.size[0], out == from, form.tile
  local items = by_groups and form.threads or 1
  local tiles = math.ceil(n / tile)
  local source = by_groups and shared or apart
  if in_place then source = by_groups and shared_in_place or apart_in_place end
  local list = kernel_for(source, form)
  local function elements(chunk, buffer)
    return box.new({ chunk.min[0] / items * tile },
      { mapper.min(chunk.max[0] / items * tile, buffer.size[0]) })
  end
  local function of_groups(chunk)
    return box.new({ chunk.min[0] / items }, { chunk.max[0] / items })
  end
  -- From the first tile of its first span on.
  local function of_tiles_before(chunk)
    return box.new({ mapper.floor(chunk.min[0] / (32 * items)) * 32 }, { chunk.max[0] / items })
  end
  local function of_spans_before(chunk)
    return box.new({ mapper.max(mapper.floor(chunk.min[0] / (32 * items)) - 1, 0) },
      { mapper.floor((chunk.max[0] / items - 1) / 32) })
  end
  local of_tiles = buffers.new(form.type, { tiles })
  local range = range_of(tiles, items)
  if tiles > 1 then
    submit(range, list.scan_total, function(cg)
      return cg:read(from, elements), cg:discard_write(of_tiles, of_groups), n
    end)
  end
  local of_spans = scan_spans(list, of_tiles, tiles, by_groups and 32 or 1)
  local is_exclusive = exclusive and 1 or 0
  submit(range, list.scan, function(cg)
    local u = not in_place and cg:read(from, elements) or nil
    local v = in_place and cg:read_write(out, elements) or cg:discard_write(out, elements)
    local before = tiles > 1 and of_tiles_before or mapper.fixed(box.new({ 0 }, { 0 }))
    local rest = { cg:read(of_tiles, before), cg:read(of_spans, of_spans_before), n,
      is_exclusive, form.identity }
    if u then return u, v, unpack(rest) end
    return v, unpack(rest)
  end)
  of_tiles:free()
  of_spans:free()
end

-- ---- for users ----------------------------------------------------------------------------------

local scan_options = { exclusive = true }

--- Sets each element of `out` to what the elements up to it come to: sums that run along a buffer
--- of one dimension. `exclusive`: without the element itself. Elements are combined in an order
--- that depends on their number alone; so results are the same to the bit on any number of ranks.
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
  local on_gpus = alone.is_alone() or alone.is_shared() or alone.gpus() > 0
  local form = form_of(operator, found, from.type, on_gpus)
  local how = alone.is_alone() and scan_chained or scan_shared
  how(form, out, from, options.exclusive, on_gpus)
end

return M
