--- request.lua -- what a script asks to be saved in an HDF5 file.
local buffers = require "celer.buffer"
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

local ours = {} -- files that this run has saved to
local told = {} -- lines

-- Says that what a file holds goes: once for each line.
local function tell(path)
  local file, line = place.user()
  local where = ("%s:%d"):format(file or "?", line or 0)
  if told[where] then return end
  told[where] = true
  core.advise(("%s is not of this run, and what it holds goes; {replace = true} says that this is "
    .. "meant, and {add = true} keeps it"):format(path), file, line)
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

--- What is asked for beside buffers; `adds` is left to be set.
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

--- Notes that this run saves to a file; whether that adds to what it holds.
---@param options celer.io.save_options
---@return boolean adds
function M.claim(path, options)
  local key = order.plain(path)
  local again = ours[key] or false
  ours[key] = true
  if not again and not (options.add or options.replace or options.append or core.dry())
    and posix.exists(path) then
    tell(path)
  end
  return again or options.add or false
end

return M
