--- step.lua -- what one step costs, in one table: figure, target, and Celerity's figure.
---
---   luajit spec/bench/step.lua [--only ROW]... [--turns N] [--tiny] [--json FILE] [--list]
---
--- From the root of the tree; CELER_BUILD names the build (build/release). The programs
--- run in turns (5), one after another, and a figure is the median over the turns. The
--- rows, their targets and Celerity's figures are in step/rows.lua. --tiny runs next to
--- nothing, to see that all rows come out. Times mean something on an idle machine: the
--- table names the machine, and warns where others use it. The last line is JSON, with
--- --json also in a file. The exit status is 1 where a program fails; a missed target
--- does not count as failure.
package.path = "./?.lua;" .. package.path
local cjson = require("cjson")
local ffi = require("ffi")
local report = require("spec.bench.report")
local table_of = require("spec.bench.step.rows")

local USAGE = "usage: luajit spec/bench/step.lua [--only ROW]... [--turns N] [--tiny] "
  .. "[--json FILE] [--list]"

-- Above this share of the cores others use the machine. Below it are timers, and what the
-- system does for the programs.
local BUSY = 0.05
local TARGET_CORES = 2

ffi.cdef [[
struct step_time { long seconds, microseconds; };
struct step_usage { struct step_time user, system; long others[14]; };
int getrusage(int who, struct step_usage *out);
long sysconf(int name);
]]
local CHILDREN, CLOCK_TICKS = -1, 2 -- RUSAGE_CHILDREN, _SC_CLK_TCK

