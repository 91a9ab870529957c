-- Tasks that are skipped where a flag is 0: cg:when and q:when.
local script = require("spec.support.script")

local shapes = { script.shapes[1], script.shapes[2], script.shapes[3],
  { name = "on two ranks with three devices", ranks = 2, devices = 3 } }

local setup = [==[
local flag, n = celer.scalar("int", 0, { name = "flag" }), 10
local u = celer.buffer("int", { n }, { init = function(i) return i end, name = "u" })
local v = celer.buffer("int", { n }, { init = function(i) return -i end, name = "v" })
local total = celer.buffer("int", {}, { init = 77, name = "total" })
local hist = celer.buffer("int", { 3 }, { init = 5, name = "hist" })
local k = celer.kernel [=[
#define P 3
  enum color { red, green };
  kernel void copy(item<1> it, in<int, 1> u, out<int, 1> v, const int &x, color c) {
    v(it[0]) = u(it[0]) + x + c;
  }
  kernel void sum(item<1> it, in<int, 1> u, reducer<int> t, reducer<int, 1> h) {
    t += u(it[0]);
    h(it[0] % P) += 1;
  }
  kernel void tiled(tile<5> t, in<int, 1> u, local<int, 5> l, out<int, 1> v) {
    t.each([&](item<1> it) { l[it.local(0)] = u(it[0]); });
    t.each([&](item<1> it) { v(it[0]) = 3 * l[4 - it.local(0)]; });
  }
  kernel void grouped(group<1> g, in<int, 1> u, local<int, 5> l, out<int, 1> v) {
    l[g.local(0)] = u(g.global(0));
    g.barrier();
    v(g.global(0)) = l[4 - g.local(0)];
  }
  kernel void around(item<1> it, near<int, 1> u, out<int, 1> v) {
    v(it[0]) = u(it[0] - 1) + u(it[0] + 1);
  }
]=]
local lua = celer.kernel(function(i, u, v, s) v[i] = u[i] * 2 + s end)
local sum = celer.kernel(function(i, u, s) s:add(u[i]) end)
local function holds(what, f, t, h)
  local a, b, c = q:wait(v, total, hist)
  for i = 0, n - 1 do same(what .. ": v", a[i], f(i)) end
  same(what .. ": total", b(), t)
  for i = 0, 2 do same(what .. ": hist", c[i], h and h(i) or 5) end
end
]==]

