-- A function of q:group does what q:submit does with the same function, and runs that again
-- only where it may come to something else.
local celer = require("spec.support.celer")
local script = require("spec.support.script")

local sums = script.sums .. [==[
local short = count_short "celer.submit.prepared"
local large = new(14)
-- Calls f; its functions are to have been prepared so often.
local function prepared(times, what, f)
  short.n = 0
  f()
  same("submitted as prepared: " .. what, short.n, times)
end
]==]

script.everywhere("a function of q:group", sums .. [==[
-- Buffers and numbers are arguments.
local step = q:group(function(cg, from, to, n, reach)
  local w, r = cg:discard_write(to), cg:read(from, celer.neighborhood(2))
  cg:name "sums"
  cg:parallel_for({ 12 }, k, r, w, n, reach)
end)
prepared(9, "arguments", function()
  for i = 1, 10 do step(a, i % 2 == 0 and b or c, i, i % 3) end
end)
holds("the tenth", 10, 1)
holds("the ninth", 9, 0, c)
prepared(0, "another size", function() step(large, b, 3, 2) end)
holds("another size", 3, 2)

-- What it captured is compared; a few sets of it are remembered.
local from, to, n = a, b, 1
local swap = q:group(function(cg)
  cg:parallel_for(12, k, cg:read(from, function(chunk) return chunk:grow(n) end),
    cg:discard_write(to), n, n)
end)
prepared(6, "captured", function()
  for i = 1, 8 do
    to = i % 2 == 0 and b or c
    swap()
  end
end)
holds("captured", 1, 1)
for i = 1, 9 do
  n = i % 3
  swap()
end
holds("numbers", 0, 0, to)
n = 5
swap()
holds("another number", 5, 5, to)

-- A helper, and a range that it captured.
local range, reach = { 12 }, 2
local function near(chunk) return chunk:grow(reach) end
local helped = q:group(function(cg, value)
  cg:parallel_for(range, k, cg:read(a, near), cg:discard_write(b), value, reach)
end)
prepared(3, "helper", function() for i = 1, 4 do helped(i) end end)
holds("helper", 4, 2)
reach = 1
prepared(1, "another reach", function() helped(7) helped(8) end)
holds("another reach", 8, 1)
range[1] = 3
prepared(0, "a range", function() helped(100) end)
holds("a range", 8, 1, (function()
  q:submit(function(cg) cg:parallel_for({ 3 }, k, cg:read(a, near), cg:discard_write(b), 8, 1) end)
end)())

-- A table that has got something else.
local options = {}
local chosen = q:group(function(cg)
  local value = options.more and 2 or 1
  cg:parallel_for({ 12 }, k, cg:read(a, near), cg:discard_write(b), value, reach)
end)
chosen() chosen()
options.more = true
prepared(0, "options", function() chosen() end)
holds("options", 2, 1)
]==], nil, { shapes = { script.shapes[1], script.shapes[2] } })

script.everywhere("a function of q:group that is run at each call", sums .. [==[
local state = { n = 1 }
for what, f in celer.sorted_pairs {
  ["a table"] = function(cg, _, value) -- state.n is value
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), state.n * 1, value)
  end,
  ["a sum"] = function(cg, n, value)
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n + 0, value)
  end,
  ["a condition"] = function(cg, n, value)
    if n > 2 then value = value + 0 end
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, value)
  end,
  ["a mapper"] = function(cg, n, value)
    local r = cg:read(a, function(chunk) return chunk:grow(value) end)
    cg:parallel_for({ 12 }, k, r, cg:discard_write(b), n, value)
  end,
  ["a range"] = function(cg, n, value)
    cg:parallel_for({ value * 0 + 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, value)
  end,
  ["celer.random"] = function(cg, n, value)
    celer.random()
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, value)
  end,
  ["a tail call"] = function(cg, n, value)
    return cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, value)
  end,
  ["a global"] = function(cg, n, value)
    global = n -- luacheck: ignore
    cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, value)
  end,
} do
  local step = q:group(f)
  prepared(0, what, function()
    for i = 1, 4 do
      state.n = i
      step(i, i % 3)
      holds(what .. " " .. i, i, i % 3)
    end
  end)
