--- example.lua -- what a step of an example takes: celer run example.lua NAME FEW MANY.
---
--- FEW and MANY are its arguments, with commas between: those of a short run, which compiles
--- and warms up, and then of a long one, in which there are so many more steps. The last line
--- is JSON: processor time of all threads; time on the clock; and the last number that the long
--- run prints.
local celer = require "celer"

local name, few, many, more = arg[1], arg[2], arg[3], tonumber(arg[4])
local write, printed = print, nil

local function seconds(words)
  local given = {}
  for word in words:gmatch "[^,]+" do given[#given + 1] = word end
  local example = assert(loadfile("examples/" .. name .. ".lua"))
  setfenv(example, setmetatable({ arg = given, print = function(text) printed = text end },
    { __index = _G }))
  local begin, start = os.clock(), celer.time()
  example()
  celer.wait()
  return os.clock() - begin, celer.time() - start
end

seconds(few)
local short, short_wall = seconds(few)
local long, long_wall = seconds(many)
write(('{"seconds": %.9f, "wall": %.9f, "result": %s}'):format((long - short) / more,
  (long_wall - short_wall) / more, printed:match "(%-?%d+%.%d+)[^.]*$"))
