--- factory.lua -- makes functions of one code, again and again.
---
--- loadstring makes code anew each time: it takes some thousand instructions, and what
--- LuaJIT has compiled of the last one is of no use to the next. Lua makes many functions
--- of one code where a function is written in another one. So this puts the code that
--- string.dump gave into a function around it, in the place of a function that has as many
--- variables of its own.
---
--- What string.dump gives, as LuaJIT's lj_bcdump.h has it: a header, prototypes, those
--- within another one before it, and a 0. Nothing else is known of it here than where
--- prototypes begin and end, and where each has what it captures.
local M = {}

local STRIPPED = 2 -- a flag: there are no lines and names

-- A number of 7 bits per byte, the lowest first; and what follows it.
local function number(text, at)
  local n, scale = 0, 1
  while true do
    local byte = text:byte(at)
    n, scale, at = n + byte % 128 * scale, scale * 128, at + 1
    if byte < 128 then return n, at end
  end
end

-- Where the bytes begin that say what a prototype captures, and how many there are; its
-- own begin at `at`.
local function captures(text, at, is_stripped)
  local count, _ = text:byte(at + 3), nil
  _, at = number(text, at + 4)
  _, at = number(text, at)
  local code
  code, at = number(text, at)
  if not is_stripped then
    local debugging
    debugging, at = number(text, at)
    if debugging > 0 then -- the first line, and how many
      _, at = number(text, at)
      _, at = number(text, at)
    end
  end
  return at + 4 * code, 2 * count
end

---@class celer.dump
---@field head string  up to the first prototype
---@field protos {first: integer, last: integer, at: integer, size: integer}[]
---@field text string

---@param text string
---@return celer.dump
local function read(text)
  local flags, at = number(text, 5)
  local is_stripped = math.floor(flags / STRIPPED) % 2 == 1
  if not is_stripped then
    local length
    length, at = number(text, at)
    at = at + length
  end
  local out = { head = text:sub(1, at - 1), protos = {}, text = text }
  while true do
    local size, from = number(text, at)
    if size == 0 then return out end
    local captured, bytes = captures(text, from, is_stripped)
    out.protos[#out.protos + 1] = { first = at, last = from + size - 1, at = captured,
      size = bytes }
    at = from + size
  end
end

-- A function that returns one that captures n of its variables.
local function around(n)
  local names = {}
  for i = 1, n do names[i] = "x" .. i end
  local list = table.concat(names, ", ")
  return string.dump(assert(loadstring((n > 0 and "local " .. list or "")
    .. " return function() return " .. list .. " end")))
end

local function join(code)
  local inner = read(code)
  local own = inner.protos[#inner.protos]
  local outer = read(around(own.size / 2))
  local place, last = unpack(outer.protos)
  return assert(loadstring(inner.head .. code:sub(#inner.head + 1, own.at - 1)
    .. outer.text:sub(place.at, place.at + place.size - 1)
    .. code:sub(own.at + own.size, own.last) .. outer.text:sub(last.first)))
end

local known, count = {}, 0
local MOST = 256

--- A function that makes functions of a code in its own environment; what they capture
--- is for the caller to set.
---@param code string  as string.dump gives it
---@return fun(): function
function M.of(code)
  local make = known[code]
  if make then return make end
  local ok, made = pcall(join, code)
  make = ok and made or function() return assert(loadstring(code)) end
  if count == MOST then known, count = {}, 0 end
  known[code], count = make, count + 1
  return make
end

return M
