-- What a log says at its end: a small tree, with the tree's own scripts and a suite
-- in which things fail.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local suite = [[
local function first_time(name)
  local there = io.open(name)
  if there then return false, there:close() end
  io.open(name, "w"):close()
  return true
end
describe("a suite", function()
  it("has what passes", function() end)
  pending("has what waits")
  it("is 100% (un)steady\nat times", function()
    assert(not first_time("seen"), "chance\n" .. ("long "):rep(100) .. "end")
  end)
  %s
end)
]]

-- Runs a shell command in a tree of its own; `lines` go into the suite.
local function run(lines, command)
  local root = scratch.path()
  local script = [[
    mkdir -p "$1/bin" "$1/cmake" "$1/spec/support" "$1/.ci" "$1/build/release"
    cp cmake/check.sh cmake/specs.lua cmake/record.lua cmake/busted.sh "$1/cmake"
    cp .busted "$1"; cp .ci/run "$1/.ci"; cp spec/support/core.lua "$1/spec/support"
    cd "$1"
    printf '%s' "$2" >spec/fake_spec.lua
    printf '#!/bin/sh\n' >bin/cmake
    chmod +x bin/cmake
    for name in setup test; do
      printf '<!-- ci: %s -->\n```sh\n' $name
      [ $name = setup ] && echo true || echo cmake/check.sh build/release
      echo '```'
    done >README.md
    PATH=$PWD/bin:$PATH
    eval "$3"
    status=$?
    cd / && rm -r "$1"
    exit $status]]
  return celer.exec({ "sh", "-c", script, "sh", root, suite:gsub("%%s", lines), command })
end

