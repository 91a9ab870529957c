-- How the work is divided, and that the results do not show it.
local script = require("spec.support.script")

-- Two fields of 24 x 20, a stencil from one to the other by steps, and what it
-- must give; `hint` is what each task asks for.
local stencil = [==[
local h, w = 24, 20
local function first(y, x) return (7 * y + 13 * x) % 31 end
local u = celer.buffer("int", { h, w }, { name = "u", init = first })
local v = celer.buffer("int", { h, w }, { name = "v" })
local k = celer.kernel [=[
  kernel void step(item<2> it, in<int, 2> u, out<int, 2> v) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    v(y, x) = (u(min(y + 1, h - 1), x) + 3 * u(max(y - 1, 0), x) + 5 * u(y, max(x - 1, 0))
      + 7 * u(y, min(x + 1, w - 1)) + u(y, x)) % 1000;
  }
]=]
local model = {}
for y = 0, h - 1 do
  model[y] = {}
  for x = 0, w - 1 do model[y][x] = (7 * y + 13 * x) % 31 end
end
local function advance(hint)
  q:submit(function(cg)
    cg:hint(hint)
    cg:parallel_for({ h, w }, k, cg:read(u, celer.neighborhood(1, 1)), cg:discard_write(v))
  end)
  u, v = v, u
  local new = {}
  for y = 0, h - 1 do
    new[y] = {}
    for x = 0, w - 1 do
      local m = model
      new[y][x] = (m[math.min(y + 1, h - 1)][x] + 3 * m[math.max(y - 1, 0)][x]
        + 5 * m[y][math.max(x - 1, 0)] + 7 * m[y][math.min(x + 1, w - 1)] + m[y][x]) % 1000
    end
  end
  model = new
end
local function compare(what)
  local s = q:wait(u)
  for y = 0, h - 1 do
    for x = 0, w - 1 do same(("%s (%d, %d)"):format(what, y, x), s(y, x), model[y][x]) end
  end
end
]==]

