-- What GPUs do of celer.sort, scan and spmv, by the same kernels on the processor; and celer.spmv.
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

local one = { { name = "on one device", devices = 1 } }

local as_on_gpus = [==[
local alone = require "celer.arrays.alone"
local function as(how)
  alone.always, alone.always_shared = how == "one", how == "several"
end
]==]

local matrices = [==[
local state = 7
local function below(m) state = (state * 16807) % 2147483647 return state % m end
-- A matrix of so many entries in each row, as buffers and tables.
local function matrix(rows, count, types)
  local ptr, col, val = { 0 }, {}, {}
  for i = 0, rows - 1 do
    for _ = 1, count(i) do
      col[#col + 1], val[#val + 1] = below(rows), below(1000) / 7 - 50
    end
    ptr[i + 2] = #col
  end
  local n = #col
  local function buffer(type_, size, list)
    return celer.buffer(type_, size, size > 0 and { init = list } or nil)
  end
  return buffer(types[1], rows + 1, ptr), buffer(types[2], n, col), buffer(types[3], n, val), ptr,
    col, val
end
local cases = {
  { 1, function() return 1 end, { "int", "int", "double" } },
  { 3, function() return 0 end, { "int", "int", "double" } },
  { 700, function() return 9 end, { "int64_t", "int", "float" } },
  { 900, function(i) return i % 7 == 0 and below(50) or i % 301 == 3 and 5000 or 0 end,
    { "int", "int64_t", "double" } },
  { 300, function(i) return i < 128 and 16 or i < 130 and 2048 or 0 end,
    { "int", "int", "double" } },
  { 40, function(i) return i == 20 and 20000 or i == 39 and 5000 or i % 3 * 30 end,
    { "int", "int", "double" } },
}
]==]

describe("celer.spmv", function()
  script.everywhere("multiplies rows of any length, also none", matrices .. [==[
for _, case in ipairs(cases) do
  local rows = case[1]
  local ptr, col, val, starts, columns, values = matrix(unpack(case))
  local x = celer.buffer(case[3][3], rows, { init = function(i) return i % 17 - 3 end })
  local y = celer.buffer(case[3][3], rows)
  celer.spmv(y, ptr, col, val, x)
  local got = q:wait(y)
  for i = 0, rows - 1 do
    local sum, size = 0, 0
    for k = starts[i + 1] + 1, starts[i + 2] do
      sum = sum + values[k] * (columns[k] % 17 - 3)
      size = size + math.abs(values[k] * (columns[k] % 17 - 3))
    end
    local least = case[3][3] == "float" and 1e-5 or 1e-13
    if math.abs(got(i) - sum) > least * size then same("row " .. i, got(i), sum) end
  end
end
]==])

  script.everywhere("follows its index when that changes", [==[
local n = 100
local ptr, col = celer.arange("int", n + 1), celer.arange("int", n)
local val, x, y = celer.full("double", n, 2), celer.arange("double", n), celer.zeros("double", n)
local turn = celer.kernel(function(i, col) col[i] = n - 1 - i end)
for step = 1, 3 do
  celer.spmv(y, ptr, col, val, x)
  local got = q:wait(y)
  for i = 0, n - 1 do same("row", got(i), 2 * (step == 1 and i or n - 1 - i)) end
  turn({ n }, col)
end
]==])

  it("names itself where a column is not there", function()
    local r = script.run([==[
local ptr = celer.buffer("int", 4, { init = { 0, 1, 2, 3 } })
local col = celer.buffer("int", 3, { name = "col", init = { 0, 7, 2 } })
local val, x = celer.ones("double", 3), celer.ones("double", 3)
local y = celer.zeros("double", 3)
celer.spmv(y, ptr, col, val, x)
print(y(0))]==], { devices = 1, ranks = 2 })
    assert.not_equal(0, r.status)
    assert.truthy(r.stderr:find("/case.lua:6: celer.spmv: col(1) is 7, and buffer3 has rows 0 to 2",
      1, true), r.stderr)
  end)

  script.everywhere("refuses what does not fit, with the line", [==[
local u = celer.zeros("double", 8)
local ptr, col, val = celer.zeros("int", 9), celer.zeros("int", 3), celer.zeros("double", 3)
local y = celer.zeros("double", 8)
refused("celer.spmv: ptr, where rows begin, is a buffer", function()
  celer.spmv(y, 1, col, val, u)
end)
refused("ptr has one element more than y", function() celer.spmv(y, col, col, val, u) end)
refused("ptr and col are whole numbers", function() celer.spmv(y, u, col, val, u) end)
refused("val, x and y are of one type", function()
  celer.spmv(y, ptr, col, celer.zeros("float", 3), u)
end)
refused("is written, and may not be read", function() celer.spmv(u, ptr, col, val, u) end)
refused("x has one dimension", function()
  celer.spmv(y, ptr, col, val, celer.zeros("double", { 2, 4 }))
end)
]==])

  script.everywhere("adds up alike on one GPU and on several", as_on_gpus .. matrices .. [==[
for _, case in ipairs(cases) do
  local rows = case[1]
  local ptr, col, val = matrix(unpack(case))
  local x = celer.buffer(case[3][3], rows, { init = function(i) return math.sin(i) end })
  local results = {}
  for i, how in ipairs { "one", "several" } do
    as(how)
    local y = celer.buffer(case[3][3], rows)
    celer.spmv(y, ptr, col, val, x)
    celer.spmv(y, ptr, col, val, x)
    results[i] = q:wait(y)
  end
  as()
  local y = celer.buffer(case[3][3], rows)
  celer.spmv(y, ptr, col, val, x)
  local plain = q:wait(y)
  for i = 0, rows - 1 do
    same("row " .. i, results[1](i), results[2](i))
    local least = case[3][3] == "float" and 1e-3 or 1e-9
    assert(math.abs(plain(i) - results[1](i)) <= least, "row " .. i)
  end
end
]==], nil, { shapes = one })
end)

describe("celer.sort on a GPU", function()
  script.everywhere("sorts by passes over tiles", as_on_gpus .. [==[
local function check(type_, n, init, down)
  local results = {}
  for i, how in ipairs { "one", "processor" } do
    as(how)
    local keys, alone_ = celer.buffer(type_, n, { init = init }),
      celer.buffer(type_, n, { init = init })
    local index = celer.arange("int", n)
    celer.sort(keys, index, { descending = down })
    celer.sort(alone_, { descending = down })
    results[i] = { q:wait(keys, index, alone_) }
  end
  for k = 1, 3 do
    for i = 0, n - 1 do
      local a, b = results[1][k](i), results[2][k](i)
      if a ~= b and (a == a or b == b) then same(type_ .. " " .. k .. " at " .. i, a, b) end
    end
  end
end
local special = { [0] = 0, -0, math.huge, -math.huge, 0 / 0, 1e-310, -1e-310 }
local function fraction(i)
  return special[i % 50] or ((i * 7919) % 10007 - 5000.5) * 2 ^ (i % 40)
end
check("double", 9000, fraction, false)
check("int16_t", 7000, function(i) return (i * 7919) % 3001 - 1500 end, true)
]==], nil, { shapes = one })

  local several = { { name = "on 2 devices", devices = 2 },
    { name = "on 3 ranks", devices = 1, ranks = 3 } }

  local small = [==[
local alone = require "celer.arrays.alone"
local radix, cuts = require("celer.arrays.radix").shape, require("celer.arrays.merge_cuts").shape
radix.each[8], radix.beside_places, radix.part = 2, 2, 1
require("celer.arrays.merge").shape.threads, cuts.samples, cuts.looking = 32, 1, 32
cuts.pieces, cuts.piece, cuts.guess = 3, 1, 32
]==]

  script.everywhere("sorts parts on several, and merges what crosses", small .. [==[
local Pair = celer.struct("Pair", "int key; char tag[3];")
local special = { [0] = 0, -0, math.huge, -math.huge, 0 / 0, 1e-310, -1e-310 }
local cases = {
  { 5000, function(i) return special[i % 50] or (i * 7919) % 997 - 500.5 end },
  { 1003, function(i) return -i end },
  { 1003, function(i) return i end },
  { 1003, function() return 3 end },
  { 1003, function(i) return i < 900 and 5 or i end },
  { 3, function(i) return -i end },
}
for c, case in ipairs(cases) do
  local n, init = unpack(case)
  local results = {}
  for i, parts in ipairs { c % 2 == 0 and 2 or 3, c % 2 == 0 and 7 or 4, 0 } do
    alone.always_parts, cuts.margin = parts, i == 1 and 1.5 or 0 -- a guess is wrong without
    local keys, alone_ = celer.buffer("double", n, { init = init }),
      celer.buffer("double", n, { init = init })
    local index, pairs_ = celer.arange("int", n), celer.buffer(Pair, n, { init = function(i)
      return { key = 3 * i }
    end })
    celer.sort(keys, index, pairs_)
    celer.sort(alone_)
    results[i] = { q:wait(keys, index, alone_, pairs_) }
  end
  for i = 0, n - 1 do
    for k = 1, 3 do
      local wanted = results[3][k](i)
      for r = 1, 2 do
        local x = results[r][k](i)
        if x ~= wanted and (x == x or wanted == wanted) then
          same(("case %d, %d at %d"):format(c, k, i), x, wanted)
        end
      end
    end
    same("pair", results[2][4](i).key, 3 * results[3][2](i))
  end
end
]==], nil, { shapes = several })

  script.everywhere("guesses what crosses, and looks whether it was right", small .. [==[
local n, tasks, run = 6000, 0, alone.run
function alone.run(...)
  if select(7, ...) == 3 then tasks = tasks + 1 end -- that merge 3 pieces
  run(...)
end
alone.always_parts = 2
local function check(what, margin, wanted, init)
  local keys = celer.buffer("double", n, { init = init })
  cuts.margin, tasks = margin, 0
  celer.sort(keys)
  same(what, tasks, wanted)
  local s, wrong = q:wait(keys), 0
  for i = 1, n - 1 do wrong = wrong + (s(i - 1) > s(i) and 1 or 0) end
  same(what .. ": wrong", wrong, 0)
end
check("any", 1.5, 2, function(i) return (i * 7919) % 997 end)
check("sorted", 1.5, 2, function(i) return i end)
check("reverse", 1.5, 2, function(i) return -i end)
check("alike", 1.5, 2, function() return 7 end)
check("two values", 1.5, 2, function(i) return i % 2 end)
check("without a margin", 0, 4, function(i) return (i * 7919) % 997 end)
]==], nil, { shapes = several })

  it("imagines what goes to which in dry runs", function()
    local r = script.run(small .. [==[
alone.always_parts = 4
celer.sort(celer.zeros("double", 1000))
print "done"
]==], { devices = 1, before = { "--backend", "cpu", "--dry-run", "4" } })
    assert.matches("^done\n", r.stdout)
  end)
end)

describe("celer.compact on a GPU", function()
  script.everywhere("puts elements where they belong, as far as there is room", as_on_gpus .. [==[
for _, n in ipairs { 1, 2, 700 } do
  local from = celer.buffer("float", n, { init = function(i) return (i * 37) % 11 - 5 end })
  local results = {}
  for i, how in ipairs { "one", "processor" } do
    as(how)
    local out, short = celer.full("float", n, 99), celer.full("float", math.ceil(n / 9), 99)
    local count = celer.compact(from:gt(0), out, from)
    celer.compact(from:gt(0), short, from)
    results[i] = { q:wait(out, short, count) }
    same("numbers that differ", celer.unique(from).size[0], math.min(n, 11))
  end
  for k = 1, 2 do
    for i = 0, (k == 1 and n or math.ceil(n / 9)) - 1 do
      same(n .. ": element " .. i, results[1][k](i), results[2][k](i))
    end
  end
  same("count", results[1][3](), results[2][3]())
end
]==], nil, { shapes = one })
end)

describe("cg:route on a GPU", function()
  script.everywhere("delivers to elements and bins what the processor does", as_on_gpus .. [==[
celer.struct("mote", "double x; int id;")
local k = celer.kernel [=[
  kernel void line(item<1> it, route<double> sums, route<double2, 2> pairs, route<mote> motes,
                   route<int> tail, route<double> both, int keys) {
    const int i = int(it[0]);
    for (int r = 0; r < i % 4; ++r) sums.push((i * 37 + r * 11) % keys, (i + r) / 7.0);
    if (i % 5 != 0) pairs.push(i % 3, i / 3 % 2, double2{i / 3.0, 1.0});
    if (i % 3 != 1) motes.push((i * 31 + i % 7) % keys, {i / 3.0, i});
    tail.push(i < 35 ? 2 : 1, i); // of less than 32 items that are alike, the last ones
    both.push(i / 40 % keys, i / 3.0); // mostly as the item before, and all places have a value
    both.push((i / 40 + 1) % keys, 0.1);
  }
]=]
-- 256 keys take a digit, or two where some places have none.
for _, case in ipairs { { 1, 1 }, { 40, 4 }, { 900, 300 }, { 2000, 5 }, { 2100, 256 } } do
  local n, keys = unpack(case)
  local results = {}
  for i, how in ipairs { "one", "processor" } do
    as(how)
    local sums, pairs_ = celer.full("double", keys, 2), celer.full("double2", { 3, 2 }, { x = 1 })
    local list, tail = celer.list("mote", { bins = keys }), celer.zeros("int", 3)
    local both = celer.zeros("double", keys)
    for round = 1, 2 do
      q:submit(function(cg)
        cg:parallel_for(celer.box({ 3 }, { 3 + n }), k.line,
          cg:route(sums, "sum", { most = 3, include_current = round == 2 }),
          cg:route(pairs_, round == 2 and "max" or "sum", { include_current = true }),
          cg:route(list, "append"), cg:route(tail, "sum"), cg:route(both, "sum", { most = 2 }),
          keys)
      end)
    end
    results[i] = { q:wait(sums, pairs_, list.offsets, list.values, list.count, tail, both) }
  end
  local one, other = unpack(results)
  for i = 0, keys - 1 do
    same("sum " .. i, one[1](i), other[1](i))
    same("both " .. i, one[7](i), other[7](i))
  end
  for i = 0, 2 do
    for j = 0, 1 do
      same("pair x", one[2](i, j).x, other[2](i, j).x)
      same("pair y", one[2](i, j).y, other[2](i, j).y)
    end
  end
  for i = 0, keys do same("offset " .. i, one[3](i), other[3](i)) end
  for i = 0, n - 1 do
    same("mote", one[4](i).x, other[4](i).x)
    same("mote's id", one[4](i).id, other[4](i).id)
  end
  same("count", one[5](), other[5]())
  for i = 0, 2 do same("tail " .. i, one[6](i), other[6](i)) end
end
]==], nil, { shapes = one })

  script.everywhere("appends values of several types to bins with the same offsets", as_on_gpus
    .. [==[
as "one"
local offsets = celer.zeros("int64_t", 4)
local k = celer.kernel [=[
  template <class T> CELER_FN void push(const item<1> &it, route<T> out) {
    out.push((it[0] + 2) % 3, T(it[0] + 0.5));
  }
  kernel void whole(item<1> it, route<int> out) { push(it, out); }
  kernel void real(item<1> it, route<float> out) { push(it, out); }
]=]
local whole, real = celer.zeros("int", 12), celer.zeros("float", 12)
for step = 1, 3 do
  for kernel, out in celer.sorted_pairs { whole = whole, real = real } do
    q:submit(function(cg)
      cg:parallel_for(12, k[kernel], cg:route(out, "append", { offsets = offsets }))
    end)
  end
end
same("values", whole(4) + 10 * real(4), 2 + 10 * 2.5)
]==], nil, { shapes = one })

  for which, what in ipairs {
    "item (7) pushes to element (-2) of sums, which has (0) to (8)",
    "item (11) pushes 3 values to sums, and there is room for 2 of an item: give { most = 3 }",
    "the bins of list come to 12 values, and it has room for 5: make it with { capacity = 12 }, or "
      .. "without a capacity, and it grows",
  } do
    it("says: " .. what, function()
      local r = script.run(as_on_gpus .. ([==[
as "one"
local k = celer.kernel [=[
  kernel void wrong(item<1> it, route<int> sums, route<int> list, int which) {
    for (int r = 0; r < (which == 2 && it[0] == 11 ? 3 : 1); ++r)
      sums.push(which == 1 && it[0] > 6 ? (it[0] == 7 ? -2 : 9) : it[0] %% 9, 1);
    list.push(it[0] %% 4, 1);
  }
]=]
local sums = celer.zeros("int", 9, { name = "sums" })
local list = celer.list("int", { bins = 4, capacity = %d, name = "list" })
q:submit(function(cg)
  cg:parallel_for(12, k.wrong, cg:route(sums, "sum", { most = 2 }), cg:route(list, "append"), %d)
end)
q:submit(function(cg) -- what is pushed after that hides nothing
  cg:parallel_for(12, k.wrong, cg:route(sums, "max", { most = 2 }), cg:route(list, "append"), 0)
end)
q:wait(sums)
print "not here"
]==]):format(which == 3 and 5 or 12, which), one[1])
      assert.not_equal(0, r.status)
      assert.equal("", r.stdout)
      assert.matches("case.lua:17: cg:route: " .. what .. "\n", r.stderr, 1, true)
    end)
  end

  it("shows nobody what lacks pushes", function()
    for _, get in ipairs { "q:fence(sums):get()", "host()" } do
      local r = script.run(as_on_gpus .. ([==[
as "one"
local k = celer.kernel [=[
  kernel void wrong(item<1> it, route<int> sums, int bad) { sums.push(bad ? -1 : it[0] %% 9, 1); }
]=]
local sums = celer.zeros("int", 9)
local function host()
  q:submit(function(cg)
    cg:host_task(celer.once, function(_, s) print(s(0)) end, cg:read(sums, celer.all))
  end)
end
for bad = 0, 1 do
  q:submit(function(cg) cg:parallel_for(12, k.wrong, cg:route(sums, "sum"), bad) end)
  local got = %s
  if got then print(got(0)) end
end
]==]):format(get), one[1])
      assert.equal("2\n", r.stdout)
      assert.matches("cg:route: item (0) pushes to element (-1) of", r.stderr, 1, true)
    end
  end)

  it("keeps no file of what lacks pushes", function()
    local folder = scratch.folder()
    local r = script.run(as_on_gpus .. ([==[
as "one"
local k = celer.kernel [=[
  kernel void wrong(item<1> it, route<int> sums, int bad) { sums.push(bad ? -1 : it[0] %% 9, 1); }
]=]
local sums = celer.zeros("int", 9)
for bad = 0, 1 do
  q:submit(function(cg) cg:parallel_for(12, k.wrong, cg:route(sums, "sum"), bad) end)
  celer.io.save(%q .. bad .. ".npy", sums)
  celer.checkpoint(%q .. bad, { sums = sums })
end
local start = os.clock()
while os.clock() - start < 0.3 do end
]==]):format(folder .. "/saved", folder .. "/kept"), one[1])
    assert.matches("cg:route: item (0) pushes to element (-1) of", r.stderr, 1, true)
    assert.equal("kept0\nsaved0.npy\n", scratch.output("ls '" .. folder .. "'"))
  end)
end)

describe("cg:route on a GPU with little room", function()
  script.everywhere("leaves to the processor what it cannot sort", as_on_gpus .. [==[
as "one"
local routed, delivered = require "celer.arrays.routed", 0
local deliver = routed.deliver
function routed.deliver(...)
  delivered = delivered + 1
  deliver(...)
end
local k = celer.kernel [=[
  kernel void go(item<1> it, route<int> sums) { sums.push(it[0] % 9, 1); }
]=]
for i, n in ipairs { 9000, 108000 } do
  local sums = celer.zeros("int", 9)
  q:submit(function(cg) cg:parallel_for(n, k.go, cg:route(sums, "sum")) end)
  same("sum", sums(3), n / 9)
  same("delivered", delivered, 1)
end
]==], nil, { shapes = one, before = { "--backend", "cpu",
    "--device-memory", "2M" } })
end)

describe("celer.scan on GPUs", function()
  script.everywhere("looks back over what spans have told, in their order", [==[
local look = celer.kernel [[
  struct joining { // not commutative
    CELER_FN uint64_t operator()(uint64_t a, uint64_t b) const { return 10 * a + b; }
  };
  using tiles = celer::scan_tile<uint64_t, joining, 32, 1, 2>;
  kernel void look(group<1> g, inout<uint64_t, 1> state, out<uint64_t, 1> found, int upto,
                   local<uint64_t, CELER_WARP_ROOM(32)> room) {
    const celer::warp w = {g, &room[0]};
    const tiles t = {&state(0), 9 * 32, 3};
    if (g.local(0) == 0) {
      t.put(t.upto_span(upto), uint64_t(upto + 1));
      for (int k = 0; k < 8; ++k) t.put(t.of_span(k), uint64_t(k > upto ? k + 1 : 0));
    }
    g.barrier();
    const uint64_t sum = t.look_back(w, 8);
    if (g.local(0) == 0) found(0) = sum;
  }
]]
for upto, wanted in ipairs { 2345678, 345678, 45678, 5678, 678, 78, 8 } do
  local state, found = celer.zeros("uint64_t", 1 + 2 * (9 * 32 + 2 * 9)), celer.zeros("uint64_t", 1)
  q:submit(function(cg)
    cg:parallel_for(celer.nd_range(32, 32), look, cg:read_write(state, celer.all),
      cg:discard_write(found, celer.all), upto)
  end)
  same("upto " .. upto, tonumber(found(0)), wanted)
end
]==], nil, { shapes = one })

  script.everywhere("goes on after a mistake", as_on_gpus .. [==[
as "one"
local u, v = celer.full("double", 5000, 2), celer.zeros("double", 5000)
celer.scan("sum", v, u)
refused("inside the function of a q:submit", function()
  q:submit(function() celer.scan("sum", v, u) end)
end)
for _ = 1, 3 do celer.scan("sum", v, u) end
same("sum", v(4999), 10000)
]==], nil, { shapes = one })

  script.everywhere("reads and writes once, and adds up alike on one and on several", as_on_gpus
    .. [==[
local Pair = celer.struct("Pair", "float low; double sum; int n;")
local n = 290000 -- tiles in three spans
local whole = celer.buffer("int64_t", n, { init = function(i) return (i * 7919) % 13 - 6 end })
local fractions = celer.buffer("double", n, { init = function(i) return math.sin(i * i) end })
local own = celer.buffer(Pair, 9000, { init = function(i)
  return { low = i % 7, sum = i, n = 1 }
end })
local add = { combine = "Pair{a.low < b.low ? a.low : b.low, a.sum + b.sum, a.n + b.n}",
  identity = { 100, 0, 0 } }
local results = {}
for i, how in ipairs { "one", "several" } do
  as(how)
  local sums, before, most = celer.like(whole), celer.like(fractions), celer.buffer("double", n - 1)
  local pairs_ = celer.buffer(Pair, 9000)
  celer.copy(own, pairs_)
  celer.scan("sum", sums, whole)
  celer.scan("sum", before, fractions, { exclusive = true })
  celer.copy(fractions, most, { part = celer.box({ 0 }, { n - 1 }) })
  celer.scan("max", most, most)
  celer.scan(add, pairs_, pairs_, { exclusive = true })
  results[i] = { q:wait(sums, before, most, pairs_) }
end
local one, several, sum, largest, exact = results[1], results[2], 0, -math.huge, 0
for i = 0, n - 1 do
  sum = sum + (i * 7919) % 13 - 6
  largest = math.max(largest, math.sin(i * i))
  same("whole", tonumber(one[1](i)), sum)
  same("whole, of several", tonumber(several[1](i)), sum)
  assert(math.abs(one[2](i) - exact) < 1e-9, "fractions")
  same("fractions", several[2](i), one[2](i))
  if i < n - 1 then
    same("most", one[3](i), largest)
    same("most, of several", several[3](i), largest)
  end
  exact = exact + math.sin(i * i)
end
for i = 0, 8999 do
  for k = 1, 2 do
    local p = results[k][4](i)
    same("pair", p.n, i)
    same("pair's sum", p.sum, i * (i - 1) / 2)
    same("pair's least", p.low, i == 0 and 100 or 0)
  end
end
]==], nil, { shapes = one })
end)
