-- A disk that is full behind stdout, or behind a file that celer writes: a message, and a
-- status that is not 0.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

describe("help and version", function()
  for word, wanted in pairs({ ["--help"] = "Usage: celer", ["--version"] = "celer %d" }) do
    it("are given once by a job: " .. word, function()
      local r = celer.run({ word }, { ranks = 3 })
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.equal(1, select(2, r.stdout:gsub(wanted, "")))
    end)
  end
end)

describe("what cannot be printed", function()
  local FULL = "celer: not all that was printed could be written to stdout: "
    .. "No space left on device\n"

  -- Runs `celer` with stdout, of one rank of some, on a disk that is full.
  local function run(words, options)
    options = options or {}
    local argv = { "sh", "-c", ('exec "$0" "$@" > %s'):format(options.to or "/dev/full"),
      celer.command() }
    if options.rank then
      local full = 'test $OMPI_COMM_WORLD_RANK != %d || exec > /dev/full; exec "$0" "$@"'
      argv = { "mpirun", "--oversubscribe", "--allow-run-as-root", "-n", "3", "sh", "-c",
        full:format(options.rank), celer.command() }
    end
    for _, word in ipairs(words) do argv[#argv + 1] = word end
    return celer.exec(argv, { stdin = options.stdin })
  end

  local SCRIPT = [==[
local celer = require "celer"
local q = celer.queue()
q:submit(function(cg) cg:host_task(3, function(part) print("task", part.min[0]) end) end)
q:wait()
WHAT
]==]

  local function file(what)
    local path = scratch.path(".lua")
    scratch.write(path, (SCRIPT:gsub("WHAT", what)))
    return path
  end

  for name, what in pairs({
    ["a little"] = "print(1)", ["much"] = "print(('x'):rep(1e6))", ["nothing of its own"] = "",
    ["by io.write"] = "io.write('x')", ["by io.stdout"] = "io.stdout:write('x')",
    ["before os.exit"] = "print(1) os.exit()",
    ["by a library"] = "require('ffi').cdef 'int puts(const char *);' require('ffi').C.puts('x')",
  }) do
    it("is told at the end of a run that prints " .. name, function()
      local r = run({ "run", file(what) })
      assert.equal(FULL, r.stderr)
      assert.equal(1, r.status)
    end)
  end

  for words, stdin in pairs({ [{ "--version" }] = "", [{ "--help" }] = "",
    [{ "run", "--help" }] = "", [{ "help", "buffer" }] = "", [{ "info" }] = "",
    [{ "types" }] = "", [{ "cache", "size" }] = "",
    [{ "-e", "print(1)" }] = "", [{ "repl" }] = "print(1)\n", [{}] = "print(1)\n" }) do
    it("is told by celer " .. table.concat(words, " "), function()
      local r = run(words, { stdin = stdin })
      assert.equal(FULL, r.stderr)
      assert.equal(1, r.status)
    end)
  end

  it("is told by celer graph", function()
    local r = run({ "graph", file("") })
    assert.equal(FULL, r.stderr)
    assert.equal(1, r.status)
  end)

  for rank = 0, 2, 2 do
    it(("is told of rank %d alone"):format(rank), function()
      local r = run({ "run", file("print(1)") }, { rank = rank })
      assert.equal(rank == 2 and FULL:gsub("celer: ", "celer: rank 2: ") or FULL,
        r.stderr:match("celer: [^\n]+\n"))
      assert.is_true(r.status ~= 0)
      assert.is_false(r.timed_out)
    end)
  end

  it("leaves a failure as it is", function()
    local r = run({ "-e", "print(1) error 'boom'" })
    assert.equal("celer: (command line):1: boom\n", r.stderr)
    assert.equal(1, r.status)
  end)

  for option, words in pairs({ ["-o "] = { "graph", "-o" },
    ["--report: "] = { "run", "--dry-run", "2", "--report" } }) do
    it("is told of a file of celer's own: " .. option, function()
      local full = scratch.path(".dot")
      assert.equal(0, os.execute("ln -s /dev/full " .. full))
      local argv = { unpack(words) }
      argv[#argv + 1], argv[#argv + 2] = full, file("")
      local r = run(argv, { to = "/dev/null" })
      assert.matches(option .. full .. ": No space left on device\n", r.stderr, 1, true)
      assert.equal(1, r.status)
    end)
  end
end)

describe("a file that all ranks have open", function()
  it("is not written without a word", function()
    local path = scratch.path(".lua")
    scratch.write(path, [==[
local celer = require "celer"
local q = celer.queue()
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part)
    part.comm:open("/dev/full", "r+"):write_at(0, ("x"):rep(100))
  end)
end)
q:drain()
]==])
    local r = celer.run({ "run", path })
    assert.matches("celer: [^\n]*:5: cannot write /dev/full: of 100 bytes 0 were written",
      r.stderr)
    assert.equal(1, r.status)
  end)
end)
