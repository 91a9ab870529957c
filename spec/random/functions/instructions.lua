--- instructions.lua -- what each instruction does, for the reference evaluator.
---
--- An instruction gets what is known of the slots (values.lua), changes that, says where it goes
--- on, and gives a closure that does the same with the slots of an item.
local bit = require "bit"
local bounds = require "bounds"
local ffi = require "ffi"
local kinds = require "kinds"
local celer = require "celer"
local clamp = celer.clamp
local chosen = require("celer.kernel.from_lua.captured").select
local philox = require("celer.run.philox").uniform
local util = require "jit.util"
local values = require "values"

local M = {}

local FIRST = ffi.abi "gc64" and 2 or 1 -- of a call's arguments, behind the function

--- Does nothing.
function M.pass() end

--- Sets a slot to a number.
function M.set(slot, k)
  return function(s) s[slot] = k end
end

local function place(copy, pc) return copy.frame.name .. copy.name .. " " .. pc end

-- ---- constants and variables of the script --------------------------------------------------

local run = {}

local function give(slot, x) return function(s) s[slot] = x end end

local function constant(copy, k) return tonumber((util.funck(copy.frame.f, k))) end
local function text(copy, k) return util.funck(copy.frame.f, -k - 1) end

-- What a value of the script is; `get` gives it anew.
local function of_script(value)
  if type(value) == "number" then return values.of "W" end
  if type(value) == "boolean" then return values.bool end
  return values.thing("host", value)
end

function run.KSHORT(_, copy, pc, i, known)
  local k = i.d > 0x7fff and i.d - 0x10000 or i.d
  known[i.a] = values.number(k, place(copy, pc))
  return give(i.a, k)
end

function run.KNUM(_, copy, pc, i, known)
  local k = constant(copy, i.d)
  known[i.a] = values.number(k, place(copy, pc))
  return give(i.a, k)
end

function run.KPRI(_, _, _, i, known)
  known[i.a] = i.d == 0 and values.none or values.bool
  if i.d == 0 then return give(i.a, nil) end
  return give(i.a, i.d == 2)
end

function run.KNIL(_, _, _, i, known)
  for slot = i.a, i.d do known[slot] = values.none end
  return function(s) for slot = i.a, i.d do s[slot] = nil end end
end

function run.MOV(_, _, _, i, known)
  known[i.a] = known[i.d]
  return function(s) s[i.a] = s[i.d] end
end

function run.UGET(_, copy, _, i, known)
  local f = copy.frame.f
  known[i.a] = of_script(select(2, debug.getupvalue(f, i.d + 1)))
  return function(s) s[i.a] = select(2, debug.getupvalue(f, i.d + 1)) end
end

function run.GGET(_, copy, _, i, known)
  local value = getfenv(copy.frame.f)[text(copy, i.d)]
  known[i.a] = of_script(value)
  return give(i.a, value)
end

-- ---- arithmetic -----------------------------------------------------------------------------

local function result_of(a, b)
  local kind = kinds.join(a.kind, b.kind)
  return kind and values.of(kind) or values.mixed
end

local function computing(op, kind) return (kinds.compute[kind] or kinds.compute.D)[op] end

for name, op in pairs { ADD = "add", SUB = "sub", MUL = "mul", DIV = "div", MOD = "mod" } do
  run[name .. "VV"] = function(_, copy, pc, i, known)
    local a, b = known[i.b], known[i.c]
    known[i.a] = values.fold(op, a, b, place(copy, pc)) or result_of(a, b)
    local f = computing(op, known[i.a].kind)
    return function(s) s[i.a] = f(s[i.b], s[i.c]) end
  end
  run[name .. "VN"] = function(_, copy, pc, i, known)
    local a, k = known[i.b], constant(copy, i.c)
    local b = values.number(k, "constant")
    known[i.a] = values.fold(op, a, b, place(copy, pc)) or result_of(a, b)
    local f = computing(op, known[i.a].kind)
    return function(s) s[i.a] = f(s[i.b], k) end
  end
  run[name .. "NV"] = function(_, copy, pc, i, known)
    local a, k = known[i.b], constant(copy, i.c)
    local b = values.number(k, "constant")
    known[i.a] = values.fold(op, b, a, place(copy, pc)) or result_of(b, a)
    local f = computing(op, known[i.a].kind)
    return function(s) s[i.a] = f(k, s[i.b]) end
  end
