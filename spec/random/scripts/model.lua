--- model.lua -- random programs of all that tasks do beside reading and writing: side
--- effects of all orders and scopes, collective groups, reductions, captures and hints, as
--- users write them, beside plain Lua.
---
---   celer run --advice off spec/random/scripts/model.lua FOLDER SEED COUNT [STEPS]
---
--- What a task is to see is known when it is submitted, and handed to it: it looks, and
--- fails if that is not so. Every rank keeps what its own host objects must have come to.
--- Says at the end how often what occurred; or the seed that fails, and its steps.
local celer = require "celer"
local dice = require "chance"
local q = celer.queue()

local folder, first, count = arg[1], tonumber(arg[2]), tonumber(arg[3])
local steps = tonumber(arg[4]) or 20
local rank, ranks = require("celer.core").rank()
local MOST = 65521
local random, between, chance, one_of = dice.random, dice.between, dice.chance, dice.one_of


local seen, log = {}, {}
local function note(what) seen[what] = (seen[what] or 0) + 1 end
local function wrote(text, ...) log[#log + 1] = text:format(...) end

local program

local function same(what, got, wanted)
  if got == wanted then return end
  error(("seed %d, rank %d, %s: got %s, wanted %s; steps:\n%s"):format(program.seed, rank,
    what, tostring(got), tostring(wanted), table.concat(log, "\n")), 0)
end

-- ---- kernels -----------------------------------------------------------------

-- By the dimensions of what is reduced into, of which groups and tiles have one each, and
-- items two, as it takes a second to compile one; and of the one element that is read.
local TILE = 3
local forms = { [0] = "group", "item", "tile", "item" }
local starts = {
  group = { kind = "group<1> g, local<int, 4> mine", before = [[mine[g.local(0)] = g.global(0);
    g.barrier(); const int i = mine[g.size(0) - 1 - g.local(0)];]], after = "" },
  item = { kind = "item<1> it", before = "const int i = it[0];", after = "" },
  tile = { kind = ("tile<%d> t, local<int, %d> mine"):format(TILE, TILE),
    before = [[t.each([&](item<1> it) { mine[it.local(0)] = it[0]; }); t.each([&](item<1> it) {
    const int i = mine[t.size(0) - 1 - it.local(0)];]], after = "});" },
}
local indices = { "i % e0", "i % e0, i / e0 % e1", "i % e0, i / e0 % e1, i / 3 % e2" }
local ones_dims = { 0, 2 }
local source = {}
for d = 0, 3 do
  local values = { n = d }
  values.reducer = d == 0 and "reducer<unsigned> h" or ("reducer<unsigned, %d> h"):format(d)
  values.at = d == 0 and "" or ("(%s)"):format(indices[d])
  for key, text in pairs(starts[forms[d]]) do values[key] = text end
  source[#source + 1] = (([[
    kernel void reduce$n($kind, in<int, 1> u, reducer<unsigned> s, $reducer, int a, int e0,
                         int e1, int e2) {
      $before
      const int x = (u(i) * a + i) % 997;
      s.combine(x);
      h$at.combine(x + 1);
      $after
    }
  ]]):gsub("%$(%l+)", values))
end
for _, d in ipairs(ones_dims) do
  source[#source + 1] = (([[
    kernel void step$n(item<1> it, inout<int, 1> u, in<unsigned, $n> s) {
      const int i = it[0];
      u(i) = (u(i) * 3 + s($zeros) % 1000 + i) % 65521;
    }
  ]]):gsub("%$(%l+)", { n = d, zeros = ("0, "):rep(d):sub(1, -3) }))
end
source[#source + 1] = [[
    kernel void extremes(item<1> it, in<int, 1> u, reducer<float> s, reducer<float, 1> h, int a,
                         int odd, int e) {
      const int i = it[0];
      const int x = (u(i) * a + i) % 997;
      const float f = x % odd == 0 ? NAN : x;
      s.combine(f);
      h(i % e).combine(f);
    }
    kernel void own(item<2> it, in<int, 1> u, reducer<unsigned, 1> h, int a, int far, int e) {
      const int r = it[0], i = it[1], x = (u(i) * a + i + r) % 997;
      h(i).combine(x);
      if (x % 3 == 0) h(i * far % e).combine(r + 1);
    }
]]
local kernels = celer.kernel(table.concat(source))

