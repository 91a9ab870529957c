--- box.lua -- boxes of coordinates, half-open, and the chunks of a task.
---
---   local b = celer.box({0, 0}, {4, 8})     -- rows 0 to 3, columns 0 to 7
---   print(b.min[0], b.max[1], b.size[1])    -- 0  8  8
---
--- A chunk is a box too, with `global`, the extents of the whole range. While a
--- range mapper is traced, bounds are symbols (symbol.lua): what is done here
--- with a bound must work for both, so nothing compares one.
local place = require "celer.place"
local symbol = require "celer.symbol"
local words = require "celer.words"

local M = {}

-- min, max and size, also of a buffer: indexed from 0; a dimension that is not there is a
-- mistake, not nil.
local Coordinates = { __noun = "table that counts from 0" }

function Coordinates.__index(self, d)
  if symbol.is_symbol(d) then symbol.refuse("it indexes with a captured number") end
  local dims = 0
  while type(rawget(self, dims)) ~= "nil" do dims = dims + 1 end
  place.fail("there is no dimension %s here: the dimensions are %s", tostring(d),
    dims == 0 and "none" or dims == 1 and "0 alone" or ("0 to %d"):format(dims - 1))
end

local function coordinates(a, b, c)
  return setmetatable({ [0] = a, b, c }, Coordinates)
end
M.coordinates = coordinates

--- The same, indexed from 1.
---@param self table<integer, integer>
---@return integer[]
function M.list(self) return { rawget(self, 0), rawget(self, 1), rawget(self, 2) } end
local as_list = M.list

function Coordinates:__tostring()
  local list = as_list(self)
  for d = 1, #list do list[d] = tostring(list[d]) end
  return "(" .. table.concat(list, ", ") .. ")"
end

function M.is_coordinates(value) return getmetatable(value) == Coordinates end

function Coordinates.__capture(self)
  return { __coordinates = as_list(self) }
end

---@class celer.box
---@field dims integer
---@field min table<integer, integer>  indexed from 0
---@field max table<integer, integer>
---@field size table<integer, integer>
---@field clamp? boolean  may leave the buffer; what is outside is cut off
local Box = {}

---@class celer.chunk: celer.box
---@field global table<integer, integer>  extents of the whole range
local Chunk = {}

local function size_of(self)
  local size = coordinates()
  for d = 0, self.dims - 1 do size[d] = self.max[d] - self.min[d] end
  return size
end

-- Of the part of a task that has more.
local elsewhere = {
  comm = ": it is there in collective tasks, cg:host_task(celer.collective(), ...)",
  kept = ": it is there in collective tasks and in interop tasks",
  stream = ": it is there in interop tasks",
  device = ": it is there in interop tasks",
}

local function index(class)
  return function(self, name)
    if name == "size" then return size_of(self) end
    local method = class[name] or Box[name]
    if method == nil and name ~= "clamp" then
      place.fail("a %s has no field '%s'%s", class.__noun, tostring(name),
        class == Chunk and elsewhere[name] or "")
    end
    return method
  end
end

Box.__noun, Chunk.__noun = "box", "chunk"
Box.__index, Chunk.__index = index(Box), index(Chunk)

local function make(dims, a, b, c, d, e, f, clamp)
  if dims < 3 then c, f = nil, nil end
  if dims < 2 then b, e = nil, nil end
  if dims < 1 then a, d = nil, nil end
  return setmetatable({ dims = dims, min = setmetatable({ [0] = a, b, c }, Coordinates),
    max = setmetatable({ [0] = d, e, f }, Coordinates), clamp = clamp }, Box)
end

--- A box of `dims` dimensions from its bounds: three of min, three of max.
M.make = make

local function is_whole(x)
  return type(x) == "number" and x % 1 == 0 or symbol.is_symbol(x)
end

-- Whether it is a plain table of whole numbers, as most are; how many.
local function plain_length(bounds)
  if type(bounds) ~= "table" or getmetatable(bounds) then return nil end
  local n = #bounds
  if n > 3 then return nil end
  for d = 1, n do
    local x = bounds[d]
    if type(x) ~= "number" or x % 1 ~= 0 then return nil end
  end
  return n
end

local function list(bounds, which)
  if type(bounds) ~= "table" then bounds = { bounds } end
  if M.is_box(bounds) or #bounds > 3 then
    place.fail("celer.box: %s must be a table of at most 3 whole numbers", which)
  end
  for d = 1, #bounds do
    if not is_whole(bounds[d]) then
      place.fail("celer.box: bound %d of %s is %s, not a whole number", d, which,
        tostring(bounds[d]))
    end
  end
  return bounds
end

