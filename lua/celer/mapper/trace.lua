--- trace.lua -- from a range mapper to a rule.
---
--- The mapper is called once with a symbolic chunk; what it returns are
--- expressions (symbol.lua). They are then *confirmed* (confirm.lua): the mapper
--- and the compiled program must agree on corner chunks and random chunks of the
--- actual range. A mapper that cannot be put so is *opaque*: evaluated chunk by
--- chunk (asked.lua).
---
--- Captured whole numbers become parameters where the trace shows them in
--- bounds alone and further values confirm it, so that a closure made anew in
--- each step, with another number, is recognised and not traced again. What else
--- it captured is part of its key; one that reads what may change unseen is
--- traced at each use.
local asked = require "celer.mapper.asked"
local box = require "celer.box"
local closure = require "celer.mapper.closure"
local core = require "celer.core"
local codes = require "celer.mapper.code"
local confirm = require "celer.mapper.confirm"
local symbol = require "celer.symbol"

-- A trace compiled from here would hold a mapper's captured variables as the
-- constants that they were, and this file changes them.
jit.off(true, true)

local M = {}

local MOST_PARAMS, MOST_VARIANTS = core.facts.limit.rule_params, 16

---@class celer.rule_desc
---@field task_dims integer
---@field buffer_dims integer
---@field boxes integer
---@field params integer
---@field clamp boolean[]  per box
---@field each integer[]  per box: 0, or 1 more than the dimension along which it is one for
---                       each index
---@field spans integer[]  start and length of each program: by box, dimension,
---                        lower then upper bound
---@field code integer[]  the words of cel_rule_desc

---@class celer.rule
---@field desc celer.rule_desc?  nil when opaque
---@field opaque boolean
---@field reason string?  why it is opaque
---@field volatile string?  why it is traced at each use

-- ---- programs ---------------------------------------------------------------

-- A symbolic chunk and buffer for these dimensions.
local function symbolic(task_dims, buffer_dims)
  local lo, hi, global, size = {}, {}, {}, {}
  for d = 0, task_dims - 1 do
    lo[d + 1] = symbol.variable("min", d)
    hi[d + 1] = symbol.variable("max", d)
    global[d + 1] = symbol.variable("global_max", d) - symbol.variable("global_min", d)
  end
  for d = 0, buffer_dims - 1 do size[d + 1] = symbol.variable("buffer", d) end
  return box.chunk(task_dims, lo[1], lo[2], lo[3], hi[1], hi[2], hi[3], global[1],
    global[2], global[3]), box.shape(buffer_dims, size[1], size[2], size[3])
end

