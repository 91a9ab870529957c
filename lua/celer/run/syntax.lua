--- syntax.lua -- the user's Lua, compiled; where a mistake follows a string that has
--- ended early, the message says so.
local M = {}

local NEAR = 5 -- lines: a mistake is found soon behind such a string

-- Where a string in quotes ends: at its second quote, or with the line.
local function quoted(text, at, quote)
  local stop = "[\\\n" .. quote .. "]"
  while true do
    at = text:find(stop, at + 1)
    if not at then return #text end
    if text:sub(at, at) ~= "\\" then return at end
    at = at + 1
  end
end

-- Where a string or comment that begins at `at` ends, `at` if none does; whether it is a
-- string in [[ ]].
local function skip(text, at)
  local quote = text:match("^[\"']", at)
  if quote then return quoted(text, at, quote), false end
  local comment = text:match("^%-%-()", at)
  local level = text:match("^%[(=*)%[", comment or at)
  if level then
    local _, last = text:find("]" .. level .. "]", at, true)
    return last or #text, last and not comment and level == ""
  end
  return comment and (text:find("\n", at, true) or #text) or at, false
end

local function line_of(text, at) return select(2, text:sub(1, at):gsub("\n", "")) + 1 end

-- The last string in [[ ]] that ends before `limit`: where it begins and ends.
local function last_string(text, limit)
  local first, last
  local at = text:find("[%-\"'%[]")
  while at do
    local stop, is_string = skip(text, at)
    if stop > limit then break end
    if is_string then first, last = at, stop end
    at = text:find("[%-\"'%[]", stop + 1)
  end
  return first, last
end

local function end_of_line(text, line)
  local at = 0
  for _ = 1, line do at = text:find("\n", at + 1, true) or #text end
  return at
end

--- A message of Lua's own, with a hint where ]] in a kernel may be what ended its text.
---@param message string
---@param text string
---@return string
function M.explain(message, text)
  local line = tonumber(message:match("^[^\n]-:(%d+): "))
  if not line then return message end
  local first, last = last_string(text, end_of_line(text, line))
  if not first or line - line_of(text, last) > NEAR then return message end
  local close, open = text:find("]]", last + 1, true), text:find("[[", last + 1, true)
  if not close or (open and open < close) then return message end
  return ("%s: the text that [[ begins in line %d ends at the ]] in line %d; write [=[ ... ]=] "
    .. "around a text that holds ]]"):format(message, line_of(text, first), line_of(text, last))
end

--- As loadstring.
---@param text string
---@param name string
---@return function? chunk, string? message
function M.load(text, name)
  local chunk, message = loadstring(text, name)
  if chunk then return chunk end
  return nil, M.explain(message, text)
end

return M