describe("the work", function()
  for _, shapes in ipairs { script.shapes, script.divided } do
    script.everywhere("gives the same, however it is divided", stencil .. [==[
local hints = {
  { split = "1d" }, { split = "2d" }, { split = "3d" }, { oversubscribe = 4 },
  { split = "2d", oversubscribe = 3 }, { granularity = 5 },
  { split = "2d", granularity = 4 }, { split = "2d", granularity = { 7, 3 }, oversubscribe = 2 },
  { split = "1d", oversubscribe = 256 },
}
for i, hint in ipairs(hints) do
  advance(hint)
  if i % 3 == 0 then compare("after " .. i) end
end
for i = 1, 30 do advance(hints[i * i % #hints + 1]) end
compare("in the end")
]==], nil, { shapes = shapes })
  end

  script.everywhere("is cut into tiles, and each rank's into runs", [==[
q:submit(function(cg)
  cg:hint { split = "2d", granularity = { 2, 3 }, oversubscribe = 2 }
  cg:host_task({ 8, 12 }, function(part)
    print(part.rank, part.min[0], part.max[0], part.min[1], part.max[1])
  end)
end)
]==], function(out, shape)
      local lines, covered = script.lines(out), 0
      assert.equal(2 * (shape.ranks or 1), #lines)
      for _, line in ipairs(lines) do
        local _, y0, y1, x0, x1 = line:match("^(%d+)\t(%d+)\t(%d+)\t(%d+)\t(%d+)$")
        assert.same({ 0, 0 }, { y0 % 2, x0 % 3 })
        covered = covered + (y1 - y0) * (x1 - x0)
      end
      assert.equal(8 * 12, covered)
      if shape.ranks == 4 then
        assert.same({ "0\t0\t2\t0\t6", "0\t2\t4\t0\t6", "1\t0\t2\t6\t12", "1\t2\t4\t6\t12",
          "2\t4\t6\t0\t6", "2\t6\t8\t0\t6", "3\t4\t6\t6\t12", "3\t6\t8\t6\t12" }, lines)
      end
    end, { shapes = { script.shapes[1], script.shapes[2], script.divided[3] } })

  script.everywhere("of groups is cut between groups of the granularity", [==[
local a = celer.buffer("int", { 24, 24 })
local k = celer.kernel [=[
  kernel void k(group<2> g, out<int, 2> a) {
    a(g.global(0), g.global(1)) = 100 * g.global(0) + g.global(1);
  }
]=]
local function run(hint)
  return function()
    q:submit(function(cg)
      cg:hint(hint)
      cg:parallel_for(celer.nd_range({ 24, 24 }, { 4, 2 }), k, cg:discard_write(a))
    end)
  end
end
run { split = "2d", granularity = { 6, 3 }, oversubscribe = 2 } ()
local s = q:wait(a)
for i = 0, 23 do same("element", s(i, 23 - i), 99 * i + 23) end
refused("groups of 4 and a granularity of 5 are cut at multiples of 20, of which the 24 items "
  .. "of dimension 0 are none", run { granularity = 5 })
run { granularity = { 12, 7 } } () -- dimension 1 is not cut
q:wait()
]==], nil, { shapes = { script.shapes[1], script.divided[2] } })

  for _, shapes in ipairs { script.shapes, script.divided } do
    script.everywhere("gives the same, whatever the ranks weigh", stencil .. [==[
local _, ranks = require("celer.core").rank()
local _, devices = require("celer.core").devices()
local function of_devices(w)
  local list = {}
  for d = 1, devices do list[d] = (w * d) % 5 + 0.5 end
  return list
end
local flat = {}
for k = 1, ranks do flat[k] = k * k end
local kept = celer.weights(flat)
local hints = {
  { weights = kept }, { weights = flat, oversubscribe = 2 },
  { weights = kept, split = "2d" }, { weights = "equal", split = "2d" },
  { weights = function(rank, n) return n - rank end, granularity = 3 },
  { weights = function(rank) return rank % 2 == 0 and 1 or 0 end },
  { weights = function(rank) return of_devices(rank + 1) end, split = "2d" },
  { weights = function(rank, n) return rank == n - 1 and 1e9 or 1e-9 end },
  { weights = function(rank) return rank == 0 and of_devices(3) or 2 end },
}
for i, hint in ipairs(hints) do
  advance(hint)
  if i % 3 == 0 then compare("after " .. i) end
end
for i = 1, 25 do advance(hints[i * i % #hints + 1]) end
compare("in the middle")
q:hint { weights = kept, split = "2d" }
for _ = 1, 5 do advance {} end
q:hint { weights = "equal" }
for _ = 1, 5 do advance { oversubscribe = 2 } end
compare("in the end")
]==], nil, { shapes = shapes })
  end

  script.everywhere("is divided in proportion to weights", [==[
q:hint { weights = function(rank) return ({ 4, 0, 2, 2 })[rank + 1] end }
local function show(name, hints)
  q:submit(function(cg)
    cg:hint(hints)
    cg:host_task({ 64 }, function(part)
      print(name, part.rank, part.min[0], part.max[0])
    end)
  end)
end
show("plain", {})
show("coarse", { granularity = 32 })
show("equal", { weights = "equal" })
show("other", { weights = { 1, 1, 1, 5 } })
]==], function(out)
      assert.same({ "coarse\t0\t0\t32", "coarse\t2\t32\t64",
        "equal\t0\t0\t16", "equal\t1\t16\t32", "equal\t2\t32\t48", "equal\t3\t48\t64",
        "other\t0\t0\t8", "other\t1\t8\t16", "other\t2\t16\t24", "other\t3\t24\t64",
        "plain\t0\t0\t32", "plain\t2\t32\t48", "plain\t3\t48\t64" }, (script.lines(out)))
    end, { shapes = { script.divided[3] } })

  script.everywhere("is cut in strips again by the split \"1d\"", [==[
local function show(name, hints)
  q:submit(function(cg)
    cg:hint(hints)
    cg:host_task({ 8, 8 }, function(part) print(name, part) end)
  end)
end
q:hint { split = "2d" }
show("tiles", {})
show("strips", { split = "1d" })
q:hint { split = "1d" }
show("again", {})
]==], function(out)
      local found = {}
      for _, name in ipairs { "again", "strips" } do
        for k = 0, 3 do
          found[#found + 1] = ("%s\t[%d, %d) x [0, 8)"):format(name, 2 * k, 2 * k + 2)
        end
      end
      for k = 0, 3 do
        local i, j = k < 2 and "[0, 4)" or "[4, 8)", k % 2 == 0 and "[0, 4)" or "[4, 8)"
        found[#found + 1] = ("tiles\t%s x %s"):format(i, j)
      end
      assert.same(found, (script.lines(out)))
    end, { shapes = { script.divided[3] } })

  script.everywhere("is not divided by weights that make no sense", [==[
local _, ranks = require("celer.core").rank()
local _, devices = require("celer.core").devices()
local function weights(...)
  local a = { ... }
  return function() local _ = celer.weights(a[1]) end
end
local many, nothing, list = {}, {}, {}
for k = 1, ranks + 1 do many[k] = 1 end
for k = 1, ranks do nothing[k], list[k] = 0, 1 end
refused(("celer.weights: %d for %d rank"):format(ranks + 1, ranks), weights(many))
refused("all are 0; somebody has to compute", weights(nothing))
refused("rank 0 has -1, not a number of at least 0 or a table", weights(function() return -1 end))
refused("rank 0 has nil, not a number", weights(function() end))
refused("device 0 of rank 0 has -2, not a number", weights(function() return { -2 } end))
refused("not a string", weights("2"))
refused("which has " .. devices, weights(function()
  local l = {}
  for d = 1, devices + 1 do l[d] = 1 end
  return l
end))
list[1] = math.huge
refused("not a number of at least 0", weights(list))
refused("celer.weights takes a table", function()
  q:submit(function(cg) cg:hint { weights = 3 } end)
end)
refused("the granularity depends on the work", function() q:hint { granularity = 3 } end)
refused("call it with a colon", function() q.hint { split = "2d" } end)
list[1], list[2] = 0, list[2] and 1
if ranks > 1 then
  refused("a weight of 0 needs the split", function()
    q:submit(function(cg)
      cg:hint { weights = list, split = "2d" }
      cg:host_task({ 8, 8 }, function() end)
    end)
  end)
end
]==], nil, { shapes = { script.shapes[1], script.shapes[2], script.divided[2] } })

  script.everywhere("is not divided by what makes no sense", [==[
local a = celer.buffer("int", { 8, 8 })
local k = celer.kernel " kernel void k(item<2> it, out<int, 2> a) { a(it[0], it[1]) = 1; } "
local function hint(hints)
  return function()
    q:submit(function(cg)
      cg:hint(hints)
      cg:parallel_for({ 8, 8 }, k, cg:discard_write(a, function(chunk)
        return celer.box({ chunk.min[0], 0 }, { chunk.max[0], 8 })
      end))
    end)
  end
end
refused('split must be "1d", "2d" or "3d", not "4d"', hint { split = "4d" })
refused("not a number", hint { split = 2 })
refused("unknown hint 'spilt', did you mean split?", hint { spilt = "1d" })
refused("oversubscribe must be a whole number from 1 to 256, not 0.5", hint { oversubscribe = 0.5 })
refused("not 257", hint { oversubscribe = 257 })
refused("at least 1, not 0", hint { granularity = { 4, 0 } })
refused("a table of one for each dimension", hint { granularity = {} })
refused("a table of one for each dimension", hint { granularity = { 1, x = 2 } })
refused("a table of one for each dimension", hint { granularity = { 1, 2, 3, 4 } })
refused("the granularity has 3 numbers, the range 2 dimensions", hint { granularity = { 1, 2, 3 } })
refused("the hints must be a table", hint(3))
refused("overlaps: chunks [0, 8) x [0, 4) and [0, 8) x [4, 8) both write element",
  hint { split = "2d" })
hint { split = "1d", oversubscribe = 2 }()
same("written", q:wait(a)(7, 7), 1)
]==])

  script.everywhere("is not divided by hints that are given twice, or that do not divide", [==[
local function host(where, ...)
  local all = { ... }
  return function()
    q:submit(function(cg)
      for i = 1, #all do cg:hint(all[i]) end
      cg:host_task(where, function() end)
    end)
  end
end
local both = " to divide the work, but %s does not divide it; leave one of them out"
refused("cg:hint: split was given already; give it once",
  host(8, { split = "2d" }, { split = "1d" }))
refused("cg:hint: weights was given already",
  host(8, { weights = "equal", granularity = 2 }, { weights = function() return 1 end }))
for _, where in ipairs { celer.on_master, celer.once, celer.collective() } do
  for name, value in pairs { split = "1d", granularity = 4, weights = "equal" } do
    refused("cg:host_task: cg:hint gave " .. name .. both:format(tostring(where)),
      host(where, { [name] = value }))
  end
end
-- What a queue asks for is a default, which is no contradiction.
q:hint { split = "2d", weights = function() return 1 end }
q:hint { split = "1d" }
host(celer.on_master)()
host(8, { split = "2d" }, { weights = "equal" })()
q:wait()
]==])

  -- The one item lies with rank 1, where its buffer is alone therefore.
  local one = [==[
local out = celer.buffer("int", 4, { name = "out", init = 0 })
local k = celer.kernel "kernel void k(item<0> it, inout<int, 1> out) { out(0) += 1; }"
local function weigh(w, times)
  for _ = 1, times do
    q:submit(function(cg)
      cg:hint { weights = w }
      cg:parallel_for({}, k, cg:read_write(out, celer.fixed(celer.box({ 0 }, { 1 }))))
    end)
  end
end
]==]

  script.everywhere("of one item is done where weights say", one .. [==[
local function last(rank, ranks) return rank == ranks - 1 and 1 or 0 end
weigh(last, 10)
q:submit(function(cg)
  cg:hint { weights = last }
  cg:host_task({}, function(part) print("rank", part.rank) end)
end)
same("out", q:wait(out)[0], 10)
]==], function(out, shape)
    assert.matches("rank\t" .. (shape.ranks or 1) - 1 .. "\n$", out)
  end)

  it("of one item is done by one of the imagined ranks of a dry run", function()
    for rank = 0, 1 do
      local r = script.run(one .. [==[
weigh(function(r) return r == 1 and 1 or 0 end, 10)
q:wait()
]==], { devices = 1 }, { before = { "--dry-run", "2", "--as-rank", tostring(rank) } })
      assert.equal(0, r.status, r.stderr)
      assert.matches(rank == 1 and "with 10 kernels" or "with 0 kernels", r.stderr)
    end
  end)
end)