describe("a flag", function()
  script.everywhere("has all kinds of work skipped, or not", setup .. [==[
local work = {
  { "copy", function(cg)
    cg:parallel_for({ n }, k.copy, cg:read(u), cg:discard_write(v), 100, 0)
  end, function(i) return i + 100 end, 77 },
  { "tiles", function(cg) cg:parallel_for({ n }, k.tiled, cg:read(u), cg:discard_write(v)) end,
    function(i) return 3 * (i - i % 5 + 4 - i % 5) end, 77 },
  { "groups", function(cg)
    cg:parallel_for(celer.nd_range({ n }, { 5 }), k.grouped, cg:read(u), cg:discard_write(v))
  end, function(i) return i - i % 5 + 4 - i % 5 end, 77 },
  { "neighbours", function(cg)
    cg:parallel_for({ n }, k.around, cg:read(u, celer.periodic(1)), cg:discard_write(v))
  end, function(i) return (i + 1) % n + (i + n - 1) % n end, 77 },
  { "a kernel in Lua", function(cg) cg:parallel_for({ n }, lua, u, v, flag) end,
    function(i) return 2 * i + 1 end, 77 },
  { "a part", function(cg)
    cg:parallel_for(celer.box({ 3 }, { 7 }), k.copy, cg:read(u), cg:write(v), 1, 1)
  end, function(i) return i >= 3 and i < 7 and i + 2 or -i end, 77 },
  { "a host task", function(cg)
    cg:host_task({ n }, function(part, a, x)
      for i = part.min[0], part.max[0] - 1 do a[i] = x end
    end, cg:discard_write(v), 9)
  end, function() return 9 end, 77 },
  { "a host task at one rank", function(cg)
    cg:host_task(celer.on_master, function(_, a) for i = 0, 9 do a[i] = i end end,
      cg:discard_write(v, celer.all))
  end, function(i) return i end, 77 },
  { "a sum", function(cg) cg:parallel_for({ n }, sum, u, celer.sum(total)) end,
    function(i) return -i end, 45 },
  { "a sum with what was there", function(cg)
    cg:parallel_for({ n }, sum, u, celer.sum(total, { include_current = true }))
  end, function(i) return -i end, 122 },
  { "two reductions", function(cg)
    cg:parallel_for({ n }, k.sum, cg:read(u), cg:reduce(total, "sum"),
      cg:reduce(hist, "sum", { include_current = true }))
  end, function(i) return -i end, 45, function(i) return i == 0 and 9 or 8 end },
}
local function fresh()
  v:fill(0)
  q:submit(function(cg)
    cg:host_task({ n }, function(part, v)
      for i = part.min[0], part.max[0] - 1 do v[i] = -i end
    end, cg:discard_write(v))
  end)
  total:set(77)
  hist:fill(5)
end
local bool = celer.scalar("bool", true)
for _, case in ipairs(work) do
  local name, f, values, t, h = unpack(case)
  for turn = 1, 2 do
    fresh()
    flag:set(0)
    q:when(flag, f)
    holds(name .. " skipped", function(i) return -i end, 77)
    flag:set(turn)
    flag:set(celer.math.min(flag, 1))
    bool:set(flag:ne(0))
    q:when(turn == 1 and bool or flag, f)
    holds(name, values, t, h)
  end
end
fresh()
flag:set(0)
q:when(flag, { n }, lua, u, v, 7)
holds("q:when of a kernel", function(i) return -i end, 77)
flag:set(1)
celer.when(flag, { n }, lua, u, v, 7)
holds("celer.when of a kernel", function(i) return 2 * i + 7 end, 77)
]==], nil, { shapes = shapes })

  script.everywhere("is looked at in the task's turn, in loops and prepared groups", setup .. [==[
local step = q:group(function(cg, to, x)
  cg:when(flag)
  cg:parallel_for({ n }, k.copy, cg:read(to), cg:discard_write(to), x, 0)
end)
local want = 0
for i = 1, 20 do
  flag:set(i % 3 < 1 and 1 or 0)
  q:submit(function(cg)
    cg:when(flag)
    cg:parallel_for({ n }, k.copy, cg:read(v), cg:discard_write(v), i, 0)
  end)
  step(v, 1000 * i)
  if i % 3 == 0 then want = want + 1001 * i end
end
holds("after all", function(i) return want - i end, 77)
]==], nil, { shapes = shapes, env = { CELER_ADVICE = "off" } })

  script.everywhere("is refused where it cannot be one, with the user's line", setup .. [==[
local f = celer.scalar("double", 1, { name = "f" })
refused("q:when: f holds double; a flag has no dimensions, and is a bool or an integer",
  function() q:when(f, { n }, lua, u, v, 1) end)
refused("q:when: u holds int in 1 dimension", function() q:when(u, { n }, lua, u, v, 1) end)
refused("an expression over buffers: set a scalar to it", function()
  q:when(flag + 1, { n }, lua, u, v, 1)
end)
refused("must be a scalar or a buffer without dimensions, not a boolean", function()
  q:when(true, { n }, lua, u, v, 1)
end)
refused("this command group has a flag already", function()
  q:when(flag, function(cg) cg:when(flag) end)
end)
refused("cg:when takes the flag alone", function()
  q:submit(function(cg) cg:when(flag, { n }, lua, u, v, 1) end)
end)
refused("the task changes its own flag flag", function()
  q:when(flag, function(cg)
    cg:host_task(celer.on_master, function(_, x) x:set(1) end, cg:discard_write(flag, celer.all))
  end)
end)
refused("an interop task cannot be skipped", function()
  q:when(flag, function(cg) cg:interop_task({ n }, print, cg:read(u)) end)
end)
refused("kernel copy(item<1>, in<int, 1>, out<int, 1>, int, color) takes 4 arguments", function()
  q:when(flag, function(cg) cg:parallel_for({ n }, k.copy, cg:read(u), cg:discard_write(v)) end)
end)
refused("the kernel declares out<int, 1>, but v is accessed with cg:read_write", function()
  q:when(flag, function(cg)
    cg:parallel_for({ n }, k.copy, cg:read(u), cg:read_write(v), 1, 1)
  end)
end)
refused("the command group has no work", function() q:when(flag, function() end) end)
refused("q:when inside the function of a q:submit", function()
  q:submit(function() q:when(flag, { n }, lua, u, v, 1) end)
end)
]==], nil, { shapes = { script.shapes[1] } })
end)

