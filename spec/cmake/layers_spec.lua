-- The layers check can fail: every kind of fault is put into a small tree.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

-- Runs the check on an engine/ that holds a file with one line, beside a few others.
local function check(path, line)
  local root = scratch.path()
  local script = [[
    mkdir -p "$1/base" "$1/region" "$1/device/cuda" "$(dirname "$1/$2")"
    touch "$1/base/a.h" "$1/base/arena.h" \
      "$1/device/lane.h" "$1/device/cuda/gpu.h"
    echo '#include "base/a.h"' > "$1/base/b.h"
    echo '#include "base/b.h"' > "$1/base/c.h"
    printf '%s\n' "$3" > "$1/$2"
    luajit cmake/layers.lua "$1"; status=$?
    rm -r "$1"; exit $status]]
  return celer.exec({ "sh", "-c", script, "sh", root, path, line })
end

describe("layers.lua", function()
  local allowed = {
    { "region/box.c", '#include "base/arena.h"' },
    { "region/box.c", "#include <stdint.h>" },
    { "base/park.c", "#include <linux/futex.h>" },
    { "exec/run.c", "#include <pthread.h>" },
    { "embed/run.c", "#include <lua.h>" },
    { "base/a.c", '#include "base/arena.h"' },
    { "device/cuda/x.c", '#include "device/cuda/gpu.h"' },
    { "device/cuda/x.c", '#include "device/lane.h"' },
    { "device/module/x.c", '#include "device/cuda/gpu.h"' },
    { "comm/link/x.c", '#include "device/cuda/gpu.h"' },
  }
  for _, case in ipairs(allowed) do
    it(("lets %s have %s"):format(case[1], case[2]), function()
      local r = check(case[1], case[2])
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
    end)
  end

  local refused = {
    { "base/arena.c", '#include "region/box.h"', "comes after" },
    { "region/box.c", '#include "base/none.h"', "no such file" },
    { "region/box.c", '#include "box.h"', "folder/name" },
    { "region/box.c", '#  include <pthread.h>', "pure" },
    { "base/park.c", "#include <pthread.h>", "pure" },
    { "base/park.h", "#include <linux/futex.h>", "pure" },
    { "instr/box.c", "#include <mpi.h>", "pure" },
    { "device/gpu.c", "#include <lua.h>", "no business" },
    { "celer.h", "#include <stdint.h>", "no layer" },
    { "base/a.c", '#include "base/c.h"', "include each other: base/a, base/b, base/c" },
    { "device/x.c", '#include "device/cuda/gpu.h"', "device does not stand on device/cuda" },
    { "device/cpu/x.c", '#include "device/cuda/gpu.h"', "device/cpu does not stand on" },
    { "other/x.c", "#include <stdint.h>", "no layer" },
  }
  for _, case in ipairs(refused) do
    it(("refuses %s %s"):format(case[1], case[2]), function()
      local r = check(case[1], case[2])
      assert.equal(1, r.status)
      assert.matches(case[3], r.stderr)
    end)
  end
end)
