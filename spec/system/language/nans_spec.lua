-- A NaN whose bits LuaJIT takes for a value of its own is a number, whichever way it comes.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

-- Of doubles and of floats: nil, a boolean, userdata, a string at an address of the data's
-- choice; what a change of the sign or of the highest bit makes one of these.
local prelude = [==[
local ffi = require "ffi"
local wide = ffi.new("uint64_t[8]", { 0xffffffffffffffffULL, 0xfffeffffffffffffULL,
  0xfffe7fffffffffffULL, 0xfffd800012345678ULL, 0x7fffffffffffffffULL, 0x7ffe800012345678ULL,
  0xfff5000000000001ULL, 0x7ff1000000000000ULL })
local narrow = ffi.new("uint32_t[8]", { 0xffffffff, 0xffe00000, 0xfff80000, 0xffec1234,
  0x7fffffff, 0x7fe00000, 0xffa80001, 0x7f880000 })
function sound(what, x)
  if type(x) ~= "number" then error(("%s: got %s"):format(what, type(x)), 2) end
  if type(-x) ~= "number" then error(("%s: -x is %s"):format(what, type(-x)), 2) end
  if type(x + 1) ~= "number" or type(-(x + 1)) ~= "number" then error(what .. ": x + 1", 2) end
  if x == x then error(what .. ": no NaN", 2) end
end
local n = 800
local pattern = celer.buffer("uint64_t", { 8 }, { name = "pattern", init = wide })
local half = celer.buffer("uint32_t", { 8 }, { name = "half", init = narrow })
local mixed = celer.struct("mixed", "int id; double d; float3 f; float a[12]; uint64_t bits;")
local d = celer.buffer("double", { n }, { name = "d" })
local f = celer.buffer("float", { n / 8, 8 }, { name = "f" })
local v = celer.buffer("float4", { n }, { name = "v" })
local m = celer.buffer(mixed, { n }, { name = "m" })
local one = celer.buffer("double", {}, { name = "one" })
local k = celer.kernel [[
  kernel void all(item<1> it, in<uint64_t, 1> wide, in<uint32_t, 1> narrow, out<double, 1> d,
                  out<float, 2> f, out<float4, 1> v, out<mixed, 1> m) {
    const int i = it[0], j = i % 8;
    union { uint64_t bits; double d; } w;
    union { uint32_t bits; float f; } h;
    w.bits = wide(j);
    h.bits = narrow(j);
    d(i) = w.d;
    f(i / 8, j) = h.f;
    v(i) = float4{1, h.f, 2, h.f};
    mixed x;
    x.id = i;
    x.d = w.d;
    x.f.x = i, x.f.y = h.f, x.f.z = 3;
    for (int a = 0; a < 12; a++) x.a[a] = a == 7 ? h.f : a;
    x.bits = w.bits;
    m(i) = x;
  }
  kernel void single(item<0>, in<uint64_t, 1> wide, out<double, 0> one) {
    union { uint64_t bits; double d; } w;
    w.bits = wide(3);
    one() = w.d;
  }
]]
q:submit(function(cg)
  cg:hint { granularity = 8 }
  local w, h = cg:read(pattern, celer.all), cg:read(half, celer.all)
  cg:parallel_for({ n }, k.all, w, h, cg:discard_write(d), cg:discard_write(f, function(c)
    return celer.box({ celer.floor(c.min[0] / 8), 0 }, { celer.ceil(c.max[0] / 8), 8 })
  end), cg:discard_write(v), cg:discard_write(m))
end)
q:submit(function(cg)
  cg:parallel_for({}, k.single, cg:read(pattern, celer.all), cg:discard_write(one))
end)
function each(d, f, v, m, one)
  sound("one", one())
  for i = 0, n - 1 do
    local j = i % 8
    sound("d[i]", d[i])
    sound("d(i)", d(i))
    sound("f(i, j)", f((i - j) / 8, j))
    sound("v.y", v[i].y)
    sound("v.w", v(i).w)
    same("v.x", v[i].x, 1)
    same("v.z", v[i].z, 2)
    local x = m(i)
    sound("m.d", x.d)
    sound("m.f.y", x.f.y)
    sound("m.a", x.a[7])
    same("m.f", x.f.x + x.f.z, i + 3)
    same("m.id", x.id, i)
    same("m.a[11]", x.a[11], 11)
  end
end
]==]

local function everywhere(name, text, check, options)
  script.everywhere(name, prelude .. text, check, options)
end

