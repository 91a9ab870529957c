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

  local of_sums = [==[
-- A part for each device of each rank, whose sum is an equal one, but for a row's. What the
-- parts are comes by `chunks`, a number for each row.
local _, devices = require("celer.core").devices()
local ranks = celer.ranks()
local function sums_are_alike(what, weights, n, row)
  local chunks = celer.buffer("int", n, { init = -1 })
  q:submit(function(cg)
    cg:hint { weights = weights }
    cg:interop_task({ n }, function(part, chunks)
      local ffi = require "ffi"
      local p = ffi.cast("int *", chunks:pointer())
      for i = 0, part.size[0] - 1 do p[i] = 100 * part.rank + part.device end
    end, cg:discard_write(chunks))
  end)
  local s, sums, total, most, last = q:wait(chunks), {}, 0, 0, 0
  for i = 0, n - 1 do
    local x, c = row(i), s(i)
    sums[c] = (sums[c] or 0) + x
    total, most = total + x, math.max(most, x)
    if c < last then error(what .. ": row " .. i .. " is not in order") end
    last = c
  end
  for k = 0, ranks - 1 do
    local of_rank = 0
    for d = 0, devices - 1 do
      local sum = sums[100 * k + d] or 0
      of_rank = of_rank + sum
      if math.abs(sum - total / ranks / devices) > most + 1e-9 * total then
        error(("%s: device %d of rank %d has %g of %g"):format(what, d, k, sum, total))
      end
    end
    if math.abs(of_rank - total / ranks) > most + 1e-9 * total then
      error(("%s: rank %d has %g of %g"):format(what, k, of_rank, total))
    end
  end
end
]==]
  for _, shapes in ipairs { script.shapes, { script.divided[2], script.divided[3] },
    { { name = "on seven ranks", devices = 1, ranks = 7 } } } do
    script.everywhere("is divided in chunks of rows with like sums", of_sums .. [==[
local rows = {
  ones = function() return 1 end,
  rising = function(i) return i end,
  one = function(i, n) return i == math.floor(n / 3) and 200 or 0 end,
  ends = function(i, n) return (i == 0 or i == n - 1) and 100 or i % 2 end,
}
for _, type_ in ipairs(ranks > 1 and { "int", "double" } or { "uint8_t", "uint64_t", "float" }) do
  for name, row in celer.sorted_pairs(rows) do
    for _, n in ipairs { 1, 2, 5, 101 } do
      if name ~= "rising" or n > 1 then
        local function of(i) return row(i, n) * (type_ == "double" and 0.1 or 1) end
        local w = celer.buffer(type_, n, { init = of })
        sums_are_alike(("%s of %d, %s"):format(name, n, type_), celer.weights { from = w }, n, of)
      end
    end
  end
end
local n = 70000 -- in two levels of sums
local function of(i) return i * i % 1013 end
local w = celer.buffer("int", n, { init = of })
sums_are_alike("many", celer.weights { from = w }, n, of)
]==], nil, { shapes = shapes })
  end

  script.everywhere("is divided by what a buffer holds when the weights are made", of_sums .. [==[
local n = 60
local function rising(i) return i end
local w = celer.buffer("int", n, { name = "w", init = rising })
local first = celer.weights { from = w }
sums_are_alike("first", first, n, rising)
same("again", celer.weights { from = w }, first)
-- Each cut is where the sum comes nearest to what it should be.
local cuts, total = {}, n * (n - 1) / 2
for k = 1, ranks - 1 do
  for i = 0, n do
    local off = math.abs(i * (i - 1) / 2 - total * k / ranks)
    if not cuts[k] or off < cuts[k].off then cuts[k] = { off = off, at = i } end
  end
end
local rows, before = {}, 0
for k = 1, ranks do
  local at = cuts[k] and cuts[k].at or n
  rows[k], before = at - before, at
end
same("nearest", tostring(first):match("^weights (.-) of w, "), table.concat(rows, " "))
local other = celer.array(w + 1)
same("read", celer.weights { from = w }, first)
q:wait(w)
same("captured", celer.weights { from = w }, first)
local made = celer.weights { from = other }
same("of another one", made == first, false)
local changes = {
  kernel = function() w:set(n - celer.math.index(0)) return function(i) return n - i end end,
  part = function()
    w:part(0, 10):set(100)
    return function(i) return i < 10 and 100 or n - i end
  end,
  host = function()
    q:submit(function(cg)
      cg:host_task({ n }, function(part, w)
        for i = part.min[0], part.max[0] - 1 do w[i] = i % 7 end
      end, cg:write(w))
    end)
    return function(i) return i % 7 end
  end,
  reduced = function()
    local k = celer.kernel [=[
      kernel void count(item<1> it, reducer<int, 1> w) { w(it[0] / 2) += it[0]; }
    ]=]
    q:submit(function(cg) cg:parallel_for({ n }, k, cg:reduce(w, "sum")) end)
    return function(i) return i < n / 2 and 4 * i + 1 or 0 end
  end,
}
for _, name in ipairs { "kernel", "part", "host", "reduced" } do
  local before = celer.weights { from = w }
  local row = changes[name]()
  local weights = celer.weights { from = w }
  same(name, weights == before, false)
  sums_are_alike(name, weights, n, row)
  same(name .. " again", celer.weights { from = w }, weights)
end

-- In a loop, as hints of a group and of the queue; also in another range.
local a = celer.buffer("int", { 2 * n + 1, 3 }, { init = 0 })
local add = celer.kernel [=[
  kernel void add(item<2> it, inout<int, 2> a, int x) { a(it[0], it[1]) += x * it[0] + it[1]; }
]=]
local weights
local step = q:group(function(cg, a, x)
  cg:hint { weights = weights }
  cg:parallel_for({ 2 * n + 1, 3 }, add, cg:read_write(a), x)
end)
local sum = 0
for t = 1, 30 do
  if t % 5 == 1 then w:set((celer.math.index(0) * t) % 11 + 1) end
  weights = celer.weights { from = w }
  step(a, t)
  q:hint { weights = celer.weights { from = w } }
  add({ 2 * n + 1, 3 }, a, t)
  sum = sum + 2 * t
end
local s = q:wait(a)
for i = 0, 2 * n do for j = 0, 2 do same("element", s(i, j), sum * i + 60 * j) end end
sums_are_alike("in the end", weights, n, function(i) return i * 26 % 11 + 1 end)
]==], nil, { shapes = { script.shapes[1], script.shapes[2], script.divided[2] } })

  it("is cut evenly in a dry run, which says so once", function()
    local r = script.run([==[
local w = celer.buffer("int", 30, { name = "w", init = function(i) return i end })
for _ = 1, 2 do
  q:hint { weights = celer.weights { from = w } }
  w:set(1)
end
refused("from is a buffer of numbers", function()
  local _ = celer.weights { from = celer.buffer("int") }
end)
q:drain()
print "checked"]==], { devices = 1 }, { before = { "--dry-run", "3" } })
    assert.equal(0, r.status, r.stderr)
    assert.matches("checked", r.stdout, 1, true)
    local said = "nothing is known of what w holds in a dry run: celer.weights cuts its rows evenly"
    assert.matches("case.lua:4: " .. said, r.stderr, 1, true)
    assert.equal(1, select(2, r.stderr:gsub(said, "")), r.stderr)
  end)

  script.everywhere("is not divided by buffers that make no sense", [==[
local function from(buffer)
  return function() local _ = celer.weights { from = buffer } end
end
local function holding(type_, values)
  return celer.buffer(type_, #values, { name = "w", init = values })
end
refused("celer.weights: from: the first argument must be a buffer, not a number", from(3))
refused("from is a buffer of numbers with one dimension, a number for each row; here is buffer",
  from(celer.buffer("int", { 3, 3 })))
refused("from is a buffer of numbers with one dimension", from(celer.buffer("bool", 3)))
refused("from is a buffer of numbers with one dimension", from(celer.buffer("int")))
refused("celer.weights: the buffer w has no elements", from(celer.buffer("int", 0, { name = "w" })))
refused("celer.weights: the buffer w holds -2, not numbers of at least 0",
  from(holding("int", { 3, -2, 5 })))
refused("celer.weights: the buffer w holds nan", from(holding("float", { 3, 0 / 0, 5 })))
refused("celer.weights: the elements of w add up to 0; somebody has to compute",
  from(holding("int", { 0, 0 })))
refused("celer.weights: the elements of w add up to inf", from(holding("double", { 1, math.huge })))
refused("celer.weights: unknown option 'form'", function()
  local _ = celer.weights { from = holding("int", { 1 }), form = 1 }
end)
refused("celer.weights: unknown option 'form', did you mean from?", function()
  local _ = celer.weights { form = holding("int", { 1 }) }
end)
local freed = holding("int", { 1 })
freed:free()
refused("celer.weights: from: the buffer w was freed", from(freed))
local good = holding("int", { 1, 2 })
refused("celer.weights { from = ... } inside the function of a q:submit", function()
  q:submit(function(cg) cg:hint { weights = { from = good } } end)
end)
local weights = celer.weights { from = good }
refused("weights from a buffer are those of rows, which need the split \"1d\"", function()
  q:submit(function(cg)
    cg:hint { weights = weights, split = "2d" }
    cg:host_task({ 8, 8 }, function() end)
  end)
end)
]==], nil, { shapes = { script.shapes[1], script.shapes[2] } })

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
