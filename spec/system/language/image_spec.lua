-- celer.image: reads of what an index buffer names.
local celer = require("spec.support.celer")

local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

local shapes = {
  { name = "on one rank", devices = 1 },
  { name = "on one rank with two devices", devices = 2 },
  { name = "on two ranks", devices = 1, ranks = 2 },
  { name = "on three ranks with two devices", devices = 2, ranks = 3 },
  { name = "on four ranks", devices = 1, ranks = 4 },
  { name = "on seven ranks", devices = 1, ranks = 7 },
}
local few = { shapes[1], shapes[3], shapes[4] }

local files -- beside a text

local function everywhere(name, text, check, options)
  options = options or {}
  options.shapes = options.shapes or few
  options.files = files
  script.everywhere(name, text, check, options)
end

-- In front of a text: sparse matrices as tables and buffers, and what plain Lua makes of them.
local setup = [==[
local images = require "celer.submit.image"
local ranks = celer.ranks()
local seed = 1
local function below(m)
  seed = (seed * 16807) % 2147483647
  return seed % m
end
local columns_of = {
  banded = function(n, i) return { math.max(i - 2, 0), i, math.min(i + 2, n - 1) } end,
  scrambled = function(n, i) return { i * 17 % n, (i * 31 + 5) % n, below(n), i } end,
  gaps = function(n, i) return i % 3 == 1 and {} or i > n / 2 and {} or { below(n), n - 1 } end,
  kronecker = function(n)
    local out = {}
    for _ = 1, below(6) do
      local c, half = 0, n
      while half > 1 do
        half = math.ceil(half / 2)
        if below(10) < 3 then c = c + half end
      end
      out[#out + 1] = c % n
    end
    return out
  end,
}
local function matrix(kind, n)
  local m = { n = n, ptr = { [0] = 0 }, col = {}, val = {} }
  for i = 0, n - 1 do
    for _, c in ipairs(columns_of[kind](n, i)) do
      m.col[#m.col + 1] = c
      m.val[#m.val + 1] = below(1000) / 7
    end
    m.ptr[i + 1] = #m.col
  end
  if #m.col == 0 then m.col[1], m.val[1] = 0, 1 end
  local ptr, col, val = m.ptr, m.col, m.val
  m.P = celer.buffer("int", { n + 1 }, { name = "ptr", init = function(i) return ptr[i] end })
  m.C = celer.buffer("int", { #col }, { name = "col", init = function(i) return col[i + 1] end })
  m.V = celer.buffer("double", { #col }, { name = "val", init = function(i) return val[i + 1] end })
  m.rows = celer.image(m.P, { as = "ranges" })
  m.image = celer.image(m.C, { of = m.rows })
  return m
end
local function vector(n, name)
  return celer.buffer("double", { n }, { name = name, init = function(i) return 1 + i / 3 end })
end
local function plain(n)
  local out = {}
  for i = 0, n - 1 do out[i] = 1 + i / 3 end
  return out
end
local function one_more(c) return c:with(0, c.min[0], c.max[0] + 1) end
local function multiply(m, x)
  local y = {}
  for i = 0, m.n - 1 do
    local sum = 0
    for k = m.ptr[i], m.ptr[i + 1] - 1 do sum = sum + m.val[k + 1] * x[m.col[k + 1]] end
    y[i] = sum
  end
  return y
end
local k = celer.kernel [=[
  kernel void spmv(item<1> it, in<int, 1> ptr, in<int, 1> col, in<double, 1> val,
                   in<double, 1> x, out<double, 1> y) {
    double sum = 0;
    for (int k = ptr(it[0]); k < ptr(it[0] + 1); ++k) sum += val(k) * x(col(k));
    y(it[0]) = sum;
  }
  kernel void add(item<1> it, in<double, 1> y, inout<double, 1> x) {
    x(it[0]) = x(it[0]) / 2 + y(it[0]) / 64;
  }
  kernel void turn(item<1> it, inout<int, 1> col, int n) { col(it[0]) = (col(it[0]) * 3 + 1) % n; }
  kernel void gather(item<1> it, in<int, 1> index, in<double, 1> x, out<double, 1> y) {
    y(it[0]) = x(index(it[0]));
  }
  kernel void rows(item<1> it, in<int, 1> index, in<float, 2> x, out<float, 1> y) {
    float sum = 0;
    for (int j = 0; j < 3; ++j) sum += x(index(it[0]), j) * (j + 1);
    y(it[0]) = sum;
  }
  kernel void table(item<1> it, in<int64_t, 2> index, in<double, 1> x, out<double, 1> y) {
    y(it[0]) = x(index(it[0], 0)) + 3 * x(index(it[0], 1)) + 7 * x(index(it[0], 2));
  }
  kernel void sums(item<1> it, in<unsigned, 2> pairs, in<double, 1> x, out<double, 1> y) {
    double sum = 0;
    for (unsigned i = pairs(it[0], 0); i < pairs(it[0], 1); ++i) sum += x(i);
    y(it[0]) = sum;
  }
  kernel void plane(item<2> it, in<int, 2> index, in<double, 1> x, out<double, 2> y) {
    y(it[0], it[1]) = 2 * x(index(it[0], it[1]));
  }
  kernel void grouped(group<1> g, in<int, 1> index, in<double, 1> x, out<double, 1> y) {
    y(g.global(0)) = x(index(g.global(0)));
  }
]=]
local function spmv(m, x, y, hints)
  q:submit(function(cg)
    if hints then cg:hint(hints) end
    cg:parallel_for(m.n, k.spmv, cg:read(m.P, one_more), cg:read(m.C, m.rows),
      cg:read(m.V, m.rows), cg:read(x, m.image), cg:discard_write(y))
  end)
end
local function holds(what, buffer, wanted)
  local s = q:wait(buffer)
  for i = 0, buffer.size[0] - 1 do same(("%s, element %d"):format(what, i), s(i), wanted[i]) end
end
-- Rows of the even split; what ranks need of others, in bytes, of columns by rows.
local function first(n, r) return math.floor(n / ranks) * r + math.min(r, n % ranks) end
local function needed(m)
  local bytes = 0
  for r = 0, ranks - 1 do
    local seen = {}
    for i = first(m.n, r), first(m.n, r + 1) - 1 do
      for j = m.ptr[i], m.ptr[i + 1] - 1 do
        local c = m.col[j + 1]
        if not seen[c] and (c < first(m.n, r) or c >= first(m.n, r + 1)) then bytes = bytes + 8 end
        seen[c] = true
      end
    end
  end
  return bytes
end
]==]
files = { ["sparse.lua"] = 'local celer = require "celer"\nlocal q = celer.queue()\n'
  .. setup .. [[
return { images = images, ranks = ranks, matrix = matrix, vector = vector, plain = plain, k = k,
  multiply = multiply, spmv = spmv, holds = holds, needed = needed,
  one_more = one_more, first = first }]] }
local begin = "for name, value in pairs(require 'sparse') do _G[name] = value end "

describe("an image", function()
  everywhere("names nothing of a buffer without elements", [==[
local ptr, col, val = celer.zeros("int", 6), celer.buffer("int", 0), celer.buffer("double", 0)
local x, y = celer.full("double", 5, 1), celer.full("double", 5, 7)
celer.spmv(y, ptr, col, val, x)
same("sums", y(0) + y(4), 0)
]==])

  everywhere("multiplies sparse matrices of all kinds", begin .. [==[
for _, kind in ipairs { "banded", "scrambled", "gaps", "kronecker" } do
  for _, n in ipairs { 1, 3, 10, 57 } do
    local m, x, y, hx = matrix(kind, n), vector(n, "x"), vector(n, "y"), plain(n)
    local what = ("%s of %d"):format(kind, n)
    for step = 1, 4 do
      if step == 3 then
        q:submit(function(cg) cg:parallel_for(#m.col, k.turn, cg:read_write(m.C), n) end)
        for i, c in ipairs(m.col) do m.col[i] = (c * 3 + 1) % n end
      end
      spmv(m, x, y)
      q:submit(function(cg) cg:parallel_for(n, k.add, cg:read(y), cg:read_write(x)) end)
      local hy = multiply(m, hx)
      for i = 0, n - 1 do hx[i] = hx[i] / 2 + hy[i] / 64 end
    end
    holds(what, x, hx)
    local t = images.traffic(x)
    same(what .. ", inspections", t.inspections, ranks > 1 and 2 or 0)
    same(what .. ", exchanges", t.exchanges, ranks > 1 and 4 or 0)
  end
end
]==], nil, { shapes = shapes })

  everywhere("brings what other ranks have, and nothing where nothing changed", begin .. [==[
local m, x, y = matrix("scrambled", 50), vector(50, "x"), vector(50, "y")
local function sent(exchanges, inspections, times)
  local t = images.traffic(x)
  if ranks == 1 then exchanges, inspections, times = 0, 0, 0 end
  same("exchanges", t.exchanges, exchanges)
  same("inspections", t.inspections, inspections)
  same("bytes", t.bytes, times * needed(m))
  same("bytes that were needed", t.needed, times * needed(m))
end
spmv(m, x, y)
sent(1, 1, 1)
spmv(m, x, y)
q:wait(x, m.C)
sent(1, 1, 1)
q:submit(function(cg) cg:parallel_for(50, k.add, cg:read(y), cg:read_write(x)) end)
spmv(m, x, y)
spmv(m, x, y)
sent(2, 1, 2)
local moved = needed(m)
q:submit(function(cg) cg:parallel_for(#m.col, k.turn, cg:read_write(m.C), 50) end)
for i, c in ipairs(m.col) do m.col[i] = (c * 3 + 1) % 50 end
spmv(m, x, y)
local t = images.traffic(x)
same("inspections", t.inspections, ranks > 1 and 2 or 0)
same("bytes after that", t.bytes, ranks > 1 and 2 * moved + needed(m) or 0)
holds("y", y, multiply(m, (function()
  local hx, hy = plain(50), q:wait(x)
  for i = 0, 49 do hx[i] = hy(i) end
  return hx
end)()))
]==])

  -- Each way to change a buffer counts, and what changes nothing does not.
  everywhere("may be widened to boxes or to a hull", begin .. [==[
local n = 600
local gather = celer.kernel [[
  kernel void gather(item<1> i, in<int, 1> index, in<double, 1> x, out<double, 1> y) {
    y(i[0]) = x(index(i[0]));
  }
]]
-- Each rank names the rows 100, 110, ..., 190, then 400.
local function named(i) return i % 11 < 10 and 100 + i % 11 * 10 or 400 end
local index = celer.buffer("int", n, { name = "index", init = named })
local rows = { exact = 11, hull = 301, boxes = 11 + 27 } -- of the gaps of 9 rows seven stay
for _, how in ipairs { "exact", "boxes", "hull" } do
  local x, y = vector(n, "x"), vector(n, "y")
  local map = celer.image(index, { how = how })
  q:submit(function(cg)
    cg:parallel_for(n, gather, cg:read(index), cg:read(x, map), cg:discard_write(y))
  end)
  local sx, sy = q:wait(x, y)
  for i = 0, n - 1 do same(how, sy(i), sx(named(i))) end
  local needed, ranks_of = images.traffic(x).needed / 8, celer.ranks()
  if ranks_of > 1 then -- all but what is at home, over all ranks
    same("rows by " .. how, needed, (ranks_of - 1) * rows[how])
  end
end
]==])

  everywhere("sees each change of what is read and of the index", begin .. [==[
local n = 12
local index = celer.buffer("int", { n }, { init = function(i) return n - 1 - i end })
local x, y, s = vector(n, "x"), vector(n, "y"), celer.scalar("int", 0)
local map = celer.image(index)
local function look(what, f, g)
  q:submit(function(cg)
    cg:parallel_for(n, k.gather, cg:read(index), cg:read(x, map), cg:discard_write(y))
  end)
  local a, b = q:wait(x, y)
  for i = 0, n - 1 do
    same(what, b(i), a(g and g(i) or n - 1 - i))
    if f then same(what .. ", x", a(i), f(i)) end
  end
end
look("contents", function(i) return 1 + i / 3 end)
x:fill(4)
look("a fill", function() return 4 end)
celer.copy(vector(n), x)
look("a copy", function(i) return 1 + i / 3 end)
q:submit(function(cg)
  cg:host_task(n, function(part, x)
    for i = part.min[0], part.max[0] - 1 do x[i] = 2 * i end
  end, cg:discard_write(x))
end)
look("a host task", function(i) return 2 * i end)
q:submit(function(cg)
  cg:host_task(celer.once, function(_, x) x[3] = 77 end, cg:write(x, celer.all))
end)
look("one element", function(i) return i == 3 and 77 or 2 * i end)
local add = celer.kernel(function(i, x) x[i] = x[i] + 1 end)
add({ n }, x)
look("a kernel in Lua", function(i) return i == 3 and 78 or 2 * i + 1 end)
celer.when(s, { n }, add, x)
look("a task that is skipped", function(i) return i == 3 and 78 or 2 * i + 1 end)
s:set(1)
celer.when(s, { n }, add, x)
look("one that is not", function(i) return i == 3 and 79 or 2 * i + 2 end)
local into = celer.kernel [[
  kernel void into(item<1> it, reducer<double, 1> x) { x(it[0] % 12).combine(it[0] + 1); }
]]
q:submit(function(cg) cg:parallel_for(24, into, cg:reduce(x, "sum")) end)
look("a reduction", function(i) return 2 * i + 14 end)
index:fill(5)
look("the index", nil, function() return 5 end)
]==])

  everywhere("is of rows, by tables, pairs and two indices, in all tasks", begin .. [==[
for _, n in ipairs { 2, 5, 30 } do
  local back = celer.buffer("int", { n }, { name = "back",
    init = function(i) return n - 1 - i end })
  local near = celer.buffer("unsigned", { n }, { name = "near",
    init = function(i) return math.floor(i / 2) end })
  local table = celer.buffer("int64_t", { n, 3 }, { name = "table",
    init = function(i, j) return (7 * i + 3 * j) % n end })
  local pairs = celer.buffer("unsigned", { n, 2 }, { name = "pairs",
    init = function(i, j) return math.max(j == 0 and 0 or i - 1, math.floor(i / 2)) end })
  local x, y = vector(n, "x"), vector(n, "y")
  local hx, by, at, wanted = plain(n), celer.image(back), celer.image(near), {}
  local rows = celer.buffer("float", { n, 3 }, { init = function(i, j) return i + 100 * j end })
  local out = celer.buffer("float", { n })
  -- Two images of one buffer, by a host task.
  q:submit(function(cg)
    cg:host_task(n, function(part, back, near, one, other, y)
      for i = part.min[0], part.max[0] - 1 do y[i] = one[back[i]] + 3 * other[near[i]] end
    end, cg:read(back), cg:read(near), cg:read(x, by), cg:read(x, at), cg:discard_write(y))
  end)
  for i = 0, n - 1 do wanted[i] = hx[n - 1 - i] + 3 * hx[math.floor(i / 2)] end
  holds("two images", y, wanted)
  -- Rows of a matrix.
  q:submit(function(cg)
    cg:parallel_for(n, k.rows, cg:read(back), cg:read(rows, by), cg:discard_write(out))
  end)
  for i = 0, n - 1 do wanted[i] = 6 * (n - 1 - i) + 800 end
  holds("rows", out, wanted)
  -- Several entries for each item, and buffers in the place of accesses.
  q:parallel_for(n, k.table, celer.access(table, function(c, b)
    return celer.box({ c.min[0], 0 }, { c.max[0], b.size[1] }) end),
    celer.access(x, celer.image(table)), y)
  for i = 0, n - 1 do
    wanted[i] = hx[7 * i % n] + 3 * hx[(7 * i + 3) % n] + 7 * hx[(7 * i + 6) % n]
  end
  holds("a table", y, wanted)
  -- Pairs, of which some are of nothing.
  q:submit(function(cg)
    cg:parallel_for(n, k.sums, cg:read(pairs, function(c, b)
      return celer.box({ c.min[0], 0 }, { c.max[0], 2 }) end),
      cg:read(x, celer.image(pairs, { as = "ranges" })), cg:discard_write(y))
  end)
  for i = 0, n - 1 do
    wanted[i] = 0
    for j = math.floor(i / 2), i - 2 do wanted[i] = wanted[i] + hx[j] end
  end
  holds("pairs", y, wanted)
  -- Another part of the index than the chunk's own, and a kernel in Lua.
  local shifted = celer.image(back, { of = function(c, b) return c:grow(1) end })
  local f = celer.kernel(function(i, back, x, y)
    y[i] = x[back[math.max(i - 1, 0)]] + x[back[math.min(i + 1, n - 1)]]
  end)
  f({ n }, back, celer.access(x, shifted), y)
  for i = 0, n - 1 do
    wanted[i] = hx[n - 1 - math.max(i - 1, 0)] + hx[n - 1 - math.min(i + 1, n - 1)]
  end
  holds("a kernel in Lua", y, wanted)
  -- A task for a library, in three chunks of four ranks; and one that is skipped.
  if n == 30 then
    q:submit(function(cg)
      cg:interop_task(n, function(part, back, x, y)
        for i = part.min[0], part.max[0] - 1 do y[i] = x[back[i]] end
      end, cg:read(back), cg:read(x, by), cg:discard_write(y))
    end)
    for i = 0, n - 1 do wanted[i] = hx[n - 1 - i] end
    holds("an interop task", y, wanted)
  end
  local flag = celer.scalar("int", n == 5 and 1 or 0)
  q:submit(function(cg)
    cg:when(flag)
    cg:parallel_for(n, k.gather, cg:read(back), cg:read(x, by), cg:discard_write(y))
  end)
  if n == 5 then
    for i = 0, n - 1 do wanted[i] = hx[n - 1 - i] end
  end
  holds("a task with a flag", y, wanted)
end
]==])

  everywhere("follows the cut of the task: hints, weights, groups, tiles, parts", begin .. [==[
local n = 48
local index = celer.buffer("int", { n }, { init = function(i) return i * 5 % n end })
local x, y, map, hx = vector(n, "x"), vector(n, "y"), celer.image(index), plain(n)
local function look(what, range, kernel, hints, lo, hi)
  y:fill(0)
  q:submit(function(cg)
    if hints then cg:hint(hints) end
    cg:parallel_for(range, kernel, cg:read(index), cg:read(x, map), cg:write(y))
  end)
  local s = q:wait(y)
  for i = 0, n - 1 do
    same(what, s(i), (not lo or i >= lo and i < hi) and hx[i * 5 % n] or 0)
  end
end
look("nothing", n, k.gather)
look("granularity", n, k.gather, { granularity = 7 })
local before = images.traffic(x).inspections
for _ = 1, 3 do look("weights", n, k.gather, { weights = function(r) return r + 1 end }) end
same("inspections for weights", images.traffic(x).inspections - before, ranks > 1 and 1 or 0)
look("zeros", n, k.gather, { weights = function(r) return r == 1 and 0 or 1 end, granularity = 5 })
look("runs", n, k.gather, { oversubscribe = 3 })
look("groups", celer.nd_range(n, 8), k.grouped)
look("a part", celer.box({ 9 }, { 31 }), k.gather, nil, 9, 31)
look("few items", celer.box({ 9 }, { 11 }), k.gather, nil, 9, 11)
look("no items", celer.box({ 9 }, { 9 }), k.gather, nil, 9, 9)
q:hint { weights = function(r) return 5 - r % 4 end }
look("weights of the queue", n, k.gather)
q:hint { weights = "equal" }
local a, b = 6, 8
local plane = celer.buffer("int", { a, b },
  { init = function(i, j) return (i * 8 + j) * 11 % n end })
local out = celer.buffer("double", { a, b })
for _, split in ipairs { "1d", "2d" } do
  q:submit(function(cg)
    cg:hint { split = split }
    cg:parallel_for({ a, b }, k.plane, cg:read(plane), cg:read(x, celer.image(plane)),
      cg:discard_write(out))
  end)
  local s = q:wait(out)
  for i = 0, a - 1 do
    for j = 0, b - 1 do same(split, s(i, j), 2 * hx[(i * 8 + j) * 11 % n]) end
  end
end
]==])

  everywhere("is kept for loops that make it anew, and ends with its buffers", begin .. [==[
local n = 20
local x, y, hx, wanted = vector(n, "x"), vector(n, "y"), plain(n), {}
for step = 1, 20 do
  local index = celer.buffer("int", { n }, { init = function(i) return (i * 3 + step) % n end })
  q:submit(function(cg)
    cg:parallel_for(n, k.gather, cg:read(index), cg:read(x, celer.image(index)),
      cg:discard_write(y))
  end)
  for i = 0, n - 1 do wanted[i] = hx[(i * 3 + step) % n] end
  if step % 10 == 0 then holds("step " .. step, y, wanted) end
  if step % 3 == 0 then index:free() end
end
local index = celer.buffer("int", { n }, { init = function(i) return n - 1 - i end })
for _ = 1, 4 do
  q:submit(function(cg) -- an image made anew is the same one
    cg:parallel_for(n, k.gather, cg:read(index), cg:read(x, celer.image(index)),
      cg:discard_write(y))
  end)
end
local plans = rawget(index, "image_plans") or {}
same("plans", #plans, 1)
same("inspections", ranks > 1 and plans[1].inspections or 1, 1)
x:free()
same("copies", next(ranks > 1 and plans[1].copies or {}), nil)
local other = vector(n, "other")
q:submit(function(cg)
  cg:parallel_for(n, k.gather, cg:read(index), cg:read(other, celer.image(index)),
    cg:discard_write(y))
end)
for i = 0, n - 1 do wanted[i] = hx[n - 1 - i] end
holds("another buffer by the same plan", y, wanted)
same("inspections", ranks > 1 and plans[1].inspections or 1, 1)
other = nil
for _ = 1, 8 do
  local new = vector(n, "new")
  q:submit(function(cg)
    cg:parallel_for(n, k.gather, cg:read(index), cg:read(new, celer.image(index)),
      cg:discard_write(y))
  end)
end
holds("new buffers by the same plan", y, wanted)
collectgarbage()
collectgarbage()
local left = 0
for _ in pairs(ranks > 1 and plans[1].copies or {}) do left = left + 1 end
assert(left <= 2, "copies are kept: " .. left)
]==])

  -- Boxes around what a rank needs, in two devices: of a band one, and of what lies far apart more.
  script.everywhere("brings devices what their rank needs", [==[
local core = require "celer.core"
local n, ranks = 60000, celer.ranks()
local x, y = celer.buffer("double", n, { name = "x", init = 1 }), celer.buffer("double", n)
local gather = celer.kernel(function(i, index, x, y) y[i] = x[index[i]] end)
local grow = celer.kernel(function(i, x) x[i] = x[i] + i end)
local times = 0
local function look(what, f, most)
  local index = celer.buffer("int", n, { name = "index", init = f })
  local before
  for step = 1, 4 do
    grow(n, x)
    times = times + 1
    gather(n, index, x, y)
    q:wait()
    if step == 2 then before = core.counts().bytes_copied end
  end
  local bytes = (core.counts().bytes_copied - before) / 2
  local s = q:wait(y)
  for i = 0, n - 1 do same(what, s(i), 1 + times * f(i)) end
  assert(ranks == 1 or bytes <= most, ("%s: %d bytes"):format(what, bytes))
end
local home = 8 * math.ceil(n / ranks)
look("a band", function(i) return math.max(i - 2, 0) end, 3 * home + 1000)
look("far apart", function(i) return i % 5000 == 77 and (i + n / 2) % n or i end, 3 * home + 1000)
look("all over", function(i) return i * 7 % n end, home + 2 * 8 * n + 1000)
]==], nil, { shapes = { shapes[2], shapes[4] } })

  everywhere("is refused where it makes no sense, at the line", begin .. [==[
local n = 10
local index = celer.buffer("int", n, { name = "index", init = 0 })
local x, y = vector(n, "x"), vector(n, "y")
local number = celer.scalar("double", 1)
local empty, none_of = celer.buffer("double", 0), celer.buffer("int", { n, 0 })
q:submit(function(cg)
  cg:host_task(n, function() end, cg:read(empty, celer.image(none_of)), cg:write(y))
end)
refused("must be the buffer that says what is read, not a number", function() celer.image(3) end)
refused("x holds double; an index holds int32_t", function() celer.image(x) end)
refused("how must be \"exact\", \"boxes\" or \"hull\", not \"all\"", function()
  celer.image(index, { how = "all" }) end)
refused("of must name exactly the rows whose entries are followed", function()
  celer.image(index, { of = celer.image(index, { how = "hull" }) }) end)
refused("as must be \"elements\" or \"ranges\", not \"rows\"", function()
  celer.image(index, { as = "rows" })
end)
refused("unknown option 'haw'", function() celer.image(index, { haw = "hull" }) end)
refused("table says no ranges", function()
  celer.image(celer.buffer("int", { n, 3 }, { name = "table" }), { as = "ranges" })
end)
refused("of must be a range mapper, or an image, not a number", function()
  celer.image(index, { of = 3 })
end)
refused("celer.slice makes a range mapper", function() celer.image(index, { of = celer.slice }) end)
refused("plus must be a whole number", function() celer.image(index, { plus = 0.5 }) end)
refused("plus must be a whole number", function() celer.image(index, { plus = { 1, 0 } }) end)
refused("within must be two numbers", function() celer.image(index, { within = { 0 } }) end)
refused("within must be two numbers", function() celer.image(index, { within = 0 }) end)
refused("dry must be a range mapper", function() celer.image(index, { dry = 0 }) end)
refused("dry must be a range mapper that stands in for the image in dry runs", function()
  celer.image(index, { dry = celer.image(index) })
end)
refused("except must be a whole number", function() celer.image(index, { except = 0.5 }) end)
refused("except must be a whole number", function()
  celer.image(index, { as = "ranges", except = 0 })
end)
local map = celer.image(index)
refused("celer.image is a range mapper already", function() map() end)
refused("y is given an image, which is for cg:read", function()
  q:submit(function(cg) cg:discard_write(y, map) end)
end)
local function none() end
refused("x is read by an image and changed by the same task (cg:write)", function()
  q:submit(function(cg) cg:host_task(n, none, cg:read(x, map), cg:write(x)) end)
end)
refused("it runs at celer.once", function()
  q:submit(function(cg) cg:host_task(celer.once, none, cg:read(x, map), cg:write(y)) end)
end)
refused("it runs at celer.at(0)", function()
  q:submit(function(cg) cg:host_task(celer.at(0), none, cg:read(x, map), cg:write(y)) end)
end)
refused("it runs at celer.collective()", function()
  q:submit(function(cg) cg:host_task(celer.collective(), none, cg:read(x, map), cg:write(y)) end)
end)
refused("cg:hint gave a place", function()
  q:submit(function(cg)
    cg:hint { place = celer.on_master }
    cg:host_task(n, none, cg:read(x, map), cg:write(y))
  end)
end)
refused("has no dimensions", function()
  q:submit(function(cg) cg:host_task(n, none, cg:read(number, map), cg:write(y)) end)
end)
refused("the index space has 2 dimensions and the index 1", function()
  q:submit(function(cg) cg:host_task({ n, n }, none, cg:read(x, map), cg:write(y)) end)
end)
refused("of gives several boxes for a chunk of index", function()
  local two = celer.image(index, { of = function(c) return celer.box({ 0 }, { 1 }), c end })
  q:submit(function(cg) cg:host_task(n, none, cg:read(x, two), cg:write(y)) end)
end)
refused("of gives several boxes for a chunk of index", function()
  local function many(chunk)
    return celer.boxes(chunk, function(i) return celer.box({ i }, { i + 1 }) end)
  end
  local each = celer.image(index, { of = many })
  q:submit(function(cg) cg:host_task(n, none, cg:read(x, each), cg:write(y)) end)
end)
refused("of gives what has no closed form", function()
  local odd = celer.image(index, { of = function(c)
    if c.min[0] > 3 then return c end
    return celer.box({ 0 }, { 1 })
  end })
  q:submit(function(cg) cg:host_task(n, none, cg:read(x, odd), cg:write(y)) end)
end)
index:free()
refused("the buffer index was freed", function()
  q:submit(function(cg) cg:host_task(n, none, cg:read(x, map), cg:write(y)) end)
end)
refused("the buffer index was freed", function() celer.image(index) end)
]==], nil, { shapes = { shapes[1], shapes[3] } })

  -- An index that leaves the buffer: the line of the submission, the entry, what it says.
  local leaves = {
    { "an element that is too large", "i == 13 and 20 or i", "",
      "celer.image: index(13) is 20, and x has rows 0 to 19", 13 },
    { "one below 0", "i == 4 and -7 or i", "",
      "celer.image: index(4) is -7, and x has rows 0 to 19", 4 },
    { "offsets that descend", "i == 9 and 3 or i", "as = 'ranges'",
      "celer.image: index(8) is 8 and index(9) is 3: these are no range of rows", 8 },
    { "offsets that go too far", "i == 20 and 21 or i", "as = 'ranges'",
      "celer.image: index(19) is 19 and index(20) is 21: that is rows 19 to 20; x has", 19 },
  }
  for i, case in ipairs(leaves) do
    it("ends the job at the line of the task for " .. case[1], function()
      local r = script.run(([==[
local index = celer.buffer("int", { 21 }, { name = "index", init = function(i) return %s end })
local x = celer.buffer("double", { 20 }, { name = "x", init = 1 })
local map = celer.image(index, { %s })
q:submit(function(cg)
  cg:host_task(20, function() end,
    cg:read(x, map))
end)
q:wait()
print "not reached"]==]):format(case[2], case[3]), { devices = 1, ranks = i % 2 == 0 and 3 or nil })
      assert.not_equal(0, r.status)
      assert.equal("", r.stdout)
      assert.truthy(r.stderr:find("/case.lua:6: " .. case[4], 1, true)
        or r.stderr:find("/case.lua:7: " .. case[4], 1, true), r.stderr)
      assert.matches("; item " .. case[5] .. " reads it", r.stderr)
    end)
  end

  -- The kernel that would read by it is not run.
  for ranks = 1, 3, 2 do
    it("is a mistake that a session goes on from, on " .. ranks, function()
      local r = celer.run({ "repl" }, { ranks = ranks > 1 and ranks or nil, env = celer.patient,
        stdin = [==[
far = { init = function(i) return i == 5 and 1e9 or i end, name = "col" }
col, x, y = celer.buffer("int", { 6 }, far), celer.ones("double", 6), celer.zeros("double", 6)
gather = celer.kernel(function(i, col, x, y) y[i] = x[col[i]] end)
gather(6, col, x, y)
gather(6, col, x, y)
y(0)
col:fill(2) gather(6, col, x, y) print(y(0))
]==] })
      local mistake = "celer: session:%d: celer.image: col(5) is 1000000000, and buffer1 has rows "
        .. "0 to 5; item 5 reads it, at session:3\n"
      assert.same({ "0\n1\n", mistake:format(4) .. mistake:format(5), 1 },
        { r.stdout, r.stderr, r.status })
    end)
  end

  it("names the entry of an index that is read through another one", function()
    local r = script.run([==[
local ptr = celer.buffer("int", { 5 }, { name = "ptr", init = function(i) return 2 * i end })
local col = celer.buffer("int64_t", { 8 }, { name = "col", init = function(i) return i * i end })
local x = celer.buffer("float", { 30, 2 }, { name = "x", init = 1 })
local map = celer.image(col, { of = celer.image(ptr, { as = "ranges" }) })
q:submit(function(cg) cg:host_task(4, function() end, cg:read(x, map)) end)
q:wait()]==], { devices = 1, ranks = 2 })
    assert.not_equal(0, r.status)
    assert.truthy(r.stderr:find("/case.lua:6: celer.image: col(6) is 36, and x has rows 0 to 29; "
      .. "item 3 reads it", 1, true), r.stderr)
  end)

  local program = begin .. [==[
local m, x, y = matrix("scrambled", 30), vector(30, "x"), vector(30, "y")
for _ = 1, 3 do
  spmv(m, x, y)
  q:submit(function(cg) cg:parallel_for(30, k.add, cg:read(y), cg:read_write(x)) end)
end
q:wait()]==]

  it("is scheduled in dry runs and drawn", function()
    local r = script.run(program, { devices = 1 },
      { files = files, before = { "--backend", "cpu", "--dry-run", 5, "--as-rank", 3 } })
    assert.equal(0, r.status, r.stderr)
    assert.matches("not counted%s+what images of col, ptr bring; celer.image%(index, { dry = ",
      r.stderr)
    -- With a stand-in the rank reads a row of each neighbour's.
    r = script.run([==[
local n = 1000
local x, y = celer.buffer("double", n, { init = 1 }), celer.buffer("double", n)
local grow = celer.kernel(function(i, x) x[i] = x[i] + 1 end)
local gather = celer.kernel(function(i, index, x, y) y[i] = x[index[i]] end)
local index = celer.buffer("int", n, { init = 0 })
local near = celer.image(index, { dry = celer.neighborhood(1) })
for _ = 1, 10 do
  grow(n, x)
  gather(n, index, celer.access(x, near), y)
end]==], { devices = 1 }, { before = { "--backend", "cpu", "--fold", 1, "--dry-run", 5,
      "--as-rank", 3 } })
    assert.equal(0, r.status, r.stderr)
    assert.matches("messages sent%s+20%s+160 B", r.stderr)
    assert.falsy(r.stderr:find("not counted", 1, true))
    r = script.run("q:submit(function(cg) local i = celer.buffer('int', 4, { init = 0 }) "
      .. "cg:host_task(4, function() end, cg:read(celer.buffer('int', 4, { init = 1 }), "
      .. "celer.image(i))) end)", { devices = 1 },
      { before = { "--backend", "cpu", "--dry-run", 3 } })
    assert.equal(0, r.status, r.stderr)
  end)

  -- Of each chunk that is cut off for want of memory those rows that its own items name.
  for _, shape in ipairs { shapes[1], shapes[3], shapes[4] } do
    it("is of buffers that devices have no room for, " .. shape.name, function()
      local r = script.run([==[
local n = 100000
local first, columns = { [0] = 0 }, {}
for i = 0, n - 1 do
  for k = 1, i % 3 do columns[#columns + 1] = math.max(math.min(i + 40 * k - 60, n - 1), 0) end
  first[i + 1] = #columns
end
local ptr = celer.buffer("int64_t", n + 1, { init = function(i) return first[i] end })
local col = celer.buffer("int", #columns, { init = columns })
local near = celer.buffer("int", { n, 2 },
  { init = function(i, k) return i + 20 * k < n and i + 20 * k or -1 end })
local x = celer.buffer("float", { n, 3 }, { init = function(i, k) return i + k end })
local y = celer.buffer("double", n)
local add = celer.kernel(function(i, ptr, col, near, x, y)
  local s = 0
  for k = ptr[i], ptr[i + 1] - 1 do
    s = s + x[col[k]][0]
    if near[col[k]][1] >= 0 then s = s + x[near[col[k]][1]][2] end
  end
  y[i] = s
end)
for step = 0, 2 do
  q:submit(function(cg)
    if step == 1 then cg:hint { oversubscribe = 3 } end
    if step == 2 then cg:hint { weights = function(rank) return rank == 0 and 3 or 1 end } end
    cg:parallel_for(n, add, ptr, col, near, x, y)
  end)
  local s = q:wait(y)
  for i = 0, n - 1 do
    local t = 0
    for k = first[i], first[i + 1] - 1 do
      local c = columns[k + 1]
      t = t + c + step + (c + 20 < n and c + 22 + step or 0)
    end
    if s(i) ~= t then error(("step %d, row %d: %g, not %g"):format(step, i, s(i), t)) end
  end
  x:set(x + 1)
end
print "right"]==], shape, { before = { "--backend", "cpu", "--device-memory", "1M" } })
      assert.equal("right\n", r.stdout, r.stderr)
      assert.matches("the memory of device %d is full", r.stderr)
    end)
  end

  -- The task that writes the index waits until all ranks have submitted what reads by it.
  for _, case in ipairs {
    { name = "where devices have memory of their own", shape = { devices = 2, ranks = 2 } },
    { name = "where kernels bring what it names", shape = shapes[3], parts = 2 },
    { name = "where a rank alone has little memory", shape = shapes[1], memory = true },
    { name = "where ranks have little memory", shape = shapes[3], memory = true },
  } do
    it("is not waited for by the script, " .. case.name, function()
      local sign = scratch.path()
      local before = case.memory and { "--backend", "cpu", "--device-memory", "1M" } or {}
      local r = script.run(([==[
require("celer.arrays.alone").always_parts = %s
local n, sign, rank, ranks = 60000, arg[1], require("celer.core").rank()
local index = celer.buffer("int", n, { name = "index" })
local named = celer.image(index)
local x = celer.buffer("double", { n, 2 }, { init = function(i, k) return i + k / 2 end })
local y = celer.buffer("double", n)
local gather = celer.kernel(function(i, index, x, y) y[i] = x[index[i]][1] end)
local function writes(_, index, step)
  local late = os.time() + 30
  for k = 0, ranks - 1 do
    local name = ("%%s.%%d.%%d"):format(sign, k, step)
    while not io.open(name) do
      if os.time() > late then error "the script waits for what this writes" end
    end
    os.remove(name)
  end
  for i = 0, n - 1 do index:set(i, math.max(i - step * 100, 0)) end
end
for step = 1, 3 do
  q:submit(function(cg)
    cg:host_task(celer.on_master, writes, cg:discard_write(index, celer.all), step)
  end)
  for _ = 1, 2 do
    q:submit(function(cg)
      cg:parallel_for(n, gather, cg:read(index), cg:read(x, named), cg:discard_write(y))
    end)
    x:set(x + 1)
  end
  io.open(("%%s.%%d.%%d"):format(sign, rank, step), "w"):close()
  local s = q:wait(y)
  for i = 0, n - 1 do same(i, s(i), math.max(i - step * 100, 0) + 0.5 + 2 * step - 1) end
end
print "right"]==]):format(case.parts or "false"), case.shape, { before = before, after = { sign } })
      assert.equal("right\n", r.stdout, r.stderr)
      assert.equal(0, r.status, r.stderr)
    end)
  end

  it("has its messages among those that --log info counts", function()
    local r = script.run([==[
local n = 1000
local x, y = celer.buffer("double", n, { init = 1 }), celer.buffer("double", n)
local index = celer.buffer("int", n, { init = function(i) return n - 1 - i end })
celer.kernel(function(i, index, x, y) y[i] = x[index[i]] end)(n, index, x, y)]==],
      { devices = 1, ranks = 2 }, { before = { "--log", "info", "--backend", "cpu" } })
    assert.equal(0, r.status, r.stderr)
    -- Whether all is well; how many runs of rows are needed, and which; these.
    assert.matches(("; 4 messages with %d bytes"):format(8 + 8 + 16 + 500 * 8), r.stderr, 1, true)
  end)

  it("is looked through for NaNs", function()
    for _, bad in ipairs { false, true } do
      local r = script.run(begin .. ([==[
local index = celer.buffer("int", 9, { init = function(i) return 8 - i end })
local x = celer.buffer("double", 9, { name = "x",
  init = function(i) return i == 5 and %s or 1 end })
local y = celer.buffer("double", 9, { name = "y" })
for _ = 1, 2 do
  q:submit(function(cg)
    cg:parallel_for(9, k.gather, cg:read(index), cg:read(x, celer.image(index)),
      cg:discard_write(y))
  end)
end
q:wait()]==]):format(bad and "0 / 0" or 2), { devices = 1, ranks = 3 },
        { files = files, before = { "--check-nan" } })
      assert.equal(0, r.status, r.stderr) -- the task has read what it wrote
    end
  end)

  it("ends with a rank that is lost", function()
    script.killed([==[
local celer, q = require "celer", require("celer").queue()
local index = celer.buffer("int", { 100 }, { init = function(i) return i * 7 % 100 end })
local x = celer.buffer("int", { 100 }, { init = 1 })
local map = celer.image(index)
local f = celer.kernel(function(i, index, x, y) y[i] = x[index[i]] end)
local y = celer.buffer("int", { 100 })
local function step()
  f({ 100 }, index, celer.access(x, map), y)
  x, y = y, x
end
]==], { devices = 1, ranks = 3 })
  end)

  it("is checked without mistakes and hints", function()
    for _, ranks in ipairs { 1, 3 } do
      local folder = scratch.folder()
      scratch.write(folder .. "/sparse.lua", files["sparse.lua"])
      scratch.write(folder .. "/case.lua", "local celer = require 'celer' local q = celer.queue() "
        .. program)
      local r = celer.run({ "check", folder .. "/case.lua" }, { ranks = ranks })
      assert.equal(0, r.status, r.stderr)
      assert.matches("no mistakes found;", r.stderr)
    end
  end)

  it("is checked where a chunk names more rows apart than a mapper may give boxes", function()
    local folder = scratch.folder()
    scratch.write(folder .. "/case.lua", [==[
local celer = require "celer"
local n = 1000
local col = celer.buffer("int", n, { init = function(i) return i * 37 % n end })
local x, y = celer.buffer("double", n, { init = 1 }), celer.buffer("double", n)
celer.kernel(function(i, col, x, y) y[i] = x[col[i]] + x[col[col[i]]] end)(n, col, x, y)
print(y(1))
local function anywhere(i) return math.floor(n * celer.philox(1, i)) end
local any = celer.buffer("int", n, { init = anywhere })
celer.kernel(function(i, any, x, y) y[i] = x[any[i]] end)(n, any, x, y)
print(y(1))]==])
    for _, ranks in ipairs { 1, 3 } do
      local r = celer.run({ "check", folder .. "/case.lua" },
        { ranks = ranks > 1 and ranks or nil })
      assert.equal(0, r.status, r.stderr)
      assert.equal("2\n1\n", r.stdout)
      assert.matches("no mistakes found; ", r.stderr, 1, true)
    end
  end)

  it("is checked: what is read beside it is a mistake, at the line of the access", function()
    for _, ranks in ipairs { 1, 3 } do
      local path = scratch.folder() .. "/case.lua"
      scratch.write(path, [==[
local celer = require "celer"
local q = celer.queue()
local index = celer.buffer("int", 12, { init = function(i) return i * 7 % 12 end })
local ptr = celer.buffer("int", 13, { init = function(i) return i end })
local x, y = celer.buffer("double", 12, { name = "x", init = 1 }), celer.buffer("double", 12)
local k = celer.kernel [[
  kernel void odd(item<1> it, in<int, 1> index, in<double, 1> x, out<double, 1> y) {
    y(it[0]) = x(it[0] == 3 ? 7 : index(it[0]));
  }
]]
for _, map in ipairs { celer.image(index),
  celer.image(index, { of = celer.image(ptr, { as = "ranges" }) }) } do
  q:submit(function(cg)
    cg:parallel_for(12, k, cg:read(index),
      cg:read(x, map),
      cg:discard_write(y))
  end)
end
q:wait()]==])
      local r = celer.run({ "check", path }, { ranks = ranks > 1 and ranks or nil })
      assert.equal(1, r.status, r.stderr)
      assert.matches("case.lua:15: mistake: kernel odd: cg:read%(x%) reads what the image does not "
        .. "name: item %(3%), whose chunk .*, reads element %(7%); 2 such accesses", r.stderr)
      assert.matches("1 mistake found", r.stderr)
    end
  end)

  it("shows where ranks differ in it", function()
    local r = script.run([==[
local odd = os.getenv "OMPI_COMM_WORLD_RANK" == "1"
local index = celer.buffer("int", { 20 }, { name = "index", init = 0 })
local x = celer.buffer("double", { 20 }, { name = "x", init = 1 })
local function look(map)
  q:submit(function(cg) cg:host_task(19, function() end, cg:read(x, map)) end)
end
look(celer.image(index))
look(celer.image(index, { as = odd and "ranges" or "elements" }))
q:wait()]==], { devices = 1, ranks = 2 })
    assert.not_equal(0, r.status)
    assert.matches("the ranks run different programs", r.stderr)
  end)
end)
