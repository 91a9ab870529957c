-- Checkpoints: what is kept comes back, on any number of ranks, whenever the run
-- that kept it was killed.
local celer = require("spec.support.celer")
local preload = require("spec.support.preload")
local scratch = require("spec.support.scratch")

local folder
before_each(function()
  folder = scratch.folder()
end)
after_each(function() os.execute("rm -rf " .. folder) end)

-- An environment in which fsync takes so many milliseconds more.
local function slow_disk(ms)
  local env = preload("slow_disk")
  env.SLOW_DISK = ms
  return env
end

local function write(name, text)
  scratch.write(folder .. "/" .. name, text)
end

local prelude = ([[
local celer = require "celer"; local q = celer.queue();
function same(what, a, b) if a ~= b then error(what .. ": " .. tostring(a), 2) end end
]]):gsub("\n", " ")

-- Runs a text; its first line is line 1.
local function run(text, ranks, arguments, options)
  write("case.lua", prelude .. text)
  local args = { "run", "case.lua" }
  for _, word in ipairs(arguments or {}) do args[#args + 1] = word end
  options = options or {}
  return celer.run(args, { ranks = ranks, cwd = folder, env = options.env })
end

local function passes(text, ranks, arguments, options)
  local r = run(text, ranks, arguments, options)
  assert.equal("", r.stderr)
  assert.equal(0, r.status)
  return r.stdout
end

local function fails(words, text, ranks)
  local r = run(text, ranks)
  assert.matches(words, r.stderr, 1, true)
  assert.is_truthy(r.stderr:find("^celer: case.lua:%d+: ")
    or r.stderr:find("^celer: rank %d: case.lua:%d+: "), r.stderr)
  assert.equal(1, select(2, r.stderr:gsub("celer: ", "")), r.stderr)
  assert.equal(1, r.status)
end

-- Buffers of many shapes, and another with each `seed`.
local make = [[
local odd = celer.struct("odd", "int a : 3; int b : 5; float x;")
local body = celer.struct("body", "char c; double3 x; int id[2];")
local function make(seed)
  return {
    one = celer.buffer("double", {}, { init = seed / 3 }),
    none = celer.buffer("int", { 0, 4 }),
    long = celer.buffer("int64_t", { 9001 }, { init = function(i) return seed * i end }),
    wide = celer.buffer("uint8_t", { 2, 1500 },
      { init = function(i, j) return (seed + i + j) % 256 end }),
    deep = celer.buffer("float", { 3, 5, 7 },
      { init = function(i, j, k) return seed + i - j / (k + 1) end }),
    flags = celer.buffer("bool", { 3, 1, 2 },
      { init = function(i, _, k) return (seed + i + k) % 2 == 0 end }),
    [1] = celer.buffer(odd, { 5 },
      { init = function(i) return { a = i % 3, b = seed, x = i } end }),
    [2] = celer.buffer(body, { 4 },
      { init = function(i) return { c = i, x = { seed, i, 3 }, id = { i, 7 } } end }),
  }
end
]]

describe("a checkpoint", function()
  for ranks = 1, 4 do
    it("of " .. ranks .. " rank(s) comes back on any number, to the bit", function()
      passes(make .. [[
local extra = { step = 17, name = "run\0x", tiny = 5e-324, inf = -1 / 0, [true] = 0.1,
  list = { 1, { true } } }
celer.checkpoint("kept", make(3), extra)
local b = make(5)
extra.size = b.deep.size
celer.checkpoint("kept", b, extra)
q:submit(function(cg) -- after it, so not in it
  cg:host_task({ 9001 }, function(part, v)
    for i = part.min[0], part.max[0] - 1 do v[i] = 0 end
  end, cg:discard_write(b.long))
end)]], ranks)
      assert.equal(2, #scratch.files(folder .. "/kept"))
      for others = 1, 4 do
        assert.equal("checked\n", passes(make .. [[
local into = make(11)
local wanted, into_these, keep = make(5), { long = into.long, [2] = into[2] }, into.deep
local got, extra = celer.restore("kept")
local given, again = celer.restore("kept/", into_these)
for name, buffer in celer.sorted_pairs(wanted) do
  same(name, q:wait(got[name]):string(), q:wait(buffer):string())
  if into_these[name] then
    same("given", given[name], into[name])
    same(name, q:wait(into[name]):string(), q:wait(buffer):string())
  end
end
same("left out", q:wait(keep)(0, 0, 0), 11)
same("as it was", tostring(got.deep), "buffer deep: float[3][5][7], 420 bytes")
same("step", extra.step, 17)
same("zero", extra.name, "run\0x")
same("tiny", extra.tiny, 5e-324)
same("infinite", extra.inf, -1 / 0)
same("nested", extra.list[2][1], true)
same("key", extra[true], 0.1)
same("size", extra.size[0] .. extra.size[1] .. extra.size[2], "357")
same("twice", again.step, 17)
same("absent", celer.restore("absent"), nil)
print "checked"]], others))
      end
    end)
  end

  it("is complete whatever weights the ranks have", function()
    assert.equal("checked\n", passes([[
q:hint { weights = { { 1 }, { 0 }, { 3 } }, oversubscribe = 2 }
local function new() return celer.buffer("int", { 50, 3 }, { init = function(i) return i end }) end
celer.checkpoint("kept", { u = new() }, "x")
celer.io.save("u.npy", new(), celer.box({ 5, 0 }, { 45, 2 }))
local kept = celer.restore("kept")
q:hint { weights = { { 0 }, { 1 }, { 1 } } }
celer.checkpoint("kept", kept)
local a, b = q:wait(celer.restore("kept").u, celer.io.load("u.npy"))
for i = 0, 49 do same("kept", a(i, 2), i) end
for i = 0, 39 do same("saved", b(i, 1), i + 5) end
print "checked"]], 3))
  end)

  it("holds files that celer.io reads", function()
    assert.equal("6\n", passes([[
celer.checkpoint("kept", { ["a/b"] = celer.buffer("int", { 4 },
  { init = function(i) return 2 * i end }) })
q:wait()
local pipe = io.popen("ls kept/data-*/*.npy")
print(q:wait(celer.io.load(pipe:read("*l")))[3])]]))
  end)

  it("is taken while the program goes on", function()
    local env = slow_disk(1)
    env.SLOW_DISK_WHILE = "hold"
    for _, ranks in ipairs { 1, 3 } do
      local out = passes([[
local u = celer.buffer("int", { 1000 }, { init = function(i) return i end })
local first = (os.getenv("OMPI_COMM_WORLD_RANK") or "0") == "0"
celer.checkpoint("first", {})
q:wait()
if first then io.open("hold", "w"):close() end
q:wait()
celer.checkpoint("kept", { u = u })
q:submit(function(cg)
  cg:host_task({ 1000 }, function(part, u)
    for i = part.min[0], part.max[0] - 1 do u[i] = -u[i] end
  end, cg:read_write(u))
end)
same("later", q:fence(u):get()[7], -7)
if first then
  print(io.open("kept/manifest"))
  os.remove("hold")
end
q:wait()
print((assert(io.open("kept/manifest"))) ~= nil)]], ranks, nil,
        { env = env })
      assert.equal("nil\ttrue\n", (out:gsub("\tkept/manifest: [^\n]*\n", "\t")))
      os.execute("rm -r " .. folder .. "/kept")
    end
  end)

  it("that cannot be is refused at the script's line", function()
    passes([[
celer.checkpoint("kept", { u = celer.buffer("float", { 4, 3 }, { init = function() return 1 end }),
  s = celer.buffer(celer.struct("rec", "int a;"), {}, { init = { a = 1 } }) })]])
    write("kept/note", "")
    assert.equal("checked\n", passes([[

local function refused(words, f, ...)
  local ok, message = pcall(f, ...)
  if ok or not tostring(message):find("^case.lua:%d+: ") or not message:find(words, 1, true) then
    error(words .. ": " .. tostring(message), 2)
  end
end
local u = celer.buffer("float", { 4, 4 }, { name = "u", init = function() return 0 end })
refused("celer.checkpoint needs the name of a folder, not nil", celer.checkpoint)
refused("celer.checkpoint needs a table of buffers such as {u = u}, not a buffer",
  celer.checkpoint, "kept", u)
refused("'v' must be a buffer, not a number", celer.checkpoint, "kept", { v = 1 })
refused('extra["a"][2] is a function; plain values can be kept', celer.checkpoint, "kept",
  { u = u }, { a = { 1, print } })
refused("extra is a box;", celer.checkpoint, "kept", { u = u },
  celer.box({ 1 }, { 2 }))
local loop = {}
loop.loop = loop
refused("nested more than 50 deep", celer.checkpoint, "kept", { u = u }, loop)
refused("'u' was kept as float[4][3]; buffer u is float[4][4]", celer.restore, "kept", { u = u })
refused("the checkpoint in kept has no 'w'", celer.restore, "kept", { w = u })
refused("'s' was kept as rec { int a; }; buffer r is other { int a; }", celer.restore, "kept",
  { s = celer.buffer(celer.struct("other", "int a;"), {}, { name = "r", init = { a = 0 } }) })
celer.struct("rec", "float a;")
refused("there is a type rec already", celer.restore, "kept")
print "checked"]], 2))
  end)

  it("that is damaged is found out", function()
    local keep = [[
celer.checkpoint("kept", { u = celer.buffer("int", { 5000 },
  { init = function(i) return i end }) })]]
    for _, ranks in ipairs { 1, 3 } do
      passes(keep, 2)
      local name = scratch.output("ls " .. folder .. "/kept/data-*/1-u.npy"):match("[^\n]+")
      local file = assert(io.open(name, "r+b"))
      file:seek("set", 17003)
      file:write("x")
      file:close()
      fails("/1-u.npy is damaged: what is in it is not what was written",
        "\n\nceler.restore('kept')", ranks)
      passes(keep, 2)
      os.execute("truncate -s 20000 " .. folder .. "/kept/data-*/1-u.npy")
      fails("/1-u.npy: it ends before byte", "\n\nceler.restore('kept')", ranks)
      os.execute("rm " .. folder .. "/kept/data-*/1-u.npy")
      fails("/1-u.npy: No such file or directory", "\n\nceler.restore('kept')", ranks)
      os.execute("truncate -s -1 " .. folder .. "/kept/manifest")
      fails("kept/manifest is damaged", "\n\nceler.restore('kept')", ranks)
      fails("kept/manifest is damaged", "\n\n" .. keep, ranks)
      write("kept/manifest", "something else")
      fails("kept/manifest is no checkpoint", "\n\n" .. keep, ranks)
      os.execute("rm -r " .. folder .. "/kept")
    end
  end)

  it("that finds no room leaves the one before", function()
    if os.execute("unshare -m true 2>/dev/null") ~= 0 then pending("needs a mount") end
    write("case.lua", prelude .. [[

local n = tonumber(arg[1])
local was, extra = celer.restore("disk/kept")
if was then print(extra, q:wait(was.u)[9]) end
if n == 0 then return end
celer.checkpoint("disk/kept", { u = celer.buffer("int", { n },
  { init = function(i) return i end }) }, n)
q:wait()]])
    local command = celer.command()
    for _, launch in ipairs { "", "mpirun --oversubscribe --allow-run-as-root -n 3 " } do
      local r = celer.exec({ "unshare", "-m", "sh", "-c",
        ("mkdir -p disk; mount -t tmpfs -o size=128k none disk; "
        .. "for n in 3000 900000 0 2000; do %s%s run case.lua $n; echo status $?; done; "
        .. "ls disk/kept | wc -l"):format(launch, command) }, { cwd = folder })
      assert.equal("status 0\n3000\t9\nstatus 1\n3000\t9\nstatus 0\n"
        .. "3000\t9\nstatus 0\n2\n", r.stdout)
      assert.matches("case.lua:6: cannot write disk/kept/data%-%x+/1%-u.npy: No space left",
        r.stderr)
    end
  end)
end)

-- A program of two buffers in turns, each step depending on its number, that
-- begins with what is kept. The kernel's timer kills it: a rank, or each of them.
local program = [[

local ffi = require "ffi"
ffi.cdef "struct event { void *value; int signal, notify; char rest[48]; };"
ffi.cdef "int timer_create(int clock, struct event *e, void **timer);"
ffi.cdef "int timer_settime(void *timer, int flags, const long *when, long *old);"
local steps, every, victim, after = tonumber(arg[1]), tonumber(arg[2]), arg[3], tonumber(arg[4])
local rank = os.getenv("OMPI_COMM_WORLD_RANK") or "0"
if victim == "all" or victim == rank then
  local event, timer = ffi.new("struct event", { signal = 9 }), ffi.new("void *[1]")
  assert(ffi.C.timer_create(1, event, timer) == 0)
  local when = ffi.new("long[4]", 0, 0, math.floor(after / 1000), after % 1000 * 1e6)
  assert(ffi.C.timer_settime(timer[0], 0, when, nil) == 0)
end
local n = 700
local kernel = celer.kernel [=[
  kernel void step(item<2> it, inout<unsigned, 2> up, in<unsigned, 2> u, unsigned t) {
    const int y = it[0], x = it[1], above = y > 0 ? y - 1 : y;
    up(y, x) = (u(above, x) ^ up(y, x)) * 2654435761u + t + y;
  }
]=]
local kept, extra = celer.restore("kept")
local function new(name)
  return celer.buffer("unsigned", { n, 9 }, { name = name,
    init = function(y, x) return 9 * y + x end })
end
local u, up = kept and kept.u or new "u", kept and kept.up or new "up"
local first = kept and extra.step + 1 or 1
io.stderr:write("from ", first, "\n")
for t = first, steps do
  q:submit(function(cg)
    local b, a = cg:read_write(up), cg:read(u, celer.neighborhood(1, 0))
    cg:parallel_for({ n, 9 }, kernel, b, a, t)
  end)
  u, up = up, u
  if t % every == 0 then celer.checkpoint("kept", { u = u, up = up }, { step = t }) end
end
local a, b = q:wait(u, up)
local bytes, h = a:string() .. b:string(), 0
for i = 1, #bytes do h = (h * 31 + bytes:byte(i)) % 2 ^ 40 end
print(h)
]]

describe("checkpoints by the clock", function()
  local loop = [[
local u = celer.buffer("int", { 64 }, { init = 0 })
local add = celer.kernel "kernel void add(item<1> it, inout<int, 1> u) { u(it[0]) += 1; }"
local begin, step, calls, kept = celer.time(), 0, 0, {}
local function what() calls = calls + 1; return { u = u }, { step = step } end
while #kept < MOST and celer.time() < begin + 20 do
  step = step + 1
  q:submit(function(cg) cg:parallel_for({ 64 }, add, cg:read_write(u)) end)
  if celer.checkpoint_every(EVERY, "kept", what) then kept[#kept + 1] = step end
end
q:wait()
local now = celer.restore "kept"
print(#kept, calls, now and q:wait(now.u)[63] - kept[#kept], celer.time() - begin)
]]

  for ranks = 1, 4, 3 do
    it(("are kept when it is time, on %d rank(s) alike"):format(ranks), function()
      local out = passes(loop:gsub("EVERY", '"0.25 s"'):gsub("MOST", 3), ranks)
      local took = out:match "^3\t3\t0\t(%S+)\n$"
      assert.is_truthy(took, out)
      assert.is_true(tonumber(took) > 0.7 and tonumber(took) < 15, took)
      assert.equal("true\n", passes [[
local kept, extra = celer.restore "kept"
print(q:wait(kept.u)[0] == extra.step)]])
      os.execute("rm -r " .. folder .. "/kept")
    end)
  end

  it("are none before it is time", function()
    local text = loop:gsub("EVERY", "3600"):gsub("begin %+ 20", "begin + 0.5"):gsub("MOST", 1)
    assert.matches("^0\t0\tnil\t", passes(text, 2))
  end)

  it("are refused at the first call where they could not be kept", function()
    passes [[
local function refused(words, ...)
  local ok, message = pcall(celer.checkpoint_every, ...)
  if ok or not message:find("^case.lua:%d+: celer.checkpoint_every")
    or not message:find(words, 1, true) then
    error(words .. ": " .. tostring(message), 2)
  end
end
local u = celer.buffer("int", { 4 }, { init = 0 })
refused('a time such as "30 s", "5 min" or "2 h", or a number of seconds, not "5 days"',
  "5 days", "kept", { u = u })
refused("not -1", -1, "kept", { u = u })
refused("not nil", nil, "kept", { u = u })
refused("needs the name of a folder, not nil", "1 s")
refused("needs a table of buffers such as {u = u}, not a buffer", "1 s", "kept", u)
refused("'u' must be a buffer, not a number", "1 s", "kept", { u = 1 })
celer.checkpoint_every(1e-9, "kept", { u = u }) -- makes no call too many
refused("extra is a function", 1e-9, "kept", { u = u }, print)]]
  end)

  it("are none in a dry run", function()
    local r = run([[local u = celer.buffer("int", 3, { init = 0 })
for _ = 1, 2 do print(celer.checkpoint_every(1e-9, "kept", { u = u })) end]], nil, nil,
      { env = { CELER_DRY_RUN = "4" } })
    assert.matches("false\nfalse\n", r.stdout)
  end)
end)

describe("a run that is killed", function()
  local kills = tonumber(os.getenv("CELER_KILLS")) or 8

  it(("%d times ends with the same bits"):format(kills), function()
    local steps, every, env = 60, 2, slow_disk(4) -- so that kills meet each state
    local alone = run(program, nil, { steps, 2 * steps })
    assert.equal("from 1\n", alone.stderr)
    local wanted = alone.stdout
    assert.matches("^%d+\n$", wanted)
    local seen, continued, moved, ended, span, before = 0, 0, 0, 0, 300, nil
    local by_ranks = { 0, 0, 0, 0 }
    while seen < kills or continued == 0 or ended == 0 do
      local ranks, after = math.random(4), span * math.random()
      local victim = math.random(3) == 1 and "all" or math.random(ranks) - 1
      if seen >= kills and continued > 0 then victim = "none" end
      local r = run(program, ranks, { steps, every, victim, after },
        { env = env })
      local from = tonumber(r.stderr:match("from (%d+)"))
      local killed = r.status ~= 0
      local how = ("%d rank(s), %s killed after %g ms, from %s: %s"):format(ranks, victim, after,
        tostring(from), r.stderr)
      assert.is_true(r.status ~= 124, how)
      assert.is_nil(r.stderr:find("celer: [^\n]*case.lua:%d"), how)
      if from and from > 1 then
        continued = continued + 1
        if ranks ~= before then moved = moved + 1 end
      elseif killed then
        span = 1.1 * span -- killed before there was anything to go on from
      end
      before = from and ranks or before
      if killed then
        seen = seen + 1
        by_ranks[ranks] = by_ranks[ranks] + 1
      else
        assert.equal(wanted, r.stdout, how)
        ended = ended + 1
        span = 0.93 * span -- it came too late
        os.execute("rm -r " .. folder .. "/kept")
      end
    end
    if kills > 8 then -- asked for
      io.stdout:write(("\n%d kills (%s of 1, 2, 3, 4 ranks); %d runs went on from a "
        .. "checkpoint, %d of them after one of another number of ranks; %d ended, all with %s")
        :format(seen, table.concat(by_ranks, ", "), continued, moved, ended, wanted))
    end
  end)
end)
