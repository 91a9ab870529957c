-- fake_driver.lua -- builds a libcuda.so.1 that shows GPUs where there are none, and a
-- libnccl.so.2 that is too old: a real one does not get along with such a driver.
--
--   local folder = require("spec.device.fake_driver").build()
--   celer.run(args, { env = { LD_LIBRARY_PATH = folder, FAKE_GPUS = 4 } })
local M = {}

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

-- A library of the folder from C.
local function compile(folder, text, name, flags)
  local file = assert(io.open(("%s/%s.c"):format(folder, name), "wb"))
  file:write(text)
  file:close()
  local command = ("%s -std=gnu11 %s -fPIC -shared %s/%s.c -o %s/%s"):format(
    os.getenv("CC") or "cc", flags, folder, name, folder, name)
  assert(os.execute(command) == 0, command)
end

local function driver_text()
  local text = read("spec/device/fake_memory.c") .. read("spec/device/fake_driver.c")
  local parts = { text }
  for name in read("engine/device/cuda_api.h"):gmatch("_%(CUresult, ([%w_]+),") do
    if not text:find("int " .. name .. "(", 1, true)
      and not text:find("[%u_]+%(" .. name .. "%)") then
      parts[#parts + 1] = ("int %s(void);\nint %s(void) { return 801; }"):format(name, name)
    end
  end
  return table.concat(parts, "\n")
end

local function nccl_text()
  local parts = { "int ncclGetVersion(int *out) { *out = 21003; return 0; }" }
  for name in read("engine/comm/nccl_api.h"):gmatch("(nccl%u%w+), %(") do
    if name ~= "ncclGetVersion" then
      parts[#parts + 1] = ("int %s(void) { return 3; }"):format(name)
    end
  end
  return table.concat(parts, "\n")
end

--- The folder that the libraries lie in; the caller removes it.
function M.build()
  local pipe = assert(io.popen("mktemp -d"))
  local folder = pipe:read("*l")
  pipe:close()
  compile(folder, driver_text(), "libcuda.so.1", "-pthread")
  compile(folder, nccl_text(), "libnccl.so.2", "")
  return folder
end

return M
