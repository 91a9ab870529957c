--- kernel.lua -- CUDA C++ functions that run once per work item.
local ffi = require "ffi"
local core = require "celer.core"
local place = require "celer.place"
local types = require "celer.types"

local M = {}

-- cel_param_kind, in kernel.h's order.
local ITEM, IN, OUT, INOUT, VALUE = 1, 2, 3, 4, 5
local spelling = { [IN] = "in", [OUT] = "out", [INOUT] = "inout" }
-- Which access modes fit which parameter.
local fits = {
  [IN] = { read = true },
  [OUT] = { discard_write = true, write = true },
  [INOUT] = { read_write = true, write = true },
}

---@class celer.kernel
---@field name string
---@field params table[]
local Kernel = {}
Kernel.__index = Kernel
Kernel.__tostring = function(self) return "kernel " .. self.signature end

local function describe(param)
  if param.kind == ITEM then return ("item<%d>"):format(param.dims) end
  if param.kind == VALUE then return param.type end
  return ("%s<%s, %d>"):format(spelling[param.kind], param.type, param.dims)
end

local function signature(entry)
  local words = {}
  for i, param in ipairs(entry.params) do words[i] = describe(param) end
  return ("%s(%s)"):format(entry.name, table.concat(words, ", "))
end

-- Where the literal begins in the user's file: its text is found in the source
-- when it stands there once; else we count back from the call's last line.
local function first_line(text, file, line)
  local source = require("celer.script").text(file)
  if source then
    local from = source:find(text, 1, true)
    if from and not source:find(text, from + 1, true) then
      return select(2, source:sub(1, from - 1):gsub("\n", "")) + 1
    end
  end
  return math.max(1, line - select(2, text:gsub("\n", "")))
end

