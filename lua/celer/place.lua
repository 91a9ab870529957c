--- place.lua -- the user's own line, for errors and for every task.
local core = require "celer.core"

local M = {}

--- The innermost frame of the stack that is not celer's own. The file is the
--- script's as it was named.
---@type fun(): (string?, integer)
M.user = core.place

--- Raises `message` at the user's line.
function M.fail(message, ...)
  if select("#", ...) > 0 then message = message:format(...) end
  local file, line = M.user()
  if file then message = ("%s:%d: %s"):format(file, line, message) end
  error(message, 0)
end

--- Raises unless `self` is of `class`: a method was called without its colon.
function M.method(self, class, call)
  if type(self) ~= "table" or getmetatable(self) ~= class then
    M.fail("call it with a colon: %s(...)", call)
  end
end

--- The code of a core function's failure by its name, which there must be.
---@param name string  of cel_status, without CEL_E_
---@return string
function M.code(name)
  assert(core.facts.status[name], name)
  return name
end

local CANCELLED = M.code "CANCELLED"
local Elsewhere = { __tostring = function(self) return self.message end }

-- Names that the user has not given.
local nameless = { [""] = true, ["host task"] = true, ["interop task"] = true, fence = true }

-- What a host task raises says where in the script it did; the place is then
-- that of its submission.
local function with_place(text, file, line, task)
  local named = task and not nameless[task] and not task:find("^celer%.")
  local name = named and (" '%s'"):format(task) or ""
  if text:find("^[^\n:]+:%d+: ") then
    if task == "celer.route" then return text end -- the place is that of the task to blame
    return ("%s (the task%s was submitted at %s:%d)"):format(text, name, file, line)
  end
  if named then text = ("task%s: %s"):format(name, text) end
  return ("%s:%d: %s"):format(file, line, text)
end

--- Passes a function's results on, or raises its failure: at the place that a core function
--- names, else at the user's line. Other functions may say more than a message (posix.lua).
function M.check(result, text, file, line, code, task, ...)
  if result ~= nil then return result, text, file, line, code, task, ... end
  if type(file) ~= "string" or file == "" then file, line = M.user() end
  if file then text = with_place(text, file, line, task) end
  if code == CANCELLED then -- another rank's failure, or Ctrl-C
    error(setmetatable({ message = text, cancelled = true }, Elsewhere), 0)
  end
  error(text, 0)
end

return M
