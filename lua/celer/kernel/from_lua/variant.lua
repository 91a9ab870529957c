--- variant.lua -- a function, compiled for one choice of arguments.
---
--- What it was compiled for is compared at each submission: the kinds of arguments, which
--- captured numbers are whole, which of them are at least as large as the range, functions
--- and tables. Values of numbers are not: these are passed.
local edges = require "celer.kernel.from_lua.edges"
local expression = require "celer.kernel.from_lua.expression"
local footprint = require "celer.kernel.from_lua.footprint"
local kinds = require "celer.kernel.from_lua.kinds"
local lift = require "celer.kernel.from_lua.lift"
local linear = require "celer.kernel.from_lua.linear"
local local_arrays = require "celer.kernel.from_lua.local_arrays"
local made_structs = require "celer.kernel.from_lua.made_structs"
local ranges = require "celer.kernel.from_lua.ranges"
local source = require "celer.kernel.from_lua.source"
local whole = require "celer.kernel.from_lua.whole"
local each = require("celer.tables").each

local M = {}

---@class celer.lua_argument
---@field what "array"|"reduction"|"route"|"number"|"boolean"|"struct"
---@field number integer
---@field name string  of the parameter
---@field dims? integer
---@field type? celer.type
---@field mode? string  of an access that was given
---@field operator? string
---@field edge? celer.edge  of what is read beyond the buffer's edges
---@field map? celer.range_mapper  of an access, also of one that the kernel is given
---@field value? any  a number or boolean; of a struct a table
---@field extents? table<integer, integer>

---@class celer.lua_call  what a kernel is submitted with
---@field items integer
---@field least integer[]  bounds of the range
---@field most integer[]
---@field wide boolean  it has coordinates below 0, or from 2^30 on
---@field arguments celer.lua_argument[]
---@field key string

---@class celer.lua_variant
---@field items integer  dimensions of the range
---@field graph celer.graph
---@field captured celer.lua_capture
---@field uses table<integer, celer.footprint>
---@field assumed {node: celer.node, dim: integer, yes: boolean}[]
---@field order table[]  {array = number, use = number}, which is the same number but for reads by
--- an index, or {uniform = node}: as the kernel takes them
---@field names table<celer.node, string>  of captured whole numbers, in mappers
---@field text string  C++
---@field beside string  what stands behind it
---@field pushes table<integer, integer>  by routes: values of an item at most, where that is known
---@field kernel? celer.kernel

--- The value of a captured number or boolean at a call.
---@param node celer.node
---@param call celer.lua_call
function M.value(node, call)
  if node.get then return node.get(call) end
  if node.extent then return call.arguments[node.extent[1]].extents[node.extent[2]] end
  return call.arguments[node.argument].value
end
local value = M.value

local function fail(node, message, ...)
  error(("%s:%d: %s"):format(node.file, node.line, message:format(...)), 0)
end

-- ---- names --------------------------------------------------------------------------------

local reserved = {}
for word in ([[it in out inout reducer route item kernel lua celer chunk buffer min max int float
double bool char long short signed unsigned const void goto return if else for while do switch
case default break continue struct class union enum template typename this true false new delete
operator private public protected static inline using namespace auto and or not xor compl bitand
bitor asm alignas alignof catch constexpr decltype explicit export extern friend mutable noexcept
operator register sizeof throw try typedef typeid typename virtual volatile wchar_t nullptr
static_assert thread_local const_cast dynamic_cast reinterpret_cast static_cast char16_t char32_t
errno stdin stdout stderr linux unix main group tile box philox printf end local function nil
std rint abs floor ceil pow sqrt exp log log10 sin cos tan asin acos atan sinh cosh tanh atan2 fmod
fabs]])
  :gmatch "%S+" do reserved[word], reserved[word .. "f"] = true, true end

-- A name of C++ and Lua that nothing else has, and no macro.
local function unique(taken, name)
  name = name:gsub("[^%w_]", "_")
  if not name:find "^%a" or name:find "__" then name = "v" .. name:gsub("_+", "_") end
  if name:find "^%u[%u%d_]*$" and #name > 1 then name = name .. "_" end
  while reserved[name] or taken[name] or name:find "^[axtBik]%d+$" do name = name .. "_" end
  taken[name] = true
  return name
end

-- ---- numbers ------------------------------------------------------------------------------

local function classify(self, call)
  for _, node in ipairs(self.captured.uniforms) do
    if node.op == "uniform" and (node.whole or node.extent) then
      node.class = kinds.class_of(value(node, call))
    end
  end
end

