-- A program that is started with stdin, stdout or stderr closed: what it prints lands in
-- no file of its own, and what it reads ends at once.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

-- Prints more than a stream holds back, from the script and from a host task that has a
-- file open, while a timeline is written.
local SCRIPT = [==[
local celer = require "celer"
local q = celer.queue()
local folder = arg[1]
print(("HELLO "):rep(5000))
q:submit(function(cg)
  cg:host_task(celer.on_master, function()
    local f = io.open(folder .. "/b.txt", "w")
    for i = 1, 500 do print("IN-HOST-TASK") io.stderr:write("TO-STDERR\n") end
    f:write("B")
    f:close()
  end)
end)
q:drain()
]==]

-- What one rank reads; mpirun breaks where a rank closes the stdin that it gives.
local READ = [==[
local f = io.open(folder .. "/read.txt", "w")
f:write(tostring(io.read("*a")))
f:close()
]==]

-- Runs `celer` by a shell that closes some files; `prefix` starts it.
local function run(words, closed, prefix, options)
  return celer.exec({ "sh", "-c", ("exec %s sh -c 'exec %s %s %s'"):format(prefix or "",
    celer.command(), words, closed) }, options)
end

local several = "mpirun --oversubscribe --allow-run-as-root -n 3"

describe("closed standard files", function()
  -- Runs a script with some of them closed; gives its folder.
  local function runs(script, closed, prefix, stdin)
    local folder = scratch.folder()
    scratch.write(folder .. "/case.lua", script)
    local r = run(("run --trace %s/t.json %s/case.lua %s"):format(folder, folder, folder),
      closed, prefix, { stdin = stdin })
    assert.equal(0, r.status, r.stderr)
    assert.equal("B", scratch.read(folder .. "/b.txt"))
    assert.is_table(cjson.decode(scratch.read(folder .. "/t.json")))
    local silent = (" " .. closed):find(" >&-", 1, true)
    assert.equal(silent and 0 or 500, select(2, r.stdout:gsub("IN%-HOST%-TASK\n", "")))
    return folder
  end

  for _, closed in ipairs({ "<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-",
    "<&- >&- 2>&-" }) do
    it("keep what is printed out of files: " .. closed, function()
      local folder = runs(SCRIPT .. READ, closed, nil, "typed")
      local wanted = closed:find("<&-", 1, true) and "" or "typed"
      assert.equal(wanted, scratch.read(folder .. "/read.txt"))
    end)

    it(("keep what is printed out of files: %s, on three ranks"):format(closed), function()
      runs(SCRIPT, closed, several)
    end)
  end

  it("end what reads from them", function()
    for _, words in ipairs({ "repl", "run -", "" }) do
      local r = run(words, "<&-", nil, { timeout = 120 })
      assert.equal(0, r.status, r.stderr)
      assert.equal("", r.stdout .. r.stderr)
    end
  end)
end)
