--- form.lua -- forms of tasks: what capture.lua made of a function, for all that are
--- like it.
---
--- A loop that submits one function again and again, or one that it makes anew in each
--- step, would have it encoded each time. What the encoder looks at is noted as it goes,
--- step by step. core_form.c goes through the steps again for another function of the
--- same code: variables, globals and arguments that hold values may hold others then,
--- which it takes; functions may be other closures of the same code, which share the
--- same variables; all else must be what it was. Tables and other values that may change
--- inside are encoded each time.
--- Forms keep neither functions nor buffers alive.
local core = require "celer.core"
local util = require "jit.util"
local tables = require "celer.tables"

local M = {}

local each = tables.each
local sources, whats
if core.form_words then -- not in a lane, which encodes nothing
  sources, whats, M.MOST_VALUES, M.LONGEST_VALUE = core.form_words()
end

local MOST = 16 -- forms of one code; where all differ the oldest goes
local MOST_CODES = 256 -- that have forms; then all are forgotten

local weak = { __mode = "v" }
local by_code, codes = {}, 0 -- lists, the newest form first

---@class celer.notes
---@field steps number[]  as core_form.c reads them
---@field known any[]  held weakly: the key, then what steps name by its place
---@field kept any[]  `known`, and prototypes
---@field at number[]|false  source, a and b of the step at hand
local Notes = {}
Notes.__index = Notes

local function ignore() end
--- For what is no task.
M.unread = setmetatable({}, { __index = function() return ignore end })

--- Notes for one encoding, where the task has this key.
---@param key any[]
---@return celer.notes
function M.notes(key)
  local known = setmetatable({}, weak)
  for i = 1, #key do known[i] = key[i] end
  return setmetatable({ steps = {}, known = known, n = #key, keys = #key,
    kept = { known }, at = false }, Notes)
end

local function add(self, source, a, b, what, c)
  local steps = self.steps
  if not steps then return end
  local n = #steps
  steps[n + 1], steps[n + 2], steps[n + 3], steps[n + 4], steps[n + 5] = source, a, b,
    what, c
end

local function place(self, value)
  self.n = self.n + 1
  self.known[self.n] = value
  return self.n
end

-- ---- where the encoder looks --------------------------------------------------

function Notes:main() self.at = { sources.main, 0, 0 } end
function Notes:upvalue(f, i) self.at = { sources.upvalue, f, i } end
function Notes:argument(i) self.at = { sources.argument, 0, i } end

--- A global that is there.
function Notes:global(env, name)
  self.at = { sources.global, place(self, env), place(self, name) }
end

--- A variable that was looked at before.
function Notes:shared(f, i, cell) add(self, sources.shared, f, i, 0, cell) end

--- A function's environment.
function Notes:environment(f, env)
  add(self, sources.environment, f, 0, whats.exact, place(self, env))
end

--- What a table holds: a library's global or none, a loaded module.
function Notes:field(holder, key, value)
  local a, b = place(self, holder), place(self, key)
  if value == nil then add(self, sources.field, a, b, whats.nothing, 0)
  else add(self, sources.field, a, b, whats.exact, place(self, value)) end
end

-- ---- what is there ------------------------------------------------------------

local function found(self, what, c)
  local at = self.at
  if not at then return self:give_up() end
  self.at = false
  add(self, at[1], at[2], at[3], what, c)
end

function Notes:value() found(self, whats.value, 0) end
function Notes:is(value) found(self, whats.exact, place(self, value)) end
function Notes:same(index) found(self, whats.same, index) end

-- Whether a function of the same code is a module: another such function could be, too.
local function is_like_module(code)
  for _, module in each(package.loaded) do
    if type(module) == "function" and core.code(module) == code then return true end
  end
  return false
end

--- A function that is copied. One of celer's own is so only where it is no module's.
function Notes:a_function(f, of_celer)
  local code = core.code(f)
  if not code or of_celer or is_like_module(code) then return self:give_up() end
  self.kept[#self.kept + 1] = util.funcinfo(f).proto
  found(self, whats["function"], code)
end

--- Something was looked at that may change unseen.
function Notes:give_up() self.steps = false end

-- ---- forms ----------------------------------------------------------------------

local function keep(code, form)
  local list = by_code[code]
  if not list then
    if codes == MOST_CODES then by_code, codes = {}, 0 end
    list, codes = {}, codes + 1
    by_code[code] = list
  end
  table.insert(list, 1, form)
  list[MOST + 1] = nil
end

--- The form of `f`, which was encoded with these notes, and its values.
---@param f function
---@param encoded string
---@param identity string  what ranks must agree on
---@param values any[]
---@param n integer
---@return userdata form, string values
function Notes:form(f, encoded, identity, values, n)
  local code = core.code(f)
  local form, packed, again = core.form(encoded, identity, values, n,
    code and self.steps, self.kept, self.keys)
  if again then keep(code, form) end
  return form, packed
end

--- A form for `f` with these arguments and this key, and its values; nil where none is.
---@param f function
---@param arguments {n: integer}
---@param key any[]
---@return userdata? form, string? values
function M.recall(f, arguments, key)
  return core.recall(by_code, key, f, unpack(arguments, 1, arguments.n))
end

--- Submits a host task of f that touches nothing and has no range, if there is a form for it
--- and for these arguments: false where there is none; else as core.submit_host.
---@param key any[]
---@param division ffi.cdata*  and handles: as hints.lua has them
---@param name string
---@param f function
---@param ... any
function M.submit(key, division, handles, name, f, ...)
  return core.submit_recalled(by_code, key, division, handles, name, f, ...)
end

return M
