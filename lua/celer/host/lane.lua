--- lane.lua -- runs in a host lane, or in a GPU's thread: decodes what capture.lua
--- encoded, and calls.
require("celer.walk").install()
local buffer = require "string.buffer"
local ffi = require "ffi"
local box = require "celer.box"
local constructs = require "celer.host.constructs"
local instructions = require "celer.host.instructions"
local core = require "celer.core"
local decode = require "celer.host.decode"
local device_view = require "celer.data.device_view"
local factory = require "celer.host.factory"
local host_memory = require "celer.data.host_memory"
local each = require("celer.tables").each
local reals = require "celer.data.reals"
local types = require "celer.data.types"
local view = require "celer.data.view"
local words = require "celer.words"

local M = {}

-- Host tasks always print; with several ranks each line says whose it is.
require("celer.run.output").install("all", core.rank())

local bundle = core.bundle()
if bundle then require("celer.run.script").adopt(bundle) end

function os.exit() -- luacheck: ignore
  error("a host task cannot end the program; error(...) does, with a message", 2)
end

-- ---- decoding ---------------------------------------------------------------

---@class celer.decoder
local Decoder = {}
Decoder.__index = Decoder

-- A fresh variable, as a function that sets it. All are made by one text: what LuaJIT
-- compiles takes those of two texts for never the same.
local function variable()
  local kept
  return function(value)
    kept = value
    return kept
  end
end

-- Variables that functions share are joined. What is no task is called so often that
-- LuaJIT is to know which of its variables never change: it keeps its own ones.
function Decoder:set_variable(f, i, cell)
  local owner = self.owners[cell]
  if owner then
    debug.upvaluejoin(f, i, owner, self.values and 1 or self.places[cell])
  elseif self.values then
    owner = variable()
    debug.upvaluejoin(f, i, owner, 1)
    self.owners[cell] = owner -- before its value: it may lead here
    owner(self:decode(self.cells[cell][1]))
  else
    self.owners[cell], self.places[cell] = f, i
    debug.setupvalue(f, i, self:decode(self.cells[cell][1]))
  end
end

function Decoder:function_at(index)
  local f = self.made_functions[index]
  if f then return f end
  local entry = self.functions[index]
  if self.values then
    entry.make = entry.make or factory.of(entry.code)
    f = setfenv(entry.make, self.environment)()
  else
    f = assert(loadstring(entry.code))
  end
  setfenv(f, self.environment)
  self.made_functions[index] = f -- before its variables: it may capture itself
  for i, cell in ipairs(entry.up) do self:set_variable(f, i, cell) end
  return f
end

-- Here next() is not compiled: where it is, among much else, LuaJIT before April 2022 may lose
-- half of the pointer that it gives, and crash (its issue 829).
local function has_any(t) return next(t) ~= nil end
jit.off(has_any)

function Decoder:fill(out, from)
  for k, v in each(from) do out[k] = self:decode(v) end
  return out
end
jit.off(Decoder.fill)

function Decoder:table_at(index)
  local out = self.made_tables[index]
  if out then return out end
  out = {}
  self.made_tables[index] = out
  return self:fill(out, self.tables[index])
end

local function library(path)
  local value = _G
  for name in path:gmatch("[^.]+") do value = value[name] end
  return value
end

local function struct(name, bytes)
  return reals.load(types.find(name), ffi.cast("const char *", bytes), 0)
end

function Decoder:decode(value)
  if type(value) ~= "table" then return value end
  if value.__v then return self.values[value.__v] end
  if value.__f then return self:function_at(value.__f) end
  if value.__t then return self:table_at(value.__t) end
  if value.__g then return library(value.__g) end
  if value.__m then return require(value.__m) end
  if value.__mf then return require(value.__mf[1])[value.__mf[2]] end
  if value.__box then return box.new(unpack(value.__box)) end
  if value.__coordinates then return box.coordinates(unpack(value.__coordinates)) end
  if value.__c then return struct(value.__c, value.bytes) end
  if value.__effect then return self.effects[value.__effect] end
  return self.views[value.__view]
end

-- Whether it is one function that captures nothing, and that nothing leads to.
local function is_alone(from)
  if #from.functions ~= 1 or #from.functions[1].up > 0 or #from.tables > 0
    or from.sets_globals then
    return false
  end
  for i = 1, from.n or 0 do
    local value = from.arguments[i]
    if type(value) == "table" and value.__f then return false end
  end
  return true
end

-- What was read off the newest few strings, as a task may come again and again.
-- Decoders copy what they hand out.
local MOST, LONGEST = 64, 65536
local read, count = {}, 0

local function read_off(blob)
  local found = read[blob]
  if found then return found end
  found = decode(blob)
  found.sets_globals = has_any(found.globals)
  found.__index = found
  setmetatable(found, Decoder)
  for _, one in ipairs(found.structs) do types.struct(one[1], one[2]) end
  if #blob > LONGEST then return found end
  if count == MOST then read, count = {}, 0 end
  read[blob], count = found, count + 1
  return found
