-- Atomic operations of kernels written in Lua, and indices that are clamped.
local script = require("spec.support.script")

describe("an atomic operation of a kernel written in Lua", function()
  script.everywhere("counts in one place for all items", [==[
local n, bins = 3000, 10
local v = celer.buffer("double", n, { init = function(i)
  return i == 7 and 0 / 0 or i == 8 and 1 / 0 or i == 9 and -1 / 0 or math.sin(i) * 8
end })
local h = celer.buffer("int", bins, { init = 0 })
local count = celer.kernel(function(i, v, h)
  h[celer.clamp(math.floor(v[i]), 0, bins - 1)]:atomic_add(1)
end)
local least = celer.min
local other = celer.kernel(function(i, v, h)
  h[least(math.max(celer.floor(v[i]), 0), h:extent(0) - 1)]:atomic_add(1)
end)
local wanted, s = {}, celer.wait(v)
for i = 0, n - 1 do
  local at = celer.clamp(math.floor(s(i)), 0, bins - 1)
  wanted[at] = (wanted[at] or 0) + 1
end
local step = q:group(function(cg, v, h) cg:parallel_for(n, count, v, h) end)
local times = 0
local function holds(what)
  times = times + 1
  local s = celer.wait(h)
  for b = 0, bins - 1 do same(what .. " " .. b, s(b), times * (wanted[b] or 0)) end
end
for _ = 1, 3 do
  count(n, v, h)
  holds "by itself"
  step(v, h)
  holds "in a group"
end
other(n, v, h)
holds "by min and max"
q:submit(function(cg)
  cg:hint { granularity = n }
  cg:parallel_for(n, count, v, cg:read_write(h, celer.all))
end)
holds "with an access"
q:submit(function(cg)
  cg:hint { place = celer.at(0) }
  cg:parallel_for(n, count, v, h)
end)
holds "at a place"
same("accesses", count:accesses(n, v, h), table.concat({
  "read          v: celer.box({ chunk.min[0] }, { chunk.max[0] })",
  "read_write    h: celer.box({ 0 }, { bins })" }, "\n"))
refused("celer.min, max and clamp take numbers, not nil", function() celer.clamp(nil, 0, 1) end)
refused("celer.min, max and clamp take numbers, not nil", function() celer.clamp(1, nil, 1) end)
refused("celer.clamp takes a number, and its bounds", function() celer.clamp(1, 0) end)
-- In another order than that in which one compares, a NaN would be an index.
refused("cannot be derived", function()
  celer.kernel(function(i, v, h)
    h[math.min(9, math.max(0, math.floor(v[i])))]:atomic_add(1)
  end)(n, v, h)
end)
refused("cannot be derived", function()
  celer.kernel(function(i, v, h) h[math.floor(v[i]) % 10]:atomic_add(1) end)(n, v, h)
end)
]==])

  script.everywhere("returns what was there, for all types of numbers", [==[
local n, cells = 900, 6
celer.struct("cell", "int count; float mass; struct { unsigned bits; } inner;")
local w = celer.buffer("int", n, { init = function(i) return i * 7 - 300 end })
local zero = { count = 0, mass = 0, inner = { bits = 0 } }
local c = celer.buffer("cell", cells, { init = zero })
local order = celer.buffer("int", n, { init = -1 })
local place = celer.kernel(function(i, w, c, order)
  local cell = celer.clamp(w[i] % 6, 0, 5)
  local slot = c[cell].count:atomic_add(1)
  c[cell].mass:atomic_add(0.5)
  c[cell].inner.bits:atomic_bor(bit.lshift(1, w[i] % 20))
  order[cell * 150 + slot] = i
end)
place(n, w, c, celer.access(order, celer.all))
local got, s = celer.wait(c, order)
local seen = {}
for k = 0, cells - 1 do
  same("count", got(k).count, 150)
  same("mass", got(k).mass, 75)
  local bits = 0
  for j = 0, 149 do
    local i = s(k * 150 + j)
    same("twice", seen[i], nil)
    seen[i] = true
    same("cell", (i * 7 - 300) % 6, k)
    bits = bit.bor(bits, bit.lshift(1, (i * 7 - 300) % 20))
  end
  same("bits", got(k).inner.bits, bits)
end
for _, type_ in ipairs { "int", "unsigned", "int64_t" } do
  local b = celer.buffer(type_, 8, { init = 12 })
  celer.kernel(function(i, b)
    b[0]:atomic_add(i)
    b[1]:atomic_min(20 - i)
    b[2]:atomic_max(i)
    b[3]:atomic_band(8 + i % 2)
    b[4]:atomic_bor(i % 4)
    b[5]:atomic_bxor(i % 2)
    b[6]:atomic_exchange(3)
    b[7]:atomic_compare_exchange(12, 5)
  end)(21, b)
  local s = celer.wait(b)
  for k, x in ipairs { 222, 0, 20, 8, 15, 12, 3, 5 } do
    same(type_ .. k, tonumber(s(k - 1)), x)
  end
end
local d = celer.buffer("double", { 4, 3 }, { init = 0 })
local total = celer.buffer("float", {}, { init = 0 })
celer.kernel(function(i, j, d, total)
  d[i][j % 3]:atomic_add(0.25)
  total:atomic_add(1)
end)({ 4, 30 }, d, total)
same("rows", d(3, 2), 2.5)
same("a total", total(), 120)
same("a row stays with its items", celer.kernel(function(i, j, d) d[i][j % 3]:atomic_add(1) end)
  :accesses({ 4, 30 }, d), "read_write    d: celer.box({ chunk.min[0], 0 }, { chunk.max[0], 3 })")
]==])

  script.everywhere("is refused where it is not right", [==[
local u, h = celer.buffer("double", 9, { init = 0 }), celer.buffer("int", 9, { init = 0 })
local b = celer.buffer("int8_t", 9, { init = 0 })
celer.struct("cell", "short small;")
local cells = celer.buffer("cell", 9, { init = { small = 0 } })
local cases = {
  { "'h' is written here, and changed by atomic operations",
    function(i, u, h) h[i]:atomic_add(1) h[0] = 2 end },
  { "'h' is read here, and changed by atomic operations",
    function(i, u, h) h[i]:atomic_add(h[0]) end },
  { "'h' has whole numbers (int), and this may be a fraction",
    function(i, u, h) h[i]:atomic_add(u[i]) end },
  { "'u' has elements of double, and this takes whole numbers",
    function(i, u, h) u[i]:atomic_min(1) end },
  { "'h' has elements of int8_t, and numbers of 4 or 8 bytes are added to",
    function(i, u, h) h[i]:atomic_add(1) end, b },
  { "'c.small' has elements of int16_t, and numbers of 4 or 8 bytes are added to",
    function(i, u, c) c[i].small:atomic_add(1) end, cells },
  { "cannot use elements of 'h': their type is neither a number of at most 64 bits (with a sign",
    function(i, u, h) h[i]:atomic_add(1) end, celer.buffer("uint64_t", 9, { init = 0 }) },
  { "an element of 'h' is a number, and has no 'atomicAdd', did you mean atomic_add?",
    function(i, u, h) h[i]:atomicAdd(1) end },
  { "field small of 'c' is a number, and has no 'x'",
    function(i, u, c) c[i].small.x = 1 end, cells },
  { "'m' has 2 dimensions: write m[i][j]:atomic_add(x)", function(i, u, m) m[i]:atomic_add(1) end,
    celer.buffer("int", { 9, 9 }, { init = 0 }) },
  { "h:atomic_add takes 1 value, got 2", function(i, u, h) h[i]:atomic_add(1, 2) end },
  { "write h[i]:atomic_add(x)", function(i, u, h) h:atomic_add(1) end },
  { "call it with a colon", function(i, u, h) h[i].atomic_add(1) end },
  { "cannot compute with a boolean", function(i, u, h) h[i]:atomic_add(i < 3) end },
  { "index 0 is what an atomic operation returns",
    function(i, u, h) u[h[0]:atomic_add(1)] = i end },
  { "'h' is reduced by", function(i, u, h) h[i]:atomic_add(1) end, celer.sum(h) },
}
for _, case in ipairs(cases) do
  local ok, message = pcall(celer.kernel(case[2]), 9, u, case[3] or h)
  message = type(message) == "table" and message.message or tostring(message)
  local line = tonumber(message:match "/case%.lua:(%d+): ")
  same(case[1] .. " in " .. message, not ok and message:find(case[1], 1, true) ~= nil, true)
  same("the line of " .. case[1], line, debug.getinfo(case[2], "S").linedefined)
end
]==])
end)
