--- absent.lua -- what stands in a host lane for queues, buffers and kernels.
---
--- A module that makes them when it is loaded can still be required by a host
--- task, for its functions; only using them is an error.
local place = require "celer.place"

local M = {}

local Absent = {}

local function stand_in(name) return setmetatable({ name = name }, Absent) end

function Absent.__index(self, key)
  return stand_in(("%s.%s"):format(rawget(self, "name"), tostring(key)))
end

-- What does something, or is a value, rather than make a thing.
local acts = { ["celer.checkpoint"] = true, ["celer.checkpoint_every"] = true,
  ["celer.io.open"] = true, ["celer.io.save"] = true, ["celer.random"] = true,
  ["celer.seed"] = true }

local function misused(a, b)
  local self = getmetatable(a) == Absent and a or b
  place.fail("%s cannot be used in a host task or init function: it belongs "
    .. "to the script", rawget(self, "name"))
end

function Absent.__call(self, first)
  local name = rawget(self, "name")
  if acts[name] then misused(self) end
  if getmetatable(first) ~= Absent then return stand_in(name .. "(...)") end
  place.fail("%s cannot be used in a host task or init function: queues, buffers "
    .. "and kernels belong to the script", name)
end

for _, event in ipairs { "newindex", "unm", "add", "sub", "mul", "div", "mod", "pow",
  "concat", "lt", "le" } do
  Absent["__" .. event] = misused
end

function Absent.__tostring(self) return rawget(self, "name") .. " (not here)" end

--- A thing of that name: making something of it is fine, its methods raise, and
--- so does what is computed with it.
function M.new(name) return stand_in(name) end

return M
