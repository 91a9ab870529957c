-- CUDA files with plain __global__ functions, from Lua. Without a GPU on the
-- driver of spec/device/fake_driver.lua, which can compute saxpy.
local celer = require("spec.support.celer")
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local script = require("spec.support.script")

local SAXPY = [[
// extern "C" __global__ void no(int n) {}
extern "C" __global__ void __launch_bounds__(256)
saxpy(const int n, float a, const float *__restrict__ x, float *y) {
  int kernel = blockIdx.x * blockDim.x + threadIdx.x;
  if (kernel < n) y[kernel] += a * x[kernel];
}
]]

-- Rows of a matrix that lie `pitch` elements apart, 16 x 8 threads at a time.
local ROWS = [[
struct pair { double a; int b; };
template <class T> __device__ T twice(T x) { return 2 * x; }
__global__ void rows(float *m, size_t pitch, int w, int h, const float *all, int y0, pair p) {
  __shared__ float first;
  if (threadIdx.x == 0 && threadIdx.y == 0) first = all[0];
  __syncthreads();
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < w && y < h) m[y * pitch + x] = twice(1000 * (y0 + y) + x + first + all[1]) + p.a + p.b;
}
]]

local function on_fake(name, text, check, shape, devices)
  it(name, function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    local r = script.run(text, shape or script.shapes[1], {
      files = { ["saxpy.cu"] = SAXPY, ["bad.cu"] = "\n__global__ void f(int *p) { y = 1; }\n" },
      before = { "--backend", "cuda", "--devices", devices or "0," },
      env = fake.env({ FAKE_GPUS = 2 }),
    })
    check(r)
  end)
end

local ADD = [[
local m = celer.cuda_module("saxpy.cu")
same("name", tostring(m.saxpy), "kernel saxpy(int, float, const float *, float *)")
local x = celer.buffer("float", 1000, { init = function(i) return i end })
local y = celer.buffer("float", 1000, { init = function(i) return 1 end })
q:submit(function(cg)
  local r, w = cg:read(x), cg:read_write(y)
  cg:parallel_for(1000, m.saxpy, celer.chunk_size(), 2, r, w)
end)
local s = q:wait(y)
for i = 0, 999 do same("y", s[i], 2 * i + 1) end
print "checked"
]]

describe("celer.cuda_module", function()
  local function fine(launches)
    return function(r)
      assert.equal("checked\n", r.stdout, r.stderr)
      assert.equal(0, r.status)
      assert.equal(launches, r.stderr)
    end
  end
  on_fake("gives each chunk its size, and pointers to its first elements", ADD,
    fine("launch 4 1 1 of 256 1 1\n"))
  on_fake("does so on two devices", ADD, fine(("launch 2 1 1 of 256 1 1\n"):rep(2)), nil, "0,1")
  on_fake("does so on two ranks", ADD, fine(("launch 2 1 1 of 256 1 1\n"):rep(2)),
    { ranks = 2, devices = 1 }, "0,1")
  on_fake("takes blocks of the user's shape", (ADD:gsub("\"saxpy.cu\"", "%0, { block = 128 }")),
    fine("launch 8 1 1 of 128 1 1\n"))

  on_fake("refuses what does not fit", [=[
local m = celer.cuda_module("saxpy.cu")
local x, d = celer.buffer("float", 8, { name = "x" }), celer.buffer("double", 8, { name = "d" })
local function with(range, k, ...)
  local given = { ... }
  return function() q:submit(function(cg)
    local list = {}
    for i, f in ipairs(given) do list[i] = type(f) == "function" and f(cg) or f end
    cg:parallel_for(range, k, unpack(list))
  end) end
end
local function read(b) return function(cg) return cg:read(b) end end
local function write(b) return function(cg) return cg:discard_write(b) end end
local function told(words, f)
  local ok, message = pcall(f)
  same(words, not ok and message:find(words, 1, true) ~= nil, true)
end
told("takes 4 arguments, got 1", with(8, m.saxpy, 1))
told("argument 3 of kernel saxpy: the kernel declares const float *, but d holds double",
  with(8, m.saxpy, 1, 1, read(d), write(x)))
told("argument 4 of kernel saxpy: the kernel declares float *, but x is accessed with cg:read",
  with(8, m.saxpy, 1, 1, read(x), read(x)))
told("blocks of 1 dimension, but the range has 2", with({ 2, 4 }, m.saxpy, 1, 1, read(x),
  write(x)))
told("celer.chunk_size is for integers", with(8, m.saxpy, 1, celer.chunk_size(), read(x),
  write(x)))
local k = celer.kernel "kernel void f(item<1> i, int n) {}"
told("celer.range_size is for integers", with(8, k, celer.range_size()))
refused("there is no kernel 'no'", function() local _ = m.no end)
refused("none.cu: No such file", function() celer.cuda_module("none.cu") end)
refused("unknown option 'blocks'", function() celer.cuda_module("saxpy.cu", { blocks = 2 }) end)
refused("1024 threads at most, not 2048", function()
  celer.cuda_module("saxpy.cu", { block = { 64, 32 } })
end)
refused("a dimension is 0, 1 or 2", function() celer.chunk_start(3) end)
told('bad.cu:2: error: identifier "y" is undefined', function() celer.cuda_module("bad.cu") end)
print "checked"
]=], fine(""))

  it("says that the processor has no use for it", function()
    local r = celer.run({ "run", "--backend", "cpu", "/dev/stdin" },
      { stdin = "require('celer').cuda_module('x.cu')" })
    assert.matches("x.cu holds kernels for a GPU, and this run computes on the processor", r.stderr)
    assert.equal(1, r.status)
  end)

  for _, shape in ipairs(script.gpus) do
    it("computes on a GPU " .. shape.name, function()
      if cuda.no_gpu then return pending(cuda.no_gpu) end
      local r = script.run([==[
local pair = celer.struct("pair", "double a; int b;")
local m = celer.cuda_module("rows.cu", { block = { 16, 8 } })
local h, w = 301, 77
local a = celer.buffer("float", { h, w })
local two = celer.buffer("float", 2, { init = function(i) return 0.25 + i end })
q:submit(function(cg)
  local to, all = cg:discard_write(a), cg:read(two, celer.all)
  cg:parallel_for({ h, w }, m.rows, to, celer.stride(1), celer.chunk_size(1),
    celer.chunk_size(0), all, celer.chunk_start(0), { a = 0.5, b = 3 })
end)
local s = q:wait(a)
for y = 0, h - 1 do
  for x = 0, w - 1 do same(y .. " " .. x, s(y, x), 2 * (1000 * y + x + 1.5) + 3.5) end
end
same("registers", m.rows:info(128).registers > 0, true)
same("shared", m.rows:info(128).shared_bytes >= 4, true)
print "checked"
]==], shape, { files = { ["rows.cu"] = ROWS }, before = { "--backend", "cuda" } })
      assert.equal("", r.stderr)
      assert.equal("checked\n", r.stdout)
    end)
  end
end)