-- Which whole numbers are at least as large as the range: what is derived may use that.
local function assume(self, call, context)
  self.assumed = {}
  for _, node in ipairs(self.captured.uniforms) do
    local name = self.names[node]
    if name and (node.class == "few" or node.class == "back") then
      context.least[name], context.most[name] = node.low, node.high
    end
    if name and node.low > 0 and not call.wide then
      context.least[name] = node.low
      for d = 1, call.items do
        local yes = value(node, call) >= call.most[d]
        table.insert(self.assumed, { node = node, dim = d, yes = yes })
        if yes then table.insert(context.reaches, { name = name, dim = d - 1 }) end
      end
    end
  end
end

local function name_numbers(self)
  local taken = {}
  self.names = {}
  for _, node in ipairs(self.captured.uniforms) do
    if node.kind == "int" then self.names[node] = unique(taken, node.path) end
  end
end

-- ---- parameters of the kernel ---------------------------------------------------------------

local accessors = { read = "in", discard_write = "out", write = "out", read_write = "inout" }

local writes = { discard_write = true, write = true, read_write = true }

-- The mode of an array, which an access may have given.
local function mode_of(use, argument)
  local given = argument.mode
  if not given then return use.mode end
  local node = use.stores[1] or use.loads[1]
  if #use.stores > 0 and not writes[given] then
    fail(node, "'%s' is written here, and was given by cg:%s: give cg:%s", argument.name, given,
      use.mode)
  elseif #use.stores == 0 and given ~= "read" then
    fail(node, "'%s' is only read, and was given by cg:%s: give cg:read", argument.name, given)
  elseif use.reads and given == "discard_write" then
    fail(use.loads[1] or node, "'%s' is read here, and was given by cg:discard_write: give "
      .. "cg:read_write", argument.name)
  end
  return given
end

local function array_parameter(use, argument, name)
  local accessor = accessors[mode_of(use, argument)]
  if use.reads and #use.stores > 0 then accessor = "inout" end
  if argument.edge then
    if #use.stores > 0 then
      fail(use.stores[1], "'%s' is written here, and what is read beyond its edges is only read: "
        .. "write to another buffer", argument.name)
    end
    accessor = "near"
  end
  return ("%s<%s, %d> %s"):format(accessor, argument.type.name, argument.dims, name)
end

local function reducer(argument, name)
  if argument.dims == 0 then return ("reducer<%s> %s"):format(argument.type.name, name) end
  return ("reducer<%s, %d> %s"):format(argument.type.name, argument.dims, name)
end

-- Whether there are nodes of an operation on an array.
local function has(graph, op, number)
  local found = false
  graph:each(function(node) found = found or node.op == op and node.array.number == number end)
  return found
end

-- How often an item pushes at most, by the number of the route: nothing is known beside loops.
local function count_pushes(graph)
  local most, until_end = {}, {}
  for _, block in ipairs(graph.blocks) do
    if block.header then return {} end
    local counts = {}
    for _, pred in ipairs(block.preds) do
      for number, n in each(until_end[pred]) do
        counts[number] = math.max(counts[number] or 0, n)
      end
    end
    for _, node in ipairs(block.nodes) do
      local number = node.op == "push" and node.array.number
      if number then
        counts[number] = (counts[number] or 0) + 1
        most[number] = math.max(most[number] or 0, counts[number])
      end
    end
    until_end[block] = counts
  end
  return most
end

local ops = { reduction = "reduce", route = "push" }

-- The parameter of what is reduced into or pushed to; raises where the kernel does not.
local function other_parameter(graph, argument, name)
  if not has(graph, ops[argument.what], argument.number) then
    fail({ file = graph.file, line = graph.line }, argument.what == "route"
      and "'%s' is given to be pushed to, and the kernel does not: write %s%s:push(key, value)"
      or "'%s' is given to be reduced into, and the kernel does not: write %s%s:add(x), or min, "
        .. "max, mul, combine", argument.name, argument.name,
      argument.what == "route" and "" or ("[i]"):rep(argument.dims))
  end
  if argument.what == "reduction" then return reducer(argument, name) end
  return ("route<%s, %d> %s"):format(argument.type.name, argument.dims, name)
end

-- Also for what is read of it by an index.
local function add_array(self, spec, taken, number, argument, use)
  local name, at = unique(taken, argument.name), use and use.array.number or number
  spec.arrays[at] = name
  table.insert(spec.params, use and array_parameter(use, argument, name)
    or other_parameter(self.graph, argument, name))
  table.insert(self.order, { array = number, use = at })
end

local function add_arrays(self, call, spec, taken)
  for number, argument in ipairs(call.arguments) do
    local use = self.uses[number]
    if use or ops[argument.what] then add_array(self, spec, taken, number, argument, use) end
    for k = #call.arguments + 1, table.maxn(self.uses) do
      use = self.uses[k]
      if use.array.source == number then add_array(self, spec, taken, number, argument, use) end
    end
  end
