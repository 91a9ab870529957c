-- Warnings of what makes a script slow, or ranks differ.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local preload = require("spec.support.preload")

local name = scratch.path(".lua")

local function write(text)
  scratch.write(name, 'local celer = require "celer"\nlocal q = celer.queue()\n' .. text)
end

local function run(text, options)
  options = options or {}
  write(text)
  local args = { options.command or "run", unpack(options) }
  args[#args + 1] = name
  local r = celer.run(args, { ranks = options.ranks, env = options.env })
  os.remove(name)
  assert.equal(0, r.status, r.stderr)
  return (r.stderr:gsub(name:gsub("%p", "%%%0"), "x"))
end

-- The same for what is said of fast runs only: on a busy machine some have to be tried.
local function run_fast(text, options)
  local said
  for _ = 1, 10 do
    said = run(text, options)
    if said ~= "" then break end
  end
  return said
end

local UP = [==[
local k = celer.kernel [=[ kernel void up(item<1> it, inout<int, 1> u) { u(it[0]) += 1; } ]=]
local function buffer(name)
  return celer.buffer("int", { 8 }, { name = name, init = function() return 0 end })
end
local function up(u) q:submit(function(cg) cg:parallel_for({ 8 }, k, cg:read_write(u)) end) end
]==] -- lines 3 to 7

describe("celer warns", function()
  local WAITS = UP .. [==[
local u = buffer "u"
for _ = 1, 2100 do
  up(u)
  q:wait()
end
]==]

  it("of a line that waits in every step, once", function()
    local env = preload "slow_clock"
    assert.matches("^celer: warning: x:11: this line has waited 1000 times, every %d%.%d+ ms: "
      .. "[^\n]*q:fence, and get it some steps later, or let the next kernel read the "
      .. "buffer\n$", run(WAITS, { env = env }))
    assert.matches("^celer: warning: x:11: [^\n]*\n$", run(WAITS, { env = env, ranks = 2 }))
  end)

  it("of elements that are fetched one by one, and of scalars", function()
    local LOOP = "local u = celer.buffer('int', 100, { name = 'u', init = 1 })\n"
      .. "for i = 0, 99 do local s = celer.scalar('int', i); assert(%s) end"
    assert.equal("celer: warning: x:4: 100 elements of u were fetched here one by one, and each "
      .. "waits for all tasks before it: celer.wait(celer.capture(u)) brings many at once\n",
      run(LOOP:format("u(i) == 1")))
    assert.equal("celer: warning: x:4: 100 single elements were fetched here one by one, and each "
      .. "waits for all tasks before it: celer.wait(a, b) brings those of several buffers at once, "
      .. "and celer.fence(a) does not wait\n", run(LOOP:format("s() == i")))
  end)

  it("of a line that takes its fence at once", function()
    assert.matches("^celer: warning: x:11: this line has waited 1000 times[^\n]*\n$",
      run((WAITS:gsub("q:wait%(%)", "q:fence(u):get()")), { env = preload "slow_clock" }))
  end)

  it("not of a line that takes it while more is to be computed", function()
    assert.equal("", run(UP .. [==[
local u = buffer "u"
local behind = {}
for i = 1, 2500 do
  up(u)
  behind[i] = q:fence(u)
  if i > 3 then behind[i - 3]:get() end
end
]==]))
  end)

  it("not of waits that are far apart", function()
    assert.equal("", run(UP .. [==[
local u = buffer "u"
for i = 1, 1100 do
  up(u)
  q:wait()
  if i % 2 == 0 then local till = celer.time() + 0.005 while celer.time() < till do end end
end
]==]))
  end)

  it("of runs that were asked for where work is not cut, once for each line", function()
    local text = [==[
local log = celer.host_object(function() return {} end, { name = "log" })
local runs = { oversubscribe = 3 }
local function each(f) for _ = 1, 3 do q:submit(f) end end
each(function(cg) cg:hint(runs) cg:host_task(celer.on_master, function() end) end)
each(function(cg) cg:hint(runs) cg:host_task(celer.collective(), function() end) end)
each(function(cg) cg:side_effect(log) cg:hint(runs) cg:host_task(8, function() end) end)
each(function(cg) cg:hint { oversubscribe = 1 } cg:host_task(celer.once, function() end) end)
each(function(cg) cg:hint(runs) cg:host_task(8, function() end) end)
q:hint(runs) -- a default, of which each task takes what it can
each(function(cg) cg:host_task(celer.once, function() end) end)
q:wait()
]==]
    local wanted = ""
    for i, why in ipairs { "the task runs once", "a collective task is called once on each rank",
      "a task with side effects is called once on each rank, as its runs would have no order" } do
      wanted = wanted .. ("celer: warning: x:%d: cg:hint: oversubscribe = 3 is not followed: %s\n")
        :format(5 + i, why)
    end
    assert.equal(wanted, run(text))
    assert.equal(wanted, run(text, { ranks = 3 }))
    assert.equal("", run(text, { "--advice", "off" }))
  end)

  it("not with --advice off, --log error, or in a dry run", function()
    assert.equal("", run(WAITS, { "--advice", "off" }))
    assert.equal("", run(WAITS, { "--log", "error" }))
    assert.not_matches("warning", run(WAITS, { "--dry-run", "2" }))
  end)

  local PAIRS = UP .. [==[
local all = { a = buffer "a", b = buffer "b", c = buffer "c" }
for _, u in PAIRS(all) do
  up(u)
end
]==]

  it("of submissions in a loop over pairs, on several ranks", function()
    local text = PAIRS:gsub("PAIRS", "pairs")
    -- One rank's order is as good as another's, unless they differ: then it ends.
    write(text)
    local r = celer.run({ "run", name }, { ranks = 2 })
    os.remove(name)
    assert.matches("celer: warning: %S+:7: what a loop over pairs submits or makes may come in "
      .. "another order on each rank, while it must be the same on all; celer.sorted_pairs goes "
      .. "through it in one order\n", r.stderr)
    assert.equal("", run(text))
    assert.matches("^celer: warning: x:7: what a loop over pairs", run(text, { command = "check" }))
  end)

  it("of what such a loop makes, and of a line that it comes to late", function()
    local function warns(line, text)
      assert.matches("^celer: warning: x:" .. line .. ": what a loop over pairs[^\n]*\n",
        run(text, { command = "check" }))
    end
    warns(3, "for name in pairs { a = 1, b = 2 } do celer.buffer('int', 3, { name = name }) end")
    warns(3, "for _ in pairs { a = 1, b = 2 } do celer.host_object(function() return {} end) end")
    warns(4, "local u = celer.buffer('int', 3, { init = { 1, 2, 3 } })\n"
      .. "for _ in pairs { a = 1, b = 2 } do q:fence(u) end")
    warns(7, UP .. "local all = { a = buffer 'a', b = buffer 'b' }\n"
      .. "for _ = 1, 10 do up(all.a) up(all.b) end\nfor _, u in pairs(all) do up(u) end")
  end)

  it("not of loops whose order is the same everywhere", function()
    for _, way in ipairs { "celer.sorted_pairs", "ipairs" } do
      assert.equal("", run((PAIRS:gsub("PAIRS", way)), { ranks = 2 }))
    end
    assert.equal("", run(UP .. [==[
local list, one = { buffer "a", buffer "b", buffer "c" }, { only = buffer "d" }
for _, u in pairs(list) do up(u) end
for _, u in pairs(one) do up(u) end
for _ in pairs { a = 1, b = 2 } do end
up(list[1])
]==], { ranks = 2 }))
  end)

  it("of a line whose mapper is called anew in every step, unless it is not to", function()
    local text = UP .. [==[
local u, first = buffer "u", { [0] = 0, 1, 2, 3, 4, 5, 6, 7, 8 }
for _ = 1, 120 do
  q:submit(function(cg)
    cg:parallel_for({ 8 }, k, cg:read_write(u, function(chunk)
      return celer.box({ first[chunk.min[0]] }, { first[chunk.max[0]] })
    end))
  end)
end
]==]
    assert.matches("^celer: warning: x:11: the range mapper of u has no closed form [^\n]*\n$",
      run(text))
    assert.equal("", run(text, { "--advice", "off" }))
  end)

  it("of a buffer whose memory grows step by step", function()
    local grows = [==[
local k = celer.kernel [=[
  kernel void up(item<2> it, inout<int, 2> u) { u(it[0], it[1]) += 1; }
]=]
local u = celer.buffer("int", { 4, 400 }, { name = "trail", init = function() return 0 end })
for i = 1, 40 do
  q:submit(function(cg)
    local upto = FIRST and 40 or i
    cg:parallel_for(celer.box({ 0, 0 }, { 4, 10 * upto }), k, cg:read_write(u))
  end)
  q:wait()
end
]==]
    assert.matches("^celer: warning: x:10: the memory of buffer trail was allocated anew 16 times, "
      .. "[^\n]*\n$", run((grows:gsub("FIRST", "false"))))
    assert.equal("", run((grows:gsub("FIRST", "i == 1"))))
    assert.equal("", run((grows:gsub("FIRST", "false"):gsub("name = ", "reserve = true, %0"))))
  end)

  it("of a script that submits more slowly than its tasks are carried out", function()
    local slow = UP .. [==[
local u = buffer "u"
for _ = 1, 2600 do
  up(u)
  local till = celer.time() + 0.001
  while celer.time() < till do end
end
]==]
    assert.matches("^celer: warning: nothing was computed in %d+ %% of the last %d+%.%d s, "
      .. "[^\n]*\n$", run_fast(slow))
  end)

  -- A host of sixteen cores, of which the ranks get one each, and GPUs.
  it("of ranks with GPUs that the launcher binds to one core, and says what to type", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    if celer.exec({ "taskset", "-c", "0", "true" }).status ~= 0 then
      return pending("needs the first core")
    end
    write('q:submit(function(cg) cg:host_task(celer.once, function() end) end)\nq:drain()\n')
    local function start(cores, ...)
      local r = celer.exec({ "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", "2", "env",
        "HWLOC_SYNTHETIC=core:" .. cores .. " pu:1", "HWLOC_THISSYSTEM=1",
        "taskset", "-c", "0", celer.command(), "run", ... },
        { env = fake.env({ FAKE_GPUS = 2 }) })
      assert.equal(0, r.status, r.stderr)
      return (r.stderr:gsub("launch [^\n]*\n", ""))
    end
    local words = "celer: warning: the launcher binds each rank to 1 core, which leaves the "
      .. "threads that feed its GPUs waiting for each other: start with mpirun --map-by "
      .. "slot:PE=4, or srun --cpus-per-task=4\n"
    assert.equal(words, start(16, name))
    assert.equal((words:gsub("PE=4", "PE=2"):gsub("task=4", "task=2")), start(4, name))
    assert.equal("", start(2, name))
    assert.equal("", start(16, "--advice", "off", name))
    assert.equal("", start(16, "--backend", "cpu", name))
    os.remove(name)
  end)
end)
