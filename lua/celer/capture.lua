--- capture.lua -- a Lua function and all it captures, as one string.
---
--- Host tasks and initial contents run in other Lua states. What a function
--- captures goes along by value: numbers, strings, booleans, tables of such,
--- boxes, struct values, helper functions (recursively) and the globals that it
--- names; modules are required again on the other side. Anything else is an
--- error that names the variable. celer.lane decodes.
---
--- Beside the string goes its *identity*: what ranks must agree on, written in
--- an order that is theirs alike. The string itself may differ between ranks:
--- it holds tables in the order of their hash parts.
local buffer = require "string.buffer"
local ffi = require "ffi"
local util = require "jit.util"
local vmdef = require "jit.vmdef"
local place = require "celer.place"
local tables = require "celer.tables"
local types = require "celer.types"

local M = {}

-- Library functions and tables, by identity: "math.floor", "string".
local library = {}
for _, name in ipairs { "_G", "coroutine", "debug", "io", "math", "os",
  "package", "string", "table", "bit", "jit" } do
  local module = _G[name]
  library[module] = name
  for key, value in pairs(module) do
    if type(value) == "function" and type(key) == "string" then
      library[value] = name == "_G" and key or name .. "." .. key
    end
  end
end

local function module_name(value)
  for name, module in pairs(package.loaded) do
    if module == value and type(name) == "string" then return name end
  end
end

-- Names of the globals that a prototype and those inside it read.
local function globals_read(proto, out)
  local info = util.funcinfo(proto)
  for pc = 0, (info.bytecodes or 0) - 1 do
    local code = util.funcbc(proto, pc)
    local name = vmdef.bcnames:sub(bit.band(code, 0xff) * 6 + 1):match("^%w+")
    if name == "GGET" then
      out[util.funck(proto, -bit.rshift(code, 16) - 1)] = true
    end
  end
  if info.children then
    for i = -1, -info.gcconsts, -1 do
      local constant = util.funck(proto, i)
      if type(constant) == "proto" then globals_read(constant, out) end
    end
  end
  return out
end

local Encoder = {}
Encoder.__index = Encoder

local function refuse(what, path, advice)
  place.fail("the function captures %s, %s, which cannot be copied to a host "
    .. "task%s", path, what, advice or "")
end

local encode

function Encoder:note(word) self.identity[#self.identity + 1] = word end

function Encoder:cdata(value, path)
  local ctype = ffi.typeof(value)
  for _, name in ipairs { "int64_t", "uint64_t" } do
    if ctype == ffi.typeof(name) then
      self:note(tostring(value))
      return value
    end
  end
  local name = tostring(ctype):match("^ctype<struct ([%w_]+)>$")
  if name and pcall(types.find, name) then
    local type_ = types.find(name)
    local bytes = ffi.string(value, type_.size)
    self:note(bytes)
    return { __c = name, bytes = bytes }
  end
  return refuse(("a %s"):format(tostring(ctype)), path)
end

function Encoder:table(value, path)
  local name = module_name(value)
  if name then return { __m = name } end
  local meta = getmetatable(value)
  if meta and meta.__capture then
    return meta.__capture(value, function(what, advice)
      refuse(what, path, advice)
    end)
  end
  if meta then refuse("a table with a metatable", path) end
  if self.open[value] then refuse("a table that contains itself", path) end
  self.open[value] = true
  for k in pairs(value) do
    local kind = type(k)
    if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      refuse("a table with a key of type " .. kind, path)
    end
  end
  local out = {}
  for k, v in tables.sorted_pairs(value) do
    self:note(tostring(k))
    out[k] = encode(self, v, ("%s[%s]"):format(path, tostring(k)))
  end
  self.open[value] = nil
  return { __t = out }
end

function Encoder:lua_function(f)
  local index = self.index[f]
  if index then return { __f = index } end
  index = #self.functions + 1
  self.index[f] = index
  local info = debug.getinfo(f, "S")
  self:note(("%s:%d"):format(info.source, info.linedefined))
  local entry = { code = string.dump(f), up = {} }
  self.functions[index] = entry
  for i = 1, math.huge do
    local name, value = debug.getupvalue(f, i)
    if not name then break end
    entry.up[i] = encode(self, value, ("variable '%s'"):format(name))
    entry.n = i
  end
  for name in tables.sorted_pairs(globals_read(f, {})) do
    local value = rawget(_G, name)
    if value ~= nil and self.globals[name] == nil
      and not library[value] and name ~= "print" then
      self.globals[name] = true -- before its value: it may name itself
      self.globals[name] = encode(self, value, ("global '%s'"):format(name))
    end
  end
  return { __f = index }
end

function encode(self, value, path)
  local kind = type(value)
  if kind == "table" then return self:table(value, path) end
  if kind == "cdata" then return self:cdata(value, path) end
  if kind == "function" then
    local name = library[value]
    if name then return { __g = name } end
    if util.funcinfo(value).addr then refuse("a C function", path) end
    return self:lua_function(value)
  end
  if kind == "userdata" then
    refuse(io.type(value) and "an open file" or "a userdata", path)
  elseif kind == "thread" then
    refuse("a coroutine", path)
  end
  self:note(kind == "number" and ("%.17g"):format(value) or tostring(value))
  return value
end

local View = { __capture = function(self) return { __view = self.index } end }

--- Stands for the i-th access among a host task's arguments.
function M.view(i) return setmetatable({ index = i }, View) end

--- Encodes `f` with everything that it captures, and `extra`, a table of plain
--- values that the decoder gets as it is. `arguments` are encoded like captured
--- variables.
---@return string encoded, string identity
function M.encode(f, arguments, extra)
  local self = setmetatable({ functions = {}, index = {}, globals = {},
    open = {}, identity = {} }, Encoder)
  local main = encode(self, f, "the function")
  local list, n = {}, arguments and arguments.n or 0
  for i = 1, n do
    list[i] = encode(self, arguments[i], ("argument %d"):format(i))
  end
  local structs = {}
  for _, type_ in ipairs(types.all_structs()) do
    structs[#structs + 1] = { type_.name, type_.fields }
  end
  return buffer.encode { main = main, functions = self.functions,
    globals = self.globals, arguments = list, n = n, extra = extra or {},
    structs = structs }, table.concat(self.identity, "\0")
end

return M
