-- What all ranks exchange goes by collectives: the same bits as by messages,
-- fewer of these, and an end of the job when a rank dies. Between GPUs it may go by
-- messages all the same (they are shared, the ranks are two, it is little), so what is of
-- MPI's collectives alone asks for the processor.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

-- All read what all wrote, by rows and by columns of a matrix, so that what
-- travels is dense and is not; columns of what was written by rows; what rank 0
-- alone wrote, whole and in parts; rank 0 reads what all wrote, and so do three
-- chunks; parts that overlap; rows and columns of tiles; what three chunks of four
-- ranks read of one; and ranks between others without work.
local PROGRAM = [==[
local n = 60
local p = celer.buffer("double", { n, n }, { name = "p",
  init = function(i, j) return i + 2 * j end })
local w = celer.buffer("double", { n }, { name = "w" })
local d = celer.buffer("double", { n }, { name = "d" })
local t = celer.buffer("double", { n, n }, { name = "t" })
local s = celer.buffer("double", { 3 }, { name = "s", init = { 1, 2, 3 } })
local k = celer.kernel [=[
  kernel void weigh(item<1> it, in<double, 2> p, out<double, 1> w) {
    double sum = 0;
    for (int i = 0; i < 60; ++i)
      for (int j = 0; j < 60; ++j) sum += p(i, j) * ((i * it[0] + j) % 7);
    w(it[0]) = sum;
  }
  kernel void rows(item<2> it, in<double, 1> w, in<double, 1> s, inout<double, 2> p) {
    p(it[0], it[1]) = p(it[0], it[1]) * s(2) + w(it[1]) / (1 + w(it[0]));
  }
  kernel void column(item<1> it, in<double, 1> w, inout<double, 2> p) {
    for (int i = 0; i < 60; ++i) p(i, it[0]) += w(i) * 1e-3;
  }
  kernel void few(item<1> it, in<double, 1> w, out<double, 1> d) {
    for (int i = 20 * it[0]; i < 20 * it[0] + 20; ++i) d(i) = w(59 - i) + w(i) / 3;
  }
  kernel void alone(item<1> it, in<double, 1> w, out<double, 1> s) {
    for (int i = 0; i < 3; ++i) s(i) = 1 / (2 + w(i));
  }
  kernel void deal(item<1> it, in<double, 1> w, out<double, 1> d) {
    for (int i = 0; i < 60; ++i) d(i) = w(i) / (i + 1);
  }
  kernel void along(item<2> it, in<double, 2> rows, in<double, 2> columns,
                    out<double, 2> t) {
    const int i = it[0], j = it[1];
    t(i, j) = rows(i, 59 - j) + columns(59 - i, j) / 2;
  }
  kernel void near(item<1> it, in<double, 1> d, inout<double, 1> w) {
    w(it[0]) += d(it[0] > 0 ? it[0] - 1 : 0) + d(it[0] < 59 ? it[0] + 1 : 59);
  }
  kernel void take(item<1> it, in<double, 1> d, inout<double, 1> w) { w(it[0]) += d(it[0]); }
]=]
local function twenty(chunk)
  return celer.box({ 20 * chunk.min[0] }, { 20 * chunk.max[0] })
end
local function columns(chunk) return celer.box({ 0, chunk.min[0] }, { n, chunk.max[0] }) end
local uneven = celer.weights(function(rank, ranks) return rank == ranks - 2 and 0 or 1 end)
for step = 1, 3 do
  q:submit(function(cg)
    if step == 2 then cg:hint { weights = uneven } end
    cg:parallel_for(n, k.weigh, cg:read(p, celer.all), cg:discard_write(w))
  end)
  q:submit(function(cg)
    cg:parallel_for(1, k.alone, cg:read(w, celer.all), cg:discard_write(s, celer.all))
  end)
  q:submit(function(cg)
    cg:parallel_for(1, k.deal, cg:read(w, celer.all), cg:discard_write(d, celer.all))
  end)
  q:submit(function(cg) cg:parallel_for(n, k.take, cg:read(d), cg:read_write(w)) end)
  q:submit(function(cg)
    cg:parallel_for(3, k.few, cg:read(w, celer.all), cg:discard_write(d, twenty))
  end)
  q:submit(function(cg) cg:parallel_for(n, k.take, cg:read(d), cg:read_write(w)) end)
  q:submit(function(cg)
    cg:parallel_for(1, k.deal, cg:read(w, celer.all), cg:discard_write(d, celer.all))
  end)
  q:submit(function(cg)
    cg:parallel_for(3, k.few, cg:read(d, celer.all), cg:discard_write(w, twenty))
  end)
  q:submit(function(cg)
    cg:parallel_for(n, k.near, cg:read(d, celer.neighborhood(1)), cg:read_write(w))
  end)
  q:submit(function(cg)
    cg:parallel_for({ n, n }, k.rows, cg:read(w, celer.all), cg:read(s, celer.all),
      cg:read_write(p))
  end)
  for _ = 1, 2 do
    q:submit(function(cg)
      cg:hint { split = "2d" }
      cg:parallel_for({ n, n }, k.along, cg:read(p, celer.slice(1)),
        cg:read(p, celer.slice(0)), cg:discard_write(t))
    end)
    p, t = t, p
  end
  q:submit(function(cg)
    cg:parallel_for(n, k.column, cg:read(w, celer.all), cg:read_write(p, columns))
  end)
end
local got, sum = q:wait(p), 0
for i = 0, n - 1 do for j = 0, n - 1 do sum = sum + got(i, j) * (i + 1) end end
print(("%.17g"):format(sum))
]==]