local function tail(text, n)
  local lines = {}
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  return table.concat(lines, "\n", math.max(1, #lines - n + 1))
end

local function has(text, part)
  assert(text:find(part, 1, true), ("no %q in:\n%s"):format(part, text))
end

describe("specs.lua", function()
  it("runs what failed once more, and says so where it passes then", function()
    local r = run("", "luajit cmake/specs.lua report; s=$?; echo; cat report; "
      .. "echo; cat report.full; exit $s")
    assert.equal(0, r.status)
    local log, report, full = r.stdout:match "^(.-)\n\n(unsteady.-)\n\n(.*)$"
    assert.equal("2 passed, 0 failed, 1 skipped", tail(log, 1))
    has(report, "unsteady: spec/fake_spec.lua:10 a suite is 100% (un)steady\nat times: ")
    has(report, "chance")
    has(report, "report.full")
    assert.is_nil(report:find("end", 1, true))
    has(full, "long end")
  end)

  it("sums up the files, of which each has a process of its own", function()
    local r = run("", [[
      mkdir spec/more
      for i in 1 2 3 4 5; do
        echo "it('is $i', function() assert(io.open('n$i', 'w')) end)" >"spec/more/a ${i}_spec.lua"
      done
      echo "it('ends', function() os.exit(3) end)" >spec/more/cut_spec.lua
      touch seen
      luajit cmake/specs.lua report; s=$?
      cat report; ls n? | wc -l; ls report*; exit $s]])
    assert.equal(1, r.status)
    has(r.stdout, "\n7 passed, 1 failed, 1 skipped\n")
    has(r.stdout, "failed: spec/more/cut_spec.lua:1 ends: busted ended with status 3 in the middle")
    has(r.stdout, "\n5\nreport\nreport.full\n")
  end)

  it("runs what it is asked to", function()
    local r = run("it('is small', function() end)", [[
      touch seen
      luajit cmake/specs.lua report --filter=small spec/fake_spec.lua]])
    assert.equal("1 passed, 0 failed, 0 skipped", tail(r.stdout, 1))
  end)

  it("refuses what names no specs, and options that it would take for a file", function()
    local r = run("", "luajit cmake/specs.lua report spec/none_spec.lua")
    assert.equal(2, r.status)
    has(r.stderr, "specs.lua: spec/none_spec.lua: there are no specs\n")
    r = run("", "luajit cmake/specs.lua report --tags none spec")
    assert.equal(2, r.status)
    has(r.stderr, "--tags: write --NAME=VALUE")
  end)

  it("lets fail what fails again", function()
    local r = run("it('is wrong', function() error 'no' end)",
      "luajit cmake/specs.lua report; s=$?; cat report; exit $s")
    assert.equal(1, r.status)
    has(r.stdout, "\n2 passed, 1 failed, 1 skipped\n")
    has(r.stdout, "\nfailed: spec/fake_spec.lua:13 a suite is wrong: spec/fake_spec.lua:13: no")
  end)

  it("runs a file again where something around its specs failed", function()
    local r = run("assert(not first_time('other'), 'not yet')",
      "touch seen; luajit cmake/specs.lua report; s=$?; cat report; exit $s")
    assert.equal(0, r.status)
    has(r.stdout, "unsteady: spec/fake_spec.lua:7 a suite: spec/fake_spec.lua:13: not yet")
  end)

  it("counts a suite that breaks off", function()
    for _, how in ipairs { "os.exit(0)", "require('ffi').cast('int *', 0)[0] = 1" } do
      local r = run(("it('breaks off', function() %s end)"):format(how),
        "luajit cmake/specs.lua report; s=$?; cat report; exit $s")
      assert.equal(1, r.status)
      has(r.stdout, "failed: spec/fake_spec.lua:13 a suite breaks off: busted ended with status")
    end
  end)

  it("counts a suite of which nothing is known", function()
    local r = run("os.remove 'report.1.record'", "luajit cmake/specs.lua report; s=$?; cat report; "
      .. "exit $s")
    assert.equal(1, r.status)
    has(r.stdout, "failed: spec/fake_spec.lua: busted ended with status")
  end)

  it("runs nothing again where much failed", function()
    local r = run("for i = 1, 9 do it('is wrong ' .. i, function() error 'no' end) end",
      "luajit cmake/specs.lua report; cat report")
    has(r.stdout, "1 passed, 10 failed, 1 skipped")
    has(r.stdout, "too many")
    assert.is_nil(r.stdout:find("== again", 1, true))
  end)
end)

describe("the log of continuous integration", function()
  it("ends with what was unsteady", function()
    local r = run("", ".ci/run")
    local at = r.stdout:match("^.*()\n== what failed or was unsteady\n")
    has(r.stdout:sub(at), "unsteady: spec/fake_spec.lua:10 a suite is 100% (un)steady")
    assert.equal("2 passed, 0 failed, 1 skipped", tail(r.stdout, 1))
    assert.equal(0, r.status)
  end)

  it("ends with what failed: specs, seeds and linters", function()
    local r = run("it('is wrong', function() error 'no' end)", [[
      mkdir -p spec/random build/asan build/tsan
      touch spec/random/x.c
      printf 'echo seed 77: bytes differ; echo 9 passed, 1 failed; exit 1' \
        >build/asan/random_programs
      printf 'echo Segmentation fault; exit 139' >build/tsan/random_programs
      printf 'case "$*" in *lint) echo "x.c:1:2: error: ugly"; exit 1; esac' >>bin/cmake
      chmod +x build/*/random_programs
      .ci/run]])
    local at = r.stdout:match("^.*()\n== what failed or was unsteady\n")
    local text = r.stdout:sub(at)
    has(text, "failed: spec/fake_spec.lua:13 a suite is wrong: spec/fake_spec.lua:13: no")
    has(text, "unsteady: spec/fake_spec.lua:10 ")
    has(text, "random programs (asan): seed 77: bytes differ")
    has(text, "random programs (tsan): Segmentation fault")
    has(text, "x.c:1:2: error: ugly")
    assert.equal("11 passed, 4 failed, 1 skipped", tail(text, 1))
    assert.equal(1, r.status)
  end)
end)