-- Programs made at random, against what Lua computes with tables. PLANT stands before.
local random = [==[
local n, programs, steps = 24, 12, 40
local k = celer.kernel [=[
  kernel void shift(item<1> it, in<int, 1> a, out<int, 1> b, int by, int x) {
    b(it[0]) = (a((it[0] + by) % it.range(0)) + x) % 1009;
  }
  kernel void change(item<1> it, inout<int, 1> a, in<int, 0> r) {
    a(it[0]) = (3 * a(it[0]) + r() + it[0]) % 1009;
  }
  kernel void reduce(item<1> it, in<int, 1> a, reducer<int> r, reducer<int, 1> h) {
    r += a(it[0]) % 10;
    h(it[0] % 4) += a(it[0]) % 7;
  }
]=]
local random = math.random
local function run(seed)
  math.randomseed(seed)
  local data, here = {}, {}
  for b = 1, 2 do
    data[b] = celer.buffer("int", { n }, { init = function(i) return i * b end })
    here[b] = {}
    for i = 0, n - 1 do here[b][i] = i * b end
  end
  local r, h, flags = celer.scalar("int", 3), celer.buffer("int", { 4 }, { init = 1 }), {}
  local here_r, here_h, here_flags = 3, { [0] = 1, 1, 1, 1 }, {}
  for f = 1, 2 do
    here_flags[f] = f == 1
    flags[f] = celer.scalar(f == 1 and "int" or "bool", f == 1 and 1 or false)
  end
  local function submit(f, work)
    if f then q:when(flags[f], work) else q:submit(work) end
    return not f or here_flags[f]
  end
  for _ = 1, steps do
    local f, a = ({ 1, 2, false })[random(3)], random(2)
    local b, x, what = 3 - a, random(50), random(6)
    if what == 1 then
      local on = random(2)
      local odd = ((r + x) % 2):ne(0)
      flags[on]:set(on == 1 and celer.select(odd, 1, 0) or odd)
      here_flags[on] = (here_r + x) % 2 == 1
    elseif what == 2 then
      local from = random(n) - 1
      local to = from + random(n - from)
      local by = random(n) - 1
      if submit(f, function(cg)
        cg:parallel_for(celer.box({ from }, { to }), k.shift, cg:read(data[a], celer.all),
          cg:discard_write(data[b]), by, x)
      end) then
        for i = from, to - 1 do here[b][i] = (here[a][(i + by) % to] + x) % 1009 end
      end
    elseif what == 3 then
      if submit(f, function(cg)
        cg:parallel_for({ n }, k.change, cg:read_write(data[a]), cg:read(r))
      end) then
        for i = 0, n - 1 do here[a][i] = (3 * here[a][i] + here_r + i) % 1009 end
      end
    elseif what == 4 then
      local onto = { include_current = random(2) == 1 }
      if submit(f, function(cg)
        cg:parallel_for({ n }, k.reduce, cg:read(data[a]), cg:reduce(r, "sum", onto),
          cg:reduce(h, "max", onto))
      end) then
        if not onto.include_current then
          here_r = 0
          for j = 0, 3 do here_h[j] = -2 ^ 31 end
        end
        for i = 0, n - 1 do
          here_r = here_r + here[a][i] % 10
          here_h[i % 4] = math.max(here_h[i % 4], here[a][i] % 7)
        end
      end
    elseif what == 5 then
      if submit(f, function(cg)
        cg:host_task({ n }, function(part, a, b, x)
          for i = part.min[0], part.max[0] - 1 do b[i] = a[i] + x end
        end, cg:read(data[a]), cg:discard_write(data[b]), x)
      end) then
        for i = 0, n - 1 do here[b][i] = here[a][i] + x end
      end
    else
      if submit(f, function(cg)
        cg:host_task(celer.at(x % celer.ranks()), function(_, r, x) r:set((r() + x) % 31) end,
          cg:read_write(r), x)
      end) then here_r = (here_r + x) % 31 end
    end
  end
  local c, d, e, g = q:wait(data[1], data[2], r, h)
  local what = "program " .. seed .. ": "
  for i = 0, n - 1 do
    same(what .. "a", c[i], here[1][i])
    same(what .. "b", d[i], here[2][i])
  end
  same(what .. "r", e(), here_r)
  for j = 0, 3 do same(what .. "h", g[j], here_h[j]) end
end
for seed = 1, programs do run(seed) end
]==]

-- What is not done right then, as text before such programs; and a word of what comes of it.
local faults = {
  ["writes that promise to overwrite"] = [[
    local set = rawset
    function rawset(t, key, value) return value == "write" and t or set(t, key, value) end
  ]],
  ["kernels that look at no flag"] = [[

    local on = celer.scalar("int", 1)

    local when = require "celer.submit.when"
    local submit = when.parallel_for
    function when.parallel_for(groups, self, flag, ...) return submit(groups, self, on, ...) end
  ]],
  ["host tasks that look at no flag"] = [[
    local when = require "celer.submit.when"
    function when.guard(f) return function(part, _, ...) return f(part, ...) end end
  ]],
}

describe("random programs with flags", function()
  script.everywhere("compute what Lua does", random, nil, { shapes = shapes })

  for name, plant in require("celer.tables").sorted_pairs(faults) do
    it("find " .. name, function()
      local r = script.run(plant:gsub("%s+", " ") .. random, shapes[4])
      assert.not_equal(0, r.status)
      assert.matches("program %d+: %w: got", r.stderr)
    end)
  end
end)
