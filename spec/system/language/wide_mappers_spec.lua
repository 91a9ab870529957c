-- Range mappers of what is read: a box around what the parts of a chunk need, and up to 64
-- boxes.
local script = require("spec.support.script")

local kernels = [==[
local k = celer.kernel [=[
  kernel void at(item<1> it, in<int, 1> where, in<int, 1> x, out<int, 1> y) {
    y(it[0]) = x(where(it[0]));
  }
  kernel void even(item<1> it, in<int, 1> x, out<int, 1> y) { y(it[0]) = x(2 * it[0]); }
  kernel void diagonal(item<1> it, in<int, 2> m, out<int, 1> y) { y(it[0]) = m(it[0], it[0]); }
]=]
]==]

local everywhere = { shapes = { script.shapes[1], script.shapes[2], script.shapes[3],
  script.divided[2], { name = "on seven ranks", devices = 1, ranks = 7 } } }

describe("a mapper that gives a box around what the parts of a chunk need", function()
  script.everywhere("is fit for reading", kernels .. [==[
local n = 11
local first = { [0] = 0, 3, 4, 40, 41, 42, 80, 90, 91, 97, 99 }
local x = celer.buffer("int", { 100 }, { name = "x", init = function(i) return i * i end })
local m = celer.buffer("int", { n, n }, { name = "m",
  init = function(i, j) return 100 * i + j end })
local where = celer.buffer("int", { n }, { name = "where",
  init = function(i) return first[i] end })
local y = celer.buffer("int", { n }, { name = "y" })
local function is(what, wanted)
  local s = q:wait(y)
  for i = 0, n - 1 do same(what .. " " .. i, s[i], wanted(i)) end
end
local function run(kernel, ...)
  local reads = { ... }
  q:submit(function(cg)
    for i, read in ipairs(reads) do reads[i] = cg:read(unpack(read)) end
    reads[#reads + 1] = cg:discard_write(y)
    cg:parallel_for({ n }, kernel, unpack(reads))
  end)
end

local function hull(chunk)                                -- a table: opaque
  return celer.box({ first[chunk.min[0]] }, { first[chunk.max[0] - 1] + 1 })
end
local function stride(chunk) return celer.box({ 2 * chunk.min[0] }, { 2 * chunk.max[0] - 1 }) end
local function square(chunk)
  return celer.box({ chunk.min[0], chunk.min[0] }, { chunk.max[0], chunk.max[0] })
end
for round = 1, 3 do
  run(k.at, { where }, { x, hull })
  is("hull", function(i) return first[i] ^ 2 * 3 ^ (round - 1) end)
  run(k.even, { x, stride })
  is("stride", function(i) return (2 * i) ^ 2 * 3 ^ (round - 1) end)
  run(k.diagonal, { m, square })
  is("square", function(i) return 101 * i end)
  q:submit(function(cg)                                   -- on all ranks anew
    cg:host_task({ 100 }, function(part, x)
      for i = part.min[0], part.max[0] - 1 do x[i] = 3 * x[i] end
    end, cg:read_write(x))
  end)
end
]==], nil, everywhere)

  script.everywhere("may lie around what other chunks of the task write", kernels .. [==[
local x = celer.buffer("int", { 40 }, { name = "x", init = function(i) return i end })
local place = celer.kernel [=[
  kernel void place(item<1> it, in<int, 1> x, out<int, 1> own) {
    const int i = it[0];
    own(2 * i + 1) = x(2 * i) + 100;
  }
]=]
-- Even elements are read, and odd ones written, each by the chunk that has them.
local function odd(chunk)
  local boxes = {}
  for i = chunk.min[0], chunk.max[0] - 1 do
    boxes[#boxes + 1] = celer.box({ 2 * i + 1 }, { 2 * i + 2 })
  end
  return boxes
end
q:submit(function(cg)
  local r = cg:read(x, function(c) return celer.box({ 2 * c.min[0] }, { 2 * c.max[0] - 1 }) end)
  cg:parallel_for({ 20 }, place, r, cg:write(x, odd))
end)
local s = q:wait(x)
for i = 0, 38, 2 do
  same("read " .. i, s[i], i)
  same("written " .. i, s[i + 1], i + 100)
end
]==], nil, everywhere)

  script.everywhere("is refused where it does not, or is also written", kernels .. [==[
local x = celer.buffer("int", { 100 }, { name = "x", init = 1 })
local y = celer.buffer("int", { 8 }, { name = "y" })
local scale = celer.kernel [=[
  kernel void scale(item<1> it, inout<int, 1> x) { x(2 * it[0]) *= 2; }
]=]
local function no(words, mapper)
  refused(words, function()
    q:submit(function(cg)
      cg:parallel_for({ 8 }, k.even, cg:read(x, mapper), cg:discard_write(y))
    end)
  end)
end
local depends = "the mapper of its read access to buffer 'x' depends on how the range is split: "
no(depends .. "chunks [0, 4) and [4, 8) together do not map to what their union maps to, see "
  .. "element (4); a mapper must give for a chunk what it gives for the chunk's parts, or a box "
  .. "around that", function(c) return celer.box({ 0 }, { c.size[0] }) end)
no(depends, function(c) return celer.box({ c.min[0] }, { c.min[0] + 1 }) end)
no(depends, function(c)                                   -- an opaque one
  return celer.box({ c.min[0] }, { c.size[0] == 8 and 4 or c.max[0] })
end)
refused("the mapper of its read_write access to buffer 'x' depends on how the range is split",
  function()
    q:submit(function(cg)
      cg:parallel_for({ 8 }, scale, cg:read_write(x, function(c)
        return celer.box({ 2 * c.min[0] }, { 2 * c.max[0] - 1 })
      end))
    end)
  end)
]==])
end)

describe("a mapper of many boxes", function()
  script.everywhere("has up to 64 of them, in closed form or not", kernels .. [==[
local n = 64
local x = celer.buffer("int", { n }, { name = "x", init = function(i) return 7 * i end })
local y = celer.buffer("int", { n }, { name = "y" })
local where = celer.buffer("int", { n }, { name = "where",
  init = function(i) return i * 37 % 64 end })
local function each(chunk)
  local boxes = {}
  for i = chunk.min[0], chunk.max[0] - 1 do
    boxes[#boxes + 1] = celer.box({ i * 37 % n }, { i * 37 % n + 1 })
  end
  return unpack(boxes)
end
local function shifted(most)                              -- one for each distance
  return function(chunk)
    local boxes = {}
    for s = 1, most do
      local by = 2 * s - 65
      boxes[s] = celer.box({ chunk.min[0] + by }, { chunk.max[0] + by }):clamped()
    end
    return boxes
  end
end
for _, mapper in ipairs { each, shifted(64) } do
  q:submit(function(cg)
    local from = cg:read(x, mapper)
    if mapper == each then
      cg:parallel_for({ n }, k.at, cg:read(where), from, cg:discard_write(y))
    else
      cg:host_task({ n }, function(part, x, y)
        for i = part.min[0], part.max[0] - 1 do
          y[i] = 0
          for by = -63, 63, 2 do
            if i + by >= 0 and i + by < 64 then y[i] = y[i] + x[i + by] end
          end
        end
      end, from, cg:discard_write(y))
    end
  end)
  local s = q:wait(y)
  for i = 0, n - 1 do
    local wanted = 7 * (i * 37 % 64)
    if mapper ~= each then
      wanted = 0
      for by = -63, 63, 2 do
        if i + by >= 0 and i + by < 64 then wanted = wanted + 7 * (i + by) end
      end
    end
    same("element " .. i, s[i], wanted)
  end
end
refused("the mapper of its read access to buffer 'x': the range mapper returned 65 boxes; 64 are "
  .. "the most: join those that lie side by side; what is only read may also be promised by a "
  .. "box around several, which moves more and is as right", function()
  q:submit(function(cg)
    cg:host_task({ n }, function() end, cg:read(x, shifted(65)))
  end)
end)
refused("too many results to unpack", function()
  q:submit(function(cg)
    cg:host_task({ n }, function() end, cg:read(x, function(chunk)
      local boxes = {}
      for i = 1, 16000 do boxes[i] = chunk end
      return unpack(boxes)
    end))
  end)
end)
]==], nil, everywhere)

  script.everywhere("serves a periodic neighbourhood of blocks", [==[
local n = 6
local function first(i, j, l) return (i * 7 + j * 13 + l * 29) % 101 end
local a = celer.buffer("int", { n, n, n }, { name = "a", init = first })
local b = celer.buffer("int", { n, n, n }, { name = "b" })
local k = celer.kernel [=[
  kernel void f(item<3> it, in<int, 3> a, out<int, 3> b) {
    const int n = it.range(0), z = it[0], y = it[1], x = it[2], u = n - 1;
    b(z, y, x) = (a((z + 1) % n, (y + u) % n, x) + 3 * a(z, (y + 1) % n, (x + 1) % n)
      + 5 * a((z + u) % n, (y + u) % n, (x + u) % n)) % 1000;
  }
]=]
local function around(c, buffer)
  local boxes, lo, hi = {}, {}, {}
  local function go(d)
    if d == 3 then
      boxes[#boxes + 1] = celer.box({ unpack(lo) }, { unpack(hi) }):clamped()
      return
    end
    for s = -1, 1 do
      lo[d + 1] = c.min[d] - 1 + s * buffer.size[d]
      hi[d + 1] = c.max[d] + 1 + s * buffer.size[d]
      go(d + 1)
    end
  end
  go(0)
  return unpack(boxes)
end
q:hint { split = "3d" }
local held = {}
local function at(i, j, l) return i % n * n * n + j % n * n + l % n end
for i = 0, n - 1 do for j = 0, n - 1 do for l = 0, n - 1 do
  held[at(i, j, l)] = first(i, j, l)
end end end
for _ = 1, 3 do
  q:submit(function(cg)
    cg:parallel_for({ n, n, n }, k, cg:read(a, around), cg:discard_write(b))
  end)
  a, b = b, a
  local new = {}
  for i = 0, n - 1 do for j = 0, n - 1 do for l = 0, n - 1 do
    new[at(i, j, l)] = (held[at(i + 1, j - 1, l)] + 3 * held[at(i, j + 1, l + 1)]
      + 5 * held[at(i - 1, j - 1, l - 1)]) % 1000
  end end end
  held = new
end
local s = q:wait(a)
for i = 0, n - 1 do for j = 0, n - 1 do for l = 0, n - 1 do
  same(("(%d, %d, %d)"):format(i, j, l), s(i, j, l), held[at(i, j, l)])
end end end
]==], nil, { shapes = { script.shapes[1], script.shapes[3], script.divided[4],
  { name = "on seven ranks", devices = 1, ranks = 7 } } })
end)
