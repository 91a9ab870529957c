-- The table of access modes.
local ffi = require("ffi")
local c = require("spec.support.cdef")("task/task.h")

describe("access modes", function()
  local table_of_modes = {
    { "READ", "read", true, false },
    { "WRITE", "write", true, true },
    { "DISCARD_WRITE", "discard_write", false, true },
    { "READ_WRITE", "read_write", true, true },
  }
  for _, row in ipairs(table_of_modes) do
    it("know " .. row[2], function()
      local mode = ffi.cast("cel_mode", "CEL_MODE_" .. row[1])
      assert.equal(row[2], ffi.string(c.cel_mode_name(mode)))
      assert.equal(row[3], c.cel_mode_consumes(mode))
      assert.equal(row[4], c.cel_mode_produces(mode))
    end)
  end
end)
