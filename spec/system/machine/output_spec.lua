-- What a script prints, is given, and leaves behind.
local celer = require("spec.support.celer")
local script = require("spec.support.script")

local three = script.shapes[2]

describe("what the driver writes", function()
  script.everywhere("appears once, from rank 0", [[
print("print", 1, nil, true)
io.write("io.write ", 2, "\n")
io.stdout:write("io.stdout", ":write\n")
io.stdout:write("again\n")
io.stderr:write("")
q:wait()
print("after")
]], function(out)
      assert.equal("print\t1\tnil\ttrue\nio.write 2\nio.stdout:write\nagain\nafter\n", out)
    end)

  script.everywhere("gives back what Lua does, and the file for more", [[
same("io.stdout:write", io.stdout:write(""):write("a\n"), io.stdout)
same("io.write", io.write("b"):write(1, "\n"), io.stdout)
same("io.stderr:write", io.stderr:write(""), io.stderr)
same("print", select("#", print("c")), 0)
refused("bad argument #2 to 'write' (string expected, got nil)",
  function() io.write("x", nil) end)
refused("bad argument #1 to 'write' (string expected, got table)",
  function() io.stdout:write({}) end)
refused("call it with a colon: file:write", function() io.stdout.write("x") end)
local f = io.open("/dev/null", "w")
same("file:write", f:write("x"):write("y"), f)
f:close()
refused("closed file", function() f:write("x") end)
]], function(out) assert.equal("a\nb1\nc\n", out) end)

  -- Where nothing says what getmetatable gives of a file, LuaJIT may end with a signal when
  -- it compiles the call.
  script.everywhere("is a file whose metatable says what getmetatable gives", [[
local function check(state)
  local meta = debug.getmetatable(io.stdout)
  same(state, rawget(meta, "__metatable"), meta)
  same(state, getmetatable(io.stdout), meta)
end
check "driver"
q:submit(function(cg)
  cg:host_task(celer.on_master, function()
    local meta = debug.getmetatable(io.stdout)
    assert(rawget(meta, "__metatable") == meta and getmetatable(io.stdout) == meta)
  end)
end)
q:wait()
]])

  it("is there when it was written, in a file, too", function()
    local r = celer.exec { "sh", "-c", '"$@" 2>&1', "sh", celer.command(), "-e",
      "print(1) io.stderr:write '2\\n' print(3) io.stderr:write '4\\n'" }
    assert.equal("1\n2\n3\n4\n", r.stdout)
  end)

  for i = 1, 2 do
    it("to io.stderr appears once, " .. script.shapes[i].name, function()
      local r = script.run("io.stderr:write('a ', 'warning\\n')", script.shapes[i])
      assert.equal("a warning\n", r.stderr)
      assert.equal("", r.stdout)
      assert.equal(0, r.status)
    end)
  end

  it("appears from all ranks, each line with its own, by --output all", function()
    for _, options in ipairs { { before = { "--output", "all" } },
      { env = { CELER_OUTPUT = "all" } } } do
      local r = script.run("print('a\\nb')\nio.write('c')\nio.write('d\\n')", three, options)
      for rank = 0, 2 do
        for _, line in ipairs { "a", "b", "cd" } do
          assert.matches(("[%d] %s\n"):format(rank, line), r.stdout, 1, true)
        end
      end
      assert.equal(9, #script.lines(r.stdout))
      assert.equal(0, r.status)
    end
  end)

  script.everywhere("goes to files as it is", [[
local name = os.tmpname() -- of each rank its own
local f = assert(io.open(name, "w"))
f:write("x", 1, "\n")
f:close()
local g = assert(io.open(name))
same("content", g:read("*a"), "x1\n")
g:close()
os.remove(name)
]])
end)

describe("a script", function()
  script.everywhere("finds its words in arg and ...", [[
same("script", arg[0]:match("[^/]*$"), "case.lua")
same("words", table.concat(arg, "|"), "one|--devices|two words|-x|--|")
same("count", select("#", ...), 6)
same("third", select(3, ...), "two words")
]], nil, { after = { "one", "--devices", "two words", "-x", "--", "" } })

  script.everywhere("begins with #! and requires modules beside it", "#!/usr/bin/env celer\n"
    .. [[
local celer = require "celer"
local mine = require "mine"
print(mine.value, require("deep.er").value)
celer.queue():drain()
]], function(out) assert.equal("3\t4\n", out) end, { bare = true, files = {
    ["mine.lua"] = "local o = require 'other'\nreturn { value = o + 1 }\n",
    ["other.lua"] = "return 2\n",
    ["deep/er.lua"] = "return { value = 4 }\n",
  } })

  script.everywhere("draws the same random numbers on all ranks", [[
local ffi = require "ffi"
local k = celer.kernel " kernel void f(item<1> i, out<double, 1> o, double v) { o(i[0]) = v; } "
local o = celer.buffer("double", 3)
local x, n = celer.random(), celer.random(1000)
same("unit", x >= 0 and x < 1, true)
same("whole", n % 1 == 0 and n >= 1 and n <= 1000, true)
q:submit(function(cg) cg:parallel_for(3, k, cg:discard_write(o), x * n) end)
local s = q:wait(o)
for i = 0, 2 do same("the same everywhere", s[i], x * n) end
local low, high = 9, 0
for _ = 1, 200 do
  local r = celer.random(3, 5)
  low, high = math.min(low, r), math.max(high, r)
end
same("bounds", low * 10 + high, 35)
celer.seed(7)
local first = celer.random()
celer.seed(8)
same("another seed", celer.random() ~= first, true)
celer.seed(7)
same("the same seed", celer.random(), first)
refused("no number from 2 to 1", function() celer.random(2, 1) end)
refused("whole numbers, not 0.5", function() celer.random(0.5) end)
refused("whole numbers, not x", function() celer.seed("x") end)
]])

  script.everywhere("reads one clock on all ranks", [[
local before = celer.time()
local k = celer.kernel [=[
  kernel void f(item<1> i, out<double, 1> o, double v) { o(i[0]) = v; }
]=]
local o = celer.buffer("double", 3)
q:submit(function(cg) cg:parallel_for(3, k, cg:discard_write(o), before) end)
local s = q:wait(o)
for i = 0, 2 do same("the same everywhere", s[i], before) end
q:submit(function(cg)
  cg:host_task({ 3 }, function() assert(celer.time() > 0) end)
end)
q:drain()
local after = celer.time()
same("it grows", before > 0 and after > before and after < 60, true)
]])

  it("draws the same random numbers in every run", function()
    local text = "print(('%.17g'):format(celer.random()))"
    local first = script.run(text, script.shapes[1]).stdout
    assert.matches("^0%.%d+\n$", first)
    assert.equal(first, script.run(text, three).stdout)
  end)

  for i = 1, 2 do
    it("ends by os.exit, after its work, " .. script.shapes[i].name, function()
      for code, status in pairs { [""] = 0, ["3"] = 3, ["true"] = 0, ["false"] = 1 } do
        local r = script.run("q:submit(function(cg) cg:host_task(celer.on_master, "
          .. "function() print 'worked' end) end)\nos.exit(" .. code .. ")\nprint 'not here'",
          script.shapes[i])
        assert.equal("worked", script.lines(r.stdout)[1])
        assert.equal(1, #script.lines(r.stdout))
        assert.equal(status, r.status)
        if status == 0 then assert.equal("", r.stderr) end
      end
    end)
  end

  it("says where a rank called os.exit that others did not", function()
    local r = script.run("if require('celer.core').rank() == 1 then os.exit(3) end\n"
      .. "q:submit(function(cg) cg:host_task(celer.on_master, function() end) end)",
      { ranks = 2, devices = 1 })
    assert.equal(1, r.status)
    assert.matches("but rank 1 submitted a synchronisation at %S*case.lua:2\n", r.stderr)
  end)

  for i = 1, 2 do
    it("is summed up by --log info, " .. script.shapes[i].name, function()
      local text = "local k = celer.kernel "
        .. "' kernel void f(item<1> i, inout<int, 1> o) { o(i[0])++; } '\n"
        .. "local o = celer.buffer('int', 9, { init = function() return 0 end })\n"
        .. "for _ = 1, 5 do q:submit(function(cg) cg:parallel_for(9, k, cg:read_write(o)) end) end"
      local r = script.run(text, script.shapes[i], { before = { "--log", "info" } })
      -- Ranks with GPUs also say how these exchange, where they do not by the shortest way.
      local said = r.stderr:gsub("celer: warning: messages between the GPUs [^\n]*\n", "")
        :gsub("celer: warning: what all ranks exchange goes [^\n]*\n", "")
      local tasks = said:match(
        ("^celer: rank 0 of %d: (%%d+) tasks, %%d+ instructions in [^\n]*\n$")
        :format(script.shapes[i].ranks or 1))
      assert.is_true((tonumber(tasks) or 0) >= 5, r.stderr)
      assert.equal(0, r.status)
    end)
  end
end)

describe("a mistake in", function()
  local cases = {
    ["an option"] = { { before = { "--ouput", "all" } }, "--ouput" },
    ["an option's value"] = { { before = { "--output", "some" } },
      '--output must be master, all, not "some"' },
    ["a variable's value"] = { { env = { CELER_HORIZON_STEP = "0" } },
      'CELER_HORIZON_STEP must be a whole number from 1 to 1000, not "0"' },
  }
  for name, case in pairs(cases) do
    for i = 1, 2 do
      it(name .. " is said once, " .. script.shapes[i].name, function()
        local r = script.run("print 'not here'", script.shapes[i], case[1])
        assert.matches(case[2], r.stderr, 1, true)
        assert.equal(1, select(2, r.stderr:gsub("celer: ", "")), r.stderr)
        assert.equal("", r.stdout)
        assert.equal(2, r.status)
      end)
    end
  end

  for i = 1, 2 do
    it("a variable's name is said once, and no mistake, " .. script.shapes[i].name, function()
      local r = script.run("print 'here'", script.shapes[i],
        { env = { CELER_OUTPT = "all", CELER_A_PLACE_OF_THIS_SITE = "/opt" } })
      assert.equal("celer: warning: CELER_A_PLACE_OF_THIS_SITE is no variable of celer's, and "
        .. "ignored\nceler: warning: CELER_OUTPT is no variable of celer's, and ignored, did you "
        .. "mean CELER_OUTPUT?\n", r.stderr)
      assert.equal("here\n", r.stdout)
      assert.equal(0, r.status)
    end)
  end

  it("a variable's name is not said where warnings are not wanted", function()
    local r = script.run("print 'here'", script.shapes[1],
      { env = { CELER_HOME = "/opt" }, before = { "--log", "error" } })
    assert.same({ "", "here\n", 0 }, { r.stderr, r.stdout, r.status })
  end)

  it("the script's name is said", function()
    local r = celer.run({ "run", "/no/such/script.lua" })
    assert.equal("celer: /no/such/script.lua: No such file or directory\n", r.stderr)
    assert.equal(1, r.status)
  end)
end)

describe("the environment", function()
  it("is rank 0's for all scripts but for what the launcher tells; a task's is its own", function()
    local r = celer.exec { "mpirun", "--oversubscribe", "-n", 2, "sh", "-c",
      'MINE=$OMPI_COMM_WORLD_RANK exec "$@"', "sh", celer.command(), "run", "--output", "all",
      "-e", [[
        print(os.getenv "MINE", os.getenv "OMPI_COMM_WORLD_RANK", os.getenv "NOBODYS")
        celer.queue():submit(function(cg)
          cg:host_task(celer.collective(), function() print("task", os.getenv "MINE") end)
        end)]] }
    assert.same({ "", 0 }, { r.stderr, r.status })
    local lines = {}
    for line in r.stdout:gmatch "[^\n]+" do lines[#lines + 1] = line end
    table.sort(lines)
    assert.same({ "[0] 0\t0\tnil", "[0] task\t0", "[1] 0\t1\tnil", "[1] task\t1" }, lines)
  end)
end)
