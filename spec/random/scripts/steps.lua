--- steps.lua -- random loops of steps, each submitted in several ways beside plain Lua tables.
---
---   celer run --advice off spec/random/scripts/steps.lua SEED COUNT [STEPS]
---
--- A step is what a user writes in a loop: a kernel, from a buffer to another one, by closures of
--- one form. What changes from step to step are buffers, numbers that are captured or passed, the
--- range and helpers; each form has its own way to take them. Some read fields of buffers, kernels
--- and libraries, which change between steps, or functions that are replaced. One side submits by
--- q:submit, with every function run; one by a function of q:group; one by q:submit as it is, of
--- forms without arguments also with closures made anew; one by calls of the kernel. Between them
--- kernels written in Lua reduce the buffers of one side. All hold what the tables hold. Says at
--- the end how often what occurred; or the seed that fails, and its steps.
local again = require "celer.submit.again"
local celer = require "celer"
local dice = require "chance"
local groups = require "celer.submit.prepared"
local recalled = require "celer.submit.recalled"
local rules = require "celer.mapper.rules"
local q = celer.queue()

local first, count = tonumber(arg[1]), tonumber(arg[2])
local steps = tonumber(arg[3]) or 40
local random, between, chance, one_of = dice.random, dice.between, dice.chance, dice.one_of
local N, MOST = 24, 65521

local seen, log = {}, {}
local function note(what) seen[what] = (seen[what] or 0) + 1 end

-- Counts what goes the short ways.
local by_set = groups.submit
function groups.submit(...)
  local is_prepared = by_set(...)
  if is_prepared then note "prepared" end
  return is_prepared
end
local by_code = recalled.submit
function recalled.submit(...)
  local is_known = by_code(...)
  if is_known then note "recalled" end
  return is_known
end
local by_road = again.submit
function again.submit(...)
  local is_known = by_road(...)
  if is_known then note "reduced again" end
  return is_known
end
local bind = rules.bind
function rules.bind(...) note "long way"; return bind(...) end

local kernel = celer.kernel [[
  kernel void step(item<1> it, in<int, 1> from, inout<int, 1> to, int reach, int n) {
    const int last = 23;
    int sum = to(it[0]) * 3 + n;
    for (int i = max(it[0] - reach, 0); i <= min(it[0] + reach, last); ++i) sum += from(i);
    to(it[0]) = sum % 65521;
  }
]]

-- ---- forms -------------------------------------------------------------------

-- Each gives a function of a command group, one that sets what it captures, and one that
-- gives its arguments. A step `s` has from, to, reach, n, lo and hi, and `luck`: numbers below
-- 100 for what a form chooses itself. All sides set the same, one after the other.
local forms = {}

function forms.arguments()
  local reach, lo, hi = 0, 0, 0
  return function(cg, from, to, n)
    local r = cg:read(from, function(chunk) return chunk:grow(reach) end)
    cg:parallel_for(celer.box({ lo }, { hi }), kernel, r, cg:read_write(to), reach, n)
  end, function(s) reach, lo, hi = s.reach, s.lo, s.hi end,
    function(s) return s.from, s.to, s.n end
end

function forms.captured()
  local from, to, reach, n, lo, hi
  return function(cg)
    local w = cg:read_write(to)
    local r = cg:read(from, function(chunk)
      return celer.box({ chunk.min[0] - reach }, { chunk.max[0] + reach }):clamped()
    end)
    cg:parallel_for(celer.box({ lo }, { hi }), kernel, r, w, reach, n)
  end, function(s) from, to, reach, n, lo, hi = s.from, s.to, s.reach, s.n, s.lo, s.hi end,
    function() end
end

function forms.helper()
  local reach, lo, hi = 0, 0, 0
  return function(cg, to, from, n)
    local function by(x) return x + reach end
    local function twice(chunk) return chunk:grow(by(1) - 1) end
    local r = cg:read(from, function(chunk) return twice(chunk) end)
    cg:parallel_for(celer.box({ lo }, { hi }), kernel, r, cg:read_write(to), reach, n)
  end, function(s) reach, lo, hi = s.reach, s.lo, s.hi end,
    function(s) return s.to, s.from, s.n end
