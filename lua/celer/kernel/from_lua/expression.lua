--- expression.lua -- nodes as expressions of C++.
local elements = require "celer.kernel.from_lua.elements"
local ffi = require "ffi"
local kinds = require "celer.kernel.from_lua.kinds"
local types = require "celer.data.types"
local whole = require "celer.kernel.from_lua.whole"

local M = {}

local INT_LOW, INT_HIGH = -2 ^ 31, 2 ^ 31 - 1
local UNSIGNED = types.number("u", 4).name

local spelling = { weak = "double", float = "float", double = "double", bool = "bool",
  ["nil"] = "int" }

--- The C++ type of a node.
---@param node celer.node
---@return string
function M.type_of(node)
  if node.kind == "int" then
    return node.low >= INT_LOW and node.high <= INT_HIGH and "int" or "long long"
  elseif node.kind == "struct" then
    local name, field = node.array.type.name, node.field or ""
    return field == "" and name or ("decltype(%s().%s)"):format(name, field)
  end
  return spelling[node.kind]
end
local type_of = M.type_of

--- A number in a C++ type.
local function literal(k, type_)
  if k ~= k then return "NAN" end
  if k == math.huge then return "INFINITY" elseif k == -math.huge then return "(-INFINITY)" end
  local text
  if type_ == "int" or type_ == "long long" then
    text = ("%.0f%s"):format(k, type_ == "int" and "" or "LL")
  else
    text = (type_ == "float" and "%.9g" or "%.17g"):format(k)
    if not text:find "[%.en]" then text = text .. ".0" end
    if type_ == "float" then text = text .. "f" end
  end
  return text:sub(1, 1) == "-" and "(" .. text .. ")" or text
end

M.literal = literal

---@class celer.cpp_writer
---@field names table<celer.node, string>  of parameters
---@field arrays table<integer, string>  by the number of the argument
---@field lists table<celer.number_table, string>
---@field is_inline fun(node: celer.node): boolean
---@field unknowns string[]  declarations, and names by their types and texts
---@field fail fun(node: celer.node, message: string, ...)
local Writer = {}
Writer.__index = Writer

--- Makes what writes expressions, of a class that adds the fields above.
function M.new(fields) return setmetatable(fields, Writer) end

local direct = { number = true, bool = true, coordinate = true, uniform = true, flag = true,
  ["nil"] = true, made = true }

--- A node: its variable, or the expression itself.
function Writer:node(node)
  if direct[node.op] or node.op ~= "phi" and self.is_inline(node) then return self:write(node) end
  return "x" .. node.id
end

--- A node, converted to a C++ type.
function Writer:as(node, type_)
  if node.op == "number" then
    if type_ == "long long" and node.kind ~= "int" then
      return ("lua::whole<double>(%s)"):format(literal(node.k, "double"))
    end
    return literal(node.k, type_)
  end
  local from = type_of(node)
  if from == type_ then return self:node(node) end
  if type_ == "long long" and (from == "double" or from == "float") then
    return ("lua::whole<%s>(%s)"):format(from, self:node(node))
  end
  return ("(%s)%s"):format(type_, self:node(node))
end

-- The narrowest type in which both can be computed with as integers.
local function wide(a, b)
  return type_of(a) == "int" and type_of(b) == "int" and "int" or "long long"
end

-- Whether a float holds the node exactly.
local function fits_float(node)
  if node.op == "number" then return tonumber(ffi.new("float", node.k)) == node.k end
  return node.kind == "float" or node.kind == "int" and node.low >= -2 ^ 24 and node.high <= 2 ^ 24
end

-- The type in which both are compared, exactly.
local function common(a, b)
  if a.kind == "int" and b.kind == "int" then return wide(a, b) end
  local float = a.kind == "float" or b.kind == "float"
  return float and fits_float(a) and fits_float(b) and "float" or "double"
end

