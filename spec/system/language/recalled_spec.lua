-- q:submit does not run a function again that comes to what a closure of the same code came
-- to. It does what running it does, with the values of now.
local script = require("spec.support.script")

-- like(what, make, n): make(i) gives a closure, for i from 1 to n. All are submitted, and do
-- what they do when they are run. Gives how many were not run.
local like = script.sums .. [==[
local known = count_short "celer.submit.recalled"
local recalled = require "celer.submit.recalled"
local function told(...)
  local out = {}
  for _, s in ipairs { q:wait(...) } do
    for i = 0, 11 do out[#out + 1] = s(i) end
  end
  return table.concat(out, " ")
end
local function outcome(f)
  a:fill(3) b:fill(-1) c:fill(-2)
  local ok, message = pcall(q.submit, q, f)
  return ok and told(a, b, c) or tostring(message)
end
function like(what, make, n)
  known.n = 0
  for i = 1, n do
    recalled.on = false
    local wanted = outcome(make(i))
    recalled.on = true
    same(("%s, %d"):format(what, i), outcome(make(i)), wanted)
  end
  return known.n
end
function recalled_like(what, make, n, least)
  local times = like(what, make, n)
  if times < least then error(("%s: %d were recalled, not %d"):format(what, times, least), 2) end
end
function run_like(what, make, n)
  same(what .. ", recalled", like(what, make, n), 0)
end
]==]

script.everywhere("a closure that is made anew is recalled", like .. [==[
recalled_like("buffers and numbers", function(i)
  local from, to, n, reach = i % 2 == 0 and a or c, b, i, i % 3
  return function(cg)
    cg:name "anew"
    cg:parallel_for({ 12 }, k, cg:read(from, celer.neighborhood(2)), cg:discard_write(to), n, reach)
  end
end, 30, 24)
recalled_like("a few sets of what is compared", function(i)
  local size = i % 3 + 4
  return function(cg)
    cg:parallel_for({ size }, k, cg:read(a, celer.all), cg:discard_write(b), 1, 2)
  end
end, 40, 30)
recalled_like("a mapper", function(i)
  local from, to = i % 2 == 0 and a or c, b
  return function(cg)
    local r = cg:read(from, function(chunk) return chunk:grow(1) end)
    cg:parallel_for({ 12 }, k, r, cg:discard_write(to), 0, 1)
  end
end, 30, 24)
recalled_like("hints", function(i)
  return function(cg)
    cg:hint { oversubscribe = 2 }
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), i, 1)
  end
end, 30, 24)
]==])

script.everywhere("a closure that is made anew is what it is", like .. [==[
local function task(cg, n, reach)
end
-- A number that a mapper captures, that is computed with, or that is tested.
like("a mapper's number", function(i)
  local reach = i % 5
  return function(cg)
    local r = cg:read(a, function(chunk) return chunk:grow(reach) end)
    cg:parallel_for({ 12 }, k, r, cg:discard_write(b), 0, reach)
  end
end, 40)
like("a sum", function(i)
  local n = i
  return function(cg)
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n + 1, 0)
  end
end, 30)
like("a range", function(i)
  return function(cg)
    cg:parallel_for({ i % 12 + 1 }, k, cg:read(a, celer.all), cg:discard_write(b), 1, 0)
  end
end, 40)
like("a condition", function(i)
  local n = i
  return function(cg)
    if n > 20 then n = 20 end
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 0)
  end
end, 30)
like("another condition", function(i)
  local n, m = i, i % 7
  return function(cg)
    local value = n
    if m == 3 then value = 0 end
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), value, 0)
  end
