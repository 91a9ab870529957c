--- prepared.lua -- command groups that are submitted again with other arguments.
---
--- q:group(f) gives a function that does what q:submit(function(cg) f(cg, ...) end) does.
--- Where that cannot make a difference f is not run again: celer then submits what it
--- came to, with the buffers and numbers of now. So f must be code of which is known that
--- it only declares: a kernel, accesses, hints and a name, by what it captured and by its
--- arguments. It may capture what does not change inside, and whatever it captured is
--- compared at each call; a few sets of that are remembered.
---
--- Where an argument goes is found by running f once more, with *tokens* for arguments:
--- they can be accessed and passed to the kernel, and refuse all else.
local ffi = require "ffi"
local util = require "jit.util"
local balance = require "celer.submit.balance"
local buffers = require "celer.data.buffer"
local closure = require "celer.mapper.closure"
local core = require "celer.core"
local groups = require "celer.submit.group"
local kernels = require "celer.kernel.kernel"
local place = require "celer.place"
local placements = require "celer.submit.placement"
local settings = require "celer.settings"
local straight = require "celer.mapper.straight"
local structs = require "celer.structs"
local weighing = require "celer.submit.weights"

local M = {}

local MOST = 4 -- sets of captured values that are remembered for one group
local TRIES = 32 -- how often one group is prepared, in all
local LONGEST = 3 -- numbers of a table that may be captured, such as a range
local MOST_CAPTURED = 44 -- variables, and elements of tables; LuaJIT has 60 for a function
local HANDLE = core.facts.hidden.handle
local NOT, DONE = ffi.C.CEL_PREPARED_NOT, ffi.C.CEL_PREPARED_DONE

-- ---- tokens ------------------------------------------------------------------

local Refusal = {}

local function refuse(reason) error(setmetatable({ reason = reason }, Refusal), 0) end

local function refuses()
  refuse "it computes with an argument, or looks into it"
end

local token_t = ffi.metatype("struct { int32_t celer_argument; }", {
  __add = refuses, __sub = refuses, __mul = refuses, __div = refuses, __mod = refuses,
  __unm = refuses, __pow = refuses, __eq = refuses, __lt = refuses, __le = refuses,
  __concat = refuses, __tostring = refuses, __len = refuses, __call = refuses,
  __index = refuses, __newindex = refuses,
})

-- Which argument a token stands for; nil for what is none.
local function argument_of(x)
  return type(x) == "cdata" and ffi.istype(token_t, x) and x.celer_argument or nil
end

-- ---- the run with tokens -----------------------------------------------------

-- What f does is put down in order; an access is known by its entry.
---@class celer.recorded
---@field declared table[]  {call, buffer, ...}
---@field more table[]  {call, what}: hints and name
---@field range? any
---@field kernel? celer.kernel
---@field n? integer  arguments of the kernel
---@field given? any[]
---@field file? string
---@field line? integer
local Recorded = {}

local Entry = { __index = refuses, __newindex = refuses, __call = refuses }

local methods = {}

-- Raises for a table with an argument in it, or an argument.
local function refuse_inside(what, text)
  if argument_of(what) then refuse(text) end
  if type(what) ~= "table" then return end
  for _, value in pairs(what) do
    if argument_of(value) then refuse(text) end
  end
end

