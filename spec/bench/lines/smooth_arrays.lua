local celer = require "celer"
local u = celer.arange("float", 1000)
local v = celer.like(u)
v:set((u:shift(1, "clamped") + u + u:shift(-1, "clamped")) / 3)
print(v(10))
