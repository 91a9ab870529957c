-- celer run --profile: how long kernels, copies and tasks took. On the processor
-- by its clock; on GPUs by events, which spec/device/fake_driver.lua has, too:
-- there each job takes a millisecond.
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local script = require("spec.support.script")

local PROGRAM = [==[
local n = 1024
local k = celer.kernel [=[
  kernel void fill(item<1> it, out<float, 1> a, int rounds) {
    float x = it[0];
    for (int i = 0; i < rounds; ++i) x = x * 0.5f + 1;
    a(it[0]) = x;
  }
  kernel void shift(item<1> it, in<float, 1> a, out<float, 1> b) {
    b(it[0]) = a(it.range(0) - 1 - it[0]);
  }
]=]
local a, b = celer.buffer("float", n), celer.buffer("float", n)
for _ = 1, 3 do
  q:submit(function(cg) cg:parallel_for(n, k.fill, cg:discard_write(a), 20000) end)
  q:submit(function(cg)
    cg:name "turn"
    cg:parallel_for(n, k.shift, cg:read(a, celer.all), cg:discard_write(b))
  end)
end
q:submit(function(cg)
  local r = cg:read(b, celer.all)
  cg:name "look"
  cg:host_task(1, function(_, v) local _ = v[0] end, r)
end)
q:wait()
]==]

