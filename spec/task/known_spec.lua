-- What a graph remembers of a group makes no difference: one that remembers, and one that does
-- not, come to the same tasks, warnings and errors.
local ffi = require("ffi")
local program = require("spec.task.program")
require("spec.support.cdef")("task/known.h")
jit.off(true, true)

local KINDS = 8 -- of groups, each with something to remember by: loops have a few

-- What a group is made of; `change` makes it another in one respect.
local ways = {
  range = { { 8 }, { 6 }, { max = { 8 }, min = { 2 } } },
  cut = { { true }, { false } },
  granularity = { { 1 }, { 2 } },
  oversubscribe = { 0, 2 },
  kind = { "kernel", "host" },
  shape = { 8, 10 },
  first = { "read", "read_write", "write" },
  second = { "discard_write", "write", "read" },
  reach = { 1, 0, 2 },
  clamp = { true, false },
  disjoint = { false, true },
  alike = { false, true }, -- whether both accesses are of one buffer
  group = { 0, 2 },
  lua = { false, true },
  weights = { false, { ranks = { 1, 2 } } },
}
local names = {}
for name in pairs(ways) do names[#names + 1] = name end
table.sort(names)

local function one_of(list) return list[math.random(#list)] end

local function some_kind()
  local kind = {}
  for _, name in ipairs(names) do kind[name] = ways[name][1] end
  return kind
end

local function change(kind)
  local name = one_of(names)
  kind[name] = one_of(ways[name])
end

-- The boxes of a neighbourhood as far as the parameter says.
local reached = { { { { "-", { "min", 0 }, { "param", 0 } },
  { "+", { "max", 0 }, { "param", 0 } } } } }

-- Submits it to a graph with these buffers; what is remembered, or nil.
local function submit(p, kind, from, to, work, known)
  local work_of = ffi.new("cel_work", { references = 1, hash = work, lua = kind.lua })
  work_of.work_group[0] = kind.group
  local group = p:group {
    range = kind.range, cut = kind.cut, granularity = kind.granularity,
    oversubscribe = kind.oversubscribe, kind = kind.kind, weights = kind.weights or nil,
    work = work_of, line = work,
    { from, kind.first, reached, { params = { kind.reach }, clamp = kind.clamp } },
    { to, kind.second, program.same(1) },
  }
  ffi.cast("cel_access *", group.access)[0].disjoint = kind.disjoint
  group.known = known
  return p:submit_group(group)
end

local function series(seed)
  math.randomseed(seed)
  local config = { ranks = 2, step = 8, breadth = 32 }
  local plain, knowing = program.new(config), program.new(config)
  local kinds, known, buffers = {}, {}, { {}, {} }
  for i = 1, KINDS do kinds[i], known[i] = some_kind(), ffi.new("cel_known") end
  for i, p in ipairs { plain, knowing } do
    for _, n in ipairs(ways.shape) do
      buffers[i][n] = {}
      for b = 1, 3 do buffers[i][n][b] = p:buffer({ n }, { init = b > 1 }) end
    end
  end
  for step = 1, 120 do
    local k = math.random(KINDS)
    if math.random() < 0.3 then change(kinds[k]) end
    local from, to = math.random(3), math.random(3)
    if kinds[k].alike then to = from elseif to == from then to = from % 3 + 1 end
    local shape = kinds[k].shape
    local a = { submit(plain, kinds[k], buffers[1][shape][from], buffers[1][shape][to], step) }
    local b = { submit(knowing, kinds[k], buffers[2][shape][from], buffers[2][shape][to], step,
      known[k]) }
    assert.same(a, b)
  end
  assert.same(plain.warnings, knowing.warnings)
  assert.equal(#plain.tasks, #knowing.tasks)
  for i, t in ipairs(plain.tasks) do
    local other = knowing.tasks[i]
    local where = ("seed %d, task %d"):format(seed, i)
    assert.same(t.deps, other.deps, where)
    assert.equal(t.kind, other.kind, where)
    assert.equal(t.hash, other.hash, where)
    assert.equal(t.agreement_hash, other.agreement_hash, where)
    assert.equal(t.raw.disjoint, other.raw.disjoint, where)
  end
  local hits = 0
  for i = 1, KINDS do hits = hits + (known[i].misses == 0 and known[i].graph ~= 0 and 1 or 0) end
  plain:close()
  knowing:close()
  return hits
end

it("what a graph remembers of a group makes no difference", function()
  local hits = 0
  for seed = 1, 100 do hits = hits + series(seed) end
  assert.is_true(hits > 0, "nothing was remembered")
end)
