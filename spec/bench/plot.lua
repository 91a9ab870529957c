--- plot.lua -- panels of lines as SVG, for the benchmarks.
---
---   local plot = require("spec.bench.plot")
---   local p = plot.new("Steps a second", { "Real runs on 4 ranks." })
---   p:panel { left = 60, top = p.top, title = "all_gather", x = "ranks", y = "steps / s",
---     places = { 2, 4, 8 }, series = { { values = { 10, 20, 40 }, colour = plot.colours[1] } } }
---   p:legend(60, p.bottom, { { "collectives", plot.colours[1] } })
---   p:save("figure.svg")
---
--- Along x are places side by side, each with its label; upwards are values or their
--- logarithms. A series may lack values, and may have a `spread` at a place: least, lower
--- quartile, upper quartile, greatest, drawn as a box with whiskers.
local M = {}
M.__index = M

M.colours = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#777777" }
M.width, M.height = 430, 260

local EDGE = 50  -- below a panel, for its labels
local LINE = 16  -- of text
local APART = 5  -- of boxes of different series at one place

--- `title` stands at the top, and below it `notes`, a line each; panels may begin at
--- `top` of what comes back.
---@param title? string
---@param notes? string[]
function M.new(title, notes)
  local self = setmetatable({ out = {}, right = 0, bottom = 0, top = 30 }, M)
  if title then
    self:label(12, 24, title, 'font-size="16" font-weight="bold"')
    self.top = self.top + LINE
  end
  for _, note in ipairs(notes or {}) do
    self:label(12, self.top, note, 'fill="#444444"')
    self.top = self.top + LINE
  end
  self.top = self.top + LINE
  return self
end

