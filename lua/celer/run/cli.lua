--- cli.lua -- the celer command.
require("celer.walk").install()
local argparse = require "celer.argparse"
local checking = require "celer.tools.check"
local core = require "celer.core"
local output = require "celer.run.output"
local place = require "celer.place"
local restarts = require "celer.run.restarts"
local session_start = require "celer.repl.start"
local settings = require "celer.settings"
local started = require "celer.run.started"
local each = require("celer.tables").each

local M = {}

-- Ends with a message about how celer was called. Rank 0 prints it; another rank
-- may be the only one that was called so, and raises it, unless it is `shared`.
local function usage(message, shared)
  if core.rank() == 0 then
    io.stderr:write("celer: ", message, "\n")
  elseif not shared then
    error(message, 0)
  end
  return 2
end

local commands = { help = true } -- their names

local function add_command(parser, name, text)
  commands[name] = true
  return parser:command(name, text):add_help { description = "show this help and exit" }
end

local function count(text)
  local n = tonumber(text)
  if n and n >= 1 and n % 1 == 0 and n <= 2 ^ 24 then return n end
  return nil, ("-n must be a whole number of ranks from 1 on, not %q"):format(text)
end

local function add_ranks(parser)
  parser:option("-n", "start as many ranks, by a launcher (see --launcher)"):target("ranks")
    :argname("RANKS"):convert(count)
end

-- A command that takes a script.
local function add_script(parser, name, text)
  local command = add_command(parser, name, text)
    :usage(("Usage: celer %s [options] script.lua [args...]\n"):format(name)
      .. ("       celer %s [options] -e TEXT [args...]"):format(name))
  command:argument("script", "a Lua file; - is what stdin gives"):args("?")
  command:argument("args", "what the script finds in `arg`"):args("*")
  for _, setting in ipairs(settings.list) do
    if (not setting.only or setting.only == name)
      and not (name == "check" and setting.unchecked) then
      local option = setting.flag and command:flag("--" .. setting.name, setting.text)
        or command:option("--" .. setting.name, setting.text):argname(setting.value)
      option:target(setting.name)
    end
  end
  command:option("-e", "run this text instead of a file"):argname("TEXT")
  if name == "run" then
    add_ranks(command)
    command:flag("-i", "then begin a session with what the script leaves in global variables")
  end
end

local function days(text)
  local n = tonumber(text)
  if n and n >= 0 and n < math.huge then return n end
  return nil, ("--days must be a number of at least 0, not %q"):format(text)
end

local EPILOG = "`celer run --help` lists the options of a run; they stand before the script. "
  .. "Each has an environment variable, CELER_DEVICES for --devices. `celer -e TEXT` runs "
  .. "a text, celer alone begins a session. Under mpirun or srun every rank runs the same."

local function build_parser()
  local parser = argparse("celer", "One Lua script, from a laptop to a cluster.", EPILOG)
    :usage("Usage: celer <command> [options] ...")
    :require_command(false)
    :help_max_width(80)
    :add_help { description = "show this help and exit" }
    :add_help_command { description = "the same as celer <command> --help; celer help "
      .. "buffer tells of celer.buffer, celer help 'cg:read' of a method, and celer help "
      .. "'range mappers' is a chapter of the guide" }
  parser:flag("-v --version", "print the version and exit")
  add_script(parser, "run", "run a script")
  add_script(parser, "check", "run a script on the processor, and compare what its "
    .. "tasks touch with what they declare; slow")
  add_script(parser, "build", "compile all kernels of a script ahead")
  require("celer.tools.graph").add_options(add_command(parser, "graph",
    "draw one of the graphs of a script"))
  add_command(parser, "info", "what celer finds on this machine")
    :flag("--report", "and what else to send with a report of a fault: systems, limits, "
      .. "networks, libraries and variables of all hosts"):target "whole"
  local cache = add_command(parser, "cache", "the compiled kernels on this machine")
    :usage "Usage: celer cache [list | size | prune [--days N] | clear]"
  cache:argument("action", "list (the default), size, prune: remove what was not used "
    .. "for long, or clear: remove all"):args("?")
    :choices { "list", "size", "prune", "clear" }
  cache:option("--days", "how long that is for prune; 30 by default"):argname("N")
    :convert(days):default("30"):show_default(false)
  add_command(parser, "types", "what editors know of celer: declarations, on stdout")
  local repl = add_command(parser, "repl", "an interactive session; on several ranks each "
    .. "runs all lines")
    :usage "Usage: celer repl [-n RANKS] [--launcher WORDS]"
  add_ranks(repl)
  repl:option("--launcher", settings.text_of "launcher"):argname("WORDS")
  return parser
