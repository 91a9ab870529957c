-- celer build: kernels are compiled ahead, for a machine without a compiler.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local nvrtc = require("spec.device.cuda").no_nvrtc == nil

local folder

local PROGRAM = [==[
local celer = require "celer"
local q = celer.queue()
local n = tonumber(arg[1]) or 128
local v = celer.buffer("int", { n }, { name = "v", init = function() error("init ran") end })
local k = celer.kernel([=[
  kernel void base(item<1> it, out<int, 1> v) { v(it[0]) = BASE + it[0]; }
]=], { defines = { BASE = n } })
q:submit(function(cg) cg:parallel_for({ n }, k, cg:discard_write(v)) end)
local turn = celer.kernel [=[
  kernel void turn(group<1> g, inout<int, 1> v, local<int, 128> mine) {
    mine[g.local(0)] = v(g.global(0));
    g.barrier();
    v(g.global(0)) = mine[g.size(0) - 1 - g.local(0)];
  }
]=]
q:submit(function(cg)
  cg:parallel_for(celer.nd_range({ n }, { n }), turn, cg:read_write(v))
end)
print(q:drain(v)[0])
]==]

local function write(text)
  scratch.write(folder .. "/case.lua", text)
end

local function run(words, env)
  env = env or {}
  env.CELER_CACHE = folder .. "/cache"
  return celer.run(words, { env = env })
end

local function build(...)
  local words = { "build", ... }
  table.insert(words, folder .. "/case.lua")
  return run(words)
end

local function built(r) return r.stderr:match("celer: build: (.-); in ") end

local function count(pattern) return #scratch.files(folder .. "/cache", pattern) end

before_each(function()
  folder = scratch.folder()
  write(PROGRAM)
end)

after_each(function() os.execute("rm -r '" .. folder .. "'") end)

