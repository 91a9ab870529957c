-- celer run --lost, on several hosts: links that go silent, and hosts that die.
local celer = require("spec.support.celer")
local hosts = require("spec.support.hosts")
local scratch = require("spec.support.scratch")

-- Steps in which neighbours exchange a number, for a while. Once in a while all wait for all.
local SCRIPT = [==[
local celer = require "celer"
local q = celer.queue()
local u = celer.buffer("int", { 64 }, { init = function(i) return i end })
local v = celer.buffer("int", { 64 }, { init = 0 })
local k = celer.kernel [[
  kernel void step(item<1> it, in<int, 1> u, out<int, 1> v) {
    int i = it[0];
    v(i) = u(i) + (i > 0 ? u(i - 1) : 0) + (i < 63 ? u(i + 1) : 0);
  }
]]
local ffi = require "ffi"
ffi.cdef "int usleep(unsigned);"
for i = 1, tonumber(arg[1]) do
  q:submit(function(cg)
    cg:parallel_for({ 64 }, k, cg:read(u, celer.neighborhood(1)), cg:discard_write(v))
  end)
  u, v = v, u
  ffi.C.usleep(5000)
  if i == 20 then io.open(arg[2], "w"):close() end
  if i % 20 == 0 then q:wait() end
end
print(q:wait(u)[32])
]==]

-- Starts it on head, where mpirun is, and on one host or two, and does `what` in its middle.
-- Then waits for its end, and for 30 s at most until nothing is left of it anywhere.
local function run(steps, what, options, words)
  local folder = scratch.folder()
  scratch.write(folder .. "/case.lua", SCRIPT)
  local text = ([[
    mpirun -H @HOSTS -n @RANKS -x CELER_CACHE=@CACHE -x CELER_NO_SAMPLE=1 @CELER run \
      --backend cpu --advice off @OPTIONS @FOLDER/case.lua @STEPS @FOLDER/up & job=$!
    until [ -e @FOLDER/up ]; do kill -0 $job || exit 99; sleep 0.1; done
    @WHAT
    wait $job; status=$?
    left() { grep -lsE '^(@CELER|orted|mpirun)' /proc/[0-9]*/cmdline; }
    for _ in $(seq 300); do [ "$(left)" ] || break; sleep 0.1; done
    left
    exit $status]]):gsub("@(%u+)", {
      HOSTS = options.hosts or "head:1,h2:1", RANKS = tostring(options.ranks or 2),
      CACHE = os.getenv("CELER_CACHE") or celer.folder() .. "/kernel-cache",
      CELER = celer.command(), OPTIONS = words, FOLDER = folder, STEPS = tostring(steps),
      WHAT = what })
  return hosts.run(2, text, { timeout = 100 })
end

describe("celer run --lost, on several hosts,", function()
  local function lost(r, finder, host)
    assert.is_true(r.status ~= 0 and r.status ~= 99 and r.status ~= 124, r.status)
    assert.equal("", r.stdout) -- nothing was computed to its end, and nothing is left
    assert.matches(("celer: rank %%d on host %s is lost: rank %%d on host %s has heard nothing "
      .. "of it for 2 s %%(%%-%%-lost%%)"):format(host, finder), r.stderr)
    assert.equal(1, select(2, r.stderr:gsub("is lost: ", "")), r.stderr)
  end

  hosts.it("ends everywhere when a link stays silent", function()
    lost(run(1e6, "hosts cut h2", {}, "--lost 2"), "head", "h2")
  end)

  hosts.it("does so of several ranks of a host, and of other hosts", function()
    lost(run(1e6, "hosts cut h2", { hosts = "head:2,h1:1,h2:2", ranks = 5 }, "--lost 2"),
      "h[e1]%w*", "h2")
  end)

  hosts.it("ends everywhere when a host dies", function()
    local r = run(1e6, "hosts kill h2", {}, "--lost 2")
    assert.is_true(r.status ~= 0 and r.status ~= 99 and r.status ~= 124, r.status)
    assert.equal("", r.stdout)
  end)

  hosts.it("goes on after a silence, with the right numbers, and has a word for it", function()
    local wanted = celer.run({ "run", "-e", SCRIPT, "100", scratch.path() })
    assert.equal(0, wanted.status, wanted.stderr)
    local r = run(100, "hosts cut h2; sleep 10; hosts restore h2", {},
      "--lost 60 --watchdog 5")
    assert.equal(0, r.status, r.stderr)
    assert.equal(wanted.stdout, r.stdout)
    assert.matches("rank 1 on host h2 has been silent for %d+ s; after 60 s all ranks end",
      r.stderr)
  end)
end)
