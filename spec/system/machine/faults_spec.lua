-- Kernels that fail on a GPU: whose they are, what they were given, what to do.
-- Without a GPU on the driver of spec/device/fake_driver.lua.
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local preload = require("spec.support.preload")
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

-- Line 2 on. The task that is to fail is number `i`.
local function shift(i)
  return (([==[
q:hint { fold = 1 } local n = 8
local u = celer.buffer("float", { n, n }, { name = "u", init = function() return 1 end })
local v = celer.buffer("float", { n, n }, { name = "v" })
local k = celer.kernel [=[
  kernel void shift(item<2> it, in<float, 2> u, out<float, 2> v, long by) {
    v(it[0], it[1]) = (&u(it[0], it[1]))[by];
  }
  kernel void last(item<2> it, in<float, 2> u, out<float, 2> v, long by) { v(0, by) = u(0, 0); }
]=]
for i = 1, 4 do
  q:submit(function(cg)
    if i == 2 or i == 3 then cg:name("later " .. i) end
    cg:parallel_for({ n, n }, i == 4 and k.last or k.shift, cg:read(u, celer.all),
      cg:discard_write(v), i == FAULTY and 1e12 or 0)
  end)
  if i < FAULTY then q:wait() end
end
q:wait()
]==]):gsub("FAULTY", i))
end

local PLAIN = [==[
local m = celer.cuda_module "wild.cu"
local x = celer.buffer("float", 100, { name = "x" })
q:submit(function(cg) cg:parallel_for(100, m.wild, cg:discard_write(x)) end)
q:wait()
]==]

local files = { ["wild.cu"] = [[
  extern "C" __global__ void wild(float *x) { x[1ll << 40] = 1; }
]] }

-- Other devices, or ranks, have nothing to compute before the first has.
local AWAITED = [==[
local u = celer.buffer("float", 64, { name = "u" })
local v = celer.buffer("float", 64, { name = "v" })
local k = celer.kernel [=[
  kernel void first(item<1> it, out<float, 1> u) { (&u(it[0]))[it[0] == 0 ? 1ll << 40 : 0] = 1; }
  kernel void second(item<1> it, in<float, 1> u, out<float, 1> v) { v(it[0]) = u(0); }
]=]
q:submit(function(cg) cg:parallel_for(64, k.first, cg:discard_write(u)) end)
q:submit(function(cg)
  cg:parallel_for(64, k.second, cg:read(u, celer.all), cg:discard_write(v))
end)
q:wait(v)
]==]

-- The last rank fails in the middle of a stencil, while others' GPUs wait for its rows.
local function amid(failure)
  return ([==[
local rank, ranks = require("celer.core").rank()
local last, n = rank == ranks - 1, 256
q:hint { fold = 1 } local u = celer.buffer("float", { n, n }, { init = function() return 1 end })
local v = celer.buffer("float", { n, n }, { init = function() return 1 end })
local k = celer.kernel [=[
  kernel void step(item<2> it, in<float, 2> u, inout<float, 2> v, long by) {
    const int y = it[0], x = it[1], h = it.range(0);
    v(y, x) += u(min(y + 1, h - 1), x) - u(max(y - 1, 0), x);
    if (y == h - 1) (&v(y, x))[by] = 1;
  }
]=]
for t = 1, 6000 do
  local by = 0
  if t == 3000 then FAILURE end
  q:submit(function(cg)
    cg:parallel_for({ n, n }, k.step, cg:read(u, function(c) return c:grow(1, 0) end),
      cg:read_write(v), by)
  end)
  u, v = v, u
end
q:wait()
]==]):gsub("FAILURE", failure)
end

local ILLEGAL = "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)"
local PATTERN = "an illegal memory access was encountered %(CUDA_ERROR_ILLEGAL_ADDRESS%)"

