-- Time steps that are taken together: the same bits, and fewer messages.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local WAVE = [[
local celer = require "celer"
local q = celer.queue()
local n = 48
local function bump(i, j) return (i - 20) % 7 * 0.25 + (j % 5) * 0.125 end
local u = celer.buffer("float", { n, n }, { name = "u", init = bump })
local up = celer.buffer("float", { n, n }, { name = "up", init = bump })
local step = celer.kernel [=[
  kernel void step(item<2> it, inout<float, 2> up, in<float, 2> u) {
    const int i = it[0], j = it[1];
    const float around = u(i - 1, j) + u(i + 1, j) + u(i, j - 1) + u(i, j + 1);
    up(i, j) = 1.9f * u(i, j) - up(i, j) + 0.1f * (around - 4 * u(i, j));
  }
]=]
local inside = celer.box({ 1, 1 }, { n - 1, n - 1 })
SETUP
for t = 1, STEPS do
  q:submit(function(cg)
    cg:parallel_for(inside, step, cg:read_write(up), cg:read(u, celer.neighborhood(1, 1)))
  end)
  u, up = up, u
end
local sum = 0
local found = q:drain(u)
for i = 0, n - 1 do for j = 0, n - 1 do sum = sum + (1 + (7 * i + j) % 13) * found(i, j) end end
print(("%.17g"):format(sum))
]]

local function script(steps, setup, size)
  local path = scratch.path(".lua")
  scratch.write(path, (WAVE:gsub("STEPS", steps):gsub("SETUP", setup or "")
    :gsub("n = 48", "n = " .. (size or 48))))
  return path
end

