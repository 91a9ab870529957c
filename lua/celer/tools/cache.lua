--- cache.lua -- `celer cache`: the compiled kernels on disk.
local core = require "celer.core"
local dry = require "celer.tools.dry"
local place = require "celer.place"
local words = require "celer.words"

local M = {}

local HOUR, DAY = 3600, 24 * 3600
local STEM = 32 -- digits that begin a name

-- Files of one stem belong together, and were used when the last of them was.
local function by_stem()
  local stems, list = {}, {}
  for _, file in ipairs(place.check(core.cache_files())) do
    local key = file.leftover and file.name or file.name:sub(1, STEM)
    local stem = stems[key]
    if not stem then
      stem = { bytes = 0, age = file.age, leftover = file.leftover, files = {} }
      stems[key], list[#list + 1] = stem, stem
    end
    stem.bytes, stem.age = stem.bytes + file.bytes, math.min(stem.age, file.age)
    stem.files[#stem.files + 1] = file.name
    if file.name:find("%.so$") or file.name:find("%.cubin$") then stem.entry = file.name end
  end
  table.sort(list, function(a, b)
    if a.age ~= b.age then return a.age < b.age end
    return a.files[1] < b.files[1]
  end)
  return list
end

local function write_size(list)
  local bytes, entries = 0, 0
  for _, stem in ipairs(list) do
    bytes, entries = bytes + stem.bytes, entries + (stem.entry and 1 or 0)
  end
  io.write(("%s: %s, %s\n"):format((core.cache_folder()),
    words.count(entries, "compiled source"), dry.amount(bytes)))
end

local function days_ago(age)
  local days = math.floor(math.max(age, 0) / DAY)
  return days == 0 and "today" or days == 1 and "yesterday" or days .. " days ago"
end

-- "step, spread", as sorted as symbols are not.
local function names_of(lines)
  local names = {}
  for name in lines:gmatch("[^\n]+") do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

local function write_list(list)
  write_size(list)
  for _, stem in ipairs(list) do
    if stem.entry then
      local names, architecture = core.cache_kernels(stem.entry)
      local what = not names and "damaged" or architecture == 0 and "cpu"
        or "sm_" .. architecture
      io.write(("%-12s %10s  %-7s %s\n"):format(days_ago(stem.age), dry.amount(stem.bytes),
        what, names_of(names or "")))
    end
  end
end

-- Removes what was not used for so long; leftovers of compiles that cannot be
-- under way any more go in any case.
local function remove(list, seconds)
  local bytes, kept = 0, 0
  for _, stem in ipairs(list) do
    local old = stem.leftover and HOUR or seconds
    for _, name in ipairs(stem.age >= old and stem.files or {}) do
      if not core.cache_remove(name) then kept = kept + 1 end
    end
    if stem.age >= old then bytes = bytes + stem.bytes end
  end
  io.write(("%s: %s removed\n"):format((core.cache_folder()), dry.amount(bytes)))
  if kept == 0 then return 0 end
  io.stderr:write(("celer: %s could not be removed\n"):format(words.count(kept, "file")))
  return 1
end

--- What `celer cache` does, by the words of its argument.
---@type table<string, fun(days: number): integer?>
M.actions = {
  list = function() write_list(by_stem()) end,
  size = function() write_size(by_stem()) end,
  prune = function(days) return remove(by_stem(), days * DAY) end,
  -- What a clock that is behind has written, too.
  clear = function() return remove(by_stem(), -math.huge) end,
}

--- The command; returns its exit status. Where there is no cache it says so.
---@param action string
---@param days number
---@return integer
function M.run(action, days)
  if core.rank() ~= 0 then return 0 end
  local _, warning = core.cache_folder()
  if warning ~= "" then
    io.stderr:write("celer: ", warning, "\n")
    return 1
  end
  return M.actions[action](days) or 0
end

return M
