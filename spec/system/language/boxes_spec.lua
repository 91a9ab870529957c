-- celer.boxes: mappers of a box for each index of the chunk.
local script = require("spec.support.script")

local shapes = { script.shapes[1], { name = "on two ranks", devices = 1, ranks = 2 },
  script.shapes[2], script.shapes[3], { name = "on seven ranks", devices = 1, ranks = 7 } }

-- A matrix of nb x nb blocks of b x b, of which few are there.
local blocks = [==[
local nb, b = 11, 3
local n = nb * b
local function block(i, j) return celer.box({ i * b, j * b }, { (i + 1) * b, (j + 1) * b }) end
local function diagonal(chunk)
  return celer.boxes(chunk, function(d) return block(d, d) end)
end
local function part(chunk) return celer.box({ chunk.min[0] * b }, { chunk.max[0] * b }) end
local hints = { {}, { granularity = 2 }, { oversubscribe = 3 },
  { weights = function(rank) return rank % 2 * 2 + 1 end },
  { weights = function(rank) return rank == 1 and 0 or 1 end } }
]==]

describe("a box for each index", function()
  script.everywhere("solves a block-diagonal system", blocks .. [==[
local k = celer.kernel([=[
  kernel void fill(item<1> it, out<double, 2> m, int b, int t) {
    for (int i = 0; i < b; ++i)
      for (int j = 0; j < b; ++j)
        m(it[0] * b + i, it[0] * b + j) = i == j ? 4 + it[0] + t : 1 + i;
  }
  kernel void sweep(item<1> it, in<double, 2> m, in<double, 1> r, inout<double, 1> x, int b) {
    const int at = it[0] * b;
    for (int i = 0; i < b; ++i) {
      double s = r(at + i);
      for (int j = 0; j < b; ++j) if (j != i) s -= m(at + i, at + j) * x(at + j);
      x(at + i) = s / m(at + i, at + i);
    }
  }
]=], { contract = false }) -- as Lua computes
local function right(i) return i * i % 17 - 8 end
local m = celer.buffer("double", { n, n }, { name = "m", init = function(i, j) return -1 end })
local r = celer.buffer("double", { n }, { name = "r", init = right })
local x = celer.buffer("double", { n }, { name = "x", init = 0 })
local model = {}
for i = 0, n - 1 do model[i] = 0 end
for t, hint in ipairs(hints) do
  q:submit(function(cg)
    cg:hint(hint)
    cg:parallel_for({ nb }, k.fill, cg:discard_write(m, diagonal), b, t)
  end)
  q:submit(function(cg)
    cg:hint(hints[#hints + 1 - t])
    cg:parallel_for({ nb }, k.sweep, cg:read(m, diagonal), cg:read(r, part),
      cg:read_write(x, part), b)
  end)
  for d = 0, nb - 1 do
    for i = 0, b - 1 do
      local s = right(d * b + i)
      for j = 0, b - 1 do if j ~= i then s = s - (1 + i) * model[d * b + j] end end
      model[d * b + i] = s / (4 + d + t)
    end
  end
  local got = q:wait(x)
  for i = 0, n - 1 do same(("x %d after %d"):format(i, t), got(i), model[i]) end
end
local all = q:wait(m)                                     -- what lies between is as it was
for i = 0, n - 1 do
  for j = 0, n - 1 do
    local d, e = math.floor(i / b), math.floor(j / b)
    same(("m %d %d"):format(i, j), all(i, j), d ~= e and -1 or i == j and 4 + d + 5 or 1 + i % b)
  end
end
]==], nil, { shapes = shapes })

  script.everywhere("reads rows of blocks in a regular pattern", blocks .. [==[
-- Row d has the blocks d, d + 3 and 2 d, around the end.
local function columns(d) return d, (d + 3) % nb, (2 * d) % nb end
local function of_row(chunk)
  return celer.boxes(chunk, function(d)
    local i, j, k = columns(d)
    return block(d, i), block(d, j), block(d, k)
  end)
end
local function of_x(chunk)
  return celer.boxes(chunk, function(d)
    local list = { columns(d) }
    for c = 1, 3 do list[c] = celer.box({ list[c] * b }, { list[c] * b + b }) end
    return list
  end)
end
local k = celer.kernel [=[
  kernel void multiply(item<1> it, in<int, 2> m, in<int, 1> x, out<int, 1> y, int b) {
    const int d = it[0], nb = it.range(0);
    const int column[3] = { d, (d + 3) % nb, 2 * d % nb };
    for (int i = 0; i < b; ++i) {
      int s = 0;
      for (int c = 0; c < 3; ++c)
        for (int j = 0; j < b; ++j) s += m(d * b + i, column[c] * b + j) * x(column[c] * b + j);
      y(d * b + i) = s % 1009;
    }
  }
]=]
local function entry(i, j) return (7 * i + 3 * j) % 11 end
local m = celer.buffer("int", { n, n }, { name = "m", init = entry })
local x = celer.buffer("int", { n }, { name = "x", init = function(i) return i % 5 end })
local y = celer.buffer("int", { n }, { name = "y" })
local model = {}
for i = 0, n - 1 do model[i] = i % 5 end
for t = 1, 8 do
  q:submit(function(cg)
    cg:hint(hints[t % #hints + 1])
    cg:parallel_for({ nb }, k, cg:read(m, of_row), cg:read(x, of_x), cg:discard_write(y, part), b)
  end)
  x, y = y, x
  local new = {}
  for i = 0, n - 1 do
    local s, d = 0, math.floor(i / b)
    for _, c in ipairs { columns(d) } do
      for j = c * b, c * b + b - 1 do s = s + entry(i, j) * model[j] end
    end
    new[i] = s % 1009
  end
  model = new
  if t % 4 == 0 then
    local got = q:wait(x)
    for i = 0, n - 1 do same(("x %d after %d"):format(i, t), got(i), model[i]) end
  end
end
]==], nil, { shapes = shapes })

  script.everywhere("goes along one dimension of several, of boxes of one and of all", [==[
local h, w, s = 6, 9, 4
local a = celer.buffer("int", { h, s * w }, { name = "a",
  init = function(i, j) return 100 * i + j end })
local c = celer.buffer("int", { h, w }, { name = "c" })
local one = celer.buffer("int", {}, { name = "one", init = 5 })
local step = 0
-- Of every s-th column one, which moves from step to step.
local function columns(chunk)
  return celer.boxes(chunk, function(j)
    return celer.box({ chunk.min[0], s * j + step }, { chunk.max[0], s * j + step + 1 })
  end, 1)
end
local function number(chunk) return celer.boxes(chunk, function() return celer.box({}, {}) end) end
local k = celer.kernel [=[
  kernel void take(item<2> it, in<int, 2> a, in<int, 0> one, out<int, 2> c, int s, int step) {
    c(it[0], it[1]) = a(it[0], s * it[1] + step) + one();
  }
  kernel void give(item<2> it, inout<int, 2> a, in<int, 2> c, int s, int step) {
    a(it[0], s * it[1] + step) += c(it[0], it[1]);
  }
]=]
local model = {}
for i = 0, h - 1 do
  model[i] = {}
  for j = 0, s * w - 1 do model[i][j] = 100 * i + j end
end
for t, hint in ipairs { { split = "2d" }, {}, { split = "2d", granularity = { 2, 3 } } } do
  step = t
  q:submit(function(cg)
    cg:hint(hint)
    cg:parallel_for({ h, w }, k.take, cg:read(a, columns), cg:read(one, number),
      cg:discard_write(c), s, step)
  end)
  q:submit(function(cg)
    cg:hint(hint)
    cg:parallel_for({ h, w }, k.give, cg:read_write(a, columns), cg:read(c), s, step)
  end)
  for i = 0, h - 1 do
    for j = step, s * w - 1, s do model[i][j] = 2 * model[i][j] + 5 end
  end
end
local got = q:wait(a)
for i = 0, h - 1 do
  for j = 0, s * w - 1 do same(("a %d %d"):format(i, j), got(i, j), model[i][j]) end
end
q:submit(function(cg)                                     -- no items
  cg:parallel_for({ 0, w }, k.take, cg:read(a, columns), cg:read(one, number),
    cg:discard_write(c), s, 1)
end)
q:wait()
]==], nil, { shapes = shapes })

  script.everywhere("serves kernels written in Lua, and host tasks", blocks .. [==[
local m = celer.buffer("float", { n, n }, { name = "m", init = 1 })
local trace = celer.buffer("float", { nb }, { name = "trace" })
local sum = celer.kernel(function(d, m, trace)
  local s = 0
  for i = 0, b - 1 do s = s + m[d * b + i][d * b + i] end
  trace[d] = s
end)
for t = 1, 3 do
  q:submit(function(cg)
    cg:host_task({ nb }, function(part, m, b, t)
      for d = part.min[0], part.max[0] - 1 do
        for i = d * b, d * b + b - 1 do
          for j = d * b, d * b + b - 1 do m:set(i, j, m(i, j) + t * d) end
        end
      end
    end, cg:read_write(m, diagonal), b, t)
  end)
  sum({ nb }, celer.access(m, diagonal), trace)
end
local got = q:wait(trace)
for d = 0, nb - 1 do same("trace", got(d), b * (1 + 6 * d)) end
]==], nil, { shapes = shapes })

  script.everywhere("keeps thousands of boxes apart, from step to step", [==[
local n = 3000
local u = celer.buffer("int", { 3 * n }, { name = "u", init = function(i) return i end })
local v = celer.buffer("int", { n }, { name = "v" })
local k = celer.kernel [=[
  kernel void take(item<1> it, in<int, 1> u, out<int, 1> v) { v(it[0]) = 2 * u(3 * it[0]); }
  kernel void give(item<1> it, out<int, 1> u, in<int, 1> v) { u(3 * it[0]) = v(it[0]) + 1; }
]=]
local function every_third(chunk)
  return celer.boxes(chunk, function(i) return celer.box({ 3 * i }, { 3 * i + 1 }) end)
end
local hints = { {}, { weights = function(rank) return rank % 3 + 1 end }, { oversubscribe = 2 } }
for t = 1, 6 do
  q:submit(function(cg)
    cg:hint(hints[t % 3 + 1])
    cg:parallel_for({ n }, k.take, cg:read(u, every_third), cg:discard_write(v))
  end)
  q:submit(function(cg)
    cg:hint(hints[(t + 1) % 3 + 1])
    cg:parallel_for({ n }, k.give, cg:discard_write(u, every_third), cg:read(v))
  end)
end
local got = q:wait(u)
for i = 0, 3 * n - 1 do
  same("u " .. i, got(i), i % 3 == 0 and 2 ^ 6 * i + 2 ^ 6 - 1 or i)
end
]==], nil, { shapes = shapes })

  script.everywhere("may be of a group, and follows what its function captured", [==[
local n, b = 12, 1
local m = celer.buffer("int", { 6 * n }, { name = "m", init = function(i) return i end })
local y = celer.buffer("int", { n }, { name = "y" })
local k = celer.kernel [=[
  kernel void f(item<1> it, in<int, 1> m, out<int, 1> y, int b) { y(it[0]) = m(it[0] * b); }
]=]
local function one(i) return celer.box({ b * i }, { b * i + 1 }) end
local function each(chunk) return celer.boxes(chunk, one) end
local step = q:group(function(cg, m, y, b)
  cg:parallel_for({ n }, k, cg:read(m, each), cg:discard_write(y), b)
end)
for t = 1, 12 do
  b = t % 5 + 1
  step(m, y, b)
  same("step " .. t, q:wait(y)(7), 7 * b)
end
]==], nil, { shapes = shapes })

  script.everywhere("costs nothing where the boxes lie side by side", [==[
local n = 100000
local u = celer.buffer("int", { 2 * n }, { name = "u", init = function(i) return i % 10 end })
local v = celer.buffer("int", { n }, { name = "v" })
local calls = 0
local function pair(i) return celer.box({ 2 * i }, { 2 * i + 2 }) end
local function pairs_of(chunk) return celer.boxes(chunk, pair) end
local k = celer.kernel [=[
  kernel void add(item<1> it, in<int, 1> u, out<int, 1> v) {
    v(it[0]) = u(2 * it[0]) + u(2 * it[0] + 1);
  }
]=]
for _ = 1, 3 do
  q:submit(function(cg) cg:parallel_for({ n }, k, cg:read(u, pairs_of), cg:discard_write(v)) end)
end
same("a sum", q:wait(v)(77777), 4 + 5)
same("the rule", celer.rule(pairs_of, u, { n }):match "[^\n]*",
  "rule: [2 * i0, 2 * i0 + 2) for each i0 in [chunk.min0, chunk.max0)")
same("its form", celer.rule(pairs_of, u, { n }):match "\n(.-);", "monotone affine")
]==], nil, { shapes = shapes })
end)

describe("mistakes with celer.boxes", function()
  script.everywhere("are refused at the user's line", [==[
local n = 100
local x = celer.buffer("int", { 4 * n }, { name = "x", init = 0 })
local y = celer.buffer("int", { n }, { name = "y" })
local k = celer.kernel [=[
  kernel void get(item<1> it, in<int, 1> x, out<int, 1> y) { y(it[0]) = x(it[0]); }
  kernel void set(item<1> it, out<int, 1> x) { x(it[0]) = 1; }
]=]
local function read(map, range)
  q:submit(function(cg)
    cg:parallel_for({ range or n }, k.get, cg:read(x, map), cg:discard_write(y))
  end)
end
local function write(map)
  q:submit(function(cg) cg:parallel_for({ n }, k.set, cg:discard_write(x, map)) end)
end
local function span(i, size) return celer.box({ i }, { i + size }) end
-- As refused; the line may be that of the submission, as `return celer.boxes(...)` leaves none.
local refused_here = refused
local function refused(words, f)
  local ok, message = pcall(f)
  local line = tonumber(tostring(message):match("/case%.lua:(%d+): "))
  for _, g in ipairs { read, write } do
    local info = debug.getinfo(g, "S")
    if not ok and line and line >= info.linedefined and line <= info.lastlinedefined then
      same(words, message:find(words, 1, true) ~= nil or message, true)
      return
    end
  end
  refused_here(words, f)
end
refused("celer.boxes takes the chunk that a range mapper is given", function()
  celer.boxes({ 0, 9 }, function(i) return span(i, 1) end)
end)
refused("celer.boxes takes the chunk that a range mapper is given", function()
  read(function(chunk) return celer.boxes(chunk:grow(1), function(i) return span(i, 1) end) end)
end)
refused("a function of an index that gives a celer.box, not nil", function()
  read(function(chunk) return celer.boxes(chunk) end)
end)
refused("there is no dimension 1 in an index space of 1 dimension", function()
  read(function(chunk) return celer.boxes(chunk, function(i) return span(i, 1) end, 1) end)
end)
refused("the function of celer.boxes must return a celer.box, or several; this one returned nil",
  function()
    read(function(chunk) return celer.boxes(chunk, function() end) end)
    return
  end)
refused("a box of 2 dimensions for a buffer of 1", function()
  read(function(chunk)
    return celer.boxes(chunk, function(i) return celer.box({ i, i }, { i + 1, i + 1 }) end)
  end)
end)
refused("gives the box [400, 401) for the chunk [99, 100), which leaves the buffer [0, 400)",
  function()
    read(function(chunk) return celer.boxes(chunk, function(i) return span(4 * i + 4, 1) end) end)
  end)
refused("overlaps: chunks [0, 50) and [50, 100) both write element (150)", function()
  write(function(chunk) return celer.boxes(chunk, function(i) return span(3 * i, 4) end) end)
end)
refused("gives 100 boxes here, and 64 are the most of a range mapper that has no closed form "
  .. "(it compares bounds of its chunk, or captured numbers)", function()
    read(function(chunk)
      return celer.boxes(chunk, function(i) return i == 3 and span(0, 1) or span(2 * i, 1) end)
    end)
  end)
refused("(its boxes for each index depend on the chunk's bounds in dimension 0 too)", function()
  read(function(chunk) return celer.boxes(chunk, function(i) return span(i, chunk.size[0]) end) end)
end)
local kept
refused("(it assigns to the variable 'kept')", function()
  read(function(chunk)
    kept = kept or celer.boxes(chunk, function(i) return span(i, 1) end)
    return kept
  end)
end)
local wide = celer.buffer("char", { 200000 }, { name = "wide", init = 0 })
refused("task 'get': the mapper of its read access to buffer 'wide' cannot be evaluated: the "
  .. "range mapper gives 70000 boxes for the chunk [0, 70000); 65536 are the most", function()
    q:submit(function(cg)
      cg:name "get"
      cg:host_task({ 70000 }, function() end, cg:read(wide, function(chunk)
        return celer.boxes(chunk, function(i) return span(2 * i, 1) end)
      end))
    end)
  end)
-- A few irregular ones may be.
local first = { [0] = 7, 3, 90, 12 }
q:submit(function(cg)
  cg:host_task({ 4 }, function(part, x)
    for i = part.min[0], part.max[0] - 1 do same("x", x(first[i]), 0) end
  end, cg:read(x, function(chunk)
    return celer.boxes(chunk, function(i) return span(first[i], 1) end)
  end), first)
end)
q:wait()
]==], nil, { shapes = { shapes[1], shapes[3] } })

  it("are more boxes than ranks can know of each other", function()
    local r = script.run([==[
local n = 40000
local u = celer.buffer("char", { 2 * n }, { name = "u", init = 1 })
q:submit(function(cg)
  cg:host_task({ 128, n }, function() end, cg:read(u, function(chunk)
    return celer.boxes(chunk, function(i) return celer.box({ 2 * i }, { 2 * i + 1 }) end, 1)
  end))
end)
q:wait()
]==], script.shapes[1], { before = { "--dry-run", "128" } })
    assert.matches("/case%.lua:5: the boxes of a range mapper lie apart, and 105 of 128 ranks have "
      .. "4200000 of them together: 4194304 are the most", r.stderr)
    assert.equal(1, r.status)
  end)
end)
