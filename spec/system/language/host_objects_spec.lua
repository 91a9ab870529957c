-- Host objects and side effects: what is ordered, what is not, and what lives
-- how long.
local script = require("spec.support.script")

local shapes = {
  { name = "on one rank", devices = 1 },
  { name = "on two ranks", devices = 1, ranks = 2 },
  { name = "on three ranks", devices = 1, ranks = 3 },
  { name = "on four ranks", devices = 1, ranks = 4 },
}
local on_one = { shapes = { { name = "on one rank", devices = 1 } } }
local anywhere = { shapes = shapes }

-- Waits until `is_there`; raises when that never comes.
local patience = [==[
local ffi = require "ffi"
function await(what, is_there)
  pcall(ffi.cdef, "int sched_yield(void);") -- in each lane, and once
  local yield, time = ffi.C.sched_yield, celer.time
  local ends = time() + 100
  while not is_there() do
    if time() > ends then error("waited in vain for " .. what) end
    yield()
  end
end
]==]

describe("a host object", function()
  script.everywhere("is one thing for all tasks of a rank, in order", [==[
local log = celer.host_object(function() return { n = 0, words = {} } end, { name = "log" })
local counts = celer.buffer("int", 64, { init = function() return 0 end })
for i = 1, 40 do
  q:submit(function(cg)
    local l = cg:side_effect(log)
    cg:host_task({ 64 }, function(part, l)
      if l.n ~= i - 1 then error("task " .. i .. " sees " .. l.n) end
      l.n = i
    end, l)
  end)
end
q:submit(function(cg)
  cg:host_task({ 64 }, function(part, l, counts)
    for k = part.min[0], part.max[0] - 1 do counts[k] = l.n end
  end, cg:side_effect(log), cg:discard_write(counts))
end)
local c = q:drain(counts)
for k = 0, 63 do same("count", c[k], 40) end
]==], nil, anywhere)

  script.everywhere("is made where it is touched, when it is touched", [==[
local o = celer.host_object(function() print "made" return {} end)
local never = celer.host_object(function() print "never made" return {} end,
  { destructor = function() print "never ended" end })
print "nothing yet"
q:wait()
for _ = 1, 3 do
  q:submit(function(cg) cg:host_task(celer.on_master, function(_, o) end, cg:side_effect(o)) end)
end
q:drain()
]==], function(out, shape)
      assert.same({ "made", "nothing yet" }, (script.lines(out)))
      if shape.ranks then assert.matches("[0] made", out, 1, true) end
    end, anywhere)

  script.everywhere("outlives its last task, then its destructor runs once", [==[
local function make(name)
  return celer.host_object(function() return { name = name, n = 0 } end, { name = name,
    destructor = function(o) print("end", o.name, o.n) end })
end
local kept, freed, lost = make "kept", make "freed", make "lost"
for _, o in ipairs { kept, freed, lost } do
  for _ = 1, 5 do
    q:submit(function(cg)
      cg:host_task(celer.on_master, function(_, o) o.n = o.n + 1 end,
        cg:side_effect(o, "exclusive"))
    end)
  end
end
freed:free()
lost = nil
collectgarbage() collectgarbage()
refused("the host object freed was freed", function()
  q:submit(function(cg) cg:side_effect(freed) end)
end)
q:drain()
print "drained"
]==], function(out, shape)
      local prefix = shape.ranks and "[0] " or ""
      assert.same({ "drained", "end\tfreed\t5", "end\tkept\t5", "end\tlost\t5" },
        (script.lines(out)))
      -- What is still there at the end of the script ends there.
      assert.is_true(out:find("drained", 1, true) < out:find(prefix .. "end\tkept", 1, true))
      assert.is_true(out:find(prefix .. "end\tfreed", 1, true) < out:find("drained", 1, true))
    end, anywhere)

  script.everywhere("may be several of a task, and a file", [==[
local path = arg[0]:gsub("case%.lua$", "out.txt")
local file = celer.host_object(function() return assert(io.open(path, "w")) end,
  { destructor = function(f) f:close() end })
local line = celer.host_object(function() return { n = 0 } end)
local u = celer.buffer("int", 4, { init = function(i) return 10 * i end })
for _ = 1, 3 do
  q:submit(function(cg)
    local u, f, l = cg:read(u, celer.all), cg:side_effect(file), cg:side_effect(line)
    cg:host_task(celer.on_master, function(_, l, u, suffix, f)
      l.n = l.n + 1
      f:write(l.n, ":", u[3], suffix)
    end, l, u, "\n", f)
  end)
end
file:free()
q:wait()
q:submit(function(cg)
  cg:host_task(celer.on_master, function() print((io.open(path):read("*a"):gsub("\n", ";"))) end)
end)
q:drain()
]==], function(out) assert.matches("1:30;2:30;3:30;\n$", out) end, anywhere)

  script.everywhere("of plain memory is counted on by all at once", [==[
local hits = celer.host_object("struct { int64_t n[8]; double sum; uint32_t a, b[2]; }")
local got = celer.buffer("double", { 64, 6 })
for i = 1, 30 do
  q:submit(function(cg)
    cg:host_task({ 64 }, function(part, h)
      for k = part.min[0], part.max[0] - 1 do
        h:add("n", k % 8, i)
        h:add("sum", 0.25)
        h:add("b", 1, 2)
        h:add("b", 1, -1)
      end
    end, cg:side_effect(hits, "relaxed"))
  end)
end
q:submit(function(cg)
  cg:host_task({ 64 }, function(part, h, got)
    for k = part.min[0], part.max[0] - 1 do
      local sum = 0
      for i = 0, 7 do sum = sum + h:load("n", i) end
      got:set(k, 0, sum)
      got:set(k, 1, h.sum)
      got:set(k, 2, h.b[1])
      got:set(k, 3, tonumber(h.n[0]))
      got:set(k, 4, part.size[0])
      got:set(k, 5, h:pointer().a)
    end
  end, cg:side_effect(hits), cg:discard_write(got, function(chunk)
    return celer.box({ chunk.min[0], 0 }, { chunk.max[0], 6 })
  end))
end)
local g = q:drain(got)
for k = 0, 63 do
  local mine = g(k, 4)
  same("all", g(k, 0), 465 * mine)
  same("sum", g(k, 1), 30 * 0.25 * mine)
  same("b", g(k, 2), 30 * mine)
  same("a", g(k, 5), 0)
end
]==], nil, anywhere)

  script.everywhere("has atomic operations for each kind of number", [==[
celer.struct("counters", "int32_t i; uint32_t u; int64_t l[3]; uint64_t ul; float f; double d[2];")
local o = celer.host_object("counters")
q:submit(function(cg)
  cg:host_task(celer.on_master, function(_, o)
    local function same(what, got, wanted)
      if got ~= wanted then error(what .. ": " .. tostring(got)) end
    end
    o:store("i", -7)
    same("load", o:load("i"), -7)
    same("add", o:add("i", 10), -7)
    same("exchange", o:exchange("i", 5), 3)
    same("compare", o:compare("i", 4, 9), false)
    same("compare", o:compare("i", 5, 9), true)
    same("i", o:load("i"), 9)
    o:store("u", 2 ^ 32 - 1)
    same("u", o:add("u", -1), 2 ^ 32 - 1)
    same("u", o:load("u"), 2 ^ 32 - 2)
    o:store("l", 2, -2 ^ 60)
    same("l", o:load("l", 2), -2LL ^ 60)
    same("l", o:compare("l", 2, -2LL ^ 60, 11), true)
    same("l", o:load("l", 2), 11)
    o:store("ul", 18446744073709551615ULL)
    same("ul", o:load("ul"), 18446744073709551615ULL)
    o:store("f", 0.5)
    same("f", o:add("f", 0.25), 0.5)
    same("f", o:exchange("f", 8), 0.75)
    o:store("d", 1, 1e300)
    same("d", o:add("d", 1, 1e300), 1e300)
    same("d", o:load("d", 1), 2e300)
    o.d[0] = 3
    same("plain", o:load("d", 0), 3)
    o.i = 4
    same("plain", o.i, 4)
    for message, f in pairs {
      ["o0:add: element 3 is outside l[3]"] = function() o:add("l", 3, 1) end,
      ["o0:add: l is int64_t[3]: first which element, then the number"] =
        function() o:add("l", 1) end,
      ["o0:add: no field for atomic operations is called 'x'; it has d, f, i, l, u, ul"] =
        function() o:add("x", 1) end,
      ["o0:add: 0.5 is no whole number"] = function() o:add("i", 0.5) end,
      ["o0:store: -1 does not fit"] = function() o:store("u", -1) end,
      ["o0:add: expected a number, not nil"] = function() o:add("f") end,
      ["o0:compare is for whole numbers"] = function() o:compare("f", 1, 2) end,
      ["host object o0 has no field 'z'"] = function() return o.z end,
      ["host object o0 has no field 'zz'"] = function() o.zz = 1 end,
      ["call it with a colon: object:add(...)"] = function() o.add("i", 1) end,
    } do
      local ok, text = pcall(f)
      if ok or not tostring(text):find(message:gsub("o0", tostring(o):match("%S+$")), 1, true) then
        error("wanted " .. message .. ", got " .. tostring(text))
      end
    end
  end, cg:side_effect(o))
end)
q:drain()
]==], nil, on_one)
end)

