-- celer run --check-bounds: the first access outside what a mapper promises.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local name = scratch.path(".lua")

local function run(text, options)
  scratch.write(name, 'local celer = require "celer"\nlocal q = celer.queue()\n' .. text)
  local args = { "run", "--check-bounds", unpack(options and options.words or {}) }
  args[#args + 1] = name
  local r = celer.run(args, { ranks = options and options.ranks })
  os.remove(name)
  return r
end

-- Line 3 on.
local case = [==[
local n = 8
local u = celer.buffer("float", { n, n }, { name = "u", init = function() return 1 end })
local v = celer.buffer("float", { n, n })
local k = celer.kernel [=[
  kernel void shift(item<2> it, in<float, 2> u, out<float, 2> v, int by) {
    v(it[0], it[1]) = u(it[0], it[1] + by);
  }
]=]
q:submit(function(cg)
  cg:parallel_for({ n, n }, k, cg:read(u), cg:discard_write(v), %d)
end)
print(q:wait(v)(2, 2))
]==]

describe("celer run --check-bounds", function()
  for _, ranks in ipairs({ false, 3 }) do
    local where = ranks and ("%d ranks"):format(ranks) or "one rank"
    it("lets a kernel pass that keeps its promise, on " .. where, function()
      local r = run(case:format(0), { ranks = ranks or nil })
      assert.equal("", r.stderr)
      assert.equal("1\n", r.stdout)
    end)

    it("names item, element, argument and line of one that does not, on " .. where, function()
      local r = run(case:format(3), { ranks = ranks or nil })
      assert.equal(1, r.status)
      assert.is_false(r.timed_out)
      local row, column, touched_row, touched, ends = r.stderr:match(
        "%.lua:12: kernel shift: item %((%d), (%d)%) touches element %((%d), (%d+)%) of "
        .. "argument 1, in<float, 2>, whose mapper promises %[%d, %d%) x %[%d, (%d)%) to this "
        .. "chunk; the buffer is u\n")
      assert.is_not_nil(row, r.stderr)
      assert.equal(row, touched_row)
      assert.equal(column + 3, tonumber(touched))
      assert.is_true(tonumber(column) < tonumber(ends) and tonumber(touched) >= tonumber(ends))
    end)
  end

  it("checks work groups, writes and empty promises", function()
    local r = run([==[
local a = celer.buffer("int", 16)
local k = celer.kernel [=[
  kernel void next(group<1> g, out<int, 1> a) { a(g.global(0) + 1) = 1; }
]=]
q:submit(function(cg) cg:parallel_for(celer.nd_range(16, 4), k, cg:discard_write(a)) end)
q:wait()
]==])
    -- The last item of some device's chunk.
    local item, element = r.stderr:match(
      "item %((%d+)%) touches element %((%d+)%) of argument 1, out<int, 1>")
    assert.is_not_nil(item, r.stderr)
    assert.equal(tonumber(item) + 1, tonumber(element))
    assert.equal(0, tonumber(element) % 4)
    r = run([==[
local a = celer.buffer("int", 16)
local k = celer.kernel [=[
  kernel void look(item<1> it, in<int, 1> a, int by) { if (a[it[0] + by] == 3) printf("3"); }
]=]
q:submit(function(cg)
  local none = cg:read(a, function(chunk) return celer.box({ 0 }, { 0 }) end)
  cg:parallel_for(1, k, none, 5)
end)
q:wait()
]==])
    assert.matches("item %(0%) touches element %(5%) of argument 1, in<int, 1>, "
      .. "whose mapper promises nothing", r.stderr)
  end)

  -- On one rank and device the chunk is the whole range. The read is wrong in the last step.
  for mapper, rows in pairs { ["celer.one_to_one"] = 1, ["celer.clamped(1, 0)"] = 0 } do
    for _, n in ipairs { 2, 3, 61 } do
      it(("finds on one device what several would read wrongly: %s of %d"):format(mapper, n),
        function()
          local text = ([==[
local n, mapper = @N, @MAPPER
local u, v = celer.buffer("double", { n, n }, { init = 1 }), celer.buffer("double", { n, n })
local k = celer.kernel [=[
  kernel void next(item<2> it, in<double, 2> u, out<double, 2> v, int far) {
    const int i = min(it[0] + far * @ROWS, @N - 1), j = min(it[1] + far * (1 - @ROWS), @N - 1);
    v(it[0], it[1]) = u(i, j);
  }
]=]
for t = 1, 20 do
  q:submit(function(cg)
    cg:parallel_for({ n, n }, k, cg:read(u, mapper), cg:discard_write(v), t == 20 and 1 or 0)
  end)
  u, v = v, u
end
q:wait()
]==]):gsub("@(%u+)", { N = tostring(n), MAPPER = mapper, ROWS = tostring(rows) })
          local r = run(text, { words = { "--devices", celer.devices(1) } })
          assert.matches("%.lua:13: kernel next: item .- whose mapper promises", r.stderr)
          assert.equal(1, r.status)
        end)
    end
  end

  it("names the item of a tile, in whichever step", function()
    local r = run([==[
local a, b = celer.buffer("int", { 8, 8 }), celer.buffer("int", { 8, 8 })
local k = celer.kernel [=[
  kernel void copy(tile<2, 4> t, in<int, 2> a, out<int, 2> b, local<int, 8> s) {
    t.each([&](item<2> it) { s[it.local(0) * 4 + it.local(1)] = a(it[0], it[1]); });
    t.each([&](item<2> it) {
      const int off = it[0] == 5 && it[1] == 6 ? 3 : 0;
      b(it[0], it[1] + off) = s[it.local(0) * 4 + it.local(1)];
    });
  }
]=]
q:submit(function(cg) cg:parallel_for({ 8, 8 }, k, cg:read(a), cg:discard_write(b)) end)
q:wait()
]==])
    assert.equal(1, r.status)
    assert.matches("item %(5, 6%) touches element %(5, 9%) of argument 2, out<int, 2>", r.stderr)
  end)

  it("says in which line of the script what cannot be checked stands", function()
    local r = run([==[
celer.struct("large", "float x[500];")
local a = celer.buffer("large", 4)
local k = celer.kernel [=[
  kernel void set(item<1> it, out<large, 1> a) { a(it[0]).x[0] = 1; }
]=]
q:submit(function(cg) cg:parallel_for(4, k, cg:discard_write(a)) end)
]==])
    assert.matches("lua:%d+: error: elements of more than 1 KiB cannot be checked\n$", r.stderr)
    assert.is_nil(r.stderr:find("<celer>", 1, true))
  end)

  it("changes no result", function()
    for _, example in ipairs({ "jacobi", "matmul", "nbody_tiled" }) do
      local path = "examples/" .. example .. ".lua"
      local checked = celer.run({ "run", "--check-bounds", path, "64" })
      assert.equal("", checked.stderr)
      assert.equal(celer.run({ "run", path, "64" }).stdout, checked.stdout)
    end
  end)
end)
