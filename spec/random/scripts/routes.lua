--- routes.lua -- random programs of routes and lists, beside plain Lua tables.
---
---   celer run --advice off spec/random/scripts/routes.lua SEED COUNT [STEPS] [gpu]
---
--- Items of ranges of 0 to 3 dimensions push by formulas of their number to buffers of 1 to 3
--- dimensions and to bins, from kernels in C++ and in Lua; some read what is pushed to. Elements
--- of a list move to other bins, come and go. Other tasks change the buffers between them. The
--- tables do the same item by item. All bits must be the same. In a session, as by `celer run -i`,
--- some tasks make mistakes, too, of which all ranks say the same. `gpu`: one device does by the
--- kernels of a GPU what it is to do. Says at the end how often what occurred; or the seed that
--- fails, and its steps.
local celer = require "celer"
local dice = require "chance"
local ffi = require "ffi"
local q = celer.queue()

local first, count = tonumber(arg[1]), tonumber(arg[2])
local steps = tonumber(arg[3]) or 12
local on_gpu = arg[4] == "gpu" and require "celer.arrays.routed"
if on_gpu then require("celer.arrays.alone").always = true end
local random, between, chance, one_of = dice.random, dice.between, dice.chance, dice.one_of
local float = ffi.typeof "float"

local seen, log = {}, {}
local function note(what) seen[what] = (seen[what] or 0) + 1 end

celer.struct("mote", "double x; int id;")
celer.struct("way", "int p, q, c, most;")

-- Of each number of dimensions. An item's number is not its position: the order of items shows.
local text = [[
  template <int D> CELER_FN int number(const item<D> &it) {
    const int by[] = {31, 7, 1};
    int n = 1000;
    for (int d = 0; d < D; ++d) n += int(it[d]) * by[d];
    return n;
  }
  CELER_FN int pushes(way w, int n) { return (n * w.q + w.c) % (w.most + 1); }
  CELER_FN int key(way w, int n, int r, int keys) { return (n * w.p + r * w.q + w.c) % keys; }
]]
local each_dims = [[
  kernel void reals_D(item<D> it, route<double> out, int keys, in<int, 3> more, way w) {
    const int n = number(it);
    for (int r = 0; r < pushes(w, n); ++r)
      out.push(key(w, n, r, keys), (n % 97 + r + more(1, r % 2, 0)) / 7.0);
  }
  kernel void wholes_D(item<D> it, route<int, 3> out, in<int, 3> more, way w) {
    const int n = number(it);
    for (int r = 0; r < pushes(w, n); ++r)
      out.push(key(w, n, r, 2), n % 2, key(w, n, r, 4), n % 1000 + more(0, n % 2, r % 4));
  }
  kernel void pairs_D(item<D> it, route<float2, 2> out, int rows, way w) {
    const int n = number(it);
    for (int r = 0; r < pushes(w, n); ++r)
      out.push(key(w, n, r, rows), n % 3, float2{n / 3.0f, float(r)});
  }
  kernel void motes_D(item<D> it, route<mote, 2> out, int rows, way w) {
    const int n = number(it);
    for (int r = 0; r < pushes(w, n); ++r)
      out.push(key(w, n, r, rows), n % 3, {n / 7.0 + r, n});
  }
]]
for d = 0, 3 do text = text .. each_dims:gsub("%f[%w_]D%f[^%w_]", d):gsub("_D", "_" .. d) end
local k = celer.kernel(text .. [[
  kernel void move(item<1> it, in<mote, 1> p, in<int64_t, 0> count, route<mote, 2> out, int rows,
                   way w) {
    if (it[0] >= count()) return;
    mote a = p(it[0]);
    for (int r = 0; r < pushes(w, a.id); ++r)
      out.push(key(w, a.id, r, rows), a.id % 3, {a.x + r, a.id % 100 + 1000 + r});
  }
  kernel void sum(item<1> it, in<int64_t, 1> offsets, in<mote, 1> p, inout<double, 1> out, int n) {
    for (long i = offsets(it[0]); it[0] < n && i < offsets(it[0] + 1); ++i) out(it[0]) += p(i).x;
  }
  kernel void widen(item<1> it, inout<int64_t, 1> offsets, int end) { offsets(it[0]) = end; }
  kernel void change(item<1> it, inout<double, 1> a) { a(it[0]) = a(it[0]) / 2 + it[0]; }
  kernel void plus(item<3> it, inout<int, 3> b) {
    b(it[0], it[1], it[2]) = (b(it[0], it[1], it[2]) % 100 + 100) % 100;
  }
]])

