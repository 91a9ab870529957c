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
local report = require("spec.bench.report")

local USAGE = "usage: luajit spec/bench/all.lua [--full] [--only NAME]... [--json FILE] "
  .. "[--list] | --counts | --renew"

local function row_of(name, figure)
  local what, value, unit, sense, bound = unpack(figure, 1, 5)
  local met
  if bound then met = report.is_met(value, sense, bound) end
  return { name = name, figure = what, value = value, unit = unit,
    target = bound and sense .. " " .. bound or nil, met = met }
end

local function show(row)
  print(("%-22s %-36s %10.2f %-6s %-8s %s"):format(row.name, row.figure, row.value, row.unit,
    row.target or "", row.met and "met" or row.met == false and "MISSED" or ""))
end

-- Rows of one benchmark; throws when it fails.
local function measure(bench, o)
  local text = report.output_of(bench.argv(o), { timeout = o.full and 3600 or 600 })
  local rows = {}
  for i, figure in ipairs(bench.figures(report.decode(text, bench.lines))) do
    rows[i] = row_of(bench[1], figure)
  end
  return rows
end

local function chosen(bench, o)
  if o.some then return o.only[bench[1]] end
  return o.full or not bench.full
end

local function run_all(o)
  local m, rows, failures = report.machine(), {}, {}
  print(report.line(m))
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

local function main()
  local o = report.options(arg, USAGE, { "full", "counts", "renew" })
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
  local result = run_all(o)
  if o.json then report.save(o.json, result) end
  return #result.failed == 0
end

local ok, fine = pcall(main)
if not ok then io.stderr:write(tostring(fine), "\n") end
os.exit(ok and fine and 0 or 1)
