-- What a run leaves behind, however it ends: no compiler, no intermediate file, no part of
-- a file that it was writing. After SIGKILL the next run removes what there is.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local SIGNALS = { "HUP", "INT", "QUIT", "TERM", "PIPE", "ALRM", "USR1", "USR2", "XCPU",
  "ABRT", "SEGV", "BUS", "FPE", "ILL", "SYS", "TRAP" }

-- A folder with what a case needs: a compiler that leaves files where compilers do, starts
-- another process, and says `up` when both are there; then neither ends by itself.
local function case()
  local folder = scratch.folder()
  os.execute(("mkdir '%s/tmp' '%s/cache'; chmod 700 '%s/cache'"):format(folder, folder, folder))
  scratch.write(folder .. "/compiler", ([[#!/bin/sh
case "$*" in *--version*) echo slow 1.0; exit 0;; esac
mkdir -p FOLDER/up
echo > "${TMPDIR:-/tmp}/cc-FOLDERNAME.s"
(while :; do echo >> "${TMPDIR:-/tmp}/cc-FOLDERNAME.o"; sleep 0.01; done) &
echo $! > FOLDER/up/pid.$$.new; mv FOLDER/up/pid.$$.new FOLDER/up/pid.$$
wait
]]):gsub("FOLDERNAME", (folder:gsub("/", "_"))):gsub("FOLDER", folder))
  os.execute("chmod +x '" .. folder .. "/compiler'")
  return folder
end

local function env_of(folder)
  return { CELER_CACHE = folder .. "/cache", CXX = folder .. "/compiler",
    TMPDIR = folder .. "/tmp", CELER_ADVICE = "off",
    OMPI_MCA_odls_base_sigkill_timeout = celer.patient.OMPI_MCA_odls_base_sigkill_timeout }
end

-- Runs a script, until `files` of a pattern are there; then does `then_`, a shell's text in
-- which $p is celer or mpirun, and waits for the end.
local function run(folder, script, wait, then_, ranks, env)
  scratch.write(folder .. "/case.lua", script)
  local start = ("%s run --backend cpu %s/case.lua"):format(celer.command(), folder)
  if ranks then start = "mpirun --oversubscribe -n " .. ranks .. " " .. start end
  return celer.exec({ "bash", "-c", ([[
    set -m
    %s & p=$!
    trap 'kill -KILL -- -$p' TERM
    until %s; do kill -0 $p 2>/dev/null || break; sleep 0.01; done
    %s
    wait $p 2>/dev/null]]):format(start, wait, then_) },
    { cwd = folder, env = env or env_of(folder), timeout = 100 })
end

local COMPILES = "ls up/pid.* >/dev/null 2>&1"

local KERNEL = [==[
local celer = require "celer"
celer.kernel [[ kernel void k(item<1> it) {} ]]
local q = celer.queue()
q:submit(function(cg)
  cg:parallel_for({ 1 }, celer.kernel [[ kernel void k(item<1> it) {} ]])
end)
q:wait()
]==]

