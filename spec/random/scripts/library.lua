--- library.lua -- random programs of library tasks over whole buffers, beside plain Lua tables.
---
---   celer run --advice off spec/random/scripts/library.lua SEED COUNT [STEPS] [all] [gpus]
---
--- Sorts, scans, compactions, gathers, scatters, histograms, sparse products; the largest numbers,
--- those that differ, the items that name something in a box. What one gives others take: what is
--- sorted is scanned, what is gathered is sorted. Numbers are such that sums of them are exact.
--- With `all` they are of all types, whose kernels take a minute to compile. `gpus`: sorts and
--- scans are what several GPUs do, on the processor, by any number of parts; without `all` some of
--- them. Says at the end how often what occurred; or the seed that fails, and its steps.
local celer = require "celer"
local dice = require "chance"
local q = celer.queue()

local first, count = tonumber(arg[1]), tonumber(arg[2])
local steps = tonumber(arg[3]) or 12
local wanted = {}
for i = 4, #arg do wanted[arg[i]] = true end
local random, between, chance, one_of = dice.random, dice.between, dice.chance, dice.one_of

local seen, log = {}, {}
local function note(what, ...)
  seen[what] = (seen[what] or 0) + 1
  log[#log + 1] = what .. " " .. table.concat({ ... }, " ")
end

local p -- the program: arrays, which have a buffer and a table that begins with 0

-- ---- arrays --------------------------------------------------------------------

local types = wanted.all and { "int", "unsigned", "int64_t", "float", "double" }
  or wanted.gpus and { "int" } or { "int", "double" }
local function those(fits)
  local list = {}
  for _, type_ in ipairs(types) do
    if fits[type_] then list[#list + 1] = type_ end
  end
  return list
end
local reals, wholes = those { float = true, double = true },
  those { int = true, unsigned = true, int64_t = true }
local indices = those { int = true, int64_t = true }
-- Not int64_t: where nothing comes before, scans give numbers that plain Lua does not have.
local summable = those { int = true, unsigned = true, float = true, double = true }

local NAN, INF = 0 / 0, math.huge

local alone = require "celer.arrays.alone"
local few = wanted.gpus and not wanted.all -- of whose kernels there are few to compile
local scan = require("celer.arrays.scan").shape -- small tiles, so that small buffers have many
scan.threads, scan.ordered, scan.bytes = 32, 32, 8
if wanted.gpus then -- and few samples
  local radix, merge = require("celer.arrays.radix").shape, require("celer.arrays.merge").shape
  local cuts = require("celer.arrays.merge_cuts").shape
  radix.each, radix.beside_places, radix.part = { 1, 1, [4] = 1, [8] = 1 }, 1, 1
  merge.threads, cuts.samples, cuts.looking = 32, 1, 32
  cuts.piece, cuts.guess, cuts.guessed = 1, 32, 6
  merge.each = { 2, 2, [4] = 3, [8] = 2 }
  alone.always_shared = true
end

-- Of guesses some are wrong, where there is no margin.
local function choose_parts()
  if not wanted.gpus then return end
  local cuts = require("celer.arrays.merge_cuts").shape
  alone.always_parts, cuts.pieces, cuts.margin = between(1, 8), between(1, 3), between(0, 1)
end

local function is_float(type_) return type_ == "float" or type_ == "double" end

-- Few different ones. `odd`: among them what is no ordinary number.
local function some_number(type_, odd)
  local x = between(type_ == "unsigned" and 0 or -9, 9)
  if odd and is_float(type_) and chance(30) then x = one_of { NAN, INF, -INF, -0.0 } end
  return x
end

local function add(type_, n, held, odd)
  local array = { type = type_, n = n, held = held, odd = odd, name = "a" .. #p.arrays + 1 }
  array.buffer = celer.buffer(type_, { n }, { name = array.name,
    init = function(i) return held[i] end })
  p.arrays[#p.arrays + 1] = array
  return array
end

local function table_of(n, f)
  local held = {}
  for i = 0, n - 1 do held[i] = f(i) end
  return held
end

local function fresh(type_, n, odd)
  return add(type_, n, table_of(n, function() return some_number(type_, odd) end), odd)
end

-- One of p's with such properties, or a new one.
local function some(fits, make)
  local list = {}
  for _, array in ipairs(p.arrays) do
    if fits(array) then list[#list + 1] = array end
  end
  if #list > 0 and chance(75) then return one_of(list) end
  return make()
end

local function some_numbers(type_, n, no_odd)
  type_ = type_ or one_of(types)
  return some(function(a)
    return a.type == type_ and (not n or a.n == n) and not (no_odd and a.odd)
  end, function() return fresh(type_, n or p.n, not no_odd and chance(50)) end)
end

local function alike(x, y) return x == y or x ~= x and y ~= y end

local function check(array)
  local s = q:wait(array.buffer)
  for i = 0, array.n - 1 do
    local x = tonumber(s(i))
    if not alike(x, array.held[i]) then
      error(("%s(%d) is %.17g, and plain Lua says %.17g"):format(array.name, i, x,
        array.held[i]), 0)
    end
  end
end

-- A buffer that a task has made, with what plain Lua says of it, from 1 on.
local function take(buffer, type_, list, odd)
  if buffer.size[0] ~= #list then
    error(("there are %d, and plain Lua says %d"):format(buffer.size[0], #list), 0)
  end
  local array = { type = type_, n = #list, odd = odd, buffer = buffer,
    held = table_of(#list, function(i) return list[i + 1] end), name = "a" .. #p.arrays + 1 }
  check(array)
  if #list > 0 then p.arrays[#p.arrays + 1] = array end
end

-- ---- tasks ---------------------------------------------------------------------

local tasks = {}

-- The numbers of elements in order; equal ones keep theirs, a NaN is larger than all else.
local function order_of(array, descending)
  local list, held = {}, array.held
  for i = 0, array.n - 1 do list[i + 1] = i end
  local function less(x, y) return x < y or x == x and y ~= y end
  table.sort(list, function(i, j)
    local x, y = held[i], held[j]
    if descending then x, y = y, x end
    if less(x, y) then return true end
    return not less(y, x) and i < j
  end)
  return list
end

function tasks.sort()
  local keys, descending = some_numbers(), not few and chance(40)
  local list = { keys }
  for _ = 1, random(3) do
    local other = some_numbers(nil, keys.n)
    local twice = false
    for _, one in ipairs(list) do twice = twice or one == other end
    if not twice then list[#list + 1] = other end
  end
  local order, given = order_of(keys, descending), {}
  for k, array in ipairs(list) do
    local before = array.held
    array.held = table_of(array.n, function(i) return before[order[i + 1]] end)
    given[k] = array.buffer
  end
  if descending or chance(50) then given[#given + 1] = { descending = descending } end
  choose_parts()
  celer.sort(unpack(given))
end

function tasks.top()
  local from = some_numbers()
  local k, order, values, places = random(from.n + 1), order_of(from, true), {}, {}
  for i = 1, k do values[i], places[i] = from.held[order[i]], order[i] end
  choose_parts()
  local a, b = celer.top(from.buffer, k)
  take(a, from.type, values, from.odd)
  take(b, "int64_t", places)
end

function tasks.unique()
  local from, list = some_numbers(), {}
  for _, i in ipairs(order_of(from)) do
    local x = from.held[i]
    if #list == 0 or not alike(list[#list], x) then list[#list + 1] = x end
  end
  choose_parts()
  take(celer.unique(from.buffer), from.type, list, from.odd)
end

local operators = { sum = function(a, b) return a + b end,
  min = math.min, max = math.max,
  ["and"] = function(a, b) return bit.band(a, b) end,
  ["or"] = function(a, b) return bit.bor(a, b) end }

local function operator_for(type_)
  local name = one_of(few and { "sum", "max" }
    or type_ == "int" and { "sum", "min", "max", "and", "or" }
    or { "sum", "sum", "min", "max" })
  return name, operators[name]
end

local identities = { int = { -2 ^ 31, 2 ^ 31 - 1 }, unsigned = { 0, 2 ^ 32 - 1 },
  float = { -INF, INF }, double = { -INF, INF } }

-- What sums of many small numbers stay below, so that none is rounded or wraps.
local function is_small(array)
  for i = 0, array.n - 1 do
    if math.abs(array.held[i]) > 2 ^ 12 then return false end
  end
  return true
end

function tasks.scan()
  local from = some_numbers(one_of(summable), nil, true)
  if not is_small(from) then return end
  local out = chance(40) and from or some_numbers(from.type, from.n, true)
  local name, f = operator_for(from.type)
  local exclusive = chance(40)
  local least = identities[from.type]
  local now = ({ sum = 0, ["and"] = -1, ["or"] = 0, min = least[2], max = least[1] })[name]
  local before = from.held
  out.held = table_of(out.n, function(i)
    local last = now
    now = f(now, before[i])
    return exclusive and last or now
  end)
  note("scans by " .. name)
  celer.scan(name, out.buffer, from.buffer, exclusive and { exclusive = true } or nil)
end

function tasks.compact()
  local from = some_numbers(nil, nil, true)
  local out = some_numbers(from.type, chance(50) and from.n or p.m)
  if out == from then return end
  local limit, list = between(-5, 5), {}
  for i = 0, from.n - 1 do
    if from.held[i] > limit then list[#list + 1] = from.held[i] end
  end
  local before = out.held
  out.held = table_of(out.n, function(i) return list[i + 1] or before[i] end)
  local found = celer.compact(from.buffer:gt(limit), out.buffer, from.buffer)
  if tonumber(found()) ~= #list then
    error(("%s are found, and plain Lua says %d"):format(found(), #list), 0)
  end
end

-- Some lead nowhere.
local function some_index(n, most)
  return add(one_of(indices), n, table_of(n, function()
    return chance(10) and one_of { -1, most, most + 3 } or random(math.max(most, 1))
  end))
end

function tasks.gather()
  local from = some_numbers()
  local out = some_numbers(from.type, chance(50) and p.m or p.n)
  if out == from then return end
  local index = some_index(out.n, from.n)
  for i = 0, out.n - 1 do
    local x = from.held[index.held[i]]
    if x then out.held[i] = x end
  end
  out.odd = out.odd or from.odd
  celer.gather(out.buffer, from.buffer, index.buffer)
end

function tasks.scatter()
  local from = some_numbers(one_of(summable), nil, true)
  local out = some_numbers(from.type, chance(50) and p.m or p.n, true)
  if out == from or not is_small(from) or not is_small(out) then return end
  local index = some_index(from.n, out.n)
  local name, f = operator_for(from.type)
  if chance(40) then name, f = nil, function(_, b) return b end end
  for i = 0, from.n - 1 do
    local k = index.held[i]
    if out.held[k] then out.held[k] = f(out.held[k], from.held[i]) end
  end
  note("scatters " .. (name or "without an operator"))
  celer.scatter(out.buffer, from.buffer, index.buffer, name)
end

function tasks.histogram()
  local from = some_numbers()
  local bins, low, width = between(1, 12), between(-10, 2), one_of { 1, 2, 4 }
  local high = low + bins * width
  local counts = table_of(bins, function() return 0 end)
  for i = 0, from.n - 1 do
    local x = from.held[i]
    if x >= low and x <= high then
      local k = math.min(math.floor((x - low) / width), bins - 1)
      counts[k] = counts[k] + 1
    end
  end
  local out = fresh("int", bins)
  out.held = counts
  celer.histogram(out.buffer, from.buffer, low, high)
end

function tasks.spmv()
  local rows, columns, type_ = p.m, p.n, one_of(reals)
  local x = some_numbers(type_, columns, true)
  local y = some_numbers(type_, rows, true)
  if x == y or not is_small(x) then return end
  local at = 0
  local ptr = add(one_of(indices), rows + 1, table_of(rows + 1, function()
    local from = at
    at = at + (columns > 0 and not chance(25) and random(4) or 0)
    return from
  end))
  local entries = ptr.held[rows]
  local col = add("int", entries, table_of(entries, function() return random(columns) end))
  local val = fresh(type_, entries)
  y.held = table_of(rows, function(i)
    local s = 0
    for k = ptr.held[i], ptr.held[i + 1] - 1 do s = s + val.held[k] * x.held[col.held[k]] end
    return s
  end)
  celer.spmv(y.buffer, ptr.buffer, col.buffer, val.buffer, x.buffer)
end

function tasks.preimage()
  local index = some_numbers(one_of(wholes))
  local lo = between(-10, 8)
  local hi, list = between(lo, 12), {}
  for i = 0, index.n - 1 do
    if index.held[i] >= lo and index.held[i] < hi then list[#list + 1] = i end
  end
  take(celer.preimage(index.buffer, celer.box({ lo }, { hi })), "int64_t", list)
end

-- Something between them.
function tasks.change()
  local array = some_numbers(nil, nil, true)
  if not is_small(array) then return end
  local before = array.held
  array.held = table_of(array.n, function(i) return before[i] * 2 + 1 end)
  array.buffer:set(array.buffer * 2 + 1)
end

-- ---- programs ------------------------------------------------------------------

local on_gpus = { sort = true, unique = true, scan = true, change = true }
local names = {}
for name in pairs(tasks) do
  if on_gpus[name] or not few then names[#names + 1] = name end
end
table.sort(names)

local function run()
  p = { arrays = {}, n = one_of { 1, 2, between(3, 40), between(3, 40), between(250, 600),
    between(1100, 1300) },
    m = between(1, 30) }
  for _ = 1, steps do
    local name = one_of(names)
    note(name)
    tasks[name]()
    if chance(30) and #p.arrays > 0 then check(one_of(p.arrays)) end
  end
  for _, array in ipairs(p.arrays) do check(array) end
  for _, array in ipairs(p.arrays) do array.buffer:free() end
end

for seed = first, first + count - 1 do
  dice.begin(seed)
  log = {}
  local ok, message = pcall(run)
  if not ok then
    error(("seed %d: %s\n%s"):format(seed, tostring(message), table.concat(log, "\n")), 0)
  end
end

local words = {}
for name, times in pairs(seen) do words[#words + 1] = name .. " " .. times end
table.sort(words)
print(("%d programs of library tasks: %s"):format(count, table.concat(words, ", ")))
