-- The kernel language, as compiled for the CPU.
local ffi = require("ffi")
local k = require("spec.device.compile")
local child = require("spec.support.child")
local points = require("spec.support.points")
local scratch = require("spec.support.scratch")

local volume, offset, each = points.volume, points.offset, points.each

-- A seeded generator of small integers (a linear congruence mod 2^31).
local function generator(seed)
  local state = seed
  return function(lo, hi)
    state = (state * 1103515245 + 12345) % 2147483648
    return lo + math.floor(state / 65536) % (hi - lo + 1)
  end
end

-- A random box of `dims` within [0, range), and one around it.
local function random_boxes(random, dims, range)
  local inner, outer = k.box({}, {}), k.box({}, {})
  for d = 0, dims - 1 do
    local a, b = random(0, range[d + 1]), random(0, range[d + 1])
    if a == b then b = a + 1 end
    inner.min[d], inner.max[d] = math.min(a, b), math.max(a, b)
    outer.min[d] = random(0, math.min(a, b))
    outer.max[d] = math.max(a, b) + random(0, 3)
  end
  return inner, outer
end

describe("a kernel", function()

  local PLACES = [=[
    kernel void d0(item<0> it, inout<long, 0> a, in<long, 0> b, long k) {
      a() = a() * 3 + b() + k + it.linear();
    }
    kernel void d1(item<1> it, inout<long, 1> a, in<long, 1> b, long k) {
      a(it[0]) = a[it[0]]*3 + b(it[0]) + k + it.linear();
    }
    kernel void d2(item<2> it, inout<long, 2> a, in<long, 2> b, long k) {
      a(it[0], it[1]) = a(it[0], it[1]) * 3 + b(it[0], it[1]) + k + it.linear();
    }
    kernel void d3(item<3> it, inout<long, 3> a, in<long, 3> b, long k) {
      a(it[0], it[1], it[2]) = a(it[0], it[1], it[2]) * 3 + b(it[0], it[1], it[2]) + k
                               + it.linear() + 0 * it.range(2);
    }
  ]=]

  it("touches exactly its chunk, wherever the memory begins, in 0 to 3 dimensions", function()
    local module = assert(k.compile(PLACES))
    local random = generator(1)
    for case = 1, 200 do
      local dims = case % 4
      local range = { random(1, 12), random(1, 12), random(1, 40) }
      local chunk, la = random_boxes(random, dims, range)
      local lb = k.box({}, {})
      for d = 0, dims - 1 do
        lb.min[d] = random(0, tonumber(chunk.min[d]))
        lb.max[d] = tonumber(chunk.max[d]) + random(0, 2)
      end
      local whole = k.box({}, {})
      for d = 0, dims - 1 do
        whole.max[d] = math.max(range[d + 1], tonumber(chunk.max[d])) + random(0, 1) * 3
      end
      local a, b = ffi.new("int64_t[?]", volume(la)), ffi.new("int64_t[?]", volume(lb))
      local want = ffi.new("int64_t[?]", volume(la))
      for i = 0, volume(la) - 1 do
        a[i] = random(0, 1000)
        want[i] = a[i]
      end
      for i = 0, volume(lb) - 1 do b[i] = random(0, 1000) end
      each(chunk, function(i, j, l)
        local n1 = tonumber(whole.max[1])
        local n2 = tonumber(whole.max[2])
        local at = offset(la, i, j, l)
        want[at] = a[at] * 3 + b[offset(lb, i, j, l)] + 7 + (i * n1 + j) * n2 + l
      end)
      k.run(module, dims, chunk, whole, { k.view(a, la), k.view(b, lb) }, ffi.new("int64_t[1]", 7))
      for i = 0, volume(la) - 1 do
        assert.is_true(want[i] == a[i], ("case %d, %d dimensions"):format(case, dims))
      end
    end
  end)

  it("computes the same bits however its chunk is cut", function()
    local module = assert(k.compile([[
      kernel void f(item<2> it, out<float, 2> o, in<float, 2> u, float c) {
        const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
        const float s = u(min(y + 1, h - 1), x) * c + u(max(y - 1, 0), x) * u(y, x);
        o(y, x) = sqrtf(s * s + 0.1f) / 3 + u(y, min(x + 1, w - 1)) * c + u(y, max(x - 1, 0));
      }
    ]]))
    local h, w = 13, 101
    local all = k.box({ 0, 0 }, { h, w })
    local random = generator(2)
    local u, want = ffi.new("float[?]", h * w), ffi.new("float[?]", h * w)
    for i = 0, h * w - 1 do u[i] = random(-10000, 10000) / 77 end
    local c = ffi.new("float[1]", 0.3)
    k.run(module, 0, all, all, { k.view(want, all), k.view(u, all) }, c)
    for _ = 1, 20 do
      local got = ffi.new("float[?]", h * w)
      local y, x = random(0, h), random(0, w)
      for _, part in ipairs({ { 0, 0, y, x }, { 0, x, y, w }, { y, 0, h, x }, { y, x, h, w } }) do
        k.run(module, 0, k.box({ part[1], part[2] }, { part[3], part[4] }), all,
          { k.view(got, all), k.view(u, all) }, c)
      end
      assert.equal(ffi.string(want, h * w * 4), ffi.string(got, h * w * 4))
    end
  end)

  -- As the engine compiles it, but for a processor that has gathers, as assembly; nil
  -- where the compiler is not g++ for x86-64.
  local function assembly(text)
    local about = scratch.output("${CXX:-c++} --version; ${CXX:-c++} -dumpmachine")
    if about:find("clang") or not about:find("x86_64", 1, true) then return nil end
    local folder = scratch.folder()
    scratch.write(folder .. "/unit.cpp", k.header .. text)
    local flags = scratch.read("engine/device/compile/compile_cpu.c"):match("flags%[%] = {(.-)};")
    local words = { "${CXX:-c++}" }
    for flag in flags:gmatch('"(%-[^"]+)"') do
      if flag ~= "-shared" then words[#words + 1] = flag end
    end
    words[#words + 1] = "-march=haswell -S -o - " .. folder .. "/unit.cpp"
    return scratch.output(table.concat(words, " "))
  end

  it("reads the neighbours in a stencil's row by whole vectors", function()
    local text = assembly([[
      kernel void step(item<2> it, inout<float, 2> up, in<float, 2> u, float c) {
        const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
        const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
        const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
        up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));
      }
      using entry = celer::entry<&step>;
      extern "C" __attribute__((visibility("default"))) void run(const celer::call *c) {
        entry::run_as<int>(c, entry::sig::all());
      }
    ]])
    if not text then return pending("needs g++ for x86-64") end
    assert.truthy(text:find("vaddps[^\n]*%%ymm"))
    assert.falsy(text:find("gather"))
  end)

  it("does so where clamp keeps them inside", function()
    local text = assembly([[
      kernel void step(item<2> it, out<float, 2> v, in<float, 2> u) {
        const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
        v(y, x) = u(clamp(y - 1, 0, h - 1), x) + u(clamp(y + 1, 0, h - 1), x)
          + u(y, clamp(x - 1, 0, w - 1)) + u(y, clamp(x + 1, 0, w - 1));
      }
      using entry = celer::entry<&step>;
      extern "C" __attribute__((visibility("default"))) void run(const celer::call *c) {
        entry::run_as<int>(c, entry::sig::all());
      }
    ]])
    if not text then return pending("needs g++ for x86-64") end
    assert.truthy(text:find("vaddps[^\n]*%%ymm"))
    assert.falsy(text:find("gather"))
  end)

  it("reaches coordinates beyond 32 bits", function()
    local module = assert(k.compile([[
      kernel void one(item<1> it, out<long, 1> a) { a(it[0]) = it[0]; }
      kernel void two(item<2> it, out<long, 2> a) { a(it[0], it[1]) = it.linear(); }
    ]]))
    local far = 2 ^ 33 + 5
    local a = ffi.new("int64_t[100]")
    k.run(module, 0, k.box({ far + 10 }, { far + 90 }), k.box({ 0 }, { 2 ^ 34 }),
      { k.view(a, k.box({ far }, { far + 100 })) })
    for i = 0, 99 do assert.equal(i >= 10 and i < 90 and far + i or 0, tonumber(a[i])) end
    local n = 2 ^ 32 + 3
    k.run(module, 1, k.box({ far, n - 10 }, { far + 10, n }), k.box({ 0, 0 }, { 2 ^ 34, n }),
      { k.view(a, k.box({ far, n - 10 }, { far + 10, n })) })
    for i = 0, 99 do
      local y, x = math.floor(i / 10), i % 10
      assert.is_true(ffi.cast("int64_t", far + y) * ffi.cast("int64_t", n) + (n - 10 + x) == a[i])
    end
  end)

  it("does nothing for an empty chunk", function()
    local module = assert(k.compile(
      "kernel void f(item<2> it, out<int, 2> a) { a(it[0], it[1]) = 1; }"))
    local a, all = ffi.new("int[4]"), k.box({ 0, 0 }, { 2, 2 })
    k.run(module, 0, k.box({ 1, 0 }, { 1, 2 }), all, { k.view(a, all) })
    k.run(module, 0, k.box({ 0, 0 }, { 2, 0 }), all, { k.view(a, all) })
    for i = 0, 3 do assert.equal(0, a[i]) end
  end)

  it("takes scalars, enums, vectors and structs by value, each at its alignment", function()
    ffi.cdef([[
      typedef struct { int8_t n; double w[3]; } spec_struct;
      typedef struct {
        bool a; int16_t b; double c; uint8_t d; spec_struct e; float f;
        struct { float x, y; } __attribute__((aligned(8))) g; int32_t h;
        struct { double x, y, z, w; } __attribute__((aligned(16))) i; uint64_t j;
      } spec_values;
    ]])
    local module = assert(k.compile([[
      struct thing { signed char n; double w[3]; };
      enum color { red, green };
      kernel void f(item<0>, out<double, 1> o, bool a, short b, double c, unsigned char d, thing e,
                    const float &f, float2 g, const color h, double4 i, uint64_t j) {
        const double all[] = {double(a), double(b), c, double(d), double(e.n), e.w[0], e.w[1],
                              e.w[2], f, g.x, g.y, double(h), i.x, i.y, i.z, i.w, double(j)};
        for (int n = 0; n < 17; ++n) o(n) = all[n];
      }
    ]]))
    local v = ffi.new("spec_values", {
      true, -2, 3.5, 200, { -5, { 6, 7, 8 } }, 9.5, { 10, 11 }, 1, { 13, 14, 15, 16 }, 17,
    })
    local o = ffi.new("double[17]")
    local point = k.box({}, {})
    k.run(module, 0, point, point, { k.view(o, k.box({ 0 }, { 17 })) }, v)
    local want = { 1, -2, 3.5, 200, -5, 6, 7, 8, 9.5, 10, 11, 1, 13, 14, 15, 16, 17 }
    for i = 1, 17 do assert.equal(want[i], o[i - 1]) end
  end)

  it("describes its parameters as the compiler sees them", function()
    local module = assert(k.compile([[
      struct body { double x, y, z, m; };
      namespace deep { struct inner { int a; }; enum kind { one }; }
      typedef float real;
      kernel void f(item<2> it, in<body, 1> a, out<double3, 2> b, inout<real, 0> c, real d,
                    bool e, long f, deep::inner g, deep::kind h, const int4 &i, unsigned char j,
                    in<int64_t, 3> l) {}
    ]]))
    local got = {}
    for i, p in ipairs(k.params(module)) do
      got[i] = ("%d %d %s %d %d %s"):format(p.kind, p.dims, p.class, p.size, p.align, p.type)
    end
    assert.same({
      "1 2  0 0 ", "2 1 s 32 8 body", "3 2 s 24 8 double3", "4 0 f 4 4 float", "5 0 f 4 4 float",
      "5 0 b 1 1 bool", "5 0 i 8 8 long", "5 0 s 4 4 deep::inner", "5 0 i 4 4 deep::kind",
      "5 0 s 16 16 int4", "5 0 u 1 1 unsigned char", "2 3 i 8 8 long",
    }, got)
  end)

  it("has what CUDA has: min, max, clamp, vectors, functions with qualifiers, printf", function()
    local module = assert(k.compile([[
      #include <math.h>
      __constant__ float table[3] = {1, 2, 3};
      __device__ __forceinline__ double third(const double3 &v) { return v.z; }
      static __host__ __device__ float twice(float x) { return 2 * x; }
      int plain(int x) { return x + 1; }
      kernel void f(item<1> it, out<double, 1> o) {
        int n = 0;
        auto put = [&](double v) { o(n++) = v; };
        put(min(3, 2)); put(max(it[0], 5)); put(min(2.5f, 7)); put(clamp(12, 0, 10));
        put(clamp(-0.5f, 0, 1)); put(third(make_double3(1, 2, 3))); put(twice(table[1]));
        put(plain(7)); put(fmaf(2.0f, 3.0f, 1.0f)); put(rsqrtf(4.0f)); put(fabs(-2.5));
        put(max(1u, 3)); put(make_uint4(1, 2, 3, 4).w);
        put(INT_MAX); put(-INFINITY); put(FLT_EPSILON); put(UINT_MAX); put(M_PI);
        if (n == 0) printf("never %d\n", n);
      }
    ]]))
    local o = ffi.new("double[18]")
    local point = k.box({ 0 }, { 1 })
    k.run(module, 0, point, point, { k.view(o, k.box({ 0 }, { 18 })) })
    local want = { 2, 5, 2.5, 10, 0, 3, 4, 8, 7, 0.5, 2.5, 3, 4,
      2 ^ 31 - 1, -math.huge, 2 ^ -23, 2 ^ 32 - 1, math.pi }
    for i = 1, #want do assert.equal(want[i], o[i - 1]) end
  end)

  it("has random numbers, those that Philox is known to give", function()
    local module = assert(k.compile([[
      kernel void f(item<1> it, out<double, 1> o) {
        int n = 0;
        auto put = [&](celer::random_block b) { for (int i = 0; i < 4; ++i) o(n++) = b.word[i]; };
        put(celer::encipher({{0, 0, 0, 0}}, 0, 0));
        put(celer::encipher({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u));
        put(celer::encipher({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822,
                            0x299f31d0));
        philox zero(0, 0), random(0x100000002, 0x300000004, 5);
        for (int i = 0; i < 4; ++i) o(n++) = zero.bits();
        put(celer::encipher({{0, 5, 4, 3}}, 2, 1));
        for (int i = 0; i < 4; ++i) o(n++) = random.bits();
        put(celer::encipher({{1, 5, 4, 3}}, 2, 1));
        o(n++) = random.bits(); o(n++) = random.uniform(); o(n++) = random.below(1000);
        o(n++) = random.normal();
      }
    ]], { prelude = k.embedded("random.cuh") }))
    local o = ffi.new("double[32]")
    local point = k.box({ 0 }, { 1 })
    k.run(module, 0, point, point, { k.view(o, k.box({ 0 }, { 32 })) })
    local known = { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8, 0x408f276d, 0x41c83b0e,
      0xa20bc7c6, 0x6d5451fd, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 }
    for i = 1, 12 do assert.equal(known[i], o[i - 1]) end
    for i = 0, 3 do assert.equal(o[i], o[12 + i]) end
    for i = 0, 3 do assert.equal(o[16 + i], o[20 + i]) end
    assert.equal(o[24], o[28])
    assert.equal(math.floor(o[25] / 256) / 2 ^ 24, o[29])
    assert.equal(math.floor(o[26] * 1000 / 2 ^ 32), o[30])
    assert.is_true(math.abs(o[31]) < 6)
  end)

  it("keeps the functions of one module from those of another", function()
    local function module(value)
      return assert(k.compile(([[
        int helper() { return %d; }
        int j0(int x) { return x + helper(); }
        kernel void f(item<0>, out<int, 0> o) { o() = j0(1); }
      ]]):format(value)))
    end
    local first, second = module(10), module(20)
    local o, point = ffi.new("int[1]"), k.box({}, {})
    k.run(first, 0, point, point, { k.view(o, point) })
    assert.equal(11, o[0])
    k.run(second, 0, point, point, { k.view(o, point) })
    assert.equal(21, o[0])
  end)
end)

describe("a kernel of tiles", function()
  local function compile(text, options)
    options = options or {}
    options.prelude = k.embedded("tile.cuh")
    return assert(k.compile(text, options))
  end

  it("says how large they are", function()
    local module = compile([[
      kernel void f(tile<4, 6, 2> t, out<int, 3> o) {}
      kernel void g(item<2> it) {}
    ]])
    local at = ffi.new("const cel_param *[1]")
    k.c.cel_module_params(module, 0, at)
    local first = at[0][0]
    assert.same({ 3, 4, 6, 2 }, { first.dims, first.tile[0], first.tile[1], first.tile[2] })
    k.c.cel_module_params(module, 1, at)
    assert.equal(0, at[0][0].tile[0])
  end)

  it("computes each item once, beyond 2^31 too", function()
    local module = compile([[
      kernel void f(tile<2, 8> t, inout<double, 2> o) {
        auto at = t.per_item<double>(1);
        t.each([&](item<2> it) { at[it] += it[1] * 10 + it[0]; });
        t.each([&](item<2> it) { o(it[0], it[1]) += at[it] + t.number(1) * 0.5; });
      }
    ]])
    for _, first in ipairs { 0, 2 ^ 31 - 8, 2 ^ 32 - 16, 2 ^ 40 } do
      local o = ffi.new("double[64]")
      local chunk = k.box({ 2, first }, { 4, first + 32 })
      k.run(module, 0, chunk, k.box({ 0, 0 }, { 4, first + 32 }), { k.view(o, chunk) })
      for i = 0, 1 do
        for j = 0, 31 do
          local at = first + j
          assert.equal(1 + at * 10 + i + 2 + math.floor(at / 8) * 0.5, o[i * 32 + j])
        end
      end
    end
  end)

  -- What is called from a loop is not vectorised. Functions as large as these are not put
  -- into it by themselves.
  it("makes of large steps, too, what a loop does and not what it calls", function()
    local lines = {}
    for i = 1, 100 do
      lines[i] = ("x = x * %d.5f + sqrtf(fabsf(x - %d.25f)) * near(u, i + %d);"):format(i, i, i % 3)
    end
    local text = ([[
      static float near(in<float, 1> u, int i) { return u(min(i, 1000)); }
      kernel void f(tile<64> t, in<float, 1> u, inout<float, 1> v, int n) {
        auto sum = t.per_item<float>(0);
        for (int k = 0; k < n; ++k) {
          t.each([&](item<1> it) { const int i = it[0]; float x = v(i); %s sum[it] += x; });
          t.each([&](auto it) { const int i = it[0]; float x = sum[it]; %s v(i) = x; });
        }
      }
    ]]):format(table.concat(lines, "\n"), table.concat(lines, "\n"))
    for _, compiler in ipairs { "g++", "clang++" } do
      if os.execute("command -v " .. compiler .. " >/dev/null") == 0 then
        local cache = scratch.folder()
        local r = child(([==[
          local k = require("spec.device.compile")
          assert(k.compile([=[%s]=], { prelude = k.embedded("tile.cuh") }))
        ]==]):format(text), { CELER_CACHE = cache, CXX = compiler })
        assert.equal("", r.stderr)
        local symbols = scratch.output("readelf -sW " .. scratch.files(cache, "%.so$")[1])
        assert.matches("celer_run_f", symbols)
        assert.is_nil(symbols:match("[^\n]*NKUl[^\n]*"), compiler)
      end
    end
  end)
end)