describe("a kernel that fails on a GPU", function()
  -- What is said on stderr, but for the launches, without the script's folder.
  local function said(text, env, before, shape)
    env = fake.env(env or {})
    env.FAKE_GPUS = env.FAKE_GPUS or 1
    local r = script.run(text, shape or { devices = 1 },
      { env = env, files = files, before = { "--backend", "cuda", unpack(before or {}) } })
    assert.equal(1, r.status, r.stderr)
    assert.is_false(r.timed_out)
    return (r.stderr:gsub("launch %d[^\n]*\n", ""):gsub("/%S*/case", "case"))
  end

  local function on_fake(name, test)
    it(name, function()
      if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
      test()
    end)
  end

  on_fake("is named with its line, its buffers and what finds the item", function()
    assert.equal([[
celer: case.lua:14: kernel last failed on GPU 0: ]] .. ILLEGAL .. "\n" .. [[
The driver does not say at which address. The task was given, for its chunk [0, 8) x [0, 8),
  read u: [0, 8) x [0, 8)
  discard_write v: [0, 8) x [0, 8)
Run with --check-bounds, which finds the item and the accessor.
]], said(shift(4), { FAKE_FAULT = 4 }))
  end)

  on_fake("is named even when the driver says so of a later launch", function()
    local text = said(shift(1), { FAKE_FAULT = 1, FAKE_LATE = 3 })
    assert.truthy(text:find("case.lua:14: kernel shift failed on GPU 0: " .. ILLEGAL, 1, true),
      text)
    assert.truthy(text:find("ADDRESS); or it was one submitted after it: last\n", 1, true), text)
    assert.truthy(text:find("The task was given, for its chunk", 1, true), text)
  end)

  on_fake("is named when memory was asked for first", function()
    local text = said([==[
q:hint { fold = 1 } local a = celer.buffer("float", 8, { name = "a" })
local b = celer.buffer("float", 2 ^ 25, { name = "b" })
local k = celer.kernel [=[
  kernel void one(item<1> it, out<float, 1> a) { a(it[0]) = 1; }
  kernel void two(item<1> it, out<float, 1> b) { b(it[0]) = 1; }
]=]
for i = 1, 2 do
  q:submit(function(cg) cg:parallel_for(8, k.one, cg:discard_write(a)) end)
  if i == 1 then q:wait() end
end
local ffi = require "ffi"
ffi.cdef "int fake_launches(void);"
local driver = ffi.load "libcuda.so.1"
while driver.fake_launches() < 2 do end
q:submit(function(cg) cg:parallel_for(2 ^ 25, k.two, cg:discard_write(b)) end)
q:wait()
]==], { FAKE_FAULT = 2, FAKE_SILENT = 1 })
    assert.truthy(text:find("kernel one failed on GPU 0: " .. ILLEGAL, 1, true), text)
    assert.is_nil(text:find("memory asked for", 1, true), text)
    assert.is_nil(text:find("buffer b", 1, true), text)
  end)

  for code, words in pairs({
    [715] = "an illegal instruction was encountered (CUDA_ERROR_ILLEGAL_INSTRUCTION)",
    [719] = "unspecified launch failure (CUDA_ERROR_LAUNCH_FAILED)",
  }) do
    on_fake("is named whatever the driver calls it: " .. words, function()
      local text = said(shift(4), { FAKE_FAULT = 4, FAKE_CODE = code })
      assert.truthy(text:find("case.lua:14: kernel last failed on GPU 0: " .. words .. "\n", 1,
        true), text)
      assert.truthy(text:find("\n  read u: [0, 8) x [0, 8)\n", 1, true), text)
    end)
  end

  on_fake("is named when it is not even launched", function()
    assert.equal("celer: case.lua:14: kernel shift failed on GPU 0: too many resources requested "
      .. "for launch (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)\n", said(shift(2), { FAKE_REFUSED = 2 }))
  end)

  for _, shape in ipairs({ { devices = 2 }, { devices = 1, ranks = 2 } }) do
    on_fake(("is named on whichever of %d devices of %d ranks"):format(shape.devices,
      shape.ranks or 1), function()
      local text = said(shift(1), { FAKE_FAULT = 1, FAKE_GPUS = 2 }, nil, shape)
      local gpu, lines = text:match("^celer: r?a?n?k? ?1?:? ?case.lua:14: kernel shift failed on "
        .. "GPU (%d): an illegal [^\n]*\n(.*)")
      assert.truthy(gpu == "0" or gpu == "1", text)
      assert.matches("chunk %[[04], [48]%) x %[0, 8%),\n  read u: %[0, 8%) x %[0, 8%)\n  "
        .. "discard_write v: %[[04], [48]%) x %[0, 8%)\nRun with %-%-check%-bounds", lines)
    end)
  end

  -- A driver that says nothing before it is asked for memory, as a library does.
  local ASKED = [==[
q:hint { fold = 1 } local a = celer.buffer("float", 8, { name = "a" })
local k = celer.kernel [=[
  kernel void one(item<1> it, out<float, 1> a) { a(it[0]) = 1; }
]=]
local function ask()
  local ffi = require "ffi"
  ffi.cdef "int fake_launches(void); int cuMemAlloc_v2(uint64_t *out, size_t size);"
  local driver, at = ffi.load "libcuda.so.1", ffi.new "uint64_t[1]"
  while driver.fake_launches() < 1 do end
  return driver.cuMemAlloc_v2(at, 2 ^ 26)
end
q:submit(function(cg) cg:parallel_for(8, k, cg:discard_write(a)) end)
]==]

  on_fake("is named when a library says so in an interop task", function()
    local text = said(ASKED .. [==[
q:submit(function(cg)
  cg:interop_task(8, function() error("the library says " .. ask()) end, cg:read(a))
end)
q:wait()]==], { FAKE_FAULT = 1, FAKE_SILENT = 1 })
    assert.truthy(text:find("case.lua:13: kernel one failed on GPU 0: " .. ILLEGAL, 1, true), text)
    assert.is_nil(text:find("the library says", 1, true), text)
  end)

  on_fake("is named when another kernel is compiled next", function()
    local text = said(ASKED .. [==[
ask()
celer.kernel "kernel void two(item<1> it, out<float, 1> a) { a(it[0]) = 2; }"
q:wait()]==], { FAKE_FAULT = 1, FAKE_SILENT = 1 })
    assert.truthy(text:find("case.lua:13: kernel one failed on GPU 0: " .. ILLEGAL, 1, true), text)
  end)

  on_fake("is named by its task's name, too", function()
    local text = said(shift(2), { FAKE_FAULT = 2 })
    assert.truthy(text:find("The task later 2 was given, for its chunk", 1, true), text)
  end)

  on_fake("with checks was given all that its accessors touched", function()
    -- Each task is of 3 parts.
    local text = said(shift(3), { FAKE_FAULT = 7 }, { "--check-bounds" })
    assert.truthy(text:find("The task later 3 was given", 1, true), text)
    assert.truthy(text:find("by accessors were within their boxes", 1, true), text)
  end)

  on_fake("of CUDA's own is not for --check-bounds", function()
    local text = said(PLAIN, { FAKE_FAULT = 1 })
    assert.truthy(text:find("discard_write x: [0, 100)\nRun it under compute-sanitizer: ", 1, true),
      text)
  end)

  for name, case in pairs({
    dialect = { shift(1), "kernel shift failed on GPU %d: " .. PATTERN, "read u: [0, 8) x [0, 8)" },
    plain = { PLAIN, "kernel wild failed on GPU %d: " .. PATTERN, "discard_write x: [" },
    ["which others wait for"] = { AWAITED, "kernel first failed on GPU 0: " .. PATTERN,
      "discard_write u: [" }, -- of which chunk, a GPU that computes two cannot say
  }) do
    for _, shape in ipairs(script.gpus) do
      it(("is named on a real one, %s, %s"):format(name, shape.name), function()
        if cuda.no_gpu then return pending(cuda.no_gpu) end
        local r = script.run(case[1], shape, { files = files, before = { "--backend", "cuda" } })
        assert.truthy(r.status ~= 0 and not r.timed_out)
        assert.matches("case.lua:%d+: " .. case[2], r.stderr)
        assert.truthy(r.stderr:find(case[3], 1, true), r.stderr)
      end)
    end
  end
end)

