--- image.lua -- the host tasks behind celer.image, in their lanes.
---
--- What ranks find out of each other lies in buffers that each rank has for itself
--- (engine/comm/image.h): `plan`, and `head`, a number.
local ffi = require "ffi"
local core = require "celer.core"
local view = require "celer.data.view"

local M = {}

--- How many numbers `head` has: of which inspection `plan` is.
M.HEAD = 1
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
---@field index string  names, for messages
---@field of string
---@field through boolean  all of an index of which this rank has what a plan says

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

-- Raises; the place is that of the submission.
local function raise(fault, index, what)
  local value, last = tonumber(fault.value), tonumber(fault["end"])
  local rows = what.of .. " has " .. (what.rows == 1 and "row 0 alone"
    or ("rows 0 to %d"):format(what.rows - 1))
  local text = ("%s is %d"):format(entry(what.index, fault, index.dims, 0), value)
  if what.kind == "elements" then
    local other = fault.row ~= fault.value or fault.last ~= fault.value
    text = ("%s, %sand %s"):format(text, other and "which is for "
      .. row_or_rows(fault.row, fault.last) .. ", " or "", rows)
  else
    text = ("%s and %s is %d: "):format(text, entry(what.index, fault, index.dims, 1), last)
    text = text .. (last < value and "these are no range of rows, of which the first comes first; "
      or "that is " .. row_or_rows(fault.row, fault.last) .. "; ") .. rows
  end
  error({ message = "celer.image: " .. text }, 0)
end

-- Lists what this rank needs; `mark` marks it.
local function list(part, index, head, plan, what, mark)
  open()
  local marks = ffi.gc(C.cel_image_marks_create(what.rows), C.cel_image_marks_destroy)
  local fault = ffi.new "cel_image_fault"
  if not mark(marks, index_of(index, what), fault) then raise(fault, index, what) end
  C.cel_image_list(marks, what.rows, part.ranks, (plan:pointer()))
  C.cel_image_marks_destroy(ffi.gc(marks, nil))
  head:set(0, what.number)
end

--- The ranks that have a chunk of the task: what the entries name that it touches.
---@param what celer.image_inspection
function M.find(part, index, head, plan, what)
  list(part, index, head, plan, what, function(marks, at, fault)
    local less = what.kind == "offsets" and 1 or 0
    local max = ffi.new("int64_t[3]", index.h0 - less, index.h1, index.h2)
    if what.kind == "pairs" then max[1] = 1 end
    return C.cel_image_mark(marks, at, ffi.new("int64_t[3]", index.l0,
      index.l1, index.l2), max, fault)
  end)
end

--- All ranks: the same of the entries that the plan of another image names, of a copy.
---@param what celer.image_inspection
function M.find_through(part, index, entries, head, plan, what)
  list(part, index, head, plan, what, function(marks, at, fault)
    return C.cel_image_mark_through(marks, at, (entries:pointer()), part.ranks, fault)
  end)
end

--- All ranks: tell each other what they need. A rank without a chunk has found nothing.
function M.meet(part, head, plan, number, rows)
  open()
  local words = plan:pointer()
  if head(0) ~= number then C.cel_image_list(nil, rows, part.ranks, words) end
  communicator.check(C.cel_image_meet(part.comm.comm, words))
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
  local counts = { now.messages, now.bytes, now.needed, part.rank == 0 and 1 or 0 }
  for i = 1, M.SENT do sent:set(i - 1, sent(i - 1) + counts[i]) end
end

--- All ranks: what all of them have counted.
function M.total(part, sent, total)
  for i = 0, M.SENT - 1 do total:set(i, part.comm:all_reduce(tonumber(sent(i)), "sum")) end
end

return M
