--- buffer.lua -- dense, typed, virtual data that no rank holds all of.
local ffi = require "ffi"
local box = require "celer.box"
local capture = require "celer.host.capture"
local constant = require "celer.data.constant"
local core = require "celer.core"
local expression = require "celer.arrays.expression"
local extents_of = require "celer.extents"
local place = require "celer.place"
local spaces = require "celer.space"
local each = require("celer.tables").each
local types = require "celer.data.types"
local words = require "celer.words"

local fail, Expression = place.fail, expression.Expression

---@class celer.buffer : celer.expression
---@field type celer.type
---@field dims integer
---@field size table<integer, integer>  extents, indexed from 0
---@field extents integer[]  the same, indexed from 1
---@field shape integer[]  another name of that
---@field name string
local Buffer = {}
Buffer.__noun = "buffer"
local M = { Buffer = Buffer }

-- ---- initial contents -------------------------------------------------------

local function total_of(self)
  local total = 1
  for d = 0, self.dims - 1 do total = total * self.size[d] end
  return total
end

-- Raises unless the table has the elements 1 to n and nothing else.
local function check_length(self, value, n, path)
  local count = 0
  for key in each(value) do
    if type(key) ~= "number" or key < 1 or key > n or key % 1 ~= 0 then
      fail("buffer %s: init%s has an entry [%s]; it should have the elements 1 "
        .. "to %d", self.name, path, tostring(key), n)
    end
    count = count + 1
  end
  if count ~= n then
    fail("buffer %s: init%s has %d elements, the buffer has %d there", self.name,
      path, count, n)
  end
end

-- Copies a table of rows, one level per dimension; returns the next position.
local function copy_rows(self, value, dim, out, at, path)
  local n = self.size[dim]
  if type(value) ~= "table" then
    fail("buffer %s: init%s is %s, not a table of %d", self.name, path,
      words.a(value), n)
  end
  check_length(self, value, n, path)
  for i = 1, n do
    local here = ("%s[%d]"):format(path, i)
    if dim + 1 < self.dims then
      at = copy_rows(self, value[i], dim + 1, out, at, here)
    else
      local fault = types.store(self.type, out, at, value[i])
      if fault then fail("buffer %s: init%s: %s", self.name, here, fault) end
      at = at + 1
    end
  end
  return at
end

-- Whether a table is one of rows. A struct may be a table itself.
local function is_nested(self, value, total)
  if self.dims < 2 or type(value[1]) ~= "table" then return false end
  if self.type.class ~= "s" then return true end
  local inner = type(value[1][1])
  return #value ~= total or inner == "table" or inner == "cdata"
end

local function from_table(self, init, total)
  if is_nested(self, init, total) then
    local out = ffi.new(ffi.typeof("$[?]", self.type.ctype), total)
    copy_rows(self, init, 0, out, 0, "")
    return out
  end
  check_length(self, init, total, "")
  local out = ffi.new(ffi.typeof("$[?]", self.type.ctype), total)
  for i = 1, total do
    local fault = types.store(self.type, out, i - 1, init[i])
    if fault then fail("buffer %s: init[%d]: %s", self.name, i, fault) end
  end
  return out
end

local function from_cdata(self, init, total)
  if tostring(ffi.typeof(init)):find("[*&]") then
    fail("buffer %s: init is a pointer, which does not say how much it points "
      .. "to; give an array", self.name)
  elseif not types.is_made_of(self.type, init) then
    fail("buffer %s: init is a %s, the buffer holds %s", self.name,
      tostring(ffi.typeof(init)), self.type.name)
  end
  local n = ffi.sizeof(init) / self.type.size
  if n ~= total then
    fail("buffer %s: init has %d elements, the buffer has %d", self.name, n, total)
  end
  local out = ffi.new(ffi.typeof("$[?]", self.type.ctype), total)
  ffi.copy(out, init, total * self.type.size)
  return out
end

