-- Data that leaves the engine: wait, drain, fence and captures.
local script = require("spec.support.script")

-- What each script begins with: buffers of 12, and 6 x 4, and kernels on them.
local common = [==[
local n = 12
local u = celer.buffer("int", n, { name = "u", init = function(i) return i end })
local w = celer.buffer("int", { 6, 4 }, { init = function(i, j) return 10 * i + j end })
local k = celer.kernel [=[
  kernel void add(item<1> it, inout<int, 1> u, int v) { u(it[0]) += v; }
]=]
local function add(v)
  q:submit(function(cg) cg:parallel_for(n, k, cg:read_write(u), v) end)
end
]==]

describe("a snapshot", function()
  script.everywhere("comes by wait and drain, of all or a part, several at once",
    common .. [==[
same("nothing", select("#", q:wait()), 0)
add(100)
local all, part, rows, empty = q:wait(u, celer.capture(u, celer.box({ 3 }, { 9 })),
  celer.capture(w, celer.box({ 2, 1 }, { 5, 3 })), celer.capture(u, celer.box({ 5 }, { 5 })))
for i = 0, n - 1 do same("all", all[i], 100 + i) end
for i = 3, 8 do same("part", part(i), 100 + i) end
for i = 2, 4 do
  for j = 1, 2 do same("rows", rows(i, j), 10 * i + j) end
end
same("bounds", tostring(rows.box), "[2, 5) x [1, 3)")
same("length", all.size[0] * 100 + part.size[0], 1206)
same("bytes", #rows:string(), 24)
same("nothing in it", #empty:string(), 0)
local p, row, column = rows:pointer()
same("first", p[0], 21)
same("pointer", p[row + column], 32)
refused("is outside [3, 9)", function() return part[2] end)
refused("is outside [3, 9)", function() return part[9] end)
refused("has 1 coordinate, not 2", function() local _ = part(3, 4) end)
refused("not a whole number", function() local _ = part(3.5) end)
refused("is a copy, which is not written", function() part:set(3, 1) end)
refused("is a copy, which is not written", function() part[3] = 1 end)
add(1000)
same("is not touched by later tasks", all[0], 100)
local last, lasts = q:drain(u, celer.capture(w))
same("drain", last[11] + lasts(5, 3), 1111 + 53)
refused("q:wait: the queue was drained; celer.queue() gives a new one", function() q:wait() end)
refused("drained", function() q:fence(u) end)
refused("drained", function() q:drain() end)
refused("drained", function() q:submit(print) end)
same("after drain", last[11], 1111)
local another = celer.queue()
another:submit(function(cg)
  cg:host_task(celer.once, function(_, u) u[11] = u[11] + 1 end, cg:read_write(u, celer.all))
end)
same("another", another:wait(u)[11], 1112)
u:fill(3)
same("another drain", another:drain(u)[11], 3)
]==])

  -- Several threads copy it where there are several cores.
  script.everywhere("comes whole where it is large", [==[
local k = celer.kernel [=[
  kernel void f1(item<1> it, out<int, 1> u) { u(it[0]) = it.linear(); }
  kernel void f2(item<2> it, out<int, 2> u) { u(it[0], it[1]) = it.linear(); }
  kernel void f3(item<3> it, out<int, 3> u) { u(it[0], it[1], it[2]) = it.linear(); }
]=]
for dims, case in ipairs { { { 9000007 }, { 5 }, { 8999990 } },
  { { 2003, 5001 }, { 3, 7 }, { 2001, 4999 } },
  { { 3, 211, 15013 }, { 0, 1, 2 }, { 3, 211, 15000 } } } do
  local size, min, max = unpack(case)
  local u = celer.buffer("int", size)
  q:submit(function(cg) cg:parallel_for(size, k["f" .. dims], cg:discard_write(u)) end)
  local p = q:wait(celer.capture(u, celer.box(min, max))):pointer()
  for d = dims + 1, 3 do size[d], min[d], max[d] = 1, 0, 1 end
  local at, wrong = 0, 0
  for i = min[1], max[1] - 1 do
    for j = min[2], max[2] - 1 do
      local first = (i * size[2] + j) * size[3]
      for l = min[3], max[3] - 1 do
        if p[at] ~= first + l then wrong = wrong + 1 end
        at = at + 1
      end
    end
  end
  same(dims .. " dimensions", wrong, 0)
end
]==])

  -- What the tasks of other ranks have done is done, buffers or not.
  script.everywhere("comes when all ranks are there", [==[
local path = arg[0]:gsub("case%.lua$", "seen")
local _, ranks = require("celer.core").rank()
for step = 1, 5 do
  q:submit(function(cg)
    cg:host_task({ ranks }, function(part)
      if part.rank == step % part.ranks then os.execute "sleep 0.05" end
      assert(io.open(path .. part.rank, "w")):write(step):close()
    end)
  end)
  q:wait()
  for k = 0, ranks - 1 do same("of rank " .. k, io.open(path .. k):read("*n"), step) end
  q:wait() -- before the next step writes
end
]==], nil, { shapes = { script.shapes[1], script.shapes[2], script.divided[3] } })

  script.everywhere("of a fence is as of its submission",
    common .. [==[
local futures, parts = {}, {}
for t = 1, 20 do
  futures[t] = q:fence(u)
  add(1)
  parts[t] = q:fence(u, celer.box({ 4 }, { 8 }))
end
for t = 20, 1, -1 do
  local part = parts[t]:get()
  for i = 4, 7 do same("after step " .. t, part[i], i + t) end
end
for t = 1, 20 do
  local all = futures[t]:get()
  for i = 0, n - 1 do same("before step " .. t, all[i], i + t - 1) end
  same("again", rawequal(all, futures[t]:get()), true)
  same("ready", futures[t]:ready(), true)
end
local future = q:fence(u)
q:wait()
same("ready after wait", future:ready(), true)
local late = q:fence(u)
add(1)
q:drain()
same("got after drain", late:get()[0], 20)
same("got after drain", future:get()[0], 20)
]==])

  script.everywhere("of a fence waits for work that takes its time",
    common .. [==[
q:submit(function(cg)
  cg:host_task(celer.once, function(_, u)
    local stop = os.clock() + 0.1
    while os.clock() < stop do end
    u:set(0, 77)
  end, cg:write(u, celer.all))
end)
local slow, polls = q:fence(u, celer.box({ 0 }, { 1 })), 0
while not slow:ready() do polls = polls + 1 end
same("waited", slow:get()[0], 77)
same("polled", polls >= 0, true)
]==])

  script.everywhere("of a fence does not wait for what comes after it",
    common .. [==[
add(1)
local future, go = q:fence(u), arg[0] .. ".go"
q:submit(function(cg)
  cg:host_task(celer.once, function()
    local stop = os.clock() + 100
    while not io.open(go) do assert(os.clock() < stop, "nobody came") end
  end)
end)
same("there", future:get()[3], 4)
assert(io.open(go, "w")):close()
q:wait()
]==])

  script.everywhere("of a fence may be several", common .. [==[
add(1)
local f = q:fence(celer.capture(u, celer.box({ 2 }, { 4 })), w, u)
add(1)
local a, b, c = f:get()
same("a", a[2] .. a.size[0], "32")
same("b", b(5, 3), 53)
same("c", c[11], 12)
same("shown", tostring(f), "future of u, buffer1, u")
same("again", rawequal((select(2, f:get())), b), true)
same("one", (q:fence(celer.capture(u)):get())[0], 2)
local d, e = q:fence(u, w):get()
same("two", d[1] + e(1, 0), 13)
same("part", q:fence(u, celer.box({ 3 }, { 4 })):get()[3], 5)
for _ = 1, 200 do q:fence(u, w) end -- nobody asks
q:wait()
refused("future of u has no elements and no fields: :get() waits", function()
  return q:fence(u)[0]
end)
refused("future of u has no elements and no fields", function() local _ = q:fence(u)(0) end)
refused("capture of u has no elements and no fields: q:wait", function()
  return celer.capture(u)[0]
end)
refused("capture of u has no elements", function() local _ = celer.capture(u)(0) end)
refused("capture of u has no elements", function() return celer.capture(u).min end)
refused("argument 2 must be a buffer, a list or celer.capture(buffer, box), not a box", function()
  q:wait(u, celer.box({ 0 }, { 1 }))
end)
refused("argument 2 must be a buffer", function() q:fence(celer.capture(u), 3) end)
refused("argument 3 must be a buffer", function() q:fence(u, w, 3) end)
]==])

  for _, shapes in ipairs { script.shapes, script.divided } do
    script.everywhere("may be another on each rank", common .. [==[
local rank, ranks = require("celer.core").rank()
add(100)
local function mine(r)
  return celer.box({ celer.floor(12 * r / 4) }, { celer.floor(12 * (r + 1) / 4) })
end
local function row(r, n) return celer.box({ 5 - r, 0 }, { 6 - r, n }) end
local a, all, b = q:wait(celer.capture(u, mine), u, celer.capture(w, row))
a, b = a:here(), b:here()
same("part", tostring(a.box), ("[%d, %d)"):format(3 * rank, 3 * rank + 3))
for i = a.min[0], a.max[0] - 1 do same("element", a[i], 100 + i) end
same("row", tostring(b.box), ("[%d, %d) x [0, %d)"):format(5 - rank, 6 - rank, ranks))
for j = 0, ranks - 1 do same("of the row", b(5 - rank, j), 10 * (5 - rank) + j) end
same("all", all[11], 111)
local by = {}
for t = 1, 12 do -- the number that is captured is another each time
  by[t] = q:fence(u, function(r) return celer.box({ t - 1 }, { t + r }):clamped() end)
  add(1)
end
for t = 1, 12 do
  local s = by[t]:get():here()
  same("size", s.size[0], math.min(t + rank, 12) - t + 1)
  for i = s.min[0], s.max[0] - 1 do same("at " .. t, s[i], 99 + t + i) end
end
local none = q:fence(u, function(r) return celer.box({ 0 }, { celer.max(0, 1 - r) }) end)
same("rank 0 alone", #none:get():here():string(), rank == 0 and 4 or 0)
local last = q:drain(celer.capture(u, mine))
same("drain", last:here()[3 * rank], 112 + 3 * rank)
]==], nil, { shapes = shapes })
  end

  script.everywhere("that differs between ranks decides nothing by accident",
    common .. [==[
local s = q:wait(celer.capture(u, function(r) return celer.box({ r }, { r + 1 }) end))
same("shown", tostring(s), "divided snapshot of u")
same("rank", s:rank(), require("celer.core").rank())
same("rank's own", s:here()[s:rank()], s:rank())
refused("call it with a colon: snapshot:rank(...)", function() local _ = s.rank() end)
refused("would make ranks diverge; :here() is", function() local _ = s(0) end)
refused("would make ranks diverge; :here() is", function() return s[0] end)
refused("would make ranks diverge", function() return s.size end)
refused("would make ranks diverge", function() return s:string() end)
refused("would make ranks diverge", function() return s < s end)
refused("would make ranks diverge", function() return s .. "" end)
refused("would make ranks diverge", function() s[0] = 1 end)
refused("attempt to compare", function() return s < 3 end)
refused("call it with a colon", function() local _ = s.here() end)
refused("divided snapshot of u, which cannot be copied", function()
  q:submit(function(cg) cg:host_task(celer.once, function() return s end) end)
end)
refused("cannot be put in closed form: it compares", function()
  q:fence(u, function(r) return celer.box({ 0 }, { r > 1 and 1 or 2 }) end)
end)
refused("gives the box [0, 100) for the chunk", function()
  q:fence(u, function() return celer.box({ 0 }, { 100 }) end)
end)
refused("a box of 1 dimension for a buffer of 2", function()
  q:fence(w, function(r) return celer.box({ r }, { r + 1 }) end)
end)
refused("a rank captures one box of u", function()
  q:fence(u, function() return celer.box({ 0 }, { 1 }), celer.box({ 2 }, { 3 }) end)
end)
]==])

  for _, shapes in ipairs { script.shapes, { script.divided[3] } } do
    script.everywhere("of a host object is another on each rank", [==[
local rank, ranks = require("celer.core").rank()
local log = celer.host_object(function() return { n = 0, words = {} } end, { name = "log" })
local sums = celer.host_object("struct { int64_t n[4]; double x; }", { name = "sums" })
local unused = celer.host_object(function() error "made" end)
local first = celer.host_object(function() return { n = 7 } end)
local function count(l) return { l.n, l.words } end
local seen = {}
for i = 1, 12 do
  q:submit(function(cg)
    local l = cg:side_effect(log, i % 3 == 0 and "exclusive" or nil)
    local s = cg:side_effect(sums, "relaxed")
    cg:host_task({ 4 * ranks }, function(part, l, s)
      l.n, l.words[#l.words + 1] = l.n + 1, "task " .. i
      s:add("n", 2, part.size[0])
      s:add("x", 0.5)
    end, l, s)
  end)
  seen[i] = q:fence(celer.capture(log, count), sums)
end
q:submit(function(cg)
  local f = cg:side_effect(first)
  cg:host_task(celer.on_master, function(_, f) f.n = f.n + 1 end, f)
end)
local function read(o) return o.n end
local a, b, c, d = q:wait(celer.capture(log, count), sums, celer.capture(unused, read),
  celer.capture(first, read))
for i = 1, 12 do
  local l, s = seen[i]:get()
  same("count", l:here()[1], i)
  same("words", l:here()[2][i], "task " .. i)
  same("no more", #l:here()[2], i)
  same("relaxed ones before it", tonumber(s:here().n[2]), 4 * i)
  same("real", s:here().x, 0.5 * i)
end
same("shown", tostring(a), "divided snapshot of log")
same("last", a:here()[1] * 100 + tonumber(b:here().n[2]), 1248)
same("never made", c:here(), nil)
same("made on rank 0 alone", d:here(), rank == 0 and 8 or nil)
refused("would make ranks diverge", function() return a.n end)
refused("give the function that says what of host object log", function() q:wait(log) end)
refused("is said by a function, not a box", function() q:fence(log, celer.box({ 0 }, { 1 })) end)
local what = q:fence(log, read)
log:free()
same("of what was freed since", what:get():here(), 12)
refused("log was freed", function() q:fence(log, read) end)
]==], nil, { shapes = shapes })
  end

  it("of a host object fails at its line", function()
    for _, case in ipairs {
      { "function(l) return print end", "returned what cannot be brought back" },
      { "function(l) return l.n.m.k end", "the capture of host object log: .*case.lua:4" },
    } do
      local r = script.run([==[
local log = celer.host_object(function() return { n = {} } end, { name = "log" })
q:submit(function(cg) local l = cg:side_effect(log) cg:host_task({ 8 }, function() end, l) end)
q:wait(celer.capture(log, ]==] .. case[1] .. "))", { devices = 1, ranks = 2 })
      assert.equal("", r.stdout)
      assert.matches(case[2], r.stderr)
      assert.not_equal(0, r.status)
    end
  end)

  script.everywhere("decides how a loop goes on", [==[
local k = celer.kernel " kernel void halve(item<0> it, inout<double, 0> x) { x() = x() / 2; } "
local x = celer.buffer("double", nil, { name = "x", init = 1 })
local steps = 0
repeat
  q:submit(function(cg) cg:parallel_for({}, k, cg:read_write(x)) end)
  steps = steps + 1
until q:fence(x):get()() < 1e-3
same("steps", steps, 10)
same("shown", tostring(q:wait(x)), "snapshot of x: double 0.0009765625")
]==])

  script.everywhere("decides how a loop goes on, a few steps later", [==[
local k = celer.kernel " kernel void halve(item<0> it, inout<double, 0> x) { x() = x() / 2; } "
local x = celer.buffer("double", nil, { name = "x", init = 1 })
local norms, steps = {}, 0
for step = 1, 100 do
  q:submit(function(cg) cg:parallel_for({}, k, cg:read_write(x)) end)
  norms[step] = q:fence(x)
  steps = step
  if step > 3 and norms[step - 3]:get()() < 1e-3 then break end
end
same("steps", steps, 13)
same("value", q:wait(x)(), 2 ^ -13)
]==])

  script.everywhere("is refused when it makes no sense",
    common .. [==[
add(1)
refused("leaves the buffer u, which is [0, 12)", function()
  q:fence(u, celer.box({ 3 }, { 13 }))
end)
for name, mapper in pairs { all = celer.all, one_to_one = celer.one_to_one,
  even_split = celer.even_split, slice = celer.slice(0), transposed = celer.transposed(0),
  neighborhood = celer.neighborhood(1) } do
  refused("celer." .. name .. " is a range mapper, for accesses of tasks; a capture takes",
    function() q:wait(celer.capture(u, mapper)) end)
end
refused("leaves the buffer u", function() celer.capture(u, celer.box({ -1 }, { 3 })) end)
refused("has 2 dimensions, the box to capture has 1", function()
  q:fence(w, celer.box({ 3 }, { 4 }))
end)
refused("must be a celer.box, not a table", function() q:fence(u, { 3, 4 }) end)
refused("the first argument must be a buffer, not a number", function() q:fence(3) end)
refused("must be a buffer, not nil", function() celer.capture(nil) end)
refused("argument 2 must be a buffer", function() q:wait(u, 3) end)
refused("call it with a colon", function() q.wait(u) end)
refused("inside the function of a q:submit", function() q:submit(function() q:wait() end) end)
refused("inside the function of a q:submit", function() q:submit(function() q:fence(u) end) end)
local future = q:fence(u)
refused("call it with a colon", function() future.get() end)
same("still works", future:get()[0], 1)
]==])

  -- 8 MiB each, of which Lua's collector sees some hundred bytes.
  script.everywhere("that nobody reads any more go before they are many", [==[
local n, kept = 2 ^ 20, setmetatable({}, { __mode = "k" })
local x = celer.buffer("double", n, { init = 1 })
local function living()
  local count = 0
  for _ in pairs(kept) do count = count + 1 end
  return count
end
for _ = 1, 30 do kept[q:wait(x)] = true end
same("few live", living() <= 10, true)
collectgarbage "stop"
for _ = 1, 12 do kept[q:wait(x)] = true end
same("the script has its way", living() >= 12, true)
]==], nil, { before = { "--backend", "cpu" } })
end)
