--- figures.lua -- measures and draws what seeds 001 and 002 draw, of this engine.
---
---   luajit spec/bench/figures.lua FOLDER [figure or part ...] [name=value ...]
---   luajit spec/bench/figures.lua FOLDER [figure ...] draw=only
---
--- A figure is FOLDER/<figure>.svg, and what was measured for it lies in files beside it,
--- FOLDER/<part>.json, one for each of its parts:
---
---   scheduling     Knorr et al., Collective Communication Patterns, figure 3: tasks that the
---                  scheduler handles in a second, over
---                  ranks, with collectives and without. Dry runs. Part: scheduling.
---   communication  Knorr et al., Collective Communication Patterns, figure 4: steps per second
---                  without computation, over sizes of
---                  buffers and numbers of ranks. Real runs on this host. Parts:
---                  communication_cpu, and communication_gpu, which has a GPU for each rank.
---   nbody          Knorr et al., Collective Communication Patterns, figure 5: strong scaling.
---                  Real runs on this host; beyond that
---                  dashed, what scheduling would allow, by dry runs. Parts: nbody_cpu,
---                  nbody_gpu and nbody_dry.
---   generative     the talk on Celerity: what a step of RSim takes of the scheduler as more
---                  rows are
---                  there, by how far apart horizons are. Dry runs. Part: generative.
---
--- Without names all that this host can is measured (of gpus=0 no GPUs' parts), and every
--- figure drawn of which something was measured, at any time and on any host. Settings:
---
---   ranks=2,4,8         real ranks on the processor
---   gpus=0              ranks with a GPU each, at most
---   cores=0 first=0     of each rank of nbody_cpu, and which is the first of all of them;
---                       0: they share all
---   rounds=3            runs of each
---   milliseconds=500    for each size of communication's
---   steps=10            of nbody's small problem
---   most=1024           imagined ranks
---   jobs=1              dry runs at the same time
local cjson = require("cjson")
local draw = require("spec.bench.figures.draw")
local measure = require("spec.bench.figures.measure")

local USAGE = "usage: luajit spec/bench/figures.lua FOLDER [figure or part ...] [name=value ...]"

local FIGURES = { "scheduling", "communication", "nbody", "generative" }
local PARTS = { scheduling = { "scheduling" }, generative = { "generative" },
  communication = { "communication_cpu", "communication_gpu" },
  nbody = { "nbody_dry", "nbody_cpu", "nbody_gpu" } }

local set = { ranks = "2,4,8", gpus = 0, cores = 0, first = 0, rounds = 3, milliseconds = 500,
  steps = 10, most = 1024, jobs = 1, draw = "too" }

-- The folder, and what was named.
local function read_words(words)
  local folder, wanted = nil, {}
  for _, word in ipairs(words) do
    local name, value = word:match("^(%w+)=([%w,]+)$")
    if name and set[name] == nil then error("no setting " .. name .. "; " .. USAGE, 0) end
    if name then
      set[name] = tonumber(value) or value
    elseif folder then
      if not PARTS[word] and not measure[word] then
        error("no figure " .. word .. "; " .. USAGE, 0)
      end
      wanted[word] = true
    else
      folder = word
    end
  end
  return folder or error(USAGE, 0), wanted
end

local function output(command)
  local pipe = assert(io.popen("{ " .. command .. "; } 2>/dev/null"))
  local text = pipe:read("*a")
  pipe:close()
  return (text:gsub("%s+$", ""))
end

-- What stands below the title.
local function host()
  local gpu = output("nvidia-smi --query-gpu=name --format=csv,noheader | sort | uniq -c")
  local count, name = gpu:match("^%s*(%d+)%s+([^\n]+)")
  return { cores = tonumber(output("nproc --all")), may = tonumber(output("nproc")),
    gpu = count and ("%s x %s"):format(count, name),
    processor = output("lscpu | sed -n 's/^Model name: *//p' | head -1"),
    commit = output("git rev-parse --short HEAD") }
end

local function load(path)
  local file = io.open(path)
  if not file then return nil end
  local data = cjson.decode(file:read("*a"))
  file:close()
  return data
end

-- At once: another process may draw the part meanwhile.
local function save(path, data)
  local file = assert(io.open(path .. ".new", "w"))
  file:write(cjson.encode(data), "\n")
  file:close()
  assert(os.rename(path .. ".new", path))
  print(path)
end

local function main()
  local cell = arg[1] == "cell" and table.remove(arg, 1)
  local folder, wanted = read_words(arg)
  if cell then -- of a part: one process of many, which `measure` starts
    print(cjson.encode(measure.cell(folder, set)))
    return
  end
  for _, figure in ipairs(FIGURES) do
    local parts, drawn = {}, next(wanted) == nil or wanted[figure]
    for _, part in ipairs(PARTS[figure]) do
      local path = ("%s/%s.json"):format(folder, part)
      local asked = next(wanted) == nil or wanted[figure] or wanted[part]
      if asked and set.draw ~= "only" and measure.can(part, set) then
        local data = measure[part](set)
        data.host = host()
        save(path, data)
      end
      parts[part], drawn = load(path), drawn or wanted[part]
    end
    if drawn and next(parts) then
      local path = ("%s/%s.svg"):format(folder, figure)
      draw[figure](parts):save(path)
      print(path)
    end
  end
end

local ok, message = pcall(main)
if not ok then
  io.stderr:write(tostring(message), "\n")
  os.exit(1)
end
