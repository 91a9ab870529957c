--- suite.lua -- the benchmarks that all.lua runs, and what they should reach.
---
--- Each has a name, `argv(o)`: the words of its command, where o.full says whether there
--- is time and o.bin(name) and o.celer are programs of the build, and `figures(j)`: what
--- its last line of JSON says, as rows {figure, value, unit, at least/most, bound}.
--- `full`: only then is it run unless asked for; `lines`: every line of it is JSON.
local cjson = require("cjson")

local MOST, LEAST = "<=", ">="

-- "celer run" for figures: no advice between them.
local function run(o, ...)
  return { o.celer, "run", "--backend", "cpu", "--devices", "1", "--advice", "off", ... }
end

local function mpirun(o, ranks, ...)
  local argv = { "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", ranks }
  for _, word in ipairs(run(o, ...)) do argv[#argv + 1] = word end
  return argv
end

-- The least factor over Celerity's figures, of some setups.
local function least_factor(rows, chosen)
  local least
  for _, row in ipairs(rows) do
    for name, t in pairs(row) do
      if type(t) == "table" and t.mark > 0 and chosen(row, name) then
        least = math.min(least or math.huge, t.mark / t.us)
      end
    end
  end
  return least
end

local function is_lone_chain(row, name) return name == "chain" and row.ranks == 1 end

local function graph(j)
  return {
    { "instructions, over Celerity", least_factor(j.rows, function(row, name)
      return row.instructions and row.ranks <= 16 and not is_lone_chain(row, name)
    end), "times", LEAST, 3 },
    { "the chain on 1 rank", least_factor(j.rows, function(row, name)
      return row.instructions and is_lone_chain(row, name)
    end), "times", LEAST, 2 },
    { "commands, over Celerity", least_factor(j.rows, function(row)
      return not row.instructions and row.setup ~= "task graph"
    end), "times" },
  }
end

-- What the scheduler and the executor take as one of 65,536, over one of 4.
local function dryrun(j)
  local cost, figures = {}, {}
  for _, row in ipairs(j.rows) do
    cost[row.program .. row.ranks] = row.scheduler + row.executor
  end
  local function ratio(name, a, b, bound)
    if cost[a] and cost[b] then
      figures[#figures + 1] = { name, cost[a] / cost[b], "times", bound and MOST, bound }
    end
  end
  ratio("wave_sim, 65,536 ranks over 4", "wave_sim65536", "wave_sim4", 1.5)
  ratio("wave_sim 2d, the same", "wave_sim 2d65536", "wave_sim 2d4", 1.5)
  for _, name in ipairs { "jacobi", "rsim", "all_gather", "broadcast", "all_to_all" } do
    ratio(name .. ", the same", name .. "65536", name .. "4", 2)
  end
  ratio("rsim, step 10,000 over step 100", "rsim late4", "rsim early4", 1.2)
  return figures
end

-- How many times as fast collectives are as messages, at least: of small buffers, and of
-- any where that is all that can be asked for.
local function collectives(j)
  local figures = {}
  for _, wanted in ipairs { { "all_gather", 4096, 1.5 }, { "broadcast", 4096, 1.5 },
    { "all_to_all", 4096, 1.5 }, { "scatter_gather", math.huge, 0.95 },
    { "stencil", math.huge, 0.95 } } do
    local program, most, bound = unpack(wanted)
    local least = math.huge
    for _, row in ipairs(j.rows) do
      if row.program == program and row.bytes <= most then least = math.min(least, row.times) end
    end
    figures[#figures + 1] = { program .. ", over messages", least, "times", LEAST, bound }
  end
  return figures
end

local function submit(j)
  return { { "fresh closure and mapper", j.fresh, "us", MOST, 2 },
    { "its number changes, too", j.changing, "us" }, { "nothing but the group", j.same, "us" },
    { "prepared", j.prepared, "us" } }
end

local function loops(j)
  return { { "independent tasks", j.independent_2500, "us", MOST, 6 },
    { "stencil 128 x 128, over its kernel", j.stencil_500 - j.stencil_kernel, "us", MOST, 10 },
    { "its kernel", j.stencil_kernel, "us" },
    { "RSim, 500 steps", j.rsim_500, "us" } }
end

local function kernels(j)
  local figures = {}
  for _, row in ipairs(j.rows) do
    figures[#figures + 1] = { row.name .. ", plain C over celer", row.ratio, "times",
      row.target and LEAST, row.target }
  end
  return figures
end

-- What a rank's graphs hold after the 203 tasks of wave_sim, by ranks.
local function memory_of_ranks(rows)
  local figures, first, last = {}, nil, nil
  for _, row in ipairs(rows) do
    local ranks = row.name:match("^wave_sim, (%d+) ranks of 1$")
    if ranks and row.held ~= cjson.null then
      first, last = first or row.held, row.held
      figures[#figures + 1] = { ("wave_sim, a rank's graphs, of %s"):format(ranks),
        row.held / 1024, "KiB" }
    end
  end
  if first then
    figures[#figures + 1] = { "the last over the first", last / first, "times", MOST, 1.1 }
  end
  return figures
end

-- What a process takes as one of so many ranks.
local function resident(ranks)
  return { ("memory of %d ranks"):format(ranks), argv = function(o)
    return { o.celer, "run", "--backend", "cpu", "--advice", "off", "--dry-run", ranks,
      "--as-rank", ranks / 4, "--output", "all", "spec/bench/resident.lua" }
  end, figures = function(j)
    return { { "a stencil's rank, at its most", j.kib / 1024, "MiB" } }
  end }
end

return {
  { "graph", argv = function(o) return { o.bin("graph"), o.full and "200" or "10" } end,
    figures = graph },
  { "shutdown", argv = function(o)
    return { o.bin("graph"), "shutdown", o.full and "500" or "20" }
  end, figures = function(j)
    return { { "the epoch at the end adds", j.shutdown_worst_percent, "%" } }
  end },
  { "ownership", argv = function(o) return { o.bin("ownership") } end, figures = function(j)
    return { { "a stencil's task, 65,536 ranks", j.us_65536, "us" },
      { "over 4 ranks", j.ratio, "times", MOST, 1.5 } }
  end },
  { "dryrun", argv = function(o)
    local argv = { "luajit", "spec/bench/dryrun.lua", o.full and 5 or 1 }
    for _, program in ipairs(o.full and {} or { "wave_sim", "wave_sim 2d", "jacobi", "rsim",
      "all_gather", "rsim early", "rsim late" }) do
      argv[#argv + 1] = program
    end
    return argv
  end, figures = dryrun },
  { "collectives", full = true, argv = function(o)
    local argv = { "luajit", "spec/bench/collectives.lua", 8, o.full and 5 or 1 }
    if not o.full then
      for _, word in ipairs { "", "4096,1048576", 50 } do argv[#argv + 1] = word end
    end
    return argv
  end, figures = collectives },
  { "memory", lines = true, argv = function(o) return { o.bin("counts") } end,
    figures = memory_of_ranks },
  resident(4),
  resident(1024),
  resident(65536),
  { "memory of a long run", full = true, argv = function(o)
    return run(o, "spec/bench/memory.lua", "1000000")
  end, figures = function(j)
    return { { "grows in a million steps by", j.grown_kib, "KiB", MOST, 1024 } }
  end },
  { "region", argv = function(o) return { o.bin("region") } end, figures = function(j)
    return { { "union of large regions", j.results["union 2-D large"], "us" } }
  end },
  { "submit", argv = function(o) return run(o, "spec/bench/submit.lua") end, figures = submit },
  { "submit, no JIT", argv = function(o) return run(o, "spec/bench/submit.lua", "nojit") end,
    figures = submit },
  { "loops", argv = function(o)
    return run(o, "spec/bench/loops.lua", o.full and "9" or "3")
  end, figures = loops },
  { "handover", argv = function(o)
    return { o.bin("handover"), o.full and "20000" or "2000" }
  end, figures = function(j)
    return { { "epoch", j.epoch, "us" }, { "task", j.task, "us" }, { "fence", j.fence, "us" } }
  end },
  { "device", argv = function(o) return { o.bin("device") } end, figures = function(j)
    return { { "a job through the CPU backend", j.single_us, "us" },
      { "one of many", j.many_us, "us" } }
  end },
  { "conflict", full = true, argv = function(o) return { o.bin("conflict") } end,
    figures = function(j)
      return { { "a search among 500, worst", j.search_worst_us, "us" } }
    end },
  { "chain", argv = function(o)
    return mpirun(o, 2, "spec/bench/chain.lua", o.full and 4000 or 200)
  end, figures = function(j)
    return { { "10 host tasks by side effects", j.effects, "us" },
      { "the same by waits, over it", j.barriers_over_effects, "times" } }
  end },
  { "wait", argv = function(o)
    return mpirun(o, 2, "spec/bench/wait.lua", o.full and 20000 or 500)
  end, figures = function(j)
    return { { "q:wait() over MPI_Barrier", j.wait_over_barrier, "us" } }
  end },
  { "hello", argv = function(o)
    return { "luajit", "spec/bench/hello.lua", o.full and 20 or 5 }
  end, figures = function(j)
    return { { "hello.lua, warm cache", j.ms, "ms", MOST, 100 } }
  end },
  { "start", argv = function(o)
    return { "luajit", "spec/bench/start.lua", 4, 16, o.full and 64 or nil }
  end, figures = function(j)
    return { { "messages, per doubling of ranks", j.messages_per_doubling, "", MOST, 60 },
      { "peers, per doubling of ranks", j.peers_per_doubling, "", MOST, 2 },
      { "files, but for rank 0", j.files, "", MOST, 30 },
      { "scripts and modules, but for rank 0", j.sources, "", MOST, 0 } }
  end },
  { "sample", argv = function(o)
    return { "luajit", "spec/bench/sample.lua", o.full and 21 or 5 }
  end, figures = function(j)
    return { { "samples in a short run", j.short_ms, "ms", MOST, 20 },
      { "samples in a long run", j.long_percent, "%" },
      { "samples, with an empty cache", j.cold_ratio, "times", MOST, 1.5 } }
  end },
  { "cpu_kernels", argv = function(o)
    return { "luajit", "spec/bench/cpu_kernels/run.lua", "--repeat", o.full and 9 or 3 }
  end, figures = kernels },
  { "particles", full = true, argv = function(o)
    return { "luajit", "spec/bench/particles/run.lua", "--repeat", o.full and 5 or 1 }
  end, figures = kernels },
  { "ranks", argv = function(o)
    return { "luajit", "spec/bench/ranks.lua", 4, o.full and 9 or 3 }
  end, figures = function(j)
    return { { "wave_sim, 4 ranks over 1", j.whole, "times", MOST, 1.5 },
      { "its loop, without mpirun's start", j.loop, "times", MOST, 1.5 } }
  end },
  { "hosts", full = true, argv = function(o)
    return { "luajit", "spec/bench/hosts.lua", o.full and 9 or 3 }
  end, figures = function(j)
    return { { "2 ms step, 4 KiB, 1 ms apart, over 1 host", j.row_4k.ratio, "times", MOST, 1.1 },
      { "the same, halos of 256 KiB", j.halo_256k.ratio, "times", MOST, 1.1 },
      { "delays of a step, 4 KiB", j.row_4k.flights, "times" },
      { "delays of a step, 256 KiB", j.halo_256k.flights, "times" } }
  end },
}
