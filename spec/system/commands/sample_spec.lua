-- Samples of a kernel's first launches: mappers that promise too little, which are right
-- on one rank and wrong on several.
local celer = require("spec.support.celer")
local cuda = require("spec.device.cuda")
local scratch = require("spec.support.scratch")

local folder, script

before_each(function()
  folder = scratch.folder()
  script = folder .. "/case.lua"
end)
after_each(function() os.execute("rm -rf '" .. folder .. "'") end)

local HEAD = 'local celer = require "celer"; local q = celer.queue()\n'

local function write(text) scratch.write(script, HEAD .. text) end

-- Options as celer.run takes them, `words` of the command and those `after` the script.
local function run(options)
  options = options or {}
  local words = { "run", "--backend", options.backend or "cpu" }
  for _, word in ipairs(options.words or {}) do words[#words + 1] = word end
  words[#words + 1] = script
  for _, word in ipairs(options.after or {}) do words[#words + 1] = word end
  local env = { CELER_CACHE = folder .. "/cache", CELER_NO_SAMPLE = "0" }
  for name, value in pairs(options.env or {}) do env[name] = value end
  return celer.run(words, { ranks = options.ranks, env = env })
end

-- Compiles all that runs of the script take, samples among it.
local function build(backend)
  local r = celer.run({ "build", "--backend", backend or "cpu", script },
    { env = { CELER_CACHE = folder .. "/cache", CELER_NO_SAMPLE = "0" } })
  assert.equal(0, r.status, r.stderr)
end

local function prepare(text)
  write(text)
  build()
end

-- The message, once, and its item, element and box.
local function found(r)
  assert.equal(1, r.status, r.stdout)
  assert.is_false(r.timed_out)
  assert.equal(1, select(2, r.stderr:gsub("whose mapper promises", "")), r.stderr)
  local line, kernel, item, element, promised = r.stderr:match(
    "case%.lua:(%d+): kernel ([%w_]+): item %((.-)%) touches element %((.-)%) of argument .- "
    .. "whose mapper promises (.-) to the chunk %[.-: it is wrong on several ranks or devices; "
    .. "let the mapper give all that each item touches; ")
  assert.is_not_nil(line, r.stderr)
  return { line = tonumber(line), kernel = kernel, item = item, element = element,
    promised = promised }
end

local function passes(r, stdout)
  assert.equal("", r.stderr)
  assert.equal(0, r.status)
  if stdout then assert.equal(stdout, r.stdout) end
  return r.stdout
end

-- The kernel wraps around, which the mapper does not. Line 10.
local PERIODIC = [==[
local n = 64
local u = celer.buffer("double", { n, n }, { name = "u", init = 1 })
local v = celer.buffer("double", { n, n }, { name = "v" })
local k = celer.kernel [[
  kernel void lap(item<2> it, in<double, 2> u, out<double, 2> v) {
    const int i = it[0], j = it[1], n = it.range(0);
    v(i, j) = u((i + n - 1) % n, j) + u((i + 1) % n, j) - 2 * u(i, j);
  }
]]
for step = 1, 10 do
  q:submit(function(cg)
    cg:parallel_for({ n, n }, k, cg:read(u, celer.neighborhood(1, 0)), cg:discard_write(v))
  end)
  u, v = v, u
end
print(q:drain(u)(0, 0))
]==]

describe("a sample of a kernel's first launches", function()
  it("finds a mapper that promises too little on one rank, in each of 20 runs", function()
    prepare(PERIODIC)
    for _ = 1, 20 do
      local it = found(run())
      assert.equal(13, it.line)
      assert.equal("lap", it.kernel)
      local row, of = tonumber(it.item:match "^%d+"), tonumber(it.element:match "^%d+")
      assert.is_true(row == 0 and of == 63 or row == 63 and of == 0, it.item)
    end
  end)

  -- Chunks are whole rows, and within those the mapper promises an item no others. Line 13.
  it("finds what is wrong where tasks are carried out together", function()
    prepare([==[
local hints = { any = {}, alone = { fold = 1 }, together = { fold = 8 } }
local n, q = 64, celer.queue()
local u, v = celer.buffer("double", { n, n }, { init = 1 }), celer.buffer("double", { n, n })
local k = celer.kernel [[
  kernel void slide(item<2> it, in<double, 2> u, out<double, 2> v) {
    v(it[0], it[1]) = u(it[0], min(it[1] + 1, it.range(1) - 1));
  }
]]
for word in (arg[1] or "any"):gmatch "%w+" do
  q:hint(hints[word])
  for step = 1, 10 do
    q:submit(function(cg) cg:parallel_for({ n, n }, k, cg:read(u), cg:discard_write(v)) end)
    u, v = v, u
  end
  print(q:wait(u)(0, 0))
end
]==])
    for _, words in ipairs { {}, { "together" }, { "alone together" } } do
      local r = run { after = words }
      assert.equal(1, r.status, r.stdout)
      local i, j, ti, tj, box = r.stderr:match("kernel slide: item %((%d+), (%d+)%) touches "
        .. "element %((%d+), (%d+)%) of argument 1, in<double, 2>, whose mapper promises "
        .. "(%b[) x %b[)) to the chunk %b[) x %b[): it is wrong where tasks are carried out "
        .. "together; let the mapper give all that each item touches, or give the task the hint "
        .. "fold = 1; ")
      assert.is_not_nil(i, r.stderr)
      assert.equal(i, ti)
      assert.equal(j + 1, tonumber(tj))
      assert.equal(("[%d, %d) x [%d, %d)"):format(i, i + 1, j, j + 1), box)
      assert.equal(words[1] == "alone together" and "1\n" or "", r.stdout)
    end
    passes(run { after = { "alone" } }, "1\n")
    passes(run { words = { "--fold", "1" } }, "1\n")
  end)

  for _, shape in ipairs { { 2 }, { 3 }, { 1, 3 }, { 2, 2 } } do
    local ranks, devices = shape[1], shape[2] or 1
    it(("ends the job of %d ranks with %d devices"):format(ranks, devices), function()
      prepare(PERIODIC)
      found(run { ranks = ranks, words = { "--devices", tostring(devices) } })
    end)
  end

  it("has builds that `celer cache` counts with their kernels, and clears", function()
    prepare(PERIODIC)
    local env = { CELER_CACHE = folder .. "/cache", CELER_NO_SAMPLE = "0" }
    local function files() return #scratch.files(folder .. "/cache", "^%x+%.") end
    assert.equal(1, #scratch.files(folder .. "/cache", "%.sample$"))
    assert.truthy(passes(celer.run({ "cache", "size" }, { env = env }))
      :find(": 1 compiled source, ", 1, true))
    passes(celer.run({ "cache", "clear" }, { env = env }))
    assert.equal(0, files())
  end)

  it("is not taken with --no-sample", function()
    prepare(PERIODIC)
    passes(run { words = { "--no-sample" } }, "0\n")
    passes(run { env = { CELER_NO_SAMPLE = "1" } }, "0\n")
  end)

  for name, call in pairs {
    sum = 'n, k.sum, MAPPER, cg:reduce(s, "sum")',
    tiled = "n, k.tiled, MAPPER, cg:discard_write(v)",
    grouped = "celer.nd_range(n, 64), k.grouped, MAPPER, cg:discard_write(v)",
  } do
    it("is taken of reductions, tiles and groups: " .. name, function()
      local text = [==[
local n = 4096
local u = celer.buffer("int", n, { name = "u", init = 1 })
local v = celer.buffer("int", n, { name = "v", init = 0 })
local s = celer.buffer("int", 1, { name = "s", init = 0 })
local k = celer.kernel [[
  kernel void sum(item<1> it, in<int, 1> u, reducer<int> s) { s += u((it[0] + 1) % 4096); }
  kernel void tiled(tile<64> t, in<int, 1> u, out<int, 1> v, local<int, 64> all) {
    t.each([&](item<1> it) { all[it.local(0)] = u((it[0] + 1) % 4096); });
    t.each([&](item<1> it) { v(it[0]) = all[63 - it.local(0)]; });
  }
  kernel void grouped(group<1> g, in<int, 1> u, out<int, 1> v, local<int, 64> all) {
    all[g.local(0)] = u((g.global(0) + 1) % 4096);
    g.barrier();
    v(g.global(0)) = all[63 - g.local(0)];
  }
]]
q:submit(function(cg) cg:parallel_for(CALL) end)
local a, b = q:drain(v, s)
print(a(0) + b(0))
]==]
      text = text:gsub("CALL", (call:gsub("MAPPER", "cg:read(u, M)")))
      prepare((text:gsub("M%)", "celer.neighborhood(1))")))
      local it = found(run())
      assert.equal(name, it.kernel)
      assert.equal("4095", it.item)
      assert.equal("0", it.element)
      write((text:gsub("M%)", "celer.all)")))
      passes(run(), name == "sum" and "4096\n" or "1\n")
      passes(run { ranks = 3 }, name == "sum" and "4096\n" or "1\n")
    end)
  end

  it("is taken again where a mapper has other numbers, also of tasks submitted again", function()
    local text = [==[
local n = 1000
local u = celer.buffer("int", n, { name = "u", init = 1 })
local v = celer.buffer("int", n, { name = "v", init = 0 })
local k = celer.kernel [[
  kernel void shift(item<1> it, in<int, 1> u, out<int, 1> v, int by) {
    v(it[0]) = u(max(int(it[0]) - by, 0));
  }
]]
local function step(by, reach)
  q:submit(function(cg)
    local mapper = function(chunk)
      return celer.box({ chunk.min[0] - reach }, { chunk.max[0] }):clamped()
    end
    cg:parallel_for(n, k, cg:read(u, mapper), cg:discard_write(v), by)
  end)
end
for _ = 1, 50 do step(2, 2) end
for i = 1, 30 do step(i, i) end
step(%d, 31)
print(q:drain(v)(n - 1))
]==]
    prepare(text:format(32))
    local it = found(run())
    assert.equal(15, it.line)
    assert.equal(32, it.item - it.element)
    write(text:format(31))
    passes(run(), "1\n")
  end)

  it("judges an opaque mapper by what it gave for the chunk", function()
    prepare [==[
local n = 100
local first = {}
for i = 0, n do first[i] = math.max(i - 1, 0) end
local u = celer.buffer("int", n, { name = "u", init = 1 })
local v = celer.buffer("int", n, { name = "v", init = 0 })
local k = celer.kernel [[
  kernel void wrap(item<1> it, in<int, 1> u, out<int, 1> v) { v(it[0]) = u((it[0] + 99) % 100); }
]]
q:submit(function(cg)
  local opaque = cg:read(u, function(chunk)
    return celer.box({ first[chunk.min[0]] }, { first[chunk.max[0]] + 1 })
  end)
  cg:parallel_for(n, k, opaque, cg:discard_write(v))
end)
print(q:drain(v)(0))
]==]
    passes(run { words = { "--advice", "off" } }, "1\n")
    found(run { ranks = 2, words = { "--advice", "off" } })
  end)

  -- Seeded: sizes that do not divide, less than a sample, and of more blocks than threads.
  local shapes = { { 1 }, { 2 }, { 7 }, { 1003 }, { 70001 }, { 1, 9 }, { 9, 1 }, { 61, 67 },
    { 300, 257 }, { 3, 2, 5 }, { 23, 29, 31 } }
  local STENCIL = [==[
local size, reach, promised = { SIZE }, tonumber(arg[1] or 1), tonumber(arg[2] or 1)
local u = celer.buffer("float", size, { name = "u", init = function(i, j, k)
  return math.sin(i + 3 * (j or 0) + 7 * (k or 0))
end })
local v = celer.buffer("float", size, { name = "v", init = 0 })
local s = celer.buffer("float", 1, { name = "s", init = 0 })
local k = celer.kernel([[
  kernel void step(item<DIMS> it, in<float, DIMS> u, inout<float, DIMS> v, int reach) {
    const int other = min(int(it[ALONG]) + reach, int(it.range(ALONG)) - 1);
    v(AT) += sinf(u(NEXT)) * 1.7f + u(AT) / 3.1f;
  }
  kernel void sum(item<DIMS> it, in<float, DIMS> u, in<float, DIMS> v, reducer<float> s) {
    s += u(AT) * v(AT);
  }
]])
for _ = 1, 6 do
  q:submit(function(cg)
    cg:hint { split = "SPLIT" }
    local near = cg:read(u, celer.neighborhood(HALO))
    cg:parallel_for(size, k.step, near, cg:read_write(v), reach)
  end)
  q:submit(function(cg)
    cg:parallel_for(size, k.sum, cg:read(v), cg:read(u),
      cg:reduce(s, "sum", { include_current = true }))
  end)
  u, v = v, u
end
local got, sum = q:drain(u, s)
local hash = 0
for i = 0, size[1] - 1 do
  for j = 0, (size[2] or 1) - 1 do
    for k = 0, (size[3] or 1) - 1 do
      local x = size[3] and got(i, j, k) or size[2] and got(i, j) or got(i)
      hash = (hash * 1.0001 + x) % 1000
    end
  end
end
print(("%a %a"):format(hash, sum(0)))
]==]
  for n, size in ipairs(shapes) do
    local dims, extents = #size, table.concat(size, " x ")

    it("computes each of " .. extents .. " items once, with the bits that it has without",
      function()
      math.randomseed(n)
      local along = math.random(dims) - 1
      local at, next_, halo = {}, {}, {}
      for d = 0, dims - 1 do
        at[d + 1] = ("it[%d]"):format(d)
        next_[d + 1] = d == along and "other" or at[d + 1]
        halo[d + 1] = d == along and "promised" or "0"
      end
      prepare((STENCIL:gsub("%u+", { SIZE = table.concat(size, ", "), DIMS = dims,
        SPLIT = dims .. "d", ALONG = along, AT = table.concat(at, ", "),
        NEXT = table.concat(next_, ", "), HALO = table.concat(halo, ", ") })))
      local reach = math.random(1, 4)
      local function stencil(promised, options)
        options.after = { tostring(reach), tostring(promised) }
        return run(options)
      end
      local without = passes(stencil(reach, { words = { "--no-sample" } }))
      passes(stencil(reach, {}), without)
      passes(stencil(reach, { ranks = 3 }))
      passes(stencil(reach, { words = { "--devices", "3" } }))
      -- With one less, who has so many items to its right touches too much.
      local too_little = stencil(reach - 1, {})
      if size[along + 1] > reach then found(too_little) else passes(too_little, without) end
    end)
  end

  it("leaves effects of items as often as they are", function()
    prepare [==[
local v = celer.buffer("int", 5)
local k = celer.kernel [[
  kernel void say(item<1> it, out<int, 1> v) { v(it[0]) = printf("item %d\n", int(it[0])); }
]]
for _ = 1, 8 do
  q:submit(function(cg) cg:parallel_for(5, k, cg:discard_write(v)) end)
end
q:wait()
]==]
    local said = passes(run())
    for i = 0, 4 do assert.equal(8, select(2, said:gsub("item " .. i .. "\n", ""))) end
  end)

  it("leaves out kernels that may have other bits then", function()
    prepare((PERIODIC:gsub("%]%]\nfor", ']], { options = { "-ffast-math" } })\nfor')
      :gsub("celer.kernel %[%[", "celer.kernel([[")))
    passes(run(), "0\n")
  end)

  -- A compiler that does `before` first, where it compiles for samples.
  local function compiler(before)
    scratch.write(folder .. "/cxx", ([[
#!/bin/sh
[ "$1" = --version ] && exec g++ --version
case " $* " in *" -DCELER_SAMPLE "*) cd '%s'; %s;; esac
exec g++ "$@"
]]):format(folder, before))
    assert(os.execute("chmod +x '" .. folder .. "/cxx'") == 0)
    return { CXX = folder .. "/cxx" }
  end

  it("waits for no compiler at the end, and leaves none behind", function()
    write(PERIODIC)
    local env = compiler "echo $$ >> pids; sleep 600"
    passes(run { env = env }, "0\n")
    for pid in (scratch.look(folder .. "/pids") or ""):gmatch("%d+") do
      assert.is_not.equal(0, os.execute("kill -0 " .. pid .. " 2>/dev/null"))
    end
    assert.is_nil(scratch.look(folder .. "/cache/scratch/kernel.cpp"))
    found(run { env = compiler "true" }) -- once it could be compiled
  end)

  it("is not missed where its build does not compile", function()
    write(PERIODIC)
    passes(run { env = compiler "exit 1" }, "0\n")
  end)
end)

-- A GPU's thread waits for what it checks. Were it to wait for what another rank sends, both
-- could wait for ever.
describe("a sample on GPUs", function()
  -- 200 steps of it, read by the mapper `reach`: a neighborhood is too little at the sides.
  local function text(reach)
    return (PERIODIC:gsub("celer.neighborhood%(1, 0%)", reach):gsub("1, 10 do", "1, 200 do"))
  end
  local shapes = { { 1, 1 }, { 1, 2 }, { 2, 1 }, { 3, 1 }, { 2, 2 } }

  for _, shape in ipairs(shapes) do
    local ranks, devices = shape[1], shape[2]
    local where = (", on %d ranks with %d GPUs"):format(ranks, devices)
    local function go(words)
      table.insert(words, "--devices")
      table.insert(words, celer.devices(devices, ranks))
      return run { backend = "cuda", ranks = ranks > 1 and ranks or nil, words = words }
    end

    it("finds a mapper that promises too little" .. where, function()
      if cuda.no_gpu then return pending(cuda.no_gpu) end
      write(text "celer.neighborhood(1, 0)")
      build("cuda")
      found(go {})
    end)

    it("holds nobody up, nor do checks of all items" .. where, function()
      if cuda.no_gpu then return pending(cuda.no_gpu) end
      write(text "celer.all")
      build("cuda")
      for _ = 1, 3 do passes(go {}, "0\n") end
      passes(go { "--check-bounds" }, "0\n")
    end)
  end

  -- By another build a compiler contracts in another way: one sum of products is enough.
  it("leaves all bits as they are", function()
    if cuda.no_gpu then return pending(cuda.no_gpu) end
    write [==[
local n = 64
local a = celer.buffer("float2", { n, n }, { init = function(i, j)
  return { x = 1 / (1 + i), y = 1 / (2 + i + j) }
end })
local b = celer.buffer("float2", { n, n })
local k = celer.kernel [[
  kernel void react(item<2> it, in<float2, 2> a, out<float2, 2> b, float feed, float kill) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    const float2 here = a(y, x), n = a(max(y - 1, 0), x), s = a(min(y + 1, h - 1), x),
                 west = a(y, max(x - 1, 0)), east = a(y, min(x + 1, w - 1));
    const float u = here.x, v = here.y, reaction = u * v * v;
    const float du = n.x + s.x + west.x + east.x - 4 * u;
    const float dv = n.y + s.y + west.y + east.y - 4 * v;
    b(y, x) = make_float2(u + 0.16f * du - reaction + feed * (1 - u),
                          v + 0.08f * dv + reaction - (feed + kill) * v);
  }
]]
for _ = 1, 4 do
  q:submit(function(cg)
    cg:parallel_for({ n, n }, k, cg:read(a, celer.neighborhood(1, 1, "along_axes")),
      cg:discard_write(b), 0.037, 0.06)
  end)
  a, b = b, a
end
celer.io.save(arg[1] or "none.npy", a)
q:drain()
]==]
    build("cuda")
    local with, without = folder .. "/with.npy", folder .. "/without.npy"
    passes(run { backend = "cuda", after = { with } }, "")
    passes(run { backend = "cuda", words = { "--no-sample" }, after = { without } }, "")
    assert.equal(scratch.read(without), scratch.read(with))
  end)

  -- What it writes is what it reads, or is seen elsewhere: to compute it twice would show.
  it("is not taken of kernels that have other effects", function()
    if cuda.no_gpu then return pending(cuda.no_gpu) end
    for parameter, body in pairs {
      ["inout<int, 1> v"] = "v(i) += 1;",
      ["out<int, 1> v "] = "v(i) = i; printf(\"%d\\n\", i);",
      ["out<int, 1>  v"] = "v(i) = atomicAdd(&counter, 1);",
    } do
      write((([==[
local v = celer.buffer("int", 100, { init = 0 })
local k = celer.kernel [[ __device__ int add(int a) { return a + 1; } VARIABLE
  kernel void f(item<1> it, PARAMETER) { const int i = it[0]; BODY } ]]
for _ = 1, 3 do
  q:submit(function(cg)
    cg:parallel_for(100, k, MODE)
  end)
end
local w, sum = q:drain(celer.capture(v)), 0
for i = 0, 99 do sum = sum + w(i) end
print(sum)
]==]):gsub("%u%u+", { PARAMETER = parameter, BODY = body,
        VARIABLE = body:find "counter" and "__device__ int counter;" or "",
        MODE = parameter:find "^inout" and "cg:read_write(v)" or "cg:discard_write(v)" })))
      build("cuda")
      local with = run { backend = "cuda" }
      local without = run { backend = "cuda", words = { "--no-sample" } }
      assert.equal("", with.stderr)
      assert.equal(without.stdout:match "(%d+)\n$", with.stdout:match "(%d+)\n$")
      assert.equal(#without.stdout, #with.stdout)
    end
  end)

  it("knows what is promised before it looks", function()
    if cuda.no_gpu then return pending(cuda.no_gpu) end
    write [==[
for n = 1, 40 do -- each time another rule is asked
  local u = celer.buffer("int", n * 100)
  local k = celer.kernel("kernel void set" .. n .. "(item<1> it, out<int, 1> u) { u(it[0]) = 1; }")
  for _ = 1, 4 do
    q:submit(function(cg) cg:parallel_for(n * 100, k, cg:discard_write(u)) end)
  end
end
q:wait()
]==]
    build("cuda")
    passes(run { backend = "cuda" }, "")
  end)
end)
