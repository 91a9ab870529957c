--- script.lua -- the user's script, its modules and the environment, the same on all ranks:
--- rank 0 reads them and sends them as one bundle.
---
--- Rank 0 finds modules and kernels' files by their names, where the text of the script or
--- of a module has them as literals. The bundle also says which files rank 0 did not find, so
--- that no other rank looks for them on a file system that all share. Only what `require`
--- tries beyond that, each rank looks for itself.
local buffer = require "string.buffer"
local core = require "celer.core"
local settings = require "celer.settings"
local syntax = require "celer.run.syntax"
local tables = require "celer.tables"

local M = {}

---@class celer.bundle
---@field files table<string, string>  texts by path
---@field absent table<string, true>  paths of no file
---@field folder string  of the script
---@field path string  where modules are, as package.path has it
---@field message? string  why there is no script
---@field environment? table<string, string>
local bundle = { files = {}, absent = {}, folder = ".", path = package.path }

local LIMIT = 16 * 1024 * 1024

local function read(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text, why = file:read("*a")
  file:close()
  return text, why and path .. ": " .. why
end

-- Where a module is by a list of templates: "./?.lua;/usr/share/lua/?.lua".
local function candidates(templates, name)
  local stem, paths = name:gsub("%.", "/"):gsub("%%", "%%%%"), {}
  for template in templates:gmatch("[^;]+") do
    paths[#paths + 1] = template:gsub("%?", stem)
  end
  return paths
end

-- What a script's text may put before package.path: literals, beside the script or not.
local function templates_in(text, folder)
  local found = {}
  for literal in text:gmatch("[\"']([^\"'\n]*%?[^\"'\n]*)[\"']") do
    for template in literal:gmatch("[^;]*%?[^;]*%.lua") do
      local slash = template:sub(1, 1) == "/" and "" or "/"
      found[#found + 1] = template
      found[#found + 1] = folder .. slash .. template
    end
  end
  return table.concat(found, ";")
end

---@class celer.gathering
---@field files table<string, string>
---@field absent table<string, true>
---@field folder string
---@field path string
---@field extra string  templates of all texts so far
---@field left integer  bytes

-- Reads a file if there is room; returns its text where it has not been read before.
local function look(g, path)
  if g.files[path] or g.absent[path] then return nil end
  local text = read(path)
  if not text then
    g.absent[path] = true
  elseif #text <= g.left then
    g.files[path], g.left = text, g.left - #text
    return text
  end
end

local add_all

local function add_module(g, name)
  for _, path in ipairs(candidates(g.extra, name)) do
    local text = look(g, path)
    if text then add_all(g, text) end
  end
  for _, path in ipairs(candidates(g.path, name)) do
    local text = look(g, path)
    if text then add_all(g, text) end
    if not g.absent[path] then return end
  end
end

-- Adds the modules that `text` requires and the kernels' files that it names, and theirs.
function add_all(g, text)
  g.extra = g.extra .. ";" .. templates_in(text, g.folder)
  for name in text:gmatch("require%s*%(?%s*[\"']([%w_.%-]+)[\"']") do
    local own = name == "celer" or name:find("^celer%.")
    if not own and not package.loaded[name] and not package.preload[name] then
      add_module(g, name)
    end
  end
  for name in text:gmatch("file%s*=%s*[\"']([^\"'\n]+%.cuh?)[\"']") do
    look(g, name:sub(1, 1) == "/" and name or g.folder .. "/" .. name)
  end
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
  local g = { files = { [name] = text }, absent = {}, folder = folder, extra = "",
    path = ("%s/?.lua;%s/?/init.lua;%s"):format(folder, folder, package.path),
    left = LIMIT - #(text or "") }
  if text then add_all(g, text) end
  local _, ranks = core.rank()
  return { files = g.files, absent = g.absent, folder = folder, path = g.path,
    message = not text and message or nil, environment = ranks > 1 and core.environment "" }
end

local function names(files, word)
  for _, text in tables.each(files) do
    if text:find(word, 1, true) then return true end
  end
  return false
end

--- Whether the script, or a module beside it, names a checkpoint; nil, why it cannot be read.
---@param path string
---@param text? string  in place of the file
---@return boolean? names, string? message
function M.names_checkpoint(path, text)
  local found = gather(path, path, text)
  if found.message then return nil, found.message end
  return names(found.files, "checkpoint")
end

-- What launchers tell each rank of itself.
local launchers = { "^OMPI_", "^PMIX_", "^PMI_", "^PRTE_", "^SLURM", "^MPI", "^HYDRA_",
  "^CUDA_VISIBLE_DEVICES$" }

--- The driver of another rank sees rank 0's environment, or it would decide by its own.
---@param environment table<string, string>
function M.share_environment(environment)
  local own = os.getenv
  function os.getenv(name) -- luacheck: ignore
    if type(name) ~= "string" then return own(name) end
    for _, pattern in ipairs(launchers) do
      if name:find(pattern) then return own(name) end
    end
    return environment[name]
  end
end

-- A loader of `require`, as Lua's own, which looks for files of the bundle nowhere else.
local function search(name)
  local tried = {}
  if type(package.path) ~= "string" then error("'package.path' must be a string", 0) end
  for _, path in ipairs(candidates(package.path, name)) do
    local text = bundle.files[path] or (not bundle.absent[path] and read(path))
    if text then
      local chunk, message = syntax.load(text, "@" .. path)
      if not chunk then error(message, 0) end
      return chunk
    end
    tried[#tried + 1] = ("\n\tno file '%s'"):format(path)
  end
  return table.concat(tried)
end

-- The last loader: the script itself may have written a module.
local function search_again(name)
  for _, path in ipairs(candidates(package.path, name)) do
    local text = bundle.absent[path] and read(path)
    if text then return assert(syntax.load(text, "@" .. path)) end
  end
end

local function add_loaders()
  if package.loaders[3] == search then return end
  package.loaders[3] = search -- after preload and celer's
  table.insert(package.loaders, search_again)
end

--- Makes the modules of a bundle known to `require`, in any Lua state.
---@param encoded string
function M.adopt(encoded)
  bundle = buffer.decode(encoded)
  add_loaders()
  package.path = bundle.path
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
  if rank > 0 and bundle.environment then M.share_environment(bundle.environment) end
  if bundle.message then return nil, bundle.message end
  if names(bundle.files, "checkpoint_every") then core.catch_keep() end
  local source = bundle.files[name]:gsub("^#[^\n]*", "")
  return syntax.load(source, "@" .. name)
end

--- The text of a kernel's file, and why there is none. In a session a person edits it.
---@param path string
---@return string? text, string? message
function M.read(path)
  local _, ranks = core.rank()
  local text = ranks > 1 and not settings.session and bundle.files[path]
  if text then return text end
  return read(path)
end

--- The text of a file of the script, or of one that it has run by `dofile`; or nil.
---@param path string
---@return string?
function M.text(path) return bundle.files[path] or read(path) end

--- What was typed in a session, as the text of a file.
---@param path string
---@param text string
function M.set_text(path, text) bundle.files[path] = text end

--- The modules that a line of a session requires and that are new.
---@param text string
---@return table<string, string>?
function M.beside(text)
  local files = setmetatable({}, { __index = bundle.files })
  add_all({ files = files, absent = {}, folder = bundle.folder, path = package.path, extra = "",
    left = LIMIT }, text)
  if next(files) == nil then return nil end
  M.add(files)
  return setmetatable(files, nil)
end

--- Makes more files known.
---@param files table<string, string>
function M.add(files)
  for path, text in tables.each(files) do bundle.files[path] = text end
  add_loaders()
end

--- All of them, by path.
---@return table<string, string>
function M.texts() return bundle.files end

--- The folder of the script.
---@return string
function M.directory() return bundle.folder end

return M
