--- started.lua -- what a rank was started with, which must be what rank 0 was.
---
--- Ranks may be started by different command lines. What concerns one rank alone, such
--- as its devices, may differ; what makes them submit other things may not.
local buffer = require "string.buffer"
local core = require "celer.core"
local settings = require "celer.settings"

local M = {}

---@class celer.started
---@field version string
---@field build string  of celer's library
---@field host string
---@field command string
---@field script string  or ""
---@field text string  that is run in place of a script; or ""
---@field options table<string, {value: string, spelled: string}>  by setting
---@field failed string  why rank 0 goes no further; or ""

--- What this rank was started with.
---@param command string
---@param script? string
---@param text? string
---@param resolved? table<string, string>
---@return celer.started
function M.of(command, script, text, resolved)
  local options = {}
  for _, setting in ipairs(resolved and settings.list or {}) do
    options[setting.name] = setting.alike and settings.given(setting, resolved) or nil
  end
  return { version = ("%s (%s)"):format(core.version(), jit.version),
    build = core.build(), host = core.host_name(), command = command, script = script or "",
    text = text or "", options = options, failed = "" }
end

-- How this rank's own differs from rank 0's, or nil.
local function difference(mine, first)
  if mine.version ~= first.version then
    return ("is celer %s, rank 0 celer %s: install one version on all hosts"):format(
      mine.version, first.version)
  elseif mine.build ~= first.build then
    return ("is celer %s, build %s, rank 0 celer %s, build %s: install one build on all hosts")
      :format(mine.version, mine.build:sub(1, 8), first.version, first.build:sub(1, 8))
  elseif mine.command ~= first.command then
    return ("was started as celer %s, rank 0 as celer %s: all ranks take one command")
      :format(mine.command, first.command)
  elseif mine.script ~= first.script then
    return ("was given %s, rank 0 %s: all ranks run one script, by the same name"):format(
      mine.script ~= "" and mine.script or "no script",
      first.script ~= "" and first.script or "none")
  elseif mine.text ~= first.text then
    return "was given another text by -e than rank 0: all ranks run one text"
  end
  for _, setting in ipairs(settings.list) do
    local own, other = mine.options[setting.name], first.options[setting.name]
    if (own and own.value) ~= (other and other.value) then
      return ("was started %s, rank 0 %s: give all ranks the same"):format(
        own and "with " .. own.spelled or "without --" .. setting.name,
        other and "with " .. other.spelled or "without")
    end
  end
end

--- Compares this rank's with rank 0's, which all ranks get. All ranks come here, once,
--- whatever they were started with.
---@param mine celer.started
---@return celer.started first, string? message  what differs
function M.compare(mine)
  local rank, ranks = core.rank()
  if ranks == 1 then return mine end
  local first = buffer.decode(core.broadcast(buffer.encode(mine)))
  local what = difference(mine, first)
  local where = mine.host ~= first.host and " on " .. mine.host or ""
  return first, what and ("rank %d%s %s"):format(rank, where, what)
end

return M
