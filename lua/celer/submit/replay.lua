--- replay.lua -- command groups that are like one before.
---
--- A loop submits one kernel in each step, with closures made anew. Here is what makes a
--- plan of such a group, from what known.lua knows of its mappers; core_replay.c submits
--- those that are like it.
local core = require "celer.core"
local box = require "celer.box"
local known = require "celer.mapper.known"
local late = require "celer.mapper.late"
local buffers = require "celer.data.buffer"
local near = require "celer.kernel.near"

local M = {}

local MOST = 16 -- plans for one kernel
local PATIENCE = 200 -- groups of one kernel that are looked at, in all
local limits = core.facts.limit
local MOST_ACCESSES, MOST_ARGUMENTS = limits.plan_accesses, limits.plan_arguments

--- Those of each kernel that has some, the newest first.
---@type table<celer.kernel, userdata[]>
M.plans = setmetatable({}, { __mode = "k" })

local plans = M.plans
local looked_at = setmetatable({}, { __mode = "k" }) -- kernel -> how many groups

-- Whether the rule of an entry holds for other numbers or another range, as
-- core_replay.c asks; false where it holds for all.
local function check_of(entry)
  return not entry.straight and function(map, params, dims, a, b, c, d, e, f)
    return known.holds(entry, map, params, box.make(dims, a, b, c, d, e, f))
  end
end

-- Of an access; nil where its mapper is not known. What near<T, D> is told of edges holds for
-- this very mapper.
local function describe(access, param, space, mode)
  local map, buffer = access.map, access.buffer
  local entry = map and known.entry(map, space.box, buffers.whole(buffer))
  if not entry then return nil end
  return { mode = access.spelt, as = mode, handle = buffer.handle, map = map,
    edge = param.edge and near.pack(param, access),
    exact = param.edge ~= nil or known.is_exact(map) or late.is_late(map),
    rule = late.rule(map, entry.rule), params = entry.params, variables = entry.variables,
    check = check_of(entry) }
end

local function keep(kernel, plan)
  local list = plans[kernel] or {}
  plans[kernel] = list
  table.insert(list, 1, plan)
  list[MOST + 1] = nil
end

-- Whether a plan can take such arguments.
local function takes(kernel, is_access, ...)
  local params, n, accesses = kernel.params, select("#", ...), 0
  if n > MOST_ARGUMENTS then return false end
  for i = 1, n do
    local argument = (select(i, ...))
    if is_access(argument) then
      accesses = accesses + 1
    else
      local param = params[#params - n + i]
      if not core.value_fits(argument, param.class, param.size) then return false end
    end
  end
  return accesses <= MOST_ACCESSES
end

--- Makes a plan of a group that has just been submitted, if it is one that is likely
--- to come again.
---@param kernel celer.kernel
---@param space celer.space
---@param modes table<string, integer>  as the core has it, by how it is spelt
---@param is_access fun(value: any): boolean
---@param ... any  the work's arguments
function M.note(kernel, space, modes, is_access, ...)
  local before = looked_at[kernel] or 0
  if before == PATIENCE or space.dims == 0 or not takes(kernel, is_access, ...) then return end
  looked_at[kernel] = before + 1
  local arguments, params, n = {}, kernel.params, select("#", ...)
  for i = 1, n do
    local argument = (select(i, ...))
    local one = is_access(argument)
      and describe(argument, params[#params - n + i], space, modes[argument.spelt])
    if one == nil then return end
    arguments[i] = one
  end
  local plan = core.plan(space.core, kernel.module, kernel.index, arguments)
  if plan then keep(kernel, plan) end
end

return M
