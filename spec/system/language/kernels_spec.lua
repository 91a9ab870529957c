-- Kernels as scripts write and launch them.
local script = require("spec.support.script")

describe("a kernel", function()
  -- Vectors of long rows begin with a line, where the length allows that.
  script.everywhere("computes each item of long rows once, and what it reads beside it", [==[
local edges = celer.kernel [[
  kernel void edges(item<2> it, in<int, 2> u, inout<int, 2> v) {
    const int y = it[0], x = it[1], w = it.range(1);
    v(y, x) += 1000 * u(y, max(x - 1, 0)) + u(y, min(x + 1, w - 1));
  }
  kernel void torus(item<2> it, near<int, 2> u, inout<int, 2> v) {
    const int y = it[0], x = it[1];
    v(y, x) += 1000 * u(y, x - 1) + u(y, x + 2);
  }]]
for _, w in ipairs { 3999, 4000, 4001, 4016, 4017, 4800 } do
  local u = celer.buffer("int", { 3, w }, { init = function(i, j) return (7 * i + j) % 61 end })
  local v = celer.buffer("int", { 3, w }, { init = function(i, j) return i + j end })
  q:submit(function(cg)
    cg:parallel_for({ 3, w }, edges.edges, cg:read(u, celer.clamped(0, 1)), cg:read_write(v))
  end)
  q:submit(function(cg)
    cg:parallel_for({ 3, w }, edges.torus, cg:read(u, celer.periodic(0, 2)), cg:read_write(v))
  end)
  local found, wrong = q:wait(v), 0
  for i = 0, 2 do
    local function at(j) return (7 * i + j) % 61 end
    for j = 0, w - 1 do
      local wanted = i + j + 1000 * at(math.max(j - 1, 0)) + at(math.min(j + 1, w - 1))
        + 1000 * at((j - 1) % w) + at((j + 2) % w)
      if found(i, j) ~= wanted then wrong = wrong + 1 end
    end
  end
  same("wrong of " .. w, wrong, 0)
end
]==])

  script.everywhere("uses functions, includes, defines and its neighbours", [==[
local n = 12
local o = celer.buffer("int", n)
local k = celer.kernel([=[
  #include "mine.h"
  template <class T> T twice(T x) { return x + x; }
  __device__ int plus(int a, int b) { return a + b; }
  kernel void first(item<1> it, out<int, 1> o) {
    o(it[0]) = plus(twice((int)it[0]), SHIFT) + (NAME ? mine(1) : 0);
  }
  kernel void second(item<1> it, inout<int, 1> o) { o[it[0]] *= (int)it.range(0); }
]=], { defines = { SHIFT = 3, NAME = true } })
q:submit(function(cg) cg:parallel_for(n, k.first, cg:discard_write(o)) end)
q:submit(function(cg) cg:parallel_for({ n }, k.second, cg:read_write(o)) end)
local s = q:wait(o)
for i = 0, n - 1 do same("element", s[i], (2 * i + 3 + 101) * n) end
refused("no kernel 'frist' in this source, did you mean first?", function() return k.frist end)
refused("name one of them", function() q:submit(function(cg) cg:parallel_for(n, k) end) end)
refused("takes 1 argument after its item, got 0", function() k.first(n) end)
refused("name one of them", function() k(n) end)
local from_file = celer.kernel { file = "file.cu" }
q:submit(function(cg) cg:parallel_for(n, from_file, cg:discard_write(o)) end)
same("from a file", q:wait(o)[5], 105)
same("by its name", from_file.f, from_file)
refused("kernel f has no 'g'; celer.kernel gives a table", function() return from_file.g end)
]==], nil, { files = {
    ["mine.h"] = "inline int mine(int x) { return x + 100; }\n",
    ["file.cu"] = '#include "mine.h"\n'
      .. "kernel void f(item<1> it, out<int, 1> o) { o(it[0]) = mine(it[0]); }\n",
  } })

  script.everywhere("covers ranges of 0 to 3 dimensions, with offsets and empty", [==[
local box = celer.box
local k = celer.kernel [=[
  kernel void f0(item<0> it, inout<int, 0> o) { o() += 1 + (int)it.linear(); }
  kernel void f1(item<1> it, inout<int, 1> o) { o(it[0]) += 1 + (int)it[0]; }
  kernel void f2(item<2> it, inout<int, 2> o) {
    o(it[0], it[1]) += 1 + 10 * (int)it[0] + (int)it[1];
  }
  kernel void f3(item<3> it, inout<int, 3> o) {
    o(it[0], it[1], it[2]) += 1 + 100 * (int)it[0] + 10 * (int)it[1] + (int)it[2];
  }
]=]
local size = { [0] = {}, { 7 }, { 5, 6 }, { 4, 5, 3 } }
local parts = { [0] = {},
  { box({ 2 }, { 5 }), box({ 3 }, { 3 }), box({ 6 }, { 2 }) },
  { box({ 1, 2 }, { 5, 4 }), box({ 0, 3 }, { 5, 3 }), box({ 4, 5 }, { 5, 6 }) },
  { box({ 1, 1, 1 }, { 4, 3, 2 }), box({ 3, 0, 0 }, { 4, 5, 3 }), box({ 0, 0, 0 }, { 4, 5, 0 }) } }
local function inside(part, i)
  for d = 0, part.dims - 1 do
    if i[d + 1] < part.min[d] or i[d + 1] >= part.max[d] then return 0 end
  end
  return 1
end
for dims = 0, 3 do
  local o = celer.buffer("int", size[dims], { init = function() return 0 end })
  local function run(range)
    q:submit(function(cg) cg:parallel_for(range, k["f" .. dims], cg:read_write(o)) end)
  end
  run(size[dims])
  for _, part in ipairs(parts[dims]) do run(part) end
  local s, n = q:wait(o), size[dims]
  for i = 0, (n[1] or 1) - 1 do
    for j = 0, (n[2] or 1) - 1 do
      for l = 0, (n[3] or 1) - 1 do
        local at, value = { i, j, l }, 1
        for d = 1, dims do value = value + at[d] * 10 ^ (dims - d) end
        local times = 1
        for _, part in ipairs(parts[dims]) do times = times + inside(part, at) end
        same(dims .. " dimensions", s(unpack(at, 1, dims)), times * value)
      end
    end
  end
end
local e = celer.buffer("int", { 0 })
q:submit(function(cg) cg:parallel_for({ 0 }, k.f1, cg:read_write(e)) end)
q:wait()
]==])

  -- A thread of a GPU computes several where there are so many.
  script.everywhere("computes each of five million items once", [==[
local k = celer.kernel [=[
  kernel void f1(item<1> it, inout<int, 1> o) { o(it[0]) += 1 + (int)it.linear(); }
  kernel void f2(item<2> it, inout<int, 2> o) { o(it[0], it[1]) += 1 + (int)it.linear(); }
  kernel void f3(item<3> it, inout<int, 3> o) { o(it[0], it[1], it[2]) += 1 + (int)it.linear(); }
  kernel void n1(item<1> it, in<int, 1> o, reducer<long> n) {
    n += o(it[0]) == 1 + it.linear() ? it.linear() : -1;
  }
  kernel void n2(item<2> it, in<int, 2> o, reducer<long> n) {
    n += o(it[0], it[1]) == 1 + it.linear() ? it.linear() : -1;
  }
  kernel void n3(item<3> it, in<int, 3> o, reducer<long> n) {
    n += o(it[0], it[1], it[2]) == 1 + it.linear() ? it.linear() : -1;
  }
]=]
for dims, size in ipairs { { 5000011 }, { 2243, 2239 }, { 173, 171, 169 } } do
  local o, all = celer.buffer("int", size), celer.buffer("int64_t", {})
  o:fill(0)
  q:submit(function(cg) cg:parallel_for(size, k["f" .. dims], cg:read_write(o)) end)
  q:submit(function(cg)
    cg:parallel_for(size, k["n" .. dims], cg:read(o), cg:reduce(all, "sum"))
  end)
  local n = size[1] * (size[2] or 1) * (size[3] or 1)
  same(dims .. " dimensions", tonumber(q:wait(all)()), n * (n - 1) / 2)
end
]==])

  script.everywhere("covers rows of 2^31 items and more", [==[
local last = celer.kernel [=[
  kernel void last(item<1> it, out<double, 1> o, double x) {
    if (it[0] + 1 == it.range(0)) o(0) = x + it[0];
  }
]=]
local o = celer.buffer("double", 1)
for t = 1, 12 do
  local n = t % 4 == 0 and 10 or 2 ^ 31 - 2 + t
  q:submit(function(cg)
    cg:parallel_for(n, last, cg:write(o, function(chunk)
      return celer.box({ celer.max(chunk.min[0] - n + 1, 0) },
        { celer.max(chunk.max[0] - n + 1, 0) })
    end), t)
  end)
  same("the last of " .. n, q:wait(o)[0], t + n - 1)
end
]==])

  -- What a rank sends lies by rows at its end and by columns at the other. Rows are longer
  -- than the strips in which such kernels go through them.
  script.everywhere("reads transposed what other ranks wrote", [==[
local k = celer.kernel [=[
  kernel void turn(item<2> it, in<int, 2> u, out<int, 2> v) {
    v(it[0], it[1]) = u(it[1], it[0]) + 1;
  }
  kernel void roll(item<3> it, in<int, 3> u, out<int, 3> v) {
    v(it[0], it[1], it[2]) = u(it[2], it[0], it[1]) + 1;
  }
]=]
local n, m = 37, 20
local a = celer.buffer("int", { n, m }, { init = function(i, j) return 100 * i + j end })
local b = celer.buffer("int", { m, n })
local function turn(from, to)
  q:submit(function(cg)
    local u = cg:read(from, celer.transposed(1, 0))
    cg:parallel_for({ to.size[0], to.size[1] }, k.turn, u, cg:discard_write(to))
  end)
end
for _ = 1, 3 do
  turn(a, b)
  turn(b, a)
end
local c = celer.buffer("int", { 3, 5, 37 },
  { init = function(x, y, z) return 1000 * x + 100 * y + z end })
local d, e = celer.buffer("int", { 5, 37, 3 }), celer.buffer("int", { 37, 3, 5 })
for _, pair in ipairs { { c, d }, { d, e }, { e, c } } do
  q:submit(function(cg)
    local to = pair[2]
    local u = cg:read(pair[1], celer.transposed(2, 0, 1))
    cg:parallel_for({ to.size[0], to.size[1], to.size[2] }, k.roll, u, cg:discard_write(to))
  end)
end
local s, t = q:wait(a, c)
for i = 0, n - 1 do
  for j = 0, m - 1 do same("turned", s(i, j), 100 * i + j + 6) end
end
for x = 0, 2 do
  for y = 0, 4 do
    for z = 0, 36 do same("rolled", t(x, y, z), 1000 * x + 100 * y + z + 3) end
  end
end
]==], nil, { shapes = { script.shapes[1], script.divided[1], script.divided[2],
    script.divided[3], { name = "on seven ranks", devices = 1, ranks = 7 } } })

  script.everywhere("takes options for each compiler, and says what it became", [==[
local core = require "celer.core"
local text = [[ kernel void f(item<1> i, out<int, 1> o) { o(i[0]) = ALL + MINE; } ]]
local k = celer.kernel(text, { options = { "-DALL=40", cpu = { "-DMINE=2" },
  cuda = { "-DMINE=3" } } })
local o = celer.buffer("int", 1)
q:submit(function(cg) cg:parallel_for(1, k, cg:discard_write(o)) end)
local backend = core.devices()
same("value", q:wait(o)[0], backend == "cpu" and 42 or 43)
local info = k:info()
same("backend", info.backend, backend)
same("registers", (info.registers or 0) > 0, backend == "cuda")
refused("there is no 'gpu'", function()
  local _ = celer.kernel(text, { options = { gpu = {} } })
end)
refused("the options for cuda must be a table", function()
  local _ = celer.kernel(text, { options = { cuda = "-DX" } })
end)
refused("from 1 to 1024", function() k:info(0) end)
]==])

  script.everywhere("computes with a define as what it meets", [==[
local ffi = require "ffi"
local function single(x) return tonumber(ffi.cast("float", x)) end
local k = celer.kernel([=[
  kernel void f(item<1> it, out<float, 1> o, out<double, 1> p, out<int, 1> n, float x, double y) {
    const double all[] = {(double)(x * A), y * A, (double)((1 - A) * x), it[0] * A, it[0] / HALF,
      (double)LARGE, (double)sizeof(LARGE), (double)sizeof(THREE), 7 / THREE, -LESS * 2,
      (double)HUGE_, (double)sizeof(x * HUGE_), (double)sizeof(T), DOUBLE * x, (double)MANY,
      (double)(x < ENDLESS), (double)(x > -ENDLESS), (double)sizeof(x * ENDLESS)};
    p(it[0]) = all[it[0]];
    o(it[0]) = x * A;
    n(it[0]) = THREE % 2;
  }
]=], { defines = { A = 0.1, HALF = 0.5, THREE = 3, LARGE = 1e10, MANY = 1e17, HUGE_ = 1e20,
  LESS = -2.5, T = "float", DOUBLE = "0.1", ENDLESS = math.huge } })
local n = 18
local o, p, m = celer.buffer("float", n), celer.buffer("double", n), celer.buffer("int", n)
q:submit(function(cg)
  cg:parallel_for(n, k, cg:discard_write(o), cg:discard_write(p), cg:discard_write(m), 0.3, 0.3)
end)
local s, t, u = q:wait(o, p, m)
local x, a = single(0.3), single(0.1)
local wanted = { single(x * a), 0.3 * 0.1, single(single(0.9) * x), 3 * 0.1, 4 / 0.5, 1e10, 8, 4,
  2, 5, 1e20, 4, 4, 0.1 * x, 1e17, 1, 1, 4 }
for i = 1, n do same("value " .. i, t[i - 1], wanted[i]) end
same("a float", s[0], single(x * a))
same("a whole number", u[0], 1)
]==])

  script.everywhere("takes numbers, booleans, structs and 64-bit integers", [==[
local par = celer.struct("par", "double a; int n[2]; bool on;")
local ffi = require "ffi"
local k = celer.kernel [=[
  kernel void f(item<1> it, out<double, 1> o, par p, bool yes, int64_t large,
                uint8_t small, float x, double y, float3 v) {
    const double all[9] = {p.a, (double)p.n[1], (double)p.on, (double)yes,
      (double)(large - 9007199254740992LL), (double)small, x, y, v.z};
    o(it[0]) = all[it[0]];
  }
]=]
local wanted = { 0.5, 4, 1, 1, 1, 255, 0.25, 0.1, 3 }
local function try(p)
  local o = celer.buffer("double", 9)
  q:submit(function(cg)
    cg:parallel_for(9, k, cg:discard_write(o), p, true, 9007199254740993LL, 255, 0.25, 0.1,
      { 1, 2, 3 })
  end)
  local s = q:wait(o)
  for i = 1, 9 do same("value " .. i, s[i - 1], wanted[i]) end
end
try { a = 0.5, n = { 3, 4 }, on = true }
try(ffi.new("par", 0.5, { 3, 4 }, true))
same("struct", tostring(par), "type par")
local o = celer.buffer("double", 9)
local function with(...)
  local given = { n = select("#", ...), ... }
  return function(cg) cg:parallel_for(9, k, cg:discard_write(o), unpack(given, 1, given.n)) end
end
refused("takes 8 arguments after its item, got 2", function()
  q:submit(function(cg) cg:parallel_for(9, k, cg:discard_write(o), 1) end)
end)
local bad = {
  ["argument 2 of kernel f: a par has no field 'b'"] = with({ b = 1 }, true, 1, 1, 1, 1, {}),
  ["argument 3 of kernel f: expected a boolean, got a number"] = with({}, 1, 1, 1, 1, 1, {}),
  ["argument 4 of kernel f: 0.5 is no whole number"] = with({}, true, 0.5, 1, 1, 1, {}),
  ["argument 5 of kernel f: 256 does not fit"] = with({}, true, 1, 256, 1, 1, {}),
  ["argument 6 of kernel f: expected a number (float), got a string"] =
    with({}, true, 1, 1, "1", 1, {}),
}
for message, f in celer.sorted_pairs(bad) do
  local ok, got = pcall(q.submit, q, f)
  same(message, not ok and got:find(message, 1, true) ~= nil or got, true)
end
]==])

  -- g++ divided the loop over items, and had the first store come last.
  script.everywhere("keeps the last of two stores to an element", [==[
local pair = celer.struct("pair", "float x; double y; int n; float2 z;")
local k = celer.kernel [[
  kernel void k(item<2> it, in<double, 2> u, out<double, 2> v, out<pair, 2> r, int n, double low) {
    const int t[] = {2, -1, 0, 5};
    const int i = it[0], j = it[1];
    if (celer::philox_at(n, j + i, 1, 2) < 2.0 && i != 0) v(i, j) = u(i - 1, j) * (double)i;
    r(i, j).z.y = (float)lua::min<double>((double)t[i % 4], low);
    v(i, j) = 1.0;
  }
]]
local u = celer.buffer("double", { 6, 7 }, { init = function(i, j) return 100 + 7 * i + j end })
for _ = 1, 6 do
  local v = celer.buffer("double", { 6, 7 }, { init = 7 })
  local r = celer.buffer(pair, { 6, 7 }, { init = { x = 1, y = 1, n = 1, z = { x = 1, y = 1 } } })
  celer.submit(function(cg)
    cg:parallel_for({ 6, 7 }, k, cg:read(u, celer.all), cg:discard_write(v), cg:write(r), 6, 0.0)
  end)
  local s = celer.wait(v)
  for i = 0, 5 do
    for j = 0, 6 do same("v", s(i, j), 1) end
  end
end
]==])

  script.everywhere("keeps by cg:write what it does not overwrite", [==[
local n = 20
local k = celer.kernel [=[
  kernel void even(item<1> it, out<int, 1> o) { if (it[0] % 2 == 0) o(it[0]) = -1; }
  kernel void all(item<1> it, out<int, 1> o) { o(it[0]) = (int)it[0]; }
  kernel void add(item<1> it, inout<int, 1> o, in<int, 1> i) { o(it[0]) += i(it[0]); }
  kernel void two(item<1> it, inout<int, 1> a, inout<int, 1> b) {}
]=]
local o = celer.buffer("int", n, { init = function(i) return 100 + i end })
local p = celer.buffer("int", n)
q:submit(function(cg) cg:parallel_for(n, k.even, cg:write(o)) end)
q:submit(function(cg) cg:parallel_for(n, k.all, cg:discard_write(p)) end)
q:submit(function(cg) cg:parallel_for(n, k.add, cg:read_write(p), cg:read(o)) end)
q:submit(function(cg)
  cg:parallel_for(celer.box({ 3 }, { 11 }), k.all, cg:write(o, celer.one_to_one))
end)
local so, sp = q:wait(o, p)
for i = 0, n - 1 do
  local was = i % 2 == 0 and -1 or 100 + i
  same("written", so[i], i >= 3 and i < 11 and i or was)
  same("read and written", sp[i], i + was)
end
refused("use cg:read_write", function()
  q:submit(function(cg) cg:parallel_for(n, k.add, cg:discard_write(o), cg:read(p)) end)
end)
refused("use cg:discard_write or cg:write", function()
  q:submit(function(cg) cg:parallel_for(n, k.all, cg:read(o)) end)
end)
refused("passed twice", function()
  q:submit(function(cg)
    local a = cg:read_write(o)
    cg:parallel_for(n, k.two, a, a)
  end)
end)
refused("not passed to the work", function()
  q:submit(function(cg) cg:write(p) cg:parallel_for(n, k.all, cg:write(o)) end)
end)
refused("has no work", function() q:submit(function(cg) cg:read(o) end) end)
]==])

  script.everywhere("is cut at multiples of the granularity", [==[
local n = 22
local o = celer.buffer("int", n)
q:submit(function(cg)
  cg:hint { granularity = 4 }
  cg:name "cut"
  cg:host_task(n, function(part, o)
    print(part.min[0], part.max[0])
    for i = part.min[0], part.max[0] - 1 do o[i] = i end
  end, cg:discard_write(o))
end)
local k = celer.kernel " kernel void g(item<1> i, inout<int, 1> a) { a(i[0]) += 1; } "
q:submit(function(cg)
  cg:hint { granularity = 100 }
  cg:parallel_for(n, k, cg:read_write(o))
end)
local s = q:wait(o)
for i = 0, n - 1 do same("element", s[i], i + 1) end
refused("unknown hint 'granlarity', did you mean granularity?", function()
  q:submit(function(cg) cg:hint { granlarity = 4 } end)
end)
refused("at least 1, not 0", function() q:submit(function(cg) cg:hint { granularity = 0 } end) end)
]==], function(out)
      local covered = 0
      for low, high in out:gmatch("(%d+)\t(%d+)") do
        assert.equal(0, low % 4)
        assert.is_true(high % 4 == 0 or high == "22")
        covered = covered + high - low
      end
      assert.equal(22, covered)
    end)

  script.everywhere("prints", [==[
local k = celer.kernel [=[
  kernel void f(item<1> it, int v) { printf("item %d of %d\n", (int)it[0], v); }
]=]
q:submit(function(cg) cg:parallel_for(6, k, 6) end)
]==], function(out)
      local lines = script.lines(out)
      for i = 0, 5 do assert.equal(("item %d of 6"):format(i), lines[i + 1]) end
      assert.equal(6, #lines)
    end)
end)

describe("a source that does not compile", function()
  -- text, then the place and the message in what is printed.
  local cases = {
    ["is blamed where it stands when it comes by a variable"] = {
      "local text = [[\n\n  kernel void bad(item<1> it, out<int, 1> a) {\n    a(it[0]) = oops;\n"
        .. "  }\n]]\nlocal function compile(t) return celer.kernel(t) end\ncompile(text)",
      "/case.lua:5:", "oops",
    },
    ["is blamed in its column"] = {
      "local k = celer.kernel [[ kernel void bad(item<1> it, out<int, 1> a) { oops; } ]]",
      "/case.lua:2:72:", "oops", backend = "cpu", -- NVRTC tells no columns
    },
    ["is blamed where it was made when it was put together"] = {
      "local text = 'kernel void bad(item<1> it, '\n"
        .. "celer.kernel(text .. 'out<int, 1> a) { a(it[0]) = oops; }')",
      "/case.lua:3:", "oops",
    },
    ["is blamed in its own file"] = {
      "celer.kernel { file = 'bad.cu' }", "bad.cu:3:", "oops",
    },
    ["names a file that is not there"] = {
      "\nceler.kernel { file = 'none.cu' }", "/case.lua:3: ", "none.cu",
    },
    ["has only what is CUDA's own"] = { "celer.kernel '__global__ void f(int *p) {}'",
      "/case.lua:2: ", "or take `__global__` functions from a file by celer.cuda_module" },
    ["has a fraction where a whole number is wanted"] = {
      "celer.kernel('kernel void f(item<1> it, out<int, 1> a) { int i = N; a(i) = 1; }', "
        .. "{ defines = { N = 0.5 } })", "/case.lua:2:", "here write int(NAME)" },
    ["has no kernel"] = { "celer.kernel 'int x;'", "/case.lua:2: ", "the source holds no kernel" },
    ["is empty"] = { "\nlocal k = celer.kernel('')", "/case.lua:3: ",
      "the source holds no kernel" },
    ["is empty, and the script goes on"] = { "celer.kernel('')\nprint 'more'\n",
      "/case.lua:2: ", "the source holds no kernel" },
    ["is blank"] = { "-- a    b\nceler.kernel('    ')", "/case.lua:3: ",
      "the source holds no kernel" },
    ["is blank lines"] = { "\n\n\nlocal k = celer.kernel '\\n\\n'", "/case.lua:5: ",
      "the source holds no kernel" },
    ["is a comment"] = { "\nceler.kernel '// kernel void f(item<1> it) {}'", "/case.lua:3: ",
      "the source holds no kernel" },
    ["is a comment that does not end"] = { "\nceler.kernel '/* kernel void f(item<1> it) {}'",
      "/case.lua:3: ", "the source holds no kernel" },
    ["is an empty file"] = { "celer.kernel { file = 'empty.cu' }", "/empty.cu:1: ",
      "the source holds no kernel" },
    ["takes a pointer"] = {
      "celer.kernel 'kernel void f(item<1> it, int *p) {}'", "/case.lua:2:", "not by pointers",
    },
  }
  for name, case in pairs(cases) do
    for i = 1, 2 do
      it(name .. ", " .. script.shapes[i].name, function()
        local r = script.run(case[1], script.shapes[i], { files = { ["bad.cu"] =
          "// a kernel\nkernel void bad(item<1> it, out<int, 1> a) {\n  a(it[0]) = oops;\n}\n",
          ["empty.cu"] = "" }, env = { CELER_BACKEND = case.backend } })
        assert.matches(case[2], r.stderr, 1, true)
        assert.matches(case[3], r.stderr, 1, true)
        assert.equal(1, select(2, r.stderr:gsub("celer: ", "")), r.stderr)
        assert.not_equal(0, r.status)
      end)
    end
  end
end)
