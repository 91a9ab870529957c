--- view.lua -- part of a buffer as Lua sees it: in host tasks and snapshots.
---
--- Coordinates are the buffer's own, 0-based. Reading and writing are checked
--- against the part that was promised, and what is read for NaNs that are no Lua
--- values; what is done by `:pointer()` is not.
local ffi = require "ffi"
local box = require "celer.box"
local core = require "celer.core"
local place = require "celer.place"
local reals = require "celer.data.reals"
local types = require "celer.data.types"
local words = require "celer.words"

local abs = math.abs

---@class celer.view
---@overload fun(i?: integer, j?: integer, k?: integer): any
---@field [integer] any  of one dimension
---@field name string  the buffer's, for messages
---@field dims integer
---@field type celer.type
---@field min table<integer, integer>  first coordinates, indexed from 0
---@field max table<integer, integer>  one past the last
---@field size table<integer, integer>
---@field shape integer[]  the same, indexed from 1
local View = {}
local M = { View = View }

-- Of the class, which is both, "view".
function View.__noun(self)
  return self.type and self.writable == nil and "snapshot" or "view"
end

-- Pointers to elements, by type: asking for one parses its name.
local pointers = setmetatable({}, { __mode = "k" })

local function pointer_to(type_)
  local found = pointers[type_]
  if not found then
    found = ffi.typeof("$ *", type_.ctype)
    pointers[type_] = found
  end
  return found
end

local is_boxed = { ["ctype<int64_t>"] = true, ["ctype<uint64_t>"] = true }

local function is_number(x)
  return type(x) == "number"
    or (type(x) == "cdata" and is_boxed[tostring(ffi.typeof(x))])
end

local offset

-- What is no plain element: raises, but for 64-bit integers; nil for what is
-- outside, where `celer check` looks.
local function misplaced(self, i, j, k)
  local at, n = { i, j, k }, 0
  for d = 1, 3 do
    if at[d] ~= nil then n = d end
  end
  if n ~= self.dims then
    place.fail("%s: an element has %s, not %d", self.name,
      words.count(self.dims, "coordinate"), n)
  end
  local boxed, said = false, {}
  for d = 1, n do
    boxed = boxed or type(at[d]) == "cdata"
    said[d] = tostring(at[d])
    if not is_number(at[d]) or (type(at[d]) == "number" and at[d] % 1 ~= 0) then
      place.fail("%s: coordinate %d is %s, not a whole number", self.name, d - 1,
        is_number(at[d]) and said[d] or "a " .. type(at[d]))
    end
    at[d] = tonumber(at[d])
  end
  if boxed then return offset(self, unpack(at)) end
  if self.marks then
    core.touch_outside(self.marks, at[1] or 0, at[2] or 0, at[3] or 0)
    return nil
  end
  place.fail("%s: element (%s) is outside %s, which is what %s", self.name,
    table.concat(said, ", "), tostring(self.box), self.writable ~= nil
      and "this task declared" or "the snapshot holds")
end

-- Where an element is from self.data on, in elements. A coordinate is less than half the
-- part's extent away from its middle: one comparison, where two would be a fifth of the
-- time of a loop that LuaJIT compiles. It is exact below 2^52.
function offset(self, i, j, k)
  local dims = self.dims
  if dims == 1 then
    if type(i) == "number" and abs(i - self.m0) < self.r0 and i % 1 == 0 and j == nil then
      return i
    end
  elseif dims == 2 then
    if type(i) == "number" and abs(i - self.m0) < self.r0 and i % 1 == 0
      and type(j) == "number" and abs(j - self.m1) < self.r1 and j % 1 == 0 and k == nil then
      return i * self.s0 + j
    end
  elseif dims == 3 then
    if type(i) == "number" and abs(i - self.m0) < self.r0 and i % 1 == 0
      and type(j) == "number" and abs(j - self.m1) < self.r1 and j % 1 == 0
      and type(k) == "number" and abs(k - self.m2) < self.r2 and k % 1 == 0 then
      return i * self.s0 + j * self.s1 + k
    end
  elseif i == nil and self.l0 < self.h0 then
    return 0
  end
  return misplaced(self, i, j, k)
end

