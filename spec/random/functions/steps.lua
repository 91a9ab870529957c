--- steps.lua -- random steps that read where branches say, several times each: what ranks and
--- devices send each other, and steps that are folded, have to be all that is read.
---
---   celer run spec/random/functions/steps.lua FIRST COUNT
---
--- Prints a sum for each step, which is the same for any number of ranks and any --fold.
local celer = require "celer"
local make = require "make"

local TIMES = 9
local parameters = { "i", "i, j" }

for number = tonumber(arg[1]), tonumber(arg[1]) + tonumber(arg[2]) - 1 do
  math.randomseed(number)
  for _ = 1, 4 do math.random() end
  local dims, text = make.step()
  local n, m = math.random(3, 50), math.random(3, 20)
  local chunk = assert(loadstring(("local n, n2, celer, q, back = ...\n"
    .. "return function(%s, u, v)\n%s\nend"):format(parameters[dims], text), "=step" .. number))
  local extents = dims == 2 and { n, m } or { n }
  local u = celer.buffer("double", extents, {
    init = function(i, j) return (7 * i + (j or 0)) % 11 end,
  })
  local v = celer.buffer("double", extents)
  local step = celer.kernel(chunk(n, m, celer, 2, -3))
  for _ = 1, TIMES do
    step(extents, u, v)
    u, v = v, u
  end
  local sum, found = 0, celer.wait(u)
  for i = 0, n - 1 do
    for j = 0, dims == 2 and m - 1 or 0 do
      sum = sum + (1 + (7 * i + j) % 13) * (dims == 2 and found(i, j) or found(i))
    end
  end
  print(("%d %.17g"):format(number, sum))
  u:free()
  v:free()
end
