-- On several hosts (spec/support/hosts.sh): the same bits as on one. `check-long` has all
-- examples, more hosts and slower links (spec/long/hosts.lua).
local celer = require("spec.support.celer")
local hosts = require("spec.support.hosts")
local scratch = require("spec.support.scratch")

-- What `celer` prints on n hosts, which has to be what it prints on one.
local function same(n, args, options)
  local alone = celer.run(args)
  local r = hosts.celer(n, args, options)
  assert.equal("", r.stderr)
  assert.equal(0, r.status)
  assert.equal(alone.stdout, r.stdout)
end

describe("the test bed", function()
  hosts.it("gives each host what is its own, and shares the rest", function()
    local folder = scratch.folder()
    local r = hosts.run(2, ([[
      for h in h1 h2; do
        hosts at $h 'hostname; echo $HOME; cat mine /tmp/mine /dev/shm/mine
          for file in mine /tmp/mine /dev/shm/mine; do hostname >$file; done; hostname >>%s/ours'
      done
      hosts at h1 'getent hosts h2; cat mine /tmp/mine /dev/shm/mine %s/ours' ]])
      :format(folder, folder))
    assert.equal("h1\n/tmp/home\nh2\n/tmp/home\n10.77.9.2       h2\nh1\nh1\nh1\nh1\nh2\n", r.stdout)
    local _, refused = r.stderr:gsub("No such file", "")
    assert.equal(6, refused)
  end)

  hosts.it("hands its input to the command, as a terminal's to a shell", function()
    local r = celer.exec({ "sh", "-c", "echo typed | spec/support/hosts.sh 1 cat" })
    assert.same({ 0, "typed\n" }, { r.status, r.stdout }, r.stderr)
  end)

  hosts.it("leaves nothing when it is killed", function()
    local mark = scratch.folder()
    local r = celer.exec({ "timeout", "-s", "KILL", "1", "spec/support/hosts.sh", "--share", mark,
      "2", "sh", "-c", "hosts at h2 'sleep 1000'; : " .. mark })
    assert.is_true(r.timed_out)
    local there = ("grep -ls '[%s]%s' /proc/[0-9]*/cmdline"):format(mark:sub(1, 1), mark:sub(2))
    scratch.output(("for _ in $(seq 600); do %s || break; sleep 0.1; done"):format(there))
    assert.equal("", scratch.output(there))
    assert.equal("", scratch.output("ip -br link | grep -E '^(h1|h2|hub|pit)'"))
  end)

  hosts.it("cuts links, restores them, and hosts die", function()
    -- Nobody listens there: who is reached refuses.
    local r = hosts.run(2, [[
      there() { hosts at h1 'timeout 2 bash -c "</dev/tcp/10.77.9.2/9"' 2>&1 | grep refused; }
      there >&2 || echo no road; hosts cut h2; there && echo not cut
      hosts restore h2; until there >&2; do :; done
      hosts kill h2; there && echo not dead; hosts at h2 true || echo gone]], { timeout = 60 })
    assert.equal("gone\n", r.stdout)
  end)

  hosts.it("delays what hosts send each other", function(bed)
    local r = hosts.run(2, [[hosts at h1 'bash -c "time -p for i in 1 2 3 4 5 6 7 8 9 10
      do (</dev/tcp/10.77.9.2/9) 2>/dev/null; done"']], { bed = bed })
    assert.is_true(tonumber(r.stderr:match("real ([%d.]+)")) >= 10 * 2 * 0.02, r.stderr)
  end, { delay = 20 })
end)

describe("on several hosts", function()
  hosts.it("hello says the same", function() same(2, { "run", "examples/hello.lua" }) end)

  hosts.it("a wave has the same checksum, links of 1 ms or not", function(bed)
    local args = { "run", "examples/wave_sim.lua", "64", "64", "40" }
    same(2, args)
    same(2, args, { bed = bed })
  end, { delay = 1 })

  hosts.it("a transposition is right on three", function()
    same(3, { "run", "examples/transpose.lua", "37", "23", "5" })
  end)

  hosts.it("random programs hold what the interpreter says", function()
    local program = celer.folder() .. "/random_programs"
    if not scratch.look(program) then return pending("not built: " .. program) end
    local r = hosts.run(2, { "mpirun", "-n", 2, program, "--mpi", "--count", 40 })
    assert.matches("40 programs, 0 failures\n$", r.stdout)
    assert.equal(0, r.status)
  end)
end)
