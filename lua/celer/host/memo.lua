--- memo.lua -- what capture.lua made of a function, for as long as all that the
--- function captured is as it was.
---
--- A loop that submits one function again and again would have it copied each
--- time. What the encoder looked at is noted as it goes, and looked at again:
--- upvalues, globals, modules. Tables and other values that may change inside
--- are never remembered. A function is remembered when it comes the second time,
--- as one that is made anew in each step would only cost.
--- Nothing here keeps anything alive.
local M = {}

local getupvalue, upvalueid = debug.getupvalue, debug.upvalueid
local NONE = {} -- a nil

local weak = { __mode = "v" }
local entries = setmetatable({}, { __mode = "k" }) -- by function; true: seen once

---@class celer.memo
---@field n integer  things looked at
local Memo = {}
Memo.__index = Memo

local function ignore() end
local unread = setmetatable({}, { __index = function() return ignore end })

--- Notes for one encoding of `f`; nobody reads them when it comes the first time.
---@return celer.memo
function M.new(f)
  if f == nil or not entries[f] then return unread end
  return setmetatable({ n = 0, fixed = true, key = {},
    holder = setmetatable({}, weak), value = setmetatable({}, weak) }, Memo)
end

local function note(self, holder, key, value)
  local n = self.n + 1
  self.n, self.holder[n], self.key[n] = n, holder, key
  if value == nil then value = NONE end
  self.value[n] = value
end

--- Upvalue `i` of a function, and which variable it is.
function Memo:upvalue(f, i, value)
  note(self, f, i, value)
  note(self, f, -i, upvalueid(f, i))
end

--- A function's environment.
function Memo:environment(f, env) note(self, f, "env", env) end

--- What a table holds: a global, a loaded module.
function Memo:field(holder, key, value) note(self, holder, key, value) end

--- Something was looked at that may change unseen.
function Memo:give_up() self.fixed = false end

local function look(holder, key)
  if type(holder) == "table" then return rawget(holder, key) end
  if key == "env" then return getfenv(holder) end
  if key < 0 then return upvalueid(holder, -key) end
  return (select(2, getupvalue(holder, key)))
end

-- The same to capture.lua, too: 0 and -0 are not.
local function same(a, b)
  return rawequal(a, b) and (a ~= 0 or 1 / a == 1 / b)
end

local function holds(self)
  local holders, keys, values = self.holder, self.key, self.value
  for i = 1, self.n do
    local holder, value = holders[i], values[i]
    if holder == nil or value == nil then return false end -- was collected
    local now = look(holder, keys[i])
    if now == nil then now = NONE end
    if not same(now, value) then return false end
  end
  return true
end

local function equal(list, other, n)
  for i = 1, n do
    if not same(list[i], other[i]) then return false end
  end
  return true
end

--- What was made of `f` when `given`, an array, was the same; or nil.
---@param f function
---@param given any[]
---@return string? encoded, string? identity
function M.find(f, given)
  local entry = entries[f]
  if not entry or entry == true then return nil end
  if entry.n == #given and equal(given, entry.given, entry.n) and holds(entry.memo) then
    return entry.encoded, entry.identity
  end
end

--- Remembers it, where the notes say that it may be.
function M.keep(f, given, memo, encoded, identity)
  if memo == unread or not memo.fixed then
    entries[f] = true
    return
  end
  local kept = setmetatable({}, weak)
  for i = 1, #given do kept[i] = given[i] end
  entries[f] = { memo = memo, given = kept, n = #given, encoded = encoded,
    identity = identity }
end

return M
