-- Folds on a GPU: spec/device/fold_check.c; and what a fold loads where there is none.
local ffi = require("ffi")
local grid = require("spec.region.grid")
local c = require("spec.support.cdef")("device/fold.h")
ffi.cdef("cel_status cel__fold_carry_out(const cel_job *job);")
local celer = require("spec.support.celer")
local check = celer.command():gsub("celer$", "fold_check")

describe("a fold on a GPU", function()
  it("has the bits of its steps one after another", function()
    local r = celer.exec({ check, "random", "300", tostring(os.time()) })
    if r.status == 77 then return pending((r.stdout:gsub("\n", ""))) end
    assert.equal("300 folds\n", r.stdout .. r.stderr)
    assert.equal(0, r.status)
  end)
end)

describe("a fold in one launch without a GPU", function()
  -- Between the rows at both ends of a range that meet there may be no memory.
  it("loads no more of a rim than its steps touch, at either end", function()
    local ROWS, COLUMNS, UNKNOWN = 12, 5, "\xcb"
    local memory = ffi.new("uint8_t[2][60]")
    ffi.fill(memory, ffi.sizeof(memory), 1)
    local loaded = {}
    local work = ffi.new("cel_work", { fn = function(_, call)
      local view = call.view[0]
      assert(view.layout.max[0] == ROWS and view.layout.max[1] == COLUMNS)
      for i = 0, ROWS - 1 do
        local row = ffi.string(ffi.cast("char *", view.base) + i * COLUMNS, COLUMNS)
        loaded[i] = row:gsub(UNKNOWN, "."):gsub("\1", "x")
      end
      return 0
    end })
    -- The first step writes all but the last column of what the second one reads.
    local use = ffi.new("cel_fold_view[2][2]")
    use[0][0] = { array = 0, element_size = 1, writes = true }
    use[1][0] = { array = 0, element_size = 1, below = { 1, 0, 0 }, above = { 1, 1, 0 },
      wraps = { true, false, false } }
    use[1][1] = { array = 1, element_size = 1, writes = true }
    local layout = grid.box(0, 0, 0, ROWS, COLUMNS, 1)
    local view = ffi.new("cel_view[2][2]")
    view[0][0] = { base = memory[0], layout = layout, box = grid.box(-2, 0, 0, 3, 4, 1) }
    view[1][0] = { base = memory[0], layout = layout, box = grid.box(-2, 0, 0, 3, 5, 1) }
    view[1][1] = { base = memory[1], layout = layout, box = grid.box(-1, 0, 0, 2, 4, 1) }
    local step = ffi.new("cel_fold_call[2]")
    for s = 0, 1 do
      step[s] = { work = work, use = use[s] }
      step[s].call = { chunk = view[s][s].box, range = grid.box(0, 0, 0, ROWS, 4, 1),
        views = 1 + s, view = view[s] }
    end
    local array = ffi.new("cel_fold_array[2]")
    for a = 0, 1 do
      array[a] = { dims = 2, element_size = 1, memory = { memory[a], layout }, live = true }
    end
    local fold = ffi.new("cel_fold_job", { manner = "CEL_FOLD_TO_SPARE", steps = 2, step = step,
      arrays = 2, array = array })
    local job = ffi.new("cel_job", { kind = "CEL_JOB_FOLD", fold = fold })
    assert.equal(0, tonumber(c.cel__fold_carry_out(job)))
    work.fn:free()
    for i = 0, ROWS - 1 do
      assert.equal((i < 3 or i >= ROWS - 2) and "....x" or ".....", loaded[i])
    end
  end)
end)
