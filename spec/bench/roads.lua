-- roads.lua -- messages between the GPUs of two ranks as if on two hosts, of 4 KiB to 64 MiB:
-- in chunks, beside MPI alone with pinned memory, and beside a copy of all, MPI and a copy of
-- all, one after the other. Each takes turns with the others in one run. The ranks may share
-- a GPU; then the two ways with copies take some 150 us more for 4 and 16 KiB. What MPI goes
-- by, as between hosts, is the environment's:
--
--   luajit spec/bench/roads.lua
--   OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp luajit spec/bench/roads.lua
package.path = "./?.lua;" .. package.path

local celer = require("spec.support.celer")

local program = celer.command():gsub("celer$", "road_check")
local r = celer.exec({ "mpirun", "--oversubscribe", "-n", 2, program, "speed" },
  { timeout = 500 })
io.write(r.stdout, r.stderr)
os.exit(r.status)