--- Coordinates of an element, between parentheses.
function Writer:coordinates(node)
  local out = {}
  for k = 1, node.array.dims do
    local at = node.index[k]
    if not whole.is_whole(at) then
      self.fail(node, "index %d of '%s' may be a fraction: write math.floor(x)", k - 1,
        node.array.name)
    end
    out[k] = self:as(at, at.kind == "int" and type_of(at) or "long long")
  end
  return table.concat(out, ", ")
end

--- What follows the coordinates: .x, or .q[3]; nothing for all of the element.
function Writer:field(node)
  local at = node.array.dims
  local text = node.field:gsub("()%[%]", function(place)
    at = at + 1
    local index, path = node.index[at], node.field:sub(1, place - 1)
    local count = elements.find(node.array.type, path).count
    if not whole.is_whole(index) then
      self.fail(node, "the index of '%s' of a %s may be a fraction: write math.floor(x)", path,
        node.array.type.name)
    elseif index.kind ~= "int" or index.low < 0 or index.high >= count then
      self.fail(node, "'%s' of a %s has [0] to [%d], and this index may be another one: keep it "
        .. "between them by celer.clamp%s", path, node.array.type.name, count - 1,
        index.op == "mod" and "" or ", or by %")
    end
    return ("[%s]"):format(self:as(index, type_of(index)))
  end)
  return text ~= "" and "." .. text or ""
end

--- A condition: everything is true but false and nil.
function Writer:truth(node)
  if node.kind == "bool" then return self:node(node) end
  if node.kind == "nil" then return "false" end
  if node.kind == "mixed" then
    self.fail(node, "a condition here may be a number, or else a boolean or nil; a number is "
      .. "always true: compare it, as in x ~= 0")
  end
  return "true"
end

-- ---- by operation ------------------------------------------------------------------------

local write = {}

function Writer:write(node) return write[node.op](self, node, node.args, type_of(node)) end

function write.number(_, node, _, type_) return literal(node.k, type_) end
function write.bool(_, node) return tostring(node.k) end
write["nil"] = function() return "0" end
function write.coordinate(_, node) return "i" .. node.dim end
function write.uniform(self, node) return self.names[node] end
write.flag = write.uniform

-- Whether the compiler may find by itself that it is 0.
function Writer:may_be_zero(node, inner)
  if node.op == "number" then return inner or node.k == 0 end
  if direct[node.op] or node.op == "load" or not self.is_inline(node) then return false end
  for _, arg in ipairs(node.kind ~= "int" and node.args or {}) do
    if not self:may_be_zero(arg, true) then return false end
  end
  return true
end

-- The type of arithmetic: of integers one that also holds the operands, as what an int does not
-- hold is another number, and then compilers take it that nothing overflows.
local function held(node, args, type_)
  for _, arg in ipairs(node.kind == "int" and args or {}) do
    if type_of(arg) ~= type_ then return "long long" end
  end
  return type_
end

local function given(text, in_type, type_)
  return in_type == type_ and text or ("(%s)%s"):format(type_, text)
end

for op, sign in pairs { add = "+", sub = "-", mul = "*", div = "/" } do
  write[op] = function(self, node, args, type_)
    if node.kind ~= "int" and (self:may_be_zero(args[1]) and (op == "sub" or op == "add")
      or self:may_be_zero(args[2]) and op == "add") then -- see lua.cuh
      return ("lua::%s<%s>(%s, %s)"):format(op, type_, self:as(args[1], type_),
        self:as(args[2], type_))
    end
    local in_type = held(node, args, type_)
    return given(("(%s %s %s)"):format(self:as(args[1], in_type), sign, self:as(args[2], in_type)),
      in_type, type_)
  end
end

function write.neg(self, node, args, type_)
  if args[1].kind == "int" and node.kind ~= "int" then
    return ("lua::minus<%s>(%s)"):format(type_, self:as(args[1], type_of(args[1])))
  end
  local in_type = held(node, args, type_)
  return given(("(-%s)"):format(self:as(args[1], in_type)), in_type, type_)
end

