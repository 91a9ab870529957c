--- hints.lua -- how the work of a command group may be divided.
local balance = require "celer.submit.balance"
local checking = require "celer.tools.check"
local core = require "celer.core"
local place = require "celer.place"
local placements = require "celer.submit.placement"
local each = require("celer.tables").each
local settings = require "celer.settings"
local division_t = require("celer.structs").division
local weighing = require "celer.submit.weights"
local words = require "celer.words"

local fail = place.fail

local M = {}

-- Dimensions that are cut, by the name of the split.
local splits = { ["1d"] = 1, ["2d"] = 2, ["3d"] = 3 }
local MOST_RUNS = core.facts.limit.runs
local MOST_STEPS = core.facts.limit.fold
local placement_of = core.facts.placement

---@class celer.hints
---@field split? "1d"|"2d"|"3d"  how many dimensions are cut, from the first on
---@field oversubscribe? integer  runs that each device's chunk is cut into
---@field fold? integer  tasks that may be carried out as one at most, else as many as pay
---@field granularity? integer|integer[]  cuts lie at multiples of it
---@field weights? celer.weights|table|function|"equal"  of ranks and devices
---@field place? celer.placement  the one rank that has all of it

local function is_whole(n, most)
  return type(n) == "number" and n >= 1 and n % 1 == 0 and n <= most
end

local checks = {}

function checks.split(value, call)
  if not splits[value] then
    fail("%s: split must be \"1d\", \"2d\" or \"3d\", not %s", call,
      type(value) == "string" and ("%q"):format(value) or words.a(value))
  end
end

function checks.oversubscribe(value, call)
  if not is_whole(value, MOST_RUNS) then
    fail("%s: oversubscribe must be a whole number from 1 to %d, not %s", call,
      MOST_RUNS, tostring(value))
  end
end

function checks.fold(value, call)
  if not is_whole(value, MOST_STEPS) then
    fail("%s: fold must be a whole number from 1 to %d, not %s", call, MOST_STEPS,
      tostring(value))
  end
end

function checks.granularity(value, call)
  local list = type(value) == "table" and value or { value }
  local n = 0
  for key in each(list) do n = n + (is_whole(key, 3) and 1 or 4) end
  if n ~= #list or n == 0 or n > 3 then
    fail("%s: granularity must be a number, or a table of one for each dimension "
      .. "such as {16, 8}", call)
  end
  for d = 1, n do
    if not is_whole(list[d], 2 ^ 53) then
      fail("%s: granularity must be a whole number of at least 1, not %s", call,
        tostring(list[d]))
    end
  end
  if list == value then return { unpack(list) } end -- the script may change its own
end

-- False stands for none.
function checks.weights(value)
  if value == "equal" then return false end
  return weighing.is_weights(value) and value or weighing.new(value)
end

function checks.place(value, call)
  if not placements.is_placement(value) then
    fail("%s: place must be celer.at(rank), celer.where(buffer, box) or celer.on_master, "
      .. "not %s", call, words.a(value))
  end
end

--- Checks hints and puts them over those in `known`, which changes.
---@param known table
---@param hints celer.hints
---@param call string  begins messages
---@param own? table<string, boolean>  those of `known` that are not to be given again
function M.add(known, hints, call, own)
  if type(hints) ~= "table" then
    fail("%s: the hints must be a table such as {split = \"2d\"}, not %s", call,
      words.a(hints))
  end
  local key, value = next(hints)
  while key ~= nil do
    if not checks[key] then
      fail("%s: unknown hint '%s'%s", call, tostring(key), words.advice(key, checks))
    end
    local better = checks[key](value, call)
    if better ~= nil then value = better end
    if own and own[key] then fail("%s: %s was given already; give it once", call, key) end
    if own then own[key] = true end
    known[key] = value
    key, value = next(hints, key)
  end
end

local function gcd(a, b)
  while b > 0 do a, b = b, a % b end
  return a
end

