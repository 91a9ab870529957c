--- expression.lua -- expressions over whole buffers: a + 2 * b.
---
--- An expression is a graph of nodes, and computes nothing: c:set(expression) submits one
--- task that does (assign.lua). A node is never changed once it is made.
---
---   load      elements of a buffer: all, a part, moved, one field
---   number, boolean, index (a coordinate), random
---   others    what compile.lua has a row for
---
--- The kinds of nodes are those of kernels written in Lua:
---   int      a whole number of 64 bits
---   weak     a number without a type of its own: a double, or a float beside floats
---   float, double, bool
---   struct   an element whose fields alone can be used
--- A number of the script is whole, or weak: beside floats and doubles that says nothing.
local box = require "celer.box"
local complex = require "celer.data.complex"
local elements = require "celer.kernel.from_lua.elements"
local place = require "celer.place"
local tables = require "celer.tables"
local words = require "celer.words"

local fail = place.fail

local M = {}

---@class celer.expression  elements of a buffer, or what is computed from some
---@field extents integer[]?  nil: a scalar, of any shape
---@field kind string
---@field lanes integer  of a vector; else 1
---@field complex? boolean  its two lanes are a complex number
---@field op string
---@field args celer.expression[]
local Expression = { __noun = "expression over buffers" }
Expression.__index = Expression

-- Fields that only some nodes have.
local optional = { extents = true, buffer = true, low = true, whole = true, moved = true, by = true,
  edge = true, member = true, spelling = true, value = true, detail = true, called = true,
  exact = true, complex = true }

setmetatable(Expression, { __index = function(_, key)
  if type(key) ~= "string" then
    fail("an expression has no elements yet: celer.array(expression) computes them")
  elseif optional[key] or key:find "^__" then
    return nil
  end
  local methods = {}
  for name, value in tables.sorted_pairs(Expression) do
    if type(value) == "function" and not name:find "^__" then methods[name] = value end
  end
  fail("an expression over buffers has no '%s'%s", key, words.advice(key, methods))
end })

function Expression.__pairs()
  fail "an expression has no elements yet: celer.array(expression) computes them"
end

function M.is_expression(value) return getmetatable(value) == Expression end

function Expression.__capture(self, refuse)
  refuse(("the expression %s"):format(M.text(self)), "; only the script computes with buffers")
end

-- ---- text ---------------------------------------------------------------------------------------

local signs = { add = "+", sub = "-", mul = "*", div = "/", mod = "%", pow = "^" }
local comparisons = { lt = true, le = true, eq = true, ne = true, both = true, either = true }
local LONGEST = 200

local function box_text(node)
  local low, high = {}, {}
  for d, n in ipairs(node.extents) do
    low[d], high[d] = ("%.0f"):format(node.low[d]), ("%.0f"):format(node.low[d] + n)
  end
  return ("{ %s }, { %s }"):format(table.concat(low, ", "), table.concat(high, ", "))
end

local function load_text(node)
  local text = node.buffer.name
  if node.whole == false then text = ("%s:part(%s)"):format(text, box_text(node)) end
  if node.moved then
    text = ("%s:shift(%s%s)"):format(text, table.concat(node.by, ", "),
      node.edge and (", %s"):format(type(node.edge) == "string" and ("%q"):format(node.edge)
        or tostring(node.edge)) or "")
  end
  if node.member then text = ("%s:field(%q)"):format(text, node.member) end
  return text
end

local binding = { add = 1, sub = 1, mul = 2, div = 2, mod = 2, unm = 3, pow = 4 }

