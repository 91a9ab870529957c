--- arrays.lua -- what random functions are given: buffers, and what stands for them where the
--- interpreter and the reference evaluator run the same function.
local celer = require "celer"
local kinds = require "kinds"

local M = {}

--- Extents of arrays, by the dimensions of the range.
M.extents = { [0] = { 32 }, { 32 }, { 6, 7 }, { 3, 4, 5 } }

--- What e holds beyond its edges, by what it is given as.
M.edges = { "periodic", "clamped", "mirrored", "constant" }
M.OUTSIDE = -2.5

--- Parameters of functions behind the coordinates: arrays, then c, and those of no dimension.
M.order = { "u", "w", "g", "b", "e", "v", "h", "o", "r" }
M.scalars = { { "s", "double", -0.6875 }, { "z", "int", 3 }, { "y", "float", 1.625 } }

--- And behind these, of a range of no dimensions, what it sets.
M.set = { "a", "d", "f" }

local body = celer.struct("celer_random_body", "float x; double y; uint32_t n; float2 z;")
local fields = { x = "float", y = "double", n = "uint32_t", ["z.x"] = "float", ["z.y"] = "float" }

---@class random.array
---@field type string
---@field types? table<string, string>  of the fields of structs
---@field at table<string, fun(k: integer): number>  contents, by field
---@field written? boolean

local function wave(k)
  local x = math.sin(k * 1.7) * 3
  return k % 7 == 0 and math.floor(x) or x
end

local function float_wave(k) return kinds.round(wave(k + 3)) end

-- Small, and as small and as large as they come.
local ends = { [5] = -2 ^ 31, [11] = 2 ^ 31 - 1, [17] = 2 ^ 30 + 1, [23] = -2 ^ 31 + 1 }
local function whole(k) return ends[k] or (k * 5) % 11 - 4 end

-- Without a sign.
local function count(k) return k % 5 == 1 and 2 ^ 32 - k or k % 5 end

local struct = { x = float_wave, y = wave, n = count,
  ["z.x"] = function(k) return kinds.round(k * 0.1) end, ["z.y"] = function(k) return -k end }

---@type table<string, random.array>
M.arrays = {
  u = { type = "double", at = { [""] = wave } },
  g = { type = "float", at = { [""] = float_wave } },
  w = { type = "int", at = { [""] = whole } },
  b = { type = "celer_random_body", types = fields, at = struct },
  e = { type = "double", at = { [""] = wave } },
  v = { type = "double", at = { [""] = function(k) return 0.1 * k - 1 end }, written = true },
  h = { type = "float", at = { [""] = float_wave }, written = true },
  o = { type = "int", at = { [""] = function(k) return k - 7 end }, written = true },
  r = { type = "celer_random_body", types = fields, at = struct, written = true },
  a = { type = "double", at = { [""] = function() return 0.3 end }, written = true, scalar = true },
  d = { type = "float", at = { [""] = function() return 1.5 end }, written = true, scalar = true },
  f = { type = "int", at = { [""] = function() return 7 end }, written = true, scalar = true },
}

