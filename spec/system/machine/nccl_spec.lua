-- What kernels of all ranks exchange, by NCCL between their GPUs: the same bits as by
-- messages and through host memory, and an end of the job when a rank dies. Pending
-- where there are no three GPUs or no NCCL. Two ranks may share a GPU that NCCL takes for
-- one on each of two hosts; that is pending where there is none.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

-- Why what three ranks with a GPU each exchange does not go by NCCL; nil where it does.
local function missing()
  local text = celer.run({ "info" }, { ranks = 3, env = { CELER_DEVICES = 1 } }).stdout
  local how = text:match("\ncollectives ([^\n]*)")
  if not how then return "three ranks use no GPUs here" end
  return how ~= "by NCCL, from GPU to GPU" and how or nil
end

-- All read what all wrote, by rows and columns; what one wrote, whole and in parts; one
-- reads what all wrote; columns of what was written by rows; what all have counted. 61
-- rows: parts that differ, and are not all dense.
local PROGRAM = [==[
local n = 61
local u = celer.buffer("double", { n, n }, { name = "u", init = function(i, j) return i - j end })
local w = celer.buffer("double", { n }, { name = "w" })
local s = celer.buffer("double", { 1 }, { name = "s", init = { 1 } })
local k = celer.kernel [=[
  kernel void weigh(item<1> it, in<double, 2> u, out<double, 1> w) {
    double sum = 0;
    for (int i = 0; i < 61; ++i)
      for (int j = 0; j < 61; ++j) sum += u(i, j) * ((i * it[0] + j) % 7);
    w(it[0]) = sum;
  }
  kernel void change(item<2> it, in<double, 1> w, in<double, 1> s, inout<double, 2> u) {
    u(it[0], it[1]) = u(it[0], it[1]) / (1 + s(0)) + w(it[1]) / (2 + w(it[0]) * w(it[0]));
  }
  kernel void column(item<1> it, inout<double, 2> u) {
    for (int i = 0; i < 61; ++i) u(i, it[0]) *= 1.0 + 1.0 / (it[0] + 2);
  }
  kernel void alone(item<1> it, inout<double, 1> w, out<double, 1> s) {
    double sum = 0;
    for (int i = 0; i < 61; ++i) { sum += w(i); w(i) /= 3; }
    s(0) = 1 / (2 + sum * sum);
  }
  kernel void own(item<1> it, inout<double, 1> w) { w(it[0]) += it[0]; }
  kernel void along(item<1> it, in<double, 2> u, out<double, 2> t) {
    for (int i = 0; i < 61; ++i) t(i, it[0]) = u(60 - i, it[0]) + u(i, it[0]) / 3;
  }
  kernel void count(item<1> it, in<double, 1> w, reducer<int, 1> bins, reducer<int> most) {
    bins((int)w(it[0]) & 7) += it[0];
    most.combine((int)w(it[0]) % 1000);
  }
  kernel void use(item<1> it, in<int, 1> bins, in<int, 1> most, inout<double, 1> w) {
    w(it[0]) += bins(it[0] & 7) % 17 + most(0) % 5;
  }
]=]
local t = celer.buffer("double", { n, n }, { name = "t" })
local bins, most = celer.buffer("int", 8, { name = "bins" }), celer.buffer("int", 1)
local function columns(chunk)
  return celer.box({ 0, chunk.min[0] }, { n, chunk.max[0] })
end
for _ = 1, 8 do
  q:submit(function(cg)
    cg:parallel_for(n, k.weigh, cg:read(u, celer.all), cg:discard_write(w))
  end)
  q:submit(function(cg)
    cg:parallel_for(1, k.alone, cg:read_write(w, celer.all), cg:discard_write(s, celer.all))
  end)
  q:submit(function(cg) cg:parallel_for(n, k.own, cg:read_write(w)) end)
  q:submit(function(cg)
    cg:parallel_for({ n, n }, k.change, cg:read(w, celer.all), cg:read(s, celer.all),
      cg:read_write(u))
  end)
  q:submit(function(cg) cg:parallel_for(n, k.column, cg:read_write(u, columns)) end)
  q:submit(function(cg)
    cg:parallel_for({ n, n }, k.change, cg:read(w, celer.all), cg:read(s, celer.all),
      cg:read_write(u))
  end)
  q:submit(function(cg)
    cg:parallel_for(n, k.along, cg:read(u, columns), cg:discard_write(t, columns))
  end)
  u, t = t, u
  q:submit(function(cg)
    cg:parallel_for(n, k.count, cg:read(w), cg:reduce(bins, "sum"), cg:reduce(most, "max"))
  end)
  q:submit(function(cg)
    cg:parallel_for(n, k.use, cg:read(bins, celer.all), cg:read(most, celer.all),
      cg:read_write(w))
  end)
end
local bits = {}
local a, b = q:wait(u, w)
for i = 0, n - 1 do bits[#bits + 1] = ("%.17g %.17g"):format(a(i, (i * 7) % n), b[i]) end
print(table.concat(bits, "\n"))]==]

local function run(ranks, before)
  local words = { "--backend", "cuda", "--devices", "1" }
  for _, word in ipairs(before) do words[#words + 1] = word end
  local r = script.run(PROGRAM, { ranks = ranks, devices = 1 }, { before = words })
  assert.equal(0, r.status, r.stderr)
  return r.stdout
end

describe("what all GPUs exchange by NCCL", function()
  local why = missing()
  if why then
    pending(why)
    return
  end

  it("is the same as by messages, and through host memory", function()
    local by_nccl = run(3, {})
    assert.equal(by_nccl, run(3, { "--no-collectives" }))
    assert.equal(by_nccl, run(3, { "--transfers", "staged" }))
  end)

  -- 64 MiB, which go by NCCL between GPUs of one host, too.
  for what, setup in pairs(script.exchanges(4096)) do
    it("ends with the job when a rank is killed in the middle of it: " .. what, function()
      script.killed(setup, { ranks = 3, devices = 1 }, { before = { "--backend", "cuda" } })
    end)
  end
end)

-- `celer WORDS` on two ranks that NCCL takes to be on a host each, with sockets between.
local function share(words, variables)
  local env = { CELER_DEVICES = 1, CELER_TRANSFERS = "between", CELER_ADVICE = "off",
    NCCL_DEBUG = "VERSION", NCCL_IB_DISABLE = 1, NCCL_SOCKET_IFNAME = "lo" }
  for name, value in pairs(variables or {}) do env[name] = value end
  return celer.exec({ "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", 2, "sh", "-c",
    "NCCL_HOSTID=host-$OMPI_COMM_WORLD_RANK exec " .. celer.command() .. " " .. words },
    { env = env })
end

-- What is printed, and whether NCCL has started, which then says its version.
local function outcome(r)
  assert.equal(0, r.status, r.stderr)
  local text, times = r.stdout:gsub("[^\n]*NCCL version[^\n]*\n", "")
  return text, times > 0
end

describe("ranks that share a GPU by NCCL", function()
  local text = share("info").stdout
  local how = text:match("\ncollectives ([^\n]*)")
  if how ~= "by NCCL, from GPU to GPU" then
    pending(how or "two ranks use no GPUs here")
    return
  end

  local QUEUE = 'local celer = require "celer"\nlocal q = celer.queue()\n'
  local STOP = 'if os.getenv("OMPI_COMM_WORLD_RANK") == "1" then error("rank 1 stops") end\n'
  local folder, run_it, words
  setup(function()
    folder = scratch.folder()
    scratch.write(folder .. "/case.lua", QUEUE .. PROGRAM)
    scratch.write(folder .. "/stops.lua", QUEUE .. STOP .. PROGRAM)
    run_it = "run --backend cuda --device-memory 4G " .. folder
    words = run_it .. "/case.lua"
  end)
  teardown(function() os.execute("rm -r '" .. folder .. "'") end)

  it("exchange the same as by messages", function()
    local by_nccl, started = outcome(share(words))
    assert.is_true(started)
    local by_messages, again = outcome(share(words, { CELER_NO_COLLECTIVES = 1 }))
    assert.is_false(again)
    assert.equal(by_messages, by_nccl)
  end)

  it("hear one that fails while the other waits to start it", function()
    local r = share(run_it .. "/stops.lua")
    assert.is_true(r.status ~= 0 and r.status ~= 124, r.status)
    assert.matches("stops.lua:3: rank 1 stops", r.stderr, 1, true)
    assert.not_matches("NCCL version", r.stdout)
  end)

  it("do not start it for what all of them do not exchange", function()
    local _, started = outcome(share(
      [[run --backend cuda -e "local q, u = celer.queue(), celer.buffer('int', 100)
        local k = celer.kernel 'kernel void k(item<1> it, out<int, 1> u) { u(it[0]) = 1; }'
        q:submit(function(cg) cg:parallel_for(100, k, cg:discard_write(u)) end) q:wait()"]]))
    assert.is_false(started)
  end)

  it("do without it where it does not start, and say why", function()
    local r = share(words, { NCCL_SOCKET_IFNAME = "=none" })
    local by_hosts = outcome(r)
    assert.matches("celer: warning: what all ranks exchange goes through host memory, not by "
      .. "NCCL: rank %d: [^\n]*NCCL", r.stderr)
    assert.equal((outcome(share(words))), by_hosts)
  end)
end)
