--- about.lua -- what a session runs on, in a line.
local core = require "celer.core"
local words = require "celer.words"

local M = {}

--- Version, ranks and devices.
---@return string? line, string? why  there are no devices
function M.line()
  local backend, devices, list = core.devices() -- finds the cores, too
  local i = core.info()
  if not backend then return nil, devices end -- the message
  local what = backend == "cpu" and ("%s cores"):format(i.cores or "?")
    or core.gpu(list[1]).name
  return ("celer %s  1 rank, %s (%s, %s)"):format(core.version(),
    words.count(devices, "device"), backend, what)
end

return M
