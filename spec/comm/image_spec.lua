-- What an index names, as runs of rows. Over MPI: spec/system/language/image_spec.lua.
local ffi = require("ffi")
local c = require("spec.support.cdef")("comm/communicator.h", "comm/image.h")

local KINDS = { elements = "CEL_IMAGE_ELEMENTS", offsets = "CEL_IMAGE_OFFSETS",
  pairs = "CEL_IMAGE_PAIRS" }

local function index_of(kind, entries, size)
  local base = ffi.new("int32_t[?]", #entries + 1, entries)
  return ffi.new("cel_image_index", { base = base, type = "CEL_IMAGE_INT32", kind = KINDS[kind],
    size = size or { #entries, 1, 1 } }), base
end

local function three(a, b, d) return ffi.new("int64_t[3]", a, b, d) end

-- The runs of a plan of what the entries name, by home; or the fault.
local function plan_of(rows, ranks, kind, entries, count, size)
  local marks = ffi.gc(c.cel_image_marks_create(rows), c.cel_image_marks_destroy)
  local index, base = index_of(kind, entries, size)
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
    base[2] = 20
    assert.is_false(c.cel_image_mark_through(marks, index, plan, 2, fault))
    assert.equal(2, tonumber(fault.at[0]))
  end)
end)
