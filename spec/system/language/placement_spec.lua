-- Work that one rank does: celer.at(rank), celer.where(buffer, box).
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

-- Kernels of 0 to 3 dimensions that add one to what they are given; `where` submits one of
-- them there, and then a host task that says where a buffer lies.
local prelude = [==[
local ranks = celer.ranks()
local sizes = { [0] = {}, { 7 }, { 5, 3 }, { 3, 2, 4 } }
local k = celer.kernel [=[
  kernel void up0(item<0> it, inout<int, 0> u) { u() += 1; }
  kernel void up1(item<1> it, inout<int, 1> u) { u(it[0]) += 1; }
  kernel void up2(item<2> it, inout<int, 2> u) { u(it[0], it[1]) += 1; }
  kernel void up3(item<3> it, inout<int, 3> u) { u(it[0], it[1], it[2]) += 1; }
]=]
local function fresh(d, init)
  return celer.buffer("int", sizes[d], { name = "u" .. d, init = init })
end
local function up(u, place, hints)
  q:submit(function(cg)
    cg:hint { place = place }
    if hints then cg:hint(hints) end
    cg:parallel_for(sizes[u.dims], k["up" .. u.dims], cg:read_write(u))
  end)
end
-- A rank number, told by the rank that the work is at.
local said = celer.buffer("int", {}, { name = "said" })
local function rank_of(where)
  q:submit(function(cg)
    cg:host_task(where, function(part, said) said:set(part.rank) end,
      cg:discard_write(said, celer.all))
  end)
  return q:wait(said)()
end
]==]

local shapes = { script.shapes[1], script.shapes[2], script.shapes[3],
  { name = "on two ranks with three devices", ranks = 2, devices = 3 },
  { name = "on seven ranks", ranks = 7, devices = 1 } }

