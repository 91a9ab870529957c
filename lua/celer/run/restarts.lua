--- restarts.lua -- `celer run -n N --restarts M`: stands outside the launcher, and starts it
--- again when a rank was lost.
---
--- What is lost is what ended for no reason of its own: a rank that was killed, a host, the
--- network between hosts. An error of the script would come again, and ends the run. The
--- launcher's status tells, and what it and the ranks say on stderr, which passes through here.
---
--- Two runs must not share a folder. When all ranks have ended as their launcher says, the next
--- run starts at once. Ranks that it does not reach end by themselves, --lost seconds after they
--- hear nothing of the others: so much later it starts else.
local core = require "celer.core"
local launch = require "celer.run.launch"
local script = require "celer.run.script"
local settings = require "celer.settings"

local M = {}

local KILL, TERM, USR1, PIPE = 9, 15, 10, 13
local LOST = core.facts.exit.lost
-- Statuses of a rank that was killed, or told to end by somebody else, or that wrote to a rank
-- or daemon that is gone; and of an mpirun that has lost a host.
local losses = { [LOST] = true, [128 + KILL] = true, [128 + TERM] = true, [205] = true,
  [128 + USR1] = true, [128 + PIPE] = true }
-- A launcher that has a loss to report ends within so many seconds, or never; so does one that
-- is told to end.
local GRACE_S = 6
-- A rank that has come to its first line of celer takes SIGUSR1; others end by it. So long a run
-- is given to get there.
local START_S = 5
-- Of a network that falls apart, all parts end within so many seconds after the first.
local PARTS_S = 7

-- What is said of a loss: a pattern, its words, and how the others end: by their launcher, by
-- themselves at about this time (`told`), or --lost seconds later (`apart`). Before a time limit
-- all end when they have written their checkpoint, which takes as long as it takes (`asked`).
local signs = {
  { "celer: rank (%d+) on host (%S+) is lost: ", "rank %s on host %s was lost", "told" },
  { "noticed that process rank (%d+) with PID %d+ on node (%S+) exited on signal 9",
    "rank %s on host %s was killed", "launcher" },
  { "noticed that process rank (%d+) with PID %d+ on node (%S+) exited on signal 15",
    "rank %s on host %s was told to end", "launcher" },
  { "noticed that process rank (%d+) with PID %d+ on node (%S+) exited on signal 13",
    "rank %s on host %s lost its connection to another", "launcher" },
  { "noticed that process rank (%d+) with PID %d+ on node (%S+) exited on signal 10",
    "rank %s on host %s was ended by SIGUSR1 while it started", "launcher" },
  { "Remote daemon: %S+ on node (%S+)", "host %s was lost", "apart" },
  { "celer: told by SIGUSR1 to end", "the run was told to end by SIGUSR1", "asked" },
  { "srun: error: (%S+): tasks? (%S+): Killed", "host %s lost its task %s", "launcher" },
  { "srun: error: Node failure on (%S+)", "host %s was lost", "apart" },
}
-- Of several signs that counts by which the others end last.
local later = { asked = 1, launcher = 2, told = 3, apart = 4 }
-- What a rank says that ends by an error: launchers kill the others, which looks like a loss.
local ERROR = "the run is not started again"
-- Of a host that is gone, or that never was there: whether it answers tells.
local UNSTARTED = "unable to reliably start one or more daemons"

--- The same, where a script ends all ranks with a status of its own.
---@param status integer
function M.tell(status)
  if status ~= 0 and status ~= LOST and core.rank() == 0 and os.getenv "CELER_RESTARTED" then
    io.stderr:write(("celer: the script has ended with status %d: %s\n"):format(status, ERROR))
  end
end

---@class celer.outcome
---@field status integer
---@field told? integer  the signal by which this process is to end
---@field what? string  is lost
---@field ends? string  how the others end
---@field unstarted? boolean  a host may be gone
---@field failed? boolean  a rank ended by an error
---@field begun number
---@field asks? number  when ranks are asked for a checkpoint, next

