-- celer.list: bins of which each has as many elements as a program puts there.
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

local shapes = {
  { name = "on one rank with two devices", devices = 2 },
  { name = "on three ranks", devices = 1, ranks = 3 },
}

local function everywhere(name, text, check, options)
  options = options or {}
  options.shapes = options.shapes or shapes
  script.everywhere(name, text, check, options)
end

local setup = [==[
celer.struct("particle", "float x; int id;")
local k = celer.kernel [=[
  kernel void seed(item<1> it, route<particle> out, int bins) {
    for (int r = 0; r < it[0] % 3; ++r) out.push(it[0] * 7 % bins, {float(r), int(it[0])});
  }
  kernel void move(item<1> it, in<particle, 1> p, in<int64_t, 0> count, route<particle> out,
                   int bins) {
    if (it[0] >= count()) return;
    out.push((p(it[0]).id + int(p(it[0]).x)) % bins, {p(it[0]).x + 1, p(it[0]).id});
  }
  kernel void push_x(item<1> it, inout<particle, 1> p, in<int64_t, 0> count) {
    if (it[0] < count()) p(it[0]).x += 0.5f;
  }
  kernel void sum(item<1> it, in<int64_t, 1> offsets, in<particle, 1> p, out<float, 1> s) {
    float sum = 0;
    for (long i = offsets(it[0]); i < offsets(it[0] + 1); ++i) sum += p(i).x;
    s(it[0]) = sum;
  }
  kernel void pair(item<2> it, route<int, 2> out) { out.push(it[1], it[0], int(it.linear())); }
]=]
local bins = 5
local function text(list)
  local out = {}
  for b, all in celer.sorted_pairs(list:get()) do
    for i, p in ipairs(all) do all[i] = p.id .. "/" .. p.x end
    out[#out + 1] = b .. ": " .. table.concat(all, " ")
  end
  return table.concat(out, "; ")
end
local function seed(list, n, options)
  options = options or {}
  options.most = 2
  q:submit(function(cg) cg:parallel_for(n, k.seed, cg:route(list, "append", options), bins) end)
end
]==]

describe("a list", function()
  everywhere("is filled by routes, and is elements, bins and their number", setup .. [==[
local list = celer.list("particle", { bins = bins, name = "p" })
local sums = celer.buffer("float", { bins })
same("at first", text(list), "0: ; 1: ; 2: ; 3: ; 4: ")
seed(list, 9)
same("room", list.capacity, 18)
same("filled", text(list), "0: 5/0 5/1; 1: 8/0 8/1; 2: 1/0; 3: 4/0; 4: 2/0 2/1 7/0")
same("count", tonumber(list.count()), 9)
for step = 1, 2 do
  q:submit(function(cg)
    cg:parallel_for(list.capacity, k.move, cg:read(list.values), cg:read(list.count),
      cg:route(list, "append"), bins)
  end)
  q:parallel_for(list.capacity, k.push_x, list.values, list.count)
  q:submit(function(cg)
    cg:parallel_for(bins, k.sum, cg:read(list.offsets, list.ends),
      cg:read(list.values, list.ranges), cg:discard_write(sums))
  end)
end
same("moved", text(list), "0: 8/4 4/3; 1: 5/3; 2: 5/4 1/3; 3: 2/3 7/3; 4: 8/3 2/4")
local s = q:wait(sums)
same("sum of bin 3", s(3), 6)
same("room as before", list.capacity, 18)
seed(list, 3, { include_current = true })
same("behind what was there", text(list),
  "0: 8/4 4/3; 1: 5/3; 2: 5/4 1/3 1/0; 3: 2/3 7/3; 4: 8/3 2/4 2/0 2/1")
same("more room", list.capacity, 27)
list:fit(1)
same("as much as it needs", list.capacity, 13)
same("still", tonumber(list.count()), 12)
same("the last one", text(list):match "[^ ]*$", "2/1")
same("as text", tostring(list), "list p: particle in [5] bins, room for 13")
local later = q:fence(list, sums)
local held, beside = q:wait(list, sums)
same("waited for", #held[4], 4)
same("beside it", beside(3), 6)
seed(list, 3)
local before, sums_before = later:get()
same("as it was", #before[2], 3)
same("as they were", sums_before(3), 6)
same("another capture", #q:wait(celer.capture(list))[4], 2)
refused("the list p is captured whole", function()
  celer.capture(list, celer.box({ 0 }, { 1 }))
end)
]==])

  everywhere("has bins of several dimensions, and may be kept", setup .. [==[
local list = celer.list("int", { bins = { 3, 2 }, capacity = 6, name = "grid" })
q:submit(function(cg) cg:parallel_for({ 2, 3 }, k.pair, cg:route(list, "append")) end)
local bins_of = list:get()
for b = 0, 5 do same("bin " .. b, bins_of[b][1], b % 2 * 3 + math.floor(b / 2)) end
local folder = os.tmpname() .. ".kept"
celer.checkpoint(folder, { values = list.values, offsets = list.offsets })
list:free()
local kept = celer.restore(folder)
local again = celer.list("int", { bins = { 3, 2 }, values = kept.values, offsets = kept.offsets })
same("restored", again:get()[3][1], 4)
same("its count", tonumber(again.count()), 6)
q:submit(function(cg)
  cg:parallel_for({ 1, 1 }, k.pair, cg:route(again, "append", { include_current = true }))
end)
same("appended", #again:get()[0], 2)
if celer.ranks() == 1 then os.execute("rm -r '" .. folder .. "'") end
]==], nil, { shapes = { { name = "on one rank", devices = 1 } } })

  it("is kept as such, and restored on other ranks", function()
    local text = ('local folder = "%s/kept"\n'):format(scratch.folder()) .. [==[
local push = celer.kernel(function(i, j, l) l:push(i, j, 10 * i + j) end)
local kept, extra = celer.restore(folder)
if not kept then
  local list = celer.list("int", { bins = { 3, 4 }, capacity = 40, name = "grid" })
  local u = celer.buffer("int", 3, { init = 7 })
  push({ 3, 4 }, celer.route(list, "append"))
  celer.checkpoint(folder, { list = list, [5] = list, u = u }, "extra")
  push({ 3, 4 }, celer.route(list, "append", { include_current = true }))
  refused("'list.values' has the name of what is kept of the list 'list'", function()
    celer.checkpoint(folder, { list = list, ["list.values"] = u }) end)
  return q:wait()
end
same("bins", table.concat(kept.list.bins, " ") .. kept.u(1) .. extra, "3 47extra")
same("room", kept.list.capacity, 40)
same("parts", kept["list.values"], nil)
push({ 3, 4 }, celer.route(kept.list, "append", { include_current = true }))
same("count", tonumber(kept.list.count()), 24)
same("one more", kept.list:get()[7][2], 13)
same("under a number", kept[5]:get()[7][1], 13)
for _ = 1, 2 do push({ 3, 4 }, celer.route(kept.list, "append", { include_current = true })) end]==]
    local r = script.run(text, { devices = 1, ranks = 3 })
    assert.equal("", r.stderr)
    assert.equal(0, r.status)
    for ranks = 1, 2 do
      r = script.run(text, { devices = 1, ranks = ranks > 1 and ranks or nil })
      assert.matches(":22: cg:route: the bins of list come to 48 values, and it has room for 40",
        r.stderr)
    end
  end)

  it("has no more elements than there is room for", function()
    local r = script.run(setup .. [==[
local list = celer.list("particle", { bins = bins, capacity = 8, name = "p" })
seed(list, 9)
q:wait()]==], shapes[2])
    assert.not_equal(0, r.status)
    assert.matches("/case%.lua:34: cg:route: the bins of p come to 9 values, and it has room for "
      .. "8: make it with { capacity = 9 }, or without a capacity, and it grows", r.stderr)
  end)

  -- What is pushed seldom, and elements that come, go and split: by bounds of one step on
  -- another alone each list would have room for billions.
  everywhere("has room for about as much as it holds, however long it grows", [==[
local k = celer.kernel [=[
  kernel void rare(item<1> it, route<int> out, int step) {
    if (it[0] == step % 12) out.push(it[0] % 4, step);
  }
  kernel void all(item<1> it, route<int> out) { out.push(it[0] % 4, int(it[0])); }
  kernel void lose(item<1> it, in<int, 1> p, in<int64_t, 0> count, route<int> out) {
    if (it[0] < count() && p(it[0]) % 3 != 0) out.push(p(it[0]) % 4, p(it[0]) + 1);
  }
  kernel void split(item<1> it, in<int, 1> p, in<int64_t, 0> count, route<int> out) {
    if (it[0] >= count()) return;
    out.push(p(it[0]) % 4, p(it[0]) + 1);
    if (p(it[0]) == 3) out.push(0, 100);
  }
]=]
local behind = { include_current = true }
local seldom = celer.list("int", { bins = 4, name = "seldom" })
local cloud = celer.list("int", { bins = 4, name = "cloud" })
local n = 0
local function over(kernel, options)
  q:submit(function(cg)
    cg:parallel_for(cloud, kernel, cg:read(cloud.values), cg:read(cloud.count),
      cg:route(cloud, "append", options))
  end)
end
for step = 1, 40 do
  q:parallel_for(12, k.rare, celer.route(seldom, "append", behind), step)
  q:parallel_for(12, k.all, celer.route(cloud, "append", behind))
  over(k.lose)
  over(k.split, { most = 2 })
end
same("as many as were pushed", tonumber(seldom.count()), 40)
same("the last ones", #seldom:get()[0], 10)
same("what is left", tonumber(cloud.count()), 14)
if seldom.capacity > 150 or cloud.capacity > 150 then
  error(("room for %d and %d"):format(seldom.capacity, cloud.capacity))
end
]==])

  everywhere("is a range, of kernels in Lua and C++", [==[
local list = celer.list("int", { bins = 4, name = "l" })
local other = celer.list("int", { bins = 2, name = "other" })
local seed = celer.kernel(function(i, l) l:push(i % 4, i) end)
local move = celer.kernel(function(i, count, now, l, o)
  if i < count() then
    l:push(now[i] % 2, now[i] + 1)
    o:push(0, now[i])
  end
end)
seed(10, celer.route(list, "append"))
for _ = 1, 4 do
  move(list, list.count, list.values, celer.route(list, "append"), celer.route(other, "append"))
end
local double = celer.kernel(function(i, v) v[i] = 2 * v[i] end)
local twice = q:group(function(cg) cg:parallel_for(list, double, list.values) end)
for _ = 1, 4 do twice() end
local bins = list:get()
print(#bins[0], #bins[1], bins[0][1], #other:get()[0])
]==], function(out) assert.equal("5\t5\t80\t10\n", out) end)

  it("has only its elements push where it is the range", function()
    local r = script.run([==[
local k = celer.kernel [=[
  kernel void all(item<1> it, in<int64_t, 0> count, route<int> out) { out.push(0, 1); }
]=]
local list = celer.list("int", { bins = 2, name = "l" })
celer.kernel(function(i, l) if i == 3 then l:push(0, i) end end)(10, celer.route(list, "append"))
for _ = 1, 4 do
  celer.kernel(function(i, l) if i == 3 then l:push(0, i) end end)(9,
    celer.route(list, "append", { include_current = true }))
end
q:wait(list.count)
q:submit(function(cg)
  cg:parallel_for(list, k.all, cg:read(list.count), cg:route(list, "append", { most = 1 }))
end)
q:submit(function(cg)
  cg:parallel_for(list, k.all, cg:read(list.count),
    cg:route(list, "append", { include_current = true }))
end)
q:wait()]==], shapes[2])
    assert.not_equal(0, r.status)
    assert.matches("cg:route: the bins of l come to %d+ values, and it has room for %d+: where a "
      .. "list is the range, items from its count on must push nothing", r.stderr)
  end)

  everywhere("is refused at the user's line", setup .. [==[
refused("{ bins = n } says how many bins there are", function() celer.list("int") end)
refused("there is at least one bin", function() celer.list("int", { bins = 0 }) end)
refused("the capacity is how many elements", function()
  celer.list("int", { bins = 3, capacity = 0.5 }) end)
refused("did you mean capacity?", function() celer.list("int", { bins = 3, capacty = 5 }) end)
refused("unknown element type", function() celer.list("itn", { bins = 3 }) end)
refused("values and offsets are two buffers", function()
  celer.list("int", { bins = 3, values = celer.buffer("int", { 4 }) }) end)
refused("with 4 elements for 3 bins", function()
  celer.list("int", { bins = 3, values = celer.buffer("int", { 4 }),
    offsets = celer.buffer("int64_t", { 3 }, { init = 0 }) }) end)
local list = celer.list("particle", { bins = bins, name = "p" })
refused('p is a list, to whose bins is appended: write "append"', function()
  celer.route(list, "sum") end)
refused("p has offsets of its own", function()
  celer.route(list, "append", { offsets = list.offsets }) end)
refused("argument 1 of kernel pair: the kernel declares route<int, 2>, but p has 1 dimension",
  function() q:parallel_for({ 2, 3 }, k.pair, celer.route(list, "append")) end)
refused("cannot have the list p grow, which has room for 1 and may come to 6", function()
  q:submit(function(cg)
    cg:when(celer.scalar("int", 0))
    cg:parallel_for(3, k.seed, cg:route(list, "append", { most = 2 }), bins)
  end) end)
list:fit(20)
q:submit(function(cg)
  cg:when(celer.scalar("int", 0))
  cg:parallel_for(3, k.seed, cg:route(list, "append", { most = 2 }), bins)
end)
same("skipped", tonumber(list.count()), 0)
refused("how many more elements", function() list:fit(-1) end)
refused("not a list (its buffers are values, offsets and count)", function()
  q:submit(function(cg) cg:read(list) end) end)
refused("list.values and list.offsets, and pass them", function()
  q:submit(function(cg) cg:host_task(celer.once, function(_, l) return l end, list) end) end)
list:free()
refused("what p is routed to was freed", function()
  q:submit(function(cg) cg:parallel_for(3, k.seed, cg:route(list, "append", { most = 2 }), 1) end)
end)
]==], nil, { shapes = { { name = "on one rank", devices = 1 } } })

  everywhere("grows under kernels in Lua that are given it again", [==[
local list = celer.list("int", { bins = 4, name = "l" })
local push = celer.kernel(function(i, l) l:push(i % 4, i) end)
local to = celer.route(list, "append", { include_current = true })
for n = 10, 30, 10 do push(n, to) end
push(40, celer.route(list, "append", { include_current = true }))
print(tonumber(list.count()))
]==], function(out) assert.equal("100\n", out) end)

  everywhere("takes structs that kernels in Lua make", [==[
celer.struct("mote", "double x; int id; float2 v;")
local list = celer.list("mote", { bins = 4, name = "l" })
local seed = celer.kernel(function(i, l)
  for k = 0, 1 do
    local one = { x = i / 2, id = i, v = { x = k, y = i } }
    if k == 1 then one.x = -1 end
    l:push(i % 4, one)
  end
end)
seed(10, celer.route(list, "append", { most = 2 }))
local bin = list:get()[1]
print(#bin, bin[3].x, bin[3].id, bin[3].v.y, bin[4].x, bin[4].v.x)
]==], function(out) assert.equal("6\t2.5\t5\t5\t-1\t1\n", out) end)

  -- A rank alone looks at no offsets that routes alone have written.
  it("has its offsets looked at once somebody else has written them", function()
    local text = [==[
local list = celer.list("int", { bins = 4, name = "l" })
local sums = celer.zeros("int", 4)
celer.kernel(function(i, l) l:push(i %% 4, i) end)(12, celer.route(list, "append"))
local sum = celer.kernel(function(b, first, now, sums)
  for k = first[b], first[b + 1] - 1 do sums[b] = sums[b] + now[k] end
end)
sum(4, list.offsets, list.values, sums)
print(q:wait(sums)(3))
io.stdout:flush()
celer.kernel(function(i, first) first[i] = 2 * i end)(%s, list.offsets)
sum(4, list.offsets, list.values, sums)
print(q:wait(sums)(3))]==]
    local r = script.run(text:format("celer.box({ 1 }, { 5 })"), shapes[1])
    assert.same({ 0, "21\n29\n" }, { r.status, r.stdout })
    r = script.run(text:format("celer.box({ 3 }, { 5 })"):gsub("2 %* i", "7 * i"), shapes[1])
    assert.equal("21\n", r.stdout)
    assert.matches("l.offsets(2) is 6 and l.offsets(3) is 21: that is rows 6 to 20; l has rows 0 "
      .. "to 11; item 2 reads it", r.stderr, 1, true)
  end)
end)
