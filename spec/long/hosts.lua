-- hosts.lua -- everything on several hosts (spec/support/hosts.sh), which has to come to what
-- one host comes to.
--
--   luajit spec/long/hosts.lua [WORDS]
--
-- All examples, random programs and random scripts: on 2, 3 and 4 hosts with 1 and 2 ranks
-- each, over slow and lossy links, and under Slurm. WORDS chooses those whose name has them.
-- The last line is `N passed, N failed, N skipped`.
package.path = "./?.lua;" .. package.path
local celer = require("spec.support.celer")
local hosts = require("spec.support.hosts")
local scratch = require("spec.support.scratch")

local here = os.getenv("PWD")
local wanted = arg[1] or ""
local passed, failed, skipped = 0, 0, 0

-- Runs `check` if there can be hosts with `bed`; it fails where it gives a text.
local function try(name, bed, check)
  if not name:find(wanted, 1, true) then return end
  local why = hosts.missing(bed)
  if why then
    skipped = skipped + 1
    return print(("skipped: %s: %s"):format(name, why))
  end
  local fault = check()
  if not fault then
    passed = passed + 1
    return
  end
  failed = failed + 1
  print(("failed: %s: %s"):format(name, fault:gsub("%s+$", ""):gsub("\n", " | ")))
end

-- What is wrong with a run that should have printed `text`; nil: nothing.
local function differs(r, text)
  if r.status ~= 0 then return ("status %d: %s"):format(r.status, r.stderr) end
  if r.stderr ~= "" then return "stderr: " .. r.stderr end
  if text and r.stdout ~= text then return ("said %s, wanted %s"):format(r.stdout, text) end
end

local shapes = {}
for n = 2, 4 do
  for per_host = 1, 2 do
    shapes[#shapes + 1] = { hosts = n, ranks = n * per_host,
      name = ("%d hosts x %d"):format(n, per_host) }
  end
end

-- Name and arguments; FILE is a path that does not exist yet, and is the run's own.
local examples = {
  { "cg", 48 }, { "convolution" }, { "distr_io", 37, 5, "FOLDER" },
  { "adaptive", 2, 2 }, { "exposure", 33, 5 }, { "game_of_life", 13, 29, 31 }, { "graph", 8, 4 },
  { "gray_scott", "size={48, 40}", "steps=30" }, { "heat3d", 24, 20 }, { "hello" },
  { "histogram", 50000, 13 }, { "jacobi", 61, 40 },
  { "kmeans", 700, 7, 3 }, { "lattice_boltzmann", 24, 40, 20 }, { "mandelbrot", 150, 90 },
  { "matmul", 48 }, { "matmul_cublas", 48 }, { "mesh", 5 },
  { "molecules", 5, 4 }, { "movie", 40, 7, "FILE" },
  { "nbody", 53, 7 }, { "nbody_tiled", 128, 7 },
  { "out_of_core", 1, 3, 2 }, { "plasma", 12, 10 }, { "rsim", 37, 23 }, { "transpose", 37, 23, 5 },
  { "wave_restart", 61, 47, 10, "FILE" }, { "wave_sim", 64, 64, 40 },
}

