--- closure.lua -- what a function consists of: its code and what it captured.
---
--- Two closures with equal keys differ in captured whole numbers at most. Whole
--- numbers are kept apart because trace.lua makes parameters of them.
local box = require "celer.box"
local codes = require "celer.mapper.code"
local families = require "celer.mapper.boxes"
local mapper = require "celer.mapper.builtin"
local place = require "celer.place"
local symbol = require "celer.symbol"

local M = {}

local getupvalue, setupvalue, upvalueid = debug.getupvalue, debug.setupvalue, debug.upvalueid
local LIMIT = 2 ^ 53

-- Values that are the same at every call, by name: the standard library but
-- what reads the world or looks past what can be followed, and our own functions. Tables
-- among them are so but for their fields, which a user may replace.
local known = {}

local function know(name, value)
  if type(value) ~= "table" and type(value) ~= "function" then return end
  if known[value] then return end
  known[value] = name
end

local function know_all(prefix, module)
  know(prefix, module)
  for name, value in pairs(module) do
    if type(name) == "string" then know(prefix .. "." .. name, value) end
  end
end

for _, name in ipairs({ "math", "string", "table", "bit" }) do
  know_all(name, _G[name] or require(name))
end
known[math.random], known[math.randomseed] = nil, nil
for name in ([[assert error ipairs next pairs pcall rawequal select setmetatable tonumber
tostring type unpack]]):gmatch("%S+") do
  know(name, _G[name])
end
know_all("celer.box", box)
know_all("celer.mapper", mapper)
know_all("celer.symbol", symbol)
know("celer.boxes", families.boxes)

--- The name of a value that never changes; nil for all others.
function M.known(value)
  if type(value) ~= "table" and type(value) ~= "function" then return nil end
  return known[value] or (value == package.loaded.celer and "celer" or nil)
end

--- The code of a range mapper, or of a function that it calls, as text: equal for
--- closures of one prototype. What it costs is most of what a new closure costs.
--- Raises for a C function, which has none.
---@param f function
---@return string
function M.fingerprint(f)
  local ok, code = pcall(string.dump, f, true)
  if not ok then
    place.fail("a range mapper must be a function of Lua, such as function(chunk) return "
      .. "chunk end; %s is a C function", known[f] or "this one")
  end
  return code
end

function M.is_whole(x)
  return type(x) == "number" and x % 1 == 0 and x <= LIMIT and x >= -LIMIT
end

-- A box as text, for keys.
local function box_key(value)
  return ("b%d%s%s"):format(value.dims, value.clamp and "c" or "", tostring(value))
end

local visit

-- The key of a captured value that is no whole number; nil for one that may
-- change unseen.
local function value_key(self, value)
  local kind = type(value)
  if kind == "string" then return ("s%d:%s"):format(#value, value) end
  if kind == "number" then return ("n%.17g"):format(value) end
  if kind == "nil" or kind == "boolean" then return tostring(value) end
  local name = M.known(value)
  if name then return "k" .. name end
  if box.is_box(value) then return box_key(value) end
  if kind == "function" and debug.getinfo(value, "S").what ~= "C" then
    if self.seen[value] then return "&" .. self.seen[value] end
    visit(self, value)
    return "f"
  end
  return nil
end

local function visit_upvalue(self, at, i, name, value)
  local cell = { at = at, i = i, name = name, also = {} }
  local cells, parts = self.cells, self.parts
  cells[#cells + 1] = cell
  if M.is_whole(value) then
    cell.number = true
    self.numbers[#self.numbers + 1] = cell
    parts[#parts + 1] = "i"
    return
  end
  local key = value_key(self, value)
  if not key then
    self.volatile = self.volatile
      or ("it reads %s '%s'"):format(type(value) == "table" and "the table"
        or "the " .. type(value), name)
  end
  if type(value) == "function" and not M.known(value) then
    cell.callee = self.seen[value] -- not the value: it may lead back to f
  else
    cell.value = value
  end
  if box.is_box(value) then cell.box = key end
  parts[#parts + 1] = key or "v"
end

-- Whether it is a table of functions that are known.
local function is_library(value) return type(value) == "table" and M.known(value) ~= nil end

local function look_up(t, key) return t[key] end

-- Fields of libraries that a function takes: each is part of the key.
local function visit_fields(self, f)
  codes.each_outside(f, function(library, name)
    if not is_library(library) then return end
    if name == nil then
      self.volatile = self.volatile or ("it uses %s in another way than by its fields")
        :format(M.known(library))
      return
    end
    pcall(look_up, library, name) -- celer loads what was not used yet
    local value = rawget(library, name)
    local key = type(value) ~= "function" and value_key(self, value) or M.known(value)
    if not key then
      self.volatile = self.volatile or ("it reads %s.%s, which is not celer's own"):format(
        M.known(library), tostring(name))
    end
    self.fields[#self.fields + 1] = { owner = library, name = name, value = value }
    self.parts[#self.parts + 1] = ("%s.%s=%s"):format(M.known(library), tostring(name), key or "v")
  end)
end

function visit(self, f)
  local functions, parts = self.functions, self.parts
  local at = self.count + 1
  self.count = at
  functions[at], self.seen[f] = f, at
  parts[#parts + 1] = M.fingerprint(f)
  visit_fields(self, f)
  for i = 1, 255 do
    local name, value = getupvalue(f, i)
    if not name then return end
    local id = upvalueid(f, i)
    if self.ids[id] then
      parts[#parts + 1] = "@" .. self.ids[id]
      local also = self.cells[self.ids[id]].also
      also[#also + 1] = { at = at, i = i }
    else
      self.ids[id] = #self.cells + 1
      visit_upvalue(self, at, i, name, value)
    end
  end
end

local weak = { __mode = "v" }

---@class celer.closure
---@field key string
---@field functions function[]  itself, then what it calls; held weakly
---@field cells table[]  what it captured; `also`: where else
---@field numbers table[]  those that are whole numbers
---@field fields {owner: table, name: any, value: any}[]  that it takes of libraries
---@field volatile string?  why it may change unseen

--- Reads a function and the functions that it captured. The result does not
--- keep them alive.
---@param f function
---@return celer.closure
function M.read(f)
  local self = { functions = setmetatable({}, weak), count = 0, cells = {}, numbers = {},
    fields = {}, parts = {}, seen = {}, ids = {} }
  visit(self, f)
  self.key = table.concat(self.parts, "\1")
  self.parts, self.seen, self.ids = nil, nil, nil
  return self
end

--- What a cell holds now.
function M.get(self, cell)
  local _, value = getupvalue(self.functions[cell.at], cell.i)
  return value
end

function M.set(self, cell, value)
  setupvalue(self.functions[cell.at], cell.i, value)
end

--- Whether the closure still is what was read, up to its whole numbers.
function M.is_fresh(self)
  local functions, cells = self.functions, self.cells
  for _, field in ipairs(self.fields) do
    if not rawequal(rawget(field.owner, field.name), field.value) then return false end
  end
  for k = 1, #cells do
    local cell = cells[k]
    local f = functions[cell.at]
    if not f then return false end
    local _, value = getupvalue(f, cell.i)
    if cell.number then
      if not M.is_whole(value) then return false end
    elseif cell.callee then
      if value ~= functions[cell.callee] then return false end
    elseif cell.box then
      if not rawequal(value, cell.value) or box_key(value) ~= cell.box then return false end
    elseif not rawequal(value, cell.value) then
      return false
    end
  end
  return true
end

return M
