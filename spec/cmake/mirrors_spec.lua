-- The check of what kernels and C both say can fail: one side is changed.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

-- What the check says of a copy of the project in which `file` went through sed.
local function check(file, edit)
  local script = [[
    mkdir "$1" && cp -r engine kernels cmake lua "$1" && cd "$1" || exit 9
    sed -i "$3" "$2"
    luajit cmake/mirrors.lua; status=$?
    rm -r "$1"; exit $status]]
  return celer.exec({ "sh", "-c", script, "sh", scratch.path(), file, edit })
end

describe("mirrors.lua", function()
  local faults = {
    { "kernels/celer.cuh", "s/index count, stride;/index stride;/", "cel_lines has 8 members" },
    { "kernels/sample.cuh", "s/index first\\[3\\]/unsigned first[3]/", "cel__units is not as" },
    { "engine/task/work.h", "s/int32_t rank, ranks;/int64_t rank, ranks;/", "cel_call is not as" },
    { "engine/device/kernel.h", "s/CEL_PARAM_OUT,/CEL_PARAM_INOUT,/", "kinds of parameters" },
    { "kernels/reduce.cuh", "s/op_min,/op_max,/", "operators" },
    { "engine/base/operator.c", "s/DOUBLE_ROW = 280/DOUBLE_ROW = 272/", "272, 280" },
    { "kernels/reduce_launch.cuh", "s/flag_onto = 0x200/flag_onto = 0x400/", "0x200, 0x400" },
  }
  it("holds of the project", function()
    local r = check("engine/base/ring.h", "")
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
  end)
  for _, fault in ipairs(faults) do
    it(("finds %s in %s"):format(fault[2], fault[1]), function()
      local r = check(fault[1], fault[2])
      assert.matches(fault[3], r.stderr, 1, true)
      assert.equal(1, r.status)
    end)
  end
end)
