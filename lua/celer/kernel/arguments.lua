--- arguments.lua -- what is passed to a kernel, checked against its parameters.
local complex = require "celer.data.complex"
local ffi = require "ffi"
local kernel = require "celer.kernel.kernel"
local near = require "celer.kernel.near"
local place = require "celer.place"
local plain = require "celer.kernel.plain"
local types = require "celer.data.types"
local words = require "celer.words"

local M = {}

local VALUES = require("celer.core").facts.limit.value_bytes

-- Which access modes fit which parameter.
local fits = {
  [kernel.IN] = { read = true },
  [kernel.OUT] = { discard_write = true, write = true },
  [kernel.INOUT] = { read_write = true, write = true },
  [kernel.REDUCER] = { reduce = true },
}
local fits_route = { route = true }
local asks_for = {
  [kernel.IN] = "cg:read",
  [kernel.OUT] = "cg:discard_write or cg:write",
  [kernel.INOUT] = "cg:read_write",
  [kernel.REDUCER] = "cg:reduce",
}

local function call_for(param)
  return kernel.is_route(param) and "cg:route" or asks_for[param.kind]
end

local synonyms = {
  int = "int32_t", unsigned = "uint32_t", ["unsigned int"] = "uint32_t",
  ["long long"] = "int64_t", long = "int64_t", ["unsigned long"] = "uint64_t",
  ["unsigned long long"] = "uint64_t", short = "int16_t",
  ["unsigned short"] = "uint16_t", char = "int8_t", ["signed char"] = "int8_t",
  ["unsigned char"] = "uint8_t",
}

local function same_type(name, type_)
  return (synonyms[name] or name) == (synonyms[type_.name] or type_.name)
end

-- ---- values -----------------------------------------------------------------

local function a(value)
  return type(value) == "cdata" and "a " .. tostring(ffi.typeof(value)) or words.a(value)
end

-- A struct argument as cdata of its type; or nil and what is wrong.
local function struct_value(param, value)
  local type_ = types.named(param.type)
  if not type_ then
    return nil, ("its type %s is not known to Lua; celer.struct(\"%s\", ...) "
      .. "makes one for both"):format(param.type, param.type)
  elseif type(value) == "cdata" and not types.is_made_of(type_, value)
    and not (type_.header and complex.parts(value)) then
    return nil, ("expected a %s, got %s"):format(param.type, a(value))
  end
  local out = ffi.new(ffi.typeof("$[1]", type_.ctype))
  local fault = types.store(type_, out, 0, value)
  if fault then return nil, fault end
  return out
end

local function boxed_integer(value)
  return type(value) == "cdata"
    and (ffi.istype("int64_t", value) or ffi.istype("uint64_t", value))
end

local function whole_value(param, value)
  local low, high = types.limits(param.class, param.size)
  if boxed_integer(value) then
    local n = tonumber(value)
    if param.size < 8 then
      value = n
    elseif n < low or n > high or (n == high and param.class == "i") then
      return nil, ("%s does not fit a %s"):format(tostring(value), param.type)
    else
      return value
    end
  end
  local fault = types.whole_fault(value, param.type, low, high)
  if fault then return nil, fault end
  return value
end

-- A value as the core packs it; or nil and what is wrong.
local function value_of(param, value)
  if param.class == "b" then
    if type(value) == "boolean" then return value end
    return nil, ("expected a boolean, got %s"):format(a(value))
  elseif param.class == "s" then
    return struct_value(param, value)
  elseif plain.is_placeholder(value) then
    return nil, ("%s is for integers of at least 4 bytes, of kernels from "
      .. "celer.cuda_module"):format(tostring(value))
  elseif type(value) ~= "number" and not boxed_integer(value) then
    return nil, ("expected a number (%s), got %s"):format(param.type, a(value))
  elseif param.class == "f" then
    return tonumber(value)
  end
  return whole_value(param, value)
end

-- ---- accesses ---------------------------------------------------------------

-- What a parameter says of its dimensions, and the buffer does not have.
local function shape_fault(param, wanted, buffer)
  if param.kind == kernel.REDUCER and param.dims == 0 then
    local n = buffer.bytes / buffer.type.size
    if n == 1 then return end
    return ("the kernel declares %s, of one element, but %s has %.15g; reducer<%s, %d> "
      .. "reduces into each"):format(wanted, buffer.name, n, param.type, buffer.dims)
  elseif param.dims >= 0 and param.dims ~= buffer.dims then
    return ("the kernel declares %s, but %s has %s"):format(wanted, buffer.name,
      words.count(buffer.dims, "dimension"))
  end
end

