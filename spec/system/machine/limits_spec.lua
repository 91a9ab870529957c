-- What the system refuses, by its limits: threads, processes, open files, memory, the size
-- of files. spec/long/refusals_spec.lua has everything that celer's own code asks for.
local celer = require("spec.support.celer")
local preload = require("spec.support.preload")
local run = require("spec.long.run")
local scratch = require("spec.support.scratch")

local SCRIPT = [==[
local celer = require "celer"
local q = celer.queue()
local u = celer.buffer("double", { 200, 200 }, { init = function(i, j) return i * j end })
local k = celer.kernel "kernel void f(item<1> it, inout<double, 2> u) { u(it[0], 0) += 1; }"
local function rows(c) return celer.box({ c.min[0], 0 }, { c.max[0], 200 }) end
q:submit(function(cg) cg:parallel_for(200, k.f, cg:read_write(u, rows)) end)
q:submit(function(cg) cg:host_task(celer.on_master, function() end) end)
q:submit(function(cg) cg:host_task(celer.collective(), function() end) end)
q:wait()
WHAT
]==]

local function script(what)
  local folder = scratch.folder()
  scratch.write(folder .. "/case.lua", (SCRIPT:gsub("WHAT", what or "print 'done'")))
  return folder
end

-- By the commands of a shell, which set its limits.
local function limited(limits, folder, options)
  options = options or {}
  local argv = { "sh", "-c", limits .. ' && exec "$0" "$@"', celer.command(), "run",
    "--devices", "1" }
  for _, word in ipairs(options.words or {}) do argv[#argv + 1] = word end
  argv[#argv + 1] = "case.lua"
  if options.ranks then
    argv = { "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", options.ranks,
      unpack(argv) }
  end
  local env = { CELER_ADVICE = "off", CELER_BACKEND = "cpu" }
  for name, value in pairs(options.env or {}) do env[name] = value end
  return celer.exec(argv, { cwd = folder, env = env, timeout = 120 })
end

-- One message, or all went well.
local function told_or_well(r)
  assert.is_false(r.timed_out)
  assert.is_true(r.status <= 128, r.stderr)
  local said = run.messages(r.stderr)
  assert.equal(r.status == 0 and 0 or 1, #said, r.stderr)
  if r.status ~= 0 then assert.is_nil(run.own_word(said[1]), said[1]) end
end

local sanitized = (os.getenv("CELER_PRELOAD") or "") ~= ""

describe("a thread that the system refuses", function()
  if sanitized then
    pending("is refused by a library that sanitizers do not go with")
    return
  end

  for _, ranks in ipairs({ 1, 2 }) do
    it(("is told of, with the line that needs it, %d ranks"):format(ranks), function()
      local folder, env = script(), preload("refusing", "-O1 -fno-omit-frame-pointer")
      env.REFUSE_NAME, env.REFUSE_MOST, env.REFUSE_RANK = "pthread_create", "0", ranks - 1
      local lines, refusals = {}, 0
      for first = 1, 40 do
        env.REFUSE_AT, env.REFUSED = first, scratch.path()
        local r = celer.run({ "run", "--devices", "1", "--trace", "t.json", "case.lua" },
          { cwd = folder, env = env, ranks = ranks > 1 and ranks or nil, timeout = 120 })
        if not scratch.look(env.REFUSED) then break end
        told_or_well(r)
        assert.is_true(r.status ~= 0)
        refusals = first
        local message = run.messages(r.stderr)[1]
        assert.matches("the system refuses a thread for ", message, 1, true)
        lines[message:match("case.lua:(%d+): ") or "none"] = true
      end
      -- Ctrl-C; those of every run; initial contents, and both kinds of host tasks.
      assert.same({ none = true, ["3"] = true, ["6"] = true, ["7"] = ranks == 1 or nil,
        ["8"] = true }, lines)
      assert.is_true(refusals >= 8)
    end)
  end
end)

describe("a process that the system refuses", function()
  if sanitized then
    pending("is refused by a library that sanitizers do not go with")
    return
  end

  for name, why in pairs({ posix_spawnp = "Resource temporarily unavailable",
    pipe2 = "Too many open files" }) do
    it("is told of: " .. name, function()
      local folder, env = script(), preload("refusing", "-O1 -fno-omit-frame-pointer")
      env.REFUSE_NAME, env.REFUSE_AT, env.REFUSE_MOST = name, "1", "0"
      env.CELER_CACHE = folder .. "/cache"
      local r = celer.run({ "run", "--backend", "cpu", "case.lua" }, { cwd = folder, env = env })
      told_or_well(r)
      assert.matches("^celer: case.lua:%d: the C%+%+ compiler .*cannot start .*" .. why,
        r.stderr)
      assert.equal(1, r.status)
    end)
  end
end)

describe("a limit", function()
  it("of open files", function()
    for n = 5, 17, 3 do
      local folder = script()
      local r = limited("ulimit -n " .. n, folder, { env = { CELER_CACHE = folder .. "/c" } })
      if not r.stderr:find "shared object" then told_or_well(r) end -- it has not begun, else
    end
  end)

  it("of address space", function()
    for kib = 180000, 220000, 20000 do
      local r = limited("ulimit -v " .. kib, script())
      if not r.stderr:find "shared libraries" and not r.stderr:find "shared object" then
        told_or_well(r)
      end
    end
  end)

  it("of what Lua may keep", function()
    -- Each core has a thread, and that an arena of its own.
    local r = limited("ulimit -v $((300000 + 80000 * $(nproc)))",
      script "local t = {} for i = 1, 1e9 do t[i] = { i, i } end")
    assert.matches("celer: .*out of memory: ", r.stderr)
    assert.is_true(r.status > 0 and r.status <= 128)
  end)
end)

describe("a file that grows beyond the limit", function()
  local NPY = "celer.io.save('u.npy', u) q:drain()"
  -- More than what MPI shares between ranks.
  local LARGE = "celer.io.save('u.npy', celer.buffer('double', { 2000, 2000 }, { init = 1 })) "
    .. "q:drain()"
  for name, case in pairs({
    ["of an array"] = { NPY, "case.lua:10: .*u.npy.*: File too large" },
    ["of a large array of two ranks"] = { LARGE, "case.lua:10: .*u.npy.*: File too large",
      ranks = 2, blocks = 20000 },
    ["of HDF5"] = { "celer.io.save('u.h5', u) q:drain()", "case.lua:10: .*u.h5.*: File too large" },
    ["of a checkpoint"] = { "celer.checkpoint('kept', { u = u }) q:drain()",
      "case.lua:10: .*kept.*: File too large" },
    ["behind stdout"] = { "print(('x'):rep(1e6))", "to stdout: File too large",
      to = "exec > out.txt && " },
  }) do
    it("is told of: " .. name, function()
      local r = limited((case.to or "") .. "ulimit -f " .. (case.blocks or 40), script(case[1]),
        { ranks = case.ranks })
      told_or_well(r)
      assert.matches("celer: .*" .. case[2], r.stderr)
      assert.is_true(r.status ~= 0)
    end)
  end

  it("does not end what is written by the script itself", function()
    local r = limited("ulimit -f 40",
      script [[local f = io.open("f", "w") print(select(2, f:write(("x"):rep(1e6))))]])
    assert.equal("", r.stderr)
    assert.matches("File too large", r.stdout)
    assert.equal(0, r.status)
  end)

  it("ends a timeline early", function()
    local r = limited("ulimit -f 40", script [[for _ = 1, 3000 do
      q:submit(function(cg) cg:host_task(1, function() end) end) end]],
      { words = { "--trace", "t.json" } })
    assert.matches("^celer: warning: the timeline ends early: t.json: File too large\n$", r.stderr)
    assert.equal(0, r.status)
  end)

  it("is no kernel", function()
    local folder = script()
    told_or_well(limited("ulimit -f 1", folder, { env = { CELER_CACHE = folder .. "/cache" } }))
  end)
end)
