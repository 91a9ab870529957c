--- measure.lua -- what figures.lua draws, as it is measured: a function for each part,
--- which takes the settings and gives a table with `rows`.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local dry = require("spec.bench.dry")

local M = {}

--- The programs of table 3 of Knorr et al., Collective Communication Patterns. The last is the
--- control.
M.programs = { "all_gather", "broadcast_gather", "scatter_gather", "all_to_all", "stencil" }

local SIZES = { cpu = "1024,4096,65536,1048576,16777216",
  cuda = "4096,65536,1048576,16777216,134217728" }

-- Bodies, and steps that are timed at once; nil: as `steps` says.
local NBODY = { cuda = { { 1048576, 1 }, { 131072 } }, cpu = { { 16384, 1 }, { 4096 } } }
local NBODY_DRY = 1048576 -- groups of 256 for all ranks

local GENERATIVE = { patches = 64, first = 64, last = 4096, apart = { 1, 2, 4, 16, 1000 },
  ways = { { 4, false }, { 64, false }, { 64, true } } }

local function words_of(collectives) return not collectives and { "--no-collectives" } or {} end

-- from, 2 from, 4 from, ... `most`
local function powers(from, most)
  local list, n = {}, from
  while n <= most do list[#list + 1], n = n, 2 * n end
  return list
end

-- The numbers of "2,4,8".
local function numbers(text)
  local list = {}
  for word in tostring(text):gmatch("%d+") do list[#list + 1] = tonumber(word) end
  return list
end

--- Whether this host can, as the settings say.
function M.can(part, set) return set.gpus > 0 or not part:find("_gpu", 1, true) end

-- ---- many dry runs at the same time -------------------------------------------------

-- Rows of a part by its cells' names, `jobs` cells at a time.
local function by_cells(names, set)
  local rows, running = {}, {}
  local settings = {}
  for _, name in ipairs { "rounds", "most" } do
    settings[#settings + 1] = name .. "=" .. set[name]
  end
  local function collect()
    local pipe = table.remove(running, 1)
    local text = pipe:read("*a")
    pipe:close()
    if text == "" then error("a dry run failed, see above", 0) end
    for _, row in ipairs(cjson.decode(text)) do rows[#rows + 1] = row end
  end
  for _, name in ipairs(names) do
    if #running == set.jobs then collect() end
    running[#running + 1] = assert(io.popen(("luajit spec/bench/figures.lua cell %s %s"):format(
      name, table.concat(settings, " "))))
  end
  while #running > 0 do collect() end
  return { rows = rows }
end

local cells = {}

--- Rows of one cell: its part, and what of it, with dots between.
function M.cell(name, set)
  local words = {}
  for word in name:gmatch("[^.]+") do words[#words + 1] = word end
  return cells[words[1]](set, unpack(words, 2))
end

-- ---- Collective Communication Patterns, figure 3 ------------------------------------

-- What is small enough for collectives; a matrix has a row for each rank.
local function bytes_of(name) return name == "all_to_all" and 4194304 or 65536 end

-- As rank 0, from which much comes and to which much goes, and as one inside: the one
-- that has more to do.
local function slower(name, ranks, collectives)
  local command = ("spec/bench/patterns.lua %s %d steps=%%d"):format(name, bytes_of(name))
  local most = 0
  for _, as in ipairs { 0, math.max(1, math.floor(ranks / 4)) } do
    most = math.max(most, dry.compare(command, 20, 520,
      { ranks = ranks, as = as, words = words_of(collectives) }, 1).scheduler)
  end
  return most
end

function cells.scheduling(set, name)
  local rows = {}
  for _, ranks in ipairs(powers(2, set.most)) do
    for _, collectives in ipairs { true, false } do
      local us = {}
      for i = 1, set.rounds do us[i] = slower(name, ranks, collectives) end
      rows[#rows + 1] = { program = name, ranks = ranks, collectives = collectives, us = us }
    end
  end
  return rows
end

function M.scheduling(set)
  local names = {}
  for i, name in ipairs(M.programs) do names[i] = "scheduling." .. name end
  return by_cells(names, set)
end

-- ---- Collective Communication Patterns, figure 4 ------------------------------------

local function communication(ranks, backend, set)
  local pipe = assert(io.popen(("luajit spec/bench/collectives.lua %d %d %s %s %d %s"):format(
    ranks, set.rounds, table.concat(M.programs, ","), SIZES[backend], set.milliseconds, backend)))
  local last
  for line in pipe:lines() do last = line end
  pipe:close()
  local rows = {}
  for i, row in ipairs(cjson.decode(last or "").rows) do
    rows[i] = { program = row.program, bytes = row.bytes, ranks = ranks, us = row.all }
  end
  return rows
end

function M.communication_cpu(set)
  local rows = {}
  for _, ranks in ipairs(numbers(set.ranks)) do
    for _, row in ipairs(communication(ranks, "cpu", set)) do rows[#rows + 1] = row end
  end
  return { rows = rows }
end

function M.communication_gpu(set) return { rows = communication(set.gpus, "cuda", set) } end

-- ---- Collective Communication Patterns, figure 5 ------------------------------------

-- Seconds of a step, as often as `rounds` says, in one run.
local function nbody_steps(backend, ranks, collectives, bodies, steps, set)
  local argv = { "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", ranks,
    celer.command(), "run", "--backend", backend, "--devices", "1", "--advice", "off",
    unpack(words_of(collectives)) }
  for _, word in ipairs { "spec/bench/cuda/nbody.lua", bodies, steps, "double", set.rounds } do
    argv[#argv + 1] = word
  end
  if backend == "cpu" and set.cores > 0 then
    local last = set.first + ranks * set.cores - 1
    for i, word in ipairs { "taskset", "-c", set.first .. "-" .. last } do
      table.insert(argv, i, word)
    end
  end
  local r = celer.exec(argv, { timeout = 3600 })
  assert(r.status == 0, r.stderr)
  local seconds = cjson.decode((assert(r.stdout:match('{"prepare": [^\n]*}'), r.stdout))).all
  for i, s in ipairs(seconds) do seconds[i] = s / steps end
  return seconds
end

local function nbody(backend, counts, set)
  local rows = {}
  for _, problem in ipairs(NBODY[backend]) do
    local bodies, steps = problem[1], problem[2] or set.steps
    for _, ranks in ipairs(counts) do
      for _, collectives in ipairs(ranks == 1 and { true } or { true, false }) do
        rows[#rows + 1] = { bodies = bodies, ranks = ranks, collectives = collectives,
          seconds = nbody_steps(backend, ranks, collectives, bodies, steps, set) }
      end
    end
  end
  return { rows = rows }
end

function M.nbody_cpu(set)
  local counts = numbers(set.ranks)
  table.insert(counts, 1, 1)
  local data = nbody("cpu", counts, set)
  data.cores = set.cores
  return data
end

function M.nbody_gpu(set) return nbody("cuda", powers(1, set.gpus), set) end

-- Seconds of a step, which has two tasks, on the thread that has most to do.
function cells.nbody_dry(set, how)
  local rows = {}
  for _, ranks in ipairs(powers(1, set.most)) do
    local row = dry.compare("spec/bench/cuda/nbody.lua " .. NBODY_DRY .. " %d double", 20, 520,
      { ranks = ranks, words = words_of(how == "collectives") }, set.rounds)
    rows[#rows + 1] = { ranks = ranks, collectives = how == "collectives",
      seconds = 2e-6 * math.max(row.main, row.scheduler, row.executor) }
  end
  return rows
end

function M.nbody_dry(set)
  return by_cells({ "nbody_dry.collectives", "nbody_dry.messages" }, set)
end

-- ---- the talk on Celerity -----------------------------------------------------------

function cells.generative(set, way, apart)
  local ranks, collectives = unpack(GENERATIVE.ways[tonumber(way)])
  local rows, words = {}, words_of(collectives)
  words[#words + 1], words[#words + 2] = "--horizon-step", apart
  for _, from in ipairs(powers(GENERATIVE.first, GENERATIVE.last)) do
    local row = dry.compare(("examples/rsim.lua %d %%d"):format(GENERATIVE.patches), from,
      2 * from, { ranks = ranks, words = words }, set.rounds)
    rows[#rows + 1] = { ranks = ranks, collectives = collectives, apart = tonumber(apart),
      from = from, us = row.scheduler }
  end
  return rows
end

function M.generative(set)
  local names = {}
  for way in ipairs(GENERATIVE.ways) do
    for _, apart in ipairs(GENERATIVE.apart) do
      names[#names + 1] = ("generative.%d.%d"):format(way, apart)
    end
  end
  local data = by_cells(names, set)
  data.patches = GENERATIVE.patches
  return data
end

return M
