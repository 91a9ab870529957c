-- The wave step in the kernel language against the same in plain CUDA C++.
-- Usage, on a machine with a GPU: luajit spec/bench/cuda_dialect.lua [n] [steps]
package.path = "./?.lua;" .. package.path
local ffi = require("ffi")
local cuda = require("spec.device.cuda")
if cuda.no_gpu then
  print("skipped: " .. cuda.no_gpu)
  return
end

ffi.cdef([[
typedef struct { int64_t min[3], range[3]; uint32_t extent[3], more; } bench_launch;
typedef struct { uint64_t origin; int64_t stride0, stride1; } bench_accessor;
typedef struct { bench_launch where; bench_accessor up, u; float c; } bench_step;
typedef struct { long tv_sec, tv_nsec; } bench_time;
int clock_gettime(int clock, bench_time *out);
]])

local function now()
  local t = ffi.new("bench_time")
  ffi.C.clock_gettime(1, t)
  return tonumber(t.tv_sec) + tonumber(t.tv_nsec) * 1e-9
end

local module = cuda.load((assert(cuda.compile(cuda.assemble([[
kernel void step(item<2> it, inout<float, 2> up, in<float, 2> u, float c) {
  const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
  const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
  const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
  up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));
}
extern "C" __global__ void plain(float *__restrict__ up, const float *__restrict__ u, float c,
                                 int h, int w) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  const long r = (long)y * w;
  const float uy = u[(long)min(y + 1, h - 1) * w + x] + u[(long)max(y - 1, 0) * w + x];
  const float ux = u[r + min(x + 1, w - 1)] + u[r + max(x - 1, 0)];
  up[r + x] = 2 * u[r + x] - up[r + x] + c * (ux + uy - 4 * u[r + x]);
}
]], "step")))))

local n, steps = tonumber(arg[1]) or 16384, tonumber(arg[2]) or 100
local bytes = n * n * 4
local up, u = cuda.alloc(bytes), cuda.alloc(bytes)
local zero = ffi.new("char[?]", bytes)
cuda.put(up, zero, bytes)
cuda.put(u, zero, bytes)
local grid, block = { math.ceil(n / 32), math.ceil(n / 8), 1 }, { 32, 8, 1 }

local args = ffi.new("bench_step")
for d = 0, 1 do args.where.extent[d], args.where.range[d] = n, n end
args.up.origin, args.up.stride0, args.up.stride1 = up, n, 1
args.u.origin, args.u.stride0, args.u.stride1 = u, n, 1
args.c = 0.25
local plain_args = { ffi.new("uint64_t[1]", up), ffi.new("uint64_t[1]", u),
  ffi.new("float[1]", 0.25), ffi.new("int[1]", n), ffi.new("int[1]", n) }

print(cuda.describe(), n .. " x " .. n, "best of 5 x " .. steps .. " launches")
local best = {}
for round = 1, 6 do -- the first warms up
  for name, params in pairs({ celer_run_step = { args }, plain = plain_args }) do
    local f = cuda.kernel(module, name)
    cuda.wait()
    local begin = now()
    for _ = 1, steps do cuda.launch(f, grid, block, params) end
    cuda.wait()
    local t = (now() - begin) / steps
    if round > 1 and t < (best[name] or 1e9) then best[name] = t end
  end
end
for name, t in pairs(best) do
  print(("%-16s %8.1f us  %7.1f GB/s (3 x 4 bytes per item)"):format(name, t * 1e6,
    3 * bytes / t / 1e9))
end
print(("speed against plain: %.2f"):format(best.plain / best.celer_run_step))
