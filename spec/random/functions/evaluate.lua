--- evaluate.lua -- a reference evaluator: what a kernel made of a function has to compute.
---
--- It runs the function's own instructions, each number in the kind that the guide says. What
--- kind a variable has follows from all ways on which it gets a value, so the instructions are
--- first gone through with values of which only the kind is known, until nothing changes. That
--- gives each instruction as a closure, and what a jump rounds. Then items run.
---
--- It knows nothing of the compiler but the table of numbers and which loops are written out:
--- there each turn has kinds of its own.
local decode = require "decode"
local instructions = require "instructions"
local kinds = require "kinds"
local values = require "values"

local M = {}

local MOST_TURNS, LARGEST = 16, 2048 -- of loops that are written out

-- A part of a function's code, of which there are several where a loop is written out.
---@class reference.copy
---@field frame table  of a call: f, code, returns
---@field outer? reference.copy
---@field first integer  instructions
---@field last integer
---@field times integer  copies of it
---@field name string
---@field before table<integer, table>  what slots hold before each instruction
---@field again table<integer, table>  what jumps back bring
---@field ways table<integer, table<string, table>>  from each instruction
---@field acts table<integer, function>

local function new_copy(self, frame, outer, first, last, times, name)
  local key = ("%d %s %d"):format(frame.number, name, first)
  local copy = self.copies[key]
  if not copy then
    copy = { frame = frame, outer = outer, first = first, last = last, name = name, again = {},
      nodes = {} }
    self.copies[key] = copy
  end
  copy.times, copy.before, copy.ways, copy.acts = times, {}, {}, {}
  return copy
end

local function joined(a, b)
  if not a then return b, true end
  local out, changed = {}, false
  for slot, value in pairs(a) do
    out[slot] = values.join(value, b[slot] or values.none)
    changed = changed or out[slot].key ~= value.key
  end
  for slot, value in pairs(b) do
    if not a[slot] then
      out[slot] = values.join(values.none, value)
      changed = true
    end
  end
  return out, changed
end

local Run = {}
Run.__index = Run

--- Goes on at another instruction, with what the slots hold then.
function Run:go(copy, pc, way, to, slots)
  local target = copy
  while to < target.first or to > target.last do target = target.outer end
  copy.ways[pc] = copy.ways[pc] or {}
  copy.ways[pc][way] = { copy = target, pc = to, slots = slots }
  if to > pc then
    target.before[to] = joined(target.before[to], slots)
  else
    local changed
    target.again[to], changed = joined(target.again[to], slots)
    self.changed = self.changed or changed
  end
end