local function in_lua(i, j, out, keys, more, p, by, c, most)
  local n = 1000 + 31 * i + 7 * j
  for r = 0, (n * by + c) % (most + 1) - 1 do
    out:push((n * p + r * by + c) % keys, (n % 97 + r + more[1][r % 2][0]) / 7)
  end
end
local lua_kernel = celer.kernel(in_lua)
local lua_motes = celer.kernel(function(i, out, rows, p, by, c, most)
  local n = 1000 + 31 * i
  for r = 0, (n * by + c) % (most + 1) - 1 do
    out:push((n * p + r * by + c) % rows, n % 3, { x = n / 7 + r, id = n })
  end
end)

local lua_pairs = celer.kernel(function(i, out, rows, p, by, c, most)
  local n = 1000 + 31 * i
  for r = 0, (n * by + c) % (most + 1) - 1 do
    out:push((n * p + r * by + c) % rows, n % 3, { x = n / 3, y = r })
  end
end)

-- ---- the model ---------------------------------------------------------------

local p -- the program

local function pushes(w, n) return (n * w.q + w.c) % (w.most + 1) end
local function key(w, n, r, keys) return (n * w.p + r * w.q + w.c) % keys end

-- Calls f(number) for the items of a box, in order.
local function each_item(lo, hi, f)
  local by, dims = { 31, 7, 1 }, #lo
  local function go(d, n)
    if d > dims then return f(n) end
    for i = lo[d], hi[d] - 1 do go(d + 1, n + i * by[d]) end
  end
  go(1, 1000)
end

local combine = {
  sum = function(a, b) return a + b end, prod = function(a, b) return a * b end,
  min = function(a, b) return b < a and b or a end,
  max = function(a, b) return a < b and b or a end,
  ["or"] = bit.bor, ["and"] = bit.band,
}
local identities = { sum = 0, prod = 1, min = 1 / 0, max = -1 / 0, ["or"] = 0, ["and"] = -1 }

local function begin(held, how, keep, least)
  for i = 0, keep and -1 or #held do
    held[i] = least and how == "min" and 2 ^ 31 - 1 or least and how == "max" and -2 ^ 31
      or identities[how]
  end
end

local BLOCK = 64 -- CEL_ROUTE_BLOCK

-- What takes a value of an element: of a block one after the other, and then what blocks come to;
-- and what is called after all of them.
local function by_blocks(held, op)
  local came, part = {}, {}
  return function(at, value)
    local n = came[at] or 0
    came[at] = n + 1
    if n < BLOCK then
      held[at] = op(held[at], value)
    elseif n % BLOCK > 0 then
      part[at] = op(part[at], value)
    else
      if n > BLOCK then held[at] = op(held[at], part[at]) end
      part[at] = value
      note "blocks"
    end
  end, function()
    for at, value in pairs(part) do held[at] = op(held[at], value) end
  end
end

-- ---- steps -------------------------------------------------------------------

-- Now and then so many items that elements get several blocks.
local function a_range(may_be_long)
  local dims, lo, hi = one_of { 0, 1, 1, 2, 2, 3 }, {}, {}
  local most = may_be_long and chance(50) and { 700, 25, 9 } or { 40, 9, 5 }
  for d = 1, dims do
    lo[d] = chance(60) and 0 or random(5)
    hi[d] = lo[d] + (chance(5) and 0 or between(1, most[dims]))
  end
  note("dimensions " .. dims)
  return dims == 0 and {} or celer.box(lo, hi), lo, hi
end

-- In every fourth each item pushes as much as it may, in half of these all to the same keys.
local function a_way(most)
  local w = { p = between(1, 50), q = between(1, 9), c = random(50), most = most or between(1, 4) }
  if chance(25) then
    note "full"
    if chance(50) then
      note "alike"
      w.p, w.most = 0, most or one_of { 1, 2, 2, 2, 3 }
    end
    w.q, w.c = w.most + 1, w.most
  end
  return w