end, 40)
-- Kinds: what was a number, or a buffer, is something else.
local kinds = { 7, false, nil, 0, true, "7", 1.5, 2 ^ 40, 0 / 0, 8 }
for at = 1, 10 do
  local value = kinds[at]
  like("a kind " .. at, function(i)
    local n = i
    if i > 12 then n = value end
    return function(cg)
      cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 0)
    end
  end, 16)
  like("a kind that is tested " .. at, function(i)
    local n, there = i, 1
    if i > 12 then there = value end
    return function(cg)
      local m = n
      if there then m = 5 end
      if there == nil then m = 6 end
      cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), m, 0)
    end
  end, 16)
  like("a kind of buffer " .. at, function(i)
    local u = i % 2 == 0 and a or c
    if i > 12 then u = value end
    return function(cg)
      cg:parallel_for({ 12 }, k, cg:read(u, celer.all), cg:discard_write(b), 1, 0)
    end
  end, 16)
end
local sizes = { new(12), celer.buffer("int", { 12, 1 }, { init = 0 }), new(13),
  celer.buffer("float", { 12 }, { init = 0 }), celer.buffer("int", {}, { init = 0 }) }
for at, other in ipairs(sizes) do
  like("another buffer " .. at, function(i)
    local u = i % 2 == 0 and a or c
    if i > 12 then u = other end
    return function(cg)
      cg:parallel_for({ 12 }, k, cg:read(u, celer.all), cg:discard_write(b), 1, 0)
    end
  end, 16)
end
local old = new(12)
local function of_old(i)
  local u = i % 2 == 0 and a or old
  return function(cg)
    cg:parallel_for({ 12 }, k, cg:read(u, celer.all), cg:discard_write(b), 1, 0)
  end
end
like("one that is freed", of_old, 12)
old:free()
like("one that was freed", of_old, 8)
like("one buffer twice", function(i)
  local from, to = a, b
  if i > 12 then to = a end
  return function(cg)
    cg:parallel_for({ 12 }, k, cg:read(from), cg:discard_write(to), 1, 0)
  end
end, 16)
-- A zero's sign.
local sign = celer.kernel [[
  kernel void sign(item<1> it, out<int, 1> b, double x) { b(it[0]) = signbit(x) ? 1 : 2; }
]]
like("a zero", function(i)
  local x = i % 3 == 0 and 0 or 0 * -1
  return function(cg) cg:parallel_for({ 12 }, sign, cg:discard_write(b), x) end
end, 30)
-- Variables that a helper, or a mapper of the outside, shares.
do
  local n = 0
  local function value() return n end
  like("a variable that a helper has", function(i)
    n = i
    return function(cg)
      local m = value()
      cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, m % 3)
    end
  end, 30)
  local reach = 0
  local function near(chunk) return chunk:grow(reach) end
  like("a variable that a mapper has", function(i)
    reach = i % 4
    return function(cg)
      cg:parallel_for({ 12 }, k, cg:read(a, near), cg:discard_write(b), 0, reach)
    end
  end, 40)
end
-- A helper that is made anew with another variable.
like("a helper", function(i)
  local function value() return i end
  return function(cg)
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), value(), 0)
  end
end, 30)
-- A field of a buffer that changes from closure to closure.
a.scale, c.scale = 1, 2
like("a field of a buffer that changes", function(i)
  local u = i % 2 == 0 and a or c
  return function(cg)
    cg:parallel_for({ 12 }, k, cg:read(u, celer.all), cg:discard_write(b), u.scale, 0)
  end
end, 30)
-- Another kernel, and another mapper.
local twin = celer.kernel [[
  kernel void twin(item<1> it, in<int, 1> a, out<int, 1> b, int n, int reach) { b(it[0]) = 99; }
]]
like("a kernel", function(i)
  local kernel = i % 5 == 0 and twin or k
  return function(cg)
    cg:parallel_for({ 12 }, kernel, cg:read(a, celer.all), cg:discard_write(b), i, 0)
  end
end, 30)
like("a mapper", function(i)
  local map = i % 3 == 0 and celer.neighborhood(i % 4) or celer.all
  return function(cg)
    cg:parallel_for({ 12 }, k, cg:read(a, map), cg:discard_write(b), i, i % 4)
  end
end, 30)
-- A variable that changes after the closure was made, by another one or by the debugger.
do
  local from, n = a, 0
  local function f(cg)
    cg:parallel_for({ 12 }, k, cg:read(from, celer.all), cg:discard_write(b), n, 0)
  end
  like("one closure", function(i)
    n, from = i, i % 2 == 0 and a or c
    return f
  end, 30)
  like("by the debugger", function(i)
    for at = 1, 9 do
      if debug.getupvalue(f, at) == "n" then debug.setupvalue(f, at, 100 + i) end
    end
    return f
  end, 10)