end

local function add_uniforms(self, spec, taken)
  for _, node in ipairs(self.captured.uniforms) do
    if node.needed then
      spec.names[node] = unique(taken, node.path)
      table.insert(spec.params, expression.type_of(node) .. " " .. spec.names[node])
      table.insert(self.order, { uniform = node })
    end
  end
end

local function write_source(self, call, name)
  local taken = { [name] = true }
  local spec = { name = name, items = call.items, wide = call.wide, names = {}, arrays = {},
    lists = {}, tables = self.captured.table_list, locals = self.locals, structs = self.structs,
    params = { ("item<%d> it"):format(call.items) } }
  self.order = {}
  add_arrays(self, call, spec, taken)
  add_uniforms(self, spec, taken)
  for _, list in ipairs(spec.tables) do spec.lists[list] = unique(taken, list.name) end
  self.text = source.write(self.graph, spec, fail)
end

-- What stands beside the kernel, so that it is compiled with the flags for such ones:
-- engine/device/compile/compile_cpu.c says the same.
local WAS_LUA = "// was Lua\n"

-- What compilers for GPUs are told beside the kernel: see kernels/launch.cuh. Not where several
-- modules are one text, for a fold: there each is in a namespace, which cannot say it.
local LOOPS = [[
#if defined(CELER_CUDA) && !defined(CELER_FOLD)
template <>
constexpr bool celer::has_loops<CELER_KERNEL(NAME),
                                celer::signature<decltype(CELER_KERNEL(NAME))>> = true;
#endif
]]

local function loops_text(graph, name)
  for _, block in ipairs(graph.blocks) do
    if block.header then return (LOOPS:gsub("NAME", name)) end
  end
  return ""
end

-- ---- compiling ------------------------------------------------------------------------------

--- Compiles a function for a call: up to C++.
---@param f function
---@param call celer.lua_call
---@param name string  of the kernel
---@param keep_reads? boolean  also reads that nobody needs
---@return celer.lua_variant
function M.translate(f, call, name, keep_reads)
  local self = { items = call.items }
  self.graph, self.captured = lift.lift(f, call.items, call.arguments, keep_reads)
  self.pushes = count_pushes(self.graph)
  self.structs = made_structs.find(self.graph, fail)
  whole.mark(self.graph)
  classify(self, call)
  kinds.find(self.graph, call.wide, fail)
  self.locals = local_arrays.check(self.graph, fail)
  name_numbers(self)
  local context = linear.context(not call.wide)
  assume(self, call, context)
  self.ranges = ranges.new(context, self.names)
  self.uses = footprint.find(self.graph, call.items, self.ranges, call.arguments)
  for number, argument in ipairs(call.arguments) do
    local use = argument.edge and self.uses[number]
    if use then use.reach = edges.reach(self.ranges, use) end
  end
  ranges.decide_choices(self.ranges, self.graph)
  if reserved[name] then name = name .. "_" end
  write_source(self, call, name)
  self.beside = WAS_LUA .. loops_text(self.graph, name)
  return self
end

-- ---- whether it still is right ----------------------------------------------------------------

local types_of = { uniform = "number", flag = "boolean" }

local function same_numbers(self, call)
  for _, node in ipairs(self.captured.uniforms) do
    local now = value(node, call)
    if type(now) ~= types_of[node.op] or node.class and kinds.class_of(now) ~= node.class then
      return false
    end
  end
  for _, assumed in ipairs(self.assumed) do
    if (value(assumed.node, call) >= call.most[assumed.dim]) ~= assumed.yes then return false end
  end
  return true
end

--- Whether a list of numbers that was captured is what it was.
---@param list celer.number_table
---@return boolean
function M.same_list(list)
  local now, values, before = list.get(), list.values, list.first - 1
  if type(now) ~= "table" then return false end
  for k = 1, #values do
    local x, was = now[before + k], values[k]
    if x ~= was or x == 0 and 1 / x ~= 1 / was then return false end
  end
  return true
end

--- Whether a variant is what the function would be compiled to for this call. Their keys are
--- alike.
---@param self celer.lua_variant
---@param call celer.lua_call
---@return boolean
function M.fits(self, call)
  if not same_numbers(self, call) then return false end
  for _, guard in ipairs(self.captured.guards) do
    if not rawequal(guard.get(call), guard.value) then return false end
  end
  for _, list in ipairs(self.captured.table_list) do
    if not M.same_list(list) then return false end
  end
  return true
end

return M
