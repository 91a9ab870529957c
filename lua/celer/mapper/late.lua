--- late.lua -- range mappers of which an earlier task is to find out what they give.
---
--- The script does not know it when it submits the task that reads by one, and does not wait: all
--- of the buffer stands for it in its graph. Before the engine makes instructions for the task it
--- waits for words that the earlier one has written (engine/task/late.h).
local core = require "celer.core"
local mapper = require "celer.mapper.builtin"

local M = {}

local all = setmetatable({}, { __mode = "k" }) -- what is known of each, by mapper

--- A mapper for accesses that only read, or whose buffer is apart.
---@param name string  for messages
---@param future celer.future  of one buffer of int64_t
---@param word integer  with which the words begin, from 0
---@return celer.range_mapper
function M.new(name, future, word)
  local map = mapper.another_all(name)
  all[map] = { fence = future.handles[1], word = word, rules = {} }
  return map
end

--- The rule for an access by a mapper, of the one that it has been compiled to.
---@param map celer.range_mapper
---@param rule userdata
---@return userdata
function M.rule(map, rule)
  local one = all[map]
  if not one then return rule end
  one.rules[rule] = one.rules[rule] or core.late(rule, one.fence, one.word)
  return one.rules[rule]
end

--- Whether it is one.
---@param map celer.range_mapper
---@return boolean
function M.is_late(map) return all[map] ~= nil end

return M
