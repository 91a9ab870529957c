--- opaque.lua -- range mappers that no rule can be made of.
---
--- A mapper that branches on its chunk, or looks something up by it, is called for
--- each chunk that there will be: those of all ranks, on every rank, and what this
--- rank's devices get of its own; besides for the whole range, its halves, and what
--- other numbers of ranks would cut it into, by which one that depends on how the range
--- is cut is found out on any number of ranks. What it gave becomes a rule that lists
--- it, the same on all ranks, as ranks compare rules.
---
--- What a mapper gave is kept while all that it captured is as it was. One that reads
--- what may change unseen is called anew at each submission, which the user is told.
local asked = require "celer.mapper.asked"
local box = require "celer.box"
local closure = require "celer.mapper.closure"
local core = require "celer.core"
local place = require "celer.place"
local settings = require "celer.settings"
local words = require "celer.words"

local M = {}

local MOST = 64      -- listings kept for one mapper
local PATIENCE = 100 -- submissions of one line that call its mapper anew
-- Numbers of ranks, besides two, whose chunks are asked about: of one code and buffer
-- the first times all of them, then one after the other, once in a while.
local LEAST, MOST_RANKS, ALWAYS, SELDOM = 3, 8, 16, 16
local MOST_CODES = 1024 -- remembered for that

--- How a task is divided, as core.chunks takes it.
---@class celer.division
---@field range ffi.cdata*  the index space
---@field core ffi.cdata*  a cel_lua_division
---@field handles? any[]
---@field on_devices boolean
---@field effects boolean
---@field reduces boolean

--- Mappers of celer's own that are so: they are not traced, nobody is told of them, and they are
--- called for no other numbers of ranks.
---@type table<function, boolean>
M.own = setmetatable({}, { __mode = "k" })
--- The rule of all of them.
M.own_rule = { opaque = true, volatile = "it is celer's own", reason = "it is celer's own" }

local function append(out, list)
  for i = 1, #list do out[#out + 1] = list[i] end
end

-- All that the chunks depend on, as text.
local function key_of(division, range, extent)
  local lo, hi = box.bounds(range)
  local how, handles = division.core, division.handles
  local out = { how.placement, how.cuts, tostring(division.on_devices),
    tostring(division.effects), tostring(division.reduces) }
  append(out, lo)
  append(out, hi)
  out[#out + 1] = "of"
  append(out, select(2, box.bounds(extent)))
  append(out, { tostring(how.granularity0), tostring(how.granularity1),
    tostring(how.granularity2), how.runs, tostring(how.home), tostring(how.rank) })
  for i = 1, 2 do out[#out + 1] = tostring(handles and handles[i]) end
  return table.concat(out, " ")
end

local function values_of(read, out)
  for _, cell in ipairs(read.numbers) do
    out[#out + 1] = ("%.17g"):format(closure.get(read, cell))
  end
  return table.concat(out, " ")
end

local listed, codes = {}, 0 -- code and buffer -> how often

-- Which numbers of ranks are tried this time, as bits: the same on all ranks.
local function tried(f, buffer)
  local key = buffer.name .. "\0" .. closure.fingerprint(f)
  local n = listed[key]
  if not n then
    if codes == MOST_CODES then listed, codes = {}, 0 end
    n, codes = 0, codes + 1
  end
  listed[key] = n + 1
  if n < ALWAYS then return 2 ^ (MOST_RANKS + 1) - 2 ^ LEAST end
  if n % SELDOM > 0 then return 0 end
  return 2 ^ (LEAST + n / SELDOM % (MOST_RANKS - LEAST + 1))
end

-- The mapper's boxes for each chunk, as core.list takes them.
local function call_all(f, n, bounds, range, extent, reason)
  local counts, flat, dims = {}, {}, range.dims
  for i = 1, n do
    local at = 6 * (i - 1)
    local chunk = box.make(dims, bounds[at + 1], bounds[at + 2], bounds[at + 3],
      bounds[at + 4], bounds[at + 5], bounds[at + 6])
    local boxes = asked.evaluate(f, chunk, range, extent, reason)
    counts[i] = #boxes
    for _, b in ipairs(boxes) do
      local lo, hi = box.bounds(b)
      for d = 1, 3 do flat[#flat + 1] = lo[d] or 0 end
      for d = 1, 3 do flat[#flat + 1] = hi[d] or 1 end
    end
  end
  return counts, flat
end

-- The rule, for how many chunks, and how long that took.
local function list(f, buffer, range, extent, division, reason)
  local begin = core.time()
  local chunks, n, bounds = place.check(core.chunks(division.range, division.core,
    division.handles, division.on_devices, division.effects, division.reduces,
    M.own[f] and 0 or tried(f, buffer)))
  local counts, flat = call_all(f, n, bounds, range, extent, reason)
  local rule = place.check(core.list(chunks, range.dims, extent.dims, counts, flat))
  return rule, n, core.time() - begin
end

-- ---- what costs -------------------------------------------------------------

local met = {} -- "file:line" -> times; false once it was told

local function in_words(buffer, rule)
  return ("the range mapper of %s has no closed form (%s)"):format(buffer.name, rule.reason),
    rule.volatile and "what it gives is not kept, as " .. rule.volatile
      or "what it gives is kept for numbers that come again"
end

-- Tells of a line that has called its mapper anew for many submissions, once.
local function count(f, buffer, rule, n, seconds)
  if M.own[f] then return end
  local file, line = place.user()
  local what, kept = in_words(buffer, rule)
  if settings.check then
    return require("celer.tools.check").opaque(what, kept, n, seconds, file, line)
  end
  local where = ("%s:%d"):format(file or "?", line or 0)
  local times = met[where]
  if times == false then return end
  times = (times or 0) + 1
  met[where] = times < PATIENCE and times
  if times < PATIENCE then return end
  core.advise(("%s, so each submission calls it for %s, on every rank; %s"):format(
    what, words.count(n, "chunk"), kept), file, line)
end

-- ---- rules ------------------------------------------------------------------

--- The engine's rule for an opaque mapper.
---@param f function
---@param rule celer.rule  what trace.rule says of it
---@param read celer.closure  of f
---@param buffer celer.buffer
---@param range celer.box  the index space
---@param extent celer.box  all of the buffer
---@param division celer.division
---@return userdata
function M.rule(f, rule, read, buffer, range, extent, division)
  if rule.volatile then
    local made, n, seconds = list(f, buffer, range, extent, division, rule.reason)
    count(f, buffer, rule, n, seconds)
    return made
  end
  local key = values_of(read, { key_of(division, range, extent) })
  if not rule.listed or rule.listings == MOST then rule.listed, rule.listings = {}, 0 end
  local kept = rule.listed[key]
  if kept then return kept.rule end
  local made, n, seconds = list(f, buffer, range, extent, division, rule.reason)
  -- Keeps the weights, whose address is in the key.
  rule.listed[key] = { rule = made, handles = division.handles }
  rule.listings = rule.listings + 1
  count(f, buffer, rule, n, seconds)
  return made
end

return M
