--- conflict_figure.lua -- draws what bench_conflict has measured, as SVG.
---
---   build/release/bench_conflict | luajit spec/bench/conflict_figure.lua conflict.svg
---
--- Figure 8 of seed 000: how long one search takes, and how many commands it finds
--- that may start together, by how many candidates it may reject, over the density
--- of conflicts. What it reads goes on to its output.
local WIDTH, HEIGHT, GAP, TOP, BOTTOM, LEFT = 430, 260, 90, 40, 50, 60
local COLOURS = { "#999999", "#56b4e9", "#d55e00", "#009e73", "#cc79a7" }

local out = {}
local function add(text, ...) out[#out + 1] = text:format(...) end

local function label(x, y, text, more)
  add('<text x="%.1f" y="%.1f" %s>%s</text>', x, y, more or 'text-anchor="middle"', text)
end

-- A panel of lines over the densities, which have places of their own, side by side;
-- upwards the logarithm of their values.
local function panel(left, title, data, field, decades)
  local places = #data.densities
  local function x_of(i) return left + (i - 0.5) / places * WIDTH end
  local function y_of(value)
    local log = math.log(math.max(value, 10 ^ decades[1])) / math.log(10)
    return TOP + HEIGHT * (decades[2] - log) / (decades[2] - decades[1])
  end
  add('<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="black"/>', left, TOP,
    WIDTH, HEIGHT)
  label(left + WIDTH / 2, TOP - 12, title)
  label(left + WIDTH / 2, TOP + HEIGHT + 40, "conflicts among all pairs")
  for e = decades[1], decades[2] do
    local y = y_of(10 ^ e)
    add('<path d="M%d %.1fh%d" stroke="#dddddd"/>', left, y, WIDTH)
    label(left - 6, y + 4, ("%g"):format(10 ^ e), 'text-anchor="end"')
  end
  for i, density in ipairs(data.densities) do
    label(x_of(i), TOP + HEIGHT + 16, ("%g"):format(density))
  end
  for k, series in ipairs(data.by_candidates) do
    local points = {}
    for i, value in ipairs(series[field]) do
      points[i] = ("%.1f,%.1f"):format(x_of(i), y_of(value))
    end
    add('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>',
      table.concat(points, " "), COLOURS[k])
  end
end

local function legend(left, data)
  for k, series in ipairs(data.by_candidates) do
    local y = TOP + 18 * k
    add('<path d="M%d %dh20" stroke="%s" stroke-width="2"/>', left, y, COLOURS[k])
    label(left + 26, y + 4, ("%d candidate%s"):format(series.candidates,
      series.candidates == 1 and "" or "s"), "")
  end
end

local function draw(data)
  local second = LEFT + WIDTH + GAP
  local width = second + WIDTH + 140
  add('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
    .. 'font-family="sans-serif" font-size="11">', width, TOP + HEIGHT + BOTTOM)
  add '<rect width="100%%" height="100%%" fill="white"/>'
  panel(LEFT, ("microseconds of a search among %d commands"):format(data.commands), data, "us",
    { -1, 4 })
  panel(second, "commands that may start together", data, "found", { 0, 3 })
  legend(second + WIDTH + 14, data)
  add "</svg>"
  return table.concat(out, "\n") .. "\n"
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
local file = assert(io.open(path, "w"))
file:write(draw(read(last or "")))
file:close()
