--- chain.lua -- a chain of 10 host tasks ordered by side effects, with its wait.
---
---   mpirun -n 2 celer run spec/bench/chain.lua [rounds]
---
--- Draws figure 6 of Knorr et al., Declarative Data Flow: `effects`: ten empty tasks of every
--- rank on one host
--- object, then q:wait; `barriers`: the same ten with a q:wait after each instead;
--- `wait`: one q:wait alone. In microseconds, medians of batches: what a chain takes
--- where there are many, with what Lua collects now and then, on whichever rank;
--- `single` and `single_wait` are the medians of each alone. On an idle machine with at
--- least four cores per rank, else they hold what threads wait for each other. By each
--- rank's own clock: celer.time asks rank 0, in a task and a wait. The last line is JSON.
local celer = require "celer"
local core = require "celer.core"
local time = core.time

local BATCHES, TASKS = 20, 10
local rounds = math.ceil((tonumber(arg[1]) or 4000) / BATCHES)
local _, ranks = core.rank()
local q = celer.queue()
local o = celer.host_object(function() return {} end, { name = "chained" })
local plain = celer.host_object("struct { int32_t n; }", { name = "plain" })

local function nothing() end
local function on(object)
  return function(cg) cg:host_task({ ranks }, nothing, cg:side_effect(object)) end
end
local chained, shared = on(o), on(plain)
local function alone(cg) cg:host_task({ ranks }, nothing) end

local function median(list)
  table.sort(list)
  return list[math.ceil(#list / 2)]
end

-- Microseconds of one of `n` calls, the median of batches; and of all calls.
local function measure(n, call)
  local took, single = {}, {}
  for i = 1, BATCHES do
    local start = time()
    local last = start
    for _ = 1, n do
      call()
      local now = time()
      single[#single + 1] = (now - last) * 1e6
      last = now
    end
    took[i] = (last - start) / n * 1e6
  end
  return median(took), median(single)
end

local function chain_of(task)
  return function()
    for _ = 1, TASKS do q:submit(task) end
    q:wait()
  end
end

local function waited()
  for _ = 1, TASKS do
    q:submit(alone)
    q:wait()
  end
end

local function wait() q:wait() end

for _, call in ipairs { chain_of(chained), chain_of(shared), waited, wait } do
  for _ = 1, 100 do call() end -- until all is compiled and everybody awake
end
local effects, single = measure(rounds, chain_of(chained))
local memory = measure(rounds, chain_of(shared))
local barriers = measure(math.ceil(rounds / 5), waited)
local waits, single_wait = measure(rounds, wait)

print(('{"ranks": %d, "effects": %.2f, "plain_memory": %.2f, "barriers": %.2f, '
  .. '"wait": %.2f, "single": %.2f, "single_wait": %.2f, "barriers_over_effects": %.2f}')
  :format(ranks, effects, memory, barriers, waits, single, single_wait,
    barriers / effects))
q:drain()
