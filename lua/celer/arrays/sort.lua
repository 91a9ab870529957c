--- sort.lua -- sort and top: the elements of a buffer in order, and others by them.
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local collective = require "celer.submit.collective"
local contents = require "celer.data.contents"
local given = require "celer.arrays.given"
local make = require "celer.arrays.make"
local mapper = require "celer.mapper.builtin"
local place = require "celer.place"
local queues = require "celer.submit.queue"
local radix = require "celer.arrays.radix"
local sorting = require "celer.arrays.sorting"
local words = require "celer.words"

local fail = place.fail

local M = {}

local call = "celer.sort"
local known_options = { descending = true }
local classes = { i = true, u = true, b = true, f = true }

--- Raises unless it is a buffer of one dimension; `numbers`: and of numbers.
---@param caller string
---@param what string  which argument
---@param buffer any
---@param numbers boolean
function M.check(caller, what, buffer, numbers)
  given.buffer(caller, what, buffer)
  if buffer.dims ~= 1 then
    fail("%s: %s has %s; what is sorted has one", caller, buffer.name,
      words.count(buffer.dims, "dimension"))
  elseif numbers and not classes[buffer.type.class] then
    fail("%s: keys are numbers; %s has elements of type %s", caller, buffer.name, buffer.type.name)
  end
end

local function check(i, list)
  local buffer, keys = list[i], list[1]
  M.check(call, "argument " .. i, buffer, i == 1)
  if buffer.size[0] ~= keys.size[0] then
    fail("%s: %s has %s, and the keys %s have %.0f", call, buffer.name,
      words.count(buffer.size[0], "element"), keys.name, keys.size[0])
  end
  for k = 1, i - 1 do
    if list[k] == buffer then fail("%s: %s is given twice", call, buffer.name) end
  end
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
  if options.descending ~= nil and type(options.descending) ~= "boolean" then
    fail("%s: descending is true or false, not %s", call, words.a(options.descending))
  end
  return list, options.descending or false
end

--- Sorts a buffer of numbers, of one dimension, in place; and by it other buffers of as many
--- elements, of any type: what belongs to a key stays with it. Equal keys keep their order. A NaN
--- is larger than all else. `{ descending = true }` as the last argument: the largest first. The
--- result is the same on any number of ranks. GPUs sort by themselves; where there are several, the
--- script waits until they know what goes to which. Else one task of all ranks, in host memory.
---@param keys celer.buffer
---@param ... celer.buffer|{descending: boolean?}
function M.sort(keys, ...)
  local list, descending = arguments(1 + select("#", ...), keys, ...)
  local parts = radix.parts(keys)
  if parts > 0 then return radix.sort(list, descending, parts) end
  queues.run(call, function(cg)
    cg:name(call)
    local accesses = {}
    for i, buffer in ipairs(list) do accesses[i] = cg:read_write(buffer, mapper.even_split) end
    cg:host_task(collective.collective(call), sorting.sort, descending, keys.size[0],
      unpack(accesses))
  end)
end

--- The k largest numbers of a buffer of one dimension, the largest first, as a new buffer; and
--- their places in it, as another one of int64_t. Of equal ones those at smaller places come first,
--- and a NaN is larger than all else. Sorts a copy.
---@param from celer.buffer
---@param k integer
---@return celer.buffer values, celer.buffer places
function M.top(from, k)
  local caller = "celer.top"
  M.check(caller, "the first argument", from, true)
  local n = from.size[0]
  if type(k) ~= "number" or k % 1 ~= 0 or k < 0 or k > n then
    fail("%s: the second argument is how many, a whole number from 0 to the %.0f elements of %s, "
      .. "not %s", caller, n, from.name, type(k) == "number" and tostring(k) or words.a(k))
  end
  local values, places = buffers.new(from.type, { k }), buffers.new("int64_t", { k })
  local keys, order = buffers.new(from.type, { n }), make.arange("int64_t", n)
  contents.copy(from, keys)
  M.sort(keys, order, { descending = true })
  local first = { part = box.new({ 0 }, { k }) }
  contents.copy(keys, values, first)
  contents.copy(order, places, first)
  keys:free()
  order:free()
  return values, places
end

return M
