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
local dry = require("spec.bench.dry")

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
  { "broadcast 1 KiB", pattern("broadcast", 2 ^ 10), 100, 2100 },
  { "broadcast_most", pattern("broadcast_most", 2 ^ 10), 100, 2100 },
  { "broadcast_few", pattern("broadcast_few", 2 ^ 10), 100, 2100 },
  { "two_all_gathers", pattern("two_all_gathers", 2 ^ 19), 100, 2100 },
  { "weighted_all_gather", pattern("weighted_all_gather", 2 ^ 18), 100, 2100 },
  { "broadcast_gather", pattern("broadcast_gather", 2 ^ 18), 100, 2100 },
  { "scatter_gather", pattern("scatter_gather", 2 ^ 18), 100, 2100 },
  { "all_to_all", pattern("all_to_all", 2 ^ 34), 100, 2100 },
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

local rows = {}
print(("%-16s %6s %9s %10s %9s %6s %6s %9s %8s"):format("us per task", "ranks", "main",
  "scheduler", "executor", "times", "coll.", "messages", "us each"))
for _, program in ipairs(programs) do
  if next(wanted) == nil or wanted[program[1]] then
    local first
    for _, ranks in ipairs(program.ranks or RANKS) do
      local row = dry.compare(program[2], program[3], program[4],
        { ranks = ranks, words = program.options }, rounds)
      row.program = program[1]
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
