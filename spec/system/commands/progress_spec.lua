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
    refused("celer.progress takes how many steps the loop has, and nothing else: it counts from 1",
      function() celer.progress(10, 20) end)
    refused("celer.progress takes how many steps the loop has, not 1.5",
      function() celer.progress(1.5) end)
  ]])
end)

-- Steps of random length to output times; how many there are the script finds out by waiting.
local TIMES = [==[
local t, dt, count = celer.scalar("double", 0), celer.scalar("double"), celer.scalar("int", 0)
local u = celer.buffer("double", { 30 }, { init = 0 })
local advance = celer.kernel(function(i, u, dt, t) u[i] = u[i] + dt * (1 + i + t) end)
local outputs = { 0.1, 0.25, 0.7, 1 }
local function length(now) return 0.01 + celer.math.abs(celer.math.sin(37 * now)) / 50 end
local function run(ahead)
  local seen, submitted = {}, 0
  t:set(0)
  count:set(0)
  u:fill(0)
  for k, t_out in ipairs(outputs) do
    for _, go in celer.progress { of = t, to = 1, till = t_out, ahead = ahead } do
      dt:set(celer.math.min(length(t), t_out - t))
      q:when(go, { 30 }, advance, u, dt, t)
      t:set(celer.select(dt:lt(t_out - t), t + dt, t_out))
      count:set(celer.select(go, count + 1, count))
      submitted = submitted + 1
    end
    same("lands on the output", t(), t_out)
    seen[k] = { count(), u(29) }
  end
  return seen, submitted
end
]==]

describe("celer.progress of a time", function()
  script.everywhere("computes no step too many", TIMES .. [==[
local now, sum, n, want = 0, 0, 0, {}
for k, t_out in ipairs(outputs) do
  while now < t_out do
    local dt = math.min(length(now), t_out - now)
    sum = sum + dt * (30 + now)
    now = dt < t_out - now and now + dt or t_out
    n = n + 1
  end
  want[k] = { n, sum }
end
for _, ahead in ipairs { 4, 0, 1, 40 } do
  local seen, submitted = run(ahead)
  for k in ipairs(outputs) do
    same("steps", seen[k][1], want[k][1])
    if math.abs(seen[k][2] / want[k][2] - 1) > 1e-12 then same("u", seen[k][2], want[k][2]) end
  end
  same("submitted", submitted, n + 4 * ahead)
end
for _ in celer.progress { of = t, to = 2, till = 1, ahead = 0 } do error "it is 1 already" end
]==])

  it("ends in a dry run", function()
    local r = script.run(TIMES .. [==[
      local steps = 0
      for _ in celer.progress { of = t, to = 2, dry = 7 } do steps = steps + 1 end
      print(steps)
      for _ in celer.progress { of = t, to = 2, ahead = 0 } do steps = steps + 1 end
      print(steps)
    ]==], { devices = 1 }, { before = { "--dry-run", 4 } })
    assert.same({ "11\n111\n", 0 }, { r.stdout, r.status })
  end)

  script.everywhere("refuses what it does not know, with the user's line", [==[
local t = celer.scalar("double", 0)
refused("'of' must be the scalar that holds the time, not nil",
  function() celer.progress { to = 1 } end)
refused("'of' must be the scalar that holds the time, not a buffer", function()
  celer.progress { of = celer.buffer("double", 3), to = 1 }
end)
refused("'to' must be a number, not nil", function() celer.progress { of = t } end)
refused("'to' is 1, and must be more than 'from', 2",
  function() celer.progress { of = t, from = 2, to = 1 } end)
refused("'till' must be a number, not a string",
  function() celer.progress { of = t, to = 1, till = "x" } end)
refused("'ahead' is a number of steps, from 0, not 0.5",
  function() celer.progress { of = t, to = 1, ahead = 0.5 } end)
refused("unknown option 'til', did you mean till?",
  function() celer.progress { of = t, to = 1, til = 1 } end)
]==], nil, { shapes = { script.shapes[1] } })

  it("says on a terminal which share has passed", function()
    local folder = scratch.folder()
    scratch.write(folder .. "/case.lua", [==[
      local celer = require "celer"
      local ffi = require "ffi"
      ffi.cdef "int usleep(unsigned);"
      local t = celer.scalar("double", 0)
      for _ in celer.progress { of = t, from = -1, to = 3, ahead = 0 } do
        t:set(t + 0.125)
        ffi.C.usleep(100000)
      end
    ]==])
    local shown = terminal.open { "run", "--backend", "cpu", folder .. "/case.lua" }
    assert.equal(0, shown:status())
    local shares = {}
    for share in shown.all:gmatch("tasks[^\r]*, ([%d.]+) %%") do
      shares[#shares + 1] = tonumber(share)
    end
    assert.is_true(#shares >= 3, shown.all)
    for i = 2, #shares do assert.is_true(shares[i] >= shares[i - 1], shown.all) end
    assert.is_true(shares[1] >= 25 and shares[#shares] <= 100, shown.all)
    assert.truthy(shown.all:find("%%, %d+ s left"), shown.all)
    os.execute("rm -r " .. folder)
  end)
end)
