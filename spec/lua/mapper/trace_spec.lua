local asked = require("celer.mapper.asked")
local box = require("celer.box")
local mapper = require("celer.mapper.builtin")
local symbol = require("celer.symbol")
local trace = require("celer.mapper.trace")
local celer = setmetatable({ box = box.new }, { __index = mapper })
package.loaded.celer = package.loaded.celer or celer
celer = package.loaded.celer

local V = symbol.variables
local range = box.new({ 0, 0 }, { 12, 10 })
local line = box.new({ 0 }, { 24 })
local plane = box.new({ 0, 0 }, { 12, 10 })

-- The boxes of a rule for one chunk, by its program alone.
local function run(rule, params, chunk, space, extent)
  local desc, from_zero, out = rule.desc, {}, {}
  for k = 1, #params do from_zero[k - 1] = params[k] end
  local env = { [V.min] = chunk.min, [V.max] = chunk.max, [V.global_min] = space.min,
    [V.global_max] = space.max, [V.buffer] = extent.size, [V.param] = from_zero }
  local at = 1
  for b = 1, desc.boxes do
    local lo, hi = {}, {}
    for j = 1, desc.buffer_dims do
      lo[j] = symbol.run(desc.code, desc.spans[at], desc.spans[at + 1], env)
      hi[j] = symbol.run(desc.code, desc.spans[at + 2], desc.spans[at + 3], env)
      at = at + 4
    end
    out[b] = tostring(box.new(lo, hi)) .. (desc.clamp[b] and "c" or "")
  end
  return out
end

local function concrete(f, chunk, space, extent)
  local size = space.size
  local lo, hi = box.bounds(chunk)
  local c = box.chunk(space.dims, lo[1], lo[2], lo[3], hi[1], hi[2], hi[3],
    size[0], space.dims > 1 and size[1], space.dims > 2 and size[2])
  local es = extent.size
  local out = { f(c, box.shape(extent.dims, es[0], extent.dims > 1 and es[1])) }
  if not box.is_box(out[1]) then out = out[1] end
  local texts = {}
  for i, b in ipairs(out) do texts[i] = tostring(b) .. (b.clamp and "c" or "") end
  return texts
end

local function every_chunk(space, visit)
  for a = space.min[0], space.max[0] - 1 do
    for b = a + 1, space.max[0] do
      for c = space.min[1], space.max[1] - 1, 3 do
        for d = c + 1, space.max[1], 2 do
          visit(box.new({ a, c }, { b, d }))
        end
      end
    end
  end
end

local function check_closed(f, extent, stride)
  local rule, params = trace.rule(f, range, extent)
  assert.is_false(rule.opaque, rule.reason)
  local n = 0
  every_chunk(range, function(chunk)
    n = n + 1
    if n % (stride or 1) > 0 then return end
    assert.same(concrete(f, chunk, range, extent), run(rule, params, chunk, range, extent))
  end)
  return rule, params
end

local function check_opaque(f, extent, reason)
  local rule = trace.rule(f, range, extent or plane)
  assert.is_true(rule.opaque)
  assert.is_nil(rule.desc)
  assert.matches(reason, rule.reason)
end

