--- known.lua -- range mappers that were met before, recognised at a glance.
---
--- A loop submits the same mappers in each step, often as new closures of the same
--- code, which call helpers made anew with them. What one came to is kept for its
--- code, the buffer's extent and the index space, with all that it captured then: a
--- helper by its code and by what that captured, the rest by value. Where that is
--- unchanged but for numbers that are parameters, so is its rule. trace.lua is asked
--- about everything else.
---
--- What is kept holds what mappers captured, up to a limit.
local closure = require "celer.mapper.closure"
local confirm = require "celer.mapper.confirm"
local straight = require "celer.mapper.straight"

local M = {}

local getupvalue, fingerprint = debug.getupvalue, closure.fingerprint
local known, is_whole = closure.known, closure.is_whole
local MOST = 4 -- for one code and extent
local LIMIT = 1024 -- codes and extents

-- code -> extent -> array of entries, the newest first
local by_code, extents = {}, 0

-- Positions of one mapper: 0 is the mapper, k the variable k.
---@class celer.seen_variable
---@field owner integer  position of the function that has it
---@field index? integer  of what is captured; nil: a global
---@field name? any  of the global, or of the library's field
---@field library? table
---@field value any
---@field param? integer  which parameter it is, if it is one
---@field same? integer  position whose value it must be: of what two functions share
---@field code? string  a function, of which only this and what it captured count

---@class celer.known_mapper
---@field range celer.box  the very one
---@field extent celer.box
---@field rule userdata
---@field params integer[]
---@field desc celer.rule_desc
---@field variables celer.seen_variable[]
---@field straight boolean  the rule holds for all numbers and all ranges
---@field checks? fun(f: function, params: integer[]): boolean

local function has_code(f, code)
  return type(f) == "function" and debug.getinfo(f, "S").what ~= "C" and fingerprint(f) == code
end

local function now_of(owner, v)
  if v.library then return rawget(v.library, v.name) end
  if not v.index then return getfenv(owner)[v.name] end
  return (select(2, getupvalue(owner, v.index)))
end

local none = {}

-- New parameters where one of them is another number now; false where anything
-- else is.
local function look(entry, f)
  local params, variables = entry.params, entry.variables
  local seen = variables[1] and {} or none
  for k = 1, #variables do
    local v = variables[k]
    local now = now_of(seen[v.owner] or f, v)
    seen[k] = now
    if v.same then
      if not rawequal(now, seen[v.same] or f) then return false end
    elseif not rawequal(now, v.value) then
      if v.param then
        if not is_whole(now) then return false end
        if params == entry.params then params = { unpack(params) } end
        params[v.param] = now
      elseif not (v.code and has_code(now, v.code)) then
        return false
      end
    end
  end
  return params
end

--- Whether the rule holds for these numbers under this index space, which it was not
--- made for.
---@param entry celer.known_mapper
---@param f function
---@param params integer[]
---@param range celer.box
function M.holds(entry, f, params, range)
  return entry.straight or confirm.spot_check(entry.desc, range, entry.extent)(f, params)
end

-- The parameters now; nil where it is not the same rule.
local function params_of(entry, f)
  local params = look(entry, f)
  if not params or params == entry.params then return params or nil end
  if not entry.straight then
    entry.check = entry.check or confirm.spot_check(entry.desc, entry.range, entry.extent)
    if not entry.check(f, params) then return nil end
  end
  for _, v in ipairs(entry.variables) do
    if v.param then v.value = params[v.param] end
  end
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

-- Which cells, globals and functions a mapper sees, by position. What is known needs no
-- look at what it captured; boxes may change inside: nil.
local function variables_of(f, read, variant)
  if known(f) then return variant.params[1] == nil and none or nil end
  local out, param = {}, parameters(read, variant)
  local functions, cells = { [1] = 0 }, {} -- positions, by their numbers in `read`
  for _, cell in ipairs(read.cells) do
    if cell.box then return nil end
    local v = { owner = functions[cell.at], index = cell.i, value = closure.get(read, cell),
      param = param[cell] }
    out[#out + 1], cells[cell] = v, #out + 1
    if cell.callee then
      v.same = functions[cell.callee]
      v.code = not v.same and fingerprint(v.value) or nil
      functions[cell.callee] = v.same or #out
    end
  end
  -- Closures made anew need not share what two functions shared, so each is looked at.
  for _, cell in ipairs(read.cells) do
    for _, place in ipairs(cell.also) do
      out[#out + 1] = { owner = functions[place.at], index = place.i, same = cells[cell] }
    end
  end
  for _, field in ipairs(read.fields) do
    out[#out + 1] = { owner = 0, library = field.owner, name = field.name, value = field.value }
  end
  for _, g in ipairs(variant.globals) do
    out[#out + 1] = { owner = functions[g.at] or 0, name = g.name, value = g.value }
  end
  return out
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
  local variables = variables_of(f, read, variant)
  if not variables then return end
  local entry = { range = range, extent = extent, rule = rule, params = params,
    desc = variant.rule.desc, variables = variables,
    straight = known(f) ~= nil or straight.is_straight(read, variant.globals) }
  local entries = entries_of(code_of(f), extent)
  table.insert(entries, 1, entry)
  entries[MOST + 1] = nil
end

return M
