--- route.lua -- cg:route: items that say where their results go.
---
--- A kernel pushes values with keys. Each of its items has slots for so many in a buffer of
--- celer's own, an *arena*, by an ordinary mapper. A hidden task of all ranks follows: ranks share
--- the rows of the arena evenly, and so those of what is written; they bring each other what was
--- pushed (engine/comm/route.h) and combine it, or append it to bins, in the order of items and of
--- their pushes. How much that is only they know, so the script waits for nothing.
local ffi = require "ffi"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local collective = require "celer.submit.collective"
local core = require "celer.core"
local lane = require "celer.host.route"
local lists = require "celer.data.list"
local mapper = require "celer.mapper.builtin"
local nd_range = require "celer.kernel.nd_range"
local place = require "celer.place"
local reduce = require "celer.kernel.reduce"
local rooms = require "celer.submit.room"
local settings = require "celer.settings"
local spaces = require "celer.space"
local words = require "celer.words"

local fail = place.fail
local floor, min_of = mapper.floor, mapper.min

local M = {}

local MOST = 8 -- arenas that are kept of one buffer
local MOST_PUSHES = 2 ^ 20 -- of an item
local MOST_NARROW = 2 ^ 32 -- keys of which each has 32 bits
local ONE_CHUNK = 2 ^ 40 -- items, more than there are
local NAME = "celer.route"
local fields = core.facts.access

-- As kernels/route.cuh has it.
ffi.cdef [[
struct celer_routing {
  int64_t size[3], first[3], across[2], values, next_key, next_value;
  int32_t most, words, step, pitch, is_wide, is_apart;
};
]]

-- ---- what is declared ---------------------------------------------------------

---@class celer.route_options
---@field most? integer  values that an item may push: 1, or of a kernel in Lua without loops as
---  many as it has
---@field include_current? boolean  begin with what the buffer, or the bins, hold
---@field reproducible? boolean  as routes are in any case: the same bits on any number of ranks
---@field offsets? celer.buffer  of "append": where each bin begins, and the end of all
---@field dry? celer.range_mapper  of dry runs: to which elements, or bins, a chunk's items push

---@class celer.routed  what a kernel pushes to
---@field buffer celer.buffer
---@field name string
---@field type celer.type
---@field dims integer  of keys
---@field extents integer[]  of what keys lead to
---@field how string
---@field most integer
---@field stated boolean  that was said
---@field keep boolean
---@field offsets? celer.buffer
---@field list? celer.list
---@field dry? celer.range_mapper
---@field active? integer  in a dry run: so many items push, `each` so often
---@field each? integer
---@field packed? ffi.cdata*  as the kernel is given it, once there is an arena

local operators = { sum = true, prod = true, min = true, max = true, ["and"] = true,
  ["or"] = true, append = true }
local known_options = { most = true, include_current = true, offsets = true, reproducible = true,
  dry = true }
local switches = { "include_current", "reproducible" }

local components = { float = { "f", 4 }, double = { "f", 8 }, int = { "i", 4 },
  uint = { "u", 4 } }

-- The numbers that an element has: their class, bytes and count.
local function numbers_of(type_)
  local of, count = type_.name:match "^(%l+)([234])$"
  local one = components[of]
  if one then return one[1], one[2], tonumber(count) end
  if type_.class ~= "s" then return type_.class, type_.size, 1 end
end

local function check_operator(call, buffer, how)
  local class = numbers_of(buffer.type)
  local bits = how == "and" or how == "or"
  if not class then
    fail("%s: %s holds %s; \"%s\" combines numbers and vectors of them: route each field to a "
      .. "buffer of its own, or \"append\" whole elements to bins", call, buffer.name,
      buffer.type.name, how)
  elseif bits and class == "f" then
    fail("%s: \"%s\" is for whole numbers, bit by bit, and for bool; %s holds %s", call, how,
      buffer.name, buffer.type.name)
  elseif not bits and class == "b" then
    fail("%s: \"%s\" is for numbers; for the bool of %s there are \"and\" and \"or\"", call, how,
      buffer.name)
  elseif buffer.dims == 0 then
    fail("%s: %s has no dimensions, so no key leads to its element: cg:reduce combines into it",
      call, buffer.name)
  end
end

