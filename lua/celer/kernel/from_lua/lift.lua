--- lift.lua -- from a function to the graph of what it computes.
---
--- Instructions are run with nodes in place of values; what they do is in operations.lua.
--- Functions that it calls are put in their place.
local bytecode = require "celer.kernel.from_lua.bytecode"
local captured = require "celer.kernel.from_lua.captured"
local elements = require "celer.kernel.from_lua.elements"
local graphs = require "celer.kernel.from_lua.graph"
local operations = require "celer.kernel.from_lua.operations"
local unroll = require "celer.kernel.from_lua.unroll"
local words = require "celer.words"

local resolve = graphs.resolve

local M = {}

local DEEPEST, LARGEST = 16, 20000 -- calls in calls; nodes
local UNROLLED = 1000 -- nodes from which on loops are left as they are

local too_large = {}

---@class celer.set_scalar  raised where the kernel sets a scalar that was taken to be read alone
---@field number integer
local SetScalar = {}

---@class celer.lua_array  a parameter that is a buffer
---@field what "array"|"reduction"
---@field number integer  of the argument
---@field name string
---@field dims integer
---@field type celer.type
---@field operator? string  of a reduction

---@class celer.frame  one call of a function
---@field f function
---@field code celer.bytecode
---@field id integer
---@field blocks table<integer, celer.block>
---@field exit celer.block
---@field results integer  most values that it returns
---@field top boolean  the kernel itself
---@field several? celer.node[]  what a call gave that takes all results

---@class celer.lift
---@field graph celer.graph
---@field captured celer.lua_capture
---@field frame celer.frame
---@field copies integer  of the instructions at hand, which loops that are written out make
---@field unrolled boolean  some are
---@field is_set table<integer, boolean>  arguments that are scalars which the kernel sets
---@field scalars string[]  their variables
local Lift = {}
Lift.__index = Lift

--- The file of a function as messages name it.
---@param f function
---@return string
function M.file_of(f)
  local info = debug.getinfo(f, "S")
  return info.source:match "^[@=](.*)" or info.short_src
end

local nouns = { number = "a number", ["nil"] = "nil", string = "a string", array = "a buffer",
  part = "a part of a buffer", element = "an element of a buffer", bool = "a boolean",
  flag = "a boolean", module = "a table", ["function"] = "a function", method = "a method",
  table = "a table", sizes = "the extents of a buffer", phi = "a value that was chosen before" }

Lift.fields = elements.find

--- Raises, for to begin anew, where a scalar is set that was read at the start.
---@param array celer.lua_array
function Lift:want_set(array)
  if not self.is_set[array.number] then
    error(setmetatable({ number = array.number }, SetScalar), 0)
  end
end

--- What a node is, for messages.
function Lift.describe(node) return nouns[node.op] or "a number" end

