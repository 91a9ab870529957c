--- calls.lua -- what a kernel may call: math, bit, helpers, methods of its parameters.
local bit = require "bit"
local captured = require "celer.kernel.from_lua.captured"
local elements = require "celer.kernel.from_lua.elements"
local made_structs = require "celer.kernel.from_lua.made_structs"
local symbol = require "celer.symbol"
local util = require "jit.util"
local words = require "celer.words"

local M = {}

-- Functions of the standard library: how many arguments, and how it is computed.
---@class celer.lua_function
---@field op string  the node's
---@field least integer
---@field most integer
---@field fold? boolean  of any number of arguments, two by two
---@field name? string

local known = {}

local function add(library, prefix, names, op, count, fold)
  for name in names:gmatch "%S+" do
    known[library[name]] = { op = op or name, least = count, most = fold and math.huge or count,
      fold = fold, name = name, path = prefix .. name }
  end
end

add(math, "math.", "floor ceil abs", nil, 1)
add(math, "math.", "sqrt exp log sin cos tan asin acos atan sinh cosh tanh log10", "call", 1)
add(math, "math.", "atan2 fmod", "call", 2)
add(math, "math.", "pow", "pow", 2)
add(math, "math.", "min max", nil, 1, true)
add(bit, "bit.", "band bor bxor", "bits", 1, true)
add(bit, "bit.", "lshift rshift arshift", "bits", 2)
add(bit, "bit.", "bnot tobit", "bits", 1)
for _, name in ipairs { "floor", "ceil", "min", "max" } do
  known[symbol[name]] = known[math[name]]
end
known[require("celer.run.philox").uniform] = { op = "philox", least = 2, most = 4,
  name = "philox", path = "celer.philox" }
known[symbol.clamp] = { op = "clamp", least = 3, most = 3, path = "celer.clamp" }

local library_names = {}
for prefix, library in pairs { ["math."] = math, ["bit."] = bit } do
  for name, f in pairs(library) do
    if type(f) == "function" then library_names[f] = prefix .. name end
  end
end

local counting = "count, as in for k = 0, n - 1 do"

local instead = {
  pairs = counting, ipairs = counting, next = counting,
  print = "see its values in a buffer; a kernel in C++ has printf",
  ["math.random"] = "for random numbers write celer.philox(seed, i, step)",
  ["math.deg"] = "write x * 180 / math.pi", ["math.rad"] = "write x * math.pi / 180",
  ["math.modf"] = "write math.floor(x) and x - math.floor(x)",
  ["bit.rol"] = "write bit.bor(bit.lshift(x, n), bit.rshift(x, 32 - n))",
  ["bit.ror"] = "write bit.bor(bit.rshift(x, n), bit.lshift(x, 32 - n))",
  tonumber = "its numbers are numbers already",
  assert = "write what went wrong into a buffer, and look at it in the script",
  error = "write what went wrong into a buffer, and look at it in the script",
}

-- Functions of C, and celer's own.
local function refuse_foreign(lift, node)
  local name = library_names[node.value] or node.path
  lift.fail("%s cannot be called in a kernel: %s", name, instead[name]
    or "there are the functions of math and bit, and functions of Lua")
end

