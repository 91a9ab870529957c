--- place.lua -- the user's own line, for errors and for every task.
local M = {}

local getinfo = debug.getinfo

--- The innermost frame of the stack that is not celer's own.
---@return string? file, integer line
function M.user()
  for level = 2, 64 do
    local info = getinfo(level, "S")
    if not info then return nil, 0 end
    if info.what ~= "C" and info.source:sub(1, 7) ~= "=celer/" then
      return info.short_src, getinfo(level, "l").currentline
    end
  end
  return nil, 0
end

--- Raises `message` at the user's line.
function M.fail(message, ...)
  if select("#", ...) > 0 then message = message:format(...) end
  local file, line = M.user()
  if file then message = ("%s:%d: %s"):format(file, line, message) end
  error(message, 0)
end

local Elsewhere = { __tostring = function(self) return self.message end }

--- Passes a core function's results on, or raises its failure: at the place it
--- names, else at the user's line.
function M.check(result, text, file, line, code, ...)
  if result ~= nil then return result, text, file, line, code, ... end
  if not file or file == "" then file, line = M.user() end
  if file then text = ("%s:%d: %s"):format(file, line, text) end
  if code == "CANCELLED" then -- another rank's failure, or Ctrl-C
    error(setmetatable({ message = text, cancelled = true }, Elsewhere), 0)
  end
  error(text, 0)
end

return M
