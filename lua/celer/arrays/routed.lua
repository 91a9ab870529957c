--- routed.lua -- what cg:route brings where it belongs, by kernels of the one GPU of a run:
--- kernels/routed.cuh.
---
--- One launch puts the keys of all pushes in order, and their places beside them. Then each key has
--- its values side by side, in the order of items: the same launch appends these, or another one
--- combines them. Where keys are few, one launch does all, without the places. Kernels take nothing
--- of an item that has made a mistake, and note it: a host task looks for that now and then, and
--- before the script waits, asks for copies or submits host tasks, so that no step waits for the
--- host.
local codec = require "string.buffer"
local ffi = require "ffi"
local alone = require "celer.arrays.alone"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local lane = require "celer.host.route"
local mapper = require "celer.mapper.builtin"
local place = require "celer.place"
local placement = require "celer.submit.placement"
local queues = require "celer.submit.queue"
local radix = require "celer.arrays.radix"
local snapshot = require "celer.data.snapshot"
local sorted_pairs = require("celer.tables").sorted_pairs
local types = require "celer.data.types"

local M = {}

local call = "celer.route"
-- Groups of a sort at most, of which a multiprocessor has RESIDENT; items of each, keys of an item.
local GROUPS, RESIDENT, GROUP, EACH = 396, 3, 256, 16
local WRONG = 4 -- words that say what is wrong, of each delivery
local OFTEN = 32 -- deliveries until a host task looks
local MOST_PLACES = 2 ^ 30
local SORTING = 16 -- bytes of a place: its key and its number, each twice
-- What kernels take of an arena, and what they make of it.
local SLOTS = "int64_t heads, uint32_t items, uint32_t most, uint32_t row, int64_t value_row, "
  .. "uint32_t pitch, uint32_t end, uint32_t told"
local PUSHED = "celer::routed<%s, %d>{(const uint32_t *)&arena(0), (const char *)&arena(heads), "
  .. "items, most, row, value_row, pitch, end}"
local OFTEN_MOST = 2 -- slots of an item up to which kernels are compiled for so many
-- Groups that combine what came to one key: see group_for.
local groups = { { many = 16, items = 64, bytes = 2 ^ 12 }, { many = 1024, items = 256,
  bytes = 2 ^ 15 } }
local few_groups = { { many = 64, bytes = 2 ^ 15 } }
local BLOCK = 64 -- CEL_ROUTE_BLOCK

local sort = [[
using sorting = celer::radix_pass<uint32_t, false, GROUP, EACH>;
kernel void route_sort(group<1> g, in<uint64_t, 1> arena, out<uint32_t, 1> sorted_at,
                       inout<uint32_t, 1> state, inout<uint64_t, 1> wrong, MADE SLOTS,
                       int counting, int finishing,
                       local<uint64_t, sorting::room / 8> room,
                       local<uint32_t, sorting::words> few,
                       local<uint64_t, CELER_WARP_ROOM(GROUP)> warps) {
  auto *const told_wrong = (unsigned long long *)&wrong(told);
  const auto pushed = PUSHED;
  pushed.sort<PASSES, FEWER, GROUP, EACH>(g, &sorted_at(0), &state(0), counting, finishing,
      told_wrong, (unsigned char *)&room[0], &few[0], &warps[0],
      [&](int64_t piece, const uint32_t *sorted, const uint32_t *order) { MAKE });
}
#ifdef CELER_CUDA
template <>
constexpr int celer::resident<&route_sort, celer::signature<decltype(&route_sort)>> = RESIDENT;
#endif
]]
-- What is made at the end of elements that are appended, or of keys that are combined.
local APPENDED = "out<int64_t, 1> offsets, out<T, 1> values, out<int64_t, 0> count, "
  .. "int64_t room_for,"
