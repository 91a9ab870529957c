--- list.lua -- celer.list: bins of which each has as many elements as a program puts there.
---
--- A list is buffers: the elements, one bin behind the other; where each bin begins; how many
--- elements there are. Kernels fill it by cg:route (submit/route.lua), and use the buffers like
--- any others.
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local constant = require "celer.data.constant"
local core = require "celer.core"
local extents_of = require "celer.extents"
local mapper = require "celer.mapper.builtin"
local place = require "celer.place"
local rooms = require "celer.submit.room"
local types = require "celer.data.types"
local words = require "celer.words"

local fail = place.fail

local M = {}

---@class celer.list
---@field name string
---@field bins integer[]  extents of what keys lead to
---@field capacity integer  elements that there is room for
---@field values celer.buffer  the elements, bin behind bin; another one once the list has grown
---@field offsets celer.buffer  of int64_t: where each bin begins, and the end of all
---@field count celer.buffer  of int64_t, without dimensions: how many elements there are
---@field ranges celer.range_mapper  for `values`, of kernels over bins: a chunk's bins
---@field ends celer.range_mapper  for `offsets`: a chunk's bins, and the next one
---@field grows boolean
local List = { __noun = "list (its buffers are values, offsets and count)" }
List.__index = List

function List:__tostring()
  return ("list %s: %s in [%s] bins, room for %.0f"):format(self.name, self.values.type.name,
    table.concat(self.bins, "]["), self.capacity)
end

function List.__capture(self, refuse)
  refuse(("the list '%s'"):format(self.name),
    "; declare accesses to its buffers, list.values and list.offsets, and pass them")
end

---@class celer.list_options
---@field bins integer|integer[]  how many, or their extents
---@field capacity? integer  elements that there is room for; without it the list grows
---@field name? string
---@field values? celer.buffer  and offsets: of a list that was kept
---@field offsets? celer.buffer

local known_options = { bins = true, capacity = true, name = true, values = true, offsets = true }

-- The extents of bins, and how many they are.
local function bins_of(bins)
  if bins == nil then
    fail 'celer.list: { bins = n } says how many bins there are, or { bins = { n, m } }'
  end
  local dims, extents = extents_of.read(bins, "celer.list: the bins")
  local n = 1
  for d = 1, dims do n = n * extents[d] end
  if dims == 0 or n == 0 then fail "celer.list: there is at least one bin" end
  return extents, n
end

local function check_capacity(n)
  if n == nil or type(n) == "number" and n % 1 == 0 and n >= 1 then return end
  fail("celer.list: the capacity is how many elements there is room for, a whole number from 1, "
    .. "not %s", type(n) == "number" and tostring(n) or words.a(n))
end

-- All bytes are 0.
local function new_values(type_, capacity, name)
  local zeros = ("\0"):rep(type_.size)
  return buffers.new(type_, { capacity }, { name = name,
    init = buffers.source(constant.fill, zeros, nil, "each\0" .. zeros) })
end

-- Raises unless these buffers can be those of a list.
local function check_buffers(type_, n, options)
  local values, offsets = options.values, options.offsets
  if not (buffers.is_buffer(values) and buffers.is_buffer(offsets)) then
    fail "celer.list: values and offsets are two buffers, of a list that was kept"
  elseif values.type ~= type_ or values.dims ~= 1 then
    fail("celer.list: the values are a buffer of %s, of one dimension; here is %s", type_.name,
      tostring(values))
  elseif offsets.type.name ~= "int64_t" or offsets.dims ~= 1 or offsets.size[0] ~= n + 1 then
    fail("celer.list: the offsets are a buffer of int64_t, with %.0f elements for %s; here is %s",
      n + 1, words.count(n, "bin"), tostring(offsets))
  elseif options.capacity then
    fail "celer.list: the capacity is that of the values; leave it out"
  end
end

-- How often a buffer may have been changed, but by what only looks at it (submit/image.lua).
local function changes(buffer)
  return core.buffer_changes(buffer.handle) - (rawget(buffer, "image_looks") or 0)
end

--- How often a list's offsets may have been changed.
---@param list celer.list
---@return integer
function M.changes(list) return changes(list.offsets) end

