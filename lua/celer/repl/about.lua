--- about.lua -- what a session runs on, in a line.
local core = require "celer.core"
local words = require "celer.words"

local M = {}

--- Version, ranks and devices: those of rank 0.
---@return string? line, string? why  there are no devices
function M.line()
  local backend, devices, list = core.devices() -- finds the cores, too
  local i = core.info()
  if not backend then return nil, devices end -- the message
  local what = backend == "cpu" and ("%s cores"):format(i.cores or "?")
    or core.gpu(list[1]).name
  local _, ranks = core.rank()
  return ("celer %s  %s, %s%s (%s, %s)"):format(core.version(), words.count(ranks, "rank"),
    words.count(devices, "device"), ranks > 1 and " each" or "", backend, what)
end

return M