-- The rows that were asked for; throws on a name that is none.
local function chosen_rows(o)
  local rows, known = {}, {}
  for _, row in ipairs(table_of.rows) do
    known[row[1]] = true
    if not o.some or o.only[row[1]] then rows[#rows + 1] = row end
  end
  for name in pairs(o.only) do
    if not known[name] then error(("there is no row %s; --list names them"):format(name), 0) end
  end
  return rows
end

-- The programs that these rows need, in their order.
local function programs_of(rows)
  local names, have = {}, {}
  for _, row in ipairs(rows) do
    for i = 5, #row do
      local name = row[i][2]
      if not have[name] then names[#names + 1] = name end
      have[name] = true
    end
  end
  return names
end

-- Seconds of all cores since the machine started: those with work, all.
local function seconds_of_cores()
  local idle, all, i = 0, 0, 0
  local file = assert(io.open("/proc/stat"))
  for ticks in file:read("*l"):gmatch("%d+") do
    i = i + 1
    if i == 4 or i == 5 then idle = idle + ticks end
    if i <= 8 then all = all + ticks end
  end
  file:close()
  local rate = tonumber(ffi.C.sysconf(CLOCK_TICKS))
  return (all - idle) / rate, all / rate
end

-- Seconds that programs computed which this one has started, and which have ended.
local function seconds_of_ours()
  local usage, sum = ffi.new("struct step_usage"), 0
  ffi.C.getrusage(CHILDREN, usage)
  for _, time in ipairs { usage.user, usage.system } do
    sum = sum + tonumber(time.seconds) + tonumber(time.microseconds) * 1e-6
  end
  return sum
end

-- Which share of the cores others used meanwhile.
local function used_by_others(call)
  local busy, all = seconds_of_cores()
  local ours = seconds_of_ours()
  call()
  local busy_then, all_then = seconds_of_cores()
  local others = busy_then - busy - (seconds_of_ours() - ours)
  return math.max(0, others) / math.max(all_then - all, 0.01)
end

-- The last line of JSON of a program; or nil, and why.
local function run(program, o)
  local ok, result = pcall(function()
    -- Bound ranks have their cores for themselves: they need not yield.
    local env = program.bound and { OMPI_MCA_mpi_yield_when_idle = "0" } or nil
    return report.decode(report.output_of(program.argv(o), { timeout = 600, env = env }))
  end)
  if ok then return result end
  return nil, tostring(result)
end

-- By program: what it printed in each turn. By program: why it failed. And which share of
-- the cores others used in the worst turn.
local function take_turns(names, o)
  local printed, failed, worst = {}, {}, 0
  for _, name in ipairs(names) do printed[name] = {} end
  for turn = 1, o.turns do
    local busy = used_by_others(function()
      for _, name in ipairs(names) do
        if not failed[name] then
          printed[name][turn], failed[name] = run(table_of.programs[name], o)
        end
      end
    end)
    print(("turn %d of %d: others used %.0f %% of the cores"):format(turn, o.turns, 100 * busy))
    io.flush()
    worst = math.max(worst, busy)
  end
  return printed, failed, worst
end

-- One figure of a row: without a value where its program failed or has none.
local function figure_of(figure, sense, printed, failed)
  local name, program, value, target, celerity = unpack(figure, 1, 5)
  local out = { name = name, target = target, celerity = celerity, failed = failed[program] }
  if out.failed then return out end
  local turns = {}
  for i, j in ipairs(printed[program]) do turns[i] = value(j) end
  if #turns == 0 then return out end
  out.turns, out.value = turns, report.median(turns)
  out.met = report.is_met(out.value, sense, target)
  return out
end

local function result_of(row, printed, failed)
  local result = { row = row[1], what = row[2], unit = row[3], sense = row[4], figures = {} }
  for i = 5, #row do
    result.figures[i - 4] = figure_of(row[i], row[4], printed, failed)
  end
  return result
end

local function number(value)
  return (value >= 100 and "%.0f" or value >= 10 and "%.1f" or "%.2f"):format(value)
end

-- What `text` makes of each figure, between slashes.
local function joined(figures, text)
  local parts = {}
  for i, figure in ipairs(figures) do parts[i] = text(figure) end
  return table.concat(parts, " / ")
end

local function now(figure)
  return figure.failed and "FAILED" or number(figure.value)
end

-- In parentheses where others used the machine: it means little then.
local function verdict(figures, quiet)
  local met, measured = 0, 0
  for _, figure in ipairs(figures) do
    if figure.value then measured = measured + 1 end
    if figure.met then met = met + 1 end
  end
  if measured == 0 then return "" end
  local text = met == #figures and "met" or met == 0 and "MISSED"
    or ("MISSED, %d of %d met"):format(met, #figures)
  return quiet and text or "(" .. text .. ")"
end

local HEAD = { "row", "what", "unit", "now", "target", "", "Celerity" }

local function cells_of(result, quiet)
  local figures = result.figures
  local function each(text) return joined(figures, text) end
  local celerity = each(function(f) return f.celerity and ("%g"):format(f.celerity) or "-" end)
  return { result.row, result.what .. ": " .. each(function(f) return f.name end), result.unit,
    each(now), result.sense .. " " .. each(function(f) return ("%g"):format(f.target) end),
    verdict(figures, quiet), celerity:find("%d") and celerity or "" }
end

local function show(results, quiet)
  local lines, width = { HEAD }, {}
  for _, result in ipairs(results) do lines[#lines + 1] = cells_of(result, quiet) end
  for _, cells in ipairs(lines) do
    for i, text in ipairs(cells) do width[i] = math.max(width[i] or 0, #text) end
  end
  for _, cells in ipairs(lines) do
    local padded = {}
    for i, text in ipairs(cells) do padded[i] = text .. (" "):rep(width[i] - #text) end
    print((table.concat(padded, "  "):gsub(" +$", "")))
  end
end

local function warn(m)
  if not m.quiet then
    print(("WARNING: the machine is not quiet: others used up to %.0f %% of its cores"):format(
      100 * m.others))
  end
  if m.cores ~= TARGET_CORES then
    print(("Targets and Celerity's figures are for %d cores."):format(TARGET_CORES))
  end
end

local function measure(o)
  local m, rows = report.machine(), chosen_rows(o)
  print(report.line(m))
  local printed, failed
  printed, failed, m.others = take_turns(programs_of(rows), o)
  m.quiet = m.others <= BUSY
  local results = {}
  for i, row in ipairs(rows) do results[i] = result_of(row, printed, failed) end
  show(results, m.quiet)
  warn(m)
  for name, why in pairs(failed) do print(name .. " FAILED: " .. why) end
  return { bench = "step", machine = m, turns = o.turns, tiny = o.tiny or false,
    rows = results }, failed
end

local function main()
  local o = report.options(arg, USAGE, { "tiny" }, { turns = 5 })
  if o.list then
    for _, row in ipairs(table_of.rows) do print(("%-11s %s"):format(row[1], row[2])) end
    return true
  end
  local result, failed = measure(o)
  print(cjson.encode(result))
  if o.json then report.save(o.json, result) end
  return next(failed) == nil
end

local ok, fine = pcall(main)
if not ok then io.stderr:write(tostring(fine), "\n") end
os.exit(ok and fine and 0 or 1)
