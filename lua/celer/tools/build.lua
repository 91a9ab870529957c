--- build.lua -- `celer build`: all kernels of a script, compiled ahead.
---
--- The script runs dry, so that it makes its kernels and submits them as it will;
--- where they run is what --arch says.
local core = require "celer.core"
local settings = require "celer.settings"

local M = {}

-- Why NVRTC cannot compile for an architecture, or nil. What is newer than all
-- that it knows gets code that the driver finishes.
local function fault_of(architecture)
  local known, why = core.architectures()
  if not known then
    return ("compiling for GPUs takes NVRTC, CUDA's compiler library: %s"):format(why)
  end
  if #known == 0 or architecture >= known[1] then return nil end
  return ("this NVRTC compiles for sm_%d and newer, not for sm_%d"):format(known[1],
    architecture)
end

--- Puts what --arch asks for into the settings; nil and a message where that
--- cannot be.
---@param resolved table<string, string>
---@return table<string, string>? resolved, string? message
function M.prepare(resolved)
  if not resolved.arch then return resolved end
  local list = settings.architectures(resolved.arch)
  local backend = #list == 0 and "cpu" or "cuda"
  if resolved.backend and resolved.backend ~= backend then
    return nil, ("--arch %s and --backend %s do not go together"):format(resolved.arch,
      resolved.backend)
  end
  for _, architecture in ipairs(list) do
    local fault = fault_of(architecture)
    if fault then return nil, fault end
  end
  resolved.backend = backend
  return resolved
end

--- Says what was compiled; raises where it will not be found again.
function M.write()
  io.stdout:flush()
  local folder, warning = core.cache_folder()
  if warning ~= "" then error({ message = warning }, 0) end
  local found, made, unkept = core.compiled()
  io.stderr:write(("celer: build: %d compiled, %d had been compiled before; in %s\n"):format(
    made + unkept, found, folder))
  if unkept > 0 then
    io.stderr:write(("celer: warning: %d of them cannot be kept: their sources include "
      .. "files by a macro or an option, so that nobody knows when they change\n")
      :format(unkept))
  end
end

return M