local function from_value(self, init)
  local out = ffi.new(ffi.typeof("$[1]", self.type.ctype))
  local fault = types.store(self.type, out, 0, init)
  if fault then fail("buffer %s: init: %s", self.name, fault) end
  return out
end

local Source = { __noun = "source" }

--- An `init` for our own modules: `f(part, to, argument)` is called in a lane to
--- fill the box `part`, six numbers, at the address `to`. It may read the file
--- `fd`, which from now on is the buffer's. `identity`: what ranks must agree on.
function M.source(f, argument, fd, identity)
  return setmetatable({ f = f, argument = argument, fd = fd, identity = identity }, Source)
end

-- Whether it is what each element has: a number, a boolean, or a struct by its
-- fields' names.
local function is_value(self, init)
  local kind = type(init)
  return kind == "number" or kind == "boolean"
    or kind == "table" and not getmetatable(init) and self.type.class == "s"
      and type((next(init))) == "string"
    or kind == "cdata" and self.type.class == "s" and not tostring(ffi.typeof(init)):find "[%[*&]"
end

-- The core's init kind and init for what the user gave, and what ranks must agree
-- on of an encoded one.
local function prepare_init(self, init)
  local kind = type(init)
  if self.dims > 0 and is_value(self, init) then
    local bytes = ffi.string(from_value(self, init), self.type.size)
    init = M.source(constant.fill, bytes, nil, "each\0" .. bytes)
  end
  if kind == "nil" then return nil, nil end
  if getmetatable(init) == Source then
    return "lua", (capture.encode(init.f, "the source of " .. self.name,
      { n = 1, init.argument }, { bulk = true })), init.identity, init.fd
  end
  if kind == "function" then
    return "lua", capture.encode(init, "the init function of " .. self.name, nil,
      { type = self.type.name, dims = self.dims, name = self.name })
  end
  local is_array = kind == "cdata" and tostring(ffi.typeof(init)):find("[%[*]")
  if self.dims == 0 and not is_array then return "data", from_value(self, init) end
  if kind == "table" then return "data", from_table(self, init, total_of(self)) end
  if kind == "cdata" then return "data", from_cdata(self, init, total_of(self)) end
  fail("buffer %s: init must be a number, a table, an array of the FFI or a function, "
    .. "not %s", self.name, words.a(init))
end

-- ---- buffers ----------------------------------------------------------------

---@class celer.buffer_options
---@field name string?
---@field init table|ffi.cdata*|function|number|boolean|nil
---@field reserve boolean|celer.box|nil

local known_options = { name = true, init = true, reserve = true }

local function check_options(options)
  words.check_options("celer.buffer", options, known_options, '{name = "u"}')
  if options.name ~= nil then words.check_name("celer.buffer", options.name) end
end

local unnamed = 0

local function name_of(options)
  if options.name then return options.name end
  unnamed = unnamed + 1
  return ("buffer%d"):format(unnamed)
end

-- The bounds of what there is to be room for, if anything is.
local function reserved(self, reserve)
  if not reserve then return end
  local part = M.part(self, reserve ~= true and reserve or nil,
    "celer.buffer: reserve of " .. self.name)
  local lo, hi = box.bounds(part)
  return lo[1] or 0, lo[2] or 0, lo[3] or 0, hi[1] or 1, hi[2] or 1, hi[3] or 1
end

-- `apart`: each rank has contents of its own, which tasks write that have one chunk there.
local function make(element, extents, options, apart)
  local type_ = types.find(element, "celer.buffer")
  local dims, size = extents_of.read(extents == nil and {} or extents,
    "celer.buffer: the extents")
  options = options == nil and {} or options
  check_options(options)
  local self = setmetatable({ type = type_, dims = dims,
    size = box.coordinates(unpack(size)), extents = size, name = name_of(options),
    freed = false }, Buffer)
  self.bytes = total_of(self) * type_.size
  if self.bytes > 2 ^ 62 then
    fail("celer.buffer: %s would have %.3g bytes", self.name, self.bytes)
  end
  local kind, init, identity, fd = prepare_init(self, options.init)
  self.handle = place.check(core.buffer(type_.size, types.identity(type_), dims, size[1] or 1,
    size[2] or 1, size[3] or 1, self.name, kind, init, identity, fd, apart,
    reserved(self, options.reserve)))
  return self