describe("work at one rank", function()
  script.everywhere("is all done there", prelude .. [==[
for d = 0, 3 do
  local u = fresh(d, 0)
  for turn = 0, 3 * ranks do -- a loop whose home moves
    local home = turn * turn % ranks
    up(u, celer.at(home), turn % 2 == 0 and { split = "2d", granularity = 1 } or nil)
    if turn % 4 == 0 then same("rank", rank_of(celer.where(u)), home) end
    same("rank", rank_of(celer.at((home + 1) % ranks)), (home + 1) % ranks)
  end
  local s = q:wait(u)
  local first = ({ [0] = {}, { 0 }, { 0, 0 }, { 0, 0, 0 } })[d]
  local last = ({ [0] = {}, { 6 }, { 4, 2 }, { 2, 1, 3 } })[d]
  same("first", s(unpack(first)), 3 * ranks + 1)
  same("last", s(unpack(last)), 3 * ranks + 1)
end
same("text", tostring(celer.at(0)), "celer.at(0)")
]==], nil, { shapes = shapes })

  script.everywhere("follows what another task has written", prelude .. [==[
local u = celer.buffer("int", { 12 }, { name = "u" })
local function write(rank, lo, hi)
  q:submit(function(cg)
    cg:host_task(celer.at(rank), function(_, u)
      for i = u.min[0], u.max[0] - 1 do u[i] = 1 end
    end, cg:discard_write(u, celer.fixed(celer.box({ lo }, { hi }))))
  end)
end
local function where(lo, hi) return rank_of(celer.where(u, lo and celer.box({ lo }, { hi }))) end
local last, middle = ranks - 1, math.floor(ranks / 2)
same("without contents", where(), 0)
write(last, 0, 12)
same("of one rank", where(), last)
same("a part of it", where(3, 4), last)
same("nothing of it", where(3, 3), 0)
write(middle, 0, 6)
same("the lowest of two", where(), middle)
same("the lowest of two parts", where(5, 7), middle)
same("the rank with more", where(4, 12), last)
write(0, 8, 12) -- 6 of the middle one, 2 of the last, 4 of rank 0
same("of three", where(), ranks == 2 and 1 or ranks == 1 and 0 or middle)
same("the text", tostring(celer.where(u, celer.box({ 1 }, { 3 }))), "celer.where(u, [1, 3))")
-- What all have does not count; what they have to begin with neither.
local v = celer.buffer("int", { 4 }, { init = 3 })
same("of all", rank_of(celer.where(v)), 0)
-- The combination of what was reduced is at rank 0, or at all.
local sum = celer.buffer("int", {}, { name = "sum" })
local r = celer.kernel "kernel void r(item<1> it, reducer<int> sum) { sum += it[0]; }"
for turn = 1, 3 do
  q:submit(function(cg)
    cg:hint { place = turn == 1 and celer.where(u) or celer.at(last) }
    cg:parallel_for(10, r, cg:reduce(sum, "sum"))
  end)
  same("the sum", q:wait(sum)(), 45)
  same("where it is", rank_of(celer.where(sum)), 0)
end
]==], nil, { shapes = shapes })

  script.everywhere("is refused where it cannot be", prelude .. [==[
local u = fresh(1, 0)
local function submit(where, hints)
  return function()
    q:submit(function(cg)
      if hints then cg:hint(hints) end
      cg:host_task(where, function() end)
    end)
  end
end
refused("celer.at takes the number of a rank, not a string",
  function() local _ = celer.at "1" end)
refused("celer.at takes the number of a rank, not 0.5", function() local _ = celer.at(0.5) end)
refused("celer.at takes the number of a rank, not ", function() local _ = celer.at(0 / 0) end)
refused("celer.at: there is no rank -1: ", function() local _ = celer.at(-1) end)
refused(("celer.at: there is no rank %d: "):format(ranks), function() local _ = celer.at(ranks) end)
refused("celer.at takes the number of a rank, not inf",
  function() local _ = celer.at(math.huge) end)
refused("celer.where: the part [0, 8) leaves the buffer u1, which is [0, 7)", function()
  local _ = celer.where(u, celer.box({ 0 }, { 8 }))
end)
refused("celer.where: the part [0, 1) x [0, 1) has 2 dimensions, the buffer u1 has 1", function()
  local _ = celer.where(u, celer.box({ 0, 0 }, { 1, 1 }))
end)
refused("celer.where: the part must be a celer.box, not a table", function()
  local _ = celer.where(u, { 0, 1 })
end)
refused("celer.where", function() local _ = celer.where(7) end)
refused("celer.at is a function: write celer.at(rank)", submit(celer.at))
refused("celer.where is a function: write celer.where(buffer)", submit(celer.where))
refused("place must be celer.at(rank), celer.where(buffer, box) or celer.on_master, not a number",
  submit(7, { place = 1 }))
refused("it runs at celer.at(0) by its first argument, and at celer.where(u1, [0, 7)) by cg:hint",
  submit(celer.at(0), { place = celer.where(u) }))
refused("cg:hint gave weights to divide the work, but celer.at(0) does not divide it",
  submit({ 7 }, { place = celer.at(0), weights = function() return 1 end }))
refused("the place depends on the work", function() q:hint { place = celer.at(0) } end)
refused("celer.at(0) is for host tasks; give the range that is to be divided over devices, and "
  .. "by cg:hint { place = celer.at(0) } where", function()
  q:submit(function(cg) cg:interop_task(celer.at(0), function() end) end)
end)
refused("only the script says where work runs", function()
  local at = celer.at(0)
  q:submit(function(cg) cg:host_task(celer.once, function() print(at) end) end)
end)
local late = celer.where(u)
u:free()
refused("celer.where(u1, [0, 7)): the buffer was freed", submit(late))
refused("celer.where", function() local _ = celer.where(u) end)
]==], nil, { shapes = { script.shapes[1], script.shapes[2] } })

  local function run(args, text, ranks)
    local name = scratch.path(".lua")
    scratch.write(name, 'local celer = require "celer"\nlocal q = celer.queue()\n' .. text)
    args[#args + 1] = name
    local r = celer.run(args, { ranks = ranks })
    os.remove(name)
    return r
  end

  it("ends the job where ranks name different ones", function()
    for _, where in ipairs { "celer.at(rank)", "celer.where(u, celer.box({ 0 }, { 1 + rank }))" } do
      local r = run({ "run" }, ([==[
local rank = require("celer.core").rank()
local u = celer.buffer("int", 4, { name = "u", init = 0 })
q:submit(function(cg)
  cg:host_task(%s, function() end)
end)
q:wait()
print "not reached"
]==]):format(where), 3)
      assert.not_equal(0, r.status)
      assert.not_equal(124, r.status, "timed out")
      assert.matches(":6: ", r.stderr)
      assert.equal("", r.stdout)
    end
  end)

  local chain = [==[
local u = celer.buffer("int", 4, { name = "u", init = 0 })
local k = celer.kernel "kernel void k(item<1> it, inout<int, 1> u) { u(it[0]) += 1; }"
local function up(place)
  q:submit(function(cg)
    cg:hint { place = place }
    cg:parallel_for(4, k, cg:read_write(u))
  end)
end
for _ = 1, 5 do up(celer.at(celer.ranks() - 1)) end
for _ = 1, 7 do up(celer.where(u)) end
q:wait()
]==]

  it("is planned by dry runs", function()
    for rank = 0, 2 do
      local r = run({ "run", "--dry-run", "3", "--as-rank", tostring(rank) }, chain)
      assert.equal(0, r.status, r.stderr)
      assert.matches(rank == 2 and "with 12 kernels" or "with 0 kernels", r.stderr)
    end
  end)

  it("is drawn and checked", function()
    local r = run({ "graph", "--ranks", "3" }, chain)
    assert.equal(0, r.status, r.stderr)
    assert.matches("once, on rank 2\\l", r.stdout, 1, true)
    assert.matches("once, where u [0,4) lies\\l", r.stdout, 1, true)
    local function executions(rank)
      local g = run({ "graph", "--graph", "command", "--ranks", "3", "--rank", rank .. "" }, chain)
      return select(2, g.stdout:gsub(" execute", ""))
    end
    assert.same({ 0, 0, 12 }, { executions(0), executions(1), executions(2) })
    r = run({ "check" }, chain)
    assert.equal(0, r.status, r.stderr)
    assert.matches("no mistakes found", r.stderr .. r.stdout)
  end)
end)