describe("celer build", function()
  it("says what it compiled of a script that waits for a result, or checks it", function()
    for _, last in ipairs { "repeat until q:wait(v)[0] > 100", "assert(q:wait(v)[0] == 128)" } do
      write((PROGRAM:gsub("print%(q:drain%(v%)%[0%]%)", function() return last end)))
      local r = build()
      assert.equal(1, r.status)
      assert.matches("^celer: %S+case%.lua:19: ", r.stderr)
      assert.matches("2 .*; in ", built(r) .. "; in ")
    end
    assert.truthy(build().stderr:find("0 compiled, ", 1, true))
  end)

  it("compiles for the processor what a run without a compiler finds", function()
    local none = { CXX = "/no/such/compiler" }
    local words = { "run", "--backend", "cpu", folder .. "/case.lua" }
    assert.truthy(run(words, none).stderr:find("the C++ compiler that CXX names", 1, true))
    local r = build("--arch", "cpu")
    assert.equal(0, r.status, r.stderr)
    assert.equal("2 compiled, 0 had been compiled before", built(r), r.stderr)
    assert.equal("0\n", r.stdout) -- nothing has run
    r = run(words, none)
    assert.equal("255\n", r.stdout, r.stderr)
    assert.equal("0 compiled, 2 had been compiled before", built(build("--arch", "cpu")))
  end)

  it("compiles what the script's arguments and options ask for", function()
    assert.equal("2 compiled, 0 had been compiled before", built(build("--arch", "cpu")))
    local path = folder .. "/case.lua"
    assert.equal("1 compiled, 1 had been compiled before",
      built(run { "build", "--arch", "cpu", path, 64 }))
    assert.equal("2 compiled, 0 had been compiled before",
      built(build("--arch", "cpu", "--check-bounds")))
  end)

  local function needs_nvrtc(name, test)
    it(name, function()
      if not nvrtc then return pending("no NVRTC here") end
      test()
    end)
  end

  needs_nvrtc("compiles for GPUs that are not here", function()
    local r = build("--arch", "sm_80,sm_90")
    assert.equal(0, r.status, r.stderr)
    assert.equal("4 compiled, 0 had been compiled before", built(r), r.stderr)
    assert.equal(4, count("%.cubin$"))
    local out = run({ "cache" }).stdout
    for _, name in ipairs { "sm_80 +base\n", "sm_90 +base\n", "sm_80 +turn\n", "sm_90 +turn\n" } do
      assert.truthy(out:find(name), out)
    end
    assert.equal("0 compiled, 2 had been compiled before", built(build("--arch", "sm_90")))
    -- Newer than NVRTC: PTX, which the driver finishes.
    assert.equal("2 compiled, 0 had been compiled before", built(build("--arch", "sm_999")))
    assert.truthy(run({ "cache" }).stdout:find("sm_%d+ +turn\n"))
  end)

  needs_nvrtc("compiles again for large groups, and for wide buffers", function()
    write((PROGRAM:gsub("or 128", "or 1024"):gsub("int, 128", "int, 1024")))
    local r = build("--arch", "sm_90")
    assert.equal("3 compiled, 0 had been compiled before", built(r), r.stderr)
    write [==[
      local celer = require "celer"
      local q = celer.queue()
      local v = celer.buffer("char", { 2, 2 ^ 32 }, { name = "v" })
      local k = celer.kernel "kernel void set(item<2> it, out<char, 2> v) { v(it[0], it[1]) = 1; }"
      q:submit(function(cg) cg:parallel_for({ 2, 2 ^ 32 }, k, cg:discard_write(v)) end)
    ]==]
    r = build("--arch", "sm_90")
    assert.equal("2 compiled, 0 had been compiled before", built(r), r.stderr)
  end)

  needs_nvrtc("compiles kernels written in Lua", function()
    write [==[
      local celer = require "celer"
      local n = 64
      local u, w = celer.buffer("float", n, { init = 1 }), celer.buffer("int", n, { init = 1 })
      local v, h = celer.buffer("double", n), celer.buffer("int", 4)
      local k = celer.kernel(function(i, u, w, v, h)
        local s = 0
        for d = -2, 2 do
          if i + d >= 0 and i + d < n then s = s + u[i + d] ^ 0.5 % 0.3 end
        end
        while s < 3 do s = s + math.max(w[i] % -7, math.floor(i / 3)) + bit.band(w[i], 3) + 1 end
        v[i] = math.sin(s) / u[(i - 1) % n]
        h[i % 4]:add(1)
      end)
      k(n, u, w, v, celer.sum(h))
    ]==]
    -- Without contraction, as it may be a step of a fold.
    local r = build("--arch", "sm_90")
    assert.equal("1 compiled, 0 had been compiled before", built(r), r.stderr)
  end)

  needs_nvrtc("says which sources cannot be kept", function()
    os.execute(("echo '#define TWO 2' > '%s/two.h'"):format(folder))
    write [==[
      local celer = require "celer"
      celer.kernel [=[
        #define FILE "two.h"
        #include FILE
        kernel void set(item<1> it, out<int, 1> v) { v(it[0]) = TWO; }
      ]=]
    ]==]
    local r = build("--arch", "sm_90")
    assert.equal(0, r.status, r.stderr)
    assert.truthy(r.stderr:find("warning: 1 of them cannot be kept", 1, true), r.stderr)
  end)

  it("fails where a kernel does not compile, and where nothing is kept", function()
    write [[
      require("celer").kernel "kernel void f(item<1> it) { nonsense; }"
    ]]
    local r = build("--arch", "cpu")
    assert.equal(1, r.status)
    assert.truthy(r.stderr:find("case.lua:1: the kernel does not compile", 1, true), r.stderr)
    assert.is_nil(built(r))
    write(PROGRAM)
    r = celer.run({ "build", "--arch", "cpu", folder .. "/case.lua" },
      { env = { CELER_CACHE = folder .. "/case.lua" } })
    assert.equal(1, r.status)
    assert.truthy(r.stderr:find("compiled kernels are not kept", 1, true), r.stderr)
  end)

  it("refuses machines that there are not", function()
    local function refused(words, ...)
      local r = build(...)
      assert.equal(2, r.status)
      assert.truthy(r.stderr:find(words, 1, true), r.stderr)
    end
    refused("--arch must be cpu, or GPUs by their architecture such as sm_90,sm_100, not",
      "--arch", "cpu,sm_90")
    refused("--arch sm_90 and --backend cpu do not go together", "--arch", "sm_90",
      "--backend", "cpu")
    if nvrtc then
      refused("and newer, not for sm_20", "--arch", "sm_90,sm_20")
    else
      refused("compiling for GPUs takes NVRTC", "--arch", "sm_90")
    end
    local r = run { "run", "--arch", "cpu", folder .. "/case.lua" }
    assert.truthy(r.stderr:find("unknown option '--arch'", 1, true), r.stderr)
  end)
end)
