--- prepared.lua -- command groups that are submitted again with other arguments.
---
--- q:group(f) gives a function that does what q:submit(function(cg) f(cg, ...) end) does.
--- Where that cannot make a difference f is not run again: celer then submits what it
--- came to, with the buffers and numbers of now. So f must be code of which is known that
--- it only declares: a kernel, accesses, hints and a name, by what it reads and by its
--- arguments. reads.lua finds all that it reads, which is compared at each call; a few sets
--- of that are remembered.
---
--- Where an argument goes is found by running f once more, with *tokens* for arguments:
--- they can be accessed and passed to the kernel, and refuse all else. Only whether there is
--- one can be asked. So each argument has to be a number, or a buffer, as it was before.
local ffi = require "ffi"
local again = require "celer.submit.again"
local balance = require "celer.submit.balance"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local functions = require "celer.kernel.from_lua.function"
local groups = require "celer.submit.group"
local kept_groups = require "celer.submit.kept"
local lists = require "celer.data.list"
local place = require "celer.place"
local reads = require "celer.submit.reads"
local settings = require "celer.settings"
local structs = require "celer.structs"
local trace = require "celer.mapper.trace"

local M = {}

local MOST = 4 -- sets of captured values that are remembered for one group
local TRIES = 32 -- how often one group is prepared, in all
local MOST_READS = 44 -- variables and fields; LuaJIT has 60 variables for a function
local HANDLE = core.facts.hidden.handle
local NOT = ffi.C.CEL_PREPARED_NOT

-- ---- tokens ------------------------------------------------------------------

local refuse = reads.refuse

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

