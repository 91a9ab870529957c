-- celer.lua -- runs the built `celer` command as a user does.
--
--   local celer = require("spec.support.celer")
--   local r = celer.run({ "run", "examples/wave_sim.lua" }, { ranks = 4 })
--   assert.equal(0, r.status)
local scratch = require("spec.support.scratch")
local M = {}

-- Seconds until what hangs is killed. No spec measures by it how long something
-- takes: a machine may stop for a while.
local TIMEOUT = 300

-- Lets OpenMPI start as root, with more ranks than cores, in a container.
local mpi_env = {
  OMPI_ALLOW_RUN_AS_ROOT = "1",
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = "1",
  OMPI_MCA_rmaps_base_oversubscribe = "1",
  OMPI_MCA_mpi_yield_when_idle = "1",
  OMPI_MCA_pml = "ob1", -- all ranks are on this host: there is nothing better to look for
  OMPI_MCA_hwloc_base_binding_policy = "none",
  OMPI_MCA_plm_rsh_agent = "",
  OMPI_MCA_btl_vader_single_copy_mechanism = "none",
  -- Where a rank has failed, mpirun gives the others no second to end by themselves, which
  -- each failing run would take. A spec of what they leave behind asks for it.
  OMPI_MCA_odls_base_sigkill_timeout = "0",
}

-- A sample is a second build of each kernel, which most specs end before. Those of samples,
-- of examples and random programs ask for it.
local no_samples = { CELER_NO_SAMPLE = "1" }
M.sampled = { CELER_NO_SAMPLE = "0" }

--- Ranks of a job that fails have a second to end by themselves.
M.patient = { OMPI_MCA_odls_base_sigkill_timeout = "1" }

local function quote(text)
  return "'" .. tostring(text):gsub("'", "'\\''") .. "'"
end

--- The environment as a call of env(1) for a shell. The harness's own variables go: the
--- command reports a CELER_ variable that it does not know.
---@param extra? table<string, string>
---@return string
function M.environment(extra)
  local words = { "env -u CELER_BUILD -u CELER_PRELOAD -u CELER_RANDOM_SECONDS "
    .. "-u CELER_KILLS" }
  local preload = os.getenv("CELER_PRELOAD")
  if preload and preload ~= "" then words[1] = words[1] .. " -u LD_PRELOAD" end
  local own = { CELER_CACHE = os.getenv("CELER_CACHE") or M.folder() .. "/kernel-cache" }
  for _, variables in ipairs({ mpi_env, no_samples, own, extra or {} }) do
    for name, value in pairs(variables) do
      words[#words + 1] = name .. "=" .. quote(value)
    end
  end
  return table.concat(words, " ")
end

--- Runs any program and waits for it.
---@param argv string[]
---@param options? {env: table?, stdin: string?, timeout: number?, cwd: string?}
---@return {status: integer, stdout: string, stderr: string, timed_out: boolean}
function M.exec(argv, options)
  options = options or {}
  local stem = scratch.path()
  local paths = { stem .. ".out", stem .. ".err", stem .. ".in" }
  scratch.write(paths[3], options.stdin or "")
  local words = {}
  for i, word in ipairs(argv) do words[i] = quote(word) end
  local pipe = assert(io.popen(("%s%s timeout -k 20 %g %s >%s 2>%s <%s; echo $?"):format(
    options.cwd and ("cd " .. quote(options.cwd) .. " && ") or "",
    M.environment(options.env), options.timeout or TIMEOUT, table.concat(words, " "),
    paths[1], paths[2], paths[3])))
  local status = tonumber(pipe:read("*a"):match("%d+"))
  pipe:close()
  -- What mpirun's libevent says of a rank that has been killed is nothing of celer's.
  local stderr = scratch.read(paths[2]):gsub("%[warn%] Epoll MOD[^\n]*\n", "")
  local result = {
    status = status,
    stdout = scratch.read(paths[1]),
    stderr = stderr,
    timed_out = status == 124 or status == 137,
  }
  os.remove(stem)
  for _, path in ipairs(paths) do os.remove(path) end
  return result
end

local function absolute(path)
  if path:sub(1, 1) == "/" then return path end
  return assert(os.getenv("PWD")) .. "/" .. path
end

--- The folder of the build under test.
function M.folder()
  return absolute(os.getenv("CELER_BUILD") or "build/release")
end

--- The path of the command under test.
function M.command() return M.folder() .. "/celer" end

-- Whether the parallel HDF5 that examples/distr_io.lua needs is here; as another process
-- finds it, since it brings MPI along.
function M.has_hdf5()
  return M.exec({ "luajit", "-e", [[
    local ffi = require "ffi"
    for _, name in ipairs { "libhdf5_openmpi.so.103", "libhdf5_openmpi.so.310", "hdf5_openmpi" } do
      if pcall(ffi.load, name) then return end
    end
    os.exit(1)]] }).status == 0
end

-- How many GPUs celer would use by default.
local function gpus()
  if os.getenv("CELER_BACKEND") == "cpu" then return 0 end
  local c = require("spec.support.cdef")("device/cuda/cuda.h")
  local why = require("ffi").new("char[256]")
  return c.cel_nvrtc_version() ~= nil and c.cel_cuda_count(why, 256) or 0
end

--- The value of `--devices` for `n` devices on each of `ranks` ranks. GPUs that
--- are fewer than that are named several times.
function M.devices(n, ranks)
  local have, want = gpus(), n * (ranks or 1)
  if have == 0 or have >= want then return tostring(n) end
  local list = {}
  for i = 1, want do list[i] = (i - 1) % have end
  return table.concat(list, ",") .. ","
end

--- Runs `celer` with `args`. With `ranks` it is started by mpirun; without, by
--- itself. After `timeout` seconds (300) all of it is killed and status is 124.
---@param args string[]
---@param options? {ranks: integer?, env: table?, stdin: string?, timeout: number?, cwd: string?}
function M.run(args, options)
  options = options or {}
  local argv = { M.command() }
  if options.ranks then
    argv = { "mpirun", "--oversubscribe", "--allow-run-as-root", "-n",
      options.ranks, argv[1] }
  end
  for _, word in ipairs(args) do argv[#argv + 1] = word end
  return M.exec(argv, options)
end

--- "examples/hello.lua:17", as messages say it: where that text stands first in a file.
---@param path string
---@param text string
---@return string
function M.line_of(path, text)
  local n = 0
  for line in io.lines(path) do
    n = n + 1
    if line:find(text, 1, true) then return ("%s:%d"):format(path, n) end
  end
  error(("'%s' is not in %s"):format(text, path))
end

return M
