-- Tasks whose items read what other items of them write: said at submission, once for each
-- line, unless mappers keep them apart or the script says that they do.
local script = require("spec.support.script")

local kernels = [==[
local n = 12
local u = celer.buffer("double", { n, n }, { name = "u", init = function(i, j) return i + j end })
local v = celer.buffer("double", { 64 }, { name = "v", init = function(i) return i end })
local k = celer.kernel [=[
  kernel void two(item<2> it, in<double, 2> a, inout<double, 2> b) {}
  kernel void three(item<2> it, in<double, 2> a, in<double, 2> c, inout<double, 2> b) {}
  kernel void one(item<1> it, in<double, 1> a, inout<double, 1> b) {}
  kernel void grouped(group<1> g, in<double, 1> a, inout<double, 1> b) {}
]=]
local inner = celer.box({ 1, 1 }, { n - 1, n - 1 })
]==]

-- What is said on stderr, with the file's name as "x".
local function said(text, shape, options)
  local r = script.run(kernels .. text, shape or { devices = 1 }, options)
  assert.equal(0, r.status, r.stderr)
  return (r.stderr:gsub("%S+/case%.lua:", "x:"))
end

-- The task's submission is in line 13, alone.
local warned = {
  ["a stencil in place"] = { [==[
q:submit(function(cg)
  cg:parallel_for(inner, k.two, cg:read(u, celer.neighborhood(1, 0)), cg:read_write(u))
end)
]==], "celer: warning: x:13: task 'two' reads of buffer 'u' what other items of it write: chunk "
    .. "[1, 6) x [1, 11) reads element (6, 1), which chunk [6, 11) x [1, 11) writes by "
    .. "cg:read_write, and what it gets is a matter of chance. Write to a second buffer; or, if "
    .. "no item reads what another one writes, say so: cg:read(u, mapper, { disjoint = true })\n" },
  ["a stencil along rows, which are not cut"] = { [==[
q:submit(function(cg)
  cg:parallel_for(inner, k.two, cg:read(u, celer.neighborhood(0, 1)), cg:read_write(u))
end)
]==], "chunk [1, 11) x [1, 6) reads element (1, 6), which chunk [1, 11) x [6, 11) writes by " },
  ["a read of everything"] = { [==[
q:submit(function(cg)
  cg:parallel_for({ n, n }, k.two, cg:read(u, celer.all), cg:write(u))
end)
]==], "reads element (6, 0), which chunk [6, 12) x [0, 12) writes by cg:write, " },
  ["a transposition"] = { [==[
q:submit(function(cg)
  cg:parallel_for({ n, n }, k.two, cg:read(u, celer.transposed(1, 0)), cg:write(u))
end)
]==], "reads element (6, 0), which chunk [6, 12) x [0, 12) writes by " },
  ["the second of two reads"] = { [==[
q:submit(function(cg)
  cg:parallel_for(inner, k.three, cg:read(u), cg:read(u, celer.neighborhood(1, 1)), cg:write(u))
end)
]==], "reads element (6, 1)" },
  ["a host task that is divided"] = { [==[
q:submit(function(cg)
  cg:host_task({ 64 }, function() end, cg:read(v, celer.neighborhood(1)), cg:read_write(v))
end)
]==], "task 'host task' reads of buffer 'v' what other items of it write: chunk [0, 32) reads "
    .. "element (32), which chunk [32, 64) writes by cg:read_write" },
  ["groups that read what others have"] = { [==[
q:submit(function(cg)
  local near = cg:read(v, celer.neighborhood(1)) cg:parallel_for(
    celer.nd_range({ 64 }, { 8 }), k.grouped, near, cg:write(v))
end)
]==], "chunk [0, 32) reads element (32), which chunk [32, 64) writes" },
  ["a mapper that branches"] = { [==[
q:submit(function(cg)
  cg:parallel_for({ 64 }, k.one, cg:read(v, function(c)
    return c.max[0] < 64 and c:with(0, c.min[0], c.max[0] + 1) or c
  end), cg:write(v))
end)
]==], "chunk [0, 32) reads element (32), which chunk [32, 64) writes" },
}

local shapes = { { devices = 1 }, { devices = 1, ranks = 3 }, { devices = 3, ranks = 2 } }

