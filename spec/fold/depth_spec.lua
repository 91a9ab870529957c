-- How many tasks are taken together that nobody has asked for.
local ffi = require("ffi")
local program = require("spec.task.program")
local c = require("spec.support.cdef")("fold/depth.h", "tuning.h")
jit.off(true, true)

local same, grown = program.same, program.grown
local clamped = { clamp = true }

describe("the depth of folds", function()
  -- Of a step that reads `reach` around in each dimension, behind others and
  -- as the first one.
  local function depth(range, reach, options)
    options = options or {}
    local ranks = options.ranks or 4
    local p = program.new({ ranks = ranks, step = 1000 })
    local depths = ffi.new("cel__fold_depths")
    depths.machine, depths.ranks = "CEL_FOLD_" .. (options.machine or "PROCESSOR"), ranks
    depths.devices, depths.room = options.devices or 1, options.room or 0
    local size = {}
    for d = 1, #range do size[d] = range[d] end
    local u, v = p:buffer(size, { init = true, size = 4 }), p:buffer(size, { size = 4 })
    local behind, first
    local why, reason = ffi.new("const char *[1]"), nil
    function p.on_task(task)
      if task.kind ~= ffi.cast("cel_task_kind", "CEL_TASK_KERNEL") then return end
      behind = c.cel__fold_depth(depths, task, false, why)
      reason = behind == 1 and ffi.string(why[0]) or nil
      first = c.cel__fold_depth(depths, task, true, why)
    end
    for _ = 1, 2 do -- the second time it knows the smallest chunk
      assert(p:submit { range = range, fold = options.fold or 0, cut = options.cut,
        granularity = options.granularity, weights = options.weights,
        { u, "read", options.boxes or grown(unpack(reach)), clamped },
        { v, options.mode or "discard_write", same(#range) },
        options.again and { u, "read", same(#range) } })
    end
    p:close()
    return behind, first, reason
  end

  it("is the table's by dimensions, and less for who reads further", function()
    assert.equal(16, (depth({ 4096 }, { 1 })))
    assert.equal(16, (depth({ 4096, 64 }, { 1, 1 })))
    assert.equal(8, (depth({ 4096, 64 }, { 2, 1 })))
    assert.equal(5, (depth({ 4096, 64 }, { 1, 3 })))
    assert.equal(1, (depth({ 4096, 64 }, { 9, 1 })))
    assert.equal(4, (depth({ 256, 16, 16 }, { 1, 1, 1 })))
    assert.equal(2, (depth({ 256, 16, 16 }, { 2, 1, 1 })))
  end)

  it("is what somebody asked for, whatever the table says", function()
    for _, ranks in ipairs { 1, 4 } do
      for _, fold in ipairs { 1, 7, 64 } do
        local behind, first = depth({ 8, 4096 }, { 3, 3 }, { fold = fold, ranks = ranks })
        assert.equal(fold, behind)
        assert.equal(fold, first)
      end
    end
  end)

  it("spares messages, or no fold begins on the processor", function()
    local function first(...) return (select(2, depth(...))) end
    assert.equal(16, first({ 4096, 64 }, { 1, 1 }))
    assert.equal(1, first({ 4096, 64 }, { 1, 1 }, { ranks = 1 }))
    assert.equal(1, first({ 4096, 64 }, { 0, 1 })) -- along what nobody cuts
    assert.equal(16, first({ 64, 64 }, { 0, 1 }, { cut = { true, true } }))
    assert.equal(1, first({ 4096 }, { 0 }))
    assert.equal(16, (depth({ 4096, 64 }, { 0, 1 }))) -- behind others
    assert.equal(64, (depth({ 4096 }, { 0 })))
  end)

  it("is as many as a link to the host asks for where a device holds too little", function()
    local function first(room, options)
      options = options or {}
      options.ranks, options.room = options.ranks or 1, room
      return (select(2, depth(options.range or { 64, 64 }, options.reach or { 1, 1 }, options)))
    end
    local all = 2 * 4 * 64 * 64
    assert.equal(1, first(all))
    assert.equal(16, first(all - 1))
    assert.equal(8, first(all - 1, { reach = { 1, 2 } }))
    assert.equal(1, first(all - 1, { reach = { 1, 17 } }))
    assert.equal(16, first(all - 1, { reach = { 0, 0 } }))
    assert.equal(1, first(all - 1, { machine = "MIXED" }))
    assert.equal(1, first(all - 1, { cut = { false, true } }))
    assert.equal(1, first(all - 1, { granularity = { 2 } }))
    assert.equal(1, first(all, { again = true })) -- a buffer counts once
    assert.equal(16, first(all - 1, { again = true }))
    -- Of the smallest chunk, and no further than neighbours are.
    local cube = { machine = "GPU", range = { 64, 8, 8 }, reach = { 1, 1, 1 } }
    assert.equal(1, first(all, cube))
    assert.equal(16, first(all - 1, cube))
    cube.ranks = 4
    assert.equal(1, first(all / 4, cube))
    assert.equal(16, first(all / 4 - 1, cube))
    cube.ranks = 8
    assert.equal(8, first(all / 8 - 1, cube))
  end)

  it("has GPUs take steps together around ends of two dimensions alone, where that spares no "
    .. "message", function()
    local function around(d, by)
      local ends = {}
      for i, which in ipairs { "min", "max" } do
        ends[i] = { "+", { which, d }, { "+", 2 * i - 3, { "*", { "buffer", d }, by } } }
      end
      return ends
    end
    local boxes, both = {}, {}
    for by = -1, 1 do
      boxes[#boxes + 1] = { around(0, by) }
      for beside = -1, 1 do both[#both + 1] = { around(0, by), around(1, beside) } end
    end
    for machine, alone in pairs { GPU = 1, PROCESSOR = 16 } do
      local options = { machine = machine, boxes = boxes, ranks = 1 }
      local behind, _, why = depth({ 4096 }, { 1 }, options)
      assert.equal(alone, behind)
      assert.equal(alone == 1 and
        "a launch of a GPU has steps that read around ends in two dimensions alone" or nil, why)
      options.ranks = 4
      assert.equal(machine == "GPU" and 64 or 16, (depth({ 4096 }, { 1 }, options)))
      options.ranks, options.boxes = 1, both
      assert.equal(16, (depth({ 4096, 4096 }, { 1, 1 }, options)))
    end
  end)

  it("asks for no more than neighbours have", function()
    assert.equal(8, (depth({ 32 }, { 1 })))
    assert.equal(4, (depth({ 32 }, { 2 })))
    assert.equal(10, (depth({ 31 }, { 1 }, { ranks = 3 })))
    assert.equal(1, (depth({ 4 }, { 2 })))
    assert.equal(8, (depth({ 32 }, { 1 }, { ranks = 3, granularity = { 8 } })))
    assert.equal(1, (depth({ 33 }, { 1 }, { ranks = 5, granularity = { 8 } })))
    assert.equal(3, (depth({ 33 }, { 1 }, { weights = { ranks = { 10, 3, 0, 20 } } })))
    assert.equal(16, (depth({ 33 }, { 1 }, { weights = { ranks = { 0, 0, 1, 0 } } })))
  end)

  it("computes no more twice than messages cost, or than is little of a chunk", function()
    assert.equal(4, (depth({ 64, 4096 }, { 1, 1 })))
    assert.equal(2, (depth({ 64, 4096 }, { 2, 1 })))
    assert.equal(1, (depth({ 64, 4096 }, { 1, 1 }, { mode = "read_write" }))) -- halos of both
    assert.equal(1, (depth({ 64, 32768 }, { 1, 1 })))
    assert.equal(16, (depth({ 1024, 32768 }, { 1, 1 })))
    assert.equal(1, (depth({ 64, 128, 128 }, { 1, 1, 1 })))
    for machine, range in pairs { GPU = { 8, 4194304 }, PROCESSOR = { 64, 32768 } } do
      local why = select(3, depth(range, { 1, 1 }, { machine = machine }))
      assert.equal("ranks would compute more twice than messages cost", why)
    end
    assert.equal(4, (depth({ 512, 512, 512 }, { 1, 1, 1 })))
  end)

  it("is none where devices differ", function()
    local behind, first, why = depth({ 4096, 64 }, { 1, 1 }, { machine = "MIXED" })
    assert.matches("devices of several kinds", why)
    assert.equal(1, behind)
    assert.equal(1, first)
  end)

  it("is on GPUs what launches take, whether it spares messages or not", function()
    local function both(range, reach, ranks)
      local behind, first = depth(range, reach, { machine = "GPU", ranks = ranks })
      return { behind, first }
    end
    local most = c.CEL_TUNE_FOLD_GPU
    for ranks, all in pairs { [1] = most, [4] = 64 } do
      assert.same({ all, all }, both({ 4096, 64 }, { 1, 1 }, ranks))
      local half = math.max(1, math.floor(all / 2))
      assert.same({ half, half }, both({ 4096, 64 }, { 2, 1 }, ranks))
      assert.same({ all, all }, both({ 4096 }, { 1 }, ranks))
      assert.same({ 1, 1 }, both({ 256, 16, 16 }, { 1, 1, 1 }, ranks))
      assert.equal(most, both({ 4096 }, { 0 }, ranks)[2])
    end
  end)

  it("is more where GPUs wait for each other's halos, and the less the longer these are", function()
    local function of(n, m, options)
      options.machine = "GPU"
      return (select(2, depth({ n, m }, { options.reach or 1, 1 }, options)))
    end
    for _, options in ipairs { { ranks = 2 }, { ranks = 1, devices = 2 } } do
      assert.equal(64, of(4096, 4096, options))
      assert.equal(32, of(16384, 16384, options))
      assert.equal(16, of(65536, 65536, options))
      assert.equal(50, of(100, 4096, options)) -- as many rows as a neighbour has
    end
    assert.equal(32, of(4096, 4096, { ranks = 2, reach = 2 }))
    assert.equal(16, of(4096, 4096, { ranks = 1 }))
    assert.equal(16, of(4096, 4096, { ranks = 2, reach = 0 }))
  end)
end)
