--- csv.lua -- tables of text: rows of fields, with commas between them.
local core = require "celer.core"
local place = require "celer.place"
local posix = require "celer.io.posix"
local tables = require "celer.tables"
local view = require "celer.data.view"
local words = require "celer.words"

local fail = place.fail
local M = {}

local function separator_of(call, options)
  local separator = options.separator
  if separator == nil then return "," end
  if type(separator) ~= "string" or #separator ~= 1 or separator:find '["\r\n]' then
    fail("%s: separator must be one character such as \";\", not %s", call,
      type(separator) == "string" and ("%q"):format(separator) or words.a(separator))
  end
  return separator
end

-- ---- reading ------------------------------------------------------------------

-- A text that is read from its beginning to its end.
local Reader = {}
Reader.__index = Reader

-- Raises `{ line, column, why }`: where in the text something is wrong.
local function wrong(self, at, why)
  local _, breaks = self.text:sub(1, at - 1):gsub("\n", "")
  local before = self.text:sub(1, at - 1):match "[^\n]*$"
  error({ line = breaks + 1, column = #before + 1, why = why }, 0)
end

-- From the quote at self.at on: what stands in quotes, where two are one.
function Reader:quoted()
  local from, at = self.at, self.at + 1
  while true do
    local quote = self.text:find('"', at, true)
    if not quote then wrong(self, from, "the quote is not closed") end
    if self.text:sub(quote + 1, quote + 1) ~= '"' then
      self.at = quote + 1
      return (self.text:sub(from + 1, quote - 1):gsub('""', '"'))
    end
    at = quote + 2
  end
end

-- The field at self.at, and whether it is the row's last.
function Reader:field()
  local start, out = self.at
  if self.text:sub(start, start) == '"' then
    out = self:quoted()
  else
    out, self.at = self.text:match(self.plain, start)
  end
  local ending = self.text:match("^\r?\n()", self.at)
  if ending or self.at > #self.text then
    self.at = ending or self.at
    return { text = out, start = start }, true
  elseif self.text:sub(self.at, self.at) ~= self.separator then
    wrong(self, self.at, self.text:sub(self.at, self.at) == '"'
      and "a quote stands within a field; put all of it in quotes, and write \"\" for it"
      or "text follows a closing quote")
  end
  self.at = self.at + 1
  return { text = out, start = start }, false
end

-- All rows; empty lines are none.
function Reader:rows()
  local out = {}
  while self.at <= #self.text do
    local blank = self.text:match("^\r?\n()", self.at)
    if blank then
      self.at = blank
    else
      local row, field, last = {}
      repeat
        field, last = self:field()
        row[#row + 1] = field
      until last
      if out[1] and #row ~= #out[1] then
        wrong(self, row[1].start, ("the row has %s, the first one has %d"):format(
          words.count(#row, "field"), #out[1]))
      end
      out[#out + 1] = row
    end
  end
  return out
end

-- A number as tables have it; nil for other text.
local function number_of(text)
  if text:find "[xXpP]" then return nil end
  return tonumber(text)
end

-- The fields of a column: as numbers if all are, and `must` be. An empty one is then a NaN.
local function column(self, rows, c, first, name, must)
  local out, some = {}, false
  for i = first, #rows do
    local text = rows[i][c].text
    local number = number_of(text) or text == "" and 0 / 0
    if not number then
      if must then wrong(self, rows[i][c].start, ("%q of %s is no number"):format(text, name)) end
      some, must = false, false
      break
    end
    some = some or text ~= ""
    out[i - first + 1] = number
  end
  if some or must then return out end
  out = {}
  for i = first, #rows do out[i - first + 1] = rows[i][c].text end
  return out
end

local function columns_of(self, header, numbers)
  local rows = self:rows()
  local names, out, must = {}, {}, {}
  for _, name in ipairs(type(numbers) == "table" and numbers or {}) do must[name] = true end
  for c = 1, rows[1] and #rows[1] or 0 do
    local name = header and rows[1][c].text or c
    if out[name] then wrong(self, rows[1][c].start, ("column %q is there twice"):format(name)) end
    names[c] = name
    out[name] = column(self, rows, c, header and 2 or 1, name, numbers == true or must[name])
    must[name] = nil
  end
  for name in tables.sorted_pairs(must) do
    wrong(self, 1, ("there is no column %s"):format(tostring(name)))
  end
  return out, names
end

local read_options = { header = true, separator = true, numbers = true }

---@class celer.csv.read_options
---@field header boolean?  false: the first row has no names; they are 1, 2, ...
---@field separator string?  "," by default
---@field numbers boolean|(string|integer)[]|nil  which columns must be numbers; true: all

--- The columns of a CSV file by their names, and the names in their order. A column whose
--- fields all are numbers or empty has numbers, with NaN for the empty ones; others have
--- text. Each rank that calls it reads the file.
---@param path string
---@param options? celer.csv.read_options
---@return table<string|integer, number[]|string[]> columns, (string|integer)[] names
function M.read(path, options)
  local call = "celer.csv.read"
  words.check_path(call, path)
  options = words.check_options(call, options == nil and {} or options, read_options)
  local numbers = options.numbers
  if numbers ~= nil and type(numbers) ~= "boolean" and type(numbers) ~= "table" then
    fail("%s: numbers must be true or a list of columns, not %s", call, words.a(numbers))
  end
  local separator = separator_of(call, options)
  local text = place.check(posix.read_all(path)):gsub("^\239\187\191", "")
  local self = setmetatable({ text = text, at = 1, separator = separator,
    plain = "^([^\"\r\n%" .. separator .. "]*)()" }, Reader)
  local ok, columns, names = pcall(columns_of, self, options.header ~= false, numbers)
  if ok then return columns, names end
  if type(columns) ~= "table" then error(columns, 0) end
  fail("cannot read %s: line %d, column %d: %s", path, columns.line, columns.column, columns.why)
end

-- ---- writing ------------------------------------------------------------------

local function field_text(value, separator, what)
  if type(value) == "number" then
    return value == value and words.number(value) or "nan"
  elseif type(value) ~= "string" then
    fail("celer.csv.write: %s is %s, neither a number nor a string", what, words.a(value))
  elseif value == "" or value:find('["\r\n%' .. separator .. "]") then
    return '"' .. value:gsub('"', '""') .. '"'
  end
  return value
end

-- The texts of a column, its name first if there is a header.
local function column_texts(name, values, separator, header)
  local out = { header and field_text(tostring(name), separator) or nil }
  local what = ("column %s"):format(tostring(name))
  if getmetatable(values) == view.View then
    if values.dims ~= 1 or not ("iuf"):find(values.type.class) then
      fail("celer.csv.write: %s must be numbers in 1 dimension; %s is %s in %d", what, values.name,
        values.type.name, values.dims)
    end
    view.each(values, function(v)
      out[#out + 1] = type(v) == "cdata" and tostring(v):match "%-?%d+"
        or field_text(tonumber(v), separator)
    end)
    return out
  elseif type(values) ~= "table" or getmetatable(values) then
    fail("celer.csv.write: %s must be a list or a snapshot, not %s", what, words.a(values))
  end
  for i, value in ipairs(values) do
    out[#out + 1] = field_text(value, separator, ("%s[%d]"):format(what, i))
  end
  return out
end

local write_options = { header = true, separator = true, names = true }

-- Names of columns in their order: those asked for, else sorted.
local function names_of(columns, names)
  local out = {}
  if type(columns) ~= "table" or getmetatable(columns) or next(columns) == nil then
    fail("celer.csv.write: the second argument must be a table of columns such as "
      .. "{ t = {...}, x = {...} }, not %s", type(columns) == "table"
      and not getmetatable(columns) and "an empty table" or words.a(columns))
  elseif names ~= nil and type(names) ~= "table" then
    fail("celer.csv.write: names must be a list, not %s", words.a(names))
  elseif names then
    for i, name in ipairs(names) do
      if columns[name] == nil then
        fail("celer.csv.write: there is no column %s", tostring(name))
      end
      out[i] = name
    end
    return out
  end
  for name in tables.sorted_pairs(columns) do out[#out + 1] = name end
  return out
end

---@class celer.csv.write_options
---@field header boolean?  false: no names in the first row
---@field separator string?  "," by default
---@field names (string|integer)[]?  which columns, in which order; else all, sorted

--- Writes columns as a CSV file: lists of numbers and strings, or snapshots of 1 dimension.
--- Numbers are read again as they were. In a script rank 0 writes, in a host task the
--- task's rank. The file has its name when all is written; folders that are missing are made.
---@param path string
---@param columns table<string|integer, (number|string)[]|celer.view>
---@param options? celer.csv.write_options
function M.write(path, columns, options)
  local call = "celer.csv.write"
  words.check_path(call, path)
  options = words.check_options(call, options == nil and {} or options, write_options)
  local separator = separator_of(call, options)
  local names, texts, rows = names_of(columns, options.names), {}, {}
  for c, name in ipairs(names) do
    texts[c] = column_texts(name, columns[name], separator, options.header ~= false)
    if #texts[c] ~= #texts[1] then
      local header = options.header ~= false and 1 or 0
      fail("%s: column %s has %s, column %s has %d", call, tostring(name),
        words.count(#texts[c] - header, "row"), tostring(names[1]), #texts[1] - header)
    end
  end
  for i = 1, #(texts[1] or {}) do
    local row = {}
    for c = 1, #texts do row[c] = texts[c][i] end
    rows[i] = table.concat(row, separator) .. "\n"
  end
  if not core.view and core.rank() ~= 0 then return end
  place.check(posix.replace(path, table.concat(rows)))
end

return setmetatable(M, { __index = function(_, name)
  fail("there is no celer.csv.%s%s", tostring(name), words.advice(name, M))
end })
