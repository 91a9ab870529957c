-- machine.lua -- for the specs of instr/: one rank's instruction graph, fed by
-- a task graph, with what it emits as Lua records to ask questions of.
--
--   local m = machine.each()             in a `describe`
--   m:open({ devices = { 1, 2 }, lookahead = true })
--   local t = m:submit({ ... })          as in spec/task/program.lua
--   m:of("copy", t)   m:reaches(a, b)
--
-- This rank executes each task whole, or `m.chunk` of it if that is set.
local busted = require("busted")
local ffi = require("ffi")
local program = require("spec.task.program")
local rules = require("spec.rule.rules")
local c = require("spec.support.cdef")("instr/instr.h", "task/task_graph.h")
local volume = require("spec.support.points").volume
jit.off(true, true)

local M = {}
M.__index = M

local command_kinds = program.enum("cel_command_kind", "CEL_COMMAND_",
  "execute push await_push collective horizon epoch free")
local names = {}
for i = 0, tonumber(ffi.cast("cel_instr_kind", "CEL_INSTR_EPOCH")) do -- the last
  names[i] = ffi.string(c.cel_instr_name(ffi.cast("cel_instr_kind", i)))
end

-- ---- records ---------------------------------------------------------------

local function box_text(box)
  local text = {}
  for d = 0, 2 do
    text[d + 1] = ("%d:%d"):format(tonumber(box.min[d]), tonumber(box.max[d]))
  end
  return table.concat(text, " ")
end
M.box_text = box_text

local function allocation(a)
  if a == nil then return nil end
  return {
    id = tonumber(a.id), memory = a.memory, buffer = a.buffer.id,
    layout = box_text(a.layout), reserve = tonumber(a.reserve),
  }
end

local function places(list, n)
  local out = {}
  for i = 0, n - 1 do
    out[i + 1] = { at = allocation(list[i].allocation), box = box_text(list[i].box) }
  end
  return out
end

local readers = {
  alloc = function(r, i) r.at = allocation(i.memory.allocation) end,
  commit = function(r, i)
    r.at = allocation(i.memory.allocation)
    r.first, r.last = tonumber(i.memory.begin), tonumber(i.memory["end"])
  end,
  copy = function(r, i)
    r.from, r.to = allocation(i.copy.from), allocation(i.copy.to)
    r.box, r.volume = box_text(i.copy.box), volume(i.copy.box)
  end,
  kernel = function(r, i)
    r.chunk = box_text(i.run.chunk)
    r.views = places(i.run.view, i.task.accesses)
  end,
  send = function(r, i)
    r.peer, r.sequence = tonumber(i.message.peer), tonumber(i.message.sequence)
    r.bytes = tonumber(i.message.bytes)
    r.direct, r.far, r.nth = i.message.direct, i.message.far, tonumber(i.message.nth)
    r.pieces = places(i.message.piece, i.message.pieces)
    r.messages = 0
    local m = i.message
    while m ~= nil do r.messages, m = r.messages + 1, m.next end
  end,
  horizon = function() end,
}
readers.free, readers.init, readers.host = readers.alloc, readers.copy, readers.kernel
readers.decommit = readers.commit
readers.receive, readers.epoch = readers.send, readers.horizon
readers.release = readers.horizon

