--- hosts.lua -- a wave on two hosts, in turns with both ranks on one.
---
---   luajit spec/bench/hosts.lua [turns] [delay] [folder]
---
--- Two ranks of hosts.sh, whose packets take `delay` ms (1) one way. A step takes 2 ms, most of
--- which its ranks sleep. Rows of 4 KiB travel, or halos of 256 KiB. The target: on two hosts
--- so far apart a step takes at most 1.1 times what it takes on one. A value is the least of
--- the turns, each of which is the median over 200 steps; `flight` is how long a halo was on its
--- way in that turn. Where others use the machine, the hosts are further apart than they
--- should be, and the verdict is in parentheses.
---
--- `flights` is how many one-way delays a step takes that computes next to nothing, on hosts
--- that are 50 ms apart; one is the least. With `folder` the best turns' timelines stay there.
--- The last line is JSON.
package.path = "./?.lua;" .. package.path
local cjson = require("cjson")
local hosts = require("spec.support.hosts")
local measure = require("spec.bench.hosts.measure")
local report = require("spec.bench.report")

local turns, delay, folder = tonumber(arg[1]) or 5, tonumber(arg[2]) or 1, arg[3]
local TARGET, FAR_MS = 1.1, 50
-- A flight may be so many ms longer than the delay: what two polls and 256 KiB take.
local FLIGHT_MS = 0.7

-- Each rank has as many rows as an interior takes, and few more.
local sizes = {
  { name = "rows of 4 KiB", key = "row_4k", columns = 1024, rows = 1200 },
  { name = "halos of 256 KiB", key = "halo_256k", columns = 65536, rows = 20 },
}
-- The third by the relay, which takes part of the cores, but without its delay.
local ways = {
  { name = "one host", key = "one", hosts = 1 },
  { name = "two hosts", key = "two", hosts = 2 },
  { name = "two, 0 ms apart", key = "relayed", hosts = 2, delay = 0 },
  { name = ("two, %g ms apart"):format(delay), key = "apart", hosts = 2, delay = delay },
}

local why = hosts.missing({ delay = delay })
if why then error("cannot bring hosts up: " .. why, 0) end

local function wave(size, way, steps, sleep_us, trace)
  return measure.wave({ hosts = way.hosts, delay = way.delay, rows = size.rows,
    columns = size.columns, steps = steps, sleep_us = sleep_us, trace = trace })
end

-- The best turn of each way.
local function turns_of(size)
  local best, sum = {}, nil
  for _ = 1, turns do
    for _, way in ipairs(ways) do
      local path = folder and ("%s/%s-%s.json"):format(folder, size.key, way.key)
      local r = wave(size, way, 200, 1600, path and path .. ".new")
      if not best[way.key] or r.step_ms < best[way.key].step_ms then
        best[way.key] = r
        if path then assert(os.rename(path .. ".new", path)) end
      end
      sum = sum or r.sum
      assert(r.sum == sum, "other contents on other hosts")
    end
  end
  if folder then os.execute(("rm -f %s/%s-*.json.new"):format(folder, size.key)) end
  return best
end

local row = { bench = "hosts", delay_ms = delay, machine = report.machine() }
for _, size in ipairs(sizes) do
  local best = turns_of(size)
  local far = wave(size, { hosts = 2, delay = FAR_MS }, 40, 0)
  local ratio, flights = best.apart.step_ms / best.one.step_ms, far.step_ms / FAR_MS
  for _, way in ipairs(ways) do
    local r = best[way.key]
    print(("%-18s %-18s %7.3f ms a step, flight %6.3f ms"):format(size.name, way.name, r.step_ms,
      r.flight_ms))
  end
  local verdict = ratio <= TARGET and "met" or "MISSED"
  if best.apart.flight_ms > delay + FLIGHT_MS then verdict = ("(%s)"):format(verdict) end
  print(("%-18s ratio %.3f, target at most %.1f: %s; flights %.2f"):format(size.name, ratio, TARGET,
    verdict, flights))
  best.ratio, best.flights = ratio, flights
  row[size.key] = best
end
print(cjson.encode(row))
