--- submit.lua -- what a command group costs the script's thread.
---
---   celer run spec/bench/submit.lua [nojit]
---
--- A kernel with two accesses, submitted by a closure made anew each time; `fresh`:
--- its range mapper is a new closure, too; `changing`: that captures a number which
--- changes in every step; `same`: nothing but the group is new. Microseconds of
--- processor time of that thread, the best of some rounds. A round is of batches so
--- small that the script never has to wait until some of it has been executed: it waits
--- between them, which does not count. Where it has too few cores they hold what it
--- takes to wake the scheduler, else nobody sleeps. The last line is JSON.
local ffi = require "ffi"
local celer = require "celer"

if arg[1] == "nojit" then jit.off() end

local N, ROUNDS, BATCHES, TASKS = 64, 12, 84, 24
local THREAD = 3 -- CLOCK_THREAD_CPUTIME_ID

ffi.cdef [[
struct celer_bench_time { long seconds, nanoseconds; };
int clock_gettime(int clock, struct celer_bench_time *out);
]]
local time = ffi.new("struct celer_bench_time")

local function now()
  ffi.C.clock_gettime(THREAD, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) * 1e-9
end

local q = celer.queue()
local u = celer.buffer("float", { N }, { name = "u", init = function() return 0 end })
local v = celer.buffer("float", { N }, { name = "v", init = function() return 0 end })
local copy = celer.kernel [[
  kernel void copy(item<1> it, in<float, 1> u, out<float, 1> v) { v(it[0]) = u(it[0]); }
]]

local function turn(i)
  if i % 2 == 0 then return u, v end
  return v, u
end

local ways = {}

function ways.fresh(i)
  local from, to = turn(i)
  q:submit(function(cg)
    local r = cg:read(from, function(chunk) return chunk:grow(1) end)
    local w = cg:discard_write(to)
    cg:parallel_for({ N }, copy, r, w)
  end)
end

function ways.changing(i)
  local from, to = turn(i)
  q:submit(function(cg)
    local r = cg:read(from, function(chunk) return chunk:grow(i) end)
    local w = cg:discard_write(to)
    cg:parallel_for({ N }, copy, r, w)
  end)
end

local near = celer.neighborhood(1)

function ways.same(i)
  local from, to = turn(i)
  q:submit(function(cg)
    cg:parallel_for({ N }, copy, cg:read(from, near), cg:discard_write(to))
  end)
end

local function round(way)
  local sum = 0
  for _ = 1, BATCHES do
    q:wait()
    local start = now()
    for i = 1, TASKS do way(i) end
    sum = sum + now() - start
  end
  return sum / BATCHES / TASKS * 1e6
end

local function measure(way)
  local best = math.huge
  for _ = 1, ROUNDS do best = math.min(best, round(way)) end
  return best
end

print(('{"jit": %s, "fresh": %.2f, "changing": %.2f, "same": %.2f}'):format(
  jit.status() and "true" or "false", measure(ways.fresh), measure(ways.changing),
  measure(ways.same)))
q:drain()
