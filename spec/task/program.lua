-- program.lua -- for the specs of task/ and instr/: submits groups, and keeps
-- what the task graph emits as Lua records to ask questions of.
--
--   local p = program.new({ ranks = 2 })
--   local u = p:buffer({ 16, 16 }, { init = true })
--   local t = p:submit({ range = { 16, 16 },
--     { u, "read", p.grown(1, 1) }, { v, "discard_write", p.same(2) } })
--   p:depends(t, e)   p:reaches(t, e)
--
-- Effects go into a field of the group: effects = { {object, "relaxed"} }. What is
-- reduced into is { u, "discard_write", reducer = p:reducer() }, or "read_write".
-- A box of a mapper is a list of {lo, hi} per buffer dimension, expressions as
-- in spec/rule/rules.lua; an access is {buffer, mode, boxes, options}.
-- Options: clamp, params; late, a cel_late, and late_at.
local ffi = require("ffi")
local rules = require("spec.rule.rules")
local c = require("spec.support.cdef")("task/task_graph.h", "task/assignment.h", "base/status.h")
-- C calls back into these functions: they must not be compiled.
jit.off(true, true)

local M = {}
M.__index = M

local function enum(type, prefix, names)
  local values, back = {}, {}
  for name in names:gmatch("%S+") do
    local value = tonumber(ffi.cast(type, prefix .. name:upper()))
    values[name], back[value] = value, name
  end
  return values, back
end

M.enum = enum
M.c = c
local modes = enum("cel_mode", "CEL_MODE_", "read write discard_write read_write")
local kinds, kind_names = enum("cel_task_kind", "CEL_TASK_",
  "kernel host horizon epoch free")
local orders = enum("cel_order", "CEL_ORDER_", "sequential exclusive relaxed")
local scopes = enum("cel_scope", "CEL_SCOPE_", "rank cluster")
local placements, placement_names = enum("cel_placement", "CEL_PLACE_", "split once each all")
local _, dep_names = enum("cel_dep_kind", "CEL_DEP_", "true anti output order")

-- ---- mappers ---------------------------------------------------------------

-- {chunk.min + lo, chunk.max + hi} in dimension d.
function M.span(d, lo, hi)
  return { { "+", { "min", d }, lo or 0 }, { "+", { "max", d }, hi or lo or 0 } }
end

function M.whole(d) return { 0, { "buffer", d } } end

-- One to one, in `dims` dimensions.
function M.same(dims)
  local box = {}
  for d = 1, dims do box[d] = M.span(d - 1) end
  return { box }
end

function M.all(dims)
  local box = {}
  for d = 1, dims do box[d] = M.whole(d - 1) end
  return { box }
end

-- A neighbourhood; to be used with {clamp = true}.
function M.grown(...)
  local box = {}
  for d = 1, select("#", ...) do
    local by = select(d, ...)
    box[d] = M.span(d - 1, -by, by)
  end
  return { box }
end

-- A neighbourhood of one along each axis, in two dimensions.
M.cross = {
  { M.span(0, -1, 1), M.span(1) },
  { M.span(0), M.span(1, -1, 1) },
}

-- ---- records ---------------------------------------------------------------

function M.deps_of(node)
  local deps = {}
  for i = 0, node.deps - 1 do
    deps[tonumber(node.dep[i].id)] = dep_names[tonumber(node.dep[i].kind)]
  end
  return deps
end

local function record(task)
  return {
    id = tonumber(task.id), kind = kind_names[tonumber(task.kind)],
    deps = M.deps_of(task), hash = task.hash, raw = task,
    agreement_hash = task.agreement_hash, lap = tonumber(task.lap),
    agreement_count = tonumber(task.agreement_count),
    placement = placement_names[tonumber(task.placement)],
    name = task.name ~= nil and ffi.string(task.name) or nil,
  }
end