--- What is done with a view's memory cannot be seen: it may be all.
function M.touch(self)
  if self.marks then core.touch_all(self.marks) end
end

-- For `celer check`: marks an element. What was not promised is not carried out,
-- but reads 0, and is written nowhere.
local function marked(self, at)
  if at and core.touch(self.marks, at - self.first) then return self.data, at end
  return ffi.new(ffi.typeof("$[1]", self.type.ctype)), 0
end

local function get(self, at)
  if self.marks then
    local data, here = marked(self, at)
    return reals.load(self.type, data, here)
  end
  local is_odd = self.is_odd
  if is_odd and is_odd(self.bits, at) then return reals.tamed(self.type, self.data, at) end
  local value = self.data[at]
  if self.is_struct then return self.type.ctype(value) end -- not a reference
  return value
end

--- One element: v(i, j) in two dimensions. A struct is a copy.
function View:__call(i, j, k) return get(self, offset(self, i, j, k)) end

local function put(self, at, value)
  local data = self.data
  if self.marks then data, at = marked(self, at) end
  local fault = types.store(self.type, data, at, value)
  if fault then place.fail("%s: %s", self.name, fault) end
end

--- Writes one element: v:set(i, j, value) in two dimensions.
---@param ... any  as many coordinates as there are dimensions, and the value
function View:set(...)
  place.method(self, View, "view:set")
  if not self.writable then
    if self.writable == nil then
      place.fail("%s is a copy, which is not written", self.name)
    end
    place.fail("%s is only read by this task; declare it with cg:discard_write, "
      .. "cg:write or cg:read_write", self.name)
  end
  local n, dims, i, j, k = select("#", ...), self.dims, ...
  if n ~= dims + 1 then
    place.fail("%s:set takes %d coordinates and a value; got %d arguments",
      self.name, dims, n)
  end
  if dims == 1 then put(self, offset(self, i), j)
  elseif dims == 2 then put(self, offset(self, i, j), k)
  elseif dims == 3 then put(self, offset(self, i, j, k), (select(4, ...)))
  else put(self, offset(self), i) end
end

--- What view:pointer gives, of views of any class.
function M.pointer(self)
  M.touch(self)
  local at = self.first
  if self.l0 < self.h0 then at = self.l0 * self.s0 + self.l1 * self.s1 + self.l2 end
  local p, dims = self.data + at, self.dims
  if not self.writable then
    p = ffi.cast(ffi.typeof("const $ *", self.type.ctype), p)
  end
  if dims == 1 then return p, 1 end
  if dims == 2 then return p, self.s0, 1 end
  if dims == 3 then return p, self.s0, self.s1, 1 end
  return p
end

--- A pointer to the first element of the part, and the distance, in elements,
--- from one to the next along each dimension. Nothing checks what is done with
--- it: a NaN that is read by it may be any Lua value, so read numbers by v(i, j).
--- It is good as long as the task runs, or the snapshot lives.
---@return ffi.cdata* pointer, integer? ...  distances
function View:pointer()
  place.method(self, View, "view:pointer")
  return M.pointer(self)
end

---@class celer.window
---@field pointer ffi.cdata*  the allocation's first element
---@field buffer celer.box  all of the buffer
---@field allocation celer.box  what lies in memory, row by row without gaps
---@field part celer.box  what was promised; the rest of the allocation is not ours

--- What view:window gives, of views of any class.
function M.window(self)
  M.touch(self)
  local e = self.extents
  local p = self.data + self.first
  if not self.writable then
    p = ffi.cast(ffi.typeof("const $ *", self.type.ctype), p)
  end
  return { pointer = p, buffer = box.make(self.dims, 0, 0, 0, e[1], e[2], e[3]),
    allocation = box.make(self.dims, unpack(self.layout)), part = self.box }
end

--- Where the part lies in memory: element (i, j) is
--- w.pointer[(i - w.allocation.min[0]) * w.allocation.size[1]
---   + j - w.allocation.min[1]]. As long and as unchecked as view:pointer.
---@return celer.window
function View:window()
  place.method(self, View, "view:window")
  return M.window(self)
end

