--- report.lua -- `celer info --report`: what to send with a report of a fault, beside what
--- `celer info` says: of each host its system, limits, networks and libraries, and the
--- variables that celer, MPI and the GPU's libraries read. Hosts that have the same are
--- named together.
local core = require "celer.core"
local ffi = require "ffi"
local place = require "celer.place"
local tables = require "celer.tables"

local M = {}

-- Variables that matter to a run, by how their names begin. Launchers set others of
-- these for each rank (OMPI_COMM_WORLD_RANK, SLURM_PROCID), which say nothing here.
local VARIABLES = { "CELER_", "CUDA_", "FI_", "HWLOC_", "LD_", "LOADEDMODULES", "LUA_", "NCCL_",
  "NVIDIA_", "OMP_", "OMPI_MCA_btl", "OMPI_MCA_mpi", "OMPI_MCA_mtl", "OMPI_MCA_osc",
  "OMPI_MCA_pml", "OMPI_MCA_rmaps", "SLURM_CPU_BIND_TYPE", "SLURM_CPUS_PER_TASK",
  "SLURM_DISTRIBUTION", "SLURM_GPUS", "SLURM_JOB_NUM_NODES", "SLURM_NTASKS",
  "SLURM_TASKS_PER_NODE", "UCX_" }
-- Words of names, between underscores: UCX_IB_PKEY is none, UCX_API_KEY is.
local SECRETS = { KEY = true, KEYS = true, APIKEY = true, AUTH = true, CREDENTIAL = true,
  CREDENTIALS = true, PASS = true, PASSWD = true, PASSWORD = true, PASSPHRASE = true, PWD = true,
  SECRET = true, SECRETS = true, TOKEN = true, TOKENS = true }

local LIBRARIES = { "cuda", "fabric", "hdf5", "hwloc", "ibverbs", "luajit", "mpi", "nccl", "nvrtc",
  "open%-pal", "open%-rte", "pmix", "ucp" }

local LIMITS = { "Max stack size", "Max processes", "Max open files", "Max locked memory",
  "Max address space" }

local function read(path)
  local file = io.open(path)
  local text = file and file:read "*a" or ""
  if file then file:close() end
  return text
end

local function line(path) return (read(path):match "[^\n]+") end

ffi.cdef "const char *gnu_get_libc_version(void);"

local function libc()
  local ok, version = pcall(function() return ffi.string(ffi.C.gnu_get_libc_version()) end)
  return ok and "glibc " .. version or "another libc than glibc"
end

local function write_system(out)
  local name = read("/etc/os-release"):match 'PRETTY_NAME="?([^"\n]*)'
  out("build", core.build())
  out("system", ("%s, Linux %s, %s"):format(name or "?", line "/proc/sys/kernel/osrelease" or "?",
    libc()))
  out("cpu", core.info().cpu)
  local total = tonumber(read("/proc/meminfo"):match "MemTotal:%s*(%d+)") or 0
  out("memory", ("%.1f GiB"):format(total / 2 ^ 20))
end

-- What a container or a batch system lets this process have; nothing where it does not.
local function write_group(out)
  local folder = "/sys/fs/cgroup" .. (read("/proc/self/cgroup"):match "0::([^\n]*)" or "") .. "/"
  for _, name in ipairs { "cpu.max", "cpuset.cpus.effective", "memory.max" } do
    local value = line(folder .. name)
    if value then out("group", name .. " " .. value) end
  end
end

local function write_limits(out)
  local text = read "/proc/self/limits"
  for _, name in ipairs(LIMITS) do
    local soft, hard = text:match(name .. "%s+(%S+)%s+(%S+)")
    out("limit", ("%s %s, at most %s"):format(name:sub(5), soft or "?", hard or "?"))
  end
end

local function write_networks(out)
  local names = {}
  for name in read("/proc/net/dev"):gmatch "([^%s:]+):" do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local folder = "/sys/class/net/" .. name .. "/"
    local speed = tonumber(line(folder .. "speed"))
    out("network", ("%s, %s, packets of %s bytes%s"):format(name,
      line(folder .. "operstate") or "?", line(folder .. "mtu") or "?",
      speed and speed > 0 and (", %d Mbit/s"):format(speed) or ""))
  end
end

local function write_libraries(out)
  local found = {}
  for path in read("/proc/self/maps"):gmatch " (/[^\n]*%.so[%.%d]*)\n" do
    for _, name in ipairs(LIBRARIES) do
      if path:match("/lib" .. name .. "[^/]*$") then found[path] = true end
    end
  end
  for path in tables.sorted_pairs(found) do out("library", path) end
end

local function is_secret(name)
  for word in name:upper():gmatch "[^_]+" do
    if SECRETS[word] then return true end
  end
  return false
end

local function write_variables(out)
  for _, prefix in ipairs(VARIABLES) do
    for name, value in tables.sorted_pairs(core.environment(prefix)) do
      out("variable", name .. "=" .. (is_secret(name) and "(not shown)" or value))
    end
  end
end

-- What this host has, a line each.
local function own()
  local lines = {}
  local function out(what, text) lines[#lines + 1] = ("%-8s %s\n"):format(what, text) end
  write_system(out)
  write_limits(out)
  write_group(out)
  write_networks(out)
  write_libraries(out)
  write_variables(out)
  return table.concat(lines)
end

-- The texts of all ranks, each behind a line with its host's name.
local function gather(text)
  if select(2, core.rank()) == 1 then return { text } end
  return place.check(core.gather(text))
end

--- Writes it, from rank 0. Collective over all ranks, before the engine runs.
function M.write()
  local host = line "/proc/sys/kernel/hostname" or "?"
  local texts = gather(host .. "\n" .. own())
  if core.rank() ~= 0 then return end
  local order, hosts, seen = {}, {}, {}
  for _, both in ipairs(texts) do -- of each host its first rank's
    local name, text = both:match "^([^\n]*)\n(.*)$"
    if not seen[name] then
      seen[name] = true
      if not hosts[text] then order[#order + 1], hosts[text] = text, {} end
      table.insert(hosts[text], name)
    end
  end
  for _, text in ipairs(order) do
    io.write(("\n%s\n%s"):format("host     " .. table.concat(hosts[text], ", "), text))
  end
end

return M