function write.mod(self, node, args, type_)
  local a, b = args[1], args[2]
  if node.kind ~= "int" then
    return ("lua::mod<%s>(%s, %s)"):format(type_, self:as(a, type_), self:as(b, type_))
  end
  local in_type = a.low > INT_LOW and wide(a, b) or "long long"
  local x, y = self:as(a, in_type), self:as(b, in_type)
  local text
  if node.wraps == "" then
    text = x
  elseif node.wraps then
    text = ("lua::wrap_%s<%s>(%s, %s)"):format(node.wraps, in_type, x, y)
  elseif a.low >= 0 and b.low > 0 then
    text = ("(%s %% %s)"):format(x, y)
  else
    text = ("lua::mod_whole<%s>(%s, %s)"):format(in_type, x, y)
  end
  return given(text, in_type, type_)
end

-- What the compiler computes of constants may have another last bit: it gets no constant but an
-- exponent that it makes a product of.
function write.pow(self, _, args, type_)
  return ("lua::pow<%s>(%s, %s)"):format(type_, self:as(args[1], type_), self:as(args[2], type_))
end

local philox_arguments = { "seed", "item", "step", "draw" }

function write.philox(self, node, args)
  local list = {}
  for k, arg in ipairs(args) do
    if not whole.is_whole(arg) then
      self.fail(node, "the %s of celer.philox may be a fraction: write math.floor(x)",
        philox_arguments[k])
    end
    list[k] = self:as(arg, "long long")
  end
  return ("celer::philox_at(%s)"):format(table.concat(list, ", "))
end

for _, op in ipairs { "min", "max" } do
  write[op] = function(self, node, args, type_)
    local a, b = args[1], args[2]
    if node.kind ~= "int" then
      return ("lua::%s<%s>(%s, %s)"):format(op, type_, self:as(a, type_), self:as(b, type_))
    end
    if node.chooses then return self:as(node.chooses, type_) end
    if a.kind ~= "int" or b.kind ~= "int" then
      local of = common(a, b)
      return ("(%s)lua::%s<%s>(%s, %s)"):format(type_, op, of, self:as(a, of), self:as(b, of))
    end
    local in_type = wide(a, b) -- celer's own: it knows them by their bounds
    local name = node.first and ("lua::first_%s<%s>"):format(op, in_type) or op
    return given(("%s(%s, %s)"):format(name, self:as(a, in_type), self:as(b, in_type)), in_type,
      type_)
  end
end

function write.floor(self, node, args, type_)
  if node.kind == "int" and node.divides then
    local a, b = kinds.quotient(node)
    local in_type = wide(a, b)
    local text = ("lua::div_whole<%s>(%s, %s)"):format(in_type, self:as(a, in_type),
      self:as(b, in_type))
    return given(text, in_type, type_)
  elseif node.kind == "int" then
    return self:as(args[1], type_)
  end
  return ("%s%s(%s)"):format(node.op, type_ == "float" and "f" or "", self:as(args[1], type_))
end
write.ceil = write.floor

function write.abs(self, node, args, type_)
  if node.kind == "int" then return ("lua::abs<%s>(%s)"):format(type_, self:as(args[1], type_)) end
  return ("fabs%s(%s)"):format(type_ == "float" and "f" or "", self:as(args[1], type_))
end

function write.call(self, node, args, type_)
  local list = {}
  for k, arg in ipairs(args) do list[k] = self:as(arg, type_) end
  if node.name ~= "sqrt" then list[1] = ("lua::unknown<%s>(%s)"):format(type_, list[1]) end
  return ("%s%s(%s)"):format(node.name, type_ == "float" and "f" or "", table.concat(list, ", "))
end

function write.bits(self, node, args)
  local list = {}
  for k, arg in ipairs(args) do
    list[k] = arg.kind == "int" and ("lua::bits(%s)"):format(self:as(arg, "long long"))
      or ("lua::bits(%s)"):format(self:as(arg, "double"))
  end
  if node.name == "tobit" then return list[1] end
  return ("lua::%s(%s)"):format(node.name, table.concat(list, ", "))
end

