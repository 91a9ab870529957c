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
local forms = require "celer.host.form"
local place = require "celer.place"
local programs = require "celer.host.program"
local tables = require "celer.tables"
local types = require "celer.data.types"

local each = tables.each
local M = {}

local DEEPEST = 150 -- levels of tables and functions
local MOST_VALUES, LONGEST_VALUE = forms.MOST_VALUES, forms.LONGEST_VALUE

-- Library functions, tables and files, by identity: "math.floor", "io.stdout".
local library = {}
for _, name in ipairs { "_G", "coroutine", "debug", "io", "math", "os",
  "package", "string", "table", "bit", "jit" } do
  local module = _G[name]
  library[module] = name
  for key, value in tables.sorted_pairs(module) do -- the same name of two everywhere
    local kind = type(value)
    if (kind == "function" or kind == "userdata") and type(key) == "string" then
      library[value] = name == "_G" and key or name .. "." .. key
    end
  end
end

-- The first of its names that hold a value.
local function key_of(holder, value)
  local first
  for key, held in each(holder) do
    if rawequal(held, value) and type(key) == "string" and (not first or key < first) then
      first = key
    end
  end
  return first
end

-- The module, and its field, that hold a function; `pattern` limits the names of
-- modules.
local function module_field(value, pattern)
  local first
  for name, module in each(package.loaded) do
    if type(name) == "string" and name:find(pattern) and type(module) == "table"
      and (not first or name < first) and key_of(module, value) then
      first = name
    end
  end
  return first and { __mf = { first, key_of(package.loaded[first], value) } }
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

local slots = {}

-- Stands for the i-th of a task's values.
local function slot(i)
  slots[i] = slots[i] or { __v = i }
  return slots[i]
end

