--- cli.lua -- the celer command.
local argparse = require "argparse"
local core = require "celer.core"
local settings = require "celer.settings"

local M = {}

-- Ends with a message about how celer was called; printed by rank 0 alone.
local function usage(message)
  if core.rank() == 0 then
    io.stderr:write("celer: ", message, "\n")
  end
  return 2
end

local function build_parser()
  local parser = argparse("celer", "One Lua script, from a laptop to a cluster.")
    :require_command(false)
    :add_help_command(false)
  parser:flag("-v --version", "print the version and exit")
  local run = parser:command("run", "run a script")
  run:argument("script", "a Lua file"):args(1)
  run:argument("args", "what the script finds in `arg`"):args("*")
  for _, setting in ipairs(settings.list) do
    run:option("--" .. setting.name, setting.text):argname(setting.value)
  end
  parser:command("info", "what celer finds on this machine")
  parser:command("repl", "an interactive session (also: celer alone)")
  return parser
end

-- Splits `run`'s words so that all after the script's name are the script's.
local function split_script(words)
  local takes = {}
  for _, setting in ipairs(settings.list) do takes["--" .. setting.name] = true end
  for i = 2, #words do
    local word = words[i]
    if word == "--" then return { unpack(words, 1, i + 1) }, { unpack(words, i + 2) } end
    if word:sub(1, 1) ~= "-" and not takes[words[i - 1]] then
      return { unpack(words, 1, i) }, { unpack(words, i + 1) }
    end
  end
  return words, {}
end

local function configure(resolved, interactive)
  core.configure { devices = tonumber(resolved.devices),
    horizon_step = tonumber(resolved["horizon-step"]),
    quiet = resolved.log == "error", interactive = interactive }
  require("celer.output").install(resolved.output or "master", core.rank())
end

-- What `--log info` adds at the end, from rank 0.
local function summary()
  local c, rank, ranks = core.counts(), core.rank()
  if not c or rank ~= 0 then return end
  io.stderr:write(("celer: rank 0 of %d: %d tasks, %d instructions, %d messages "
    .. "with %d bytes, %d copies with %d bytes, %d allocations\n"):format(ranks,
    c.tasks, c.instructions, c.messages, c.bytes_sent, c.copies, c.bytes_copied,
    c.allocations))
end

-- With `--log debug` an error shows how the driver came there.
local function with_traceback(chunk, ...)
  local arguments, n = { ... }, select("#", ...)
  local ok, failure = xpcall(function() return chunk(unpack(arguments, 1, n)) end,
    function(message) return debug.traceback(tostring(message), 2) end)
  if not ok then error({ message = failure }, 0) end
end

-- os.exit on all ranks: what was submitted is executed first, then every rank
-- leaves MPI with the others.
local function install_exit()
  function os.exit(code) -- luacheck: ignore
    local status = code == nil and 0 or code == true and 0 or code == false and 1
      or tonumber(code) or 1
    require("celer.queue").finish()
    core.exit(status)
  end
end

local function run(path, arguments, log)
  local chunk, message = require("celer.script").load(path)
  if not chunk then error({ message = message }, 0) end
  arguments[0] = path
  arg = arguments -- luacheck: ignore
  install_exit()
  if log == "debug" then with_traceback(chunk, unpack(arguments))
  else chunk(unpack(arguments)) end
  require("celer.queue").finish()
  if log == "info" or log == "debug" then summary() end
  return 0
end

local function info()
  if core.rank() ~= 0 then return 0 end
  local i = core.info()
  local _, ranks = core.rank()
  io.write(("celer    %s (%s)\n"):format(i.version, jit.version))
  io.write(("cpu      %s\n"):format(i.cpu))
  io.write(("cores    %s of this host's %s belong to this rank%s\n"):format(
    i.cores or "?", i.host_cores or "?", i.bound and " (bound by the launcher)" or ""))
  io.write("devices  cpu (1 to 8 per rank, --devices); there is no CUDA backend yet\n")
  io.write(("compiler %s\n"):format(i.compiler))
  io.write(("cache    %s\n"):format(i.cache))
  io.write(("mpi      %s\n"):format(i.mpi))
  io.write(("ranks    %d, by %s\n"):format(ranks, i.transport))
  return 0
end

--- The command with `words` as given to main.
---@param words table<integer, string>
---@return integer status
function M.main(words)
  local parser = build_parser()
  local own, rest = words, {}
  if words[1] == "run" then own, rest = split_script(words) end
  local ok, options = parser:pparse({ unpack(own) })
  if not ok then return usage(options:gsub("\n", " ") .. "; see celer --help") end
  if options.version then
    if core.rank() == 0 then print("celer " .. core.info().version) end
    return 0
  end
  local resolved, message = settings.resolve(options)
  if not resolved then return usage(message) end
  if options.run then
    configure(resolved, false)
    return run(options.script, rest, resolved.log)
  elseif options.info then
    return info()
  end
  configure(resolved, true)
  return require("celer.repl").run()
end

return M
