-- Buffers are filled, copied and freed; and may be larger than memory.
local script = require("spec.support.script")

describe("a buffer", function()
  for _, shapes in ipairs { script.shapes, { script.divided[2], script.divided[4] } } do
    script.everywhere("is filled and copied, parts of it too", [==[
local function check(what, buffer, f)
  local s = q:wait(buffer)
  local n = buffer.size
  for i = 0, n[0] - 1 do
    for j = 0, n[1] - 1 do same(("%s (%d, %d)"):format(what, i, j), s(i, j), f(i, j)) end
  end
end
local function inside(i, j, a, b, c, d) return i >= a and i < b and j >= c and j < d end
local u = celer.buffer("float", { 11, 7 }, { name = "u" })
local v = celer.buffer("float", { 13, 9 },
  { name = "v", init = function(i, j) return 100 * i + j end })
u:fill(2.5)
check("all", u, function() return 2.5 end)
u:fill(7, celer.box({ 1, 2 }, { 9, 4 }))
local function of_u(i, j) return inside(i, j, 1, 9, 2, 4) and 7 or 2.5 end
check("a part", u, of_u)
celer.copy(u, v, { part = celer.box({ 0, 1 }, { 9, 5 }), at = { 3, 4 } })
local function of_v(i, j)
  return inside(i, j, 3, 12, 4, 8) and of_u(i - 3, j - 3) or 100 * i + j
end
check("moved", v, of_v)
celer.copy(v, v, { part = celer.box({ 0, 0 }, { 3, 9 }), at = { 10, 0 } })
check("within", v, function(i, j) return i >= 10 and of_v(i - 10, j) or of_v(i, j) end)
u:fill(0)
celer.copy(v, u, { part = celer.box({ 0, 0 }, { 2, 7 }) })
check("in place", u, function(i, j) return i < 2 and 100 * i + j or 0 end)
local w = celer.buffer("float", { 11, 7 })
q:submit(function(cg)                                  -- what lies elsewhere is brought
  cg:host_task({ 7 }, function(part, w)
    for i = 0, 10 do for j = part.min[0], part.max[0] - 1 do w:set(i, j, i * j) end end
  end, cg:discard_write(w, function(c) return celer.box({ 0, c.min[0] }, { 11, c.max[0] }) end))
end)
celer.copy(w, u)
u:fill(-1, celer.box({ 5, 5 }, { 5, 7 }))              -- nothing
check("a whole one", u, function(i, j) return i * j end)
]==], nil, { shapes = shapes })
  end

  script.everywhere("holds anything, in any number of dimensions", [==[
local one, two = celer.buffer("double"), celer.buffer("double")
one:fill(3.25)
celer.copy(one, two)
local body = celer.struct("body", "float x, v; int id;")
local bodies, others = celer.buffer(body, { 4 }), celer.buffer(body, { 6 })
bodies:fill { x = 1, v = 2, id = 3 }
others:fill { x = 9, v = 9, id = 9 }
celer.copy(bodies, others, { at = 2 })
local flags = celer.buffer("bool", { 3, 2, 2 })
celer.fill(flags, false)
celer.fill(flags, true, celer.box({ 1, 0, 1 }, { 3, 2, 2 }))
local moved = celer.buffer("bool", { 3, 2, 4 })
moved:fill(false)
celer.copy(flags, moved, { part = celer.box({ 2, 0, 0 }, { 3, 2, 2 }), at = { 0, 0, 2 } })
local most, pairs_ = celer.buffer("uint64_t", { 2 }), celer.buffer("double2", { 2 })
most:fill(18446744073709551615ULL)
pairs_:fill { x = 1, y = 2 }
local nothing = celer.buffer("int", { 0, 4 })
nothing:fill(1)
celer.copy(nothing, nothing)
local t, b, f, m, l, p = q:wait(two, others, flags, moved, most, pairs_)
same("0 dimensions", t(), 3.25)
same("a struct", b[5].id * 10 + b[1].id, 39)
same("3 dimensions", f(2, 1, 1), true)
same("outside", f(2, 1, 0), false)
same("moved", m(0, 1, 3), true)
same("not moved", m(0, 1, 2), false)
same("64 bits", tostring(l[1]), "18446744073709551615ULL")
same("a vector", p[1].y, 2)
]==])

  script.everywhere("that is filled or copied wrongly is refused", [==[
local u = celer.buffer("float", { 5, 7 }, { name = "u", init = function() return 0 end })
local v = celer.buffer("float", { 6, 9 }, { name = "v" })
local s = celer.buffer("double", { 4 }, { name = "s" })
local b = celer.buffer("uint8_t", { 4 }, { name = "b" })
local function no(words, f) refused(words, f) end
no("celer.fill: the second argument must be the value of each element of u, not nil",
  function() u:fill() return nil end)
no("celer.fill: u: a string is no float", function() u:fill("x") return nil end)
no("celer.fill: b: 256 does not fit: uint8_t holds 0 to 255", function() b:fill(256) return nil end)
no("the part [0, 1) has 1 dimension, the buffer u has 2",
  function() u:fill(1, celer.box({ 0 }, { 1 })) return nil end)
no("celer.fill: the part [0, 1) x [0, 8) leaves the buffer u, which is [0, 5) x [0, 7)",
  function() u:fill(1, celer.box({ 0, 0 }, { 1, 8 })) return nil end)
no("celer.copy: s holds double, b holds uint8_t", function() celer.copy(s, b) return nil end)
no("celer.copy: u has 2 dimensions, t has 1",
  function() celer.copy(u, celer.buffer("float", { 3 }, { name = "t" })) return nil end)
no("celer.copy: the part [4, 9) x [4, 11) leaves the buffer v",
  function() celer.copy(u, v, { at = { 4, 4 } }) return nil end)
no("'at' must be a table of 2 coordinates, not one of 1",
  function() celer.copy(u, v, { at = { 4 } }) return nil end)
no("[0, 5) x [0, 7) and [0, 5) x [0, 7) are parts of u that overlap",
  function() celer.copy(u, u) return nil end)
no("celer.fill inside the function of a q:submit: a command group is one",
  function() q:submit(function() u:fill(1) end) return nil end)
no("unknown option 'prt', did you mean part?",
  function() celer.copy(u, v, { prt = 1 }) return nil end)
no("the second argument must be a buffer, not a number", function() celer.copy(u, 3) return nil end)
no("call it with a colon: buffer:fill(...)", function() u.fill(1) return nil end)
v:free()
no("celer.copy: the buffer v was freed", function() celer.copy(u, v) return nil end)
no("celer.fill: the buffer v was freed", function() v:fill(1) return nil end)
]==], nil, { shapes = { script.shapes[1], script.shapes[2] } })

  -- Memory is given back, or all of these would be alive.
  script.everywhere("is freed while tasks use it, and its memory comes back", [==[
local sum = celer.buffer("double", { 4 }, { name = "sum" })
sum:fill(0)
local k = celer.kernel [=[
  kernel void k(item<1> it, in<double, 1> u, inout<double, 1> sum) {
    sum(it[0]) += u(it[0] * 1000000);
  }
]=]
for i = 1, 60 do
  local u = celer.buffer("double", { 2 ^ 22 }, { name = "u" })
  u:fill(i)
  q:submit(function(cg)
    cg:parallel_for({ 4 }, k, cg:read(u, celer.all), cg:read_write(sum))
  end)
  u:free()
  if i % 5 == 0 then q:wait() end
end
same("the sum", q:wait(sum)[3], 60 * 61 / 2)
local status = io.open("/proc/self/status"):read("*a")
assert(tonumber(status:match("VmHWM:%s+(%d+)")) < 2 ^ 20, status)
]==], nil, { shapes = { script.shapes[1], script.shapes[2] } })

  script.everywhere("may have more than 2^31 elements, and more than there is memory", [==[
local n, at = 2 ^ 40 + 10, 2 ^ 33 - 50
local part = celer.box({ at }, { at + 100 })
local u = celer.buffer("uint8_t", { n }, { name = "u", init = function(i) return i % 251 end })
local v = celer.buffer("uint8_t", { n }, { name = "v" })
local k = celer.kernel [=[
  kernel void k(item<1> it, in<uint8_t, 1> u, out<uint8_t, 1> v) {
    const int64_t i = it[0];
    v(i) = u(i) + (i >> 33);
  }
]=]
q:submit(function(cg)
  cg:parallel_for(part, k, cg:read(u, celer.neighborhood(3)), cg:discard_write(v))
end)
local s = q:wait(celer.capture(v, part))
for i = at, at + 99 do same(i, s[i], (i % 251 + (i >= 2 ^ 33 and 1 or 0)) % 256) end
local far = 2 ^ 39 + 7
celer.copy(v, u, { part = part, at = far })
u:fill(9, celer.box({ n - 20 }, { n }))
local a, b = q:wait(celer.capture(u, celer.box({ far - 7 }, { far + 103 })),
  celer.capture(u, celer.box({ n - 25 }, { n })))
for i = 0, 99 do same(i, a[far + i], s[at + i]) end
same("before", a[far - 7], (far - 7) % 251)
same("after", b[n - 21], (n - 21) % 251)
same("the last", b[n - 1], 9)
q:submit(function(cg)
  cg:host_task(part, function(part, v)
    for i = part.min[0], part.max[0] - 1 do v[i] = i % 100 end
  end, cg:write(v))
end)
s = q:wait(celer.capture(v, part))
for i = at, at + 99 do same(i, s[i], i % 100) end
]==])

  script.everywhere("may have rows of more than 2^31 elements in all", [==[
local side = 2 ^ 22
local u = celer.buffer("int", { side, side },
  { name = "u", init = function(i, j) return (i * 7 + j) % 1000 end })
local v = celer.buffer("int", { side, side }, { name = "v" })
local k = celer.kernel [=[
  kernel void cross(item<2> it, in<int, 2> u, out<int, 2> v) {
    const int64_t i = it[0], j = it[1];
    v(i, j) = u(i + 1, j) + u(i, j - 1);
  }
  kernel void turn(item<2> it, in<int, 2> u, out<int, 2> v) { v(it[0], it[1]) = u(it[1], it[0]); }
]=]
local function at(i, j) return (i * 7 + j) % 1000 end
local part = celer.box({ 2 ^ 21 - 3, 2 ^ 21 + 5 }, { 2 ^ 21 + 4, 2 ^ 21 + 30 })
local function run(split, kernel, mapper, want)
  q:submit(function(cg)
    cg:hint { split = split }
    cg:parallel_for(part, kernel, cg:read(u, mapper), cg:discard_write(v))
  end)
  local s = q:wait(celer.capture(v, part))
  for i = part.min[0], part.max[0] - 1 do
    for j = part.min[1], part.max[1] - 1 do same(split, s(i, j), want(i, j)) end
  end
end
for _, split in ipairs { "1d", "2d" } do
  run(split, k.cross, celer.neighborhood(1, 1),
    function(i, j) return at(i + 1, j) + at(i, j - 1) end)
  run(split, k.turn, celer.transposed(1, 0), function(i, j) return at(j, i) end)
end
]==])
end)
