-- What a function of a command group reads may change between two submissions, in every way
-- that a user has. A function of q:group, and one of q:submit that celer need not run again,
-- hold what running it gives, with the values of now.
local script = require("spec.support.script")

local shapes = { shapes = { script.shapes[1] } }

-- turns(what, f, set, ...): f is submitted some times as before, and again after each set(i)
-- until that gives nil: by q:group, by q:submit if it has no arguments, and by q:submit with
-- f run. ... are arguments. It gives how often it was prepared, and how often recalled.
local turns = script.sums .. [==[
local short, known = count_short "celer.submit.prepared", count_short "celer.submit.recalled"
local recalled = require "celer.submit.recalled"
local function told(buffer)
  local s, out = q:wait(buffer), {}
  for i = 0, 11 do out[i + 1] = s(i) end
  return table.concat(out, " ")
end
function turns(what, f, set, ...)
  local n, given = select("#", ...), { ... }
  local ways = { q:group(f), n == 0 and function() q:submit(f) end or nil }
  local function runs()
    recalled.on = false
    q:submit(function(cg) f(cg, unpack(given, 1, n)) end)
    recalled.on = true
  end
  short.n, known.n = 0, 0
  for _, way in ipairs(ways) do
    for _ = 1, 6 do way(unpack(given, 1, n)) end
  end
  local before, before_known = short.n, known.n
  for turn = 1, math.huge do
    if set(turn, given) == nil then break end
    for again = 1, 2 do
      b:fill(-1)
      runs()
      local wanted = told(b)
      for i, way in ipairs(ways) do
        b:fill(-1)
        way(unpack(given, 1, n))
        same(("%s, way %d, turn %d, %d"):format(what, i, turn, again), told(b), wanted)
      end
    end
  end
  return before, n > 0 or before_known
end
-- A `set` for a field.
function goes_through(t, field, ...)
  local values = { ... }
  return function(i)
    if i > #values then return nil end
    t[field] = values[i]
    return true
  end
end
-- The same as turns, of a function that is to be prepared.
function prepared_turns(what, ...)
  local times, times_known = turns(what, ...)
  same(what .. " is prepared", times > 0, true)
  same(what .. " is recalled", times_known == true or times_known > 0, true)
end
]==]

script.everywhere("fields that a user adds are compared", turns .. [==[
a.scale = 2
prepared_turns("a buffer's", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), a.scale, 1)
end, goes_through(a, "scale", 3, 4, 0, -1))
a.loud = false
prepared_turns("a buffer's that is only tested", function(cg)
  local n = 1
  if a.loud then n = 2 end
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 1)
end, goes_through(a, "loud", true, false, 7))
k.reach = 1
prepared_turns("a kernel's", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), 5, k.reach)
end, goes_through(k, "reach", 2, 0))
local here = celer.at(0)
here.value = 1
prepared_turns("a placement's", function(cg)
  cg:hint { place = here }
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), here.value, 1)
end, goes_through(here, "value", 2, 3))
local w = celer.weights(function() return 1 end)
w.value = 1
prepared_turns("weights'", function(cg)
  cg:hint { weights = w }
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), w.value, 1)
end, goes_through(w, "value", 2, 3))
celer.scale = 1
prepared_turns("celer's", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), celer.scale, 1)
end, goes_through(celer, "scale", 2, 3))
local w = celer.weights(function() return 1 end)
prepared_turns("weights' that is not there", function(cg)
  local n = 1
  if w.value == false then n = 2 end
  if w.value then n = 3 end
  cg:hint { weights = w }
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 1)
end, function(i)
  w.value = ({ false, nil, 0, nil })[i]
  return i < 5 or nil
end)
getmetatable(w).inherited = 1
getmetatable(w).__index = getmetatable(w)
prepared_turns("weights' by their metatable", function(cg)
  cg:hint { weights = w }
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), w.inherited, 1)
end, function(i)
  if i == 1 then getmetatable(w).inherited = 2 end
  if i == 2 then w.inherited = 3 end
  if i == 3 then w.inherited = nil end
  return i < 4 or nil
