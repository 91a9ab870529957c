--- group.lua -- command groups: declare what is touched, then the work.
local core = require "celer.core"
local again = require "celer.submit.again"
local replay = require "celer.submit.replay"
local arguments = require "celer.kernel.arguments"
local balance = require "celer.submit.balance"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local capture = require "celer.host.capture"
local checking = require "celer.tools.check"
local collective = require "celer.submit.collective"
local division = require "celer.submit.hints"
local forms = require "celer.host.form"
local by_signature = require "celer.kernel.by_signature"
local functions = require "celer.kernel.from_lua.function"
local kernels = require "celer.kernel.kernel"
local known_mappers = require "celer.mapper.known"
local lists = require "celer.data.list"
local mapper = require "celer.mapper.builtin"
local nd_range = require "celer.kernel.nd_range"
local objects = require "celer.data.object"
local place = require "celer.place"
local placements = require "celer.submit.placement"
local reduce = require "celer.kernel.reduce"
local rules = require "celer.mapper.rules"
local settings = require "celer.settings"
local snapshot = require "celer.data.snapshot"
local spaces = require "celer.space"
local types = require "celer.data.types"
local when = require "celer.submit.when"
local words = require "celer.words"

local fail = place.fail
local Buffer, makers = buffers.Buffer, mapper.makers
local one_to_one, all = mapper.one_to_one, mapper.all
local images = mapper.images

-- Modules that few scripts need.
local function by_images() return require "celer.submit.image" end
local function by_routes() return require "celer.submit.route" end
local type, getmetatable, setmetatable = type, getmetatable, setmetatable

local M = {}

local modes, limits = core.facts.mode, core.facts.limit
local placing = core.facts.placement
local SPLIT, ONCE, EACH = placing.split, placing.once, placing.each
local MOST_ACCESSES, MOST_PARAMS = limits.accesses, limits.params

local OVERLAP = place.code "OVERLAP"
local unhinted, none, no_arguments = {}, {}, { n = 0 }
local undivided -- how work is divided without hints; made once settings are read

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
  local routed = by_routes().declare("cg:route", to, how, options)
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

-- ---- work -------------------------------------------------------------------

-- What `submit` returns, when called with whether the task is to stay whole. Writes
-- by two chunks to one element end a run; `celer check` notes them, and goes on with
-- the task as one chunk.
local function settle(submit, ...)
  local result, text, file, line, code, task = submit(false, ...)
  if code == OVERLAP and settings.check then
    checking.overlap(text, file, line)
    result, text, file, line, code, task = submit(true, ...)
  end
  place.check(result, text, file, line, code, task)
end

-- With --check-nan, of what the script submits: what it reads is looked through, and when it
-- is submitted what it has written.
local function looks_before(self, ...)
  return rawget(self, "watched") and require("celer.tools.nans").before(...)
end
local function looks_after(looks) require("celer.tools.nans").after(looks) end

-- The range as the kernel wants it: in groups, or of items alone.
local function range_for(kernel, range)
  local grouped = nd_range.is_nd_range(range)
  if kernel.tile then
    return nd_range.tiled(range, kernel.tile, kernel.signature)
  elseif grouped and not kernel.grouped then
    fail("cg:parallel_for: kernel %s takes no group; an nd_range is for kernels of "
      .. "group<D>", kernel.signature)
  elseif kernel.grouped and not grouped then
    fail("cg:parallel_for: kernel %s takes a group: give it "
      .. "celer.nd_range(size, group)", kernel.signature)
  end
  return range
end