-- What f does is put down in order; an access is known by its entry. Nobody but its methods
-- can look into it.
---@class celer.recorded
---@field declared table[]  {call, buffer, ...}
---@field more table[]  {call, what}: hints and name
---@field range? any
---@field kernel? celer.kernel
---@field n? integer  arguments of the kernel
---@field given? any[]
---@field file? string
---@field line? integer
local Recorded, INSIDE = {}, {}

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
    local declared = rawget(self, INSIDE).declared
    declared[#declared + 1] = entry
    return entry
  end
end

for _, call in ipairs { "hint", "name" } do
  methods[call] = function(self, what)
    refuse_inside(what, "a hint or its name is an argument")
    local more = rawget(self, INSIDE).more
    more[#more + 1] = { call, what }
  end
end

function methods:parallel_for(range, kernel, ...)
  if argument_of(kernel) then refuse "its kernel is an argument" end
  if lists.is_list(range) then refuse "its range is a list, which may grow" end
  local inside = rawget(self, INSIDE)
  inside.range, inside.kernel, inside.n, inside.given = range, kernel, select("#", ...), { ... }
  inside.file, inside.line = place.user()
end

function Recorded.__index(_, name)
  return methods[name] or refuse("it calls cg:" .. tostring(name))
end

function Recorded.__newindex() refuse "it sets a field of its command group" end

-- What f does with these arguments behind cg; raises.
local function record(f, ...)
  local self = { declared = {}, more = {}, range = false, kernel = false, n = 0,
    given = false, file = false, line = 0 }
  f(setmetatable({ [INSIDE] = self }, Recorded), ...)
  local info = debug.getinfo(f, "S")
  if not self.kernel then refuse "it has no kernel" end
  if self.line < info.linedefined or self.line > info.lastlinedefined then
    refuse "its kernel is submitted from elsewhere: do not write `return cg:parallel_for(...)`"
  end
  return self
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

function Text:keep(value)
  self.kept[#self.kept + 1] = value
  return "kept[" .. #self.kept .. "]"
end

-- What a value is compared with, which is in `text`.
function Text:differs(text, value)
  local kind, kept = type(value), self.kept
  if kind == "nil" then return text .. " ~= nil" end
  if kind == "table" or kind == "function" then -- collected, it is nil
    return ("%s == nil or not rawequal(%s, %s)"):format(text, text, self:see(value))
  end
  if value == 0 then -- which has a sign
    kept[#kept + 1] = 1 / value
    return ("type(%s) ~= 'number' or %s ~= 0 or 1 / %s ~= kept[%d]"):format(text, text, text,
      #kept)
  end
  kept[#kept + 1] = value
  return ("not rawequal(%s, kept[%d])"):format(text, #kept)
end

-- How what is read is found again, of its owner.
local finds = {
  variable = "local _, now = getupvalue(owner, %s)",
  field = "local now = rawget(owner, %s)",
  inherited = "if rawget(owner, %s) ~= nil then return NOT end local now = owner[%s]",
}

-- Leaves where what f read is not what it was. Its own variables are `variable_i`.
function Text:compare(f, read)
  local key = read.key
  if read.owner == f then
    self.variables[#self.variables + 1] = key
    self:add("if %s then return NOT end", self:differs("variable_" .. key, read.value))
    return
  end
  self:add("do local owner = %s if owner == nil then return NOT end", self:see(read.owner))
  if read.way == "keys" then
    self:add("if not has_keys(owner, %d) then return NOT end end", read.value)
    return
  end
  local name = (type(key) == "number" and "%d" or "%q"):format(key)
  self[#self + 1] = finds[read.way]:gsub("%%s", function() return name end)
  self:add("if %s then return NOT end end", self:differs("now", read.value))
end

-- Leaves where arguments are not as many buffers and numbers as they were: others may have
-- let the function take another course, also where it only looks whether they are there. Puts
-- them where the core looks.
function Text:arguments(how)
  local names = {}
  for i = 1, #how.kinds do names[i] = "argument_" .. i end
  if #names > 0 then self:add("local %s = ...", table.concat(names, ", ")) end
  self:add("if select('#', ...) ~= %d then return NOT end", #names)
  for i, kind in ipairs(how.kinds) do
    self:add(kind == "buffer" and "if getmetatable(%s) ~= Buffer then return NOT end"
      or "if type(%s) ~= 'number' then return NOT end", names[i])
  end
  for i, at in ipairs(how.buffers) do
    if at == 0 then
      self:add("do local handle = %s", self:see(how.handles[i]))
      self:add("if handle == nil then return NOT end given.buffer[%d] = handle end", i - 1)
    else
      self:add("given.buffer[%d] = %s.handle", i - 1, names[at])
    end
  end
  for i, at in ipairs(how.values) do
    if at > 0 then self:add("given.value[%d] = %s", i - 1, names[at]) end
  end
end

-- Goes on by the road of a kernel written in Lua, with the arguments of that.
function Text:go_on(how)
  local names = { self:keep(how.range) }
  for i, x in ipairs(how.passed) do
    names[i + 1] = how.from[i] > 0 and "argument_" .. how.from[i]
      or type(x) == "table" and self:see(x) or self:keep(x)
  end
  self:add("return road(%s)", table.concat(names, ", "))
end

local HEAD = [[
local made, given, seen, kept, has_keys, Buffer, submit, NOT, road = ...
local getmetatable, getupvalue, rawequal, rawget = getmetatable, debug.getupvalue, rawequal, rawget
local select, type = select, type
]]

-- A function that submits it by the arguments of f, as cel_prepared_submit does: where f
-- reads the same. LuaJIT compiles it, and reads f's variables as its own.
local function caller(f, how, made)
  local text = setmetatable({ seen = setmetatable({}, weak), kept = {}, variables = {} }, Text)
  for _, read in ipairs(how.reads) do text:compare(f, read) end
  text:arguments(how)
  if how.road then text:go_on(how) else text:add "return submit(made)" end
  local names = {}
  for i, at in ipairs(text.variables) do names[i] = "variable_" .. at end
  local source = ("%s%sreturn function(...)\n%s\nend"):format(HEAD,
    #names > 0 and "local " .. table.concat(names, ", ") .. "\n" or "", table.concat(text, "\n"))
  local call = assert(loadstring(source, "=celer/submit/prepared.lua"))(made,
    structs.prepared(made), text.seen, text.kept, has_keys, buffers.Buffer,
    ffi.C.cel_prepared_submit, NOT, how.road)
  for i = 1, 255 do
    local name = debug.getupvalue(call, i)
    if not name then return call end
    local at = name:match "^variable_(%d+)$"
    if at then debug.upvaluejoin(call, i, f, tonumber(at)) end
  end
end

-- Adds what the callbacks read: what celer calls of what f gave to it.
local function follow_callbacks(read, recorded)
  local function follow(what)
    if type(what) == "function" then return read:callback(what) end
    for _, value in next, type(what) == "table" and what or {} do
      if type(value) == "function" then read:callback(value) end
    end
  end
  for _, entry in ipairs(recorded.declared) do
    follow(rawget(entry, 3))
    follow(rawget(entry, 4))
  end
  for _, entry in ipairs(recorded.more) do follow(entry[2]) end
end

local function kinds_of(arguments)
  local kinds = {}
  for i = 1, arguments.n do
    kinds[i] = buffers.is_buffer(arguments[i]) and "buffer" or "number"
  end
  return kinds
end

local function refuse_long_way()
  refuse "its kernel, range or mappers are none that celer submits the short way"
end

-- A kernel written in Lua: by a road, which compares what the kernel captured. It takes
-- buffers in the place of accesses.
local function by_road(how, recorded, group, passed)
  local road = again.road(recorded.kernel, group, how, recorded.range, unpack(passed, 1,
    recorded.n))
  if road == nil then refuse_long_way() end
  how.made = false
  if not road then return how end
  how.made, how.road, how.range = road.made, road.call, recorded.range
  how.buffers, how.values, how.from, how.passed = {}, {}, {}, passed
  for i = 1, recorded.n do
    local x = recorded.given[i]
    local is_access = getmetatable(x) == Entry
    how.from[i] = argument_of(is_access and rawget(x, 2) or x) or 0
    passed[i] = is_access and passed[i].buffer or passed[i]
  end
  return how
end

-- What f comes to: what the core submits, with all that is known of it. `given` has the
-- numbers of variables that are arguments; ... are tokens, where f takes arguments.
local function come_to(f, hints, arguments, given, ...)
  local read = reads.of(f, given)
  local recorded = record(f, ...)
  follow_callbacks(read, recorded)
  read:field(recorded.kernel, "name")
  if #read > MOST_READS then refuse "it reads too much" end
  local group, passed, how = build(recorded, hints, arguments)
  how.reads, how.kinds = read, kinds_of(arguments)
  how.file, how.line = recorded.file, recorded.line
  if functions.is_kernel(recorded.kernel) then return by_road(how, recorded, group, passed) end
  local made = groups.prepare(group, how, recorded.range, recorded.kernel,
    unpack(passed, 1, recorded.n))
  if made == nil then refuse_long_way() end
  how.made = made
  return how
end

local function tokens_of(n)
  local tokens = {}
  for i = 1, n do tokens[i] = token_t(i) end
  return tokens
end

local function prepare(f, hints, arguments)
  local how = come_to(f, hints, arguments, {}, unpack(tokens_of(arguments.n), 1, arguments.n))
  return how.made and { call = caller(f, how, how.made), made = how.made }
end

-- The same while variables of f hold tokens.
local function with_tokens(f, hints, variables)
  local arguments, tokens, given = { n = #variables }, tokens_of(#variables), {}
  return core.finally(function()
    for k, i in ipairs(variables) do
      arguments[k], given[i] = select(2, debug.getupvalue(f, i)), true
      debug.setupvalue(f, i, tokens[k])
    end
    return come_to(f, hints, arguments, given)
  end, function()
    for k, value in ipairs(arguments) do debug.setupvalue(f, variables[k], value) end
  end)
end

--- What a function comes to that takes no arguments, where these of its variables are like
--- arguments; raises.
---@param f fun(cg: celer.command_group)
---@param hints table|false  of the queue
---@param variables integer[]
---@return table how  `made`: false where places have their callers
function M.come_to(f, hints, variables)
  local how = #variables == 0 and come_to(f, hints, { n = 0 }, {})
    or trace.interpreted(with_tokens, f, hints, variables)
  if how.road then refuse "its kernel is written in Lua" end -- which the core does not compare
  return how
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
    if kept_groups.finish(sets[i].made, sets[i].call(...)) then return true end
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
    if getmetatable(made) ~= reads.Refusal then made = { reason = tostring(made) } end
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
