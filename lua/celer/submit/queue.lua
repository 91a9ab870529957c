--- queue.lua -- submitting command groups, and waiting for what they did.
local again = require "celer.submit.again"
local core = require "celer.core"
local buffers = require "celer.data.buffer"
local collective = require "celer.submit.collective"
local division = require "celer.submit.hints"
local groups = require "celer.submit.group"
local kernels = require "celer.kernel.kernel"
local mapper = require "celer.mapper.builtin"
local objects = require "celer.data.object"
local place = require "celer.place"
local placements = require "celer.submit.placement"
local prepared = require "celer.submit.prepared"
local recalled = require "celer.submit.recalled"
local settings = require "celer.settings"
local snapshot = require "celer.data.snapshot"
local each = require("celer.tables").each
local when = require "celer.submit.when"
local words = require "celer.words"

local fail = place.fail
local new_group, close_group = groups.new, groups.close
local type, getmetatable = type, getmetatable

local M = {}

---@class celer.queue
local Queue = {}
Queue.__index = Queue
Queue.__noun = "queue"

function Queue:__tostring() return self.drained and "queue (drained)" or "queue" end

function Queue.__capture(_, refuse)
  refuse("the queue", "; only the script submits work")
end

-- Whether a q:submit is under way: its frame is below the one that asks.
local function is_submitting()
  for level = 4, math.huge do
    local info = debug.getinfo(level, "f")
    if not info then return false end
    if info.func == Queue.submit or info.func == Queue.when then return true end
  end
end

local in_submit = false -- may be left behind by an error
local after_each -- see M.watch

--- Has `f` called after each submission and each request for copies.
---@param f fun()
function M.watch(f) after_each = f end

local function refuse_inside(call)
  fail("%s inside the function of a q:submit: a command group is one "
    .. "cg:parallel_for, cg:host_task or cg:interop_task", call)
end

local function usable(self, call)
  place.method(self, Queue, call)
  if self.drained then
    fail("%s: the queue was drained; celer.queue() gives a new one", call)
  elseif in_submit and is_submitting() then
    refuse_inside(call)
  end
end

--- Raises inside the function of a q:submit; for what is no method of the queue.
---@param call string  what the user called, by the caller of this
function M.check_outside(call)
  if in_submit and is_submitting() then refuse_inside(call) end
end

--- Runs what submits tasks of celer's own, also where a q:submit is under way.
---@param f fun(...: any)
---@param ... any
function M.beside(f, ...)
  local was = in_submit
  in_submit = false
  f(...)
  in_submit = was
end

--- Submits one command group: f declares accesses and work on it. In a loop f is not run
--- again where that cannot make a difference (recalled.lua).
---@param f fun(cg: celer.command_group)
function Queue:submit(f)
  if in_submit or getmetatable(self) ~= Queue or self.drained then usable(self, "q:submit") end
  if type(f) ~= "function" then
    fail("q:submit takes a function of the command group, not %s", words.a(f))
  end
  local submitted = recalled.submit(f, self.hints)
  if submitted then
    if after_each then after_each() end
    return
  end
  local group = new_group(self.hints)
  if settings.check_nan then group.watched = true end
  in_submit = true
  f(group)
  in_submit = false
  close_group(group)
  if submitted == nil then recalled.note(f, self.hints) end
  if after_each then after_each() end
end

--- Submits a command group of one kernel: for those written in Lua, which take buffers.
---@param range integer[]|integer|celer.box|celer.nd_range|celer.list
---@param kernel celer.kernel|celer.lua_kernel
---@param ... any  as of cg:parallel_for
function Queue:parallel_for(range, kernel, ...)
  if in_submit or getmetatable(self) ~= Queue or self.drained then
    usable(self, "q:parallel_for")
  end
  if not again.submit(kernel, self.hints, range, ...) then
    local group = new_group(self.hints)
    if settings.check_nan then group.watched = true end
    group:parallel_for(range, kernel, ...)
    close_group(group)
    if kernels.is_kernel(kernel) then again.note(kernel, self.hints, range, ...) end
  end
  if after_each then after_each() end
end

-- What a host task gets for one argument: of a buffer an access that reads.
local function read_of(group, where, argument)
  local is_buffer = buffers.is_buffer(argument)
  if not is_buffer and (words.a(argument) ~= "an access" or argument.mode) then return argument end
  local buffer, map = is_buffer and argument or argument.buffer, not is_buffer and argument.map
  if not map and collective.is_collective(where) then
    fail("q:host_task: each rank is called, and nothing says what of %s it reads: give "
      .. "celer.access(buffer, celer.even_split), or celer.all", buffer.name)
  end
  return group:read(buffer, map or placements.is_placement(where) and mapper.all or nil)
end

--- Submits a command group of one host task, cg:host_task, which reads the buffers that it is
--- given: where it runs on one rank all of each, and of a range that is divided what lies at its
--- part's coordinates; celer.access(buffer, mapper) says another part.
---@param where celer.placement|celer.collective|celer.box|integer[]|integer
---@param f fun(part: celer.part, ...)
---@param ... any  buffers and plain values, passed to f after its part
function Queue:host_task(where, f, ...)
  usable(self, "q:host_task")
  local group, arguments, n = new_group(self.hints), { ... }, select("#", ...)
  if settings.check_nan then group.watched = true end
  for k = 1, n do arguments[k] = read_of(group, where, arguments[k]) end
  group:host_task(where, f, unpack(arguments, 1, n))
  close_group(group)
  if after_each then after_each() end
end

