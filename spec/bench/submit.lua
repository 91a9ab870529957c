--- submit.lua -- what a command group costs the script's thread.
---
---   celer run spec/bench/submit.lua [nojit] [rounds]
---
--- A kernel with two accesses, submitted by a closure made anew each time; `fresh`:
--- its range mapper is a new closure, too; `changing`: that captures a number which
--- changes in every step; `box`: the range, a box, changes in every step; `same`: nothing
--- but the group is new; `prepared`: a function of q:group with the buffers as arguments.
--- `accesses`: kernels with none, one, two and four. `host`: a host task by the same
--- function, a fresh closure, the same function with another number each time, and a
--- closure that captures that. Microseconds of processor time of that thread, the best of
--- some rounds. A round is of batches so small that the script never has to wait until
--- some of it has been executed: it waits between them, which does not count. Where it has
--- too few cores they hold what it takes to wake the scheduler, else nobody sleeps.
---
--- `lane`: the processor time that such host tasks take of the lanes, where many follow
--- each other. The last line is JSON.
local ffi = require "ffi"
local celer = require "celer"

local N, BATCHES, TASKS, MANY = 64, 84, 24, 1000
local THREAD = 3 -- CLOCK_THREAD_CPUTIME_ID

local rounds = 12
for _, word in ipairs(arg) do
  if word == "nojit" then jit.off() else rounds = assert(tonumber(word)) end
end

ffi.cdef [[
struct celer_bench_time { long seconds, nanoseconds; };
int clock_gettime(int clock, struct celer_bench_time *out);
int getpid(void);
]]
local time = ffi.new("struct celer_bench_time")

-- Seconds that a thread has computed: this one, unless it is given another's clock.
local function now(clock)
  ffi.C.clock_gettime(clock or THREAD, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) * 1e-9
end

local q = celer.queue()
local u = celer.buffer("float", { N }, { name = "u", init = function() return 0 end })
local v = celer.buffer("float", { N }, { name = "v", init = function() return 0 end })
local k = celer.kernel [[
  kernel void copy(item<1> it, in<float, 1> u, out<float, 1> v) { v(it[0]) = u(it[0]); }
  kernel void none(item<1> it) {}
  kernel void one(item<1> it, in<float, 1> a) {}
  kernel void four(item<1> it, in<float, 1> a, in<float, 1> b, in<float, 1> c,
                   in<float, 1> d) {}
]]
local copy = k.copy

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

function ways.box(i)
  local from, to = turn(i)
  q:submit(function(cg)
    local r = cg:read(from, function(chunk) return chunk:grow(1) end)
    cg:parallel_for(celer.box({ i % 16 }, { N }), copy, r, cg:discard_write(to))
  end)
end

local near = celer.neighborhood(1)

function ways.same(i)
  local from, to = turn(i)
  q:submit(function(cg)
    cg:parallel_for({ N }, copy, cg:read(from, near), cg:discard_write(to))
  end)
end

local step = q:group(function(cg, from, to)
  cg:parallel_for({ N }, copy, cg:read(from, near), cg:discard_write(to))
end)

function ways.prepared(i) step(turn(i)) end

local function none()
  q:submit(function(cg) cg:parallel_for({ N }, k.none) end)
end

local function one()
  q:submit(function(cg) cg:parallel_for({ N }, k.one, cg:read(u)) end)
end

local function two(i)
  local from, to = turn(i)
  q:submit(function(cg)
    cg:parallel_for({ N }, copy, cg:read(from, celer.neighborhood(1)), cg:discard_write(to))
  end)
end

local function four()
  q:submit(function(cg)
    cg:parallel_for({ N }, k.four, cg:read(u), cg:read(v), cg:read(u), cg:read(v))
  end)
end

local host = {}
local number = 0

local function nothing() end

function host.same()
  q:submit(function(cg) cg:host_task(celer.on_master, nothing) end)
end

function host.fresh()
  q:submit(function(cg) cg:host_task(celer.on_master, function() end) end)
end

function host.number()
  number = number + 1
  local n = number
  q:submit(function(cg) cg:host_task(celer.on_master, nothing, n) end)
end

function host.captured()
  number = number + 1
  local n = number
  q:submit(function(cg) cg:host_task(celer.on_master, function() return n end) end)
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
  for _ = 1, rounds do best = math.min(best, round(way)) end
  return best
end

-- Seconds that the host lanes have computed, those that have started.
local function of_lanes()
  local sum, pid = 0, ffi.C.getpid()
  local pipe = assert(io.popen(("grep -lx host-lane /proc/%d/task/*/comm"):format(pid)))
  for path in pipe:lines() do
    local thread = tonumber(path:match("task/(%d+)"))
    sum = sum + now(-8 * (thread + 1) + 6) -- its clock, as pthread_getcpuclockid makes it
  end
  pipe:close()
  return sum
end

local function measure_lanes(way)
  local best = math.huge
  for _ = 1, rounds do
    q:wait()
    local start = of_lanes()
    for i = 1, MANY do way(i) end
    q:wait()
    best = math.min(best, (of_lanes() - start) / MANY * 1e6)
  end
  return best
end

local function show(way, value) return ('"%s": %.2f'):format(way, value) end

local parts = { '"jit": ' .. tostring(jit.status()) }
for _, way in ipairs { "fresh", "changing", "box", "same", "prepared" } do
  parts[#parts + 1] = show(way, measure(ways[way]))
end
local accesses = {}
for i, way in ipairs { none, one, two, four } do accesses[i] = ("%.2f"):format(measure(way)) end
parts[#parts + 1] = ('"accesses": [%s]'):format(table.concat(accesses, ", "))
for _, way in ipairs { "same", "fresh", "number", "captured" } do
  parts[#parts + 1] = show("host_" .. way, measure(host[way]))
  parts[#parts + 1] = show("lane_" .. way, measure_lanes(host[way]))
end
print("{" .. table.concat(parts, ", ") .. "}")
q:drain()
