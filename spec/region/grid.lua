-- grid.lua -- the shadow model of the region specs: point sets on a small grid,
-- element by element, and the canonical form by its definition.
--
-- Points are numbers: a coordinate triple from LOW to HIGH - 1 in each
-- dimension, in row-major order, so that a set is a table point -> value.
local ffi = require("ffi")

local M = { LOW = -2, HIGH = 5 }
local LOW, HIGH = M.LOW, M.HIGH

-- Steps of splitmix64's kind need 64 bits; a Lehmer generator fits a double.
local Random = {}
Random.__index = Random

function M.random(seed)
  local state = (seed * 7919 + 17) % 2147483647
  return setmetatable({ state = state == 0 and 1 or state }, Random)
end

--- Uniform in lo..hi.
function Random:int(lo, hi)
  self.state = (self.state * 48271) % 2147483647
  return lo + self.state % (hi - lo + 1)
end

function Random:chance(percent)
  return self:int(1, 100) <= percent
end

--- A box in `dims` dimensions, now and then empty or inverted.
function Random:box(dims)
  local box = ffi.new("cel_box")
  for d = 0, 2 do
    if d < dims then
      local a, b = self:int(LOW, HIGH), self:int(LOW, HIGH)
      if a > b and not self:chance(4) then a, b = b, a end
      if a == b and not self:chance(8) then
        if b < HIGH then b = b + 1 else a = a - 1 end
      end
      box.min[d], box.max[d] = a, b
    else
      box.min[d], box.max[d] = 0, 1
    end
  end
  return box
end

--- `n` boxes as a C array.
function Random:boxes(n, dims)
  local boxes = ffi.new("cel_box[?]", math.max(n, 1))
  for i = 0, n - 1 do boxes[i] = self:box(dims) end
  return boxes
end

function M.extent(dims)
  local box = ffi.new("cel_box")
  for d = 0, 2 do
    box.min[d], box.max[d] = d < dims and LOW or 0, d < dims and HIGH or 1
  end
  return box
end

function M.box(a, b, c, A, B, C)
  return ffi.new("cel_box", { { a, b, c }, { A, B, C } })
end

--- Calls fn(point) for the points of a box that lie in the grid.
function M.each(box, fn)
  local lo, hi = {}, {}
  for d = 0, 2 do
    lo[d] = math.max(tonumber(box.min[d]), LOW)
    hi[d] = math.min(tonumber(box.max[d]), HIGH)
  end
  for x = lo[0], hi[0] - 1 do
    for y = lo[1], hi[1] - 1 do
      for z = lo[2], hi[2] - 1 do fn(M.point(x, y, z)) end
    end
  end
end

local SIDE = HIGH - LOW

function M.point(x, y, z)
  return ((x - LOW) * SIDE + y - LOW) * SIDE + z - LOW
end

--- Sets the points of a box to `value` (true unless given; false removes).
function M.fill(set, box, value)
  if value == nil then value = true end
  M.each(box, function(p) set[p] = value or nil end)
  return set
end

function M.set(boxes, n)
  local set = {}
  for i = 0, n - 1 do M.fill(set, boxes[i]) end
  return set
end

function M.same(a, b)
  for p, v in pairs(a) do if b[p] ~= v then return false end end
  for p, v in pairs(b) do if a[p] ~= v then return false end end
  return true
end

function M.count(set)
  local n = 0
  for _ in pairs(set) do n = n + 1 end
  return n
end

function M.text(box)
  return ("[%d,%d,%d %d,%d,%d)"):format(tonumber(box.min[0]), tonumber(box.min[1]),
    tonumber(box.min[2]), tonumber(box.max[0]), tonumber(box.max[1]),
    tonumber(box.max[2]))
end

--- The boxes of an array, in order, as text.
function M.list(boxes, n)
  local words = {}
  for i = 0, n - 1 do words[i + 1] = M.text(boxes[i]) end
  return table.concat(words, " ")
end

-- Text of the runs of equal cross-section along dimension d; the bounds so far
-- are in `bounds`.
local function slabs(set, d, bounds, prefix, words)
  if d == 3 then
    words[#words + 1] = ("[%d,%d,%d %d,%d,%d)"):format(bounds[0][1], bounds[1][1],
      bounds[2][1], bounds[0][2], bounds[1][2], bounds[2][2])
    return
  end
  local function section(x) -- the cross-section at x, as text
    local points, at = {}, { [0] = prefix[0] or 0, prefix[1] or 0, 0 }
    at[d] = x
    local hi = { [0] = HIGH - 1, HIGH - 1, HIGH - 1 }
    for y = d < 1 and LOW or at[1], d < 1 and hi[1] or at[1] do
      for z = d < 2 and LOW or at[2], d < 2 and hi[2] or at[2] do
        if set[M.point(at[0], y, z)] then points[#points + 1] = y .. "," .. z end
      end
    end
    if d == 2 then return #points > 0 and "x" or "" end
    if d == 1 then -- along a line of y, only z matters
      for i, p in ipairs(points) do points[i] = p:match(",(.*)") end
    end
    return table.concat(points, " ")
  end
  local x = LOW
  while x < HIGH do
    local here, from = section(x), x
    repeat x = x + 1 until x == HIGH or section(x) ~= here
    if here ~= "" then
      prefix[d], bounds[d] = from, { from, x }
      slabs(set, d + 1, bounds, prefix, words)
      prefix[d] = nil
    end
  end
end

--- The canonical box list of a point set, by its definition, as text.
function M.canonical(set)
  local words = {}
  slabs(set, 0, {}, {}, words)
  return table.concat(words, " ")
end

return M
