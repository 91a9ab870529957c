--- plot.lua -- panels of lines as SVG, for the benchmarks.
---
---   local plot = require("spec.bench.plot")
---   local p = plot.new()
---   p:panel { left = 60, top = 40, title = "steps a second", x = "ranks",
---     places = { 2, 4, 8 }, series = { { values = { 10, 20, 40 }, colour = plot.colours[1] } } }
---   p:legend(500, 40, { { "collectives", plot.colours[1] } })
---   p:save("figure.svg")
---
--- Along x are places side by side, each with its label; upwards are values or their
--- logarithms. A series may lack values, and may have least and greatest ones, `low` and
--- `high`, drawn as whiskers.
local M = {}
M.__index = M

M.colours = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#999999" }
M.width, M.height = 430, 260

local EDGE = 60 -- below a panel, for its labels

function M.new() return setmetatable({ out = {}, right = 0, bottom = 0 }, M) end

function M:add(text, ...) self.out[#self.out + 1] = text:format(...) end

-- Room for what is drawn there.
local function cover(self, right, bottom)
  self.right, self.bottom = math.max(self.right, right), math.max(self.bottom, bottom)
end

--- `more`: attributes; centred without.
function M:label(x, y, text, more)
  text = tostring(text):gsub("&", "&amp;"):gsub("<", "&lt;")
  self:add('<text x="%.1f" y="%.1f" %s>%s</text>', x, y, more or 'text-anchor="middle"', text)
  cover(self, more == "" and x + 6 * #text or x, y + 10)
end

-- The least and the greatest value that is to be seen.
local function range(series)
  local low, high = math.huge, -math.huge
  for _, s in ipairs(series) do
    for _, list in ipairs { s.values, s.low or {}, s.high or {} } do
      for _, value in pairs(list) do
        if value then low, high = math.min(low, value), math.max(high, value) end
      end
    end
  end
  return low, high
end

-- What stands at the left: values of the grid's lines.
local function ticks(panel)
  local low, high = range(panel.series)
  local at = {}
  if panel.linear then
    local step = 10 ^ math.floor(math.log10(high))
    while high / step < 4 do step = step / 2 end
    for i = 0, math.ceil(high / step) do at[#at + 1] = i * step end
    return at
  end
  local base = panel.base or 10
  local from = panel.decades and panel.decades[1] or math.floor(math.log(low) / math.log(base))
  local to = panel.decades and panel.decades[2] or math.ceil(math.log(high) / math.log(base))
  for e = from, math.max(to, from + 1) do at[#at + 1] = base ^ e end
  return at
end

local function grid(self, panel, at, y_of)
  local left, top = panel.left, panel.top
  self:add('<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="black"/>', left, top,
    M.width, M.height)
  self:label(left + M.width / 2, top - 12, panel.title)
  self:label(left + M.width / 2, top + M.height + 40, panel.x)
  for _, value in ipairs(at) do
    self:add('<path d="M%d %.1fh%d" stroke="#dddddd"/>', left, y_of(value), M.width)
    self:label(left - 6, y_of(value) + 4, ("%g"):format(value), 'text-anchor="end"')
  end
end

-- Lines between neighbours that have a value each; a dot where there is one, with
-- whiskers where its extent is known.
local function line(self, s, x_of, y_of)
  local dash = s.dash and ' stroke-dasharray="5 4"' or ""
  for i = 1, table.maxn(s.values) do
    local value, before = s.values[i], s.values[i - 1]
    if value and before then
      self:add('<path d="M%.1f %.1fL%.1f %.1f" stroke="%s" stroke-width="2"%s/>', x_of(i - 1),
        y_of(before), x_of(i), y_of(value), s.colour, dash)
    end
    if value and not s.dash then
      self:add('<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>', x_of(i), y_of(value), s.colour)
    end
    if value and s.low and s.low[i] then
      self:add('<path d="M%.1f %.1fV%.1f" stroke="%s"/>', x_of(i), y_of(s.low[i]),
        y_of(s.high[i]), s.colour)
    end
  end
end

--- {left, top, title, x = label below, places = labels, series, linear: not logarithms,
--- base: of the logarithm, decades = {first, last}: exponents, if not as the values are}
function M:panel(panel)
  local at = ticks(panel)
  local function scale(value)
    return panel.linear and value or math.log(math.max(value, at[1]))
  end
  local least, most = scale(at[1]), scale(at[#at])
  local function x_of(i) return panel.left + (i - 0.5) / #panel.places * M.width end
  local function y_of(value)
    return panel.top + M.height * (most - scale(value)) / (most - least)
  end
  grid(self, panel, at, y_of)
  for i, place in ipairs(panel.places) do
    self:label(x_of(i), panel.top + M.height + 16, place)
  end
  for _, s in ipairs(panel.series) do line(self, s, x_of, y_of) end
  cover(self, panel.left + M.width, panel.top + M.height + EDGE)
end

--- A line of each colour with its name: {{name, colour, dash}, ...}.
function M:legend(left, top, entries)
  for k, entry in ipairs(entries) do
    local y = top + 18 * k
    self:add('<path d="M%d %dh20" stroke="%s" stroke-width="2"%s/>', left, y, entry[2],
      entry[3] and ' stroke-dasharray="5 4"' or "")
    self:label(left + 26, y + 4, entry[1], "")
    cover(self, left, y + 20)
  end
end

function M:save(path)
  local head = ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
    .. 'font-family="sans-serif" font-size="11">\n<rect width="100%%" height="100%%" '
    .. 'fill="white"/>\n'):format(self.right + 10, self.bottom)
  local file = assert(io.open(path, "w"))
  file:write(head, table.concat(self.out, "\n"), "\n</svg>\n")
  file:close()
end

return M
