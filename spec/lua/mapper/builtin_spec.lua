local asked = require("celer.mapper.asked")
local box = require("celer.box")
local mapper = require("celer.mapper.builtin")
local trace = require("celer.mapper.trace")

local range = box.new({ 0, 0 }, { 6, 9 })

local function boxes(f, chunk, extent)
  local out = asked.evaluate(f, chunk, range, extent or range)
  for i, b in ipairs(out) do out[i] = tostring(b) end
  return out
end

describe("the built-in mappers", function()
  local chunk = box.new({ 0, 3 }, { 2, 5 })

  it("touch what they say", function()
    assert.same({ "[0, 2) x [3, 5)" }, boxes(mapper.one_to_one, chunk))
    assert.same({ "[0, 7)" }, boxes(mapper.all, chunk, box.new({ 0 }, { 7 })))
    assert.same({ "[1, 2)" }, boxes(mapper.fixed(box.new({ 1 }, { 2 })), chunk,
      box.new({ 0 }, { 7 })))
    assert.same({ "[0, 2) x [0, 9)" }, boxes(mapper.slice(1), chunk))
    assert.same({ "[0, 6) x [3, 5)" }, boxes(mapper.slice(0), chunk))
    assert.same({ "[0, 3) x [1, 7)" }, boxes(mapper.neighborhood(1, 2), chunk))
    assert.same({ "[0, 3) x [3, 5)", "[0, 2) x [1, 7)" },
      boxes(mapper.neighborhood(1, 2, "along_axes"), chunk))
    assert.same({ "[3, 5) x [0, 2)" }, boxes(mapper.transposed(1, 0), chunk,
      box.new({ 0, 0 }, { 9, 6 })))
  end)

  it("compile to closed form, and anew without another trace", function()
    local cube = box.new({ 0, 0, 0 }, { 4, 5, 6 })
    for _, make in ipairs({
      function() return mapper.one_to_one end,
      function() return mapper.all end,
      function(n) return mapper.fixed(box.new({ 0, 0, n }, { 1, n, 5 })) end,
      function() return mapper.slice(2) end,
      function(n) return mapper.neighborhood(n, 2, 0) end,
      function(n) return mapper.neighborhood(n, 2, 0, "along_axes") end,
      function() return mapper.transposed(2, 0, 1) end,
    }) do
      local first = trace.rule(make(1), cube, box.new({ 0, 0, 0 }, { 6, 6, 6 }))
      assert.is_false(first.opaque)
      local before = trace.traces
      for n = 2, 4 do
        assert.equal(first, (trace.rule(make(n), cube, box.new({ 0, 0, 0 }, { 6, 6, 6 }))))
      end
      assert.equal(before, trace.traces)
    end
  end)

  it("divide rows as ranks divide an index space", function()
    local c = require("spec.support.cdef")("region/split.h")
    for rows = 1, 12 do
      for ranks = 1, 5 do
        local cut = c.cel_cut_even(0, rows, ranks, 1)
        for k = 0, ranks - 1 do
          local lo = tonumber(k < cut.P and c.cel_cut_at(cut, k) or rows)
          local hi = tonumber(k < cut.P and c.cel_cut_at(cut, k + 1) or rows)
          local out = asked.evaluate(mapper.even_split, box.new({ k }, { k + 1 }),
            box.new({ 0 }, { ranks }), box.new({ 0, 0 }, { rows, 3 }))
          assert.equal(lo < hi and ("[%d, %d) x [0, 3)"):format(lo, hi) or "nil",
            tostring(out[1]))
        end
      end
    end
    local rule = trace.rule(mapper.even_split, box.new({ 0 }, { 4 }), box.new({ 0 }, { 8 }))
    assert.is_false(rule.opaque)
    local traces = trace.traces
    trace.rule(mapper.even_split, box.new({ 0 }, { 4 }), box.new({ 0 }, { 9 }))
    assert.equal(traces, trace.traces)
  end)

  it("refuse what they cannot do", function()
    local function flaw(f, ...)
      local ok, message = pcall(f, ...)
      assert.is_false(ok)
      return message
    end
    local match = assert.matches
    match("celer.one_to_one: the index space has 2 dimensions and the buffer has 1",
      flaw(trace.rule, mapper.one_to_one, range, box.new({ 0 }, { 4 })))
    match("celer.slice: the index space has 2 dimensions and the buffer has 3",
      flaw(trace.rule, mapper.slice(0), range, box.new({ 0, 0, 0 }, { 4, 4, 4 })))
    match("neighborhood has 1 number, and the index space 2 dimensions",
      flaw(trace.rule, mapper.neighborhood(1), range, range))
    match("neighborhood has 3 numbers, and the index space 2 dimensions",
      flaw(trace.rule, mapper.neighborhood(1, 2, 3, "along_axes"), range, range))
    match("transposed has 3 numbers, and the index space 2 dimensions",
      flaw(trace.rule, mapper.transposed(2, 1, 0), range, range))
    match("extent 1 is %-1", flaw(mapper.neighborhood, -1))
    match("no shape 'star'", flaw(mapper.neighborhood, 1, "star"))
    match("each dimension from 0 to 1 once", flaw(mapper.transposed, 0, 0))
    match("dimensions from 0, not x", flaw(mapper.slice, "x"))
    match("takes a celer.box, not a table", flaw(mapper.fixed, { 1 }))
  end)
end)

describe("arithmetic for mappers", function()
  it("is math's on plain numbers", function()
    assert.equal(-2, mapper.floor(-1.5))
    assert.equal(-1, mapper.ceil(-1.5))
    assert.equal(1, mapper.min(3, 1, 2))
    assert.equal(3, mapper.max(3, 1, 2))
    assert.equal(7, mapper.max(7))
  end)
end)
