--- builtin.lua -- the built-in range mappers.
---
--- A range mapper is a pure function from a chunk of the work, and the buffer,
--- to the box (or boxes) of the buffer that the chunk touches. These are written
--- with what every user has; trace.lua compiles them as it does any other.
local box = require "celer.box"
local place = require "celer.place"
local symbol = require "celer.symbol"
local words = require "celer.words"

local make, new, whole = box.make, box.new, box.whole
local floor, least_of = symbol.floor, symbol.min
local fail = place.fail

--- What a chunk of the work touches of a buffer: a box, or several, or a table of
--- boxes.
---@alias celer.range_mapper fun(chunk: celer.chunk, buffer: celer.extents): ...

---@class celer.extents  of a buffer, as a range mapper sees it
---@field dims integer
---@field size table<integer, integer>  indexed from 0

local M = {
  --- Arithmetic for mappers; on plain numbers the same as math's.
  floor = symbol.floor,
  ceil = symbol.ceil,
  min = symbol.min,
  max = symbol.max,
  clamp = symbol.clamp,
}

-- Raises where the mapper was called in the place of being given, or was given to
-- what is not for tasks.
local function refuse_call(name, chunk)
  if type(chunk) == "nil" then
    fail("celer.%s is a range mapper already: write it without ()", name)
  elseif type(chunk) == "number" then
    fail("celer.%s is a range mapper, for accesses of tasks; a capture takes a celer.box, or "
      .. "a function of the rank that gives one", name)
  end
end
M.refuse_call = refuse_call -- known to closure.lua by that, as what does not change

local function same_dims(name, chunk, buffer, dim)
  refuse_call(name, chunk)
  if dim and dim >= chunk.dims then
    fail("celer.%s(%d): there is no dimension %d in an index space of %s; they "
      .. "count from 0", name, dim, dim, words.count(chunk.dims, "dimension"))
  elseif chunk.dims ~= buffer.dims then
    fail("celer.%s: the index space has %s and the buffer has %d; "
      .. "give a range mapper that leads from one to the other", name,
      words.count(chunk.dims, "dimension"), buffer.dims)
  end
end
M.same_dims = same_dims

--- Each item touches the element at its own coordinates.
---@param chunk celer.chunk
---@param buffer celer.extents
---@return celer.box
function M.one_to_one(chunk, buffer)
  same_dims("one_to_one", chunk, buffer)
  return chunk
end

--- Every chunk touches all of the buffer.
---@param chunk celer.chunk
---@param buffer celer.extents
---@return celer.box
function M.all(chunk, buffer)
  refuse_call("all", chunk)
  return whole(buffer)
end

--- Every chunk touches this box.
---@param part celer.box
---@return celer.range_mapper
function M.fixed(part)
  if not box.is_box(part) then
    fail("celer.fixed takes a celer.box, not a %s", type(part))
  end
  local dims, lo, hi = part.dims, box.bounds(part)
  local a, b, c, d, e, f = lo[1], lo[2], lo[3], hi[1], hi[2], hi[3]
  return function() return make(dims, a, b, c, d, e, f) end
end

local function one_by_rows(chunk, buffer)
  if chunk.dims == 1 and buffer.dims > 0 then return end
  fail("celer.even_split divides dimension 0 of a buffer among the items of an index "
    .. "space of one dimension; here the index space has %d and the buffer %d",
    chunk.dims, buffer.dims)
end
M.one_by_rows = one_by_rows

--- For tasks of every rank: rows of the buffer, which go to the ranks as the items
--- of an index space of as many do where all ranks have one weight; so a rank
--- touches what it computed. Where the ranks divide the rows it is in closed form,
--- else listed once, rank by rank.
---@param chunk celer.chunk
---@param buffer celer.extents
---@return celer.box
function M.even_split(chunk, buffer)
  refuse_call("even_split", chunk)
  one_by_rows(chunk, buffer)
  local rows, items = buffer.size[0], chunk.global[0]
  local least = floor(rows / items)
  local longer = rows - least * items
  local function at(i) return least * i + least_of(i, longer) end
  return whole(buffer):with(0, at(chunk.min[0]), at(chunk.max[0]))
end

local function check_entries(chunk, buffer)
  if chunk.dims == buffer.dims or chunk.dims == 1 and buffer.dims > 0 then return end
  fail("celer.image: the index space has %s and the index %d; say by `of` which part of the "
    .. "index a chunk has", words.count(chunk.dims, "dimension"), buffer.dims)
end
M.check_entries = check_entries

