--- prk.lua -- some of the Parallel Research Kernels in celer, beside C and MPI, on the processor.
---
---   luajit spec/bench/prk/prk.lua [--only ROW]... [--turns N] [--tiny] [--json FILE] [--list]
---
--- From the root of the tree; CELER_BUILD names the build (build/release). The kernels are
--- those of Van der Wijngaart and Mattson, "The Parallel Research Kernels" (HPEC 2014).
--- Each rank has one core, in celer and in C alike. In each turn (5) the two programs of a
--- row run one after the other, on 1 and on 2 ranks. Both check their result.
---
--- `rate`: celer's rate over C's, by the least time of a step that each had in any turn.
--- `cpu`: processor time of a step, C's over celer's, likewise; a rank's threads that poll
--- count as well. --tiny runs next to nothing, to see that all rows come out. The last line is
--- JSON, with --json also in a file. The exit status is 1 where a program fails; a missed
--- target does not count as failure.
package.path = "./?.lua;" .. package.path
local cjson = require("cjson")
local celer = require("spec.support.celer")
local compile = require("spec.bench.compile")
local report = require("spec.bench.report")

local USAGE = "usage: luajit spec/bench/prk/prk.lua [--only ROW]... [--turns N] [--tiny] "
  .. "[--json FILE] [--list]"
local here = "spec/bench/prk/"

-- A row: its name, its program (NAME.c and NAME.lua), the least rate, the words of both
-- programs: STEPS REPETITIONS SIZES..., the same for --tiny, and a further word of celer's.
local rows = {
  { "transpose", "transpose", 0.95, { 2, 5, 2000 }, { 1, 1, 64 } },
  { "transpose_tiles", "transpose", 0.95, { 2, 5, 2000 }, { 1, 1, 64 }, "tiles" },
  { "sparse", "sparse", 0.95, { 5, 5, 9, 4 }, { 1, 1, 4, 2 } },
  { "reduce", "reduce", 0.95, { 5, 9, 1000000 }, { 2, 1, 1000 } },
  { "wavefront", "wavefront", 0.3, { 1, 5, 1000, 1000, 1 }, { 1, 1, 50, 20, 1 } },
  { "wavefront_groups", "wavefront", 0.9, { 5, 5, 1000, 1000, 50 }, { 1, 1, 50, 20, 7 } },
  { "dgemm_tiles", "dgemm", 0.95, { 1, 5, 512 }, { 1, 1, 64 }, "tiles" },
  { "dgemm_barriers", "dgemm", 0.95, { 1, 2, 512 }, { 1, 1, 64 }, "barriers" },
}
local RANKS = { 1, 2 }

local function options(words)
  local o = { only = {}, turns = 5 }
  local i = 1
  while words[i] do
    local word, value = words[i], words[i + 1]
    if word == "--tiny" or word == "--list" then
      o[word:sub(3)] = true
    elseif word == "--only" and value then
      o.only[value], o.some, i = true, true, i + 1
    elseif word == "--turns" and tonumber(value) and tonumber(value) >= 1 then
      o.turns, i = math.floor(tonumber(value)), i + 1
    elseif word == "--json" and value then
      o.json, i = value, i + 1
    else
      error(USAGE, 0)
    end
    i = i + 1
  end
  return o
end