-- Reads lines of what was said.
local function note(outcome, text)
  outcome.line = outcome.line .. text
  outcome.line = outcome.line:gsub("([^\n]*)\n", function(line)
    for _, sign in ipairs(signs) do
      local found = { line:match(sign[1]) }
      if found[1] then
        outcome.what = outcome.what or sign[2]:format(unpack(found))
        if later[sign[3]] > (later[outcome.ends] or 0) then outcome.ends = sign[3] end
        outcome.deadline = outcome.deadline or sign[3] ~= "asked" and core.time() + GRACE_S or nil
        break
      end
    end
    if line:find(UNSTARTED, 1, true) then outcome.unstarted = true end
    if line:find("celer: .*" .. ERROR) then outcome.failed = true end
    return ""
  end)
end

-- Waits for what comes next, and passes on what the child says; a signal, and whether there
-- was something.
local function relay(file, outcome, milliseconds)
  local kind, it = core.child_await(outcome.closed and -1 or file, milliseconds)
  if kind ~= "text" then return kind == "signal" and it or nil, false end
  if it == "" then outcome.closed = true end
  io.stderr:write(it)
  note(outcome, it)
  return nil, it ~= ""
end

-- Asks the ranks for a checkpoint, and again later: some may not have come to listen.
local function ask(child, outcome)
  core.child_kill(child, USR1)
  outcome.patience = 2 * (outcome.patience or 1)
  outcome.asks = core.time() + outcome.patience
end

-- A signal that this process gets.
local function pass_on(signal, child, outcome, launched)
  if signal == USR1 then
    outcome.asks = math.max(outcome.begun + START_S, core.time())
  elseif launch.ends(signal) then
    outcome.deadline = core.time() + (outcome.told and 0 or GRACE_S)
    outcome.told = outcome.told or signal
    core.child_kill(child, launched and TERM or signal)
  end
end

-- What was lost where nobody has said so; it may be nothing.
local function conclude(outcome, killed, launcher)
  local alone, told = false, nil
  if launcher and (killed or outcome.signal ~= 0) then alone, told = launch.end_rest(launcher) end
  outcome.told = outcome.told or told
  if outcome.failed then
    outcome.what = nil
  elseif outcome.signal == PIPE or not launcher and outcome.status == 128 + PIPE then
    outcome.what = nil -- nobody reads what we print
  elseif not outcome.what and outcome.signal ~= 0 and losses[outcome.status] then
    outcome.what = launcher and "the launcher was killed" or "the run was killed"
    outcome.ends = launcher and not alone and "apart" or "launcher"
  elseif not outcome.what and losses[outcome.status] then
    outcome.what = ("a rank was lost (status %d)"):format(outcome.status)
    outcome.ends = outcome.status == LOST and "told" or outcome.status == 205 and "apart"
      or "launcher"
  elseif killed and not alone and outcome.ends == "launcher" then
    outcome.ends = "apart"
  end
end

-- Runs it once; `asked`: for a checkpoint, before it has begun.
---@return celer.outcome
local function run_once(words, variables, launcher, asked)
  local child, file = core.child_start(words, variables, launcher and "heard" or nil)
  if not child then error(("cannot start %s: %s"):format(words[1], file), 0) end
  local begun, killed = core.time(), false
  local outcome = { line = "", begun = begun, asks = asked and begun + START_S or nil }
  repeat
    local deadline = not killed and outcome.deadline
    local till = math.min(deadline or math.huge, outcome.asks or math.huge)
    local left = math.max(0, till - core.time())
    local signal = relay(file, outcome, till < math.huge and math.ceil(left * 1000) or -1)
    if signal then pass_on(signal, child, outcome, launcher ~= nil) end
    if outcome.asks and core.time() >= outcome.asks then ask(child, outcome) end
    if deadline and core.time() >= deadline then
      killed = true
      launch.kill(child)
    end
    outcome.status, outcome.signal = core.child_ended(child)
  until outcome.status
  launch.kill(child)
  repeat -- what it said last, and who has told both of us to end
    local signal, more = relay(file, outcome, 0)
    if signal and launch.ends(signal) then outcome.told = outcome.told or signal end
  until not signal and not more
  core.child_close(file)
  conclude(outcome, killed, launcher)
  return outcome
