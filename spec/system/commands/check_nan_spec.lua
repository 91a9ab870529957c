-- celer run --check-nan: the first task that makes a NaN or an infinity of numbers.
local celer = require("spec.support.celer")
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local script = require("spec.support.script")

local prelude = [==[
local n = 21
local k = celer.kernel [[
  kernel void keep(item<1> it, in<double, 1> u, out<double, 1> v) { v(it[0]) = u(it[0]); }
  kernel void over(item<1> it, in<double, 1> u, out<double, 1> v) { v(it[0]) = 1 / u(it[0]); }
  kernel void root(item<1> it, inout<double, 1> u) { u(it[0]) = sqrt(u(it[0]) - 12); }
  kernel void add(item<1> it, in<double, 1> u, reducer<double> sum, reducer<double, 1> sums) {
    sum += u(it[0]);
    sums(it[0] % 2) += u(it[0]);
  }
]]
local u = celer.buffer("double", { n }, { name = "u", init = function(i) return i end })
local v = celer.buffer("double", { n }, { name = "v" })
local function run(kernel, from, to)
  q:submit(function(cg) cg:parallel_for({ n }, kernel, cg:read(from), cg:discard_write(to)) end)
end
]==]

local checked = { before = { "--check-nan", "--no-sample" } }

-- The shapes of a job take turns: kernels that look are compiled for each case.
local turn = 0
local function next_shape()
  turn = turn + 1
  return script.shapes[turn % #script.shapes + 1]
end

-- What does no such thing, and passes.
local function passes(name, text, options)
  options = options or { before = checked.before }
  options.shapes = options.shapes or { next_shape() }
  script.everywhere(name, prelude .. text, nil, options)
end

-- What ends at the line of `text` that says "-- here", with the message after its place.
local function stops(name, text, wanted, options)
  local all = prelude .. text
  local line = 1
  for before in all:sub(1, (all:find("-- here", 1, true))):gmatch("\n") do
    line = line + #before
  end
  for _, shape in ipairs(turn == 0 and script.shapes or { next_shape() }) do
    it(name .. ", " .. shape.name, function()
      local r = script.run(all .. "\nprint 'not reached'\n", shape, options or checked)
      assert.equal(("case.lua:%d: %s\n"):format(line + 1, wanted),
        (r.stderr:gsub("^celer: [^\n]*/case", "case")))
      assert.equal("", r.stdout)
      assert.equal(1, r.status)
      assert.is_false(r.timed_out)
    end)
  end
  turn = math.max(turn, 1)
end

local function said(task, what, where, kind)
  return ("%s: it has written %s to %s, and what it read had no %s: look in it for a division "
    .. "by zero, a root or logarithm of a negative number, or an overflow, and at the numbers "
    .. "that it is given (--check-nan)"):format(task, what, where, kind)
end

describe("celer run --check-nan", function()
  stops("names the kernel that divides by zero, and not those that carry that on", [==[
run(k.keep, u, v)
run(k.keep, v, u)
q:submit(function(cg)
  cg:parallel_for({ n }, k.over, cg:read(u), cg:discard_write(v)) -- here
end)
run(k.keep, v, u)
]==], said("task 'over'", "inf", "element (0) of buffer 'v'", "infinity"))

  stops("names the task that makes a NaN, by its name", [==[
q:submit(function(cg)
  cg:name "the root"
  cg:parallel_for({ n }, k.root, cg:read_write(u)) -- here
end)
]==], said("task 'the root'", "%s", "element (0) of buffer 'u'", "NaN"):format("nan"))

  stops("tells a NaN from the infinities that a task reads", [==[
u:fill(-1 / 0, celer.box({ 3 }, { 4 }))
run(k.keep, u, v)
q:submit(function(cg)
  local r, w = cg:read(v), cg:discard_write(u)
  cg:host_task({ n }, function(part, v, u) -- here
    for i = part.min[0], part.max[0] - 1 do u[i] = v[i] - v[i] end
  end, r, w)
end)
]==], said("this host task", "nan", "element (3) of buffer 'u'", "NaN"))

  stops("sees what a collective task writes, in a buffer of three dimensions", [==[
local w = celer.buffer("float", { 7, 5, 3 }, { name = "w", init = 1 })
q:submit(function(cg)
  cg:name "all"
  local all = cg:read_write(w, celer.even_split)
  cg:host_task(celer.collective(), function(part, w) -- here
    for i = w.min[0], w.max[0] - 1 do
      if i == 6 then w:set(6, 2, 1, -math.huge) end
    end
  end, all)
end)
]==], said("task 'all'", "-inf", "element (6, 2, 1) of buffer 'w'", "infinity"))

  stops("sees what an interop task writes", [==[
q:submit(function(cg)
  local w = cg:read_write(u)
  cg:interop_task({ n }, function(part, u) -- here
    for i = part.min[0], part.max[0] - 1 do u[i] = i == 20 and 0 / 0 or u[i] end
  end, w)
end)
]==], said("this interop task", "nan", "element (20) of buffer 'u'", "NaN"),
    { before = { "--check-nan", "--backend", "cpu" } })

  stops("sees what a reduction comes to, in a buffer of one element", [==[
local sum, sums = celer.buffer("double", {}, { name = "sum" }), celer.buffer("double", { 2 })
q:submit(function(cg)
  local r = cg:read(u)
  cg:parallel_for({ n }, k.add, r, cg:reduce(sum, "sum"), cg:reduce(sums, "sum"))
end)
u:fill(1e308)
q:submit(function(cg)
  local r = cg:read(u)
  cg:parallel_for({ n }, k.add, r, cg:reduce(sum, "sum"), cg:reduce(sums, "sum")) -- here
end)
]==], said("task 'add'", "inf", "buffer 'sum'", "infinity"))

  stops("looks into structs", [==[
local inner = celer.struct("inner", "float f[2]; int n;")
local body = celer.struct("body", "char c; inner list[3]; double x, y; uint64_t bits;")
local b = celer.buffer(body, { 6, 2 }, { name = "b" })
local make = celer.kernel [[
  kernel void make(item<2> it, out<body, 2> b, int odd) {
    body x;
    x.c = 1;
    for (int i = 0; i < 3; i++) x.list[i].f[0] = x.list[i].f[1] = x.list[i].n = i;
    x.x = 1, x.y = 2;
    x.bits = 0xffffffffffffffff;
    if (it[0] * 2 + it[1] == odd) x.list[2].f[1] = 3e38f * 10;
    b(it[0], it[1]) = x;
  }
]]
local function go(odd)
  q:submit(function(cg) cg:parallel_for({ 6, 2 }, make, cg:discard_write(b), odd) end) -- here
end
go(-1)
go(7)
]==], said("task 'make'", "inf", "list[2].f[1] of element (3, 1) of buffer 'b'", "infinity"))

  passes("blames nobody for what was there", [==[
u:fill(0 / 0, celer.box({ 5 }, { 7 }))                 -- as a mark
u:fill(1 / 0, celer.box({ 9 }, { 10 }))
run(k.keep, u, v)
celer.copy(v, u)
q:submit(function(cg)                                  -- keeps some, writes others
  cg:host_task({ n }, function(part, u)
    for i = part.min[0], part.max[0] - 1, 2 do u[i] = 1 end
  end, cg:write(u))
end)
local sum = celer.buffer("double", {}, { init = 0 / 0 })
local sums = celer.buffer("double", { 2 })
q:submit(function(cg)
  local r = cg:read(v)
  cg:parallel_for({ n }, k.add, r, cg:reduce(sum, "sum", { include_current = true }),
    cg:reduce(sums, "sum"))
end)
local marked = celer.buffer("float2", { n }, { init = { x = 1, y = 0 / 0 } })
q:submit(function(cg)
  cg:host_task({ n }, function(part, m)
    for i = part.min[0], part.max[0] - 1 do m[i] = { x = 0 / 0, y = 1 } end
  end, cg:read_write(marked))
end)
q:drain()
]==])

  passes("does not look at whole numbers, whatever their bits are", [==[
local bits = celer.struct("bits", "uint32_t low; uint64_t high;")
local w = celer.buffer("int", { n }, { init = 0x7fc00000 })
local x = celer.buffer("uint64_t", { n })
local y = celer.buffer(bits, { n })
local m = celer.kernel [[
  kernel void shape(item<1> it, in<int, 1> w, out<uint64_t, 1> x, out<bits, 1> y) {
    x(it[0]) = ~0ull;
    y(it[0]) = bits{(uint32_t)w(it[0]), 0xfff8000000000000ull};
  }
]]
q:submit(function(cg)
  cg:parallel_for({ n }, m, cg:read(w), cg:discard_write(x), cg:discard_write(y))
end)
q:wait()
]==])

  passes("takes an identity for no result, and a chunk of nothing for no task", [==[
local least, most = celer.buffer("double", { 3 }), celer.buffer("float", {})
local m = celer.kernel [[
  kernel void ends(item<1> it, in<double, 1> u, reducer<double, 1> least, reducer<float> most) {
    least(it[0] % 2) += u(it[0]);
    if (u(it[0]) < 0) most += u(it[0]);
  }
  kernel void first(item<1> it, inout<double, 1> u) { u(it[0]) += 1; }
]]
for _, items in ipairs { n, 1, 0 } do
  q:submit(function(cg)
    cg:parallel_for({ items }, m.ends, cg:read(u), cg:reduce(least, "min"),
      cg:reduce(most, "max"))
  end)
  q:submit(function(cg) cg:parallel_for({ math.min(items, 1) }, m.first, cg:read_write(u)) end)
end
q:submit(function(cg)
  cg:host_task({ 1 }, function(part, u)
    for i = part.min[0], part.max[0] - 1 do u[i] = 1 end
  end, cg:read_write(u))
end)
same("none", q:drain(least)[2], math.huge)
]==])

  stops("tells an infinity that a kernel hands over from the identity", [==[
local most = celer.buffer("double", { 3 }, { name = "most" })
local m = celer.kernel [[
  kernel void ends(item<1> it, in<double, 1> u, reducer<double, 1> most) {
    most(1) += 1 / u(it[0]);
  }
]]
q:submit(function(cg)
  cg:parallel_for({ n }, m, cg:read(u), cg:reduce(most, "max")) -- here
end)
]==], said("task 'ends'", "inf", "element (1) of buffer 'most'", "infinity"))

  passes("leaves results as they are, whatever tasks touch", [==[
local seen = {}
for round = 1, 2 do
  local w = celer.buffer("float", { 12, 4 }, { init = function(i, j) return i + j end })
  local one = celer.buffer("double", {}, { init = 2 })
  local empty = celer.buffer("float", { 0 })
  local whole = celer.buffer("int", { 12 }, { init = function(i) return i end })
  local later = celer.buffer("float", { 12 })
  local m = celer.kernel [[
    kernel void rows(item<1> it, in<float, 2> w, out<float, 1> later) {
      later(it[0]) = w(11 - it[0], 0) + w(it[0], 3);
    }
    kernel void turn(group<1> g, inout<float, 1> v, local<float, 4> mine) {
      mine[g.local(0)] = v(g.global(0));
      g.barrier();
      v(g.global(0)) = mine[g.size(0) - 1 - g.local(0)];
    }
    kernel void single(item<0>, inout<double, 0> x) { x() *= 3; }
    kernel void none(item<1> it, inout<float, 1> e) { e(it[0]) = 1; }
    kernel void whole(item<1> it, inout<int, 1> v) { v(it[0]) *= 2; }
  ]]
  q:submit(function(cg)                                -- two boxes
    local r = cg:read(w, function(c)
      return celer.box({ 12 - c.max[0], 0 }, { 12 - c.min[0], 1 }),
        celer.box({ c.min[0], 3 }, { c.max[0], 4 })
    end)
    cg:parallel_for({ 12 }, m.rows, r, cg:discard_write(later))
  end)
  q:submit(function(cg) cg:parallel_for(celer.nd_range({ 12 }, { 4 }), m.turn,
    cg:read_write(later)) end)
  q:submit(function(cg) cg:parallel_for({}, m.single, cg:read_write(one)) end)
  q:submit(function(cg) cg:parallel_for({ 0 }, m.none, cg:read_write(empty)) end)
  q:submit(function(cg) cg:parallel_for(celer.box({ 2 }, { 7 }), m.whole, cg:read_write(whole)) end)
  local table_of = { [0] = 0, 4, 8, 12 }
  q:submit(function(cg)                                -- an opaque mapper
    cg:host_task({ 3 }, function(part, later)
      for i = later.min[0], later.max[0] - 1 do later[i] = later[i] + 1 end
    end, cg:read_write(later, function(c)
      return celer.box({ table_of[c.min[0]] }, { table_of[c.max[0]] })
    end))
  end)
  local sl, so, sw = q:wait(later, one, whole)
  local text = { so(), sw[2], sw[7] }
  for i = 0, 11 do text[#text + 1] = sl[i] end
  seen[round] = table.concat(text, " ")
end
same("the same", seen[1], seen[2])
same("as without", seen[1], "6 4 7 15 15 15 15 15 15 15 15 15 15 15 15")
]==])

  passes("passes what celer does by itself", [==[
local folder = arg[0]:match "^(.*)/"
celer.io.save(folder .. "/u.npy", u)
local w = celer.io.load(folder .. "/u.npy")
celer.checkpoint(folder .. "/kept", { w = w })
local kept = celer.restore(folder .. "/kept").w
u:fill(0 / 0)
celer.copy(kept, u)
celer.io.save(folder .. "/u.npy", u)
celer.time()
same("back", q:drain(u)[20], 20)
]==])

  passes("is off without the option, and on by its variable", [==[
run(k.over, u, v)
q:wait()
]==], {})
  stops("is on by its variable", [==[
q:submit(function(cg) cg:parallel_for({ n }, k.over, cg:read(u), cg:discard_write(v)) end) -- here
]==], said("task 'over'", "inf", "element (0) of buffer 'v'", "infinity"),
    { env = { CELER_CHECK_NAN = "1" } })

  it("still warns of what was never written, at the task that reads it", function()
    local r = script.run(prelude .. "run(k.keep, v, u)\n", script.shapes[1], checked)
    assert.matches("case%.lua:15: task 'keep' reads %[0, 21%) of buffer 'v', of which some was "
      .. "never written", r.stderr)
    assert.equal(1, select(2, r.stderr:gsub("never written", "")))
    r = script.run(prelude .. [==[
q:submit(function(cg)
  cg:host_task(celer.on_master, function(_, v) for i = 3, 9 do v[i] = 1 end end,
    cg:write(v, celer.all))
end)
]==], script.shapes[1], checked)
    assert.equal("", r.stderr)
  end)

  -- The fake driver computes nothing: what is found does not matter.
  it("looks by kernels that compile for GPUs, too", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    for _, text in ipairs {
      "run(k.keep, u, v)", "q:submit(function(cg) cg:parallel_for({ n }, k.root, cg:write(u)) end)",
      [==[
local sum, sums = celer.buffer("double", {}, { init = 0 }), celer.buffer("double", { 2 })
q:submit(function(cg)
  cg:parallel_for({ n }, k.add, cg:read(u, function(chunk) return chunk end),
    cg:reduce(sum, "sum", { include_current = true }), cg:reduce(sums, "sum"))
end)]==] } do
      local r = script.run(prelude .. text, { devices = 1 }, { env = fake.env({ FAKE_GPUS = 1 }),
        before = { "--backend", "cuda", "--check-nan", "--no-sample" } })
      assert.is_nil(r.stderr:find("does not compile", 1, true), r.stderr)
      assert.is_nil(r.stderr:find("internal error", 1, true), r.stderr)
    end
  end)

  stops("looks through boxes of each index", [==[
local w = celer.buffer("double", { 3 * n }, { name = "w", init = 12 })
w:fill(0 / 0, celer.box({ 1 }, { 2 }))                    -- lies between
local every_third = function(c)
  return celer.boxes(c, function(i) return celer.box({ 3 * i }, { 3 * i + 1 }) end)
end
q:submit(function(cg)
  cg:host_task({ n }, function(part, w) -- here
    for i = part.min[0], part.max[0] - 1 do w:set(3 * i, i == 7 and 1 / 0 or 1) end
  end, cg:discard_write(w, every_third))
end)
]==], said("this host task", "inf", "element (21) of buffer 'w'", "infinity"))

  it("says of what boxes it does not look through, as they are too many", function()
    for _, shape in ipairs { script.shapes[1], script.shapes[2] } do
      local r = script.run([==[
local w = celer.buffer("double", { 200 }, { name = "w", init = 1 })
for _ = 1, 2 do
  q:submit(function(cg)
    cg:host_task({ 100 }, function() end, cg:read_write(w, function(c)
      return celer.boxes(c, function(i) return celer.box({ 2 * i }, { 2 * i + 1 }) end)
    end))
  end)
end
q:wait()
]==], shape, checked)
      assert.matches("^celer: warning: [^\n]*/case%.lua:5: %-%-check%-nan does not look through "
        .. "buffer 'w': its read_write access here has too many boxes\n$", r.stderr)
      assert.equal(0, r.status)
    end
  end)

  it("does nothing in a dry run, and in a session stops the line", function()
    local dry = script.run(prelude .. "run(k.over, u, v)\nprint 'through'\n", script.shapes[1],
      { before = { "--check-nan", "--dry-run", "3" } })
    assert.equal("through\n", dry.stdout)
    local r = celer.run({ "repl" }, { env = { CELER_CHECK_NAN = "1" }, stdin = [[
u = celer.buffer("float", { 4 }, { name = "u", init = 0 })
k = celer.kernel "kernel void k(item<1> it, inout<float, 1> u) { u(it[0]) = 1 / u(it[0]); }"
q = celer.queue()
q:submit(function(cg) cg:parallel_for({ 4 }, k, cg:read_write(u)) end)
print "goes on"
]] })
    assert.matches("^celer: session:4: task 'k': it has written inf to element %(0%)", r.stderr)
    assert.matches("goes on", r.stdout)
  end)
end)