end)
math.scale = 1
local math = math
prepared_turns("math's", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), math.scale, 1)
end, goes_through(math, "scale", 2, 3))
a.scale = 1
prepared_turns("through a local variable", function(cg)
  local u = a
  local n = u.scale
  cg:parallel_for({ 12 }, k, cg:read(u, celer.all), cg:discard_write(b), n, 1)
end, goes_through(a, "scale", 2, 3))
local function scaled() return a.scale end
prepared_turns("by a helper", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), scaled(), 1)
end, goes_through(a, "scale", 4, 5))
local function scale_of(u) return u.scale end
turns("by a helper that is given the buffer", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), scale_of(a), 1)
end, goes_through(a, "scale", 6, 7))
turns("by a function in it", function(cg)
  local function by() return a.scale end
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), by(), 1)
end, goes_through(a, "scale", 8, 9))
turns("out of a table", function(cg)
  local t = { a }
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), t[1].scale, 1)
end, goes_through(a, "scale", 10, 11))
a.near = celer.neighborhood(1)
prepared_turns("a mapper", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, a.near), cg:discard_write(b), 1, 0)
end, goes_through(a, "near", celer.neighborhood(2), celer.all))
a.range = { 12 }
prepared_turns("a range", function(cg)
  cg:parallel_for(a.range, k, cg:read(a, celer.all), cg:discard_write(b), 1, 0)
end, function(i)
  if i == 1 then a.range = { 3 } elseif i == 2 then a.range[1] = 5 else return nil end
  return true
end)
prepared_turns("the size", function(cg)
  cg:parallel_for({ a.size[0] }, k, cg:read(a, celer.all), cg:discard_write(b), 1, 0)
end, function(i)
  a.size[0] = i < 3 and i or nil
  if i < 3 then return true end
  a.size[0] = 12
  return nil
end)
turns("a mapper's buffer", function(cg)
  local r = cg:read(a, function(chunk) return chunk:grow(a.scale) end)
  cg:parallel_for({ 12 }, k, r, cg:discard_write(b), 1, 0)
end, goes_through(a, "scale", 1, 2))
turns("by weights", function(cg)
  cg:hint { weights = function(rank) return rank + 1, a.scale end }
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), 1, 0)
end, goes_through(a, "scale", 1, 2))
]==], nil, shapes)

script.everywhere("kernels of a source with several are compared", turns .. [==[
local both = celer.kernel [[
  kernel void one(item<1> it, out<int, 1> b) { b(it[0]) = 1; }
  kernel void two(item<1> it, out<int, 1> b) { b(it[0]) = 2; }
]]
both.now = both.one
prepared_turns("a name", function(cg)
  cg:parallel_for({ 12 }, both.now, cg:discard_write(b))
end, function(i)
  if i == 3 then return nil end
  both.now = i == 1 and both.two or both.one
  return true
end)
both.flag = false
turns("a flag", function(cg)
  local kernel = both.one
  if both.flag then kernel = both.two end
  cg:parallel_for({ 12 }, kernel, cg:discard_write(b))
end, function(i)
  if i == 3 then return nil end
  both.flag = i == 1 and both.two
  return true
end)
]==], nil, shapes)

script.everywhere("functions that are replaced are compared", turns .. [==[
local math = math
local floor = math.floor
prepared_turns("math's", function(cg)
  local n = math.floor(2.5)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 0)
end, function(i)
  math.floor = i == 1 and math.ceil or floor
  return i < 3 or nil
end)
local neighborhood, box = celer.neighborhood, celer.box
prepared_turns("celer's", function(cg)
  cg:parallel_for(celer.box({ 0 }, { 12 }), k, cg:read(a, celer.neighborhood(0)),
    cg:discard_write(b), 1, 0)
end, function(i)
  celer.neighborhood = i == 1 and function(n) return neighborhood(n + 1) end or neighborhood
  celer.box = i == 2 and function() return box({ 2 }, { 5 }) end or box
  return i < 4 or nil
end)
function celer.mine() return 1 end
prepared_turns("celer's that the user added", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), celer.mine(), 0)
end, function(i)
  function celer.mine() return i + 1 end
  return i < 3 or nil
end)
function math.mine() return 1 end
prepared_turns("math's that the user added", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), math.mine(), 0)
end, function(i)
  function math.mine() return i + 1 end
  return i < 3 or nil
