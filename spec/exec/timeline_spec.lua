-- A timeline's file: what spans become, where it ends early, and how the files of
-- ranks become one.
local cjson = require("cjson")
local scratch = require("spec.support.scratch")
local ffi = require("ffi")
local c = require("spec.support.cdef")("exec/trace/timeline.h", "exec/trace/timeline_files.h",
  "base/status.h", "tuning.h")

-- The events of a file that are no metadata.
local function events(path)
  local out = {}
  for _, event in ipairs(cjson.decode(scratch.look(path))) do
    if event.ph ~= "M" then out[#out + 1] = event end
  end
  return out
end

-- Names of tracks, "rank tid" to text.
local function tracks(path)
  local out = {}
  for _, event in ipairs(cjson.decode(scratch.look(path))) do
    if event.name == "thread_name" then
      out[event.pid - 1 .. " " .. event.tid] = event.args.name
    end
  end
  return out
end

describe("a timeline", function()
  local path, keep
  before_each(function() path, keep = scratch.path(), {} end)
  after_each(function()
    for _, suffix in ipairs { "", ".1", ".2" } do os.remove(path .. suffix) end
  end)

  local function open(rank, offset)
    local out = ffi.new("cel_timeline *[1]")
    assert.equal(0, tonumber(c.cel_timeline_open(ffi.new("cel_timeline_config",
      { path, rank or 0, rank or 0 }), out)))
    c.cel_timeline_start(out[0], offset or 0, 4)
    return out[0]
  end

  local function close(timeline)
    assert.equal(0, tonumber(c.cel_timeline_close(timeline)))
    c.cel_timeline_destroy(timeline)
  end

  -- A span of [begin, begin + took) ns.
  local function add(timeline, kind, begin, took, fields)
    local span = ffi.new("cel_span", { dims = -1, from = -1, to = -1, device = -1, lane = -1 })
    span.kind, span.begin, span["end"] = ffi.cast("cel_span_kind", "CEL_SPAN_" .. kind), begin,
      begin + took
    for key, value in pairs(fields or {}) do
      if type(value) == "string" then
        value = ffi.new("char[?]", #value + 1, value)
        keep[#keep + 1] = value
      end
      span[key] = value
    end
    c.cel_timeline_add(timeline, span)
  end

  it("says of each span what is known of it", function()
    local t = open(0, 1000)
    add(t, "KERNEL", 2000, 1500, { name = 'st"e\\p', task = 7, device = 1, lane = 2, dims = 2,
      box = { { 0, 4, 0 }, { 8, 12, 1 } }, issued = 500 })
    add(t, "COPY", 4000, 10, { name = "step", bytes = 96, from = 0, to = 2, device = 1, lane = 5 })
    add(t, "HOST", 4000, 10, { lane = -3, failed = true })
    add(t, "WAIT", 4000, 250)
    close(t)
    local names = tracks(path)
    local all = {}
    for _, e in ipairs(events(path)) do all[e.cat] = e end
    local k = all.kernel
    assert.same({ ph = "X", pid = 1, tid = k.tid, ts = 3, dur = 1.5, cat = "kernel",
      name = 'st"e\\p', args = { task = 7, box = "[0,8)x[4,12)", queued_us = 1.5 } }, k)
    assert.equal("device 1 kernels 2", names["0 " .. k.tid])
    assert.equal("copy step", all.copy.name)
    assert.equal("device 1 copies 1", names["0 " .. all.copy.tid])
    assert.same({ task = 0, bytes = 96, from = "host", to = "device memory 1" }, all.copy.args)
    assert.is_true(all.host.args.failed)
    assert.equal("collective group 2", names["0 " .. all.host.tid])
    assert.equal("main", names["0 " .. all.wait.tid])
  end)

  it("keeps what came first before what came next, where a clock says otherwise", function()
    local t = open()
    add(t, "KERNEL", 1000, 500, { device = 0, lane = 0 })
    add(t, "KERNEL", 1400, 600, { device = 0, lane = 0 })
    add(t, "KERNEL", 1300, 100, { device = 0, lane = 0 })
    close(t)
    local at = {}
    for i, e in ipairs(events(path)) do at[i] = { e.ts, e.dur } end
    assert.same({ { 1, 0.5 }, { 1.5, 0.5 }, { 2, 0 } }, at)
  end)

  it("cuts names where a character ends", function()
    local t = open()
    add(t, "KERNEL", 1, 1, { name = ("x"):rep(46) .. "\195\164tail", device = 0, lane = 0 })
    add(t, "KERNEL", 1, 1, { name = ("\226\130\172"):rep(30), device = 0, lane = 0 })
    close(t)
    local all = events(path)
    assert.equal(("x"):rep(46), all[1].name)
    assert.equal(("\226\130\172"):rep(15), all[2].name)
  end)

  it("loses nothing, however fast it comes", function()
    local t, n = open(), 3 * c.CEL_TUNE_TIMELINE_RECORDS + 5
    for i = 1, n do add(t, "KERNEL", 10 * i, 5, { task = i, device = 0, lane = 0 }) end
    close(t)
    local all = events(path)
    assert.equal(n, #all)
    for i = 1, n do assert.equal(i, all[i].args.task) end
  end)

  it("gives messages that are under way together tracks of their own", function()
    local t = open()
    for track = 0, 129 do assert.equal(track, c.cel_timeline_post(t, true)) end
    assert.equal(0, c.cel_timeline_post(t, false))
    c.cel_timeline_arrive(t, true, 70)
    c.cel_timeline_arrive(t, true, 3)
    assert.equal(3, c.cel_timeline_post(t, true))
    assert.equal(70, c.cel_timeline_post(t, true))
    assert.equal(130, c.cel_timeline_post(t, true))
    close(t)
  end)

  -- Three ranks; each sends to the next.
  local function ring()
    for rank = 0, 2 do
      local t = open(rank)
      add(t, "SEND", 100, 10, { peer = (rank + 1) % 3, sequence = 5, bytes = 8, lane = 0 })
      add(t, "RECEIVE", 90, 40, { peer = (rank - 1) % 3, sequence = 5, bytes = 8, lane = 0 })
      close(t)
    end
  end

  local function merge(patience)
    local missing = ffi.new("int64_t[1]", -1)
    local status = tonumber(c.cel_timeline_merge(path, 3, patience or 0, missing))
    return status, tonumber(missing[0])
  end

  it("is one of all ranks, with an arrow from each send to its receive", function()
    ring()
    assert.same({ 0, 0 }, { merge() })
    assert.is_nil(scratch.look(path .. ".1"))
    assert.is_nil(scratch.look(path .. ".2"))
    local ends = { s = {}, f = {} }
    for _, e in ipairs(events(path)) do
      if e.ph ~= "X" then
        assert.is_nil(ends[e.ph][e.id])
        ends[e.ph][e.id] = e
      end
    end
    local n = 0
    for id, s in pairs(ends.s) do
      local f = ends.f[id]
      assert.equal((s.pid - 1 + 1) % 3, f.pid - 1)
      assert.is_true(s.ts <= f.ts and s.ts >= 0.1 and f.ts < 0.13)
      n = n + 1
    end
    assert.equal(3, n)
  end)

  it("has what was written by ranks that did not come to their end", function()
    ring()
    local text = scratch.look(path .. ".1")
    local cut = text:find('"ph":"X"', 1, true) -- within the first event
    scratch.write(path .. ".1", text:sub(1, cut + 60))
    local whole = scratch.look(path)
    scratch.write(path, whole:sub(1, #whole - 30))
    os.remove(path .. ".2")
    assert.same({ 0, 1 }, { merge(2000) })
    local kinds = {}
    for _, e in ipairs(events(path)) do kinds[#kinds + 1] = e.pid .. e.cat end
    assert.same({ "1send", "1message", "1receive", "1message" }, kinds)
  end)

  it("waits for ranks that are still writing", function()
    ring()
    local text = scratch.look(path .. ".2")
    scratch.write(path .. ".2", text:sub(1, -3))
    os.execute(("(sleep 0.2; printf ']\\n' >> '%s.2') &"):format(path))
    assert.same({ 0, 0 }, { merge(100000000) })
    assert.equal(12, #events(path))
  end)

  it("says what cannot be written", function()
    os.remove(path)
    path = path .. "/none/here"
    local out = ffi.new("cel_timeline *[1]")
    assert.not_equal(0, tonumber(c.cel_timeline_open(ffi.new("cel_timeline_config",
      { path, 0, 0 }), out)))
    assert.equal("the timeline cannot be written: " .. path .. ": No such file or directory",
      ffi.string(c.cel_error_last().text))
  end)

  it("says that a disk is full", function()
    local timeline = ffi.new("cel_timeline *[1]")
    assert.equal(0, tonumber(c.cel_timeline_open(ffi.new("cel_timeline_config",
      { "/dev/full", 0, 0 }), timeline)))
    c.cel_timeline_start(timeline[0], 0, 4)
    for i = 1, 100000 do add(timeline[0], "KERNEL", i, 1, { device = 0, lane = 0 }) end
    assert.not_equal(0, tonumber(c.cel_timeline_close(timeline[0])))
    assert.equal("the timeline ends early: /dev/full: No space left on device",
      ffi.string(c.cel_error_last().text))
    c.cel_timeline_destroy(timeline[0])
  end)
end)
