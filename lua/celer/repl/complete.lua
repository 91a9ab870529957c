--- complete.lua -- what Tab adds to a line of the session.
local docs = require "celer.repl.docs"
local tables = require "celer.tables"

local M = {}

local each = tables.each

local WIDTH = 78 -- of the choices shown below a line

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil
not or repeat return then true until while]]):gmatch "%S+" do keywords[word] = true end

-- ---- what there is ----------------------------------------------------------

-- A field of a value, found without running anything of the user's.
local function field(value, key)
  if type(value) == "string" then return string[key] end
  if type(value) ~= "table" then return nil end
  local found = rawget(value, key)
  if found ~= nil then return found end
  local meta = getmetatable(value)
  if type(meta) ~= "table" then return nil end
  if type(meta.__names) == "table" and meta.__names[key] then return value[key] end
  if docs.of_class(value) then
    local ok, got = pcall(function() return value[key] end)
    return ok and got or nil
  end
  return field(rawget(meta, "__index"), key)
end

local function is_name(key)
  return type(key) == "string" and key:find "^[%a_][%w_]*$" ~= nil and not keywords[key]
end

-- Adds to a set the names that a plain table gives, and what it falls back on.
local function add_names(set, value, methods)
  if type(value) == "string" then value = string end
  if type(value) ~= "table" then return end
  for key, found in each(value) do
    if is_name(key) and (not methods or type(found) == "function") then
      set[key] = type(found)
    end
  end
  local meta = getmetatable(value)
  if type(meta) ~= "table" then return end
  for key in each(meta.__names or {}) do set[key] = "function" end
  if type(meta.__index) == "table" then add_names(set, meta.__index, methods) end
end

-- The names behind a value and a separator: a set of types.
local function names_in(value, separator)
  local set, class = {}, docs.of_class(value)
  if not class then
    add_names(set, value, separator == ":")
  elseif separator == ":" then
    for key in each(class.methods) do set[key] = "function" end
  else
    for _, one in ipairs(class.fields) do
      local name = one.name:gsub("%?$", "")
      if is_name(name) then set[name] = "field" end -- not "[integer]"
    end
  end
  return set
end

-- What the function of the last q:submit is called with, when there is none yet.
local function group_of(before, name)
  local last
  for given in before:gmatch "submit%s*%(%s*function%s*%(%s*([%a_][%w_]*)" do last = given end
  if last ~= name then return nil end
  return require("celer.submit.group").new({})
end

-- The value that "a.b.c" stands for; nil for none.
local function value_of(path, before)
  local value = _G
  for name, separator in path:gmatch "([%w_]+)([.:])" do
    value = field(value, name)
    if value == nil then return group_of(before, name) end
    if separator == ":" then break end
  end
  return value
end

-- ---- what is added ----------------------------------------------------------

local function common(words)
  local prefix = words[1]
  for _, word in ipairs(words) do
    while word:sub(1, #prefix) ~= prefix do prefix = prefix:sub(1, -2) end
  end
  return prefix
end

-- Words in columns, read downwards.
local function columns(words)
  local width = 0
  for _, word in ipairs(words) do width = math.max(width, #word + 2) end
  local across = math.max(1, math.floor(WIDTH / width))
  local rows = math.ceil(#words / across)
  local out = {}
  for row = 1, rows do
    local line = {}
    for i = row, #words, rows do line[#line + 1] = words[i] .. (" "):rep(width - #words[i]) end
    out[row] = table.concat(line):gsub("%s+$", "")
  end
  return table.concat(out, "\n")
end

--- What to insert after `line`, and what to show below it; nil for nothing.
--- `before` is what was typed of the same chunk.
---@param line string  up to the cursor
---@param before string
---@return string? insert, string? choices
function M.at(line, before)
  if not line:find "%S" then return "  " end
  local path, word = line:match "([%a_][%w_.:]*[.:])([%w_]*)$"
  word = word or line:match "[%a_][%w_]*$"
  -- What comes before a dot may be a call: it is not made.
  if not word or (not path and line:sub(1, -#word - 1):find "[.:]$") then return nil end
  local set
  if path then
    set = names_in(value_of(path, before .. "\n" .. line), path:sub(-1))
  else
    set = names_in(_G, ".")
    for key in pairs(keywords) do set[key] = "keyword" end
  end
  local found = {}
  for name in tables.sorted_pairs(set) do
    local hidden = word == "" and name:find "^_"
    if name:sub(1, #word) == word and not hidden then found[#found + 1] = name end
  end
  if #found == 0 then return nil end
  local rest = common(found):sub(#word + 1)
  if #found == 1 then
    return rest .. (path and path:sub(-1) == ":" and "(" or "")
  end
  return rest, rest == "" and columns(found) or nil
end

return M