--- Of an index that says what is read: the entries at the chunk's own coordinates, or those of
--- the rows that it counts.
---@param chunk celer.chunk
---@param buffer celer.extents
---@return celer.box
function M.entries(chunk, buffer)
  check_entries(chunk, buffer)
  if chunk.dims == buffer.dims then return chunk end
  return whole(buffer):with(0, chunk.min[0], chunk.max[0])
end

--- What a mapper gives, and one row more.
---@param of celer.range_mapper
---@return celer.range_mapper
function M.with_end(of)
  return function(chunk, buffer)
    local part = of(chunk, buffer)
    return part:with(0, part.min[0], part.max[0] + 1)
  end
end

--- The mappers that submit/image.lua has made, with what it knows of them: that module is loaded
--- with the first one.
---@type table<celer.range_mapper, celer.image>
M.images = setmetatable({}, { __mode = "k" })

--- A mapper of its own each time, for what reads all of a buffer and is told apart.
---@param name string
---@return celer.range_mapper
function M.another_all(name)
  return function(chunk, buffer)
    refuse_call(name, chunk)
    return whole(buffer)
  end
end

local function check_dim(name, dim)
  if type(dim) ~= "number" or dim % 1 ~= 0 or dim < 0 or dim > 2 then
    fail("celer.%s takes dimensions from 0, not %s", name, tostring(dim))
  end
end

--- The chunk's own coordinates, but all of the buffer along `dim`.
---@param dim integer
---@return celer.range_mapper
function M.slice(dim)
  check_dim("slice", dim)
  return function(chunk, buffer)
    same_dims("slice", chunk, buffer, dim)
    return chunk:with(dim, 0, buffer.size[dim])
  end
end

local function check_extents(extents)
  for d, n in ipairs(extents) do
    if type(n) ~= "number" or n % 1 ~= 0 or n < 0 then
      fail("celer.neighborhood: extent %d is %s, not a whole number of at least 0",
        d, tostring(n))
    end
  end
  if #extents < 1 or #extents > 3 then
    fail("celer.neighborhood takes 1 to 3 extents, one per dimension")
  end
end

-- Raises unless the index space has as many dimensions as the mapper was given numbers.
local function of_dims(chunk, n, name)
  refuse_call(name, chunk)
  if chunk.dims == n then return end
  fail("celer.%s has %s, and the index space %s: one is for each", name,
    words.count(n, "number"), words.count(chunk.dims, "dimension"))
end
M.of_dims = of_dims

local function around(a, b, c)
  if c then
    return function(chunk)
      of_dims(chunk, 3, "neighborhood")
      return chunk:grow(a, b, c)
    end
  elseif b then
    return function(chunk)
      of_dims(chunk, 2, "neighborhood")
      return chunk:grow(a, b)
    end
  end
  return function(chunk)
    of_dims(chunk, 1, "neighborhood")
    return chunk:grow(a)
  end
end

local function along(a, b, c)
  if c then
    return function(chunk)
      of_dims(chunk, 3, "neighborhood")
      return chunk:grow(a, 0, 0), chunk:grow(0, b, 0), chunk:grow(0, 0, c)
    end
  end
  if b then
    return function(chunk)
      of_dims(chunk, 2, "neighborhood")
      return chunk:grow(a, 0), chunk:grow(0, b)
    end
  end
  return around(a)
end

