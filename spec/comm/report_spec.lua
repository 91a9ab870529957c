-- A job that fails says why once: real processes, through mpi_check.
local celer = require("spec.support.celer")

local program = celer.command():gsub("celer$", "mpi_check")
local file = io.open(program)

-- How the ranks fail -> the one line that appears.
local cases = {
  all = { "sim.lua:12: it went wrong", "an error that all ranks share" },
  late = { "sim.lua:12: it went wrong", "an error that rank 0 finds half a second later" },
  alone = { "rank 1: sim.lua:12: it went wrong", "an error of rank 1 alone" },
  deaf = { "rank 1: sim.lua:12: it went wrong", "an error while rank 0 listens to nobody" },
  several = { "rank %d: sim.lua:12: it went wrong", "an error that several have, of one of them" },
  heard = { "rank 1: sim.lua:12: it went wrong", "an error whose rank was heard by an executor" },
  cancelled = { "rank 2: sim.lua:12: it went wrong", "an error that cancels the other ranks" },
}

describe("a report", function()
  if not file then
    pending("needs mpirun and the program mpi_check")
    return
  end
  file:close()
  for how, case in pairs(cases) do
    it("is printed once: " .. case[2], function()
      local r = celer.exec({ "mpirun", "--oversubscribe", "-n", 4, program, "report", how })
      assert.matches("^" .. case[1] .. "\n$", r.stderr)
      assert.equal(1, r.status)
    end)
  end
end)