-- The rows of a table, by kind, task and way: {count, total, mean, max, MiB, GB/s}.
local function rows(text, rank, ranks)
  local head = ("celer: profile of rank %d of %d\n"):format(rank, ranks)
  local at = assert(text:find(head, 1, true), text)
  local out = {}
  for line in text:sub(at + #head):gmatch("[^\n]+") do
    if line:find("celer:", 1, true) then break end
    local key, numbers = line:match("^(.-)%s%s+([%d%. ]+)$")
    if numbers then
      local row = {}
      for n in numbers:gmatch("[%d%.]+") do row[#row + 1] = tonumber(n) end
      out[key:gsub("%s%s+", " | ")] = row
    end
  end
  return out
end

describe("--profile", function()
  it("says what tasks took on the processor", function()
    local r = script.run(PROGRAM, { devices = 1 }, { before = { "--backend", "cpu", "--profile" } })
    assert.equal(0, r.status)
    local row = rows(r.stderr, 0, 1)
    assert.equal(3, row["kernel | fill"][1], r.stderr)
    assert.equal(3, row["kernel | turn"][1])
    assert.equal(1, row["host | look"][1])
    -- 20,480,000 steps that each wait for the one before.
    assert.is_true(row["kernel | fill"][2] > 1 and row["kernel | fill"][2] < 1e6, r.stderr)
    assert.is_true(row["kernel | fill"][3] <= row["kernel | fill"][4])
    assert.near(row["kernel | fill"][2] * 1000 / 3, row["kernel | fill"][3], 1)
  end)

  it("tells copies by their way, with bytes and speed", function()
    local r = script.run(PROGRAM, { devices = 2 }, { before = { "--backend", "cpu" },
      env = { CELER_PROFILE = 1 } })
    local row = rows(r.stderr, 0, 1)
    assert.equal(6, row["kernel | fill"][1], r.stderr)
    local between = row["copy | turn | between devices"]
    assert.equal(6, between[1], r.stderr)
    assert.near(3 * 4096 / 2 ^ 20, between[5], 0.001)
    local back = row["copy | look | from a device"]
    assert.near(4096 / 2 ^ 20, back[5], 0.001)
    assert.equal(6, #back)
  end)

  -- A stencil, larger than caches.
  local STEPS = [==[
local n = 1200
local u, v = celer.buffer("double", { n, n }, { name = "u", init = 1 }),
  celer.buffer("double", { n, n }, { name = "v", init = 0 })
local step = celer.kernel(function(i, j, u, v)
  v[i][j] = u[AT][j] + u[math.max(i - 1, 0)][j]
end)
for t = 1, 36 do
  q:submit(function(cg)
    cg:name "step"
    cg:parallel_for({ n, n }, step, u, v)
  end)
  u, v = v, u
  if t == 4 then q:wait() end -- how long it takes is known
end
]==]

  it("says what was carried out together, and why a step was not", function()
    local function profile(at, options, ranks)
      local before = { "--backend", "cpu", "--profile" }
      for word in options:gmatch("%S+") do before[#before + 1] = word end
      local r = script.run(STEPS:gsub("AT", at), { devices = 1, ranks = ranks },
        { before = before })
      assert.equal(0, r.status, r.stderr)
      return r.stderr
    end
    local around, far = "math.min(i + 1, n - 1)", "n - 1 - i"
    local text = profile(around, "")
    local row = rows(text, 0, 1)["kernel | step | together"]
    assert.is_true(row ~= nil and row[1] >= 2, text)
    assert.is_nil(text:find("not taken together", 1, true))
    assert.is_nil(rows(profile(around, "--fold 1"), 0, 1)["kernel | step | together"])
    for ranks = 1, 2 do
      assert.matches("celer: [^\n]*case.lua:%d+: step was not taken together with others, "
        .. "18 times: it reads 'u' further than a neighbourhood around the item",
        profile(far, "", ranks > 1 and ranks or nil))
    end
  end)

  it("counts what the end of a host object takes", function()
    local r = script.run([=[
      local o = celer.host_object(function() return {} end)
      q:submit(function(cg) cg:host_task(1, function() end, cg:side_effect(o)) end)
      o:free()
      q:wait()
    ]=], { devices = 1 }, { before = { "--backend", "cpu", "--profile" } })
    assert.equal(0, r.status, r.stderr)
    assert.equal(1, rows(r.stderr, 0, 1)["release | -"][1], r.stderr)
  end)

  it("is rank 0's, or with --output all every rank's", function()
    local shape = { devices = 1, ranks = 3 }
    local before = { "--backend", "cpu", "--profile" }
    local r = script.run(PROGRAM, shape, { before = before })
    assert.equal(3, rows(r.stderr, 0, 3)["kernel | fill"][1])
    assert.is_nil(r.stderr:find("rank [12] of 3"))
    before[#before + 1] = "--output=all"
    r = script.run(PROGRAM, shape, { before = before })
    for rank = 0, 2 do
      assert.truthy(r.stderr:find(("celer: profile of rank %d of 3"):format(rank), 1, true))
    end
  end)

  it("says nothing without it, or when nothing was computed; also at os.exit", function()
    local r = script.run(PROGRAM, { devices = 1 }, { before = { "--backend", "cpu" } })
    assert.equal("", r.stderr)
    r = script.run("print(1)", { devices = 1 }, { before = { "--profile" } })
    assert.equal("", r.stderr)
    r = script.run(PROGRAM .. "os.exit(3)", { devices = 1 },
      { before = { "--backend", "cpu", "--profile" } })
    assert.equal(3, r.status)
    assert.equal(3, rows(r.stderr, 0, 1)["kernel | turn"][1])
  end)

  describe("on the driver of the specs", function()
    it("says what the events say", function()
      if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
      local r = script.run(PROGRAM, { devices = 1 }, {
        before = { "--backend", "cuda", "--profile" }, env = fake.env({ FAKE_GPUS = 1 }) })
      assert.equal(0, r.status, r.stderr)
      local row = rows(r.stderr, 0, 1)
      assert.same({ 3, 3, 1000, 1000 }, row["kernel | fill"], r.stderr)
      assert.same({ 3, 3, 1000, 1000 }, row["kernel | turn"])
      assert.same({ 1, 1, 1000, 1000, 0.004, 0.004 }, row["copy | look | from a device"])
      assert.equal(1, row["host | look"][1])
    end)
  end)

  it("says what a GPU took", function()
    if cuda.no_gpu then return pending(cuda.no_gpu) end
    local r = script.run(PROGRAM, { devices = 1 },
      { before = { "--backend", "cuda", "--profile" } })
    local row = rows(r.stderr, 0, 1)
    print("\n" .. r.stderr)
    assert.equal(3, row["kernel | fill"][1])
    -- 20,000 steps of 4 cycles at least, at 1 to 3 GHz.
    assert.is_true(row["kernel | fill"][3] > 25 and row["kernel | fill"][3] < 2000, r.stderr)
    assert.is_true(row["kernel | turn"][3] > 0.5 and row["kernel | turn"][3] < 500)
    assert.equal(1, row["copy | look | from a device"][1])
  end)
end)