--- A node that stands for a number, boolean or nil: an element is read where it is one.
---@param node celer.node
---@return celer.node
function Lift:value(node)
  if node.op == "scalar" then return resolve(self.graph:read(self.graph.now, node.variable)) end
  if node.op == "element" then return self:load(node, node.field or "") end
  if node.op == "part" then
    self.fail("'%s' has %s, and is given %d here", node.array.name,
      words.count(node.array.dims, "dimension"), #node.index)
  elseif node.op == "array" or node.op == "module" or node.op == "method"
    or node.op == "function" or node.op == "string" or node.op == "sizes"
    or node.op == "table" then
    self.fail("a kernel computes with numbers and booleans; here it takes %s%s",
      Lift.describe(node), node.op == "sizes" and ": take one of them, as in u.size[0]" or "")
  end
  return node
end

--- Reads an element, or a field of it.
function Lift:load(element, field)
  return self.graph:add("load", { array = element.array, index = element.index, field = field })
end

--- The extent of an array, which each submission passes.
function Lift:extent(array, dim)
  if dim % 1 ~= 0 or dim < 0 or dim >= array.dims then
    self.fail("'%s' has %s; they count from 0", array.name, words.count(array.dims, "dimension"))
  end
  local id = ("extent %d %d"):format(array.number, dim)
  local node = self.captured.by_id[id]
  if not node then
    node = self.graph:make("uniform", { path = ("%s_size_%d"):format(array.name, dim),
      extent = { array.number, dim } })
    self.captured.by_id[id] = node
    table.insert(self.captured.uniforms, node)
  end
  return node
end

--- An element by all of its coordinates at once: u(i, j).
function Lift:element(array, index)
  local list = {}
  for k, node in ipairs(index) do list[k] = self:value(node) end
  if #list ~= array.array.dims then
    self.fail("'%s' has %s, and is given %d here", array.array.name,
      words.count(array.array.dims, "dimension"), #list)
  elseif array.array.what == "reduction" then
    self.fail("'%s' is reduced into, and cannot be read", array.array.name)
  elseif array.array.what == "route" then
    self.fail("'%s' is pushed to, and cannot be read", array.array.name)
  end
  return self:first_value(self.graph:make("element", { array = array.array, index = list }))
end

--- An element; that of an array of numbers is read at once.
function Lift:first_value(element)
  if element.array.type.class == "s" then return element end
  return self:load(element, "")
end

-- ---- variables ----------------------------------------------------------------

function Lift:variable(slot) return self.frame.id .. ":" .. slot end

--- What a slot holds.
function Lift:get(slot) return resolve(self.graph:read(self.graph.now, self:variable(slot))) end

function Lift:set(slot, node) self.graph.now.values[self:variable(slot)] = node end

--- The block that an instruction begins.
---@param pc integer
---@return celer.block
function Lift:at(pc)
  local blocks = self.frame.blocks
  blocks[pc] = blocks[pc] or graphs.block()
  return blocks[pc]
end

-- ---- one function ---------------------------------------------------------------

-- The counted loop that begins with this block, behind its FORI.
local function note_loop(self, block, i)
  local graph, before = self.graph, block.preds[1]
  local index = graph:read(block, self:variable(i.a))
  local function at_start(slot) return graph:read(before, self:variable(slot)) end
  index.loop = { first = at_start(i.a), last = at_start(i.a + 1), step = at_start(i.a + 2),
    header = block }
  block.loop = index.loop
  block.values[self:variable(i.a + 3)] = index
end

local function begin_block(self, pc)
  local graph, code = self.graph, self.frame.code
  local block = self:at(pc)
  if graph.now then graph:jump(block) end
  if #block.preds == 0 then return end
  graph:start(block)
  local last = code.back[pc]
  if not last then return end
  block.header, block.forward, block.written = true, #block.preds, {}
  for slot in pairs(bytecode.written(code, pc, last)) do
    block.written[self:variable(slot)] = true
  end
  for _, variable in ipairs(self.scalars) do block.written[variable] = true end
  local before = code[pc - 1]
  if before and before.op == "FORI" then note_loop(self, block, before) end
end

local function end_loops(self, pc)
  for head, last in pairs(self.frame.code.back) do
    local block = self.frame.blocks[head]
    if last == pc and block and block.header then self.graph:complete(block) end
  end
end

-- Runs instructions from..to, in a block that has begun.
local function run(self, from, to)
  local graph, code = self.graph, self.frame.code
  local pc = from
  while pc <= to do
    local i = code[pc]
    graph.line = i.line
    if code.leads[pc] and pc > from then begin_block(self, pc) end
    local taken = 1
    if graph.now then
      if self.unrolled and #graph.all > UNROLLED then error(too_large) end
      if #graph.all > LARGEST then self.fail "the kernel is too large" end
      taken = operations.run(self, i, pc)
    end
    for k = pc, pc + taken - 1 do end_loops(self, k) end
    pc = pc + taken
  end
end

--- Writes the body of a counted loop out, for each of its counts; gives how many instructions
--- the loop has.
---@param i celer.instruction  its FORI
---@param pc integer
---@param counts integer[]
---@return integer
function Lift:unroll(i, pc, counts)
  local graph, blocks, last, outer = self.graph, self.frame.blocks, i.to - 1, self.copies
  self.unrolled, self.copies = true, outer * #counts
  for _, k in ipairs(counts) do
    self:set(i.a + 3, unroll.counter(graph, k))
    run(self, pc + 1, last - 1)
    if blocks[last] then begin_block(self, last) end
    for at = pc + 1, last do blocks[at] = nil end
    if not graph.now then break end
  end
  self.copies = outer
  if graph.now then graph:jump(self:at(i.to)) end
  return last - pc + 1
end

local function frame_of(self, f, top)
  local code, reason = bytecode.read(f)
  if not code then self.fail("%s", reason) end
  if code.info.isvararg then
    self.fail "a kernel cannot have '...', nor can a function that it calls"
  end
  self.frames = self.frames + 1
  return { f = f, code = code, id = self.frames, blocks = {}, exit = graphs.block(), results = 0,
    top = top }
end

local function enter(self, f, args, top)
  local graph = self.graph
  local outer, file, line = self.frame, graph.file, graph.line
  local frame = frame_of(self, f, top)
  graph.file, self.frame = M.file_of(f), frame
  for k = 0, frame.code.info.params - 1 do
    self:set(k, args[k + 1] or graph:make "nil")
  end
  if frame.code.back[1] then begin_block(self, 1) end
  run(self, 1, #frame.code)
  if #frame.exit.preds > 0 then graph:start(frame.exit) end
  graph.file, graph.line = file, line
  local results = {}
  for k = 1, graph.now and frame.results or 0 do
    results[k] = resolve(graph:read(graph.now, frame.id .. "=" .. k))
  end
  self.frame = outer
  return results
end

--- Puts a function in the place of its call.
---@param node celer.node
---@param args celer.node[]
---@return celer.node[]
function Lift:inline(node, args)
  for _, f in ipairs(self.stack) do
    if f == node.value then
      self.fail("'%s' calls itself, which a kernel cannot: write it as a loop", node.path)
    end
  end
  if #self.stack > DEEPEST then self.fail("calls lie in calls, more than %d deep", DEEPEST) end
  table.insert(self.stack, node.value)
  local results = enter(self, node.value, args, false)
  table.remove(self.stack)
  if not self.graph.now then self.fail("'%s' never returns", node.path) end
  return results
end

-- ---- a kernel -------------------------------------------------------------------

local function parameter(self, k, argument)
  local name = argument.name
  if argument.what == "number" or argument.what == "boolean" then
    return captured.argument(self.captured, argument.what, name, k)
  elseif argument.what == "struct" then
    return captured.record(self.captured, argument, k)
  end
  local array = self.graph:make("array", { array = argument, index = {} })
  if argument.what ~= "array" or argument.dims > 0 then return array end
  local one = self:element(array, {}) -- its element, which dt and dt() name alike
  if one.op ~= "load" or not self.is_set[k] then return one end
  local variable = "scalar " .. k
  self.graph.now.values[variable] = one
  table.insert(self.scalars, variable)
  return self.graph:make("scalar", { array = argument, index = {}, field = "",
    variable = variable })
end

local function lift(f, items, arguments, keep_reads, copies, is_set)
  local graph = graphs.new()
  graph.file, graph.line, graph.keep_reads = M.file_of(f), debug.getinfo(f, "S").linedefined,
    keep_reads
  local function fail(message, ...)
    error(("%s:%d: %s"):format(graph.file, graph.line, message:format(...)), 0)
  end
  local self = setmetatable({ graph = graph, fail = fail, frames = 0, stack = { f },
    copies = copies, unrolled = false, is_set = is_set, scalars = {} }, Lift)
  self.captured = captured.new(graph, fail)
  graph:start(graphs.block())
  local params = {}
  for d = 1, items do params[d] = graph:make("coordinate", { dim = d - 1 }) end
  for k, argument in ipairs(arguments) do params[items + k] = parameter(self, k, argument) end
  enter(self, f, params, true)
  if not graph.now then self.fail "the kernel never ends" end
  graph.writes_out = copies < math.huge
  graph:finish()
  return graph, self.captured
end

--- The graph of a function, and what it captured. Raises what cannot be compiled, with its
--- line.
---@param f function
---@param items integer  coordinates: its first parameters
---@param arguments table[]  what the others are
---@param keep_reads? boolean  also reads that nobody needs
---@return celer.graph, celer.lua_capture
function M.lift(f, items, arguments, keep_reads)
  local copies, is_set = 1, {}
  while true do
    local ok, graph, captures = pcall(lift, f, items, arguments, keep_reads, copies, is_set)
    if ok then return graph, captures end
    if graph == too_large then
      copies = math.huge
    elseif getmetatable(graph) == SetScalar then
      is_set[graph.number] = true
    else
      error(graph, 0)
    end
  end
end

return M