end
-- Two closures of one code, of which each has its own.
local function make(from, n)
  return function(cg)
    cg:parallel_for({ 12 }, k, cg:read(from, celer.all), cg:discard_write(b), n, 0)
  end
end
local one, other = make(a, 1), make(c, 2)
like("two closures", function(i) return i % 3 == 0 and one or other end, 30)
]==], nil, { shapes = { script.shapes[1], script.shapes[2] } })

script.everywhere("what is to be run is run", like .. [==[
local calls, state, list = 0, { n = 1 }, {}
run_like("a counter", function(i)
  return function(cg)
    calls = calls + 1
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), i, 0)
  end
end, 12)
same("calls", calls, 24)
a.calls = 0
run_like("a field", function(i)
  return function(cg)
    a.calls = a.calls + 1
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), i, 0)
  end
end, 12)
same("calls, of the field", a.calls, 24)
run_like("a list", function(i)
  return function(cg)
    list[#list + 1] = i
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), i, 0)
  end
end, 12)
same("elements", #list, 24)
run_like("a global", function(i)
  return function(cg)
    global = i -- luacheck: ignore
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), i, 0)
  end
end, 12)
run_like("a table", function(i)
  state.n = i
  return function(cg)
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), state.n, 0)
  end
end, 12)
run_like("a host task", function(i)
  return function(cg)
    cg:host_task(celer.on_master, function(_, to, n) to[0] = n end, cg:write(b, celer.all), i)
  end
end, 12)
-- Inside of coroutines, and where an error is raised in between.
local calls_inside = 0
run_like("an error", function(i)
  return function(cg)
    calls_inside = calls_inside + 1
    if i % 3 == 0 then error "mine" end
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), i, 0)
  end
end, 12)
same("calls, with errors", calls_inside, 24)
local function plain(i)
  return function(cg)
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), i, 0)
  end
end
recalled_like("plain", plain, 12, 8)
q:hint { oversubscribe = 2 }
recalled_like("with hints", plain, 12, 7)
known.n = 0
refused("inside the function of a q:submit", function()
  q:submit(function() q:submit(plain(1)) end)
end)
q:drain()
refused("the queue was drained", function() q:submit(plain(1)) end)
q = celer.queue()
recalled_like("on a new queue", plain, 12, 7)
]==], nil, { shapes = { script.shapes[1] } })

describe("a function that is recalled", function()
  it("keeps no buffer", function()
    local r = script.run(like .. [==[
local weak = setmetatable({}, { __mode = "k" })
for i = 1, 20 do
  local u = new(12)
  weak[u] = true
  q:submit(function(cg)
    cg:parallel_for({ 12 }, k, cg:read(u, celer.all), cg:discard_write(b), i, 0)
  end)
end
q:wait()
for _ = 1, 3 do collectgarbage() end
local n = 0
for _ in pairs(weak) do n = n + 1 end
same("buffers that are kept", n, 0)
same("are recalled", known.n > 10, true)
print "checked"]==], script.shapes[1])
    assert.equal("checked\n", r.stdout, r.stderr)
  end)

  it("is run under celer check", function()
    local r = script.run(like .. [==[
for i = 1, 12 do
  q:submit(function(cg)
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), i, 0)
  end)
end
same("recalled", known.n, 0)
print "checked"]==], script.shapes[1], { before = { "--check-nan" } })
    assert.equal("checked\n", r.stdout, r.stderr)
  end)
end)