-- Whether exclusive were sequential or relaxed, one of these would fail.
describe("side effects", function()
  -- Each stays for a while in case another comes: as relaxed ones, which have as
  -- many lanes, they would meet at once.
  script.everywhere("that are exclusive never overlap", patience .. [==[
local _, ranks = require("celer.core").rank()
local o = celer.host_object("struct { int64_t inside, plain, met; }", { name = "o" })
local total = celer.buffer("int64_t", { ranks, 4 })
local function stay(_, o, order, count)
  local before, ends = o.plain, celer.time() + (order == "relaxed" and 8 or 0.1)
  local others = o:add("inside", 1)
  while others == 0 and celer.time() < ends do others = o:load("inside") - 1 end
  if others > 0 then o:add("met", 1) end
  if order == "relaxed" then
    await("both to see it", function() return o:load("met") == 2 end)
  end
  o.plain = before + count
  o:add("inside", -1)
end
for i, order in ipairs { "exclusive", "relaxed" } do
  for count = 1, order == "relaxed" and 2 or 6 do
    q:submit(function(cg)
      cg:host_task({ ranks }, stay, cg:side_effect(o, order), order, count)
    end)
  end
  q:submit(function(cg)
    cg:host_task({ ranks }, function(part, o, total)
      total:set(part.min[0], 2 * i - 2, o.plain)
      total:set(part.min[0], 2 * i - 1, o.met)
      o.plain, o.met = 0, 0
    end, cg:side_effect(o), cg:discard_write(total, function(chunk)
      return celer.box({ chunk.min[0], 2 * i - 2 }, { chunk.max[0], 2 * i })
    end))
  end)
end
local t = q:drain(total)
for k = 0, ranks - 1 do
  same("sum", tonumber(t(k, 0)), 6 * 7 / 2)
  same("exclusive ones that met", tonumber(t(k, 1)), 0)
  same("relaxed ones that met", tonumber(t(k, 3)), 2)
end
]==], nil, anywhere)

  script.everywhere("that are exclusive come in any order", patience .. [==[
local _, ranks = require("celer.core").rank()
local o = celer.host_object("struct { int64_t n; }", { name = "o" })
local flags = celer.host_object("struct { int32_t second; }", { name = "flags" })
local slow = celer.buffer("int", ranks, { name = "slow" })
-- The first waits for a buffer, whose writer waits for the second.
q:submit(function(cg)
  cg:host_task({ ranks }, function(part, slow, flags)
    await("the second task", function() return flags:load("second") == 1 end)
    slow[part.min[0]] = 1
  end, cg:discard_write(slow), cg:side_effect(flags, "relaxed"))
end)
q:submit(function(cg)
  cg:host_task({ ranks }, function(part, slow, o)
    o.n = o.n + slow[part.min[0]]
  end, cg:read(slow), cg:side_effect(o, "exclusive"))
end)
-- That one is known then, and waits; it must not have its turn already.
q:fence(celer.buffer("int", { 1 }, { init = function() return 1 end })):get()
q:submit(function(cg)
  cg:host_task({ ranks }, function(_, o, flags)
    o.n = o.n + 10
    flags:store("second", 1)
  end, cg:side_effect(o, "exclusive"), cg:side_effect(flags, "relaxed"))
end)
q:drain()
]==], nil, anywhere)

  script.everywhere("that are exclusive leave room for what they do not exclude",
    patience .. [==[
local _, ranks = require("celer.core").rank()
local a = celer.host_object("struct { int32_t x; }", { name = "a" })
local b = celer.host_object("struct { int32_t x; }", { name = "b" })
local met = celer.host_object("struct { int32_t first, last; }", { name = "met" })
local function task(f, ...)
  local touched = { ... }
  q:submit(function(cg)
    for i, o in ipairs(touched) do touched[i] = cg:side_effect(o, "exclusive") end
    cg:host_task({ ranks }, f, cg:side_effect(met, "relaxed"), unpack(touched))
  end)
end
-- The one between would keep the others apart, were they in order.
task(function(_, met)
  met:store("first", 1)
  await("the last", function() return met:load("last") == 1 end)
end, a)
task(function() end, a, b)
task(function(_, met)
  met:store("last", 1)
  await("the first", function() return met:load("first") == 1 end)
end, b)
q:drain()
]==], nil, anywhere)

  script.everywhere("that are relaxed run at the same time", patience .. [==[
local _, ranks = require("celer.core").rank()
local o = celer.host_object("struct { int32_t here; }", { name = "o" })
for _ = 1, 2 do
  q:submit(function(cg)
    cg:host_task({ ranks }, function(_, o)
      o:add("here", 1)
      await("the other", function() return o:load("here") == 2 end)
    end, cg:side_effect(o, "relaxed"))
  end)
end
q:drain()
]==], nil, anywhere)

  script.everywhere("that are sequential keep relaxed ones on their side", [==[
local _, ranks = require("celer.core").rank()
local o = celer.host_object("struct { int64_t n; }", { name = "o" })
local seen = celer.buffer("int64_t", { 20, ranks })
for i = 0, 19 do
  for _ = 1, 5 do
    q:submit(function(cg)
      cg:host_task({ ranks }, function(_, o) o:add("n", 1) end, cg:side_effect(o, "relaxed"))
    end)
  end
  q:submit(function(cg)
    cg:host_task({ ranks }, function(part, o, seen) seen:set(i, part.min[0], o.n) end,
      cg:side_effect(o), cg:discard_write(seen, function(chunk)
        return celer.box({ i, chunk.min[0] }, { i + 1, chunk.max[0] })
      end))
  end)
end
local s = q:drain(seen)
for k = 0, ranks - 1 do
  for i = 0, 19 do same("seen", tonumber(s(i, k)), 5 * (i + 1)) end
end
]==], nil, anywhere)

  -- All ranks append to one file.
  script.everywhere("of the cluster are in order on all ranks, task by task", [==[
local path = arg[0]:gsub("case%.lua$", "shared.txt")
local file = celer.host_object(function() return path end, { name = "file", scope = "cluster" })
local orders = { "sequential", "exclusive" }
for t = 1, 12 do
  q:submit(function(cg)
    local n = t % 3 == 0 and 1 or 8
    cg:host_task({ n }, function(part, path)
      local f = assert(io.open(path, "a"))
      f:write(t, " ", part.min[0], "\n")
      f:close()
    end, cg:side_effect(file, orders[t % 2 + 1]))
  end)
  if t % 4 == 0 then
    -- Whoever reads sees all that was written before, and nothing of later.
    q:submit(function(cg)
      cg:host_task({ 8 }, function(part, path)
        local last, at = 0, -1
        for line in io.lines(path) do
          local task, min = line:match("^(%d+) (%d+)$")
          task, min = tonumber(task), tonumber(min)
          if task < last or (task == last and min <= at) or task > t then
            error(("after task %d at %d comes %s"):format(last, at, line))
          end
          last, at = task, min
        end
        if last ~= t then error("task " .. t .. " has not written yet") end
      end, cg:side_effect(file, "relaxed"))
    end)
  end
end
q:drain()
]==], nil, anywhere)

  script.everywhere("of the cluster let a collective task begin and end as one", [==[
local path = arg[0]:gsub("case%.lua$", "shared.txt")
local file = celer.host_object(function() error("not made") end, { scope = "cluster" })
for t = 1, 9 do
  q:submit(function(cg)
    cg:side_effect(file, t % 3 == 0 and "relaxed" or "sequential") -- not passed: only order
    cg:host_task(t % 2 == 0 and celer.collective() or { 8 }, function(part)
      local f, wrong = assert(io.open(path, "a+")), nil
      for line in f:lines() do
        if tonumber(line) > t then wrong = line end
      end
      if wrong then error(("task %d sees %s"):format(t, wrong)) end
      f:write(t, "\n")
      f:close()
      if t % 2 == 0 then part.comm:barrier() end
    end)
  end)
end
q:submit(function(cg)
  cg:side_effect(file)
  cg:host_task(celer.on_master, function()
    local before = 0
    for line in io.lines(path) do
      if tonumber(line) < before then error(line .. " after " .. before) end
      before = tonumber(line)
    end
    if before ~= 9 then error("ends at " .. before) end
  end)
end)
q:drain()
]==], nil, anywhere)

  script.everywhere("are refused where they cannot be", [==[
local o = celer.host_object(function() return {} end, { name = "o" })
local k = celer.kernel [[ kernel void k(item<1> it, out<int, 1> u) { u(it[0]) = 1; } ]]
local u = celer.buffer("int", 8, { name = "u" })
local function nothing() end
local function submit(f) q:submit(f) end

refused("the first argument must be a function that makes the object or a C declaration",
  function() celer.host_object(5) end)
refused("the C declaration is wrong", function() celer.host_object("struct {") end)
refused("must be that of a struct", function() celer.host_object("int") end)
refused("must be that of a struct", function() celer.host_object("struct { int a; }[4]") end)
refused("a pointer has no meaning", function() celer.host_object("struct { int *p; }") end)
refused("the struct must have fields", function() celer.host_object("struct { }") end)
refused("unknown option 'scpoe', did you mean scope?",
  function() celer.host_object(nothing, { scpoe = "rank" }) end)
refused("no scope is called clster, did you mean cluster?",
  function() celer.host_object(nothing, { scope = "clster" }) end)
refused("the destructor must be a function, not a string",
  function() celer.host_object(nothing, { destructor = "x" }) end)
refused("the options must be a table", function() celer.host_object(nothing, "log") end)
refused("the name must be one line", function() celer.host_object(nothing, { name = "" }) end)
refused("the constructor of c uses variable 'u', the buffer 'u', which cannot be copied",
  function() celer.host_object(function() return u end, { name = "c" }) end)

refused("the first argument must be a host object", function()
  submit(function(cg) cg:side_effect(u) end)
end)
refused("no order is called relxed, did you mean relaxed?", function()
  submit(function(cg) cg:side_effect(o, "relxed") end)
end)
refused("has a side effect on o already", function()
  submit(function(cg) cg:side_effect(o) cg:side_effect(o, "relaxed") end)
end)
refused("host objects are for host tasks (cg:host_task); what runs on devices cannot touch o",
  function()
    submit(function(cg)
      cg:parallel_for({ 8 }, k, cg:discard_write(u), cg:side_effect(o))
    end)
  end)
refused("cannot touch o", function()
  submit(function(cg)
    cg:side_effect(o)
    cg:parallel_for({ 8 }, k, cg:discard_write(u))
  end)
end)
refused("cg:interop_task: host objects are for host tasks", function()
  submit(function(cg) cg:interop_task({ 8 }, nothing, cg:side_effect(o)) end)
end)
refused("belongs to another command group", function()
  local other
  submit(function(cg) other = cg:side_effect(o) cg:host_task(celer.once, nothing, other) end)
  submit(function(cg) cg:host_task(celer.once, nothing, other) end)
end)
refused("the host object 'o', which cannot be copied to where it runs; declare a side effect",
  function() submit(function(cg) cg:host_task(celer.once, function() return o end) end) end)
refused("pass it as an argument after the function", function()
  submit(function(cg)
    local e = cg:side_effect(o)
    cg:host_task(celer.once, function() return e end)
  end)
end)
refused("can be used inside host tasks only", function()
  submit(function(cg) return cg:side_effect(o).x end)
end)
refused("what host object o holds is not here", function() o() end)
refused("a collective task has a thread of its own and cannot be given o", function()
  submit(function(cg) cg:host_task(celer.collective(), nothing, cg:side_effect(o)) end)
end)
refused("call it with a colon", function() o.free() end)
refused("was freed already", function()
  local p = celer.host_object(nothing)
  p:free()
  p:free()
end)
]==], nil, on_one)
end)

