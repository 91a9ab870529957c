--- snapshot.lua -- data that has left the engine, by value.
local ffi = require "ffi"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local dry = require "celer.tools.dry"
local objects = require "celer.data.object"
local place = require "celer.place"
local rules = require "celer.mapper.rules"
local view = require "celer.data.view"
local words = require "celer.words"

local fail = place.fail

local M = {}

---@class celer.capture
---@field buffer? celer.buffer
---@field object? celer.host_object  in place of it
---@field list? celer.list  in place of it
---@field take? function  what of the object is brought
---@field lo integer[]?  three, 0 beyond the buffer's dimensions
---@field hi integer[]?  three, 1 beyond them
---@field map? fun(rank: integer, ranks: integer): celer.box  in place of both
---@field dry any  what it brings in a dry run; nil: zeros
local Capture = {}
Capture.__noun = "capture"

local function name_of(capture)
  return (capture.buffer or capture.object or capture.list).name
end

local function is_list(value) return require("celer.data.list").is_list(value) end

function Capture:__tostring() return "capture of " .. name_of(self) end

-- The snapshot's own ways in, tried before there is one.
local function not_brought(self)
  fail("%s has no elements and no fields: q:wait, q:drain or the :get() of a q:fence that "
    .. "it is given to returns the snapshot", tostring(self))
end

local fields = { buffer = true, object = true, list = true, take = true, lo = true, hi = true,
  map = true, dry = true }

function Capture:__index(key)
  if not fields[key] then not_brought(self) end
end

Capture.__call, Capture.__pairs = not_brought, not_brought

