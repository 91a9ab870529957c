--- slab.lua -- boxes between memory and files, in the fewest calls.
---
--- A *window* is a box of coordinates that lie row by row without gaps: an
--- allocation, or what a file holds. It is six numbers, min then max, as in
--- celer.core: a dimension that is not there is [0, 1).
local ffi = require "ffi"

ffi.cdef "uint64_t cel_hash(const void *data, size_t size, uint64_t seed);"

local M = {}

-- Calls f(elements from the window a's start, from b's, how many) for each run of
-- `part` that is without gaps in both, until f returns nil and a message.
local function each_run(part, a, b, f)
  local n = part[6] - part[3]
  local rows, planes = part[5] - part[2], part[4] - part[1]
  local ra, rb = a[6] - a[3], b[6] - b[3] -- a row of each
  local pa, pb = (a[5] - a[2]) * ra, (b[5] - b[2]) * rb -- a plane
  if n == ra and n == rb then n, rows = n * rows, 1 end
  if rows == 1 and n == pa and n == pb then n, planes = n * planes, 1 end
  for i = part[1], part[1] + planes - 1 do
    for j = part[2], part[2] + rows - 1 do
      local ok, message = f((i - a[1]) * pa + (j - a[2]) * ra + part[3] - a[3],
        (i - b[1]) * pb + (j - b[2]) * rb + part[3] - b[3], n)
      if not ok then return nil, message end
    end
  end
  return true
end

local function volume(part)
  return (part[4] - part[1]) * (part[5] - part[2]) * (part[6] - part[3])
end
M.volume = volume

-- Reads or writes by `method` of the file; `at` is the byte where its window
-- begins.
local function move(method, file, at, size, window, p, memory, part)
  if volume(part) == 0 then return true end
  p = ffi.cast("char *", p)
  return each_run(part, window, memory, function(there, here, n)
    return file[method](file, p + here * size, n * size, at + there * size)
  end)
end

--- Writes `part` of what lies at `p` in the window `memory`; or nil, message.
function M.write(...) return move("write", ...) end
--- The other way.
function M.read(...) return move("read", ...) end

--- Writes a part of a file's window that lies in pieces, each of `tall` rows of the first
--- dimension; places[first] is the byte where the first one begins.
---@param places table<integer, integer>|celer.view
---@return boolean? ok, string? message
function M.write_pieces(file, places, first, tall, size, window, p, memory, part)
  local above = window[1]
  for from = above, window[4] - 1, tall do
    local lo, hi = math.max(part[1], from), math.min(part[4], from + tall)
    if lo < hi then
      local ok, message = M.write(file, tonumber(places[first + (from - above) / tall]), size,
        { from, window[2], window[3], from + tall, window[5], window[6] }, p, memory,
        { lo, part[2], part[3], hi, part[5], part[6] })
      if not ok then return nil, message end
    end
  end
  return true
end

--- A hash of the elements of `part`, whatever lies around them in memory, in
--- the order of a file with this window. The part has all of the window but
--- along one dimension.
---@return ffi.cdata* hash  uint64_t
function M.hash(size, window, p, memory, part)
  local hash = ffi.new("uint64_t", 0)
  if volume(part) == 0 then return hash end
  p = ffi.cast("char *", p)
  each_run(part, window, memory, function(_, here, n)
    hash = ffi.C.cel_hash(p + here * size, n * size, hash)
    return true
  end)
  return hash
end

--- A hash of a string.
---@return ffi.cdata* hash  uint64_t
function M.hash_text(text) return ffi.C.cel_hash(text, #text, 0) end

return M
