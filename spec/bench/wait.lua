--- wait.lua -- what q:wait() costs beside an MPI_Barrier, in one run.
---
---   [mpirun -n 2] celer run spec/bench/wait.lua [rounds]
---
--- `barrier`: MPI_Barrier over and over, in a collective host task. `wait`: an epoch
--- and until all ranks have reached it, with nothing else to do, over and over, on all
--- ranks at once. `together`: the same with a collective task that is a barrier. `task`:
--- a kernel of one item, then q:wait; `fence`: a copy of one element for the script. In
--- microseconds, medians of batches; on an idle machine with at least four cores per
--- rank, else they hold what threads wait for each other. The last line is JSON.
local celer = require "celer"
local core = require "celer.core"

local BATCHES = 20
local rounds = math.ceil((tonumber(arg[1]) or 20000) / BATCHES)
local _, ranks = core.rank()
local q = celer.queue()

-- Microseconds of one of `rounds` calls, the median of batches.
local function measure(call)
  local took = {}
  for i = 1, BATCHES do
    local start = celer.time()
    for _ = 1, rounds do call() end
    took[i] = (celer.time() - start) / rounds * 1e6
  end
  table.sort(took)
  return took[BATCHES / 2]
end

local result = celer.buffer("double", { ranks }, { name = "result" })
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part, took)
    local comm = part.comm
    local function barrier() comm:barrier() end
    barrier()
    took[part.rank] = measure(barrier)
  end, cg:discard_write(result))
end)
local barrier = q:wait(result)[0]

local function meet()
  q:submit(function(cg)
    cg:host_task(celer.collective(), function(part) part.comm:barrier() end)
  end)
  q:wait()
end
meet()
local wait = measure(function() q:wait() end)
meet()
rounds = math.ceil(rounds / 10)
local together = measure(meet)

local count = celer.buffer("int64_t", { 1 }, { name = "count", init = 0 })
local kernel = celer.kernel "kernel void one(item<1> it, inout<int64_t, 1> n) { n(0) += 1; }"
local function task()
  q:submit(function(cg) cg:parallel_for({ 1 }, kernel.one, cg:read_write(count)) end)
  q:wait()
end
local function fence() q:wait(count) end
task()
fence()
local tasks, fences = measure(task), measure(fence)

print(('{"ranks": %d, "barrier": %.2f, "wait": %.2f, "together": %.2f, "task": %.2f, '
  .. '"fence": %.2f, "wait_over_barrier": %.2f}'):format(ranks, barrier, wait, together, tasks,
    fences, wait - barrier))
