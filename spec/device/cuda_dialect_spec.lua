-- The kernel language under NVRTC; on a GPU also its results.
local ffi = require("ffi")
local cuda = require("spec.device.cuda")

ffi.cdef([[
typedef struct { int64_t min[3], range[3]; uint32_t extent[3], more; } spec_launch;
typedef struct { uint64_t origin; int64_t stride0, stride1; } spec_accessor;
typedef struct {
  int32_t kind, dims, class_, size, align;
  char type[44];
  int32_t tile[3];
} spec_param;
typedef struct { spec_launch where; spec_accessor c, a, b; } spec_add;
typedef struct { spec_launch where; spec_accessor up, u; float c; } spec_step;
typedef struct { double x, y, z, m; } spec_body;
typedef struct {
  spec_launch where; spec_accessor out; bool flag; spec_accessor zero; spec_body body;
  int64_t n;
} spec_many;
]])

local SOURCE = [[
struct body { double x, y, z, m; };
float twice(float x) { return 2 * x; }  // a plain function is a device function
kernel void add(item<1> i, out<float, 1> c, in<float, 1> a, in<float, 1> b) {
  c(i[0]) = a[i[0] ] + b(i[0]);
}
kernel void step(item<2> it, inout<float, 2> up, in<float, 2> u, float c) {
  const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
  const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
  const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
  up(y, x) = twice(u(y, x)) - up(y, x) + c * (ux + uy - 4 * u(y, x));
}
kernel void many(item<3> it, out<double, 3> o, bool flag, in<double, 0> zero, body b,
                 const int64_t n) {
  o(it[0], it[1], it[2]) = (flag ? b.m : b.x) + zero() * it.linear() + min(n, 5);
}
kernel void types(item<0>, in<double3, 1> a, inout<uint4, 2> b, float2 c, unsigned char d,
                  double4 e) {}
]]

local function assembled()
  return cuda.assemble(SOURCE, "add", "step", "many", "types")
end

local function need(why)
  if why then pending(why) end
  return not why
end

describe("the kernel language under NVRTC", function()
  it("compiles without a word", function()
    if not need(cuda.no_nvrtc) then return end
    local image, log = cuda.compile(assembled())
    assert.is_not_nil(image, log)
    assert.equal("", log)
  end)

  it("has the constants that a processor's headers have", function()
    if not need(cuda.no_nvrtc) then return end
    local image, log = cuda.compile(cuda.assemble([[
      static_assert(INT_MAX == 0x7fffffff && INT_MIN < 0 && UINT_MAX == ~0u, "");
      static_assert(FLT_MAX > 3.4e38 && FLT_MIN < 1.2e-38 && 1.f + FLT_EPSILON > 1.f, "");
      static_assert(DBL_MAX > 1.7e308 && DBL_MIN < 2.3e-308 && 1 + DBL_EPSILON > 1, "");
      static_assert(M_PI > 3.141592653589793 - 1e-15 && M_PI < 3.141592653589793 + 1e-15, "");
      kernel void f(item<1> i, out<float, 1> x) { x(i[0]) = i[0] == 0 ? NAN : -INFINITY; }
    ]], "f"))
    assert.is_not_nil(image, log)
    assert.equal("", log)
  end)

  it("has random numbers", function()
    if not need(cuda.no_nvrtc) then return end
    local file = assert(io.open("kernels/random.cuh"))
    local image, log = cuda.compile(cuda.assemble(file:read("*a") .. [[
      kernel void f(item<1> i, out<float, 1> x) {
        philox random(7, i.linear());
        x(i[0]) = random.uniform() + random.normal() + random.below(5) + random.bits();
      }
    ]], "f"))
    file:close()
    assert.is_not_nil(image, log)
    assert.equal("", log)
  end)

  it("reports an error at the user's line", function()
    if not need(cuda.no_nvrtc) then return end
    local image, log = cuda.compile(cuda.assemble(
      "\nkernel void f(item<1> i, out<int, 1> x) {\n  x(i[0]) = y;\n}\n", "f"))
    assert.is_nil(image)
    assert.matches("sim%.lua%(3%): error: .*\"y\" is undefined", log)
  end)
end)

