--- reads.lua -- what a command group's function reads of what may change.
---
--- prepared.lua and recalled.lua do not run a function again while all that it reads is what
--- it was. That is sound if all reads are known before the function runs:
---
--- 1. Variables that the function captured, and functions among them: all are compared,
---    also those that are only tested. Arguments are not read: the function runs with tokens
---    in their place (prepared.lua), which raise where anything but their being there counts.
---    So do variables of its own that take the place of arguments (recalled.lua).
--- 2. Fields. The function reads them by constant names, out of tables that it captured,
---    out of fields of these, or out of tables that it made itself. Each such field is
---    compared: of celer and math, too, as a user may replace their functions. A table
---    that is used as a whole has up to three numbers, which are compared; buffers,
---    kernels, weights and placements are compared as objects.
--- 3. It calls methods of the command group, functions of celer and math that are pure,
---    and functions of the user that are like itself. So neither an argument nor a table
---    reaches code that could look into it unseen.
--- 4. It changes no variable, and no table but those that it made.
---
--- celer calls range mappers, and functions in hints, with arguments of its own. They may
--- look into these and call their methods. But of tables that they captured they may use
--- fields of celer and math alone.
---
--- Values are compared as objects, numbers also by the sign of a zero; a collected object is
--- equal to nothing. So the function would take the same course, and come to the same.
---
--- Whatever else a function does, it is refused, and run each time.
local buffers = require "celer.data.buffer"
local closure = require "celer.mapper.closure"
local codes = require "celer.mapper.code"
local functions = require "celer.kernel.from_lua.function"
local kernels = require "celer.kernel.kernel"
local placements = require "celer.submit.placement"
local straight = require "celer.mapper.straight"
local weighing = require "celer.submit.weights"

local M = {}

local LONGEST = 3 -- numbers of a table that may be captured, such as a range
local op, decode, sources = codes.op, codes.decode, codes.sources

M.Refusal = {}

--- Raises that a function cannot be prepared.
---@param reason string
function M.refuse(reason) error(setmetatable({ reason = reason }, M.Refusal), 0) end
local refuse = M.refuse

-- Raises unless a function, and those that are written in it, do what can be followed.
local function check_code(code)
  if not codes.each_instruction(code, straight.declares) then
    refuse "it does more than to declare: it reads globals, looks something up or loops"
  end
  for _, inner in ipairs(codes.inner(code)) do check_code(inner) end
end

-- ---- what is captured ------------------------------------------------------------

local is_mine -- of our makers of range mappers
do
  local source = debug.getinfo(require("celer.mapper.builtin").fixed, "S").source
  function is_mine(f) return debug.getinfo(f, "S").source == source end
end

-- Functions of celer that are pure, besides those that closure.lua knows.
local pure = { [placements.at] = true, [placements.where] = true,
  [require("celer.run.ranks").ranks] = true }
-- Those that tell values apart: not for tokens, but for what celer gives to mappers.
local telling = { [rawequal] = true, [type] = true, [select] = true, [tonumber] = true,
  [unpack] = true }

-- Whether a function gives the same for the same, and looks into boxes and numbers alone.
local function is_pure(f)
  local name = closure.known(f)
  return pure[f] or name and (name:find "^celer" or name:find "^math" or name:find "^bit") ~= nil
    or is_mine(f)
end

local function is_module(value) return value == math or value == package.loaded.celer end

---@class celer.read
---@field owner function|table
---@field key any  the number of a function's variable, or the name of a field
---@field value any
---@field way "variable"|"field"|"inherited"|"keys"  inherited: by the metatable; keys: the
--- table has no metatable, and `value` keys

---@class celer.reads
---@field [integer] celer.read
local Reads = {}
Reads.__index = Reads

