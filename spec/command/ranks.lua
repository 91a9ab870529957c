-- ranks.lua -- for the specs of command/: one command graph per rank, fed by a
-- task graph, with what each emits as Lua records to ask questions of.
--
--   local r = ranks.new(4, { small_bytes = 64 })
--   local t = r:submit({ ... })          as in spec/task/program.lua
--   r:messages(2, "push", t)   r:of(0, "execute", t)
local ffi = require("ffi")
local program = require("spec.task.program")
local c = require("spec.support.cdef")("command/command_graph.h", "base/status.h")
jit.off(true, true)

local M = {}
M.__index = M

local _, kind_names = program.enum("cel_command_kind", "CEL_COMMAND_",
  "execute push await_push collective horizon epoch free")

local function box_text(box, dims)
  local text = {}
  for d = 0, dims - 1 do
    text[d + 1] = ("%d:%d"):format(tonumber(box.min[d]), tonumber(box.max[d]))
  end
  return table.concat(text, " ")
end
M.box_text = box_text

local function message(m)
  local pieces = {}
  for i = 0, m.pieces - 1 do
    local buffer = m.piece[i].buffer
    pieces[i + 1] = buffer.id .. "@" .. box_text(m.piece[i].box, buffer.dims)
  end
  return {
    peer = tonumber(m.peer), sequence = tonumber(m.sequence),
    bytes = tonumber(m.bytes), pieces = table.concat(pieces, ", "),
    object = m.object ~= nil and m.object.id or nil,
  }
end

local current
local emit = ffi.cast("void (*)(void *, const cel_command *)", function(_, command)
  local r = {
    id = tonumber(command.id), kind = kind_names[tonumber(command.kind)],
    task = tonumber(command.task.id), deps = program.deps_of(command),
    raw = command,
  }
  if r.kind == "push" or r.kind == "await_push" then
    r.messages = {}
    local m = command.message
    while m ~= nil do
      r.messages[#r.messages + 1] = message(m)
      m = m.next
    end
  elseif r.kind == "execute" then
    r.chunk = box_text(command.chunk, command.task.dims)
  end
  current.commands[r.id] = r
end)

local function add(rank, task)
  current = rank
  local status = c.cel_command_graph_add(rank.graph, task)
  if status ~= 0 then
    return nil, ffi.string(c.cel_error_last().text), ffi.string(c.cel_status_name(status))
  end
  return true
end

-- config: small_bytes, large_bytes, replications; `own`, by rank, what only
-- that rank's has.
function M.new(n, config, own)
  local self = setmetatable({ n = n, rank = {}, own = own }, M)
  for k = 0, n - 1 do
    local cfg = ffi.new("cel_command_graph_config", config or {})
    cfg.rank, cfg.ranks, cfg.emit = k, n, emit
    for key, value in pairs(own and own[k] or {}) do cfg[key] = value end
    local graph = ffi.gc(c.cel_command_graph_create(cfg), c.cel_command_graph_destroy)
    self.rank[k] = { graph = graph, commands = {} }
  end
  self.program = program.new({
    ranks = n, collectives = config and config.collectives,
    on_task = function(task)
      for k = 0, n - 1 do assert(add(self.rank[k], task)) end
    end,
  })
  return self
end

function M:object(...) return self.program:object(...) end
function M:end_object(object) return self.program:end_object(object) end
function M:buffer(...) return self.program:buffer(...) end
function M:epoch() return self.program:epoch() end
function M:free(buffer) return self.program:free(buffer) end

-- One rank frees the buffer, the others do not, or at another time.
function M:free_on(k, buffer)
  local task = ffi.new("cel_task", { kind = "CEL_TASK_FREE", freed = buffer })
  assert(add(self.rank[k], task))
end

-- Caches stay tiny from now on, on all ranks.
function M:squeeze()
  for k = 0, self.n - 1 do c.cel__command_graph_squeeze(self.rank[k].graph) end
end

function M:submit(spec) return assert(self.program:submit(spec)) end

-- A task that no task graph has seen, on all ranks: the first failure.
function M:add_raw(task)
  for k = 0, self.n - 1 do
    local ok, text, code = add(self.rank[k], task)
    if not ok then return nil, text, code end
  end
  return true
end

-- The commands of one kind that rank k has for a task, in order.
function M:of(k, kind, task)
  local list = {}
  for _, command in ipairs(self.rank[k].commands) do
    if command.kind == kind and (not task or command.task == task) then
      list[#list + 1] = command
    end
  end
  return list
end

-- The messages of these, in order.
function M:messages_of(k, kind, task)
  local list = {}
  for _, command in ipairs(self:of(k, kind, task)) do
    for _, m in ipairs(command.messages) do list[#list + 1] = m end
  end
  return list
end

-- As text, "peer: pieces", ordered by peer and sequence.
function M:messages(k, kind, task)
  local list = self:messages_of(k, kind, task)
  table.sort(list, function(a, b)
    if a.peer ~= b.peer then return a.peer < b.peer end
    return a.sequence < b.sequence
  end)
  for i, m in ipairs(list) do list[i] = m.peer .. ": " .. m.pieces end
  return list
end

-- Entries and replications of rank k, and its bytes.
function M:counts(k)
  local n = ffi.new("uint64_t[3]")
  c.cel_command_graph_counts(self.rank[k].graph, n, n + 1, n + 2)
  return tonumber(n[0]), tonumber(n[1]), tonumber(n[2])
end

-- Forgets commands that a long run has made, here and there.
function M:retire()
  for k = 0, self.n - 1 do
    local rank = self.rank[k]
    local horizons = self:of(k, "horizon")
    if #horizons > 1 then
      c.cel_command_graph_retire(rank.graph, horizons[#horizons - 1].id)
    end
  end
end

function M:reaches(k, later, earlier)
  return program.reaches_in(self.rank[k].commands, later, earlier)
end

return M
