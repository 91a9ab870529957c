--- routed.lua -- what cg:route brings where it belongs, by kernels of the one GPU of a run:
--- kernels/routed.cuh.
---
--- One launch puts the keys of all pushes in order, and their places beside them. Then each key has
--- its values side by side, in the order of items: the same launch appends these, or another one
--- combines them. Kernels take nothing of an item that has made a mistake, and note it: a host task
--- looks for that now and then, and before the script waits, asks for copies or submits host tasks,
--- so that no step waits for the host.
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
local settings = require "celer.settings"
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
local SLOTS = "int64_t heads, uint32_t items, uint32_t most, uint32_t pitch, uint32_t end, "
  .. "uint32_t told"
local PUSHED = "celer::routed<%s>{(const uint32_t *)&arena(0), (const char *)&arena(heads), "
  .. "items, most, pitch, end}"
-- Values of a key, on average, from which on a group combines them, of so many items, which fetch
-- so many bytes at once: the last that suit.
local groups = { { many = 16, items = 64, bytes = 2 ^ 12 }, { many = 1024, items = 256,
  bytes = 2 ^ 15 } }
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
local APPENDED = "out<int64_t, 1> offsets, out<%s, 1> values, out<int64_t, 0> count, "
  .. "int64_t room_for,"
local APPEND = [[
    pushed.append(g, piece, finishing, sorted, order, &offsets(0), &values(0), &count(), room_for,
                  told_wrong);
]]
local BEGINS = "out<uint32_t, 1> begins,"
local BEGIN = [[
    const int64_t keys = int64_t(end) + 1;
    if (piece == 0 && g.local(0) == 0) pushed.name_key(told_wrong);
    for (int64_t i = keys * piece / finishing + g.local(0); i < keys * (piece + 1) / finishing;
         i += g.size(0))
      begins(i) = uint32_t(pushed.begin_of(i, sorted));
]]

local combine = [[
struct route_combine {
  CELER_FN E operator()(E a, E b) const { return (E)(OPERATOR); }
};
kernel void route_combine_some(item<1> it, in<uint64_t, 1> arena, SORTED, MODE<T, TO> to, SLOTS,
                               E identity) {
  CHOOSE
  pushed.combine<E, WIDTH, route_combine>(begins(it[0]), begins(it[0] + 1), order,
      (E *)&to(START) + it[0] * WIDTH, KEEP, identity);
}
kernel void route_combine_many(group<1> g, in<uint64_t, 1> arena, SORTED, MODE<T, TO> to, SLOTS,
                               E identity, local<T, SOME + SOME / BLOCK> staged) {
  CHOOSE
  pushed.combine<E, WIDTH, route_combine, SOME>(g, begins(g.number(0)), begins(g.number(0) + 1),
      order, (E *)&to(START) + g.number(0) * WIDTH, KEEP, identity, &staged[0]);
}
]]

-- What a sort leaves, and where places are.
local SORTED = "in<uint32_t, 1> sorted_at, in<uint32_t, 1> begins, in<uint32_t, 1> state"
local CHOOSE = "const auto pushed = PUSHED; const uint32_t *const order = "
  .. "pushed.order_of(&sorted_at(0), celer::sort_state::passes_of(&state(0)));"

-- C++ of a and b; of fractions what is NaN stays so. Whole numbers wrap.
local operators = { sum = "WIDE(a) + WIDE(b)", prod = "WIDE(a) * WIDE(b)", ["and"] = "a & b",
  ["or"] = "a | b", min = "b < a || b != b ? b : a", max = "a < b || b != b ? b : a" }

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

