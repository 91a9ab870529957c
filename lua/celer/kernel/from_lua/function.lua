--- function.lua -- kernels written in Lua: celer.kernel(function(i, u) ... end).
local ffi = require "ffi"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local complex = require "celer.data.complex"
local edges = require "celer.kernel.from_lua.edges"
local fields = require "celer.data.fields"
local kernels = require "celer.kernel.kernel"
local lift = require "celer.kernel.from_lua.lift"
local mapper = require "celer.mapper.builtin"
local mappers = require "celer.kernel.from_lua.mappers"
local nd_range = require "celer.kernel.nd_range"
local place = require "celer.place"
local spaces = require "celer.space"
local variants = require "celer.kernel.from_lua.variant"
local words = require "celer.words"

local fail = place.fail

local M = {}

local MOST = 16 -- variants that are kept for one choice of kinds
local WHOLE = 2 ^ 40 -- a granularity beyond all ranges

-- Also: f, its options, parameters (names), variants by the key of a call, and the last one.
---@class celer.lua_kernel  a kernel written in Lua
---@field name string
local LuaKernel = { __noun = "kernel" }
LuaKernel.__index = LuaKernel

function LuaKernel:__tostring() return ("kernel %s (Lua)"):format(self.name) end

function LuaKernel.__capture(self, refuse) refuse(("the kernel '%s'"):format(self.name)) end

-- ---- what arguments may be, besides buffers and values ------------------------------------------

---@class celer.lua_access  a buffer with a range mapper
---@field buffer celer.buffer
---@field map? celer.range_mapper
---@field edge? celer.edge  what lies beyond the buffer
local Access = { __noun = "access" }
Access.__index = Access
M.Access = Access

--- A buffer with the range mapper by which a kernel written in Lua touches it, in the place
--- of the one that celer would derive.
---@param buffer celer.buffer
---@param map celer.range_mapper
---@return celer.lua_access
function M.access(buffer, map)
  buffers.check(buffer, "celer.access")
  if type(map) ~= "function" then
    fail("celer.access: the second argument must be a range mapper such as celer.all, not %s",
      words.a(map))
  end
  return setmetatable({ buffer = buffer, map = map, edge = mapper.edge(map) }, Access)
end

--- A buffer of which a kernel written in Lua reads elements beyond its edges.
---@param buffer celer.buffer
---@param map? celer.range_mapper  nil: as far as the kernel reads
---@param edge celer.edge  without a reach, if there is no mapper
---@return celer.lua_access
function M.with_edge(buffer, map, edge)
  buffers.check(buffer, "celer." .. edge.kind)
  return setmetatable({ buffer = buffer, map = map, edge = map and mapper.edge(map) or edge },
    Access)
end

---@class celer.lua_reduction  a buffer that a kernel reduces into
---@field buffer celer.buffer
---@field operator string|table
---@field options? table
local Reduction = { __noun = "reduction" }
Reduction.__index = Reduction
M.Reduction = Reduction

-- What submit/route.lua makes: that module is loaded with the first one.
local Route = { __noun = "route" }
Route.__index = Route
M.Route = Route

--- A buffer into which a kernel written in Lua reduces: `r:add(x)`. The operator and options
--- are as of cg:reduce.
---@param buffer celer.buffer
---@param operator "sum"|"prod"|"min"|"max"|"and"|"or"|{combine: string, identity: any}
---@param options? celer.reduce_options
---@return celer.lua_reduction
function M.reduce(buffer, operator, options)
  local call = "celer.reduce"
  buffers.check(buffer, call)
  local reduces = require "celer.kernel.reduce"
  reduces.operator(operator, buffer, options, call)
  return setmetatable({ buffer = buffer, operator = operator, options = options }, Reduction)
end

--- A buffer into which a kernel written in Lua sums: celer.reduce(buffer, "sum", options).
---@param buffer celer.buffer
---@param options? celer.reduce_options
---@return celer.lua_reduction
function M.sum(buffer, options)
  buffers.check(buffer, "celer.sum")
  return M.reduce(buffer, "sum", options)
end

-- ---- calls --------------------------------------------------------------------------------------

local function array_of(what, buffer, mode, operator)
  return { what = what, dims = buffer.dims, type = buffer.type, extents = buffer.size,
    buffer = buffer, mode = mode, operator = type(operator) == "table" and "custom" or operator }
