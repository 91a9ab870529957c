--- compile.lua -- the kernel of an expression, and the arguments of one use of it.
---
--- A use is written down twice from the same walk: its shape, as a text by which kernels are
--- known, and its arguments, which change from use to use: numbers of the script, and how far
--- parts lie from the item. Only a new shape is written as C++ and compiled.
---
--- An operation is one variable of the kernel. So the order of nodes decides nothing but their
--- names, and what is used twice is computed once.
local kernels = require "celer.kernel.kernel"
local place = require "celer.place"

local M = {}

---@class celer.array_access  elements of one buffer that an expression reads
---@field buffer celer.buffer
---@field edge string|number|nil  what lies beyond its edges
---@field offsets integer[][]  from the item; none: the item's own element
---@field target boolean?  it is what the task writes

---@class celer.array_use
---@field nodes celer.expression[]  operands first
---@field at table<celer.expression, integer>
---@field accesses celer.array_access[]
---@field slots table<celer.expression, {access: integer, offset: integer?}>
---@field numbers number[]  of nodes: those of the script
---@field number_at table<celer.expression, integer>
---@field moves integer[]  of offsets

-- ---- walking ------------------------------------------------------------------------------------

local function same_offset(a, b)
  for d = 1, #a do
    if a[d] ~= b[d] then return false end
  end
  return true
end

local function offset_of(node, low)
  if not node.extents then return {} end
  local out = {}
  for d = 1, #node.extents do
    out[d] = (node.low and node.low[d] or 0) + (node.by and node.by[d] or 0) - low[d]
  end
  return out
end

local function is_zero(offset)
  for d = 1, #offset do
    if offset[d] ~= 0 then return false end
  end
  return true
end