local sort_append = sort:gsub("MADE", APPENDED):gsub("MAKE", [[
    pushed.append(g, piece, finishing, sorted, order, &offsets(0), &values(0), &count(), room_for,
                  told_wrong);
]])
local sort_combine = sort:gsub("MADE", "out<uint32_t, 1> begins,"):gsub("MAKE", [[
    const int64_t keys = int64_t(end) + 1;
    if (piece == 0 && g.local(0) == 0) pushed.name_key(told_wrong);
    for (int64_t i = keys * piece / finishing + g.local(0); i < keys * (piece + 1) / finishing;
         i += g.size(0))
      begins(i) = uint32_t(pushed.begin_of(i, sorted));
]])

local operator = [[
struct route_combine {
  CELER_FN E operator()(E a, E b) const { return (E)(OPERATOR); }
};
]]
local combine = operator .. [[
kernel void route_combine_some(item<1> it, in<uint64_t, 1> arena, SORTED, MODE<T, TO> to, SLOTS,
                               E identity) {
  CHOOSE
  pushed.combine<E, WIDTH, route_combine>(begins(it[0]), begins(it[0] + 1), value_at,
      (E *)&to(START) + it[0] * WIDTH, KEEP, identity);
}
kernel void route_combine_many(group<1> g, in<uint64_t, 1> arena, SORTED, MODE<T, TO> to, SLOTS,
                               E identity, local<T, SOME + SOME / BLOCK> staged) {
  CHOOSE
  pushed.combine<E, WIDTH, route_combine, SOME>(g, begins(g.number(0)), begins(g.number(0) + 1),
      value_at, (E *)&to(START) + g.number(0) * WIDTH, KEEP, identity, &staged[0]);
}
]]

-- What a sort leaves, and where places are.
local SORTED = "in<uint32_t, 1> sorted_at, in<uint32_t, 1> begins, in<uint32_t, 1> state"
local CHOOSE = "const auto pushed = PUSHED; const uint32_t *const order = "
  .. "pushed.order_of(&sorted_at(0), pushed.sort_state(&state(0))->passes); "
  .. "const auto value_at = [&](int64_t k) { return pushed.value(order[k]); };"

-- C++ of a and b; of fractions what is NaN stays so. Whole numbers wrap.
local operators = { sum = "WIDE(a) + WIDE(b)", prod = "WIDE(a) * WIDE(b)", ["and"] = "a & b",
  ["or"] = "a | b", min = "b < a || b != b ? b : a", max = "a < b || b != b ? b : a" }

local FEW = { 8, 10 } -- bits of keys up to which they are few: those that kernels are compiled for
--- Of few keys: items of a group; places of a tile for each of them, by bits; pieces at most, as
--- routed_few::most_pieces. Specs have others; without pieces no keys are few.
M.shape = { group = 512, each = { [8] = 4, [10] = 8 }, pieces = 256 }
local few = [[
using route_few_keys = celer::routed_few<T, MOST, BITS, GROUP, EACH>;
kernel void route_few(group<1> g, in<uint64_t, 1> arena, inout<uint32_t, 1> state,
                      inout<uint64_t, 1> wrong, MADE SLOTS, int pieces,
                      local<celer::room_line, (HELD + 63) / 64> room,
                      local<uint32_t, route_few_keys::words> words,
                      local<uint64_t, CELER_WARP_ROOM(GROUP)> warps) {
  const route_few_keys few = {PUSHED, &state(0), pieces, (unsigned long long *)&wrong(told), g,
                   &room[0].at[0], &words[0], &warps[0]};
  few.MAKE;
}
#ifdef CELER_CUDA
template <>
constexpr int celer::resident<&route_few, celer::signature<decltype(&route_few)>> = 2;
#endif
]]
local few_append = few:gsub("MADE", APPENDED):gsub("HELD", "route_few_keys::room"):gsub("MAKE",
  "append(&offsets(0), &values(0), &count(), room_for)")