end

local open_globals, none = { __index = _G }, {}

-- What one call sees: globals that it sets are its own. A function that is alone
-- is the same one in each call, and so is what LuaJIT has compiled of it: then true, too,
-- and it has the globals of the call before.
local function open(from, values)
  local self = from.decoder
  if self then
    self.values = values
    return self, true
  end
  local environment = setmetatable({}, open_globals)
  self = setmetatable({ values = values, made_functions = {},
    made_tables = #from.tables > 0 and {} or none, owners = {}, places = not values and {},
    views = {}, effects = {}, environment = environment }, from)
  if from.sets_globals then self:fill(environment, from.globals) end
  if is_alone(from) then -- core_lane.c gives it other globals, where it has set some
    from[1], from[2], from[3] = self:function_at(1), environment, open_globals
    from.decoder = self
  end
  return self
end

local function open_string(blob)
  local self, again = open(read_off(blob))
  if again then setfenv(self.made_functions[1], setmetatable({}, open_globals)) end
  return self
end

-- ---- host tasks and interop tasks -------------------------------------------

-- Of this thread: a device's, or a group's.
local kept = {}

local rank, ranks = core.rank()

---@class celer.part: celer.chunk
---@field rank integer
---@field ranks integer
---@field stream ffi.cdata*|false  interop tasks: what to enqueue on; false on the processor
---@field device integer  interop tasks
---@field kept table  interop and collective tasks: outlives the call
---@field comm celer.communicator  collective tasks
local function add_to_part(part, call, extra)
  if extra.interop or extra.collective then part.kept = kept end
  if extra.collective then
    part.comm = require("celer.host.communicator").of(core.comm(call))
  elseif extra.interop then
    local device, stream = core.device(call)
    part.device = device
    part.stream = stream and ffi.cast("void *", stream) or false
  end
end

local function make_view(call, i, access)
  local data, a0, a1, a2, b0, b1, b2, c0, c1, c2, d0, d1, d2, marks = core.view(call, i)
  return view.new({ name = access.name, dims = access.dims,
    type = types.find(access.type), writable = access.writable,
    extents = access.size, marks = marks }, data, { a0, a1, a2, b0, b1, b2 },
    { c0, c1, c2, d0, d1, d2 })
end

-- ---- host objects -----------------------------------------------------------

-- Those that functions made, by id; of the lane where these live.
local objects = {}

-- What was raised, in words; see to_message in embed/lua_state.c.
local function text_of(raised)
  local kind, meta = type(raised), getmetatable(raised)
  if kind == "table" and type(raised.message) == "string" then return raised.message end
  if kind == "string" or (type(meta) == "table" and meta.__tostring) then
    return tostring(raised)
  end
  return "the error is " .. words.a(raised)
end

-- Calls a function of the user's about an object, which a failure names.
local function call_about(name, what, f, ...)
  local ok, result = pcall(f, ...)
  if ok then return result end
  error({ message = ("the %s of host object %s: %s"):format(what, name, text_of(result)) }, 0)
end

local function construct(blob, name)
  local self = open_string(blob)
  local value = call_about(name, "constructor", self:decode(self.main))
  if value == nil then
    error({ message = ("the constructor of host object %s returned nothing"):format(name) },
      0)
  end
  return value
end

-- What the i-th effect is on.
local function touch(call, i, effect, id, memory)
  if memory then return host_memory.new(effect.name, effect.memory, memory) end
  if objects[id] == nil then
    objects[id] = construct(core.constructor(call, i), effect.name)
  end
  return objects[id]
end

--- Ends an object, which may never have been made here.
function M.release(blob, object)
  local self = open_string(blob)
  local id, memory = core.ended(object)
  local name = self.extra.name
  local value = memory and host_memory.new(name, self.extra.memory, memory)
    or objects[id]
  objects[id] = nil
  if value == nil then return end
  call_about(name, "destructor", self:decode(self.main), value)
  io.stdout:flush()
end

-- Whether this rank has the i-th effect's object: one that a function makes is
-- not made for being looked at.
local function is_here(call, i)
  local id, memory = core.effect(call, i)
  return memory ~= nil or objects[id] ~= nil
end

--- What a function says of an object, as one string; where there is none, nil's.
function M.capture(blob, call)
  if not is_here(call, 1) then return buffer.encode(nil) end
  local self = open_string(blob)
  local effect = self.extra.effect
  local value = call_about(effect.name, "capture", self:decode(self.main),
    touch(call, 1, effect, core.effect(call, 1)))
  local ok, bytes = pcall(buffer.encode, value)
  io.stdout:flush()
  if ok then return bytes end
  error({ message = ("the capture of host object %s returned what cannot be brought "
    .. "back (%s): numbers, strings, booleans and tables of them can"):format(
    effect.name, (tostring(bytes):gsub("^.-:%d+: ", ""))) }, 0)
