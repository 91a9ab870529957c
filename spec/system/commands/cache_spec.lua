-- celer cache: the compiled kernels on disk, and what of them is removed.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local folder, script

local function cache(...)
  local r = celer.run({ "cache", ... }, { env = { CELER_CACHE = folder } })
  return r.stdout, r
end

local function files(pattern) return #scratch.files(folder, pattern) end

local function compile(kernel, text)
  scratch.write(script, ("require 'celer'.kernel [=[%s]=]"):format(text or ([[
    kernel void %s(item<1> it, out<int, 1> v) { v(it[0]) = 1; }
    kernel void %s_too(item<1> it, out<int, 1> v) { v(it[0]) = 2; }
  ]]):format(kernel, kernel)))
  local r = celer.run({ "run", "--backend", "cpu", script },
    { env = { CELER_CACHE = folder, CELER_NO_SAMPLE = "1" } }) -- one entry for each
  assert.equal(0, r.status, r.stderr)
end

-- Makes all files, or those of some name, so many days older.
local function age(days, pattern)
  os.execute(("find '%s' -mindepth 1 -name '%s' -exec touch -d '%d days ago' {} +"):format(
    folder, pattern or "*", days))
end

local function touch(name) os.execute(("touch '%s/%s'"):format(folder, name)) end

before_each(function()
  folder = scratch.path()
  script = folder .. ".lua"
end)

after_each(function()
  os.execute("rm -rf '" .. folder .. "' '" .. script .. "'")
end)

