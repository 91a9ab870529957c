--- figures.lua -- measures and draws what seeds 001 and 002 draw, of this engine.
---
---   luajit spec/bench/figures.lua FOLDER [figure ...] [name=value ...]
---
--- For each figure a FOLDER/<figure>.json with what was measured and a <figure>.svg:
---
---   scheduling     seed 001, figure 3: tasks per second of the scheduler, over ranks,
---                  with collectives and without. Dry runs.
---   communication  seed 001, figure 4: steps per second without computation, over
---                  sizes of buffers. Real runs of `ranks` ranks of this host.
---   nbody          seed 001, figure 5: strong scaling. Real runs up to `ranks` ranks, a
---                  device each; beyond that dashed, what scheduling alone would allow,
---                  by dry runs.
---   generative     seed 002: what a step of RSim takes of the scheduler as more rows
---                  are there, by how far apart horizons are. Dry runs.
---
--- ranks=8: real ones; rounds=3: runs of each; bodies=16384 and steps=20: of nbody;
--- milliseconds=500: of each of communication's; most=256: imagined ranks; draw=yes: only
--- draws what was measured before.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local dry = require("spec.bench.dry")
local plot = require("spec.bench.plot")

local WITH, WITHOUT = plot.colours[1], plot.colours[2]
local LEFT, TOP, GAP = 60, 50, 80
local PROGRAMS = { "all_gather", "broadcast", "broadcast_gather", "scatter_gather", "all_to_all",
  "stencil" }

local set = { ranks = 8, rounds = 3, bodies = 16384, steps = 20, milliseconds = 500, most = 256,
  draw = "no" }
local folder, wanted = nil, {}
for _, word in ipairs(arg) do
  local name, value = word:match("^(%w+)=(%w+)$")
  if name then
    set[name] = set[name] and (tonumber(value) or value) or error("no setting " .. name, 0)
  elseif folder then
    wanted[word] = true
  else
    folder = word
  end
end
if not folder then error("usage: luajit spec/bench/figures.lua FOLDER [figure ...]", 0) end

local function words_of(collectives) return not collectives and { "--no-collectives" } or nil end

