--- known.lua -- range mappers that were met before, recognised at a glance.
---
--- A loop submits the same mappers in each step, often as new closures of the same
--- code. What one came to is kept for its code, the buffer's extent and the index
--- space, with all that it captured then; where that is unchanged but for numbers
--- that are parameters, so is its rule. trace.lua is asked about everything else.
---
--- What is kept holds what mappers captured, up to a limit.
local closure = require "celer.mapper.closure"
local confirm = require "celer.mapper.confirm"
local each = require("celer.tables").each

local M = {}

local getupvalue, fingerprint = debug.getupvalue, closure.fingerprint
local known, is_whole = closure.known, closure.is_whole
local MOST = 4 -- for one code and extent
local LIMIT = 1024 -- codes and extents

-- code -> extent -> array of entries, the newest first
local by_code, extents = {}, 0

---@class celer.known_mapper
---@field range celer.box  the very one
---@field extent celer.box
---@field rule userdata
---@field params integer[]
---@field desc celer.rule_desc
---@field owner (function|false)[]  whose upvalue; false: the mapper's own
---@field index integer[]
---@field value any[]
---@field param table<integer, integer>  which parameter it is, if it is one
---@field globals {owner: function|false, name: any, value: any}[]
---@field check? fun(f: function, params: integer[]): boolean

-- New parameters where one of them is another number now; false where anything
-- else is.
local function look(entry, f)
  local owner, index, value, params = entry.owner, entry.index, entry.value, entry.params
  for k = 1, #index do
    local _, now = getupvalue(owner[k] or f, index[k])
    if not rawequal(now, value[k]) then
      local p = entry.param[k]
      if not p or not is_whole(now) then return false end
      if params == entry.params then params = { unpack(params) } end
      params[p] = now
    end
  end
  for _, g in ipairs(entry.globals) do
    if not rawequal(getfenv(g.owner or f)[g.name], g.value) then return false end
  end
  return params
end

--- What tells whether the rule holds for other numbers.
---@param entry celer.known_mapper
---@return fun(f: function, params: integer[]): boolean
function M.check_of(entry)
  entry.check = entry.check or confirm.spot_check(entry.desc, entry.range, entry.extent)
  return entry.check
end

-- The parameters now; nil where it is not the same rule.
local function params_of(entry, f)
  local params = look(entry, f)
  if not params or params == entry.params then return params or nil end
  if not M.check_of(entry)(f, params) then return nil end
  for k, p in each(entry.param) do entry.value[k] = params[p] end
  entry.params = params
  return params
end

--- Whether a mapper is recognised as that very function, not by its code.
function M.is_exact(f) return known(f) ~= nil end

local function code_of(f) return known(f) and f or fingerprint(f) end

--- What is known of a mapper, with its parameters as they are now; nil when that is
--- nothing. Index space and extent are recognised as objects.
---@param f function
---@param range celer.box
---@param extent celer.box
---@return celer.known_mapper?
function M.entry(f, range, extent)
  local by_extent = by_code[code_of(f)]
  local entries = by_extent and by_extent[extent]
  if not entries then return nil end
  for i = 1, #entries do
    local entry = entries[i]
    if rawequal(entry.range, range) and params_of(entry, f) then return entry end
  end
end

--- Its rule and its parameters; nil when it is not known.
---@param f function
---@param range celer.box
---@param extent celer.box
---@return userdata? rule, integer[]? params
function M.find(f, range, extent)
  local entry = M.entry(f, range, extent)
  if entry then return entry.rule, entry.params end
end

-- Which number is which parameter, by cell.
local function parameters(read, variant)
  local out = {}
  for p, k in ipairs(variant.params) do out[read.numbers[k]] = p end
  return out
end

-- What is known needs no look at what it captured; boxes may change inside. Of what two
-- functions share each is looked at, for closures made anew need not share it.
local function note(entry, f, read, variant)
  local param = parameters(read, variant)
  local function see(cell, place)
    local n = #entry.index + 1
    entry.owner[n], entry.index[n] = place.at > 1 and read.functions[place.at] or false, place.i
    entry.value[n] = closure.get(read, cell)
    entry.param[n] = param[cell]
  end
  for _, cell in ipairs(known(f) and {} or read.cells) do
    if cell.box or (param[cell] and cell.also[1]) then return false end
    see(cell, cell)
    for _, place in ipairs(cell.also) do see(cell, place) end
  end
  for k, g in ipairs(variant.globals) do
    entry.globals[k] = { owner = g.at > 1 and read.functions[g.at] or false, name = g.name,
      value = g.value }
  end
  return true
end

local function entries_of(code, extent)
  local entries = by_code[code] and by_code[code][extent]
  if entries then return entries end
  if extents == LIMIT then by_code, extents = {}, 0 end
  extents = extents + 1
  by_code[code] = by_code[code] or {}
  by_code[code][extent] = {}
  return by_code[code][extent]
end

--- Keeps what trace.rule made of it.
---@param f function
---@param range celer.box
---@param extent celer.box
---@param rule userdata  the engine's
---@param params integer[]  no longer to be changed
---@param read celer.closure  of f
---@param variant celer.variant
function M.keep(f, range, extent, rule, params, read, variant)
  local entry = { range = range, extent = extent, rule = rule, params = params,
    desc = variant.rule.desc, owner = {}, index = {}, value = {}, param = {}, globals = {} }
  if not note(entry, f, read, variant) then return end
  local entries = entries_of(code_of(f), extent)
  table.insert(entries, 1, entry)
  entries[MOST + 1] = nil
end

return M
