-- child.lua -- Lua in a process of its own, with what specs can require.
--
--   local r = child("print(require('spec.support.cdef').build_folder())", { CELER_CACHE = path })
--   local r = child.exec({ "taskset", "-c", "0", "luajit", "case.lua" })
local celer = require("spec.support.celer")

local M = {}

--- A program that runs Lua, for which libceler of this build is to be found.
---@param argv string[]
---@param env? table<string, any>
---@return {status: integer, stdout: string, stderr: string}
function M.exec(argv, env)
  local all = { CELER_BUILD = celer.folder(), LD_PRELOAD = os.getenv("CELER_PRELOAD") or "" }
  for name, value in pairs(env or {}) do all[name] = value end
  return celer.exec(argv, { env = all })
end

return setmetatable(M, {
  __call = function(_, text, env) return M.exec({ "luajit", "-e", text }, env) end,
})