end

function forms.maker()
  local hi = 0
  return function(cg, from, to, reach, n)
    cg:name "made"
    cg:parallel_for({ hi }, kernel, cg:read(from, celer.neighborhood(9)), cg:read_write(to),
      reach, n)
  end, function(s) s.lo, hi = 0, s.hi end,
    function(s) return s.from, s.to, s.reach, s.n end
end

function forms.outer()
  local map, reach -- kept, as users hoist mappers
  local range = { 1 }
  return function(cg, from, to, by, n)
    cg:hint { oversubscribe = 2 }
    cg:parallel_for(range, kernel, cg:read(from, map), cg:read_write(to), by, n)
  end, function(s)
    if s.reach ~= reach or chance(20) then
      reach = s.reach
      local mine = reach
      map = function(chunk) return chunk:grow(mine) end
    end
    s.lo, range[1] = 0, s.hi
  end, function(s) return s.from, s.to, s.reach, s.n end
end

-- What a prepared group must not go by: a table, a sum, a lookup, a condition.
function forms.state()
  local state = {}
  return function(cg)
    local reach = state.reach
    local r = cg:read(state.from, function(chunk) return chunk:grow(reach) end)
    cg:parallel_for({ state.hi }, kernel, r, cg:read_write(state.to), reach, state.n)
  end, function(s)
    s.lo = 0
    for key, value in celer.sorted_pairs(s) do state[key] = value end
  end, function() end
end

function forms.sum()
  local lo, hi = 0, 0
  return function(cg, from, to, reach, n)
    local r = cg:read(from, function(chunk) return chunk:grow(reach) end)
    cg:parallel_for(celer.box({ lo }, { hi }), kernel, r, cg:read_write(to), reach, n + 0)
  end, function(s) lo, hi = s.lo, s.hi end,
    function(s) return s.from, s.to, s.reach, s.n end
end

-- A mapper that takes another course for one number and for one range.
function forms.special()
  local kind, reach, lo, hi = 0, 0, 0, 0
  local rawequal = rawequal
  return function(cg, from, to, n)
    local r = cg:read(from, function(chunk)
      if rawequal(kind, 3) then return chunk:grow(3) end
      return rawequal(chunk.global[0], N) and chunk:grow(2) or chunk:grow(1)
    end)
    cg:parallel_for(celer.box({ lo }, { hi }), kernel, r, cg:read_write(to), reach, n)
  end, function(s)
    kind = s.reach == 3 and 3 or 0
    if kind ~= 3 then s.reach = math.min(s.reach, s.hi - s.lo == N and 2 or 1) end
    reach, lo, hi = s.reach, s.lo, s.hi
  end, function(s) return s.from, s.to, s.n end
end

-- Fields that a user gives to buffers: the reach to the source, numbers to the target.
function forms.fields()
  local from, to
  return function(cg)
    local u, value = to, 0
    if u.n then value = u.n end
    local reach = from.reach
    cg:parallel_for(u.part, kernel, cg:read(from, function(chunk) return chunk:grow(reach) end),
      cg:read_write(u), reach, value)
  end, function(s)
    from, to = s.from, s.to
    if s.luck[1] < 30 then s.n = 0 end
    from.reach, to.n, s.lo = s.reach, s.n > 0 and s.n, 0
    if s.luck[2] < 50 or not rawget(to, "part") then to.part = {} end
    to.part[1] = s.hi
  end, function() end
end

