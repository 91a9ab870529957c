--- run.lua -- kernels on the processor beside the same loops in plain C, in turns.
---
---   luajit spec/bench/cpu_kernels/run.lua [--repeat N] [name ...]
---
--- The C programs are compiled by the compiler of kernels, with its flags, and with
--- OpenMP; both use all cores of this process. From the root of the tree; CELER_BUILD
--- names the build (build/release). `ratio`: plain C's time over celer's, the median of
--- the turns; target: at least 0.95, of tiles 0.5. Barriers have none: use tiles. The last
--- line is JSON.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local compile = require("spec.bench.compile")

local here = "spec/bench/cpu_kernels/"

-- Name, program, what both take, what only the C program or only celer takes.
local benchmarks = {
  { "wave", "wave", { 2048, 2048, 500 }, target = 0.95 },
  { "matmul", "matmul", { 1024, 2 }, script = "plain", target = 0.95 },
  { "matmul_tiles", "matmul", { 512, 20 }, program = "tiles", target = 0.5 },
  { "spmv_band", "spmv", { 1000000, 100, "band" }, file = "spec/bench/spmv.lua",
    script = "product", steps = 100, target = 0.95 },
  { "spmv_scrambled", "spmv", { 1000000, 100, "scrambled" }, file = "spec/bench/spmv.lua",
    script = "product", steps = 100, target = 0.95 },
  { "spmv_kronecker", "spmv", { 1000000, 50, "kronecker" }, file = "spec/bench/spmv.lua",
    script = "product", steps = 50, target = 0.95 },
  { "matmul_barriers", "matmul", { 512, 4 }, program = "tiles", script = "barriers" },
}

local function options(words)
  local repeats, names = 5, {}
  local i = 1
  while words[i] do
    if words[i] == "--repeat" then
      repeats = assert(tonumber(words[i + 1]), "--repeat takes a number")
      i = i + 1
    else
      names[words[i]] = true
    end
    i = i + 1
  end
  return repeats, names
end

local function must(argv, more)
  local r = celer.exec(argv, more)
  assert(r.status == 0, table.concat(argv, " ") .. "\n" .. r.stderr .. r.stdout)
  return r.stdout
end

local folder

local function build(program)
  local path = folder .. "/" .. program
  compile(path, here .. program .. ".c", { "-fopenmp", "-lm" })
  return path
end

local function words_of(head, b, more)
  local argv = { unpack(head) }
  for _, word in ipairs(b[3]) do argv[#argv + 1] = word end
  argv[#argv + 1] = more
  return argv
end

local function measured(argv)
  local text = must(argv, { timeout = 600, env = { OMP_PROC_BIND = "true" } })
  return cjson.decode((assert(text:match('{"prepare": [^\n]*}'), text)))
end

local function median(values)
  table.sort(values)
  return values[math.ceil(#values / 2)]
end

local function bench(b, repeats)
  local by_hand = words_of({ build(b[2]) }, b, b.program)
  local ours = words_of({ celer.command(), "run", "--backend", "cpu", "--devices", 1, "--advice",
    "off", b.file or "spec/bench/cuda/" .. b[2] .. ".lua" }, b, b.script)
  local plain, kernel, ratio = {}, {}, {}
  for i = 1, repeats do
    local p, k = measured(by_hand), measured(ours)
    local apart = math.abs(p.checksum - k.checksum)
    assert(apart <= 1e-6 * math.abs(p.checksum), b[1] .. ": the checksums differ")
    plain[i], kernel[i], ratio[i] = p.seconds, k.seconds, p.seconds / k.seconds
  end
  local steps = b.steps or b[3][#b[3]]
  return { name = b[1], plain_us = median(plain) / steps * 1e6,
    celer_us = median(kernel) / steps * 1e6, ratio = median(ratio), target = b.target }
end

local repeats, names = options(arg)
local rows = {}
folder = assert(io.popen("mktemp -d")):read("*l")
print(("%-14s %14s %14s %8s"):format("us per step", "plain C", "celer", "ratio"))
for _, b in ipairs(benchmarks) do
  if names[b[1]] or next(names) == nil then
    local row = bench(b, repeats)
    rows[#rows + 1] = row
    print(("%-14s %14.1f %14.1f %8.2f"):format(row.name, row.plain_us, row.celer_us, row.ratio))
  end
end
os.execute("rm -r '" .. folder .. "'")
print(cjson.encode { bench = "cpu_kernels", rows = rows })
