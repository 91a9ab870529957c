local ffi = require("ffi")
local asked = require("celer.mapper.asked")
local box = require("celer.box")
local describe_rule = require("celer.mapper.describe")
local mapper = require("celer.mapper.builtin")
local trace = require("celer.mapper.trace")
local c = require("spec.support.cdef")("rule/rule.h")

local store = c.cel_rules_create()
local out = ffi.new("const cel_rule *[1]")

local function intern(desc)
  local record, code, programs = describe_rule.desc(desc)
  assert(code and programs)
  assert.equal(0, tonumber(c.cel_rules_intern(store, record, out)))
  return out[0]
end

local function text(f, range, extent, split)
  return describe_rule.rule(c, intern, f, range, extent or range, split)
end

local square = box.new({ 0, 0 }, { 4, 4 })

describe("celer.rule", function()
  it("shows a neighbourhood as fit for reading only", function()
    assert.equal("rule: [chunk.min0 - 1, chunk.max0 + 1) x [chunk.min1 - 1, chunk.max1 + 1), "
      .. "clamped to the buffer\n"
      .. "monotone affine; union homomorphism: proved; non-overlapping: refuted, "
      .. "chunks [0,2) and [2,4) both touch (1, 0): fit for reading only",
      text(mapper.neighborhood(1, 1), square))
  end)

  it("shows the usual ones", function()
    assert.equal("rule: [chunk.min0, chunk.max0) x [chunk.min1, chunk.max1)\nidentity; "
      .. "union homomorphism: proved; non-overlapping: proved: fit for reading and writing",
      text(mapper.one_to_one, square))
    assert.matches("^rule: %[0, buffer.size0%)\nconstant; .*fit for reading only$",
      text(mapper.all, square, box.new({ 0 }, { 9 })))
    assert.matches("^rule: %[chunk.min1, chunk.max1%) x %[chunk.min0, chunk.max0%)\npermutation",
      text(mapper.transposed(1, 0), square))
    assert.matches("%[chunk.min0 %- 2, chunk.max0 %+ 2%) x %[chunk.min1, chunk.max1%), clamped",
      text(mapper.neighborhood(2, 0), square))
  end)

  it("depends on what may be cut", function()
    local rows = function(chunk) return chunk:with(1, 0, 4) end
    assert.matches("fit for reading and writing$", text(rows, square))
    assert.matches("refuted, chunks %[0,4%)x%[0,2%) and %[0,4%)x%[2,4%) both touch %(0, 0%)",
      text(rows, square, nil, { cut = { true, true } }))
  end)

  it("shows a refuted union, and what is opaque or traced at each use", function()
    local diagonal = function(k)
      return box.new({ k.min[0], k.min[0] }, { k.max[0], k.max[0] })
    end
    assert.matches("union homomorphism: refuted, chunks %[0,2%) and %[2,4%) differ from both as "
      .. "one chunk at %(0, 2%); non%-overlapping: proved: fit for writing, "
      .. "and for reading more than the parts of a chunk need",
      text(diagonal, square))
    local steps = { 1 }
    assert.matches("^rule: opaque: it compares bounds of its chunk, or captured numbers\n"
      .. "evaluated for every chunk when submitted$",
      text(function(k) return k.min[0] == 0 and k or k:grow(1, 1) end, square))
    assert.matches("\ntraced at each use: it reads the table 'steps'$",
      text(function(k) return k:with(0, steps[1], 2) end, square))
  end)
end)

describe("a traced rule", function()
  it("means in the engine what the mapper means in Lua", function()
    local t = 5
    local range, extent = box.new({ 0, 0 }, { 12, 10 }), box.new({ 0, 0 }, { 12, 12 })
    local region = ffi.new("cel_region")
    for _, f in ipairs({
      function(k) return box.new({ t, k.min[0] }, { t + 1, k.max[0] }) end,
      function(k) return box.new({ 0, 0 }, { t, k.global[0] }) end,
      function(k) return k:grow(1, 0), k:grow(0, 1) end,
      function(k)
        return box.new({ math.floor(k.min[0] / 3), 2 }, { math.ceil(k.max[0] / 3), t })
      end,
      mapper.slice(1), mapper.slice(0), mapper.all, mapper.neighborhood(2, 1, "along_axes"),
    }) do
      local rule, params = trace.rule(f, range, extent)
      local use, words = describe_rule.use(intern(rule.desc), params, range, extent)
      for a = 0, 11, 2 do
        local chunk = ffi.new("cel_box", { { a, 3, 0 }, { a + 1, 8, 1 } })
        assert.equal(0, tonumber(c.cel_rule_eval(use, chunk, region)))
        local expected = ffi.new("cel_region")
        for _, b in ipairs(asked.evaluate(f, box.new({ a, 3 }, { a + 1, 8 }), range, extent)) do
          local lo, hi = box.bounds(b)
          c.cel_region_add(expected, ffi.new("cel_box", { { lo[1], lo[2] }, { hi[1], hi[2], 1 } }))
        end
        assert.is_true(c.cel_region_equal(expected, region))
        c.cel_region_release(expected)
      end
      assert(words)
    end
  end)
end)
