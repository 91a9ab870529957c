--- alone.lua -- tasks whose groups tell each other what they have: for the one GPU of a run, which
--- has all of each buffer; or parts of buffers, of which each GPU has one.
local balance = require "celer.submit.balance"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local groups = require "celer.submit.group"
local kept = require "celer.submit.kept"
local kernels = require "celer.kernel.kernel"
local mapper = require "celer.mapper.builtin"
local nd_range = require "celer.kernel.nd_range"
local queues = require "celer.submit.queue"
local place = require "celer.place"
local ranks = require "celer.run.ranks"
local settings = require "celer.settings"
local types = require "celer.data.types"

local M = {}

--- Of specs: on the processor, too, where such tasks are slow; and what several GPUs do there.
M.always, M.always_shared = false, false

--- Whether there is one GPU.
---@return boolean
function M.is_alone()
  local backend, devices = core.devices()
  return (backend == "cuda" or M.always) and devices == 1 and ranks.ranks() == 1
end

--- Whether there are GPUs of one rank. Several ranks may have what others do not have, and must
--- submit the same tasks.
---@return boolean
function M.is_shared()
  return M.always_shared or core.devices() == "cuda" and ranks.ranks() == 1
end

--- Of specs: so many parts, whatever the devices.
M.always_parts = false

--- How many GPUs there are on all ranks, if all compute on such; else 0. The same on all ranks.
---@return integer
function M.gpus()
  if M.always_parts then return M.always_parts end
  local count = ranks.ranks()
  if count == 1 or core.dry() then
    local backend, devices = core.devices()
    return backend == "cuda" and count * devices or 0
  end
  return count * place.check(core.gpus())
end

-- Groups wait for each other, so none may be launched apart to be checked. Kernels with options
-- that begin with -f are not; these change nothing here. On the processor only specs run them.
local unsampled = { cpu = { "-fno-trapping-math", "-O1" }, cuda = { "-fmad=false" } }

local compiled = {} -- by source and what is put into it

--- The kernel of a source in which capital letters stand for `given`.
---@param source string
---@param given table<string, string>
---@param key string  tells what was given from all else that may be, for this source
---@return celer.kernel
function M.kernel(source, given, key)
  local of = compiled[source] or {}
  compiled[source] = of
  of[key] = of[key] or kernels.new((source:gsub("%f[%w]%u+%f[%W]", given)), { options = unsampled })
  return of[key]
end

--- Submits a kernel for `n` items, in groups of `group` or, without, alone: in one chunk, or for
--- so many parts, none of which is cut; each device's in so many runs.
---@param call string
---@param n integer
---@param group? integer
---@param kernel celer.kernel
---@param declare fun(cg: celer.command_group): ...
---@param parts? integer
---@param runs? integer
function M.run(call, n, group, kernel, declare, parts, runs)
  queues.run(call, function(cg)
    cg:name(call)
    cg:hint { granularity = n / (parts or 1), oversubscribe = runs }
    cg:parallel_for(group and nd_range.new(n, group) or { n }, kernel, declare(cg))
  end)
end

---@class celer.kept_run  what a kernel came to that comes again with buffers of the same shapes
---@field count? integer  submissions that went the long way
---@field task? celer.kept_task
---@field hints? any  and weights: those for which it holds
---@field weights? any

-- Declares accesses to all of buffers; gives them, and the values behind them.
local function declare(cg, modes, used, values)
  local given = {}
  for i = 1, #modes do given[i] = cg[modes[i]](cg, used[i], mapper.all) end
  for i = 1, #values do given[#modes + i] = values[i] end
  return unpack(given, 1, #modes + #values)
end

local function keep(run, call, n, group, kernel, modes, used, values)
  run.count = (run.count or 0) + 1
  if run.count < kept.PATIENCE or settings.looks then return end
  run.count, run.hints, run.weights = 0, queues.new().hints, balance.weights
  local cg = groups.new(run.hints)
  cg:name(call)
  cg:hint { granularity = n }
  run.task = kept.keep(cg, values, group and nd_range.new(n, group) or { n }, kernel,
    declare(cg, modes, used, values))
end

--- The same as M.run, with accesses to all of buffers. Of what comes again only the buffers and the
--- numbers of now are looked at.
---@param run celer.kept_run  of the caller, for one `n`, group, kernel, modes and shapes of
--- buffers; empty at first
---@param call string
---@param n integer
---@param group? integer
---@param kernel celer.kernel
---@param modes string[]  how the kernel accesses its buffers, in order
---@param used celer.buffer[]
---@param values any[]  that it is given behind these
function M.run_again(run, call, n, group, kernel, modes, used, values)
  queues.check_outside(call)
  local task = run.task
  if task and run.hints == queues.new().hints and run.weights == balance.weights
    and not settings.looks and kept.submit(task, used, values) then return end
  M.run(call, n, group, kernel, function(cg) return declare(cg, modes, used, values) end)
  keep(run, call, n, group, kernel, modes, used, values)
end

local MOST_SPARE = 2 ^ 30 -- bytes of a buffer that is kept

-- Buffers that nobody uses, for tasks that come again: to make a large one may take a collection
-- of Lua's, and the next collection takes these. On several ranks, which do not collect alike, they
-- stay as long as the buffer that they are for.
local spare = setmetatable({}, { __mode = "v" })
local spare_of = setmetatable({}, { __mode = "k" })

local function spare_for(owner)
  if ranks.ranks() == 1 then return spare end
  spare_of[owner] = spare_of[owner] or {}
  return spare_of[owner]
end

--- A buffer for what lasts as long as one call.
---@param element string|celer.type
---@param n? integer  nil: no dimensions
---@param owner? celer.buffer  what it is for; without one, of one rank
---@return celer.buffer
function M.scratch(element, n, owner)
  local type_, dims, list = types.find(element, "celer.buffer"), n and 1 or 0, spare_for(owner)
  for k, buffer in pairs(list) do
    if buffer.type == type_ and buffer.dims == dims and (dims == 0 or buffer.size[0] == n) then
      list[k] = nil
      return buffer
    end
  end
  return buffers.new(type_, { n })
end

--- Takes such a buffer back.
---@param buffer celer.buffer
---@param owner? celer.buffer
function M.done(buffer, owner)
  if buffer.bytes > MOST_SPARE then return buffer:free() end
  local list = spare_for(owner)
  list[#list + 1] = buffer
end

local clear = [[
kernel void clear(item<1> it, out<T, 1> words) { words(it[0]) = 0; }
]]

--- Such a buffer of zeros, which the device makes: an `init` would come from the host.
---@param call string
---@param element string
---@param n integer
---@param parts? integer  in which it is cut
---@param owner? celer.buffer
---@return celer.buffer
function M.zeros(call, element, n, parts, owner)
  local words = M.scratch(element, n, owner)
  queues.run(call, function(cg)
    cg:name(call)
    if parts then cg:hint { granularity = n / parts } end
    cg:parallel_for({ n }, M.kernel(clear, { T = element }, element), cg:discard_write(words))
  end)
  return words
end

return M
