--- image.lua -- the host tasks behind celer.image, in their lanes.
---
--- What ranks find out of each other lies in buffers that each rank has for itself
--- (engine/comm/image.h): `plan`, and `head`, a number.
local ffi = require "ffi"
local core = require "celer.core"
local view = require "celer.data.view"

local M = {}

local FAR = 2 ^ 53 -- no item lies beyond it

--- What `head` has: of which inspection `plan` is; then boxes around the rows that the rank needs,
--- as pieces (engine/task/late.h). Where devices have memory of their own, they get these boxes: a
--- gap of fewer rows costs less than a copy more. Until all ranks have met, there is in the place
--- of boxes what is wrong with the index, as text.
M.BOXES, M.GAP = 8, 2048
--- Where a buffer takes much of a device's memory there are *spans*, of all ranks: parts of what
--- the rank's items have in dimension 0, and the rows that they read among; pieces as well.
M.SPANS, M.PIECE = 32, 4
local TEXT = 1024
--- Then, where kernels bring rows, a piece for each of these: the list of rows that the rank gives
--- to others; that of the rows that it needs; the rows that it gives, and those that come.
M.GIVEN = 2 + math.max(M.PIECE * M.BOXES, TEXT / 8)
M.NEEDED, M.PACKED, M.CAME = M.GIVEN + 5, M.GIVEN + 10, M.GIVEN + 15
M.HEAD = M.CAME + 1 + M.PIECE
--- What `sent` counts, of all exchanges of a copy; these on rank 0.
M.sent = { "messages", "bytes", "needed", "exchanges" }
M.SENT = #M.sent

local types = { i4 = "CEL_IMAGE_INT32", u4 = "CEL_IMAGE_UINT32", i8 = "CEL_IMAGE_INT64" }
local kinds = { elements = "CEL_IMAGE_ELEMENTS", offsets = "CEL_IMAGE_OFFSETS",
  pairs = "CEL_IMAGE_PAIRS" }
local C, communicator

-- Only in a lane: the script's own state has other declarations.
local function open()
  if C then return end
  communicator = require "celer.host.communicator" -- whose declarations image.h needs
  ffi.cdef(core.embedded "engine/comm/image.h")
  C = ffi.C
end

---@class celer.image_inspection  what a task is told
---@field number integer  of the inspection
---@field kind "elements"|"offsets"|"pairs"
---@field reach table<string, number|boolean>  see engine/comm/image.h
---@field rows integer  of the buffer that is read
---@field boxes? integer  the most that a rank's rows are to come to; nil: exactly these rows
---@field index string  names, for messages
---@field of string
---@field levels celer.image_level[]  from what items have to this image
---@field own boolean  an item has the entries at its own coordinates
---@field read? string  where the kernel reads
---@field call? string  that made the image, for messages

---@class celer.image_level
---@field kind "elements"|"offsets"|"pairs"
---@field reach table<string, number|boolean>
---@field extents integer[]  of the index

local function index_of(index, what)
  local t, l = index.type, index.layout
  local out = ffi.new("cel_image_index", { base = view.window(index).pointer,
    type = types[t.class .. t.size], kind = kinds[what.kind], min = { l[1], l[2], l[3] },
    size = { l[4] - l[1], l[5] - l[2], l[6] - l[3] } })
  local reach = out.reach
  reach.least, reach.except, reach.most = -2 ^ 63, -2 ^ 63, 0x7fffffffffffffffLL
  reach.last, reach.step = -1, 1
  for name, value in pairs(what.reach) do reach[name] = value end
  return out
end

local function entry(name, fault, dims, next)
  local at = {}
  for d = 1, dims do at[d] = tostring(tonumber(fault.at[d - 1]) + (d == dims and next or 0)) end
  return ("%s(%s)"):format(name, table.concat(at, ", "))
end

local function row_or_rows(first, last)
  if first == last then return "row " .. tostring(first):gsub("LL$", "") end
  return ("rows %s to %s"):format(tostring(first):gsub("LL$", ""), (tostring(last):gsub("LL$", "")))
end

-- ---- which rows, in Lua ------------------------------------------------------------

-- The rows that a range comes to: the first and the last; nothing where there are none.
local function range_rows(reach, value, last)
  local first = value + (reach.first or 0)
  last = last + (reach.last or -1)
  local step = reach.step or 1
  if last < first then return end
  if step > 0 then last = last - (last - first) % step end
  if step < 0 then first = first + (last - first) % -step end
  first, last = math.max(first, reach.least or first), math.min(last, reach.most or last)
  if first <= last then return first + (reach.low or 0), last + (reach.high or 0) end
end