local function comparison(sign)
  return function(self, _, args)
    local type_ = common(args[1], args[2])
    return ("(%s %s %s)"):format(self:as(args[1], type_), sign, self:as(args[2], type_))
  end
end

-- A number of which compilers for GPUs know nothing: a variable, as they keep what follows an
-- expression of that kind out of conditions.
function Writer:unknown(text, type_)
  local key = type_ .. " " .. text
  local name = self.unknowns[key]
  if not name then
    name = "k" .. #self.unknowns + 1
    self.unknowns[key] = name
    table.insert(self.unknowns, ("const %s %s = lua::opaque<%s>(%s);"):format(type_, name, type_,
      text))
  end
  return name
end

-- Of what compilers for GPUs make a minimum, which is another one (lua.cuh): with a number that
-- is no NaN, and with -x.
local function order(sign)
  return function(self, _, args)
    local type_, text = common(args[1], args[2]), {}
    local is_float = type_ == "float" or type_ == "double"
    for k, arg in ipairs(args) do
      text[k] = self:as(arg, type_)
      if is_float and arg.op == "number" then
        text[k] = self:unknown(text[k], type_)
      elseif is_float and arg.kind == "int" or not is_float and arg.op == "neg" then
        text[k] = ("lua::opaque<%s>(%s)"):format(type_, text[k])
      end
    end
    return ("(%s %s %s)"):format(text[1], sign, text[2])
  end
end
write.lt, write.le = order "<", order "<="

local plain_value = { bool = true, ["nil"] = true, int = true, weak = true, float = true,
  double = true }

function write.eq(self, node, args)
  local a, b = args[1], args[2]
  if not plain_value[a.kind] or not plain_value[b.kind] then
    self.fail(node, "a kernel compares numbers, or booleans; here it is %s",
      (a.kind == "struct" or b.kind == "struct") and "a struct: compare its fields"
        or "what may be a number, or else a boolean or nil")
  elseif a.kind == "bool" and b.kind == "bool" then
    return ("(%s == %s)"):format(self:node(a), self:node(b))
  elseif a.kind == "nil" and b.kind == "nil" then
    return "true"
  elseif not (a.kind == "bool" or b.kind == "bool" or a.kind == "nil" or b.kind == "nil") then
    return comparison "=="(self, node, args)
  end
  return "false"
end

write["not"] = function(self, _, args) return ("(!%s)"):format(self:truth(args[1])) end

function write.in_loop(self, _, args)
  local type_, by = common(args[1], args[2]), args[3]
  local index, last = self:as(args[1], type_), self:as(args[2], type_)
  if by.op == "number" then
    return ("(%s %s %s)"):format(index, by.k >= 0 and "<=" or ">=", last)
  end
  return ("(%s >= 0 ? %s <= %s : %s >= %s)"):format(self:node(by), index, last, index, last)
end

-- An element without a sign of as many bits as an int is computed with as a number that has one.
function write.load(self, node, _, type_)
  local text = ("%s(%s)%s"):format(self.arrays[node.array.number], self:coordinates(node),
    self:field(node))
  local is_unsigned = node.kind == "int"
    and elements.find(node.array.type, node.field).spelling == UNSIGNED
  return is_unsigned and ("(%s)%s"):format(type_, text) or text
end

