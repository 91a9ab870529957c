--- kept.lua -- what a kernel of a command group came to, to be submitted again.
---
--- A prepared group (core_prepared.c) is submitted with other buffers of the same shapes, and with
--- other numbers. Who keeps one sees to it that all else is what it was: prepared.lua, recalled.lua
--- and again.lua compare what the user gives; here is what celer's own tasks use.
local core = require "celer.core"
local ffi = require "ffi"
local place = require "celer.place"
local structs = require "celer.structs"

local M = {}

--- Submissions that go the long way before what they come to is kept.
M.PATIENCE = 2

local NOT, DONE = ffi.C.CEL_PREPARED_NOT, ffi.C.CEL_PREPARED_DONE

--- Goes on with what the submission of a prepared group has come to: whether it was submitted.
---@param made userdata
---@param came_to integer  a cel_prepared_end
---@return boolean
function M.finish(made, came_to)
  if came_to == DONE then return true end
  if came_to == NOT then return false end
  place.check(core.finish_prepared(made, came_to))
  return true
end

---@class celer.kept_task
---@field made userdata
---@field given ffi.cdata*  of it
---@field values any[]  of the kernel

--- Keeps what a group comes to that has declared its accesses, and gets no work; nil where that
--- cannot be kept.
---@param group celer.command_group
---@param values any[]  of the kernel
---@param range any  and what follows: as of cg:parallel_for
---@return celer.kept_task?
function M.keep(group, values, range, kernel, ...)
  local changes = {}
  for i = 1, #values do changes[i] = type(values[i]) == "number" and 1 or 0 end
  local groups = require "celer.submit.group"
  local made = groups.prepare(group, { values = changes }, range, kernel, ...)
  return made and { made = made, given = structs.prepared(made), values = values } or nil
end

--- Submits it at the user's line of now; false where it is not for these buffers and values.
---@param kept celer.kept_task
---@param used celer.buffer[]  in the order of accesses
---@param values any[]  as many as it was made with, and those the same that are no numbers
---@return boolean
function M.submit(kept, used, values)
  local given = kept.given
  for i = 1, #values do
    local value = values[i]
    if type(value) == "number" then
      given.value[i - 1] = value
    elseif not rawequal(value, kept.values[i]) then
      return false
    end
  end
  for i = 1, #used do given.buffer[i - 1] = used[i].handle end
  return M.finish(kept.made, core.submit_again(kept.made))
end

return M