-- ---- operators ---------------------------------------------------------------

-- Of unsigned numbers, which wrap.
local operators = {
  sum = { identity = 0, combine = function(a, b) return (a + b) % 2 ^ 32 end },
  max = { identity = 0, combine = math.max },
  min = { identity = 2 ^ 32 - 1, combine = math.min },
  ["or"] = { identity = 0, combine = function(a, b) return bit.bor(a, b) % 2 ^ 32 end },
  custom = { identity = 0, combine = function(a, b) return bit.bxor(a, b) % 2 ^ 32 end,
    by = { combine = "a ^ b", identity = 0 } },
}
-- Of floating-point numbers, of which one may be a NaN.
local extremes = {
  min = { identity = math.huge, less = function(a, b) return b < a or b ~= b end },
  max = { identity = -math.huge, less = function(a, b) return a < b or b ~= b end },
}
-- Of the two results of a kernel, by its dimensions: each pair is compiled anew.
local pairs_of = { [0] = { "sum", "custom" }, { "max", "sum" }, { "min", "or" },
  { "custom", "max" } }

-- ---- what there is -----------------------------------------------------------

local function volume(size) return (size[1] or 1) * (size[2] or 1) * (size[3] or 1) end

local function each_point(size, f)
  for i = 0, (size[1] or 1) - 1 do
    for j = 0, (size[2] or 1) - 1 do
      for k = 0, (size[3] or 1) - 1 do
        f((i * (size[2] or 1) + j) * (size[3] or 1) + k, i, j, k)
      end
    end
  end
end

local function element(view, dims, i, j, k)
  if dims == 0 then return view() elseif dims == 1 then return view(i)
  elseif dims == 2 then return view(i, j) end
  return view(i, j, k)
end

-- A buffer to reduce into, with what it holds.
local function fresh_result(most, type_, dims, length)
  local size = {}
  dims = dims or most == 1 and one_of(ones_dims) or random(4)
  for d = 1, dims do size[d] = length or most == 1 and 1 or between(1, most) end
  local one = { size = size, dims = dims, held = {}, init = random(100) }
  one.buffer = celer.buffer(type_ or "unsigned", size,
    { init = one.init, name = "r" .. program.made })
  program.made = program.made + 1
  for i = 0, volume(size) - 1 do one.held[i] = one.init end
  return one
end

-- The last task tells it how many there were.
local function object_ends(o)
  if o.count ~= o.wanted then
    error(("ends after %d tasks of %s"):format(o.count, tostring(o.wanted)))
  end
end

-- A host object, and what it is on this rank: a table, or plain memory.
local function fresh_object()
  local one = { plain = chance(60), fold = 0, alone = 0, sum = 0, count = 0,
    name = "o" .. program.made, touched = false, tasks = {} }
  program.made = program.made + 1
  for k = 0, ranks - 1 do one.tasks[k] = 0 end
  local made = one.plain
    and "struct { int64_t fold, alone, sum; int32_t count, wanted, strict, relaxed; }"
    or function() return { fold = 0, alone = 0, sum = 0, count = 0 } end
  one.object = celer.host_object(made, { name = one.name, destructor = object_ends })
  return one
end

local function fresh_array()
  local n, salt = between(1, 40), random(1000)
  local one = { n = n, held = {} }
  one.buffer = celer.buffer("int", n, { name = "u", init = function(i)
    return (i * 17 + salt) % 65521
  end })
  for i = 0, n - 1 do one.held[i] = (i * 17 + salt) % MOST end
  return one
end

-- ---- hints -------------------------------------------------------------------

