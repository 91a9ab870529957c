--- draw.lua -- the pictures of figures.lua: a function for each, which takes what was
--- measured by the names of the parts, and gives a plot. What else is to be said of
--- communication on GPUs is its part's `note`.
local measure = require("spec.bench.figures.measure")
local plot = require("spec.bench.plot")

local M = {}

local WITH, WITHOUT, IDEAL = plot.colours[1], plot.colours[2], plot.colours[6]
local LEGEND = { { "collectives", WITH }, { "messages alone (--no-collectives)", WITHOUT } }
local LEFT = 76
local GROUP = 256 -- bodies that are not divided

local function place_of(list, value)
  for i, other in ipairs(list) do
    if other == value then return i end
  end
end

-- What rows have by that name, each once.
local function places_of(rows, name)
  local places = {}
  for _, row in ipairs(rows) do
    if not place_of(places, row[name]) then places[#places + 1] = row[name] end
  end
  return places
end

local function sorted(list)
  local copy = {}
  for i, value in ipairs(list) do copy[i] = value end
  table.sort(copy)
  return copy
end

-- The value below which that part of a sorted list lies.
local function quantile(list, part) return list[math.max(1, math.ceil(part * #list))] end

-- A series that is empty yet.
local function series(colour, dash)
  return { values = {}, spread = {}, colour = colour, dash = dash }
end

-- The median at place `i`, and how far others are from it.
local function put(s, i, list)
  list = sorted(list)
  s.values[i] = quantile(list, 0.5)
  if #list > 1 then
    s.spread[i] = { list[1], quantile(list, 0.25), quantile(list, 0.75), list[#list] }
  end
end

-- How often a second what took so many microseconds; nothing where a difference of times
-- was lost in their noise.
local function per_second(list)
  local rates = {}
  for _, us in ipairs(list) do
    if us > 0 then rates[#rates + 1] = 1e6 / us end
  end
  return rates
end

local function host_of(data)
  local host = data.host
  local some = host.may and host.may < host.cores and host.may .. " of its " or ""
  return ("%s, %s%d cores%s"):format(host.processor, some, host.cores,
    type(host.gpu) == "string" and ", " .. host.gpu or "")
end

local UNITS = { { 2 ^ 30, "GiB" }, { 2 ^ 20, "MiB" }, { 2 ^ 10, "KiB" } }

local function bytes_text(bytes)
  for _, unit in ipairs(UNITS) do
    if bytes >= unit[1] then return ("%g %s"):format(bytes / unit[1], unit[2]) end
  end
  return bytes .. " B"
end

local function texts(list, text_of)
  local made = {}
  for i, value in ipairs(list) do made[i] = text_of(value) end
  return made
end

-- "2^10" takes room; 1024 and 65,536 are said as they are, from 1 Ki on in Ki.
local function ranks_text(ranks)
  return ranks < 1024 and tostring(ranks) or ("%d Ki"):format(ranks / 1024)
end

-- 1,048,576
local function grouped(n)
  local text = tostring(n)
  while text:find("^%d%d%d%d") do text = text:gsub("^(%d+)(%d%d%d)", "%1,%2") end
  return text
end

-- Panels that share one range of values, `columns` in a row: {title, x, y, places, series}.
local function panels(p, legend, list, columns, width, height)
  p:legend(LEFT, p.top - 8, legend, true)
  p.top = p.top + 20
  local all = {}
  for _, panel in ipairs(list) do
    for _, s in ipairs(panel.series) do all[#all + 1] = s end
  end
  local range = { plot.range(all) }
  for i, panel in ipairs(list) do
    local column, row = (i - 1) % columns, math.floor((i - 1) / columns)
    panel.left = LEFT + column * (width + (panel.y and LEFT or 56))
    panel.top = p.top + 24 + row * (height + 76)
    panel.width, panel.height, panel.range = width, height, panel.range or range
    p:panel(panel)
  end
  return p
end

-- ---- Collective Communication Patterns, figure 3 ------------------------------------

function M.scheduling(parts)
  local data = parts.scheduling
  local ranks, list = places_of(data.rows, "ranks"), {}
  for i, name in ipairs(measure.programs) do
    local with, without = series(WITH), series(WITHOUT)
    for _, row in ipairs(data.rows) do
      if row.program == name then
        put(row.collectives and with or without, place_of(ranks, row.ranks), per_second(row.us))
      end
    end
    list[i] = { title = name, x = "ranks", y = "tasks per second", series = { without, with },
      places = texts(ranks, ranks_text) }
  end
  local p = plot.new("Tasks per second of the scheduler, by ranks (higher is better)", {
    ("Dry runs, all of them: 2 to %d imagined ranks, as rank 0 and as rank n/4, of which the "
      .. "slower one is shown; nothing is computed or sent."):format(ranks[#ranks]),
    ("Commands and instructions of small exchanges; what the first steps build once is left "
      .. "out. Median, quartiles, least and greatest of %d runs."):format(#data.rows[1].us),
    host_of(data) })
  return panels(p, LEGEND, list, 3, 330, 200)
end

-- ---- Collective Communication Patterns, figure 4 ------------------------------------

-- Of the rows of so many ranks, one panel per program.
local function throughput(list, data, ranks, where)
  for _, name in ipairs(measure.programs) do
    local sizes, with, without = places_of(data.rows, "bytes"), series(WITH), series(WITHOUT)
    for _, row in ipairs(data.rows) do
      if row.program == name and row.ranks == ranks then
        local i = place_of(sizes, row.bytes)
        put(with, i, per_second(row.us.collectives))
        put(without, i, per_second(row.us.point_to_point))
      end
    end
    list[#list + 1] = { title = ("%s, %d %s"):format(name, ranks, where), x = "size of the buffer",
      y = name == measure.programs[1] and "steps per second" or nil,
      places = texts(sizes, bytes_text), series = { without, with } }
  end
end

function M.communication(parts)
  local list, notes, gpu, cpu = {}, {}, parts.communication_gpu, parts.communication_cpu
  if gpu then throughput(list, gpu, gpu.rows[1].ranks, "GPUs") end
  local counts = cpu and places_of(cpu.rows, "ranks") or {}
  for k = #counts, 1, -1 do throughput(list, cpu, counts[k], "ranks") end
  notes[1] = "Real runs, all of them, on one host, nothing is computed. Median, quartiles, least "
    .. "and greatest of batches of steps, each with the wait of all ranks at its end."
  if gpu then
    notes[#notes + 1] = ("GPUs: %d ranks with a GPU each, buffers in its memory. %s%s"):format(
      gpu.rows[1].ranks, host_of(gpu), gpu.note and ". " .. gpu.note or "")
  end
  if cpu then notes[#notes + 1] = "Ranks: on the processor alone. " .. host_of(cpu) end
  local p = plot.new("Communication alone: steps per second by size of buffers (higher is better)",
    notes)
  return panels(p, LEGEND, list, #measure.programs, 250, 165)
end

-- ---- Collective Communication Patterns, figure 5 ------------------------------------

-- Rank counts that were run or scheduled, up to what the problem has groups for.
local function counts_of(parts, rows, bodies)
  local counts, seen = {}, {}
  for _, list in ipairs { rows, parts.nbody_dry and parts.nbody_dry.rows or {} } do
    for _, row in ipairs(list) do
      if not seen[row.ranks] and row.ranks <= bodies / GROUP then
        seen[row.ranks] = true
        counts[#counts + 1] = row.ranks
      end
    end
  end
  table.sort(counts)
  return counts
end

-- Speed-up over one rank, `alone` seconds.
local function speed_up(seconds, alone)
  local list = {}
  for i, s in ipairs(seconds) do list[i] = alone / s end
  return list
end

-- Real runs of one problem, and beyond them what scheduling would allow.
local function scaling(parts, data, bodies, where)
  local real = { [true] = series(WITH), [false] = series(WITHOUT) }
  local limit = { [true] = series(WITH, true), [false] = series(WITHOUT, true) }
  local ideal, alone, rows, last = series(IDEAL, true), nil, {}, 1
  ideal.thin = 1
  for _, row in ipairs(data.rows) do
    if row.bodies == bodies then
      rows[#rows + 1], last = row, math.max(last, row.ranks)
      if row.ranks == 1 then alone = quantile(sorted(row.seconds), 0.5) end
    end
  end
  local counts, least = counts_of(parts, rows, bodies), 1
  for i, n in ipairs(counts) do ideal.values[i] = n end
  for _, row in ipairs(rows) do
    local list = speed_up(row.seconds, alone)
    put(real[row.collectives], place_of(counts, row.ranks), list)
    least = math.min(least, unpack(list))
    if row.ranks == 1 then put(real[false], place_of(counts, 1), list) end
  end
  for _, row in ipairs(parts.nbody_dry and parts.nbody_dry.rows or {}) do
    local i = place_of(counts, row.ranks)
    if i and row.ranks >= last then
      limit[row.collectives].values[i] = alone / math.max(alone / row.ranks, row.seconds)
    end
  end
  return { title = ("%s bodies on %s, %s a step alone"):format(grouped(bodies), where,
    alone < 0.1 and ("%.2g ms"):format(alone * 1e3) or ("%.2g s"):format(alone)), x = "ranks",
    y = "speed-up over one rank", base = 2, places = texts(counts, ranks_text),
    range = { least, counts[#counts] },
    series = { ideal, limit[false], limit[true], real[false], real[true] } }
end

function M.nbody(parts)
  local list, notes = {}, { "Solid: real runs on one host; median, quartiles, least and greatest." }
  local function add(data, where)
    for _, bodies in ipairs(places_of(data.rows, "bodies")) do
      list[#list + 1] = scaling(parts, data, bodies, where)
    end
  end
  if parts.nbody_gpu then
    add(parts.nbody_gpu, "GPUs")
    notes[#notes + 1] = "GPUs: a rank has one of those of this host: "
      .. host_of(parts.nbody_gpu)
  end
  if parts.nbody_cpu then
    local cores = parts.nbody_cpu.cores
    add(parts.nbody_cpu, "the processor")
    notes[#notes + 1] = ("Processor: a rank has %s. %s"):format(cores == 1 and "a core"
      or cores > 0 and cores .. " cores" or "its share of all cores", host_of(parts.nbody_cpu))
  end
  notes[#notes + 1] = "Dashed: not run, and no more than this is possible: one rank's time divided "
    .. "by the ranks, or what the slowest thread takes to schedule a step (dry runs); transfers "
    .. "are not in it."
  local p = plot.new("Direct N-body simulation in double precision, strong scaling", notes)
  return panels(p, { LEGEND[1], LEGEND[2], { "collectives, not run", WITH, true },
    { "messages, not run", WITHOUT, true }, { "linear", IDEAL, true } }, list, 2, 400, 250)
end

-- ---- the talk on Celerity -----------------------------------------------------------

-- One panel per number of ranks and way of exchange, with a line for each distance.
local function growing(data, ranks, collectives)
  local places, apart = places_of(data.rows, "from"), places_of(data.rows, "apart")
  local lines = {}
  for k, steps in ipairs(apart) do
    lines[k] = series(plot.colours[k])
    for _, row in ipairs(data.rows) do
      if row.apart == steps and row.ranks == ranks and row.collectives == collectives then
        lines[k].values[place_of(places, row.from)] = row.us > 0 and row.us or false
      end
    end
  end
  return { title = ("one of %d ranks, %s"):format(ranks,
    collectives and "collectives" or "messages alone"), y = "microseconds of a step",
    x = "rows that are there, up to twice as many", places = places, series = lines }
end

function M.generative(parts)
  local data, list, names = parts.generative, {}, {}
  for _, ranks in ipairs(places_of(data.rows, "ranks")) do
    for _, collectives in ipairs { false, true } do
      local panel = growing(data, ranks, collectives)
      if next(panel.series[1].values) then list[#list + 1] = panel end
    end
  end
  for k, steps in ipairs(places_of(data.rows, "apart")) do
    names[k] = { ("S = %d"):format(steps), plot.colours[k] }
  end
  local p = plot.new("What a step takes of the scheduler where a buffer grows by a row in each "
    .. "(lower is better)", {
      ("Dry runs, all of them: RSim with %d patches, which reads all earlier rows in each step. "
        .. "Nothing is computed or sent."):format(data.patches),
      "S: steps from a horizon to the next, after which finished work is forgotten.",
      host_of(data) })
  return panels(p, names, list, 3, 330, 230)
end

return M
