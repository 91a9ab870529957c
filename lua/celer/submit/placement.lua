--- placement.lua -- on which one rank a task runs.
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local division_t = require("celer.structs").division
local place = require "celer.place"
local words = require "celer.words"

local fail = place.fail

local M = {}

--- Where a task runs that is not divided: one call, or all of its items, on one rank.
---@class celer.placement

-- A rank; or, with a `buffer`, where most of its `box` lies, whichever rank that is.
local Placement = { __noun = "placement" }

function Placement:__tostring() return self.text end

function Placement.__capture(self, refuse)
  refuse(tostring(self), "; only the script says where work runs")
end

local function make(text, rank, buffer, lo, hi)
  return setmetatable({ rank = rank, buffer = buffer or false, lo = lo, hi = hi, text = text },
    Placement)
end

--- Where a host task runs: one call, on one rank.
---@type celer.placement
M.once = make("celer.once", 0)
--- One call, on rank 0.
---@type celer.placement
M.on_master = make("celer.on_master", 0)

--- Where a task runs: on this rank alone, all of it.
---@param rank integer  from 0
---@return celer.placement
function M.at(rank)
  local _, ranks = core.rank()
  if type(rank) ~= "number" or rank % 1 ~= 0 then
    fail("celer.at takes the number of a rank, not %s", type(rank) == "number"
      and tostring(rank) or words.a(rank))
  elseif rank < 0 or rank >= ranks then
    fail("celer.at: there is no rank %s: %s; celer.ranks() tells how many there are", rank,
      ranks == 1 and "rank 0 is alone" or ("the ranks are 0 to %d"):format(ranks - 1))
  end
  return make(("celer.at(%d)"):format(rank), rank)
end

--- Where a task runs: all of it on the rank that owns most of a buffer, or of a part of
--- it, when the task comes. A rank owns the elements that it wrote last; those that all
--- ranks have come to have, or none, nobody owns. Of several the lowest, else rank 0.
---@param buffer celer.buffer
---@param part? celer.box  default: all of it
---@return celer.placement
function M.where(buffer, part)
  buffers.check(buffer, "celer.where")
  part = buffers.part(buffer, part, "celer.where")
  return make(("celer.where(%s, %s)"):format(buffer.name, tostring(part)), 0, buffer,
    box.bounds(part))
end

function M.is_placement(value) return getmetatable(value) == Placement end

--- Raises where it can no longer be found.
---@param self celer.placement
---@param call string  begins messages
function M.check(self, call)
  if self.buffer and self.buffer.freed then
    fail("%s: %s: the buffer was freed", call, self.text)
  end
end

--- How a task is divided that is otherwise divided so, as hints.lua has it: the last one
--- is kept, as loops ask for it in each step.
---@param self celer.placement
---@param division ffi.cdata*  a cel_lua_division
---@return ffi.cdata* division, any[]? handles
function M.divide(self, division)
  if rawequal(self.base, division) then return self.division, self.handles end
  local made = division_t(division)
  made.home, made.rank = true, self.rank
  if self.buffer then
    local lo, hi = self.lo, self.hi
    for d = 1, 3 do made.min[d - 1], made.max[d - 1] = lo[d] or 0, hi[d] or 1 end
    self.handles = { nil, self.buffer.handle }
  end
  self.base, self.division = division, made
  return made, self.handles
end

return M