-- 2, 4, ... `most`
local function powers(from, most)
  local list = {}
  local n = from
  while n <= most do list[#list + 1], n = n, 2 * n end
  return list
end

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

-- The middle one, the least and the greatest of a list.
local function spread(list)
  table.sort(list)
  return list[math.ceil(#list / 2)], list[1], list[#list]
end

-- A series that is empty yet.
local function series(colour, dash)
  return { values = {}, low = {}, high = {}, colour = colour, dash = dash }
end

-- One panel per program, three in a row, over what rows have as `key`. `put(row, i,
-- with, without)` adds a row to the two series, at place `i`.
local function by_program(data, x, key, what, put)
  local p, places = plot.new(), places_of(data.rows, key)
  local function fill(name)
    local with, without = series(WITH), series(WITHOUT)
    for _, row in ipairs(data.rows) do
      if row.program == name then put(row, place_of(places, row[key]), with, without) end
    end
    return { without, with }
  end
  p:label(LEFT, 16, data.note, "")
  for i, name in ipairs(PROGRAMS) do
    p:panel { left = LEFT + (i - 1) % 3 * (plot.width + GAP),
      top = TOP + 14 + math.floor((i - 1) / 3) * (plot.height + 90),
      title = name .. ": " .. what, x = x, places = places, series = fill(name) }
  end
  p:legend(LEFT + 3 * (plot.width + GAP) - GAP + 14, TOP,
    { { "collectives", WITH }, { "messages", WITHOUT } })
  return p
end

local figures = {}

local SIZES = "1024,4096,65536,1048576,16777216"

-- ---- scheduling ---------------------------------------------------------------------

figures.scheduling = {}

-- Of rank 0, from which much comes and to which much goes, and of one inside: the one
-- that has more to do.
local function slower(name, ranks, collectives)
  local command = "spec/bench/patterns.lua " .. name .. " 1048576 steps=%d"
  local worst
  for _, as in ipairs { 0, math.max(1, math.floor(ranks / 4)) } do
    local row = dry.compare(command, 20, 220,
      { ranks = ranks, as = as, words = words_of(collectives) }, set.rounds)
    if not worst or row.scheduler > worst.scheduler then worst = row end
  end
  return { program = name, ranks = ranks, collectives = collectives, us = worst.scheduler,
    messages = worst.messages }
end

function figures.scheduling.measure()
  local rows = {}
  for _, name in ipairs(PROGRAMS) do
    for _, ranks in ipairs(powers(2, set.most)) do
      rows[#rows + 1] = slower(name, ranks, true)
      rows[#rows + 1] = slower(name, ranks, false)
    end
  end
  return { rows = rows, note = ("Dry runs, 2 to %d imagined ranks: the slower one of two "
    .. "schedules its part, nothing is executed."):format(set.most) }
end

function figures.scheduling.draw(data)
  return by_program(data, "ranks", "ranks", "tasks scheduled a second",
    function(row, i, with, without)
      local s = row.collectives and with or without
      s.values[i] = 1e6 / row.us
    end)
end

-- ---- communication ------------------------------------------------------------------

figures.communication = {}

function figures.communication.measure()
  local pipe = assert(io.popen(("luajit spec/bench/collectives.lua %d %d %s %s %d"):format(
    set.ranks, set.rounds, table.concat(PROGRAMS, ","), SIZES, set.milliseconds)))
  local last
  for line in pipe:lines() do last = line end
  pipe:close()
  local data = cjson.decode(last or "")
  data.note = ("Real runs: %d ranks of one host, %d of each; median, least and greatest.")
    :format(set.ranks, set.rounds)
  return data
end

function figures.communication.draw(data)
  return by_program(data, "bytes of a buffer", "bytes", "steps a second",
    function(row, i, with, without)
      for s, list in pairs { [with] = row.all.collectives, [without] = row.all.point_to_point } do
        local middle, least, most = spread(list)
        s.values[i], s.low[i], s.high[i] = 1e6 / middle, 1e6 / most, 1e6 / least
      end
    end)
end

-- ---- n-body -------------------------------------------------------------------------

figures.nbody = {}

local NBODY = "examples/nbody.lua"

-- Seconds of a step, by the difference between few steps and many.
local function real_step(ranks, collectives)
  local seconds = {}
  for i, steps in ipairs { 2, 2 + set.steps } do
    local words = { "run", "--log", "info", unpack(words_of(collectives) or {}) }
    for _, word in ipairs { NBODY, set.bodies, steps } do words[#words + 1] = word end
    local r = celer.run(words, { ranks = ranks, timeout = 3600 })
    assert(r.status == 0, r.stderr)
    seconds[i] = tonumber(r.stderr:match("instructions in ([%d.]+) s"))
  end
  return math.max(seconds[2] - seconds[1], 1e-3) / set.steps
end

-- Seconds of a step, which has two tasks, on the thread that has most to do.
local function scheduled_step(ranks, collectives)
  local row = dry.compare(NBODY .. " " .. set.bodies .. " %d", 5, 55,
    { ranks = ranks, words = words_of(collectives) }, set.rounds)
  return 2e-6 * math.max(row.main, row.scheduler, row.executor)
end

function figures.nbody.measure()
  local rows = {}
  for _, ranks in ipairs(powers(1, set.most)) do
    for _, collectives in ipairs { true, false } do
      local row = { ranks = ranks, collectives = collectives }
      row.scheduled = scheduled_step(ranks, collectives)
      if ranks <= set.ranks then
        row.seconds = {}
        for i = 1, set.rounds do row.seconds[i] = real_step(ranks, collectives) end
      end
      rows[#rows + 1] = row
    end
  end
  return { rows = rows, bodies = set.bodies, ranks = set.ranks,
    note = ("Real runs up to %d ranks, %d of each: median, least and greatest. Dashed: no more "
      .. "than scheduling would allow, by dry runs."):format(set.ranks, set.rounds) }
end

function figures.nbody.draw(data)
  local places, ideal = places_of(data.rows, "ranks"), series(plot.colours[6], true)
  local lines = { [true] = { series(WITH), series(WITH, true) },
    [false] = { series(WITHOUT), series(WITHOUT, true) } }
  local alone = spread(data.rows[1].seconds)
  for _, row in ipairs(data.rows) do
    local i, real, limit = place_of(places, row.ranks), unpack(lines[row.collectives])
    ideal.values[i] = row.ranks
    limit.values[i] = math.min(row.ranks, alone / row.scheduled)
    if row.seconds then
      local middle, least, most = spread(row.seconds)
      real.values[i], real.low[i], real.high[i] = alone / middle, alone / most, alone / least
    end
  end
  local p = plot.new()
  p:label(LEFT, 16, data.note, "")
  p:panel { left = LEFT, top = TOP + 14, title = ("speed-up of %d bodies"):format(data.bodies),
    x = "ranks", places = places, base = 2,
    series = { ideal, lines[false][2], lines[true][2], lines[false][1], lines[true][1] } }
  p:legend(LEFT + plot.width + 14, TOP, { { "collectives", WITH }, { "messages", WITHOUT },
    { "collectives, scheduling alone", WITH, true },
    { "messages, scheduling alone", WITHOUT, true }, { "linear", plot.colours[6], true } })
  return p
end

-- ---- generative ---------------------------------------------------------------------

figures.generative = {}

local GENERATIVE = { ranks = 4, patches = 64, first = 64, last = 4096,
  apart = { 1, 2, 4, 16, 1000 } }

function figures.generative.measure()
  local rows = {}
  for _, apart in ipairs(GENERATIVE.apart) do
    for _, from in ipairs(powers(GENERATIVE.first, GENERATIVE.last)) do
      local command = ("examples/rsim.lua %d %%d"):format(GENERATIVE.patches)
      local row = dry.compare(command, from, 2 * from, { ranks = GENERATIVE.ranks,
        words = { "--no-collectives", "--horizon-step", apart } }, set.rounds)
      rows[#rows + 1] = { apart = apart, from = from, us = row.scheduler }
    end
  end
  return { rows = rows, note = ("Dry runs as one of %d imagined ranks, which exchange messages; "
    .. "RSim with %d patches."):format(GENERATIVE.ranks, GENERATIVE.patches) }
end

function figures.generative.draw(data)
  local places, lines, by, names = places_of(data.rows, "from"), {}, {}, {}
  for _, row in ipairs(data.rows) do
    if not by[row.apart] then
      local colour = plot.colours[#lines + 1]
      by[row.apart] = series(colour)
      lines[#lines + 1] = by[row.apart]
      names[#names + 1] = { ("horizons %d step%s apart"):format(row.apart,
        row.apart == 1 and "" or "s"), colour }
    end
    by[row.apart].values[place_of(places, row.from)] = row.us > 0 and row.us or false
  end
  local p = plot.new()
  p:label(LEFT, 16, data.note, "")
  p:panel { left = LEFT, top = TOP + 14, title = "microseconds of the scheduler a step",
    x = "rows that are there, up to twice as many", places = places, series = lines }
  p:legend(LEFT + plot.width + 14, TOP, names)
  return p
end

-- ---- all of them --------------------------------------------------------------------

for _, name in ipairs { "scheduling", "communication", "nbody", "generative" } do
  if next(wanted) == nil or wanted[name] then
    local path = folder .. "/" .. name
    if set.draw == "no" then
      local file = assert(io.open(path .. ".json", "w"))
      file:write(cjson.encode(figures[name].measure()), "\n")
      file:close()
    end
    local file = assert(io.open(path .. ".json"))
    local data = cjson.decode(file:read("*a"))
    file:close()
    figures[name].draw(data):save(path .. ".svg")
    print(path .. ".svg")
  end
end
