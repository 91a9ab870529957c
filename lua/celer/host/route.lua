--- route.lua -- the host tasks behind cg:route, in their lanes: they bring what items have
--- pushed where it belongs (engine/comm/route.h).
local codec = require "string.buffer"
local ffi = require "ffi"
local core = require "celer.core"
local words = require "celer.words"

local M = {}

local ops = { sum = "CEL_ROUTE_SUM", prod = "CEL_ROUTE_PROD", min = "CEL_ROUTE_MIN",
  max = "CEL_ROUTE_MAX", ["and"] = "CEL_ROUTE_AND", ["or"] = "CEL_ROUTE_OR" }
local C, communicator

-- Only in a lane: the script's own state has other declarations.
local function open()
  if C then return end
  communicator = require "celer.host.communicator" -- whose declarations route.h needs
  ffi.cdef(core.embedded "engine/comm/route.h")
  C = ffi.C
end

---@class celer.route_task  what a task is told, as text
---@field call string  begins messages
---@field name string  of what is routed to
---@field bins boolean  keys are bins, not elements
---@field size integer[]  of what keys lead to
---@field first integer[]  of the range
---@field items integer[]  its extents
---@field most integer
---@field room? integer  values that there is room for, of bins
---@field held_room? integer
---@field of? "buffer"|"list"|"growing"  whose bins they are
---@field step? integer  where slots lie: see kernels/route.cuh; nil: there are none
---@field pitch? integer
---@field values? integer
---@field row? integer  and the next one: where slots lie apart
---@field value_row? integer
---@field is_wide? boolean
---@field bytes integer  of a value
---@field op? string  how elements are combined: `count` numbers of so many bytes
---@field class? string
---@field number? integer
---@field count? integer
---@field identity? string  what elements begin with; nil: with what they hold

local fields = { "call", "name", "bins", "size", "first", "items", "most", "step", "pitch",
  "values", "row", "value_row", "is_wide", "bytes", "room", "held_room", "of", "op", "class",
  "number", "count", "identity" }

--- A task as text, which is the same on all ranks.
---@param what celer.route_task
---@return string
function M.text(what)
  local list = {}
  for i, name in ipairs(fields) do list[i] = what[name] == nil and "" or what[name] end
  return codec.encode(list)
end

-- What texts say, as tasks come again and again.
local MOST = 64
local told, count = {}, 0

local function task(text)
  if not told[text] then
    if count == MOST then told, count = {}, 0 end
    local what = {}
    for i, value in ipairs(codec.decode(text)) do
      if value ~= "" then what[fields[i]] = value end
    end
    told[text], count = what, count + 1
  end
  return told[text]
end

-- ---- mistakes -----------------------------------------------------------------

local function product(list, from)
  local n = 1
  for d = from, #list do n = n * list[d] end
  return n
end

local function point(at) return "(" .. table.concat(at, ", ") .. ")" end

-- The item of a number.
local function item_of(number, what)
  local at, items, rest = {}, what.items, tonumber(number)
  if #items == 0 then return "the item" end
  for d = #items, 1, -1 do
    at[d] = ("%.0f"):format(what.first[d] + rest % items[d])
    rest = math.floor(rest / items[d])
  end
  return "item " .. point(at)
end

-- What a key that leads nowhere stands for: kernels/route.cuh says how.
local function key_of(key, what)
  local dims = #what.size
  if dims == 1 then return { tostring(key):match "^%-?%d+" } end
  local bits, at = dims == 2 and 31 or 20, {}
  for d = dims, 1, -1 do
    at[d] = ("%.0f"):format(tonumber(key % 2LL ^ bits) - 2 ^ (bits - 1))
    key = key / 2LL ^ bits
  end
  return at
end

local function raise(what, message, ...)
  error({ message = what.call .. ": " .. message:format(...) }, 0)
end

