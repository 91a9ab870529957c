--- reduce.lua -- what cg:reduce takes: an operator, its identity, options.
local ffi = require "ffi"
local core = require "celer.core"
local place = require "celer.place"
local each = require("celer.tables").each
local types = require "celer.data.types"
local words = require "celer.words"

local fail = place.fail

local M = {}

-- celer::op, in kernels/reduce.cuh: those with a name, and the user's own.
local codes = {}
for name, code in each(core.facts.operator) do codes[name] = code end
local CUSTOM, FIXED = codes.custom, codes.fixed
codes.custom, codes.fixed = nil, nil

-- The largest value of a type of numbers, and the least.
local function largest(type_)
  if type_.class == "f" then return math.huge end
  if type_.size < 8 then return type_.high - 1 end
  return type_.class == "u" and 0xffffffffffffffffULL or 0x7fffffffffffffffLL
end

local function least(type_)
  if type_.class == "f" then return -math.huge end
  return type_.size < 8 and type_.low or type_.class == "u" and 0
    or -0x7fffffffffffffffLL - 1
end

local function all_bits(type_)
  if type_.class == "b" then return true end
  return type_.class == "u" and largest(type_) or -1
end

local identities = {
  sum = function() return 0 end,
  prod = function() return 1 end,
  min = largest,
  max = least,
  ["and"] = all_bits,
  ["or"] = function(type_) return type_.class == "b" and false or 0 end,
}

--- What changes nothing, by one of our operators.
---@param name string
---@param type_ celer.type  of numbers
---@return any
function M.identity(name, type_) return identities[name](type_) end

-- Why an operator of ours cannot combine values of a type; or nil.
local function misfit(name, type_)
  local bits = name == "and" or name == "or"
  if type_.class == "s" then
    return "give an operator of your own: {combine = \"...\", identity = ...}"
  elseif bits and type_.class == "f" then
    return "it is for whole numbers, bit by bit, and for bool"
  elseif not bits and type_.class == "b" then
    return "it is for numbers; there are \"and\" and \"or\""
  end
end

---@class celer.operator
---@field code integer  celer::op
---@field word string?  as the script says it; nil: the user's own
---@field words integer[]  that code, for the core
---@field identity string  the bytes of one element
---@field type celer.type
---@field text string?  of the user's own: C++, of a and b
---@field file string?  where that was given
---@field line integer?

local known_fields = { combine = true, identity = true }

local function custom(what, buffer, call)
  for key in each(what) do
    if not known_fields[key] then
      fail("%s: unknown field '%s' of an operator%s", call, tostring(key),
        words.advice(key, known_fields))
    end
  end
  if type(what.combine) ~= "string" or not what.combine:find "%S" then
    fail("%s: combine must be C++ for what a and b come to, such as "
      .. "\"a < b ? b : a\", not %s", call, words.a(what.combine))
  elseif what.identity == nil then
    fail("%s: an operator of your own takes its identity, the value that "
      .. "changes nothing", call)
  end
  local out = ffi.new(ffi.typeof("$[1]", buffer.type.ctype))
  local fault = types.store(buffer.type, out, 0, what.identity)
  if fault then fail("%s: the identity for %s: %s", call, buffer.name, fault) end
  local file, line = place.user()
  return { code = CUSTOM, words = { CUSTOM }, type = buffer.type, text = what.combine,
    identity = ffi.string(out, buffer.type.size), file = file or "?", line = line or 1 }
end

local known = {} -- ours, by type and word

local function make(code, word, type_)
  local value = ffi.new(ffi.typeof("$[1]", type_.ctype), identities[word](type_))
  return { code = code, word = word, words = { code }, type = type_,
    identity = ffi.string(value, type_.size) }
end

-- What takes the place of an operator of ours where bits are not to depend on the order.
local function reproducible(operator, call)
  if operator.type.class ~= "f" or operator.word == "min" or operator.word == "max" then
    return operator
  elseif operator.word == "prod" then
    fail("%s: reproducible is for sums; a product of %s rounds at each factor: leave the option "
      .. "out, or sum the logarithms", call, operator.type.name)
  end
  operator.fixed = operator.fixed or make(FIXED, operator.word, operator.type)
  return operator.fixed
end

-- One of ours.
local function operator_of(what, buffer, call)
  if type(what) ~= "string" then
    fail("%s: the operator must be a word such as \"sum\" or a table, not %s", call,
      words.a(what))
  elseif not codes[what] then
    fail("%s: unknown operator '%s'%s", call, what, words.advice(what, codes))
  end
  local type_ = buffer.type
  local mine = known[type_] or {}
  if mine[what] then return mine[what] end
  local why = misfit(what, type_)
  if why then
    fail("%s: \"%s\" does not combine the %s of %s; %s", call, what, type_.name,
      buffer.name, why)
  end
  known[type_] = mine
  mine[what] = make(codes[what], what, type_)
  return mine[what]