--- Those of a range, with their extents, and which arguments they are.
---@param dims integer
---@return {name: string, extents: integer[], number: integer}[]
function M.of(dims)
  local out = {}
  for k, name in ipairs(M.order) do
    out[k] = { name = name, extents = M.extents[dims], number = k }
  end
  for k, name in ipairs(dims == 0 and M.set or {}) do
    out[#M.order + k] = { name = name, extents = {}, number = #M.order + 1 + #M.scalars + k }
  end
  return out
end

local function flat(extents, index)
  local k = 0
  for d = 1, #extents do
    local at, n = index[d], extents[d]
    if type(at) ~= "number" or at % 1 ~= 0 or at < 0 or at >= n then
      error(("index %s of dimension %d"):format(tostring(at), d - 1), 0)
    end
    k = k * n + at
  end
  return k
end

local function value_of(array, k)
  if not array.types then return array.at[""](k) end
  local at = array.at
  return { x = at.x(k), y = at.y(k), n = at.n(k), z = { x = at["z.x"](k), y = at["z.y"](k) } }
end

--- A buffer of a name.
function M.buffer(name, dims)
  local array, init = M.arrays[name], {}
  local extents = array.scalar and {} or M.extents[dims]
  local size = 1
  for _, n in ipairs(extents) do size = size * n end
  for k = 0, size - 1 do init[k + 1] = value_of(array, k) end
  return celer.buffer(array.types and body or array.type, extents, { name = name,
    init = array.scalar and init[1] or init })
end

-- Where an index beyond the edges leads; nil for what a constant stands for.
local inside = {
  periodic = function(i, n) return i % n end,
  clamped = function(i, n) return math.max(0, math.min(i, n - 1)) end,
  mirrored = function(i, n) return i < 0 and -1 - i or i < n and i or 2 * n - 1 - i end,
  constant = function(i, n) return i >= 0 and i < n and i or nil end,
}

-- ---- one run of a function ----------------------------------------------------------------------

---@class random.data
---@field dims integer
---@field extents integer[]
---@field edge string
---@field item integer[]
---@field now integer  the item's number
---@field written table<string, table<string, table<integer, number>>>
---@field reads table<string, table<integer, table<integer, boolean>>>  by item: elements
---@field writes table<string, table<integer, table<integer, boolean>>>
---@field reach integer[]  how far e was read from its item
local Data = {}
Data.__index = Data

--- What a run of a function reads, and what it writes.
function M.new(dims, edge)
  local self = setmetatable({ dims = dims, extents = M.extents[dims], edge = edge, written = {},
    reads = {}, writes = {}, reach = {} }, Data)
  for name, array in pairs(M.arrays) do
    self.reads[name], self.writes[name] = {}, {}
    if array.written then
      self.written[name] = {}
      for field in pairs(array.at) do self.written[name][field] = {} end
    end
  end
  for d = 1, dims do self.reach[d] = 0 end
  return self
end

local function note(of, item, k)
  of[item] = of[item] or {}
  of[item][k] = true
end

--- An element, or a field of it, as the run finds it.
function Data:value(name, k, field)
  local written = self.written[name]
  local x = written and written[field][k]
  if x == nil then return M.arrays[name].at[field](k) end
  return x
end

function Data:read(name, index, field)
  if name == "e" and self.dims > 0 then
    local at = {}
    for d, n in ipairs(self.extents) do
      if type(index[d]) ~= "number" or index[d] % 1 ~= 0 then error("index of e", 0) end
      local far = math.abs(index[d] - self.item[d])
      if far > 5 then error("index of e", 0) end
      self.reach[d] = math.max(self.reach[d], far)
      at[d] = inside[self.edge](index[d], n)
      if not at[d] then return M.OUTSIDE end
    end
    index = at
  end
  local k = flat(M.arrays[name].scalar and {} or self.extents, index)
  note(self.reads[name], self.now, k)
  return self:value(name, k, field)
end

function Data:write(name, index, field, x)
  local k = flat(M.arrays[name].scalar and {} or self.extents, index)
  note(self.writes[name], self.now, k)
  self.written[name][field][k] = x
end

--- What the evaluator takes for an array: that of `now.data`.
---@param name string
---@param dims integer
---@param now {data: random.data}
---@return reference.array
function M.for_evaluator(name, dims, now)
  local array, size = M.arrays[name], {}
  local extents = array.scalar and {} or M.extents[dims]
  for d, n in ipairs(extents) do size[d - 1] = n end
  return { dims = #extents, is_set = array.scalar, type = array.type, types = array.types,
    size = size,
    read = function(index, field) return now.data:read(name, index, field) end,
    write = function(index, field, x) now.data:write(name, index, field, x) end }
end

-- An element of structs, or a struct in it.
local function struct_proxy(self, name, index, prefix)
  return setmetatable({ index = index }, {
    __index = function(_, field)
      if not fields[prefix .. field] then
        return struct_proxy(self, name, index, prefix .. field .. ".")
      end
      return self:read(name, index, prefix .. field)
    end,
    __newindex = function(_, field, x)
      self:write(name, index, prefix .. field, kinds.stored(fields[prefix .. field], x))
    end,
  })
end

--- What the interpreter takes for one.
function Data:for_interpreter(name)
  local array = M.arrays[name]
  local function element(index)
    if array.types then return struct_proxy(self, name, index, "") end
    return self:read(name, index, "")
  end
  local function store(index, x)
    if not array.types then return self:write(name, index, "", kinds.stored(array.type, x)) end
    for field, type_ in pairs(fields) do
      self:write(name, index, field, kinds.stored(type_, kinds.field_of(x, field)))
    end
  end
  local function level(before)
    local function behind(i)
      local index = { unpack(before) }
      index[#index + 1] = i
      return index
    end
    return setmetatable({}, {
      __index = function(_, i)
        if i == "size" then return { [0] = unpack(self.extents) } end
        local index = behind(i)
        return #index == #self.extents and element(index) or level(index)
      end,
      __newindex = function(_, i, x) store(behind(i), x) end,
      __call = function(_, ...) return element { ... } end,
    })
  end
  if array.scalar then
    return setmetatable({ set = function(_, x) store({}, x) end },
      { __call = function() return element {} end })
  end
  return level {}
end

--- Runs a function for each item, with these arguments behind the coordinates.
function Data:run(f, ...)
  local e = self.extents
  self.now = 0
  if self.dims == 0 then return f(...) end
  for i = 0, e[1] - 1 do
    for j = 0, (e[2] or 1) - 1 do
      for k = 0, (e[3] or 1) - 1 do
        self.item = { i, j, k }
        if self.dims == 1 then f(i, ...)
        elseif self.dims == 2 then f(i, j, ...)
        else f(i, j, k, ...) end
        self.now = self.now + 1
      end
    end
  end
end

return M