local function compile_boxes(boxes, each, task_dims, buffer_dims, params)
  local desc = { task_dims = task_dims, buffer_dims = buffer_dims, boxes = #boxes,
    params = params, clamp = {}, each = each, spans = {}, code = {} }
  local code, spans = desc.code, desc.spans
  for b, one in ipairs(boxes) do
    desc.clamp[b] = one.clamp or false
    for d = 0, buffer_dims - 1 do
      for _, bound in ipairs({ one.min, one.max }) do
        local start = #code
        symbol.emit(bound[d], code)
        spans[#spans + 1] = start
        spans[#spans + 1] = #code - start
      end
    end
  end
  return desc
end

-- ---- tracing ----------------------------------------------------------------

--- Calls fn(...) without the JIT: it would take a captured variable for the constant
-- that it was when the code was compiled, and we are about to change it. All that
-- was compiled goes, as such code need not belong to the mapper: what begins in a
-- function that the mapper calls may lead back into the mapper.
function M.interpreted(fn, ...)
  local on, n, given = jit.status(), select("#", ...), { ... }
  return (core.finally(function()
    jit.flush()
    jit.off()
    return fn(unpack(given, 1, n))
  end, function()
    if on then jit.on() end
  end))
end

-- Calls fn while each cell holds values[cell] (where there is one); the name of
-- a variable that fn assigned to, or nil. What fn raises is returned.
local function with_values(read, values, fn)
  local held, n, changed, ok, result = {}, 0, nil, nil, nil
  core.finally(function()
    for i, cell in ipairs(read.cells) do
      held[cell], n = closure.get(read, cell), i
      if type(values[cell]) ~= "nil" then closure.set(read, cell, values[cell]) end
    end
    ok, result = pcall(fn)
  end, function()
    for i = 1, n do
      local cell = read.cells[i]
      local expected = values[cell]
      if type(expected) == "nil" then expected = held[cell] end
      if not rawequal(closure.get(read, cell), expected) then changed = cell.name end
      closure.set(read, cell, held[cell])
    end
  end)
  return ok, result, changed
end

-- Calls fn while the globals of the functions are watched. `seen` gets the
-- names that were read; assigned to is refused.
local function with_globals(read, seen, fn)
  local held = {}
  return core.finally(function()
    for at, f in pairs(read.functions) do
      local env = getfenv(f)
      held[at] = env
      setfenv(f, setmetatable({}, {
        __index = function(_, name)
          local value = env[name]
          if value == math then return symbol.math end
          seen[#seen + 1] = { at = at, name = name, value = value }
          return symbol.stands_for[value] or value
        end,
        __newindex = function(_, name)
          symbol.refuse(("it assigns to the global '%s'"):format(tostring(name)))
        end,
      }))
    end
    return fn()
  end, function()
    for at, env in pairs(held) do setfenv(read.functions[at], env) end
  end)
end

-- Why a trace failed that nothing refused: what is looked up by a symbol is nil.
local function needs_numbers(text)
  return "it needs numbers, as for looking something up, not symbols: "
    .. text:gsub("^[^\n:]+:%d+: ", "")
end

-- One trace with the numbers of the set `chosen` as parameters. A description,
-- or nil and the reason; and the globals read.
local function attempt(read, f, task_dims, buffer_dims, chosen)
  symbol.begin()
  local values, seen = {}, {}
  for k, cell in ipairs(chosen) do
    values[cell] = symbol.variable("param", k - 1)
  end
  for _, cell in ipairs(read.cells) do
    if cell.value == math then
      values[cell] = symbol.math
    elseif cell.value ~= nil and symbol.stands_for[cell.value] then
      values[cell] = symbol.stands_for[cell.value]
    end
  end
  local chunk, shape = symbolic(task_dims, buffer_dims)
  local each
  local ok, result, changed = with_globals(read, seen, function()
    return with_values(read, values, function()
      local boxes
      boxes, each = asked.symbolic_boxes(buffer_dims, f(chunk, shape))
      return boxes
    end)
  end)
  local desc
  if ok then
    ok, desc = pcall(compile_boxes, result, each, task_dims, buffer_dims, #chosen)
    result = desc
  end
  local refused = symbol.finish()
  if changed then
    return nil, ("it assigns to the variable '%s'"):format(changed), seen
  elseif refused or not ok then
    return nil, refused or needs_numbers(tostring(result)), seen
  end
  return desc, nil, seen
end

local function values_of(read, cells)
  local values = {}
  for k, cell in ipairs(cells) do values[k - 1] = closure.get(read, cell) end
  return values
end

-- Two further values for each parameter: the program must follow.
local function follows(read, desc, f, range, shape, chosen)
  if #chosen == 0 or asked.is_empty(range) then return true end
  for turn = 1, 2 do
    local values, params = {}, {}
    for k, cell in ipairs(chosen) do
      params[k - 1] = closure.get(read, cell) * turn + turn * turn + k
      values[cell] = params[k - 1]
    end
    local ok, same = with_values(read, values, function()
      local min, max = box.bounds(range)
      local lo, hi = confirm.first_corner(range)
      return confirm.agrees(desc, f, range, shape, min, max, params)
        and confirm.agrees(desc, f, range, shape, lo, hi, params)
    end)
    if not ok or not same then return false end
  end
  return true
end

-- A trace that was confirmed; or nil and why not.
local function confirmed(read, f, range, extent, chosen)
  local desc, reason, seen = attempt(read, f, range.dims, extent.dims, chosen)
  if not desc then return nil, reason, seen end
  local shape = asked.shape_of(extent)
  if not confirm.confirm(desc, f, range, shape, values_of(read, chosen))
    or not follows(read, desc, f, range, shape, chosen) then
    return nil, "it takes another course for another chunk", seen
  end
  return desc, nil, seen
end

-- As many parameters as can be: all, else those that can be one by one, else
-- none.
local function choose(read, f, range, extent)
  local all = {}
  for k = 1, math.min(#read.numbers, MOST_PARAMS) do all[k] = read.numbers[k] end
  local desc, reason, seen = confirmed(read, f, range, extent, all)
  if desc or #all == 0 then return desc, reason, seen, all end
  local good = {}
  for _, cell in ipairs(#all > 1 and all or {}) do
    if confirmed(read, f, range, extent, { cell }) then good[#good + 1] = cell end
  end
  if #good > 0 then
    desc, reason, seen = confirmed(read, f, range, extent, good)
    if desc then return desc, reason, seen, good end
  end
  desc, reason, seen = confirmed(read, f, range, extent, {})
  return desc, reason, seen, {}
end

-- Globals that a rule may depend on are constants, or make it volatile.
local function globals_of(seen)
  local constants, volatile = {}, nil
  for _, g in ipairs(seen) do
    local kind = type(g.value)
    if not (kind == "number" or kind == "string" or kind == "boolean" or kind == "nil")
      and not closure.known(g.value) then
      volatile = volatile or ("it reads the global '%s'"):format(tostring(g.name))
    else
      constants[#constants + 1] = g
    end
  end
  return constants, volatile
end

-- Adds all globals that the functions name: a trace that was refused has not met all.
local function add_globals(read, seen)
  for at = 1, read.count do
    local f = read.functions[at]
    codes.each_outside(f, function(_, _, name)
      if name ~= nil then seen[#seen + 1] = { at = at, name = name, value = getfenv(f)[name] } end
    end)
  end
end

---@class celer.variant
---@field rule celer.rule
---@field params integer[]  which numbers are parameters
---@field constants table<integer, number>  values of the others
---@field globals {at: integer, name: any, value: any}[]  constants that it read

-- The variant of a mapper that its present numbers and globals select.
local function compile(read, f, range, extent)
  local desc, reason, seen, chosen = choose(read, f, range, extent)
  if not desc then add_globals(read, seen) end
  local globals, volatile = globals_of(seen)
  local rule = { desc = desc, opaque = not desc, reason = reason,
    volatile = read.volatile or volatile }
  if not desc and not asked.is_empty(range) then -- the user's own mistake comes first
    local lo, hi = box.bounds(range)
    asked.call(f, asked.chunk_of(range, lo, hi), asked.shape_of(extent), extent.dims, reason)
  end
  local is_param, variant = {}, { rule = rule, params = {}, constants = {}, globals = globals }
  for _, cell in ipairs(chosen) do is_param[cell] = true end
  for k, cell in ipairs(read.numbers) do
    if is_param[cell] then
      variant.params[#variant.params + 1] = k
    else
      variant.constants[k] = closure.get(read, cell)
    end
  end
  return variant
end

-- ---- the cache --------------------------------------------------------------

local by_function = setmetatable({}, { __mode = "k" }) -- f -> celer.closure
local by_key = {} -- key -> array of dimensions -> variants

--- Counts traces, for the specs and for measuring.
M.traces = 0

local function read_of(f)
  local read = by_function[f]
  if read and closure.is_fresh(read) then return read end
  read = closure.read(f)
  by_function[f] = read
  return read
end

local function selects(variant, read)
  for k, value in pairs(variant.constants) do
    if closure.get(read, read.numbers[k]) ~= value then return false end
  end
  for _, g in ipairs(variant.globals) do
    local f = read.functions[g.at]
    if not rawequal(getfenv(f)[g.name], g.value) then return false end
  end
  return true
end

local function params_of(variant, read)
  local values = {}
  for k, n in ipairs(variant.params) do
    values[k] = closure.get(read, read.numbers[n])
  end
  return values
end

-- Whether this is what the rule was last checked for; remembers it.
local function is_checked(variant, range, extent, params)
  local last = variant.last
  if not last then
    last = {}
    variant.last = last
  end
  local same, n = true, 0
  local function note(value)
    n = n + 1
    same = same and last[n] == value
    last[n] = value
  end
  for d = 0, range.dims - 1 do note(range.min[d]); note(range.max[d]) end
  for d = 0, extent.dims - 1 do note(extent.max[d]) end
  for k = 1, #params do note(params[k]) end
  return same
end

-- Whether a known rule holds for new numbers: one corner chunk tells.
local function still_holds(variant, f, range, extent, params)
  local desc = variant.rule.desc
  if not desc or asked.is_empty(range) or is_checked(variant, range, extent, params) then
    return true
  end
  return confirm.spot_check(desc, range, extent)(f, params)
end

local function variants_of(read, range, extent, by_rank)
  local by_dims = by_key[read.key]
  if not by_dims then
    by_dims = {}
    by_key[read.key] = by_dims
  end
  local dims = range.dims * 4 + extent.dims + (by_rank and 16 or 0)
  local variants = by_dims[dims]
  if not variants then
    variants = { opaque = 0 }
    by_dims[dims] = variants
  end
  return variants
end

-- Newest first: one made because another no longer held comes before it. A
-- mapper that was opaque for several numbers is taken to be so for all.
local function remember(variants, variant)
  if variant.rule.opaque then
    variants.opaque = variants.opaque + 1
    if variants.opaque > 4 then variant.constants = {} end
  end
  table.insert(variants, 1, variant)
  if #variants > MOST_VARIANTS then table.remove(variants) end
end

-- A mapper of chunks [rank, rank + 1) from a function of the rank. It captures
-- nothing that is looked at: that is read off f.
local function of_ranks(f)
  return function(chunk) return f(chunk.min[0], chunk.global[0]) end
end

--- The rule of a mapper, and its parameters now. `range` is the index space and
--- `extent` the whole buffer, both boxes of plain numbers. The same rule object
--- comes back as long as its program is the same, unless it is volatile. Raises
--- what the mapper raises for the whole range.
---@param f function
---@param range celer.box
---@param extent celer.box
---@param by_rank? boolean  f takes a rank and their number, and `range` is that
--- of the ranks
---@return celer.rule rule, integer[] params
---@return celer.closure read, celer.variant variant  what it captured and looked at
function M.rule(f, range, extent, by_rank)
  local read = read_of(f)
  local variants = variants_of(read, range, extent, by_rank)
  if by_rank then f = of_ranks(f) end
  if not read.volatile then
    for i = 1, #variants do
      local variant = variants[i]
      if selects(variant, read) then
        local params = params_of(variant, read)
        if still_holds(variant, f, range, extent, params) then
          return variant.rule, params, read, variant
        end
        variant.last = nil
      end
    end
  end
  M.traces = M.traces + 1
  local variant = M.interpreted(compile, read, f, range, extent)
  if not variant.rule.volatile then remember(variants, variant) end
  return variant.rule, params_of(variant, read), read, variant
end

return M
