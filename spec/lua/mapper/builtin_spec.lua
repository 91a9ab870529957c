local asked = require("celer.mapper.asked")
local box = require("celer.box")
local mapper = require("celer.mapper.builtin")
local symbol = require("celer.symbol")
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

-- ---- edges --------------------------------------------------------------------

local V = symbol.variables

-- The boxes of a compiled rule for a chunk, cut to the buffer, as sets of elements: calls
-- f(i, j, k) for each.
local function elements(desc, params, chunk, space, extent, f)
  local from_zero, at = {}, 1
  for k = 1, #params do from_zero[k - 1] = params[k] end
  local env = { [V.min] = chunk.min, [V.max] = chunk.max, [V.global_min] = space.min,
    [V.global_max] = space.max, [V.buffer] = extent.size, [V.param] = from_zero }
  for b = 1, desc.boxes do
    local lo, hi = { 0, 0, 0 }, { 1, 1, 1 }
    for j = 1, desc.buffer_dims do
      lo[j] = symbol.run(desc.code, desc.spans[at], desc.spans[at + 1], env)
      hi[j] = symbol.run(desc.code, desc.spans[at + 2], desc.spans[at + 3], env)
      assert.is_true(desc.clamp[b])
      lo[j], hi[j], at = math.max(lo[j], 0), math.min(hi[j], extent.size[j - 1]), at + 4
    end
    for i = lo[1], hi[1] - 1 do
      for j = lo[2], hi[2] - 1 do
        for k = lo[3], hi[3] - 1 do f(i, j, k) end
      end
    end
  end
end

-- Where an index leads; nil: to no element.
local leads = {
  periodic = function(i, n) return i % n end,
  clamped = function(i, n) return math.max(0, math.min(i, n - 1)) end,
  mirrored = function(i, n)
    local k = i % (2 * n)
    return k < n and k or 2 * n - 1 - k
  end,
  constant = function(i, n) return i >= 0 and i < n and i or nil end,
}

-- By dimension, which elements a span of items reaches: a set.
local function reached(lead, lo, hi, r, n)
  local out = {}
  for i = lo - r, hi - 1 + r do
    local at = lead(i, n)
    if at then out[at] = true end
  end
  return out
end

-- What items of a chunk read by indices up to `reach` away, as a set of "i j k".
local function wanted(lead, chunk, extent, reach, shape)
  local out, dims = {}, extent.dims
  for axis = 0, shape == "along_axes" and dims - 1 or 0 do
    local sets = { { [0] = true }, { [0] = true }, { [0] = true } }
    for d = 0, dims - 1 do
      local r = (shape == "bounding_box" or d == axis) and reach[d + 1] or 0
      sets[d + 1] = reached(lead, chunk.min[d], chunk.max[d], r, extent.size[d])
    end
    for i in pairs(sets[1]) do
      for j in pairs(sets[2]) do
        for k in pairs(sets[3]) do out[i .. " " .. j .. " " .. k] = true end
      end
    end
  end
  return out
end

local function chunks_of(extent, visit)
  local lo, hi = {}, {}
  local function go(d)
    if d > extent.dims then return visit(box.new({ unpack(lo) }, { unpack(hi) })) end
    local n = extent.size[d - 1]
    for a = 0, n - 1, n > 3 and 2 or 1 do
      for b = a + 1, n do
        lo[d], hi[d] = a, b
        go(d + 1)
      end
    end
  end
  go(1)
end

