--- radix.lua -- celer.sort on GPUs, by kernels: kernels/radix.cuh.
---
--- One task counts digits, and one for each digit puts keys in order by it, from the keys to a
--- copy and back. Beside other buffers go the places of keys, by which these are gathered then.
--- Several GPUs sort a part each, and merge them: arrays/merge.lua.
local alone = require "celer.arrays.alone"
local contents = require "celer.data.contents"
local mapper = require "celer.mapper.builtin"
local merge = require "celer.arrays.merge"
local merge_cuts = require "celer.arrays.merge_cuts"

local M = {}

local call = "celer.sort"
local MOST = 2 ^ 30 -- keys of a part: 2 bits of a word of 32 say what the others count
local DIGITS = 256
local COUNTING, COUNTERS = 256, 1056 -- items of a group that counts, and groups at most

--- Items of a group, keys of each by the bytes of a key, and groups that a multiprocessor is to
--- have room for; keys of each at most beside places, or in one of several parts, which take
--- registers, too; and keys of a part at least: fewer are sorted by fewer GPUs.
M.shape = { threads = 256, each = { [1] = 24, [2] = 24, [4] = 24, [8] = 20 }, resident = 3,
  beside_places = 16, in_parts = 18, part = 2 ^ 20 }

local count = [[
kernel void sort_counts(group<1> g, in<T, 1> keys, inout<uint32_t, 1> state, int64_t tiles,
                        int64_t n, int64_t count,
                        local<uint32_t, celer::radix<T, DOWN>::passes * 256> mine) {
  using radix = celer::radix<T, DOWN>;
  const celer::radix_parts parts = {n, COUNT};
  const int64_t groups = g.range(0) / g.size(0) / COUNT, part = PART(groups);
  radix{&state(part * radix::words(tiles)), tiles}.count(g, g.number(0) % groups, groups,
    (const radix::key *)&keys(parts.begin(part)), parts.size(part), &mine[0]);
}
]]

local one_pass = [[
using sorting = celer::radix_pass<T, DOWN, THREADS, EACH>;
kernel void sort_pass(group<1> g, in<T, 1> from, out<T, 1> to, PLACES inout<uint32_t, 1> state,
                      int64_t tiles, int64_t n, int64_t count, int pass,
                      local<uint64_t, sorting::room / 8> room,
                      local<uint32_t, sorting::words> few,
                      local<uint64_t, CELER_WARP_ROOM(THREADS)> warps) {
  const celer::radix_parts parts = {n, COUNT};
  const int64_t part = PART(tiles), begin = parts.begin(part);
  sorting{{&state(part * sorting::base::words(tiles)), tiles}}.run(g,
    (const sorting::key *)&from(begin), (sorting::key *)&to(begin), BEFORE, AFTER,
    parts.size(part), pass, (unsigned char *)&room[0], &few[0], &warps[0]);
}
#ifdef CELER_CUDA
template <>
constexpr int celer::resident<&sort_pass, celer::signature<decltype(&sort_pass)>> = RESIDENT;
#endif
]]

-- What a pass is given of places: none, none before it, or both.
local places_of = {
  none = { PLACES = "", BEFORE = "nullptr", AFTER = "nullptr" },
  first = { PLACES = "out<uint32_t, 1> places,", BEFORE = "nullptr", AFTER = "&places(begin)" },
  next = { PLACES = "in<uint32_t, 1> before, out<uint32_t, 1> places,", BEFORE = "&before(begin)",
    AFTER = "&places(begin)" },
}

local take = [[
kernel void sort_take(item<1> it, in<uint32_t, 1> places, in<T, 1> from, out<T, 1> to, int64_t n,
                      int64_t count) {
  const celer::radix_parts parts = {n, COUNT};
  const int64_t most = it.range(0) / COUNT, part = COUNT == 1 ? 0 : it[0] / most;
  const int64_t k = it[0] - part * most;
  const int64_t begin = parts.begin(part);
  if (k < parts.size(part)) to(begin + k) = from(begin + places(begin + k));
}
]]

local function keys_of_each(type_, with_places, parts)
  local each = M.shape.each[type_.size]
  if parts > 1 then each = math.min(each, M.shape.in_parts) end
  return with_places and math.min(each, M.shape.beside_places) or each
end

-- Of one part all is known when the kernel is compiled, which spares registers.
local function kernel_for(source, type_, descending, parts, places)
  local of = places_of[places or "none"]
  local each = keys_of_each(type_, places and places ~= "none", parts)
  local given = { T = type_.name, DOWN = tostring(descending), THREADS = tostring(M.shape.threads),
    EACH = tostring(each), RESIDENT = tostring(M.shape.resident), PLACES = of.PLACES,
    BEFORE = of.BEFORE, AFTER = of.AFTER, COUNT = parts == 1 and "1" or "count",
    PART = parts == 1 and "0 * " or "g.number(0) / " }
  return alone.kernel(source, given, table.concat({ given.T, given.DOWN, given.THREADS, given.EACH,
    given.RESIDENT, given.PLACES, given.COUNT }, " "))
end

--- In how many parts keys are sorted so; 0: they are not.
---@param keys celer.buffer
---@return integer
function M.parts(keys)
  local n = keys.size[0]
  if n == 0 then return 0 end
  if alone.is_alone() then return n < MOST and 1 or 0 end
  local parts = math.min(alone.gpus(), math.max(math.floor(n / M.shape.part), 1))
  return parts <= merge_cuts.MOST and n < MOST * parts and parts or 0
end

-- What all passes of a sort are given.
---@class celer.radix_sort
---@field keys celer.buffer
---@field descending boolean
---@field with_places boolean
---@field parts integer
---@field tiles integer  of a part
---@field state celer.buffer