end

-- The commands that run a script.
local scripted = { run = true, check = true, build = true }

-- Splits their words so that all after the script's name, or after the text that is
-- run, are the script's: celer's own, the script's, and the text.
local function split_script(words)
  local takes = { ["-n"] = true }
  for _, setting in ipairs(settings.list) do
    takes["--" .. setting.name] = not setting.flag
  end
  for i = 2, #words do
    local word = words[i]
    if word == "-e" and words[i + 1] then
      return { unpack(words, 1, i - 1) }, { unpack(words, i + 2) }, words[i + 1]
    end
    if word == "--" then return { unpack(words, 1, i + 1) }, { unpack(words, i + 2) } end
    if word == "-" or (word:sub(1, 1) ~= "-" and not takes[words[i - 1]]) then
      return { unpack(words, 1, i) }, { unpack(words, i + 1) }
    end
  end
  return words, {}
end

-- celer help, with words that are no command, or with none.
local function explain(words, parser)
  if core.rank() ~= 0 then return 0 end
  local help, known, advised = require "celer.repl.help", true, false
  if words[2] then known, advised = help.of_words(table.concat(words, " ", 2))
  else print(parser:get_help()) end
  if not words[2] or (known == false and not advised) then
    print("\nChapters of the guides, which celer help 'WORDS' shows:\n\n" .. help.chapters())
  end
  return known == false and 1 or 0
end

-- What may help where the words could not be parsed.
local function hint(words)
  local word = words[1] or ""
  for _, setting in ipairs(settings.list) do
    local given = setting.only and setting.only ~= word and "--" .. setting.name
    for _, one in ipairs(given and words or {}) do
      if one:match("^[^=]*") == given then
        return ("it goes with celer %s"):format(setting.only)
      end
    end
  end
  if commands[word] then return ("see celer %s --help"):format(word) end
  for _, setting in ipairs(settings.list) do
    if word:match("^[^=]*") == "--" .. setting.name then
      return ("it goes behind the command: celer run %s"):format(word)
    end
  end
  if word:find("%.lua$") then return ("did you mean celer run %s?"):format(word) end
  return "see celer --help"
end

local function advise(message, words)
  local what, meant = message:match("^(.*)\nDid you mean (.*%?)$")
  if what then return ("%s, did you mean %s"):format(what, meant) end
  return ("%s; %s"):format(message:gsub("\n", " "), hint(words))
end

-- Whether a line says how far the run has come, and whether somebody asked for it.
local function progress_of(resolved)
  local asked = resolved.progress and settings.is_set(resolved.progress)
  local quiet = resolved.drawing or resolved.builds or resolved.log == "error"
  return asked or (resolved.progress == nil and not quiet and core.watched()), asked
end

-- By which way messages between hosts are to go, as core.configure takes it.
local BETWEEN = { staged = 1, mpi = 2, nccl = 3 }

-- `several`: a session of several ranks, which lines may leave in the middle of messages:
-- only those by MPI can be forgotten.
local function configure(resolved, arguments, interactive, forgiving, several)
  local devices, list = settings.devices(resolved.devices)
  settings.session = forgiving
  settings.fold = tonumber(resolved.fold) or settings.fold
  if settings.check then devices = devices > 0 and devices or checking.devices end
  -- What is looked through after each task keeps no device busy.
  local advice = resolved.advice ~= "off" and not settings.check_nan
  place.check(core.configure { check = settings.check, advice = advice,
    backend = resolved.backend, devices = devices, list = list,
    horizon_step = tonumber(resolved["horizon-step"]),
    device_memory = settings.bytes(resolved["device-memory"]),
    staged = resolved.transfers == "staged" or several,
    apart = resolved.transfers == "between", between = BETWEEN[resolved.between],
    interactive = interactive, forgiving = forgiving,
    no_collectives = settings.is_set(resolved["no-collectives"]) or several,
    no_bind = settings.is_set(resolved["no-bind"]),
    measure = settings.is_set(resolved.measure), builds = resolved.builds,
    no_sample = settings.is_set(resolved["no-sample"]),
    arguments = table.concat(arguments, " "),
    architectures = resolved.arch and settings.architectures(resolved.arch),
    watchdog = tonumber(resolved.watchdog) or ((interactive or several) and 0 or settings.watchdog),
    lost = tonumber(resolved.lost) or settings.lost,
    progress = not forgiving and progress_of(resolved),
    profile = settings.is_set(resolved.profile), quiet = resolved.log == "error",
    verbose = resolved.log == "info" or resolved.log == "debug" })
  output.install(resolved.output or "master", core.rank())