-- And whether each rank has a chunk of so many items for each rank.
local function weights()
  if ranks == 1 or chance(60) then return nil end
  local list, some = {}, false
  for k = 1, ranks do
    list[k] = one_of { 0, 1, 1, 2, 3 }
    some = some or list[k] > 0
  end
  if not some then list[between(1, ranks)] = 1 end
  note "weights"
  return list
end

-- Of a box of what tasks at single ranks have written: the rank that has most of it, the
-- lowest of several.
local function owner_of(lo, hi)
  local owned, most = {}, 0
  for i = lo, hi - 1 do
    local k = program.spots.owner[i]
    if k then owned[k] = (owned[k] or 0) + 1 end
  end
  for k = 0, ranks - 1 do
    if (owned[k] or 0) > (owned[most] or 0) then most = k end
  end
  return most
end

-- One rank, in one of the ways to say it, and which it is.
local function somewhere()
  local way = random(6)
  if way == 0 then return celer.on_master, 0 end
  local spots = program.spots
  if way < 3 then
    note "at"
    local k = random(ranks)
    return celer.at(k), k
  end
  note "where"
  local lo = random(spots.n)
  local hi = between(lo + 1, spots.n)
  local home = owner_of(lo, hi)
  if home > 0 then note "where, not at rank 0" end
  return celer.where(spots.buffer, celer.box({ lo }, { hi })), home
end

local function split_of(cg)
  if chance(20) then
    note "place"
    cg:hint { place = somewhere() }
    return
  end
  local hints = { weights = weights() }
  if chance(20) then hints.granularity = between(2, 4) end
  if chance(25) then hints.oversubscribe = between(2, 3) end
  cg:hint(hints)
end

-- ---- reductions --------------------------------------------------------------

local doings = {}

local function begin(result, by, onto)
  if onto then return end
  for i = 0, volume(result.size) - 1 do result.held[i] = operators[by].identity end
end

local function take_in(result, by, at, x)
  result.held[at] = operators[by].combine(result.held[at], x)
end

local function index_of(size, i)
  local d = #size
  local a, b, c = size[1] or 1, size[2] or 1, size[3] or 1
  local at = { d > 0 and i % a or 0, d > 1 and math.floor(i / a) % b or 0,
    d > 2 and math.floor(i / 3) % c or 0 }
  return (at[1] * b + at[2]) * c + at[3]
end

-- The least of all, and the greatest of some, or the other way round.
function doings.extremes()
  local u, s, h = program.u, program.extremes[1], program.extremes[2]
  local by, of, onto, also = "min", "max", chance(50), chance(50)
  if chance(50) then by, of = of, by end
  local a, odd, lo = between(1, 9), one_of { 7, 40, 997, 1000 }, random(u.n)
  local hi = chance(50) and u.n or between(lo, u.n)
  q:submit(function(cg)
    split_of(cg)
    local read = cg:read(u.buffer)
    local into = cg:reduce(s.buffer, by, { include_current = onto })
    cg:parallel_for(celer.box({ lo }, { hi }), kernels.extremes, read, into,
      cg:reduce(h.buffer, of, { include_current = also }), a, odd, h.size[1])
  end)
  for _, one in ipairs { { s, by, onto }, { h, of, also } } do
    local held, with = one[1].held, extremes[one[2]]
    for at = 0, one[3] and -1 or volume(one[1].size) - 1 do held[at] = with.identity end
    for i = lo, hi - 1 do
      local x, at = (u.held[i] * a + i) % 997, one[1] == s and 0 or i % h.size[1]
      x = x % odd == 0 and 0 / 0 or x
      if x ~= x then note "NaN" end
      if with.less(held[at], x) then held[at] = x end
    end
  end
  wrote("%s and %s of [%d, %d), NaNs at multiples of %d", by, of, lo, hi, odd)
end

