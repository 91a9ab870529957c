--- start.lua -- `celer repl -n 4`: starts the ranks of a session, and owns its terminal.
local core = require "celer.core"
local launch = require "celer.run.launch"
local settings = require "celer.settings"

local M = {}

local TERM = 15

-- Is set where rank 0 is to have a terminal: of which kind.
local VARIABLE = "CELER_TERMINAL"

-- The words of one rank.
local function program()
  return { launch.self(), "repl" }
end

-- Nobody types: signals are all that there is to be done until it has ended.
local function attend(child)
  local status = core.child_ended(child)
  while not status do
    local kind, signal = core.child_await(-1, -1)
    if kind == "signal" and launch.ends(signal) then
      core.child_kill(child, TERM)
    end
    status = core.child_ended(child)
  end
  return status
end

--- Whether the session is to be started by a launcher.
---@param options table<string, any>
function M.asked(options) return options.ranks or options.launcher end

--- Starts it, to its end.
---@param options table<string, any>
---@return integer? status, string? message
function M.begin(options)
  if core.launcher() then
    return nil, ("celer repl -n starts the launcher, and is not started by it: leave out %s")
      :format(core.launcher())
  end
  local resolved, message = settings.resolve(options)
  if not resolved then return nil, message end
  local launcher, why = launch.find(resolved.launcher, options.ranks)
  if not launcher then return nil, why end
  local person = core.terminal()
  -- Prompts end without a newline, until which srun keeps what ranks write.
  if person and launcher.step then table.insert(launcher.words, "--unbuffered") end
  local variables = { CELER_LAUNCHER = false,
    [VARIABLE] = person and (os.getenv "TERM" or "dumb") or false }
  core.child_catch()
  local child, err, into, out = core.child_start(
    launch.words(launcher, program(), variables), variables, person and "relayed" or nil)
  if not child then return nil, ("cannot start %s: %s"):format(launcher.words[1], err) end
  if person then
    core.child_relay(child, err, into, out)
    launch.kill(child) -- what a launcher that was killed has left
  end
  local status = attend(child)
  if status > 128 then launch.end_rest(launcher) end
  launch.explain(launcher, status)
  return status
end

--- On rank 0 of such a session: the terminal.
function M.take_terminal()
  local rank = core.rank()
  if rank ~= 0 or not os.getenv(VARIABLE) then return end
  require("celer.place").check(core.take_terminal(VARIABLE))
end

return M
