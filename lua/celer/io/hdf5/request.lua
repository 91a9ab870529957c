--- request.lua -- what a script asks to be saved in an HDF5 file.
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local order = require "celer.io.order"
local place = require "celer.place"
local posix = require "celer.io.posix"
local tables = require "celer.tables"
local values = require "celer.io.hdf5.values"
local words = require "celer.words"

local fail = place.fail

local M = {}

local CALL = "celer.io.save"

-- ---- names ------------------------------------------------------------------

-- Why a dataset cannot be called so, beside others of the same save.
local function name_fault(name, others)
  local path = "/" .. name .. "/"
  if path:find("//", 1, true) or path:find("/./", 1, true) or name:find("%z") then
    return ("'%s' names no dataset: words with single slashes between them do, but for '.'")
      :format(name)
  end
  for group in name:gmatch("()/") do
    local above = name:sub(1, group - 1)
    if others[above] ~= nil then
      return ("dataset '%s' cannot lie in '%s', which is a dataset itself"):format(name, above)
    end
  end
end

local function check_names(path, list)
  for name in tables.sorted_pairs(list) do
    if type(name) ~= "string" or name == "" then
      fail("%s: a buffer's name in the file must be a string, not %s", CALL,
        name == "" and "an empty one" or words.a(name))
    end
    local fault = name_fault(name, list)
    if fault then fail("cannot write %s: %s", path, fault) end
  end
end

-- ---- values -----------------------------------------------------------------

local types_ = { f8 = "double", i8 = "int64_t", u8 = "uint64_t", b = "bool" }

--- What a save is to put under a name: a buffer, and whether the caller frees it, or nil
--- and a string as it is stored.
---@param given celer.buffer|celer.io.plain
---@return celer.buffer? buffer, boolean|celer.io.value own_or_string
function M.entry(given, what, options)
  if buffers.is_buffer(given) then
    buffers.check(given, CALL)
    return given, false
  end
  local kind = values.kind_of(given)
  if not kind then
    fail("%s: %s must be a buffer, a number, a string or a boolean, not %s", CALL, what,
      words.a(given))
  elseif kind ~= "s" then
    return buffers.new(types_[kind], {}, { name = CALL, init = given }), true
  elseif options.append then
    fail("%s: %s is a string, which is no step of a dataset", CALL, what)
  elseif options.box then
    fail("%s: %s is a string, and box is for a buffer", CALL, what)
  end
  local value, fault = values.new(given)
  if not value then fail("%s: %s %s", CALL, what, fault) end
  return nil, value
end

-- ---- the file ---------------------------------------------------------------

-- Files that this run has saved to: of those that it has made, the line that saved each
-- dataset.
local ours = {}
local told = {} -- lines

-- The user's line, and as text.
local function user_line()
  local file, line = place.user()
  return ("%s:%d"):format(file or "?", line or 0), file, line
end

-- Says that something goes: once for each line.
local function tell(format, ...)
  local where, file, line = user_line()
  if told[where] then return end
  told[where] = true
  core.advise(format:format(...), file, line)
end

local function check_flag(options, name)
  if options[name] ~= nil and type(options[name]) ~= "boolean" then
    fail("%s: %s must be true or false, not %s", CALL, name, words.a(options[name]))
  end
end

local function check_append(append)
  local whole = type(append) == "number" and append >= 0 and append % 1 == 0
    and append <= 2 ^ 53
  if append ~= nil and type(append) ~= "boolean" and not whole then
    fail("%s: append must be true, or how many steps come before, not %s", CALL,
      type(append) == "number" and tostring(append) or words.a(append))
  end
end

--- What is asked for beside buffers; M.claim says whether it adds.
---@param list table<string, any>  what is saved, by name
---@param object string  the dataset that gets options.attributes; "" for the file
---@param options celer.io.save_options
---@return celer.io.request
function M.new(path, list, object, options)
  check_names(path, list)
  if object ~= "" and list[object] == nil then check_names(path, { [object] = true }) end
  check_flag(options, "add")
  check_flag(options, "replace")
  check_append(options.append)
  local attributes, fault = values.attributes(options.attributes or {})
  if not attributes then fail("%s: %s", CALL, fault) end
  return { replaces = options.replace or false, texts = {}, object = object,
    attributes = attributes }
end

-- Notes which line saves which datasets of a file that this run has made. What another
-- line has saved goes with a word, as it may be by mistake.
local function claim_names(path, saved, list, options)
  local where = user_line()
  for name in tables.sorted_pairs(list) do
    local goes = saved[name] and not (options.append or options.replace)
    if goes and saved[name] ~= where then
      tell("dataset '%s' of %s, which %s has saved, goes; {replace = true} says that this is "
        .. "meant", name, path, saved[name])
    end
    saved[name] = where
  end
end

--- Notes that this run saves to a file, and whether that adds to what the file holds and
--- replaces what it has of these names.
---@param request celer.io.request
---@param list table<string, any>  what is saved, by name
---@param options celer.io.save_options
function M.claim(request, path, list, options)
  local key = order.plain(path)
  local again = ours[key]
  ours[key] = again or (options.add and {} or { saved = {} })
  request.adds = again ~= nil or options.add or false
  if not again and not (options.add or options.replace or options.append or core.dry())
    and posix.exists(path) then
    tell("%s is not of this run, and what it holds goes; {replace = true} says that this is "
      .. "meant, and {add = true} keeps it", path)
  end
  if ours[key].saved then
    claim_names(path, ours[key].saved, list, options)
    request.replaces = not options.append
  end
end

return M
