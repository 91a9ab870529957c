-- Hand-written CUDA beside celer, in turns, on a machine with GPUs.
--   luajit spec/bench/cuda/run.lua [--devices N | --ranks N] [--repeat N] [name ...]
-- From the root of the tree. CELER names the command (build/release/celer), NVCC
-- the compiler. Each benchmark prints its figures last, as one line of JSON.
local here = "spec/bench/cuda/"

-- name, program, what both take, what only the hand-written one takes, and how
-- far apart the checksums may be, relative to their size. `each` is what grows
-- with the number of GPUs; `least` and `most` say for how many it is there.
local benchmarks = {
  { "wave", "wave", { 16384, 16384, 200 }, within = 1e-6 },
  { "wave_weak", "wave", { 16384, 16384, 200 }, each = 1, least = 2, within = 1e-6 },
  { "wave_small", "wave", { 4096, 4096, 2000 }, within = 1e-6 },
  { "wave_small_one_thread", "wave", { 4096, 4096, 2000 }, "one", least = 2, within = 1e-6 },
  { "wave_idle", "wave", { 4096, 4096, 200, "idle" }, most = 1, within = 1e-6 },
  { "nbody_float", "nbody", { 131072, 20 }, within = 1e-4 },
  { "nbody_double", "nbody", { 131072, 10, "double" }, within = 1e-9 },
  { "nbody_large", "nbody", { 1048576, 2, "double" }, least = 2, within = 1e-9 },
  { "jacobi", "jacobi", { 16384, 200 }, within = 1e-9 },
  { "matmul", "matmul", { 4096, 20 }, within = 1e-6 },
  { "matmul_barriers", "matmul", { 4096, 20, "barriers" }, within = 1e-6 },
  { "chain_stream", "chain", { 65536, 5000, 500 }, most = 1, within = 1e-9 },
  { "chain_graph", "chain", { 65536, 5000, 500 }, "graph", most = 1, within = 1e-9 },
  { "sum", "sum", { 2 ^ 28, 200 }, most = 1, within = 1e-5 },
  { "sum_small", "sum", { 2 ^ 20, 2000 }, most = 1, within = 1e-5 },
  { "histogram", "sum", { 2 ^ 28, 100, "histogram" }, most = 1, within = 0 },
  { "copy_device", "copy", { 1024, 200 }, most = 1, parts = true, within = 0 },
  { "copy_64", "copy", { 64, 200 }, least = 2, parts = true, within = 0 },
  { "copy_1024", "copy", { 1024, 50 }, least = 2, parts = true, within = 0 },
}
for _, pattern in ipairs { "all_gather", "uneven", "broadcast", "scatter", "gather" } do
  for _, size in ipairs { { 1, 1000 }, { 64, 200 }, { 512, 50 } } do
    benchmarks[#benchmarks + 1] = { ("%s_%d"):format(pattern, size[1]), "collectives",
      { size[1], size[2], pattern }, least = 2, parts = true, within = 0 }
  end
end
for _, size in ipairs { { 1, 1000 }, { 64, 200 }, { 512, 50 } } do
  for _, pattern in ipairs { "transpose", "blocks" } do
    benchmarks[#benchmarks + 1] = { ("%s_%d"):format(pattern, size[1]), "matrix",
      { size[1], size[2], pattern }, least = 2, parts = true, within = 0 }
  end
end
for _, size in ipairs { { 1, 1000 }, { 64, 200 } } do
  benchmarks[#benchmarks + 1] = { ("all_reduce_%d"):format(size[1]), "reduce",
    { size[1], size[2] }, least = 2, parts = true, within = 0 }
end
local libraries = { collectives = "-lnccl", matrix = "-lnccl", reduce = "-lnccl" }

local celer = os.getenv("CELER") or "build/release/celer"
local folder

local function output(command)
  local pipe = assert(io.popen(command .. " 2>&1; echo \"status $?\""))
  local text = pipe:read("*a")
  pipe:close()
  local body, status = text:match("^(.*)status (%d+)%s*$")
  return status == "0", body or text
end

local function options(words)
  local o, names = { devices = 1, ranks = 1, repeats = 5 }, {}
  local known = { ["--devices"] = "devices", ["--ranks"] = "ranks", ["--repeat"] = "repeats" }
  local i = 1
  while words[i] do
    local key = known[words[i]]
    if key then
      o[key] = assert(tonumber(words[i + 1]), words[i] .. " takes a number")
      i = i + 1
    else
      names[words[i]] = true
    end
    i = i + 1
  end
  o.gpus = o.devices * o.ranks
  -- mpirun by itself gives each of two ranks one core.
  local pipe = assert(io.popen("nproc"))
  o.cores = pipe:read("*n")
  pipe:close()
  return o, names
end

local function compiler()
  for _, nvcc in ipairs { os.getenv("NVCC") or "nvcc", "/usr/local/cuda/bin/nvcc" } do
    if output(nvcc .. " --version") then return nvcc end
  end