local few_combine = operator .. few:gsub("MADE",
  "out<T, 1> sorted, MODE<T, TO> to, E identity,"):gsub("HELD",
  "(route_few_keys::room > STAGED ? route_few_keys::room : STAGED)"):gsub("MAKE",
  "combine<E, WIDTH, route_combine, SOME>(&sorted(0), (E *)&to(START), KEEP, identity)")

local zeros = { "0", "0, 0", "0, 0, 0" }

---@class celer.route_delivery
---@field what celer.route_task
---@field type celer.type
---@field arena celer.buffer
---@field items integer
---@field ends integer  how many keys there are
---@field state celer.buffer  of the sort: all 0
---@field wrong celer.buffer
---@field told integer  where in it its words begin
---@field counting integer  groups that count keys
---@field finishing integer  groups that make what the sort ends with
---@field sort celer.kernel
---@field combine? celer.kernel
---@field adders? integer  items of a group that combine what came to one key
---@field identity? ffi.cdata*

local function kernel_for(source, d, more)
  local most, pushed = d.what.most, PUSHED
  if most > OFTEN_MOST then most = 0 end
  pushed = pushed:format(d.type.name, most)
  local given = { T = d.type.name, MOST = tostring(most), GROUP = tostring(GROUP),
    EACH = tostring(EACH), RESIDENT = tostring(RESIDENT), BLOCK = tostring(BLOCK), SLOTS = SLOTS,
    SORTED = SORTED, PUSHED = pushed, CHOOSE = CHOOSE:gsub("PUSHED", pushed) }
  local key = { given.T, given.MOST }
  for k, v in sorted_pairs(more) do given[k], key[#key + 1] = v, k .. v end
  return alone.kernel(source, given, table.concat(key, " "))
end

-- As kernels take them; and what comes behind.
local function slots_of(d, ...)
  local what = d.what
  return what.values / 8, d.items, what.most, what.row / 4, what.value_row, what.pitch, d.ends,
    d.told, ...
end

-- One of FEW, if there are so few keys.
local function bits_for(ends)
  for _, bits in ipairs(FEW) do
    if ends <= 2 ^ bits and M.shape.pieces > 0 then return bits end
  end
end

--- Whether a task's pushes can be delivered so.
---@param routed celer.routed
---@param arena celer.route_arena
---@param space celer.space
---@return boolean
function M.serves(routed, arena, space)
  if not arena.is_apart or space.empty then return false end
  local places, ends, room = routed.most, 1, core.room()
  for d = 1, space.dims do places = places * (space.hi[d] - space.box.min[d - 1]) end
  for _, n in ipairs(routed.extents) do ends = ends * n end
  local beside = not bits_for(ends) and SORTING or routed.how == "append" and 0 or routed.type.size
  return places < MOST_PLACES and ends > 0 and ends < MOST_PLACES
    and (room == 0 or arena.buffer.bytes + routed.buffer.bytes + beside * places <= room)
    and not (routed.how == "append" and routed.keep)
end

-- Digits of the numbers up to `last`.
local function passes_for(last)
  local passes, most = 1, 255
  while most < last do passes, most = passes + 1, most * 256 + 255 end
  return passes
end

local function plan_sort(d, routed)
  local is_append = d.what.bins
  local numbers = math.max(is_append and routed.buffer.size[0] or 0, d.ends + 1)
  d.counting = math.min(GROUPS, math.ceil(d.items * d.what.most / GROUP))
  d.finishing = math.min(GROUPS, math.ceil(numbers / GROUP))
  d.sort = kernel_for(is_append and sort_append or sort_combine, d,
    { PASSES = tostring(passes_for(d.ends)), FEWER = tostring(passes_for(d.ends - 1)) })
end

-- Values of a key, on average, from which on a group combines them, of so many items, which fetch
-- so many bytes at once: the last that suit.
local function group_for(d, list)
  local by
  for _, group in ipairs(list) do
    if d.items * d.what.most >= group.many * d.ends then by = group end
  end
  local bytes = (by or list[1]).bytes
  return by, math.max(math.floor(bytes / d.type.size / BLOCK), 1) * BLOCK
end

-- What kernels that combine are told.
local function combining(d, routed, more)
  local what, to = d.what, routed.buffer
  local type_ = types.number(what.class, what.number)
  local wide = what.class == "f" and type_.name or what.number == 8 and "uint64_t" or "uint32_t"
  local identity = ffi.new(ffi.typeof("$[1]", type_.ctype))
  if what.identity then ffi.copy(identity, what.identity, type_.size) end
  d.identity = identity[0]
  more.E, more.WIDTH, more.OPERATOR = type_.name, tostring(what.count),
    operators[what.op]:gsub("WIDE", wide)
  more.TO, more.START, more.KEEP = tostring(to.dims), zeros[to.dims], tostring(routed.keep)
  more.MODE = routed.keep and "inout" or "out"
  return more
end

local function plan_combine(d, routed)
  local by, some = group_for(d, groups)
  local list = kernel_for(combine, d, combining(d, routed, { SOME = tostring(some) }))
  d.adders = by and by.items
  d.combine = d.adders and list.route_combine_many or list.route_combine_some
end

local function plan_few(d, routed)
  local bits, group, pieces = bits_for(d.ends), M.shape.group, M.shape.pieces
  local each = M.shape.each[bits]
  local more = { BITS = tostring(bits), GROUP = tostring(group), EACH = tostring(each) }
  local tiles = math.ceil(d.items * d.what.most / (group * each))
  d.pieces = math.ceil(tiles / math.ceil(tiles / pieces))
  d.group = group
  d.groups = d.pieces
  if d.what.bins then
    d.few = kernel_for(few_append, d, more)
  else
    local by, some = group_for(d, few_groups)
    if not by then some = 0 end
    more.SOME, more.STAGED = tostring(some), tostring((some + some / BLOCK) * d.type.size)
    d.few = kernel_for(few_combine, d, combining(d, routed, more))
    d.groups = math.max(d.pieces, by and d.ends or math.ceil(d.ends / group))
    d.groups = math.min(d.groups, pieces)
  end
  return 16 + 32 + (2 + d.pieces) * 2 ^ bits -- routed_few::state
end

-- What stays the same where a task comes again, which then has the same `what`.
local plans = setmetatable({}, { __mode = "k" })

local function plan_for(what, routed, arena)
  local d = plans[what]
  if d then return d end
  d = { what = what, type = routed.type, arena = arena.buffer, items = 1, ends = 1, kept = {},
    kept_combine = {} }
  for _, n in ipairs(what.items) do d.items = d.items * n end
  for _, n in ipairs(what.size) do d.ends = d.ends * n end
  arena.wrong = arena.wrong or buffers.new("uint64_t", { WRONG * OFTEN }, { init = 0 })
  local words
  if bits_for(d.ends) then
    words = plan_few(d, routed)
  else
    words = radix.words(d.items * what.most, GROUP * EACH)
    plan_sort(d, routed)
    if not what.bins then plan_combine(d, routed) end
  end
  arena.state = arena.state or alone.zeros(call, "uint32_t", words)
  d.wrong, d.state = arena.wrong, arena.state
  plans[what] = d
  return d
end

-- How kernels access what they are given.
local read, write, both = "read", "discard_write", "read_write"
local modes = {
  few = { append = { read, both, both, write, write, write },
    combine = { read, both, both, write, write }, keep = { read, both, both, write, both } },
  sort = { append = { read, write, both, both, write, write, write },
    combine = { read, write, both, both, write } },
  combine = { combine = { read, read, read, read, write },
    keep = { read, read, read, read, both } },
}

-- By one launch.
local function submit_few(d, routed, count)
  local n, list = d.groups * d.group, modes.few
  if count then
    return alone.run_again(d.kept, call, n, d.group, d.few, list.append,
      { d.arena, d.state, d.wrong, routed.offsets, routed.buffer, count },
      { routed.buffer.size[0], slots_of(d, d.pieces) })
  end
  local sorted = alone.scratch(d.type, d.items * d.what.most)
  alone.run_again(d.kept, call, n, d.group, d.few, routed.keep and list.keep or list.combine,
    { d.arena, d.state, d.wrong, sorted, routed.buffer }, { d.identity, slots_of(d, d.pieces) })
  alone.done(sorted)
end

-- Puts keys in order, and places beside them; and appends, or says where each key begins, and
-- combines by another launch.
local function submit_sort(d, routed, count)
  local sorted = alone.scratch("uint32_t", 4 * d.items * d.what.most)
  local n, list = math.max(d.counting, d.finishing) * GROUP, modes.sort
  if count then
    alone.run_again(d.kept, call, n, GROUP, d.sort, list.append,
      { d.arena, sorted, d.state, d.wrong, routed.offsets, routed.buffer, count },
      { routed.buffer.size[0], slots_of(d, d.counting, d.finishing) })
    return alone.done(sorted)
  end
  local begins = alone.scratch("uint32_t", d.ends + 1)
  alone.run_again(d.kept, call, n, GROUP, d.sort, list.combine,
    { d.arena, sorted, d.state, d.wrong, begins }, { slots_of(d, d.counting, d.finishing) })
  alone.run_again(d.kept_combine, call, d.ends * (d.adders or 1), d.adders, d.combine,
    modes.combine[routed.keep and "keep" or "combine"],
    { d.arena, sorted, begins, d.state, routed.buffer }, { slots_of(d, d.identity) })
  alone.done(begins)
  alone.done(sorted)
end

-- ---- mistakes -----------------------------------------------------------------

local list, arenas = {}, {} -- deliveries since; and of what buffers they may be wrong
local checked -- what looks write: who reads it runs only where none has found a mistake

--- Submits a host task that looks for mistakes, where something was delivered since.
---@return celer.buffer?  who reads it runs after all of these, and only if they found none
function M.look()
  if #list == 0 then return checked end
  for i = 1, #list do
    local one = list[i]
    one.place, one.file, one.line = one.file and ("%s:%d"):format(one.file, one.line), nil, nil
  end
  local text, wrong, to = codec.encode(list), arenas, checked or buffers.new("uint8_t", {},
    { name = call })
  list, arenas, checked = {}, {}, nil
  queues.beside(function()
    queues.run(call, function(cg)
      cg:name(call)
      for i = 1, #wrong do wrong[i] = cg:read(wrong[i], mapper.all) end
      cg:host_task(placement.once, lane.check, cg:discard_write(to), text, unpack(wrong))
    end)
  end)
  checked = to
  return checked
end

snapshot.precede(M.look)

-- Notes that there may be some, at the line of the task; gives where the words of it begin.
local function note(wrong, text)
  if #list == OFTEN then M.look() end
  if not arenas[wrong] then
    arenas[#arenas + 1] = wrong
    arenas[wrong] = #arenas
  end
  local file, line = place.user()
  local at = WRONG * #list
  list[#list + 1] = { arena = arenas[wrong], at = at, text = text, file = file, line = line }
  return at
end

--- Submits what brings the pushes of a task where they belong.
---@param routed celer.routed
---@param what celer.route_task
---@param text string  the same for lanes
---@param arena celer.route_arena
function M.deliver(routed, what, text, arena)
  local d = plan_for(what, routed, arena)
  d.told = note(d.wrong, text)
  local of_list = routed.list
  local count = what.bins and (of_list and of_list.count or alone.scratch("int64_t"))
  ;(d.few and submit_few or submit_sort)(d, routed, count)
  if what.bins and not of_list then alone.done(count) end
end

return M
