--- when.lua -- tasks that are skipped where a flag is 0: cg:when(flag).
---
--- The flag is a buffer without dimensions, which each chunk reads as it reads all else. A
--- kernel becomes one with the flag as one more parameter, and returns at once where that is 0.
--- Graphs know nothing of it: messages travel whatever the flag says. What a skipped task would
--- have written stays as it was. So to promise to write everything becomes to write something;
--- and what is reduced goes to a buffer beside, of which a second task takes it, if the flag is
--- not 0.
local arguments = require "celer.kernel.arguments"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local kernels = require "celer.kernel.kernel"
local place = require "celer.place"
local words = require "celer.words"

local fail = place.fail

local M = {}

local fields = core.facts.access
local classes = { i = true, u = true, b = true }

--- Raises unless it can be a flag.
---@param flag any
---@param call string
function M.check(flag, call)
  if not buffers.is_buffer(flag) then
    fail("%s: the flag must be a scalar or a buffer without dimensions, not %s", call,
      words.a(flag) .. (words.a(flag):find "expression" and ": set a scalar to it, and give that"
        or ""))
  elseif flag.freed then
    fail("%s: the buffer %s was freed", call, flag.name)
  elseif flag.dims > 0 or not classes[flag.type.class] then
    fail("%s: %s holds %s%s; a flag has no dimensions, and is a bool or an integer", call,
      flag.name, flag.type.name, flag.dims > 0 and " in " .. words.count(flag.dims, "dimension")
        or "")
  end
end

-- Has the work keep what it does not write.
local function keep(access, flag, call)
  local spelt = access[fields.spelt]
  if spelt ~= "read" and spelt ~= "read_disjoint" and access.buffer == flag then
    fail("%s: the task changes its own flag %s; let another task do so", call, flag.name)
  end
  if spelt == "discard_write" then rawset(access, fields.spelt, "write") end
end

-- ---- reductions -------------------------------------------------------------

local beside = setmetatable({}, { __mode = "k" }) -- by what is reduced into: a buffer like it
local copiers = {}

local function buffer_beside(buffer)
  if not beside[buffer] then
    beside[buffer] = buffers.new(buffer.type, buffer.extents, { name = buffer.name })
  end
  return beside[buffer]
end

local COPY = [[kernel void copy(item<%d> it, in<%s, %d> from, out<%s, %d> to) {
  to(%s) = from(%s);
}]]

local function copier(type_, dims)
  local key = type_.name .. " " .. dims
  if not copiers[key] then
    local at = ({ [0] = "", "it[0]", "it[0], it[1]", "it[0], it[1], it[2]" })[dims]
    copiers[key] = kernels.generated(COPY:format(dims, type_.name, dims, type_.name, dims, at, at),
      "celer/when", 1)
  end
  return copiers[key]
end

-- Submits a copy of all of a buffer: always, or where the flag is not 0.
local function copy(groups, from, to, flag)
  local group = groups.new()
  group:name "celer.when"
  if flag then group:when(flag) end
  group:parallel_for(from.extents, copier(from.type, from.dims), group:read(from),
    group:discard_write(to))
  groups.close(group)
end

-- ---- kernels ----------------------------------------------------------------

--- Submits a kernel in a group that is skipped where `flag` is 0.
---@param groups table  group.lua
---@param self celer.command_group
---@param flag celer.buffer
---@param is_access fun(value: any): boolean
---@param range any
---@param kernel celer.kernel
---@param dims integer  of the range
---@param ... any
function M.parallel_for(groups, self, flag, is_access, range, kernel, dims, ...)
  if kernel.plain then
    fail("cg:when: kernel %s is from celer.cuda_module, and such kernels cannot be skipped: let it "
      .. "read the flag itself", kernel.name)
  end
  local n, given = select("#", ...), { ... }
  arguments.part(kernel, dims, is_access, n, ...)
  local reduced = {}
  for i = 1, n do
    local access = given[i]
    if is_access(access) and access.mode == "reduce" then
      local own = buffer_beside(access.buffer)
      reduced[#reduced + 1] = { own, access.buffer }
      if access.onto then copy(groups, access.buffer, own) end
      rawset(access, fields.buffer, own)
    elseif is_access(access) then
      keep(access, flag, "cg:when")
    end
  end
  given[n + 1] = self:read(flag)
  self:parallel_for(range, kernels.guarded(kernel, flag.type), unpack(given, 1, n + 1))
  for _, pair in ipairs(reduced) do copy(groups, pair[1], pair[2], flag) end
end

-- ---- host tasks -------------------------------------------------------------

--- Of a host task's function one that calls it where its first argument, an access to the
--- flag, is not 0.
---@param f function
---@return function
function M.guard(f)
  return function(part, flag, ...)
    local now = flag()
    if now ~= 0 and now ~= false then return f(part, ...) end
  end
end

--- The same for what it writes.
---@param flag celer.buffer
---@param is_access fun(value: any): boolean
---@param ... any  its arguments
function M.keep(flag, is_access, ...)
  for i = 1, select("#", ...) do
    local access = (select(i, ...))
    if is_access(access) then keep(access, flag, "cg:when") end
  end
end

return M
