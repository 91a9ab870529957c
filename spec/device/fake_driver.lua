-- fake_driver.lua -- builds a libcuda.so.1 that shows GPUs where there are none, and a
-- libnccl.so.2 that is too old: a real one does not get along with such a driver.
--
--   local folder = require("spec.device.fake_driver").build()
--   celer.run(args, { env = { LD_LIBRARY_PATH = folder, FAKE_GPUS = 4 } })
local scratch = require("spec.support.scratch")

local M = {}

-- A library of the folder from C.
local function compile(folder, text, name, flags)
  scratch.write(("%s/%s.c"):format(folder, name), text)
  local command = ("%s -std=gnu11 %s -fPIC -shared %s/%s.c -o %s/%s"):format(
    os.getenv("CC") or "cc", flags, folder, name, folder, name)
  assert(os.execute(command) == 0, command)
end

local function driver_text()
  local text = scratch.read("spec/device/fake_memory.c")
    .. scratch.read("spec/device/fake_driver.c")
  local parts = { text }
  for name in scratch.read("engine/device/cuda_api.h"):gmatch("_%(CUresult, ([%w_]+),") do
    if not text:find("int " .. name .. "(", 1, true)
      and not text:find("[%u_]+%(" .. name .. "%)") then
      parts[#parts + 1] = ("int %s(void);\nint %s(void) { return 801; }"):format(name, name)
    end
  end
  return table.concat(parts, "\n")
end

local function nccl_text()
  local parts = { "int ncclGetVersion(int *out) { *out = 21003; return 0; }" }
  for name in scratch.read("engine/comm/nccl_api.h"):gmatch("(nccl%u%w+), %(") do
    if name ~= "ncclGetVersion" then
      parts[#parts + 1] = ("int %s(void) { return 3; }"):format(name)
    end
  end
  return table.concat(parts, "\n")
end

--- The folder that the libraries lie in.
function M.build()
  local folder = scratch.folder()
  compile(folder, driver_text(), "libcuda.so.1", "-pthread")
  compile(folder, nccl_text(), "libnccl.so.2", "")
  return folder
end

return M
