-- Copies of short rows: which go by the kernel, and that the kernel's own text
-- moves the right bytes, run thread by thread on the processor.
local ffi = require("ffi")
local nvrtc = require("spec.device.cuda")
local scratch = require("spec.support.scratch")
local c = require("spec.support.cdef")("device/cuda/cuda_copy.h", "tuning.h")

ffi.cdef([[
extern int launches, copies, dry;
extern unsigned long long units;
extern void *functions[5];
extern uint8_t memory[3][65536];
int launch(void), copy_1d(void), copy_3d(void);
]])

local function build()
  local library = scratch.path(".so")
  local command = ("%s -std=c++17 -O1 -I. -fPIC -shared spec/device/strided_host.cc -o %s")
    :format(os.getenv("CXX") or "c++", library)
  assert(os.execute(command) == 0, command)
  return ffi.load(library)
end

local driver = build()
local api = ffi.new("cel_cuda_api")
local cuda = ffi.new("cel_cuda")

local function reset()
  driver.launches, driver.copies, driver.units, driver.dry = 0, 0, 0, 0
end

-- One end: a place in `memory` with gaps between rows and planes.
local function layout(memory, width, rows, gap, offset)
  local e = ffi.new("cel_cuda_end")
  e.row = width + gap
  e.plane = e.row * (rows + (gap > 0 and math.random(0, 2) or 0))
  e.at = ffi.cast("uintptr_t", memory) + offset
  return e
end

local function copy(from, to, width, planes, rows)
  assert.equal(0, c.cel_cuda_copy(cuda, 0, from, to, width, planes, rows, nil))
end

describe("cel_cuda_copy", function()
  setup(function()
    api.cuLaunchKernel = ffi.cast("void *", driver.launch)
    api.cuMemcpyAsync = ffi.cast("void *", driver.copy_1d)
    api.cuMemcpy3DAsync_v2 = ffi.cast("void *", driver.copy_3d)
    cuda.api, cuda.devices = api, 1
  end)

  before_each(function()
    reset()
    cuda.pack_rows = c.CEL_TUNE_CUDA_PACK_ROWS
    for i = 0, 4 do cuda.device[0].pack[i] = driver.functions[i] end
  end)

  local size = 65536
  local from, to, want = driver.memory[0], driver.memory[1], driver.memory[2]

  local function by_hand(a, b, width, planes, rows)
    local base_a = tonumber(a.at - ffi.cast("uintptr_t", from))
    local base_b = tonumber(b.at - ffi.cast("uintptr_t", to))
    for p = 0, planes - 1 do
      for r = 0, rows - 1 do
        ffi.copy(want + base_b + p * tonumber(b.plane) + r * tonumber(b.row),
          from + base_a + p * tonumber(a.plane) + r * tonumber(a.row), width)
      end
    end
  end

  it("moves boxes of all shapes", function()
    math.randomseed(7)
    cuda.pack_rows = 1
    for i = 0, size - 1 do from[i] = math.random(0, 255) end
    for _ = 1, 300 do
      local width = 2 ^ math.random(0, 5) * math.random(1, 5)
      local planes, rows = math.random(1, 8), math.random(1, 12)
      local step = 2 ^ math.random(0, 4)
      local a = layout(from, width, rows, step * math.random(0, 3), step * math.random(0, 3))
      local b = layout(to, width, rows, step * math.random(0, 3), step * math.random(0, 3))
      ffi.fill(to, size, 0xEE)
      ffi.fill(want, size, 0xEE)
      by_hand(a, b, width, planes, rows)
      copy(a, b, width, planes, rows)
      assert.is_true(ffi.string(want, size) == ffi.string(to, size),
        ("%d x %d rows of %d bytes"):format(planes, rows, width))
    end
    assert.is_true(driver.launches > 100)
  end)

  it("takes the kernel where many rows are short, and the driver else", function()
    local function way(width, rows)
      reset()
      copy(layout(from, width, rows, 16, 0), layout(to, width, rows, 0, 0), width, 1, rows)
      return driver.launches, driver.copies
    end
    assert.same({ 1, 0 }, { way(4, 64) })
    assert.same({ 1, 0 }, { way(252, 100) })
    assert.same({ 0, 1 }, { way(256, 100) })
    assert.same({ 0, 1 }, { way(4, 63) })
    ffi.fill(cuda.device[0].pack, ffi.sizeof("CUfunction[5]")) -- it could not be loaded
    assert.same({ 0, 1 }, { way(4, 64) })
  end)

  it("copies what lies side by side as one piece, however short its rows", function()
    copy(layout(from, 4, 100, 0, 0), layout(to, 4, 100, 0, 0), 4, 1, 100)
    assert.same({ 0, 1 }, { driver.launches, driver.copies })
  end)

  it("moves the largest units that fit", function()
    for i, unit in ipairs({ 1, 2, 4, 8, 16 }) do
      reset()
      copy(layout(from, 48, 64, 16 + unit, 0), layout(to, 48, 64, 0, 0), 48, 1, 64)
      assert.equal(48 * 64 / unit, tonumber(driver.units), "case " .. i)
    end
  end)

  it("cuts what a launch cannot count", function()
    driver.dry = 1
    local rows = 2 ^ 31 - 1
    copy(layout(from, 4, rows, 4, 0), layout(to, 4, rows, 0, 0), 4, 3, rows)
    assert.equal(3 * rows, tonumber(driver.units))
    assert.equal(1, driver.launches)
    driver.launches, driver.units = 0, 0
    copy(layout(from, 4, rows, 4, 0), layout(to, 4, rows, 0, 0), 4, 5, rows)
    assert.equal(5 * rows, tonumber(driver.units))
    assert.equal(2, driver.launches)
  end)

  it("moves several boxes at once, in units that fit all", function()
    for i = 0, size - 1 do from[i] = math.random(0, 255) end
    ffi.fill(to, size, 0xEE)
    ffi.fill(want, size, 0xEE)
    local moves, step = ffi.new("cel_cuda_move[11]"), 4096
    for i = 0, 10 do
      local width, planes, rows = 4 * (i + 1), 1 + i % 3, 1 + i % 5
      local m = moves[i]
      m.from = layout(from, width, rows, 4 * (i % 2), step * i)
      m.to = layout(to, width, rows, 4 * (i % 3), step * i)
      m.width, m.planes, m.rows = width, planes, rows
      by_hand(m.from, m.to, width, planes, rows)
    end
    assert.equal(0, c.cel_cuda_pack(cuda, 0, moves, 8, nil))
    assert.equal(1, driver.launches)
    assert.equal(0, c.cel_cuda_pack(cuda, 0, moves + 8, 3, nil))
    assert.is_true(ffi.string(want, size) == ffi.string(to, size))
    ffi.fill(to, size, 0xEE)
    assert.equal(0, c.cel_cuda_pack(cuda, 0, moves, 11, nil))
    assert.equal(4, driver.launches)
    assert.is_true(ffi.string(want, size) == ffi.string(to, size))
  end)
end)

describe("the kernel for short rows", function()
  it("is one that NVRTC compiles", function()
    if nvrtc.no_nvrtc then return pending(nvrtc.no_nvrtc) end
    local image, said = nvrtc.compile(scratch.read("kernels/strided.cuh"), "strided.cuh")
    assert.is_not_nil(image, said)
    assert.equal("", (said:gsub("%z", "")))
  end)
end)