local function make_edge(kind, reach, shape)
  local list = { unpack(reach) }
  list[#list + 1] = shape
  if kind == "constant" then return mapper.constant(0.5, unpack(list)) end
  return mapper[kind](unpack(list))
end

-- Mirror images and ends of what is read lie near it, so such mappers promise what lies
-- around a chunk, which may be more: what is read is in it.
local function check_edge(kind, extent, reach, shape)
  local map = make_edge(kind, reach, shape)
  local rule, params = trace.rule(map, extent, extent)
  assert.is_false(rule.opaque)
  chunks_of(extent, function(chunk)
    local want, exact = wanted(leads[kind], chunk, extent, reach, shape), kind ~= "mirrored"
    local lacks = 0
    for _ in pairs(want) do lacks = lacks + 1 end
    local seen, more = {}, 0
    elements(rule.desc, params, chunk, extent, extent, function(i, j, k)
      local key = i .. " " .. j .. " " .. k
      if seen[key] then return end
      seen[key] = true
      if want[key] then lacks = lacks - 1 else more = more + 1 end
    end)
    if lacks > 0 or exact and more > 0 then
      error(("%s %s of %s, reach %s, chunk %s: %d lack, %d are too many"):format(kind, shape,
        tostring(extent), table.concat(reach, " "), tostring(chunk), lacks, more))
    end
  end)
end

describe("the mappers of edges", function()
  local lists = { { { 1 }, { 2 }, { 3 }, { 7 } }, { { 1, 1 }, { 2, 3 }, { 5, 1 }, { 3, 4 } },
    { { 1, 1, 1 }, { 2, 1, 3 }, { 3, 4, 2 } } }
  local reaches = { { { 0 }, { 1 }, { 2 }, { 3 }, { 6 }, { 9 }, { 23 } },
    { { 1, 1 }, { 0, 2 }, { 4, 7 } }, { { 1, 1, 1 }, { 2, 0, 5 } } }

  for _, kind in ipairs { "periodic", "clamped", "mirrored", "constant" } do
    it("promise what is read, " .. kind .. ", of any extent and any reach", function()
      for dims, sizes in ipairs(lists) do
        for _, size in ipairs(sizes) do
          for _, reach in ipairs(reaches[dims]) do
            for _, shape in ipairs { "bounding_box", "along_axes" } do
              check_edge(kind, box.new({ unpack({ 0, 0, 0 }, 1, dims) }, size), reach, shape)
            end
          end
        end
      end
    end)
  end

  it("take one number for all dimensions, and are the same mapper for the same numbers",
    function()
      assert.equal(mapper.periodic(2), mapper.periodic(2))
      assert.not_equal(mapper.periodic(2), mapper.periodic(3))
      assert.not_equal(mapper.periodic(2), mapper.periodic(2, "along_axes"))
      assert.not_equal(mapper.periodic(2), mapper.mirrored(2))
      local cube = box.new({ 0, 0, 0 }, { 4, 5, 6 })
      local chunk = box.new({ 1, 1, 1 }, { 2, 3, 2 })
      assert.equal("[0, 3) x [0, 4) x [0, 3)",
        tostring(asked.evaluate(mapper.clamped(1), chunk, cube, cube)[1]))
      assert.same({ 2, 2, 2 }, mapper.edge(mapper.periodic(2)).reach)
      assert.equal("periodic", mapper.edge(mapper.periodic(2)).kind)
      assert.equal(7, mapper.edge(mapper.constant(7, 1)).value)
      assert.is_nil(mapper.edge(mapper.neighborhood(1)))
      local first = trace.rule(mapper.periodic(1), cube, cube)
      local before = trace.traces
      assert.equal(first, (trace.rule(mapper.periodic(2), cube, cube)))
      assert.equal(before, trace.traces)
    end)

  it("refuse what they cannot do", function()
    local function flaw(f, ...)
      local ok, message = pcall(f, ...)
      assert.is_false(ok)
      return message
    end
    local match = assert.matches
    match("celer.periodic: number 1 is %-1", flaw(mapper.periodic, -1))
    match("celer.clamped: number 2 is 0.5", flaw(mapper.clamped, 1, 0.5))
    match("celer.mirrored takes one number", flaw(mapper.mirrored))
    match("celer.mirrored takes one number", flaw(mapper.mirrored, 1, 1, 1, 1))
    match("no shape 'star'", flaw(mapper.periodic, 1, "star"))
    match("celer.constant takes what is read outside", flaw(mapper.constant))
    match("periodic has 2 numbers, and the index space 3 dimensions", flaw(trace.rule,
      mapper.periodic(1, 1), box.new({ 0, 0, 0 }, { 2, 2, 2 }), box.new({ 0, 0, 0 }, { 2, 2, 2 })))
    match("celer.clamped: the index space has 2 dimensions and the buffer has 1",
      flaw(trace.rule, mapper.clamped(1), range, box.new({ 0 }, { 4 })))
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