local function run(ranks, devices, before)
  before = before or {}
  before[#before + 1], before[#before + 2] = "--log", "info"
  local r = script.run(PROGRAM, { ranks = ranks, devices = devices },
    { before = before })
  assert.equal(0, r.status, r.stderr)
  return r.stdout, tonumber(r.stderr:match("(%d+) messages"))
end

describe("collective patterns", function()
  for _, shape in ipairs { { 2, 1 }, { 3, 2 }, { 4, 1 } } do
    it(("give the same bits on %d ranks with %d devices"):format(unpack(shape)), function()
      local alone = run(1, 1)
      assert.equal(alone, (run(shape[1], shape[2])))
      assert.equal(alone, (run(shape[1], shape[2], { "--no-collectives" })))
    end)
  end

  it("take fewer messages than pairs of ranks do", function()
    local _, few = run(4, 1, { "--backend", "cpu" })
    local _, many = run(4, 1, { "--backend", "cpu", "--no-collectives" })
    assert.is_true(few < many, few .. " messages, " .. many)
  end)

  it("reduce to the same bits as rank 0 does", function()
    local function reduced(before)
      local r = script.run([==[
local sum = celer.buffer("double", {}, { name = "sum" })
local small = celer.buffer("uint8_t", {}, { name = "small" })
local bins = celer.buffer("int64_t", 5, { name = "bins", init = function() return 7 end })
local k = celer.kernel [[
  kernel void f(item<1> it, reducer<double> sum, reducer<int64_t, 1> bins,
                reducer<uint8_t> small) {
    sum += 1.0 / (it[0] + 1);
    small += it[0]; // wraps
    bins(it[0] % 5) += it[0];
  }
]]
for i = 1, 4 do
  q:submit(function(cg)
    cg:parallel_for(i < 3 and 2 or 1001, k, cg:reduce(sum, "sum"),
      cg:reduce(bins, "sum", { include_current = i > 1 }), cg:reduce(small, "sum"))
  end)
  local s, b, n = q:wait(sum, bins, small)
  print(("%.17g"):format(s()), b[0], b[4], n())
end]==], { ranks = 3, devices = 1 }, { before = before })
      assert.equal(0, r.status, r.stderr)
      return r.stdout
    end
    local together = reduced {}
    assert.equal(together, reduced { "--no-collectives" })
    assert.matches("1.5\t0LL\t0LL\t1\n", together, 1, true)
    assert.matches("\t20\n$", together)
  end)

  it("are drawn", function()
    local name = scratch.path()
    scratch.write(name, "local celer = require 'celer'\nlocal q = celer.queue()\n" .. PROGRAM)
    local r = celer.run({ "graph", "--ranks", "3", "--graph", "command", name })
    os.remove(name)
    assert.equal(0, r.status, r.stderr)
    assert.matches("all_gather, 504 bytes", r.stdout, 1, true) -- two boxes
    assert.matches("scatter from rank 0, 480 bytes", r.stdout, 1, true)
    assert.matches("all_to_all, 28.1 KiB", r.stdout, 1, true)
    assert.matches("gives w [0,20)", r.stdout, 1, true)
  end)

  it("are drawn where ranks reduce", function()
    local name = scratch.path()
    scratch.write(name, [==[
local celer = require "celer"
local q = celer.queue()
local most = celer.buffer("int", {}, { name = "most" })
local sums = celer.buffer("double", { 2 }, { name = "sums" })
local k = celer.kernel [[
  kernel void f(item<1> it, reducer<int> most, reducer<double, 1> sums) {
    most.combine(it[0]);
    sums(it[0] % 2) += it[0];
  }
]]
q:submit(function(cg)
  cg:parallel_for(99, k, cg:reduce(most, "max"), cg:reduce(sums, "sum"))
end)
q:wait(most, sums)
]==])
    local r = celer.run({ "graph", "--ranks", "3", "--rank", "2", "--devices", "1",
      "--graph", "command", name })
    os.remove(name)
    assert.equal(0, r.status, r.stderr)
    assert.matches("all_reduce by max, 4 bytes", r.stdout, 1, true)
    assert.matches("all_gather, 48 bytes", r.stdout, 1, true)
    assert.is_nil(r.stdout:find("push", 1, true))
  end)

  it("are drawn in groups, where some is there already, and after a gather", function()
    local name = scratch.path()
    scratch.write(name, [==[
local celer = require "celer"
local q = celer.queue()
local function zero() return 0 end
local t = celer.buffer("int", { 64, 64 }, { name = "t", init = zero })
local t2 = celer.buffer("int", { 64, 64 }, { name = "t2" })
local u = celer.buffer("int", { 64 }, { name = "u", init = zero })
local v = celer.buffer("int", { 64 }, { name = "v" })
local k = celer.kernel [=[
  kernel void tile(item<2> it, in<int, 2> t, out<int, 2> t2) { t2(it[0], it[1]) = t(it[0], 0); }
  kernel void copy(item<1> it, in<int, 1> u, out<int, 1> v) { v(it[0]) = u(it[0]); }
  kernel void look(item<1> it, in<int, 1> u) {}
]=]
for _ = 1, 2 do
  q:submit(function(cg)
    cg:hint { split = "2d" }
    cg:parallel_for({ 64, 64 }, k.tile, cg:read(t, celer.slice(1)), cg:discard_write(t2))
  end)
  t, t2 = t2, t
end
q:submit(function(cg) cg:parallel_for(64, k.copy, cg:read(u), cg:discard_write(v)) end)
for _, read in ipairs { celer.neighborhood(1), celer.all } do
  q:submit(function(cg) cg:parallel_for(64, k.look, cg:read(v, read)) end)
end
q:submit(function(cg) cg:parallel_for(64, k.copy, cg:read(v), cg:discard_write(u)) end)
for _, items in ipairs { 1, 64 } do
  q:submit(function(cg) cg:parallel_for(items, k.look, cg:read(u, celer.all)) end)
end
q:drain()
]==])
    local r = celer.run({ "graph", "--ranks", "16", "--rank", "5", "--graph", "command", name })
    os.remove(name)
    assert.equal(0, r.status, r.stderr)
    assert.matches("all_gather in groups of 4, 16.0 KiB", r.stdout, 1, true)
    assert.matches("from rank 4, 4 bytes\\lv [19,20)", r.stdout, 1, true)
    assert.matches("all_gather, 256 bytes\\lv [0,64)\\lgives v [20,24)", r.stdout, 1, true)
    assert.matches("gather to rank 0, 256 bytes\\lu [0,64)", r.stdout, 1, true)
    assert.matches("all_gather, 256 bytes\\lu [0,64)", r.stdout, 1, true)
  end)

  local function found(...)
    local r = celer.run({ "graph", "--ranks", "4", "--graph", "command", ... })
    assert.equal(0, r.status, r.stderr)
    local names = {}
    for _, words in ipairs { "all_gather,", "all_to_all,", "broadcast from", "gather to",
      "scatter from", "push\\l" } do
      if r.stdout:find(words, 1, true) then names[#names + 1] = words end
    end
    return names
  end

  it("are what the examples exchange", function()
    assert.same({ "all_gather," }, found("examples/nbody.lua"))
    assert.same({ "all_to_all," }, found("examples/transpose.lua"))
    assert.same({ "broadcast from", "gather to", "scatter from" }, found("examples/exposure.lua"))
    -- All ask for the result.
    assert.same({ "all_gather,", "broadcast from", "gather to" }, found("examples/kmeans.lua"))
  end)

  it("are what the programs of the paper exchange", function()
    local function drawn(program)
      return found("spec/bench/patterns.lua", program, "4096", "steps=2")
    end
    assert.same({ "all_gather," }, drawn "all_gather")
    assert.same({ "all_gather," }, drawn "two_all_gathers")
    assert.same({ "all_gather," }, drawn "weighted_all_gather")
    assert.same({ "broadcast from" }, drawn "broadcast")
    assert.same({ "broadcast from", "gather to" }, drawn "broadcast_gather")
    assert.same({ "gather to", "scatter from" }, drawn "scatter_gather")
    assert.same({ "all_to_all," }, drawn "all_to_all")
    assert.same({ "push\\l" }, drawn "stencil")
  end)

  it("bring captures", function()
    local text = [[
local u = celer.buffer("int", 60, { name = "u", init = function(i) return i end })
local k = celer.kernel "kernel void add(item<1> it, inout<int, 1> u) { u(it[0]) += 1; }"
q:submit(function(cg) cg:parallel_for(60, k, cg:read_write(u)) end)
same("u", q:wait(u)[59], 60)
print "checked"]]
    local three = { ranks = 3, devices = 1 }
    local r = script.run(text, three)
    assert.equal("checked\n", r.stdout, r.stderr)
    r = script.run(text, three, { before = { "--log", "info", "--backend", "cpu" } })
    assert.equal("checked\n", r.stdout, r.stderr)
    assert.matches("; 1 message with 80 bytes", r.stderr, 1, true)
  end)

  -- Open MPI would write what is longer than expected, if it is some KiB long, behind the
  -- memory that is there for it, where it copies from process to process.
  for _, how in ipairs { "--devices=1", "--no-collectives" } do
    it("do not meet where ranks mean different ones, but say so: " .. how, function()
      local r = script.run([==[
local rank = require("celer.core").rank()
local long = celer.buffer("int", 65536, { name = "long" })
local short = celer.buffer("int", 2048, { name = "short" })
local k = celer.kernel [[
  kernel void make(item<1> it, out<int, 1> u) { u(0) = 1; }
  kernel void look(item<1> it, in<int, 1> u) {}
]]
for step = 1, 40 do
  local u = (rank == 1 and step == 21) and short or long
  q:submit(function(cg) cg:parallel_for(1, k.make, cg:discard_write(u, celer.all)) end)
  q:submit(function(cg) cg:parallel_for(60, k.look, cg:read(u, celer.all)) end)
end
q:wait()
print "not reached"]==], { ranks = 3, devices = 1 }, { before = { how },
        env = { OMPI_MCA_btl_vader_single_copy_mechanism = "cma" } })
      assert.equal(1, r.status, r.stderr)
      assert.equal("", r.stdout)
      assert.matches("case.lua:11: the ranks run different programs", r.stderr, 1, true)
    end)
  end

  -- Rank 1 submits many, so that the others are in the middle of one.
  for what, setup in pairs(script.exchanges(60)) do
    it("end the job when a rank is killed while the others wait for it: " .. what, function()
      script.killed(setup, { ranks = 3, devices = 1 })
    end)
  end
end)
