--- launch.lua -- the launcher, where celer starts it: `celer run -n 4`.
---
---   local launcher, message = launch.find("mpirun --host a:2,b:2", 4)
---   local words = launch.words(launcher, { launch.self(), "run", "sim.lua" }, {})
---   core.child_catch()
---   local child, stderr = core.child_start(words, {}, "heard")
---
--- Of Open MPI's launcher celer knows more than of others: its hosts, so that it can leave
--- some out; and the options by which it takes celer's variables to all hosts.
local core = require "celer.core"
local ffi = require "ffi"
local posix = require "celer.io.posix"
local tables = require "celer.tables"

ffi.cdef [[int64_t celer_readlink(const char *path, char *to, size_t n) __asm__("readlink");]]

local M = {}

---@class celer.launcher
---@field words string[]  without ranks and hosts
---@field open_mpi boolean
---@field step? string  of Slurm's: the name of what srun starts
---@field ranks? integer  nil: the launcher decides
---@field hosts? celer.launcher.host[]  nil: the launcher knows them
---@field file? string  that lists the hosts
---@field chosen? boolean  the hosts are those of `--host`, which may choose from the file's

---@class celer.launcher.host
---@field name string
---@field text string  as it was given
---@field slots? integer  nil: as many as the host has cores

--- The file of this program.
---@return string
function M.self()
  local to = ffi.new("char[4096]")
  return ffi.string(to, ffi.C.celer_readlink("/proc/self/exe", to, 4096))
end