local function raise_key(fault, what)
  local key, last = key_of(fault.key, what), {}
  for d, n in ipairs(what.size) do last[d] = ("%.0f"):format(n - 1) end
  raise(what, "%s pushes to %s %s of %s, which has %s", item_of(fault.item, what),
    what.bins and "bin" or "element", point(key), what.name, #last == 1 and last[1] == "0"
      and (what.bins and "bin 0 alone" or "element 0 alone")
      or ("%s to %s"):format(point(({ { "0" }, { "0", "0" }, { "0", "0", "0" } })[#last]),
        point(last)))
end

local function raise_most(fault, what)
  raise(what, "%s pushes %s to %s, and there is room for %.0f of an item: give { most = %.0f }",
    item_of(fault.most_item, what), words.count(tonumber(fault.most), "value"),
    what.name, what.most, tonumber(fault.most))
end

local room_for = {
  buffer = "give it %.0f elements",
  list = "make it with { capacity = %.0f }, or without a capacity, and it grows",
  growing = "where a list is the range, items from its count on must push nothing",
}

local function raise_room(what, total)
  raise(what, "the bins of %s come to %.0f values, and it has room for %.0f: %s", what.name, total,
    what.room, room_for[what.of]:format(total))
end

-- ---- tasks --------------------------------------------------------------------

local function check(fault, what)
  if C.cel_route_is_fault(fault, what.most) then
    (fault.item >= 0 and raise_key or raise_most)(fault, what)
  end
end

-- What lies apart, for a GPU that has no room to bring it where it belongs, side by side.
local function side_by_side(at, what)
  local items, most, bytes = product(what.items, 1), what.most, what.bytes
  local step, pitch, row = 1 + most, 8 * math.ceil(most * bytes / 8), what.row / 4
  local heads = ffi.new("uint32_t[?]", items * step)
  local values = ffi.new("char[?]", items * pitch)
  local from = ffi.cast("const uint32_t *", at)
  for i = 0, items - 1 do
    for k = 0, most do heads[i * step + k] = from[k * row + i] end
    for k = 0, most - 1 do
      ffi.copy(values + i * pitch + k * bytes, at + what.values + k * what.value_row
        + i * what.pitch, bytes)
    end
    if heads[i * step] >= 2 ^ 31 then -- a key that leads nowhere
      ffi.copy(values + i * pitch, at + what.values + i * what.pitch, 8)
    end
  end
  return ffi.new("cel_route_slots", { at = ffi.cast("const char *", heads), values = values,
    step = 4 * step, pitch = pitch, items = items, most = most, bytes = bytes }), heads, values
end

-- This rank's, in rows of the range; and what keeps them.
local function slots_of(arena, what)
  if not arena or arena.h0 == arena.l0 then
    return ffi.new("cel_route_slots", { most = what.most, bytes = what.bytes })
  end
  local row, at = product(what.items, 2), ffi.cast("const char *", (arena:pointer()))
  if what.row then return side_by_side(at, what) end
  return ffi.new("cel_route_slots", { at = at, values = at + what.values, step = what.step,
    pitch = what.pitch, first = tonumber(arena.l0) * row,
    items = tonumber(arena.h0 - arena.l0) * row,
    most = what.most, is_wide = what.is_wide, bytes = what.bytes })
end

-- What has come for this rank. Raises on all ranks alike, so that none goes on with less than it
-- was to get, and none waits for another one.
local function exchange(part, arena, what)
  open()
  local slots, heads, values = slots_of(arena, what)
  local keys = ffi.new("cel_route_keys", { rows = what.size[1], row = product(what.size, 2) })
  if what.bins then keys.rows, keys.row = product(what.size, 1), 1 end
  local came, fault = ffi.gc(ffi.new "cel_route_came", C.cel_route_release),
    ffi.new "cel_route_fault"
  communicator.check(C.cel_route_exchange(part.comm.comm, slots, keys, fault, came))
  check(fault, what)
  return came, tonumber(keys.row), slots, heads, values
end

-- Until then there are slots, where a rank is alone.
local function release(came, ...) C.cel_route_release(ffi.gc(came, nil)) return ... end

-- What a rank alone has found out.
local function raise_late(slots, what)
  local fault = ffi.new "cel_route_fault"
  C.cel_route_look(slots, fault)
  check(fault, what)
end

--- All ranks: combine what was pushed into their rows of `out`.
---@param arena celer.view|false  false: a range without items
---@param out celer.view
---@param text string
function M.combine(part, arena, out, text)
  local what = task(text)
  local came, row, slots, heads, values = exchange(part, arena, what)
  local rows = tonumber(out.h0 - out.l0)
  local type_ = ffi.new("cel_route_type", { op = ops[what.op], class_ = what.class:byte(),
    size = what.number, count = what.count })
  if rows == 0 or not C.cel_route_combine(came, type_, tonumber(out.l0) * row, rows * row,
    what.identity, (out:pointer())) then
    raise_late(slots, what)
  end
  release(came, slots, heads, values)
end

--- All ranks: append what was pushed to bins.
---@param arena celer.view|false
---@param offsets celer.view  of this rank's bins; and of the last rank the end of all
---@param held celer.view|false  what bins hold: false where it is dropped, or stands in `values`
---@param values celer.view
---@param text string
function M.append(part, arena, offsets, held, values, text)
  local what = task(text)
  local came, _, slots, heads, pushed = exchange(part, arena, what)
  local last = part.rank == part.ranks - 1 and 1 or 0
  local bins = ffi.new("cel_route_bins", { first = offsets.l0,
    count = offsets.h0 - offsets.l0 - last, room = what.room, bytes = what.bytes,
    offset = (offsets:pointer()), values = (values:pointer()),
    held = ((held or values):pointer()), held_room = what.held_room })
  local total = ffi.new "int64_t[1]"
  communicator.check(C.cel_route_append(part.comm.comm, came, bins, total))
  if total[0] < 0 then raise_late(slots, what) end
  release(came, slots, heads, pushed)
  if total[0] > what.room then raise_room(what, tonumber(total[0])) end
end

-- One delivery's.
local function check_delivery(one, wrong)
  local told_of = task(one.text)
  local what = setmetatable({ call = (one.place and one.place .. ": " or "") .. told_of.call },
    { __index = told_of })
  local most, item, key, total = wrong(one.at), wrong(one.at + 1), wrong(one.at + 2),
    wrong(one.at + 3)
  if item ~= 0 then
    raise_key({ item = -1LL - ffi.cast("int64_t", item), key = ffi.cast("int64_t", key) }, what)
  elseif most ~= 0 then
    raise_most({ most = most / 2ULL ^ 32, most_item = 2 ^ 32 - 1 - tonumber(most % 2ULL ^ 32) },
      what)
  elseif total ~= 0 then
    raise_room(what, tonumber(total))
  end
end

--- What the kernels of one GPU have found wrong (kernels/routed.cuh): tells of the first one.
--- It writes something, for tasks that must not run then.
---@param text string  deliveries, as they came: the number of an arena, where its words begin,
---  the task as text, and its file and line
---@param ... celer.view  what is wrong, of each arena
function M.check(_, _, text, ...)
  for _, one in ipairs(codec.decode(text)) do check_delivery(one, (select(one.arena, ...))) end
end

return M