end

local known_options = { include_current = true, reproducible = true }

--- What the arguments of cg:reduce mean for a buffer, and whether it begins with what that
--- holds.
---@param what string|{combine: string, identity: any}
---@param buffer celer.buffer
---@param options? celer.reduce_options
---@param call? string  begins messages
---@return celer.operator
---@return boolean
function M.operator(what, buffer, options, call)
  call = call or "cg:reduce"
  local own = type(what) == "table" and not getmetatable(what)
  local operator = own and custom(what, buffer, call) or operator_of(what, buffer, call)
  if options == nil then return operator, false end
  words.check_options(call, options, known_options, "{include_current = true}")
  for name in each(known_options) do
    if options[name] ~= nil and type(options[name]) ~= "boolean" then
      fail("%s: %s must be true or false, not %s", call, name, words.a(options[name]))
    end
  end
  if options.reproducible and own then
    fail("%s: reproducible is for \"sum\"; with an operator of your own the order does not show "
      .. "if its combine is exact, as of whole numbers: leave the option out", call)
  elseif options.reproducible then
    operator = reproducible(operator, call)
  end
  return operator, options.include_current == true
end

-- ---- for the compiler -------------------------------------------------------

-- The line that the user's text ends in.
local function last_line(operator)
  return operator.line + select(2, operator.text:gsub("\n", ""))
end

-- All that a mistake in the text may be said of has its place in the script.
local function case_of(operator, which)
  local file = operator.file:gsub('[\\"]', "\\%0")
  return ("  if (which == %d)\n#line %d \"%s\"\n    return (%s\n#line %d \"%s\"\n);\n"
    .. "#line 1 \"<celer>/reduce.lua\"\n"):format(which, operator.line, file, operator.text,
    last_line(operator), file)
end

-- A function of one type.
local function function_of(type_, cases)
  return ("namespace celer { template <> CELER_FN %s customs<%s>(int which, %s a, %s b) "
    .. "{\n%s  return which < 0 ? b : a;\n} }\n"):format(type_, type_, type_, type_,
    table.concat(cases))
end

--- What tells apart the operators of a kernel's accesses; nil where all are sums,
--- which is what a source is compiled with at first.
---@param operators table<integer, celer.operator>  by the number of the access
---@param n integer  accesses
---@return string?
function M.key(operators, n)
  local key, plain = {}, true
  for i = 1, n do
    local operator = operators[i]
    key[i] = operator and (operator.text or operator.code) or 0
    plain = plain and key[i] == 0
  end
  return not plain and table.concat(key, "\0") or nil
end

--- What a kernel's source is compiled with for these operators: text that goes
--- before reduce.cuh, and text that goes after it and after structs.
---@param operators table<integer, celer.operator>
---@param n integer
---@return string before, string after
---@return boolean fixed  whether a sum is in fixed point
function M.declarations(operators, n)
  local list, cases, names, fixed = {}, {}, {}, false
  for i = 1, n do
    local operator = operators[i]
    list[i] = operator and operator.code or 0
    fixed = fixed or list[i] == FIXED
    if operator and operator.text then
      local name = operator.type.name
      list[i] = CUSTOM + i - 1
      if not cases[name] then names[#names + 1], cases[name] = name, {} end
      table.insert(cases[name], case_of(operator, i - 1))
    end
  end
  local after = {}
  for k, name in ipairs(names) do
    after[k] = function_of(name, cases[name])
  end
  local before = ("#define CELER_OPS %s\n"):format(table.concat(list, ", "))
  if fixed then before = before .. core.embedded "kernels/fixed.cuh" end
  return before, table.concat(after), fixed
end

--- The same of a message that a kernel does not compile, and its place; of what `combine`
--- says where the mistake is there.
---@param operators table<integer, celer.operator>
---@param text string
---@param file string
---@param line integer
---@return string text, string file, integer line
function M.blame(operators, text, file, line)
  local first, at = text:match "\n([^\n]-):(%d+):[^\n]*error"
  at = tonumber(at)
  for _, operator in pairs(operators) do
    if operator.text and operator.file == first and at >= operator.line
      and at <= last_line(operator) then
      return (text:gsub("^the kernel", "the combine of cg:reduce")), first, at
    end
  end
  return text, file, line
end

return M