describe("tracing", function()
  it("agrees with the mapper on every chunk", function()
    local t, w, half, text = 3, 4, 0.5, "min"
    local floor, deep = math.floor, { 1 }
    local function column(lo, hi) return celer.box({ lo, 0 }, { hi, 1 }) end
    local function double(x) return x * 2 + t end
    for i, f in ipairs({
      function(c) return c end,
      function(c) return celer.box({ t, c.min[0] }, { t + 1, c.max[0] }) end,
      function(c) return celer.box({ 0, 0 }, { t, c.global[0] }) end,
      function(c) return c:grow(1, 0), c:grow(0, t) end,
      function(c) return { c:grow(1, 0), c } end,
      function(c, b) return c:with(1, 0, b.size[1]) end,
      function(c) return celer.box({ c.min[0] - w, 0 }, { c.max[0] + w, 1 }):clamped() end,
      function(c) return column(double(c.min[0]), double(c.max[0])) end,
      function(c) return column(floor(c.min[0] / 2), math.ceil(c.max[0] / 2)) end,
      function(c) return column(floor(c.min[0] * half), celer.floor(c.max[0] / w) + 1) end,
      function(c) return column(celer.max(c.min[0] - w, 0), math.min(c.max[0], 7, w)) end,
      function(c) return column(c.min[0] - c.min[0] % 4, c.max[0] + -c.max[0] % 4) end,
      function(c)
        return celer.box({ c.min[0], c[text][1] }, { c.min[0] + c.size[0], c.max[1] })
      end,
      function(c) return celer.box({ c.min[0] ^ 2, 0 }, { math.abs(c.min[0] - 5), 1 }) end,
      function(c) local lo, hi = {}, {}
        for d = 0, c.dims - 1 do lo[d + 1], hi[d + 1] = c.min[d], c.max[d] end
        return celer.box(lo, hi) end,
      function(c) if t > 2 then return c end return c:grow(1, 1) end,
      function(c) return celer.box({ c.min[deep[1] - 1], 0 }, { c.max[0], w }) end,
      function(c) return celer.box({ celer.floor((c.min[0] + 1) / 2 + c.min[1] / 4), 0 },
        { celer.floor(c.max[0] / t - 1), w }) end,
      function(c, b)
        return celer.box({ b.size[0] - c.max[0], -3 }, { b.size[0] - c.min[0], -c.min[1] })
      end,
      mapper.neighborhood(2, 1), mapper.transposed(1, 0), mapper.all,
    }) do
      local ok, message = pcall(check_closed, f, plane)
      assert(ok, "mapper " .. i .. ": " .. tostring(message))
    end
  end)

  it("works from two dimensions to one, and to none", function()
    check_closed(function(c) return celer.box({ c.min[0] }, { c.max[0] }) end, line)
    check_closed(function(c) return celer.box({ c.min[0] + c.min[1] }, { c.max[0] + c.max[1] }) end,
      line)
    local rule = trace.rule(function() return celer.box({}, {}) end, range, box.new({}, {}))
    assert.is_false(rule.opaque)
    assert.equal(1, rule.desc.boxes)
  end)

  it("takes random expressions, as plain numbers would", function()
    local state = 5
    local function pick(n) state = state * 16807 % 2147483647; return state % n end
    local function expression(depth)
      if depth == 0 then
        return ({ "c.min[0]", "c.max[0]", "c.min[1]", "c.max[1]", "c.size[0]", "c.global[1]",
          "b.size[0]", "p", "q", tostring(pick(5)) })[pick(10) + 1]
      end
      local a, b = expression(depth - 1), expression(pick(depth))
      return (({ "(%s + %s)", "(%s - %s)", "(%s * %s)", "min(%s, %s)", "max(%s, %s)",
        "floor(%s / 3 + %s)", "ceil(%s / 4 - %s)", "(%s %% 3 + %s)", "floor((%s + 1) / 2 * %s)",
        "(-%s + %s)" })[pick(10) + 1]):format(a, b)
    end
    local closed = 0
    for _ = 1, 300 do
      local source = ([[local celer, floor, ceil, min, max, p, q = ...
        return function(c, b) return celer.box({%s}, {%s}) end]]):format(expression(pick(3) + 1),
        expression(pick(3) + 1))
      local f = assert(loadstring(source))(celer, math.floor, math.ceil, math.min, math.max,
        pick(7), pick(7))
      local rule = trace.rule(f, range, line)
      if not rule.opaque then
        closed = closed + 1
        check_closed(f, line, 17)
      end
    end
    assert.is_true(closed > 270) -- the others add a plain fraction to a bound
  end)
end)

