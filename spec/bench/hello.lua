--- hello.lua -- how long the smallest program takes from start to end.
---
---   luajit spec/bench/hello.lua [repetitions]
---
--- examples/hello.lua on one rank with a warm cache, the median; the last line is JSON.
local ffi = require("ffi")
local celer = require("spec.support.celer")

local repetitions = tonumber(arg[1]) or 20
local CLOCK_MONOTONIC = 1

ffi.cdef [[
struct hello_time { long seconds, nanoseconds; };
int clock_gettime(int clock, struct hello_time *out);
]]
local time = ffi.new("struct hello_time")

local function now()
  ffi.C.clock_gettime(CLOCK_MONOTONIC, time)
  return tonumber(time.seconds) * 1e3 + tonumber(time.nanoseconds) * 1e-6
end

local took = {}
for i = 0, repetitions do -- the first one compiles
  local start = now()
  local r = celer.run({ "run", "--backend", "cpu", "examples/hello.lua" })
  assert(r.status == 0, r.stderr)
  took[i] = now() - start
end
table.sort(took)
local ms = took[math.ceil(repetitions / 2)]
print(("%.1f ms"):format(ms))
print(('{"bench": "hello", "ms": %.2f}'):format(ms))
