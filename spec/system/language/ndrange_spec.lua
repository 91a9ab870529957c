-- Work groups: barriers, local memory, atomics, and what is refused.
local celer = require("spec.support.celer")
local cuda = require("spec.device.cuda")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

describe("work groups", function()
  script.everywhere("share local memory and wait for each other", [==[
local k = celer.kernel [=[
  // Each group turns its part round, and adds what its neighbour held before.
  kernel void turn(group<1> g, inout<int, 1> a, local<int, 8> mine) {
    const int l = g.local(0), n = g.size(0);
    mine[l] = a(g.global(0));
    g.barrier();
    const int next = mine[(l + 1) % n];
    g.barrier();
    mine[n - 1 - l] = 1000 * (int)g.number(0) + next;
    g.barrier();
    a(g.global(0)) = mine[l];
  }
]=]
for _, groups in ipairs { 1, 5, 13 } do
  local n = 8 * groups
  local a = celer.buffer("int", n, { init = function(i) return i end })
  q:submit(function(cg) cg:parallel_for(celer.nd_range(n, 8), k, cg:read_write(a)) end)
  local s = q:wait(a)
  for i = 0, n - 1 do
    local first, l = i - i % 8, 7 - i % 8
    same("element", s[i], 1000 * (first / 8) + first + (l + 1) % 8)
  end
end
]==])

  script.everywhere("know where they are, in three dimensions", [==[
local k = celer.kernel [=[
  kernel void where(group<3> g, out<int, 3> a) {
    int code = 0;
    for (int d = 0; d < 3; ++d)
      code = code * 100 + (int)g.number(d) * 10 + g.local(d);
    a(g.global(0), g.global(1), g.global(2)) = code + (int)g.range(2) * 1000000
      + g.size(1) * 100000000;
  }
]=]
local a = celer.buffer("int", { 6, 4, 6 })
q:submit(function(cg)
  cg:parallel_for(celer.nd_range({ 6, 4, 6 }, { 2, 4, 3 }), k, cg:discard_write(a))
end)
local s = q:wait(a)
local function part(i, n) return math.floor(i / n) * 10 + i % n end
for i = 0, 5 do for j = 0, 3 do for l = 0, 5 do
  same("place", s(i, j, l), part(i, 2) * 10000 + part(j, 4) * 100 + part(l, 3) + 6000000
    + 400000000)
end end end
]==])

  script.everywhere("go on without items that have returned", [==[
local k = celer.kernel [=[
  kernel void sum(group<1> g, in<int, 1> a, out<int, 1> sums, local<int, 16> part, int n) {
    const int l = g.local(0);
    part[l] = g.global(0) < n ? a(g.global(0)) : 0;
    g.barrier();
    for (int half = 8; half > 0; half /= 2) {
      if (l < half) part[l] += part[l + half];
      g.barrier();
    }
    if (l == 0) sums(g.number(0)) = part[0];
  }
  kernel void early(group<1> g, out<int, 1> a) {
    if (g.local(0) % 3 == 1) { a(g.global(0)) = -1; return; }
    g.barrier();
    a(g.global(0)) = g.local(0);
  }
  // In group n the first n items return; of the last group all but one.
  kernel void late(group<1> g, out<int, 1> a, local<int, 1> shared) {
    const int l = g.local(0), n = g.number(0) < 4 ? (int)g.number(0) : 15;
    a(g.global(0)) = -1;
    if (l < n) return;
    for (int turn = n; turn < 16; ++turn) {
      if (l == turn) shared[0] = 100 * turn;
      g.barrier();
      a(g.global(0)) = shared[0] + l;
      g.barrier();
    }
  }
]=]
local n = 77
local a = celer.buffer("int", 80, { init = function(i) return i * i end })
local sums = celer.buffer("int", 5)
q:submit(function(cg)
  local r = cg:read(a)
  local w = cg:discard_write(sums, function(c)
    return celer.box({ celer.floor(c.min[0] / 16) }, { celer.floor((c.max[0] + 15) / 16) })
  end)
  cg:parallel_for(celer.nd_range(80, 16), k.sum, r, w, n)
end)
q:submit(function(cg)
  cg:parallel_for(celer.nd_range(80, 16), k.early, cg:discard_write(a))
end)
local s, e = q:wait(sums, a)
for g = 0, 4 do
  local want = 0
  for i = 16 * g, math.min(16 * g + 15, n - 1) do want = want + i * i end
  same("sum", s[g], want)
end
for i = 0, 79 do same("early", e[i], i % 16 % 3 == 1 and -1 or i % 16) end
q:submit(function(cg)
  cg:parallel_for(celer.nd_range(80, 16), k.late, cg:discard_write(a))
end)
local t = q:wait(a)
for i = 0, 79 do
  local l, first = i % 16, i < 64 and math.floor(i / 16) or 15
  same("late", t[i], l < first and -1 or 1500 + l)
end
]==])

  script.everywhere("keep large variables over a barrier", [==[
local k = celer.kernel [=[
  kernel void keep(group<1> g, out<int, 1> a) {
    volatile int mine[20000]; // more than a stack usually has
    for (int i = 0; i < 20000; ++i) mine[i] = i + (int)g.global(0);
    g.barrier();
    int kept = 0;
    for (int i = 0; i < 20000; ++i) kept += mine[i] == i + (int)g.global(0);
    a(g.global(0)) = kept;
  }
]=]
local a = celer.buffer("int", 24)
q:submit(function(cg) cg:parallel_for(celer.nd_range(24, 4), k, cg:discard_write(a)) end)
local s = q:wait(a)
for i = 0, 23 do same("kept", s[i], 20000) end
]==])

  script.everywhere("count together by atomics", [==[
local k = celer.kernel [=[
  kernel void zero(item<1> it, out<int, 1> h, out<int, 0> m) { h(it[0]) = 0; m() = 0; }
  kernel void count(item<1> it, in<int, 1> a, inout<int, 1> h, inout<int, 0> m) {
    atomicAdd(&h(a(it[0])), 1);
    atomicMax(&m(), a(it[0]));
  }
]=]
local n = 4000
local a = celer.buffer("int", n, { init = function(i) return i * i % 7 end })
local h, m = celer.buffer("int", 7), celer.buffer("int")
q:submit(function(cg)
  cg:hint { granularity = 7 }
  cg:parallel_for(7, k.zero, cg:discard_write(h), cg:discard_write(m, celer.all))
end)
q:submit(function(cg)
  cg:hint { granularity = n }
  local r, w, x = cg:read(a), cg:read_write(h, celer.all), cg:read_write(m, celer.all)
  cg:parallel_for(n, k.count, r, w, x)
end)
local s, x = q:wait(h, m)
local want = {}
for i = 0, n - 1 do want[i * i % 7] = (want[i * i % 7] or 0) + 1 end
for v = 0, 6 do same("count", s[v], want[v] or 0) end
same("most", x(), 4)
]==])

  -- For GPUs alone: a processor's compiler does not know them.
  describe("vote and shuffle within warps", function()
    local text = [==[
local k = celer.kernel [=[
  kernel void warps(group<1> g, in<int, 1> a, out<int, 1> sum, out<unsigned, 1> odd) {
    const int mine = a(g.global(0));
    const unsigned vote = __ballot_sync(0xffffffffu, mine & 1);
    int all = mine;
    for (int by = 16; by > 0; by /= 2) all += __shfl_xor_sync(0xffffffffu, all, by);
    if (g.local(0) % warpSize == 0) {
      sum(g.global(0) / warpSize) = all;
      odd(g.global(0) / warpSize) = __popc(vote);
    }
  }
]=]
local n = 4096
local a = celer.buffer("int", n, { init = function(i) return i * i % 11 end })
local sum, odd = celer.buffer("int", n / 32), celer.buffer("unsigned", n / 32)
local function warps(chunk) return celer.box({ chunk.min[0] / 32 }, { chunk.max[0] / 32 }) end
q:submit(function(cg)
  cg:parallel_for(celer.nd_range(n, 128), k, cg:read(a), cg:discard_write(sum, warps),
    cg:discard_write(odd, warps))
end)
local s, o = q:wait(sum, odd)
for w = 0, n / 32 - 1 do
  local all, votes = 0, 0
  for i = 32 * w, 32 * w + 31 do
    all, votes = all + i * i % 11, votes + i * i % 11 % 2
  end
  same("sum", s[w], all)
  same("votes", o[w], votes)
end
print "checked"
]==]

    for _, shape in ipairs(script.gpus) do
      it(shape.name, function()
        if cuda.no_gpu then return pending(cuda.no_gpu) end
        local r = script.run(text, shape, { before = { "--backend", "cuda" } })
        assert.equal("checked\n", r.stdout, r.stderr)
      end)
    end

    it("in kernels that compile", function()
      if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
      local path = scratch.path(".lua")
      scratch.write(path, 'local celer = require "celer" local q = celer.queue()\n'
        .. (text:gsub("local s, o = q:wait.*", "")))
      local r = celer.run { "build", "--arch", "sm_90", path }
      os.remove(path)
      assert.equal(0, r.status, r.stderr)
      assert.matches("celer: build: %d compiled", r.stderr)
    end)
  end)

  script.everywhere("of all sizes take turns with one kernel", [==[
local backend = require("celer.core").devices()
local k = celer.kernel [=[
  kernel void add(group<1> g, inout<int, 1> a, local<int, 1024> mine) {
    const int l = g.local(0);
    mine[l] = a(g.global(0));
    g.barrier();
    a(g.global(0)) += mine[g.size(0) - 1 - l] + g.size(0);
  }
]=]
local n = 2048
local a = celer.buffer("int", n, { init = function(i) return i end })
local want = {}
for i = 0, n - 1 do want[i] = i end
for _, size in ipairs { 64, 1024, 256, 512, 1024, 128 } do
  q:submit(function(cg) cg:parallel_for(celer.nd_range(n, size), k, cg:read_write(a)) end)
  local old = {}
  for i = 0, n - 1 do old[i] = want[i] end
  for i = 0, n - 1 do
    local l = i % size
    want[i] = old[i] + old[i - l + size - 1 - l] + size
  end
  local info = k:info(size)
  local most = size <= 256 and 256 or size
  same("threads", info.threads_per_block, backend == "cuda" and most or nil)
end
local s = q:wait(a)
for i = 0, n - 1 do same("element", s[i], want[i]) end
]==])

  script.everywhere("are refused where they do not fit", [==[
local k = celer.kernel [=[
  kernel void of_groups(group<2> g, out<int, 2> a) { a(g.global(0), g.global(1)) = 1; }
  kernel void of_items(item<2> it, out<int, 2> a) { a(it[0], it[1]) = 1; }
]=]
local a = celer.buffer("int", { 8, 8 })
local function run(range, kernel)
  return function()
    q:submit(function(cg) cg:parallel_for(range, kernel, cg:discard_write(a)) end)
  end
end
refused("9 items of dimension 1 are not a multiple of the group's 4",
  function() celer.nd_range({ 8, 9 }, { 4, 4 }) end)
refused("2 dimensions and the group 1", function() celer.nd_range({ 8, 8 }, 4) end)
refused("at least one item", function() celer.nd_range({ 8, 8 }, { 0, 4 }) end)
refused("65 items along the first of three dimensions; 64 are the most",
  function() celer.nd_range({ 65, 2, 2 }, { 65, 1, 1 }) end)
refused("4096 items; 1024 are the most", function() celer.nd_range({ 64, 64 }, { 64, 64 }) end)
refused("takes a group: give it celer.nd_range", run({ 8, 8 }, k.of_groups))
refused("the local memory of a group is 48 KiB at most", function()
  local l = celer.kernel [=[
    kernel void large(group<1> g, local<double, 6144> a, local<char, 1> b) { a[0] = b[0]; }
  ]=]
  return l
end)
refused("the local memory of a group is 48 KiB at most", function()
  local l = celer.kernel "kernel void f(group<1> g, local<double, 6144> a, reducer<int, 1> r) {}"
  return l
end)
refused("the local memory of a group is 48 KiB at most", function()
  local l = celer.kernel "kernel void f(group<1> g, local<double, 6112> a, reducer<double> r) {}"
  return l
end)
celer.kernel "kernel void full(group<1> g, local<double, 6144> a) {}"
celer.kernel "kernel void full(group<1> g, local<double, 6104> a, reducer<double> b) {}"
refused("takes no group", run(celer.nd_range({ 8, 8 }, { 4, 4 }), k.of_items))
refused("takes a group<2>, but the range has 1 dimension", run(celer.nd_range(8, 4), k.of_groups))
run(celer.nd_range({ 8, 8 }, { 4, 2 }), k.of_groups)()
same("written", q:wait(a)(7, 7), 1)
run(celer.nd_range({ 0, 8 }, { 4, 2 }), k.of_groups)()
]==])
end)