end

function run.POW(_, _, _, i, known)
  known[i.a] = result_of(known[i.b], known[i.c])
  local f = computing("pow", known[i.a].kind)
  return function(s) s[i.a] = f(s[i.b], s[i.c]) end
end

function run.UNM(_, _, _, i, known)
  known[i.a] = kinds.is_number[known[i.d].kind] and values.of(known[i.d].kind) or values.mixed
  return function(s) s[i.a] = -s[i.d] end
end

function run.NOT(_, _, _, i, known)
  known[i.a] = values.bool
  return function(s) s[i.a] = not s[i.d] end
end

-- ---- buffers and tables ---------------------------------------------------------------------

local function element(array, field)
  return values.of(kinds.of_type(array.types and array.types[field] or array.type))
end

-- An index behind those that are there.
local function behind(s, slot, key)
  local before = s[slot]
  local index = before.index and { unpack(before.index) } or {}
  index[#index + 1] = key
  return index
end

-- u[i]: an element, or u[i] to be indexed on.
local function of_array(i, known, key_of)
  local of = known[i.b]
  local array, depth = of.what, (of.depth or 0) + 1
  if depth < array.dims then
    known[i.a] = values.thing("part", array, { depth = depth })
  elseif array.types then
    known[i.a] = values.thing("struct", array, { field = "" })
  else
    known[i.a] = element(array, "")
    return function(s) s[i.a] = array.read(behind(s, i.b, key_of(s)), "") end
  end
  return function(s) s[i.a] = { index = behind(s, i.b, key_of(s)) } end
end

-- The field of an element, or of a struct in it.
local function of_struct(i, known, name)
  local of = known[i.b]
  local field = of.field ~= "" and of.field .. "." .. name or name
  if not of.what.types[field] then
    known[i.a] = values.thing("struct", of.what, { field = field })
    return function(s) s[i.a] = s[i.b] end
  end
  known[i.a] = element(of.what, field)
  return function(s) s[i.a] = of.what.read(s[i.b].index, field) end
end

-- What a table of the script has.
local function of_host(copy, pc, i, known, key)
  local value = known[i.b].what
  local got = value[key]
  if type(got) == "number" and (value == math or value == bit) then
    known[i.a] = values.number(got, place(copy, pc))
  else
    known[i.a] = of_script(got)
  end
  return function(s) s[i.a] = s[i.b][key] end
end

function run.TGETS(_, copy, pc, i, known)
  local of, key = known[i.b], text(copy, i.c)
  if of.kind == "array" and key == "size" then
    known[i.a] = values.thing("sizes", of.what)
    return give(i.a, of.what.size)
  elseif of.kind == "struct" then
    return of_struct(i, known, key)
  elseif of.kind == "scalar" then
    known[i.a] = values.thing(key, of.what)
    return give(i.a, of.what)
  end
  return of_host(copy, pc, i, known, key)
end

local function get(self, copy, pc, i, known, key, key_of)
  local of = known[i.b]
  if of.kind == "array" or of.kind == "part" then return of_array(i, known, key_of) end
  if of.kind == "own" then
    known[i.a] = self.own[of.what] or values.none
  elseif of.kind == "host" and key.counted and type(rawget(of.what, key.k)) == "number" then
    known[i.a] = values.number(of.what[key.k], place(copy, pc))
  else
    known[i.a] = values.of "W" -- a list of the script, or u.size
  end
  return function(s) s[i.a] = s[i.b][key_of(s)] end
end

function run.TGETV(self, copy, pc, i, known)
  return get(self, copy, pc, i, known, known[i.c], function(s) return s[i.c] end)
end

function run.TGETB(self, copy, pc, i, known)
  return get(self, copy, pc, i, known, values.number(i.c, "constant"), function() return i.c end)
end

-- A number that a table of the function's own gets; gives how it is kept there.
local function keep(self, id, value)
  local before = self.own[id]
  self.own[id] = before and values.join(before, value) or values.unknown(value)
  self.changed = self.changed or not before or before.key ~= self.own[id].key
  return self.own[id].kind == "F" and kinds.round or nil
end

local function put(self, i, known, key_of)
  local of, value = known[i.b], known[i.a]
  local array = of.what
  if of.kind == "own" then
    local round = keep(self, array, value)
    return function(s) s[i.b][key_of(s)] = round and round(s[i.a]) or s[i.a] end
  elseif value.kind == "own" then
    return function(s)
      local index = behind(s, i.b, key_of(s))
      for field, type_ in pairs(array.types) do
        array.write(index, field, kinds.stored(type_, kinds.field_of(s[i.a], field)))
      end
    end
  elseif value.kind == "struct" then
    return function(s)
      local index = behind(s, i.b, key_of(s))
      for field in pairs(array.types) do
        array.write(index, field, value.what.read(s[i.a].index, field))
      end
    end
  end
  return function(s)
    array.write(behind(s, i.b, key_of(s)), "", kinds.stored(array.type, s[i.a]))
  end
end

function run.TSETV(self, _, _, i, known)
  return put(self, i, known, function(s) return s[i.c] end)
end
function run.TSETB(self, _, _, i, known) return put(self, i, known, function() return i.c end) end

function run.TSETS(_, copy, _, i, known)
  local of, name, value = known[i.b], text(copy, i.c), known[i.a]
  if of.kind == "own" and value.kind == "struct" then -- a part of an element
    return function(s)
      local part, prefix = {}, value.field .. "."
      for path in pairs(value.what.types) do
        if path:sub(1, #prefix) == prefix then
          part[path:sub(#prefix + 1)] = value.what.read(s[i.a].index, path)
        end
      end
      s[i.b][name] = part
    end
  elseif of.kind == "own" then
    return function(s) s[i.b][name] = s[i.a] end
  end
  local field = of.field ~= "" and of.field .. "." .. name or name
  return function(s)
    of.what.write(s[i.b].index, field, kinds.stored(of.what.types[field], s[i.a]))
  end
end

function run.TNEW(_, copy, pc, i, known)
  known[i.a] = values.thing("own", place(copy, pc))
  return function(s) s[i.a] = {} end
end

function run.TDUP(self, copy, pc, i, known)
  local id, list = place(copy, pc), text(copy, i.d)
  known[i.a] = values.thing("own", id)
  for _, x in pairs(list) do keep(self, id, of_script(x)) end
  local round = self.own[id] and self.own[id].kind == "F" and kinds.round
  return function(s)
    local t = {}
    for k, x in pairs(list) do t[k] = round and round(x) or x end
    s[i.a] = t
  end
end

-- ---- calls ----------------------------------------------------------------------------------

-- How functions of libraries are computed: of one number, or of any number of them, two by two.
local unary = { [math.floor] = "floor", [math.ceil] = "ceil", [math.abs] = "abs",
  [math.sqrt] = "sqrt" }
local binary = { [math.min] = "min", [math.max] = "max", [math.pow] = "pow" }
local of_bits = {}
for _, f in pairs(bit) do
  if type(f) == "function" then of_bits[f] = true end
end

local function fold(op, args)
  local kind = args[1].kind
  local list = {}
  for k = 2, #args do
    kind = kinds.join(kind, args[k].kind)
    list[k] = computing(op, kind)
  end
  return kind, function(x)
    local result = x[1]
    for k = 2, #x do result = list[k](result, x[k]) end
    return result
  end
end

-- What a call gives, and a function of the list of its arguments that gives the list of results.
local function call(self, copy, pc, callee, args)
  local f = callee.what
  if callee.kind == "array" then
    if f.types then
      return { values.thing("struct", f, { field = "" }) }, function(x) return { { index = x } } end
    end
    return { element(f, "") }, function(x) return { f.read(x, "") } end
  elseif callee.kind == "scalar" then
    return { element(f, "") }, function() return { f.read({}, "") } end
  elseif callee.kind == "set" then
    return {}, function(x) f.write({}, "", kinds.stored(f.type, x[2])) return {} end
  elseif unary[f] then
    local compute = computing(unary[f], args[1].kind)
    return { values.unknown(args[1]) }, function(x) return { compute(x[1]) } end
  elseif binary[f] then
    local kind, compute = fold(binary[f], args)
    return { kind and values.of(kind) or values.mixed }, function(x) return { compute(x) } end
  elseif f == clamp then
    local low, above = fold("max", { args[1], args[2] })
    local kind, below = fold("min", { values.of(low), args[3] })
    return { values.of(kind) }, function(x) return { below { above { x[1], x[2] }, x[3] } } end
  elseif of_bits[f] then
    return { values.of "W" }, function(x)
      for _, number in ipairs(x) do bounds.exact(number) end
      return { f(unpack(x)) }
    end
  elseif f == philox then
    return { values.of "D" }, function(x)
      for _, number in ipairs(x) do bounds.exact(number) end
      return { philox(unpack(x)) }
    end
  end
  if f == celer.select then f = chosen end
  local results, body = self:call(f, args, place(copy, pc), copy.times)
  return results, function(x) return self.execute(body, x) end
end

-- Arguments of a call: those that stand in slots, and all that the call before it gave.
local function arguments(slots, i, n, more)
  local out = {}
  for k = 1, n do out[k] = slots[i.a + FIRST + k - 1] end
  local several = more and slots.several
  for k = 1, several and #several or 0 do out[n + k] = several[k] end
  return out
end

local function callee_of(self, copy, pc, i, known, n, more)
  return call(self, copy, pc, known[i.a], arguments(known, i, n, more))
end

function run.CALL(self, copy, pc, i, known)
  local more = i.op == "CALLM"
  local n = more and i.c or i.c - 1
  local results, f = callee_of(self, copy, pc, i, known, n, more)
  known.several = i.b == 0 and { kind = "several", key = "several", unpack(results) } or nil
  for k = 1, i.b - 1 do known[i.a + k - 1] = results[k] or values.none end
  return function(s)
    local list = f(arguments(s, i, n, more))
    if i.b == 0 then s.several = list end
    for k = 1, i.b - 1 do s[i.a + k - 1] = list[k] end
  end
end
run.CALLM = run.CALL

-- ---- the end --------------------------------------------------------------------------------

function run.CALLT(self, copy, pc, i, known)
  local more = i.op == "CALLMT"
  local n = more and i.d or i.d - 1
  local results, f = callee_of(self, copy, pc, i, known, n, more)
  return self:leave(copy, results, function(s) return f(arguments(s, i, n, more)) end)
end
run.CALLMT = run.CALLT

function run.RET(self, copy, _, i, known)
  local n = i.op == "RET0" and 0 or i.op == "RETM" and i.d or i.d - 1
  local function list(slots)
    local out = {}
    for k = 1, n do out[k] = slots[i.a + k - 1] end
    for k, x in ipairs(i.op == "RETM" and slots.several or {}) do out[n + k] = x end
    return out
  end
  return self:leave(copy, list(known), list)
end
run.RET0, run.RET1, run.RETM = run.RET, run.RET, run.RET

-- ---- conditions and loops -------------------------------------------------------------------

local function slot_of(_, d) return nil, d end
local function number_of(copy, d) return constant(copy, d) end
local function primitive_of(_, d) if d == 0 then return nil end return d == 2 end

local signs = {
  lt = function(a, b) return a < b end, le = function(a, b) return a <= b end,
  eq = function(a, b) return a == b end,
}
for name, test in pairs(signs) do signs[name] = bounds.of_comparison(test) end

-- The condition of an instruction: as a closure, and what it is, if the counter of a loop that is
-- written out decides it.
local function comparison(sign, negated, operand)
  local test = signs[sign]
  return function(copy, i, known)
    local k, slot = operand(copy, i.d)
    local a, b = known[i.a], slot and known[slot] or operand == number_of
      and values.number(k, "constant") or values.none
    local decided
    if a.k and b.k and (a.counted or b.counted) then decided = test(a.k, b.k) ~= negated end
    if slot then return function(s) return test(s[i.a], s[slot]) ~= negated end, decided end
    return function(s) return test(s[i.a], k) ~= negated end, decided
  end
end

local conditions = {
  ISLT = comparison("lt", false, slot_of), ISGE = comparison("lt", true, slot_of),
  ISLE = comparison("le", false, slot_of), ISGT = comparison("le", true, slot_of),
  ISEQV = comparison("eq", false, slot_of), ISNEV = comparison("eq", true, slot_of),
  ISEQN = comparison("eq", false, number_of), ISNEN = comparison("eq", true, number_of),
  ISEQP = comparison("eq", false, primitive_of), ISNEP = comparison("eq", true, primitive_of),
  IST = function(_, i) return function(s) return s[i.d] and true or false end end,
  ISF = function(_, i) return function(s) return not s[i.d] end end,
}

for op, condition in pairs(conditions) do
  run[op] = function(self, copy, pc, i, known)
    local test, decided = condition(copy, i, known)
    local to = copy.frame.code[pc + 1].to
    if decided ~= nil then
      self:go(copy, pc, "next", decided and to or pc + 2, known)
      return M.pass
    end
    self:go(copy, pc, "next", to, known)
    self:go(copy, pc, "other", pc + 2, known)
    return test
  end
end

-- Copies where it jumps.
local function copying(wanted)
  return function(self, copy, pc, i, known)
    local jumped = {}
    for slot, value in pairs(known) do jumped[slot] = value end
    jumped[i.a] = known[i.d]
    self:go(copy, pc, "next", copy.frame.code[pc + 1].to, jumped)
    self:go(copy, pc, "other", pc + 2, known)
    return function(s)
      if (s[i.d] and true or false) ~= wanted then return false end
      s[i.a] = s[i.d]
      return true
    end
  end
end
run.ISTC, run.ISFC = copying(true), copying(false)

local function goes_on(s, i, k)
  if s[i.a + 2] >= 0 then return k <= s[i.a + 1] end
  return k >= s[i.a + 1]
end

local function counter_of(i, known)
  local value = result_of(known[i.a], known[i.a + 2])
  known[i.a], known[i.a + 3] = value, value
  return value
end

function run.FORI(self, copy, pc, i, known)
  self:go(copy, pc, "other", i.to, known)
  local inside = {}
  for slot, value in pairs(known) do inside[slot] = value end
  local float = counter_of(i, inside).kind == "F"
  self:go(copy, pc, "next", pc + 1, inside)
  return function(s)
    if not goes_on(s, i, s[i.a]) then return false end
    if float then s[i.a] = kinds.round(s[i.a]) end
    s[i.a + 3] = s[i.a]
    return true
  end
end

function run.FORL(self, copy, pc, i, known)
  local add = computing("add", counter_of(i, known).kind)
  self:go(copy, pc, "next", i.to, known)
  self:go(copy, pc, "other", pc + 1, known)
  return function(s)
    local k = add(s[i.a], s[i.a + 2])
    if not goes_on(s, i, k) then return false end
    s[i.a], s[i.a + 3] = k, k
    return true
  end
end

function run.JMP(self, copy, pc, i, known)
  self:go(copy, pc, "next", i.to, known)
  return M.pass
end
run.UCLO = run.JMP
function run.LOOP() return M.pass end

--- Goes through an instruction.
---@param self reference.run
---@param copy reference.copy
---@param pc integer
---@param i table
---@param known table<integer, table>  of each slot
---@return function act
function M.run(self, copy, pc, i, known)
  local f = run[i.op] or error("the evaluator does not know " .. i.op)
  local act = f(self, copy, pc, i, known)
  if not copy.ways[pc] and not i.op:find "^RET" and not i.op:find "^CALLM?T" then
    self:go(copy, pc, "next", pc + 1, known)
  end
  return act
end

return M
