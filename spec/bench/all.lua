--- all.lua -- runs the benchmarks, and says which figures are what they should be.
---
---   luajit spec/bench/all.lua [--full] [--only NAME]... [--json FILE] [--list]
---   luajit spec/bench/all.lua --counts
---   luajit spec/bench/all.lua --renew
---
--- From the root of the tree; CELER_BUILD names the build (build/release). Prints a table
--- as it goes, and with --json writes the same there. Quick, a few minutes, or with --full
--- many; on an idle machine, whose name and load come first. --counts compares what does
--- not depend on the machine with spec/bench/expected.json, and --renew writes that anew.
--- The exit status is 1 where a benchmark fails or, with --counts, a count has grown; a
--- figure that misses its target does not count as failure.
package.path = "./?.lua;" .. package.path
local cjson = require("cjson")
local celer = require("spec.support.celer")

local USAGE = "usage: luajit spec/bench/all.lua [--full] [--only NAME]... [--json FILE] "
  .. "[--list] | --counts | --renew"

local function options(words)
  local o = { only = {} }
  local flags = { ["--full"] = "full", ["--list"] = "list", ["--counts"] = "counts",
    ["--renew"] = "renew" }
  local i = 1
  while words[i] do
    local word, value = words[i], words[i + 1]
    if flags[word] then
      o[flags[word]] = true
    elseif word == "--only" and value then
      o.only[value], o.some, i = true, true, i + 1
    elseif word == "--json" and value then
      o.json, i = value, i + 1
    else
      error(USAGE, 0)
    end
    i = i + 1
  end
  o.celer = celer.command()
  function o.bin(name) return (o.celer:gsub("celer$", "bench_" .. name)) end
  return o
end

local function output(command)
  local pipe = assert(io.popen(command .. " 2>/dev/null"))
  local text = pipe:read("*a")
  pipe:close()
  return (text:gsub("%s+$", ""))
end

local function machine()
  return { processor = output("lscpu | sed -n 's/^Model name: *//p' | head -1"),
    cores = tonumber(output("nproc")), load = tonumber((output("cat /proc/loadavg"):match("%S+"))),
    compiler = output("${CXX:-c++} --version | head -1"),
    celer = output("git rev-parse --short HEAD") }
end

-- The last line of JSON, or with `lines` all of them.
local function decode(text, lines)
  local all = {}
  for line in text:gmatch("[^\n]+") do
    if line:sub(1, 1) == "{" then all[#all + 1] = cjson.decode(line) end
  end
  if lines then return all end
  return assert(all[#all], "no JSON in what it printed")
end

local function row_of(name, figure)
  local what, value, unit, sense, bound = unpack(figure, 1, 5)
  local met
  if bound then
    if sense == "<=" then met = value <= bound else met = value >= bound end
  end
  return { name = name, figure = what, value = value, unit = unit,
    target = bound and sense .. " " .. bound or nil, met = met }
end

local function show(row)
  print(("%-22s %-36s %10.2f %-6s %-8s %s"):format(row.name, row.figure, row.value, row.unit,
    row.target or "", row.met and "met" or row.met == false and "MISSED" or ""))
end

-- Rows of one benchmark; throws when it fails. Scripts are told the build, which celer
-- itself must not see.
local function measure(bench, o)
  local argv = bench.argv(o)
  local r = celer.exec(argv, { timeout = o.full and 3600 or 600,
    env = argv[1] == "luajit" and { CELER_BUILD = os.getenv("CELER_BUILD") } or nil })
  if r.status ~= 0 then error(r.stderr .. r.stdout, 0) end
  local rows = {}
  for i, figure in ipairs(bench.figures(decode(r.stdout, bench.lines))) do
    rows[i] = row_of(bench[1], figure)
  end
  return rows
end

local function chosen(bench, o)
  if o.some then return o.only[bench[1]] end
  return o.full or not bench.full
end

local function run_all(o)
  local m, rows, failures = machine(), {}, {}
  print(("%s, %d cores, load %.1f, %s, celer %s"):format(m.processor, m.cores, m.load,
    m.compiler, m.celer))
  print(("%-22s %-36s %10s %-6s %-8s"):format("name", "figure", "value", "", "target"))
  for _, bench in ipairs(require("spec.bench.suite")) do
    if chosen(bench, o) then
      local ok, result = pcall(measure, bench, o)
      if ok then
        for _, row in ipairs(result) do
          show(row)
          rows[#rows + 1] = row
        end
      else
        print(bench[1] .. " FAILED: " .. tostring(result))
        failures[#failures + 1] = bench[1]
      end
      io.flush()
    end
  end
  return { machine = m, full = o.full or false, rows = rows, failed = failures }
end

local function compare()
  local counts = require("spec.bench.counts")
  local more, less = counts.compare(counts.measure(), counts.expected())
  for _, text in ipairs(more) do print("MORE  " .. text) end
  for _, text in ipairs(less) do print("less  " .. text) end
  print(("%d are more than expected, %d less (--renew then keeps it so)"):format(#more, #less))
  return #more == 0
end

local function save(path, report)
  local file = assert(io.open(path, "w"))
  file:write(cjson.encode(report), "\n")
  file:close()
end

local function main()
  local o = options(arg)
  if o.counts then return compare() end
  if o.renew then
    local counts = require("spec.bench.counts")
    counts.renew(counts.measure())
    return true
  end
  if o.list then
    for _, bench in ipairs(require("spec.bench.suite")) do
      print(bench[1] .. (bench.full and " (with --full)" or ""))
    end
    return true
  end
  local report = run_all(o)
  if o.json then save(o.json, report) end
  return #report.failed == 0
end

local ok, fine = pcall(main)
if not ok then io.stderr:write(tostring(fine), "\n") end
os.exit(ok and fine and 0 or 1)
