-- cg:route: items that say where their results go.
local cjson = require("cjson")
local celer = require("spec.support.celer")

local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

local shapes = {
  { name = "on one rank with two devices", devices = 2 },
  { name = "on three ranks", devices = 1, ranks = 3 },
  { name = "on two ranks with two devices", devices = 2, ranks = 2 },
}
local two = { { name = "on one rank", devices = 1 }, shapes[2] }

local function everywhere(name, text, check, options)
  options = options or {}
  options.shapes = options.shapes or shapes
  script.everywhere(name, text, check, options)
end

-- In front of a text: kernels, and what comes of them in plain Lua.
local setup = [==[
celer.struct("particle", "double x; int id;")
local k = celer.kernel [=[
  CELER_FN int cell_of(index i, int r, int n) { return int((i * 37 + r * 11 + i * i % 5) % n); }
  kernel void line(item<1> it, route<double> out, int n) {
    for (int r = 0; r < it[0] % 4; ++r) out.push(cell_of(it[0], r, n), (it[0] + r) / 7.0);
  }
  kernel void plane(item<2> it, route<float2, 2> out) {
    out.push(cell_of(it[0], int(it[1]), 3), it[1] % 2, {it[0] / 3.0f, 1.0f});
  }
  kernel void space(item<3> it, route<int, 3> out) {
    out.push(it[0] % 2, it[1] % 2, it[2] % 2, int(it.linear()));
  }
  kernel void point(item<0> it, route<int> out) {
    out.push(2, 4);
    out.push(2, 3);
  }
  kernel void both(item<1> it, inout<double, 1> own, route<double> sums, route<int> counts) {
    own(it[0]) += 1;
    sums.push(it[0] / 2, own(it[0]));
    counts.push(it[0] % 3, 1);
  }
  kernel void move(item<1> it, route<particle> out, int n) {
    for (int r = 0; r < it[0] % 3; ++r)
      out.push(cell_of(it[0], r, n), {double(r), int(it[0])});
  }
]=]
local function cell_of(i, r, n) return (i * 37 + r * 11 + i * i % 5) % n end
local function list(view, n)
  local out = {}
  for i = 0, n - 1 do out[i + 1] = ("%.17g"):format(tonumber(view(i))) end
  return table.concat(out, " ")
end
local function texts(t, n)
  local out = {}
  for i = 0, n - 1 do out[i + 1] = ("%.17g"):format(t[i] or 0) end
  return table.concat(out, " ")
end
]==]
setup = setup:gsub("index i, int r", "long i, int r")