--- Whether a buffer is the offsets of the list that has these values, and nobody but routes has
--- changed it: then they lead to values that there are.
---@param offsets celer.buffer
---@param values celer.buffer
---@return boolean
function M.is_sound(offsets, values)
  local sound = rawget(offsets, "sound_for")
  return sound ~= nil and sound.list.values == values and sound.changes == changes(offsets)
end

--- Calls what submits a route to a list.
---@param list celer.list
---@param bring fun(...: any)
---@param ... any
function M.route_to(list, bring, ...)
  local sound = M.is_sound(list.offsets, list.values) and rawget(list.offsets, "sound_for")
  bring(...)
  if sound then sound.changes = changes(list.offsets) end
end

--- Makes a list: bins of elements, all empty, which kernels fill by cg:route. With a capacity it
--- has room for so many elements; without one for all that its tasks may push, and grows for
--- that. `values` and `offsets` are those of a list that was kept, as in a checkpoint.
---@param element string|celer.type  element type
---@param options celer.list_options
---@return celer.list
function M.new(element, options)
  local type_ = types.find(element, "celer.list")
  options = options == nil and {} or options
  words.check_options("celer.list", options, known_options, "{ bins = 64 }")
  check_capacity(options.capacity)
  local extents, n = bins_of(options.bins)
  local name = options.name == nil and "list" or words.check_name("celer.list", options.name)
  local self = setmetatable({ name = name, bins = extents, grows = not options.capacity,
    ends = mapper.with_end(mapper.one_to_one),
    count = buffers.new("int64_t", {}, { name = name .. ".count", init = 0 }) }, List)
  if options.values or options.offsets then
    check_buffers(type_, n, options)
    self.values, self.offsets = options.values, options.offsets
    require("celer.submit.route").recount(self)
  else
    self.values = new_values(type_, options.capacity or 1, name)
    self.offsets = buffers.new("int64_t", { n + 1 }, { name = name .. ".offsets", init = 0 })
    rawset(self.offsets, "sound_for", { list = self, changes = changes(self.offsets) })
  end
  self.capacity = self.values.size[0]
  self.room = rooms.new(options.values and self.capacity or 0)
  self.room.changes = changes(self.offsets)
  self.ranges = require("celer.submit.image").new(self.offsets, { as = "ranges" })
  return self
end

--- What the bins hold, by their numbers from 0: an array of elements for each. It waits.
---@return table<integer, any[]>
function List:get()
  place.method(self, List, "list:get")
  return (require("celer.submit.queue").new():wait(self))
end

--- Has the list have room for as many elements as it has, and `spare` more. It waits, to know
--- how many these are.
---@param spare? integer
function List:fit(spare)
  place.method(self, List, "list:fit")
  if spare ~= nil and not (type(spare) == "number" and spare % 1 == 0 and spare >= 0) then
    fail("list:fit: it takes how many more elements there is to be room for, a whole number, "
      .. "not %s", type(spare) == "number" and tostring(spare) or words.a(spare))
  end
  local n = tonumber(self.count())
  self.room = rooms.new(n)
  self.room.changes = changes(self.offsets)
  local capacity = math.max(n + (spare or 0), 1)
  if capacity == self.capacity then return end
  local old = M.grow(self, capacity)
  if n > 0 then
    require("celer.data.contents").copy(old, self.values, { part = box.new({ 0 }, { n }) })
  end
  old:free()
end

--- Gives the memory back once the tasks that use it have ended.
function List:free()
  place.method(self, List, "list:free")
  for _, buffer in ipairs { self.values, self.offsets, self.count } do buffer:free() end
end

--- Has the list have room for so many elements: in a new buffer, which has nothing yet. For
--- submit/route.lua; gives the old one.
---@param self celer.list
---@param capacity integer
---@return celer.buffer
function M.grow(self, capacity)
  local old = self.values
  self.values = new_values(old.type, capacity, self.name)
  self.capacity = capacity
  return old
end

--- The part of its offsets that is the end of all.
---@param self celer.list
---@return celer.box
function M.last(self)
  local n = self.offsets.size[0]
  return box.new({ n - 1 }, { n })
end

function M.is_list(value) return getmetatable(value) == List end

words.methods(List, { "name", "bins", "capacity", "values", "offsets", "count", "ranges", "ends",
  "grows", "room" })

return M
