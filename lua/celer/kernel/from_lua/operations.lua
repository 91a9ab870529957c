--- operations.lua -- what each instruction of LuaJIT does, with nodes in place of values.
local bytecode = require "celer.kernel.from_lua.bytecode"
local calls = require "celer.kernel.from_lua.calls"
local captured = require "celer.kernel.from_lua.captured"
local graphs = require "celer.kernel.from_lua.graph"
local local_arrays = require "celer.kernel.from_lua.local_arrays"
local made_structs = require "celer.kernel.from_lua.made_structs"
local unroll = require "celer.kernel.from_lua.unroll"
local util = require "jit.util"
local words = require "celer.words"

local M = {}

local FIRST = bytecode.FIRST

-- ---- constants --------------------------------------------------------------------

local function number(self, k) return self.graph:number(tonumber(util.funck(self.frame.f, k))) end

local function text(self, k) return util.funck(self.frame.f, -k - 1) end

local function string_node(self, k) return self.graph:make("string", { k = text(self, k) }) end

local function primitive(self, d)
  if d == 0 then return self.graph:make "nil" end
  return self.graph:make("bool", { k = d == 2 })
end

-- ---- indexing ---------------------------------------------------------------------

local function append(list, node)
  local out = { unpack(list) }
  out[#out + 1] = node
  return out
end

-- u[i], and what is u[i] already for its next dimension.
local function index_array(self, node, key)
  local array = node.array
  if key.op == "string" then
    if array.what == "array" and key.k == "size" and #node.index == 0 then
      return self.graph:make("sizes", { array = array })
    end
    return self.graph:make("method", { array = array, index = node.index, name = key.k, of = node })
  end
  local index = append(node.index, self:value(key))
  if #index > array.dims then
    self.fail("'%s' has %s, and is given %d here", array.name,
      words.count(array.dims, "dimension"), #index)
  elseif #index == array.dims and array.what == "array" then
    return self:first_value(self.graph:make("element", { array = array, index = index }))
  end
  return self.graph:make("part", { array = array, index = index })
end

local reductions = { add = "sum", mul = "prod", min = "min", max = "max", band = "and", bor = "or" }

-- Raises for u[i]:add(x) of what is given to be read or written.
local function refuse_reduction(self, array, key)
  local operator = key.op == "string" and reductions[key.k]
  if operator then
    self.fail("'%s' is not given to be reduced into: submit the kernel with celer.reduce(buffer, "
      .. "%q) in its place", array.name, operator)
  end
end

-- What node.x is, or node.q[j]: its path, where it is, and what it consists of.
local function step_into(self, node, key)
  local now = self.fields(node.array.type, node.field or "")
  if now.count then
    if key.op == "string" then
      self.fail("'%s' of a %s is an array, and has no '%s'", node.field, node.array.type.name,
        key.k)
    end
    local field = node.field .. "[]"
    return field, append(node.index, self:value(key)), self.fields(node.array.type, field)
  elseif key.op ~= "string" then
    self.fail("'%s' has %s: too many indices", node.array.name,
      words.count(node.array.dims, "dimension"))
  end
  local field = (node.field and node.field .. "." or "") .. key.k
  local found = self.fields(node.array.type, field)
  if not found then
    refuse_reduction(self, node.array, key)
    self.fail("a %s has no field '%s'%s", node.array.type.name, field, now.fields
      and words.advice(key.k, now.fields, node.field and node.field .. "." or "") or "")
  end
  return field, node.index, found
end

local function index_element(self, node, key)
  if key.op == "string" and key.k == "set" and node.array.dims == 0 and not node.field
    and not self.fields(node.array.type, "set") then
    return self.graph:make("method", { array = node.array, index = {}, field = "", name = "set",
      of = node })
  end
  local field, at, found = step_into(self, node, key)
  local element = self.graph:make("element", { array = node.array, index = at, field = field })
  if found.fields or found.count then return element end
  return self:load(element, field)
end

-- h[i]:atomic_add(x), and what else an element that is a number has.
local function index_number(self, node, key)
  if key.op ~= "string" or not calls.atomics[key.k] then return nil end
  return self.graph:make("method", { array = node.array, index = node.index, field = node.field,
    name = key.k, of = node })
end

-- s:set(x), and what else a scalar has.
local function index_scalar(self, node, key)
  local is_set = key.op == "string" and key.k == "set" and (node.field or "") == ""
  if not is_set and node.op ~= "scalar" then return nil end
  local method = is_set and self.graph:make("method", { array = node.array, index = {},
    field = node.field or "", name = "set" }) or index_number(self, node, key)
  if method then method.of = node end
  return method
end

-- Raises for an index, also one to be assigned to, of what has none.
local function refuse_index(self, node, key)
  if node.op == "load" or node.op == "scalar" then
    refuse_reduction(self, node.array, key)
    if key.op == "string" then
      self.fail("%s of '%s' is a number, and has no '%s'%s", node.field ~= "" and "field "
        .. node.field or "an element", node.array.name, key.k,
        key.k:find "^atomic" and words.advice(key.k, calls.atomics) or "")
    end
    self.fail("'%s' has %s%s: too many indices%s", node.array.name,
      words.count(node.array.dims, "dimension"), node.field ~= "" and (", and its %s is a number")
        :format(node.field) or "", node.array.dims == 0 and ", its name alone is its value" or "")
  elseif node.op == "module" then
    self.fail("a kernel cannot change the script's table '%s': it assigns to elements of its "
      .. "parameters", node.path)
  end
  self.fail("a kernel cannot index %s%s", self.describe(node), node.op == "phi"
    and ": index each where it is known" or "")
end

local function index(self, node, key)
  if node.op == "array" or node.op == "part" then return index_array(self, node, key) end
  if node.op == "element" then return index_element(self, node, key) end
  if node.op == "module" then return captured.index(self.captured, node, key) end
  if node.op == "table" then return local_arrays.get(self, node, key) end
  if node.op == "sizes" then
    if key.op ~= "number" then
      self.fail("'%s.size' takes a dimension, as a number that stands there", node.array.name)
    end
    return self:extent(node.array, key.k)
  end
  local method = node.array and node.array.dims == 0 and index_scalar(self, node, key)
    or node.op == "load" and index_number(self, node, key)
  if method then return method end
  refuse_index(self, node, key)
end

-- The node that is stored: a whole struct, too.
local function store(self, node, key, value)
  if node.op == "table" then return local_arrays.set(self, node, key, value) end
  if node.op == "array" or node.op == "part" then
    local array, list = node.array, append(node.index, self:value(key))
    if array.what == "reduction" then
      self.fail("'%s' is reduced into: write %s:add(x), or min, max, mul, combine", array.name,
        calls.element(array))
    elseif array.what == "route" then
      self.fail("'%s' is pushed to: write %s:push(key, value)", array.name, array.name)
    elseif #list ~= array.dims then
      self.fail("'%s' has %s, and is given %d here", array.name,
        words.count(array.dims, "dimension"), #list)
    end
    return self.graph:add("store", { array = array, index = list, field = "",
      args = { made_structs.value(self, value, array, "") }, effect = true })
  elseif node.op == "element" then
    local field, at = step_into(self, node, key)
    return self.graph:add("store", { array = node.array, index = at, field = field,
      args = { made_structs.value(self, value, node.array, field) }, effect = true })
  end
  refuse_index(self, node, key)
end

-- ---- calls and returns --------------------------------------------------------------

-- The arguments of a call: `n` of them, and all that the call before it gave.
local function arguments(self, i, n, more)
  local args = {}
  for k = 1, n do args[k] = self:get(i.a + FIRST + k - 1) end
  for k, node in ipairs(more and self.frame.several or {}) do args[n + k] = node end
  return args
end

local function call(self, i)
  local several = i.op == "CALLM"
  local frame = self.frame
  local results = calls.call(self, self:get(i.a), arguments(self, i, several and i.c or i.c - 1,
    several))
  frame.several = i.b == 0 and results or nil
  for k = 1, i.b - 1 do self:set(i.a + k - 1, results[k] or self.graph:make "nil") end
end

local function leave(self, results)
  local frame, graph = self.frame, self.graph
  if frame.top and #results > 0 then
    self.fail "a kernel returns nothing: assign to an element of a buffer"
  end
  for k, node in ipairs(results) do graph.now.values[frame.id .. "=" .. k] = node end
  frame.results = math.max(frame.results, #results)
  graph:jump(frame.exit)
end

local function tail_call(self, i)
  local several = i.op == "CALLMT"
  leave(self, calls.call(self, self:get(i.a), arguments(self, i, several and i.d or i.d - 1,
    several)))
end

local function return_values(self, i)
  local n = i.op == "RET0" and 0 or i.op == "RETM" and i.d or i.d - 1
  local results = {}
  for k = 1, n do results[k] = self:get(i.a + k - 1) end
  for k, node in ipairs(i.op == "RETM" and self.frame.several or {}) do results[n + k] = node end
  leave(self, results)
end

-- ---- conditions and loops -------------------------------------------------------------

local function compare(op, negated)
  return function(self, i)
    local a, b = self:value(self:get(i.a)), self:value(self:get(i.d))
    return unroll.compare(self.graph, op, a, b) or self.graph:add(op, { args = { a, b } }), negated
  end
end

local function equal(make, negated)
  return function(self, i)
    local a, b = self:get(i.a), make(self, i.d)
    if a.op == "string" and b.op == "string" then
      return self.graph:make("bool", { k = a.k == b.k }), negated
    end
    a, b = self:value(a), self:value(b)
    return unroll.compare(self.graph, "eq", a, b) or self.graph:add("eq", { args = { a, b } }),
      negated
  end
end

local function slot(self, d) return self:get(d) end

-- Gives the condition, and whether it jumps where that is false.
local conditions = {
  ISLT = compare("lt"), ISGE = compare("lt", true),
  ISLE = compare("le"), ISGT = compare("le", true),
  ISEQV = equal(slot), ISNEV = equal(slot, true),
  ISEQN = equal(number), ISNEN = equal(number, true),
  ISEQS = equal(string_node), ISNES = equal(string_node, true),
  ISEQP = equal(primitive), ISNEP = equal(primitive, true),
}

-- What has no other type than its own is true; nodes that tables and functions are.
local function truth(self, d)
  local node = self:get(d)
  if node.op == "scalar" then return self:value(node) end
  if node.op == "element" or node.op == "array" or node.op == "part" or node.op == "module"
    or node.op == "function" or node.op == "string" or node.op == "table" then
    return self.graph:make("bool", { k = true })
  end
  return node
end

function conditions.IST(self, i) return truth(self, i.d), false end
function conditions.ISF(self, i) return truth(self, i.d), true end

-- A condition takes the jump behind it along.
local function branch(self, i, pc)
  local cond, negated = conditions[i.op](self, i)
  local to, on = self:at(self.frame.code[pc + 1].to), self:at(pc + 2)
  if negated then to, on = on, to end
  if cond.op == "bool" and cond.counted then
    self.graph:jump(cond.k and to or on)
  else
    self.graph:branch(cond, to, on)
  end
  return 2
end

-- What another variable gets: of a scalar what it is now.
local function copied(self, d)
  local node = self:get(d)
  return node.op == "scalar" and self:value(node) or node
end

-- Copies the slot where it jumps, and only there.
local function branch_and_copy(self, i, pc)
  local node, graph = copied(self, i.d), self.graph
  local on, copying = self:at(pc + 2), graphs.block()
  if i.op == "ISTC" then
    graph:branch(truth(self, i.d), copying, on)
  else
    graph:branch(truth(self, i.d), on, copying)
  end
  graph:start(copying)
  self:set(i.a, node)
  graph:jump(self:at(self.frame.code[pc + 1].to))
  return 2
end

local function for_condition(self, i, counter)
  return self.graph:add("in_loop", { args = { counter, self:value(self:get(i.a + 1)),
    self:value(self:get(i.a + 2)) } })
end

local function begin_for(self, i, pc)
  local counts = unroll.counts(self, i, pc)
  if counts then return self:unroll(i, pc, counts) end
  local first = self:value(self:get(i.a))
  self.graph:branch(for_condition(self, i, first), self:at(pc + 1), self:at(i.to))
end

local function end_for(self, i, pc)
  local after = self.graph:add("add", { args = { self:get(i.a), self:get(i.a + 2) }, steps = true })
  self:set(i.a, after)
  self.graph:branch(for_condition(self, i, after), self:at(i.to), self:at(pc + 1))
end

-- ---- the table ------------------------------------------------------------------------

local run = {}

local function compute(self, op, a, b)
  return unroll.compute(self.graph, op, a, b) or self.graph:add(op, { args = { a, b } })
end

for name, op in pairs { ADD = "add", SUB = "sub", MUL = "mul", DIV = "div", MOD = "mod" } do
  local function binary(first, second)
    return function(self, i)
      local a, b = self:value(first(self, i.b)), self:value(second(self, i.c))
      self:set(i.a, compute(self, op, a, b))
    end
  end
  run[name .. "VV"], run[name .. "VN"] = binary(slot, slot), binary(slot, number)
  -- The constant is operand c of both.
  run[name .. "NV"] = function(self, i)
    self:set(i.a, compute(self, op, number(self, i.c), self:value(self:get(i.b))))
  end
end

function run.POW(self, i)
  local a, b = self:value(self:get(i.b)), self:value(self:get(i.c))
  self:set(i.a, self.graph:add("pow", { args = { a, b } }))
end

-- For s() the call gives what it is.
function run.MOV(self, i, pc)
  local behind = self.frame.code[pc + 1]
  local is_called = behind.op:find "^CALL" and behind.a == i.a
  self:set(i.a, is_called and self:get(i.d) or copied(self, i.d))
end
function run.NOT(self, i) self:set(i.a, self.graph:add("not", { args = { truth(self, i.d) } })) end
function run.UNM(self, i)
  self:set(i.a, self.graph:add("neg", { args = { self:value(self:get(i.d)) } }))
end
function run.KSHORT(self, i)
  self:set(i.a, self.graph:number(i.d > 0x7fff and i.d - 0x10000 or i.d))
end
function run.KNUM(self, i) self:set(i.a, number(self, i.d)) end
function run.KSTR(self, i) self:set(i.a, string_node(self, i.d)) end
function run.KPRI(self, i) self:set(i.a, primitive(self, i.d)) end
function run.KNIL(self, i)
  for s = i.a, i.d do self:set(s, self.graph:make "nil") end
end

function run.TNEW(self, i) self:set(i.a, local_arrays.new(self)) end
function run.TDUP(self, i) self:set(i.a, local_arrays.new(self, i.d)) end

function run.UGET(self, i) self:set(i.a, captured.upvalue(self.captured, self.frame.f, i.d)) end
function run.GGET(self, i)
  self:set(i.a, captured.global(self.captured, self.frame.f, text(self, i.d)))
end

function run.TGETV(self, i) self:set(i.a, index(self, self:get(i.b), self:get(i.c))) end
function run.TGETB(self, i) self:set(i.a, index(self, self:get(i.b), self.graph:number(i.c))) end
function run.TGETS(self, i) self:set(i.a, index(self, self:get(i.b), string_node(self, i.c))) end
function run.TSETV(self, i) store(self, self:get(i.b), self:get(i.c), self:get(i.a)) end
function run.TSETB(self, i) store(self, self:get(i.b), self.graph:number(i.c), self:get(i.a)) end
function run.TSETS(self, i) store(self, self:get(i.b), string_node(self, i.c), self:get(i.a)) end

run.CALL, run.CALLM, run.CALLT, run.CALLMT = call, call, tail_call, tail_call
run.RET0, run.RET1, run.RET, run.RETM = return_values, return_values, return_values, return_values
run.FORI, run.FORL = begin_for, end_for
run.ISTC, run.ISFC = branch_and_copy, branch_and_copy
for op in pairs(conditions) do run[op] = branch end

function run.JMP(self, i) self.graph:jump(self:at(i.to)) end
run.UCLO = run.JMP
function run.LOOP() end

local function assigned(self, i)
  self.fail("a kernel cannot assign to '%s', which all items share: write to a buffer, or reduce "
    .. "into one", (debug.getupvalue(self.frame.f, i.a + 1)))
end
run.USETV, run.USETN, run.USETS, run.USETP = assigned, assigned, assigned, assigned

function run.GSET(self, i)
  self.fail("a kernel cannot assign to the global '%s': write 'local %s', or to a buffer",
    text(self, i.d), text(self, i.d))
end

local no_iterators = "loop over an iterator: count, as in for k = 0, n - 1 do"

-- What a kernel cannot do.
local why = {
  FNEW = "make functions: write them in front of the kernel, and call them",
  TSETM = "fill a table with all that a call gives: use local variables",
  CAT = "join strings: it computes with numbers and booleans",
  LEN = "take a length by '#': of a buffer use u.size[0] or u:extent(0), of a table write "
    .. "local n = #t in front of the kernel",
  VARG = "use '...'", ITERC = no_iterators, ITERN = no_iterators, ISNEXT = no_iterators,
  KCDATA = "use numbers of 64 bits with LL or ULL: write them without",
}

--- Runs an instruction; gives how many it took.
---@param lift celer.lift
---@param i celer.instruction
---@param pc integer
---@return integer
function M.run(lift, i, pc)
  local f = run[i.op]
  if not f then lift.fail("a kernel cannot %s", why[i.op] or "do " .. i.op) end
  return f(lift, i, pc) or 1
end

return M