function M:add(text, ...) self.out[#self.out + 1] = text:format(...) end

-- Room for what is drawn there.
local function cover(self, right, bottom)
  self.right, self.bottom = math.max(self.right, right), math.max(self.bottom, bottom)
end

local CENTRED, RIGHT = 'text-anchor="middle"', 'text-anchor="end"'

--- `more`: attributes; centred without.
function M:label(x, y, text, more)
  text = tostring(text):gsub("&", "&amp;"):gsub("<", "&lt;")
  more = more or CENTRED
  self:add('<text x="%.1f" y="%.1f" %s>%s</text>', x, y, more, text)
  cover(self, more:find("text-anchor", 1, true) and x or x + 6.2 * #text, y + 10)
end

local PREFIXES = { { 1e9, "G" }, { 1e6, "M" }, { 1e3, "k" } }

-- 0.5, 20, 100 k, 2 M; powers of another base than 10 as they are.
local function number(value, base)
  if base then return ("%g"):format(value) end
  for _, prefix in ipairs(PREFIXES) do
    if value >= prefix[1] then return ("%g %s"):format(value / prefix[1], prefix[2]) end
  end
  return ("%g"):format(value)
end

--- The least and the greatest value that is to be seen, of series of any panels.
---@param series table[]
---@return number, number
function M.range(series)
  local low, high = math.huge, -math.huge
  local function see(value)
    if value then low, high = math.min(low, value), math.max(high, value) end
  end
  for _, s in ipairs(series) do
    for _, value in pairs(s.values) do see(value) end
    for _, spread in pairs(s.spread or {}) do
      see(spread[1])
      see(spread[4])
    end
  end
  return low, high
end

-- Steps from a little below `low` to a little above `high`, by factors: of `base`, or of
-- 10 with what lies between where that is little.
local function factors(low, high, base)
  local between = { 1 }
  if not base then
    base = 10
    local decades = math.log10(high / low)
    if decades < 1.5 then between = { 1, 2, 3, 5 } elseif decades < 3 then between = { 1, 2, 5 } end
  end
  local at, e = {}, math.floor(math.log(low) / math.log(base) + 1e-9)
  while true do
    for _, factor in ipairs(between) do
      local value = factor * base ^ e
      if value <= low * (1 + 1e-9) then at = {} end -- the last one below
      at[#at + 1] = value
      if value >= high * (1 - 1e-9) and #at > 1 then return at end
    end
    e = e + 1
  end
end

-- What stands at the left: values of the grid's lines.
local function ticks(panel)
  local low, high = unpack(panel.range or { M.range(panel.series) })
  if not panel.linear then return factors(low, high, panel.base) end
  local at, step = {}, 10 ^ math.floor(math.log10(high))
  while high / step < 4 do step = step / 2 end
  for i = 0, math.ceil(high / step) do at[#at + 1] = i * step end
  return at
end

local function grid(self, panel, at, y_of)
  local left, top, width, height = panel.left, panel.top, panel.width, panel.height
  for _, value in ipairs(at) do
    self:add('<path d="M%d %.1fh%d" stroke="#dddddd"/>', left, y_of(value), width)
    self:label(left - 6, y_of(value) + 4, number(value, panel.base), RIGHT)
  end
  self:add('<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="black"/>', left, top,
    width, height)
  self:label(left + width / 2, top - 8, panel.title or "", CENTRED .. ' font-weight="bold"')
  self:label(left + width / 2, top + height + 34, panel.x or "")
  if panel.y then
    self:label(left - 46, top + height / 2, panel.y,
      CENTRED .. (' transform="rotate(-90 %d %d)"'):format(left - 46, top + height / 2))
  end
end

-- Half of all runs lie in the box, all between the whiskers' ends.
local function box(self, s, x, spread, y_of)
  local least, low, high, most = unpack(spread)
  self:add('<path d="M%.1f %.1fV%.1f" stroke="%s"/>', x, y_of(least), y_of(most), s.colour)
  self:add('<rect x="%.1f" y="%.1f" width="7" height="%.1f" fill="%s" fill-opacity="0.35" '
    .. 'stroke="%s"/>', x - 3.5, y_of(high), math.max(y_of(low) - y_of(high), 0.5), s.colour,
    s.colour)
end

-- Lines between neighbours that have a value each; a dot or a box where there is one.
local function line(self, s, x_of, y_of)
  local dash = s.dash and ' stroke-dasharray="5 4"' or ""
  for i = 1, table.maxn(s.values) do
    local value, before = s.values[i], s.values[i - 1]
    local x = x_of(i)
    if value and before then
      self:add('<path d="M%.1f %.1fL%.1f %.1f" stroke="%s" stroke-width="%g"%s/>',
        x_of(i - 1), y_of(before), x, y_of(value), s.colour, s.thin or 2, dash)
    end
    if value and s.spread and s.spread[i] then
      box(self, s, x + s.shift, s.spread[i], y_of)
    end
    if value and not s.dash then
      self:add('<circle cx="%.1f" cy="%.1f" r="2.2" fill="%s"/>', x, y_of(value), s.colour)
    end
  end
end

-- Boxes of several series beside each other, where their lines are at one place.
local function shift(series)
  local boxes = {}
  for _, s in ipairs(series) do
    if s.spread and next(s.spread) then boxes[#boxes + 1] = s end
  end
  for k, s in ipairs(boxes) do s.shift = (k - (#boxes + 1) / 2) * 2 * APART end
end

--- {left, top, width and height if not the usual ones, title, x = label below, y = label
--- at the left, places = labels, series, linear: not logarithms, base: of the logarithm,
--- range = {least, greatest}, if not as the values are}
function M:panel(panel)
  panel.width, panel.height = panel.width or M.width, panel.height or M.height
  local at = ticks(panel)
  local function scale(value)
    return panel.linear and value or math.log(math.max(value, at[1]))
  end
  local least, most = scale(at[1]), scale(at[#at])
  local function x_of(i) return panel.left + (i - 0.5) / #panel.places * panel.width end
  local function y_of(value)
    return panel.top + panel.height * (most - scale(value)) / (most - least)
  end
  grid(self, panel, at, y_of)
  for i, place in ipairs(panel.places) do
    self:label(x_of(i), panel.top + panel.height + 16, place)
  end
  shift(panel.series)
  for _, s in ipairs(panel.series) do line(self, s, x_of, y_of) end
  cover(self, panel.left + panel.width, panel.top + panel.height + EDGE)
end

--- A line of each colour with its name: {{name, colour, dash}, ...}; with `across` side by
--- side, else one below the other.
function M:legend(left, top, entries, across)
  for k, entry in ipairs(entries) do
    local y = across and top + 14 or top + 18 * k
    self:add('<path d="M%d %dh24" stroke="%s" stroke-width="2.5"%s/>', left, y, entry[2],
      entry[3] and ' stroke-dasharray="5 4"' or "")
    self:label(left + 30, y + 4, entry[1], "")
    cover(self, left, y + 20)
    if across then left = left + 60 + 6.2 * #entry[1] end
  end
end

function M:save(path)
  local head = ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
    .. 'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="11">\n'
    .. '<rect width="100%%" height="100%%" fill="white"/>\n'):format(self.right + 16,
    self.bottom + 4)
  local file = assert(io.open(path, "w"))
  file:write(head, table.concat(self.out, "\n"), "\n</svg>\n")
  file:close()
end

return M
