-- celer.rebalance: weights from how fast devices were. What they were is made up here
-- by its option, so nothing depends on clocks; GPUs time their kernels from the start.
local cuda = require("spec.device.cuda")
local fake = require("spec.device.fake_driver")
local script = require("spec.support.script")

local measured = { before = { "--measure" } }

-- share() is how many of 1000 items each rank gets; `a` has been added to once per step.
local PRELUDE = [==[
local a = celer.buffer("int", { 1000 }, { name = "a", init = function(i) return i end })
local who = celer.buffer("int", { 1000 }, { name = "who" })
local add = celer.kernel "kernel void add(item<1> it, inout<int, 1> a) { a(it[0]) += 1; }"
local steps = 0
local function step(hints)
  steps = steps + 1
  q:submit(function(cg)
    if hints then cg:hint(hints) end
    cg:parallel_for(1000, add, cg:read_write(a))
  end)
  q:submit(function(cg)
    if hints then cg:hint(hints) end
    cg:host_task(1000, function(part, w)
      for i = part.min[0], part.max[0] - 1 do w[i] = part.rank end
    end, cg:discard_write(who))
  end)
  local got, w, n = q:wait(a, who)
  for i = 0, 999 do same("a", got[i], i + steps) end
  n = {}
  for i = 0, 999 do n[w[i] + 1] = (n[w[i] + 1] or 0) + 1 end
  return table.concat(n, " ")
end
-- Each rank's seconds for an item.
local function rebalance(...)
  local times = { ... }
  local weights, changed = celer.rebalance {
    seconds = function(rank, device, items, measured)
      assert(measured >= 0)
      return items * times[rank + 1] / (device + 1)
    end }
  return tostring(weights), changed
end
local function check(words, changed, ...)
  local got, is_changed = rebalance(...)
  same("weights", got, words)
  same("changed", is_changed, changed)
end
]==]