end

local function missing(o)
  local ok, list = output("nvidia-smi -L")
  local _, count = list:gsub("GPU %d+:", "")
  if not ok or count == 0 then return "no GPU (nvidia-smi -L lists none)" end
  if count < o.gpus then return ("%d GPUs, not %d"):format(count, o.gpus) end
  if not compiler() then return "no nvcc; set NVCC" end
  if not output(celer .. " info") then return "no celer at " .. celer .. "; set CELER" end
end

local built = {}
local function build(program)
  if built[program] then return built[program] end
  local path = folder .. "/" .. program
  local ok, text = output(("%s -O3 -std=c++17 -arch=native -o %s %s%s.cu %s"):format(
    compiler(), path, here, program, libraries[program] or ""))
  assert(ok, text)
  built[program] = path
  return path
end

-- What a run printed: prepare, seconds, checksum, idle_us.
local function measured(command)
  local ok, text = output(command)
  local line = ok and text:match('{"prepare": [^\n]*}')
  if not line then error(command .. "\n" .. text, 0) end
  local figures = {}
  for key, value in line:gmatch('"([%w_]+)": ([^,}]+)') do figures[key] = tonumber(value) end
  return figures
end

local function commands(b, o)
  local words = { unpack(b[3]) }
  if b.each then words[b.each] = words[b.each] * o.gpus end
  local both = table.concat(words, " ")
  local hand = ("%s %d %s %s"):format(build(b[2]), o.gpus, both, b[4] or "")
  local launcher = o.ranks > 1 and ("mpirun --map-by slot:PE=%d -n %d "):format(
    math.max(math.floor(o.cores / o.ranks), 1), o.ranks) or ""
  local ours = ("%s%s run --backend cuda --devices %d %s%s.lua %s %s"):format(launcher, celer,
    o.devices, here, b[2], both, b.parts and o.gpus or "")
  return hand, ours
end

local function summary(runs, key)
  local values = {}
  for _, r in ipairs(runs) do values[#values + 1] = r[key] end
  if #values == 0 then return end
  table.sort(values)
  return values[1], values[math.ceil(#values / 2)]
end

local function same(a, b, within)
  return math.abs(a - b) <= within * math.max(math.abs(a), math.abs(b))
end

local function show(b, o, hand, ours)
  local h, hm = summary(hand, "seconds")
  local c, cm = summary(ours, "seconds")
  local step = b[3][b[2] == "wave" and 3 or 2]
  local agree = same(hand[1].checksum, ours[1].checksum, b.within)
  print(("%-22s %9.2f %9.2f us/step by hand, %9.2f %9.2f in celer (best, median); %.3f %s"):format(
    b[1], h / step * 1e6, hm / step * 1e6, c / step * 1e6, cm / step * 1e6, hm / cm,
    agree and "" or ("CHECKSUMS DIFFER: %.17g, %.17g"):format(hand[1].checksum, ours[1].checksum)))
  local idle = ""
  if hand[1].idle_us then
    idle = (', "hand_idle_us": %.3f, "celer_idle_us": %.3f'):format(
      (select(2, summary(hand, "idle_us"))), (select(2, summary(ours, "idle_us"))))
  end
  local _, hp = summary(hand, "prepare")
  local _, cp = summary(ours, "prepare")
  return ('{"bench": "cuda_%s", "devices": %d, "ranks": %d, "steps": %d, "hand_best_s": %.6g, '
    .. '"hand_median_s": %.6g, "celer_best_s": %.6g, "celer_median_s": %.6g, '
    .. '"hand_prepare_s": %.3g, "celer_prepare_s": %.3g, "hand_over_celer": %.4f, '
    .. '"best_over_best": %.4f, "same": %s%s}'):format(b[1], o.devices, o.ranks, step, h, hm, c,
    cm, hp, cp, hm / cm, h / c, tostring(agree), idle), agree
end

local function bench(b, o)
  local by_hand, in_celer = commands(b, o)
  local hand, ours = {}, {}
  for i = 1, o.repeats do
    hand[i], ours[i] = measured(by_hand), measured(in_celer)
  end
  return show(b, o, hand, ours)
end

local function main()
  local o, names = options(arg)
  local why = missing(o)
  if why then
    print("skipped: " .. why)
    return true
  end
  folder = assert(io.popen("mktemp -d")):read("*l")
  local lines, fine = {}, true
  for _, b in ipairs(benchmarks) do
    local asked = names[b[1]] or next(names) == nil
    if asked and o.gpus >= (b.least or 1) and o.gpus <= (b.most or 8) then
      local ok, line, agree = pcall(bench, b, o)
      if ok then lines[#lines + 1] = line else print(b[1] .. ": " .. line) end
      fine = fine and ok and agree
    end
  end
  os.execute("rm -r '" .. folder .. "'")
  print(table.concat(lines, "\n"))
  return fine
end

os.exit(main() and 0 or 1)
