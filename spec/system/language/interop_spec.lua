-- Interop tasks: Lua functions that call libraries where a kernel would run. On
-- the processor; on the driver of spec/device/fake_driver.lua, whose streams do
-- at once what they are given and whose memory is the host's; and on GPUs.
local celer = require("spec.support.celer")
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local script = require("spec.support.script")

local folder
setup(function()
  folder = fake.build()
  assert(os.execute(("%s -shared -fPIC %s -o %s/libcublas.so"):format(
    os.getenv("CC") or "cc", "spec/system/machine/fake_cublas.c", folder)) == 0)
end)

local function fake_env() return fake.env({ FAKE_GPUS = 2 }, folder) end

-- How each way runs: the words before the script.
local ways = {
  { name = "on the processor", shapes = {
    script.shapes[1], script.shapes[2], script.shapes[3],
    { name = "on three ranks with two devices", devices = 2, ranks = 3 },
  }, options = function(shape)
    return { before = { "--backend", "cpu", "--devices", shape.devices } }
  end },
  { name = "on a driver that is none", shapes = {
    { name = "on one rank", devices = 1, list = "0," },
    { name = "on three ranks", devices = 1, ranks = 3, list = "0,1" },
    { name = "on two devices", devices = 2, list = "0,1" },
  }, options = function(shape)
    return { before = { "--backend", "cuda", "--devices", shape.list }, env = fake_env() }
  end },
  { name = "on a GPU", shapes = script.gpus, why_not = cuda.no_gpu, options = function()
    return { before = { "--backend", "cuda" } }
  end },
}

-- A test per way and shape; `check` as script.everywhere's.
local function everywhere(name, text, check)
  if not check then text = text .. "\nprint 'checked'" end
  for _, way in ipairs(ways) do
    for _, shape in ipairs(way.shapes) do
      it(("%s, %s %s"):format(name, way.name, shape.name), function()
        if way.why_not then return pending(way.why_not) end
        local r = script.run(text, shape, way.options(shape))
        if check then return check(r, shape, way) end
        assert.equal("", r.stderr)
        assert.equal(0, r.status)
        assert.equal("checked\n", r.stdout)
      end)
    end
  end
end

-- A command group's work that copies rows: part.stream, or the processor.
local COPY = [[
local ffi = require "ffi"
local function copy_rows(part, from, to)
  local p, from_row = from:pointer()
  local r, to_row = to:pointer()
  local rows, bytes = to.size[0], 4 * to.size[1]
  if part.stream and not part.kept.driver then
    ffi.cdef "int cuMemcpyAsync(uint64_t to, uint64_t from, size_t size, void *stream);"
    part.kept.driver = ffi.load "libcuda.so.1"
  end
  for i = 0, rows - 1 do -- upside down
    local source, target = p + (rows - 1 - i) * from_row, r + i * to_row
    if part.stream then
      local code = part.kept.driver.cuMemcpyAsync(ffi.cast("uintptr_t", target),
        ffi.cast("uintptr_t", source), bytes, part.stream)
      if code ~= 0 then error("cuMemcpyAsync: " .. code) end
    else
      ffi.copy(target, source, bytes)
    end
  end
end
]]

