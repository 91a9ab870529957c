-- Who started this process, as the environment tells.
local ffi = require("ffi")
local c = require("spec.support.cdef")("comm/launch.h")
ffi.cdef [[
  int setenv(const char *name, const char *value, int overwrite);
  int unsetenv(const char *name);
  bool cel_transport_launched(void);
]]

local names = {
  "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
  "MV2_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "PMI_FD", "PMIX_RANK",
  "MPI_LOCALNRANKS", "MPI_LOCALRANKID", "SLURM_STEP_ID", "SLURM_PROCID",
  "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES", "SLURM_NTASKS", "SLURM_JOB_ID",
  "OMPI_COMM_WORLD_LOCAL_SIZE",
}

local function clear()
  for _, name in ipairs(names) do ffi.C.unsetenv(name) end
end

local function look(environment)
  clear()
  for name, value in pairs(environment) do ffi.C.setenv(name, tostring(value), 1) end
  local launch = ffi.new("cel_launch")
  if not c.cel_launch_find(launch) then return nil end
  return {
    by = ffi.string(launch.by), rank = tonumber(launch.rank),
    ranks = tonumber(launch.ranks), pmi = launch.pmi, one_host = launch.one_host,
  }
end

describe("a launcher", function()
  after_each(clear)

  it("is not there in a plain environment", function()
    assert.is_nil(look({}))
    assert.is_false(c.cel_transport_launched())
  end)

  it("is mpirun", function()
    local found = look({ OMPI_COMM_WORLD_SIZE = 4, OMPI_COMM_WORLD_RANK = 2, PMIX_RANK = 2 })
    assert.same({ by = "mpirun", rank = 2, ranks = 4, pmi = true, one_host = false }, found)
    assert.is_true(c.cel_transport_launched())
    assert.equal(2, tonumber(c.cel_launch_rank()))
  end)

  it("is no reason to start MPI for one rank", function()
    assert.equal(1, look({ OMPI_COMM_WORLD_SIZE = 1, OMPI_COMM_WORLD_RANK = 0 }).ranks)
    assert.is_false(c.cel_transport_launched())
    look({ SLURM_STEP_ID = 0, SLURM_PROCID = 0, SLURM_STEP_NUM_TASKS = 1 })
    assert.is_false(c.cel_transport_launched())
  end)

  it("is mpirun within an allocation, not Slurm", function()
    local found = look({
      SLURM_STEP_ID = 3, SLURM_PROCID = 0, SLURM_STEP_NUM_TASKS = 2,
      OMPI_COMM_WORLD_SIZE = 16, OMPI_COMM_WORLD_RANK = 5,
    })
    assert.equal("mpirun", found.by)
    assert.equal(16, found.ranks)
  end)

  it("is srun in a step, with or without PMIx", function()
    local step = { SLURM_STEP_ID = 0, SLURM_PROCID = 3, SLURM_STEP_NUM_TASKS = 4 }
    assert.same({ by = "srun", rank = 3, ranks = 4, pmi = false, one_host = false },
      look(step))
    step.PMIX_RANK = 3
    assert.is_true(look(step).pmi)
    assert.is_true(c.cel_transport_launched())
  end)

  it("may say that all ranks are on this host", function()
    local mpirun = { OMPI_COMM_WORLD_SIZE = 4, OMPI_COMM_WORLD_RANK = 2,
      OMPI_COMM_WORLD_LOCAL_SIZE = 2 }
    local step = { SLURM_STEP_ID = 0, SLURM_PROCID = 3, SLURM_STEP_NUM_TASKS = 4,
      SLURM_STEP_NUM_NODES = 2 }
    assert.is_false(look(mpirun).one_host)
    assert.is_false(look(step).one_host)
    mpirun.OMPI_COMM_WORLD_LOCAL_SIZE, step.SLURM_STEP_NUM_NODES = 4, 1
    assert.is_true(look(mpirun).one_host)
    assert.is_true(look(step).one_host)
  end)

  it("is not srun in a batch script or an salloc shell", function()
    assert.is_nil(look({ SLURM_JOB_ID = 7, SLURM_NTASKS = 4, SLURM_PROCID = 0 }))
    assert.is_nil(look({ SLURM_JOB_ID = 7, SLURM_NTASKS = 4 }))
  end)

  it("is PMI's or PMIx's", function()
    assert.equal(8, look({ PMI_SIZE = 8, PMI_RANK = 1 }).ranks)
    assert.same({ by = "a PMIx launcher", rank = 1, ranks = 0, pmi = true, one_host = false },
      look({ PMIX_RANK = 1 }))
    assert.is_true(c.cel_transport_launched())
  end)

  it("is not believed when it writes nonsense", function()
    assert.is_nil(look({ OMPI_COMM_WORLD_SIZE = "many" }))
    assert.is_nil(look({ PMI_SIZE = "-3" }))
  end)
end)