local function check_append(call, buffer, offsets)
  if offsets == nil then
    fail("%s: \"append\" takes the buffer that says where bins begin: { offsets = o }, of int64_t, "
      .. "with one element more than there are bins", call)
  end
  buffers.check(offsets, call .. ": offsets")
  if offsets.type.name ~= "int64_t" or offsets.dims ~= 1 or offsets.size[0] < 2 then
    fail("%s: offsets are int64_t of one dimension, one element more than there are bins; here is "
      .. "%s", call, tostring(offsets))
  elseif buffer.dims ~= 1 then
    fail("%s: values are appended to a buffer of one dimension; %s has %d", call, buffer.name,
      buffer.dims)
  elseif offsets == buffer then
    fail("%s: %s is given twice", call, buffer.name)
  end
end

local function most_of(call, most)
  if most == nil then return 1 end
  if type(most) ~= "number" or most % 1 ~= 0 or most < 1 or most > MOST_PUSHES then
    fail("%s: most is how many values an item may push, a whole number from 1 to %d, not %s", call,
      MOST_PUSHES, type(most) == "number" and tostring(most) or words.a(most))
  end
  return most
end

-- What a kernel pushes to where that is a list.
local function to_list(call, list, how, options)
  if how ~= "append" then
    fail("%s: %s is a list, to whose bins is appended: write \"append\"", call, list.name)
  elseif options.offsets ~= nil then
    fail("%s: the list %s has offsets of its own; leave them out", call, list.name)
  end
  return { buffer = list.values, offsets = list.offsets, list = list, dims = #list.bins,
    extents = list.bins }
end

local function to_buffer(call, buffer, how, options)
  buffers.check(buffer, call)
  if how == "append" then
    check_append(call, buffer, options.offsets)
    return { buffer = buffer, offsets = options.offsets, dims = 1,
      extents = { options.offsets.size[0] - 1 } }
  elseif options.offsets ~= nil then
    fail("%s: offsets are of bins, to which is appended; leave them out, or write \"append\"", call)
  end
  check_operator(call, buffer, how)
  return { buffer = buffer, dims = buffer.dims, extents = buffer.extents }
end

--- What cg:route was given, checked.
---@param call string
---@param to celer.buffer|celer.list
---@param how "sum"|"prod"|"min"|"max"|"and"|"or"|"append"
---@param options? celer.route_options
---@return celer.routed
function M.declare(call, to, how, options)
  local is_list = lists.is_list(to)
  if not is_list then buffers.check(to, call) end
  options = options == nil and {} or options
  words.check_options(call, options, known_options, "{ most = 4 }")
  if type(how) ~= "string" or not operators[how] then
    fail("%s: the second argument says what is done with values, as \"sum\" or \"append\", "
      .. "and is %s%s", call, type(how) == "string"
      and ("%q"):format(how) or words.a(how), words.advice(how, operators))
  end
  for _, name in ipairs(switches) do
    if options[name] ~= nil and type(options[name]) ~= "boolean" then
      fail("%s: %s must be true or false, not %s", call, name, words.a(options[name]))
    end
  end
  local routed = (is_list and to_list or to_buffer)(call, to, how, options)
  routed.name, routed.type, routed.how = to.name, routed.buffer.type, how
  routed.most, routed.keep = most_of(call, options.most), options.include_current or false
  routed.stated = options.most ~= nil
  routed.dry = options.dry
  if routed.dry ~= nil and (type(routed.dry) ~= "function" or mapper.images[routed.dry]) then
    fail("%s: dry must be a range mapper that says where items push in dry runs, as "
      .. "celer.neighborhood(2), not %s", call, mapper.images[routed.dry] and "an image"
      or words.a(routed.dry))
  end
  mapper.refuse_maker(call, routed.dry)
  return routed
end

---@class celer.lua_route  a buffer or a list that a kernel pushes to
---@field to celer.buffer|celer.list
---@field how string
---@field options? celer.route_options
---@field routed celer.routed
local Route = require("celer.kernel.from_lua.function").Route

--- What a kernel is given in the place of an access to push to a buffer: `out.push(key, value)`
--- in C++, `out:push(key, value)` in Lua. As of cg:route.
---@param to celer.buffer|celer.list
---@param how "sum"|"prod"|"min"|"max"|"and"|"or"|"append"
---@param options? celer.route_options
---@return celer.lua_route
function M.new(to, how, options)
  return setmetatable({ to = to, how = how, options = options,
    routed = M.declare(NAME, to, how, options) }, Route)
end

-- ---- arenas -------------------------------------------------------------------

local maps = setmetatable({}, { __mode = "v" }) -- by what kernels are given

