-- preload.lua -- a library that stands before all others of a program.
--
--   local env = preload("slow_disk")     of spec/system/machine/slow_disk.c
--   celer.run(args, { env = env })
local scratch = require("spec.support.scratch")

--- The environment for it; `flags` are the compiler's.
---@param name string
---@param flags? string
---@return table<string, string>
return function(name, flags)
  local library = scratch.path(".so")
  assert(os.execute(("%s -shared -fPIC %s -o %s spec/system/machine/%s.c"):format(
    os.getenv("CC") or "cc", flags or "", library, name)) == 0)
  return { LD_PRELOAD = library,
    ASAN_OPTIONS = (os.getenv("ASAN_OPTIONS") or "") .. ":verify_asan_link_order=0" }
end
