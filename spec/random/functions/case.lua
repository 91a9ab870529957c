--- case.lua -- one random function: in the interpreter, by the evaluator, and as a kernel.
local arrays = require "arrays"
local bounds = require "bounds"
local boxes = require "boxes"
local celer = require "celer"
local edges = require "celer.kernel.from_lua.edges"
local evaluate = require "evaluate"
local kept = require "kept"
local kinds = require "kinds"
local make = require "make"
local mappers = require "celer.kernel.from_lua.mappers"
local variants = require "celer.kernel.from_lua.variant"

local M = {}

local C = { 1.25, -0.375 } -- the number c: first, and after a change
local CAPTURED = { { 0.75, 2, -3, 0.03 }, { -1.375, 3, -2, 1 } } -- and x, q, back, p.feed
local TOO_LONG = 3e6 -- instructions of the interpreter

-- ---- the function -----------------------------------------------------------------------------

local frame = [[
local n, n2, n3, celer = ...
local x, q, back, flag, p = 0.75, 2, -3, true, { feed = 0.03 }
local l = { [-1] = 2, [0] = 0, -1, 1, 3, -2 }
local t = { [0] = 2, -1, 0, 5 }
local function helper(a, b)
  if a > b then return a - b end
  local s = 0
  for j = 1, 3 do s = s + b * j end
  return s
end
local function total(m, first)
  local s = 0
  for j = first, first + 2 do s = s * 0.5 + m[j] end
  return s
end
%s
return function(%s)
%s
end, function(...) x, q, back, p.feed = ... end
]]

-- Powers as kernels have them, and for the interpreter as they are computed there.
local powers = [[
local function power2(x) return x ^ 2 end
local function power3(x) return x ^ 3 end
local function power4(x) return x ^ 4 end
local function power_half(x) return x ^ 0.5 end
local function power_1(x) return x ^ -1 end
local function power_2(x) return x ^ -2 end
]]
local products = [[
local function power2(x) return x * x end
local function power3(x) return x * x * x end
local function power4(x) return (x * x) * (x * x) end
local function power_half(x) return x == -math.huge and math.huge or math.sqrt(x + 0) end
local function power_1(x) return 1 / x end
local function power_2(x) return 1 / (x * x) end
]]

local behind = "u, w, g, b, e, v, h, o, r, c, s, z, y"
local parameters = { [0] = behind .. ", a, d, f", "i, " .. behind, "i, j, " .. behind,
  "i, j, k, " .. behind }

local function load_function(case, with)
  if case.dims == 0 then with = with .. "local i = 5" end
  local chunk = assert(loadstring(frame:format(with, parameters[case.dims], case.text),
    "=f" .. case.number))
  local extents = arrays.extents[case.dims]
  return chunk(extents[1], extents[2] or 3, extents[3] or 3, celer)
end

local Case = {}
Case.__index = Case

---@class random.case
---@field number integer
---@field dims integer
---@field text string
---@field edge string  what e is given as
---@field is_record boolean  c is in a struct
---@field quick boolean  on the processor it is compiled without optimisation
---@field variant? celer.lua_variant
---@field refused? string
---@field bounded integer  elements that rounding may change: within their bounds, and undecided
---@field undecided integer
---@field boxes integer  that were looked at, and how many are tight
---@field tight integer

-- So many numbers in a row are compiled alike: of eight such groups one as users' kernels are,
-- which takes seven times as long, the others quickly.
local ALIKE = 200

--- A random function of this number; or one of a text.
---@param number integer
---@param dims? integer
---@param text? string
---@return random.case
function M.new(number, dims, text)
  local is_record = number % 4 == 1
  if not text and kept[number] then
    dims, text = kept[number].dims, kept[number].text
  elseif not text then
    math.randomseed(number)
    for _ = 1, 4 do math.random() end
    dims, text = make.body(number)
    if is_record then text = text:gsub("%f[%w_]c%f[^%w_]", "c.deep.c") end
  end
  return setmetatable({ number = number, dims = dims, text = text, is_record = is_record,
    edge = arrays.edges[number % 4 + 1],
    quick = math.floor(number / ALIKE) % 8 > 0, boxes = 0, tight = 0, bounded = 0, undecided = 0 },
    Case)