for _, call in ipairs { "read", "write", "discard_write", "read_write" } do
  methods[call] = function(self, buffer, map, options)
    refuse_inside(map, "a range mapper is an argument")
    refuse_inside(options, "an option is an argument")
    local entry = setmetatable({ call, buffer, map, options }, Entry)
    self.declared[#self.declared + 1] = entry
    return entry
  end
end

for _, call in ipairs { "hint", "name" } do
  methods[call] = function(self, what)
    refuse_inside(what, "a hint or its name is an argument")
    self.more[#self.more + 1] = { call, what }
  end
end

function methods:parallel_for(range, kernel, ...)
  if argument_of(kernel) then refuse "its kernel is an argument" end
  self.range, self.kernel, self.n, self.given = range, kernel, select("#", ...), { ... }
  self.file, self.line = place.user()
end

function Recorded.__index(_, name)
  return methods[name] or refuse("it calls cg:" .. tostring(name))
end

-- What f does with n arguments; raises.
local function record(f, n)
  local self = setmetatable({ declared = {}, more = {}, range = false, kernel = false, n = 0,
    given = false, file = false, line = 0 }, Recorded)
  local tokens = {}
  for i = 1, n do tokens[i] = token_t(i) end
  f(self, unpack(tokens, 1, n))
  local info = debug.getinfo(f, "S")
  if not self.kernel then refuse "it has no kernel" end
  if self.line < info.linedefined or self.line > info.lastlinedefined then
    refuse "its kernel is submitted from elsewhere: do not write `return cg:parallel_for(...)`"
  end
  return self
end

-- ---- what f consists of ------------------------------------------------------

-- What a function may use of celer: these give the same whenever they are called.
local pure = {}
for name in ([[box floor ceil min max one_to_one all fixed slice neighborhood transposed even_split
once on_master at where ranks]]):gmatch "%S+" do pure[name] = true end
local impure = { random = true, randomseed = true }
for name in pairs(getmetatable(require "celer").__names) do impure[name] = not pure[name] or nil end

local is_known = straight.declares
local UGET, TGETS = straight.UGET, straight.TGETS

-- Functions that are written in this one, and what they are written in.
local function check_inner(code)
  for k = 1, math.huge do
    local constant = util.funck(code, -k)
    if constant == nil then return end
    if type(constant) == "proto" then
      if not straight.each_instruction(constant, is_known) then
        refuse "a function in it is more than a formula"
      end
      for j = 1, math.huge do
        local name = util.funck(constant, -j)
        if name == nil then break end
        if impure[name] then refuse("it may use celer." .. name) end
      end
      check_inner(constant)
    end
  end
end

-- Of a module that it captured as variable i it may only take fields that are pure.
local function check_fields(f, i)
  local dst
  straight.each_instruction(f, function(op, word)
    local a, b, c = bit.band(bit.rshift(word, 8), 0xff), bit.rshift(word, 24),
      bit.band(bit.rshift(word, 16), 0xff)
    if dst then
      local name = op == TGETS and b == dst and util.funck(f, -c - 1)
      if not name or impure[name] then refuse("it may use celer." .. tostring(name)) end
    end
    dst = op == UGET and bit.rshift(word, 16) == i - 1 and a or nil
    return true
  end)
end

local is_mine -- of our makers of range mappers
do
  local source = debug.getinfo(require("celer.mapper.builtin").fixed, "S").source
  function is_mine(f)
    local info = debug.getinfo(f, "S")
    return info.source == source
  end
end

local captured_of

local function capture_table(f, i, name, value, out, seen)
  if value == math or value == package.loaded.celer then return check_fields(f, i) end
  if buffers.is_buffer(value) or kernels.is_kernel(value) or kernels.is_collection(value)
    or weighing.is_weights(value) or placements.is_placement(value) then return end
  if getmetatable(value) or #value > LONGEST then
    refuse(("it captures the table '%s', which may change inside"):format(name))
  end
  for key, number in pairs(value) do
    if type(key) ~= "number" or type(number) ~= "number" then
      refuse(("it captures the table '%s', which may change inside"):format(name))
    end
  end
  if seen[value] then return end
  seen[value] = true
  for k = 1, #value + 1 do
    out[out.n + 1], out[out.n + 2], out[out.n + 3], out.n = value, k, value[k], out.n + 3
  end
end

-- Adds function or table, index and value of all that f and what it captured may see, to a
-- flat list; raises where that may change unseen.
function captured_of(f, out, seen)
  if seen[f] or closure.known(f) or is_mine(f) then return end
  seen[f] = true
  if debug.getinfo(f, "S").what == "C" then refuse "it captures a function in C" end
  if not straight.each_instruction(f, is_known) then
    refuse "it does more than to declare: it reads globals, looks something up or loops"
  end
  check_inner(f)
  for i = 1, 255 do
    local name, value = debug.getupvalue(f, i)
    if not name then return end
    out[out.n + 1], out[out.n + 2], out[out.n + 3], out.n = f, i, value, out.n + 3
    local kind = type(value)
    if kind == "function" then
      captured_of(value, out, seen)
    elseif kind == "table" then
      capture_table(f, i, name, value, out, seen)
    elseif kind == "cdata" or kind == "userdata" or kind == "thread" then
      refuse(("it captures '%s', which may change inside"):format(name))
    end
  end
end

-- ---- preparing ---------------------------------------------------------------

-- A group that was not submitted, as f would have filled it for these arguments; the
-- kernel's arguments; where they come from.
local function build(recorded, hints, arguments)
  local group, access, how = groups.new(hints), {}, { buffers = {}, handles = {}, values = {} }
  local function now(x) return arguments[argument_of(x)] or x end
  for _, entry in ipairs(recorded.declared) do
    access[entry] = group[rawget(entry, 1)](group, now(rawget(entry, 2)), rawget(entry, 3),
      rawget(entry, 4))
  end
  for _, entry in ipairs(recorded.more) do group[entry[1]](group, entry[2]) end
  local given = {}
  for i = 1, recorded.n do
    local x = recorded.given[i]
    local at = argument_of(x)
    if access[x] then
      given[i] = access[x]
      how.buffers[#how.buffers + 1] = argument_of(rawget(x, 2)) or 0
      how.handles[#how.handles + 1] = rawget(access[x], HANDLE)
    else
      given[i] = at and arguments[at] or x
      how.values[#how.values + 1] = at or 0
    end
  end
  return group, given, how
end

-- ---- the call ------------------------------------------------------------------

-- Whether a table is plain and has so many keys.
local function has_keys(t, n)
  if getmetatable(t) then return false end
  local found = 0
  for _ in next, t do
    found = found + 1
    if found > n then return false end
  end
  return found == n
end

local weak = { __mode = "v" }

-- The text of a function under way, and what it holds: `kept` by itself, `seen` weakly.
---@class celer.prepared_text
local Text = {}
Text.__index = Text

function Text:add(line, ...) self[#self + 1] = line:format(...) end

function Text:see(value)
  self.seen[#self.seen + 1] = value
  return "seen[" .. #self.seen .. "]"
end

-- What a value is compared with, which is in `text`.
function Text:differs(text, value)
  local kind = type(value)
  if kind == "nil" then return text .. " ~= nil" end
  if kind == "table" or kind == "function" then -- collected, it is nil
    return ("%s == nil or not rawequal(%s, %s)"):format(text, text, self:see(value))
  end
  self.kept[#self.kept + 1] = value
  return ("not rawequal(%s, kept[%d])"):format(text, #self.kept)
end

-- Leaves where variable i of a function, or element i of a table, is not what it was. Those
-- of f are its own variables, as `variable_i`.
function Text:compare(f, owner, i, value)
  if owner == f then
    self.variables[#self.variables + 1] = i
    self:add("if %s then return NOT end", self:differs("variable_" .. i, value))
    return
  end
  self:add("do local owner = %s", self:see(owner))
  if type(owner) == "function" then
    self:add("if owner == nil then return NOT end local _, now = getupvalue(owner, %d)", i)
  else
    self:add("if owner == nil%s then return NOT end local now = rawget(owner, %d)",
      value == nil and (" or not has_keys(owner, %d)"):format(i - 1) or "", i)
  end
  self:add("if %s then return NOT end end", self:differs("now", value))
end

-- Leaves where arguments are not as many buffers and numbers as they were: others may have
-- let the function take another course. Puts them where the core looks.
function Text:arguments(how)
  local names = {}
  for i = 1, how.arguments do names[i] = "argument_" .. i end
  if #names > 0 then self:add("local %s = ...", table.concat(names, ", ")) end
  self:add("if select('#', ...) ~= %d then return NOT end", #names)
  for i, at in ipairs(how.buffers) do
    if at == 0 then
      self:add("do local handle = %s", self:see(how.handles[i]))
      self:add("if handle == nil then return NOT end given.buffer[%d] = handle end", i - 1)
    else
      self:add("if getmetatable(%s) ~= Buffer then return NOT end", names[at])
      self:add("given.buffer[%d] = %s.handle", i - 1, names[at])
    end
  end
  for i, at in ipairs(how.values) do
    if at > 0 then
      self:add("if type(%s) ~= 'number' then return NOT end", names[at])
      self:add("given.value[%d] = %s", i - 1, names[at])
    end
  end
end

local HEAD = [[
local made, given, seen, kept, has_keys, Buffer, submit, NOT = ...
local getmetatable, getupvalue, rawequal, rawget = getmetatable, debug.getupvalue, rawequal, rawget
local select, type = select, type
]]

-- A function that submits it by the arguments of f, as cel_prepared_submit does: where f
-- captured the same. LuaJIT compiles it, and reads f's variables as its own.
local function caller(f, how, made)
  local text = setmetatable({ seen = setmetatable({}, weak), kept = {}, variables = {} }, Text)
  local captured = how.captured
  for i = 1, captured.n, 3 do
    text:compare(f, captured[i], captured[i + 1], captured[i + 2])
  end
  text:arguments(how)
  local names = {}
  for i, at in ipairs(text.variables) do names[i] = "variable_" .. at end
  local source = ("%s%sreturn function(...)\n%s\nreturn submit(made)\nend"):format(HEAD,
    #names > 0 and "local " .. table.concat(names, ", ") .. "\n" or "", table.concat(text, "\n"))
  local call = assert(loadstring(source, "=celer/submit/prepared.lua"))(made,
    structs.prepared(made), text.seen, text.kept, has_keys, buffers.Buffer,
    ffi.C.cel_prepared_submit, NOT)
  for i = 1, 255 do
    local name = debug.getupvalue(call, i)
    if not name then return call end
    local at = name:match "^variable_(%d+)$"
    if at then debug.upvaluejoin(call, i, f, tonumber(at)) end
  end
end

local function prepare(f, hints, arguments)
  local captured = { n = 0 }
  captured_of(f, captured, {})
  if captured.n > 3 * MOST_CAPTURED then refuse "it captures too much" end
  local recorded = record(f, arguments.n)
  local group, given, how = build(recorded, hints, arguments)
  how.captured, how.arguments = captured, arguments.n
  how.file, how.line = recorded.file, recorded.line
  group.prepared = how
  local made = groups.prepare(group, recorded.range, recorded.kernel,
    unpack(given, 1, recorded.n))
  if made == nil then
    refuse "its kernel, range or mappers are none that celer submits the short way"
  end
  return made and { call = caller(f, how, made), made = made }
end

---@class celer.prepared
---@field f function
---@field sets {call: function, made: userdata}[]  the newest first
---@field tries integer
---@field hints table|false  and weights: those for which they hold
---@field weights celer.weights?
---@field file string?  and line: where it was made

---@param f fun(cg: celer.command_group, ...)
---@return celer.prepared
function M.new(f)
  local file, line = place.user()
  return { f = f, sets = {}, tries = 0, hints = false, weights = nil, file = file, line = line }
end

--- Submits it by what it came to before; false where it has to be run.
---@param self celer.prepared
---@param hints table|false  of the queue
---@param ... any
---@return boolean
function M.submit(self, hints, ...)
  if settings.looks or self.hints ~= hints or self.weights ~= balance.weights then return false end
  local sets = self.sets
  for i = 1, #sets do
    local came_to = sets[i].call(...)
    if came_to == DONE then return true end
    if came_to ~= NOT then
      place.check(core.finish_prepared(sets[i].made, came_to))
      return true
    end
  end
  return false
end

-- Tells once why it is run at each call.
local function tell(self, reason)
  self.tries = TRIES
  core.advise(("q:group: the function is run at each call, as by q:submit: %s"):format(reason),
    self.file, self.line)
end

--- Prepares it, after it has been run with these arguments.
---@param self celer.prepared
---@param hints table|false
---@param arguments table  with `n`
function M.note(self, hints, arguments)
  if self.tries >= TRIES or settings.looks then return end
  self.tries = self.tries + 1
  for i = 1, arguments.n do
    local x = arguments[i]
    if type(x) ~= "number" and not buffers.is_buffer(x) then
      return tell(self, "its arguments are not only buffers and numbers")
    end
  end
  local ok, made = pcall(prepare, self.f, hints, arguments)
  if not ok then
    if getmetatable(made) ~= Refusal then made = { reason = tostring(made) } end
    return tell(self, made.reason)
  elseif not made then
    self.tries = TRIES -- places have their callers, for `celer profile`
    return
  end
  if self.hints ~= hints or self.weights ~= balance.weights then self.sets = {} end
  self.hints, self.weights = hints, balance.weights
  table.insert(self.sets, 1, made)
  self.sets[MOST + 1] = nil
end

return M
