--- object.lua -- host objects, and what tasks do to them.
local capture = require "celer.host.capture"
local core = require "celer.core"
local decode = require "celer.host.decode"
local host_memory = require "celer.data.host_memory"
local place = require "celer.place"
local words = require "celer.words"

local fail = place.fail

local M = {}

-- ---- host objects -----------------------------------------------------------

---@class celer.host_object
---@field name string
---@field scope string
---@field layout celer.layout|false  of plain memory
local Object = {}
Object.__index = Object
Object.__noun = "host object"

function Object:__tostring()
  return ("host object %s: %s%s"):format(self.name, self.layout
    and ("%d bytes"):format(self.layout.size) or "made by a function",
    self.scope == "cluster" and ", of the cluster" or "")
end

function Object.__capture(self, refuse)
  refuse(("the host object '%s'"):format(self.name),
    "; declare a side effect (cg:side_effect(...)) and pass it as an argument")
end

function Object:__call()
  fail("what host object %s holds is not here: only a host task with a side effect "
    .. "on it gets it", self.name)
end

local known_options = { name = true, scope = true, destructor = true }
local scopes = { rank = true, cluster = true }

local function check_options(options)
  words.check_options("celer.host_object", options, known_options, '{name = "log"}')
  if options.name ~= nil then words.check_name("celer.host_object", options.name) end
  if options.scope ~= nil and not scopes[options.scope] then
    fail("celer.host_object: no scope is called %s%s", tostring(options.scope),
      words.advice(options.scope, scopes))
  end
  if options.destructor ~= nil and type(options.destructor) ~= "function" then
    fail("celer.host_object: the destructor must be a function, not %s",
      words.a(options.destructor))
  end
end

local unnamed = 0

local function name_of(options)
  if options.name then return options.name end
  unnamed = unnamed + 1
  return ("object%d"):format(unnamed)
end

-- What a lane runs when an object ends, nil for nothing; and what ranks must agree
-- on of it.
local function release_of(self, destructor)
  if not destructor and self.layout then return nil, "" end
  return capture.encode(destructor or function() end,
    "the destructor of " .. self.name, nil,
    { name = self.name, memory = self.layout and self.layout.text })
end

local living = setmetatable({}, { __mode = "v" }) -- by number
local made = 0

--- Makes a host object, one on each rank: what the constructor returns, made on
--- a rank when the first task there touches it; or plain memory of zeros, which
--- tasks may touch at the same time.
---@param what function|string|celer.type  constructor, or a C declaration of a struct
---@param options? {name: string?, scope: string?, destructor: function?}
---@return celer.host_object
function M.new(what, options)
  options = options == nil and {} or options
  check_options(options)
  local self = setmetatable({ name = name_of(options), layout = false,
    scope = options.scope or "rank" }, Object)
  local constructor, identity
  if type(what) == "function" then
    constructor, identity = capture.encode(what, "the constructor of " .. self.name, nil,
      { name = self.name })
  else
    self.layout = host_memory.layout(what, "celer.host_object")
    constructor, identity = "", self.layout.text
  end
  local release, ending = release_of(self, options.destructor)
  local file, line = place.user()
  self.handle = place.check(core.object(self.name, self.scope == "cluster",
    constructor, self.layout and self.layout.size or 0,
    release, identity .. "\0" .. ending, file, line))
  made = made + 1
  living[made] = self
  return self
end

--- Ends it once the tasks that touch it have ended; nothing may touch it from
--- now on.
function Object:free()
  place.method(self, Object, "object:free")
  if core.object_freed(self.handle) then
    fail("object:free: the host object %s was freed already", self.name)
  end
  core.object_free(self.handle)
end

--- Ends all that were not freed, as they were made. Whether any was ever made, on
--- all ranks alike.
function M.end_all()
  for i = 1, made do
    local object = living[i]
    if object and not core.object_freed(object.handle) then
      core.object_free(object.handle)
    end
  end
  return made > 0
end

function M.is_object(value) return getmetatable(value) == Object end

-- The bytes of plain memory.
local function bytes_of(memory)
  local ffi = require "ffi"
  local p = memory:pointer()
  return ffi.string(p, ffi.sizeof(p[0]))
end

--- Raises unless the object is there, and what of it is to be brought is said.
---@param self celer.host_object
---@param f any
function M.check_capture(self, f, call)
  if core.object_freed(self.handle) then
    fail("%s: the host object %s was freed", call, self.name)
  elseif f == nil and not self.layout then
    fail("%s: give the function that says what of host object %s is to be brought, "
      .. "as in celer.capture(log, function(log) return log.count end)", call, self.name)
  elseif f ~= nil and type(f) ~= "function" then
    fail("%s: what is brought of host object %s is said by a function, not %s", call,
      self.name, words.a(f))
  end
end