describe("a host task that fails", function()
  -- They are all in one lane by then.
  it("is the last of its chain", function()
    local r = script.run([==[
local o = celer.host_object(function() return {} end, { name = "o" })
for i = 1, 30 do
  q:submit(function(cg)
    cg:host_task(celer.on_master, function()
      local ends = celer.time() + 0.02
      while i == 1 and celer.time() < ends do end
      if i == 7 then error("the seventh") end
      print("task", i)
    end, cg:side_effect(o))
  end)
end
q:drain()]==], shapes[1])
    assert.is_true(r.status ~= 0)
    assert.matches("case.lua:8: the seventh", r.stderr)
    assert.same({ "task\t1", "task\t2", "task\t3", "task\t4", "task\t5", "task\t6" },
      (script.lines(r.stdout)))
  end)
end)

describe("a host object that is another on each rank", function()
  for what, made in pairs({
    ["what its constructor captured"] = "function() return { rank } end",
    ["its memory"] = '"struct { int n[" .. 1 + rank .. "]; }"',
    ["what its destructor captured"] =
      "function() return {} end, { destructor = function() return rank end }",
  }) do
    it("is found out by " .. what, function()
      local r = script.run(([==[
local rank = require("celer.core").rank()
local o = celer.host_object(%s)
q:submit(function(cg) cg:host_task({ 2 }, function() end, cg:side_effect(o)) end)
q:drain()]==]):format(made), { devices = 1, ranks = 2 })
      assert.equal(1, r.status)
      assert.matches("case%.lua:%d: the ranks run different programs: .*host object", r.stderr)
    end)
  end
end)