--- Submits a command group that is skipped where the flag is 0 when its turn comes: a kernel,
--- as q:parallel_for takes it, or a function of the command group, as q:submit does. What it
--- would have written stays as it was then.
---@param flag celer.buffer  a bool or an integer without dimensions
---@param what function|integer[]|integer|celer.box|celer.nd_range
---@param ... any
function Queue:when(flag, what, ...)
  usable(self, "q:when")
  when.check(flag, "q:when")
  local group = new_group(self.hints)
  if settings.check_nan then group.watched = true end
  group:when(flag)
  if type(what) == "function" then
    in_submit = true
    what(group)
    in_submit = false
  else
    group:parallel_for(what, ...)
  end
  close_group(group)
  if after_each then after_each() end
end

--- Gives a function that submits a command group each time it is called, with its own
--- arguments for f behind cg: `step(u, v, 3)` does what `q:submit(function(cg) f(cg, u, v, 3)
--- end)` does. Where f only declares a kernel, from buffers and numbers, celer does not run
--- it again but submits what it came to; then a call costs half of that or less.
---@param f fun(cg: celer.command_group, ...: any)
---@return fun(...: any) step
function Queue:group(f)
  usable(self, "q:group")
  if type(f) ~= "function" then
    fail("q:group takes a function of the command group, not %s", words.a(f))
  end
  local group = prepared.new(f)
  return function(...)
    if in_submit or self.drained then usable(self, "a group of q:group") end
    if not prepared.submit(group, self.hints, ...) then
      local n, arguments = select("#", ...), { ... }
      arguments.n = n
      self:submit(function(cg) f(cg, unpack(arguments, 1, n)) end)
      prepared.note(group, self.hints, arguments)
    elseif after_each then
      after_each()
    end
  end
end

--- Hints for all command groups that are submitted from now on, unless they ask
--- for something else by cg:hint.
---@param hints celer.hints  all but the granularity and the place
function Queue:hint(hints)
  usable(self, "q:hint")
  if type(hints) == "table" and hints.granularity ~= nil then
    fail("q:hint: the granularity depends on the work: give it by cg:hint")
  elseif type(hints) == "table" and hints.place ~= nil then
    fail("q:hint: the place depends on the work: give it by cg:hint")
  end
  local all = {}
  for key, value in each(self.hints or {}) do all[key] = value end
  division.add(all, hints, "q:hint")
  self.hints = all
end

-- Turns arguments into a requested future.
local function request(call, n, ...)
  local captures = {}
  for i = 1, n do captures[i] = snapshot.as_capture((select(i, ...)), call, i) end
  local future = snapshot.request(captures)
  if after_each then after_each() end
  return future
end

local function finish(future)
  local file, line = place.user()
  place.check(core.wait(file, line))
  return future:get()
end

--- Waits until all that was submitted has been executed; gives a snapshot for
--- each capture, and what list:get() gives for each list.
---@param ... celer.capture|celer.buffer|celer.list
---@return celer.view|celer.divided_snapshot|table<integer, any[]> ...
function Queue:wait(...)
  usable(self, "q:wait")
  kernels.settle() -- a mistake comes up now, though the kernel was not used yet
  return finish(request("q:wait", select("#", ...), ...))
end

--- Like wait, and the queue takes nothing afterwards; celer.queue() gives a new one.
---@param ... celer.capture|celer.buffer|celer.list
---@return celer.view|celer.divided_snapshot|table<integer, any[]> ...
function Queue:drain(...)
  usable(self, "q:drain")
  kernels.settle()
  local future = request("q:drain", select("#", ...), ...)
  self.drained = true
  return finish(future)
end

--- A future of copies, as of now; submission goes on. Takes captures as q:wait
--- does, or a buffer and its part as celer.capture does.
---@param buffer celer.buffer|celer.capture|celer.list
---@param part? celer.box|function|celer.buffer|celer.capture|celer.list
---@param ... celer.capture|celer.buffer|celer.list
---@return celer.future
function Queue:fence(buffer, part, ...)
  usable(self, "q:fence")
  local n = select("#", ...)
  if snapshot.is_capture(buffer) or (snapshot.is_source(buffer)
    and (snapshot.is_source(part) or snapshot.is_capture(part))) then
    return request("q:fence", part == nil and n == 0 and 1 or n + 2, buffer, part, ...)
  end
  if not snapshot.is_source(buffer) then buffers.check(buffer, "q:fence") end
  return request("q:fence", 1, snapshot.capture(buffer, part))
end

local the_queue

--- The queue of this run; there is one at a time, a new one after a drain.
---@return celer.queue
function M.new()
  if not the_queue or the_queue.drained then
    the_queue = setmetatable({ hints = false, drained = false }, Queue)
    recalled.forget()
  end
  return the_queue
end

function M.is_queue(value) return getmetatable(value) == Queue end

--- Submits a command group of our own: `call` is what the user called.
---@param call string
---@param f fun(cg: celer.command_group)
function M.run(call, f)
  local queue = M.new()
  usable(queue, call)
  local group = new_group(queue.hints)
  f(group)
  close_group(group)
end

--- Executes what a script left behind, and agrees with all ranks on the end, which is
--- the user's os.exit where there is one.
function M.finish()
  kernels.settle()
  snapshot.settle()
  -- A rank without work goes on where others have some: they would wait for it.
  if not place.check(core.works()) then return end
  local file, line = place.user()
  -- Destructors may still do something, on each rank that made its object.
  if objects.end_all() or not (the_queue and the_queue.drained) then
    place.check(core.wait(file, line))
  end
  place.check(core.finish(file, line))
end

words.methods(Queue)

return M