-- What a chunk has of an arena, whose rows are those of a range that begins with `first`. Another
-- one for each thing that kernels are given: a plan of submit/replay.lua holds for its mapper.
local function map_of(first, dims, n, bytes)
  local key = dims .. " " .. ffi.string(bytes, ffi.sizeof(bytes))
  local a, b, c = first[1], first[2], first[3]
  local map = maps[key] or ({
    [0] = mapper.another_all "route",
    function(chunk)
      return box.new({ chunk.min[0] - a, 0 }, { chunk.max[0] - a, n })
    end,
    function(chunk)
      return box.new({ chunk.min[0] - a, chunk.min[1] - b, 0 },
        { chunk.max[0] - a, chunk.max[1] - b, n })
    end,
    function(chunk)
      return box.new({ chunk.min[0] - a, chunk.min[1] - b, (chunk.min[2] - c) * n },
        { chunk.max[0] - a, chunk.max[1] - b, (chunk.max[2] - c) * n })
    end })[dims]
  maps[key] = map
  return map
end

---@class celer.route_told  what tasks of one kind are told; made once for those that come again
---@field name string
---@field list? celer.list
---@field how string
---@field keep boolean
---@field type celer.type
---@field room integer
---@field held_room integer
---@field what celer.route_task
---@field text string  the same for lanes
---@field on_gpu boolean  kernels of arrays/routed.lua may bring it

---@class celer.route_arena
---@field most integer  and what follows: what it was made for
---@field size integer  of a value
---@field extents integer[]
---@field dims integer
---@field low integer[]
---@field high integer[]
---@field alone boolean
---@field told celer.route_told[]
---@field buffer celer.buffer
---@field map celer.range_mapper
---@field packed ffi.cdata*
---@field at {step: integer, pitch: integer, values: integer, row?: integer, value_row?: integer}
---  as kernels/route.cuh has them; `row` and `value_row` where slots lie apart
---@field is_apart boolean
---@field is_wide boolean  keys have 64 bits

-- Where slots lie, of so many items: see kernels/route.cuh. `extents`: of the buffer.
local function lay_out(routed, is_wide, is_apart, dims, items)
  local most, keys, count = routed.most, is_wide and 8 or 4, 1
  for d = 1, dims do count = count * items[d] end
  local head, value = keys * (1 + most), 8 * math.ceil(most * routed.type.size / 8)
  if is_apart then
    local pitch = 8 * math.ceil(routed.type.size / 8)
    local row, value_row = 64 * math.ceil(count * keys / 64), 64 * math.ceil(count * pitch / 64)
    local values = (1 + most) * row
    return { step = keys, pitch = pitch, values = values, words = 0, row = row,
      value_row = value_row, extents = { (values + most * value_row) / 8 } }
  end
  head = 8 * math.ceil(head / 8)
  local n, extents = (head + value) / 8, { 1 }
  for d = 1, dims do extents[d] = items[d] end
  extents[math.max(dims, 1) + 1] = n
  if dims == 3 then extents[3], extents[4] = extents[3] * n, nil end
  return { step = 8 * n, pitch = 8 * n, values = head, words = n, extents = extents }
end

local function make_arena(routed, space, alone)
  local first, high = box.bounds(space.box)
  local dims, keys, items = space.dims, 1, {}
  for d = 1, routed.dims do keys = keys * routed.extents[d] end
  for d = 1, dims do items[d] = math.max(high[d] - first[d], 1) end
  local is_wide = keys > MOST_NARROW
  local is_apart = alone and not is_wide
  local at = lay_out(routed, is_wide, is_apart, dims, items)
  local packed = ffi.new("struct celer_routing", { most = routed.most, words = at.words,
    step = at.step, pitch = at.pitch, values = at.values, is_wide = is_wide and 1 or 0,
    is_apart = is_apart and 1 or 0, next_key = at.row, next_value = at.value_row })
  for d = 1, dims do packed.first[d - 1] = first[d] end
  for d = 2, dims do packed.across[d - 2] = items[d] end
  for d = 1, routed.dims do packed.size[d - 1] = routed.extents[d] end
  local bytes = ffi.new("uint8_t[?]", ffi.sizeof(packed))
  ffi.copy(bytes, packed, ffi.sizeof(packed))
  return { most = routed.most, size = routed.type.size, extents = { unpack(routed.extents) },
    dims = dims, low = first, high = high, alone = alone, told = {}, at = at,
    is_apart = is_apart, is_wide = is_wide, packed = bytes,
    map = map_of(is_apart and {} or first, is_apart and 0 or dims, at.words, bytes),
    buffer = buffers.new("uint64_t", at.extents, { name = "pushes to " .. routed.name }) }