describe("what cannot be in closed form", function()
  it("is opaque, with the reason", function()
    local t = 3
    local count = 0
    check_opaque(function(c) if c.min[0] == 0 then return c end return c:grow(1, 1) end, nil,
      "compares")
    check_opaque(function(c) if c.min[0] < t then return c end return c:grow(1, 1) end, nil,
      "compares")
    check_opaque(function(c) return ({ [0] = c })[c.min[0]] or c:grow(1, 1) end, nil,
      "another course")
    check_opaque(function(c)
      if tostring(c.min[0]) == "0" then return c end
      return c:grow(1, 1)
    end, nil, "text of a bound")
    check_opaque(function(c)
      local ok, first = pcall(function() return c.min[0] == 0 end)
      return ok and first and c or c:grow(1, 1)
    end, nil, "compares")
    check_opaque(function(c) return type(c.min[0]) == "number" and c or c:grow(1, 1) end, nil,
      "another course")
    check_opaque(function(c)
      count = count + 1
      return c:grow(count, 1)
    end, nil, "assigns to the variable 'count'")
    check_opaque(function(c)
      local hi = 0
      for _ = 1, c.max[0] do hi = hi + 1 end
      return c:with(0, 0, hi)
    end, nil, "'for' limit")
  end)

  it("does not assign to globals while it is traced", function()
    check_opaque(function(c)
      a_global_of_this_spec = c.min[0] -- luacheck: ignore
      return c
    end, nil, "assigns to the global 'a_global_of_this_spec'")
    a_global_of_this_spec = nil -- luacheck: ignore
  end)

  it("is evaluated chunk by chunk", function()
    local function f(c) if c.min[0] == 0 then return c:grow(1, 0) end return c end
    local function boxes(lo, hi)
      local out = asked.evaluate(f, box.new({ lo, 0 }, { hi, 10 }), range, plane)
      for i, b in ipairs(out) do out[i] = tostring(b) end
      return out
    end
    assert.same({ "[0, 5) x [0, 10)" }, boxes(0, 4))
    assert.same({ "[4, 8) x [0, 10)" }, boxes(4, 8))
    local function out_of_it(c) return c:with(0, c.min[0], c.max[0] + 20) end
    local ok, message = pcall(asked.evaluate, out_of_it, range, range, plane)
    assert.is_false(ok)
    assert.matches("gives the box %[0, 32%) x %[0, 10%) for the chunk %[0, 12%) x %[0, 10%), "
      .. "which leaves the buffer %[0, 12%)", message)
    assert.same({}, asked.evaluate(function(c) return c:with(0, 5, 5) end, range, range, plane))
  end)
end)

describe("a mistake in a mapper", function()
  local function flaw(f, extent)
    local ok, message = pcall(trace.rule, f, range, extent or plane)
    assert.is_false(ok)
    return message
  end

  it("is raised as the user's own", function()
    local match = assert.matches
    match("trace_spec.lua:%d+: mine", flaw(function() error("mine") end))
    match("attempt to index", flaw(function(c) return c.nothing.x end) .. "attempt to index")
    match("a chunk has no field 'nothing'", flaw(function(c) return c.nothing end))
    match("no dimension 2 here", flaw(function(c) return celer.box({ c.min[2] }, { 1 }) end, line))
    match("returned nothing", flaw(function() end))
    match("returned a number", flaw(function() return 3 end))
    match("a box of 2 dimensions for a buffer of 1", flaw(function(c) return c end, line))
    match("1.5, not a whole number",
      flaw(function(c) return celer.box({ c.min[0] * 0 + 1.5 }, { 1 }) end, line))
    local seen = {}
    match("must be a pure function", flaw(function(c)
      seen[1] = seen[1] or c.min[0]
      return c:with(0, seen[1], c.max[0])
    end))
    match("no 'length'", flaw(function(_, b) return b.length end))
  end)

  it("leaves captured variables and globals as they were", function()
    local t, floor, env = 7, math.floor, getfenv()
    local function f(c)
      assert(t == 7) -- a comparison: t is no parameter
      error("after " .. floor(c.min[0]))
    end
    pcall(trace.rule, f, range, plane)
    assert.equal(7, t)
    assert.equal(math.floor, floor)
    assert.equal(env, getfenv(f))
    assert.is_true((jit.status()))
  end)
end)

