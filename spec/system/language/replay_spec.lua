-- Command groups like one before go a short way: with the same results, and the same
-- mistakes found.
local celer = require("spec.support.celer")
local preload = require("spec.support.preload")
local script = require("spec.support.script")

local sums = script.sums .. [==[
require("celer.submit.recalled").on = false -- which goes another short way
local rules = require "celer.mapper.rules"
local bind, binds = rules.bind, 0
function rules.bind(...) binds = binds + 1; return bind(...) end
local small = new(6)
local function submit(n, reach, from, to, map, range)
  q:submit(function(cg)
    local r = cg:read(from or a, map or function(chunk) return chunk:grow(reach) end)
    cg:parallel_for(range or { 12 }, k, r, cg:discard_write(to or b), n, reach)
  end)
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
looked_up(0, "a range", function() submit(9, 2, a, c, nil, { 4 }) end)
looked_up(0, "a box", function() submit(8, 2, a, c, nil, celer.box({ 6 }, { 11 })) end)
for i, n in ipairs { 9, 9, 9, 9, 4, 4, 8, 8, 8, 8, 8, 4 } do
  local sum = n
  for j = math.max(i - 3, 0), math.min(i + 1, 11) do sum = sum + j + 1 end
  same("ranges, " .. i, q:wait(c)[i - 1], sum)
end
looked_up(0, "no items", function() submit(5, 2, a, c, nil, celer.box({ 6 }, { 2 })) end)
looked_up(0, "no table", function() submit(5, 2, a, b, nil, 12) end)
holds("a number for a range", 5, 2)

-- Whatever else differs is another group.
looked_up(2, "a mapper", function() submit(6, 2, a, b, celer.all) end)
holds("another mapper", 6, 2)
looked_up(0, "that mapper", function() submit(7, 1, a, b, celer.all) end)
holds("another mapper again", 7, 1)
looked_up(0, "the first mapper", function() submit(8, 1) end)
holds("the first mapper", 8, 1)
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
-- A helper made anew, and numbers that it shares.
local function with_helper(w)
  local function more(n) return n + w - 1 end
  return function(chunk) return chunk:grow(more(w) - w + 1) end
end
submit(10, 1, a, b, with_helper(1))
for w = 1, 3 do
  looked_up(0, "helper " .. w, function() submit(10, w, a, b, with_helper(w)) end)
  holds("helper " .. w, 10, w)
end

-- A mapper that takes another course for a number, or for a range, is asked.
local steps = { [3] = 0 }
local function by_table(w) return function(chunk) return chunk:grow((steps[w] or w) + 1) end end
for _, w in ipairs { 1, 2, 3, 1, 3 } do
  submit(10, w == 3 and 1 or w + 1, a, b, by_table(w))
  holds("by table " .. w, 10, w == 3 and 1 or w + 1)
end
local function by_range(chunk)
  return rawequal(chunk.global[0], 5) and chunk:grow(0) or chunk:grow(2)
end
submit(10, 2, a, b, by_range)
submit(10, 0, a, b, by_range, { 5 })
looked_up(0, "the range before", function() submit(11, 2, a, c, by_range) end)
holds("by range", 11, 2, c)

width = 1
local function by_global(chunk) return chunk:grow(reach_of(-2)) end
submit(11, 2, a, b, function(chunk) return by_global(chunk) end)
reach_of = function() return 0 end
submit(11, 0, a, b, function(chunk) return by_global(chunk) end)
holds("another global", 11, 0)
]==], nil, { shapes = { script.shapes[1], script.shapes[2] } })

script.everywhere("a group with numbers, or a helper, that were seen before", [==[
local confirm = require "celer.mapper.confirm"
local spot_check, checks = confirm.spot_check, 0
function confirm.spot_check(...)
  local check = spot_check(...)
  return function(...) checks = checks + 1; return check(...) end
end
]==] .. sums .. [==[
for round = 1, 4 do
  checks = 0
  for reach = 1, 3 do
    submit(round, reach)
    holds("round " .. round .. ", reach " .. reach, round, reach)
  end
  if round > 1 then same("checks of numbers in round " .. round, checks, 0) end
end
for reach = 1, 12 do submit(1, reach) end -- more than are kept
submit(2, 3)
holds("after many", 2, 3)

-- Both functions have `grow` captured.
local function grow(chunk, by) return chunk:grow(by) end
local function further(chunk, by) return grow(chunk, by) end
local function mapper(by)
  return function(chunk) return by > 1 and further(chunk, by) or grow(chunk, by) end
end
submit(3, 2, a, b, mapper(2))
submit(3, 2, a, b, mapper(2))
looked_up(0, "a helper", function() submit(4, 2, a, b, mapper(2)) end)
holds("a helper", 4, 2)
grow = function(chunk) return chunk end
submit(5, 0, a, b, mapper(2))
holds("another helper", 5, 0)
]==], nil, { shapes = { script.shapes[1], script.shapes[2] } })

