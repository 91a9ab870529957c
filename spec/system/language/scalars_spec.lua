-- Kernels of the range {} over buffers of no dimensions: each rank computes them, so that
-- their results need not travel.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

local shapes = { script.shapes[1],
  { name = "on two ranks with three devices", ranks = 2, devices = 3 },
  { name = "on five ranks", ranks = 5, devices = 1 } }

-- Heat with a step in time that follows from the largest value.
local adaptive = [==[
local celer = require "celer"
local n, steps = 101, tonumber(arg[1]) or 12
local k = celer.kernel([=[
  kernel void largest(item<1> it, in<double, 1> u, reducer<double> most) {
    most.combine(u(it[0]));
  }
  kernel void choose(item<0> it, in<double, 0> most, out<double, 0> dt, inout<double, 0> t) {
    dt() = 0.25 / (1 + most());
    t() += dt();
  }
  kernel void advance(item<1> it, in<double, 1> u, in<double, 0> dt, out<double, 1> v) {
    const int i = it[0], last = it.range(0) - 1;
    v(i) = u(i) + dt() * (u(max(i - 1, 0)) - 2 * u(i) + u(min(i + 1, last)));
  }
]=], { options = { cuda = { "-fmad=false" } } })
local q = celer.queue()
local function first(i) return i * (n - i) % 7 end
local u = celer.buffer("double", { n }, { init = first })
local v = celer.buffer("double", { n })
local most, dt = celer.buffer("double", {}), celer.buffer("double", {})
local t = celer.buffer("double", {}, { init = 0 })
for _ = 1, steps do
  q:submit(function(cg)
    cg:parallel_for({ n }, k.largest, cg:read(u), cg:reduce(most, "max"))
  end)
  q:submit(function(cg)
    cg:parallel_for({}, k.choose, cg:read(most), cg:discard_write(dt), cg:read_write(t))
  end)
  q:submit(function(cg)
    cg:parallel_for({ n }, k.advance, cg:read(u, celer.neighborhood(1)),
      cg:read(dt), cg:discard_write(v))
  end)
  u, v = v, u
end
]==]