-- Each item comes to the element at its own coordinate, and some to another.
function doings.own()
  local u, h = program.u, program.long
  local by, onto, rows = one_of { "sum", "max" }, chance(50), between(1, 3)
  local a, far, lo = between(1, 9), between(1, 30), random(u.n)
  note(rows == 1 and "own elements" or "own elements in rows")
  q:submit(function(cg)
    split_of(cg)
    local read = cg:read(u.buffer, function(chunk)
      return celer.box({ chunk.min[1] }, { chunk.max[1] })
    end)
    cg:parallel_for(celer.box({ 0, lo }, { rows, u.n }), kernels.own, read,
      cg:reduce(h.buffer, by, { include_current = onto }), a, far, h.size[1])
  end)
  begin(h, by, onto)
  for r = 0, rows - 1 do
    for i = lo, u.n - 1 do
      local x = (u.held[i] * a + i + r) % 997
      take_in(h, by, i, x)
      if x % 3 == 0 then take_in(h, by, i * far % h.size[1], r + 1) end
    end
  end
  wrote("own elements of %d x [%d, %d) by %s into %s", rows, lo, u.n, by, h.buffer.name)
end

function doings.reduce()
  local u, s, h = program.u, one_of(program.ones), one_of(program.arrays)
  local by, of, onto, also = pairs_of[h.dims][1], pairs_of[h.dims][2], chance(50), chance(50)
  local a, g, form = between(1, 9), between(2, 4), forms[h.dims]
  if form == "tile" then g = TILE end
  local lo, hi = random(u.n), u.n
  if form ~= "item" then lo, hi = 0, math.floor(u.n / g) * g
  elseif chance(50) then hi = between(lo, u.n) end
  local range = form == "group" and celer.nd_range({ hi }, { g }) or form == "tile" and { hi }
    or celer.box({ lo }, { hi })
  note(form .. " reduction")
  note(hi == lo and "of nothing" or "of items")
  if onto or also then note "include_current" end
  q:submit(function(cg)
    if form == "item" then split_of(cg) end
    local read = cg:read(u.buffer)
    local into = cg:reduce(s.buffer, operators[by].by or by, { include_current = onto })
    local other = cg:reduce(h.buffer, operators[of].by or of, { include_current = also })
    cg:parallel_for(range, kernels["reduce" .. h.dims], read, into, other, a, h.size[1] or 1,
      h.size[2] or 1, h.size[3] or 1)
  end)
  begin(s, by, onto)
  begin(h, of, also)
  for i = lo, hi - 1 do
    local x = (u.held[i] * a + i) % 997
    take_in(s, by, 0, x)
    take_in(h, of, index_of(h.size, i), x + 1)
  end
  wrote("reduce [%d, %d) by %s into %s, by %s into %s", lo, hi, by, s.buffer.name, of,
    h.buffer.name)
end

-- By what a reduction came to.
function doings.step()
  local u, s = program.u, one_of(program.ones)
  note "step"
  q:submit(function(cg)
    split_of(cg)
    cg:parallel_for({ u.n }, kernels["step" .. s.dims], cg:read_write(u.buffer),
      cg:read(s.buffer, celer.all))
  end)
  local by = s.held[0] % 1000
  for i = 0, u.n - 1 do u.held[i] = (u.held[i] * 3 + by + i) % MOST end
  wrote("step by %s", s.buffer.name)
end

-- ---- host tasks with effects -------------------------------------------------

-- What a task does to an object: also to its model.
local function change(o, order, salt, atomic)
  if atomic then o:add("count", 1) else o.count = o.count + 1 end
  if order == "sequential" then
    o.fold = (o.fold * 31 + salt + tonumber(o.alone) + tonumber(o.sum)) % 65521
  elseif order == "exclusive" then
    o.alone = o.alone + salt
  elseif atomic then
    o:add("sum", salt)
  else
    o.sum = o.sum + salt
  end
end

-- Who is inside of plain memory, which several may be that are relaxed.
local function enter(o, order)
  local strict = order ~= "relaxed"
  local others = o:add(strict and "strict" or "relaxed", 1)
  if (strict and others > 0) or o:load(strict and "relaxed" or "strict") > 0 then
    error("others are at the object")
  end
end

local function leave(o, order) o:add(order == "relaxed" and "relaxed" or "strict", -1) end