describe("a host object that fails", function()
  for _, shape in ipairs({ shapes[1], shapes[3] }) do
    local function fails(name, text, ...)
      local patterns = { ... }
      it(name .. ", " .. shape.name, function()
        local r = script.run(text, shape)
        assert.is_true(r.status ~= 0)
        for _, pattern in ipairs(patterns) do assert.matches(pattern, r.stderr) end
        assert.equal(1, select(2, r.stderr:gsub("\n", "\n")))
      end)
    end

    fails("to be made names its constructor", [==[
local o = celer.host_object(function() return assert(io.open("/no/such/folder/x")) end,
  { name = "movie" })
q:submit(function(cg)
  cg:host_task(celer.on_master, function() end, cg:side_effect(o))
end)
q:drain()]==], "case.lua:5: ", "the constructor of host object movie: ", "/no/such/folder/x")
    fails("to be made at all says so", [==[
local o = celer.host_object(function() end, { name = "movie" })
q:submit(function(cg) cg:host_task(celer.once, function() end, cg:side_effect(o)) end)
q:drain()]==], "case.lua:3: ", "the constructor of host object movie returned nothing")
    fails("to end names its destructor, and where it was made", [==[
local o = celer.host_object(function() return {} end, { name = "movie",
  destructor = function() error("no more disk") end })
q:submit(function(cg) cg:host_task(celer.once, function() end, cg:side_effect(o)) end)
q:drain()]==], "case.lua:2: ", "the destructor of host object movie: ", "no more disk")
    fails("by what is no text says what it was", [==[
local o = celer.host_object(function() error { code = 3 } end, { name = "movie" })
q:submit(function(cg) cg:host_task(celer.once, function() end, cg:side_effect(o)) end)
q:drain()]==], "case.lua:3: the constructor of host object movie: the error is a table")
    fails("is not hidden by others", [==[
local o = celer.host_object(function() return {} end, { name = "movie", scope = "cluster" })
for i = 1, 5 do
  q:submit(function(cg)
    cg:host_task({ 3 }, function(part)
      if i == 3 and part.min[0] == 0 then error("in the middle") end
    end, cg:side_effect(o))
  end)
end
q:drain()]==], "case.lua:6: in the middle")
  end
end)
