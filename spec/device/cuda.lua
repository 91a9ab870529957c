-- cuda.lua -- NVRTC and the CUDA driver by FFI, as little as the specs need.
local ffi = require("ffi")

local M = {}

ffi.cdef([[
typedef struct _nvrtcProgram *nvrtcProgram;
int nvrtcVersion(int *major, int *minor);
int nvrtcCreateProgram(nvrtcProgram *out, const char *text, const char *name, int headers,
  const char *const *header, const char *const *include);
int nvrtcCompileProgram(nvrtcProgram p, int options, const char *const *option);
int nvrtcGetProgramLogSize(nvrtcProgram p, size_t *size);
int nvrtcGetProgramLog(nvrtcProgram p, char *log);
int nvrtcGetCUBINSize(nvrtcProgram p, size_t *size);
int nvrtcGetCUBIN(nvrtcProgram p, char *out);
int nvrtcDestroyProgram(nvrtcProgram *p);

int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *out, int ordinal);
int cuDeviceGetName(char *name, int length, int device);
int cuDeviceGetAttribute(int *out, int attribute, int device);
int cuDevicePrimaryCtxRetain(void **out, int device);
int cuCtxSetCurrent(void *context);
int cuCtxSynchronize(void);
int cuModuleLoadData(void **out, const void *image);
int cuModuleUnload(void *module);
int cuModuleGetFunction(void **out, void *module, const char *name);
int cuModuleGetGlobal_v2(uint64_t *at, size_t *size, void *module, const char *name);
int cuMemAlloc_v2(uint64_t *out, size_t size);
int cuMemFree_v2(uint64_t at);
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size);
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
  unsigned bz, unsigned shared, void *stream, void **params, void **extra);
]])

local function first_of(names)
  for _, name in ipairs(names) do
    local ok, library = pcall(ffi.load, name)
    if ok then return library end
  end
end

local nvrtc = first_of({ "nvrtc", "libnvrtc.so.13", "libnvrtc.so.12",
  "/usr/local/cuda/lib64/libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so.13" })
local driver = first_of({ "libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1" })

--- Why there is no NVRTC, or nil.
M.no_nvrtc = not nvrtc and "no NVRTC here" or nil
--- Why there is no GPU, or nil.
M.no_gpu = M.no_nvrtc

local function check(code, what)
  if code ~= 0 then error(("%s: CUDA error %d"):format(what, code), 3) end
end

local device = ffi.new("int[1]")
if not M.no_gpu then
  local count = ffi.new("int[1]")
  if not driver or driver.cuInit(0) ~= 0 or driver.cuDeviceGetCount(count) ~= 0
    or count[0] == 0 then
    M.no_gpu = "no GPU here"
  else
    local context = ffi.new("void *[1]")
    check(driver.cuDeviceGet(device, 0), "cuDeviceGet")
    check(driver.cuDevicePrimaryCtxRetain(context, device[0]), "context")
    check(driver.cuCtxSetCurrent(context[0]), "context")
  end
end

local function architecture()
  if M.no_gpu then return "sm_80" end
  local major, minor = ffi.new("int[1]"), ffi.new("int[1]")
  check(driver.cuDeviceGetAttribute(major, 75, device[0]), "attribute")
  check(driver.cuDeviceGetAttribute(minor, 76, device[0]), "attribute")
  return ("sm_%d%d"):format(major[0], minor[0])
end

function M.describe()
  local name, major, minor = ffi.new("char[256]"), ffi.new("int[1]"), ffi.new("int[1]")
  check(driver.cuDeviceGetName(name, 256, device[0]), "name")
  nvrtc.nvrtcVersion(major, minor)
  return ("%s, %s, NVRTC %d.%d"):format(ffi.string(name), architecture(), major[0], minor[0])
end

--- What the engine gives NVRTC.
M.options = { "--gpu-architecture=" .. architecture(), "--std=c++17",
  "--device-as-default-execution-space", "--diag-suppress=1444" }

--- The machine code, or nil and the log; the log too on success.
function M.compile(text, name)
  local program = ffi.new("nvrtcProgram[1]")
  check(nvrtc.nvrtcCreateProgram(program, text, name or "sim.lua", 0, nil, nil), "create")
  local options = ffi.new("const char *[?]", #M.options, M.options)
  local code = nvrtc.nvrtcCompileProgram(program[0], #M.options, options)
  local size = ffi.new("size_t[1]")
  nvrtc.nvrtcGetProgramLogSize(program[0], size)
  local log = ffi.new("char[?]", size[0] + 1)
  nvrtc.nvrtcGetProgramLog(program[0], log)
  local said = ffi.string(log)
  local image
  if code == 0 then
    check(nvrtc.nvrtcGetCUBINSize(program[0], size), "size")
    image = ffi.new("char[?]", size[0])
    check(nvrtc.nvrtcGetCUBIN(program[0], image), "image")
  end
  nvrtc.nvrtcDestroyProgram(program)
  return image, said
end

--- Header, user's text and entries, as the engine puts them together.
function M.assemble(text, ...)
  local header = require("spec.support.cdef")("embed/embedded.h")
    .cel_embedded_find("kernels/celer.cuh")
  local parts = { ffi.string(header.data), '\n#line 1 "sim.lua"\n', text, "\n" }
  for _, name in ipairs({ ... }) do parts[#parts + 1] = "CELER_ENTRY(" .. name .. ")\n" end
  return table.concat(parts)
end

function M.load(image)
  local module = ffi.new("void *[1]")
  check(driver.cuModuleLoadData(module, image), "load")
  return module[0]
end

function M.kernel(module, name)
  local f = ffi.new("void *[1]")
  check(driver.cuModuleGetFunction(f, module, name), name)
  return f[0]
end

--- The bytes of a global variable.
function M.global(module, name)
  local at, size = ffi.new("uint64_t[1]"), ffi.new("size_t[1]")
  check(driver.cuModuleGetGlobal_v2(at, size, module, name), name)
  local out = ffi.new("char[?]", size[0])
  check(driver.cuMemcpyDtoH_v2(out, at[0], size[0]), "copy")
  return out, tonumber(size[0])
end

function M.alloc(bytes)
  local at = ffi.new("uint64_t[1]")
  check(driver.cuMemAlloc_v2(at, bytes), "alloc")
  return at[0]
end

function M.free(at) check(driver.cuMemFree_v2(at), "free") end
function M.put(at, data, bytes) check(driver.cuMemcpyHtoD_v2(at, data, bytes), "put") end
function M.get(data, at, bytes) check(driver.cuMemcpyDtoH_v2(data, at, bytes), "get") end
function M.wait() check(driver.cuCtxSynchronize(), "wait") end

--- Launches with blocks of `block`, over `grid`; `params` are cdata, in order.
function M.launch(f, grid, block, params)
  local list = ffi.new("void *[?]", #params + 1)
  for i, p in ipairs(params) do list[i - 1] = ffi.cast("void *", p) end
  check(driver.cuLaunchKernel(f, grid[1], grid[2], grid[3], block[1], block[2], block[3], 0,
    nil, list, nil), "launch")
end

return M
