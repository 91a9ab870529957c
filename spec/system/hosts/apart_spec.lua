-- Hosts that differ in what one machine's ranks have in common: caches, file systems, builds
-- of celer, cores, clocks, names.
local celer = require("spec.support.celer")
local hosts = require("spec.support.hosts")
local json = require("cjson")
local scratch = require("spec.support.scratch")

local wave = { "run", "examples/wave_sim.lua", "64", "64", "40" }

-- mpirun of celer on two hosts, as words of a shell.
local function mpirun(args, command)
  return ("mpirun -n 2 -x CELER_NO_SAMPLE=1 %s %s"):format(command or celer.command(), args)
end

local function works(args, options)
  local alone = celer.run(args)
  local r = hosts.celer(2, args, options)
  assert.equal("", r.stderr)
  assert.equal(0, r.status)
  assert.equal(alone.stdout, r.stdout)
end

-- A job that fails with one message of celer's, besides what Open MPI says of lost peers.
local function refused(words, command, message)
  local r = hosts.run(2, command)
  assert.not_equal(0, r.status)
  assert.is_false(r.timed_out)
  local said = {}
  for line in r.stderr:gmatch("[^\n]+") do
    if line:find("^celer: ") then said[#said + 1] = line end
  end
  assert.equal(1, #said, r.stderr)
  for _, word in ipairs(words) do assert.matches(word, said[1], 1, true) end
  assert.is_nil(message and r.stdout:find(message, 1, true))
end

describe("hosts", function()
  hosts.it("without a common cache compile kernels each", function()
    local r = hosts.run(2, mpirun("run examples/wave_sim.lua 64 64 40")
      .. " && for h in h1 h2; do hosts at $h 'ls .cache/celer/*.so | wc -l'; done")
    local first, second = r.stdout:match("\n(%d+)\n(%d+)\n$")
    assert.is_true(tonumber(first) > 0, r.stdout .. r.stderr)
    assert.equal(first, second)
  end)

  hosts.it("without a common file system end at the first checkpoint, with its place", function()
    local line = celer.line_of("examples/wave_restart.lua", "celer.checkpoint(folder")
    refused({ "rank 1 on h2: " .. line .. ": cannot write /tmp/kept/data-",
      "rank 0 has made it, but it is not there on h2; all ranks must see the same files" },
      mpirun("run examples/wave_restart.lua 61 47 10 /tmp/kept"), "47 steps")
  end)

  hosts.it("without a common file system open no file together, be there one on each or not",
    function()
      local script = scratch.path(".lua")
      scratch.write(script, [[
        local celer = require "celer"
        local q, mode = celer.queue(), arg[1]
        q:submit(function(cg)
          cg:host_task(celer.collective "files", function(part)
            part.comm:open("/tmp/field", mode):close()
          end)
        end)
        q:wait()]])
      for _, mode in ipairs { "w", "r+", "r" } do
        refused({ script .. ":5: cannot open /tmp/field: rank 1 does not see the files there that"
          .. " other ranks see; all ranks must see the same files" },
          "hosts at h1 ': >/tmp/field'; " .. (mode ~= "r" and "hosts at h2 ': >/tmp/field'; " or "")
          .. mpirun(("run %s %s"):format(script, mode)))
      end
    end)

  hosts.it("with different builds of celer are refused, with both", function()
    local folder, mark = celer.folder(), "\4\0\0\0\20\0\0\0\3\0\0\0GNU\0"
    local library = scratch.look(folder .. "/libceler.so")
    local _, at = (library or ""):find(mark, 1, true)
    if not at then return pending("no build-id in " .. folder .. "/libceler.so") end
    local other = scratch.folder()
    scratch.write(other .. "/libceler.so", library:sub(1, at) .. "\1\2\3\4" .. library:sub(at + 5))
    refused({ "rank 1 on h2 is celer ", ", build 01020304, rank 0 celer ",
      ": install one build on all hosts" }, ([[
      hosts at h1 'mkdir lib'; hosts at h2 'mkdir lib; cp %s/libceler.so lib'
      %s]]):format(other, mpirun("run examples/hello.lua",
        "-x LD_LIBRARY_PATH=/tmp/home/lib " .. celer.command())))
  end)

  hosts.it("of which one lacks a library of celer's are named, by run and by repl", function()
    for _, words in ipairs { "run -n 2 examples/hello.lua", "repl -n 2" } do
      refused({ "celer does not start on host h2: install it on all hosts at the same place, with "
        .. "its libraries; LD_LIBRARY_PATH must lead to them there, too" }, ([[
        hosts at h2 'mount -n --bind /dev/null %s/libceler.so'
        %s %s </dev/null]]):format(celer.folder(), celer.command(), words))
    end
  end)

  local HELLO = "squares: 0 1 4 9 16 25 36 49 64 81\n"

  -- What celer says of a job that ends everywhere without a result, on stderr.
  local function ended(bed, before, options)
    local r = hosts.run(2, "true; " .. before .. "mpirun " .. options .. " -x CELER_LOST=3 "
      .. "-x CELER_NO_SAMPLE=1 " .. celer.command() .. " run examples/hello.lua; status=$?; "
      .. "for _ in $(seq 100); do [ \"$(grep -lsE '^(orted|mpirun|" .. celer.command() .. ")' "
      .. "/proc/[0-9]*/cmdline)\" ] || exit $status; sleep 0.1; done; echo left",
      { bed = bed, timeout = 100 })
    assert.is_false(r.timed_out)
    assert.not_equal(0, r.status, r.stdout .. r.stderr)
    assert.equal("", r.stdout)
    local said = {}
    for line in r.stderr:gmatch("[^\n]+") do
      if line:find("^celer: ") then said[#said + 1] = line end
    end
    return said, r.stderr
  end

  -- The lower of two ranks that do not hear each other speaks.
  local function ends(bed, before, options, wanted)
    local said, stderr = ended(bed, before, options)
    assert.equal(1, #said, stderr)
    assert.matches(wanted, said[1])
  end

  hosts.it("of which one has a full disk say which", function()
    local line = celer.line_of("examples/hello.lua", "cg:parallel_for")
    refused({ "rank 1 on h2: " .. line .. ": cannot write /tmp/home/.cache/celer/",
      "No space left on device" }, "hosts at h2 'mkdir .cache; mount -n -t tmpfs -o size=4k t "
      .. ".cache'; " .. mpirun("run examples/hello.lua"))
  end)

  hosts.it("of which one has a network that leads nowhere end at the start, with the networks",
    function(bed)
      ends(bed, "", "-n 2", "^celer: rank 0 on host h1 hears nothing of rank 1 by MPI, for %d+ s "
        .. "from the start%..*: h1 has eth0 10%.77%.9%.1, eth1 10%.66%.9%.1%. Name the one that "
        .. "joins all hosts: OMPI_MCA_btl_tcp_if_include=ADDRESS/BITS$")
      local r = hosts.run(2, mpirun("run examples/hello.lua",
        "--mca btl_tcp_if_include 10.77.9.0/24 " .. celer.command()), { bed = bed })
      assert.equal(HELLO, r.stdout)
    end, { stray = true })

  local BLOCKED = "^celer: rank 0 on host h1 hears nothing of rank 1 by MPI, for %d+ s from the "
    .. "start%. A firewall between their hosts may drop MPI's ports, "

  hosts.it("between which a firewall drops TCP, both ways or one, end at the start", function()
    local one = "hosts drop h2 from 10.77.9.1 ipproto tcp || exit; "
    ends(nil, one, "-n 2", BLOCKED)
    ends(nil, one .. "hosts drop h1 from 10.77.9.2 ipproto tcp || exit; ", "-n 2", BLOCKED)
  end)

  -- Where MPI's ports are open, the session's are not.
  hosts.it("between which a firewall drops what a session goes by start none, and both are named",
    function()
      local r = hosts.run(2, "hosts drop h1 from 10.77.9.2 ipproto tcp sport 32768-60999 dport "
        .. "32768-60999 && echo 'print(1)' | CELER_LOST=3 " .. celer.command() .. " repl -n 2",
        { timeout = 100 })
      assert.same({ 1, "" }, { r.status, r.stdout })
      assert.matches("^celer: rank 1 on h2 cannot reach rank 0 on h1 %(tried 10%.77%.9%.1, port "
        .. "%d+%): Connection timed out; a session needs TCP from all hosts to that of rank 0\n$",
        r.stderr)
    end)

  hosts.it("between which a firewall drops UDP compute, and are warned", function()
    local r = hosts.run(2, "hosts drop h2 ipproto udp || exit; " .. mpirun([[run -e '
      require "ffi".cdef "unsigned sleep(unsigned);"
      for _ = 1, 5 do require "ffi".C.sleep(1) end
      print "through"'
    ]], "-x CELER_LOST=2 " .. celer.command()))
    assert.same({ 0, "through\n" }, { r.status, r.stdout }, r.stderr)
    assert.equal("celer: warning: no heartbeat gets through between rank 0 on host h1 and rank 1 "
      .. "on host h2 (UDP, perhaps by a firewall): if one is lost, the other does not notice\n",
      r.stderr)
  end)

  -- MPI learns of it and ends the job itself.
  hosts.it("of which one has no route to the other end, and are named", function()
    local said, stderr = ended(nil, "hosts at h1 'ip route add unreachable 10.77.9.2'; ", "-n 2")
    assert.same({}, said)
    assert.matches("from h1 to: h2 Unable to connect to the peer 10.77.9.2 on port %d+: "
      .. "No route to host", stderr)
  end)

  hosts.it("that have other scripts and modules at the same place run those of rank 0", function()
    local r = hosts.run(2, ([[
      for h in h1 h2; do hosts at $h "mkdir mine
        echo 'return \"module of $h\"' >mine/module.lua
        echo 'print(require \"module\", \"script of $h\")' >mine/case.lua"; done
      %s]]):format(mpirun("run --output all mine/case.lua", "-wdir /tmp/home " .. celer.command())))
    local lines = {}
    for line in r.stdout:gmatch "[^\n]+" do lines[#lines + 1] = line:match "module.*" end
    assert.same({ "module of h1\tscript of h1", "module of h1\tscript of h1" }, lines,
      r.stdout .. r.stderr)
  end)

  hosts.it("of which one is not there are named by the launcher, and all ends", function()
    local r = hosts.run(2, celer.command() .. " run -n 2 --launcher 'mpirun --host h1:1,h7:1' "
      .. "examples/hello.lua", { timeout = 100 })
    assert.is_false(r.timed_out)
    assert.not_equal(0, r.status)
    assert.equal("", r.stdout)
    assert.matches("h7", r.stderr)
  end)

  hosts.it("between which everything is dropped end at the start, though rank 0 hears all",
    function()
      local drop = ""
      for one, other in pairs { [1] = 2, [2] = 1 } do
        drop = drop .. ("hosts at h%d 'ip neigh replace 10.77.9.%d lladdr 02:00:00:00:00:99 "
          .. "dev eth0'; "):format(one, other)
      end
      ends(nil, drop, "-H head:1,h1:1,h2:1 -n 3",
        "^celer: rank 1 on host h1 hears nothing of rank 2 by MPI, for %d+ s from the start%.")
    end)

  hosts.it("with other numbers of cores compute the same", function(bed)
    works(wave, { bed = bed })
  end, { cores = "2 1" })

  hosts.it("whose own names are 127.0.1.1 to themselves reach each other", function(bed)
    works(wave, { bed = bed })
  end, { loopback = true })

  hosts.it("on which no name resolves reach each other", function()
    local r = hosts.run(2, "for h in h1 h2; do hosts at $h 'mount -n --bind /dev/null /etc/hosts'; "
      .. "done; " .. mpirun("run examples/hello.lua"))
    assert.equal("", r.stderr)
    assert.equal(HELLO, r.stdout)
  end)

  hosts.it("that booted hours apart have one timeline", function(bed)
    local path = scratch.path(".json")
    local r = hosts.celer(2, { "run", "--trace", path, unpack(wave, 2) }, { bed = bed })
    assert.equal("", r.stderr)
    local first, last = {}, {}
    for _, event in ipairs(json.decode(scratch.read(path))) do
      local rank, us = event.pid, event.ts
      if us then
        first[rank] = math.min(first[rank] or us, us)
        last[rank] = math.max(last[rank] or us, us)
      end
    end
    -- The ranks exchange rows all the time.
    assert.is_true(first[1] < last[2] and first[2] < last[1])
  end, { boot = 7 })
end)