end

local function hint(cg, dims)
  if dims > 1 and chance(20) then cg:hint { split = "2d" } end
  if chance(20) then cg:hint { oversubscribe = between(2, 3) } end
end

local function options(w, keep) return { most = w.most, include_current = keep } end

local function say(...) log[#log + 1] = table.concat({ ... }, " ") end

local forms = {}

function forms.reals()
  local w, how, keep = a_way(), one_of { "sum", "sum", "prod", "min", "max" }, chance(60)
  local range, lo, hi = a_range(how ~= "prod") -- a long product would be infinite
  local is_lua = #lo == 2 and chance(50)
  say("reals", tostring(range), how, tostring(keep), w.p, w.q, w.c, w.most, tostring(is_lua))
  note(how)
  if is_lua then
    note "Lua"
    q:parallel_for(range, lua_kernel, celer.route(p.reals, how, options(w, keep)), p.n,
      celer.access(p.wholes, celer.all), w.p, w.q, w.c, w.most)
  else
    q:submit(function(cg)
      hint(cg, #lo)
      cg:parallel_for(range, k["reals_" .. #lo], cg:route(p.reals, how, options(w, keep)), p.n,
        cg:read(p.wholes, celer.all), w)
    end)
  end
  local held = p.held.reals
  begin(held, how, keep)
  local take, finish = by_blocks(held, combine[how])
  each_item(lo, hi, function(n)
    for r = 0, pushes(w, n) - 1 do
      take(key(w, n, r, p.n), (n % 97 + r + p.held.wholes[8 + r % 2 * 4]) / 7)
    end
  end)
  finish()
end

-- Pushes to the buffer that it reads.
function forms.wholes()
  local range, lo, hi = a_range()
  local w, how, keep = a_way(), one_of { "sum", "min", "max", "or", "and" }, chance(60)
  local is_on = chance(80)
  say("wholes", tostring(range), how, tostring(keep), w.p, w.q, w.c, w.most, tostring(is_on))
  note(how)
  p.flag:set(is_on and 1 or 0)
  q:submit(function(cg)
    if not is_on or chance(20) then cg:when(p.flag) end
    hint(cg, #lo)
    cg:parallel_for(range, k["wholes_" .. #lo], cg:route(p.wholes, how, options(w, keep)),
      cg:read(p.wholes, celer.all), w)
  end)
  if not is_on then return note "skipped" end
  local held, old = p.held.wholes, {}
  for i = 0, #held do old[i] = held[i] end
  begin(held, how, keep, true)
  each_item(lo, hi, function(n)
    for r = 0, pushes(w, n) - 1 do
      local at = key(w, n, r, 2) * 8 + n % 2 * 4 + key(w, n, r, 4)
      held[at] = combine[how](held[at], n % 1000 + old[n % 2 * 4 + r % 4])
    end
  end)
  forms.plus() -- sums stay small
end

local function new_pairs()
  p.pair_rows = between(1, 6)
  p.pairs, p.held.pairs = celer.full("float2", { p.pair_rows, 3 }, { x = 0 }), {}
  for i = 0, p.pair_rows * 3 - 1 do p.held.pairs[i] = { 0, 0 } end
end

-- Mostly of the range before, so that submissions are alike; now and then to another buffer.
local function push_pairs()
  if not p.range or chance(30) then p.range, p.way = { a_range(true) }, a_way() end
  if chance(40) then
    note "another size"
    p.pairs:free()
    new_pairs()
  end
  local range, lo, hi = unpack(p.range)
  local w, keep = p.way, chance(60)
  say("pairs", tostring(range), tostring(keep), w.p, w.q, w.c, w.most)
  note "vectors"
  if #lo == 1 and chance(70) then
    q:parallel_for(range, lua_pairs, celer.route(p.pairs, "sum", options(w, keep)), p.pair_rows,
      w.p, w.q, w.c, w.most)
  else
    q:submit(function(cg)
      hint(cg, #lo)
      cg:parallel_for(range, k["pairs_" .. #lo], cg:route(p.pairs, "sum", options(w, keep)),
        p.pair_rows, w)
    end)
  end
  local held = p.held.pairs
  for i = 0, keep and -1 or p.pair_rows * 3 - 1 do held[i] = { 0, 0 } end
  local take, finish = by_blocks(held, function(a, b)
    return { tonumber(float(a[1] + b[1])), a[2] + b[2] }
  end)
  each_item(lo, hi, function(n)
    for r = 0, pushes(w, n) - 1 do
      take(key(w, n, r, p.pair_rows) * 3 + n % 3, { tonumber(float(n / 3)), r })
    end
  end)
  finish()
end

function forms.pairs()
  repeat push_pairs() until chance(40)
end

local function shown(x) return type(x) == "number" and ("%.17g"):format(x) or tostring(x) end

local function check(what, is, wanted)
  if is == wanted or is ~= is and wanted ~= wanted then return end
  error(("seed %d, %s: it is %s, and the table says %s, after\n%s"):format(p.seed, what, shown(is),
    shown(wanted),
    table.concat(log, "\n")), 0)
end

-- What celer says of a task that pushes as pairs do, where an item may push `most` values; nil: it
-- does so rightly.
local function mistake_of(lo, hi, w, most, rows)
  local largest, item = most, nil
  for i = lo, hi - 1 do
    local n = 1000 + 31 * i
    if pushes(w, n) > largest then largest, item = pushes(w, n), i end
    for r = 0, math.min(pushes(w, n), most) - 1 do
      if key(w, n, r, rows) >= p.pair_rows then
        return ("item (%d) pushes to element (%d, %d)"):format(i, key(w, n, r, rows), n % 3)
      end
    end
  end
  return item and ("item (%d) pushes %d values"):format(item, largest)
end

-- In a session, which goes on: a key outside, or more pushes than an item may make.
function forms.wrong()
  local lo = random(5)
  local hi, w, keep = lo + between(1, 40), a_way(), chance(50)
  local most, rows = between(1, w.most), p.pair_rows + one_of { 0, 0, 1, 3 }
  local mistake = mistake_of(lo, hi, w, most, rows)
  if not mistake then return end
  note "mistakes"
  say("wrong", lo, hi, w.p, w.q, w.c, w.most, most, rows)
  q:parallel_for(celer.box({ lo }, { hi }), lua_pairs, celer.route(p.pairs, "sum",
    { most = most, include_current = keep }), rows, w.p, w.q, w.c, w.most)
  local ok, message = pcall(q.wait, q)
  check("mistake", not ok and tostring(message):find(mistake, 1, true) and mistake
    or tostring(message), mistake)
  if not keep then new_pairs() end -- there is nothing then; else what there was
end

-- How many elements the list has.
local function total()
  local n = 0
  for b = 0, p.rows * 3 - 1 do n = n + #p.held.bins[b] end
  return n
end

local function note_room(before)
  if p.list.capacity > before then note "grown" end
  if #p.list.room.asked > 0 then note "counts asked for" end
end

-- Each item pushes as much as it may, behind what there is: of that the list must have room.
local function push_all(n, most)
  local w, room = { p = between(1, 50), q = most + 1, c = most, most = most }, p.list.capacity
  say("push all", n, w.p, most)
  q:submit(function(cg)
    cg:parallel_for(n, k.motes_1, cg:route(p.list, "append", options(w, true)), p.rows, w)
  end)
  note_room(room)
  each_item({ 0 }, { n }, function(number)
    for r = 0, most - 1 do
      table.insert(p.held.bins[key(w, number, r, p.rows) * 3 + number % 3],
        { number / 7 + r, number })
    end
  end)
end

-- More and more, by steps that are alike; now and then its elements move.
function forms.stream()
  local n, most = between(1, 40), between(1, 2)
  for _ = 1, between(3, 10) do
    if total() > 400 then return end
    note "streams"
    push_all(n, most)
    if chance(20) then forms.move() end
  end
end

-- The program itself changes bins: the last one has more.
function forms.widen()
  local before = total()
  local more = math.min(p.list.capacity - before, random(30))
  say("widen", before, more)
  q:parallel_for(celer.box({ p.rows * 3 }, { p.rows * 3 + 1 }), k.widen, p.list.offsets,
    before + more)
  for _ = 1, more do table.insert(p.held.bins[p.rows * 3 - 1], { 0, 0 }) end
  if more > 0 then note "widened" end
  push_all(between(1, 9), 1)
end

-- In a session: more than a list has room for.
function forms.overflow()
  local n, most, least = between(1, 40), between(1, 3), between(0, 20)
  local list = celer.list("mote", { bins = { p.rows, 3 }, capacity = between(least + 1, 60) })
  local all = { p = 1, q = most + 1, c = most, most = most } -- each item pushes `most`
  local function push(items, keep)
    q:submit(function(cg)
      cg:parallel_for(items, k.motes_1, cg:route(list, "append", options(all, keep)), p.rows, all)
    end)
  end
  local before = math.floor(least / most)
  push(before, false)
  push(n, true)
  say("overflow", n, most, before, list.capacity)
  local come_to = (before + n) * most
  local ok, message = pcall(q.wait, q)
  if come_to <= list.capacity then
    check("no overflow", ok, true)
    check("elements", tonumber(list.count()), come_to)
  else
    note "overflows"
    local mistake = ("come to %d values, and it has room for %d: make it with { capacity = %d }")
      :format(come_to, list.capacity, come_to)
    check("overflow", not ok and tostring(message):find(mistake, 1, true) and mistake
      or tostring(message), mistake)
  end
  list:free()
end

-- Elements to bins, behind what these hold.
function forms.motes()
  local range, lo, hi = a_range()
  local w, keep, room = a_way(), total() < 400 and chance(50), p.list.capacity
  say("motes", tostring(range), tostring(keep), w.p, w.q, w.c, w.most)
  note(keep and "appended" or "filled")
  if #lo == 1 and chance(50) then
    note "made in Lua"
    q:parallel_for(range, lua_motes, celer.route(p.list, "append", options(w, keep)), p.rows, w.p,
      w.q, w.c, w.most)
  else
    q:submit(function(cg)
      hint(cg, #lo)
      cg:parallel_for(range, k["motes_" .. #lo], cg:route(p.list, "append", options(w, keep)),
        p.rows, w)
    end)
  end
  note_room(room)
  for b = 0, keep and -1 or p.rows * 3 - 1 do p.held.bins[b] = {} end
  each_item(lo, hi, function(n)
    for r = 0, pushes(w, n) - 1 do
      table.insert(p.held.bins[key(w, n, r, p.rows) * 3 + n % 3], { n / 7 + r, n })
    end
  end)
end

-- Elements of the list to other bins of it, once, not at all or twice.
function forms.move()
  local w, is_range = a_way(total() < 200 and between(1, 2) or 1), chance(60)
  local room = p.list.capacity
  say("move", w.p, w.q, w.c, w.most, tostring(is_range))
  note(is_range and "moved" or "moved by capacity")
  q:submit(function(cg)
    hint(cg, 1)
    cg:parallel_for(is_range and p.list or room, k.move, cg:read(p.list.values),
      cg:read(p.list.count), cg:route(p.list, "append", options(w)), p.rows, w)
  end)
  note_room(room)
  local old, bins = p.held.bins, {}
  for b = 0, p.rows * 3 - 1 do bins[b] = {} end
  for b = 0, p.rows * 3 - 1 do
    for _, a in ipairs(old[b]) do
      for r = 0, pushes(w, a[2]) - 1 do
        table.insert(bins[key(w, a[2], r, p.rows) * 3 + a[2] % 3],
          { a[1] + r, a[2] % 100 + 1000 + r })
      end
    end
  end
  p.held.bins = bins
end

-- A kernel over bins.
function forms.sum()
  local n = math.min(p.n, p.rows * 3)
  say("sum", n)
  note "bins"
  q:submit(function(cg)
    hint(cg, 1)
    cg:parallel_for(n, k.sum, cg:read(p.list.offsets, p.list.ends),
      cg:read(p.list.values, p.list.ranges), cg:read_write(p.reals), n)
  end)
  for b = 0, n - 1 do
    for _, a in ipairs(p.held.bins[b]) do p.held.reals[b] = p.held.reals[b] + a[1] end
  end
end

function forms.change()
  say "change"
  q:submit(function(cg) cg:parallel_for(p.n, k.change, cg:read_write(p.reals)) end)
  for i = 0, p.n - 1 do p.held.reals[i] = p.held.reals[i] / 2 + i end
end

function forms.plus()
  say "plus"
  q:submit(function(cg) cg:parallel_for({ 2, 2, 4 }, k.plus, cg:read_write(p.wholes)) end)
  for i = 0, 15 do p.held.wholes[i] = p.held.wholes[i] % 100 end
end

-- The list has as much room as it needs, or is another one of the same buffers.
function forms.fit()
  say "fit"
  if chance(50) then
    note "fitted"
    p.list:fit(p.list.grows and random(3) or 4000)
  else
    note "kept"
    p.list = celer.list("mote", { bins = { p.rows, 3 }, values = p.list.values,
      offsets = p.list.offsets })
  end
end

-- ---- programs ------------------------------------------------------------------

local function compare()
  local held = p.held
  local reals, wholes, pairs_ = q:wait(p.reals, p.wholes, p.pairs)
  for i = 0, p.n - 1 do check("reals " .. i, reals(i), held.reals[i]) end
  for i = 0, 15 do
    check("wholes " .. i, wholes(math.floor(i / 8), math.floor(i / 4) % 2, i % 4), held.wholes[i])
  end
  for i = 0, p.pair_rows * 3 - 1 do
    local pair = pairs_(math.floor(i / 3), i % 3)
    check("pairs " .. i, pair.x, held.pairs[i][1])
    check("pairs " .. i, pair.y, held.pairs[i][2])
  end
  local bins, count_ = p.list:get(), total()
  for b = 0, p.rows * 3 - 1 do
    check("elements of bin " .. b, #bins[b], #held.bins[b])
    for i, a in ipairs(bins[b]) do
      check(("x of %d in bin %d"):format(i, b), a.x, held.bins[b][i][1])
      check(("id of %d in bin %d"):format(i, b), a.id, held.bins[b][i][2])
    end
  end
  check("count", tonumber(p.list.count()), count_)
  if p.list.grows then check("room for that", p.list.room.most >= count_, true) end
end

local function make(seed)
  -- 256 keys take a digit of a GPU's sort, or two where some places hold none. Up to 1024 it takes
  -- few keys by one launch; of few pieces some have several tiles.
  local n, rows = chance(30) and one_of { 256, 256, 400, 1024 } or between(1, 30), between(1, 6)
  if n > 30 then note(n .. " keys") end
  if on_gpu then
    local shape = on_gpu.shape
    shape.pieces, shape.group = one_of { 0, 1, 2, 256 }, one_of { 64, 64, 512 }
    note(shape.pieces .. " pieces")
  end
  p = { seed = seed, n = n, rows = rows, flag = celer.scalar("int", 1),
    reals = celer.buffer("double", { n }, { init = 1 }),
    wholes = celer.buffer("int", { 2, 2, 4 }, { init = 5 }),
    list = celer.list("mote", { bins = { rows, 3 }, capacity = chance(30) and 4000 or nil }),
    held = { reals = {}, wholes = {}, pairs = {}, bins = {} } }
  for i = 0, n - 1 do p.held.reals[i] = 1 end
  for i = 0, 15 do p.held.wholes[i] = 5 end
  for i = 0, rows * 3 - 1 do p.held.bins[i] = {} end
  new_pairs()
end

local names = { "reals", "reals", "wholes", "pairs", "motes", "move", "move", "stream", "widen",
  "sum", "change", "fit" }
if require("celer.settings").session then
  names[#names + 1] = "wrong"
  names[#names + 1] = "overflow"
end
for seed = first, first + count - 1 do
  dice.begin(seed)
  log = {}
  make(seed)
  for _ = 1, steps do
    local form = one_of(names)
    forms[form]()
    if chance((form == "move" or form == "motes") and 40 or 20) then compare() end
  end
  compare()
  for _, one in ipairs { p.reals, p.wholes, p.pairs, p.list, p.flag } do one:free() end
end
local said = {}
for what, times in celer.sorted_pairs(seen) do said[#said + 1] = what .. " " .. times end
print(("%d programs of routes: %s"):format(count, table.concat(said, "; ")))
