--- check.lua -- `celer check`: what tasks touch beside what they declare.
---
--- The engine counts by access (exec/audit/audit.h); here is what the accesses are, in
--- the script, and the report. Mistakes are what makes results undefined; hints
--- are what moves data in vain.
local codec = require "string.buffer"
local core = require "celer.core"
local place = require "celer.place"

local M = {}

--- Devices of a rank, and runs that each one's chunk is cut into: chunks meet
--- in many places.
M.devices, M.runs = 3, 2

-- Of what a task is promised to read, less than this share touched is a hint.
local ENOUGH = 0.9

-- Buffers of one access, and callers of one function, that are named.
local MOST_NAMES = 4

-- ---- while the script runs ---------------------------------------------------

local known = {} -- accesses by task and number

local function key_of(file, line, name)
  return ("%s:%d:%s"):format(file or "?", line or 0, name or "")
end

-- A task may have other buffers in each step, and be submitted by a function that is
-- called in many places; a few names do.
local function add_name(names, name)
  for _, known_name in ipairs(names) do
    if known_name == name then return end
  end
  if #names < MOST_NAMES then names[#names + 1] = name end
end

--- Notes the accesses of a task that is being submitted.
---@param name string  of the task
---@param accesses celer.access[]
---@param kernel celer.kernel?
function M.submit(name, accesses, kernel)
  local file, line = place.user()
  local key = key_of(file, line, name)
  local all = known[key] or { callers = {} }
  known[key] = all
  local callers = core.callers()
  if callers then add_name(all.callers, callers) end
  for i, access in ipairs(accesses) do
    local one = all[i] or { file = access.file, line = access.line, mode = access.mode,
      buffers = {}, kernel = kernel and kernel.name, dims = access.buffer.dims,
      by_image = rawget(access, "by_image") ~= nil }
    all[i] = one
    add_name(one.buffers, access.buffer.name)
  end
end

local overlaps, overlap_known = {}, {}