describe("captured numbers", function()
  it("are parameters: a closure made anew is not traced again", function()
    local function make(t)
      return function(c) return celer.box({ t, c.min[0] }, { t + 1, c.max[0] }) end
    end
    local rule, params = trace.rule(make(1), range, box.new({ 0, 0 }, { 99, 12 }))
    local before = trace.traces
    for t = 2, 50 do
      local again, now = trace.rule(make(t), range, box.new({ 0, 0 }, { 99, 12 }))
      assert.equal(rule, again)
      assert.same({ t }, now)
    end
    assert.equal(before, trace.traces)
    assert.same({ 1 }, params)
  end)

  it("follow a variable that changes under one closure", function()
    local t = 1
    local function f(c) return celer.box({ t, c.min[0] }, { t + 1, c.max[0] }) end
    local rule = trace.rule(f, range, plane)
    local before = trace.traces
    for i = 2, 5 do
      t = i
      local again, params = trace.rule(f, range, plane)
      assert.equal(rule, again)
      assert.same({ i }, params)
    end
    assert.equal(before, trace.traces)
  end)

  it("are constants where the mapper decides by them", function()
    local function make(t)
      return function(c) if t > 3 then return c end return c:grow(t, 0) end
    end
    local low, high = trace.rule(make(2), range, plane), trace.rule(make(5), range, plane)
    assert.are_not.equal(low, high)
    assert.equal(low, (trace.rule(make(2), range, plane)))
    assert.same({}, select(2, trace.rule(make(2), range, plane)))
    assert.same({ true, false }, { low.desc.clamp[1], high.desc.clamp[1] })
  end)

  it("are told apart: some parameters, some constants", function()
    local function make(t, d)
      return function(c) return c:with(d, t, t + 1) end
    end
    local rule, params = trace.rule(make(3, 1), range, plane)
    assert.same({ 3 }, params)
    assert.equal(rule, (trace.rule(make(4, 1), range, plane)))
    assert.are_not.equal(rule, (trace.rule(make(4, 0), range, plane)))
  end)

  it("are checked: a rule that a new number breaks is left", function()
    local function make(t) -- t[x] with a symbol is silently nil
      return function(c)
        local by = ({ [5] = 1 })[t] or 0
        return celer.box({ c.min[0] + by + t }, { c.max[0] + by + t })
      end
    end
    for _, t in ipairs({ 1, 5, 2, 5 }) do
      local rule, params = check_closed(make(t), line)
      assert.is_nil(rule.volatile)
      assert.equal(t == 5 and 0 or 1, #params)
    end
  end)

  it("are tried with two further values before they count as parameters", function()
    local function make(t)
      return function(c)
        local by = ({ [3] = 1 })[t] or 0 -- 3 is what is tried for t = 1
        return celer.box({ c.min[0] + by + t }, { c.max[0] + by + t })
      end
    end
    local _, params = check_closed(make(1), line)
    assert.same({}, params)
  end)

  it("that are no whole numbers are part of the key", function()
    local function make(x)
      return function(c) return celer.box({ celer.floor(c.min[0] * x) }, { c.max[0] }) end
    end
    local a, b = trace.rule(make(0.5), range, line), trace.rule(make(0.25), range, line)
    assert.are_not.equal(a, b)
    assert.equal(a, (trace.rule(make(0.5), range, line)))
  end)
end)

describe("the cache", function()
  it("does not confuse functions of one text and different captures", function()
    local function make(inner) return function(c) return inner(c) end end
    local near, all = mapper.neighborhood(1, 1), mapper.all
    assert.is_true(trace.rule(make(near), range, plane).desc.clamp[1])
    local function one(c) return c end
    assert.is_false(trace.rule(make(one), range, plane).desc.clamp[1])
    assert.matches("attempt", select(2, pcall(trace.rule, make(all), range, plane)))
    local rule, params = trace.rule(make(mapper.neighborhood(2, 3)), range, plane)
    assert.equal((trace.rule(make(near), range, plane)), rule)
    assert.same({ 2, 3 }, params)
  end)

  it("tells whether two captured variables are one", function()
    local function shared(t)
      local function inner(c) return c.min[0] + t end
      return function(c) return celer.box({ inner(c) }, { c.max[0] + t }) end
    end
    local function apart(t, u)
      local function inner(c) return c.min[0] + t end
      return function(c) return celer.box({ inner(c) }, { c.max[0] + u }) end
    end
    local _, one = trace.rule(shared(2), range, line)
    local _, two = trace.rule(apart(2, 3), range, line)
    assert.equal(1, #one)
    assert.equal(2, #two)
    check_closed(apart(5, 3), line)
    check_closed(shared(4), line)
  end)

  it("keeps dimensions apart", function()
    local a = trace.rule(mapper.all, range, plane)
    local b = trace.rule(mapper.all, range, line)
    assert.are_not.equal(a, b)
  end)

  it("sees a helper or a text replaced", function()
    local shape = "min"
    local helper = function(c) return c end
    local function f(c) return helper(c):with(1, c[shape][0], 12) end
    local first = trace.rule(f, range, plane)
    shape = "max"
    assert.are_not.equal(first, (trace.rule(f, range, plane)))
    shape = "min"
    assert.equal(first, (trace.rule(f, range, plane)))
    helper = function(c) return c:grow(1, 1) end
    assert.is_true(trace.rule(f, range, plane).desc.clamp[1])
  end)

  it("traces anew what reads a table or a user's global", function()
    local state = { n = 1 }
    local function f(c) return c:with(0, state.n, 7) end
    for n = 1, 3 do
      state.n = n
      local rule, params = check_closed(f, plane)
      assert.matches("the table 'state'", rule.volatile)
      assert.equal(("[%d, 7) x [0, 10)"):format(n), run(rule, params, range, range, plane)[1])
    end
    _G.a_spec_function = function(c) return c end
    assert.matches("the global 'a_spec_function'",
      trace.rule(function(c) return a_spec_function(c) end, range, plane).volatile) -- luacheck: ignore
    _G.a_spec_function = nil
  end)

  it("knows a global number by its value", function()
    local function f(c) return c:with(0, a_spec_number, 7) end -- luacheck: ignore
    for n = 1, 3 do
      _G.a_spec_number = n
      local rule, params = check_closed(f, plane)
      assert.is_nil(rule.volatile)
      assert.equal(("[%d, 7) x [0, 10)"):format(n), run(rule, params, range, range, plane)[1])
    end
    _G.a_spec_number = nil
  end)

  it("keeps no closure alive", function()
    local gone = setmetatable({}, { __mode = "k" })
    do
      local function recursive(c, n) if n then return recursive(c) end return c end
      local f = function(c) return recursive(c) end
      trace.rule(f, range, plane)
      gone[f] = true
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(gone))
  end)

  it("is bounded, also for a mapper opaque with every number", function()
    local function make(t)
      return function(c) if c.min[0] == t then return c end return c:grow(t, 0) end
    end
    for t = 1, 10 do assert.is_true(trace.rule(make(t), range, plane).opaque) end
    local before = trace.traces
    for t = 11, 40 do assert.is_true(trace.rule(make(t), range, plane).opaque) end
    assert.equal(before, trace.traces)
  end)

  it("holds when the mapper is hot and compiled", function()
    local function make(t)
      return function(c) return celer.box({ c.min[0] + t }, { c.max[0] + t }) end
    end
    local chunk = box.chunk(2, 0, 0, 0, 4, 4, 4, 12, 10)
    local function heat(f) -- the mapper itself becomes a compiled function
      local sum = 0
      for _ = 1, 500 do sum = sum + f(chunk).min[0] end
      return sum
    end
    jit.off(heat)
    for t = 1, 4 do
      local f = make(t)
      assert.equal(500 * t, heat(f))
      local rule, params = trace.rule(f, range, line)
      assert.same({ t }, params)
      assert.same({ "[9, 12)" }, run(rule, { 5 }, box.new({ 4, 0 }, { 7, 1 }), range, line))
      assert.equal(500 * t, heat(f))
    end
  end)

  -- Code that begins in what a mapper calls may lead back into it, where it has
  -- what was captured as a constant: once in a hundred runs.
  it("holds whatever was compiled before", function()
    local info, t, log = require("jit.util").traceinfo, 5, { tried = 0, compiled = 0 }
    local function compile_something()
      jit.flush()
      for _ = 1, 500 do log.sum = (log.sum or 0) + 1 end
      return info(1)
    end
    local function f(c)
      if not rawequal(t, 5) then
        log.tried = log.tried + 1
        if info(1) then log.compiled = log.compiled + 1 end
      end
      return celer.box({ c.min[0] + t }, { c.max[0] + t })
    end
    if not compile_something() then return pending("LuaJIT compiles nothing here") end
    trace.rule(f, range, line)
    assert.is_true(log.tried > 0)
    assert.equal(0, log.compiled)
    assert.is_true(jit.status())
  end)
end)