describe("celer.rebalance", function()
  it("divides by what ranks have computed in which time, and keeps results", function()
    local r = script.run(PRELUDE .. [==[
same("first", step(), "334 333 333")
check("weights 100d 50d 25d", true, 1, 2, 4)
same("by weights", step(), "571 286 143")
check("weights 100d 50d 25d", false, 1.05, 2, 4) -- noise
same("by weights still", step(), "571 286 143")
same("equal", step { weights = "equal" }, "334 333 333")
same("its own", step { weights = { 1, 1, 2 } }, "250 250 500")
same("the default split", step { split = "1d" }, "571 286 143")
same("by weights again", step(), "571 286 143")
check("weights 25d 50d 100d", true, 4, 2, 1)
same("other weights", step(), "143 286 571")
check("nil", true, 3, 3, 3)
same("alike", step(), "334 333 333")
check("nil", false, 0, 0, 0) -- too little to tell
same("alike still", step(), "334 333 333")
print "checked"]==], { ranks = 3, devices = 1 }, measured)
    assert.equal("checked\n", r.stdout, r.stderr)
    assert.equal(0, r.status)
  end)

  it("has kernels on GPUs timed from its first call on", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    local text = [==[
local a = celer.buffer("int", { 1000 }, { name = "a" })
local add = celer.kernel "kernel void add(item<1> it, out<int, 1> a) { a(it[0]) = 1; }"
local function steps(n)
  for _ = 1, n do
    q:submit(function(cg) cg:parallel_for(1000, add, cg:discard_write(a)) end)
  end
end
local function rebalance()
  local seen = {}
  celer.rebalance { seconds = function(_, device, items, seconds)
    seen[device + 1] = ("%g %s"):format(items, seconds > 0)
    return 0 -- so shares stay what they are
  end }
  return table.concat(seen, ", ")
end
steps(700) -- each lane has used all of its events
print(rebalance())
for n = 100, 600, 250 do
  steps(n)
  print(rebalance())
end]==]
    local env = fake.env({ FAKE_GPUS = 2, CELER_BACKEND = "cuda" })
    local function printed(...)
      local r = script.run(text, { devices = 2 }, { before = { ... }, env = env })
      assert.equal(0, r.status, r.stderr)
      return r.stdout:gsub("launch[^\n]*\n", "")
    end
    local later = "50000 true, 50000 true\n175000 true, 175000 true\n300000 true, 300000 true\n"
    assert.equal("0 false, 0 false\n" .. later, (printed()))
    assert.equal("0 false, 0 false\n" .. later, (printed("--fold", "8"))) -- each step counts
    assert.equal("350000 true, 350000 true\n" .. later, (printed("--measure")))
  end)

  it("weighs the devices of each rank, and goes on from what was measured", function()
    local r = script.run(PRELUDE .. [==[
step()
check("weights 50,100d 25,50d", true, 1, 2)
same("by ranks", step(), "667 333")
celer.rebalance()
step()
print "checked"]==], { ranks = 2, devices = 2 }, measured)
    assert.equal("checked\n", r.stdout, r.stderr)
  end)

  it("leaves what all ranks exchange what it is, in other parts", function()
    local function exchanged(...)
      local r = script.run(PRELUDE .. [==[
local b = celer.buffer("int", { 1000 }, { name = "b" })
local mix = celer.kernel [[
  kernel void mix(item<1> it, in<int, 1> a, out<int, 1> b) {
    int sum = it[0];
    for (int i = 0; i < 1000; ++i) sum = sum * 31 + a(i);
    b(it[0]) = sum;
  }
]]
local turn = celer.kernel [[
  kernel void turn(item<1> it, in<int, 1> b, out<int, 1> a) {
    for (int i = 0; i < 1000; ++i) a(i) = b(999 - i);
  }
]]
for round = 1, 3 do
  for _ = 1, 5 do
    q:submit(function(cg)
      cg:parallel_for(1000, mix, cg:read(a, celer.all), cg:discard_write(b))
    end)
    q:submit(function(cg)
      cg:parallel_for(1, turn, cg:read(b, celer.all), cg:discard_write(a, celer.all))
    end)
  end
  local _, changed = rebalance(round, 2, 4 / round)
  same("changed", changed, true)
end
local got, sum = q:wait(a), 0
for i = 0, 999 do sum = (sum * 7 + got[i]) % 1000003 end
print(sum)]==], { ranks = 3, devices = 1 }, { before = { "--measure", "--log", "info", ... } })
      assert.equal(0, r.status, r.stderr)
      return r.stdout, tonumber(r.stderr:match("(%d+) messages"))
    end
    assert.equal(exchanged("--no-collectives"), (exchanged()))
    -- Between GPUs it may go by messages either way.
    local together, few = exchanged("--backend", "cpu")
    local apart, many = exchanged("--backend", "cpu", "--no-collectives")
    assert.equal(apart, together)
    assert.is_true(few < many, few .. " messages, " .. many)
  end)

  it("weighs more devices than a function takes arguments", function()
    local r = script.run([==[
local paces, devices, weights = {}, {}, {}
for k = 1, 20000 do paces[k], devices[k], weights[k] = { 100, k }, 1, 1 end
local better = require("celer.submit.balance").decide(paces, devices, weights)
same("all", #better, 20000)
same("the fastest", better[1], 100)
same("the slowest", better[20000], 1)
print "checked"]==], { devices = 1 })
    assert.equal("checked\n", r.stdout, r.stderr)
  end)

  it("does nothing in a dry run, and says so once", function()
    local r = script.run(PRELUDE:gsub('same%("a"', 'tostring("a"') .. [==[
for _ = 1, 2 do check("nil", false, 1, 2, 4) end
print "checked"]==], { devices = 1 }, { before = { "--dry-run", "3" } })
    assert.equal(0, r.status, r.stderr)
    assert.matches("checked", r.stdout, 1, true)
    local said = "celer.rebalance does nothing in a dry run"
    local _, n = r.stderr:gsub(said:gsub("%.", "%%."), "")
    assert.equal(1, n, r.stderr)
    assert.matches("case.lua:%d+: " .. said, r.stderr)
  end)

  it("refuses what it does not know", function()
    local r = script.run([==[
refused("the options must be a table, not a number", function() local _ = celer.rebalance(3) end)
refused("unknown option 'second', did you mean seconds?", function()
  local _ = celer.rebalance { second = print }
end)
refused("seconds must be a function", function() local _ = celer.rebalance { seconds = 1 } end)
refused("seconds must give a number of at least 0, not -1", function()
  local _ = celer.rebalance { seconds = function() return -1 end }
end)
refused("celer.rebalance inside the function of a q:submit", function()
  q:submit(function() return celer.rebalance() end)
end)
celer.rebalance()
print "checked"]==], { devices = 1 }, measured)
    assert.equal("checked\n", r.stdout, r.stderr)
  end)
end)