describe("a NaN of any bits is a number", function()
  everywhere("in snapshots", [==[
each(q:wait(d, f, v, m, one))
jit.off()
each(q:wait(d, f, v, m, one))
same("as text", tostring(q:wait(one)), "snapshot of one: double nan")
local fence = q:fence(d)
sound("a future's", fence:get()[3])
local share = q:drain(celer.capture(d, function(rank, ranks)
  return celer.box({ celer.floor(n * rank / ranks) }, { celer.floor(n * (rank + 1) / ranks) })
end)):here()
for i = share.min[0], share.max[0] - 1 do sound("a share's", share[i]) end
]==])

  for _, mode in ipairs { "on", "off" } do
    everywhere("in host tasks, with LuaJIT's compiler " .. mode, ([==[
local function in_task(_, d, f, v, m, one, mode)
  jit[mode]()
  each(d, f, v, m, one)
  each(d, f, v, m, one)
end
local mode = "%s"
q:submit(function(cg)
  local a, b, c, e, o = cg:read(d, celer.all), cg:read(f, celer.all), cg:read(v, celer.all),
    cg:read(m, celer.all), cg:read(one, celer.all)
  cg:host_task(celer.on_master, in_task, a, b, c, e, o, mode)
end)
q:submit(function(cg)                                  -- a part of a buffer
  local a = cg:read(d)
  cg:host_task({ n }, function(part, d)
    for i = part.min[0], part.max[0] - 1 do sound("a part's", d[i]) end
    jit.on()
  end, a)
end)
q:drain()
]==]):format(mode))
  end

  everywhere("in an element that is written back, whose other fields keep their bits", [==[
q:submit(function(cg)
  local w = cg:read_write(m)
  cg:host_task({ n }, function(part, m)
    for i = part.min[0], part.max[0] - 1 do
      local x = m[i]
      x.id = -x.id
      m[i] = x
    end
  end, w)
end)
local s = q:drain(m)
for i = 0, n - 1 do
  same("id", s[i].id, -i)
  same("bits", s[i].bits, wide[i % 8])
  same("a", s[i].a[3], 3)
  sound("d", s[i].d)
end
]==])

  everywhere("and its bits stay what kernels see, until it is written", [==[
local same_bits = celer.kernel [[
  kernel void same_bits(item<1> it, in<double, 1> d, in<uint64_t, 1> wide, reducer<int> count) {
    union { uint64_t bits; double d; } w;
    w.d = d(it[0]);
    if (w.bits == wide(it[0] % 8)) count += 1;
  }
]]
local count = celer.buffer("int")
q:wait(d)
q:submit(function(cg)
  local a = cg:read(d, celer.all)
  cg:host_task(celer.on_master, function(_, d) for i = 0, n - 1 do sound("d", d[i]) end end, a)
end)
q:submit(function(cg)
  local a, w = cg:read(d), cg:read(pattern, celer.all)
  cg:parallel_for({ n }, same_bits, a, w, cg:reduce(count, "sum"))
end)
same("kept", q:drain(count)(), n)
]==])

  everywhere("in host objects of plain memory", [==[
local object = celer.host_object("struct { double d; float f, many[3]; mixed inner; int64_t n; }",
  { name = "memory" })
q:submit(function(cg)
  local o = cg:side_effect(object)
  cg:host_task(celer.on_master, function(_, o)
    local p = o:pointer()
    for round = 1, 200 do
      ffi.fill(p, ffi.sizeof(p[0]), round % 2 == 0 and 0xff or 0x7f)
      if round % 2 == 1 then ffi.cast("uint8_t *", p)[6] = 0xff end
      sound("field", o.d)
      if round % 2 == 0 then
        sound("float field", o.f)
        sound("load of an array", o:load("many", 1))
        sound("exchange of a float", o:exchange("f", 2))
        sound("add to a float", o:add("many", 2, 1))
        sound("what was added to", o:load("many", 2))
      end
      sound("load", o:load("d"))
      sound("add", o:add("d", 1))
      sound("exchange", o:exchange("d", 1))
      same("number", o.d, 1)
    end
    ffi.fill(p, ffi.sizeof(p[0]), 0xff)
  end, o)
end)
local whole = q:wait(celer.capture(object)):here()
if q:drain(celer.capture(object, function(o) return true end)):here() then
  if whole.n == -1 then
    sound("captured", whole.d)
    sound("captured in a struct", whole.inner.f.z)
  end
end
]==])

  everywhere("in what tasks capture, and in what ranks tell each other", [==[
local x = q:wait(m)[3]
ffi.fill(x, ffi.sizeof(x), 0xff)                       -- by a pointer, as a library might
q:submit(function(cg)
  cg:host_task(celer.on_master, function()
    sound("captured", x.d)
    sound("in an array", x.a[11])
    same("other fields", x.id, -1)
  end)
end)
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part)
    local p = ffi.new("uint64_t[1]", 0x7fffffffffffffffULL)
    local odd = ffi.cast("double *", p)[0]             -- a number, unlike its opposite
    for _, op in ipairs { "sum", "prod" } do
      sound(op, part.comm:all_reduce(odd, op))
      local one = part.comm:reduce(odd, op)
      if part.rank == 0 then sound(op, one) end
    end
  end)
end)
q:drain()
]==])

  everywhere("in files", [==[
local folder = arg[0]:match("^(.*)/")
celer.io.save(folder .. "/odd.npy", d)
local back = celer.io.load(folder .. "/odd.npy")
local kept_in = folder .. "/odd.kept"
celer.checkpoint(kept_in, { v = v, m = m }, { x = 1.5, list = { 1.5 } })
local kept = celer.restore(kept_in)
each(q:wait(back, f, kept.v, kept.m, one))
celer.io.save(folder .. "/odd.png", f)
q:wait()
-- A manifest whose numbers are NaNs.
q:submit(function(cg)
  cg:host_task(celer.on_master, function()
    local file = assert(io.open(kept_in .. "/manifest", "rb"))
    local text = file:read("*a")
    file:close()
    local first, body = text:match("^([^\n]*\n)%x+\n(.*)$")
    local changed
    body, changed = body:gsub(("%z"):rep(6) .. "\248%?", ("\255"):rep(7) .. "\127")
    same("changed", changed, 2)
    file = assert(io.open(kept_in .. "/manifest", "wb"))
    file:write(first, bit.tohex(require("celer.io.slab").hash_text(body), 16), "\n", body)
    file:close()
  end)
end)
q:wait()
local _, extra = celer.restore(kept_in)
sound("extra", extra.x)
sound("a list's", extra.list[1])
]==])
end)

