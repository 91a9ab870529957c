-- Command groups like one before go a short way: with the same results, and the same
-- mistakes found.
local script = require("spec.support.script")

-- b[i] becomes n plus the sum of what `map` gives of a around i, a[i] being i + 1.
local sums = [==[
local rules = require "celer.rules"
local bind, binds = rules.bind, 0
function rules.bind(...) binds = binds + 1; return bind(...) end
local function new(n) return celer.buffer("int", { n }, { init = function(i) return i + 1 end }) end
local a, b, c, small = new(12), new(12), new(12), new(6)
local k = celer.kernel [=[
  kernel void sum(item<1> it, in<int, 1> a, out<int, 1> b, int n, int reach) {
    int sum = n;
    for (int i = max(it[0] - reach, 0); i <= min(it[0] + reach, 11); ++i) sum += a(i);
    b(it[0]) = sum;
  }
]=]
local function submit(n, reach, from, to, map, range)
  q:submit(function(cg)
    local r = cg:read(from or a, map or function(chunk) return chunk:grow(reach) end)
    cg:parallel_for(range or { 12 }, k, r, cg:discard_write(to or b), n, reach)
  end)
end
local function holds(what, n, reach, to)
  local s = q:wait(to or b)
  for i = 0, 11 do
    local sum = n
    for j = math.max(i - reach, 0), math.min(i + reach, 11) do sum = sum + j + 1 end
    same(("%s, %d"):format(what, i), s[i], sum)
  end
end
-- Calls f; it is to have looked mappers up so often.
local function looked_up(times, what, f)
  binds = 0
  f()
  same("mappers looked up: " .. what, binds, times)
end
submit(1, 1)
holds("the first", 1, 1)
]==]

script.everywhere("a group like one before", sums .. [==[
looked_up(0, "again", function() submit(2, 1) end)
holds("another value", 2, 1)
looked_up(0, "a number", function() submit(3, 2) end)
holds("another number", 3, 2)
looked_up(0, "buffers", function() submit(4, 2, a, c) end)
holds("another buffer", 4, 2, c)
looked_up(0, "no table", function() submit(5, 2, a, b, nil, 12) end)
holds("a number for a range", 5, 2)

-- Whatever else differs is another group.
looked_up(2, "a mapper", function() submit(6, 2, a, b, celer.all) end)
holds("another mapper", 6, 2)
looked_up(0, "that mapper", function() submit(7, 1, a, b, celer.all) end)
holds("another mapper again", 7, 1)
looked_up(0, "the first mapper", function() submit(8, 1) end)
holds("the first mapper", 8, 1)
looked_up(2, "a range", function() submit(0, 1, a, b, celer.all, { 4 }) end)
looked_up(2, "a size", function() submit(0, 1, small, b, celer.all, { 4 }) end)
submit(9, 1)
holds("after all that", 9, 1)

-- What mappers see may be another's: a variable of what they call, a global.
local width = 1
local function wider() return width + 0 end
reach_of = math.abs
for _, how in ipairs {
  function() return function(chunk) return chunk:grow(wider()) end end,
  function() return function(chunk) return chunk:grow(reach_of(-width)) end end,
  function()
    local w = tostring(width)
    return function(chunk) return chunk:grow(w + 0) end
  end,
} do
  for w = 1, 3 do
    width = w
    submit(10, w, a, b, how())
    holds("seen " .. w, 10, w)
  end
end
width = 1
local function by_global(chunk) return chunk:grow(reach_of(-2)) end
submit(11, 2, a, b, function(chunk) return by_global(chunk) end)
reach_of = function() return 0 end
submit(11, 0, a, b, function(chunk) return by_global(chunk) end)
holds("another global", 11, 0)
]==], nil, { shapes = { script.shapes[1], script.shapes[2] } })

script.everywhere("a mistake in a group like one before", sums .. [==[
local function group(words, f)
  submit(1, 1)
  local ok, message = pcall(q.submit, q, f)
  local info = debug.getinfo(f, "S")
  local line = tonumber(tostring(message):match("/case%.lua:(%d+): ")) or 0
  if ok or line < info.linedefined or line > info.lastlinedefined
    or not message:find(words, 1, true) then
    error(("wanted %s, got %s"):format(words, ok and "no error" or message), 2)
  end
end
local function near(chunk) return chunk:grow(1) end
local kept
local both = celer.kernel [=[
  kernel void both(item<1> it, in<int, 1> a, in<int, 1> b) {}
]=]
q:submit(function(cg) cg:parallel_for({ 12 }, both, cg:read(a, near), cg:read(a, near)) end)
group("is passed twice", function(cg)
  local r = cg:read(a, near)
  cg:parallel_for({ 12 }, both, r, r)
end)
group("is passed twice", function(cg)
  local r = cg:read(a, near)
  cg:read(c, near)
  cg:parallel_for({ 12 }, both, r, r)
end)
group("use cg:read", function(cg)
  cg:parallel_for({ 12 }, k, cg:write(a), cg:discard_write(b), 1, 1)
end)
group("is declared but not passed", function(cg)
  cg:write(c)
  cg:parallel_for({ 12 }, k, cg:read(a, near), cg:discard_write(b), 1, 1)
end)
group("takes 4 arguments", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, near), cg:discard_write(b), 1)
end)
group("1.5 is no whole number", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, near), cg:discard_write(b), 1.5, 1)
end)
group("does not fit", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, near), cg:discard_write(b), 2 ^ 31, 1)
end)
group("expected a number", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, near), cg:discard_write(b), "1", 1)
end)
group("the range", function(cg)
  cg:parallel_for({ 12, x = 1 }, k, cg:read(a, near), cg:discard_write(b), 1, 1)
end)
group("has its work already", function(cg)
  local r, w = cg:read(a, near), cg:discard_write(b)
  cg:parallel_for({ 12 }, k, r, w, 1, 1)
  cg:parallel_for({ 12 }, k, r, w, 1, 1)
end)
q:submit(function(cg)
  kept = { cg, cg:read(a, near) }
  cg:parallel_for({ 12 }, k, kept[2], cg:discard_write(b), 1, 1)
end)
group("belongs to another command group", function(cg)
  cg:parallel_for({ 12 }, k, kept[2], cg:discard_write(b), 1, 1)
end)
refused("this command group is over", function() kept[1]:parallel_for({ 12 }, k, 1, 1) end)
refused("the command group has no work", function() q:submit(function() end) end)
group("does not stay within the buffer", function(cg)
  local far = 1
  cg:parallel_for({ 12 }, k, cg:read(a, function(chunk)
    return celer.box({ chunk.min[0] }, { chunk.max[0] + far })
  end), cg:discard_write(b), 1, 1)
end)
local old = new(12)
submit(1, 1, old)
group("was freed", function(cg)
  local r = cg:read(old, near)
  old:free()
  cg:parallel_for({ 12 }, k, r, cg:discard_write(b), 1, 1)
end)
submit(2, 1)
holds("after all that", 2, 1)
]==], nil, { shapes = { script.shapes[1] } })
