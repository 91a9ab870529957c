-- celer run --trace FILE: what is in the file, on one rank and on several, and
-- when the run fails.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local script = require("spec.support.script")
local scratch = require("spec.support.scratch")

-- A stencil with halos, a host task, an object that ends.
local PROGRAM = [==[
local n, steps = 256, 20
local k = celer.kernel [=[
  kernel void smooth(item<1> it, in<float, 1> a, out<float, 1> b) {
    const int i = it[0], n = it.range(0);
    b(i) = (a(i > 0 ? i - 1 : 0) + a(i) + a(i < n - 1 ? i + 1 : i)) / 3;
  }
]=]
local a = celer.buffer("float", n, { name = "a", init = function(i) return i end })
local b = celer.buffer("float", n, { name = "b" })
local o = celer.host_object(function() return {} end)
for _ = 1, steps do
  local from, to = a, b
  q:submit(function(cg)
    cg:name "smooth \"it\""
    cg:parallel_for(n, k, cg:read(from, celer.neighborhood(1)), cg:discard_write(to))
  end)
  a, b = b, a
end
q:submit(function(cg)
  cg:name "look"
  cg:host_task(1, function(_, v) local _ = v[0] end, cg:read(a, celer.all), cg:side_effect(o))
end)
q:wait()
o:free()
q:wait()
]==]

local folder

