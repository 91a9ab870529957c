-- Which devices the ranks of a host compute on: options, messages, celer info.
-- The GPUs here are not there: spec/device/fake_driver.lua shows them.
local celer = require("spec.support.celer")
local fake = require("spec.device.fake_driver")
local nvrtc = require("spec.device.cuda").no_nvrtc == nil
local preload = require("spec.support.preload")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

local WHERE = [[
local core = require "celer.core"
local backend, devices, list = core.devices()
print(backend or devices, backend and devices, backend and table.concat(list, " "))
]]

-- By the names that the driver gives them.
local WHICH = [[
local core = require "celer.core"
local names = {}
for i, ordinal in ipairs(select(3, core.devices())) do names[i] = core.gpu(ordinal).name end
print(table.concat(names, ", "))
]]

local folder
setup(function()
  folder = scratch.folder()
  scratch.write(folder .. "/where.lua", WHERE)
  scratch.write(folder .. "/which.lua", WHICH)
end)

-- What each rank says, by rank.
local function where(gpus, ranks, ...)
  local args = { "run", "--output", "all", ... }
  args[#args + 1] = folder .. "/where.lua"
  local r = celer.run(args, { ranks = ranks, env = fake.env({ FAKE_GPUS = gpus }) })
  local out = {}
  for line in r.stdout:gmatch("[^\n]+") do
    local rank, text = line:match("^%[(%d+)%] (.*)$")
    out[(tonumber(rank) or 0) + 1] = (text or line):gsub("\t", " ")
  end
  return table.concat(out, "; "), r
end

describe("by default the ranks of a host compute", function()
  it("on the processor where there is no GPU, and say nothing of it", function()
    local said, r = where(0)
    assert.equal("cpu 1 ", said)
    assert.equal("", r.stderr)
  end)

  it("on all its GPUs, in equal parts", function()
    if not nvrtc then return pending("no NVRTC here") end
    assert.equal("cuda 4 0 1 2 3", (where(4)))
    assert.equal("cuda 2 0 1; cuda 2 2 3", (where(4, 2)))
    assert.equal("cuda 1 0; cuda 1 1; cuda 1 0", (where(2, 3)))
  end)

  it("on as many GPUs each, though some are left over", function()
    if not nvrtc then return pending("no NVRTC here") end
    assert.equal("cuda 1 0; cuda 1 1; cuda 1 2", (where(4, 3)))
    assert.equal("cuda 2 0 1; cuda 2 2 3; cuda 2 4 5", (where(7, 3)))
  end)
end)

-- libudev, which hwloc asks, is not for several threads at a time, and OpenCL not for hwloc.
it("GPUs' threads load topologies one at a time, and start no OpenCL", function()
  local env = preload("hwloc_loads")
  env.FAKE_GPUS, env.FAKE_MEMORY = 4, 64
  local r = celer.run({ "run", "--devices", 4, "--backend", "cuda", "-e",
    "celer.buffer('int', 1)" }, { env = fake.env(env) })
  assert.equal(0, r.status, r.stderr)
  assert.equal("topologies at a time: 1, by OpenCL: 0\n", r.stderr)
end)

describe("ranks that were started with options of their own", function()
  -- A rank for each list of options.
  local function run(path, more, ...)
    local argv = { "mpirun", "--oversubscribe" }
    for i, options in ipairs { ... } do
      if i > 1 then argv[#argv + 1] = ":" end
      for _, word in ipairs { "-n", 1, celer.command(), "run" } do argv[#argv + 1] = word end
      for _, word in ipairs(options) do argv[#argv + 1] = word end
      argv[#argv + 1] = path
    end
    return celer.exec(argv, more)
  end

  local function hello(...) return run("examples/hello.lua", nil, ...) end

  -- Rank 0 is refused its GPUs, which rank 1 does not look for, at each of two tries.
  local refusal = "--devices asks for GPU 5, and there are 4 (counted from 0)"
  local function try_twice(text)
    local path = folder .. "/twice.lua"
    scratch.write(path, ("for try = 1, 2 do %s end"):format(text))
    local r = run(path, { env = fake.env({ FAKE_GPUS = 4 }), timeout = 60 },
      { "--output", "all", "--backend", "cuda", "--devices", "0,5" },
      { "--output", "all", "--backend", "cpu" })
    local lines = {}
    for line in r.stdout:gmatch "[^\n]+" do lines[#lines + 1] = line end
    table.sort(lines)
    return r, table.concat(lines, "; ")
  end

  it("compute together", function()
    local r = hello({ "--backend", "cpu", "--devices", 3 }, { "--no-collectives" },
      { "--transfers", "staged" })
    assert.equal("", r.stderr)
    assert.equal("squares: 0 1 4 9 16 25 36 49 64 81\n", r.stdout)
  end)

  it("say which of them has a wrong one", function()
    local r = hello({}, {}, { "--devices", "nine" })
    assert.matches("^celer: rank 2: %-%-devices must be [^\n]*\n$", r.stderr)
    assert.equal(1, r.status)
  end)

  it("say which of them lacks a GPU that it was to use", function()
    local r = hello({}, { "--backend", "cuda" })
    if r.status == 0 then return pending("there is a GPU here") end
    assert.matches("^celer: rank 1: [^\n]*%-%-backend cuda asks for a GPU: [^\n]*\n$", r.stderr)
  end)

  it("go on where one of them is refused its devices, and goes on", function()
    local r, said = try_twice [[
      local first, second = require("celer.core").devices()
      io.write(try, ": ", first or second, "\n")]]
    assert.equal(("[0] 1: %s; [0] 2: %s; [1] 1: cpu; [1] 2: cpu"):format(refusal, refusal), said)
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
  end)

  it("end with it where it was to compute, however often it tries", function()
    local r, said = try_twice [[
      local ok, message = pcall(require("celer").buffer, "int", 4)
      io.write(try, ": ", ok and "made" or message:match "%-%-.*", "\n")]]
    assert.equal(("[0] 1: %s; [0] 2: %s"):format(refusal, refusal), said)
    assert.equal(("celer: %s\n"):format(refusal), r.stderr)
    assert.equal(1, r.status)
  end)
end)

describe("--backend and --devices", function()
  it("choose the processor", function()
    assert.equal("cpu 3 ; cpu 3 ", (where(4, 2, "--backend", "cpu", "--devices", 3)))
  end)

  it("choose GPUs, by number or by name", function()
    assert.equal("cuda 1 0; cuda 1 1", (where(4, 2, "--backend", "cuda", "--devices", 1)))
    assert.equal("cuda 2 3 1", (where(4, nil, "--backend", "cuda", "--devices", "3,1")))
    assert.equal("cuda 1 3; cuda 1 1", (where(4, 2, "--backend", "cuda", "--devices", "3,1")))
    assert.equal("cuda 1 2", (where(4, nil, "--backend", "cuda", "--devices", "2,")))
    assert.equal("cuda 2 0 0", (where(4, nil, "--backend", "cuda", "--devices", "0,0")))
  end)

  it("refuse what the host does not have", function()
    assert.equal("2 GPUs per rank are asked for, and 1 rank of this host has 1 nil nil",
      (where(1, nil, "--backend", "cuda", "--devices", 2)))
    assert.equal("--devices asks for GPU 5, and there are 4 (counted from 0) nil nil",
      (where(4, nil, "--backend", "cuda", "--devices", "0,5")))
  end)

  for _, ranks in ipairs({ 1, 3 }) do
    it("say once, and with status 2, that there is no GPU; " .. ranks .. " rank(s)", function()
      for _, case in ipairs({ { "--backend", "cuda" }, { "--devices", "0,1" } }) do
        local said, r = where(0, ranks > 1 and ranks or nil, unpack(case))
        assert.equal("", said)
        assert.equal(("celer: %s %s asks for a GPU: the NVIDIA driver shows no GPU\n"):format(
          unpack(case)), r.stderr)
        assert.equal(2, r.status)
      end
    end)
  end

  it("refuse words that make no sense", function()
    for _, word in ipairs({ "0", "9", "1.5", "-1", "0,,1", ",", "0,x", "0, 1", "01,2" }) do
      local _, r = where(4, nil, "--devices=" .. word)
      assert.equal(2, r.status, word)
      assert.matches("%-%-devices must be a whole number from 1 to 8, or a list", r.stderr)
    end
    local _, r = where(4, nil, "--backend", "cpu", "--devices", "0,1")
    assert.equal(2, r.status)
    assert.matches("names GPUs, and %-%-backend is cpu", r.stderr)
  end)
end)

describe("a GPU that cannot be opened", function()
  it("is named by the rank that has it, and the others do not wait for that", function()
    if not nvrtc then return pending("no NVRTC here") end
    local r = celer.run({ "run", "--backend", "cuda", "--devices", 1, "examples/hello.lua" },
      { ranks = 2, env = fake.env({ FAKE_GPUS = 2, FAKE_BROKEN = 2 }) })
    local line = celer.line_of("examples/hello.lua", "celer.buffer(")
    assert.equal("celer: rank 1: " .. line .. ": GPU 1 cannot be used: its primary context: it is "
      .. "a fake\n", r.stderr)
    assert.equal("", r.stdout)
    assert.is_true(r.status ~= 0 and not r.timed_out)
  end)
end)

describe("CUDA_VISIBLE_DEVICES", function()
  -- Which GPUs of six each rank takes.
  local function which(ranks, visible)
    local command = ("CUDA_VISIBLE_DEVICES=%s exec %s run --output all --backend cuda "
      .. "%s/which.lua"):format(visible, celer.command(), folder)
    local r = celer.exec({ "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", ranks, "sh",
      "-c", command }, { env = fake.env({ FAKE_GPUS = 6, FAKE_VISIBLE = 1 }) })
    return table.concat(script.lines(r.stdout), "; "), r
  end

  it("leaves all ranks the same GPUs, which they divide", function()
    assert.equal("Fake 4, Fake 1; Fake 5, Fake 2", (which(2, "4,1,5,2")))
    assert.equal("Fake 3; Fake 3; Fake 5", (which(3, "3,5")))
  end)

  it("gives each rank GPUs of its own, which it takes", function()
    assert.equal("Fake 0, Fake 1; Fake 2, Fake 3; Fake 4, Fake 5",
      (which(3, "$((2 * OMPI_COMM_WORLD_LOCAL_RANK)),$((2 * OMPI_COMM_WORLD_LOCAL_RANK + 1))")))
    assert.equal("Fake 2; Fake 3; Fake 5", (which(3, "$((OMPI_COMM_WORLD_LOCAL_RANK == 2 ? "
      .. "5 : 2 + OMPI_COMM_WORLD_LOCAL_RANK))")))
  end)

  it("may name GPUs in another order on each rank, which divide their memory then", function()
    if not nvrtc then return pending("no NVRTC here") end
    local path = folder .. "/full.lua"
    scratch.write(path, [[
      local celer = require "celer"
      local q, n = celer.queue(), 64 * 2 ^ 20
      local a = celer.buffer("int", n, { name = "a" })
      local k = celer.kernel "kernel void k(item<1> it, out<int, 1> a) { a(it[0]) = 1; }"
      q:submit(function(cg) cg:parallel_for(n, k, cg:discard_write(a)) end)
      q:wait()]])
    local rank = "OMPI_COMM_WORLD_LOCAL_RANK"
    local r = celer.exec({ "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", 2, "sh", "-c",
      ("CUDA_VISIBLE_DEVICES=$((%s)),$((1 - %s)) exec %s run --backend cuda %s"):format(rank, rank,
        celer.command(), path) },
      { env = fake.env({ FAKE_GPUS = 2, FAKE_VISIBLE = 1, FAKE_MEMORY = 64 }) })
    -- A half of what each GPU has, but for a sixteenth.
    assert.matches("the memory of device 0 is full (30.0 MiB)", r.stderr, 1, true)
    assert.equal(0, r.status, r.stderr)
  end)

  it("may leave none, which is said", function()
    local said, r = which(1, "''")
    assert.equal("", said)
    assert.matches("^celer: %-%-backend cuda asks for a GPU: the NVIDIA driver shows no GPU\n",
      r.stderr)
  end)
end)

describe("celer info", function()
  local function info(env)
    local r = celer.run({ "info" }, { env = fake.env(env) })
    assert.equal(0, r.status, r.stderr)
    return r.stdout
  end

  it("lists the GPUs", function()
    local text = info({ FAKE_GPUS = 2, CELER_BACKEND = "cuda", CELER_DEVICES = "1," })
    assert.matches("\ndevices  gpu 1; the processor by --backend cpu\n"
      .. "gpu 0    Fake 0, sm_90, 80.0 GiB, 0000:10:00.0, reaches the memory of 1\n"
      .. "gpu 1    Fake 1, sm_90, 80.0 GiB, 0000:11:00.0\n"
      .. "driver   CUDA 13.1", text, 1, true)
    assert.matches("\nnvrtc    %S", text)
  end)

  describe("of several ranks", function()
    -- Two ranks of `celer WORDS`; `set`: variables that differ by rank.
    local function run(set, words, variables)
      return celer.exec({ "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", 2, "sh", "-c",
        set:gsub("RANK", "$OMPI_COMM_WORLD_LOCAL_RANK") .. " exec " .. celer.command()
          .. " " .. words }, { env = fake.env(variables) })
    end
    local APART = "CUDA_VISIBLE_DEVICES=RANK"

    local function lines(variables, set)
      variables.FAKE_GPUS, variables.FAKE_VISIBLE = set and 1 or 2, not set and 1 or nil
      local r = run(set or APART, "info", variables)
      return r.stdout:match("\n(collectives [^\n]*)\n") or r.stdout .. r.stderr
    end

    it("says which way goes what all of them exchange", function()
      assert.equal("collectives by MPI, in host memory: "
        .. "rank 0: NCCL 2.10.3 is too old: 2.18 is needed", lines({}))
      assert.equal("collectives by messages: --no-collectives",
        lines({ CELER_NO_COLLECTIVES = 1 }))
      assert.equal("collectives by MPI, in host memory: --transfers staged",
        lines({ CELER_TRANSFERS = "staged" }))
    end)

    it("starts NCCL to know it", function()
      assert.equal("collectives by MPI, in host memory: rank 0: NCCL: it is a fake",
        lines({ FAKE_NCCL = 22809 }))
    end)

    it("says so where ranks share a GPU, unless NCCL takes them for two", function()
      assert.equal("collectives by MPI, in host memory: ranks share a GPU",
        lines({ FAKE_NCCL = 22809 }, "NCCL_HOSTID=same"))
      assert.equal("collectives by MPI, in host memory: rank 0: NCCL: it is a fake",
        lines({ FAKE_NCCL = 22809 }, "NCCL_HOSTID=host-RANK"))
    end)

    it("is not what a run does that has nothing for NCCL", function()
      local words = [[run --backend cuda --log info -e "celer.buffer('int', 1)"]]
      local function warned(version)
        local r = run(APART, words, { FAKE_GPUS = 2, FAKE_VISIBLE = 1, FAKE_NCCL = version })
        assert.equal(0, r.status, r.stderr)
        return r.stderr:find("not by NCCL: rank 0: NCCL", 1, true) ~= nil
      end
      assert.is_true(warned(21003))
      assert.is_false(warned(22809))
    end)
  end)

  it("says why there is none", function()
    local text = info({ FAKE_GPUS = 0 })
    assert.matches("\ndevices  1, the processor\ngpus     none: the NVIDIA driver shows no GPU\n",
      text, 1, true)
  end)

  it("says how messages go between the GPUs of several ranks", function()
    local function messages(gpus, ...)
      local r = celer.run({ "info" }, { ranks = 2,
        env = fake.env({ FAKE_GPUS = gpus, CELER_TRANSFERS = ... }) })
      assert.equal(0, r.status, r.stderr)
      assert.not_matches("between hosts", r.stdout)
      return r.stdout:match("\nmessages within a host: ([^\n]*)\n")
    end
    if not nvrtc then return pending("no NVRTC here") end
    assert.is_nil(messages(0))
    assert.matches("^by its memory: rank 0: cuIpcGetMemHandle: ", messages(2))
    assert.equal("by its memory: --transfers staged", messages(2, "staged"))
  end)

  it("says how messages go between hosts, or why not as was asked for", function()
    local function info_of(between)
      return celer.run({ "info" }, { ranks = 2, env = fake.env({ FAKE_GPUS = 2,
        CELER_TRANSFERS = "between", CELER_DEVICES = 1, CELER_BETWEEN = between }) })
    end
    if not nvrtc then return pending("no NVRTC here") end
    assert.matches("\n         others: by the memory of their hosts, in chunks that overlap, from "
      .. "%d+ bytes on\n", info_of(nil).stdout)
    assert.matches("\n         others: by the memory of their hosts, in chunks that overlap\n",
      info_of("staged").stdout)
    assert.matches("\n         ranks 0 and 1: in chunks, [%d.e+]+ GB/s\n", info_of("staged").stdout)
    for between, lack in pairs({ mpi = "its MPI does not take GPUs' memory: ",
      nccl = "it has no NCCL, or one before 2.18" }) do
      local r = info_of(between)
      if r.status == 0 then
        assert.matches(" others: from GPU to GPU by " .. between:upper() .. "\n", r.stdout)
      else
        assert.matches(("--between %s: messages between GPUs cannot go that way: rank 0: %s")
          :format(between, lack), r.stderr, 1, true)
      end
    end
  end)

  describe("where messages go from GPU to GPU,", function()
    local UNLENT = "copied once more: rank 0: its GPU cannot export memory\n"
    local function run(args, memory)
      local r = celer.run(args, { ranks = 2, env = fake.env({
        FAKE_GPUS = 2, FAKE_IPC = 1, FAKE_MEMORY = memory, CELER_BACKEND = "cuda" }) })
      assert.equal(0, r.status, r.stderr)
      return r
    end

    it("says whether long ones are copied once more", function()
      assert.matches("\nmessages within a host: from GPU to GPU, long ones " .. UNLENT,
        run({ "info" }).stdout, 1, true)
      assert.matches("\nmessages within a host: from GPU to GPU\n",
        run({ "info" }, 64).stdout, 1, true)
    end)

    it("and --log info does, too", function()
      local args = { "run", "--log", "info", "-e", "celer.buffer('int', 1)" }
      assert.matches("celer: warning: long messages between the GPUs of this host's ranks are "
        .. UNLENT, run(args).stderr, 1, true)
      assert.not_matches("long messages", run(args, 64).stderr, 1, true)
    end)
  end)

  it("ends where a rank does not know what to compute on", function()
    local r = celer.run({ "info" }, { ranks = 2, env = fake.env({
      FAKE_GPUS = 2, CELER_BACKEND = "cuda", CELER_DEVICES = "7," }) })
    assert.equal("celer: --devices asks for GPU 7, and there are 2 (counted from 0)\n", r.stderr)
    assert.equal(1, r.status)
  end)

  it("says what is wrong with the options", function()
    assert.matches("\ndevices  --devices asks for GPU 7, and there are 2 (counted from 0)\n",
      info({ FAKE_GPUS = 2, CELER_BACKEND = "cuda", CELER_DEVICES = "7," }), 1, true)
  end)
end)