describe("a route", function()
  everywhere("and reduces, again and again in a kernel in Lua", [==[
local out, total = celer.buffer("double", 8, { init = 0 }), celer.scalar("double", 0)
local spread = celer.kernel(function(i, out, sum, t)
  out:push((i + t) % 8, i)
  sum:add(i * t)
end)
local want, sum
for t = 1, 6 do
  spread(20, celer.route(out, "sum"), celer.sum(total), t)
  want, sum = {}, 0
  for i = 0, 19 do
    want[(i + t) % 8] = (want[(i + t) % 8] or 0) + i
    sum = sum + i * t
  end
end
same("total", total(), sum)
for c = 0, 7 do same("out", out(c), want[c]) end
]==])

  everywhere("combines in the order of items and of their pushes", setup .. [==[
local out = celer.buffer("double", { 9 }, { name = "out" })
local t = {}
for step = 1, 5 do
  q:submit(function(cg)
    cg:parallel_for({ 50 }, k.line,
      cg:route(out, "sum", { most = 3, include_current = step > 1, reproducible = true }), 9)
  end)
  for i = 0, 49 do
    for r = 0, i % 4 - 1 do
      local c = cell_of(i, r, 9)
      t[c] = (t[c] or 0) + (i + r) / 7
    end
  end
end
same("sums", list(q:wait(out), 9), texts(t, 9))
for how, wanted in celer.sorted_pairs { prod = 1, min = 1 / 0, max = -1 / 0 } do
  q:submit(function(cg) cg:parallel_for({ 0 }, k.line, cg:route(out, how, { most = 3 }), 9) end)
  same(how .. " of nothing", q:wait(out)(3), wanted)
end
q:submit(function(cg) cg:parallel_for({ 50 }, k.line, cg:route(out, "max", { most = 4 }), 9) end)
t = {}
for i = 0, 49 do
  for r = 0, i % 4 - 1 do
    local c = cell_of(i, r, 9)
    t[c] = math.max(t[c] or -1 / 0, (i + r) / 7)
  end
end
same("the largest", list(q:wait(out), 9), texts(t, 9))
]==])

  everywhere("takes ranges and buffers of all dimensions", setup .. [==[
local plane = celer.buffer("float2", { 3, 2 }, { name = "plane" })
q:submit(function(cg)
  cg:parallel_for(celer.box({ 2, 1 }, { 9, 6 }), k.plane, cg:route(plane, "sum"))
end)
local t, s = {}, q:wait(plane)
local float = require("ffi").typeof "float"
for i = 2, 8 do
  for j = 1, 5 do
    local at = cell_of(i, j, 3) * 2 + j % 2
    t[at] = t[at] or { 0, 0 }
    t[at][1] = tonumber(float(t[at][1] + tonumber(float(i / 3))))
    t[at][2] = t[at][2] + 1
  end
end
for i = 0, 5 do
  local is, wanted = s(math.floor(i / 2), i % 2), t[i] or { 0, 0 }
  same("x " .. i, is.x, wanted[1])
  same("y " .. i, is.y, wanted[2])
end
local space = celer.buffer("int", { 2, 2, 2 }, { name = "space", init = 100 })
q:submit(function(cg)
  cg:parallel_for({ 3, 4, 5 }, k.space, cg:route(space, "max", { include_current = true }))
end)
s = q:wait(space)
same("within the last", s(0, 0, 0), 100)
q:submit(function(cg) cg:parallel_for({ 3, 4, 5 }, k.space, cg:route(space, "min")) end)
same("the first", q:wait(space)(1, 0, 1), 21)
local line = celer.buffer("int", { 3 }, { init = 0 })
q:submit(function(cg)
  cg:parallel_for({}, k.point, cg:route(line, "sum", { most = 2, include_current = true }))
end)
same("of one item", q:wait(line)(2), 7)
]==])

  everywhere("appends to bins, behind what they hold", setup .. [==[
local bins, n = 7, 60
local o = celer.buffer("int64_t", { bins + 1 }, { name = "o", init = 0 })
local out = celer.buffer("particle", { 150 }, { name = "out" })
local held = {}
for b = 0, bins - 1 do held[b] = {} end
for step, range in ipairs { { 0, n }, { 20, 40 }, { 30, 31 }, { 5, 50 } } do
  q:submit(function(cg)
    cg:parallel_for(celer.box({ range[1] }, { range[2] }), k.move,
      cg:route(out, "append", { most = 2, offsets = o, include_current = step > 1 }), bins)
  end)
  for i = range[1], range[2] - 1 do
    for r = 0, i % 3 - 1 do table.insert(held[cell_of(i, r, bins)], { r, i }) end
  end
  local os, os_values = q:wait(o, out)
  local at = 0
  for b = 0, bins - 1 do
    same("begin of bin " .. b, tonumber(os(b)), at)
    for _, p in ipairs(held[b]) do
      same("x", os_values(at).x, p[1])
      same("id", os_values(at).id, p[2])
      at = at + 1
    end
  end
  same("the end", tonumber(os(bins)), at)
  if at < 150 then same("behind it", os_values(149).id, 0) end
end
]==])

  everywhere("stands beside what the task changes, and is skipped with it", setup .. [==[
local own = celer.buffer("double", { 12 }, { name = "own", init = 0 })
local sums, counts = celer.buffer("double", { 6 }), celer.buffer("int", { 3 }, { init = 0 })
local flag = celer.scalar("int", 1)
for step = 1, 3 do
  if step == 3 then flag:set(0) end
  q:submit(function(cg)
    cg:when(flag)
    cg:parallel_for(12, k.both, cg:read_write(own), cg:route(sums, "sum"),
      cg:route(counts, "sum", { include_current = true }))
  end)
end
local o, s, c = q:wait(own, sums, counts)
same("own", o(7), 2)
same("sum", s(3), 4)
same("count", c(1), 8)
q:parallel_for(12, k.both, own, celer.route(sums, "prod"), celer.route(counts, "or"))
same("product", q:wait(sums)(5), 9)
]==])

  everywhere("is for kernels written in Lua, too", setup .. [==[
local out = celer.buffer("double", { 5, 3 }, { name = "out", init = 0 })
local push = celer.kernel(function(i, j, u, to)
  if u[i] > 0 then
    to:push(i % 5, j, u[i] * j)
    to:push(0, 0, 1)
  end
end)
local u = celer.buffer("double", { 20 }, { init = function(i) return i - 4 end })
for step = 1, 4 do
  q:parallel_for({ 20, 3 }, push, u, celer.route(out, "sum", { include_current = true }))
end
local s = q:wait(out)
same("one", s(2, 2), 4 * 2 * (3 + 8 + 13))
same("another", s(0, 0), 4 * 45)
same("it says so", push:accesses({ 20, 3 }, u, celer.route(out, "sum")):match "route.*",
  "route         to")
]==], nil, { shapes = two })

  everywhere("needs no more than what is declared, for celer check", setup .. [==[
local out, o = celer.buffer("particle", { 99 }), celer.buffer("int64_t", { 8 }, { init = 0 })
for step = 1, 2 do
  q:submit(function(cg)
    cg:parallel_for({ 50 }, k.move, cg:route(out, "append", { most = 2, offsets = o }), 7)
  end)
  local plane = celer.buffer("float2", { 3, 2 })
  q:submit(function(cg) cg:parallel_for({ 5, 6 }, k.plane, cg:route(plane, "sum")) end)
  local space = celer.buffer("int", { 2, 2, 2 })
  q:submit(function(cg) cg:parallel_for({ 5, 6, 3 }, k.space, cg:route(space, "sum")) end)
  q:wait(plane, space)
end
]==], nil, { shapes = two, before = { "--check-bounds" } })

  it("has dry runs say what they do not count", function()
    local r = script.run(setup .. [==[
local out = celer.buffer("double", { 9 }, { name = "out" })
local list = celer.list("particle", { bins = 9, name = "sorted" })
q:submit(function(cg) cg:parallel_for({ 50 }, k.line, cg:route(out, "sum", { most = 3 }), 9) end)
q:submit(function(cg)
  cg:parallel_for({ 50 }, k.move, cg:route(list, "append", { most = 2 }), 9)
end)]==], { devices = 1 }, { before = { "--backend", "cpu", "--dry-run", 5 } })
    assert.equal(0, r.status, r.stderr)
    assert.matches("not counted%s+what items push to out, sorted, between ranks; cg:route%(out, "
      .. "how, { dry = mapper }%)", r.stderr)
  end)

  -- Every item pushes to one that is so far away, around the end; so is the stand-in.
  local shifted = [==[
local seed = %d
local function below(m)
  seed = seed * 16807 %% 2147483647
  return seed %% m
end
local line = celer.kernel(function(i, out, s, n) out:push(math.floor((i + s) %% n), i) end)
local plane = celer.kernel(function(i, j, out, s, n) out:push(math.floor((i + s) %% n), j, i) end)
for case = 1, 6 do
  local n, m, kept = 20 + below(300), 1 + below(5), below(2) == 1
  local shift = below(n)
  local function far(c)
    local lo = (c.min[0] + shift) %% n
    local hi = lo + c.max[0] - c.min[0]
    return c:with(0, lo, math.min(hi, n)), c:with(0, 0, math.max(hi - n, 0))
  end
  local options = { dry = far, include_current = kept }
  local out = celer.buffer("float", { n }, { init = 0 })
  local wide = celer.buffer("int", { n, m }, { init = 0 })
  local bins = celer.list("double", { bins = n, capacity = 3 * n + below(n) })
  local rows = celer.list("float", { bins = { n, m }, capacity = 3 * n * m })
  for _ = 1, 3 do
    q:submit(function(cg) cg:parallel_for(n, line, cg:route(out, "sum", options), shift, n) end)
    q:submit(function(cg) cg:parallel_for(n, line, cg:route(bins, "append", options), shift, n) end)
    q:submit(function(cg)
      cg:parallel_for({ n, m }, plane, cg:route(wide, "max", options), shift, n)
    end)
    q:submit(function(cg)
      cg:parallel_for({ n, m }, plane, cg:route(rows, "append", options), shift, n)
    end)
    -- What ranks tell each other in calls of all: how much is to come; how much bins come to, and
    -- where those begin that are kept.
    calls = (calls or 0) + 4 * (celer.ranks() - 1) * 48 + 2 * (kept and 40 or 8)
  end
end
print(calls)
q:wait()]==]
  for _, seed in ipairs { 1, 2 } do
    it("has dry runs count what a stand-in says as it is, from " .. seed, function()
      local options = { before = { "--backend", "cpu", "--log", "info" } }
      local text = shifted:format(seed)
      local real = script.run(text, { devices = 1, ranks = 3 }, options)
      assert.equal(0, real.status, real.stderr)
      local path = scratch.path()
      options.before = { "--backend", "cpu", "--dry-run", 3, "--report", path }
      local r = script.run(text, { devices = 1 }, options)
      assert.equal(0, r.status, r.stderr)
      assert.falsy(r.stderr:find("not counted", 1, true))
      local said = cjson.decode(scratch.read(path))
      os.remove(path)
      local routes, calls = said.routes, tonumber(r.stdout)
      assert.matches(("; %d messages with %d bytes"):format(
        said.messages.sent + routes.sent + routes.collectives,
        said.messages.bytes_sent + routes.bytes_sent + calls), real.stderr, 1, true)
    end)
  end

  it("has as many messages on many ranks as on few, in dry runs", function()
    local found = {}
    for _, ranks in ipairs { 4, 64, 256, 1024 } do
      local path = scratch.path()
      local r = script.run([==[
celer.struct("particle", "double x, v;")
local cells = 2 ^ 14
local list = celer.list("particle", { bins = cells, capacity = 2 * cells })
local k = celer.kernel [=[
  kernel void seed(item<1> it, route<particle> out) { out.push(int(it[0]), {double(it[0]), 1}); }
  kernel void move(item<1> it, in<int64_t, 1> ends, in<particle, 1> p, route<particle> out) {
    for (int64_t i = ends(it[0]); i < ends(it[0] + 1); ++i) out.push(int(it[0]), p(i));
  }
]=]
local near = celer.neighborhood(1)
local own = celer.image(list.offsets, { as = "ranges", dry = celer.one_to_one })
q:submit(function(cg)
  cg:parallel_for(cells, k.seed, cg:route(list, "append", { dry = celer.one_to_one }))
end)
for step = 1, 10 do
  q:submit(function(cg)
    cg:parallel_for(cells, k.move, cg:read(list.offsets, list.ends), cg:read(list.values, own),
      cg:route(list, "append", { most = 2, dry = near }))
  end)
end]==], { devices = 1 }, { before = { "--backend", "cpu", "--dry-run", ranks, "--as-rank",
        ranks / 2, "--report", path } })
      assert.equal(0, r.status, r.stderr)
      local routes = cjson.decode(scratch.read(path)).routes
      os.remove(path)
      found[#found + 1] = { routes.sent, routes.received, routes.peers, routes.collectives }
    end
    -- A step is keys and values for two neighbours, of many ranks with a notice to each. First the
    -- values of bins that lie elsewhere go there.
    local many = { 61, 60, 3, 11 }
    assert.same({ { 41, 40, 2, 22 }, many, many, many }, found)
  end)

  it("is looked into by --check-nan, in what comes of it", function()
    local r = script.run([[
local k = celer.kernel "kernel void f(item<1> it, route<float> o) { o.push(it[0] % 3, NAN); }"
local out = celer.buffer("float", { 3 }, { name = "out" })
q:parallel_for({ 3 }, k, celer.route(out, "sum"))
q:wait()]], two[2], { before = { "--check-nan" } })
    assert.matches("/case%.lua:4: task 'celer.route': it has written nan to element %(0%) of "
      .. "buffer 'out'", r.stderr)
  end)

  -- What a run ends with, on one rank and on several.
  local mistakes = {
    { "a key that leads nowhere", [[
q:submit(function(cg)
  cg:parallel_for(celer.box({ 3 }, { 9 }), wrong, cg:route(out, "sum"), 8)
end)]], "cg:route: item (8) pushes to element (8) of out, which has (0) to (4)" },
    { "a key below all", [[
q:submit(function(cg) cg:parallel_for({ 3 }, wrong, cg:route(out, "sum"), -2) end)]],
      "cg:route: item (1) pushes to element (-2) of out, which has (0) to (4)", scale = -2 },
    { "a key of two dimensions", [[
q:submit(function(cg) cg:parallel_for({ 5, 2 }, wrong2, cg:route(grid, "sum"), 0) end)]],
      "cg:route: item (4, 0) pushes to element (-4, 70000) of grid, which has (0, 0) to (4, 2)" },
    { "a bin that is none", [[
local o = celer.buffer("int64_t", { 2 })
q:submit(function(cg)
  cg:parallel_for({ 4 }, wrong, cg:route(out, "append", { offsets = o }), 1)
end)]], "cg:route: item (1) pushes to bin (1) of out, which has bin 0 alone" },
    { "more than there is room for, of an item", [[
q:submit(function(cg) cg:parallel_for({ 9 }, often, cg:route(out, "sum", { most = 3 })) end)]],
      "cg:route: item (8) pushes 8 values to out, and there is room for 3 of an item: "
        .. "give { most = 8 }" },
    { "more than there is room for, of all", [[
local o = celer.buffer("int64_t", { 6 })
q:submit(function(cg)
  cg:parallel_for({ 4 }, often, cg:route(out, "append", { most = 3, offsets = o }))
end)]], "cg:route: the bins of out come to 6 values, and it has room for 5: give "
      .. "it 6 elements" },
  }
  for i, one in ipairs(mistakes) do
    for _, shape in ipairs { i % 2 == 0 and two[1] or two[2] } do
      it(("is refused for %s, %s"):format(one[1], shape.name), function()
        local r = script.run([[
local out = celer.buffer("int", { 5 }, { name = "out" })
local grid = celer.buffer("int", { 5, 3 }, { name = "grid" })
local k = celer.kernel [=[
kernel void wrong(item<1> it, route<int> o, int n) {
  o.push(n < 0 ? it[0] * n : it[0] == n ? n : 0, 1);
}
kernel void wrong2(item<2> it, route<int, 2> o, int n) {
  o.push(it[0] == 4 ? -4 : 0, it[0] == 4 ? 70000 : n, 1);
}
kernel void often(item<1> it, route<int> o) {
  for (int i = 0; i < it[0]; ++i) o.push(0, 1);
}
]=]
local wrong, wrong2, often = k.wrong, k.wrong2, k.often
]] .. one[2] .. "\nq:wait(out)", shape)
        assert.not_equal(0, r.status)
        assert.matches("/case%.lua:%d+: " .. one[3]:gsub("%p", "%%%0"), r.stderr)
      end)
    end
  end

  it("shows nobody what comes of a mistake", function()
    local seen = scratch.path()
    local r = script.run(([[
local out = celer.buffer("int", { 5 }, { name = "out" })
local push = celer.kernel(function(i, out) out:push(i == 299999 and 7 or 0, 1) end)
q:parallel_for(300000, push, celer.route(out, "sum"))
local v = q:wait(out)
io.open("%s" .. os.getenv "OMPI_COMM_WORLD_RANK", "w"):close()]]):format(seen), shapes[2])
    assert.not_equal(0, r.status)
    assert.matches("^celer: .-/case%.lua:4: cg:route: item %(299999%) pushes to element %(7%) of "
      .. "out, which has %(0%) to %(4%)\n$", r.stderr)
    for rank = 0, 2 do assert.is_nil(io.open(seen .. rank)) end
  end)

  -- The same mistakes in a session, which goes on.
  local session = [[
q = celer.queue()
out = celer.buffer("int", { 5 }, { name = "out", init = 3 })
push = celer.kernel(function(i, n, out) out:push(i == 11 and n or 0, 1) end)
q:parallel_for(12, push, 7, celer.route(out, "sum", { include_current = true })) q:wait()
q:parallel_for(12, push, 1, celer.route(out, "sum", { include_current = true }))
q:wait(out)(0)
v = celer.zeros("int", 20)
o = celer.buffer("int64_t", { 6 }, { init = function(i) return -i end })
behind = celer.route(v, "append", { include_current = true, offsets = o })
q:parallel_for(12, push, 1, behind) q:wait()
q:parallel_for(12, push, 1, celer.route(v, "append", { offsets = o }))
tonumber(q:wait(o)(1))
small = celer.buffer("int", { 10 }, { name = "small" })
q:parallel_for(12, push, 1, celer.route(small, "append", { offsets = o })) q:wait()
1 + 1
]]
  for ranks = 1, 3 do
    it("is a mistake that a session goes on from, on " .. ranks, function()
      local r = celer.run({ "repl" }, { ranks = ranks > 1 and ranks or nil, stdin = session,
        env = celer.patient })
      assert.same({ "14\n11\n2\n", [[
celer: session:4: cg:route: item (11) pushes to element (7) of out, which has (0) to (4)
celer: session:10: cg:route: offsets grow, from 0 to what there is room for, and those of the bins]]
.. [[ of rank 0 do not
celer: session:14: cg:route: the bins of small come to 12 values, and it has room for 10: give it ]]
.. "12 elements\n", 1 }, { r.stdout, r.stderr, r.status })
    end)
  end

  everywhere("goes to buffers of other sizes from step to step", [==[
local push = celer.kernel(function(i, rows, out) out:push(rows - 1, i % 2, 1) end)
for _, rows in ipairs { 3, 3, 3, 9, 9, 9, 30, 5 } do
  local out = celer.buffer("int", { rows, 2 })
  q:parallel_for(8, push, rows, celer.route(out, "sum"))
  same("of " .. rows, q:wait(out)(rows - 1, 1), 4)
end
]==])

  everywhere("takes structs that a kernel in Lua makes", [==[
celer.struct("mixed", "float x; int8_t n; bool even; double y;")
local list = celer.list("mixed", { bins = 3 })
local push = celer.kernel(function(i, to)
  local way = { n = i - 3, y = i / 4, even = i % 2 == 0, x = math.sqrt(i) }
  if i ~= 4 then to:push(i % 3, way) end
end)
q:parallel_for(9, push, celer.route(list, "append"))
local bins, float = list:get(), require("ffi").typeof "float"
for i = 0, 8 do
  local p = table.remove(bins[i % 3], 1)
  if i == 4 then table.insert(bins[1], 1, p) else
    same("n", p.n, i - 3)
    same("x", p.x, tonumber(float(math.sqrt(i))))
    same("y", p.y, i / 4)
    same("even", p.even, i % 2 == 0)
  end
end
]==])

  everywhere("is refused at the user's line", setup .. [==[
local out, grid = celer.buffer("double", { 5 }, { name = "out" }),
  celer.buffer("double", { 5, 2 }, { name = "grid" })
refused("argument 1 of kernel line: the kernel declares route<double, 1>, but out is accessed with "
  .. "cg:read; use cg:route", function()
  q:submit(function(cg) cg:parallel_for({ 8 }, k.line, cg:read(out), 1) end) end)
refused('the kernel declares route<double, 1>: give it celer.route(out, "sum")', function()
  q:parallel_for({ 8 }, k.line, out, 1) end)
refused("the kernel declares route<double, 1>, but grid has 2 dimensions", function()
  q:parallel_for({ 8 }, k.line, celer.route(grid, "sum"), 1) end)
refused("the kernel declares route<double, 1>, but small holds float", function()
  local small = celer.buffer("float", { 5 }, { name = "small" })
  q:parallel_for({ 8 }, k.line, celer.route(small, "sum"), 1) end)
refused("the kernel declares inout<double, 1>, but out is accessed with cg:route", function()
  q:parallel_for({ 8 }, k.both, celer.route(out, "sum"),
    celer.route(celer.buffer("double", { 3 }), "sum"),
    celer.route(celer.buffer("int", { 3 }), "sum"))
end)
refused('and is "sun", did you mean sum?', function() celer.route(out, "sun") end)
refused("dry must be a range mapper that says where items push in dry runs", function()
  celer.route(out, "sum", { dry = 2 })
end)
refused("write celer.neighborhood(1)", function()
  celer.route(out, "sum", { dry = celer.neighborhood })
end)
refused('"append" takes the buffer that says where bins begin', function()
  celer.route(out, "append") end)
refused("offsets are int64_t of one dimension", function()
  celer.route(out, "append", { offsets = celer.buffer("int", { 5 }) }) end)
refused('"or" is for whole numbers', function() celer.route(out, "or") end)
refused('"append" whole elements to bins', function()
  celer.route(celer.buffer("particle", { 5 }), "sum") end)
refused("cg:reduce combines into it", function() celer.route(celer.scalar("int", 0), "sum") end)
refused("a whole number from 1", function() celer.route(out, "sum", { most = 0.5 }) end)
refused("reproducible must be true or false, not a number", function()
  celer.route(out, "sum", { reproducible = 1 }) end)
refused("did you mean most?", function() celer.route(out, "sum", { mots = 2 }) end)
refused("out is routed to, which only kernels do", function()
  q:submit(function(cg) cg:host_task({ 8 }, function() end, cg:route(out, "sum")) end) end)
refused("out is routed to twice by one task", function()
  local twice = celer.kernel [[
    kernel void twice(item<1> it, route<double> a, route<double> b) { a.push(0, 1); }]]
  q:parallel_for(8, twice, celer.route(out, "sum"), celer.route(out, "max")) end)
refused("is for kernels of item<D>", function() -- on GPUs the compiler says so
  local tiles = celer.kernel [[kernel void tiles(tile<4> t, route<double> a) {}]]
  q:parallel_for(8, tiles, celer.route(out, "sum")) end)
refused("push takes as many coordinates as the route has dimensions, and a value", function()
  local two = celer.kernel [[kernel void two(item<1> it, route<double> a) { a.push(1, 2, 3.0); }]]
  q:parallel_for(8, two, celer.route(out, "sum")) q:wait() end)
refused("'o' is pushed to: write o:push(i, j, value)", function()
  q:parallel_for(8, celer.kernel(function(i, o) o:push(i, 1) end), celer.route(grid, "sum")) end)
refused("'o' is pushed to: write o:push(key, value)", function()
  q:parallel_for(8, celer.kernel(function(i, o) o[i] = 1 end), celer.route(out, "sum")) end)
refused("'o' is given to be pushed to, and the kernel does not", function()
  q:parallel_for(8, celer.kernel(function(i, o) local _ = o end), celer.route(out, "sum")) end)
refused("'o' is not given to be pushed to", function()
  q:parallel_for(8, celer.kernel(function(i, o) o:push(i, 1) end), out) end)
local gone = celer.buffer("double", { 5 }, { name = "gone" })
local kept = celer.route(gone, "sum")
gone:free()
refused("the buffer gone was freed", function() q:parallel_for(8, k.line, kept, 1) end)
]==], nil, { shapes = { two[1] } })
end)