end

-- Whether it is what such a task pushes to.
local function is_for(arena, routed, space, alone)
  local extents = routed.extents
  if arena.most ~= routed.most or arena.size ~= routed.type.size or arena.alone ~= alone
    or arena.dims ~= space.dims or #arena.extents ~= #extents then return false end
  for d = 1, #extents do
    if arena.extents[d] ~= extents[d] then return false end
  end
  for d = 1, space.dims do
    if arena.high[d] ~= space.hi[d] or arena.low[d] ~= space.box.min[d - 1] then return false end
  end
  return true
end

-- The newest first. Of too many the oldest goes: on all ranks the same.
local function arena_of(routed, space, alone)
  local owner = routed.offsets or routed.buffer -- a list's values may be others soon
  local list = rawget(owner, "route_arenas")
  if not list then
    list = {}
    rawset(owner, "route_arenas", list)
  end
  for i = 1, #list do
    local one = list[i]
    if is_for(one, routed, space, alone) then
      if i > 1 then table.insert(list, 1, table.remove(list, i)) end
      return one
    end
  end
  local made = make_arena(routed, space, alone)
  table.insert(list, 1, made)
  if list[MOST + 1] then table.remove(list).buffer:free() end
  return made
end

--- Ends what is kept of a buffer that is freed.
---@param buffer celer.buffer
function M.freed(buffer)
  for _, arena in ipairs(rawget(buffer, "route_arenas")) do arena.buffer:free() end
  rawset(buffer, "route_arenas", nil)
end

-- ---- the hidden task ----------------------------------------------------------

-- Each rank's bins, of their offsets; and of the last one the end.
local function bins_of(chunk, buffer)
  local bins, ranks = buffer.size[0] - 1, chunk.global[0]
  local least = floor(bins / ranks)
  local longer = bins - least * ranks
  local function at(i) return least * i + min_of(i, longer) end
  return box.whole(buffer):with(0, at(chunk.min[0]),
    at(chunk.max[0]) + floor(chunk.max[0] / ranks))
end

-- What an element begins with, as bytes.
local function identity_of(routed)
  local class, size, count = numbers_of(routed.type)
  local one = ({ f = { [4] = "float", [8] = "double" }, i = { "int8_t", "int16_t", [4] = "int32_t",
    [8] = "int64_t" }, u = { "uint8_t", "uint16_t", [4] = "uint32_t", [8] = "uint64_t" },
    b = { "bool" } })[class][size]
  local type_ = require("celer.data.types").find(one, NAME)
  local value = ffi.new(ffi.typeof("$[1]", type_.ctype), reduce.identity(routed.how, type_))
  return ffi.string(value, size):rep(count)
end

local function describe(routed, space, arena)
  local first, high = box.bounds(space.box)
  local items = {}
  for d = 1, space.dims do items[d] = high[d] - first[d] end
  local what = { call = "cg:route", name = routed.name, bins = routed.how == "append",
    size = routed.extents, first = first, items = items, most = routed.most,
    bytes = routed.type.size }
  if arena then
    what.step, what.pitch, what.values = arena.at.step, arena.at.pitch, arena.at.values
    what.is_wide, what.row, what.value_row = arena.is_wide, arena.at.row, arena.at.value_row
  end
  if what.bins then
    what.room, what.of = routed.buffer.size[0], "buffer"
    if routed.list then what.of = routed.list.grows and "growing" or "list" end
    what.held_room = routed.keep and (routed.held or routed.buffer).size[0] or 0
  else
    what.op = routed.how
    what.class, what.number, what.count = numbers_of(routed.type)
    what.identity = not routed.keep and identity_of(routed) or nil
  end
  return what
end

