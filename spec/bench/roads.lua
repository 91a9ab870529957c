-- roads.lua -- messages between the GPUs of two ranks as if on two hosts, of 4 KiB to 64 MiB:
-- by each way, beside its library alone, and beside a copy of all, MPI and a copy of all, one
-- after the other. Each takes turns with the others in one run. Alone are: for chunks MPI with
-- pinned memory, for the others MPI and NCCL with the GPUs' memory. The ranks may share a GPU;
-- then the ways with copies take some 150 us more for 4 and 16 KiB. What MPI and NCCL go by, as
-- between hosts, is the environment's:
--
--   luajit spec/bench/roads.lua [staged|mpi|nccl ...]
--   OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp NCCL_SOCKET_IFNAME=lo luajit spec/bench/roads.lua
package.path = "./?.lua;" .. package.path

local celer = require("spec.support.celer")

local program = celer.command():gsub("celer$", "road_check")
local status = 0
for _, way in ipairs(#arg > 0 and arg or { "staged", "mpi", "nccl" }) do
  local r = celer.exec({ "mpirun", "--oversubscribe", "-n", 2, program, "speed", "--way", way },
    { timeout = 300 })
  io.write(way, ":\n", r.stdout, r.stderr)
  if r.status ~= 0 then status = r.status end
end
os.exit(status)
