--- bound.lua -- range mappers that were met before, recognised at a glance.
---
--- A loop submits the same mappers in each step, often as new closures of the same
--- code. What one came to is kept for its code, the buffer's extent and the index
--- space, with all that it captured then; where that is unchanged, so is its rule.
--- trace.lua is asked about everything else.
---
--- What is kept holds what mappers captured, a few at a time for each code.
local closure = require "celer.closure"

local M = {}

local getupvalue, fingerprint = debug.getupvalue, closure.fingerprint
local known = closure.known
local MOST = 4 -- for one code and extent

local by_code = {} -- code -> extent -> array of entries, the newest first

---@class celer.bound
---@field range celer.box  the very one
---@field rule userdata
---@field params integer[]
---@field owner (function|false)[]  whose upvalue; false: the mapper's own
---@field index integer[]
---@field value any[]
---@field globals {at: integer, name: any, value: any}[]

local function holds(entry, f)
  local owner, index, value = entry.owner, entry.index, entry.value
  for k = 1, #index do
    local _, now = getupvalue(owner[k] or f, index[k])
    if not rawequal(now, value[k]) then return false end
  end
  for _, g in ipairs(entry.globals) do
    if not rawequal(getfenv(g.owner or f)[g.name], g.value) then return false end
  end
  return true
end

local function code_of(f) return known(f) and f or fingerprint(f) end

--- The rule and the parameters of a mapper; nil when it is not known. Index space
--- and extent are recognised as objects.
---@param f function
---@param range celer.box
---@param extent celer.box
---@return userdata? rule, integer[]? params
function M.find(f, range, extent)
  local by_extent = by_code[code_of(f)]
  local entries = by_extent and by_extent[extent]
  if not entries then return nil end
  for i = 1, #entries do
    local entry = entries[i]
    if rawequal(entry.range, range) and holds(entry, f) then
      return entry.rule, entry.params
    end
  end
end

-- What is known needs no look at what it captured; boxes may change inside.
local function note(entry, f, read)
  for _, cell in ipairs(known(f) and {} or read.cells) do
    if cell.box then return false end
    local owner = cell.at > 1 and read.functions[cell.at] or false
    local n = #entry.index + 1
    entry.owner[n], entry.index[n] = owner, cell.i
    entry.value[n] = closure.get(read, cell)
  end
  return true
end

--- Keeps what trace.rule made of it.
---@param f function
---@param range celer.box
---@param extent celer.box
---@param rule userdata  the engine's
---@param params integer[]  no longer to be changed
---@param read celer.closure  of f
---@param globals {at: integer, name: any, value: any}[]
function M.keep(f, range, extent, rule, params, read, globals)
  local entry = { range = range, rule = rule, params = params, owner = {}, index = {},
    value = {}, globals = {} }
  for k, g in ipairs(globals) do
    entry.globals[k] = { owner = g.at > 1 and read.functions[g.at] or false, name = g.name,
      value = g.value }
  end
  if not note(entry, f, read) then return end
  local code = code_of(f)
  local by_extent = by_code[code] or setmetatable({}, { __mode = "k" })
  by_code[code] = by_extent
  local entries = by_extent[extent] or {}
  by_extent[extent] = entries
  table.insert(entries, 1, entry)
  entries[MOST + 1] = nil
end

return M
