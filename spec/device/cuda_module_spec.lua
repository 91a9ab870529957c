-- Modules for GPUs. Without one: parameters and layout, on the driver that
-- spec/device/fake_driver.lua makes. With one: also what the kernels compute.
local ffi = require("ffi")
local child = require("spec.support.child")
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local k = require("spec.device.compile")
local c = k.c

local SOURCE = [[
struct body { double x, y, z, m; };
kernel void step(item<2> it, inout<float, 2> up, in<float, 2> u, float c) {
  const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
  const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
  const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
  up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));
}
kernel void many(item<3> it, out<double, 3> o, bool flag, in<double, 0> zero, body b, char d,
                 short e, const int64_t n) {
  o(it[0], it[1], it[2]) = (flag ? b.m : b.x) + zero() * it.linear() + min(n, 5) + d + e;
}
kernel void nothing(item<0>) {}
]]

-- A line per argument of each kernel.
local DESCRIBE = [[
local ffi = require("ffi")
local k = require("spec.device.compile")
local function describe(module)
  local lines = {}
  for i = 0, k.c.cel_module_kernels(module) - 1 do
    local work = k.c.cel_module_work(module, i, ffi.new("char[256]"),
      k.c.cel_module_values_size(module, i))
    local kernel = work.cuda
    lines[#lines + 1] = ("%s %d-d, %d bytes, %d params"):format(ffi.string(kernel.name),
      kernel.dims, kernel.bytes, #k.params(module, i))
    for j = 0, kernel.arguments - 1 do
      local a = kernel.argument[j]
      lines[#lines + 1] = ("%s %d at %d%s"):format(a.reducer and "reducer"
        or a.view and "view" or "value", a.size, a.at, a.reducer and ", " .. a.from
        or a.view and "" or " from " .. a.from)
    end
    work.destroy(work)
  end
  return table.concat(lines, "\n") .. "\n"
end
]]

local WANT = [[
step 2-d, 128 bytes, 4 params
view 4 at 64
view 4 at 88
value 4 at 112 from 0
many 3-d, 176 bytes, 8 params
view 8 at 64
value 1 at 88 from 0
view 8 at 96
value 32 at 120 from 8
value 1 at 152 from 40
value 2 at 154 from 42
value 8 at 160 from 48
nothing 0-d, 80 bytes, 1 params
]]

describe("a module for GPUs", function()
  local function on_fake(text, env)
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    env = fake.env(env or {})
    env.FAKE_GPUS, env.CELER_CACHE = env.FAKE_GPUS or 2, k.cache
    return child(DESCRIBE .. "local SOURCE = [==[" .. SOURCE .. "]==]\n" .. [[
        local function open(...)
          local out = ffi.new("cel_cuda *[1]")
          assert(k.c.cel_cuda_open(ffi.new("int32_t[2]", ...), select("#", ...), out) == 0)
          return out[0]
        end
      ]] .. text, env)
  end

  it("describes its parameters and where they lie", function()
    local r = on_fake([[
      local cuda = open(1, 0)
      local module = assert(k.compile(SOURCE, { cuda = cuda }))
      io.write(describe(module))
      k.c.cel_module_destroy(require("ffi").gc(module, nil))
      k.c.cel_cuda_close(cuda)
    ]])
    if not r then return end
    assert.equal(WANT, r.stdout, r.stderr)
    -- The header says the same.
    local asserted, name, argument = {}, nil, nil
    local function add(what, value)
      asserted[#asserted + 1] = ("static_assert(%s == %s, \"\");"):format(what, value)
    end
    for line in WANT:gmatch("[^\n]+") do
      local kernel, size = line:match("^(%l+) %d%-d, (%d+) bytes")
      if kernel then
        name, argument = kernel, 0
        add(("sizeof(celer::entry<&%s>::packed)"):format(name), size)
      else
        add(("64 + celer::signature<decltype(&%s)>::argument_at(%d)"):format(name, argument),
          line:match(" at (%d+)"))
        argument = argument + 1
      end
    end
    assert.equal(13, #asserted)
    assert(k.check_cuda(SOURCE .. table.concat(asserted, "\n")))
  end)

  it("finds reducers where they are, and what begins and combines their rows", function()
    local source = [[
      struct pair { short a, b; };
      kernel void few(item<1> it, reducer<char> c, char x, reducer<double4> d, in<int, 1> a,
                      reducer<pair> p, int n, reducer<float, 2> h) {}
      kernel void none(item<1> it, char x) {}
      kernel void groups(group<2> g, reducer<long, 1> h, local<int, 16> l) {}
    ]]
    local r = on_fake([[
      local prelude = k.embedded("group.cuh") .. k.embedded("reduce.cuh")
      local cuda = open(1, 0)
      local module = assert(k.compile([=[]] .. source .. [[]=], { cuda = cuda, prelude = prelude }))
      io.write(describe(module))
      for i = 0, 2 do
        local work = k.c.cel_module_work(module, i, ffi.new("char[16]"),
          k.c.cel_module_values_size(module, i))
        local kernel = work.cuda
        print(i, kernel.begin[1] ~= nil, kernel.combine[1] ~= nil, kernel.grouped)
      end
    ]])
    if not r then return end
    local asserted, n = {}, 0
    for line in r.stdout:gmatch("[^\n]+") do
      local type_, at, from = line:match("^reducer (%d+) at (%d+), (%d+)$")
      if at then
        n = n + 1
        local which = ({ "few", "few", "few", "few", "groups" })[n]
        local place = ({ 0, 2, 4, 6, 0 })[n]
        local t = ({ "char", "double4", "pair", "float", "long" })[n]
        asserted[#asserted + 1] = ("static_assert(64 + celer::signature<decltype(&%s)>"
          .. "::argument_at(%d) == %s, \"\");"):format(which, place, at)
        asserted[#asserted + 1] = ("static_assert(sizeof(%s) == %s && 32 %% alignof(%s) == 0, "
          .. "\"\");"):format(t, type_, t)
        assert.equal(at + 32, tonumber(from)) -- behind four words
      end
      local name, bytes = line:match("^(%l+) %d%-d, (%d+) bytes")
      if name then
        asserted[#asserted + 1] = ("static_assert(sizeof(celer::entry<&%s>::packed) == %s, "
          .. "\"\");"):format(name, bytes)
      end
    end
    assert.equal(5, n, r.stdout .. r.stderr)
    assert.equal(13, #asserted)
    assert.matches("0\ttrue\ttrue\tfalse\n1\tfalse\tfalse\tfalse\n2\ttrue\ttrue\ttrue\n$",
      r.stdout)
    local ok, _, message = k.check_cuda(source .. table.concat(asserted, "\n"), { prelude =
      k.embedded("group.cuh") .. k.embedded("reduce.cuh") })
    assert.is_truthy(ok, message)
  end)

  it("is compiled again for wide strides, for works made from then on", function()
    local r = on_fake([[
      local cuda = open(0, 1)
      local module = assert(k.compile(SOURCE, { cuda = cuda }))
      local function kernel()
        local work = k.c.cel_module_work(module, 2, ffi.new("char[8]"), 0)
        local cuda = work.cuda
        work.destroy(work)
        return cuda
      end
      local narrow = kernel()
      assert(k.c.cel_module_suit(module, 2, ffi.new("cel_suits", { wide = true,
        folds = true })) == 0)
      assert(kernel() ~= narrow and kernel() == kernel())
      assert(kernel()["function"][0] ~= narrow["function"][0])
      io.write(describe(module))
    ]])
    if not r then return end
    assert.equal(WANT, r.stdout, r.stderr)
  end)

  it("is compiled again, with contraction, for works that can be no step of a fold", function()
    local r = on_fake([[
      local cuda = open(0, 1)
      local source = "kernel void f(item<1> i, inout<float, 1> a) { a(i[0]) = a(i[0]) * 3 + 1; }"
      local function kernels(options, contract)
        local module = assert(k.compile(source, { cuda = cuda, options = options,
          contract = contract }))
        local found = {}
        for i, folds in ipairs { true, false, true } do
          assert(k.c.cel_module_suit(module, 0, ffi.new("cel_suits", { folds = folds })) == 0)
          local work = k.c.cel_module_work(module, 0, ffi.new("char[8]"), 0)
          found[i] = work.cuda
          work.destroy(work)
        end
        print(found[1] == found[2], found[1] == found[3], k.c.cel_module_contracts_by_shape(module))
      end
      kernels()
      kernels({ "-fmad=true" })
      kernels(nil, "CEL_CONTRACT_ALWAYS")
      kernels(nil, "CEL_CONTRACT_NEVER")
    ]])
    if not r then return end
    assert.equal("false\ttrue\ttrue\n" .. ("true\ttrue\tfalse\n"):rep(3), r.stdout, r.stderr)
  end)

  it("says what a kernel takes of the GPU", function()
    local r = on_fake([[
      local cuda = open(0)
      local module = assert(k.compile(SOURCE, { cuda = cuda }))
      local info = ffi.new("cel_kernel_info")
      assert(k.c.cel_module_info(module, 0, 256, info) == 0)
      print(info.architecture, info.registers, info.shared, info.local_, info.threads,
        info.blocks, info.occupancy)
    ]])
    if not r then return end
    assert.truthy(r.stdout:match("^90\t[1-9]%d+\t0\t0\t256\t6\t0.75\n$"), r.stdout .. r.stderr)
  end)

  it("has the registers for the groups that are launched, and no fewer", function()
    local r = on_fake([[
      local source = [=[
        kernel void many(group<1> g, inout<float, 1> a) {
          float x[96];
          for (int i = 0; i < 96; ++i) x[i] = a(g.global(0) * 96 + i);
          g.barrier();
          for (int r = 0; r < 1000; ++r)
            for (int i = 0; i < 96; ++i) x[i] = x[i] * x[(i + 1) % 96] + 1;
          for (int i = 0; i < 96; ++i) a(g.global(0) * 96 + i) = x[i];
        }
      ]=]
      local cuda = open(0)
      local module = assert(k.compile(source, { cuda = cuda, prelude = k.embedded("group.cuh") }))
      local function work(items)
        assert(k.c.cel_module_suit(module, 0, ffi.new("cel_suits", { items = items,
          folds = true })) == 0)
        local work = k.c.cel_module_work(module, 0, ffi.new("char[8]"), 0)
        local info = ffi.new("cel_kernel_info")
        assert(k.c.cel_module_info(module, 0, math.max(items, 1), info) == 0)
        io.write(("%d: %d, %s; "):format(items, info.threads,
          info.registers > 96 and info.local_ == 0 and "all" or info.registers <= 64 and "few"))
        return work.cuda
      end
      local small = work(0)
      assert(work(256) == small)
      assert(work(512) ~= small and work(1024) ~= small and work(257) == work(512))
      assert(work(1) == small)
    ]])
    if not r then return end
    assert.equal("0: 256, all; 256: 256, all; 512: 512, all; 1024: 1024, few; 257: 512, all; "
      .. "512: 512, all; 1: 256, all; ", r.stdout, r.stderr)
  end)
end)

describe("on a GPU", function()
  local opened, module
  setup(function()
    if cuda.no_gpu then return end
    local out = ffi.new("cel_cuda *[1]")
    assert(c.cel_cuda_open(ffi.new("int32_t[1]", 0), 1, out) == 0,
      ffi.string(c.cel_error_last().text))
    opened = out[0]
    module = assert(k.compile(SOURCE, { cuda = opened }))
  end)
  teardown(function()
    if not opened then return end
    c.cel_module_destroy(ffi.gc(module, nil))
    c.cel_cuda_close(opened)
  end)

  local function on_gpu(name, test)
    it(name, function()
      if cuda.no_gpu then return pending(cuda.no_gpu) end
      test()
    end)
  end

  local function upload(array)
    local at = cuda.alloc(ffi.sizeof(array))
    cuda.put(at, array, ffi.sizeof(array))
    return at
  end

  -- Launches kernel `i` over `n` items; a view is {at, stride0, stride1}, a value cdata.
  local function launch(i, n, values, views)
    local work = c.cel_module_work(module, i, values, c.cel_module_values_size(module, i))
    local kernel = work.cuda
    local bytes = ffi.new("uint8_t[?]", kernel.bytes)
    local where = ffi.cast("int64_t *", bytes)
    for d = 1, #n do
      where[2 + d] = n[d]
      ffi.cast("uint32_t *", bytes)[11 + d] = n[d]
    end
    local view = 0
    for j = 0, kernel.arguments - 1 do
      local a = kernel.argument[j]
      if a.view then
        view = view + 1
        local to = ffi.cast("uint64_t *", bytes + a.at)
        for d = 1, 3 do to[d - 1] = views[view][d] or 1 end
      else
        ffi.copy(bytes + a.at, ffi.cast("const char *", work.values) + a.from, a.size)
      end
    end
    local x, y, z = n[#n] or 1, n[#n - 1] or 1, n[#n - 2] or 1
    cuda.launch(kernel["function"][0], { math.ceil(x / 32), math.ceil(y / 4), z },
      { 32, 4, 1 }, { bytes })
    cuda.wait()
    work.destroy(work)
  end

  on_gpu("parameters are as on the fake driver", function()
    local describe_module = assert(loadstring(DESCRIBE .. "return describe"))()
    assert.equal(WANT, describe_module(module))
  end)

  for _, wide in ipairs({ false, true }) do
    local kind = wide and ", with wide strides" or ""
    on_gpu("kernels compute" .. kind, function()
      for i = 0, wide and c.cel_module_kernels(module) - 1 or -1 do
        assert.equal(0, tonumber(c.cel_module_suit(module, i,
          ffi.new("cel_suits", { wide = true, folds = true }))))
      end
      local h, w = 31, 47
      local u, up = ffi.new("float[?]", h * w), ffi.new("float[?]", h * w)
      for i = 0, h * w - 1 do u[i], up[i] = i % 7, i % 5 end
      local du, dup = upload(u), upload(up)
      launch(0, { h, w }, ffi.new("float[1]", 0.25), { { dup, w }, { du, w } })
      cuda.get(up, dup, ffi.sizeof(up))
      for y = 0, h - 1 do
        for x = 0, w - 1 do
          local i = y * w + x
          local sum = u[math.min(y + 1, h - 1) * w + x] + u[math.max(y - 1, 0) * w + x]
            + u[y * w + math.min(x + 1, w - 1)] + u[y * w + math.max(x - 1, 0)]
          assert.equal(2 * u[i] - i % 5 + 0.25 * (sum - 4 * u[i]), up[i])
        end
      end
      cuda.free(du)
      cuda.free(dup)
    end)

    on_gpu("structs and small values arrive" .. kind, function()
      local n = { 2, 5, 33 }
      local out, zero = ffi.new("double[?]", 2 * 5 * 33), ffi.new("double[1]", 0.5)
      local dout, dzero = upload(out), upload(zero)
      local values = ffi.new("struct { bool flag; double body[4]; char d; short e; int64_t n; }",
        { true, { 10, 20, 30, 40 }, 7, 100, 3 })
      launch(1, n, values, { { dout, 5 * 33, 33 }, { dzero } })
      cuda.get(out, dout, ffi.sizeof(out))
      for i = 0, 2 * 5 * 33 - 1 do assert.equal(40 + 0.5 * i + 3 + 7 + 100, out[i]) end
      cuda.free(dout)
      cuda.free(dzero)
    end)
  end

  on_gpu("a kernel says what it takes", function()
    local info = ffi.new("cel_kernel_info")
    assert.equal(0, tonumber(c.cel_module_info(module, 0, 256, info)))
    print(("step: %d registers, %d bytes local, %d blocks of 256, occupancy %.2f"):format(
      info.registers, info.local_, info.blocks, info.occupancy))
    assert.is_true(info.registers > 0 and info.registers <= 255)
    assert.is_true(info.occupancy > 0 and info.occupancy <= 1)
    assert.equal(0, info.shared)
    assert.equal(0, info.local_)
  end)
end)
