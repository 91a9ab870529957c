-- Folds on a device that cannot hold what all their steps touch: in sweeps.
local ffi = require("ffi")
local machine = require("spec.instr.machine")
local program = require("spec.task.program")
local c = require("spec.support.cdef")("fold/window.h")
jit.off(true, true)

local same, grown = program.same, program.grown
local ROWS, WIDTH, STEPS = 256, 8, 8 -- rows of 64 bytes

describe("the steps of a fold", function()
  local m = machine.each()
  local window, pass, work

  local function open(config)
    m:open(config)
    pass = ffi.cast("void (*)(void *, const cel_task *)", function(_, task) m:take(task) end)
    local settings = ffi.new("cel_fold_config", { machine = "CEL_FOLD_PROCESSOR", ranks = 1,
      laps = 99, pass = pass, rules = m.program.rules })
    window = c.cel_fold_window_create(settings)
    m.program.on_task = function(task) c.cel_fold_window_add(window, task) end
    work = ffi.new("cel_work")
    work.references, work.alike = 1, true
  end

  local function close()
    c.cel_fold_window_destroy(window)
    pass:free()
  end

  -- So many steps to and fro, `fold` of them together; elements that were copied.
  local function copied(fold, steps, config)
    config = config or {}
    open({ devices = { 1 }, grain = 64, capacity = config.capacity or 16 * 1024,
      interior_bytes = 2 ^ 20 })
    local rows = config.rows
    m.chunk = rows and ffi.new("cel_box", { { rows[1], 0, 0 }, { rows[2], WIDTH, 1 } })
    local u = m:buffer({ ROWS, WIDTH }, { init = true })
    local v = m:buffer({ ROWS, WIDTH }, { init = true })
    local reads = config.reads or grown(1, 0)
    for step = 0, steps - 1 do
      if config.at then reads = config.at(step) end
      m:submit({ range = { ROWS, WIDTH }, work = work, fold = fold, split = config.split,
        granularity = config.granularity,
        { u, "read", reads, { clamp = true } },
        { v, "discard_write", same(2) } })
      u, v = v, u
    end
    c.cel_fold_window_flush(window)
    local sum = 0
    for _, copy in ipairs(m:of("copy")) do sum = sum + copy.volume end
    local chunks, tasks = {}, {}
    for i, kernel in ipairs(m:of("kernel")) do chunks[i], tasks[i] = kernel.chunk, kernel.task end
    close()
    assert.is_nil(m.failure)
    return sum, chunks, tasks
  end

  it("bring rows once for all of them where a device holds a part", function()
    local alone = copied(1, STEPS * 4)
    local together = copied(STEPS, STEPS * 4)
    assert.is_true(together < 0.25 * alone, ("%d of %d"):format(together, alone))
  end)

  it("compute each row once, and none that lacks something", function()
    local _, chunks = copied(STEPS, STEPS)
    local rows = {}
    for _, chunk in ipairs(chunks) do
      local from, to = chunk:match "^(%d+):(%d+) "
      for row = from, to - 1 do rows[row] = (rows[row] or 0) + 1 end
    end
    for row = 0, ROWS - 1 do assert.equal(STEPS, rows[row]) end
    assert.is_true(#chunks > STEPS)
  end)

  it("go one after another where all that they touch fits", function()
    local _, chunks = copied(STEPS, STEPS, { capacity = 64 * 1024 })
    assert.equal(STEPS, #chunks)
  end)

  -- What reads rows from `below` before the item to `above` behind it, around
  -- the ends.
  local function around(below, above)
    local boxes = {}
    for turn = -1, 1 do
      local rows = {}
      for i, way in ipairs { { "min", -below }, { "max", above } } do
        rows[i] = { "+", { "+", { way[1], 0 }, way[2] }, { "*", { "buffer", 0 }, turn } }
      end
      boxes[#boxes + 1] = { rows, { { "min", 1 }, { "max", 1 } } }
    end
    return boxes
  end

  it("count no rows around ends that a chunk has nothing of", function()
    local function count(first, last, capacity)
      return #select(2, copied(STEPS, STEPS,
        { reads = around(1, 1), rows = { first, last }, capacity = capacity * 1024 }))
    end
    assert.equal(STEPS, count(64, 128, 12)) -- 78 rows of both, 9.75 KiB
    assert.equal(2 * STEPS - 1, count(0, 64, 12))
    -- Else it has bands, of what is not around ends no seam.
    local inner, outer = count(64, 128, 8), count(0, 64, 8)
    assert.is_true(inner > STEPS and outer > inner, ("%d, %d"):format(inner, outer))
  end)

  -- Two folds, whose steps read as far as `far` says of step 0 and so on, find what the steps
  -- before them have left. False: steps did not go in bands.
  local function finds(config, far)
    local _, chunks, tasks = copied(STEPS, 2 * STEPS, config)
    local step, n = {}, 0
    for _, id in ipairs(tasks) do step[id] = true end
    for id = 0, 99 do if step[id] then step[id], n = n, n + 1 end end
    local left = { [0] = {}, {} } -- of both buffers: by which step each row is
    for i, chunk in ipairs(chunks) do
      local s, from, to = step[tasks[i]], chunk:match "^(%d+):(%d+) "
      local own, first = s - s % STEPS, s % STEPS == 0
      local below, above = far(s)
      for row = from - below, to - 1 + above do
        local by = left[s % 2][row % ROWS] or -1
        assert.is_true(first and by < own or by == s - 1, ("step %d reads row %d of step %d")
          :format(s, row, by))
      end
      for row = from, to - 1 do left[1 - s % 2][row] = s end
    end
    assert.equal(2 * STEPS, n)
    return #chunks > 4 * STEPS
  end

  it("read around ends what the step before has left there", function()
    for below = 0, 3 do
      for above = 0, 3 do
        for _, rows in ipairs { { 0, 64 }, { 23, ROWS }, { 24, ROWS }, { 30, ROWS },
          { 0, ROWS - 22 }, { 64, 192 }, { 0, ROWS } } do
          finds({ reads = around(below, above), rows = rows, capacity = 14 * 1024 },
            function() return below, above end)
        end
      end
    end
  end)

  -- The last step needs rows of the other end, and goes in no bands with the others.
  it("compute rows at the other end that a later step alone reads", function()
    local function is_last(s) return s % STEPS == STEPS - 1 end
    local function at(s) return is_last(s) and around(20, 20) or same(2) end
    local function far(s)
      if is_last(s) then return 20, 20 end
      return 0, 0
    end
    local banded = 0
    for _, rows in ipairs { { 0, 128 }, { 128, ROWS }, { 64, 192 }, { 0, ROWS } } do
      for capacity = 3, 14 do
        local bands = finds({ at = at, rows = rows, capacity = capacity * 1024 }, far)
        banded = banded + (bands and 1 or 0)
      end
    end
    assert.is_true(banded > 20, banded)
  end)

  it("go one after another where rows must not be divided", function()
    local _, chunks = copied(STEPS, STEPS, { granularity = { 64 }, capacity = 24 * 1024 })
    for i = 1, #chunks do
      local from = chunks[i]:match "^(%d+):"
      assert.equal(0, from % 64)
    end
  end)

  it("are one kernel for each device, which exchange a deep halo once", function()
    for _, fold in ipairs { 1, STEPS } do
      open({ devices = { 1, 2 }, fuses = true, interior_bytes = 2 ^ 20 })
      local u, v = m:buffer({ ROWS, WIDTH }), m:buffer({ ROWS, WIDTH })
      local function step()
        m:submit({ range = { ROWS, WIDTH }, work = work, fold = fold,
          { u, "read", grown(1, 0), { clamp = true } }, { v, "discard_write", same(2) } })
        u, v = v, u
      end
      m:submit({ range = { ROWS, WIDTH }, { u, "discard_write", same(2) } })
      for _ = 1, 2 * STEPS do step() end
      c.cel_fold_window_flush(window)
      assert.equal(2 + 2 * 2 * STEPS / fold, #m:of("kernel"))
      local copies, volume = m:of("copy"), 0
      for _, copy in ipairs(copies) do volume = volume + copy.volume end
      assert.equal(2 * 2 * STEPS / fold, #copies)
      assert.equal(2 * 2 * STEPS * WIDTH, volume)
      close()
      assert.is_nil(m.failure)
    end
  end)
end)
