-- No wake is lost; how many cores a process has, which decides whether waiters spin.
local celer = require("spec.support.celer")

describe("park", function()
  it("loses no wake", function()
    local program = celer.command():gsub("celer$", "park_check")
    local r = celer.exec({ program }, { timeout = 120 })
    assert.equal(0, r.status)
    assert.equal("60000 rounds\n", r.stdout)
  end)

  it("loses none where threads share cores", function()
    if celer.exec({ "taskset", "--version" }).status ~= 0 then
      return pending("needs taskset")
    end
    local program = celer.command():gsub("celer$", "park_check")
    local list = io.open("/proc/self/status"):read("*a"):match("Cpus_allowed_list:%s*(%S+)")
    local first, second = list:match("^(%d+)[,-](%d+)")
    local next_one = list:match("^%d+-") and first + 1 or second
    local some = { first or list, first and first .. "," .. next_one }
    for _, cores in ipairs(some) do
      local r = celer.exec({ "taskset", "-c", cores, program, "10000" }, { timeout = 120 })
      assert.equal(0, r.status, cores)
      assert.equal("10000 rounds\n", r.stdout)
    end
  end)

  it("counts the cores that the process is bound to", function()
    if celer.exec({ "taskset", "--version" }).status ~= 0 then
      return pending("needs taskset")
    end
    local library = celer.command():gsub("celer$", "libceler.so")
    local code = "local ffi = require 'ffi' ffi.cdef 'int cel_park_cores(void);' "
      .. ("print(ffi.load(%q).cel_park_cores())"):format(library)
    local env = { LD_PRELOAD = os.getenv("CELER_PRELOAD") or "" }
    local function cores(...)
      local argv = { ... }
      for _, word in ipairs({ "luajit", "-e", code }) do argv[#argv + 1] = word end
      return tonumber(celer.exec(argv, { env = env }).stdout)
    end
    local ours = io.open("/proc/self/status"):read("*a"):match("Cpus_allowed_list:%s*(%d+)")
    assert.equal(1, cores("taskset", "-c", ours))
    local nproc = { "env", "-u", "OMP_NUM_THREADS", "-u", "OMP_THREAD_LIMIT", "nproc" }
    assert.equal(tonumber(celer.exec(nproc).stdout), cores("env"))
  end)
end)