local function element_rows(reach, value)
  if value < (reach.least or value) or value > (reach.most or value) or value == reach.except then
    return
  end
  return value + (reach.low or 0), value + (reach.high or 0)
end

--- Calls f(first, last) for what the entries name that begin with the coordinates `at`, until it
--- gives true.
---@param level celer.image_level
---@param get fun(...): any  an entry of the index
---@param at integer[]
---@param f fun(first: integer, last: integer): boolean?
---@return boolean?
function M.each_rows(level, get, at, f)
  local reach = level.reach
  if level.kind == "offsets" or level.kind == "pairs" then
    local n, row = level.kind == "pairs", at[1]
    local first, last = range_rows(reach, tonumber(n and get(row, 0) or get(row)),
      tonumber(n and get(row, 1) or get(row + 1)))
    return first and f(first, last)
  elseif #at == #level.extents then
    local first, last = element_rows(reach, tonumber(get(unpack(at))))
    return first and f(first, last)
  end
  local inside = { unpack(at) }
  for i = 0, level.extents[#at + 1] - 1 do
    inside[#at + 1] = i
    if M.each_rows(level, get, inside, f) then return true end
  end
end

local function begins_with(at, fault)
  for d, i in ipairs(at) do
    if fault.at[d - 1] ~= i then return false end
  end
  return true
end

-- Whether what begins with these coordinates of a level's index leads to the entry.
local function leads_to(what, views, k, at, fault)
  if k == #what.levels then return begins_with(at, fault) end
  return M.each_rows(what.levels[k], views[k], at, function(first, last)
    for row = first, last do
      if leads_to(what, views, k + 1, { row }, fault) then return true end
    end
  end)
end

-- The first item that reads by the entry, as text.
local function item_of(part, what, views, fault)
  local dims = part.dims
  local function go(at)
    local d = #at
    if d == dims then return leads_to(what, views, 1, at, fault) and at end
    for i = part.min[d], part.max[d] - 1 do
      local inside = { unpack(at) }
      inside[d + 1] = i
      local found = go(inside)
      if found then return found end
    end
  end
  local item = what.own and go {}
  return item and "item " .. (dims == 1 and item[1] or "(" .. table.concat(item, ", ") .. ")")
end

-- ---- tasks ------------------------------------------------------------------------

-- What an entry says that names rows which are not there.
local function describe(fault, index, what)
  local value, last = tonumber(fault.value), tonumber(fault["end"])
  local rows = what.of .. " has " .. (what.rows == 1 and "row 0 alone"
    or ("rows 0 to %d"):format(what.rows - 1))
  local text = ("%s is %d"):format(entry(what.index, fault, index.dims, 0), value)
  if what.kind == "elements" then
    local other = fault.row ~= fault.value or fault.last ~= fault.value
    return ("%s, %sand %s"):format(text, other and "which is for "
      .. row_or_rows(fault.row, fault.last) .. ", " or "", rows)
  end
  text = ("%s and %s is %d: "):format(text, entry(what.index, fault, index.dims, 1), last)
  return text .. (last < value and "these are no range of rows, of which the first comes first; "
    or "that is " .. row_or_rows(fault.row, fault.last) .. "; ") .. rows
end

-- What is wrong, for the place of the submission.
local function message_of(part, fault, what, views)
  local text = (what.call or "celer.image") .. ": " .. describe(fault, views[#what.levels], what)
  local item = item_of(part, what, views, fault)
  if item and what.read then
    text = ("%s; %s reads it, at %s"):format(text, item, what.read)
  elseif item or what.read then
    text = text .. "; " .. (item and item .. " reads it" or "it is read at " .. what.read)
  end
  return text
end

-- A rank alone raises; else all do, when they meet.
local function note(head, text)
  text = text:sub(1, TEXT)
  head:set(1, #text)
  ffi.copy(head:pointer() + 2, text, #text)
end

-- Marks what the entries name that a chunk has, or that are the rows of another plan.
local function mark(part, marks, what, views, entries, fault)
  local index = views[#what.levels]
  local at = index_of(index, what)
  if entries then
    return C.cel_image_mark_through(marks, at, (entries:pointer()), part.ranks, fault)
  end
  local max = ffi.new("int64_t[3]", index.h0 - (what.kind == "offsets" and 1 or 0), index.h1,
    index.h2)
  if what.kind == "pairs" then max[1] = 1 end
  return C.cel_image_mark(marks, at, ffi.new("int64_t[3]", index.l0, index.l1, index.l2), max,
    fault)
end

-- Writes the rows that are marked; or the boxes around them, that many at most.
local function list(part, marks, what, plan)
  local words = plan:pointer()
  C.cel_image_list(marks, what.rows, part.ranks, words)
  if not what.boxes or words[part.ranks] == 0 then return end
  local boxes = ffi.new("int64_t[?]", 2 * what.boxes)
  local n = tonumber(C.cel_image_boxes(words, part.ranks, 1, what.boxes, boxes))
  for b = 0, n - 1 do C.cel_image_mark_rows(marks, boxes[2 * b], boxes[2 * b + 1]) end
  C.cel_image_list(marks, what.rows, part.ranks, words)
end

--- The ranks that have a chunk of the task: what the entries name that it touches. Behind the
--- plan is that of the image whose rows the entries are, if one is; then the indices of the
--- image's levels: parts of the first one, and copies.
---@param what celer.image_inspection
function M.find(part, what, head, plan, ...)
  local views = { ... }
  local entries = #what.levels > 1 and table.remove(views, 1)
  open()
  local marks = ffi.gc(C.cel_image_marks_create(what.rows), C.cel_image_marks_destroy)
  local fault = ffi.new "cel_image_fault"
  head:set(0, what.number)
  head:set(1, 0)
  if not mark(part, marks, what, views, entries, fault) then
    local text = message_of(part, fault, what, views)
    if part.ranks == 1 then error({ message = text }, 0) end
    note(head, text)
  end
  list(part, marks, what, plan)
  C.cel_image_marks_destroy(ffi.gc(marks, nil))
end

-- The rows among which items read that have these pieces' entries; nil: they read none. What is
-- wrong has been said.
local function span_of(what, views, pieces, places)
  local marks, fault = nil, ffi.new "cel_image_fault"
  for k, level in ipairs(what.levels) do
    local next = what.levels[k + 1]
    local now = ffi.gc(C.cel_image_marks_create(next and next.extents[1] or what.rows),
      C.cel_image_marks_destroy)
    local index = index_of(views[k], level)
    for _, at in ipairs(k == 1 and places or {}) do
      local min, max, v = ffi.new "int64_t[3]", ffi.new "int64_t[3]", views[1]
      local least, most = { v.l0, v.l1, v.l2 }, { v.h0, v.h1, v.h2 }
      for d = 0, 2 do
        min[d] = math.max(pieces[at + 2 + d], least[1 + d])
        max[d] = math.min(pieces[at + 5 + d], most[1 + d])
      end
      if level.kind == "offsets" then max[0] = max[0] - 1 end
      if level.kind == "pairs" then max[1] = 1 end
      C.cel_image_mark(now, index, min, max, fault)
    end
    if marks then C.cel_image_mark_along(now, index, marks, fault) end
    marks = now
  end
  local first, last = ffi.new "int64_t[1]", ffi.new "int64_t[1]"
  if C.cel_image_hull(marks, first, last) then return first[0], last[0] end
end

--- The ranks that have a chunk of the task: the spans of their items. Pieces of the range, eight
--- numbers each: which items they have, in dimension 0, and the box of these items' entries.
---@param what celer.image_inspection
---@param pieces integer[]
function M.spans(part, what, pieces, spans, ...)
  local mine, views, n = {}, { ... }, 0
  open()
  for at = 1, #pieces, 8 do
    local meets = pieces[at] < part.max[0] and pieces[at + 1] > part.min[0]
    mine[#mine + 1] = meets and at or nil
  end
  local each = math.ceil(#mine / M.SPANS)
  for i = 1, #mine, each do
    local places = { unpack(mine, i, math.min(i + each - 1, #mine)) }
    local first, last = span_of(what, views, pieces, places)
    if first then
      local at = 1 + M.PIECE * n
      spans:set(at, pieces[places[1]])
      spans:set(at + 1, pieces[places[#places] + 1])
      spans:set(at + 2, first)
      spans:set(at + 3, last)
      n = n + 1
    end
  end
  spans:set(0, n)
end

-- Raises on all ranks what is wrong on the first one where something is.
local function raise_alike(part, words)
  local wrong = words[1] > 0 and part.rank or part.ranks
  local first = part.comm:all_reduce(wrong, "min")
  if first == part.ranks then return end
  local text = part.rank == first and ffi.string(words + 2, words[1]) or ""
  error({ message = part.comm:broadcast(text, first) }, 0)
end

-- The parts of a plan: see parts_of of engine/comm/image.c.
local function parts_of(words, ranks)
  local needed = words + 2 * (ranks + 1)
  return { first_needed = words, first_given = words + ranks + 1, needed = needed,
    given = needed + 2 * words[ranks] }
end

-- Calls f(first row, end) for the runs that rank k is given, or that are needed of it.
local function each_run(first, runs, k, f)
  for i = tonumber(first[k]), tonumber(first[k + 1]) - 1 do
    f(tonumber(runs[2 * i]), tonumber(runs[2 * i + 1]))
  end
end

-- Notes rows [first, last), for all items.
local function put_piece(words, first, last)
  words[0], words[1], words[2], words[3] = -FAR, FAR, first, last
end

-- Boxes around the rows that are needed.
local function put_boxes(part, plan, head)
  local boxes = ffi.new("int64_t[?]", 2 * M.BOXES)
  head[1] = C.cel_image_boxes(plan, part.ranks, M.GAP, M.BOXES, boxes)
  for b = 0, tonumber(head[1]) - 1 do
    put_piece(head + 2 + M.PIECE * b, boxes[2 * b], boxes[2 * b + 1])
  end
end

-- How long the lists are that M.spell writes, and how many rows go and come.
local function put_sizes(part, plan, head)
  local p, gives, gets, needs = parts_of(plan, part.ranks), 0, 0, 0
  for k = 0, part.ranks - 1 do
    local is_other = k ~= part.rank and 1 or 0
    each_run(p.first_given, p.given, k, function(first, last)
      gives = gives + is_other * (last - first)
    end)
    each_run(p.first_needed, p.needed, k, function(first, last)
      gets, needs = gets + is_other * (last - first), needs + last - first
    end)
  end
  local function put(at, n)
    head[at] = 1
    put_piece(head + at + 1, 0, math.max(n, 1))
  end
  put(M.GIVEN, 1 + gives)
  put(M.NEEDED, 1 + needs)
  put(M.PACKED, gives)
  put(M.CAME, gets)
end

--- All ranks: tell each other what they need. A rank without a chunk has found nothing.
function M.meet(part, head, plan, number, rows, by_kernels)
  open()
  local words, head_words = plan:pointer(), head:pointer()
  if head_words[0] ~= number then
    head_words[1] = 0
    C.cel_image_list(nil, rows, part.ranks, words)
  end
  raise_alike(part, head_words)
  communicator.check(C.cel_image_meet(part.comm.comm, words))
  put_boxes(part, words, head_words)
  if by_kernels then put_sizes(part, words, head_words) end
end

--- Spells out rows: those to give to others, by rank; those that are needed, and where each of
--- these is among those that come, or -1 where it is the rank's own. How many there are stands
--- before them.
function M.spell(part, plan, given, needed, from)
  local p, n = parts_of(plan:pointer(), part.ranks), 0
  local to, rows, places, came = given:pointer(), needed:pointer(), from:pointer(), 0
  for k = 0, part.ranks - 1 do
    if k ~= part.rank then
      each_run(p.first_given, p.given, k, function(first, last)
        for row = first, last - 1 do
          n = n + 1
          to[n] = row
        end
      end)
    end
  end
  to[0], n = n, 0
  for k = 0, part.ranks - 1 do
    local is_own = k == part.rank
    each_run(p.first_needed, p.needed, k, function(first, last)
      for row = first, last - 1 do
        n = n + 1
        rows[n], places[n] = row, is_own and -1 or came
        if not is_own then came = came + 1 end
      end
    end)
  end
  rows[0] = n
end

-- Adds to what was sent.
local function count(part, sent, now)
  local counts = { now.messages, now.bytes, now.needed, part.rank == 0 and 1 or 0 }
  for i = 1, M.SENT do sent:set(i - 1, sent(i - 1) + counts[i]) end
end

--- All ranks: exchange what is packed.
function M.exchange(part, sent, plan, packed, came, row_bytes)
  open()
  local now = ffi.new "cel_image_traffic"
  communicator.check(C.cel_image_exchange(part.comm.comm, (plan:pointer()), row_bytes,
    (packed:pointer()), (came:pointer()), now))
  count(part, sent, now)
end

-- Memory for messages, of this lane.
local function room_of(part)
  local room = part.kept.image
  if not room then
    room = ffi.gc(ffi.new "cel_image_room", C.cel_image_room_release)
    part.kept.image = room
  end
  return room
end

--- All ranks: bring what they need into `copy`.
function M.bring(part, sent, plan, data, copy, rows, row_bytes)
  open()
  local now = ffi.new "cel_image_traffic"
  communicator.check(C.cel_image_bring(part.comm.comm, (plan:pointer()), rows, row_bytes,
    (data:pointer()), (copy:pointer()), room_of(part), now))
  count(part, sent, now)
end

--- All ranks: what all of them have counted.
function M.total(part, sent, total)
  for i = 0, M.SENT - 1 do total:set(i, part.comm:all_reduce(tonumber(sent(i)), "sum")) end
end

return M
