--- matrix.lua -- sparse matrices in files of the Matrix Market.
---
--- The format is that of R. F. Boisvert, R. Pozo, K. A. Remington: The Matrix Market Exchange
--- Formats: Initial Design. Of it the sparse half ("coordinate") of numbers that are not complex.
local core = require "celer.core"
local place = require "celer.place"
local posix = require "celer.io.posix"
local view = require "celer.data.view"
local words = require "celer.words"

local fail = place.fail
local M = {}

local MOST = 2 ^ 31 - 1 -- rows, columns and entries: indices are of 32 bits

---@class celer.matrix  in compressed rows: row i has col[k] and val[k] for k from ptr[i] to
--- ptr[i + 1] - 1, all counted from 0, as in what buffers of these lists hold
---@field rows integer
---@field columns integer
---@field ptr integer[]  rows + 1 of them
---@field col integer[]  ascending in a row, each once
---@field val number[]

-- ---- reading ------------------------------------------------------------------

local function wrong(line, why, ...) error({ line = line, why = why:format(...) }, 0) end

local fields = { real = true, integer = true, pattern = true, double = true }
local mirrors = { general = 0, symmetric = 1, ["skew-symmetric"] = -1 }

-- What the first line says: whether values are there, and by what a mirrored one is multiplied.
local function kind_of(line)
  local kind, field, symmetry = line:lower():match(
    "^%%%%matrixmarket%s+matrix%s+(%S+)%s+(%S+)%s+(%S+)")
  if not kind then
    wrong(1, "it must begin with %%%%MatrixMarket matrix coordinate real general, or the like")
  elseif kind ~= "coordinate" then
    wrong(1, "the matrix is %s; celer reads sparse ones: coordinate", kind)
  elseif not fields[field] then
    wrong(1, "its values are %s; celer reads real, integer and pattern", field)
  elseif not mirrors[symmetry] then
    wrong(1, "it is %s; celer reads general, symmetric and skew-symmetric", symmetry)
  end
  return field ~= "pattern", mirrors[symmetry]
end

-- A whole number from 1 on, no larger than `most`.
local function index_of(text, most, number, what)
  local index = tonumber(text)
  if not index or index % 1 ~= 0 or index < 1 or index > most then
    wrong(number, "%s %s is none from 1 to %d", what, text, most)
  end
  return index
end

-- The line with the extents.
local function extents_of(line, number)
  local rows, columns, count = line:match "^%s*(%d+)%s+(%d+)%s+(%d+)%s*$"
  rows, columns, count = tonumber(rows), tonumber(columns), tonumber(count)
  if not rows then wrong(number, "it must say how many rows, columns and entries there are") end
  if math.max(rows, columns, 2 * count) > MOST then wrong(number, "that is more than 2^31 - 1") end
  return rows, columns, count
end

-- Entries in the order of the file: rows, columns and values.
local function entries_of(text)
  local I, J, X, n, left = {}, {}, {}, 0, nil
  local has_values, mirror, rows, columns
  local number = 0
  for line in text:gmatch "([^\r\n]*)\r?\n?" do
    number = number + 1
    if number == 1 then
      has_values, mirror = kind_of(line)
    elseif line:find "^%s*[^%s%%]" and not rows then -- no comment, and not empty
      rows, columns, left = extents_of(line, number)
    elseif line:find "^%s*[^%s%%]" then
      local i, j, x = line:match "^%s*(%S+)%s+(%S+)%s*(%S*)%s*$"
      if not i or (x == "") == has_values then
        wrong(number, "an entry has a row and a column%s", has_values and ", and a number" or "")
      elseif left == 0 then
        wrong(number, "there are more entries than were announced")
      end
      i, j = index_of(i, rows, number, "row"), index_of(j, columns, number, "column")
      local value = has_values and tonumber(x) or not has_values and 1 or nil
      if not value then wrong(number, "%s is no number", x) end
      left, n = left - 1, n + 1
      I[n], J[n], X[n] = i - 1, j - 1, value
      if mirror ~= 0 and i ~= j then
        n = n + 1
        I[n], J[n], X[n] = j - 1, i - 1, mirror * value
      end
    end
  end
  if not rows then wrong(number, "it must say how many rows, columns and entries there are") end
  if left > 0 then wrong(number, "it ends with %d entries missing", left) end
  return rows, columns, I, J, X
end