end

-- With `--log debug` an error shows how the driver came there.
local function with_traceback(chunk)
  local ok, failure = xpcall(chunk,
    function(failure) return debug.traceback(core.failure(failure).message, 2) end)
  if not ok then error({ message = failure }, 0) end
end

-- What is said once all has been executed.
local function finish(resolved)
  require("celer.submit.queue").finish()
  if resolved.drawn then
    resolved.drawn()
    return 0
  end
  local _, asked = progress_of(resolved)
  core.progress_end()
  if asked or resolved.log == "info" or resolved.log == "debug" then
    require("celer.run.progress").write_summary()
  end
  require("celer.tools.profile").write(resolved.output)
  if resolved.builds then require("celer.tools.build").write()
  else require("celer.tools.dry").write(resolved.report) end
  return settings.check and checking.finish() or 0
end

-- os.exit on all ranks: what was submitted is executed first, then every rank
-- leaves MPI with the others.
local function install_exit(resolved)
  function os.exit(code) -- luacheck: ignore
    local status = code == nil and 0 or code == true and 0 or code == false and 1
      or tonumber(code) or 1
    local found = finish(resolved)
    if status == 0 then status = found end
    if status == 0 then output.check() end
    restarts.tell(status)
    core.exit(status)
  end
end

-- What is written or drawn while the run goes on.
local function watch(resolved)
  if resolved.drawing then
    resolved.drawn = require("celer.tools.graph").begin(resolved.drawing)
  end
  if resolved.trace then place.check(core.trace(resolved.trace)) end
end

-- The script of a dry run, or of one that draws. A script that checks what it has
-- captured fails, mostly at its end: what it did until then is told all the same.
local function run_dry(chunk, resolved)
  local ok, failure = xpcall(chunk, core.failure)
  if ok then return finish(resolved) end
  local explained, captured = require("celer.tools.dry").explain(failure)
  if not captured then error(explained, 0) end
  io.stdout:flush()
  io.stderr:write("celer: ", explained.message, "\n")
  finish(resolved)
  return 1
end

-- The script as a function of nothing.
local function load_script(path, arguments, text)
  local chunk, message = require("celer.run.script").load(path, text)
  if not chunk then error({ message = message }, 0) end
  if text then celer = require "celer" end -- luacheck: ignore
  arguments[0] = path
  arg = arguments -- luacheck: ignore
  return function() return chunk(unpack(arguments)) end
end

local function run(path, arguments, resolved, text)
  local chunk = load_script(path, arguments, text)
  install_exit(resolved)
  local ranks = tonumber(resolved["dry-run"])
  if ranks then
    place.check(core.imagine(tonumber(resolved["as-rank"] or 0), ranks))
  end
  watch(resolved)
  local function all()
    if resolved.log == "debug" then with_traceback(chunk)
    elseif core.dry() then return run_dry(chunk, resolved)
    else chunk() end
    return finish(resolved)
  end
  return settings.check and checking.guard(all) or all()
end

-- A session, which a script may come before.
local function interact(resolved, person, chunk)
  install_exit(resolved)
  watch(resolved)
  arg = arg or {} -- luacheck: ignore
  local status = require("celer.repl.session").run(person, chunk)
  require("celer.tools.profile").write(resolved.output)
  return status
end

-- Why there is no GPU, where one was asked for; or "".
local function no_gpu(resolved)
  local _, list = settings.devices(resolved.devices)
  local asks = resolved.backend == "cuda" or #list > 0
  if not asks or resolved["dry-run"] then return "" end
  local gpus, why = core.gpu_count()
  return gpus > 0 and "" or ("%s asks for a GPU: %s"):format(resolved.backend
    and "--backend cuda" or "--devices " .. resolved.devices, why)
end

-- What keeps this rank from going on beside the others: a message, and whether all
-- ranks have it. What rank 0 lacks ends all of them; where only another rank lacks a
-- GPU, that rank says so when it starts.
local function obstacle(command, script, text, resolved)
  local mine = started.of(command, script, text, resolved)
  if resolved and core.rank() == 0 then mine.failed = no_gpu(resolved) end
  local first, message = started.compare(mine)
  if first.failed ~= "" then return first.failed, true end
  return message
end

