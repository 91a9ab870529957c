--- room.lua -- how much room a list must have, without a wait for how much it holds.
---
--- The script knows a bound: each delivery adds at most what its items may push. Where the bound
--- nears the capacity, celer asks for copies of list.count. One that is LATE deliveries old lowers
--- the bound: tasks that followed have been submitted by then, so devices stay busy. Which copy
--- that is follows from the order of the program, so all ranks decide alike. The list grows only
--- where the bound exceeds its capacity even so; then nothing that is pushed can exceed it.
local core = require "celer.core"
local snapshot = require "celer.data.snapshot"

local M = {}

local LATE, MOST = 2, 4 -- deliveries until a copy is looked at; copies at a time
local GROWTH = 1.5 -- at least, so that a list grows seldom
-- Of more such deliveries there is to be room for, where these add little: so that it looks seldom.
local AHEAD = 8

---@class celer.list_room
---@field most number  elements at most
---@field changes? integer  of the offsets until then, after the last delivery
---@field asked {count: celer.future, since: celer.list_step[]}[]  the oldest first

---@class celer.list_step  what a delivery does: of n elements there are n * factor + more then
---@field factor integer
---@field more number
---@field may_skip boolean?

local function after(step, n)
  local most = n * step.factor + step.more
  return step.may_skip and math.max(n, most) or most
end

--- Of a list that holds nothing, or so many elements.
---@param n integer
---@return celer.list_room
function M.new(n) return { most = n, asked = {} } end

-- Lowers the bound by the newest copy that is old enough.
local function look(room)
  local late
  for i = #room.asked, 1, -1 do
    if late then
      table.remove(room.asked, i)
    elseif #room.asked[i].since >= LATE - 1 then
      late = table.remove(room.asked, i)
    end
  end
  if not late then return end
  local most = tonumber(late.count:get()())
  for _, step in ipairs(late.since) do most = after(step, most) end
  room.most = math.min(room.most, most)
end

--- The capacity that a list must get before a delivery; nil: it has enough.
---@param list celer.list
---@param step celer.list_step
---@param changes integer  of its offsets
---@return integer?
function M.needed(list, step, changes)
  local room = list.room
  if not list.grows then return nil end
  if room.changes ~= changes then -- a task of the program has made others of the bins
    room.most, room.asked, room.changes = list.capacity, {}, changes
  end
  if after(step, room.most) <= list.capacity then return nil end
  look(room)
  local most, spare = after(step, room.most), 0
  if step.factor <= 1 and not step.may_skip then spare = math.min(AHEAD * step.more, most / 2) end
  if most + spare > list.capacity then
    return math.ceil(math.max(most, GROWTH * list.capacity))
  end
end

--- Notes a delivery, which has been submitted.
---@param list celer.list
---@param step celer.list_step
---@param changes integer
function M.note(list, step, changes)
  local room = list.room
  if not list.grows then return end
  room.most, room.changes = after(step, room.most), changes
  for _, one in ipairs(room.asked) do table.insert(one.since, step) end
  local most = room.most
  for _ = 1, LATE do most = after(step, most) end
  if most <= list.capacity or core.dry() then return end
  local count = snapshot.request { snapshot.as_capture(list.count, "celer.list", 1) }
  count.unadvised = true
  table.insert(room.asked, { count = count, since = {} })
  if #room.asked > MOST then table.remove(room.asked, 1) end
end

return M
