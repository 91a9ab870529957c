--- queue.lua -- command groups: declare what is touched, then submit work.
local core = require "celer.core"
local box = require "celer.box"
local buffers = require "celer.buffer"
local capture = require "celer.capture"
local kernels = require "celer.kernel"
local mapper = require "celer.mapper"
local place = require "celer.place"
local rules = require "celer.rules"
local snapshot = require "celer.snapshot"

local M = {}

-- cel_mode, in task.h's order.
local modes = { read = 0, write = 1, discard_write = 2, read_write = 3 }
-- cel_placement.
local SPLIT, ONCE = 0, 1

---@class celer.access
---@field buffer celer.buffer
---@field mode string
local Access = {}
Access.__index = Access

local function is_access(value) return getmetatable(value) == Access end

function Access.__call(access)
  place.fail("the access to %s can be used inside kernels and host tasks only: "
    .. "pass it as an argument", access.buffer.name)
end

function Access.__capture(access, refuse)
  refuse(("an access to %s"):format(access.buffer.name),
    "; pass it as an argument after the function")
end

---@class celer.command_group
local Group = {}
Group.__index = Group

local function declare(self, mode, buffer, map)
  if not buffers.is_buffer(buffer) then
    place.fail("cg:%s: the first argument must be a buffer, not a %s", mode,
      type(buffer))
  end
  if core.buffer_freed(buffer.handle) then
    place.fail("cg:%s: the buffer %s was freed", mode, buffer.name)
  end
  if map ~= nil and type(map) ~= "function" then
    place.fail("cg:%s: the range mapper must be a function such as "
      .. "celer.one_to_one, not a %s", mode, type(map))
  end
  local access = setmetatable({ buffer = buffer, mode = mode,
    map = map or mapper.one_to_one, group = self }, Access)
  self[#self + 1] = access
  return access
end

--- Reads the part that the mapper gives for each chunk.
---@param buffer celer.buffer
---@param map? function  range mapper; default celer.one_to_one
---@return celer.access
function Group:read(buffer, map) return declare(self, "read", buffer, map) end

--- Writes some of it and keeps what is not overwritten.
function Group:write(buffer, map) return declare(self, "write", buffer, map) end

--- Writes all of it; what was there before need not be kept.
function Group:discard_write(buffer, map)
  return declare(self, "discard_write", buffer, map)
end

--- Reads it, then writes it.
function Group:read_write(buffer, map)
  return declare(self, "read_write", buffer, map)
end

--- Names the task, for messages and graphs.
function Group:name(text) self.label = text end

--- How the work may be divided: granularity = n cuts at multiples of n.
function Group:hint(hints)
  for key, value in pairs(hints) do
    if key ~= "granularity" then
      place.fail("cg:hint: unknown hint '%s'; there is granularity",
        tostring(key))
    end
    local n = type(value) == "table" and value[1] or value
    if type(n) ~= "number" or n < 1 or n % 1 ~= 0 then
      place.fail("cg:hint: granularity must be a whole number of at least 1")
    end
    self.granularity = n
  end
end

-- Dimensions and bounds of an index space: {n, m}, n, or a box with an offset.
local function index_space(range, what)
  if type(range) == "number" then range = { range } end
  if box.is_box(range) then
    local lo, hi = box.bounds(range)
    return #lo, lo, hi
  end
  if type(range) ~= "table" or #range > 3 then
    place.fail("%s: the range must be a table of at most 3 extents, or a "
      .. "celer.box for one with an offset", what)
  end
  for d, n in ipairs(range) do
    if type(n) ~= "number" or n % 1 ~= 0 or n < 0 then
      place.fail("%s: extent %d of the range must be a whole number that is not "
        .. "negative, not %s", what, d, tostring(n))
    end
  end
  return #range, { 0, 0, 0 }, range
end

-- Flat words for the core: per access buffer, mode, rule, parameters.
local function flatten(accesses, dims, lo, hi)
  local words, n = {}, 0
  for i = 1, #accesses do
    local access = accesses[i]
    local rule, params = rules.bind(access, dims, lo, hi)
    words[n + 1] = access.buffer.handle
    words[n + 2] = modes[access.mode]
    words[n + 3] = rule
    n = n + 3
    for p = 1, #params do
      n = n + 1
      words[n] = params[p]
    end
  end
  return words, n
end

-- `used` in order, then those that were declared and not passed on.
local function complete(self, used)
  local seen = {}
  for _, access in ipairs(used) do
    if access.group ~= self then
      place.fail("the access to %s belongs to another command group",
        access.buffer.name)
    elseif seen[access] then
      place.fail("the access to %s is passed twice", access.buffer.name)
    end
    seen[access] = true
  end
  for i = 1, #self do
    if not seen[self[i]] then used[#used + 1] = self[i] end
  end
  return used
end

local function begin(self, what)
  if self.done then
    place.fail("%s: this command group has its work already; a group is one "
      .. "parallel_for or one host_task", what)
  end
  self.done = true
end

--- Runs a kernel once per item of the range.
---@param range integer[]|integer|celer.box
---@param kernel celer.kernel
---@param ... any  accesses and values, as the kernel's parameters want them
function Group:parallel_for(range, kernel, ...)
  begin(self, "cg:parallel_for")
  if not kernels.is_kernel(kernel) then
    place.fail("cg:parallel_for: the second argument must be a kernel%s",
      type(kernel) == "table" and "; the source has several, name one" or "")
  end
  local dims, lo, hi = index_space(range, "cg:parallel_for")
  local used, values = kernels.arguments(kernel, dims, is_access,
    select("#", ...), ...)
  local words, n = flatten(complete(self, used), dims, lo, hi)
  local file, line = place.user()
  place.check(core.submit_kernel(SPLIT, dims, lo[1] or 0, lo[2] or 0, lo[3] or 0,
    hi[1] or 1, hi[2] or 1, hi[3] or 1, self.granularity or 1, dims > 0, words, n,
    self.label or kernel.name, file, line, kernel.module, kernel.index, values))
end

M.once = setmetatable({}, { __tostring = function() return "celer.once" end })
M.on_master = setmetatable({},
  { __tostring = function() return "celer.on_master" end })

-- Placeholders for accesses among a host task's arguments, and what the lane
-- must know of each access.
local function host_arguments(accesses, n, ...)
  local index, metas = {}, {}
  for i, access in ipairs(accesses) do
    index[access] = i
    metas[i] = { name = access.buffer.name, dims = access.buffer.dims,
      type = access.buffer.type.name, writable = access.mode ~= "read" }
  end
  local arguments = { n = n }
  for i = 1, n do
    local argument = (select(i, ...))
    arguments[i] = is_access(argument) and index[argument]
      and capture.view(index[argument]) or argument
  end
  return arguments, metas
end

--- Runs a Lua function off the main thread.
---@param where any  celer.once, celer.on_master, or a range to be divided
---@param f fun(part: celer.part, ...)
---@param ... any  accesses and plain values, passed to f after its part
function Group:host_task(where, f, ...)
  begin(self, "cg:host_task")
  if type(f) ~= "function" then
    place.fail("cg:host_task: the second argument must be a function")
  end
  local single = where == M.once or where == M.on_master
  local dims, lo, hi
  if single then dims, lo, hi = 0, { 0, 0, 0 }, { 1, 1, 1 }
  else dims, lo, hi = index_space(where, "cg:host_task") end
  local used, n = {}, select("#", ...)
  for i = 1, n do
    local argument = (select(i, ...))
    if is_access(argument) then used[#used + 1] = argument end
  end
  local accesses = complete(self, used)
  local arguments, metas = host_arguments(accesses, n, ...)
  local blob, identity = capture.encode(f, arguments, { accesses = metas })
  local words, count = flatten(accesses, dims, lo, hi)
  local file, line = place.user()
  place.check(core.submit_host(single and ONCE or SPLIT, dims, lo[1] or 0,
    lo[2] or 0, lo[3] or 0, hi[1] or 1, hi[2] or 1, hi[3] or 1,
    self.granularity or 1, dims > 0, words, count, self.label or "host task",
    file, line, blob, identity))
end

---@class celer.queue
local Queue = {}
Queue.__index = Queue

local function usable(self, what)
  if self.drained then
    place.fail("%s: the queue was drained; nothing can be submitted after that",
      what)
  end
end

--- Submits one command group: f declares accesses and work on it.
---@param f fun(cg: celer.command_group)
function Queue:submit(f)
  usable(self, "q:submit")
  local group = setmetatable({}, Group)
  f(group)
  if not group.done then
    place.fail("q:submit: the command group has no work; call cg:parallel_for or "
      .. "cg:host_task in it")
  end
end

-- Turns the arguments of wait and drain into requested futures.
local function request(what, n, ...)
  local futures = {}
  for i = 1, n do
    local c = (select(i, ...))
    if buffers.is_buffer(c) then c = snapshot.capture(c) end
    if not snapshot.is_capture(c) then
      place.fail("%s: argument %d must be celer.capture(buffer, box)", what, i)
    end
    futures[i] = snapshot.request(c)
  end
  return futures
end

local function finish(futures)
  local file, line = place.user()
  place.check(core.wait(file, line))
  for i = 1, #futures do futures[i] = futures[i]:get() end
  return unpack(futures)
end

--- Waits until all that was submitted has been executed; gives a snapshot for
--- each capture.
function Queue:wait(...)
  usable(self, "q:wait")
  return finish(request("q:wait", select("#", ...), ...))
end

--- Like wait, and nothing may be submitted afterwards.
function Queue:drain(...)
  usable(self, "q:drain")
  local futures = request("q:drain", select("#", ...), ...)
  self.drained = true
  return finish(futures)
end

--- A future of a copy of (a box of) a buffer; submission goes on.
---@return celer.future
function Queue:fence(buffer, part)
  usable(self, "q:fence")
  return snapshot.request(snapshot.capture(buffer, part))
end

local the_queue

--- The queue of this run; there is one.
---@return celer.queue
function M.new()
  if not the_queue or the_queue.drained then
    the_queue = setmetatable({}, Queue)
  end
  return the_queue
end

--- Executes what a script left behind, and agrees with all ranks on the end.
function M.finish()
  if not core.started() then return end
  if not (the_queue and the_queue.drained) then place.check(core.wait()) end
  place.check(core.finish())
end

return M