--- The engine's fence of what `f` says of the object on each rank; nil: all of
--- plain memory.
---@param self celer.host_object
---@param f function?
function M.fence(self, f, file, line)
  local memory = self.layout and self.layout.text
  local blob, identity = capture.encode(f or bytes_of, "the capture of " .. self.name,
    nil, { effect = { name = self.name, memory = memory } })
  return place.check(core.fence_object(self.handle, blob, identity, not self.layout,
    file, line))
end

--- What such a fence brought: the function's result, or the struct.
---@param bytes string
function M.captured(self, f, bytes)
  local value = decode(bytes)
  if f then return value end
  local ffi = require "ffi"
  return require("celer.data.reals").load(self.layout, ffi.cast("const char *", value), 0)
end

--- The same where no task has touched it.
function M.untouched(self, f)
  return not f and require("ffi").new(self.layout.ctype) or nil
end

-- ---- side effects -----------------------------------------------------------

local orders, MOST = core.facts.order, core.facts.limit.effects

---@class celer.side_effect
---@field object celer.host_object
---@field order string
local Effect = { __noun = "side effect" }

local function not_here(effect)
  fail("the side effect on %s can be used inside host tasks only: pass it as an "
    .. "argument", effect.object.name)
end

function Effect.__index(effect) not_here(effect) end
Effect.__newindex, Effect.__call = not_here, not_here

function Effect.__tostring(effect)
  return ("side effect on %s: %s"):format(effect.object.name, effect.order)
end

function Effect.__capture(effect, refuse)
  refuse(("the side effect on %s"):format(effect.object.name),
    "; pass it as an argument after the function")
end

function M.is_effect(value) return getmetatable(value) == Effect end

--- A side effect, as cg:side_effect declares it; `list` has those that the group
--- has already.
---@param list celer.side_effect[]
---@param object celer.host_object
---@param order? string
---@return celer.side_effect
function M.effect(list, object, order)
  if getmetatable(object) ~= Object then
    fail("cg:side_effect: the first argument must be a host object "
      .. "(celer.host_object), not %s", words.a(object))
  elseif core.object_freed(object.handle) then
    fail("cg:side_effect: the host object %s was freed", object.name)
  elseif order ~= nil and not orders[order] then
    fail("cg:side_effect: no order is called %s%s", tostring(order),
      words.advice(order, orders))
  elseif #list == MOST then
    fail("cg:side_effect: %d side effects are the most", MOST)
  end
  for i = 1, #list do
    if list[i].object == object then
      fail("cg:side_effect: this command group has a side effect on %s already",
        object.name)
    end
  end
  local effect = setmetatable({ object = object, order = order or "sequential",
    passed = false }, Effect)
  list[#list + 1] = effect
  return effect
end

--- Raises where side effects were declared for other work than a host task, or
--- given to it.
---@param list celer.side_effect[]
function M.refuse(list, call, n, ...)
  local effect = list[1]
  for i = 1, n do
    local argument = (select(i, ...))
    if M.is_effect(argument) then effect = argument end
  end
  if effect then
    fail("%s: host objects are for host tasks (cg:host_task); what runs on devices "
      .. "cannot touch %s", call, effect.object.name)
  end
end

--- For the core: handle, order, handle, order... And whether the task must run
--- where Lua objects live.
---@param list celer.side_effect[]
function M.flatten(list)
  if #list == 0 then return nil, false end
  local out, lives = { false, false }, false
  for i, effect in ipairs(list) do
    out[2 * i - 1], out[2 * i] = effect.object.handle, orders[effect.order]
    lives = lives or (effect.passed and not effect.object.layout)
  end
  return out, lives
end

--- For the lane: what it must know of each effect; false for those that only
--- order.
---@param list celer.side_effect[]
function M.metas(list)
  local out = {}
  for i, effect in ipairs(list) do
    local object = effect.object
    out[i] = effect.passed
      and { name = object.name, memory = object.layout and object.layout.text }
  end
  return out
end

--- Adds to an array all that M.metas depends on.
---@param list celer.side_effect[]
---@param out any[]
function M.describe(list, out)
  for _, effect in ipairs(list) do
    local layout = effect.object.layout
    out[#out + 1] = effect.passed and effect.object.name
    out[#out + 1] = layout and layout.text
  end
end

--- What stands for an effect among the arguments of a host task, which is
--- collective or not.
---@param list celer.side_effect[]
function M.argument(list, effect, collective)
  if collective and not effect.object.layout then
    fail("cg:host_task: a collective task has a thread of its own and cannot be given "
      .. "%s, which a function made; declare the effect and do not pass it, or make "
      .. "the object by a C declaration", effect.object.name)
  end
  for i = 1, #list do
    if list[i] == effect then
      effect.passed = true
      return capture.effect(i)
    end
  end
  fail("the side effect on %s belongs to another command group", effect.object.name)
end

words.methods(Object)

return M
