--- conflict_figure.lua -- draws what bench_conflict has measured, as SVG.
---
---   build/release/bench_conflict | luajit spec/bench/conflict_figure.lua conflict.svg
---
--- Figure 8 of Knorr et al., Declarative Data Flow: how long one search takes, and how many
--- commands it finds
--- that may start together, by how many candidates it may reject, over the density
--- of conflicts. What it reads goes on to its output.
local plot = require("spec.bench.plot")

local TOP, LEFT, GAP = 40, 60, 90
local COLOURS = { "#999999", "#56b4e9", "#d55e00", "#009e73", "#cc79a7" }

-- A panel of one field over the densities.
local function panel(p, left, title, data, field, range)
  local series, places = {}, {}
  for k, one in ipairs(data.by_candidates) do
    series[k] = { values = one[field], colour = COLOURS[k] }
  end
  for i, density in ipairs(data.densities) do places[i] = ("%g"):format(density) end
  p:panel { left = left, top = TOP, title = title, x = "conflicts among all pairs",
    places = places, series = series, range = range }
end

local function draw(data, path)
  local p, names = plot.new(), {}
  local second = LEFT + plot.width + GAP
  panel(p, LEFT, ("microseconds of a search among %d commands"):format(data.commands), data, "us",
    { 0.1, 1e4 })
  panel(p, second, "commands that may start together", data, "found", { 1, 1000 })
  for k, one in ipairs(data.by_candidates) do
    names[k] = { ("%d candidate%s"):format(one.candidates, one.candidates == 1 and "" or "s"),
      COLOURS[k] }
  end
  p:legend(second + plot.width + 14, TOP, names)
  p:save(path)
end

-- The one line of JSON, which has no strings.
local function read(text)
  local lua = text:gsub('"([%w_]+)":', "%1 ="):gsub("[%[%]]", { ["["] = "{", ["]"] = "}" })
  return assert(loadstring("return " .. lua))()
end

local path = arg[1] or error("usage: luajit spec/bench/conflict_figure.lua FILE.svg", 0)
local last
for line in io.lines() do
  print(line)
  last = line
end
draw(read(last or ""), path)