-- The body of all host tasks: looks at what it reads, and changes what it touches.
local function body(part, task, u, s, ...)
  local objects, sum = { ... }, 0
  if task.home and part.rank ~= task.home then
    error(("at rank %d, not %d"):format(part.rank, task.home))
  end
  for i, order in ipairs(task.orders) do
    if task.plain[i] then enter(objects[i], order) end
  end
  for i = u.min[0], u.max[0] - 1 do sum = (sum + u[i] * (i + 1)) % 65521 end
  if sum ~= task.sum then error(("u sums up to %d, not %d"):format(sum, task.sum)) end
  local value = s(unpack({ 0, 0, 0 }, 1, task.dims))
  if value ~= task.value then error(("the result is %d, not %d"):format(value, task.value)) end
  local all = task.together and part.comm:all_gather(part.rank * task.salt)
  for k = 0, all and part.ranks - 1 or -1 do
    if all[k] ~= k * task.salt then error("rank " .. k .. " said " .. tostring(all[k])) end
  end
  for i, order in ipairs(task.orders) do
    change(objects[i], order, task.salt, task.plain[i])
    if task.plain[i] then leave(objects[i], order) end
  end
end

local function checksum(u)
  local sum = 0
  for i = 0, u.n - 1 do sum = (sum + u.held[i] * (i + 1)) % MOST end
  return sum
end

-- All of the buffer, in ways that a user may say it.
local function whole_of(n, has_items)
  local what = random(has_items and 3 or 2)
  if what == 0 then return celer.all end
  if what == 1 then return celer.fixed(celer.box({ 0 }, { n })) end
  note "opaque"
  return function(chunk, buffer)
    if chunk.min[0] >= 0 then return celer.box({ 0 }, { buffer.size[0] }) end
    return celer.box({ 0 }, { 0 })
  end
end

