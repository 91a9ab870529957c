-- C = A * B on cuBLAS: an interop task calls a library on the stream and the
-- pointers of its chunk. Each device computes some rows of C.
--   celer run matmul_cublas.lua [n]
-- On the processor the same task computes with plain loops. cuBLAS adds up in
-- another order and in single precision, so that the two differ in the last
-- bits, and so do two GPUs of different types; the check allows for it.
local celer = require "celer"
local ffi = require "ffi"

local n = tonumber(arg[1]) or 256

local function a_at(i, k) return math.sin(0.3 * i + 0.7 * k) end
local function b_at(k, j) return math.cos(0.2 * k - 0.5 * j) end

local function check(code, call)
  if code ~= 0 then error(("%s: cuBLAS status %d"):format(call, code)) end
end

local function load_cublas()
  ffi.cdef [[
    int cublasCreate_v2(void **handle);
    int cublasSetStream_v2(void *handle, void *stream);
    int cublasSgemm_v2(void *handle, int transpose_a, int transpose_b, int m, int n,
      int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
      const float *beta, float *c, int ldc);
  ]]
  for _, name in ipairs { "cublas", "libcublas.so.13", "libcublas.so.12",
    "/usr/local/cuda/lib64/libcublas.so" } do
    local ok, library = pcall(ffi.load, name)
    if ok then return library end
  end
  error "there is no libcublas.so.13 or .12 here; LD_LIBRARY_PATH says where to look"
end

-- cuBLAS, and this device's handle: made once, in the device's own thread.
local function open(part)
  local kept = part.kept
  if not kept.handle then
    kept.cublas = load_cublas()
    local out = ffi.new "void *[1]"
    check(kept.cublas.cublasCreate_v2(out), "cublasCreate")
    kept.handle = out[0]
  end
  return kept.cublas, kept.handle
end

-- cuBLAS goes by columns where celer goes by rows, so it sees the transposed
-- matrices and computes C' = B' * A'.
local function on_gpu(part, a, b, c, rows, columns, inner)
  local cublas, handle = open(part)
  local pa, lda = a:pointer()
  local pb, ldb = b:pointer()
  local pc, ldc = c:pointer()
  local one, zero = ffi.new("float[1]", 1), ffi.new("float[1]", 0)
  check(cublas.cublasSetStream_v2(handle, part.stream), "cublasSetStream")
  check(cublas.cublasSgemm_v2(handle, 0, 0, columns, rows, inner, one, pb, ldb, pa, lda,
    zero, pc, ldc), "cublasSgemm")
end

local function on_processor(a, b, c, rows, columns, inner)
  local pa, lda = a:pointer()
  local pb, ldb = b:pointer()
  local pc, ldc = c:pointer()
  for i = 0, rows - 1 do
    for j = 0, columns - 1 do
      local sum = 0
      for k = 0, inner - 1 do sum = sum + pa[i * lda + k] * pb[k * ldb + j] end
      pc[i * ldc + j] = sum
    end
  end
end

local q = celer.queue()
local A = celer.buffer("float", { n, n }, { name = "A", init = a_at })
local B = celer.buffer("float", { n, n }, { name = "B", init = b_at })
local C = celer.buffer("float", { n, n }, { name = "C" })

q:submit(function(cg)
  cg:name "matmul"
  cg:interop_task({ n, n }, function(part, a, b, c)
    local rows, columns, inner = part.size[0], part.size[1], a.size[1]
    if part.stream then
      on_gpu(part, a, b, c, rows, columns, inner)
    else
      on_processor(a, b, c, rows, columns, inner)
    end
  end, cg:read(A, celer.slice(1)), cg:read(B, celer.slice(0)), cg:discard_write(C))
end)

local c = q:drain(C)
local worst = 0
for at = 0, 99 do
  local i, j = at * 7 % n, at * 13 % n
  local sum = 0
  for k = 0, n - 1 do sum = sum + a_at(i, k) * b_at(k, j) end
  worst = math.max(worst, math.abs(c(i, j) - sum))
end
print(("%d x %d: 100 elements are right: %s"):format(n, n, worst < 1e-6 * n))
