--- kinds.lua -- what kind of value each node is, and between which bounds whole numbers lie.
---
---   int     a whole number that a double has exactly: computed as an integer
---   weak    a number without a type of its own: a double, or a float beside floats
---   float, double, bool, nil
---   struct  an element of a buffer of structs, to be stored as a whole
---   array   a field of one that is an array
---   mixed   one or the other, depending on where the item came from: of no use
---
--- An int is one only where its bounds prove that Lua's double would hold the same. -0, which
--- an int cannot be, is an int only where nobody can tell it from 0.
local elements = require "celer.kernel.from_lua.elements"
local trips = require "celer.kernel.from_lua.trips"
local is_whole = require("celer.kernel.from_lua.whole").is_whole

local M = {}

local EXACT = 2 ^ 53
local abs, floor, max, min = math.abs, math.floor, math.max, math.min

local rank = { int = 1, weak = 2, float = 3, double = 4 }

--- The kind of what is computed from two kinds, or is either.
local function join(a, b)
  if not a or a == b then return b end
  if not b then return a end
  if rank[a] and rank[b] then return rank[a] > rank[b] and a or b end
  return "mixed"
end

local function set(node, kind, low, high) node.kind, node.low, node.high = kind, low, high end

-- A result that is whole if these bounds say that it is exact.
local function set_whole(node, low, high)
  if node.kind == "weak" or low ~= low or high ~= high or low < -EXACT or high > EXACT then
    set(node, "weak")
  else
    set(node, "int", low, high)
  end
end

-- What an element is that a node touches.
local function element_of(node, context)
  local element = elements.find(node.array.type, node.field or "")
  if element.kind == "other" then
    context.fail(node, "a kernel written in Lua cannot use elements of '%s': their type is neither "
      .. "a number of at most 64 bits (with a sign, if of 64), nor bool, nor a struct",
      node.array.name)
  end
  return element
end

-- ---- what needs no fixpoint -----------------------------------------------------------

local is_minus_zero = function(k) return k == 0 and 1 / k < 0 end

local MANY = 32 -- an extent from here on is further than a stencil or a shift reaches

-- Bounds of captured numbers that have to be whole, by their class at the call.
local classes = {
  many = { MANY, 2 ^ 31 - 1 }, few = { 1, MANY - 1 }, back = { 1 - MANY, 0 },
  small = { -2 ^ 31 + 1, 2 ^ 31 - 1 }, large = { -2 ^ 50, 2 ^ 50 },
}

--- The class of a number that has to be whole; "other" if it is not.
---@param x number
---@return string
function M.class_of(x)
  if type(x) ~= "number" then return "none" end
  if x % 1 ~= 0 or abs(x) > 2 ^ 50 or is_minus_zero(x) then return "other" end
  if abs(x) >= 2 ^ 31 then return "large" end
  if x > 0 then return x >= MANY and "many" or "few" end
  return x > -MANY and "back" or "small"
end

local WIDEN = 4 -- rounds after which bounds that still grow are given up

local fixed = {}

function fixed.number(node)
  local k = node.k
  if k % 1 == 0 and abs(k) < EXACT and not is_minus_zero(k) then
    set(node, "int", k, k)
  else
    set(node, "weak")
  end
end

function fixed.bool(node) set(node, "bool") end
fixed.flag = fixed.bool
fixed["nil"] = function(node) set(node, "nil") end

function fixed.coordinate(node, context)
  set(node, "int", context.wide and -2 ^ 50 or 0, context.wide and 2 ^ 50 or 2 ^ 30)
end

function fixed.uniform(node)
  local bounds = classes[node.class]
  if bounds then set(node, "int", bounds[1], bounds[2]) else set(node, "weak") end
end

-- ---- what follows from operands ---------------------------------------------------------

local function joined(node)
  local kind
  for _, arg in ipairs(node.args) do kind = join(kind, arg.kind) end
  return kind
end

-- A number that is not whole; with weak operands weak.
local function fraction(node)
  local kind = joined(node)
  set(node, kind == "int" and "weak" or kind)
end

local step = {}

step.div, step.pow, step.call = fraction, fraction, fraction

-- Makes the rule of an operation: `bounds` gives those of whole operands, or nothing.
local function whole_if(bounds)
  return function(node)
    local kind = joined(node)
    if kind ~= "int" then return set(node, join(node.kind ~= "int" and node.kind or nil, kind)) end
    local low, high = bounds(node, node.args[1], node.args[2])
    if low then set_whole(node, low, high) else set(node, "weak") end
  end
end

step.add = whole_if(function(_, a, b) return a.low + b.low, a.high + b.high end)
step.sub = whole_if(function(_, a, b) return a.low - b.high, a.high - b.low end)

local function may_be_zero(a) return a.low <= 0 and a.high >= 0 end

