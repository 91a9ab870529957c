--- chain.lua -- a chain of 10 host tasks ordered by side effects, with its wait.
---
---   mpirun -n 2 celer run spec/bench/chain.lua [rounds]
---
--- Draws figure 6 of seed 000: `effects`: ten empty tasks of every rank on one host
--- object, then q:wait; `barriers`: the same ten with a q:wait after each instead;
--- `wait`: one q:wait alone. In microseconds, medians of batches; on an idle machine
--- with at least four cores per rank, else they hold what threads wait for each
--- other. The last line is JSON.
local celer = require "celer"
local core = require "celer.core"

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

-- Microseconds of one of `n` calls, the median of batches.
local function measure(n, call)
  local took = {}
  for i = 1, BATCHES do
    local start = celer.time()
    for _ = 1, n do call() end
    took[i] = (celer.time() - start) / n * 1e6
  end
  table.sort(took)
  return took[BATCHES / 2]
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
local effects = measure(rounds, chain_of(chained))
local memory = measure(rounds, chain_of(shared))
local barriers = measure(math.ceil(rounds / 5), waited)
local waits = measure(rounds, wait)

print(('{"ranks": %d, "effects": %.2f, "plain_memory": %.2f, "barriers": %.2f, '
  .. '"wait": %.2f, "barriers_over_effects": %.2f}'):format(ranks, effects, memory,
  barriers, waits, barriers / effects))
q:drain()
