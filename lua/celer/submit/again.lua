--- again.lua -- kernels that are submitted again.
---
--- To submit a kernel written in Lua celer looks at all that it was compiled for, and at the boxes
--- that it touches. A *road* is a function, made for one such submission, that compares the little
--- on which this depends: the range, kinds of arguments, captured functions and tables, and of
--- numbers whether they are whole, and such. Numbers themselves are passed. Then the group that
--- it came to is submitted as a prepared one (core_prepared.c), which compares the buffers'
--- shapes. What is read by images is looked up again before. Whatever differs goes the long way.
--- So do calls of kernels in C++, with buffers in the place of accesses: a road compares the range,
--- kinds of arguments and mappers.
local ffi = require "ffi"
local balance = require "celer.submit.balance"
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local by_signature = require "celer.kernel.by_signature"
local core = require "celer.core"
local fields = require "celer.data.fields"
local functions = require "celer.kernel.from_lua.function"
local kept = require "celer.submit.kept"
local kernels = require "celer.kernel.kernel"
local kinds = require "celer.kernel.from_lua.kinds"
local mapper = require "celer.mapper.builtin"
local mappers = require "celer.mapper.known"
local settings = require "celer.settings"
local spaces = require "celer.space"
local structs = require "celer.structs"
local variants = require "celer.kernel.from_lua.variant"

local M = {}

-- What few scripts need.
local function by_images() return require "celer.submit.image" end

local TRIES = 32 -- roads that are made for one kernel, in all
local MOST = 6 -- that are kept
local MOST_PLACES = 40 -- captured variables; LuaJIT has 60 for a function
local NOT = ffi.C.CEL_PREPARED_NOT
local images, weak = mapper.images, { __mode = "v" }
local is_kernel = functions.is_kernel

---@class celer.roads  of a kernel, in its field `roads`
---@field list {call: function, made: userdata}[]  the newest first
---@field count integer  submissions that went the long way
---@field tries integer
---@field hints any  and weights: those for which they hold
---@field weights any

-- ---- the text of a road --------------------------------------------------------------------

---@class celer.road_text
---@field kept any[]
---@field places table<string, integer>  variables that are found again, by what they are
---@field variables celer.lua_place[]
---@field mappers celer.given_mapper[]
---@field reads? boolean  by images
local Text = {}
Text.__index = Text