function Reads:note(owner, key, value, way)
  self[#self + 1] = { owner = owner, key = key, value = value, way = way }
end

-- A table that is used as a whole.
function Reads:table(name, value)
  if is_module(value) or buffers.is_buffer(value) or kernels.is_kernel(value)
    or kernels.is_collection(value) or functions.is_kernel(value) or weighing.is_weights(value)
    or placements.is_placement(value) then return end
  local n, count = #value, 0
  for key, number in next, value do
    count = count + 1
    if type(key) ~= "number" or type(number) ~= "number" then count = math.huge end
  end
  if getmetatable(value) or count ~= n or n > LONGEST then
    refuse(("it captures the table '%s', which may change inside"):format(name))
  end
  if self.seen[value] then return end
  self.seen[value] = true
  for i = 1, n do self:note(value, i, value[i], "field") end
  self:note(value, nil, n, "keys")
end

-- A function: its variables.
function Reads:captured(f)
  if self.seen[f] or closure.known(f) or is_pure(f) then return end
  self.seen[f] = true
  local info = debug.getinfo(f, "S")
  if info.what == "C" then refuse "it captures a function in C" end
  if info.source:find "^=celer/" then refuse "it may use celer for more than to declare" end
  check_code(f)
  for i = 1, 255 do
    local name, value = debug.getupvalue(f, i)
    if not name then return end
    if not (f == self.f and self.given[i]) then
      self:note(f, i, value, "variable")
      self:value(name, value)
    end
  end
end

function Reads:value(name, value)
  local kind = type(value)
  if kind == "function" then
    self:captured(value)
  elseif kind == "table" then
    self:table(name, value)
  elseif kind == "cdata" or kind == "userdata" or kind == "thread" then
    refuse(("it captures '%s', which may change inside"):format(name))
  end
end

-- A field; what it holds now. `in_passing`: only to look into that.
function Reads:field(owner, key, in_passing)
  local value, noted = owner[key], self.fields[owner] or {}
  self.fields[owner] = noted
  if not noted[key] then
    self:note(owner, key, value, rawget(owner, key) == nil and "inherited" or "field")
  end
  noted[key] = true
  if not (in_passing and type(value) == "table") then self:value(tostring(key), value) end
  return value
end

-- ---- what runs --------------------------------------------------------------------

-- A *kind* says what a register holds: `read`, the `value` of a variable or a field; `own`, a
-- table made here; `code`, a function made here; `method`, one of the command group's. `at`:
-- since which instruction. Without a kind it may hold anything.

local looks = {} -- by operation, what it leaves in its register

-- Whether it can be neither looked into nor called: code that does so is not reached while
-- what is read is the same.
local plain = { ["nil"] = true, boolean = true, number = true }
local function is_plain(kind) return kind.read and plain[type(kind.value)] end

looks[op.UGET] = function(self, body, one)
  if type(body.code) ~= "function" then return nil end
  if body.code == self.f and self.given[one.d + 1] then return nil end
  local _, value = debug.getupvalue(body.code, one.d + 1)
  return { read = true, value = value }
end

looks[op.TGETS] = function(self, body, one, at)
  if one.b == body.group then return { method = true } end
  local base = body.kinds[one.b] or {}
  if base.own or is_plain(base) then return nil end
  if type(base.value) ~= "table" then
    refuse "it looks into something that is not a captured table: an argument, or a result"
  end
  local value = self:field(base.value, codes.key_of(body.code, one),
    codes.is_looked_into(body.list, body.from, at))
  return { read = true, value = value }
end
looks[op.TGETB] = looks[op.TGETS]

looks[op.TNEW] = function() return { own = true } end
looks[op.TDUP] = looks[op.TNEW]
looks[op.FNEW] = function(_, body, one) return { code = codes.constant_of(body.code, one) } end

looks[op.MOV] = function(_, body, one)
  local kind, out = body.kinds[one.d], {}
  if one.d == body.group then return nil end
  for key, value in pairs(kind or out) do out[key] = value end
  return kind and out
end

local function check_own(kind)
  if not (kind and kind.own) then refuse "it changes a table that it did not make" end
end

looks[op.TSETS] = function(_, body, one) check_own(body.kinds[one.b]) end
looks[op.TSETB] = looks[op.TSETS]
looks[op.TSETM] = function(_, body, one) check_own(body.kinds[one.a - 1]) end

local function call(self, body, one)
  local callee = body.kinds[one.a] or {}
  local code = callee.code or callee.value
  if callee.method or is_plain(callee) or type(code) == "function" and is_pure(code) then return end
  if type(code) ~= "proto" and type(code) ~= "function" or closure.known(code) then
    refuse "it calls something that may look elsewhere"
  end
  self:body(code)
end
for _, name in ipairs { "CALL", "CALLT", "CALLM", "CALLMT" } do looks[op[name]] = call end

-- The register that holds the command group, as long as nothing is put there.
local function group_in(list)
  for _, one in ipairs(list) do
    if one.a == 0 and (one.writes or one.writes_from) then return nil end
  end
  return 0
end

-- Forgets what may not be so where an instruction is jumped to from `since` on.
local function forget(kinds, since)
  for register, kind in pairs(kinds) do
    if kind.at >= since then kinds[register] = nil end
  end
end

--- Follows a function that runs when the group is submitted; or what jit.util calls a proto.
---@param code function|userdata
---@param is_group? boolean  its first argument is the command group
function Reads:body(code, is_group)
  if self.bodies[code] then return end
  self.bodies[code] = true
  local list = decode(code)
  local body = { code = code, list = list, from = sources(list), kinds = {},
    group = is_group and group_in(list) or nil }
  local kinds = body.kinds
  for at, one in ipairs(list) do
    if body.from[at] then forget(kinds, body.from[at]) end
    local kind = looks[one.op] and looks[one.op](self, body, one, at)
    if one.writes then
      if kind then kind.at = at end
      kinds[one.a] = kind
    elseif one.writes_from then
      for register in pairs(kinds) do
        if register >= one.a then kinds[register] = nil end
      end
    end
  end
end

-- A field of a module that a callback looks up.
function Reads:module_field(f, list, from, at, module)
  local next_one = list[at + 1]
  if next_one.op ~= op.TGETS or not codes.is_looked_into(list, from, at) then
    refuse "it uses celer or math otherwise than by their fields"
  end
  local value = self:field(module, codes.key_of(f, next_one))
  if type(value) == "table" then refuse "a mapper looks into a table" end
  if type(value) == "function" then self:callback(value) end
end

--- Follows a function that celer calls: a range mapper, or one in a hint.
---@param f function
function Reads:callback(f)
  if self.callbacks[f] or telling[f] or is_pure(f) then return end
  self.callbacks[f] = true
  if closure.known(f) or debug.getinfo(f, "S").what == "C" then
    refuse "a mapper calls something that may look elsewhere"
  end
  check_code(f)
  local list = decode(f)
  local from = sources(list)
  for at, one in ipairs(list) do
    if one.op == op.FNEW then refuse "a function in a mapper" end
    if one.op == op.UGET then
      local name, value = debug.getupvalue(f, one.d + 1)
      if type(value) == "function" then
        self:callback(value)
      elseif is_module(value) then
        self:module_field(f, list, from, at, value)
      elseif type(value) == "table" or type(value) == "cdata" then
        refuse(("a mapper captures '%s', which may change inside"):format(name))
      end
    end
  end
end

--- All that a command group's function reads; raises where that cannot be told. Callbacks
--- are followed by themselves, when they are there.
---@param f function
---@param given table<integer, boolean>  numbers of its variables that are like arguments
---@return celer.reads
function M.of(f, given)
  local self = setmetatable({ f = f, given = given, seen = {}, fields = {}, bodies = {},
    callbacks = {} }, Reads)
  self:captured(f)
  self:body(f, true)
  return self
end

return M
