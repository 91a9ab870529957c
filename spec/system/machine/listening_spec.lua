-- What a job listens on is what the guide says.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

-- Each rank writes the TCP ports on which it listens, and so does rank 0 for mpirun.
local SCRIPT = [==[
local folder = arg[1]
local celer = require "celer"
local q = celer.queue()
local function ports_of(process)
  local own, ports = {}, {}
  for link in io.popen("readlink /proc/" .. process .. "/fd/*"):lines() do
    own[link:match "^socket:%[(%d+)%]$" or ""] = true
  end
  for _, table in ipairs { "tcp", "tcp6" } do
    for line in io.lines("/proc/" .. process .. "/net/" .. table) do
      local address, port, state, inode =
        line:match "^ *%d+: (%x+):(%x+) %x+:%x+ (%x+) %S+ %S+ %S+ +%d+ +%d+ (%d+)"
      if state == "0A" and own[inode] and not address:find "^0100007F" then
        ports[#ports + 1] = tonumber(port, 16)
      end
    end
  end
  return table.concat(ports, " ")
end
local function write(name, process)
  local file = io.open(folder .. "/" .. name, "w")
  file:write(ports_of(process))
  file:close()
end
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part)
    local stat = io.open "/proc/self/stat":read "*a"
    write("rank" .. part.rank, "self")
    if part.rank == 0 then write("parent", stat:match "%) %a (%d+)") end
  end)
end)
q:wait()
]==]

-- The words of the guide's n-th line that starts mpirun with --mca.
local function guides(n)
  local text = scratch.read("lua/README.md"):match("\n## Know what a job listens on\n(.-)\n## ")
  local found = 0
  for line in text:gmatch("\n    mpirun (%-%-mca [^\n]*) %-n 4 celer run sim.lua") do
    found = found + 1
    if found == n then return line end
  end
end

-- The first of so many ports that nobody has, and that no other run of this spec will take: by
-- chance, below those that Linux gives to whoever asks for any.
local function free(n)
  local taken = {}
  for _, table in ipairs { "tcp", "tcp6" } do
    for port in scratch.read("/proc/net/" .. table):gmatch("\n *%d+: %x+:(%x+)") do
      taken[tonumber(port, 16)] = true
    end
  end
  local random = assert(io.open("/dev/urandom"))
  while true do
    local a, b = random:read(2):byte(1, 2)
    local first, n_taken = 10000 + (256 * a + b) % 20000, 0
    for port = first, first + n - 1 do n_taken = n_taken + (taken[port] and 1 or 0) end
    if n_taken == 0 then
      random:close()
      return first
    end
  end
end

describe("a job", function()
  -- The ports of each rank, and of mpirun.
  local function listens(options)
    local folder = scratch.folder()
    scratch.write(folder .. "/case.lua", SCRIPT)
    local argv = {}
    for word in (options and "mpirun -n 2 " .. options or ""):gmatch("%S+") do
      argv[#argv + 1] = word
    end
    for _, word in ipairs({ celer.command(), "run", "--backend", "cpu", folder .. "/case.lua",
      folder }) do
      argv[#argv + 1] = word
    end
    local r = celer.exec(argv)
    assert.same({ 0, "" }, { r.status, r.stderr })
    local ranks = scratch.read(folder .. "/rank0")
    if options then ranks = ranks .. " " .. scratch.read(folder .. "/rank1") end
    return ranks, scratch.read(folder .. "/parent")
  end

  local function within(ports, first, last)
    local n = 0
    for port in ports:gmatch("%d+") do
      assert.is_true(tonumber(port) >= first and tonumber(port) <= last, ports)
      n = n + 1
    end
    assert.is_true(n > 0, "no port at all")
  end

  it("of one rank without a launcher listens on nothing", function()
    assert.equal("", (listens()))
  end)

  it("on one host may listen on mpirun's alone", function()
    local ranks, mpirun = listens(guides(1))
    assert.equal(" ", ranks)
    within(mpirun, 1024, 65535)
  end)

  it("may have its ports chosen", function()
    local first, port = free(100), free(1)
    local ranks, mpirun = listens((guides(2):gsub("45000", port):gsub("46000", first)))
    within(ranks, first, first + 99)
    within(mpirun, port, port)
  end)
end)