--- The elements of the part as bytes, row by row without gaps.
---@return string
function View:string()
  place.method(self, View, "view:string")
  local rows, n, dims = {}, self.type.size, self.dims
  M.touch(self)
  if dims == 1 then n = n * (self.h0 - self.l0) end
  if dims == 2 then n = n * (self.h1 - self.l1) end
  if dims == 3 then n = n * (self.h2 - self.l2) end
  if n == 0 then return "" end
  for i = self.l0, dims > 1 and self.h0 - 1 or self.l0 do
    for j = self.l1, dims > 2 and self.h1 - 1 or self.l1 do
      rows[#rows + 1] = ffi.string(self.data + i * self.s0 + j * self.s1 + self.l2, n)
    end
  end
  return table.concat(rows)
end

function View:__index(key)
  if type(key) == "number" then
    if self.dims ~= 1 then
      place.fail("%s has %d dimensions: write v(i, j) to read, v:set(i, j, value) "
        .. "to write", self.name, self.dims)
    end
    return get(self, offset(self, key))
  elseif key == "size" then
    return self.box.size
  elseif key == "shape" then
    return box.list(self.box.size)
  end
  return View[key]
end

function View:__newindex(key, value)
  if type(key) ~= "number" or self.dims ~= 1 then
    place.fail("%s: write an element with :set, there is no field %s", self.name,
      tostring(key))
  end
  self:set(key, value)
end

local loops = { [0] = "it has one element, %s()", "%s(i) is one, for i from %s.min[0] to "
  .. "%s.max[0] - 1", "%s(i, j) is one, for i from %s.min[0] to %s.max[0] - 1 and so on",
  "%s(i, j, k) is one, for i from %s.min[0] to %s.max[0] - 1 and so on" }

function View:__pairs(call)
  place.fail("%s does not find the elements of %s: %s", call, self.name,
    (loops[self.dims]:gsub("%%s", "v")))
end

function View.__capture(self, refuse)
  refuse("a " .. self.name, "; a task that reads the buffer gets its contents")
end

function View:__tostring()
  return ("%s: %s %s"):format(self.name, self.type.name,
    self.dims == 0 and tostring(get(self, 0)) or tostring(self.box))
end

words.methods(View, { "name", "dims", "type", "min", "max", "shape", "size" })

function M.is_view(value) return getmetatable(value) == View end

--- Calls f with each element of the part, row by row.
---@param v celer.view
---@param f fun(value: any)
function M.each(v, f)
  for i = v.l0, v.h0 - 1 do
    for j = v.l1, v.h1 - 1 do
      for k = v.l2, v.h2 - 1 do f(get(v, i * v.s0 + j * v.s1 + k)) end
    end
  end
end

--- `fields` has name, dims, type, extents (the buffer's) and writable (nil for a
--- snapshot); `data` is an address; layout and part are six numbers each, min
--- then max.
---@return celer.view
function M.new(fields, data, layout, part)
  local s1 = layout[6] - layout[3]
  local s0 = (layout[5] - layout[2]) * s1
  local first = layout[1] * s0 + layout[2] * s1 + layout[3]
  local type_, dims = fields.type, fields.dims
  local l0, l1, l2, h0, h1, h2 = part[1], part[2], part[3], part[4], part[5], part[6]
  local whole = box.make(dims, l0, l1, l2, h0, h1, h2)
  -- Where element (0, 0, 0) would be, which may be outside of all memory.
  local zero = ffi.cast(pointer_to(type_), data) - first
  local test = reals.test(type_)
  -- All at once, so that the table is made in the size that it will have.
  return setmetatable({ name = fields.name, dims = dims, type = type_,
    extents = fields.extents, writable = fields.writable, anchor = fields.anchor,
    marks = fields.marks or false, data = zero, first = first,
    is_odd = test and test.is_odd, bits = test and ffi.cast(test.bits, zero),
    is_struct = type_.class == "s", s0 = s0, s1 = s1,
    l0 = l0, l1 = l1, l2 = l2, h0 = h0, h1 = h1, h2 = h2,
    m0 = (l0 + h0 - 1) / 2, m1 = (l1 + h1 - 1) / 2, m2 = (l2 + h2 - 1) / 2,
    r0 = (h0 - l0) / 2, r1 = (h1 - l1) / 2, r2 = (h2 - l2) / 2,
    layout = layout, box = whole, min = whole.min, max = whole.max }, View)
end

return M
