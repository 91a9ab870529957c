--- declare.lua -- what command groups declare: accesses, hints, names.
---
--- The work that a group then gets is in group.lua.
local core = require "celer.core"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local division = require "celer.submit.hints"
local mapper = require "celer.mapper.builtin"
local objects = require "celer.data.object"
local place = require "celer.place"
local placements = require "celer.submit.placement"
local reduce = require "celer.kernel.reduce"
local rules = require "celer.mapper.rules"
local settings = require "celer.settings"
local when = require "celer.submit.when"
local words = require "celer.words"

local fail = place.fail
local Buffer, makers = buffers.Buffer, mapper.makers
local one_to_one, all = mapper.one_to_one, mapper.all
local images = mapper.images
local type, getmetatable, setmetatable = type, getmetatable, setmetatable

local M = {}

local modes, limits = core.facts.mode, core.facts.limit
local MOST_ACCESSES, MOST_PARAMS = limits.accesses, limits.params
local none = {}

-- ---- accesses ---------------------------------------------------------------

-- One is made for each access of each submission, so it is small and an array.
local fields = core.facts.access
assert(fields.buffer == 1 and fields.spelt == 2 and fields.map == 3 and fields.owner == 4
  and core.facts.hidden.handle == 5, "as declare and reduce have them")

---@class celer.access
---@field buffer celer.buffer
---@field mode string
---@field spelt string  the mode, with what the user says of it: of `modes`
local Access = { __noun = "access" }

local function is_access(value) return getmetatable(value) == Access end

local function not_here(access)
  fail("the access to %s can be used inside kernels and tasks only: pass it as an "
    .. "argument", access.buffer.name)
end

local function mode_of(access)
  local spelt = rawget(access, fields.spelt)
  return spelt == "read_disjoint" and "read" or spelt
end

function Access.__index(access, key)
  if key == "mode" then return mode_of(access) end
  if not fields[key] then not_here(access) end
  return rawget(access, fields[key])
end

Access.__newindex, Access.__call = not_here, not_here

function Access.__tostring(access)
  return ("access to %s: %s"):format(access.buffer.name, access.mode)
end

function Access.__capture(access, refuse)
  refuse(("the access to %s"):format(access.buffer.name),
    "; pass it as an argument after the function")
end

---@class celer.command_group
local Group = { __noun = "command group" }
Group.__index = Group

function Group.__capture(_, refuse)
  refuse("the command group", "; a host task cannot declare anything")
end

local over = {} -- what is done when q:submit has returned

-- Raises when nothing can be declared any more.
local function open(self, call)
  place.method(self, Group, call)
  if self.done == over then
    fail("%s: this command group is over; its q:submit has returned", call)
  elseif self.done then
    fail("%s: this command group has its work already (%s); declare everything "
      .. "before that, and one work per q:submit", call, self.done)
  end
end

local function add(self, access)
  local n = self.n + 1
  if n > MOST_ACCESSES then
    fail("cg:%s: %d accesses are the most", mode_of(access), MOST_ACCESSES)
  end
  if settings.check then access.file, access.line = place.user() end
  self.n = n
  self[n] = setmetatable(access, Access)
  return access
end

-- Raises unless it can be declared.
local function check_access(self, call, buffer, map)
  open(self, call)
  buffers.check(buffer, call)
  if map ~= nil and type(map) ~= "function" then
    fail("%s: the range mapper must be a function such as celer.one_to_one, not "
      .. "%s", call, box.is_box(map) and "a box; celer.fixed(box) is one"
        or words.a(map))
  end
  mapper.refuse_maker(call, map)
end

-- An image says what is read.
local function note_image(self, mode, call, buffer)
  if modes[mode] ~= modes.read then
    fail("%s: %s is given an image, which is for cg:read", call, buffer.name)
  end
  self.images = true
end

local function declare(self, mode, call, buffer, map)
  if getmetatable(self) ~= Group or self.done or getmetatable(buffer) ~= Buffer
    or buffer.freed or (map and (type(map) ~= "function" or makers[map])) then
    check_access(self, call, buffer, map)
  end
  if images[map] then note_image(self, mode, call, buffer) end
  return add(self, { buffer, mode, map or one_to_one, self, buffer.handle })
end

local read_options = { disjoint = true }

-- How reading with these options is spelt.
local function reading(options)
  words.check_options("cg:read", options, read_options, "{ disjoint = true }")
  if options.disjoint ~= nil and type(options.disjoint) ~= "boolean" then
    fail("cg:read: disjoint must be true or false, not %s", words.a(options.disjoint))
  end
  return options.disjoint and "read_disjoint" or "read"
