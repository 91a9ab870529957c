--- script.lua -- the user's script, the modules beside it and the environment, the
--- same on all ranks: rank 0 reads them and sends them as one bundle.
local buffer = require "string.buffer"
local core = require "celer.core"
local syntax = require "celer.run.syntax"

local M = {}

local bundle = { files = {}, folder = "." } -- files: path -> text

local LIMIT = 16 * 1024 * 1024

local function read(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text, why = file:read("*a")
  file:close()
  return text, why and path .. ": " .. why
end

local function candidates(folder, name)
  local stem = folder .. "/" .. name:gsub("%.", "/")
  return { stem .. ".lua", stem .. "/init.lua" }
end

-- Adds the modules that `text` requires by a literal name and that lie beside
-- the script, and theirs. Returns how many bytes are left.
local function add_modules(files, folder, text, left)
  for name in text:gmatch("require%s*%(?%s*[\"']([%w_.%-]+)[\"']") do
    for _, path in ipairs(name == "celer" and {} or candidates(folder, name)) do
      local found = not files[path] and read(path)
      if found and #found <= left then
        files[path] = found
        left = add_modules(files, folder, found, left - #found)
      end
    end
  end
  return left
end

-- What rank 0 sends: the script, its modules, or why there are none.
local function gather(path, name, text)
  local folder = not text and path:match("^(.*)/[^/]*$") or "."
  local message
  if path == "" then
    message = "the name of the script is empty; give a file, or - for stdin"
  elseif not text and path == "-" then
    text, message = io.read "*a"
  elseif not text then
    text, message = read(path)
  end
  if not text then return { message = message, files = {}, folder = folder } end
  local files = { [name] = text }
  add_modules(files, folder, text, LIMIT - #text)
  local _, ranks = core.rank()
  return { files = files, folder = folder, environment = ranks > 1 and core.environment "" }
end

-- What launchers tell each rank of itself.
local launchers = { "^OMPI_", "^PMIX_", "^PMI_", "^PRTE_", "^SLURM", "^MPI", "^HYDRA_",
  "^CUDA_VISIBLE_DEVICES$" }

-- The driver of another rank sees rank 0's environment, or it would decide by its own.
local function share_environment(environment)
  local own = os.getenv
  function os.getenv(name) -- luacheck: ignore
    if type(name) ~= "string" then return own(name) end
    for _, pattern in ipairs(launchers) do
      if name:find(pattern) then return own(name) end
    end
    return environment[name]
  end
end

local function search_bundle(name)
  for _, path in ipairs(candidates(bundle.folder, name)) do
    local text = bundle.files[path]
    if text then
      local chunk, message = syntax.load(text, "@" .. path)
      if not chunk then error(message, 0) end
      return chunk
    end
  end
  return ("\n\tno module '%s' beside the script"):format(name)
end

--- Makes the modules of a bundle known to `require`, in any Lua state.
---@param encoded string
function M.adopt(encoded)
  bundle = buffer.decode(encoded)
  table.insert(package.loaders, 3, search_bundle) -- after preload and celer's
  local folder = bundle.folder
  package.path = folder .. "/?.lua;" .. folder .. "/?/init.lua;" .. package.path
end

--- Reads the script on rank 0 and returns it compiled, or nil and why not.
---@param path string  of a file; "-" is stdin
---@param text? string  in place of the file
---@return function? chunk, string? message
function M.load(path, text)
  local name = path == "-" and "stdin" or path -- for messages
  local rank, ranks = core.rank()
  local encoded = rank == 0 and buffer.encode(gather(path, name, text)) or ""
  if ranks > 1 then
    local sent, message = core.broadcast(encoded)
    if not sent then return nil, message end
    encoded = sent
  end
  M.adopt(encoded)
  core.set_bundle(encoded)
  if rank > 0 and bundle.environment then share_environment(bundle.environment) end
  if bundle.message then return nil, bundle.message end
  local source = bundle.files[name]:gsub("^#[^\n]*", "")
  return syntax.load(source, "@" .. name)
end

--- The text of a file of the script, or of one that it has run by `dofile`; or nil.
---@param path string
---@return string?
function M.text(path) return bundle.files[path] or read(path) end

--- What was typed in a session, as the text of a file.
---@param path string
---@param text string
function M.set_text(path, text) bundle.files[path] = text end

--- All of them, by path.
---@return table<string, string>
function M.texts() return bundle.files end

--- The folder of the script.
---@return string
function M.directory() return bundle.folder end

return M
