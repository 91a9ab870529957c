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

function M.finally(f, after)
  local function over(ok, ...)
    after()
    if not ok then error((...), 0) end
    return ...
  end
  return over(pcall(f))
end

-- As celer.core has them, off the library that is under test.
local function read_facts()
  local lists = {}
  local c = require("spec.support.cdef")("embed/core/core_facts.h")
  local at = c.cel_facts + 0
  while at.list ~= nil do
    local list = ffi.string(at.list)
    lists[list] = lists[list] or {}
    lists[list][ffi.string(at.name)] = tonumber(at.value)
    at = at + 1
  end
  return lists
end

setmetatable(M, { __index = function(_, key)
  if key ~= "facts" then return nil end
  M.facts = read_facts()
  return M.facts
end })

package.preload["celer.core"] = function() return M end

return M
