-- Chunks of 2^31 items and more on a GPU: what is launched, on fake_driver.lua; and
-- that all items run, on a GPU.
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local script = require("spec.support.script")

describe("a chunk that 31 bits do not count", function()
  local function run(text)
    return script.run(text, { devices = 1 }, { before = { "--backend", "cuda", "--no-sample" },
      env = fake.env({ FAKE_GPUS = 1 }) })
  end

  it("is launched in slices of 2^30", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    local r = run([==[
local one = celer.buffer("int", {}, { init = 0 })
local k = celer.kernel [=[
  kernel void line(item<1> it, in<int, 0> one) {}
  kernel void plane(item<2> it, in<int, 0> one) {}
]=]
q:submit(function(cg) cg:parallel_for({ 2 ^ 31 + 2000 }, k.line, cg:read(one, celer.all)) end)
q:submit(function(cg) cg:parallel_for({ 2, 2 ^ 31 }, k.plane, cg:read(one, celer.all)) end)
q:submit(function(cg) cg:parallel_for({ 2 ^ 31 - 1 }, k.line, cg:read(one, celer.all)) end)
q:wait()
]==])
    local whole = 2 ^ 30
    assert.equal(("launch %d 1 1 of 256 1 1\n"):format(whole / 256):rep(2)
      .. "launch 8 1 1 of 256 1 1\n"
      .. ("launch %d 1 1 of 64 2 1\n"):format(whole / 64):rep(2)
      .. ("launch %d 1 1 of 256 1 1\n"):format(2 ^ 31 / 256), r.stderr)
    assert.equal(0, r.status)
  end)

  it("is reduced in slices that go on from each other, each by a grid that strides", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    local r = run([==[
local k = celer.kernel [=[
  kernel void line(item<1> it, reducer<long> s) { s += 1; }
  kernel void plane(item<2> it, reducer<int, 1> h) { h(it[0]) += 1; }
]=]
local s, h = celer.buffer("int64_t"), celer.buffer("int", 2)
q:submit(function(cg) cg:parallel_for({ 2 ^ 31 + 2000 }, k.line, cg:reduce(s, "sum")) end)
q:submit(function(cg) cg:parallel_for({ 2, 2 ^ 31 }, k.plane, cg:reduce(h, "sum")) end)
q:wait()
]==])
    -- The array begins with a launch of its own.
    assert.equal(("launch 1024 1 1 of 256 1 1\n"):rep(2) .. "launch 8 1 1 of 256 1 1\n"
      .. "launch 1 1 1 of 256 1 1\n" .. ("launch 2048 1 1 of 64 2 1\n"):rep(2), r.stderr)
    assert.equal(0, r.status)
  end)

  it("has several rows to a thread where a grid would have too many, or the GPU has few threads",
    function()
      if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
      local r = script.run([==[
local one = celer.buffer("int", {}, { init = 0 })
local k = celer.kernel [=[
  kernel void plane(item<2> it, in<int, 0> one) {}
  kernel void space(item<3> it, in<int, 0> one) {}
]=]
for _, size in ipairs { { 2 ^ 24, 2 }, { 127, 127 }, { 128, 128 }, { 512, 512 }, { 64, 64, 64 } } do
  q:submit(function(cg)
    cg:parallel_for(size, size[3] and k.space or k.plane, cg:read(one, celer.all))
  end)
end
q:wait()
]==], { devices = 1 }, { before = { "--backend", "cuda", "--no-sample" },
        env = fake.env({ FAKE_GPUS = 1, FAKE_MULTIPROCESSORS = 1 }) })
      assert.equal(table.concat({ "launch 1 32768 1 of 2 64 1", "launch 4 32 1 of 32 4 1",
        "launch 4 16 1 of 32 4 1", "launch 8 64 1 of 64 2 1", "launch 2 16 4 of 32 4 1", "" },
        "\n"), r.stderr)
      assert.equal(0, r.status)
    end)

  it("may have any number of items, each slice with its own shape", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    local r = script.run([==[
local one = celer.buffer("int", {}, { init = 0 })
local k = celer.kernel "kernel void plane(item<2> it, in<int, 0> one) {}"
q:submit(function(cg) cg:parallel_for({ 2 ^ 52, 2 }, k.plane, cg:read(one, celer.all)) end)
q:wait()
]==], { devices = 1 }, { before = { "--backend", "cuda", "--no-sample" },
      env = fake.env({ FAKE_GPUS = 1, FAKE_REFUSED = 3 }) })
    assert.matches("^launch 1 32768 1 of 2 128 1\nlaunch 1 32768 1 of 2 128 1\n", r.stderr)
    assert.matches("kernel plane failed on GPU 0", r.stderr)
    assert.equal(1, r.status)
  end)

  it("is refused where blocks are the user's, or share memory", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    local r = run([==[
local one = celer.buffer("int", {}, { init = 0 })
local k = celer.kernel "kernel void g(group<1> g, in<int, 0> one) {}"
q:submit(function(cg)
  cg:parallel_for(celer.nd_range({ 2 ^ 31 }, { 256 }), k, cg:read(one, celer.all))
end)
q:wait()
]==])
    assert.equal(1, r.status)
    assert.matches("kernel g: a GPU computes less than 2%^31 items of a dimension at once, not "
      .. "2147483648", r.stderr)
  end)

  it("is reduced whole on a GPU", function()
    if cuda.no_gpu then return pending(cuda.no_gpu) end
    local r = script.run([==[
local n = 2 ^ 31 + 1000
local k = celer.kernel [=[
  kernel void line(item<1> it, reducer<int64_t> sum, reducer<int64_t> most, reducer<int64_t, 1> h,
                   reducer<double> exact) {
    sum += it[0];
    most.combine(it[0]);
    h(it[0] % 5) += 1;
    exact += it[0] % 3;
  }
  kernel void plane(item<2> it, reducer<int64_t> sum, reducer<int64_t, 1> h) {
    sum += it[0] + 1;
    h(it[0]) += it[1] % 2;
  }
]=]
local sum, most, h = celer.buffer("int64_t"), celer.buffer("int64_t"), celer.buffer("int64_t", 5)
local exact, two = celer.buffer("double"), celer.buffer("int64_t", 2)
for turn = 1, 2 do
  q:submit(function(cg)
    cg:parallel_for(n, k.line, cg:reduce(sum, "sum"), cg:reduce(most, "max"),
      cg:reduce(h, "sum", { include_current = turn == 2 }),
      cg:reduce(exact, "sum", { reproducible = true }))
  end)
  local a, b, c, d = q:wait(sum, most, h, exact)
  same("sum", a(), (n - 1) * (n / 2LL))
  same("most", b(), n - 1)
  for r = 0, 4 do same("h " .. r, c(r), turn * math.ceil((n - r) / 5)) end
  local left = n % 3
  same("exact", d(), (n - left) + (left == 2 and 1 or 0))
end
q:submit(function(cg)
  cg:parallel_for({ 2, n }, k.plane, cg:reduce(sum, "sum"), cg:reduce(two, "sum"))
end)
local a, c = q:wait(sum, two)
same("plane", a(), 3 * n)
same("of it", c(1), n / 2)
print "checked"
]==], { devices = 1 }, { before = { "--backend", "cuda", "--no-sample" } })
    assert.equal("", r.stderr)
    assert.equal("checked\n", r.stdout)
  end)

  it("is computed item by item on a GPU", function()
    if cuda.no_gpu then return pending(cuda.no_gpu) end
    local r = script.run([==[
local n = 2 ^ 31 + 1000
local u = celer.buffer("uint8_t", { n }, { name = "u" })
u:fill(3)
local k = celer.kernel [=[
  kernel void mark(item<1> it, inout<uint8_t, 1> u) {
    const int64_t i = it[0];
    if (i % 1000003 == 0) u(i) = i / 1000003;
  }
]=]
q:submit(function(cg) cg:parallel_for({ n }, k, cg:read_write(u)) end)
local far = 2147 * 1000003
local a, b, c = q:wait(celer.capture(u, celer.box({ n - 5 }, { n })),
  celer.capture(u, celer.box({ far }, { far + 2 })),
  celer.capture(u, celer.box({ 2 ^ 30 - 1 }, { 2 ^ 30 + 1 })))
same("the last", a[n - 1], 3)
same("a far one", b[far], 2147 % 256)
same("beside it", b[far + 1], 3)
same("at the seam", c[2 ^ 30 - 1] + c[2 ^ 30], 6)
print "checked"
]==], { devices = 1 }, { before = { "--backend", "cuda", "--no-sample" } })
    assert.equal("", r.stderr)
    assert.equal("checked\n", r.stdout)
  end)
end)