local current -- the program whose graph is being called
local emit = ffi.cast("void (*)(void *, const cel_task *)",
  function(_, task)
    local t = record(task)
    current.tasks[t.id] = t
    if t.kind == "horizon" then
      current.horizons[#current.horizons + 1] = t.id
    end
    if current.on_task then current.on_task(task) end
  end)
local warn = ffi.cast("void (*)(void *, const cel_task *, const char *)",
  function(_, _, text)
    current.warnings[#current.warnings + 1] = ffi.string(text)
  end)

local make = ffi.cast("const cel_buffer *(*)(void *, int32_t, const int64_t *, uint32_t, "
  .. "const char *, cel_init *)", function(_, dims, extent, size, name, init)
    local extents = {}
    for d = 0, dims - 1 do extents[d + 1] = tonumber(extent[d]) end
    local b = current:buffer(extents, { size = size, name = ffi.string(name) })
    b.init = init
    current.made[#current.made + 1] = b
    return b
  end)
local drop = ffi.cast("void (*)(void *, const cel_buffer *)", function(_, buffer)
  current.dropped[#current.dropped + 1] = tonumber(buffer.id)
end)

-- ---- life ------------------------------------------------------------------

-- config: ranks, reducing, in_place, collectives, step, breadth, on_task(const cel_task *). Of
-- reductions, `made` are the buffers of rows, `dropped` the ids of those let go.
function M.new(config)
  config = config or {}
  local p = setmetatable({
    tasks = {}, horizons = {}, warnings = {}, anchors = {}, buffers = 0,
    made = {}, dropped = {},
    rules = ffi.gc(c.cel_rules_create(), c.cel_rules_destroy),
    on_task = config.on_task,
  }, M)
  local cfg = ffi.new("cel_task_graph_config")
  cfg.ranks, cfg.alike = config.ranks or 1, config.alike or false
  cfg.horizon_step = config.step or 4
  cfg.horizon_breadth = config.breadth or 64
  cfg.emit, cfg.warn = emit, warn
  cfg.collectives, cfg.in_place = config.collectives or false, config.in_place or false
  cfg.all_reduces = config.all_reduces
    or (cfg.collectives and "CEL_ALL_REDUCES_ON_HOSTS" or "CEL_ALL_REDUCES_NOWHERE")
  cfg.reducing, cfg.rules, cfg.make, cfg.drop = config.reducing or 1, p.rules, make, drop
  current = p
  p.graph = c.cel_task_graph_create(cfg)
  return p
end

function M:close()
  c.cel_task_graph_destroy(self.graph)
  self.graph = nil
end

local function box_of(extents)
  if extents.min then return rules.box(extents.min, extents.max) end
  return rules.box({ 0, 0, 0 }, extents)
end
M.box_of = box_of

-- options: init, name, size (of an element), reserve (extents, or min and max), apart.
function M:buffer(extents, options)
  options = options or {}
  local b = ffi.new("cel_buffer")
  b.id, b.dims = self.buffers, #extents
  b.extent = box_of(extents)
  b.element_size = options.size or 8
  b.apart = options.apart or false
  local name = options.name or ("b" .. self.buffers)
  self.anchors[#self.anchors + 1] = { b, name }
  b.name = name
  if options.reserve then b.reserve = box_of(options.reserve) end
  if options.init then
    local init = ffi.new("cel_init")
    self.anchors[#self.anchors + 1] = init
    b.init = init
  end
  self.buffers = self.buffers + 1
  return b
end

-- A host object; options: scope, name.
function M:object(options)
  options = options or {}
  local o = ffi.new("cel_object")
  self.objects = self.objects or 0
  o.id, o.scope = self.objects, scopes[options.scope or "rank"]
  local name = options.name or ("o" .. self.objects)
  self.anchors[#self.anchors + 1] = { o, name }
  o.name = name
  self.objects = self.objects + 1
  return o
end

-- Of doubles, summed unless `by` says otherwise ({"MIN", "i"}); its works are
-- never called. Elements of rows may have `wide` bytes, 32 at most.
function M:reducer(identity, by, wide)
  local r = ffi.new("cel_reducer")
  local bytes, works = ffi.new("double[4]", identity or 0), ffi.new("cel_work[4]")
  for i = 0, 3 do works[i].references = 1 end
  r.element_size, r.identity = by and by[3] or 8, bytes
  r.combine, r.combine_onto = works, works + 1
  by = by or { "SUM", "f" }
  r.by = { "CEL_OP_" .. by[1], by[2]:byte(), r.element_size }
  if wide then r.element_size, r.settle, r.settle_onto = wide, works + 2, works + 3 end
  self.anchors[#self.anchors + 1] = { r, bytes, works }
  return r
end

local function access_of(self, access, group, out)
  local buffer, mode, boxes, options = unpack(access, 1, 4)
  if access.reducer then
    out.buffer, out.mode, out.reducer = buffer, modes[mode], access.reducer
    return
  end
  options = options or {}
  local count = options.params and #options.params or 0
  local rule = assert(rules.rule(self.rules, group.dims, buffer.dims, boxes,
    { clamp = options.clamp, params = count }))
  local params = ffi.new("int64_t[?]", math.max(count, 1), options.params or {})
  self.anchors[#self.anchors + 1] = params
  out.buffer, out.mode = buffer, modes[mode]
  out.use.rule, out.use.params = rule, params
  out.use.range, out.use.extent = group.range, buffer.extent
  out.late, out.late_at = options.late, options.late_at or 0
end

-- A cel_group. `self` needs `rules` and `anchors` only.
function M:group(spec)
  local group = ffi.new("cel_group")
  group.kind = kinds[spec.kind or "kernel"]
  group.placement = placements[spec.placement or "split"]
  group.collective_group = spec.collective or 0
  group.dims = #(spec.range.max or spec.range)
  group.range = box_of(spec.range)
  local cut, granularity = spec.cut or { true }, spec.granularity or {}
  for d = 0, 2 do
    group.permitted.cut[d] = cut[d + 1] or false
    group.permitted.granularity[d] = granularity[d + 1] or 1
  end
  group.oversubscribe, group.fold = spec.oversubscribe or 0, spec.fold or 0
  if spec.weights then
    local ranks, devices = spec.weights.ranks, spec.weights.devices
    local weights = ffi.new("cel_weights")
    local rank = ranks and ffi.new("int64_t[?]", #ranks, ranks)
    local device = devices and ffi.new("int64_t[?]", #devices, devices)
    weights.rank, weights.device, weights.devices = rank, device, devices and #devices or 0
    weights.hash = spec.weights.hash or 1
    self.anchors[#self.anchors + 1] = { weights, rank, device }
    group.weights = weights
  end
  local list = ffi.new("cel_access[?]", #spec + 1)
  for i, access in ipairs(spec) do
    access_of(self, access, group, list[i - 1])
  end
  group.accesses, group.access = #spec, list
  local effects = spec.effects or {}
  local effect = ffi.new("cel_effect[?]", #effects + 1)
  for i, e in ipairs(effects) do
    effect[i - 1].object, effect[i - 1].order = e[1], orders[e[2]]
  end
  group.effects, group.effect = #effects, effect
  self.anchors[#self.anchors + 1] = effect
  local name, file = spec.name or "t", spec.file or "spec.lua"
  group.name, group.location.file, group.location.line = name, file, spec.line or 1
  self.anchors[file] = file
  group.work = spec.work
  self.anchors[#self.anchors + 1] = { group, list, name, spec.work }
  return group
end

-- The task's id, 0 for none; or nil, message, code, line.
function M:submit(spec) return self:submit_group(self:group(spec)) end

function M:submit_group(group)
  local id = ffi.new("uint64_t[1]")
  current = self
  local status = c.cel_task_graph_submit(self.graph, group, id)
  if status == 0 then return tonumber(id[0]) end
  local e = c.cel_error_last()
  return nil, ffi.string(e.text), ffi.string(c.cel_status_name(status)), e.line
end

function M:epoch()
  current = self
  return tonumber(c.cel_task_graph_epoch(self.graph, ffi.new("cel_location")))
end

function M:free(buffer)
  current = self
  c.cel_task_graph_free(self.graph, buffer)
end

function M:end_object(object)
  current = self
  c.cel_task_graph_end(self.graph, object)
end

function M:retire(id) c.cel_task_graph_retire(self.graph, id) end
function M:bytes() return tonumber(c.cel_task_graph_bytes(self.graph)) end

-- ---- questions -------------------------------------------------------------

-- The kind of the direct dependency of `later` on `earlier`, or nil.
function M:depends(later, earlier) return self.tasks[later].deps[earlier] end

-- Whether `later` comes after `earlier` along any path through `nodes`.
function M.reaches_in(nodes, later, earlier)
  local seen, stack = {}, { later }
  while #stack > 0 do
    local id = table.remove(stack)
    if id == earlier then return true end
    for dep in pairs(nodes[id].deps) do
      if dep >= earlier and not seen[dep] then
        seen[dep] = true
        stack[#stack + 1] = dep
      end
    end
  end
  return false
end

function M:reaches(later, earlier)
  return M.reaches_in(self.tasks, later, earlier)
end

-- Whether two tasks conflict: they exclude one another, and no dependencies say
-- which comes first.
function M:conflicts(a, b)
  local x, y = self.tasks[a].raw, self.tasks[b].raw
  return c.cel_effects_conflict(x.effect, x.effects, y.effect, y.effects)
    and not self:reaches(math.max(a, b), math.min(a, b))
end

function M:of_kind(kind)
  local list = {}
  for _, t in ipairs(self.tasks) do
    if t.kind == kind then list[#list + 1] = t end
  end
  return list
end

return M