describe("a task that reads what other items of it write", function()
  for name, case in pairs(warned) do
    it("is warned of, once: " .. name, function()
      for i, shape in ipairs(name == "a stencil in place" and shapes or { shapes[1] }) do
        local text = said(case[1], shape)
        assert.is_truthy(text:find(case[2], 1, true), text)
        assert.equal(1, select(2, text:gsub("\n", "")), i)
        assert.matches("^celer: warning: x:13: ", text)
      end
    end)
  end

  it("is warned of once for each line, whatever comes of it", function()
    local text = said([==[
local function step(mapper)
  q:submit(function(cg)
    cg:parallel_for(inner, k.two, cg:read(u, mapper), cg:read_write(u))
  end)
end
for _ = 1, 300 do step(celer.neighborhood(1, 0)) end
step(celer.neighborhood(0, 1))
q:submit(function(cg)
  cg:parallel_for(inner, k.two, cg:read(u, celer.neighborhood(1, 0)), cg:read_write(u))
end)
local w = celer.buffer("double", { n, n }, { name = "w", init = 0 })
for i = 1, 20 do                                       -- at first not in place
  q:submit(function(cg)
    local out = cg:read_write(i < 15 and w or u)
    cg:parallel_for(inner, k.two, cg:read(u, celer.neighborhood(1, 1)), out)
  end)
end
q:wait()
]==])
    local lines = {}
    for line in text:gmatch("x:(%d+): task") do lines[#lines + 1] = line end
    assert.same({ "14", "20", "26" }, lines)
  end)

  it("is not warned of where the script says that none does", function()
    assert.equal("", said([==[
for step = 1, 50 do
  q:submit(function(cg)
    local near = cg:read(u, celer.neighborhood(1, 1), { disjoint = step > 0 })
    cg:parallel_for(inner, k.two, near, cg:read_write(u))
  end)
end
q:wait()
]==]))
    -- Of two lines that are alike but for that, one is.
    local text = said([==[
for step = 1, 50 do
  for _, options in ipairs { { disjoint = true }, { disjoint = false } } do
    q:submit(function(cg)
      local near = cg:read(u, celer.neighborhood(1, 1), options)
      if options.disjoint then
        cg:parallel_for(inner, k.two, near, cg:read_write(u))
      else
        cg:parallel_for(inner, k.two, near, cg:read_write(u))
      end
    end)
  end
end
q:wait()
]==])
    assert.matches("^celer: warning: x:19: task 'two' reads of buffer 'u'[^\n]*\n$", text)
  end)

  script.everywhere("may say so in other ways that mean nothing", kernels .. [==[
refused("cg:read: unknown option 'disjiont', did you mean disjoint?", function()
  q:submit(function(cg) cg:read(u, nil, { disjiont = true }) end)
end)
refused("cg:read: disjoint must be true or false, not a number", function()
  q:submit(function(cg) cg:read(u, nil, { disjoint = 1 }) end)
end)
refused("cg:read: the options must be a table such as { disjoint = true }, not a boolean",
  function()
    q:submit(function(cg) cg:read(u, celer.all, true) end)
  end)
]==], nil, { shapes = { script.shapes[1] } })

  script.everywhere("is none where mappers keep them apart", kernels .. [==[
local function submit(range, kernel, ...)
  local reads = { ... }
  local write = table.remove(reads)
  q:submit(function(cg)
    for i, read in ipairs(reads) do reads[i] = cg:read(unpack(read)) end
    reads[#reads + 1] = cg:read_write(unpack(write))
    cg:parallel_for(range, kernel, unpack(reads))
  end)
end
-- Its own elements.
submit({ n, n }, k.two, { u }, { u })
-- A fixed part beside that which is written.
submit(celer.box({ 1 }, { 64 }), k.one, { v, celer.fixed(celer.box({ 0 }, { 1 })) }, { v })
submit({ 32 }, k.one, { v, celer.fixed(celer.box({ 32 }, { 64 })) }, { v })
-- A row and a column beside the rest, as in a decomposition.
for step = 0, n - 2 do
  local s = step
  submit(celer.box({ s + 1, s + 1 }, { n, n }), k.three,
    { u, function() return celer.box({ s, s + 1 }, { s + 1, n }) end },
    { u, function(c) return celer.box({ c.min[0], s }, { c.max[0], s + 1 }) end }, { u })
end
-- A block into that on the other side of the diagonal.
submit(celer.box({ 0, 6 }, { 6, 12 }), k.two, { u, celer.transposed(1, 0) }, { u })
-- Every second element, and those between; the lower half, and the upper one.
submit({ 32 }, k.one,
  { v, function(c) return celer.box({ 2 * c.min[0] }, { 2 * c.max[0] - 1 }) end },
  { v, function(c)
    local boxes = {}
    for i = c.min[0], c.max[0] - 1 do
      boxes[#boxes + 1] = celer.box({ 2 * i + 1 }, { 2 * i + 2 })
    end
    return boxes
  end })
submit({ 32 }, k.one, { v }, { v, function(c)
  return celer.box({ c.min[0] + 32 }, { c.max[0] + 32 })
end })
-- Groups that read what they have.
q:submit(function(cg)
  cg:parallel_for(celer.nd_range({ 64 }, { 8 }), k.grouped, cg:read(v, function(c)
    return celer.box({ 8 * celer.floor(c.min[0] / 8) }, { 8 * celer.ceil(c.max[0] / 8) })
  end), cg:write(v))
end)
-- What all ranks do once, and one alone.
q:submit(function(cg)
  local all = cg:read(u, celer.all)
  cg:host_task(celer.collective(), function() end, all, cg:write(u, celer.even_split))
end)
q:submit(function(cg)
  cg:host_task(celer.on_master, function() end, cg:read(u, celer.all), cg:write(u, celer.all))
end)
-- celer's own copies within a buffer.
celer.copy(u, u, { part = celer.box({ 0, 0 }, { 4, 4 }), at = { 4, 4 } })
celer.copy(v, v, { part = celer.box({ 0 }, { 10 }), at = { 10 } })
celer.fill(u, 3)
q:wait()
]==])
end)
