-- measure.lua -- what a step of a wave takes on hosts of the test bed.
--
--   local measure = require("spec.bench.hosts.measure")
--   local r = measure.wave({ hosts = 2, delay = 1, columns = 1024, rows = 1200, steps = 100,
--     sleep_us = 1600 })
--   print(r.step_ms, r.mean_ms, r.sum)
--
-- Two ranks. `step_ms` is the median over the steps of a timeline, which a machine that pauses
-- now and then does not change; `mean_ms` is the mean, with the wait at the end. `flight_ms` is
-- the median of a halo's way, from the sender's call to the receiver's notice.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local hosts = require("spec.support.hosts")
local scratch = require("spec.support.scratch")

local M = {}

local RANKS = 2

local function median(values)
  table.sort(values)
  return values[math.ceil(#values / 2)]
end

-- From a step to the second next one: where steps wait for the other rank, two of them are
-- on their way in turns. Of each rank those pieces count that have its middle row.
local function median_step(events, rows)
  local begins, periods = {}, {}
  for rank = 1, RANKS do begins[rank] = {} end
  for _, event in ipairs(events) do
    if event.cat == "kernel" and event.name == "step" then
      local rank, from, to = event.pid, event.args.box:match("^%[(%d+),(%d+)%)")
      local middle = (2 * rank - 1) * rows / (2 * RANKS)
      if tonumber(from) <= middle and middle < tonumber(to) then
        table.insert(begins[rank], event.ts)
      end
    end
  end
  for _, at in ipairs(begins) do
    table.sort(at)
    for i = 13, #at do periods[#periods + 1] = (at[i] - at[i - 2]) / 2e3 end
  end
  return median(periods)
end

-- From the begin of a send to the end of its receive.
local function median_flight(events)
  local sent, flights = {}, {}
  for _, event in ipairs(events) do
    if event.ph == "s" then sent[event.id] = event.ts end
  end
  for _, event in ipairs(events) do
    if event.ph == "f" then flights[#flights + 1] = (event.ts - sent[event.id]) / 1e3 end
  end
  return median(flights)
end

---@class measure.options
---@field hosts integer  1: both ranks are on one
---@field delay? number  ms from one host to another
---@field rows integer
---@field columns integer
---@field steps integer
---@field sleep_us integer
---@field trace? string  where the timeline stays
---@field together? boolean  steps are taken together, as celer chooses; else one by one

--- Throws when the run fails.
---@param o measure.options
---@return {step_ms: number, mean_ms: number, flight_ms: number, sum: string}
function M.wave(o)
  local trace = o.trace or scratch.path(".json")
  -- A core for each rank, as it would have with hosts of their own, and before what else runs
  -- on the machine, as the relay has it.
  local command = ("urgent='chrt --fifo 1'; $urgent true 2>/dev/null || urgent=; "
    .. "exec $urgent taskset -c $((OMPI_COMM_WORLD_RANK %% $(nproc))) %s run --advice off "
    .. "%s --trace %s spec/bench/hosts/wave.lua %d %d %d %d"):format(celer.command(),
    o.together and "" or "--fold 1", trace, o.rows, o.columns, o.steps, o.sleep_us)
  local r = hosts.run(o.hosts, { "mpirun", "-n", RANKS, "-x", "CELER_NO_SAMPLE=1", "-x",
    "CELER_CACHE=" .. celer.folder() .. "/kernel-cache", "-wdir", os.getenv("PWD"), "sh", "-c",
    command }, { timeout = 300,
    bed = { slots = RANKS / o.hosts, delay = o.delay, mtu = 60000 } })
  assert(r.status == 0, r.stderr)
  local mean, sum = r.stdout:match("([%d.]+) (%S+)\n")
  local events = cjson.decode(scratch.read(trace))
  return { step_ms = median_step(events, o.rows), mean_ms = tonumber(mean),
    flight_ms = median_flight(events), sum = sum }
end

return M
