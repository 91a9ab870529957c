-- Arithmetic of vectors, of structs that ask for it, and of complex numbers.
local script = require("spec.support.script")

describe("arithmetic of what has components", function()
  script.everywhere("is there in C++ kernels", [==[
local body = celer.struct("body", "float3 x; double m[2]; struct { int id; } it;",
  { arithmetic = true })
same("once more", celer.struct("body", "float3 x; double m[2]; struct { int id; } it;"), body)
local n = 8
local z = celer.buffer("complex64", n, { init = function(i) return { re = i, im = -i } end })
local w = celer.buffer("complex128", n, { init = celer.complex(0, 1) })
local b = celer.buffer(body, n, {
  init = { x = { x = 1, y = 2, z = 3 }, m = { 4, 5 }, it = { id = 6 } } })
local v = celer.buffer("float2", n, { init = { x = 1, y = 2 } })
local u = celer.buffer("int4", n, { init = { x = 1, y = 2, z = -3, w = 7 } })
local k = celer.kernel([=[
  int4 operator/(int4 a, int b) { return {a.x / b, b, 0, 0}; } // one's own comes first
  kernel void k(item<1> it, inout<complex64, 1> z, inout<complex128, 1> w, inout<body, 1> b,
                inout<float2, 1> v, inout<int4, 1> u, near<float2, 1> around) {
    const int i = it[0];
    z(i) = z(i) * complex64{0, 1} + 1;
    z(i) *= 2;
    w(i) = w(i) * w(i) / complex128{0, 1} - 0.5;
    w(i) += abs(complex128{3, 4});
    b(i) = 2 * b(i) + b(i) / 2 - 1;
    b(i) += b(i);
    v(i) += OMEGA * v(i) - float2{1, 1};
    v(i) = -v(i) * 0.5;
    v(i) /= 2;
    v(i) -= 4 * (around(i - 1) - around(i + 1));
    u(i) = (3 - u(i) * u(i)) / 2;
  }
]=], { defines = { OMEGA = 0.5 } })
local old = celer.buffer("float2", n, { init = function(i) return { x = i, y = -i } end })
q:submit(function(cg)
  cg:parallel_for(n, k, cg:read_write(z), cg:read_write(w), cg:read_write(b), cg:read_write(v),
    cg:read_write(u), cg:read(old, celer.clamped(1)))
end)
local sz, sw, sb, sv, su = celer.wait(z, w, b, v, u)
for i = 0, n - 1 do
  local wanted = (celer.complex(i, -i) * celer.complex(0, 1) + 1) * 2
  same("complex64", sz(i) == wanted, true)
  same("complex128", tostring(sw(i)), "4.5+1i")
  same("a float3 of a struct", sb(i).x.y, 2 * (2 * 2 + 1 - 1))
  same("an array of a struct", sb(i).m[1], 23)
  same("a whole number of a struct", sb(i).it.id, 28)
  local apart = math.max(i - 1, 0) - math.min(i + 1, n - 1)
  same("float2", sv(i).x, -0.125 - 4 * apart)
  same("float2", sv(i).y, -0.5 + 4 * apart)
  same("one's own", su(i).x, 1)
  same("one's own", su(i).y, 2)
end
]==])

  script.everywhere("of complex numbers is there for whole buffers", [==[
local m, n, i = celer.math, 5, celer.complex(0, 1)
local function numbers(type_, name, f) return celer.buffer(type_, n, { name = name, init = f }) end
local z = numbers("complex64", "z", function(i) return { re = i, im = 2 - i } end)
local w = numbers("complex128", "w", function(i) return { re = 1, im = i } end)
local r = numbers("double", "r", function(i) return i + 1 end)
local out = celer.buffer("complex128", n, { name = "out" })
local cases = {
  { z * w + r, function(z, w, r) return z * w + r end },
  { z / w - 2, function(z, w) return z / w - 2 end },
  { r / w, function(_, w, r) return r / w end },
  { w / r, function(_, w, r) return w / r end },
  { r * w * i, function(_, w, r) return r * w * i end },
  { i * w - w * i + (i - w), function(_, w) return i - w end },
  { -w ^ 2, function(_, w) return -(w * w) end },
  { m.conj(w) + m.complex(r, 3), function(_, w, r) return w:conj() + celer.complex(r, 3) end },
  { m.abs(z), function(z) return celer.complex(z:abs()) end },
  { m.real(z) + m.imag(w) * 10 + m.arg(w),
    function(z, w) return celer.complex(z.re + w.im * 10 + w:arg()) end },
  { m.real(r) + m.imag(r) + m.conj(r) + m.arg(r), function(_, _, r) return 2 * r + i * 0 end },
  { m.imag(-r / 0) + m.imag(7) + 1, function() return celer.complex(1) end },
  { celer.select(r:lt(3), w, 7), function(_, w, r) return r < 3 and w or celer.complex(7) end },
  { celer.cast("float", w), function(_, w) return w end },
  { i, function() return i end }, { 3, function() return celer.complex(3) end },
}
local sz, sw, sr = celer.wait(z, w, r)
for k, case in ipairs(cases) do
  out:set(case[1])
  local s = celer.wait(out)
  for j = 0, n - 1 do
    local apart = (s(j) - case[2](sz(j), sw(j), sr(j))):abs()
    if not (apart <= 2e-6) then error(("case %d at %d: %s"):format(k, j, tostring(s(j)))) end
  end
end
same("a type", celer.array(z * 2).type.name, "complex64")
same("the wider type", celer.array(z * r).type.name, "complex128")
same("text", tostring(z * i):match "expression ([^:]*):", "z * celer.math.complex(0, 1)")
z:set(z * i)
z:field("re"):set(r)
same("set, and a field", tostring(z(1)), "2+1i")
same("zeros", tostring(celer.zeros("complex64", 3)(1)), "0+0i")
same("full", tostring(celer.full("complex128", 2, i)(1)), "0+1i")
local t = celer.buffer("double")
t:reduce("sum", m.real(w * m.conj(w)))
same("a sum", t(), 35)
z:fill(celer.complex(1, -2))
same("a fill", tostring(z(4)), "1-2i")
z:fill(celer.complex(7, 0), celer.box({ 1 }, { 2 }))
same("of a part", tostring(z(1)), "7+0i")
refused("complex numbers are not compared", function() z:eq(1) end)
local v = celer.buffer("float2", n, { name = "v" })
refused("complex numbers have + - * / ^2", function() local _ = z % 2 end)
refused("complex numbers have + - * / ^2", function() local _ = m.sqrt(z) end)
refused("r:set: it has no complex numbers, and z are", function() r:set(z) end)
refused("v has vectors, and not complex numbers", function() local _ = v + z end)
refused("z:set: it has complex numbers, and v are vectors", function() z:set(v) end)
refused("z has complex numbers: take celer.math.abs(z)", function() t:reduce("sum", z) end)
refused("celer.math.complex: z is no real number", function() local _ = m.complex(z, 1) end)
refused("celer.cast: z is complex", function() local _ = celer.cast("int", z) end)
]==])

  script.everywhere("of complex numbers is there in the script and in host tasks", [==[
local i = celer.complex(0, 1)
same("text", tostring(celer.complex(1, 2) * i), "-2+1i")
same("quotient", tostring(1 / i), "0-1i")
same("abs", celer.complex(3, 4):abs(), 5)
same("large", math.abs(celer.complex(3e200, 4e200):abs() / 5e200 - 1) < 1e-15, true)
same("arg", i:arg(), math.pi / 2)
same("conj", tostring(-i:conj() - 2), "-2+1i")
same("equal", celer.complex(2) == celer.complex(2, 0), true)
same("real and imaginary", celer.complex(2, 3).re + celer.complex(2, 3).im, 5)
local z = celer.buffer("complex64", 4, { init = 2 })
q:submit(function(cg)
  cg:host_task({ 4 }, function(part, z)
    for k = part.min[0], part.max[0] - 1 do z[k] = z[k] * celer.complex(k, 1) end
  end, cg:read_write(z))
end)
same("a host task's", tostring(z(3)), "6+2i")
local double = celer.kernel(function(k, z)
  z[k].re, z[k].im = -z[k].im, z[k].re
end)
double(4, z)
same("a kernel in Lua's", tostring(z(3)), "-2+6i")
refused("celer.complex takes the real and the imaginary part, two numbers, not a string",
  function() local _ = celer.complex("x") end)
same("-0", tostring(celer.complex(1, -0.0)), "1-0i")
refused("a + b: a complex number and a table", function() local _ = i + {} end)
refused("a + b: a complex number and nil", function() local _ = i + nil end)
refused("argument 2 ('x') is a complex number", function()
  celer.kernel(function(k, z, x) z[k].re = x end)(4, z, i)
end)
refused("celer.struct flags: it has no arithmetic, as its field b is a bool", function()
  celer.struct("flags", "int a; bool b;", { arithmetic = true })
end)
refused("celer.struct: there is no option 'arithmetics'", function()
  celer.struct("flags", "int a;", { arithmetics = true })
end)
]==])
end)