step.mul = whole_if(function(node, a, b)
  if node.shows_zero and (may_be_zero(a) and b.low < 0 or may_be_zero(b) and a.low < 0) then
    return nil
  end
  local p, q, r, s = a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high
  return min(p, q, r, s), max(p, q, r, s)
end)

step.neg = whole_if(function(node, a)
  if node.shows_zero and may_be_zero(a) then return nil end
  return -a.high, -a.low
end)

step.abs = whole_if(function(_, a)
  return may_be_zero(a) and 0 or min(abs(a.low), abs(a.high)), max(abs(a.low), abs(a.high))
end)

-- What a number lies between that is no int: of a NaN nothing is true.
local function bounds(node)
  if node.kind == "int" then return node.low, node.high, true end
  return node.least or -math.huge, node.most or math.huge, node.is_number
end

-- Of a NaN the second operand. What is whole and was brought between two ints is one, too.
local function choice(choose)
  return function(node)
    local kind, a, b = joined(node), node.args[1], node.args[2]
    local low, high, is_sure = bounds(a)
    local low2, high2, is_number = bounds(b)
    if not is_sure then -- b may come out, wherever it lies
      if choose == max then low = -math.huge else high = math.huge end
    end
    node.least, node.most, node.is_number = choose(low, low2), choose(high, high2), is_number
    if kind == "int" then return set_whole(node, node.least, node.most) end
    local is_int = rank[kind] and (not node.kind or node.kind == "int") and is_number
      and not node.shows_zero and is_whole(a) and is_whole(b)
      and node.least >= -EXACT and node.most <= EXACT
    if is_int then return set(node, "int", node.least, node.most) end
    set(node, join(node.kind ~= "int" and node.kind or nil, kind))
  end
end
step.min, step.max = choice(min), choice(max)

step.mod = whole_if(function(_, a, b)
  if a.low < -EXACT or a.high > EXACT then return nil end
  if b.low > 0 then return a.low >= 0 and a.high < b.low and a.low or 0, b.high - 1 end
  if b.high < 0 then return b.low + 1, 0 end
end)

-- The operands of a whole quotient that is rounded down: floor(a / b), b positive.
local function quotient(node)
  local of = node.args[1]
  if of.op ~= "div" then return nil end
  local a, b = of.args[1], of.args[2]
  if a.kind == "int" and b.kind == "int" and b.low > 0 and max(-a.low, a.high) <= 2 ^ 51 then
    return a, b
  end
end
M.quotient = quotient

function step.floor(node)
  local of = node.args[1]
  if of.kind == "int" then return set(node, "int", of.low, of.high) end
  local a, b = quotient(node)
  if not a or node.op == "ceil" then return set(node, of.kind) end
  -- floor(-0 / b) is -0, but a is no -0.
  node.divides = true
  set_whole(node, min(floor(a.low / b.low), floor(a.low / b.high)),
    max(floor(a.high / b.low), floor(a.high / b.high)))
end
step.ceil = step.floor

function step.bits(node)
  set(node, "int", -2 ^ 31, 2 ^ 31 - 1)
  for _, arg in ipairs(node.name == "band" and node.args or {}) do
    if arg.kind == "int" and arg.low >= 0 and arg.high < 2 ^ 31 then
      set(node, "int", 0, min(node.high, arg.high))
    end
  end
end

local function boolean(node) set(node, "bool") end
step.lt, step.le, step.eq, step["not"], step.in_loop = boolean, boolean, boolean, boolean, boolean

function step.philox(node) set(node, "double") end

function step.load(node, context)
  local element = element_of(node, context)
  set(node, element.kind, element.low, element.high)
  if node.ends and node.kind == "int" then
    node.low, node.high = max(node.low, -EXACT / 2), min(node.high, EXACT / 2)
  end
end

function step.lookup(node)
  local low, high, whole = math.huge, -math.huge, true
  for _, x in ipairs(node.list.values) do
    whole = whole and M.class_of(x) ~= "other"
    low, high = min(low, x), max(high, x)
  end
  if whole then set(node, "int", low, high) else set(node, "weak") end
end

step.store, step.reduce, step.push = element_of, element_of, element_of
step.set_field = element_of
function step.made(node) set(node, "struct") end
step.atomic = step.load -- what was there before

-- All elements of a table that the kernel makes are of one kind.
function step.set(node, context)
  local array, value = node.table, node.args[2]
  local low, high = array.low, array.high
  array.kind = join(array.kind, value.kind)
  if array.kind == "int" then
    low, high = min(low or value.low, value.low), max(high or value.high, value.high)
    if context.round > WIDEN and (low ~= array.low or high ~= array.high) then
      array.kind = "weak"
    end
  end
  if array.kind ~= "int" then low, high = nil, nil end
  array.low, array.high = low, high
  set(node, array.kind, low, high)
end

function step.get(node)
  set(node, node.table.kind, node.table.low, node.table.high)
end