local function prelude(text, file, line)
  local structs = types.structs_for(text)
  if #structs == 0 then return text end
  local lines = {}
  for _, type_ in ipairs(structs) do
    lines[#lines + 1] = type_.declaration
  end
  return ("%s\n#line %d \"%s\"\n%s"):format(table.concat(lines, " "), line, file,
    text)
end

local function read_file(path)
  local f, message = io.open(path, "rb")
  if not f then place.fail("celer.kernel: %s", message) end
  local text = f:read("*a")
  f:close()
  return text
end

local compiled = {} -- by all that goes in: the same source is one module

local function compile(text, options, file, line, directory)
  local defines = {}
  for name, value in pairs(options.defines or {}) do
    defines[#defines + 1] = ("%s=%s"):format(name, tostring(value))
  end
  table.sort(defines)
  local flags = options.options or {}
  local key = table.concat({ text, table.concat(defines, "\1"),
    table.concat(flags, "\1"), directory or "" }, "\0")
  local found = compiled[key]
  if found then return found end
  local source = prelude(text, file, line)
  local module, list, at, number = core.kernel(source, file, line, directory,
    defines, flags)
  if not module then
    local message, where, where_line = list, at, number
    if where and where ~= "" then
      error(("%s:%d: %s"):format(where, where_line, message), 0)
    end
    place.fail("%s", message)
  end
  found = {}
  for i, entry in ipairs(list) do
    found[i] = setmetatable({ module = module, index = i - 1, name = entry.name,
      params = entry.params, signature = signature(entry) }, Kernel)
    found[entry.name] = found[i]
  end
  if #found == 0 then
    place.fail("celer.kernel: the source has no function `kernel void name(...)`")
  end
  compiled[key] = found
  return found
end

--- Compiles CUDA C++ source. With one kernel in it the result is that kernel,
--- with several a table of them by name.
---@param source string|{file: string}  text, or a file beside the script
---@param options? {defines: table<string, any>?, options: string[]?}
---@return celer.kernel|table<string, celer.kernel>
function M.new(source, options)
  options = options or {}
  local file, line = place.user()
  local directory = require("celer.script").directory()
  local text = source
  if type(source) == "table" and source.file then
    file, line = source.file, 1
    if file:sub(1, 1) ~= "/" then file = directory .. "/" .. file end
    text = read_file(file)
  elseif type(source) ~= "string" then
    place.fail("celer.kernel: expected CUDA C++ source as a string")
  else
    line = first_line(text, file, line)
  end
  local kernels = compile(text, options, file or "?", line, directory)
  return #kernels == 1 and kernels[1] or kernels
end

function M.is_kernel(value) return getmetatable(value) == Kernel end

-- What a value argument is not, or nil when it fits.
local function value_fault(param, value)
  local kind = type(value)
  if param.class == "b" then
    return kind ~= "boolean" and ("expected a boolean, got a " .. kind) or nil
  elseif param.class == "s" then
    local ok, size = pcall(ffi.sizeof, value)
    if kind == "cdata" and ok and size == param.size then return nil end
    return ("expected a struct %s of %d bytes, got a %s"):format(param.type,
      param.size, kind)
  elseif kind == "number" then
    if param.class ~= "f" and value % 1 ~= 0 then
      return ("expected a whole number (%s), got %s"):format(param.type, value)
    end
    return nil
  elseif kind == "cdata" and param.class ~= "f" and param.size == 8
    and tonumber(value) then
    return nil
  end
  return ("expected a number (%s), got a %s"):format(param.type, kind)
end

local function access_fault(param, access, is_access)
  if not is_access then
    return ("expected an access (%s), got a %s"):format(describe(param),
      type(access))
  end
  local buffer = access.buffer
  if not fits[param.kind][access.mode] then
    return ("the kernel declares %s, but %s is accessed with %s"):format(
      describe(param), buffer.name, access.mode)
  elseif param.dims ~= buffer.dims then
    return ("the kernel declares %s, but %s has %d dimensions"):format(
      describe(param), buffer.name, buffer.dims)
  elseif param.size ~= buffer.type.size or (param.type ~= ""
    and not M.same_type(param.type, buffer.type)) then
    return ("the kernel declares %s, but %s holds %s"):format(describe(param),
      buffer.name, buffer.type.name)
  end
end

local synonyms = {
  int = "int32_t", unsigned = "uint32_t", ["unsigned int"] = "uint32_t",
  ["long long"] = "int64_t", long = "int64_t", ["unsigned long"] = "uint64_t",
  ["unsigned long long"] = "uint64_t", short = "int16_t",
  ["unsigned short"] = "uint16_t", char = "int8_t", ["signed char"] = "int8_t",
  ["unsigned char"] = "uint8_t",
}

--- Whether the compiler's name of a type is that of `type_`.
function M.same_type(name, type_)
  return (synonyms[name] or name) == (synonyms[type_.name] or type_.name)
end

--- Checks arguments 1..n against the kernel's parameters and parts them.
---@return table accesses  in the order of the parameters
---@return table values
function M.arguments(kernel, dims, is_access, n, ...)
  local params = kernel.params
  local accesses, values = {}, {}
  local first = params[1] and params[1].kind == ITEM and 2 or 1
  if first == 2 and params[1].dims ~= dims then
    place.fail("kernel %s takes an item<%d>, but the range has %d dimensions",
      kernel.name, params[1].dims, dims)
  end
  if n ~= #params - first + 1 then
    place.fail("kernel %s takes %d arguments after its item, got %d",
      kernel.signature, #params - first + 1, n)
  end
  for i = 1, n do
    local param, argument = params[first + i - 1], (select(i, ...))
    local access = is_access(argument)
    local fault
    if param.kind == VALUE then
      fault = access and "expected a value, got an access"
        or value_fault(param, argument)
      values[#values + 1] = argument
    else
      fault = access_fault(param, argument, access)
      accesses[#accesses + 1] = argument
    end
    if fault then
      place.fail("argument %d of kernel %s: %s", i, kernel.name, fault)
    end
  end
  return accesses, values
end

function Kernel.__capture(self, refuse)
  refuse(("the kernel '%s'"):format(self.name))
end

return M
