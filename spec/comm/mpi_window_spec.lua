-- Which transfers may start: against a model that keeps plain sets.
local ffi = require("ffi")
local c = require("spec.support.cdef")("comm/mpi/mpi_window.h")

local function window(size, granted)
  local w = ffi.gc(ffi.new("cel_mpi_window"), c.cel_mpi_window_release)
  c.cel_mpi_window_init(w, size, granted)
  return w
end

-- Items are the sequence numbers themselves, plus one: zero would be null.
local function take(w, full)
  local item = c.cel_mpi_window_take(w, full)
  if item == nil then return nil end
  return tonumber(ffi.cast("uintptr_t", item)) - 1
end

local function add(w, sequence)
  c.cel_mpi_window_add(w, sequence, ffi.cast("void *", sequence + 1))
end

describe("a window", function()
  it("starts no transfer whose tag may be in use", function()
    local w = window(4, 1000)
    for q = 0, 9 do add(w, q) end
    local started = {}
    for q in function() return take(w, false) end do started[#started + 1] = q end
    assert.same({ 0, 1, 2, 3 }, started)
    c.cel_mpi_window_complete(w, 2)
    assert.is_nil(take(w, false))
    c.cel_mpi_window_complete(w, 0)
    assert.equal(4, take(w, false))
    assert.is_nil(take(w, false))
  end)

  it("starts nothing that the receiver has not granted", function()
    local w = window(8, 4)
    for q = 0, 9 do add(w, q) end
    for q = 0, 3 do
      assert.equal(q, take(w, false))
      c.cel_mpi_window_complete(w, q)
    end
    assert.is_nil(take(w, false))
    assert.is_nil(take(w, true))
    c.cel_mpi_window_credit(w, 1)
    assert.equal(4, take(w, false))
    c.cel_mpi_window_credit(w, 0) -- an older credit takes nothing back
    assert.is_nil(take(w, false))
  end)

  it("gives the first incomplete transfer alone when all is full", function()
    local w = window(8, 1000)
    add(w, 1)
    assert.is_nil(take(w, true))
    add(w, 0)
    assert.equal(0, take(w, true))
    assert.is_nil(take(w, true))
    c.cel_mpi_window_complete(w, 0)
    assert.equal(1, take(w, true))
  end)
end)

-- The lowest waiting number, if the model lets it start.
local function expected(model, size, full)
  local first
  for q in pairs(model.waiting) do
    if not first or q < first then first = q end
  end
  if not first or first >= model.granted then return nil end
  if full then return first == model.base and first or nil end
  return first < model.base + size and first or nil
end

local function step(w, model, size, top)
  local what = math.random(4)
  if what == 1 and #model.coming > 0 then
    local q = table.remove(model.coming, math.random(#model.coming))
    model.waiting[q] = true
    add(w, q)
  elseif what == 2 then
    local full = math.random(2) == 1
    local want = expected(model, size, full)
    assert.equal(want, take(w, full))
    if want then
      model.waiting[want] = nil
      table.insert(model.started, want)
    end
  elseif what == 3 and #model.started > 0 then
    local q = table.remove(model.started, math.random(#model.started))
    model.complete[q] = true
    while model.complete[model.base] do model.base = model.base + 1 end
    c.cel_mpi_window_complete(w, q)
  elseif what == 4 then
    local base = math.random(0, math.min(model.base, top))
    model.granted = math.max(model.granted, base + size / 2)
    c.cel_mpi_window_credit(w, base)
  end
  assert.equal(model.base, tonumber(w.base))
  c.cel_mpi_window_check(w)
end

describe("a window, at random,", function()
  for seed = 1, 30 do
    it("does as the model says, seed " .. seed, function()
      math.randomseed(seed)
      local size, top = 2 ^ math.random(1, 8), 300
      local w = window(size, size / 2)
      local model = {
        base = 0, granted = size / 2,
        coming = {}, waiting = {}, started = {}, complete = {},
      }
      for q = 0, top - 1 do model.coming[q + 1] = q end
      local steps = 0
      while model.base < top do
        step(w, model, size, top)
        steps = steps + 1
        assert.is_true(steps < 500000, "it gets stuck")
      end
    end)
  end
end)