describe("a kernel over numbers alone", function()
  script.everywhere("gives all ranks what one gives", adaptive .. [==[
local a, b, time = {}, {}, 0
for i = 0, n - 1 do a[i] = first(i) end
for _ = 1, steps do
  local top = a[0]
  for i = 1, n - 1 do top = math.max(top, a[i]) end
  local d = 0.25 / (1 + top)
  time = time + d
  for i = 0, n - 1 do
    b[i] = a[i] + d * (a[math.max(i - 1, 0)] - 2 * a[i] + a[math.min(i + 1, n - 1)])
  end
  a, b = b, a
end
local s, at = q:drain(u, t)
same("time", at(), time)
for i = 0, n - 1 do same("u " .. i, s(i), a[i]) end
]==], nil, { shapes = shapes })

  script.everywhere("may have other tasks before and behind it", [==[
local k = celer.kernel [=[
  kernel void next(item<0> it, inout<int, 0> x, in<int, 0> by) { x() = 3 * x() + by(); }
  kernel void add(item<1> it, inout<int, 1> u, in<int, 0> x) { u(it[0]) += x(); }
]=]
local ranks = celer.ranks()
local x = celer.buffer("int", {}, { init = 1 })
local by = celer.buffer("int", {}, { init = 2 })
local u = celer.buffer("int", { 13 }, { init = 0 })
local function next_x()
  q:submit(function(cg) cg:parallel_for({}, k.next, cg:read_write(x), cg:read(by)) end)
end
local want_x, want_u = 1, 0
for turn = 1, 8 do
  next_x()
  next_x()
  want_x = 9 * want_x + 8
  q:submit(function(cg)
    cg:parallel_for({ 13 }, k.add, cg:read_write(u), cg:read(x, celer.all))
  end)
  want_u = want_u + want_x
  q:submit(function(cg) -- the last rank alone has what is written next
    cg:host_task(celer.at(turn % ranks), function(_, v) v:set(v() % 11) end, cg:read_write(x))
  end)
  want_x = want_x % 11
end
local s, now = q:drain(u, x)
same("x", now(), want_x)
for i = 0, 12 do same("u", s(i), want_u) end
]==], nil, { shapes = shapes })

  script.everywhere("may be written in Lua", [==[
local n = 13
local x, y, flag = celer.scalar("int", 1), celer.scalar("float", 0.1), celer.scalar("bool")
local pair = celer.buffer("float2", {}, { init = { x = 1, y = 2 } })
local u = celer.buffer("double", { n }, { init = function(i) return i end })
local limit = 20
local next_x = celer.kernel(function(x, y, flag, pair)
  local before = x
  for k = 1, 4 do
    x:set(x + k)
    if x() > limit then break end
  end
  y:set(y / 3)
  if before > 5 then y:set(y + before) else pair.x = pair.x + y() end
  flag:set(x > limit and y > 0)
  pair.y = pair.y * 2
end)
local ends = celer.kernel(function(u, x) u[0], u[n - 1] = u[n - 1] + x, u[0] end)
local sum = celer.kernel(function(u, r)
  local s = 0
  for k = 0, n - 1 do s = s + u[k] end
  r:add(s)
end)
local function round(value)
  local f = require("ffi").new "float[1]"
  f[0] = value
  return f[0]
end
local want_x, want_y, px, py, first, last = 1, round(0.1), 1, 2, 0, n - 1
for turn = 1, 6 do
  next_x({}, x, y, flag, pair)
  local before = want_x
  for k = 1, 4 do
    want_x = want_x + k
    if want_x > limit then break end
  end
  want_y = round(want_y / round(3))
  if before > 5 then want_y = round(want_y + before) else px = round(px + want_y) end
  py = py * 2
  ends({}, u, x)
  first, last = last + want_x, first
end
local total = celer.scalar("double")
for _ = 1, 4 do sum({}, u, celer.sum(total)) end -- the short way in the end
local function show(x, y, f, p)
  return ("%d %.9g %s %.9g %g"):format(x, y, tostring(f), p.x, p.y)
end
same("set", show(x(), y(), flag(), pair()),
  show(want_x, want_y, want_x > limit and want_y > 0, { x = px, y = py }))
same("ends", u(0) + 1000 * u(n - 1), first + 1000 * last)
same("sum", total(), first + last + (n - 1) * (n - 2) / 2)
same("accesses", next_x:accesses({}, x, y, flag, pair):gsub("celer.box%b()", "box"),
  "read_write    x: box\nread_write    y: box\ndiscard_write flag: box\nread_write    pair: box")
]==], nil, { shapes = shapes })

  it("says what a kernel in Lua cannot set", function()
    for _, case in ipairs {
      { "k = celer.kernel(function(i, x) x:set(i) end) k({ 4 }, x)", "two items may write" },
      { "k = celer.kernel(function(x) x.set(4) end) k({}, x)", "call it with a colon: x:set" },
      { "k = celer.kernel(function(x) x:set() end) k({}, x)", "x:set takes one value, got 0" },
      { "k = celer.kernel(function(x) local y = x y:set(4) end) k({}, x)", "only the number" },
      { "k = celer.kernel(function(x) x:set(0.5) end) k({}, x)", "this may be a fraction" },
      { "k = celer.kernel(function(x) x:sett(4) end) k({}, x)", "a number, and has no 'sett'" },
      { "k = celer.kernel(function(x) x:set(4) end) k({ 3 }, x)", "fits a range of 0 dimensions" },
    } do
      local r = celer.run { "-e", "local celer = require 'celer'\n"
        .. "local x, k = celer.scalar('int')\n" .. case[1] }
      assert.equal(1, r.status, case[1])
      assert.matches(case[2], r.stderr, 1, true)
    end
  end)

  it("takes no messages", function()
    local function collectives(steps)
      local folder = scratch.folder()
      scratch.write(folder .. "/case.lua", adaptive)
      local r = celer.run({ "run", "--dry-run", 8, folder .. "/case.lua", steps })
      os.execute("rm -r '" .. folder .. "'")
      assert.equal(0, r.status)
      return tonumber(r.stderr:match("\ncollectives%s+(%d+)"))
    end
    -- The largest value is found together, and nothing else.
    assert.equal(10, collectives(25) - collectives(15))
  end)

  it("prints once", function()
    local r = celer.run({ "-e", [==[
      local celer = require "celer"
      local q = celer.queue()
      local k = celer.kernel [[
        kernel void tell(item<0> it, inout<int, 0> x) { x() += 1; printf("x is %d\n", x()); }
      ]]
      local x = celer.buffer("int", {}, { init = 6 })
      q:submit(function(cg) cg:parallel_for({}, k.tell, cg:read_write(x)) end)
      q:drain()
    ]==] }, { ranks = 3 })
    assert.equal("x is 7\n", r.stdout)
    assert.equal(0, r.status)
  end)
end)

