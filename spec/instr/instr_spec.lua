-- The table of instruction kinds.
local ffi = require("ffi")
local c = require("spec.support.cdef")("instr/instr.h")

describe("instruction kinds", function()
  local lanes = {
    ALLOC = "MEMORY", FREE = "MEMORY", INIT = "HOST", COPY = "COPY",
    KERNEL = "DEVICE", HOST = "HOST", SEND = "COMM", RECEIVE = "COMM",
    HORIZON = "NONE", EPOCH = "NONE",
  }
  for name, lane in pairs(lanes) do
    it(("know %s and its lane"):format(name:lower()), function()
      local kind = ffi.cast("cel_instr_kind", "CEL_INSTR_" .. name)
      assert.equal(name:lower(), ffi.string(c.cel_instr_name(kind)))
      assert.equal(ffi.cast("cel_instr_lane", "CEL_LANE_" .. lane),
        c.cel_instr_lane_of(kind))
    end)
  end
end)