--- The chunk and what lies around it, up to an extent per dimension; what leaves
--- the buffer is cut off. Shapes: "bounding_box" (default) with the corners,
--- "along_axes" without them.
---@param ... integer|"bounding_box"|"along_axes"  extents, then the shape
---@return celer.range_mapper
function M.neighborhood(...)
  local extents, shape = { ... }, "bounding_box"
  if type(extents[#extents]) == "string" then
    shape = table.remove(extents)
  end
  check_extents(extents)
  if shape == "bounding_box" then return around(unpack(extents)) end
  if shape == "along_axes" then return along(unpack(extents)) end
  fail("celer.neighborhood: there is no shape '%s'; there are bounding_box and "
    .. "along_axes", shape)
end

-- ---- edges --------------------------------------------------------------------

--- What an index means that leaves the buffer: how a kernel's near<T, D> is read.
---@class celer.edge
---@field kind "periodic"|"clamped"|"mirrored"|"constant"
---@field reach integer[]  per dimension, how far indices lead from their items
---@field value any  constant: what is read outside
---@field dims? integer  that the buffer has; nil: any
---@field along_axes? boolean  indices differ from their item in one dimension

local edges = setmetatable({}, { __mode = "k" }) -- mapper -> celer.edge
local made = setmetatable({}, { __mode = "v" })  -- by name and numbers: one mapper each

--- The edge that a mapper was made for; nil for all other mappers.
---@param map celer.range_mapper
---@return celer.edge?
function M.edge(map) return edges[map] end

-- What an edge's mapper is asked about: with one number any index space will do.
local fits = { same_dims }
for n = 2, 3 do
  fits[n] = function(name, chunk, buffer)
    of_dims(chunk, n, name)
    same_dims(name, chunk, buffer)
  end
end

local function moved(x, by, size)
  if by == 0 then return x end
  return by < 0 and x - size or x + size
end

-- The chunk and what lies around it, with all that comes back on the other side: moved
-- by one extent back, not at all, and by one on, in dimension `axis`, or (nil) in each.
-- That is enough for any reach: from an extent less one on, what was not moved covers
-- the buffer.
local function wrapped(chunk, buffer, a, b, c, axis)
  local n, lo, hi, size, boxes = chunk.dims, chunk.min, chunk.max, buffer.size, {}
  local function most(d) return d < n and (axis or d) == d and 1 or 0 end
  local i1, j1, k1 = most(0), most(1), most(2)
  for i = -i1, i1 do
    for j = -j1, j1 do
      for k = -k1, k1 do
        boxes[#boxes + 1] = make(n, moved(lo[0] - a, i, size[0]),
          n > 1 and moved(lo[1] - b, j, size[1]), n > 2 and moved(lo[2] - c, k, size[2]),
          moved(hi[0] + a, i, size[0]), n > 1 and moved(hi[1] + b, j, size[1]),
          n > 2 and moved(hi[2] + c, k, size[2]), true)
      end
    end
  end
  return boxes
end

local function grown(chunk, _, a, b, c)
  if chunk.dims == 1 then return { chunk:grow(a) } end
  if chunk.dims == 2 then return { chunk:grow(a, b) } end
  return { chunk:grow(a, b, c) }
end

-- What `boxes_of` gives along each axis alone.
local function on_axes(boxes_of)
  return function(chunk, buffer, a, b, c)
    local boxes = {}
    for d = 0, chunk.dims - 1 do
      local some = boxes_of(chunk, buffer, d == 0 and a or 0, d == 1 and b or 0,
        d == 2 and c or 0, d)
      for i = 1, #some do boxes[#boxes + 1] = some[i] end
    end
    return boxes
  end
end

local shapes = { bounding_box = { [true] = wrapped, [false] = grown },
  along_axes = { [true] = on_axes(wrapped), [false] = on_axes(grown) } }

local function check_reach(name, reach, shape)
  for d, n in ipairs(reach) do
    if type(n) == "table" and not getmetatable(n) then
      fail("celer.%s: how far a kernel reads is one number for each dimension, not a table: "
        .. "celer.%s(u, 1, 1)", name, name)
    elseif type(n) == "table" then
      fail("celer.%s: what a kernel is given is a buffer, not %s: celer.array(expression) makes "
        .. "one", name, words.a(n))
    elseif type(n) ~= "number" or n % 1 ~= 0 or n < 0 then
      fail("celer.%s: number %d is %s; how far a kernel reads from its item is a whole number "
        .. "of at least 0", name, d, tostring(n))
    end
  end
  if #reach < 1 or #reach > 3 then
    fail("celer.%s takes one number, how far a kernel reads from its item, or one for each of "
      .. "1 to 3 dimensions", name)
  elseif not shapes[shape] then
    fail("celer.%s: there is no shape '%s'; there are bounding_box and along_axes", name, shape)
  end
end

-- What mappers of one edge have in common; nil where a value is compared with nothing.
local function edge_key(name, value, shape, reach)
  local kind = type(value)
  if value ~= value or value ~= nil and kind ~= "number" and kind ~= "boolean" then return nil end
  local text = kind == "number" and ("%.17g"):format(value) or tostring(value)
  return ("%s %s %s %s"):format(name, text, shape, table.concat(reach, " "))
end

-- The mapper of an edge, which reads as far as these numbers say, and the shape.
local function edge_mapper(name, value, ...)
  local reach, shape = { ... }, "bounding_box"
  if type(reach[#reach]) == "string" then shape = table.remove(reach) end
  check_reach(name, reach, shape)
  local key = edge_key(name, value, shape, reach)
  if key and made[key] then return made[key] end
  local boxes_of, fit = shapes[shape][name == "periodic"], fits[#reach]
  local a, b, c = reach[1], reach[2] or reach[1], reach[3] or reach[1]
  local function map(chunk, buffer)
    fit(name, chunk, buffer)
    return boxes_of(chunk, buffer, a, b, c)
  end
  edges[map] = { kind = name, reach = { a, b, c }, value = value, dims = #reach > 1 and #reach
    or nil, along_axes = shape == "along_axes" }
  if key then made[key] = map end
  return map
end

-- The same for a buffer: what a kernel written in Lua is given. How far it reads may be left
-- out.
local function edge_of(buffer, name, value, ...)
  local map = select("#", ...) > 0 and edge_mapper(name, value, ...) or nil
  return require("celer.kernel.from_lua.function").with_edge(buffer, map,
    { kind = name, value = value })
end

local function is_buffer(value) return type(value) == "table" and words.a(value) == "a buffer" end

--- The chunk and what lies around it, in a buffer whose sides meet: what leaves it on
--- one side comes back on the other. A kernel reads it by near<T, D>, u(i - 1, j). One
--- number is for all dimensions. Shapes as of celer.neighborhood. With a buffer in front it is
--- what a kernel written in Lua is given in the place of the buffer; celer then finds how far
--- the kernel reads, where no number says it.
---@param ... celer.buffer|integer|"bounding_box"|"along_axes"  how far, then the shape
---@return celer.range_mapper|celer.lua_access
function M.periodic(...)
  if is_buffer((...)) then return edge_of((...), "periodic", nil, select(2, ...)) end
  return edge_mapper("periodic", nil, ...)
end

--- The chunk and what lies around it; beyond the buffer near<T, D> reads the last element.
---@param ... celer.buffer|integer|"bounding_box"|"along_axes"  as of celer.periodic
---@return celer.range_mapper|celer.lua_access
function M.clamped(...)
  if is_buffer((...)) then return edge_of((...), "clamped", nil, select(2, ...)) end
  return edge_mapper("clamped", nil, ...)
end

--- The chunk and what lies around it; beyond the buffer near<T, D> reads its mirror image,
--- the last element first: index -1 is 0, and -2 is 1.
---@param ... celer.buffer|integer|"bounding_box"|"along_axes"  as of celer.periodic
---@return celer.range_mapper|celer.lua_access
function M.mirrored(...)
  if is_buffer((...)) then return edge_of((...), "mirrored", nil, select(2, ...)) end
  return edge_mapper("mirrored", nil, ...)
end

--- The chunk and what lies around it; beyond the buffer near<T, D> reads the value.
---@param value any  an element: a number, or a table or struct where the buffer has such; or a
--- buffer, and then the element
---@param ... integer|"bounding_box"|"along_axes"  how far, then the shape, as of celer.periodic
---@return celer.range_mapper|celer.lua_access
function M.constant(value, ...)
  if is_buffer(value) and (...) ~= nil then
    return edge_of(value, "constant", (...), select(2, ...))
  elseif value == nil or is_buffer(value) then
    fail("celer.constant takes what is read outside of the buffer, then how far a kernel reads "
      .. "from its item: celer.constant(0, 1)")
  end
  return edge_mapper("constant", value, ...)
end

local function check_permutation(p)
  local seen = {}
  for _, d in ipairs(p) do
    check_dim("transposed", d)
    if d >= #p or seen[d] then
      fail("celer.transposed takes each dimension from 0 to %d once", #p - 1)
    end
    seen[d] = true
  end
  if #p < 1 or #p > 3 then fail("celer.transposed takes 1 to 3 dimensions") end
end

--- Dimension j of the buffer is dimension permutation[j] of the chunk:
--- celer.transposed(1, 0).
---@param ... integer
---@return celer.range_mapper
function M.transposed(...)
  local p = { ... }
  check_permutation(p)
  local a, b, c = p[1], p[2], p[3]
  return function(chunk, buffer)
    same_dims("transposed", chunk, buffer)
    of_dims(chunk, c and 3 or b and 2 or 1, "transposed")
    local lo, hi = chunk.min, chunk.max
    if c then return new({ lo[a], lo[b], lo[c] }, { hi[a], hi[b], hi[c] }) end
    if b then return new({ lo[a], lo[b] }, { hi[a], hi[b] }) end
    return new({ lo[a] }, { hi[a] })
  end
end

-- What makes range mappers, and is none; with how it is called.
local makers = { [M.fixed] = "fixed(box)", [M.slice] = "slice(0)",
  [M.neighborhood] = "neighborhood(1)", [M.transposed] = "transposed(1, 0)",
  [M.periodic] = "periodic(1)", [M.clamped] = "clamped(1)", [M.mirrored] = "mirrored(1)",
  [M.constant] = "constant(0, 1)" }
M.makers = makers

--- Raises for what only makes range mappers: its parentheses were forgotten.
---@param call string  what it was given to
---@param map any
function M.refuse_maker(call, map)
  local usage = makers[map]
  if not usage then return end
  fail("%s: celer.%s makes a range mapper: write celer.%s", call, usage:match "%w+", usage)
end

return M