end

-- How long until the others have ended by themselves.
local function patience(outcome, lost)
  local seconds = { told = PARTS_S, apart = PARTS_S + lost }
  return seconds[outcome.ends] or 0
end

local function say(text, ...)
  io.stderr:write("celer: ", text:format(...), "\n")
end

-- Waits; the signal by which this process is to end, if it comes.
local function pause(seconds)
  local till = core.time() + seconds
  repeat
    local kind, signal = core.child_await(-1, math.max(0, math.ceil((till - core.time()) * 1000)))
    if kind == "signal" and launch.ends(signal) then return signal end
    if signal == USR1 then say "SIGUSR1 has come while nothing runs: what there is is kept" end
  until core.time() >= till
end

-- In a batch script of Slurm, which is started again as a whole, where hosts are well.
local function in_batch()
  return os.getenv "ENVIRONMENT" == "BATCH" and os.getenv "SLURM_JOB_ID"
end

-- The signal by which Slurm ends this process, once it has taken the job back; nil: it does not.
-- It ends scontrol likewise, which may not have come to its end.
local function requeue(job)
  local child = core.child_start({ "scontrol", "requeue", job }, {})
  local status, number, told
  while child and not status do
    local kind, signal = core.child_await(-1, -1)
    told = told or kind == "signal" and launch.ends(signal) and signal
    status, number = core.child_ended(child)
  end
  if told then return told end
  return child and (status == 0 or number ~= 0) and pause(600) or nil
end

local function left_text(n)
  return n == 0 and "no restart is left" or n == 1 and "1 restart is left"
    or ("%d restarts are left"):format(n)
end

-- Where it goes on, if that is not where it was.
local function where_text(launcher, alive)
  local names = launch.others(launcher and launcher.hosts, alive)
  if names == "" then return "" end
  local ranks = launch.ranks_on(launcher, alive)
  return (" without %s%s"):format(names, ranks and (", on %d rank%s"):format(ranks,
    ranks == 1 and "" or "s") or "")
end

-- How often hosts are asked of which none answers, and how many seconds later.
local ASKED, PAUSE_S = 3, 5

-- The launcher's hosts that answer. If none does, it may be this host that is held up, or cut off
-- from all others for a while.
local function ask_hosts(launcher)
  local alive, signal = launch.alive(launcher)
  for _ = 2, ASKED do
    if signal or not alive or #alive > 0 then break end
    signal = pause(PAUSE_S)
    if signal then return nil, signal end
    alive, signal = launch.alive(launcher)
  end
  return alive, signal
end

-- The hosts that are left; or nil, and the signal by which this process is to end. If a host is
-- not left, that may be what was lost.
local function look_at_hosts(outcome, launcher)
  local alive, signal
  if launcher then alive, signal = ask_hosts(launcher) end
  if signal then return nil, signal end
  local names = launch.others(launcher and launcher.hosts, alive)
  if outcome.unstarted and not outcome.what and alive and #alive > 0 then
    outcome.what, outcome.ends = names ~= "" and ("host %s does not answer"):format(names)
      or "a host did not answer", "apart"
  end
  return alive
end

---@class celer.job
---@field program string[]
---@field launcher? celer.launcher
---@field restarts integer
---@field lost number  seconds

-- Whether it is to be started again; then, on which hosts. Says so, and waits.
local function goes_on(job, outcome, used, done)
  if outcome.told then return false, 128 + outcome.told end
  if outcome.status == 0 or not (outcome.what or outcome.unstarted) then
    return false, outcome.status
  end
  if job.restarts == 0 then return false, outcome.status end
  local since = core.time()
  local alive, told = look_at_hosts(outcome, job.launcher)
  if told then return false, 128 + told end
  if not outcome.what then return false, outcome.status end
  local left, batch = job.restarts - used - done, in_batch()
  if left <= 0 or alive and #alive == 0 then
    say("%s, and %s", outcome.what, left <= 0 and ("no restart is left of --restarts %d"):format(
      job.restarts) or "no host answers")
    return false, LOST
  end
  local wait = math.max(0, math.ceil(since + patience(outcome, job.lost) - core.time()))
  say("%s; the run goes on from its last checkpoint%s%s; %s", outcome.what,
    batch and " once Slurm starts the job again" or where_text(job.launcher, alive),
    wait > 0 and (", in %d s, when ranks that are cut off have ended"):format(wait) or "",
    left_text(left - 1))
  local signal = pause(wait) or batch and requeue(batch)
  if signal then return false, batch and signal == TERM and LOST or 128 + signal end
  return true, alive