local function new_sort(keys, descending, with_places, parts)
  local tile = M.shape.threads * keys_of_each(keys.type, with_places, parts)
  local tiles = math.ceil(math.ceil(keys.size[0] / parts) / tile)
  return { keys = keys, descending = descending, with_places = with_places, parts = parts,
    tiles = tiles, state = alone.zeros(call, "uint32_t",
      parts * (keys.type.size + 1 + 2 * tiles) * DIGITS, parts, keys) }
end

-- The words of the parts of a chunk that has so many items of each.
local function state_of(sort, items)
  if sort.parts == 1 then return mapper.all end
  return merge_cuts.rows(sort.state.size[0] / sort.parts, items)
end

-- Puts keys and their places in order by one digit, from one copy to the other. `places` are
-- nil, or two buffers, of which the first pass reads none.
local function by_digit(sort, pass, from, to, places)
  local n, group = from.size[0], M.shape.threads
  local items = sort.tiles * group
  local part = merge_cuts.elements(n, sort.parts, items)
  local how = not places and "none" or pass == 0 and "first" or "next"
  local kernel = kernel_for(one_pass, from.type, sort.descending, sort.parts, how)
  alone.run(call, sort.parts * items, group, kernel, function(cg)
    local list = { cg:read(from, part), cg:discard_write(to, part) }
    if how == "next" then list[#list + 1] = cg:read(places[2 - pass % 2], part) end
    if places then list[#list + 1] = cg:discard_write(places[1 + pass % 2], part) end
    list[#list + 1] = cg:read_write(sort.state, state_of(sort, items))
    list[#list + 1], list[#list + 2], list[#list + 3] = sort.tiles, n, sort.parts
    list[#list + 1] = pass
    return unpack(list)
  end, sort.parts)
end

-- By so many digits, from one buffer to the first of two, on to the second one, and back; gives the
-- places, if they are wanted.
local function run_passes(sort, from, to, passes)
  local places, owner, n = nil, sort.keys, from.size[0]
  if sort.with_places then
    places = { alone.scratch("uint32_t", n, owner), alone.scratch("uint32_t", n, owner) }
  end
  for pass = 0, passes - 1 do
    local next = to[1 + pass % 2]
    by_digit(sort, pass, from, next, places)
    from = next
  end
  alone.done(sort.state, owner)
  if not places then return end
  local last = 1 + (passes - 1) % 2
  alone.done(places[3 - last], owner)
  return places[last]
end

local function count_digits(sort)
  local keys, n = sort.keys, sort.keys.size[0]
  local items = math.min(COUNTERS, math.ceil(n / sort.parts / COUNTING)) * COUNTING
  local kernel = kernel_for(count, keys.type, sort.descending, sort.parts)
  alone.run(call, sort.parts * items, COUNTING, kernel, function(cg)
    return cg:read(keys, merge_cuts.elements(n, sort.parts, items)),
      cg:read_write(sort.state, state_of(sort, items)), sort.tiles, n, sort.parts
  end, sort.parts)
end

-- One part, by all digits of keys, to a copy and back; gives the places, if they are wanted.
local function sort_alone(sort)
  local keys, passes = sort.keys, sort.keys.type.size
  local other = alone.scratch(keys.type, keys.size[0], keys)
  local from, to = keys, { other, keys }
  if passes % 2 == 1 then
    contents.copy(keys, other)
    from, to = other, { keys, other }
  end
  local places = run_passes(sort, from, to, passes)
  alone.done(other, keys)
  return places
end

--- Words that passes over keys of `uint32_t` share, by tiles of so many: kernels/radix.cuh.
---@param n integer  keys
---@param tile integer
---@return integer
function M.words(n, tile) return (4 + 1 + 2 * math.ceil(n / tile)) * DIGITS end

-- Each part's elements of a buffer in the order of its keys.
local function take_by(places, from, to, parts)
  local n = from.size[0]
  local items = math.ceil(n / parts)
  local part = merge_cuts.elements(n, parts, items)
  alone.run(call, parts * items, nil, kernel_for(take, from.type, false, parts), function(cg)
    return cg:read(places, part), cg:read(from, part), cg:discard_write(to, part), n, parts
  end, parts)
end

-- Several parts: each alone, and what comes of them merged.
local function sort_parts(sort, list)
  local keys, n, taken = sort.keys, sort.keys.size[0], {}
  local room = { alone.scratch(keys.type, n, keys), alone.scratch(keys.type, n, keys) }
  local merging = merge_cuts.new(keys, sort.descending, sort.parts)
  local places = run_passes(sort, keys, room, keys.type.size)
  for k = 2, #list do
    taken[k - 1] = alone.scratch(list[k].type, n, keys)
    take_by(places, list[k], taken[k - 1], sort.parts)
  end
  if places then alone.done(places, keys) end
  local last = 1 + (keys.type.size - 1) % 2
  merge.run(merging, list, { room[last], unpack(taken) }, room[3 - last])
  alone.done(room[1], keys)
  alone.done(room[2], keys)
  for _, buffer in ipairs(taken) do alone.done(buffer, keys) end
end

--- Sorts the first of the buffers, and the others by it.
---@param list celer.buffer[]
---@param descending boolean
---@param parts integer
function M.sort(list, descending, parts)
  local keys = list[1]
  local sort = new_sort(keys, descending, #list > 1, parts)
  count_digits(sort)
  if parts > 1 then return sort_parts(sort, list) end
  local places = sort_alone(sort)
  for k = 2, #list do
    local taken = alone.scratch(list[k].type, keys.size[0], keys)
    contents.copy(list[k], taken)
    take_by(places, taken, list[k], 1)
    alone.done(taken, keys)
  end
  if places then alone.done(places, keys) end
end

return M
