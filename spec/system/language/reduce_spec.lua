-- Reductions: operators, one element and arrays, chains, and what is refused.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

local both = {}
for _, list in ipairs { script.shapes, script.divided } do
  for _, shape in ipairs(list) do both[#both + 1] = shape end
end

describe("a reduction", function()
  script.everywhere("combines by every operator, for every type", [==[
local n = 1003
local function value(i) return i * 37 % 101 + 1 end
local text = [=[
  kernel void numbers(item<1> it, in<T, 1> a, reducer<T> sum, reducer<T> prod, reducer<T> least,
                      reducer<T> most) {
    const T x = a(it[0]);
    sum += x;
    if (it[0] % 200 == 7) prod.combine(2);
    least.combine(x);
    most.combine(x);
  }
  kernel void bits(item<1> it, in<T, 1> a, reducer<T> all, reducer<T> any) {
    all.combine(a(it[0]));
    any.combine(a(it[0]));
  }
]=]
local function expect(from, f)
  local r = from
  for i = 0, n - 1 do r = f(r, value(i)) end
  return r
end
local sum = expect(0, function(a, b) return a + b end)
local least, most = expect(1000, math.min), expect(-1, math.max)
local all, any = expect(127, bit.band), expect(0, bit.bor)
for _, t in ipairs { "int", "uint64_t", "int64_t", "float", "double", "uint8_t" } do
  local k = celer.kernel(text, { defines = { T = t } })
  local a, o = celer.buffer(t, n, { init = value }), {}
  for i = 1, 6 do o[i] = celer.buffer(t, {}, { init = 3 }) end
  local function numbers(size)
    q:submit(function(cg)
      cg:parallel_for(size, k.numbers, cg:read(a), cg:reduce(o[1], "sum"),
        cg:reduce(o[2], "prod"), cg:reduce(o[3], "min"), cg:reduce(o[4], "max"))
    end)
    local s = { q:wait(o[1], o[2], o[3], o[4]) }
    for i = 1, 4 do s[i] = tonumber(s[i]()) end
    return unpack(s)
  end
  local s, p, l, m = numbers(n)
  same(t .. " sum", s, t == "uint8_t" and sum % 256 or sum)
  same(t .. " prod", p, 32)
  same(t .. " min", l, least)
  same(t .. " max", m, most)
  if t ~= "float" and t ~= "double" then
    q:submit(function(cg)
      cg:parallel_for(n, k.bits, cg:read(a), cg:reduce(o[5], "and"), cg:reduce(o[6], "or"))
    end)
    local x, y = q:wait(o[5], o[6])
    same(t .. " and", tonumber(x()), all)
    same(t .. " or", tonumber(y()), any)
  end
  s, p, l, m = numbers(0) -- nothing combined: the identities
  same(t .. " sum of nothing", s, 0)
  same(t .. " prod of nothing", p, 1)
  same(t .. " min of nothing", l, ({ int = 2 ^ 31 - 1, uint64_t = 2 ^ 64, int64_t = 2 ^ 63,
    uint8_t = 255 })[t] or math.huge)
  same(t .. " max of nothing", m, ({ int = -2 ^ 31, uint64_t = 0, int64_t = -2 ^ 63,
    uint8_t = 0 })[t] or -math.huge)
end
local k = celer.kernel [=[
  kernel void some(item<1> it, reducer<bool> any, reducer<bool> all, reducer<double> prod,
                   int which) {
    any.combine(it[0] == which);
    all.combine(it[0] != which);
    if (it[0] % 100 == 3) prod.combine(2);
  }
]=]
local any, all = celer.buffer("bool"), celer.buffer("bool", { 1, 1, 1 })
local prod = celer.buffer("double", { 1 }, { init = { 0.75 } })
for _, which in ipairs { 900, -1 } do
  q:submit(function(cg)
    cg:parallel_for(n, k, cg:reduce(any, "or"), cg:reduce(all, "and"),
      cg:reduce(prod, "prod", { include_current = true }), which)
  end)
  local x, y = q:wait(any, all)
  same("any", x(), which == 900)
  same("all", y(0, 0, 0), which ~= 900)
end
same("prod", q:wait(prod)(0), 0.75 * 2 ^ 20)
]==], nil, { shapes = script.shapes })

  script.everywhere("comes to a NaN by min and max where there is one, whoever has it", [==[
local text = [=[
  kernel void items(item<1> it, in<T, 1> u, reducer<T> a, reducer<T> b, reducer<T, 1> c,
                    reducer<T, 2> d) {
    const int i = it[0];
    a.combine(u(i));
    b.combine(u(i));
    c(i % 5).combine(u(i));
    d(i % 2, i % 3).combine(u(i));
  }
  kernel void groups(group<1> g, in<T, 1> u, reducer<T> a, reducer<T> b, reducer<T, 1> c,
                     reducer<T, 2> d) {
    const int i = g.global(0);
    a.combine(u(i));
    b.combine(u(i));
    c(i % 5).combine(u(i));
    d(i % 2, i % 3).combine(u(i));
  }
  kernel void begin(item<1> it, out<T, 1> u, int odd) {
    u(it[0]) = it[0] == odd ? T(NAN) : T((it[0] * 37 + 11) % 101);
  }
  kernel void all_know(item<1> it, in<T, 0> a, in<T, 0> b, out<T, 2> out) {
    out(it[0], 0) = a();
    out(it[0], 1) = b();
  }
]=]
local function best(op, odd, first, last, by)
  local r
  for i = first, last, by do
    local x = i == odd and 0 / 0 or (i * 37 + 11) % 101
    if not r or x ~= x or op == "min" and x < r or op == "max" and x > r then r = x end
    if r ~= r then return r end
  end
  return r
end
local function both(what, got, wanted)
  if wanted == wanted or got == got then same(what, got, wanted) end
end
for _, t in ipairs { "float", "double" } do
  local k = celer.kernel(text, { defines = { T = t } })
  local a, b = celer.buffer(t, {}, { init = 0 / 0 }), celer.buffer(t, {}, { init = 7 })
  local c, d = celer.buffer(t, { 5 }), celer.buffer(t, { 2, 3 })
  for _, n in ipairs { 12, 2400, 40008 } do
    local u, out = celer.buffer(t, { n }), celer.buffer(t, { 16, 2 })
    for _, odd in ipairs { -1, 0, n - 1, math.floor(n / 2) } do
      q:submit(function(cg) cg:parallel_for({ n }, k.begin, cg:discard_write(u), odd) end)
      for _, kind in ipairs { "items", "groups" } do
        q:submit(function(cg)
          local range = kind == "items" and { n } or celer.nd_range({ n }, { 12 })
          cg:parallel_for(range, k[kind], cg:read(u), cg:reduce(a, "min"),
            cg:reduce(b, "max"), cg:reduce(c, "min"), cg:reduce(d, "max"))
        end)
        q:submit(function(cg)                          -- on each rank
          local x, y = cg:read(a, celer.all), cg:read(b, celer.all)
          cg:parallel_for({ 16 }, k.all_know, x, y, cg:discard_write(out, function(chunk)
            return celer.box({ chunk.min[0], 0 }, { chunk.max[0], 2 })
          end))
        end)
        local what = ("%s of %d %s with a NaN at %d"):format(t, n, kind, odd)
        local sa, sb, sc, sd, so = q:wait(a, b, c, d, out)
        both(what .. " min", sa(), best("min", odd, 0, n - 1, 1))
        both(what .. " max", sb(), best("max", odd, 0, n - 1, 1))
        for i = 0, 15 do
          both(what .. " min everywhere", so(i, 0), best("min", odd, 0, n - 1, 1))
          both(what .. " max everywhere", so(i, 1), best("max", odd, 0, n - 1, 1))
        end
        for i = 0, 4 do both(what .. " mins", sc(i), best("min", odd, i, n - 1, 5)) end
        for i = 0, 5 do
          both(what .. " maxs", sd(i % 2, i % 3), best("max", odd, i, n - 1, 6))
        end
      end
    end
    -- What the buffer holds is one of them.
    q:submit(function(cg) cg:parallel_for({ n }, k.begin, cg:discard_write(u), -1) end)
    a:fill(0 / 0)
    q:submit(function(cg)
      local v, onto = cg:read(u), { include_current = true }
      cg:parallel_for({ n }, k.items, v, cg:reduce(a, "max", onto), cg:reduce(b, "min"),
        cg:reduce(c, "min"), cg:reduce(d, "max"))
    end)
    local sa = q:wait(a)()
    same("onto a NaN", sa ~= sa, true)
  end
end
]==], nil, { shapes = { script.shapes[1], script.shapes[3], script.divided[2],
    { name = "on seven ranks", devices = 1, ranks = 7 } } })

  script.everywhere("discards what was there, or goes on from it", [==[
local count = celer.kernel [=[
  kernel void count(item<2> it, reducer<int> n) { if (it[0] <= it[1]) n += 1; }
]=]
local n = celer.buffer("int", {}, { name = "n", init = 1000 })
local function run(size, options)
  q:submit(function(cg) cg:parallel_for({ size, size }, count, cg:reduce(n, "sum", options)) end)
end
run(30, { include_current = true })
same("onto the first contents", q:wait(n)(), 1000 + 465)
run(30)
same("discarded", q:wait(n)(), 465)
run(3)
run(4, { include_current = true })
run(0, { include_current = true })
run(5, { include_current = true })
same("a chain", q:wait(n)(), 6 + 10 + 15)
run(0)
same("nothing", q:wait(n)(), 0)
for i = 1, 40 do run(i, { include_current = i % 10 ~= 1 }) end
local wanted = 0
for i = 31, 40 do wanted = wanted + i * (i + 1) / 2 end
same("a long chain", q:wait(n)(), wanted)
]==], nil, { shapes = both })

  script.everywhere("makes histograms, of arrays of any dimensionality", [==[
local n = 5000
local data = celer.buffer("int", n, { init = function(i) return i * i % 97 end })
local k = celer.kernel [=[
  kernel void one(item<1> it, in<int, 1> a, reducer<int, 1> h) { h(a(it[0])) += 1; }
  kernel void two(item<1> it, in<int, 1> a, reducer<double, 2> h) {
    h.combine(a(it[0]) / 10, a(it[0]) % 10, 0.5);
  }
  kernel void three(item<1> it, in<int, 1> a, reducer<float, 3> h) {
    const int v = a(it[0]);
    h(v / 50, v / 10 % 5, v % 10).combine(it[0]);
  }
]=]
local wanted, last = {}, {}
for i = 0, n - 1 do
  local v = i * i % 97
  wanted[v], last[v] = (wanted[v] or 0) + 1, i
end
local h1, h2 = celer.buffer("int", 97), celer.buffer("double", { 10, 10 })
local h3 = celer.buffer("float", { 2, 5, 10 }, { init = function() return 4950 end })
q:submit(function(cg) cg:parallel_for(n, k.one, cg:read(data), cg:reduce(h1, "sum")) end)
q:submit(function(cg) cg:parallel_for(n, k.two, cg:read(data), cg:reduce(h2, "sum")) end)
q:submit(function(cg)
  cg:parallel_for(n, k.three, cg:read(data), cg:reduce(h3, "max", { include_current = true }))
end)
local a, b, c = q:wait(h1, h2, h3)
for v = 0, 96 do
  same("one", a(v), wanted[v] or 0)
  same("two", b(math.floor(v / 10), v % 10), (wanted[v] or 0) / 2)
  same("three", c(math.floor(v / 50), math.floor(v / 10) % 5, v % 10),
    math.max(last[v] or 0, 4950))
end
]==], nil, { shapes = both })

  -- The same items into few elements and, far apart, into many: each block then has
  -- begun a few lines of its row. GPUs sum arrays up in whatever order.
  script.everywhere("comes to the same bits in a large array as in a small one", [==[
local text = [=[
  kernel void some(item<1> it, reducer<double, 1> s, reducer<double, 1> p, reducer<float, 2> l,
                   reducer<int, 1> b, reducer<double, 3> own, int far) {
    const int i = it[0], e = i % 5;
    if (i % 11 == 0) return;
    const double x = (i % 3 - 1) / (i + 1.);
    s(e * far).combine(x);
    p(e * far) += 1 + x;
    l(0, e * far).combine(i == 1203 ? float(NAN) : float(x));
    b(e * far).combine(1 << i % 31);
    own(e * far, 0, 0) += -x;
  }
]=]
local k = celer.kernel(text)
local function run(n, far, options)
  local size = 4 * far + 1
  local s, p = celer.buffer("double", size, { init = 0.1 }), celer.buffer("double", size)
  local l, b = celer.buffer("float", { 1, size }), celer.buffer("int", size, { init = 64 })
  local own = celer.buffer("double", { size, 1, 1 })
  q:submit(function(cg)
    cg:parallel_for({ n }, k, cg:reduce(s, "sum", options), cg:reduce(p, "prod"),
      cg:reduce(l, "min"), cg:reduce(b, "or", options),
      cg:reduce(own, { combine = "a + b", identity = 0 }), far)
  end)
  local a, c, d, e, f = q:wait(s, p, l, b, own)
  local out, rest = {}, 0
  for i = 0, 4 do
    -- In place what the array holds comes first, not last.
    out[#out + 1] = (options and "%.14f %a %a %d %a" or "%a %a %a %d %a"):format(a(i * far),
      c(i * far), d(0, i * far), e(i * far), f(i * far, 0, 0))
  end
  for i = 0, size - 1 do
    local untouched = i % far ~= 0 or n == 0
    if untouched and not (c(i) == 1 and d(0, i) == math.huge and f(i, 0, 0) == 0
      and a(i) == (options and 0.1 or 0) and e(i) == (options and 64 or 0)) then
      rest = rest + 1
    end
  end
  return table.concat(out, "\n"), rest
end
for _, n in ipairs { 0, 7, 300, 3001 } do
  for _, options in ipairs { false, { include_current = true } } do
    local few = run(n, 1, options or nil)
    for _, far in ipairs { 7, 1900 } do
      local many, wrong = run(n, far, options or nil)
      same(("%d items into every %dth element"):format(n, far), many, few)
      same("of those that no item came to", wrong, 0)
    end
  end
end
]==], nil, { before = { "--backend", "cpu" }, shapes = { script.shapes[1], script.shapes[3],
    script.divided[2], { name = "on seven ranks", devices = 1, ranks = 7 } } })

  it("costs memory for what items come to, not for all of each block's array", function()
    local r = script.run([==[
local function peak()
  for line in io.lines "/proc/self/status" do
    local kib = line:match "^VmHWM:%s*(%d+)"
    if kib then return tonumber(kib) end
  end
end
local k = celer.kernel [[
  kernel void one(item<1> it, reducer<int, 1> h, int far) { h(it[0] * far) += 1; }
]]
local function run(far)
  local h = celer.buffer("int", 1000 * far)
  q:submit(function(cg) cg:parallel_for({ 1000 }, k, cg:reduce(h, "sum"), far) end)
  local s = q:wait(h)
  assert(s(0) == 1 and s(far) == 1 and s(999 * far) == 1 and (far == 1 or s(far + 1) == 0))
end
run(1)
local before = peak()
run(64) -- 64 blocks' rows are 16 MiB
print(peak() - before)
]==], script.shapes[1], { before = { "--backend", "cpu" } })
    assert.equal("", r.stderr)
    assert.is_true(tonumber(r.stdout) < 4096, r.stdout)
  end)

  it("marks and checks what it comes to of a large array", function()
    local text = [==[
local k = celer.kernel [[
  kernel void f(item<1> it, reducer<int, 2> h, int far) { h(it[0] % 3, it[0] * far) += 1; }
]]
local h = celer.buffer("int", { 3, 5000 }, { name = "h" })
local function run(far)
  q:submit(function(cg) cg:parallel_for(20, k, cg:reduce(h, "sum"), far) end)
end
run(250)
local s = q:wait(h)
print(s(1, 4750), s(0, 0), s(1, 0), s(2, 4999))
run(264)
q:wait()
]==]
    local r = script.run(text, script.shapes[1], { before = { "--check-bounds" } })
    assert.equal("1\t1\t0\t0\n", r.stdout, r.stderr)
    assert.matches("item %(19%) touches element %(1, 5016%) of argument 1", r.stderr)
    local path = scratch.path(".lua")
    scratch.write(path, 'local celer = require "celer"\nlocal q = celer.queue()\n' .. text)
    r = celer.run { "check", path }
    assert.matches("1\t1\t0\t0\n", r.stdout)
    assert.matches("%(1, 5016%)", r.stdout .. r.stderr)
  end)

  script.everywhere("may be of no elements", [==[
local none = celer.buffer("int", { 0 }, { name = "none" })
local k = celer.kernel "kernel void look(item<1> it, reducer<int, 1> none) {}"
q:submit(function(cg) cg:parallel_for({ 12 }, k, cg:reduce(none, "sum")) end)
same("elements", q:wait(none).size[0], 0)
]==])

  script.everywhere("takes operators of one's own", [==[
local best = celer.struct("best", "float value; int at;")
local span = celer.struct("span", "int low, high;")
local n = 2000
local k = celer.kernel [=[
  kernel void find(item<1> it, in<float, 1> a, reducer<best> most, reducer<best> least,
                   reducer<span> where, reducer<long> third) {
    const int i = it[0];
    const float x = a(i);
    most.combine({x, i});
    least.combine({x, i});
    if (x > 90) where.combine({i, i + 1});
    third.combine(i);
  }
]=]
local function value(i) return (i * 7919 + 13) % 1999 / 20 end
local a = celer.buffer("float", n, { init = value })
local most, least = celer.buffer(best), celer.buffer(best)
local where, third = celer.buffer(span), celer.buffer("int64_t")
for _ = 1, 2 do
  q:submit(function(cg)
    cg:parallel_for(n, k, cg:read(a),
      cg:reduce(most, { identity = { value = -1, at = 0 },
        combine = "a.value > b.value || (a.value == b.value && a.at < b.at) ? a : b" }),
      cg:reduce(least, { identity = { value = 1e9, at = 0 },
        combine = "a.value < b.value || (a.value == b.value && a.at < b.at) ? a : b" }),
      cg:reduce(where, { identity = { low = 1e9, high = -1 },
        combine = "span{min(a.low, b.low), max(a.high, b.high)}" }),
      cg:reduce(third, { combine = [[
        (a + b) % 1000003
      ]], identity = 0 }))
  end)
end
local w = { most = -1, least = 1e9, low = n }
for i = 0, n - 1 do
  local v = value(i)
  if v > w.most then w.most, w.most_at = v, i end
  if v < w.least then w.least, w.least_at = v, i end
  if v > 90 then w.low, w.high = math.min(w.low, i), i + 1 end
end
local m, l, s, t = q:wait(most, least, where, third)
same("most", m().at, w.most_at)
same("least", l().at, w.least_at)
same("low", s().low, w.low)
same("high", s().high, w.high)
same("third", tonumber(t()), n * (n - 1) / 2 % 1000003)
]==], nil, { shapes = both })

  script.everywhere("takes an operator of one's own as it is by then", [==[
local s, operator = celer.buffer("int", {}), { combine = "a + b", identity = 0 }
local k = celer.kernel(function(i, s) s:combine(i) end)
local function give() k(9, celer.reduce(s, operator)) end
for _ = 1, 4 do give() end
same("sum", s(), 36)
operator.combine = "a < b ? b : a"
give()
same("the largest", s(), 8)
operator.identity = 50
give()
same("at least", s(), 50)
celer.struct("most", "int value; int at;")
local m, own = celer.buffer("most", {}), { combine = "a.value < b.value ? b : a",
  identity = { value = -1, at = 0 } }
local w = celer.buffer("most", 9, { init = function(i) return { value = i % 7, at = i } end })
local find = celer.kernel(function(i, w, m) m:combine(w[i]) end)
local in_c = celer.kernel [=[
  kernel void find(item<1> it, in<most, 1> w, reducer<most> m) { m.combine(w(it[0])); }
]=]
for _, submit in ipairs {
  function() find(9, w, celer.reduce(m, own)) end,
  function() q:submit(function(cg) cg:parallel_for(9, in_c, cg:read(w), cg:reduce(m, own)) end) end,
} do
  for turn = 1, 2 do
    own.identity.value = turn == 1 and -1 or 50
    for _ = 1, 4 do submit() end
    same("the largest struct", m().value, turn == 1 and 6 or 50)
  end
end
]==], nil, { shapes = { script.shapes[1] } })

  script.everywhere("works in groups, with barriers and with items that return", [==[
local k = celer.kernel [=[
  kernel void turn(group<1> g, in<int, 1> a, local<int, 8> mine, reducer<int> sum,
                   reducer<unsigned, 1> seen) {
    const int l = g.local(0);
    mine[l] = a(g.global(0));
    if (l == 5) return;
    g.barrier();
    sum += mine[(l + 1) % 8] * l;
    seen(l) += 1u;
    g.barrier();
    if (l < 3) return;
    g.barrier();
    sum += l;
  }
  kernel void grid(group<3> g, reducer<long> sum) { sum += g.global(0) * g.global(2) + g.local(1); }
]=]
for _, groups in ipairs { 1, 7, 100 } do
  local n = 8 * groups
  local a = celer.buffer("int", n, { init = function(i) return i % 100 end })
  local sum, seen = celer.buffer("int"), celer.buffer("unsigned", 9)
  q:submit(function(cg)
    cg:parallel_for(celer.nd_range(n, 8), k.turn, cg:read(a), cg:reduce(sum, "sum"),
      cg:reduce(seen, "sum"))
  end)
  local wanted = 0
  for i = 0, n - 1 do
    local l = i % 8
    if l ~= 5 then
      wanted = wanted + (i - l + (l + 1) % 8) % 100 * l + (l >= 3 and l or 0)
    end
  end
  local s, v = q:wait(sum, seen)
  same("sum", s(), wanted)
  for l = 0, 8 do same("seen", v(l), (l == 5 or l == 8) and 0 or groups) end
end
local sum = celer.buffer("int64_t")
q:submit(function(cg)
  cg:parallel_for(celer.nd_range({ 6, 4, 10 }, { 2, 4, 5 }), k.grid, cg:reduce(sum, "sum"))
end)
same("grid", tonumber(q:wait(sum)()), 15 * 45 * 4 + 6 * 60)
]==], nil, { shapes = both })

  script.everywhere("is read by tasks of one, some and all ranks, and by none", [==[
local n = 600
local k = celer.kernel [=[
  kernel void fill(item<1> it, out<double, 1> a, in<double, 0> s) { a(it[0]) = it[0] + s(); }
  kernel void sum(item<1> it, in<double, 1> a, reducer<double> s) { s += a(it[0]); }
]=]
local s = celer.buffer("double", {}, { name = "s", init = 1 })
local a = celer.buffer("double", n, { name = "a" })
local wanted = 1
for i = 1, 12 do
  q:submit(function(cg) cg:parallel_for(n, k.fill, cg:discard_write(a), cg:read(s, celer.all)) end)
  q:submit(function(cg) cg:parallel_for(n, k.sum, cg:read(a), cg:reduce(s, "max")) end)
  q:submit(function(cg) cg:parallel_for(n, k.sum, cg:read(a), cg:reduce(s, "sum")) end)
  wanted = (n * (n - 1) / 2 + n * wanted) % 1024
  q:submit(function(cg)
    local v = cg:read_write(s)
    cg:host_task(celer.once, function(_, v) v:set(v() % 1024) end, v)
  end)
end
same("the chain", q:wait(s)(), wanted)
local seen = celer.buffer("double", 8)
q:submit(function(cg)
  local v, o = cg:read(s, celer.all), cg:discard_write(seen)
  cg:host_task({ 8 }, function(part, v, o)
    for i = part.min[0], part.max[0] - 1 do o:set(i, v()) end
  end, v, o)
end)
local got = q:wait(seen)
for i = 0, 7 do same("on every rank", got(i), wanted) end
q:submit(function(cg) cg:parallel_for(n, k.sum, cg:read(a), cg:reduce(s, "sum")) end)
]==], nil, { shapes = both })

  -- Sums of fractions, which rounding makes another in every order.
  local ROUNDING = [==[
local n = 100003
local a = celer.buffer("float", n, { init = function(i) return 1 / (i + 1) end })
local s = celer.buffer("float")
local k = celer.kernel [=[
  kernel void f(item<1> it, in<float, 1> a, reducer<float> s) { s += a(it[0]); }
]=]
local text = {}
for i = 1, 5 do
  q:submit(function(cg) cg:parallel_for(n - i, k, cg:read(a), cg:reduce(s, "sum")) end)
  text[i] = ("%.9g"):format(q:wait(s)())
end
print(table.concat(text, " "))
]==]

  it("gives all ranks the same bits, run after run", function()
    for _, shape in ipairs(both) do
      local first
      for turn = 1, 3 do
        local r = script.run(ROUNDING, shape, { before = { "--output", "all" } })
        assert.equal("", r.stderr)
        local lines, counts = script.lines(r.stdout)
        assert.equal(shape.ranks or 1, #lines, shape.name)
        assert.equal(1, counts[0])
        first = first or lines[1]
        for _, line in ipairs(lines) do assert.equal(first, line, shape.name .. turn) end
      end
    end
  end)

  -- Into elements at the items' own coordinates, into others, and into an array that is short.
  local ARRAYS = [==[
local celer = require "celer"
local q = celer.queue()
local n = 5000
local k = celer.kernel [=[
  kernel void f(item<2> it, reducer<float, 1> own, reducer<float, 1> others,
                reducer<float, 1> few) {
    const float x = 1.0f / (1 + it[0] * 37 + it[1]);
    own(it[1]) += x;
    others((it[1] * 7 + it[0]) % 5000) += x;
    few(it[1] % 50) += x;
  }
]=]
for _, range in ipairs { { 40, n }, { 1, n }, { 300, 17 }, { 3, 1 }, { 0, n } } do
  local out = {}
  for i, size in ipairs { n, n, 50 } do
    out[i] = celer.buffer("float", size, { init = function(at) return 1 / (at + i) end })
  end
  for _, onto in ipairs { true, false, true } do
    q:submit(function(cg)
      local to = {}
      for i = 1, 3 do to[i] = cg:reduce(out[i], "sum", { include_current = onto }) end
      cg:parallel_for(range, k.f, unpack(to))
    end)
    for i = 1, 3 do
      local v, sum = q:wait(out[i]), 0
      for at = 0, v.extents[1] - 1 do sum = (sum * 31 + v(at) * 2 ^ 40) % 2 ^ 45 end
      print(range[1], onto, ("%.0f"):format(sum))
    end
  end
end
]==]

  it("gives the same bits on one core and on all", function()
    if not io.popen("command -v taskset"):read("*l") then return pending("no taskset") end
    local name = scratch.path(".lua")
    scratch.write(name, ARRAYS)
    local words = { celer.command(), "run", "--backend", "cpu", "--advice", "off", name }
    local all = celer.exec(words)
    for i, word in ipairs { "taskset", "-c",
      io.open("/proc/self/status"):read("*a"):match("Cpus_allowed_list:%s*(%d+)") } do
      table.insert(words, i, word)
    end
    local one = celer.exec(words)
    assert.equal("", all.stderr)
    assert.equal(45, select(2, all.stdout:gsub("\n", "")))
    assert.equal(all.stdout, one.stdout)
  end)

  script.everywhere("is refused where it means nothing, at the user's line", [==[
local k = celer.kernel [=[
  kernel void scalar(item<1> it, reducer<float> s) { s += 1; }
  kernel void array(item<1> it, reducer<float, 2> s) { s(0, 0) += 1; }
  kernel void with(item<1> it, in<float, 1> a, reducer<float> s) { s += a(it[0]); }
  kernel void writes(item<1> it, out<float, 0> s) { s() = 1; }
  kernel void reads(item<1> it, in<float, 0> f, reducer<float> s) { s += f(); }
]=]
local f = celer.buffer("float", {}, { name = "f", init = 0 })
local d = celer.buffer("double", {}, { name = "d" })
local g = celer.buffer("float", { 3, 4 }, { name = "g" })
local b, i = celer.buffer("bool", {}, { name = "b" }), celer.buffer("int", 5, { name = "i" })
local v = celer.buffer("float3", {}, { name = "v" })
local large = celer.buffer("float", 2 ^ 25, { name = "large" })
local array1 = celer.kernel "kernel void f(item<1> it, reducer<float, 1> s) { s(0) += 1; }"
refused("argument 1 of kernel scalar: the kernel declares reducer<float>, of one element, "
  .. "but g has 12; reducer<float, 2> reduces into each", function()
  q:submit(function(cg) cg:parallel_for(4, k.scalar, cg:reduce(g, "sum")) end)
end)
refused("the kernel declares reducer<float, 2>, but f has 0 dimensions", function()
  q:submit(function(cg) cg:parallel_for(4, k.array, cg:reduce(f, "sum")) end)
end)
refused("the kernel declares reducer<float>, but d holds double", function()
  q:submit(function(cg) cg:parallel_for(4, k.scalar, cg:reduce(d, "sum")) end)
end)
refused("the kernel declares reducer<float>, but f is accessed with cg:read_write; use cg:reduce",
  function()
    q:submit(function(cg) cg:parallel_for(4, k.scalar, cg:read_write(f, celer.all)) end)
  end)
refused("the kernel declares out<float, 0>, but f is accessed with cg:reduce; use "
  .. "cg:discard_write or cg:write", function()
  q:submit(function(cg) cg:parallel_for(4, k.writes, cg:reduce(f, "sum")) end)
end)
refused("'f' is reduced into and accessed as well; make that two tasks", function()
  q:submit(function(cg)
    cg:parallel_for(4, k.reads, cg:read(f, celer.all), cg:reduce(f, "sum"))
  end)
end)
refused("'large' is too large to reduce into: every device has a copy of all of it, of 64 MiB "
  .. "at most", function()
  q:submit(function(cg) cg:parallel_for(4, array1, cg:reduce(large, "sum")) end)
end)
refused("f is reduced into, which only kernels do", function()
  q:submit(function(cg)
    local s = cg:reduce(f, "sum")
    cg:host_task(celer.once, function() end, s)
  end)
end)
refused("the access to f (cg:reduce) is declared but not passed to the work", function()
  q:submit(function(cg)
    cg:reduce(f, "sum")
    cg:host_task(celer.once, function() end)
  end)
end)
refused("unknown operator 'sun', did you mean sum?", function()
  q:submit(function(cg) cg:reduce(f, "sun") end)
end)
refused("the operator must be a word such as \"sum\" or a table, not nil", function()
  q:submit(function(cg) cg:reduce(f) end)
end)
refused("\"or\" does not combine the float of f; it is for whole numbers", function()
  q:submit(function(cg) cg:reduce(f, "or") end)
end)
refused("\"sum\" does not combine the bool of b; it is for numbers", function()
  q:submit(function(cg) cg:reduce(b, "sum") end)
end)
refused("\"sum\" does not combine the float3 of v; give an operator of your own", function()
  q:submit(function(cg) cg:reduce(v, "sum") end)
end)
refused("unknown option 'include'; there are include_current", function()
  q:submit(function(cg) cg:reduce(f, "sum", { include = true }) end)
end)
refused("include_current must be true or false, not a number", function()
  q:submit(function(cg) cg:reduce(f, "sum", { include_current = 1 }) end)
end)
refused("takes its identity", function()
  q:submit(function(cg) cg:reduce(f, { combine = "a + b" }) end)
end)
refused("the identity for i: 0.5 is no whole number", function()
  q:submit(function(cg) cg:reduce(i, { combine = "a + b", identity = 0.5 }) end)
end)
refused("combine must be C++", function()
  q:submit(function(cg) cg:reduce(i, { combine = function() end, identity = 0 }) end)
end)
refused("the first argument must be a buffer, not a string", function()
  q:submit(function(cg) cg:reduce("f", "sum") end)
end)
q:submit(function(cg) cg:parallel_for(4, k.scalar, cg:reduce(f, "sum")) end)
same("after all that", q:wait(f)(), 4)
]==], nil, { shapes = { script.shapes[1] } })

  it("names the line of an operator that does not compile", function()
    local r = script.run([==[
local k = celer.kernel "kernel void f(item<1> it, reducer<float> s) { s += 1; }"
local f = celer.buffer("float")
q:submit(function(cg)
  cg:parallel_for(4, k, cg:reduce(f, { combine = "a + c", identity = 0 }))
end)
]==], script.shapes[1])
    assert.equal(1, r.status)
    assert.matches("case%.lua:5: .*\n[^\n]*case%.lua:5.*c", r.stderr)
  end)

  it("is within the array that it has, with --check-bounds", function()
    local r = script.run([==[
local k = celer.kernel [[
  kernel void f(item<1> it, reducer<float> s, reducer<int, 2> h, int far) {
    s += 1;
    h(it[0] % 3, it[0] == 7 ? far : 1) += 1;
  }
]]
local s, h = celer.buffer("float"), celer.buffer("int", { 3, 2 }, { name = "h" })
local function run(far)
  q:submit(function(cg)
    cg:parallel_for(20, k, cg:reduce(s, "sum"), cg:reduce(h, "sum"), far)
  end)
end
run(0)
local x, y = q:wait(s, h)
print(x(), y(1, 0), y(0, 1))
run(4)
q:wait()
]==], script.shapes[1], { before = { "--check-bounds" } })
    assert.equal("20\t1\t7\n", r.stdout)
    assert.matches("item %(7%) touches element %(1, 4%) of argument 2, reducer<int, 2>, whose "
      .. "mapper promises %[0, 3%) x %[0, 2%) to this chunk; the buffer is h\n", r.stderr)
  end)

  it("is the same on ranks with different numbers of devices", function()
    local path = scratch.path(".lua")
    scratch.write(path, [==[
local celer = require "celer"
local q = celer.queue()
local k = celer.kernel [=[
  kernel void f(item<1> it, reducer<int> n, reducer<double> sum) { n += 1; sum += it[0]; }
]=]
local n, sum = celer.buffer("int", {}), celer.buffer("double", {})
q:submit(function(cg)
  cg:parallel_for(1000, k, cg:reduce(n, "sum"), cg:reduce(sum, "sum"))
end)
local a, b = q:wait(n, sum)
print(a(), b())
]==])
    local argv = { "mpirun", "--oversubscribe", "--allow-run-as-root" }
    for rank, devices in ipairs { 1, 2, 1 } do
      if rank > 1 then argv[#argv + 1] = ":" end
      for _, word in ipairs { "-n", 1, celer.command(), "run", "--backend", "cpu",
        "--devices", devices, path } do argv[#argv + 1] = word end
    end
    local r = celer.exec(argv)
    assert.equal("", r.stderr)
    assert.equal("1000\t499500\n", r.stdout)
  end)

  it("costs no more tasks when nobody wants to know", function()
    local function tasks(text)
      local r = script.run([==[
local s = celer.buffer("float", {}, { init = 0 })
local k = celer.kernel "kernel void f(item<1> it, reducer<float> s) { s += 1; }"
for i = 1, 100 do
  q:submit(function(cg) cg:parallel_for(100, k, cg:reduce(s, "sum")) end)
]==] .. text .. "\nend", { devices = 1 }, { before = { "--profile" } })
      assert.equal(0, r.status)
      return tonumber((r.stderr .. r.stdout):match("combine%s+(%d+)") or 0)
    end
    assert.equal(0, tasks(""))
    assert.equal(100, tasks("if i % 10 == 0 then q:fence(s) end") * 10)
  end)
end)
