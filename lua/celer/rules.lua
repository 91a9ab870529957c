--- rules.lua -- from an access's range mapper to the engine's compiled rule.
local box = require "celer.box"
local core = require "celer.core"
local place = require "celer.place"
local trace = require "celer.trace"

local M = {}

local function range_of(dims, lo, hi)
  return box.make(dims, lo[1], lo[2], lo[3], hi[1], hi[2], hi[3])
end

local function intern(rule)
  local desc = rule.desc
  rule.handle = place.check(core.rule(desc.task_dims, desc.buffer_dims, desc.boxes,
    desc.params, desc.clamp, desc.spans, desc.code))
  return rule.handle
end

--- The engine's rule for an access under this index space, and the parameters.
---@param access celer.access
---@return lightuserdata rule, integer[] params
function M.bind(access, dims, lo, hi)
  local buffer = access.buffer
  local extent = buffer.extent
  if not extent then
    extent = box.whole(buffer)
    buffer.extent = extent
  end
  local rule, params = trace.rule(access.map, range_of(dims, lo, hi), extent)
  if rule.opaque then
    place.fail("the range mapper of %s cannot be put in closed form: %s. Write it "
      .. "without branching on its chunk (celer.min, celer.max and celer.floor "
      .. "help)", buffer.name, rule.reason)
  end
  return rule.handle or intern(rule), params
end

return M
