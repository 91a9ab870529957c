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
      cg:read(dt, celer.all), cg:discard_write(v))
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
