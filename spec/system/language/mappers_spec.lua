-- Range mappers without a closed form: right on any number of ranks and devices,
-- refused where they would not be.
local script = require("spec.support.script")

-- Each item reads its neighbours around a torus; the mapper branches on its chunk.
local torus = [==[
local h, w = 14, 9
local function first(y, x) return (7 * y + 13 * x) % 31 end
local u = celer.buffer("int", { h, w }, { name = "u", init = first })
local v = celer.buffer("int", { h, w }, { name = "v" })
local k = celer.kernel [=[
  kernel void step(item<2> it, in<int, 2> u, out<int, 2> v) {
    const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
    v(y, x) = (u((y + 1) % h, x) + 3 * u((y + h - 1) % h, x) + 5 * u(y, (x + 1) % w)
      + 7 * u(y, (x + w - 1) % w)) % 1000;
  }
]=]
local function around(chunk)
  local out = { chunk }
  for d = 0, 1 do
    local lo, hi, n = chunk.min[d], chunk.max[d], chunk.global[d]
    out[#out + 1] = lo == 0 and chunk:with(d, n - 1, n) or chunk:with(d, lo - 1, lo)
    out[#out + 1] = hi == n and chunk:with(d, 0, 1) or chunk:with(d, hi, hi + 1)
  end
  return out
end
local model = {}
for y = 0, h - 1 do
  model[y] = {}
  for x = 0, w - 1 do model[y][x] = first(y, x) end
end
local function advance(hint, mapper)
  q:submit(function(cg)
    cg:hint(hint)
    cg:parallel_for({ h, w }, k, cg:read(u, mapper or around), cg:discard_write(v))
  end)
  u, v = v, u
  local new, m = {}, model
  for y = 0, h - 1 do
    new[y] = {}
    for x = 0, w - 1 do
      new[y][x] = (m[(y + 1) % h][x] + 3 * m[(y - 1) % h][x] + 5 * m[y][(x + 1) % w]
        + 7 * m[y][(x - 1) % w]) % 1000
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

-- Item i writes starts[i] to starts[i + 1]: a table, looked up by the chunk.
local uneven = [==[
local n = 20
local starts = { [0] = 0 }
for i = 1, n do starts[i] = starts[i - 1] + i * 7 % 5 end
local a = celer.buffer("int", { starts[n] }, { name = "a" })
local function rows(chunk)
  return celer.box({ starts[chunk.min[0]] }, { starts[chunk.max[0]] })
end
]==]

describe("a mapper that branches on its chunk", function()
  for _, shapes in ipairs { script.shapes, script.divided } do
    script.everywhere("reads what it says", torus .. [==[
local hints = { {}, { split = "2d" }, { oversubscribe = 4 }, { granularity = 3 },
  { split = "2d", granularity = { 4, 2 }, oversubscribe = 2 },
  { weights = function(rank) return rank % 2 * 2 + 1 end },
  { weights = function(rank) return rank == 1 and 0 or 1 end } }
for i, hint in ipairs(hints) do
  advance(hint)
  if i % 3 == 0 then compare("after " .. i) end
end
for i = 1, 20 do
  advance(hints[i * i % #hints + 1], function(chunk)
    if i < 9 then return around(chunk) end
    return around(chunk)
  end)
end
compare("in the end")
]==], nil, { shapes = shapes })

    script.everywhere("writes what it says", uneven .. [==[
for round = 1, 3 do
  for _, hint in ipairs { {}, { oversubscribe = 3 }, { granularity = 4 } } do
    q:submit(function(cg)
      cg:hint(hint)
      cg:host_task({ n }, function(part, a, round)
        for i = a.min[0], a.max[0] - 1 do a[i] = round * i end
      end, cg:discard_write(a, rows), round)
    end)
    q:submit(function(cg)
      cg:host_task({ n }, function(part, old, new)
        for i = old.min[0], old.max[0] - 1 do new[i] = old[i] + 1 end
      end, cg:read(a, rows), cg:write(a, rows))
    end)
    local s = q:wait(a)
    for i = 0, starts[n] - 1 do same("element " .. i, s[i], round * i + 1) end
  end
end
]==], nil, { shapes = shapes })
  end

  script.everywhere("serves tasks of every rank, and of one", uneven .. [==[
local _, ranks = require("celer.core").rank()
local b = celer.buffer("int", { ranks }, { name = "b" })
local function own(chunk)
  if chunk.min[0] == 0 then return celer.box({ ranks - 1 }, { ranks }) end
  return celer.box({ chunk.min[0] - 1 }, { chunk.min[0] })
end
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part, b) b[b.min[0]] = part.rank end,
    cg:discard_write(b, own))
end)
q:submit(function(cg)
  cg:host_task(celer.on_master, function(_, a) for i = 0, a.max[0] - 1 do a[i] = i end end,
    cg:discard_write(a, function(chunk, buffer)
      return chunk.dims == 0 and celer.box({ 0 }, { buffer.size[0] })
    end))
end)
local s, t = q:wait(b, a)
for k = 0, ranks - 1 do same("rank", s[k], (k + 1) % ranks) end
same("last", t[starts[n] - 1], starts[n] - 1)
]==], nil, { shapes = { script.shapes[1], script.shapes[2], script.divided[4] } })

  script.everywhere("may be of a task that reduces", [==[
local n = 23
local a = celer.buffer("double", { n }, { name = "a", init = function(i) return i end })
local sum = celer.buffer("double", {}, { name = "sum" })
local k = celer.kernel [=[
  kernel void k(item<1> it, in<double, 1> a, reducer<double> sum) {
    sum += 2 * a((it[0] + 1) % it.range(0));
  }
]=]
local function next_ones(c)
  if c.max[0] == n then return c, celer.box({ 0 }, { 1 }) end
  return celer.box({ c.min[0] }, { c.max[0] + 1 })
end
for i, hint in ipairs { {}, { oversubscribe = 3 }, { weights = function(r) return r + 1 end } } do
  q:submit(function(cg)
    cg:hint(hint)
    cg:parallel_for({ n }, k, cg:read(a, next_ones), cg:reduce(sum, "sum"))
  end)
  same("sum " .. i, q:wait(sum)(), n * (n - 1))
end
]==], nil, { shapes = { script.shapes[1], script.shapes[2], script.divided[4] } })

  script.everywhere("may come anew with other numbers in each step", [==[
local a = celer.buffer("int", { 12 }, { name = "a", init = function(i) return i end })
local b = celer.buffer("int", { 12 }, { name = "b" })
for t = 0, 11 do
  q:submit(function(cg)
    local function turned(chunk)                       -- what lies t further, around the end
      local lo, hi = chunk.min[0] + t, chunk.max[0] + t
      if lo >= 12 then return celer.box({ lo - 12 }, { hi - 12 }) end
      if hi <= 12 then return celer.box({ lo }, { hi }) end
      return celer.box({ lo }, { 12 }), celer.box({ 0 }, { hi - 12 })
    end
    cg:host_task({ 12 }, function(part, a, b)
      for i = part.min[0], part.max[0] - 1 do b[i] = a[(i + t) % 12] end
    end, cg:read(a, turned), cg:discard_write(b))
  end)
  local s = q:wait(b)
  for i = 0, 11 do same(("step %d, %d"):format(t, i), s[i], (i + t) % 12) end
end
]==])

  script.everywhere("is refused on one rank where more would go wrong", [==[
local a = celer.buffer("int", { 8 }, { name = "a", init = function(i) return i end })
local k = celer.kernel [=[
  kernel void r(item<1> it, in<int, 1> a) {}
  kernel void w(item<1> it, out<int, 1> a) {}
]=]
local function no(words, kernel, mode, mapper)
  refused(words, function()
    q:submit(function(cg) cg:parallel_for({ 8 }, kernel, cg[mode](cg, a, mapper)) end)
  end)
end
local function no_read(words, mapper) no(words, k.r, "read", mapper) end
no("its discard_write access to buffer 'a' overlaps: chunks [0, 4) and [4, 8) both write "
  .. "element (4)", k.w, "discard_write",
  function(c) return c.max[0] < 8 and celer.box({ c.min[0] }, { c.max[0] + 1 }) or c end)
no_read("the mapper of its read access to buffer 'a' depends on how the range is split: it does "
  .. "not give for the chunk [0, 8) what it gives for parts of it such as [0, 4), see element (5)",
  function(c) return c.size[0] == 8 and c or celer.box({ c.min[0] }, { c.min[0] + 1 }) end)
no_read("gives the box [0, 9) for the chunk [0, 8), which leaves the buffer [0, 8)",
  function(c) return c.min[0] == 0 and celer.box({ 0 }, { c.max[0] + 1 }) or c end)
no_read("gives the box [4, 9) for the chunk [4, 8), which leaves the buffer [0, 8)",
  function(c) return c.min[0] == 4 and celer.box({ 4 }, { 9 }) or c end)
no_read("returned the box [0, 2.5), whose bounds are not whole numbers; celer.floor(x) rounds",
  function(c)
    local b = celer.box({ 0 }, { 2 })
    if c.min[0] == 0 then b.max[0] = 2.5 end
    return b
  end)
no_read("must return a celer.box, or several; this one returned nothing",
  function(c) if c.min[0] > 0 then return c end end)
no_read("returned a box of 2 dimensions for a buffer of 1",
  function(c) return c.min[0] < 4 and c or celer.box({ 0, 0 }, { 1, 1 }) end)
no_read("must return", function(c) return c.min[0] < 4 and c end)
refused("attempt to index global 'nothing'", function()
  q:submit(function(cg)
    cg:parallel_for({ 8 }, k.r, cg:read(a, function(c)
      return c.min[0] < 4 and c or nothing.there
    end))
  end)
end)
q:wait()
]==], nil, { shapes = { script.shapes[1], script.shapes[2], script.divided[1] } })

  script.everywhere("is refused on any number of ranks where it is wrong on up to eight", [==[
local n = 63
local v = celer.buffer("float", { n }, { name = "v" })
local m = celer.buffer("float", { 12, 12 }, { name = "m", init = 0 })
local k = celer.kernel [=[
  kernel void one(item<1> it, out<float, 1> v) { v(it[0]) = it[0]; }
  kernel void two(item<1> it, out<float, 1> v, out<float, 1> w) { v(it[0]) = it[0]; }
  kernel void square(item<2> it, inout<float, 2> m) {}
]=]
-- One element too many below, where a chunk begins at `at`.
local function early(at)
  return function(c)
    if c.min[0] == at then return celer.box({ c.min[0] - 1 }, { c.max[0] }) end
    return celer.box({ c.min[0] }, { c.max[0] })
  end
end
for _, case in ipairs { { 32, "[0, 32) and [32, 63)", 31 }, { 21, "[0, 21) and [21, 42)", 20 },
  { 16, "[0, 16) and [16, 32)", 15 }, { 13, "[0, 13) and [13, 26)", 12 },
  { 11, "[0, 11) and [11, 22)", 10 }, { 9, "[0, 9) and [9, 18)", 8 },
  { 8, "[0, 8) and [8, 16)", 7 } } do
  refused(("discard_write access to buffer 'v' overlaps: chunks %s both write element (%d)")
    :format(case[2], case[3]), function()
    q:submit(function(cg)
      cg:parallel_for({ n }, k.one, cg:discard_write(v, early(case[1])))
    end)
  end)
end
-- Each access keeps apart, and both together do not.
refused("overlap: chunks [0, 21) and [21, 42) both write element (20)", function()
  q:submit(function(cg)
    cg:parallel_for({ n }, k.two, cg:discard_write(v), cg:discard_write(v, function(c)
      if c.min[0] == 21 then return celer.box({ 20 }, { 21 }) end
      return celer.box({ 0 }, { 0 })
    end))
  end)
end)
-- One in closed form, of which nothing is proved.
refused("overlaps: chunks [0, 21) and [21, 42) both write element (20)", function()
  q:submit(function(cg)
    cg:parallel_for({ n }, k.one, cg:discard_write(v, function(c)
      local at = celer.max(celer.min(c.min[0] - 20, 1), 0)
        - celer.max(celer.min(c.min[0] - 21, 1), 0)
      return celer.box({ c.min[0] - at }, { c.max[0] })
    end))
  end)
end)
-- Tiles of four ranks.
refused("overlaps: chunks [0, 6) x [0, 6) and [6, 12) x [6, 12) both write element (5, 5)",
  function()
    q:submit(function(cg)
      cg:hint { split = "2d" }
      cg:parallel_for({ 12, 12 }, k.square, cg:write(m, function(c)
        local own = celer.box({ c.min[0], c.min[1] }, { c.max[0], c.max[1] })
        if c.min[0] == 6 and c.min[1] == 6 then return own, celer.box({ 5, 5 }, { 6, 6 }) end
        return own
      end))
    end)
  end)
-- What is read: less for all than for the third of three.
local b = celer.buffer("int", { 80 }, { name = "b", init = 0 })
refused("depends on how the range is split: it does not give for the chunk [0, 63) what it gives "
  .. "for parts of it such as [42, 63), see element (63)", function()
  q:submit(function(cg)
    cg:host_task({ n }, function() end, cg:read(b, function(c)
      if c.min[0] == 42 then return celer.box({ 42 }, { 71 }) end
      return celer.box({ c.min[0] }, { c.max[0] })
    end))
  end)
end)
]==], nil, { shapes = { script.shapes[1], script.shapes[2], script.shapes[3],
    { name = "on seven ranks", devices = 1, ranks = 7 } } })

  script.everywhere("is called seldom for other numbers of ranks where it comes often", [==[
local a = celer.buffer("int", { 63 }, { name = "a", init = 0 })
local from, calls = { 0 }, 0
local function map(c)
  from[2] = (from[2] or 0) + 1
  return c.min[0] < 0 and c or celer.box({ c.min[0] + from[1] }, { c.max[0] })
end
local function submit()
  local before = from[2] or 0
  q:submit(function(cg)
    cg:host_task({ 63 }, function() end, cg:read(a, map))
  end)
  return from[2] - before
end
local first = submit()
for i = 2, 200 do calls = calls + submit() end
if first < 35 then error(("asked %d times at first"):format(first)) end
if calls / 199 > first / 2 then error(("asked %g times each time"):format(calls / 199)) end
]==], nil, { shapes = { script.shapes[1] } })

  script.everywhere("must fit the parts that devices get", [==[
local a = celer.buffer("int", { 16 }, { name = "a" })
local k = celer.kernel [=[ kernel void w(item<1> it, inout<int, 1> a) {} ]=]
local words = "does not give for the chunk [0, 16) what it gives for parts of it such as [0, 1)"
refused(words, function()
  q:submit(function(cg)
    cg:hint { oversubscribe = 4 }                       -- items by themselves
    cg:parallel_for({ 16 }, k, cg:read_write(a, function(c)
      return c.size[0] >= 2 and c or celer.box({ c.min[0] }, { c.max[0] - 1 })
    end))
  end)
end)
]==], nil, { shapes = { script.divided[1] } })

  it("is told of once where it is called anew in each step", function()
    local r = script.run([==[
local a = celer.buffer("int", { 8 }, { name = "a", init = function(i) return i end })
local from = { 0, 4 }
for t = 1, 250 do
  q:submit(function(cg)
    cg:host_task({ 8 }, function() end, cg:read(a, function(chunk)
      return chunk.min[0] < 4 and celer.box({ from[1] }, { 8 }) or celer.box({ from[2] }, { 8 })
    end))
  end)
end
]==], { devices = 1, ranks = 3 }, { env = { CELER_ADVICE = "on" } })
    assert.equal(0, r.status)
    local _, lines = r.stderr:gsub("\n", "")
    assert.equal(1, lines)
    assert.matches("^celer: warning: /%S+/case%.lua:6: the range mapper of a has no closed form "
      .. "%(it compares bounds of its chunk, or captured numbers%), so each submission calls it "
      .. "for 6 chunks, on every rank; what it gives is not kept, as it reads the table 'from'",
      r.stderr)
  end)

  it("must be the same on all ranks", function()
    local r = script.run([==[
local a = celer.buffer("int", { 8 }, { name = "a", init = function(i) return i end })
local shift = { require("celer.core").rank() }
q:submit(function(cg)
  cg:host_task({ 8 }, function() end, cg:read(a, function(chunk)
    return chunk.max[0] < 8 and celer.box({ chunk.min[0] }, { chunk.max[0] + shift[1] }) or chunk
  end))
end)
]==], { devices = 1, ranks = 2 })
    assert.equal(1, r.status)
    assert.matches("case%.lua:5: the ranks run different programs: .*mapper", r.stderr)
  end)
end)
