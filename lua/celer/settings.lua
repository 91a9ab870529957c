--- settings.lua -- options of a run, each with an environment variable.
local core = require "celer.core"
local nearest = require("celer.words").nearest
local tables = require "celer.tables"

local M = {}

local limits = core.facts.limit

--- NAME, value name, what it does, choices or check. One list: the options of
--- `celer run`, those of `celer check` but for the `unchecked`, the variables
--- CELER_<NAME> and the help come from it. Those that are `alike` are so on all ranks.
M.list = {
  { name = "backend", unchecked = true, value = "NAME",
    text = "cuda or cpu; by default cuda where there is a GPU",
    choices = { "cuda", "cpu" } },
  { name = "devices", value = "LIST",
    text = ("how many devices per rank, 1 to %d; or which GPUs of the host: 0,2"):format(
      limits.devices),
    devices = true },
  { name = "device-memory", unchecked = true, value = "SIZE",
    text = "how much memory of each of its devices a rank uses, such as 512M or 80G; "
      .. "by default what is free",
    bytes = true },
  { name = "transfers", unchecked = true, value = "HOW",
    text = "direct (the default): messages between GPUs go from one to the other where "
      .. "that works; staged: through the memory of their hosts; or between: those within "
      .. "a host as those between hosts",
    choices = { "direct", "staged", "between" } },
  { name = "between", unchecked = true, value = "HOW",
    text = "which way messages between GPUs of several hosts go, however short: staged, through "
      .. "pinned memory in chunks, as long ones do by default; nccl; or mpi, from GPU to GPU by "
      .. "an MPI library that can do that",
    choices = { "nccl", "mpi", "staged" } },
  { name = "no-collectives", unchecked = true, flag = true,
    text = "what all ranks exchange goes by messages between pairs of them" },
  { name = "no-bind", flag = true,
    text = "ranks that the launcher gave the same cores do not divide them" },
  { name = "log", value = "LEVEL",
    text = "error, warning (the default), info (a summary) or debug (tracebacks)",
    choices = { "error", "warning", "info", "debug" } },
  { name = "output", value = "WHICH",
    text = "whose print appears: master (the default) or all",
    choices = { "master", "all" } },
  { name = "horizon-step", alike = true, value = "N",
    text = "how often finished work is forgotten; leave it alone",
    number = { 1, 1000 } },
  { name = "fold", alike = true, unchecked = true, value = "N",
    text = ("take up to N tasks that follow each other, such as time steps, together, 1 to %d; "
      .. "1: none; by default as many as pay, see the guide"):format(limits.fold),
    number = { 1, limits.fold } },
  { name = "check-bounds", alike = true, unchecked = true, flag = true,
    text = "find kernels that touch what their mappers do not promise; slow" },
  { name = "check-nan", alike = true, unchecked = true, flag = true,
    text = "stop at the first task that makes a NaN or an infinity; slow" },
  { name = "no-sample", unchecked = true, flag = true,
    text = "do not check a few items of each kernel's first launches for what mappers promise" },
  { name = "dry-run", alike = true, unchecked = true, value = "N",
    text = "schedule as one of N ranks would, execute nothing, and report on it",
    number = { 1, 2 ^ 24 } },
  { name = "as-rank", unchecked = true, value = "K", text = "as which of them: 0 by default",
    number = { 0, 2 ^ 24 - 1 } },
  { name = "report", unchecked = true, value = "FILE",
    text = "the report of a dry run as JSON, too", file = true },
  { name = "watchdog", value = "SECONDS",
    text = "after how long in which nothing moves a rank says what it waits for; 0: never",
    number = { 0, 86400 } },
  { name = "lost", alike = true, value = "SECONDS",
    text = "a rank of which nothing is heard for so long, as its host or the network fails, "
      .. "is lost, and all ranks end; 120 by default; 0: they wait for ever",
    number = { 0, 86400 } },
  { name = "restarts", only = "run", unchecked = true, value = "N",
    text = "start again, N times at most, when a rank or its host was killed, or the network to "
      .. "it fails: on the hosts that are left, from the script's last checkpoint",
    number = { 0, 10000 } },
  { name = "launcher", only = "run", unchecked = true, value = "WORDS",
    text = "what starts the ranks of -n, such as 'mpirun --host a:4,b:4'; by default mpirun, or "
      .. "srun --mpi=pmix within Slurm", file = true, of = "a launcher" },
  { name = "arch", value = "LIST", only = "build",
    text = "for which machines: cpu, or GPUs such as sm_90,sm_100; by default for what "
      .. "a run would use here",
    architectures = true },
  { name = "advice", value = "WHETHER",
    text = "on (the default) or off: warnings of what makes a script slow",
    choices = { "on", "off" } },
  { name = "measure", unchecked = true, flag = true,
    text = "time kernels on GPUs for celer.rebalance from the start, not from its first call on" },
  { name = "profile", flag = true,
    text = "say at the end how long kernels, copies and tasks took" },
  { name = "progress", flag = true,
    text = "say how far the run has come; by default on a terminal, CELER_PROGRESS=0: never" },
  { name = "trace", value = "FILE", file = true,
    text = "write a timeline of tasks, kernels, copies and messages, for Perfetto" },
}