-- The rows that were asked for; throws on a name that is none.
local function chosen_rows(o)
  local chosen, known = {}, {}
  for _, row in ipairs(rows) do
    known[row[1]] = true
    if not o.some or o.only[row[1]] then chosen[#chosen + 1] = row end
  end
  for name in pairs(o.only) do
    if not known[name] then error(("there is no row %s; --list names them"):format(name), 0) end
  end
  return chosen
end

-- Runs a program of so many ranks, each on a core of its own, and reads its JSON.
local function run(ranks, ...)
  local argv = { "mpirun", "--allow-run-as-root", "--bind-to", "core:overload-allowed", "-n",
    ranks }
  for _, words in ipairs { ... } do
    for _, word in ipairs(words) do argv[#argv + 1] = word end
  end
  -- Bound ranks have their cores for themselves: they need not yield.
  local env = { OMPI_MCA_mpi_yield_when_idle = "0" }
  return report.decode(report.output_of(argv, { timeout = 600, env = env }))
end

local in_celer = { celer.command(), "run", "--backend", "cpu", "--devices", 1, "--advice", "off" }

-- One turn of a row on so many ranks: the least of C and of celer so far.
local function take_turn(result, row, folder, o)
  local words = row[o.tiny and 5 or 4]
  local turn = {
    c = run(result.ranks, { folder .. "/" .. row[2] }, words),
    celer = run(result.ranks, in_celer, { here .. row[2] .. ".lua" }, words, { row[6] }),
  }
  for side, j in pairs(turn) do
    local least = result[side] or j
    result[side] = { seconds = math.min(least.seconds, j.seconds),
      cpu = math.min(least.cpu, j.cpu) }
  end
end

-- What came of each row on each number of ranks, `failed` where a program failed.
local function results_of(chosen, folder, o)
  local results, row_of = {}, {}
  for _, row in ipairs(chosen) do
    for _, ranks in ipairs(RANKS) do
      results[#results + 1] = { row = row[1], ranks = ranks, target = row[3] }
      row_of[results[#results]] = row
    end
  end
  for _ = 1, o.turns do
    for _, result in ipairs(results) do
      if not result.failed then
        local ok, why = pcall(take_turn, result, row_of[result], folder, o)
        if not ok then result.failed = tostring(why) end
      end
    end
  end
  for _, result in ipairs(results) do
    if not result.failed then
      local c, ours = result.c, result.celer
      result.rate, result.cpu = c.seconds / ours.seconds, c.cpu / ours.cpu
      result.met = result.rate >= result.target
    end
  end
  return results
end

local function show(results)
  print(("%-16s %5s %12s %12s %6s %7s %6s"):format("row", "ranks", "C us", "celer us", "rate",
    "target", "cpu"))
  for _, r in ipairs(results) do
    print(r.failed and ("%-16s %5d FAILED: %s"):format(r.row, r.ranks, r.failed)
      or ("%-16s %5d %12.1f %12.1f %6.2f %7.2f %6.2f %s"):format(r.row, r.ranks,
        r.c.seconds * 1e6, r.celer.seconds * 1e6, r.rate, r.target, r.cpu,
        r.met and "met" or "MISSED"))
  end
end

-- Calls `call` with a folder that has the programs with MPI.
local function with_programs(chosen, call)
  local folder, done = assert(io.popen("mktemp -d")):read("*l"), {}
  local ok, result = pcall(function()
    for _, row in ipairs(chosen) do
      local name = row[2]
      if not done[name] then
        compile(folder .. "/" .. name, here .. name .. ".c", { "-lm" }, { "mpicc" })
      end
      done[name] = true
    end
    return call(folder)
  end)
  os.execute("rm -r '" .. folder .. "'")
  if not ok then error(result, 0) end
  return result
end

local function main()
  local o = options(arg)
  local chosen = chosen_rows(o)
  if o.list then
    for _, row in ipairs(chosen) do print(row[1]) end
    return true
  end
  local machine = report.machine()
  print(report.line(machine))
  local results = with_programs(chosen, function(folder) return results_of(chosen, folder, o) end)
  show(results)
  local result = { bench = "prk", machine = machine, turns = o.turns, tiny = o.tiny or false,
    rows = results }
  print(cjson.encode(result))
  if o.json then report.save(o.json, result) end
  for _, r in ipairs(results) do
    if r.failed then return false end
  end
  return true
end

local ok, fine = pcall(main)
if not ok then io.stderr:write(tostring(fine), "\n") end
os.exit(ok and fine and 0 or 1)
