local ffi = require("ffi")
local scratch = require("spec.support.scratch")
local k = require("spec.device.compile")
local child = require("spec.support.child")
local c = k.c

local ADD = [=[
kernel void add(item<1> i, out<float, 1> c, in<float, 1> a, in<float, 1> b) {
  c(i[0]) = a(i[0]) + b[i[0]];
}
]=]

local files, read, write = scratch.files, scratch.read, scratch.write

describe("cel_module_begin_cpu", function()
  it("compiles, and the kernel computes", function()
    local module = assert(k.compile(ADD))
    assert.equal(1, c.cel_module_kernels(module))
    assert.equal("add", ffi.string(c.cel_module_kernel_name(module, 0)))
    local n = 100
    local a, b, out = ffi.new("float[?]", n), ffi.new("float[?]", n), ffi.new("float[?]", n)
    for i = 0, n - 1 do a[i], b[i] = i, 2 * i end
    local all = k.box({ 0 }, { n })
    k.run(module, 0, k.box({ 10 }, { 90 }), all,
      { k.view(out, all), k.view(a, all), k.view(b, all) })
    for i = 0, n - 1 do assert.equal(i >= 10 and i < 90 and 3 * i or 0, out[i]) end
  end)

  it("knows the C library's functions, and all of std", function()
    for value, text in pairs({
      ["fabs(x(0)) + abs(x(0)) + pow(x(0), 2)"] = "%s",
      ["std::legendre(2, 3.0) + std::max(1, 2)"] = "%s",
      ["legendre(2, 3.0)"] = "using namespace std; %s",
      ["LEGENDRE(2, 3.0)"] = "#include <cmath>\n#define LEGENDRE std::legendre\n%s",
      ["1"] = "#include <algorithm>\n#include <complex>\n#include <random>\n%s",
    }) do
      assert(k.compile(text:format("kernel void f(item<0>, out<float, 1> x) { x(0) = "
        .. value .. "; }")))
    end
    assert(k.compile("kernel void f(item<0>, out<float, 0> x) { x() = BESSEL(0, 1.0); }",
      { defines = { "BESSEL=std::cyl_bessel_j" } }))
  end)

  it("keeps the folder private and finds the entry again", function()
    local folder = scratch.folder() .. "/cache"
    for _, want in ipairs({ "1 made, 1 found\n", "0 made, 2 found\n" }) do
      local r = child([[
        local k = require("spec.device.compile")
        for _ = 1, 2 do assert(k.compile("kernel void f(item<0>, out<int, 0> x) { x() = 3; }")) end
        print(("%d made, %d found"):format(k.counts().made, k.counts().found))
      ]], { CELER_CACHE = folder })
      assert.equal(want, r.stdout, r.stderr)
      assert.equal("700\n", scratch.output("stat -c %a " .. folder))
      assert.equal(1, #files(folder, "%.so$"))
      assert.same({ folder .. "/scratch/lock" }, files(folder .. "/scratch"))
    end
  end)

  it("compiles anew when text, defines, options or a header change", function()
    local folder = scratch.folder()
    write(folder .. "/twice.h", "#define FACTOR 2\n")
    local text = [[
      #include "twice.h"
      kernel void f(item<0>, out<int, 0> x) { x() = FACTOR * N + M; }
    ]]
    local x, point = ffi.new("int[1]"), k.box({}, {})
    local function run(options)
      options.directory = folder
      options.options = options.options or { "-DM=0" }
      local module = assert(k.compile(text, options))
      k.run(module, 0, point, point, { k.view(x, point) })
      return x[0]
    end
    assert.equal(6, run({ defines = { "N=3" } }))
    assert.equal(8, run({ defines = { "N=4" } }))
    assert.equal(11, run({ defines = { "N=3" }, options = { "-DM=5" } }))
    write(folder .. "/twice.h", "#define FACTOR 3\n")
    assert.equal(9, run({ defines = { "N=3" } }))
    write(folder .. "/twice.h", "#define FACTOR 2\n")
    local made = k.counts().made
    assert.equal(6, run({ defines = { "N=3" } }))
    assert.equal(made, k.counts().made)
  end)

  it("finds a text that stands elsewhere, unless it says where or includes something", function()
    local cache = scratch.folder()
    local function made(text, n, option)
      local r = child(([=[
        local k = require("spec.device.compile")
        for i = 1, 3 do
          assert(k.compile([[%s]], { directory = i == 3 and "/" or "/tmp", line = i,
            file = i == 2 and "b.lua" or nil, options = { %s } }))
        end
        print(("%%d made"):format(k.counts().made))]=]):format(text, option or ""),
        { CELER_CACHE = cache })
      assert.equal(n .. " made\n", r.stdout, r.stderr)
    end
    local function of(more)
      return "kernel void f(item<0>, out<int, 0> x) {\n#pragma unroll\n"
        .. "  for (int i = 0; i < 3; ++i) x() = i" .. more .. ";\n}"
    end
    made(of "", 1)
    made(of " + 1", 1)
    made(of " + __LINE__", 3)
    made(of " + __FILE__[0]", 3)
    made("#define NAME __FILE_NAME__\n" .. of " + sizeof NAME", 3)
    made("#define assert(x)\n" .. of "; assert(x() > 0)", 3) -- NVRTC has one
    made("#include <stdint.h>\n" .. of "", 3)
    made("#import <stdint.h>\n" .. of "", 3)
    made(of "", 1, "'-DWHERE=2', '-O1'")
    made(of " + WHERE", 3, "'-DWHERE=__LINE__'")
    made(of "", 3, "'-g'")
  end)

  -- Of what has effects, such as a variable of its own, there is one library.
  it("is compiled again for rows of 2^31 items, for works made from then on", function()
    local short, long = k.box({ 0 }, { 2 ^ 31 - 1 }), k.box({ 0 }, { 2 ^ 31 })
    local function compiles() return k.counts().made + k.counts().found end
    local function made(n, text, options)
      local before, o = compiles(), ffi.new("double[1]")
      local at = k.box({ 2 ^ 31 - 2 }, { 2 ^ 31 - 1 })
      options = options or {}
      options.prelude = k.embedded("tile.cuh")
      local module = assert(k.compile(text, options))
      for i, range in ipairs { short, long, short, long } do
        k.run(module, 1, at, range, { k.view(o, at) })
        assert.equal(i, o[0])
      end
      assert.equal(n, compiles() - before, text)
    end
    local text = [[
      DECLARED kernel void none(ITEMS it, out<double, 1> o) {}
      kernel void add(ITEMS it, inout<double, 1> o) { BODY }
    ]]
    local function of(items, body, declared)
      return (text:gsub("%u%u+", { ITEMS = items, BODY = body, DECLARED = declared or "" }))
    end
    made(2, of("item<1>", "o(it[0]) += 1;"))
    made(2, of("item<1>", "o(it[0]) += 1;"), { options = { "-DCELER_CHECK" } })
    made(2, of("tile<1>", "it.each([&](item<1> at) { o(at[0]) += 1; });"))
    made(1, of("item<1>", "o(it[0]) = ++count;", "__device__ int count;"))
    made(1, of("item<1>", "static int count; o(it[0]) = ++count;"))
    made(1, of("tile<1>", "it.each([&](item<1> at) { o(at[0]) = ++count; });",
      "__device__ int count;"))
  end)

  it("gives the same hash for the same source, and another for another", function()
    local a, b = assert(k.compile(ADD)), assert(k.compile(ADD))
    local d = assert(k.compile((ADD:gsub("%+", "-"))))
    assert.is_true(c.cel_module_hash(a) == c.cel_module_hash(b))
    assert.is_false(c.cel_module_hash(a) == c.cel_module_hash(d))
  end)

  it("rebuilds an entry that is damaged in any way", function()
    local folder = scratch.folder()
    local function sum()
      return child([[
        local k = require("spec.device.compile")
        local ffi = require("ffi")
        local m = assert(k.compile("kernel void f(item<0>, out<int, 0> x) { x() = 42; }"))
        local x, p = ffi.new("int[1]"), k.box({}, {})
        k.run(m, 0, p, p, { k.view(x, p) })
        print(x[0])
      ]], { CELER_CACHE = folder })
    end
    assert.equal("42\n", sum().stdout)
    local entry = files(folder, "%.so$")[1]
    local good = read(entry)
    local damages = {
      function() return "" end,
      function() return good:sub(1, 1000) end,
      function() return good:sub(1, 5000) .. "x" .. good:sub(5002) end,
      function() return good .. "more" end,
      function() return ("\0"):rep(#good) end,
    }
    for i, damage in ipairs(damages) do
      write(entry, damage())
      local r = sum()
      assert.equal("42\n", r.stdout, i .. ": " .. r.stderr)
      assert.equal(#good, #read(entry))
    end
    for _, note in ipairs(files(folder, "%.needs$")) do write(note, "gone.h\n") end
    assert.equal("42\n", sum().stdout)
  end)

  it("compiles once when several processes race", function()
    local folder = scratch.folder()
    write(folder .. "/cxx", ("#!/bin/sh\ncase \"$*\" in *CELER_SAMPLE*) ;; "
      .. "*-shared*) echo x >>%s/count;; esac\nexec g++ \"$@\"\n"):format(folder))
    os.execute("chmod +x " .. folder .. "/cxx")
    write(folder .. "/race.lua", [[
      local k = require("spec.device.compile")
      local ffi = require("ffi")
      local m = assert(k.compile("kernel void f(item<0>, out<int, 0> x) { x() = 7; }"))
      local x, p = ffi.new("int[1]"), k.box({}, {})
      k.run(m, 0, p, p, { k.view(x, p) })
      print(x[0])
    ]])
    local r = child.exec({ "sh", "-c",
      ("for i in 1 2 3 4 5; do luajit %s/race.lua & done; wait"):format(folder) },
      { CELER_CACHE = folder .. "/cache", CXX = folder .. "/cxx" })
    assert.equal(("7\n"):rep(5), r.stdout, r.stderr)
    assert.equal("x\n", read(folder .. "/count"))
  end)

  it("falls back to a folder of its own when the cache cannot be used", function()
    local folder = scratch.folder()
    os.execute("chmod 777 " .. folder)
    local r = child([[
      local k = require("spec.device.compile")
      local ffi = require("ffi")
      assert(k.compile("kernel void f(item<0>, out<int, 0> x) { x() = 7; }"))
      local a, b = ffi.new("char[512]"), ffi.new("char[512]")
      k.c.cel_cache_describe(a, 512, b, 512)
      print(ffi.string(a)) print(ffi.string(b))
    ]], { CELER_CACHE = folder })
    local used, warning = r.stdout:match("^(.-)\n(.-)\n$")
    assert.matches("others can write", warning, nil, r.stderr)
    assert.not_equal(folder, used)
    assert.is_nil(io.open(used .. "/x", "wb"))
    assert.equal(0, #files(folder, "."))
  end)
end)

describe("a missing compiler", function()
  local text = [[
    local k = require("spec.device.compile")
    local m, code, message = k.compile("kernel void f(item<0>, out<int, 0> x) { x() = 7; }")
    print(m and "found" or code .. ": " .. message)
  ]]
  it("is named, with what to install", function()
    local r = child(text, { CELER_CACHE = scratch.folder(), CXX = "no-such-compiler" })
    assert.matches("^missing: .*CXX.*no%-such%-compiler", r.stdout)
  end)

  it("does not matter when the kernel is in the cache", function()
    local folder, empty = scratch.folder(), scratch.folder()
    assert.equal("found\n", child(text, { CELER_CACHE = folder, CXX = "" }).stdout)
    -- cdef needs cc; so only the names that celer tries are hidden.
    local r = child("require('ffi').cdef('int setenv(const char *, const char *, int)')"
      .. "require('spec.device.compile') require('ffi').C.setenv('PATH', '" .. empty .. "', 1)"
      .. text, { CELER_CACHE = folder, CXX = "" })
    assert.equal("found\n", r.stdout, r.stderr)
    r = child("require('ffi').cdef('int setenv(const char *, const char *, int)')"
      .. "require('spec.device.compile') require('ffi').C.setenv('PATH', '" .. empty .. "', 1)"
      .. text, { CELER_CACHE = scratch.folder(), CXX = "" })
    assert.matches("^missing: .*install g%+%+", r.stdout)
  end)
end)

describe("a compile error", function()
  local function fails(text, options)
    local module, code, message, line, file = k.compile(text, options)
    assert.is_nil(module)
    assert.equal("compile", code)
    assert.is_nil(message:match("celer%.cuh"), message)
    assert.is_nil(message:match("CELER_"), message)
    return message, line, file
  end
  it("has the user's file and line", function()
    local message, line, file = fails(
      "\nkernel void f(item<1> i, out<int, 1> x) {\n  x(i[0]) = y;\n}\n",
      { file = "my sim.lua", line = 41 })
    assert.matches("my sim%.lua:43:13: error: .*y.* was not declared", message)
    assert.equal(43, line)
    assert.equal("my sim.lua", file)
  end)

  it("has lines of their own behind loops that are to be written out", function()
    local text = [[
      template <int N> __device__ int sum(int n) {
        int s = 0;
        #pragma unroll N
        for (int i = 0; i < N; ++i) s += i;
      #  pragma  unroll(2) // twice
        for (int i = 0; i < n; ++i) s += 100;
        #pragma unroll
        for (int i = 0; i < 3; ++i) { /*
        #pragma unroll */ s += 10000; }
        return s;
      }
      kernel void f(item<0>, out<int, 0> x) { x() = sum<5>(7)%s; }]]
    local module, p, x = assert(k.compile(text:format(""))), k.box({}, {}), ffi.new("int[1]")
    k.run(module, 0, p, p, { k.view(x, p) })
    assert.equal(30710, x[0])
    local message, line = fails(text:format(" + y"), { line = 10 })
    assert.equal(21, line, message)
    -- g++ has heard of it: it takes this for no loop.
    message, line = fails("kernel void f(item<0>, int n) {\n#pragma unroll\n  n = 1;\n}",
      { line = 10 })
    assert.equal(12, line, message)
  end)

  it("shows the user's own source line where the file can be read", function()
    local folder = scratch.folder()
    local text = "kernel void f(item<1> i, out<int, 1> x) { x(i[0]) = y; }"
    write(folder .. "/sim.lua", "-- a script\nlocal f = celer.kernel [[" .. text .. "]]\n")
    local message = fails(text, { file = folder .. "/sim.lua", line = 2 })
    assert.matches("celer%.kernel %[%[kernel void f", message)
    assert.matches("%^", message)
  end)

  it("blames the kernel for what celer's templates refuse", function()
    for text, want in pairs({
      ["\nkernel void f(int n) {}"] =
        "the first parameter of a kernel is item<D>, tile<N, ...> or group<D>",
      ["\nkernel void f(item<1> i, float *p) {}"] = "not by pointers",
      ["\nkernel void f(item<4> i) {}"] = "0 to 3 dimensions",
    }) do
      local message, line = fails(text, { line = 10 })
      assert.matches("sim%.lua:11:", message)
      assert.matches(want, message, nil, true)
      assert.equal(11, line)
    end
  end)

  it("reads the same from any compiler", function()
    local text = [==[
      local k = require("spec.device.compile")
      local texts = {
        "kernel void f(int n) {}",
        "kernel void f(item<1> i, float *p) {}",
        "kernel void f(item<1> i, out<int, 1> x) { x(1, 2) = 3; }",
        "struct s { s(const s &); }; kernel void f(item<1> i, s v) {}",
      }
      for _, t in ipairs(texts) do
        local m, code, message, line = k.compile(t, { line = 7, file = "none.lua" })
        print(line, (message:match("\\n(none%.lua:7:[^\\n]*)"):gsub(":%d+:%d+:", ":7:")))
      end
    ]==]
    local want = table.concat({
      "7\tnone.lua:7: error: the first parameter of a kernel is item<D>, tile<N, ...> or group<D>",
      "7\tnone.lua:7: error: a kernel takes buffers by accessors, not by pointers",
      "7\tnone.lua:7: error: an accessor takes as many coordinates as it has dimensions",
      "7\tnone.lua:7: error: elements and values must be trivially copyable", "",
    }, "\n")
    for _, compiler in ipairs({ "g++", "clang++" }) do
      if os.execute("command -v " .. compiler .. " >/dev/null") == 0 then
        local r = child(text:gsub("\\\\", "\\"), { CELER_CACHE = scratch.folder(), CXX = compiler })
        assert.equal(want, r.stdout, r.stderr)
      end
    end
  end)

  it("takes names that celer's entries might have", function()
    k.check_header_names(k.compile)
  end)

  it("says that a kernel has the name of another function", function()
    for _, name in ipairs { "min", "exp", "trunc", "acos", "atomicExch" } do
      local message, line = fails("\nkernel void " .. name .. "(item<1> i) {}", { line = 10 })
      assert.equal("a kernel may not have the name of the function " .. name, message)
      assert.equal(11, line)
    end
  end)

  it("says that a kernel cannot be told from other functions, by each compiler", function()
    local text = [==[
      local k = require("spec.device.compile")
      for _, text in ipairs(k.unclear_names) do
        local _, _, message, line = k.compile(text, { line = 10 })
        print(line, message:match("sim%.lua:11:.- error: [^\n]*; (of the [^\n]*)\n"))
      end
    ]==]
    for _, compiler in ipairs({ "g++", "clang++" }) do
      if os.execute("command -v " .. compiler .. " >/dev/null") == 0 then
        local r = child(text, { CELER_CACHE = scratch.folder(), CXX = compiler })
        assert.equal(("11\t" .. k.unclear .. "\n"):rep(#k.unclear_names), r.stdout, r.stderr)
      end
    end
  end)

  it("takes kernels with the names of functions, by each compiler", function()
    local text = [==[
      local k = require("spec.device.compile")
      for _, first in ipairs(k.first_parameters) do
        local m, _, message = k.compile(k.named_as_functions(first),
          { prelude = k.embedded("group.cuh") .. k.embedded("tile.cuh") })
        if not m then print(message) end
        for i = 0, m and #k.function_names - 1 or -1 do
          if #k.params(m, i) ~= 2 then print(first, k.function_names[i + 1]) end
        end
      end
    ]==]
    for _, compiler in ipairs({ "g++", "clang++" }) do
      if os.execute("command -v " .. compiler .. " >/dev/null") == 0 then
        local r = child(text, { CELER_CACHE = scratch.folder(), CXX = compiler })
        assert.equal("", r.stdout)
        assert.equal("", r.stderr)
      end
    end
  end)

  it("takes fractions as floats and as doubles, by each compiler", function()
    local text = [==[
      local k = require("spec.device.compile")
      k.check_numbers(k.compile)
      print "checked"
    ]==]
    for _, compiler in ipairs({ "g++", "clang++" }) do
      if os.execute("command -v " .. compiler .. " >/dev/null") == 0 then
        local r = child(text, { CELER_CACHE = scratch.folder(), CXX = compiler })
        assert.equal("checked\n", r.stdout, r.stderr)
      end
    end
  end)

  it("says how many coordinates an accessor takes", function()
    local message, line = fails(
      "\n\nkernel void f(item<1> i, out<int, 2> x) {\n  x(i[0]) = 1;\n}", { line = 10 })
    assert.matches("as many coordinates as it has dimensions", message)
    assert.equal(13, line)
  end)

  it("says so when there is no kernel", function()
    assert.matches("no kernel", fails("// kernel void f(item<1> i) {}\n"))
    assert.matches("no kernel", fails("const char *s = \"kernel void f(\";"))
  end)
end)

describe("finding kernels", function()

  it("skips comments and literals and takes every kernel once", function()
    local module = assert(k.compile([==[
      // kernel void no1(item<1> i) {}
      /* kernel void no2(item<1> i) {} */
      const char *text = "kernel void no3(\" /*";
      const char *raw = R"x(kernel void no4(" )" )x";
      const char quote = '"'; const int big = 1'000'000;
      #if 0
      kernel void a(item<3> i) {}
      #else
      kernel
      void /* odd */ a // very
        (item<1> i) {}
      #endif
      static int my_kernel_of(int x) { return x; }
      kernel void b2_(item<2> i, int n) { (void)my_kernel_of(n); }
    ]==]))
    assert.equal(2, c.cel_module_kernels(module))
    assert.equal("a", ffi.string(c.cel_module_kernel_name(module, 0)))
    assert.equal("b2_", ffi.string(c.cel_module_kernel_name(module, 1)))
    assert.equal(1, k.params(module, 0)[1].dims)
  end)
end)
