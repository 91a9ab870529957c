--- collective.lua -- groups of collective host tasks: one call per rank.
---
--- A group is known by its name; each has a communicator and a thread of its own.
--- All ranks number the groups alike, in the order of their first tasks.
local place = require "celer.place"
local words = require "celer.words"

local M = {}

local MOST = 64 -- each is a thread

---@class celer.collective
---@field name string|false
---@field number integer|false  from 1, once it has a task
local Collective = { __noun = "group of collective tasks" }

function Collective:__tostring()
  return self.name and ("celer.collective(%q)"):format(self.name)
    or "celer.collective()"
end

function Collective.__capture(_, refuse)
  refuse("a group of collective tasks", "; only the script submits work")
end

local groups, numbered = {}, 0

--- Where a host task runs: one call on each rank, in the group of this name, or
--- in the one that has none. Tasks of one group come in the order in which they
--- were submitted and share a communicator; groups do not wait for each other.
---@param name? string
---@return celer.collective
function M.collective(name)
  if name ~= nil then words.check_name("celer.collective", name) end
  local key = name or false
  groups[key] = groups[key]
    or setmetatable({ name = key, number = false }, Collective)
  return groups[key]
end

function M.is_collective(value) return getmetatable(value) == Collective end

--- The group's number, which its first task gives it.
function M.number(group)
  if group.number then return group.number end
  if numbered == MOST then
    place.fail("%s would be group %d of collective tasks, and each has a thread of "
      .. "its own: %d are the most; tasks that never run at the same time can share "
      .. "a group", tostring(group), numbered + 1, MOST)
  end
  numbered = numbered + 1
  group.number = numbered
  return numbered
end

return M