end

--- Reads the part that the mapper gives for each chunk. `disjoint`: no item reads by it
--- what another item of the task writes, though the mappers say that it may. All items read
--- a buffer without dimensions, by default.
---@param buffer celer.buffer
---@param map? celer.range_mapper  default: celer.one_to_one
---@param options? {disjoint: boolean?}
---@return celer.access
function Group:read(buffer, map, options)
  local spelt = options == nil and "read" or reading(options)
  if map == nil and getmetatable(buffer) == Buffer and buffer.dims == 0 then map = all end
  return declare(self, spelt, "cg:read", buffer, map)
end

--- Writes some of it and keeps what is not overwritten.
---@param buffer celer.buffer
---@param map? celer.range_mapper
---@return celer.access
function Group:write(buffer, map)
  return declare(self, "write", "cg:write", buffer, map)
end

--- Writes all of it; what was there before need not be kept.
---@param buffer celer.buffer
---@param map? celer.range_mapper
---@return celer.access
function Group:discard_write(buffer, map)
  return declare(self, "discard_write", "cg:discard_write", buffer, map)
end

--- Reads it, then writes it.
---@param buffer celer.buffer
---@param map? celer.range_mapper
---@return celer.access
function Group:read_write(buffer, map)
  return declare(self, "read_write", "cg:read_write", buffer, map)
end

---@class celer.reduce_options
---@field include_current? boolean  begin with what the buffer holds
---@field reproducible? boolean  a sum has the same bits on any number of ranks and devices

--- Combines what all items hand to a reducer of the kernel: into the buffer's one
--- element, or into each of them. What the buffer held is discarded, unless
--- include_current. The operator is "sum", "prod", "min", "max", "and" or "or", or
--- one of your own, associative and commutative: C++ of a and b, and the value that
--- changes nothing. A sum of float or double that is reproducible is the exact one, rounded
--- once: its bits do not depend on ranks, devices or the order.
---@param buffer celer.buffer
---@param operator "sum"|"prod"|"min"|"max"|"and"|"or"|{combine: string, identity: any}
---@param options? celer.reduce_options
---@return celer.access
function Group:reduce(buffer, operator, options)
  open(self, "cg:reduce")
  buffers.check(buffer, "cg:reduce")
  local found, onto = reduce.operator(operator, buffer, options)
  return add(self, { buffer, "reduce", false, self, onto = onto, operator = found })
end

--- Lets each item of a kernel say where its results go: `out.push(key, value)` of a
--- route<T, D>, and `out:push(key, value)` in Lua. Values for one element are combined; or
--- they are appended to bins, which lie one behind the other in the buffer. They come in the
--- order of items, and of one item in that of its pushes, so the result has the same bits on
--- any number of ranks and devices. What the buffer held is discarded, unless
--- include_current. An item pushes `most` values at most (1).
---@param to celer.buffer|celer.list
---@param how "sum"|"prod"|"min"|"max"|"and"|"or"|"append"
---@param options? celer.route_options
---@return celer.access
function Group:route(to, how, options)
  open(self, "cg:route")
  local routed = require("celer.submit.route").declare("cg:route", to, how, options)
  local buffer = routed.buffer
  self.routes = true
  return add(self, { buffer, "route", false, self, buffer.handle, route = routed })
end

-- What few groups have: a name, effects, hints of their own.
local function more_of(self)
  self.more = self.more or {}
  return self.more
end

local function label_of(self, default)
  return self.more and self.more.label or default
end

local function effects_of(self) return self.more and self.more.effects end

--- Declares that the host task touches a host object, and in which order beside
--- others: "sequential" (the default) in submission order; "exclusive" in any
--- order, one at a time; "relaxed" in any order, at the same time.
---@param object celer.host_object
---@param order? "sequential"|"exclusive"|"relaxed"
---@return celer.side_effect
function Group:side_effect(object, order)
  open(self, "cg:side_effect")
  local more = more_of(self)
  more.effects = more.effects or {}
  return objects.effect(more.effects, object, order)
end

--- Names the task, for messages and graphs.
---@param text string
function Group:name(text)
  open(self, "cg:name")
  more_of(self).label = words.check_name("cg:name", text)
end

--- Has the work skipped where the flag is 0 when the work's turn comes. What it would have
--- written stays as it was then.
---@param flag celer.buffer  a bool or an integer without dimensions
---@param ... any  nothing: the work follows by a call of its own
function Group:when(flag, ...)
  open(self, "cg:when")
  if select("#", ...) > 0 then
    fail "cg:when takes the flag alone: call cg:parallel_for or cg:host_task after it"
  end
  when.check(flag, "cg:when")
  local more = more_of(self)
  if more.when then fail "cg:when: this command group has a flag already" end
  more.when = flag
