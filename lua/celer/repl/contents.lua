--- contents.lua -- what a buffer or snapshot holds, for a person to see.
local box = require "celer.box"
local core = require "celer.core"
local fields_of = require("celer.data.fields").of
local views = require "celer.data.view"

local M = {}

local WIDTH = 78
local SMALL = 256 -- elements that are all shown
local EDGE = 3 -- else so many at each end
local MANY = 9 -- elements of an array in a struct
local MOST_BYTES = 2 ^ 28 -- that are brought to be summed up

-- ---- elements ---------------------------------------------------------------

local text_of

-- The fields of a struct, in order; those of a nameless one in it are its own.
local function list_fields(node, value, out)
  for _, field in ipairs(node.fields) do
    if field.name then
      out[#out + 1] = field.name .. " = " .. text_of(field.type, value[field.name])
    elseif field.type.fields then
      list_fields(field.type, value, out)
    end
  end
  return out
end

local function list_elements(node, value)
  local out = {}
  for i = 0, math.min(node.count, MANY) - 1 do out[i + 1] = text_of(node.of, value[i]) end
  if node.count > MANY then out[MANY + 1] = "..." end
  return out
end

-- What a C type holds; of an array of a struct the first elements.
function text_of(node, value)
  if node.fields then return "{" .. table.concat(list_fields(node, value, {}), ", ") .. "}" end
  if node.plain then return "{" .. table.concat(list_elements(node, value), ", ") .. "}" end
  return node.class == "f" and node.size == 4 and ("%.7g"):format(value)
    or (tostring(value):gsub("U?LL$", ""))
end

local function word(type_, value) return text_of(fields_of(type_.ctype), value) end

--- A struct of a type as text.
---@param type_ celer.type
---@return string
function M.struct(type_, value) return word(type_, value) end

-- Which of the coordinates lo to hi - 1 are shown; false stands for the others.
local function pick(lo, hi, all)
  local out = {}
  for i = lo, hi - 1 do
    if all or i < lo + EDGE or i >= hi - EDGE then out[#out + 1] = i
    elseif out[#out] then out[#out + 1] = false end
  end
  return out
end

-- One row as words.
local function row(view, index, picked)
  local words, d = {}, #index + 1
  for n, i in ipairs(picked) do
    index[d] = i
    words[n] = i and word(view.type, view(unpack(index, 1, d))) or "..."
  end
  index[d] = nil
  return words
end

-- ---- layout -----------------------------------------------------------------

local function pad(text, width) return (" "):rep(width - #text) .. text end

local function widest(rows)
  local width = 3
  for _, words in ipairs(rows) do
    for _, w in ipairs(words) do width = math.max(width, #w) end
  end
  return width
end

local function aligned(words, width)
  local out = {}
  for i, w in ipairs(words) do out[i] = pad(w, width) end
  return " " .. table.concat(out, " ")
end

-- One dimension: as many to a line as fit, with the coordinate of the first where
-- there are several lines.
local function lines_of_one(view, all)
  local picked = pick(view.min[0], view.max[0], all)
  local words = row(view, {}, picked)
  local width = widest { words }
  if #words * (width + 1) <= WIDTH then return { aligned(words, width) } end
  local label = #tostring(view.max[0]) + 2
  local across = math.max(1, math.floor((WIDTH - label - 1) / (width + 1)))
  local out = {}
  for first = 1, #words, across do
    out[#out + 1] = " " .. pad(picked[first] and ("[%d]"):format(picked[first]) or "", label)
      .. aligned({ unpack(words, first, math.min(first + across - 1, #words)) }, width)
  end
  return out
end

-- The words of a plane, row by row, and the columns that are shown.
local function plane(view, index, all)
  local d, rows = #index, {}
  local columns = pick(view.min[d + 1], view.max[d + 1], all)
  for n, i in ipairs(pick(view.min[d], view.max[d], all)) do
    index[d + 1] = i
    rows[n] = i and row(view, index, columns) or { "..." }
  end
  index[d + 1] = nil
  return rows, columns
end

-- The coordinates of columns[first] to columns[last]; nil where none of them is shown.
local function range_label(columns, first, last)
  if not columns[first] then first = first + 1 end
  if not columns[last] then last = last - 1 end
  if first > last then return nil end
  return first == last and (" column %d"):format(columns[first])
    or (" columns %d to %d"):format(columns[first], columns[last])
end

-- Rows that are wider than a line are shown in blocks of columns.
local function lines_of_plane(view, index, all)
  local rows, columns = plane(view, index, all)
  local out, width = {}, widest(rows)
  local across = math.max(1, math.floor(WIDTH / (width + 1)))
  for first = 1, #columns, across do
    local last = math.min(first + across - 1, #columns)
    local label = range_label(columns, first, last)
    if #columns > across then out[#out + 1] = label end
    for _, words in ipairs(label and rows or {}) do
      out[#out + 1] = aligned(#words < #columns and words or { unpack(words, first, last) }, width)
    end
  end
  return out
end

local function lines_of_three(view, all)
  local out = {}
  for _, i in ipairs(pick(view.min[0], view.max[0], all)) do
    if not i then
      out[#out + 1] = " ..."
    else
      out[#out + 1] = (" [%d]"):format(i)
      for _, line in ipairs(lines_of_plane(view, { i }, all)) do out[#out + 1] = line end
    end
  end
  return out
end

-- ---- sums -------------------------------------------------------------------

-- Least and greatest of a view's numbers, and how many are none.
local function range_of(view)
  local least, most, odd = math.huge, -math.huge, 0
  views.each(view, function(x)
    x = tonumber(x)
    if x ~= x then odd = odd + 1 end
    if x < least then least = x end
    if x > most then most = x end
  end)
  return least, most, odd
end

-- It is compiled, unlike what is typed: there may be millions.
local function summary(view)
  if view.type.class == "s" or view.type.class == "b" then return nil end
  local least, most, odd = core.finally(function()
    jit.on()
    return range_of(view)
  end, jit.off)
  local text = (" min %.7g, max %.7g"):format(least, most)
  return odd > 0 and ("%s; %d are nan"):format(text, odd) or text
end

local function volume(view)
  local n = 1
  for d = 0, view.dims - 1 do n = n * (view.max[d] - view.min[d]) end
  return n
end

--- What a snapshot holds, in lines: all of it where that is little.
---@param view celer.view
---@return string[]
function M.lines(view)
  local n, dims = volume(view), view.dims
  if n == 0 then return {} end
  if dims == 0 then return { " " .. word(view.type, view()) } end
  local all = n <= SMALL and not (view.type.class == "s" and n > 4 * EDGE)
  local out
  if view.type.class == "s" and dims == 1 then
    out = {}
    for _, i in ipairs(pick(view.min[0], view.max[0], all)) do
      out[#out + 1] = i and (" [%d] %s"):format(i, word(view.type, view(i))) or " ..."
    end
  elseif dims == 1 then out = lines_of_one(view, all)
  elseif dims == 2 then out = lines_of_plane(view, {}, all)
  else out = lines_of_three(view, all) end
  if not all then out[#out + 1] = summary(view) end
  return out
end

--- What a buffer holds now, by a fence; of one that is too large to bring, the
--- first elements.
---@param b celer.buffer
---@return string[]
function M.of_buffer(b)
  if b.freed then return { " freed" } end
  if b.bytes == 0 then return {} end
  local q = require("celer.submit.queue").new()
  if b.bytes <= MOST_BYTES then return M.lines(q:fence(b):get()) end
  local lo, hi = {}, {}
  for d = 1, b.dims do lo[d], hi[d] = 0, math.min(b.size[d - 1], EDGE) end
  local out = M.lines(q:fence(b, box.new(lo, hi)):get())
  out[#out + 1] = " ... the first of them"
  return out
end

return M
