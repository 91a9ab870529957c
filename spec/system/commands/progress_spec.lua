-- celer run --progress: on a terminal, and elsewhere; and what is said at the end.
local script = require("spec.support.script")
local scratch = require("spec.support.scratch")
local terminal = require("spec.support.terminal")

-- Steps that take some time each; what is printed lies between them.
local PROGRAM = [==[
local celer = require "celer"
local ffi = require "ffi"
ffi.cdef "int usleep(unsigned);"
local q = celer.queue()
local o = celer.host_object(function() return {} end)
local steps = tonumber(arg[1]) or 40
for step in celer.progress(steps) do
  q:submit(function(cg)
    cg:host_task(1, function()
      local wait = require "ffi"
      pcall(wait.cdef, "int usleep(unsigned);")
      wait.C.usleep(50000)
      if step % 10 == 0 then print("task", step) end
    end, cg:side_effect(o))
  end)
  if step % 20 == 0 then
    q:wait()
    io.write("half ")
    ffi.C.usleep(700000)
    io.write("line\n")
  end
end
q:drain()
]==]

-- What is on a terminal after `text`: a list of lines.
local function screen(text)
  local lines, column = { "" }, 0
  local at = 1
  while at <= #text do
    local line = lines[#lines]
    if text:find("^\27%[K", at) then
      lines[#lines] = line:sub(1, column)
      at = at + 3
    else
      local char = text:sub(at, at)
      assert(char ~= "\27", "another sequence")
      if char == "\r" then column = 0
      elseif char == "\n" then
        lines[#lines + 1] = ""
        column = 0
      else
        lines[#lines] = line:sub(1, column) .. char .. line:sub(column + 2)
        column = column + 1
      end
      at = at + 1
    end
  end
  if lines[#lines] == "" then lines[#lines] = nil end
  return lines
end

describe("--progress", function()
  local folder, path
  setup(function()
    folder = scratch.folder()
    path = folder .. "/case.lua"
    scratch.write(path, PROGRAM)
  end)
  teardown(function() os.execute("rm -r " .. folder) end)

  local function on_terminal(words, options)
    local args = { "run", "--backend", "cpu" }
    for _, word in ipairs(words) do args[#args + 1] = word end
    local t = terminal.open(args, options)
    local status = t:status()
    return t.all, status
  end

  it("is drawn on a terminal, and leaves no trace there", function()
    local all, status = on_terminal { path }
    assert.equal(0, status)
    assert.same({ "task\t10", "task\t20", "half line", "task\t30", "task\t40", "half line" },
      screen(all))
    local steps = {}
    for step in all:gmatch("celer: %d+ of %d+ tasks[^\r]*, step (%d+) of 40") do
      steps[#steps + 1] = tonumber(step)
    end
    assert.is_true(#steps >= 3, all)
    for i = 2, #steps do assert.is_true(steps[i] >= steps[i - 1], all) end
    assert.truthy(all:find("step %d+ of 40, %d+ s left"), all)
    assert.truthy(all:find("tasks, [%d.]+/s, "), all)
  end)

  it("is not drawn when it is not wanted, or nobody would see it", function()
    for _, case in ipairs { { env = { CELER_PROGRESS = 0 } }, { term = "dumb" } } do
      local all = on_terminal({ path, "20" }, case)
      assert.is_nil(all:find("celer:", 1, true), all)
    end
    local all = on_terminal { "--log", "error", path, "20" }
    assert.is_nil(all:find("celer:", 1, true), all)
    local r = script.run(PROGRAM, { devices = 1 }, { bare = true, before = { "--backend", "cpu" } })
    assert.same({ 0, "" }, { r.status, r.stderr })
  end)

  it("makes room for errors", function()
    local failing = folder .. "/failing.lua"
    scratch.write(failing, (PROGRAM:gsub("q:drain%(%)", "error 'on purpose'")))
    local all, status = on_terminal { failing, "20" }
    assert.not_equal(0, status)
    local lines = screen(all)
    assert.truthy(lines[#lines]:find("^celer: .*failing.lua:%d+: on purpose$"), lines[#lines])
  end)

  it("asked for, ends with a summary", function()
    for _, ranks in ipairs { false, 2 } do
      local r = script.run(PROGRAM, { devices = 1, ranks = ranks or nil },
        { bare = true, before = { "--backend", "cpu", "--progress" }, after = { "5" } })
      assert.equal(0, r.status)
      local wall, waited = r.stderr:match(("^celer: rank 0 of %d: [56] tasks, %%d+ instructions in "
        .. "([%%d.]+) s, of which the script waited ([%%d.]+) s; 0 messages with 0 bytes, "
        .. "0 copies with 0 bytes, 0 allocations\n$"):format(ranks or 1))
      assert.is_true(tonumber(waited) > 0.01, r.stderr)
      assert.is_true(tonumber(wall) >= tonumber(waited) and tonumber(wall) < 300, r.stderr)
    end
  end)
end)

describe("celer.progress", function()
  script.everywhere("counts from 1 to n", [[
    local sum = 0
    for i in celer.progress(10) do sum = sum * 10 + i % 10 end
    same("1 to 10", sum, 1234567890)
    for _ in celer.progress(0) do error("no step") end
    for i in celer.progress(3) do
      for k in celer.progress(2) do sum = sum + i * k end
    end
    same("within another", sum, 1234567908)
    for i in celer.progress(5) do if i == 2 then break end end
    refused("celer.progress takes how many steps the loop has, not nil",
      function() celer.progress() end)
    refused("celer.progress takes how many steps the loop has, not 1.5",
      function() celer.progress(1.5) end)
    refused("celer.progress takes how many steps the loop has, not a table",
      function() celer.progress {} end)
  ]])
end)
