--- structs.lua -- what the core takes as structs, as its own header declares them.
local ffi = require "ffi"

ffi.cdef(require("celer.core").embedded "engine/embed/core/core_group.h")

return {
  range = ffi.typeof "cel_lua_range",
  division = ffi.typeof "cel_lua_division",
}