describe("celer cache", function()
  it("lists what was compiled, by when it was used", function()
    assert.equal(folder .. ": 0 compiled sources, 0 B\n", (cache()))
    compile("first")
    age(3)
    compile("second")
    local out = cache("list")
    local head, a, b = out:match("^(.-)\n(.-)\n(.-)\n$")
    assert.truthy(head, out)
    assert.truthy(head:find(folder .. ": 2 compiled sources, ", 1, true), head)
    assert.truthy(a:find("^today +[%d.]+ KiB +cpu +second, second_too$"), a)
    assert.truthy(b:find("^3 days ago +[%d.]+ KiB +cpu +first, first_too$"), b)
    assert.equal(out, (cache()))
    assert.equal(head .. "\n", (cache("size")))
  end)

  it("lists no parts that the compiler has split off", function()
    compile(nil, [[
      kernel void turn(group<1> g, inout<int, 1> v, local<int, 8> mine, reducer<long> sum) {
        mine[g.local(0)] = v(g.global(0));
        g.barrier();
        sum += mine[g.size(0) - 1 - g.local(0)];
      }
    ]])
    assert.truthy((cache()):find("cpu +turn\n$"))
  end)

  it("prunes what was not used for long, and keeps what is used", function()
    compile("used")
    compile("unused")
    age(40)
    compile("used") -- finds it
    assert.equal(2, files("%.so$"))
    local _, r = cache("prune")
    assert.equal(0, r.status, r.stderr)
    assert.truthy(r.stdout:find(folder .. ": [%d.]+ KiB removed\n"), r.stdout)
    assert.truthy(cache():find("used, used_too", 1, true))
    assert.is_nil(cache():find("unused", 1, true))
    assert.equal(1, files("%.so$"))
    assert.equal(1, files("%.needs$"))
    age(1.0)
    cache("prune", "--days", 2)
    assert.equal(1, files("%.so$"))
    cache("prune", "--days", 0.5)
    assert.equal(0, files("^%x"))
  end)

  it("clears what is its own and nothing else", function()
    compile("gone")
    local stem = ("0123456789abcdef"):rep(2)
    local own = { stem .. ".cubin", stem .. ".by", stem .. ".lock" }
    local others = { "thesis.tex", "0123.so", stem, stem .. ".so.old", stem .. "0.so",
      stem .. ".cubin.new" }
    for _, name in ipairs(own) do touch(name) end
    for _, name in ipairs(others) do touch(name) end
    os.execute(("mkdir '%s/scratch/0123456789abcdef'"):format(folder)) -- of a run that was killed
    touch("scratch/0123456789abcdef/kernel.cpp")
    touch("scratch/0123456789abcde0")
    local _, r = cache("clear")
    assert.equal(0, r.status, r.stderr)
    for _, name in ipairs(others) do assert.equal(1, files("^" .. name .. "$"), name) end
    assert.equal(#others + 1, files("[^.]"))
    assert.same({ folder .. "/scratch/lock" }, scratch.files(folder .. "/scratch"))
    compile("gone")
    assert.equal(3, files("%.so$")) -- with two of the others
  end)

  it("shows what is damaged", function()
    compile("torn")
    os.execute(("for f in '%s'/*.so; do echo >> $f; done"):format(folder))
    assert.truthy(cache():find("damaged", 1, true))
  end)

  -- What a kernel of a script gives, with a cache that has been changed.
  local function prints(by)
    scratch.write(script, ([==[
      local celer = require "celer"
      local q, u = celer.queue(), celer.buffer("int", 64, { init = 0 })
      local k = celer.kernel [[ kernel void k(item<1> it, inout<int, 1> u) { u(it[0]) += %d; } ]]
      q:submit(function(cg) cg:parallel_for(64, k, cg:read_write(u)) end)
      print(q:drain(u)(10))]==]):format(by))
    local r = celer.run({ "run", "--backend", "cpu", script }, { env = { CELER_CACHE = folder } })
    return r.stdout .. r.stderr
  end

  it("takes no entry for that of another source", function()
    local entries = {}
    for by = 1, 2 do
      assert.equal(by .. "\n", prints(by))
      for _, path in ipairs(scratch.files(folder, "%.so$")) do
        entries[path] = entries[path] or by
      end
    end
    local path = {}
    for name, by in pairs(entries) do path[by] = name end
    local first, second = scratch.read(path[1]), scratch.read(path[2])
    assert.is_true(first ~= second)
    scratch.write(path[1], second)
    scratch.write(path[2], first)
    assert.truthy(cache():find("damaged", 1, true))
    for by = 1, 2 do assert.equal(by .. "\n", prints(by)) end
    assert.is_nil(cache():find("damaged", 1, true)) -- both compiled again
  end)

  it("is not kept where others could put another folder in its place", function()
    local parent, others = scratch.folder(), { ["777"] = true, ["1777"] = false, ["775"] = true,
      ["755"] = false, ["733"] = true }
    os.execute("mkdir -p '" .. parent .. "/a/b' && chown :1 '" .. parent .. "/a'")
    folder = parent .. "/a/b/cache"
    for mode, refused in pairs(others) do
      assert.equal(0, os.execute(("chmod %s '%s/a'"):format(mode, parent)))
      assert.equal(refused and ("celer: warning: compiled kernels are not kept: cannot use the "
        .. "cache folder %s: others can write to %s/a, and so replace it\n"):format(folder, parent)
        or "", (prints(1):gsub("^1\n", "")), mode)
    end
  end)

  it("is not kept where others can change a link that leads to it", function()
    local parent = scratch.folder()
    os.execute(("mkdir -p '%s/mine' '%s/theirs' && ln -s ../mine '%s/theirs/link' "
      .. "&& chmod 777 '%s/theirs'"):format(parent, parent, parent, parent))
    folder = parent .. "/theirs/link"
    os.execute("chmod 700 '" .. parent .. "/mine'")
    assert.equal("1\n", prints(1))
    assert.equal(parent .. "/mine: 1 compiled source, ", (cache("size"):match("^.*, ")))
  end)

  it("says what is wrong", function()
    local _, r = cache("prune", "--days", "soon")
    assert.equal(2, r.status)
    assert.truthy(r.stderr:find('--days must be a number of at least 0, not "soon"', 1, true))
    _, r = cache("polish")
    assert.equal(2, r.status)
    assert.truthy(r.stderr:find("must be one of", 1, true), r.stderr)
    local file = assert(io.open(folder, "w"))
    file:close()
    _, r = cache("clear")
    assert.equal(1, r.status)
    assert.truthy(r.stderr:find("cannot use the cache folder " .. folder .. ": ", 1, true),
      r.stderr)
    local nowhere = { CELER_CACHE = "", XDG_CACHE_HOME = "", HOME = "" }
    r = celer.run({ "cache", "clear" }, { env = nowhere })
    assert.same({ 1, true }, { r.status, r.stderr:find("not kept: no home folder is known; set "
      .. "CELER_CACHE\n", 1, true) ~= nil }, r.stderr)
  end)
end)