local function access_fault(param, access, is_access)
  local wanted = kernel.describe(param)
  if not is_access then
    return ("expected %s (%s, from %s), got %s"):format((param.kind == kernel.REDUCER
      or kernel.is_route(param)) and "an access" or "a buffer or an access", wanted,
      call_for(param), words.a(access))
  end
  local routed = rawget(access, "route") -- which has a buffer of its own
  local buffer, mode = routed or access.buffer, routed and "route" or access.mode
  local pointer = param.dims < 0
  local writes = mode ~= "read" and mode ~= "reduce" and mode ~= "route"
  local misshapen = shape_fault(param, wanted, buffer)
  if not (kernel.is_route(param) and fits_route or fits[param.kind])[mode]
    and not (pointer and param.kind ~= kernel.IN and writes) then
    return ("the kernel declares %s, but %s is accessed with cg:%s; use %s"):format(
      wanted, buffer.name, mode, call_for(param))
  elseif misshapen then
    return misshapen
  elseif param.size ~= buffer.type.size or not same_type(param.type, buffer.type)
  then
    return ("the kernel declares %s, but %s holds %s"):format(wanted, buffer.name,
      buffer.type.name)
  end
end

-- ---- all of them ------------------------------------------------------------

local function check_count(k, first, dims, n)
  local item = k.params[1]
  if k.plain and item.dims ~= dims then
    place.fail("kernel %s was loaded for blocks of %s, but the range has %d", k.name,
      words.count(item.dims, "dimension"), dims)
  elseif first == 2 and item.dims ~= dims then
    place.fail("kernel %s takes %s, but the range has %s", k.name,
      (k.grouped and "a " or "an ") .. kernel.describe(item), words.count(dims, "dimension"))
  end
  local wanted = #k.params - first + 1
  if n ~= wanted then
    place.fail("kernel %s takes %s%s, got %d", k.signature,
      words.count(wanted, "argument"), k.plain and "" or k.tile and " after its tile"
        or k.grouped and " after its group" or " after its item", n)
  end
end

local function takes_placeholder(k, param, argument)
  return k.plain and plain.is_placeholder(argument) and param.size >= 4
    and (param.class == "i" or param.class == "u")
end

-- How a buffer was accessed by an argument that fitted, by parameter.
local fitted = setmetatable({}, { __mode = "k" })

local function check_access(param, argument, is_access)
  local modes = fitted[param]
  if not modes then
    modes = setmetatable({}, { __mode = "k" })
    fitted[param] = modes
  end
  local routed = is_access and rawget(argument, "route")
  if is_access and not routed and modes[argument.buffer] == argument.mode then return nil end
  local fault = access_fault(param, argument, is_access)
  if not fault and not routed then modes[argument.buffer] = argument.mode end
  return fault
end

local none = {}

--- Checks arguments 1..n against the kernel's parameters and parts them.
---@param k celer.kernel
---@param dims integer  of the range
---@param is_access fun(value: any): boolean
---@return table accesses  in the order of the parameters
---@return table values  as the core packs them
function M.part(k, dims, is_access, n, ...)
  local params = k.params
  local kind = params[1].kind
  local first = (kind == kernel.ITEM or kind == kernel.GROUP) and 2 or 1
  check_count(k, first, dims, n)
  local given, accesses, values = { ... }, {}, none
  local accessed, valued, bytes, placeholders = 0, 0, 0, 0ULL
  for i = 1, n do
    local param, argument = params[first + i - 1], given[i]
    local fault
    if param.kind ~= kernel.VALUE then
      fault = check_access(param, argument, is_access(argument))
      accessed = accessed + 1
      accesses[accessed] = argument
      if param.edge and not fault then
        bytes = bytes + param.edge.size + param.edge.align
        if values == none then values = {} end
        valued = valued + 1
        values[valued], fault = near.pack(param, argument)
      end
    elseif is_access(argument) then
      fault = ("expected a %s, got the access to %s"):format(param.type,
        argument.buffer.name)
    else
      bytes = bytes + param.size + param.align
      if takes_placeholder(k, param, argument) then
        argument, placeholders = argument.code, placeholders + 2ULL ^ (i - 1)
      end
      if values == none then values = {} end
      valued = valued + 1
      values[valued], fault = value_of(param, argument)
    end
    if fault then
      place.fail("argument %d of kernel %s: %s", i, k.name, fault)
    end
  end
  if bytes > VALUES then
    place.fail("the values of kernel %s take more than %d bytes; put them into a "
      .. "buffer", k.name, VALUES)
  end
  if k.plain then
    if values == none then values = {} end
    values[valued + 1] = placeholders
  end
  return accesses, values
end

return M