--- Notes that chunks of a task would write one element twice.
---@param text string  as the engine says it
---@param file string
---@param line integer
function M.overlap(text, file, line)
  local key = key_of(file, line, text)
  if overlap_known[key] then return end
  overlap_known[key] = true
  overlaps[#overlaps + 1] = { file = file, line = line, kind = "mistake", text = text }
end

local opaque, opaque_known = {}, {}

--- Notes that a range mapper without a closed form was called for its chunks.
---@param what string  which, and why it has none
---@param kept string  whether it is called again
---@param chunks integer
---@param seconds number
---@param file string?
---@param line integer?
function M.opaque(what, kept, chunks, seconds, file, line)
  local key = key_of(file, line, what)
  local one = opaque_known[key]
  if not one then
    one = { file = file or "?", line = line or 0, what = what, kept = kept, times = 0,
      chunks = 0, seconds = 0 }
    opaque_known[key], opaque[#opaque + 1] = one, one
  end
  one.times, one.chunks = one.times + 1, math.max(one.chunks, chunks)
  one.seconds = one.seconds + seconds
end

-- ---- all ranks ---------------------------------------------------------------

local notes = { "outside", "unwritten", "undefined", "crossed", "raced" }

-- Adds the row of another rank; what was found first stays the example.
local function add(row, other)
  for _, field in ipairs { "chunks", "promised", "touched" } do
    row[field] = row[field] + other[field]
  end
  if not row.outside and other.outside then
    row.item, row.promise, row.elsewhere = other.item, other.promise, other.elsewhere
  end
  if not row.crossed then row.writer = other.writer end
  if not row.raced then row.racer = other.racer end
  row.gap = row.gap or other.gap
  for _, name in ipairs(notes) do
    local mine, theirs = row[name], other[name]
    if mine and theirs then mine.count = mine.count + theirs.count end
    row[name] = mine or theirs
  end
end

-- The rows of all ranks, as one list.
local function merge(texts)
  local list, by_key = {}, {}
  for _, text in ipairs(texts) do
    for _, row in ipairs(codec.decode(text)) do
      local key = key_of(row.file, row.line, row.name) .. ":" .. row.access
      if by_key[key] then add(by_key[key], row)
      else
        by_key[key] = row
        list[#list + 1] = row
      end
    end
  end
  return list
end

-- ---- in words ----------------------------------------------------------------

local function point(at) return "(" .. table.concat(at, ", ") .. ")" end

local function element(at)
  return #at == 0 and "its element" or "element " .. point(at)
end

local function box(b)
  local out = {}
  for d = 1, #b.min do
    if b.min[d] >= b.max[d] then return "nothing" end
    out[d] = ("[%d, %d)"):format(b.min[d], b.max[d])
  end
  return table.concat(out, " x ")
end

local function amount(bytes)
  for _, unit in ipairs { { 2 ^ 30, "GiB" }, { 2 ^ 20, "MiB" }, { 2 ^ 10, "KiB" } } do
    if bytes >= unit[1] then return ("%.1f %s"):format(bytes / unit[1], unit[2]) end
  end
  return ("%d bytes"):format(bytes)
end

local function times(n, one, many)
  return ("%d %s"):format(n, n == 1 and one or many)
end

local function chunk(b)
  return #b.min == 0 and "which" or ("whose chunk %s"):format(box(b))
end

local finders = {}

-- Of what is reduced into, the array has as many dimensions as its buffer.
local function outside_array(row, access, what)
  local note, dims = row.outside, access.dims
  local who = #row.item > 0 and "item " .. point(row.item) or "it"
  return ("%s hands values to what is outside the array: %s, %s, to element %s of %s; %s")
    :format(what, who, chunk(note.chunk), point { unpack(note.at, 1, dims) },
    box { min = { unpack(row.promise.min, 1, dims) }, max = { unpack(row.promise.max, 1, dims) } },
    times(note.count, "such value", "such values"))
end

function finders.outside(row, what, access)
  if access.mode == "reduce" then return outside_array(row, access, what) end
  local note = row.outside
  local who = #row.item > 0 and "item " .. point(row.item) or "it"
  if access.by_image then
    return ("%s reads what the image does not name: %s, %s, reads %s; %s"):format(what, who,
      chunk(note.chunk), element(note.at), times(note.count, "such access", "such accesses"))
  end
  local promise = #row.promise.min == 0 and "nothing" or box(row.promise)
  return ("%s touches what it was not promised: %s, %s was promised %s, touches %s%s; "
    .. "%s"):format(what, who, chunk(note.chunk), promise, element(note.at),
    row.elsewhere and ", which another chunk writes, too" or "",
    times(note.count, "such access", "such accesses"))
end

function finders.unwritten(row, what)
  local note = row.unwritten
  local where = #note.chunk.min == 0 and "" or ", in chunk " .. box(note.chunk)
  return ("%s does not write all that it promises, and what it leaves out is undefined: "
    .. "%s%s; %s; cg:write keeps what was there"):format(what, element(note.at), where,
    times(note.count, "such element", "such elements"))
end

function finders.undefined(row, what)
  local note = row.undefined
  local verb = row.combines and "begins with" or "reads"
  return ("%s %s what nobody wrote: %s; %s"):format(what, verb, element(note.at),
    times(note.count, "such element", "such elements"))
end

function finders.crossed(row, what)
  local note = row.crossed
  return ("%s reads what another chunk writes: %s, read by chunk %s, written by chunk %s; %s; "
    .. "no chunk waits for another"):format(what, element(note.at), box(note.chunk),
    box(row.writer), times(note.count, "such case", "such cases"))
end

local function item(b)
  if #b.min == 0 then return "the item" end
  return b.min[1] < b.max[1] and "item " .. point(b.min) or "several items"
end

-- Of items of one chunk; where chunks do it, that says enough.
function finders.raced(row, what)
  if row.crossed then return nil end
  local note = row.raced
  return ("%s reads what another item writes: %s, read by %s, written by %s; %s; no item waits "
    .. "for another"):format(what, element(note.at), item(note.chunk), item(row.racer),
    times(note.count, "such element", "such elements"))
end

-- What is moved in vain, of an access that reads or keeps. Tasks of celer's own
-- have accesses for the sake of their order.
local function hint(row, access, what)
  if row.promised == 0 or row.name:find("^celer%.") or access.by_image then return nil end
  if row.touched == 0 and row.outside then return nil end -- it was to be used there
  if row.touched == 0 then
    return ("%s is never used; %s may be moved for it in vain"):format(what,
      amount(row.promised * row.bytes))
  elseif access.mode ~= "write" and row.touched < ENOUGH * row.promised then
    return ("%s promises more than is ever touched: %s, %d %%, may be moved in vain"):format(
      what, amount((row.promised - row.touched) * row.bytes),
      math.floor(100 * (1 - row.touched / row.promised)))
  end
end

-- Of a mapper that gives a box around what the parts of a chunk need.
local function gap_hint(gap, what)
  return ("%s promises for a chunk more than for its parts, which moves what no item needs: "
    .. "%s, for chunk %s; several boxes leave out what lies between"):format(what,
    element(gap.at), box(gap.chunk))
end

local function label(access)
  return ("cg:%s(%s)"):format(access.mode, table.concat(access.buffers, " or "))
end

local ordinals = { "first", "second", "third" }

-- Which of the task's accesses it is, where others in its line read the same.
local function which(access, all)
  local text, n, mine = label(access), 0, 0
  for _, other in ipairs(all) do
    if other.line == access.line and other.file == access.file and label(other) == text then
      n = n + 1
      if other == access then mine = n end
    end
  end
  return n > 1 and ("the %s %s of this line"):format(ordinals[mine] or mine .. "th", text) or text
end

local function describe(row, access, all)
  local who = access.kernel and "kernel " .. access.kernel or ""
  if row.name ~= access.kernel then
    who = who == "" and row.name or ("%s (task '%s')"):format(who, row.name)
  end
  if all.callers[1] then
    who = ("%s, called from %s"):format(who, table.concat(all.callers, " or "))
  end
  return ("%s: %s"):format(who, which(access, all))
end

-- Of an access that celer made itself, such as a capture's.
local function plain_access(row)
  return { file = row.file, line = row.line, mode = "read", buffers = {},
    kernel = nil, plain = true }
end

-- By the places of accesses, as strings; with how many there are of each kind.
local function in_order(list, out)
  for i, one in ipairs(list) do one.at = i end
  table.sort(list, function(a, b)
    if a.file ~= b.file then return a.file < b.file end
    if a.line ~= b.line then return a.line < b.line end
    return a.at < b.at
  end)
  for i, one in ipairs(list) do
    out[i] = ("%s:%d: %s: %s"):format(one.file, one.line, one.kind, one.text)
  end
  return out
end

-- What mappers without a closed form cost: the same chunks are asked about on all ranks.
local function add_opaque(list)
  for _, one in ipairs(opaque) do
    list[#list + 1] = { file = one.file, line = one.line, kind = "hint",
      text = ("%s: it was called for up to %s, on every rank, %s, which took %.3g ms; there "
        .. "are more chunks on more ranks; %s"):format(one.what, times(one.chunks, "chunk",
        "chunks"), times(one.times, "time", "times"), one.seconds * 1000, one.kept) }
  end
end

-- Hints are about a whole run: none of one that `ended` early.
local function findings(rows, ended)
  local out, list = { mistakes = #overlaps, hints = ended and 0 or #opaque }, { unpack(overlaps) }
  if not ended then add_opaque(list) end
  for _, row in ipairs(rows) do
    local all = known[key_of(row.file, row.line, row.name)] or {}
    local access = all[row.access] or plain_access(row)
    local what = row.combines and "cg:reduce with include_current"
      or access.plain and row.name or describe(row, access, all)
    local function say(kind, text)
      out[kind .. "s"] = out[kind .. "s"] + 1
      list[#list + 1] = { file = access.file or "?", line = access.line or 0, kind = kind,
        text = text }
    end
    for _, name in ipairs(notes) do
      local text = row[name] and finders[name](row, what, access)
      if text then say("mistake", text) end
    end
    if not ended and not access.plain then
      local text = hint(row, access, what)
      if text then say("hint", text) end
      if row.gap and not access.by_image then say("hint", gap_hint(row.gap, what)) end
    end
  end
  return in_order(list, out)
end

local function report(out, rows, ended)
  local chunks = 0
  for _, row in ipairs(rows) do chunks = chunks + row.chunks end
  out[#out + 1] = ("celer check: %s found%s; %s looked at, in %s\n"):format(
    out.mistakes == 0 and "no mistakes" or times(out.mistakes, "mistake", "mistakes"),
    out.hints > 0 and ", " .. times(out.hints, "hint", "hints")
      or ended and " before the run ended early" or "",
    times(#rows, "access", "accesses"), times(chunks, "chunk", "chunks"))
  return table.concat(out, "\n")
end

--- Calls f, which runs the script. When it fails, what this rank has found until
--- then may be why: the rank that prints the error prints that first.
---@param f fun(): integer
---@return integer status
function M.guard(f)
  local ok, result = xpcall(f, core.failure)
  if ok then return result end
  local rows = core.audit() or {}
  core.found(report(findings(rows, true), rows, true))
  error(result, 0)
end

--- Writes the report, from rank 0, once all has been executed. All ranks call it.
---@return integer status  1 where there are mistakes
function M.finish()
  local texts = { codec.encode(core.audit() or {}) }
  if select(2, core.rank()) > 1 then texts = place.check(core.gather(texts[1])) end
  local rows = merge(texts)
  local out = findings(rows)
  if core.rank() == 0 then io.stderr:write(report(out, rows)) end
  return out.mistakes > 0 and 1 or 0
end

return M