local function run(options, steps, setup, more)
  local words = { "run" }
  for word in options:gmatch("%S+") do words[#words + 1] = word end
  more = more or {}
  words[#words + 1] = script(steps, setup, more.size)
  local r = celer.run(words, more)
  assert.equal(0, r.status, r.stderr)
  return r.stdout, r.stderr
end

describe("a fold", function()
  it("gives the same bits, also where steps are left over", function()
    local want = run("--fold 1", 11)
    for _, options in ipairs { "--fold 2", "--fold 4", "--fold 64", "--fold 3 --horizon-step 1" } do
      assert.equal(want, (run(options, 11)), options)
    end
    assert.equal(want, (run("", 11, "q:hint { fold = 5 }")))
    assert.equal(want, (run("", 11, "q:hint { fold = 3, split = '2d' }")))
    for ranks = 2, 4 do
      assert.equal(want, (run("--fold 4", 11, nil, { ranks = ranks })), ranks)
      assert.equal(want, (run("", 11, nil, { ranks = ranks })), ranks)
    end
    want = run("--backend cpu --fold 1", 11)
    assert.equal(want, (run("--backend cpu --fold 4 --devices 3", 11)))
  end)

  it("gives the same bits where it sweeps over more than caches hold", function()
    local want = run("--fold 1", 50, nil, { size = 1100 })
    assert.equal(want, (run("", 50, nil, { size = 1100 })))
    assert.equal(want, (run("--fold 16", 50, nil, { size = 1100 })))
    assert.equal(want, (run("--fold 8", 50, nil, { size = 1100, ranks = 2 })))
  end)

  -- Elementwise, and a sum whose bits depend on the order of items.
  local PIPELINE = [[
local celer = require "celer"
local q = celer.queue()
local h, w = 3, 500000
local x = celer.buffer("float", { h, w }, { init = function(i, j) return 1 / (1 + i * 7 + j) end })
local y = celer.buffer("float", { h, w }, { init = 0 })
local s = celer.buffer("float", {})
local up = celer.kernel(function(i, j, x, y) y[i][j] = 1.25 * x[i][j] + 0.1 end)
local down = celer.kernel(function(i, j, y, x) x[i][j] = y[i][j] - 0.3 * x[i][j] end)
local sum = celer.kernel [=[
  kernel void sum(item<2> i, in<float, 2> x, reducer<float> s) { s += x(i[0], i[1]); }
]=]
local text = {}
for t = 1, 8 do
  up({ h, w }, x, y)
  down({ h, w }, y, x)
  q:submit(function(cg) cg:parallel_for({ h, w }, sum, cg:read(x), cg:reduce(s, "sum")) end)
  if t < 3 or t == 8 then text[#text + 1] = ("%.9g"):format(q:fence(s):get()()) end
end
print(table.concat(text, " "))
]]

  it("of a pipeline ends with a sum of the same bits", function()
    local function go(fold)
      local path = scratch.path(".lua")
      scratch.write(path, PIPELINE)
      local r = celer.run({ "run", "--backend", "cpu", "--profile", "--no-sample", path },
        { env = { CELER_FOLD = fold } })
      assert.equal(0, r.status, r.stderr)
      return r.stdout, r.stderr:find("sum +together") ~= nil
    end
    local want, alone = go("1")
    local got, together = go()
    assert.equal(want, got)
    assert.same({ false, true }, { alone, together })
  end)

  it("exchanges halos once for its steps", function()
    local function messages(options)
      local _, report = run("--dry-run 8 --as-rank 3 " .. options, 65)
      return tonumber(report:match("messages sent%s+(%d+)"))
    end
    assert.equal(128, messages("--fold 1")) -- two neighbours, and none before the first step
    assert.equal(32, messages("--fold 4"))
    assert.equal(24, messages("--fold 5"))
    assert.equal(24, messages("")) -- by itself as many as a neighbour has rows
  end)

  it("is drawn as one command, and named by its steps", function()
    local path = script(8)
    local drawn = celer.run { "graph", "--graph", "command", "--fold", "4", path }.stdout
    assert.matches("step x4", drawn, 1, true)
    local tasks = celer.run { "graph", "--fold", "4", path }.stdout
    assert.is_nil(tasks:find("step x4", 1, true))
  end)

  it("refuses hints and options that are none", function()
    for _, what in ipairs { "0", "65", "2.5", "'all'" } do
      local path = script(1, ("q:hint { fold = %s }"):format(what))
      local r = celer.run { "run", path }
      assert.not_equal(0, r.status)
      assert.matches("fold must be a whole number from 1 to 64", r.stderr)
      assert.matches(path .. ":15", r.stderr, 1, true)
    end
    assert.not_equal(0, celer.run({ "run", "--fold", "65", script(1) }).status)
  end)

  it("is not asked for by what is no answer about contraction", function()
    local path = scratch.path(".lua")
    scratch.write(path, [[
local celer = require "celer"
celer.kernel("kernel void k(item<0>, out<int, 0> x) { x() = 1; }", { contract = false })
celer.kernel(function(i, u) u[i] = 1 end, { contract = true })
celer.kernel("kernel void k(item<0>, out<int, 0> x) { x() = 1; }", { contract = 1 })
]])
    local r = celer.run { "run", path }
    assert.matches(path .. ":4: celer.kernel: contract is true or false, not a number", r.stderr,
      1, true)
  end)

  it("has no step whose kernel does more than its accesses tell", function()
    local function messages(before, within)
      local path = scratch.path(".lua")
      local text = WAVE:gsub("STEPS", "8"):gsub("SETUP", "")
        :gsub("  kernel void", before .. "\n%0"):gsub("up%(i, j%) =", within .. " %0")
      scratch.write(path, text)
      local r = celer.run { "run", "--backend", "cpu", "--dry-run", "4", "--as-rank", "1",
        "--fold", "4", path }
      return tonumber(r.stderr:match("messages sent%s+(%d+)"))
    end
    local folded, alone = messages("", ""), 14
    assert.equal(2, folded)
    for _, what in ipairs {
      { "__device__ int seen;", "" }, { "__device__ int seen = 0;", "seen = i;" },
      { "#include <cmath>", "" }, { "# include <cmath>", "" },
      { "", [[printf("%%d", i);]] }, { "", [[asm volatile("");]] }, { "", [[__asm__("");]] },
      { "__device__ void add(int *a) { __atomic_add_fetch(a, 1, 0); }", "" },
      { "static int seen;", "seen = i;" }, { "", "static float last[2] = {}; last[0] = i;" },
      { "", "static int seen(0); seen = i;" },
      { "", "static __attribute__((aligned(8))) int n; n = i;" },
      { "", "static thread_local int seen; seen = i;" },
    } do
      assert.equal(alone, messages(what[1], what[2]), what[1] .. what[2])
    end
    for _, what in ipairs {
      { "// of a plasma; includes the rim", "" }, { "", "const float plasma = 0;" },
      { "__device__ float twice(float x) { return 2 * x; }", "twice(i);" },
      { "static float twice(float x) { return 2 * x; } // static walls = 2", "twice(i);" },
      { "static constexpr int two = 2; static const int three(3);", "static_assert(two == 2);" },
      { "static inline __attribute__((noinline)) int one() { return 1; }", "one();" },
    } do
      assert.equal(folded, messages(what[1], what[2]), what[1] .. what[2])
    end
  end)

  it("is refused where ranks say different things", function()
    local odd = [[q:hint { fold = 2 + tonumber(os.getenv "OMPI_COMM_WORLD_RANK") }]]
    local path = script(8, odd)
    local r = celer.run({ "run", path }, { ranks = 2 })
    assert.not_equal(0, r.status)
    assert.matches(path .. ":18: the ranks run different programs", r.stderr, 1, true)
    assert.matches("hint", r.stderr)
  end)

  -- Upwind, in three dimensions, and onto what was there: kernels in Lua.
  local ONE_SIDED = [[
local celer = require "celer"
local h, w, d = 37, 6, 5
local function bump(i, j, k) return (i * 7 + j * 3 + k) % 11 end
local u = celer.buffer("float", { h, w, d }, { init = bump })
local v = celer.buffer("float", { h, w, d }, { init = 1 })
local up = celer.kernel(function(i, j, k, u, v)
  v[i][j][k] = 0.5 * u[i][j][k] + 0.25 * u[math.min(i + 2, h - 1)][j][k]
    + 0.125 * (u[i][math.max(j - 1, 0)][k] + u[i][j][math.min(k + 1, d - 1)])
end)
local back = celer.kernel(function(i, j, k, v, u)
  local a = v[math.max(i - 1, 0)][j][k]
  if a > 2 then u[i][j][k] = a - 0.5 * v[i][math.min(j + 1, w - 1)][k] end
end)
for _ = 1, 10 do up({ h, w, d }, u, v); back({ h, w, d }, v, u) end
local sum, found = 0, celer.queue():fence(u):get()
for i = 0, h - 1 do for j = 0, w - 1 do for k = 0, d - 1 do
  sum = sum + (1 + (7 * i + j + 3 * k) % 13) * found(i, j, k)
end end end
print(("%.17g"):format(sum))
]]

  it("takes kernels that read to one side alone, up to the ends of the range", function()
    local path = scratch.path(".lua")
    scratch.write(path, ONE_SIDED)
    local function messages(fold)
      local r = celer.run { "run", "--dry-run", "4", "--as-rank", "1", "--fold", fold, path }
      return tonumber(r.stderr:match("messages sent%s+(%d+)"))
    end
    assert.equal(19, messages("1")) -- to one neighbour, and none before the first step
    assert.equal(8, messages("4")) -- to both, four times
    local want = celer.run({ "run", "--backend", "cpu", "--fold", "1", path }).stdout
    for ranks, devices in ipairs { "3", "1", "2", "1" } do
      local r = celer.run({ "run", "--backend", "cpu", "--fold", "5", "--devices", devices, path },
        { ranks = ranks > 1 and ranks or nil })
      assert.equal(0, r.status, r.stderr)
      assert.equal(want, r.stdout, ranks)
    end
  end)

  -- Around the ends, by the kernel itself with % or branches.
  local TORUS = [[
local celer = require "celer"
local h, w = 37, 11
local u = celer.buffer("float", { h, w }, { init = function(i, j) return (i * 7 + j * 3) % 11 end })
local v = celer.buffer("float", { h, w })
local modulo = celer.kernel(function(i, j, u, v)
  v[i][j] = 0.5 * u[i][j] + 0.25 * u[(i + 2) % h][j] + 0.125 * u[(i - 1) % h][(j + w - 1) % w]
end)
local branches = celer.kernel(function(i, j, u, v)
  local up, down, left = i - 1, i + 2, j > 0 and j - 1 or w - 1
  if up < 0 then up = h - 1 end
  if down >= h then down = down - h end
  v[i][j] = 0.5 * u[i][j] + 0.25 * u[down][j] + 0.125 * u[up][left]
end)
local torus = celer.kernel(function(i, j, u, v)
  v[i][j] = 0.5 * u[i][j] + 0.25 * u[i + 2][j] + 0.125 * u[i - 1][j - 1]
end)
for t = 1, 20 do
  if t % 3 == 0 then torus({ h, w }, celer.periodic(u), v)
  elseif t % 3 == 1 then modulo({ h, w }, u, v)
  else branches({ h, w }, u, v) end
  u, v = v, u
end
local sum, found = 0, celer.queue():fence(u):get()
for i = 0, h - 1 do for j = 0, w - 1 do sum = sum + (1 + (7 * i + j) % 13) * found(i, j) end end
print(("%.17g"):format(sum))
]]

  it("takes kernels that read around the ends of what they read", function()
    local path = scratch.path(".lua")
    scratch.write(path, TORUS)
    local function messages(fold)
      local r = celer.run { "run", "--dry-run", "4", "--as-rank", "1", "--fold", fold, path }
      return tonumber(r.stderr:match("messages sent%s+(%d+)"))
    end
    assert.equal(38, messages("1")) -- to both neighbours, and none before the first step
    assert.equal(8, messages("4"))
    -- On a GPU, where there is one.
    assert.equal(celer.run({ "run", "--fold", "1", path }).stdout,
      celer.run({ "run", "--fold", "5", path }).stdout)
    local want = celer.run({ "run", "--backend", "cpu", "--fold", "1", path }).stdout
    for ranks, devices in ipairs { "3", "1", "2", "1" } do
      local r = celer.run({ "run", "--backend", "cpu", "--fold", "5", "--devices", devices, path },
        { ranks = ranks > 1 and ranks or nil })
      assert.equal(0, r.status, r.stderr)
      assert.equal(want, r.stdout, ranks)
    end
  end)
end)