local function call_known(lift, what, args)
  if #args < what.least or #args > what.most then
    lift.fail("%s takes %s, got %d", what.path, words.count(what.least, "argument"), #args)
  end
  local graph, first = lift.graph, lift:value(args[1])
  if not what.fold then
    local list = {}
    for k, arg in ipairs(args) do list[k] = lift:value(arg) end
    if what.op == "clamp" then
      local above = graph:add("max", { args = { first, list[2] } })
      return { graph:add("min", { args = { above, list[3] } }) }
    end
    return { graph:add(what.op, { name = what.name, args = list }) }
  end
  if what.op == "bits" then first = graph:add("bits", { name = "tobit", args = { first } }) end
  for k = 2, #args do
    first = graph:add(what.op, { name = what.name, args = { first, lift:value(args[k]) } })
  end
  return { first }
end

local letters = { "[i]", "[j]", "[k]" }

--- An element of an array, as its user writes it: "u[i][j]".
---@param array table
---@return string
function M.element(array) return array.name .. table.concat(letters, "", 1, array.dims) end

-- How a reduction is spelt in a kernel, by the operator that it was made with.
local spellings = { sum = "add", prod = "mul", min = "min", max = "max", ["and"] = "band",
  ["or"] = "bor" }

local function reduce(lift, method, args)
  local array, name = method.array, method.name
  local wanted = spellings[array.operator] or "combine"
  if name ~= wanted and name ~= "combine" then
    lift.fail("'%s' is reduced by %s: write %s:%s(x)", array.name, array.operator == "custom"
      and "an operator of your own" or ("%q"):format(array.operator), array.name, wanted)
  elseif #method.index ~= array.dims and not (#method.index == 0 and array.dims == 0) then
    lift.fail("'%s' has %s: write %s:%s(x)", array.name, words.count(array.dims, "dimension"),
      M.element(array), wanted)
  elseif #args ~= 2 then
    lift.fail("%s:%s takes one value, got %d", array.name, name, #args - 1)
  end
  lift.graph:add("reduce", { array = array, index = method.index, args = { lift:value(args[2]) },
    effect = true })
  return {}
end

-- Atomic operations, what C++ calls them, and how many values they take.
local atomics = {
  atomic_add = { "Add", 1 }, atomic_min = { "Min", 1 }, atomic_max = { "Max", 1 },
  atomic_band = { "And", 1 }, atomic_bor = { "Or", 1 }, atomic_bxor = { "Xor", 1 },
  atomic_exchange = { "Exch", 1 }, atomic_compare_exchange = { "CAS", 2 },
}

--- The methods of an element that is a number.
M.atomics = atomics

local function atomic(lift, method, args)
  local array, name, operation = method.array, method.name, atomics[method.name]
  if #method.index < array.dims then
    lift.fail("'%s' has %s: write %s:%s(x)", array.name, words.count(array.dims, "dimension"),
      M.element(array), name)
  elseif #args ~= operation[2] + 1 then
    lift.fail("%s:%s takes %s, got %d", array.name, name, words.count(operation[2], "value"),
      #args - 1)
  end
  local element = elements.find(array.type, method.field)
  if element.kind ~= "other" and (element.size ~= 4 and element.size ~= 8
    or element.kind ~= "int" and name ~= "atomic_add") then
    lift.fail("%s:%s: '%s' has elements of %s, and %s", array.name, name,
      array.name .. (method.field ~= "" and "." .. method.field or ""), element.spelling,
      name == "atomic_add" and "numbers of 4 or 8 bytes are added to"
        or "this takes whole numbers of 4 or 8 bytes")
  end
  local values = {}
  for k = 2, #args do values[k - 1] = lift:value(args[k]) end
  return { lift.graph:add("atomic", { array = array, index = method.index, field = method.field,
    name = operation[1], args = values, effect = true }) }
end

-- What is read of a scalar from now on is read anew: rounded to its type.
local function set(lift, method, args)
  local array, graph = method.array, lift.graph
  if #args ~= 2 then
    lift.fail("%s:set takes one value, got %d", array.name, #args - 1)
  end
  graph:add("store", { array = array, index = {}, field = "",
    args = { made_structs.value(lift, args[2], array, "") }, effect = true })
  if method.of.op == "element" then return {} end
  lift:want_set(array)
  if method.of.op ~= "scalar" then
    lift.fail("%s:set: another variable, also the parameter of a function that is called, has only "
      .. "the number that '%s' was: set the kernel's own parameter", array.name, array.name)
  end
  graph.now.values[method.of.variable] = graph:add("load", { array = array, index = {},
    field = "" })
  return {}
end

local function push(lift, method, args)
  local array = method.array
  if method.name ~= "push" or #method.index > 0 or #args ~= array.dims + 2 then
    lift.fail("'%s' is pushed to: write %s:push(%s, value)", array.name, array.name,
      ({ "i", "i, j", "i, j, k" })[array.dims])
  end
  local at = {}
  for d = 1, array.dims do at[d] = lift:value(args[d + 1]) end
  lift.graph:add("push", { array = array, index = at, field = "",
    args = { made_structs.value(lift, args[#args], array, "") }, effect = true })
  return {}
end

local function extent(lift, method, args)
  local dim = args[2]
  if #args ~= 2 or dim.op ~= "number" then
    lift.fail("'%s:extent(d)' takes a dimension, as a number that stands there", method.array.name)
  end
  return { lift:extent(method.array, dim.k) }
end

local function call_method(lift, method, args)
  local is_scalar = method.of.op == "scalar" -- then the call is given what that is now
  if args[1] ~= method.of and not (is_scalar and args[1]) then
    lift.fail("call it with a colon: %s:%s(...)", method.array.name, method.name)
  elseif method.array.what == "reduction" then
    return reduce(lift, method, args)
  elseif method.array.what == "route" then
    return push(lift, method, args)
  elseif atomics[method.name] then
    return atomic(lift, method, args)
  elseif method.name == "set" then
    return set(lift, method, args)
  elseif method.name == "extent" then
    return extent(lift, method, args)
  end
  lift.fail(method.name == "push" and "'%s' is not given to be pushed to: submit the kernel with "
    .. "celer.route(buffer, \"sum\") in its place" or "'%s' has no method '%s' in a kernel",
    method.array.name, method.name)
end

--- Calls a node with nodes; gives what it returns.
---@param lift celer.lift
---@param node celer.node
---@param args celer.node[]
---@return celer.node[]
function M.call(lift, node, args)
  if node.op == "method" then return call_method(lift, node, args) end
  if node.op == "array" then return { lift:element(node, args) } end
  if node.op == "scalar" and #args == 0 then return { lift:value(node) } end
  if (node.op == "load" or node.op == "element" or node.op == "scalar")
    and node.array.dims == 0 then
    if #args == 0 then return { node } end
    lift.fail("'%s' has 0 dimensions, and is given %d here", node.array.name, #args)
  end
  if node.op ~= "function" then
    lift.fail("a kernel cannot call %s", lift.describe(node))
  elseif known[node.value] then
    return call_known(lift, known[node.value], args)
  elseif node.value == captured.select and #args ~= 3 then
    lift.fail("celer.select takes 3 arguments, got %d", #args)
  elseif not util.funcinfo(node.value).bytecodes
    or node.value ~= captured.select
      and debug.getinfo(node.value, "S").source:find "^=celer/" then
    refuse_foreign(lift, node)
  end
  return lift:inline(node, args)
end

return M
