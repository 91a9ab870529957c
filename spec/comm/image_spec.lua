-- What an index names, as runs of rows. Over MPI: spec/system/language/image_spec.lua.
local ffi = require("ffi")
local c = require("spec.support.cdef")("comm/communicator.h", "comm/image.h")

local KINDS = { elements = "CEL_IMAGE_ELEMENTS", offsets = "CEL_IMAGE_OFFSETS",
  pairs = "CEL_IMAGE_PAIRS" }

local function index_of(kind, entries, size)
  local base = ffi.new("int32_t[?]", #entries + 1, entries)
  return ffi.new("cel_image_index", { base = base, type = "CEL_IMAGE_INT32", kind = KINDS[kind],
    size = size or { #entries, 1, 1 },
    reach = { step = 1, last = -1, least = -2 ^ 40, most = 2 ^ 40, except = -2 ^ 50 } }), base
end

local function three(a, b, d) return ffi.new("int64_t[3]", a, b, d) end

-- The runs of a plan of what the entries name, by home; or the fault.
local function plan_of(rows, ranks, kind, entries, count, size, reach)
  local marks = ffi.gc(c.cel_image_marks_create(rows), c.cel_image_marks_destroy)
  local index, base = index_of(kind, entries, size)
  for name, value in pairs(reach or {}) do index.reach[name] = value end
  local fault = ffi.new("cel_image_fault")
  if not c.cel_image_mark(marks, index, three(0, 0, 0), three(count, 1, 1), fault) then
    return { tonumber(fault.at[0]), tonumber(fault.value) }, base
  end
  local words = tonumber(c.cel_image_words(rows, ranks))
  local plan = ffi.new("int64_t[?]", words + 1)
  plan[words] = 4711
  c.cel_image_list(marks, rows, ranks, plan)
  assert.equal(4711, tonumber(plan[words]))
  local out, runs = {}, plan + 2 * (ranks + 1)
  for k = 0, ranks - 1 do
    out[k + 1] = {}
    for i = tonumber(plan[k]), tonumber(plan[k + 1]) - 1 do
      table.insert(out[k + 1], ("%d-%d"):format(tonumber(runs[2 * i]), tonumber(runs[2 * i + 1])))
    end
    out[k + 1] = table.concat(out[k + 1], " ")
  end
  return out, plan
end

describe("an image", function()
  it("lists what is named as runs, by home, each row once", function()
    assert.same({ "0-1 2-4", "4-7", "9-10" },
      (plan_of(10, 3, "elements", { 9, 3, 2, 4, 3, 6, 5, 0, 4 }, 9)))
    assert.same({ "0-4", "4-7", "7-8" }, (plan_of(10, 3, "offsets", { 0, 3, 3, 8 }, 3)))
    assert.same({ "", "4-6", "7-10" },
      (plan_of(10, 3, "pairs", { 4, 6, 9, 9, 7, 10 }, 3, { 3, 2, 1 })))
  end)

  it("says which entry is wrong", function()
    assert.same({ 2, 10 }, (plan_of(10, 3, "elements", { 9, 3, 10 }, 3)))
    assert.same({ 1, -1 }, (plan_of(10, 3, "elements", { 9, -1, 10 }, 3)))
    assert.same({ 1, 7 }, (plan_of(10, 3, "offsets", { 0, 7, 6 }, 2)))
    assert.same({ 0, 3 }, (plan_of(10, 3, "offsets", { 3, 11 }, 1)))
  end)

  it("adds to what entries say, and leaves some out", function()
    local function of(reach, entries, kind, count)
      return (plan_of(10, 1, kind or "elements", entries, count or #entries, nil, reach))
    end
    assert.same({ "2-4" }, of({ low = -1, high = -1 }, { 3, 4 }))
    assert.same({ "1-6" }, of({ low = -2, high = 1 }, { 3, 4 }))
    assert.same({ 1, 9 }, of({ high = 1 }, { 3, 9 }))
    assert.same({ "3-4 9-10" }, of({ least = 0 }, { 3, -7, 9 }))
    assert.same({ "2-4" }, of({ low = -1, most = 3 }, { 3, 99 }))
    assert.same({ "3-4" }, of({ except = -1 }, { 3, -1 }))
    assert.same({ 1, -2 }, of({ except = -1 }, { 3, -2 }))
    assert.same({ 0, 2 ^ 31 - 1 }, of({ high = 1 }, { 2 ^ 31 - 1 }))
    -- Of ranges: what is counted from the first to the last, by steps from either end.
    assert.same({ "1-4" }, of({ first = -1, last = -2 }, { 2, 5 }, "offsets", 1))
    assert.same({ "2-5" }, of({ step = 2 }, { 2, 6 }, "offsets", 1))
    assert.same({ "3-6" }, of({ step = -2 }, { 2, 6 }, "offsets", 1))
    assert.same({ "2-6" }, of({ step = 2, high = 1 }, { 2, 6 }, "offsets", 1))
    assert.same({ 0, 9 }, of({ step = 1, high = 1 }, { 9, 10 }, "offsets", 1))
    assert.same({ "" }, of({ first = 1, high = 1 }, { 10, 10 }, "offsets", 1))
    assert.same({ "8-10" }, of({ first = 1 }, { 7, 10, 10 }, "offsets", 2))
    assert.same({ "3-6" }, of({ least = 3, most = 5 }, { 2, 9 }, "offsets", 1))
    assert.same({ "" }, of({ most = 1 }, { 2, 9 }, "offsets", 1))
    assert.same({ "4-5" }, of({ loop = true }, { 7, 4, 5 }, "offsets", 2))
    assert.same({ 0, 7 }, of({}, { 7, 4, 5 }, "offsets", 2))
  end)

  it("has room for whatever is named", function()
    for _, rows in ipairs { 1, 2, 63, 64, 65, 200 } do
      for _, ranks in ipairs { 1, 2, 7, 70 } do
        local entries, named = {}, {}
        for i = 0, rows - 1, 2 do entries[#entries + 1] = i end
        for i = 1, 9 do entries[#entries + 1] = i * 37 % rows end
        for _, row in ipairs(entries) do named[row] = true end
        local out = plan_of(rows, ranks, "elements", entries, #entries)
        local row = 0
        for k = 0, ranks - 1 do
          assert.equal(row, tonumber(c.cel_image_home(rows, k, ranks)))
          local last = tonumber(c.cel_image_home(rows, k + 1, ranks))
          for lo, hi in out[k + 1]:gmatch "(%d+)-(%d+)" do
            lo, hi = tonumber(lo), tonumber(hi)
            while row < lo do
              assert.is_nil(named[row])
              row = row + 1
            end
            while row < hi do
              assert.is_true(named[row])
              row = row + 1
            end
          end
          while row < last do
            assert.is_nil(named[row])
            row = row + 1
          end
        end
        assert.equal(rows, row)
      end
    end
  end)

  it("is of the rows of another one", function()
    local _, plan = plan_of(6, 2, "elements", { 5, 1, 2 }, 3)
    local marks = ffi.gc(c.cel_image_marks_create(20), c.cel_image_marks_destroy)
    local index, base = index_of("elements", { 19, 10, 11, 99, 98, 3 })
    local fault = ffi.new("cel_image_fault")
    assert.is_true(c.cel_image_mark_through(marks, index, plan, 2, fault))
    local other = ffi.new("int64_t[?]", tonumber(c.cel_image_words(20, 2)))
    c.cel_image_list(marks, 20, 2, other)
    assert.same({ 0, 1, 2 }, { tonumber(other[0]), tonumber(other[1]), tonumber(other[2]) })
    -- Of ranges whose plan has the row behind each.
    local offsets, numbers = index_of("offsets", { 0, 4, 7, 9, 11, 12 })
    local _, other_plan = plan_of(6, 2, "elements", { 2 }, 1, nil, { high = 1 }) -- of two homes
    marks = ffi.gc(c.cel_image_marks_create(20), c.cel_image_marks_destroy)
    assert.is_true(c.cel_image_mark_through(marks, offsets, other_plan, 2, fault))
    c.cel_image_list(marks, 20, 2, other)
    assert.same({ 7, 9 }, { tonumber(other[6]), tonumber(other[7]) })
    assert.equal(12, numbers[5])
    base[2] = 20
    assert.is_false(c.cel_image_mark_through(marks, index, plan, 2, fault))
    assert.equal(2, tonumber(fault.at[0]))
  end)

  it("is of rows that others mark, and lies between the first and the last", function()
    local first, last = ffi.new("int64_t[1]"), ffi.new("int64_t[1]")
    local function hull(marks)
      if not c.cel_image_hull(marks, first, last) then return {} end
      return { tonumber(first[0]), tonumber(last[0]) }
    end
    local function marked(rows, ...)
      local marks = ffi.gc(c.cel_image_marks_create(rows), c.cel_image_marks_destroy)
      for _, row in ipairs { ... } do c.cel_image_mark_rows(marks, row, row + 1) end
      return marks
    end
    assert.same({}, hull(marked(0)))
    assert.same({}, hull(marked(200)))
    assert.same({ 0, 1 }, hull(marked(1, 0)))
    assert.same({ 63, 129 }, hull(marked(200, 128, 63)))
    assert.same({ 64, 200 }, hull(marked(200, 64, 199)))
    local index, base = index_of("elements", { 19, 10, 11, 99, 98, 3 })
    local offsets, numbers = index_of("offsets", { 0, 4, 7, 9, 11, 12 })
    local marks, fault = marked(20), ffi.new("cel_image_fault")
    assert.is_true(c.cel_image_mark_along(marks, index, marked(6, 1, 2, 5), fault))
    assert.same({ 3, 12 }, hull(marks))
    marks = marked(20)
    assert.is_true(c.cel_image_mark_along(marks, offsets, marked(6, 1, 2, 4, 5), fault))
    assert.same({ 4, 12 }, hull(marks))
    assert.equal(12, numbers[5])
    base[2] = 20
    assert.is_false(c.cel_image_mark_along(marks, index, marked(6, 2), fault))
    assert.equal(2, tonumber(fault.at[0]))
  end)

  it("lies in boxes between its largest gaps", function()
    local function of(entries, gap, most)
      local _, plan = plan_of(100, 3, "elements", entries, #entries)
      local boxes, out = ffi.new("int64_t[?]", 2 * most), {}
      local n = tonumber(c.cel_image_boxes(plan, 3, gap, most, boxes))
      assert.is_true(n <= most)
      for k = 0, 2 * n - 1 do out[k + 1] = tonumber(boxes[k]) end
      return out
    end
    local some = { 0, 3, 4, 20, 33, 34, 99, 95, 60 }
    assert.same({ 0, 100 }, of(some, 1, 1))
    assert.same({ 0, 61, 95, 100 }, of(some, 1, 2))
    assert.same({ 0, 35, 60, 61, 95, 100 }, of(some, 1, 3))
    assert.same({ 0, 5, 20, 35, 60, 61, 95, 100 }, of(some, 13, 9))
    assert.same({ 0, 1, 3, 5, 20, 21, 33, 35, 60, 61, 95, 96, 99, 100 }, of(some, 1, 9))
    assert.same({ 7, 8 }, of({ 7 }, 1, 4))
    assert.same({ 0, 1 }, of({}, 1, 4))
  end)
end)
