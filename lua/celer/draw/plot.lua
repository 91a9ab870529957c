--- plot.lua -- lines over axes, as PNG and SVG files, and in the terminal.
local ffi = require "ffi"
local canvases = require "celer.draw.canvas"
local core = require "celer.core"
local font = require "celer.draw.font"
local place = require "celer.place"
local posix = require "celer.io.posix"
local svg = require "celer.draw.svg"
local ticks = require "celer.draw.ticks"
local view = require "celer.data.view"
local words = require "celer.words"

local fail = place.fail
local M = {}

local WIDTH, HEIGHT, SIZE = 800, 500, 2
local THIN, BLOCK = 2, 10 -- pixels of a line: of half blocks 80 fill the width
local LETTER, LINE = (font.WIDTH + 1) * SIZE, 12 * SIZE
local colors = { { 0x1f, 0x5f, 0xa8 }, { 0xc4, 0x4e, 0x1d }, { 0x2e, 0x80, 0x3a },
  { 0x8a, 0x3d, 0x96 }, { 0x9a, 0x7a, 0x10 }, { 0x20, 0x85, 0x8c } }

-- ---- what there is to draw ----------------------------------------------------

-- A list of numbers, of a table or of a snapshot.
local function numbers(values, what)
  local out = {}
  if getmetatable(values) == view.View then
    if values.dims ~= 1 or not ("iuf"):find(values.type.class) then
      fail("celer.plot: %s must be numbers in 1 dimension; %s is %s in %d", what, values.name,
        values.type.name, values.dims)
    end
    view.each(values, function(v) out[#out + 1] = tonumber(v) end)
    return out
  elseif type(values) ~= "table" or getmetatable(values) then
    fail("celer.plot: %s must be a list of numbers or a snapshot, not %s", what, words.a(values))
  end
  for i, v in ipairs(values) do
    if type(v) ~= "number" then
      fail("celer.plot: %s[%d] is %s, not a number", what, i, words.a(v))
    end
    out[i] = v
  end
  return out
end

local line_options = { x = true, y = true, label = true }

local function line_of(given, what)
  words.check_options("celer.plot: " .. what, given, line_options, "{ x = {...}, y = {...} }")
  local line = { y = numbers(given.y, what .. ".y"), label = given.label }
  if line.label ~= nil and type(line.label) ~= "string" then
    fail("celer.plot: %s.label must be a string, not %s", what, words.a(line.label))
  end
  if given.x ~= nil then
    line.x = numbers(given.x, what .. ".x")
  else
    line.x = {}
    for i = 1, #line.y do line.x[i] = i end
  end
  if #line.x ~= #line.y then
    fail("celer.plot: %s has %d x and %d y", what, #line.x, #line.y)
  end
  return line
end

local function lines_of(given)
  if type(given) ~= "table" or getmetatable(given) or #given == 0 then
    fail("celer.plot takes x and y, or a list of lines such as "
      .. "{ { x = x, y = y, label = \"u\" } }, not %s", type(given) == "table"
      and not next(given) and "an empty table" or words.a(given))
  end
  local out = {}
  for i, one in ipairs(given) do out[i] = line_of(one, ("line %d"):format(i)) end
  return out
end

local function is_list(given)
  return getmetatable(given) == view.View or type(given) == "table" and type(given[1]) == "number"
end

-- Lines and options, of lines or x and y.
local function arguments(first, second, third)
  if not is_list(first) then return first, second end
  if is_list(second) then return { { x = first, y = second } }, third end
  return { { y = first } }, second
end

local known = { as = "string", title = "string", xlabel = "string", ylabel = "string",
  xlim = "table", ylim = "table", log = "string", legend = "boolean" }
local logs = { x = true, y = true, xy = true }

local function check_options(options)
  words.check_options("celer.plot", options, known, '{ title = "u" }')
  for name, kind in pairs(known) do
    if options[name] ~= nil and type(options[name]) ~= kind then
      fail("celer.plot: %s must be a %s, not %s", name, kind, words.a(options[name]))
    end
  end
  if options.log and not logs[options.log] then
    fail("celer.plot: log must be \"x\", \"y\" or \"xy\", not %q", options.log)
  end
  for _, name in ipairs { "xlim", "ylim" } do
    local a, b = unpack(options[name] or { 0, 1 })
    local log = (options.log or ""):find(name:sub(1, 1))
    if type(a) ~= "number" or type(b) ~= "number" or a - b == 0 or a - b ~= a - b
      or math.abs(a - b) == math.huge or options[name] and log and math.min(a, b) <= 0 then
      fail("celer.plot: %s must be two different%s numbers such as { 1, 10 }", name,
        log and ", positive" or "")
    end
  end
end

-- ---- axes ---------------------------------------------------------------------

---@class celer.draw.axis
---@field from number
---@field to number
---@field log boolean

-- Whether an axis has a place for the number.
local function has(log, v) return v - v == 0 and (not log or v > 0) end

-- An axis for the points that both axes have a place for; raises where there are none.
local function axis(lines, name, limits, log_x, log_y)
  local log, low, high = name == "x" and log_x or name == "y" and log_y, math.huge, -math.huge
  for _, line in ipairs(lines) do
    for i, x in ipairs(line.x) do
      if has(log_x, x) and has(log_y, line.y[i]) then
        low, high = math.min(low, line[name][i]), math.max(high, line[name][i])
      end
    end
  end
  if low > high then
    fail("celer.plot: there is no point to draw%s", (log_x or log_y)
      and ": logarithms are of positive numbers" or ": no line has finite numbers")
  end
  if limits then return { from = limits[1], to = limits[2], log = log } end
  if log then
    local room = low == high and 2 or (high / low) ^ 0.03
    return { from = low / room, to = high * room, log = log }
  end
  local room = low == high and math.max(math.abs(low) / 10, 1e-300) or (high - low) * 0.03
  if low == 0 and high == 0 then room = 1 end
  return { from = low - room, to = high + room, log = log }
end

local function at(self, v)
  if not self.log then return (v - self.from) / (self.to - self.from) end
  return math.log(v / self.from) / math.log(self.to / self.from)
end

local function ticks_of(self, most)
  return (self.log and ticks.between_logs or ticks.between)(self.from, self.to, most)
end

-- The part of a line from (x, y) to (u, v) that lies in the unit square; or nil.
local function clip(x, y, u, v)
  local first, last = 0, 1
  for _, side in ipairs { { x, u - x }, { 1 - x, x - u }, { y, v - y }, { 1 - y, y - v } } do
    local inside, step = side[1], side[2]
    if step > 0 then
      first = math.max(first, -inside / step)
    elseif step < 0 then
      last = math.min(last, -inside / step)
    elseif inside < 0 then
      return nil
    end
  end
  if first > last then return nil end
  return x + first * (u - x), y + first * (v - y), x + last * (u - x), y + last * (v - y)
end

-- ---- drawing ------------------------------------------------------------------

local function draw_line(to, area, x_axis, y_axis, line, color)
  local u, v
  for i, value in ipairs(line.x) do
    local x, y
    if has(x_axis.log, value) and has(y_axis.log, line.y[i]) then
      x, y = at(x_axis, value), at(y_axis, line.y[i])
      local a, b, c, d = clip(u or x, v or y, x, y)
      if a then
        to:line(area.left + a * area.width, area.top + (1 - b) * area.height,
          area.left + c * area.width, area.top + (1 - d) * area.height, area.thick,
          unpack(color))
      end
    end
    u, v = x, y -- what has no place interrupts the line
  end
end

local function draw_axes(to, area, x_ticks, y_ticks)
  local left, top, right, bottom = area.left, area.top, area.left + area.width,
    area.top + area.height
  to:line(left, top, right, top, 1, 0, 0, 0)
  to:line(left, bottom, right, bottom, 1, 0, 0, 0)
  to:line(left, top, left, bottom, 1, 0, 0, 0)
  to:line(right, top, right, bottom, 1, 0, 0, 0)
  for _, tick in ipairs(x_ticks) do
    local x = math.floor(left + tick.at * area.width + 0.5)
    to:line(x, bottom, x, bottom + 6, 1, 0, 0, 0)
    to:text(x - LETTER * #tick.text / 2, bottom + 10, tick.text, SIZE)
  end
  for _, tick in ipairs(y_ticks) do
    local y = math.floor(bottom - tick.at * area.height + 0.5)
    to:line(left - 6, y, left, y, 1, 0, 0, 0)
    to:text(left - 10 - LETTER * #tick.text, y - 7, tick.text, SIZE)
  end
end

local function draw_texts(to, area, options)
  local function middle(text) return LETTER * font.count(text) / 2 end
  local across = area.left + math.floor(area.width / 2)
  if options.title then to:text(across - middle(options.title), 10, options.title, SIZE) end
  if options.xlabel then
    to:text(across - middle(options.xlabel), HEIGHT - LINE, options.xlabel, SIZE)
  end
  if options.ylabel then
    to:text(6, area.top + math.floor(area.height / 2) + middle(options.ylabel), options.ylabel,
      SIZE, true)
  end
end

local function draw_legend(to, area, lines)
  local widest, row = 0, 0
  for _, line in ipairs(lines) do widest = math.max(widest, font.count(line.label or "")) end
  local left = area.left + area.width - LETTER * widest - 12
  for i, line in ipairs(lines) do
    if line.label then
      local y = area.top + 12 + LINE * row
      to:line(left - 40, y + 7, left - 10, y + 7, 2, unpack(colors[(i - 1) % #colors + 1]))
      to:text(left, y, line.label, SIZE)
      row = row + 1
    end
  end
end

local function draw(to, lines, options, thick)
  local log = options.log or ""
  local log_x, log_y = log:find "x" ~= nil, log:find "y" ~= nil
  local x_axis = axis(lines, "x", options.xlim, log_x, log_y)
  local y_axis = axis(lines, "y", options.ylim, log_x, log_y)
  local y_ticks = ticks_of(y_axis, 8)
  local left = 20 + LETTER * ticks.widest(y_ticks) + (options.ylabel and LINE or 0)
  local top = options.title and 2 * LINE or LINE
  local area = { left = left, top = top, width = WIDTH - left - 40,
    height = HEIGHT - top - 40 - (options.xlabel and LINE or 0), thick = thick }
  draw_axes(to, area, ticks_of(x_axis, 6), y_ticks)
  for i, line in ipairs(lines) do
    draw_line(to, area, x_axis, y_axis, line, colors[(i - 1) % #colors + 1])
  end
  draw_texts(to, area, options)
  if options.legend ~= false then draw_legend(to, area, lines) end
end

---@class celer.plot.line
---@field x? number[]|celer.view  1, 2, ... by default
---@field y number[]|celer.view
---@field label string?  in the legend

---@class celer.plot.options
---@field title string?
---@field xlabel string?
---@field ylabel string?
---@field xlim number[]?  the numbers at the ends of the axis; those of the lines by default
---@field ylim number[]?
---@field log "x"|"y"|"xy"|nil  axes of logarithms
---@field legend boolean?  false: none
---@field as celer.shown_as?  how the terminal draws, if there is no path

local function save(path, ending, to)
  place.check(posix.make_folders_for(path))
  if ending == "svg" then
    place.check(posix.write_all(path, to:finish()))
  else
    place.check(core.png(path, WIDTH, HEIGHT, ffi.string(to.bytes, 3 * WIDTH * HEIGHT)))
  end
end

-- Of a path: how it ends. Raises for others.
local function ending_of(path)
  local ending = path:match "%.(%a+)$"
  if ending == "png" or ending == "svg" then return ending end
  fail("celer.plot: the file name must end in .png or .svg: %q", path)
end

--- Draws lines over axes: celer.plot("u.png", x, y, options), or ("u.svg", lines, options), into
--- a file that ends in .png or .svg; without a path in the terminal, as celer.show draws. What is
--- not finite, or has no logarithm, interrupts a line. In a script rank 0 writes it, in a host
--- task the task's rank. Folders that are missing are made.
---@param path string|celer.plot.line[]|number[]|celer.view
---@param lines? celer.plot.line[]|number[]|celer.view|celer.plot.options  lines, or x or y
---@param y? number[]|celer.view|celer.plot.options
---@param options? celer.plot.options
function M.plot(path, lines, y, options)
  local ending = type(path) == "string" and ending_of(path)
  if ending then
    lines, options = arguments(lines, y, options)
  else
    lines, options = arguments(path, lines, y)
  end
  lines, options = lines_of(lines), options == nil and {} or options
  check_options(options)
  if ending and options.as then
    fail "celer.plot: 'as' is for terminals, and this goes to a file"
  end
  if not ending and core.view then fail "celer.plot: a host task plots to a file: give its name" end
  local shown = not ending and require "celer.draw.show"
  local way = shown and shown.way("celer.plot", options.as)
  local to = (ending == "svg" and svg or canvases).new(WIDTH, HEIGHT)
  draw(to, lines, options, way == "blocks" and BLOCK or THIN)
  if way then
    shown.write(way, to.bytes, HEIGHT, WIDTH)
  elseif ending and (core.view or core.rank() == 0) then
    save(path, ending, to)
  end
end

return M
