--- walk.lua -- pairs and ipairs, of what is a table to Lua alone.
---
--- Snapshots, views, buffers and the like are tables whose fields are nobody's
--- business: a loop over these would find no element, and say nothing.

local M = {}

-- What a class does instead, where it has a say.
local function own(class) return type(class) == "table" and rawget(class, "__pairs") end

--- Has `pairs` and `ipairs` call a metatable's `__pairs` with the table and their own
--- name, where there is one; before any module keeps them. They compile as ever: of
--- all others a loop gets what it got.
function M.install()
  local pairs_of, ipairs_of, getmetatable = pairs, ipairs, getmetatable
  function pairs(t) -- luacheck: ignore
    local class = getmetatable(t)
    local walk = class and own(class)
    if walk then return walk(t, "pairs") end
    return pairs_of(t)
  end
  function ipairs(t) -- luacheck: ignore
    local class = getmetatable(t)
    local walk = class and own(class)
    if walk then return walk(t, "ipairs") end
    return ipairs_of(t)
  end
end

return M