local current
local emit = ffi.cast("void (*)(void *, const cel_instr *)", function(_, instr)
  local r = {
    id = tonumber(instr.id), kind = names[tonumber(instr.kind)],
    device = instr.device, priority = instr.priority,
    task = instr.task ~= nil and tonumber(instr.task.id) or nil,
    deps = program.deps_of(instr),
  }
  readers[r.kind](r, instr)
  current.instrs[r.id] = r
  if r.kind == "horizon" then current.horizons[#current.horizons + 1] = r.id end
end)

local warn = ffi.cast("void (*)(void *, const cel_task *, const char *)", function(_, _, text)
  current.warnings[#current.warnings + 1] = ffi.string(text)
end)

-- ---- life ------------------------------------------------------------------

local kinds_of_tasks = {
  kernel = "execute", host = "execute", horizon = "horizon", epoch = "epoch",
  free = "free",
}
local task_kinds = {}
for name in pairs(kinds_of_tasks) do
  task_kinds[tonumber(ffi.cast("cel_task_kind", "CEL_TASK_" .. name:upper()))] = name
end

-- config: devices (memory of each; default one that shares the host's),
-- grain, whole, block, capacity (of each device's memory), near (a list of
-- ranks), direct_bytes, far_bytes, ranks, large_bytes, freed_bytes, lookahead,
-- fuses, step, breadth.
-- A machine that is open is closed first.
function M:open(config)
  config = config or {}
  self:close()
  self.instrs, self.horizons, self.commands = {}, {}, {}
  self.messages, self.warnings = {}, {}
  self.chunk, self.last, self.failure = nil, nil, nil
  local devices = config.devices or { 0 }
  local cfg = ffi.new("cel_instr_graph_config")
  cfg.ranks, cfg.devices = config.ranks or 2, #devices
  for i, memory in ipairs(devices) do cfg.device_memory[i - 1] = memory end
  cfg.grain, cfg.whole = config.grain or 0, config.whole or 0
  cfg.block = config.block or cfg.grain
  for memory = 1, 61 do cfg.capacity[memory] = config.capacity or 0 end
  local near = config.near or {}
  self.near = ffi.new("int64_t[?]", #near, near)
  cfg.near, cfg.nears, cfg.direct_bytes = self.near, #near, config.direct_bytes or 0
  cfg.far_bytes = config.far_bytes or 0
  cfg.large_bytes, cfg.freed_bytes = config.large_bytes or 0, config.freed_bytes or 0
  cfg.lookahead, cfg.fuses = config.lookahead or false, config.fuses or false
  cfg.interior_bytes = config.interior_bytes or 0
  cfg.emit, cfg.warn = emit, warn
  self.graph = c.cel_instr_graph_create(cfg)
  current = self
  self.program = program.new({
    step = config.step or 1000, breadth = config.breadth or 1000,
    on_task = function(task) self:take(task) end,
  })
  return self
end

function M:close()
  if not self.graph then return end
  c.cel_instr_graph_destroy(self.graph)
  self.program:close()
  self.graph = nil
end

function M.new(config)
  return setmetatable({}, M):open(config)
end

--- One for all tests of a `describe`, each of which opens it; closed after each.
function M.each()
  local m = setmetatable({}, M)
  busted.after_each(function() m:close() end)
  return m
end

function M:command(kind, task)
  local command = ffi.new("cel_command")
  self.commands[#self.commands + 1] = command
  command.kind, command.task = command_kinds[kind], task
  command.id = #self.commands
  return command
end

function M:add(command)
  current = self
  local status = c.cel_instr_graph_add(self.graph, command)
  if status ~= 0 then self.failure = ffi.string(c.cel_error_last().text) end
end

function M:take(task)
  local name = task_kinds[tonumber(task.kind)]
  local command = self:command(kinds_of_tasks[name], task)
  command.chunk = self.chunk or task.range
  self.last = task
  self:add(command)
end

function M:fill_message(message, peer, kind, list)
  local n = #list
  local pieces = ffi.new("cel_piece[?]", n)
  self.commands[#self.commands + 1] = pieces
  for i, piece in ipairs(list) do
    pieces[i - 1].buffer = piece[1]
    pieces[i - 1].box = rules.box(piece[2], piece[3])
    message.bytes = message.bytes
      + volume(pieces[i - 1].box) * piece[1].element_size
  end
  message.peer, message.pieces, message.piece = peer, n, pieces
  message.sequence = self.messages[kind] or 0
  self.messages[kind] = (self.messages[kind] or 0) + 1
end

-- A message by hand: pieces are {buffer, min, max}.
function M:message(kind, ...)
  local command = self:command(kind, self.last)
  self:fill_message(command.message, 1, kind, { ... })
  self:add(command)
end

-- Several, each a list of pieces, with the ranks from 1 on.
function M:many_messages(kind, lists)
  local command = self:command(kind, self.last)
  local message = command.message
  for peer, list in ipairs(lists) do
    if peer > 1 then
      local next_ = ffi.new("cel_message")
      self.commands[#self.commands + 1] = next_
      message.next = next_
      message = next_
    end
    self:fill_message(message, peer, kind, list)
  end
  self:add(command)
end

-- A token by hand, for an object of cluster scope; the order of who waits for it.
function M:token(kind, object, order)
  local command = self:command(kind, self.last)
  local message = command.message
  message.peer, message.object = 1, object
  message.order = ffi.cast("cel_order", "CEL_ORDER_" .. order:upper())
  message.sequence = self.messages[kind] or 0
  self.messages[kind] = (self.messages[kind] or 0) + 1
  self:add(command)
end

function M:object(...) return self.program:object(...) end
function M:end_object(object) self.program:end_object(object) end
function M:buffer(...) return self.program:buffer(...) end
function M:submit(...) return assert(self.program:submit(...)) end
--- Writes a whole buffer.
function M:fill(buffer, extents)
  return self:submit({ range = extents, { buffer, "discard_write", program.same(#extents) } })
end
function M:epoch() return self.program:epoch() end
function M:free(buffer) self.program:free(buffer) end
function M:bytes() return tonumber(c.cel_instr_graph_bytes(self.graph)) end

function M:flush()
  current = self
  assert(c.cel_instr_graph_flush(self.graph) == 0)
end

-- As if everything up to the newest horizon but one had been executed.
function M:retire()
  local id = self.horizons[#self.horizons - 1]
  if id then c.cel_instr_graph_retire(self.graph, id) end
  local tasks = self.program.horizons
  if tasks[#tasks - 1] then self.program:retire(tasks[#tasks - 1]) end
end

-- ---- questions -------------------------------------------------------------

-- Instructions of a kind, of one task if given, in the order emitted.
function M:of(kind, task)
  local list = {}
  for id = 1, #self.instrs do
    local r = self.instrs[id]
    if r.kind == kind and (not task or r.task == task) then list[#list + 1] = r end
  end
  return list
end

-- Whether `later` comes after `earlier`; records.
function M:reaches(later, earlier)
  return program.reaches_in(self.instrs, later.id, earlier.id)
end

function M:concurrent(a, b)
  return not self:reaches(a, b) and not self:reaches(b, a)
end

return M