--- The coordinates from `lo` up to, and without, `hi`.
---@param lo integer[]
---@param hi integer[]
---@return celer.box
function M.new(lo, hi)
  local n = plain_length(lo)
  if n and n == plain_length(hi) then
    return make(n, lo[1], lo[2], lo[3], hi[1], hi[2], hi[3])
  end
  lo, hi = list(lo, "the lower corner"), list(hi, "the upper corner")
  if #lo ~= #hi then
    place.fail("celer.box: the lower corner has %s, the upper has %d",
      words.count(#lo, "dimension"), #hi)
  end
  return make(#lo, lo[1], lo[2], lo[3], hi[1], hi[2], hi[3])
end

--- Whether `value` is a box or a chunk.
function M.is_box(value)
  if type(value) ~= "table" then return false end
  local class = getmetatable(value)
  return class == Box or class == Chunk
end

--- Whether it is the chunk of a mapper or task.
function M.is_chunk(value) return type(value) == "table" and getmetatable(value) == Chunk end

--- What is_box knows boxes by, for the core.
---@return table box, table chunk  metatables
function M.classes() return Box, Chunk end

--- Lower and upper bounds as two new tables, indexed from 1.
---@param box celer.box
---@return integer[] lo, integer[] hi
function M.bounds(box)
  local lo, hi = {}, {}
  for d = 1, box.dims do lo[d], hi[d] = box.min[d - 1], box.max[d - 1] end
  return lo, hi
end

--- All of a buffer, or of anything that has `dims` and `size`.
function M.whole(buffer)
  local size = buffer.size
  local n = buffer.dims
  return make(n, 0, 0, 0, n > 0 and size[0] or nil, n > 1 and size[1] or nil,
    n > 2 and size[2] or nil)
end

local Shape = {}

function Shape.__index(_, name)
  place.fail("the buffer of a range mapper has size and dims, no '%s'",
    tostring(name))
end

--- What a mapper is told of its buffer: dimensions and extents.
---@return {dims: integer, size: table<integer, integer>}
function M.shape(dims, a, b, c)
  if dims < 3 then c = nil end
  if dims < 2 then b = nil end
  if dims < 1 then a = nil end
  return setmetatable({ dims = dims, size = coordinates(a, b, c) }, Shape)
end

--- A chunk from six bounds, in a range with these three extents; with the rank and how
--- many there are where it is a task's.
---@return celer.chunk
function M.chunk(dims, a, b, c, d, e, f, g, h, i, rank, ranks)
  if dims < 3 then c, f, i = nil, nil, nil end
  if dims < 2 then b, e, h = nil, nil, nil end
  if dims < 1 then a, d, g = nil, nil, nil end
  return setmetatable({ dims = dims, min = setmetatable({ [0] = a, b, c }, Coordinates),
    max = setmetatable({ [0] = d, e, f }, Coordinates),
    global = setmetatable({ [0] = g, h, i }, Coordinates), rank = rank, ranks = ranks }, Chunk)
end

--- Grows the box on both sides, by one extent per dimension. What leaves the
--- buffer is cut off.
---@param ... integer
---@return celer.box
function Box:grow(...)
  local n = select("#", ...)
  if n ~= self.dims then
    place.fail("grow takes one extent per dimension: %d, not %d", self.dims, n)
  end
  for d = 1, n do
    local by = (select(d, ...))
    if not is_whole(by) then
      place.fail("grow: extent %d is %s, not a whole number", d, tostring(by))
    end
  end
  local min, max, a, b, c = self.min, self.max, ...
  if n == 0 then return make(0, nil, nil, nil, nil, nil, nil, true) end
  return make(n, min[0] - a, n > 1 and min[1] - b, n > 2 and min[2] - c, max[0] + a,
    n > 1 and max[1] + b, n > 2 and max[2] + c, true)
end

--- The same box but [lo, hi) in dimension `dim`.
---@param dim integer  from 0
---@param lo integer
---@param hi integer
---@return celer.box
function Box:with(dim, lo, hi)
  local min, max = M.bounds(self)
  local _ = self.min[dim] -- raises where there is no such dimension
  min[dim + 1], max[dim + 1] = lo, hi
  local box = M.new(min, max)
  box.clamp = self.clamp
  return box
end

--- The same box, of which only what lies in the buffer counts.
---@return celer.box
function Box:clamped()
  local min, max = M.bounds(self)
  local box = M.new(min, max)
  box.clamp = true
  return box
end

function Box:__tostring()
  local parts = {}
  for d = 0, self.dims - 1 do
    parts[d + 1] = ("[%s, %s)"):format(self.min[d] + 0, self.max[d] + 0) -- no -0
  end
  return self.dims == 0 and "[]" or table.concat(parts, " x ")
end

--- Equal bounds; clamping does not count.
function Box:__eq(other)
  if self.dims ~= other.dims then return false end
  for d = 0, self.dims - 1 do
    if self.min[d] ~= other.min[d] or self.max[d] ~= other.max[d] then
      return false
    end
  end
  return true
end

--- A host task that captures a box gets a copy.
function Box.__capture(self)
  local lo, hi = M.bounds(self)
  return { __box = { lo, hi } }
end

Chunk.__tostring, Chunk.__eq = Box.__tostring, Box.__eq
Chunk.__capture = Box.__capture

return M
