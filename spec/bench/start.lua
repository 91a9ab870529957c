--- start.lua -- what a job of one task does per rank, from the launcher's start to its end.
---
---   luajit spec/bench/start.lua [RANKS ...]      4 16 64 128 by default
---
--- Counts, no times, so that ranks may be many more than cores: messages and their bytes as
--- Open MPI's monitoring has them, with those within collectives; connections over TCP and
--- the files asked for, by a preloaded library (start/calls.c). `bare` is a program that only
--- starts MPI and ends it. Each value is the mean of all ranks and the most that one has.
--- The last line is JSON.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local M = {}

local HERE = "spec/bench/start/"

--- What is counted of each rank, in the order of the table.
M.counts = { "messages", "bytes", "peers", "connections", "beats", "files", "sources" }

-- Where no shared file system is, as a rule: the system's, and MPI's own.
local system = { "^/usr/", "^/lib", "^/etc/", "^/proc", "^/sys", "^/dev/", "^/run/", "^/var/",
  "/ompi%.", "/%.openmpi", "/%.pmix", "openmpi", "pmix", "^/$", "^/[^/]+$" }

local function is_system(path)
  for _, pattern in ipairs(system) do
    if path:find(pattern) then return true end
  end
  return false
end

-- Messages, their bytes, and how many ranks get some.
local function add_messages(row, text)
  local peers = {}
  for to, bytes, messages in text:gmatch("[EI]\t%d+\t(%d+)\t(%d+) bytes\t(%d+) msgs") do
    row.messages = row.messages + messages
    row.bytes = row.bytes + bytes
    if not peers[to] then row.peers = row.peers + 1 end
    peers[to] = true
  end
end

-- What hwloc asks about displays.
local X11 = ":60[0-5]%d$"

-- Connections, files, and of these the script, its modules and its kernel. A rank of the heartbeat
-- sends again and again: those that it sends to count.
local function add_calls(row, text)
  local heard = {}
  for call, what in text:gmatch("(%l+) ([^\n]*)\n") do
    if call == "sendto" then
      if not heard[what] then row.beats = row.beats + 1 end
      heard[what] = true
    elseif call == "connect" or call == "accept" then
      if not what:find(X11) then row.connections = row.connections + 1 end
    elseif not is_system(what) then
      row.files = row.files + 1
      if what:find("%.lua$") or what:find("^spec/.*%.cu$") then row.sources = row.sources + 1 end
    end
  end
end

local library

local function prepared()
  if library then return library end
  local folder = scratch.folder()
  local r = celer.exec({ "sh", "-c", ("cc -shared -fPIC -O1 -o %s/calls.so %scalls.c -ldl && "
    .. "mpicc -O1 -o %s/bare %sbare.c"):format(folder, HERE, folder, HERE) })
  if r.status ~= 0 then error(r.stderr, 0) end
  library = folder
  return library
end

--- What each rank of a job of `ranks` does, rank 0 first.
---@param ranks integer
---@param bare? boolean  MPI alone
---@return table<string, integer>[]
function M.job(ranks, bare)
  local folder = prepared()
  local stem = scratch.path()
  local command = bare and { folder .. "/bare" }
    or { celer.command(), "run", "--backend", "cpu", HERE .. "task.lua" }
  local r = celer.exec({ "mpirun", "-n", ranks, "--mca", "btl", "tcp,self",
    "--mca", "pml", "ob1,monitoring", "--mca", "pml_monitoring_enable", "2",
    "--mca", "pml_monitoring_enable_output", "3",
    "--mca", "pml_monitoring_filename", stem .. ".sent", "-x", "CALLS=" .. stem .. ".calls",
    "-x", "LD_PRELOAD=" .. folder .. "/calls.so",
    "-x", ("LUA_PATH=;;%s/%sfar/?.lua"):format(os.getenv("PWD"), HERE),
    unpack(command) }, { timeout = 1200 })
  if r.status ~= 0 then error(r.stderr, 0) end
  local rows = {}
  for rank = 0, ranks - 1 do
    local row = {}
    for _, name in ipairs(M.counts) do row[name] = 0 end
    local sent, calls = ("%s.sent.%d.prof"):format(stem, rank), ("%s.calls.%d"):format(stem, rank)
    add_messages(row, scratch.read(sent))
    add_calls(row, scratch.read(calls))
    os.remove(sent)
    os.remove(calls)
    rows[rank + 1] = row
  end
  return rows
end

--- Why there is nothing to count with, or nil.
---@return string?
function M.missing()
  local r = celer.exec({ "ompi_info", "--parsable", "--param", "pml", "monitoring" })
  if r.status ~= 0 or not r.stdout:find "monitoring" then
    return "this MPI has no pml/monitoring, which Open MPI counts messages by"
  end
end

--- The mean of all ranks and the most of one, by what is counted.
---@param rows table<string, integer>[]
function M.summary(rows)
  local result = {}
  for _, name in ipairs(M.counts) do
    local sum, most = 0, 0
    for _, row in ipairs(rows) do sum, most = sum + row[name], math.max(most, row[name]) end
    result[name] = { mean = sum / #rows, most = most }
  end
  return result
end

local function write_row(what, ranks, summary)
  local words = { ("%-5s %5d"):format(what, ranks) }
  for _, name in ipairs(M.counts) do
    words[#words + 1] = ("%11s"):format(("%.0f/%d"):format(summary[name].mean, summary[name].most))
  end
  print(table.concat(words, " "))
end

-- How much more the busiest rank has for each doubling of ranks, from the first job to the
-- last.
local function per_doubling(first, last, name)
  local doublings = math.log(last.ranks / first.ranks) / math.log(2)
  return (last[name].most - first[name].most) / doublings
end

local function main(sizes)
  io.stdout:setvbuf("line")
  print(("mean/most %8s %s"):format("", ("%11s "):rep(#M.counts):format(unpack(M.counts))))
  M.job(2) -- compiles
  local result = { bench = "start", rows = {}, files = 0, sources = 0 }
  local own = {}
  for _, ranks in ipairs(sizes) do
    for _, what in ipairs { "bare", "celer" } do
      local rows = M.job(ranks, what == "bare")
      local summary = M.summary(rows)
      write_row(what, ranks, summary)
      summary.ranks, summary.program = ranks, what
      result.rows[#result.rows + 1] = summary
      if what == "celer" then
        own[#own + 1] = summary
        for rank = 1, ranks - 1 do
          result.files = math.max(result.files, rows[rank + 1].files)
          result.sources = math.max(result.sources, rows[rank + 1].sources)
        end
      end
    end
  end
  if #own > 1 then
    result.messages_per_doubling = per_doubling(own[1], own[#own], "messages")
    result.peers_per_doubling = per_doubling(own[1], own[#own], "peers")
  end
  print(cjson.encode(result))
end

if arg and arg[0] and arg[0]:find("bench/start%.lua$") then
  local sizes = {}
  for i, word in ipairs(arg) do sizes[i] = assert(tonumber(word), "RANKS are numbers") end
  main(#sizes > 0 and sizes or { 4, 16, 64, 128 })
end

return M
