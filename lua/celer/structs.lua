--- structs.lua -- what the core takes as structs, as its own header declares them.
local ffi = require "ffi"

for _, name in ipairs { "core_group.h", "core_prepared.h" } do
  ffi.cdef(require("celer.core").embedded("engine/embed/core/" .. name))
end

return {
  range = ffi.typeof "cel_lua_range",
  division = ffi.typeof "cel_lua_division",
  prepared = ffi.typeof "cel_lua_prepared *",
}
