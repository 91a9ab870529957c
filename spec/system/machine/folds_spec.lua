-- Folds on a GPU, as the driver of spec/device/fake_driver.lua sees them: a launch of tiles has
-- blocks of 64 x 8 threads, one of sheets blocks of 32 for each warp, and one of a step by itself
-- blocks of 64 x 4.
local celer = require("spec.support.celer")
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local scratch = require("spec.support.scratch")

local SETUP = [[
local celer = require "celer"
local core = require "celer.core"
local q = celer.queue()
local n, start = 256, core.time()
local a, b = celer.buffer("float", { n, n }), celer.buffer("float", { n, n })
local zero = celer.kernel("kernel void zero(item<2> it, out<float, 2> a) { a(it[0], it[1]) = 0; }")
for _, x in ipairs { a, b } do
  q:submit(function(cg) cg:parallel_for({ n, n }, zero, cg:discard_write(x)) end)
end
q:wait()
]]

-- Steps, again and again until what some of them take at once has been compiled, COUNT launches,
-- then some more.
local LOOP = [[
local function some(steps)
  for _ = 1, steps do step() end
  q:wait()
end
local function compiled()
  local found, made, unkept = core.compiled()
  return found + made + unkept
end
some(1)
local before = compiled()
repeat some(8) until compiled() >= before + COUNT or core.time() - start > LIMIT
for _ = 1, 50 do some(8) end
print "ready"
some(64)
]]

local WAVE = [[
local wave = celer.kernel(function(y, x, now, before)
  local ys = now[math.min(y + 1, n - 1)][x] + now[math.max(y - 1, 0)][x]
  before[y][x] = ys - before[y][x]
end, { name = "wave" })
local function step()
  q:parallel_for({ n, n }, wave, a, b)
  a, b = b, a
end
]]

local NEAR = [[
local near = celer.kernel [=[
  kernel void near_by(item<2> it, near<float, 2> a, out<float, 2> b) {
    b(it[0], it[1]) = a(it[0] - 1, it[1]) + a(it[0], it[1] + 1);
  }
  kernel void sum(item<2> it, in<float, 2> a, reducer<float> sum) { sum += a(it[0], it[1]); }
]=]
local function step()
  q:submit(function(cg)
    cg:parallel_for({ n, n }, near.near_by, cg:read(a, celer.clamped(1, 1)), cg:discard_write(b))
  end)
  a, b = b, a
end
]]

-- The same where the ends of both dimensions meet: nobody asks for folds.
local TORUS = NEAR:gsub("celer.clamped%(1, 1%)", 'celer.periodic(1, "along_axes")')
local CORNERS = NEAR:gsub("celer.clamped", "celer.periodic")

local ROW = [[
a, b = celer.buffer("float", { n }), celer.buffer("float", { n })
local fill = celer.kernel("kernel void fill(item<1> it, out<float, 1> a) { a(it[0]) = 1; }")
for _, x in ipairs { a, b } do
  q:submit(function(cg) cg:parallel_for({ n }, fill, cg:discard_write(x)) end)
end
local rod = celer.kernel(function(x, now, after)
  after[x] = now[math.min(x + 1, n - 1)] - now[math.max(x - 1, 0)]
end, { name = "rod" })
local function step()
  q:parallel_for({ n }, rod, a, b)
  a, b = b, a
end
]]

local HALVES = ROW:match("^(.-)local rod") .. [[
local kernels = celer.kernel [=[
  kernel void other(item<1> it, out<float, 1> a) { a(it[0]) = 0; }
  kernel void halves(item<1> it, in<float, 1> now, out<float, 1> after) {
    float x = now(max(it[0] - 1, 0));
    while (x > 1) x /= 2;
    after(it[0]) = x;
  }
]=]
local function step()
  q:submit(function(cg)
    cg:parallel_for({ n }, kernels.halves, cg:read(a, celer.clamped(1)), cg:discard_write(b))
  end)
  a, b = b, a
end
]]

local TABLE = ROW:match("^(.-)local rod") .. [[
local colours = celer.buffer("float", { 16 }, { init = 1 })
local kernels = celer.kernel [=[
  kernel void coloured(item<1> it, in<float, 1> now, in<float, 1> colours, out<float, 1> after) {
    after(it[0]) = colours(int(now(max(it[0] - 1, 0))));
  }
]=]
local function step()
  q:submit(function(cg)
    cg:parallel_for({ n }, kernels.coloured, cg:read(a, celer.clamped(1)),
      cg:read(colours, celer.all), cg:discard_write(b))
  end)
  a, b = b, a
end
]]

-- Each kernel is a module of its own, and one has a struct of the user's.
local CHAIN = [[
celer.struct("pair", "float low, high;")
local times = 2
local one = celer.kernel(function(y, x, a, b)
  local sum = 0
  for _ = 1, times do sum = sum + a[y][x] end
  b[y][x] = sum
end, { name = "one" })
local two = celer.kernel [=[
  #define SHARE 0.5f
  kernel void two(item<2> it, in<float, 2> b, inout<float, 2> a, pair by) {
    a(it[0], it[1]) = SHARE * (a(it[0], it[1]) + by.low) + b(it[0], it[1]);
  }
]=]
local total = celer.kernel [=[
  kernel void total(item<2> it, in<float, 2> a, reducer<float> most) {
    const float SHARE = a(it[0], it[1]);
    most.combine(SHARE);
  }
]=]
local most = celer.buffer("float")
local function step()
  q:parallel_for({ n, n }, one, a, b)
  q:submit(function(cg)
    cg:parallel_for({ n, n }, two, cg:read(b), cg:read_write(a), { low = 1, high = 2 })
  end)
  q:submit(function(cg)
    cg:parallel_for({ n, n }, total, cg:read(a), cg:reduce(most, "OPERATOR"))
  end)
end
]]

