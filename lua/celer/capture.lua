--- capture.lua -- a Lua function and all it captures, as one string.
---
--- Host tasks and initial contents run in other Lua states. What a function
--- captures goes along by value: numbers, strings, booleans, tables of such,
--- boxes, struct values, helper functions (recursively) and the globals that it
--- names; modules are required again on the other side. Anything else is an
--- error that names the variable. celer.lane decodes.
---
--- Functions, tables and captured variables are numbered, so that what was one
--- thing is one thing on the other side too.
---
--- Beside the string goes its *identity*: what ranks must agree on, written in
--- an order that is theirs alike. The string itself may differ between ranks:
--- it holds tables in the order of their hash parts.
local buffer = require "string.buffer"
local ffi = require "ffi"
local util = require "jit.util"
local memo = require "celer.memo"
local place = require "celer.place"
local tables = require "celer.tables"
local types = require "celer.types"

local each = tables.each
local M = {}

local DEEPEST = 150 -- levels of tables and functions

-- Library functions, tables and files, by identity: "math.floor", "io.stdout".
local library = {}
for _, name in ipairs { "_G", "coroutine", "debug", "io", "math", "os",
  "package", "string", "table", "bit", "jit" } do
  local module = _G[name]
  library[module] = name
  for key, value in pairs(module) do
    local kind = type(value)
    if (kind == "function" or kind == "userdata") and type(key) == "string" then
      library[value] = name == "_G" and key or name .. "." .. key
    end
  end
end

local function module_name(value)
  for name, module in each(package.loaded) do
    if rawequal(module, value) and type(name) == "string" then return name end
  end
end

-- The module, and its field, that hold a function; `pattern` limits the names of
-- modules.
local function module_field(value, pattern)
  for name, module in each(package.loaded) do
    if type(name) == "string" and name:find(pattern) and type(module) == "table" then
      for key, field in each(module) do
        if rawequal(field, value) and type(key) == "string" then
          return { __mf = { name, key } }
        end
      end
    end
  end
end

local function opcode(proto, pc) return bit.band(util.funcbc(proto, pc), 0xff) end

-- The opcode that reads a global, as this LuaJIT numbers them: its own list of them
-- would have to be found on disk.
local GLOBAL_GET = opcode(loadstring "return x", 1)

-- Names of the globals that a prototype and those inside it read.
local function globals_read(proto, out)
  local info = util.funcinfo(proto)
  for pc = 0, (info.bytecodes or 0) - 1 do
    if opcode(proto, pc) == GLOBAL_GET then
      out[util.funck(proto, -bit.rshift(util.funcbc(proto, pc), 16) - 1)] = true
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

-- What is the same for all functions of a prototype.
local programs = setmetatable({}, { __mode = "k" })

