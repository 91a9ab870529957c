-- Kernels compiled by NVRTC into the cache; no GPU is needed.
local scratch = require("spec.support.scratch")
local child = require("spec.support.child")
local k = require("spec.device.compile")
local nvrtc = require("spec.device.cuda").no_nvrtc == nil

local ADD = [=[
kernel void add(item<1> i, out<float, 1> c, in<float, 1> a, in<float, 1> b) {
  c(i[0]) = a(i[0]) + b[i[0]];
}
]=]

-- How many entries a compile adds; it finds one otherwise. (Others may be at the folder.)
local function added(text, options)
  local before = k.counts()
  assert(k.check_cuda(text, options))
  local now = k.counts()
  assert.equal(1, now.made + now.found - before.made - before.found)
  return now.made - before.made
end

-- A name, and a source, that no run of the specs before this one has compiled.
local function fresh(name) return name .. scratch.folder():gsub("%W", "_") end
local function unique(text) return ("%s// %s\n"):format(text, fresh("")) end

-- The path of the one entry that has kernel `name`.
local function entry_of(name)
  local paths = scratch.output(("grep -lF celer_run_%s '%s'/*.cubin"):format(name, k.cache))
  return assert(paths:match("^([^\n]+)\n$"), paths)
end

local function needs_nvrtc(name, test)
  it(name, function()
    if not nvrtc then return pending("no NVRTC here") end
    test()
  end)
end


