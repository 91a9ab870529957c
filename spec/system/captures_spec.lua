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
refused("drained", function() q:wait() end)
refused("drained", function() q:fence(u) end)
refused("drained", function() q:drain() end)
refused("drained", function() q:submit(print) end)
same("after drain", last[11], 1111)
]==])

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

  script.everywhere("is refused when it makes no sense",
    common .. [==[
add(1)
refused("leaves the buffer u, which is [0, 12)", function()
  q:fence(u, celer.box({ 3 }, { 13 }))
end)
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
end)