-- Fields of celer, of math and of the kernel, and functions of these that are replaced.
function forms.libraries()
  local math = rawget(_G, "math")
  return function(cg, from, to)
    local value = math.given_n
    if celer.adds then value = celer.adds(value) end
    cg:parallel_for(celer.box({ celer.lo }, { kernel.hi }), kernel,
      cg:read(from, celer.around(math.reach_of(celer.reach))), cg:read_write(to), celer.reach,
      value)
  end, function(s)
    local adds = s.luck[1] < 30
    celer.lo, celer.reach, celer.adds = s.lo, s.reach, adds and function(n) return n + 1 end
    math.given_n, kernel.hi = s.given_n, s.hi
    s.n = adds and s.given_n + 1 or s.given_n
    if s.luck[2] < 30 or not rawget(celer, "around") then
      celer.around = s.luck[3] < 50 and celer.neighborhood or function() return celer.all end
      math.reach_of = s.luck[4] < 50 and math.max or function(n) return n end
    end
  end, function(s) return s.from, s.to end
end

-- Arguments that are only tested, which may be false or nil.
function forms.tested()
  local hi, n = 0, 0
  return function(cg, from, to, extra, more)
    local value, range = n, { hi }
    if extra then value = 1 end
    if not more then range = { 12 } end
    cg:parallel_for(range, kernel, cg:read(from, celer.all), cg:read_write(to), 0, value)
  end, function(s)
    s.lo, s.reach, n, hi = 0, 0, s.given_n, s.luck[4] < 50 and 24 or 16
    s.hi, s.n = hi, n
    if s.luck[1] < 80 then s.extra, s.n = 7, 1 elseif s.luck[1] < 90 then s.extra = false end
    if s.luck[2] < 90 then s.more = 0 else s.hi = 12 end
    if s.luck[2] > 95 then s.more = false end
  end, function(s) return s.from, s.to, s.extra, s.more end
end

-- Variables that are only tested.
function forms.flags()
  local flag, other, from, to
  return function(cg)
    local value, range = 1, { 24 }
    if flag == nil then value = 2 elseif flag == false then value = 3 end
    if other then range = { 12 } end
    cg:parallel_for(range, kernel, cg:read(from, celer.all), cg:read_write(to), 0, value)
  end, function(s)
    s.lo, s.hi, s.reach, from, to = 0, 24, 0, s.from, s.to
    flag, other, s.n = true, false, 1
    if s.luck[1] < 33 then flag, s.n = nil, 2 elseif s.luck[1] < 66 then flag, s.n = false, 3 end
    if s.luck[2] < 33 then other = nil elseif s.luck[2] > 66 then other, s.hi = 0, 12 end
  end, function() end
end

-- Variables that are passed on, as a loop has them.
function forms.passed()
  local from, to, reach, n = nil, nil, 0, 0
  return function(cg)
    local r = cg:read(from, celer.neighborhood(9))
    cg:parallel_for({ 24 }, kernel, r, cg:read_write(to), reach, n)
  end, function(s)
    s.lo, s.hi, from, to, reach, n = 0, 24, s.from, s.to, s.reach, s.n
  end, function() end
end

-- The same, which may be no numbers, and of which a helper and a mapper know.
function forms.shared()
  local from, to, reach, n, more = nil, nil, 0, 0, 0
  local function by() return more end
  local function near(chunk) return chunk:grow(reach) end
  return function(cg)
    local value = 5
    if n then value = n end
    local extra = by()
    if extra then value = extra end
    cg:parallel_for({ 24 }, kernel, cg:read(from, near), cg:read_write(to), reach, value)
  end, function(s)
    s.lo, s.hi, from, to, reach = 0, 24, s.from, s.to, s.luck[3] < 50 and 1 or s.reach
    n, more, s.n, s.reach = s.given_n, false, s.given_n, reach
    if s.luck[1] < 10 then n, s.n = nil, 5 elseif s.luck[1] < 20 then n, s.n = false, 5 end
    if s.luck[2] < 10 then more, s.n = s.luck[4], s.luck[4] end
    if s.luck[2] > 90 then more = nil end
  end, function() end
end