describe("celer check", function()
  it("reads a NaN of any bits as a number", function()
    local name = scratch.path(".lua")
    scratch.write(name, [==[
local celer = require "celer"
local q = celer.queue()
local x = celer.buffer("float", { 9 }, { name = "x" })
local k = celer.kernel [=[
  kernel void k(item<1> it, out<float, 1> x) {
    union { int i; float f; } c;
    c.i = -1;
    x(it[0]) = c.f;
  }
]=]
q:submit(function(cg) cg:parallel_for({ 9 }, k, cg:discard_write(x)) end)
q:submit(function(cg)
  cg:host_task(celer.on_master, function(_, x)
    for i = 0, 8 do print(type(x[i]), x(i)) end
  end, cg:read(x, celer.all))
end)
]==])
    local r = celer.run { "check", name }
    os.remove(name)
    assert.equal(("number\tnan\n"):rep(9), r.stdout)
    assert.equal(0, r.status)
  end)
end)

describe("a session", function()
  it("shows a NaN of any bits as one", function()
    local r = celer.run({ "repl" }, { stdin = [[
ffi = require "ffi"
odd = ffi.new("double[300]")
ffi.fill(odd, 2400, 255)
u = celer.buffer("double", { 300 }, { name = "u", init = odd })
u
vectors = ffi.new("float4[1]", {{ 0, 0, 3, 4 }})
ffi.fill(vectors, 8, 255)
celer.buffer("float4", { 1 }, { name = "v", init = vectors })
celer.struct("pair", "double x, y;")
pair = ffi.new("pair")
ffi.fill(pair, 16, 255)
pair
]] })
    assert.equal("", r.stderr)
    assert.equal(table.concat({ "buffer u: double[300], 2400 bytes",
      " nan nan nan ... nan nan nan", " min inf, max -inf; 300 are nan",
      "buffer v: float4[1], 16 bytes",
      " [0] {x = nan, y = nan, z = 3, w = 4}", "type pair", "{x = nan, y = nan}", "" }, "\n"),
      r.stdout)
  end)
end)

describe("a union of floating-point numbers with others", function()
  script.everywhere("is refused", [==[
refused("celer.struct punned: field 'bits' shares bytes with another kind of number", function()
  celer.struct("punned", "double value; union { float f; int bits; };")
end)
refused("shares bytes", function()
  celer.host_object("struct { union { double d; int64_t n; } u; }")
end)
celer.struct("punned", "union { struct { float x, y; }; float at[2]; }; int n;")
local p = celer.buffer("punned", { 2 }, { init = function(i) return { x = i, y = 7, n = 2 } end })
local s = q:drain(p)
same("x", s[1].at[0], 1)
same("y", s[1].at[1], 7)
]==])
end)