function write.lookup(self, node, args)
  local list, at = node.list, args[1]
  if at.kind ~= "int" or at.low < list.first or at.high >= list.first + #list.values then
    self.fail(node, "'%s' has [%d] to [%d], and this index may be another one: "
      .. "keep it between them by math.min and math.max, or by %%", list.name, list.first,
      list.first + #list.values - 1)
  end
  list.type = type_of(node)
  return ("%s[%s - (%d)]"):format(self.lists[list], self:as(at, type_of(at)), list.first)
end

function write.get(self, node, args)
  local array, at = node.table, args[1]
  if array.apart then return M.element_name(array, at.low) end
  return ("%s[%s - (%d)]"):format(M.table_name(array), self:as(at, type_of(at)), array.first)
end

function write.made(_, node) return M.table_name(node.struct) end

--- The name of a table that the kernel makes.
---@param array celer.local_array
---@return string
function M.table_name(array) return "a" .. array.id end

--- That of an element which is a variable of its own.
---@param array celer.local_array
---@param k integer
---@return string
function M.element_name(array, k) return ("a%d_%d"):format(array.id, k - array.first) end

-- ---- statements ----------------------------------------------------------------------------

local function check_stored(self, node, element, value)
  if value.kind == "array" or element.kind == "array" then
    self.fail(node, "'%s' is given all of an array: assign to its elements, one by one",
      node.array.name)
  elseif value.kind == "nil" or value.kind == "mixed" or value.kind == "const" then
    self.fail(node, "'%s' cannot be given what may be nil, or a number or else a boolean",
      node.array.name)
  elseif (value.kind == "bool") ~= (element.kind == "bool") then
    self.fail(node, element.kind == "bool" and "'%s' has booleans: write x ~= 0"
      or "'%s' has numbers: write c and 1 or 0", node.array.name)
  elseif value.kind == "struct" and element.kind == "struct"
    and elements.find(value.array.type, value.field or "").id ~= element.id then
    self.fail(node, "'%s' is given another struct: assign to its fields, one by one",
      node.array.name)
  elseif (value.kind == "struct") ~= (element.kind == "struct") then
    self.fail(node, "'%s' takes %s", node.array.name, element.kind == "struct"
      and "a " .. element.spelling .. " here: assign one, or to its fields" or "a number here")
  elseif element.kind == "int" and not whole.is_whole(value) then
    self.fail(node, "'%s' has whole numbers (%s), and this may be a fraction: write math.floor(x)",
      node.array.name, element.spelling)
  end
end

-- A value as an element has it. A fraction that was rounded is brought to its range first.
local function stored(self, node, value)
  local element = elements.find(node.array.type, node.field or "")
  check_stored(self, node, element, value)
  if element.kind == "struct" then return self:node(value) end
  if element.kind ~= "int" then return self:as(value, element.spelling) end
  if type_of(value) == element.spelling then return self:node(value) end
  return ("(%s)%s"):format(element.spelling, self:as(value, "long long"))
end

-- What CUDA takes for whole numbers of 8 bytes.
local function atomic_type(node, element)
  if element.kind ~= "int" or element.size == 4 then return element.spelling end
  return (node.name == "Min" or node.name == "Max") and "long long" or "unsigned long long"
end

function write.atomic(self, node)
  local element = elements.find(node.array.type, node.field)
  local type_ = atomic_type(node, element)
  local function cast(to) return type_ ~= element.spelling and ("(%s)"):format(to) or "" end
  local list = { ("%s&%s(%s)%s"):format(cast(type_ .. " *"), self.arrays[node.array.number],
    self:coordinates(node), self:field(node)) }
  for _, value in ipairs(node.args) do
    list[#list + 1] = cast(type_) .. stored(self, node, value)
  end
  return ("%satomic%s(%s)"):format(cast(element.spelling), node.name, table.concat(list, ", "))
end

--- The statement of a node that has an effect.
---@param node celer.node
---@return string
function Writer:statement(node)
  if node.op == "atomic" then return self:write(node) .. ";" end
  if node.op == "set" then
    return ("%s = %s;"):format(write.get(self, node, node.args), self:as(node.args[2],
      type_of(node.table)))
  end
  if node.op == "set_field" then
    return ("%s.%s = %s;"):format(M.table_name(node.struct), node.name,
      stored(self, node, node.args[1]))
  end
  local array, at = self.arrays[node.array.number], self:coordinates(node)
  if node.op == "reduce" then
    return ("%s%s.combine(%s);"):format(array, #node.index > 0 and "(" .. at .. ")" or "",
      stored(self, node, node.args[1]))
  end
  if node.op == "push" then
    return ("%s.push(%s, %s);"):format(array, at, stored(self, node, node.args[1]))
  end
  return ("%s(%s)%s = %s;"):format(array, at, self:field(node),
    stored(self, node, node.args[1]))
end

return M