end

--- Makes a buffer. An init function is called with the coordinates of each
--- element that a rank needs, as if all at once: it sees copies of what it
--- captured. A number, a boolean, or a struct as a table of its fields, is what each
--- element has. `reserve`: the part of it that a device's memory gets room for at once,
--- as soon as it gets any of that; true: all. Only how memory is laid out depends on it.
---@param element string|celer.type  element type
---@param extents? integer[]|integer  0 to 3 extents; none: one element
---@param options? celer.buffer_options
---@return celer.buffer
function M.new(element, extents, options) return make(element, extents, options, false) end

--- Makes a buffer of which each rank has contents of its own, that no other sees: for our own
--- modules. Tasks write it that have one chunk on each rank, and may there write all of it: host
--- tasks, and kernels where ranks have one device each.
---@param element string|celer.type
---@param extents integer[]
---@param options celer.buffer_options
---@return celer.buffer
function M.apart(element, extents, options)
  return make(element, extents, options, true)
end

--- A part of a buffer that the user gave, or all of it.
---@param buffer celer.buffer
---@param part? celer.box
---@param call string  begins messages
---@return celer.box
function M.part(buffer, part, call)
  local whole = M.whole(buffer)
  if part == nil then return whole end
  if not box.is_box(part) then
    fail("%s: the part must be a celer.box, not %s", call, words.a(part))
  elseif part.dims ~= buffer.dims then
    fail("%s: the part %s has %s, the buffer %s has %d", call, tostring(part),
      words.count(part.dims, "dimension"), buffer.name, buffer.dims)
  end
  for d = 0, part.dims - 1 do
    if part.min[d] < 0 or part.max[d] > buffer.size[d] then
      fail("%s: the part %s leaves the buffer %s, which is %s", call, tostring(part),
        buffer.name, tostring(whole))
    end
  end
  return part
end

function M.is_buffer(value) return getmetatable(value) == Buffer end

--- Raises unless `value` is a buffer that was not freed; `what` begins the
--- message.
function M.check(value, what)
  if not M.is_buffer(value) then
    fail("%s: the first argument must be a buffer, not %s", what, words.a(value))
  elseif value.freed then
    fail("%s: the buffer %s was freed", what, value.name)
  end
end

--- All of it, as a box: the same object for buffers of the same extents.
---@return celer.box
function M.whole(self)
  local extent = rawget(self, "extent")
  if not extent then
    extent = spaces.of(self.extents, "celer.buffer").box
    self.extent = extent
  end
  return extent
end

--- Sets each element, or each of a part: celer.fill.
---@param value any
---@param part? celer.box
function Buffer:fill(value, part)
  place.method(self, Buffer, "buffer:fill")
  require("celer.data.contents").fill(self, value, part)
end

--- Gives the memory back once the tasks that use it have ended.
function Buffer:free()
  place.method(self, Buffer, "buffer:free")
  if self.freed then
    fail("buffer:free: the buffer %s was freed already", self.name)
  end
  self.freed = true
  core.buffer_free(self.handle)
  if rawget(self, "image_copies") or rawget(self, "image_plans") then
    require("celer.submit.image").freed(self)
  end
  if rawget(self, "route_arenas") then require("celer.submit.route").freed(self) end
end

function Buffer:__tostring()
  local extents = {}
  for d = 0, self.dims - 1 do extents[d + 1] = ("[%d]"):format(self.size[d]) end
  return ("buffer %s: %s%s, %.15g bytes"):format(self.name, self.type.name,
    table.concat(extents), self.bytes)
end

