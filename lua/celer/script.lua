--- script.lua -- the user's script and the modules beside it, the same on all
--- ranks: rank 0 reads them and sends them as one bundle.
local buffer = require "string.buffer"
local core = require "celer.core"

local M = {}

local bundle = { files = {} } -- path -> text
local folder = "."

local LIMIT = 16 * 1024 * 1024

local function read(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text, why = file:read("*a")
  file:close()
  return text, why
end

-- Adds the modules that `text` requires by a literal name and that lie beside
-- the script, and theirs.
local function add_modules(files, text, left)
  for name in text:gmatch("require%s*%(?%s*[\"']([%w_.%-]+)[\"']") do
    local stem = folder .. "/" .. name:gsub("%.", "/")
    for _, path in ipairs { stem .. ".lua", stem .. "/init.lua" } do
      local found = not files[path] and read(path)
      if found and #found <= left then
        files[path] = found
        left = add_modules(files, found, left - #found)
      end
    end
  end
  return left
end

-- What rank 0 sends: the script, its modules, or why there are none.
local function gather(path)
  local text, message = read(path)
  if not text then return { message = message } end
  local files = { [path] = text }
  add_modules(files, text, LIMIT - #text)
  return { files = files }
end

local function search_bundle(name)
  local stem = folder .. "/" .. name:gsub("%.", "/")
  for _, path in ipairs { stem .. ".lua", stem .. "/init.lua" } do
    local text = bundle.files[path]
    if text then return assert(loadstring(text, "@" .. path)) end
  end
  return ("\n\tno module '%s' beside the script"):format(name)
end

--- Reads the script on rank 0 and returns it compiled, or nil and why not.
function M.load(path)
  folder = path:match("^(.*)/[^/]*$") or "."
  local rank, ranks = core.rank()
  local mine = rank == 0 and gather(path) or {}
  if ranks > 1 then
    local sent, message = core.broadcast(buffer.encode(mine))
    if not sent then return nil, message end
    mine = buffer.decode(sent)
  end
  if not mine.files then return nil, mine.message end
  bundle = mine
  table.insert(package.loaders, 3, search_bundle)
  package.path = folder .. "/?.lua;" .. folder .. "/?/init.lua;" .. package.path
  local text = bundle.files[path]:gsub("^#[^\n]*", "")
  return loadstring(text, "@" .. path)
end

--- The text of a file of the script, or nil. `short` is as in error messages.
function M.text(short)
  return short and bundle.files[short]
end

--- The folder of the script.
function M.directory() return folder end

return M