-- The kernel with the operators of this group.
local function with_operators(kernel, used)
  local operators = {}
  for i = 1, #used do
    if used[i].mode == "reduce" then operators[i] = used[i].operator end
  end
  return kernels.reducing(kernel, operators, #used)
end

-- What a kernel's range comes to, which may be one of groups.
local function space_of(kernel, range)
  range = range_for(kernel, range)
  local grouped = kernel.grouped and range or nil
  return spaces.of(grouped and range.size or range, "cg:parallel_for"), grouped
end

-- The same of a kernel of the group with all that it is given.
local function part(self, range, kernel, ...)
  local space, grouped = space_of(kernel, range)
  local used, values = arguments.part(kernel, space.dims, is_access, select("#", ...), ...)
  take(self, used)
  complete(self, used)
  local made = kernel.reduces and with_operators(kernel, used) or kernel
  return space, made, used, values, grouped, home_of(self, "cg:parallel_for", true)
end

-- What core.submit_kernel takes; `whole`: in one chunk.
local function flat_kernel(whole, self, space, made, used, values, grouped, at)
  local divided, handles = division.resolve(self.hints, space.dims, SPLIT, grouped, at)
  if whole then divided, handles = division.in_one(divided), nil end
  local task = label_of(self, made.name)
  local list = flatten(used, task, space, divided, handles, true)
  return space.core, divided, handles, list, task, made.module, made.index, values
end

local function submit_kernel(...) return core.submit_kernel(flat_kernel(...)) end

local submit_by_plan = core.replay_with(box.classes())
local plans_of = replay.plans

-- How a range is divided that is no nd_range, as division.resolve has it; nothing for
-- one that is, and for what is no range.
local function divide(self, range)
  if self.hints == unhinted and not balance.weights then
    undivided = undivided or division.plain(SPLIT, 1)
    return undivided, nil
  end
  local dims = type(range) == "number" and 1 or 0
  if box.is_box(range) then dims = range.dims
  elseif type(range) == "table" and not getmetatable(range) then dims = #range end
  if dims == 0 then return nil end
  return division.resolve(self.hints, dims, SPLIT, nil, home_of(self, "cg:parallel_for", true))
end

-- A kernel written in Lua: where the group has nothing else, as it was submitted before.
local function submit_function_kernel(self, range, kernel, ...)
  local is_alone = self.n == 0 and not self.more and not rawget(self, "watched")
  local hints = self.hints ~= unhinted and self.hints
  if is_alone and again.submit(kernel, hints, range, ...) then
    self.done = "cg:parallel_for"
    return
  end
  functions.submit(self, range, kernel, ...)
  if is_alone then again.note(kernel, hints, range, ...) end
end

-- A kernel in C++ with accesses and values.
local function submit_anew(self, range, kernel, ...)
  local flag = take_flag(self)
  if flag then
    local space = space_of(kernel, range)
    return when.parallel_for(M, self, flag, is_access, range, kernel, space.dims, ...)
  end
  local effects = effects_of(self)
  if effects then objects.refuse(effects, "cg:parallel_for", select("#", ...), ...) end
  local space, made, used, values, grouped, at = part(self, range, kernel, ...)
  self.done = "cg:parallel_for"
  if space.empty and not kernel.reduces then return end
  if settings.check then checking.submit(label_of(self, kernel.name), used, kernel) end
  local looks = looks_before(self, "kernel", label_of(self, kernel.name), used, space)
  settle(submit_kernel, self, space, made, used, values, grouped, at)
  if looks then looks_after(looks) end
  if not (kernel.reduces or kernel.grouped or kernel.plain or settings.looks) then
    replay.note(kernel, space, modes, is_access, ...)
  end
end

-- Submits a kernel as one like it was before; whether that could be done.
local function submit_again(self, range, kernel, ...)
  local plans = plans_of[kernel]
  if not plans or getmetatable(self) ~= Group or self.done or settings.looks or effects_of(self)
    or self.more and self.more.when then
    return false
  end
  self.done = "cg:parallel_for" -- whatever is raised from here on
  local divided, handles = divide(self, range)
  local result, text, file, line, code, task = submit_by_plan(divided and plans or none,
    label_of(self, kernel.name), divided, handles, self, range, ...)
  if result == nil then place.check(nil, text, file, line, code, task) end
  if result then return true end
  self.done = false
  return false
end

-- What is not submitted as before.
local function submit_first(self, range, kernel, ...)
  open(self, "cg:parallel_for")
  if functions.is_kernel(kernel) then return submit_function_kernel(self, range, kernel, ...) end
  if not kernels.is_kernel(kernel) then
    fail("cg:parallel_for: the second argument must be a kernel, not %s",
      kernels.is_collection(kernel) and tostring(kernel) .. "; name one of them"
      or words.a(kernel))
  elseif not by_signature.has_buffers(...) then
    return submit_anew(self, range, kernel, ...)
  end
  local n, given = select("#", ...), by_signature.accesses(self, kernel, ...)
  local delivery = self.routes and by_routes().resolve(self, "cg:parallel_for", kernel, range)
  if self.images then by_images().resolve(self, "cg:parallel_for", range_for(kernel, range)) end
  if not submit_again(self, range, kernel, unpack(given, 1, n)) then
    submit_anew(self, range, kernel, unpack(given, 1, n))
  end
  if delivery then by_routes().deliver(delivery) end
end

--- Runs a kernel once per item of the range.
---@param range integer[]|integer|celer.box|celer.nd_range|celer.list  a list: its elements, as
--- items up to its capacity, of which those from its count on must push nothing
---@param kernel celer.kernel|celer.lua_kernel
---@param ... any  accesses and values, as the kernel's parameters want them, or buffers in the
--- place of accesses: in C++ the parameters say the mode, and in Lua celer derives the access
function Group:parallel_for(range, kernel, ...)
  local delivery = false
  if lists.is_list(range) then
    open(self, "cg:parallel_for")
    self.elements, range = range, range.capacity
  end
  if getmetatable(self) == Group and (self.routes or self.images) and not self.done
    and kernels.is_kernel(kernel) then
    delivery = self.routes and by_routes().resolve(self, "cg:parallel_for", kernel, range)
    if self.images then by_images().resolve(self, "cg:parallel_for", range_for(kernel, range)) end
  end
  if not submit_again(self, range, kernel, ...) then submit_first(self, range, kernel, ...) end
  if delivery then by_routes().deliver(delivery) end
end

-- A host task's arguments with placeholders for accesses and side effects.
local function host_arguments(accesses, effects, group, n, given)
  local list = { n = n }
  for i = 1, n do
    local argument = given[i]
    if is_access(argument) then
      local k = 1
      while accesses[k] ~= argument do k = k + 1 end
      argument = capture.view(k)
    elseif objects.is_effect(argument) then
      argument = objects.argument(effects, argument, group)
    end
    list[i] = argument
  end
  return list
end

-- What the lane must know of each access.
local function describe(accesses)
  local metas = {}
  for i, access in ipairs(accesses) do
    local buffer = access.buffer
    metas[i] = { name = buffer.name, dims = buffer.dims, type = buffer.type.name,
      writable = access.mode ~= "read", size = buffer.extents }
  end
  return metas
end

-- What the lane must know of the task.
local function meta_of(kind, used, effects, dims, is_collective)
  return { accesses = describe(used), effects = objects.metas(effects), dims = dims,
    interop = kind.interop, collective = is_collective }
end

local plain_keys = {} -- by kind, dimensions and arguments

local function plain_key(kind, dims, structs, n)
  local id = (n * 4 + dims) * 2 + (kind.interop and 1 or 0)
  local key = plain_keys[id]
  if not key or key[3] ~= structs then
    key = { kind, dims, structs, false, n, 0 }
    plain_keys[id] = key
  end
  return key
end

-- What the lane is told depends on this alone, and on the kinds of arguments.
local function key_of(kind, used, effects, dims, n, group)
  local structs = #types.all_structs()
  if used ~= none or effects ~= none or group then
    local key = { kind, dims, structs, group or false, n, #used }
    for _, access in ipairs(used) do
      key[#key + 1] = access.buffer
      key[#key + 1] = access.mode
    end
    objects.describe(effects, key)
    return key
  end
  return plain_key(kind, dims, structs, n)
end

-- The function, its arguments and what it is told: a form, and values.
local function encode(kind, f, used, effects, dims, list, group)
  return capture.encode_task(f, kind.owner, list,
    key_of(kind, used, effects, dims, list.n, group), group or "", meta_of, kind, used,
    effects, dims, group ~= nil)
end

local function accesses_among(call, n, given)
  local out = {}
  for i = 1, n do
    local argument = given[i]
    if is_access(argument) then
      if argument.mode == "reduce" then
        fail("%s: %s is reduced into, which only kernels do", call, argument.buffer.name)
      elseif argument.mode == "route" then
        by_routes().refuse(call, argument.buffer.name)
      end
      out[#out + 1] = argument
    end
  end
  return out
end

local function submit_text(whole, self, kind, placement, space, group, used, effects, form,
    values, at)
  local divided, handles = division.resolve(self.hints, space.dims, placement, nil, at)
  if whole then divided, handles = division.in_one(divided), nil end
  local task = label_of(self, kind.noun)
  local flat = flatten(used, task, space, divided, handles, kind.interop)
  if group then divided = division.of_collective(divided, collective.number(group)) end
  return core[kind.submit](space.core, divided, handles, flat, task, form, values,
    objects.flatten(effects))
end

-- Why such a task is not cut into runs; nil where it is.
local function wholeness(placement, effects)
  if placement == ONCE then return "the task runs once" end
  if placement == EACH then return "a collective task is called once on each rank" end
  return #effects > 0 and "a task with side effects is called once on each rank, as its runs "
    .. "would have no order" or nil
end

-- Submits work that is a Lua function. Where it runs at one place there may be no
-- range; a collective task has a `group`, whose name ranks must agree on.
local function submit_function(self, kind, placement, range, group, at, f, ...)
  local space = range == nil and not kind.interop and spaces.none or spaces.of(range, kind.call)
  if type(f) ~= "function" then
    fail("%s: the second argument must be a function, not %s", kind.call, words.a(f))
  end
  local n, effects = select("#", ...), effects_of(self) or none
  if kind.interop then objects.refuse(effects, kind.call, n, ...) end
  local used, list = none, no_arguments
  if n > 0 or self.n > 0 then -- many tasks only touch host objects, or nothing
    local given = { ... }
    used = accesses_among(kind.call, n, given)
    -- What a host task sees of data must be right; see snapshot.precede.
    local checked = #used > 0 and not kind.interop and snapshot.settle()
    if checked then used[#used + 1] = self:read(checked) end
    take(self, used)
    list = host_arguments(used, effects, group, n, given)
  end
  local form, values = encode(kind, f, used, effects, space.dims, list,
    group and tostring(group))
  complete(self, used) -- what was captured in place of that is told first
  self.done = kind.call
  if space.empty then return end
  if settings.check then checking.submit(label_of(self, kind.noun), used) end
  local why = wholeness(placement, effects)
  if why then tell_of_runs(self, why) end
  local looks = looks_before(self, kind.noun, label_of(self, kind.noun), used, space)
  settle(submit_text, self, kind, placement, space, group, used, effects, form, values, at)
  if looks then looks_after(looks) end
end

local host_task = { call = "cg:host_task", noun = "host task", owner = "the host task",
  submit = "submit_host" }
local interop_task = { call = "cg:interop_task", noun = "interop task",
  owner = "the interop task", submit = "submit_interop", interop = true }

local makers_of_places = {
  [collective.collective] = "collective()",
  [placements.at] = "at(rank)",
  [placements.where] = "where(buffer)",
}

-- What the first argument of a host task is, where it is no range.
local function check_spread(self, where)
  local made_by = makers_of_places[where]
  if made_by then
    fail("cg:host_task: celer.%s is a function: write celer.%s", made_by:match "^%w+", made_by)
  elseif collective.is_collective(where) or placements.is_placement(where) then
    refuse_division(self, "cg:host_task", where, of_all)
    if own_hints(self).place then
      fail("cg:host_task: it runs at %s by its first argument, and at %s by cg:hint: leave one "
        .. "of them out", tostring(where), tostring(self.hints.place))
    end
  elseif type(where) ~= "table" and type(where) ~= "number" then
    fail("cg:host_task: the first argument says where it runs, celer.on_master, celer.once, "
      .. "celer.at(rank), celer.where(buffer), celer.collective() or a range to divide, and is "
      .. "not %s", words.a(where))
  end
end

-- Placement, range, group and home of a host task.
local function spread(self, where)
  check_spread(self, where)
  if placements.is_placement(where) then
    placements.check(where, "cg:host_task")
    return ONCE, nil, nil, where
  elseif collective.is_collective(where) then
    local _, ranks = core.rank()
    return EACH, ranks, where
  end
  local at = home_of(self, "cg:host_task")
  return at and ONCE or SPLIT, where, nil, at
end

local once = division.plain(ONCE, 0)

-- Submits a task of one call that only has a function like one before, and plain values;
-- false where it is more than that.
local function submit_short(self, at, f, ...)
  if self.hints ~= unhinted or settings.looks or type(f) ~= "function"
    or at.buffer and at.buffer.freed then return false end
  local divided, handles = placements.divide(at, once)
  local key = plain_key(host_task, 0, #types.all_structs(), select("#", ...))
  self.done = host_task.call -- whatever is raised from here on
  local result, text, file, line, code, task = forms.submit(key, divided, handles,
    host_task.noun, f, ...)
  if result == nil then place.check(nil, text, file, line, code, task) end
  self.done = result and self.done
  return result
end

--- Runs a Lua function off the main thread.
---@param where celer.placement|celer.collective|celer.box|integer[]|integer  or a range to divide
---@param f fun(part: celer.part, ...)
---@param ... any  accesses and plain values, passed to f after its part
function Group:host_task(where, f, ...)
  if getmetatable(self) == Group and not self.done and self.n == 0 and not self.more
    and placements.is_placement(where) and submit_short(self, where, f, ...) then return end
  open(self, "cg:host_task")
  local placement, range, group, at = spread(self, where)
  if self.images then
    if group or placements.is_placement(where) then by_images().refuse("cg:host_task", where) end
    by_images().resolve(self, "cg:host_task", range)
  end
  local flag = type(f) == "function" and take_flag(self)
  if flag then
    when.keep(flag, is_access, ...)
    submit_function(self, host_task, placement, range, group, at, when.guard(f), self:read(flag),
      ...)
  else
    submit_function(self, host_task, placement, range, group, at, f, ...)
  end
end

--- Runs a Lua function where a kernel would be launched, to call a library: it
--- enqueues on part.stream, which orders what it enqueues, and does not wait.
---@param range integer[]|integer|celer.box
---@param f fun(part: celer.part, ...)
---@param ... any  accesses and plain values, passed to f after its part
function Group:interop_task(range, f, ...)
  open(self, "cg:interop_task")
  if self.more and self.more.when then
    fail "cg:interop_task: an interop task cannot be skipped, as it is called before the flag is "
      "known: skip the tasks around it"
  end
  if placements.is_placement(range) or collective.is_collective(range) then
    fail("cg:interop_task: %s is for host tasks; give the range that is to be "
      .. "divided over devices%s", tostring(range), placements.is_placement(range)
      and (", and by cg:hint { place = %s } where"):format(tostring(range)) or "")
  end
  if self.images then by_images().resolve(self, "cg:interop_task", range) end
  local at = home_of(self, "cg:interop_task", true)
  submit_function(self, interop_task, at and ONCE or SPLIT, range, nil, at, f, ...)
end

-- ---- prepared groups ----------------------------------------------------------

-- Whether mappers come to the same again while all that they see is what it was.
local function has_known_mappers(used, space)
  for i = 1, #used do
    local access = used[i]
    if access.mode ~= "reduce"
      and not known_mappers.entry(access.map, space.box, buffers.whole(access.buffer)) then
      return false
    end
  end
  return true
end

---@class celer.prepared_how
---@field values? integer[]  by the kernel's values: 0 for one that stays the same; nil: none does
---@field file? string  and line: where it is submitted; nil: at the user's line of then
---@field line? integer

--- What the core submits again, with other buffers of the same shapes and with other numbers, of
--- a group with its accesses and without its work; nil where more than a task comes of it, or
--- nobody knows what its mappers will come to. False where places have their callers.
---@param self celer.command_group
---@param how celer.prepared_how
---@param range any  and what follows: as of parallel_for
---@return userdata|false|nil
function M.prepare(self, how, range, kernel, ...)
  local more = self.more
  if self.images or self.routes or kernel.plain or more and (more.effects or more.when) then
    return nil -- hidden tasks may have to come before it, or behind it
  end
  local space, made, used, values, grouped, at = part(self, range, kernel, ...)
  if space.empty then return nil end
  local a, b, c, list, d, e, f = flat_kernel(false, self, space, made, used, values, grouped, at)
  if not has_known_mappers(used, space) then return nil end
  return core.prepare(a, b, c, list, d, e, f, values, how.values, how.file, how.line)
end

-- ---- life -------------------------------------------------------------------

--- A new command group.
---@param hints? celer.hints  what its queue asks for
---@return celer.command_group
function M.new(hints)
  return setmetatable({ n = 0, hints = hints or unhinted, done = false, more = false,
    images = false, routes = false, elements = false,
    false, false, false, false }, Group)
end

--- Ends it; raises when it has no work.
function M.close(group)
  local done = group.done
  group.done = over
  if not done then
    fail("q:submit: the command group has no work; call cg:parallel_for, "
      .. "cg:host_task or cg:interop_task in it")
  end
end

words.methods(Group)

return M