describe("cel_module_begin_images", function()
  needs_nvrtc("compiles into the cache, once per architecture", function()
    local text = unique(ADD)
    assert.equal(1, added(text, { architecture = 80 }))
    assert.equal(0, added(text, { architecture = 80 }))
    assert.equal(1, added(text, { architecture = 90 }))
    assert.equal(0, added(text, { architecture = 90 }))
  end)

  needs_nvrtc("compiles anew when text, defines, options or a header change", function()
    local folder = scratch.folder()
    scratch.write(folder .. "/one.h", "#include \"two.h\"\n")
    scratch.write(folder .. "/two.h", "#define FACTOR 2\n")
    local text = unique([[
      #include "one.h"
      kernel void f(item<0>, out<int, 0> x) { x() = FACTOR * N + M; }
    ]])
    local function run(options)
      options.directory = folder
      options.options = options.options or { "-DM=0" }
      return added(text, options)
    end
    assert.equal(1, run({ defines = { "N=3" } }))
    assert.equal(1, run({ defines = { "N=4" } }))
    assert.equal(1, run({ defines = { "N=3" }, options = { "-DM=5" } }))
    scratch.write(folder .. "/two.h", "#define FACTOR 3\n")
    assert.equal(1, run({ defines = { "N=3" } }))
    scratch.write(folder .. "/two.h", "#define FACTOR 2\n")
    assert.equal(0, run({ defines = { "N=3" } }))
    assert.equal(0, run({ defines = { "N=3" }, options = { "-DM=5" } }))
  end)

  needs_nvrtc("finds headers in the folders of -I, and sees one that comes before", function()
    local first, second = scratch.folder(), scratch.folder()
    scratch.write(second .. "/size.h", "#define SIZE 1\n")
    local text = unique("#include <size.h>\nkernel void f(item<0>, out<int, 0> x) { x() = SIZE; }")
    local options = { options = { "-I", first, "-I" .. second } }
    assert.equal(1, added(text, options))
    assert.equal(0, added(text, options))
    scratch.write(first .. "/size.h", "#define SIZE 2\n")
    assert.equal(1, added(text, options))
  end)

  needs_nvrtc("keeps nothing where it cannot tell what is included", function()
    local folder = scratch.folder()
    scratch.write(folder .. "/a.h", "#define A 1\n")
    local text = unique("#define WHICH \"a.h\"\n#include WHICH\n"
      .. "kernel void f(item<0>, out<int, 0> x) { x() = A; }")
    local before = k.counts()
    assert(k.check_cuda(text, { directory = folder }))
    before.unkept = before.unkept + 1
    assert.same(before, k.counts())
  end)

  needs_nvrtc("takes CUDA's own headers where the toolkit is", function()
    if not io.open("/usr/local/cuda/include/cuda_fp16.h") then
      return pending("no CUDA headers here")
    end
    assert(k.check_cuda("#include <cuda_fp16.h>\n"
      .. "kernel void f(item<1> i, out<float, 1> x) { x[i[0] ] = __half2float(__half(2.0)); }"))
  end)

  needs_nvrtc("lets the user's options win over its own", function()
    local text = unique("template <class T> concept every = true;\n"
      .. "template <every T> T same(T x) { return x; }\n"
      .. "kernel void f(item<0>, out<int, 0> x) { x() = same(1); }")
    assert.is_nil((k.check_cuda(text)))
    assert(k.check_cuda(text, { options = { "-std=c++20", "--gpu-architecture=sm_90" } }))
  end)

  needs_nvrtc("leaves the rest to the driver for an architecture yet to come", function()
    local name = fresh("add")
    assert.equal(1, added(ADD:gsub("add", name), { architecture = 999 }))
    assert.matches(".visible .entry celer_run_" .. name, scratch.read(entry_of(name)), 1, true)
  end)

  needs_nvrtc("rebuilds an entry that is damaged", function()
    local name = fresh("add")
    local text = ADD:gsub("add", name)
    assert.equal(1, added(text))
    local path = entry_of(name)
    local size = #scratch.read(path)
    scratch.write(path, "damaged")
    assert.equal(1, added(text))
    assert.equal(size, #scratch.read(path))
    assert.equal(0, added(text))
  end)

  needs_nvrtc("takes kernels with the names of functions", function()
    for _, first in ipairs(k.first_parameters) do
      local m, _, message = k.check_cuda(k.named_as_functions(first),
        { prelude = k.embedded("group.cuh") .. k.embedded("tile.cuh") })
      assert.is_truthy(m, message)
      for i = 0, #k.function_names - 1 do assert.equal(2, #k.params(m, i)) end
    end
  end)

  needs_nvrtc("takes what lies around items, checked or not", function()
    for _, check in ipairs { "", "-DCELER_CHECK", "-DCELER_SAMPLE", "-DCELER_WIDE" } do
      local m, _, message = k.check_cuda([[
        kernel void f(item<2> it, int a, near<float2, 2> u, out<float, 2> v, in<int, 1> w) {
          v(it[0], it[1]) = u(it[0] - 1, it[1] + a).x + w(0);
        }
        kernel void g(tile<8> t, near<double, 1> u, out<double, 1> v) {
          t.each([&](item<1> it) { v(it[0]) = u[it[0] - 1]; });
        }
        kernel void h(item<3> it, near<short, 3> u, reducer<int> sum) {
          sum += u(it[0], it[1], it[2] + 1);
        }]], { prelude = k.embedded("tile.cuh") .. k.embedded("near.cuh")
          .. k.embedded("reduce.cuh"), options = { check ~= "" and check or nil } })
      assert.is_truthy(m, message)
      assert.equal(6, #k.params(m, 0)) -- and what u is told of its edges
    end
  end)

  needs_nvrtc("takes sums in fixed point, checked or not", function()
    local prelude = k.embedded("tile.cuh") .. k.embedded("group.cuh")
      .. "#define CELER_OPS 6, 6, 6, 6\n" .. k.embedded("fixed.cuh") .. k.embedded("reduce.cuh")
    for _, options in ipairs { {}, { "-DCELER_CHECK" }, { "-DCELER_WIDE" } } do
      local module, _, message = k.check_cuda([[
        kernel void items(item<2> it, reducer<double> a, reducer<float> b, reducer<double, 2> c,
                          reducer<float, 1> d) {
          const double x = it[0] * 0.1 + it[1];
          a += x * x;
          b.combine(float(x));
          c(it[0] % 3, it[1] % 5) += x;
          d[it[1] % 7].combine(float(x) * float(x));
        }
        kernel void groups(group<1> g, reducer<double> a, local<float, 32> t) {
          t[g.local(0)] = g.global(0);
          g.barrier();
          a += t[31 - g.local(0)];
        }
        kernel void tiles(tile<64> t, reducer<float> a, reducer<double, 1> b) {
          t.each([&](item<1> it) { a += 0.1f; b(it.local(0)) += 0.1; });
        }]], { prelude = prelude, options = options, architecture = 90 })
      assert.is_truthy(module, message)
    end
  end)

  needs_nvrtc("takes fractions as floats and as doubles", function()
    k.check_numbers(k.check_cuda)
  end)

  -- As PTX, which is what is made for an architecture yet to come.
  local function ptx_of(text)
    local name = fresh("f")
    local m, _, message = k.check_cuda(("kernel void %s(%s"):format(name, text),
      { prelude = k.embedded("lua.cuh"), architecture = 999 })
    assert.is_truthy(m, message)
    return scratch.read(entry_of(name)):match(".visible .entry .*")
  end
  local function times(text, pattern) return select(2, text:gsub(pattern, "")) end

  needs_nvrtc("leaves minima of kernels in Lua as they are", function()
    for letters, type_ in pairs { f32 = "float", f64 = "double" } do
      local text = ptx_of(("item<1> i, inout<T, 1> u) { const T x = u(i[0]);"
        .. "u(i[0]) = lua::max<T>(lua::max<T>(T(0), x), T(0)) + lua::min<T>(x, T(0)); }")
        :gsub("%f[%w]T%f[%W]", type_))
      assert.equal(2, times(text, "setp.gt." .. letters), text)
      assert.equal(1, times(text, "setp.lt." .. letters), text)
      assert.equal(0, times(text, "m[ia][nx]%." .. letters), text)
    end
  end)

  needs_nvrtc("has one instruction for a bound of an index, and none that loses a sign", function()
    local text = ptx_of [[item<1> i, inout<int, 1> u, int n) {
      const int k = i[0];
      u(k) = u(max(k - 1, 0)) + u(min(k + 1, n - 1)); }]]
    assert.equal(1, times(text, "max.s32"), text)
    assert.equal(1, times(text, "min.s32"), text)
    text = ptx_of [[item<1> i, inout<int, 1> u, int n) {
      const int k = i[0];
      u(k) = min(lua::first_min<int>(n, -k), u(k)); }]]
    assert.equal(1, times(text, "min.s32"), text)
    assert.equal(1, times(text, "lop3"), text)
  end)

  needs_nvrtc("leaves a loop of two conditions by one branch, also with a number to compare with",
    function()
      local text = ptx_of [[item<1> i, inout<double, 1> u, int n) {
        const double bound = lua::opaque<double>(4.0);
        double x = u(i[0]);
        int k = 0;
      again:;
        if ((k < n) && ((x * x) < bound)) {}
        else { goto behind; }
        x = (x * x) + 0.25;
        k = k + 1;
        goto again;
      behind:;
        u(i[0]) = k; }]]
      local loop = text:match "setp.lt.f64[^\n]*\n(.-bra[^\n]*)"
      assert.equal(1, times(loop, "and.pred"), text)
    end)

  needs_nvrtc("compiles the kernels of the examples", function()
    local n = 0
    for _, path in ipairs(scratch.files("examples", "%.lua$")) do
      local script, structs, defines = scratch.read(path), {}, {}
      for name in (script:match("defines = (%b{})") or ""):gmatch("([%w_]+) =") do
        defines[#defines + 1] = name .. "=16"
      end
      for name, fields in script:gmatch('celer%.struct%("(%w+)", "(.-)"%)') do
        structs[#structs + 1] = ("struct %s { %s };\n"):format(name, fields)
      end
      for source in script:gmatch("celer%.kernel%s*%(?%s*%[=?%[(.-)%]=?%]") do
        n = n + 1
        local parts = { table.concat(structs) }
        if source:find "reducer%s*<" then table.insert(parts, 1, k.embedded("reduce.cuh")) end
        if source:find "philox" then table.insert(parts, 1, k.embedded("random.cuh")) end
        if source:find "group%s*<" then table.insert(parts, 1, k.embedded("group.cuh")) end
        if source:find "tile%s*<" then table.insert(parts, 1, k.embedded("tile.cuh")) end
        if source:find "near%s*<" then table.insert(parts, 1, k.embedded("near.cuh")) end
        if source:find "route%s*<" then table.insert(parts, 1, k.embedded("route.cuh")) end
        local ok, _, message = k.check_cuda(source, { file = path, architecture = 90,
          prelude = table.concat(parts), defines = defines })
        assert.is_truthy(ok, message)
      end
    end
    assert.is_true(n > 0)
  end)
end)

describe("what NVRTC says", function()
  local function fails(text, options)
    local ok, code, message, line, file = k.check_cuda(text, options)
    assert.is_nil(ok)
    assert.equal("compile", code)
    assert.is_nil(message:match("celer%.cuh"), message)
    assert.is_nil(message:match("CELER_"), message)
    assert.is_nil(message:match("detected in the compilation"), message)
    return message, line, file
  end

  needs_nvrtc("has the user's file and line", function()
    local message, line, file = fails(
      "\nkernel void f(item<1> i, out<int, 1> x) {\n  x(i[0]) = y;\n}\n",
      { file = "my (1) sim.lua", line = 41 })
    assert.matches("^the kernel does not compile\nmy %(1%) sim%.lua:43: error: identifier \"y\" "
      .. "is undefined\n +x%(i%[0%]%) = y;\n +%^$", message)
    assert.equal(43, line)
    assert.equal("my (1) sim.lua", file)
  end)

  needs_nvrtc("reads as other compilers' messages do", function()
    for text, want in pairs({
      ["kernel void f(int n) {}"] =
        "the first parameter of a kernel is item<D>, tile<N, ...> or group<D>",
      ["kernel void f(item<1> i, float *p) {}"] =
        "a kernel takes buffers by accessors, not by pointers",
      ["kernel void f(item<1> i, out<int, 1> x) { x(1, 2) = 3; }"] =
        "an accessor takes as many coordinates as it has dimensions",
      ["struct s { s(const s &); }; kernel void f(item<1> i, s v) {}"] =
        "elements and values must be trivially copyable",
      ["kernel void f(item<4> i) {}"] = "an item has 0 to 3 dimensions",
    }) do
      local message, line = fails("\n" .. text, { line = 10 })
      assert.equal("the kernel does not compile\nsim.lua:11: error: " .. want, message)
      assert.equal(11, line)
    end
  end)

  needs_nvrtc("is of a kernel that cannot be told from others, of C's names celer's", function()
    for _, text in ipairs(k.unclear_names) do
      local message, line = fails(text, { line = 10 })
      assert.matches("sim%.lua:11: error: [^\n]*; " .. k.unclear .. "\n", message)
      assert.equal(11, line)
    end
    for _, name in ipairs { "min", "exp", "trunc", "acos", "atomicExch" } do
      assert.equal("a kernel may not have the name of the function " .. name,
        (fails("kernel void " .. name .. "(item<1> i) {}")))
    end
  end)

  needs_nvrtc("does not say so of names that celer's entries might have", function()
    k.check_header_names(k.check_cuda)
  end)

  needs_nvrtc("places each of several errors", function()
    local message = fails("kernel void f(item<1> i, float *p) {}\n\n"
      .. "kernel void g(int n) { x = 1; }")
    assert.matches("sim.lua:3: error: identifier \"x\"", message)
    assert.matches("sim.lua:1: error: a kernel takes buffers by accessors", message)
    assert.matches("sim.lua:3: error: the first parameter", message)
  end)

  needs_nvrtc("names the header that is not there", function()
    local message, line = fails("\n#include \"none.h\"\nkernel void f(item<1> i) {}")
    assert.matches("sim.lua:2: error: cannot open source file \"none.h\"", message)
    assert.equal(2, line)
  end)

  needs_nvrtc("of an option names the options", function()
    local message, line = fails("\nkernel void f(item<1> i) {}",
      { options = { "-DX", "-march=native" }, line = 5 })
    assert.matches("NVRTC.*refuses an option: %-DX %-march=native\n.*%-march", message)
    assert.equal(5, line)
  end)
end)

describe("NVRTC in other processes", function()
  local CHECK = [==[
    local k = require("spec.device.compile")
    local ok, code, message = k.check_cuda("kernel void f(item<0>, out<int, 0> x) { x() = 7; }")
    print(ok and "found" or code .. ": " .. message)
  ]==]

  local function check(cache, libraries)
    return child(CHECK, { CELER_CACHE = cache,
      LD_LIBRARY_PATH = libraries .. ":" .. (os.getenv("LD_LIBRARY_PATH") or "") })
  end

  -- A library of that name, with nothing in it.
  local function no_library()
    local folder = scratch.folder()
    scratch.write(folder .. "/none.c", "")
    assert(os.execute(("%s -shared -fPIC %s/none.c -o %s/libnvrtc.so"):format(
      os.getenv("CC") or "cc", folder, folder)) == 0)
    return folder
  end

  it("that is missing or too old is named, with what to do", function()
    local r = check(scratch.folder(), no_library())
    assert.matches("^missing: .*NVRTC is too old: it lacks nvrtcVersion; install CUDA's NVRTC, "
      .. "or run with %-%-backend cpu\n$", r.stdout, nil, r.stderr)
  end)

  needs_nvrtc("does not matter when the kernel is in the cache", function()
    local cache, none = scratch.folder(), no_library()
    assert.equal("found\n", check(cache, "").stdout)
    assert.equal("found\n", check(cache, none).stdout)
  end)

  needs_nvrtc("ends with one entry when several race", function()
    local cache, folder = scratch.folder(), scratch.folder()
    scratch.write(folder .. "/check.lua", CHECK)
    local r = child.exec({ "sh", "-c",
      ("for i in 1 2 3 4 5; do luajit %s/check.lua & done; wait"):format(folder) },
      { CELER_CACHE = cache })
    assert.equal(("found\n"):rep(5), r.stdout, r.stderr)
    assert.equal(1, #scratch.files(cache, "%.cubin$"))
    assert.equal(0, #scratch.files(cache, "%.new$"))
  end)
end)
