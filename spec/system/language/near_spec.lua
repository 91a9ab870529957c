-- near<T, D> of kernels: what lies around an item, also beyond the buffer's edges, in 1 to
-- 3 dimensions, however the range is cut: the same as a table of Lua gives.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

local kernels = [==[
local k = celer.kernel [[
  kernel void f1(item<1> it, int p, near<int, 1> u, out<int, 1> v, int r) {
    int s = p;
    for (int a = -r; a <= r; ++a) s = (s * 31 + u[it[0] + a]) % 65521;
    v(it[0]) = s;
  }
  kernel void f2(item<2> it, int p, near<int, 2> u, out<int, 2> v, int r) {
    int s = p;
    for (int a = -r; a <= r; ++a)
      for (int b = -r; b <= r; ++b) s = (s * 31 + u(it[0] + a, it[1] + b)) % 65521;
    v(it[0], it[1]) = s;
  }
  kernel void f3(item<3> it, int p, near<int, 3> u, out<int, 3> v, int r) {
    int s = p;
    for (int a = -r; a <= r; ++a)
      for (int b = -r; b <= r; ++b)
        for (int c = -r; c <= r; ++c)
          s = (s * 31 + u(it[0] + a, it[1] + b, it[2] + c)) % 65521;
    v(it[0], it[1], it[2]) = s;
  }
]]
local leads = { periodic = function(i, n) return i % n end,
  clamped = function(i, n) return math.max(0, math.min(i, n - 1)) end,
  mirrored = function(i, n) i = i % (2 * n); return i < n and i or 2 * n - 1 - i end,
  constant = function(i, n) return i >= 0 and i < n and i or nil end }
local function value(p) return (p[1] * 10000 + (p[2] or 0) * 100 + (p[3] or 0) + 1) % 65521 end
local function wanted(kind, e, at, r, first)
  local s, p = first, {}
  local function go(d)
    if d > #e then s = (s * 31 + value(p)) % 65521 return end
    for a = -r, r do
      p[d] = leads[kind](at[d] + a, e[d])
      if p[d] then go(d + 1) else
        for _ = 1, (2 * r + 1) ^ (#e - d) do s = (s * 31 + 7) % 65521 end
      end
    end
  end
  go(1)
  return s
end
local function mapper_of(kind, r)
  if kind == "constant" then return celer.constant(7, r) end
  return celer[kind](r)
end
]==]

describe("near<T, D>", function()
  for _, shapes in ipairs { script.shapes, { script.divided[3] } } do
    script.everywhere("reads beyond edges what the mapper says", kernels .. [==[
local cases = { { { 1 }, 2 }, { { 2 }, 5 }, { { 17 }, 1 }, { { 1, 5 }, 1 }, { { 7, 11 }, 2 },
  { { 3, 2 }, 4 }, { { 1, 1, 1 }, 1 }, { { 5, 3, 7 }, 1 }, { { 2, 3, 4 }, 2 } }
local splits = { { "1d" }, { "1d", "2d" }, { "1d", "3d" } }
for number, case in ipairs(cases) do
  local e, r = case[1], case[2]
  local a = celer.buffer("int", e, { name = "a", init = function(...) return value { ... } end })
  local futures = {}
  for kind in celer.sorted_pairs(leads) do
    local b = celer.buffer("int", e, { name = "b" })
    for _, split in ipairs(splits[#e]) do
      q:submit(function(cg)
        cg:hint { split = split }
        cg:parallel_for(e, k["f" .. #e], number, cg:read(a, mapper_of(kind, r)),
          cg:discard_write(b), r)
      end)
      futures[#futures + 1] = { kind, q:fence(b) }
    end
  end
  for _, one in ipairs(futures) do
    local kind, s, p = one[1], one[2]:get(), {}
    local function go(d)
      if d > #e then
        return same(kind .. " of " .. table.concat(e, " x "), s(unpack(p)),
          wanted(kind, e, p, r, number))
      end
      for i = 0, e[d] - 1 do p[d] = i; go(d + 1) end
    end
    go(1)
  end
end
]==], nil, { shapes = shapes })
  end

  script.everywhere("has elements of any type, in tiles and where there are reducers, too", [==[
local k = celer.kernel [[
  kernel void shifted(item<2> it, near<float2, 2> u, out<float2, 2> v) {
    v(it[0], it[1]) = make_float2(u(it[0], it[1] - 1).x, u(it[0] + 1, it[1]).y);
  }
  kernel void total(item<1> it, near<int, 1> u, reducer<int> sum) {
    sum += u(it[0] + 1) * (it[0] + 1);
  }
  kernel void tiled(tile<4> t, near<int, 1> u, out<int, 1> v) {
    t.each([&](item<1> it) { v(it[0]) = u(it[0] - 1) * 10 + u(it[0] + 1); });
  }
]]
local u = celer.buffer("float2", { 3, 4 },
  { name = "u", init = function(i, j) return { x = i, y = j } end })
local v = celer.buffer("float2", { 3, 4 }, { name = "v" })
local w = celer.buffer("int", { 8 }, { name = "w", init = function(i) return i end })
local x = celer.buffer("int", { 8 }, { name = "x" })
local sum = celer.buffer("int", {}, { name = "sum" })
q:submit(function(cg)
  cg:parallel_for({ 3, 4 }, k.shifted, cg:read(u, celer.constant({ x = 0.5, y = -2 }, 1)),
    cg:discard_write(v))
end)
q:submit(function(cg)
  cg:parallel_for(8, k.total, cg:read(w, celer.periodic(1)), cg:reduce(sum, "sum"))
end)
q:submit(function(cg)
  cg:parallel_for(8, k.tiled, cg:read(w, celer.periodic(1)), cg:discard_write(x))
end)
local a, s, b = q:wait(v, sum, x)
for i = 0, 2 do
  for j = 0, 3 do
    same("x", a(i, j).x, j == 0 and 0.5 or i)
    same("y", a(i, j).y, i == 2 and -2 or j)
  end
end
local total = 0
for i = 0, 7 do
  total = total + (i + 1) % 8 * (i + 1)
  same("tiled", b(i), (i - 1) % 8 * 10 + (i + 1) % 8)
end
same("sum", s(), total)
]==], nil, { shapes = { script.shapes[1], script.shapes[2] } })

  local mistakes = [==[
local celer = require "celer"
local q = celer.queue()
local k = celer.kernel [[
  kernel void f(item<1> it, near<int, 1> u, int d, out<int, 1> v) { v(it[0]) = u(it[0] + d); }
]]
local u = celer.buffer("int", { 800 }, { name = "u", init = 1 })
local v = celer.buffer("int", { 800 }, { name = "v" })
local maps = { none = celer.neighborhood(1), value = celer.constant("x", 1),
  far = celer.periodic(1) }
q:submit(function(cg)
  cg:parallel_for(800, k, cg:read(u, maps[arg[1]]), tonumber(arg[2]), cg:discard_write(v))
end)
q:drain()
print "done"
]==]
  local folder
  before_each(function()
    folder = scratch.folder()
    scratch.write(folder .. "/m.lua", mistakes)
  end)
  after_each(function() os.execute("rm -r '" .. folder .. "'") end)

  -- The command's words, then the script's two.
  local function run(words, map, distance)
    local args = { unpack(words) }
    for _, word in ipairs { folder .. "/m.lua", map, distance } do args[#args + 1] = word end
    return celer.run(args, { env = { CELER_CACHE = folder .. "/cache", CELER_NO_SAMPLE = "0" } })
  end

  it("stays in its buffer where items lie outside, which checks tell", function()
    local r = script.run([==[
local k = celer.kernel [[
  kernel void f(item<1> it, near<int, 1> u, out<int, 1> v) {
    v(it[0]) = (u(it[0] - 1) * 10 + u(it[0])) * 10 + u(it[0] + 1);
  }
]]
local u, v = celer.buffer("int", 3, { init = function(i) return i + 1 end }), celer.buffer("int", 9)
for _, kind in ipairs { "periodic", "clamped", "mirrored" } do
  q:submit(function(cg)
    cg:parallel_for(9, k, cg:read(u, celer[kind](1)), cg:discard_write(v))
  end)
  local found, all = q:wait(v), {}
  for i = 0, 8 do all[i + 1] = found(i) end
  print(table.concat(all, " "))
end
]==], { devices = 1, before = { "--no-sample" } })
    assert.equal("312 123 231 312 123 231 312 123 231\n112 123 233 333 333 333 333 333 333\n"
      .. "112 123 233 332 321 211 112 123 233\n", r.stdout)
  end)

  it("is refused where a mapper says nothing of edges, or a constant is no element", function()
    local r = run({ "run" }, "none", "1")
    assert.matches("m.lua:11: .*argument 1 of kernel f: the kernel declares near<int, 1>, but "
      .. "the mapper of the access to u does not say what lies beyond its edges", r.stderr)
    assert.not_equal(0, r.status)
    r = run({ "run" }, "value", "1")
    assert.matches("m.lua:11: .*argument 1 of kernel f: celer.constant of its access", r.stderr)
    assert.not_equal(0, r.status)
  end)

  it("is held to its reach by checks", function()
    -- Of samples, too, which the processor alone takes of such kernels.
    assert.equal(0, run({ "build", "--backend", "cpu" }, "far", "1").status)
    for _, words in ipairs {
      { "run", "--check-bounds" }, { "check" }, { "run", "--backend", "cpu" },
    } do
      local r = run(words, "far", "1")
      assert.matches("done", r.stdout)
      assert.equal(0, r.status, r.stderr)
      r = run(words, "far", "-2")
      assert.not_equal(0, r.status)
      assert.matches("m.lua:11: .*touches", r.stdout .. r.stderr)
    end
    local r = run({ "run", "--check-bounds" }, "far", "-2")
    local item, element, begins = r.stderr:match("kernel f: item %((%d+)%) touches element "
      .. "%((%-?%d+)%) of argument 1, near<int, 1>, whose mapper promises %[(%-?%d+), ")
    assert.equal(item - 2, tonumber(element), r.stderr)
    assert.is_true(tonumber(element) < tonumber(begins), r.stderr)
  end)
end)
