--- celer -- the language that users see.
---
---   local celer = require "celer"
---   local q = celer.queue()
---
--- Each name is loaded when first used.
local place = require "celer.place"

-- name = { module, field (nil: all of it), for the driver alone? }
local names = {
  box = { "box", "new" },
  floor = { "mapper", "floor" },
  ceil = { "mapper", "ceil" },
  min = { "mapper", "min" },
  max = { "mapper", "max" },
  one_to_one = { "mapper", "one_to_one" },
  all = { "mapper", "all" },
  fixed = { "mapper", "fixed" },
  slice = { "mapper", "slice" },
  neighborhood = { "mapper", "neighborhood" },
  transposed = { "mapper", "transposed" },
  even_split = { "mapper", "even_split" },
  rule = { "rules", "describe", true },
  buffer = { "buffer", "new", true },
  fill = { "contents", "fill", true },
  copy = { "contents", "copy", true },
  host_object = { "object", "new", true },
  struct = { "types", "struct" },
  kernel = { "kernel", "new", true },
  cuda_module = { "plain", "load", true },
  chunk_size = { "plain", "chunk_size", true },
  chunk_start = { "plain", "chunk_start", true },
  range_size = { "plain", "range_size", true },
  stride = { "plain", "stride", true },
  nd_range = { "nd_range", "new", true },
  queue = { "queue", "new", true },
  weights = { "weights", "new", true },
  rebalance = { "balance", "rebalance", true },
  once = { "placement", "once", true },
  on_master = { "placement", "on_master", true },
  at = { "placement", "at", true },
  where = { "placement", "where", true },
  collective = { "collective", "collective", true },
  capture = { "snapshot", "capture", true },
  random = { "random", "random", true },
  time = { "time", "time" },
  ranks = { "ranks", "ranks" },
  seed = { "random", "seed", true },
  png = { "image", "png" },
  io = { "io", nil, true },
  checkpoint = { "checkpoint", "save", true },
  restore = { "checkpoint", "restore", true },
  progress = { "progress", "loop", true },
  sorted_pairs = { "tables", "sorted_pairs" },
}

---@class celer
local celer = {}

local function load(self, name)
  local entry = names[name]
  if not entry then
    local method = require("celer.repl.docs").method(name)
    place.fail("there is no celer.%s%s", tostring(name), method and ": it is " .. method
      or require("celer.words").advice(name, names))
  end
  local value
  if entry[3] and require("celer.core").view then -- a lane's core has views
    value = require("celer.absent").new("celer." .. name)
  else
    value = require("celer." .. entry[1])
    if entry[2] then value = value[entry[2]] end
  end
  rawset(self, name, value)
  return value
end

return setmetatable(celer, {
  __index = load,
  __names = names, -- for completion
  __tostring = function() return "celer" end,
})
