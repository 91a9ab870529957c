--- dryrun.lua -- what scheduling costs, per task, as one of 4 and of 65,536 ranks.
---
---   luajit spec/bench/dryrun.lua [rounds] [program ...]
---
--- Dry runs of the examples as a rank inside, with data enough for 65,536
--- ranks whatever their number. Microseconds of a core, by thread; the least of
--- some rounds. With few peers (wave_sim) the cost should not depend on the ranks;
--- where a rank exchanges with all (jacobi, rsim), not on more than the messages:
--- their cost is in the last column. The last line is JSON.
local cjson = require("cjson")
local celer = require("spec.support.celer")

local RANKS = { 4, 65536 }

-- Name, script and arguments; of which ranks, if not both.
local programs = {
  { "wave_sim", "wave_sim.lua 131072 2000 1000000 /tmp" },
  { "wave_sim 2d", "wave_sim.lua 131072 2000 1000000 /tmp 2d" },
  { "jacobi", "jacobi.lua 65536 5" },
  { "rsim", "rsim.lua 65536 5" },
  { "rsim early", "rsim.lua 64 1000", ranks = { 4 } },
  { "rsim late", "rsim.lua 64 10000", ranks = { 4 } },
}

local rounds = tonumber(arg[1]) or 3
local wanted = {}
for i = 2, #arg do wanted[arg[i]] = true end

local function measure(program, ranks)
  local path = os.tmpname()
  local words = { "run", "--backend", "cpu", "--dry-run", ranks, "--as-rank", ranks / 4,
    "--report", path }
  for word in ("examples/" .. program[2]):gmatch("%S+") do words[#words + 1] = word end
  local r = celer.run(words, { timeout = 300 })
  assert(r.status == 0, r.stderr)
  local file = assert(io.open(path))
  local report = cjson.decode(file:read("*a"))
  file:close()
  os.remove(path)
  return report
end

-- Microseconds of a core per task.
local function row_of(report)
  local s, n = report.seconds, report.tasks
  local messages = report.messages.sent + report.messages.received
  return { tasks = n, main = s.main / n * 1e6, scheduler = s.scheduler / n * 1e6,
    executor = s.executor / n * 1e6, messages = messages / n,
    per_message = messages > 0 and (s.scheduler + s.executor) / messages * 1e6 or 0 }
end

local function least(program, ranks)
  local best
  for _ = 1, rounds do
    local row = row_of(measure(program, ranks))
    if not best or row.scheduler < best.scheduler then best = row end
  end
  best.program, best.ranks = program[1], ranks
  return best
end

local rows = {}
print(("%-12s %6s %9s %10s %9s %11s %14s"):format("us per task", "ranks", "main",
  "scheduler", "executor", "messages", "us a message"))
for _, program in ipairs(programs) do
  if next(wanted) == nil or wanted[program[1]] then
    for _, ranks in ipairs(program.ranks or RANKS) do
      local row = least(program, ranks)
      rows[#rows + 1] = row
      print(("%-12s %6d %9.2f %10.2f %9.2f %11.1f %14.2f"):format(row.program, ranks,
        row.main, row.scheduler, row.executor, row.messages, row.per_message))
    end
  end
end
print(cjson.encode { bench = "dryrun", rows = rows })
