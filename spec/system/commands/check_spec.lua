-- celer check: what tasks touch beside what they declare.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local function write(text)
  local name = scratch.path(".lua")
  scratch.write(name, 'local celer = require "celer"\nlocal q = celer.queue()\n' .. text)
  return name
end

-- What `celer check` says of a script, by line; file names become "x".
local function check(text, ranks, options)
  local name = write(text)
  local args = { "check" }
  for _, word in ipairs(options or {}) do args[#args + 1] = word end
  args[#args + 1] = name
  local r = celer.run(args, { ranks = ranks })
  os.remove(name)
  r.report = r.stderr:gsub(name:gsub("%p", "%%%0"), "x")
  return r
end

-- Each script has one mistake; its first line is line 3.
local function planted(what, text, ...)
  local wanted = { ... }
  for _, ranks in ipairs { false, 2 } do
    it(("finds %s, on %s"):format(what, ranks and "2 ranks" or "one rank"), function()
      local r = check(text, ranks or nil)
      assert.is_false(r.timed_out)
      for _, pattern in ipairs(wanted) do assert.matches(pattern, r.report) end
      assert.equal(1, select(2, r.report:gsub(": mistake: ", "")))
      assert.matches("\nceler check: 1 mistake found", r.report)
      assert.equal(1, r.status)
    end)
  end
end

-- The same for what is no mistake.
local function hinted(what, text, ...)
  local wanted = { ... }
  for _, ranks in ipairs { false, 2 } do
    it(("hints at %s, on %s"):format(what, ranks and "2 ranks" or "one rank"), function()
      local r = check(text, ranks or nil)
      for _, pattern in ipairs(wanted) do assert.matches(pattern, r.report) end
      assert.matches("\nceler check: no mistakes found, 1 hint; ", r.report)
      assert.equal(0, r.status)
    end)
  end
end

describe("celer check", function()
  planted("a stencil that reads further than its mapper says", [==[
local u = celer.buffer("float", { 24 }, { name = "u", init = function() return 1 end })
local v = celer.buffer("float", { 24 }, { name = "v" })
local k = celer.kernel [=[
  kernel void blur(item<1> it, in<float, 1> u, out<float, 1> v) {
    const int i = it[0];
    v(i) = u(max(i - 2, 0)) + u(min(i + 1, 23));
  }
]=]
for _ = 1, 3 do
  q:submit(function(cg)
    local a = cg:read(u, celer.neighborhood(1))
    cg:parallel_for({ 24 }, k, a, cg:discard_write(v))
  end)
end
q:drain(v)
]==], "^x:13: mistake: kernel blur: cg:read%(u%) touches what it was not promised: "
    .. "item %((%d+)%), whose chunk %[%1, %d+%) was promised %[%d+, %d+%), touches element "
    .. "%(%d+%); %d+ such accesses\n")

  planted("an element outside in the last of three dimensions", [==[
local u = celer.buffer("int", { 12, 3, 5 }, { name = "u", init = function() return 1 end })
local v = celer.buffer("int", { 12, 3, 5 }, { name = "v" })
local k = celer.kernel [=[
  kernel void shift(item<3> it, in<int, 3> u, out<int, 3> v) {
    v(it[0], it[1], it[2]) = u(it[0], it[1], it[1] == 1 ? it[2] + 1 : it[2]);
  }
]=]
q:submit(function(cg) cg:parallel_for({ 12, 3, 5 }, k, cg:read(u), cg:discard_write(v)) end)
q:drain(v)
]==], "^x:10: mistake: kernel shift: cg:read%(u%) touches what it was not promised: "
    .. "item %((%d+), 1, 4%), whose chunk %[(%d+), (%d+)%) x %[0, 3%) x %[0, 5%) was promised "
    .. "%[%2, %3%) x %[0, 3%) x %[0, 5%), touches element %(%1, 1, 5%); 12 such accesses\n")

  -- That is all there is to say of it.
  planted("an access that only goes elsewhere", [==[
local u = celer.buffer("int", { 24 }, { name = "u", init = function() return 1 end })
local v = celer.buffer("int", { 24 }, { name = "v" })
local k = celer.kernel [=[
  kernel void across(item<1> it, in<int, 1> u, out<int, 1> v) { v(it[0]) = u(it[0] ^ 16); }
]=]
q:submit(function(cg) cg:parallel_for({ 8 }, k, cg:read(u), cg:discard_write(v)) end)
q:wait(celer.capture(v, celer.box({ 0 }, { 8 })))
]==], "^x:8: mistake: kernel across: cg:read%(u%) touches what it was not promised: item %(%d+%), "
    .. "[^\n]*; 8 such accesses\nceler check: 1 mistake found; ")

  planted("a write that belongs to another chunk", [==[
local v = celer.buffer("int", { 24 }, { name = "v", init = function() return 0 end })
local k = celer.kernel [=[
  kernel void spread(item<1> it, inout<int, 1> v) {
    v(it[0]) += 1;
    v(min((int)it[0] + 1, 23)) += 1;
  }
]=]
q:submit(function(cg) cg:parallel_for({ 24 }, k, cg:read_write(v)) end)
q:drain(v)
]==], "^x:10: mistake: kernel spread: cg:read_write%(v%) touches what it was not promised: "
    .. "item %(%d+%), whose chunk %[%d+, (%d+)%) was promised %[%d+, %1%), touches element %(%1%), "
    .. "which another chunk writes, too; %d+ such accesses\n")

  planted("a reducer's index outside its array", [==[
local h = celer.buffer("int", { 3, 2 }, { name = "h" })
local sum = celer.buffer("int", {}, { name = "sum" })
local k = celer.kernel [=[
  kernel void count(item<1> it, reducer<int, 2> h, reducer<int> sum) {
    h(it[0] % 3, it[0] == 7 ? 4 : 0) += 1;
    sum += 1;
  }
]=]
for _ = 1, 2 do
  q:submit(function(cg)
    cg:parallel_for({ 24 }, k, cg:reduce(h, "sum"), cg:reduce(sum, "sum"))
  end)
end
local counts, n = q:drain(h, sum)
assert(counts(1, 0) == 7 and n() == 24)
]==], "^x:13: mistake: kernel count: cg:reduce%(h%) hands values to what is outside the array: "
    .. "item %(7%), whose chunk %[%d+, %d+%), to element %(1, 4%) of %[0, 3%) x %[0, 2%); "
    .. "2 such values\n")

  -- The task stays whole then, so the rest is looked at as well.
  planted("chunks that write one element", [==[
local v = celer.buffer("int", { 24 }, { name = "v", init = function() return 0 end })
local k = celer.kernel "kernel void set(item<1> it, inout<int, 1> v) { v(it[0]) = it[0] + 1; }"
for _ = 1, 2 do
  q:submit(function(cg)
    cg:parallel_for({ 24 }, k, cg:read_write(v, celer.neighborhood(1)))
  end)
end
local got = q:drain(v)
for i = 0, 23 do assert(got[i] == i + 1) end
]==], "^x:7: mistake: task 'set': its read_write access to buffer 'v' overlaps: chunks "
    .. "%[0, 12%) and %[12, 24%) both write element %(11%); ")

  planted("what lies between the boxes of a mapper", [==[
local u = celer.buffer("int", { 24 }, { name = "u", init = function(i) return i end })
local v = celer.buffer("int", { 24 }, { name = "v" })
local k = celer.kernel [=[
  kernel void ends(item<1> it, in<int, 1> u, out<int, 1> v) {
    v(it[0]) = u(0) + u(23) + (it[0] == 5 ? u(11) : 0);
  }
]=]
local function ends() return celer.box({ 0 }, { 2 }), celer.box({ 22 }, { 24 }) end
q:submit(function(cg)
  cg:parallel_for({ 24 }, k, cg:read(u, ends),
    cg:discard_write(v))
end)
q:drain(v)
]==], "\n?x:12: mistake: kernel ends: cg:read%(u%) touches what it was not promised: item %(5%), "
    .. "whose chunk %[%d+, %d+%) was promised %[0, 24%), touches element %(11%); 1 such access\n")

  planted("a promised write that does not happen", [==[
local v = celer.buffer("int", { 12, 4 }, { name = "v" })
local k = celer.kernel [=[
  kernel void inner(item<2> it, out<int, 2> v) {
    if (it[1] > 0) v(it[0], it[1]) = 1;
  }
]=]
q:submit(function(cg)
  cg:name "the inside"
  cg:parallel_for({ 12, 4 }, k, cg:discard_write(v))
end)
q:drain(v)
]==], "^x:11: mistake: kernel inner %(task 'the inside'%): cg:discard_write%(v%) does not "
    .. "write all that it promises, and what it leaves out is undefined: element %((%d+), 0%), in "
    .. "chunk %[%1, %d+%) x %[0, 4%); 12 such elements; cg:write keeps what was there\n")

  planted("a kernel that reads what nobody wrote", [==[
local u = celer.buffer("int", { 12 }, { name = "u" })
local v = celer.buffer("int", { 12 }, { name = "v" })
local k = celer.kernel [=[
  kernel void set(item<1> it, out<int, 1> u) { u(it[0]) = 1; }
  kernel void sum(item<1> it, in<int, 1> u, out<int, 1> v) {
    v(it[0]) = it[0] < 10 ? u(it[0]) : u(it[0] - 1);
  }
]=]
q:submit(function(cg) cg:parallel_for({ 10 }, k.set, cg:discard_write(u)) end)
q:submit(function(cg)
  local a = cg:read(u, celer.neighborhood(1))
  cg:parallel_for({ 12 }, k.sum, a, cg:discard_write(v))
end)
q:drain(v)
]==], "^x:13: mistake: kernel sum: cg:read%(u%) reads what nobody wrote: element %(10%); "
    .. "1 such element\n")

  planted("a reduction onto what nobody wrote", [==[
local s = celer.buffer("int", { 2 }, { name = "s" })
local k = celer.kernel "kernel void f(item<1> it, reducer<int, 1> s) { s(it[0]) += 1; }"
q:submit(function(cg)
  cg:parallel_for({ 2 }, k, cg:reduce(s, "sum", { include_current = true }))
end)
q:drain(s)
]==], "^x:6: mistake: cg:reduce with include_current begins with what nobody wrote: "
    .. "element %(0%); %d such elements\n")

  planted("a capture of what nobody wrote", [==[
local u = celer.buffer("int", { 12 }, { name = "u" })
local k = celer.kernel [=[ kernel void set(item<1> it, out<int, 1> u) { u(it[0]) = 1; } ]=]
q:submit(function(cg) cg:parallel_for({ 10 }, k, cg:discard_write(u)) end)
q:drain(u)
]==], "^x:6: mistake: fence reads what nobody wrote: element %(10%); ")

  planted("a stencil in place", [==[
local u = celer.buffer("float", { 24 }, { name = "u", init = function(i) return i end })
local k = celer.kernel [=[
  kernel void mean(item<1> it, in<float, 1> u, inout<float, 1> w) {
    const int i = it[0];
    if (i > 0 && i < 23) w(i) = (u(i - 1) + u(i + 1)) / 2;
  }
]=]
for _ = 1, 3 do
  q:submit(function(cg)
    local r = cg:read(u, celer.neighborhood(1))
    cg:parallel_for({ 24 }, k, r, cg:read_write(u))
  end)
end
q:drain(u)
]==], "^x:12: mistake: kernel mean: cg:read%(u%) reads what another chunk writes: element "
    .. "%(%d+%), read by chunk %[%d+, %d+%), written by chunk %[%d+, %d+%); %d+ such cases; ")

  it("finds what only meets between two devices", function()
    local r = check([==[
local u = celer.buffer("int", { 6, 4 }, { name = "u", init = function(i) return i end })
local k = celer.kernel [=[
  kernel void copy(item<2> it, in<int, 2> u, out<int, 2> w) {
    w(it[0] + 3, it[1]) = u(it[0] == 2 && it[1] == 1 ? 3 : it[0], it[1]);
  }
]=]
q:submit(function(cg)
  local r = cg:read(u, celer.all)
  local w = cg:discard_write(u, function(c)
    return celer.box({ c.min[0] + 3, c.min[1] }, { c.max[0] + 3, c.max[1] })
  end)
  cg:parallel_for({ 3, 4 }, k, r, w)
end)
q:drain(u)
]==])
    assert.matches("\n?x:10: mistake: kernel copy: cg:read%(u%) reads what another chunk writes: "
      .. "element %(3, 1%), read by chunk %[2, 3%) x %[0, 4%), written by chunk "
      .. "%[0, 1%) x %[0, 4%); 1 such case; no chunk waits for another\n", r.report)
    assert.equal(1, select(2, r.report:gsub(": mistake: ", "")))
    assert.equal(1, r.status)
  end)

  -- Red cells from black ones.
  for _, options in ipairs { "", ", { disjoint = true }" } do
    planted("items that read what others of their chunk write" .. options, ([==[
local u = celer.buffer("double", { 24, 8 }, { name = "u", init = 1 })
local k = celer.kernel [=[
  kernel void smooth(item<2> it, in<double, 2> near, inout<double, 2> u) {
    const int i = it[0], j = it[1];
    u(i, j) = near(i, j - 1) + near(i, j + 1);
  }
]=]
q:submit(function(cg)
  local near = cg:read(u, celer.neighborhood(0, 1)OPTIONS)
  cg:parallel_for(celer.box({ 0, 1 }, { 24, 7 }), k, near, cg:read_write(u))
end)
]==]):gsub("OPTIONS", options), "x:11: mistake: kernel smooth: cg:read%(u%) reads what another "
      .. "item writes: element %((%d+), 1%), read by item %(%1, 2%), written by item %(%1, 1%); "
      .. "144 such elements; no item waits for another")
  end

  planted("one of three reads in a line", [==[
local u = celer.buffer("double", { 24 }, { name = "u", init = 1 })
local v = celer.buffer("double", { 24 }, { name = "v" })
local k = celer.kernel [=[
  kernel void sum(item<1> it, in<double, 1> a, in<double, 1> b, in<double, 1> c, out<double, 1> v) {
    const int i = it[0];
    v(i) = a(i) + b(i > 0 ? i - 1 : 0) + c(i);
  }
]=]
q:submit(function(cg)
  cg:parallel_for({ 24 }, k, cg:read(u), cg:read(u), cg:read(u), cg:discard_write(v))
end)
]==], "x:12: mistake: kernel sum: the second cg:read%(u%) of this line touches what it was "
    .. "not promised")

  planted("what a function submits that is called twice", [==[
local u = celer.buffer("double", { 24 }, { name = "u", init = 1 })
local v = celer.buffer("double", { 24 }, { name = "v" })
local k = celer.kernel [=[
  kernel void shift(item<1> it, in<double, 1> a, out<double, 1> v) {
    v(it[0]) = a(it[0] > 0 ? it[0] - 1 : 0);
  }
]=]
local function shift()
  q:submit(function(cg)
    cg:parallel_for({ 24 }, k, cg:read(u), cg:discard_write(v))
  end)
end
shift()
shift()
]==], "x:12: mistake: kernel shift, called from %S*:15 or %S*:16: cg:read%(u%) touches")

  it("does not mind red and black fields in place, nor groups that wait for each other", function()
    local r = check([==[
local u = celer.buffer("double", { 16, 16 }, { name = "u", init = 1 })
local v = celer.buffer("double", { 64 }, { name = "v", init = 1 })
local k = celer.kernel [=[
  kernel void half(item<2> it, in<double, 2> near, inout<double, 2> u, int color) {
    const int i = it[0], j = it[1];
    if ((i + j) % 2 != color) return;
    u(i, j) = (near(i - 1, j) + near(i + 1, j) + near(i, j - 1) + near(i, j + 1)) / 4;
  }
  kernel void turn(group<1> g, in<double, 1> old, inout<double, 1> v) {
    const int i = g.global(0), other = g.global(0) - g.local(0) + g.size(0) - 1 - g.local(0);
    const double x = old(other);
    g.barrier();
    v(i) = x;
  }
]=]
for step = 0, 3 do
  q:submit(function(cg)
    local near = cg:read(u, celer.neighborhood(1, 1), { disjoint = true })
    cg:parallel_for(celer.box({ 1, 1 }, { 15, 15 }), k.half, near, cg:read_write(u), step % 2)
  end)
end
q:submit(function(cg)
  cg:parallel_for(celer.nd_range({ 64 }, { 8 }), k.turn, cg:read(v), cg:read_write(v))
end)
q:wait()
]==])
    assert.matches("\nceler check: no mistakes found", "\n" .. r.report)
  end)

  it("does not mind an update in place that reads what stays as it is", function()
    for _, ranks in ipairs { false, 2 } do
      local r = check([==[
local u = celer.buffer("int", { 24 }, { name = "u", init = function(i) return i end })
local k = celer.kernel [=[
  kernel void red(item<1> it, in<int, 1> u, inout<int, 1> w) {
    const int i = it[0];
    if (i % 2 == 1 && i < 23) w(i) = u(i - 1) + u(i + 1);
  }
]=]
q:submit(function(cg)
  local r = cg:read(u, celer.neighborhood(1))
  cg:parallel_for({ 24 }, k, r, cg:read_write(u))
end)
q:drain(u)
]==], ranks or nil)
      assert.not_matches("mistake:", r.report)
      assert.equal(0, r.status)
    end
  end)

  planted("a host task that does not write what it promised", [==[
local v = celer.buffer("int", { 6 }, { name = "v" })
q:submit(function(cg)
  cg:host_task({ 6 }, function(part, v)
    for i = part.min[0], part.max[0] - 1 do
      if i ~= 4 then v[i] = i end
    end
  end,
    cg:discard_write(v))
end)
q:drain(v)
]==], "^x:10: mistake: host task: cg:discard_write%(v%) does not write all that it promises, "
    .. "and what it leaves out is undefined: element %(4%), in chunk %[%d, %d%); 1 such element; ")

  planted("a host task that reads one element too far", [==[
local u = celer.buffer("double", { 12 }, { name = "u", init = function(i) return i end })
local seen = celer.buffer("double", { 12 }, { name = "seen" })
q:submit(function(cg)
  local r = cg:read(u)
  cg:host_task({ 12 }, function(part, u, seen)
    for i = part.min[0], part.max[0] - 1 do seen[i] = u[i + 1] end
    assert(u(1LL * part.max[0]) == 0)
  end, r, cg:discard_write(seen))
end)
print(q:drain(seen)[11])
]==], "^x:6: mistake: host task: cg:read%(u%) touches what it was not promised: it, whose chunk "
    .. "%[%d+, (%d+)%) was promised %[%d+, %1%), touches element %(%1%); %d+ such accesses\n")

  planted("a host task that writes one element too far", [==[
local v = celer.buffer("int64_t", { 12, 2 }, { name = "v", init = function() return 7 end })
q:submit(function(cg)
  local rows = cg:write(v, function(c)
    return celer.box({ c.min[0], 0 }, { c.max[0], 2 })
  end)
  cg:host_task({ 12 }, function(part, v)
    for i = part.min[0], part.max[0] do v:set(i, 1, i) end
  end, rows)
end)
local got = q:drain(v)
for i = 0, 11 do assert(got(i, 0) == 7 and got(i, 1) == i) end
]==], "^x:5: mistake: host task: cg:write%(v%) touches what it was not promised: it, whose chunk "
    .. "%[%d+, (%d+)%) was promised %[%d+, %1%) x %[0, 2%), touches element %(%1, 1%)")

  planted("a host task that touches what lies between its boxes", [==[
local u = celer.buffer("int", { 6 }, { name = "u", init = function(i) return i end })
q:submit(function(cg)
  local ends = cg:read(u, function() return celer.box({ 0 }, { 1 }), celer.box({ 5 }, { 6 }) end)
  cg:host_task(celer.once, function(_, u) return u[0] + u[5] + u[3] end, ends)
end)
q:drain()
]==], "^x:5: mistake: host task: cg:read%(u%) touches what it was not promised: it, which was "
    .. "promised %[0, 6%), touches element %(3%); 1 such access\n")

  hinted("an access that is never used", [==[
local u = celer.buffer("float", { 24 }, { name = "u", init = function() return 1 end })
local v = celer.buffer("float", { 24 }, { name = "v" })
local k = celer.kernel [=[
  kernel void one(item<1> it, in<float, 1> u, out<float, 1> v) { v(it[0]) = 1; }
]=]
q:submit(function(cg)
  cg:parallel_for({ 24 }, k, cg:read(u), cg:discard_write(v))
end)
q:drain(v)
]==], "^x:9: hint: kernel one: cg:read%(u%) is never used; 96 bytes may be moved for it in vain\n")

  hinted("a mapper that promises too much", [==[
local u = celer.buffer("double", { 24 }, { name = "u", init = function() return 1 end })
local v = celer.buffer("double", { 24 }, { name = "v" })
local k = celer.kernel [=[
  kernel void same(item<1> it, in<double, 1> u, out<double, 1> v) { v(it[0]) = u(it[0]); }
]=]
for _ = 1, 4 do
  q:submit(function(cg)
    cg:parallel_for({ 24 }, k, cg:read(u, celer.all), cg:discard_write(v))
  end)
end
q:drain(v)
]==], "^x:10: hint: kernel same: cg:read%(u%) promises more than is ever touched: %d+%.?%d* %S+, "
    .. "%d+ %%, may be moved in vain\n")

  it("hints at a mapper that gives a box around what its parts need, on any number of ranks",
    function()
      for _, ranks in ipairs { 1, 2 } do
        local r = check([==[
local n = 400
local u = celer.buffer("char", { 2 * n }, { name = "u", init = 1 })
local v = celer.buffer("char", { n }, { name = "v" })
local k = celer.kernel [=[
  kernel void even(item<1> it, in<char, 1> u, out<char, 1> v) { v(it[0]) = u(2 * it[0]); }
]=]
q:submit(function(cg)
  local part = cg:read(u, function(chunk)
    return celer.box({ 2 * chunk.min[0] }, { 2 * chunk.max[0] - 1 })
  end)
  cg:parallel_for({ n }, k, part, cg:discard_write(v))
end)
]==], ranks > 1 and ranks or nil)
        assert.matches("\nx:10: hint: kernel even: cg:read%(u%) promises for a chunk more than for "
          .. "its parts, which moves what no item needs: element %(399%), for chunk %[0, 400%); "
          .. "several boxes leave out what lies between\n", r.report)
        assert.matches("no mistakes found, 2 hints; ", r.report)
      end
    end)

  it("counts what is moved in vain over the whole run, by device", function()
    local r = check([==[
local u = celer.buffer("double", { 24 }, { name = "u", init = function() return 1 end })
local k = celer.kernel [=[
  kernel void look(item<1> it, in<double, 1> u, int at) { if (u(at) < 0) printf("?"); }
]=]
for at = 0, 11 do
  q:submit(function(cg) cg:parallel_for({ 6 }, k, cg:read(u, celer.all), at) end)
end
q:drain()
]==], nil, { "--devices", "2" })
    assert.matches("^x:8: hint: kernel look: cg:read%(u%) promises more than is ever touched: "
      .. "192 bytes, 50 %%, may be moved in vain\n", r.report)
  end)

  it("goes on after a mistake and finds all of them, in the order of lines", function()
    local r = check([==[
local v = celer.buffer("int", { 8 }, { name = "v" })
local k = celer.kernel [=[
  kernel void shift(group<1> g, out<int, 1> v) { v(g.global(0) + 1) = 1; }
  kernel void nothing(item<1> it, out<int, 1> v) {}
]=]
q:submit(function(cg) cg:parallel_for(celer.nd_range(8, 4), k.shift, cg:discard_write(v)) end)
q:submit(function(cg) cg:parallel_for({ 8 }, k.nothing, cg:discard_write(v)) end)
print(q:drain(v)[0] ~= nil)
]==])
    assert.equal("true\n", r.stdout)
    assert.matches("^x:8: mistake: kernel shift: [^\n]* touches what it was not promised: [^\n]*\n"
      .. "x:8: mistake: kernel shift: [^\n]* does not write all [^\n]*\n"
      .. "x:9: mistake: kernel nothing: [^\n]*; 8 such elements; [^\n]*\n"
      .. "celer check: 3 mistakes found; 2 accesses looked at, in %d+ chunks\n$", r.report)
    assert.equal(1, r.status)
  end)

  it("looks at each item of a tile", function()
    local r = check([==[
local u = celer.buffer("int", { 12 }, { name = "u", init = function(i) return i end })
local v = celer.buffer("int", { 12 }, { name = "v" })
local k = celer.kernel [=[
  kernel void left(tile<4> t, in<int, 1> u, out<int, 1> v) {
    t.each([&](item<1> it) { v(it[0]) = u(it[0]); });
    t.each([&](item<1> it) { if (it[0] == 10) v(10) = u(13); });
  }
]=]
q:submit(function(cg) cg:parallel_for(12, k, cg:read(u), cg:discard_write(v)) end)
print(q:drain(v)[4])
]==], nil, { "--devices", "1" })
    assert.equal("4\n", r.stdout)
    assert.matches("^x:11: mistake: kernel left: [^\n]*: item %(10%), [^\n]* element %(13%)",
      r.report)
  end)

  it("goes on after a host task's mistake, and finds those of others", function()
    for _, ranks in ipairs { false, 3 } do
      local r = check([==[
local u = celer.buffer("int", { 12 }, { name = "u", init = function(i) return i end })
local v = celer.buffer("int", { 12 }, { name = "v" })
local k = celer.kernel [=[
  kernel void left(item<1> it, in<int, 1> u, out<int, 1> v) { v(it[0]) = u(it[0] - 1); }
]=]
q:submit(function(cg) cg:parallel_for({ 12 }, k, cg:read(u), cg:discard_write(v)) end)
q:submit(function(cg)
  cg:host_task({ 12 }, function(part, u)
    local s = 0
    for i = part.min[0], part.max[0] do s = s + u[i] end
  end, cg:read(u))
end)
q:drain(v)
]==], ranks or nil)
      assert.equal(1, r.status)
      assert.matches("^x:8: mistake: kernel left: [^\n]* touches what it was not promised: ",
        r.report)
      assert.matches("\nx:13: mistake: host task: [^\n]* touches what it was not promised: ",
        r.report)
      assert.matches("\nceler check: 2 mistakes found[^\n]*; 3 accesses looked at, "
        .. "in %d+ chunks\n$", r.report)
    end
  end)

  -- AT: the rank that fails.
  it("says what was found where the run fails, once, on any rank", function()
    local text = [==[
local v = celer.buffer("int", { 12 }, { name = "v" })
local k = celer.kernel [=[
  kernel void few(item<1> it, out<int, 1> v) { if (it[0] % 2 > 0) v(it[0]) = 1; }
]=]
q:submit(function(cg) cg:parallel_for({ 12 }, k, cg:discard_write(v)) end)
q:wait()
q:submit(function(cg)
  cg:host_task({ 3 }, function(part, v)
    if part.min[0] <= AT and AT < part.max[0] then error("not one") end
  end, cg:read(v, celer.all))
end)
q:drain()
]==]
    for _, case in ipairs { { false, 0 }, { 2, 0 }, { 3, 0 }, { 3, 2 } } do
      local ranks, at = case[1], case[2]
      local r = check((text:gsub("AT", at)), ranks or nil)
      assert.equal(1, r.status)
      assert.matches("^x:7: mistake: kernel few: cg:discard_write%(v%) does not write all [^\n]*\n"
        .. "celer check: 1 mistake found before the run ended early; %d access[es]* looked at, "
        .. "in %d+ chunks\nceler: [^\n]*x:11: not one", r.report)
      assert.equal(1, select(2, r.report:gsub("celer check:", "")))
      assert.equal(1, select(2, r.report:gsub("not one", "")))
    end
  end)

  it("says in which line of the script celer itself stumbles", function()
    assert.matches("\nceler: x:3: celer/words%.lua:%d+: attempt",
      check("require('celer.words').nearest(nil, { 'x' })").report)
  end)

  it("looks at reductions, and at mappers without a closed form", function()
    local text = [==[
local u = celer.buffer("double", { 24 }, { name = "u", init = function(i) return i end })
local sum = celer.buffer("double", {}, { name = "sum" })
local function opaque(chunk)
  if chunk.max[0] > 12 then return celer.box({ chunk.min[0] }, { chunk.max[0] }) end
  return celer.box({ chunk.min[0] }, { chunk.max[0] })
end
local k = celer.kernel [=[
  kernel void add(item<1> it, reducer<double> sum, in<double, 1> u) {
    sum += u(it[0]) + (it[0] == 23 ? u(BESIDE) : 0);
  }
]=]
q:submit(function(cg)
  local total = cg:reduce(sum, "sum")
  local a = cg:read(u, opaque)
  cg:parallel_for({ 24 }, k, total, a)
end)
print(q:drain(sum)())
]==]
    for _, ranks in ipairs { false, 2 } do
      local r = check((text:gsub("BESIDE", "23")), ranks or nil)
      assert.equal("299\n", r.stdout)
      assert.matches("^x:17: hint: the range mapper of u has no closed form %(it compares bounds "
        .. "of its chunk, or captured numbers%): it was called for up to %d+ chunks, on every "
        .. "rank, 1 time, which took %S+ ms; there are more chunks on more ranks; what it gives "
        .. "is kept for numbers that come again\nceler check: no mistakes found, 1 hint; ",
        r.report)
      r = check((text:gsub("BESIDE", "0")), ranks or nil)
      assert.matches("^x:16: mistake: kernel add: cg:read%(u%) touches what it was not promised: "
        .. "item %(23%), whose chunk %[%d+, 24%) was promised %[%d+, 24%), touches element %(0%); "
        .. "1 such access\n", r.report)
    end
  end)

  it("does not mind what an element is used for twice, nor atomic additions", function()
    local r = check([==[
local u = celer.buffer("int", { 24 }, { name = "u", init = function(i) return i end })
local h = celer.buffer("int", { 4 }, { name = "h", init = function() return 0 end })
local k = celer.kernel [=[
  kernel void bins(item<1> it, in<int, 1> u, inout<int, 1> h) {
    for (int i = 0; i < 24; ++i) atomicAdd(&h(u(i) % 4), 1);
  }
]=]
q:submit(function(cg)
  cg:parallel_for({ 1 }, k, cg:read(u, celer.all), cg:read_write(h, celer.all))
end)
print(q:drain(h)[3])
]==])
    assert.equal("6\n", r.stdout)
    assert.equal("celer check: no mistakes found; 2 accesses looked at, in 2 chunks\n", r.report)
    assert.equal(0, r.status)
  end)

  it("finds no mistakes and gives no hints about what celer itself promises", function()
    local r = check [==[
local u = celer.buffer("int", 300, { init = function(i) return i % 7 end })
local out, few, weights = celer.zeros("int", 300), celer.zeros("int", 9), nil
celer.compact(u:gt(5), out, u)
celer.gather(out, few, u)
celer.scatter(few, out, u)
celer.scatter(few, out, u, "max")
celer.histogram(few, u, 0, 3)
celer.unique(u)
celer.top(u, 5)
celer.scan("max", out, u)
celer.scan("max", out, out, { exclusive = true })
local many = celer.ones("double", 5000) -- tiles of 4,096
celer.scan("sum", celer.like(many), many)
weights = celer.weights { from = u }
]==]
    assert.matches("^celer check: no mistakes found; %d+ accesses looked at", r.report)
  end)

  it("keeps the script's own exit status where nothing is found, and says when it is none",
    function()
      assert.equal(3, check("os.exit(3)").status)
      assert.equal("celer check: no mistakes found; 0 accesses looked at, in 0 chunks\n",
        check("").report)
    end)

  it("says what the guide shows", function()
    local section =
      scratch.read("lua/README.md"):match("\n## Find mistakes: celer check\n(.-)\n## ")
    local name = scratch.path(".lua")
    scratch.write(name, (section:match("```lua\n(.-)```")))
    local r = celer.run({ "check", name })
    os.remove(name)
    local report = r.stderr:gsub(name:gsub("%p", "%%%0"), "guide.lua")
    local shown = section:match("```\n%$ celer check guide.lua\n(.-)```")
    assert.equal(shown, r.stdout .. report)
  end)

  it("takes no options that make no sense for it", function()
    local r = check("", nil, { "--backend", "cpu" })
    assert.equal(2, r.status)
    assert.matches("unknown option '%-%-backend'", r.stderr)
    local name = write("")
    r = celer.run({ "check", name }, { env = { CELER_BACKEND = "cuda", CELER_DRY_RUN = "4" } })
    os.remove(name)
    assert.equal(0, r.status)
  end)
end)

-- ---- examples ----------------------------------------------------------------

-- PLACE is a folder.
local examples = {
  { "hello" }, { "jacobi", 61, 10 }, { "rsim", 37, 23 }, { "out_of_core", 1, 3, 2 },
  { "nbody_tiled", 128, 3 }, { "matmul", 48 }, { "mandelbrot", 60, 30 }, { "nbody", 53, 5 },
  { "game_of_life", 13, 29, 9 }, { "matmul_cublas", 16 }, { "cg", 24 }, { "sparse", 60 },
  { "graph", 6, 3, hints = true }, { "molecules", 5, 1, hints = true },
  { "mesh", 3, hints = true }, { "adaptive", 2, 2, hints = true },
  { "plasma", 8, 4, hints = true }, -- where its electrons are only the data say
  { "histogram", 9000, 7 }, { "transpose", 37, 23, 5 }, { "kmeans", 300, 5, 3 },
  { "exposure", 23, 3 },
  { "wave_restart", 41, 20, 10, "PLACE" }, { "distr_io", 37, 5, "PLACE" },
  { "movie", 40, 3, "PLACE/film" }, { "wave_sim", 61, 20, 10, "PLACE" },
  { "heat3d", 22, 5, "PLACE/knot.png" }, { "lattice_boltzmann", 60, 4, 4, "PLACE" },
  { "gray_scott", "examples/coral.lua", "size={31,45}", "steps=10", "every=10", "spots=9",
    "folder=PLACE" },
  { "convolution", "examples/pictures/flow.png", "PLACE/filtered.png" },
  { "edges", "examples/pictures/flow.png", "PLACE/edges.png" }, { "multigrid", 23, 2 },
  { "shallow_water", 31, 0.1, "round", "PLACE/water.png" },
  { "mhd", "vortex", 23, 0.02, "PLACE/vortex.png" },
}

describe("celer check is silent on", function()
  -- A compiler that does not optimise: what kernels touch is the same, and of mhd's take it a
  -- seventh of the time.
  local compiler = scratch.path()
  scratch.write(compiler, [==[
#!/bin/sh
for word; do
  shift
  [ "$word" = -O3 ] || set -- "$@" "$word"
done
exec c++ "$@"
]==])
  os.execute("chmod +x " .. compiler)

  it("what is listed here, which is every example", function()
    local listed = { coral = true } -- parameters of gray_scott
    for _, example in ipairs(examples) do listed[example[1]] = true end
    for name in io.popen("cd examples && ls *.lua"):read("*a"):gmatch("(%S+)%.lua") do
      assert.is_true(listed[name], name)
    end
  end)

  for _, example in ipairs(examples) do
    for _, ranks in ipairs { false, 2 } do
      it(("%s on %s"):format(example[1], ranks and "2 ranks" or "one rank"), function()
        if example[1] == "distr_io" and not celer.has_hdf5() then
          return pending("needs libhdf5-openmpi-dev")
        end
        local place = scratch.folder()
        local args = { "check", "examples/" .. example[1] .. ".lua" }
        for i = 2, #example do args[#args + 1] = (tostring(example[i]):gsub("PLACE", place)) end
        local r = celer.run(args, { ranks = ranks or nil, env = { CXX = compiler } })
        os.execute("rm -rf " .. place)
        local text = r.stderr
        if example.hints then
          text = text:gsub("[^\n]* promises more than is ever touched: [^\n]*\n", "")
            :gsub(", %d+ hints?", "")
        end
        assert.matches("^celer check: no mistakes found; %d+ access[es]* looked at, "
          .. "in %d+ chunks?\n$", text)
        assert.equal(0, r.status)
      end)
    end
  end
end)
