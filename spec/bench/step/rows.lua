--- rows.lua -- the rows of step.lua, and the programs they come from.
---
--- A program is `argv(o)`: the words of its command, where o.tiny asks for the least that
--- gives all figures, o.bin(name) and o.celer are programs of the build; and `bound` where
--- it runs on two ranks, each on a core of its own.
---
--- A row is {name, what, unit, sense, figure...}. A figure is {name, program, value(j) of
--- that program's last line of JSON, target, Celerity's value}; without a value there is
--- nothing to measure yet. Celerity 6e22728 was measured on a quiet machine with two cores
--- (README.md). Targets are for such a machine, too.

local MOST, LEAST = "<=", ">="

local function run(o, ...)
  return { o.celer, "run", "--backend", "cpu", "--devices", "1", "--advice", "off", ... }
end

local function mpirun(o, ...)
  return { "mpirun", "--allow-run-as-root", "--bind-to", "core:overload-allowed", "-n", 2,
    unpack(run(o, ...)) }
end

local stencil = "spec/bench/task_bench/stencil.lua"

local programs = {
  submit = { argv = function(o) return run(o, "spec/bench/submit.lua", o.tiny and 1 or 12) end },
  loops = { argv = function(o)
    return run(o, "spec/bench/loops.lua", o.tiny and 1 or 9, "independent_2500", "stencil_500",
      "stencil_500_empty", "stencil_kernel")
  end },
  wait = { argv = function(o) return run(o, "spec/bench/wait.lua", o.tiny and 100 or 5000) end },
  chain = { argv = function(o) return run(o, "spec/bench/chain.lua", o.tiny and 40 or 2000) end },
  chain_bound = { bound = true, argv = function(o)
    return mpirun(o, "spec/bench/chain.lua", o.tiny and 40 or 2000)
  end },
  points = { argv = function(o) return run(o, stencil, 4, o.tiny and 1e4 or 5e6, 0) end },
  points_bound = { bound = true, argv = function(o)
    return mpirun(o, stencil, 4, o.tiny and 1e4 or 5e6, 0)
  end },
  metg = { argv = function(o)
    return { "luajit", "spec/bench/task_bench/run.lua", "metg", o.tiny and 1e4 or 2e6 }
  end },
  heavy = { argv = function(o)
    return { "luajit", "spec/bench/task_bench/run.lua", "heavy", o.tiny and 1e5 or 1e7 }
  end },
  graph = { argv = function(o) return { o.bin("graph"), o.tiny and 1 or 50 } end },
  messages = { argv = function(o) return { o.bin("graph"), "messages", o.tiny and 1 or 50 } end },
  dryrun = { argv = function(o)
    return { "luajit", "spec/bench/dryrun.lua", o.tiny and 1 or 3, "wave_sim" }
  end },
}

-- How to read a value: the member of a name, of a list, the time of the only grain.
local function of(key) return function(j) return j[key] end end
local function at(key, i) return function(j) return j[key][i] end end
local function row_at(i, key) return function(j) return j.rows[i][key] end end

-- The least factor over Celerity's figures, of all topologies and some setups.
local function least_factor(chosen)
  return function(j)
    local least = math.huge
    for _, row in ipairs(j.rows) do
      for _, t in pairs(chosen(row) and row or {}) do
        if type(t) == "table" and t.mark > 0 then least = math.min(least, t.mark / t.us) end
      end
    end
    return least
  end
end

local rows = {
  { "submit", "submit, accesses", "us", MOST,
    { "0", "submit", at("accesses", 1), 0.6, 0.40 },
    { "1", "submit", at("accesses", 2), 0.8, 0.82 },
    { "2", "submit", at("accesses", 3), 1.2, 1.4 },
    { "4", "submit", at("accesses", 4), 1.6, 1.9 } },
  { "prepared", "submit a prepared group", "us", MOST,
    { "2 accesses", "submit", of("prepared"), 0.4 } },
  { "host", "submit a host task", "us", MOST,
    { "same function", "submit", of("host_same"), 1 },
    { "fresh closure", "submit", of("host_fresh"), 1.5, 0.39 },
    { "number passed", "submit", of("host_number"), 1.5 },
    { "number captured", "submit", of("host_captured"), 1.5 } },
  { "lane", "host task, in its lane", "us", MOST,
    { "same function", "submit", of("lane_same"), 3 },
    { "fresh closure", "submit", of("lane_fresh"), 3 },
    { "number passed", "submit", of("lane_number"), 3 },
    { "number captured", "submit", of("lane_captured"), 3 } },
  { "independent", "independent tasks", "us", MOST,
    { "2,500", "loops", of("independent_2500"), 3, 31 } },
  { "stencil", "step of a stencil on 128 x 128", "us", MOST,
    { "over its kernel", "loops",
      function(j) return j.stencil_500 - j.stencil_kernel end, 10, 17 },
    { "empty kernel", "loops", of("stencil_500_empty"), 3, 11.4 } },
  { "wait", "wait on one rank", "us", MOST,
    { "epoch", "wait", of("wait"), 27, 40 },
    { "task and wait", "wait", of("task"), 33, 49 },
    { "fence", "wait", of("fence"), 47, 70 } },
  { "chain", "chain of 10 host tasks, with its wait", "us", MOST,
    { "1 rank", "chain", of("effects"), 30 },
    { "2 bound ranks", "chain_bound", of("effects"), 45 } },
  { "points", "empty step, stencil of 4 points", "us", MOST,
    { "1 rank", "points", row_at(1, "us"), 2 },
    { "2 bound ranks", "points_bound", row_at(1, "us"), 5 } },
  { "metg", "METG(50 %), stencil, 1 core, over MPI's", "times", MOST,
    { "4 points", "metg", row_at(1, "ratio"), 6 },
    { "64 points", "metg", row_at(2, "ratio"), 1.5 } },
  { "heavy", "4 heavy items on 2 cores, of peak", "%", LEAST,
    { "280 us each", "heavy", function(j) return 100 * j.share end, 95 } },
  { "graphs", "graphs, over Celerity", "times", LEAST,
    { "through instructions", "graph",
      least_factor(function(row) return row.instructions end), 6 },
    { "task graph alone", "graph",
      least_factor(function(row) return row.setup == "task graph" end), 3 },
    { "by messages alone", "messages", least_factor(function() return true end), 1.5 } },
  { "dryrun", "dry run of wave_sim, all threads, per task", "us", MOST,
    { "4 ranks", "dryrun", row_at(1, "all"), 5 },
    { "65,536 ranks", "dryrun", row_at(2, "all"), 4 } },
}

return { programs = programs, rows = rows }
