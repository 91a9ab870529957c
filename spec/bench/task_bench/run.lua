--- run.lua -- Task Bench's stencil in celer: beside MPI, and with heavy items.
---
---   luajit spec/bench/task_bench/run.lua metg [effort]
---   luajit spec/bench/task_bench/run.lua heavy [effort]
---
--- `metg`: the minimum effective task granularity, METG(50 %), of Slaughter et al., Task
--- Bench: what a point takes, with all that is around it, where points are as small as
--- they may be for the program to reach half of its peak rate of iterations. Of celer
--- (stencil.lua) and of a program with MPI alone (stencil.c), each on one core, with 4 and
--- with 64 points in a step; `ratio` is the first over the second.
---
--- `heavy`: 4 points of some 280 us on two cores: `share` is their rate over that of many
--- points, the median of some turns. Effort is the number of iterations that make up one
--- measurement. The last line is JSON.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local compile = require("spec.bench.compile")
local report = require("spec.bench.report")

local here = "spec/bench/task_bench/"
local POINTS = { 4, 64 }
local GRAINS = { 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 8192 }
local HEAVY, MANY, MANY_GRAIN, TURNS = 80000, 256, 16384, 3

-- The last cores that this process may use, `n` of them at most, as taskset takes them.
local function cores(n)
  local list = {}
  for line in io.lines("/proc/self/status") do
    for first, last in (line:match("^Cpus_allowed_list:%s*(.*)") or ""):gmatch("(%d+)%-?(%d*)") do
      for core = tonumber(first), tonumber(last) or tonumber(first) do list[#list + 1] = core end
    end
  end
  return table.concat(list, ",", math.max(1, #list - n + 1))
end

-- What a program on so many cores prints, by iterations: the best microseconds of a step.
local function steps(program, n, points, effort, grains)
  local argv = { "taskset", "-c", cores(n) }
  for _, words in ipairs { program, { points, effort }, grains } do
    for _, word in ipairs(words) do argv[#argv + 1] = word end
  end
  local r = celer.exec(argv, { timeout = 600 })
  assert(r.status == 0, table.concat(argv, " ") .. "\n" .. r.stderr .. r.stdout)
  return cjson.decode((assert(r.stdout:match('{"bench": [^\n]*}'), r.stdout))).rows
end

local ours = { celer.command(), "run", "--backend", "cpu", "--devices", 1, "--advice", "off",
  here .. "stencil.lua" }

local function rate(row) return row.iterations / row.best end

-- Microseconds of a point where the rate is half of the highest, between two grains as if
-- a step's time grew in a straight line. Where even the smallest grain reaches that, its.
local function metg(rows, points)
  local half = 0
  for _, row in ipairs(rows) do half = math.max(half, rate(row) / 2) end
  local i = #rows
  while i > 1 and rate(rows[i - 1]) >= half do i = i - 1 end
  if i == 1 then return rows[1].best / points end
  local a, b = rows[i - 1], rows[i]
  local slope = (b.best - a.best) / (b.iterations - a.iterations)
  local iterations = half * (a.best - slope * a.iterations) / (1 - half * slope)
  return (a.best + slope * (iterations - a.iterations)) / points
end

-- Runs `run` with the words of the program with MPI.
local function by_hand(run)
  local folder = assert(io.popen("mktemp -d")):read("*l")
  local ok, why = pcall(function()
    compile(folder .. "/stencil", here .. "stencil.c", { "-D__device__=" }, { "mpicc" })
    run { folder .. "/stencil" }
  end)
  os.execute("rm -r '" .. folder .. "'")
  if not ok then error(why, 0) end
end

local function measure_metg(effort)
  local rows = {}
  by_hand(function(mpi)
    for i, points in ipairs(POINTS) do
      local row = { points = points, celer = metg(steps(ours, 1, points, effort, GRAINS), points),
        mpi = metg(steps(mpi, 1, points, effort, GRAINS), points) }
      row.ratio = row.celer / row.mpi
      rows[i] = row
      print(("%3d points: celer %.3f us, MPI %.3f us, ratio %.2f"):format(points, row.celer,
        row.mpi, row.ratio))
    end
  end)
  return { bench = "metg", rows = rows }
end

local function measure_heavy(effort)
  local function rate_of(points, iterations)
    return points * rate(steps(ours, 2, points, effort, { iterations })[1])
  end
  local shares = {}
  for i = 1, TURNS do shares[i] = rate_of(4, HEAVY) / rate_of(MANY, MANY_GRAIN) end
  local share = report.median(shares)
  print(("4 points reach %.0f %% of the rate of %d"):format(100 * share, MANY))
  return { bench = "heavy", share = share }
end

local measures = { metg = measure_metg, heavy = measure_heavy }
local measure = measures[arg[1]] or error("usage: run.lua metg|heavy [effort]", 0)
print(cjson.encode(measure(tonumber(arg[2]) or 2e6)))
