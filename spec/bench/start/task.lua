-- The job that start.lua starts: a module beside it, one in LUA_PATH, a kernel's file and
-- one task.
local celer = require "celer"
local n = require("beside").size + require("afar").size

local q = celer.queue()
local numbers = celer.buffer("int", { n }, { name = "numbers" })
local number = celer.kernel { file = "number.cu" }

q:submit(function(cg)
  cg:parallel_for({ n }, number, cg:discard_write(numbers))
end)
q:wait()
