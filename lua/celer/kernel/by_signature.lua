--- by_signature.lua -- accesses of what a kernel in C++ is given in their place: buffers.
---
--- The kernel's own parameters say the mode: `in` and `near` read, `out` writes all of its part,
--- `inout` reads and writes.
local access = require "celer.kernel.from_lua.function"
local buffers = require "celer.data.buffer"
local kernel = require "celer.kernel.kernel"
local place = require "celer.place"
local words = require "celer.words"

local M = {}

local modes = { [kernel.IN] = "read", [kernel.OUT] = "discard_write",
  [kernel.INOUT] = "read_write" }

local Buffer, Access, Reduction, Route = buffers.Buffer, access.Access, access.Reduction,
  access.Route

--- Whether one of these stands in the place of an access.
---@param ... any
---@return boolean
function M.has_buffers(...)
  for k = 1, select("#", ...) do
    local meta = getmetatable((select(k, ...)))
    if meta == Buffer or meta == Access or meta == Reduction or meta == Route then
      return true
    end
  end
  return false
end

local function fail(name, number, message, ...)
  place.fail("argument %d of kernel %s: %s", number, name, message:format(...))
end

-- The access of a parameter for a buffer, with a mapper or without.
local function access_for(cg, k, number, param, buffer, given)
  local mode = modes[param.kind]
  if kernel.is_route(param) then
    fail(k.name, number, "the kernel declares %s: give it celer.route(%s, \"sum\"), or what else "
      .. "is done with values", kernel.describe(param), buffer.name)
  end
  local edge = given and given.edge
  local map = given and given.map
  if not mode then
    fail(k.name, number, "the kernel declares %s: give it celer.reduce(%s, \"sum\"), or another "
      .. "operator", kernel.describe(param), buffer.name)
  elseif edge and mode ~= "read" then
    fail(k.name, number, "what is read beyond its edges is only read, and the kernel declares %s",
      kernel.describe(param))
  elseif edge and not map then
    fail(k.name, number, "celer cannot look into C++ for how far the kernel reads: say it, as in "
      .. "celer.%s(%s%s, 1)", edge.kind, buffer.name, edge.kind == "constant" and ", value" or "")
  elseif not map and buffer.dims > 0 and k.params[1].dims ~= buffer.dims then
    fail(k.name, number, "%s has %s, and the range %d: say which part a chunk touches, as in "
      .. "celer.access(%s, celer.all)", buffer.name, words.count(buffer.dims, "dimension"),
      k.params[1].dims, buffer.name)
  elseif not map and param.edge then
    fail(k.name, number, "the kernel declares %s: say how far it reads, and what lies beyond the "
      .. "edges, as in celer.periodic(%s, 1)", kernel.describe(param), buffer.name)
  end
  return cg[mode](cg, buffer, map)
end

--- Arguments of a kernel with accesses in the place of buffers, which it declares.
---@param cg celer.command_group
---@param k celer.kernel
---@param ... any
---@return any[]
function M.accesses(cg, k, ...)
  local out, n = { ... }, select("#", ...)
  local first = (k.params[1].kind == kernel.ITEM or k.params[1].kind == kernel.GROUP) and 1 or 0
  for i = 1, n do
    local given, param = out[i], k.params[first + i]
    local meta = getmetatable(given)
    local is_buffer = meta == Buffer or meta == Access
    if param and (is_buffer or meta == Reduction or meta == Route) then
      if k.plain then
        fail(k.name, i, "a kernel of celer.cuda_module does not say what it does with it: give an "
          .. "access, as by cg:read(buffer)")
      elseif meta == Reduction then
        out[i] = cg:reduce(given.buffer, given.operator, given.options)
      elseif meta == Route then
        out[i] = cg:route(given.to, given.how, given.options)
      elseif param.kind ~= kernel.VALUE then
        out[i] = access_for(cg, k, i, param, meta == Access and given.buffer or given,
          meta == Access and given or nil)
      end
    end
  end
  return out
end

return M