-- The same, and as lanes take it.
local function told_of(routed, space, arena)
  local list = arena and arena.told or {}
  local room, held_room = routed.buffer.size[0], routed.held and routed.held.size[0] or 0
  for i = 1, #list do
    local told = list[i]
    if told.name == routed.name and told.list == routed.list and told.how == routed.how
      and told.keep == routed.keep and told.type == routed.type and told.room == room
      and told.held_room == held_room then return told end
  end
  local what = describe(routed, space, arena)
  local told = { name = routed.name, list = routed.list, how = routed.how, keep = routed.keep,
    type = routed.type, room = room, held_room = held_room, what = what, text = lane.text(what),
    on_gpu = arena and require("celer.arrays.routed").serves(routed, arena, space) or false }
  list[#list + 1] = told
  return told
end

-- Submits one task of our own; `work` declares it.
local function submit(flag, work)
  local groups = require "celer.submit.group"
  local group = groups.new()
  if settings.check_nan then group.watched = true end
  group:name(NAME)
  if flag then group:when(flag) end
  work(group)
  groups.close(group)
end

local counting -- the kernel, once there is a list

--- Submits what counts the elements of a list.
---@param list celer.list
function M.recount(list)
  counting = counting or require("celer.kernel.kernel").generated([[
kernel void list_count(item<1>, in<int64_t, 1> ends, out<int64_t, 0> count, int64_t last) {
  count() = ends(last);
}]], NAME, 1)
  submit(nil, function(cg)
    cg:parallel_for({ 1 }, counting, cg:read(list.offsets, mapper.fixed(lists.last(list))),
      cg:discard_write(list.count, mapper.all), list.offsets.size[0] - 1)
  end)
end

-- Has ranks bring what was pushed where it belongs.
local function exchange(routed, what, arena, flag)
  local mode = routed.keep and "read_write" or "discard_write"
  submit(flag, function(cg)
    local pushed = arena and cg:read(arena.buffer, mapper.even_split) or false
    local where = collective.collective(NAME)
    if routed.how ~= "append" then
      return cg:host_task(where, lane.combine, pushed,
        cg[mode](cg, routed.buffer, mapper.even_split), what)
    end
    cg:host_task(where, lane.append, pushed, cg[mode](cg, routed.offsets, bins_of),
      routed.held and cg:read(routed.held, mapper.even_split) or false,
      cg[routed.held and "discard_write" or mode](cg, routed.buffer, mapper.even_split), what)
  end)
  if routed.list then M.recount(routed.list) end
end

-- In a dry run, which does not know where items push.
local function count(routed, what)
  if routed.dry then
    require("celer.tools.dry_routes").note(routed, what)
  else
    require("celer.tools.dry").uncounted("routes", routed.name)
  end
end

-- Submits what brings what was pushed where it belongs.
local function bring(routed, space, arena, flag)
  local told = told_of(routed, space, arena)
  if core.dry() and select(2, core.rank()) > 1 then count(routed, told.what) end
  if told.on_gpu and not flag then
    require("celer.submit.queue").beside(require("celer.arrays.routed").deliver, routed, told.what,
      told.text, arena)
  else
    exchange(routed, told.text, arena, flag)
  end
end

-- Submits what follows the kernel.
local function follow(routed, space, arena, flag)
  if routed.list then
    lists.route_to(routed.list, bring, routed, space, arena, flag)
  else
    bring(routed, space, arena, flag)
  end
  if routed.old then routed.old:free() end
end

-- What a task does to the number of a list's elements. `elements`: of which list its items are. In
-- a dry run, which counts nothing, each of them pushes once.
local function step_of(routed, space, flag, elements)
  local n, kept = routed.most, routed.keep and 1 or 0
  if elements == routed.list then
    return { factor = kept + (core.dry() and 1 or n), more = 0, may_skip = flag and true }
  end
  for d = 1, space.dims do n = n * math.max(space.hi[d] - space.box.min[d - 1], 0) end
  return { factor = kept, more = n, may_skip = flag and true }
end

-- How many items push in a dry run, and how often: of a list each element once (see step_of).
local function suppose_pushes(routed, elements)
  routed.active = elements and elements.grows and elements.room.most or nil
  routed.each = elements and elements == routed.list and 1 or nil
end

-- Has the list have room for all that a task may push. Of its arenas that of the task is left:
-- others are of ranges that have become too small, as of kernels over its elements.
local function make_room(routed, step, arena)
  local list = routed.list
  local n = rooms.needed(list, step, lists.changes(list))
  if n then
    routed.old = lists.grow(list, n)
    routed.held = routed.keep and routed.old or nil
    local arenas = rawget(list.offsets, "route_arenas")
    for i = #arenas, 1, -1 do
      if arenas[i] ~= arena then table.remove(arenas, i).buffer:free() end
    end
  end
  routed.buffer = list.values
end

-- ---- groups -------------------------------------------------------------------

local function check(group, call, kernel, range)
  if nd_range.is_nd_range(range) or require("celer.kernel.kernel").is_kernel(kernel)
    and kernel.grouped then
    fail("%s: cg:route is for kernels of item<D>, not of tiles or groups", call)
  end
  for i = 1, group.n do
    local one = rawget(group[i], "route")
    for k = 1, one and i - 1 or 0 do
      local other = rawget(group[k], "route")
      if other and (other.buffer == one.buffer or other.offsets and (other.offsets == one.offsets
        or other.offsets == one.buffer) or one.offsets == other.buffer) then
        fail("%s: %s is routed to twice by one task", call, one.name)
      end
    end
    if one and ((one.list and one.list.values or one.buffer).freed
      or one.offsets and one.offsets.freed) then
      fail("%s: what %s is routed to was freed", call, one.name)
    end
  end
end

--- Notes how many values an item pushes at most, where nobody has said it.
---@param access celer.access
---@param most? integer
function M.suppose(access, most)
  local routed = rawget(access, "route")
  if most and not routed.stated then routed.most = most end
end

--- Refuses what is no kernel.
---@param call string
---@param name string  of the buffer
function M.refuse(call, name)
  fail("%s: %s is routed to, which only kernels do: their items push to it", call, name)
end

-- Whether one GPU has all items, in one chunk, which a hint sees to.
local function has_one_chunk(group)
  local hints = group.hints
  if not require("celer.arrays.alone").is_alone() or hints.granularity
    or (hints.oversubscribe or 1) > 1 then
    return false
  end
  group:hint { granularity = ONE_CHUNK }
  return true
end

---@class celer.pushed  what a task has pushed somewhere
---@field routed celer.routed
---@field arena celer.route_arena|false
---@field step? celer.list_step
---@field order integer

---@class celer.delivery  of one task
---@field [integer] celer.pushed
---@field space celer.space
---@field flag? celer.buffer

-- Raises where a list would have to grow for a task that may be skipped.
local function check_room(call, list, step)
  local n = rooms.needed(list, step, lists.changes(list))
  if n then
    fail("%s: a task that may be skipped cannot have the list %s grow, which has room for %.0f "
      .. "and may come to %.0f: make it with a capacity, or call list:fit(spare) before", call,
      list.name, list.capacity, n)
  end
end

-- Gives the access an arena in the place of its buffer.
local function lead(access, arena)
  rawset(access, fields.buffer, arena.buffer)
  rawset(access, fields.map, arena.map)
  rawset(access, fields.spelt, "discard_write")
  rawset(access, core.facts.hidden.handle, arena.buffer.handle)
  rawget(access, "route").packed = arena.packed
end

-- What is combined comes first: tasks that follow more often wait for that than for elements.
local function comes_first(a, b) return a.order < b.order end

--- Of a group that is to get a kernel, with accesses by cg:route: gives it arenas in the place
--- of the buffers.
---@param group celer.command_group
---@param call string
---@param kernel any
---@param range any  as the kernel takes it
---@return celer.delivery  for M.deliver
function M.resolve(group, call, kernel, range)
  group.routes = false
  check(group, call, kernel, range)
  local flag = group.more and group.more.when
  local alone = has_one_chunk(group) and not flag and not settings.session
  local space, n = spaces.of(range, call), 0
  local out = { space = space, flag = flag }
  for i = 1, group.n do
    local access = group[i]
    local routed = rawget(access, "route")
    if routed then
      local step = routed.list and step_of(routed, space, flag, group.elements)
      if core.dry() then suppose_pushes(routed, group.elements) end
      if flag and step then check_room(call, routed.list, step) end
      local arena = arena_of(routed, space, alone)
      lead(access, arena)
      n = n + 1
      out[n] = { routed = routed, arena = not space.empty and arena, step = step,
        order = i + (routed.how == "append" and group.n or 0) }
    end
  end
  if n > 1 then table.sort(out, comes_first) end
  return out
end

--- Submits what follows the kernel.
---@param delivery celer.delivery
function M.deliver(delivery)
  for i = 1, #delivery do
    local one = delivery[i]
    local routed, arena, step = one.routed, one.arena, one.step
    if step then make_room(routed, step, arena) end
    follow(routed, delivery.space, arena, delivery.flag)
    if step then rooms.note(routed.list, step, lists.changes(routed.list)) end
  end
end

return M