end

--- Forms that are likely to come again, by number; 0 is none.
M.known = {}
local forms = 0

local function form_of(number, text)
  local from = read_off(text)
  if number == 0 then return from end
  if forms == MOST then
    for other in each(M.known) do M.known[other] = nil end
    forms = 0
  end
  M.known[number], forms = from, forms + 1
  return from
end

-- Calls it with its part and arguments: few, as most tasks have, without what LuaJIT does
-- not compile.
local function call_main(self, main, part)
  local n, list = self.n, self.arguments
  if n == 0 then
    main(part)
  elseif n == 1 then
    main(part, self:decode(list[1]))
  elseif n == 2 then
    main(part, self:decode(list[1]), self:decode(list[2]))
  elseif n == 3 then
    main(part, self:decode(list[1]), self:decode(list[2]), self:decode(list[3]))
  else
    local arguments = {}
    for i = 1, n do arguments[i] = self:decode(list[i]) end
    main(part, unpack(arguments, 1, n))
  end
end

--- Runs a host task or an interop task over one chunk: of a form, by its number and
--- its string or, where it is known, itself. What follows the call is of it, as to ask for
--- it would cost as much as the rest: the chunk and the range's extents, and what its first
--- effect is on, as core.effect says it; then the task's values, if any. LuaJIT compiles no
--- function with a variable number of arguments by itself.
function M.run(number, form, call, a0, a1, a2, b0, b1, b2, c0, c1, c2, id, memory, values)
  local self = open(type(form) == "string" and form_of(number, form) or form, values or none)
  local extra = self.extra
  local part = box.chunk(extra.dims, a0, a1, a2, b0, b1, b2, c0, c1, c2, rank, ranks)
  if extra.interop or extra.collective then add_to_part(part, call, extra) end
  local on_gpu = extra.interop and part.stream
  for i, access in ipairs(extra.accesses) do
    local v = make_view(call, i, access)
    self.views[i] = on_gpu and device_view.of(v, part.device) or v
  end
  for i, effect in ipairs(extra.effects) do
    if effect and i == 1 then
      self.effects[1] = touch(call, 1, effect, id, memory)
    elseif effect then
      self.effects[i] = touch(call, i, effect, core.effect(call, i))
    end
  end
  call_main(self, self:decode(self.main), part)
end

-- ---- initial contents -------------------------------------------------------

local function blame(self, f, fault, dims, i, j, k)
  local info = debug.getinfo(f, "S")
  local is_users = info.source:sub(1, 1) == "@"
  error({ message = ("%sthe init function of %s at (%s): %s"):format(
    is_users and ("%s:%d: "):format(info.source:sub(2), info.linedefined) or "",
    self.extra.name, table.concat({ i, j, k }, ", ", 1, dims), fault) }, 0)
end

-- Lua that calls f for each element of a box, innermost dimension last. As many loops as
-- there are dimensions: LuaJIT's compiler gives up those that end after one round.
local function loops(dims)
  local out = { "local f, pack, is_known, other = ... return function(p, a0, a1, a2, b0, b1, b2)",
    "local at = 0" }
  local names = { "i", "j", "k" }
  for d = 1, dims do
    out[#out + 1] = ("for %s = a%d, b%d - 1 do"):format(names[d], d - 1, d - 1)
  end
  local coordinates = table.concat(names, ", ", 1, dims)
  out[#out + 1] = ("local v = f(%s)"):format(coordinates)
  out[#out + 1] = ("if not pack(p, at, v, is_known) then other(p, at, v%s%s) end at = at + 1")
    :format(dims > 0 and ", " or "", coordinates)
  out[#out + 1] = ("end "):rep(dims + 1)
  return table.concat(out, "\n")
end

local function nothing() return false end

-- How to fill a box by a function: code of its own, so that what LuaJIT compiles is for the
-- two of them.
local function filling(self, f)
  local type_, dims = types.find(self.extra.type), self.extra.dims
  instructions.make_room(f)
  local is_known = type_.class == "s" and constructs.only(f, types.is_field(type_))
  return loadstring(loops(dims))(f, types.pack(type_) or nothing, is_known,
    function(p, at, value, i, j, k)
      local fault = types.store(type_, p, at, value)
      if fault then blame(self, f, fault, dims, i, j, k) end
    end)
end

--- Fills a box with initial contents: one call per element, or one for all.
function M.fill(blob, part, out)
  local self = open_string(blob)
  if self.extra.bulk then
    return self:decode(self.main)({ core.box(part) }, out, self:decode(self.arguments[1]))
  end
  local ctype = types.find(self.extra.type).ctype
  self.filling = self.filling or filling(self, self:decode(self.main))
  self.filling(ffi.cast(ffi.typeof("$ *", ctype), out), core.box(part))
end

return M
