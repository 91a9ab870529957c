-- exit() in a kernel, a library or the script: the run does not look as if it were over.
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

local processor = { "--backend", "cpu" }

-- A library of the user's: leave(how) ends the process, and spawn() a child of it.
local LIBRARY = [[
  #include <stdlib.h>
  #include <sys/wait.h>
  #include <unistd.h>
  void leave(int how) {
    switch (how) {
    case 0: exit(0);
    case 1: quick_exit(0);
    case 2: _exit(0);
    case 3: _Exit(0);
    case 4: exit(3);
    }
  }
  int spawn(int how) {
    pid_t child = fork();
    if (child == 0) leave(how);
    int status = -1;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  }
]]

local library
local function path_of_library()
  if library then return library end
  library = scratch.path(".so")
  local source = scratch.path(".c")
  scratch.write(source, LIBRARY)
  assert(os.execute(("%s -shared -fPIC -o %s %s"):format(os.getenv("CC") or "cc", library,
    source)) == 0)
  return library
end

local calls = { [0] = "exit(0)", "quick_exit()", "_exit(0)", "_Exit(0)", "exit(3)" }

local function kernel(call)
  return ([==[
print "printed before"
local v = celer.buffer("int", 12, { init = 1 })
local k = celer.kernel [=[
  #include <cstdlib>
  #include <unistd.h>
  kernel void leaves(item<1> it, inout<int, 1> v) { if (v(it[0]) == 1) %s; }
]=]
q:submit(function(cg) cg:parallel_for(12, k, cg:read_write(v)) end)
q:wait()
print "never printed"]==]):format(call)
end

local function native(where, how)
  return ([==[
print "printed before"
local ffi = require "ffi"
ffi.cdef "void leave(int); int spawn(int);"
local library = "%s"
q:submit(function(cg)
  cg:host_task(%s, function()
    local ffi = require "ffi"
    ffi.cdef "void leave(int); int spawn(int);"
    ffi.load(library).leave(%d)
  end)
end)
q:wait()
print "never printed"]==]):format(path_of_library(), where, how)
end

describe("an exit in the middle of a run", function()
  local function told(text, wanted, shape)
    local r = script.run(text, shape, { before = processor })
    assert.is_true(r.status ~= 0)
    assert.is_false(r.timed_out)
    assert.equal("printed before\n", r.stdout)
    assert.matches("celer: " .. wanted .. "\n", (r.stderr:gsub("/%S*/case", "case")), 1, true)
    if not shape.ranks then
      assert.equal(1, r.status)
      assert.equal(1, select(2, r.stderr:gsub("celer: ", "")))
    end
  end

  for _, shape in ipairs({ script.shapes[1], script.shapes[2] }) do
    for how = 0, #calls do
      local call = calls[how]
      it(("is named: %s in a kernel, %s"):format(call, shape.name), function()
        told(kernel((call:gsub("%(%)", "(0)"))),
          call .. " is called in kernel leaves (case.lua:9): the run is not over; let it return",
          shape)
      end)

      it(("is named: %s in a library, %s"):format(call, shape.name), function()
        told(native("celer.on_master", how), call .. " is called in host task (case.lua:7) at "
          .. "case.lua:10: the run is not over; to end it with a message, raise an error", shape)
      end)
    end

    it(("is named: in a collective task, %s"):format(shape.name), function()
      told(native("celer.collective()", 0), "exit(0) is called in host task (case.lua:7) at "
        .. "case.lua:10: the run is not over; to end it with a message, raise an error", shape)
    end)

    it(("is named: in the script, %s"):format(shape.name), function()
      told("print 'printed before'\nlocal ffi = require 'ffi'\nffi.cdef 'void exit(int);'\n"
        .. "q:wait()\nffi.C.exit(0)\nprint 'never printed'",
        "exit(0) is called in the script's own thread (case.lua:6): os.exit ends a run, once all "
          .. "is executed", shape)
    end)
  end

  for how = 0, #calls do
    it(("is a child's own affair: %s"):format(calls[how]), function()
      local r = script.run(native("celer.on_master", how):gsub("ffi.load%(library%).leave%((%d)%)",
        "print(ffi.load(library).spawn(%1))"):gsub("never printed", "printed after"),
        script.shapes[1], { before = processor })
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.equal(("printed before\n%d\nprinted after\n"):format(how == 4 and 3 or 0), r.stdout)
    end)
  end

  it("is os.exit's to make, with its status", function()
    for status, ranks in pairs({ [0] = 3, [7] = 1 }) do
      local r = script.run("print 'printed before'\nos.exit(" .. status .. ")",
        { devices = 1, ranks = ranks })
      assert.equal(status, r.status)
      assert.equal("printed before\n", r.stdout)
      assert.not_matches("celer:", r.stderr)
    end
  end)
end)
