-- Messages between the GPUs of ranks that take each other to be on several hosts: the same
-- bits by each way as with one rank. Ranks may share a GPU. Pending where there is none.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

-- Why messages of two ranks do not go in chunks; nil where they do.
local function missing()
  local r = celer.run({ "info" }, { ranks = 2,
    env = { CELER_DEVICES = 1, CELER_TRANSFERS = "between" } })
  local how = r.stdout:match("\n%s+others: ([^\n]*)")
  if not how then return "two ranks use no GPUs here" end
  return not how:find("in chunks", 1, true) and how or nil
end

-- Halos of rows of 256 KiB and of columns, and parts of 8 MiB, which alone go in chunks by
-- default: messages that are dense, strided, and of several boxes.
local PROGRAM = [==[
local n, m = 64, 32768
local u = celer.buffer("double", { n, m }, { name = "u",
  init = function(i, j) return (i * 7 + j * 3) % 11 end })
local v = celer.buffer("double", { n, m }, { name = "v" })
local k = celer.kernel [=[
  kernel void relax(item<2> it, in<double, 2> u, out<double, 2> v) {
    size_t i = it[0], j = it[1], n = it.range(0), m = it.range(1);
    double sum = u(i, j);
    if (i > 0) sum += u(i - 1, j) / 3;
    if (i + 1 < n) sum += u(i + 1, j) / 5;
    if (j > 0) sum += u(i, j - 1) / 7;
    if (j + 1 < m) sum += u(i, j + 1) / 9;
    v(i, j) = sum / 2;
  }
  kernel void turn(item<2> it, in<double, 2> u, out<double, 2> v) {
    size_t n = it.range(0);
    v(it[0], it[1]) = u(n - 1 - it[0], it[1]) + 1.0 / (1 + it[0]);
  }
]=]
local function turned(chunk)
  return celer.box({ n - chunk.max[0], chunk.min[1] }, { n - chunk.min[0], chunk.max[1] })
end
for step = 1, 6 do
  q:submit(function(cg)
    cg:parallel_for({ n, m }, k.relax, cg:read(u, celer.neighborhood(1, 1)),
      cg:discard_write(v))
  end)
  u, v = v, u
  if step % 3 == 0 then
    q:submit(function(cg)
      cg:parallel_for({ n, m }, k.turn, cg:read(u, turned), cg:discard_write(v))
    end)
    u, v = v, u
  end
end
local a, bits = q:wait(u), {}
for i = 0, n - 1 do
  local sum = 0
  for j = 0, m - 1 do sum = sum + a(i, j) * ((j * 31 + i) % 101) end
  bits[#bits + 1] = ("%.17g"):format(sum)
end
print(table.concat(bits, "\n"))]==]

local function launch(ranks, ...)
  return script.run(PROGRAM, { ranks = ranks, devices = 1 },
    { before = { "--backend", "cuda", "--devices", 1, "--device-memory", "4G", ... } })
end

local function run(ranks, ...)
  local r = launch(ranks, ...)
  assert.equal(0, r.status, r.stderr)
  return r.stdout
end

describe("messages between the GPUs of several hosts", function()
  local why = missing()
  if why then
    pending(why)
    return
  end

  it("bring the same bits by each way", function()
    local alone = run(1)
    assert.equal(alone, run(2, "--transfers", "between"))
    assert.equal(alone, run(2, "--transfers", "between", "--between", "staged"))
    assert.equal(alone, run(3, "--transfers", "between", "--between", "staged"))
    assert.equal(alone, run(2, "--transfers", "staged"))
  end)

  it("go by MPI from GPU to GPU, or are refused with what the library says", function()
    local r = launch(2, "--transfers", "between", "--between", "mpi")
    if r.status == 0 then
      assert.equal(run(1), r.stdout)
    else
      assert.matches("--between mpi: messages between GPUs cannot go that way: rank 0: its MPI "
        .. "does not take GPUs' memory: ", r.stderr, 1, true)
    end
  end)

  -- NCCL takes ranks that share a GPU to be on several hosts then, and messages go by sockets.
  describe("by NCCL", function()
    local env = { NCCL_IB_DISABLE = 1, NCCL_SOCKET_IFNAME = "lo", CELER_TRANSFERS = "between",
      CELER_BETWEEN = "nccl", CELER_BACKEND = "cuda", CELER_DEVICES = 1,
      CELER_DEVICE_MEMORY = "4G", NCCL_DEBUG = "VERSION" }
    local folder
    setup(function()
      folder = scratch.folder()
      scratch.write(folder .. "/case.lua",
        'local celer = require "celer"\nlocal q = celer.queue()\n' .. PROGRAM)
    end)
    teardown(function() os.execute("rm -r '" .. folder .. "'") end)

    local function share(ranks, words)
      return celer.exec({ "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", ranks, "sh",
        "-c", "NCCL_HOSTID=host-$OMPI_COMM_WORLD_RANK exec " .. celer.command() .. " " .. words },
        { env = env })
    end

    it("bring the same bits", function()
      for ranks = 2, 3 do
        local r = share(ranks, "run " .. folder .. "/case.lua")
        local text, started = r.stdout:gsub("[^\n]*NCCL version[^\n]*\n", "")
        assert.equal(0, r.status, r.stderr)
        assert.is_true(started > 0)
        assert.equal(run(1), text)
      end
    end)

    it("start none where there are none", function()
      local r = share(2, "run -e 'print(1)'")
      assert.equal("1\n", r.stdout, r.stderr)
    end)

    it("say why where it does not start", function()
      env.NCCL_SOCKET_IFNAME = "=none"
      local r = share(2, "run " .. folder .. "/case.lua")
      assert.is_true(r.status ~= 0 and r.status ~= 124, r.status)
      assert.matches("cannot go by NCCL (--between nccl): rank ", r.stderr, 1, true)
    end)
  end)
end)