end
local calls = 0
local host = q:group(function(cg, value)
  calls = calls + 1
  cg:host_task(celer.on_master, function(_, to, n) to[0] = n end, cg:write(b, celer.all), value)
end)
for i = 1, 3 do host(i) end
same("a host task", q:wait(b)[0], 3)
same("calls", calls, 3)
local given = q:group(function(cg, big)
  local n = 1
  if big then n = 2 end
  cg:parallel_for({ 12 }, k, cg:read(a, celer.all), cg:discard_write(b), n, 0)
end)
for i = 1, 4 do
  given(i % 2 == 0)
  holds("a boolean " .. i, i % 2 == 0 and 2 or 1, 0)
end
]==], nil, { shapes = { script.shapes[1], script.shapes[2] } })

script.everywhere("a mistake in a function of q:group", sums .. [==[
local function f(cg, from, to, n, reach)
  cg:parallel_for({ 12 }, k, cg:read(from, celer.all), cg:discard_write(to), n, reach)
end
local step = q:group(f)
for i = 1, 3 do step(a, b, i, 0) end
-- The message is that of q:submit, at the same line.
local function alike(words, ...)
  local n, arguments = select("#", ...), { ... }
  local _, plain = pcall(q.submit, q, function(cg) f(cg, unpack(arguments, 1, n)) end)
  local ok, message = pcall(step, ...)
  same(words .. " is refused", ok, false)
  same(words, message, plain)
  if not message:find(words, 1, true) then error(words .. ", not " .. message) end
end
alike("is no whole number", a, b, 1.5, 0)
alike("does not fit", a, b, 2 ^ 31, 0)
alike("expected a number (int), got nil", a, b, 1, nil)
alike("expected a number", a, b, "1", 0)
alike("must be a buffer", a, nil, 1, 0)
alike("must be a buffer", 1, b, 1, 0)
alike("holds float", celer.buffer("float", { 12 }, { init = 0 }), b, 1, 0)
local old = new(12)
step(old, b, 1, 0)
old:free()
alike("was freed", old, b, 1, 0)
step(a, b, 4, 1)
holds("after all that", 4, 1)
refused("q:group takes a function of the command group", function() q:group(1) end)
refused("call it with a colon", function() q.group(f) end)
refused("inside the function of a q:submit", function()
  q:submit(function() step(a, b, 1, 0) end)
end)
refused("inside the function of a q:submit", function() q:submit(function() q:group(f) end) end)
step(a, b, 5, 1)
holds("after that", 5, 1)

-- Hints of the queue count from the next call on.
q:hint { oversubscribe = 2 }
prepared(1, "hints", function() step(a, b, 6, 2) step(a, b, 7, 2) end)
holds("hints", 7, 2)
q:drain()
refused("the queue was drained", function() step(a, b, 1, 0) end)
]==], nil, { shapes = { script.shapes[1] } })

describe("advice on a function of q:group", function()
  local function advised(body)
    local r = script.run(sums .. ([==[
local state, step = { n = 1 }, nil
step = q:group(function(cg, n)
  %s
end)
for i = 1, 3 do step(i) end
q:wait()]==]):format(body), script.shapes[1], { env = { CELER_ADVICE = "on" } })
    assert.equal(0, r.status, r.stderr)
    return r.stderr
  end

  it("says once why the function is run at each call", function()
    local text = advised "cg:parallel_for({ 12 }, k, cg:read(a), cg:discard_write(b), n * 2, 0)"
    assert.matches("case%.lua:%d+: q:group: the function is run at each call, as by q:submit: "
      .. "it computes with an argument", text)
    assert.equal(1, select(2, text:gsub("q:group", "")))
    assert.matches("it captures the table 'state'", advised
      "cg:parallel_for({ 12 }, k, cg:read(a), cg:discard_write(b), state.n, n)", 1, true)
  end)

  it("is none where it is prepared", function()
    assert.equal("", advised "cg:parallel_for({ 12 }, k, cg:read(a), cg:discard_write(b), n, 0)")
  end)
end)

describe("a function of q:group", function()
  it("is run at each call under celer check", function()
    local r = script.run(sums .. [==[
local step = q:group(function(cg, n)
  cg:parallel_for({ 12 }, k, cg:read(a), cg:discard_write(b), n, 0)
end)
prepared(0, "with check", function() for i = 1, 3 do step(i) end end)
print "checked"]==], script.shapes[1], { before = { "--check-nan" } })
    assert.equal("checked\n", r.stdout, r.stderr)
    assert.is_table(celer)
  end)
end)