end

-- What it is given for c: a number, or a struct that has it.
function Case:given(c) return self.is_record and { deep = { c = c } } or c end

-- Gives it the first or the other numbers.
function Case:change(k)
  self.capture(unpack(CAPTURED[k]))
  self.call.arguments[10].value = self:given(C[k])
end

-- ---- its runs ---------------------------------------------------------------------------------

-- What the interpreter does; nil if it takes too long.
local function interpret(case)
  local data = arrays.new(case.dims, case.edge)
  local f, given = load_function(case, products), {}
  given[#arrays.order + 1] = case:given(C[1])
  for k, scalar in ipairs(arrays.scalars) do given[#arrays.order + 1 + k] = scalar[3] end
  for _, one in ipairs(arrays.of(case.dims)) do
    given[one.number] = data:for_interpreter(one.name)
  end
  jit.off(f, true)
  debug.sethook(function() error("it takes too long", 0) end, "", TOO_LONG)
  local ok, message = pcall(data.run, data, f, unpack(given))
  debug.sethook()
  if not ok and message == "it takes too long" then return nil end
  data.message = not ok and tostring(message)
  return data
end

-- The evaluator of a function. What it finds depends on no number that is captured, nor on c:
-- these may be others, and so may the arrays, in each run.
local function new_evaluator(case)
  local self = { now = {}, given = {} }
  self.c = #arrays.order + 1
  self.given[self.c] = case.is_record and { record = case:given(C[1]) } or C[1]
  for k, scalar in ipairs(arrays.scalars) do
    self.given[self.c + k] = { dims = 0, type = scalar[2],
      read = function() return scalar[3] end }
  end
  for _, one in ipairs(arrays.of(case.dims)) do
    self.given[one.number] = arrays.for_evaluator(one.name, case.dims, self.now)
  end
  self.run, self.floats = evaluate.new(case.f, case.dims, self.given, case.writes_out)
  return self
end

-- What the evaluator does. If `bounded`, numbers say how far the interpreter's may lie from them.
local function reference(case, c, bounded)
  local data = arrays.new(case.dims, case.edge)
  local ok, message = pcall(function()
    case.evaluator = case.evaluator or new_evaluator(case)
    local run = case.evaluator.run
    case.evaluator.now.data = data
    case.evaluator.given[case.evaluator.c] = case.is_record and { record = case:given(c) } or c
    data.floats = case.evaluator.floats
    data.undecided = {}
    kinds.bounded = bounded or false
    data:run(bounded and function(...)
      local decided, why = pcall(run, ...)
      if not decided and why ~= bounds.UNDECIDED then error(why, 0) end
      data.undecided[data.now] = not decided or nil
    end or run)
  end)
  kinds.bounded = false
  data.message = not ok and tostring(message)
  return data
end

-- ---- compared ---------------------------------------------------------------------------------

local function same(x, y)
  return x == y and (x ~= 0 or 1 / x == 1 / y) or x ~= x and y ~= y
end

local function same_whole(x, y) return x == y end -- an integer is no -0

-- Calls f for each element and field of what is written.
local function each(data, f)
  for _, one in ipairs(arrays.of(data.dims)) do
    local name, size = one.name, 1
    for _, n in ipairs(one.extents) do size = size * n end
    local array = arrays.arrays[name]
    for field in pairs(array.written and array.at or {}) do
      local type_ = array.types and array.types[field] or array.type
      local alike = kinds.of_type(type_) == "W" and same_whole or same
      for k = 0, size - 1 do f(name, field, k, alike) end
    end
  end
end

-- The first difference, as a message.
local function difference(wanted, value, what)
  local message
  each(wanted, function(name, field, k, equal)
    local x, y = value(name, k, field), wanted:value(name, k, field)
    if not message and not equal(x, y) then
      message = ("element %d of %s%s is %.17g %s, and %.17g by the evaluator"):format(k, name,
        field ~= "" and "." .. field or "", x, what, y)
    end
  end)
  return message
end

-- ---- as a kernel --------------------------------------------------------------------------------

local samples = {} -- a buffer of each kind

local function argument(name, number, dims)
  local key = name .. dims
  samples[key] = samples[key] or arrays.buffer(name, dims)
  local buffer = samples[key]
  return { what = "array", number = number, name = name, dims = buffer.dims, type = buffer.type,
    extents = buffer.size }
end

local given_scalars = {}
for k, scalar in ipairs(arrays.scalars) do
  given_scalars[k] = celer.scalar(scalar[2], scalar[3], { name = scalar[1] })
end

local function call_of(case)
  local call = { items = case.dims, least = {}, wide = false, key = "", arguments = {},
    most = case.dims > 0 and arrays.extents[case.dims] or {} }
  for d = 1, case.dims do call.least[d] = 0 end
  local list = call.arguments
  for k, name in ipairs(arrays.order) do list[k] = argument(name, k, case.dims) end
  if case.dims > 0 then list[5].edge = { kind = case.edge, value = arrays.OUTSIDE } end
  list[#list + 1] = { what = case.is_record and "struct" or "number", number = #list + 1,
    name = "c", value = case:given(C[1]) }
  for k, scalar in ipairs(given_scalars) do
    list[#list + 1] = { what = "array", number = #list + 1, name = arrays.scalars[k][1], dims = 0,
      type = scalar.type, extents = scalar.size }
  end
  for _, name in ipairs(case.dims == 0 and arrays.set or {}) do
    list[#list + 1] = argument(name, #list + 1, 0)
  end
  return call
end

-- How far the interpreter is from the evaluator where there are floats: a message if that is more
-- than each rounding explains.
local function check_floats(case, bounded)
  if bounded.message then return "with bounds the evaluator says " .. bounded.message end
  local message
  each(bounded, function(name, field, k)
    local y = case.interpreted.written[name][field][k]
    if y == nil then return end
    local x, e = bounds.parts(bounded:value(name, k, field))
    if bounded.undecided[case.dims > 0 and k or 0] or e == math.huge then
      case.undecided = case.undecided + 1
    elseif math.abs(x - y) <= e or x == y or x ~= x and y ~= y then
      case.bounded = case.bounded + (e > 0 and 1 or 0)
    else
      message = message or ("element %d of %s%s is %.17g in the interpreter, and %.17g by the "
        .. "evaluator: more than %.3g apart"):format(k, name, field ~= "" and "." .. field or "", y,
        x, e)
    end
  end)
  return message
end

local function failure(what, message) return { what = what, message = message } end

-- Looks at what the evaluator has found; gives a failure.
local function check(case)
  local interpreted, wanted = case.interpreted, case.wanted
  if not wanted.floats then
    if interpreted.message then
      return failure("differ", "it is a kernel, and the interpreter says " .. interpreted.message)
    end
    local message = wanted.message or difference(wanted, function(...)
      return interpreted:value(...)
    end, "in the interpreter")
    if message then return failure("differ", message) end
  elseif not interpreted.message and not wanted.message then
    local message = check_floats(case, reference(case, C[1], true))
    if message then return failure("differ", message) end
  end
  -- Also what it reads in vain has to lie in the boxes.
  local variant = variants.translate(case.f, case.call, "f" .. case.number, true)
  local message = boxes.check(case, variant)
  return message and failure("leave", message)
end

--- Runs a function in the interpreter and by the evaluator, and compiles it up to C++: its
--- variant, or why it is refused. Gives a failure, if there is one.
---@param case random.case
---@return {what: "differ"|"leave", message: string}?
function M.prepare(case)
  case.f, case.capture = load_function(case, powers)
  case.interpreted = interpret(case)
  if not case.interpreted then return nil end
  case.call = call_of(case)
  local ok, variant = pcall(variants.translate, case.f, case.call, "f" .. case.number)
  if not ok then
    case.refused = tostring(variant)
    local has_line = case.refused:find("^f" .. case.number .. ":%d+: ")
    return not has_line and failure("differ", "the compiler fails: " .. case.refused) or nil
  end
  case.writes_out = variant.graph.writes_out
  case.wanted = reference(case, C[1])
  local found = check(case)
  -- With floats an item may take another way, which leads outside.
  if found or case.wanted.message then return found end
  case.variant = variant
  case:change(2)
  if variants.fits(variant, case.call) then
    case.changed = reference(case, C[2])
    if case.changed.message then case.changed = nil end
  end
  case:change(1)
  case.evaluator, case.interpreted = nil, nil -- memory
end

-- The access to an argument: derived where it can be.
local function access(cg, case, number, buffer)
  local use = case.variant.uses[number]
  local given = case.call.arguments[number]
  if given.edge then return cg:read(buffer, edges.mapper(use, given)) end
  local known, mapper = pcall(mappers.of, case.variant, number)
  return cg[use.mode](cg, buffer, known and mappers.bind(mapper, case.call) or celer.all)
end

local function submit(case, kernel, buffers)
  celer.submit(function(cg)
    local passed = {}
    for j, parameter in ipairs(case.variant.order) do
      passed[j] = parameter.array and access(cg, case, parameter.array, buffers[parameter.array])
      if parameter.uniform then passed[j] = variants.value(parameter.uniform, case.call) end
    end
    cg:parallel_for(case.call.most, kernel, unpack(passed, 1, #case.variant.order))
  end)
end

local function element(snapshot, extents, k, field)
  local index = {}
  for d = #extents, 1, -1 do
    index[d] = k % extents[d]
    k = (k - index[d]) / extents[d]
  end
  local x = snapshot(unpack(index))
  for name in field:gmatch "[^.]+" do x = x[name] end
  return x
end

-- Runs a kernel; gives a message if it differs.
local function run(case, kernel, wanted)
  local buffers, outputs = {}, {}
  for _, one in ipairs(arrays.of(case.dims)) do
    local k, name = one.number, one.name
    if arrays.arrays[name].written then
      buffers[k] = arrays.buffer(name, case.dims)
      outputs[#outputs + 1] = one
    else
      buffers[k] = samples[name .. case.dims]
    end
  end
  for k, scalar in ipairs(given_scalars) do buffers[10 + k] = scalar end
  local ok, message = pcall(submit, case, kernel, buffers)
  if not ok then return "it is refused: " .. tostring(message) end
  local list, snapshots = {}, {}
  for j, one in ipairs(outputs) do list[j] = buffers[one.number] end
  for j, snapshot in ipairs { celer.wait(unpack(list)) } do
    snapshots[outputs[j].name] = { of = snapshot, extents = outputs[j].extents }
  end
  for _, buffer in ipairs(list) do buffer:free() end
  return difference(wanted, function(name, k, field)
    return element(snapshots[name].of, snapshots[name].extents, k, field)
  end, "in the kernel")
end

-- What has no meaning in C++ ends the run there, with the kernel's name: to optimise may make
-- anything of it.
local QUICKLY = { "-O0", "-DCELER_ALWAYS=", "-fsanitize-undefined-trap-on-error",
  "-fsanitize=signed-integer-overflow,shift,bounds,integer-divide-by-zero,float-cast-overflow" }

--- Compiles kernels of functions, all at once and alike, and runs them. Gives failures by function.
---@param cases random.case[]
---@param fault random.fault
---@return table<random.case, {what: string, message: string}>
function M.compute(cases, fault)
  local text, failures = {}, {}
  if #cases == 0 then return failures end
  for j, case in ipairs(cases) do text[j] = fault.text(case.variant.text) end
  local kernels = celer.kernel(fault.head .. table.concat(text, "\n"),
    { options = { cpu = cases[1].quick and QUICKLY or nil, cuda = { "-fmad=false" } } })
  for _, case in ipairs(cases) do
    local kernel = kernels["f" .. case.number] or kernels
    local message = run(case, kernel, case.wanted)
    if not message and case.changed then
      case:change(2)
      message = run(case, kernel, case.changed)
      if message then message = message .. ", with other numbers" end
    end
    if message then failures[case] = failure("differ", message) end
  end
  return failures
end

return M
