--- spmv.lua -- a sparse matrix in compressed rows times a vector.
---
--- On one GPU by tiles of entries: kernels/spmv.cuh. Else an item for each row.
local alone = require "celer.arrays.alone"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local given = require "celer.arrays.given"
local images = require "celer.submit.image"
local mapper = require "celer.mapper.builtin"
local nd_range = require "celer.kernel.nd_range"
local place = require "celer.place"
local queues = require "celer.submit.queue"

local fail = place.fail

local M = {}

local call = "celer.spmv"
local THREADS, TILE = 256, 2048 -- items of a group, and entries

local by_rows = [[
kernel void spmv(item<1> it, in<P, 1> ptr, in<C, 1> col, in<T, 1> val, in<T, 1> x,
                 out<T, 1> y) {
  T sum = 0;
  for (P k = ptr(it[0]); k < ptr(it[0] + 1); ++k) sum += val(k) * x(col(k));
  y(it[0]) = sum;
}
]]

local starts = [[
kernel void spmv_starts(item<1> it, in<P, 1> ptr, out<int64_t, 1> start, int64_t rows,
                        int64_t tiles) {
  celer::spmv<T, THREADS, TILE>::starts(it[0], rows, tiles, ptr, start);
}
]]

local by_tiles = [[
using multiply = celer::spmv<T, THREADS, TILE>;
kernel void spmv_tiles(group<1> g, in<P, 1> ptr, in<C, 1> col, in<T, 1> val, in<T, 1> x,
                       in<int64_t, 1> start, out<T, 1> y, out<T, 1> carry, int64_t entries,
                       local<T, multiply::room> products, local<int, multiply::most + 1> longer,
                       local<uint64_t, CELER_WARP_ROOM(THREADS)> warps) {
  multiply::tile(g, ptr, col, val, x, start, y, carry, entries, &products[0], &longer[0],
    &warps[0]);
}
]]

local carried = [[
kernel void spmv_carried(item<1> it, in<P, 1> ptr, in<int64_t, 1> start, inout<T, 1> y,
                         in<T, 1> carry) {
  celer::spmv<T, THREADS, TILE>::carried(it[0], ptr, start, y, carry);
}
]]

-- Where several GPUs share the rows: the same sums.
local by_rows_in_groups = [[
using multiply = celer::spmv<T, THREADS, TILE>;
kernel void spmv_rows(group<1> g, in<P, 1> ptr, in<C, 1> col, in<T, 1> val, in<T, 1> x,
                      out<T, 1> y, int64_t rows, local<int, THREADS + 1> longer,
                      local<uint64_t, CELER_WARP_ROOM(THREADS)> warps) {
  multiply::rows(g, ptr, col, val, x, y, rows, &longer[0], &warps[0]);
}
]]

local function kernel_for(source, ptr, col, val)
  local of = { P = ptr.type.name, C = col.type.name, T = val.type.name,
    THREADS = tostring(THREADS), TILE = tostring(TILE) }
  return alone.kernel(source, of, table.concat({ of.P, of.C, of.T }, " "))
end

-- ---- by tiles -----------------------------------------------------------------------------------

-- Of offsets: the first row of each tile, and of which contents.
local known = setmetatable({}, { __mode = "k" })

local function starts_of(ptr, col, val, tiles)
  local rows, now = ptr.size[0] - 1, core.buffer_changes(ptr.handle)
  local of = known[ptr]
  if not of or of.tiles ~= tiles or of.start.freed then
    of = { tiles = tiles, start = buffers.new("int64_t", { tiles + 1 }),
      carry = buffers.new(val.type, { tiles }) }
    known[ptr] = of
  end
  if of.carry.type ~= val.type then of.carry = buffers.new(val.type, { tiles }) end
  if of.changes ~= now then
    alone.run(call, rows + 1, nil, kernel_for(starts, ptr, col, val), function(cg)
      return cg:read(ptr, mapper.all), cg:discard_write(of.start, mapper.all), rows, tiles
    end)
    of.changes = now
  end
  return of
end

local function multiply_tiles(y, ptr, col, val, x)
  local entries = col.size[0]
  local tiles = math.max(math.ceil(entries / TILE), 1)
  local of = starts_of(ptr, col, val, tiles)
  local all = mapper.all
  alone.run(call, tiles * THREADS, THREADS, kernel_for(by_tiles, ptr, col, val), function(cg)
    return cg:read(ptr, all), cg:read(col, all), cg:read(val, all), cg:read(x, all),
      cg:read(of.start, all), cg:discard_write(y, all), cg:discard_write(of.carry, all), entries
  end)
  alone.run(call, tiles, nil, kernel_for(carried, ptr, col, val), function(cg)
    return cg:read(ptr, all), cg:read(of.start, all), cg:read_write(y, all),
      cg:read(of.carry, all)
  end)