local function write_gpu(ordinal)
  local gpu, message = core.gpu(ordinal)
  if not gpu then
    io.write(("gpu %-4d %s\n"):format(ordinal, message))
    return
  end
  local peers = #gpu.peers > 0
    and ", reaches the memory of " .. table.concat(gpu.peers, " ") or ""
  io.write(("gpu %-4d %s, sm_%d%d, %.1f GiB, %s%s\n"):format(ordinal, gpu.name,
    gpu.major, gpu.minor, gpu.memory / 2 ^ 30, gpu.bus, peers))
end

-- What `celer run` would compute on, as options and environment have it.
local function write_devices(backend, devices, list, why, i)
  local gpus, none = core.gpu_count()
  if not backend then
    io.write(("devices  %s\n"):format(devices)) -- the message
  elseif backend == "cuda" then
    io.write(("devices  gpu %s; the processor by --backend cpu\n"):format(
      table.concat(list, ", ")))
  else
    io.write(("devices  %d, the processor%s\n"):format(devices,
      gpus > 0 and why ~= "" and "; no GPU is used: " .. why or ""))
  end
  for ordinal = 0, gpus - 1 do write_gpu(ordinal) end
  if gpus == 0 then io.write(("gpus     none: %s\n"):format(none))
  else io.write(("driver   %s\n"):format(i.driver)) end
  io.write(("nvrtc    %s\n"):format(i.nvrtc))
end

-- Why messages do not go from GPU to GPU within a host, why long ones are copied
-- once more, and why others go whole, or from how many bytes on they do not, and by which
-- way (BETWEEN): nil where there are no others; nil where there are no GPUs. Called by all
-- ranks: one that cannot say ends the job, as others wait.
local function find_staging(backend, message)
  if select(2, core.rank()) == 1 then return nil end
  if not backend then error(message, 0) end
  local link, loans, road, between = core.staging()
  if not link and loans then error(loans, 0) end
  return link, loans, road, between
end

local WAYS = {
  [0] = "by the memory of their hosts, in chunks that overlap, from %d bytes on",
  "by the memory of their hosts, in chunks that overlap", "from GPU to GPU by MPI",
  "from GPU to GPU by NCCL",
}

local function write_messages(no_link, no_loans, road, between)
  if not no_link then return end
  local by_link = no_link == "" and "from GPU to GPU"
    .. (no_loans == "" and "" or ", long ones copied once more: " .. no_loans)
  io.write(("messages within a host: %s\n"):format(by_link or "by its memory: " .. no_link))
  if not road then return end
  io.write(("         others: %s\n"):format(tonumber(road) and WAYS[between]:format(road)
    or "by the memory of their hosts: " .. road))
end

local PAIRS = { [0] = "in chunks", "by MPI, from GPU to GPU", "by NCCL, from GPU to GPU" }

-- Between one rank of each host, of the first eight.
local function write_pairs(pairs_of)
  for _, pair in ipairs(pairs_of) do
    io.write(("         ranks %d and %d: %s, %.3g GB/s\n"):format(pair.from, pair.to,
      PAIRS[pair.way], pair.rate))
  end
end

-- What all ranks exchange, between GPUs; why not by NCCL: nil where there are none.
local function write_joining(no_nccl, by_messages)
  if not no_nccl then return end
  io.write(("collectives %s\n"):format(no_nccl == "" and "by NCCL, from GPU to GPU"
    or (by_messages and "by messages: " or "by MPI, in host memory: ") .. no_nccl))
end

-- Kernels on the processor have cores of their own all the same.
local function write_cores(i)
  io.write(("cores    %s of this host's %s %s%s\n"):format(i.cores or "?", i.host_cores or "?",
    i.keeps_to_none and "are for this rank's kernels; its other threads keep to none (--no-bind)"
    or "belong to this rank", i.bound and " (bound by the launcher)" or ""))
end

local function write_info(backend, devices, list, why)
  local i = core.info()
  io.write(("celer    %s (%s)\n"):format(core.version(), jit.version))
  if not i.knows_code then
    io.write("groups   the long way: where this LuaJIT keeps the code of a function is not known\n")
  end
  io.write(("cpu      %s\n"):format(i.cpu))
  write_cores(i)
  write_devices(backend, devices, list, why, i)
  return i
end

-- Collective over all ranks. `whole`: with what a report of a fault needs.
local function info(whole)
  local backend, devices, list, why = core.devices() -- of all ranks of a host
  local no_link, no_loans, road, between = find_staging(backend, devices)
  local no_nccl, by_messages, measured
  if no_link then measured = place.check(core.pairs()) end
  if no_link then no_nccl, by_messages = core.joining() end
  local rank, ranks = core.rank()
  if rank == 0 then
    local i = write_info(backend, devices, list, why)
    write_messages(no_link, no_loans, road, between)
    write_pairs(measured or {})
    write_joining(no_nccl, by_messages)
    io.write(("compiler %s\n"):format(i.compiler))
    io.write(("cache    %s\n"):format(i.cache))
    io.write(("mpi      %s\n"):format(i.mpi))
    io.write(("ranks    %d, %s\n"):format(ranks, i.transport == "single"
      and "without a launcher" or "by " .. i.transport))
  end
  if whole then require("celer.tools.report").write() end
  return 0
