--- buffer.lua -- dense, typed, virtual data that no rank holds all of.
local ffi = require "ffi"
local capture = require "celer.capture"
local core = require "celer.core"
local place = require "celer.place"
local types = require "celer.types"

---@class celer.buffer
---@field type celer.type
---@field dims integer
---@field size table<integer, integer>  extents, indexed from 0
---@field name string
local Buffer = {}
Buffer.__index = Buffer
local M = { Buffer = Buffer }

local function check_extents(extents)
  if extents == nil then return {} end
  if type(extents) == "number" then return { extents } end
  if type(extents) ~= "table" or #extents > 3 then
    place.fail("celer.buffer: the extents must be a table of at most 3 numbers")
  end
  for d, n in ipairs(extents) do
    if type(n) ~= "number" or n % 1 ~= 0 or n < 0 then
      place.fail("celer.buffer: extent %d must be a whole number that is not "
        .. "negative, not %s", d, tostring(n))
    end
  end
  return extents
end

-- Copies a table into `out`, flat or nested one level per dimension; returns
-- how many elements it has, at most total + 1.
local function flatten(self, value, depth, out, at, total)
  local nested = depth < self.dims and type(value[1]) == "table"
  for _, v in ipairs(value) do
    if nested then
      at = flatten(self, v, depth + 1, out, at, total)
    else
      if at >= total then return total + 1 end
      if not pcall(function() out[at] = v end) then
        place.fail("celer.buffer: element %d of init is no %s", at,
          self.type.name)
      end
      at = at + 1
    end
  end
  return at
end

local function init_data(self, init, total)
  local array = ffi.new(ffi.typeof("$[?]", self.type.ctype), total)
  local n
  if type(init) == "table" and self.dims > 0 then
    n = flatten(self, init, 1, array, 0, total)
  elseif self.dims == 0 and type(init) ~= "cdata" then
    array[0], n = init, 1
  else
    n = ffi.sizeof(init) / self.type.size
    if n == total then ffi.copy(array, init, total * self.type.size) end
  end
  if n ~= total then
    place.fail("celer.buffer: init has %s elements, the buffer has %d",
      n > total and "more than " .. total or tostring(n), total)
  end
  return array
end

-- The core's init kind and init for what the user gave.
local function prepare_init(self, init)
  if init == nil then return nil, nil end
  if type(init) == "function" then
    return "lua", (capture.encode(init, nil, { type = self.type.name,
      dims = self.dims, name = self.name }))
  end
  local kind = type(init)
  if kind ~= "table" and kind ~= "cdata"
    and not (self.dims == 0 and kind == "number") then
    place.fail("celer.buffer: init must be a table, an array of the FFI or a "
      .. "function, not a %s", kind)
  end
  local total = 1
  for d = 0, self.dims - 1 do total = total * self.size[d] end
  return "data", init_data(self, init, total)
end

local unnamed = 0

--- Makes a buffer.
---@param element string|celer.type  element type
---@param extents? integer[]|integer  0 to 3 extents; none: one element
---@param options? {name: string?, init: table|ffi.cdata*|function|number|nil}
---@return celer.buffer
function M.new(element, extents, options)
  options = options or {}
  extents = check_extents(extents)
  for key in pairs(options) do
    if key ~= "name" and key ~= "init" then
      place.fail("celer.buffer: unknown option '%s'; there are name and init",
        tostring(key))
    end
  end
  unnamed = unnamed + 1
  local self = setmetatable({ type = types.find(element), dims = #extents,
    size = {}, name = options.name or ("buffer%d"):format(unnamed) }, Buffer)
  for d = 1, #extents do self.size[d - 1] = extents[d] end
  local kind, init = prepare_init(self, options.init)
  self.handle = place.check(core.buffer(self.type.size, self.dims,
    extents[1] or 1, extents[2] or 1, extents[3] or 1, self.name, kind, init))
  return self
end

function M.is_buffer(value) return getmetatable(value) == Buffer end

--- Gives the memory back once the tasks that use it have ended.
function Buffer:free() core.buffer_free(self.handle) end

function Buffer:__tostring()
  local extents, bytes = {}, self.type.size
  for d = 0, self.dims - 1 do
    extents[d + 1] = ("[%d]"):format(self.size[d])
    bytes = bytes * self.size[d]
  end
  return ("buffer %s: %s%s, %d bytes"):format(self.name, self.type.name,
    table.concat(extents), bytes)
end

function Buffer.__capture(self, refuse)
  refuse(("the buffer '%s'"):format(self.name),
    "; declare an access (cg:read(...)) and pass it as an argument")
end

return M