end)
function celer.reach(chunk) return chunk end
turns("celer's in a mapper", function(cg)
  local r = cg:read(a, function(chunk) return celer.reach(chunk) end)
  cg:parallel_for({ 12 }, k, r, cg:discard_write(b), 1, 0)
end, function(i)
  function celer.reach(chunk) return chunk:grow(i) end
  return i < 3 or nil
end)
local near = celer.neighborhood(1)
local function helper() return near end
prepared_turns("a helper", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, helper()), cg:discard_write(b), 1, 0)
end, function(i)
  if i == 1 then near = celer.all end
  if i == 2 then helper = function() return celer.one_to_one end end
  return i < 3 or nil
end)
local inner, outer
local value = 1
function inner(n) return n > 0 and outer(n - 1) or value end
function outer(n) return inner(n) end
prepared_turns("two that call each other", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), outer(2), inner(1))
end, function(i)
  if i < 3 then value = i + 1 end
  if i == 3 then outer = function() return 9 end end
  return i < 4 or nil
end)
]==], nil, shapes)

script.everywhere("false, nil, zeros and types are told apart", turns .. [==[
local flag
local function chosen(flag) return flag == false and 1 or flag == nil and 2 or 3 end
local kinds = { "is false", "is nil", "is true", "is 0" }
local values = { false, nil, true, 0 }
prepared_turns("a variable", function(cg)
  local n = 3
  if flag == nil then n = 1 end
  if flag == false then n = 2 end
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 0)
end, function(i)
  flag = values[i]
  return kinds[i]
end)
prepared_turns("a variable that is only tested", function(cg)
  local n = 1
  if flag then n = 2 end
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 0)
end, function(i)
  flag = values[i]
  return kinds[i]
end)
prepared_turns("an argument that is only tested", function(cg, x)
  local n = 1
  if x then n = 2 end
  if not x then n = 3 end
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 0)
end, function(i, given)
  given[1] = values[i]
  return kinds[i]
end, 1)
prepared_turns("an argument that is not used", function(cg, x, y)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), y, 0)
end, function(i, given)
  given[1] = values[i]
  return kinds[i]
end, 1, 2)
turns("an argument that is compared", function(cg, x)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), chosen(x), 0)
end, function(i, given)
  given[1] = values[i]
  return kinds[i]
end, 1)
turns("an argument that is a NaN", function(cg, x)
  local n = 1
  if x ~= x then n = 2 end
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 0)
end, function(i, given)
  given[1] = i == 1 and 0 / 0 or 1
  return i < 3 or nil
end, 1)
local type, rawequal, tostring = type, rawequal, tostring
turns("the type of an argument", function(cg, x)
  local n = 1
  if type(x) == "number" then n = 2 end
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 0)
end, function(i, given)
  given[1] = i == 1 and 7 or a
  return i < 3 or nil
end, 1)
turns("an argument that is a certain number", function(cg, x)
  local n = 1
  if rawequal(x, 7) then n = 2 end
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 0)
end, function(i, given)
  given[1] = i + 6
  return i < 3 or nil
end, 1)

local sign = celer.kernel [[
  kernel void sign(item<1> it, out<int, 1> b, double x) { b(it[0]) = signbit(x) ? 1 : 2; }
]]
local zero = 0
prepared_turns("the sign of a zero", function(cg)
  cg:parallel_for({ 12 }, sign, cg:discard_write(b), zero)
end, function(i)
  zero = i % 2 == 1 and -0 * 1 or 0
  if i % 2 == 1 then zero = 0 * -1 end
  return i < 4 or nil
end)
a.zero = 0
prepared_turns("the sign of a zero in a field", function(cg)
  cg:parallel_for({ 12 }, sign, cg:discard_write(b), a.zero)
end, function(i)
  a.zero = i % 2 == 1 and 0 * -1 or 0
  return i < 4 or nil
end)
]==], nil, shapes)