-- A function that counts how often it is run.
function forms.counter()
  local hi = 0
  return function(cg, from, to, n)
    local counted = to
    counted.runs = counted.runs + 1
    cg:parallel_for({ hi }, kernel, cg:read(from, celer.all), cg:read_write(to), 0, n)
  end, function(s)
    s.to.runs = rawget(s.to, "runs") or 0
    s.lo, s.reach, hi, s.n = 0, 0, s.hi, s.given_n + s.to.runs
  end, function(s) return s.from, s.to, s.n end
end

-- The same, of what it captured.
function forms.captured_counter()
  local hi, from, to, n = 0, nil, nil, 0
  return function(cg)
    to.runs = to.runs + 1
    cg:parallel_for({ hi }, kernel, cg:read(from, celer.all), cg:read_write(to), 0, n)
  end, function(s)
    from, to = s.from, s.to
    to.runs = rawget(to, "runs") or 0
    s.lo, s.reach, hi, s.n = 0, 0, s.hi, s.given_n + to.runs
    n = s.n
  end, function() end
end

local names = { "arguments", "captured", "helper", "maker", "outer", "state", "sum", "special",
  "fields", "libraries", "tested", "flags", "passed", "shared", "counter", "captured_counter" }
local nullary = { captured = true, state = true, fields = true, flags = true, passed = true,
  shared = true, captured_counter = true }

-- ---- programs ----------------------------------------------------------------

local program -- sides of buffers, what they hold, and what submits

local function fresh(i)
  local salt = random(1000)
  for _, side in ipairs(program.sides) do
    side[i] = celer.buffer("int", { N }, { init = function(k) return (k * 17 + salt) % 65521 end })
  end
  program.held[i] = {}
  for k = 0, N - 1 do program.held[i][k] = (k * 17 + salt) % MOST end
end

-- The loop's functions, for each side of its own.
local function fresh_loop(name)
  local loop = { name = name }
  for i = 1, #program.sides do
    local f, set, arguments = forms[name]()
    loop[i] = { f = f, set = set, arguments = arguments, step = q:group(f) }
  end
  return loop
end

local submits = {} -- by side

function submits.plain(_, way, s)
  recalled.on = false
  way.set(s)
  q:submit(function(cg) way.f(cg, way.arguments(s)) end)
  recalled.on = true
end

function submits.group(loop, way, s)
  local before = seen.prepared
  way.set(s)
  way.step(way.arguments(s))
  if seen.prepared ~= before then note("prepared " .. loop.name) end
end

function submits.recalled(loop, way, s)
  local before = seen.recalled
  if nullary[loop.name] then
    if s.luck[4] % 2 == 0 then way.f, way.set = forms[loop.name]() end
    way.set(s)
    q:submit(way.f)
  else
    way.set(s)
    local f, a, b, c, d = way.f, way.arguments(s)
    q:submit(function(cg) f(cg, a, b, c, d) end)
  end
  if seen.recalled ~= before then note("recalled " .. loop.name) end
end

-- Calls of the kernel itself, with a mapper that is kept, or made anew, or celer's own.
-- Where a function counts its runs, that is run.
local called_by = 0
local function near(chunk) return chunk:grow(called_by) end
local own = celer.clamped(9)
function submits.called(loop, way, s)
  if loop.name:find "counter" then return submits.plain(loop, way, s) end
  local before = seen["reduced again"]
  way.set(s)
  called_by = s.reach
  local reach = s.reach
  local map = s.luck[1] < 40 and near or s.luck[1] < 60 and own
    or function(chunk) return chunk:grow(reach) end
  local range = s.lo > 0 and celer.box({ s.lo }, { s.hi }) or s.luck[2] < 50 and s.hi or { s.hi }
  kernel(range, celer.access(s.from, map), s.to, s.reach, s.n)
  if seen["reduced again"] ~= before then note("called " .. loop.name) end
end

local sides = { submits.plain, submits.group, submits.recalled, submits.called }

local function model(s, from, to)
  local old = program.held[from]
  for i = s.lo, s.hi - 1 do
    local sum = program.held[to][i] * 3 + s.n
    for k = math.max(i - s.reach, 0), math.min(i + s.reach, N - 1) do sum = sum + old[k] end
    program.held[to][i] = sum % MOST
  end
