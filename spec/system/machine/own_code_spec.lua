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
  local function prints(files, env, wanted)
    local folder, elsewhere = scratch.folder(), scratch.folder()
    for name, text in pairs(files) do
      scratch.write((name == "mine.lua" and elsewhere or folder) .. "/" .. name, text)
    end
    for name, value in pairs(env) do env[name] = value:gsub("ELSEWHERE", elsewhere) end
    local r = celer.run({ "run", folder .. "/case.lua" }, { env = env })
    assert.equal("", r.stderr)
    assert.equal(wanted, r.stdout)
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
end)