script.everywhere("what is not pure is run at each call", turns .. [==[
-- f counts how often it is run: in each of these it must be so at each call.
local function runs(what, f)
  local step = q:group(f)
  for i = 1, 16 do
    b:fill(-1)
    if i <= 8 then step(i) else q:submit(f) end
    same(what .. " " .. i, q:wait(b)[0], 100 + a.calls)
    same(what .. ", calls", a.calls, i)
  end
  a.calls = 0
end
local add = celer.kernel [[
  kernel void add(item<1> it, in<int, 1> a, out<int, 1> b, int n) { b(it[0]) = 100 + n; }
]]
a.calls = 0
local counter, list = 0, { 0 }
runs("a field of a buffer", function(cg)
  a.calls = a.calls + 1
  cg:parallel_for({ 12 }, add, cg:read(a), cg:discard_write(b), a.calls)
end)
runs("a variable", function(cg)
  counter = counter + 1
  a.calls = counter
  cg:parallel_for({ 12 }, add, cg:read(a), cg:discard_write(b), counter)
end)
counter = 0
local function next_one() counter = counter + 1 return counter end
runs("a helper's variable", function(cg)
  local n = next_one()
  a.calls = n
  cg:parallel_for({ 12 }, add, cg:read(a), cg:discard_write(b), n)
end)
runs("an element", function(cg)
  list[1] = list[1] + 1
  a.calls = list[1]
  cg:parallel_for({ 12 }, add, cg:read(a), cg:discard_write(b), list[1])
end)
local u = { 0 }
local function inside(t) t[1] = t[1] + 1 return t[1] end
runs("a helper that is given a table", function(cg)
  local n = inside(u)
  a.calls = n
  cg:parallel_for({ 12 }, add, cg:read(a), cg:discard_write(b), n)
end)
local rawset, rawget = rawset, rawget
runs("rawset", function(cg)
  rawset(a, "calls", rawget(a, "calls") + 1)
  cg:parallel_for({ 12 }, add, cg:read(a), cg:discard_write(b), rawget(a, "calls"))
end)
local insert = table.insert
local many = {}
turns("table.insert", function(cg)
  insert(many, 1)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), 1, 0)
end, function(i)
  same("elements of the list", #many, 12 + (i - 1) * 6)
  return i < 3 or nil
end)
package.loaded.mine = { value = 1 }
local require = require
turns("require", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), require("mine").value, 0)
end, function(i)
  package.loaded.mine.value = i + 1
  return i < 3 or nil
end)
local select, next, tostring, getmetatable = select, next, tostring, getmetatable
a.name = "a"
turns("next", function(cg)
  local _, value = next(many)
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), value, 0)
end, function(i)
  many[1] = i + 1
  return i < 3 or nil
end)
local time, clock, open, random = os.time, os.clock, io.open, math.random
local said = 0
for what, f in celer.sorted_pairs { time = time, clock = clock, random = random,
  open = function() local file = open("/dev/null") file:close() end,
  celer_random = celer.random, celer_time = celer.time } do
  local step = q:group(function(cg)
    f()
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), 1, 0)
  end)
  short.n = 0
  for _ = 1, 3 do step() end
  same(what, short.n, 0)
  known.n = 0
  for _ = 1, 8 do
    q:submit(function(cg)
      f()
      cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), 1, 0)
    end)
  end
  same(what .. ", by q:submit", known.n, 0)
end
]==], nil, shapes)

script.everywhere("what was freed and made anew is another one", turns .. [==[
local u = celer.buffer("int", { 12 }, { init = 0 })
prepared_turns("a buffer", function(cg)
  cg:parallel_for({ 12 }, k, cg:read(u, celer.all), cg:discard_write(b), 1, 0)
end, function(i)
  u = nil
  collectgarbage()
  collectgarbage()
  u = celer.buffer("int", { 12 }, { init = i })
  return i < 40 or nil
end)
prepared_turns("an argument", function(cg, u)
  cg:parallel_for({ 12 }, k, cg:read(u, celer.all), cg:discard_write(b), 1, 0)
end, function(i, given)
  given[1] = nil
  u = nil
  collectgarbage()
  collectgarbage()
  given[1] = celer.buffer("int", { 12 }, { init = i })
  return i < 40 or nil
end, u)
local range = { 12 }
prepared_turns("a table", function(cg)
  cg:parallel_for(range, k, cg:read(a, celer.all), cg:discard_write(b), 1, 0)
end, function(i)
  range = nil
  collectgarbage()
  range = { i % 12 + 1 }
  return i < 40 or nil
end)
]==], nil, shapes)