-- The index of a counted loop; false for what is none, or not whole.
local function loop_index(node)
  local loop = node.loop
  if not loop or loop.first.kind ~= "int" or loop.step.op ~= "number"
    or loop.step.kind ~= "int" then
    return false
  end
  local first, last, by = loop.first, loop.last, loop.step.k
  local rounded = by > 0 and last.low and max(first.low, last.high) or EXACT - by
  if by > 0 then
    set(node, "int", first.low, rounded)
  else
    set(node, "int", last.low and min(first.high, last.low) or -EXACT - by, first.high)
  end
  return true
end

local function phi_of_whole(node, low, high, round)
  if node.kind == "weak" then return end
  if node.block.header then
    local n = trips.count(node.block.loop)
    local least, most
    if n then least, most = trips.change(node) end
    local first = node.args[1]
    if least and first.kind == "int" then
      return set_whole(node, first.low + n * min(least, 0), first.high + n * max(most, 0))
    end
    local highest = trips.highest(node)
    if highest then return set_whole(node, first.low, highest) end
    if round > WIDEN and (node.low ~= low or node.high ~= high) then low, high = -math.huge, nil end
  end
  if not high then return set(node, "weak") end
  set(node, "int", low, high)
end

function step.phi(node, context)
  local kind, low, high
  for _, arg in ipairs(node.args) do
    kind = join(kind, arg.kind)
    if arg.kind == "int" then
      low, high = min(low or arg.low, arg.low), max(high or arg.high, arg.high)
    end
  end
  if not kind or loop_index(node) then return end
  if kind == "int" then return phi_of_whole(node, low, high, context.round) end
  if node.kind ~= kind then set(node, join(node.kind ~= "int" and node.kind or nil, kind)) end
end

-- ---- checks -------------------------------------------------------------------------------

local counts = {}
for op in ([[add sub mul div mod pow neg abs min max floor ceil call bits philox lt le in_loop
    lookup get atomic]])
  :gmatch "%S+" do counts[op] = true end

local phrases = { ["nil"] = "what may be nil", bool = "a boolean",
  struct = "a struct: take its fields",
  array = "an array of a struct: give it an index",
  mixed = "what may be a number, or else a boolean or nil" }

local function check_operands(node, fail)
  for _, arg in ipairs(counts[node.op] and node.args or {}) do
    if arg.kind and not rank[arg.kind] then
      fail(node, "a kernel cannot compute with %s", phrases[arg.kind] or arg.kind)
    end
  end
end

-- ---- all of it ------------------------------------------------------------------------------

-- Operations whose result is -0 where an operand is, and what else is to be told from it.
local passes_zero = { add = true, sub = true, mul = true, neg = true, min = true, max = true,
  phi = true, floor = true, ceil = true }
local hides_zero = { lt = true, le = true, eq = true, in_loop = true, bits = true, philox = true,
  abs = true, lookup = true, get = true, mod = true }

local function shows(node)
  if node.op == "store" or node.op == "reduce" or node.op == "push" or node.op == "atomic"
    or node.op == "set_field" then
    local element = elements.find(node.array.type, node.field or "")
    return not element or element.kind ~= "int"
  end
  if passes_zero[node.op] then return node.shows_zero end
  return not hides_zero[node.op]
end

-- Marks the nodes of which somebody could tell -0 from 0. Those that take part in indices
-- alone are none of them.
local function mark_zeros(graph)
  local changed = true
  while changed do
    changed = false
    graph:each(function(node)
      if not node.args or not shows(node) then return end
      for k = node.op == "set" and 2 or 1, #node.args do -- of a set the first is an index
        local arg = node.args[k]
        if not arg.shows_zero then arg.shows_zero, changed = true, true end
      end
    end)
  end
end

local MOST_ROUNDS = 200

--- Finds the kind of each node. Raises, by `fail(node, message, ...)`, where a value is no
--- number and has to be one.
---@param graph celer.graph
---@param wide boolean  whether coordinates may be negative, or from 2^30 on
---@param fail fun(node: celer.node, message: string, ...)
function M.find(graph, wide, fail)
  local context = { wide = wide, fail = fail, round = 0 }
  mark_zeros(graph)
  for _, node in ipairs(graph.all) do
    if fixed[node.op] then fixed[node.op](node, context) end
  end
  local changed = true
  while changed do
    changed = false
    context.round = context.round + 1
    if context.round > MOST_ROUNDS then error "kinds.lua: bounds do not settle" end
    graph:each(function(node)
      local kind, low, high = node.kind, node.low, node.high
      check_operands(node, fail)
      local ready = node.op == "phi"
      if not ready then
        ready = true
        for _, arg in ipairs(node.args or {}) do ready = ready and arg.kind end
      end
      if ready then step[node.op](node, context) end
      if node.kind ~= kind or node.low ~= low or node.high ~= high then changed = true end
    end)
  end
end

return M
