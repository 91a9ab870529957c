--- near.lua -- what near<T, D> of a kernel is told of its buffer's edges.
---
--- A value that nobody passes goes behind such a view: the buffer's extents, how far
--- indices lead from their items, and what an index means that leaves the buffer. The
--- source of a kernel written in Lua declares near<T, D> where the access's mapper has an
--- edge (mapper.edge).
local ffi = require "ffi"
local mapper = require "celer.mapper.builtin"
local types = require "celer.data.types"

local M = {}

local OUTSIDE = 112 -- bytes before it

ffi.cdef [[
struct celer_edge {
  int64_t size[3], reach[3], low[3], high[3];
  int32_t turn, constant, is_far;
};
]]
assert(ffi.sizeof "struct celer_edge" == OUTSIDE, "celer::edge has the same")

-- Index i of n that leaves the buffer stands for low + turn * i, or high + turn * i: what
-- these are.
local leads = {
  periodic = function(n) return 1, n, -n end,
  clamped = function(n) return 0, 0, n - 1 end,
  mirrored = function(n) return -1, -1, 2 * n - 1 end,
}
leads.constant = leads.clamped

local packed = setmetatable({}, { __mode = "k" }) -- mapper -> buffer -> what pack gave

local function pack(param, buffer, edge)
  local out = ffi.new("uint8_t[?]", param.edge.size)
  local head = ffi.cast("struct celer_edge *", out)
  for d = 1, buffer.dims do
    local n, reach = buffer.extents[d], edge.reach[d]
    head.size[d - 1], head.reach[d - 1] = n, reach
    head.turn, head.low[d - 1], head.high[d - 1] = leads[edge.kind](n)
    if reach > n and head.turn ~= 0 then head.is_far = 1 end
  end
  head.constant = edge.kind == "constant" and -1 or 0
  if edge.kind ~= "constant" then return out end
  local element = ffi.new(ffi.typeof("$[1]", buffer.type.ctype))
  local fault = types.store(buffer.type, element, 0, edge.value)
  if fault then return nil, "celer.constant of its access: " .. fault end
  ffi.copy(out + OUTSIDE, element, buffer.type.size)
  return out
end

--- The value behind a view, as the core packs it; or nil and what is wrong.
---@param param table  the near<T, D> or route<T, D>, which fits the access
---@param access celer.access
---@return ffi.cdata*?, string?
function M.pack(param, access)
  local routed = rawget(access, "route")
  if routed then return routed.packed end -- by submit/route.lua
  local map, buffer = access.map, access.buffer
  local edge = mapper.edge(map)
  if not edge then
    return nil, ("the kernel declares near<%s, %d>, but the mapper of the access to %s does not "
      .. "say what lies beyond its edges; use celer.periodic, clamped, mirrored or constant")
      :format(param.type, param.dims, buffer.name)
  end
  local by_buffer = packed[map] or setmetatable({}, { __mode = "k" })
  packed[map] = by_buffer
  local out, fault = by_buffer[buffer], nil
  if not out then
    out, fault = pack(param, buffer, edge)
    by_buffer[buffer] = out
  end
  return out, fault
end

return M
