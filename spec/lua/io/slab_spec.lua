-- Boxes between memory and files, against copies of single elements.
local ffi = require("ffi")
local slab = require("celer.io.slab")

-- A file that is an array, and counts the calls.
local function file_of(bytes)
  local file = { data = ffi.new("uint8_t[?]", bytes), calls = 0 }
  function file:read(p, n, at)
    self.calls = self.calls + 1
    assert(at >= 0 and at + n <= bytes)
    ffi.copy(p, self.data + at, n)
    return true
  end
  function file:write(p, n, at)
    self.calls = self.calls + 1
    assert(at >= 0 and at + n <= bytes)
    ffi.copy(self.data + at, p, n)
    return true
  end
  return file
end

-- A window of `dims` dimensions around `inner`, or a part of it.
local function around(inner, dims)
  local out = { unpack(inner) }
  for d = 1, dims do
    if math.random(2) == 1 then
      out[d], out[d + 3] = out[d] - math.random(0, 3), out[d + 3] + math.random(0, 3)
    end
  end
  return out
end

local function random_part(dims)
  local part = { 0, 0, 0, 1, 1, 1 }
  for d = 1, dims do
    part[d] = math.random(-4, 4)
    part[d + 3] = part[d] + math.random(0, 4)
  end
  return part
end

local function index(window, i, j, k)
  return ((i - window[1]) * (window[5] - window[2]) + j - window[2]) * (window[6] - window[3])
    + k - window[3]
end

local function each(part, f)
  for i = part[1], part[4] - 1 do
    for j = part[2], part[5] - 1 do
      for k = part[3], part[6] - 1 do f(i, j, k) end
    end
  end
end

describe("a slab", function()
  it("is the same elements as one by one, and nothing else changes", function()
    for _ = 1, 3000 do
      local dims, size, at = math.random(0, 3), math.random(3), math.random(0, 5)
      local part = random_part(dims)
      local window, memory = around(part, dims), around(part, dims)
      local n = slab.volume(memory) * size
      local file = file_of(at + slab.volume(window) * size)
      local p, wanted = ffi.new("uint8_t[?]", n + 1), ffi.new("uint8_t[?]", n + 1)
      for i = 0, ffi.sizeof(file.data) - 1 do file.data[i] = math.random(0, 255) end
      for i = 0, n do
        p[i] = math.random(0, 255)
        wanted[i] = p[i]
      end
      each(part, function(i, j, k)
        ffi.copy(wanted + index(memory, i, j, k) * size,
          file.data + at + index(window, i, j, k) * size, size)
      end)
      assert.is_true(slab.read(file, at, size, window, p, memory, part))
      assert.equal(ffi.string(wanted, n + 1), ffi.string(p, n + 1))

      each(part, function(i, j, k) p[index(memory, i, j, k) * size] = math.random(0, 255) end)
      local image = ffi.new("uint8_t[?]", ffi.sizeof(file.data))
      ffi.copy(image, file.data, ffi.sizeof(image))
      each(part, function(i, j, k)
        ffi.copy(image + at + index(window, i, j, k) * size,
          p + index(memory, i, j, k) * size, size)
      end)
      assert.is_true(slab.write(file, at, size, window, p, memory, part))
      assert.equal(ffi.string(image, ffi.sizeof(image)),
        ffi.string(file.data, ffi.sizeof(image)))
    end
  end)

  it("is written in pieces of rows, wherever they lie", function()
    for _ = 1, 1000 do
      local dims, size, tall = math.random(0, 3), math.random(3), math.random(3)
      local window, part = random_part(dims), nil
      part = { unpack(window) }
      for d = 1, dims do
        part[d] = math.random(window[d], window[d + 3])
        part[d + 3] = math.random(part[d], window[d + 3])
      end
      local piece = tall * size * (window[5] - window[2]) * (window[6] - window[3])
      local n = math.ceil((window[4] - window[1]) / tall)
      local file, places = file_of(n * piece), { 99 }
      for i = 1, n do places[i + 1] = (n - i) * piece end -- the last one comes first
      local image = ffi.new("uint8_t[?]", n * piece)
      local p = ffi.new("uint8_t[?]", slab.volume(part) * size)
      for i = 0, ffi.sizeof(p) - 1 do p[i] = math.random(255) end
      each(part, function(i, j, k)
        local row = i - window[1]
        local at = places[2 + math.floor(row / tall)]
          + index({ row - row % tall, unpack(window, 2) }, row, j, k) * size
        ffi.copy(image + at, p + index(part, i, j, k) * size, size)
      end)
      assert.is_true(slab.write_pieces(file, places, 2, tall, size, window, p, part, part))
      assert.equal(ffi.string(image, n * piece), ffi.string(file.data, n * piece))
    end
  end)

  it("takes one call where both sides have no gap", function()
    local whole, rows = { 0, 0, 0, 4, 5, 6 }, { 1, 0, 0, 3, 5, 6 }
    local p = ffi.new("uint8_t[120]")
    local function calls(window, memory, part)
      local file = file_of(slab.volume(window))
      slab.read(file, 0, 1, window, p, memory, part)
      return file.calls
    end
    assert.equal(1, calls(whole, whole, whole))
    assert.equal(1, calls(whole, rows, rows))
    assert.equal(1, calls(rows, whole, rows))
    assert.equal(2, calls(whole, whole, { 1, 1, 0, 3, 2, 6 }))
    assert.equal(4, calls(whole, whole, { 1, 1, 2, 3, 3, 4 }))
    assert.equal(0, calls(whole, whole, { 1, 1, 2, 1, 3, 4 }))
  end)

  it("ends with the first failure", function()
    local calls = 0
    local file = { write = function()
      calls = calls + 1
      return nil, "no room"
    end }
    local window = { 0, 0, 0, 4, 5, 1 }
    local ok, message = slab.write(file, 0, 1, window, ffi.new("uint8_t[20]"), window,
      { 0, 0, 0, 4, 2, 1 })
    assert.is_nil(ok)
    assert.equal("no room", message)
    assert.equal(1, calls)
  end)
end)