end

-- ---- by rows ------------------------------------------------------------------------------------

-- Of chunks that may go beyond the last row, as groups do.
local function own(chunk, buffer)
  return box.new({ chunk.min[0] }, { mapper.min(chunk.max[0], buffer.size[0]) })
end
local function offsets(chunk, buffer)
  return box.new({ chunk.min[0] }, { mapper.min(chunk.max[0] + 1, buffer.size[0]) })
end
local function own_offsets(chunk, buffer)
  return box.new({ chunk.min[0] }, { mapper.min(chunk.max[0], buffer.size[0] - 1) })
end

local known_images = setmetatable({}, { __mode = "k" }) -- by columns

local function images_of(ptr, col)
  local of = known_images[col]
  if not of or of.ptr ~= ptr then
    local entries = images.new(ptr, { as = "ranges", of = own_offsets })
    of = { ptr = ptr, entries = entries, named = images.new(col, { of = entries }) }
    mapper.images[of.entries].call, mapper.images[of.named].call = call, call
    known_images[col] = of
  end
  return of.entries, of.named
end

local function multiply_rows(y, ptr, col, val, x, in_groups)
  local entries, named = images_of(ptr, col)
  local rows = y.size[0]
  queues.run(call, function(cg)
    cg:name(call)
    local range, kernel = { rows }, kernel_for(by_rows, ptr, col, val)
    if in_groups then
      range = nd_range.new(math.ceil(rows / THREADS) * THREADS, THREADS)
      kernel = kernel_for(by_rows_in_groups, ptr, col, val)
    end
    cg:parallel_for(range, kernel, cg:read(ptr, offsets), cg:read(col, entries),
      cg:read(val, entries), cg:read(x, named), cg:discard_write(y, own),
      unpack({ rows }, 1, in_groups and 1 or 0))
  end)
end

-- ---- for users ----------------------------------------------------------------------------------

local function is_whole(type_)
  return (type_.class == "i" or type_.class == "u") and type_.size >= 4
end

local names = { "y, which it writes,", "ptr, where rows begin,", "col, the columns,",
  "val, the values,", "x" }

local function check(list)
  for k, name in ipairs(names) do
    given.buffer(call, name, list[k])
    if list[k].dims ~= 1 then
      fail("%s: %s has one dimension, not as %s", call, name, tostring(list[k]))
    end
  end
  local y, ptr, col, val, x = unpack(list)
  if not is_whole(ptr.type) or not is_whole(col.type) then
    fail("%s: ptr and col are whole numbers of 4 or 8 bytes; here are %s and %s", call,
      tostring(ptr), tostring(col))
  elseif val.type.class ~= "f" or x.type ~= val.type or y.type ~= val.type then
    fail("%s: val, x and y are of one type, float or double; here are %s, %s and %s", call,
      tostring(val), tostring(x), tostring(y))
  elseif ptr.size[0] ~= y.size[0] + 1 or col.size[0] ~= val.size[0] then
    fail("%s: ptr has one element more than y, and col as many as val; here are %s, %s, %s and %s",
      call, tostring(ptr), tostring(y), tostring(col), tostring(val))
  elseif y == x then
    fail("%s: %s is written, and may not be read: write into another buffer", call, y.name)
  end
end

--- Sets y to a sparse matrix times x. The matrix has its rows one behind the other (CSR): the
--- entries of row i are those from ptr[i] up to ptr[i + 1], each with its column in `col` and its
--- value in `val`. On several ranks only those elements of x travel that rows of a rank name.
---@param y celer.buffer  of one dimension, float or double
---@param ptr celer.buffer  of whole numbers, one more than y has
---@param col celer.buffer  of whole numbers
---@param val celer.buffer  as many as columns
---@param x celer.buffer
function M.spmv(y, ptr, col, val, x)
  check { y, ptr, col, val, x }
  if y.size[0] == 0 then return end
  if alone.is_alone() then return multiply_tiles(y, ptr, col, val, x) end
  multiply_rows(y, ptr, col, val, x, alone.is_shared())
end

return M
