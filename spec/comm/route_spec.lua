-- What items have pushed, looked at and combined. Over MPI: spec/system/language/route_spec.lua.
local ffi = require("ffi")
local c = require("spec.support.cdef")("comm/communicator.h", "comm/route.h")

-- Slots of items, each a list of { key, value }, with room for `most`; values are int32_t. A key
-- that is no number leads nowhere, and stands as kernels/route.cuh says.
local LEADS_NOWHERE = 2 ^ 31
local function slots_of(items, most, first, is_wide)
  local head = is_wide and 1 + most or math.ceil((1 + most) / 2)
  local words = head + math.ceil(most / 2)
  local at = ffi.new("uint64_t[?]", math.max(#items * words, 1))
  for i, pushes in ipairs(items) do
    local slot = at + (i - 1) * words
    local count = ffi.cast("uint32_t *", slot)
    count[0] = #pushes
    for n = 1, math.min(#pushes, most) do
      local key = pushes[n][1]
      if type(key) == "string" then
        count[0], slot[head] = LEADS_NOWHERE + n, ffi.cast("int64_t", tonumber(key))
        break
      end
      if is_wide then slot[n] = key else count[n] = key end
      ffi.cast("int32_t *", slot + head)[n - 1] = pushes[n][2]
    end
  end
  local bytes = ffi.cast("const char *", at)
  return ffi.new("cel_route_slots", { at = bytes, values = bytes + 8 * head, step = 8 * words,
    pitch = 8 * words, first = first or 0, items = #items, most = most, is_wide = is_wide or false,
    bytes = 4 }), at
end

local function keys_of(rows, row) return ffi.new("cel_route_keys", { rows = rows, row = row }) end

local function alone()
  local out = ffi.new("cel_comm *[1]")
  assert.equal(0, tonumber(c.cel_comm_alone(1, out)))
  return ffi.gc(out[0], c.cel_comm_destroy)
end

local items = { { { 3, 10 }, { 0, 1 } }, {}, { { 3, -4 } }, { { 5, 7 }, { 3, 2 } } }

describe("a route", function()
  it("finds the item with the most pushes, and the first key that leads nowhere", function()
    local function look(list, most, first)
      local slots, at = slots_of(list, most, first)
      local fault = ffi.new("cel_route_fault")
      c.cel_route_look(slots, fault)
      return { tonumber(fault.most), tonumber(fault.most_item), tonumber(fault.item),
        tonumber(fault.key) }, at
    end
    local wrong = { items[1], {}, items[3], { { "5", 7 }, { 3, 2 } } }
    assert.same({ 2, 0, -1, 0 }, (look(items, 2)))
    assert.same({ 2, 0, 3, 5 }, (look(wrong, 2)))
    assert.same({ 3, 1, 0, -1 }, (look({ { { "-1", 0 } }, { { 1, 1 }, { 1, 1 }, { 9, 1 } } }, 2)))
    assert.same({ 0, 0, -1, 0 }, (look({}, 2)))
    assert.same({ 2, 7, 10, 5 }, (look(wrong, 2, 7)))
  end)

  -- A rank alone finds it out when it combines or appends.
  it("leaves what there is where a key leads nowhere, or an item pushes too much", function()
    for most, list in pairs { [2] = { { { 3, 1 } }, { { 0, 1 }, { "6", 7 } } }, [1] = items } do
      local slots, at = slots_of(list, most)
      local came, fault, comm = ffi.new("cel_route_came"), ffi.new("cel_route_fault"), alone()
      assert.equal(0, tonumber(c.cel_route_exchange(comm, slots, keys_of(6, 1), fault, came)))
      assert.is_false(c.cel_route_is_fault(fault, most))
      local into, total = ffi.new("int32_t[6]", 8, 8, 8, 8, 8, 8), ffi.new("int64_t[1]")
      local type_ = ffi.new("cel_route_type", { op = "CEL_ROUTE_SUM", class_ = ("i"):byte(),
        size = 4, count = 1 })
      assert.is_false(c.cel_route_combine(came, type_, 0, 6, nil, into))
      for i = 0, 5 do assert.equal(8, into[i]) end
      assert.is_false(c.cel_route_combine(came, type_, 0, 6, ffi.new("int32_t[1]"), into))
      local offset, values = ffi.new("int64_t[7]", 9), ffi.new("int32_t[12]", 4)
      assert.equal(0, tonumber(c.cel_route_append(comm, came, ffi.new("cel_route_bins",
        { first = 0, count = 6, room = 12, bytes = 4, offset = offset, values = values,
          held = values, held_room = 0 }), total)))
      assert.same({ -1, 9, 4 }, { tonumber(total[0]), tonumber(offset[0]), values[0] })
      assert.is_not_nil(at)
    end
  end)

  for _, is_wide in ipairs { false, true } do
    local bits = is_wide and 64 or 32
    it(("combines in order, as numbers of their type, by keys of %d bits"):format(bits), function()
      local slots, at = slots_of(items, 2, 0, is_wide)
      local came, fault, comm = ffi.new("cel_route_came"), ffi.new("cel_route_fault"), alone()
      assert.equal(0, tonumber(c.cel_route_exchange(comm, slots, keys_of(6, 1), fault, came)))
      local function combined(op, class, identity)
        local into = ffi.new("int32_t[6]", 8, 8, 8, 8, 8, 8)
        c.cel_route_combine(came, ffi.new("cel_route_type", { op = op, class_ = class:byte(),
          size = 4, count = 1 }), 0, 6, identity and ffi.new("int32_t[1]", identity), into)
        return { into[0], into[1], into[3], into[5] }
      end
      assert.same({ 9, 8, 16, 15 }, combined("CEL_ROUTE_SUM", "i"))
      assert.same({ 1, 0, 8, 7 }, combined("CEL_ROUTE_SUM", "i", 0))
      assert.same({ 1, 1, -80, 7 }, combined("CEL_ROUTE_PROD", "i", 1))
      assert.same({ 1, 8, -4, 7 }, combined("CEL_ROUTE_MIN", "i"))
      assert.same({ 1, 8, 2, 7 }, combined("CEL_ROUTE_MIN", "u"))
      assert.same({ 8, 8, -4, 8 }, combined("CEL_ROUTE_MAX", "u"))
      assert.same({ 9, 8, -2, 15 }, combined("CEL_ROUTE_OR", "i"))
      assert.same({ 1, -1, 0, 7 }, combined("CEL_ROUTE_AND", "u", -1))
      c.cel_route_release(came)
      assert.is_not_nil(at)
    end)
  end

  it("combines by blocks: what comes to an element, and then what blocks come to", function()
    for _, width in ipairs { 1, 2 } do
      for _, n in ipairs { 1, 63, 64, 65, 128, 129, 1000 } do
        local values, keys = ffi.new("double[?]", 2 * width * n), ffi.new("int64_t[?]", 2 * n)
        local into, wanted = ffi.new("double[?]", 4 * width, 0.1), {}
        for i = 0, 2 * n - 1 do -- to elements 7 and 5 of 4 to 7
          keys[i] = i % 2 == 0 and 7 or 5
          for w = 0, width - 1 do values[i * width + w] = 1 / (i * 7 % 13 + w + 1) end
        end
        for _, first in ipairs { 0, 1 } do
          for w = 0, width - 1 do
            local sum, part = 0.1, nil
            for k = 0, n - 1 do
              local value = values[(2 * k + first) * width + w]
              if k < 64 then
                sum = sum + value
              elseif k % 64 == 0 then
                sum, part = part and sum + part or sum, value
              else
                part = part + value
              end
            end
            wanted[#wanted + 1] = part and sum + part or sum
          end
        end
        assert.is_true(c.cel_route_combine(ffi.new("cel_route_came", { count = 2 * n, key = keys,
          value = ffi.cast("char *", values) }), ffi.new("cel_route_type", {
          op = "CEL_ROUTE_SUM", class_ = ("f"):byte(), size = 8, count = width }), 4, 4, nil, into))
        local found = {}
        for _, key in ipairs { 3, 1 } do
          for w = 0, width - 1 do found[#found + 1] = into[key * width + w] end
        end
        assert.same(wanted, found)
        assert.equal(0.1, into[0])
      end
    end
  end)

  it("appends to bins in order, and says how much there is where it has no room", function()
    local slots, at = slots_of(items, 2)
    local came, fault, comm = ffi.new("cel_route_came"), ffi.new("cel_route_fault"), alone()
    local offset, values = ffi.new("int64_t[7]"), ffi.new("int32_t[12]")
    local function append(keep, room)
      assert.equal(0, tonumber(c.cel_route_exchange(comm, slots, keys_of(6, 1), fault, came)))
      local total = ffi.new("int64_t[1]")
      assert.equal(0, tonumber(c.cel_route_append(comm, came, ffi.new("cel_route_bins",
        { first = 0, count = 6, room = room, bytes = 4, offset = offset, values = values,
          held = values, held_room = keep and 12 or 0 }), total)))
      c.cel_route_release(came)
      local out = {}
      for i = 0, 6 do out[#out + 1] = tonumber(offset[i]) end
      for i = 0, 11 do out[#out + 1] = values[i] end
      return table.concat(out, " "), tonumber(total[0])
    end
    local once = "0 1 1 1 4 4 5 1 10 -4 2 7 0 0 0 0 0 0 0"
    assert.equal(once, (append(false, 12)))
    local text, total = append(true, 9)
    assert.equal(once, text)
    assert.equal(10, total)
    assert.equal("0 2 2 2 8 8 10 1 1 10 -4 2 10 -4 2 7 7 0 0", (append(true, 12)))
    assert.is_not_nil(at)
  end)
end)
