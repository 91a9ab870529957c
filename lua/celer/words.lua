--- words.lua -- how messages and files put things, and what a misspelt word was meant to be.
local place = require "celer.place"
local tables = require "celer.tables"

local M = {}

--- What kind of thing a value is, for messages: "nil", "a number", "a box".
---@return string
function M.a(value)
  local kind = type(value)
  if kind == "nil" then return "nil" end
  if kind == "cdata" and require("celer.data.complex").parts(value) then
    return "a complex number"
  end
  local meta = kind == "table" and getmetatable(value)
  local noun = type(meta) == "table" and rawget(meta, "__noun") or kind
  if type(noun) == "function" then noun = noun(value) end
  return (noun:find("^[aeiou]") and "an " or "a ") .. noun
end

--- "1 dimension", "2 dimensions".
---@param n integer
---@param noun string
---@return string
function M.count(n, noun)
  return ("%.0f %s%s"):format(n, noun, n == 1 and "" or "s")
end

--- The number as a file has it, of as few digits as read back as the same.
---@param x number
---@return string
function M.number(x)
  local text = ("%.15g"):format(x)
  return tonumber(text) == x and text or ("%.17g"):format(x)
end

-- Number of edits between two words; two letters that changed places are one.
local function distance(a, b)
  local above, row = nil, {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local below = { [0] = i }
    for j = 1, #b do
      local cost = a:byte(i) == b:byte(j) and 0 or 1
      below[j] = math.min(row[j] + 1, below[j - 1] + 1, row[j - 1] + cost)
      if above and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        below[j] = math.min(below[j], above[j - 2] + 1)
      end
    end
    above, row = row, below
  end
  return row[#b]
end

--- The candidate that `word` was most likely meant to be; nil when none is near.
---@param word string
---@param candidates string[]
---@return string?
function M.nearest(word, candidates)
  local best, least
  for _, candidate in ipairs(candidates) do
    local d = distance(word, candidate)
    if not least or d < least then best, least = candidate, d end
  end
  local most = #word > 3 and math.max(2, #word / 3) or 1
  return least and least <= most and best or nil
end

--- "; did you mean x?", or all there are: the end of a message.
---@param word any
---@param set table<string, any>  the words that there are, as keys
---@param path? string  what stands before each of them, as in "v.x"
---@return string
function M.advice(word, set, path)
  local names = {}
  for name in tables.sorted_pairs(set) do names[#names + 1] = name end
  local near = type(word) == "string" and M.nearest(word, names)
  path = path or ""
  if near then return (", did you mean %s%s?"):format(path, near) end
  for i, name in ipairs(names) do names[i] = path .. name end
  return ("; there %s %s"):format(#names == 1 and "is" or "are",
    table.concat(names, ", "))
end

--- Makes a misspelt method or field of a class say what it was meant to be. Other
--- fields that an object lacks stay nil.
---@param class table  the metatable and __index of its objects
---@param fields? string[]  those that users read
function M.methods(class, fields)
  local lacking = {}
  setmetatable(class, { __index = function(_, key)
    if lacking[key] or type(key) ~= "string" then return nil end
    local names = { unpack(fields or {}) }
    local owner = class
    while owner do
      for name, value in tables.sorted_pairs(owner) do
        if type(value) == "function" and not name:find("^_") then names[#names + 1] = name end
      end
      owner = rawget(owner, "__inherits")
    end
    local near = M.nearest(key, names)
    -- A longer form, as `drained` of `drain`, is a field.
    if near and #key > 3 and key:sub(1, #near) ~= near then
      place.fail("%s has no '%s', did you mean %s?", M.a(setmetatable({}, class)),
        key, near)
    end
    lacking[key] = true
  end })
end

--- Raises unless the first argument is the name of a file.
---@param call string
---@param path any
function M.check_path(call, path)
  if type(path) ~= "string" or path == "" or path:find "%z" then
    place.fail("%s: the first argument must be a file name, not %s", call,
      type(path) == "string" and ("%q"):format(path) or M.a(path))
  end
end

--- Refuses options that are no table, or that the call does not know.
---@param call string  begins the message
---@param options any
---@param known table<string, any>  the options that there are, as keys
---@param example? string
---@return table options
function M.check_options(call, options, known, example)
  if type(options) ~= "table" or getmetatable(options) then
    place.fail("%s: the options must be a table%s, not %s", call,
      example and " such as " .. example or "", M.a(options))
  end
  for key in tables.each(options) do
    if not known[key] then
      place.fail("%s: unknown option '%s'%s", call, tostring(key), M.advice(key, known))
    end
  end
  return options
end

local LONGEST = 80

--- The name of a buffer or task, for messages; raises unless it is one line.
---@param what string  begins the message
---@param name any
---@return string
function M.check_name(what, name)
  if type(name) ~= "string" then
    place.fail("%s: the name must be a string, not a %s", what, type(name))
  elseif name == "" or name:find("%c") then
    place.fail("%s: the name must be one line of text", what)
  elseif #name > LONGEST then
    place.fail("%s: the name has %d bytes; %d are the most", what, #name, LONGEST)
  end
  return name
end

return M
