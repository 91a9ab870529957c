--- kernel.lua -- CUDA C++ functions that run once per work item.
local core = require "celer.core"
local nd_range = require "celer.kernel.nd_range"
local place = require "celer.place"
local reduce = require "celer.kernel.reduce"
local script = require "celer.run.script"
local settings = require "celer.settings"
local tables = require "celer.tables"
local types = require "celer.data.types"
local words = require "celer.words"

local each = tables.each
local fail = place.fail

local M = {}

local COMPILE = place.code "COMPILE"
-- cel_param_kind: M.ITEM and so on.
for name, kind in tables.each(core.facts.param) do M[name] = kind end
local ENTRIES = core.facts.limit.entries -- defines, or options, of a source
local spelling = { [M.IN] = "in", [M.OUT] = "out", [M.INOUT] = "inout",
  [M.REDUCER] = "reducer" }

---@class celer.kernel
---@field name string
---@field signature string  as in the source, for messages
---@field params table[]  cel_param
---@field [string] celer.kernel  of a source with several
local Kernel = { __noun = "kernel" }

-- What the compiler alone knows: there once somebody asks.
local told = { params = true, signature = true, grouped = true, tile = true,
  reduces = true, arity = true }
local finish

--- A kernel is found by its name in what celer.kernel gives, also where there is
--- no other and that is the kernel itself.
function Kernel.__index(self, key)
  local method = Kernel[key]
  if method ~= nil or type(key) ~= "string" then return method end
  if told[key] then
    finish(rawget(self, "unit"))
    return rawget(self, key)
  end
  if key == rawget(self, "name") then return self end
  fail("kernel %s has no '%s'; celer.kernel gives a table of kernels where a source "
    .. "has several, and the kernel itself where it has one", rawget(self, "name"), key)
end

function Kernel:__tostring() return "kernel " .. self.signature end

--- Submits the kernel to the script's queue.
---@param range integer[]|integer|celer.box|celer.nd_range
---@param ... any  values, and buffers in the place of accesses
function Kernel:__call(range, ...)
  require("celer.submit.queue").new():parallel_for(range, self, ...)
end

--- What the compiler made of it. On a GPU: `architecture`, `registers` and
--- `local_bytes` of a thread, `shared_bytes` of a block, `threads_per_block` at
--- most; and with blocks of `threads`, `blocks_per_multiprocessor` and their
--- `occupancy`, from 0 to 1. On the processor: `backend` alone.
---@param threads? integer  256; of a kernel of tiles the items of one
---@return {backend: string, architecture: string?, registers: integer?}
function Kernel:info(threads)
  place.method(self, Kernel, "kernel:info")
  threads = threads == nil and (self.tile and nd_range.items(self.tile) or 256) or threads
  if type(threads) ~= "number" or threads % 1 ~= 0 or threads < 1 or threads > 1024 then
    fail("kernel:info: the threads of a block are a whole number from 1 to 1024")
  end
  finish(self.unit)
  local info = place.check(core.kernel_info(self.module, self.index, threads))
  info.backend = info.architecture and "cuda" or "cpu"
  info.architecture = info.architecture and "sm_" .. info.architecture
  return info
end

function Kernel.__capture(self, refuse)
  refuse(("the kernel '%s'"):format(self.name))
end

--- Whether a parameter is a route<T, D>, whose description says the rest as that of edges does.
---@param param table
function M.is_route(param) return param.kind == M.OUT and param.edge ~= nil end

--- A parameter as the user wrote it.
---@return string
function M.describe(param)
  if param.kind == M.ITEM then return ("item<%d>"):format(param.dims) end
  if param.tile then return ("tile<%s>"):format(table.concat(param.tile, ", ")) end
  if param.kind == M.GROUP then return ("group<%d>"):format(param.dims) end
  if param.kind == M.LOCAL then
    return ("local<%s, %d>"):format(param.type, param.dims)
  end
  if param.kind == M.VALUE then return param.type end
  if param.kind == M.REDUCER and param.dims == 0 then
    return ("reducer<%s>"):format(param.type)
  end
  if param.dims < 0 then -- of celer.cuda_module
    return (param.kind == M.IN and "const %s *" or "%s *"):format(param.type)
  end
  return ("%s<%s, %d>"):format(M.is_route(param) and "route" or param.edge and "near"
    or spelling[param.kind], param.type, param.dims)