end

local roll = {
  reach = function() return one_of { 0, 1, 2, 3, between(0, 9) } end,
  n = function() return one_of { 1, 2, random(1000) } end,
  lo = function() return one_of { 0, 0, 3, 9, random(12) } end,
  hi = function() return one_of { N, N, 16, between(12, N) } end,
  from = function() return between(1, 3) end,
}
for i = 1, 4 do roll[i] = function() return random(100) end end
local rolled = { "from", "reach", "n", "lo", "hi", 1, 2, 3, 4 }

-- Dice for a step: anew, those of the loop's last step, or of these all but one.
local function rolls_of(loop)
  local rolls, what = loop.rolls or {}, chance(40) and "all" or chance(50) and one_of(rolled)
  for _, one in ipairs(rolled) do
    if what == "all" or what == one or not loop.rolls then rolls[one] = roll[one]() end
  end
  loop.rolls = rolls
  return rolls
end

local function submit(loop)
  local rolls = rolls_of(loop)
  local from, to = rolls.from, rolls.from % #program.held + 1
  local s = { reach = rolls.reach, n = rolls.n, given_n = rolls.n, lo = rolls.lo, hi = rolls.hi,
    luck = rolls }
  for i, way in ipairs(loop) do
    s.from, s.to = program.sides[i][from], program.sides[i][to]
    sides[i](loop, way, s)
  end
  model(s, from, to)
  log[#log + 1] = ("%s: %d to %d, reach %d, n %d, [%d, %d)"):format(loop.name, from, to, s.reach,
    s.n, s.lo, s.hi)
  note(loop.name)
end

-- ---- reductions ----------------------------------------------------------------

local factor, bound, shift, flag = 1, N, 0, true -- captured, the third one by a mapper
local reducers = {
  celer.kernel(function(i, from, total)
    if i < bound then total:add(from[math.min(i + shift, N - 1)] * factor + (flag and 1 or 0)) end
  end),
  celer.kernel(function(i, from, total, more)
    if i < bound then
      total:combine(from[math.max(i - shift, 0)] * factor + more + (flag and 1 or 0))
    end
  end),
}

-- Leaves each rank with nothing but its own part of a buffer.
local turn = celer.kernel(function(i, held) held[i] = (held[i] * 3 + 1) % 65521 end)
local function turn_over(from)
  for _, side in ipairs(program.sides) do turn({ N }, side[from]) end
  local held = program.held[from]
  for i = 0, N - 1 do held[i] = (held[i] * 3 + 1) % 65521 end
end

local spread = 0
local function around(chunk) return chunk:grow(spread) end -- also where the shift is another one

local onto = { include_current = true }
local ways = { { "sum" }, { "max" }, { "min" }, { "sum", {} }, { "sum", onto }, { "max", onto },
  { "min", onto } }
local combine = { sum = function(a, b) return a + b end, max = math.max, min = math.min }
local identity = { sum = 0, max = -math.huge, min = math.huge } -- an item always adds