-- Bounds, three of each, of a part of `buffer`; nil is all of it.
local function part_of(buffer, part)
  local lo, hi = { 0, 0, 0 }, { 1, 1, 1 }
  for d = 1, buffer.dims do hi[d] = buffer.size[d - 1] end
  if part == nil then return lo, hi end
  if not box.is_box(part) then
    fail("the part of %s to capture must be a celer.box, not %s", buffer.name,
      words.a(part))
  end
  local min, max = box.bounds(part)
  if #min ~= buffer.dims then
    fail("%s has %s, the box to capture has %d", buffer.name,
      words.count(buffer.dims, "dimension"), #min)
  end
  for d = 1, buffer.dims do
    if min[d] < 0 or max[d] > hi[d] then
      fail("the box %s to capture leaves the buffer %s, which is %s", tostring(part),
        buffer.name, tostring(buffers.whole(buffer)))
    end
    lo[d], hi[d] = min[d], math.max(min[d], max[d])
  end
  return lo, hi
end

local known_options = { dry = true }

--- What q:wait, q:drain and q:fence take: a buffer, or a box of it, or a box of
--- its own on each rank: the function is compiled as a range mapper is. Of a host
--- object the function says what is brought, where the object lives. In a dry run,
--- which computes nothing, it brings `dry`: a value for all elements or a function
--- of their coordinates; of an object, what its function would give. A list is captured whole.
---@param buffer celer.buffer|celer.host_object|celer.list
---@param part? celer.box|fun(rank_or_object: any, ranks: integer): any
---@param options? {dry: any}
---@return celer.capture
function M.capture(buffer, part, options)
  local self = setmetatable({}, Capture)
  if options ~= nil then
    words.check_options("celer.capture", options, known_options, "{dry = 0.5}")
    self.dry = options.dry
  end
  if objects.is_object(buffer) then
    objects.check_capture(buffer, part, "celer.capture")
    self.object, self.take = buffer, part
    return self
  elseif is_list(buffer) then
    if part ~= nil or self.dry ~= nil then
      fail("celer.capture: the list %s is captured whole, without a part and without dry; "
        .. "list.values and list.offsets are buffers", buffer.name)
    end
    self.list = buffer
    return self
  end
  buffers.check(buffer, "celer.capture")
  self.buffer = buffer
  if type(part) == "function" then
    self.map = part
  else
    self.lo, self.hi = part_of(buffer, part)
  end
  return self
end

--- Whether there may be a capture of it.
function M.is_source(value)
  return buffers.is_buffer(value) or objects.is_object(value) or is_list(value)
end

--- A buffer or capture as a capture; raises for anything else, and when the
--- buffer was freed since.
function M.as_capture(value, call, i)
  if M.is_source(value) then value = M.capture(value) end
  if getmetatable(value) ~= Capture then
    fail("%s: argument %d must be a buffer, a list or celer.capture(buffer, box), not %s",
      call, i, words.a(value))
  end
  if value.object then
    objects.check_capture(value.object, value.take, call)
  elseif value.list then
    buffers.check(value.list.offsets, call)
    buffers.check(value.list.values, call)
  else
    buffers.check(value.buffer, call)
  end
  return value
end

function M.is_capture(value) return getmetatable(value) == Capture end

-- ---- what differs between ranks ---------------------------------------------

---@class celer.divided_snapshot
local Divided = { __noun = "divided snapshot" }

local function refuse(self)
  fail("%s is another on each rank, and what the script decided by it would make "
    .. "ranks diverge; :here() is this rank's part", rawget(self, "name"))
end

--- What this rank captured; of a host object that no task has touched here, nil.
--- The script must submit the same on every rank, whatever it is: print it, keep
--- it, write it to a file of the rank's own.
---@return celer.view|any
function Divided:here()
  place.method(self, Divided, "snapshot:here")
  return rawget(self, "view")
end

--- This rank's number, to name such a file by.
---@return integer
function Divided:rank()
  place.method(self, Divided, "snapshot:rank")
  return (core.rank())
end

function Divided:__index(key)
  local method = (key == "here" or key == "rank") and Divided[key]
  return method or refuse(self)
end

Divided.__newindex, Divided.__call, Divided.__len, Divided.__pairs =
  refuse, refuse, refuse, refuse
Divided.__concat = function(a, b)
  refuse(getmetatable(a) == Divided and a or b)
end
Divided.__eq, Divided.__lt, Divided.__le = Divided.__concat, Divided.__concat,
  Divided.__concat

function Divided:__tostring() return rawget(self, "name") end

function Divided.__capture(self, no)
  no(rawget(self, "name"), "; a task that reads the buffer gets its contents")
end

-- ---- futures ----------------------------------------------------------------

---@class celer.future
local Future = {}
Future.__noun = "future"

-- The snapshot's own ways in, tried without waiting for it.
local function early(self)
  place.fail("%s has no elements and no fields: :get() waits and gives the snapshot",
    tostring(self))
end

function Future:__index(key)
  local method = Future[key]
  if method == nil then early(self) end
  return method
end

Future.__call, Future.__newindex, Future.__pairs = early, early, early

function Future:__tostring()
  local names = {}
  for i, capture in ipairs(self.captures) do names[i] = name_of(capture) end
  return "future of " .. table.concat(names, ", ")
end

function Future.__capture(_, no)
  no("a future", "; a task that reads the buffer gets its contents")
end

-- The engine's fence for a capture, and its six bounds on this rank.
local function ask(capture, file, line)
  local buffer, map = capture.buffer, capture.map
  if not buffer then return objects.fence(capture.object, capture.take, file, line) end
  if map then
    local rule, params = rules.bind_ranks(map, buffer)
    local handle, a, b, c, d, e, f =
      place.check(core.fence_each(buffer.handle, rule, params, file, line))
    return handle, { a, b, c, d, e, f }
  end
  local lo, hi = capture.lo, capture.hi
  local six = { lo[1], lo[2], lo[3], hi[1], hi[2], hi[3] }
  return place.check(core.fence(buffer.handle, lo[1], lo[2], lo[3], hi[1], hi[2],
    hi[3], file, line)), six
end

local before -- see M.precede

--- Has `f` called before copies are asked for, before host tasks that see data, and before a
--- script waits. It may give a buffer: tasks must have written that before data are seen.
---@param f fun(): celer.buffer?
function M.precede(f) before = f end

--- Calls that, where nothing is asked for.
---@return celer.buffer?
function M.settle() return before and before() end

-- What is copied for captures: of a list its offsets, then its values.
local function copied(captures)
  local out = {}
  for _, capture in ipairs(captures) do
    local list = capture.list
    if list then out[#out + 1] = M.capture(list.offsets) end
    out[#out + 1] = list and M.capture(list.values) or capture
  end
  return out
end

--- Asks for copies of what the captures name, as of now in program order.
---@param captures celer.capture[]
---@return celer.future
function M.request(captures)
  local file, line = place.user()
  local checked = M.settle()
  local self = setmetatable({ captures = captures, copied = copied(captures), handles = {},
    bounds = {}, unadvised = false, snapshots = false, checked = false }, Future)
  if checked then
    self.checked = place.check(core.fence(checked.handle, 0, 0, 0, 1, 1, 1, file, line))
  end
  for i, capture in ipairs(self.copied) do
    self.handles[i], self.bounds[i] = ask(capture, file, line)
  end
  return self
end

--- Whether get would return at once.
---@return boolean
function Future:ready()
  place.method(self, Future, "future:ready")
  if self.checked and not core.fence_ready(self.checked) then return false end
  for i = 1, #self.handles do
    if not core.fence_ready(self.handles[i]) then return false end
  end
  return true
end

local function divided(name, view_)
  return setmetatable({ name = "divided " .. name, view = view_ }, Divided)
end

-- What an object holds; in a dry run no task has touched it.
local function captured(capture, data, size)
  if not core.dry() then
    return objects.captured(capture.object, capture.take, ffi.string(data, size))
  end
  return capture.dry == nil and objects.untouched(capture.object, capture.take)
    or capture.dry
end

local function snapshot_of(handle, capture, bounds, unadvised)
  local data, size = place.check(core.fence_get(handle, unadvised))
  local name = "snapshot of " .. name_of(capture)
  if core.dry() then dry.note(name_of(capture), capture.dry) end
  if capture.object then return divided(name, captured(capture, data, size)) end
  if core.dry() and capture.dry ~= nil then
    dry.fill(capture.buffer, capture.dry, data, bounds)
  end
  local seen = view.new({ name = name, dims = capture.buffer.dims,
    type = capture.buffer.type, extents = capture.buffer.extents,
    anchor = handle }, data, bounds, bounds)
  if not capture.map then return seen end
  return divided(name, seen)
end

-- The elements of each bin.
local function bins_of(offsets, values)
  local out = {}
  for b = 0, offsets.size[0] - 2 do
    out[b] = {}
    for i = tonumber(offsets(b)), tonumber(offsets(b + 1)) - 1 do
      table.insert(out[b], values(i))
    end
  end
  return out
end

--- Waits for the data: a snapshot for each capture, the same each time; of a list an array of
--- elements for each bin, by their numbers from 0.
---@return celer.view|celer.divided_snapshot|table<integer, any[]> ...
function Future:get()
  place.method(self, Future, "future:get")
  if not self.snapshots then
    if self.checked then place.check(core.fence_get(self.checked, true)) end
    local copies, snapshots, at = {}, {}, 0
    for i = 1, #self.handles do
      copies[i] = snapshot_of(self.handles[i], self.copied[i], self.bounds[i], self.unadvised)
    end
    for i, capture in ipairs(self.captures) do
      at = at + 1
      snapshots[i] = copies[at]
      if capture.list then
        at = at + 1
        snapshots[i] = bins_of(copies[at - 1], copies[at])
      end
    end
    self.snapshots = snapshots
  end
  return unpack(self.snapshots)
end

return M
