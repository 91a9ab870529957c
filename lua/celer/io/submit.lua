--- submit.lua -- the tasks by which all ranks write a file, or several.
---
---   begin    rank 0       makes the files, under a name that no other run uses
---   write    all ranks    their parts of each buffer; into `sums` goes a hash of
---                         each block
---   sync     all ranks    waits for the disk (checkpoints); has come here (files)
---   commit   rank 0       reads all sums, so it runs when all have written;
---                         gives what was written its name
---   end      all ranks    read what commit wrote, so that q:wait waits for it
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local placement = require "celer.submit.placement"
local mapper = require "celer.mapper.builtin"
local order = require "celer.io.order"
local plans = require "celer.io.plan"
local queues = require "celer.submit.queue"
local tasks = require "celer.io.tasks"

local M = {}

--- One of the tasks: `declare(cg)` gives where it runs, its function and its
--- arguments.
function M.task(call, name, declare)
  queues.run(call, function(cg)
    cg:name(call .. ": " .. name)
    cg:host_task(declare(cg))
  end)
end

-- The blocks of each rank, one task per buffer; the hashes that they leave.
local function write_parts(call, f, jobs, slot, path, places)
  local out = {}
  for i, job in ipairs(jobs) do
    local plan = job.plan
    out[i] = plans.sums(plan, call)
    M.task(call, "write", function(cg)
      cg:hint { granularity = plan.step }
      return { plan.n }, f, cg:read(job.buffer, plans.rows(plan)), order.read(cg, slot),
        cg:discard_write(out[i], plans.per_block(plan)), slot, path, plan,
        places and cg:read(places, mapper.all)
    end)
  end
  return out
end

-- Accesses that read all of each.
local function read_all(cg, list)
  local out = {}
  for i, one in ipairs(list) do out[i] = cg:read(one, mapper.all) end
  return out
end
M.read_all = read_all

-- A range with an item for each rank, whatever weights the script has given them.
local function each_rank(cg)
  cg:hint { weights = "equal" }
  return { (select(2, core.rank())) }
end

-- Once on each rank, after what writes `reads`; what it gives has an element of
-- each.
local function everyone(call, f, reads, slot, path, plan_list)
  local _, ranks = core.rank()
  local out = buffers.new("uint8_t", { ranks }, { name = call })
  M.task(call, "sync", function(cg)
    return each_rank(cg), f, order.read(cg, slot), cg:discard_write(out), slot, path,
      plan_list, unpack(read_all(cg, reads))
  end)
  return out
end

--- One task on rank 0 that replaces a file, when all ranks have come to it: what
--- they have loaded from it before is not to be that of after. `declare` passes on
--- the two accesses that it gets.
function M.replace(call, name, path, declare)
  local slot = order.slot(path)
  local here = everyone(call, tasks.here, {}, slot)
  M.task(call, name, function(cg)
    return placement.on_master, declare(cg, order.write(cg, slot), cg:read(here, mapper.all))
  end)
  M.finish(call, slot)
  here:free()
end

--- On all ranks, after all that was submitted for the path.
function M.finish(call, slot)
  M.task(call, "end", function(cg)
    return each_rank(cg), tasks.seen, order.read(cg, slot)
  end)
end

---@class celer.io.job
---@field buffer celer.buffer
---@field plan celer.io.plan

--- Submits them. `extra` goes to begin and commit; `places`, if any, get what begin says
--- to the ranks that write.
---@param call string  for messages: "celer.io.save"
---@param path string
---@param jobs celer.io.job[]
---@param steps {begin: function, write: function, sync: function, commit: function}
---@param places celer.buffer?
function M.write(call, path, jobs, steps, extra, places)
  local slot, plan_list = order.slot(path), {}
  for i, job in ipairs(jobs) do plan_list[i] = job.plan end
  M.task(call, "begin", function(cg)
    return placement.on_master, steps.begin, order.write(cg, slot), slot, path, plan_list, extra,
      places and cg:discard_write(places, mapper.all)
  end)
  local sums = write_parts(call, steps.write, jobs, slot, path, places)
  local all = { unpack(sums) }
  all[#all + 1] = everyone(call, steps.sync, sums, slot, path, plan_list)
  M.task(call, "commit", function(cg)
    local reads = read_all(cg, all)
    return placement.on_master, steps.commit, order.write(cg, slot), slot, path, plan_list,
      extra, unpack(reads)
  end)
  M.finish(call, slot)
  for _, one in ipairs(all) do one:free() end
end

return M
