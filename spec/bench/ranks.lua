--- ranks.lua -- four ranks on the cores of one, in turns with one rank.
---
---   luajit spec/bench/ranks.lua [ranks] [repetitions] [size] [steps]
---
--- The wave step (spec/bench/cuda/wave.lua) on the processor: seconds of its loop, and of
--- the whole run with mpirun's start. `loop` and `whole` are ratios, medians of the turns;
--- target for the whole: at most 1.5. The last line is JSON.
local cjson = require("cjson")
local ffi = require("ffi")
local celer = require("spec.support.celer")

local ranks, repetitions = tonumber(arg[1]) or 4, tonumber(arg[2]) or 5
local size, steps = tonumber(arg[3]) or 2048, tonumber(arg[4]) or 500
local CLOCK_MONOTONIC = 1

ffi.cdef [[
struct ranks_time { long seconds, nanoseconds; };
int clock_gettime(int clock, struct ranks_time *out);
]]
local time = ffi.new("struct ranks_time")

local function now()
  ffi.C.clock_gettime(CLOCK_MONOTONIC, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) * 1e-9
end

local function measured(n)
  local start = now()
  local r = celer.run({ "run", "--backend", "cpu", "--devices", 1, "--advice", "off",
    "spec/bench/cuda/wave.lua", size, size, steps }, { ranks = n, timeout = 600 })
  local whole = now() - start
  assert(r.status == 0, r.stderr)
  local line = assert(r.stdout:match('{"prepare": [^\n]*}'), r.stdout)
  return { whole = whole, loop = cjson.decode(line).seconds }
end

local function median(values)
  table.sort(values)
  return values[math.ceil(#values / 2)]
end

measured(nil) -- compiles
local one, many, ratio = {}, {}, {}
for i = 1, repetitions do
  local a, b = measured(nil), measured(ranks)
  for _, key in ipairs { "loop", "whole" } do
    one[key], many[key], ratio[key] = one[key] or {}, many[key] or {}, ratio[key] or {}
    one[key][i], many[key][i], ratio[key][i] = a[key], b[key], b[key] / a[key]
  end
end
local row = { bench = "ranks", ranks = ranks }
for _, key in ipairs { "loop", "whole" } do
  print(("%-6s one rank %6.3f s, %d ranks %6.3f s, ratio %5.2f"):format(key, median(one[key]),
    ranks, median(many[key]), median(ratio[key])))
  row[key] = median(ratio[key])
end
print(cjson.encode(row))
