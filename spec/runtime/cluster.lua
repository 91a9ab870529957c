-- cluster.lua -- for the specs of runtime/: the engines of several ranks, in one
-- thread and over the in-process transport. A seed chooses whose which part
-- moves next, and every order below.
--
--   local c = cluster.new({ ranks = 2, seed = 7 })
--   local u = c:buffer({ 8 })
--   c:submit({ range = { 8 }, { u, "discard_write", program.same(1) },
--     line = 3, fn = function(call, rank) ... end })
--   local e = c:epoch()
--   assert.is_true(c:run(function() return c:reached(e) end))
--
-- Ranks count from 0. What is not told a rank is done by all of them. `fn` runs
-- as a host task; what it returns, if anything, is its failure.
local ffi = require("ffi")
local program = require("spec.task.program")
local rules = require("spec.rule.rules")
local c = require("spec.support.cdef")("runtime/engine.h", "base/status.h")
-- C calls back into these functions: they must not be compiled.
jit.off(true, true)

local M = { c = c }
M.__index = M

-- ---- works -----------------------------------------------------------------

local functions = {} -- by number, which a work has as its context

local call_work = ffi.cast("cel_status (*)(const cel_work *, const cel_call *)",
  function(work, call)
    local ok, text = pcall(functions[tonumber(ffi.cast("intptr_t", work.context))], call,
      tonumber(call.rank))
    if ok and text == nil then return 0 end
    return c.cel_fail("CEL_E_TASK", "%s", tostring(text))
  end)
local keep_work = ffi.cast("void (*)(cel_work *)", function() end)