end

-- What a kernel pushes to.
local function route_of(routed)
  return { what = "route", dims = routed.dims, type = routed.type, extents = routed.extents,
    buffer = routed.list and routed.list.values or routed.buffer }
end

local function with_edge(argument, map, edge)
  argument.map, argument.edge = map, edge
  return argument
end

-- A struct of the FFI as a table of its numbers.
local function as_table(value, ctype)
  local out = {}
  for _, field in ipairs(ctype.fields) do
    local type_, x = field.type, value
    if field.name then x = value[field.name] end
    if type_.fields then
      x = as_table(x, type_)
    elseif type_.plain and type_.of.class then
      local list = {}
      for k = 0, type_.count - 1 do list[k] = fields.number(x[k]) end
      x = list
    elseif type_.class then
      x = fields.number(x)
    end
    if field.name then
      out[field.name] = x
    elseif type_.fields then
      for name, inner in pairs(x) do out[name] = inner end
    end
  end
  return out
end

-- The same of what may be one; a complex number is none.
local function record_of(given)
  if type(given) == "table" and not getmetatable(given) then return given end
  if complex.parts(given) then return nil end
  local ctype = type(given) == "cdata" and fields.of(ffi.typeof(given))
  return ctype and ctype.fields and as_table(given, ctype) or nil
end

-- What a submission gives for one parameter; nothing for what it cannot be.
local function argument_of(given)
  local kind = type(given)
  if kind == "number" or kind == "boolean" then return { what = kind, value = given } end
  if buffers.is_buffer(given) then return array_of("array", given) end
  local meta = kind == "table" and getmetatable(given)
  if meta == Access then
    return with_edge(array_of("array", given.buffer), given.map, given.edge)
  end
  if meta == Reduction then return array_of("reduction", given.buffer, nil, given.operator) end
  if meta == Route then return route_of(given.routed) end
  if words.a(given) == "an access" then
    local routed = rawget(given, "route")
    if routed then return route_of(routed) end
    local operator = given.mode == "reduce" and rawget(given, "operator")
    if not operator then
      return with_edge(array_of("array", given.buffer, given.mode), given.map,
        given.mode == "read" and mapper.edge(given.map) or nil)
    end
    return array_of("reduction", given.buffer, nil, operator.word or "custom")
  end
  local record = record_of(given)
  return record and { what = "struct", value = record } or nil
end

local function parameter_count(self, dims, n)
  local info = debug.getinfo(self.f, "u")
  local wanted = info.nparams or #self.parameters
  if dims + n == wanted then return end
  local fit = wanted - n
  fail("kernel %s takes %s: of an item of %s, %s; it was given %s%s", self.name,
    words.count(wanted, "parameter"), words.count(dims, "dimension"),
    wanted >= dims and words.count(wanted - dims, "argument") or "too few",
    words.count(n, "argument"),
    fit >= 0 and fit <= 3 and "; that fits a range of " .. words.count(fit, "dimension") or "")
end

local function key_of(argument)
  return ("%s %s %s %s %s %s"):format(argument.what, argument.dims or "",
    argument.type and argument.type.name or "", argument.mode or "", argument.operator or "",
    argument.edge and "near" or argument.map and "given" or "")
end

