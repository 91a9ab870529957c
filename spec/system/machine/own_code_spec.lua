-- celer runs its own code alone: no Lua of the current folder, of LUA_PATH or of the
-- system, whatever the command; a script's own modules are found as ever.
local celer = require("spec.support.celer")
local preload = require("spec.support.preload")
local scratch = require("spec.support.scratch")

-- A folder in which each module that celer, or Lua, might look for ends the program.
local function hostile()
  local folder = scratch.folder()
  os.execute(("mkdir -p %s/jit %s/string %s/table %s/celer"):format(
    folder, folder, folder, folder))
  local names = { "argparse", "bit", "ffi", "jit", "celer", "lfs", "cjson", "jit/vmdef", "jit/util",
    "jit/opt", "string/buffer", "table/new", "table/clear", "celer/init" }
  for name in scratch.output("cd lua && find celer -name '*.lua'"):gmatch("(%S+)%.lua") do
    names[#names + 1] = name
    os.execute(("mkdir -p '%s/%s'"):format(folder, name:match("^(.*)/")))
  end
  for _, name in ipairs(names) do
    for _, ending in ipairs({ ".lua", ".so" }) do
      scratch.write(folder .. "/" .. name .. ending,
        ("io.stderr:write('%s runs\\n') os.exit(66)"):format(name))
    end
  end
  return folder
end

-- The same for Lua's paths, of this folder and of nowhere else.
local function paths_of(folder)
  return { LUA_PATH = folder .. "/?.lua", LUA_CPATH = folder .. "/?.so",
    LUA_INIT = "io.stderr:write('LUA_INIT runs\\n') os.exit(66)" }
end

-- Every thread that has a Lua state: the script's, a host lane's, a collective group's.
local SCRIPT = [==[
local celer = require "celer"
local q = celer.queue()
local u = celer.buffer("int", { 8 }, { name = "u", init = function(i) return i end })
local k = celer.kernel [[ kernel void add(item<1> it, inout<int, 1> u) { u(it[0]) += 1; } ]]
q:submit(function(cg) cg:parallel_for({ 8 }, k, cg:read_write(u)) end)
q:submit(function(cg)
  cg:host_task(celer.on_master, function(_, v) assert(v(7) == 8) end, cg:read(u, celer.all))
end)
q:submit(function(cg) cg:host_task(celer.collective(), function() end) end)
print(q:drain(u)(7))
]==]

-- What each command is given, and what it prints (a pattern).
local commands = {
  { { "--version" }, "^celer %d" },
  { { "--help" }, "^Usage: celer" },
  { { "help", "buffer" }, "celer.buffer" },
  { { "info" }, "\nranks    1" },
  { { "types" }, "celer.buffer" },
  { { "cache", "size" }, "compiled source" },
  { { "-e", "print(celer.box({ 1 }, { 3 }))" }, "^%[1, 3%)\n$" },
  { { "repl" }, "8", stdin = "4 + 4\n" },
  { { "run", "SCRIPT" }, "^8\n$" },
  { { "run", "--dry-run", "2", "SCRIPT" }, "^0\n", stderr = "as rank 0 of 2" },
  { { "run", "-" }, "^8\n$", stdin = SCRIPT },
  { { "check", "SCRIPT" }, "^8\n$", stderr = "no mistakes found, 1 hint" },
  { { "build", "SCRIPT" }, "^0\n$", stderr = "^celer: build: " },
  { { "graph", "SCRIPT" }, "digraph", stderr = "^0\n$" },
  { { "run", "SCRIPT" }, "^8\n$", ranks = 2 },
}

-- Runs one of them in a folder; the script lies in another one, which it gives.
local function run(command, cwd, env)
  local folder = scratch.folder()
  local script = folder .. "/case.lua"
  scratch.write(script, SCRIPT)
  local words = {}
  for i, word in ipairs(command[1]) do words[i] = word == "SCRIPT" and script or word end
  local r = celer.run(words,
    { cwd = cwd, env = env, stdin = command.stdin, ranks = command.ranks })
  assert.matches(command.stderr or "^$", r.stderr)
  assert.equal(0, r.status)
  assert.matches(command[2], r.stdout)
  return folder
end

local function name_of(command)
  return "celer " .. table.concat(command[1], " ")
    .. (command.ranks and (", on %d ranks"):format(command.ranks) or "")
end

describe("celer's own code", function()
  for _, command in ipairs(commands) do
    it("is all that runs in a hostile folder: " .. name_of(command), function()
      local folder = hostile()
      run(command, folder, paths_of(folder))
    end)
  end

  for _, command in ipairs(commands) do
    it("is in the library, and no other Lua is opened: " .. name_of(command), function()
      local env = preload("opened")
      env.OPENED = scratch.path(".txt")
      scratch.write(env.OPENED, "")
      local folder = run(command, scratch.folder(), env)
      local seen = command[1][#command[1]] ~= "SCRIPT"
      for path in scratch.read(env.OPENED):gmatch("[^\n]+") do
        if path == folder .. "/case.lua" then seen = true end
        if path:sub(1, #folder) ~= folder then assert.not_matches("lua$", path) end
      end
      assert.is_true(seen, "nothing takes notes")
    end)
  end

  it("is complete where it was installed, with no Lua beside it", function()
    local prefix = scratch.path()
    local install = { "cmake", "--install", celer.folder(), "--prefix", prefix }
    assert.equal(0, celer.exec(install).status)
    local script = scratch.path(".lua")
    scratch.write(script, SCRIPT)
    local env = paths_of("/nowhere")
    local cases = { [{ "--version" }] = "^celer %d", [{ "run", script }] = "^8\n$" }
    for words, wanted in pairs(cases) do
      local r = celer.exec({ prefix .. "/bin/celer", unpack(words) }, { env = env })
      assert.equal("", r.stderr)
      assert.equal(0, r.status)
      assert.matches(wanted, r.stdout)
    end
  end)
end)

describe("a script's own modules", function()
  -- FOLDER is the script's, ELSEWHERE another one; the text of mine.lua lies there.
  local function case(files, env, ranks)
    local folder, elsewhere = scratch.folder(), scratch.folder()
    for name, text in pairs(files) do
      text = text:gsub("FOLDER", folder):gsub("ELSEWHERE", elsewhere)
      scratch.write((name:find("mine") and elsewhere or folder) .. "/" .. name, text)
    end
    local all = {}
    for name, value in pairs(env) do all[name] = value:gsub("ELSEWHERE", elsewhere) end
    local r = celer.run({ "run", "--output", "all", folder .. "/case.lua" },
      { env = all, ranks = ranks })
    local function short(text)
      return (text:gsub(folder, "FOLDER"):gsub(elsewhere, "ELSEWHERE"))
    end
    return short(r.stdout), short(r.stderr:gsub("%-%-%-.*", "")) -- without mpirun's
  end

  local function prints(files, env, wanted)
    local stdout, stderr = case(files, env)
    assert.equal("", stderr)
    assert.equal(wanted, stdout)
    stdout, stderr = case(files, env, 2)
    assert.equal("", stderr)
    for rank = 0, 1 do
      local said = {}
      for line in stdout:gmatch("%[" .. rank .. "%] ([^\n]*)") do said[#said + 1] = line end
      assert.equal(wanted, table.concat(said, "\n") .. "\n", stdout)
    end
  end

  it("lie beside it, also by a name that celer has a module of its own for", function()
    prints({ ["case.lua"] = "print(require 'argparse', require 'settings')",
      ["argparse.lua"] = "return 'its argparse'", ["settings.lua"] = "return 'its settings'" },
      {}, "its argparse\tits settings\n")
  end)

  it("lie where LUA_PATH says, after those beside it", function()
    prints({ ["case.lua"] = "print(require 'mine', require 'beside')",
      ["mine.lua"] = "return 'mine'", ["beside.lua"] = "return 'beside'" },
      { LUA_PATH = "ELSEWHERE/?.lua" }, "mine\tbeside\n")
  end)

  it("lie where the script puts package.path, in its order", function()
    prints({ ["case.lua"] = "package.path = 'ELSEWHERE/?.lua;' .. package.path\n"
      .. "local one = require 'mine'\n"
      .. "package.path = ('ELSEWHERE/%s.txt;'):format '?' .. package.path\n"
      .. "print(one, require('mine' .. 2), require 'beside')",
      ["mine.lua"] = "return 'mine, ' .. ...", ["mine2.txt"] = "return 'second'",
      ["beside.lua"] = "return (...)", ["mine2.lua"] = "return 'not this'" },
      {}, "mine, mine\tsecond\tbeside\n")
  end)

  it("may be written by the script itself", function()
    prints({ ["case.lua"] = "local f = io.open('ELSEWHERE/fresh.lua', 'w')\n"
      .. "f:write('return 7') f:close()\nprint(require 'fresh')" },
      { LUA_PATH = "ELSEWHERE/?.lua" }, "7\n")
  end)

  it("that are nowhere, or have a mistake, are told of as Lua does it", function()
    for ranks = 1, 2 do
      local _, stderr = case({ ["case.lua"] = "\nrequire 'missing.one'" },
        { LUA_PATH = "ELSEWHERE/?.lua", LUA_CPATH = "ELSEWHERE/?.so" }, ranks)
      assert.equal("celer: FOLDER/case.lua:2: module 'missing.one' not found:"
        .. "\n\tno field package.preload['missing.one']\n\tno file 'FOLDER/missing/one.lua'"
        .. "\n\tno file 'FOLDER/missing/one/init.lua'\n\tno file 'ELSEWHERE/missing/one.lua'"
        .. "\n\tno file 'ELSEWHERE/missing/one.so'\n\tno file 'ELSEWHERE/missing.so'\n", stderr)
      _, stderr = case({ ["case.lua"] = "require 'mine'", ["mine.lua"] = "return 1\nreturn 2" },
        { LUA_PATH = "ELSEWHERE/?.lua" }, ranks)
      assert.matches("^celer: ELSEWHERE/mine.lua:2: '<eof>' expected near 'return'\n", stderr)
    end
  end)

  it("are read by rank 0 alone: all have them though the files are gone", function()
    local stdout, stderr = case({ ["case.lua"] = "os.remove('ELSEWHERE/mine.lua')\n"
      .. "print(require 'mine')", ["mine.lua"] = "return 'mine'" },
      { LUA_PATH = "ELSEWHERE/?.lua" }, 2)
    assert.equal("", stderr)
    assert.equal(2, select(2, stdout:gsub("mine", "")))
    stdout, stderr = case({ ["case.lua"] = "local celer = require 'celer'\n"
      .. "os.remove 'FOLDER/set.cu'\nlocal set = celer.kernel { file = 'set.cu' }\n"
      .. "local q, b = celer.queue(), celer.buffer('int', { 4 })\n"
      .. "q:submit(function(cg) cg:parallel_for({ 4 }, set, cg:discard_write(b)) end)\n"
      .. "print(q:drain(celer.capture(b))(3))",
      ["set.cu"] = "kernel void set(item<1> it, out<int, 1> b) { b(it[0]) = 7; }" }, {}, 2)
    assert.equal("", stderr)
    assert.equal(2, select(2, stdout:gsub("7", "")))
  end)
end)
