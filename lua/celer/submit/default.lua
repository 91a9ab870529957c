--- default.lua -- the queue of a script that has no use for a name of it.
---
--- celer.wait(u) is celer.queue():wait(u), and so for the others.
local queues = require "celer.submit.queue"

local M = {}

--- Submits a command group: q:submit.
---@param f fun(cg: celer.command_group)
function M.submit(f) queues.new():submit(f) end

--- Submits a kernel: q:parallel_for.
---@param range integer[]|integer|celer.box|celer.nd_range
---@param kernel celer.kernel|celer.lua_kernel
---@param ... any
function M.parallel_for(range, kernel, ...) queues.new():parallel_for(range, kernel, ...) end

--- Submits a host task, which reads the buffers that it is given: q:host_task.
---@param where celer.placement|celer.collective|celer.box|integer[]|integer
---@param f fun(part: celer.part, ...)
---@param ... any
function M.host_task(where, f, ...) queues.new():host_task(where, f, ...) end

--- Submits a command group that is skipped where the flag is 0: q:when.
---@param flag celer.buffer
---@param what function|integer[]|integer|celer.box|celer.nd_range
---@param ... any
function M.when(flag, what, ...) queues.new():when(flag, what, ...) end

--- Waits until all that was submitted has been executed: q:wait.
---@param ... celer.capture|celer.buffer
---@return celer.view|celer.divided_snapshot ...
function M.wait(...) return queues.new():wait(...) end

--- Like wait, and ends the queue: q:drain. The next use has a new one.
---@param ... celer.capture|celer.buffer
---@return celer.view|celer.divided_snapshot ...
function M.drain(...) return queues.new():drain(...) end

--- A future of copies, as of now: q:fence.
---@param buffer celer.buffer|celer.capture
---@param part? celer.box|function|celer.buffer|celer.capture
---@param ... celer.capture|celer.buffer
---@return celer.future
function M.fence(buffer, part, ...) return queues.new():fence(buffer, part, ...) end

return M
