-- celer run --dry-run N: what is scheduled is what a real run schedules, nothing
-- is executed, and scripts get along with that.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local cuda = require("spec.device.cuda")
local script = require("spec.support.script")

local SCALE = [[
__global__ void scale(float *u, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) u[i] = by;
}
]]

local function dry(text, ranks, rank, more, backend)
  local before = { "--backend", backend or "cpu", "--dry-run", ranks, "--as-rank", rank or 0 }
  for _, word in ipairs(more or {}) do before[#before + 1] = word end
  return script.run(text, { devices = 1 }, { before = before, files = { ["scale.cu"] = SCALE } })
end

-- The report of a dry run that went well.
local function report(text, ranks, rank, more, backend)
  local path = scratch.path()
  local words = { "--report", path }
  for _, word in ipairs(more or {}) do words[#words + 1] = word end
  local r = dry(text, ranks, rank, words, backend)
  assert.equal(0, r.status, r.stderr)
  local out = cjson.decode(scratch.read(path))
  os.remove(path)
  return out, r
end

-- Halos, a gather, a broadcast, a host task, a capture.
local PROGRAM = [==[
local n = 480
local k = celer.kernel [=[
  kernel void step(item<2> it, in<float, 2> u, out<float, 2> v) {
    v(it[0], it[1]) = u(max(it[0] - 1, 0), it[1]);
  }
  kernel void spread(item<2> it, in<float, 2> u, inout<float, 2> v) {
    v(it[0], it[1]) += u(it.range(0) - 1 - it[0], 0);
  }
]=]
local u = celer.buffer("float", { n, 8 }, { name = "u", init = function(i) return i end })
local v = celer.buffer("float", { n, 8 }, { name = "v" })
for i = 1, 20 do
  q:submit(function(cg)
    cg:parallel_for({ n, 8 }, k.step, cg:read(u, celer.neighborhood(1, 0)), cg:discard_write(v))
  end)
  u, v = v, u
  if i % 7 == 0 then
    q:submit(function(cg)
      cg:parallel_for({ n, 8 }, k.spread, cg:read(u, celer.all), cg:read_write(v))
    end)
    q:submit(function(cg)
      cg:host_task(celer.on_master, function() end, cg:read(u, celer.all))
    end)
  end
end
q:wait(celer.capture(u, celer.box({ 100, 2 }, { 300, 5 })))
]==]

local function summary(r)
  local tasks, messages, bytes = r.stderr:match("(%d+) tasks, %d+ instructions in [^;]*; "
    .. "(%d+) messages with (%d+) bytes")
  return { tasks = tonumber(tasks), messages = tonumber(messages), bytes = tonumber(bytes) }
end

describe("a dry run", function()
  it("schedules what a real run does", function()
    for _, ranks in ipairs { 1, 3 } do
      local real = script.run(PROGRAM, { devices = 1, ranks = ranks > 1 and ranks or nil },
        { before = { "--backend", "cpu", "--log", "info" } })
      assert.equal(0, real.status, real.stderr)
      local imagined = dry(PROGRAM, ranks, 0, { "--log", "info" })
      assert.same(summary(real), summary(imagined))
      assert.is_true(summary(real).tasks > 24, real.stderr)
      assert.is_true(ranks == 1 or summary(real).bytes > 0)
    end
  end)

  it("sends on all ranks what others receive", function()
    for _, fold in ipairs { 1, 3 } do
      local sent, received, messages = 0, 0, 0
      for rank = 0, 4 do
        local m = report(PROGRAM, 5, rank, { "--fold", fold }).messages
        sent, received = sent + m.bytes_sent, received + m.bytes_received
        messages = messages + m.sent - m.received
        assert.is_true(m.peers >= 1 and m.peers <= 4)
        assert.is_true(m.collectives > 0 and m.bytes_shared > 0)
      end
      assert.is_true(sent > 0)
      assert.equal(sent, received)
      assert.equal(0, messages)
    end
  end)

  it("says what it scheduled, as which rank", function()
    local out, r = report(PROGRAM, 65536, 300)
    assert.equal(300, out.rank)
    assert.equal(65536, out.ranks)
    assert.equal(25, out.tasks) -- with the one that captures
    assert.equal(22, out.kernels) -- a row is this rank's
    assert.is_true(out.seconds.wall > 0 and out.seconds.scheduler > 0)
    assert.truthy(r.stderr:find("celer: dry run as rank 300 of 65536, 1 device; nothing "
      .. "was executed\ntasks +25 +in [%d.]+ s: %d+ per second\n"), r.stderr)
    assert.truthy(r.stderr:find("cost of a task +[%d.]+ us +main", 1), r.stderr)
  end)

  it("counts the same of a script that takes its time", function()
    local grows = [==[
local k = celer.kernel "kernel void up(item<2> it, out<int, 2> u) { u(it[0], it[1]) = 1; }"
local u = celer.buffer("int", { 4, 40 })
for i = 1, 4 do
  q:submit(function(cg)
    cg:parallel_for(celer.box({ 0, 0 }, { 4, 10 * i }), k, cg:write(u))
  end)
  WAIT
end
]==]
    local at_once = report(grows:gsub("WAIT", ""), 2)
    local slowly = report(grows:gsub("WAIT", 'os.execute "sleep 0.1"'), 2)
    assert.equal(at_once.allocations, slowly.allocations)
    assert.equal(at_once.instructions, slowly.instructions)
  end)

  it("schedules for GPUs that are not here", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    local plain = report(PROGRAM, 4, 1, { "--fold", 1 })
    local out = report(PROGRAM, 4, 1, { "--devices", 2, "--fold", 1 }, "cuda")
    assert.equal(2, out.devices)
    assert.equal(3, #out.memory)
    assert.equal(2 * plain.kernels, out.kernels)
    assert.equal(plain.messages.bytes_sent, out.messages.bytes_sent)
    assert.is_true(out.bytes_copied > 0)
    local r = dry([==[
      local u = celer.buffer("float", 256, { name = "u" })
      local k = celer.cuda_module("scale.cu", { block = 64 }).scale
      q:submit(function(cg)
        cg:parallel_for(256, k, cg:discard_write(u), celer.chunk_size(), 3)
      end)
      print(q:drain(u)[0], k:info().architecture)
    ]==], 4, 3, {}, "cuda")
    assert.truthy(r.stdout:find("^0\tsm_%d+\n$"), r.stdout .. r.stderr)
  end)

  it("accounts memory and takes none", function()
    local BIG = [==[
      local n = 1000 * 12.5e9
      local k = celer.kernel [=[
        kernel void copy(item<1> it, in<double, 1> v, out<double, 1> u) { u(it[0]) = v(it[0]); }
      ]=]
      local u = celer.buffer("double", n, { name = "u" })
      local v = celer.buffer("double", n, { name = "v", init = function(i) return i end })
      for _ = 1, 4 do
        q:submit(function(cg)
          cg:parallel_for(n, k, cg:read(v, celer.neighborhood(1)), cg:discard_write(u))
        end)
        u, v = v, u
      end
      print(q:drain(celer.capture(u, celer.box({ 5 }, { 5 + 4e9 })))(3e9))
    ]==]
    local out, r = report(BIG, 1000, 500)
    assert.equal("0\n", r.stdout)
    local host = out.memory[1].peak
    assert.is_true(host >= 2 * 1e11 and host < 2.6e11, tostring(host))
    out = report(BIG, 1000, 500, { "--devices", 2, "--device-memory", "40G" })
    assert.equal(3, #out.memory)
    for device = 0, 1 do
      local memory = out.memory[device + 2]
      assert.equal(device, memory.device)
      assert.equal(40 * 2 ^ 30, memory.limit)
      assert.is_true(memory.peak > 35 * 2 ^ 30 and memory.peak <= memory.limit)
    end
    assert.is_true(out.bytes_copied > 1e11) -- it does not fit
  end)

  it("runs neither kernels, host tasks, objects nor initial contents", function()
    local r = dry([==[
      local k = celer.kernel [=[
        kernel void crash(item<1> it, out<int, 1> v) { *(volatile int *)0 = v(it[0]) = 1; }
      ]=]
      local v = celer.buffer("int", 64, { name = "v", init = function() error("init") end })
      local log = celer.host_object(function() error("made") end,
        { name = "log", destructor = function() error("ended") end })
      q:submit(function(cg) cg:parallel_for(64, k, cg:discard_write(v)) end)
      q:submit(function(cg)
        cg:host_task(celer.on_master, function() error("host") end, cg:read(v, celer.all),
          cg:side_effect(log))
      end)
      q:submit(function(cg)
        cg:host_task(celer.collective(), function(part) part.comm:barrier() error("all") end,
          cg:read(v, celer.even_split))
      end)
      q:submit(function(cg)
        cg:interop_task({ 64 }, function() error("interop") end, cg:read_write(v))
      end)
      celer.io.save("dry.npy", v)
      refused("a dry run writes no files", function() celer.io.load("dry.npy") end)
      log:free()
      print(q:drain(v)[63])
    ]==], 8, 0)
    assert.equal("0\n", r.stdout)
    assert.equal(0, r.status, r.stderr)
    assert.is_nil(io.open("dry.npy"))
  end)

  it("prints and warns as any rank, and gives it the work of that rank", function()
    local r = dry([==[
      local v = celer.buffer("int", 6, { name = "v" })
      q:hint { weights = function(rank, ranks) return rank < ranks / 2 and 1 or 0 end }
      q:submit(function(cg)
        cg:host_task({ 6 }, function() end, cg:read(v), cg:discard_write(v))
      end)
      local part = q:drain(celer.capture(v, function(rank)
        return celer.box({ rank }, { rank + 1 })
      end))
      print("rank", part:here().min[0], celer.time() > 0, celer.ranks())
    ]==], 6, 5)
    assert.equal("rank\t5\ttrue\t6\n", r.stdout)
    assert.truthy(r.stderr:find("warning", 1, true), r.stderr)
    assert.equal(0, r.status)
  end)

  it("gives zeros, or what the script asks for", function()
    local r = dry([==[
      local point = celer.struct("point", "float x; int id;")
      local a = celer.buffer("int64_t", { 3, 4 }, { name = "a", init = function() return 9 end })
      local p = celer.buffer(point, 2, { name = "p" })
      local b = celer.buffer("bool", {}, { name = "b", init = true })
      local o = celer.host_object("struct { int n; double x; }", { name = "o" })
      local log = celer.host_object(function() return {} end, { name = "log" })
      local function f(l) return l.n end
      local s = { q:wait(a, p, b, o, celer.capture(log, f)) }
      print(s[1](2, 3), s[2][1].id, s[3](), s[4]:here().x, s[5]:here())
      s = { q:fence(celer.capture(a, nil, { dry = 7 }),
        celer.capture(a, celer.box({ 1, 1 }, { 3, 2 }),
          { dry = function(i, j) return 10 * i + j end }),
        celer.capture(p, nil, { dry = { x = 0.5, id = 3 } }), celer.capture(b, nil, { dry = true }),
        celer.capture(a, function() return celer.box({ 0, 2 }, { 1, 4 }) end, { dry = 5 }),
        celer.capture(log, f, { dry = "seven" }), celer.capture(o, f, { dry = false })):get() }
      print(s[1](2, 3), s[2](2, 1), s[3][0].x, s[4](), s[5]:here()(0, 3), s[6]:here(), s[7]:here())
      refused("celer.capture: `dry` of buffer a", function()
        local _ = q:wait(celer.capture(a, nil, { dry = "x" }))
      end)
      refused("unknown option 'dyr', did you mean dry?", function()
        local _ = celer.capture(a, nil, { dyr = 1 })
      end)
    ]==], 4, 2)
    assert.equal("0LL\t0\tfalse\t0\tnil\n7LL\t21LL\t0.5\ttrue\t5LL\tseven\tfalse\n", r.stdout,
      r.stderr)
    assert.equal(0, r.status, r.stderr)
  end)

  it("uses `dry` in no other run", function()
    local r = script.run([[
      local a = celer.buffer("int", 3, { name = "a", init = { 4, 5, 6 } })
      print(q:wait(celer.capture(a, nil, { dry = 1 }))[2])
    ]], { devices = 1 })
    assert.equal("6\n", r.stdout, r.stderr)
  end)

  it("finds a checkpoint, and its extents", function()
    local folder = scratch.path()
    local text = ([==[
      local kept, extra = celer.restore(%q)
      if kept then
        print(kept.u.size[0], extra.step, q:wait(kept.u)[3])
      else
        local u = celer.buffer("int", 5, { init = { 1, 2, 3, 4, 5 } })
        celer.checkpoint(%q, { u = u }, { step = 12 })
      end
    ]==]):format(folder, folder)
    assert.equal("", dry(text, 3, 1).stdout)
    assert.is_nil(io.open(folder .. "/manifest"))
    assert.equal(0, script.run(text, { devices = 1 }).status)
    assert.equal("5\t12\t0\n", dry(text, 3, 1).stdout)
    assert.equal("5\t12\t4\n", script.run(text, { devices = 1 }).stdout)
    os.execute("rm -r '" .. folder .. "'")
  end)

  it("says why a check of results fails, where it has brought zeros", function()
    local text = [==[
      local x = celer.buffer("double", {}, { name = "x", init = 1 })
      if q:wait(celer.capture(x, nil, { dry = DRY }))() ~= 1 then error "no 1" end
      error "at the end"
    ]==]
    local r = dry(text:gsub("DRY", "nil"), 4)
    assert.equal(1, r.status)
    assert.matches("^celer: %S+case%.lua:3: no 1\nnothing is executed here, and what the script "
      .. "captured is zero: [^\n]*\nceler: dry run", r.stderr)
    assert.matches("^celer: %S+case%.lua:4: at the end\nceler: dry run",
      dry(text:gsub("DRY", "1"), 4).stderr)
  end)

  it("says what it scheduled of a script whose check of results fails", function()
    local path = scratch.path()
    local r = dry([==[
      local k = celer.kernel "kernel void up(item<1> it, out<double, 1> x) { x(it[0]) = 1; }"
      local x = celer.buffer("double", 64, { name = "x" })
      for i = 1, 7 do
        q:submit(function(cg) cg:parallel_for(64, k, cg:discard_write(x)) end)
      end
      assert(q:drain(x)[63] == 1, "not computed")
    ]==], 4, 1, { "--report", path })
    assert.equal(1, r.status)
    assert.matches("^celer: %S+case%.lua:7: not computed\n", r.stderr)
    assert.truthy(r.stderr:find("celer: dry run as rank 1 of 4, 1 device; nothing was executed\n"
      .. "tasks", 1, true), r.stderr)
    assert.equal(7, cjson.decode(scratch.read(path)).kernels)
    os.remove(path)
  end)

  it("says in which line of the script celer itself stumbles", function()
    assert.matches("^celer: %S+case%.lua:2: celer/words%.lua:%d+: attempt",
      dry("require('celer.words').nearest(nil, { 'x' })", 4).stderr)
  end)

  it("ends a loop that waits for what never comes, and says why", function()
    local text = [==[
      local x = celer.buffer("double", {}, { name = "x", init = 1 })
      repeat until q:wait(x)() > 100
    ]==]
    local r = dry(text, 4)
    assert.equal(1, r.status)
    assert.truthy(r.stderr:find("case.lua:3: this line has brought zeros of x 1000 times: "
      .. "nothing is executed in a dry run, so a loop that waits for another value does "
      .. "not end; give it one: celer.capture(x, nil, {dry = ...})", 1, true), r.stderr)
    assert.truthy(r.stderr:find("dry run as rank 0 of 4", 1, true), r.stderr)
    local slow = dry(text:gsub("repeat", "repeat os.execute 'sleep 0.011'"), 4)
    assert.truthy(slow.stderr:find("brought zeros of x 100 times", 1, true), slow.stderr)
    local given = dry(text:gsub("q:wait%(x%)", "q:wait(celer.capture(x, nil, { dry = 0.5 }))"), 4)
    assert.truthy(given.stderr:find("this line has brought 0.5 of x, which `dry` gives, 10000 "
      .. "times: nothing is executed in a dry run", 1, true), given.stderr)
    local limited = [==[ while celer.time() < 0.3 do end print "done" ]==]
    assert.equal("done\n", dry(limited, 4, 3).stdout)
  end)

  it("lets a loop see often what the script gives it", function()
    local r = dry([==[
      local x = celer.buffer("double", {}, { name = "x", init = 1 })
      for i = 1, 1500 do
        assert(q:wait(celer.capture(x, nil, { dry = 0 }))() == 0)
        assert(q:wait(celer.capture(x, nil, { dry = function() return i end }))() == i)
      end
      local steps, i = 12000, 0
      repeat i = i + 1 until q:wait(celer.capture(x, nil, { dry = 1 - i / steps }))() <= 0
      print(i)
    ]==], 4)
    assert.equal("12000\n", r.stdout, r.stderr)
    assert.equal(0, r.status)
  end)

  it("says at once what is wrong, as any rank", function()
    local r = dry([[ error("no") ]], 100, 60)
    assert.equal(1, r.status)
    assert.truthy(r.stderr:find("^celer: [^\n]*case.lua:2: no\n$"), r.stderr)
    r = dry([==[ celer.kernel [=[ kernel void f(item<1> it) { nonsense; } ]=] ]==], 100, 60)
    assert.truthy(r.stderr:find("case.lua:2: the kernel does not compile", 1, true), r.stderr)
    assert.equal(1, r.status)
    r = dry([[ q:wait() os.exit(3) ]], 100, 60)
    assert.equal(3, r.status)
    assert.truthy(r.stderr:find("rank 60 of 100", 1, true))
  end)

  it("refuses what goes with no dry run, and ranks that there are not", function()
    local function refused(words, arguments, ranks)
      arguments[#arguments + 1] = "none.lua"
      table.insert(arguments, 1, "run")
      local r = celer.run(arguments, { ranks = ranks })
      assert.is_true(r.status ~= 0)
      assert.truthy(r.stderr:find(words, 1, true), r.stderr)
    end
    refused("--as-rank goes with --dry-run N", { "--as-rank", 1 })
    refused("--report goes with --dry-run N", { "--report", "x" })
    refused("--as-rank 4: the ranks of --dry-run 4 are 0 to 3", { "--dry-run", 4, "--as-rank", 4 })
    refused("--dry-run must be a whole number from 1 to", { "--dry-run", 0 })
    local r = script.run("", { devices = 1, ranks = 2 }, { before = { "--dry-run", 4 } })
    assert.equal(1, r.status)
    assert.truthy(r.stderr:find("a dry run is one process, whatever the number of ranks: "
      .. "start it without mpirun or srun", 1, true), r.stderr)
  end)

  for _, example in ipairs { "hello", "wave_sim", "wave_restart", "movie", "jacobi", "rsim",
    "out_of_core", "nbody", "nbody_tiled", "matmul", "matmul_cublas", "distr_io",
    "mandelbrot", "game_of_life", "cg", "sparse", "graph", "molecules",
    "mesh", "adaptive", "plasma", "histogram", "transpose", "heat3d",
    "lattice_boltzmann", "gray_scott", "convolution" } do
    it("goes through examples/" .. example .. ".lua", function()
      local folder = scratch.folder()
      local r = celer.run({ "run", "--dry-run", 7, "--as-rank", 3,
        os.getenv("PWD") .. "/examples/" .. example .. ".lua" }, { cwd = folder })
      os.execute("rm -r '" .. folder .. "'")
      assert.equal(0, r.status, r.stderr)
      assert.truthy(r.stderr:find("^celer: dry run as rank 3 of 7"), r.stderr)
    end)
  end
end)