local roll_of_reduction = {
  from = roll.from, to = function() return between(1, 2) end,
  factor = function() return one_of { 0, 1, -1, 2 } end, more = function() return random(5) end,
  bound = function() return one_of { N, 7, random(N) } end, hi = roll.hi,
  lo = function() return one_of { 0, 0, random(9) } end, shift = function() return random(4) end,
  way = function() return between(1, #ways) end, flag = function() return chance(50) end,
  kernel = function() return between(1, 2) end, mapped = function() return chance(50) end,
}
local rolled_of_reduction = { "from", "to", "factor", "more", "bound", "hi", "lo", "shift", "shift",
  "way", "way", "way", "flag", "kernel", "mapped" }

local function reduce_by(s)
  local op, options = unpack(ways[s.way])
  if s.kernel == 1 then op = "sum" end
  factor, bound, shift, flag = s.factor, math.max(s.bound, s.lo + 1), s.shift, s.flag
  local to, more = celer.reduce(program.totals[s.to], op, options), s.kernel == 2 and s.more or nil
  local range = s.lo == 0 and { s.hi } or celer.box({ s.lo }, { s.hi })
  spread = s.shift
  if chance(30) then turn_over(s.from) end
  local from = program.sides[1][s.from]
  q:parallel_for(range, reducers[s.kernel], s.mapped and celer.access(from, around) or from, to,
    unpack { more })
  if s.mapped then note "around" end
  local sum, held = options and options.include_current and program.held_totals[s.to]
    or identity[op], program.held[s.from]
  for i = s.lo, math.min(s.hi, bound) - 1 do
    local at = s.kernel == 1 and math.min(i + s.shift, N - 1) or math.max(i - s.shift, 0)
    sum = combine[op](sum, held[at] * s.factor + (more or 0) + (s.flag and 1 or 0))
  end
  program.held_totals[s.to] = sum
  log[#log + 1] = ("reduced: %d into %d, %s of %d, [%d, %d) below %d"):format(s.from, s.to, op,
    s.factor, s.lo, s.hi, s.bound)
end

-- The same several times, and with one thing changed.
local function reduce()
  local s = {}
  for _, one in ipairs(rolled_of_reduction) do s[one] = roll_of_reduction[one]() end
  for _ = 1, between(1, 6) do
    for _ = 1, between(1, 4) do reduce_by(s) end
    local one = one_of(rolled_of_reduction)
    s[one] = roll_of_reduction[one]()
  end
  note "reduced"
end

local function compare()
  local totals = { q:wait(program.totals[1], program.totals[2]) }
  for i, total in ipairs(totals) do
    if tonumber(total()) ~= program.held_totals[i] then
      error(("seed %d, total %d: %d, the table has %d, after\n%s"):format(program.seed, i,
        tonumber(total()), program.held_totals[i], table.concat(log, "\n")), 0)
    end
  end
  for i, held in ipairs(program.held) do
    local plain, prepared, known, called = q:wait(program.sides[1][i], program.sides[2][i],
      program.sides[3][i], program.sides[4][i])
    for k = 0, N - 1 do
      local want = held[k]
      if plain[k] ~= want or prepared[k] ~= want or known[k] ~= want or called[k] ~= want then
        error(("seed %d, buffer %d at %d: plain %d, prepared %d, recalled %d, called %d, the table "
          .. "has %d, after\n%s"):format(program.seed, i, k, plain[k], prepared[k], known[k],
          called[k], want, table.concat(log, "\n")), 0)
      end
    end
  end
end

for seed = first, first + count - 1 do
  dice.begin(seed)
  log, program = {}, { seed = seed, sides = { {}, {}, {}, {} }, held = {} }
  for i = 1, 3 do fresh(i) end
  program.totals = { celer.scalar("int64_t", 0), celer.scalar("double", 0) }
  program.held_totals = { 0, 0 }
  local loops = {}
  for i = 1, 3 do loops[i] = fresh_loop(one_of(names)) end
  for _ = 1, steps do
    local loop = one_of(loops)
    for _ = 1, between(1, 4) do submit(loop) end
    if chance(15) then reduce() end
    if chance(5) then
      local i = between(1, 3)
      for _, side in ipairs(program.sides) do side[i]:free() end
      fresh(i)
      note "freed"
    elseif chance(5) then
      q:hint { oversubscribe = between(1, 3) }
      note "hint"
    elseif chance(5) then
      loops[between(1, 3)] = fresh_loop(one_of(names))
    elseif chance(5) then
      compare()
    end
  end
  compare()
  for _, total in ipairs(program.totals) do total:free() end
end
local said = {}
for what, times in celer.sorted_pairs(seen) do said[#said + 1] = what .. " " .. times end
print(("%d programs of steps: %s"):format(count, table.concat(said, "; ")))