describe("a buffer without dimensions", function()
  script.everywhere("is read by all items, whoever reads it, without a mapper", [==[
local a, b = celer.buffer("int", {}, { init = 5 }), celer.buffer("bool", {}, { init = true })
local p = celer.buffer(celer.struct("pair", "int x; int y;"), {}, { init = { x = 7, y = 8 } })
local u = celer.buffer("int", { 3, 9 }, { init = 0 })
local k = celer.kernel [=[
  kernel void add(item<2> it, inout<int, 2> u, in<int, 0> a) { u(it[0], it[1]) += a(); }
]=]
for _ = 1, 9 do -- the last of them are not run again
  q:submit(function(cg) cg:parallel_for({ 3, 9 }, k, cg:read_write(u), cg:read(a)) end)
end
local step = q:group(function(cg, u, a)
  cg:parallel_for({ 3, 9 }, k, cg:read_write(u), cg:read(a))
end)
for _ = 1, 3 do step(u, a) end
celer.kernel(function(i, j, u, a, b, p)
  local x = a
  if j > 4 then x = 1 end
  if b then u[i][j] = u[i][j] + x + a() + p.x + p().y end
end)({ 3, 9 }, u, a, b, p)
local function rows(chunk) return celer.box({ chunk.min[0], 0 }, { chunk.max[0], 9 }) end
q:submit(function(cg)
  cg:host_task({ 3 }, function(part, u, a)
    for i = part.min[0], part.max[0] - 1 do
      for j = 0, 8 do u:set(i, j, u(i, j) * 100 + a()) end
    end
  end, cg:read_write(u, rows), cg:read(a))
end)
local s = q:wait(u)
for i = 0, 2 do
  for j = 0, 8 do same("element", s(i, j), 100 * (60 + (j > 4 and 1 or 5) + 20) + 5) end
end
]==])

  script.everywhere("has no elements to index in a kernel", [==[
local u, a = celer.buffer("int", { 9 }), celer.buffer("int", {}, { init = 5 })
refused("'a' has 0 dimensions: too many indices", function()
  local k = celer.kernel(function(i, u, a) u[i] = a[0] end)
  k({ 9 }, u, a)
end)
refused("'a' has 0 dimensions, and is given 1 here", function()
  local k = celer.kernel(function(i, u, a) u[i] = a(0) end)
  k({ 9 }, u, a)
end)
]==], nil, { shapes = { script.shapes[1] } })
end)

describe("celer.scalar", function()
  script.everywhere("computes as Lua does", [==[
local dt, t = celer.scalar("double", 0.5, { name = "dt" }), celer.scalar("double", 0)
local n, f, b = celer.scalar("int", 7), celer.scalar("float", 0.1), celer.scalar("bool", true)
for i = 1, 20 do t:set(t + dt * i) end
same("t", t(), 105)
n:set(n * 2 + 1)
same("n", n(), 15)
n:set(celer.math.floor(n / 2) % 4 - 8)
same("n", n(), -5)
n:set(n % 3)
same("n", n(), 1)
local function float(x) return tonumber(require("ffi").new("float", x)) end
f:set(f * 3)
same("f", f(), float(float(0.1) * 3))
b:set(t:lt(dt))
same("b", b(), false)
dt:set(celer.select(b, 1, celer.math.min(t, 3, dt + 100) ^ 2))
same("dt", dt(), 9)
dt:set(-dt + celer.math.max(1, n))
same("dt", dt(), -8)
dt:set(1.5)
t:set(dt)
same("t", t(), 1.5)
]==], nil, { shapes = shapes })

  -- A sum over ranks, the step that follows from it, and what the step changes.
  script.everywhere("is read as a number by kernels in Lua, and takes no wait", [==[
local u = celer.buffer("double", { 40 }, { init = function(i) return i % 7 end })
local most, dt, t = celer.scalar("double"), celer.scalar("double"), celer.scalar("double", 0)
local find = celer.kernel(function(i, u, most) most:max(u[i]) end)
local step = celer.kernel(function(i, u, dt, t) u[i] = u[i] * (1 - dt) + dt() * t end)
local want, time = {}, 0
for i = 0, 39 do want[i] = i % 7 end
for _ = 1, 12 do
  find({ 40 }, u, celer.reduce(most, "max"))
  dt:set(0.25 / (most + 1))
  t:set(t + dt)
  step({ 40 }, u, dt, t)
  local top = want[0]
  for i = 1, 39 do top = math.max(top, want[i]) end
  local d = 0.25 / (top + 1)
  time = time + d
  for i = 0, 39 do want[i] = want[i] * (1 - d) + d * time end
end
same("t", t(), time)
local s = q:wait(u)
for i = 0, 39 do
  if math.abs(s[i] - want[i]) > 1e-13 then same("u " .. i, s[i], want[i]) end
end
]==], nil, { shapes = shapes })

  script.everywhere("refuses what it is not for, with the user's line", [==[
local dt, n = celer.scalar("double", 1, { name = "dt" }), celer.scalar("int", 7, { name = "n" })
refused("n:set: it has whole numbers (int), and dt may be a fraction", function() n:set(dt) end)
refused("a < b", function() if dt < n then return end end)
refused("a + b", function() dt:set(dt + "a") end)
refused("a float3 is no number", function() dt = celer.scalar("float3") or dt end)
refused("must be a number or boolean, not a string", function() dt = celer.scalar("int", "a") end)
refused("must be a number or boolean, not an expression", function()
  dt = celer.scalar("int", dt + 1)
end)
refused("unknown option 'nam', did you mean name?", function()
  dt = celer.scalar("int", 1, { nam = "x" })
end)
same("and goes on", dt() + n(), 8)
]==], nil, { shapes = { script.shapes[1] } })
end)
