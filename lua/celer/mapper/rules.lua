--- rules.lua -- from an access's range mapper to the engine's compiled rule.
local ffi = require "ffi"
local known_mappers = require "celer.mapper.known"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local extents = require "celer.extents"
local late = require "celer.mapper.late"
local mapper = require "celer.mapper.builtin"
local opaque = require "celer.mapper.opaque"
local place = require "celer.place"
local trace = require "celer.mapper.trace"
local words = require "celer.words"

local M = {}

local none = {}

local function range_of(dims, lo, hi)
  return box.make(dims, lo[1], lo[2], lo[3], hi[1], hi[2], hi[3])
end

local function intern(desc)
  return place.check(core.rule(desc.task_dims, desc.buffer_dims, desc.boxes,
    desc.params, desc.clamp, desc.each, desc.spans, desc.code))
end

-- The rule and the parameters of a mapper that is not known to be bound as now.
local function bind_anew(access, range, extent, space, divided, handles, on_devices)
  local map = access.map
  local rule, params, read, variant = opaque.own_rule, none, nil, nil
  if not opaque.own[map] then rule, params, read, variant = trace.rule(map, range, extent) end
  if rule.opaque then
    local group = access.owner
    local effects, reduces = group.more and group.more.effects, false
    for i = 1, group.n do reduces = reduces or group[i].mode == "reduce" end
    return opaque.rule(map, rule, read, access.buffer, range, extent, {
      range = space.core, core = divided, handles = handles, on_devices = on_devices or false,
      effects = effects and #effects > 0 or false, reduces = reduces }), none
  end
  if not rule.handle then rule.handle = intern(rule.desc) end
  if not rule.volatile then
    known_mappers.keep(map, range, extent, rule.handle, params, read, variant)
  end
  return rule.handle, params
end

-- Raises what a mapper's own mistake says, with whose mapper it is after the place.
local function blame(message, access, task)
  if type(message) ~= "string" then error(message, 0) end
  local where, what = message:match "^([^\n:]+:%d+: )(.*)$"
  if where and where:find "^celer/" then where = "" end
  error(("%stask '%s': the mapper of its %s access to buffer '%s': %s"):format(where or "",
    task, access.mode, access.buffer.name, what or message), 0)
end

--- The engine's rule for an access under this index space, and the parameters.
---@param access celer.access
---@param task string  its name
---@param space celer.space
---@param divided ffi.cdata*  this and what follows: how the task is divided, as the
---@param handles? any[]      core takes it
---@param on_devices? boolean
---@return userdata rule, integer[] params  not to be changed
function M.bind(access, task, space, divided, handles, on_devices)
  local range, extent = space.box, buffers.whole(access.buffer)
  local handle, known = known_mappers.find(access.map, range, extent)
  if handle then return late.rule(access.map, handle), known end
  local ok, rule, params = pcall(bind_anew, access, range, extent, space, divided, handles,
    on_devices)
  if not ok then blame(rule, access, task) end
  return late.rule(access.map, rule), params
end

--- The same for a function from the rank and the number of ranks to one box.
---@param map fun(rank: integer, ranks: integer): celer.box
---@param buffer celer.buffer
---@return userdata rule, integer[] params
function M.bind_ranks(map, buffer)
  local _, ranks = core.rank()
  local rule, params = trace.rule(map, range_of(1, { 0 }, { ranks }),
    buffers.whole(buffer), true)
  if rule.opaque then
    place.fail("the part of %s to capture cannot be put in closed form: %s. Write "
      .. "it without branching on the rank (celer.min, celer.max and celer.floor "
      .. "help)", buffer.name, rule.reason)
  elseif rule.desc.boxes ~= 1 or rule.desc.each[1] > 0 then
    place.fail("a rank captures one box of %s; give a celer.capture for each",
      buffer.name)
  end
  if not rule.handle then rule.handle = intern(rule.desc) end
  return rule.handle, params
end

local declared = false
local described -- keeps the rule alive that celer.rule is at

-- The engine's functions, as its own header declares them.
local function engine()
  if not declared then ffi.cdef(core.embedded "engine/rule/rule.h") end
  declared = true
  return ffi.C
end

--- What a range mapper is compiled to for a buffer, and what is proved of it.
---@param map celer.range_mapper
---@param buffer celer.buffer
---@param range? integer[]|integer|celer.box  index space; default the buffer's
---@return string
function M.describe(map, buffer, range)
  if type(map) ~= "function" then
    place.fail("celer.rule: the first argument must be a range mapper, not %s",
      words.a(map))
  elseif not buffers.is_buffer(buffer) then
    place.fail("celer.rule: the second argument must be a buffer, not %s",
      words.a(buffer))
  end
  mapper.refuse_maker("celer.rule", map)
  local extent = buffers.whole(buffer)
  if range == nil then
    range = extent
  elseif not box.is_box(range) then
    local dims, hi = extents.read(range, "celer.rule: the range")
    range = range_of(dims, { 0, 0, 0 }, hi)
  end
  local c = engine()
  return require("celer.mapper.describe").rule(c, function(desc)
    described = intern(desc)
    return ffi.cast("const cel_rule *const *", described)[0]
  end, map, range, extent)
end

return M
