-- Which tasks become one, and what it is to the layers below.
local ffi = require("ffi")
local program = require("spec.task.program")
local c = require("spec.support.cdef")("fold/window.h", "fold/fold.h", "fold/shape.h")
local rules = require("spec.rule.rules")
jit.off(true, true)

local same, all, grown = program.same, program.all, program.grown
local clamped = { clamp = true }

local passed
local pass = ffi.cast("void (*)(void *, const cel_task *)", function(_, task)
  passed[#passed + 1] = task
end)

local told
local alone = ffi.cast("void (*)(void *, const cel_task *, const char *)",
  function(_, task, why) told[#told + 1] = tonumber(task.id) .. " " .. ffi.string(why) end)

-- Ids of tasks, and for each fold those of its steps.
local function left()
  local out = {}
  for i, task in ipairs(passed) do
    out[i] = tonumber(task.id)
    if task.folded ~= nil then
      out[i] = {}
      for s = 0, task.folded.steps - 1 do out[i][s + 1] = tonumber(task.folded.step[s].task.id) end
    end
  end
  return out
end

local function box_text(box, dims)
  local text = {}
  for d = 0, dims - 1 do
    text[d + 1] = ("%d-%d"):format(tonumber(box.min[d]), tonumber(box.max[d]))
  end
  return table.concat(text, "x")
end

describe("the window of folds", function()
  local p, window, work, u, v
  local function open(config)
    config = config or {}
    passed, told = {}, {}
    local settings = ffi.new("cel_fold_config")
    settings.machine = "CEL_FOLD_" .. (config.machine or "PROCESSOR")
    settings.ranks, settings.devices, settings.pass = config.ranks or 1, 1, pass
    settings.off, settings.stores = config.off or false, not config.leaves_out
    settings.alone = alone
    p = program.new({ step = config.step or 1000, breadth = 1000 })
    settings.rules = p.rules
    window = c.cel_fold_window_create(settings)
    p.on_task = function(task) c.cel_fold_window_add(window, task) end
    work = ffi.new("cel_work")
    work.references, work.alike = 1, true
    u, v = p:buffer({ 32 }, { init = true }), p:buffer({ 32 }, { init = true })
  end
  before_each(function() open() end)
  local function close()
    c.cel_fold_window_destroy(window)
    p:close()
  end
  after_each(close)

  local function task(spec)
    spec.range, spec.work = spec.range or { 32 }, spec.work or work
    spec.fold = spec.fold or 8
    return assert(p:submit(spec))
  end
  local function step(from, to, options)
    options = options or {}
    options[1], options[2] = { from, "read", grown(options.radius or 1), clamped },
      { to, options.mode or "discard_write", same(1) }
    return task(options)
  end

  it("takes so many steps together as they say, and the rest at a flush", function()
    local ids = {}
    for i = 1, 7 do
      ids[i] = step(i % 2 == 1 and u or v, i % 2 == 1 and v or u, { fold = 3 })
    end
    assert.same({ { ids[1], ids[2], ids[3] }, { ids[4], ids[5], ids[6] } }, left())
    c.cel_fold_window_flush(window)
    assert.equal(ids[7], left()[3])
  end)

  it("passes on at once what is not to be folded", function()
    local a = step(u, v, { fold = 1 })
    local b = step(v, u, { fold = 0 }) -- on one rank
    assert.same({ a, b }, left())
  end)

  it("takes as many as the table says together where nobody asks", function()
    close()
    open({ ranks = 8 }) -- 4 items each
    local ids = {}
    for i = 1, 6 do ids[i] = step(i % 2 == 1 and u or v, i % 2 == 1 and v or u, { fold = 0 }) end
    assert.same({ { ids[1], ids[2], ids[3], ids[4] } }, left())
    step(u, v, { fold = 0, radius = 4 }) -- none of which may follow
    assert.same({ ids[5], ids[6] }, left()[2])
  end)

  it("begins with what exchanges halos, and takes others behind it", function()
    close()
    open({ ranks = 8 })
    local a = step(u, v, { fold = 0, radius = 0 })
    assert.same({ a }, left())
    local b = step(u, v, { fold = 0 })
    local d = step(v, u, { fold = 0, radius = 0 })
    local e = step(u, v, { fold = 0 })
    c.cel_fold_window_flush(window)
    assert.same({ a, { b, d, e } }, left())
  end)

  it("writes few buffers that nobody has written, unless asked to", function()
    for _, fold in ipairs { 0, 8 } do
      close()
      open({ ranks = 8 })
      local changes, ids = ffi.new("uint64_t[4]"), {}
      local at = { [0] = p:buffer({ 32 }, { init = true }) }
      for i = 1, 4 do
        at[i] = p:buffer({ 32 })
        at[i].changes = changes + i - 1
      end
      for i = 1, 4 do
        ids[i] = step(at[i - 1], at[i], { fold = fold })
        changes[i - 1] = 1
      end
      for i = 3, 1, -1 do ids[#ids + 1] = step(at[i + 1], at[i], { fold = fold }) end
      c.cel_fold_window_flush(window)
      local of_new = { { ids[1], ids[2] }, { ids[3], ids[4], ids[5], ids[6] }, ids[7] }
      assert.same(fold == 0 and of_new or { ids }, left())
    end
  end)

  it("is full where the one that comes is to be among fewer", function()
    local ids = {}
    for i = 1, 3 do ids[i] = step(i % 2 == 1 and u or v, i % 2 == 1 and v or u) end
    local last = step(v, u, { fold = 3 })
    c.cel_fold_window_flush(window)
    assert.same({ { ids[1], ids[2], ids[3] }, last }, left())
  end)

  it("passes everything on where it is off", function()
    close()
    open({ off = true })
    local a, b = step(u, v), step(v, u)
    assert.same({ a, b }, left())
  end)

  -- What comes between, and how.
  local between = {
    ["a host task"] = function() return task({ kind = "host", { u, "read", all(1) } }) end,
    ["an epoch"] = function() return p:epoch() end,
    ["another range"] = function() return step(u, v, { range = { 31 } }) end,
    ["other cuts"] = function() return step(u, v, { granularity = { 4 } }) end,
    ["runs"] = function() return step(u, v, { oversubscribe = 2 }) end,
    ["weights"] = function() return step(u, v, { weights = { ranks = { 1 } } }) end,
    ["a place"] = function() return step(u, v, { placement = "once" }) end,
    ["a kernel with effects of its own"] = function()
      return step(u, v, { work = ffi.new("cel_work", { references = 1 }) })
    end,
    ["a reader of all"] = function()
      return task({ { u, "read", all(1) }, { v, "discard_write", same(1) } })
    end,
    ["a writer of other elements"] = function()
      return task({ range = { 31 }, { u, "read", same(1) },
        { v, "discard_write", { { program.span(0, 1, 1) } } } })
    end,
    ["a reader of what each rank has for itself"] = function()
      local own = p:buffer({ 32 }, { init = true, apart = true })
      return task({ { own, "read", same(1) }, { u, "read", same(1) },
        { v, "discard_write", same(1) } })
    end,
    ["a stencil in place"] = function()
      return task({ { u, "read", grown(1), clamped }, { u, "write", same(1) } })
    end,
  }
  for what, make in pairs(between) do
    it("ends with " .. what, function()
      local a, b = step(u, v), step(v, u)
      local between_id = make()
      assert.same({ a, b }, left()[1])
      local d, e = step(u, v), step(v, u)
      c.cel_fold_window_flush(window)
      local last = left()
      assert.same({ a, b }, table.remove(last, 1))
      local ids = {}
      for _, one in ipairs(last) do
        for _, id in ipairs(type(one) == "table" and one or { one }) do ids[#ids + 1] = id end
      end
      assert.same({ between_id, d, e }, ids)
    end)
  end

  -- Numbers of the accesses of what has left that nobody reads.
  local function unread(fold)
    local out = {}
    for i = 0, fold.accesses - 1 do
      local access = fold.access[i]
      if access.mode == c.CEL_MODE_DISCARD_WRITE and
          c.cel_fold_is_unread(fold, access.buffer) then
        out[#out + 1] = access.buffer == u and "u" or "v"
      end
    end
    return out
  end

  it("says which buffers a fold leaves that nobody reads before they are overwritten", function()
    local w = p:buffer({ 32 }, { init = true })
    local behind = {
      v = { function() step(u, v) end, function() step(w, v, { radius = 0 }) end,
        function() p:free(v) end },
      [""] = { function() step(v, w) step(u, v) end,
        function() step(u, v, { mode = "write" }) end,
        function()
          task { { w, "read", same(1) }, { v, "discard_write", same(1) }, range = { 31 } }
        end,
        function() p:epoch() step(u, v) end,
        function() task { kind = "host", { v, "read", same(1) } } step(u, v) end },
      ["u,v"] = { function() step(w, v, { radius = 0 }) step(v, u) end,
        function() p:free(v) p:free(u) end },
    }
    for expected, ways in pairs(behind) do
      for n, way in ipairs(ways) do
        passed = {}
        step(u, v, { fold = 2 })
        step(v, u, { fold = 2 })
        assert.equal(1, #passed)
        assert.same({}, unread(passed[1]))
        way()
        assert.equal(expected, table.concat(unread(passed[1]), ","), expected .. " " .. n)
        c.cel_fold_window_flush(window)
        close()
        open()
        w = p:buffer({ 32 }, { init = true })
      end
    end
  end)

  it("looks at the task that ends a fold, and at what is freed between its steps", function()
    local w = p:buffer({ 32 }, { init = true })
    local x = p:buffer({ 32 }, { init = true })
    step(u, v, { radius = 0 })
    step(v, w, { radius = 0 })
    p:free(v)
    step(w, u, { radius = 0 })
    task { { w, "read", same(1) }, { x, "discard_write", same(1) }, fold = 1 }
    step(u, w)
    assert.same({ "v" }, unread(passed[1]))
  end)

  it("ends with what reduces, where nobody reads around an item", function()
    local sums = ffi.new("cel_work")
    sums.references, sums.alike, sums.reducers = 1, true, 1
    local sum = p:buffer({ 1 })
    local function total(from, options)
      return task { { from, "read", same(1) }, fold = options and options.fold, work = sums,
        { sum, "discard_write", reducer = p:reducer(0) } }
    end
    local a, b = step(u, v, { radius = 0 }), step(v, u, { radius = 0 })
    local d = total(u)
    assert.same({ { a, b, d } }, left())
    assert.equal(4, passed[1].accesses) -- of u two, of v, and the rows
    assert.is_false(c.cel_fold_is_unread(passed[1], u))
    local e, f = step(u, v), total(v)
    local g = total(v, { fold = 1 })
    c.cel_fold_window_flush(window)
    assert.same({ { a, b, d }, e, f, g }, left())
    local h, i = step(u, v, { radius = 0, fold = 2 }), total(v)
    assert.same({ h, i }, left()[5])
  end)

  it("holds a fold back for that where there might have been more steps", function()
    close()
    open { leaves_out = true }
    local a, b = step(u, v), step(v, u)
    local w = p:buffer({ 32 }, { init = true })
    local other = task { { w, "write", same(1) }, fold = 1 }
    assert.same({}, left())
    local d = step(u, v)
    assert.same({ { a, b }, other }, left())
    c.cel_fold_window_flush(window)
    assert.same({ { a, b }, other, d }, left())
  end)

  it("holds no more tasks back than a fold may have, and none that main waits for", function()
    close()
    open { leaves_out = true }
    local w = p:buffer({ 32 }, { init = true })
    local ids = { step(u, v, { fold = 4 }), step(v, u, { fold = 4 }) }
    local first = task { { w, "write", same(1) }, fold = 1 }
    assert.same({}, left())
    local second = task { { w, "write", same(1) }, fold = 1 }
    assert.same({ ids, first, second }, left())
    passed = {}
    ids = { step(u, v, { fold = 4 }), step(v, u, { fold = 4 }) }
    task { { w, "write", same(1) }, fold = 1 }
    assert.same({}, left())
    p:epoch()
    assert.equal(3, #passed)
    assert.same(ids, left()[1])
    passed = {}
    for i = 1, 4 do ids[i] = step(i % 2 == 1 and u or v, i % 2 == 1 and v or u, { fold = 4 }) end
    assert.same({ ids }, left())
  end)

  it("lets frees go behind, and the last horizon, in order", function()
    close()
    open({ step = 1 })
    local w = p:buffer({ 4 }, { init = true })
    local a = step(u, v) -- and a horizon behind each
    p:free(w)
    local b = step(v, u)
    assert.same({}, left())
    c.cel_fold_window_flush(window)
    assert.same({ { a, b }, a + 2, b + 1 }, left())
  end)

  it("lets no horizon go behind a fold where one has left since the fold before", function()
    close()
    open({ step = 1 })
    for i = 1, 5 do
      passed = {}
      local a, b = step(u, v), step(v, u)
      c.cel_fold_window_flush(window)
      assert.same(i % 2 == 0 and { { a, b } } or { { a, b }, b + 1 }, left())
    end
    passed = {}
    local a = step(u, v) -- alone
    c.cel_fold_window_flush(window)
    assert.same({ a, a + 1 }, left())
  end)

  it("computes nothing twice where devices differ", function()
    close()
    open({ machine = "MIXED" })
    local a, b = step(u, v), step(v, u)
    local d = step(u, v, { radius = 0 })
    local e = step(v, u, { radius = 0 })
    c.cel_fold_window_flush(window)
    assert.same({ a, b, { d, e } }, left())
  end)

  -- What `access` number i of a fold touches for a chunk.
  local function image(fold, i, chunk)
    local out = ffi.new("cel_region")
    assert(c.cel_rule_eval(fold.access[i].use, chunk, out) == 0)
    local text = {}
    for b = 0, out.n - 1 do text[b + 1] = box_text(out.at[b], fold.dims) end
    c.cel_region_release(out)
    return table.concat(text, " ")
  end

  it("grows steps by what later ones read of them", function()
    step(u, v, { radius = 1 })
    step(v, u, { radius = 2 })
    step(u, v, { radius = 3 })
    c.cel_fold_window_flush(window)
    local fold, chunk = passed[1], rules.box({ 10 }, { 20 })
    local boxes = {}
    for s = 0, 2 do boxes[s + 1] = box_text(c.cel_fold_box(fold.folded, s, chunk), 1) end
    assert.same({ "5-25", "7-23", "10-20" }, boxes)
    assert.equal(3, fold.accesses) -- u read and written, v written
    assert.equal("4-26", image(fold, 0, chunk))
    assert.equal("0-32", image(fold, 0, rules.box({ 3 }, { 27 })))
    assert.equal("10-20", image(fold, 1, chunk))
    assert.equal("t x3", ffi.string(fold.name))
  end)

  it("reads what a step keeps of what it writes, and what both need of one buffer", function()
    step(u, v, { mode = "write" })
    step(v, u, { mode = "write" })
    c.cel_fold_window_flush(window)
    local fold, chunk = passed[1], rules.box({ 10 }, { 20 })
    assert.equal(4, fold.accesses)
    assert.equal("8-22", image(fold, 0, chunk)) -- u, for the first step
    assert.equal("9-21", image(fold, 2, chunk)) -- v, which the first step keeps
  end)

  it("reads the rim that no step writes", function()
    local inside = { min = { 4 }, max = { 28 } }
    step(u, v, { range = inside, radius = 2 })
    step(v, u, { range = inside, radius = 2 })
    c.cel_fold_window_flush(window)
    local fold = passed[1]
    local modes = {}
    for i = 0, fold.accesses - 1 do
      local access = fold.access[i]
      modes[i + 1] = access.buffer.id .. " " .. ffi.string(c.cel_mode_name(access.mode))
    end
    assert.same({ "0 read", "0 discard_write", "1 read", "1 discard_write" }, modes)
    local first, last = rules.box({ 4 }, { 10 }), rules.box({ 22 }, { 28 })
    assert.equal("2-14", image(fold, 0, first))
    assert.equal("2-4", image(fold, 2, first))
    assert.equal("28-30", image(fold, 2, last))
    assert.equal("", image(fold, 2, rules.box({ 12 }, { 18 })))
  end)

  -- A neighbourhood of `by` items around ends that meet.
  local function around_ends(by)
    local boxes = {}
    for turn = -1, 1 do
      local function end_of(which, shift)
        return { "+", { "+", { which, 0 }, shift }, { "*", { "buffer", 0 }, turn } }
      end
      boxes[#boxes + 1] = { { end_of("min", -by), end_of("max", by) } }
    end
    return boxes
  end

  it("lets steps grow around ends that meet", function()
    for i = 1, 3 do
      task { { i % 2 == 1 and u or v, "read", around_ends(i), clamped },
        { i % 2 == 1 and v or u, "discard_write", same(1) } }
    end
    c.cel_fold_window_flush(window)
    local fold = passed[1]
    local boxes = ffi.new("cel_box[8]")
    local function of(first, last)
      local text = {}
      for s = 0, 2 do
        local n = c.cel_fold_boxes(fold.folded, s, rules.box({ first }, { last }), boxes)
        local own = {}
        for i = 0, n - 1 do own[i + 1] = box_text(boxes[i], 1) end
        text[s + 1] = table.concat(own, " ")
      end
      return table.concat(text, ", ")
    end
    assert.is_true(c.cel_fold_wraps(fold.folded))
    assert.equal("5-25, 7-23, 10-20", of(10, 20))
    assert.equal("0-13 27-32, 0-11 29-32, 0-8", of(0, 8))
    assert.equal("15-32 0-3, 17-32 0-1, 20-30", of(20, 30))
    assert.equal("0-32, 1-31, 4-28", of(4, 28))
    local function turning(first, last)
      local text = {}
      for s = 0, 2 do
        local box = c.cel_fold_turning_box(fold.folded, s, rules.box({ first }, { last }))
        text[s + 1] = box_text(box, 1)
      end
      return table.concat(text, ", ")
    end
    assert.equal("5-25, 7-23, 10-20", turning(10, 20))
    assert.equal("-5-13, -3-11, 0-8", turning(0, 8))
    assert.equal("15-35, 17-33, 20-30", turning(20, 30))
    assert.equal("0-32, 1-31, 4-28", turning(4, 28))
    assert.equal("4-26", image(fold, 0, rules.box({ 10 }, { 20 })))
    assert.equal("0-14 26-32", image(fold, 0, rules.box({ 0 }, { 8 })))
    assert.equal("0-4 14-32", image(fold, 0, rules.box({ 20 }, { 30 })))
    assert.equal("0-8", image(fold, 1, rules.box({ 0 }, { 8 })))
  end)

  it("takes nothing with ends of its own behind what reads around ends", function()
    local longer = p:buffer({ 33 }, { init = true })
    local a = task { { u, "read", around_ends(1), clamped }, { v, "write", same(1) } }
    local b = task { { v, "read", grown(1), clamped }, { longer, "write", same(1) } }
    local d = task { { v, "read", grown(1), clamped }, { u, "write", same(1) } }
    local e = task { { u, "read", around_ends(1), clamped }, { v, "write", same(1) } }
    c.cel_fold_window_flush(window)
    assert.same({ a, { b, d }, e }, left())
  end)

  it("tells why a task that reads around its items is alone", function()
    local function why(spec)
      told = {}
      spec.line = 7
      local id = task(spec)
      c.cel_fold_window_flush(window)
      return (table.concat(told, "; "):gsub("%f[%d]" .. id .. " ", ""))
    end
    local around, into = { u, "read", grown(1), clamped }, { v, "write", same(1) }
    assert.equal("", why { around, into })
    assert.equal("", why { { u, "read", same(1) }, into, oversubscribe = 2 })
    assert.equal("", why { around, into, fold = 1 })
    assert.equal("oversubscribe cuts it into runs", why { around, into, oversubscribe = 2 })
    assert.equal("its kernel has atomics, printf, assembly, #include or __device__ variables",
      why { around, into, work = ffi.new("cel_work", { references = 1 }) })
    assert.equal("it reads around ends that not all of its buffers have",
      why { { u, "read", around_ends(1), clamped },
        { p:buffer({ 33 }, { init = true }), "write", same(1) } })
    assert.matches("it reads '.-' further than a neighbourhood around the item",
      why { { p:buffer({ 32768 }, { init = true }), "read", all(1) }, into })
    assert.matches("it writes '.-' elsewhere than at the item", why { range = { 31 }, around,
      { v, "discard_write", { { program.span(0, 1, 1) } } } })
    assert.matches("it reads '.-' around the item and writes it",
      why { around, { u, "write", same(1) } })
  end)

  it("tells what would be computed twice, and what comes between", function()
    close()
    open({ ranks = 8 })
    local a = step(u, v, { fold = 0, radius = 4 })
    assert.same({ a .. " ranks would compute more twice than messages cost" }, told)
    told = {}
    local b = step(u, v, { fold = 0 })
    task({ kind = "host", name = "look", line = 19, { u, "read", all(1) } })
    assert.same({ b .. " 'look' of line 19 comes next, and is no step" }, told)
    local d = step(u, v, { fold = 0 })
    told = {}
    task({ name = "less", line = 20, range = { 31 }, fold = 0, { v, "read", grown(1), clamped },
      { u, "discard_write", same(1) } })
    assert.equal(d .. " 'less' of line 20 comes next, and has another range", told[1])
    local e = step(u, v, { fold = 0 })
    told = {}
    task({ name = "whole", line = 21, range = { 32 }, fold = 0, { v, "read", all(1) },
      { u, "discard_write", same(1) } })
    assert.equal(e .. " 'whole' of line 21 comes next, and may not follow it", told[1])
    step(v, u, { fold = 0 })
    told = {}
    p:epoch()
    assert.matches("line %d+ waits", told[1])
    close()
    for machine, why in pairs { MIXED = "devices of several kinds", GPU = "has to ask for" } do
      open({ ranks = 2, machine = machine })
      step(u, v, { fold = 0, radius = 9 })
      assert.matches(why, told[1])
      close()
    end
    open()
  end)

  it("knows the shape of submissions that may be steps", function()
    local function shape(spec)
      spec.range = spec.range or { 32 }
      local group = p:group(spec)
      return c.cel_fold_has_shape(group.access, group.accesses)
    end
    local table_, large = p:buffer({ 16 }, { init = true }), p:buffer({ 5000 }, { init = true })
    local writes = { v, "discard_write", same(1) }
    assert.is_true(shape({ { u, "read", grown(1), clamped }, writes }))
    assert.is_true(shape({ { table_, "read", all(1) }, writes }))
    assert.is_true(shape({ { u, "read", same(1) }, { v, "read_write", reducer = p:reducer() } }))
    local group = p:group { range = { 32 }, { u, "read", same(1) }, writes }
    local access = ffi.cast("cel_access *", group.access)
    access[1].use.rule = nil -- as of a reducer that is still to be made
    assert.is_true(c.cel_fold_has_shape(access, 2))
    assert.is_false(shape({ { large, "read", all(1) }, writes }))
    assert.is_false(shape({ { u, "read", same(1) }, { v, "discard_write", all(1) } }))
  end)

  it("keeps nothing but what lives", function()
    for _ = 1, 3 do
      for i = 1, 16 do step(i % 2 == 1 and u or v, i % 2 == 1 and v or u) end
      c.cel_fold_window_retire(window, p:epoch())
    end
    local rules_before = c.cel_rules_count(p.rules)
    for i = 1, 16 do step(i % 2 == 1 and u or v, i % 2 == 1 and v or u, { radius = 1 + i % 3 }) end
    p:epoch()
    assert.is_true(c.cel_rules_count(p.rules) <= rules_before + 4)
  end)
end)