-- Runs `text` with a timeline; gives its events as well, nil of a file that is cut.
local function trace(text, shape, options)
  options = options or {}
  local before = { "--trace", folder .. "/t.json" }
  for _, word in ipairs(options.before or { "--backend", "cpu" }) do before[#before + 1] = word end
  local r = script.run(text, shape, { before = before, env = options.env })
  local file = scratch.look(folder .. "/t.json") or ""
  local whole, events = pcall(cjson.decode, file)
  return r, whole and events or nil, file
end

-- Spans by track, in the order of the file; and arrows by id.
local function sort_out(events)
  local tracks, names, arrows, kinds = {}, {}, { s = {}, f = {} }, {}
  for _, e in ipairs(events) do
    local track = e.pid .. " " .. e.tid
    if e.ph == "X" then
      tracks[track] = tracks[track] or {}
      table.insert(tracks[track], e)
      kinds[e.cat] = (kinds[e.cat] or 0) + 1
    elseif e.ph == "M" then
      if e.name == "thread_name" then names[track] = e.args.name end
    else
      assert(not arrows[e.ph][e.id], "an arrow ends twice")
      arrows[e.ph][e.id] = e
    end
  end
  return tracks, names, arrows, kinds
end

local function ns(us) return math.floor(us * 1000 + 0.5) end

-- Spans of a track lie one after another, or one in another.
local function check_tracks(tracks, names)
  for track, spans in pairs(tracks) do
    assert.truthy(names[track], track)
    table.sort(spans, function(x, y)
      if x.ts ~= y.ts then return x.ts < y.ts end
      return x.dur > y.dur
    end)
    local open = {} -- ends
    for _, e in ipairs(spans) do
      local begin, finish = ns(e.ts), ns(e.ts) + ns(e.dur)
      while #open > 0 and open[#open] <= begin do open[#open] = nil end
      assert.is_true(#open == 0 or finish <= open[#open], names[track] .. ": " .. e.name)
      assert.is_true(#open == 0 or names[track] == "main", names[track] .. " nests")
      open[#open + 1] = finish
    end
  end
end

-- Whether the span that an end of an arrow lies in is of that kind.
local function lies_in(e, tracks, kind)
  for _, span in ipairs(tracks[e.pid .. " " .. e.tid]) do
    if ns(span.ts) <= ns(e.ts) and ns(e.ts) < ns(span.ts) + ns(span.dur) then
      return span.cat == kind and span
    end
  end
end

local function check_arrows(tracks, arrows)
  local n = 0
  for id, s in pairs(arrows.s) do
    local f = assert(arrows.f[id], "a message that nobody received")
    local sent, received = lies_in(s, tracks, "send"), lies_in(f, tracks, "receive")
    assert.truthy(sent and received)
    assert.equal(sent.args.bytes, received.args.bytes)
    assert.equal(sent.args.task, received.args.task)
    assert.truthy(sent.name:find("^to " .. f.pid - 1))
    assert.truthy(received.name:find("^from " .. s.pid - 1))
    assert.is_true(s.ts <= f.ts)
    n = n + 1
  end
  for id in pairs(arrows.f) do assert.truthy(arrows.s[id]) end
  return n
end

describe("--trace", function()
  before_each(function()
    folder = scratch.folder()
  end)
  after_each(function() os.execute("rm -r " .. folder) end)

  it("says what happened on one rank", function()
    local r, events = trace(PROGRAM, { devices = 2 })
    assert.same({ 0, "" }, { r.status, r.stderr })
    local tracks, names, _, kinds = sort_out(events)
    check_tracks(tracks, names)
    assert.equal(40, kinds.kernel)
    assert.equal(21, kinds.submit)
    assert.equal(1, kinds.host)
    assert.equal(1, kinds.release)
    for _, kind in ipairs { "copy", "init", "alloc", "schedule", "horizon", "epoch", "wait" } do
      assert.is_true(kinds[kind] > 0, kind)
    end
    local seen = {}
    for _, e in ipairs(events) do
      if e.cat == "kernel" then
        assert.equal('smooth "it"', e.name)
        assert.truthy(e.args.line:find("/case.lua:16$"), e.args.line)
        seen[names[e.pid .. " " .. e.tid]:match("^device %d kernels")] = e.args.box
      end
    end
    assert.same({ ["device 0 kernels"] = "[0,128)", ["device 1 kernels"] = "[128,256)" }, seen)
  end)

  it("names the lines that call a function which submits", function()
    local _, events = trace([==[
local v = celer.buffer("int", 4, { name = "v" })
local k = celer.kernel [=[ kernel void set(item<1> it, out<int, 1> v) { v(it[0]) = 1; } ]=]
local function declare(cg) cg:parallel_for(4, k, cg:discard_write(v)) end
local function step(name)
  q:submit(function(cg)
    cg:name(name)
    cg:parallel_for(4, k, cg:discard_write(v))
  end)
end
local function twice(name)
  step(name)
end
step "a"
step "b"
twice "c"
q:submit(function(cg)
  cg:name "d"
  cg:parallel_for(4, k, cg:discard_write(v))
end)
q:submit(function(cg)
  cg:name "e"
  declare(cg)
end)
q:submit(declare)
local function last() v:fill(2) end
last()
]==], { devices = 1 })
    local seen = {}
    for _, e in ipairs(events) do
      if e.cat == "kernel" then
        local function bare(text) return text and text:gsub("[^ ]*/case%.lua", "x") end
        seen[#seen + 1] = ("%s %s from %s"):format(e.name, bare(e.args.line),
          bare(e.args.called_from))
      end
    end
    assert.same({ "a x:8 from x:14", "b x:8 from x:15", "c x:8 from x:12, x:16",
      "d x:19 from nil", "e x:4 from x:23", "set x:4 from x:25", "fill x:26 from x:27" },
      seen)
  end)

  it("shows each task first submitted, then scheduled, then carried out", function()
    local _, events = trace(PROGRAM, { devices = 1 })
    local first = {}
    for _, e in ipairs(events) do
      if e.cat == "submit" or e.cat == "schedule" or e.cat == "kernel" then
        first[e.cat] = first[e.cat] or {}
        first[e.cat][e.args.task] = e
      end
    end
    local n = 0
    for task, k in pairs(first.kernel) do
      assert.is_true(first.submit[task].ts < first.schedule[task].ts)
      assert.is_true(first.schedule[task].ts < k.ts)
      n = n + 1
    end
    assert.equal(20, n)
  end)

  for _, ranks in ipairs { 2, 3, 4 } do
    it(("is one file of %d ranks, with an arrow for each message"):format(ranks), function()
      local r, events = trace(PROGRAM, { devices = 1, ranks = ranks },
        { before = { "--backend", "cpu", "--fold", "1" } })
      assert.same({ 0, "" }, { r.status, r.stderr })
      local tracks, names, arrows, kinds = sort_out(events)
      check_tracks(tracks, names)
      local messages = check_arrows(tracks, arrows)
      assert.equal(kinds.send, messages)
      assert.equal(kinds.receive, messages)
      assert.is_true(messages >= 2 * (ranks - 1) * 19, messages)
      assert.equal(20 * ranks, kinds.kernel)
      local pids = {}
      for _, e in ipairs(events) do
        if e.name == "process_name" then pids[e.pid] = e.args.name:match("^rank %d") end
      end
      assert.equal(ranks, #pids)
      for rank = 1, ranks - 1 do assert.is_nil(scratch.look(folder .. "/t.json." .. rank)) end
    end)
  end

  -- Fails in the host task; all before has been carried out then.
  local failing = PROGRAM:gsub("local _ = v%[0%]", "error 'on purpose'")

  for _, ranks in ipairs { 1, 3 } do
    it(("is written when a task fails, on %d ranks"):format(ranks), function()
      local r, events = trace(failing, { devices = 1, ranks = ranks > 1 and ranks or nil })
      assert.not_equal(0, r.status)
      assert.truthy(r.stderr:find("on purpose", 1, true), r.stderr)
      local tracks, names, _, kinds = sort_out(events)
      check_tracks(tracks, names)
      assert.equal(20 * ranks, kinds.kernel)
      local failed
      for _, e in ipairs(events) do failed = failed or (e.args and e.args.failed and e.name) end
      assert.equal("look", failed)
      assert.is_nil(scratch.look(folder .. "/t.json.1"))
    end)
  end

  it("is written when the script fails on one rank, or ends by os.exit", function()
    local r, events = trace(PROGRAM .. "error 'here'", { devices = 1, ranks = 2 })
    assert.truthy(r.stderr:find("here", 1, true), r.stderr)
    assert.equal(40, select(4, sort_out(events)).kernel)
    r, events = trace(PROGRAM .. "os.exit(3)", { devices = 1, ranks = 2 })
    assert.equal(3, r.status)
    assert.equal(40, select(4, sort_out(events)).kernel)
  end)

  -- Ends by a signal to itself, or to mpirun, when all has been carried out.
  local stopped = PROGRAM .. [==[
    local ffi = require "ffi"
    ffi.cdef "int getpid(void); int getppid(void); int kill(int, int); int usleep(unsigned);"
    local rank = os.getenv "OMPI_COMM_WORLD_RANK"
    if not rank then ffi.C.kill(ffi.C.getpid(), 2)
    elseif rank == "0" then ffi.C.kill(ffi.C.getppid(), 15) end
    for _ = 1, 100 do ffi.C.usleep(100000) end
  ]==]

  for _, ranks in ipairs { 1, 2 } do
    it(("is written when Ctrl-C ends a run, on %d ranks"):format(ranks), function()
      local shape = { devices = 1, ranks = ranks > 1 and ranks or nil }
      local r, events, text = trace(stopped, shape, { env = celer.patient })
      -- mpirun kills its ranks a second after it has told them to end, whether they
      -- had that second or not.
      for _ = 1, 2 do
        if ranks > 1 and (not events or scratch.look(folder .. "/t.json.1")) then
          os.execute("rm " .. folder .. "/t.json*")
          r, events, text = trace(stopped, shape, { env = celer.patient })
        end
      end
      assert.not_equal(0, r.status)
      assert.is_nil(scratch.look(folder .. "/t.json.1"))
      assert.equal("]\n", text:sub(-2))
      local tracks, names, _, kinds = sort_out(events)
      check_tracks(tracks, names)
      assert.equal(20 * ranks, kinds.kernel)
    end)
  end

  it("is empty when nothing was computed", function()
    local r, events = trace("print(1)", { devices = 1 })
    assert.same({ 0, "1\n" }, { r.status, r.stdout })
    assert.same({}, (sort_out(events)))
  end)

  it("says which file cannot be written, once", function()
    for _, ranks in ipairs { false, 2 } do
      local r = script.run("print(1)", { devices = 1, ranks = ranks or nil },
        { before = { "--trace", folder .. "/none/t.json" } })
      assert.not_equal(0, r.status)
      assert.equal("", r.stdout)
      local _, n = r.stderr:gsub("celer: the timeline cannot be written: "
        .. folder .. "/none/t.json: No such file or directory\n", "")
      assert.equal(1, n, r.stderr)
    end
    local r = script.run("print(1)", { devices = 1 }, { before = { "--trace", "" } })
    assert.equal("celer: --trace must be the name of a file, not \"\"\n", r.stderr)
  end)

  describe("on the driver of the specs", function()
    it("has the times of the events", function()
      if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
      local r, events = trace(PROGRAM, { devices = 1 },
        { before = { "--backend", "cuda", "--fold", "1" }, env = fake.env({ FAKE_GPUS = 1 }) })
      assert.equal(0, r.status, r.stderr)
      local tracks, names, _, kinds = sort_out(events)
      check_tracks(tracks, names)
      assert.equal(20, kinds.kernel)
      assert.is_true(kinds.copy >= 2)
    end)
  end)

  it("has the times of a GPU", function()
    if cuda.no_gpu then return pending(cuda.no_gpu) end
    local r, events = trace(PROGRAM, { devices = 1 },
      { before = { "--backend", "cuda", "--fold", "1" } })
    assert.equal(0, r.status, r.stderr)
    local tracks, names, _, kinds = sort_out(events)
    check_tracks(tracks, names)
    assert.equal(20, kinds.kernel)
    for _, e in ipairs(events) do
      if e.cat == "kernel" then assert.is_true(e.dur < 5000, e.dur) end
    end
  end)
end)