local function some_objects(together)
  local list = {}
  for _, o in ipairs(program.objects) do
    if chance(50) and (o.plain or not together) then list[#list + 1] = o end
  end
  return list
end

-- A part of the spots moves to a rank.
function doings.settle()
  local spots, k = program.spots, random(ranks)
  local lo = random(spots.n)
  local hi = between(lo + 1, spots.n)
  q:submit(function(cg)
    cg:host_task(celer.at(k), function(part, view, wanted)
      if part.rank ~= wanted then error(("at rank %d, not %d"):format(part.rank, wanted)) end
      for i = view.min[0], view.max[0] - 1 do view[i] = wanted end
    end, cg:discard_write(spots.buffer, celer.fixed(celer.box({ lo }, { hi }))), k)
  end)
  for i = lo, hi - 1 do spots.owner[i] = k end
  wrote("spots %d to %d go to rank %d", lo, hi - 1, k)
end

-- Where a task runs, on which ranks, by which weights; or the one rank that it runs at.
local function place_of(together)
  if together then
    note "collective"
    return celer.collective(one_of { "a", "b", "c" }), function() return true end
  end
  if chance(30) then
    local where, home = somewhere()
    return where, function(k) return k == home end, nil, home
  end
  local by = weights()
  return { 12 * ranks }, function(k) return not by or by[k + 1] > 0 end, by
end

function doings.touch()
  local u, s, together = program.u, one_of(program.ones), chance(35)
  local objects = some_objects(together)
  local where, has, by, home = place_of(together)
  local task = { sum = checksum(u), value = s.held[0], dims = s.dims, salt = between(1, 999),
    orders = {}, plain = {}, together = together, home = home }
  for i, o in ipairs(objects) do
    task.orders[i] = one_of { "sequential", "exclusive", "exclusive", "relaxed", "relaxed" }
    task.plain[i] = o.plain
    note(task.orders[i])
    if together then note(task.orders[i] .. ", collective") end
  end
  q:submit(function(cg)
    cg:hint { weights = by }
    cg:name("task " .. #log)
    local effects = {}
    for i, o in ipairs(objects) do effects[i] = cg:side_effect(o.object, task.orders[i]) end
    cg:host_task(where, body, task, cg:read(u.buffer, whole_of(u.n, not home)),
      cg:read(s.buffer, celer.all), unpack(effects))
  end)
  for i, o in ipairs(objects) do
    for k = 0, ranks - 1 do o.tasks[k] = o.tasks[k] + (has(k) and 1 or 0) end
    if has(rank) then
      o.touched = true
      change(o, task.orders[i], task.salt)
    end
  end
  wrote("%s touches %d objects (%s)", together and "collective task" or "host task", #objects,
    table.concat(task.orders, ", "))
end

-- Rows are written by tasks of all ranks, and of those of no weight by none.
function doings.rows()
  local u, salt = program.u, random(1000)
  local where, by = { 12 * ranks }, weights()
  note "even_split"
  if chance(50) then where, by = celer.collective "a", nil end
  q:submit(function(cg)
    cg:hint { weights = by }
    cg:host_task(where, function(_, out, add)
      for i = out.min[0], out.max[0] - 1 do out[i] = (i * 7 + add) % 65521 end
    end, cg:discard_write(u.buffer, celer.even_split), salt)
  end)
  for i = 0, u.n - 1 do u.held[i] = (i * 7 + salt) % MOST end
  wrote "rows of u"
end

-- ---- what tasks capture ------------------------------------------------------

-- Two functions of one variable, and one that sets it.
local function pair_of(n)
  local function add(x)
    n = (n * 3 + x) % 997
    return n
  end
  return add, function() return n end, function(x) n = x end
end

local function kind_of(x) return type(x) == "function" and "f" .. x() or tostring(x) end

-- A function made as `c` says, which changes what it captured, and one that spoils that.
-- Of the same code there are some that share a variable and some that do not.
local function closure_of(c)
  local add, look, set = pair_of(c.a)
  local also = set
  if not c.shares then
    local _
    _, look, also = pair_of(c.b)
  end
  local number, odd, list = c.b, c.odd, c.list and { c.a, { c.b } }
  local function down(k) return k <= 0 and number or 1 + down(k - 2) end
  local helper = c.deep and function(x) return add(x) * 2 + look() end or add
  captured_global = c.global -- luacheck: ignore
  return function(x)
    local function inner(y)
      number = number + y
      return number
    end
    local sum = helper(x) * 7 + look() + inner(x) * 5 + down(x)
    if list then
      list[2][1] = list[2][1] + sum
      sum = sum + list[1] + list[2][1]
    end
    sum = sum + (captured_global or 13) -- luacheck: ignore
    captured_global = 1000 -- luacheck: ignore
    return sum .. kind_of(odd)
  end, function(x)
    set(x)
    also(x + 1)
    number, odd = x, "spoilt"
    if list then list[2][1] = x end
    captured_global = nil -- luacheck: ignore
  end
end

local function closure_task(work, x, wanted)
  return function(part, again)
    local got = work(x) .. " " .. work(again)
    if got ~= wanted then
      error(("%s at rank %d, not %s"):format(got, part.rank, wanted))
    end
  end
end

local function odd_of(n)
  return one_of { n, n + 0.5, "text" .. n, n % 2 == 0, false, function() return n end }
end

function doings.closures()
  local c = { a = random(900), b = random(900), shares = chance(50), deep = chance(50),
    list = chance(30), global = not chance(30) and random(100) or nil }
  if chance(80) then c.odd = odd_of(random(100)) end
  local x, again, spoilt = random(9), random(9), random(900)
  local work, spoil = closure_of(c)
  note "closures"
  note(c.shares and "shared variable" or "variables apart")
  for time = 1, between(1, 4) do
    if time == 3 then spoil(spoilt) end
    local global = captured_global -- luacheck: ignore
    local twin, spoil_twin = closure_of(c)
    if time >= 3 then spoil_twin(spoilt) end
    captured_global = global -- luacheck: ignore
    local wanted = twin(x) .. " " .. twin(again)
    captured_global = global -- luacheck: ignore
    q:submit(function(cg)
      local task = closure_task(work, x, wanted)
      cg:host_task(one_of { celer.on_master, { 2 * ranks }, celer.collective "a" }, task, again)
    end)
  end
  spoil(0)
  wrote("closures of %d and %d: %s", c.a, c.b, kind_of(c.odd))
end

-- ---- what all ranks share ----------------------------------------------------

local function append(part, path, number)
  local file = assert(io.open(path, "a"))
  for i = part.min[0], part.max[0] - 1 do file:write(number, ".", i, " ") end
  file:close()
end

local function compare_file(_, path, text)
  local file = io.open(path)
  local got = file and file:read("*a") or ""
  if file then file:close() end
  if got ~= text then error(("the file holds %q, not %q"):format(got, text)) end
end

-- All ranks append to a file; some look.
function doings.share()
  local shared, number, n = program.shared, #log, between(1, 2 * ranks)
  local looks, order = chance(40), one_of { "sequential", "exclusive" }
  local by = weights()
  note(looks and "relaxed, cluster" or order .. ", cluster")
  q:submit(function(cg)
    cg:hint { weights = by }
    if looks then
      cg:host_task({ n }, compare_file, cg:side_effect(shared.object, "relaxed"), shared.text)
    else
      cg:host_task({ n }, append, cg:side_effect(shared.object, order), number)
    end
  end)
  for i = 0, looks and -1 or n - 1 do shared.text = shared.text .. number .. "." .. i .. " " end
  wrote("%s the file, %d items", looks and "look at" or "append to", n)
end

-- ---- captures ----------------------------------------------------------------

local function copy(held)
  local out = {}
  for i, x in pairs(held) do out[i] = x end
  return out
end

-- A list of captures, and a function that looks at what each brought.
local captures = {}

function captures.result()
  local one = chance(20) and program.long
    or one_of(chance(50) and program.ones or program.arrays)
  local held = copy(one.held)
  return celer.capture(one.buffer), function(s)
    each_point(one.size, function(at, i, j, k)
      same(one.buffer.name .. " at " .. at, element(s, one.dims, i, j, k), held[at])
    end)
  end
end

function captures.extremes()
  local one = one_of(program.extremes)
  local held = copy(one.held)
  return celer.capture(one.buffer), function(s)
    each_point(one.size, function(at, i, j, k)
      local got = element(s, one.dims, i, j, k)
      if got == got or held[at] == held[at] then
        same(one.buffer.name .. " at " .. at, got, held[at])
      end
    end)
  end
end

function captures.array()
  local u = program.u
  local held, lo = copy(u.held), random(u.n)
  local hi = between(lo, u.n)
  return celer.capture(u.buffer, celer.box({ lo }, { hi })), function(s)
    for i = lo, hi - 1 do same("u at " .. i, s[i], held[i]) end
  end
end

-- Another part on each rank, for some nothing.
function captures.divided()
  local u, few = program.u, chance(40)
  local held, n = copy(u.held), u.n
  note "divided capture"
  return celer.capture(u.buffer, function(k, all)
    local last = few and celer.max(0, celer.min(n, n - n * k)) or celer.floor(n * (k + 1) / all)
    return celer.box({ few and 0 or celer.floor(n * k / all) }, { last })
  end), function(s)
    local here = s:here()
    local size = math.floor(n * (rank + 1) / ranks) - math.floor(n * rank / ranks)
    same("elements of a part", here.size[0], few and (rank == 0 and n or 0) or size)
    for i = here.min[0], here.max[0] - 1 do same("part of u at " .. i, here[i], held[i]) end
  end
end

function captures.object()
  local o = one_of(program.objects)
  local was = { fold = o.fold, alone = o.alone, sum = o.sum, touched = o.touched }
  note(o.plain and "capture of memory" or "capture of an object")
  local function parts(x) return { fold = x.fold, alone = x.alone, sum = x.sum } end
  local what = not o.plain and parts or nil
  return celer.capture(o.object, what), function(s)
    local here = s:here()
    if not o.plain then same(o.name .. " is there", here ~= nil, was.touched) end
    if not here then return end
    for _, field in ipairs { "fold", "alone", "sum" } do
      same(o.name .. "." .. field, tonumber(here[field]), was[field])
    end
  end
end

local kinds = { "result", "result", "extremes", "array", "divided", "object", "object" }

-- `how` is "wait", "drain" or "fence".
local function look(n, how)
  local wanted, checks = {}, {}
  for i = 1, n do wanted[i], checks[i] = captures[one_of(kinds)]() end
  if n > 1 then note "several captures" end
  wrote("%s of %d", how, n)
  note(how)
  if how ~= "fence" then
    local got = { q[how](q, unpack(wanted)) }
    for i = 1, n do checks[i](got[i]) end
  else
    program.fences[#program.fences + 1] = { future = q:fence(unpack(wanted)), checks = checks }
  end
end

local function compare(fence)
  local got = { fence.future:get() }
  for i, check in ipairs(fence.checks) do check(got[i]) end
end

function doings.fence()
  look(between(1, 3), "fence")
  -- As a loop does that ends when it has converged.
  if chance(50) and #program.fences > 3 then compare(table.remove(program.fences, 1)) end
end

function doings.wait() look(between(0, 3), "wait") end

-- ---- ends --------------------------------------------------------------------

-- Relaxed, as what comes last: those before it are still at the object. It may be left to
-- the script's end.
local function end_object(o, left)
  q:submit(function(cg)
    cg:host_task({ ranks }, function(part, x, wanted) x.wanted = wanted[part.rank] end,
      cg:side_effect(o.object, "relaxed"), o.tasks)
  end)
  o.touched = true
  if not left then o.object:free() end
end

function doings.replace()
  local i = between(1, #program.objects)
  if chance(50) then
    note "object freed"
    wrote("free %s", program.objects[i].name)
    end_object(program.objects[i])
    program.objects[i] = fresh_object()
  else
    note "result freed"
    local list = chance(50) and program.ones or program.arrays
    i = between(1, #list)
    wrote("free %s", list[i].buffer.name)
    list[i].buffer:free()
    list[i] = fresh_result(list == program.ones and 1 or 3)
  end
end

-- ---- programs ----------------------------------------------------------------

local words = { "reduce", "reduce", "reduce", "own", "own", "extremes", "step", "step",
  "touch", "touch", "touch", "touch", "closures", "closures", "closures", "rows", "share",
  "settle", "settle", "fence", "fence", "wait", "replace" }

local function begin_program(seed)
  dice.begin(seed)
  log = {}
  program = { seed = seed, made = 0, fences = {}, ones = {}, arrays = {}, objects = {} }
  program.u = fresh_array()
  program.spots = { n = 8, owner = {}, buffer = celer.buffer("int", 8, { name = "spots" }) }
  for i = 1, 2 do program.ones[i] = fresh_result(1) end
  for i = 1, 2 do program.arrays[i] = fresh_result(3) end
  program.extremes = { fresh_result(1, "float", 0), fresh_result(5, "float", 1) }
  program.long = fresh_result(nil, nil, 1, program.u.n + random(9))
  for i = 1, between(1, 3) do program.objects[i] = fresh_object() end
  local path = ("%s/shared%d"):format(folder, seed)
  program.shared = { text = "", object = celer.host_object(function() return path end,
    { name = "shared", scope = "cluster" }) }
end

local function end_program()
  for _ = 1, 3 do look(3, "fence") end
  for _, fence in ipairs(program.fences) do compare(fence) end
  q:submit(function(cg)
    cg:host_task(celer.on_master, function(_, path) os.remove(path) end,
      cg:side_effect(program.shared.object))
  end)
  program.shared.object:free()
  local last = program.seed == first + count - 1
  for _, o in ipairs(program.objects) do end_object(o, last) end
  if last then look(4, "drain") end
end

for seed = first, first + count - 1 do
  begin_program(seed)
  for _ = 1, steps do doings[one_of(words)]() end
  end_program()
end
local said = {}
for what, times in celer.sorted_pairs(seen) do said[#said + 1] = what .. " " .. times end
print(("%d programs of the model: %s"):format(count, table.concat(said, "; ")))
