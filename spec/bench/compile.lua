--- compile.lua -- compiles C for benchmarks as celer compiles kernels.
---
---   local compile = require("spec.bench.compile")
---   compile("build/wave", "spec/bench/cpu_kernels/wave.c", { "-fopenmp" })
---   compile("build/stencil", "stencil.c", {}, { "mpicc" })
local celer = require("spec.support.celer")

-- The flags of kernels, but for what is about C++ and about libraries.
local function flags()
  local file = assert(io.open("engine/device/compile/compile_cpu.c"))
  local list = file:read("*a"):match("flags%[%] = {(.-)};")
  file:close()
  local out = {}
  for flag in list:gmatch('"(%-[^"]+)"') do
    if not flag:find("^%-std") and flag ~= "-shared" then out[#out + 1] = flag end
  end
  return out
end

local function compiler()
  return os.getenv("CXX") or "c++"
end

--- Throws where that fails. `wrapper`: Open MPI's, around the compiler of kernels.
---@param path string
---@param source string
---@param more string[]  flags and libraries
---@param wrapper? string[]
return function(path, source, more, wrapper)
  local argv = { unpack(wrapper or {}) }
  if not wrapper then
    for word in compiler():gmatch("%S+") do argv[#argv + 1] = word end
  end
  for _, flag in ipairs(flags()) do argv[#argv + 1] = flag end
  for _, word in ipairs { "-x", "c", "-std=gnu11", "-o", path, source, unpack(more) } do
    argv[#argv + 1] = word
  end
  local r = celer.exec(argv, { env = wrapper and { OMPI_CC = compiler() } or nil })
  assert(r.status == 0, table.concat(argv, " ") .. "\n" .. r.stderr .. r.stdout)
end
