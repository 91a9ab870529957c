--- celer -- the language that users see.
---
---   local celer = require "celer"
---   local q = celer.queue()
---
--- Each name is loaded when first used.
local names = {
  box = { "box", "new" },
  floor = { "mapper", "floor" },
  min = { "mapper", "min" },
  max = { "mapper", "max" },
  one_to_one = { "mapper", "one_to_one" },
  all = { "mapper", "all" },
  fixed = { "mapper", "fixed" },
  slice = { "mapper", "slice" },
  neighborhood = { "mapper", "neighborhood" },
  transposed = { "mapper", "transposed" },
  rule = { "rules", "describe" },
  buffer = { "buffer", "new" },
  struct = { "types", "struct" },
  kernel = { "kernel", "new" },
  queue = { "queue", "new" },
  once = { "queue", "once" },
  on_master = { "queue", "on_master" },
  capture = { "snapshot", "capture" },
  png = { "image", "png" },
  sorted_pairs = { "tables", "sorted_pairs" },
}

---@class celer
local celer = {}

setmetatable(celer, {
  __index = function(self, name)
    local entry = names[name]
    if not entry then
      require("celer.place").fail("there is no celer.%s", tostring(name))
    end
    local value = require("celer." .. entry[1])[entry[2]]
    rawset(self, name, value)
    return value
  end,
  __tostring = function() return "celer" end,
})

return celer
