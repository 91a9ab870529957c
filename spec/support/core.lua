-- core.lua -- what celer's own Lua files ask of the engine, for specs that load
-- them without it; .busted loads this first.
local ffi = require("ffi")

-- busted answers calls of ffi.typeof by their text alone: "$ *" would be one type for all.
for i = 1, debug.getinfo(ffi.typeof, "u").nups do
  local name, value = debug.getupvalue(ffi.typeof, i)
  if name == "original" then ffi.typeof = value break end
end

local M = {}

function M.place()
  for level = 2, math.huge do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil, 0 end
    if info.what ~= "C" and not info.source:find("lua/celer/", 1, true) then
      return info.short_src, info.currentline
    end
  end
end

package.preload["celer.core"] = function() return M end

return M
