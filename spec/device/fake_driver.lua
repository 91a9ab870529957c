-- fake_driver.lua -- builds a libcuda.so.1 that shows GPUs where there are none, and a
-- libnccl.so.2 that is too old, or does not start: a real one does not get along with such
-- a driver.
--
--   local fake = require("spec.device.fake_driver")
--   celer.run(args, { env = fake.env({ FAKE_GPUS = 4 }) })
--   celer.run(args, { env = fake.env({ FAKE_GPUS = 4, FAKE_NCCL = 22809 }) }) -- its version
local scratch = require("spec.support.scratch")

local M = {}

-- A library of the folder from C.
local function compile(folder, text, name, flags)
  scratch.write(("%s/%s.c"):format(folder, name), text)
  local command = ("%s -std=gnu11 %s -fPIC -shared %s/%s.c -o %s/%s"):format(
    os.getenv("CC") or "cc", flags, folder, name, folder, name)
  assert(os.execute(command) == 0, command)
end

-- The driver's functions that both faces share, and those that fail.
local memory = "spec/device/fake_memory.c"

local function driver_text()
  local text = scratch.read("spec/device/fake_driver.c")
  local shared = scratch.read(memory)
  local parts = { text }
  for name in scratch.read("engine/device/cuda_api.h"):gmatch("_%(CUresult, ([%w_]+),") do
    if not text:find("int " .. name .. "(", 1, true)
      and not text:find("[%u_]+%(" .. name .. "%)")
      and not shared:find("\nCUresult " .. name .. "(", 1, true) then
      parts[#parts + 1] = ("int %s(void);\nint %s(void) { return 801; }"):format(name, name)
    end
  end
  return table.concat(parts, "\n")
end

local function nccl_text()
  local text = [[
#include <stdlib.h>
int ncclGetVersion(int *out) {
  const char *version = getenv("FAKE_NCCL");
  *out = version != NULL ? atoi(version) : 21003;
  return 0;
}
const char *ncclGetErrorString(int code) { return "it is a fake"; }]]
  local parts = { text }
  for name in scratch.read("engine/comm/nccl/nccl_api.h"):gmatch("(nccl%u%w+), %(") do
    if not text:find(name .. "(", 1, true) then
      parts[#parts + 1] = ("int %s(void) { return 3; }"):format(name)
    end
  end
  return table.concat(parts, "\n")
end

--- A folder with these libraries, for others to lie beside them.
---@return string
function M.build()
  local folder = scratch.folder()
  compile(folder, driver_text(), "libcuda.so.1", "-pthread -Iengine -Ispec " .. memory)
  compile(folder, nccl_text(), "libnccl.so.2", "")
  return folder
end

local built

--- `env`, in which the libraries of such a folder are found first; by default of one
--- for all.
---@param env table<string, any>
---@param folder? string
---@return table<string, any>
function M.env(env, folder)
  built = built or folder == nil and M.build()
  env.LD_LIBRARY_PATH = (folder or built) .. ":" .. (os.getenv("LD_LIBRARY_PATH") or "")
  return env
end

return M