local function work_of(spec)
  functions[#functions + 1] = spec.fn or function() end
  local work = ffi.new("cel_work")
  work.references, work.fn, work.destroy = 1, call_work, keep_work
  work.context = ffi.cast("void *", #functions)
  work.hash = spec.hash or 1
  return work
end

-- ---- life ------------------------------------------------------------------

local function made(status, out)
  if status ~= 0 then error(ffi.string(c.cel_error_last().text)) end
  return out[0]
end

local function engine_of(self, k, config)
  local rank = { transport = self.transports[k] }
  local backend = ffi.new("cel_backend_config", { seed = self.pick(1, 2 ^ 30),
    devices = config.devices and config.devices[k + 1] or 1, grain = config.grain or 0 })
  local out = ffi.new("cel_backend *[1]")
  rank.backend = made(c.cel_backend_simulated(backend, out), out)
  rank.host = c.cel_host_lanes_create(ffi.new("cel_host_config", {
    lanes = 1, simulated = true, seed = self.pick(1, 2 ^ 30),
  }))
  local engine = ffi.new("cel_engine_config", {
    transport = rank.transport, backend = rank.backend, host = rank.host,
    horizon_step = config.step or 1000, horizon_breadth = 1000,
    laps_ahead = config.ahead or 8,
    together_peers = config.together_peers or 0,
  })
  out = ffi.new("cel_engine *[1]")
  rank.engine = made(c.cel_engine_create(engine, out), out)
  rank.rules, rank.anchors = c.cel_engine_rules(rank.engine), self.anchors
  return rank
end

-- config: ranks, seed, devices (by rank from 1, or one each), step (of horizons),
-- ahead (laps), grain, together_peers, fault and fault_at
-- as in comm/transport.h.
function M.new(config)
  local self = setmetatable({ n = config.ranks or 2, rank = {}, anchors = {}, fences = {} }, M)
  self.pick = rules.random(config.seed or 1)
  self.transports = ffi.new("cel_transport *[?]", self.n)
  assert(c.cel_transport_inprocess(ffi.new("cel_inprocess_config", {
    ranks = self.n, seed = self.pick(1, 2 ^ 30), fault = config.fault or 0,
    fault_at = config.fault_at or 0,
  }), self.transports) == 0)
  for k = 0, self.n - 1 do self.rank[k] = engine_of(self, k, config) end
  return self
end

function M:close()
  if self.closed then return end
  self.closed = true
  for k = 0, self.n - 1 do c.cel_engine_stop(self.rank[k].engine) end
  for _, fence in ipairs(self.fences) do c.cel_fence_destroy(fence) end
  for k = 0, self.n - 1 do
    local r = self.rank[k]
    c.cel_engine_destroy(r.engine)
    c.cel_host_lanes_destroy(r.host)
    r.backend.destroy(r.backend)
    r.transport.destroy(r.transport)
  end
end

-- Calls body(cluster, seed) with a fresh cluster for each of twenty seeds.
function M.orders(config, body)
  for seed = 1, 20 do
    config.seed = seed
    local self = M.new(config)
    body(self, seed)
    self:close()
  end
end

-- ---- the program -----------------------------------------------------------

-- Calls body(rank) for one rank, or for all; returns the list of results by
-- rank.
local function on(self, k, body)
  local results = {}
  for i = k or 0, k or self.n - 1 do results[i] = body(self.rank[i], i) end
  return results
end

-- By rank; `extents` may be a function of the rank.
function M:buffer(extents, size, name)
  return on(self, nil, function(r, k)
    local list = type(extents) == "function" and extents(k) or extents
    local extent = ffi.new("int64_t[3]", list)
    return c.cel_engine_buffer(r.engine, #list, extent, size or 8, 0, name or "u", nil, false)
  end)
end

-- Statuses by rank, as numbers. `spec` as in spec/task/program.lua.
function M:submit(spec, k)
  return on(self, k, function(r, i)
    local mine = setmetatable({ kind = spec.kind or "host", work = work_of(spec) },
      { __index = spec })
    if type(spec.range) == "function" then mine.range = spec.range(i) end
    for a, access in ipairs(spec) do
      mine[a] = { access[1][i], unpack(access, 2, 4) }
    end
    return tonumber(c.cel_engine_submit(r.engine, program.group(r, mine)))
  end)
end

local file = ffi.new("char[?]", 9, "spec.lua")
local function location(line) return ffi.new("cel_location", { file = file, line = line or 1 }) end

function M:epoch(line, k)
  return on(self, k, function(r) return c.cel_engine_epoch(r.engine, location(line)) end)
end

-- Whether rank k's program is over, which ended at `line`; or false: not yet.
function M:finish(k, line)
  return c.cel_engine_finish(self.rank[k].engine, location(line), nil) == 0
end

function M:reached(epochs)
  for k, epoch in pairs(epochs) do
    if not c.cel_engine_reached(self.rank[k].engine, epoch) then return false end
  end
  return true
end

-- Fences by rank; the cluster owns them.
function M:fence(buffer, box)
  return on(self, nil, function(r, k)
    local out = ffi.new("cel_fence *[1]")
    local fence = made(c.cel_engine_fence(r.engine, buffer[k], box, location(), out), out)
    self.fences[#self.fences + 1] = fence
    return fence
  end)
end

-- What a fence brought, as cdata of `type`, and its bytes; nil where it is not
-- there yet.
function M:get(fences, k, type)
  local data, size = ffi.new("const void *[1]"), ffi.new("uint64_t[1]")
  local status = c.cel_engine_fence_get(self.rank[k].engine, fences[k], nil, data, size)
  if status ~= 0 then return nil end
  return ffi.cast(type, data[0]), tonumber(size[0])
end

-- ---- running ---------------------------------------------------------------

local IDLE = 2000 -- moves in vain until nothing moves, whatever the seed

-- Moves parts until `ready`; whether it came to that. `only`: this rank's.
function M:run(ready, only)
  local idle = 0
  while not ready() do
    local engine = self.rank[only or self.pick(0, self.n - 1)].engine
    local step = self.pick(0, 1) == 0 and c.cel_engine_step_scheduler or c.cel_engine_step_executor
    idle = step(engine) and 0 or idle + 1
    if idle > IDLE then return false end
  end
  return true
end

-- Moves everything until nothing moves any more.
function M:settle(only)
  self:run(function() return false end, only)
end

function M.name(status) return ffi.string(c.cel_status_name(status)) end

-- The name of a rank's failure, its text and line; no more than the name when it
-- has none.
function M:failure(k)
  local status = c.cel_engine_check(self.rank[k].engine)
  local error = c.cel_error_last()
  local name = M.name(status)
  if tonumber(status) == 0 then return name end
  return name, ffi.string(error.text), tonumber(error.line)
end

function M:failed()
  for k = 0, self.n - 1 do
    if self:failure(k) == "OK" then return false end
  end
  return true
end

-- The int64_t element of a view at global coordinates; one dimension.
function M.at(call, v, i)
  local view = call.view[v]
  return ffi.cast("int64_t *", view.base) + (i - tonumber(view.layout.min[0]))
end

return M