-- Appends a row's entries in the order of their columns; those of one column as their sum.
local function append_row(col, val, row, J, X)
  table.sort(row, function(a, b) return J[a] < J[b] or J[a] == J[b] and a < b end)
  for k, at in ipairs(row) do
    if k > 1 and J[at] == col[#col] then
      val[#val] = val[#val] + X[at]
    else
      col[#col + 1], val[#val + 1] = J[at], X[at]
    end
  end
end

local function compress(rows, columns, I, J, X)
  local of_row, ptr, col, val = {}, { 0 }, {}, {}
  for at, i in ipairs(I) do
    of_row[i] = of_row[i] or {}
    table.insert(of_row[i], at)
  end
  for i = 0, rows - 1 do
    if of_row[i] then append_row(col, val, of_row[i], J, X) end
    of_row[i] = nil
    ptr[i + 2] = #col
  end
  return { rows = rows, columns = columns, ptr = ptr, col = col, val = val }
end

--- A sparse matrix from a file of the Matrix Market: "coordinate", with real or whole numbers or
--- a pattern, whose entries are 1; general, symmetric or skew-symmetric, of which both halves are
--- given. Entries of one place are added. Each rank that calls it reads the file.
---@param path string
---@return celer.matrix
function M.read(path)
  words.check_path("celer.matrix.read", path)
  local text = place.check(posix.read_all(path))
  local ok, rows, columns, I, J, X = pcall(entries_of, text)
  if ok then return compress(rows, columns, I, J, X) end
  if type(rows) ~= "table" then error(rows, 0) end
  fail("cannot read %s: line %d: %s", path, rows.line, rows.why)
end

-- ---- writing ------------------------------------------------------------------

-- A list, or a snapshot, as a function of an index from 0 on; and its length.
local function reader_of(matrix, name)
  local list = matrix[name]
  if getmetatable(list) == view.View then
    if list.dims ~= 1 or not ("iuf"):find(list.type.class) then
      fail("celer.matrix.write: %s must be numbers in 1 dimension; %s is %s in %d", name,
        list.name, list.type.name, list.dims)
    end
    return function(k) return tonumber(list[k]) end, list.size[0]
  elseif type(list) ~= "table" or getmetatable(list) then
    fail("celer.matrix.write: the matrix needs %s, a list of numbers or a snapshot, not %s", name,
      words.a(list))
  end
  return function(k) return list[k + 1] end, #list
end

local function lines_of(matrix)
  local ptr, n = reader_of(matrix, "ptr")
  local col, entries = reader_of(matrix, "col")
  local val, values = reader_of(matrix, "val")
  local columns = matrix.columns or n - 1
  if n == 0 or ptr(0) ~= 0 or ptr(n - 1) ~= entries or values ~= entries then
    fail("celer.matrix.write: ptr goes from 0 to the number of entries, of which col and val have "
      .. "one each; here it has %s, col %d and val %d", words.count(n, "number"), entries, values)
  end
  local out = { "%%MatrixMarket matrix coordinate real general",
    ("%d %d %d"):format(n - 1, columns, entries) }
  for i = 0, n - 2 do
    if ptr(i + 1) < ptr(i) then
      fail("celer.matrix.write: ptr[%d] is less than the one before", i + 1)
    end
    for k = ptr(i), ptr(i + 1) - 1 do
      local j = col(k)
      if j < 0 or j >= columns or j % 1 ~= 0 then
        fail("celer.matrix.write: col[%d] is %s, and the matrix has columns 0 to %d", k,
          tostring(j), columns - 1)
      end
      out[#out + 1] = ("%d %d %s"):format(i + 1, j + 1, words.number(val(k)))
    end
  end
  return table.concat(out, "\n") .. "\n"
end

---@class celer.matrix.written
---@field columns integer?
---@field ptr integer[]|celer.view
---@field col integer[]|celer.view
---@field val number[]|celer.view

--- Writes a sparse matrix as a file of the Matrix Market, "coordinate real general": what
--- celer.matrix.read gives, or snapshots of the buffers that celer.spmv takes. Numbers are read
--- again as they were. In a script rank 0 writes, in a host task the task's rank. The file has its
--- name when all is written; folders that are missing are made.
---@param path string
---@param matrix celer.matrix.written  without `columns` it has as many as rows
function M.write(path, matrix)
  words.check_path("celer.matrix.write", path)
  if type(matrix) ~= "table" or getmetatable(matrix) then
    fail("celer.matrix.write: the second argument must be a table with ptr, col and val, not %s",
      words.a(matrix))
  end
  local text = lines_of(matrix)
  if not core.view and core.rank() ~= 0 then return end
  place.check(posix.replace(path, text))
end

return setmetatable(M, { __index = function(_, name)
  fail("there is no celer.matrix.%s%s", tostring(name), words.advice(name, M))
end })
