--- submit.lua -- the tasks by which all ranks write a file, or several.
---
---   begin    rank 0       makes the files, under a name that no other run uses
---   write    all ranks    their parts of each buffer; into `sums` goes a hash of
---                         each block
---   sync     all ranks    the parts are on disk (checkpoints)
---   commit   rank 0       reads all sums, so it runs when all have written;
---                         gives what was written its name
---   end      all ranks    read what commit wrote, so that q:wait waits for it
local core = require "celer.core"
local groups = require "celer.group"
local mapper = require "celer.mapper"
local order = require "celer.io.order"
local plans = require "celer.io.plan"
local queues = require "celer.queue"
local tasks = require "celer.io.tasks"

local M = {}

--- One of the tasks: `declare(cg)` gives where it runs, its function and its
--- arguments.
function M.task(call, name, declare)
  queues.new():submit(function(cg)
    cg:name(call .. ": " .. name)
    cg:host_task(declare(cg))
  end)
end

-- The blocks of each rank, one task per buffer; the hashes they leave.
local function each_part(call, name, f, from, jobs, slot, path)
  local out = {}
  for i, job in ipairs(jobs) do
    local plan = job.plan
    out[i] = plans.sums(plan, call)
    M.task(call, name, function(cg)
      cg:hint { granularity = plan.step }
      local source = from and cg:read(from[i], plans.per_block(plan))
        or cg:read(job.buffer, plans.rows(plan))
      return { plan.n }, f, source, order.read(cg, slot),
        cg:discard_write(out[i], plans.per_block(plan)), slot, path, plan
    end)
  end
  return out
end

--- On all ranks, after all that was submitted for the path.
function M.finish(call, slot)
  local _, ranks = core.rank()
  M.task(call, "end", function(cg) return { ranks }, tasks.seen, order.read(cg, slot) end)
end

---@class celer.io.job
---@field buffer celer.buffer
---@field plan celer.io.plan

--- Submits them. `steps` has the functions begin, write, commit, and sync if there
--- is one; `extra` goes to begin and commit.
---@param call string  for messages: "celer.io.save"
---@param path string
---@param jobs celer.io.job[]
---@param steps {begin: function, write: function, sync: function?, commit: function}
function M.write(call, path, jobs, steps, extra)
  local slot, plan_list = order.slot(path), {}
  for i, job in ipairs(jobs) do plan_list[i] = job.plan end
  M.task(call, "begin", function(cg)
    return groups.on_master, steps.begin, order.write(cg, slot), slot, path, plan_list, extra
  end)
  local sums = each_part(call, "write", steps.write, nil, jobs, slot, path)
  local done = steps.sync and each_part(call, "sync", steps.sync, sums, jobs, slot, path)
    or sums
  M.task(call, "commit", function(cg)
    local reads = {}
    for i, one in ipairs(done) do reads[i] = cg:read(one, mapper.all) end
    return groups.on_master, steps.commit, order.write(cg, slot), slot, path, plan_list,
      extra, unpack(reads)
  end)
  M.finish(call, slot)
  for i, one in ipairs(sums) do
    one:free()
    if done ~= sums then done[i]:free() end
  end
end

return M
