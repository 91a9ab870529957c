-- Sums that are reproducible: the same bits on any number of ranks and devices, and in any
-- order of the items; correctly rounded.
local script = require("spec.support.script")
local scratch = require("spec.support.scratch")

local with_exact = { files = { ["exact.lua"] = scratch.read("spec/support/exact.lua") } }

local shapes = {
  { name = "on one rank", devices = 1 },
  { name = "on three devices", devices = 3 },
  { name = "on two ranks with two devices", devices = 2, ranks = 2 },
  { name = "on three ranks", devices = 1, ranks = 3 },
  { name = "on four ranks with three devices", devices = 3, ranks = 4 },
  { name = "on seven ranks", devices = 1, ranks = 7 },
}

-- Numbers of very different sizes, all in another order where `turned`; sums of them in
-- kernels of all kinds, which also print what a plain sum comes to.
local SUMS = [==[
local n, sizes = 4099, { double = 60, float = 20 }
-- And which element of an array each goes to.
local function numbers(kind, turned)
  local function place(i) return turned and (i * 1009 + 17) % n or i end
  return celer.buffer(kind, n, { init = function(i)
    i = place(i)
    return math.sin(i) * 2 ^ (i * 7 % sizes[kind] - sizes[kind] / 2)
  end }), celer.buffer("int", n, { init = function(i) return place(i) % 7 end })
end
local function put(what, ...)
  for _, b in ipairs { ... } do
    local s = q:wait(b)
    local values = {}
    if b.dims == 0 then values[1] = ("%a"):format(s()) end
    if b.dims == 1 then for i = 0, b.size[0] - 1 do values[i + 1] = ("%a"):format(s(i)) end end
    if b.dims == 2 then
      for i = 0, b.size[0] - 1 do
        for j = 0, b.size[1] - 1 do values[#values + 1] = ("%a"):format(s(i, j)) end
      end
    end
    print(what, b.type.name, table.concat(values, " "))
  end
end
local text = [=[
  kernel void items(item<1> it, in<T, 1> x, reducer<T> sum, reducer<T, 1> h, reducer<T, 2> g) {
    const T a = x(it[0]);
    sum += a;
    if (it[0] % 5 == 0) sum.combine(a * a);
    h(it[0] % 7) += a;
    g(it[0] % 3, it[0] % 5).combine(-a);
  }
  kernel void groups(group<1> g, in<T, 1> x, local<T, 4> t, reducer<T> sum, int64_t n) {
    const int64_t i = g.global(0);
    t[g.local(0)] = i < n ? x(min(i, n - 1)) : T(0);
    g.barrier();
    sum += t[3 - g.local(0)];
  }
  kernel void tiles(tile<8> t, in<T, 1> x, in<int, 1> to, reducer<T> sum, reducer<T, 1> h,
                    int64_t n) {
    t.each([&](item<1> it) {
      if (it[0] >= n) return;
      sum += x(it[0]);
      h(to(it[0])) += x(it[0]);
    });
  }
]=]
local lua = celer.kernel(function(i, x, to, sum, h, into)
  sum:add(x[i])
  h[to[i]]:add(x[i])
  into:add(x[i])
end)
local R, onto = { reproducible = true }, { reproducible = true, include_current = true }
for _, kind in ipairs { "double", "float" } do
  local k = celer.kernel(text, { defines = { T = kind } })
  for _, turned in ipairs { false, true } do
    local x, to = numbers(kind, turned)
    local function new(...) return celer.buffer(kind, { ... }, { init = 0.1 }) end
    local sum, h, g, into = new(), new(7), new(3, 5), new()
    lua(n, x, to, celer.sum(sum, R), celer.sum(h, R), celer.sum(into, onto))
    lua(n, x, to, celer.sum(sum, R), celer.sum(h, onto), celer.sum(into, onto))
    put("lua", sum, h, into)
    local function own(c) return celer.box(c.min[0], celer.min(c.max[0], n)) end
    q:submit(function(cg)
      cg:parallel_for(n + 5, k.tiles, cg:read(x, own), cg:read(to, own),
        cg:reduce(sum, "sum", R), cg:reduce(h, "sum", R), n)
    end)
    put("tiles", sum, h)
    q:submit(function(cg)
      cg:parallel_for(celer.nd_range(n + 5, 4), k.groups, cg:read(x, own),
        cg:reduce(sum, "sum", onto), n)
    end)
    put("groups", sum)
    sum:reduce("sum", x, R)
    put("whole", sum)
    sum:reduce("sum", x, onto)
    put("whole", sum)
    local go = celer.scalar("int", 1)
    q:when(go, n, lua, x, to, celer.sum(sum, onto), celer.sum(h, R), celer.sum(into, R))
    put("when", sum, h, into)
    if not turned then -- whose products are in this order
      q:submit(function(cg)
        cg:hint { oversubscribe = 3 }
        cg:parallel_for(n, k.items, cg:read(x), cg:reduce(sum, "sum", R),
          cg:reduce(h, "sum", R), cg:reduce(g, "sum", onto))
      end)
      put("items", sum, h, g)
      sum:reduce("sum", x)
      put("plain", sum)
    end
  end
end
]==]

describe("a reproducible sum", function()
  local first, plain = nil, {}

  script.everywhere("has the same bits wherever and in whatever order it is computed", SUMS,
    function(stdout)
      local lines, by_kind = {}, {}
      for line in stdout:gmatch("[^\n]+") do
        if line:find "^plain" then plain[line] = true else lines[#lines + 1] = line end
      end
      -- In another order the same.
      for _, line in ipairs(lines) do
        local what, kind = line:match("^(%l+)\t(%l+)")
        if not what:find "items" then
          by_kind[kind] = by_kind[kind] or {}
          table.insert(by_kind[kind], line)
        end
      end
      for _, list in pairs(by_kind) do
        assert.equal(0, #list % 2)
        for i = 1, #list / 2 do assert.equal(list[i], list[i + #list / 2]) end
      end
      local all = table.concat(lines, "\n")
      first = first or all
      assert.equal(first, all)
      assert.is_true(#lines > 40)
    end, { shapes = shapes })

  it("is no plain sum, whose bits depend on where it is computed", function()
    local n = 0
    for _ in pairs(plain) do n = n + 1 end
    assert.is_true(n > 2) -- more than one for each type
  end)

  script.everywhere("is the exact sum, rounded once", [==[
local exact = require "exact"
local R = { reproducible = true }
local add = celer.kernel(function(i, x, sum, h)
  sum[0]:add(x[i])
  h[i % 2]:add(x[i])
end)
local function check(kind, n, f)
  local x = celer.buffer(kind, math.max(n, 1), { init = f })
  local sum, h = celer.buffer(kind, 1, { init = 5 }), celer.buffer(kind, 2, { init = 5 })
  add(n, x, celer.sum(sum, R), celer.sum(h, R))
  local s, t, y = q:wait(sum, h, x)
  local lists = { {}, { [0] = {}, {} } }
  for i = 0, n - 1 do
    lists[1][i + 1] = y(i)
    table.insert(lists[2][i % 2], y(i))
  end
  local digits = kind == "float" and 24 or 53
  exact.check(lists[1], s(0), digits)
  for i = 0, 1 do exact.check(lists[2][i], t(i), digits) end
end
for _, kind in ipairs { "double", "float" } do
  local wide = kind == "double" and 1000 or 120
  local least = kind == "double" and 2 ^ -1074 or 2 ^ -149
  for _, n in ipairs { 0, 1, 2, 65, 1001 } do
    check(kind, n, function(i) return math.sin(i) end)
    check(kind, n, function(i) return math.sin(i) * 2 ^ (i * 37 % (2 * wide) - wide) end)
    check(kind, n, function(i) return least * (i % 11 - 5) end)
    check(kind, n, function(i) -- all but one cancel, and would overflow before
      return i == 7 and 3 or (i % 4 < 2 and 1 or -1) * 1.5 * 2 ^ (wide + 7)
    end)
  end
end
-- What is not finite, and zeros.
local function special(kind, ...)
  local values = { ... }
  local x = celer.buffer(kind, 700, { init = function(i) return values[i / 100 + 1] or 0 end })
  local t, h, c = celer.buffer(kind, 1), celer.buffer(kind, 2), celer.buffer(kind, {}, { init = 0 })
  add(700, x, celer.sum(t, R), celer.sum(h, R))
  c:reduce("sum", x, { reproducible = true, include_current = true })
  local a, b, d = q:wait(t, h, c)
  same("with what it holds", tostring(d()), tostring(a(0)))
  same("an array", tostring(b(0)), tostring(a(0)))
  return a(0)
end
local inf = math.huge
for _, kind in ipairs { "double", "float" } do
  same("inf", special(kind, 1, inf, 2), inf)
  same("-inf", special(kind, 1, inf * -1, -inf), -inf)
  local nan = special(kind, inf, 1, -inf)
  same("both", nan == nan, false)
  nan = special(kind, 1, 0 / 0, inf)
  same("NaN", nan == nan, false)
  same("0", 1 / special(kind, -0.0, -0.0, -0.0, -0.0, -0.0, -0.0, -0.0), inf)
  same("overflow", special(kind, (kind == "double" and 2 ^ 1023 or 2 ^ 127) * 1.5,
    (kind == "double" and 2 ^ 1023 or 2 ^ 127) * 1.5), inf)
  local holds = celer.buffer(kind, {}, { init = inf })
  local one = celer.buffer(kind, 3, { init = 1 })
  holds:reduce("sum", one, { reproducible = true, include_current = true })
  same("holds", q:wait(holds)(), inf)
end
]==], nil, { shapes = { shapes[1], shapes[4], shapes[5] }, files = with_exact.files })

  script.everywhere("is a plain one of whole numbers, as a least or greatest is", [==[
local R = { reproducible = true }
local k = celer.kernel [=[
  kernel void k(item<1> it, reducer<int> sum, reducer<double> most, reducer<double> real,
                reducer<uint64_t> bits, reducer<float, 1> least) {
    sum += it[0];
    most.combine(it[0] / 4.);
    real += 1e16 - it[0];
    bits.combine(1ull << it[0] % 64);
    least(it[0] % 2).combine(float(-it[0]));
  }
]=]
local sum, most, real = celer.buffer("int"), celer.buffer("double"), celer.buffer("double")
local bits, least = celer.buffer("uint64_t"), celer.buffer("float", 2)
q:submit(function(cg)
  cg:parallel_for(1000, k, cg:reduce(sum, "sum", R), cg:reduce(most, "max", R),
    cg:reduce(real, "sum", R), cg:reduce(bits, "or", R), cg:reduce(least, "min", R))
end)
local a, b, c, d, e = q:wait(sum, most, real, bits, least)
same("sum", a(), 499500)
same("max", b(), 999 / 4)
same("real", c(), 1e19 - 499500 + 44 - 44)
same("or", tonumber(d()), 2 ^ 64)
same("min", e(1), -999)
sum:reduce("sum", celer.buffer("int", 5, { init = 2 }), R)
same("whole", q:wait(sum)(), 10)
]==], nil, { shapes = { shapes[1], shapes[4] } })

  script.everywhere("is refused where it means nothing, at the user's line", [==[
local d = celer.buffer("double", {}, { name = "d" })
local v = celer.buffer("double", 10, { init = 1 })
local R = { reproducible = true }
local own = { combine = "a + b", identity = 0 }
local k = celer.kernel "kernel void k(item<1> it, reducer<double> d) { d += 1; }"
local function submit(...)
  local args = { ... }
  q:submit(function(cg) cg:parallel_for(10, k, cg:reduce(unpack(args))) end)
end
local product = "reproducible is for sums; a product of double rounds at each factor: leave the "
  .. "option out, or sum the logarithms"
refused("cg:reduce: " .. product, function()
  q:submit(function(cg) cg:parallel_for(10, k, cg:reduce(d, "prod", R)) end)
end)
refused("celer.reduce: " .. product, function() celer.reduce(d, "prod", R) return 1 end)
refused("d:reduce: " .. product, function() d:reduce("prod", v, R) return 1 end)
refused("cg:reduce: reproducible is for \"sum\"; with an operator of your own the order does not "
  .. "show if its combine is exact, as of whole numbers: leave the option out", function()
  q:submit(function(cg) cg:parallel_for(10, k, cg:reduce(d, own, R)) end)
end)
refused("celer.reduce: reproducible must be true or false, not a number", function()
  celer.sum(d, { reproducible = 1 })
  return 1
end)
refused("celer.reduce: unknown option 'reproducable', did you mean reproducible?", function()
  celer.sum(d, { reproducable = true })
  return 1
end)
refused("cg:reduce: the options must be a table such as {include_current = true}", function()
  q:submit(function(cg) cg:parallel_for(10, k, cg:reduce(d, "sum", true)) end)
end)
local fast = celer.kernel("kernel void quick(item<1> it, reducer<double> d) { d += 1; }",
  { options = { cpu = { "-ffast-math" } } })
if select(2, require("celer.core").devices()) == nil then
  refused("cg:reduce: the kernel quick has the compiler option -ffast-math, by which no sum is "
    .. "reproducible; leave one of them out", function()
    q:submit(function(cg) cg:parallel_for(10, fast, cg:reduce(d, "sum", R)) end)
  end)
end
q:submit(function(cg) cg:parallel_for(10, fast, cg:reduce(d, "sum")) end)
same("plain", q:wait(d)(), 10)
local large = celer.buffer("double", 300000)
refused("is too large to reduce into", function()
  q:submit(function(cg)
    cg:parallel_for(10, celer.kernel [=[
      kernel void k(item<1> it, reducer<double, 1> d) { d(it[0]) += 1; }
    ]=], cg:reduce(large, "sum", R))
  end)
end)
submit(d, "sum", { reproducible = false })
same("false", q:wait(d)(), 10)
]==], nil, { shapes = { shapes[1], shapes[4] } })
end)