end

-- What is to be run; nil: nothing, but a session perhaps. What comes with no word at
-- all, and is not typed by a person, is a script, as with Lua itself.
local function script_of(words, options, text)
  if text then return "(command line)" end
  if options.script then return options.script end
  local _, ranks = core.rank()
  return #words == 0 and ranks == 1 and not core.terminal() and "-" or nil
end

-- What was asked for by options and environment; nil, a message for what is wrong
-- with that, and whether all ranks have it.
local function resolve(options, command, script, text)
  local drawing, fault
  if options.graph then drawing, fault = require("celer.tools.graph").resolve(options) end
  if fault then return nil, fault end
  if options.build then options["dry-run"] = options["dry-run"] or "1" end
  settings.check = options.check == true
  if options.check then options.backend = "cpu" end
  local resolved, message = settings.resolve(options)
  if resolved and options.build then
    resolved, message = require("celer.tools.build").prepare(resolved)
  end
  if not resolved then return nil, message end
  if core.rank() == 0 and resolved.log ~= "error" then settings.warn_of_unknown() end
  resolved.builds, resolved.drawing = options.build, drawing
  local fault_here, shared = obstacle(command, script, text, resolved)
  if fault_here then return nil, fault_here, shared end
  return resolved
end

-- Commands that need nothing of the machine, by name.
local plain = {
  ["--version"] = function()
    if core.rank() == 0 then print("celer " .. core.version()) end
    return 0
  end,
  cache = function(options)
    return require("celer.tools.cache").run(options.action or "list", options.days)
  end,
  types = function() return require("celer.tools.definitions").run() end,
}

-- The name of the command that was parsed.
local function command_of(options)
  if options.version then return "--version" end
  for name in each(commands) do
    if options[name] then return name end
  end
  return "repl"
end

-- The command, to its end.
local function command(words)
  local parser = build_parser()
  local topic = words[2] or ""
  if words[1] == "help" and not commands[topic] and topic:sub(1, 1) ~= "-" then
    local message = obstacle "help"
    return message and usage(message) or explain(words, parser)
  end
  if words[1] == "-e" then table.insert(words, 1, "run") end
  local own, rest, text = words, {}, nil
  if scripted[words[1]] then own, rest, text = split_script(words) end
  local ok, options = parser:pparse({ unpack(own) })
  if not ok then return usage(advise(options, words)) end
  local name = command_of(options)
  if plain[name] then
    local message = obstacle(name)
    return message and usage(message) or plain[name](options)
  end
  local path = script_of(words, options, text)
  if options.run and restarts.asked(options) then
    local status, message = restarts.begin(options, path, text, own, rest)
    return status or usage(message)
  end
  if options.repl and session_start.asked(options) then
    local status, message = session_start.begin(options)
    return status or usage(message)
  end
  local resolved, message, shared = resolve(options, name, path, text)
  if not resolved then return usage(message, shared) end
  if not path and (options.run or options.check or options.build) then
    return usage(("which script? see celer %s --help"):format(words[1]))
  end
  local interactive = options.i or not path
  if interactive then session_start.take_terminal() end
  local person = interactive and not options.info and core.terminal()
  local arguments = options.graph and options.args or rest
  local several = interactive and not options.info and select(2, core.rank()) > 1
  configure(resolved, arguments, person, interactive, several)
  if not interactive then
    return run(path, arguments, resolved, text)
  elseif options.info then
    return info(options.whole)
  end
  if resolved["dry-run"] then
    return usage("a session computes, and a dry run does not: leave out --dry-run, and unset "
      .. "CELER_DRY_RUN")
  end
  return interact(resolved, person, path and load_script(path, rest, text))
end

--- The command with `words` as given to main.
---@param words table<integer, string>
---@return integer status
function M.main(words)
  output.install("master", core.rank())
  -- The parser's, where it was asked for help.
  function os.exit() -- luacheck: ignore
    local fault = obstacle "help" or core.flush()
    if fault then io.stderr:write("celer: ", fault, "\n") end
    core.exit(fault and 1 or 0)
  end
  local status = command(words)
  if status == 0 then output.check() end
  return status
end

return M