end

-- Takes the flag out of the group; nil where there is none.
local function take_flag(self)
  local flag = self.more and self.more.when
  if flag then self.more.when = nil end
  return flag
end

--- How the work may be divided.
---@param hints celer.hints
function Group:hint(hints)
  open(self, "cg:hint")
  local more = more_of(self)
  if not more.own then
    self.hints = setmetatable({}, { __index = self.hints })
    more.own = {}
  end
  division.add(self.hints, hints, "cg:hint", more.own)
end

-- The hints that the group itself was given, by name.
local function own_hints(self) return self.more and self.more.own or none end

-- Raises where a hint says how work is to be divided that is not, as `place_of` says.
local function refuse_division(self, call, place_of, names)
  for _, name in ipairs(names) do
    if own_hints(self)[name] then
      fail("%s: cg:hint gave %s to divide the work, but %s does not divide it; leave one of "
        .. "them out", call, name, tostring(place_of))
    end
  end
end

local of_ranks, of_all = { "weights" }, { "weights", "split", "granularity" }

local told = {} -- "file:line", of what follows

-- Tells once at each line that work is not cut into the runs that were asked for.
local function tell_of_runs(self, why)
  if not own_hints(self).oversubscribe or self.hints.oversubscribe == 1 then return end
  local file, line = place.user()
  local where = ("%s:%d"):format(file or "?", line)
  if told[where] then return end
  told[where] = true
  core.advise(("cg:hint: oversubscribe = %d is not followed: %s"):format(
    self.hints.oversubscribe, why), file, line)
end

-- Where all of the work runs, which a hint may say: nil where it is divided. Devices of
-- that rank still divide kernels.
local function home_of(self, call, on_devices)
  local at = own_hints(self).place and self.hints.place
  if not at then return nil end
  refuse_division(self, call, at, on_devices and of_ranks or of_all)
  placements.check(at, call)
  tell_of_runs(self, "all of it runs at " .. tostring(at))
  return at
end

-- ---- accesses, for the core --------------------------------------------------

-- Flat words for the core: per access buffer, mode, rule, parameters; of what is
-- reduced into the identity in place of a rule, and the operator. `task` is its name; the
-- rest is how it is divided.
local function flatten(accesses, task, space, divided, handles, on_devices)
  if #accesses == 0 then return none end
  local out = { false, false, false, false, false, false, false, false, false }
  local n, count = 0, 0
  for i = 1, #accesses do
    local access = accesses[i]
    local rule, params, mode
    if access.mode == "reduce" then
      rule, params = access.operator.identity, access.operator.words
      mode = access.onto and modes.read_write or modes.discard_write
    else
      rule, params = rules.bind(access, task, space, divided, handles, on_devices)
      mode = modes[access.spelt]
    end
    out[n + 1] = access.buffer.handle
    out[n + 2] = mode
    out[n + 3] = rule
    n = n + 3
    for p = 1, #params do out[n + p] = params[p] end
    n, count = n + #params, count + #params
  end
  if count > MOST_PARAMS then
    fail("the range mappers of this command group capture more than %d numbers",
      MOST_PARAMS)
  end
  return out
end

-- Raises unless each of `used` can be, once.
local function take(self, used)
  for i = 1, #used do
    local access = used[i]
    if access.owner ~= self then
      fail("the access to %s belongs to another command group", access.buffer.name)
    elseif rawget(access, "passed") then
      fail("the access to %s is passed twice", access.buffer.name)
    elseif access.buffer.freed then
      fail("the buffer %s was freed", access.buffer.name)
    end
    rawset(access, "passed", true)
  end
end

-- Raises unless `used`, which were taken, are all that was declared.
local function complete(self, used)
  for i = 1, #used < self.n and self.n or 0 do
    local access = self[i]
    if not rawget(access, "passed") then
      fail("the access to %s (cg:%s) is declared but not passed to the work: %s; pass it as "
        .. "an argument, or leave it out", access.buffer.name, access.mode,
        access.mode == "read" and "data would be moved for nothing"
          or "nothing would be written")
    end
  end
end

-- What group.lua uses.
M.Group = Group
M.is_access = is_access
M.open = open
M.over = over
M.label_of = label_of
M.effects_of = effects_of
M.take_flag = take_flag
M.own_hints = own_hints
M.refuse_division = refuse_division
M.of_all = of_all
M.tell_of_runs = tell_of_runs
M.home_of = home_of
M.flatten = flatten
M.take = take
M.complete = complete

return M