-- The words of a text as a shell splits it, but that nothing is expanded.
local function split(text)
  local words, word, quote = {}, nil, nil
  for letter in text:gmatch "." do
    if letter == quote then quote = nil
    elseif quote then word = word .. letter
    elseif letter == "'" or letter == '"' then quote, word = letter, word or ""
    elseif letter:find "%s" then words[#words + 1], word = word, nil
    else word = (word or "") .. letter end
  end
  words[#words + 1] = word
  return words
end

local function find_program(name)
  if name:find("/", 1, true) then return posix.exists(name) end
  for folder in (os.getenv "PATH" or "/usr/bin:/bin"):gmatch "[^:]+" do
    if posix.exists(folder .. "/" .. name) then return true end
  end
end

local function is_open_mpi(program)
  if not program:find "mpirun$" and not program:find "mpiexec$"
    and not program:find "orterun$" then return false end
  local pipe = io.popen(("'%s' --version 2>/dev/null"):format(program))
  local said = pipe:read "*a"
  pipe:close()
  return said:find("Open MPI", 1, true) ~= nil or said:find("OpenRTE", 1, true) ~= nil
end

-- Options of Open MPI's mpirun that say how many ranks, and where; with one dash or two.
local counts = { n = true, np = true, c = true }
local lists = { H = true, host = true }
local files = { hostfile = true, machinefile = true }

local function read_hosts(path)
  local hosts = {}
  local file, message = io.open(path)
  if not file then return nil, message end
  for line in file:lines() do
    local name = line:gsub("#.*", ""):match "^%s*(%S+)"
    if name then
      hosts[#hosts + 1] = { name = name, text = line,
        slots = tonumber(line:match "%sslots%s*=%s*(%d+)") }
    end
  end
  file:close()
  return hosts
end

local function list_hosts(text)
  local hosts = {}
  for one in text:gmatch "[^,]+" do
    local name, slots = one:match "^([^:]+):?(.*)$"
    hosts[#hosts + 1] = { name = name, text = one, slots = slots == "" and 1 or tonumber(slots) }
  end
  return hosts
end

-- Takes ranks and hosts out of the words of Open MPI's mpirun.
local function take_apart(out, given)
  local message
  local i = 1
  while given[i] do
    local option, value = given[i]:match "^%-%-?(%a+)$", given[i + 1]
    if counts[option] and tonumber(value) then out.ranks = out.ranks or tonumber(value)
    elseif lists[option] and value then out.hosts, out.chosen = list_hosts(value), true
    elseif files[option] and value then out.file = value
    else
      out.words[#out.words + 1] = given[i]
      i = i - 1
    end
    i = i + 2
  end
  out.file = out.file or not out.hosts and os.getenv "OMPI_MCA_orte_default_hostfile" or nil
  if not out.hosts and out.file then
    out.hosts, message = read_hosts(out.file)
    if not out.hosts then return nil, "the launcher's hosts: " .. message end
  end
  return out
end

local function add(words, ...)
  for i = 1, select("#", ...) do words[#words + 1] = tostring((select(i, ...))) end
end

--- The launcher that the user has named, by all its words, or that there is here.
---@param text? string  what the user has named
---@param ranks? integer
---@return celer.launcher? launcher, string? message
function M.find(text, ranks)
  local slurm = os.getenv "SLURM_JOB_ID" and find_program "srun"
  local given = split(text or slurm and "srun --mpi=pmix" or "mpirun")
  if not given[1] then return nil, "--launcher is empty: name one, such as mpirun" end
  if not find_program(given[1]) then
    return nil, ("there is no launcher %s; install one such as Open MPI's mpirun, or name it by "
      .. "--launcher"):format(given[1])
  end
  local out = { words = {}, ranks = ranks, open_mpi = is_open_mpi(given[1]) }
  if out.open_mpi then return take_apart(out, given) end
  out.words = given
  if given[1]:find "srun$" then
    out.step = "celer-" .. io.open("/proc/self/stat"):read "*n"
    add(out.words, "--job-name", out.step)
  end
  return out
end

-- nil: of some nobody knows.
local function slots_of(hosts)
  local n = 0
  for _, host in ipairs(hosts) do
    if not host.slots then return nil end
    n = n + host.slots
  end
  return n
end

--- How many ranks there are on those of the launcher's hosts that are `left`: as many as
--- before if they have room, and as many on each as before, if there was not or nobody knows.
---@param launcher celer.launcher
---@param left celer.launcher.host[]?
---@return integer? ranks
function M.ranks_on(launcher, left)
  local n = launcher.ranks
  if not n or not left then return n end
  local all, now = slots_of(launcher.hosts), slots_of(left)
  if all and n <= all then return math.min(n, now) end
  if not all then all, now = #launcher.hosts, #left end
  return math.max(1, math.floor(n * now / all))
end

-- A link that goes silent while nothing is to be sent: mpirun notices within a minute.
local function add_patience(words)
  for name, value in tables.sorted_pairs { time = 30, intvl = 10, probes = 3 } do
    local option = "oob_tcp_keepalive_" .. name
    if not os.getenv("OMPI_MCA_" .. option) then add(words, "--mca", option, value) end
  end
end

-- The hosts as a file, or a list, as they were given.
local function add_hosts(words, launcher, hosts)
  local lines = {}
  for i, host in ipairs(hosts) do lines[i] = host.text end
  if launcher.chosen then
    if launcher.file then add(words, "--hostfile", launcher.file) end
    return add(words, "--host", table.concat(lines, ","))
  end
  if #hosts == #launcher.hosts then return add(words, "--hostfile", launcher.file) end
  local path = os.tmpname()
  core.leftover(path)
  local file = assert(io.open(path, "w"))
  file:write(table.concat(lines, "\n"), "\n")
  file:close()
  add(words, "--hostfile", path)
end

--- The words that start `program` on all ranks, on those hosts that are `left`.
---@param launcher celer.launcher
---@param program string[]
---@param variables table<string, string>  for the ranks, beside those of celer that there are
---@param left? celer.launcher.host[]
---@return string[]
function M.words(launcher, program, variables, left)
  local words = { unpack(launcher.words) }
  local ranks, hosts = M.ranks_on(launcher, left), left or launcher.hosts
  if launcher.open_mpi then
    add_patience(words)
    if hosts then add_hosts(words, launcher, hosts) end
  end
  if ranks then add(words, "-n", ranks) end
  if launcher.open_mpi then
    local names = core.environment "CELER_"
    for name, value in tables.sorted_pairs(variables) do
      if name:find "^CELER_" then names[name] = value or nil end
    end
    for name in tables.sorted_pairs(names) do add(words, "-x", name) end
  end
  add(words, unpack(program))
  return words
end

--- Ends a child that leads a session, and all that is in the session, at once.
---@param child integer
function M.kill(child)
  for _, name in ipairs(posix.list "/proc") do
    local file = name:find "^%d+$" and io.open("/proc/" .. name .. "/stat")
    local stat = file and file:read "*a"
    if file then file:close() end
    -- number (name) state parent group session
    if stat and tonumber(stat:match "%) %S+ %S+ %S+ (%d+)[^)]*$") == child then
      core.child_kill(tonumber(name), 9)
    end
  end
end

-- What srun has started goes on without an srun that was killed. $1 is its name; a job of its
-- own, or a step of this one. Slurm may take a while to end it, and may not reach a host.
local END_STEP = [[
if [ -n "$SLURM_JOB_ID" ]; then list="squeue -h -s -j $SLURM_JOB_ID"; else list="squeue -h --me"; fi
ours() { $list -o '%i %j' | sed -n "s/ $1\$//p"; }
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  left=$(ours "$1") || exit 1
  [ -n "$left" ] || exit 0
  scancel --signal=KILL $left 2>/dev/null
  sleep 0.5
done
exit 1]]

--- After the launcher was killed: ends the ranks that are left without it. Whether there are
--- none; and the signal by which this process is to end, if it has come.
---@param launcher celer.launcher
---@return boolean, integer? signal
function M.end_rest(launcher)
  if not launcher.step then return false end
  local child = core.child_start({ "sh", "-c", END_STEP, "sh", launcher.step }, {})
  local status, told
  while child and not status do
    local kind, signal = core.child_await(-1, -1)
    told = told or kind == "signal" and M.ends(signal) and signal or nil
    status = core.child_ended(child)
  end
  return status == 0, told
end

-- How long a host may take to answer, and how many are asked at a time.
local ANSWER_S, AT_A_TIME = 15, 32

--- Whether a signal that core.child_await gives is for this process, to end it.
---@param signal integer
---@return boolean
function M.ends(signal) return signal ~= 10 and signal ~= 17 end -- SIGUSR1, SIGCHLD

-- Which of these hosts start a program; or nil, and a signal that came.
local function answering(launcher, hosts, program)
  local asked, left, out, told = {}, #hosts, {}, nil
  for _, host in ipairs(hosts) do
    local words = { unpack(launcher.words) }
    add(words, "--host", host.name, "-n", 1, unpack(program))
    asked[host] = core.child_start(words, { OMPI_MCA_orte_default_hostfile = false }, "quiet")
  end
  local deadline = core.time() + ANSWER_S
  while left > 0 and core.time() < deadline and not told do
    local kind, signal = core.child_await(-1, math.ceil((deadline - core.time()) * 1000))
    told = kind == "signal" and M.ends(signal) and signal or nil
    for _, host in ipairs(hosts) do
      local status = asked[host] and core.child_ended(asked[host])
      if status then
        left, asked[host] = left - 1, nil
        out[host] = status == 0
      end
    end
  end
  for _, child in tables.each(asked) do M.kill(child) end
  return not told and out or nil, told
end

--- The launcher's hosts on which it can start a program now; nil where it alone knows them, or
--- a signal has come by which this process is to end.
---@param launcher celer.launcher
---@param program? string[]  by default one that all have
---@return celer.launcher.host[]? hosts, integer? signal
function M.alive(launcher, program)
  if not launcher.hosts then return nil end
  local out = {}
  for first = 1, #launcher.hosts, AT_A_TIME do
    local some = { unpack(launcher.hosts, first, math.min(first + AT_A_TIME - 1, #launcher.hosts)) }
    local answers, signal = answering(launcher, some, program or { "true" })
    if not answers then return nil, signal end
    for _, host in ipairs(some) do
      if answers[host] then out[#out + 1] = host end
    end
  end
  return out
end

--- The hosts of `hosts` that are not among `those`, as a list in words; "": all are.
---@param hosts celer.launcher.host[]?
---@param those celer.launcher.host[]?  nil: nobody knows
---@return string
function M.others(hosts, those)
  local there, names = {}, {}
  for _, host in ipairs(those or {}) do there[host.name] = true end
  for _, host in ipairs(those and hosts or {}) do
    if not there[host.name] then names[#names + 1] = host.name end
  end
  return table.concat(names, ", ")
end

-- What shells and loaders end with where a program is not there, or lacks a library.
local UNSTARTED = { [126] = true, [127] = true }

--- Says on which hosts celer itself does not start, where a job has ended so. Hosts that start
--- nothing else are not to blame.
---@param launcher celer.launcher
---@param status integer
function M.explain(launcher, status)
  if not UNSTARTED[status] or not launcher.hosts then return end
  local alive = M.alive(launcher)
  local names = M.others(alive, alive and M.alive(launcher, { M.self(), "--version" }))
  if names == "" then return end
  io.stderr:write(("celer: %s does not start on host %s: install it on all hosts at the same "
    .. "place, with its libraries; LD_LIBRARY_PATH must lead to them there, too\n"):format(
    M.self(), names))
end

return M