end

local function signature(name, params, plain)
  local list = {}
  for _, param in ipairs(params) do
    local hidden = plain and param.kind == M.ITEM or param.kind == M.VALUE and param.dims > 0
    if not hidden then list[#list + 1] = M.describe(param) end
  end
  return ("%s(%s)"):format(name, table.concat(list, ", "))
end

-- Without what nobody passes: local memory, and what accessors are told of edges or of a
-- route, which becomes theirs.
local function passed(params)
  local out = {}
  for _, param in ipairs(params) do
    if param.kind == M.VALUE and param.dims > 0 then
      out[#out].edge = param
      if param.tile then out[#out].size = param.tile[1] end -- of a route's values
    elseif param.kind ~= M.LOCAL then
      out[#out + 1] = param
    end
  end
  return out
end

-- ---- where the source stands ------------------------------------------------

local function count_lines(text) return select(2, text:gsub("\n", "")) end

-- The line where `text` begins in `source`: the last time before the line of the
-- call when it stands there more than once, else the first; and as much space as
-- there is before it in its line.
local function find_line(source, text, line)
  source = source:gsub("\r\n?", "\n") -- as Lua reads a long string
  local best, indent
  local at, seen, from = 1, 1, source:find(text, 1, true)
  while from do
    at, seen = at + count_lines(source:sub(seen, from - 1)), from
    if best and at > line then break end
    local before = source:sub(1, from - 1)
    best, indent = at, before:sub(before:match(".*\n()") or 1):gsub("[^\t]", " ")
    from = source:find(text, from + 1, true)
  end
  return best, indent
end

-- File, line and indentation of a source's text: where the script or one of its
-- modules holds it. One that was put together has lines of its own, and nothing but
-- blanks stands everywhere.
local function locate(text)
  local file, line = place.user()
  if not text:find "%S" then return file or "?", line, "" end
  local source = file and script.text(file)
  local found, indent
  if source then found, indent = find_line(source, text, line) end
  if found then return file, found, indent end
  for path, other in tables.sorted_pairs(script.texts()) do
    found, indent = find_line(other, text, 1)
    if found then return path, found, indent end
  end
  return ("kernel made at %s:%d"):format(file or "?", line), 1, ""
end

local function read_file(name)
  local path = name
  if name:sub(1, 1) ~= "/" then path = script.directory() .. "/" .. name end
  local text, message = script.read(path)
  if not text then fail("%s", message) end
  return text, path
end

-- ---- options ----------------------------------------------------------------

local known_options = { defines = true, options = true, contract = true }

local function check_contract(call, contract)
  if contract ~= nil and type(contract) ~= "boolean" then
    fail("%s: contract is true or false, not %s", call, words.a(contract))
  end
end

local function check_options(options)
  words.check_options("celer.kernel", options, known_options, "{defines = {N = 3}}")
  for key, value in each(options) do
    if key ~= "contract" and type(value) ~= "table" then
      fail("celer.kernel: %s must be a table, not %s", key, words.a(value))
    end
  end
  check_contract("celer.kernel", options.contract)
end

-- A number as a kernel has it, and whether it is a whole one, which number.cuh is not
-- for: those that C++ has as an int or a long.
local function spell_number(x)
  if x % 1 == 0 and math.abs(x) < 2 ^ 63 then return ("%.0f"):format(x), true end
  if x ~= x then return "celer_number(NAN)", false end
  if math.abs(x) == math.huge then
    return ("celer_number(%sINFINITY)"):format(x < 0 and "-" or ""), false
  end
  return ("celer_number(%.17g)"):format(x), false
end

-- As "NAME=value", and whether one of them takes number.cuh.
local function list_defines(defines)
  local out, numbers = {}, false
  for name, value in tables.sorted_pairs(defines or {}) do
    if type(name) ~= "string" or not name:match("^[%a_][%w_]*$") then
      fail("celer.kernel: defines must be names and values, {N = 3}; '%s' is no "
        .. "name", tostring(name))
    end
    local kind = type(value)
    if kind ~= "number" and kind ~= "string" and kind ~= "boolean" then
      fail("celer.kernel: the define %s is a %s, not a number, string or boolean",
        name, kind)
    end
    local text, whole = tostring(value):gsub("\n", " "), true
    if kind == "number" then text, whole = spell_number(value) end
    numbers = numbers or not whole
    out[#out + 1] = name .. "=" .. text
  end
  return out, numbers
end

local backends = { cpu = true, cuda = true }

local function add_flags(flags, out)
  for i, flag in ipairs(flags) do
    if type(flag) ~= "string" then
      fail("celer.kernel: compiler option %d is a %s, not a string", i, type(flag))
    end
    out[#out + 1] = flag
  end
end

-- Those for every compiler, then those for this backend's.
local function list_flags(flags)
  local out, mine = {}, nil
  for key, list in each(flags or {}) do
    if type(key) ~= "number" and not backends[key] then
      fail("celer.kernel: options are a list, with more of them as cpu = {...} and "
        .. "cuda = {...}; there is no '%s'", tostring(key))
    elseif type(key) ~= "number" and type(list) ~= "table" then
      fail("celer.kernel: the options for %s must be a table, not %s", key, words.a(list))
    end
    mine = mine or type(key) ~= "number"
  end
  add_flags(flags or {}, out)
  if mine then add_flags(flags[place.check(core.devices())] or {}, out) end
  return out
end

-- ---- compiling --------------------------------------------------------------

local Kernels = {}

function Kernels.__index(self, name)
  fail("there is no kernel '%s' in this source%s", tostring(name),
    words.advice(name, self))
end

function Kernels.__call(self)
  fail("%s: name one of them, to submit it", tostring(self))
end

function Kernels.__tostring(self)
  local list = {}
  for name in tables.sorted_pairs(self) do list[#list + 1] = name end
  return "kernels " .. table.concat(list, ", ")
end

local vectors = { "float", "double", "int", "uint" }

local function has_vectors(text)
  for _, name in ipairs(vectors) do
    if text:find("%f[%w_]" .. name .. "[234]%f[^%w_]") then return true end
  end
end

-- Texts with different declarations cannot be one (engine/device/module/module_fuse.c).
local OWN = "// the user's own"

-- Structs that a text mentions, and the arithmetic of types.
local function declare_types(text, out)
  local structs, has_arithmetic, headers = types.structs_for(text), has_vectors(text), {}
  for _, type_ in ipairs(structs) do has_arithmetic = has_arithmetic or type_.arithmetic end
  if has_arithmetic then out[#out + 1] = core.embedded "kernels/vector.cuh" end
  for _, type_ in ipairs(structs) do
    if not type_.header then
      out[#out + 1] = OWN
      out[#out + 1] = type_.declaration
      out[#out + 1] = type_.arithmetic
    elseif not headers[type_.header] then
      headers[type_.header] = true
      out[#out + 1] = core.embedded(type_.header)
    end
  end
end

-- `operators`: text before and after, as reduce.lua gives it, and what it is of.
local function declarations(text, operators)
  local out = {}
  if text:find "tile%s*<" then out[1] = core.embedded "kernels/tile.cuh" end
  if text:find "group%s*<" then out[#out + 1] = core.embedded "kernels/group.cuh" end
  if text:find "near%s*<" then out[#out + 1] = core.embedded "kernels/near.cuh" end
  if text:find "%f[%w_]route%s*<" then out[#out + 1] = core.embedded "kernels/route.cuh" end
  if text:find "reducer%s*<" then
    out[#out + 1] = operators and operators[1]
    out[#out + 1] = core.embedded "kernels/reduce.cuh"
  end
  local device = {} -- of celer's own tasks
  for _, name in ipairs { "radix", "merge", "scan", "spmv", "routed" } do
    if text:find("celer::" .. name, 1, true) then
      device[#device + 1] = core.embedded("kernels/" .. name .. ".cuh")
    end
  end
  -- What a source includes may have atomics, too.
  if device[1] or text:find "atomic%u" or text:find "#%s*include" then
    out[#out + 1] = core.embedded "kernels/atomic.cuh"
  end
  if device[1] then
    if not text:find "group%s*<" then out[#out + 1] = core.embedded "kernels/group.cuh" end
    out[#out + 1] = table.concat(device, "\n")
  end
  if text:find "celer::parameter<" then out[#out + 1] = core.embedded "kernels/when.cuh" end
  if text:find "lua::" then out[#out + 1] = core.embedded "kernels/lua.cuh" end
  if text:find "%f[%w_]philox%f[^%w_]" or text:find "celer::philox_at" then
    out[#out + 1] = core.embedded "kernels/random.cuh"
  end
  declare_types(text, out)
  if operators and operators[2] ~= "" then out[#out + 1] = OWN end
  out[#out + 1] = operators and operators[2]
  return #out > 0 and table.concat(out, "\n") or nil
end

---@class celer.source
---@field text string
---@field file string
---@field line integer
---@field defines string[]
---@field numbers boolean  whether defines take number.cuh
---@field flags string[]
---@field contract boolean?  nil: by what a submission's accesses are like

local function source_of(text, options, file, line, plain)
  local defines, numbers = list_defines(options.defines)
  local flags = list_flags(options.options)
  if #defines > ENTRIES or #flags > ENTRIES then
    fail("celer.kernel: %d defines and %d options are the most", ENTRIES, ENTRIES)
  end
  if settings.check and not plain then
    flags[#flags + 1] = "-DCELER_MARK"
  elseif settings.check_bounds and not plain then
    flags[#flags + 1] = "-DCELER_CHECK"
  end
  return { text = text, file = file, line = line, defines = defines, numbers = numbers,
    flags = flags, contract = options.contract }
end

-- A source that is compiled, for some operators perhaps.
---@class celer.kernel_unit
---@field module userdata
---@field key string
---@field kernels celer.kernel[]
---@field n integer  kernels of its source
---@field plain table?
---@field operators table?
---@field finished boolean

local function make(unit, source, name, i)
  return setmetatable({ unit = unit, module = unit.module, index = i - 1, name = name,
    plain = unit.plain ~= nil, source = source, variants = {}, guards = {} },
    Kernel)
end

local function describe(kernel, params)
  local unit = kernel.unit
  if unit.plain then table.remove(params) end -- which are placeholders
  kernel.params = passed(params)
  kernel.signature = signature(kernel.name, params, unit.plain)
  kernel.grouped, kernel.tile = params[1].kind == M.GROUP, params[1].tile or false
  local reduces, arity = false, -1
  for _, param in ipairs(params) do
    reduces = reduces or param.kind == M.REDUCER
    if not (param.kind == M.VALUE and param.dims > 0) then arity = arity + 1 end
  end
  kernel.reduces, kernel.arity = reduces, arity
end

local units = {} -- by all that goes in: the same source is one module
local unfinished = {} -- in the order in which they were begun

-- Waits until a unit is compiled.
finish = function(unit)
  if unit.finished then return end
  units[unit.key], unit.failed = nil, true -- should an interrupt end it anywhere
  local list, text, file, line, code = core.kernel_finish(unit.module)
  if not list and code == COMPILE and unit.operators then
    text, file, line = reduce.blame(unit.operators, text, file, line)
  end
  place.check(list, text, file, line, code)
  for i, kernel in pairs(unit.kernels) do describe(kernel, list[i]) end
  units[unit.key], unit.failed, unit.finished = unit, false, true
end

--- Waits for all that is compiled, and raises what does not compile.
function M.settle()
  while unfinished[1] do
    local unit = unfinished[1]
    if unit.finished or unit.failed then
      table.remove(unfinished, 1)
    else
      finish(unit)
    end
  end
end

local pcall, xpcall = pcall, xpcall

-- Whether what is raised here would be caught by the user's own pcall.
local function is_caught()
  for level = 3, math.huge do
    local info = debug.getinfo(level, "f")
    if not info then return false end
    local caller = (info.func == pcall or info.func == xpcall)
      and debug.getinfo(level + 1, "S")
    if caller and not caller.source:find "^@?celer/" then return true end
  end
end

-- Begins to compile a source. `plain` is what plain.lua adds to CUDA's own: a prelude
-- and the shape of blocks; `only` is the number of the one kernel that is wanted.
local function begin(source, plain, operators, only)
  local text, defines, flags = source.text, source.defines, source.flags
  local prelude = plain and plain.prelude or declarations(text, operators)
  if source.numbers then
    prelude = (prelude or "") .. "\n" .. core.embedded "kernels/number.cuh"
  end
  local key = table.concat({ text, prelude or "", table.concat(defines, "\1"),
    table.concat(flags, "\1"), only or "", tostring(source.contract) }, "\0")
  if units[key] then return units[key] end
  local module, names, file, line, code = core.kernel(text, source.file, source.line,
    script.directory(), defines, flags, prelude, plain and plain.block, only, source.contract)
  place.check(module, names, file, line, code)
  local unit = { module = module, key = key, kernels = {}, n = #names, plain = plain,
    operators = operators and operators.by_access, finished = false, failed = false }
  for i, name in ipairs(names) do
    if not only or i == only then unit.kernels[i] = make(unit, source, name, i) end
  end
  units[key], unfinished[#unfinished + 1] = unit, unit
  return unit
end

-- The kernels of a source: by name, and the only one when there is one. Where a
-- mistake is to be known at once they are compiled then.
local function compile(source, plain)
  local unit = begin(source, plain)
  if settings.session or is_caught() then finish(unit) end
  local found = setmetatable({}, Kernels)
  for _, kernel in ipairs(unit.kernels) do rawset(found, kernel.name, kernel) end
  return found, #unit.kernels == 1 and unit.kernels[1] or nil
end

local inexact = { ["-ffast-math"] = true, ["-Ofast"] = true, ["-fassociative-math"] = true,
  ["-funsafe-math-optimizations"] = true }

-- A compiler that may change the order of operations has no sum that is exact.
local function refuse_inexact(kernel)
  for _, flag in ipairs(kernel.source.flags) do
    if inexact[flag] then
      fail("cg:reduce: the kernel %s has the compiler option %s, by which no sum is reproducible; "
        .. "leave one of them out", kernel.name, flag)
    end
  end
end

--- The kernel as it is compiled for the operators of what it reduces into.
---@param kernel celer.kernel
---@param operators table<integer, celer.operator>  by the number of the access
---@param n integer  accesses
---@return celer.kernel
function M.reducing(kernel, operators, n)
  local key = reduce.key(operators, n)
  if not key then return kernel end
  local made = kernel.variants[key]
  if not made then
    local before, after, fixed = reduce.declarations(operators, n)
    if fixed then refuse_inexact(kernel) end
    local number = kernel.index + 1
    local unit = begin(kernel.source, nil, { before, after, by_access = operators }, number)
    finish(unit)
    made = unit.kernels[number]
    kernel.variants[key] = made
  end
  return made
end

-- Text behind a source: a kernel that calls another one where a flag is not 0.
local function guard_text(kernel, name, flag)
  local params, passed_on = {}, { "celer_item" }
  for k = 0, kernel.arity do
    local own = k == 0 and "celer_item" or "celer_" .. k
    params[k + 1] = ("celer::parameter<decltype(CELER_KERNEL(%s)), %d> %s"):format(name, k, own)
    if k > 0 then passed_on[k + 1] = own end
  end
  return ("\nkernel void %s_when(%s, celer::when_flag<%s> celer_flag) {\n"
    .. "  if (celer_flag.is_set()) %s(%s);\n}\n"):format(name, table.concat(params, ", "),
    flag.name, name, table.concat(passed_on, ", "))
end

--- The kernel with one more parameter behind the others: a flag, where it is 0 nothing is done.
---@param kernel celer.kernel
---@param flag celer.type
---@return celer.kernel
function M.guarded(kernel, flag)
  local made = kernel.guards[flag.name]
  if not made then
    local name, source = kernel.name, {}
    for key, value in each(kernel.source) do source[key] = value end
    source.text = source.text .. guard_text(kernel, name, flag)
    local number = kernel.unit.n + 1
    local unit = begin(source, nil, nil, number)
    finish(unit)
    made = unit.kernels[number]
    rawset(made, "name", name)
    kernel.guards[flag.name] = made
  end
  return made
end

local options_of_functions = { name = true, options = true, contract = true }

-- A kernel written in Lua.
local function of_function(f, options)
  words.check_options("celer.kernel of a function", options, options_of_functions)
  check_contract("celer.kernel of a function", options.contract)
  if options.name ~= nil and not tostring(options.name):find "^[%a_][%w_]*$" then
    fail("celer.kernel: the name of a kernel has letters, digits and _, not %s",
      tostring(options.name))
  end
  return require("celer.kernel.from_lua.function").new(f, options)
end

--- Compiles CUDA C++ source, while the script goes on: the first use of a kernel waits
--- for it, and so does the next q:wait. With one kernel in the source the result is
--- that kernel, with several a table of them by name. A function of Lua becomes a kernel,
--- too: it is compiled for its arguments when it is submitted.
---@param source string|{file: string}|function  text, a file beside the script, or Lua
---@param options? {defines: table<string, number|string|boolean>?, options: table?,
--- name: string?, contract: boolean?}
---@return celer.kernel|celer.lua_kernel
function M.new(source, options)
  options = options == nil and {} or options
  if type(source) == "function" then return of_function(source, options) end
  check_options(options)
  local text, file, line
  if type(source) == "table" and type(rawget(source, "file")) == "string" then
    text, file = read_file(source.file)
    line = 1
  elseif type(source) ~= "string" then
    fail("celer.kernel: expected a function of Lua, CUDA C++ source as a string, or "
      .. "{file = name}, not %s", words.a(source))
  else
    local indent
    file, line, indent = locate(source)
    text = indent .. source -- the compiler's columns are the file's
  end
  if text:find("%z") then fail("celer.kernel: the source holds a zero byte") end
  local found, only = compile(source_of(text, options, file, line))
  return only or found
end

--- For plain.lua: all kernels of a file, by name.
function M.load(path, options, plain)
  local text, file = read_file(path)
  return (compile(source_of(text, options, file, 1, plain), plain))
end

--- The one kernel of a text that celer has written, for a function at a line of a file.
---@param text string
---@param file string
---@param line integer
---@param options? {options: table?, contract: boolean?}
---@return celer.kernel
function M.generated(text, file, line, options)
  options = options or {}
  local source = source_of(text, { options = options.options, contract = options.contract },
    ("kernel of %s:%d"):format(file, line), 1)
  return (select(2, compile(source)))
end

function M.is_kernel(value) return getmetatable(value) == Kernel end

--- Whether it is what a source with several kernels gives.
function M.is_collection(value) return getmetatable(value) == Kernels end

return M
