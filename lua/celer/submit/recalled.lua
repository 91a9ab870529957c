--- recalled.lua -- functions of q:submit that are not run again.
---
--- A loop submits closures of one code, made anew in each step. celer does not run such a
--- function where that cannot make a difference: it submits what a closure of the same code
--- came to. This is q:group without the word. What a function may do, and how all that it
--- reads is compared, stands in reads.lua; prepared.lua finds out what it comes to, with tokens
--- in place of the variables that change from one closure to the next. So these may be buffers
--- and numbers, which go to accesses and to the kernel. All other variables are compared. They
--- are those of the closure at hand: two closures of one code have the same variables, by their
--- numbers. Whatever cannot be told so is run, as before.
---
--- What is kept holds numbers and texts that functions read, and the functions' code, but no
--- closure and no table that they read: once one of these is collected, nothing is equal to it.
local util = require "jit.util"
local balance = require "celer.submit.balance"
local buffers = require "celer.data.buffer"
local core = require "celer.core"
local place = require "celer.place"
local prepared = require "celer.submit.prepared"
local settings = require "celer.settings"

local M = {}

local PATIENCE = 4 -- submissions of one code before it is looked into
local TRIES = 16 -- how often that is done
local VAIN = 8 -- submissions in a row that nothing known is like, before that is given up
local MOST = 4 -- sets for one code
local MOST_CODES = 512 -- that are remembered
local recall, code_of = core.recall_with(buffers.Buffer), core.code_of
local ways = core.facts.recall
local getupvalue = debug.getupvalue
local weak = { __mode = "v" }

-- By code: a list of sets, or false where it is always run. A set keeps its code, so that no
-- other one comes to its address.
local sets, states, codes = {}, {}, 0
local hints, weights -- for which they hold

--- Whether functions are recalled at all.
M.on = true

--- Submits what it is known to come to. Otherwise it has to be run: nil, where M.note wants to
--- know of that, or false.
---@param f fun(cg: celer.command_group)
---@param now table|false  hints of the queue
---@return boolean?
function M.submit(f, now)
  if settings.looks or not M.on then return false end
  if hints ~= now or weights ~= balance.weights then return nil end
  local made, came_to = recall(sets, f)
  if not made or made == true then return made end
  place.check(core.finish_prepared(made, came_to))
  return true
end

-- ---- making one ------------------------------------------------------------------

-- Slots of tables and functions, which are held weakly, and of other values.
local function slots()
  local kept, seen, n, m = {}, setmetatable({}, weak), 0, 0
  local function see(value)
    m = m + 1
    seen[m] = value
    return m
  end
  local function slot(value)
    if value == nil then return 0, 0 end
    if type(value) == "table" or type(value) == "function" then return see(value), 1 end
    n = n + 1
    kept[n] = value
    return n, 0
  end
  return kept, seen, see, slot
end

-- What core_recall.c compares, five numbers for each.
local function checks_of(f, reads, see, slot)
  local out = {}
  local function add(...)
    for i = 1, 5 do out[#out + 1] = (select(i, ...)) end
  end
  for _, read in ipairs(reads) do
    local value, is_weak = slot(read.value)
    if read.way == "keys" then
      add(ways.keys, see(read.owner), read.value, 0, 0)
    elseif read.owner == f then
      add(ways.own, 0, read.key, value, is_weak)
    elseif read.way == "variable" then
      add(ways.variable, see(read.owner), read.key, value, is_weak)
    else
      add(ways[read.way], see(read.owner), (slot(read.key)), value, is_weak)
    end
  end
  return out
end

local function set_of(f, variables, how)
  local kept, seen, see, slot = slots()
  local checks, kinds, from = checks_of(f, how.reads, see, slot), {}, {}
  for k, i in ipairs(variables) do
    kinds[2 * k - 1], kinds[2 * k] = i, how.kinds[k] == "buffer" and 1 or 0
  end
  for i, at in ipairs(how.buffers) do from[i] = at > 0 and at or -see(how.handles[i]) end
  return core.remember(how.made, util.funcinfo(f).proto, kept, seen, checks, kinds, from,
    how.values)
end

local function keep(code, set)
  local list = sets[code] or {}
  sets[code] = list
  table.insert(list, 1, set)
  list[MOST + 1] = nil
end

-- Looks into it, with some variables as arguments; whether it could be prepared.
local function try(f, code, variables)
  local ok, how = pcall(prepared.come_to, f, hints, variables)
  local set = ok and how.made and set_of(f, variables, how)
  if set then keep(code, set) end
  return set ~= nil and set ~= false
end

-- ---- when ------------------------------------------------------------------------

local function kind_of(value)
  return type(value) == "number" and "number" or buffers.is_buffer(value) and "buffer" or nil
end

-- Notes which variables are other buffers or numbers than before.
local function note_changes(state, f)
  local last = state.last
  for i = 1, 255 do
    local name, value = getupvalue(f, i)
    if not name then return end
    local kind = kind_of(value)
    if state.count > 1 and kind and kind == state.kinds[i] and not rawequal(value, last[i]) then
      state.changes[i] = true
    end
    state.kinds[i], last[i] = kind, value
  end
end

--- Forgets all, as for a new queue.
function M.forget()
  sets, states, codes = {}, {}, 0
end

local function state_of(code)
  local state = states[code]
  if state then return state end
  if codes == MOST_CODES then M.forget() end
  codes = codes + 1
  state = { count = 0, tries = 0, vain = 0, changes = {}, kinds = {},
    last = setmetatable({}, weak) }
  states[code] = state
  return state
end

-- Whether it is worth a look: false once it is always run.
local function is_promising(state, code)
  local list = sets[code]
  if not list then return true end
  state.vain = list[0] and 0 or state.vain + 1
  list[0] = nil
  if state.vain >= VAIN then sets[code] = false end
  return state.vain < VAIN and state.tries < TRIES
end

--- Takes note of a function that was run, and looks into it once it has come a few times.
---@param f fun(cg: celer.command_group)
---@param now table|false  hints of the queue
function M.note(f, now)
  if hints ~= now or weights ~= balance.weights then M.forget() end
  hints, weights = now, balance.weights
  local code = code_of(f)
  if not code then return end
  local state = state_of(code)
  state.count = state.count + 1
  note_changes(state, f)
  if state.count < PATIENCE or not is_promising(state, code) then return end
  state.tries = state.tries + 1
  local variables = {}
  for i = 1, 255 do
    if state.changes[i] and state.kinds[i] then variables[#variables + 1] = i end
  end
  if try(f, code, variables) or variables[1] and try(f, code, {}) then return end
  sets[code] = false
end

return M