-- What the kernel is called with, as variant.lua has it.
local function describe(self, space, n, ...)
  local dims, given = space.dims, { ... }
  parameter_count(self, dims, n)
  local low, high = box.bounds(space.box)
  local call = { items = dims, least = low, most = high, wide = false, arguments = {} }
  for d = 1, dims do call.wide = call.wide or low[d] < 0 or high[d] > 2 ^ 30 end
  local key = { dims, tostring(call.wide) }
  for k = 1, n do
    local argument = argument_of(given[k])
    local name = self.parameters[dims + k]
    if not argument then
      local noun = words.a(given[k])
      fail("kernel %s: argument %d ('%s') is %s: it may be a buffer, an access, a reduction such "
        .. "as celer.sum(buffer), a celer.route, a number, a boolean or a struct", self.name, k,
        name, noun == "a table" and "a table with a metatable" or noun)
    elseif argument.buffer and argument.buffer.freed then
      fail("kernel %s: the buffer %s was freed", self.name, argument.buffer.name)
    end
    argument.number, argument.name = k, name
    call.arguments[k], key[#key + 1] = argument, key_of(argument)
  end
  for _, argument in ipairs(call.arguments) do
    if argument.edge then edges.check(argument, self.name, call) end
  end
  call.key = table.concat(key, "\0")
  return call, given
end

-- Raises if a buffer that is written has two names in the kernel.
local function check_aliases(self, call, variant)
  for k, one in ipairs(call.arguments) do
    for j = k + 1, one.buffer and #call.arguments or 0 do
      local other = call.arguments[j]
      if other.buffer == one.buffer then
        local a, b = variant.uses[k], variant.uses[j]
        local is_route = one.what == "route" or other.what == "route" -- after all items
        if not is_route and (one.what == "reduction" or other.what == "reduction"
          or (a and a.mode ~= "read") or (b and b.mode ~= "read")) then
          fail("kernel %s: the buffer %s is both '%s' and '%s', and is written: give two buffers, "
            .. "or use one parameter for both", self.name, one.buffer.name, one.name, other.name)
        end
      end
    end
  end
end

--- The variant for a call, compiled now if it is new.
local function variant_for(self, call)
  local list = self.variants[call.key]
  if not list then
    list = {}
    self.variants[call.key] = list
  end
  for _, variant in ipairs(list) do
    if variants.fits(variant, call) then return variant end
  end
  local variant = variants.translate(self.f, call, self.name)
  variant.kernel = kernels.generated(variant.text .. variant.beside, lift.file_of(self.f),
    debug.getinfo(self.f, "S").linedefined, self.options)
  table.insert(list, 1, variant)
  list[MOST + 1] = nil
  return variant
end

-- ---- submitting ---------------------------------------------------------------------------------

-- What the kernel's own parameter takes for an argument.
local function access_for(cg, call, variant, parameter, value, space)
  local argument, use = call.arguments[parameter.array], variant.uses[parameter.use]
  local meta = getmetatable(value)
  local edge_map = argument.edge and edges.mapper(use, argument)
  if meta == Reduction then return cg:reduce(value.buffer, value.operator, value.options) end
  if meta == Route then value = cg:route(value.to, value.how, value.options) end
  if argument.what == "route" then
    require("celer.submit.route").suppose(value, variant.pushes[parameter.array])
    return value
  end
  -- An access of the group's own.
  if argument.mode or argument.what ~= "array" then return value end
  if meta == Access then return cg[use.mode](cg, value.buffer, edge_map or value.map) end
  local derived = mappers.of(variant, parameter.use)
  local map = mappers.bind(derived, call)
  if not space.empty then mappers.check_inside(derived, space.box, value, argument.name, call) end
  local access = cg[use.mode](cg, value, map)
  if derived.group then
    local load = use.loads[1]
    rawset(access, "read_at", ("%s:%d"):format(load.file:match "[^/]*$", load.line))
  end
  return access
end

-- A task whose chunks may meet in an atomic operation is not cut: one device has all of it.
local function keep_together(cg, variant)
  local own = cg.more and cg.more.own
  if own and own.granularity then return end
  for _, use in pairs(variant.uses) do
    if use.together then return cg:hint { granularity = WHOLE } end
  end
end

---@class celer.lua_arrangement  what a submission comes to
---@field call celer.lua_call
---@field variant celer.lua_variant
---@field given any[]  arguments of the kernel written in Lua
---@field passed any[]  those of the kernel in C++: accesses of the group, and values

--- What a submission of a kernel written in Lua comes to; declares its accesses.
---@param cg celer.command_group
---@param range any
---@param self celer.lua_kernel
---@param ... any
---@return celer.lua_arrangement
function M.arrange(cg, range, self, ...)
  if nd_range.is_nd_range(range) then
    fail("cg:parallel_for: kernel %s is written in Lua, and such kernels have no groups: give it a "
      .. "range such as { n }, or write it in C++", self.name)
  end
  local space = spaces.of(range, "cg:parallel_for")
  local call, given = describe(self, space, select("#", ...), ...)
  local variant = variant_for(self, call)
  self.last = variant
  check_aliases(self, call, variant)
  keep_together(cg, variant)
  local passed = {}
  for k, parameter in ipairs(variant.order) do
    if parameter.uniform then
      passed[k] = variants.value(parameter.uniform, call)
    else
      passed[k] = access_for(cg, call, variant, parameter, given[parameter.array], space)
    end
  end
  return { call = call, variant = variant, given = given, passed = passed }
end

--- Runs a kernel written in Lua in a command group: what cg:parallel_for does for it.
---@param cg celer.command_group
---@param range any
---@param self celer.lua_kernel
---@param ... any
function M.submit(cg, range, self, ...)
  local made = M.arrange(cg, range, self, ...)
  cg:parallel_for(range, made.variant.kernel, unpack(made.passed, 1, #made.variant.order))
end

--- Submits the kernel to the script's queue.
---@param range integer[]|integer|celer.box
---@param ... any  buffers, accesses, reductions, routes, numbers, booleans and structs
function LuaKernel:__call(range, ...)
  require("celer.submit.queue").new():parallel_for(range, self, ...)
end

-- ---- looking at it ------------------------------------------------------------------------------

local function variant_of(self, call_name, range, ...)
  if range == nil and select("#", ...) == 0 then
    return self.last or fail("kernel:%s: the kernel has not been submitted yet: give it a range "
      .. "and arguments, as to submit it", call_name)
  end
  local space = spaces.of(range, "kernel:" .. call_name)
  local call = describe(self, space, select("#", ...), ...)
  local variant = variant_for(self, call)
  return variant, call
end

--- The C++ that it was compiled to: for these arguments, or as it was submitted last.
---@param range? integer[]|integer|celer.box
---@param ... any
---@return string
function LuaKernel:source(range, ...)
  place.method(self, LuaKernel, "kernel:source")
  return (variant_of(self, "source", range, ...)).text
end

--- What the compiler made of it, as kernel:info() of a kernel in C++; of the last that was
--- submitted.
---@param threads? integer
---@return {backend: string, architecture: string?, registers: integer?}
function LuaKernel:info(threads)
  place.method(self, LuaKernel, "kernel:info")
  return (variant_of(self, "info")).kernel:info(threads)
end

--- How it accesses the buffers that it is given: mode, and range mapper, as text.
---@param range integer[]|integer|celer.box
---@param ... any  as to submit it
---@return string
function LuaKernel:accesses(range, ...)
  place.method(self, LuaKernel, "kernel:accesses")
  if range == nil then fail "kernel:accesses takes a range and arguments, as to submit it" end
  local variant, call = variant_of(self, "accesses", range, ...)
  local out = {}
  for _, parameter in ipairs(variant.order) do
    local number = parameter.array
    local argument, use = call.arguments[number], variant.uses[parameter.use]
    if use then
      local given = argument.mode or getmetatable((select(number, ...))) == Access
      out[#out + 1] = ("%-14s%s: %s"):format(argument.mode or use.mode, argument.name,
        argument.edge and edges.text(use, argument) or given and "as given"
        or mappers.of(variant, parameter.use).text)
    elseif number and argument.what == "route" then
      out[#out + 1] = ("%-14s%s"):format("route", argument.name)
    elseif number then
      out[#out + 1] = ("%-14s%s: by %s"):format("reduce", argument.name, argument.operator)
    end
  end
  return table.concat(out, "\n")
end

-- ---- making it ----------------------------------------------------------------------------------

-- The names of its parameters.
local function parameters_of(f)
  local out = {}
  for k = 1, debug.getinfo(f, "u").nparams do out[k] = debug.getlocal(f, k) or "argument " .. k end
  return out
end

--- A kernel of a function of Lua: its first parameters are the coordinates of the item, the
--- others what it is given.
---@param f function
---@param options? {name: string?, options: table?}
---@return celer.lua_kernel
function M.new(f, options)
  local info = debug.getinfo(f, "Su")
  if info.what == "C" then fail "celer.kernel: a function of Lua is needed, not one of C" end
  local file = lift.file_of(f):match "([^/]*)$":gsub("%.lua$", ""):gsub("[^%w_]", "_")
  local name = options and options.name or ("%s_%d"):format(file, info.linedefined)
  if not name:find "^[%a_]" then name = "kernel_" .. name end
  return setmetatable({ f = f, name = name, options = options, variants = {},
    parameters = parameters_of(f) }, LuaKernel)
end

function M.is_kernel(value) return getmetatable(value) == LuaKernel end

words.methods(LuaKernel, { "name" })

return M