-- Of a run, the shapes of the last launches, in order.
local function run(text, options, env, limit, count)
  if cuda.no_nvrtc then return nil end
  local path = scratch.path(".lua")
  scratch.write(path, SETUP .. text:gsub("LIMIT", limit or 60):gsub("COUNT", count or 1))
  env.FAKE_GPUS, env.FAKE_MEMORY = 1, env.FAKE_MEMORY or 4096
  local words = { "run", "--backend", "cuda", "--devices", "0,", "--no-sample" }
  for _, word in ipairs(options) do words[#words + 1] = word end
  words[#words + 1] = path
  return celer.run(words, { env = fake.env(env) }), path
end

local function last_launches(r, n)
  local shapes = {}
  for grid, block in r.stderr:gmatch("launch (%d+ %d+ %d+) of (%d+ %d+ %d+)\n") do
    shapes[#shapes + 1] = grid .. " of " .. block
  end
  return { unpack(shapes, math.max(1, #shapes - n + 1)) }
end

describe("a fold on a GPU", function()
  local function assert_launches(want, n, r, said)
    assert.equal(said or "ready\n", r.stdout, r.stderr)
    local all = {}
    for i = 1, n do all[i] = want end
    assert.same(all, last_launches(r, n))
  end

  it("is one launch of tiles for four steps that read around ends by themselves", function()
    local r = run(NEAR .. LOOP, { "--fold", "8" }, {})
    if not r then return pending(cuda.no_nvrtc) end
    assert_launches("5 5 1 of 64 8 1", 16, r)
  end)

  it("is one launch of sheets that go on at the other end, where ends meet", function()
    local r = run(TORUS .. LOOP, {}, { FAKE_MULTIPROCESSORS = 8 }, 60, 2)
    if not r then return pending(cuda.no_nvrtc) end
    assert_launches("15 1 1 of 32 12 1", 8, r)
    r = run(CORNERS .. LOOP, {}, {})
    assert_launches("5 5 1 of 64 8 1", 16, r)
  end)

  it("is one launch of sheets for eight steps, once tiles and they are compiled", function()
    -- The wave reads above and below its items alone, so sheets lose nothing at their sides.
    -- None is compiled for four steps, which tiles take meanwhile.
    local r = run(WAVE .. LOOP .. "print(compiled() - before)", { "--fold", "8" },
      { FAKE_MULTIPROCESSORS = 8 }, 60, 2)
    if not r then return pending(cuda.no_nvrtc) end
    assert_launches("8 1 1 of 32 13 1", 8, r, "ready\n2\n")
  end)

  it("is one launch for eight steps of one dimension, of warps", function()
    local r = run(ROW .. LOOP, { "--fold", "8" }, {})
    if not r then return pending(cuda.no_nvrtc) end
    assert.equal("ready\n", r.stdout, r.stderr)
    local want = {}
    for i = 1, 8 do want[i] = "3 1 1 of 32 1 1" end
    assert.same(want, last_launches(r, 8))
  end)

  it("computes what is not right of no kernel that might not end then, or leave a table", function()
    for _, program in ipairs { HALVES, TABLE } do
      local r = run(program .. LOOP, { "--fold", "8" }, {}, 6)
      if not r then return pending(cuda.no_nvrtc) end
      assert.equal("ready\n", r.stdout, r.stderr)
      for _, shape in ipairs(last_launches(r, 64)) do assert.not_matches(" of 32 1 1", shape) end
    end
  end)

  -- How many there are once the loop has said that it is ready.
  local function launches_of(text, env)
    local r = run(text .. LOOP:gsub('print "ready"', "io.stderr:write 'ready\\n'"),
      { "--fold", "6", "--advice", "off" }, env)
    if not r then return end
    assert.equal(0, r.status, r.stderr)
    return select(2, r.stderr:match("ready\n(.*)$"):gsub("launch", "")), r.stderr
  end

  it("is one launch for a chain of kernels of several modules that a sum ends", function()
    for _, operator in ipairs { "sum", "max" } do
      local n, said = launches_of(CHAIN:gsub("OPERATOR", operator), {})
      if not n then return pending(cuda.no_nvrtc) end
      assert.equal(64, n, said)
      assert.not_matches("warning", said)
    end
  end)

  it("is plain launches where there is none for all steps, and says so", function()
    local n, said = launches_of(CHAIN:gsub("OPERATOR", "sum"), { FAKE_UNFUSED = 1 })
    if not n then return pending(cuda.no_nvrtc) end
    assert.equal(3 * 64, n, said)
    assert.matches("celer: warning: 3 steps that begin with kernel one stay launches of their own",
      said, 1, true)
  end)

  it("is plain launches where there is no memory for a second copy", function()
    local r = run(WAVE .. LOOP, { "--fold", "8", "--device-memory", "520K" }, {}, 2)
    if not r then return pending(cuda.no_nvrtc) end
    assert.equal("ready\n", r.stdout, r.stderr)
    for _, shape in ipairs(last_launches(r, 64)) do assert.equal("4 64 1 of 64 4 1", shape) end
  end)

  it("that the driver refuses is told with the line of the step", function()
    local r, path = run(WAVE .. LOOP, { "--fold", "4" }, { FAKE_REFUSED = 5 })
    if not r then return pending(cuda.no_nvrtc) end
    local line = select(2, (SETUP .. WAVE):match("^(.*)q:parallel_for"):gsub("\n", "")) + 1
    assert.not_equal(0, r.status)
    assert.matches(("%s:%d: kernel wave failed on GPU 0"):format(path, line), r.stderr, 1, true)
  end)
end)