describe("an interop task", function()
  everywhere("takes its turn among the others", COPY .. [==[
local h, w = 37, 5
local a = celer.buffer("int", { h, w }, { init = function(i, j) return 100 * i + j end })
local b = celer.buffer("int", { h, w }, { name = "b" })
local function mirrored(chunk)
  return celer.box({ h - chunk.max[0], chunk.min[1] }, { h - chunk.min[0], chunk.max[1] })
end
local function value(i, t)
  for s = t, 1, -1 do i = h - 1 - i end
  return i
end
for t = 1, 12 do
  q:submit(function(cg)
    cg:interop_task({ h, w }, copy_rows, cg:read(a, mirrored), cg:discard_write(b))
  end)
  q:submit(function(cg)
    cg:host_task({ h, w }, function(part, b)
      for i = part.min[0], part.max[0] - 1 do
        for j = part.min[1], part.max[1] - 1 do b:set(i, j, b(i, j) + 1) end
      end
    end, cg:read_write(b))
  end)
  a, b = b, a
end
local s = q:wait(a)
for i = 0, h - 1 do
  for j = 0, w - 1 do same(i .. " " .. j, s(i, j), 100 * value(i, 12) + j + 12) end
end
]==])

  -- Each GPU of the driver that is none reaches the next one alone. Its memory is the host's.
  it("is given what was made on GPUs that do not reach each other", function()
    local r = script.run([==[
local ffi = require "ffi"
local h, w = 31, 7
local a = celer.buffer("int", { h, w }, { name = "a" })
local function write(part, a)
  local p, row = a:pointer()
  for i = 0, part.size[0] - 1 do
    for j = 0, w - 1 do ffi.cast("int *", p)[i * row + j] = 100 * (a.min[0] + i) + j end
  end
end
local function check(part, a)
  local p, row = a:pointer()
  for i = 0, a.size[0] - 1 do
    for j = 0, a.size[1] - 1 do
      same(part.device .. ": " .. i .. " " .. j, p[i * row + j],
        100 * (a.min[0] + i) + a.min[1] + j)
    end
  end
end
local function columns() return celer.box({ 0, 2 }, { h, 5 }) end
for _, mapper in ipairs { celer.all, columns } do
  q:submit(function(cg) cg:interop_task({ h, w }, write, cg:discard_write(a)) end)
  q:submit(function(cg) cg:interop_task({ h, w }, check, cg:read(a, mapper)) end)
end
q:wait()
print "checked"]==], { devices = 3 }, { before = { "--backend", "cuda", "--devices", 3 },
      env = fake.env({ FAKE_GPUS = 3, FAKE_MEMORY = 64 }) })
    assert.equal("", r.stderr)
    assert.equal("checked\n", r.stdout)
  end)

  local function with_kernels(name, way, why_not)
    for _, shape in ipairs(way.shapes) do
      it(("takes its turn among kernels, %s %s"):format(name, shape.name), function()
        if why_not then return pending(why_not) end
        local r = script.run(COPY .. [==[
local h, w = 2000, 300
local a = celer.buffer("int", { h, w }, { name = "a", init = function(i, j) return i % 7 + j end })
local b = celer.buffer("int", { h, w }, { name = "b" })
local add = celer.kernel "kernel void add(item<2> it, inout<int, 2> v) { v(it[0], it[1]) += 1; }"
local function mirrored(chunk)
  return celer.box({ h - chunk.max[0], chunk.min[1] }, { h - chunk.min[0], chunk.max[1] })
end
for t = 1, 40 do
  q:submit(function(cg) cg:parallel_for({ h, w }, add, cg:read_write(a)) end)
  q:submit(function(cg)
    cg:interop_task({ h, w }, copy_rows, cg:read(a, mirrored), cg:discard_write(b))
  end)
  a, b = b, a
end
local s = q:wait(a)
for i = 0, h - 1 do
  for j = 0, w - 1 do same(i .. " " .. j, s(i, j), i % 7 + j + 40) end
end
print "checked"
]==], shape, way.options(shape))
        assert.equal("", r.stderr)
        assert.equal("checked\n", r.stdout)
      end)
    end
  end
  with_kernels("on the processor", ways[1])
  with_kernels("on a GPU", ways[3], cuda.no_gpu)

  everywhere("is divided over devices, which keep what is kept", [==[
local u = celer.buffer("int", { 6, 4 }, { name = "u" })
local by = 3
for _ = 1, 3 do
  q:submit(function(cg)
    cg:interop_task({ 6, 4 }, function(part, u, by)
      part.kept.calls = (part.kept.calls or 0) + 1
      same("global", part.global[0] * 10 + part.global[1], 64)
      same("u", tostring(u.box), tostring(part))
      local _, row, one = u:pointer()
      same("strides", row * 10 + one, 41)
      print(part.rank, part.device, part.size[0], by, part.kept.calls, part.stream and 1 or 0)
    end, cg:discard_write(u), by)
  end)
end
q:submit(function(cg)
  cg:interop_task(0, function() error("not called") end)
end)
]==], function(r, shape, way)
    assert.equal("", r.stderr)
    local rows, calls = 0, {}
    for rank, device, size, by, kept, stream in
      r.stdout:gmatch("(%d+)\t(%d+)\t(%d+)\t(%d+)\t(%d+)\t(%d)\n") do
      assert.equal("3", by)
      assert.equal(way == ways[1] and "0" or "1", stream)
      rows = rows + size
      local place = rank .. " " .. device
      calls[place] = (calls[place] or 0) + 1
      local shared = way ~= ways[2] -- a host lane, or one GPU named twice
      assert.is_true(shared or tonumber(kept) == calls[place])
    end
    assert.equal(18, rows)
    if way == ways[3] then return end
    local places = 0
    for _, n in pairs(calls) do
      places = places + 1
      assert.equal(3, n)
    end
    assert.equal((shape.ranks or 1) * shape.devices, places)
  end)

  everywhere("is not cut for its halo", [==[
local n = 2 ^ 21
local a = celer.buffer("int", n, { init = function() return 0 end })
local b = celer.buffer("int", n, { init = function() return 0 end })
for _ = 1, 3 do
  q:submit(function(cg)
    cg:interop_task(n, function(_, a, b) print(b.size[0]) end,
      cg:read(a, celer.neighborhood(1)), cg:read_write(b))
  end)
  a, b = b, a
end
]==], function(r, shape)
    assert.equal("", r.stderr)
    local lines = script.lines(r.stdout)
    assert.equal(3 * shape.devices * (shape.ranks or 1), #lines)
  end)

  for _, way in ipairs(ways) do
    it("names the line that raises, " .. way.name, function()
      if way.why_not then return pending(way.why_not) end
      local r = script.run([[
local u = celer.buffer("int", 8, { name = "u", init = function() return 0 end })
local function library(u) assert(u.size[0] < 0, "status 7") end
q:submit(function(cg)
  cg:interop_task(8, function(part, u)
    library(u)
  end, cg:read_write(u))
end)
q:drain()
]], way.shapes[1], way.options(way.shapes[1]))
      assert.matches("case.lua:3: status 7 (the task was submitted at ", r.stderr, 1, true)
      assert.matches("case.lua:5)", r.stderr, 1, true)
      assert.equal(1, r.status)
      assert.equal("", r.stdout)
    end)
  end

  local ELEMENTS = [==[
local ffi = require "ffi"
local u = celer.buffer("int", 8, { name = "u", init = function(i) return i end })
local w = celer.buffer("int", 8, { name = "w" })
q:submit(function(cg)
  cg:interop_task(8, function(part, u, w)
    local function fails(words, f, ...)
      local ok, message = pcall(f, ...)
      same(words, not ok and message:find(words, 1, true) ~= nil or message, true)
    end
    same("bounds", u.min[0] * 100 + u.max[0] * 10 + u.size[0], 88)
    same("pointer", tostring(ffi.typeof((w:pointer()))):match("const") , nil)
    same("pointer", tostring(ffi.typeof((u:pointer()))):match("const") , "const")
    if part.stream then
      local words = "u is in the memory of GPU 0 here, where Lua cannot read or write elements"
      fails(words, u, 0)
      fails(words, function() return u[0] end)
      fails(words, function() u[0] = 1 end)
      fails(words, u.set, u, 0, 1)
      fails(words, u.string, u)
      fails("not a view of a GPU's memory", celer.png, "no.png", u)
      same("text", tostring(w), "w: int [0, 8) on GPU 0")
      same("stream", tostring(ffi.typeof(part.stream)), "ctype<void *>")
    else
      same("element", u[7] + u(1), 8)
      fails("element (8) is outside [0, 8)", u, 8)
      fails("is only read by this task", u.set, u, 3, 1)
    end
    fails("has no field", function() return part.streams end)
  end, cg:read(u), cg:write(w))
end)
q:drain()
print "checked"
]==]
  for _, way in ipairs(ways) do
    it("sees pointers and bounds, " .. way.name, function()
      if way.why_not then return pending(way.why_not) end
      local r = script.run(ELEMENTS, way.shapes[1], way.options(way.shapes[1]))
      assert.equal("", r.stderr)
      assert.equal("checked\n", r.stdout)
    end)
  end

  script.everywhere("refuses what does not fit", [==[
local u = celer.buffer("int", 8, { name = "u" })
refused("celer.once is for host tasks", function()
  q:submit(function(cg) cg:interop_task(celer.once, print) end)
end)
refused("celer.on_master is for host tasks", function()
  q:submit(function(cg) cg:interop_task(celer.on_master, print) end)
end)
refused("cg:interop_task: the second argument must be a function, not", function()
  q:submit(function(cg) cg:interop_task(8) end)
end)
refused("cg:interop_task: the range must be", function()
  q:submit(function(cg) cg:interop_task(nil, print) end)
end)
refused("has its work already (cg:interop_task)", function()
  q:submit(function(cg)
    cg:interop_task(8, function() end)
    cg:interop_task(8, function() end)
  end)
end)
refused("the interop task uses variable 'q', the queue", function()
  q:submit(function(cg) cg:interop_task(8, function() return q end) end)
end)
refused("overlap", function()
  q:submit(function(cg) cg:interop_task(8, print, cg:discard_write(u, celer.all)) end)
end)
]==])
end)

describe("examples/matmul_cublas.lua", function()
  local function run(words, env, ranks)
    local args = { "run" }
    for _, word in ipairs(words) do args[#args + 1] = word end
    args[#args + 1] = "examples/matmul_cublas.lua"
    args[#args + 1] = "61"
    local r = celer.run(args, { env = env, ranks = ranks })
    assert.equal("", r.stderr)
    assert.equal("61 x 61: 100 elements are right: true\n", r.stdout)
  end
  for _, shape in ipairs(script.shapes) do
    it("computes on the processor " .. shape.name, function()
      run({ "--backend", "cpu", "--devices", shape.devices }, nil, shape.ranks)
    end)
  end
  for _, shape in ipairs(script.gpus) do
    it("calls cuBLAS " .. shape.name, function()
      local found = pcall(require("ffi").load, "cublas")
        or pcall(require("ffi").load, "libcublas.so.13")
        or pcall(require("ffi").load, "libcublas.so.12")
      if cuda.no_gpu or not found then return pending(cuda.no_gpu or "no cuBLAS here") end
      run({ "--backend", "cuda", "--devices", celer.devices(shape.devices, shape.ranks) }, nil,
        shape.ranks)
    end)
  end
  it("gives cuBLAS what it takes, by a library that is none", function()
    run({ "--backend", "cuda", "--devices", "0,1" }, fake_env())
  end)
end)
