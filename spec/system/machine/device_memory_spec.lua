-- --device-memory: what a device has no room for waits in host memory, and the
-- result is the same.
local celer = require("spec.support.celer")
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local script = require("spec.support.script")

local shapes = {
  { name = "one rank", devices = 1 },
  { name = "two devices", devices = 2 },
  { name = "three ranks", devices = 1, ranks = 3 },
}

-- What the example prints with so much memory per device, and what it warns of.
local function layers(shape, memory, arguments, backend)
  local args = { "run", "--devices",
    backend and celer.devices(shape.devices, shape.ranks) or shape.devices, "--backend",
    backend or "cpu" }
  if memory then
    args[#args + 1], args[#args + 2] = "--device-memory", memory
  end
  args[#args + 1] = "examples/out_of_core.lua"
  for _, word in ipairs(arguments) do args[#args + 1] = word end
  local r = celer.run(args, { ranks = shape.ranks })
  assert.equal(0, r.status, r.stderr)
  return r.stdout, r.stderr
end

local function warnings(text)
  local n = 0
  for _ in text:gmatch("celer: warning: ") do n = n + 1 end
  return n
end

describe("more data than devices hold", function()
  local expected
  setup(function() expected = layers(shapes[1], nil, { "16", "4", "2" }) end)

  for _, shape in ipairs(shapes) do
    for _, memory in ipairs { "3M", "300K" } do
      it(("give the same on %s with %s"):format(shape.name, memory), function()
        local out, text = layers(shape, memory, { "16", "4", "2" })
        assert.equal(expected, out)
        assert.equal(1, warnings(text), text)
        assert.matches("^celer: warning: examples/out_of_core.lua:%d+: the memory of device 0 is "
          .. "full %(%d+%.0 [MK]iB%): %d+%.%d [MK]iB of buffer layer 1 go to host memory", text)
      end)
    end
  end

  it("are not warned of where there is room", function()
    local out, text = layers(shapes[1], "40M", { "16", "4", "2" })
    assert.same({ expected, "" }, { out, text })
  end)
end)

describe("a buffer larger than a device's memory", function()
  -- 16 MiB, of which each of two devices, or ranks, has a half.
  local function run(shape)
    return script.run([[
local n = 4096
local a = celer.buffer("unsigned", { n, 1024 }, { name = "a" })
local k = celer.kernel [=[
  kernel void set(item<2> it, out<unsigned, 2> a) { a(it[0], it[1]) = it[0]; }
  kernel void add(item<2> it, inout<unsigned, 2> a) { a(it[0], it[1]) += it[1]; }
]=]
q:submit(function(cg) cg:parallel_for({ n, 1024 }, k.set, cg:discard_write(a)) end)
for _ = 1, 3 do
  q:submit(function(cg) cg:parallel_for({ n, 1024 }, k.add, cg:read_write(a)) end)
end
local s = q:wait(celer.capture(a, celer.box({ n / 2 - 1, 7 }, { n / 2 + 1, 9 })))
for i = n / 2 - 1, n / 2 do
  for j = 7, 8 do same(i .. " " .. j, s(i, j), i + 3 * j) end
end
print "checked"
]], shape, { before = { "--backend", "cpu", "--device-memory", "10M" } })
  end

  for _, shape in ipairs { { devices = 2 }, { devices = 1, ranks = 2 } } do
    it(("is divided over %d devices of %d ranks, and nothing is moved away"):format(shape.devices,
      shape.ranks or 1), function()
      local r = run(shape)
      assert.equal("", r.stderr)
      assert.equal("checked\n", r.stdout)
    end)
  end

  it("takes turns on one", function()
    local r = run { devices = 1 }
    assert.equal(1, warnings(r.stderr), r.stderr)
    assert.equal("checked\n", r.stdout)
  end)
end)

describe("a task that needs more than a device holds", function()
  it("fails with what it needs, and where it was submitted", function()
    local r = script.run([[
local function one() return 1 end
local a = celer.buffer("float", { 100000 }, { name = "a", init = one })
local b = celer.buffer("float", { 200000 }, { name = "b", init = one })
local k = celer.kernel [=[
  kernel void k(item<1> i, in<float, 1> a, inout<float, 1> b) { b(i[0]) += a(0); }
]=]
q:submit(function(cg)
  cg:parallel_for({ 1 }, k, cg:read(a, celer.all), cg:read_write(b, celer.all))
end)
q:wait(b)
]], { devices = 1 }, { before = { "--backend", "cpu", "--device-memory", "1M" } })
    assert.equal(1, r.status)
    assert.matches("case.lua:9: out of memory on device 0: task 'k' needs 1.1 MiB there at once, "
      .. "a (392.0 KiB), b (784.0 KiB), and this rank has 1.0 MiB of it; nothing else is left "
      .. "there, and the chunk cannot be cut further", r.stderr, 1, true)
  end)

  it("tells how to reduce more than there is room for", function()
    local program = [[
local n = 200000
local u, v = celer.buffer("double", n, { init = 1 }), celer.buffer("double", n)
v:set(2 * u)
local t = celer.scalar("double", 0)
local function part(k) return v:part({ k * n / 10 }, { (k + 1) * n / 10 }) end
for k = 0, 9 do t:reduce("sum", part(k), { include_current = true }) end
print(t())
t:reduce("sum", v)
print(t())
]]
    local r = script.run(program, { devices = 1 },
      { before = { "--backend", "cpu", "--device-memory", "1M" } })
    assert.equal(1, r.status)
    assert.equal("400000\n", r.stdout)
    assert.matches("case.lua:%d+: out of memory on device 0: task .reduce. needs 1.5 MiB .*a task "
      .. "that reduces is not cut: let several with include_current reduce a part each", r.stderr)
  end)
end)

describe("a GPU whose memory others take meanwhile", function()
  it("is named, with what holds the rest", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    local r = script.run([[
local k = celer.kernel "kernel void k(item<1> it, out<int, 1> a) { a(it[0]) = 1; }"
for _, name in ipairs { "a", "b", "c" } do
  local u = celer.buffer("int", 5 * 2 ^ 20, { name = name })
  q:submit(function(cg) cg:parallel_for(5 * 2 ^ 20, k, cg:discard_write(u)) end)
  _G[name] = u
end
q:wait()
]], { devices = 1 }, { before = { "--backend", "cuda" },
      env = fake.env({ FAKE_GPUS = 1, FAKE_MEMORY = 50, FAKE_FREE = 1000 }) })
    assert.equal(1, r.status)
    assert.matches("case.lua:5: buffer c: out of memory on GPU 0: ", r.stderr, 1, true)
    assert.matches("; it is held by a (20.0 MiB), b (20.0 MiB)", r.stderr, 1, true)
  end)
end)

describe("the size of a device's memory", function()
  local function refused(value)
    local r = celer.run({ "run", "examples/hello.lua" },
      { env = { CELER_DEVICE_MEMORY = value } })
    assert.equal(2, r.status)
    return r.stderr
  end

  it("has to be one", function()
    for _, value in ipairs { "lots", "1X", "-1G", "63K", "" } do
      assert.matches('CELER_DEVICE_MEMORY must be a size from 64K on, such as 512M or 80G, not "'
        .. value .. '"', refused(value), 1, true)
    end
  end)
end)

describe("more data than GPUs hold", function()
  local c = require("spec.support.cdef")("device/cuda/cuda.h")
  local why = require("ffi").new("char[256]")
  if c.cel_nvrtc_version() == nil or c.cel_cuda_count(why, 256) == 0 then
    pending("need a GPU and NVRTC")
    return
  end

  local arguments = { "1024", "4", "3" }
  local all, nothing
  setup(function() all, nothing = layers(shapes[1], nil, arguments, "cuda") end)

  for _, case in ipairs { { 1, "512M" }, { 1, "96M" }, { 2, "48M" }, { 3, "48M" } } do
    local shape, memory = script.gpus[case[1]], case[2]
    it(("give the same %s with %s of 1 GiB"):format(shape.name, memory), function()
      local out, text = layers(shape, memory, arguments, "cuda")
      assert.same({ all, "" }, { out, nothing })
      assert.equal(1, warnings(text), text)
    end)
  end

  it("give what the processor gives", function()
    local fewer = { "64", "4", "2" }
    assert.equal(layers(shapes[1], nil, fewer), (layers(shapes[1], "16M", fewer, "cuda")))
  end)

  it("is kept to where a buffer reserves more than there is", function()
    local text = [==[
local k = celer.kernel [=[
  kernel void up(item<2> it, inout<int, 2> u) { u(it[0], it[1]) += 1; }
]=]
local u = celer.buffer("int", { 512, 4000 }, { init = 0, reserve = PART })
for i = 1, 12 do
  q:submit(function(cg)
    cg:parallel_for(celer.box({ 0, 0 }, { 512, 100 * i }), k, cg:read_write(u))
  end)
end
local s = q:wait(u)
print(s(0, 0), s(511, 1199), s(511, 1200))
]==]
    local parts = { "true", "celer.box({ 0, 0 }, { 512, 3000 })", "celer.box({ 5, 5 }, { 5, 5 })" }
    for _, part in ipairs(parts) do
      for _, shape in ipairs(shapes) do
        local r = script.run(text:gsub("PART", part), shape,
          { before = { "--backend", "cpu", "--device-memory", "3M" } })
        assert.equal(0, r.status, r.stderr)
        assert.equal("12\t1\t0\n", r.stdout)
      end
    end
  end)
end)

describe("time steps over more than a device holds", function()
  local text = [==[
local k = celer.kernel [=[
  kernel void fill(item<2> it, out<float, 2> u) {
    u(it[0], it[1]) = (it[0] * 31 + it[1] * 17) % 101 * 0.01f;
  }
  kernel void wave(item<2> it, near<float, 2> u, inout<float, 2> up) {
    const int y = it[0], x = it[1];
    const float ys = u(y + 1, x) + u(y - 1, x), xs = u(y, x + 1) + u(y, x - 1);
    up(y, x) = 2 * u(y, x) - up(y, x) + 0.25f * (xs + ys - 4 * u(y, x));
  }
]=]
local n = 600
local u, up = celer.buffer("float", { n, n }), celer.buffer("float", { n, n })
for _, b in ipairs { u, up } do
  q:submit(function(cg) cg:parallel_for({ n, n }, k.fill, cg:discard_write(b)) end)
end
q:hint(HINT)
for _ = 1, 32 do
  q:submit(function(cg)
    cg:parallel_for({ n, n }, k.wave, cg:read(u, celer.EDGE), cg:read_write(up))
  end)
  u, up = up, u
end
local s, sum = q:wait(u), 0
for i = 0, n - 1, 7 do
  for j = 0, n - 1, 5 do sum = (sum * 31 + s(i, j) * 1e6) % 2147483647 end
end
print(("%.3f"):format(sum))
]==]

  -- What a script prints, or in a dry run how many bytes are copied.
  local function run(edge, hint, shape, options)
    local before = { "--backend", "cpu", unpack(options) }
    local r = script.run(text:gsub("EDGE", edge):gsub("HINT", hint), shape, { before = before })
    assert.equal(0, r.status, r.stderr)
    local copied, unit = r.stderr:match("copies of ([%d.]+) ([KMG])iB")
    return r.stdout, copied and copied * ({ K = 1, M = 2 ^ 10, G = 2 ^ 20 })[unit], r.stderr
  end

  for _, edge in ipairs { "clamped(1)", "periodic(1)" } do
    it("bring rows once for all of them, with the same bits: " .. edge, function()
      local plain = run(edge, "{ fold = 1 }", shapes[1], {})
      for _, shape in ipairs { shapes[1], shapes[3] } do
        assert.equal(plain, (run(edge, "{}", shape, { "--device-memory", "400K" })))
      end
      local dry = { "--device-memory", "400K", "--dry-run", "1" }
      local _, often, report = run(edge, "{ fold = 1 }", shapes[1], dry)
      local _, once = run(edge, "{}", shapes[1], dry)
      assert.truthy(often and once, report)
      assert.is_true(once * 5 < often, ("%g KiB, and alone %g"):format(once, often))
    end)
  end
end)
