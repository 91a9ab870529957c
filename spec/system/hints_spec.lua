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
end)