-- Of dimension d, with groups that are not cut: the least common multiple, which
-- leaves no rest.
local function grouped(hint, range, d)
  local group = range.group[d]
  local n = group / gcd(group, hint) * hint
  if range.size[d] % n ~= 0 then
    fail("cg:parallel_for: groups of %d and a granularity of %d are cut at "
      .. "multiples of %d, of which the %d items of dimension %d are none", group,
      hint, n, range.size[d], d - 1)
  end
  return n
end

local MOST = 1024
local shared, count = {}, 0 -- by placement and cuts, runs and fold, and granularities

local function inner(list, key)
  local found = list[key]
  if not found then
    found = {}
    list[key] = found
  end
  return found
end

-- Loops divide their work alike in each step.
local function share(placement, cuts, runs, fold, a, b, c)
  if count == MOST then shared, count = {}, 0 end
  local list = inner(shared, 4 * placement + cuts)
  list = inner(inner(inner(list, (MOST_STEPS + 1) * runs + fold), a), b)
  local division = list[c]
  if not division then
    division = division_t(placement, cuts, runs, fold, a, b, c)
    list[c], count = division, count + 1
  end
  return division
end

--- How work is divided that nobody has hinted at.
---@param placement integer  cel_placement
---@param cuts integer  dimensions that may be cut
---@return ffi.cdata* division
function M.plain(placement, cuts)
  return share(placement, cuts, 1, settings.fold, 1, 1, 1)
end

--- The same for work that stays whole: one chunk, wherever that is.
---@param division ffi.cdata*
---@return ffi.cdata*
function M.in_one(division)
  local one = division_t(division.placement, 0, 1, 1, 1, 1, 1)
  one.group = division.group
  return one
end

--- The same for a task of a group of collective tasks.
---@param division ffi.cdata*
---@param number integer
---@return ffi.cdata*
function M.of_collective(division, number)
  local out = division_t(division)
  out.collective = number
  return out
end

--- What the core takes of them: a cel_lua_division, which nobody changes, and handles of
--- weights and of a buffer, or nil.
---@param hints table  as M.add made it
---@param dims integer
---@param placement integer  cel_placement, where they say nothing of it
---@param range? celer.nd_range
---@param at? celer.placement  where all of it runs
---@return ffi.cdata* division, any[]? handles
function M.resolve(hints, dims, placement, range, at)
  local cuts = math.min(splits[hints.split or "1d"], dims)
  local granularity, runs, weights = hints.granularity, hints.oversubscribe, hints.weights
  if at then placement, weights = placement_of.once, nil
  elseif weights == nil and cuts == 1 then weights = balance.weights end
  if settings.check then runs = runs or checking.runs end
  local fold = hints.fold or settings.fold
  if not (granularity or runs or range or weights or at or fold ~= settings.fold) then
    return M.plain(placement, cuts), nil
  end
  if weights and dims == 0 then cuts = 1 end -- as of {1}: it lies with one of them
  local list = type(granularity) == "table" and granularity or nil
  if list and #list > dims then
    fail("the granularity has %s, the range %s", words.count(#list, "number"),
      words.count(dims, "dimension"))
  end
  if weights and weights.rows and cuts > 1 then
    fail("weights from a buffer are those of rows, which need the split \"1d\"")
  elseif weights and weights.zeros and cuts > 1 then
    fail("a weight of 0 needs the split \"1d\": a tile lies in a row and a column "
      .. "of others")
  end
  local a, b, c = 1, 1, 1
  for d = 1, cuts do
    local n = list and (list[d] or 1) or granularity or 1
    if range then n = grouped(n, range, d) end
    if d == 1 then a = n elseif d == 2 then b = n else c = n end
  end
  local division = share(placement, cuts, runs or 1, fold, a, b, c)
  if range then
    division = division_t(division)
    for d = 1, 3 do division.group[d - 1] = range.group[d] or 1 end
  end
  if at then return placements.divide(at, division) end
  return division, weights and weights.handles or nil
end

return M
