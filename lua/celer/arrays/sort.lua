--- sort.lua -- celer.sort: the elements of a buffer in order, and others by them.
local buffers = require "celer.data.buffer"
local collective = require "celer.submit.collective"
local mapper = require "celer.mapper.builtin"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local sorting = require "celer.arrays.sorting"
local words = require "celer.words"

local fail = place.fail

local M = {}

local call = "celer.sort"
local known_options = { descending = true }
local classes = { i = true, u = true, b = true, f = true }

local function check(i, list)
  local buffer, keys = list[i], list[1]
  if not buffers.is_buffer(buffer) then
    fail("%s: argument %d is a buffer, not %s", call, i, words.a(buffer))
  elseif buffer.freed then
    fail("%s: the buffer %s was freed", call, buffer.name)
  elseif buffer.dims ~= 1 then
    fail("%s: %s has %s; what is sorted has one", call, buffer.name,
      words.count(buffer.dims, "dimension"))
  elseif buffer.size[0] ~= keys.size[0] then
    fail("%s: %s has %.0f elements, and the keys %s have %.0f", call, buffer.name, buffer.size[0],
      keys.name, keys.size[0])
  end
  for k = 1, i - 1 do
    if list[k] == buffer then fail("%s: %s is given twice", call, buffer.name) end
  end
end

local function check_keys(keys)
  if classes[keys.type.class] then return end
  fail("%s: keys are numbers; %s has elements of type %s", call, keys.name, keys.type.name)
end

-- The buffers among so many arguments, and whether the largest comes first.
local function arguments(n, ...)
  local list = { ... }
  local last, options = list[n], {}
  if n > 1 and type(last) == "table" and not getmetatable(last) then
    options = words.check_options(call, last, known_options, "{ descending = true }")
    n = n - 1
    list[n + 1] = nil
  end
  for i = 1, math.max(n, 1) do check(i, list) end
  check_keys(list[1])
  if options.descending ~= nil and type(options.descending) ~= "boolean" then
    fail("%s: descending is true or false, not %s", call, words.a(options.descending))
  end
  return list, options.descending or false
end

--- Sorts a buffer of numbers, of one dimension, in place; and by it other buffers of as many
--- elements, of any type: what belongs to a key stays with it. Equal keys keep their order. A NaN
--- is larger than all else. `{ descending = true }` as the last argument: the largest first. The
--- result is the same on any number of ranks. One task of all ranks, in host memory.
---@param keys celer.buffer
---@param ... celer.buffer|{descending: boolean?}
function M.sort(keys, ...)
  local list, descending = arguments(1 + select("#", ...), keys, ...)
  queues.run(call, function(cg)
    cg:name(call)
    local accesses = {}
    for i, buffer in ipairs(list) do accesses[i] = cg:read_write(buffer, mapper.even_split) end
    cg:host_task(collective.collective(call), sorting.sort, descending, keys.size[0],
      unpack(accesses))
  end)
end

return M