-- The access of a load, new or there already.
local function access_of(self, node, edge)
  for k, access in ipairs(self.accesses) do
    if access.buffer == node.buffer and access.edge == edge then return k end
  end
  self.accesses[#self.accesses + 1] = { buffer = node.buffer, edge = edge, offsets = {} }
  return #self.accesses
end

local function add_load(self, node, low)
  if node.buffer.freed then place.fail("the buffer %s was freed", node.buffer.name) end
  local offset = offset_of(node, low)
  local zero = is_zero(offset)
  local k = access_of(self, node, not zero and node.edge or nil)
  local access, at = self.accesses[k], nil
  -- Two parts that lie alike by chance are two: with others the kernel is the same.
  for i, other in ipairs((zero or access.edge) and access.offsets or {}) do
    if same_offset(other, offset) then at = i end
  end
  if not at then
    at = #access.offsets + 1
    access.offsets[at] = offset
  end
  self.slots[node] = { access = k, offset = at, zero = zero }
end

local function walk(self, node, low)
  if self.at[node] then return end
  if node.op == "load" then
    add_load(self, node, low)
  elseif node.op == "number" then
    self.numbers[#self.numbers + 1] = node.value
    self.number_at[node] = #self.numbers
  end
  for _, arg in ipairs(node.args) do walk(self, arg, low) end
  self.nodes[#self.nodes + 1] = node
  self.at[node] = #self.nodes
end

--- What an expression reads, where item 0 is the element `low` of what it is written to.
---@param root celer.expression
---@param low integer[]
---@return celer.array_use
function M.use(root, low)
  local self = { nodes = {}, at = {}, accesses = {}, slots = {}, numbers = {}, number_at = {},
    root = root }
  walk(self, root, low)
  return self
end

-- ---- the shape, as text -------------------------------------------------------------------------

-- Of an edge the offsets are part of the kernel, so that its indices are known to the compiler.
local function load_key(self, node)
  local slot = self.slots[node]
  local access = self.accesses[slot.access]
  local at = slot.zero and "" or access.edge and table.concat(access.offsets[slot.offset], ",")
    or slot.offset
  return "L" .. slot.access .. " " .. at .. " " .. (node.member or "")
end

-- Whether it is a square, which is known to the compiler.
local function is_square(node)
  local by = node.args[2]
  return node.op == "pow" and by.op == "number" and by.value == 2
end

local function add_key(self, node, words, n)
  if node.op == "load" then
    words[n + 1] = load_key(self, node)
    return n + 1
  end
  local op, args = node.op, node.args
  words[n + 1] = op
  if op == "number" then return n + 1 end
  if is_square(node) then words[n + 1] = "square" end
  words[n + 2], words[n + 3] = node.kind, node.exact or ""
  words[n + 4], words[n + 5] = node.spelling or "", tostring(node.value)
  n = n + 5
  for k = 1, #args do words[n + k] = self.at[args[k]] end
  return n + #args
end

local function access_key(access)
  local buffer = access.buffer
  return buffer.type.name .. (access.edge and " edge " or access.target and " target " or " ")
    .. buffer.dims .. " " .. #access.offsets
end

--- What a kernel is known by: uses with the same one differ in their numbers alone.
---@param self celer.array_use
---@param sink celer.array_sink
---@return string
function M.key(self, sink)
  local words, n = { sink.key }, 1
  for k, access in ipairs(self.accesses) do words[n + k] = access_key(access) end
  n = n + #self.accesses
  for _, node in ipairs(self.nodes) do n = add_key(self, node, words, n) end
  return table.concat(words, "|")
end

-- ---- C++ ----------------------------------------------------------------------------------------

local spelling = { int = "long long", weak = "double", double = "double", float = "float",
  bool = "bool" }
local letters, parts = { "x", "y", "z", "w" }, { "re", "im" }

--- The name of a component of what a type's elements are.
---@param is_complex boolean?
---@param lane integer
function M.letter(is_complex, lane) return (is_complex and parts or letters)[lane] end

-- A lane of a node, as a value of a type of C++.
local function as(self, node, lane, type_)
  local text
  if node.op == "number" then
    text = "s" .. self.number_at[node]
    return type_ == "double" and text or ("(%s)%s"):format(type_, text)
  end
  text = ("x%d"):format(self.at[node])
  if node.lanes > 1 then text = text .. "_" .. lane end
  return spelling[node.kind] == type_ and text or ("(%s)%s"):format(type_, text)
end

-- The same of an operand of a node: beside complex numbers a real one has no second part.
local function operand(self, node, arg, lane, type_)
  if node.complex and lane == 2 and not arg.complex then return ("(%s)0"):format(type_) end
  return as(self, arg, lane, type_)
end

-- Writes an operation whose operands have the type of the result.
local function same_type(format)
  return function(self, node, lane, type_)
    local args = {}
    for k, arg in ipairs(node.args) do args[k] = operand(self, node, arg, lane, type_) end
    return format(type_, unpack(args))
  end
end

-- Whole numbers wrap around.
local function sign(whole, other)
  return same_type(function(type_, a, b)
    if type_ == "long long" then return (whole:gsub("%$1", a):gsub("%$2", b or "")) end
    return (other:gsub("%$1", a):gsub("%$2", b or ""))
  end)
end

local function of_lua(name)
  return same_type(function(type_, ...)
    return ("lua::%s<%s>(%s)"):format(name, type_, table.concat({ ... }, ", "))
  end)
end

local write = {
  add = sign("(long long)((uint64_t)$1 + (uint64_t)$2)", "$1 + $2"),
  sub = sign("(long long)((uint64_t)$1 - (uint64_t)$2)", "$1 - $2"),
  mul = sign("(long long)((uint64_t)$1 * (uint64_t)$2)", "$1 * $2"),
  unm = sign("(long long)(0 - (uint64_t)$1)", "-$1"),
  div = sign("", "$1 / $2"),
  min = of_lua "min", max = of_lua "max",
  mod = same_type(function(type_, a, b)
    local name = type_ == "long long" and "mod_whole" or "mod"
    return ("lua::%s<%s>(%s, %s)"):format(name, type_, a, b)
  end),
  abs = same_type(function(type_, a)
    if type_ == "long long" then return ("lua::abs<long long>(%s)"):format(a) end
    return ("%s(%s)"):format(type_ == "float" and "fabsf" or "fabs", a)
  end),
}

-- Products and quotients of complex numbers; by a real one they are those of each part.
local function of_complex(plain, both, by_complex)
  return function(self, node, lane, type_)
    if not node.complex then return plain(self, node, lane, type_) end
    local a, b = node.args[1], node.args[2]
    local format = b.complex and (a.complex and both or by_complex)[lane] or plain
    if format == plain then return plain(self, { args = { a, b } }, lane, type_) end
    return (format:gsub("%$(.)(.)", function(of, part)
      return as(self, of == "a" and a or b, part == "r" and 1 or 2, type_)
    end))
  end
end

write.mul = of_complex(write.mul, { "$ar * $br - $ai * $bi", "$ar * $bi + $ai * $br" },
  { "$ar * $br", "$ar * $bi" })
local norm = "($br * $br + $bi * $bi)"
write.div = of_complex(write.div,
  { "($ar * $br + $ai * $bi) / " .. norm, "($ai * $br - $ar * $bi) / " .. norm },
  { "$ar * $br / " .. norm, "-$ar * $bi / " .. norm })

function write.complex(self, node, lane, type_) return as(self, node.args[lane], 1, type_) end

function write.conj(self, node, lane, type_)
  return (lane == 2 and "-" or "") .. as(self, node.args[1], lane, type_)
end

local function part(format)
  return function(self, node, _, type_)
    local z = node.args[1]
    return (format:gsub("%$(.)", function(which)
      return as(self, z, which == "r" and 1 or 2, type_)
    end):gsub("%%", type_ == "float" and "f" or ""))
  end
end
write.real, write.imag = part "$r", part "$i"
write.modulus, write.arg = part "hypot%($r, $i)", part "atan2%($i, $r)"

function write.pow(self, node, lane, type_)
  local base = as(self, node.args[1], lane, type_)
  local exponent = is_square(node) and "2" or as(self, node.args[2], lane, type_)
  return ("lua::pow<%s>(%s, %s)"):format(type_, base, exponent)
end

-- Of whole numbers themselves; else a whole number of what the library gives.
local function rounding(name)
  return function(self, node, lane)
    local arg = node.args[1]
    if arg.kind == "int" then return as(self, arg, lane, "long long") end
    local type_ = spelling[arg.kind]
    return ("%s%s(%s)"):format(name, type_ == "float" and "f" or "", as(self, arg, lane, type_))
  end
end
write.floor, write.ceil = rounding "floor", rounding "ceil"

--- A function of C's library, of as many numbers as the node has.
function write.call(self, node, lane, type_)
  local args = {}
  for k, arg in ipairs(node.args) do args[k] = as(self, arg, lane, type_) end
  if node.value ~= "sqrt" then args[1] = ("lua::unknown<%s>(%s)"):format(type_, args[1]) end
  return ("%s%s(%s)"):format(node.value, type_ == "float" and "f" or "", table.concat(args, ", "))
end

local function comparison(text)
  return function(self, node)
    local type_ = spelling[node.exact]
    return ("%s %s %s"):format(as(self, node.args[1], 1, type_), text,
      as(self, node.args[2], 1, type_))
  end
end
write.lt, write.le = comparison "<", comparison "<="
write.eq, write.ne = comparison "==", comparison "!="

write.both = same_type(function(_, a, b) return ("%s && %s"):format(a, b) end)
write.either = same_type(function(_, a, b) return ("%s || %s"):format(a, b) end)
write.opposite = same_type(function(_, a) return "!" .. a end)

function write.select(self, node, lane, type_)
  local args = node.args
  return ("%s ? %s : %s"):format(as(self, args[1], 1, "bool"),
    operand(self, node, args[2], lane, type_), operand(self, node, args[3], lane, type_))
end

function write.cast(self, node, lane)
  local arg = node.args[1]
  local from = arg.op == "number" and "double" or spelling[arg.kind]
  local text = as(self, arg, lane, from)
  if node.kind == "int" and from ~= "long long" then text = "(long long)" .. text end
  return ("(%s)%s"):format(node.spelling, text)
end

function write.boolean(_, node) return tostring(node.value) end
function write.index(_, node) return ("it[%d]"):format(node.value) end

function write.random(self, node, _, type_)
  return ("(%s)philox((uint64_t)%s, (uint64_t)it.linear(), (uint32_t)%s).%s()"):format(type_,
    as(self, node.args[1], 1, "long long"), as(self, node.args[2], 1, "long long"), node.value)
end

local function item(dims, offset_text)
  local out = {}
  for d = 0, dims - 1 do out[d + 1] = ("it[%d]%s"):format(d, offset_text(d + 1)) end
  return table.concat(out, ", ")
end

-- Where a load finds its element.
local function coordinates(self, node)
  local slot = self.slots[node]
  local access = self.accesses[slot.access]
  return item(access.buffer.dims, function(d)
    if slot.zero then return "" end
    if access.edge then return (" + (%d)"):format(access.offsets[slot.offset][d]) end
    return (" + o%d_%d_%d"):format(slot.access, slot.offset, d)
  end)
end

function write.load(self, node, lane)
  local slot = self.slots[node]
  local access = self.accesses[slot.access]
  local field = node.member or node.lanes > 1 and M.letter(node.complex, lane)
  return ("%s(%s)%s"):format(access.target and "to" or "a" .. slot.access,
    coordinates(self, node), field and "." .. field or "")
end

local function statements(self)
  local out = {}
  for k, node in ipairs(self.nodes) do
    local type_ = spelling[node.kind]
    for lane = 1, node.op == "number" and 0 or node.lanes do
      out[#out + 1] = ("  const %s x%d%s = %s;"):format(type_, k,
        node.lanes > 1 and "_" .. lane or "", write[node.op](self, node, lane, type_))
    end
  end
  return table.concat(out, "\n")
end

-- Parameters, as the arguments of M.arguments are.
local function parameters(self, sink)
  local out = { ("item<%d> it"):format(sink.dims), sink.parameter }
  for k, access in ipairs(self.accesses) do
    if not access.target then
      out[#out + 1] = ("%s<%s, %d> a%d"):format(access.edge and "near" or "in",
        access.buffer.type.name, access.buffer.dims, k)
    end
  end
  for k in ipairs(self.numbers) do out[#out + 1] = "double s" .. k end
  for k, access in ipairs(self.accesses) do
    for i, offset in ipairs(access.edge and {} or access.offsets) do
      for d = 1, is_zero(offset) and 0 or #offset do
        out[#out + 1] = ("int64_t o%d_%d_%d"):format(k, i, d)
      end
    end
  end
  return table.concat(out, ", ")
end

---@class celer.array_sink  what becomes of an expression's value
---@field key string
---@field dims integer  of an item
---@field parameter string
---@field kind string  of what is stored
---@field spelling string  of one number
---@field store fun(values: string[]): string  a statement
---@field lanes integer
---@field complex? boolean

local function text_of(self, sink)
  local values = {}
  for lane = 1, sink.lanes do
    local text = operand(self, sink, self.root, lane, spelling[sink.kind])
    values[lane] = spelling[sink.kind] == sink.spelling and text
      or ("(%s)%s"):format(sink.spelling, text)
  end
  return ("kernel void %s(%s) {\n%s\n  %s\n}\n"):format(sink.name, parameters(self, sink),
    statements(self), sink.store(values))
end

local known = {} -- kernels by their key

--- The kernel of a use, compiled now if none was like it; `maps` is for what else its shape
--- decides.
---@param self celer.array_use
---@param sink celer.array_sink
---@return {kernel: celer.kernel, maps: table<string, celer.range_mapper>}
function M.kernel(self, sink)
  local key = M.key(self, sink)
  if not known[key] then
    local file, line = place.user()
    known[key] = { kernel = kernels.generated(text_of(self, sink), file or "?", line), maps = {} }
  end
  return known[key]
end

--- Adds what the kernel takes besides accesses.
---@param self celer.array_use
---@param out any[]
---@param n integer  that it has already
---@return integer n
function M.values(self, out, n)
  for k, x in ipairs(self.numbers) do out[n + k] = x end
  n = n + #self.numbers
  for _, access in ipairs(self.accesses) do
    for _, offset in ipairs(access.edge and {} or access.offsets) do
      for d = 1, is_zero(offset) and 0 or #offset do
        n = n + 1
        out[n] = offset[d]
      end
    end
  end
  return n
end

return M
