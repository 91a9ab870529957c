--- group.lua -- command groups: declare what is touched (declare.lua), then the work.
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
local declare = require "celer.submit.declare"
local division = require "celer.submit.hints"
local forms = require "celer.host.form"
local by_signature = require "celer.kernel.by_signature"
local functions = require "celer.kernel.from_lua.function"
local kernels = require "celer.kernel.kernel"
local known_mappers = require "celer.mapper.known"
local lists = require "celer.data.list"
local nd_range = require "celer.kernel.nd_range"
local objects = require "celer.data.object"
local place = require "celer.place"
local placements = require "celer.submit.placement"
local settings = require "celer.settings"
local snapshot = require "celer.data.snapshot"
local spaces = require "celer.space"
local types = require "celer.data.types"
local when = require "celer.submit.when"
local words = require "celer.words"

local fail = place.fail
local type, getmetatable, setmetatable = type, getmetatable, setmetatable
---@class celer.command_group
local Group = declare.Group
local is_access, open, over = declare.is_access, declare.open, declare.over
local label_of, effects_of, own_hints = declare.label_of, declare.effects_of, declare.own_hints
local take_flag, take, complete = declare.take_flag, declare.take, declare.complete
local flatten, home_of, refuse_division = declare.flatten, declare.home_of, declare.refuse_division
local tell_of_runs, of_all = declare.tell_of_runs, declare.of_all

-- Modules that few scripts need.
local function by_images() return require "celer.submit.image" end
local function by_routes() return require "celer.submit.route" end

local M = {}

local modes = core.facts.mode
local placing = core.facts.placement
local SPLIT, ONCE, EACH = placing.split, placing.once, placing.each
local OVERLAP = place.code "OVERLAP"
local unhinted, none, no_arguments = {}, {}, { n = 0 }
local undivided -- how work is divided without hints; made once settings are read

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