-- The counts of a loop that is written out; nil for others.
local function counts(self, copy, pc, i, slots)
  local first, last, step = slots[i.a], slots[i.a + 1], slots[i.a + 2]
  if not self.writes_out or not values.is_count(first) or not values.is_count(last)
    or not values.is_count(step) or step.k == 0 then
    return nil
  end
  local out = {}
  local k = first.k
  while (step.k > 0 and k <= last.k or step.k < 0 and k >= last.k) and #out <= MOST_TURNS do
    out[#out + 1] = k
    k = k + step.k
  end
  if #out == 0 or #out > MOST_TURNS or copy.times * #out * (i.to - 1 - pc) > LARGEST then
    return nil
  end
  for at = pc + 1, i.to - 2 do
    if copy.frame.code[at].to == pc + 1 then return nil end
  end
  return out
end

local function copied(slots)
  local out = {}
  for slot, value in pairs(slots) do out[slot] = value end
  return out
end

local go_through

-- Goes through the copies of a loop's body.
local function write_out(self, copy, pc, i, slots, list)
  local last = i.to - 1
  local from, way, state = { copy, pc }, "next", slots
  for turn, k in ipairs(list) do
    local body = new_copy(self, copy.frame, copy, pc + 1, last, copy.times * #list,
      ("%s/%d:%d"):format(copy.name, pc, turn))
    local all = copied(state)
    all[i.a + 3] = values.number(k, body.name, true)
    body.before[pc + 1] = all
    local ways = from[1].ways
    ways[from[2]] = ways[from[2]] or {}
    ways[from[2]][way] = { copy = body, pc = pc + 1, slots = all }
    body.acts[last] = instructions.pass
    if turn == 1 then copy.acts[pc] = instructions.set(i.a + 3, k) end
    go_through(self, body, pc + 1, last - 1)
    state, from = body.before[last], { body, last }
    if not state then return last end
    if list[turn + 1] then body.acts[last] = instructions.set(i.a + 3, list[turn + 1]) end
  end
  self:go(from[1], from[2], way, i.to, state)
  return last
end

-- What the slots hold at an instruction; of those that a loop assigns to, no number is known.
local function state_at(copy, pc)
  local state = copy.before[pc]
  if not state then return nil end
  local assigned = copy.frame.code.assigned[pc]
  if not assigned or copy.outer and pc == copy.first then return state end
  if copy.again[pc] then state = joined(state, copy.again[pc]) end
  local out = {}
  for slot, value in pairs(state) do
    out[slot] = assigned[slot] and values.unknown(value) or value
  end
  return out
end

function go_through(self, copy, first, last)
  local code, pc = copy.frame.code, first
  while pc <= last do
    local state = state_at(copy, pc)
    if state then
      copy.before[pc] = state
      local i = code[pc]
      local list = i.op == "FORI" and counts(self, copy, pc, i, state)
      if list then
        pc = write_out(self, copy, pc, i, state, list)
      else
        local slots = copied(state)
        copy.acts[pc] = instructions.run(self, copy, pc, i, slots)
        for _, value in pairs(slots) do self.floats = self.floats or value.kind == "F" end
      end
    end
    pc = pc + 1
  end
end

--- Goes through a function that is called; gives what its results are, and the call.
function Run:call(f, arguments, name, times)
  local frame = self.frames[name]
  if not frame then
    self.calls = self.calls + 1
    frame = { f = f, code = decode.of(f), number = self.calls, name = name }
    self.frames[name] = frame
  end
  frame.returns = nil
  local code = frame.code
  local copy = new_copy(self, frame, nil, 1, #code, times, "")
  local slots = {}
  for k = 0, code.params - 1 do slots[k] = arguments[k + 1] or values.none end
  copy.before[1] = slots
  go_through(self, copy, 1, #code)
  return frame.returns or {}, copy
end

--- Ends a function; gives what does so for an item.
---@param copy reference.copy
---@param list table[]  what it returns
---@param list_of fun(slots: table): any[]
function Run.leave(_, copy, list, list_of)
  local frame, out = copy.frame, {}
  local before = frame.returns
  for k = 1, math.max(#list, before and #before or 0) do
    out[k] = before and values.join(before[k] or values.none, list[k] or values.none) or list[k]
  end
  frame.returns = out
  return function(s)
    local results = list_of(s)
    for k, value in ipairs(frame.returns) do
      if value.kind == "F" then results[k] = kinds.round(results[k]) end
    end
    s.results = results
  end
end

-- ---- items ----------------------------------------------------------------------------------

-- The slots that going to another instruction rounds, as there a variable is a float.
local function rounded(way)
  local out = {}
  local after = way.copy.before[way.pc]
  for slot, value in pairs(after) do
    if value.kind == "F" and way.slots[slot] and way.slots[slot].kind == "W" then
      out[#out + 1] = slot
    end
  end
  return #out > 0 and out or nil
end

local node_at

local function follow(way)
  local node, slots = node_at(way.copy, way.pc), rounded(way)
  if not slots then return node end
  return { run = function(s)
    for _, slot in ipairs(slots) do s[slot] = kinds.round(s[slot]) end
    return node
  end }
end

local STRAIGHT = 100 -- instructions that are run at once: some go round for ever

-- An instruction as what runs it, and those behind it that only go on, and gives the next one.
-- An act gives false to take the other way; `instructions.leave` ends the function.
local function make_node(copy, pc)
  local act, ways = copy.acts[pc], copy.ways[pc] or {}
  if not act then error(("nothing is known of instruction %d"):format(pc)) end
  if ways.other then
    local yes, no = follow(ways.next or ways.other), follow(ways.other)
    return function(s) if act(s) then return yes end return no end
  elseif ways.next then
    local acts, way = { act }, ways.next
    for _ = 1, rounded(way) and 0 or STRAIGHT do
      local behind, more = way.copy.acts[way.pc], way.copy.ways[way.pc]
      if not behind or not more or more.other then break end
      if behind ~= instructions.pass then acts[#acts + 1] = behind end
      way = more.next
      if rounded(way) then break end
    end
    local node, n = follow(way), #acts
    return function(s)
      for k = 1, n do acts[k](s) end
      return node
    end
  end
  return function(s)
    act(s)
    return nil
  end
end

function node_at(copy, pc)
  local node = copy.nodes[pc]
  if node then return node end
  node = {}
  function node.run(s)
    node.run = make_node(copy, pc)
    return node.run(s)
  end
  copy.nodes[pc] = node
  return node
end

function Run.execute(copy, arguments)
  local slots = {}
  for k = 0, copy.frame.code.params - 1 do slots[k] = arguments[k + 1] end
  local node = node_at(copy, 1)
  while node do node = node.run(slots) end
  return slots.results
end

-- ---- all of it --------------------------------------------------------------------------------

---@class reference.array  a parameter that is a buffer
---@field dims integer
---@field type string  of an element, or of the fields by their paths
---@field types? table<string, string>
---@field size table<integer, integer>
---@field read fun(index: integer[], field: string): number|boolean
---@field write fun(index: integer[], field: string, value: number|boolean)

-- What a parameter is.
local function parameter(given)
  if type(given) == "number" then return values.of "W" end
  if type(given) == "boolean" then return values.bool end
  if given.record then return values.thing("host", given.record) end
  if given.is_set then return values.thing("scalar", given) end
  if given.dims == 0 then return values.of(kinds.of_type(given.type)) end
  return values.thing("array", given)
end

--- A function, ready to run for items.
---@param f function
---@param items integer  coordinates
---@param arguments (number|boolean|reference.array)[]
---@param writes_out boolean  loops of few turns are written out
---@return fun(...: integer) run  for the item of these coordinates
---@return boolean floats  it computes with some
function M.new(f, items, arguments, writes_out)
  local self = setmetatable({ copies = {}, frames = {}, calls = 0, own = {}, floats = false,
    writes_out = writes_out }, Run)
  local abstract = {}
  for _ = 1, items do abstract[#abstract + 1] = values.of "W" end
  for _, given in ipairs(arguments) do abstract[#abstract + 1] = parameter(given) end
  local copy
  repeat
    self.changed = false
    copy = select(2, self:call(f, abstract, "kernel", 1))
  until not self.changed
  return function(...)
    local all = { ... }
    for k, given in ipairs(arguments) do
      local is_number = type(given) == "table" and given.dims == 0 and not given.is_set
      all[items + k] = is_number and given.read({}, "") or given
      if type(given) == "table" and given.record then all[items + k] = given.record end
    end
    Run.execute(copy, all)
  end, self.floats
end

return M