-- The arguments of `celer` for an example. What it leaves lies where all hosts see it.
local function arguments(example)
  local args = { "run", "--advice", "off", ("%s/examples/%s.lua"):format(here, example[1]) }
  for i = 2, #example do
    local word = example[i]
    if word == "FILE" then word = scratch.path() end
    if word == "FOLDER" then word = scratch.folder() end
    args[#args + 1] = tostring(word)
  end
  return args
end

for _, example in ipairs(examples) do
  local alone
  for _, shape in ipairs(shapes) do
    try(("%s on %s"):format(example[1], shape.name), nil, function()
      alone = alone or celer.run(arguments(example), { cwd = scratch.folder() })
      return differs(alone) or differs(hosts.celer(shape.hosts, arguments(example),
        { ranks = shape.ranks, cwd = scratch.folder() }), alone.stdout)
    end)
  end
end

-- random_programs as one job on n hosts.
local function random_programs(n, ranks, count, bed)
  local all = { slots = math.ceil(ranks / n) }
  for name, value in pairs(bed or {}) do all[name] = value end
  local r = hosts.run(n, { "mpirun", "-n", ranks, celer.folder() .. "/random_programs", "--mpi",
    "--count", count }, { bed = all })
  return differs(r) or not r.stdout:find(("%d programs, 0 failures\n$"):format(count)) and r.stdout
end

-- The scripts made at random, each of which looks at its own results.
local scripts = {
  { "model", "FOLDER", 100, 20 }, { "files", "FOLDER", 100, 3 }, { "mappers", 100, 20 },
  { "steps", 100, 20 },
}

local function random_script(script, n, ranks, bed)
  local args = arguments(script)
  args[4] = ("%s/spec/random/scripts/%s.lua"):format(here, script[1])
  local r = hosts.celer(n, args, { ranks = ranks, bed = bed })
  return r.status ~= 0 and differs(r) or nil
end

for _, shape in ipairs(shapes) do
  try("random programs on " .. shape.name, nil, function()
    return random_programs(shape.hosts, shape.ranks, 200)
  end)
  for _, script in ipairs(scripts) do
    try(("random %s on %s"):format(script[1], shape.name), nil, function()
      return random_script(script, shape.hosts, shape.ranks)
    end)
  end
end

for _, bed in ipairs { { delay = 0.1 }, { delay = 1 }, { delay = 10 }, { loss = 1 },
  { rate = 100 }, { delay = 1, loss = 1, rate = 100 } } do
  local words = {}
  for _, name in ipairs { "delay", "loss", "rate" } do
    if bed[name] then words[#words + 1] = name .. " " .. bed[name] end
  end
  local links = ", " .. table.concat(words, ", ")
  for _, example in ipairs { { "wave_sim", 64, 64, 40 }, { "transpose", 512, 384, 5 },
    { "rsim", 37, 23 }, { "cg", 48 }, { "wave_restart", 61, 47, 10, "FILE" } } do
    try(example[1] .. links, bed, function()
      local alone = celer.run(arguments(example), { cwd = scratch.folder() })
      return differs(hosts.celer(3, arguments(example),
        { bed = bed, cwd = scratch.folder() }), alone.stdout)
    end)
  end
  try("random programs" .. links, bed, function() return random_programs(3, 3, 40, bed) end)
  for _, script in ipairs(scripts) do
    try(("random %s%s"):format(script[1], links), bed, function()
      return random_script(script, 2, 2, bed)
    end)
  end
end

try("under Slurm on 4 hosts", nil, function()
  local folder = scratch.path(".slurm")
  local words = {}
  for i, word in ipairs(arguments { "wave_sim", 64, 64, 40 }) do words[i] = word end
  local alone = celer.run(words)
  local r = hosts.run(4, ([[
    spec/support/slurm.sh up %s h1 h2 h3 h4 || exit 77
    export SLURM_CONF=%s/slurm.conf
    srun -Q --mpi=pmix -N 4 --overcommit %s %s &&
    srun -Q --mpi=pmix -N 4 --overcommit %s/random_programs --mpi --count 20]])
    :format(folder, folder, celer.command(), table.concat(words, " "), celer.folder()))
  if r.status == 77 then
    skipped, passed = skipped + 1, passed - 1
    return print("skipped: no Slurm: " .. r.stderr)
  end
  return differs({ status = r.status, stderr = r.stderr,
    stdout = r.stdout:sub(1, #alone.stdout) }, alone.stdout)
    or not r.stdout:find("20 programs, 0 failures\n$") and r.stdout
end)

print(("%d passed, %d failed, %d skipped"):format(passed, failed, skipped))
os.exit(failed == 0)
