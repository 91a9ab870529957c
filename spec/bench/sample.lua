--- sample.lua -- what the samples of a kernel's first launches cost (--no-sample).
---
---   luajit spec/bench/sample.lua [repetitions]
---
--- Runs of a wave with and without, in turns, on one rank; medians: 20 steps of 256 x 256 with
--- a warm cache and with an empty one, and a longer run with a warm one. The last line is JSON.
local ffi = require("ffi")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local repetitions = tonumber(arg[1]) or 11
local CLOCK_MONOTONIC = 1

ffi.cdef [[
struct sample_time { long seconds, nanoseconds; };
int clock_gettime(int clock, struct sample_time *out);
]]
local time = ffi.new("struct sample_time")

local function now()
  ffi.C.clock_gettime(CLOCK_MONOTONIC, time)
  return tonumber(time.seconds) * 1e3 + tonumber(time.nanoseconds) * 1e-6
end

local script = scratch.path(".lua")
scratch.write(script, [==[
local celer = require "celer"
local q = celer.queue()
local n, steps = tonumber(arg[1] or 256), tonumber(arg[2] or 20)
local u = celer.buffer("float", { n, n }, { init = 1 })
local up = celer.buffer("float", { n, n }, { init = 1 })
local k = celer.kernel [[
  kernel void step(item<2> it, inout<float, 2> up, in<float, 2> u, float c) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
    const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
    up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));
  }
]]
for _ = 1, steps do
  q:submit(function(cg)
    cg:parallel_for({ n, n }, k, cg:read_write(up), cg:read(u, celer.neighborhood(1, 0)), 0.1)
  end)
  u, up = up, u
end
q:wait()
]==])

local folder = scratch.folder()

-- ms of a run.
local function run(cache, sampled, n, steps)
  local start = now()
  local r = celer.run({ "run", "--backend", "cpu", script, tostring(n), tostring(steps) },
    { env = { CELER_CACHE = cache, CELER_NO_SAMPLE = sampled and "0" or "1" } })
  assert(r.status == 0 and r.stderr == "", r.stderr)
  return now() - start
end

-- Medians with and without.
local function both(count, cache_of, n, steps)
  local with, without = {}, {}
  for i = 1, count do
    with[i] = run(cache_of("with", i), true, n, steps)
    without[i] = run(cache_of("without", i), false, n, steps)
  end
  table.sort(with)
  table.sort(without)
  local middle = math.ceil(count / 2)
  return with[middle], without[middle]
end

local function warm() return folder .. "/warm" end

local built = celer.run({ "build", "--backend", "cpu", script },
  { env = { CELER_CACHE = warm() } })
assert(built.status == 0, built.stderr)
local short, short_without = both(repetitions, warm, 256, 20)
local long, long_without = both(math.max(3, math.floor(repetitions / 3)), warm, 1024, 20000)
local cold, cold_without = both(math.max(3, math.floor(repetitions / 3)),
  function(which, i) return ("%s/%s%d"):format(folder, which, i) end, 256, 20)
print(("short run: %.1f ms, without %.1f ms; long run: %.0f ms, without %.0f ms; "
  .. "empty cache: %.0f ms, without %.0f ms"):format(short, short_without, long, long_without,
  cold, cold_without))
print(('{"bench": "sample", "short_ms": %.2f, "long_percent": %.2f, "cold_ratio": %.3f}'):format(
  short - short_without, 100 * (long / long_without - 1), cold / cold_without))