describe("a rank that fails while GPUs wait for it", function()
  for name, case in pairs({
    ["by a kernel"] = { "by = 1e12", "kernel step failed on GPU %d: " .. PATTERN },
    ["by an error"] = { "if last then error('on purpose') end",
      "rank [13]: %S*case.lua:%d+: on purpose" },
    ["by os.exit"] = { "if last then os.exit(5) end",
      "rank [13] submitted a synchronisation at %S*case.lua:%d+\n" },
  }) do
    for ranks = 2, 4, 2 do
      it(("ends the job of %d, %s"):format(ranks, name), function()
        if cuda.no_gpu then return pending(cuda.no_gpu) end
        local r = script.run(amid(case[1]), { devices = 1, ranks = ranks },
          { before = { "--backend", "cuda" } })
        assert.truthy(r.status ~= 0 and not r.timed_out)
        assert.matches(case[2], r.stderr)
      end)
    end
  end
end)

-- ---- on the processor ----------------------------------------------------------

describe("what ends the process", function()
  local function wild(name, code)
    return ("local v = celer.buffer('int', 12, { init = function() return 1 end })\n"
      .. "local k = celer.kernel [[ kernel void %s(item<1> it, inout<int, 1> v) { %s } ]]\n"
      .. "q:submit(function(cg) cg:parallel_for(12, k, cg:read_write(v)) end)\n"
      .. "q:drain()"):format(name, code)
  end
  local function native(before, range, code)
    return ("q:submit(function(cg)\n%s\n cg:host_task(%s, function()\n"
      .. "local ffi = require 'ffi' %s\n"
      .. "end)\nend)\nq:drain()"):format(before, range, code or "ffi.cast('int *', 8)[0] = 1")
  end
  local ABORTS = "breaks an assertion, throws a C++ exception that nobody catches, or frees what "
    .. "was not allocated"
  local SCRIPT = "invalid memory access in the script's own thread (case.lua:%d): what it does "
    .. "through FFI, a kernel or a host task that has spoilt its memory, or a fault of celer"
  local FULL = "overflowed its stack: its own arrays are too large, or it calls itself without "
    .. "end; large arrays belong in buffers"
  local FULL_LIBRARY = "overflowed its stack: a C function called through FFI has arrays that are "
    .. "too large, or calls itself without end"
  local RECURSION = "__attribute__((noinline)) int down(volatile int *at) "
    .. "{ volatile int here[4] = { *at }; return *at < 0 ? 0 : down(here) + here[0]; }"
  local function built_library()
    local path, source = scratch.path(".so"), scratch.path(".c")
    scratch.write(source, RECURSION)
    assert(os.execute(("%s -shared -fPIC -o %s %s"):format(os.getenv("CC") or "cc", path,
      source)) == 0)
    return path
  end
  local cases = {
    { "a kernel", wild("astray", "*(volatile int *)(8 + 0 * v(it[0])) = 1;"),
      "invalid memory access in kernel astray (case.lua:4): it reads or writes outside its "
        .. "data; celer check finds where" },
    { "a kernel's division", wild("part", "volatile int none = 0; v(it[0]) /= none;"),
      "an arithmetic error in kernel part (case.lua:4): it divides a whole number by 0" },
    { "a host task", native("", 12), "invalid memory access in host task (case.lua:4) at "
      .. "case.lua:5: what it does through :pointer() or FFI, or a fault of celer" },
    { "a collective task", native("cg:name 'all'", "celer.collective()"),
      "invalid memory access in host task all (case.lua:4) at case.lua:5: what it does through "
        .. ":pointer() or FFI, or a fault of celer" },
    { "an abort in a kernel", wild("gives_up", "abort();"), "the process aborts in kernel gives_up "
      .. "(case.lua:4): it calls abort(), " .. ABORTS },
    { "an exception in a kernel", wild("throws", "if (v(it[0]) == 1) throw it[0];"),
      "the process aborts in kernel throws (case.lua:4): it calls abort(), " .. ABORTS },
    { "rubbish that a kernel frees", wild("frees", "free(&v(it[0]) + 1);"),
      "the process aborts in kernel frees (case.lua:4): it calls abort(), " .. ABORTS },
    { "an abort in a host task", native("", 12, "ffi.cdef 'void abort(void);' ffi.C.abort()"),
      "the process aborts in host task (case.lua:4) at case.lua:5: it calls abort(), " .. ABORTS },
    { "an abort in initial contents", "local b = celer.buffer('int', 3, { name = 'b', "
      .. "init = function()\n local f = require 'ffi' f.cdef 'void abort(void);' f.C.abort()\n"
      .. "end })\nq:drain(b)", "the process aborts in the initial contents for a capture "
      .. "(case.lua:5) at case.lua:3: it calls abort(), " .. ABORTS },
    { "an abort of the script", "local ffi = require 'ffi' ffi.cdef 'void abort(void);' "
      .. "\nffi.C.abort()", "the process aborts in the script's own thread (case.lua:3): it calls "
      .. "abort(), " .. ABORTS },
    { "the script", "local ffi = require 'ffi'\nffi.cast('int *', 8)[0] = 1", SCRIPT:format(3) },
    { "the script in a coroutine", "coroutine.wrap(function()\n"
      .. "require('ffi').cast('int *', 8)[0] = 1\nend)()", SCRIPT:format(3) },
    { "the script in a range mapper", "local v = celer.buffer('int', 12, { init = 1 })\n"
      .. "q:submit(function(cg)\n cg:host_task(12, function() end, cg:read(v, function(c)\n"
      .. "require('ffi').cast('int *', 8)[0] = 1\nreturn c\nend))\nend)", SCRIPT:format(5) },
    { "the script in a compiled loop", "local ffi = require 'ffi'\n"
      .. "local at, sum = ffi.cast('int *', ffi.new('int[10]')), 0\n"
      .. "local function get(i) return at[i] end\nlocal function all()\n"
      .. "for i = 1, 2 ^ 40 do sum = sum + get(i) end\nend\nall()", SCRIPT:format(6) },
    { "a kernel's large array", wild("large", "volatile char big[1 << 26]; "
      .. "big[v(it[0])] = 1; v(it[0]) = big[0];"), "kernel large (case.lua:4) " .. FULL },
    { "a kernel that calls itself without end", "local v = celer.buffer('int', 12, { init = 1 })\n"
      .. "local k = celer.kernel [[ " .. RECURSION .. "\n"
      .. "kernel void deep(item<1> it, inout<int, 1> v) { v(it[0]) = down(&v(it[0])); } ]]\n"
      .. "q:submit(function(cg) cg:parallel_for(12, k, cg:read_write(v)) end)\nq:drain()",
      "kernel deep (case.lua:5) " .. FULL },
    { "a host task's library that calls itself without end", { library = native("", 12,
      "ffi.cdef 'int down(int *);'\nffi.load(LIBRARY).down(ffi.new('int[1]', 1))") },
      "host task (case.lua:4) at case.lua:6 " .. FULL_LIBRARY },
    { "the script's library that calls itself without end", { library = "local ffi = "
      .. "require 'ffi'\nffi.cdef 'int down(int *); int setrlimit(int, const unsigned long *);' "
      .. "ffi.C.setrlimit(3, ffi.new('unsigned long[2]', 2 ^ 23, 2 ^ 23))\n" -- of the stack
      .. "ffi.load(LIBRARY).down(ffi.new('int[1]', 1))" },
      "the script's own thread (case.lua:4) " .. FULL_LIBRARY },
  }
  for k, case in ipairs(cases) do
    for i = 1, k == 1 and 2 or 1 do
      it(("is named: %s, %s"):format(case[1], script.shapes[i].name), function()
        local text = case[2].library and case[2].library:gsub("LIBRARY", "'" .. built_library()
          .. "'") or case[2]
        local r = script.run(text, script.shapes[i], { before = { "--backend", "cpu" } })
        assert.is_true(r.status ~= 0)
        assert.is_false(r.timed_out)
        assert.equal("", r.stdout)
        assert.matches("celer: " .. case[3] .. "\n", (r.stderr:gsub("/%S*/case", "case")), 1, true)
      end)
    end
  end

  local function strike_threads(signal, options)
    options.before = { "--backend", "cpu" }
    return script.run(([[
      local ffi = require "ffi"
      ffi.cdef "long syscall(long number, ...);"
      local TGKILL = ffi.arch == "x64" and 234 or 131
      local own = ffi.new("long", io.open("/proc/self/stat"):read "*n")
      for task in io.popen("ls /proc/$PPID/task"):lines() do
        local thread = ffi.new("long", tonumber(task))
        if thread ~= own then
          ffi.C.syscall(TGKILL, own, thread, ffi.new("long", %d))
        end
      end
      io.popen("sleep 20"):read()]]):format(signal), script.shapes[1], options)
  end
  local SEGV, BUS = 11, 7
  local SHOWN = "celer: invalid memory access in a thread of celer itself: [^\n]+\n"
    .. "celer: a report of it should have these lines:\n"

  it("is shown with its calls: a thread of celer itself", function()
    local r = strike_threads(SEGV, {})
    assert.is_true(r.status ~= 0)
    assert.matches(SHOWN .. "%S*libceler%S+\n", r.stderr)
  end)

  it("ends it though its calls cannot be read", function()
    local r = strike_threads(BUS, { env = preload("spoilt_stack") })
    assert.is_true(r.status ~= 0)
    assert.matches(SHOWN, r.stderr)
    assert.not_matches("libceler", r.stderr)
    assert.is_false(r.timed_out)
  end)
end)