describe("the kernel language on a GPU", function()
  local module
  setup(function()
    if cuda.no_gpu then return end
    print(cuda.describe())
    module = cuda.load((assert(cuda.compile(assembled()))))
  end)

  -- Device memory that holds [0, n) x [0, m) of a buffer from (y, x) on.
  local function upload(array)
    local at = cuda.alloc(ffi.sizeof(array))
    cuda.put(at, array, ffi.sizeof(array))
    return at
  end

  it("describes parameters in the module", function()
    if not need(cuda.no_gpu) then return end
    local function params(name)
      local bytes, size = cuda.global(module, "celer_params_" .. name)
      local list = {}
      for i = 0, size / ffi.sizeof("spec_param") - 1 do
        local p = ffi.cast("const spec_param *", bytes)[i]
        list[i + 1] = ("%d %d %s %d %d %s"):format(p.kind, p.dims,
          p.class_ == 0 and "-" or string.char(p.class_), p.size, p.align, ffi.string(p.type))
      end
      return list
    end
    assert.same({ "1 2 - 0 0 ", "4 2 f 4 4 float", "2 2 f 4 4 float", "5 0 f 4 4 float",
      "0 0 - 0 0 " }, params("step"))
    assert.same({ "1 3 - 0 0 ", "3 3 f 8 8 double", "5 0 b 1 1 bool", "2 0 f 8 8 double",
      "5 0 s 32 8 body", "5 0 i 8 8 long", "0 0 - 0 0 " }, params("many"))
    assert.same({ "1 0 - 0 0 ", "2 1 s 24 8 double3", "4 2 s 16 16 uint4", "5 0 s 8 8 float2",
      "5 0 u 1 1 unsigned char", "5 0 s 32 16 double4", "0 0 - 0 0 " }, params("types"))
  end)

  it("adds vectors, each held from another offset on, three items to a thread", function()
    if not need(cuda.no_gpu) then return end
    local n, lo, hi = 100000, 1234, 98765
    local a, b, c = ffi.new("float[?]", n), ffi.new("float[?]", n), ffi.new("float[?]", n)
    for i = 0, n - 1 do a[i], b[i] = i % 1000, (3 * i) % 777 end
    local da, db, dc = upload(a), upload(b), upload(c)
    -- Memory begins at coordinate 0 of c, 100 of a, 1000 of b.
    local args = ffi.new("spec_add")
    args.where.min[0], args.where.extent[0], args.where.range[0] = lo, hi - lo, n
    args.where.more = 2
    args.c.origin, args.a.origin, args.b.origin = dc, da - 100 * 4, db - 1000 * 4
    cuda.launch(cuda.kernel(module, "celer_run_add"),
      { math.ceil((hi - lo) / 768), 1, 1 }, { 256, 1, 1 }, { args })
    cuda.get(c, dc, ffi.sizeof(c))
    for i = 0, n - 1 do
      assert.equal(i >= lo and i < hi and a[i - 100] + b[i - 1000] or 0, c[i])
    end
    for _, at in ipairs({ da, db, dc }) do cuda.free(at) end
  end)

  it("steps a wave, four rows to a thread", function()
    if not need(cuda.no_gpu) then return end
    local h, w = 301, 517
    local u, up, want = ffi.new("float[?]", h * w), ffi.new("float[?]", h * w),
      ffi.new("float[?]", h * w)
    for i = 0, h * w - 1 do
      u[i], up[i] = (i * 37 % 101) / 8, (i * 53 % 89) / 16
      want[i] = up[i]
    end
    local y0, y1, x0, x1 = 0, h, 3, w
    for y = y0, y1 - 1 do
      for x = x0, x1 - 1 do
        local function at(j, i) return u[j * w + i] end
        local uy = at(math.min(y + 1, h - 1), x) + at(math.max(y - 1, 0), x)
        local ux = at(y, math.min(x + 1, w - 1)) + at(y, math.max(x - 1, 0))
        want[y * w + x] = 2 * at(y, x) - up[y * w + x] + 0.25 * (ux + uy - 4 * at(y, x))
      end
    end
    local du, dup = upload(u), upload(up)
    local args = ffi.new("spec_step")
    args.where.min[0], args.where.min[1] = y0, x0
    args.where.extent[0], args.where.extent[1] = y1 - y0, x1 - x0
    args.where.range[0], args.where.range[1] = h, w
    args.where.more = 3
    args.up.origin, args.up.stride0, args.up.stride1 = dup, w, 1
    args.u.origin, args.u.stride0, args.u.stride1 = du, w, 1
    args.c = 0.25
    cuda.launch(cuda.kernel(module, "celer_run_step"), { math.ceil((x1 - x0) / 32), 10, 1 },
      { 32, 8, 1 }, { args })
    cuda.get(up, dup, ffi.sizeof(up))
    -- All values are multiples of 1/64 and small: exact, contracted or not.
    for i = 0, h * w - 1 do assert.equal(want[i], up[i]) end
    cuda.free(du)
    cuda.free(dup)
  end)

  it("passes structs, booleans and 0-dimensional buffers, in three dimensions", function()
    if not need(cuda.no_gpu) then return end
    local n = { 5, 9, 70 }
    local out, zero = ffi.new("double[?]", n[1] * n[2] * n[3]), ffi.new("double[1]", 0.5)
    local dout, dzero = upload(out), upload(zero)
    for flag = 0, 1 do
      local args = ffi.new("spec_many")
      for d = 1, 3 do args.where.extent[d - 1], args.where.range[d - 1] = n[d], n[d] end
      args.out.origin, args.out.stride0, args.out.stride1 = dout, n[2] * n[3], n[3]
      args.zero.origin = dzero
      args.flag = flag == 1
      args.body = { 10, 20, 30, 40 }
      args.n, args.where.more = 3, 1
      cuda.launch(cuda.kernel(module, "celer_run_many"), { 3, 1, 2 }, { 32, 4, 2 }, { args })
      cuda.get(out, dout, ffi.sizeof(out))
      for i = 0, n[1] * n[2] * n[3] - 1 do
        assert.equal((flag == 1 and 40 or 10) + 0.5 * i + 3, out[i])
      end
    end
    cuda.free(dout)
    cuda.free(dzero)
  end)
end)