local function call_text(node, args)
  local op = node.op
  if comparisons[op] or op == "opposite" then
    return ("%s:%s(%s)"):format(args[1], op, args[2] or "")
  end
  args[#args + 1] = node.detail
  return ("%s(%s)"):format((op == "select" or op == "cast") and "celer." .. op
    or "celer.math." .. (node.called or op), table.concat(args, ", "))
end

-- `least`: an operator that binds less stands in parentheses.
local function text_of(node, least)
  local op, args = node.op, {}
  if op == "load" then return load_text(node) end
  if op == "number" or op == "boolean" then return tostring(node.value) end
  local mine = binding[op]
  for k, arg in ipairs(node.args) do
    local method = k == 1 and (comparisons[op] or op == "opposite")
    args[k] = text_of(arg, mine and mine + (k == 2 and 1 or 0) or method and 9 or 0)
    if #args[k] > LONGEST then return "..." end
  end
  if not mine then return call_text(node, args) end
  local text = signs[op] and ("%s %s %s"):format(args[1], signs[op], args[2]) or "-" .. args[1]
  return mine < least and "(" .. text .. ")" or text
end

--- How an expression would be written.
---@return string
function M.text(node) return text_of(node, 0) end

local function shape_text(node)
  if not node.extents then return "a scalar" end
  return "[" .. table.concat(node.extents, "][") .. "]"
end

function Expression:__call()
  fail("the expression %s has no elements yet: celer.array(expression) computes them", M.text(self))
end

function Expression:__tostring()
  return ("expression %s: %s, not computed; c:set(expression) and celer.array(expression) do it")
    :format(M.text(self), shape_text(self))
end

-- ---- leaves -------------------------------------------------------------------------------------

local vectors = { int = "int", uint = "int", float = "float", double = "double" }

-- Kind and lanes of elements of a type, and whether they are complex numbers.
local function kind_of(type_)
  if type_.class == "f" then return type_.size == 4 and "float" or "double", 1 end
  if type_.class == "b" then return "bool", 1 end
  if type_.class ~= "s" then
    if type_.class == "u" and type_.size == 8 then return "unsigned", 1 end
    return "int", 1
  end
  if type_.header then return type_.size == 8 and "float" or "double", 2, true end
  local base, n = type_.name:match "^(%l+)([234])$"
  if vectors[base] and not type_.declaration then return vectors[base], tonumber(n) end
  return "struct", 1
end
M.kind_of = kind_of

local function make(op, kind, lanes, extents, args)
  return setmetatable({ op = op, kind = kind, lanes = lanes, extents = extents, args = args or {} },
    Expression)
end
M.make = make

-- All elements of a buffer: one node for each.
local function load(buffer)
  if buffer.freed then fail("the buffer %s was freed", buffer.name) end
  local node = rawget(buffer, "elements")
  if not node then
    local kind, lanes, is_complex = kind_of(buffer.type)
    node = make("load", kind, lanes, buffer.dims > 0 and buffer.extents or nil)
    node.buffer, node.complex = buffer, is_complex
    rawset(buffer, "elements", node)
  end
  return node
end

--- The node for what the user gave: a number, a boolean, a buffer or an expression.
---@param value any
---@param call string  begins the message
---@return celer.expression
function M.of(value, call)
  local kind = type(value)
  if kind == "number" or kind == "boolean" then
    local node = make(kind, kind == "number" and (value % 1 == 0 and math.abs(value) <= 2 ^ 53
      and "int" or "weak") or "bool", 1)
    node.value = value
    return node
  end
  if getmetatable(value) == Expression then return value end
  if kind == "cdata" then
    local re, im = complex.parts(value)
    if re then return M.complex(M.of(re, call), M.of(im, call)) end
  end
  if require("celer.data.buffer").is_buffer(value) then return load(value) end
  fail("%s: a buffer, an expression over buffers or a number is needed, not %s", call,
    words.a(value))
end

-- ---- operations ---------------------------------------------------------------------------------

--- The shape of what is computed from nodes: that of all which are no scalars.
---@param call string
---@param args celer.expression[]
function M.shape(call, args)
  local first
  for _, arg in ipairs(args) do
    if arg.extents and not first then
      first = arg
    elseif arg.extents then
      local same = #arg.extents == #first.extents
      for d, n in ipairs(arg.extents) do same = same and n == first.extents[d] end
      if not same then
        fail("%s: the shapes differ: %s is %s, and %s is %s; take parts of one shape, "
          .. "u:part(lo, hi)", call, M.text(first), shape_text(first), M.text(arg), shape_text(arg))
      end
    end
  end
  return first and first.extents
end

-- Whether one of these is a complex number: then the others are, or are real.
local function has_complex(call, args)
  local found, vector = false, nil
  for _, arg in ipairs(args) do
    found = found or arg.complex or false
    if arg.lanes > 1 and not arg.complex then vector = arg end
  end
  if found and vector then
    fail("%s: %s has vectors, and not complex numbers", call, M.text(vector))
  end
  return found
end

-- Lanes of what is computed from nodes.
local function lanes_of(call, args)
  local lanes = 1
  for _, arg in ipairs(args) do
    if arg.lanes ~= lanes and arg.lanes > 1 then
      if lanes > 1 then
        fail("%s: vectors of %d and of %d", call, lanes, arg.lanes)
      end
      lanes = arg.lanes
    end
  end
  return lanes
end

local rank = { int = 1, weak = 2, float = 3, double = 4 }

--- Raises unless a node is a number.
function M.check_number(call, node)
  if rank[node.kind] then return node end
  local text = M.text(node)
  if node.kind == "bool" then
    fail("%s: %s is a condition, and no number: write celer.select(%s, 1, 0)", call, text, text)
  elseif node.kind == "unsigned" then
    fail("%s: %s has whole numbers of 64 bits without a sign, which expressions do not compute "
      .. "with", call, text)
  end
  fail("%s: %s has elements of the struct %s: take a field, %s:field(name)", call, text,
    node.buffer.type.name, node.buffer.name)
end

--- The kind of what is computed from numbers.
---@param call string
---@param args celer.expression[]
function M.join(call, args)
  local kind = "int"
  for _, arg in ipairs(args) do
    M.check_number(call, arg)
    if rank[arg.kind] > rank[kind] then kind = arg.kind end
  end
  return kind
end

-- Operations that complex numbers have.
local of_complex = { add = true, sub = true, mul = true, div = true, unm = true,
  conj = true }

--- A complex number of two real ones.
---@param re celer.expression
---@param im celer.expression
---@return celer.expression
function M.complex(re, im)
  local call, args = "celer.math.complex", { re, im }
  local kind = M.join(call, args)
  for _, arg in ipairs(args) do
    if arg.lanes > 1 then fail("%s: %s is no real number", call, M.text(arg)) end
  end
  local node = make("complex", kind == "int" and "weak" or kind, 2, M.shape(call, args), args)
  node.complex = true
  return node
end

--- A real number of a complex one: its part, its absolute value or its angle.
---@param op "real"|"imag"|"abs"|"arg"
---@param node celer.expression  complex
---@return celer.expression
function M.real_of(op, node)
  local out = make(op == "abs" and "modulus" or op, node.kind, 1, node.extents, { node })
  out.called = op
  return out
end

--- An operation on numbers, element by element. `to_kind`: of the joined kind, and the nodes.
---@param op string
---@param call string
---@param values {n: integer, [integer]: any}  any may be nil by mistake
---@param to_kind? fun(kind: string, args: celer.expression[]): string
---@return celer.expression
function M.numeric(op, call, values, to_kind)
  local args = {}
  for k = 1, values.n do args[k] = M.of(values[k], call) end
  local kind = M.join(call, args)
  local is_complex = has_complex(call, args)
  if is_complex and op == "pow" and args[2].op == "number" and args[2].value == 2 then
    return M.numeric("mul", call, { n = 2, args[1], args[1] })
  elseif is_complex and not of_complex[op] then
    fail("%s: complex numbers have + - * / ^2, and celer.math.abs, arg, conj, real and imag", call)
  end
  local out = make(op, to_kind and to_kind(kind, args) or kind, lanes_of(call, args),
    M.shape(call, args), args)
  if is_complex then out.complex = true end
  return out
end

local function fraction(kind) return kind == "int" and "weak" or kind end
M.fraction = fraction

-- Whole only where the divisor is known to be none of those that trap.
local function remainder(kind, args)
  local by = args[2]
  if kind == "int" and not (by.op == "number" and by.value ~= 0 and by.value ~= -1) then
    return "weak"
  end
  return kind
end

local kinds = { div = fraction, pow = fraction, mod = remainder }

--- Operators, as metamethods of expressions and buffers.
M.operators = {}
for op, sign in pairs(signs) do
  local call = ("a %s b"):format(sign)
  M.operators["__" .. op] = function(a, b)
    return M.numeric(op, call, { n = 2, a, b }, kinds[op])
  end
end
M.operators.__unm = function(a) return M.numeric("unm", "-a", { n = 1, a }) end

local function refuse_order()
  fail("a < b of whole buffers: Lua would make it true or false; write a:lt(b), and "
    .. "celer.select(a:lt(b), x, y)")
end
M.operators.__lt, M.operators.__le = refuse_order, refuse_order
for name, f in pairs(M.operators) do Expression[name] = f end

-- ---- conditions ---------------------------------------------------------------------------------

-- A comparison; its fields `exact` is the kind in which both are compared.
local function compare(op, a, b)
  local call = ("a:%s(b)"):format(op)
  local args = { M.of(a, call), M.of(b, call) }
  local both_bool = args[1].kind == "bool" and args[2].kind == "bool"
  local kind = "bool"
  if not both_bool or op == "lt" or op == "le" then
    kind = M.join(call, args)
    if args[1].kind ~= args[2].kind then kind = "double" end
  end
  if lanes_of(call, args) > 1 then
    fail("%s: %s", call, (args[1].complex or args[2].complex)
      and "complex numbers are not compared: compare celer.math.real(z), imag(z) or abs(z)"
      or "vectors are not compared: compare their components, a:field \"x\"")
  end
  local node = make(op, "bool", 1, M.shape(call, args), args)
  node.exact = kind
  return node
end

--- Where this is less than `other`: a condition for celer.select.
---@param other celer.expression|celer.buffer|number
---@return celer.expression
function Expression:lt(other) return compare("lt", self, other) end

--- Where this is less than `other` or equal.
---@param other celer.expression|celer.buffer|number
---@return celer.expression
function Expression:le(other) return compare("le", self, other) end

--- Where this is greater than `other`.
---@param other celer.expression|celer.buffer|number
---@return celer.expression
function Expression:gt(other) return compare("lt", other, self) end

--- Where this is greater than `other` or equal.
---@param other celer.expression|celer.buffer|number
---@return celer.expression
function Expression:ge(other) return compare("le", other, self) end

--- Where this equals `other`.
---@param other celer.expression|celer.buffer|number|boolean
---@return celer.expression
function Expression:eq(other) return compare("eq", self, other) end

--- Where this does not equal `other`.
---@param other celer.expression|celer.buffer|number|boolean
---@return celer.expression
function Expression:ne(other) return compare("ne", self, other) end

--- Raises unless a node is a condition.
local function check_condition(call, node)
  if node.kind == "bool" then return end
  fail("%s: the condition %s is a number: compare it, as in %s:gt(0)", call, M.text(node),
    M.text(node))
end

local function logical(op, ...)
  local call, args = ("c:%s()"):format(op), { ... }
  for k = 1, select("#", ...) do
    args[k] = M.of(args[k], call)
    check_condition(call, args[k])
  end
  return make(op, "bool", 1, M.shape(call, args), args)
end

--- Where both conditions hold.
---@param other celer.expression|celer.buffer|boolean
---@return celer.expression
function Expression:both(other) return logical("both", self, other) end

--- Where one of two conditions holds, or both.
---@param other celer.expression|celer.buffer|boolean
---@return celer.expression
function Expression:either(other) return logical("either", self, other) end

--- Where a condition does not hold.
---@return celer.expression
function Expression:opposite() return logical("opposite", self) end

--- Of each element x where the condition holds, and y elsewhere. Of a boolean of Lua's, as in a
--- kernel, x or y itself.
---@param condition celer.expression|celer.buffer|boolean  a comparison such as u:lt(0), or of bool
---@param x celer.expression|celer.buffer|number|boolean
---@param y celer.expression|celer.buffer|number|boolean
---@return celer.expression|celer.buffer|number|boolean
function M.select(condition, x, y)
  if condition == true then return x elseif condition == false then return y end
  local call = "celer.select"
  local args = { M.of(condition, call), M.of(x, call), M.of(y, call) }
  check_condition(call, args[1])
  local values = { args[2], args[3] }
  local kind = args[2].kind == "bool" and args[3].kind == "bool" and "bool" or M.join(call, values)
  local out = make("select", kind, lanes_of(call, values), M.shape(call, args), args)
  if has_complex(call, values) then out.complex = true end
  return out
end

--- Numbers as a type holds them: rounded to float, cut to whole ones, or of conditions 1 and 0.
---@param element string|celer.type  a type of numbers, "int" or "float"
---@param x celer.expression|celer.buffer|number
---@return celer.expression
function M.cast(element, x)
  local type_ = require("celer.data.types").find(element, "celer.cast")
  local node = M.of(x, "celer.cast")
  local kind, lanes = kind_of(type_)
  if not rank[kind] or lanes > 1 then
    fail("celer.cast: the type must be one of numbers, such as \"int\" or \"float\", not %s",
      type_.name)
  end
  if node.kind ~= "bool" then M.check_number("celer.cast", node) end
  local out = make("cast", kind, node.lanes, node.extents, { node })
  out.spelling, out.detail = type_.name, ("%q"):format(type_.name)
  if node.complex then
    if kind == "int" then fail("celer.cast: %s is complex", M.text(node)) end
    out.complex = true
  end
  return out
end

-- ---- parts of buffers ---------------------------------------------------------------------------

local function copy_of(node)
  local out = {}
  for key, value in next, node do out[key] = value end
  return setmetatable(out, Expression)
end

-- The node of elements of a buffer.
local function elements_of(self, call)
  local node = M.of(self, call)
  if node.op ~= "load" then
    fail("%s: %s is computed; this takes a buffer, or a part or a field of one", call, M.text(node))
  end
  return node
end

local function corners(node, low, high, call)
  local n = node.extents and #node.extents or 0
  if box.is_box(low) then
    local lo, hi = box.bounds(low)
    low, high = lo, hi
  end
  if type(low) == "number" then low = { low } end
  if type(high) == "number" then high = { high } end
  if type(low) ~= "table" or type(high) ~= "table" or #low ~= n or #high ~= n then
    fail("%s takes a celer.box, or its lower and upper corner, of %s", call,
      words.count(n, "dimension"))
  end
  return low, high
end

local function check_corner(call, node, d, low, high)
  for _, x in ipairs { low, high } do
    if type(x) ~= "number" or x % 1 ~= 0 then
      fail("%s: coordinates are whole numbers, not %s", call, tostring(x))
    end
  end
  if low < 0 or high < low or high > node.extents[d] then
    fail("%s: in dimension %d the part is from %.0f up to %.0f, and %s has 0 up to %.0f", call,
      d - 1, low, high, M.text(node), node.extents[d])
  end
end

--- A part of the elements, from the lower corner up to and without the upper one: to read, and
--- to set.
---@param low celer.box|integer[]|integer
---@param high? integer[]|integer
---@return celer.expression
function Expression:part(low, high)
  local call = "u:part"
  local node = elements_of(self, call)
  if node.moved then
    fail "u:part: take the part first, and then shift it: u:part(lo, hi):shift(1)"
  end
  local lo, hi = corners(node, low, high, call)
  local out = copy_of(node)
  out.low, out.extents, out.whole = {}, {}, false
  for d = 1, #lo do
    check_corner(call, node, d, lo[d], hi[d])
    out.low[d] = lo[d] + (node.low and node.low[d] or 0)
    out.extents[d] = hi[d] - lo[d]
  end
  if #out.extents == 0 then out.extents, out.whole = nil, nil end
  return out
end

local edges = { periodic = true, clamped = true, mirrored = true }

-- Raises where a part leaves its buffer, and nothing says what lies beyond.
local function check_beyond(node)
  for d, n in ipairs(node.extents) do
    local low = (node.low and node.low[d] or 0) + node.by[d]
    if n > 0 and (low < 0 or low + n > node.buffer.size[d - 1]) then
      fail("u:shift: it leaves %s: say what lies beyond its edges, u:shift(%s, \"periodic\"), "
        .. "\"clamped\", \"mirrored\" or a number, or take a part that stays inside",
        node.buffer.name, table.concat(node.by, ", "))
    end
  end
end

local function check_shifts(node, by)
  if #by ~= #(node.extents or {}) or #by == 0 then
    fail("u:shift takes a whole number for each dimension of %s, which has %s, and then what lies "
      .. "beyond the edges", node.buffer.name, words.count(#(node.extents or {}), "dimension"))
  end
  for _, x in ipairs(by) do
    if type(x) ~= "number" or x % 1 ~= 0 then
      fail("u:shift: %s is no whole number; a number beyond the edges comes last, after one for "
        .. "each dimension", tostring(x))
    end
  end
end

--- The elements that lie so far from each: u:shift(-1, 0) has u(i - 1, j) at (i, j). The last
--- argument says what lies beyond the edges of the buffer: "periodic", "clamped", "mirrored", or
--- a number. Without it the part must stay inside.
---@param ... integer|"periodic"|"clamped"|"mirrored"
---@return celer.expression
function Expression:shift(...)
  local node, by = elements_of(self, "u:shift"), { ... }
  local n, edge = node.extents and #node.extents or 0, nil
  if #by == n + 1 or type(by[#by]) == "string" then edge = table.remove(by) end
  check_shifts(node, by)
  if edge ~= nil and not edges[edge] and type(edge) ~= "number" then
    fail("u:shift: beyond the edges lies \"periodic\", \"clamped\", \"mirrored\" or a number, "
      .. "not %s", type(edge) == "string" and ("%q"):format(edge) or words.a(edge))
  end
  if node.moved and node.edge ~= edge then
    fail "u:shift: it was shifted with other edges already"
  end
  local out = copy_of(node)
  out.by, out.edge, out.moved = {}, edge, true
  for d, x in ipairs(by) do out.by[d] = x + (node.by and node.by[d] or 0) end
  if edge == nil then check_beyond(out) end
  return out
end

--- One field of structs or vectors: to read, and to set.
---@param name string  "x", or "position.x" of a struct in a struct
---@return celer.expression
function Expression:field(name)
  local node = elements_of(self, "u:field")
  local type_ = node.buffer.type
  if type_.class ~= "s" or node.member then
    fail("u:field: the elements of %s are no structs", M.text(node))
  end
  local found = type(name) == "string" and elements.find(type_, name)
  if not found or not rank[found.kind] and found.kind ~= "bool" or name:find("[", 1, true) then
    fail("u:field: %s has no field %s that is a number", type_.name,
      type(name) == "string" and ("'%s'"):format(name) or "called by " .. words.a(name))
  end
  local out = copy_of(node)
  out.member, out.kind, out.lanes, out.spelling = name, found.kind, 1, found.spelling
  out.complex = nil
  return out
end

-- ---- tasks --------------------------------------------------------------------------------------

--- Sets each element, in one task: u:set(a + 2 * b). What is set may be a part, or a field.
---@param value celer.expression|celer.buffer|number|boolean
function Expression:set(value)
  local node = elements_of(self, "u:set")
  if node.moved then fail "u:set: a part that was shifted is to read; set u:part(lo, hi)" end
  require("celer.arrays.assign").set(node, value)
end

--- Combines all elements of an expression into this buffer of one element, in one task:
--- t:reduce("sum", a * b). Operators and options are those of cg:reduce.
---@param operator "sum"|"prod"|"min"|"max"|"and"|"or"|{combine: string, identity: any}
---@param value celer.expression|celer.buffer
---@param options? celer.reduce_options
function Expression:reduce(operator, value, options)
  require("celer.arrays.assign").reduce(elements_of(self, "t:reduce"), operator, value, options)
end

M.Expression = Expression

return M