-- Each word says of what kind it is, so that 1 is not "1".
function Encoder:note(word) self.identity[#self.identity + 1] = word end

-- What is known by its name, or number, alone.
function Encoder:named(kind, name)
  self:note(kind .. name)
  return { [kind] = name }
end

function Encoder:cdata(value, path)
  self.notes:give_up()
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
  self:note(types.identity(type_))
  self:note(bytes)
  return { __c = name, bytes = bytes }
end

function Encoder:plain_table(value, path)
  self.notes:give_up()
  local index = self.table_index[value]
  if index then return self:named("__t", index) end
  index = #self.tables + 1
  local out = {}
  self.table_index[value], self.tables[index] = index, out
  for k in each(value) do
    local kind = type(k)
    if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
      self:refuse("a table with a key of type " .. kind, path)
    end
  end
  self:note("table")
  self.level = self.level + 1
  for k, v in tables.sorted_pairs(value) do
    self:encode(k, path)
    local at = type(k) == "string" and k:find("^[%a_][%w_]*$") and "." .. k
      or ("[%s]"):format(type(k) == "string" and ("%q"):format(k) or tostring(k))
    out[k] = self:encode(v, path .. at)
  end
  self:note("end")
  self.level = self.level - 1
  return { __t = index }
end

-- The name of a module.
function Encoder:module(value)
  local name = key_of(package.loaded, value)
  if name then
    self.notes:is(value)
    self.notes:field(package.loaded, name, value)
  end
  return name
end

function Encoder:table(value, path)
  local name = self:module(value)
  if name then return self:named("__m", name) end
  local meta = getmetatable(value)
  if meta == View or meta == Effect then
    self.notes:is(value)
    return self:named(meta == View and "__view" or "__effect", value.index)
  end
  self.notes:give_up()
  if type(meta) == "table" and rawget(meta, "__capture") then
    local out = meta.__capture(value, function(what, advice)
      self:refuse(what, path, advice)
    end)
    self:note(buffer.encode(out)) -- of arrays, which have one order
    return out
  elseif meta then
    self:refuse("a table with a metatable", path)
  end
  return self:plain_table(value, path)
end

-- A captured variable; functions may share one.
function Encoder:variable(f, i, name, value)
  local id = debug.upvalueid(f, i)
  local index = self.cell_index[id]
  if index then
    self.notes:shared(self.function_index[f], i, index)
    self:note("cell" .. index)
    return index
  end
  index = #self.cells + 1
  self.cell_index[id], self.cells[index] = index, {}
  self.notes:upvalue(self.function_index[f], i)
  self.cells[index][1] = self:encode(value, ("variable '%s'"):format(name))
  return index
end

function Encoder:lua_function(f)
  local index = self.function_index[f]
  if index then
    self.notes:same(index)
    return self:named("__f", index)
  end
  index = #self.functions + 1
  local program = programs.of(f)
  self.notes:a_function(f, program.of_celer)
  self:note(program.hash)
  local entry = { code = program.code, up = {} }
  self.function_index[f], self.functions[index] = index, entry
  for i = 1, math.huge do
    local name, value = debug.getupvalue(f, i)
    if not name then break end
    entry.up[i] = self:variable(f, i, name, value)
  end
  self:global_values(f, program.globals)
  return { __f = index }
end

function Encoder:global_values(f, names)
  local env = getfenv(f)
  if #names > 0 then self.notes:environment(self.function_index[f], env) end
  for _, name in ipairs(names) do
    local value = rawget(env, name)
    if self.globals[name] == nil and name ~= "print" then
      if value == nil or library[value] then
        self.notes:field(env, name, value)
      else
        self.globals[name] = true -- before its value: it may name itself
        self:note(name)
        self.notes:global(env, name)
        self.globals[name] = self:encode(value, ("global '%s'"):format(name))
      end
    end
  end
end

function Encoder:field(value, pattern)
  local found = module_field(value, pattern)
  if found then
    local name, key = found.__mf[1], found.__mf[2]
    self:note(("field%s.%s"):format(name, key))
    self.notes:is(value)
    self.notes:field(package.loaded, name, package.loaded[name])
    self.notes:field(package.loaded[name], key, value)
  end
  return found
end

function Encoder:a_function(value, path)
  local name = library[value]
  if name then
    self.notes:is(value)
    return self:named("__g", name)
  end
  local is_c = util.funcinfo(value).addr ~= nil
  if is_c or programs.of(value).of_celer then
    local celers = self:field(value, "^celer%f[%z.]")
    if celers then return celers end
  end
  local module = self:module(value)
  if module then return self:named("__m", module) end
  if not is_c then return self:lua_function(value) end
  return self:field(value, "") or self:refuse("a C function", path)
end

function Encoder:other(value, path)
  if library[value] then
    self.notes:is(value)
    return self:named("__g", library[value])
  end
  local kind = type(value)
  self:refuse(kind == "thread" and "a coroutine"
    or io.type(value) and "an open file" or "a userdata", path)
end

-- Of a task, what may be another one the next time.
function Encoder:value(value)
  if self.n == MOST_VALUES or type(value) == "string" and #value > LONGEST_VALUE then
    return nil
  end
  self.n = self.n + 1
  self.values[self.n] = value
  self.notes:value()
  self:note "v"
  return slot(self.n)
end

function Encoder:encode(value, path)
  local kind = type(value)
  if kind == "number" or kind == "string" or kind == "boolean" or kind == "nil" then
    local out = self.values and self.level == 0 and self:value(value)
    if out then return out end
    self.notes:give_up()
    self:note(kind == "number" and ("n%.17g"):format(value) or kind == "string"
      and ("s%d:%s"):format(#value, value) or tostring(value))
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

-- The encoded string, its identity, and of a task, which has notes, the encoder.
local function encode(f, owner, arguments, extra, notes)
  local self = setmetatable({ owner = owner, functions = {}, function_index = {},
    tables = {}, table_index = {}, cells = {}, cell_index = {}, globals = {},
    identity = {}, depth = 0, level = 0, notes = notes or forms.unread,
    values = notes and {}, n = 0 }, Encoder)
  self.notes:main()
  local main = self:encode(f, "itself")
  local list = {}
  for i = 1, arguments.n do
    self.notes:argument(i)
    list[i] = self:encode(arguments[i], ("argument %d"):format(i))
  end
  local structs = {}
  for i, type_ in ipairs(types.all_structs()) do
    structs[i] = { type_.name, type_.fields }
  end
  return buffer.encode { main = main, functions = self.functions,
    tables = self.tables, cells = self.cells, globals = self.globals,
    arguments = list, n = arguments.n, extra = extra, structs = structs },
    table.concat(self.identity, "\0"), self
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
  local encoded, identity = encode(f, owner, arguments or { n = 0 }, extra)
  return encoded, identity
end

--- The same for a task, as a form and values. `extra` is called for the table where it
--- is needed, with what follows it, and gives the same for the same `key`, an array. What
--- ranks must agree on begins with `group`.
---@param f function
---@param owner string
---@param arguments {n: integer}
---@param key any[]
---@param group string
---@param extra fun(...): table
---@param ... any  for `extra`
---@return userdata form, string values
function M.encode_task(f, owner, arguments, key, group, extra, ...)
  local form, values = forms.recall(f, arguments, key)
  if form then return form, values end
  local notes = forms.notes(key)
  local encoded, identity, self = encode(f, owner, arguments, extra(...), notes)
  return notes:form(f, encoded, group .. identity, self.values, self.n)
end

return M