local function not_here(name)
  fail("the contents of buffer %s are not here: q:wait(celer.capture(%s)) brings "
    .. "a copy, %s(i) one element, and a task reads it through an access", name, name, name)
end

local OFTEN = 100 -- elements that a line may fetch one by one, unadvised
local fetched = {} -- by line

-- Says once, of a line that fetches element by element, that there is another way.
local function count_fetch(self)
  local file, line = place.user()
  local at = ("%s:%d"):format(file or "?", line)
  fetched[at] = (fetched[at] or 0) + 1
  if fetched[at] ~= OFTEN then return end
  local what, instead = "elements of " .. self.name,
    ("celer.wait(celer.capture(%s)) brings many at once"):format(self.name)
  if self.dims == 0 then
    what, instead = "single elements", "celer.wait(a, b) brings those of several buffers at once, "
      .. "and celer.fence(a) does not wait"
  end
  core.advise(("%d %s were fetched here one by one, and each waits for all tasks before it: %s")
    :format(OFTEN, what, instead), file, line)
end

-- An element, as of now: a fence of one element.
local function fetch(self, ...)
  local at, hi = { ... }, {}
  M.check(self, "buffer(...)")
  require("celer.submit.queue").check_outside(("%s(...)"):format(self.name))
  if select("#", ...) ~= self.dims then
    fail("%s(...): the buffer has %s, got %s", self.name, words.count(self.dims, "dimension"),
      words.count(select("#", ...), "coordinate"))
  end
  for d = 1, self.dims do
    if type(at[d]) ~= "number" or at[d] % 1 ~= 0 or at[d] < 0 or at[d] >= self.size[d - 1] then
      fail("%s(...): coordinate %d is %s; it is a whole number from 0 to %.0f", self.name, d,
        tostring(at[d]), self.size[d - 1] - 1)
    end
    hi[d] = at[d] + 1
  end
  count_fetch(self)
  local part = self.dims > 0 and box.new(at, hi) or nil
  return require("celer.submit.queue").new():fence(self, part):get()(...)
end

--- An element, as of now: a fence of one element. Also b[i][j].
---@param ... integer  its coordinates
---@return any
function Buffer:__call(...) return fetch(self, ...) end

-- b[i] of a buffer of several dimensions.
---@class celer.buffer_row
---@field buffer celer.buffer
---@field at integer[]
local Row = { __noun = "part of a buffer" }

-- The element at these coordinates, or what has one more.
local function at_index(buffer, at)
  if #at == buffer.dims then return fetch(buffer, unpack(at)) end
  return setmetatable({ buffer = buffer, at = at }, Row)
end

function Row:__index(key)
  local at = { unpack(rawget(self, "at")) }
  at[#at + 1] = key
  return at_index(rawget(self, "buffer"), at)
end

local function refuse_to_write(buffer)
  fail("the contents of buffer %s are not here: a task writes them through an access, "
    .. "and buffer:fill all of them", rawget(buffer, "name"))
end

function Row:__newindex() refuse_to_write(rawget(self, "buffer")) end

function Buffer:__pairs() not_here(self.name) end

-- Elements are no fields: they would be nil, or set here and nowhere else.
function Buffer:__index(key)
  if key == "shape" then return rawget(self, "extents") end
  if type(key) ~= "number" then
    return rawget(Buffer, key) or rawget(Expression, key) or Buffer[key]
  end
  if rawget(self, "dims") == 0 then not_here(rawget(self, "name")) end
  return at_index(self, { key })
end

function Buffer:__newindex(key, value)
  if type(key) == "number" then refuse_to_write(self) end
  rawset(self, key, value)
end

function Buffer.__capture(self, refuse)
  refuse(("the buffer '%s'"):format(self.name),
    "; declare an access (cg:read(...)) and pass it as an argument")
end

-- Whole buffers are expressions.
Buffer.__inherits = Expression
for name, f in each(expression.operators) do Buffer[name] = f end

words.methods(Buffer, { "bytes", "dims", "extents", "name", "shape", "size", "type" })

return M