---@return {code: string, at: string, globals: string[], of_celer: boolean}
local function program_of(f)
  local info = util.funcinfo(f)
  local program = programs[info.proto]
  if not program then
    program = { code = string.dump(f), globals = {},
      at = ("%s:%d"):format(info.source, info.linedefined),
      of_celer = info.source:find("^@?celer/") ~= nil }
    for name in tables.sorted_pairs(globals_read(f, {})) do
      program.globals[#program.globals + 1] = name
    end
    programs[info.proto] = program
  end
  return program
end

---@class celer.encoder
local Encoder = {}
Encoder.__index = Encoder

function Encoder:refuse(what, path, advice)
  place.fail("%s uses %s, %s, which cannot be copied to where it runs%s",
    self.owner, path, what, advice or "")
end

local View = {}
local views = {}

--- Stands for the i-th access among a host task's arguments.
function M.view(i)
  views[i] = views[i] or setmetatable({ index = i }, View)
  return views[i]
end

local Effect = {}
local effects = {}

--- Stands for the i-th side effect there.
function M.effect(i)
  effects[i] = effects[i] or setmetatable({ index = i }, Effect)
  return effects[i]
end

function Encoder:note(word) self.identity[#self.identity + 1] = word end

function Encoder:cdata(value, path)
  self.memo:give_up()
  local ctype = ffi.typeof(value)
  for _, name in ipairs { "int64_t", "uint64_t" } do
    if ctype == ffi.typeof(name) then
      self:note(tostring(value))
      return value
    end
  end
  local name = tostring(ctype):match("^ctype<struct ([%w_]+)[ &]*>$")
  local type_ = name and types.named(name)
  if not type_ then
    self:refuse(("a %s"):format(tostring(ctype)), path,
      "; a host task can make one itself")
  end
  local bytes = ffi.string(ffi.new(ffi.typeof("$[1]", type_.ctype), value), type_.size)
  self:note(bytes)
  return { __c = name, bytes = bytes }
end

function Encoder:plain_table(value, path)
  self.memo:give_up()
  local index = self.table_index[value]
  if index then return { __t = index } end
  index = #self.tables + 1
  local out = {}
  self.table_index[value], self.tables[index] = index, out
  for k in each(value) do
    local kind = type(k)
    if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      self:refuse("a table with a key of type " .. kind, path)
    end
  end
  for k, v in tables.sorted_pairs(value) do
    self:note(tostring(k))
    local at = type(k) == "string" and k:find("^[%a_][%w_]*$") and "." .. k
      or ("[%s]"):format(type(k) == "string" and ("%q"):format(k) or tostring(k))
    out[k] = self:encode(v, path .. at)
  end
  self:note("end")
  return { __t = index }
end

-- The name of a module.
function Encoder:module(value)
  local name = module_name(value)
  if name then self.memo:field(package.loaded, name, value) end
  return name
end

function Encoder:table(value, path)
  local name = self:module(value)
  if name then return { __m = name } end
  local meta = getmetatable(value)
  if meta == View then return { __view = value.index } end
  if meta == Effect then return { __effect = value.index } end
  self.memo:give_up()
  if type(meta) == "table" and rawget(meta, "__capture") then
    return meta.__capture(value, function(what, advice)
      self:refuse(what, path, advice)
    end)
  elseif meta then
    self:refuse("a table with a metatable", path)
  end
  return self:plain_table(value, path)
end

-- A captured variable; functions may share one.
function Encoder:variable(f, i, name, value)
  local id = debug.upvalueid(f, i)
  local index = self.cell_index[id]
  if index then return index end
  index = #self.cells + 1
  self.cell_index[id], self.cells[index] = index, {}
  self.cells[index][1] = self:encode(value, ("variable '%s'"):format(name))
  return index
end

function Encoder:lua_function(f)
  local index = self.function_index[f]
  if index then return { __f = index } end
  index = #self.functions + 1
  local program = program_of(f)
  self:note(program.at)
  local entry = { code = program.code, up = {} }
  self.function_index[f], self.functions[index] = index, entry
  for i = 1, math.huge do
    local name, value = debug.getupvalue(f, i)
    if not name then break end
    self.memo:upvalue(f, i, value)
    entry.up[i] = self:variable(f, i, name, value)
  end
  self:global_values(f, program.globals)
  return { __f = index }
end

function Encoder:global_values(f, names)
  local env = getfenv(f)
  if #names > 0 then self.memo:environment(f, env) end
  for _, name in ipairs(names) do
    local value = rawget(env, name)
    self.memo:field(env, name, value)
    if value ~= nil and self.globals[name] == nil and not library[value]
      and name ~= "print" then
      self.globals[name] = true -- before its value: it may name itself
      self.globals[name] = self:encode(value, ("global '%s'"):format(name))
    end
  end
end

function Encoder:field(value, pattern)
  local found = module_field(value, pattern)
  if found then
    local name, key = found.__mf[1], found.__mf[2]
    self.memo:field(package.loaded, name, package.loaded[name])
    self.memo:field(package.loaded[name], key, value)
  end
  return found
end

function Encoder:a_function(value, path)
  local name = library[value]
  if name then return { __g = name } end
  local is_c = util.funcinfo(value).addr ~= nil
  if is_c or program_of(value).of_celer then
    local celers = self:field(value, "^celer%f[%z.]")
    if celers then return celers end
  end
  local module = self:module(value)
  if module then return { __m = module } end
  if not is_c then return self:lua_function(value) end
  return self:field(value, "") or self:refuse("a C function", path)
end

function Encoder:other(value, path)
  if library[value] then return { __g = library[value] } end
  local kind = type(value)
  self:refuse(kind == "thread" and "a coroutine"
    or io.type(value) and "an open file" or "a userdata", path)
end

function Encoder:encode(value, path)
  local kind = type(value)
  if kind == "number" or kind == "string" or kind == "boolean" or kind == "nil" then
    self:note(kind == "number" and ("%.17g"):format(value) or tostring(value))
    return value
  end
  self.depth = self.depth + 1
  if self.depth > DEEPEST then
    self:refuse(("nested more than %d deep"):format(DEEPEST), path:sub(1, 60))
  end
  local method = kind == "table" and self.table or kind == "cdata" and self.cdata
    or kind == "function" and self.a_function or self.other
  local out = method(self, value, path)
  self.depth = self.depth - 1
  return out
end

local function encode(f, owner, arguments, extra, notes)
  local self = setmetatable({ owner = owner, functions = {}, function_index = {},
    tables = {}, table_index = {}, cells = {}, cell_index = {}, globals = {},
    identity = {}, depth = 0, memo = notes }, Encoder)
  local main = self:encode(f, "itself")
  local list = {}
  for i = 1, arguments.n do
    list[i] = self:encode(arguments[i], ("argument %d"):format(i))
  end
  local structs = {}
  for i, type_ in ipairs(types.all_structs()) do
    structs[i] = { type_.name, type_.fields }
  end
  return buffer.encode { main = main, functions = self.functions,
    tables = self.tables, cells = self.cells, globals = self.globals,
    arguments = list, n = arguments.n, extra = extra, structs = structs },
    table.concat(self.identity, "\0")
end

--- Encodes `f` with everything that it captures, and `extra`, a table of plain
--- values that the decoder gets as it is. `arguments` are encoded like captured
--- variables. `owner` begins the message about what cannot be copied.
---@param f function
---@param owner string
---@param arguments {n: integer}?
---@param extra table
---@return string encoded, string identity
function M.encode(f, owner, arguments, extra)
  return encode(f, owner, arguments or { n = 0 }, extra, memo.new())
end

--- The same for a task, which may come again and again: `extra` is called for the
--- table where it is needed, with what follows it, and gives the same for the same `given`, an
--- array, to which this adds.
---@param f function
---@param owner string
---@param arguments {n: integer}
---@param given any[]
---@param extra fun(...): table
---@param ... any  for `extra`
---@return string encoded, string identity
function M.encode_task(f, owner, arguments, given, extra, ...)
  local n = #given
  given[n + 1], given[n + 2] = arguments.n, #types.all_structs()
  for i = 1, arguments.n do
    local argument = arguments[i]
    given[n + 2 + i] = argument == nil and memo or argument
  end
  local encoded, identity = memo.find(f, given)
  if encoded then return encoded, identity end
  local notes = memo.new(f)
  encoded, identity = encode(f, owner, arguments, extra(...), notes)
  memo.keep(f, given, notes, encoded, identity)
  return encoded, identity
end

return M
