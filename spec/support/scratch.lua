-- scratch.lua -- files and folders for a spec's own use.
--
--   local scratch = require("spec.support.scratch")
--   local folder = scratch.folder()
--   scratch.write(folder .. "/case.lua", "print(1)")
--
-- `read`, `files` and `output` are for whatever a spec looks at.
-- All lie in one folder, which goes with $TMPDIR, and cmake/busted.sh removes that:
-- a spec need not clean up. Paths are short, for Lua shows no more than 59 bytes of
-- a script's, and have nothing in them but letters, digits, slashes and dots.
local M = {}

local root, made = nil, 0

--- A path at which nothing is yet; no other call gives it.
---@param ending? string
---@return string
function M.path(ending)
  if not root then
    local pipe = assert(io.popen("mktemp -d ${TMPDIR:-/tmp}/sXXXXXX"))
    root = pipe:read("*l")
    pipe:close()
  end
  made = made + 1
  return ("%s/%d%s"):format(root, made, ending or "")
end

--- An empty folder.
---@return string
function M.folder()
  local path = M.path()
  assert(os.execute("mkdir '" .. path .. "'") == 0)
  return path
end

--- Bytes, as they are.
---@param path string
---@param text string
function M.write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

--- The bytes of a file; nil, why not, where there is none.
---@param path string
---@return string?
---@return string? message
function M.look(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text = file:read("*a")
  file:close()
  return text
end

--- The same of one that must be there.
---@param path string
---@return string
function M.read(path)
  return assert(M.look(path))
end

--- What a command prints.
---@param command string
---@return string
function M.output(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read("*a")
  pipe:close()
  return text
end

--- The paths in a folder whose names match; none where there is no such folder.
---@param folder string
---@param pattern? string
---@return string[]
function M.files(folder, pattern)
  local list = {}
  for name in M.output("ls -A '" .. folder .. "' 2>/dev/null"):gmatch("[^\n]+") do
    if name:find(pattern or "") then list[#list + 1] = folder .. "/" .. name end
  end
  return list
end

return M
