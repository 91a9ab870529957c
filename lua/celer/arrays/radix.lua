--- radix.lua -- celer.sort on one device, by kernels: kernels/radix.cuh.
---
--- One task counts digits, and one for each digit puts keys in order by it, from the keys to a
--- copy and back. Beside other buffers go the places of keys, by which these are gathered then.
local alone = require "celer.arrays.alone"
local box = require "celer.box"
local contents = require "celer.data.contents"
local mapper = require "celer.mapper.builtin"
local queues = require "celer.submit.queue"

local M = {}

local call = "celer.sort"
local MOST = 2 ^ 30 -- keys: 2 bits of a word of 32 say what the others count
local DIGITS = 256
local COUNTING, COUNTERS = 256, 1056 -- items of a group that counts, and groups at most

--- Items of a group, keys of each by the bytes of a key, and groups that a multiprocessor is to
--- have room for; and keys of each at most beside places, which take registers, too.
M.shape = { threads = 256, each = { [1] = 24, [2] = 24, [4] = 24, [8] = 20 }, resident = 3,
  beside_places = 16 }

local count = [[
kernel void sort_counts(group<1> g, in<T, 1> keys, inout<uint32_t, 1> state, int64_t tiles,
                        int64_t n, local<uint32_t, celer::radix<T, DOWN>::passes * 256> mine) {
  using radix = celer::radix<T, DOWN>;
  radix{&state(0), tiles}.count(g, (const radix::key *)&keys(0), n, &mine[0]);
}
]]

local one_pass = [[
using sorting = celer::radix_pass<T, DOWN, THREADS, EACH>;
kernel void sort_pass(group<1> g, in<T, 1> from, out<T, 1> to, PLACES inout<uint32_t, 1> state,
                      int64_t tiles, int64_t n, int pass, local<uint64_t, sorting::room / 8> room,
                      local<uint32_t, sorting::words> few,
                      local<uint64_t, CELER_WARP_ROOM(THREADS)> warps) {
  sorting{{&state(0), tiles}}.run(g, (const sorting::key *)&from(0), (sorting::key *)&to(0),
    BEFORE, AFTER, n, pass, (unsigned char *)&room[0], &few[0], &warps[0]);
}
#ifdef CELER_CUDA
template <>
constexpr int celer::resident<&sort_pass, celer::signature<decltype(&sort_pass)>> = RESIDENT;
#endif
]]

-- What a pass is given of places: none, none before it, or both.
local places_of = {
  none = { PLACES = "", BEFORE = "nullptr", AFTER = "nullptr" },
  first = { PLACES = "out<uint32_t, 1> places,", BEFORE = "nullptr", AFTER = "&places(0)" },
  next = { PLACES = "in<uint32_t, 1> before, out<uint32_t, 1> places,", BEFORE = "&before(0)",
    AFTER = "&places(0)" },
}

local take = [[
kernel void sort_take(item<1> it, in<uint32_t, 1> places, in<T, 1> from, out<T, 1> to) {
  to(it[0]) = from(places(it[0]));
}
]]

local function keys_of_each(type_, with_places)
  local each = M.shape.each[type_.size]
  return with_places and math.min(each, M.shape.beside_places) or each
end

local function kernel_for(source, type_, descending, places)
  local of, each = places_of[places or "none"], keys_of_each(type_, places and places ~= "none")
  local given = { T = type_.name, DOWN = tostring(descending), THREADS = tostring(M.shape.threads),
    EACH = tostring(each), RESIDENT = tostring(M.shape.resident), PLACES = of.PLACES,
    BEFORE = of.BEFORE, AFTER = of.AFTER }
  return alone.kernel(source, given, table.concat({ given.T, given.DOWN, given.THREADS, given.EACH,
    given.RESIDENT, given.PLACES }, " "))
end

--- Whether keys can be sorted so.
---@param keys celer.buffer
---@return boolean
function M.serves(keys)
  return alone.is_alone() and keys.size[0] > 0 and keys.size[0] < MOST
end

-- Puts keys and their places in order by one digit, from one copy to the other. `places` are
-- nil, or two buffers, of which the first pass reads none.
local function by_digit(state, tiles, descending, pass, from, to, places)
  local n, group, all = from.size[0], M.shape.threads, mapper.all
  local how = not places and "none" or pass == 0 and "first" or "next"
  local kernel = kernel_for(one_pass, from.type, descending, how)
  alone.run(call, tiles * group, group, kernel, function(cg)
    local list = { cg:read(from, all), cg:discard_write(to, all) }
    if how == "next" then list[#list + 1] = cg:read(places[2 - pass % 2], all) end
    if places then list[#list + 1] = cg:discard_write(places[1 + pass % 2], all) end
    list[#list + 1] = cg:read_write(state, all)
    list[#list + 1], list[#list + 2], list[#list + 3] = tiles, n, pass
    return unpack(list)
  end)
end

local function tiles_of(keys, with_places)
  return math.ceil(keys.size[0] / (M.shape.threads * keys_of_each(keys.type, with_places)))
end

-- Where passes tell what they have counted.
local function new_state(keys, with_places)
  return alone.zeros(call, "uint32_t",
    (keys.type.size + 1 + 2 * tiles_of(keys, with_places)) * DIGITS)
end

-- From the keys to `to` and back, by so many digits; gives the places, if they are wanted.
local function run_passes(state, from, to, descending, passes, with_places)
  local tiles, places = tiles_of(from, with_places), nil
  if with_places then
    places = { alone.scratch("uint32_t", from.size[0]), alone.scratch("uint32_t", from.size[0]) }
  end
  for pass = 0, passes - 1 do
    by_digit(state, tiles, descending, pass, from, to, places)
    from, to = to, from
  end
  alone.done(state)
  if not places then return end
  local last = 1 + (passes - 1) % 2
  alone.done(places[3 - last])
  return places[last]
end

-- By all digits of keys, one after the other; gives the places, if they are wanted.
local function by_all_digits(keys, descending, with_places)
  local type_, n, passes = keys.type, keys.size[0], keys.type.size
  local state = new_state(keys, with_places)
  local items = math.min(COUNTERS, math.ceil(n / COUNTING)) * COUNTING
  alone.run(call, items, COUNTING, kernel_for(count, type_, descending), function(cg)
    return cg:read(keys, mapper.all), cg:read_write(state, mapper.all),
      tiles_of(keys, with_places), n
  end)
  local from, other = keys, alone.scratch(type_, n)
  local to = other
  if passes % 2 == 1 then
    contents.copy(keys, other)
    from, to = other, keys
  end
  local places = run_passes(state, from, to, descending, passes, with_places)
  alone.done(other)
  return places
end

--- Words that passes over keys of `uint32_t` share, by tiles of so many: kernels/radix.cuh.
---@param n integer  keys
---@param tile integer
---@return integer
function M.words(n, tile) return (4 + 1 + 2 * math.ceil(n / tile)) * DIGITS end

--- Sorts the first of the buffers, and the others by it.
---@param list celer.buffer[]
---@param descending boolean
function M.sort(list, descending)
  local n = list[1].size[0]
  local places = by_all_digits(list[1], descending, #list > 1)
  for k = 2, #list do
    local buffer = list[k]
    local taken = alone.scratch(buffer.type, n)
    contents.copy(buffer, taken)
    queues.run(call, function(cg)
      cg:name(call)
      cg:parallel_for(box.new({ 0 }, { n }), kernel_for(take, buffer.type, false),
        cg:read(places), cg:read(taken, mapper.all), cg:discard_write(buffer))
    end)
    alone.done(taken)
  end
  if places then alone.done(places) end
end

return M