--- Seconds, of a script. A session waits for who types.
M.watchdog = 60

--- Seconds. More than a network takes to recover, or an overloaded host to answer, and
--- than the watchdog, which has said a word by then.
M.lost = 120

--- How many tasks are taken together at most that no hint speaks of; 0: as many as
--- engine/fold/depth.c says.
M.fold = 0

--- Whether kernels are compiled with checks.
M.check_bounds = false

--- Whether what tasks touch is noted: `celer check`.
M.check = false

--- Whether this is a session, where somebody looks at what each line does.
M.session = false

--- Whether what tasks read and write is looked through for NaNs.
M.check_nan = false

--- Whether either is so, and each submission is looked at.
M.looks = false

--- Whether a flag's value says yes.
---@param value string|boolean|nil
---@return boolean
function M.is_set(value) return value == true or value == "1" end

-- Variables that other parts read themselves.
local others = { CELER_CACHE = true, CELER_RESTARTED = true, CELER_TERMINAL = true }

local function variable(name)
  return "CELER_" .. name:upper():gsub("%-", "_")
end

--- How many devices a rank is to have, and which GPUs may be used: "2" is two
--- devices, "0,2" and "2," are lists. Nil for what is neither.
---@param value string?
---@return integer? devices, integer[]? list
function M.devices(value)
  if not value then return 0, {} end
  local n = tonumber(value:match("^%d+$"))
  if n then
    if n >= 1 and n <= limits.devices then return n, {} end
    return nil
  end
  local list = {}
  for word in (value:gsub(",$", "") .. ","):gmatch("([^,]*),") do
    list[#list + 1] = tonumber(word:match("^%d%d?$"))
    if not list[#list] or word ~= tostring(list[#list]) then return nil end
  end
  if #list == 0 or #list > limits.gpus_listed then return nil end
  return 0, list
end

local LEAST = 64 * 1024 -- of a device's memory
local units = { [""] = 0, K = 1, M = 2, G = 3, T = 4 }

--- How many bytes "512M" are; nil for what is no size, or too small.
---@param value string?
---@return number? bytes
function M.bytes(value)
  local digits, unit = (value or ""):match("^(%d+%.?%d*)([KMGT]?)$")
  local bytes = digits and math.floor(tonumber(digits) * 1024 ^ units[unit])
  return bytes and bytes >= LEAST and bytes < 2 ^ 53 and bytes or nil
end

--- The architectures of a list of GPUs: 90 for "sm_90"; none for "cpu". Nil for
--- what is neither.
---@param value string
---@return integer[]?
function M.architectures(value)
  local list = {}
  if value == "cpu" then return list end
  for word in (value .. ","):gmatch("([^,]*),") do
    list[#list + 1] = tonumber(word:match("^sm_(%d%d%d?)$"))
    if not list[#list] or word ~= "sm_" .. list[#list] then return nil end
  end
  return #list <= limits.architectures and list or nil
end

-- Why `value` does not do for `setting`, or nil.
local function fault(setting, value)
  if setting.flag then
    return value ~= true and value ~= "1" and value ~= "0" and "must be 0 or 1" or nil
  elseif setting.choices then
    for _, choice in ipairs(setting.choices) do
      if value == choice then return nil end
    end
    return ("must be %s"):format(table.concat(setting.choices, ", "))
  end
  if setting.devices then
    if M.devices(value) then return nil end
    return ("must be a whole number from 1 to %d, or a list of GPUs such as 0,2"):format(
      limits.devices)
  end
  if setting.bytes then
    return not M.bytes(value) and "must be a size from 64K on, such as 512M or 80G" or nil
  end
  if setting.architectures then
    return not M.architectures(value)
      and "must be cpu, or GPUs by their architecture such as sm_90,sm_100" or nil
  end
  if setting.file then
    return value == "" and ("must be the name of %s"):format(setting.of or "a file") or nil
  end
  local n, range = tonumber(value), setting.number
  if not n or n % 1 ~= 0 or n < range[1] or n > range[2] then
    return ("must be a whole number from %d to %d"):format(range[1], range[2])
  end
end

-- Why the settings of a dry run do not go together, or nil.
local function dry_fault(out)
  local ranks = tonumber(out["dry-run"])
  for _, name in ipairs { "as-rank", "report" } do
    if out[name] and not ranks then
      return ("--%s goes with --dry-run N"):format(name)
    end
  end
  if tonumber(out["as-rank"] or 0) >= (ranks or 1) then
    return ("--as-rank %s: the ranks of --dry-run %d are 0 to %d"):format(out["as-rank"],
      ranks, ranks - 1)
  end
end

--- Says which variables are none of celer's, and misspelt perhaps: a site may set
--- CELER_ROOT for purposes of its own.
function M.warn_of_unknown()
  local known, names = {}, {}
  for _, setting in ipairs(M.list) do known[variable(setting.name)] = true end
  for name in pairs(others) do known[name] = true end
  local prefix = #variable ""
  for name in tables.sorted_pairs(known) do names[#names + 1] = name:sub(prefix + 1) end
  for name in tables.sorted_pairs(core.environment "CELER_") do
    if not known[name] then
      local near = nearest(name:sub(prefix + 1), names)
      io.stderr:write(("celer: warning: %s is no variable of celer's, and ignored%s\n"):format(
        name, near and (", did you mean %s?"):format(variable(near)) or ""))
    end
  end
end

--- What a setting is for.
---@return string
function M.text_of(name)
  for _, setting in ipairs(M.list) do
    if setting.name == name then return setting.text end
  end
  error(name)
end

--- A setting's variable, if it is set.
---@return string?
function M.variable(name) return os.getenv(variable(name)) end

local spelled = {} -- of the settings resolved last: how they were given

--- A setting that is in force, and how it was given; or nil.
---@param resolved table<string, string>
---@return {value: string, spelled: string}?
function M.given(setting, resolved)
  local value = resolved[setting.name]
  if value == nil or setting.flag and not M.is_set(value) then return nil end
  return { value = tostring(setting.flag or value), spelled = spelled[setting.name] }
end

--- Settings from the options given (by name) over those of the environment;
--- nil and a message for what is wrong with either.
---@param given table<string, string>
---@return table<string, string>? settings, string? message
function M.resolve(given)
  local environment = core.environment "CELER_"
  local out = {}
  spelled = {}
  for _, setting in ipairs(M.list) do
    local name = setting.name
    local value = given[name]
    if not (M.check and setting.unchecked) then
      value = value or environment[variable(name)]
    end
    local why = value and fault(setting, value)
    if why then
      return nil, ("%s %s, not %q"):format(given[name] and "--" .. name
        or variable(name), why, value)
    end
    out[name] = value
    spelled[name] = given[name] == nil and ("%s=%s"):format(variable(name), tostring(value))
      or "--" .. name .. (setting.flag and "" or " " .. tostring(value))
  end
  M.check_bounds = M.is_set(out["check-bounds"])
  M.check_nan = M.is_set(out["check-nan"])
  M.looks = M.check or M.check_nan
  local _, list = M.devices(out.devices)
  if out.backend == "cpu" and #list > 0 then
    return nil, ("--devices %s names GPUs, and --backend is cpu; say how many "
      .. "devices, 1 to %d"):format(out.devices, limits.devices)
  end
  local fault_of_dry = dry_fault(out)
  if fault_of_dry then return nil, fault_of_dry end
  return out
end

return M
