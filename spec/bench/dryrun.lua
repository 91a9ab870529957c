--- dryrun.lua -- what scheduling costs, per task, as one of 4 and of 65,536 ranks.
---
---   luajit spec/bench/dryrun.lua [rounds] [program ...]
---
--- Dry runs of the examples and of patterns.lua as a rank inside, with data enough for
--- 65,536 ranks whatever their number. Each runs twice, with few steps and with many:
--- the difference is what its tasks cost, without what comes first and last.
--- Microseconds of a core, by thread, the least of some rounds. Neither with few peers
--- (wave_sim) nor where all exchange with all (all others) should the cost depend on the
--- ranks. The last line is JSON.
local cjson = require("cjson")
local celer = require("spec.support.celer")

local RANKS = { 4, 65536 }

local function pattern(name, bytes)
  return ("spec/bench/patterns.lua %s %d steps=%%d"):format(name, bytes)
end

-- Name, script and arguments, few and many steps; of which ranks, if not both, and other
-- options.
local programs = {
  { "wave_sim", "examples/wave_sim.lua 131072 %d 1000000 /tmp", 200, 2200 },
  { "wave_sim 2d", "examples/wave_sim.lua 131072 %d 1000000 /tmp 2d", 200, 2200 },
  { "jacobi", "examples/jacobi.lua 65536 %d", 100, 1100 },
  { "rsim", "examples/rsim.lua 65536 %d", 100, 1100 },
  { "transpose", "examples/transpose.lua 65536 65536 %d", 100, 2100 },
  { "all_gather", pattern("all_gather", 2 ^ 18), 100, 2100 },
  { "broadcast", pattern("broadcast", 2 ^ 18), 100, 2100 },
  { "broadcast_gather", pattern("broadcast_gather", 2 ^ 18), 100, 2100 },
  { "scatter_gather", pattern("scatter_gather", 2 ^ 18), 100, 2100 },
  { "rsim early", "examples/rsim.lua 64 %d", 100, 1100, ranks = { 4 } },
  { "rsim late", "examples/rsim.lua 64 %d", 10000, 20000, ranks = { 4 } },
  { "jacobi messages", "examples/jacobi.lua 65536 %d", 5, 25, ranks = { 4, 1024 },
    options = { "--no-collectives" } },
  { "rsim messages", "examples/rsim.lua 65536 %d", 5, 25, ranks = { 4, 1024 },
    options = { "--no-collectives" } },
}

local rounds = tonumber(arg[1]) or 3
local wanted = {}
for i = 2, #arg do wanted[arg[i]] = true end

local function measure(program, ranks, steps)
  local path = os.tmpname()
  local words = { "run", "--backend", "cpu", "--devices", "1", "--dry-run", ranks, "--as-rank",
    ranks / 4, "--report", path, unpack(program.options or {}) }
  for word in program[2]:format(steps):gmatch("%S+") do words[#words + 1] = word end
  local r = celer.run(words, { timeout = 300 })
  assert(r.status == 0, r.stderr)
  local file = assert(io.open(path))
  local report = cjson.decode(file:read("*a"))
  file:close()
  os.remove(path)
  return report
end

-- Microseconds of a core per task that the second has more than the first.
local function row_of(few, many)
  local n = many.tasks - few.tasks
  local function per_task(thread)
    return (many.seconds[thread] - few.seconds[thread]) / n * 1e6
  end
  local function more(what) return many.messages[what] - few.messages[what] end
  local row = { tasks = n, main = per_task("main"), scheduler = per_task("scheduler"),
    executor = per_task("executor"), collectives = more("collectives") / n,
    messages = (more("sent") + more("received")) / n }
  row.all = row.main + row.scheduler + row.executor
  row.per_message = row.messages > 0 and (row.scheduler + row.executor) / row.messages or 0
  return row
end

-- The least of each thread's time.
local function least(program, ranks)
  local best
  for _ = 1, rounds do
    local few, many = measure(program, ranks, program[3]), measure(program, ranks, program[4])
    if not best then best = { few, many } end
    for i, report in ipairs { few, many } do
      for thread, seconds in pairs(report.seconds) do
        best[i].seconds[thread] = math.min(best[i].seconds[thread], seconds)
      end
    end
  end
  local row = row_of(best[1], best[2])
  row.program, row.ranks = program[1], ranks
  return row
end

local rows = {}
print(("%-16s %6s %9s %10s %9s %6s %6s %9s %8s"):format("us per task", "ranks", "main",
  "scheduler", "executor", "times", "coll.", "messages", "us each"))
for _, program in ipairs(programs) do
  if next(wanted) == nil or wanted[program[1]] then
    local first
    for _, ranks in ipairs(program.ranks or RANKS) do
      local row = least(program, ranks)
      first = first or row
      row.times = row.all / first.all
      rows[#rows + 1] = row
      print(("%-16s %6d %9.2f %10.2f %9.2f %6.2f %6.2f %9.1f %8.2f"):format(row.program,
        row.ranks, row.main, row.scheduler, row.executor, row.times, row.collectives,
        row.messages, row.per_message))
    end
  end
end
print(cjson.encode { bench = "dryrun", rows = rows })