function Text:add(line, ...) self[#self + 1] = line:format(...) end

function Text:keep(value)
  self.kept[#self.kept + 1] = value
  return ("kept[%d]"):format(#self.kept)
end

-- How a value that was captured is read.
function Text:place(at)
  if at.argument and not at.parent then return "argument_" .. at.argument end
  if at.parent then return ("member(%s, %s)"):format(self:place(at.parent), self:keep(at.key)) end
  if at.table then return ("%s[%s]"):format(self:keep(at.table), self:keep(at.key)) end
  local id = tostring(debug.upvalueid(at.f, at.number))
  if not self.places[id] then
    self.variables[#self.variables + 1] = at
    self.places[id] = #self.variables
  end
  return "variable_" .. self.places[id]
end

function Text:leave_if(condition, ...)
  self:add("if " .. condition .. " then return NOT end", ...)
end

local function number(x) return ("%.17g"):format(x) end

-- The range: a number, a list, or a box.
function Text:range(range)
  if type(range) == "number" then return self:leave_if("range ~= %s", number(range)) end
  if not box.is_box(range) then
    self:leave_if("type(range) ~= 'table' or getmetatable(range)")
    for d, n in ipairs(range) do self:leave_if("range[%d] ~= %s", d, number(n)) end
    return self:leave_if("next(range, %s) ~= nil", #range > 0 and #range or "nil")
  end
  self:leave_if("not is_box(range) or range.dims ~= %d", range.dims)
  for d = 0, range.dims - 1 do
    self:leave_if("range.min[%d] ~= %s or range.max[%d] ~= %s", d, number(range.min[d]), d,
      number(range.max[d]))
  end
end

-- How an argument reduces.
function Text:reduction(name, given)
  self:leave_if("getmetatable(%s) ~= Reduction or %s.operator ~= %s", name, name,
    self:keep(given.operator))
  if type(given.operator) == "table" then
    self:leave_if("%s.operator.combine ~= %s or %s.operator.identity ~= %s", name,
      self:keep(given.operator.combine), name, self:keep(given.operator.identity))
  end
  if not given.options then return self:leave_if("%s.options", name) end
  self:leave_if("not %s.options", name)
  for _, option in ipairs { "include_current", "reproducible" } do
    self:leave_if("%s.options.%s ~= %s", name, option, tostring(given.options[option]))
  end
end

---@class celer.given_mapper  by the user, who may change what it captured
---@field map celer.range_mapper
---@field extent celer.box
---@field range? celer.box
---@field entry? celer.known_mapper
---@field params? integer[]

-- Whether a mapper comes to what it did.
local function comes_to_the_same(given)
  local entry = mappers.entry(given.map, given.range, given.extent)
  return entry ~= nil and entry == given.entry and entry.params == given.params
end

-- Looks what mappers come to over a range; false where that is not known.
function Text:look_at_mappers(range)
  for _, given in ipairs(self.mappers) do
    given.range = spaces.of(range, "cg:parallel_for").box
    given.entry = mappers.entry(given.map, given.range, given.extent)
    if not given.entry then return false end
    given.params = given.entry.params
  end
  return true
end

-- An argument that is a buffer, perhaps with a mapper: leaves it in `buffer_k`.
function Text:buffer(k, argument, given, is_used)
  local name = "argument_" .. k
  if getmetatable(given) == functions.Access then
    self:leave_if("getmetatable(%s) ~= Access or %s.map ~= %s", name, name,
      given.map and self:keep(given.map) or "nil")
    if given.map and not mappers.is_exact(given.map) and not mapper.edge(given.map) then
      local one = { map = given.map, extent = buffers.whole(given.buffer) }
      self.mappers[#self.mappers + 1] = one
      self:leave_if("not comes_to_the_same(%s)", self:keep(one))
    elseif not given.map then
      self:leave_if("%s.edge.kind ~= %q or %s.edge.value ~= %s", name, given.edge.kind, name,
        given.edge.value ~= nil and self:keep(given.edge.value) or "nil")
    end
    name = name .. ".buffer"
  elseif getmetatable(given) == functions.Reduction then
    self:reduction(name, given)
    name = name .. ".buffer"
  end
  self:add("local buffer_%d = %s", k, name)
  self:leave_if("getmetatable(buffer_%d) ~= Buffer or buffer_%d.type ~= %s", k, k,
    self:keep(argument.type))
  if is_used then return end -- the core compares its shape
  self:leave_if("buffer_%d.freed or buffer_%d.dims ~= %d", k, k, argument.dims)
  for d = 0, argument.dims - 1 do
    self:leave_if("buffer_%d.size[%d] ~= %s", k, d, number(argument.extents[d]))
  end
end

-- Leaves where an index is another buffer than the one that images were made of.
function Text:indices(made)
  for _, map in ipairs(made.images) do
    for _, index in ipairs(by_images().indices(map)) do
      for k, argument in ipairs(made.call.arguments) do
        if argument.buffer == index then
          self:leave_if("%s[1] ~= buffer_%d", self:keep(setmetatable({ index }, weak)), k)
        end
      end
    end
  end
end

function Text:arguments(made)
  local arguments, is_used = made.call.arguments, {}
  for _, parameter in ipairs(made.variant.order) do
    if parameter.array then is_used[parameter.array] = true end
  end
  for k, parameter in ipairs(made.variant.order) do -- before the core looks, images do
    if made.uses[made.passed[k]] then is_used[parameter.array] = false end
  end
  for k, argument in ipairs(arguments) do
    if argument.buffer then self:buffer(k, argument, made.given[k], is_used[k]) end
    if argument.what == "struct" and type(made.given[k]) == "cdata" then
      self:leave_if("not istype(%s, argument_%d)", self:keep(ffi.typeof(made.given[k])), k)
    elseif argument.what == "struct" then
      self:leave_if("type(argument_%d) ~= 'table' or getmetatable(argument_%d)", k, k)
    end
  end
  for k, one in ipairs(arguments) do
    for j = k + 1, one.buffer and #arguments or 0 do
      local other = arguments[j]
      if other.buffer and other.buffer ~= one.buffer then
        self:leave_if("buffer_%d == buffer_%d", k, j)
      end
    end
  end
end

-- Which captured whole numbers the mappers of a variant hold.
local function held(variant)
  local out = {}
  for _, one in pairs(variant.mappers or {}) do
    for _, node in ipairs(one.nodes) do out[node] = true end
  end
  return out
end

-- A number or boolean: leaves it in `value_k`. Whether another number may be passed.
function Text:uniform(k, node, made, is_held)
  local now = variants.value(node, made.call)
  if node.extent then return false end -- of a shape that is compared
  self:add("local value_%d = %s", k, node.argument and "argument_" .. node.argument
    or self:place(node.place))
  if type(now) == "boolean" or is_held then
    self:leave_if("value_%d ~= %s", k, type(now) == "boolean" and tostring(now) or number(now))
    return false
  end
  self:leave_if("type(value_%d) ~= 'number'", k)
  if node.class then self:leave_if("class_of(value_%d) ~= %q", k, node.class) end
  for _, assumed in ipairs(made.variant.assumed) do
    if assumed.node == node then
      self:leave_if("%s(value_%d >= %s)", assumed.yes and "not " or "", k,
        number(made.call.most[assumed.dim]))
    end
  end
  return true
end

-- What a variant captured. Gives which numbers may be others, by their nodes.
function Text:captured(made)
  local captured, changes, is_held = made.variant.captured, {}, held(made.variant)
  for k, node in ipairs(captured.uniforms) do
    changes[node] = self:uniform(k, node, made, is_held[node]) and ("value_" .. k) or nil
  end
  for _, one in ipairs(captured.guards) do
    self:leave_if("not rawequal(%s, %s)", self:place(one.place), self:keep(one.value))
  end
  for _, list in ipairs(captured.table_list) do
    self:leave_if("not same_list(%s)", self:keep(list))
  end
  return changes
end

-- Puts buffers and numbers where the core looks; gives which numbers these are.
function Text:fill(made, changes)
  local buffer, value, values = 0, 0, {}
  for k, parameter in ipairs(made.variant.order) do
    if parameter.array then
      local name, use = "buffer_" .. parameter.array, made.uses[made.passed[k]]
      if use then
        self:add("local read_%d = read_again(%s, %s)", k, self:keep(use), name)
        name = "read_" .. k
        self:leave_if("not %s", name)
        self.reads = true
      end
      self:add("given.buffer[%d] = %s.handle", buffer, name)
      buffer = buffer + 1
    else
      local name = changes[parameter.uniform]
      if name then self:add("given.value[%d] = %s", value, name) end
      value = value + 1
      values[value] = name and 1 or 0
    end
  end
  return values
end

local HEAD = [[
local made, given, kept, submit, NOT, Buffer, Access, Reduction, is_box, class_of, same_list,
  member, istype, comes_to_the_same, read_again = ...
local getmetatable, next, rawequal, select, type = getmetatable, next, rawequal, select, type
]]

-- A field of a table, or nothing; of a struct whose type was compared.
local function member(t, key)
  if type(t) == "table" then return rawget(t, key) end
  if type(t) == "cdata" then return fields.number(t[key]) end
end

function Text:load(made, given, n, submit)
  local names, variables = { "range" }, {}
  for k = 1, n do names[k + 1] = "argument_" .. k end
  for i = 1, #self.variables do variables[i] = "variable_" .. i end
  local text = ("%s%sreturn function(%s, ...)\nif select('#', ...) > 0 then return NOT end\n%s\n"
    .. "return submit(made)\nend"):format(HEAD,
    #variables > 0 and "local " .. table.concat(variables, ", ") .. "\n" or "",
    table.concat(names, ", "), table.concat(self, "\n"))
  local call = assert(loadstring(text, "=celer/submit/again.lua"))(made, given,
    self.kept, submit, NOT, buffers.Buffer, functions.Access, functions.Reduction, box.is_box,
    kinds.class_of, variants.same_list, member, ffi.istype,
    comes_to_the_same, self.reads and by_images().again)
  for i = 1, 255 do
    local name = debug.getupvalue(call, i)
    if not name then return call end
    local at = self.variables[tonumber(name:match "^variable_(%d+)$")]
    if at then debug.upvaluejoin(call, i, at.f, at.number) end
  end
end

-- ---- roads -----------------------------------------------------------------------------------

-- Whether it reduces by an operator whose identity may hold other values without being another.
local function may_change(given)
  local operator = getmetatable(given) == functions.Reduction and given.operator
  local kind = type(operator) == "table" and type(operator.identity)
  return kind == "table" or kind == "cdata"
end

-- Whether it changes an index that says what it reads: nobody may read by what that has then.
local function changes_index(group)
  local is_index = {}
  for i = 1, group.n do
    for _, index in ipairs(images[group[i].map] and by_images().indices(group[i].map) or {}) do
      is_index[index] = true
    end
  end
  for i = 1, group.n do
    if is_index[group[i].buffer] and group[i].mode ~= "read" then return true end
  end
  return false
end

-- Has images looked up, by which some accesses read; false where none is looked at.
local function resolve(made, group, range)
  made.images, made.uses = {}, {}
  if not group.images then return true end
  if core.dry() then return false end
  for i = 1, group.n do
    if images[group[i].map] then made.images[#made.images + 1] = group[i].map end
  end
  by_images().resolve(group, "cg:parallel_for", range, function(access, use)
    made.uses[access] = use
  end)
  return true
end

--- A road for a submission like this one; nil where there is none, and false where there can be
--- none. It takes the range and what the kernel is given, buffers in the place of accesses.
---@param kernel celer.lua_kernel
---@param group celer.command_group  without work
---@param at? {file: string, line: integer}  of the submission; nil: the user's line of now
---@param range any
---@param ... any
---@return {call: function, made: userdata}|false|nil
function M.road(kernel, group, at, range, ...)
  local groups = require "celer.submit.group"
  local made = functions.arrange(group, range, kernel, ...)
  for k, argument in ipairs(made.call.arguments) do
    if argument.what == "route" or may_change(made.given[k]) then return false end
  end
  if changes_index(group) then return false end
  if not resolve(made, group, range) then return nil end
  local text = setmetatable({ kept = {}, places = {}, variables = {}, mappers = {} }, Text)
  text:range(range)
  text:arguments(made)
  text:indices(made)
  local changes = text:captured(made)
  local values = text:fill(made, changes)
  if #text.variables > MOST_PLACES then return false end
  local how = { values = values, file = at and at.file, line = at and at.line }
  local prepared = groups.prepare(group, how, range, made.variant.kernel, unpack(made.passed, 1,
    #made.variant.order))
  if not prepared or not text:look_at_mappers(range) then return prepared and nil end
  local submit = at and ffi.C.cel_prepared_submit or core.submit_again
  return { call = text:load(prepared, structs.prepared(prepared), select("#", ...), submit),
    made = prepared }
end

-- What a call of a kernel in C++ can be told to differ in: a buffer, one with a mapper, a number.
local function is_plain(given)
  local meta = getmetatable(given)
  return type(given) == "number" or meta == buffers.Buffer
    or meta == functions.Access and given.map ~= nil
end

-- A road for a call of a kernel in C++; nil where there is none. No buffer is given twice.
local function road_of_call(kernel, group, range, ...)
  local n, given, buffer, values = select("#", ...), { ... }, {}, {}
  if type(range) == "table" and getmetatable(range) and not box.is_box(range) then return nil end
  for k = 1, n do
    if not is_plain(given[k]) then return nil end
  end
  local text = setmetatable({ kept = {}, places = {}, variables = {}, mappers = {} }, Text)
  text:range(range)
  for k = 1, n do
    if type(given[k]) == "number" then
      text:leave_if("type(argument_%d) ~= 'number'", k)
      text:add("given.value[%d] = argument_%d", #values, k)
      values[#values + 1] = 1
    else
      local now = buffers.is_buffer(given[k]) and given[k] or given[k].buffer
      text:buffer(k, now, given[k], true)
      for _, other in ipairs(buffer) do
        if other.now == now then return nil end
        text:leave_if("buffer_%d == buffer_%d", k, other.k)
      end
      text:add("given.buffer[%d] = buffer_%d.handle", #buffer, k)
      buffer[#buffer + 1] = { k = k, now = now }
    end
  end
  local passed = by_signature.accesses(group, kernel, ...)
  local prepared = require("celer.submit.group").prepare(group, { values = values }, range, kernel,
    unpack(passed, 1, n))
  if not prepared or not text:look_at_mappers(range) then return nil end
  return { call = text:load(prepared, structs.prepared(prepared), n, core.submit_again),
    made = prepared }
end

--- Submits a kernel in a group that has nothing else, by what it came to before; false where it
--- has to go the long way.
---@param kernel any
---@param hints table|false  of the group or its queue
---@param range any
---@param ... any
---@return boolean
function M.submit(kernel, hints, range, ...)
  local roads = (is_kernel(kernel) or kernels.is_kernel(kernel)) and rawget(kernel, "roads")
  if not roads or settings.looks or roads.hints ~= hints or roads.weights ~= balance.weights then
    return false
  end
  local list = roads.list
  for i = 1, #list do
    if kept.finish(list[i].made, list[i].call(range, ...)) then return true end
  end
  return false
end

--- Takes note of a submission that went the long way; of a kernel in C++, of a call of it.
---@param kernel celer.lua_kernel|celer.kernel
---@param hints table|false  of the group
---@param range any
---@param ... any
function M.note(kernel, hints, range, ...)
  local roads = rawget(kernel, "roads")
  if not roads or roads.hints ~= hints or roads.weights ~= balance.weights then
    roads = { list = {}, count = 0, tries = 0, hints = hints, weights = balance.weights }
    rawset(kernel, "roads", roads)
  end
  roads.count = roads.count + 1
  if roads.count < kept.PATIENCE or roads.tries == TRIES or settings.looks then return end
  roads.tries = roads.tries + 1
  local group = require("celer.submit.group").new(hints)
  local road
  if is_kernel(kernel) then
    road = M.road(kernel, group, nil, range, ...)
  else
    road = road_of_call(kernel, group, range, ...)
  end
  if road then
    table.insert(roads.list, 1, road)
    roads.list[MOST + 1] = nil
  elseif road == false then
    roads.tries = TRIES
  end
end

return M