script.everywhere("a mistake in a group like one before", sums .. [==[
local function near(chunk) return chunk:grow(1) end
local function group(words, f)
  submit(1, 1, a, b, near)
  local ok, message = pcall(q.submit, q, f)
  local info = debug.getinfo(f, "S")
  local line = tonumber(tostring(message):match("/case%.lua:(%d+): ")) or 0
  if ok or line < info.linedefined or line > info.lastlinedefined
    or not message:find(words, 1, true) then
    error(("wanted %s, got %s"):format(words, ok and "no error" or message), 2)
  end
end
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
group("(cg:read) is declared but not passed to the work: data would be moved", function(cg)
  cg:read(c)
  cg:parallel_for({ 12 }, k, cg:read(a, near), cg:discard_write(b), 1, 1)
end)
group("(cg:write) is declared but not passed to the work: nothing would be written", function(cg)
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
local log = celer.host_object(function() return {} end, { name = "log" })
group("host objects are for host tasks", function(cg)
  cg:side_effect(log)
  cg:parallel_for({ 12 }, k, cg:read(a, near), cg:discard_write(b), 1, 1)
end)
local column = celer.buffer("int", { 12, 1 }, { init = function() return 0 end })
group("the kernel declares in<int, 1>", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(column, near), cg:discard_write(b), 1, 1)
end)
group("the range has 0 dimensions", function(cg)
  cg:hint { granularity = { 2, 2 } }
  cg:parallel_for({}, k, cg:read(a, near), cg:discard_write(b), 1, 1)
end)
group("the granularity has 2 numbers", function(cg)
  cg:hint { granularity = { 2, 2 } }
  cg:parallel_for({ 12 }, k, cg:read(a, near), cg:discard_write(b), 1, 1)
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
-- What the engine refuses was the group's work all the same.
for _, far in ipairs { 0, 0, 1 } do
  local function next_one(cg)
    local r = cg:read(a, function(chunk)
      return celer.box({ chunk.min[0] + far }, { chunk.max[0] + far })
    end)
    local w = cg:discard_write(b)
    if far == 0 then return cg:parallel_for({ 12 }, k, r, w, 1, 0) end
    local ok, message = pcall(cg.parallel_for, cg, { 12 }, k, r, w, 1, 0)
    same("refused", not ok and message:find("does not stay within", 1, true) ~= nil, true)
    cg:parallel_for({ 12 }, k, r, w, 1, 0)
  end
  if far == 0 then q:submit(next_one) else group("has its work already", next_one) end
end
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

script.everywhere("groups that no plan is made of", [==[
local core, replay = require "celer.core", require "celer.submit.replay"
local known = require "celer.mapper.known"
local plans, plan = 0, core.plan
function core.plan(...) plans = plans + 1; return plan(...) end
local noting, met = false, 0
local note, entry = replay.note, known.entry
function replay.note(...) noting = true; note(...); noting = false end
function known.entry(...) if noting then met = met + 1 end; return entry(...) end

-- A value that is never packed the short way.
local b = celer.buffer("int64_t", { 4 })
local k = celer.kernel [=[
  kernel void set(item<1> it, out<long, 1> b, long n) { b(it[0]) = n; }
]=]
local function set(n)
  q:submit(function(cg) cg:parallel_for({ 4 }, k, cg:discard_write(b), n) end)
  same("set", q:wait(b)[3] == n, true)
end
for i = 1, 3 do
  set(2LL ^ 60 + i)
  set(2 ^ 60)
end
same("plans", plans, 0)
for i = 1, 3 do set(i) end
same("plans of what can be packed", plans, 1)

-- A mapper that is never recognised.
local c = celer.buffer("int", { 4 }, { init = function() return 5 end })
local d = celer.buffer("int", { 4 })
local copy = celer.kernel [=[
  kernel void copy(item<1> it, in<int, 1> c, out<int, 1> d) { d(it[0]) = c(it[0]); }
]=]
local whole = celer.box({ 0 }, { 4 })
for _ = 1, 210 do
  q:submit(function(cg)
    cg:parallel_for({ 4 }, copy, cg:read(c, function() return whole end), cg:discard_write(d))
  end)
end
same("copied", q:wait(d)[3], 5)
same("plans, after all that", plans, 1)
if met > 210 then error(("looked at for ever: %d times"):format(met)) end
]==], nil, { shapes = { script.shapes[1] } })

script.everywhere("texts that submit", [==[
-- A text of a megabyte that submits is not kept after it has been run.
local b = celer.buffer("int", { 4 })
local k = celer.kernel "kernel void one(item<1> it, out<int, 1> b) { b(it[0]) = 1; }"
submit = function(f) q:submit(f) end
local padding, before = (" "):rep(2 ^ 20), 0
for i = 1, 24 do
  local f = load(("local b, k = ...; submit(function(cg) cg:parallel_for({ 4 }, k, "
    .. "cg:discard_write(b)); return %d end)%s"):format(i, padding))
  f(b, k)
  f = nil
  if i == 4 or i == 24 then
    q:wait()
    collectgarbage()
    collectgarbage()
    local now = collectgarbage "count"
    if i == 24 and now - before > 8192 then
      error(("%d KiB more are kept"):format(now - before))
    end
    before = now
  end
end
same("the last", q:wait(b)[3], 1)
]==], nil, { shapes = { script.shapes[1] } })

describe("a LuaJIT that keeps the code of functions elsewhere", function()
  local env
  setup(function()
    env = preload("other_luajit", "$(pkg-config --cflags luajit)")
    env.CELER_BACKEND = "cpu"
  end)

  it("is found out: groups go the long way, and --log info says so", function()
    local r = script.run(sums .. [==[
looked_up(2, "again", function() submit(2, 1) end)
holds("another value", 2, 1)
print "checked"]==], script.shapes[1], { before = { "--log", "info" }, env = env })
    assert.equal(0, r.status, r.stderr)
    assert.equal("checked\n", r.stdout)
    assert.matches("celer: warning: command groups are submitted the long way: where "
      .. "this LuaJIT keeps the code of a function is not known\n", r.stderr, 1, true)
  end)

  it("is shown by celer info, and no other", function()
    local words = "\ngroups   the long way: where this LuaJIT keeps the code of a function "
    assert.matches(words, celer.run({ "info" }, { env = env }).stdout, 1, true)
    local usual = celer.run({ "info" }, { env = { CELER_BACKEND = "cpu" } }).stdout
    assert.not_matches(words, usual, 1, true)
  end)
end)