-- Numbers of processes that some compiler has started and that are still there. (What has
-- been killed goes when its parent, which may be the system, hears of it.)
local function alive(folder)
  local list = {}
  for _ = 1, 200 do
    list = {}
    for _, path in ipairs(scratch.files(folder .. "/up")) do
      for _, pid in ipairs({ scratch.read(path):match("%d+"), path:match("pid%.(%d+)$") }) do
        local state = (scratch.look("/proc/" .. pid .. "/stat") or ""):match("%) (%a)")
        if state and state ~= "Z" then list[#list + 1] = pid end
      end
    end
    if #list == 0 then return list end
    celer.exec({ "sleep", "0.05" })
  end
  return list
end

-- All but what celer keeps in a cache.
local function left(folder)
  return scratch.output(
    ("cd '%s' && find cache/scratch tmp -mindepth 1 ! -name lock | sort"):format(folder))
end

describe("a compiler that runs", function()
  local function is_gone(folder)
    assert.is_true(#scratch.files(folder .. "/up") > 0, "nothing was compiled")
    assert.same({}, alive(folder))
    assert.equal("", left(folder))
    assert.equal("", scratch.output("ls /tmp/cc-" .. folder:gsub("/", "_") .. "* 2>/dev/null"))
  end

  for _, signal in ipairs(SIGNALS) do
    it("ends with the run, with all its files: SIG" .. signal, function()
      local folder = case()
      local r = run(folder, KERNEL, COMPILES, "kill -" .. signal .. " $p")
      assert.is_true(r.status > 0)
      assert.is_false(r.timed_out)
      is_gone(folder)
    end)
  end

  it("ends with a job that a launcher ends", function()
    local folder = case()
    local r = run(folder, KERNEL, COMPILES, "kill -TERM $p", 3)
    assert.same({ 1, false }, { r.status, r.timed_out }) -- mpirun neither crashed nor hung
    is_gone(folder)
  end)

  -- While the script waits for a compiler a host task goes on.
  local function beside(folder, code)
    return (([==[
local celer = require "celer"
local q, folder = celer.queue(), %q
local b = celer.buffer("int", 1, { name = "b" })
q:submit(function(cg)
  cg:host_task(celer.on_master, function()
    while not io.open(folder .. "/seen") do end
    local ffi = require "ffi"
    ffi.cdef "void exit(int); void _exit(int); void abort(void);"
    %s
  end)
end)
]==]):format(folder, code) .. KERNEL)
  end
  for name, code in pairs({ ["exit"] = "ffi.C.exit(0)", ["_exit"] = "ffi.C._exit(0)",
    ["abort"] = "ffi.C.abort()", ["a fault"] = "ffi.cast('int *', 8)[0] = 1" }) do
    it("ends with the run, with all its files: " .. name, function()
      local folder = case()
      local r = run(folder, beside(folder, code), COMPILES, "touch seen")
      assert.is_true(r.status > 0)
      assert.is_false(r.timed_out)
      is_gone(folder)
    end)
  end

  it("ends with a job of which another rank fails", function()
    local folder = case()
    local r = run(folder, [==[
local celer = require "celer"
local folder = ]==] .. ("%q"):format(folder) .. [==[

celer.queue():wait()
if require("celer.core").rank() == 1 then
  while not io.open(folder .. "/seen") do end
  error "rank 1 gives up"
end
]==] .. KERNEL, COMPILES, "touch seen", 3)
    assert.is_true(r.status > 0)
    assert.matches("rank 1 gives up", r.stderr)
    is_gone(folder)
  end)

  it("may outlive SIGKILL, and the next run removes its files", function()
    for _, words in ipairs({ { "run", "--backend", "cpu", "plain.lua" }, { "cache", "clear" } }) do
      local folder = case()
      run(folder, KERNEL, COMPILES, "kill -KILL $p")
      assert.matches("cc%-", left(folder))
      -- What is left of another run has nothing to do with it.
      os.execute("kill -9 " .. table.concat(alive(folder), " "))
      scratch.write(folder .. "/plain.lua", (KERNEL:gsub("k%(item", "other(item")))
      local env = env_of(folder)
      env.CXX = ""
      local r = celer.run(words, { cwd = folder, env = env })
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.equal("", left(folder))
    end
  end)

  it("is not swept by others while it runs", function()
    local folder = case()
    local other = ("env CXX= %s cache clear >/dev/null; find cache/scratch -name 'cc-*.s' > seen")
      :format(celer.command())
    run(folder, KERNEL, COMPILES, other .. "; kill -TERM $p")
    assert.matches("cc%-", scratch.read(folder .. "/seen"))
    is_gone(folder)
  end)
end)

describe("an mpirun that hangs", function()
  it("is ended, with its folder, once its ranks are told to end", function()
    local folder = case()
    local env = env_of(folder)
    env.CELER_LOST, env.CXX = "1", ""
    env.OMPI_MCA_btl_vader_backing_directory = folder -- or they stay in /dev/shm
    os.execute(("mkdir '%s/cache/scratch'"):format(folder)) -- as left() looks there
    local r = run(folder, [==[
require("celer").queue():wait()
io.open("begun." .. require("celer.core").rank(), "w"):close()
while true do end
]==], "[ -e begun.0 -a -e begun.1 ]",
      "kill -STOP $p; kill -TERM $(pgrep -P $p); wait -f $p", 2, env)
    assert.equal(137, r.status)
    local gone
    for _ = 1, 200 do
      gone = left(folder) == ""
      if gone then break end
      celer.exec({ "sleep", "0.05" })
    end
    assert.is_true(gone, left(folder))
  end)
end)

describe("a cache for a run alone", function()
  local function env_without(folder)
    local env = env_of(folder)
    env.CELER_CACHE, env.CXX = "/dev/null/no", ""
    return env
  end

  for name, ending in pairs({ ["the end"] = "", ["os.exit"] = "os.exit(3)",
    ["an error"] = "error 'boom'",
    ["a fault"] = "require('ffi').cast('int *', 8)[0] = 1" }) do
    it("goes with it: " .. name, function()
      local folder = case()
      scratch.write(folder .. "/case.lua", KERNEL .. ending)
      local r = celer.run({ "run", "--backend", "cpu", "case.lua" },
        { cwd = folder, env = env_without(folder) })
      assert.matches("compiled kernels are not kept", r.stderr)
      assert.equal("", scratch.output("ls " .. folder .. "/tmp"))
    end)
  end

  it("is removed by the next such run where SIGKILL has left it", function()
    local folder = case()
    run(folder, KERNEL .. "io.open('ready', 'w'):close() while true do end", "[ -e ready ]",
      "kill -KILL $p", nil, env_without(folder))
    assert.matches("^celer%-%x+\n$", scratch.output("ls " .. folder .. "/tmp"))
    run(folder, KERNEL .. "io.open('again', 'w'):close() while true do end", "[ -e again ]",
      "ls tmp | wc -l > count; kill -TERM $p", nil, env_without(folder))
    assert.equal("1\n", scratch.read(folder .. "/count"))
    assert.equal("", scratch.output("ls " .. folder .. "/tmp"))
  end)
end)

describe("a file that is being written", function()
  -- Its first task makes it; that which writes it comes after the host task, which waits.
  local WRITES = [==[
local celer = require "celer"
local q = celer.queue()
local u = celer.buffer("int", { 1000, 100 }, { name = "u", init = function(i) return i end })
q:submit(function(cg)
  cg:host_task(celer.on_master, function()
    while not io.open "go" do end
    error "it gives up"
  end, cg:read_write(u, celer.all))
end)
SAVE
q:wait()
]==]
  local ways = {
    ["NPY"] = "celer.io.save('out.npy', u)",
    ["HDF5"] = "celer.io.save('out.h5', u)",
    ["a checkpoint"] = "celer.checkpoint('out', { u = u })",
  }
  local BEGUN = '[ -n "$(find . -name "out.*.part" -o -path "./out/data-*/*")" ]'
  local ends = { SIGTERM = "kill -TERM $p", SIGHUP = "kill -HUP $p", ["a failure"] = "touch go" }

  local function env_of_writer(folder)
    local env = env_of(folder)
    env.CXX = ""
    return env
  end

  for way, save in pairs(ways) do
    for name, ending in pairs(ends) do
      for ranks = 1, name == "SIGHUP" and 1 or 3, 2 do
        it(("leaves nothing: %s, %s, on %d ranks"):format(way, name, ranks), function()
          local folder = case()
          local r = run(folder, (WRITES:gsub("SAVE", save)), BEGUN, "touch begun; " .. ending,
            ranks > 1 and ranks or nil, env_of_writer(folder))
          assert.is_true(r.status > 0)
          assert.is_false(r.timed_out)
          assert.equal("", scratch.output(("cd '%s' && find . -type f -path '*out*'"):format(
            folder)))
        end)
      end
    end

    it("is swept when the same name is written again: " .. way, function()
      local folder = case()
      local env = env_of_writer(folder)
      run(folder, (WRITES:gsub("SAVE", save)), BEGUN, "kill -KILL $p", nil, env)
      local list = ("cd '%s' && find . -name 'out.*.part' -o -name 'data-*' | wc -l"):format(folder)
      assert.equal("1\n", scratch.output(list))
      local goes_on = WRITES:gsub("SAVE", save):gsub("error", "--")
      local r = run(folder, goes_on, "true", "touch go", nil, env)
      assert.same({ 0, "" }, { r.status, r.stderr })
      assert.equal(way == "a checkpoint" and "1\n" or "0\n", scratch.output(list))
    end)
  end
end)
