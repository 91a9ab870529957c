-- fake_driver.lua -- builds a libcuda.so.1 that shows GPUs where there are none.
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

--- The folder that the library lies in; the caller removes it.
function M.build()
  local pipe = assert(io.popen("mktemp -d"))
  local folder = pipe:read("*l")
  pipe:close()
  local text = read("spec/device/fake_memory.c") .. read("spec/device/fake_driver.c")
  local parts = { text }
  for name in read("engine/device/cuda_api.h"):gmatch("_%(CUresult, ([%w_]+),") do
    if not text:find("int " .. name .. "(", 1, true)
      and not text:find("[%u_]+%(" .. name .. "%)") then
      parts[#parts + 1] = ("int %s(void);\nint %s(void) { return 801; }"):format(name, name)
    end
  end
  local file = assert(io.open(folder .. "/driver.c", "wb"))
  file:write(table.concat(parts, "\n"))
  file:close()
  local command = ("%s -std=gnu11 -pthread -fPIC -shared %s/driver.c -o %s/libcuda.so.1"):format(
    os.getenv("CC") or "cc", folder, folder)
  assert(os.execute(command) == 0, command)
  return folder
end

return M