local function kernel_for(source, type_, more)
  local given = { T = type_.name, GROUP = tostring(GROUP), EACH = tostring(EACH),
    RESIDENT = tostring(RESIDENT), BLOCK = tostring(BLOCK), SLOTS = SLOTS,
    SORTED = SORTED, PUSHED = PUSHED:format(type_.name) }
  given.CHOOSE = CHOOSE:gsub("PUSHED", given.PUSHED)
  local key = { given.T }
  for k, v in sorted_pairs(more) do given[k], key[#key + 1] = v, k .. v end
  return alone.kernel(source, given, table.concat(key, " "))
end

-- As kernels take them; and what comes behind.
local function slots_of(d, ...)
  return d.what.values / 8, d.items, d.what.most, d.what.pitch, d.ends, d.told, ...
end

--- Whether a task's pushes can be delivered so.
---@param routed celer.routed
---@param arena celer.route_arena
---@param space celer.space
---@return boolean
function M.serves(routed, arena, space)
  if not arena.is_apart or settings.session or space.empty or arena.is_wide then return false end
  local places, ends, room = routed.most, 1, core.room()
  for d = 1, space.dims do places = places * (space.hi[d] - space.box.min[d - 1]) end
  for _, n in ipairs(routed.extents) do ends = ends * n end
  return places < MOST_PLACES and ends > 0 and ends < MOST_PLACES
    and (room == 0 or arena.buffer.bytes + routed.buffer.bytes + SORTING * places <= room)
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
  d.sort = kernel_for(sort, d.type, { PASSES = tostring(passes_for(d.ends)),
    FEWER = tostring(passes_for(d.ends - 1)), MAKE = is_append and APPEND or BEGIN,
    MADE = is_append and APPENDED:format(d.type.name) or BEGINS })
end

local function plan_combine(d, routed)
  local what, to = d.what, routed.buffer
  local type_ = types.number(what.class, what.number)
  local wide = what.class == "f" and type_.name or what.number == 8 and "uint64_t" or "uint32_t"
  local by
  for _, group in ipairs(groups) do
    if d.items * what.most >= group.many * d.ends then by = group end
  end
  local some = math.max(math.floor((by or groups[1]).bytes / d.type.size / BLOCK), 1) * BLOCK
  local list = kernel_for(combine, d.type, { SOME = tostring(some), E = type_.name,
    WIDTH = tostring(what.count), OPERATOR = operators[what.op]:gsub("WIDE", wide),
    TO = tostring(to.dims),
    START = zeros[to.dims], MODE = routed.keep and "inout" or "out", KEEP = tostring(routed.keep) })
  local identity = ffi.new(ffi.typeof("$[1]", type_.ctype))
  if what.identity then ffi.copy(identity, what.identity, type_.size) end
  d.identity = identity[0]
  d.adders = by and by.items
  d.combine = d.adders and list.route_combine_many or list.route_combine_some
end

-- What stays the same where a task comes again, which then has the same `what`.
local plans = setmetatable({}, { __mode = "k" })

local function plan_for(what, routed, arena)
  local d = plans[what]
  if d then return d end
  d = { what = what, type = routed.type, arena = arena.buffer, items = 1, ends = 1 }
  for _, n in ipairs(what.items) do d.items = d.items * n end
  for _, n in ipairs(what.size) do d.ends = d.ends * n end
  arena.wrong = arena.wrong or buffers.new("uint64_t", { WRONG * OFTEN }, { init = 0 })
  arena.state = arena.state or alone.zeros(call, "uint32_t",
    radix.words(d.items * what.most, GROUP * EACH))
  d.wrong, d.state = arena.wrong, arena.state
  plan_sort(d, routed)
  if not what.bins then plan_combine(d, routed) end
  plans[what] = d
  return d
end

-- Puts keys in order in `sorted`, and places beside them; and appends, or says where each key
-- begins.
local function submit_sort(d, sorted, declare)
  local all = mapper.all
  alone.run(call, math.max(d.counting, d.finishing) * GROUP, GROUP, d.sort, function(cg)
    return cg:read(d.arena, all), cg:discard_write(sorted, all), cg:read_write(d.state, all),
      cg:read_write(d.wrong, all), declare(cg)
  end)
end

local function submit_append(d, routed, sorted)
  local all, room = mapper.all, routed.buffer.size[0]
  local count = routed.list and routed.list.count or alone.scratch("int64_t")
  submit_sort(d, sorted, function(cg)
    return cg:discard_write(routed.offsets, all), cg:discard_write(routed.buffer, all),
      cg:discard_write(count, all), room, slots_of(d, d.counting, d.finishing)
  end)
  if not routed.list then alone.done(count) end
end

local function submit_combine(d, routed, sorted)
  local all, begins = mapper.all, alone.scratch("uint32_t", d.ends + 1)
  submit_sort(d, sorted, function(cg)
    return cg:discard_write(begins, all), slots_of(d, d.counting, d.finishing)
  end)
  alone.run(call, d.ends * (d.adders or 1), d.adders, d.combine, function(cg)
    return cg:read(d.arena, all), cg:read(sorted, all), cg:read(begins, all),
      cg:read(d.state, all),
      cg[routed.keep and "read_write" or "discard_write"](cg, routed.buffer, all),
      slots_of(d, d.identity)
  end)
  alone.done(begins)
end

-- ---- mistakes -----------------------------------------------------------------

local list, arenas = {}, {} -- deliveries since; and of what buffers they may be wrong
local checked -- what looks write: who reads it runs only where none has found a mistake

--- Submits a host task that looks for mistakes, where something was delivered since.
---@return celer.buffer?  who reads it runs after all of these, and only if they found none
function M.look()
  if #list == 0 then return checked end
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
  list[#list + 1] = { arena = arenas[wrong], at = WRONG * #list, text = text,
    place = file and ("%s:%d"):format(file, line) }
  return list[#list].at
end

--- Submits what brings the pushes of a task where they belong.
---@param routed celer.routed
---@param what celer.route_task
---@param text string  the same for lanes
---@param arena celer.route_arena
function M.deliver(routed, what, text, arena)
  local d = plan_for(what, routed, arena)
  d.told = note(d.wrong, text)
  local sorted = alone.scratch("uint32_t", 4 * d.items * what.most)
  ;(what.bins and submit_append or submit_combine)(d, routed, sorted)
  alone.done(sorted)
end

return M