end

-- The words of one rank: those of this process without what is for this process.
local function program_of(text, own, rest)
  local out, i = { launch.self() }, 1
  local mine = { ["-n"] = true, ["--restarts"] = true, ["--launcher"] = true }
  while own[i] do
    if mine[own[i]] then i = i + 1
    elseif not own[i]:find "^%-n%d" and not mine[own[i]:match "^(%-%-%a+)="] then
      out[#out + 1] = own[i]
    end
    i = i + 1
  end
  if text then
    out[#out + 1], out[#out + 2] = "-e", text
  end
  for _, word in ipairs(rest) do out[#out + 1] = word end
  return out
end

-- Why a run cannot be started again, or nil.
local function obstacle(path, text, lost)
  if path == "-" and not text then
    return "--restarts needs a script in a file: stdin can be read but once"
  elseif lost == 0 then
    return "--restarts needs --lost of 1 s or more: ranks that are cut off would never end"
  end
  local named, message = script.names_checkpoint(path, text)
  if message then return message end
  return not named and ("--restarts: %s makes no checkpoint that the run could go on from; see "
    .. "celer help checkpoints"):format(path) or nil
end

--- Whether `celer run` is to start the run, and not to be it. What a launcher has started is it.
---@param options table<string, string>
function M.asked(options)
  local by = core.launcher()
  return options.ranks or options.launcher or options.restarts
    or not by and settings.variable "restarts"
end

--- Runs what `celer run` was asked for, to its end.
---@param options table<string, any>
---@param path? string
---@param text? string  in place of a file
---@param own string[]  celer's words
---@param rest string[]  the script's
---@return integer? status, string? message
function M.begin(options, path, text, own, rest)
  if core.launcher() then
    return nil, ("celer starts the launcher where it is asked for %s, and is not started by it: "
      .. "celer run -n RANKS --launcher '%s ...' script.lua"):format(options.ranks and "-n"
      or options.restarts and "--restarts" or "--launcher", core.launcher())
  elseif options.i or not path then
    return nil, options.i and "a session starts no ranks: leave out -n, --restarts and -i"
      or "which script? see celer run --help"
  end
  core.child_catch()
  local resolved, message = settings.resolve(options)
  if not resolved then return nil, message end
  local job = { restarts = tonumber(resolved.restarts) or 0,
    lost = tonumber(resolved.lost) or settings.lost, program = program_of(text, own, rest) }
  message = job.restarts > 0 and obstacle(path, text, job.lost)
  if message then return nil, message end
  if options.ranks or options.launcher then
    job.launcher, message = launch.find(resolved.launcher, options.ranks)
    if not job.launcher then return nil, message end
  end
  return M.run(job)
end

--- Runs a job until it ends for a reason of its own, or too often.
---@param job celer.job
---@return integer status
function M.run(job)
  local used = in_batch() and tonumber(os.getenv "SLURM_RESTART_COUNT") or 0
  local alive, asked
  for done = 0, math.huge do
    local variables = { SLURM_KILL_BAD_EXIT = "1", CELER_RESTARTS = false, CELER_LAUNCHER = false,
      CELER_RESTARTED = job.restarts > 0 and tostring(used + done) }
    local words = job.launcher and launch.words(job.launcher, job.program, variables, alive)
      or job.program
    local outcome = run_once(words, variables, job.launcher, asked)
    local again, result = goes_on(job, outcome, used, done)
    if not again and job.launcher then launch.explain(job.launcher, result) end
    if not again then return result end
    alive, asked = result, outcome.asks and outcome.ends ~= "asked"
  end
end

return M
