-- Fields of structs in kernels written in Lua, where they are arrays.
local script = require("spec.support.script")

describe("an array of a struct, in a kernel written in Lua", function()
  script.everywhere("is read and written by its indices", [==[
celer.struct("cell", "double q[9]; struct { int a[2][3]; } part[2]; float m;")
local n = 6
local function init(y, x) return { q = { y, x, 2, 3, 4, 5, 6, 7, 8 }, m = y * x } end
local b = celer.buffer("cell", { n, n }, { name = "b", init = init })
local c = celer.buffer("cell", { n, n }, { name = "c" })
local fill = celer.kernel(function(y, x, b, c)
  local here, sum = b[y][x], 0
  for j = 0, 8 do
    sum = sum + here.q[j]
    c[y][x].q[j] = here.q[8 - j] + b(y, x).q[j] * 10
  end
  for i = 0, 1 do
    for j = 0, 1 do
      for k = 0, 2 do c[y][x].part[i].a[j][k] = i * 100 + j * 10 + k end
    end
  end
  c[y][x].m = sum
end)
fill({ n, n }, b, c)
-- Each of its numbers is stored: nothing that was there is needed.
same("all is stored", fill:accesses({ n, n }, b, c):match "discard_write c" ~= nil, true)
local s = celer.wait(c)
for y = 0, n - 1 do
  for x = 0, n - 1 do
    local q = { [0] = y, x, 2, 3, 4, 5, 6, 7, 8 }
    for j = 0, 8 do same("q", s(y, x).q[j], q[8 - j] + q[j] * 10) end
    for k = 0, 11 do
      same("part", s(y, x).part[math.floor(k / 6)].a[math.floor(k / 3) % 2][k % 3],
        math.floor(k / 6) * 100 + math.floor(k / 3) % 2 * 10 + k % 3)
    end
    same("m", s(y, x).m, y + x + 35)
  end
end
local function mode(f, ...) return celer.kernel(f):accesses({ n, n }, c, ...):match "^%S+" end
same("one of them", mode(function(y, x, c) c[y][x].q[3] = 1 end), "write")
same("by an index", mode(function(y, x, c, j) c[y][x].q[j % 9] = 1 end, 4), "write")
same("its own", mode(function(y, x, c)
  c[y][x].q[3] = 1
  c[y][x].m = c[y][x].q[3]
end), "write")
same("another one", mode(function(y, x, c)
  c[y][x].q[3] = 1
  c[y][x].m = c[y][x].q[4]
end), "read_write")
local kept = celer.kernel(function(y, x, c, j)
  c[y][x].q[j % 9] = c[y][x].q[celer.clamp(j, 0, 8)] + 1
end)
kept({ n, n }, c, 3)
same("one element", c(2, 4).q[3], 5 + 3 * 10 + 1)
local added = celer.kernel(function(y, x, c, j) c[y][x].part[1].a[0][j % 3]:atomic_add(5) end)
added({ n, n }, c, 5)
same("an atomic operation", c(2, 3).part[1].a[0][2], 107)
local around = celer.kernel(function(y, x, b, c)
  c[y][x].m = b[y - 1][x].q[1] + b[y][x + 1].q[0]
end)
around({ n, n }, celer.periodic(b), c)
same("beyond edges", c(0, 5).m, 5)
]==])

  script.everywhere("assigns a struct to a field, and a field to an element", [==[
celer.struct("inner", "float x; float2 at;")
celer.struct("outer", "float2 a; struct inner s; float2 list[3]; int n;")
local s = celer.buffer("inner", 4, {
  init = function(i) return { x = i, at = { x = i, y = 2 * i } } end,
})
local p = celer.buffer("float2", 4, { init = function(i) return { x = 7 * i, y = 1 } end })
local t = celer.buffer("outer", 4, { init = { n = 1 } })
celer.kernel(function(i, s, p, t)
  local at = p[i]
  t[i].a = s[i].at
  t[i].s = s[i]
  t[i].list[1] = at
  s[i].at = at
  if i > 2 then p[i] = t[i].s.at end
end)(4, s, p, t)
same("a field", s(3).at.x, 21)
same("of another struct", t(3).a.y, 6)
same("a struct in it", t(2).s.at.y, 4)
same("of an array in it", t(2).list[1].x, 14)
same("an element", p(3).y, 6)
same("and none", p(2).x, 14)
]==])

  script.everywhere("is given as a value, from the script or the FFI", [==[
local ffi = require "ffi"
celer.struct("small", "float a; int w[2];")
celer.struct("large", "double x; bool on; small at;")
local n = 6
local u = celer.buffer("double", n, { init = 0 })
local add = celer.kernel(function(i, u, c)
  if c.on and i ~= c.at.w[1] then u[i] = u[i] + c.x * c.at.a end
end)
local want = { [0] = 0, 0, 0, 0, 0, 0 }
local function give(x, on, a, w, as_ffi)
  local c = { x = x, on = on, at = { a = a, w = { [0] = 7, w } } }
  if as_ffi then c = ffi.new("large", { x = x, on = on, at = { a = a, w = { 7, w } } }) end
  add(n, u, c)
  if type(c) == "cdata" then c.x = 1e9 else c.x = "changed" end
  for i = 0, n - 1 do
    if on and i ~= w then want[i] = want[i] + x * a end
  end
end
for t = 1, 9 do give(t, t % 4 > 0, 0.5, t % 3, t > 5) end
give(0.5, true, 2, 1, false)
give(0.5, true, 2.5, 9, true)
local s = celer.wait(u)
for i = 0, n - 1 do same("u " .. i, s(i), want[i]) end
celer.struct("pair", "double x; float2 at;")
local p = celer.buffer("pair", n)
local put = celer.kernel(function(i, p, c) p[i] = c end)
for t = 1, 4 do put(n, p, { x = t, at = { x = t + 1, y = 2 } }) end
same("all of it", p(3).x + 10 * p(3).at.x + 100 * p(3).at.y, 254)
refused("a number, a boolean or a struct", function()
  put(n, p, setmetatable({ x = 1, at = { x = 1, y = 1 } }, {}))
end)
put(n, p, ffi.new("pair", { 9, { 1, 0.5 } }))
same("of the FFI", p(5).x + 10 * p(5).at.y, 14)
local first = { x = 7, at = { x = 1, y = 0 } }
celer.kernel(function(i, p) p[i] = first end)(n, p)
same("captured", p(0).x, 7)
ffi.cdef "enum shade { pale, dark = 3 }; struct mixed { int64_t n; enum shade s; uint64_t l[2]; };"
local v = celer.buffer("double", n, { init = 0 })
local count = celer.kernel(function(i, v, c, x) v[i] = v[i] + c.n * x + c.s + c.l[1] end)
for t = 1, 6 do count(n, v, ffi.new("struct mixed", { -t, t % 2 * 3, { 9, 100 } }), 0.5) end
same("integers and enums of the FFI", v(4), -10.5 + 9 + 600)
local as_sum = celer.kernel(function(i, s, c) s:add(c.n + c.s) end)
local sum = celer.buffer("double", {})
for t = 0, 5 do
  as_sum(n, celer.sum(sum), ffi.new("struct mixed", { t % 3, "dark" }))
  same("likewise, summed", sum(), n * (t % 3 + 3))
end
local function fails(words, f, ...)
  local ok, message = pcall(celer.kernel(f), n, u, ...)
  same(words .. " in " .. tostring(message), not ok and tostring(message):find(words, 1, true)
    ~= nil, true)
end
fails("'c.y' is nil where the kernel is submitted", function(i, u, c) u[i] = c.y end, { x = 1 })
fails("'c.w' is given where the kernel is submitted, and looked up by a number here",
  function(i, u, c) u[i] = c.w[i % 2] end, { w = { 1, 2 } })
fails("a number, a boolean or a struct", function(i, u, c) u[i] = c end, "text")
fails("it takes a string", function(i, u, c) u[i] = c.x end, { x = "text" })
fails("it takes a table", function(i, u, c) u[i] = c end, { x = 1 })
fails("'c.n' is 9007199254740993LL, a number of the FFI: a kernel takes those of Lua",
  function(i, u, c) u[i] = c.n end, ffi.new("struct mixed", { 2LL ^ 53 + 1 }))
local large = 5LL
fails("'large' is 5LL, a number of the FFI", function(i, u) u[i] = large end)
]==])

  script.everywhere("is refused with its line where it is not right", [==[
celer.struct("cell", "double q[9]; float m;")
local b = celer.buffer("cell", 5, { init = { m = 0 } })
local cases = {
  { "'q' of a cell has [0] to [8], and this index may be another one",
    function(i, b) b[i].q[9] = 1 end },
  { "'q' of a cell has [0] to [8]", function(i, b) b[i].m = b[i].q[i] end },
  { "the index of 'q' of a cell may be a fraction", function(i, b) b[i].q[0.5] = 1 end },
  { "'b' is given all of an array", function(i, b) b[i].q = 1 end },
  { "'b' is given all of an array", function(i, b) b[i].m = b[i].q end },
  { "a cell has no field 'mm', did you mean m?", function(i, b) b[i].mm = 1 end },
  { "cannot compute with an array of a struct", function(i, b) b[i].m = b[i].q + 1 end },
  { "'q' of a cell is an array, and has no 'x'", function(i, b) b[i].q.x = 1 end },
  { "too many indices", function(i, b) b[i].q[1][2] = 1 end },
  { "too many indices", function(i, b) b[i].m[2] = 1 end },
}
for _, case in ipairs(cases) do
  local ok, message = pcall(celer.kernel(case[2]), 5, b)
  message = type(message) == "table" and message.message or tostring(message)
  same(case[1] .. " in " .. message, not ok and message:find(case[1], 1, true) ~= nil, true)
  same("the line of " .. case[1], tonumber(message:match "/case%.lua:(%d+): "),
    debug.getinfo(case[2], "S").linedefined)
end
local _, message = pcall(celer.kernel(function(i, b)
  local k = 0
  repeat
    b[i].m = b[i].q[k % 9]
    k = k + 1
  until b[i].q[0] > k
end), 5, b)
same("no other remainder", tostring(message):match "between them by (.*)$", "celer.clamp")
]==])
end)
