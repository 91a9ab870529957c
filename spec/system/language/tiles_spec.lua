-- Tiles: work groups whose items go in step.
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

describe("tiles", function()
  script.everywhere("share local memory from one step to the next", [==[
local k = celer.kernel [=[
  // Each tile turns its part round, and adds what its neighbour held before.
  kernel void turn(tile<8> t, inout<int, 1> a, local<int, 8> mine) {
    auto next = t.per_item<int>();
    t.each([&](item<1> it) { mine[it.local(0)] = a(it[0]); });
    t.each([&](item<1> it) { next[it] = mine[(it.local(0) + 1) % t.size(0)]; });
    t.each([&](item<1> it) {
      mine[t.size(0) - 1 - it.local(0)] = 1000 * (int)t.number(0) + next[it];
    });
    t.each([&](item<1> it) { a(it[0]) = mine[it.local(0)]; });
  }
]=]
for _, tiles in ipairs { 0, 1, 5, 13 } do
  local n = 8 * tiles
  local a = celer.buffer("int", n, { init = function(i) return i end })
  q:submit(function(cg) cg:parallel_for(n, k, cg:read_write(a)) end)
  local s = q:wait(a)
  for i = 0, n - 1 do
    local first, l = i - i % 8, 7 - i % 8
    same("element", s[i], 1000 * (first / 8) + first + (l + 1) % 8)
  end
end
]==])

  script.everywhere("know where they are, in one to three dimensions", [==[
local k = celer.kernel [=[
  kernel void one(tile<3> t, out<int, 1> a) {
    t.each([&](item<1> it) {
      a(it[0]) = (int)t.number(0) * 1000 + it.local(0) * 100 + (int)it.range(0) + t.size(0)
        + (int)(it.linear() == it[0] && t.range(0) == it.range(0)) * 10000;
    });
  }
  kernel void two(tile<4, 2> t, out<int, 2> a) {
    t.each([&](auto it) {
      a(it[0], it[1]) = ((int)t.number(0) * 10 + (int)t.number(1)) * 100 + it.local(0) * 10
        + it.local(1) + (int)(t.range(1) * 1000000 + t.size(0) * 100000 + t.size(1) * 10000);
    });
  }
  kernel void three(tile<2, 4, 3> t, out<int, 3> a) {
    t.each([&](const item<3> &it) {
      int code = 0;
      for (int d = 0; d < 3; ++d) code = code * 100 + (int)t.number(d) * 10 + it.local(d);
      a(it[0], it[1], it[2]) = code + (int)it.range(2) * 1000000 + t.size(1) * 100000000;
    });
  }
]=]
local a = celer.buffer("int", 15)
q:submit(function(cg) cg:parallel_for({ 15 }, k.one, cg:discard_write(a)) end)
local b = celer.buffer("int", { 8, 6 })
q:submit(function(cg)
  cg:hint { split = "2d" }
  cg:parallel_for({ 8, 6 }, k.two, cg:discard_write(b))
end)
local c = celer.buffer("int", { 6, 4, 6 })
q:submit(function(cg)
  cg:parallel_for(celer.nd_range({ 6, 4, 6 }, { 2, 4, 3 }), k.three, cg:discard_write(c))
end)
local s, u, v = q:wait(a, b, c)
local function part(i, n) return math.floor(i / n) * 10 + i % n end
for i = 0, 14 do same("one", s[i], 10018 + math.floor(i / 3) * 1000 + i % 3 * 100) end
for i = 0, 7 do for j = 0, 5 do
  same("two", u(i, j), 6420000 + (math.floor(i / 4) * 10 + math.floor(j / 2)) * 100
    + i % 4 * 10 + j % 2)
end end
for i = 0, 5 do for j = 0, 3 do for l = 0, 5 do
  same("three", v(i, j, l), part(i, 2) * 10000 + part(j, 4) * 100 + part(l, 3) + 406000000)
end end end
]==])

  script.everywhere("keep of each item what it has of its own", [==[
local pair = celer.struct("pair", "int a; double b;")
local k = celer.kernel [=[
  kernel void keep(tile<2, 5> t, out<pair, 2> r, int rounds) {
    auto one = t.per_item<int>(7);
    auto four = t.per_item<int[4]>();
    auto both = t.per_item<pair>({3, 0.5});
    t.each([&](item<2> it) {
      for (int i = 0; i < 4; ++i) four[it][i] = i + it.local(1);
    });
    for (int i = 0; i < rounds; ++i)
      t.each([=, &one, &four, &both](item<2> it) {
        one[it] += 10 * it.local(0) + it.local(1) + i;
        four[it][i % 4] += (int)it[0];
        both[it].b *= 2;
      });
    t.each([&](item<2> it) {
      pair p = both[it];
      p.a = one[it] * 1000;
      for (int i = 0; i < 4; ++i) p.a += four[it][i];
      r(it[0], it[1]) = p;
    });
  }
]=]
local r = celer.buffer(pair, { 8, 10 })
q:submit(function(cg) cg:parallel_for({ 8, 10 }, k, cg:discard_write(r), 6) end)
local s = q:wait(r)
for i = 0, 7 do for j = 0, 9 do
  local one = 7 + 6 * (10 * (i % 2) + j % 5) + 15
  same("a", s(i, j).a, one * 1000 + 6 + 4 * (j % 5) + 6 * i)
  same("b", s(i, j).b, 32)
end end
]==])

  script.everywhere("let an item leave a step early, and a tile the kernel", [==[
local k = celer.kernel [=[
  kernel void sum(tile<16> t, in<int, 1> a, out<int, 1> sums, local<int, 16> part, int n) {
    t.each([&](item<1> it) { part[it.local(0)] = it[0] < n ? a(it[0]) : 0; });
    for (int half = 8; half > 0; half /= 2)
      t.each([&](item<1> it) {
        const int l = it.local(0);
        if (l >= half) return;
        part[l] += part[l + half];
      });
    if (t.number(0) == 2) return;
    t.each([&](item<1> it) { if (it.local(0) == 0) sums(t.number(0)) = part[0]; });
  }
]=]
local n = 77
local a = celer.buffer("int", 80, { init = function(i) return i * i end })
local sums = celer.buffer("int", 5, { init = function() return -1 end })
q:submit(function(cg)
  local r = cg:read(a)
  local w = cg:write(sums, function(c)
    return celer.box({ celer.floor(c.min[0] / 16) }, { celer.floor((c.max[0] + 15) / 16) })
  end)
  cg:parallel_for(80, k, r, w, n)
end)
local s = q:wait(sums)
for g = 0, 4 do
  local want = 0
  for i = 16 * g, math.min(16 * g + 15, n - 1) do want = want + i * i end
  same("sum", s[g], g == 2 and -1 or want)
end
]==])

  script.everywhere("reduce, to the same bits as groups do", [==[
local k = celer.kernel [=[
  kernel void of_groups(group<2> g, in<double, 2> a, reducer<double> sum, reducer<double> most,
                        reducer<int, 1> count, local<double, 32> part) {
    const int l = g.local(0) * g.size(1) + g.local(1);
    const double x = a(g.global(0), g.global(1));
    part[l] = x;
    sum += x;
    g.barrier();
    const double y = part[(l + 5) % 32];
    sum += y / 3;
    most.combine(y);
    count(int(x) % 7) += 1;
  }
  kernel void of_tiles(tile<4, 8> t, in<double, 2> a, reducer<double> sum, reducer<double> most,
                       reducer<int, 1> count, local<double, 32> part) {
    t.each([&](item<2> it) {
      const double x = a(it[0], it[1]);
      part[it.local(0) * 8 + it.local(1)] = x;
      sum += x;
    });
    t.each([&](item<2> it) {
      const double y = part[(it.local(0) * 8 + it.local(1) + 5) % 32];
      sum += y / 3;
      most.combine(y);
      count(int(a(it[0], it[1])) % 7) += 1;
    });
  }
]=]
local h, w = 36, 40
local a = celer.buffer("double", { h, w }, { init = function(i, j)
  return (i * 37 + j * 11) % 101 + 1 / (1 + i + j)
end })
local function reduce(kernel, range)
  local sum, most = celer.buffer("double", {}), celer.buffer("double", {})
  local count = celer.buffer("int", 7)
  q:submit(function(cg)
    cg:parallel_for(range, kernel, cg:read(a), cg:reduce(sum, "sum"), cg:reduce(most, "max"),
      cg:reduce(count, "sum"))
  end)
  return q:wait(sum, most, count)
end
local s, m, c = reduce(k.of_tiles, { h, w })
local want, least, counts = reduce(k.of_groups, celer.nd_range({ h, w }, { 4, 8 }))
same("sum", s(), want())
same("most", m(), least())
for i = 0, 6 do same("count", c[i], counts[i]) end
local close = 0
for i = 0, h - 1 do for j = 0, w - 1 do
  close = close + (i * 37 + j * 11) % 101 + 1 / (1 + i + j)
end end
same("about the sum", math.abs(s() / (close * 4 / 3) - 1) < 1e-12, true)
]==])

  script.everywhere("are refused where they do not fit", [==[
local k = celer.kernel [=[
  kernel void square(tile<4, 4> t, out<int, 2> a) {
    t.each([&](item<2> it) { a(it[0], it[1]) = 1; });
  }
  kernel void of_groups(group<2> g, out<int, 2> a) { a(g.global(0), g.global(1)) = 1; }
]=]
local a = celer.buffer("int", { 8, 8 })
local function run(range, kernel)
  return function()
    q:submit(function(cg) cg:parallel_for(range, kernel, cg:discard_write(a)) end)
  end
end
same("signature", tostring(k.square), "kernel square(tile<4, 4>, out<int, 2>)")
refused("cg:parallel_for: 9 items of dimension 1 are not a multiple of the tile's 4",
  run({ 8, 9 }, k.square))
refused("takes tiles of 2 dimensions, but the range has 1", run(8, k.square))
refused("takes tiles of 2 dimensions, but the range has 3", run({ 4, 4, 4 }, k.square))
refused("takes tiles of 2 dimensions, but the range has 0", run({}, k.square))
refused("tiles of its own size, not groups of {4, 2}; give it the range {8, 8} alone",
  run(celer.nd_range({ 8, 8 }, { 4, 2 }), k.square))
refused("the range must be a table of at most 3 numbers, such as {4, 8}, not",
  run(celer.box({ 4, 4 }, { 8, 8 }), k.square))
refused("takes a group: give it celer.nd_range", run({ 8, 8 }, k.of_groups))
refused("cut at multiples of 12", function()
  q:submit(function(cg)
    cg:hint { granularity = 3 }
    cg:parallel_for({ 8, 8 }, k.square, cg:discard_write(a))
  end)
end)
refused("1 argument after its tile, got 0", function()
  q:submit(function(cg) cg:parallel_for({ 8, 8 }, k.square) end)
end)

refused("a tile has 1 to 1024 items",
  function() return (celer.kernel "kernel void f(tile<32, 33> t) {}") end)
refused("a tile has 1 to 1024 items",
  function() return (celer.kernel "kernel void f(tile<0> t) {}") end)
refused("a tile has 1 to 3 dimensions",
  function() return (celer.kernel "kernel void f(tile<2, 2, 2, 2> t) {}") end)
refused("a tile of three dimensions has 64 items at most along the first",
  function() return (celer.kernel "kernel void f(tile<65, 2, 2> t) {}") end)
refused("a tile needs no barrier",
  function() return (celer.kernel "kernel void f(tile<4> t) { t.barrier(); }") end)
refused("each is for kernels of tile<...>",
  function() return (celer.kernel "kernel void f(group<1> g) { g.each([](item<1> it) {}); }") end)
refused("captured by reference: write [&], or [=, &name]", function()
  return (celer.kernel [=[
  kernel void f(tile<4> t) {
    auto x = t.per_item<int>(0);
    t.each([=](item<1> it) { x[it] += 1; });
  }
]=])
end)
refused("the kernel does not compile", function()
  return (celer.kernel [=[
  kernel void f(tile<4> t) {
    int n = 0;
    t.each([=](item<1> it) { n += 1; });
  }
]=])
end)
refused("the local memory of a group is 48 KiB at most", function()
  return (celer.kernel "kernel void f(tile<4> t, local<int, 12288> a, local<int, 1> b) {}")
end)
celer.kernel "kernel void full(tile<4> t, local<double, 6144> a) {}"
run({ 8, 8 }, k.square)()
same("written", q:wait(a)(7, 7), 1)
run({ 0, 8 }, k.square)()
]==])

  -- A kernel by chance: steps that mix what an item has of its own (V, A), what all share
  -- (S) and where it is, in loops or not, written once in each form.
  local by_chance = [==[
local dice = require "chance"
local between, chance, one_of = dice.between, dice.chance, dice.one_of

local function tile_of(dims)
  local tile, left = {}, one_of { 24, 64, 256, 1024 }
  for d = 1, dims do
    tile[d] = between(1, d == dims and left or math.min(left, 8))
    left = math.floor(left / tile[d])
  end
  return tile
end

local statements = {
  function() return ("V = V * %du + %du;"):format(between(1, 99) * 2 + 1, between(0, 99)) end,
  function(_, dims) return ("V ^= (unsigned)G(%d) * %du;"):format(between(0, dims - 1),
    between(1, 999)) end,
  function(_, dims) return ("V += L(%d) << %d;"):format(between(0, dims - 1), between(0, 9)) end,
  function() return ("A[%d] += V + %du;"):format(between(0, 2), between(0, 9)) end,
  function() return ("V -= A[%d] >> %d;"):format(between(0, 2), between(0, 5)) end,
  function() return ("if (I %% %d == %d) V = ~V;"):format(between(2, 7), between(0, 1)) end,
  function() return "F = F * 0.75f + (float)(V % 1024u) / 3;" end,
  function() return "V += (unsigned)(F * 8);" end,
  function() return ("if (V %% 5u == %du) SUM += V;"):format(between(0, 4)) end,
  function() return ("SUM += V; MOST.combine((int)(V %% %du));"):format(between(2, 999)) end,
}

-- Between two barriers shared memory is written, or read, or none of it.
local function step(items, dims)
  local out = {}
  for _ = 1, between(1, 4) do out[#out + 1] = one_of(statements)(items, dims) end
  local how, place = dice.random(3), ("(I * %d + %d + R) %% %d"):format(between(1, 9),
    between(0, 99), items)
  if how == 1 then out[#out + 1] = "S[I] = V;" end
  if how == 2 then out[#out + 1] = ("V += S[%s];"):format(place) end
  return out
end

local function program(items, dims)
  local list = { { "S[I] = V;" } }
  for _ = 1, between(1, 4) do
    local part = { rounds = chance(40) and between(1, 3) or 0 }
    for i = 1, between(1, 3) do part[i] = step(items, dims) end
    list[#list + 1] = part
  end
  return list
end

-- `form` makes one step's text of its statements.
local function write(list, form)
  local out = { form(list[1]) }
  for i = 2, #list do
    local part, steps = list[i], {}
    for s = 1, #part do steps[s] = form(part[s]) end
    local text = table.concat(steps, "\n")
    out[#out + 1] = ("for (int R = 0; R < %d; ++R) {\n%s\n}"):format(math.max(part.rounds, 1),
      text)
  end
  return table.concat(out, "\n")
end

local function coordinates(dims, how)
  local at = {}
  for d = 0, dims - 1 do at[#at + 1] = how:format(d) end
  return table.concat(at, ", ")
end

local function linear(tile, how)
  local text = "0"
  for d = 1, #tile do text = ("(%s) * %d + %s"):format(text, tile[d], how:format(d - 1)) end
  return text
end

local function source(tile, items)
  local dims, list = #tile, program(items, #tile)
  local rest = ("in<unsigned, %d> a, inout<unsigned, %d> r, reducer<unsigned> SUM, "
    .. "reducer<int> MOST, local<unsigned, %d> S"):format(dims, dims, items)
  local at = coordinates(dims, "G(%d)")
  local first = ("kernel void of_groups(group<%d> g, %s) {\n"):format(dims, rest)
    .. "#define G(d) g.global(d)\n#define L(d) (unsigned)g.local(d)\n#define I ("
    .. linear(tile, "g.local(%d)") .. ")\nunsigned V = a(" .. at
    .. "), A[3] = {};\nfloat F = 1;\nconst int R = 0;\n" .. write(list, function(s)
      return "{ " .. table.concat(s, " ") .. " }\ng.barrier();"
    end) .. "\nr(" .. at .. ") = V + A[0] * 3 + A[1] * 5 + A[2];\n}\n"
    .. "#undef G\n#undef L\n#undef I\n"
  local head = ("kernel void of_tiles(tile<%s> t, %s) {\n"):format(table.concat(tile, ", "), rest)
    .. "#define G(d) it[d]\n#define L(d) (unsigned)it.local(d)\n#define I ("
    .. linear(tile, "it.local(%d)") .. ")\n#define V v[it]\n#define A aa[it]\n#define F f[it]\n"
    .. "auto v = t.per_item<unsigned>();\nauto aa = t.per_item<unsigned[3]>();\n"
    .. "auto f = t.per_item<float>(1);\nconst int R = 0;\n"
    .. ("t.each([&](item<%d> it) { V = a(%s); A[0] = A[1] = A[2] = 0; });\n"):format(dims, at)
  local second = head .. write(list, function(s)
    return ("t.each([=, &v, &aa, &f](item<%d> it) { %s });"):format(dims, table.concat(s, " "))
  end) .. ("\nt.each([&](item<%d> it) { r(%s) = V + A[0] * 3 + A[1] * 5 + A[2]; });\n}\n"):format(
    dims, at)
  return first .. second
end

local function compare(seed)
  dice.begin(seed)
  local dims = seed % 3 + 1
  local tile, size, items = tile_of(dims), {}, 1
  for d = 1, dims do
    size[d], items = tile[d] * between(1, dims == 1 and 9 or 4), items * tile[d]
  end
  local k = celer.kernel(source(tile, items))
  local a = celer.buffer("unsigned", size, { init = function(i, j, l)
    return (i * 7919 + (j or 0) * 104729 + (l or 0) * 31) % 2 ^ 31
  end })
  local function run(kernel, range)
    local r = celer.buffer("unsigned", size, { init = function() return 5 end })
    local sum, most = celer.buffer("unsigned", {}), celer.buffer("int", {})
    q:submit(function(cg)
      if dims > 1 then cg:hint { split = "2d" } end
      cg:parallel_for(range, kernel, cg:read(a), cg:read_write(r), cg:reduce(sum, "sum"),
        cg:reduce(most, "max"))
    end)
    local s, t, m = q:wait(r, sum, most)
    return s:string(), t(), m()
  end
  local what = ("seed %d, tile {%s}, size {%s}"):format(seed, table.concat(tile, ", "),
    table.concat(size, ", "))
  local got, sum, most = run(k.of_tiles, size)
  local want, total, largest = run(k.of_groups, celer.nd_range(size, tile))
  same(what .. ": elements", got == want, true)
  same(what .. ": sum", sum, total)
  same(what .. ": most", most, largest)
end
for seed = tonumber(arg[1]), tonumber(arg[2]) do compare(seed) end
print "checked"
]==]

  for i, shape in ipairs(script.shapes) do
    it("compute what groups with barriers compute, whatever the kernel, " .. shape.name, function()
      local r = script.run(by_chance, shape, { after = { 3 * i - 2, 3 * i },
        files = { ["chance.lua"] = scratch.read("spec/random/scripts/chance.lua") } })
      assert.equal("", r.stderr)
      assert.equal("checked\n", r.stdout)
    end)
  end
end)
